/** The crons of a deployment: runs that start on a schedule. */
import type { InternalAssistants, PageOf } from "../assistants/mod.ts";
import type { InternalResource } from "../auth/authorizer.ts";
import { invalidFieldError, notFoundError } from "../errors.ts";
import type { AuthUser } from "../executor/contract.ts";
import { redactKwargs } from "../executor/job-request.ts";
import type { JsonObject } from "../json.ts";
import { formatIsoTime, parseRfc3339 } from "../rfc3339.ts";
import type { InternalRuns, RunCreate } from "../runs/mod.ts";
import type { RunOrigin } from "../runs/request.ts";
import type { CronContent, CronQuery, CronRow, CronSort, OnRunCompleted } from "../storage/mod.ts";
import { COUNT_ONLY } from "../storage/rows.ts";
import { requireStillVisible } from "../storage/visibility.ts";
import { redactUrl } from "../webhooks/policy.ts";
import { CRON_RUN_OPTIONS, type CronRunOptions } from "./cron-run.ts";
import { toCronRunRequest } from "./firing-handler.ts";
import { type CronFiringOptions, type CronFirings, createCronFirings } from "./firings.ts";
import { loadSchedules, type Schedules } from "./lazy-schedule.ts";
import { cronNotFoundError, requireCron } from "./require-cron.ts";
import type { Timing } from "./schedule.ts";

export type { SchedulePreview } from "./firings.ts";

/** A cron in its JSON form; times are ISO 8601, UTC. */
export interface Cron {
  readonly cron_id: string;
  readonly assistant_id: string;
  readonly thread_id: string | null;
  readonly on_run_completed: OnRunCompleted | null;
  readonly end_time: string | null;
  readonly schedule: string;
  readonly timezone: string | null;
  readonly created_at: string;
  readonly updated_at: string;
  /** The options of its runs, without credentials. */
  readonly payload: JsonObject;
  readonly user_id: string | null;
  readonly next_run_date: string | null;
  readonly metadata: JsonObject;
  readonly enabled: boolean;
}

/** The schedule of a cron, and what becomes of its runs. */
export interface CronTiming {
  /** A cron expression of five fields, or a nickname such as `@daily`. */
  readonly schedule: string;
  readonly timezone?: string | null;
  /** ISO 8601. */
  readonly end_time?: string | null;
  readonly enabled?: boolean | null;
  readonly on_run_completed?: OnRunCompleted | null;
  readonly metadata?: JsonObject | null;
}

/** Values of a new cron. */
export interface CronCreate extends CronRunOptions, CronTiming {
  readonly assistant_id: string;
  readonly if_not_exists?: "reject" | "create" | null;
}

/** The changes of a cron. Absent members stay; null clears an optional one. */
export type CronPatch = CronRunOptions & Partial<CronTiming>;

/** The filter, order and page of a search of crons. */
export interface CronSearch extends CronQuery {
  readonly limit?: number;
  readonly offset?: number;
  readonly sort_by?: CronSort;
  readonly sort_order?: "asc" | "desc";
}

/** Creates, reads and changes crons. */
export interface Crons extends CronFirings {
  /**
   * Creates a cron; a null `thread_id` makes it stateless. Throws `not_found`, `conflict` (a thread of another user), `invalid` or
   * `bad_request`.
   */
  create(thread_id: string | null, request: CronCreate, origin?: RunOrigin): Promise<Cron>;
  /** Returns a cron. Throws `not_found`. */
  get(cron_id: string): Promise<Cron>;
  /** Changes a cron. Recomputes `next_run_date` if the timing changes. Throws `not_found`, `invalid` or `bad_request`. */
  update(cron_id: string, patch: CronPatch): Promise<Cron>;
  /** Deletes a cron. Throws `not_found`. */
  delete(cron_id: string): Promise<void>;
  search(query?: CronSearch): Promise<PageOf<Cron>>;
  count(query?: CronQuery): Promise<number>;
}

