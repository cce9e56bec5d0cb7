/** The subscriptions of one WebSocket, sent as one ordered sequence of events. */
import type { Reader } from "../streams/hub.ts";
import { compileFilter, type EventFilter, type Passes, type SentEvent } from "../streams/protocol.ts";

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
  /** Waits a moment for subscriptions that the client sends together. */
  gather(): Promise<void>;
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
 * All subscriptions share one reader, so that the end of a run follows all of its events, whichever subscription they are for. New
 * subscriptions first get the kept events up to the position of the reader, in one replay for those that came together: after a
 * reconnect the SDK sends all of its own at once. Then a reader with the wider filter goes on there.
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

  /** Sends what new subscriptions missed. */
  async function replay(fresh: readonly Subscription[], until: number): Promise<void> {
    const since = firstOf(fresh);
    if (since >= until) return;
    for await (const event of options.kept({ ...union(fresh), since })) {
      const wanting = fresh.filter(({ id }) => active.has(id));
      if (event.seq > until || wanting.length === 0) break;
      if (isWanted(event, wanting) && !(await options.send(event.data))) break;
    }
  }

  /** Sends live events until the subscriptions change. Resolves to false when the events have ended. */
  async function follow(reader: Reader<SentEvent>, since: number): Promise<boolean> {
    leave = reader.leave;
    try {
      while (version === since) {
        const ready = await reader.next();
        if (ready.length === 0) return version !== since;
        for (const event of ready) {
          // The position stays: the next reader begins with this event.
          if (version !== since) return true;
          position = Math.max(position ?? 0, event.seq);
          if (isWanted(event, active.values())) await options.send(event.data);
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
        const fresh = [...active.values()].filter(({ replayed }) => !replayed);
        if (fresh.length > 0) {
          await options.gather();
          if (version !== since) continue;
          for (const subscription of fresh) subscription.replayed = true;
          if (position === null) position = firstOf(fresh);
          else await replay(fresh, position);
          if (version !== since) continue;
        }
        const reader = options.subscribe({ ...union([...active.values()]), since: position ?? 0 });
        if (!(await follow(reader, since))) return true;
      }
      return false;
    },
  };
}

const sinceOf = ({ filter }: Subscription): number => filter.since ?? 0;

/** The lowest `seq` behind which one of them wants events. */
const firstOf = (all: readonly Subscription[]): number => Math.min(...all.map(sinceOf));

function isWanted({ seq, event, namespace, name }: SentEvent, by: Iterable<Subscription>): boolean {
  for (const one of by) if (seq > sinceOf(one) && one.passes(event, namespace, name)) return true;
  return false;
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
