/** The service: wires nouns, worker and storage together. */
import { type Assistants, createAssistants } from "./assistants/mod.ts";
import { type Accounts, createAccounts } from "./auth/accounts.ts";
import { KEY_PREFIX } from "./auth/api-keys.ts";
import { createGuard } from "./auth/custom.ts";
import { type Access, createAccess } from "./auth/principal.ts";
import { type CronCounters, type CronLoop, type Crons, createCrons } from "./crons/mod.ts";
import { type Clock, startClock } from "./engine/clock.ts";
import { watchOutage } from "./engine/health.ts";
import { startSweeper } from "./engine/retention.ts";
import { createRunFinishedHook } from "./engine/run-finished.ts";
import { createWorker, type WorkerCounters } from "./engine/worker.ts";
import { type Environment, guardedLog, systemEnvironment } from "./environment.ts";
import { ConfigError, isOutage, ServiceError, storageLost } from "./errors.ts";
import { createFeedback, type Feedback } from "./feedback/mod.ts";
import { DEFAULTS, type ServiceOptions, settled, validateOptions } from "./options.ts";
import { createRuns, type RunDirectory, type Runs } from "./runs/mod.ts";
import { createNotifications } from "./runs/notifications.ts";
import type { DeploymentRow, IdentityStore } from "./storage/identity.ts";
import type { StoppedRun, TerminalStatus } from "./storage/mod.ts";
import { signalling } from "./storage/signals.ts";
import { createStore, type Store } from "./store/mod.ts";
import { createStreamHub } from "./streams/hub.ts";
import { createThreads, storedTtl, type Threads } from "./threads/mod.ts";
import { createUsage, type Usage } from "./usage/mod.ts";
import { createDeliveries, type Deliveries, type DeliveryCounters } from "./webhooks/deliver.ts";
import { exposedHeaders } from "./webhooks/options.ts";
import { systemTransport } from "./webhooks/send.ts";

export type { ServiceOptions } from "./options.ts";

/** What `GET /info` tells. */
export interface ServiceInfo {
  readonly version: string;
  /** The level of the agent server API whose options this service knows. */
  readonly api_version: string;
  /** The LangGraph.js that the graphs were built with; absent where there is none, or where it cannot be told. */
  readonly langgraph_js_version?: string;
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
  readonly webhooks: DeliveryCounters;
  readonly crons: CronCounters;
}

