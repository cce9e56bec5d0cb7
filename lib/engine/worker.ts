/**
 * Executes runs in the slots of a process. claims.ts decides when it claims, attempt.ts executes what it has claimed. A run
 * starts because it was created, because it is due, or because another one ended; the poll is a safety net.
 */
import { createLoopStallDetector, type Environment } from "../environment.ts";
import type { GraphInfo } from "../executor/contract.ts";
import type { ChangeOrigin } from "../storage/event-bus.ts";
import type { ClaimedRun, RunRow, TerminalStatus } from "../storage/mod.ts";
import type { RunLog } from "../streams/hub.ts";
import { startAttempt } from "./attempt.ts";
import type { Attempt, WorkerSlot } from "./attempt-options.ts";
import type { StopReason } from "./attempt-state.ts";
import {
  type ClaimOptions,
  Claims,
  createReservations,
  POLL_MS,
  type Reservations,
  type WorkerSlots,
} from "./claims.ts";
import { type ClaimHealth, createClaimHealth } from "./health.ts";
import { createLeaseGuard } from "./leases.ts";
import { createSaveScheduler } from "./save-scheduler.ts";

interface WorkerOptions extends ClaimOptions {
  /** The number of slots; 0 if this process executes no runs. */
  readonly concurrency: number;
  readonly slots: WorkerSlots;
  /**
   * Called when an attempt ended here and its run did not. Subscribers then follow the process that retries it. It gets the log,
   * so that no read is needed.
   */
  onAttemptReleased(run: Pick<RunRow, "run_id" | "thread_id">, runLog: RunLog): void;
}

/** The counters of the worker since it was created. */
export interface WorkerCounters {
  readonly executing: number;
  /** The number of separate claims, without those sent with the creation or the end of a run. */
  readonly claims: number;
  readonly started: number;
  /** The number of attempts that repeat an earlier one, which did not reach its end. */
  readonly retried: number;
  readonly leases_lost: number;
  readonly ended: Readonly<Record<TerminalStatus, number>>;
  readonly frames_shown: number;
  readonly frames_stored: number;
}

export interface Worker extends Reservations {
  /**
   * Is called after a due run was created: claims soon, and signals the new work to other processes, at once if `busy`, because
   * its thread was busy, otherwise as part of the backlog.
   */
  offer(busy: boolean): void;
  /** Schedules a claim at the time at which a run is due. Without a free slot then, signals the work to other processes, too. */
  wakeAt(time: number): void;
  /**
   * Stops the attempts of a run here. Returns true if one stops for this reason, also if it did before. Returns false for a run
   * without an attempt here; if a claim in flight brings it, it is stopped when it starts.
   */
  cancel(run_id: string, reason: StopReason): boolean;
  /** Resolves when the attempts of the run that are here now have ended and this is stored; at once without one. */
  whenDone(run_id: string): Promise<void>;
  /**
   * Returns false if claiming has failed or had no response, or the poll has not run, for some time. True during a stop and
   * without slots.
   */
  isHealthy(): boolean;
  /** Returns a copy of the counters. */
  counters(): WorkerCounters;
  /**
   * Claims nothing more, waits for running attempts and claims, and stops the attempts after `grace_ms`, which returns their runs
   * to the queue. Resolves 20 s later at the latest, even if some still run. Stops acquiring the worker lock, and does not
   * release it.
   */
  stop(grace_ms: number): Promise<void>;
}

/** Half of the time in milliseconds for which events may keep the event loop from ticking. */
const MAX_LOOP_BUSY_MS = 2;
/** The time for executors and storage to finish after the grace period, in milliseconds. */
const SHUTDOWN_MARGIN_MS = 20_000;

