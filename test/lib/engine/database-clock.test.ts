/** A process with another clock reads the time of its database. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { type DatabaseClock, startDatabaseClock } from "../../../lib/engine/database-clock.ts";
import type { Environment } from "../../../lib/environment.ts";
import { createService, fromFunctions } from "../../../lib/mod.ts";
import { serviceInternals } from "../../../lib/service.ts";
import type { Storage } from "../../../lib/storage/types.ts";
import { testClock } from "../../suite/kit.ts";

/** Creates a process whose clock is 5 s ahead, and a database with a delay. */
function world(): {
  readonly clock: ReturnType<typeof testClock>;
  readonly environment: Pick<Environment, "now" | "monotonic" | "timer" | "log">;
  readonly log: string[];
  /** The time by the database's clock. */
  readonly time: () => number;
  readonly now: () => Promise<number>;
  /** The delays of the next queries and of their results. No delay if empty. */
  readonly ways: [there: number, back: number][];
  /** Advances the database's clock. */
  set(ms: number): void;
  /** Stops the monotonic clock for this time, as when the machine sleeps. */
  sleep(ms: number): void;
  queryCount: number;
  failure: Error | null;
} {
  const clock = testClock();
  let waited = 0;
  let asleep = 0;
  let ahead = 0;
  const log: string[] = [];
  const ways: [number, number][] = [];
  const real = (): number => clock.now() + waited;
  const time = (): number => real() + ahead;
  const it = {
    clock,
    environment: {
      now: () => real() + 5_000,
      monotonic: () => real() - asleep - 1_000_000,
      timer: clock.timer,
      log: ({ message }: { readonly message: string }) => void log.push(message),
    },
    log,
    time,
    ways,
    queryCount: 0,
    failure: null as Error | null,
    async now() {
      it.queryCount++;
      if (it.failure) throw it.failure;
      const [there, back] = ways.shift() ?? [0, 0];
      waited += there;
      const answer = time();
      waited += back;
      return answer;
    },
    set(ms: number) {
      ahead += ms;
    },
    sleep(ms: number) {
      waited += ms;
      asleep += ms;
    },
  };
  return it;
}

const off = (clock: DatabaseClock, time: () => number): number => Math.abs(clock.now() - time());

describe("the database clock", () => {
  it("is exact to half of the shortest round trip", async () => {
    const it = world();
    it.ways.push([90, 0], [0, 70], [3, 1], [0, 200]);
    const clock = await startDatabaseClock(it);
    assert.equal(off(clock, it.time), 1);
    await it.clock.advance(5_000);
    assert.equal(off(clock, it.time), 1);
    assert.equal(it.queryCount, 4);
    assert.ok(Number.isInteger(clock.now()));
    clock.stop();
  });

  it("follows a database whose clock is faster or slower", async () => {
    for (const step of [2, -2]) {
      const it = world();
      const clock = await startDatabaseClock(it);
      let last = 0;
      for (let i = 0; i < 120; i++) {
        it.set(step);
        await it.clock.advance(1_000);
        assert.ok(off(clock, it.time) <= 25);
        assert.ok(clock.now() >= last);
        last = clock.now();
      }
      assert.ok(it.queryCount <= 4 * 13);
      clock.stop();
    }
  });

  it("does not go back by small differences, and goes back at once by large ones", async () => {
    const it = world();
    const clock = await startDatabaseClock(it);
    it.set(-400);
    await it.clock.advance(9_900);
    const before = clock.now();
    await it.clock.advance(100);
    assert.equal(before - it.time(), 300);
    assert.equal(clock.now(), before);
    await it.clock.advance(250);
    assert.equal(clock.now(), before);
    await it.clock.advance(100);
    assert.equal(clock.now(), before + 50);
    assert.equal(off(clock, it.time), 0);
    it.set(-60_000);
    await it.clock.advance(11_000);
    assert.equal(off(clock, it.time), 0);
    clock.stop();
  });

  it("is read again after the process was suspended, also if its monotonic clock stopped", async () => {
    const it = world();
    const clock = await startDatabaseClock(it);
    await it.clock.advance(1_500);
    const { queryCount } = it;
    it.sleep(60_000);
    assert.equal(off(clock, it.time), 60_000);
    await it.clock.advance(1_000);
    assert.equal(it.queryCount, queryCount + 4);
    assert.equal(off(clock, it.time), 0);
    clock.stop();
  });

  it("ignores slow responses", async () => {
    const it = world();
    const clock = await startDatabaseClock(it);
    it.ways.push([4_000, 0], [4_000, 0], [4_000, 0], [4_000, 0]);
    await it.clock.advance(10_000);
    assert.equal(it.ways.length, 0);
    assert.ok(off(clock, it.time) <= 1);
    // A slow response counts if the earlier reading must be wrong.
    it.set(30_000);
    it.ways.push([0, 1_000], [0, 1_000], [0, 1_000], [0, 1_000]);
    await it.clock.advance(14_000);
    assert.ok(off(clock, it.time) <= 500);
    clock.stop();
  });

  it("continues from the last reading while the database fails", async () => {
    const it = world();
    it.failure = new Error("gone");
    await assert.rejects(startDatabaseClock(it), it.failure);
    it.failure = null;
    const clock = await startDatabaseClock(it);
    it.failure = new Error("gone");
    await it.clock.advance(25_000);
    assert.equal(off(clock, it.time), 0);
    assert.deepEqual(it.log, Array(2).fill("reading the time of the database failed"));
    it.failure = null;
    it.set(700);
    await it.clock.advance(11_000);
    assert.equal(off(clock, it.time), 0);
    clock.stop();
    const { queryCount } = it;
    await it.clock.advance(60_000);
    assert.equal(it.queryCount, queryCount);
  });
});

describe("a service whose storage has a clock", () => {
  const createStorage = (now: () => Promise<number>): Storage => ({ ...nodeSqlite(":memory:"), now });
  const executor = fromFunctions({ echo: async () => ({}) });

  it("uses it until the service stops", async () => {
    const it = world();
    const storage = createStorage(it.now);
    const service = await createService({ storage, executor, environment: { ...it.environment, log: () => {} } });
    const { created_at } = await service.threads.create();
    assert.equal(Date.parse(created_at), it.time());
    assert.equal(serviceInternals(service).environment.now(), it.time());
    await service.stop(0);
    const { queryCount } = it;
    await it.clock.advance(60_000);
    assert.equal(it.queryCount, queryCount);
  });

  it("stops reading it when the service does not start", async () => {
    const it = world();
    const storage = createStorage(it.now);
    const environment = { ...it.environment, log: () => {} };
    const workspace = "00000000-0000-4000-8000-000000000000";
    await assert.rejects(createService({ storage, executor, environment, deployment: { workspace } }));
    const { queryCount } = it;
    assert.ok(queryCount > 0);
    await it.clock.advance(60_000);
    assert.equal(it.queryCount, queryCount);
    await storage.close();
  });
});