/** The internal resource of crons. */
export type InternalCrons = InternalResource<Crons>;

export interface CronOptions extends CronFiringOptions {
  readonly runs: Pick<InternalRuns, "create" | "prepare">;
  readonly assistants: InternalAssistants;
  /** Called with the next fire time of a cron that was created or changed. */
  wakeAt(time: number): void;
}

/** Creates the operations on crons. A new or changed fire time wakes the scheduler. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createCrons(options: CronOptions): InternalCrons {
  const { storage, scope: deploymentScope, environment, runs, assistants, wakeAt } = options;

  /** Returns the cron in its JSON form, and wakes the scheduler at its next fire time, if it has one. */
  function scheduleCron(row: CronRow): Cron {
    if (row.next_run_date !== null) wakeAt(row.next_run_date);
    return toCron(row);
  }

  /**
   * Returns the query with the id of the assistant, which may be a graph id that stands for its default assistant. Returns null
   * for an unknown assistant.
   */
  async function resolveQuery({ assistant_id, ...query }: CronQuery): Promise<CronQuery | null> {
    if (assistant_id === undefined) return query;
    const id = await assistants.findId(assistant_id);
    return id === null ? null : { ...query, assistant_id: id };
  }

  return {
    ...createCronFirings(options),
    /**
     * Creates a cron and wakes the scheduler. Prepares its first run without storing it, and throws what that throws. Creates a
     * missing thread if the request allows it. Throws `invalid`, and `not_found` for thread or assistant.
     */
    async create(scope, thread_id, request, origin = {}) {
      const now = environment.now();
      const schedules = await loadSchedules();
      const cron = toNewCron(schedules, { cron_id: environment.uuid(), thread_id, request, now });
      // Prepares a run now, so that an invalid request fails here and not at the first fire time.
      const plan = await runs.prepare(scope, thread_id, toFirstRunRequest(cron, request), origin);
      if (thread_id !== null && plan.create_thread)
        await storage.createThread(deploymentScope, plan.create_thread, now);
      const owner = { user_id: origin.user_id ?? null, auth_user: origin.user ? toStoredUser(origin.user) : null };
      const ids = { assistant_id: plan.run.assistant_id, thread_id: thread_id === null ? null : plan.run.thread_id };
      const result = await storage.createCron(deploymentScope, { ...cron, ...ids, ...owner }, now);
      switch (result.kind) {
        case "created":
          return scheduleCron(result.cron);
        case "thread_not_found":
          throw notFoundError("thread", `${thread_id}`);
        case "assistant_not_found":
          throw notFoundError("assistant", request.assistant_id);
      }
    },

    get: async (scope, cron_id) => toCron(await requireCron(storage, scope, cron_id)),

    /**
     * Changes a cron and wakes the scheduler. New run options are tried with a prepared run. Throws `not_found`, `invalid`, and
     * `forbidden` for metadata with which the caller would not see the cron.
     */
    async update(scope, cron_id, patch) {
      const now = environment.now();
      const before = await requireCron(storage, scope, cron_id);
      const schedules = await loadSchedules();
      const changedContent = applyPatch(schedules, before, patch, now);
      if (CRON_RUN_OPTIONS.some((option) => patch[option] !== undefined)) {
        const { thread_id, user_id } = before;
        await runs.prepare(deploymentScope, thread_id, toCronRunRequest({ ...before, ...changedContent }), { user_id });
      }
      /** Returns the content after the patch. Throws `forbidden` for metadata with which the caller would not see the cron. */
      const next = (cron: CronRow): CronContent => {
        const content = applyPatch(schedules, cron, patch, now);
        requireStillVisible(scope, content.metadata);
        return content;
      };
      const row = await storage.updateCron(scope, before.cron_id, next, now);
      if (!row) throw cronNotFoundError(cron_id);
      return scheduleCron(row);
    },

    async delete(scope, cron_id) {
      if (!(await storage.deleteCron(scope, cron_id.toLowerCase()))) throw cronNotFoundError(cron_id);
    },

    /**
     * Returns a page of crons, the newest first and 10 without other options, with the total and the next offset, null at the
     * end. Empty for an unknown assistant.
     */
    async search(scope, query = {}) {
      const { limit = 10, offset = 0, sort_by = "created_at", sort_order = "desc", ...conditions } = query;
      const filter = await resolveQuery(conditions);
      if (!filter) return { items: [], total: 0, next: null };
      const page = { limit, offset, sort_by, sort_order };
      const { rows, total } = await storage.searchCrons(scope, { ...filter, ...page });
      return { items: rows.map(toCron), total, next: offset + limit < total ? offset + limit : null };
    },

    /** Counts the crons that match; 0 for an unknown assistant. */
    async count(scope, query = {}) {
      const filter = await resolveQuery(query);
      if (!filter) return 0;
      return (await storage.searchCrons(scope, { ...filter, ...COUNT_ONLY })).total;
    },
  };
}

