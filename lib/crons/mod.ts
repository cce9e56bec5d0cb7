/** Crons: runs that start by the clock. */
import type { AssistantDirectory, PageOf } from "../assistants/mod.ts";
import type { Environment } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import type { AuthUser } from "../executor/contract.ts";
import { shownRequest } from "../executor/kwargs.ts";
import type { JsonObject } from "../json.ts";
import { parseRfc3339 } from "../rfc3339.ts";
import type { RunDirectory } from "../runs/mod.ts";
import type { RunCreate, RunOrigin } from "../runs/request.ts";
import type { CronContent, CronQuery, CronRow, CronSort, OnRunCompleted, Scope, Storage } from "../storage/mod.ts";
import { requireKept, type Visibility, withVisibility } from "../storage/visibility.ts";
import { shownUrl } from "../webhooks/policy.ts";
import { type CronCounters, createFirer } from "./fire.ts";
import { checkTiming, nextTick, type Timing } from "./schedule.ts";
import { NO_SKIPS, requestOf } from "./tick.ts";

export type { CronCounters } from "./fire.ts";

/** A cron as the API shows it; times are ISO 8601, UTC. */
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

/** What the runs of a cron take. */
export type CronRun = Pick<
  RunCreate,
  | "input"
  | "config"
  | "context"
  | "webhook"
  | "interrupt_before"
  | "interrupt_after"
  | "multitask_strategy"
  | "durability"
  | "checkpoint_during"
  | "stream_mode"
  | "stream_subgraphs"
  | "stream_resumable"
  | "feedback_keys"
>;

/** The names of those. */
export const CRON_RUN_OPTIONS: readonly (keyof CronRun)[] = [
  "input",
  "config",
  "context",
  "webhook",
  "interrupt_before",
  "interrupt_after",
  "multitask_strategy",
  "durability",
  "checkpoint_during",
  "stream_mode",
  "stream_subgraphs",
  "stream_resumable",
  "feedback_keys",
];

interface CronTiming {
  /** Five fields, or a nickname as `@daily`. */
  readonly schedule: string;
  readonly timezone?: string | null;
  /** ISO 8601. */
  readonly end_time?: string | null;
  readonly enabled?: boolean | null;
  readonly on_run_completed?: OnRunCompleted | null;
  readonly metadata?: JsonObject | null;
}

export interface CronCreate extends CronRun, CronTiming {
  readonly assistant_id: string;
  readonly if_not_exists?: "reject" | "create" | null;
}

/** What is absent stays; null clears what may be without a value. */
export type CronPatch = CronRun & Partial<CronTiming>;

export interface CronSearch extends CronQuery {
  readonly limit?: number;
  readonly offset?: number;
  readonly sort_by?: CronSort;
  readonly sort_order?: "asc" | "desc";
}

export interface Crons {
  /** `thread_id` null: a stateless cron. Errors: not_found (assistant, thread), conflict (a thread out of reach), invalid, bad_request. */
  create(thread_id: string | null, request: CronCreate, origin?: RunOrigin): Promise<Cron>;
  /** Errors: not_found. */
  get(cron_id: string, visibility?: Visibility): Promise<Cron>;
  /** When it fires next is computed anew with its timing. Errors: not_found, invalid, bad_request. */
  update(cron_id: string, patch: CronPatch, visibility?: Visibility): Promise<Cron>;
  /** Errors: not_found. */
  delete(cron_id: string, visibility?: Visibility): Promise<void>;
  search(query?: CronSearch, visibility?: Visibility): Promise<PageOf<Cron>>;
  count(query?: CronQuery, visibility?: Visibility): Promise<number>;
}

export interface CronLoop extends Crons {
  counters(): CronCounters;
  /** Fires no more; resolves once what it is about to store is stored. */
  stop(): Promise<void>;
}

export interface CronOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly runs: Pick<RunDirectory, "prepare" | "started">;
  readonly assistants: AssistantDirectory;
  /** False: this process fires none. */
  readonly enabled: boolean;
  readonly misfire_grace_ms: number;
  readonly max_failures: number | null;
}

