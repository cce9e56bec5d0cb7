/** Feedback: records on runs, submitted with a pre-signed token or created by an authenticated caller. */
import type { InternalResource } from "../auth/authorizer.ts";
import { type Environment, uuidV7 } from "../environment.ts";
import { InputError, ServiceError } from "../errors.ts";
import { type Json, type JsonObject, sameJson } from "../json.ts";
import { formatIsoTime, formatRfc3339 } from "../rfc3339.ts";
import { type Caller, type IdentityStore, type Permission, requireWorkspacesWith } from "../storage/identity.ts";
import type {
  FeedbackConfig,
  FeedbackPatch,
  FeedbackQuery,
  FeedbackRow,
  FeedbackStats,
  FeedbackTokenRow,
  IdempotencyKey,
  Page,
  Scope,
  Storage,
} from "../storage/mod.ts";
import { createTokenUrlBuilder } from "./links.ts";
import { createFeedbackOverview, type FeedbackOverview, toTokenForCaller } from "./overview.ts";

export type { ScoreQuery, ScoreStride } from "./overview.ts";

/** A token to create; `expires_at` in milliseconds since 1970. */
export interface TokenRequest {
  readonly run_id: string;
  readonly feedback_key: string;
  readonly expires_at: number;
  readonly config: FeedbackConfig | null;
}

/** A token in its JSON form. */
export interface FeedbackToken {
  /** The id of the token. Callers without `feedback:create` get another unique id, which submits nothing. */
  readonly id: string;
  /** Empty for callers without `feedback:create`. */
  readonly url: string;
  /** RFC 3339; null while the run that created the token has not ended. */
  readonly expires_at: string | null;
  readonly feedback_key: string;
}

/** A submission to a token. */
export interface FeedbackSubmission {
  readonly score: number | boolean | null;
  readonly value: Json;
  readonly comment: string | null;
  readonly correction: Json;
  readonly metadata: JsonObject | null;
  /** The part of the request that errors name. */
  readonly from: "body" | "query";
}

/** A record to create. Needs `run_id` or `session_id`. */
export interface FeedbackCreate extends Pick<FeedbackSubmission, "score" | "value" | "comment" | "correction"> {
  readonly id?: string;
  readonly run_id?: string;
  readonly session_id?: string;
  readonly key: string;
  readonly source: string;
  readonly source_metadata: JsonObject | null;
  readonly extra: JsonObject | null;
}

/** The filter of a search. Workspaces and scope come from the caller. */
export type FeedbackFilter = Omit<FeedbackQuery, "workspace_ids" | "scope">;

/** A record in its JSON form; times are ISO 8601, UTC. */
export interface FeedbackRecord extends Pick<FeedbackSubmission, "score" | "value" | "comment" | "correction"> {
  readonly id: string;
  readonly run_id: string | null;
  readonly trace_id: string | null;
  /** The id of the project. */
  readonly session_id: string;
  readonly key: string;
  readonly created_at: string;
  readonly modified_at: string;
  /** When the run started. */
  readonly start_time: string | null;
  readonly feedback_source: {
    readonly type: string;
    readonly metadata: JsonObject | null;
    readonly user_id: string | null;
    readonly user_name: null;
  };
  readonly comparative_experiment_id: null;
  readonly feedback_group_id: null;
  readonly feedback_thread_id: string | null;
  readonly extra: JsonObject | null;
  readonly is_root: true;
}

/** Feedback on the runs that a caller can see. Each method checks the permissions of `caller`. */
export interface Feedback extends FeedbackOverview {
  /** Creates all tokens or none. Throws `not_found` (a run), `forbidden` or `invalid` (no public base URL). */
  mintTokens(caller: Caller, requests: readonly TokenRequest[]): Promise<readonly FeedbackToken[]>;
  /**
   * Returns the tokens of a run, oldest first, including expired ones. URLs need the permission `feedback:create`. Throws `forbidden` or
   * `invalid` (no public base URL).
   */
  listTokens(caller: Caller, query: { readonly run_id: string } & Page): Promise<readonly FeedbackToken[]>;
  /** Creates a record. Throws `not_found` (run or session), `forbidden` or `conflict` (another record has this id). */
  create(caller: Caller, request: FeedbackCreate): Promise<FeedbackRecord>;
  /** Returns a record. Throws `not_found` or `forbidden`. */
  get(caller: Caller, id: string): Promise<FeedbackRecord>;
  /** Changes the members of the patch; null clears a member. Throws `not_found` or `forbidden`. */
  update(caller: Caller, id: string, patch: FeedbackPatch): Promise<FeedbackRecord>;
  /** Deletes a record. Throws `not_found` or `forbidden`. */
  delete(caller: Caller, id: string): Promise<void>;
  /** Returns records, newest first, then by id. Throws `forbidden`. */
  list(caller: Caller, query: FeedbackFilter & Page): Promise<readonly FeedbackRecord[]>;
  /** Returns statistics by key. Throws `forbidden`. */
  stats(caller: Caller, query: FeedbackFilter): Promise<readonly FeedbackStats[]>;
}

