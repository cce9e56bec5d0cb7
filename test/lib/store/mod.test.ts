import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { withFixedScope } from "../../../lib/auth/authorizer.ts";
import { ConfigError, type Json, type JsonObject, ServiceError } from "../../../lib/mod.ts";
import { serviceInternals } from "../../../lib/service.ts";
import { type ItemCondition, matchesConditions } from "../../../lib/storage/items.ts";
import type { RetentionLimits } from "../../../lib/storage/mod.ts";
import type { Filter } from "../../../lib/storage/visibility.ts";
import { createStore, type Store } from "../../../lib/store/mod.ts";
import { parseFilter } from "../../../lib/store/validation.ts";
import { type TestService, type TestServiceOptions, testClock, testService } from "../../suite/kit.ts";
import { createFaultyStorage } from "../../support/faulty.ts";

const MINUTE = 60_000;
const agents = { idle: async () => ({}) };
const open = (options: TestServiceOptions = {}): Promise<TestService> => testService({ agents, ...options });

async function refused(call: Promise<unknown>, code: string, message: string | RegExp): Promise<void> {
  await assert.rejects(call, (error: unknown) => {
    assert.ok(error instanceof ServiceError, String(error));
    assert.equal(error.code, code);
    if (typeof message === "string") assert.equal(error.message, message);
    else assert.match(error.message, message);
    return true;
  });
}

describe("limits of the store", () => {
  const labels = (count: number): string[] => Array.from({ length: count }, (_, n) => `l${n}`);

  it("accept everything up to them", async () => {
    await using kit = await open();
    const { store } = kit.service;
    const overhead = JSON.stringify({ text: "" }).length;
    const puts: [string[], string, JsonObject][] = [
      [["a"], "k", {}],
      [labels(32), "k", { deep: true }],
      [["*", "a,b", "[x]", "é 😀/\\\u0001"], "a.b/c\n", { odd: true }],
      [["a"], "😀".repeat(1024), { long: true }],
      [["a".repeat(1024)], "k", {}],
      [["a"], "big", { text: "x".repeat(1024 * 1024 - overhead) }],
      [["b", "langgraph"], "k", {}],
      [["a"], "proto", JSON.parse('{"__proto__":{"a":1},"constructor":null}') as JsonObject],
    ];
    for (const [namespace, key, value] of puts) {
      await store.put(namespace, key, value);
      assert.deepEqual((await store.get(namespace, key))?.value, value);
    }
    assert.equal((await store.search([], { limit: 1000 })).length, puts.length);
  });

  it("refuse what exceeds them with the name of the member", async () => {
    await using kit = await open();
    const { store } = kit.service;
    const overhead = JSON.stringify({ text: "" }).length;
    const nested = (levels: number): Json => (levels === 0 ? 1 : { in: nested(levels - 1) });
    const cycle: Record<string, unknown> = {};
    cycle.self = cycle;
    const put = (namespace: unknown, key: unknown, value: unknown = {}, options: object = {}): Promise<void> =>
      store.put(namespace as string[], key as string, value as JsonObject, options);
    const wrong: [Promise<unknown>, string][] = [
      [put("a.b", "k"), "namespace: must be a list of labels"],
      [put(undefined, "k"), "namespace: must be a list of labels"],
      [put([], "k"), "namespace: must have 1 to 32 labels"],
      [put(labels(33), "k"), "namespace: must have 1 to 32 labels"],
      [put(["a", ""], "k"), "namespace.1: must not be empty"],
      [put(["a.b"], "k"), "namespace.0: must not contain a dot"],
      [put([1], "k"), "namespace.0: must be a string"],
      [put(["\0"], "k"), "namespace.0: must not contain U+0000 or lone surrogates"],
      [put(["x".repeat(1025)], "k"), "namespace.0: must have at most 1024 characters"],
      [put(["langgraph", "a"], "k"), "namespace.0: langgraph is reserved as the first label"],
      [put(["a"], ""), "key: must not be empty"],
      [put(["a"], 5), "key: must be a string"],
      [put(["a"], "x".repeat(1025)), "key: must have at most 1024 characters"],
      [put(["a"], "😀".repeat(1025)), "key: must have at most 1024 characters"],
      [put(["a"], "\ud800"), "key: must not contain U+0000 or lone surrogates"],
      [put(["a"], "k", []), "value: must be an object"],
      [put(["a"], "k", null), "value: must be an object"],
      [put(["a"], "k", "text"), "value: must be an object"],
      [put(["a"], "k", { n: Number.POSITIVE_INFINITY }), "value: must hold finite numbers only"],
      [put(["a"], "k", { n: 1n }), "value: is not JSON"],
      [put(["a"], "k", cycle), "value: is not JSON"],
      [put(["a"], "k", nested(101)), "value: must not nest deeper than 100 levels"],
      [
        put(["a"], "k", { text: "x".repeat(1024 * 1024 - overhead + 1) }),
        "value: must be at most 1048576 bytes of JSON",
      ],
      [put(["a"], "k", { text: "é".repeat(600_000) }), "value: must be at most 1048576 bytes of JSON"],
      [put(["a"], "k", {}, { ttl: 0 }), "ttl: must be a number of minutes above 0 and up to 10000000000"],
      [put(["a"], "k", {}, { ttl: -1 }), "ttl: must be a number of minutes above 0 and up to 10000000000"],
      [put(["a"], "k", {}, { ttl: Number.NaN }), "ttl: must be a number of minutes above 0 and up to 10000000000"],
      [put(["a"], "k", {}, { ttl: "5" }), "ttl: must be a number of minutes above 0 and up to 10000000000"],
      [put(["a"], "k", {}, { index: true }), "index: must be false or a list of fields"],
      [put(["a"], "k", {}, { index: [""] }), "index: must be false or a list of fields"],
      [put(["a"], "k", {}, { index: labels(101) }), "index: must have at most 100 fields"],
      [store.get([], "k"), "namespace: must have 1 to 32 labels"],
      [store.get(["a"], ""), "key: must not be empty"],
      [store.delete(["a."], "k"), "namespace.0: must not contain a dot"],
      [store.search(["a", "b."]), "namespace_prefix.1: must not contain a dot"],
      [store.search(labels(33)), "namespace_prefix: must have 0 to 32 labels"],
      [store.search([], { limit: 0 }), "limit: must be between 1 and 1000"],
      [store.search([], { limit: 1001 }), "limit: must be between 1 and 1000"],
      [store.search([], { limit: 1.5 }), "limit: must be between 1 and 1000"],
      [store.search([], { offset: -1 }), "offset: must be at least 0"],
      [store.search([], { query: 1 } as never), "query: must be a string"],
      [store.namespaces({ prefix: ["a.b"] }), "prefix.0: must not contain a dot"],
      [store.namespaces({ suffix: "a" as never }), "suffix: must be a list of labels"],
      [store.namespaces({ max_depth: 0 }), "max_depth: must be at least 1"],
      [store.namespaces({ limit: 1001 }), "limit: must be between 1 and 1000"],
    ];
    for (const [call, message] of wrong) await refused(call, "invalid", message);
    assert.deepEqual(await store.search([]), []);
  });

  it("convert a value as JSON does", async () => {
    await using kit = await open();
    const { store } = kit.service;
    const value = { at: new Date(0), left: undefined, list: [undefined], own: { toJSON: () => "own" } };
    await store.put(["a"], "k", value as never);
    assert.deepEqual((await store.get(["a"], "k"))?.value, {
      at: "1970-01-01T00:00:00.000Z",
      list: [null],
      own: "own",
    });
  });
});