export interface Service {
  readonly assistants: Assistants;
  readonly threads: Threads;
  readonly runs: Runs;
  readonly crons: Crons;
  readonly store: Store;
  readonly feedback: Feedback;
  readonly usage: Usage;
  /** Deliveries of webhooks: what became of them, and another try. */
  readonly webhooks: Deliveries;
  /** Organizations, workspaces, projects, users and API keys. */
  readonly accounts: Accounts;
  /** Who may call what; for request handlers. */
  readonly access: Access;
  /** Where this deployment's runs are billed. */
  readonly deployment: DeploymentRow;
  /** The options as given. */
  readonly options: ServiceOptions;
  readonly environment: Environment;
  info(): Promise<ServiceInfo>;
  /** False when the worker can execute nothing any more. True on a standby, and while it stops. */
  healthy(): boolean;
  /** What is known of each part without asking it. A database that does not answer leaves the service healthy: it waits. */
  services(): Readonly<Record<"worker" | "database", { readonly ok: boolean }>>;
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

const SWEEP_MS = 5_000;
const MINUTE_MS = 60_000;
const SWEEP_ROWS = 500;
const EXPIRED_THREADS = 100;
const PROBE_EVERY_MS = 1_000;
const PROBE_WITHIN_MS = 5_000;
/** How long calls that have begun may take when the service stops. */
const LAST_CALLS_MS = 1_000;
const STOPPING = "The server is stopping";
/** Calls that create runs. */
const CREATING = new Set(["create", "stream", "wait", "createBatch"]);

/**
 * Wires the service and starts its loops. Resolves once storage is migrated. Throws a ConfigError with every problem found in
 * the options, or when the database cannot be used.
 */
export async function createService(options: ServiceOptions): Promise<Service> {
  const begun: (() => void)[] = [];
  try {
    return await wired(options, begun);
  } catch (error) {
    for (const stop of begun) stop();
    throw error;
  }
}

/** `begun` gets what is to be stopped where it comes to no service. */
async function wired(options: ServiceOptions, begun: (() => void)[]): Promise<Service> {
  const webhookSettings = validateOptions(options);
  const { executor } = options;
  const { now } = options.environment ?? {};
  const surroundings: Environment = {
    ...systemEnvironment(),
    ...(now ? { monotonic: now } : {}),
    ...options.environment,
  };
  const storage = options.storage.signals ? signalling(options.storage, surroundings.uuid()) : options.storage;
  const plain: Environment = { ...surroundings, log: guardedLog((record) => surroundings.log(record)) };
  let onBack = (): void => {};
  const outage = watchOutage({
    environment: plain,
    probe: () => storage.probe(plain.now()),
    onOver: () => onBack(),
  });
  begun.push(outage.stop);
  // Its own, until the database has told another.
  let clock: Clock = { now: plain.now, stop() {} };
  const environment: Environment = { ...plain, now: storage.now ? () => clock.now() : plain.now, log: outage.log };
  const scope = { deployment: options.deployment?.name ?? "default" };
  const retention = settled(DEFAULTS.retention, options.retention);
  const feedbackTerms = settled(DEFAULTS.feedback, options.feedback);
  const usageTerms = settled(DEFAULTS.usage, options.usage);
  await storage.migrate();
  if (storage.now) {
    const told = (): Promise<number> => (storage.now as () => Promise<number>)();
    clock = await startClock({ environment: { ...plain, log: outage.log }, now: told });
    begun.push(clock.stop);
  }
  const started = environment.now();
  const identity = options.identity ?? storage.identity;
  const deployment = await placed(identity, options, environment);
  const { workspace_id, project_id } = deployment;
  const trace = { workspace_id, project_id, counted: usageTerms.enabled };
  const key_prefix = options.auth?.key_prefix ?? KEY_PREFIX;
  const accounts = createAccounts({ identity, environment, key_prefix });
  const { custom, merge_filter_on_create = false } = options.auth ?? {};
  const access = createAccess({
    identity,
    environment,
    deployment,
    key_prefix,
    mode: options.auth?.mode ?? (custom ? "custom" : "none"),
    guard: custom ? createGuard(custom, { environment, merge_filter_on_create }) : null,
    shared_agents: options.auth?.shared_agents ?? "read",
  });
  const baseUrl = (): string | undefined =>
    typeof options.public_base_url === "function" ? options.public_base_url() : options.public_base_url;
  const feedback = createFeedback({ storage, identity, scope, environment, base_url: baseUrl, ...feedbackTerms });
  const usage = createUsage({ storage, identity, environment, ...usageTerms });
  const exposed = exposedHeaders(options.webhooks ?? {}, webhookSettings);
  if (exposed.length > 0) {
    const message = `webhooks.headers: whoever starts a run can have ${exposed.join(", ")} sent to any public host; name the hosts in webhooks.url.allowed_domains`;
    environment.log({ level: "warn", message });
  }
  const transport = webhookSettings.transport ?? (await systemTransport());
  const deliveries = createDeliveries({
    storage,
    scope,
    environment,
    settings: webhookSettings,
    transport,
    loopback: webhookSettings.loopback,
    user_agent: `greenroom/${VERSION} (webhook)`,
  });
  const told = createNotifications({
    environment,
    baseUrl,
    trace,
    token_life_ms: feedbackTerms.token_ttl_ms,
    webhooks: webhookSettings.policy,
    loopback: webhookSettings.loopback !== null,
    transport: transport !== null,
  });
  const events = createStreamHub(environment, { load: (run_id, after) => storage.readFrames(scope, run_id, after) });
  const assistants = createAssistants({ storage, scope, executor, environment });
  await assistants.ensureDefaults();
  const store = createStore({
    storage,
    scope,
    environment,
    ...(options.store?.index ? { index: options.store.index } : {}),
    ...(options.store?.ttl ? { ttl: options.store.ttl } : {}),
  });
  const calls = new Set<Promise<unknown>>();
  const onFinished = createRunFinishedHook(environment, options.onRunFinished, (call) => {
    calls.add(call);
    void call.then(() => calls.delete(call));
  });
  let runs: RunDirectory;
  const terms = settled(DEFAULTS.worker, options.worker);
  const worker = createWorker({
    storage,
    scope,
    executor,
    events,
    environment,
    ...terms,
    trace,
    store,
    feedbackUrls: told.feedbackUrls,
    onRunEnded: () => deliveries.wake(),
    onFinished,
    onLeft: (run, runEvents) => runs.watch(run, runEvents),
    onWaiting: () => storage.signals?.publish("work", scope.deployment),
    // Not sooner: what a dead worker was sending keeps its hosts busy until this process takes over from it.
    onRole: () => deliveries.wake(),
  });
  if (terms.concurrency === 0) deliveries.wake();
  const { default_ttl, strategy = "delete", sweep_interval_minutes = 5 } = options.checkpointer?.ttl ?? {};
  const ttl = default_ttl === undefined ? {} : { ttl: storedTtl({ ttl: default_ttl, strategy }) };
  const threads = createThreads({
    ...ttl,
    storage,
    scope,
    executor,
    environment,
    events,
    read: (run, after) => runs.read(run, after),
    caughtUp: worker.caughtUp,
    onDeleted: (run_ids) => runs.deleted(run_ids),
  });
  runs = createRuns({
    ...ttl,
    storage,
    scope,
    executor,
    environment,
    events,
    worker,
    assistants,
    threads,
    limits: settled(DEFAULTS.limits, options.limits),
    told,
    onTold: () => deliveries.wake(),
    onEnded: options.onRunFinished ? (run) => void ended(run) : () => {},
  });
  /** A run that ended without having started. */
  async function ended({ run_id, thread_id }: StoppedRun): Promise<void> {
    try {
      const row = await storage.getRun(scope, run_id);
      if (row && row.ended_at !== null) onFinished(row, { ...row, status: row.status as TerminalStatus });
    } catch (error) {
      environment.log({ level: "error", message: "onRunFinished was not called", run_id, thread_id, error });
    }
  }
  const crons: CronLoop = createCrons({
    storage,
    scope,
    environment,
    assistants,
    runs,
    ...settled(DEFAULTS.crons, options.crons),
    max_failures: options.crons?.max_failures ?? null,
  });

  onBack = () => {
    worker.wake();
    deliveries.wake();
  };

  /** Everything that others may have told this process about, or one thing. */
  function heard(of: { readonly run_id?: string; readonly thread_id?: string }): void {
    worker.look(of);
    runs.heard(of);
    if (of.run_id === undefined) events.announce(of.thread_id);
  }
  const deafen = storage.signals?.subscribe({
    heard(kind, id) {
      if (kind === "run") heard({ run_id: id });
      else if (kind === "thread") heard({ thread_id: id });
      else if (id !== scope.deployment) return;
      else if (kind === "work") worker.wake();
      else deliveries.wake(true);
    },
    missed() {
      heard({});
      worker.wake();
      deliveries.wake();
    },
  });

  let stopped: Promise<void> | null = null;
  let closed = false;
  const stopping = (): ServiceError => new ServiceError("unavailable", STOPPING);
  /** A noun whose calls are waited for when the service stops, and refused afterwards. Those that are `plain` ask no storage. */
  const served = <Noun extends object>(
    noun: Noun,
    { refused, plain }: { refused?: ReadonlySet<string>; plain?: keyof Noun } = {},
  ): Noun =>
    Object.fromEntries(
      Object.entries(noun).map(([name, call]) => [
        name,
        name === plain
          ? call
          : async (...args: unknown[]): Promise<unknown> => {
              if (closed || (stopped && refused?.has(name))) throw stopping();
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
      const cancel = environment.timer(ms, () => (late instanceof Error ? reject(late) : resolve(late)));
      work.then(resolve, reject).finally(cancel);
    });

  const sweepers = [
    startSweeper({
      environment,
      every_ms: SWEEP_MS,
      failure: "what is no longer kept was not swept",
      step() {
        const now = environment.now();
        return storage.sweep(scope, {
          temporary_before: now - retention.stateless_ms,
          frames_before: now - retention.frames_ms,
          keys_before: now - retention.idempotency_ms,
          tokens_before: now - retention.tokens_ms,
          deliveries_before: now - retention.deliveries_ms,
          limit: SWEEP_ROWS,
          now,
        });
      },
    }),
    startSweeper({
      environment,
      every_ms: SWEEP_MS,
      failure: "closed hours of usage were not summed",
      // All of them at once.
      step: async () => {
        await usage.seal();
        return 0;
      },
    }),
    startSweeper({
      environment,
      every_ms: (options.store?.ttl?.sweep_interval_minutes ?? 5) * MINUTE_MS,
      failure: "expired items of the store were not swept",
      step: () => storage.sweepItems(scope, environment.now(), SWEEP_ROWS),
    }),
    startSweeper({
      environment,
      every_ms: sweep_interval_minutes * MINUTE_MS,
      failure: "threads whose time is over were not pruned",
      step: () => threads.expire(EXPIRED_THREADS),
    }),
  ];

  let probed: { readonly answer: Promise<Readiness>; until: number; ok: boolean } | null = null;
  async function probe(): Promise<Readiness> {
    try {
      await within(PROBE_WITHIN_MS, storage.probe(environment.now()), new Error("The storage does not answer"));
      return { ok: true };
    } catch (error) {
      environment.log({ level: "error", message: "the storage takes no writes", error });
      const detail = isOutage(error) ? storageLost().message : (storage.failure?.() ?? "The storage takes no writes");
      return { ok: false, detail };
    }
  }

  return {
    assistants: served<Assistants>(assistants),
    threads: served<Threads>(threads),
    runs: served<Runs>(runs, { refused: CREATING }),
    crons: served<Crons>(crons),
    store: served<Store>(store),
    feedback: served<Feedback>(feedback, { plain: "tokenUrl" }),
    usage: served<Usage>(usage, { plain: "admit" }),
    webhooks: deliveries,
    accounts,
    access: served<Access>(access),
    deployment,
    options,
    environment,
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
      },
    }),
    healthy: () => !closed && worker.healthy(),
    services: () => ({ worker: { ok: !closed && worker.healthy() }, database: { ok: !closed && !outage.on() } }),
    async ready() {
      if (stopped) return { ok: false, detail: STOPPING };
      if (!worker.healthy()) return { ok: false, detail: "The worker can execute no run any more" };
      if (outage.on()) return { ok: false, detail: storageLost().message };
      // A batch has failed since the last look.
      if (storage.failure?.() && probed?.ok) probed = null;
      if (!probed || environment.now() >= probed.until) {
        const check = { answer: probe(), until: Number.POSITIVE_INFINITY, ok: false };
        probed = check;
        void check.answer.then(({ ok }) => {
          check.ok = ok;
          check.until = environment.now() + PROBE_EVERY_MS;
        });
      }
      return await probed.answer;
    },
    async metrics() {
      const now = environment.now();
      const { oldest_due, ...runs } = await storage.activity(scope, now);
      return {
        uptime_seconds: (now - started) / 1000,
        draining: stopped !== null,
        standby: terms.concurrency > 0 && !stopped && !(await storage.becomeWorker(now)),
        runs,
        oldest_pending_seconds: oldest_due === null ? 0 : Math.max(0, now - oldest_due) / 1000,
        worker: worker.counters(),
        webhooks: deliveries.counters(),
        crons: crons.counters(),
      };
    },
    stop(grace_ms = 10_000) {
      stopped ??= (async () => {
        const swept = Promise.all(sweepers.map((sweeper) => sweeper.stop()));
        await Promise.all([crons.stop(), worker.stop(grace_ms)]);
        await deliveries.stop();
        deafen?.();
        events.close();
        await Promise.all([swept, within(LAST_CALLS_MS, Promise.allSettled(calls), [])]);
        closed = true;
        outage.stop();
        clock.stop();
        await storage.close();
      })();
      return stopped;
    },
  };
}

/** The deployment's row, in its project and workspace. Throws a ConfigError when they, or its owner, are not there. */
async function placed(
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
  const made = await identity.placeDeployment(
    {
      name,
      ...(project === undefined ? {} : { project }),
      ...(workspace === undefined ? {} : { workspace }),
      ...(user ? { owner_user_id: user.id } : {}),
      ...(shared === undefined ? {} : { shared }),
    },
    environment.now(),
  );
  if (made.kind !== "made") {
    throw new ConfigError([
      `deployment: there is no ${workspace === undefined ? "" : `workspace ${workspace} or `}project ${project ?? ""} with this id`,
    ]);
  }
  const { owner_user_id } = made.row;
  if (!user || owner_user_id === user.id) return made.row;
  if (owner_user_id !== null) {
    const message = "the agent was transferred: it is not that of auth.owner; see greenroom agents list";
    environment.log({ level: "warn", message, deployment: name, owner_user_id });
    return made.row;
  }
  // It was made when the deployment was nobody's.
  const change = { owner_user_id: user.id, ...(shared === undefined ? {} : { shared }) };
  return (await identity.updateDeployment(name, change)) ?? made.row;
}
