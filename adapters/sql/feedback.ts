import type {
  FeedbackBucket,
  FeedbackConfig,
  FeedbackPatch,
  FeedbackQuery,
  FeedbackRow,
  FeedbackStats,
  FeedbackStorage,
  FeedbackTokenRow,
  Scope,
} from "../../lib/storage/mod.ts";
import { assigned, fromText, namesOf, toText, valuesOf } from "./columns.ts";
import { each, rowsOf, scalar } from "./dialect.ts";
import type { SqlRow } from "./driver.ts";
import type { Feature } from "./feature.ts";
import { andOfRunPermitted, type Bound, below, scoped } from "./filter.ts";
import { toFilterArgument } from "./filter-argument.ts";
import { feedbackTables } from "./schema/feedback.ts";
import type { RowsOf } from "./schema/tables.ts";
import { type Database, ofKey, prepared, readAll, readOne, statement } from "./statement.ts";
import { type RawBuilder, sql } from "./template.ts";

type Rows = RowsOf<typeof feedbackTables>;

// ------------------------------------------------- beside what becomes of runs

type Minted = Pick<Tokens, "deployment" | "run_id" | "workspace_id" | "project_id" | "life_ms"> & {
  tokens: string;
  now: number;
};

// The tokens do not expire before the run has ended. `tokens` is a JSON list of [feedback key, token id].
const mintTokens = prepared<Minted>(
  (p) =>
    sql`insert into feedback_tokens (token_id, deployment, run_id, workspace_id, project_id, feedback_key, life_ms,
      created_at)
    select t.token_id, ${p.deployment}, r.run_id, ${p.workspace_id}, ${p.project_id}, t.feedback_key, ${p.life_ms}, ${p.now}
    from runs r cross join ${rowsOf(p.tokens, { feedback_key: "text", token_id: "text" })} t where r.run_id = ${scalar(p.run_id)}`,
);

export const feedback: Feature<keyof Rows> = {
  name: "feedback",
  tables: feedbackTables,
  runColumns: { feedback: (run) => toText(run.feedback?.tokens) },
  created(deployment, { run: { run_id, feedback: minted }, now }) {
    if (!minted) return [];
    const { tokens, ...terms } = minted;
    return [mintTokens({ deployment, run_id, tokens: JSON.stringify(tokens), ...terms, now })];
  },
  ended: (runs) =>
    prepared(
      (p) =>
        sql`update feedback_tokens set expires_at = ${p.now} + life_ms where expires_at is null and life_ms is not null
        and run_id in (select run_id from runs where ${runs(p)} and feedback is not null)`,
    ),
  end_frame: sql`feedback is not null`,
  deleted: (which) => prepared((p) => sql`delete from feedback_tokens where run_id in (${which(p)})`),
  swept: { table: "feedback_tokens", key: "token_id", time: "expires_at" },
  verbs: (driver) => ({ ...tokenVerbs(driver), ...recordVerbs(driver) }),
};

// ---------------------------------------------------------------------- tokens

/** The columns of a token, in the order of the rows of the JSON list in the arguments. */
const TOKEN = {
  token_id: "text",
  run_id: "text",
  workspace_id: "text",
  project_id: "text",
  feedback_key: "text",
  config: "text",
  expires_at: "bigint",
  created_at: "bigint",
} as const;
const TOKEN_COLUMNS = Object.keys(TOKEN) as readonly (keyof typeof TOKEN)[];

/** All tokens, or none if one of the runs does not exist. */
const insertTokens = scoped<{ deployment: string; rows: string; run_ids: string }>(
  (p, bound) =>
    sql`insert into feedback_tokens (deployment, submissions, ${namesOf(TOKEN_COLUMNS)})
    select ${p.deployment}, 0, ${namesOf(TOKEN_COLUMNS, "t")}
    from ${rowsOf(p.rows, TOKEN)} t where ${allThere(p.run_ids, p.deployment, bound)} returning token_id`,
);

