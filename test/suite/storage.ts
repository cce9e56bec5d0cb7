/** What every Storage must do. Run it on a new adapter: `storageSuite({ describe, it }, () => open())`. */
import assert from "node:assert/strict";
import type { ChannelValue, NewCheckpoint } from "../../lib/executor.ts";
import { contains, type Json, type JsonObject } from "../../lib/json.ts";
import type {
  AssistantContent,
  AssistantRow,
  ClaimedRun,
  CreateRun,
  CreateRunOutcome,
  FinishRun,
  Lease,
  NewRun,
  Progress,
  SavedCheckpoint,
  SavedValue,
  Scope,
  Storage,
  ThreadRow,
} from "../../lib/storage.ts";
import { dice, runWorkload } from "./workload.ts";

/** `describe` and `it` of the test runner; those of `node:test` fit. */
export interface SuiteApi {
  describe(name: string, fn: () => void): unknown;
  it(name: string, fn: () => Promise<void>): unknown;
}

const here: Scope = { deployment: "here" };
const there: Scope = { deployment: "there" };

const content: AssistantContent = {
  graph_id: "echo",
  name: "Echo",
  description: null,
  config: {},
  context: {},
  metadata: {},
};

/** Defines the tests. `open` gives a storage of its own for each, new and empty; the suite migrates and closes it. */
export function storageSuite(api: SuiteApi, open: () => Promise<Storage>): void {
  const test = (name: string, body: (storage: Storage) => Promise<void>): void => {
    api.it(name, async () => {
      const storage = await open();
      try {
        await storage.migrate();
        await body(storage);
      } finally {
        await storage.close();
      }
    });
  };

  api.describe("migrate", () => {
    test("may be called again, and by several at once", async (storage) => {
      await Promise.all([storage.migrate(), storage.migrate()]);
      await anAssistant(storage);
      await storage.migrate();
      assert.equal(await storage.countAssistants(here, {}), 1);
    });
  });

  api.describe("assistants", () => {
    test("creates once, and shows the existing one after", async (storage) => {
      const made = { ...content, assistant_id: "a", description: "d", config: { tags: ["x"] }, metadata: { n: 1 } };
      const first = await storage.createAssistant(here, made, 1000);
      assert.equal(first.kind, "created");
      const { revision, ...row } = first.assistant;
      assert.equal(typeof revision, "number");
      assert.deepEqual(row, { ...made, version: 1, created_at: 1000, updated_at: 1000 });
      const second = await storage.createAssistant(here, { ...made, name: "Other" }, 2000);
      assert.deepEqual(second, { kind: "exists", assistant: first.assistant });
      assert.deepEqual(await storage.getAssistant(here, "a"), first.assistant);
      assert.equal(await storage.getAssistant(here, "b"), null);
      assert.equal((await storage.listAssistantVersions(here, "a", { limit: 10, offset: 0 }))?.length, 1);
    });

    test("gives each update a version of its own", async (storage) => {
      const before = await anAssistant(storage);
      const rename = (name: string) => storage.updateAssistant(here, "a", (row) => ({ ...row, name }), 2000);
      const [two, three] = await Promise.all([rename("Two"), rename("Three")]);
      assert.deepEqual([two?.version, three?.version].sort(), [2, 3]);
      const active = (await storage.getAssistant(here, "a")) as AssistantRow;
      assert.equal(active.version, 3);
      assert.equal(active.updated_at, 2000);
      assert.equal(active.created_at, before.created_at);
      assert.notEqual(active.revision, before.revision);
      const versions = await storage.listAssistantVersions(here, "a", { limit: 10, offset: 0 });
      assert.deepEqual(
        versions?.map((row) => row.version),
        [3, 2, 1],
      );
      assert.equal(versions?.[0]?.name, active.name);
      assert.equal(await storage.updateAssistant(here, "b", (row) => row, 2000), null);
    });

    test("calls `next` with what the other update left", async (storage) => {
      await anAssistant(storage, { metadata: { count: 0 } });
      const add = () =>
        storage.updateAssistant(
          here,
          "a",
          (row) => ({ ...row, metadata: { ...row.metadata, count: (row.metadata.count as number) + 1 } }),
          2000,
        );
      await Promise.all(Array.from({ length: 8 }, add));
      assert.deepEqual((await storage.getAssistant(here, "a"))?.metadata, { count: 8 });
      assert.equal((await storage.getAssistant(here, "a"))?.version, 9);
    });

    test("activates a stored version, and the next update counts on from the highest", async (storage) => {
      const first = await anAssistant(storage, { name: "One", metadata: { m: 1 } });
      await storage.updateAssistant(here, "a", (row) => ({ ...row, name: "Two", metadata: { m: 2 } }), 2000);
      const outcome = await storage.setLatest(here, "a", 1, 3000);
      assert.equal(outcome.kind, "updated");
      const active = (await storage.getAssistant(here, "a")) as AssistantRow;
      assert.deepEqual(outcome, { kind: "updated", assistant: active });
      assert.deepEqual(
        { ...active, revision: 0 },
        { ...first, updated_at: 3000, revision: 0 },
        "everything the version holds is active again",
      );
      assert.notEqual(active.revision, first.revision);
      assert.equal(await storage.countAssistants(here, { metadata: { m: 1 } }), 1);
      assert.equal(await storage.countAssistants(here, { metadata: { m: 2 } }), 0);
      assert.deepEqual(await storage.setLatest(here, "a", 3, 3000), { kind: "version_not_found" });
      assert.deepEqual(await storage.setLatest(here, "b", 1, 3000), { kind: "assistant_not_found" });
      const next = await storage.updateAssistant(here, "a", (row) => row, 4000);
      assert.equal(next?.version, 3);
      assert.equal(next?.name, "One");
    });

    test("lists versions by metadata and page", async (storage) => {
      await anAssistant(storage, { metadata: { even: false } });
      for (let n = 2; n <= 6; n++) {
        await storage.updateAssistant(here, "a", (row) => ({ ...row, metadata: { even: n % 2 === 0 } }), n);
      }
      const list = async (query: { metadata?: JsonObject; limit: number; offset: number }) =>
        (await storage.listAssistantVersions(here, "a", query))?.map((row) => row.version);
      assert.deepEqual(await list({ limit: 2, offset: 1 }), [5, 4]);
      assert.deepEqual(await list({ metadata: { even: true }, limit: 2, offset: 1 }), [4, 2]);
      assert.deepEqual(await list({ metadata: { odd: true }, limit: 2, offset: 0 }), []);
      assert.deepEqual(await list({ limit: 5, offset: 50 }), []);
      assert.equal(await storage.listAssistantVersions(here, "b", { limit: 1, offset: 0 }), null);
    });

    test("searches by graph, name and order, with exact totals", async (storage) => {
      const names = ["Beta_one", "alpha%", "ALPHABET", "gamma", "Ünder"];
      for (const [i, name] of names.entries()) {
        await anAssistant(storage, { assistant_id: `a${i}`, name, graph_id: i < 3 ? "g1" : "g2" }, 1000 + (i % 2));
      }
      const search = async (query: Partial<Parameters<Storage["searchAssistants"]>[1]>) => {
        const found = await storage.searchAssistants(here, {
          limit: 10,
          offset: 0,
          sort_by: "assistant_id",
          sort_order: "asc",
          ...query,
        });
        return [found.rows.map((row) => row.assistant_id).join(), found.total];
      };
      assert.deepEqual(await search({}), ["a0,a1,a2,a3,a4", 5]);
      assert.deepEqual(await search({ graph_id: "g1" }), ["a0,a1,a2", 3]);
      assert.deepEqual(await search({ name: "alpha" }), ["a1,a2", 2]);
      assert.deepEqual(await search({ name: "a%" }), ["a1", 1]);
      assert.deepEqual(await search({ name: "A_O" }), ["a0", 1]);
      assert.deepEqual(await search({ name: "_" }), ["a0", 1]);
      assert.deepEqual(await search({ name: "nde" }), ["a4", 1]);
      assert.deepEqual(await search({ limit: 2, offset: 1 }), ["a1,a2", 5]);
      assert.deepEqual(await search({ limit: 2, offset: 9 }), ["", 5]);
      assert.deepEqual(await search({ sort_order: "desc" }), ["a4,a3,a2,a1,a0", 5]);
      assert.deepEqual(await search({ sort_by: "created_at" }), ["a0,a2,a4,a1,a3", 5], "ties are in order of the id");
      assert.deepEqual(await search({ sort_by: "updated_at", sort_order: "desc" }), ["a3,a1,a4,a2,a0", 5]);
      assert.deepEqual(await search({ sort_by: "name" }), ["a2,a0,a1,a3,a4", 5]);
      assert.deepEqual(await search({ sort_by: "graph_id", sort_order: "desc" }), ["a4,a3,a2,a1,a0", 5]);
      assert.equal(await storage.countAssistants(here, { graph_id: "g2", name: "amm" }), 1);
    });

    test("deletes an assistant with its versions, and its threads when asked", async (storage) => {
      const assistant = await anAssistant(storage);
      const threads: readonly [string, JsonObject][] = [
        ["mine", { assistant_id: "a", more: [1] }],
        ["other", { assistant_id: "b" }],
        ["nested", { inner: { assistant_id: "a" } }],
        ["listed", { assistant_id: ["a"] }],
        ["none", {}],
      ];
      for (const [thread_id, metadata] of threads) await aThread(storage, thread_id, metadata);
      await aRun(storage, assistant, "mine", "r1");
      assert.equal(await storage.deleteAssistant(here, "nobody", { delete_threads: true }), false);
      assert.equal(await storage.deleteAssistant(here, "a", { delete_threads: true }), true);
      assert.equal(await storage.deleteAssistant(here, "a", { delete_threads: true }), false);
      assert.equal(await storage.listAssistantVersions(here, "a", { limit: 1, offset: 0 }), null);
      assert.equal(await storage.getThread(here, "mine"), null);
      assert.equal(await storage.getRun(here, "r1"), null);
      assert.equal(await storage.countThreads(here, {}), 4);
      assert.equal(await storage.countThreads(here, { metadata: { assistant_id: "a" } }), 0);

      await anAssistant(storage, { assistant_id: "b" });
      assert.equal(await storage.deleteAssistant(here, "b", { delete_threads: false }), true);
      assert.equal(await storage.countThreads(here, {}), 4);
    });
  });

  api.describe("threads", () => {
    test("finds a thread by what its metadata is, not by what it was", async (storage) => {
      const keys = (from: number, to: number): JsonObject =>
        Object.fromEntries(Array.from({ length: to - from }, (_, i) => [`key${from + i}`, from + i]));
      await aThread(storage, "t", keys(0, 20));
      await aThread(storage, "other", keys(0, 5));
      const found = async (metadata: JsonObject): Promise<string> => {
        const query = { metadata, limit: 9, offset: 0, sort_by: "thread_id", sort_order: "asc" } as const;
        return (await storage.searchThreads(here, query)).rows.map((row) => row.thread_id).join();
      };
      assert.equal(await found({ key19: 19 }), "t");
      const assistant = await anAssistant(storage);
      await storage.updateThread(here, "t", () => ({ metadata: keys(10, 31) }), 2000);
      const held = async () => [await found({ key4: 4 }), await found({ key10: 10 }), await found(keys(21, 31))];
      assert.deepEqual(await held(), ["other", "t", "t"]);
      const seen = (await storage.getThread(here, "t")) as ThreadRow;
      const update_thread = { metadata: { ...keys(3, 5), key10: 10 }, config: {} };
      const plan = await request(storage, assistant, "t", "r1");
      assert.equal((await storage.createRun(here, { ...plan, update_thread })).kind, "created");
      assert.deepEqual(await held(), ["other,t", "t", ""]);
      assert.notEqual((await storage.getThread(here, "t"))?.revision, seen.revision);
      const late = { ...plan, run: newRun("t", "r2"), update_thread: { metadata: keys(21, 31), config: {} } };
      assert.equal((await storage.createRun(here, late)).kind, "stale");
      assert.deepEqual(await held(), ["other,t", "t", ""]);
    });

    test("creates once, and shows the existing one after", async (storage) => {
      const made = { thread_id: "t", metadata: { a: 1 }, config: { b: 2 }, hidden: false };
      const first = await storage.createThread(here, made, 1000);
      assert.equal(first.kind, "created");
      assert.deepEqual(
        { ...first.thread, revision: 0 },
        {
          ...made,
          created_at: 1000,
          updated_at: 1000,
          state_updated_at: 1000,
          graph_id: null,
          status: "idle",
          head: null,
          interrupts: {},
          error: null,
          running: null,
          revision: 0,
        },
      );
      const second = await storage.createThread(here, { ...made, metadata: { c: 3 } }, 2000);
      assert.deepEqual(second, { kind: "exists", thread: first.thread });
      assert.deepEqual(await storage.getThread(here, "t"), first.thread);
      assert.equal(await storage.countThreads(here, { metadata: { c: 3 } }), 0);
      assert.equal(await storage.getThread(here, "u"), null);
    });

    test("accepts one of many concurrent creates", async (storage) => {
      const made = { thread_id: "t", metadata: {}, config: {}, hidden: false };
      const outcomes = await Promise.all(Array.from({ length: 10 }, () => storage.createThread(here, made, 1000)));
      assert.equal(outcomes.filter((outcome) => outcome.kind === "created").length, 1);
    });

    test("merges concurrent updates, and filters see the new metadata", async (storage) => {
      const thread = await aThread(storage, "t", { old: true });
      await Promise.all(
        ["a", "b", "c", "d"].map((key) =>
          storage.updateThread(
            here,
            "t",
            ({ metadata: { old: _old, ...rest } }) => ({ metadata: { ...rest, [key]: 1 } }),
            2000,
          ),
        ),
      );
      const updated = (await storage.getThread(here, "t")) as ThreadRow;
      assert.deepEqual(updated.metadata, { a: 1, b: 1, c: 1, d: 1 });
      assert.equal(updated.updated_at, 2000);
      assert.equal(updated.state_updated_at, thread.state_updated_at);
      assert.notEqual(updated.revision, thread.revision);
      assert.equal(await storage.countThreads(here, { metadata: { a: 1, d: 1 } }), 1);
      assert.equal(await storage.countThreads(here, { metadata: { old: true } }), 0);
      assert.equal(await storage.updateThread(here, "u", (row) => row, 2000), null);
    });

    test("hides hidden threads from searches alone", async (storage) => {
      await storage.createThread(here, { thread_id: "t", metadata: { a: 1 }, config: {}, hidden: true }, 1000);
      assert.equal((await storage.getThread(here, "t"))?.hidden, true);
      assert.equal(await storage.countThreads(here, {}), 0);
      assert.equal(await storage.countThreads(here, { metadata: { a: 1 } }), 0);
      assert.deepEqual(await storage.searchThreads(here, { ...firstPage, sort_by: "created_at", ids: ["t"] }), {
        rows: [],
        total: 0,
      });
    });

    test("searches by ids and status, in every order, with exact totals", async (storage) => {
      const assistant = await anAssistant(storage);
      for (const [i, id] of ["t0", "t1", "t2", "t3"].entries()) await aThread(storage, id, { i }, 1000 + (i % 2));
      await finished(storage, assistant, "t1", "r1", { status: "interrupted" });
      await finished(storage, assistant, "t2", "r2", { status: "error" });
      await aRun(storage, assistant, "t3", "r3");
      const search = async (query: Partial<Parameters<Storage["searchThreads"]>[1]>) => {
        const found = await storage.searchThreads(here, { ...firstPage, sort_by: "thread_id", ...query });
        return [found.rows.map((row) => row.thread_id).join(), found.total];
      };
      assert.deepEqual(await search({}), ["t0,t1,t2,t3", 4]);
      assert.deepEqual(await search({ ids: ["t2", "t0", "x"] }), ["t0,t2", 2]);
      assert.deepEqual(await search({ ids: [] }), ["", 0]);
      assert.deepEqual(await search({ status: "idle" }), ["t0", 1]);
      assert.deepEqual(await search({ status: "interrupted" }), ["t1", 1]);
      assert.deepEqual(await search({ status: "error" }), ["t2", 1]);
      assert.deepEqual(await search({ status: "busy" }), ["t3", 1]);
      assert.deepEqual(await search({ status: "busy", metadata: { i: 2 } }), ["", 0]);
      assert.deepEqual(await search({ sort_by: "status" }), ["t3,t2,t0,t1", 4], "busy, error, idle, interrupted");
      assert.deepEqual(await search({ sort_by: "created_at" }), ["t0,t2,t1,t3", 4]);
      assert.deepEqual(await search({ sort_by: "created_at", sort_order: "desc" }), ["t3,t1,t2,t0", 4]);
      assert.deepEqual(await search({ limit: 1, offset: 3 }), ["t3", 4]);
      assert.deepEqual(await search({ limit: 0 }), ["", 4]);
      assert.equal(await storage.countThreads(here, { status: "busy" }), 1);
      assert.equal(await storage.countThreads(here, { status: "idle", ids: ["t0", "t1"], metadata: { i: 0 } }), 1);
    });

    test("deletes a thread with its runs and checkpoints; the worker loses its lease", async (storage) => {
      const assistant = await anAssistant(storage);
      await aThread(storage, "t", { a: 1 });
      const { lease } = await claimed(storage, assistant, "t", "r1");
      await aRun(storage, assistant, "t", "r2");
      await storage.saveProgress(here, lease, progress([checkpoint("c1", { x: 1 })]), 1500);
      assert.equal(await storage.deleteThread(here, "t"), true);
      assert.equal(await storage.deleteThread(here, "t"), false);
      assert.equal(await storage.getThread(here, "t"), null);
      assert.equal(await storage.getRun(here, "r1"), null);
      assert.equal(await storage.getRun(here, "r2"), null);
      assert.equal(await storage.renewLease(here, lease, 9000), null);
      assert.equal(await storage.saveProgress(here, lease, progress([checkpoint("c2", {})]), 1600), false);
      assert.equal(await storage.finishRun(here, lease, finish()), false);
      await storage.releaseSlot(here, lease);
      await aThread(storage, "t");
      assert.deepEqual(await storage.listCheckpoints(here, "t", { limit: 10 }), []);
      assert.equal(await storage.countThreads(here, { metadata: { a: 1 } }), 0);
      assert.equal(await claimNext(storage, here, claimTerms("late")), null);
    });
  });

  api.describe("filters on metadata", () => {
    test("agree with containment for hostile keys and values", async (storage) => {
      const { below, pick } = dice(7);
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
      const value = (depth: number): Json => {
        const roll = below(10);
        if (depth > 0 && roll < 2) return Array.from({ length: below(4) }, () => value(depth - 1));
        if (depth > 0 && roll < 4) return object(depth - 1, below(3));
        return pick(scalars);
      };
      const object = (depth: number, size: number): JsonObject =>
        Object.fromEntries(Array.from({ length: size }, () => [pick(names), value(depth)]));
      /** A part of a value that it certainly contains. */
      const partOf = (whole: Json): Json => {
        if (Array.isArray(whole)) return whole.filter(() => below(2) === 0).map(partOf);
        if (typeof whole !== "object" || whole === null) return whole;
        const kept = Object.entries(whole).filter(() => below(3) > 0);
        return Object.fromEntries(kept.map(([key, item]) => [key, partOf(item)]));
      };

      const rows = Array.from({ length: 60 }, (_, i) => ({ id: `t${i}`, metadata: object(2, 1 + below(4)) }));
      for (const { id, metadata } of rows) await aThread(storage, id, metadata);
      let hits = 0;
      for (let i = 0; i < 500; i++) {
        const metadata = (i % 2 ? partOf(pick(rows).metadata) : object(2, 1 + below(2))) as JsonObject;
        const limit = below(5);
        const offset = below(3);
        const expected = rows.filter((row) => contains(row.metadata, metadata)).map((row) => row.id);
        const found = await storage.searchThreads(here, {
          metadata,
          limit,
          offset,
          sort_by: "created_at",
          sort_order: "asc",
        });
        const shown = JSON.stringify(metadata);
        assert.equal(found.total, expected.length, shown);
        const page = expected.sort().slice(offset, offset + limit);
        assert.deepEqual(
          found.rows.map((row) => row.thread_id),
          page,
          shown,
        );
        for (const row of found.rows) {
          assert.deepEqual(row.metadata, rows.find(({ id }) => id === row.thread_id)?.metadata);
        }
        if (i % 10 === 0) assert.equal(await storage.countThreads(here, { metadata }), expected.length, shown);
        hits += expected.length;
      }
      assert.ok(hits > 500, "the filters find something");
    });

    test("apply to assistants the same way", async (storage) => {
      await anAssistant(storage, { assistant_id: "a1", metadata: { tags: ["x", { deep: [1, 2] }], n: 1 } });
      await anAssistant(storage, { assistant_id: "a2", metadata: { tags: ["y"], n: 1 } });
      const ids = async (metadata: JsonObject) => {
        const found = await storage.searchAssistants(here, { ...firstPage, sort_by: "assistant_id", metadata });
        assert.equal(await storage.countAssistants(here, { metadata }), found.total);
        return found.rows.map((row) => row.assistant_id).join();
      };
      assert.equal(await ids({}), "a1,a2");
      assert.equal(await ids({ n: 1 }), "a1,a2");
      assert.equal(await ids({ n: "1" }), "");
      assert.equal(await ids({ tags: [] }), "a1,a2");
      assert.equal(await ids({ tags: [{ deep: [2] }] }), "a1");
      assert.equal(await ids({ tags: {} }), "");
    });
  });

  api.describe("createRun", () => {
    test("adds a pending run and makes the thread busy", async (storage) => {
      const assistant = await anAssistant(storage);
      await aThread(storage, "t");
      const run = newRun("t", "r1", { metadata: { m: 1 }, kwargs: { input: { text: "x\0y" } } });
      const outcome = await storage.createRun(here, { ...(await request(storage, assistant, "t", "r1")), run });
      assert.equal(outcome.kind, "created");
      const row = { ...run, created_at: 1100, updated_at: 1100, status: "pending", attempt: 0, claims: 0 };
      const rest = { started_at: null, ended_at: null, error: null, result: null };
      assert.deepEqual(outcome, { kind: "created", run: { ...row, ...rest }, claimed: null });
      assert.deepEqual(await storage.getRun(here, "r1"), { ...row, ...rest });
      const thread = (await storage.getThread(here, "t")) as ThreadRow;
      assert.equal(thread.status, "busy");
      assert.equal(thread.running, null);
      assert.equal(thread.graph_id, "echo");
      assert.equal(thread.updated_at, 1100);
    });

    test("claims for an idle worker when nothing runs or waits", async (storage) => {
      const assistant = await anAssistant(storage);
      await aThread(storage, "t", { m: 1 });
      const first = await claimed(storage, assistant, "t", "r1");
      assert.deepEqual(first.lease, { run_id: "r1", thread_id: "t", token: "token-r1" });
      assert.equal(first.run.status, "running");
      assert.equal(first.run.attempt, 1);
      assert.equal(first.run.started_at, 1100);
      assert.equal(first.resumed, false);
      assert.deepEqual(first.thread, await storage.getThread(here, "t"));
      assert.equal(first.thread.running, "r1");
      const second = await storage.createRun(here, {
        ...(await request(storage, assistant, "t", "r2")),
        claim: { token: "token-r2", lease_until: 5000 },
      });
      assert.equal(second.kind === "created" && second.run.status, "pending");
      assert.equal(second.kind === "created" && second.claimed, null);
      await storage.finishRun(here, first.lease, finish());
      const third = await storage.createRun(here, {
        ...(await request(storage, assistant, "t", "r3")),
        claim: { token: "token-r3", lease_until: 5000 },
      });
      assert.equal(third.kind === "created" && third.claimed, null, "r2 waits before it");
      assert.equal((await claimNext(storage, here, claimTerms("next")))?.run.run_id, "r2");
    });

    test("makes the thread in the same batch, once", async (storage) => {
      const assistant = await anAssistant(storage);
      const create = (run_id: string, assistant_revision = assistant.revision) =>
        storage.createRun(here, {
          run: newRun("t", run_id),
          seen: { assistant_revision, thread_revision: null },
          create_thread: { thread_id: "t", metadata: { made: run_id }, config: { c: 1 }, hidden: false },
          claim: { token: `token-${run_id}`, lease_until: 5000 },
          now: 1100,
        });
      assert.deepEqual(await create("r0", assistant.revision - 1), { kind: "stale" });
      assert.equal(await storage.getThread(here, "t"), null, "no orphan thread");
      const outcomes = await Promise.all(["r1", "r2", "r3"].map((id) => create(id)));
      // Which of them is first is for the database to say.
      const won = outcomes.findIndex((outcome) => outcome.kind === "created");
      const winner = outcomes[won] as Extract<CreateRunOutcome, { kind: "created" }>;
      const stale = outcomes.toSpliced(won, 1);
      assert.deepEqual(stale, [{ kind: "stale" }, { kind: "stale" }]);
      const thread = (await storage.getThread(here, "t")) as ThreadRow;
      assert.deepEqual(winner.claimed?.thread, thread);
      assert.deepEqual(thread.metadata, { made: `r${won + 1}` });
      assert.equal(thread.graph_id, "echo");
      assert.equal(await storage.countThreads(here, { metadata: { made: `r${won + 1}` } }), 1);
      for (const lost of ["r1", "r2", "r3"].toSpliced(won, 1)) {
        assert.equal(await storage.countThreads(here, { metadata: { made: lost } }), 0);
        assert.equal(await storage.getRun(here, lost), null);
      }
    });

    test("refuses what was resolved from something that changed", async (storage) => {
      const assistant = await anAssistant(storage);
      await aThread(storage, "t", { a: 1 });
      const seen = await request(storage, assistant, "t", "r1");
      await storage.updateThread(here, "t", () => ({ metadata: { a: 2 } }), 1050);
      const rewrite = { ...seen, update_thread: { metadata: { lost: 1 }, config: {} } };
      assert.deepEqual(await storage.createRun(here, rewrite), { kind: "stale" });
      assert.deepEqual((await storage.getThread(here, "t"))?.metadata, { a: 2 });
      assert.equal(await storage.countThreads(here, { metadata: { a: 2 } }), 1);
      const again = await request(storage, assistant, "t", "r1");
      await storage.updateAssistant(here, "a", (row) => row, 1060);
      assert.deepEqual(await storage.createRun(here, again), { kind: "stale" });
      await storage.deleteAssistant(here, "a", { delete_threads: false });
      assert.deepEqual(await storage.createRun(here, again), { kind: "stale" });
      assert.deepEqual(await storage.createRun(here, { ...again, run: newRun("u", "r1") }), {
        kind: "thread_not_found",
      });
      assert.equal(await storage.getRun(here, "r1"), null);
      assert.equal((await storage.getThread(here, "t"))?.status, "idle");
    });

    test("writes the thread's metadata and config with the run", async (storage) => {
      const assistant = await anAssistant(storage);
      const before = await aThread(storage, "t", { a: 1 });
      const update_thread = { metadata: { a: 2, b: [1] }, config: { configurable: { c: 1 } } };
      const made = await storage.createRun(here, { ...(await request(storage, assistant, "t", "r1")), update_thread });
      assert.equal(made.kind, "created");
      const thread = (await storage.getThread(here, "t")) as ThreadRow;
      assert.deepEqual(thread.metadata, update_thread.metadata);
      assert.deepEqual(thread.config, update_thread.config);
      assert.notEqual(thread.revision, before.revision);
      assert.equal(await storage.countThreads(here, { metadata: { a: 1 } }), 0);
      assert.equal(await storage.countThreads(here, { metadata: { a: 2, b: [1] } }), 1);
      assert.equal((await aRun(storage, assistant, "t", "r2")).kind, "created");
      assert.equal(
        (await storage.getThread(here, "t"))?.revision,
        thread.revision,
        "a run without changes moves nothing",
      );
    });

    test("accepts one of twenty concurrent reject runs", async (storage) => {
      const assistant = await anAssistant(storage);
      await aThread(storage, "t");
      const seen = await request(storage, assistant, "t", "");
      const outcomes = await Promise.all(
        Array.from({ length: 20 }, (_, i) =>
          storage.createRun(here, { ...seen, run: newRun("t", `r${i}`, { multitask_strategy: "reject" }) }),
        ),
      );
      assert.equal(outcomes.filter((outcome) => outcome.kind === "created").length, 1);
      assert.equal(outcomes.filter((outcome) => outcome.kind === "thread_busy").length, 19);
      assert.equal((await storage.listRuns(here, "t", { limit: 50, offset: 0 })).length, 1);
    });
  });

  api.describe("claimRun", () => {
    test("says whether runs wait for their threads, or none is due", async (storage) => {
      const assistant = await anAssistant(storage);
      await aThread(storage, "t");
      const kind = async (now: number): Promise<string> =>
        (await storage.claimRun(here, { token: `at ${now}`, lease_until: now + 5000, graph_ids: ["echo"], now })).kind;
      assert.equal(await kind(2000), "none");
      for (const run of ["t1", "t2"]) await storage.createRun(here, await request(storage, assistant, "t", run));
      assert.equal(await kind(2001), "claimed");
      assert.equal(await kind(2002), "blocked");
      assert.equal(await kind(7001), "claimed", "the first lease is over");
    });

    test("takes the oldest run of the thread due longest", async (storage) => {
      const assistant = await anAssistant(storage);
      for (const id of ["t", "u"]) await aThread(storage, id);
      for (const [i, [thread, run]] of [
        ["t", "t1"],
        ["t", "t2"],
        ["u", "u1"],
        ["t", "t3"],
        ["u", "u2"],
      ].entries()) {
        await storage.createRun(here, {
          ...(await request(storage, assistant, thread as string, run as string)),
          now: 1100 + i,
        });
      }
      const order: string[] = [];
      for (;;) {
        const claim = await claimNext(storage, here, claimTerms(`token-${order.length}`));
        if (!claim) break;
        order.push(claim.run.run_id);
        await storage.finishRun(here, claim.lease, finish());
      }
      assert.deepEqual(order, ["t1", "t2", "u1", "t3", "u2"]);
    });

    test("keeps a thread's order whatever the clocks and graphs of its runs", async (storage) => {
      const assistant = await anAssistant(storage);
      await aThread(storage, "t");
      for (const [run_id, graph_id, now] of [
        ["r1", "other", 1300],
        ["r2", "echo", 1200],
      ] as const) {
        const asked = await request(storage, assistant, "t", run_id);
        await storage.createRun(here, { ...asked, run: newRun("t", run_id, { graph_id }), now });
      }
      assert.equal(await claimNext(storage, here, claimTerms("w")), null, "r1 is first, and not for this worker");
      const first = await claimNext(storage, here, { ...claimTerms("w"), graph_ids: ["other", "echo"] });
      assert.equal(first?.run.run_id, "r1");
    });

    test("gives each of many workers a thread of its own", async (storage) => {
      const assistant = await anAssistant(storage);
      for (const thread of ["t", "u", "v"]) {
        await aThread(storage, thread);
        for (const n of [1, 2]) await aRun(storage, assistant, thread, `${thread}${n}`);
      }
      const claims = await Promise.all(
        Array.from({ length: 8 }, (_, i) => claimNext(storage, here, claimTerms(`w${i}`))),
      );
      const taken = claims.filter((claim) => claim !== null);
      assert.deepEqual(taken.map((claim) => claim.run.run_id).sort(), ["t1", "u1", "v1"]);
      for (const claim of taken) {
        assert.equal(claim.run.status, "running");
        assert.deepEqual(claim.run, await storage.getRun(here, claim.run.run_id));
        assert.deepEqual(claim.thread, await storage.getThread(here, claim.run.thread_id));
      }
      assert.equal(await claimNext(storage, here, claimTerms("more")), null);
    });

    test("takes only runs of the graphs asked for", async (storage) => {
      const assistant = await anAssistant(storage);
      await aThread(storage, "t");
      await aRun(storage, assistant, "t", "r1");
      assert.equal(await claimNext(storage, here, { ...claimTerms("w"), graph_ids: [] }), null);
      assert.equal(await claimNext(storage, here, { ...claimTerms("w"), graph_ids: ["other"] }), null);
      assert.equal(
        (await claimNext(storage, here, { ...claimTerms("w"), graph_ids: ["other", "echo"] }))?.run.run_id,
        "r1",
      );
    });

    test("takes over when the lease is over; the first worker writes nothing more", async (storage) => {
      const assistant = await anAssistant(storage);
      await aThread(storage, "t");
      const { lease } = await claimed(storage, assistant, "t", "r1");
      assert.equal(await claimNext(storage, here, { ...claimTerms("w2"), now: 4999 }), null);
      assert.deepEqual(await storage.renewLease(here, lease, 7000), { cancelled: false });
      assert.equal(await claimNext(storage, here, { ...claimTerms("w2"), now: 6999 }), null);
      const second = (await claimNext(storage, here, { ...claimTerms("w2"), now: 7000 })) as ClaimedRun;
      assert.equal(second.run.run_id, "r1");
      assert.equal(second.run.attempt, 2);
      assert.equal(second.run.started_at, 1100);
      assert.equal(second.resumed, false);

      assert.equal(await storage.renewLease(here, lease, 99000), null);
      const late = progress([checkpoint("late", { x: 1 })], [write("late", "task", 0, "y")]);
      assert.equal(await storage.saveProgress(here, lease, late, 7100), false);
      assert.equal(await storage.finishRun(here, lease, finish({ progress: late })), false);
      assert.equal(await storage.finishRun(here, lease, finish({ discard: true })), false);
      assert.equal(await storage.requeueRun(here, lease, 7100), false);
      await storage.releaseSlot(here, lease);
      assert.deepEqual(await storage.listCheckpoints(here, "t", { limit: 10 }), []);
      assert.equal((await storage.getThread(here, "t"))?.running, "r1");
      assert.equal(await claimNext(storage, here, { ...claimTerms("w3"), now: 7200 }), null, "the slot is still taken");
      assert.equal(await storage.finishRun(here, second.lease, finish()), true);
    });

    test("says when an earlier attempt has stored a root checkpoint", async (storage) => {
      const assistant = await anAssistant(storage);
      await aThread(storage, "t");
      const first = await claimed(storage, assistant, "t", "r1");
      const inner = { ...checkpoint("s1", {}), ns: "sub" };
      await storage.saveProgress(here, first.lease, progress([inner]), 1200);
      const second = (await claimNext(storage, here, { ...claimTerms("w2"), now: 5000 })) as ClaimedRun;
      assert.equal(second.resumed, false);
      await storage.saveProgress(here, second.lease, progress([checkpoint("c1", {})]), 5100);
      const third = (await claimNext(storage, here, {
        ...claimTerms("w3"),
        now: 95000,
        lease_until: 99000,
      })) as ClaimedRun;
      assert.equal(third.resumed, true);
      assert.equal(third.run.attempt, 3);
    });
  });

  api.describe("the end of a run", () => {
    test("changes run, thread and slot together, once", async (storage) => {
      const assistant = await anAssistant(storage);
      await aThread(storage, "t");
      const { lease } = await claimed(storage, assistant, "t", "r1");
      await aRun(storage, assistant, "t", "r2");
      const end = finish({
        status: "interrupted",
        error: { error: "E", message: "m" },
        result: [1],
        progress: progress([checkpoint("c1", { x: "v" })]),
        thread: { head: "c1", status: "error", interrupts: { task: [{ value: 1 }] }, error: { error: "E" } },
        now: 3000,
      });
      assert.equal(await storage.finishRun(here, lease, end), true);
      const run = await storage.getRun(here, "r1");
      assert.equal(run?.status, "interrupted");
      assert.deepEqual([run?.error, run?.result, run?.ended_at, run?.updated_at], [end.error, [1], 3000, 3000]);
      const thread = (await storage.getThread(here, "t")) as ThreadRow;
      assert.equal(thread.status, "busy", "r2 waits");
      assert.equal(thread.running, null);
      assert.deepEqual([thread.head, thread.interrupts, thread.error], ["c1", end.thread.interrupts, end.thread.error]);
      assert.deepEqual([thread.updated_at, thread.state_updated_at], [3000, 3000]);
      assert.equal((await storage.getCheckpoint(here, "t", { ns: "" }))?.run_id, "r1");

      assert.equal(await storage.finishRun(here, lease, finish({ now: 4000 })), false, "a second end changes nothing");
      assert.equal(await storage.saveProgress(here, lease, progress([checkpoint("c2", {})]), 4000), false);
      assert.equal((await storage.getRun(here, "r1"))?.status, "interrupted");
      const next = (await claimNext(storage, here, claimTerms("w2"))) as ClaimedRun;
      assert.equal(next.run.run_id, "r2");
      const rest = { status: "idle", interrupts: {}, error: null } as const;
      await storage.finishRun(here, next.lease, finish({ thread: { head: null, ...rest } }));
      assert.equal((await storage.getThread(here, "t"))?.head, "c1", "null keeps the head");
      assert.deepEqual((await storage.getThread(here, "t"))?.interrupts, {});
      assert.equal((await storage.getThread(here, "t"))?.status, "idle");
    });

    test("keeps a result of null apart from none in no way, and every other value", async (storage) => {
      const assistant = await anAssistant(storage);
      for (const [i, result] of ([null, false, 0, "", [], {}] as Json[]).entries()) {
        await aThread(storage, `t${i}`);
        await finished(storage, assistant, `t${i}`, `r${i}`, {}, { result });
        assert.deepEqual((await storage.getRun(here, `r${i}`))?.result, result);
      }
    });

    test("drops the checkpoints of a temporary run", async (storage) => {
      const assistant = await anAssistant(storage);
      for (const thread of ["t", "u"]) {
        await aThread(storage, thread);
        const { lease } = await claimed(storage, assistant, thread, `run-${thread}`);
        const made = progress([checkpoint("c1", { x: 1 })], [write("c1", "task", 0, "y")]);
        assert.equal(await storage.saveProgress(here, lease, made, 1200), true);
        await storage.finishRun(here, lease, finish({ discard: thread === "t", result: { x: 1 } }));
      }
      assert.equal(await storage.getCheckpoint(here, "t", { ns: "" }), null);
      assert.deepEqual((await storage.getRun(here, "run-t"))?.result, { x: 1 });
      assert.equal((await storage.getCheckpoint(here, "u", { ns: "" }))?.writes.length, 1);
    });

    test("puts a run back without charging the attempt", async (storage) => {
      const assistant = await anAssistant(storage);
      await aThread(storage, "t");
      const { lease } = await claimed(storage, assistant, "t", "r1");
      await aRun(storage, assistant, "t", "r2");
      await storage.saveProgress(here, lease, progress([checkpoint("c1", {})]), 1200);
      assert.equal(await storage.requeueRun(here, lease, 1300), true);
      assert.equal(await storage.requeueRun(here, lease, 1300), false);
      const run = await storage.getRun(here, "r1");
      assert.deepEqual([run?.status, run?.attempt], ["pending", 0]);
      assert.equal(await storage.saveProgress(here, lease, progress([checkpoint("c2", {})]), 1300), false);
      const again = (await claimNext(storage, here, { ...claimTerms("w2"), now: 1300 })) as ClaimedRun;
      assert.deepEqual([again.run.run_id, again.run.attempt, again.resumed], ["r1", 1, true]);
    });

    test("cancels: a pending run at once, a running one by its worker, a finished one not", async (storage) => {
      const assistant = await anAssistant(storage);
      await aThread(storage, "t");
      await aThread(storage, "u");
      const { lease } = await claimed(storage, assistant, "t", "r1");
      await aRun(storage, assistant, "t", "r2");
      assert.deepEqual(await storage.cancelRun(here, "t", "r2", 2000), { kind: "ended" });
      const pending = await storage.getRun(here, "r2");
      assert.deepEqual([pending?.status, pending?.ended_at], ["interrupted", 2000]);
      assert.deepEqual(await storage.renewLease(here, lease, 5000), { cancelled: false });
      assert.deepEqual(await storage.cancelRun(here, "t", "r1", 2100), { kind: "flagged" });
      assert.deepEqual(await storage.renewLease(here, lease, 5000), { cancelled: true });
      assert.equal((await storage.getThread(here, "t"))?.running, "r1");
      await storage.finishRun(here, lease, finish({ thread: { ...finish().thread, status: "interrupted" } }));
      assert.deepEqual(await storage.cancelRun(here, "t", "r1", 2200), { kind: "finished" });
      assert.equal((await storage.getRun(here, "r1"))?.status, "success");
      assert.equal(await storage.cancelRun(here, "u", "r1", 2200), null, "the run is of another thread");
      assert.equal(await storage.cancelRun(here, "t", "r9", 2200), null);
      await aRun(storage, assistant, "t", "r3");
      await storage.cancelRun(here, "t", "r3", 2300);
      assert.equal((await storage.getThread(here, "t"))?.status, "interrupted", "the state is as it was");
    });

    test("keeps the slot of a deleted thread's successor apart, and frees only its own", async (storage) => {
      const assistant = await anAssistant(storage);
      await aThread(storage, "t");
      const { lease } = await claimed(storage, assistant, "t", "r1");
      await storage.releaseSlot(here, lease);
      await aRun(storage, assistant, "t", "r2");
      assert.equal(await claimNext(storage, here, claimTerms("w2")), null, "a running run keeps its slot");
      await storage.finishRun(here, lease, finish());
      await claimNext(storage, here, claimTerms("w2"));
      await storage.releaseSlot(here, lease);
      await aRun(storage, assistant, "t", "r3");
      assert.equal(await claimNext(storage, here, claimTerms("w3")), null, "the slot is w2's");
    });
  });

  api.describe("runs", () => {
    test("lists newest first, by status and page", async (storage) => {
      const assistant = await anAssistant(storage);
      await aThread(storage, "t");
      await finished(storage, assistant, "t", "r1");
      for (const id of ["r2", "r3", "r4"]) await aRun(storage, assistant, "t", id);
      const ids = async (query: Parameters<Storage["listRuns"]>[2]) =>
        (await storage.listRuns(here, "t", query)).map((run) => run.run_id).join();
      assert.equal(await ids({ limit: 10, offset: 0 }), "r4,r3,r2,r1");
      assert.equal(await ids({ limit: 2, offset: 1 }), "r3,r2");
      assert.equal(await ids({ limit: 10, offset: 0, status: "success" }), "r1");
      assert.equal(await ids({ limit: 10, offset: 0, status: "running" }), "");
      assert.deepEqual(await storage.listRuns(here, "u", { limit: 10, offset: 0 }), []);
    });

    test("deletes what does not run, and the state stays", async (storage) => {
      const assistant = await anAssistant(storage);
      await aThread(storage, "t");
      await finished(
        storage,
        assistant,
        "t",
        "r1",
        { head: "c1" },
        { progress: progress([checkpoint("c1", { x: 1 })]) },
      );
      const { lease } = await claimed(storage, assistant, "t", "r2");
      await aRun(storage, assistant, "t", "r3");
      assert.equal(await storage.deleteRun(here, "u", "r1"), "not_found");
      assert.equal(await storage.deleteRun(here, "t", "r1"), "deleted");
      assert.equal(await storage.deleteRun(here, "t", "r1"), "not_found");
      assert.equal(await storage.deleteRun(here, "t", "r2"), "running");
      assert.equal(await storage.deleteRun(here, "t", "r3"), "deleted");
      assert.equal(await storage.finishRun(here, lease, finish({ thread: { ...finish().thread, head: null } })), true);
      assert.equal((await storage.getThread(here, "t"))?.head, "c1");
      assert.equal((await storage.getCheckpoint(here, "t", { ns: "" }))?.checkpoint_id, "c1");
      assert.equal((await storage.getThread(here, "t"))?.status, "idle");
    });

    test("sweeps temporary runs and their hidden threads when their time is over", async (storage) => {
      const assistant = await anAssistant(storage);
      const create = async (id: string, temporary: boolean, ended_at: number | null) => {
        const made = await storage.createRun(here, {
          run: newRun(`thread-${id}`, id, { temporary }),
          seen: { assistant_revision: assistant.revision, thread_revision: null },
          create_thread: { thread_id: `thread-${id}`, metadata: {}, config: {}, hidden: temporary },
          claim: { token: `token-${id}`, lease_until: 5000 },
          now: 1100,
        });
        const { claimed: claim } = made as Extract<CreateRunOutcome, { kind: "created" }>;
        if (ended_at !== null) await storage.finishRun(here, (claim as ClaimedRun).lease, finish({ now: ended_at }));
      };
      for (const id of ["r1", "r2", "r3"]) await create(id, true, 2000);
      await create("young", true, 3000);
      await create("active", true, null);
      await create("kept", false, 2000);
      assert.equal(await storage.sweepTemporary(here, 2000, 10), 0);
      assert.equal(await storage.sweepTemporary(here, 3000, 2), 2);
      assert.equal(await storage.sweepTemporary(here, 3000, 2), 1);
      assert.equal(await storage.sweepTemporary(here, 3000, 2), 0);
      for (const id of ["r1", "r2", "r3"]) {
        assert.equal(await storage.getRun(here, id), null);
        assert.equal(await storage.getThread(here, `thread-${id}`), null);
      }
      for (const id of ["young", "active", "kept"]) {
        assert.equal((await storage.getRun(here, id))?.run_id, id);
        assert.equal((await storage.getThread(here, `thread-${id}`))?.thread_id, `thread-${id}`);
      }
    });
  });

  api.describe("checkpoints", () => {
    test("give back what was put, text and bytes, in the order it was put", async (storage) => {
      const lease = await aLease(storage);
      const bytes = new Uint8Array([0, 255, 1, 128]);
      const odd = 'ch"a.n$[n]el \\ é😀\n';
      const first: SavedCheckpoint = {
        ns: "",
        checkpoint_id: "c1",
        parent_id: null,
        payload: { type: "bin", data: bytes },
        metadata: { source: "input", step: -1, text: "a\0b" },
        versions: Object.fromEntries([
          [odd, "v1"],
          ["__proto__", "v1"],
          ["unknown", "v1"],
        ]),
        values: [
          { channel: odd, version: "v1", type: "json", data: '{"b":1, "a":1e400}' },
          { channel: "__proto__", version: "v1", type: "bin", data: bytes },
        ],
        created_at: 1234,
      };
      const second: SavedCheckpoint = { ...checkpoint("c2", {}, "c1"), versions: first.versions, values: [] };
      assert.equal(await storage.saveProgress(here, lease, progress([first, second]), 1200), true);
      const stored = await storage.getCheckpoint(here, "t", { ns: "", checkpoint_id: "c1" });
      assert.deepEqual(stored, { ...first, run_id: "r1", writes: [] });
      const newest = await storage.getCheckpoint(here, "t", { ns: "" });
      assert.equal(newest?.checkpoint_id, "c2");
      assert.equal(newest?.parent_id, "c1");
      assert.deepEqual(newest?.values, first.values, "values are found by their version");
      assert.equal(await storage.getCheckpoint(here, "t", { ns: "", checkpoint_id: "c3" }), null);
      assert.equal(await storage.getCheckpoint(here, "t", { ns: "sub" }), null);
      assert.equal(await storage.getCheckpoint(here, "u", { ns: "" }), null);
    });

    test("replace what is put again, in its old place", async (storage) => {
      const lease = await aLease(storage);
      const made = (id: string, x: Json): SavedCheckpoint => checkpoint(id, { x }, null, "v1");
      await storage.saveProgress(here, lease, progress([made("c1", 1), checkpoint("c2", {})]), 1200);
      await storage.saveProgress(here, lease, progress([{ ...made("c1", 2), metadata: { again: true } }]), 1300);
      const all = await storage.listCheckpoints(here, "t", { limit: 10 });
      assert.deepEqual(
        all.map((stored) => stored.checkpoint_id),
        ["c2", "c1"],
      );
      assert.deepEqual(all[1]?.metadata, { again: true });
      assert.equal(all[1]?.values[0]?.data, "2");
    });

    test("are the newest of a run and namespace when asked", async (storage) => {
      const assistant = await anAssistant(storage);
      await aThread(storage, "t");
      const inner = { ...checkpoint("s1", {}), ns: "sub|1" };
      const saved = progress([checkpoint("c1", {}), inner, checkpoint("c2", {})]);
      await finished(storage, assistant, "t", "r1", { head: "c2" }, { progress: saved });
      await finished(storage, assistant, "t", "r2", { head: "c3" }, { progress: progress([checkpoint("c3", {})]) });
      const id = async (at: Parameters<Storage["getCheckpoint"]>[2]) =>
        (await storage.getCheckpoint(here, "t", at))?.checkpoint_id;
      assert.equal(await id({ ns: "" }), "c3");
      assert.equal(await id({ ns: "", run_id: "r1" }), "c2");
      assert.equal(await id({ ns: "sub|1" }), "s1");
      assert.equal(await id({ ns: "sub|1", run_id: "r2" }), undefined);
      assert.equal(await id({ ns: "", run_id: "r3" }), undefined);
    });

    test("are listed newest first, by namespace, age and metadata", async (storage) => {
      const lease = await aLease(storage);
      const all = Array.from({ length: 450 }, (_, i): SavedCheckpoint => {
        const made = checkpoint(`c${String(i).padStart(3, "0")}`, { i });
        return {
          ...made,
          ns: i % 3 === 2 ? "sub" : "",
          metadata: { step: i, mod: [i % 5], deep: { even: i % 2 === 0 } },
        };
      });
      await storage.saveProgress(here, lease, progress(all), 1200);
      const list = async (query: Parameters<Storage["listCheckpoints"]>[2]) =>
        (await storage.listCheckpoints(here, "t", query)).map((stored) => stored.metadata.step);
      assert.deepEqual(await list({ limit: 4 }), [449, 448, 447, 446]);
      assert.deepEqual(await list({ ns: "", limit: 3 }), [448, 447, 445]);
      assert.deepEqual(await list({ ns: "sub", limit: 2, before: "c449" }), [446, 443]);
      assert.deepEqual(await list({ limit: 2, before: "c002" }), [1, 0]);
      assert.deepEqual(await list({ ns: "", limit: 5, before: "c003" }), [1, 0]);
      assert.deepEqual(await list({ limit: 5, before: "c000" }), []);
      assert.deepEqual(await list({ limit: 5, before: "nowhere" }), []);
      assert.deepEqual(await list({ limit: 2, metadata: { mod: [4], deep: { even: true } } }), [444, 434]);
      assert.deepEqual(await list({ limit: 2, metadata: { step: 3 } }), [3], "however far back");
      assert.deepEqual(await list({ limit: 2, metadata: { mod: [1] }, ns: "sub", before: "c041" }), [26, 11]);
      assert.deepEqual(await list({ limit: 2, metadata: { mod: [9] } }), []);
      assert.deepEqual(await list({ limit: 0, metadata: { mod: [1] } }), []);
      const [stored] = await storage.listCheckpoints(here, "t", { limit: 1, before: "c010" });
      assert.deepEqual(
        stored,
        await storage.getCheckpoint(here, "t", { ns: stored?.ns ?? "", checkpoint_id: "c009" }),
        "with values and writes",
      );
      assert.equal(stored?.values[0]?.data, "9");
    });

    test("keep everything of a long run that was saved in few calls, in its order", async (storage) => {
      const lease = await aLease(storage);
      const bytes = (n: number) => new Uint8Array([n, 0, 255]);
      const saved = Array.from({ length: 40 }, (_, i): SavedCheckpoint => {
        const [a, b] = [`${i % 3 ? i : i - 1}`, `${i}`];
        return {
          ...checkpoint(`c${String(i).padStart(2, "0")}`, {}),
          versions: { a, b },
          values: [
            { channel: "a", version: `${i}`, type: "json", data: `"\\u0000 ${i}"` },
            { channel: "b", version: b, type: "raw", data: bytes(i) },
          ],
        };
      });
      const written = saved.map(({ checkpoint_id }, i) => write(checkpoint_id, "task", i, i));
      assert.equal(
        await storage.saveProgress(here, lease, progress(saved.slice(0, 21), written.slice(0, 21)), 1200),
        true,
      );
      const lost = { ...lease, token: "another" };
      assert.equal(await storage.saveProgress(here, lost, progress(saved.slice(21), written.slice(21)), 1200), false);
      assert.equal((await storage.listCheckpoints(here, "t", { limit: 50 })).length, 21);
      assert.equal(await storage.saveProgress(here, lease, progress(saved.slice(21), written.slice(21)), 1200), true);
      const all = await storage.listCheckpoints(here, "t", { limit: 50 });
      assert.deepEqual(
        all.map((row) => row.checkpoint_id),
        saved.map((row) => row.checkpoint_id).reverse(),
      );
      for (const [i, { values, writes }] of all.toReversed().entries()) {
        const a = i % 3 ? i : i - 1;
        assert.deepEqual(
          values.filter((value) => value.channel === "a").map((value) => value.data),
          a < 0 ? [] : [`"\\u0000 ${a}"`],
        );
        assert.deepEqual(
          values.filter((value) => value.channel === "b").map((value) => [...(value.data as Uint8Array)]),
          [[...bytes(i)]],
        );
        assert.deepEqual(
          writes.map((one) => [one.idx, one.data]),
          [[i, `${i}`]],
        );
      }
    });

    test("put tails back on what they extend", async (storage) => {
      const lease = await aLease(storage);
      const parts: readonly [data: string | Uint8Array, extended: string | undefined, whole: Json][] = [
        ["[]", undefined, []],
        ['[{"a":"]["}]', "v1", [{ a: "][" }]],
        ["[]", "v2", [{ a: "][" }]],
        [" [ 2 , 3 ] ", "v3", [{ a: "][" }, 2, 3]],
        [new TextEncoder().encode("[4]"), "v4", [{ a: "][" }, 2, 3, 4]],
        ["[9]", undefined, [9]],
        ["[8]", "v5", [{ a: "][" }, 2, 3, 4, 8]],
      ];
      const saved = parts.map(([data, extended], i): SavedCheckpoint => {
        const value: SavedValue = { channel: "m", version: `v${i + 1}`, type: "json", data };
        const values = extended === undefined ? [value] : [{ ...value, extends_version: extended }];
        return { ...checkpoint(`c${i + 1}`, {}), versions: { m: `v${i + 1}` }, values };
      });
      await storage.saveProgress(here, lease, progress(saved), 1200);
      const all = await storage.listCheckpoints(here, "t", { limit: 10 });
      assert.deepEqual(
        all.map(({ values: [value] }) => [value?.version, JSON.parse(value?.data as string)]).reverse(),
        parts.map(([, , whole], i) => [`v${i + 1}`, whole]),
      );
      for (const { checkpoint_id, values } of all) {
        const alone = await storage.getCheckpoint(here, "t", { ns: "", checkpoint_id });
        assert.deepEqual(alone?.values, values);
        assert.equal(alone?.values[0] && "extends_version" in alone.values[0], false);
        const { data, tail_length = 0 } = values[0] as ChannelValue;
        const alwaysWhole = checkpoint_id === "c1" || checkpoint_id === "c6";
        assert.equal(
          tail_length,
          alwaysWhole ? 0 : data.length,
          "what is not of the last whole copy, here an empty one",
        );
      }
    });

    test("show writes in order; the newest run's counts", async (storage) => {
      const assistant = await anAssistant(storage);
      await aThread(storage, "t");
      const first = progress(
        [checkpoint("c1", {})],
        [write("c1", "b", 1, "old"), write("c1", "b", 0, "x"), write("c1", "a", -2, "y"), write("c1", "b", 1, "new")],
      );
      await finished(storage, assistant, "t", "r1", { head: "c1" }, { progress: first });
      const shown = async () => {
        const stored = await storage.getCheckpoint(here, "t", { ns: "", checkpoint_id: "c1" });
        return stored?.writes.map(({ task_id, idx, channel, data }) => `${task_id}${idx}:${channel}=${data}`).join(" ");
      };
      assert.equal(await shown(), 'a-2:ch="y" b0:ch="x" b1:ch="new"');
      // r0 sorts before r1 but is the later run.
      const answer = progress([], [write("c1", "b", 1, "answer"), write("c1", "c", 0, "z")]);
      await finished(storage, assistant, "t", "r0", {}, { progress: answer });
      assert.equal(await shown(), 'a-2:ch="y" b0:ch="x" b1:ch="answer" c0:ch="z"');
      await storage.deleteRun(here, "t", "r0");
      assert.equal(await shown(), 'a-2:ch="y" b0:ch="x" b1:ch="answer" c0:ch="z"', "the state stays as it is");
    });
  });

  api.describe("deployments", () => {
    test("do not see each other, with equal ids", async (storage) => {
      const assistants = [await anAssistant(storage, {}, 1000, here), await anAssistant(storage, {}, 1000, there)];
      await aThread(storage, "t", { at: "here" }, 1000, here);
      await aThread(storage, "t", { at: "there" }, 1000, there);
      const { lease } = await claimed(storage, assistants[0] as AssistantRow, "t", "r1");
      await storage.saveProgress(here, lease, progress([checkpoint("c1", {})]), 1200);
      await aRun(storage, assistants[0] as AssistantRow, "t", "r2");

      assert.equal(await storage.getRun(there, "r1"), null);
      assert.deepEqual(await storage.listRuns(there, "t", { limit: 10, offset: 0 }), []);
      assert.equal((await storage.getThread(there, "t"))?.status, "idle");
      assert.equal(await storage.getCheckpoint(there, "t", { ns: "" }), null);
      assert.deepEqual(await storage.listCheckpoints(there, "t", { limit: 10 }), []);
      assert.equal(await storage.countThreads(there, { metadata: { at: "here" } }), 0);
      assert.equal(await claimNext(storage, there, { ...claimTerms("w"), now: 90000, lease_until: 99000 }), null);
      assert.equal(await storage.renewLease(there, lease, 99000), null);
      assert.equal(await storage.saveProgress(there, lease, progress([checkpoint("c2", {})]), 1200), false);
      assert.equal(await storage.finishRun(there, lease, finish()), false);
      assert.equal(await storage.requeueRun(there, lease, 1300), false);
      await storage.releaseSlot(there, lease);
      assert.equal(await storage.cancelRun(there, "t", "r1", 1300), null);
      assert.equal(await storage.deleteRun(there, "t", "r2"), "not_found");
      assert.equal(await storage.deleteThread(there, "t"), true);
      assert.equal(await storage.deleteAssistant(there, "a", { delete_threads: true }), true);
      assert.equal(await storage.sweepTemporary(there, 1e15, 10), 0);

      assert.equal((await storage.getThread(here, "t"))?.running, "r1");
      assert.equal((await storage.getAssistant(here, "a"))?.version, 1);
      assert.equal((await storage.getRun(here, "r2"))?.status, "pending");
      assert.equal((await storage.getCheckpoint(here, "t", { ns: "" }))?.checkpoint_id, "c1");
    });
  });

  api.describe("a random workload", () => {
    for (const seed of [1, 2]) {
      test(`keeps every promise, seed ${seed}`, (storage) => runWorkload(storage, seed));
    }
  });
}

