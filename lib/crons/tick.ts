/** Fires the ticks of one cron: decides what becomes of each, makes the run, and records what was skipped. */
import type { Environment } from "../environment.ts";
import { isOutage, ServiceError } from "../errors.ts";
import type { AuthUser } from "../executor/contract.ts";
import type { RunDirectory } from "../runs/mod.ts";
import type { RunCreate, RunOrigin } from "../runs/request.ts";
import type {
  CreateRun,
  CronContent,
  CronRow,
  FireCron,
  FireOutcome,
  Scope,
  SkipReason,
  Storage,
} from "../storage/mod.ts";
import { nextTick, ticksUntil } from "./schedule.ts";

export interface FireOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly runs: Pick<RunDirectory, "prepare" | "started">;
  /** A late tick still fires when it is not older than this. */
  readonly misfire_grace_ms: number;
  /** A cron is disabled after so many failed runs in a row; null: never. */
  readonly max_failures: number | null;
}

/** The counters of a process that has skipped no tick. */
export const NO_SKIPS: Readonly<Record<SkipReason, number>> = {
  thread_busy: 0,
  thread_full: 0,
  deployment_full: 0,
  missed: 0,
  superseded: 0,
  refused: 0,
};

/** How many ticks of one cron are handled in one step. */
const BATCH = 100;
/** How often a run is resolved anew because its assistant or thread has changed meanwhile. */
const TRIES = 10;
/** How long the outcome of a tick is kept. Older missed ticks are not recorded. */
export const KEPT_MS: number = 30 * 86_400_000;

/** What becomes of the ticks of a cron until now. */
interface Plan {
  /** The tick to fire; null when there is none. */
  readonly fires: number | null;
  readonly skipped: FireCron["skipped"];
  readonly next_run_date: number | null;
}

export interface TickHandler {
  /** Brings a cron up to now. False when that failed. */
  handle(cron: CronRow): Promise<boolean>;
  /** Disables a cron whose last runs have failed. */
  disable(cron: CronRow, failures: number): Promise<void>;
  counters(): { readonly fired: number; readonly skipped: Readonly<Record<SkipReason, number>> };
}

