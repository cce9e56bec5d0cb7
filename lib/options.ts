/** The options of a service, and their validation. */
import { problemsOfAuth } from "./auth/custom.ts";
import type { AuthOptions } from "./auth/principal.ts";
import type { FinishedRun } from "./engine/run-finished.ts";
import type { Environment } from "./environment.ts";
import { ConfigError } from "./errors.ts";
import type { Executor } from "./executor/contract.ts";
import { type HttpOptions, httpChecks } from "./http/options.ts";
import { isObject } from "./json.ts";
import type { IdentityStore } from "./storage/identity.ts";
import type { PruneStrategy, Storage } from "./storage/mod.ts";
import type { StoreIndex, StoreTtl } from "./store/mod.ts";
import { LONGEST_TTL } from "./threads/mod.ts";
import { checkWebhooks, type WebhookOptions, type WebhookSettings } from "./webhooks/options.ts";

/** Every option has the same name in the configuration file of the stand-alone server. */
export interface ServiceOptions {
  readonly storage: Storage;
  readonly executor: Executor;
  readonly deployment?: {
    /** Default `default`. Services with the same name on one storage share its work. */
    readonly name?: string;
    /** The project to which runs are billed: id or name. A new name creates it. Default: the oldest project. */
    readonly project?: string;
    /** The project's workspace: id or name. A new name creates it. Default: the oldest workspace. */
    readonly workspace?: string;
  };
  /** The start of URLs that leave the process: absolute, without a slash at the end, with the mount prefix. */
  readonly public_base_url?: string | (() => string | undefined);
  /** The store of accounts and keys. Default: the storage. */
  readonly identity?: IdentityStore;
  readonly auth?: AuthOptions;
  readonly feedback?: {
    /** How long the links of `feedback_keys` stay valid after the end of the run. Default 10,800,000: three hours. */
    readonly token_ttl_ms?: number;
    /** Allows links for runs of other servers, with a key that may create feedback. Default false. */
    readonly external_runs?: boolean;
  };
  readonly usage?: {
    /** Default true. Runs that start while it is false are never reported. */
    readonly enabled?: boolean;
    /** A report that names a workspace which the caller cannot read: refuse it, or omit that workspace. Default `refuse`. */
    readonly unreadable_workspaces?: "refuse" | "omit";
  };
  readonly webhooks?: WebhookOptions;
  /** The environment variables that `webhooks` may refer to. Default: none. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly worker?: {
    /** The number of runs executed at once in this process. Default 10; 0: none. */
    readonly concurrency?: number;
    /** The duration of a lease without renewal. Default 10,000. */
    readonly lease_ms?: number;
    /** The time limit of one attempt before the run ends as `timeout`, unless its graph sets one. Default 3,600,000. */
    readonly run_timeout_ms?: number;
  };
  /** Runs above these limits are refused with a conflict. */
  readonly limits?: {
    /** Pending runs of one thread. Default 1,000. */
    readonly pending_per_thread?: number;
    /** Pending runs of the deployment. Default 10,000. */
    readonly pending?: number;
  };
  /** How long finished data is kept. */
  readonly retention?: {
    /** Stored frames, after the end of their run. Default 86,400,000. */
    readonly frames_ms?: number;
    /** Stateless runs, after their end, for late calls of join. Default 60,000. */
    readonly stateless_ms?: number;
    /** Idempotency keys, after they were first used. Default 86,400,000. */
    readonly idempotency_ms?: number;
    /** Feedback links that have expired. Default 2,592,000,000: 30 days. */
    readonly tokens_ms?: number;
    /** Finished webhook deliveries, after they were created. Default 2,592,000,000. */
    readonly deliveries_ms?: number;
  };
  readonly checkpointer?: {
    /** The time to live of threads after their last change. Threads with an active run are kept. */
    readonly ttl?: {
      /** `delete` (the default) deletes the thread, `keep_latest` all its checkpoints except the newest state. */
      readonly strategy?: PruneStrategy;
      /** For threads without their own `ttl`, in minutes or fractions. Default: no expiry. */
      readonly default_ttl?: number;
      /** The interval at which expired threads are pruned. Default 5. */
      readonly sweep_interval_minutes?: number;
    };
  };
  readonly crons?: {
    /** False: this process fires none. Default true. */
    readonly enabled?: boolean;
    /** A missed tick is fired late if it is not older than this. Default 3,600,000. */
    readonly misfire_grace_ms?: number;
    /** Disables a cron after so many failed runs in a row. Default: never. */
    readonly max_failures?: number;
  };
  readonly store?: {
    /** Enables semantic search of items. Default: disabled. */
    readonly index?: StoreIndex;
    readonly ttl?: StoreTtl;
  };
  readonly http?: HttpOptions;
  /** Called once for each run that this process ends, after its end is stored. Its errors are logged. */
  readonly onRunFinished?: (run: FinishedRun) => void | Promise<void>;
  /** Replaces clock, timers, randomness or log, for tests. */
  readonly environment?: Partial<Environment>;
}