/** Returns the run options of a request merged into the stored ones; null removes an option, undefined keeps it. */
function mergePayload(request: CronRunOptions, before: JsonObject = {}): JsonObject {
  const changes = CRON_RUN_OPTIONS.map((option) => [option, request[option]] as const).filter(
    ([, value]) => value !== undefined,
  );
  const merged = Object.entries({ ...before, ...Object.fromEntries(changes) });
  return Object.fromEntries(merged.filter(([, value]) => value !== null)) as JsonObject;
}

/** Returns the timing of a request, with null for a missing time zone or end. Throws `invalid`; the text names the field. */
function parseTiming({ validateTiming }: Schedules, { schedule, timezone, end_time }: CronCreate, now: number): Timing {
  const timing = { schedule, timezone: timezone ?? null, end_time: parseEndTime(end_time ?? null, now) };
  validateTiming(timing);
  return timing;
}

/** The ISO 8601 forms that RFC 3339 lacks: without seconds, without the minutes or the colon of an offset. */
const SHORT_FORM = /^(\d{4}-\d\d-\d\d[T ]\d\d:\d\d)(:\d\d(?:\.\d+)?)?(?:([+-]\d\d):?(\d\d)?|Z)?$/i;

/**
 * Parses an ISO 8601 time; the default offset is UTC. Returns null for null. Throws `invalid` (no such time, or not in the
 * future).
 */
function parseEndTime(text: string | null, now: number): number | null {
  if (text === null) return null;
  const [whole, minute, seconds = ":00", hours = "+00", minutes = "00"] = SHORT_FORM.exec(text) ?? [];
  const time = parseRfc3339(whole === undefined ? text : `${minute}${seconds}${hours}:${minutes}`);
  if (time === null) throw invalidFieldError("end_time", "must be an ISO 8601 time");
  if (time <= now) throw invalidFieldError("end_time", "must be in the future");
  return time;
}

/**
 * Returns what happens to the threads of runs: null for a cron on a thread, else the requested value, `delete` by default.
 * Throws `invalid` if a value was requested for a cron on a thread.
 */
function resolveOnRunCompleted(thread_id: string | null, requested: OnRunCompleted | null): OnRunCompleted | null {
  if (thread_id === null) return requested ?? "delete";
  if (requested !== null) {
    throw invalidFieldError("on_run_completed", "only stateless crons have it; this cron runs on a thread");
  }
  return null;
}

/**
 * Returns the content of a cron after a patch, with its next fire time if the timing changes; that is null for a disabled one.
 * Enabling a cron removes the reason why it was disabled. Throws `invalid`.
 */
