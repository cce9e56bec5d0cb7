/** Creates the nouns of a service and the worker that executes its runs, connects them, and tracks their open calls. */
import { bindAssistants } from "../assistants/bind.ts";
import { type AssistantDirectory, type Assistants, createAssistants } from "../assistants/mod.ts";
import { type Binding, type Directory, inScope } from "../auth/binding.ts";
import { bindCrons } from "../crons/bind.ts";
import { type CronLoop, createCronLoop } from "../crons/loop.ts";
import type { CronDirectory, Crons } from "../crons/mod.ts";
import { createRunFinishedHook } from "../engine/attempt-context.ts";
import { Slots } from "../engine/claims.ts";
import { createWorker, type Worker } from "../engine/worker.ts";
import type { Environment } from "../environment.ts";
import { ServiceError, StateUnreadable } from "../errors.ts";
import { bindFeedback } from "../feedback/bind.ts";
import { lazyFeedback } from "../feedback/lazy.ts";
import type { Feedback, FeedbackDirectory } from "../feedback/mod.ts";
import { DEFAULTS, type ServiceOptions } from "../options.ts";
import { createProtocol, type Protocol } from "../protocol/mod.ts";
import { createRuns, type RunDirectory } from "../runs/mod.ts";
import { createNotifications } from "../runs/request.ts";
import type { Bus } from "../storage/bus.ts";
import type { DeploymentRow, IdentityStore } from "../storage/identity.ts";
import type { Scope, StoppedRun, Storage, TerminalStatus } from "../storage/mod.ts";
import { bindStore } from "../store/bind.ts";
import { createStore, type Store } from "../store/mod.ts";
import { StreamHub } from "../streams/hub.ts";
import { createRunSubscriptions } from "../streams/run-subscription.ts";
import { createSights } from "../streams/sight.ts";
import { createThreadEvents, type ThreadEventLogs } from "../streams/thread-events.ts";
import { bindThreads } from "../threads/bind.ts";
import { createThreads, storedTtl, type ThreadDirectory, type Threads } from "../threads/mod.ts";
import { createStates } from "../threads/read.ts";
import { createUsage, type Usage } from "../usage/mod.ts";
import { withDefaults } from "../validation.ts";
import { bindWebhooks } from "../webhooks/bind.ts";
import { createDeliveries, type Deliveries, type Webhooks } from "../webhooks/deliver.ts";
import { exposedHeaders, type WebhookSettings } from "../webhooks/options.ts";
import { systemTransport } from "../webhooks/send.ts";

interface NounOptions {
  readonly options: ServiceOptions;
  readonly webhooks: WebhookSettings;
  readonly storage: Storage;
  readonly bus: Bus;
  readonly identity: IdentityStore;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly deployment: DeploymentRow;
  readonly user_agent: string;
  /** Calls that `stop` waits for. */
  readonly openCalls: Set<Promise<unknown>>;
}

/** What callers are bound to. */
export interface CallerNouns {
  readonly assistants: Assistants;
  readonly threads: Threads;
  readonly crons: Omit<Crons, "create">;
  readonly store: Store;
  readonly feedback: Feedback;
  readonly webhooks: Webhooks;
}

/** The same nouns for any scope, without authorization. */
export interface Directories {
  readonly assistants: AssistantDirectory;
  readonly threads: ThreadDirectory;
  readonly crons: CronDirectory;
  readonly store: Directory<Store>;
  readonly feedback: FeedbackDirectory;
  readonly webhooks: Directory<Webhooks>;
}

type Binders = {
  readonly [Name in keyof CallerNouns]: (directory: Directories[Name], binding: Binding) => CallerNouns[Name];
};
const BINDERS: Binders = {
  assistants: bindAssistants,
  threads: bindThreads,
  crons: bindCrons,
  store: bindStore,
  feedback: bindFeedback,
  webhooks: bindWebhooks,
};