const allThere = (run_ids: string, deployment: string, bound: Bound): RawBuilder<unknown> =>
  bound === null
    ? sql`true`
    : sql`not exists (select 1 from ${each(run_ids)} asked
        where not (true${andOfRunPermitted(sql`asked.value`, deployment, bound)}))`;

const getToken = prepared<{ token_id: string }>(
  (p) => sql`select * from feedback_tokens where token_id = ${p.token_id}`,
);

type TokenKey = { deployment: string; workspace_ids: string; token_id: string };

const deleteToken = scoped<TokenKey>(
  (p, bound) =>
    sql`delete from feedback_tokens where token_id = ${p.token_id} and deployment = ${p.deployment}
    and workspace_id in ${each(p.workspace_ids)}${andOfRunPermitted(sql`feedback_tokens.run_id`, p.deployment, bound)}
    returning token_id`,
);

// -------------------------------------------------------------------- records

const RECORD = [
  ...["id", "run_id", "workspace_id", "project_id", "thread_id", "key", "score", "value", "comment", "correction"],
  ...["source", "source_metadata", "user_id", "run_started_at", "created_at", "modified_at", "extra"],
] as readonly (keyof Stored)[];

type Stored = Rows["feedback"];

const insertFeedback = scoped<Stored & { deployment: string }>(
  (p, bound) =>
    sql`insert into feedback (${namesOf(RECORD)}) select ${valuesOf(RECORD, p)} where true${andOfRunPermitted(sql`${p.run_id}`, p.deployment, bound)}
    on conflict do nothing returning id`,
);

/** One row if the run of a record exists. */
const runThere = scoped<{ run_id: string | null; deployment: string }>(
  (p, bound) => sql`select 1 as there where true${andOfRunPermitted(sql`${p.run_id}`, p.deployment, bound)}`,
);

const getFeedback = prepared<{ id: string }>((p) => sql`select * from feedback where id = ${p.id}`);

const deleteFeedback = scoped<{ workspace_ids: string; id: string; deployment: string }>(
  (p, bound) =>
    sql`delete from feedback where id = ${p.id} and workspace_id in ${each(p.workspace_ids)}${andOfRunPermitted(sql`feedback.run_id`, p.deployment, bound)}
    returning id`,
);

// The first statement decides. The others depend on its witness, a record that did not exist before. So a batch with two records of
// one id fails.

type Submission = { token_id: string; deployment: string; route: string | null; idempotency_key: string | null };

const insertSubmitted = prepared<Submission & Stored & { limit: number; now: number }>(
  (p) =>
    sql`insert into feedback (${namesOf(RECORD)}) select ${valuesOf(RECORD, p)}
    from feedback_tokens t where t.token_id = ${scalar(p.token_id)}
      and (t.expires_at is null or t.expires_at > ${p.now}) and t.submissions < ${p.limit}
      and not exists (select 1 from idempotency_keys k where k.deployment = ${scalar(p.deployment)}
        and k.route = ${scalar(p.route)} and k.key = ${scalar(p.idempotency_key)})
    returning id`,
);

const countSubmission = prepared<{ token_id: string; id: string }>(
  (p) =>
    sql`update feedback_tokens set submissions = submissions + 1
    where token_id = ${p.token_id} and exists (select 1 from feedback f where f.id = ${p.id})`,
);

type Key = { deployment: string; route: string; key: string };

const insertKey = prepared<Key & { body_hash: string; id: string; now: number }>(
  (p) =>
    sql`insert into idempotency_keys (deployment, route, key, body_hash, run_id, created_at)
    select ${p.deployment}, ${p.route}, ${p.key}, ${p.body_hash}, f.id, ${p.now} from feedback f
    where f.id = ${scalar(p.id)}`,
);

const obstacles = prepared<Submission>(
  (p) =>
    sql`select t.expires_at, t.submissions, k.run_id as feedback_id, k.body_hash
    from feedback_tokens t left join idempotency_keys k
      on k.deployment = ${scalar(p.deployment)} and k.route = ${scalar(p.route)} and k.key = ${scalar(p.idempotency_key)}
    where t.token_id = ${scalar(p.token_id)}`,
);

