/** Tests of visibility filters: each operation reads and changes only rows that `permits` accepts. */

import assert from "node:assert/strict";
import type { Json, JsonObject } from "../../../lib/json.ts";
import type { Scope, Storage } from "../../../lib/storage/mod.ts";
import { type Condition, type Filter, matchesFilter, type Scalar } from "../../../lib/storage/visibility.ts";
import { countAssistants, countThreads } from "../counts.ts";
import {
  checkpoint,
  content,
  createAssistant,
  createClaimedRun,
  createPendingRun,
  createSeeds,
  createThread,
  firstPage,
  formatOutcomes,
  frames,
  here,
  newRun,
  progress,
  type StorageTest,
  type SuiteApi,
  stateless,
  statuses,
} from "./material.ts";

/** Returns a generator of seeded random numbers below `n`. */
function dice(seed: number): (n: number) => number {
  let state = seed;
  return (n) => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) | 0;
    return ((state ^ (state >>> 13)) >>> 0) % n;
  };
}

// Values that SQL, JSON and JavaScript could interpret differently.
const SCALARS: readonly Scalar[] = [
  ...[
    "",
    "ann",
    "Ann",
    "ann ",
    "1",
    "0",
    "true",
    "null",
    "[]",
    '"ann"',
    "a'b",
    "a%",
    "a_",
    "é",
    "e\u0301",
    "😀",
    "\ud83d",
  ],
  ...["\u0000", "a\u0000", "a\u0000b", "a", "\ud800", "\udc00\ud800", "a\nb", "a\\nb", '["ann"]', '{"$eq":"ann"}'],
  ...[0, 1, -1, 1.5, 0.1, 0.2 + 0.1, 0.3, 2 ** 53, 2 ** 53 - 1, 2 ** 63, 2 ** 64, 1e21, 1e-7, 5e-324, Number.MAX_VALUE],
  ...[true, false, null],
];
const KEYS = [
  "owner",
  "Owner",
  "team",
  "",
  "a.b",
  "a",
  'a"b',
  "a\\b",
  "$",
  "$eq",
  "0",
  "[0]",
  "é",
  "\u0000",
  "__proto__",
  "\ud800",
];

function randomMetadata(roll: (n: number) => number): JsonObject {
  const scalar = (): Scalar => SCALARS[roll(SCALARS.length)] as Scalar;
  const createValue = (): Json => {
    const kind = roll(8);
    if (kind < 4) return scalar();
    if (kind < 7) return Array.from({ length: roll(4) }, () => (roll(6) === 0 ? [scalar()] : scalar()));
    return { owner: scalar(), [KEYS[roll(KEYS.length)] as string]: scalar() };
  };
  return Object.fromEntries(
    Array.from({ length: 1 + roll(5) }, () => [KEYS[roll(KEYS.length)] as string, createValue()]),
  );
}

/** Takes most conditions from an existing row, so that some rows match. */
function randomFilter(roll: (n: number) => number, rows: readonly JsonObject[]): Filter {
  const row = Object.entries(rows[roll(rows.length)] as JsonObject);
  return Array.from({ length: 1 + roll(2) }, (): Condition => {
    const [key, value] = row[roll(row.length)] as [string, Json];
    const guess = SCALARS[roll(SCALARS.length)] as Scalar;
    if (Array.isArray(value)) {
      const items = value.filter((item): item is Scalar => typeof item !== "object" || item === null);
      return roll(5) === 0 ? { key, equals: guess } : { key, contains: roll(6) === 0 ? [...items, guess] : items };
    }
    if (typeof value === "object" && value !== null) return { key, contains: [] };
    return roll(8) === 0 ? { key, contains: [value] } : { key, equals: roll(6) === 0 ? guess : value };
  });
}

const ann: Scope = { ...here, filter: [{ key: "owner", equals: "ann" }] };
const bob: Scope = { ...here, filter: [{ key: "owner", equals: "bob" }] };
const page = { limit: 1000, offset: 0, sort_by: "created_at", sort_order: "asc" } as const;