/** The nouns as one caller may use them. Each is made when it is first used. */
export function bindNouns(directories: Directories, binding: Binding): CallerNouns {
  const names = Object.keys(BINDERS) as (keyof CallerNouns)[];
  return Object.defineProperties(
    {} as CallerNouns,
    Object.fromEntries(
      names.map(<Name extends keyof CallerNouns>(name: Name) => {
        let noun: CallerNouns[Name] | undefined;
        return [name, { enumerable: true, get: () => (noun ??= BINDERS[name](directories[name], binding)) }];
      }),
    ),
  );
}

export interface Nouns {
  readonly assistants: AssistantDirectory;
  readonly threads: ThreadDirectory;
  readonly runs: RunDirectory;
  readonly crons: CronLoop;
  readonly store: Directory<Store>;
  readonly feedback: FeedbackDirectory;
  readonly usage: Usage;
  readonly deliveries: Deliveries;
  readonly worker: Worker;
  readonly hub: StreamHub;
  readonly events: ThreadEventLogs;
  readonly protocol: Protocol;
}

export async function createNouns(given: NounOptions): Promise<Nouns> {
  const { options, webhooks, storage, bus, identity, scope, environment, deployment, user_agent, openCalls } = given;
  const { executor } = options;
  const sights = createSights({ storage, bus, environment });
  const shared = { storage, bus, scope, executor, environment, sights };
  const { workspace_id, project_id } = deployment;
  const usageSettings = withDefaults(DEFAULTS.usage, options.usage);
  const feedbackSettings = withDefaults(DEFAULTS.feedback, options.feedback);
  const workerSettings = withDefaults(DEFAULTS.worker, options.worker);
  const trace = { workspace_id, project_id, counted: usageSettings.enabled };
  const baseUrl = (): string | undefined =>
    typeof options.public_base_url === "function" ? options.public_base_url() : options.public_base_url;
  const feedback = lazyFeedback({ storage, identity, scope, environment, base_url: baseUrl, ...feedbackSettings });
  const usage = createUsage({ storage, identity, environment, ...usageSettings });
  const transport = webhooks.transport ?? (await systemTransport());
  const { loopback } = webhooks;
  const deliveries = createDeliveries({ ...shared, settings: webhooks, transport, loopback, user_agent });
  warnOfExposedHeaders(options, webhooks, environment);
  const notifications = createNotifications({
    environment,
    baseUrl,
    trace,
    token_life_ms: feedbackSettings.token_ttl_ms,
    webhooks: webhooks.policy,
    loopback: loopback !== null,
    transport: transport !== null,
  });
  const hub = new StreamHub(environment, { load: (run_id, after) => storage.readFrames(scope, run_id, after) });
  const slots = new Slots(workerSettings.concurrency);
  const states = createStates({ ...shared, caughtUp: (run_id) => slots.flushShown(run_id) });
  const events = createThreadEvents({
    ...shared,
    async values(thread_id, checkpoint) {
      try {
        return (await states.at(await states.visible(scope, thread_id), checkpoint)).values;
      } catch (error) {
        if (error instanceof ServiceError || error instanceof StateUnreadable) return undefined;
        throw error;
      }
    },
  });
  const assistants = createAssistants(shared);
  await assistants.ensureDefaults();
  const { index, ttl: itemTtl } = options.store ?? {};
  const storeOptions = { ...(index ? { index } : {}), ...(itemTtl ? { ttl: itemTtl } : {}) };
  const store = createStore({ storage, environment, ...storeOptions });
  const onFinished = createRunFinishedHook(environment, options.onRunFinished, (call) => {
    openCalls.add(call);
    void call.then(() => openCalls.delete(call));
  });
  const subscriptions = createRunSubscriptions({
    ...shared,
    hub,
    feedbackUrls: notifications.feedbackUrls,
    currentState: states.current,
  });
  const worker = createWorker({
    ...shared,
    ...workerSettings,
    slots,
    prices: usageSettings.prices,
    worker: environment.uuid().slice(0, 8),
    hub,
    events,
    trace,
    store: inScope<Store>(store, scope),
    feedbackUrls: notifications.feedbackUrls,
    onFinished,
    onAttemptLeft: subscriptions.watch,
  });
  const { default_ttl, strategy = "delete" } = options.checkpointer?.ttl ?? {};
  const threadTtl = default_ttl === undefined ? {} : { ttl: storedTtl({ ttl: default_ttl, strategy }) };
  const threads = createThreads({
    ...shared,
    ...threadTtl,
    hub,
    states,
    worker,
    assistants,
    read: subscriptions.read,
  });

  /** Calls the hook for a run that ended before it started. */
  async function onEndedUnstarted({ run_id, thread_id }: StoppedRun): Promise<void> {
    try {
      const row = await storage.getRun(scope, run_id);
      if (row && row.ended_at !== null) onFinished(row, { ...row, status: row.status as TerminalStatus });
    } catch (error) {
      environment.log({ level: "error", message: "onRunFinished was not called", run_id, thread_id, error });
    }
  }

  const runs = createRuns({
    ...shared,
    ...threadTtl,
    hub,
    worker,
    assistants,
    threads,
    subscriptions,
    limits: withDefaults(DEFAULTS.limits, options.limits),
    notifications,
    workspace_id,
    ...(options.onRunFinished ? { onEndedUnstarted: (run) => void onEndedUnstarted(run) } : {}),
  });
  const crons = createCronLoop({
    storage,
    scope,
    environment,
    assistants,
    runs,
    ...withDefaults(DEFAULTS.crons, options.crons),
    max_failures: options.crons?.max_failures ?? null,
  });
  const protocol = createProtocol({ runs, threads, events, scope, environment });
  return { assistants, threads, runs, crons, store, feedback, usage, deliveries, worker, hub, events, protocol };
}

