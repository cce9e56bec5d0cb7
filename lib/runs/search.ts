/** Runs of all threads: searches, one run in detail, running one again, and the figures of the last hour. */
import type { InternalResource } from "../auth/authorizer.ts";
import { waitForNextTick } from "../environment.ts";
import { invalidFieldError, notFoundError } from "../errors.ts";
import { isReservedMember, omitSecrets, readKwargs } from "../executor/job-request.ts";
import type { WaitingFor } from "../executor/journal.ts";
import type { IsoTime, Json, JsonObject, Uuid } from "../json.ts";
import { formatIsoTime } from "../rfc3339.ts";
import { type CursorPage, type CursorQuery, decodeCursor, encodeCursor, parseTime } from "../storage/cursor.ts";
import type {
  ListedRun,
  MultitaskStrategy,
  RunFilter,
  RunRow,
  RunSearch,
  RunStatus,
  Scope,
  TraceUsage,
} from "../storage/mod.ts";
import { type DeliveryDetail, findDelivery } from "../webhooks/deliveries.ts";
import type { CreateOptions } from "./create.ts";
import type { AuthorizedRun, RunCreate, RunOrigin } from "./request.ts";
import { type Run, toPublicKwargs } from "./run.ts";
import { type RunStats, readRunStats } from "./stats.ts";

/** Filters and page of a search over all runs. Times are RFC 3339. */
export interface RunListQuery extends CursorQuery, RunFilter<string> {}

/** A run in a list over all threads; times are ISO 8601, UTC. */
export interface RunSummary {
  readonly run_id: Uuid;
  readonly thread_id: Uuid;
  readonly assistant_id: Uuid;
  /** The version of the assistant that it executes; null for a run of an older release. */
  readonly assistant_version: number | null;
  readonly graph_id: string;
  readonly status: RunStatus;
  /** The events or interrupts that a suspended run waits for; absent while it executes. */
  readonly waiting_for?: readonly WaitingFor[];
  readonly attempt: number;
  readonly claims: number;
  readonly multitask_strategy: MultitaskStrategy;
  /** True for a stateless run, whose thread the API does not return. */
  readonly temporary: boolean;
  /** The end of its lease; null while it is not running. */
  readonly lease_until: IsoTime | null;
  readonly cancel_requested: boolean;
  readonly cancel_reason: string | null;
  readonly created_at: IsoTime;
  readonly updated_at: IsoTime;
  readonly started_at: IsoTime | null;
  readonly ended_at: IsoTime | null;
  /** The time from its creation to its first start, or until now. */
  readonly wait_ms: number;
  /** The time from its first start to its end, or until now; null before the start. */
  readonly duration_ms: number | null;
  readonly metadata: JsonObject;
  /** `api_key` is the short form of the key. */
  readonly started_by: {
    readonly user_id: string | null;
    readonly api_key: string | null;
    readonly cron_id: Uuid | null;
  };
  /** Reported tokens and cost; null before the first start. */
  readonly usage: TraceUsage | null;
  readonly error: JsonObject | null;
  readonly webhook: boolean;
}

/** All stored details of a run. */
export interface RunDetail extends RunSummary {
  /** The request, without credentials. */
  readonly kwargs: JsonObject;
  /** The final values of a stateless run; null for others, whose checkpoints have them. */
  readonly result: Json;
  /** The newest root checkpoint that it stored. */
  readonly checkpoint_id: string | null;
  /** `end`: the id of the last frame; null while it is active. */
  readonly frames: { readonly stored: boolean; readonly end: number | null };
  readonly turn: number;
  readonly seq: number;
  readonly delivery: DeliveryDetail | null;
  /** The feedback links of the run, without their URLs. */
  readonly feedback: readonly {
    readonly feedback_key: string;
    readonly created_at: IsoTime;
    readonly expires_at: IsoTime | null;
  }[];
  /** The stack of its error; null for callers who can see only some runs. */
  readonly stack: string | null;
  /** Its newest claims in their order. `until`: the end of the lease while it is running, else the next claim or the end. */
  readonly attempts: readonly { readonly at: IsoTime; readonly until: IsoTime; readonly worker: string }[];
}

