/** The slots of a worker: what executes in this process, and how many claims may bring more. */
import type { Attempt } from "./attempt.ts";

export class Slots {
  readonly attempts: Set<Attempt> = new Set();
  /** This process executes runs, and does not stop. */
  open = false;
  /** Slots kept for claims that are not answered. */
  reserved = 0;
  /** Ends of runs that carry a claim and are not answered. */
  endsWithClaim = 0;
  /** Called whenever nothing executes and no slot is reserved. */
  onIdle: (() => void) | undefined;
  readonly #concurrency: number;

  constructor(concurrency: number) {
    this.#concurrency = concurrency;
  }

  free(): number {
    return this.open ? this.#concurrency - this.attempts.size - this.reserved : 0;
  }

  /** A claim is under way: its answer may bring any run. */
  isClaiming(): boolean {
    return this.reserved + this.endsWithClaim > 0;
  }

  isIdle(): boolean {
    return this.attempts.size + this.reserved === 0;
  }

  checkIdle(): void {
    if (this.isIdle()) this.onIdle?.();
  }

  /** A run that was claimed again after its lease was lost has two attempts until the first one has settled. */
  of(run_id: string): Attempt[] {
    return [...this.attempts].filter((attempt) => attempt.run_id === run_id);
  }
}
