/** Durable functions under crashes, failing stores and stops, on a virtual clock. One seed decides everything. */

import type { SqlDriver } from "../../../adapters/sql/driver.ts";
import { sqlStorage } from "../../../adapters/sql/mod.ts";
import { sqliteDriver } from "../../../adapters/sqlite/writer.ts";
// Loaded late otherwise: in real time, which a replay of the seed has not.
import "../../../lib/functions/execute.ts";
import "../../../lib/functions/open-call.ts";
import "../../../lib/steps/journal.ts";
import "../../../lib/steps/mod.ts";
import { fromFunctions, type Json, type JsonObject } from "../../../lib/mod.ts";
import { createService, type Service } from "../../../lib/service.ts";
import type { SignalListener, Storage } from "../../../lib/storage/mod.ts";
import { Database } from "../database.ts";
import { Dice } from "../random.ts";
import { type Owner, Scheduler } from "../scheduler.ts";
import { makeSteady } from "../steady.ts";
import { functionOf, messagesOf, type Script, scriptOf } from "./scripts.ts";

export interface DurableOutcome {
  readonly violations: readonly { readonly rule: string; readonly text: string }[];
  readonly trace: readonly string[];
  readonly counts: Readonly<Record<string, number>>;
}

const START = 1_767_225_600_000;
const LEASE_MS = 3_000;
/** Faults end after this time, and everything must end some time later. */
const FAULTS_MS = 200_000;
const END_MS = 1_500_000;

const never = (): Promise<never> => new Promise(() => {});

interface Life extends Owner {
  service: Service | null;
}

