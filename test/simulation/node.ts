/** A simulated machine: a process with the real service in it, which crashes, stops, stalls and starts again. */
import type { SqlDriver } from "../../adapters/sql/driver.ts";
import { sqlStorage } from "../../adapters/sql/mod.ts";
import { commitGroup } from "../../adapters/sqlite/commit.ts";
import type { SqliteConnection } from "../../adapters/sqlite/file.ts";
import { sqliteDriver } from "../../adapters/sqlite/writer.ts";
import type { WriterThread } from "../../adapters/sqlite/writer-thread.ts";
import type { Environment } from "../../lib/environment.ts";
import { createService, type Service } from "../../lib/service.ts";
import type { SignalListener, Signals, Storage } from "../../lib/storage/mod.ts";
import { createAgentExecutor } from "./agent.ts";
import { runBatch } from "./database.ts";
import { Dice } from "./random.ts";
import type { Owner } from "./scheduler.ts";
import type { World } from "./world.ts";

/** What a client sees when a process goes away while it answers, or cannot be reached at all. */
export class ConnectionLost extends Error {
  /** The request never got there. */
  readonly refused: boolean;
  constructor(refused: boolean) {
    super(refused ? "connection refused" : "connection lost");
    this.refused = refused;
  }
}

/** The error of an injected fault of the storage, as the code above it sees it. */
export class InjectedFault extends Error {}

/** The base URL of feedback links. */
export const BASE_URL = "https://agents.example";

/** The time after the grace time for which a process that stops waits for its store, as in lib/engine/worker.ts. */
const LAST_MS = 20_000;

/** A process: the time between the start and the end of a machine. */
export class Process implements Owner {
  readonly name: string;
  readonly node: SimulatedNode;
  alive = true;
  paused = false;
  still_ms = 0;
  started = false;
  /** It was told to stop and takes no requests. */
  stopping = false;
  /** Calls of the store whose answer has not come: what was done may not be known yet. */
  unanswered = 0;
  service: Service | null = null;
  /** The storage of the service. */
  storage: Storage | null = null;
  /** The connections of clients. Each is called when the process ends. */
  readonly connections: Set<() => void> = new Set();

  constructor(node: SimulatedNode, name: string) {
    this.node = node;
    this.name = name;
  }
}

/** Returns a promise that never settles. It is a new one each time, because a promise retains all who wait for it. */
export const waitForever = (): Promise<never> => new Promise(() => {});

export class SimulatedNode {
  readonly index: number;
  process: Process;
  readonly #world: World;
  readonly #dice: Dice;
  #lives = 0;

  constructor(world: World, index: number) {
    this.#world = world;
    this.index = index;
    this.#dice = new Dice(world.plan.seed, `node ${index}`);
    this.process = this.#birth();
  }

