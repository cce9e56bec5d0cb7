/** Creates the resources of a service and the worker that executes its runs, and connects them. */
import { type Assistants, createAssistants, type InternalAssistants } from "../assistants/mod.ts";
import { type InternalResource, withFixedScope } from "../auth/authorizer.ts";
import { type CronLoop, createCronLoop } from "../crons/loop.ts";
import type { Crons, InternalCrons } from "../crons/mod.ts";
import { WorkerSlots } from "../engine/claims.ts";
import { createRunFinishedHook } from "../engine/finished-runs.ts";
import { createWorker, type Worker } from "../engine/worker.ts";
import { ServiceError, StateReadError } from "../errors.ts";
import type { RunFeature } from "../features/mod.ts";
import { getPublicBaseUrl, resolveSettings } from "../options.ts";
import type { AuthorizedProtocol } from "../protocol/authorization.ts";
import { createProtocol, type InternalProtocol, type ThreadProtocol } from "../protocol/mod.ts";
import type { AuthorizeNewRun } from "../runs/authorization.ts";
import { createRuns, type InternalRuns, type Runs } from "../runs/mod.ts";
import type { RunDurableCalls, ThreadDurableCalls } from "../steps/calls.ts";
import type { StoppedRun, TerminalStatus } from "../storage/mod.ts";
import { createStore, type Store } from "../store/mod.ts";
import { StreamHub } from "../streams/hub.ts";
import { createRunSubscriptions } from "../streams/run-subscription.ts";
import { createStreamGuards, type StreamGuards } from "../streams/stream-guard.ts";
import { createThreadEvents, type ThreadEventLogs } from "../streams/thread-events.ts";
import { createThreads, type InternalThreads, type Threads } from "../threads/mod.ts";
import { createStates } from "../threads/states.ts";
import {
  createFeatures,
  type FeatureParts,
  type FeatureResources,
  type InternalFeatureResources,
  type ServiceContext,
} from "./features.ts";

interface ServicePartsOptions extends Omit<ServiceContext, "settings" | "base_url"> {
  /** Calls that `stop` waits for. */
  readonly inFlightCalls: Set<Promise<unknown>>;
}

/** The resources that `service.as` and requests use. */
export interface Resources extends FeatureResources {
  readonly assistants: Assistants;
  /** Threads with their states, commands and events. */
  readonly threads: Threads & ThreadProtocol & ThreadDurableCalls;
  readonly runs: Runs & RunDurableCalls;
  readonly crons: Crons;
  readonly store: Store;
}

/** The internal resources. Each method takes a scope first and authorizes nothing. */
export interface InternalResources extends InternalFeatureResources {
  readonly assistants: InternalAssistants;
  readonly threads: InternalThreads;
  readonly runs: InternalRuns;
  readonly crons: InternalCrons;
  readonly protocol: InternalProtocol;
  readonly store: InternalResource<Store>;
}

/** The resources of the caller of a request, with the methods that only routes use. */
export interface RequestResources extends Resources {
  readonly runs: Runs & RunDurableCalls & { readonly permit: AuthorizeNewRun };
  readonly protocol: AuthorizedProtocol;
}

export interface ServiceParts extends FeatureParts {
  readonly features: readonly RunFeature[];
  readonly assistants: InternalAssistants;
  readonly threads: InternalThreads;
  readonly runs: InternalRuns;
  readonly crons: CronLoop;
  readonly store: InternalResource<Store>;
  readonly worker: Worker;
  readonly hub: StreamHub;
  readonly events: ThreadEventLogs;
  readonly protocol: InternalProtocol;
  readonly guards: StreamGuards;
}

/**
 * Creates the parts of a service and connects them. Stores the default assistants, for which it waits, and starts worker and
 * schedulers, which go on in the background. Features are connected last.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export async function createServiceParts(context: ServicePartsOptions): Promise<ServiceParts> {
  const { options, storage, bus, scope, environment, deployment, inFlightCalls } = context;
  const { executor } = options;
  const shared = { storage, bus, scope, executor, environment };
  const guards = createStreamGuards(shared);
  const { workspace_id } = deployment;
  const settings = resolveSettings(options);
  const base_url = (): string | undefined => getPublicBaseUrl(options);
  const {
    list: featureList,
    combined: features,
    parts: featureParts,
  } = createFeatures({ ...context, settings, base_url });
  await Promise.all(featureList.map((feature) => feature.load?.()));
  const hub = new StreamHub(environment, { load: (run_id, after) => storage.readFrames(scope, run_id, after) });
  const slots = new WorkerSlots(settings.worker.concurrency);
  const states = createStates({ ...shared, waitUntilStored: (run_id) => slots.flushEmitted(run_id) });
  const events = createThreadEvents({
    ...shared,
    guards,
    onReader: (thread_id) => slots.scheduleSave(thread_id),
    /** Returns the values of a checkpoint; undefined after a ServiceError or a StateReadError. Rejects with any other error. */
    async readValues(thread_id, checkpoint) {
      try {
        return (await states.readStateAt(await states.requireThread(scope, thread_id), checkpoint)).values;
      } catch (error) {
        if (error instanceof ServiceError || error instanceof StateReadError) return undefined;
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
    inFlightCalls.add(call);
    void call.then(() => inFlightCalls.delete(call));
  });
  const subscriptions = createRunSubscriptions({
    ...shared,
    hub,
    features,
    currentState: states.readCurrentState,
  });
  const worker = createWorker({
    ...shared,
    ...settings.worker,
    slots,
    prices: settings.usage.prices,
    worker: environment.uuid().slice(0, 8),
    hub,
    events,
    store: withFixedScope<Store>(store, scope),
    features,
    onFinished,
    onAttemptReleased: subscriptions.watch,
  });
  const threads = createThreads({
    ...shared,
    features,
    hub,
    states,
    worker,
    assistants,
    read: subscriptions.read,
  });

  /**
   * Reads a run that ended before it started, and calls the hook; does nothing if it is gone or open. Logs a failure to read it.
   * Never rejects.
   */
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
    features,
    hub,
    worker,
    assistants,
    threads,
    subscriptions,
    limits: settings.limits,
    workspace_id,
    ...(options.onRunFinished ? { onEndedUnstarted: (run) => void onEndedUnstarted(run) } : {}),
  });
  const crons = createCronLoop({
    storage,
    scope,
    environment,
    assistants,
    runs,
    ...settings.crons,
    max_failures: options.crons?.max_failures ?? null,
  });
  const protocol = createProtocol({ runs, threads, events, scope, environment });
  const coreParts = { assistants, threads, runs, crons, store, worker, hub, events, protocol };
  const parts = { ...featureParts, ...coreParts, features: featureList, guards };
  for (const feature of featureList) feature.connect?.(parts);
  return parts;
}
