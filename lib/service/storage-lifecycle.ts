/** The storage of a service: opens it, places the deployment in it, probes it, and deletes from it what is no longer kept. */
import { type DatabaseClock, startDatabaseClock } from "../engine/database-clock.ts";
import { type StorageHealth, watchStorageHealth } from "../engine/health.ts";
import { type RetentionJob, startRetentionJob } from "../engine/retention-job.ts";
import { createSafeLog, type Environment, systemEnvironment, withTimeout } from "../environment.ts";
import { ConfigError, isOutage } from "../errors.ts";
import type { RunFeature } from "../features/mod.ts";
import { resolveSettings, type ServiceOptions } from "../options.ts";
import { createEventBus, type EventBus, publishChanges } from "../storage/event-bus.ts";
import type { DeploymentRow, IdentityStore } from "../storage/identity.ts";
import type { Scope, Storage } from "../storage/mod.ts";

export interface OpenStorage {
  readonly storage: Storage;
  readonly bus: EventBus;
  /** The host's environment, with the database's clock and the log of the storage health. */
  readonly environment: Environment;
  readonly health: StorageHealth;
  /** Stops the health checks and the clock. Does not close the storage. */
  stop(): void;
}

/**
 * Starts the health checks of the storage, migrates it and starts the clock of its database, if it has one. Returns the storage,
 * whose changes are published on the bus, with an environment that uses both. `cleanups` gets what must be stopped if the service
 * cannot be created. Throws what migration and clock throw.
 */
export async function openStorage(options: ServiceOptions, cleanups: (() => void)[]): Promise<OpenStorage> {
  const { now } = options.environment ?? {};
  const hostEnvironment: Environment = {
    ...systemEnvironment(),
    ...(now ? { monotonic: now } : {}),
    ...options.environment,
  };
  const { signals } = options.storage;
  const bus = createEventBus(signals, signals ? hostEnvironment.uuid() : "", hostEnvironment);
  const storage = publishChanges(options.storage, bus);
  const localEnvironment: Environment = {
    ...hostEnvironment,
    log: createSafeLog((record) => hostEnvironment.log(record)),
  };
  const health = watchStorageHealth({
    environment: localEnvironment,
    probe: () => storage.probe(localEnvironment.now()),
    ...(storage.check && { check: () => (storage.check as () => Promise<void>)() }),
    onRecovered: bus.notifyAll,
  });
  cleanups.push(health.stop);
  // The process's own clock, until the database's time is known.
  let clock: DatabaseClock = { now: localEnvironment.now, stop() {} };
  const environment: Environment = {
    ...localEnvironment,
    now: storage.now ? () => clock.now() : localEnvironment.now,
    log: health.log,
  };
  await storage.migrate();
  if (storage.now) {
    const databaseTime = (): Promise<number> => (storage.now as () => Promise<number>)();
    clock = await startDatabaseClock({ environment: { ...localEnvironment, log: health.log }, now: databaseTime });
    cleanups.push(clock.stop);
  }
  return {
    storage,
    bus,
    environment,
    health,
    stop() {
      health.stop();
      clock.stop();
    },
  };
}

/**
 * Creates the identity defaults if they are missing, and finds or creates the row of this deployment and returns it. In the mode
 * `agent_builder`, gives a row without an owner the configured one, and logs a warning if it has another. Throws a ConfigError if
 * the workspace, the project or, in that mode, the owner does not exist.
 */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: each absent option leaves a member out, and each refusal has its text
export async function registerDeployment(
  identity: IdentityStore,
  options: ServiceOptions,
  environment: Environment,
): Promise<DeploymentRow> {
  const { name = "default", project, workspace } = options.deployment ?? {};
  const { mode, owner, shared } = options.auth ?? {};
  await identity.ensureDefaults(environment.now());
  const user = mode === "agent_builder" && owner !== undefined ? await identity.getUser(owner) : null;
  if (mode === "agent_builder" && !user) {
    throw new ConfigError([`auth.owner: there is no user ${owner}; make one with greenroom users create`]);
  }
  const result = await identity.registerDeployment(
    {
      name,
      ...(project === undefined ? {} : { project }),
      ...(workspace === undefined ? {} : { workspace }),
      ...(user ? { owner_user_id: user.id } : {}),
      ...(shared === undefined ? {} : { shared }),
    },
    environment.now(),
  );
  if (result.kind !== "made") {
    throw new ConfigError([
      `deployment: there is no ${workspace === undefined ? "" : `workspace ${workspace} or `}project ${project ?? ""} with this id`,
    ]);
  }
  const { owner_user_id } = result.row;
  if (!user || owner_user_id === user.id) return result.row;
  if (owner_user_id !== null) {
    const message = "auth.owner does not own this agent: it was transferred; see greenroom agents list";
    environment.log({ level: "warn", message, deployment: name, owner_user_id });
    return result.row;
  }
  // The deployment was created before it had an owner.
  const change = { owner_user_id: user.id, ...(shared === undefined ? {} : { shared }) };
  return (await identity.updateDeployment(name, change)) ?? result.row;
}

