/** Three schedulers on one database, whose clocks differ and which die at any moment, fire each fire time of each cron at most once. */
import assert from "node:assert/strict";
import process from "node:process";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import type { InternalAssistants } from "../../../lib/assistants/mod.ts";
import { type CronLoop, createCronLoop } from "../../../lib/crons/loop.ts";
import type { Environment } from "../../../lib/environment.ts";
import type { JsonObject } from "../../../lib/mod.ts";
import type { CreateRun, CronFiring, Scope, Storage, ThreadRow } from "../../../lib/storage/types.ts";
import { Dice } from "../../simulation/random.ts";
import { newRun } from "../../suite/storage/material.ts";

const here: Scope = { deployment: "here" };
const START = Date.parse("2026-11-20T15:00:30Z");
const MINUTE = 60_000;
const GRACE_MS = 5 * MINUTE;
const CRONS = 40;

/** The life of a scheduler from its start to its death. */
interface Life {
  readonly loop: CronLoop;
  dead: boolean;
}

interface Machine {
  life: Life | null;
  /** The offset of its clock from the true time. */
  skew: number;
}

const never = new Promise<never>(() => {});

class World {
  readonly real: Storage = nodeSqlite(":memory:");
  readonly machines: Machine[] = [0, 1, 2].map(() => ({ life: null, skew: 0 }));
  readonly counts = { deaths: 0, lost: 0, jumps: 0 };
  now: number = START;
  readonly #dice: Dice;
  readonly #timers = new Map<
    object,
    { readonly at: number; readonly life: () => Life | null; readonly fn: () => void }
  >();
  #ids = 0;
  #calls = 0;

  constructor(seed: number) {
    this.#dice = new Dice(seed, "crons");
  }

  uuid(): string {
    return `00000000-0000-4000-8000-${(++this.#ids).toString(16).padStart(12, "0")}`;
  }

  /** Creates the crons: most without a thread, some that queue on one, some that are refused while it is busy. */
  async prepare(): Promise<void> {
    const { real } = this;
    await real.migrate();
    const content = { graph_id: "echo", name: "e", description: null, config: {}, context: {}, metadata: {} };
    await real.createAssistant(here, { assistant_id: "a", ...content }, START);
    for (let i = 0; i < CRONS; i++) {
      const thread_id = i < 30 ? null : `t${i}`;
      if (thread_id !== null) {
        await real.createThread(here, { thread_id, metadata: {}, config: {}, stateless: false }, START);
      }
      const timing = { schedule: "* * * * *", timezone: null, end_time: null, enabled: true };
      const next_run_date = START + MINUTE / 2;
      const payload: JsonObject = i < 36 ? {} : { multitask_strategy: "reject" };
      const constants = { payload, metadata: {}, user_id: null, auth_user: null };
      const on_run_completed = thread_id === null ? "delete" : null;
      const address = { cron_id: `c${i}`, assistant_id: "a", thread_id, on_run_completed } as const;
      const outcome = await real.createCron(here, { ...address, ...timing, next_run_date, ...constants }, START);
      assert.equal(outcome.kind, "created");
    }
  }

