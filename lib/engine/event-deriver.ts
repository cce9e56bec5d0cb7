/** Makes protocol events of the root graph from what simple executors yield. */
import { createContentBlocks } from "../executor/content-blocks.ts";
import type { ExecutorEvent, StateEvent, StreamEvent } from "../executor/contract.ts";
import { isObject, type JsonObject } from "../json.ts";

/** An event as executors yield it. */
export type YieldedEvent = Omit<Extract<ExecutorEvent, { type: "event" }>, "type">;

export interface EventDeriver {
  take(event: ExecutorEvent): YieldedEvent[];
}

/** `all`: every method. Otherwise only states and interrupts. `stored`: the checkpoint of every state is stored, with its values. */
export function createEventDeriver(all: boolean, stored: boolean): EventDeriver {
  const blocks = all ? createContentBlocks() : null;

  const messages = (list: readonly Omit<YieldedEvent, "method">[]): YieldedEvent[] =>
    list.map((event) => ({ ...event, method: "messages" }));

  function takeStream({ mode, namespace = [], data }: StreamEvent): YieldedEvent[] {
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

  function takeState({ values, tasks, checkpoint }: StateEvent): YieldedEvent[] {
    // LangGraph does not show the state before the input either.
    if (!checkpoint || checkpoint.source === "input") return [];
    const { ns: _ns, checkpoint_id, ...about } = checkpoint;
    const { messages: list } = isObject(values) ? values : {};
    const completed = blocks && Array.isArray(list) ? messages(blocks.finish(list)) : [];
    const requested = tasks
      .flatMap((task) => task.interrupts)
      .map(
        ({ id: interrupt_id, value }): YieldedEvent => ({
          method: "input.requested",
          namespace: [],
          data: { interrupt_id, payload: value, value },
        }),
      );
    return [
      ...completed,
      { method: "checkpoints", namespace: [], data: { id: checkpoint_id, ...about } },
      { method: "values", namespace: [], data: all || !stored ? values : null, checkpoint_id },
      ...requested,
    ];
  }

  return {
    take(event) {
      if (event.type === "stream") return all ? takeStream(event) : [];
      return event.type === "state" ? takeState(event) : [];
    },
  };
}
