/** The service: everything behind the HTTP handler, as one object. service/resources.ts connects its parts. */
import type { Assistants } from "./assistants/mod.ts";
import { type Accounts, createAccounts } from "./auth/accounts.ts";
import { createAuthorizer, createRequestAuthorizer, type RequestAuthorizer } from "./auth/authorizer.ts";
import { type AuthUser, type CustomHandlers, requireUser } from "./auth/custom.ts";
import { KEY_PREFIX } from "./auth/keys.ts";
import { type Access, createAccess, type Principal } from "./auth/principal.ts";
import { type Environment, keepAliveUntil, withTimeout } from "./environment.ts";
import type { Graphs, NamedGraphs, Untyped } from "./executor/agent-types.ts";
import type { Feedback, FeedbackTokens } from "./feedback/mod.ts";
import { DEFAULTS, type ServiceOptions, validateOptions } from "./options.ts";
import { type AgentResources, withAgentCalls } from "./service/agent-resources.ts";
import {
  createAuthorizedResources,
  createInFlightCalls,
  createRequestResources,
  createServiceResources,
  type InFlightCalls,
  STOPPING,
  trackInternalResources,
} from "./service/authorized-resources.ts";
import type { Metrics, ServerReport, ServiceInfo } from "./service/report.ts";
import {
  createServiceParts,
  type InternalResources,
  type RequestResources,
  type ServiceParts,
} from "./service/resources.ts";
import {
  createWriteProbe,
  type OpenStorage,
  openStorage,
  type Readiness,
  registerDeployment,
  startRetentionJobs,
} from "./service/storage-lifecycle.ts";
import type { DurableCalls, DurableCallTokens } from "./steps/calls.ts";
import type { EventBus } from "./storage/event-bus.ts";
import {
  type Caller,
  type DeploymentRow,
  type IdentityStore,
  requireOrganizationPermission,
} from "./storage/identity.ts";
import type { Traces } from "./traces/traces.ts";
import type { Usage } from "./usage/mod.ts";
import { withDefaults } from "./validation.ts";
import type { Webhooks } from "./webhooks/sender.ts";

export type { ServiceOptions } from "./options.ts";
export type { Metrics, ServerReport, ServiceInfo } from "./service/report.ts";
export type { Readiness } from "./service/storage-lifecycle.ts";

/** A running service: its resources, its state, and `stop`. */
export interface Service<Types extends Graphs = Record<string, Untyped>> extends AgentResources<Types> {
  readonly assistants: Assistants;
  readonly feedback: Feedback & FeedbackTokens;
  readonly usage: Usage;
  /** Calls of durable functions: their events and steps. */
  readonly calls: DurableCalls & DurableCallTokens;
  /** The traces of runs: what each run did, span by span. */
  readonly traces: Traces;
  /** Webhook deliveries: their results, and redelivery. */
  readonly webhooks: Webhooks;
  /** Organizations, workspaces, projects, users and API keys. */
  readonly accounts: Accounts;
  /** The row of this deployment, with the project to which its runs are billed. */
  readonly deployment: DeploymentRow;
  /**
   * The calls for one user. Each runs the handler of `auth.custom.on` first, as a request of the user does, and is limited to the
   * rows that its filter permits. Without `auth.custom` the user has no effect: nothing is restricted. Throws a TypeError
   * if the user has no `identity` or no list of `permissions`.
   */
  as(caller: { readonly user: AuthUser }): AgentResources<Types>;
  /**
   * Authenticates a request and returns its caller, as `feedback` and `usage` need it. With `auth.mode` `none` every caller is the
   * owner.
   */
  caller(request: Request): Promise<Caller>;
  info(): Promise<ServiceInfo>;
  /** False if the worker is stuck. True on a standby, and during shutdown. */
  healthy(): boolean;
  /** The known state of each part, without a probe. An outage of the database leaves the service healthy: it waits. */
  services(): Readonly<Record<"worker" | "database", { readonly ok: boolean }>>;
  /**
   * Checks whether the service can take requests: not during shutdown, if the worker is stuck, or if a write fails. The result is
   * cached for a second.
   */
  ready(): Promise<Readiness>;
  metrics(): Promise<Metrics>;
  /** Versions, health, work and configuration. Errors: forbidden: it needs `organization:manage`. */
  report(by: Caller): Promise<ServerReport>;
  /**
   * Takes no more runs (calls that would create one reject with `unavailable`), waits `grace_ms` (default 10,000) for those that
   * execute, returns the rest to the queue, and closes the storage. Streams of runs that continue elsewhere stop without an `end`.
   */
  stop(grace_ms?: number): Promise<void>;
}

