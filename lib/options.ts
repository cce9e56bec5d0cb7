/** The options of a service, and their validation. */
import { findAuthProblems } from "./auth/custom.ts";
import type { AuthOptions } from "./auth/principal.ts";
import type { FinishedRun } from "./engine/finished-runs.ts";
import type { Environment } from "./environment.ts";
import { ConfigError } from "./errors.ts";
import type { Graphs } from "./executor/agent-types.ts";
import type { Executor } from "./executor/contract.ts";
import type { Prices } from "./executor/model-usage.ts";
import { isObject } from "./json.ts";
import { type HttpOptions, httpSchema } from "./options/http.ts";
import { type IdentityStore, UUID } from "./storage/identity.ts";
import type { PruneStrategy, Storage } from "./storage/mod.ts";
import type { StoreIndex, StoreTtl } from "./store/mod.ts";
import { MAX_TTL_MINUTES } from "./threads/mod.ts";
import { findSamplingProblems, type TraceOptions, traceSection } from "./traces/options.ts";
import {
  anything,
  callable,
  findProblems,
  flag,
  formatIssue,
  integerBetween,
  isIntegerBetween,
  isName,
  isStorable,
  listOfStrings,
  type Schema,
  type Section,
  strictSection,
  stringEnum,
  stringMatching,
  valueMatching,
  withDefaults,
} from "./validation.ts";
import { validateWebhooks, type WebhookOptions, type WebhookSettings } from "./webhooks/options.ts";

/** Every option has the same name in the configuration file of the stand-alone server. */
export interface ServiceOptions<Types extends Graphs = Graphs> {
  readonly storage: Storage;
  readonly executor: Executor<Types>;
  /** The name of the service, and the project to which its runs are billed. */
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
  /** The authentication of callers. Without it, everybody may call the service. */
  readonly auth?: AuthOptions;
  /** The links of `feedback_keys`. */
  readonly feedback?: {
    /** The time for which the links of `feedback_keys` stay valid after the end of the run. Default 10,800,000: three hours. */
    readonly token_ttl_ms?: number;
    /** Allows links for runs of other servers, with a key that may create feedback. Default false. */
    readonly external_runs?: boolean;
  };
  /** Reports of runs and model usage. */
  readonly usage?: {
    /** Default true. Runs that start while it is false are never reported. */
    readonly enabled?: boolean;
    /** A report that names a workspace which the caller cannot read: refuse it, or omit that workspace. Default `refuse`. */
    readonly unreadable_workspaces?: "refuse" | "omit";
    /** Prices by the name of the model, for usage without a cost: `{ "gpt-5": { tokens_in: 1.25, tokens_out: 10 } }`. Default: none. */
    readonly prices?: Prices;
  };
  /** Where webhooks may be sent, and how. */
  readonly webhooks?: WebhookOptions;
  /** The environment variables that `webhooks` may refer to. Default: none. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** The execution of runs in this process. */
  readonly worker?: {
    /** The number of runs executed at once in this process. Default 10; 0: none. */
    readonly concurrency?: number;
    /** The duration of a lease without renewal. Default 10,000. */
    readonly lease_ms?: number;
    /** The time limit of one attempt before the run ends as `timeout`, unless its graph sets one. Default 3,600,000. */
    readonly run_timeout_ms?: number;
    /** A durable function that waits longer than this frees its slot. Default 2,000. */
    readonly linger_ms?: number;
  };
  /** Runs above these limits are refused with a conflict. */
  readonly limits?: {
    /** Pending runs of one thread. Default 1,000. */
    readonly pending_per_thread?: number;
    /** Pending runs of the deployment, without those that are suspended. Default 10,000. */
    readonly pending?: number;
    /** Suspended runs of the deployment: a run that would be one more fails. Default 100,000. */
    readonly suspended?: number;
  };
  /** The journals of durable functions. */
  readonly steps?: {
    /** Entries of a call. Default 10,000. */
    readonly entries?: number;
    /** The size of one result, in characters of JSON. Default 1,048,576. */
    readonly result_bytes?: number;
    /** The size of all entries of a call. Default 67,108,864. */
    readonly journal_bytes?: number;
  };
  /** The time for which finished data is kept. */
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
    /** Threads of calls by MCP, after their last activity. Default 86,400,000: one day. */
    readonly mcp_ms?: number;
  };
  /** The states of threads. */
  readonly checkpointer?: {
    /** The time to live of threads after their last change. Threads with an active run are kept. */
    readonly ttl?: {
      /** `delete` (the default) deletes the thread, `keep_latest` all its checkpoints except the newest state. */
      readonly strategy?: PruneStrategy;
      /** The time to live of threads without their own `ttl`, in minutes or fractions. Default: no expiry. */
      readonly default_ttl?: number;
      /** The interval at which expired threads are pruned. Default 5. */
      readonly sweep_interval_minutes?: number;
    };
  };
  /** What runs keep about their execution: spans of nodes, models, tools and steps. */
  readonly traces?: TraceOptions;
  /** Runs on a schedule. */
  readonly crons?: {
    /** False: this process fires none. Default true. */
    readonly enabled?: boolean;
    /** A missed fire time fires late if it is not older than this. Default 3,600,000. */
    readonly misfire_grace_ms?: number;
    /** Disables a cron after so many failed runs in a row. Default: never. */
    readonly max_failures?: number;
  };
  /** The items that agents and clients store. */
  readonly store?: {
    /** Enables semantic search of items. Default: disabled. */
    readonly index?: StoreIndex;
    /** The lifetime of items. Default: they never expire. */
    readonly ttl?: StoreTtl;
  };
  /** What the service answers over HTTP. */
  readonly http?: HttpOptions;
  /** Called once for each run that this process ends, after its end is stored. Its errors are logged. */
  readonly onRunFinished?: (run: FinishedRun) => void | Promise<void>;
  /** Replaces clock, timers, randomness or log, for tests. */
  readonly environment?: Partial<Environment>;
}