// ---------------------------------------------------------------- material

const firstPage = { limit: 10, offset: 0, sort_order: "asc" } as const;

async function anAssistant(
  storage: Storage,
  options: Partial<AssistantContent & { assistant_id: string }> = {},
  now = 1000,
  scope: Scope = here,
): Promise<AssistantRow> {
  return (await storage.createAssistant(scope, { assistant_id: "a", ...content, ...options }, now)).assistant;
}

async function aThread(
  storage: Storage,
  thread_id: string,
  metadata: JsonObject = {},
  now = 1000,
  scope: Scope = here,
): Promise<ThreadRow> {
  return (await storage.createThread(scope, { thread_id, metadata, config: {}, hidden: false }, now)).thread;
}

function newRun(thread_id: string, run_id: string, options: Partial<NewRun> = {}): NewRun {
  return {
    run_id,
    thread_id,
    assistant_id: "a",
    graph_id: "echo",
    metadata: {},
    kwargs: {},
    multitask_strategy: "enqueue",
    temporary: false,
    ...options,
  };
}

async function request(
  storage: Storage,
  assistant: AssistantRow,
  thread_id: string,
  run_id: string,
): Promise<CreateRun> {
  const thread = (await storage.getThread(here, thread_id)) as ThreadRow;
  return {
    run: newRun(thread_id, run_id),
    seen: { assistant_revision: assistant.revision, thread_revision: thread.revision },
    now: 1100,
  };
}

