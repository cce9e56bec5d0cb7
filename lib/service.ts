/** The service: wires nouns, worker and storage together. */
import { type Ambient, systemAmbient } from "./ambient.ts";
import { type Assistants, createAssistants } from "./assistants.ts";
import { ConfigError, ServiceError } from "./errors.ts";
import { createEvents } from "./events.ts";
import type { Executor } from "./executor.ts";
import { isObject } from "./json.ts";
import { createRuns, type RunDirectory, type Runs } from "./runs/mod.ts";
import type { Storage } from "./storage.ts";
import { createThreads, type Threads } from "./threads.ts";
import { createWorker, type WorkerCounters } from "./worker.ts";

/** Every option has the same name in the configuration file of the stand-alone server. */
export interface ServiceOptions {
  readonly storage: Storage;
  readonly executor: Executor;
  readonly deployment?: {
    /** Default `default`. Services of one name on one storage share its work. */
    readonly name?: string;
  };
  readonly worker?: {
    /** Runs executed at once in this process. Default 10; 0 executes none here. */
    readonly concurrency?: number;
    /** How long a claim lasts without renewal. Default 10,000. */
    readonly lease_ms?: number;
    /** How long one attempt of a run may take before it ends as `timeout`, where its graph says nothing else. Default 3,600,000. */
    readonly run_timeout_ms?: number;
  };
  /** A run above these is refused with a conflict. */
  readonly limits?: {
    /** Runs that wait on one thread. Default 1,000. */
    readonly pending_per_thread?: number;
    /** Runs that wait in the deployment. Default 10,000. */
    readonly pending?: number;
  };
  /** How long what has ended is kept. */
  readonly retention?: {
    /** Stored frames, after the end of their run. Default 86,400,000. */
    readonly frames_ms?: number;
    /** Stateless runs, after their end, for late joiners. Default 60,000. */
    readonly stateless_ms?: number;
    /** Idempotency keys, after they were first used. Default 86,400,000. */
    readonly idempotency_ms?: number;
  };
  readonly http?: {
    readonly cors?: {
      /** Origins that browsers may call from; `*` for any. Default `["*"]`. */
      readonly allow_origins?: readonly string[];
    };
  };
  /** Clock, timers, randomness and log; for tests. */
  readonly ambient?: Partial<Ambient>;
}

/** What `GET /info` tells. */
export interface ServiceInfo {
  readonly version: string;
  /** The level of the agent server API whose options this service knows. */
  readonly api_version: string;
  readonly flags: Readonly<Record<string, boolean>>;
}

/** Whether requests should be sent here; `detail` says why not. */
export type Readiness = { readonly ok: true } | { readonly ok: false; readonly detail: string };

/** What the deployment's runs do now, and what this process has done since it started. */
export interface Metrics {
  readonly uptime_seconds: number;
  readonly draining: boolean;
  /** Another process executes the runs of this database. */
  readonly standby: boolean;
  readonly runs: { readonly pending: number; readonly scheduled: number; readonly running: number };
  /** How long the pending run that waits longest has been due; 0 when none waits. */
  readonly oldest_pending_seconds: number;
  readonly worker: WorkerCounters;
}

export interface Service {
  readonly assistants: Assistants;
  readonly threads: Threads;
  readonly runs: Runs;
  /** The options as given. */
  readonly options: ServiceOptions;
  readonly ambient: Ambient;
  info(): ServiceInfo;
  /** False when the worker can execute nothing any more. True on a standby, and while it stops. */
  healthy(): boolean;
  /** Not ok while it stops, when the worker hangs, and when a write fails. The same answer serves a second long. */
  ready(): Promise<Readiness>;
  metrics(): Promise<Metrics>;
  /**
   * Takes no more runs (calls that would create one reject with `unavailable`), lets those that execute end for `grace_ms`
   * (default 10,000), puts the rest back, and closes the storage. Readers of runs that go on elsewhere end without an `end`.
   */
  stop(grace_ms?: number): Promise<void>;
}

/** This release. A test holds it equal to the package's version. */
export const VERSION = "0.1.0";

const DEFAULTS = {
  worker: { concurrency: 10, lease_ms: 10_000, run_timeout_ms: 3_600_000 },
  limits: { pending_per_thread: 1_000, pending: 10_000 },
  retention: { frames_ms: 86_400_000, stateless_ms: 60_000, idempotency_ms: 86_400_000 },
};

/** `given` over the defaults; what is undefined counts as absent. */
const settled = <Values extends object>(defaults: Values, given: Partial<Values> = {}): Values => ({
  ...defaults,
  ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
});

