/** The service: wires nouns, worker and storage together. */
import * as v from "valibot";
import { type Ambient, systemAmbient } from "./ambient.ts";
import { type Assistants, createAssistants } from "./assistants.ts";
import { ConfigError } from "./errors.ts";
import { createEvents } from "./events.ts";
import type { Executor } from "./executor.ts";
import { isObject } from "./json.ts";
import { createRuns, type RunDirectory, type Runs } from "./runs.ts";
import type { Storage } from "./storage.ts";
import { createThreads, type Threads } from "./threads.ts";
import { createWorker, endDeleted } from "./worker.ts";

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

export interface Service {
  readonly assistants: Assistants;
  readonly threads: Threads;
  readonly runs: Runs;
  /** The options as given. */
  readonly options: ServiceOptions;
  readonly ambient: Ambient;
  info(): ServiceInfo;
  /** False when the worker can execute nothing any more. */
  healthy(): boolean;
  /** Takes no more runs, lets those that execute end for `grace_ms` (default 10,000), puts the rest back, and closes the storage. */
  stop(grace_ms?: number): Promise<void>;
}

/** This release. A test holds it equal to the package's version. */
export const VERSION = "0.1.0";

/** How long a stateless run is kept after its end, for late joiners. */
const KEEP_TEMPORARY_MS = 60_000;
const SWEEP_MS = 5_000;
const SWEEP_ROWS = 500;

const positive = v.pipe(v.number(), v.integer(), v.minValue(1));
const Settings = v.object({
  deployment: v.optional(
    v.object({
      name: v.optional(v.pipe(v.string(), v.regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, "use letters, digits, . _ -"))),
    }),
  ),
  worker: v.optional(
    v.object({
      concurrency: v.optional(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(10_000))),
      lease_ms: v.optional(v.pipe(positive, v.minValue(1_000))),
    }),
  ),
  http: v.optional(v.object({ cors: v.optional(v.object({ allow_origins: v.optional(v.array(v.string())) })) })),
});

/** Keys that no option has, at any depth. */
function unknownKeys(schema: v.GenericSchema, value: unknown, path: string): string[] {
  const { entries, wrapped } = schema as { entries?: Record<string, v.GenericSchema>; wrapped?: v.GenericSchema };
  if (wrapped) return unknownKeys(wrapped, value, path);
  if (!entries || !isObject(value)) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const name = path === "" ? key : `${path}.${key}`;
    if (name === "webhooks") return ["webhooks: not built yet, remove the section"];
    return entries[key] ? unknownKeys(entries[key], inner, name) : [`${name}: unknown option`];
  });
}

/** Everything wrong with the options, each problem by its key. */
function problemsOf({ storage, executor, ambient: _, ...settings }: ServiceOptions): string[] {
  const problems = unknownKeys(Settings, settings, "");
  for (const issue of v.safeParse(Settings, settings).issues ?? []) {
    problems.push(`${v.getDotPath(issue) ?? "options"}: ${issue.message}`);
  }
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
  await storage.migrate();
  const events = createEvents(ambient);
  const assistants = createAssistants({ storage, scope, executor, ambient });
  await assistants.ensureDefaults();
  let runs: RunDirectory;
  const worker = createWorker({
    storage,
    scope,
    executor,
    events,
    ambient,
    concurrency: options.worker?.concurrency ?? 10,
    lease_ms: options.worker?.lease_ms ?? 10_000,
    onLeft: (run_id, tape) => runs.watch(run_id, tape),
  });
  const threads = createThreads({
    storage,
    scope,
    executor,
    ambient,
    onDeleted(run_ids) {
      for (const run_id of run_ids) {
        if (worker.cancel(run_id, "lease_lost")) continue;
        const tape = events.find(run_id);
        if (tape) endDeleted(tape, run_id);
      }
    },
  });
  runs = createRuns({ storage, scope, executor, ambient, events, worker, assistants, threads });

  let stopped: Promise<void> | null = null;
  let sweeping: Promise<void> = Promise.resolve();
  let cancelSweep = (): void => {};
  async function sweep(): Promise<void> {
    try {
      while (
        !stopped &&
        (await storage.sweepTemporary(scope, ambient.now() - KEEP_TEMPORARY_MS, SWEEP_ROWS)) === SWEEP_ROWS
      ) {
        await new Promise<void>((resolve) => ambient.defer(resolve));
      }
    } catch (error) {
      ambient.log({ level: "error", message: "ended stateless runs were not swept", error });
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

  return {
    assistants,
    threads,
    runs,
    options,
    ambient,
    info: () => ({
      version: VERSION,
      api_version: "0.5.36",
      flags: { assistants: true, crons: false, langsmith: false, langsmith_tracing_replicas: false },
    }),
    healthy: () => !stopped && worker.healthy(),
    stop(grace_ms = 10_000) {
      stopped ??= (async () => {
        cancelSweep();
        await worker.stop(grace_ms);
        events.close();
        await sweeping;
        await storage.close();
      })();
      return stopped;
    },
  };
}