describe("filters of the store", () => {
  it("are parsed to conditions", () => {
    assert.deepEqual(parseFilter({ a: 1, b: { c: 1 }, d: { $gt: 1, $lte: "5" }, e: { $eq: null, $ne: [1] }, f: {} }), [
      ["a", "eq", 1],
      ["b", "eq", { c: 1 }],
      ["d", "gt", 1],
      ["d", "lte", "5"],
      ["e", "eq", null],
      ["e", "ne", [1]],
      ["f", "eq", {}],
    ]);
    assert.deepEqual([parseFilter(undefined), parseFilter(null), parseFilter({})], [[], [], []]);
  });

  it("are refused with an unknown or misplaced operator", () => {
    let deep: Json = 1;
    for (let level = 0; level < 120; level++) deep = { in: deep };
    const wrong: [unknown, RegExp][] = [
      [[], /^filter: must be an object/],
      ["a", /^filter: must be an object/],
      [{ a: { $in: [1] } }, /^filter\.a\.\$in: must be one of \$eq, /],
      [{ a: { $gt: 1, b: 2 } }, /^filter\.a\.b: must be one of/],
      [{ $eq: 1 }, /^filter\.\$eq: operators/],
      [{ $or: [{ a: 1 }] }, /^filter\.\$or: operators/],
      [{ a: { b: { $gt: 1 } } }, /^filter\.a\.b\.\$gt: no operator is allowed here/],
      [{ a: [{ $gt: 1 }] }, /no operator is allowed here/],
      [{ a: { $eq: { $gt: 1 } } }, /no operator is allowed here/],
      [{ a: { $gt: {} } }, /^filter\.a\.\$gt: must be a number/],
      [{ a: { $lt: [1] } }, /^filter\.a\.\$lt: must be a number/],
      [{ a: Number.NaN }, /^filter\.a: must be a finite number/],
      [{ a: undefined }, /^filter\.a: is not JSON/],
      [deep, /^filter: must not nest deeper/],
    ];
    for (const [filter, message] of wrong) {
      assert.throws(
        () => parseFilter(filter),
        (error: ServiceError) => error.code === "invalid" && message.test(error.message),
        JSON.stringify(filter),
      );
    }
  });

  it("never fail on the content of a value", () => {
    const odd = { valueOf: 1, toString: 1, n: null, l: [5], o: { toString: 2, valueOf: 2 }, b: true, s: " 7 " };
    const is = (...condition: ItemCondition): boolean => matchesConditions(odd, [condition]);
    assert.equal(is("o", "gt", 1), false);
    assert.equal(is("o", "lte", 1), false);
    assert.equal(is("n", "gte", 0), true, "as LangGraph's: Number(null) is 0");
    assert.equal(is("b", "gt", 0), true);
    assert.equal(is("s", "lt", 8), true);
    assert.equal(is("s", "lt", "x"), false);
    assert.equal(is("missing", "ne", null), true);
    assert.equal(is("missing", "lt", 1), false);
    assert.equal(is("hasOwnProperty", "eq", null), false);
  });
});