/** The readiness for requests. `detail` is the reason if it is not ready. */
export type Readiness = { readonly ok: true } | { readonly ok: false; readonly detail: string };

/** The answer of a probe is used for this time. */
const PROBE_TTL_MS = 1_000;
const PROBE_TIMEOUT_MS = 5_000;

/**
 * Returns a probe of the database whose result all callers share until a second after it came; a good result only until a write
 * has failed. It answers within 5 s, never rejects, and logs each failure.
 */
export function createWriteProbe(storage: Storage, environment: Environment): () => Promise<Readiness> {
  let latest: { readonly readiness: Promise<Readiness>; until: number; ok: boolean } | null = null;

  /**
   * Writes a test row. Does not throw: returns why the storage takes no writes, also if it does not answer in time, and logs it.
   */
  async function probe(): Promise<Readiness> {
    try {
      const written = storage.probe(environment.now());
      await withTimeout(environment, PROBE_TIMEOUT_MS, written, new Error("The storage does not answer"));
      return { ok: true };
    } catch (error) {
      environment.log({ level: "error", message: "the storage takes no writes", error });
      const detail = isOutage(error)
        ? (error as Error).message
        : (storage.failure?.() ?? "The storage takes no writes");
      return { ok: false, detail };
    }
  }

  return async () => {
    // A write has failed since the last probe.
    if (storage.failure?.() && latest?.ok) latest = null;
    if (!latest || environment.now() >= latest.until) {
      const check = { readiness: probe(), until: Number.POSITIVE_INFINITY, ok: false };
      latest = check;
      void check.readiness.then(({ ok }) => {
        check.ok = ok;
        check.until = environment.now() + PROBE_TTL_MS;
      });
    }
    return await latest.readiness;
  };
}

interface RetentionJobsOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly options: ServiceOptions;
  readonly parts: { readonly features: readonly RunFeature[] };
}

const RETENTION_INTERVAL_MS = 5_000;
const MINUTE_MS = 60_000;
const MAX_RETENTION_ROWS = 500;

/**
 * Starts the jobs that delete what is older than its limit: stateless runs, frames, idempotency keys and the data of features
 * every 5 s, store items every 5 minutes by default, and the jobs of features at their own intervals. Failures are logged.
 * Returns them to be stopped.
 */
export function startRetentionJobs(context: RetentionJobsOptions): readonly RetentionJob[] {
  const { storage, scope, environment, options, parts } = context;
  const { features } = parts;
  const { retention } = resolveSettings(options);
  const { sweep_interval_minutes: item_minutes = 5 } = options.store?.ttl ?? {};
  const start = (interval_ms: number, failure: string, step: () => Promise<number>): RetentionJob =>
    startRetentionJob({ environment, interval_ms, failure, step });
  const ages = features.flatMap(({ name, keep_ms }) => (keep_ms === undefined ? [] : [[name, keep_ms] as const]));
  return [
    start(RETENTION_INTERVAL_MS, "retention job failed", () => {
      const now = environment.now();
      return storage.deleteExpired(scope, {
        stateless_before: now - retention.stateless_ms,
        frames_before: now - retention.frames_ms,
        keys_before: now - retention.idempotency_ms,
        features: Object.fromEntries(ages.map(([name, keep_ms]) => [name, now - keep_ms])),
        limit: MAX_RETENTION_ROWS,
        now,
      });
    }),
    start(item_minutes * MINUTE_MS, "deleting expired store items failed", () =>
      storage.deleteExpired(scope, {
        items_expired_by: environment.now(),
        limit: MAX_RETENTION_ROWS,
        now: environment.now(),
      }),
    ),
    ...features.flatMap(({ job }) => (job ? [start(job.interval_ms, job.failure, () => job.step(parts))] : [])),
  ];
}