function applyPatch(
  { validateTiming, nextFireTime }: Schedules,
  cron: CronRow,
  patch: CronPatch,
  now: number,
): CronContent {
  const { on_run_completed, timezone, end_time } = patch;
  const isRetimed =
    timezone !== undefined || end_time !== undefined || (patch.schedule ?? patch.enabled ?? undefined) !== undefined;
  const timing: Timing = {
    schedule: patch.schedule ?? cron.schedule,
    timezone: timezone === undefined ? cron.timezone : timezone,
    end_time: end_time === undefined ? cron.end_time : parseEndTime(end_time, now),
  };
  if (isRetimed) validateTiming(timing);
  const enabled = patch.enabled ?? cron.enabled;
  const { disabled_reason, ...metadata } = cron.metadata;
  // Enabling a cron removes the reason why it was disabled.
  const nextMetadata = enabled && !cron.enabled ? metadata : cron.metadata;
  const nextRunDate = enabled && isRetimed ? nextFireTime(timing, now) : cron.next_run_date;
  return {
    ...timing,
    enabled,
    next_run_date: enabled ? nextRunDate : null,
    on_run_completed: on_run_completed
      ? resolveOnRunCompleted(cron.thread_id, on_run_completed)
      : cron.on_run_completed,
    payload: mergePayload(patch, cron.payload),
    metadata: { ...nextMetadata, ...patch.metadata },
  };
}

interface CronRequest {
  readonly cron_id: string;
  readonly thread_id: string | null;
  readonly request: CronCreate;
  readonly now: number;
}

/**
 * Returns the content of a new cron, enabled by default, with its first fire time; null for that if it is disabled or never
 * fires. Throws `invalid`.
 */
function toNewCron(
  schedules: Schedules,
  { cron_id, thread_id, request, now }: CronRequest,
): CronContent & { cron_id: string } {
  const timing = parseTiming(schedules, request, now);
  const enabled = request.enabled ?? true;
  return {
    cron_id,
    on_run_completed: resolveOnRunCompleted(thread_id, request.on_run_completed ?? null),
    ...timing,
    enabled,
    next_run_date: enabled ? schedules.nextFireTime(timing, now) : null,
    payload: mergePayload(request),
    metadata: request.metadata ?? {},
  };
}

/** Returns the request of the first run of a cron that is not stored yet. It has `if_not_exists` only for a cron on a thread. */
function toFirstRunRequest(
  cron: CronContent & { cron_id: string },
  { assistant_id, if_not_exists }: CronCreate,
): RunCreate {
  const { cron_id, on_run_completed, payload, metadata } = cron;
  const request = toCronRunRequest({ cron_id, assistant_id, on_run_completed, payload, metadata });
  // Only a cron without a thread deletes or keeps the threads of its runs.
  return on_run_completed === null && if_not_exists ? { ...request, if_not_exists } : request;
}

/** Copies the standard fields of a user. Omits custom fields, because they can hold credentials of one request. */
const toStoredUser = ({ identity, permissions, display_name, is_authenticated }: AuthUser): JsonObject => ({
  identity,
  permissions: [...permissions],
  display_name,
  is_authenticated,
});

/** Converts a row, with redacted payload and ISO times. The user's `auth_user` and the failures are not part of it. */
function toCron(row: CronRow): Cron {
  return {
    cron_id: row.cron_id,
    assistant_id: row.assistant_id,
    thread_id: row.thread_id,
    on_run_completed: row.on_run_completed,
    end_time: formatIsoTime(row.end_time),
    schedule: row.schedule,
    timezone: row.timezone,
    created_at: formatIsoTime(row.created_at),
    updated_at: formatIsoTime(row.updated_at),
    payload: redactPayload(row.payload),
    user_id: row.user_id,
    next_run_date: formatIsoTime(row.next_run_date),
    metadata: row.metadata,
    enabled: row.enabled,
  };
}

/**
 * Returns the payload without credentials, and with `?…` for the query of the webhook, which may contain a secret of the
 * receiver.
 */
function redactPayload(payload: JsonObject): JsonObject {
  const { webhook, ...runOptions } = payload;
  return { ...redactKwargs(runOptions), ...(typeof webhook === "string" ? { webhook: redactUrl(webhook) } : {}) };
}