/** Authorizes a run before it is created again. */
type AuthorizeNewRun = (thread_id: string | null, request: RunCreate, origin: RunOrigin) => Promise<AuthorizedRun>;

/** Operations on the runs of all threads. */
export interface RunSearches {
  /** Returns runs, newest first. Default limit: 50. Throws `invalid` (a time, the cursor, the metadata). */
  search(query?: RunListQuery): Promise<CursorPage<RunSummary>>;
  /** Returns counts, waits and durations of the last hour. */
  stats(): Promise<RunStats>;
  /** Returns all stored details of a run. Throws `not_found`. */
  inspect(run_id: string): Promise<RunDetail>;
  /**
   * Creates a run with the same request on the same thread, without the credentials of the first one. Adds a trace link `again` to
   * the first run to the links of `origin`. Throws `not_found` and what `create` throws.
   */
  rerun(run_id: string, origin?: RunOrigin): Promise<Run>;
}

export interface ScopedSearches extends Omit<InternalResource<RunSearches>, "rerun"> {
  rerun(scope: Scope, run_id: string, origin?: RunOrigin, authorize?: AuthorizeNewRun): Promise<Run>;
}

interface RunSearchOptions extends Pick<CreateOptions, "storage" | "environment" | "assistants"> {
  /** The workspace of the deployment, which has its feedback links. */
  readonly workspace_id: string;
}

/** The maximum number of rows per query of a search. */
const SEARCH_BATCH_SIZE = 100;
/** The maximum number of feedback links that are returned with a run. */
const MAX_FEEDBACK_LINKS = 100;