type TokenVerb = Extract<keyof FeedbackStorage, `${string}Token${string}` | "submitFeedback">;

function tokenVerbs(driver: Database): Pick<FeedbackStorage, TokenVerb> {
  return {
    /**
     * @statements insertTokens
     * @guards one insert of all tokens, where all their runs are visible.
     */
    async createFeedbackTokens({ deployment, filter }, tokens) {
      if (tokens.length === 0) return true;
      const rows = tokens.map((token) => {
        const stored = { ...token, config: toText(token.config) };
        return TOKEN_COLUMNS.map((name) => stored[name]);
      });
      const run_ids = JSON.stringify(tokens.map(({ run_id }) => run_id));
      const insert = insertTokens({ deployment, rows: JSON.stringify(rows), run_ids }, filter);
      const [made] = await driver.batch([insert], []);
      return made?.length === tokens.length;
    },

    /** @statements getToken */
    getFeedbackToken: (token_id) => readOne(driver, getToken({ token_id }), toToken),

    /** @statements statement */
    listFeedbackTokens({ scope: { deployment, filter }, workspace_ids, run_id, sort_order, after, limit, offset = 0 }) {
      const where = [
        sql`workspace_id in ${each(JSON.stringify(workspace_ids))}`,
        run_id === undefined ? sql`deployment = ${deployment}` : sql`run_id = ${run_id}`,
        ...below(after, "token_id"),
      ];
      const permitted = andOfRunPermitted(sql`feedback_tokens.run_id`, deployment, toFilterArgument(filter));
      const order = sort_order === "asc" ? sql`asc` : sql`desc`;
      const select = sql`select * from feedback_tokens where ${sql.join(where, sql` and `)}${permitted}
        order by created_at ${order}, token_id ${order} limit ${limit} offset ${offset}`;
      const toListed = (row: SqlRow) => ({ ...toToken(row), submissions: Number(row.submissions) });
      return readAll(driver, statement(select), toListed);
    },

    /**
     * @statements insertSubmitted · countSubmission · insertKey · obstacles
     * @guards insert the record where the token is valid, below its limit and the idempotency key is unknown · count the
     *   submission where the record exists · insert the key where the record exists.
     */
    async submitFeedback({ deployment }, { token_id, feedback, idempotency, limit, now }) {
      const { id } = feedback;
      const { route = null, key: idempotency_key = null } = idempotency ?? {};
      const submission = { token_id, deployment, route, idempotency_key };
      for (;;) {
        const [recorded] = await driver.batch(
          [
            insertSubmitted({ ...submission, ...toStored(feedback), limit, now }),
            countSubmission({ token_id, id }),
            ...(idempotency ? [insertKey({ deployment, ...idempotency, id, now })] : []),
          ],
          [`token ${token_id}`, `feedback ${id}`, ...(idempotency ? [ofKey(deployment, idempotency)] : [])],
        );
        if (recorded?.length) return { kind: "recorded" };
        const [found] = await driver.read(obstacles(submission));
        if (!found) return { kind: "token_not_found" };
        if (found.expires_at !== null && Number(found.expires_at) <= now) return { kind: "token_expired" };
        if (found.feedback_id !== null) {
          const same_body = found.body_hash === idempotency?.body_hash;
          return { kind: "repeated", feedback_id: found.feedback_id as string, same_body };
        }
        if (Number(found.submissions) >= limit) return { kind: "token_full" };
        // The key had expired by the second read.
      }
    },

    /**
     * @statements deleteToken
     * @guards one statement, where the token is in a workspace of the caller and its run is visible.
     */
    async deleteFeedbackToken({ deployment, filter }, workspace_ids, token_id) {
      const args = { deployment, workspace_ids: JSON.stringify(workspace_ids), token_id };
      const [deleted] = await driver.batch([deleteToken(args, filter)], [`token ${token_id}`]);
      return deleted?.length === 1;
    },
  };
}