export function createTickHandler(options: FireOptions, isStopping: () => boolean): TickHandler {
  const { storage, scope, environment, runs, misfire_grace_ms, max_failures } = options;
  const skipped: Record<SkipReason, number> = { ...NO_SKIPS };
  let fired = 0;

  /** Null when the run is refused for a reason that time does not change. */
  async function prepareRun(cron: CronRow): Promise<CreateRun | null> {
    try {
      return await runs.prepare(cron.thread_id, requestOf(cron), originOf(cron));
    } catch (error) {
      if (!(error instanceof ServiceError) || error.code === "storage_full" || isOutage(error)) throw error;
      environment.log({
        level: "warn",
        message: "a cron's run was refused",
        cron_id: cron.cron_id,
        why: error.message,
      });
      return null;
    }
  }

  function record(cron_id: string, ticks: FireCron["skipped"]): void {
    for (const reason of new Set(ticks.map((tick) => tick.reason))) {
      const times = ticks.filter((tick) => tick.reason === reason).map(({ scheduled_at }) => scheduled_at);
      skipped[reason] += times.length;
      const [first, last] = [times[0] as number, times.at(-1) as number].map((time) => new Date(time).toISOString());
      const ticks_of = { reason, count: times.length, first, last };
      environment.log({ level: "warn", message: "ticks of a cron were skipped", cron_id, ...ticks_of });
    }
  }

  /** Handles the ticks of one batch. */
  async function step(cron: CronRow, first: number, now: number): Promise<FireOutcome["kind"]> {
    const { cron_id, revision } = cron;
    const plan = planOf(cron, first, now, misfire_grace_ms);
    const run = plan.fires === null ? null : await prepareRun(cron);
    const refused = plan.fires !== null && !run ? [{ scheduled_at: plan.fires, reason: "refused" as const }] : [];
    const firing = run && plan.fires !== null ? { scheduled_at: plan.fires, run } : null;
    const seen = { next_run_date: first, revision };
    const passed = [...plan.skipped, ...refused];
    const { next_run_date } = plan;
    const outcome = await storage.fireCron(scope, { cron_id, seen, next_run_date, skipped: passed, firing, now });
    if (outcome.kind === "lost" && firing) {
      // The tick was fired before the clock or the schedule went back: the cron goes on without it.
      const row = await storage.getCron(scope, cron_id);
      if (row?.enabled && row.revision === revision && row.next_run_date === first) {
        const { skipped: before } = plan;
        return (await storage.fireCron(scope, { cron_id, seen, next_run_date, skipped: before, firing: null, now }))
          .kind;
      }
    }
    if (outcome.kind === "fired" && firing) {
      fired++;
      runs.started(outcome.created, firing.run);
    }
    const refusal = outcome.kind === "refused" ? [{ scheduled_at: plan.fires as number, reason: outcome.reason }] : [];
    if (outcome.kind !== "lost" && outcome.kind !== "stale") record(cron_id, [...passed, ...refusal]);
    return outcome.kind;
  }

  async function handle(cron: CronRow): Promise<boolean> {
    let row: CronRow | null = cron;
    let stale = 0;
    try {
      while (!isStopping() && stale < TRIES) {
        const now = environment.now();
        if (!row?.enabled || row.next_run_date === null || row.next_run_date > now) return true;
        if (max_failures !== null && row.failures >= max_failures) {
          await disable(row, max_failures);
          return true;
        }
        const kind = await step(row, row.next_run_date, now);
        if (kind === "stale") stale++;
        row = await storage.getCron(scope, cron.cron_id);
      }
      if (isStopping()) return true;
      environment.log({
        level: "warn",
        message: "a cron was not fired: its assistant or thread kept changing",
        cron_id: cron.cron_id,
      });
    } catch (error) {
      environment.log({ level: "error", message: "a cron was not fired", cron_id: cron.cron_id, error });
    }
    return false;
  }

  async function disable({ cron_id }: CronRow, failures: number): Promise<void> {
    const next = (row: CronRow): CronContent => {
      if (!row.enabled || row.failures < failures) return row;
      const disabled_reason = `${row.failures} runs in a row have failed`;
      return { ...row, enabled: false, next_run_date: null, metadata: { ...row.metadata, disabled_reason } };
    };
    const row = await storage.updateCron(scope, cron_id, next, environment.now());
    if (row && !row.enabled) {
      environment.log({
        level: "warn",
        message: "a cron was disabled: its runs fail",
        cron_id,
        failures: row.failures,
      });
    }
  }

  return { handle, disable, counters: () => ({ fired, skipped: { ...skipped } }) };
}

/** Ticks older than the grace time are missed. Of the others only the latest fires. */
function planOf(cron: CronRow, first: number, now: number, misfire_grace_ms: number): Plan {
  const kept = now - KEPT_MS;
  const from = first < kept ? nextTick(cron, kept) : first;
  const ticks = from === null ? [] : ticksUntil(cron, from, now, BATCH);
  const latest = ticks.at(-1);
  const next_run_date = nextTick(cron, latest ?? now);
  const in_time = now - misfire_grace_ms;
  // More ticks are due: the next batch goes on from there.
  const more = next_run_date !== null && next_run_date <= now;
  const fires = latest !== undefined && !more && latest >= in_time ? latest : null;
  return {
    fires,
    skipped: ticks
      .filter((tick) => tick !== fires)
      .map((tick) => ({ scheduled_at: tick, reason: tick < in_time ? "missed" : "superseded" })),
    next_run_date,
  };
}

/** The run of a cron, as a request. */
export function requestOf(
  cron: Pick<CronRow, "cron_id" | "assistant_id" | "on_run_completed" | "payload" | "metadata">,
): RunCreate {
  const { cron_id, assistant_id, on_run_completed, payload, metadata } = cron;
  return {
    ...payload,
    assistant_id,
    metadata: { ...metadata, cron_id },
    ...(on_run_completed === null ? {} : { on_completion: on_run_completed }),
  };
}

/** The run belongs to the user who made the cron: authorization was checked then. */
function originOf({ cron_id, user_id, auth_user }: CronRow): RunOrigin {
  return { cron_id, user_id, ...(auth_user ? { user: auth_user as unknown as AuthUser } : {}) };
}
