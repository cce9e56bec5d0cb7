import type { Json, JsonObject } from "../../lib/json.ts";
import type {
  PruneStrategy,
  RestingStatus,
  Scope,
  ThreadQuery,
  ThreadRow,
  ThreadStorage,
} from "../../lib/storage/mod.ts";
import type { Filter } from "../../lib/storage/visibility.ts";
import { assigned, fromText, namesOf, valuesOf } from "./columns.ts";
import { holds } from "./dialect.ts";
import type { SqlRow } from "./driver.ts";
import { OF_THREAD, whenDeleted } from "./features.ts";
import { andOfPermitted, andPermitted, type Bound, filterable, scoped } from "./filter.ts";
import { addLabels, dropLabels, type Label, labelsOf, leftLabels, narrowingLabels, replaceLabels } from "./labels.ts";
import type { Tables } from "./schema/tables.ts";
import { findRows, type Sought } from "./search.ts";
import { MARKED, putState } from "./state-updates.ts";
import { type Args, type Database, ofThread, prepared, readOne, rowsIn, type Statement } from "./statement.ts";
import { selectThreads } from "./statements/search.ts";
import { type RawBuilder, sql } from "./template.ts";
import { running, waiting } from "./thread-status.ts";
import { firstTurn, keepTurns } from "./turns.ts";

export { busy } from "./thread-status.ts";

type Key = { deployment: string; thread_id: string };

type Columns = "metadata" | "config" | "hidden" | "graph_id" | "head" | "run_count";

// The revision is not 1: a thread that was deleted and created again must have another one than the old one.
const insertThread = prepared<Key & Args & Pick<Tables["threads"], Columns> & { now: number }>(
  (p) =>
    sql`insert into threads (deployment, thread_id, created_at, updated_at, state_updated_at, metadata, config, graph_id,
      status, head, interrupts, hidden, revision, run_count, turn, ${namesOf(OF_THREAD.names)})
    values (${p.deployment}, ${p.thread_id}, ${p.now}, ${p.now}, ${p.now}, ${p.metadata}, ${p.config}, ${p.graph_id},
      'idle', ${p.head}, '{}', ${p.hidden}, ${p.now}, ${p.run_count}, ${firstTurn(p)}, ${valuesOf(OF_THREAD.names, p)})
    on conflict do nothing returning *`,
);

const itsMetadata = sql`threads.metadata`;

const getThread = scoped<Key>(
  (p, bound) =>
    sql`select threads.*, ${running} as running, ${waiting} as waiting from threads
    where deployment = ${p.deployment} and thread_id = ${p.thread_id}${andPermitted(itsMetadata, bound)}`,
);

const updateMetadata = prepared<Key & Args & { metadata: string; seen_revision: number; now: number }>(
  (p) =>
    sql`update threads set metadata = ${p.metadata}, ${assigned(OF_THREAD.names, p)}, updated_at = ${p.now}, revision = revision + 1
    where deployment = ${p.deployment} and thread_id = ${p.thread_id} and revision = ${p.seen_revision}
    returning *, ${running} as running, ${waiting} as waiting`,
);

const keepItsTurn = scoped<Key>((p, bound) =>
  keepTurns(
    sql`threads where deployment = ${p.deployment} and thread_id = ${p.thread_id}${andPermitted(itsMetadata, bound)}`,
  ),
);

const deleteThread = scoped<Key>(
  (p, bound) =>
    sql`delete from threads where deployment = ${p.deployment} and thread_id = ${p.thread_id}
    ${andPermitted(itsMetadata, bound)} returning thread_id`,
);

const beforeDeletion = filterable<Key, Statement[]>((bound) =>
  whenDeleted(
    (p) => sql`select run_id from runs where deployment = ${p.deployment} and thread_id = ${p.thread_id}
      ${andOfPermitted("runs", bound(p))}`,
  ),
);

type Labelled = { deployment: string; path_hash: number; value_hash: number };

const labelled = (p: Labelled): RawBuilder<string> =>
  sql<string>`(select row_id from labels where deployment = ${p.deployment} and kind = 'thread'
    and path_hash = ${p.path_hash} and value_hash = ${p.value_hash})`;

type Named = Labelled & { text: string; assistant_id: string };

/** Threads of the assistant that the filter permits, once the assistant is deleted: the filter may have kept it. */
const ofAssistant = (p: Named, bound: Bound): RawBuilder<unknown> =>
  sql`threads where deployment = ${p.deployment} and thread_id in ${labelled(p)} and ${holds(itsMetadata, p.text)}
    and not exists (select 1 from assistants a where a.deployment = ${p.deployment} and a.assistant_id = ${p.assistant_id})
    ${andPermitted(itsMetadata, bound)}`;

const beforeLabelled = filterable<Named, Statement[]>((bound) =>
  whenDeleted(
    (p) => sql`select run_id from runs where deployment = ${p.deployment} and thread_id in
      (select thread_id from ${ofAssistant(p, bound(p))})`,
  ),
);

const keepLabelled = scoped<Named>((p, bound) => keepTurns(ofAssistant(p, bound)));

const deleteLabelled = scoped<Named>((p, bound) => sql`delete from ${ofAssistant(p, bound)}`);

const deleteLabelsLeft = prepared<Labelled>(
  (p) => sql`delete from ${leftLabels("thread")} and deployment = ${p.deployment} and row_id in ${labelled(p)}`,
);