/** The start of URLs that leave the process; undefined where it is not known. */
export const getPublicBaseUrl = ({ public_base_url }: Pick<ServiceOptions, "public_base_url">): string | undefined =>
  typeof public_base_url === "function" ? public_base_url() : public_base_url;

const MONTH_MS = 30 * 86_400_000;

export const DEFAULTS: {
  readonly worker: Required<NonNullable<ServiceOptions["worker"]>>;
  readonly limits: Required<NonNullable<ServiceOptions["limits"]>>;
  readonly retention: Required<NonNullable<ServiceOptions["retention"]>>;
  readonly steps: Required<NonNullable<ServiceOptions["steps"]>>;
  readonly feedback: Required<NonNullable<ServiceOptions["feedback"]>>;
  readonly usage: Required<NonNullable<ServiceOptions["usage"]>>;
  readonly crons: Required<Omit<NonNullable<ServiceOptions["crons"]>, "max_failures">>;
} = {
  worker: { concurrency: 10, lease_ms: 10_000, run_timeout_ms: 3_600_000, linger_ms: 2_000 },
  limits: { pending_per_thread: 1_000, pending: 10_000, suspended: 100_000 },
  steps: { entries: 10_000, result_bytes: 1_048_576, journal_bytes: 67_108_864 },
  retention: {
    frames_ms: 86_400_000,
    stateless_ms: 60_000,
    idempotency_ms: 86_400_000,
    tokens_ms: MONTH_MS,
    deliveries_ms: MONTH_MS,
    mcp_ms: 86_400_000,
  },
  feedback: { token_ttl_ms: 10_800_000, external_runs: false },
  usage: { enabled: true, unreadable_workspaces: "refuse", prices: {} },
  crons: { enabled: true, misfire_grace_ms: 3_600_000 },
};

/** The sections that have defaults, completed. */
export type Settings = typeof DEFAULTS;

/** Returns the settings with the defaults for missing and undefined members. Other options are omitted. */
export const resolveSettings = (options: ServiceOptions): Settings =>
  Object.fromEntries(
    Object.entries(DEFAULTS).map(([key, defaults]) => [key, withDefaults(defaults, options[key as keyof Settings])]),
  ) as unknown as Settings;

/** The maximum delay of timers, which fire at once above it. */
const MAX_TIMER_MS = 2 ** 31 - 1;
const count = integerBetween(1, 1e9);
const age = integerBetween(0, Number.MAX_SAFE_INTEGER);
/** Returns the schema of a number of minutes above 0 and up to `max`. */
const minutes = (max: number): Schema =>
  valueMatching(
    (value) => typeof value === "number" && value > 0 && value <= max,
    `must be a number above 0, at most ${max}`,
  );
