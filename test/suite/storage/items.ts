/** Tests of the store's items. */
import assert from "node:assert/strict";
import type { Json, JsonObject } from "../../../lib/json.ts";
import {
  type ItemCondition,
  type ItemQuery,
  matchesConditions,
  type NamespaceQuery,
  type NewItem,
} from "../../../lib/storage/items.ts";
import type { Scope, Storage } from "../../../lib/storage/mod.ts";
import type { Filter } from "../../../lib/storage/visibility.ts";
import { here, type StorageTest, type SuiteApi, there } from "./material.ts";

const createItem = (
  namespace: string,
  key: string,
  value: JsonObject = {},
  changes: Partial<NewItem> = {},
): NewItem => ({
  namespace: namespace.split("."),
  key,
  value,
  ttl_ms: null,
  vectors: [],
  ...changes,
});
const removal = (namespace: string, key: string) => ({ namespace: namespace.split("."), key, value: null });
const owned = (owner: string): Scope & { readonly filter: Filter } => ({
  ...here,
  filter: [{ key: "owner", equals: owner }],
});

export function itemTests(api: SuiteApi, test: StorageTest): void {
  const put = async (storage: Storage, items: readonly NewItem[], now = 1000, scope: Scope = here): Promise<void> =>
    assert.equal(await storage.putItems(scope, items, now), "written");
  const readValue = async (storage: Storage, namespace: string, key: string, now = 1000, scope: Scope = here) =>
    (await storage.getItem(scope, namespace.split("."), key, { refresh: false }, now))?.value;
  const search = async (
    storage: Storage,
    query: Partial<ItemQuery> & { readonly limit?: number; readonly offset?: number } = {},
    now = 1000,
    scope: Scope = here,
  ) => {
    const all = { namespace_prefix: [], conditions: [], refresh: false, limit: 10, offset: 0 };
    return await storage.searchItems(scope, { ...all, ...query }, now);
  };
  const keys = async (...args: Parameters<typeof search>): Promise<string> =>
    (await search(...args)).map(({ key }) => key).join();
  const namespaces = async (
    storage: Storage,
    query: Partial<NamespaceQuery> & { readonly limit?: number; readonly offset?: number } = {},
    now = 1000,
    scope: Scope = here,
  ): Promise<string> => {
    const all = { prefix: [], suffix: [], limit: 100, offset: 0 };
    const matches = await storage.listNamespaces(scope, { ...all, ...query }, now);
    return matches.map((namespace) => namespace.join(".")).join();
  };

  api.describe("items of the store", () => {
    test("are put, replaced and deleted, each in its namespace", async (storage) => {
      await put(storage, [
        createItem("a.b", "k", { n: 1 }),
        createItem("a", "k", { n: 2 }),
        createItem("a.b", "l", { n: 3 }),
      ]);
      assert.deepEqual(await storage.getItem(here, ["a", "b"], "k", { refresh: true }, 1500), {
        namespace: ["a", "b"],
        key: "k",
        value: { n: 1 },
        created_at: 1000,
        updated_at: 1000,
        ttl_ms: null,
        expires_at: null,
      });
      await put(storage, [createItem("a.b", "k", { m: "é😀\u0000" }, { ttl_ms: 60 })], 2000);
      assert.deepEqual(await storage.getItem(here, ["a", "b"], "k", { refresh: true }, 2001), {
        namespace: ["a", "b"],
        key: "k",
        value: { m: "é😀\u0000" },
        created_at: 1000,
        updated_at: 2000,
        ttl_ms: 60,
        expires_at: 2060,
      });
      assert.equal(await storage.putItems(here, [removal("a.b", "k"), removal("none", "k")], 2001), "written");
      assert.equal(await readValue(storage, "a.b", "k", 2001), undefined);
      assert.deepEqual(await readValue(storage, "a", "k"), { n: 2 });
      assert.deepEqual(await readValue(storage, "a.b", "l"), { n: 3 });
      assert.equal(await readValue(storage, "a.b", "K"), undefined);
    });

    test("are written in order within one call", async (storage) => {
      await storage.putItems(
        here,
        [createItem("a", "k", { n: 1 }), removal("a", "k"), createItem("a", "k", { n: 2 })],
        1000,
      );
      assert.deepEqual(await readValue(storage, "a", "k"), { n: 2 });
      await storage.putItems(here, [createItem("a", "k", { n: 3 }), removal("a", "k")], 1000);
      assert.equal(await readValue(storage, "a", "k"), undefined);
    });

    test("of other deployments are not visible", async (storage) => {
      await put(storage, [createItem("a", "k", { at: "here" })]);
      await put(storage, [createItem("a", "k", { at: "there" }), createItem("b", "k")], 1000, there);
      assert.deepEqual(await readValue(storage, "a", "k"), { at: "here" });
      assert.equal(await keys(storage), "k");
      assert.equal(await namespaces(storage), "a");
      await storage.putItems(there, [removal("a", "k")], 1000);
      assert.deepEqual(await readValue(storage, "a", "k"), { at: "here" });
      await put(storage, [createItem("x", "k", {}, { ttl_ms: 1 })]);
      assert.equal(await storage.deleteExpired(there, { items_expired_by: 9000, limit: 10, now: 9000 }), 0);
    });

    test("expire, and live on if a read refreshes them", async (storage) => {
      await put(storage, [
        createItem("a", "k", { n: 1 }, { ttl_ms: 100, vectors: [[1, 0]] }),
        createItem("a", "other"),
      ]);
      assert.deepEqual(await readValue(storage, "a", "k", 1099), { n: 1 });
      assert.equal(await readValue(storage, "a", "k", 1100), undefined);
      assert.equal(await keys(storage, {}, 1100), "other");
      assert.equal(await keys(storage, { query_vector: [1, 0] }, 1100), "");
      await storage.putItems(here, [removal("a", "other")], 1000);
      assert.equal(await namespaces(storage, {}, 1099), "a");
      assert.equal(await namespaces(storage, {}, 1100), "");

      const read = await storage.getItem(here, ["a"], "k", { refresh: true }, 1090);
      assert.equal(read?.updated_at, 1000, "a read changes nothing else");
      assert.deepEqual(await readValue(storage, "a", "k", 1189), { n: 1 });
      assert.equal(await keys(storage, { refresh: true, query_vector: [1, 1] }, 1180), "k");
      assert.deepEqual(await readValue(storage, "a", "k", 1279), { n: 1 });
      assert.equal(
        await keys(storage, { refresh: true, offset: 1 }, 1270),
        "",
        "items outside the page are not refreshed",
      );
      assert.equal(await readValue(storage, "a", "k", 1280), undefined);
      assert.equal(await storage.getItem(here, ["a"], "k", { refresh: true }, 1280), null, "too late");
      assert.equal(await readValue(storage, "a", "k", 1280), undefined);

      await put(storage, [createItem("a", "k", { n: 2 })], 2000);
      const stored = await storage.getItem(here, ["a"], "k", { refresh: false }, 2000);
      assert.deepEqual([stored?.created_at, stored?.expires_at], [2000, null], "put over an expired one it is new");
    });

    test("are deleted after they have expired, a limited number at a time", async (storage) => {
      const expiring = Array.from({ length: 5 }, (_, n) => createItem("a", `k${n}`, {}, { ttl_ms: 10 + n }));
      await put(storage, [...expiring, createItem("a", "for good"), createItem("a", "later", {}, { ttl_ms: 5000 })]);
      assert.equal(await storage.deleteExpired(here, { items_expired_by: 1009, limit: 2, now: 1009 }), 0);
      assert.equal(await storage.deleteExpired(here, { items_expired_by: 1012, limit: 2, now: 1012 }), 2);
      assert.equal(await storage.deleteExpired(here, { items_expired_by: 2000, limit: 2, now: 2000 }), 2);
      assert.equal(await storage.deleteExpired(here, { items_expired_by: 2000, limit: 2, now: 2000 }), 1);
      assert.equal(await storage.deleteExpired(here, { items_expired_by: 2000, limit: 2, now: 2000 }), 0);
      assert.equal(await keys(storage), "for good,later");
    });

    test("are searched under a prefix of whole labels, the last written first", async (storage) => {
      const places = ["a", "a.b", "a.b.c", "ab", "a-b", "a/b", "b.a", "é", "a.é"];
      for (const [n, namespace] of places.entries()) await put(storage, [createItem(namespace, namespace)], 1000 + n);
      await put(storage, [createItem("a.b", "a.b")], 2000);
      const under = (namespace_prefix: readonly string[], page = {}) =>
        keys(storage, { namespace_prefix, ...page }, 3000);
      assert.equal(await under([]), "a.b,a.é,é,b.a,a/b,a-b,ab,a.b.c,a");
      assert.equal(await under(["a"]), "a.b,a.é,a.b.c,a");
      assert.equal(await under(["a", "b"]), "a.b,a.b.c");
      assert.equal(await under(["a", "b", "c"]), "a.b.c");
      assert.equal(await under(["b"]), "b.a");
      assert.equal(await under(["nothing"]), "");
      assert.equal(await under(["a"], { limit: 2, offset: 1 }), "a.é,a.b.c");
      assert.equal(await under(["a"], { limit: 2, offset: 9 }), "");
    });

    test("are searched by conditions on their members", async (storage) => {
      const values: Record<string, JsonObject> = {
        one: { n: 1, s: "x", b: true, o: { a: 1, b: [1, { c: null }] } },
        two: { n: 2, s: "2", b: false, o: { b: [1, { c: null }], a: 1 } },
        half: { n: 1.5, s: 'a"b', z: null },
        text: { n: "3", s: "\ud800", __proto__x: 1 },
        none: {},
      };
      for (const [at, [key, value]] of Object.entries(values).entries()) {
        await put(storage, [createItem("a", key, value)], 1000 - at);
      }
      const where = (...conditions: ItemCondition[]) => keys(storage, { conditions });
      assert.equal(await where(["n", "eq", 1]), "one");
      assert.equal(await where(["s", "eq", "x"]), "one");
      assert.equal(await where(["s", "eq", 'a"b']), "half");
      assert.equal(await where(["s", "eq", "\ud800"]), "text");
      assert.equal(await where(["s", "eq", 2]), "", "a number is not its text");
      assert.equal(await where(["b", "eq", false]), "two");
      assert.equal(await where(["z", "eq", null]), "half", "absent is not null");
      assert.equal(
        await where(["o", "eq", { a: 1, b: [1, { c: null }] }]),
        "one,two",
        "the order of keys does not count",
      );
      assert.equal(await where(["o", "eq", { a: 1 }]), "");
      assert.equal(await where(["toString", "eq", "x"]), "");
      assert.equal(await where(["n", "ne", 1]), "two,half,text,none");
      assert.equal(await where(["n", "gt", 1]), "two,half,text");
      assert.equal(await where(["n", "gte", 2]), "two,text");
      assert.equal(await where(["n", "lt", 2]), "one,half");
      assert.equal(await where(["n", "lte", 1]), "one");
      assert.equal(await where(["s", "lt", "5"]), "two");
      assert.equal(await where(["n", "gt", 1], ["n", "lt", 3], ["b", "ne", false]), "half");
      const many = Array.from({ length: 40 }, (_, n): ItemCondition => [`m${n}`, "ne", n]);
      assert.equal(await where(...many, ["n", "eq", 2]), "two");
    });

    test("are found by every condition that their value meets", async (storage) => {
      let seed = 7;
      const pick = <Item>(items: readonly Item[]): Item => {
        seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
        return items[(seed >>> 8) % items.length] as Item;
      };
      const members = ["a", "b", 'q"', "ünï", "\u0000", "__proto__", "a\\", "😀"];
      const scalars: Json[] = [
        "x",
        "",
        'x"',
        "\\",
        "\u2028",
        "\ud800",
        "é😀",
        "1",
        1,
        10,
        -0,
        1.5,
        1e21,
        1e-7,
        true,
        false,
        null,
      ];
      const operands: Json[] = [...scalars, [], {}, ["x", 1], { a: 1, b: "x" }, { b: "x", a: 1 }, [{ a: null }]];
      const operators = ["eq", "eq", "eq", "ne", "gt", "gte", "lt", "lte"] as const;
      const all = Array.from({ length: 150 }, (_, n) => {
        const entries = members.filter(() => pick([true, false])).map((member) => [member, pick(operands)] as const);
        return createItem("a", `k${n}`, Object.fromEntries(entries));
      });
      await put(storage, all);
      for (let round = 0; round < 100; round++) {
        const conditions = Array.from({ length: pick([1, 1, 2]) }, (): ItemCondition => {
          const operator = pick(operators);
          return [pick(members), operator, pick(operator === "eq" || operator === "ne" ? operands : scalars)];
        });
        const met = all.filter(({ value }) => matchesConditions(value, conditions)).map(({ key }) => key);
        const matches = (await search(storage, { conditions, limit: 200 })).map(({ key }) => key);
        assert.deepEqual(matches.sort(), met.sort(), JSON.stringify(conditions));
      }
    });

    test("are found by more conditions than fit in one step, in order and by page", async (storage) => {
      const all = Array.from({ length: 450 }, (_, n) => createItem(`a.${n % 7}`, `k${n}`, { n, even: n % 2 === 0 }));
      const at = (n: number): number => (n * 7919) % 9;
      for (let time = 0; time < 9; time++) {
        await put(
          storage,
          all.filter((_, n) => at(n) === time),
          1000 + time,
        );
      }
      const order = all
        .map(({ key, namespace }, n) => ({ n, key, place: `${namespace.join(".")} ${key}` }))
        .filter(({ n }) => n % 2 === 0 && n >= 40)
        .sort((a, b) => at(b.n) - at(a.n) || (a.place < b.place ? -1 : 1))
        .map(({ key }) => key);
      const conditions: ItemCondition[] = [
        ["even", "eq", true],
        ["n", "gte", 40],
      ];
      for (const [offset, limit] of [
        [0, 10],
        [90, 30],
        [200, 30],
        [300, 10],
      ] as const) {
        assert.equal(
          await keys(storage, { conditions, offset, limit }),
          order.slice(offset, offset + limit).join(),
          `${offset}`,
        );
      }
    });

    test("differ if namespace and key look alike when joined", async (storage) => {
      await put(storage, [createItem("a", "b.c", { n: 1 }), createItem("a.b", "c", { n: 2 })]);
      const matches = await search(storage, { conditions: [["n", "gt", 0]] });
      assert.deepEqual(
        matches.map(({ namespace, key, value }) => [namespace, key, value]),
        [
          [["a"], "b.c", { n: 1 }],
          [["a", "b"], "c", { n: 2 }],
        ],
      );
    });

    test("are ranked by the nearest of their vectors", async (storage) => {
      await put(storage, [
        createItem("a", "same", {}, { vectors: [[2, 0]] }),
        createItem(
          "a",
          "two",
          { red: true },
          {
            vectors: [
              [-1, 0],
              [1, 1],
            ],
          },
        ),
        createItem("a", "across", { red: true }, { vectors: [[0, 3]] }),
        createItem("a", "away", {}, { vectors: [[-1, 0]] }),
        createItem("a", "zero", {}, { vectors: [[0, 0]] }),
        createItem("a", "huge", {}, { vectors: [[1e300, 1e300]] }),
        createItem("a", "longer", {}, { vectors: [[1, 0, 0]] }),
        createItem("a", "unseen"),
        createItem("b", "elsewhere", {}, { vectors: [[1, 0]] }),
      ]);
      const near = async (query: Partial<ItemQuery> & { readonly limit?: number; readonly offset?: number } = {}) =>
        (await search(storage, { namespace_prefix: ["a"], query_vector: [1, 0], ...query })).map(
          ({ key, score = Number.NaN }) => `${key} ${score.toFixed(3)}`,
        );
      assert.deepEqual(await near(), [
        "same 1.000",
        "two 0.707",
        "across 0.000",
        "huge 0.000",
        "zero 0.000",
        "away -1.000",
      ]);
      assert.deepEqual(await near({ limit: 2, offset: 1 }), ["two 0.707", "across 0.000"]);
      assert.deepEqual(await near({ conditions: [["red", "eq", true]] }), ["two 0.707", "across 0.000"]);
      assert.ok((await search(storage)).every((matches) => !("score" in matches)));
      await put(storage, [createItem("a", "same")]);
      assert.deepEqual(await near({ limit: 1 }), ["two 0.707"], "the vectors are those of the last put");
    });

    test("define the namespaces that are listed", async (storage) => {
      const places = ["a", "a.b", "a.b.c", "a.x.c", "ab", "b.b", "b.y.z.c", "\ufffd", "😀", "😀.c"];
      for (const namespace of places) await put(storage, [createItem(namespace, "k1"), createItem(namespace, "k2")]);
      assert.equal(await namespaces(storage), places.join());
      assert.equal(await namespaces(storage, { prefix: ["a"] }), "a,a.b,a.b.c,a.x.c");
      assert.equal(await namespaces(storage, { prefix: ["a", "b"] }), "a.b,a.b.c");
      assert.equal(await namespaces(storage, { prefix: ["a", "*", "c"] }), "a.b.c,a.x.c");
      assert.equal(await namespaces(storage, { prefix: ["*", "b"] }), "a.b,a.b.c,b.b");
      assert.equal(await namespaces(storage, { suffix: ["c"] }), "a.b.c,a.x.c,b.y.z.c,😀.c");
      assert.equal(await namespaces(storage, { suffix: ["b", "*"] }), "a.b.c,b.b");
      assert.equal(await namespaces(storage, { prefix: ["a"], suffix: ["b"] }), "a.b");
      assert.equal(await namespaces(storage, { max_depth: 1 }), "a,ab,b,\ufffd,😀");
      assert.equal(await namespaces(storage, { max_depth: 2 }), "a,a.b,a.x,ab,b.b,b.y,\ufffd,😀,😀.c");
      assert.equal(await namespaces(storage, { max_depth: 2, suffix: ["c"] }), "a.b,a.x,b.y,😀.c");
      assert.equal(await namespaces(storage, { limit: 3, offset: 2 }), "a.b.c,a.x.c,ab");
      assert.equal(await namespaces(storage, { max_depth: 1, limit: 2, offset: 2 }), "b,\ufffd");
      assert.equal(await namespaces(storage, { prefix: ["*", "*", "*", "*", "*"] }), "");
      assert.equal(await namespaces(storage, { offset: 50 }), "");
    });

    test("have more namespaces than fit in one step", async (storage) => {
      const toName = (n: number): string => `p${String(n).padStart(4, "0")}`;
      const many = Array.from({ length: 1003 }, (_, n) =>
        createItem(`${toName(n)}.x`, "k", { owner: n % 2 ? "ann" : "bob" }),
      );
      const twice = many.filter((_, n) => n % 50 === 0 || n > 995);
      await put(storage, [
        ...many,
        ...twice.map(({ namespace }) => createItem(namespace.join("."), "k0", { owner: "bob" })),
      ]);
      const count = (text: string): number => text.split(",").length;
      assert.equal(count(await namespaces(storage, { limit: 2000 })), 1003);
      assert.equal(await namespaces(storage, { limit: 1, offset: 1002 }), `${toName(1002)}.x`);
      assert.equal(count(await namespaces(storage, { limit: 2000, max_depth: 1 })), 1003);
      assert.equal(count(await namespaces(storage, { limit: 2000 }, 1000, owned("ann"))), 501);
      assert.equal(count(await namespaces(storage, { limit: 2000, max_depth: 1 }, 1000, owned("ann"))), 501);
      assert.equal(await namespaces(storage, { suffix: ["y"] }), "");
    });
  });

  api.describe("hidden items of the store", () => {
    const ann = owned("ann");

    test("are not returned", async (storage) => {
      await put(storage, [
        createItem("a", "hers", { owner: "ann", n: 1 }, { vectors: [[1, 0]] }),
        createItem("a", "his", { owner: "bob", n: 1 }, { vectors: [[1, 0]], ttl_ms: 100 }),
        createItem("b", "his", { owner: "bob" }),
        createItem("c", "nobody's"),
      ]);
      assert.equal(await storage.getItem(ann, ["a"], "his", { refresh: true }, 1050), null);
      assert.equal(await readValue(storage, "a", "his", 1100), undefined, "nor were they refreshed");
      assert.deepEqual(await readValue(storage, "a", "hers", 1000, ann), { owner: "ann", n: 1 });
      assert.equal(await keys(storage, {}, 1000, ann), "hers");
      assert.equal(await keys(storage, { conditions: [["n", "eq", 1]] }, 1000, ann), "hers");
      assert.equal(await keys(storage, { query_vector: [1, 0] }, 1000, ann), "hers");
      assert.equal(await namespaces(storage, {}, 1000, ann), "a");
    });

    test("stay unchanged, with all other items of the call", async (storage) => {
      await put(storage, [createItem("a", "his", { owner: "bob" }), createItem("a", "hers", { owner: "ann" })]);
      const mine = { owner: "ann", n: 2 };
      assert.equal(
        await storage.putItems(ann, [createItem("a", "new", mine), createItem("a", "his", mine)], 2000),
        "hidden",
      );
      assert.equal(await storage.putItems(ann, [removal("a", "hers"), removal("a", "his")], 2000), "hidden");
      assert.deepEqual(await readValue(storage, "a", "his"), { owner: "bob" });
      assert.deepEqual(await readValue(storage, "a", "hers"), { owner: "ann" });
      assert.equal(await readValue(storage, "a", "new"), undefined);

      await put(storage, [createItem("a", "new", mine), createItem("a", "hers", mine)], 2000, ann);
      assert.deepEqual(await readValue(storage, "a", "hers"), mine);
      assert.equal(await storage.putItems(ann, [removal("a", "hers"), removal("a", "none")], 2000), "written");
      assert.equal(await keys(storage, {}, 2000), "new,his");
      assert.equal(await namespaces(storage), "a", "nothing else is left behind");
    });

    test("are those whose namespace the filter does not name", async (storage) => {
      const bound = { ...here, filter: [{ key: "namespace", contains: ["ann"] }] };
      await put(storage, [
        createItem("ann.notes", "k"),
        createItem("bob.notes", "k"),
        createItem("bob", "k", { namespace: ["ann"] }),
      ]);
      assert.equal(await namespaces(storage, {}, 1000, bound), "ann.notes");
      const keyed = { ...here, filter: [{ key: "key", equals: "k" }] };
      assert.equal((await search(storage, {}, 1000, keyed)).length, 3);
    });

    test("may have expired, and then exclude nothing", async (storage) => {
      await put(storage, [createItem("a", "k", { owner: "bob" }, { ttl_ms: 10 })]);
      await put(storage, [createItem("a", "k", { owner: "ann" })], 1010, ann);
      const stored = await storage.getItem(ann, ["a"], "k", { refresh: false }, 1010);
      assert.equal(stored?.created_at, 1010);
    });

    test("are safe from concurrent writes", async (storage) => {
      for (let round = 0; round < 20; round++) {
        const [namespace, at] = [`r${round}`, 1000 + round];
        await put(storage, [createItem(namespace, "a", { owner: "ann" })], at);
        const [outcome] = await Promise.all([
          storage.putItems(
            ann,
            [createItem(namespace, "a", { owner: "ann", by: "ann" }), createItem(namespace, "b", { owner: "ann" })],
            at,
          ),
          storage.putItems(here, [createItem(namespace, "a", { owner: "bob" })], at),
        ]);
        const a = await readValue(storage, namespace, "a", at);
        assert.equal(a?.owner, "bob", "ann cannot overwrite an item of bob");
        assert.equal(
          (await readValue(storage, namespace, "b", at)) !== undefined,
          outcome === "written",
          "all or nothing",
        );
      }
    });
  });
}
