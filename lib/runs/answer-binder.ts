/** Binds the answer of a request to the interrupts that its thread waits for. */
import { StateReadError } from "../errors.ts";
import type { CheckpointRef, Interrupt, ThreadState } from "../executor/contract.ts";
import type { RunRow, Scope, Storage, ThreadRow } from "../storage/mod.ts";
import type { ThreadDirectory } from "../threads/mod.ts";
import type { RunCreate } from "./request.ts";
import {
  alreadyAnswered,
  answeringRun,
  type BoundResume,
  bindResume,
  nothingOpen,
  type PendingState,
  withoutResume,
} from "./resume.ts";

/** How many active runs of a thread are looked at for the one that answers an interrupt. */
const MOST_ACTIVE = 1_000;

/** A request with `command.resume`, and the thread that it is for. */
interface ThreadAnswer {
  /** As the request has it. */
  readonly thread_id: string;
  readonly thread: ThreadRow | null;
  readonly from: CheckpointRef | null;
  readonly request: RunCreate;
  readonly by_id: boolean;
}

interface AnswerOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly threads: ThreadDirectory;
}

export class AnswerBinder {
  readonly #storage: Storage;
  readonly #scope: Scope;
  readonly #threads: ThreadDirectory;

  constructor({ storage, scope, threads }: AnswerOptions) {
    this.#storage = storage;
    this.#scope = scope;
    this.#threads = threads;
  }

  /** Returns the request with its answer bound. Errors: invalid, interrupt_already_answered, no_open_interrupt. */
  async bind({ thread_id, thread, from, request, by_id }: ThreadAnswer): Promise<BoundResume> {
    try {
      const bound = thread && bindResume(request, await this.#pendingState(thread, from, request), by_id);
      if (bound) return bound;
    } catch (error) {
      // The run fails with the same error, before anything can take its answer.
      if (error instanceof StateReadError) return { request, resume_targets: [] };
      throw error;
    }
    const withoutAnswer = withoutResume(request);
    if (withoutAnswer) return { request: withoutAnswer, resume_targets: [] };
    if (thread?.status === "busy" && request.multitask_strategy !== "rollback") {
      const other = answeringRun(request.command?.resume ?? null, await this.#activeRuns(thread.thread_id));
      if (other) throw alreadyAnswered(thread_id, other.run_id);
    }
    throw nothingOpen(thread_id);
  }

  async #activeRuns(thread_id: string): Promise<RunRow[]> {
    const lists = (["running", "pending"] as const).map((status) =>
      this.#storage.listRuns(this.#scope, thread_id, { status, limit: MOST_ACTIVE, offset: 0 }),
    );
    return (await Promise.all(lists)).flat();
  }

  /** What the thread waits for when a run would start at `from` or at its head. */
  async #pendingState(
    thread: ThreadRow,
    from: CheckpointRef | null,
    { multitask_strategy }: RunCreate,
  ): Promise<PendingState | null> {
    const isHead = !from || (from.ns === "" && from.checkpoint_id === thread.head);
    if (isHead && thread.status === "busy" && multitask_strategy === "rollback")
      return await this.#restoredState(thread);
    const state = await this.#stateAt(thread, from);
    const asks = !from && state?.interrupts.length === 0 ? await this.#openAsks(thread) : null;
    // A checkpoint in the middle of a run has next nodes, too, and so has one whose interrupts an active run has answered.
    return asks ?? pendingIn(state, thread.head, thread.status !== "error" && thread.status !== "busy");
  }

  /** What the thread waits for once a `rollback` has deleted its active runs: what the last ended run has left. */
  async #restoredState(thread: ThreadRow): Promise<PendingState | null> {
    const { head } = thread;
    const interrupts = Object.values(thread.interrupts).flat() as unknown as readonly Interrupt[];
    if (head !== null && interrupts.length > 0) return pendingAt(head, interrupts);
    const pending = pendingIn(await this.#threads.current({ ...thread, running: null }), head, true);
    return pending && { ...pending, interrupts: [] };
  }

  #stateAt(thread: ThreadRow, from: CheckpointRef | null): Promise<ThreadState | null> {
    if (!from) return this.#threads.current(thread);
    const at = { checkpoint_ns: from.ns, checkpoint_id: from.checkpoint_id };
    return this.#threads.stateAt(this.#scope, thread.thread_id, at);
  }

  /** A call of a durable function that is executed shows its asks again when it waits: until then the thread has those of its last run. */
  async #openAsks({ running, interrupts, head }: ThreadRow): Promise<PendingState | null> {
    const call_id = running === null ? null : (await this.#storage.getRun(this.#scope, running))?.call_id;
    const asks = ((call_id && interrupts[call_id]) || []) as unknown as readonly Interrupt[];
    return head !== null && asks.length > 0 ? pendingAt(head, asks) : null;
  }
}

const pendingAt = (checkpoint_id: string, interrupts: readonly Interrupt[]): PendingState => ({
  checkpoint: { ns: "", checkpoint_id },
  interrupts,
  isBreakpoint: false,
});

/** `rests`: the head of the thread is where its last run has stopped. */
function pendingIn(state: ThreadState | null, head: string | null, rests: boolean): PendingState | null {
  if (!state?.checkpoint) return null;
  const { checkpoint_ns: ns, checkpoint_id } = state.checkpoint;
  const hasNextStep = state.next.length > 0 && state.tasks.every(({ error }) => error === null);
  const isBreakpoint = rests && ns === "" && checkpoint_id === head && hasNextStep;
  return { checkpoint: { ns, checkpoint_id }, interrupts: state.interrupts, isBreakpoint };
}