/** The members of a service for request handlers and tests, beside its public methods. */
export interface ServiceInternals extends Service {
  /** Authentication and authorization. */
  readonly access: Access;
  /** The internal resources, for tests. */
  readonly internalResources: InternalResources;
  /** Returns the authorized resources of the caller of a request, and the guard of its response. */
  authorizeRequest(caller: () => Principal | Promise<Principal>): Pick<RequestAuthorizer, "guardResponse"> & {
    readonly resources: RequestResources;
  };
  /** The options as given. */
  readonly options: ServiceOptions;
  readonly environment: Environment;
  /** The event bus. Its events carry no data. */
  readonly bus: Pick<EventBus, "subscribe">;
}

/** A registered symbol: it stays when a host spreads the service, and other bundled copies of this module know it. */
const INTERNALS: unique symbol = Symbol.for("greenroom.internals") as never;

/** A service with its internals. */
export function withInternals(service: Service, internals: Omit<ServiceInternals, keyof Service>): Service {
  return { ...service, ...{ [INTERNALS]: internals } };
}

/**
 * Returns a service with its internals, as a new object. Throws a TypeError for anything that `createService` has not returned.
 * The package does not export it.
 */
export function serviceInternals(service: Service): ServiceInternals {
  const internals = (service as { readonly [INTERNALS]?: Omit<ServiceInternals, keyof Service> })[INTERNALS];
  if (!internals) throw new TypeError("Not a service. Pass what createService returns.");
  return { ...service, ...internals };
}

/** The version of this release. A test compares it with package.json. */
export const VERSION = "0.1.0";

/** The time limit for open calls at shutdown. */
const SHUTDOWN_CALLS_TIMEOUT_MS = 1_000;

/**
 * Migrates the storage, creates the service and starts its loops. Throws a ConfigError with every problem of the options, or if
 * the database cannot be used; nothing runs then.
 * @example
 * ```ts
 * import { createService, fromFunctions } from "greenroom";
 * import { nodeSqlite } from "greenroom/node-sqlite";
 *
 * const service = await createService({
 *   storage: nodeSqlite("agents.db"),
 *   executor: fromFunctions({ echo: ({ messages }) => `Message ${messages.length}` }),
 * });
 * const { result } = await service.runs.wait(null, { assistant_id: "echo", input: { messages: [] } });
 * console.log(await result);
 * await service.stop();
 * ```
 */
