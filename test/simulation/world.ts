/** Everything of one simulated seed: clock, database, machines, clients, what was seen and what was wrong. */
import type { SqliteConnection } from "../../adapters/sqlite/file.ts";
import type { LogRecord } from "../../lib/environment.ts";
import type { SignalListener } from "../../lib/storage/mod.ts";
import { type Client, createClients } from "./client/mod.ts";
import { startPollers } from "./client/poll.ts";
import { type Database, fullError } from "./database.ts";
import { runFinalChecks } from "./final.ts";
import { type Process, SimulatedNode } from "./node.ts";
import { Oracle } from "./oracle/mod.ts";
import type { Plan } from "./plan.ts";
import { awaitDeliveries } from "./platform/final.ts";
import { Receivers } from "./platform/receiver.ts";
import { Dice, Digest, hashText } from "./random.ts";
import { Scheduler } from "./scheduler.ts";
import { Frames } from "./stream.ts";

const STACK = /,"stack":"(?:[^"\\]|\\.)*"/;

export interface Violation {
  /** The rule: the number of an invariant, or a name. */
  readonly rule: string;
  readonly text: string;
}

export interface Outcome {
  readonly seed: number;
  /** Equal for equal seeds, on every runtime. */
  readonly hash: string;
  readonly violations: readonly Violation[];
  /** What happened, last at the end. */
  readonly trace: readonly string[];
  readonly steps: number;
  readonly commits: number;
  readonly counts: Readonly<Record<string, number>>;
}

/** 2026-01-01T00:00:00Z. */
const START = 1_767_225_600_000;

export class World {
  readonly plan: Plan;
  readonly scheduler: Scheduler;
  readonly database: Database;
  readonly oracle: Oracle;
  readonly frames: Frames;
  readonly receivers: Receivers;
  readonly nodes: readonly SimulatedNode[];
  readonly clients: readonly Client[];
  readonly digest: Digest = new Digest();
  readonly violations: Violation[] = [];
  readonly counts: Record<string, number> = {};
  /** Of a database that one process at a time executes on: that process. */
  lockHolder: Process | null = null;
  /** The process of each listener for the signals of others. */
  readonly listeners: Map<SignalListener, Process> = new Map();
  /** No fault occurs any more. */
  quiet = false;
  /** Calls that have left their machine and not reached the database: they arrive also when their sender is dead by then. */
  onWire = 0;
  /** Nothing starts any more. */
  over = false;
  full = false;
  commits = 0;
  readonly #trace: string[] = [];
  readonly #keep: number;
  readonly #ignored: RegExp | null;
  readonly #sqlHashes = new Map<string, number>();

  constructor(plan: Plan, database: Database, keep: number, ignored: RegExp | null) {
    this.plan = plan;
    this.database = database;
    this.#keep = keep;
    this.#ignored = ignored;
    this.scheduler = new Scheduler(new Dice(plan.seed, "scheduler"), START);
    this.oracle = new Oracle(this);
    this.frames = new Frames(this);
    this.receivers = new Receivers(this);
    this.nodes = Array.from({ length: plan.nodes }, (_, i) => new SimulatedNode(this, i));
    this.clients = createClients(this);
  }

  /** Adds a line to the trace and to its hash. It has nothing that differs between runtimes, such as an engine's error texts. */
  note(text: string): void {
    this.digest.add(text);
    this.show(text);
  }

