/** Derives events of the event protocol from the output of simple executors: those of the root graph. */
import { ContentBlocks, type MessageEvent } from "../executor/content-blocks.ts";
import type { ExecutorEvent, StateEvent, StreamEvent } from "../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";

export type YieldedEvent = Omit<Extract<ExecutorEvent, { type: "event" }>, "type">;

export class EventDeriver {
  readonly #derivesAll: boolean;
  readonly #areStatesStored: boolean;
  readonly #blocks: ContentBlocks | null;

  /**
   * `all` derives every method, otherwise only states and interrupts. `stored` means that the checkpoint of every state is stored
   * with its values.
   */
  constructor(all: boolean, stored: boolean) {
    this.#derivesAll = all;
    this.#areStatesStored = stored;
    this.#blocks = all ? new ContentBlocks() : null;
  }

  /**
   * Returns the events that clients derive from the executor's event; none if the run does not record all events, except for
   * states.
   */
  derive(event: ExecutorEvent): YieldedEvent[] {
    if (event.type === "state") return this.#deriveFromState(event);
    return event.type === "stream" && this.#derivesAll ? this.#deriveFromStream(event) : [];
  }

  /**
   * Converts a frame of a simple executor to thread events; an empty list for other modes. Wraps custom data without a `name` as
   * `payload`.
   */
  #deriveFromStream({ mode, namespace = [], data }: StreamEvent): YieldedEvent[] {
    switch (mode) {
      case "messages-tuple": {
        const [message, metadata] = (Array.isArray(data) ? data : []) as [JsonObject?, JsonObject?];
        return message ? toMessages(this.#blocks?.addMessage(message, metadata ?? {})) : [];
      }
      case "messages":
        return this.#finish(data);
      case "updates":
        return toUpdates(namespace, data);
      case "custom": {
        const hasName = isObject(data) && typeof data.name === "string";
        return [{ method: "custom", namespace, data: hasName ? data : { payload: data } }];
      }
      case "tasks":
        return [{ method: "tasks", namespace, data }];
      default:
        return [];
    }
  }

  /**
   * Converts a state to events: ends of messages, the checkpoint, the values and its interrupts; nothing for the state before the
   * input. The values are null if their checkpoint has them and only states are recorded.
   */
  #deriveFromState({ values, tasks, checkpoint }: StateEvent): YieldedEvent[] {
    // LangGraph does not emit the state before the input either.
    if (!checkpoint || checkpoint.source === "input") return [];
    const { ns: _ns, checkpoint_id, ...details } = checkpoint;
    const { messages = null } = isObject(values) ? values : {};
    const interruptEvents = tasks
      .flatMap((task) => task.interrupts)
      .map(
        ({ id: interrupt_id, value }): YieldedEvent => ({
          method: "input.requested",
          namespace: [],
          data: { interrupt_id, payload: value, value },
        }),
      );
    return [
      ...this.#finish(messages),
      { method: "checkpoints", namespace: [], data: { id: checkpoint_id, ...details } },
      {
        method: "values",
        namespace: [],
        data: this.#derivesAll || !this.#areStatesStored ? values : null,
        checkpoint_id,
      },
      ...interruptEvents,
    ];
  }

  /** Ends the messages of a list that have started. */
  #finish(messages: Json): YieldedEvent[] {
    return Array.isArray(messages) ? toMessages(this.#blocks?.finish(messages)) : [];
  }
}

const toMessages = (events: readonly Omit<MessageEvent, "args">[] = []): YieldedEvent[] =>
  events.map((event) => ({ ...event, method: "messages" }));

/** Returns an event for each node of an update, and none for an update with an interrupt. */
function toUpdates(namespace: readonly string[], data: Json): YieldedEvent[] {
  if (!isObject(data) || "__interrupt__" in data) return [];
  return Object.entries(data).map(([node, values]) => ({ method: "updates", namespace, node, data: { node, values } }));
}