/** Creates the operations that search, inspect and repeat runs of all threads. `create` creates the run of a `rerun`. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createRunSearches(
  { storage, environment, assistants, workspace_id }: RunSearchOptions,
  create: (scope: Scope, thread_id: string | null, request: RunCreate, origin: RunOrigin) => Promise<Run>,
): ScopedSearches {
  /**
   * Returns a run as a row and as an element of a list. Throws `not_found` if it does not exist or is not visible. Ignores the
   * case of the id.
   */
  async function requireListedRun(scope: Scope, run_id: string): Promise<readonly [RunRow, ListedRun]> {
    const id = run_id.toLowerCase();
    const [run, listed] = await Promise.all([
      storage.getRun(scope, id),
      storage.searchRuns(scope, { run_id: id, limit: 1 }),
    ]);
    const [listedRun] = listed.rows;
    if (!run || !listedRun) throw notFoundError("run", run_id);
    return [run, listedRun];
  }

  /**
   * Reads at most `query.limit` runs in batches, because rows with large requests take long to read. Returns the position after
   * which the next page starts, null at the end. Stops early at a batch that is not full.
   */
  async function readRuns(scope: Scope, query: RunSearch): ReturnType<typeof storage.searchRuns> {
    const rows: ListedRun[] = [];
    for (let pageQuery = query; ; ) {
      const limit = Math.min(SEARCH_BATCH_SIZE, query.limit - rows.length);
      const page = await storage.searchRuns(scope, { ...pageQuery, limit });
      rows.push(...page.rows);
      if (!page.next || page.rows.length < limit || rows.length >= query.limit) return { rows, next: page.next };
      pageQuery = { ...query, after: page.next };
      await waitForNextTick(environment);
    }
  }

  return {
    /**
     * Returns a page of runs of all threads, newest first, 50 without a limit; empty for an unknown assistant. `next` is a
     * cursor, null at the end. Throws `invalid` for wrong times, metadata or cursors.
     */
    async search(scope, query = {}) {
      const { limit = 50, cursor, assistant_id } = query;
      const search: RunSearch = { ...toRunSearch(query), ...decodeCursor(cursor), limit };
      const assistant = assistant_id === undefined ? undefined : await assistants.findId(assistant_id);
      if (assistant === null) return { items: [], next: null };
      const fullSearch = { ...search, ...(assistant === undefined ? {} : { assistant_id: assistant }) };
      const { rows, next } = await readRuns(scope, fullSearch);
      const now = environment.now();
      return { items: rows.map((row) => toRunSummary(row, now)), next: encodeCursor(next) };
    },

    stats: (scope) => readRunStats(storage, scope, environment.now()),

    /**
     * Returns all details of a run, with its newest checkpoint, webhook delivery and feedback links. The stack of its error is
     * null for callers with a filter. Throws `not_found`.
     */
    async inspect(scope, run_id) {
      const [run, listedRun] = await requireListedRun(scope, run_id);
      const [checkpoint, delivery, links] = await Promise.all([
        storage.getCheckpoint(scope, run.thread_id, { ns: "", run_id: run.run_id }),
        findDelivery(storage, scope, run.run_id),
        storage.listFeedbackTokens({
          workspace_ids: [workspace_id],
          run_id: run.run_id,
          scope,
          sort_order: "asc",
          limit: MAX_FEEDBACK_LINKS,
        }),
      ]);
      return {
        ...toRunSummary(listedRun, environment.now()),
        kwargs: toPublicKwargs(run),
        result: run.result,
        checkpoint_id: checkpoint?.checkpoint_id ?? null,
        frames: { stored: run.resumable, end: run.end_frame },
        turn: run.claim_number,
        seq: run.seq,
        delivery,
        feedback: links.map(({ feedback_key, created_at, expires_at }) => ({
          feedback_key,
          created_at: formatIsoTime(created_at),
          expires_at: formatIsoTime(expires_at),
        })),
        stack: scope.filter ? null : (run.stack ?? null),
        attempts: listedRun.claim_log.map(({ at, worker }, index, log) => ({
          at: formatIsoTime(at),
          // A run that waits again changed last when it was put back.
          until: formatIsoTime(log[index + 1]?.at ?? listedRun.lease_until ?? run.ended_at ?? run.updated_at),
          worker,
        })),
      };
    },

    /**
     * Creates a run with the request of another one, on its thread; a stateless run gets a new one. `authorize` may change
     * scope, request and origin. Adds a trace link `again` to the first run to the links of the origin. Throws `not_found`, and
     * what the creation throws.
     */
    async rerun(scope, run_id, origin = {}, authorize) {
      const [run] = await requireListedRun(scope, run_id);
      const thread_id = run.stateless ? null : run.thread_id;
      const request = toRerunRequest(run);
      const authorizedRun = authorize ? await authorize(thread_id, request, origin) : { scope, request, origin };
      const links = [...(authorizedRun.origin.trace?.links ?? []), { kind: "again", run_id: run.run_id } as const];
      const trace = { ...authorizedRun.origin.trace, links };
      return await create(authorizedRun.scope, thread_id, authorizedRun.request, { ...authorizedRun.origin, trace });
    },
  };
}

/**
 * Converts the filters to those of the storage, with times in milliseconds; undefined ones are omitted. Assistant, limit and
 * cursor are not converted. Throws `invalid` for a malformed time and for metadata that is no text, number, boolean or null.
 */
function toRunSearch(query: RunListQuery): Omit<RunSearch, "limit"> {
  const { status, graph_id, thread_id, cron_id, user_id, metadata, min_active_ms, error_type, waiting } = query;
  for (const [key, value] of Object.entries(metadata ?? {})) {
    if (typeof value === "object" && value !== null) {
      throw invalidFieldError("metadata", `${key} must be a text, a number, a boolean or null`);
    }
  }
  const times = (["created_after", "created_before", "started_after", "started_before"] as const).flatMap((name) =>
    query[name] === undefined ? [] : [[name, parseTime(name, query[name])]],
  );
  const filters = { status, graph_id, thread_id, cron_id, user_id, metadata, min_active_ms, error_type, waiting };
  const fields = Object.entries(filters).filter(([, value]) => value !== undefined);
  return Object.fromEntries([...fields, ...times]) as Omit<RunSearch, "limit">;
}