const MONTH_MS = 30 * 86_400_000;

export const DEFAULTS: {
  readonly worker: Required<NonNullable<ServiceOptions["worker"]>>;
  readonly limits: Required<NonNullable<ServiceOptions["limits"]>>;
  readonly retention: Required<NonNullable<ServiceOptions["retention"]>>;
  readonly feedback: Required<NonNullable<ServiceOptions["feedback"]>>;
  readonly usage: Required<NonNullable<ServiceOptions["usage"]>>;
  readonly crons: Required<Omit<NonNullable<ServiceOptions["crons"]>, "max_failures">>;
} = {
  worker: { concurrency: 10, lease_ms: 10_000, run_timeout_ms: 3_600_000 },
  limits: { pending_per_thread: 1_000, pending: 10_000 },
  retention: {
    frames_ms: 86_400_000,
    stateless_ms: 60_000,
    idempotency_ms: 86_400_000,
    tokens_ms: MONTH_MS,
    deliveries_ms: MONTH_MS,
  },
  feedback: { token_ttl_ms: 10_800_000, external_runs: false },
  usage: { enabled: true, unreadable_workspaces: "refuse" },
  crons: { enabled: true, misfire_grace_ms: 3_600_000 },
};

/** `given` over the defaults. An undefined member counts as absent. */
export const withDefaults = <Values extends object>(defaults: Values, given: Partial<Values> = {}): Values => ({
  ...defaults,
  ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
});

type Check = (value: unknown) => string | false;
interface Section {
  readonly [key: string]: Check | Section;
}

const whole =
  (min: number, max: number): Check =>
  (value) =>
    !(Number.isInteger(value) && (value as number) >= min && (value as number) <= max) &&
    `must be a whole number from ${min} to ${max}`;
/** The limit of timers: longer ones fire at once. */
const LONGEST_MS = 2 ** 31 - 1;
const count: Check = whole(1, 1e9);
const age: Check = whole(0, Number.MAX_SAFE_INTEGER);

const minutes =
  (max: number): Check =>
  (value) =>
    !(typeof value === "number" && value > 0 && value <= max) && `must be a number above 0, at most ${max}`;

const flag: Check = (value) => typeof value !== "boolean" && "must be true or false";
const oneOf =
  (...values: readonly string[]): Check =>
  (value) =>
    !values.includes(value as string) && `must be one of ${values.join(", ")}`;
const texts: Check = (value) =>
  !(Array.isArray(value) && value.every((item) => typeof item === "string")) && "must be a list of strings";
const name: Check = (value) =>
  !(typeof value === "string" && value.length > 0 && value.length <= 255 && value.isWellFormed()) &&
  "must be a text of 1 to 255 characters";