/** After the batch has deleted an assistant: deletes its threads that the filter permits, found by `metadata.assistant_id`. */
export function deleteThreadsOf(deployment: string, assistant_id: string, filter: Filter | undefined): Statement[] {
  const [[path_hash, value_hash]] = labelsOf({ assistant_id }) as readonly [Label];
  // The label finds the rows by hash. The text in the stored JSON excludes other values with the same hash.
  const text = JSON.stringify({ assistant_id }).slice(1, -1);
  const labelled = { deployment, path_hash, value_hash, text, assistant_id };
  return [
    ...beforeLabelled(labelled, filter),
    keepLabelled(labelled, filter),
    deleteLabelled(labelled, filter),
    deleteLabelsLeft({ deployment, path_hash, value_hash }),
  ];
}

/** The verbs on threads. */
export function threadVerbs(driver: Database): ThreadStorage {
  const get = ({ deployment, filter }: Scope, thread_id: string): Promise<ThreadRow | null> =>
    readOne(driver, getThread({ deployment, thread_id }, filter), toThread);
  return {
    /**
     * @statements insertThread · putState · addLabels
     * @guards insert, `on conflict do nothing`, marked (negative `run_count`) if it has a state · state rows while
     *   marked · remove the mark · labels.
     */
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
        run_count: thread.state ? MARKED : 0,
        ...OF_THREAD.values(thread),
        now,
      });
      const state = thread.state ? putState(deployment, thread_id, thread.state) : [];
      const labels = stateless ? [] : addLabels("thread", deployment, thread_id, metadata);
      const lock_keys = [ofThread(deployment, thread_id)];
      for (;;) {
        const [inserted] = await driver.batch([insert, ...state, ...labels], lock_keys);
        if (inserted?.[0]) return { kind: "created", thread: toThread({ ...inserted[0], running: null, waiting: 0 }) };
        const there = await get({ deployment }, thread_id);
        // Null if it was deleted since.
        if (there) return { kind: "exists", thread: there };
      }
    },

    /**
     * @statements getThread
     * @guards `busy` is computed from runs and never stored.
     */
    getThread: get,

    /**
     * @statements findRows
     * @guards As searchAssistants.
     */
    async searchThreads(scope, query) {
      const { rows, total } = await findRows(driver, selectThreads, sought(scope, query), query);
      return { rows: rows.map(toThread), total };
    },

    /**
     * @statements getThread · updateMetadata · replaceLabels
     * @guards read · update where `revision = seen` · labels. Retries.
     */
    async updateThread(scope, thread_id, next, now) {
      const { deployment } = scope;
      for (;;) {
        const seen = await get(scope, thread_id);
        if (!seen) return null;
        const { metadata, ttl = seen.ttl } = next(seen);
        const text = JSON.stringify(metadata);
        const terms = { ...OF_THREAD.values({ ...seen, ttl }), seen_revision: seen.revision, now };
        const [updated] = await driver.batch(
          [
            updateMetadata({ deployment, thread_id, metadata: text, ...terms }),
            ...replaceLabels("thread", deployment, thread_id, metadata),
          ],
          [ofThread(deployment, thread_id)],
        );
        if (updated?.[0]) return toThread(updated[0]);
      }
    },

    /**
     * @statements deleteThread · beforeDeletion · keepItsTurn · dropLabels
     * @guards rows of features of its runs · keep its turn (`turns.ts`) · delete (runs, checkpoints, frames by foreign
     *   key) · labels if it is gone. Workers of its runs lose their lease.
     */
    async deleteThread({ deployment, filter }, thread_id) {
      const key = { deployment, thread_id };
      const deleted = deleteThread(key, filter);
      const statements = [
        ...beforeDeletion(key, filter),
        keepItsTurn(key, filter),
        deleted,
        dropLabels("thread", deployment, thread_id),
      ];
      const rowsOf = rowsIn(statements, await driver.batch(statements, [ofThread(deployment, thread_id)]));
      return rowsOf(deleted).length === 1;
    },
  };
}

function sought({ deployment, filter }: Scope, { metadata, values, ids, status, waiting }: ThreadQuery): Sought {
  const isOther = status !== undefined && status !== "busy" && status !== "interrupted";
  const where = {
    ids: ids && JSON.stringify(ids),
    busy: status === "busy" ? "" : undefined,
    interrupted: status === "interrupted" ? "" : undefined,
    status: isOther ? status : undefined,
    waiting: waiting ? "" : undefined,
  };
  return { kind: "thread", deployment, metadata, filter, where, values: values ? narrowingLabels(values) : [] };
}

/** A thread's row, with the columns `running` and `waiting`. */
export function toThread(row: SqlRow): ThreadRow {
  const stored = row as unknown as Tables["threads"] & { running: string | null; waiting: number };
  return {
    thread_id: stored.thread_id,
    created_at: stored.created_at,
    updated_at: stored.updated_at,
    state_updated_at: stored.state_updated_at,
    metadata: JSON.parse(stored.metadata) as JsonObject,
    config: JSON.parse(stored.config) as JsonObject,
    graph_id: stored.graph_id,
    status: stored.running !== null || stored.waiting ? "busy" : (stored.status as RestingStatus),
    head: stored.head,
    interrupts: JSON.parse(stored.interrupts) as JsonObject,
    error: fromText<Json>(stored.error),
    running: stored.running,
    slot: stored.slot_token === null ? null : { token: stored.slot_token, until: stored.slot_until as number },
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
