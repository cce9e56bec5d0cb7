/** Statements on feedback and feedback tokens. */
import { type Expression, type RawBuilder, sql } from "kysely";
import type { FeedbackBucket } from "../../../lib/storage/mod.ts";
import type { DeletedStatement, EndedStatement } from "../feature.ts";
import { isRunPermitted } from "../filter.ts";
import { jsonRows, jsonStrings } from "../functions.ts";
import { type ArgumentsFor, bigint, columns, orNull, type ParametersFor, text } from "../parameters.ts";
import { createBuilder, insertWhere, query, scopedQuery, shapedQuery } from "../query.ts";
import { feedbackTables } from "../schema/feedback.ts";
import type { CoreTables, RowsOf } from "../schema/tables.ts";

const db = createBuilder<CoreTables & RowsOf<typeof feedbackTables>>();

const stable = { stable: true };

// ----------------------------------------------------------- tokens of runs

/** Inserts tokens with a new run, if it exists. `tokens` is a JSON list of pairs of feedback key and token id. */
export const insertTokensOfRun = query(
  {
    ...columns(feedbackTables.feedback_tokens, ["deployment", "run_id", "workspace_id", "project_id", "life_ms"]),
    tokens: text,
    now: bigint,
  },
  (p) =>
    sql<never>`insert into feedback_tokens (token_id, deployment, run_id, workspace_id, project_id, feedback_key, life_ms, created_at)
    select t.token_id, ${p.deployment}, r.run_id, ${p.workspace_id}, ${p.project_id}, t.feedback_key, ${p.life_ms}, ${p.now}
    from runs r cross join ${jsonRows(p.tokens, { feedback_key: "text", token_id: "text" })} t where r.run_id = ${p.run_id}`,
  stable,
);

/** Sets when the tokens of ending runs expire. */
export const expireTokensOfRuns: EndedStatement = ({ now }, isEnding) =>
  sql<never>`update feedback_tokens set expires_at = ${now} + life_ms where expires_at is null and life_ms is not null
    and run_id in (select run_id from runs where ${isEnding} and feedback is not null)`;

/** Deletes the tokens of runs. */
export const deleteTokensOfRuns: DeletedStatement = (run_ids) =>
  sql<never>`delete from feedback_tokens where run_id in (${run_ids})`;

// -------------------------------------------------------------------- tokens

/** Inserts tokens if the filter permits all of their runs, and returns them. `tokens` and `run_ids` are JSON lists. */
export const insertTokens = scopedQuery(
  { deployment: text, tokens: text, run_ids: text },
  (p, filter) =>
    sql<{
      token_id: string;
    }>`insert into feedback_tokens (deployment, submissions, token_id, run_id, workspace_id, project_id,
      feedback_key, config, expires_at, created_at)
    select ${p.deployment}, 0, t.* from ${jsonRows(p.tokens, {
      token_id: "text",
      run_id: "text",
      workspace_id: "text",
      project_id: "text",
      feedback_key: "text",
      config: "text",
      expires_at: "bigint",
      created_at: "bigint",
    })} t
    where ${arePermitted(p.run_ids, p.deployment, filter)} returning token_id`,
  stable,
);

/** Returns the condition that the filter permits all runs of a JSON list of ids; always true without a filter. */
const arePermitted = (
  run_ids: Expression<string>,
  deployment: Expression<string>,
  filter: Expression<string> | null,
): RawBuilder<boolean> =>
  filter === null
    ? sql<boolean>`true`
    : sql<boolean>`not exists (select 1 from ${jsonStrings(run_ids)} asked
        where not (${isRunPermitted(sql`asked.value`, deployment, filter)}))`;

/** Selects a token. */
export const selectToken = query({ token_id: text }, (p) =>
  db.selectFrom("feedback_tokens").selectAll().where("token_id", "=", p.token_id),
);

const runOfToken = sql<string>`feedback_tokens.run_id`;

/** Selects the tokens of a list, and their order. `filtered`: the filter permits their runs. */
interface TokensShape {
  readonly of_run: boolean;
  readonly after: boolean;
  readonly sort_order: "asc" | "desc";
  readonly filtered: boolean;
}

