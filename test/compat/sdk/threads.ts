/** Threads, as a stock client has them. */
import assert from "node:assert/strict";
import { ABSENT, assertRefused, createThread, type Suite, UUID } from "./bench.ts";

export function threads({ describe, it, name, bench }: Suite): void {
  describe(`${name}: threads`, () => {
    it("is created, read, changed and deleted", async () => {
      await using at = await bench();
      const { client } = at;
      const fresh = await client.threads.create();
      assert.match(fresh.thread_id, UUID);
      assert.deepEqual([fresh.status, fresh.metadata, fresh.values], ["idle", {}, null]);
      const threadId = "7f1c9c6e-3f5b-4f0a-9d59-3a2f5f0c0a01";
      const createdThread = await client.threads.create({ threadId, metadata: { owner: "ann", tags: ["a"] } });
      assert.equal(createdThread.thread_id, threadId);
      assert.deepEqual(await client.threads.get(threadId), createdThread);
      await assertRefused(client.threads.create({ threadId }), 409, /exists/);
      const same = await client.threads.create({ threadId, ifExists: "do_nothing", metadata: { owner: "bob" } });
      assert.deepEqual(same.metadata, { owner: "ann", tags: ["a"] });
      const changed = await client.threads.update(threadId, { metadata: { tags: ["b"], seen: true } });
      assert.deepEqual(changed.metadata, { owner: "ann", tags: ["b"], seen: true });
      assert.deepEqual((await client.threads.get(threadId)).metadata, changed.metadata);
      await client.threads.delete(threadId);
      await assertRefused(client.threads.get(threadId), 404, /not found/);
      await assertRefused(client.threads.delete(threadId), 404, /not found/);
      await assertRefused(client.threads.get("no-uuid"), 422, /thread_id/);
    });

    it("is found by metadata, status, values and id", async () => {
      await using at = await bench();
      const { client } = at;
      const createdIds: string[] = [];
      for (const group of ["x", "x", "y"])
        createdIds.push((await client.threads.create({ metadata: { group } })).thread_id);
      const [first, second, third] = createdIds as [string, string, string];
      await client.runs.wait(first, "tell", { input: { flavor: "sweet" }, context: {} });
      await client.runs.wait(second, "ask", { input: {} });

      const ids = async (query: Parameters<typeof client.threads.search>[0]): Promise<string[]> =>
        (await client.threads.search(query)).map((thread) => thread.thread_id);
      assert.deepEqual((await ids({ metadata: { group: "x" } })).sort(), [first, second].sort());
      assert.deepEqual(await ids({ status: "interrupted" }), [second]);
      assert.deepEqual(await ids({ values: { flavor: "sweet" } }), [first]);
      assert.deepEqual(await ids({ ids: [third, ABSENT] }), [third]);
      const sorted = createdIds.toSorted();
      assert.deepEqual(await ids({ sortBy: "thread_id", sortOrder: "asc" }), sorted);
      assert.deepEqual(await ids({ sortBy: "thread_id", sortOrder: "desc", limit: 1, offset: 1 }), [sorted[1]]);
      assert.deepEqual(await client.threads.search({ ids: [third], select: ["thread_id", "status"] }), [
        { thread_id: third, status: "idle" },
      ]);
      assert.equal(await client.threads.count({ metadata: { group: "x" } }), 2);
      assert.equal(await client.threads.count({ values: { flavor: "sweet" } }), 1);
      assert.equal(await client.threads.count({ status: "busy" }), 0);
    });

    it("has an empty state and no history before its first run", async () => {
      await using at = await bench();
      const { client } = at;
      const id = await createThread(client);
      const state = await client.threads.getState(id);
      assert.deepEqual([state.values, state.next, state.tasks, state.checkpoint], [{}, [], [], null]);
      assert.deepEqual(await client.threads.getHistory(id), []);
      await assertRefused(client.threads.getState(ABSENT), 404, /not found/);
      await assertRefused(client.threads.getHistory(ABSENT), 404, /not found/);
      await assertRefused(client.threads.getState(id, "nothing"), 404, /checkpoint/);
    });
  });
}
