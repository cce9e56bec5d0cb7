/** Helpers for tests of thread events: readers that collect, replays, and short forms of events. */
import assert from "node:assert/strict";
import type { ExecutorEvent } from "../../lib/executor/contract.ts";
import type { Json, Service } from "../../lib/mod.ts";
import { serviceInternals } from "../../lib/service.ts";
import { EVENT_METHODS } from "../../lib/storage/mod.ts";
import { NO_FILTER, type Visibility } from "../../lib/storage/visibility.ts";
import type { EventFilter, ProtocolEvent, SerializedEvent } from "../../lib/streams/event-filter.ts";
import type { Reader } from "../../lib/streams/log.ts";
import { until } from "./until.ts";

export const ALL: EventFilter = {
  channels: [...EVENT_METHODS.filter((method) => !method.startsWith("input.")), "input"],
};

export const parse = ({ data, seq, id, event: method }: SerializedEvent): ProtocolEvent => {
  const event = JSON.parse(data) as ProtocolEvent;
  assert.deepEqual([event.seq, event.event_id, event.method], [seq, id, method]);
  return event;
};

export const subscribe = (
  service: Service,
  thread_id: string,
  filter: EventFilter = ALL,
  visibility: Visibility = NO_FILTER,
): Reader<SerializedEvent> =>
  serviceInternals(service).internalResources.protocol.subscribe(
    { deployment: "default", ...visibility },
    thread_id,
    filter,
  );

export interface Reading {
  readonly events: readonly ProtocolEvent[];
  /** The reader has ended by itself. */
  readonly ended: () => boolean;
  /** Waits for the ends of so many runs. */
  ends(count?: number): Promise<void>;
  close(): Promise<void>;
}

/** Reads live events of a thread. */
export function startReading(
  service: Service,
  thread_id: string,
  filter: EventFilter = ALL,
  visibility: Visibility = NO_FILTER,
): Reading {
  const iterator = subscribe(service, thread_id, filter, visibility)[Symbol.asyncIterator]();
  const events: ProtocolEvent[] = [];
  let ended = false;
  const done = (async () => {
    for (let step = await iterator.next(); !step.done; step = await iterator.next()) events.push(parse(step.value));
    ended = true;
  })();
  return {
    events,
    ended: () => ended,
    ends: (count = 1) => until(() => events.filter(isRootEnd).length >= count, `the ends of ${count} runs`),
    async close() {
      await iterator.return?.();
      await done;
    },
  };
}

/** Returns the events that are stored for a thread now. */
export async function readStoredEvents(
  service: Service,
  thread_id: string,
  filter: EventFilter = ALL,
  visibility: Visibility = NO_FILTER,
): Promise<ProtocolEvent[]> {
  const events: ProtocolEvent[] = [];
  for await (const event of serviceInternals(service).internalResources.protocol.readStored(
    { deployment: "default", ...visibility },
    thread_id,
    filter,
  )) {
    events.push(parse(event));
  }
  return events;
}

const isRoot = ({ method, params }: ProtocolEvent): boolean => method === "lifecycle" && params.namespace.length === 0;

export const getLifecycleWord = ({ params }: ProtocolEvent): string => (params.data as { event: string }).event;

export const isRootEnd = (event: ProtocolEvent): boolean => isRoot(event) && getLifecycleWord(event) !== "running";

/** Formats lifecycle and input events, each as one word: `running`, `a:1 started`, `input.requested q1`. */
export function formatOutline(events: readonly ProtocolEvent[]): string[] {
  return events.flatMap((event) => {
    const { method, params } = event;
    if (method === "lifecycle") return [[...params.namespace, getLifecycleWord(event)].join(" ")];
    if (!method.startsWith("input.")) return [];
    const { interrupt_id, interrupt_ids } = params.data as { interrupt_id?: Json; interrupt_ids?: Json };
    return [`${method} ${String(interrupt_id ?? interrupt_ids)}`];
  });
}

export const getSeqs = (events: readonly { readonly seq: number }[]): number[] => events.map(({ seq }) => seq);

/** Each `seq` is above the one before it. */
export function assertRising(events: readonly { readonly seq: number }[]): void {
  assert.deepEqual(
    getSeqs(events).filter((seq, at, all) => at > 0 && seq <= (all[at - 1] as number)),
    [],
  );
}

/** A child's lifecycle, as an executor yields it. */
export const createChildEvent = (event: string, ...namespace: string[]): ExecutorEvent => ({
  type: "event",
  method: "lifecycle",
  namespace,
  data: { event, graph_name: "child" },
});

export const createInputRequest = (interrupt_id: string): ExecutorEvent => ({
  type: "event",
  method: "input.requested",
  namespace: [],
  data: { interrupt_id, payload: "?", value: "?" },
});

export const createTokenEvent = (n: number, padding = 0): ExecutorEvent => ({
  type: "event",
  method: "custom",
  namespace: [],
  data: { payload: { n, padding: "x".repeat(padding) } },
});

/** Returns the numbers of `token` events. */
export const getTokenNumbers = (events: readonly ProtocolEvent[]): number[] =>
  events
    .filter(({ method }) => method === "custom")
    .map(({ params }) => (params.data as { payload: { n: number } }).payload.n);

export const finalState: ExecutorEvent = { type: "state", values: { done: true }, next: [], tasks: [] };