/** The operations that need only a token. */
export interface FeedbackTokens {
  /** Returns a token that accepts submissions. Throws `not_found`, or `gone` if it has expired. */
  token(token_id: string): Promise<FeedbackTokenRow>;
  /**
   * Records a submission and returns the record's id; with a repeated idempotency key, the id of the first record. Throws an
   * `InputError` (the token's config), `not_found`, `gone`, `conflict` (the key was used for other content) or `too_many`.
   */
  submit(token: FeedbackTokenRow, submission: FeedbackSubmission, idempotency?: IdempotencyKey): Promise<string>;
}

/** The internal resource of feedback, with its tokens. */
export interface InternalFeedback extends InternalResource<Feedback>, FeedbackTokens {}

export interface FeedbackOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  /** The store that has the deployment's workspace and the projects. Default: the identity store of the storage. */
  readonly identity?: Pick<IdentityStore, "getDeployment" | "listUnits">;
  /** The URL of the server for clients. Tokens need it. */
  base_url(): string | undefined;
  /** True if tokens and records may name runs of other servers. */
  readonly external_runs: boolean;
  /** Called once feedback on a run is stored for the first time. Never rejects. */
  readonly onStored?: (stored: StoredFeedback) => Promise<void>;
}

/** What the storage has got about a run. */
export interface StoredFeedback extends Pick<FeedbackRow, "key" | "score" | "value" | "comment" | "created_at"> {
  readonly run_id: string;
}

/** The maximum number of submissions to one token. */
const MAX_SUBMISSIONS = 100;

/** The workspace, project and thread of the run that a record is about. */
interface Target {
  readonly workspace_id: string;
  readonly project_id: string;
  readonly thread_id: string | null;
  readonly run_started_at: number | null;
}

/** Creates the internal resource of feedback. */
export function createFeedback(options: FeedbackOptions): InternalFeedback {
  const targets = createTargets(options);
  const buildUrl = createTokenUrlBuilder(options.base_url);
  return {
    ...createTokenOperations(options, targets, buildUrl),
    ...createRecordOperations(options, targets),
    ...createFeedbackOverview(options.storage, buildUrl),
  };
}

/** Finds the workspace and project of feedback, and checks that the caller may write there. */
interface Targets {
  /**
   * Returns workspace, project, thread and start of a run: those of its trace, or before it has started those of the
   * deployment. Returns null for an unknown run. A deleted run still has its trace.
   */
  findTarget(run_id: string): Promise<Target | null>;
  /**
   * Returns the target of feedback on a run. An unknown run gets a workspace and project of the caller if external runs are
   * allowed. Throws `not_found`, also for a run of another workspace or one that the scope excludes, or `permission_missing`.
   */
  requireWritableTarget(scope: Scope, caller: Caller, run_id: string): Promise<Target>;
  /**
   * Returns the project with this id as the target, without a thread. Throws `not_found` if the caller has no such project, and
   * always with a filter; `permission_missing` without the permission in its workspace.
   */
  requireSessionTarget(scope: Scope, caller: Caller, session_id: string): Promise<Target>;
}

