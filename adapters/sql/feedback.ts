/** Feedback and its tokens: what runs add and end, and their storage operations. */
import { sql } from "kysely";
import type { Json } from "../../lib/json.ts";
import type {
  FeedbackConfig,
  FeedbackQuery,
  FeedbackRow,
  FeedbackStats,
  FeedbackStorage,
  FeedbackTokenRow,
  Scope,
} from "../../lib/storage/mod.ts";
import { decodeJson, encodeJson } from "./columns.ts";
import { type Database, idempotencyLockKey, readAll, readOne } from "./database.ts";
import type { SqlFeatureFor } from "./feature.ts";
import { toFilterArgument } from "./filter-argument.ts";
import { feedbackTables } from "./schema/feedback.ts";
import type { RowsOf } from "./schema/tables.ts";
import {
  countSubmission,
  deleteRecord,
  deleteToken,
  deleteTokensOfRuns,
  expireTokensOfRuns,
  insertRecord,
  insertSubmission,
  insertSubmissionKey,
  insertTokens,
  insertTokensOfRun,
  isRunVisible,
  type RecordSummary,
  type RecordsArguments,
  type RecordsShape,
  selectObstacles,
  selectRecord,
  selectRecords,
  selectToken,
  selectTokens,
  summarizeBuckets,
  summarizeRecords,
  updateRecord,
} from "./statements/feedback.ts";

type Rows = RowsOf<typeof feedbackTables>;

export const feedback: SqlFeatureFor<"feedback", typeof feedbackTables, { runs: "feedback" }> = {
  tables: feedbackTables,
  runColumns: { feedback: (run) => encodeJson(run.feedback?.tokens) },
  /** Returns the statement that stores the feedback tokens of a new run; none for a run without tokens. */
  onRunCreated(deployment, { run: { run_id, feedback: ofRun }, now }) {
    if (!ofRun) return [];
    const { tokens, ...terms } = ofRun;
    return [insertTokensOfRun({ deployment, run_id, tokens: JSON.stringify(tokens), ...terms, now })];
  },
  onRunsEnded: expireTokensOfRuns,
  end_frame: sql`feedback is not null`,
  onRunsDeleted: { deleteTokensOfRuns },
  retention: { table: "feedback_tokens", key: "token_id", time: "expires_at" },
  operations: (driver) => ({ ...createTokenStorage(driver), ...createRecordStorage(driver) }),
};

type TokenOperation = Extract<keyof FeedbackStorage, `${string}Token${string}` | "submitFeedback">;

/** Creates the storage operations on feedback tokens. */
function createTokenStorage(driver: Database): Pick<FeedbackStorage, TokenOperation> {
  return {
    /**
     * Stores all tokens or none. Returns false, and stores none, if the run of one does not exist or is not visible. Returns
     * true without tokens.
     * @statements insertTokens
     * @guards one insert of all tokens, where all their runs are visible.
     */
    async createFeedbackTokens({ deployment, filter }, tokens) {
      if (tokens.length === 0) return true;
      const rows = tokens.map((token) => [
        ...[token.token_id, token.run_id, token.workspace_id, token.project_id, token.feedback_key],
        ...[encodeJson(token.config), token.expires_at, token.created_at],
      ]);
      const run_ids = JSON.stringify(tokens.map(({ run_id }) => run_id));
      const insert = insertTokens({ deployment, tokens: JSON.stringify(rows), run_ids }, filter);
      const [inserted] = await driver.batch([insert], []);
      return inserted.length === tokens.length;
    },

    /** @statements selectToken */
    getFeedbackToken: (token_id) => readOne(driver, selectToken({ token_id }), toToken),

    /**
     * Reads a page of the tokens in these workspaces, with their number of submissions and also expired: those of a run, or
     * else of the deployment. `sort_order` applies to the time of creation.
     * @statements selectTokens
     */
    listFeedbackTokens({ scope, workspace_ids, run_id, sort_order, after, limit, offset = 0 }) {
      const filter = toFilterArgument(scope.filter);
      const of_run = run_id !== undefined;
      const select = selectTokens(
        { of_run, after: after !== undefined, sort_order, filtered: filter !== null },
        {
          ...{ deployment: scope.deployment, run_id: run_id ?? "", workspace_ids: JSON.stringify(workspace_ids) },
          ...{ after_created_at: after?.created_at ?? 0, after_id: after?.id ?? "", limit, offset },
          filter: filter ?? "",
        },
      );
      return readAll(driver, select, (row) => ({ ...toToken(row), submissions: row.submissions }));
    },

    /**
     * Stores feedback and counts it for its token. If it stores nothing, it returns the first reason in this order: the token
     * does not exist, has expired, the idempotency key was used (with the earlier feedback id), the token has reached `limit`.
     * @statements insertSubmission · countSubmission · insertSubmissionKey · selectObstacles
     * @guards insert the record where the token is valid, below its limit and the idempotency key is unknown · count the
     *   submission where the record exists · insert the key where the record exists.
     */
    // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one batch and its outcomes, in their order
    async submitFeedback({ deployment }, { token_id, feedback, idempotency, limit, now }) {
      const { id } = feedback;
      const { route = null, key: idempotency_key = null } = idempotency ?? {};
      const submission = { token_id, deployment, route, idempotency_key };
      for (;;) {
        const [recorded] = await driver.batch(
          [
            insertSubmission({ ...submission, ...toStored(feedback), limit, now }),
            countSubmission({ token_id, id }),
            ...(idempotency ? [insertSubmissionKey({ deployment, ...idempotency, id, now })] : []),
          ],
          [
            `token ${token_id}`,
            `feedback ${id}`,
            ...(idempotency ? [idempotencyLockKey(deployment, idempotency)] : []),
          ],
        );
        if (recorded && recorded.length > 0) return { kind: "recorded" };
        const [obstacles] = await driver.read(selectObstacles(submission));
        if (!obstacles) return { kind: "token_not_found" };
        if (obstacles.expires_at !== null && obstacles.expires_at <= now) return { kind: "token_expired" };
        if (obstacles.feedback_id !== null) {
          const same_body = obstacles.body_hash === idempotency?.body_hash;
          return { kind: "repeated", feedback_id: obstacles.feedback_id, same_body };
        }
        if (obstacles.submissions >= limit) return { kind: "token_full" };
        // The key had expired by the second read.
      }
    },

    /**
     * Deletes a token. Returns false if it does not exist, is in another workspace, or its run is not visible.
     * @statements deleteToken
     * @guards one statement, where the token is in a workspace of the caller and its run is visible.
     */
    async deleteFeedbackToken({ deployment, filter }, workspace_ids, token_id) {
      const args = { deployment, workspace_ids: JSON.stringify(workspace_ids), token_id };
      const [deleted] = await driver.batch([deleteToken(args, filter)], [`token ${token_id}`]);
      return deleted.length === 1;
    },
  };
}