class World {
  readonly dice: Dice;
  readonly scheduler: Scheduler;
  readonly violations: { rule: string; text: string }[] = [];
  readonly trace: string[] = [];
  readonly counts: Record<string, number> = {};
  readonly listeners = new Map<SignalListener, Life>();
  readonly database: Database;
  readonly shared: boolean;
  readonly lives: Life[] = [];
  /** What steps did outside: how far each chain of a thread has come, and how often each step has begun and ended. */
  readonly reached = new Map<string, number>();
  readonly begins = new Map<string, number>();
  readonly ends = new Map<string, number>();
  storage: Storage | null = null;
  lockHolder: Life | null = null;
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
    const life: Life = { name: `m${machine}.${++this.#count}`, alive: true, paused: false, still_ms: 0, service: null };
    this.lives[machine] = life;
    this.note(`${life.name} starts`);
    const storage = sqlStorage(this.#driver(life, machine));
    this.storage ??= sqlStorage(sqliteDriver(":memory:", () => this.#connection(), { defer: (fn) => fn() }));
    createService({
      storage,
      executor: fromFunctions({ durable: { agent: functionOf(this.#outside(life)), max_attempts: 1_000 } }),
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

  crash(machine: number, life: Life, why: string): void {
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

  #driver(life: Life, machine: number): SqlDriver {
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
              publish: (kind, id) => bring((listener) => listener.heard(kind, id)),
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

  #outside(life: Life): Parameters<typeof functionOf>[0] {
    return {
      began: (name, chain, at) => {
        if (!life.alive) return;
        const place = `${name.split(".")[0]}.${chain}`;
        const reached = this.reached.get(place) ?? -1;
        if (at < reached) this.violation("repeated", `${name} is executed again after ${place}.${reached} has begun`);
        this.reached.set(place, Math.max(at, reached));
        this.begins.set(name, (this.begins.get(name) ?? 0) + 1);
      },
      ended: (name) => void (life.alive && this.ends.set(name, (this.ends.get(name) ?? 0) + 1)),
      failures: (name) => (this.begins.get(name) ?? 1) - 1,
      work: (ms) =>
        life.alive ? new Promise((resolve) => void this.scheduler.at(ms, life, resolve)) : (never() as Promise<never>),
    };
  }

  /** A service that answers now. */
  up(): Service | null {
    const up = this.lives.filter(({ alive, service }) => alive && service);
    return up.length > 0 ? (this.dice.pick(up).service as Service) : null;
  }
}

/** A client: makes a run of a script, sends events, answers asks, and looks at the end. */
async function client(world: World, script: Script, thread_id: string, done: () => void): Promise<void> {
  const { scheduler, dice } = world;
  const pause = (ms: number): Promise<void> => new Promise((resolve) => void scheduler.at(ms, null, resolve));
  /** Calls a service until one answers; each may die meanwhile. */
  async function call<Answer>(ask: (service: Service) => Promise<Answer>): Promise<Answer | Error> {
    for (;;) {
      const service = world.up();
      if (service) {
        const answer = ask(service).catch((error: Error) => error);
        const late = pause(20_000).then(() => "late" as const);
        const first = await Promise.race([answer, late]);
        if (first !== "late" && !/store|stopping/.test(String(first))) return first;
      }
      await pause(dice.between(50, 500));
    }
  }
  const key = { route: "simulation", key: thread_id, body_hash: "" };
  const request = { assistant_id: "durable", input: script as unknown as Json, stream_mode: "messages-tuple" as const };
  await call((service) => service.threads.create({ thread_id, if_exists: "do_nothing" }));
  await call((service) => service.runs.create(thread_id, { ...request, stream_resumable: true }, { idempotency: key }));
  const sent = new Set<string>();
  const waits = script.chains.flat().filter(({ kind }) => kind === "wait");
  let answers = 0;
  for (;;) {
    await pause(dice.between(100, 3_000));
    const thread = await call((service) => service.threads.get(thread_id));
    if (thread instanceof Error) continue;
    for (const op of waits) {
      if (!("name" in op) || sent.has(op.name) || !dice.chance(0.3)) continue;
      const answer = await call((service) => service.threads.send(thread_id, op.name, { for: op.name }));
      if (!(answer instanceof Error)) sent.add(op.name);
    }
    const open = Object.values(thread.interrupts).flat() as unknown as { id: string; value: string }[];
    if (thread.status === "interrupted" && open.length > 0) {
      const chosen = dice.pick(open);
      const resume = { [chosen.id]: `answer to ${chosen.value}` };
      const once = { ...key, key: `${thread_id} ${++answers} ${chosen.id}` };
      await call((service) =>
        service.runs.create(
          thread_id,
          {
            assistant_id: "durable",
            command: { resume },
            stream_mode: "messages-tuple",
            stream_resumable: true,
            multitask_strategy: "reject",
          },
          { idempotency: once },
        ),
      );
    } else if (thread.status === "idle" || thread.status === "error") break;
  }
  done();
}

/** The final state, what was stored of it, and what readers saw. */
async function check(world: World, script: Script, thread_id: string): Promise<void> {
  const storage = world.storage as Storage;
  const scope = { deployment: "default" };
  const service = world.up();
  const state = await service?.threads.state(thread_id);
  const values = (state?.values ?? {}) as { messages?: { content: string; id: string }[]; results?: JsonObject };
  const { tag } = script;
  const thread = await storage.getThread(scope, thread_id);
  if (thread?.status !== "idle")
    return world.violation("ends", `${tag} ended as ${thread?.status}: ${JSON.stringify(thread?.error)}`);
  for (const op of script.chains.flat()) {
    if (op.kind === "yield" || op.kind === "sleep") continue;
    const result = values.results?.[op.name];
    const expected: Json =
      op.kind === "ask"
        ? `answer to ${op.name}`
        : op.kind === "wait"
          ? { for: op.name }
          : op.tokens > 0
            ? Array.from({ length: op.tokens }, (_, i) => `${op.name}#${i} `).join("")
            : op.name;
    const timedOut = op.kind === "wait" && op.timeout !== null && result === null;
    if (!timedOut && JSON.stringify(result) !== JSON.stringify(expected)) {
      world.violation("results", `${op.name} gave ${JSON.stringify(result)}`);
    }
    if (op.kind === "step" && (world.ends.get(op.name) ?? 0) < 1) world.violation("executed", `${op.name} never ended`);
  }
  const messages = values.messages ?? [];
  const expected = messagesOf(script);
  const texts = messages.map(({ content }) => content);
  if (expected && JSON.stringify(texts) !== JSON.stringify(expected)) {
    world.violation("state", `${tag} has ${JSON.stringify(texts)} instead of ${JSON.stringify(expected)}`);
  }
  // The stored frames of all runs: each message of the state was shown once, whole and in order.
  const shown = new Map<string, string>();
  for (const { run_id } of (await storage.listRuns(scope, thread_id, { limit: 100, offset: 0 })).toReversed()) {
    for (let after = 0; ; ) {
      const frames = await storage.readFrames(scope, run_id, after);
      for (const { id, event, data } of frames) {
        after = id;
        if (event !== "messages") continue;
        const [{ id: message, content, type }] = JSON.parse(data) as [{ id: string; content: string; type: string }];
        if (type === "AIMessageChunk") shown.set(message, (shown.get(message) ?? "") + content);
      }
      if (frames.length === 0) break;
    }
  }
  for (const { id, content } of messages) {
    if (shown.get(id) !== content)
      world.violation("shown", `${tag}: ${JSON.stringify(content)} was shown as ${JSON.stringify(shown.get(id))}`);
  }
  const rows = world.database.query("select count(*) as n from calls where ended_at is null and thread_id = ?", [
    thread_id,
  ]);
  if (Number(rows[0]?.n) > 0) world.violation("open", `a call of ${tag} never ended`);
}

let open: Promise<Database> | undefined;

export async function simulateDurable(seed: number): Promise<DurableOutcome> {
  open ??= Database.open();
  const database = await open;
  database.clear();
  const restore = makeSteady(seed);
  try {
    const world = new World(seed, database);
    const { scheduler, dice } = world;
    const machines = world.shared ? 2 : dice.between(1, 2);
    for (let i = 0; i < machines; i++) world.boot(i);
    const scripts = Array.from({ length: dice.between(1, 4) }, (_, i) => scriptOf(dice, `s${i}`));
    const threads = scripts.map(() => dice.uuid());
    let left = scripts.length;
    for (const [i, script] of scripts.entries()) {
      scheduler.at(dice.between(50, 2_000), null, () => void client(world, script, threads[i] as string, () => left--));
    }
    const strike = (): void => {
      if (world.quiet) return;
      const machine = dice.below(machines);
      const life = world.lives[machine];
      const fate = dice.float();
      if (life?.alive && fate < 0.4) world.crash(machine, life, "crashes");
      else if (life?.alive && !life.paused && fate < 0.7) {
        scheduler.pause(life);
        scheduler.at(dice.between(100, 3 * LEASE_MS), null, () => scheduler.resume(life));
      } else if (life?.alive && life.service) {
        world.note(`${life.name} is told to stop`);
        void life.service.stop(dice.pick([0, 500])).then(() => world.crash(machine, life, "has stopped"));
      }
      scheduler.at(dice.between(200, 15_000), null, strike);
    };
    scheduler.at(dice.between(200, 10_000), null, strike);
    // A service reads the states that are checked.
    const ended = await scheduler.run(START + END_MS, () => left === 0 && world.up() !== null);
    if (!ended) {
      const rows = database.query(
        "select run_id, status, due_at, waiting_for, cancelled, call_id from runs where ended_at is null",
      );
      const alive = world.lives.map(({ name, alive, paused, service }) => [name, alive, paused, service !== null]);
      world.violation(
        "stuck",
        `${left} calls did not end: ${JSON.stringify([alive, rows], (_, value) => (typeof value === "bigint" ? Number(value) : value))}`,
      );
    }
    if (ended) {
      let checked = false;
      world.over = true;
      const all = (async () => {
        for (const [i, script] of scripts.entries()) await check(world, script, threads[i] as string);
        checked = true;
      })().catch((error: unknown) => {
        world.violation("check", String(error));
        checked = true;
      });
      await scheduler.run(scheduler.now + 60_000, () => checked);
      await Promise.race([all, Promise.resolve()]);
    }
    return { violations: world.violations, trace: world.trace, counts: world.counts };
  } finally {
    restore();
  }
}
