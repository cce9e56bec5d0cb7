/** The verbs of a call that wait: for times, events and answers. */
import type { Environment } from "../environment.ts";
import type { Interrupt } from "../executor/contract.ts";
import type { OpenJournal, OutsideEvent, StepKind, WaitingFor } from "../executor/journal.ts";
import { misfit } from "../executor/schema-check.ts";
import { labelOf } from "../executor/step-names.ts";
import type { JsonObject } from "../json.ts";
import type { OperationUse } from "./replay.ts";

/** A verb that waits. */
interface PendingWait {
  readonly operation: OperationUse;
  readonly until: number | null;
  /** Its time has come. */
  onDue(): void;
  /** Of a wait: an event has come, which fits the schema. */
  onEvent?(event: OutsideEvent): void;
  readonly schema?: JsonObject | undefined;
  readonly ask?: Interrupt;
}

interface PendingWaitsOptions {
  readonly journal: OpenJournal;
  readonly environment: Pick<Environment, "now" | "timer">;
  /** An event does not fit the schema of its wait. */
  onEventDropped(operation: OperationUse, event: OutsideEvent, problem: string): void;
  /** The function has done nothing for a while, and waits. */
  onIdle(): void;
}

/** A function that does nothing for this time, and waits for a verb, is suspended. */
const IDLE_MS = 50;
const MAX_TIMER_MS = 2 ** 31 - 1;

export class PendingWaits {
  readonly #options: PendingWaitsOptions;
  readonly #pending = new Set<PendingWait>();
  readonly #usedEvents = new Set<number>();
  /** Work that must end before the attempt may. */
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

  /** The open asks, in the order of their calls. */
  getPendingAsks(): Interrupt[] {
    return this.#sortByCall().flatMap(({ ask }) => ask ?? []);
  }

  #sortByCall(): PendingWait[] {
    return [...this.#pending].sort((a, b) => a.operation.call - b.operation.call);
  }

  /** Work begins. The result ends it. */
  beginWork(): () => void {
    this.#activeWorkCount++;
    let isOver = false;
    return () => {
      if (!isOver) this.#activeWorkCount--;
      isOver = true;
      this.recordActivity();
    };
  }

  /** What another thread may take long for counts as work: meanwhile another verb may wait. */
  trackWork<Result>(work: Promise<Result>): Promise<Result> {
    return work.finally(this.beginWork());
  }

  add(wait: PendingWait): void {
    const pendingEntry = {
      ...wait,
      due: () => {
        this.#pending.delete(pendingEntry);
        wait.onDue();
      },
    };
    this.#pending.add(pendingEntry);
    this.#scheduleTimer();
    this.recordActivity();
  }

  findNearestDueTime(): number | null {
    let nearestTime: number | null = null;
    for (const { until } of this.#pending)
      if (until !== null && (nearestTime === null || until < nearestTime)) nearestTime = until;
    return nearestTime;
  }

  toWaitingFor(): WaitingFor[] {
    return this.#sortByCall().map(({ operation: { kind, name }, until }) => ({
      kind: kind as StepKind,
      name: labelOf(name),
      until: until === null ? null : new Date(until).toISOString(),
    }));
  }

  /** Something happened. */
  recordActivity(): void {
    this.#cancelIdle();
    this.#cancelIdle = () => {};
    if (this.#activeWorkCount > 0 || this.#pending.size === 0 || this.#isClosed) return;
    this.#cancelIdle = this.#options.environment.timer(IDLE_MS, this.#options.onIdle);
  }

  /** One timer for all. */
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
      // The clock was set back: what was due soon may be far away now.
      if (dueWaits.length === 0) this.recordActivity();
      this.#scheduleTimer();
    });
  }

  /** Watches the events of the call: from the first wait on. */
  async watchEvents(): Promise<void> {
    this.#watchPromise ??= this.#options.journal.listen(() => this.#deliverEvents());
    await this.trackWork(this.#watchPromise);
    this.#deliverEvents();
  }

  /** Gives the events that have come to the waits that they are for. */
  #deliverEvents(): void {
    for (const event of this.#options.journal.events()) {
      if (this.#usedEvents.has(event.seq)) continue;
      const wait = this.#sortByCall().find(
        ({ onEvent, operation: { name, occurrence } }) =>
          onEvent && name === event.name && (event.occurrence === null || event.occurrence === occurrence),
      );
      if (!wait) continue;
      this.recordActivity();
      this.#usedEvents.add(event.seq);
      const problem = wait.schema ? misfit(wait.schema, event.payload) : null;
      if (problem !== null) {
        this.#options.onEventDropped(wait.operation, event, problem);
        continue;
      }
      this.#pending.delete(wait);
      wait.onEvent?.(event);
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#pending.clear();
    this.#cancelIdle();
    this.#cancelTimer();
  }
}
