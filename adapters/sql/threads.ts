/** Creates the storage operations on threads. */
import type { Json, JsonObject } from "../../lib/json.ts";
import type {
  InactiveThreadStatus,
  PruneStrategy,
  Scope,
  ThreadQuery,
  ThreadRow,
  ThreadStorage,
} from "../../lib/storage/mod.ts";
import type { Filter } from "../../lib/storage/visibility.ts";
import { decodeJson } from "./columns.ts";
import { createRowFinder, type Database, readOne, threadLockKey } from "./database.ts";
import { RUNS_DELETED, THREAD_COLUMNS } from "./features.ts";
import { toFilterArgument } from "./filter-argument.ts";
import {
  createIndexEntries,
  createNarrowingEntries,
  deleteIndexEntries,
  type IndexEntry,
  insertIndexEntries,
  replaceIndexEntries,
} from "./metadata-index.ts";
import type { Statement } from "./query.ts";
import { type MetadataSearch, searchRows } from "./search.ts";
import { createStateStatements, MARKED_RUN_COUNT } from "./state-updates.ts";
import { selectThreads } from "./statements/search.ts";
import {
  deleteEntriesOfAssistant,
  deleteOfAssistant,
  deleteOfThread,
  deleteThread,
  deleteThreadsOfAssistant,
  insertThread,
  keepClaimCountsOfAssistant,
  keepClaimCountsOfThread,
  selectThread,
  type ThreadWithRuns,
  updateThread,
} from "./statements/threads.ts";

/**
 * Returns the statements that delete the threads whose `metadata.assistant_id` is this assistant and that the filter permits.
 * They have no effect unless `markAssistant` comes before them in the batch and has marked the assistant.
 */
export function deleteAssistantThreads(
  deployment: string,
  assistant_id: string,
  filter: Filter | undefined,
): Statement<unknown>[] {
  const [[path_hash, value_hash]] = createIndexEntries({ assistant_id }) as readonly [IndexEntry];
  const member = JSON.stringify({ assistant_id }).slice(1, -1);
  const entry = { deployment, path_hash, value_hash };
  const args = { ...entry, member, assistant_id };
  const argument = toFilterArgument(filter);
  return [
    ...Object.keys(RUNS_DELETED).map((statement) =>
      deleteOfAssistant({ statement, filtered: argument !== null }, { ...args, filter: argument ?? "" }),
    ),
    keepClaimCountsOfAssistant(args, filter),
    deleteThreadsOfAssistant(args, filter),
    deleteEntriesOfAssistant(entry),
  ];
}