function warnOfExposedHeaders(options: ServiceOptions, webhooks: WebhookSettings, environment: Environment): void {
  const exposed = exposedHeaders(options.webhooks ?? {}, webhooks);
  if (exposed.length === 0) return;
  const message = `webhooks.headers: every caller that starts a run can have ${exposed.join(", ")} sent to any public host; name the hosts in webhooks.url.allowed_domains`;
  environment.log({ level: "warn", message });
}

export interface OpenCalls {
  readonly open: Set<Promise<unknown>>;
  /** From now on calls that create runs are refused. */
  stopping: boolean;
  /** From now on all calls are refused. */
  closed: boolean;
  /** A noun whose calls are tracked. `creating`: calls that create runs. `untracked`: a call that uses no storage. */
  track<Noun extends object>(
    noun: Noun,
    options?: { readonly creating?: ReadonlySet<string>; readonly untracked?: keyof Noun },
  ): Noun;
}

export const STOPPING = "The server is stopping";

export function createOpenCalls(): OpenCalls {
  const open = new Set<Promise<unknown>>();
  const stopping = (): ServiceError => new ServiceError("server_stopping", STOPPING);

  const calls: OpenCalls = {
    open,
    stopping: false,
    closed: false,
    track(noun, { creating, untracked } = {}) {
      const tracked =
        (name: string, call: (...args: unknown[]) => Promise<unknown>) =>
        async (...args: unknown[]): Promise<unknown> => {
          if (calls.closed || (calls.stopping && creating?.has(name))) throw stopping();
          const answer = call(...args);
          open.add(answer);
          try {
            return await answer;
          } catch (error) {
            throw calls.closed && !(error instanceof ServiceError) ? stopping() : error;
          } finally {
            open.delete(answer);
          }
        };
      return Object.fromEntries(
        Object.entries(noun).map(([name, call]) => [name, name === untracked ? call : tracked(name, call)]),
      ) as typeof noun;
    },
  };
  return calls;
}
