/** Statements on threads. */
import { type RawBuilder, sql } from "kysely";
import { firstClaimCount, keepClaimCounts } from "../claim-counts.ts";
import { pick } from "../columns.ts";
import { RUNS_DELETED, THREAD_COLUMNS } from "../features.ts";
import { type FilterParameter, isPermitted, isThreadPermitted } from "../filter.ts";
import { containsText } from "../functions.ts";
import { bigint, columns, type ParametersFor, text } from "../parameters.ts";
import { createBuilder, query, scopedQuery, shapedQuery } from "../query.ts";
import { agentTables } from "../schema/agents.ts";
import type { CoreTables } from "../schema/tables.ts";
import { running, waiting } from "../thread-status.ts";
import { isAssistantMarked } from "./assistants.ts";
import { orphanedEntries } from "./metadata-index.ts";
import { findStatement } from "./runs-stop.ts";

const db = createBuilder<CoreTables>();

const stable = { stable: true };

const keyTypes = { deployment: text, thread_id: text };

const metadata = sql<string>`threads.metadata`;

/** A thread with its running run, and 1 if a run waits. */
export type ThreadWithRuns = CoreTables["threads"] & { readonly running: string | null; readonly waiting: number };

// -------------------------------------------------------------------- writing

/** Inserts a thread, unless it exists. Returns it. Its revision is not 1: a thread that was deleted before had another one. */
export const insertThread = query(
  {
    ...columns(agentTables.threads, ["deployment", "thread_id", "metadata", "config", "graph_id", "head", "hidden"]),
    ...THREAD_COLUMNS.types,
    run_count: bigint,
    now: bigint,
  },
  (p) =>
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
        graph_id: p.graph_id,
        status: sql.lit("idle"),
        head: p.head,
        interrupts: sql.lit("{}"),
        hidden: p.hidden,
        all_events: sql.lit(0),
        revision: p.now,
        run_count: p.run_count,
        claim_count: firstClaimCount(p),
        ...pick(p, THREAD_COLUMNS.names),
      })
      .onConflict((conflict) => conflict.doNothing())
      .returningAll(),
  stable,
);

/** Selects a thread that the filter permits, with what says whether its runs are active. */
export const selectThread = scopedQuery(
  keyTypes,
  (p, filter) =>
    sql<ThreadWithRuns>`select threads.*, ${running} as running, ${waiting} as waiting from threads
    where deployment = ${p.deployment} and thread_id = ${p.thread_id} and ${isPermitted(metadata, filter)}`,
);

/** Updates a thread that is as expected. Returns it. */
export const updateThread = query(
  { ...keyTypes, ...THREAD_COLUMNS.types, metadata: text, expected_revision: bigint, now: bigint },
  (p) =>
    db
      .updateTable("threads")
      .set({
        metadata: p.metadata,
        ...pick(p, THREAD_COLUMNS.names),
        updated_at: p.now,
        revision: sql`revision + 1`,
      })
      .where("deployment", "=", p.deployment)
      .where("thread_id", "=", p.thread_id)
      .where("revision", "=", p.expected_revision)
      .returningAll()
      .returning([running.as("running"), waiting.as("waiting")]),
);

// ------------------------------------------------------------------ deleting

const isThread = (p: ParametersFor<typeof keyTypes>, filter: FilterParameter): RawBuilder<boolean> =>
  sql<boolean>`deployment = ${p.deployment} and thread_id = ${p.thread_id} and ${isPermitted(metadata, filter)}`;

/** Keeps the claim counts of a thread that will be deleted. */
export const keepClaimCountsOfThread = scopedQuery(keyTypes, (p, filter) =>
  keepClaimCounts(sql`threads where ${isThread(p, filter)}`),
);

/** Deletes a thread that the filter permits. Returns a row if it existed. */
export const deleteThread = scopedQuery(keyTypes, (p, filter) =>
  db.deleteFrom("threads").where(isThread(p, filter)).returning("thread_id"),
);

/** A statement of a feature about the runs of threads that will be deleted. `statement` is a key of `DELETED`. */
interface FeatureShape {
  readonly statement: string;
  readonly filtered: boolean;
}

const shapes: readonly FeatureShape[] = Object.keys(RUNS_DELETED).map((statement, index) => ({
  statement,
  filtered: index === 0,
}));

/** Deletes what a feature has stored of the runs of a thread. */
export const deleteOfThread = shapedQuery(
  (_: FeatureShape) => ({ ...keyTypes, filter: text }),
  (p, { statement, filtered }) =>
    findStatement(
      RUNS_DELETED,
      statement,
    )(sql`select run_id from runs where deployment = ${p.deployment} and thread_id = ${p.thread_id}
      and ${isThreadPermitted("runs", filtered ? p.filter : null)}`),
  { shapes },
);

// ----------------------------------------------------- threads of an assistant

/** `member` is the assistant in the JSON of the metadata. The hashes are those of its index entry. */
const entryTypes = { deployment: text, path_hash: bigint, value_hash: bigint };
const assistantTypes = { ...entryTypes, member: text, assistant_id: text };

const indexedThreads = (p: ParametersFor<typeof entryTypes>): RawBuilder<string> =>
  sql<string>`(select row_id from labels where deployment = ${p.deployment} and kind = 'thread'
    and path_hash = ${p.path_hash} and value_hash = ${p.value_hash})`;

/**
 * Returns the condition that the filter permits a thread and its metadata names the assistant, which the same batch has marked: it
 * may not exist, or its own filter may keep it. The index finds threads by hash; the member excludes other values with that hash.
 */
const isOfAssistant = (p: ParametersFor<typeof assistantTypes>, filter: FilterParameter): RawBuilder<boolean> =>
  sql<boolean>`deployment = ${p.deployment} and thread_id in ${indexedThreads(p)} and ${containsText(metadata, p.member)}
    and ${isAssistantMarked(p)}
    and ${isPermitted(metadata, filter)}`;

/** Deletes what a feature has stored of the runs of the threads of a marked assistant. */
export const deleteOfAssistant = shapedQuery(
  (_: FeatureShape) => ({ ...assistantTypes, filter: text }),
  (p, { statement, filtered }) =>
    findStatement(
      RUNS_DELETED,
      statement,
    )(sql`select run_id from runs where deployment = ${p.deployment} and thread_id in (
      select thread_id from threads where ${isOfAssistant(p, filtered ? p.filter : null)})`),
  { shapes },
);

/** Keeps the claim counts of the threads of a marked assistant. */
export const keepClaimCountsOfAssistant = scopedQuery(assistantTypes, (p, filter) =>
  keepClaimCounts(sql`threads where ${isOfAssistant(p, filter)}`),
);

/** Deletes the threads of a marked assistant. */
export const deleteThreadsOfAssistant = scopedQuery(assistantTypes, (p, filter) =>
  db.deleteFrom("threads").where(isOfAssistant(p, filter)),
);

/** Deletes the index entries of deleted threads of an assistant. */
export const deleteEntriesOfAssistant = query(
  entryTypes,
  (p) =>
    sql<never>`delete from ${orphanedEntries("thread")} and deployment = ${p.deployment} and row_id in ${indexedThreads(p)}`,
);