/** Selects a page of the tokens of a run or of a deployment, by their creation. `workspace_ids` is a JSON list. */
export const selectTokens = shapedQuery(
  (_: TokensShape) => ({
    ...columns(feedbackTables.feedback_tokens, ["deployment", "run_id"]),
    workspace_ids: text,
    after_created_at: bigint,
    after_id: text,
    limit: bigint,
    offset: bigint,
    filter: text,
  }),
  (p, { of_run, after, sort_order, filtered }) =>
    db
      .selectFrom("feedback_tokens")
      .selectAll()
      .where("workspace_id", "in", jsonStrings(p.workspace_ids))
      .$if(of_run, (tokens) => tokens.where("run_id", "=", p.run_id))
      .$if(!of_run, (tokens) => tokens.where("deployment", "=", p.deployment))
      .$if(after, (tokens) =>
        tokens.where(sql<boolean>`(created_at, token_id) < (${p.after_created_at}, ${p.after_id})`),
      )
      .where(isRunPermitted(runOfToken, p.deployment, filtered ? p.filter : null))
      .orderBy("created_at", sort_order)
      .orderBy("token_id", sort_order)
      .limit(p.limit)
      .offset(p.offset),
  {
    stable: true,
    shapes: [
      { of_run: true, after: false, sort_order: "asc", filtered: false },
      { of_run: true, after: false, sort_order: "desc", filtered: true },
      { of_run: false, after: true, sort_order: "desc", filtered: false },
    ],
  },
);

/** Deletes a token of one of these workspaces whose run the filter permits. Returns a row if it existed. */
export const deleteToken = scopedQuery({ deployment: text, workspace_ids: text, token_id: text }, (p, filter) =>
  db
    .deleteFrom("feedback_tokens")
    .where("token_id", "=", p.token_id)
    .where("deployment", "=", p.deployment)
    .where("workspace_id", "in", jsonStrings(p.workspace_ids))
    .where(isRunPermitted(runOfToken, p.deployment, filter))
    .returning("token_id"),
);

// --------------------------------------------------------------- submissions

const recordTypes = columns(feedbackTables.feedback, [
  ...(["id", "run_id", "workspace_id", "project_id", "thread_id", "key", "score", "value", "comment"] as const),
  ...(["correction", "source", "source_metadata", "user_id", "run_started_at"] as const),
  ...(["created_at", "modified_at", "extra"] as const),
]);

const toRecord = (p: ParametersFor<typeof recordTypes>) => ({
  id: p.id,
  run_id: p.run_id,
  workspace_id: p.workspace_id,
  project_id: p.project_id,
  thread_id: p.thread_id,
  key: p.key,
  score: p.score,
  value: p.value,
  comment: p.comment,
  correction: p.correction,
  source: p.source,
  source_metadata: p.source_metadata,
  user_id: p.user_id,
  run_started_at: p.run_started_at,
  created_at: p.created_at,
  modified_at: p.modified_at,
  extra: p.extra,
});

const submissionTypes = { token_id: text, deployment: text, route: orNull(text), idempotency_key: orNull(text) };

/**
 * Inserts the record of a submission if its token is valid and has fewer than `limit` submissions, and its idempotency key is new.
 * Returns a row if so. Without `on conflict`: the other statements of the batch take the record as a sign of this one.
 */
export const insertSubmission = query(
  { ...submissionTypes, ...recordTypes, limit: bigint, now: bigint },
  (p) =>
    insertWhere(
      db,
      "feedback",
      toRecord(p),
      sql`exists (select 1 from feedback_tokens t where t.token_id = ${p.token_id}
          and (t.expires_at is null or t.expires_at > ${p.now}) and t.submissions < ${p.limit})
        and not exists (select 1 from idempotency_keys k
          where k.deployment = ${p.deployment} and k.route = ${p.route} and k.key = ${p.idempotency_key})`,
    ).returning("id"),
  stable,
);

const hasRecord = (id: Expression<string>): RawBuilder<boolean> =>
  sql<boolean>`exists (select 1 from feedback where feedback.id = ${id})`;

/** Counts a submission to a token if its record exists. */
export const countSubmission = query({ token_id: text, id: text }, (p) =>
  db
    .updateTable("feedback_tokens")
    .set({ submissions: sql`submissions + 1` })
    .where("token_id", "=", p.token_id)
    .where(hasRecord(p.id)),
);

/** Inserts the idempotency key of a submission if its record exists. */
export const insertSubmissionKey = query(
  { deployment: text, route: text, key: text, body_hash: text, id: text, now: bigint },
  (p) =>
    insertWhere(
      db,
      "idempotency_keys",
      {
        deployment: p.deployment,
        route: p.route,
        key: p.key,
        body_hash: p.body_hash,
        run_id: p.id,
        created_at: p.now,
      },
      hasRecord(p.id),
    ),
  stable,
);