function createTargets(options: FeedbackOptions): Targets {
  const { storage, scope: deploymentScope, identity = storage.identity } = options;

  async function findTarget(run_id: string): Promise<Target | null> {
    const trace = await storage.getTrace(run_id);
    if (trace) return { ...trace, run_started_at: trace.started_at };
    const run = await storage.getRun(deploymentScope, run_id);
    const deployment = run && (await identity.getDeployment(deploymentScope.deployment));
    return deployment ? { ...deployment, thread_id: run.stateless ? null : run.thread_id, run_started_at: null } : null;
  }

  async function requireWritableTarget(scope: Scope, caller: Caller, run_id: string): Promise<Target> {
    const [workspace_id = ""] = requireWorkspacesWith(caller, "feedback:create");
    if (scope.filter && !(await storage.getRun(scope, run_id))) throw runNotFoundError();
    const target = await findTarget(run_id);
    if (target && caller.workspaces.has(target.workspace_id)) {
      requirePermission(caller, target.workspace_id, "feedback:create");
      return target;
    }
    const project_id = caller.projects.get(workspace_id);
    if (target || !options.external_runs || project_id === undefined) throw runNotFoundError();
    return { workspace_id, project_id, thread_id: null, run_started_at: null };
  }

  async function requireSessionTarget(scope: Scope, caller: Caller, session_id: string): Promise<Target> {
    // A filter matches metadata, and projects have none.
    if (scope.filter) throw new ServiceError("not_found", "Session not found");
    const projects = await identity.listUnits("project", [...caller.workspaces.keys()]);
    const project = projects.find(({ id }) => id === session_id);
    if (!project) throw new ServiceError("not_found", "Session not found");
    requirePermission(caller, project.workspace_id, "feedback:create");
    return { workspace_id: project.workspace_id, project_id: project.id, thread_id: null, run_started_at: null };
  }

  return { findTarget, requireWritableTarget, requireSessionTarget };
}

/** Creates the operations on feedback tokens. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
function createTokenOperations(
  options: FeedbackOptions,
  { findTarget, requireWritableTarget }: Targets,
  buildUrl: (token_id: string) => string,
): Pick<InternalFeedback, "mintTokens" | "listTokens" | "token" | "submit"> {
  const { storage, scope: deploymentScope, environment } = options;

  /** Converts a row for a caller. Without `feedback:create` the URL is empty and the id submits nothing. */
  async function toToken(caller: Caller, row: FeedbackTokenRow): Promise<FeedbackToken> {
    const { feedback_key, expires_at } = row;
    const { id, url } = await toTokenForCaller(caller, row, buildUrl);
    return { id, url, expires_at: expires_at === null ? null : formatRfc3339(expires_at), feedback_key };
  }

  return {
    /**
     * Creates and stores a token for each request, all or none, and returns them with their URLs. Throws `not_found`,
     * `permission_missing` or `public_base_url_missing`.
     */
    async mintTokens(scope, caller, requests) {
      requireWorkspacesWith(caller, "feedback:create");
      const targets = new Map<string, Target>();
      for (const { run_id } of requests) {
        if (!targets.has(run_id)) targets.set(run_id, await requireWritableTarget(scope, caller, run_id));
      }
      const rows = requests.map(({ run_id, feedback_key, expires_at, config }): FeedbackTokenRow => {
        const { workspace_id, project_id } = targets.get(run_id) as Target;
        const token = { token_id: environment.uuid(), run_id, workspace_id, project_id, feedback_key, config };
        return { ...token, expires_at, created_at: environment.now() };
      });
      const tokens = await Promise.all(rows.map((row) => toToken(caller, row)));
      if (!(await storage.createFeedbackTokens(scope, rows))) throw runNotFoundError();
      return tokens;
    },

    /**
     * Returns a page of the tokens of a run in workspaces that the caller may read, oldest first and also expired; empty for an
     * unknown run. Without `feedback:create` they have no usable URL. Throws `permission_missing`.
     */
    async listTokens(scope, caller, query) {
      const workspace_ids = requireWorkspacesWith(caller, "feedback:read");
      const run_id = query.run_id.toLowerCase();
      const search = { ...query, run_id, workspace_ids, scope };
      const rows = await storage.listFeedbackTokens({ ...search, sort_order: "asc" });
      return await Promise.all(rows.map((row) => toToken(caller, row)));
    },

    /** Returns the row of a token, without a check of permissions. Throws `not_found`, or `gone` if it has expired. */
    async token(token_id) {
      const token = await storage.getFeedbackToken(token_id.toLowerCase());
      if (!token) throw tokenNotFoundError();
      if (token.expires_at !== null && token.expires_at <= environment.now()) throw tokenExpiredError();
      return token;
    },

    /**
     * Stores feedback with a token, in its workspace and under its key, and returns the new id; for a repeated idempotency key
     * that of the first. Throws an `InputError` for a score that does not fit, `not_found`, `gone`, `submission_key_reused`, or
     * `too_many`.
     */
    async submit(token, submission, idempotency) {
      const { run_id, workspace_id, project_id } = token;
      const { score, value } = validateSubmission(submission, token.config);
      const target = await findTarget(run_id);
      const now = environment.now();
      const id = uuidV7(environment, now);
      const feedback: FeedbackRow = {
        ...{ id, run_id, workspace_id, project_id, score, value },
        thread_id: target?.thread_id ?? null,
        key: token.feedback_key,
        comment: submission.comment,
        correction: submission.correction,
        source: "api",
        source_metadata: submission.metadata,
        user_id: null,
        run_started_at: target?.run_started_at ?? null,
        created_at: now,
        modified_at: now,
        extra: null,
      };
      const key = idempotency && { idempotency };
      const request = { token_id: token.token_id, feedback, limit: MAX_SUBMISSIONS, now, ...key };
      const result = await storage.submitFeedback(deploymentScope, request);
      switch (result.kind) {
        case "recorded":
          await options.onStored?.({ ...feedback, run_id });
          return id;
        case "repeated":
          if (result.same_body) return result.feedback_id;
          throw new ServiceError(
            "submission_key_reused",
            "Idempotency-Key: was used for other feedback; send a new key",
          );
        case "token_not_found":
          throw tokenNotFoundError();
        case "token_expired":
          throw tokenExpiredError();
        case "token_full":
          throw new ServiceError("too_many", `This token has reached its limit of ${MAX_SUBMISSIONS} submissions`);
      }
    },
  };
}