  #birth(): Process {
    return new Process(this, `n${this.index}.${++this.#lives}`);
  }

  /** Starts the service; tries again when the store fails. */
  start(): void {
    const process = this.process;
    const world = this.#world;
    process.started = true;
    world.note(`${process.name} starts`);
    world.scheduler.at(this.#dice.between(1, 20), process, () => {
      const storage = sqlStorage(this.#driver(process));
      process.storage = storage;
      createService({
        storage: this.#watched(storage, process),
        executor: createAgentExecutor(world, process),
        worker: {
          concurrency: world.plan.concurrency,
          lease_ms: world.plan.lease_ms,
          run_timeout_ms: world.plan.run_timeout_ms,
        },
        retention: world.plan.retention,
        traces: world.plan.traces,
        public_base_url: BASE_URL,
        feedback: { token_ttl_ms: world.plan.token_ttl_ms },
        webhooks: {
          transport: world.receivers.transport(process),
          delivery: {
            schedule_ms: world.plan.hooks.schedule_ms,
            timeout_ms: world.plan.hooks.timeout_ms,
            concurrency: world.plan.hooks.concurrency,
          },
        },
        limits: { pending_per_thread: world.plan.pending_per_thread },
        environment: this.#ambient(process),
      }).then(
        (service) => {
          if (!process.alive) return;
          process.service = service;
          world.note(`${process.name} is up`);
        },
        (error: unknown) => {
          if (!process.alive) return;
          if (!(error instanceof InjectedFault) && !/disk (?:of the database )?is full/.test(String(error)))
            world.violation("start", `${process.name} did not start: ${String(error)}`);
          this.#end(process, "failed to start");
        },
      );
    });
  }

  /** The process is gone from one moment to the next; a new one starts after a while. */
  crash(why: string): void {
    if (this.process.started) this.#end(this.process, why);
  }

  #end(process: Process, why: string): void {
    const world = this.#world;
    process.alive = false;
    world.note(`${process.name} ${why}`);
    world.oracle.executions.processEnded(process);
    for (const lost of process.connections) lost();
    process.connections.clear();
    if (world.lockHolder === process) world.lockHolder = null;
    for (const [listener, owner] of world.listeners) if (owner === process) world.listeners.delete(listener);
    this.process = this.#birth();
    world.scheduler.at(this.#dice.between(0, this.#dice.chance(0.3) ? 8_000 : 300), null, () => {
      if (!world.over) this.start();
    });
  }

  /** As SIGTERM does. */
  terminate(grace_ms: number): void {
    const process = this.process;
    if (!process.alive || !process.service || process.stopping) return;
    process.stopping = true;
    const patience = this.#world.scheduler.now + grace_ms + LAST_MS;
    this.#world.note(`${process.name} is told to stop, grace ${grace_ms}`);
    this.#world.scheduler.at(0, process, () => {
      process.service?.stop(grace_ms).then(
        () => {
          if (!process.alive) return;
          // One that has waited for so long leaves what it could not put back to its leases.
          if (this.#world.scheduler.now < patience) this.#world.oracle.runs.processStopped(process);
          this.#end(process, "has stopped");
        },
        (error: unknown) => {
          if (process.alive) this.#world.violation("stop", `${process.name} did not stop: ${String(error)}`);
        },
      );
    });
  }

  /** Tells the oracle of claims as they are sent. */
  #watched(storage: Storage, process: Process): Storage {
    const { oracle } = this.#world;
    return {
      ...storage,
      claimRun(scope, request) {
        oracle.claimSent(process, request.now);
        return storage.claimRun(scope, request);
      },
      finishRun(scope, lease, end) {
        if (end.next) oracle.claimSentWithEnd(process, end.next.now);
        return storage.finishRun(scope, lease, end);
      },
    };
  }

  pause(ms: number): void {
    const process = this.process;
    if (!process.started || process.paused) return;
    this.#world.scheduler.pause(process);
    this.#world.note(`${process.name} stands still for ${ms}`);
    this.#world.oracle.executions.standsStill(process, this.#world.scheduler.now + ms);
    this.#world.scheduler.at(ms, null, () => {
      if (!process.alive) return;
      this.#world.note(`${process.name} goes on`);
      this.#world.scheduler.resume(process);
      // A machine that wakes has much to do: it may stall again before it has caught up.
      if (!this.#world.quiet && this.#dice.chance(0.5)) {
        const again = this.#dice.between(500, 2 * this.#world.plan.lease_ms);
        this.#world.scheduler.at(this.#dice.below(8), process, () => this.pause(again));
      }
    });
  }

  /**
   * Sends a request to the service, and answers as a client sees it: over a network, and by a process that can go away
   * meanwhile.
   */
  request<Answer>(ask: (service: Service) => Promise<Answer>): Promise<Answer> {
    const { scheduler } = this.#world;
    const process = this.process;
    return new Promise((resolve, reject) => {
      const refuse = (): void => void scheduler.at(1, null, () => reject(new ConnectionLost(true)));
      if (!process.alive || !process.service || process.stopping) return refuse();
      const lost = (): void => void scheduler.at(this.#dice.below(5), null, () => reject(new ConnectionLost(false)));
      process.connections.add(lost);
      const answer = (then: () => void): void => {
        if (!process.alive || !process.connections.delete(lost)) return;
        scheduler.at(this.#dice.below(3), null, then);
      };
      scheduler.at(this.#dice.below(3), process, () => {
        const service = process.service as Service;
        ask(service).then(
          (value) => answer(() => resolve(value)),
          (error: unknown) => answer(() => reject(error)),
        );
      });
    });
  }

  #ambient(process: Process): Environment {
    const { scheduler, plan } = this.#world;
    const dice = new Dice(plan.seed, process.name);
    const still = new Dice(plan.seed, `${process.name} stands still`);
    const skew =
      plan.skew_ms === 0 ? 0 : new Dice(plan.seed, `clock ${this.index}`).between(-plan.skew_ms, plan.skew_ms);
    // Later than that is standing still, which is another fault.
    const latest = Math.min(700, plan.lease_ms / 2);
    const late = (): number =>
      plan.faults.has("slow_loop") && !this.#world.quiet ? (dice.chance(0.05) ? dice.below(latest) : dice.below(8)) : 0;
    return {
      now: () => scheduler.now + skew,
      timer: (ms, fn) => scheduler.at(Math.ceil(ms) + late(), process, fn),
      defer: (fn) => {
        scheduler.queue(dice.chance(0.05) ? late() : 0, process, fn);
        // At a moment chosen by the clock it hardly ever is between two ticks of the event loop.
        if (!plan.faults.has("pause") || this.#world.quiet || !still.chance(0.1)) return;
        this.#world.count("pause in a tick");
        if (process.alive) this.pause(still.between(50, 3 * plan.lease_ms));
      },
      random: () => dice.float(),
      uuid: () => dice.uuid(),
      log: (record) => this.#world.logged(process, record),
    };
  }

  /** Signals reach every listener by a way of its own, and some do not reach it as they should. */
  #signals(process: Process): Signals {
    const world = this.#world;
    const { scheduler, listeners } = world;
    const dice = new Dice(world.plan.seed, `${process.name} signals`);
    const bring = (ms: number, tell: (listener: SignalListener) => void): void => {
      for (const [listener, owner] of listeners) {
        const inTime = world.quiet || dice.chance(0.8);
        const fate = inTime ? "in time" : dice.pick(["lost", "missed", "late", "doubled"] as const);
        const arrive = (after: number, then = tell): void =>
          void scheduler.at(after, owner, () => listeners.has(listener) && then(listener), true);
        world.count(`signal ${fate}`);
        if (fate === "in time" || fate === "doubled") arrive(ms);
        if (fate === "late" || fate === "doubled") arrive(dice.between(5, 3_000));
        if (fate === "missed") arrive(dice.between(5, 2_000), (listener) => listener.onGap());
      }
    };
    return {
      publish(kind, id) {
        if (process.alive) bring(dice.below(4), (listener) => listener.onSignal(kind, id));
      },
      subscribe(listener) {
        listeners.set(listener, process);
        return () => void listeners.delete(listener);
      },
    };
  }

  /** Creates the writer's thread of a process: it ends with it, but commits also while the event loop is stalled. */
  #thread(process: Process, connection: SqliteConnection): WriterThread {
    const { scheduler, plan } = this.#world;
    const dice = new Dice(plan.seed, `${process.name} thread`);
    let free_at = 0;
    const execute = <Result>(work: () => Result): Promise<Result> =>
      new Promise((resolve, reject) => {
        // A slow disk: one call after another.
        free_at = Math.max(free_at, scheduler.now) + (dice.chance(0.1) ? dice.below(100) : dice.below(6));
        scheduler.at(free_at - scheduler.now, null, () => {
          if (!process.alive) return;
          let answer: () => void;
          try {
            const result = work();
            answer = () => resolve(result);
          } catch (error) {
            answer = () => reject(error);
          }
          scheduler.at(dice.below(3), process, answer);
        });
      });
    return {
      commit: (batches) => execute(() => commitGroup(connection, batches, () => 0)),
      run: async () => {},
      close: async () => {},
    };
  }

  #driver(process: Process): SqlDriver {
    const world = this.#world;
    const { scheduler, plan } = world;
    const dice = new Dice(plan.seed, `${process.name} storage`);
    const connection = world.connection(process);
    const wait = (ms: number, owner: Owner | null): Promise<void> =>
      new Promise((resolve) => void scheduler.at(ms, owner, resolve, plan.remote));
    const local = sqliteDriver(":memory:", () => connection, {
      defer: (fn) => scheduler.queue(dice.chance(0.3) ? dice.below(3) : 0, process, fn),
      timer: (ms, fn) => scheduler.at(ms, process, fn),
      ...(plan.thread && { writer: "thread", thread: async () => this.#thread(process, connection) }),
    });
    const inner: Pick<SqlDriver, "batch" | "read"> = plan.remote
      ? {
          // On the wire a batch belongs to nobody: it arrives also when its sender is dead by then.
          async batch(statements) {
            await wait(dice.below(4), null);
            const rows = runBatch(connection, statements);
            await wait(dice.below(4), process);
            return rows;
          },
          async read(statement) {
            await wait(dice.below(4), null);
            const rows = connection.run(statement);
            await wait(dice.below(4), process);
            return rows;
          },
        }
      : local;
    const on = (fault: Parameters<typeof plan.faults.has>[0], share = 1): boolean =>
      plan.faults.has(fault) && !world.quiet && dice.chance(plan.call_fault * share);

    async function call<Answer>(kind: string, ask: () => Promise<Answer>): Promise<Answer> {
      if (!process.alive) return waitForever();
      if (on("delay")) {
        const ms = dice.between(20, dice.chance(0.2) ? 3 * plan.lease_ms : 400);
        world.oracle.executions.storeFails(process, scheduler.now + ms);
        // On the wire it is late by itself: it may find another world, and its sender dead.
        world.onWire += plan.remote ? 1 : 0;
        process.unanswered += 1;
        await wait(ms, plan.remote ? null : process);
        process.unanswered -= 1;
        world.onWire -= plan.remote ? 1 : 0;
      }
      const crashes = process.alive && on("crash_in_call", 0.3);
      if (crashes && dice.chance(0.3)) {
        process.node.crash(`crashes before a ${kind}`);
        return waitForever();
      }
      if (on("fail_before")) {
        world.note(`${process.name} ${kind} fails`);
        world.oracle.executions.storeFails(process);
        await wait(dice.below(5), process);
        throw new InjectedFault("the store could not be reached");
      }
      const answer = await ask();
      if (!process.alive) return waitForever();
      if (crashes) {
        process.node.crash(`crashes after a ${kind}`);
        return waitForever();
      }
      if (on("fail_after")) {
        world.note(`${process.name} ${kind} takes effect, and fails`);
        world.oracle.executions.storeFails(process);
        await wait(dice.below(5), process);
        throw new InjectedFault("the store did not answer");
      }
      if (on("delay", 0.5)) {
        const ms = dice.between(20, dice.chance(0.2) ? 3 * plan.lease_ms : 400);
        world.oracle.executions.storeFails(process, scheduler.now + ms);
        process.unanswered += 1;
        await wait(ms, process);
        process.unanswered -= 1;
      }
      return answer;
    }

    return {
      dialect: "sqlite",
      ...(plan.signals ? { multi_process: true, signals: this.#signals(process) } : {}),
      batch: (statements) => call("write", () => inner.batch(statements)),
      read: (statement) => call("read", () => inner.read(statement)),
      ...(plan.mode === "file"
        ? {
            single_process: true,
            async acquireWorkerLock() {
              if (!process.alive) return waitForever();
              if (world.lockHolder && world.lockHolder !== process) return false;
              world.lockHolder = process;
              return true;
            },
          }
        : {}),
      async close() {
        await local.close();
        // As the driver for files does: writes under way still hold the lock.
        if (world.lockHolder === process) world.lockHolder = null;
      },
    };
  }
}