function recordVerbs(driver: Database): Omit<FeedbackStorage, TokenVerb> {
  return {
    /**
     * @statements insertFeedback · getFeedback · runThere
     * @guards insert where the run is visible · select by id · select whether the run is visible.
     */
    async createFeedback(feedback, { deployment, filter } = EVERYWHERE) {
      const { id, run_id } = feedback;
      const [made, [row] = [], there] = await driver.batch(
        [
          insertFeedback({ ...toStored(feedback), deployment }, filter),
          getFeedback({ id }),
          runThere({ run_id, deployment }, filter),
        ],
        [`feedback ${id}`],
      );
      if (!there?.length) return null;
      return { kind: made?.length ? "created" : "exists", feedback: toFeedback(row as SqlRow) };
    },

    /**
     * @statements statement
     * @guards one statement, where the record is in a workspace of the caller and its run is visible.
     */
    async updateFeedback(workspace_ids, id, patch, now, { deployment, filter } = EVERYWHERE) {
      const permitted = andOfRunPermitted(sql`feedback.run_id`, deployment, toFilterArgument(filter));
      const changes: Partial<Stored> = { ...toChanges(patch), modified_at: now };
      const update = sql`update feedback set ${assigned(Object.keys(changes), changes)} where id = ${id}
        and workspace_id in ${each(JSON.stringify(workspace_ids))}${permitted} returning *`;
      const [[row] = []] = await driver.batch([statement(update)], [`feedback ${id}`]);
      return row ? toFeedback(row) : null;
    },

    /**
     * @statements deleteFeedback
     * @guards one statement, where the record is in a workspace of the caller and its run is visible.
     */
    async deleteFeedback(workspace_ids, id, { deployment, filter } = EVERYWHERE) {
      const args = { workspace_ids: JSON.stringify(workspace_ids), id, deployment };
      const [deleted] = await driver.batch([deleteFeedback(args, filter)], [`feedback ${id}`]);
      return deleted?.length === 1;
    },

    /** @statements statement */
    listFeedback({ limit, offset, ...query }) {
      const select = sql`select * from feedback where ${candidates(query)}
        order by created_at desc, id limit ${limit} offset ${offset}`;
      return readAll(driver, statement(select), toFeedback);
    },

    /** @statements statement */
    async feedbackStats(query) {
      const select = sql`select key, ${label} as label, count(*) as n, count(score) as scored, sum(${score}) as sum,
        min(${score}) as min, max(${score}) as max
        from feedback where ${candidates(query)} group by key, ${label} order by key`;
      return toStats(await driver.read(statement(select)));
    },

    /** @statements statement */
    feedbackBuckets({ origin, stride_ms, ...query }) {
      const bucket = sql<number>`cast((created_at - ${scalar(origin)}) / ${scalar(stride_ms)} as bigint)`;
      const select = sql`select key, ${bucket} as bucket, count(*) as n, avg(${score}) as avg, min(${score}) as min,
        max(${score}) as max from feedback where ${candidates(query)} group by key, 2 order by key, bucket`;
      return readAll(driver, statement(select), toBucket);
    },
    /**
     * @statements deleteToken
     * @guards one statement, where the token is in a workspace of the caller and its run is visible.
     */
  };
}

/** A scope without conditions on the record's run. */
const EVERYWHERE: Scope = { deployment: "" };

/** A score as a number, true as 1. */
const score: RawBuilder<number> = sql<number>`case score when 'true' then 1 when 'false' then 0 else cast(score as double precision) end`;
/** A text value, as JSON; null for other values. */
const label = sql<string | null>`case when substr(value, 1, 1) = '"' then value end`;