/** Creates the storage operations on feedback records. */
function createRecordStorage(driver: Database): Omit<FeedbackStorage, TokenOperation> {
  return {
    /**
     * Stores a record. Returns the existing one, unchanged, as `exists` if its id is taken, and null if its run is not visible.
     * @statements insertRecord · selectRecord · isRunVisible
     * @guards insert where the run is visible · select by id · select whether the run is visible.
     */
    async createFeedback(feedback, { deployment, filter } = EVERYWHERE) {
      const { id, run_id } = feedback;
      const [inserted, [row], visible] = await driver.batch(
        [
          insertRecord({ ...toStored(feedback), deployment }, filter),
          selectRecord({ id }),
          isRunVisible({ run_id, deployment }, filter),
        ],
        [`feedback ${id}`],
      );
      if (!row || visible.length === 0) return null;
      return { kind: inserted.length > 0 ? "created" : "exists", feedback: toFeedback(row) };
    },

    /**
     * Changes the members that the patch defines and the time of the last change. Returns null if the record does not exist, is
     * in another workspace, or its run is not visible.
     * @statements updateRecord
     * @guards one statement, where the record is in a workspace of the caller and its run is visible.
     */
    // biome-ignore lint/complexity/useMaxParams: the operation of Storage has these parameters
    async updateFeedback(workspace_ids, id, patch, now, { deployment, filter } = EVERYWHERE) {
      const argument = toFilterArgument(filter);
      const { comment = null, score, value, correction, source_metadata } = patch;
      const update = updateRecord(
        { changes: CHANGES.filter((name) => patch[name] !== undefined), filtered: argument !== null },
        {
          ...{ id, comment, score: encodeJson(score), value: encodeJson(value), correction: encodeJson(correction) },
          ...{ source_metadata: encodeJson(source_metadata), workspace_ids: JSON.stringify(workspace_ids), now },
          ...{ deployment, filter: argument ?? "" },
        },
      );
      const [[row]] = await driver.batch([update], [`feedback ${id}`]);
      return row ? toFeedback(row) : null;
    },

    /**
     * Deletes a record. Returns false if it does not exist, is in another workspace, or its run is not visible.
     * @statements deleteRecord
     * @guards one statement, where the record is in a workspace of the caller and its run is visible.
     */
    async deleteFeedback(workspace_ids, id, { deployment, filter } = EVERYWHERE) {
      const args = { workspace_ids: JSON.stringify(workspace_ids), id, deployment };
      const [deleted] = await driver.batch([deleteRecord(args, filter)], [`feedback ${id}`]);
      return deleted.length === 1;
    },

    /**
     * Reads a page of matching records, newest first, then by id.
     * @statements selectRecords
     */
    listFeedback({ limit, offset, ...query }) {
      const { shape, args } = toSearch(query);
      return readAll(driver, selectRecords(shape, { ...args, limit, offset }), toFeedback);
    },

    /**
     * Summarizes the matching records of each key, ordered by key.
     * @statements summarizeRecords
     */
    async feedbackStats(query) {
      const { shape, args } = toSearch(query);
      return toStats(await driver.read(summarizeRecords(shape, args)));
    },

    /**
     * Summarizes the matching records of each key and bucket of `stride_ms` since `origin`, ordered by both.
     * @statements summarizeBuckets
     */
    feedbackBuckets({ origin, stride_ms, ...query }) {
      const { shape, args } = toSearch(query);
      return driver.read(summarizeBuckets(shape, { ...args, origin, stride_ms }));
    },
  };
}