async function aRun(storage: Storage, assistant: AssistantRow, thread: string, id: string): Promise<CreateRunOutcome> {
  return await storage.createRun(here, await request(storage, assistant, thread, id));
}

/** A run that its creation claimed, until 5000. */
async function claimed(storage: Storage, assistant: AssistantRow, thread: string, id: string): Promise<ClaimedRun> {
  const claim = { token: `token-${id}`, lease_until: 5000 };
  const made = await storage.createRun(here, { ...(await request(storage, assistant, thread, id)), claim });
  assert.ok(made.kind === "created" && made.claimed, `${id} is claimed`);
  return made.claimed;
}

/** A run on the thread that has ended. */
async function finished(
  storage: Storage,
  assistant: AssistantRow,
  thread_id: string,
  run_id: string,
  thread: Partial<FinishRun["thread"]> = {},
  options: Partial<FinishRun> = {},
): Promise<void> {
  const { lease } = await claimed(storage, assistant, thread_id, run_id);
  const end = finish(options);
  assert.equal(await storage.finishRun(here, lease, { ...end, thread: { ...end.thread, ...thread } }), true);
}

async function aLease(storage: Storage): Promise<Lease> {
  const assistant = await anAssistant(storage);
  await aThread(storage, "t");
  return (await claimed(storage, assistant, "t", "r1")).lease;
}

