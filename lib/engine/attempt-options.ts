/** The interfaces between the worker and its attempts. */
import type { Environment } from "../environment.ts";
import type { Executor, StoreHandle } from "../executor/contract.ts";
import type { Prices } from "../executor/model-usage.ts";
import type { CombinedFeatures } from "../features/mod.ts";
import type { EventBus } from "../storage/event-bus.ts";
import type { ClaimRequest, FinishRunResult, Scope, Storage, TerminalStatus } from "../storage/mod.ts";
import type { RunLog, StreamHub } from "../streams/hub.ts";
import type { ThreadEventLogs } from "../streams/thread-events.ts";
import type { StopReason } from "./attempt-state.ts";
import type { OnRunFinished } from "./finished-runs.ts";
import type { LeasedAttempt } from "./leases.ts";
import type { ScheduleSave } from "./save-scheduler.ts";

export interface AttemptOptions {
  readonly storage: Storage;
  readonly bus: EventBus;
  readonly scope: Scope;
  readonly executor: Executor;
  readonly hub: StreamHub;
  readonly events: ThreadEventLogs;
  readonly store: StoreHandle;
  readonly environment: Environment;
  readonly lease_ms: number;
  /** The time limit of an attempt, unless its graph sets one. */
  readonly run_timeout_ms: number;
  readonly prices: Prices;
  readonly features: CombinedFeatures;
  /** Called once the end of a run is stored. */
  readonly onFinished?: OnRunFinished;
}

/** The slot of the worker in which an attempt executes. */
export interface WorkerSlot {
  /**
   * The running executors of this process on the thread, whose leases are lost. A claim that was sent earlier may bring the run
   * again.
   */
  readonly earlierExecutions: readonly Promise<void>[];
  readonly counters: AttemptCounters;
  readonly scheduleSave: ScheduleSave;
  /** Returns true if the event loop has not ticked for some time. */
  isLoopStalled(): boolean;
  /**
   * Schedules a claim at the time until which the run waits. Does nothing for a time more than a minute ahead, which the poll
   * finds.
   */
  wakeAt(time: number): void;
  /** Creates a claim for the next run in this slot, to be sent with the end of this run. Returns null unless runs wait. */
  nextClaim(): NextClaim | null;
  /** Returns true if runs wait for a slot or for their threads, as far as this process has read. */
  hasWaitingRuns(): boolean;
  /**
   * Frees the slot of an attempt that has ended. Readers of its result may create the next run at once, which takes this slot.
   */
  release(): void;
}

export interface NextClaim {
  readonly request: ClaimRequest;
  /** Called with the response to the claim; undefined if the call failed. */
  onResponse(outcome: FinishRunResult | undefined): void;
}

interface AttemptCounters {
  frames_shown: number;
  frames_stored: number;
  leases_lost: number;
  readonly ended: Record<TerminalStatus, number>;
}

/** The interface of an attempt for the worker. */
export interface Attempt extends LeasedAttempt {
  readonly run_id: string;
  readonly thread_id: string;
  readonly runLog: RunLog;
  /** Resolves when the executor has settled or was abandoned, and the end of the run is stored. */
  readonly done: Promise<void>;
  /** Resolves when the executor has settled or was abandoned; null after that. */
  readonly executing: Promise<void> | null;
  /** True if the attempt stops for this reason. */
  stop(reason: StopReason): boolean;
  /** Reads the run's cancel flag again: another process may have set it. */
  checkCancelled(): void;
  /** Stores the recorded events within milliseconds, because a client reads the events of the thread. */
  scheduleSave(): void;
  /** Resolves when all emitted output is stored, or cannot be stored soon. */
  flushEmitted(): Promise<void>;
}