/**
 * Converts a row. `wait_ms` counts until the start, or without one until the end or now; `duration_ms` until the end or now,
 * null without a start. Only a pending run has `waiting_for`.
 */
function toRunSummary({ run, lease_until, cancel_requested, usage }: ListedRun, now: number): RunSummary {
  const { started_at, ended_at, created_at } = run;
  return {
    run_id: run.run_id,
    thread_id: run.thread_id,
    assistant_id: run.assistant_id,
    assistant_version: run.assistant_version ?? null,
    graph_id: run.graph_id,
    status: run.status,
    ...(run.status === "pending" && run.waiting_for ? { waiting_for: run.waiting_for as unknown as WaitingFor[] } : {}),
    attempt: run.attempt,
    claims: run.claims,
    multitask_strategy: run.multitask_strategy,
    temporary: run.stateless,
    lease_until: formatIsoTime(lease_until),
    cancel_requested: cancel_requested && ended_at === null,
    cancel_reason: run.cancel_reason ?? null,
    created_at: formatIsoTime(created_at),
    updated_at: formatIsoTime(run.updated_at),
    started_at: formatIsoTime(started_at),
    ended_at: formatIsoTime(ended_at),
    wait_ms: Math.max(0, (started_at ?? ended_at ?? now) - created_at),
    duration_ms: started_at === null ? null : Math.max(0, (ended_at ?? now) - started_at),
    metadata: run.metadata,
    started_by: { user_id: run.user_id, api_key: run.api_key, cron_id: run.cron_id ?? null },
    usage,
    error: run.error,
    webhook: run.webhook !== null,
  };
}

/**
 * Returns the request that creates a run like this one, of the same version of the assistant, without credentials, members that the server added, and context that
 * `configurable` repeats. A stateless run keeps no start checkpoint.
 */
function toRerunRequest(run: RunRow): RunCreate {
  const stored = readKwargs(run.kwargs);
  const { configurable, ...config } = omitSecrets(stored.config as unknown as JsonObject);
  const clientConfigurable = Object.fromEntries(
    Object.entries((configurable ?? {}) as JsonObject).filter(([key]) => !isReservedMember(key)),
  );
  // A member with two values is refused: the graph read the one in `configurable`.
  const context = Object.entries(omitSecrets(stored.context)).filter(
    ([key]) => !Object.hasOwn(clientConfigurable, key),
  );
  const { graph_id: _graph, assistant_id: _assistant, ...metadata } = run.metadata;
  const { input, command, from } = stored;
  return {
    assistant_id: run.assistant_id,
    ...(run.assistant_version === undefined ? {} : { assistant_version: run.assistant_version }),
    ...(input === undefined ? {} : { input }),
    ...(command ? { command: command as NonNullable<RunCreate["command"]> } : {}),
    ...(stored.strict_resume ? { strict_resume: true } : {}),
    config: { ...config, configurable: clientConfigurable } as NonNullable<RunCreate["config"]>,
    context: Object.fromEntries(context),
    metadata,
    ...(from && !run.stateless ? { checkpoint: { checkpoint_ns: from.ns, checkpoint_id: from.checkpoint_id } } : {}),
    stream_mode: stored.stream_mode,
    stream_subgraphs: stored.subgraphs,
    stream_resumable: stored.resumable,
    multitask_strategy: run.multitask_strategy,
    interrupt_before: stored.interrupt_before,
    interrupt_after: stored.interrupt_after,
    durability: stored.durability,
    ...(run.webhook ? { webhook: run.webhook.url } : {}),
    ...(run.feedback.length > 0 ? { feedback_keys: run.feedback.map(([key]) => key) } : {}),
  };
}
