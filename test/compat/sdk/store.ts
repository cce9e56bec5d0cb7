/** The store, as a stock client has it. */
import assert from "node:assert/strict";
import { assertRefused, type Suite } from "./bench.ts";

export function store({ describe, it, name, bench }: Suite): void {
  describe(`${name}: the store`, () => {
    it("puts, gets and deletes items", async () => {
      await using at = await bench();
      const { store } = at.client;
      const namespace = ["users", "ann, the first", "é😀"];
      const storedValue = { theme: "dark", nested: { list: [1, null, "x"] } };
      assert.equal(await store.putItem(namespace, "settings/1.0 &c?", storedValue), undefined);
      const storedItem = await store.getItem(namespace, "settings/1.0 &c?");
      assert.deepEqual(
        [storedItem?.namespace, storedItem?.key, storedItem?.value],
        [namespace, "settings/1.0 &c?", storedValue],
      );
      assert.equal(storedItem?.createdAt, storedItem?.updatedAt);
      assert.ok(Date.parse(String(storedItem?.createdAt)) > 0);
      assert.equal(await store.getItem(namespace, "none"), null);
      assert.equal(await store.getItem(namespace.slice(0, 2), "settings/1.0 &c?"), null);
      await store.putItem(namespace, "settings/1.0 &c?", { theme: "light" }, { index: false, ttl: 60 });
      const next = await store.getItem(namespace, "settings/1.0 &c?", { refreshTtl: true });
      assert.deepEqual([next?.value, next?.createdAt], [{ theme: "light" }, storedItem?.createdAt]);
      await store.deleteItem(namespace, "settings/1.0 &c?");
      assert.equal(await store.getItem(namespace, "settings/1.0 &c?"), null);
      assert.equal(await store.deleteItem(namespace, "settings/1.0 &c?"), undefined);
    });

    it("searches items by namespace and filter", async () => {
      await using at = await bench();
      const { store } = at.client;
      for (let n = 0; n < 12; n++) await store.putItem(["docs", n % 2 ? "odd" : "even"], `d${n}`, { n, kind: "doc" });
      await store.putItem(["docsx"], "other", { n: 100 });
      const keys = async (...query: Parameters<typeof store.searchItems>): Promise<string[]> =>
        (await store.searchItems(...query)).items.map(({ key }) => key).sort();
      assert.equal((await store.searchItems(["docs"])).items.length, 10);
      assert.equal((await store.searchItems([], { limit: 100 })).items.length, 13);
      assert.equal((await keys(["docs"], { limit: 100, offset: 10 })).length, 2);
      assert.deepEqual(await keys(["docs", "odd"], { filter: { n: { $gte: 9 } } }), ["d11", "d9"]);
      assert.deepEqual(await keys(["docs"], { filter: { n: 4, kind: "doc" } }), ["d4"]);
      assert.deepEqual(await keys(["docs"], { filter: { kind: { $ne: "doc" } } }), []);
      const [first] = (await store.searchItems(["docsx"], { refreshTtl: true })).items;
      assert.deepEqual([first?.namespace, first?.value], [["docsx"], { n: 100 }]);
      assert.ok(first?.createdAt && first.updatedAt);
      await assertRefused(store.searchItems([], { filter: { n: { $regex: "x" } } }), 422, /filter\.n\.\$regex/);
      await assertRefused(store.searchItems([], { query: "meaning" }), 422, /^Semantic search is not configured$/);
    });

    it("lists namespaces", async () => {
      await using at = await bench();
      const { store } = at.client;
      for (const path of ["a.x.v1", "a.y.v1", "a.y.v2", "b"]) await store.putItem(path.split("."), "k", {});
      const listed = async (...query: Parameters<typeof store.listNamespaces>): Promise<string> =>
        (await store.listNamespaces(...query)).namespaces.map((labels) => labels.join(".")).join();
      assert.equal(await listed(), "a.x.v1,a.y.v1,a.y.v2,b");
      assert.equal(await listed({ prefix: ["a", "y"] }), "a.y.v1,a.y.v2");
      assert.equal(await listed({ suffix: ["v1"] }), "a.x.v1,a.y.v1");
      assert.equal(await listed({ prefix: ["a", "*", "v2"] }), "a.y.v2");
      assert.equal(await listed({ maxDepth: 2 }), "a.x,a.y,b");
      assert.equal(await listed({ limit: 1, offset: 1 }), "a.y.v1");
    });

    it("rejects values above the limits", async () => {
      await using at = await bench();
      const { store } = at.client;
      await assertRefused(store.putItem([], "k", {}), 422, /namespace/);
      await assertRefused(store.putItem(["a", ""], "k", {}), 422, /namespace\.1/);
      await assertRefused(store.putItem(["langgraph"], "k", {}), 422, /namespace\.0/);
      await assertRefused(store.putItem(["a"], "", {}), 422, /key/);
      await assertRefused(store.putItem(["a"], "k", {}, { ttl: 0 }), 422, /ttl/);
      await assertRefused(store.getItem([], "k"), 400, /namespace/);
      await assertRefused(store.searchItems([], { limit: 1001 }), 422, /limit/);
    });
  });
}
