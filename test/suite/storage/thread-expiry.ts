/** Tests of threads with a time to live. */
import assert from "node:assert/strict";
import type { Storage, ThreadRow, ThreadTtl } from "../../../lib/storage/mod.ts";
import {
  checkpoint,
  create,
  createAssistant,
  createClaimedRun,
  createFinishedRun,
  finish,
  here,
  newRun,
  progress,
  type StorageTest,
  type SuiteApi,
  there,
} from "./material.ts";
import { createOwnerScope, createState, findThreadIds, ids } from "./states.ts";

export function threadExpiryTests(api: SuiteApi, test: StorageTest): void {
  api.describe("thread expiry", () => {
    const createTtl = (strategy: ThreadTtl["strategy"], ttl_ms: number): ThreadTtl => ({ strategy, ttl_ms });
    const createExpiringThread = async (
      storage: Storage,
      thread_id: string,
      of: ThreadTtl | undefined,
      now = 1000,
    ): Promise<ThreadRow> => {
      const terms = { thread_id, metadata: { owner: "ada" }, config: {}, stateless: false, ...(of && { ttl: of }) };
      return (await storage.createThread(here, terms, now)).thread;
    };
    const expire = async (storage: Storage, now: number, limit = 10): Promise<string> =>
      (await storage.pruneThreads(here, { max_expired: limit }, now)).toSorted().join();

    test("deletes threads whose lifetime is over, a few at a time", async (storage) => {
      await createExpiringThread(storage, "never", undefined);
      for (const [i, id] of ["a", "b", "c"].entries())
        await createExpiringThread(storage, id, createTtl("delete", 500), 1000 + i);
      await createExpiringThread(storage, "later", createTtl("delete", 501), 1002);
      assert.equal(await expire(storage, 1499), "");
      assert.equal(await expire(storage, 1500), "a");
      assert.equal(await storage.pruneThreads(there, { max_expired: 10 }, 9000).then((all) => all.length), 0);
      assert.equal(
        await storage.pruneThreads(createOwnerScope("eve"), { max_expired: 10 }, 9000).then((all) => all.length),
        0,
      );
      assert.equal(await expire(storage, 1502, 1), "b");
      assert.equal(await expire(storage, 1502), "c");
      assert.equal(await expire(storage, 1502), "");
      assert.equal(await findThreadIds(storage, { owner: "ada" }), "later,never");
      await storage.updateThread(here, "never", ({ metadata }) => ({ metadata, ttl: createTtl("delete", 1) }), 1503);
      await storage.updateThread(here, "later", ({ metadata }) => ({ metadata, ttl: null }), 1503);
      assert.equal(await expire(storage, 9000), "never");
    });

    test("applies to a thread that a run has created", async (storage) => {
      const assistant = await createAssistant(storage);
      const terms = { thread_id: "t", metadata: { owner: "ada" }, config: {}, stateless: false };
      const outcome = await storage.createRun(here, {
        run: newRun("t", "r1"),
        expected: { assistant_revision: assistant.revision, thread_revision: null },
        create_thread: { ...terms, ttl: createTtl("delete", 500) },
        now: 1100,
      });
      assert.equal(outcome.kind, "created");
      assert.equal((await storage.getThread(here, "t"))?.ttl?.expires_at, 1600);
      assert.equal(await expire(storage, 9000), "");
      await storage.stopRuns(here, { run_ids: ["r1"] }, "interrupt", 1200);
      assert.deepEqual([await expire(storage, 1699), await expire(storage, 1700)], ["", "t"]);
    });

    test("waits for runs; every run's start and end and every change of the state is activity", async (storage) => {
      const assistant = await createAssistant(storage);
      const life = createTtl("delete", 1000);
      for (const id of ["queued", "runs", "ends", "rolled", "dropped", "updated", "fresh"])
        await createExpiringThread(storage, id, life);
      await create(storage, assistant, "queued", "r1", { now: 1500 });
      const running = await Promise.all(
        (["runs", "ends", "rolled"] as const).map(
          async (id, i) => (await createClaimedRun(storage, assistant, id, `r2${i}`)).lease,
        ),
      );
      await create(storage, assistant, "dropped", "r3", { now: 1500 });
      assert.equal(await expire(storage, 2000), "fresh,updated");
      await createExpiringThread(storage, "updated", life, 2000);
      assert.equal(
        await storage.writeState(here, "updated", { ...createState("c1", {}), expected_head: null }, 2900),
        "written",
      );
      assert.equal(await expire(storage, 5000, 1), "updated");
      assert.equal(await expire(storage, 9000), "", "busy ones wait");
      const [, ends, rolled] = running;
      assert.ok(ends && rolled);
      await storage.finishRun(here, ends, finish({ now: 9000 }));
      await storage.stopRuns(here, { thread_id: "rolled", run_ids: ["r22"] }, "rollback", 9100);
      await storage.stopRuns(here, { thread_id: "queued", run_ids: ["r1"] }, "interrupt", 9200);
      await storage.stopRuns(here, { thread_id: "dropped", run_ids: ["r3"] }, "rollback", 9300);
      assert.equal(await expire(storage, 9999), "");
      const times = [10_000, 10_100, 10_200, 10_300, 99_999];
      const expired: string[] = [];
      for (const now of times) expired.push(await expire(storage, now));
      assert.deepEqual(expired, ["ends", "rolled", "queued", "dropped", ""]);
    });

    test("keeps the newest state once after each activity", async (storage) => {
      const assistant = await createAssistant(storage);
      await createExpiringThread(storage, "t", createTtl("keep_latest", 1000));
      const run = (id: string, now: number): Promise<void> => {
        const part = progress([checkpoint(`${id}1`, {}), checkpoint(`${id}2`, {}, `${id}1`)]);
        return createFinishedRun(storage, assistant, "t", id, { head: `${id}2` }, { progress: part, now });
      };
      await run("a", 2000);
      assert.equal(await expire(storage, 2999), "");
      assert.equal(await ids(storage, "t"), "a2,a1");
      assert.equal(await expire(storage, 3000), "t");
      assert.equal(await ids(storage, "t"), "a2");
      assert.deepEqual([await expire(storage, 3000), await expire(storage, 99_999)], ["", ""]);
      await run("b", 100_000);
      assert.equal(await ids(storage, "t"), "b2,b1,a2");
      assert.equal(await expire(storage, 101_000), "t");
      assert.equal(await ids(storage, "t"), "b2");
      // After a manual prune, `keep_latest` has nothing to do; `delete` still deletes its thread.
      await run("c", 200_000);
      assert.deepEqual(await storage.pruneThreads(here, { thread_ids: ["t"], strategy: "keep_latest" }, 200_001), [
        "t",
      ]);
      assert.equal(await expire(storage, 300_000), "");
      await storage.updateThread(here, "t", ({ metadata }) => ({ metadata, ttl: createTtl("delete", 1000) }), 300_000);
      assert.deepEqual(await storage.pruneThreads(here, { thread_ids: ["t"], strategy: "keep_latest" }, 300_001), [
        "t",
      ]);
      assert.equal(await expire(storage, 301_000), "t");
      assert.equal(await storage.getThread(here, "t"), null);
    });

    test("never prunes a thread that changes meanwhile", async (storage) => {
      for (const [i, strategy] of (["delete", "keep_latest"] as const).entries()) {
        const id = `t${i}`;
        await createExpiringThread(storage, id, createTtl(strategy, 1000));
        const state = { ...createState("c1", {}), expected_head: null };
        const [outcome, pruned] = await Promise.all([
          storage.writeState(here, id, state, 9000),
          storage.pruneThreads(here, { max_expired: 10 }, 9000),
        ]);
        if (strategy === "delete") assert.notEqual(outcome === "written", pruned.includes(id));
        // In either order the new state stays: pruning keeps the newest state, and a write restarts the lifetime.
        else assert.equal(await ids(storage, id), "c1");
        assert.equal((await storage.pruneThreads(here, { max_expired: 10 }, 9999)).length, 0);
      }
    });

    test("applies both strategies in one call, each thread once among many callers", async (storage) => {
      const assistant = await createAssistant(storage);
      for (const id of ["d1", "d2", "k1", "k2"]) {
        await createExpiringThread(storage, id, createTtl(id.startsWith("d") ? "delete" : "keep_latest", 1000));
        const part = progress([checkpoint("c1", {}), checkpoint("c2", {}, "c1")]);
        await createFinishedRun(storage, assistant, id, `r-${id}`, { head: "c2" }, { progress: part });
      }
      const answers = await Promise.all([1, 2, 3].map(() => storage.pruneThreads(here, { max_expired: 10 }, 9000)));
      assert.deepEqual(answers.flat().toSorted(), ["d1", "d2", "k1", "k2"]);
      assert.equal(await findThreadIds(storage, { owner: "ada" }), "k1,k2");
      assert.deepEqual([await ids(storage, "k1"), await ids(storage, "k2")], ["c2", "c2"]);
    });
  });
}