export function createCrons(options: CronOptions): CronLoop {
  const { storage, scope, environment, runs, assistants } = options;
  const firer = options.enabled ? createFirer(options) : null;

  function shown(row: CronRow): Cron {
    if (row.next_run_date !== null) firer?.wakeAt(row.next_run_date);
    return toCron(row);
  }

  /** What is asked for by an assistant's name is stored by its id. */
  async function queryOf({ assistant_id, ...query }: CronQuery): Promise<CronQuery | null> {
    if (assistant_id === undefined) return query;
    try {
      return { ...query, assistant_id: (await assistants.recall(assistant_id)).assistant_id };
    } catch (error) {
      if (error instanceof ServiceError && error.code === "not_found") return null;
      throw error;
    }
  }

  return {
    async create(thread_id, request, origin = {}) {
      const now = environment.now();
      const cron_id = environment.uuid();
      const timing = timingOf(request, now);
      const { assistant_id, enabled, metadata } = request;
      const payload = payloadOf(request);
      const on_run_completed = completionOf(thread_id, request.on_run_completed ?? null);
      const asked = requestOf({ cron_id, assistant_id, on_run_completed, payload, metadata: metadata ?? {} });
      const { if_not_exists } = request;
      const run = { ...asked, ...(thread_id !== null && if_not_exists ? { if_not_exists } : {}) };
      // Whatever a run would be refused for is found now.
      const plan = await runs.prepare(thread_id, run, origin);
      if (thread_id !== null && plan.create_thread) await storage.createThread(scope, plan.create_thread, now);
      const outcome = await storage.createCron(
        scope,
        {
          cron_id,
          assistant_id: plan.run.assistant_id,
          thread_id: thread_id === null ? null : plan.run.thread_id,
          on_run_completed,
          ...timing,
          enabled: enabled ?? true,
          next_run_date: (enabled ?? true) ? nextTick(timing, now) : null,
          payload,
          metadata: metadata ?? {},
          user_id: origin.user_id ?? null,
          auth_user: origin.user ? knownOf(origin.user) : null,
        },
        now,
      );
      switch (outcome.kind) {
        case "created":
          return shown(outcome.cron);
        case "thread_not_found":
          throw new ServiceError("not_found", `Thread ${thread_id} not found`);
        case "assistant_not_found":
          throw new ServiceError("not_found", `Assistant ${assistant_id} not found`);
      }
    },

    async get(cron_id, visibility) {
      const row = await storage.getCron(withVisibility(scope, visibility), cron_id.toLowerCase());
      if (!row) throw notFound(cron_id);
      return toCron(row);
    },

    async update(cron_id, patch, visibility) {
      const now = environment.now();
      const reached = withVisibility(scope, visibility);
      const id = cron_id.toLowerCase();
      const before = await storage.getCron(reached, id);
      if (!before) throw notFound(cron_id);
      const changed = contentOf(before, patch, now);
      if (CRON_RUN_OPTIONS.some((option) => patch[option] !== undefined)) {
        const { thread_id, user_id } = before;
        await runs.prepare(thread_id, requestOf({ ...before, ...changed }), { user_id });
      }
      const next = (cron: CronRow): CronContent => {
        const content = contentOf(cron, patch, now);
        requireKept(visibility, content.metadata);
        return content;
      };
      const row = await storage.updateCron(reached, id, next, now);
      if (!row) throw notFound(cron_id);
      return shown(row);
    },

    async delete(cron_id, visibility) {
      if (!(await storage.deleteCron(withVisibility(scope, visibility), cron_id.toLowerCase())))
        throw notFound(cron_id);
    },

    async search(query = {}, visibility) {
      const { limit = 10, offset = 0, sort_by = "created_at", sort_order = "desc", ...asked } = query;
      const filter = await queryOf(asked);
      if (!filter) return { items: [], total: 0, next: null };
      const page = { limit, offset, sort_by, sort_order };
      const { rows, total } = await storage.searchCrons(withVisibility(scope, visibility), { ...filter, ...page });
      return { items: rows.map(toCron), total, next: offset + limit < total ? offset + limit : null };
    },

    async count(query = {}, visibility) {
      const filter = await queryOf(query);
      return filter ? await storage.countCrons(withVisibility(scope, visibility), filter) : 0;
    },

    counters: () => firer?.counters() ?? { fired: 0, skipped: NO_SKIPS },
    stop: async () => firer?.stop(),
  };
}

/** The options of the cron's runs that are given, over those it has; null takes one away. */
function payloadOf(request: CronRun, before: JsonObject = {}): JsonObject {
  const given = CRON_RUN_OPTIONS.map((option) => [option, request[option]] as const).filter(
    ([, value]) => value !== undefined,
  );
  const merged = Object.entries({ ...before, ...Object.fromEntries(given) });
  return Object.fromEntries(merged.filter(([, value]) => value !== null)) as JsonObject;
}

