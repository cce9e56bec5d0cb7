/** Binds the resume value of a request to the pending interrupts of its thread. */
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

/** The maximum number of active runs of a thread that are searched for one that resumes an interrupt. */
const MAX_ACTIVE_RUNS = 1_000;

/** A request with `command.resume`, and the thread that it is for. */
interface ResumeRequest {
  /** The id in the spelling of the request. */
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

  /**
   * Binds the resume value to the interrupts that the thread waits for, and validates it by their schemas. If it fits none,
   * drops it from a request that also updates the state, unless that has `strict_resume`; keeps it unbound if the state cannot be
   * read, because the run then fails. Throws `invalid`, `SchemaMismatch`, `interrupt_already_answered` or `no_open_interrupt`.
   */
  async bind({ thread_id, thread, start_checkpoint, request, requires_ids }: ResumeRequest): Promise<BoundResume> {
    try {
      const state = thread && (await this.#findPendingState(thread, start_checkpoint, request));
      const boundResume = bindResume(request, state, requires_ids);
      const interrupts = state?.interrupts.filter(({ response_schema }) => response_schema !== undefined) ?? [];
      if (boundResume && interrupts.length > 0)
        (await import("./schemas.ts")).requireAnswersFit(boundResume, interrupts);
      if (boundResume) return { ...boundResume, ...findAskingRun(boundResume, state) };
    } catch (error) {
      // The run fails with the same error, before anything can use its resume value.
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

  /** Returns the running and then the pending runs of the thread, at most `MAX_ACTIVE_RUNS` of each. */
  async #listActiveRuns(thread_id: string): Promise<RunRow[]> {
    const lists = (["running", "pending"] as const).map((status) =>
      this.#storage.listRuns(this.#scope, thread_id, { status, limit: MAX_ACTIVE_RUNS, offset: 0 }),
    );
    return (await Promise.all(lists)).flat();
  }

  /**
   * Returns what the thread waits for at `start_checkpoint` or at its head: interrupts, a breakpoint, or asks of a suspended
   * call; null if there is no state. With `rollback` on a busy thread, what it waits for once its runs are deleted.
   */
  async #findPendingState(
    thread: ThreadRow,
    start_checkpoint: CheckpointRef | null,
    { multitask_strategy }: RunCreate,
  ): Promise<PendingState | null> {
    const isHead = !start_checkpoint || (start_checkpoint.ns === "" && start_checkpoint.checkpoint_id === thread.head);
    if (isHead && thread.status === "busy" && multitask_strategy === "rollback")
      return await this.#readStateAfterRollback(thread);
    const state = await this.#readState(thread, start_checkpoint);
    const pendingAsks =
      !start_checkpoint && state?.interrupts.length === 0 ? await this.#findPendingAsks(thread) : null;
    // A checkpoint in the middle of a run has next nodes, too, and so does one whose interrupts an active run has resumed.
    return pendingAsks ?? findPendingState(state, thread.head, thread.status !== "error" && thread.status !== "busy");
  }

  /**
   * Returns what the thread waits for once a `rollback` has deleted its active runs: the interrupts of its row, which the last
   * ended run left, at the head; else whether the head is a breakpoint, without interrupts. Returns null without a state.
   */
  async #readStateAfterRollback(thread: ThreadRow): Promise<PendingState | null> {
    const { head } = thread;
    const interrupts = Object.values(thread.interrupts).flat() as unknown as readonly Interrupt[];
    if (head !== null && interrupts.length > 0) return toPendingState(head, interrupts);
    const pending = findPendingState(await this.#threads.readCurrentState({ ...thread, running: null }), head, true);
    return pending && { ...pending, interrupts: [] };
  }

  /**
   * Returns the state at the checkpoint, or without one the current state: null for a thread without a state. Throws
   * `checkpoint_not_found` and `StateReadError`.
   */
  #readState(thread: ThreadRow, start_checkpoint: CheckpointRef | null): Promise<ThreadState | null> {
    if (!start_checkpoint) return this.#threads.readCurrentState(thread);
    const checkpoint = { checkpoint_ns: start_checkpoint.ns, checkpoint_id: start_checkpoint.checkpoint_id };
    return this.#threads.stateAt(this.#scope, thread.thread_id, checkpoint);
  }

  /**
   * Returns the pending asks of the durable call that the running run continues, at the head of the thread. Until the call
   * waits again, only the thread row of its last run has them. Returns null if there are none.
   */
  async #findPendingAsks({ running, interrupts, head }: ThreadRow): Promise<PendingState | null> {
    const call_id = running === null ? null : (await this.#storage.getRun(this.#scope, running))?.call_id;
    const pendingAsks = ((call_id && interrupts[call_id]) || []) as unknown as readonly Interrupt[];
    return head !== null && pendingAsks.length > 0 ? toPendingState(head, pendingAsks) : null;
  }
}

/**
 * Returns the interrupts that the resume value is for and that an `ask` has raised: only those have a name. Without any, returns the run
 * that waits, if it is known.
 */
function findAskingRun(
  { resume_targets }: BoundResume,
  state: PendingState | null,
): Pick<BoundResume, "asks" | "resumed_run_id"> {
  const ids = new Set(resume_targets.map(({ interrupt_id }) => interrupt_id));
  const asks = (state?.interrupts ?? []).filter(({ id, name }) => ids.has(id) && typeof name === "string");
  return { asks, resumed_run_id: asks.length > 0 ? undefined : state?.run_id };
}

/** Returns a state that waits for these interrupts at a checkpoint in the root namespace, without a breakpoint. */
const toPendingState = (checkpoint_id: string, interrupts: readonly Interrupt[]): PendingState => ({
  checkpoint: { ns: "", checkpoint_id },
  interrupts,
  isBreakpoint: false,
});

/**
 * Returns the interrupts of a state and whether it stands at a breakpoint: the head, with next nodes and without failed tasks.
 * Returns null without a checkpoint. `isHeadFinal` is true if the last run stopped at the head of the thread.
 */
function findPendingState(state: ThreadState | null, head: string | null, isHeadFinal: boolean): PendingState | null {
  if (!state?.checkpoint) return null;
  const { checkpoint_ns: ns, checkpoint_id } = state.checkpoint;
  const hasNextStep = state.next.length > 0 && state.tasks.every(({ error }) => error === null);
  const isBreakpoint = isHeadFinal && ns === "" && checkpoint_id === head && hasNextStep;
  const run_id = state.metadata?.["run_id"] as string | undefined;
  return { checkpoint: { ns, checkpoint_id }, interrupts: state.interrupts, isBreakpoint, run_id };
}
