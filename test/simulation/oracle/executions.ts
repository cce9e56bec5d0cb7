/** Checks the executions: no two executors work on one thread, except where one was held up or does not listen. */
import type { ExecutorEvent, Job } from "../../../lib/executor/contract.ts";
import type { Process } from "../node.ts";
import type { World } from "../world.ts";
import { ABANDON_MS, type Claim, type Execution, type RunNote, type ThreadNote } from "./notes.ts";

export class Executions {
  readonly #world: World;
  readonly #runs: ReadonlyMap<string, RunNote>;
  readonly #all = new Set<Execution>();
  /** Until when the store failed a process, or was slow to answer it: it may have lost its leases. */
  readonly #failedUntil = new Map<Process, number>();
  /** The end of a stall for each process: others may have claimed its runs, but not the process itself. */
  readonly #stillUntil = new Map<Process, number>();

  constructor(world: World, runs: ReadonlyMap<string, RunNote>) {
    this.#world = world;
    this.#runs = runs;
  }

  /** The store fails the process, now or until a time: its leases may run out. */
  storeFails(process: Process, until: number = this.#world.scheduler.now): void {
    this.#failedUntil.set(process, Math.max(until, this.#failedUntil.get(process) ?? 0));
  }

  /** Notes that the process does nothing until a time. */
  standsStill(process: Process, until: number): void {
    this.#stillUntil.set(process, Math.max(until, this.#stillUntil.get(process) ?? 0));
  }

  /** Returns true if the process may have lost its leases since that time. A stall does not make it lose them to itself. */
  mayHaveLost(process: Process, since: number, to: Process): boolean {
    const until = Math.max(
      this.#failedUntil.get(process) ?? 0,
      to === process ? 0 : (this.#stillUntil.get(process) ?? 0),
    );
    return until >= since;
  }

  wasDisturbed(process: Process, since: number): boolean {
    return Math.max(this.#failedUntil.get(process) ?? 0, this.#stillUntil.get(process) ?? 0) >= since;
  }

  /** Nothing is done to any process from now on. */
  calm(now: number): void {
    for (const times of [this.#failedUntil, this.#stillUntil]) {
      for (const [process, until] of times) if (until > now) times.set(process, now);
    }
  }

  processEnded(process: Process): void {
    for (const execution of this.#all) if (execution.process === process) this.#all.delete(execution);
  }

  /** An executor begins with an attempt. */
  start(process: Process, job: Job): Execution {
    const world = this.#world;
    const { now } = world.scheduler;
    const run = this.#runs.get(job.run_id);
    const thread = run?.thread as ThreadNote;
    const claim = run?.claims.findLast(
      (candidate) => candidate.process === process && candidate.attempt === job.attempt,
    );
    const execution: Execution = {
      process,
      run_id: job.run_id,
      thread,
      claim,
      started: now,
      stoppedAt: null,
      yielding: false,
      emittedCount: 0,
    };
    world.note(`${process.name} executes ${run?.tag} attempt ${job.attempt}`);
    if (run && claim) this.#check(execution, run, claim);
    else world.violation("I2", `${job.run_id} is executed by ${process.name}, which has not claimed it`);
    this.#all.add(execution);
    return execution;
  }

  #check(execution: Execution, run: RunNote, claim: Claim): void {
    const world = this.#world;
    const { now } = world.scheduler;
    claim.executed = true;
    if (claim.charged === 0) world.violation("I12", `${run.tag} was claimed to be ended, and is executed`);
    if (run.state.lease_token !== claim.token && claim.until <= now) {
      const late = now - claim.until;
      const { name } = execution.process;
      world.violation("R5", `${name} starts ${run.tag} ${late} ms after its lease was over, and it is another's`);
    }
    if (claim === run.claims.at(-1)) run.lastExecution = execution;
    for (const otherExecution of this.#all) {
      if (otherExecution.thread !== execution.thread || this.#mayOverlap(otherExecution, claim)) continue;
      const where = otherExecution.process === execution.process ? `, both on ${otherExecution.process.name}` : "";
      world.violation(
        "I2",
        `${run.tag} and ${this.#runs.get(otherExecution.run_id)?.tag} execute on one thread${where}`,
      );
    }
  }

  stop(execution: Execution, reason: string): void {
    execution.stoppedAt ??= this.#world.scheduler.now;
    this.#world.note(`${execution.process.name} stops ${this.#runs.get(execution.run_id)?.tag}: ${reason}`);
  }

  yields(execution: Execution, event: ExecutorEvent): void {
    if (event.type === "stream" && event.mode === "custom") execution.emittedCount++;
  }

  settle(execution: Execution): void {
    this.#all.delete(execution);
  }

  /** A thread's slot is another's, or nobody's: nothing may work on the thread by this claim. */
  slotFreed(claim: Claim | undefined, by: string, thread: ThreadNote): void {
    for (const execution of this.#all) {
      if (execution.claim !== claim || execution.yielding || this.#abandoned(execution)) continue;
      const tag = this.#runs.get(execution.run_id)?.tag;
      this.#world.violation("slot", `${by} freed the slot of ${thread.name} while ${tag} still executes`);
    }
  }

  /** Returns the executions that are not abandoned. */
  active(): Execution[] {
    return [...this.#all].filter((execution) => !this.#abandoned(execution));
  }

  #abandoned({ stoppedAt }: Execution, at: number = this.#world.scheduler.now): boolean {
    return stoppedAt !== null && stoppedAt + ABANDON_MS[this.#world.plan.mode] <= at;
  }

  /** Returns true if another execution may start by this claim. */
  #mayOverlap(execution: Execution, { at, process }: Claim): boolean {
    if (this.#abandoned(execution, at)) return true;
    // A process always has a list of its own executions.
    if (execution.process === process) return false;
    if (execution.yielding) return true;
    // The slot of a run that is gone is not extended.
    if (execution.stoppedAt !== null && (execution.claim?.until ?? 0) <= at) return true;
    return this.wasDisturbed(execution.process, execution.started);
  }
}
