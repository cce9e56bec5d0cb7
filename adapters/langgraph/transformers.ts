/** Runs the stream transformers of a graph on its protocol events. LangGraph runs them in version 3 of `streamEvents` alone. */
import type { ExecutorEvent } from "../../lib/executor/contract.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { GraphEvent, Transformer } from "./graph.ts";
import { isStreamChannel, type StreamChannel } from "./langgraph-internals.ts";
import { serializeValue } from "./serialize.ts";

export type ProtocolEvent = Extract<ExecutorEvent, { type: "event" }>;

const isPromise = (value: unknown): value is PromiseLike<unknown> =>
  typeof (value as { then?: unknown } | null | undefined)?.then === "function";

/** The transformers of one execution. */
export class Transformers {
  readonly #transformers: Transformer[] = [];
  readonly #channels: StreamChannel[] = [];
  /** The results that are emitted at the end, by name. */
  readonly #results: [name: string, value: PromiseLike<unknown>][] = [];
  #createdEvents: ProtocolEvent[] = [];
  #namespace: readonly string[] = [];
  #seq = 0;

  constructor(transformers: readonly (() => Transformer)[]) {
    for (const createTransformer of transformers) {
      const transformer = createTransformer();
      this.#transformers.push(transformer);
      transformer.onRegister?.({ push: (namespace, event) => this.#push(namespace, event) });
      const projection = transformer.init();
      if (typeof projection !== "object" || projection === null || "__native" in transformer) continue;
      for (const [name, value] of Object.entries(projection)) this.#connectProjection(name, value);
    }
  }

  /**
   * Returns the event, unless a transformer drops it, after the events that transformers create from it. `data` is the
   * graph's own value.
   */
  process(event: ProtocolEvent, data: unknown): ProtocolEvent[] {
    const { method, namespace, node } = event;
    const params = { namespace, timestamp: Date.now(), ...(node === undefined ? {} : { node }), data };
    const isKept = this.#runTransformers({ type: "event", seq: this.#seq++, method, params });
    const events = this.#drain();
    return isKept ? [...events, event] : events;
  }

  /**
   * Ends the transformers and their channels, and returns the events with their results. Errors of a transformer are ignored, and
   * results that are not ready then are dropped.
   */
  async end(): Promise<ProtocolEvent[]> {
    await Promise.allSettled(this.#transformers.map((transformer) => transformer.finalize?.()));
    for (const channel of this.#channels) channel._close();
    // A result that is still missing now may never come, and the run must end.
    const deadline = new Promise<undefined>((resolve) => setTimeout(resolve));
    for (const [name, result] of this.#results) {
      const payload = await Promise.race([result, deadline]).then(
        (value) => value,
        () => undefined,
      );
      if (payload !== undefined) this.#addCustomEvent(name, payload);
    }
    return this.#drain();
  }

  /**
   * Passes the error to all transformers and ends their channels with it. Created events stay until the next call that
   * returns them.
   */
  fail(error: unknown): void {
    for (const transformer of this.#transformers) transformer.fail?.(error);
    for (const channel of this.#channels) channel._fail(error);
  }

  /**
   * Connects one output of a transformer: the items of a named channel become custom events, a promise a result at the end. Other
   * values are ignored.
   */
  #connectProjection(name: string, value: unknown): void {
    if (isStreamChannel(value)) {
      this.#channels.push(value);
      const { channelName } = value;
      if (channelName !== undefined) value._wire((item) => this.#addCustomEvent(channelName, item));
    } else if (isPromise(value)) this.#results.push([name, value]);
  }

  /** Adds an event of method `custom` in the current namespace, with the item in wire form. `#drain` returns it. */
  #addCustomEvent(name: string, item: unknown): void {
    const data: JsonObject = { name, payload: serializeValue(item) };
    this.#createdEvents.push({ type: "event", method: "custom", namespace: this.#namespace, data });
  }

  /** Passes the event to all transformers. Returns false if one of them drops it. */
  #runTransformers(event: GraphEvent): boolean {
    const outerNamespace = this.#namespace;
    this.#namespace = event.params.namespace;
    const decisions = this.#transformers.map((transformer) => transformer.process(event));
    this.#namespace = outerNamespace;
    return decisions.every((isKept) => isKept);
  }

  /**
   * Adds an event that a transformer creates itself, after all transformers have seen it and none has dropped it. Only events of
   * method `custom` or `custom:name` reach clients.
   */
  #push(namespace: readonly string[], event: GraphEvent): void {
    if (!this.#runTransformers(event)) return;
    const { method, params } = event;
    const channelName = /^custom:(.+)$/s.exec(method)?.[1];
    const data = serializeValue(params.data);
    if (channelName !== undefined) this.#addCustomEvent(channelName, params.data);
    else if (method === "custom") this.#createdEvents.push({ type: "event", method, namespace, data });
  }

  /** Removes and returns the events that transformers have created. */
  #drain(): ProtocolEvent[] {
    const createdEvents = this.#createdEvents;
    this.#createdEvents = [];
    return createdEvents;
  }
}
