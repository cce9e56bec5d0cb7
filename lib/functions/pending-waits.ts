/** The pending operations of a call: they wait for times, events and resume values. */
import type { Environment } from "../environment.ts";
import type { Interrupt } from "../executor/contract.ts";
import type { ActiveJournal, ExternalEvent, StepKind, WaitingFor } from "../executor/journal.ts";
import { findSchemaMismatch } from "../executor/schema-check.ts";
import { formatStepName } from "../executor/step-names.ts";
import type { JsonObject } from "../json.ts";
import type { OperationUse } from "./replay.ts";

interface PendingWait {
  readonly operation: OperationUse;
  readonly until: number | null;
  /** Called when `until` has passed. */
  onDue(): void;
  /** Called with an event that fits the schema. Present for `wait` only. */
  onEvent?(event: ExternalEvent): void;
  readonly schema?: JsonObject | undefined;
  readonly ask?: Interrupt;
}

interface PendingWaitsOptions {
  readonly journal: ActiveJournal;
  readonly environment: Pick<Environment, "now" | "timer">;
  /** Called with an event that does not fit the schema of its wait. */
  onEventDropped(operation: OperationUse, event: ExternalEvent, problem: string): void;
  /** Called when the function only waits, for `IDLE_MS`. */
  onIdle(): void;
}

/** A function that only waits is suspended after this time. */
const IDLE_MS = 50;
const MAX_TIMER_MS = 2 ** 31 - 1;

export class PendingWaits {
  readonly #options: PendingWaitsOptions;
  readonly #pending = new Set<PendingWait>();
  readonly #usedEvents = new Set<number>();
  /** The number of activities that must end before the attempt may end. */
  #activeWorkCount = 0;
  #isClosed = false;
  #watchPromise: Promise<void> | null = null;
  #cancelIdle = (): void => {};
  #cancelTimer = (): void => {};

  constructor(options: PendingWaitsOptions) {
    this.#options = options;
    for (const { event } of options.journal.entries) if (event !== undefined) this.#usedEvents.add(event);
  }

  isBusy(): boolean {
    return this.#activeWorkCount > 0;
  }

  isEmpty(): boolean {
    return this.#pending.size === 0;
  }

  /** Returns the interrupts of pending asks, in the order of their calls. */
  getPendingAsks(): Interrupt[] {
    return this.#sortByCall().flatMap(({ ask }) => ask ?? []);
  }

  #sortByCall(): PendingWait[] {
    return [...this.#pending].sort((a, b) => a.operation.call - b.operation.call);
  }

  /**
   * Counts an activity until the returned function is called, which may be called more than once. `onIdle` is not called
   * meanwhile.
   */
  beginWork(): () => void {
    this.#activeWorkCount++;
    let isOver = false;
    return () => {
      if (!isOver) this.#activeWorkCount--;
      isOver = true;
      this.recordActivity();
    };
  }

  /** Counts a promise as an activity until it settles, because another thread may resolve it late. */
  trackWork<Result>(work: Promise<Result>): Promise<Result> {
    return work.finally(this.beginWork());
  }

  /**
   * Adds a wait, sets the timer for the nearest due time and restarts the idle timer. The wait is removed when it is due, before
   * its `onDue` is called.
   */
  add(wait: PendingWait): void {
    const pendingEntry: PendingWait = {
      ...wait,
      onDue: () => {
        this.#pending.delete(pendingEntry);
        wait.onDue();
      },
    };
    this.#pending.add(pendingEntry);
    this.#scheduleTimer();
    this.recordActivity();
  }

  /** Returns when the first pending wait ends by time; null if none does. */
  findNearestDueTime(): number | null {
    let nearestTime: number | null = null;
    for (const { until } of this.#pending)
      if (until !== null && (nearestTime === null || until < nearestTime)) nearestTime = until;
    return nearestTime;
  }

  /** Returns what the run waits for, in the order of the calls. */
  toWaitingFor(): WaitingFor[] {
    return this.#sortByCall().map(({ operation: { kind, name }, until }) => ({
      kind: kind as StepKind,
      name: formatStepName(name),
      until: until === null ? null : new Date(until).toISOString(),
    }));
  }

  /** Restarts the timer that calls `onIdle` after `IDLE_MS`. Stops it while work is active, without waits and once closed. */
  recordActivity(): void {
    this.#cancelIdle();
    this.#cancelIdle = () => {};
    if (this.#activeWorkCount > 0 || this.#pending.size === 0 || this.#isClosed) return;
    this.#cancelIdle = this.#options.environment.timer(IDLE_MS, this.#options.onIdle);
  }

  /**
   * Replaces the one timer, which is set for the nearest due time. It calls `onDue` of the waits that are due then, in the order
   * of their times, and sets the next timer. Sets none without a due time and once closed.
   */
  #scheduleTimer(): void {
    this.#cancelTimer();
    const { environment } = this.#options;
    const nearestTime = this.findNearestDueTime();
    if (nearestTime === null || this.#isClosed) return;
    const delay = Math.min(Math.max(0, nearestTime - environment.now()), MAX_TIMER_MS);
    this.#cancelTimer = environment.timer(delay, () => {
      const now = environment.now();
      const dueWaits = [...this.#pending].filter(({ until }) => until !== null && until <= now);
      for (const wait of dueWaits.sort((a, b) => (a.until as number) - (b.until as number))) wait.onDue();
      // The clock was set back: a wait that was due soon may be due much later now.
      if (dueWaits.length === 0) this.recordActivity();
      this.#scheduleTimer();
    });
  }

  /**
   * Starts to listen for the events of the call, once for all waits. Resolves after it has delivered the events that had come
   * before.
   */
  async watchEvents(): Promise<void> {
    this.#watchPromise ??= this.#options.journal.listen(() => this.#deliverEvents());
    await this.trackWork(this.#watchPromise);
    this.#deliverEvents();
  }

  /**
   * Delivers events that have come to the first pending wait with their name, each event once, and removes that wait. An event
   * that does not fit the schema goes to `onEventDropped`, and its wait stays. An event without a wait stays for a later one.
   */
  #deliverEvents(): void {
    for (const event of this.#options.journal.getEvents()) {
      if (this.#usedEvents.has(event.seq)) continue;
      const wait = this.#sortByCall().find(
        ({ onEvent, operation: { name, occurrence } }) =>
          onEvent && name === event.name && (event.occurrence === null || event.occurrence === occurrence),
      );
      if (!wait) continue;
      this.recordActivity();
      this.#usedEvents.add(event.seq);
      const problem = wait.schema ? findSchemaMismatch(wait.schema, event.payload) : null;
      if (problem !== null) {
        this.#options.onEventDropped(wait.operation, event, problem);
        continue;
      }
      this.#pending.delete(wait);
      wait.onEvent?.(event);
    }
  }

  /** Drops all waits without settling them, and stops the timers. */
  close(): void {
    this.#isClosed = true;
    this.#pending.clear();
    this.#cancelIdle();
    this.#cancelTimer();
  }
}
