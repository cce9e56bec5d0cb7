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
  private readonly all: Transformer[] = [];
  private readonly channels: StreamChannel[] = [];
  /** Shown at the end, by name. */
  private readonly results: [name: string, value: PromiseLike<unknown>][] = [];
  private made: ProtocolEvent[] = [];
  private namespace: readonly string[] = [];
  private seq = 0;

  constructor(transformers: readonly (() => Transformer)[]) {
    for (const make of transformers) {
      const transformer = make();
      this.all.push(transformer);
      transformer.onRegister?.({ push: (namespace, event) => this.push(namespace, event) });
      const projection = transformer.init();
      if (typeof projection !== "object" || projection === null || "__native" in transformer) continue;
      for (const [name, value] of Object.entries(projection)) this.connect(name, value);
    }
  }

  /** The event, unless a transformer drops it, behind what transformers make of it. `data`: what the graph gave. */
  process(event: ProtocolEvent, data: unknown): ProtocolEvent[] {
    const { method, namespace, node } = event;
    const params = { namespace, timestamp: Date.now(), ...(node === undefined ? {} : { node }), data };
    const isKept = this.runTransformers({ type: "event", seq: this.seq++, method, params });
    const events = this.take();
    return isKept ? [...events, event] : events;
  }

  /** The execution is over: what transformers show at the end. */
  async end(): Promise<ProtocolEvent[]> {
    await Promise.allSettled(this.all.map((transformer) => transformer.finalize?.()));
    for (const channel of this.channels) channel._close();
    // A result that is still missing now may never come, and the run must end.
    const late = new Promise<undefined>((resolve) => setTimeout(resolve));
    for (const [name, result] of this.results) {
      const payload = await Promise.race([result, late]).then(
        (value) => value,
        () => undefined,
      );
      if (payload !== undefined) this.custom(name, payload);
    }
    return this.take();
  }

  fail(error: unknown): void {
    for (const transformer of this.all) transformer.fail?.(error);
    for (const channel of this.channels) channel._fail(error);
  }

  private connect(name: string, value: unknown): void {
    if (isStreamChannel(value)) {
      this.channels.push(value);
      const { channelName } = value;
      if (channelName !== undefined) value._wire((item) => this.custom(channelName, item));
    } else if (isPromise(value)) this.results.push([name, value]);
  }

  private custom(name: string, item: unknown): void {
    const data: JsonObject = { name, payload: serializeValue(item) };
    this.made.push({ type: "event", method: "custom", namespace: this.namespace, data });
  }

  /** False if one of them drops it. All of them see it. */
  private runTransformers(event: GraphEvent): boolean {
    const outer = this.namespace;
    this.namespace = event.params.namespace;
    const kept = this.all.map((transformer) => transformer.process(event));
    this.namespace = outer;
    return kept.every((one) => one);
  }

  /** An event that a transformer makes itself. */
  private push(namespace: readonly string[], event: GraphEvent): void {
    if (!this.runTransformers(event)) return;
    const { method, params } = event;
    const named = /^custom:(.+)$/s.exec(method)?.[1];
    const data = serializeValue(params.data);
    if (named !== undefined) this.custom(named, params.data);
    else if (method === "custom") this.made.push({ type: "event", method, namespace, data });
  }

  private take(): ProtocolEvent[] {
    const { made } = this;
    this.made = [];
    return made;
  }
}
