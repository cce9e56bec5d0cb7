/** Counts the costs of durable functions: suspended runs hold nothing, and each step costs the same. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { sqlStorage } from "../../../adapters/sql/mod.ts";
import { nodeSqliteDriver } from "../../../adapters/sqlite/node.ts";
import type { AgentFunction } from "../../../lib/mod.ts";
import { testClock, testService } from "../../suite/kit.ts";
import { until } from "../../support/until.ts";

const HOUR_MS = 3_600_000;
/** The maximum number of runs that wait for the worker at once. */
const PENDING = 50;

interface Counts {
  reads: number;
  batches: number;
  statements: number;
  /** Timers that are set. */
  timers: number;
  deferred: number;
}

/** Creates a service on a database in memory that counts its costs. */
async function counted(agents: Record<string, AgentFunction>) {
  const clock = testClock();
  const driver = nodeSqliteDriver(":memory:");
  const counts: Counts = { reads: 0, batches: 0, statements: 0, timers: 0, deferred: 0 };
  const storage = sqlStorage({
    ...driver,
    read(statement) {
      counts.reads++;
      return driver.read(statement);
    },
    batch(statements, lock_keys) {
      counts.batches++;
      counts.statements += statements.length;
      return driver.batch(statements, lock_keys);
    },
  });
  const kit = await testService({
    storage,
    agents,
    worker: { concurrency: 20 },
    limits: { pending: PENDING },
    environment: {
      now: clock.now,
      timer(ms, fn) {
        let set = true;
        counts.timers++;
        const over = (): void => {
          if (set) counts.timers--;
          set = false;
        };
        const cancel = clock.timer(ms, () => {
          over();
          fn();
        });
        return () => {
          over();
          cancel();
        };
      },
      defer(fn) {
        counts.deferred++;
        setImmediate(fn);
      },
    },
  });
  return { kit, clock, counts };
}

type World = Awaited<ReturnType<typeof counted>>;

/** Returns the costs of `work`. */
async function measureCost({ counts }: World, work: () => Promise<unknown>): Promise<Counts> {
  const before = { ...counts };
  await work();
  const cost = { ...counts };
  for (const key of Object.keys(cost) as (keyof Counts)[]) cost[key] -= before[key];
  return cost;
}

describe("suspended runs", () => {
  it("hold no timer, no statement and no share of `limits.pending`, and each wake-up costs the same", async () => {
    const dueTime = testClock().now() + 2 * HOUR_MS;
    let woken = 0;
    const world = await counted({
      async sleeper({ sleep }) {
        await sleep("until", new Date(dueTime));
        woken++;
      },
      echo: () => ({}),
    });
    const { kit, clock, counts } = world;
    await using service = kit;
    const { runs } = service.service;
    const suspend = async (count: number): Promise<void> => {
      for (let createdCount = 0; createdCount < count; createdCount += PENDING) {
        const some = Array.from({ length: Math.min(PENDING, count - createdCount) }, () => ({
          assistant_id: "sleeper",
          input: {},
        }));
        const ids = (await runs.createBatch(some)).map(({ run_id }) => run_id);
        await until(async () => {
          await clock.advance(60);
          const rows = await Promise.all(ids.map((id) => runs.inspect(id)));
          return rows.every((row) => row?.status === "pending" && row.started_at !== null);
        });
      }
    };
    const minute = (): Promise<Counts> => measureCost(world, () => clock.advance(60_000));
    const short = (): Promise<Counts> =>
      measureCost(world, async () => await (await runs.wait(null, { assistant_id: "echo", input: {} })).result);
    await suspend(1);
    await clock.advance(10_000);
    const [timers, idle, beside] = [counts.timers, await minute(), await short()];
    await suspend(300);
    await clock.advance(10_000);
    assert.equal(counts.timers, timers);
    assert.equal((await service.service.metrics()).worker.executing, 0);
    const { reads, statements } = await minute();
    // Hourly jobs may run in either minute.
    assert.ok(reads + statements < idle.reads + idle.statements + 30, `${reads} reads, ${statements} statements`);
    const again = await short();
    assert.deepEqual([again.batches, again.statements], [beside.batches, beside.statements]);
    assert.equal(woken, 0);
    const cost = await measureCost(world, async () => {
      await clock.set(dueTime);
      await until(async () => {
        await clock.advance(60);
        return woken === 301;
      });
    });
    // These are the claim, which the end of another run may include, the journal entry and the end.
    assert.ok(cost.batches <= 3.5 * 301, `${cost.batches} batches`);
    // One of them reads the sums of the trace so far.
    assert.ok(cost.reads <= 11 * 301, `${cost.reads} reads`);
  });
});

describe("a durable step", () => {
  it("costs the same at the start of a run and after 1,000 steps", async () => {
    const at: Counts[] = [];
    const world = await counted({
      async steps({ step }) {
        for (let i = 0; i < 1_000; i++) {
          await step(`step ${i}`, () => null);
          at.push({ ...world.counts });
        }
      },
    });
    await using kit = world.kit;
    const { result } = await kit.service.runs.wait(null, { assistant_id: "steps", input: {} });
    await result;
    const between = (from: number, to: number): Counts => {
      const cost = { ...(at[to] as Counts) };
      for (const key of Object.keys(cost) as (keyof Counts)[]) cost[key] -= (at[from] as Counts)[key];
      return cost;
    };
    assert.deepEqual(between(899, 999), between(99, 199));
    assert.equal(between(99, 199).batches, 100);
  });
});
