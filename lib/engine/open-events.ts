/**
 * Tracks the subgraphs, nodes and messages that the events of a run have started and not ended, and ends them when the run stops.
 */
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { NewEvent } from "../streams/thread-event.ts";

export class OpenEvents {
  /** The namespaces of subgraphs and nodes, with the names of their graphs. */
  readonly #graphs = new Map<string, { readonly namespace: readonly string[]; readonly graph_name: Json }>();
  readonly #messages = new Map<string, Pick<NewEvent, "namespace" | "node"> & { readonly run_id: Json }>();

  /** Tracks an event. Events must come in order; only starts and ends count. */
  follow(event: NewEvent): void {
    if (!isObject(event.data)) return;
    if (event.method === "lifecycle") this.#followGraph(event.namespace, event.data);
    else if (event.method === "messages") this.#followMessage(event, event.data);
  }

  /** Remembers a subgraph that has started, and forgets it at any other event of its life. Ignores the root graph. */
  #followGraph(namespace: readonly string[], data: JsonObject): void {
    if (namespace.length === 0) return;
    const key = JSON.stringify(namespace);
    if (data.event === "started") this.#graphs.set(key, { namespace, graph_name: data.graph_name ?? null });
    else this.#graphs.delete(key);
  }

  /** Remembers a message that has started, and forgets one that has ended. */
  #followMessage({ namespace, node }: NewEvent, { event, run_id = null }: JsonObject): void {
    if (event !== "message-start" && event !== "message-finish" && event !== "error") return;
    const key = JSON.stringify([namespace, run_id]);
    if (event === "message-start") this.#messages.set(key, { namespace, node, run_id });
    else this.#messages.delete(key);
  }

  /**
   * Returns the ends of all open messages, as errors with `message`, and then of the open subgraphs with `data`, inner ones
   * first. Nothing is open afterwards. Some clients wait for the end of a message.
   */
  close(data: JsonObject, message: string): readonly NewEvent[] {
    const messages = [...this.#messages.values()].map(
      ({ run_id, ...source }): NewEvent => ({
        ...source,
        method: "messages",
        data: { event: "error", message, run_id },
      }),
    );
    const graphs = [...this.#graphs.values()].reverse().map(({ namespace, graph_name }): NewEvent => {
      const end = graph_name === null ? data : { ...data, graph_name };
      return { method: "lifecycle", namespace, data: end };
    });
    this.#messages.clear();
    this.#graphs.clear();
    return [...messages, ...graphs];
  }
}
