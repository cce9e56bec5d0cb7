/** Makes protocol events of the root graph from what simple executors yield. */
import { createContentBlocks } from "../executor/content-blocks.ts";
import type { ExecutorEvent, Interrupt, StateEvent } from "../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";

/** An event as executors yield it. */
export type YieldedEvent = Omit<Extract<ExecutorEvent, { type: "event" }>, "type">;

export interface EventDeriver {
  take(event: ExecutorEvent): YieldedEvent[];
  /** A state that the worker has stored. */
  takeState(values: Json, shown: JsonObject, interrupts: readonly Interrupt[]): YieldedEvent[];
}

/** `all`: every method. Otherwise only states and interrupts. `stored`: the checkpoint of every state is stored, with its values. */
export function createEventDeriver(all: boolean, stored: boolean): EventDeriver {
  const blocks = all ? createContentBlocks() : null;

  const messages = (list: readonly Omit<YieldedEvent, "method">[]): YieldedEvent[] =>
    list.map((event) => ({ ...event, method: "messages" }));

  function takeStream({ mode, namespace = [], data }: Extract<ExecutorEvent, { type: "stream" }>): YieldedEvent[] {
    switch (mode) {
      case "messages-tuple": {
        const [message, metadata] = (Array.isArray(data) ? data : []) as [JsonObject?, JsonObject?];
        return message && blocks ? messages(blocks.chunk(message, metadata ?? {})) : [];
      }
      case "messages":
        return blocks && Array.isArray(data) ? messages(blocks.finish(data)) : [];
      case "updates":
        if (!isObject(data) || "__interrupt__" in data) return [];
        return Object.entries(data).map(([node, values]) => ({
          method: "updates",
          namespace,
          node,
          data: { node, values },
        }));
      case "custom": {
        const named =
          isObject(data) && Object.keys(data).length === 2 && typeof data.name === "string" && "payload" in data;
        return [{ method: "custom", namespace, data: named ? data : { payload: data } }];
      }
      case "tasks":
        return [{ method: "tasks", namespace, data }];
      default:
        return [];
    }
  }

  function states(values: Json, checkpoint: JsonObject | null, interrupts: readonly Interrupt[]): YieldedEvent[] {
    const { messages: list } = isObject(values) ? values : {};
    const completed = blocks && Array.isArray(list) ? messages(blocks.finish(list)) : [];
    const id = checkpoint && typeof checkpoint.id === "string" ? checkpoint.id : undefined;
    const requested = interrupts.map(
      ({ id: interrupt_id, value }): YieldedEvent => ({
        method: "input.requested",
        namespace: [],
        data: { interrupt_id, payload: value, value },
      }),
    );
    return [
      ...completed,
      ...(checkpoint ? [{ method: "checkpoints", namespace: [], data: checkpoint } as const] : []),
      {
        method: "values",
        namespace: [],
        data: all || !stored || id === undefined ? values : null,
        ...(id === undefined ? {} : { checkpoint_id: id }),
      },
      ...requested,
    ];
  }

  return {
    take(event) {
      if (event.type === "stream") return all ? takeStream(event) : [];
      // Of a graph with its own checkpoints; the worker reports those that it records by `takeState`.
      return event.type === "state" && event.checkpoint
        ? states(event.values, { id: event.checkpoint.checkpoint_id }, interruptsOf(event))
        : [];
    },
    takeState(values, shown, interrupts) {
      // The state before the input was applied, which LangGraph does not show either.
      if (isObject(shown.metadata ?? null) && (shown.metadata as JsonObject).source === "input") return [];
      return states(values, envelope(shown), interrupts);
    },
  };
}

/** The interrupts of a state. */
export const interruptsOf = ({ tasks }: StateEvent): readonly Interrupt[] => tasks.flatMap((task) => task.interrupts);

/** What the protocol shows of a checkpoint. */
function envelope({ checkpoint, parent_checkpoint, metadata }: JsonObject): JsonObject {
  const idOf = (of: Json | undefined): Json =>
    isObject(of ?? null) ? ((of as JsonObject).checkpoint_id ?? null) : null;
  const { step = null, source = null } = isObject(metadata ?? null) ? (metadata as JsonObject) : {};
  const parent_id = idOf(parent_checkpoint);
  return { id: idOf(checkpoint), ...(parent_id === null ? {} : { parent_id }), step, source };
}
