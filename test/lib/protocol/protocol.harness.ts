/** Events of a thread that a test writes, and a socket that it reads. */

import {
  compileFilter,
  type EventCounts,
  type EventFilter,
  type ProtocolEvent,
  type SerializedEvent,
  type ThreadEvents,
} from "../../../lib/streams/event-filter.ts";
import { createReader, type Reader } from "../../../lib/streams/log.ts";

/** An event as the service sends it. */
export function event(
  seq: number,
  method: ProtocolEvent["method"],
  params: Partial<ProtocolEvent["params"]> = {},
  event_id = `${seq}`,
): SerializedEvent {
  const envelope: ProtocolEvent = {
    type: "event",
    event_id,
    seq,
    method,
    params: { namespace: [], timestamp: 0, data: {}, ...params },
  };
  const { namespace, data } = envelope.params;
  const { name } = data as { name?: string };
  return { seq, id: event_id, event: method, namespace, name, data: JSON.stringify(envelope) };
}

/** Events of one thread in memory. */
export class MemoryEvents implements ThreadEvents {
  readonly all: SerializedEvent[] = [];
  /** Scope, thread and filter of each subscription. */
  readonly subscriptions: { readonly scope: object; readonly thread_id: string; readonly filter: EventFilter }[] = [];
  open = 0;
  #ended = false;
  readonly #wakes = new Set<() => void>();

  add(...events: readonly SerializedEvent[]): void {
    this.all.push(...events);
    this.#wake();
  }

  end(): void {
    this.#ended = true;
    this.#wake();
  }

  #wake(): void {
    for (const wake of [...this.#wakes]) wake();
  }

  async recordAll(): Promise<void> {}

  subscribe(scope: object, thread_id: string, filter: EventFilter): Reader<SerializedEvent> {
    this.subscriptions.push({ scope, thread_id, filter });
    this.open++;
    let at = 0;
    let hasLeft = false;
    const take = (): SerializedEvent[] => {
      const ready = this.all.slice(at).filter((event) => this.#passes(event, filter));
      at = this.all.length;
      return ready;
    };
    return createReader(
      async () => {
        while (!hasLeft) {
          const ready = take();
          if (ready.length > 0) return ready;
          if (this.#ended) break;
          await new Promise<void>((resolve) => {
            const wake = (): void => {
              this.#wakes.delete(wake);
              resolve();
            };
            this.#wakes.add(wake);
          });
        }
        return [];
      },
      () => {
        if (!hasLeft) this.open--;
        hasLeft = true;
        this.#wake();
      },
    );
  }

  async *readStored(_scope: object, _thread_id: string, filter: EventFilter): AsyncGenerator<SerializedEvent> {
    for (const event of [...this.all]) if (this.#passes(event, filter)) yield event;
  }

  async count(_scope: object, _thread_id: string, filters: readonly EventFilter[]): Promise<EventCounts> {
    const counts = filters.map((filter) => this.all.filter((event) => this.#passes(event, filter)).length);
    return { counts, last: await this.lastEventSeq() };
  }

  async lastEventSeq(): Promise<number> {
    return this.all.at(-1)?.seq ?? 0;
  }

  #passes(candidate: SerializedEvent, filter: EventFilter): boolean {
    return (
      candidate.seq > (filter.since ?? 0) && compileFilter(filter)(candidate.event, candidate.namespace, candidate.name)
    );
  }
}
