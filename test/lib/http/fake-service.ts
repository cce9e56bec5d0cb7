/** A service that records the calls of the handler, with a manual clock. */
import { createRequestAuthorizer } from "../../../lib/auth/authorizer.ts";
import { anonymousPrincipal, type Principal } from "../../../lib/auth/principal.ts";
import type { LogRecord } from "../../../lib/environment.ts";
import { ServiceError } from "../../../lib/errors.ts";
import { createHandler, type Handler, type HandlerOptions } from "../../../lib/http/handler.ts";
import type { Json, JsonObject } from "../../../lib/json.ts";
import type { Frame, Run, RunStream, RunWait } from "../../../lib/runs/mod.ts";
import { createRequestResources } from "../../../lib/service/authorized-resources.ts";
import { OPERATIONS } from "../../../lib/service/operations.ts";
import type { InternalResources } from "../../../lib/service/resources.ts";
import {
  type Metrics,
  type Readiness,
  type ServiceInternals,
  type ServiceOptions,
  withInternals,
} from "../../../lib/service.ts";
import type { Caller } from "../../../lib/storage/identity.ts";
import type { Scope } from "../../../lib/storage/mod.ts";
import { NO_FILTER } from "../../../lib/storage/visibility.ts";
import { createReader } from "../../../lib/streams/log.ts";
import { assertCode } from "../../support/error-codes.ts";
import { createIdleGuards } from "../../support/guards.ts";

export const THREAD = "11111111-1111-4111-8111-111111111111";
export const RUN = "22222222-2222-4222-8222-222222222222";
export const ASSISTANT = "33333333-3333-4333-8333-333333333333";

/** A run stream whose frames a test writes one by one. It counts readers that leave. */
export class RunEvents {
  readonly frames: Frame[] = [];
  leaveCount = 0;
  stopped = false;
  failure: Error | undefined;
  #wake: (() => void) | undefined;

  add(...frames: readonly Frame[]): void {
    this.frames.push(...frames);
    this.#wake?.();
  }

  /** Ends the stream without an end frame. */
  stop(): void {
    this.stopped = true;
    this.#wake?.();
  }

  fail(error: Error): void {
    this.failure = error;
    this.#wake?.();
  }

  stream(run: Run): RunStream {
    const { frames } = this;
    const isClosed = (): boolean => this.leaveCount > 0 || this.stopped;
    return {
      run,
      frames: createReader(
        async () => {
          while (frames.length === 0 && !isClosed()) {
            if (this.failure) throw this.failure;
            await new Promise<void>((resolve) => {
              this.#wake = resolve;
            });
          }
          return isClosed() ? [] : frames.splice(0);
        },
        () => {
          this.leaveCount++;
          this.#wake?.();
        },
      ),
    };
  }
}