/** The claimed run, or null where there was none to claim. */
async function claimNext(storage: Storage, ...args: Parameters<Storage["claimRun"]>): Promise<ClaimedRun | null> {
  const outcome = await storage.claimRun(...args);
  return outcome.kind === "claimed" ? outcome.claimed : null;
}

function claimTerms(token: string): Parameters<Storage["claimRun"]>[1] {
  return { token, lease_until: 90000, graph_ids: ["echo"], now: 3000 };
}

function progress(checkpoints: Progress["checkpoints"], writes: Progress["writes"] = []): Progress {
  return { checkpoints, writes };
}

function checkpoint(
  checkpoint_id: string,
  values: JsonObject,
  parent_id: NewCheckpoint["parent_id"] = null,
  version: string = checkpoint_id,
): SavedCheckpoint {
  return {
    ns: "",
    checkpoint_id,
    parent_id,
    payload: { type: "json", data: "{}" },
    metadata: {},
    versions: Object.fromEntries(Object.keys(values).map((channel) => [channel, version])),
    values: Object.entries(values).map(([channel, value]) => ({
      channel,
      version,
      type: "json",
      data: JSON.stringify(value),
    })),
    created_at: 1200,
  };
}

function write(checkpoint_id: string, task_id: string, idx: number, data: Json): Progress["writes"][number] {
  const pending = { channel: "ch", idx, type: "json", data: JSON.stringify(data) };
  return { ns: "", checkpoint_id, task_id, writes: [pending] };
}

function finish(options: Partial<FinishRun> = {}): FinishRun {
  return {
    status: "success",
    error: null,
    result: null,
    progress: { checkpoints: [], writes: [] },
    discard: false,
    thread: { head: null, status: "idle", interrupts: {}, error: null },
    now: 2000,
    ...options,
  };
}
