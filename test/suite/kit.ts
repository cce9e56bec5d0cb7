/** Test doubles for agents: an in-memory service, a manual clock, predictable ids. */

import type { Agents, AppOptions } from "../../adapters/app.ts";
import {
  createAgentsExecutor,
  DATABASE_NAMES,
  findDatabaseProblems,
  findServiceProblems,
  splitHttpOptions,
} from "../../adapters/app-options.ts";
import { openDatabase } from "../../adapters/database.ts";
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import { type StaticIdentityOptions, type StaticKey, staticIdentity } from "../../lib/auth/static-keys.ts";
import type { Environment } from "../../lib/environment.ts";
import { ConfigError } from "../../lib/errors.ts";
import type { CheckedAgents, Graphs, GraphsOf, NamedGraphs, Untyped } from "../../lib/executor/agent-types.ts";
import { type CheckedDuration, type Duration, parseDuration } from "../../lib/executor/step-names.ts";
import { createHandler } from "../../lib/http/handler.ts";
import { handlerOptionsSchema } from "../../lib/http/options.ts";
import { createService, type Service, type ServiceOptions, serviceInternals } from "../../lib/service.ts";
import type { IdentityStore } from "../../lib/storage/identity.ts";
import type { FeedbackTokenRow, Storage } from "../../lib/storage/mod.ts";
import { findProblems } from "../../lib/validation.ts";
import { addTraces, type NewTrace } from "./traces.ts";

/** The default lifetime of a feedback token: three hours. */
const TOKEN_LIFE_MS = 10_800_000;

/** A manual clock: time stands still between calls of `advance` and `set`. */
export interface TestClock {
  readonly now: Environment["now"];
  readonly timer: Environment["timer"];
  /**
   * Advances the time and calls due timers in order, each followed by a tick of the event loop. A text such as `"2d"` is for durable
   * functions: it lets them come to rest, jumps, and lets them come to rest again.
   */
  advance<By extends Duration>(by: By & CheckedDuration<By>): Promise<void>;
  /** Jumps to a time in milliseconds since 1970, as after a machine's sleep, and calls each due timer once, in order. */
  set(moment: number): Promise<void>;
}

const REST_ROUNDS = 30;
const REST_MS = 20;

/**
 * Makes a manual clock that starts at `start`, in milliseconds since 1970. Default 2026-01-01T00:00:00Z.
 *
 * @example
 * ```ts
 * import { testClock, testService } from "greenroom/testing";
 *
 * const clock = testClock();
 * await using test = await testService({ agents: { echo: () => "Hi" }, environment: clock });
 * await clock.advance(60_000);
 * ```
 */
export function testClock(start: number = Date.UTC(2026, 0, 1)): TestClock {
  let time = start;
  let order = 0;
  const timers = new Map<number, { at: number; fn: () => void }>();
  const tick = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));
  /** Waits some ticks of the event loop and some short timers, which a durable function needs to get on. */
  async function settleTimers(): Promise<void> {
    for (let round = 0; round < REST_ROUNDS; round++) await clock.advance(REST_MS);
  }

  const clock: TestClock = {
    now: () => time,
    timer(ms, fn) {
      const id = order++;
      timers.set(id, { at: time + ms, fn });
      return () => timers.delete(id);
    },
    async advance(by: Duration) {
      if (typeof by === "string") {
        await settleTimers();
        await clock.set(time + parseDuration(by, "advance: the time"));
        return await settleTimers();
      }
      const until = time + by;
      while (true) {
        const dueTimers = [...timers]
          .filter(([, timer]) => timer.at <= until)
          .sort(([a, x], [b, y]) => x.at - y.at || a - b)[0];
        if (!dueTimers) break;
        timers.delete(dueTimers[0]);
        time = Math.max(time, dueTimers[1].at);
        dueTimers[1].fn();
        await tick();
      }
      time = until;
      await tick();
    },
    async set(moment) {
      time = moment;
      const dueTimers = [...timers]
        .filter(([, timer]) => timer.at <= moment)
        .sort(([a, x], [b, y]) => x.at - y.at || a - b);
      for (const [id, { fn }] of dueTimers) {
        if (!timers.delete(id)) continue;
        fn();
        await tick();
      }
      await tick();
    },
  };
  return clock;
}

/**
 * Makes a generator of UUIDs that count up from 1, the same in every run of a test.
 *
 * @example
 * ```ts
 * import { testIds, testService } from "greenroom/testing";
 *
 * await using test = await testService({ agents: { echo: () => "Hi" }, environment: { uuid: testIds() } });
 * ```
 */
export function testIds(): Environment["uuid"] {
  let count = 0;
  return () => `00000000-0000-4000-8000-${(++count).toString(16).padStart(12, "0")}`;
}

/** Read-only accounts in memory and their API keys, by name. */
export interface TestAccounts {
  /** The `identity` option of a service; use it with `auth: { mode: "api_key" }`. */
  readonly identity: IdentityStore;
  /** The values for `X-API-Key`. */
  readonly keys: Readonly<Record<string, string>>;
}

/**
 * Makes accounts by `staticIdentity`, with a generated key per name in `keys`. Throws a ConfigError with every problem.
 *
 * @example
 * ```ts
 * import { testAccounts, testService } from "greenroom/testing";
 *
 * const { identity, keys } = testAccounts({ keys: { ann: {} } });
 * await using test = await testService({ agents: { echo: () => "Hi" }, identity, auth: { mode: "api_key" } });
 * const response = await test.fetch("http://greenroom/threads", { method: "POST", headers: { "x-api-key": keys.ann ?? "" } });
 * ```
 */
