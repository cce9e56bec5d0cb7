/**
 * The worker: claims runs, gives each a place and executes it there. A run starts because it was created, because it is due
 * or because another one ended; the poll is a safety net.
 */

import { isOutage } from "../errors.ts";
import type { GraphInfo } from "../executor/contract.ts";
import type { ClaimedRun, ClaimRequest, ClaimTerms, RunRow, TerminalStatus, TraceTerms } from "../storage/mod.ts";
import type { RunEvents } from "../streams/hub.ts";
import {
  type Execution,
  type ExecutionOptions,
  type NextClaim,
  type Place,
  type StopReason,
  startExecution,
} from "./attempt.ts";

export { closeRunEvents, endDeleted, endRolledBack, tailLength, waitResult } from "../streams/terminal.ts";
export type { StopReason } from "./attempt.ts";
export { firstId } from "./progress.ts";

export interface WorkerOptions extends ExecutionOptions {
  readonly concurrency: number;
  /** How runs are billed. */
  readonly trace?: TraceTerms;
  /** A run is not executed here any more and has not ended: readers of its tape wait for whoever has it now. */
  onLeft(run: Pick<RunRow, "run_id" | "thread_id">, runEvents: RunEvents): void;
  /** Runs wait that this process has known of: it has no place for them, or something that may execute elsewhere is in their way. */
  onWaiting?: () => void;
  /** This process executes from now on; or, once, it stands by. */
  onRole?: () => void;
}

/** What the worker has done since it was made. */
export interface WorkerCounters {
  readonly executing: number;
  /** Claims asked for by themselves, not with the creation or the end of a run. */
  readonly claims: number;
  readonly started: number;
  /** Started for another time, because an earlier attempt came to no end. */
  readonly retried: number;
  readonly leases_lost: number;
  readonly ended: Readonly<Record<TerminalStatus, number>>;
  readonly frames_shown: number;
  readonly frames_stored: number;
}

export interface Worker {
  /** A run may be waiting: look now. */
  wake(): void;
  /** A run was made that may start: it is looked for here, and left to others where there is no place. `busy`: its thread was. */
  offer(busy: boolean): void;
  /** A run is due then: look at that time. */
  wakeAt(time: number): void;
  /** A free place, for a claim inside createRun; null when there is none. Ends with `start` or `release`. */
  reserve(): ClaimTerms | null;
  start(claimed: ClaimedRun): void;
  release(terms: ClaimTerms): void;
  /** Stops a run that executes here, or is about to. False when it does not, or stops for another reason already. */
  cancel(run_id: string, reason: StopReason): boolean;
  /** Another process may have stopped this run, or those of this thread, or any: those that execute here look whether they are to stop. */
  look(of: { readonly run_id?: string; readonly thread_id?: string }): void;
  /** False when the run does not execute here; else resolves when what its readers have been shown is stored, or cannot be soon. */
  caughtUp(run_id: string): Promise<boolean>;
  /** Resolves when nothing of the run executes here any more, and what it left is stored. */
  settled(run_id: string): Promise<void>;
  /** Another process executes the runs of this database. */
  standby(): boolean;
  /** False when claiming has failed, or has not answered, for a while. */
  healthy(): boolean;
  counters(): WorkerCounters;
  /** Takes no more runs, waits `grace_ms` for those that execute, then puts the rest back. */
  stop(grace_ms: number): Promise<void>;
}

interface UnderWay {
  readonly token: string;
  readonly until: number;
  readonly answered: Promise<void>;
  answer(): void;
}

const MAX_ATTEMPTS = 3;
const POLL_MS = 2_000;
const STANDBY_MS = 250;
const RETRY_MS = 500;
/** How long the answer of a claim is waited for when its lease is over, and how often when the process stands still meanwhile. */
const LATE_MS = 100;
const LATE_TIMES = 8;
const UNHEALTHY_MS = 10_000;
/** How long after the grace time executors and store have to let go. */
const LAST_MS = 20_000;
/** A longer wait is cut into pieces: timers have a limit. */
const LONGEST_WAIT_MS = 3_600_000;
/** How many stops of runs that may be on their way to this worker are remembered. */
const EARLY_STOPS = 1_000;