  start(machine: Machine): void {
    // The scheduler dies after this number of storage calls.
    let callsLeft = 20 + this.#dice.below(400);
    const life: { dead: boolean; loop?: CronLoop } = { dead: false };
    const storage = new Proxy(this.real, {
      get: (target, name) => {
        const method = Reflect.get(target, name) as (...args: unknown[]) => Promise<unknown>;
        return async (...args: unknown[]): Promise<unknown> => {
          if (life.dead) return never;
          this.#calls++;
          try {
            if (--callsLeft <= 0) {
              life.dead = true;
              machine.life = null;
              this.counts.deaths++;
              // Its last write takes effect or does not.
              if (this.#dice.chance(0.5)) await method.apply(target, args);
              return never;
            }
            const answer = await method.apply(target, args);
            if (name === "fireCron" && (answer as { kind: string }).kind === "lost") this.counts.lost++;
            return life.dead ? never : answer;
          } finally {
            this.#calls--;
          }
        };
      },
    });
    const environment: Environment = {
      now: () => this.now + machine.skew,
      timer: (ms, fn) => {
        const key = {};
        this.#timers.set(key, { at: this.now + ms, life: () => (life.dead ? null : (life as Life)), fn });
        return () => this.#timers.delete(key);
      },
      defer: (fn) => void setTimeout(fn, 0),
      random: () => this.#dice.float(),
      uuid: () => this.uuid(),
      log: () => {},
    };
    life.loop = createCronLoop({
      storage,
      scope: here,
      environment,
      runs: {
        create: async () => assert.fail("no run is made by hand"),
        prepare: async (_scope, thread_id, request, origin) => {
          const assistant = await storage.getAssistant(here, request.assistant_id);
          const thread = thread_id === null ? null : ((await storage.getThread(here, thread_id)) as ThreadRow);
          const run_id = this.uuid();
          const runThread = thread_id ?? this.uuid();
          const { multitask_strategy = "enqueue" } = request;
          const runFields = { multitask_strategy: multitask_strategy ?? "enqueue", stateless: thread === null };
          const now = environment.now();
          const cron_id = origin.cron_id as string;
          const plan: CreateRun = {
            run: newRun(runThread, run_id, { ...runFields, created_at: now, cron_id }),
            expected: { assistant_revision: assistant?.revision ?? 0, thread_revision: thread?.revision ?? null },
            ...(thread ? {} : { create_thread: { thread_id: runThread, metadata: {}, config: {}, stateless: true } }),
            now,
          };
          return plan;
        },
        startStored: () => {},
      },
      assistants: {} as InternalAssistants,
      enabled: true,
      misfire_grace_ms: GRACE_MS,
      max_failures: null,
    });
    machine.life = life as Life;
  }

  kill(machine: Machine): void {
    if (!machine.life) return;
    machine.life.dead = true;
    machine.life = null;
    this.counts.deaths++;
  }

  /** Advances the time of all schedulers and fires due timers. */
  async pass(ms: number): Promise<void> {
    this.now += ms;
    for (const [key, timer] of [...this.#timers]) {
      if (timer.at > this.now || !this.#timers.delete(key)) continue;
      if (timer.life()) timer.fn();
    }
    for (let quiet = 0; quiet < 2; quiet = this.#calls > 0 ? 0 : quiet + 1) {
      await new Promise((resolve) => setTimeout(resolve, 0));
    }
  }

  /** Advances the simulation by one step: clocks jump, schedulers die and restart, and up to 90 s pass. */
  async step(): Promise<void> {
    const dice = this.#dice;
    for (const machine of this.machines) {
      if (dice.chance(0.15)) {
        machine.skew = dice.between(-1, 1) * dice.below(40_000);
        this.counts.jumps++;
      }
      if (dice.chance(0.04)) this.kill(machine);
      if (!machine.life && dice.chance(0.4)) this.start(machine);
    }
    await this.pass(1 + dice.below(90_000));
  }

  /** Sometimes no scheduler runs for longer than the grace period. */
  async night(): Promise<void> {
    for (const machine of this.machines) this.kill(machine);
    await this.pass(GRACE_MS + this.#dice.below(10 * MINUTE));
  }

  async close(): Promise<void> {
    for (const machine of this.machines) this.kill(machine);
    await this.real.close();
  }
}

async function firings(storage: Storage, cron_id: string): Promise<readonly CronFiring[]> {
  return (await storage.listCronFirings(here, cron_id, { limit: 10_000, offset: 0 })).toReversed();
}

async function simulate(seed: number, minutes: number): Promise<number> {
  const world = new World(seed);
  try {
    await world.prepare();
    for (let steps = 0; world.now < START + minutes * MINUTE; steps++) {
      await world.step();
      if (steps % 60 === 59) await world.night();
    }
    // In the end all schedulers run with correct clocks.
    for (const machine of world.machines) {
      world.kill(machine);
      machine.skew = 0;
    }
    const end = Math.ceil(world.now / MINUTE) * MINUTE;
    await world.pass(end - world.now);
    while ((await world.real.listEnabledCrons(here, { due_by: end, limit: 1 })).length > 0) {
      for (const machine of world.machines) if (!machine.life) world.start(machine);
      await world.pass(2_000);
    }

    const runs = new Set<string>();
    const reasons = new Map<string, number>();
    let fireTimes = 0;
    for (let i = 0; i < CRONS; i++) {
      const all = await firings(world.real, `c${i}`);
      // A clock that was ahead may have fired before the fire time.
      const pastFirings = all.filter(({ scheduled_at }) => scheduled_at <= end);
      const expected = Array.from({ length: pastFirings.length }, (_, at) => START + MINUTE / 2 + at * MINUTE);
      assert.deepEqual(
        pastFirings.map(({ scheduled_at }) => scheduled_at),
        expected,
        `every fire time of c${i} is known once`,
      );
      assert.equal(pastFirings.at(-1)?.scheduled_at, end, `c${i} is up to date`);
      for (const { run_id, skipped } of all) {
        assert.ok((run_id === null) !== (skipped === null));
        if (run_id === null) reasons.set(skipped as string, (reasons.get(skipped as string) ?? 0) + 1);
        else {
          assert.ok(!runs.has(run_id), "a run is of one fire time");
          runs.add(run_id);
          assert.equal((await world.real.getRun(here, run_id))?.cron_id, `c${i}`);
        }
      }
      fireTimes += all.length;
    }
    const { pending, scheduled, running } = await world.real.countActiveRuns(here, end + MINUTE);
    assert.equal(pending + scheduled + running, runs.size, "there is no run but those of the fire times that fired");
    assert.ok(runs.size > fireTimes / 3);
    for (const reason of ["superseded", "missed", "thread_busy"]) assert.ok(reasons.get(reason), reason);
    assert.ok(world.counts.deaths > minutes / 20 && world.counts.lost > 10 && world.counts.jumps > minutes / 20);
    return fireTimes;
  } finally {
    await world.close();
  }
}

describe("three schedulers on one database", () => {
  const minutes = process.env.GREENROOM_TEST_ALL === "1" ? 250 : 75;
  it(`handle ${minutes * CRONS} fire times once each, or record them as skipped`, async () => {
    assert.ok((await simulate(1, minutes)) >= minutes * CRONS);
  });

  for (const seed of [2, 3]) {
    it(`handle other simulated histories, seed ${seed}`, async () => {
      await simulate(seed, 60);
    });
  }
});
