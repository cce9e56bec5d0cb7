/** The subscriptions of one WebSocket, sent as one ordered sequence of events. */
import { compileFilter, type Passes } from "../streams/event-filter.ts";
import type { EventFilter, SentEvent } from "../streams/protocol.ts";
import type { Reader } from "../streams/reader.ts";

export interface Subscription {
  readonly id: string;
  readonly filter: EventFilter;
  readonly passes: Passes;
  /** True once it was sent what was kept up to the socket's position. */
  replayed: boolean;
}

export interface SubscriptionOptions {
  subscribe(filter: EventFilter): Reader<SentEvent>;
  kept(filter: EventFilter): AsyncIterable<SentEvent>;
  /** Sends an event. Resolves when there is room for the next one; to false when the socket has closed. */
  send(text: string): Promise<boolean>;
}

export interface Subscriptions {
  readonly size: number;
  /** How many namespaces their filters have: each event is compared with all of them. */
  readonly namespaces: number;
  add(id: string, filter: EventFilter): void;
  /** False if there is none. */
  remove(id: string): boolean;
  /** Sends events until `close`, the end of the events, or a failed read. Resolves to false after `close`. */
  run(): Promise<boolean>;
  close(): void;
}

/**
 * All subscriptions share one reader, so that the end of a run follows all of its events, whichever subscription they are for. A
 * new subscription first gets the kept events up to the position of the reader. Then a reader with the wider filter goes on there.
 */
export function createSubscriptions(options: SubscriptionOptions): Subscriptions {
  const active = new Map<string, Subscription>();
  let closed = false;
  /** The `seq` of the last event that was read; null before the first subscription. */
  let position: number | null = null;
  /** Counts the changes of `active`. */
  let version = 0;
  let leave = (): void => {};

  function update(): void {
    version++;
    leave();
  }

  /** Sends what one subscription missed. */
  async function replay({ id, filter }: Subscription, until: number): Promise<void> {
    if ((filter.since ?? 0) >= until) return;
    for await (const event of options.kept(filter)) {
      if (event.seq > until || !active.has(id) || !(await options.send(event.text))) break;
    }
  }

  function wants(event: SentEvent): boolean {
    const all = [...active.values()];
    const late = all.filter(({ filter }) => event.seq > (filter.since ?? 0));
    // The reader has the filter of a single subscription.
    if (all.length === 1 || late.length === 0) return late.length > 0;
    return late.some(({ passes }) => passes(event.method, event.namespace, event.name));
  }

  /** Sends live events until the subscriptions change. Resolves to false when the events have ended. */
  async function follow(reader: Reader<SentEvent>, since: number): Promise<boolean> {
    leave = reader.leave;
    try {
      while (version === since) {
        const ready = await reader.next();
        if (ready.length === 0) return closed || version !== since;
        for (const event of ready) {
          // The position stays: the next reader begins with this event.
          if (version !== since) return true;
          position = Math.max(position ?? 0, event.seq);
          if (wants(event)) await options.send(event.text);
        }
      }
      return true;
    } finally {
      reader.leave();
    }
  }

  return {
    get size() {
      return active.size;
    },
    get namespaces() {
      return [...active.values()].reduce((sum, { filter }) => sum + (filter.namespaces?.length ?? 0), 0);
    },
    add(id, filter) {
      active.set(id, { id, filter, passes: compileFilter(filter), replayed: false });
      update();
    },
    remove(id) {
      const removed = active.delete(id);
      if (removed) update();
      return removed;
    },
    close() {
      closed = true;
      active.clear();
      update();
    },
    async run() {
      while (!closed) {
        const since = version;
        for (const subscription of [...active.values()].filter(({ replayed }) => !replayed)) {
          subscription.replayed = true;
          if (position === null) position = subscription.filter.since ?? 0;
          else await replay(subscription, position);
        }
        if (version !== since) continue;
        const reader = options.subscribe({ ...union([...active.values()]), since: position ?? 0 });
        if (!(await follow(reader, since))) return true;
      }
      return false;
    },
  };
}

/** A filter that lets pass what any of them lets pass, and perhaps more. */
function union(all: readonly Subscription[]): EventFilter {
  const filters = all.map(({ filter }) => filter);
  const channels = [...new Set(filters.flatMap((filter) => filter.channels))];
  if (!filters.every(({ namespaces = [] }) => namespaces.length > 0)) return { channels };
  const namespaces = filters.flatMap((filter) => filter.namespaces ?? []);
  const depths = filters.map(({ depth = Number.POSITIVE_INFINITY }) => depth);
  const depth = Math.max(...depths);
  return { channels, namespaces, ...(Number.isFinite(depth) ? { depth } : {}) };
}