const SWEEP_MS = 5_000;
const SWEEP_ROWS = 500;
const PROBE_EVERY_MS = 1_000;
const PROBE_WITHIN_MS = 5_000;
/** How long calls that have begun may take when the service stops. */
const LAST_CALLS_MS = 1_000;
const STOPPING = "The server is stopping";
/** Calls that create runs. */
const CREATING = new Set(["create", "stream", "wait", "createBatch"]);

type Check = (value: unknown) => string | false;
interface Section {
  readonly [key: string]: Check | Section;
}

const whole =
  (min: number, max: number): Check =>
  (value) =>
    !(Number.isInteger(value) && (value as number) >= min && (value as number) <= max) &&
    `must be a whole number from ${min} to ${max}`;
/** Longer timers fire at once. */
const LONGEST_MS = 2 ** 31 - 1;
const count: Check = whole(1, 1e9);
const age: Check = whole(0, Number.MAX_SAFE_INTEGER);

const SETTINGS: Section = {
  deployment: {
    name: (value) =>
      !(typeof value === "string" && /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/.test(value)) && "use letters, digits, . _ -",
  },
  worker: {
    concurrency: whole(0, 10_000),
    lease_ms: whole(1_000, LONGEST_MS),
    run_timeout_ms: whole(1, LONGEST_MS),
  },
  limits: { pending_per_thread: count, pending: count },
  retention: { frames_ms: age, stateless_ms: age, idempotency_ms: age },
  http: {
    cors: {
      allow_origins: (value) =>
        !(Array.isArray(value) && value.every((item) => typeof item === "string")) && "must be a list of strings",
    },
  },
};

/** What is wrong with a value, and keys that no option has, at any depth. */
function problemsIn(setting: Check | Section, value: unknown, path: string): string[] {
  if (value === undefined) return [];
  if (typeof setting === "function") {
    const problem = setting(value);
    return problem === false ? [] : [`${path}: ${problem}`];
  }
  if (!isObject(value)) return [`${path}: must be an object`];
  return Object.entries(value).flatMap(([key, inner]) => {
    const name = path === "" ? key : `${path}.${key}`;
    if (name === "webhooks") return ["webhooks: not built yet, remove the section"];
    const known = Object.hasOwn(setting, key) && setting[key];
    return known ? problemsIn(known, inner, name) : [`${name}: unknown option`];
  });
}