export interface Fake {
  readonly handler: Handler;
  /** Sends a request; an object as body is sent as JSON. */
  readonly send: (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<Response>;
  /** `[resource.method, ...arguments]` of each call. */
  readonly calls: unknown[][];
  readonly log: LogRecord[];
  readonly runLog: RunEvents;
  readonly result: PromiseWithResolvers<Json>;
  /** The number of readers of a result that have left. */
  readonly leaves: () => number;
  /** What the origins of new runs say for their traces. The calls omit it. */
  readonly origins: JsonObject[];
  /** The number of pending timers. */
  readonly timers: () => number;
  /** Fires every pending timer of at most `ms`. */
  readonly elapse: (ms: number) => void;
}

export const METRICS: Metrics = {
  traces: { spans: 12, dropped: 1, bytes: 2048, redact_failed: 3, sink_failed: 4 },
  histograms: [
    {
      ...{ name: "tool_duration_seconds", help: "Time of executions of tools" },
      samples: [
        {
          labels: { tool: 'say "hi"\n', outcome: "ok" },
          buckets: [
            { le: 0.005, count: 1 },
            { le: 1, count: 3 },
          ],
          ...{ sum: 4.5, count: 4 },
        },
      ],
    },
    { name: "commit_seconds", help: "Time of saves of attempts", samples: [] },
  ],
  uptime_seconds: 12.5,
  draining: false,
  standby: true,
  runs: { pending: 3, scheduled: 2, running: 1 },
  oldest_pending_seconds: 0.75,
  worker: {
    executing: 1,
    claims: 9,
    started: 8,
    retried: 2,
    leases_lost: 1,
    ended: { success: 4, error: 1, timeout: 0, interrupted: 1 },
    frames_shown: 70,
    frames_stored: 60,
  },
  webhooks: { sending: 1, attempts: 5, delivered: 3, retried: 1, failed: 1 },
  crons: {
    fired: 6,
    skipped: { thread_busy: 1, thread_full: 0, deployment_full: 0, missed: 2, superseded: 3, refused: 1 },
  },
};

export interface FakeOptions extends HandlerOptions {
  readonly cors?: readonly string[];
  readonly http?: ServiceOptions["http"];
  readonly healthy?: boolean;
  readonly ready?: Readiness;
  /** The principal of requests. Default: anonymous. */
  readonly principal?: Principal;
  /** Other operations of `service.access`. */
  readonly access?: Partial<ServiceInternals["access"]>;
  /** The `kwargs` of its runs. */
  readonly run?: JsonObject;
  /** Results and errors of calls by `resource.method`. All other calls return `{}`. */
  readonly answers?: Readonly<Record<string, (...args: unknown[]) => unknown>>;
}

/** Returns an argument without the member `trace` of an origin, which is added to `origins`. */
function takeTrace(arg: unknown, origins: JsonObject[]): unknown {
  if (typeof arg !== "object" || arg === null || !("trace" in arg)) return arg;
  const { trace, ...rest } = arg;
  origins.push(trace as JsonObject);
  return rest;
}

export function fake(options: FakeOptions = {}): Fake {
  const calls: unknown[][] = [];
  const origins: JsonObject[] = [];
  const log: LogRecord[] = [];
  const runLog = new RunEvents();
  const result = Promise.withResolvers<Json>();
  const timers = new Map<object, { ms: number; fn: () => void }>();
  let leaves = 0;
  let ids = 0;
  const run = (thread_id: unknown): Run =>
    ({
      ...{ run_id: RUN, thread_id: thread_id ?? THREAD, assistant_id: ASSISTANT, status: "pending" },
      ...(options.run ? { metadata: {}, kwargs: options.run } : {}),
    }) as Run;
  const wait = (thread_id: unknown): RunWait => ({
    run: run(thread_id),
    result: result.promise,
    leave: () => leaves++,
  });
  const defaultAnswers: Record<string, (...args: unknown[]) => unknown> = {
    "runs.create": run,
    "runs.stream": (thread_id) => runLog.stream(run(thread_id)),
    "runs.joinStream": (thread_id) => runLog.stream(run(thread_id)),
    "runs.wait": wait,
    "runs.join": wait,
    "runs.list": (thread_id) => [run(thread_id)],
    "runs.createBatch": (requests) => (requests as unknown[]).map(() => run(null)),
    "assistants.get": () => ({ assistant_id: ASSISTANT, graph_id: "g", name: "one", version: 3, metadata: {} }),
    "assistants.search": () => ({ items: [{ assistant_id: ASSISTANT, name: "one", version: 3 }], total: 7, next: 1 }),
    "assistants.count": () => 7,
    "assistants.versions": () => [],
    "threads.search": () => ({ items: [{ thread_id: THREAD }], total: 1, next: null }),
    "threads.count": () => 1,
    "threads.history": () => [],
    "traces.stream": () => runLog.stream(run(THREAD)).frames,
    "threads.stream": () => runLog.stream(run(THREAD)).frames,
    ...options.answers,
  };
  /** Returns the threads of a search one by one. */
  const searchEach = async (
    query: unknown,
    { begin, add }: { begin(page: unknown): void; add(read: () => unknown): Promise<void> },
  ): Promise<void> => {
    calls.push(["threads.search", query]);
    const { items, ...page } = (defaultAnswers["threads.search"] as (query: unknown) => { items: readonly unknown[] })(
      query,
    );
    begin(page);
    for (const item of items) await add(() => item);
  };
  const historyEach = async (
    thread_id: unknown,
    query: unknown,
    add: (read: () => unknown) => Promise<void>,
  ): Promise<void> => {
    calls.push(["threads.history", thread_id, query]);
    await add(async () => await defaultAnswers["threads.history"]?.(thread_id, query));
  };
  const noun = (name: string): unknown =>
    new Proxy(
      {},
      {
        get:
          (_target, method) =>
          async (...args: unknown[]) => {
            const key = `${name}.${String(method)}`;
            if (key === "threads.searchEach") return await searchEach(...(args as Parameters<typeof searchEach>));
            if (key === "threads.historyEach") return await historyEach(...(args as Parameters<typeof historyEach>));
            // Calls without a scope are recorded without it.
            const unscoped = args.at(-1) === NO_FILTER ? args.slice(0, -1) : args;
            calls.push([key, ...unscoped.map((arg) => takeTrace(arg, origins))]);
            return defaultAnswers[key]?.(...args) ?? {};
          },
      },
    );
  /** Creates an internal resource, whose calls take the scope first and their limits last. */
  const directory = (name: string): unknown => {
    const calls = noun(name) as Record<string, (...args: unknown[]) => unknown>;
    const get =
      (_target: object, method: string) =>
      ({ filter }: Scope, ...args: unknown[]): unknown =>
        calls[method]?.(...args, ...(filter ? [{ filter }] : []));
    return new Proxy({}, { get });
  };
  const access = {
    principal: async () => options.principal ?? anonymousPrincipal,
    authorize: async (_visitor: unknown, _event: unknown, value: object) => ({ value, visibility: NO_FILTER }),
    caller: async () => ({}) as Caller,
    workspaces: async () => [],
    ...options.access,
  } as ServiceInternals["access"];
  const environment = {
    now: () => 0,
    timer(ms: number, fn: () => void) {
      const key = {};
      timers.set(key, { ms, fn });
      return () => timers.delete(key);
    },
    defer: (fn: () => void) => void setImmediate(fn),
    random: () => 0,
    uuid: () => `id-${++ids}`,
    log: (record: LogRecord) => log.push(record),
  };
  const names = Object.keys(OPERATIONS);
  const protocol = {
    command: (directory("protocol") as { command: unknown }).command,
    subscribe({ filter }: Scope, ...args: unknown[]) {
      calls.push(["protocol.subscribe", ...args]);
      const read = defaultAnswers["protocol.subscribe"] ?? (() => runLog.stream(run(THREAD)).frames);
      return read(...args, filter ? { filter } : NO_FILTER);
    },
    recordAll: async () => {},
    readStored: (_scope: Scope, ...args: unknown[]) =>
      defaultAnswers["protocol.readStored"]?.(...args) ?? (async function* () {})(),
    count: async (_scope: Scope, ...args: unknown[]) =>
      defaultAnswers["protocol.count"]?.(...args) ?? { counts: [0], last: 0 },
  };
  const directories = {
    ...Object.fromEntries(names.map((name) => [name, directory(name)])),
    protocol,
  } as unknown as InternalResources;
  const bind: ServiceInternals["authorizeRequest"] = (caller) => {
    const guards = createIdleGuards(environment);
    const binding = createRequestAuthorizer({ access, scope: { deployment: "default" }, environment, guards }, caller);
    return { guardResponse: binding.guardResponse, resources: createRequestResources(directories, binding) };
  };
  const service = {
    feedback: noun("feedback"),
    usage: noun("usage"),
    calls: noun("calls"),
    ...{ access, internalResources: directories, authorizeRequest: bind },
    options: {
      http: options.http ?? (options.cors ? { cors: { allow_origins: options.cors } } : {}),
    } as ServiceOptions,
    environment,
    info: () => ({ version: "9.9.9", api_version: "0.0.0", flags: { assistants: true } }),
    healthy: () => options.healthy ?? true,
    services: () => ({ worker: { ok: options.healthy ?? true }, database: { ok: true } }),
    ready: async () => options.ready ?? { ok: true },
    metrics: async () => METRICS,
    report: async () => ({}),
    stop: async () => {},
  } as unknown as ServiceInternals;
  const { prefix, hosts, open_metrics, langsmith_studio, docs, studio, app, acts_for } = options;
  const handler = createHandler(withInternals(service, service), {
    prefix,
    hosts,
    open_metrics,
    langsmith_studio,
    docs,
    studio,
    app,
    acts_for,
  } as HandlerOptions);
  return {
    handler,
    calls,
    log,
    origins,
    runLog,
    result,
    leaves: () => leaves,
    timers: () => timers.size,
    elapse(ms) {
      for (const [key, timer] of [...timers]) {
        // A timer that fires may cancel another one.
        if (timer.ms > ms || !timers.delete(key)) continue;
        timer.fn();
      }
    },
    async send(method, path, body, headers) {
      const text = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
      const request = new Request(`http://127.0.0.1:2024${path}`, { method, body: text as string, headers });
      const response = await handler(request);
      const { status, headers: answered } = response;
      if (status >= 400 && method !== "HEAD" && answered.get("content-type") === "application/json")
        assertCode(await response.clone().text());
      return response;
    },
  };
}

export const notFound = (): never => {
  throw new ServiceError("not_found", "Thread not found");
};
