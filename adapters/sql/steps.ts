/** Calls of durable functions: what runs add to them, and the verbs on them, their journals and events. */
import type { Json } from "../../lib/json.ts";
import type { CallEvent, CallProgress, CallRow, CallStorage } from "../../lib/storage/mod.ts";
import { ENTRIES_AT_ONCE } from "../../lib/storage/steps.ts";
import { type Database, ofThread, readAll, readOne } from "./database.ts";
import type { SqlFeatureOf } from "./feature.ts";
import type { Statement } from "./query.ts";
import { callTables } from "./schema/steps.ts";
import type { RowsOf } from "./schema/tables.ts";
import type { LeaseFence } from "./statements/checkpoints.ts";
import {
  continueCall,
  copyCalls,
  copyEntries,
  countSuspendedRuns,
  deleteCallsOf,
  deleteEntriesOf,
  endCall,
  insertCall,
  insertCallToken,
  insertEvent,
  reopenCallsOf,
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
} from "./statements/steps.ts";

type Rows = RowsOf<typeof callTables>;

/** Returns the statements that store what a run adds to its call while the lease is held. */
function saved(fence: LeaseFence, { call }: { readonly call?: CallProgress }, now: number): Statement[] {
  if (!call) return [];
  const { call_id, opens, entries, tokens = [], position, leaves } = call;
  const args = { ...fence, call_id };
  return [
    ...(opens?.origin === undefined
      ? []
      : [insertCall({ ...args, graph_id: opens.graph_id, beginning: opens.origin })]),
    // The run of a new call is in its row.
    ...(opens && opens.origin === undefined ? [continueCall(args)] : []),
    ...(opens ? [setCallOfRun(args)] : []),
    ...upsertEntries(args, entries),
    ...tokens.map((token) => insertCallToken({ ...args, ...token })),
    ...(position === undefined ? [] : [setPosition({ ...args, position })]),
    ...(leaves?.ended === true ? [endCall({ ...args, due_at: leaves.due_at, now })] : []),
    ...(leaves && !leaves.ended ? [suspendCall({ ...args, due_at: leaves.due_at, after: leaves.seen, now })] : []),
  ];
}

export const steps: SqlFeatureOf<"steps", typeof callTables, { runs: "call_id" }> = {
  tables: callTables,
  runColumns: { call_id: ({ call_id }) => call_id ?? null },
  saved,
  deleted: { deleteEntriesOf, deleteCallsOf, reopenCallsOf },
  copied: { copyCalls, copyEntries },
  verbs: callVerbs,
};

function callVerbs(driver: Database): CallStorage {
  const lock = (deployment: string, thread_id: string): string[] => [ofThread(deployment, thread_id)];
  return {
    /** @statements selectCall */
    getCall: ({ deployment, filter }, thread_id, call_id) =>
      readOne(driver, selectCall({ deployment, thread_id, call_id }, filter), toCall),
    /** @statements selectNewestCall */
    newestCall: ({ deployment, filter }, thread_id) =>
      readOne(driver, selectNewestCall({ deployment, thread_id }, filter), toCall),
    /** @statements selectEntries */
    readEntries: ({ deployment, filter }, thread_id, call_id, idx) =>
      driver.read(selectEntries({ deployment, thread_id, call_id, idx, limit: ENTRIES_AT_ONCE }, filter)),
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
    dueCalls: ({ deployment }, now, limit) => readAll(driver, selectDueCalls({ deployment, now, limit }), toCall),
    /**
     * @statements setCallDue
     * @guards update where `due_at` is as seen and the call has not ended.
     */
    async setCallDue({ deployment }, { thread_id, call_id, due_at: seen }, due_at, ended_at) {
      if (seen === null) return;
      const key = { deployment, thread_id, call_id, before: seen, due_at, ended_at };
      await driver.batch([setCallDue(key)], lock(deployment, thread_id));
    },
  };
}

const toEvent = ({
  payload,
  ...event
}: Pick<Rows["call_events"], "seq" | "name" | "occurrence" | "payload">): CallEvent => ({
  ...event,
  payload: JSON.parse(payload) as Json,
});

const toCall = (row: Rows["calls"]): CallRow => ({
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
