/** Tests of filters on values: they find every thread that may match, and exclude others by their stored scalars. */

import assert from "node:assert/strict";
import { contains, type Json, type JsonObject, pickScalars } from "../../../lib/json.ts";
import type { AssistantRow, Storage } from "../../../lib/storage/mod.ts";
import { countThreads } from "../counts.ts";
import { createDice } from "../workload.ts";
import {
  checkpoint,
  createAssistant,
  createClaimedRun,
  createFinishedRun,
  createThread,
  finish,
  firstPage,
  here,
  progress,
  type StorageTest,
  type SuiteApi,
  scaleByEffort,
} from "./material.ts";

export function valueFilterTests(api: SuiteApi, test: StorageTest): void {
  let runs = 0;
  /** Ends a run on the thread with these values. */
  const leave = (storage: Storage, assistant: AssistantRow, thread_id: string, scalars: JsonObject | null) => {
    const head = `c${++runs}`;
    const stored = { progress: progress([checkpoint(head, {})]) };
    return createFinishedRun(storage, assistant, thread_id, `r${runs}`, { head, scalars }, stored);
  };
  const ids = async (storage: Storage, values: JsonObject, metadata: JsonObject = {}): Promise<string> => {
    const query = { values, metadata };
    const { rows, total } = await storage.searchThreads(here, {
      ...query,
      ...firstPage,
      limit: 1000,
      sort_by: "thread_id",
    });
    assert.equal(total, rows.length);
    assert.equal(await countThreads(storage, here, query), total);
    return rows.map((row) => row.thread_id).join();
  };

  api.describe("filters on values", () => {
    test("follow the scalars of the last state", async (storage) => {
      const assistant = await createAssistant(storage);
      for (const id of ["t1", "t2", "t3"]) await createThread(storage, id, { id });
      assert.equal(await ids(storage, { flavor: "sweet" }), "", "without a state there is nothing to find");
      await leave(storage, assistant, "t1", { flavor: "sweet", n: 0, on: true, none: null });
      await leave(storage, assistant, "t2", { flavor: "sour" });
      assert.equal(await ids(storage, { flavor: "sweet" }), "t1");
      assert.equal(await ids(storage, { flavor: "sweet", n: 0, on: true, none: null }), "t1");
      assert.equal(await ids(storage, { flavor: "sweet", n: 1 }), "");
      assert.equal(await ids(storage, { flavor: "sweet" }, { id: "t1" }), "t1");
      assert.equal(await ids(storage, { flavor: "sweet" }, { id: "t2" }), "");
      await leave(storage, assistant, "t1", { flavor: "sour" });
      assert.equal(await ids(storage, { flavor: "sweet" }), "");
      assert.equal(await ids(storage, { flavor: "sour" }), "t1,t2");
      await storage.deleteThread(here, "t1");
      assert.equal(await ids(storage, { flavor: "sour" }), "t2");
    });

    test("exclude no thread whose scalars are many, long, unknown or not written yet", async (storage) => {
      const assistant = await createAssistant(storage);
      for (const id of ["many", "long", "unknown", "running", "kept", "other"]) await createThread(storage, id);
      const many = Object.fromEntries(Array.from({ length: 33 }, (_, i): [string, Json] => [`k${i}`, i]));
      await leave(storage, assistant, "many", many);
      await leave(storage, assistant, "long", { a: "x".repeat(513), k1: 1 });
      await leave(storage, assistant, "unknown", null);
      await leave(storage, assistant, "kept", { k1: 1 });
      await createFinishedRun(storage, assistant, "kept", "no-head", { head: null });
      await leave(storage, assistant, "other", { k1: 2 });
      await leave(storage, assistant, "running", { k1: 2 });
      const { lease } = await createClaimedRun(storage, assistant, "running", "now");
      assert.equal(await ids(storage, { k1: 1 }), "kept,long,many,running,unknown");
      assert.equal(await ids(storage, { a: "x".repeat(513) }), "kept,long,many,other,running,unknown");
      assert.equal(await ids(storage, { list: [] }), "kept,long,many,other,running,unknown");
      const lost = { ...lease, token: "another" };
      const head = { head: "lost", status: "idle", interrupts: {}, error: null, scalars: { k1: 3 } } as const;
      assert.equal(await storage.finishRun(here, lost, finish({ thread: head })), null);
      await storage.finishRun(here, lease, finish());
      assert.equal(await ids(storage, { k1: 3 }), "long,many,unknown", "an end that was refused labels nothing");
    });

    test("miss no thread, whatever its runs have left", async (storage) => {
      const { below, pick } = createDice(11);
      const assistant = await createAssistant(storage);
      const names = ["a", "b", 'q"', "nul\0", "__proto__", "é"];
      const scalars: Json[] = ["x", "", "nul\0", 1, -0, 1e21, 0.1 + 0.2, true, null, ["x"], { a: 1 }];
      const values = (): JsonObject =>
        Object.fromEntries(Array.from({ length: below(4) }, () => [pick(names), pick(scalars)]));
      const threads = Array.from({ length: 20 }, (_, i) => ({ id: `t${i}`, values: null as JsonObject | null }));
      for (const { id } of threads) await createThread(storage, id);
      let matchCount = 0;
      const rounds = scaleByEffort(api, 200);
      for (let i = 0; i < rounds; i++) {
        const thread = pick(threads);
        thread.values = values();
        await leave(storage, assistant, thread.id, pickScalars(thread.values));
        const filter = below(2) ? values() : (pick(threads).values ?? {});
        const candidates = (await ids(storage, filter)).split(",");
        const expected = threads.filter((thread) => thread.values && contains(thread.values, filter));
        for (const { id } of expected) assert.ok(candidates.includes(id), `${id} has ${JSON.stringify(filter)}`);
        matchCount += expected.length;
      }
      assert.ok(matchCount > rounds);
    });
  });
}