/** Errors: invalid, naming the field. */
function timingOf({ schedule, timezone, end_time }: CronCreate, now: number): Timing {
  const timing = { schedule, timezone: timezone ?? null, end_time: endOf(end_time ?? null, now) };
  checkTiming(timing);
  return timing;
}

/** ISO 8601 leaves out more than RFC 3339 does: seconds, and minutes or the colon of an offset. */
const SHORTER = /^(\d{4}-\d\d-\d\d[T ]\d\d:\d\d)(:\d\d(?:\.\d+)?)?(?:([+-]\d\d):?(\d\d)?|Z)?$/i;

/** ISO 8601, in UTC where it does not say otherwise. */
function endOf(text: string | null, now: number): number | null {
  if (text === null) return null;
  const [whole, minute, seconds = ":00", hours = "+00", minutes = "00"] = SHORTER.exec(text) ?? [];
  const moment = parseRfc3339(whole === undefined ? text : `${minute}${seconds}${hours}:${minutes}`);
  if (moment === null) throw new ServiceError("invalid", "end_time: must be an ISO 8601 time");
  if (moment <= now) throw new ServiceError("invalid", "end_time: must be in the future");
  return moment;
}

function completionOf(thread_id: string | null, asked: OnRunCompleted | null): OnRunCompleted | null {
  if (thread_id === null) return asked ?? "delete";
  if (asked !== null) {
    throw new ServiceError(
      "invalid",
      "on_run_completed: only for a cron without a thread, whose runs have threads of their own",
    );
  }
  return null;
}

/** What a patch makes of a cron. Errors: invalid. */
function contentOf(cron: CronRow, patch: CronPatch, now: number): CronContent {
  const { on_run_completed, timezone, end_time } = patch;
  const timed =
    timezone !== undefined || end_time !== undefined || (patch.schedule ?? patch.enabled ?? undefined) !== undefined;
  const timing: Timing = {
    schedule: patch.schedule ?? cron.schedule,
    timezone: timezone === undefined ? cron.timezone : timezone,
    end_time: end_time === undefined ? cron.end_time : endOf(end_time, now),
  };
  if (timed) checkTiming(timing);
  const enabled = patch.enabled ?? cron.enabled;
  const { disabled_reason, ...metadata } = cron.metadata;
  // Who enables a cron has seen why it was disabled.
  const kept = enabled && !cron.enabled ? metadata : cron.metadata;
  return {
    ...timing,
    enabled,
    next_run_date: !enabled ? null : timed ? nextTick(timing, now) : cron.next_run_date,
    on_run_completed: on_run_completed ? completionOf(cron.thread_id, on_run_completed) : cron.on_run_completed,
    payload: payloadOf(patch, cron.payload),
    metadata: { ...kept, ...patch.metadata },
  };
}

/** What is known of a user for good: nothing that only one request could say. */
const knownOf = ({ identity, permissions, display_name, is_authenticated }: AuthUser): JsonObject => ({
  identity,
  permissions: [...permissions],
  display_name,
  is_authenticated,
});

const notFound = (cron_id: string): ServiceError => new ServiceError("not_found", `Cron ${cron_id} not found`);

const written = (time: number | null): string | null => (time === null ? null : new Date(time).toISOString());

function toCron(row: CronRow): Cron {
  return {
    cron_id: row.cron_id,
    assistant_id: row.assistant_id,
    thread_id: row.thread_id,
    on_run_completed: row.on_run_completed,
    end_time: written(row.end_time),
    schedule: row.schedule,
    timezone: row.timezone,
    created_at: new Date(row.created_at).toISOString(),
    updated_at: new Date(row.updated_at).toISOString(),
    payload: shownPayload(row.payload),
    user_id: row.user_id,
    next_run_date: written(row.next_run_date),
    metadata: row.metadata,
    enabled: row.enabled,
  };
}

/** Credentials are not shown, nor the query of a webhook, which may hold its receiver's secret. */
function shownPayload(payload: JsonObject): JsonObject {
  const { webhook, ...rest } = payload;
  return { ...shownRequest(rest), ...(typeof webhook === "string" ? { webhook: shownUrl(webhook) } : {}) };
}
