/** Creates runs: resolves what a request names, stores the run, and retries if that changed in between. */
import type { AssistantDirectory } from "../assistants/mod.ts";
import { ServiceError } from "../errors.ts";
import type { AssistantRow, CreatedRun, CreateRun, ThreadTtl } from "../storage/mod.ts";
import type { Notifications } from "./notifications.ts";
import { checkRequest, type Resolved, type RunCreate, type RunOrigin } from "./request.ts";
import { createRunResolver, type ResolveOptions } from "./resolve.ts";
import { type CreatedRunRow, createRunStore, type StoreRunOptions } from "./store-run.ts";

export type { CreatedRunRow } from "./store-run.ts";

export interface CreateOptions extends ResolveOptions, StoreRunOptions {
  readonly assistants: AssistantDirectory;
  /** The time to live of threads that runs create. */
  readonly ttl?: ThreadTtl;
  readonly notifications: Notifications;
}

/** Runs that another module stores in a batch of its own, as crons do. */
export interface RunPreparation {
  /** What `create` would store, without a claim. Prepare it again if the batch finds it stale. Errors: those of `create`. */
  prepare(thread_id: string | null, request: RunCreate, origin: RunOrigin): Promise<CreateRun>;
  /** Call it once the run is stored. */
  started(created: CreatedRun, plan: CreateRun): void;
}

export interface RunCreation extends RunPreparation {
  /** `watched`: the caller subscribes to the run at once. */
  create(thread_id: string | null, request: RunCreate, origin: RunOrigin, watched?: boolean): Promise<CreatedRunRow>;
  /** All of them, or none. */
  createBatch(requests: readonly RunCreate[], origin: RunOrigin): Promise<readonly CreatedRunRow[]>;
}

export function createRunCreation(options: CreateOptions): RunCreation {
  const { environment, assistants, notifications } = options;
  const resolver = createRunResolver(options);
  const runs = createRunStore(options, resolver);
  const ttl = options.ttl ? { ttl: options.ttl } : {};

  /** Everything about a run that no lookup changes. */
  function describe(thread_id: string | null, request: RunCreate, origin: RunOrigin, index = 0) {
    return {
      request,
      origin,
      temporary: thread_id === null && request.on_completion !== "keep",
      notifications: notifications.prepare(request, origin),
      thread_id: thread_id?.toLowerCase() ?? environment.uuid(),
      run_id: origin.run_ids?.[index] ?? environment.uuid(),
      ...ttl,
    } satisfies Partial<Resolved>;
  }

  async function resolve(
    thread_id: string | null,
    assistant: AssistantRow,
    described: ReturnType<typeof describe>,
  ): Promise<Resolved> {
    resolver.requireHosted(assistant);
    const { request, origin } = described;
    const found = await resolver.resolveThread(thread_id, request, origin.threads);
    return { ...described, assistant, now: environment.now(), ...found };
  }

  return {
    async create(thread_id, request, origin, watched = false) {
      checkRequest(request, thread_id);
      const described = describe(thread_id, request, origin);
      let assistant = await assistants.recall(request.assistant_id, origin.assistants);
      while (true) {
        const created = await runs.store(await resolve(thread_id, assistant, described), watched);
        if (created) return created;
        assistant = await assistants.resolve(request.assistant_id, origin.assistants);
      }
    },
    async prepare(thread_id, request, origin) {
      checkRequest(request, thread_id);
      const described = describe(thread_id, request, origin);
      const assistant = await assistants.resolve(request.assistant_id, origin.assistants);
      return resolver.plan(await resolve(thread_id, assistant, described));
    },
    started: (created, plan) => void runs.started(created, plan, { busy: true }),
    async createBatch(requests, origin) {
      if (requests.length === 0) throw new ServiceError("invalid", "A batch needs at least one run");
      for (const request of requests) checkRequest(request, null);
      const { idempotency, ...rest } = origin;
      const described = requests.map((request, i) => {
        const own = idempotency ? { ...idempotency, route: `${idempotency.route}#${i}` } : undefined;
        return describe(null, request, own ? { ...rest, idempotency: own } : rest, i);
      });
      let find = assistants.recall;
      while (true) {
        const all: Resolved[] = [];
        for (const one of described) {
          all.push(await resolve(null, await find(one.request.assistant_id, origin.assistants), one));
        }
        const created = await runs.storeAll(all);
        if (created) return created;
        find = assistants.resolve;
      }
    },
  };
}