/** Creates the storage operations on threads. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createThreadStorage(driver: Database): ThreadStorage {
  const get = ({ deployment, filter }: Scope, thread_id: string): Promise<ThreadRow | null> =>
    readOne(driver, selectThread({ deployment, thread_id }, filter), toThread);
  return {
    /**
     * Inserts a thread, with its first state if it has one. Returns the existing thread as `exists`, also one that a filter
     * excludes.
     * @statements insertThread · createStateStatements · insertIndexEntries
     * @guards insert, `on conflict do nothing`, marked (negative `run_count`) if it has a state · state rows while
     *   marked · remove the mark · labels.
     */
    // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one batch and its outcomes, in their order
    async createThread(scope, thread, now) {
      const { deployment } = scope;
      const { thread_id, metadata, stateless } = thread;
      const insert = insertThread({
        deployment,
        thread_id,
        metadata: JSON.stringify(metadata),
        config: JSON.stringify(thread.config),
        hidden: stateless ? 1 : 0,
        graph_id: thread.state?.graph_id ?? null,
        head: thread.state?.head ?? null,
        run_count: thread.state ? MARKED_RUN_COUNT : 0,
        ...THREAD_COLUMNS.values(thread),
        now,
      });
      const state = thread.state ? createStateStatements(deployment, thread_id, thread.state) : [];
      const labels = stateless ? [] : insertIndexEntries("thread", deployment, thread_id, metadata);
      const lock_keys = [threadLockKey(deployment, thread_id)];
      for (;;) {
        const [inserted] = await driver.batch([insert, ...state, ...labels], lock_keys);
        if (inserted[0]) return { kind: "created", thread: toThread({ ...inserted[0], running: null, waiting: 0 }) };
        const existing = await get({ deployment }, thread_id);
        // Null if it was deleted since.
        if (existing) return { kind: "exists", thread: existing };
      }
    },

    /**
     * @statements selectThread
     * @guards `busy` is computed from runs and never stored.
     */
    getThread: get,

    /**
     * @statements searchRows
     * @guards As searchAssistants.
     */
    async searchThreads(scope, query) {
      const { rows, total } = await searchRows(driver, selectThreads, toSearch(scope, query), query);
      return { rows: rows.map(toThread), total };
    },

    /**
     * Stores the result of `next`. Calls it again if the thread changed meanwhile. Returns null if there is none.
     * @statements selectThread · updateThread · replaceIndexEntries
     * @guards read · update where `revision = seen` · labels. Retries.
     */
    async updateThread(scope, thread_id, next, now) {
      const { deployment } = scope;
      for (;;) {
        const current = await get(scope, thread_id);
        if (!current) return null;
        const { metadata, ttl = current.ttl } = next(current);
        const text = JSON.stringify(metadata);
        const terms = { ...THREAD_COLUMNS.values({ ...current, ttl }), expected_revision: current.revision, now };
        const [updated] = await driver.batch(
          [
            updateThread({ deployment, thread_id, metadata: text, ...terms }),
            ...replaceIndexEntries("thread", deployment, thread_id, metadata),
          ],
          [threadLockKey(deployment, thread_id)],
        );
        if (updated[0]) return toThread(updated[0]);
      }
    },

    /**
     * Deletes a thread with everything on it. Returns false if there was none.
     * @statements deleteOfThread · keepClaimCountsOfThread · deleteThread · deleteIndexEntries
     * @guards rows of features of its runs · keep its claim count (`claim-counts.ts`) · delete (runs, checkpoints, frames by foreign
     *   key) · labels if it is gone. Workers of its runs lose their lease.
     */
    async deleteThread({ deployment, filter }, thread_id) {
      const key = { deployment, thread_id };
      const argument = toFilterArgument(filter);
      const deleted = deleteThread(key, filter);
      const statements = [
        ...Object.keys(RUNS_DELETED).map((statement) =>
          deleteOfThread({ statement, filtered: argument !== null }, { ...key, filter: argument ?? "" }),
        ),
        keepClaimCountsOfThread(key, filter),
        deleted,
        deleteIndexEntries("thread", deployment, thread_id),
      ];
      const findRows = createRowFinder(
        statements,
        await driver.batch(statements, [threadLockKey(deployment, thread_id)]),
      );
      return findRows(deleted).length === 1;
    },
  };
}

/**
 * Returns the search for threads. Values are searched only by index entries, so it may find threads whose values do not match.
 */
function toSearch(
  { deployment, filter }: Scope,
  { metadata, values, ids, status, waiting }: ThreadQuery,
): MetadataSearch {
  const isOther = status !== undefined && status !== "busy" && status !== "interrupted";
  const where = {
    ids: ids && JSON.stringify(ids),
    busy: status === "busy" ? "" : undefined,
    interrupted: status === "interrupted" ? "" : undefined,
    status: isOther ? status : undefined,
    waiting: waiting ? "" : undefined,
  };
  return { kind: "thread", deployment, metadata, filter, where, values: values ? createNarrowingEntries(values) : [] };
}

/**
 * Converts a row. The status is `busy` with a running or due run, else the stored one. `expires_at` of the time to live counts
 * from the last change of the thread or its state.
 */
export function toThread(stored: ThreadWithRuns): ThreadRow {
  return {
    thread_id: stored.thread_id,
    created_at: stored.created_at,
    updated_at: stored.updated_at,
    state_updated_at: stored.state_updated_at,
    metadata: JSON.parse(stored.metadata) as JsonObject,
    config: JSON.parse(stored.config) as JsonObject,
    graph_id: stored.graph_id,
    status: stored.running !== null || stored.waiting ? "busy" : (stored.status as InactiveThreadStatus),
    head: stored.head,
    interrupts: JSON.parse(stored.interrupts) as JsonObject,
    error: decodeJson<Json>(stored.error),
    running: stored.running,
    lock: stored.slot_token === null ? null : { token: stored.slot_token, until: stored.slot_until as number },
    stateless: stored.hidden === 1,
    records_all: stored.all_events === 1,
    ttl:
      stored.ttl_ms === null
        ? null
        : {
            strategy: stored.ttl_strategy as PruneStrategy,
            ttl_ms: stored.ttl_ms,
            expires_at: Math.max(stored.updated_at, stored.state_updated_at) + stored.ttl_ms,
          },
    revision: stored.revision,
  };
}