export async function createService<Types extends Graphs>(
  options: ServiceOptions<Types>,
): Promise<Service<NamedGraphs<Types>>> {
  const cleanups: (() => void)[] = [];
  try {
    const webhooks = validateOptions(options);
    const opened = await openStorage(options, cleanups);
    const { storage, bus, environment } = opened;
    const identity = options.identity ?? storage.identity;
    const started = environment.now();
    const deployment = await registerDeployment(identity, options, environment);
    const scope = { deployment: options.deployment?.name ?? "default" };
    const customHandlers = await wrapCustomHandlers(options, environment);
    const calls = createInFlightCalls(environment);
    const parts = await createServiceParts({
      options,
      webhooks,
      storage,
      bus,
      identity,
      scope,
      environment,
      deployment,
      user_agent: `greenroom/${VERSION} (webhook)`,
      inFlightCalls: calls.promises,
    });
    bus.connect();
    opened.health.onLost(
      (message) => parts.hub.lose(message),
      () => parts.hub.recover(),
    );
    const jobs = startRetentionJobs({ parts, storage, scope, environment, options });
    const stop = createStop(opened, parts, calls, async () => {
      await Promise.all(jobs.map((job) => job.stop()));
    });
    const { accounts, access } = createAuth(options, { identity, environment, deployment, calls, customHandlers });
    const reports = createReports(options, { opened, parts, calls, started });
    const internalResources = trackInternalResources(parts, calls);
    const resources = withAgentCalls(createServiceResources(internalResources, parts.usage, scope, calls));
    const { mode = "none", custom } = options.auth ?? {};
    // In mode `none` every caller may do everything.
    const auth = { access: custom || mode !== "none" ? access : null, scope, environment, guards: parts.guards };
    const service: Service = {
      ...resources,
      as(actor) {
        const user = requireUser(actor);
        if (!custom) return resources;
        // Neither the host nor a handler changes later who the caller is.
        const caller = structuredClone(user);
        const authorizer = createAuthorizer(auth, () => access.user(structuredClone(caller)));
        return withAgentCalls(createAuthorizedResources(internalResources, authorizer));
      },
      ...reports,
      accounts,
      caller: (request) => access.caller(request),
      deployment,
      stop,
    };
    const authorizeRequest: ServiceInternals["authorizeRequest"] = (caller) => {
      const authorizer = createRequestAuthorizer(auth, caller);
      const { guardResponse } = authorizer;
      return { guardResponse, resources: createRequestResources(internalResources, authorizer) };
    };
    const internals = { access, internalResources, authorizeRequest, options, environment, bus };
    // Its calls are the same for all agents: only the type checker knows what each takes and gives.
    return withInternals(service, internals) as Service as Service<NamedGraphs<Types>>;
  } catch (error) {
    for (const cleanup of cleanups) cleanup();
    throw error;
  }
}

/**
 * Returns calls of the host's handlers in `auth.custom`, with their time limit; null without handlers. Greenroom's own module for
 * them is imported only if there are any.
 */
async function wrapCustomHandlers(
  { auth = {} }: ServiceOptions,
  environment: Environment,
): Promise<CustomHandlers | null> {
  const { custom, merge_filter_on_create = false } = auth;
  if (!custom) return null;
  const { createCustomHandlers: createGuard } = await import("./auth/custom-handlers.ts");
  return createGuard(custom, { environment, merge_filter_on_create });
}

interface AuthParts {
  readonly identity: IdentityStore;
  readonly environment: Environment;
  readonly deployment: DeploymentRow;
  readonly calls: InFlightCalls;
  readonly customHandlers: CustomHandlers | null;
}

/** Creates the access of callers and the operations on accounts. The default mode is `custom` with handlers, else `none`. */
function createAuth(
  { auth = {} }: ServiceOptions,
  { identity, environment, deployment, calls, customHandlers }: AuthParts,
): Pick<ServiceInternals, "accounts" | "access"> {
  const { key_prefix = KEY_PREFIX } = auth;
  const access = createAccess({
    identity,
    environment,
    deployment,
    key_prefix,
    mode: auth.mode ?? (customHandlers ? "custom" : "none"),
    customHandlers,
    shared_agents: auth.shared_agents ?? "read",
  });
  return { accounts: createAccounts({ identity, environment, key_prefix }), access: calls.track<Access>(access) };
}

interface ReportParts {
  readonly opened: OpenStorage;
  readonly parts: ServiceParts;
  readonly calls: InFlightCalls;
  /** When the service was started. */
  readonly started: number;
}