/**
 * Creates the worker and subscribes it to signals. With a `concurrency` it tries in the background to acquire the worker lock.
 * Then it opens the slots, starts to poll and to claim, and wakes all listeners of the bus; the first refusal of the lock wakes
 * them, too. With the concurrency 0 it executes nothing and wakes all listeners before it returns.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createWorker(options: WorkerOptions): Worker {
  const { storage, bus, scope, environment, concurrency, slots } = options;
  const graphs = new Map(options.executor.graphs().map((graph) => [graph.graph_id, graph]));
  const health = createClaimHealth(environment);
  const leases = createLeaseGuard(environment, slots.attempts, storage.single_process);
  const parts = { slots, health, leases, start };
  const claims = new Claims(options, parts);
  const dueTimer = createDueTimer(environment, () => {
    claims.wake();
    if (slots.countFree() <= 0) bus.publish("work", scope.deployment, "elsewhere");
  });
  const ended = { success: 0, error: 0, timeout: 0, interrupted: 0 };
  const counters = { started: 0, retried: 0, leases_lost: 0, frames_shown: 0, frames_stored: 0, ended };
  const isLoopStalled = createLoopStallDetector(environment, MAX_LOOP_BUSY_MS);
  const scheduleSave = createSaveScheduler(environment);
  let isStopping = false;
  let cancelPoll = (): void => {};
  let stopAcquiringLock = (): void => {};

  /**
   * Starts an attempt of a claimed run in a slot, and counts it. Applies stops that arrived before it, a stored cancel and a
   * shutdown in progress; the reason of a stop that arrived before has precedence.
   */
  function start(claimed: ClaimedRun): void {
    const { run_id, thread_id, graph_id, attempt: number } = claimed.run;
    let hasEndClaim = false;
    const slot: WorkerSlot = {
      counters,
      scheduleSave,
      isLoopStalled,
      earlierExecutions: slots.listExecutions(thread_id),
      hasWaitingRuns: () => claims.hasWaitingRuns(),
      wakeAt(time) {
        // The poll finds later times: thousands of runs may wait.
        if (time - environment.now() < MAX_TIMER_AHEAD_MS) dueTimer.add(time);
      },
      nextClaim() {
        const claim = claims.createNextClaim();
        hasEndClaim = claim !== null;
        return claim;
      },
      /**
       * Frees the slot: takes the attempt out, ends the run's live log if no other attempt of the run is here, and lets the next
       * claim begin.
       */
      release() {
        slots.attempts.delete(attempt);
        slots.freedCount++;
        if (slots.findAttempts(run_id).length === 0) {
          const { runLog } = attempt;
          runLog.isLive = false;
          if (!runLog.completion) options.onAttemptReleased({ run_id, thread_id }, runLog);
        }
        claims.onSlotFreed(hasEndClaim);
        slots.checkIdle();
      },
    };
    const attempt = startAttempt(options, slot, graphs.get(graph_id) as GraphInfo, claimed);
    slots.attempts.add(attempt);
    counters.started++;
    if (number > 1) counters.retried++;
    const signal = slots.drainStopSignals(run_id);
    const reason = signal.reason ?? findInitialStop(claimed);
    if (reason) attempt.stop(reason);
    if (signal.check) attempt.checkCancelled();
  }

  /**
   * Returns the reason to stop an attempt before it begins: `cancelled` if its cancel flag was stored, `shutting_down` if the
   * worker stops, else null.
   */
  function findInitialStop(claimed: ClaimedRun): StopReason | null {
    if (claimed.cancelled) return "cancelled";
    return isStopping ? "shutting_down" : null;
  }

  /** Records the poll for the health check, and wakes the claims at each interval, from the first interval on. */
  function poll(): void {
    health.recordPoll();
    cancelPoll = environment.timer(POLL_MS, () => {
      claims.wake();
      poll();
    });
  }

  /**
   * Makes matching attempts read their cancel flag, because other processes may have set it. Does nothing for a signal of this
   * process (`here`): its stops come by `cancel`, with their reason and without a read.
   */
  function checkCancelled(from: ChangeOrigin, matches: (attempt: Attempt) => boolean): void {
    if (from === "here") return;
    for (const attempt of slots.attempts) if (matches(attempt)) attempt.checkCancelled();
  }

  bus.subscribe("work", scope.deployment, () => claims.wake());
  bus.subscribe("run", null, (run_id, from) => {
    if (run_id !== undefined && from !== "here") slots.checkCancelOnStart(run_id);
    checkCancelled(from, (attempt) => run_id === undefined || run_id === attempt.run_id);
  });
  bus.subscribe("thread", null, (thread_id, from) =>
    checkCancelled(from, (attempt) => thread_id === attempt.thread_id),
  );

  // Webhooks wait for this too: the deliveries of a dead worker are free only once this process takes over from it.
  if (concurrency === 0) bus.notifyAll();
  else {
    /** Opens the slots, starts to poll, and wakes all listeners, because they may have missed changes. */
    const onAcquired = (): void => {
      slots.isOpen = true;
      poll();
      bus.notifyAll();
    };
    stopAcquiringLock = acquireWorkerLock(options, health, onAcquired, bus.notifyAll);
  }

  return {
    offer: (busy) => claims.offer(busy),
    wakeAt: dueTimer.add,
    ...createReservations(options, parts, claims),
    cancel(run_id, reason) {
      const attempts = slots.findAttempts(run_id);
      if (attempts.length === 0) slots.stopOnStart(run_id, reason);
      return attempts.filter((attempt) => attempt.stop(reason)).length > 0;
    },
    async whenDone(run_id) {
      await Promise.all(slots.findAttempts(run_id).map((attempt) => attempt.done));
    },
    isHealthy: () => concurrency === 0 || isStopping || health.isHealthy(3 * POLL_MS),
    counters: () => ({ ...counters, claims: claims.countSent(), ended: { ...ended }, executing: slots.attempts.size }),
    async stop(grace_ms) {
      isStopping = true;
      slots.isOpen = false;
      claims.stop();
      stopAcquiringLock();
      cancelPoll();
      dueTimer.stop();
      await waitForAttempts(slots, environment, grace_ms);
    },
  };
}

