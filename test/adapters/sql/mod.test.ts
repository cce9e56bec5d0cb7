/** Checks how `sqlStorage` uses the worker lock and the errors of its driver. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type SqlDriver, type SqlStatement, sqlStorage } from "../../../adapters/sql/mod.ts";
import { nodeSqliteDriver } from "../../../adapters/sqlite/node.ts";
import { ServiceError } from "../../../lib/errors.ts";
import type { ClaimedRun, MultitaskStrategy, NewWebhook, Storage } from "../../../lib/storage/mod.ts";
import { finish } from "../../suite/storage/material.ts";

const now = 1000;
const scopes = [{ deployment: "one" }, { deployment: "two" }] as const;

async function claimed(
  storage: Storage,
  deployment: string,
  thread_id: string,
  strategy: MultitaskStrategy = "enqueue",
  webhook?: NewWebhook,
) {
  const scope = { deployment };
  const content = { graph_id: "g", name: "n", description: null, config: {}, context: {}, metadata: {} };
  const { assistant } = await storage.createAssistant(scope, { assistant_id: "a", ...content }, now);
  const { thread } = await storage.createThread(scope, { thread_id, metadata: {}, config: {}, stateless: false }, now);
  const run_id = `${deployment} ${thread_id} ${strategy}`;
  const request = { metadata: {}, kwargs: {}, stateless: false, resumable: false, created_at: now };
  const outcome = await storage.createRun(scope, {
    run: {
      run_id,
      thread_id,
      assistant_id: "a",
      graph_id: "g",
      multitask_strategy: strategy,
      ...request,
      ...(webhook && { webhook }),
    },
    expected: { assistant_revision: assistant.revision, thread_revision: thread.revision },
    claim: { token: run_id, lease_until: 1e9 },
    now,
  });
  assert.ok(outcome.kind === "created");
  return outcome;
}

/** Creates a storage that may work while `right.isHeld` is true, on a database in the state that `abandonLock` leaves. */
async function createTakingOverStorage(
  abandonLock: (storage: Storage) => Promise<unknown>,
  batches: (statements: readonly SqlStatement[], driver: SqlDriver) => ReturnType<SqlDriver["batch"]> = (
    statements,
    driver,
  ) => driver.batch(statements),
): Promise<{ storage: Storage; right: { isHeld: boolean; requestCount: number } } & AsyncDisposable> {
  const driver = nodeSqliteDriver(":memory:");
  const { acquireWorkerLock: _acquireWorkerLock, ...shared } = driver;
  const predecessor = sqlStorage(shared);
  await predecessor.migrate();
  await abandonLock(predecessor);
  const right = { isHeld: false, requestCount: 0 };
  const storage = sqlStorage({
    ...driver,
    batch: (statements) => batches(statements, driver),
    acquireWorkerLock: async () => {
      right.requestCount++;
      return right.isHeld;
    },
  });
  return { storage, right, [Symbol.asyncDispose]: () => driver.close() };
}