/** Creates the operations on feedback records. Each checks the permission in the record's workspace. */
function createRecordOperations(
  { storage, environment, onStored }: FeedbackOptions,
  { requireWritableTarget, requireSessionTarget }: Targets,
): Pick<InternalFeedback, "create" | "get" | "update" | "delete" | "list" | "stats"> {
  /**
   * Returns a record. Throws `not_found` if it is in no workspace of the caller or its run is not visible, and
   * `permission_missing` if the caller lacks the permission in its workspace or in all.
   */
  async function requireRecord(scope: Scope, caller: Caller, id: string, permission: Permission): Promise<FeedbackRow> {
    requireWorkspacesWith(caller, permission);
    const workspace_ids = [...caller.workspaces.keys()];
    const [row] = await storage.listFeedback({ workspace_ids, ids: [id], scope, limit: 1, offset: 0 });
    if (!row) throw recordNotFoundError();
    requirePermission(caller, row.workspace_id, permission);
    return row;
  }

  /**
   * Returns the query limited to the scope and the workspaces that the caller may read, with run ids in lower case, as they are
   * stored. Throws `permission_missing` if there is no such workspace.
   */
  function toSearchQuery<Query extends FeedbackFilter>(
    scope: Scope,
    caller: Caller,
    query: Query,
  ): Query & Pick<FeedbackQuery, "workspace_ids" | "scope"> {
    const workspace_ids = requireWorkspacesWith(caller, "feedback:read");
    const run_ids = query.run_ids?.map((run_id) => run_id.toLowerCase());
    return { ...query, ...(run_ids && { run_ids }), workspace_ids, scope };
  }

  return {
    /**
     * Creates feedback on a run, or without a `run_id` on a session. Returns the stored record, unchanged, if the same feedback
     * exists. Throws `already_exists` for its id with other content, `not_found` for an unknown run or session, and
     * `permission_missing`.
     */
    async create(scope, caller, request) {
      requireWorkspacesWith(caller, "feedback:create");
      const { id: requestedId, run_id = null, session_id = "", ...content } = request;
      const { workspace_id, project_id, thread_id, run_started_at } =
        run_id === null
          ? await requireSessionTarget(scope, caller, session_id)
          : await requireWritableTarget(scope, caller, run_id);
      const now = environment.now();
      const id = requestedId ?? uuidV7(environment, now);
      const target = { workspace_id, project_id, thread_id, run_started_at };
      const origin = { id, run_id, user_id: caller.user_id, created_at: now, modified_at: now };
      const row: FeedbackRow = { ...content, ...target, ...origin };
      const result = await storage.createFeedback(row, scope);
      if (!result) throw runNotFoundError();
      if (result.kind === "exists" && !hasSameContent(row, result.feedback)) {
        throw new ServiceError("already_exists", `Feedback ${id} already exists`);
      }
      if (run_id !== null && result.kind !== "exists") await onStored?.({ ...row, run_id });
      return toRecord(result.feedback);
    },

    get: async (scope, caller, id) => toRecord(await requireRecord(scope, caller, id, "feedback:read")),

    /**
     * Changes the members of a record that the patch has, and returns it; an empty patch changes nothing, also not its time.
     * Throws `not_found` or `permission_missing`.
     */
    async update(scope, caller, id, patch) {
      const before = await requireRecord(scope, caller, id, "feedback:create");
      if (Object.keys(patch).length === 0) return toRecord(before);
      const row = await storage.updateFeedback([before.workspace_id], id, patch, environment.now(), scope);
      if (!row) throw recordNotFoundError();
      return toRecord(row);
    },

    /** Deletes a record. Throws `not_found`, and `permission_missing` without the permission in its workspace. */
    async delete(scope, caller, id) {
      const { workspace_id } = await requireRecord(scope, caller, id, "feedback:delete");
      if (!(await storage.deleteFeedback([workspace_id], id, scope))) throw recordNotFoundError();
    },

    list: async (scope, caller, query) =>
      (await storage.listFeedback(toSearchQuery(scope, caller, query))).map(toRecord),

    stats: async (scope, caller, query) => await storage.feedbackStats(toSearchQuery(scope, caller, query)),
  };
}

