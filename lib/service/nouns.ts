/** Creates the nouns of a service and the worker that executes its runs, connects them, and tracks their open calls. */
import { bindAssistants } from "../assistants/bind.ts";
import { type AssistantDirectory, type Assistants, createAssistants } from "../assistants/mod.ts";
import { type Binding, type Directory, inScope } from "../auth/binding.ts";
import { bindCrons } from "../crons/bind.ts";
import { type CronLoop, createCronLoop } from "../crons/loop.ts";
import type { CronDirectory, Crons } from "../crons/mod.ts";
import { Slots } from "../engine/claims.ts";
import { createRunFinishedHook } from "../engine/finished-runs.ts";
import { createWorker, type Worker } from "../engine/worker.ts";
import type { KeepAlive } from "../environment.ts";
import { ServiceError, StateUnreadable } from "../errors.ts";
import type { Feature } from "../features/mod.ts";
import { baseUrl, settingsOf } from "../options.ts";
import { type BoundProtocol, bindProtocol } from "../protocol/bind.ts";
import { createProtocol, type ProtocolDirectory, type ThreadProtocol } from "../protocol/mod.ts";
import { type BoundRuns, bindRuns } from "../runs/bind.ts";
import { createRuns, type RunDirectory, type Runs } from "../runs/mod.ts";
import { type RunCalls, runCalls, type ThreadCalls, threadCalls } from "../steps/bind.ts";
import type { StoppedRun, TerminalStatus } from "../storage/mod.ts";
import { bindStore } from "../store/bind.ts";
import { createStore, type Store } from "../store/mod.ts";
import { StreamHub } from "../streams/hub.ts";
import { createRunSubscriptions } from "../streams/run-subscription.ts";
import { createSights } from "../streams/sight.ts";
import { createThreadEvents, type ThreadEventLogs } from "../streams/thread-events.ts";
import { bindThreads } from "../threads/bind.ts";
import { createThreads, type ThreadDirectory, type Threads } from "../threads/mod.ts";
import { createStates } from "../threads/read.ts";
import {
  createFeatures,
  FEATURE_BINDERS,
  type FeatureCallerNouns,
  type FeatureDirectories,
  type FeatureNouns,
  type ServiceContext,
} from "./features.ts";

interface NounOptions extends Omit<ServiceContext, "settings" | "base_url"> {
  /** Calls that `stop` waits for. */
  readonly openCalls: Set<Promise<unknown>>;
}

/** The nouns that `service.as` and requests use. */
export interface CallerNouns extends FeatureCallerNouns {
  readonly assistants: Assistants;
  /** Threads with their states, commands and events. */
  readonly threads: Threads & ThreadProtocol & ThreadCalls;
  readonly runs: Runs & RunCalls;
  readonly crons: Crons;
  readonly store: Store;
}

/** The same nouns for any scope, without authorization. */
export interface Directories extends FeatureDirectories {
  readonly assistants: AssistantDirectory;
  readonly threads: ThreadDirectory;
  readonly runs: RunDirectory;
  readonly crons: CronDirectory;
  readonly protocol: ProtocolDirectory;
  readonly store: Directory<Store>;
}

/** The nouns for the caller of a request, with the calls that only routes use. */
export interface RequestNouns extends CallerNouns {
  readonly runs: BoundRuns & RunCalls;
  readonly protocol: BoundProtocol;
}

type Binders = {
  readonly [Name in keyof RequestNouns]: (
    directory: Directories[Name],
    binding: Binding,
    nouns: RequestNouns,
    directories: Directories,
  ) => RequestNouns[Name];
};
const BINDERS: Binders = {
  assistants: bindAssistants,
  threads: (threads, binding, { protocol, calls }) => ({
    ...bindThreads(threads, binding),
    ...threadCalls(calls),
    events: protocol.events,
    command: (thread_id, command) => protocol.command(thread_id, command),
  }),
  runs: (runs, binding, { calls }, { assistants }) => ({ ...bindRuns(runs, binding, assistants), ...runCalls(calls) }),
  crons: (crons, binding, _nouns, { assistants }) => bindCrons(crons, binding, assistants),
  protocol: (protocol, binding, nouns) => bindProtocol(protocol, binding, () => nouns.runs),
  store: bindStore,
  ...FEATURE_BINDERS,
};