describe("a process that takes over", () => {
  const claim = async (storage: Storage, deployment: string): Promise<ClaimedRun | null> => {
    const terms = { token: `new ${deployment}`, lease_until: 1e9, graph_ids: ["g"], now: now + 1 };
    const outcome = await storage.claimRun({ deployment }, terms);
    return outcome.kind === "claimed" ? outcome.claimed : null;
  };

  it("requeues every run and releases every thread lock, once, and never before it has the worker lock", async () => {
    await using world = await createTakingOverStorage(async (before) => {
      for (const { deployment } of scopes) await claimed(before, deployment, "running");
      await claimed(before, "one", "evicted");
      await claimed(before, "one", "evicted", "rollback");
      await claimed(before, "one", "removed");
      const removed = { thread_id: "removed", run_ids: ["one removed enqueue"] };
      await before.stopRuns({ deployment: "one" }, removed, "rollback", now);
    });
    const { storage, right } = world;
    const running = async () =>
      (await Promise.all(scopes.map((scope) => storage.countActiveRuns(scope, now)))).map((a) => a.running);
    const slots = async () => {
      const threads = ["running", "evicted", "removed"].map((id) => storage.getThread({ deployment: "one" }, id));
      return (await Promise.all(threads)).map((thread) => thread?.lock !== null);
    };
    assert.equal(await storage.becomeWorker(now), false);
    assert.deepEqual(
      [await running(), await slots()],
      [
        [1, 1],
        [true, true, true],
      ],
    );
    right.isHeld = true;
    assert.deepEqual(await Promise.all([storage.becomeWorker(now), storage.becomeWorker(now)]), [true, true]);
    assert.deepEqual(
      [await running(), await slots()],
      [
        [0, 0],
        [false, false, false],
      ],
    );

    const first = (await claim(storage, "one")) as ClaimedRun;
    assert.deepEqual([first.run.run_id, first.run.attempt, first.run.claims], ["one running enqueue", 2, 2]);
    const second = (await claim(storage, "one")) as ClaimedRun;
    assert.deepEqual([second.run.run_id, second.run.attempt], ["one evicted rollback", 1]);
    assert.equal((await claim(storage, "two"))?.run.run_id, "two running enqueue");
    assert.equal(await storage.becomeWorker(now + 2), true);
    assert.deepEqual(await running(), [2, 1], "what it has claimed itself stays");
    assert.equal(right.requestCount, 4, "it asks the driver each time");
  });

  it("ends the claims of the dead process on deliveries, so that hosts wait for none, and keeps those of others", async () => {
    const [scope] = scopes;
    const driver = nodeSqliteDriver(":memory:");
    const isHeld = { dead: true, standby: false, next: false };
    const createStorage = (name: keyof typeof isHeld): Storage =>
      sqlStorage({ ...driver, acquireWorkerLock: async () => isHeld[name] });
    const [dead, standby, next] = [createStorage("dead"), createStorage("standby"), createStorage("next")];
    const claim = async (storage: Storage, token: string, at: number): Promise<string> => {
      const terms = { token, until: at + 60_000, now: at, limit: 10, per_host: 2 };
      return (await storage.claimDeliveries(scope, terms)).map(({ run }) => run.thread_id).join();
    };
    const sendHeartbeat = (storage: Storage, token: string, thread_id: string): Promise<boolean> => {
      const attempt = { number: 1, at: now, status: 200, error: null, duration_ms: 1, address: null };
      const delivery_id = `one ${thread_id} enqueue`;
      return storage.recordDeliveryAttempt(scope, token, { ...attempt, delivery_id }, { state: "delivered" });
    };
    const expectNotified = async (host: string, ...threads: readonly string[]): Promise<void> => {
      for (const thread_id of threads) {
        const webhook = { url: `https://${host}/`, host, depth: 0 };
        const { run } = await claimed(dead, "one", thread_id, "enqueue", webhook);
        const lease = { run_id: run.run_id, thread_id, token: run.run_id };
        assert.ok(await dead.finishRun(scope, lease, finish({ now })));
      }
    };
    await dead.migrate();
    await expectNotified("two.example:443", "p", "q", "r");
    assert.equal(await claim(standby, "s", now), "p,q");
    await expectNotified("one.example:443", "a", "b", "c");
    assert.equal(await claim(dead, "early", now), "a,b", "before it is the one that executes");
    assert.equal(await sendHeartbeat(dead, "early", "a"), true);
    assert.equal(await sendHeartbeat(dead, "early", "b"), true);
    await expectNotified("one.example:443", "d", "e");
    await dead.becomeWorker(now);
    assert.equal(await claim(dead, "d", now), "c,d");
    assert.equal(await claim(next, "n0", now + 1), "", "its hosts are busy");
    isHeld.next = true;
    await next.becomeWorker(now + 2);
    assert.equal(await claim(next, "n1", now + 3), "e");
    assert.deepEqual([await sendHeartbeat(dead, "d", "c"), await sendHeartbeat(standby, "s", "p")], [false, true]);
    assert.equal(await sendHeartbeat(next, "n1", "e"), true);
    assert.equal(await claim(next, "n2", now + 4), "r");
    assert.equal(await claim(next, "n3", now + 60_000), "q,c,d");
    await driver.close();
  });

  it("does so again if it lost the worker lock in between", async () => {
    await using world = await createTakingOverStorage((before) => claimed(before, "one", "t"));
    const { storage, right } = world;
    right.isHeld = true;
    await storage.becomeWorker(now);
    await claim(storage, "one");
    right.isHeld = false;
    assert.equal(await storage.becomeWorker(now), false);
    assert.equal((await storage.countActiveRuns(scopes[0], now)).running, 1);
    right.isHeld = true;
    await storage.becomeWorker(now);
    assert.equal((await storage.countActiveRuns(scopes[0], now)).running, 0);
  });

  it("tries again if the storage failed", async () => {
    let failing = true;
    await using world = await createTakingOverStorage(
      (before) => claimed(before, "one", "t"),
      async (statements, driver) => {
        if (failing) throw new Error("not now");
        return await driver.batch(statements);
      },
    );
    const { storage, right } = world;
    right.isHeld = true;
    await assert.rejects(storage.becomeWorker(now), /not now/);
    failing = false;
    assert.equal(await storage.becomeWorker(now), true);
    assert.equal((await storage.countActiveRuns(scopes[0], now)).running, 0);
  });
});

describe("a full disk", () => {
  const errors: Record<string, Error> = {
    "node:sqlite": Object.assign(new Error("database or disk is full"), { code: "ERR_SQLITE_ERROR", errcode: 13 }),
    "bun:sqlite": Object.assign(new Error("database or disk is full"), { code: "SQLITE_FULL", errno: 13 }),
    "a server": new Error("SQLITE_FULL: database or disk is full"),
  };
  for (const [name, full] of Object.entries(errors)) {
    it(`is reported by every storage operation as ${name} reports it`, async () => {
      await using world = await createTakingOverStorage(
        async () => {},
        () => Promise.reject(full),
      );
      const { storage } = world;
      const scope = scopes[0];
      const lease = { run_id: "r", thread_id: "t", token: "x" };
      const thread = { thread_id: "t", metadata: {}, config: {}, stateless: false };
      for (const write of [
        () => storage.probe(now),
        () => storage.createThread(scope, thread, now),
        () => storage.saveProgress(scope, lease, { checkpoints: [], writes: [] }, now),
        () => storage.stopRuns(scope, { run_ids: ["r"] }, "rollback", now),
      ]) {
        await assert.rejects(write(), (error: unknown) => {
          assert.ok(error instanceof ServiceError && error.code === "storage_full");
          assert.equal(error.cause, full);
          return true;
        });
      }
      assert.equal(await storage.getThread(scope, "t"), null);
    });
  }

  it("is distinguished from other errors", async () => {
    const otherError = new Error("constraint failed");
    await using world = await createTakingOverStorage(
      async () => {},
      () => Promise.reject(otherError),
    );
    await assert.rejects(world.storage.probe(now), otherError);
  });
});