/** Returns the score and value of a submission. A category of the token's config supplies the missing one of the two. Throws an
 * `InputError` if they do not fit the config. */
function validateSubmission(
  submission: FeedbackSubmission,
  config: FeedbackConfig | null,
): Pick<FeedbackSubmission, "score" | "value"> {
  const { score, value, from } = submission;
  const refuse = (field: string, msg: string): never => {
    throw new InputError([{ loc: [from, field], msg, type: "value_error" }]);
  };
  if (config?.type === "categorical") return validateCategory(submission, config.categories ?? [], refuse);
  if (config?.type === "continuous" && score !== null) {
    const { min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY } = config;
    if (Number(score) < min || Number(score) > max) refuse("score", `must be between ${min} and ${max}`);
  }
  return { score, value };
}

/**
 * Returns score and value by the categories: a label supplies a missing score, and the score a missing value. Calls `refuse`,
 * which throws, for a score or label of no category, or of two different ones.
 */
function validateCategory(
  { score, value }: FeedbackSubmission,
  categories: NonNullable<FeedbackConfig["categories"]>,
  refuse: (field: string, msg: string) => never,
): Pick<FeedbackSubmission, "score" | "value"> {
  const scoreNumber = score === null ? null : Number(score);
  const label = typeof value === "string" ? value : null;
  const matchingCategories =
    scoreNumber === null ? categories : categories.filter((category) => category.value === scoreNumber);
  if (matchingCategories.length === 0 && scoreNumber !== null) refuse("score", "must be the value of a category");
  if (label === null)
    return { score, value: scoreNumber === null ? value : (value ?? matchingCategories[0]?.label ?? null) };
  if (!categories.some((category) => category.label === label)) refuse("value", "must be the label of a category");
  const chosen = matchingCategories.find((category) => category.label === label);
  if (!chosen) refuse("value", "must be the label of the score's category");
  return { score: score ?? chosen?.value ?? null, value };
}

const runNotFoundError = (): ServiceError => new ServiceError("run_not_found", "Run not found");
const recordNotFoundError = (): ServiceError => new ServiceError("not_found", "Feedback not found");
const tokenNotFoundError = (): ServiceError => new ServiceError("not_found", "Feedback token not found");
const tokenExpiredError = (): ServiceError => new ServiceError("gone", "Feedback token expired");

/** Throws `permission_missing` if the caller does not have the permission on the workspace. */
function requirePermission(caller: Caller, workspace_id: string, permission: Permission): void {
  if (caller.workspaces.get(workspace_id)?.has(permission)) return;
  throw new ServiceError("permission_missing", `This needs the permission ${permission}`);
}

/**
 * Returns true if two records differ at most in id, user, their times and the start of their run, as those of a repeated request
 * do.
 */
function hasSameContent(a: FeedbackRow, b: FeedbackRow): boolean {
  /** Returns a copy of the record without its id, its user, its times and the start of its run. */
  const content = (row: FeedbackRow): Json => {
    const { id: _id, user_id: _user, created_at: _at, modified_at: _then, run_started_at: _start, ...rest } = row;
    return rest;
  };
  return sameJson(content(a), content(b));
}

/** Converts a row to LangSmith's form. The session is the project; members that this service does not have are null. */
function toRecord(row: FeedbackRow): FeedbackRecord {
  return {
    id: row.id,
    run_id: row.run_id,
    trace_id: row.run_id,
    session_id: row.project_id,
    key: row.key,
    score: row.score,
    value: row.value,
    comment: row.comment,
    correction: row.correction,
    created_at: formatIsoTime(row.created_at),
    modified_at: formatIsoTime(row.modified_at),
    start_time: formatIsoTime(row.run_started_at),
    feedback_source: { type: row.source, metadata: row.source_metadata, user_id: row.user_id, user_name: null },
    comparative_experiment_id: null,
    feedback_group_id: null,
    feedback_thread_id: row.thread_id,
    extra: row.extra,
    is_root: true,
  };
}