describe("the time to live of store items", () => {
  it("is set in minutes by the put or by the store", async () => {
    const environment = testClock();
    await using kit = await open({ environment, store: { ttl: { default_ttl: 2, refresh_on_read: false } } });
    const { store } = kit.service;
    await store.put(["a"], "default", {});
    await store.put(["a"], "own", {}, { ttl: 0.5 });
    await store.put(["a"], "good", {}, { ttl: null });
    const there = async (): Promise<string> => {
      const matches = await store.search(["a"]);
      for (const { key } of matches) assert.ok(await store.get(["a"], key));
      return matches
        .map(({ key }) => key)
        .sort()
        .join();
    };
    assert.equal(await there(), "default,good,own");
    await environment.set(environment.now() + 0.5 * MINUTE);
    assert.equal(await there(), "default,good");
    assert.equal(await store.get(["a"], "own"), null);
    await environment.set(environment.now() + 1.5 * MINUTE);
    assert.equal(await there(), "good");
    assert.deepEqual(await store.namespaces(), [["a"]]);
  });

  it("is extended by reads, as the store or the read says", async () => {
    for (const refresh_on_read of [true, false]) {
      const environment = testClock();
      await using kit = await open({ environment, store: { ttl: { refresh_on_read } } });
      const { store } = kit.service;
      const after = async (read: (key: string) => Promise<unknown>): Promise<boolean> => {
        await store.put(["a"], "k", { n: 1 }, { ttl: 10 });
        await environment.set(environment.now() + 6 * MINUTE);
        await read("k");
        await environment.set(environment.now() + 6 * MINUTE);
        return (await store.get(["a"], "k", { refresh_ttl: false })) !== null;
      };
      assert.equal(await after((key) => store.get(["a"], key)), refresh_on_read);
      assert.equal(await after(() => store.search(["a"])), refresh_on_read);
      assert.equal(await after((key) => store.get(["a"], key, { refresh_ttl: true })), true);
      assert.equal(await after((key) => store.get(["a"], key, { refresh_ttl: false })), false);
      assert.equal(await after(() => store.search([], { filter: { n: 1 }, refresh_ttl: true })), true);
      assert.equal(await after(() => store.search([], { filter: { n: 2 }, refresh_ttl: true })), false);
      assert.equal(await after(() => store.search([], { refresh_ttl: false })), false);
    }
  });

  it("ends in the database soon after", async () => {
    const environment = testClock();
    const { storage, faults } = createFaultyStorage();
    let sweeps = 0;
    faults.deleteExpired = (call, [, terms]) => {
      if ((terms as RetentionLimits).items_expired_by === undefined) return call();
      if (++sweeps === 1) throw new Error("the disk is on fire");
      return call();
    };
    await using kit = await open({ environment, storage, store: { ttl: { sweep_interval_minutes: 1 } } });
    const { store } = kit.service;
    for (let n = 0; n < 3; n++) await store.put(["a"], `k${n}`, {}, { ttl: 0.5 });
    await environment.advance(MINUTE);
    const failures = kit.log.filter(({ message }) => message === "deleting expired store items failed");
    assert.equal(failures.length, 1);
    await environment.advance(MINUTE);
    assert.ok(sweeps >= 2);
    const expiredCount = await storage.deleteExpired(
      { deployment: "default" },
      { items_expired_by: environment.now(), limit: 10, now: environment.now() },
    );
    assert.equal(expiredCount, 0);
  });
});