const interval = minutes(Math.floor(MAX_TIMER_MS / 60_000));
const name = stringMatching(isName, "must be a text of 1 to 255 characters, without white space at the ends");

/**
 * Returns true for an absolute HTTP URL that a path can be appended to: without a slash at the end, query, fragment and
 * credentials.
 */
function isBaseUrl(value: unknown): value is string {
  if (typeof value !== "string" || value.endsWith("/") || /[?#\s]/.test(value) || !URL.canParse(value)) return false;
  const { protocol, username, password } = new URL(value);
  return /^https?:$/.test(protocol) && username === "" && password === "";
}

const hasMethods = (value: unknown, ...names: readonly string[]): boolean =>
  names.every((name) => typeof (value as Readonly<Record<string, unknown>> | null)?.[name] === "function");
const isExecutor = (value: unknown): value is Executor => hasMethods(value, "graphs", "execute");

const isPrice = (value: unknown): boolean =>
  typeof value === "number" && value >= 0 && value < Number.POSITIVE_INFINITY;
const price = strictSection({ tokens_in: valueMatching(isPrice, ""), tokens_out: valueMatching(isPrice, "") }, [
  "tokens_in",
  "tokens_out",
]);
const prices = valueMatching(
  (value) =>
    isObject(value) && Object.values(value).every((modelPrice) => findProblems(price, modelPrice).length === 0),
  "must give each model a price, { tokens_in, tokens_out }: US dollars per million tokens, numbers from 0 on",
);

/** The schema of all options; that of `webhooks` is `webhooksSchema`. */
export const SETTINGS: Section = strictSection(
  {
    storage: valueMatching(
      (value) => hasMethods(value, "migrate"),
      "missing; give one, for example bunSqlite(path) or nodeSqlite(path)",
    ),
    executor: valueMatching(
      isExecutor,
      "missing; give one, for example fromFunctions({ name: async function* (job) { … } })",
    ),
    identity: valueMatching((value) => hasMethods(value, "findKey"), "is no IdentityStore"),
    environment: anything,
    env: anything,
    // checkWebhooks validates them.
    webhooks: anything,
    deployment: strictSection({
      name: stringMatching((value) => /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/.test(value), "use letters, digits, . _ -"),
      project: name,
      workspace: name,
    }),
    public_base_url: valueMatching(
      (value) => typeof value === "function" || isBaseUrl(value),
      "must be an absolute http or https URL without query, fragment, credentials and without a slash at the end",
    ),
    auth: strictSection({
      mode: stringEnum(["none", "api_key", "agent_builder", "custom"]),
      // problemsOfAuth validates it.
      custom: anything,
      merge_filter_on_create: flag,
      disable_studio_auth: flag,
      owner: name,
      shared: flag,
      shared_agents: stringEnum(["read", "use"]),
      key_prefix: stringMatching(
        (value) => /^[a-z][a-z0-9]{0,15}$/.test(value),
        "use up to 16 lower case letters and digits",
      ),
    }),
    feedback: strictSection({ token_ttl_ms: integerBetween(1, 365 * 86_400_000), external_runs: flag }),
    usage: strictSection({ enabled: flag, unreadable_workspaces: stringEnum(["refuse", "omit"]), prices }),
    worker: strictSection({
      concurrency: integerBetween(0, 10_000),
      lease_ms: integerBetween(1_000, MAX_TIMER_MS),
      run_timeout_ms: integerBetween(1, MAX_TIMER_MS),
      linger_ms: integerBetween(0, MAX_TIMER_MS),
    }),
    limits: strictSection({ pending_per_thread: count, pending: count, suspended: count }),
    steps: strictSection({ entries: count, result_bytes: count, journal_bytes: count }),
    checkpointer: strictSection({
      ttl: strictSection({
        strategy: stringEnum(["delete", "keep_latest"]),
        default_ttl: minutes(MAX_TTL_MINUTES),
        sweep_interval_minutes: interval,
      }),
    }),
    store: strictSection({
      index: strictSection(
        { dims: integerBetween(1, 65_536), embed: callable, fields: listOfStrings(() => true, "strings") },
        ["dims", "embed"],
      ),
      ttl: strictSection({
        default_ttl: minutes(1e10),
        refresh_on_read: flag,
        sweep_interval_minutes: interval,
      }),
    }),
    crons: strictSection({ enabled: flag, misfire_grace_ms: age, max_failures: count }),
    retention: strictSection({
      ...{ frames_ms: age, stateless_ms: age, idempotency_ms: age, tokens_ms: age, deliveries_ms: age },
      mcp_ms: integerBetween(1, MAX_TTL_MINUTES * 60_000),
    }),
    traces: traceSection,
    http: httpSchema,
    onRunFinished: callable,
  },
  ["storage", "executor"],
);

/** Returns the keys of all options, joined by dots; those inside `webhooks` are omitted. */
export function listOptionKeys({ members }: Section = SETTINGS, path = ""): readonly string[] {
  return Object.entries(members).flatMap(([key, member]) =>
    "members" in member ? listOptionKeys(member as Section, `${path}${key}.`) : `${path}${key}`,
  );
}

/**
 * Validates the options as `createService` does, and returns the settings of webhooks, with their variables filled in. Throws a
 * ConfigError that lists every problem by its key.
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
  const { webhooks, http, env } = options;
  const { settings, problems: webhookIssues } = validateWebhooks(webhooks, http?.disable_webhooks, env ?? {});
  const problems = [
    ...findOptionProblems(options),
    ...webhookIssues.map((issue) => `${formatIssue(issue)} (${issue.type})`),
  ];
  if (problems.length > 0 || !settings) throw new ConfigError(problems);
  return settings;
}

/**
 * Returns the problems of all options but webhooks, each as one line; empty if there are none. Checks the graphs of the
 * executor only if that is valid.
 */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one check for each option
function findOptionProblems(options: ServiceOptions): string[] {
  const { executor, worker } = options;
  const auth = options.auth ?? {};
  const problems = findProblems(SETTINGS, options);
  if (auth.mode === "agent_builder" && auth.owner === undefined) {
    problems.push("auth.owner: mode agent_builder needs the id or email of the agent's owner");
  }
  problems.push(...findCustomAuthProblems(auth), ...findSamplingProblems(options.traces?.record));
  if (!isExecutor(executor)) return problems;
  const graphs = executor.graphs();
  const lease_ms = worker?.lease_ms ?? DEFAULTS.worker.lease_ms;
  for (const { graph_id, abandon_ms } of graphs) {
    // A rolled-back run holds its thread for one lease at most, in other processes too.
    if (abandon_ms === undefined || isIntegerBetween(abandon_ms, 1, lease_ms)) continue;
    problems.push(
      `executor: abandon_ms of the graph ${graph_id} must be a whole number from 1 to worker.lease_ms, which is ${lease_ms}`,
    );
  }
  const names = graphs.map((graph) => graph.graph_id);
  if (names.length === 0) problems.push("executor: it hosts no graph");
  for (const name of names) {
    if (name === "" || name.includes("/") || !isStorable(name)) {
      problems.push(`executor: the graph id ${JSON.stringify(name)} cannot stand in a URL path`);
    }
    if (UUID.test(name)) problems.push(`executor: the graph id ${name} looks like an assistant's UUID`);
  }
  for (const name of new Set(names.filter((name, i) => names.indexOf(name) !== i))) {
    problems.push(`executor: the graph id ${name} is hosted twice`);
  }
  return problems;
}

/** Returns the problems of custom authentication, each as one line; empty if there are none. */
function findCustomAuthProblems({ mode, custom, merge_filter_on_create }: AuthOptions): readonly string[] {
  if (custom !== undefined) {
    const modeProblems =
      mode === undefined || mode === "custom" ? [] : [`auth.mode: must be custom beside auth.custom`];
    return [...modeProblems, ...findAuthProblems(custom)];
  }
  return [
    ...(mode === "custom" ? ["auth.custom: mode custom needs it; give { authenticate(request) { … } }"] : []),
    ...(merge_filter_on_create ? ["auth.merge_filter_on_create: only custom authentication has filters"] : []),
  ];
}