/**
 * Waits for the running attempts and claims. After `grace_ms` stops the attempts as `shutting_down`, and resolves
 * `SHUTDOWN_MARGIN_MS` later at the latest, even if some still run.
 */
async function waitForAttempts(slots: WorkerSlots, environment: Environment, grace_ms: number): Promise<void> {
  if (slots.isIdle()) return;
  const cancels: (() => void)[] = [];
  await new Promise<void>((resolve) => {
    slots.onIdle = resolve;
    cancels.push(
      environment.timer(grace_ms, () => {
        for (const attempt of slots.attempts) attempt.stop("shutting_down");
      }),
      // A storage that never responds must not keep the process alive.
      environment.timer(grace_ms + SHUTDOWN_MARGIN_MS, resolve),
    );
  });
  for (const cancel of cancels) cancel();
}

/** The time within which a suspended run must be due to get a timer, in milliseconds. Other timers are not worth their memory. */
const MAX_TIMER_AHEAD_MS = 60_000;

/** The maximum delay of a timer, in milliseconds. Longer waits are split. */
const MAX_TIMER_MS = 3_600_000;

/**
 * Creates one timer for all times at which runs become due, which starts when a time is added. Calls `onDue` once for all times
 * that have come together; a time in the past counts at the next tick.
 */
function createDueTimer(environment: Environment, onDue: () => void): { add(time: number): void; stop(): void } {
  const times: number[] = [];
  let isStopped = false;
  let cancel = (): void => {};

  /**
   * Schedules the timer for the first time. When it is reached, removes all times that have come, calls `onDue` once, and goes
   * on.
   */
  function schedule(): void {
    cancel();
    const first = times[0];
    if (first === undefined || isStopped) return;
    cancel = environment.timer(Math.min(Math.max(0, first - environment.now()), MAX_TIMER_MS), () => {
      const laterIndex = times.findIndex((time) => time > environment.now());
      if (times.splice(0, laterIndex < 0 ? times.length : laterIndex).length > 0) onDue();
      schedule();
    });
  }

  return {
    /** Adds a time. Schedules the timer anew if it is the first one. */
    add(time) {
      const laterIndex = times.findIndex((queuedTime) => queuedTime > time);
      times.splice(laterIndex < 0 ? times.length : laterIndex, 0, time);
      if (times[0] === time) schedule();
    },
    /** Cancels the timer for good. */
    stop() {
      isStopped = true;
      cancel();
    },
  };
}

/** The interval in milliseconds at which a standby tries to become the worker. */
const STANDBY_RETRY_MS = 250;

/**
 * Tries until this process has the worker lock, and then calls `onAcquired`: one process at a time executes the runs of an
 * embedded database, and the others stand by. Tries every 250 ms, also after an error, which is logged. The first refusal is
 * logged and calls `onStandby`. The returned function stops the tries and does not release the lock.
 */
function acquireWorkerLock(
  { storage, environment }: WorkerOptions,
  health: ClaimHealth,
  onAcquired: () => void,
  onStandby: () => void,
): () => void {
  let isStopped = false;
  let isAnnounced = false;
  let cancel = (): void => {};

  /**
   * Tries to take the worker lock, and records that for the health check. On success calls `onAcquired`; otherwise tries again
   * later. The first refusal is logged and calls `onStandby`. Does nothing more once the tries were stopped. Never rejects.
   */
  async function acquire(): Promise<void> {
    health.recordPoll();
    const isAcquired = await health.call(() => storage.becomeWorker(environment.now()));
    if (isStopped) return;
    if (isAcquired) return onAcquired();
    if (isAcquired === false && !isAnnounced) {
      isAnnounced = true;
      onStandby();
      const message = "standby: another process holds the worker lock of this database";
      environment.log({ level: "info", message });
    }
    cancel = environment.timer(STANDBY_RETRY_MS, () => void acquire());
  }

  void acquire();
  return () => {
    isStopped = true;
    cancel();
  };
}