/** Creates the functions for health, metrics and the server report. */
function createReports(
  options: ServiceOptions,
  { opened: { storage, environment, health }, parts, calls, started }: ReportParts,
): Pick<Service, "info" | "healthy" | "services" | "ready" | "metrics" | "report"> {
  const { worker, webhooks, crons } = parts;
  const { executor, worker: workerOptions, deployment } = options;
  const scope = { deployment: deployment?.name ?? "default" };
  const { concurrency } = withDefaults(DEFAULTS.worker, workerOptions);
  const probeWrite = createWriteProbe(storage, environment);
  const healthy = (): boolean => !calls.closed && worker.isHealthy();
  const reports = {
    info: async () => ({
      version: VERSION,
      api_version: "0.5.36",
      ...(await executor.versions?.()),
      flags: {
        assistants: true,
        crons: true,
        langsmith: false,
        langsmith_tracing_replicas: false,
        stream_namespaces: true,
        event_streaming: true,
      },
    }),
    healthy,
    services: () => ({ worker: { ok: healthy() }, database: { ok: !calls.closed && health.problem() === null } }),
    /**
     * Returns whether the service can do its work, with the first reason if not: it is stopping, cannot execute runs, has a
     * storage problem, or a write, which it tries, fails. Does not throw.
     */
    async ready(): Promise<Readiness> {
      if (calls.stopping) return { ok: false, detail: STOPPING };
      if (!worker.isHealthy()) return { ok: false, detail: "The worker can execute no run any more" };
      const problem = health.problem();
      if (problem !== null) return { ok: false, detail: problem };
      return await probeWrite();
    },
    /**
     * Returns the counters of this process and the runs of the deployment, which it counts now. May take the worker lock, with
     * all that follows from that. Rejects if the storage fails.
     */
    async metrics(): Promise<Metrics> {
      const now = environment.now();
      const { oldest_due, ...runs } = await storage.countActiveRuns(scope, now);
      return {
        uptime_seconds: (now - started) / 1000,
        draining: calls.stopping,
        standby: concurrency > 0 && !calls.stopping && !(await storage.becomeWorker(now)),
        runs,
        oldest_pending_seconds: oldest_due === null ? 0 : Math.max(0, now - oldest_due) / 1000,
        worker: worker.counters(),
        webhooks: webhooks.counters(),
        crons: crons.counters(),
        traces: { ...parts.traceCounters },
        histograms: parts.readHistograms(),
      };
    },
  };
  return {
    ...reports,
    ...calls.track<Pick<Service, "report">>({
      /**
       * Returns a report of the server and its settings without secrets. Tries a write, as `ready` does. Throws
       * `permission_missing` without `organization:manage`.
       */
      async report(by) {
        requireOrganizationPermission(by, "organization:manage");
        const [info, ready, metrics] = await Promise.all([reports.info(), reports.ready(), reports.metrics()]);
        const input = { info, ready, metrics, healthy: healthy(), database_ok: reports.services().database.ok };
        const { createServerReport: serverReport } = await import("./service/report.ts");
        return serverReport(options, storage, environment, input);
      },
    }),
  };
}

/**
 * Returns `stop`, which stops once and returns the same promise for later calls: it stops claiming, lets runs, webhooks and
 * calls end within their times, ends streams, and closes the storage. The process stays alive until then.
 */
function createStop(
  opened: OpenStorage,
  { worker, crons, webhooks, hub, events, flushTraces }: ServiceParts,
  calls: InFlightCalls,
  stopJobs: () => Promise<void>,
): Service["stop"] {
  let stopped: Promise<void> | undefined;

  /**
   * Stops everything in order: claims, retention, crons and runs first, then webhooks, streams and calls in progress, each for
   * a limited time, and the storage last. From the start the service counts as stopping.
   */
  async function stop(grace_ms: number): Promise<void> {
    calls.stopping = true;
    const jobs = stopJobs();
    await Promise.all([crons.stop(), worker.stop(grace_ms)]);
    await webhooks.stop();
    await withTimeout(opened.environment, SHUTDOWN_CALLS_TIMEOUT_MS, flushTraces(), undefined);
    hub.close();
    events.close();
    opened.bus.close();
    const lastCalls = Promise.allSettled(calls.promises);
    await Promise.all([jobs, withTimeout(opened.environment, SHUTDOWN_CALLS_TIMEOUT_MS, lastCalls, [])]);
    calls.closed = true;
    opened.stop();
    await opened.storage.close();
  }

  return (grace_ms = 10_000) => {
    if (!stopped) {
      stopped = stop(grace_ms);
      keepAliveUntil(opened.environment.keepAlive, stopped);
    }
    return stopped;
  };
}
