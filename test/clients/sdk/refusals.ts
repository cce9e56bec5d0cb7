/** What is refused. */
import assert from "node:assert/strict";
import { ABSENT, aThread, refused, type Suite } from "./bench.ts";

export function refusals({ describe, it, name, bench }: Suite): void {
  describe(`${name}: what is not built`, () => {
    it("answers 501 once and says what is missing", async () => {
      await using at = await bench();
      const { client, requests } = at;
      const id = await aThread(client);
      const checkpoint = { values: {}, asNode: "agent" };
      const calls: (() => Promise<unknown>)[] = [
        () => client.threads.copy(id),
        () => client.threads.updateState(id, checkpoint),
        () => client.threads.patchState(id, { a: 1 }),
        () => client.threads.create({ ttl: 5 }),
        () => client.threads.create({ supersteps: [{ updates: [{ values: {}, asNode: "agent" }] }] }),
        () => client.threads.update(id, { ttl: 5 }),
        () => client.crons.create("agent", { schedule: "* * * * *" }),
        () => client.crons.createForThread(id, "agent", { schedule: "* * * * *" }),
        () => client.crons.search(),
        () => client.crons.count(),
        () => client.crons.update(ABSENT, { schedule: "* * * * *" }),
        () => client.crons.delete(ABSENT),
        () => client.store.putItem(["a"], "k", { v: 1 }),
        () => client.store.getItem(["a"], "k"),
        () => client.store.deleteItem(["a"], "k"),
        () => client.store.searchItems(["a"]),
        () => client.store.listNamespaces(),
      ];
      requests.length = 0;
      for (const call of calls) await refused(call(), 501, /not built yet/i);
      assert.equal(requests.length, calls.length);
      assert.deepEqual(await client.runs.list(id), []);
      assert.equal(await client.threads.count(), 1);
    });
  });
}
