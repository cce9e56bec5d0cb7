/** Looks up the thread and the checkpoint that a request names, and plans the run. */
import { ServiceError, StateUnreadable } from "../errors.ts";
import type { CheckpointRef, Executor } from "../executor/contract.ts";
import type { AssistantRow, CreateRun, Scope, Storage, ThreadRow } from "../storage/mod.ts";
import { refuseForOthers, requireKept, type Visibility, withVisibility } from "../storage/visibility.ts";
import type { ThreadDirectory } from "../threads/mod.ts";
import { checkpointOf, planRun, type Resolved, type RunCreate } from "./request.ts";
import { checkResume } from "./resume.ts";

export interface ResolveOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly executor: Executor;
  readonly threads: ThreadDirectory;
  readonly limits: NonNullable<CreateRun["limits"]>;
}

export interface RunResolver {
  /** Errors: not_found, conflict, invalid. */
  resolveThread(
    thread_id: string | null,
    request: RunCreate,
    visibility: Visibility | undefined,
  ): Promise<Pick<Resolved, "thread" | "from">>;
  /** Errors: not_found. */
  requireHosted(assistant: AssistantRow): void;
  plan(resolved: Resolved): CreateRun;
}

export function createRunResolver({ storage, scope, executor, threads, limits }: ResolveOptions): RunResolver {
  const hosted = new Set(executor.graphs().map((graph) => graph.graph_id));
  // Subscribers in other processes see only stored frames.
  const framed = storage.multi_process ? { framed: true } : {};

  /** Only for threads at rest: which interrupts an earlier run will leave open is not known. */
  async function checkAnswers(thread: ThreadRow, from: CheckpointRef | null, request: RunCreate): Promise<void> {
    if (request.command?.resume === undefined) return;
    const at = from ? { checkpoint_ns: from.ns, checkpoint_id: from.checkpoint_id } : null;
    try {
      const state = at ? await threads.stateAt(thread.thread_id, at) : await threads.current(thread);
      checkResume(request, state?.interrupts ?? []);
    } catch (error) {
      // The run fails with the same error.
      if (!(error instanceof StateUnreadable)) throw error;
    }
  }

  return {
    async resolveThread(thread_id, request, visibility) {
      if (thread_id === null) return { thread: null, from: null };
      const id = thread_id.toLowerCase();
      const from = checkpointOf(request);
      const [thread, checkpoint] = await Promise.all([
        storage.getThread(withVisibility(scope, visibility), id),
        from ? storage.getCheckpoint(scope, id, from) : null,
      ]);
      if (thread?.hidden || (!thread && request.if_not_exists !== "create")) {
        throw new ServiceError("not_found", `Thread ${thread_id} not found`);
      }
      // Another user may own a thread with this id.
      if (!thread && visibility?.filter && (await storage.getThread(scope, id))) {
        throw new ServiceError("conflict", `Thread ${thread_id} already exists`);
      }
      if (from && !checkpoint) {
        throw new ServiceError("not_found", `Thread ${thread_id} has no checkpoint ${from.checkpoint_id}`);
      }
      if (thread && thread.status !== "busy") await checkAnswers(thread, from, request);
      // Clients send the checkpoint they show. A rollback of the run that wrote it starts from the head instead.
      const writer = request.multitask_strategy === "rollback" ? checkpoint?.run_id : null;
      const isActive = writer && (await storage.getRun(scope, writer))?.end_frame === null;
      return { thread, from: isActive ? null : from };
    },
    requireHosted({ graph_id }) {
      if (!hosted.has(graph_id)) throw new ServiceError("not_found", `Graph ${graph_id} not found`);
    },
    plan(resolved) {
      const plan = planRun(resolved);
      const { create_thread, update_thread } = plan;
      if (create_thread) refuseForOthers(resolved.origin.threads, create_thread.metadata);
      if (update_thread) requireKept(resolved.origin.threads, update_thread.metadata);
      return { ...plan, run: { ...plan.run, ...framed }, limits };
    },
  };
}