/** A scope without conditions on the record's run. */
const EVERYWHERE: Scope = { deployment: "" };

/** The columns that a search compares with a list. */
const LISTS = ["id", "run_id", "project_id", "key", "source", "user_id"] as const;

/** The columns that a patch may change. */
const CHANGES = ["comment", "correction", "score", "source_metadata", "value"] as const;

/**
 * Returns the shape and the arguments of a search for records. It covers all deployments of the workspaces, except with a filter in
 * the scope, which limits it to records on the permitted runs of the scope's deployment.
 */
function toSearch(query: FeedbackQuery): { readonly shape: RecordsShape; readonly args: RecordsArguments } {
  const { workspace_ids, scope = EVERYWHERE, has_comment, has_score, level, min_created_at, max_created_at } = query;
  const { ids: id, run_ids: run_id, project_ids: project_id, keys: key, sources: source, user_ids: user_id } = query;
  const lists = { id, run_id, project_id, key, source, user_id };
  const filter = toFilterArgument(scope.filter);
  const shape: RecordsShape = {
    one_workspace: workspace_ids.length === 1,
    lists: LISTS.filter((name) => lists[name]),
    ...(has_comment === undefined ? {} : { has_comment }),
    ...(has_score === undefined ? {} : { has_score }),
    ...(level === undefined ? {} : { level }),
    min_created_at: min_created_at !== undefined,
    max_created_at: max_created_at !== undefined,
    filtered: filter !== null,
  };
  const list = (values: readonly string[] = []): string => JSON.stringify(values);
  const args = {
    ...{ workspace_id: workspace_ids[0] ?? "", workspace_ids: list(workspace_ids) },
    ...{ id: list(id), run_id: list(run_id), project_id: list(project_id) },
    ...{ key: list(key), source: list(source), user_id: list(user_id) },
    ...{ min_created_at: min_created_at ?? 0, max_created_at: max_created_at ?? 0 },
    ...{ deployment: scope.deployment, filter: filter ?? "" },
  };
  return { shape, args };
}

/**
 * Returns the columns of a record. Score, value, correction, `source_metadata` and `extra` become JSON text, or null if they
 * are absent.
 */
function toStored(feedback: FeedbackRow): Rows["feedback"] {
  return {
    ...feedback,
    score: encodeJson(feedback.score),
    value: encodeJson(feedback.value),
    correction: encodeJson(feedback.correction),
    source_metadata: encodeJson(feedback.source_metadata),
    extra: encodeJson(feedback.extra),
  };
}

function toFeedback(row: Rows["feedback"]): FeedbackRow {
  return {
    ...row,
    score: decodeJson(row.score),
    value: decodeJson<Json>(row.value),
    correction: decodeJson<Json>(row.correction),
    source_metadata: decodeJson(row.source_metadata),
    extra: decodeJson(row.extra),
  };
}

/** Converts a row. The token has no deployment, lifetime or number of submissions. */
function toToken(row: Rows["feedback_tokens"]): FeedbackTokenRow {
  const { deployment: _, life_ms: _life, submissions: _submissions, ...token } = row;
  return { ...token, config: decodeJson<FeedbackConfig>(token.config) };
}

/**
 * Summarizes each key from one row for each text value and one for all other values. Scores are null for a key without scores.
 * `values` counts the records of each text value.
 */
function toStats(rows: readonly RecordSummary[]): FeedbackStats[] {
  const byKey = Map.groupBy(rows, ({ key }) => key);
  return [...byKey].map(([key, parts]) => {
    const total = (column: "n" | "scored" | "sum"): number => parts.reduce((sum, part) => sum + (part[column] ?? 0), 0);
    const numbers = (column: "min" | "max"): number[] => parts.flatMap((part) => part[column] ?? []);
    const scored = total("scored");
    return {
      key,
      n: total("n"),
      avg: scored > 0 ? total("sum") / scored : null,
      min: scored > 0 ? Math.min(...numbers("min")) : null,
      max: scored > 0 ? Math.max(...numbers("max")) : null,
      values: Object.fromEntries(
        parts.flatMap(({ label, n }) => (label === null ? [] : [[JSON.parse(label) as string, n]])),
      ),
    };
  });
}