export function createWorker(options: WorkerOptions): Worker {
  const { storage, scope, executor, environment, concurrency, lease_ms } = options;
  const graphs = new Map(executor.graphs().map((graph) => [graph.graph_id, graph]));
  const graph_ids = [...graphs.keys()];
  const max_attempts = Object.fromEntries(
    [...graphs].map(([graph_id, graph]) => [graph_id, graph.max_attempts ?? MAX_ATTEMPTS]),
  );
  // An agent that begins anew each time would store its first steps for ever.
  const progress_ms = Object.fromEntries(
    [...graphs].flatMap(([graph_id, { checkpoints, timeout_ms }]) =>
      checkpoints === "own" ? [[graph_id, timeout_ms ?? options.run_timeout_ms]] : [],
    ),
  );
  const executing = new Set<Execution>();
  // Stops of runs that do not execute here; a claim that is on its way may bring them.
  const early = new Map<string, StopReason>();
  // Runs that others have told of meanwhile: perhaps that they are to stop.
  const heard = new Set<string>();
  const due: number[] = [];
  const counted = { claims: 0, started: 0, retried: 0, leases_lost: 0, frames_shown: 0, frames_stored: 0 };
  const counters = { ...counted, ended: { success: 0, error: 0, timeout: 0, interrupted: 0 } };
  // Claims with the creation or the end of a run that are not answered.
  const underWay = new Map<string, UnderWay>();
  let reserved = 0;
  // Ends of runs that claim the next one and have not been answered.
  let ending = 0;
  let active = false;
  let told = false;
  let stopping = false;
  let claiming: Promise<void> | null = null;
  // Runs may be waiting: nothing has said yet that none is.
  let backlog = true;
  let wakes = 0;
  // Runs that were made here and may wait, of which the others do not know.
  let offered = 0;
  // Runs wait for others of their threads to end.
  let blocked = false;
  let failingSince: number | null = null;
  // It fails because the store cannot be reached: no fault of this process, and nothing that a new one could mend.
  let outage = false;
  let askedAt: number | null = null;
  // When the last claim by itself was asked for: only these take up what a process has left that is dead.
  let claimedAt = Number.NEGATIVE_INFINITY;
  let lookedAt = environment.now();
  let cancelPoll = (): void => {};
  let cancelDue = (): void => {};
  let cancelRetry = (): void => {};
  let onIdle: (() => void) | undefined;

  function send(sent: ClaimTerms): void {
    const { promise, resolve } = Promise.withResolvers<void>();
    underWay.set(sent.token, { token: sent.token, until: sent.lease_until, answered: promise, answer: resolve });
  }
  function answer(token: string): void {
    underWay.get(token)?.answer();
    underWay.delete(token);
  }
  /** What is leased here, or may be, and is over: a claim would take it from under whoever executes it. */
  function overdue(now: number): { readonly claims: readonly UnderWay[]; readonly executions: readonly Execution[] } {
    return {
      claims: [...underWay.values()].filter(({ until }) => until <= now),
      executions: [...executing].filter((execution) => execution.over(now)),
    };
  }
  /**
   * The answer of a claim that is late: a process that stood still gets it soon. A store that is slow must not hold up the rest,
   * unless nobody but this process could take up what the claim brings.
   */
  async function awaitAnswer(claim: UnderWay): Promise<void> {
    let cancel = (): void => {};
    const wait = (times: number): void => {
      const until = environment.now() + LATE_MS;
      cancel = environment.timer(LATE_MS, () => {
        // While the process stands still nothing is answered: that says nothing about the store. One that is busy is always late.
        if (times > 1 && environment.now() - until > LATE_MS / 10) return wait(times - 1);
        underWay.delete(claim.token);
        claim.answer();
      });
    };
    if (!storage.single_process) wait(LATE_TIMES);
    await claim.answered;
    cancel();
  }
  function behind(now: number): boolean {
    const { claims, executions } = overdue(now);
    return claims.length + executions.length > 0;
  }
  /** A blocked event loop or a machine that slept is no reason to execute a run twice. */
  async function catchUp(now: number): Promise<void> {
    const { claims, executions } = overdue(now);
    await Promise.all([...claims.map(awaitAnswer), ...executions.map((execution) => execution.beforeClaim())]);
  }

  const places = (): number => (active && !stopping ? concurrency - executing.size - reserved : 0);
  const room = (): boolean => places() > 0;
  const terms = (now: number): ClaimTerms => ({
    token: environment.uuid(),
    lease_until: now + lease_ms,
    ...(options.trace ? { trace: options.trace } : {}),
  });
  const request = (now: number): ClaimRequest => ({ ...terms(now), graph_ids, max_attempts, progress_ms, now });

  /** Asks the storage for work; undefined when that failed. */
  async function ask<Answer>(question: () => Promise<Answer>): Promise<Answer | undefined> {
    askedAt = environment.now();
    try {
      const answer = await question();
      failingSince = null;
      outage = false;
      return answer;
    } catch (error) {
      failingSince ??= environment.now();
      outage ||= isOutage(error);
      environment.log({ level: "error", message: "claiming a run failed", error });
      return undefined;
    } finally {
      askedAt = null;
    }
  }

  /** Only one process executes on an embedded file: the others look again and again whether it is dead. */
  function enter(): void {
    lookedAt = environment.now();
    claiming = ask(() => storage.becomeWorker(environment.now())).then((may) => {
      claiming = null;
      if (stopping) return;
      active = may === true;
      if (active) {
        poll();
        wake();
        options.onRole?.();
        return;
      }
      if (may === false && !told) {
        told = true;
        options.onRole?.();
        environment.log({
          level: "info",
          message: "another process executes runs on this database; this one stands by",
        });
      }
      cancelPoll = environment.timer(STANDBY_MS, enter);
    });
  }

  async function claimAll(): Promise<void> {
    while (backlog && room()) {
      backlog = false;
      reserved++;
      const outcome = await ask(async () => {
        let now = environment.now();
        // Again and again: time passes while the store answers.
        while (behind(now)) {
          await catchUp(now);
          now = environment.now();
        }
        counters.claims++;
        claimedAt = now;
        // By the same time: what was not over then is not over for the claim, however long the process stands still in between.
        return storage.claimRun(scope, request(now));
      });
      reserved--;
      if (!outcome) {
        backlog = true;
        // One, however many were woken meanwhile.
        cancelRetry();
        cancelRetry = environment.timer(RETRY_MS, wake);
        return;
      }
      blocked = outcome.kind === "blocked";
      if (outcome.kind !== "claimed") {
        if (!backlog) offered = 0;
        continue;
      }
      backlog = true;
      offered = Math.max(0, offered - 1);
      start(outcome.claimed);
    }
  }

  function wake(): void {
    backlog = true;
    wakes++;
    if (!claiming && room()) claim();
  }

  /** Not of runs that this process takes at once: the others would look in vain, and meanwhile not take their own at once. */
  function share(): void {
    if (offered <= places()) return;
    offered = 0;
    options.onWaiting?.();
  }

  function claim(): void {
    claiming = claimAll().finally(() => {
      claiming = null;
      forgetEarly();
      share();
      if (backlog && room() && failingSince === null) claim();
      idle();
    });
  }

  function poll(): void {
    lookedAt = environment.now();
    cancelPoll = environment.timer(POLL_MS, () => {
      wake();
      poll();
    });
  }

  /** One timer, for the run that is due first. */
  function awaitDue(): void {
    cancelDue();
    const first = due[0];
    if (first === undefined || stopping) return;
    cancelDue = environment.timer(Math.min(Math.max(0, first - environment.now()), LONGEST_WAIT_MS), () => {
      const later = due.findIndex((time) => time > environment.now());
      if (due.splice(0, later < 0 ? due.length : later).length > 0) {
        wake();
        if (!room()) options.onWaiting?.();
      }
      awaitDue();
    });
  }

  /**
   * The end of a run claims the one that is to have its place, where some are known to wait. Now and then it leaves that to a claim
   * by itself: where every place is always taken, none would ever be made.
   */
  function next(): NextClaim | null {
    const now = environment.now();
    if (stopping || !(backlog || blocked) || behind(now) || now - claimedAt >= POLL_MS) return null;
    const seen = wakes;
    const claim = request(now);
    ending++;
    send(claim);
    return {
      request: claim,
      answered(outcome) {
        ending--;
        answer(claim.token);
        if (outcome?.next) start(outcome.next);
        else if (!outcome) backlog = true;
        else if (wakes === seen) {
          // Nothing could be taken, and nothing was made since. Some may still wait for their threads.
          backlog = false;
          blocked = outcome.blocked ?? true;
        }
        forgetEarly();
      },
    };
  }

  function forgetEarly(): void {
    if (reserved + ending > 0) return;
    early.clear();
    heard.clear();
  }

  const here = (run_id: string): Execution[] => [...executing].filter((execution) => execution.run_id === run_id);

  function start(claimed: ClaimedRun): void {
    const { run_id, thread_id } = claimed.run;
    let looked = false;
    const place: Place = {
      counters,
      wake,
      waiting: () => backlog || blocked,
      next() {
        const claim = next();
        looked = claim !== null;
        return claim;
      },
    };
    const execution = startExecution(options, place, graphs.get(claimed.run.graph_id) as GraphInfo, claimed);
    executing.add(execution);
    counters.started++;
    if (claimed.run.attempt > 1) counters.retried++;
    const stopped = early.get(run_id) ?? (claimed.cancelled ? "cancelled" : stopping ? "shutting_down" : null);
    if (stopped) execution.stop(stopped);
    early.delete(run_id);
    if (heard.delete(run_id)) execution.look();
    void execution.done.then(() => {
      executing.delete(execution);
      if (here(run_id).length === 0) {
        const runEvents = execution.runEvents;
        runEvents.live = false;
        if (!runEvents.outcome) options.onLeft({ run_id, thread_id }, runEvents);
      }
      // Its end frees its place for those that waited for it, and its thread, if nobody looked in the batch of its end.
      if (backlog || claiming || (blocked && !looked)) wake();
      idle();
    });
  }

  function idle(): void {
    if (executing.size + reserved === 0) onIdle?.();
  }

  if (concurrency > 0) enter();

  return {
    wake,
    offer(busy) {
      offered++;
      wake();
      if (busy) options.onWaiting?.();
      else share();
    },
    wakeAt(time) {
      const later = due.findIndex((other) => other > time);
      due.splice(later < 0 ? due.length : later, 0, time);
      if (due[0] === time) awaitDue();
    },
    reserve() {
      // Older runs first: a new one takes a place at once only when there is one left for each that was made here and waits. Where it
      // had to wait for every look that goes on, it would need one itself, and so would the next.
      const now = environment.now();
      if (places() <= offered || behind(now)) return null;
      const sent = terms(now);
      reserved++;
      send(sent);
      return sent;
    },
    start(claimed) {
      reserved--;
      start(claimed);
      answer(claimed.lease.token);
      forgetEarly();
    },
    release({ token }) {
      reserved--;
      answer(token);
      forgetEarly();
      // Runs that found no place because of this one.
      if (backlog) wake();
      idle();
    },
    cancel(run_id, reason) {
      const executions = here(run_id);
      if (executions.length === 0 && reserved + ending > 0) {
        if (early.size >= EARLY_STOPS) early.clear();
        early.set(run_id, reason);
      }
      return executions.filter((execution) => execution.stop(reason)).length > 0;
    },
    look({ run_id, thread_id }) {
      if (run_id !== undefined && reserved + ending > 0) {
        if (heard.size >= EARLY_STOPS) heard.clear();
        heard.add(run_id);
      }
      for (const execution of executing) {
        if (run_id !== undefined && run_id !== execution.run_id) continue;
        if (thread_id === undefined || thread_id === execution.thread_id) execution.look();
      }
    },
    caughtUp: async (run_id) => (await Promise.all(here(run_id).map((execution) => execution.caughtUp()))).length > 0,
    async settled(run_id) {
      await Promise.all(here(run_id).map((execution) => execution.done));
    },
    standby: () => concurrency > 0 && !active,
    healthy() {
      const now = environment.now();
      const stuck = (since: number | null): boolean => since !== null && now - since >= UNHEALTHY_MS;
      const failing = stuck(failingSince) && !outage;
      return concurrency === 0 || stopping || !(failing || stuck(askedAt) || now - lookedAt > 3 * POLL_MS);
    },
    counters: () => ({ ...counters, ended: { ...counters.ended }, executing: executing.size }),
    async stop(grace_ms) {
      stopping = true;
      share();
      cancelPoll();
      cancelDue();
      cancelRetry();
      if (executing.size + reserved === 0) return;
      const cancels: (() => void)[] = [];
      await new Promise<void>((resolve) => {
        onIdle = resolve;
        cancels.push(
          environment.timer(grace_ms, () => {
            for (const execution of executing) execution.stop("shutting_down");
          }),
          // A store that never answers must not hold up the process.
          environment.timer(grace_ms + LAST_MS, resolve),
        );
      });
      for (const cancel of cancels) cancel();
    },
  };
}
