/** Tests of assistants and their versions. */

import assert from "node:assert/strict";
import type { JsonObject } from "../../../lib/json.ts";
import type { AssistantRow, Storage } from "../../../lib/storage/mod.ts";
import { countAssistants, countThreads } from "../counts.ts";
import {
  content,
  createAssistant,
  createPendingRun,
  createThread,
  here,
  type StorageTest,
  type SuiteApi,
} from "./material.ts";

export function assistantTests(api: SuiteApi, test: StorageTest): void {
  api.describe("assistants", () => {
    test("creates an assistant once, and returns the existing one afterwards", async (storage) => {
      const input = { ...content, assistant_id: "a", description: "d", config: { tags: ["x"] }, metadata: { n: 1 } };
      const first = await storage.createAssistant(here, input, 1000);
      assert.equal(first.kind, "created");
      const { revision, ...row } = first.assistant;
      assert.equal(typeof revision, "number");
      assert.deepEqual(row, { ...input, version: 1, created_at: 1000, updated_at: 1000 });
      const second = await storage.createAssistant(here, { ...input, name: "Other" }, 2000);
      assert.deepEqual(second, { kind: "exists", assistant: first.assistant });
      assert.deepEqual(await storage.getAssistant(here, "a"), first.assistant);
      assert.equal(await storage.getAssistant(here, "b"), null);
      assert.equal((await storage.listAssistantVersions(here, "a", { limit: 10, offset: 0 }))?.length, 1);
    });

    test("stores a new version with each update", async (storage) => {
      const before = await createAssistant(storage);
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

    test("calls `next` with the result of the other update", async (storage) => {
      await createAssistant(storage, { metadata: { count: 0 } });
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
      const first = await createAssistant(storage, { name: "One", metadata: { m: 1 } });
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
      assert.equal(await countAssistants(storage, here, { metadata: { m: 1 } }), 1);
      assert.equal(await countAssistants(storage, here, { metadata: { m: 2 } }), 0);
      assert.deepEqual(await storage.setLatest(here, "a", 3, 3000), { kind: "version_not_found" });
      assert.deepEqual(await storage.setLatest(here, "b", 1, 3000), { kind: "assistant_not_found" });
      const next = await storage.updateAssistant(here, "a", (row) => row, 4000);
      assert.equal(next?.version, 3);
      assert.equal(next?.name, "One");
    });

    test("reads a version, in its deployment and if the scope permits its metadata", async (storage) => {
      const first = await createAssistant(storage, { name: "One", metadata: { m: 1 } });
      await storage.updateAssistant(here, "a", (row) => ({ ...row, name: "Two", metadata: { m: 2 } }), 2000);
      const { updated_at: _, revision: _r, ...version } = first;
      assert.deepEqual(await storage.getAssistantVersion(here, "a", 1), version);
      assert.deepEqual(
        [
          (await storage.getAssistantVersion(here, "a", 2))?.name,
          await storage.getAssistantVersion(here, "a", 3),
          await storage.getAssistantVersion(here, "b", 1),
          await storage.getAssistantVersion({ deployment: "elsewhere" }, "a", 1),
        ],
        ["Two", null, null, null],
      );
      const scope = { ...here, filter: [{ key: "m", equals: 1 }] };
      assert.deepEqual(await storage.getAssistantVersion(scope, "a", 1), version);
      assert.equal(await storage.getAssistantVersion(scope, "a", 2), null);
    });

    test("stores a version without activating it", async (storage) => {
      const before = await createAssistant(storage, { name: "One", metadata: { m: 1 } });
      const draft = (name: string) =>
        storage.updateAssistant(here, "a", (row) => ({ ...row, name, metadata: { m: 2 }, activate: false }), 2000);
      const stored = await draft("Two");
      const active = (await storage.getAssistant(here, "a")) as AssistantRow;
      assert.deepEqual({ ...active, revision: 0 }, { ...before, revision: 0 });
      assert.notEqual(active.revision, before.revision, "a run that was planned with the old row reads it again");
      const changes = { version: 2, name: "Two", metadata: { m: 2 }, updated_at: 2000 };
      assert.deepEqual(stored, { ...active, ...changes });
      assert.equal((await storage.getAssistantVersion(here, "a", 2))?.created_at, 2000);
      assert.equal(await countAssistants(storage, here, { metadata: { m: 1 } }), 1);
      assert.equal(await countAssistants(storage, here, { metadata: { m: 2 } }), 0);
      const drafts = await Promise.all(Array.from({ length: 8 }, (_, n) => draft(`Draft ${n}`)));
      assert.deepEqual(
        drafts.map((row) => row?.version ?? 0).sort((a, b) => a - b),
        [3, 4, 5, 6, 7, 8, 9, 10],
      );
      for (const row of drafts)
        assert.equal((await storage.getAssistantVersion(here, "a", row?.version as number))?.name, row?.name);
      const next = await storage.updateAssistant(here, "a", (row) => row, 3000);
      assert.deepEqual([next?.version, next?.name], [11, "One"]);
      assert.equal((await storage.setLatest(here, "a", 2, 4000)).kind, "updated");
      assert.equal(await countAssistants(storage, here, { metadata: { m: 2 } }), 1);
      assert.equal(await storage.updateAssistant(here, "b", (row) => ({ ...row, activate: false }), 2000), null);
    });

    test("lists versions by metadata and page", async (storage) => {
      await createAssistant(storage, { metadata: { even: false } });
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
        await createAssistant(storage, { assistant_id: `a${i}`, name, graph_id: i < 3 ? "g1" : "g2" }, 1000 + (i % 2));
      }
      const search = async (query: Partial<Parameters<Storage["searchAssistants"]>[1]>) => {
        const matches = await storage.searchAssistants(here, {
          limit: 10,
          offset: 0,
          sort_by: "assistant_id",
          sort_order: "asc",
          ...query,
        });
        return [matches.rows.map((row) => row.assistant_id).join(), matches.total];
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
      assert.equal(await countAssistants(storage, here, { graph_id: "g2", name: "amm" }), 1);
    });

    test("deletes an assistant with its versions, and with its threads if requested", async (storage) => {
      const assistant = await createAssistant(storage);
      const threads: readonly [string, JsonObject][] = [
        ["mine", { assistant_id: "a", more: [1] }],
        ["other", { assistant_id: "b" }],
        ["nested", { inner: { assistant_id: "a" } }],
        ["listed", { assistant_id: ["a"] }],
        ["none", {}],
      ];
      for (const [thread_id, metadata] of threads) await createThread(storage, thread_id, metadata);
      await createPendingRun(storage, assistant, "mine", "r1");
      assert.equal(await storage.deleteAssistant(here, "nobody", { delete_threads: true }), false);
      assert.equal(await storage.deleteAssistant(here, "a", { delete_threads: true }), true);
      assert.equal(await storage.deleteAssistant(here, "a", { delete_threads: true }), false);
      assert.equal(await storage.listAssistantVersions(here, "a", { limit: 1, offset: 0 }), null);
      assert.equal(await storage.getThread(here, "mine"), null);
      assert.equal(await storage.getRun(here, "r1"), null);
      assert.equal(await countThreads(storage, here, {}), 4);
      assert.equal(await countThreads(storage, here, { metadata: { assistant_id: "a" } }), 0);

      await createAssistant(storage, { assistant_id: "b" });
      assert.equal(await storage.deleteAssistant(here, "b", { delete_threads: false }), true);
      assert.equal(await countThreads(storage, here, {}), 4);
    });

    test("keeps the threads that name an assistant which does not exist", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t1", { assistant_id: "a" });
      assert.equal((await createPendingRun(storage, assistant, "t1", "r1")).kind, "created");
      await createThread(storage, "t2", { assistant_id: "unknown" });
      assert.equal(await storage.deleteAssistant(here, "a", { delete_threads: false }), true);
      for (const assistant_id of ["a", "unknown"]) {
        assert.equal(await storage.deleteAssistant(here, assistant_id, { delete_threads: true }), false);
        assert.equal(await countThreads(storage, here, { metadata: { assistant_id } }), 1);
      }
      assert.ok(await storage.getRun(here, "r1"));
    });
  });
}