/** Selects what decides about a submission: its token, and the record and body of its idempotency key. */
export const selectObstacles = query(
  submissionTypes,
  (p) =>
    sql<{
      expires_at: number | null;
      submissions: number;
      feedback_id: string | null;
      body_hash: string | null;
    }>`select t.expires_at, t.submissions, k.run_id as feedback_id, k.body_hash
    from feedback_tokens t left join idempotency_keys k
      on k.deployment = ${p.deployment} and k.route = ${p.route} and k.key = ${p.idempotency_key}
    where t.token_id = ${p.token_id}`,
  stable,
);

// ------------------------------------------------------------------- records

const runOfRecord = sql<string | null>`feedback.run_id`;

/** Inserts a record if the filter permits its run and no record has its id. Returns a row if so. */
export const insertRecord = scopedQuery({ ...recordTypes, deployment: text }, (p, filter) =>
  insertWhere(db, "feedback", toRecord(p), isRunPermitted(p.run_id, p.deployment, filter))
    .onConflict((conflict) => conflict.doNothing())
    .returning("id"),
);

/** Returns a row if the filter permits the run. */
export const isRunVisible = scopedQuery(
  { run_id: orNull(text), deployment: text },
  (p, filter) => sql<{ visible: number }>`select 1 as visible where ${isRunPermitted(p.run_id, p.deployment, filter)}`,
);

/** Selects a record. */
export const selectRecord = query({ id: text }, (p) => db.selectFrom("feedback").selectAll().where("id", "=", p.id));

type RecordChange = "score" | "value" | "comment" | "correction" | "source_metadata";

/** The columns that an update of a record sets. `filtered`: the filter permits its run. */
interface RecordUpdateShape {
  readonly changes: readonly RecordChange[];
  readonly filtered: boolean;
}

/** Updates a record of one of these workspaces, and returns it. `workspace_ids` is a JSON list. */
export const updateRecord = shapedQuery(
  (_: RecordUpdateShape) => ({
    ...columns(feedbackTables.feedback, ["id", "score", "value", "comment", "correction", "source_metadata"]),
    deployment: text,
    workspace_ids: text,
    now: bigint,
    filter: text,
  }),
  (p, { changes, filtered }) =>
    db
      .updateTable("feedback")
      .set({ modified_at: p.now })
      .$if(changes.includes("score"), (records) => records.set({ score: p.score }))
      .$if(changes.includes("value"), (records) => records.set({ value: p.value }))
      .$if(changes.includes("comment"), (records) => records.set({ comment: p.comment }))
      .$if(changes.includes("correction"), (records) => records.set({ correction: p.correction }))
      .$if(changes.includes("source_metadata"), (records) => records.set({ source_metadata: p.source_metadata }))
      .where("id", "=", p.id)
      .where("workspace_id", "in", jsonStrings(p.workspace_ids))
      .where(isRunPermitted(runOfRecord, p.deployment, filtered ? p.filter : null))
      .returningAll(),
  {
    shapes: [
      { changes: ["comment", "score"], filtered: false },
      { changes: [], filtered: true },
    ],
  },
);

/** Deletes a record of one of these workspaces whose run the filter permits. Returns a row if it existed. */
export const deleteRecord = scopedQuery({ id: text, workspace_ids: text, deployment: text }, (p, filter) =>
  db
    .deleteFrom("feedback")
    .where("id", "=", p.id)
    .where("workspace_id", "in", jsonStrings(p.workspace_ids))
    .where(isRunPermitted(runOfRecord, p.deployment, filter))
    .returning("id"),
);

// -------------------------------------------------------------------- search

/** A column that a search compares with a JSON list. */
type ListColumn = "id" | "run_id" | "project_id" | "key" | "source" | "user_id";

/** Selects the records that a search finds. An absent member is no condition. */
export interface RecordsShape {
  readonly one_workspace: boolean;
  readonly lists: readonly ListColumn[];
  readonly has_comment?: boolean;
  readonly has_score?: boolean;
  readonly level?: "run" | "session";
  readonly min_created_at: boolean;
  readonly max_created_at: boolean;
  readonly filtered: boolean;
}

const ANY_RECORD: RecordsShape = {
  one_workspace: false,
  lists: [],
  min_created_at: false,
  max_created_at: false,
  filtered: false,
};

