import { type RawBuilder, type SelectQueryBuilder, sql } from "kysely";
import type { Json, JsonObject } from "../../lib/json.ts";
import type {
  PruneStrategy,
  Scope,
  Storage,
  ThreadQuery,
  ThreadRest,
  ThreadRow,
  ThreadTtl,
} from "../../lib/storage.ts";
import { db, each } from "./dialect.ts";
import type { SqlDriver, SqlRow, SqlStatement } from "./driver.ts";
import { dropTokens } from "./feedback.ts";
import { addLabels, countRows, type Label, labelsOf, narrowing, replaceLabels, searchRows } from "./labels.ts";
import type { Tables } from "./schema.ts";
import { shape, statement } from "./statement.ts";

type Key = { deployment: string; thread_id: string };
type Ttl = { ttl_strategy: string | null; ttl_ms: number | null };

const running = sql<string | null>`(select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running')`;

const waiting = sql<number>`exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending')`;

/** True for a thread with a pending or running run. */
export const busy: RawBuilder<number> = sql<number>`(${running} is not null or ${waiting})`;

const effectiveStatus = sql<string>`case when ${busy} then 'busy' else threads.status end`;

const insertThread = shape<Key & Ttl & { metadata: string; config: string; hidden: number; now: number }>((p) =>
  db
    .insertInto("threads")
    .values({
      deployment: p.deployment,
      thread_id: p.thread_id,
      created_at: p.now,
      updated_at: p.now,
      state_updated_at: p.now,
      metadata: p.metadata,
      config: p.config,
      graph_id: null,
      status: "idle",
      head: null,
      interrupts: "{}",
      error: null,
      hidden: p.hidden,
      // Not 1: a thread that was deleted and made again must not look unchanged to somebody who saw the old one.
      revision: p.now,
      slot_token: null,
      slot_until: null,
      last_run: null,
      run_count: 0,
      ttl_strategy: p.ttl_strategy,
      ttl_ms: p.ttl_ms,
      pruned_at: null,
    })
    .onConflict((conflict) => conflict.doNothing())
    .returningAll(),
);

const getThread = shape<Key>((p) =>
  db
    .selectFrom("threads")
    .selectAll()
    .select([running.as("running"), waiting.as("waiting")])
    .where("deployment", "=", p.deployment)
    .where("thread_id", "=", p.thread_id),
);

const updateMetadata = shape<Key & Ttl & { metadata: string; seen: number; now: number }>((p) =>
  db
    .updateTable("threads")
    .set({
      metadata: p.metadata,
      ttl_strategy: p.ttl_strategy,
      ttl_ms: p.ttl_ms,
      updated_at: p.now,
      revision: sql<number>`revision + 1`,
    })
    .where("deployment", "=", p.deployment)
    .where("thread_id", "=", p.thread_id)
    .where("revision", "=", p.seen)
    .returningAll()
    .returning([running.as("running"), waiting.as("waiting")]),
);

const deleteThread = shape<Key>((p) =>
  db
    .deleteFrom("threads")
    .where("deployment", "=", p.deployment)
    .where("thread_id", "=", p.thread_id)
    .returning("thread_id"),
);

const dropItsTokens = dropTokens<Key>(
  (p) => sql`select run_id from runs where deployment = ${p.deployment} and thread_id = ${p.thread_id}`,
);

const deleteLabels = shape<Key>((p) =>
  db
    .deleteFrom("labels")
    .where("deployment", "=", p.deployment)
    .where("kind", "=", "thread")
    .where("row_id", "=", p.thread_id),
);

type Labelled = { deployment: string; path: number; value: number };

const labelled = (p: Labelled): RawBuilder<string> =>
  sql<string>`(select row_id from labels where deployment = ${p.deployment} and kind = 'thread'
    and path_hash = ${p.path} and value_hash = ${p.value})`;

const dropLabelled = dropTokens<Labelled & { text: string }>(
  (
    p,
  ) => sql`select run_id from runs where deployment = ${p.deployment} and thread_id in (select t.thread_id from threads t
    where t.deployment = ${p.deployment} and t.thread_id in ${labelled(p)} and instr(t.metadata, ${p.text}) > 0)`,
);

const deleteLabelled = shape<Labelled & { text: string }>((p) =>
  db
    .deleteFrom("threads")
    .where("deployment", "=", p.deployment)
    .where("thread_id", "in", labelled(p))
    .where(sql<boolean>`instr(metadata, ${p.text}) > 0`),
);

const deleteLabelsLeft = shape<Labelled>((p) =>
  db
    .deleteFrom("labels")
    .where("deployment", "=", p.deployment)
    .where("kind", "=", "thread")
    .where("row_id", "in", labelled(p))
    .where(sql<boolean>`not exists (select 1 from threads t
      where t.deployment = labels.deployment and t.thread_id = labels.row_id)`),
);

