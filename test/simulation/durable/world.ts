/** The machines of the simulation of durable functions: services that crash, stall and lose their storage, on a virtual clock. */
import type { SqlDriver } from "../../../adapters/sql/driver.ts";
import { sqlStorage } from "../../../adapters/sql/mod.ts";
import { sqliteDriver } from "../../../adapters/sqlite/writer.ts";
// Loaded late otherwise: in real time, which a replay of the seed has not.
import "../../../lib/functions/execute.ts";
import "../../../lib/functions/open-durable-call.ts";
import "../../../lib/traces/mod.ts";
import "../../../lib/traces/recording.ts";
import "../../../lib/steps/journal.ts";
import "../../../lib/steps/mod.ts";
import { fromFunctions } from "../../../lib/mod.ts";
import { createService, type Service } from "../../../lib/service.ts";
import type { SignalListener, Storage } from "../../../lib/storage/mod.ts";
import type { Database } from "../database.ts";
import { Dice } from "../random.ts";
import { type Owner, Scheduler } from "../scheduler.ts";
import { createFunction } from "./scripts.ts";

export const START = 1_767_225_600_000;
export const LEASE_MS = 3_000;
/** Faults end after this time, and everything must end some time later. */
const FAULTS_MS = 200_000;
export const END_MS = 1_500_000;

const never = (): Promise<never> => new Promise(() => {});

interface ProcessLifetime extends Owner {
  service: Service | null;
}

export class World {
  readonly dice: Dice;
  readonly scheduler: Scheduler;
  readonly violations: { rule: string; text: string }[] = [];
  readonly trace: string[] = [];
  readonly counts: Record<string, number> = {};
  readonly listeners: Map<SignalListener, ProcessLifetime> = new Map();
  readonly database: Database;
  readonly shared: boolean;
  readonly lives: ProcessLifetime[] = [];
  /** The effects of steps outside: how far each chain of a thread has come, and how often each step has begun and ended. */
  readonly reached: Map<string, number> = new Map();
  readonly begins: Map<string, number> = new Map();
  readonly ends: Map<string, number> = new Map();
  /** Looks at a step that begins. True: it may be repeated. */
  begin: (name: string) => boolean = () => false;
  storage: Storage | null = null;
  lockHolder: ProcessLifetime | null = null;
  #count = 0;

  constructor(seed: number, database: Database) {
    this.dice = new Dice(seed, "durable");
    this.scheduler = new Scheduler(new Dice(seed, "scheduler"), START);
    this.database = database;
    this.shared = this.dice.chance(0.5);
  }

  /** All calls have ended. */
  over = false;

  get quiet(): boolean {
    return this.over || this.scheduler.now > START + FAULTS_MS;
  }

  note(text: string): void {
    this.trace.push(`${this.scheduler.now - START} ${text}`);
    if (this.trace.length > 400) this.trace.splice(0, 200);
  }

  violation(rule: string, text: string): void {
    this.violations.push({ rule, text });
    this.note(`VIOLATION ${rule}: ${text}`);
  }