/** Everything wrong with the options, each problem by its key. */
function problemsOf({ storage, executor, ambient: _, ...settings }: ServiceOptions): string[] {
  const problems = problemsIn(SETTINGS, settings, "");
  if (typeof storage?.migrate !== "function") {
    problems.push("storage: missing; give one, for example bunSqlite(path) or nodeSqlite(path)");
  }
  if (typeof executor?.graphs !== "function" || typeof executor.execute !== "function") {
    problems.push("executor: missing; give one, for example fromFunctions({ name: async function* (job) { … } })");
    return problems;
  }
  const names = executor.graphs().map((graph) => graph.graph_id);
  if (names.length === 0) problems.push("executor: it hosts no graph");
  for (const name of names) {
    if (name === "" || name.includes("/") || name.includes("\u0000") || !name.isWellFormed()) {
      problems.push(`executor: the graph id ${JSON.stringify(name)} cannot stand in a URL path`);
    }
    if (UUID.test(name)) problems.push(`executor: the graph id ${name} looks like an assistant's UUID`);
  }
  for (const name of new Set(names.filter((name, i) => names.indexOf(name) !== i))) {
    problems.push(`executor: the graph id ${name} is hosted twice`);
  }
  return problems;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/**
 * Wires the service and starts its loops. Resolves once storage is migrated. Throws a ConfigError with every problem found in
 * the options, or when the database cannot be used.
 */
export async function createService(options: ServiceOptions): Promise<Service> {
  const problems = problemsOf(options);
  if (problems.length > 0) throw new ConfigError(problems);
  const { storage, executor } = options;
  const ambient: Ambient = { ...systemAmbient(), ...options.ambient };
  const scope = { deployment: options.deployment?.name ?? "default" };
  const retention = settled(DEFAULTS.retention, options.retention);
  const started = ambient.now();
  await storage.migrate();
  const events = createEvents(ambient, { load: (run_id, after) => storage.readFrames(scope, run_id, after) });
  const assistants = createAssistants({ storage, scope, executor, ambient });
  await assistants.ensureDefaults();
  let runs: RunDirectory;
  const terms = settled(DEFAULTS.worker, options.worker);
  const worker = createWorker({
    storage,
    scope,
    executor,
    events,
    ambient,
    ...terms,
    onLeft: (run_id, tape) => runs.watch(run_id, tape),
  });
  const threads = createThreads({
    storage,
    scope,
    executor,
    ambient,
    events,
    read: (run, after) => runs.read(run, after),
    onDeleted: (run_ids) => runs.deleted(run_ids),
  });
  runs = createRuns({
    storage,
    scope,
    executor,
    ambient,
    events,
    worker,
    assistants,
    threads,
    limits: settled(DEFAULTS.limits, options.limits),
  });

  let stopped: Promise<void> | null = null;
  let closed = false;
  const stopping = (): ServiceError => new ServiceError("unavailable", STOPPING);
  const calls = new Set<Promise<unknown>>();
  /** A noun whose calls are waited for when the service stops, and refused afterwards. */
  const served = <Noun extends object>(noun: Noun, refused?: ReadonlySet<string>): Noun =>
    Object.fromEntries(
      Object.entries(noun).map(([name, call]) => [
        name,
        async (...args: unknown[]): Promise<unknown> => {
          if (closed || (stopped && refused?.has(name)))
            throw new ServiceError("unavailable", "The server is stopping");
          const answer = (call as (...args: unknown[]) => Promise<unknown>)(...args);
          calls.add(answer);
          try {
            return await answer;
          } catch (error) {
            throw closed && !(error instanceof ServiceError) ? stopping() : error;
          } finally {
            calls.delete(answer);
          }
        },
      ]),
    ) as Noun;
  const within = <Value>(ms: number, work: Promise<Value>, late: Value | Error): Promise<Value> =>
    new Promise((resolve, reject) => {
      const cancel = ambient.timer(ms, () => (late instanceof Error ? reject(late) : resolve(late)));
      work.then(resolve, reject).finally(cancel);
    });

  let sweeping: Promise<void> = Promise.resolve();
  let cancelSweep = (): void => {};
  async function sweep(): Promise<void> {
    try {
      while (!stopped) {
        const now = ambient.now();
        const count = await storage.sweep(scope, {
          temporary_before: now - retention.stateless_ms,
          frames_before: now - retention.frames_ms,
          keys_before: now - retention.idempotency_ms,
          limit: SWEEP_ROWS,
          now,
        });
        if (count === 0) return;
        await new Promise<void>((resolve) => ambient.defer(resolve));
      }
    } catch (error) {
      ambient.log({ level: "error", message: "what is no longer kept was not swept", error });
    }
  }
  function scheduleSweep(): void {
    cancelSweep = ambient.timer(SWEEP_MS, () => {
      sweeping = sweep().then(() => {
        if (!stopped) scheduleSweep();
      });
    });
  }
  scheduleSweep();

  let probed: { readonly answer: Promise<Readiness>; until: number } | null = null;
  async function probe(): Promise<Readiness> {
    try {
      await within(PROBE_WITHIN_MS, storage.probe(ambient.now()), new Error("The storage does not answer"));
      return { ok: true };
    } catch (error) {
      ambient.log({ level: "error", message: "the storage takes no writes", error });
      return { ok: false, detail: "The storage takes no writes" };
    }
  }

  return {
    assistants: served<Assistants>(assistants),
    threads: served<Threads>(threads),
    runs: served<Runs>(runs, CREATING),
    options,
    ambient,
    info: () => ({
      version: VERSION,
      api_version: "0.5.36",
      flags: { assistants: true, crons: false, langsmith: false, langsmith_tracing_replicas: false },
    }),
    healthy: () => !closed && worker.healthy(),
    async ready() {
      if (stopped) return { ok: false, detail: STOPPING };
      if (!worker.healthy()) return { ok: false, detail: "The worker can execute no run any more" };
      if (!probed || ambient.now() >= probed.until) {
        const check = { answer: probe(), until: Number.POSITIVE_INFINITY };
        probed = check;
        void check.answer.then(() => {
          check.until = ambient.now() + PROBE_EVERY_MS;
        });
      }
      return await probed.answer;
    },
    async metrics() {
      const now = ambient.now();
      const { oldest_due, ...runs } = await storage.activity(scope, now);
      return {
        uptime_seconds: (now - started) / 1000,
        draining: stopped !== null,
        standby: terms.concurrency > 0 && !stopped && !(await storage.becomeWorker(now)),
        runs,
        oldest_pending_seconds: oldest_due === null ? 0 : Math.max(0, now - oldest_due) / 1000,
        worker: worker.counters(),
      };
    },
    stop(grace_ms = 10_000) {
      stopped ??= (async () => {
        cancelSweep();
        await worker.stop(grace_ms);
        events.close();
        await Promise.all([sweeping, within(LAST_CALLS_MS, Promise.allSettled(calls), [])]);
        closed = true;
        await storage.close();
      })();
      return stopped;
    },
  };
}
