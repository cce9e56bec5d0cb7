/** Virtual time: one heap of events. Between two events every microtask runs to its end, so an event's consequences are whole. */
import type { Dice } from "./random.ts";

/** A simulated process. What belongs to one that is dead never runs again; what belongs to a paused one waits. */
export interface Owner {
  readonly name: string;
  alive: boolean;
  paused: boolean;
  /** The time of its stalls in milliseconds, without a pause that is active. */
  still_ms: number;
}

interface Event {
  time: number;
  /** Orders events of one time: drawn, so that every order occurs. */
  tie: number;
  readonly order: number;
  readonly owner: Owner | null;
  /** Comes in from outside: an answer, a request. */
  readonly inward: boolean;
  fn: (() => void) | null;
}

const before = (a: Event, b: Event): boolean =>
  a.time !== b.time ? a.time < b.time : a.tie !== b.tie ? a.tie < b.tie : a.order < b.order;

const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export class Scheduler {
  now: number;
  readonly #dice: Dice;
  readonly #heap: Event[] = [];
  readonly #heldEvents = new Map<Owner, Event[]>();
  readonly #pausedAt = new Map<Owner, number>();
  // The last event that was queued behind others of its owner, per owner.
  readonly #queued = new WeakMap<Owner, Event>();
  #count = 0;
  steps = 0;

  constructor(dice: Dice, start: number) {
    this.#dice = dice;
    this.now = start;
  }

  /** Calls `fn` after `ms`, unless its owner is dead by then; the result cancels it. `inward`: something comes in from outside. */
  at(ms: number, owner: Owner | null, fn: () => void, inward = false): () => void {
    const event = this.#add(this.now + Math.max(0, Math.round(ms)), this.#dice.bits(), owner, fn, inward);
    return () => {
      event.fn = null;
    };
  }

  /** Queues `fn` as `at` does, but never before what the same owner queued earlier for the same time or a later one. */
  queue(ms: number, owner: Owner, fn: () => void): void {
    const last = this.#queued.get(owner);
    let time = this.now + ms;
    let tie = this.#dice.bits();
    if (last && last.time >= time) {
      time = last.time;
      tie = Math.max(tie, last.tie);
    }
    this.#queued.set(owner, this.#add(time, tie, owner, fn, false));
  }

  #add(time: number, tie: number, owner: Owner | null, fn: () => void, inward: boolean): Event {
    const event: Event = { time, tie, order: this.#count++, owner, inward, fn };
    if (owner?.alive ?? true) this.#push(event);
    return event;
  }

  pause(owner: Owner): void {
    owner.paused = true;
    this.#pausedAt.set(owner, this.now);
  }

  /** Lets what waited for a paused owner happen, in its order: timers at once, and what came in from outside soon after. */
  resume(owner: Owner): void {
    owner.still_ms += this.now - (this.#pausedAt.get(owner) ?? this.now);
    this.#pausedAt.delete(owner);
    owner.paused = false;
    const heldEvents = this.#heldEvents.get(owner) ?? [];
    this.#heldEvents.delete(owner);
    for (const event of heldEvents) {
      event.time = this.now + (event.inward ? this.#dice.below(6) : 0);
      event.tie = 0;
      this.#push(event);
    }
  }

  /** Runs events until `done` says so or none is left before `until`. False when time ran out. */
  async run(until: number, done: () => boolean): Promise<boolean> {
    while (!done()) {
      const event = this.#heap[0];
      if (!event || event.time > until) {
        this.now = until;
        return false;
      }
      this.#pop();
      if (!event.fn || (event.owner && !event.owner.alive)) continue;
      if (event.owner?.paused) {
        const heldEvents = this.#heldEvents.get(event.owner);
        if (heldEvents) heldEvents.push(event);
        else this.#heldEvents.set(event.owner, [event]);
        continue;
      }
      this.now = event.time;
      this.steps++;
      event.fn();
      await tick();
    }
    return true;
  }

  #push(event: Event): void {
    const heap = this.#heap;
    let at = heap.length;
    heap.push(event);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!before(event, heap[parent] as Event)) break;
      heap[at] = heap[parent] as Event;
      at = parent;
    }
    heap[at] = event;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop() as Event;
    if (heap.length === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1] as Event, heap[child] as Event)) child++;
      if (!before(heap[child] as Event, last)) break;
      heap[at] = heap[child] as Event;
      at = child;
    }
    heap[at] = last;
  }
}