/** The members of `lists`, and `workspace_ids`, are JSON lists. */
const searchTypes = {
  ...{ workspace_id: text, workspace_ids: text, deployment: text, filter: text },
  ...{ id: text, run_id: text, project_id: text, key: text, source: text, user_id: text },
  ...{ min_created_at: bigint, max_created_at: bigint },
};

/** The arguments of a search for records. A member that the shape does not use may have any value. */
export type RecordsArguments = ArgumentsFor<typeof searchTypes>;

/** Returns the condition that a record is in the workspaces of the search and meets all conditions of the shape. */
function isFound(p: ParametersFor<typeof searchTypes>, shape: RecordsShape): RawBuilder<boolean> {
  const { lists, has_comment, has_score, level } = shape;
  // With ids the statement must use their index. Within one workspace, that index has the right order.
  const workspace = lists.includes("id") || lists.includes("run_id") ? sql`workspace_id || ''` : sql`workspace_id`;
  const conditions = [
    shape.one_workspace ? sql`${workspace} = ${p.workspace_id}` : sql`${workspace} in ${jsonStrings(p.workspace_ids)}`,
    ...lists.map((column) => sql`${sql.ref(column)} in ${jsonStrings(p[column])}`),
    ...(has_comment === undefined ? [] : [sql`coalesce(comment, '') ${has_comment ? sql`<>` : sql`=`} ''`]),
    ...(has_score === undefined ? [] : [has_score ? sql`score is not null` : sql`score is null`]),
    ...(level === undefined ? [] : [level === "run" ? sql`run_id is not null` : sql`run_id is null`]),
    ...(shape.min_created_at ? [sql`created_at >= ${p.min_created_at}`] : []),
    ...(shape.max_created_at ? [sql`created_at <= ${p.max_created_at}`] : []),
    ...(shape.filtered ? [isRunPermitted(runOfRecord, p.deployment, p.filter)] : []),
  ];
  return sql<boolean>`${sql.join(conditions, sql` and `)}`;
}

/** A score as a number, true as 1. */
const score = sql<
  number | null
>`case score when 'true' then 1 when 'false' then 0 else cast(score as double precision) end`;

/** A text value, as JSON; null for other values. */
const label = sql<string | null>`case when substr(value, 1, 1) = '"' then value end`;

/** Selects a page of records, the newest first. */
export const selectRecords = shapedQuery(
  (_: RecordsShape) => ({ ...searchTypes, limit: bigint, offset: bigint }),
  (p, shape) =>
    db
      .selectFrom("feedback")
      .selectAll()
      .where(isFound(p, shape))
      .orderBy("created_at", "desc")
      .orderBy("id")
      .limit(p.limit)
      .offset(p.offset),
  {
    stable: true,
    shapes: [
      { ...ANY_RECORD, one_workspace: true, has_comment: true, has_score: false, level: "run" },
      { ...ANY_RECORD, lists: ["id"], min_created_at: true, max_created_at: true },
      {
        ...ANY_RECORD,
        one_workspace: true,
        lists: ["run_id", "project_id", "key", "source", "user_id"],
        filtered: true,
      },
    ],
  },
);

const groupShapes = {
  stable: true,
  shapes: [ANY_RECORD, { ...ANY_RECORD, one_workspace: true, lists: ["run_id"] }],
} as const;

/** Scores of the records of one key that have the same text value, or none. */
export interface RecordSummary {
  readonly key: string;
  readonly label: string | null;
  readonly n: number;
  readonly scored: number;
  readonly sum: number | null;
  readonly min: number | null;
  readonly max: number | null;
}

/** Summarizes records: a row for each key and text value, and a row for the other values of each key. */
export const summarizeRecords = shapedQuery(
  (_: RecordsShape) => searchTypes,
  (p, shape) =>
    sql<RecordSummary>`select key, ${label} as label, count(*) as n, count(score) as scored, sum(${score}) as sum, min(${score}) as min,
      max(${score}) as max
    from feedback where ${isFound(p, shape)} group by key, ${label} order by key`,
  groupShapes,
);

/** Summarizes scores by key and bucket. */
export const summarizeBuckets = shapedQuery(
  (_: RecordsShape) => ({ ...searchTypes, origin: bigint, stride_ms: bigint }),
  (p, shape) =>
    sql<FeedbackBucket>`select key, cast((created_at - ${p.origin}) / ${p.stride_ms} as bigint) as bucket, count(*) as n,
      avg(${score}) as avg, min(${score}) as min, max(${score}) as max
    from feedback where ${isFound(p, shape)} group by key, 2 order by key, bucket`,
  groupShapes,
);
