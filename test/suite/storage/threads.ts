/** Tests of threads and of filters on metadata. */

import assert from "node:assert/strict";
import { contains, type Json, type JsonObject } from "../../../lib/json.ts";
import type { Storage, ThreadRow } from "../../../lib/storage/mod.ts";
import { countAssistants, countThreads } from "../counts.ts";
import { createDice } from "../workload.ts";
import {
  checkpoint,
  claimNext,
  claimTerms,
  createAssistant,
  createClaimedRun,
  createFinishedRun,
  createPendingRun,
  createThread,
  finish,
  firstPage,
  here,
  newRun,
  progress,
  request,
  type StorageTest,
  type SuiteApi,
  scaleByEffort,
  stateless,
  there,
} from "./material.ts";

export function threadTests(api: SuiteApi, test: StorageTest): void {
  api.describe("threads", () => {
    test("are found by their current metadata, not by their earlier one", async (storage) => {
      const keys = (from: number, to: number): JsonObject =>
        Object.fromEntries(Array.from({ length: to - from }, (_, i) => [`key${from + i}`, from + i]));
      await createThread(storage, "t", keys(0, 20));
      await createThread(storage, "other", keys(0, 5));
      const findIds = async (metadata: JsonObject): Promise<string> => {
        const query = { metadata, limit: 9, offset: 0, sort_by: "thread_id", sort_order: "asc" } as const;
        return (await storage.searchThreads(here, query)).rows.map((row) => row.thread_id).join();
      };
      assert.equal(await findIds({ key19: 19 }), "t");
      const assistant = await createAssistant(storage);
      await storage.updateThread(here, "t", () => ({ metadata: keys(10, 31) }), 2000);
      const matches = async () => [
        await findIds({ key4: 4 }),
        await findIds({ key10: 10 }),
        await findIds(keys(21, 31)),
      ];
      assert.deepEqual(await matches(), ["other", "t", "t"]);
      const before = (await storage.getThread(here, "t")) as ThreadRow;
      const update_thread = { metadata: { ...keys(3, 5), key10: 10 }, config: {} };
      const plan = await request(storage, assistant, "t", "r1");
      assert.equal((await storage.createRun(here, { ...plan, update_thread })).kind, "created");
      assert.deepEqual(await matches(), ["other,t", "t", ""]);
      assert.notEqual((await storage.getThread(here, "t"))?.revision, before.revision);
      const late = { ...plan, run: newRun("t", "r2"), update_thread: { metadata: keys(21, 31), config: {} } };
      assert.equal((await storage.createRun(here, late)).kind, "stale");
      assert.deepEqual(await matches(), ["other,t", "t", ""]);
    });

    test("are counted as they are created and deleted, without those of stateless runs", async (storage) => {
      const assistant = await createAssistant(storage);
      const counts = async (scope = here): Promise<string> => {
        const page = { limit: 100, offset: 0, sort_by: "created_at", sort_order: "asc" } as const;
        const { rows, total } = await storage.searchThreads(scope, page);
        assert.equal(total, rows.length);
        assert.equal(await countThreads(storage, scope, {}), rows.length);
        assert.equal((await storage.searchThreads(scope, { ...page, limit: 1 })).total, rows.length);
        return `${await countAssistants(storage, scope, {})} ${rows.map(({ thread_id }) => thread_id).sort()}`;
      };
      assert.equal(await counts(there), "0 ");
      for (const id of ["a", "b", "c", "c"]) await createThread(storage, id, { assistant_id: "a" });
      await createThread(storage, "a", {}, 1000, there);
      await createAssistant(storage, {}, 1000, there);
      await createAssistant(storage);
      await createAssistant(storage, { assistant_id: "other" });
      assert.equal(await counts(), "2 a,b,c");
      const ttl = { strategy: "delete", ttl_ms: 500 } as const;
      await storage.createThread(here, { thread_id: "d", metadata: {}, config: {}, stateless: false, ttl }, 1000);
      const { revision } = (await storage.getThread(here, "a")) as ThreadRow;
      await storage.copyThread(here, { from: "a", expected_revision: revision, thread_id: "e", metadata: {} }, 4000);
      const { lease } = await stateless(storage, assistant, "r1");
      assert.equal(await counts(), "2 a,b,c,d,e");
      assert.deepEqual(await storage.pruneThreads(here, { max_expired: 9 }, 9000), ["d"]);
      await storage.finishRun(here, lease, finish());
      const ages = { stateless_before: 9e9, frames_before: 9e9, keys_before: 9e9, features: {} };
      assert.notEqual(await storage.deleteExpired(here, { ...ages, limit: 10, now: 9e9 }), 0);
      assert.equal(await counts(), "2 a,b,c,e");
      const createdFork = {
        run: newRun("f", "r2"),
        now: 1100,
        expected: { assistant_revision: 0, thread_revision: null },
      };
      const create_thread = { thread_id: "f", metadata: {}, config: {}, stateless: false };
      const refused = await storage.createRun(here, { ...createdFork, create_thread });
      assert.equal(refused.kind, "stale");
      const expected = { assistant_revision: assistant.revision, thread_revision: null };
      assert.equal((await storage.createRun(here, { ...createdFork, expected, create_thread })).kind, "created");
      assert.equal(await storage.deleteThread(here, "e"), true);
      assert.equal(await storage.deleteThread(here, "e"), false);
      assert.equal(await counts(), "2 a,b,c,f");
      assert.equal(await storage.deleteAssistant(here, "a", { delete_threads: true }), true);
      assert.equal(await counts(), "1 f");
      assert.equal(await counts(there), "1 a");
      await createThread(storage, "a");
      assert.equal(await counts(), "1 a,f");
    });

    test("are created once, and a second create returns the existing one", async (storage) => {
      const terms = { thread_id: "t", metadata: { a: 1 }, config: { b: 2 }, stateless: false };
      const first = await storage.createThread(here, terms, 1000);
      assert.equal(first.kind, "created");
      assert.deepEqual(
        { ...first.thread, revision: 0 },
        {
          ...terms,
          created_at: 1000,
          updated_at: 1000,
          state_updated_at: 1000,
          graph_id: null,
          status: "idle",
          head: null,
          interrupts: {},
          error: null,
          running: null,
          lock: null,
          records_all: false,
          ttl: null,
          revision: 0,
        },
      );
      const second = await storage.createThread(here, { ...terms, metadata: { c: 3 } }, 2000);
      assert.deepEqual(second, { kind: "exists", thread: first.thread });
      assert.deepEqual(await storage.getThread(here, "t"), first.thread);
      assert.equal(await countThreads(storage, here, { metadata: { c: 3 } }), 0);
      assert.equal(await storage.getThread(here, "u"), null);
    });

    test("accept one of many concurrent creates", async (storage) => {
      const terms = { thread_id: "t", metadata: {}, config: {}, stateless: false };
      const outcomes = await Promise.all(Array.from({ length: 10 }, () => storage.createThread(here, terms, 1000)));
      assert.equal(outcomes.filter((outcome) => outcome.kind === "created").length, 1);
    });

    test("merge concurrent updates, and filters see the new metadata", async (storage) => {
      const thread = await createThread(storage, "t", { old: true });
      await Promise.all(
        ["a", "b", "c", "d"].map((key) =>
          storage.updateThread(
            here,
            "t",
            ({ metadata: { old: _old, ...otherMetadata } }) => ({ metadata: { ...otherMetadata, [key]: 1 } }),
            2000,
          ),
        ),
      );
      const updated = (await storage.getThread(here, "t")) as ThreadRow;
      assert.deepEqual(updated.metadata, { a: 1, b: 1, c: 1, d: 1 });
      assert.equal(updated.updated_at, 2000);
      assert.equal(updated.state_updated_at, thread.state_updated_at);
      assert.notEqual(updated.revision, thread.revision);
      assert.equal(await countThreads(storage, here, { metadata: { a: 1, d: 1 } }), 1);
      assert.equal(await countThreads(storage, here, { metadata: { old: true } }), 0);
      assert.equal(await storage.updateThread(here, "u", (row) => row, 2000), null);
    });

    test("are excluded only from searches if they are hidden", async (storage) => {
      await storage.createThread(here, { thread_id: "t", metadata: { a: 1 }, config: {}, stateless: true }, 1000);
      assert.equal((await storage.getThread(here, "t"))?.stateless, true);
      assert.equal(await countThreads(storage, here, {}), 0);
      assert.equal(await countThreads(storage, here, { metadata: { a: 1 } }), 0);
      assert.deepEqual(await storage.searchThreads(here, { ...firstPage, sort_by: "created_at", ids: ["t"] }), {
        rows: [],
        total: 0,
      });
    });

    test("are found by ids and status, in every order, with exact totals", async (storage) => {
      const assistant = await createAssistant(storage);
      for (const [i, id] of ["t0", "t1", "t2", "t3"].entries()) await createThread(storage, id, { i }, 1000 + (i % 2));
      await createFinishedRun(storage, assistant, "t1", "r1", { status: "interrupted" });
      await createFinishedRun(storage, assistant, "t2", "r2", { status: "error" });
      await createPendingRun(storage, assistant, "t3", "r3");
      await createThread(storage, "t4", {}, 1000);
      const interrupts = { task: [{ value: "ok?" }] };
      await createFinishedRun(storage, assistant, "t4", "r4", { status: "interrupted", interrupts });
      const search = async (query: Partial<Parameters<Storage["searchThreads"]>[1]>) => {
        const matches = await storage.searchThreads(here, { ...firstPage, sort_by: "thread_id", ...query });
        return [matches.rows.map((row) => row.thread_id).join(), matches.total];
      };
      assert.deepEqual(await search({}), ["t0,t1,t2,t3,t4", 5]);
      assert.deepEqual(await search({ ids: ["t2", "t0", "x"] }), ["t0,t2", 2]);
      assert.deepEqual(await search({ ids: [] }), ["", 0]);
      assert.deepEqual(await search({ status: "idle" }), ["t0", 1]);
      assert.deepEqual(await search({ status: "interrupted" }), ["t1,t4", 2]);
      assert.deepEqual(await search({ status: "interrupted", waiting: true }), ["t4", 1]);
      assert.deepEqual(await search({ status: "idle", waiting: true }), ["", 0]);
      assert.deepEqual(await search({ status: "error" }), ["t2", 1]);
      assert.deepEqual(await search({ status: "busy" }), ["t3", 1]);
      assert.deepEqual(await search({ status: "busy", metadata: { i: 2 } }), ["", 0]);
      assert.deepEqual(await search({ sort_by: "status" }), ["t3,t2,t0,t1,t4", 5], "busy, error, idle, interrupted");
      assert.deepEqual(await search({ sort_by: "created_at" }), ["t0,t2,t4,t1,t3", 5]);
      assert.deepEqual(await search({ sort_by: "created_at", sort_order: "desc" }), ["t3,t1,t4,t2,t0", 5]);
      assert.deepEqual(await search({ limit: 1, offset: 3 }), ["t3", 5]);
      assert.deepEqual(await search({ limit: 0 }), ["", 5]);
      assert.equal(await countThreads(storage, here, { status: "busy" }), 1);
      assert.equal(await countThreads(storage, here, { status: "idle", ids: ["t0", "t1"], metadata: { i: 0 } }), 1);
    });

    test("are deleted with their runs and checkpoints; the worker loses its lease", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t", { a: 1 });
      const { lease } = await createClaimedRun(storage, assistant, "t", "r1");
      await createPendingRun(storage, assistant, "t", "r2");
      await storage.saveProgress(here, lease, progress([checkpoint("c1", { x: 1 })]), 1500);
      assert.equal(await storage.deleteThread(here, "t"), true);
      assert.equal(await storage.deleteThread(here, "t"), false);
      assert.equal(await storage.getThread(here, "t"), null);
      assert.equal(await storage.getRun(here, "r1"), null);
      assert.equal(await storage.getRun(here, "r2"), null);
      assert.equal(await storage.renewLease(here, lease, 9000), null);
      assert.equal(await storage.saveProgress(here, lease, progress([checkpoint("c2", {})]), 1600), false);
      assert.equal(await storage.finishRun(here, lease, finish()), null);
      await storage.releaseThreadLock(here, lease);
      await createThread(storage, "t");
      assert.deepEqual(await storage.listCheckpoints(here, "t", { limit: 10 }), []);
      assert.equal(await countThreads(storage, here, { metadata: { a: 1 } }), 0);
      assert.equal(await claimNext(storage, here, claimTerms("late")), null);
    });
  });

  api.describe("filters on metadata", () => {
    test("agree with containment for hostile keys and values", async (storage) => {
      const { below, pick } = createDice(7);
      const names = [
        "a",
        "b",
        'q"uote',
        "do.t",
        "$",
        "]",
        "[]",
        "nul\0",
        "é😀",
        "__proto__",
        "",
        "'; drop table threads; --",
      ];
      const scalars: Json[] = ["x", "y", "", 'q"', "nul\0", "1", 1, 0, -1.5, 1e21, true, false, null, "%", "_"];
      const createValue = (depth: number): Json => {
        const roll = below(10);
        if (depth > 0 && roll < 2) return Array.from({ length: below(4) }, () => createValue(depth - 1));
        if (depth > 0 && roll < 4) return object(depth - 1, below(3));
        return pick(scalars);
      };
      const object = (depth: number, size: number): JsonObject =>
        Object.fromEntries(Array.from({ length: size }, () => [pick(names), createValue(depth)]));
      /** A random part of a value; the value contains it. */
      const takePart = (whole: Json): Json => {
        if (Array.isArray(whole)) return whole.filter(() => below(2) === 0).map(takePart);
        if (typeof whole !== "object" || whole === null) return whole;
        const keptMembers = Object.entries(whole).filter(() => below(3) > 0);
        return Object.fromEntries(keptMembers.map(([key, item]) => [key, takePart(item)]));
      };

      const rows = Array.from({ length: 60 }, (_, i) => ({ id: `t${i}`, metadata: object(2, 1 + below(4)) }));
      for (const { id, metadata } of rows) await createThread(storage, id, metadata);
      const rounds = scaleByEffort(api, 500);
      let hits = 0;
      for (let i = 0; i < rounds; i++) {
        const metadata = (i % 2 ? takePart(pick(rows).metadata) : object(2, 1 + below(2))) as JsonObject;
        const limit = below(5);
        const offset = below(3);
        const expected = rows.filter((row) => contains(row.metadata, metadata)).map((row) => row.id);
        const matches = await storage.searchThreads(here, {
          metadata,
          limit,
          offset,
          sort_by: "created_at",
          sort_order: "asc",
        });
        const description = JSON.stringify(metadata);
        assert.equal(matches.total, expected.length, description);
        const page = expected.sort().slice(offset, offset + limit);
        assert.deepEqual(
          matches.rows.map((row) => row.thread_id),
          page,
          description,
        );
        for (const row of matches.rows) {
          assert.deepEqual(row.metadata, rows.find(({ id }) => id === row.thread_id)?.metadata);
        }
        if (i % 10 === 0) assert.equal(await countThreads(storage, here, { metadata }), expected.length, description);
        hits += expected.length;
      }
      assert.ok(hits > rounds, "the filters find something");
    });

    test("return the same pages after the middle of many rows", async (storage) => {
      const ids = Array.from({ length: 230 }, (_, i) => `t${String(i).padStart(3, "0")}`);
      for (const id of ids) await createThread(storage, id, { all: true });
      for (const metadata of [undefined, { all: true }]) {
        for (const sort_order of ["asc", "desc"] as const) {
          const whole = sort_order === "asc" ? ids : ids.toReversed();
          for (const [offset, limit] of [
            [200, 10],
            [225, 10],
            [229, 1],
            [230, 5],
            [1000, 5],
          ] as const) {
            const page = { metadata, limit, offset, sort_by: "thread_id", sort_order } as const;
            const { rows, total } = await storage.searchThreads(here, page);
            assert.equal(total, 230);
            assert.deepEqual(
              rows.map((row) => row.thread_id),
              whole.slice(offset, offset + limit),
            );
          }
        }
      }
    });

    test("apply to assistants too", async (storage) => {
      await createAssistant(storage, { assistant_id: "a1", metadata: { tags: ["x", { deep: [1, 2] }], n: 1 } });
      await createAssistant(storage, { assistant_id: "a2", metadata: { tags: ["y"], n: 1 } });
      const ids = async (metadata: JsonObject) => {
        const matches = await storage.searchAssistants(here, { ...firstPage, sort_by: "assistant_id", metadata });
        assert.equal(await countAssistants(storage, here, { metadata }), matches.total);
        return matches.rows.map((row) => row.assistant_id).join();
      };
      assert.equal(await ids({}), "a1,a2");
      assert.equal(await ids({ n: 1 }), "a1,a2");
      assert.equal(await ids({ n: "1" }), "");
      assert.equal(await ids({ tags: [] }), "a1,a2");
      assert.equal(await ids({ tags: [{ deep: [2] }] }), "a1");
      assert.equal(await ids({ tags: {} }), "");
    });
  });
}
