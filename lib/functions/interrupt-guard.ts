/** Stops a function that drops an interrupt: it would continue without the answer, for example past an approval. */
import type { StoreHandle } from "../executor/contract.ts";
import type { Interrupted } from "./function-job.ts";

/** The error of a function that has called `interrupt()` and neither yielded nor returned its value. */
class UnusedInterrupt extends Error {
  override readonly name = "UnusedInterrupt";
  constructor() {
    super("interrupt() was called, but its value was not yielded or returned: write yield job.interrupt(value)");
  }
}

/** Holds the interrupt that the function has created and not yet used. */
export class InterruptGuard {
  #unused: Interrupted | null = null;

  open(interrupt: Interrupted): void {
    this.#unused = interrupt;
  }

  /** Throws `UnusedInterrupt` if an interrupt is unused. */
  readonly requireNone = (): void => {
    if (this.#unused) throw new UnusedInterrupt();
  };

  /**
   * Throws `UnusedInterrupt` if an interrupt is unused and `value`, which the function yields or returns, is not that interrupt.
   * If it is, the interrupt counts as used.
   */
  requireUsed(value: unknown): void {
    if (this.#unused === value) this.#unused = null;
    this.requireNone();
  }

  /**
   * Returns a store that calls `store`, unless an interrupt is unused: then each method throws `UnusedInterrupt` at once, and does
   * not return a promise that rejects.
   */
  wrapStore(store: StoreHandle): StoreHandle {
    return new Proxy(store, {
      /** Returns a member of the store; a method as a function that throws `UnusedInterrupt` while an interrupt is unused. */
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name);
        if (typeof member !== "function") return member;
        return (...args: unknown[]): unknown => {
          this.requireNone();
          return Reflect.apply(member, target, args);
        };
      },
    });
  }
}
