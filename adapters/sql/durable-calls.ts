/** Calls of durable functions: what runs add to them, and the storage operations on them, their journals and events. */
import type { Json } from "../../lib/json.ts";
import type {
  DurableCallProgress,
  DurableCallRow,
  DurableCallStorage,
  ExternalEventRow,
} from "../../lib/storage/mod.ts";
import { JOURNAL_PAGE_ROWS } from "../../lib/storage/steps.ts";
import { type Database, readAll, readOne, threadLockKey } from "./database.ts";
import type { SqlFeatureFor } from "./feature.ts";
import type { Statement } from "./query.ts";
import { callTables } from "./schema/durable-calls.ts";
import type { RowsOf } from "./schema/tables.ts";
import type { LeaseFence } from "./statements/checkpoints.ts";
import {
  continueCall,
  copyCalls,
  copyEntries,
  countSuspendedRuns,
  deleteCallsOfRuns,
  deleteEntriesOfRuns,
  endCall,
  insertCall,
  insertCallToken,
  insertEvent,
  reopenCallsOfRuns,
  selectCall,
  selectCallOfToken,
  selectDueCalls,
  selectEntries,
  selectEvents,
  selectNewestCall,
  setCallDue,
  setCallOfRun,
  setPosition,
  suspendCall,
  upsertEntries,
  wakeCall,
  wakeRun,
} from "./statements/durable-calls.ts";

type Rows = RowsOf<typeof callTables>;

/**
 * Returns the statements that store what a run adds to its call while the lease is held: its start, journal entries, tokens,
 * position, and the release that ends or suspends the call. Returns none without a call.
 */
function onProgressSaved(
  fence: LeaseFence,
  { call }: { readonly call?: DurableCallProgress },
  now: number,
): Statement[] {
  if (!call) return [];
  const { call_id, start, entries, tokens = [], position, release } = call;
  const args = { ...fence, call_id };
  return [
    ...(start?.origin === undefined
      ? []
      : [insertCall({ ...args, graph_id: start.graph_id, beginning: start.origin })]),
    // The run of a new call is in its row.
    ...(start && start.origin === undefined ? [continueCall(args)] : []),
    ...(start ? [setCallOfRun(args)] : []),
    ...upsertEntries(args, entries),
    ...tokens.map((token) => insertCallToken({ ...args, ...token })),
    ...(position === undefined ? [] : [setPosition({ ...args, position })]),
    ...(release?.ended === true ? [endCall({ ...args, due_at: release.due_at, now })] : []),
    ...(release && !release.ended
      ? [suspendCall({ ...args, due_at: release.due_at, after: release.last_event_seq, now })]
      : []),
  ];
}

export const steps: SqlFeatureFor<"steps", typeof callTables, { runs: "call_id" }> = {
  tables: callTables,
  runColumns: { call_id: ({ call_id }) => call_id ?? null },
  onProgressSaved,
  onRunsDeleted: { deleteEntriesOfRuns, deleteCallsOfRuns, reopenCallsOfRuns },
  onThreadCopied: { copyCalls, copyEntries },
  operations: createDurableCallStorage,
};

/** Creates the storage operations on durable calls, their journal and their events. */
function createDurableCallStorage(driver: Database): DurableCallStorage {
  const lock = (deployment: string, thread_id: string): string[] => [threadLockKey(deployment, thread_id)];
  return {
    /** @statements selectCall */
    getCall: ({ deployment, filter }, thread_id, call_id) =>
      readOne(driver, selectCall({ deployment, thread_id, call_id }, filter), toCall),
    /** @statements selectNewestCall */
    getNewestCall: ({ deployment, filter }, thread_id) =>
      readOne(driver, selectNewestCall({ deployment, thread_id }, filter), toCall),
    /** @statements selectEntries */
    readJournalEntries: ({ deployment, filter }, thread_id, call_id, idx) =>
      driver.read(selectEntries({ deployment, thread_id, call_id, idx, limit: JOURNAL_PAGE_ROWS }, filter)),
    /** @statements selectEvents */
    readCallEvents: ({ deployment, filter }, thread_id, call_id, seq) =>
      readAll(driver, selectEvents({ deployment, thread_id, call_id, seq }, filter), toEvent),
    /** @statements selectCallOfToken */
    findToken: ({ deployment }, token_hash) =>
      readOne(driver, selectCallOfToken({ deployment, token_hash }), ({ name, occurrence, payload, ...call }) => ({
        call: toCall(call),
        name,
        occurrence,
        answer: payload === null ? undefined : (JSON.parse(payload) as Json),
      })),
    /**
     * Stores an event and makes its suspended run or its call due. Returns null, and changes nothing, if the call has ended or an
     * event came for this wait before.
     * @statements insertEvent · wakeRun · wakeCall
     * @guards add the event where the call has not ended, and none came for the same wait · make its suspended run due ·
     *   make the call due, if it has no active run. Null without rows of the first statement.
     */
    async addCallEvent({ deployment }, { thread_id, call_id }, { name, occurrence, payload }, now) {
      const key = { deployment, thread_id, call_id, now };
      const event = insertEvent({ ...key, name, occurrence, payload: JSON.stringify(payload) });
      const [added] = await driver.batch([event, wakeRun(key), wakeCall(key)], lock(deployment, thread_id));
      return added.length > 0 ? "stored" : null;
    },
    /** @statements countSuspendedRuns */
    async countSuspended({ deployment }) {
      const [row] = await driver.read(countSuspendedRuns({ deployment }));
      return row?.count ?? 0;
    },
    /** @statements selectDueCalls */
    listDueCalls: ({ deployment }, now, limit) => readAll(driver, selectDueCalls({ deployment, now, limit }), toCall),
    /**
     * Changes when a call is due, and ends it if `ended_at` is set, unless `due_at` has changed meanwhile or is null.
     * @statements setCallDue
     * @guards update where `due_at` is as seen and the call has not ended.
     */
    async setCallDue({ deployment }, { thread_id, call_id, due_at: previousDue }, due_at, ended_at) {
      if (previousDue === null) return;
      const key = { deployment, thread_id, call_id, before: previousDue, due_at, ended_at };
      await driver.batch([setCallDue(key)], lock(deployment, thread_id));
    },
  };
}

const toEvent = ({
  payload,
  ...event
}: Pick<Rows["call_events"], "seq" | "name" | "occurrence" | "payload">): ExternalEventRow => ({
  ...event,
  payload: JSON.parse(payload) as Json,
});

/** Converts a row. `copied` is true for a call without a first run, which came with the copy of a thread. */
const toCall = (row: Rows["calls"]): DurableCallRow => ({
  thread_id: row.thread_id,
  call_id: row.call_id,
  copied: row.first_run === "",
  graph_id: row.graph_id,
  run_id: row.run_id,
  origin: row.beginning,
  position: row.position,
  due_at: row.due_at,
  ended_at: row.ended_at,
});