/** Deletes the threads whose `metadata.assistant_id` is this one. */
export function deleteThreadsOf(deployment: string, assistant_id: string): SqlStatement[] {
  const [[path, value]] = labelsOf({ assistant_id }) as readonly [Label];
  // The label says where the value stands, the text of the stored JSON that it is this one and no other of the same hash.
  const text = JSON.stringify({ assistant_id }).slice(1, -1);
  const labelled = { deployment, path, value, text };
  return [dropLabelled(labelled), deleteLabelled(labelled), deleteLabelsLeft({ deployment, path, value })];
}

/** The verbs on threads. */
export function threadVerbs(
  driver: SqlDriver,
): Pick<Storage, "createThread" | "getThread" | "searchThreads" | "countThreads" | "updateThread" | "deleteThread"> {
  const get = async (scope: Scope, thread_id: string): Promise<ThreadRow | null> => {
    const [row] = await driver.read(getThread({ deployment: scope.deployment, thread_id }));
    return row ? toThread(row) : null;
  };
  return {
    async createThread(scope, thread, now) {
      const { deployment } = scope;
      const { thread_id, metadata, hidden } = thread;
      const insert = insertThread({
        deployment,
        thread_id,
        metadata: JSON.stringify(metadata),
        config: JSON.stringify(thread.config),
        hidden: hidden ? 1 : 0,
        ...ttlColumns(thread.ttl ?? null),
        now,
      });
      const labels = hidden ? [] : addLabels("thread", deployment, thread_id, metadata);
      for (;;) {
        const [inserted] = await driver.batch([insert, ...labels]);
        if (inserted?.[0]) return { kind: "created", thread: toThread({ ...inserted[0], running: null, waiting: 0 }) };
        const there = await get(scope, thread_id);
        // Null when it was deleted meanwhile.
        if (there) return { kind: "exists", thread: there };
      }
    },

    getThread: get,

    async searchThreads({ deployment }, query) {
      const { rows, total } = await searchRows(
        driver,
        query.metadata,
        query,
        (page) => {
          let select = candidates(deployment, query)
            .selectAll()
            .select([running.as("running"), waiting.as("waiting")])
            .orderBy(query.sort_by === "status" ? effectiveStatus : sql.ref(query.sort_by), query.sort_order)
            .orderBy("thread_id", query.sort_order);
          if (page) select = select.limit(page.limit).offset(page.offset);
          return statement(select);
        },
        () => statement(candidates(deployment, query).select(sql<number>`count(*)`.as("total"))),
      );
      return { rows: rows.map(toThread), total };
    },

    countThreads: ({ deployment }, query) =>
      countRows(
        driver,
        query.metadata,
        () => statement(candidates(deployment, query).select(sql<number>`count(*)`.as("total"))),
        () => statement(candidates(deployment, query).select("metadata")),
      ),

    async updateThread(scope, thread_id, next, now) {
      const { deployment } = scope;
      for (;;) {
        const seen = await get(scope, thread_id);
        if (!seen) return null;
        const { metadata, ttl = seen.ttl } = next(seen);
        const text = JSON.stringify(metadata);
        const [updated] = await driver.batch([
          updateMetadata({ deployment, thread_id, metadata: text, ...ttlColumns(ttl), seen: seen.revision, now }),
          ...replaceLabels("thread", deployment, thread_id, metadata),
        ]);
        if (updated?.[0]) return toThread(updated[0]);
      }
    },

    async deleteThread({ deployment }, thread_id) {
      const [, deleted] = await driver.batch([
        dropItsTokens({ deployment, thread_id }),
        deleteThread({ deployment, thread_id }),
        deleteLabels({ deployment, thread_id }),
      ]);
      return deleted?.length === 1;
    },
  };
}

const ttlColumns = (ttl: ThreadTtl | null): Ttl => ({
  ttl_strategy: ttl?.strategy ?? null,
  ttl_ms: ttl?.ttl_ms ?? null,
});

function candidates(deployment: string, query: ThreadQuery): SelectQueryBuilder<Tables, "threads", object> {
  // Written out, not bound: the indexes that serve searches hold visible threads alone.
  let select = db.selectFrom("threads").where("deployment", "=", deployment).where(sql<boolean>`hidden = 0`);
  if (query.ids) select = select.where("thread_id", "in", each(JSON.stringify(query.ids)));
  if (query.status === "busy") select = select.where(sql<boolean>`${busy}`);
  else if (query.status) select = select.where("status", "=", query.status).where(sql<boolean>`not ${busy}`);
  for (const condition of narrowing("thread", deployment, "thread_id", query.metadata ?? {})) {
    select = select.where(condition);
  }
  return select;
}

/** A thread row with what was asked for beside it: `running` and `waiting`. */
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
    status: stored.running !== null || stored.waiting ? "busy" : (stored.status as ThreadRest),
    head: stored.head,
    interrupts: JSON.parse(stored.interrupts) as JsonObject,
    error: stored.error === null ? null : (JSON.parse(stored.error) as Json),
    running: stored.running,
    slot: stored.slot_token === null ? null : { token: stored.slot_token, until: stored.slot_until as number },
    hidden: stored.hidden === 1,
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