  /** Adds a line to the trace, not to its hash. */
  show(text: string): void {
    this.#trace.push(`${String(this.scheduler.now - START).padStart(7)} ${text}`);
    if (this.#trace.length > 2 * this.#keep) this.#trace.splice(0, this.#keep);
  }

  violation(rule: string, text: string): void {
    if (this.#ignored?.test(`${rule}: ${text}`)) {
      this.count(`ignored: ${rule}`);
      this.note(`ignored violation of ${rule}: ${text}`);
      return;
    }
    if (this.violations.length === 0) this.note(`VIOLATION of ${rule}: ${text}`);
    this.violations.push({ rule, text });
  }

  count(name: string): void {
    this.counts[name] = (this.counts[name] ?? 0) + 1;
  }

  logged(process: Process, record: LogRecord): void {
    this.count(`log: ${record.message}`);
    const { level, message, error, ...fields } = record;
    if (message === "the trace of earlier attempts was not read")
      this.oracle.spans.incompleteRunIds.add(String(fields["run_id"]));
    this.show(`${process.name} logs ${level}: ${message} ${JSON.stringify(fields)} ${error ? String(error) : ""}`);
  }

  /** The database as one process reaches it. */
  connection(process: Process): SqliteConnection {
    const dice = new Dice(this.plan.seed, `${process.name} disk`);
    return this.database.connection({
      onStatement: ({ sql, args }) => {
        let hash = this.#sqlHashes.get(sql);
        if (hash === undefined) {
          hash = hashText(sql);
          this.#sqlHashes.set(sql, hash);
        }
        this.digest.add(hash);
        for (const arg of args) {
          // Each runtime writes the stack of an error in its own way.
          if (typeof arg === "string") this.digest.add(arg.replace(STACK, ""));
          else this.digest.add(typeof arg === "number" ? arg : 0);
        }
        if (this.full && /^\s*(?:insert|update)\b/i.test(sql) && dice.chance(0.7)) {
          this.count("disk full");
          throw Object.assign(fullError(), { ends: dice.chance(0.5) });
        }
      },
      onBatch: () => this.oracle.changes.batchDone(),
      onRollback: () => this.oracle.changes.undone(),
      onCommit: () => {
        this.commits++;
        this.digest.add(this.scheduler.now);
        this.digest.add(process.name);
        this.oracle.afterCommit(process);
      },
    });
  }

  /** A machine that answers now, if any does. */
  reachable(dice: Dice): SimulatedNode | null {
    const up = this.nodes.filter(({ process }) => process.alive && process.service && !process.stopping);
    return up.length === 0 ? null : dice.pick(up);
  }

  #scheduleFaults(): void {
    const { plan, scheduler } = this;
    const dice = new Dice(plan.seed, "faults");
    const every = (fault: Parameters<typeof plan.faults.has>[0], act: () => void): void => {
      if (!plan.faults.has(fault)) return;
      scheduler.at(dice.between(1, 2 * plan.process_fault_ms), null, () => {
        if (this.quiet) return;
        act();
        every(fault, act);
      });
    };
    every("crash", () => dice.pick(this.nodes).crash("crashes"));
    every("terminate", () => dice.pick(this.nodes).terminate(dice.pick([0, 100, 2_000, 8_000])));
    every("pause", () => dice.pick(this.nodes).pause(dice.between(50, dice.chance(0.6) ? 3 * plan.lease_ms : 500)));
    every("disk_full", () => {
      if (this.full) return;
      this.full = true;
      this.note("the disk is full");
      for (const node of this.nodes) this.oracle.executions.storeFails(node.process, Number.POSITIVE_INFINITY);
      scheduler.at(dice.between(20, 1_500), null, () => this.#freeDisk());
    });
  }

  #freeDisk(): void {
    if (!this.full) return;
    this.full = false;
    this.note("the disk has space again");
  }

  /** Runs the seed to its end. */
  async run(): Promise<Outcome> {
    const { plan, scheduler } = this;
    const failed = (): boolean => this.violations.length > 0;
    const unhandled = (error: unknown): void => {
      this.show(String((error as Error)?.stack ?? error));
      this.violation("unhandled", "a promise was rejected and nobody handled it");
    };
    process.on("unhandledRejection", unhandled);
    try {
      for (const node of this.nodes) node.start();
      this.#scheduleFaults();
      for (const client of this.clients) client.start();
      startPollers(this);
      await scheduler.run(START + 60_000, () => failed() || this.clients.every((client) => client.idle));
      if (!failed()) await this.#calmDown();
      if (!failed()) await awaitDeliveries(this);
      if (!failed()) await runFinalChecks(this);
      if (!failed()) await this.#stop();
    } catch (error) {
      this.show(String((error as Error)?.stack ?? error));
      this.violation("simulation", `the simulation itself failed: ${String(error)}`);
    } finally {
      process.off("unhandledRejection", unhandled);
    }
    const { steps } = scheduler;
    const trace = this.#trace.slice(-Math.max(this.#keep, 0));
    const { violations, commits, counts } = this;
    this.digest.add(steps);
    return { seed: plan.seed, hash: this.digest.text, violations, trace, steps, commits, counts };
  }

  /** Ends all faults, and waits until everything that was asked for is done. */
  async #calmDown(): Promise<void> {
    const { scheduler, plan } = this;
    this.note("no more faults");
    this.quiet = true;
    const calm = scheduler.now;
    this.#freeDisk();
    for (const { process } of this.nodes) if (process.paused) scheduler.resume(process);
    this.oracle.calm(scheduler.now);
    // A run whose agent hangs takes all its time, and its thread waits 5 s more; a machine starts within 8 s.
    const within = 20_000 + plan.run_timeout_ms + 4 * plan.lease_ms;
    while (this.violations.length === 0) {
      const idle = this.clients.every((client) => client.idle && client.streams === 0);
      if (this.#allUp() && this.oracle.settled() && this.onWire === 0 && idle) return;
      const waited = scheduler.now - Math.max(calm, this.oracle.runs.progressAt);
      if (waited > within)
        return this.violation("I1", `nothing has happened for ${waited} ms: ${this.oracle.unsettled()}`);
      await scheduler.run(scheduler.now + 250, () => this.violations.length > 0);
      this.oracle.checkLiveness();
    }
  }

  #allUp(): boolean {
    return this.nodes.every(({ process }) => process.service !== null && !process.stopping && process.unanswered === 0);
  }

  async #stop(): Promise<void> {
    this.over = true;
    for (const node of this.nodes) node.terminate(0);
    const ended = await this.scheduler.run(this.scheduler.now + 30_000, () =>
      this.nodes.every(({ process }) => !process.service),
    );
    if (!ended && this.violations.length === 0) this.violation("stop", "a service did not stop within 30 s");
  }
}