/** An absolute URL that a path can be appended to. */
function isBaseUrl(value: unknown): value is string {
  if (typeof value !== "string" || value.endsWith("/") || /[?#\s]/.test(value) || !URL.canParse(value)) return false;
  const { protocol, username, password } = new URL(value);
  return /^https?:$/.test(protocol) && username === "" && password === "";
}

const SETTINGS: Section = {
  deployment: {
    name: (value) =>
      !(typeof value === "string" && /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/.test(value)) && "use letters, digits, . _ -",
    project: name,
    workspace: name,
  },
  public_base_url: (value) =>
    typeof value !== "function" &&
    !isBaseUrl(value) &&
    "must be an absolute http or https URL without query, fragment, credentials and without a slash at the end",
  auth: {
    mode: oneOf("none", "api_key", "agent_builder", "custom"),
    // problemsOfAuth validates it.
    custom: () => false,
    merge_filter_on_create: flag,
    disable_studio_auth: flag,
    owner: name,
    shared: flag,
    shared_agents: oneOf("read", "use"),
    key_prefix: (value) =>
      !(typeof value === "string" && /^[a-z][a-z0-9]{0,15}$/.test(value)) &&
      "use up to 16 lower case letters and digits",
  },
  feedback: { token_ttl_ms: whole(1, 365 * 86_400_000), external_runs: flag },
  usage: { enabled: flag, unreadable_workspaces: oneOf("refuse", "omit") },
  worker: {
    concurrency: whole(0, 10_000),
    lease_ms: whole(1_000, LONGEST_MS),
    run_timeout_ms: whole(1, LONGEST_MS),
  },
  limits: { pending_per_thread: count, pending: count },
  checkpointer: {
    ttl: {
      strategy: oneOf("delete", "keep_latest"),
      default_ttl: minutes(LONGEST_TTL),
      sweep_interval_minutes: minutes(LONGEST_MS / 60_000),
    },
  },
  store: {
    index: {
      dims: whole(1, 65_536),
      embed: (value) => typeof value !== "function" && "must be a function",
      fields: texts,
    },
    ttl: {
      default_ttl: (value) =>
        !(typeof value === "number" && value > 0 && value <= 1e10) && "must be above 0, up to 1e10",
      refresh_on_read: flag,
      sweep_interval_minutes: (value) =>
        !(typeof value === "number" && value > 0 && value * 60_000 <= LONGEST_MS) && "must be above 0, up to 35,000",
    },
  },
  crons: { enabled: flag, misfire_grace_ms: age, max_failures: count },
  retention: { frames_ms: age, stateless_ms: age, idempotency_ms: age, tokens_ms: age, deliveries_ms: age },
  http: httpChecks,
  onRunFinished: (value) => typeof value !== "function" && "must be a function",
};

/** The keys of all options except `webhooks`, joined by dots. */
export function optionKeys(settings: Check | Section = SETTINGS, path = ""): readonly string[] {
  if (typeof settings === "function") return [path];
  return Object.entries(settings).flatMap(([key, inner]) => optionKeys(inner, path === "" ? key : `${path}.${key}`));
}

/** The problems of a value, and unknown keys, at any depth. */
function problemsIn(setting: Check | Section, value: unknown, path: string): string[] {
  if (value === undefined) return [];
  if (typeof setting === "function") {
    const problem = setting(value);
    return problem === false ? [] : [`${path}: ${problem}`];
  }
  if (!isObject(value)) return [`${path}: must be an object`];
  return Object.entries(value).flatMap(([key, inner]) => {
    const name = path === "" ? key : `${path}.${key}`;
    const known = Object.hasOwn(setting, key) && setting[key];
    return known ? problemsIn(known, inner, name) : [`${name}: unknown option`];
  });
}

/**
 * Validates the options as `createService` does. Throws a ConfigError that lists every problem by its key.
 *
 * @example
 * ```ts
 * import { ConfigError, validateOptions } from "greenroom";
 *
 * try {
 *   validateOptions({ storage, executor, worker: { concurrency: 4 } });
 * } catch (error) {
 *   if (error instanceof ConfigError) console.error(error.problems);
 * }
 * ```
 */
export function validateOptions(options: ServiceOptions): WebhookSettings {
  const problems = problemsOf(options);
  const { settings, problems: ofWebhooks } = checkWebhooks(
    options.webhooks,
    options.http?.disable_webhooks,
    options.env ?? {},
  );
  problems.push(...ofWebhooks.map(({ key, code, message }) => `${key}: ${message} (${code})`));
  if (problems.length > 0 || !settings) throw new ConfigError(problems);
  return settings;
}

function problemsOf({
  storage,
  executor,
  environment: _,
  identity,
  webhooks: _w,
  env: _e,
  ...settings
}: ServiceOptions): string[] {
  const problems = problemsIn(SETTINGS, settings, "");
  if (identity !== undefined && typeof identity?.findKey !== "function") problems.push("identity: is no IdentityStore");
  if (settings.auth?.mode === "agent_builder" && settings.auth.owner === undefined) {
    problems.push("auth.owner: mode agent_builder needs the id or email of the agent's owner");
  }
  problems.push(...problemsOfCustom(settings.auth ?? {}));
  if (typeof storage?.migrate !== "function") {
    problems.push("storage: missing; give one, for example bunSqlite(path) or nodeSqlite(path)");
  }
  if (typeof executor?.graphs !== "function" || typeof executor.execute !== "function") {
    problems.push("executor: missing; give one, for example fromFunctions({ name: async function* (job) { … } })");
    return problems;
  }
  const graphs = executor.graphs();
  const lease_ms = settings.worker?.lease_ms ?? DEFAULTS.worker.lease_ms;
  for (const { graph_id, abandon_ms } of graphs) {
    // A rolled-back run holds its thread for one lease at most, in other processes too.
    if (abandon_ms === undefined || (Number.isInteger(abandon_ms) && abandon_ms >= 1 && abandon_ms <= lease_ms))
      continue;
    problems.push(
      `executor: abandon_ms of the graph ${graph_id} must be a whole number from 1 to worker.lease_ms, which is ${lease_ms}`,
    );
  }
  const names = graphs.map((graph) => graph.graph_id);
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

function problemsOfCustom({ mode, custom, merge_filter_on_create }: AuthOptions): readonly string[] {
  if (custom !== undefined) {
    const beside = mode === undefined || mode === "custom" ? [] : [`auth.mode: must be custom beside auth.custom`];
    return [...beside, ...problemsOfAuth(custom)];
  }
  return [
    ...(mode === "custom" ? ["auth.custom: mode custom needs it; give { authenticate(request) { … } }"] : []),
    ...(merge_filter_on_create ? ["auth.merge_filter_on_create: only custom authentication has filters"] : []),
  ];
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
