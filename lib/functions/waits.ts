/** The verbs of a call that wait: for times, events and answers. */
import type { Environment } from "../environment.ts";
import type { Interrupt } from "../executor/contract.ts";
import type { OpenJournal, OutsideEvent, StepKind, WaitingFor } from "../executor/journal.ts";
import { misfit } from "../executor/schema-check.ts";
import { labelOf } from "../executor/step-names.ts";
import type { JsonObject } from "../json.ts";
import type { Verb } from "./replay.ts";

/** A verb that waits. */
interface Waiting {
  readonly verb: Verb;
  readonly until: number | null;
  /** Its time has come. */
  due(): void;
  /** Of a wait: an event has come, which fits the schema. */
  give?(event: OutsideEvent): void;
  readonly schema?: JsonObject | undefined;
  readonly ask?: Interrupt;
}

interface WaitsOptions {
  readonly journal: OpenJournal;
  readonly environment: Pick<Environment, "now" | "timer">;
  /** An event does not fit the schema of its wait. */
  dropped(verb: Verb, event: OutsideEvent, problem: string): void;
  /** The function has done nothing for a while, and waits. */
  idle(): void;
}

/** A function that does nothing for this time, and waits for a verb, is suspended. */
const IDLE_MS = 50;
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export class Waits {
  readonly #options: WaitsOptions;
  readonly #waiting = new Set<Waiting>();
  readonly #used = new Set<number>();
  /** Work that must end before the attempt may. */
  #busy = 0;
  #closed = false;
  #watching: Promise<void> | null = null;
  #cancelIdle = (): void => {};
  #cancelTimer = (): void => {};

  constructor(options: WaitsOptions) {
    this.#options = options;
    for (const { event } of options.journal.entries) if (event !== undefined) this.#used.add(event);
  }

  isBusy(): boolean {
    return this.#busy > 0;
  }

  isEmpty(): boolean {
    return this.#waiting.size === 0;
  }

  /** The open asks, in the order of their calls. */
  asks(): Interrupt[] {
    return this.#inOrder().flatMap(({ ask }) => ask ?? []);
  }

  #inOrder(): Waiting[] {
    return [...this.#waiting].sort((a, b) => a.verb.call - b.verb.call);
  }

  /** Work begins. The result ends it. */
  begin(): () => void {
    this.#busy++;
    let over = false;
    return () => {
      if (!over) this.#busy--;
      over = true;
      this.touch();
    };
  }

  /** What another thread may take long for counts as work: meanwhile another verb may wait. */
  during<Result>(work: Promise<Result>): Promise<Result> {
    return work.finally(this.begin());
  }

  add(waiting: Waiting): void {
    const own = {
      ...waiting,
      due: () => {
        this.#waiting.delete(own);
        waiting.due();
      },
    };
    this.#waiting.add(own);
    this.#arm();
    this.touch();
  }

  nearest(): number | null {
    let nearest: number | null = null;
    for (const { until } of this.#waiting) if (until !== null && (nearest === null || until < nearest)) nearest = until;
    return nearest;
  }

  shown(): WaitingFor[] {
    return this.#inOrder().map(({ verb: { kind, name }, until }) => ({
      kind: kind as StepKind,
      name: labelOf(name),
      until: until === null ? null : new Date(until).toISOString(),
    }));
  }

  /** Something happened. */
  touch(): void {
    this.#cancelIdle();
    this.#cancelIdle = () => {};
    if (this.#busy > 0 || this.#waiting.size === 0 || this.#closed) return;
    this.#cancelIdle = this.#options.environment.timer(IDLE_MS, this.#options.idle);
  }

  /** One timer for all. */
  #arm(): void {
    this.#cancelTimer();
    const { environment } = this.#options;
    const nearest = this.nearest();
    if (nearest === null || this.#closed) return;
    const delay = Math.min(Math.max(0, nearest - environment.now()), LONGEST_TIMER_MS);
    this.#cancelTimer = environment.timer(delay, () => {
      const now = environment.now();
      const due = [...this.#waiting].filter(({ until }) => until !== null && until <= now);
      for (const waiting of due.sort((a, b) => (a.until as number) - (b.until as number))) waiting.due();
      // The clock was set back: what was due soon may be far away now.
      if (due.length === 0) this.touch();
      this.#arm();
    });
  }

  /** Watches the events of the call: from the first wait on. */
  async watch(): Promise<void> {
    this.#watching ??= this.#options.journal.listen(() => this.#take());
    await this.during(this.#watching);
    this.#take();
  }

  /** Gives the events that have come to the waits that they are for. */
  #take(): void {
    for (const event of this.#options.journal.events()) {
      if (this.#used.has(event.seq)) continue;
      const waiting = this.#inOrder().find(
        ({ give, verb: { name, occurrence } }) =>
          give && name === event.name && (event.occurrence === null || event.occurrence === occurrence),
      );
      if (!waiting) continue;
      this.touch();
      this.#used.add(event.seq);
      const problem = waiting.schema ? misfit(waiting.schema, event.payload) : null;
      if (problem !== null) {
        this.#options.dropped(waiting.verb, event, problem);
        continue;
      }
      this.#waiting.delete(waiting);
      waiting.give?.(event);
    }
  }

  close(): void {
    this.#closed = true;
    this.#waiting.clear();
    this.#cancelIdle();
    this.#cancelTimer();
  }
}