export function testAccounts(
  options: Omit<StaticIdentityOptions, "keys"> & { readonly keys: Readonly<Record<string, Omit<StaticKey, "key">>> },
): TestAccounts {
  const keys = Object.fromEntries(Object.keys(options.keys).map((name) => [name, `test_${name}_`.padEnd(40, "0")]));
  const staticKeys = Object.entries(options.keys).map(
    ([name, of]): StaticKey => ({ ...of, key: keys[name] as string }),
  );
  return { identity: staticIdentity({ ...options, keys: staticKeys }), keys };
}

/** A trace to add. Defaults: a run of the service's deployment that starts now, without user and key. */
export type TestTrace = Partial<NewTrace>;

/** A feedback token to add. Defaults: a token of the service's deployment, created now, valid for three hours. */
export type TestToken = Pick<FeedbackTokenRow, "run_id" | "feedback_key"> & Partial<FeedbackTokenRow>;

/** The options of `testService`: those of `createApp` and of `createService`. */
export interface TestServiceOptions<Hosted extends Agents = Agents, Types extends Graphs = Graphs>
  extends Omit<Partial<ServiceOptions<Types>>, "http"> {
  /** Functions and LangGraph.js graphs by name, instead of an `executor`. */
  readonly agents?: CheckedAgents<Hosted>;
  /** The database, as in `createApp`, instead of a `storage`. Default: a database in memory. */
  readonly database?: AppOptions["database"];
  /** The options of `createHandler` and of the HTTP side of the service. */
  readonly http?: AppOptions["http"];
}

/** A service in memory, and helpers that add rows to it. */
export interface TestService<Types extends Graphs = Record<string, Untyped>> extends AsyncDisposable {
  readonly service: Service<Types>;
  /** Calls the handler of the service: `new Client({ apiUrl: "http://greenroom", callerOptions: { fetch } })`. */
  readonly fetch: (input: string | URL | Request, init?: RequestInit) => Promise<Response>;
  /** The log records so far. Nothing is written to the console. */
  readonly log: readonly Parameters<Environment["log"]>[0][];
  /** Stores traces as if their runs had been executed here. Returns their ids. */
  addTraces(traces: readonly TestTrace[]): Promise<readonly string[]>;
  /** Stores feedback tokens. Returns their ids. */
  addTokens(tokens: readonly TestToken[]): Promise<readonly string[]>;
}

/** Returns the problem of an option that excludes another one, as a list. */
const conflict = (
  options: Partial<ServiceOptions>,
  name: "executor" | "storage",
  source: string,
  value: unknown,
): string[] =>
  value === undefined || options[name] === undefined ? [] : [`${name}: not together with ${source}. Give one of them`];

const openTestDatabase = async (database: AppOptions["database"] | undefined): Promise<Storage> =>
  database === undefined
    ? nodeSqlite(":memory:")
    : await openDatabase(typeof database === "string" ? { url: database } : database, DATABASE_NAMES);

/**
 * Starts a service on an in-memory database. The clock is real unless `environment` has another. `await using` stops the service.
 *
 * @example
 * ```ts
 * import { testService } from "greenroom/testing";
 *
 * await using test = await testService({ agents: { echo: () => "Hi" } });
 * const response = await test.fetch("http://greenroom/ok");
 * ```
 */
export async function testService<Hosted extends Agents, Types extends Graphs = GraphsOf<Hosted>>(
  options: TestServiceOptions<Hosted, Types>,
): Promise<TestService<NamedGraphs<Types>>> {
  const { agents, database, http, environment, ...serviceOptions } = options;
  const log: Parameters<Environment["log"]>[0][] = [];
  const [handlerOptions, serviceHttp] = splitHttpOptions(http);
  const problems = [
    ...conflict(serviceOptions, "executor", "agents", agents),
    ...conflict(serviceOptions, "storage", "database", database),
    ...(database === undefined ? [] : findDatabaseProblems(database)),
    ...findProblems(handlerOptionsSchema, handlerOptions, "http"),
  ];
  const settings = { ...serviceOptions, ...(http === undefined ? {} : { http: serviceHttp }) };
  const executor = serviceOptions.executor ?? (await createAgentsExecutor(agents, problems));
  if (!serviceOptions.executor) problems.push(...findServiceProblems(agents, { ...settings, executor }, problems));
  if (problems.length > 0) throw new ConfigError(problems);
  const service: Service = await createService({
    ...settings,
    storage: serviceOptions.storage ?? (await openTestDatabase(database)),
    executor,
    environment: { log: (record) => void log.push(record), ...environment },
  });
  const handler = createHandler(service, handlerOptions);
  const { storage } = serviceInternals(service).options;
  const { now, uuid } = serviceInternals(service).environment;
  const { workspace_id, project_id, name } = service.deployment;
  const test: TestService = {
    service,
    log,
    fetch: (input, init) => handler(new Request(input, init)),
    async addTraces(traces) {
      const unset = { thread_id: null, user_id: null, api_key: null };
      const rows = traces.map((trace): NewTrace => {
        const fallback = { trace_id: uuid(), workspace_id, project_id, ...unset, started_at: now(), counted: true };
        return { ...fallback, ...trace };
      });
      await addTraces(storage, rows);
      return rows.map(({ trace_id }) => trace_id);
    },
    async addTokens(tokens) {
      const rows = tokens.map((token): FeedbackTokenRow => {
        const life = { created_at: now(), expires_at: now() + TOKEN_LIFE_MS };
        return { token_id: uuid(), workspace_id, project_id, config: null, ...life, ...token };
      });
      await storage.createFeedbackTokens({ deployment: name }, rows);
      return rows.map(({ token_id }) => token_id);
    },
    [Symbol.asyncDispose]: () => service.stop(0),
  };
  return test as TestService<NamedGraphs<Types>>;
}