/** Two pending runs each on a visible and a hidden thread of Ann. */
async function waiting(storage: Storage): Promise<void> {
  const assistant = await createAssistant(storage, { metadata: { owner: "ann" } });
  await createThread(storage, "t", { owner: "ann" });
  await createPendingRun(storage, assistant, "t", "r1");
  await createPendingRun(storage, assistant, "t", "r2");
  await storage.createRun(here, {
    run: newRun("h", "r3", { stateless: true }),
    expected: { assistant_revision: assistant.revision, thread_revision: null },
    create_thread: { thread_id: "h", metadata: { owner: "ann" }, config: {}, stateless: true },
    now: 1100,
  });
}

/** Defines the tests of filters. */
export function visibilityTests(api: SuiteApi, test: StorageTest): void {
  api.describe("a scope's filter", () => {
    for (const seed of createSeeds(api, 2)) {
      test(`permits the rows that permits() permits, seed ${seed}`, async (storage) => {
        const roll = dice(seed);
        const rows = Array.from({ length: 40 }, () => randomMetadata(roll));
        for (const [i, metadata] of rows.entries()) {
          await storage.createThread(here, { thread_id: `t${i}`, metadata, config: {}, stateless: false }, 1000 + i);
          await storage.createAssistant(here, { ...content, assistant_id: `a${i}`, metadata }, 1000 + i);
        }
        let permitted = 0;
        for (let round = 0; round < 60; round++) {
          const filter = randomFilter(roll, rows);
          const scope = { ...here, filter };
          const expected = rows.flatMap((metadata, i) => (matchesFilter(filter, metadata) ? [i] : []));
          permitted += expected.length;
          const about = `${JSON.stringify(filter)} over ${JSON.stringify(rows)}`;
          const threads = await storage.searchThreads(scope, page);
          assert.deepEqual(
            threads.rows.map((row) => row.thread_id),
            expected.map((i) => `t${i}`),
            about,
          );
          assert.deepEqual([threads.total, await countThreads(storage, scope, {})], [expected.length, expected.length]);
          const assistants = await storage.searchAssistants(scope, page);
          assert.deepEqual(
            assistants.rows.map((row) => row.assistant_id),
            expected.map((i) => `a${i}`),
            about,
          );
          assert.equal(await countAssistants(storage, scope, {}), expected.length);
          for (const i of new Set([...expected.slice(0, 3), roll(rows.length), roll(rows.length), roll(rows.length)])) {
            const there = expected.includes(i);
            assert.equal((await storage.getThread(scope, `t${i}`)) !== null, there, `t${i}: ${about}`);
            assert.equal((await storage.getAssistant(scope, `a${i}`)) !== null, there, `a${i}: ${about}`);
          }
        }
        assert.ok(permitted > 40, `only ${permitted} rows were permitted`);
      });
    }

    test("distinguishes types", async (storage) => {
      const alike: readonly Scalar[] = [1, true, "1", "true", 0, false, "0", "false", null, "null", ""];
      const values: readonly Json[] = [
        ...alike,
        [],
        {},
        "[]",
        "{}",
        ...alike.map((similar) => [similar]),
        [[]],
        [{}],
        "[1]",
      ];
      for (const [i, value] of values.entries()) await createThread(storage, `t${i}`, { value });
      const filters: readonly Filter[] = alike.flatMap((scalar) => [
        [{ key: "value", equals: scalar }],
        [{ key: "value", contains: [scalar] }],
      ]);
      for (const filter of filters) {
        const expected = values.flatMap((value, i) => (matchesFilter(filter, { value }) ? [`t${i}`] : []));
        const all = values.map((_, i) => storage.getThread({ ...here, filter }, `t${i}`));
        const visibleIds = (await Promise.all(all)).flatMap((row) => (row ? [row.thread_id] : []));
        assert.deepEqual(visibleIds, expected, JSON.stringify(filter));
      }
    });

    test("distinguishes neighbouring numbers", async (storage) => {
      const bits = new DataView(new ArrayBuffer(8));
      for (const number of [0.1, 1 / 3, 1e21, 1.7976931348623155e308, 123456789.12345679, 2.2250738585072014e-308]) {
        bits.setFloat64(0, number);
        bits.setBigInt64(0, bits.getBigInt64(0) + 1n);
        const next = bits.getFloat64(0);
        await createThread(storage, `t${number}`, { number });
        const scope = (equals: number): Scope => ({ ...here, filter: [{ key: "number", equals }] });
        assert.ok(await storage.getThread(scope(number), `t${number}`), String(number));
        assert.equal(await storage.getThread(scope(next), `t${number}`), null, String(next));
      }
    });

    test("without conditions matches every row", async (storage) => {
      await createThread(storage, "t");
      assert.ok(await storage.getThread({ ...here, filter: [] }, "t"));
      assert.equal(await countThreads(storage, { ...here, filter: [] }, {}), 1);
    });

    test("is combined with the conditions of a search", async (storage) => {
      await createThread(storage, "t1", { owner: "ann", kind: "a" });
      await createThread(storage, "t2", { owner: "bob", kind: "a" });
      await createThread(storage, "t3", { owner: "ann", kind: "b" });
      const { rows, total } = await storage.searchThreads(ann, { ...page, metadata: { kind: "a" } });
      assert.deepEqual([rows.map((row) => row.thread_id), total], [["t1"], 1]);
      assert.equal(await countThreads(storage, ann, { metadata: { owner: "bob" } }), 0);
      assert.equal(await countThreads(storage, ann, { ids: ["t1", "t2"] }), 1);
    });

    test("applies to every operation on assistants", async (storage) => {
      const { revision } = await createAssistant(storage, { metadata: { owner: "ann" } });
      const next = { ...content, name: "taken" };
      assert.equal(await storage.updateAssistant(bob, "a", () => next, 2000), null);
      assert.deepEqual(await storage.setLatest(bob, "a", 1, 2000), { kind: "assistant_not_found" });
      assert.equal(await storage.listAssistantVersions(bob, "a", { limit: 10, offset: 0 }), null);
      await createThread(storage, "t", { assistant_id: "a", owner: "bob" });
      assert.equal(await storage.deleteAssistant(bob, "a", { delete_threads: true }), false);
      assert.ok(await storage.getThread(here, "t"), "an assistant that is not deleted keeps its threads");
      assert.equal((await storage.getAssistant(here, "a"))?.revision, revision);
      assert.equal(await countAssistants(storage, ann, {}), 1);

      assert.equal((await storage.listAssistantVersions(ann, "a", { limit: 10, offset: 0 }))?.length, 1);
      const renamed = await storage.updateAssistant(ann, "a", (active) => ({ ...active, name: "B" }), 2000);
      assert.equal(renamed?.version, 2);
      assert.equal((await storage.setLatest(ann, "a", 1, 2000)).kind, "updated");
      const updated = await storage.updateAssistant(
        ann,
        "a",
        (active) => ({ ...active, metadata: { owner: "bob" } }),
        2100,
      );
      assert.deepEqual(await storage.setLatest(bob, "a", 1, 2200), { kind: "hidden" });
      assert.equal((await storage.getAssistant(bob, "a"))?.revision, updated?.revision);
      assert.equal((await storage.setLatest(here, "a", 1, 2200)).kind, "updated");
      assert.equal(await storage.deleteAssistant(ann, "a", { delete_threads: false }), true);
    });

    test("of threads limits what an assistant deletes", async (storage) => {
      await createAssistant(storage);
      await createThread(storage, "t1", { assistant_id: "a", owner: "ann" });
      await createThread(storage, "t2", { assistant_id: "a", owner: "bob" });
      const threads = { filter: ann.filter as Filter };
      assert.equal(await storage.deleteAssistant(here, "a", { delete_threads: true, threads }), true);
      assert.equal(await storage.getThread(here, "t1"), null);
      assert.ok(await storage.getThread(here, "t2"));
      assert.equal(await countThreads(storage, here, { metadata: { owner: "bob" } }), 1);
    });

    test("applies to every operation on threads", async (storage) => {
      await createThread(storage, "t", { owner: "ann" });
      const steal = { metadata: { owner: "bob" } };
      assert.equal(await storage.updateThread(bob, "t", () => steal, 2000), null);
      assert.equal(await storage.deleteThread(bob, "t"), false);
      assert.equal(await countThreads(storage, ann, { metadata: { owner: "ann" } }), 1, "its labels are there");
      const exists = await storage.createThread(bob, { thread_id: "t", ...steal, config: {}, stateless: false }, 2000);
      assert.equal(exists.kind, "exists");
      assert.deepEqual((await storage.updateThread(ann, "t", () => steal, 2000))?.metadata, { owner: "bob" });
      assert.equal(await storage.deleteThread(ann, "t"), false, "it is Bob's by now");
      assert.equal(await storage.deleteThread(bob, "t"), true);
      assert.equal(await countThreads(storage, here, {}), 0);
    });

    test("applies to runs by their thread, also a hidden one", async (storage) => {
      await waiting(storage);
      for (const run_id of ["r1", "r3"]) {
        assert.equal(await storage.getRun(bob, run_id), null);
        assert.equal((await storage.getRun(ann, run_id))?.run_id, run_id);
      }
      assert.deepEqual(await storage.listRuns(bob, "t", firstPage), []);
      assert.deepEqual(await storage.listRuns(bob, "t", { above: 0, limit: 10, offset: 0 }), []);
      assert.equal((await storage.listRuns(ann, "t", firstPage)).length, 2);
      assert.equal((await storage.listRuns(ann, "t", { above: 0, limit: 10, offset: 0 })).length, 2);
      assert.equal(await storage.deleteRun(bob, "t", "r1", 9_000), "not_found");
      assert.equal(await storage.deleteRun(bob, "h", "r3", 9_000), "not_found");
      assert.equal(await statuses(storage, "t"), "r1 pending,r2 pending");
      assert.equal(await storage.deleteRun(ann, "t", "r1", 9_000), "deleted");
      assert.equal(await storage.deleteRun(ann, "h", "r3", 9_000), "deleted");
    });

    for (const action of ["interrupt", "rollback"] as const) {
      test(`applies to runs that are stopped by ${action}`, async (storage) => {
        await waiting(storage);
        const named = { thread_id: "t", run_ids: ["r1", "r2"] };
        assert.deepEqual(await storage.stopRuns(bob, named, action, 2000), []);
        assert.deepEqual(await storage.stopRuns(bob, { run_ids: ["r1", "r2", "r3"] }, action, 2000), []);
        assert.equal(await statuses(storage, "t"), "r1 pending,r2 pending");
        assert.equal((await storage.getRun(here, "r3"))?.status, "pending");
        const kind = action === "interrupt" ? "ended" : "deleted";
        assert.equal(
          formatOutcomes(await storage.stopRuns(ann, { thread_id: "t", run_ids: ["r1"] }, action, 2000)),
          `r1 ${kind}`,
        );
        assert.equal(
          formatOutcomes(await storage.stopRuns(ann, { run_ids: ["r1", "r2", "r3"] }, action, 2000)),
          `r2 ${kind},r3 ${kind}`,
        );
      });
    }

    test("applies to rows that runs have left, by their thread", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t", { owner: "ann" });
      const { lease } = await createClaimedRun(storage, assistant, "t", "r1");
      await storage.saveProgress(here, lease, progress([checkpoint("c1", {})]), 1200);
      await storage.saveProgress(here, lease, frames(1, "metadata"), 1200);
      for (const [scope, count] of [
        [bob, 0],
        [ann, 1],
      ] as const) {
        assert.equal((await storage.listCheckpoints(scope, "t", { limit: 10 })).length, count);
        assert.equal((await storage.readFrames(scope, "r1", 0)).length, count);
        const newest = await storage.getCheckpoint(scope, "t", { ns: "" });
        assert.equal(newest?.checkpoint_id, count === 1 ? "c1" : undefined);
      }
      assert.equal(await storage.deleteRun(bob, "t", "r1", 9_000), "not_found", "not that it is running");
      await stateless(storage, assistant, "r9");
      assert.equal(await storage.getRun(ann, "r9"), null, "a hidden thread without an owner");
    });
  });
}