const NOUNS = Object.keys(BINDERS) as readonly (keyof RequestNouns)[];

/** The nouns as one caller may use them. Each is made when it is first used: a request needs few. */
class BoundNouns {
  readonly directories: Directories;
  readonly binding: Binding;
  readonly made: Partial<Record<keyof RequestNouns, unknown>> = {};

  constructor(directories: Directories, binding: Binding) {
    this.directories = directories;
    this.binding = binding;
  }

  static {
    for (const name of NOUNS) Object.defineProperty(BoundNouns.prototype, name, { get: nounNamed(name) });
  }
}

function nounNamed<Name extends keyof RequestNouns>(name: Name) {
  return function (this: BoundNouns): RequestNouns[Name] {
    const { made, directories, binding } = this;
    made[name] ??= BINDERS[name](directories[name], binding, this as unknown as RequestNouns, directories);
    return made[name] as RequestNouns[Name];
  };
}

export const bindNouns = (directories: Directories, binding: Binding): RequestNouns =>
  new BoundNouns(directories, binding) as unknown as RequestNouns;

/** All of them, made now. */
export function allNouns(directories: Directories, binding: Binding): RequestNouns {
  const bound = bindNouns(directories, binding);
  return Object.fromEntries(NOUNS.map((name) => [name, bound[name]])) as unknown as RequestNouns;
}

export interface Nouns extends FeatureNouns {
  readonly features: readonly Feature[];
  readonly assistants: AssistantDirectory;
  readonly threads: ThreadDirectory;
  readonly runs: RunDirectory;
  readonly crons: CronLoop;
  readonly store: Directory<Store>;
  readonly worker: Worker;
  readonly hub: StreamHub;
  readonly events: ThreadEventLogs;
  readonly protocol: ProtocolDirectory;
}

export async function createNouns(given: NounOptions): Promise<Nouns> {
  const { options, storage, bus, scope, environment, deployment, openCalls } = given;
  const { executor } = options;
  const sights = createSights({ storage, bus, environment });
  const shared = { storage, bus, scope, executor, environment, sights };
  const { workspace_id } = deployment;
  const settings = settingsOf(options);
  const base_url = (): string | undefined => baseUrl(options);
  const { list, all: features, nouns } = createFeatures({ ...given, settings, base_url });
  const hub = new StreamHub(environment, { load: (run_id, after) => storage.readFrames(scope, run_id, after) });
  const slots = new Slots(settings.worker.concurrency);
  const states = createStates({ ...shared, caughtUp: (run_id) => slots.flushShown(run_id) });
  const events = createThreadEvents({
    ...shared,
    onReader: (thread_id) => slots.saveSoon(thread_id),
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
    features,
    currentState: states.current,
  });
  const worker = createWorker({
    ...shared,
    ...settings.worker,
    slots,
    prices: settings.usage.prices,
    worker: environment.uuid().slice(0, 8),
    hub,
    events,
    store: inScope<Store>(store, scope),
    features,
    onFinished,
    onAttemptLeft: subscriptions.watch,
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
  const all = { ...nouns, features: list, assistants, threads, runs, crons, store, worker, hub, events, protocol };
  for (const feature of list) feature.connect?.(all);
  return all;
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

export function createOpenCalls({ keepAlive }: { readonly keepAlive?: KeepAlive }): OpenCalls {
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
          keepAlive?.acquire();
          try {
            return await answer;
          } catch (error) {
            // A run may have been created: clients must not be told to try again.
            const untold = creating?.has(name) || error instanceof ServiceError;
            throw calls.closed && !untold ? stopping() : error;
          } finally {
            open.delete(answer);
            keepAlive?.release();
          }
        };
      return Object.fromEntries(
        Object.entries(noun).map(([name, call]) => [name, name === untracked ? call : tracked(name, call)]),
      ) as typeof noun;
    },
  };
  return calls;
}