  /** A machine comes up, and again after each crash. */
  boot(machine: number): void {
    const life: ProcessLifetime = {
      name: `m${machine}.${++this.#count}`,
      alive: true,
      paused: false,
      still_ms: 0,
      service: null,
    };
    this.lives[machine] = life;
    this.note(`${life.name} starts`);
    const storage = sqlStorage(this.#driver(life, machine));
    this.storage ??= sqlStorage(sqliteDriver(":memory:", () => this.#connection(), { defer: (fn) => fn() }));
    createService({
      storage,
      executor: fromFunctions({ durable: { agent: createFunction(this.#outside(life)), max_attempts: 1_000 } }),
      worker: { lease_ms: LEASE_MS, concurrency: 4 },
      environment: {
        now: () => this.scheduler.now,
        timer: (ms, fn) => this.scheduler.at(Math.ceil(ms), life, fn),
        defer: (fn) => this.scheduler.queue(0, life, fn),
        random: () => this.dice.float(),
        uuid: () => this.dice.uuid(),
        log: ({ level, message, error }) => this.note(`${life.name} ${level} ${message} ${error ? String(error) : ""}`),
      },
    }).then(
      (service) => {
        if (life.alive) life.service = service;
      },
      () => this.crash(machine, life, "failed to start"),
    );
  }

  crash(machine: number, life: ProcessLifetime, why: string): void {
    if (!life.alive) return;
    life.alive = false;
    this.counts[why] = (this.counts[why] ?? 0) + 1;
    this.note(`${life.name} ${why}`);
    if (this.lockHolder === life) this.lockHolder = null;
    for (const [listener, owner] of this.listeners) if (owner === life) this.listeners.delete(listener);
    this.scheduler.at(this.dice.between(10, 4_000), null, () => this.boot(machine));
  }

  #connection(): ReturnType<Database["connection"]> {
    return this.database.connection({ onStatement() {}, onBatch() {}, onCommit() {}, onRollback() {} });
  }

  #driver(life: ProcessLifetime, machine: number): SqlDriver {
    const inner = sqliteDriver(":memory:", () => this.#connection(), {
      defer: (fn) => this.scheduler.queue(0, life, fn),
      timer: (ms, fn) => this.scheduler.at(ms, life, fn),
    });
    const call = async <Answer>(ask: () => Promise<Answer>): Promise<Answer> => {
      if (!life.alive) return never();
      const fate = this.quiet ? 1 : this.dice.float();
      if (fate < 0.004) this.crash(machine, life, "crashes before a call");
      if (!life.alive) return never();
      if (fate > 0.99 && fate < 0.995) throw new Error("the store could not be reached");
      const answer = await ask();
      if (fate >= 0.004 && fate < 0.012) this.crash(machine, life, "crashes after a call");
      if (!life.alive) return never();
      if (fate > 0.985 && fate < 0.99) throw new Error("the store did not answer");
      return answer;
    };
    const bring = (tell: (listener: SignalListener) => void): void => {
      for (const [listener, owner] of this.listeners) {
        if (this.dice.chance(0.85)) this.scheduler.at(this.dice.below(4), owner, () => tell(listener), true);
      }
    };
    return {
      dialect: "sqlite",
      batch: (statements) => call(() => inner.batch(statements)),
      read: (statement) => call(() => inner.read(statement)),
      close: () => inner.close(),
      ...(this.shared
        ? {
            multi_process: true,
            signals: {
              publish: (kind, id) => bring((listener) => listener.onSignal(kind, id)),
              subscribe: (listener) => {
                this.listeners.set(listener, life);
                return () => void this.listeners.delete(listener);
              },
            },
          }
        : {
            single_process: true,
            acquireWorkerLock: async () => {
              if (!life.alive) return never();
              if (this.lockHolder && this.lockHolder !== life) return false;
              this.lockHolder = life;
              return true;
            },
          }),
    };
  }

  #outside(life: ProcessLifetime): Parameters<typeof createFunction>[0] {
    return {
      began: (name, chain, at) => {
        if (!life.alive) return;
        const repeats = this.begin(name);
        const chainName = `${name.split(".")[0]}.${chain}`;
        const reached = this.reached.get(chainName) ?? -1;
        if (at < reached && !repeats)
          this.violation("repeated", `${name} is executed again after ${chainName}.${reached} has begun`);
        this.reached.set(chainName, Math.max(at, reached));
        this.begins.set(name, (this.begins.get(name) ?? 0) + 1);
      },
      ended: (name) => void (life.alive && this.ends.set(name, (this.ends.get(name) ?? 0) + 1)),
      failures: (name) => (this.begins.get(name) ?? 1) - 1,
      work: (ms) =>
        life.alive ? new Promise((resolve) => void this.scheduler.at(ms, life, resolve)) : (never() as Promise<never>),
    };
  }

  /** Returns a service that responds now; null if there is none. */
  up(): Service | null {
    const up = this.lives.filter(({ alive, service }) => alive && service);
    return up.length > 0 ? (this.dice.pick(up).service as Service) : null;
  }
}
