/** Stored events of threads as subscribers get them. */
import { type Environment, nextTurn } from "../environment.ts";
import type { Json } from "../json.ts";
import type { StoredThreadEvent } from "../storage/mod.ts";
import type { Passes, SentEvent } from "./protocol.ts";

export interface SentEventOptions {
  readonly environment: Environment;
  /** The values at a checkpoint; undefined if it is gone. */
  values(
    thread_id: string,
    checkpoint: { readonly checkpoint_ns: string; readonly checkpoint_id: string },
  ): Promise<Json | undefined>;
}

export function sentOf(event: StoredThreadEvent, data: string): SentEvent {
  const { seq, run_id, method, namespace, timestamp, node, name } = event;
  const id = run_id && method === "lifecycle" && namespace.length === 0 ? `synth:${run_id}:${seq}` : String(seq);
  const where = `"namespace":${JSON.stringify(namespace)},"timestamp":${timestamp}`;
  const params = `{${where}${node === undefined ? "" : `,"node":${JSON.stringify(node)}`},"data":${data}}`;
  const envelope = `{"type":"event","event_id":"${id}","seq":${seq},"method":"${method}","params":${params}}`;
  return { seq, id, event: method, namespace, name, data: envelope };
}

/** Values that are longer take their time: other requests come first. In characters. */
const LONG_VALUES = 64 * 1024;

/** Makes stored events those that are sent. Readers that need the same values at the same time share one read. */
export class SentEvents {
  readonly #options: SentEventOptions;
  readonly #reads = new Map<string, Promise<SentEvent | null>>();

  constructor(options: SentEventOptions) {
    this.#options = options;
  }

  /** The event as it is sent; null if its values can no longer be read. */
  async of(thread_id: string, event: StoredThreadEvent): Promise<SentEvent | null> {
    if (event.data !== null) return sentOf(event, event.data);
    const key = `${event.run_id} ${event.seq}`;
    const under = this.#reads.get(key);
    if (under) return under;
    const read = this.#read(thread_id, event).finally(() => this.#reads.delete(key));
    this.#reads.set(key, read);
    return read;
  }

  async #read(thread_id: string, event: StoredThreadEvent): Promise<SentEvent | null> {
    const { values, environment } = this.#options;
    const { checkpoint_id = "", namespace } = event;
    const found = await values(thread_id, { checkpoint_ns: namespace.join("|"), checkpoint_id });
    if (found === undefined) return null;
    const text = JSON.stringify(found);
    if (text.length > LONG_VALUES) await nextTurn(environment);
    return sentOf(event, text);
  }

  /** The events that pass. */
  async *passing(thread_id: string, events: readonly StoredThreadEvent[], passes: Passes): AsyncGenerator<SentEvent> {
    for (const event of events) {
      const sent = passes(event.method, event.namespace, event.name) ? await this.of(thread_id, event) : null;
      if (sent) yield sent;
    }
  }
}
