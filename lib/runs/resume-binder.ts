/** Binds the answer of a request to the interrupts that its thread waits for. */
import { StateReadError } from "../errors.ts";
import type { CheckpointRef, Interrupt, ThreadState } from "../executor/contract.ts";
import type { RunRow, Scope, Storage, ThreadRow } from "../storage/mod.ts";
import type { InternalThreads } from "../threads/mod.ts";
import type { RunCreate } from "./request.ts";
import {
  type BoundResume,
  bindResume,
  findAnsweringRun,
  interruptAnsweredError,
  noPendingInterruptError,
  omitResume,
  type PendingState,
} from "./resume.ts";

/** How many active runs of a thread are looked at for the one that answers an interrupt. */
const MAX_ACTIVE_RUNS = 1_000;

/** A request with `command.resume`, and the thread that it is for. */
interface ResumeRequest {
  /** As the request has it. */
  readonly thread_id: string;
  readonly thread: ThreadRow | null;
  readonly start_checkpoint: CheckpointRef | null;
  readonly request: RunCreate;
  readonly requires_ids: boolean;
}

interface ResumeBinderOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly threads: InternalThreads;
}

export class ResumeBinder {
  readonly #storage: Storage;
  readonly #scope: Scope;
  readonly #threads: InternalThreads;

  constructor({ storage, scope, threads }: ResumeBinderOptions) {
    this.#storage = storage;
    this.#scope = scope;
    this.#threads = threads;
  }

  /** Returns the request with its answer bound. Errors: invalid, interrupt_already_answered, no_open_interrupt. */
  async bind({ thread_id, thread, start_checkpoint, request, requires_ids }: ResumeRequest): Promise<BoundResume> {
    try {
      const boundResume =
        thread && bindResume(request, await this.#findPendingState(thread, start_checkpoint, request), requires_ids);
      if (boundResume) return boundResume;
    } catch (error) {
      // The run fails with the same error, before anything can take its answer.
      if (error instanceof StateReadError) return { request, resume_targets: [] };
      throw error;
    }
    const withoutAnswer = omitResume(request);
    if (withoutAnswer) return { request: withoutAnswer, resume_targets: [] };
    if (thread?.status === "busy" && request.multitask_strategy !== "rollback") {
      const activeRun = findAnsweringRun(request.command?.resume ?? null, await this.#listActiveRuns(thread.thread_id));
      if (activeRun) throw interruptAnsweredError(thread_id, activeRun.run_id);
    }
    throw noPendingInterruptError(thread_id);
  }

  async #listActiveRuns(thread_id: string): Promise<RunRow[]> {
    const lists = (["running", "pending"] as const).map((status) =>
      this.#storage.listRuns(this.#scope, thread_id, { status, limit: MAX_ACTIVE_RUNS, offset: 0 }),
    );
    return (await Promise.all(lists)).flat();
  }

  /** What the thread waits for when a run would start at `from` or at its head. */
  async #findPendingState(
    thread: ThreadRow,
    start_checkpoint: CheckpointRef | null,
    { multitask_strategy }: RunCreate,
  ): Promise<PendingState | null> {
    const isHead = !start_checkpoint || (start_checkpoint.ns === "" && start_checkpoint.checkpoint_id === thread.head);
    if (isHead && thread.status === "busy" && multitask_strategy === "rollback")
      return await this.#readStateAfterRollback(thread);
    const state = await this.#readState(thread, start_checkpoint);
    const asks = !start_checkpoint && state?.interrupts.length === 0 ? await this.#findPendingAsks(thread) : null;
    // A checkpoint in the middle of a run has next nodes, too, and so has one whose interrupts an active run has answered.
    return asks ?? findPendingState(state, thread.head, thread.status !== "error" && thread.status !== "busy");
  }

  /** What the thread waits for once a `rollback` has deleted its active runs: what the last ended run has left. */
  async #readStateAfterRollback(thread: ThreadRow): Promise<PendingState | null> {
    const { head } = thread;
    const interrupts = Object.values(thread.interrupts).flat() as unknown as readonly Interrupt[];
    if (head !== null && interrupts.length > 0) return toPendingState(head, interrupts);
    const pending = findPendingState(await this.#threads.readCurrentState({ ...thread, running: null }), head, true);
    return pending && { ...pending, interrupts: [] };
  }

  #readState(thread: ThreadRow, start_checkpoint: CheckpointRef | null): Promise<ThreadState | null> {
    if (!start_checkpoint) return this.#threads.readCurrentState(thread);
    const checkpoint = { checkpoint_ns: start_checkpoint.ns, checkpoint_id: start_checkpoint.checkpoint_id };
    return this.#threads.stateAt(this.#scope, thread.thread_id, checkpoint);
  }

  /** A call of a durable function that is executed shows its asks again when it waits: until then the thread has those of its last run. */
  async #findPendingAsks({ running, interrupts, head }: ThreadRow): Promise<PendingState | null> {
    const call_id = running === null ? null : (await this.#storage.getRun(this.#scope, running))?.call_id;
    const asks = ((call_id && interrupts[call_id]) || []) as unknown as readonly Interrupt[];
    return head !== null && asks.length > 0 ? toPendingState(head, asks) : null;
  }
}

const toPendingState = (checkpoint_id: string, interrupts: readonly Interrupt[]): PendingState => ({
  checkpoint: { ns: "", checkpoint_id },
  interrupts,
  isBreakpoint: false,
});

/** `rests`: the head of the thread is where its last run has stopped. */
function findPendingState(state: ThreadState | null, head: string | null, isHeadFinal: boolean): PendingState | null {
  if (!state?.checkpoint) return null;
  const { checkpoint_ns: ns, checkpoint_id } = state.checkpoint;
  const hasNextStep = state.next.length > 0 && state.tasks.every(({ error }) => error === null);
  const isBreakpoint = isHeadFinal && ns === "" && checkpoint_id === head && hasNextStep;
  return { checkpoint: { ns, checkpoint_id }, interrupts: state.interrupts, isBreakpoint };
}