describe("the visibility filter of a store caller", () => {
  /** Returns the store in the scope of a filter. */
  function limited({ service }: TestService, filter: Filter): Store {
    const { options, environment } = serviceInternals(service);
    return withFixedScope<Store>(createStore({ storage: options.storage, environment }), {
      deployment: "default",
      filter,
    });
  }

  it("limits every call", async () => {
    await using kit = await open();
    const { store } = kit.service;
    const ann = limited(kit, [{ key: "owner", equals: "ann" }]);
    await store.put(["a"], "his", { owner: "bob" });
    await store.put(["b"], "his", { owner: "bob" });
    await ann.put(["a"], "hers", { owner: "ann" });
    assert.equal(await ann.get(["a"], "his"), null);
    assert.deepEqual(
      (await ann.search([])).map(({ key }) => key),
      ["hers"],
    );
    assert.deepEqual(await ann.namespaces(), [["a"]]);
    await ann.delete(["a"], "his");
    await ann.delete(["a"], "none");
    assert.ok(await store.get(["a"], "his"));
    const forbidden = "This item may not be put";
    await refused(ann.put(["a"], "his", { owner: "ann" }), "forbidden", forbidden);
    await refused(ann.put(["a"], "new", { owner: "bob" }), "forbidden", forbidden);
    await refused(ann.put(["a"], "new", {}), "forbidden", forbidden);
    assert.deepEqual((await store.get(["a"], "his"))?.value, { owner: "bob" });
    assert.equal(await store.get(["a"], "new"), null);
    await ann.delete(["a"], "hers");
    assert.equal(await store.get(["a"], "hers"), null);
  });

  it("may be expressed by the namespace", async () => {
    await using kit = await open();
    const ann = limited(kit, [{ key: "namespace", contains: ["ann"] }]);
    await ann.put(["ann", "notes"], "k", {});
    await refused(ann.put(["bob"], "k", {}), "forbidden", /may not/);
    assert.ok(await ann.get(["ann", "notes"], "k"));
  });
});

describe("the job of a function", () => {
  it("has the store of the service", async () => {
    await using kit = await testService({
      agents: {
        count: async ({ store }) => {
          const last = await store.get(["runs"], "count");
          const count = ((last?.value.count ?? 0) as number) + 1;
          await store.put(["runs"], "count", { count });
          const namespaces = (await store.namespaces()) as Json;
          return { count, namespaces, found: (await store.search(["runs"])).length };
        },
      },
    });
    const { runs, store } = kit.service;
    for (const count of [1, 2]) {
      const { result } = await runs.wait(null, { assistant_id: "count", input: {} });
      assert.deepEqual(await result, { count, namespaces: [["runs"]], found: 1 });
    }
    assert.deepEqual((await store.get(["runs"], "count"))?.value, { count: 2 });
  });
});

describe("the options of the store", () => {
  it("are validated", async () => {
    const problems = async (store: object): Promise<string> => {
      const creation = open({ store } as TestServiceOptions).then((kit) => kit[Symbol.asyncDispose]());
      const error = (await creation.then(
        () => undefined,
        (error: unknown) => error,
      )) as ConfigError | undefined;
      if (error) assert.ok(error instanceof ConfigError);
      return error?.message ?? "";
    };
    assert.equal(
      await problems({ ttl: { default_ttl: 0.001, refresh_on_read: false, sweep_interval_minutes: 0.1 } }),
      "",
    );
    assert.match(await problems({ ttl: { default_ttl: 0 } }), /store\.ttl\.default_ttl/);
    assert.match(await problems({ ttl: { default_ttl: 1e11 } }), /store\.ttl\.default_ttl/);
    assert.match(await problems({ ttl: { sweep_interval_minutes: 0 } }), /store\.ttl\.sweep_interval_minutes/);
    assert.match(await problems({ ttl: { sweep_interval_minutes: 40_000 } }), /store\.ttl\.sweep_interval_minutes/);
    assert.match(await problems({ ttl: { refresh_on_read: 1 } }), /store\.ttl\.refresh_on_read/);
    assert.match(await problems({ index: { dims: 0, embed: async () => [] } }), /store\.index\.dims/);
    assert.match(await problems({ index: { dims: 2, embed: "x" } }), /store\.index\.embed/);
    assert.match(await problems({ indexes: {} }), /store\.indexes: unknown/);
  });
});