/** A condition on records: those that a query asks for. */
function candidates(query: FeedbackQuery): RawBuilder<boolean> {
  const { workspace_ids, run_ids, scope = EVERYWHERE } = query;
  const [only = ""] = workspace_ids;
  // With ids the statement must use their index. Within one workspace, that index has the right order.
  const workspace = query.ids || run_ids ? sql`workspace_id || ''` : sql`workspace_id`;
  const where = [
    workspace_ids.length === 1
      ? sql`${workspace} = ${only}`
      : sql`${workspace} in ${each(JSON.stringify(workspace_ids))}`,
  ];
  const lists = [
    ["id", query.ids],
    ["run_id", run_ids],
    ["project_id", query.project_ids],
    ["key", query.keys],
    ["source", query.sources],
    ["user_id", query.user_ids],
  ] as const;
  for (const [column, list] of lists) {
    if (list) where.push(sql`${sql.ref(column)} in ${each(JSON.stringify(list))}`);
  }
  if (query.has_comment !== undefined) {
    where.push(query.has_comment ? sql`coalesce(comment, '') <> ''` : sql`coalesce(comment, '') = ''`);
  }
  if (query.has_score !== undefined) where.push(query.has_score ? sql`score is not null` : sql`score is null`);
  if (query.level !== undefined) where.push(query.level === "run" ? sql`run_id is not null` : sql`run_id is null`);
  if (query.min_created_at !== undefined) where.push(sql`created_at >= ${query.min_created_at}`);
  if (query.max_created_at !== undefined) where.push(sql`created_at <= ${query.max_created_at}`);
  const permitted = andOfRunPermitted(sql`feedback.run_id`, scope.deployment, toFilterArgument(scope.filter));
  return sql`${sql.join(where, sql` and `)}${permitted}`;
}

function toChanges(patch: FeedbackPatch): Partial<Stored> {
  const { comment, ...json } = patch;
  const changes = Object.entries(json).filter(([, value]) => value !== undefined);
  return {
    ...(comment === undefined ? {} : { comment }),
    ...Object.fromEntries(changes.map(([column, value]) => [column, toText(value)])),
  };
}

const JSON_COLUMNS = ["score", "value", "correction", "source_metadata", "extra"] as const;

function toStored(feedback: FeedbackRow): Stored {
  return { ...feedback, ...Object.fromEntries(JSON_COLUMNS.map((name) => [name, toText(feedback[name])])) } as Stored;
}

function toFeedback(row: SqlRow): FeedbackRow {
  const stored = row as unknown as Stored;
  const values = JSON_COLUMNS.map((name) => [name, fromText(stored[name])]);
  return { ...stored, ...Object.fromEntries(values) } as FeedbackRow;
}

type Tokens = Rows["feedback_tokens"];

function toToken(row: SqlRow): FeedbackTokenRow {
  const { deployment: _, life_ms: _life, submissions: _submissions, ...stored } = row as unknown as Tokens;
  return { ...stored, config: fromText<FeedbackConfig>(stored.config) };
}

/** Takes one row for each key and text value, and one row for the other values of each key. */
function toStats(rows: readonly SqlRow[]): FeedbackStats[] {
  const byKey = new Map<string, SqlRow[]>();
  for (const row of rows) byKey.set(row.key as string, [...(byKey.get(row.key as string) ?? []), row]);
  return [...byKey].map(([key, parts]) => {
    const numbers = (column: string): number[] =>
      parts.filter((part) => part[column] !== null).map((part) => Number(part[column]));
    const total = (column: string): number => numbers(column).reduce((sum, part) => sum + part, 0);
    const least = (column: string, sign: 1 | -1): number =>
      numbers(column).reduce((least, part) => (part * sign < least * sign ? part : least));
    const scored = total("scored");
    const labelled = parts.filter((part) => part.label !== null);
    return {
      key,
      n: total("n"),
      avg: scored > 0 ? total("sum") / scored : null,
      min: scored > 0 ? least("min", 1) : null,
      max: scored > 0 ? least("max", -1) : null,
      values: Object.fromEntries(labelled.map((part) => [JSON.parse(part.label as string), Number(part.n)])),
    };
  });
}

const numberOf = (value: unknown): number | null => (value === null ? null : Number(value));

const toBucket = ({ key, bucket, n, avg, min, max }: SqlRow): FeedbackBucket => ({
  key: key as string,
  bucket: Number(bucket),
  n: Number(n),
  avg: numberOf(avg),
  min: numberOf(min),
  max: numberOf(max),
});
