/** What the oracle remembers of runs, threads, claims and executions. */
import type { Script } from "../agent.ts";
import type { Process } from "../node.ts";
import type { Plan } from "../plan.ts";

/** How long an executor may go on after it was told to stop, before its thread goes on without it, by how processes share the work. */
export const ABANDON_MS: Readonly<Record<Plan["mode"], number>> = { leases: 5_000, file: 1_000 };

export const RUN_COLUMNS: readonly (keyof RunState)[] = [
  "run_id",
  "thread_id",
  "seq",
  "status",
  "attempt",
  "claims",
  "lease_token",
  "lease_until",
  "cancelled",
  "due_at",
  "created_at",
  "ended_at",
  "end_frame",
  "has_frames",
  "stateless",
  "has_checkpoint",
  "progressed",
  "started_at",
  "updated_at",
];
export const THREAD_COLUMNS: readonly (keyof ThreadState)[] = [
  "thread_id",
  "slot_token",
  "slot_until",
  "head",
  "status",
  "hidden",
  "claim_count",
];
/** Tables whose rows belong to a run. */
export const LEFT_BY_RUN = ["checkpoints", "checkpoint_writes", "channel_values", "run_frames"] as const;
/** Tables whose rows have spans of a run. */
export const SPANS_OF_RUN = ["run_traces", "run_trace_parts"] as const;
/** Tables whose rows belong to the trace of a run. */
export const TRACE_TABLES = [...SPANS_OF_RUN, "run_trace_contents"] as const;

/** A row of `runs`. */
export interface RunState {
  readonly run_id: string;
  readonly thread_id: string;
  readonly seq: number;
  readonly status: string;
  readonly attempt: number;
  readonly claims: number;
  readonly lease_token: string | null;
  readonly lease_until: number | null;
  readonly cancelled: number;
  readonly due_at: number;
  readonly created_at: number;
  readonly ended_at: number | null;
  readonly end_frame: number | null;
  readonly has_frames: number;
  readonly stateless: number;
  readonly has_checkpoint: number;
  readonly progressed: number;
  readonly started_at: number | null;
  readonly updated_at: number;
}

/** A row of `threads`. */
export interface ThreadState {
  readonly thread_id: string;
  readonly slot_token: string | null;
  readonly slot_until: number | null;
  readonly head: string | null;
  readonly status: string;
  readonly hidden: number;
  readonly claim_count: number;
}

/** One claim of a run. */
export interface Claim {
  readonly run_id: string;
  readonly token: string;
  readonly process: Process;
  readonly at: number;
  readonly attempt: number;
  /** When its slot is over, as it was extended last. */
  until: number;
  /** 0 where the run is only to be ended. */
  readonly charged: number;
  /** An executor has begun with it. */
  executed: boolean;
  /** Its process has put the run back. */
  returned: boolean;
}

/** One attempt as its executor sees it. */
export interface Execution {
  readonly process: Process;
  readonly run_id: string;
  readonly thread: ThreadNote;
  readonly claim: Claim | undefined;
  readonly started: number;
  stoppedAt: number | null;
  /** It waits for its event to be taken: it does nothing by itself. */
  yielding: boolean;
  /** The number of events of mode `custom` that it has emitted. */
  emittedCount: number;
}

export interface RunNote {
  readonly run_id: string;
  /** The name its messages carry. */
  readonly tag: string;
  readonly script: Script;
  readonly thread: ThreadNote;
  /** Its frames are stored, and still there. */
  framed: boolean;
  readonly resumable: boolean;
  /** True: its frames contain the output of its executor. */
  readonly shows: boolean;
  readonly temporary: boolean;
  /** The URL that is notified of its end. */
  readonly webhook: string | null;
  /** Its feedback tokens: key and id. */
  readonly tokens: readonly (readonly [key: string, id: string])[];
  readonly claims: Claim[];
  state: RunState;
  /** `rolled_back`: gone while it was active. `deleted`: gone after its end. */
  fate: "present" | "rolled_back" | "deleted" | "swept" | "thread_deleted";
  /** The process that has created it. */
  readonly createdBy: Process;
  /** The process that has made it pending again, the last time. */
  requeuedBy: Process | null;
  /** The execution of its last claim. */
  lastExecution: Execution | null;
  /** The ids of the interrupts that it answers; null for a stop without one. */
  readonly targets: readonly (string | null)[];
  /** Its executor writes its checkpoints itself. */
  readonly savesItself: boolean;
  /** The number of root checkpoints that it had stored at its last claim. */
  rooted: number;
  /** The number of root checkpoints that it had stored when it ended. */
  saved: number;
}

/** A thread between its creation and its deletion: a thread that was deleted and created again is another one. */
export interface ThreadNote {
  readonly thread_id: string;
  readonly name: string;
  state: ThreadState;
  deleted: boolean;
  /** Runs in the order in which they ended. */
  readonly ended: RunNote[];
  readonly runs: RunNote[];
  /** The time since which its thread lock is free. */
  freeSince: number;
}

export const isActive = (run: RunNote): boolean => run.fate === "present" && isActiveStatus(run.state.status);

export const isActiveStatus = (status: string): boolean => status === "pending" || status === "running";
