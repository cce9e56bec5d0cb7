/** The store routes: requests, calls of the store, and responses. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createAuthorizer } from "../../../../lib/auth/authorizer.ts";
import { type Access, anonymousPrincipal } from "../../../../lib/auth/principal.ts";
import type { RequestContext } from "../../../../lib/http/route.ts";
import { STORE_ROUTES } from "../../../../lib/http/routes/store.ts";
import type { JsonObject } from "../../../../lib/mod.ts";
import { createRequestResources } from "../../../../lib/service/authorized-resources.ts";
import type { InternalResources } from "../../../../lib/service/resources.ts";
import { serviceInternals } from "../../../../lib/service.ts";
import type { Visibility } from "../../../../lib/storage/visibility.ts";
import { createStore } from "../../../../lib/store/mod.ts";
import { type TestService, type TestServiceOptions, testClock, testService } from "../../../suite/kit.ts";
import { createIdleGuards } from "../../../support/guards.ts";
import { fake } from "../fake-service.ts";

const I = "/store/items";
const S = "/store/items/search";
const N = "/store/namespaces";

describe("the store routes", () => {
  const item = { namespace: ["a", "b"], key: "k", value: { x: 1 } };
  /** method, path, body, status, expected call */
  const operations: readonly (readonly [string, string, unknown, number, readonly unknown[]])[] = [
    ["PUT", I, item, 204, ["store.put", ["a", "b"], "k", { x: 1 }, {}]],
    ["PUT", I, { ...item, index: null, more: 1 }, 204, ["store.put", ["a", "b"], "k", { x: 1 }, {}]],
    [
      "PUT",
      I,
      { ...item, index: false, ttl: 0.5 },
      204,
      ["store.put", ["a", "b"], "k", { x: 1 }, { index: false, ttl: 0.5 }],
    ],
    [
      "PUT",
      I,
      { ...item, index: ["x"], ttl: null },
      204,
      ["store.put", ["a", "b"], "k", { x: 1 }, { index: ["x"], ttl: null }],
    ],
    ["PUT", I, { ...item, value: { ttl: null } }, 204, ["store.put", ["a", "b"], "k", { ttl: null }, {}]],
    ["GET", `${I}?namespace=a.b&key=k`, undefined, 200, ["store.get", ["a", "b"], "k", {}]],
    ["GET", `${I}?namespace=a&namespace=b&key=k`, undefined, 200, ["store.get", ["a", "b"], "k", {}]],
    ["GET", `${I}?namespace=a.b&namespace=c&key=k`, undefined, 200, ["store.get", ["a", "b", "c"], "k", {}]],
    ["GET", `${I}?namespace=["a","b"]&key=k`, undefined, 200, ["store.get", ["a", "b"], "k", {}]],
    ["GET", `${I}?namespace=a,b&key=x.y%2Fz%20`, undefined, 200, ["store.get", ["a,b"], "x.y/z ", {}]],
    ["GET", `${I}?namespace=%5Bx&key=k&refresh_ttl=`, undefined, 200, ["store.get", ["[x"], "k", {}]],
    ["GET", `${I}?namespace=a&key=k&refresh_ttl=0`, undefined, 200, ["store.get", ["a"], "k", { refresh_ttl: false }]],
    [
      "GET",
      `${I}?namespace=a&key=k&refresh_ttl=True`,
      undefined,
      200,
      ["store.get", ["a"], "k", { refresh_ttl: true }],
    ],
    ["DELETE", I, { namespace: ["a"], key: "k" }, 204, ["store.delete", ["a"], "k"]],
    ["DELETE", `${I}?namespace=a.b&key=k`, undefined, 204, ["store.delete", ["a", "b"], "k"]],
    ["POST", S, { namespace_prefix: [] }, 200, ["store.search", [], { limit: 10, offset: 0 }]],
    [
      "POST",
      S,
      { namespace_prefix: ["a"], filter: { x: { $gt: 1 } }, limit: 1000, offset: 7, query: "q", refresh_ttl: false },
      200,
      ["store.search", ["a"], { filter: { x: { $gt: 1 } }, limit: 1000, offset: 7, query: "q", refresh_ttl: false }],
    ],
    [
      "POST",
      S,
      { namespace_prefix: ["a"], filter: null, limit: null, offset: null, query: null, refresh_ttl: null },
      200,
      ["store.search", ["a"], { limit: 10, offset: 0 }],
    ],
    ["POST", N, undefined, 200, ["store.namespaces", { prefix: [], limit: 100, offset: 0 }]],
    [
      "POST",
      N,
      { prefix: ["a", "*"], suffix: ["z"], max_depth: 2, limit: 5, offset: 1 },
      200,
      ["store.namespaces", { prefix: ["a", "*"], suffix: ["z"], max_depth: 2, limit: 5, offset: 1 }],
    ],
    ["POST", N, { prefix: null, max_depth: null }, 200, ["store.namespaces", { prefix: [], limit: 100, offset: 0 }]],
  ];

  for (const [method, path, body, status, call] of operations) {
    it(`${method} ${path} ${JSON.stringify(body) ?? ""}`, async () => {
      const { send, calls } = fake();
      const response = await send(method, path, body);
      assert.equal(response.status, status, await response.clone().text());
      assert.deepEqual(calls, [call]);
      if (status === 204) assert.equal(await response.text(), "");
    });
  }

  const long = Array.from({ length: 33 }, () => "l");
  /** method, path, body, status, part of the detail */
  const refused: readonly (readonly [string, string, unknown, number, string])[] = [
    ["PUT", I, { key: "k", value: {} }, 400, "namespace: is required"],
    ["PUT", I, { namespace: null, key: "k", value: {} }, 400, "namespace: is required"],
    ["PUT", I, "{", 400, "JSON"],
    ["PUT", I, "[]", 422, "body: must be an object"],
    ["PUT", I, { ...item, namespace: "a.b" }, 422, "namespace: must be a list"],
    ["PUT", I, { ...item, namespace: [] }, 422, "namespace: must have 1 to 32 labels"],
    ["PUT", I, { ...item, namespace: long }, 422, "namespace: must have 1 to 32 labels"],
    ["PUT", I, { ...item, namespace: ["a", ""] }, 422, "namespace.1: must not be empty"],
    ["PUT", I, { ...item, namespace: ["a.b"] }, 422, "namespace.0: must not contain a dot"],
    ["PUT", I, { ...item, namespace: [1] }, 422, "namespace.0: must be a string"],
    ["PUT", I, { ...item, namespace: ["langgraph"] }, 422, "namespace.0: langgraph is reserved"],
    ["PUT", I, { namespace: ["a"], value: {} }, 422, "key: is required"],
    ["PUT", I, { ...item, key: "" }, 422, "key: must not be empty"],
    ["PUT", I, { ...item, key: "x".repeat(1025) }, 422, "key: must have at most 1024 characters"],
    ["PUT", I, { namespace: ["a"], key: "k" }, 422, "value: is required"],
    ["PUT", I, { ...item, value: null }, 422, "value: is required"],
    ["PUT", I, { ...item, value: [1] }, 422, "value: must be an object"],
    ["PUT", I, { ...item, value: "text" }, 422, "value: must be an object"],
    ["PUT", I, { ...item, value: { text: "x".repeat(1024 * 1024) } }, 422, "value: must be at most 1048576 bytes"],
    ["PUT", I, '{"namespace":["a"],"key":"k","value":{"n":1e999}}', 422, "value: must not contain numbers beyond"],
    ["PUT", I, { ...item, ttl: 0 }, 422, "ttl: must be a number of minutes above 0"],
    ["PUT", I, { ...item, ttl: -5 }, 422, "ttl: must be a number of minutes above 0"],
    ["PUT", I, { ...item, ttl: "5" }, 422, "ttl: must be a number"],
    ["PUT", I, { ...item, index: true }, 422, "index: must be false or a list of fields"],
    ["PUT", I, { ...item, index: [1] }, 422, "index: must be false or a list of fields"],
    ["GET", `${I}?key=k`, undefined, 400, "namespace: is required"],
    ["GET", `${I}?namespace=&key=k`, undefined, 400, "namespace: is required"],
    ["GET", `${I}?namespace=a`, undefined, 422, "key: is required"],
    ["GET", `${I}?namespace=a&key=`, undefined, 422, "key: must not be empty"],
    ["GET", `${I}?namespace=a..b&key=k`, undefined, 422, "namespace.1: must not be empty"],
    ["GET", `${I}?namespace=a&namespace=&key=k`, undefined, 422, "namespace.1: must not be empty"],
    ["GET", `${I}?namespace=${long.join(".")}&key=k`, undefined, 422, "namespace: must have 1 to 32 labels"],
    ["GET", `${I}?namespace=["a.b"]&key=k`, undefined, 422, "namespace.0: must not contain a dot"],
    ["GET", `${I}?namespace=a%00&key=k`, undefined, 422, "namespace.0: must not contain U+0000"],
    ["GET", `${I}?namespace=a&key=k&refresh_ttl=maybe`, undefined, 422, "refresh_ttl: must be true or false"],
    ["DELETE", I, undefined, 422, "namespace: is required"],
    ["DELETE", I, {}, 422, "namespace: is required"],
    ["DELETE", I, { namespace: ["a"] }, 422, "key: is required"],
    ["DELETE", I, { namespace: ["a."], key: "k" }, 422, "namespace.0: must not contain a dot"],
    ["POST", S, {}, 422, "namespace_prefix: is required"],
    ["POST", S, { namespace_prefix: "a" }, 422, "namespace_prefix: must be a list"],
    ["POST", S, { namespace_prefix: ["a", "b.c"] }, 422, "namespace_prefix.1: must not contain a dot"],
    ["POST", S, { namespace_prefix: [], limit: 0 }, 422, "limit: must be between 1 and 1000"],
    ["POST", S, { namespace_prefix: [], limit: 1001 }, 422, "limit: must be between 1 and 1000"],
    ["POST", S, { namespace_prefix: [], offset: -1 }, 422, "offset: must be at least 0"],
    ["POST", S, { namespace_prefix: [], filter: [] }, 422, "filter: must be an object"],
    ["POST", S, { namespace_prefix: [], filter: { a: { $regex: "x" } } }, 422, "filter.a.$regex: must be one of $eq"],
    ["POST", S, { namespace_prefix: [], filter: { $eq: 1 } }, 422, "filter.$eq: operators"],
    ["POST", S, { namespace_prefix: [], filter: { a: { b: { $gt: 1 } } } }, 422, "filter.a.b.$gt: no operator"],
    ["POST", S, '{"namespace_prefix":[],"filter":{"a":1e999}}', 422, "filter: must not contain numbers beyond"],
    ["POST", S, { namespace_prefix: [], query: 5 }, 422, "query: must be a string"],
    ["POST", S, { namespace_prefix: [], refresh_ttl: "x" }, 422, "refresh_ttl: must be true or false"],
    ["POST", N, { prefix: ["a.b"] }, 422, "prefix.0: must not contain a dot"],
    ["POST", N, { suffix: [""] }, 422, "suffix.0: must not be empty"],
    ["POST", N, { max_depth: 0 }, 422, "max_depth: must be at least 1"],
    ["POST", N, { limit: 0 }, 422, "limit: must be between 1 and 1000"],
    ["POST", N, { offset: 1.5 }, 422, "offset: must be an integer"],
  ];

  for (const [method, path, body, status, detail] of refused) {
    it(`refuses ${method} ${path} ${(JSON.stringify(body) ?? "").slice(0, 80)}`, async () => {
      const { send, calls } = fake();
      const response = await send(method, path, body);
      const answer = (await response.json()) as { detail: string };
      assert.equal(response.status, status, answer.detail);
      assert.ok(answer.detail.includes(detail), answer.detail);
      assert.deepEqual(calls, [], "nothing is asked of the store");
    });
  }
});

describe("responses of the store routes", () => {
  const open = (options: TestServiceOptions = {}): Promise<TestService> =>
    testService({ agents: { idle: async () => ({}) }, environment: testClock(), ...options });
  const send = async (
    kit: TestService,
    method: string,
    path: string,
    body?: unknown,
  ): Promise<{ readonly status: number; readonly body: unknown }> => {
    const init = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await kit.fetch(`http://greenroom${path}`, { method, ...init });
    const text = await response.text();
    return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
  };

  it("contain items unchanged", async () => {
    await using kit = await open();
    const value = { text: "é", nested: { list: [1, null] } };
    assert.deepEqual(await send(kit, "PUT", I, { namespace: ["a", "b"], key: "k", value }), {
      status: 204,
      body: undefined,
    });
    const at = "2026-01-01T00:00:00.000Z";
    const item = { namespace: ["a", "b"], key: "k", value, created_at: at, updated_at: at };
    assert.deepEqual(await send(kit, "GET", `${I}?namespace=a.b&key=k`), { status: 200, body: item });
    assert.deepEqual(await send(kit, "GET", `${I}?namespace=a.b&key=none`), { status: 200, body: null });
    assert.deepEqual(await send(kit, "POST", S, { namespace_prefix: ["a"] }), { status: 200, body: { items: [item] } });
    assert.deepEqual(await send(kit, "POST", S, { namespace_prefix: ["b"] }), { status: 200, body: { items: [] } });
    assert.deepEqual(await send(kit, "POST", N, {}), { status: 200, body: { namespaces: [["a", "b"]] } });
    for (const _ of [1, 2])
      assert.equal((await send(kit, "DELETE", I, { namespace: ["a", "b"], key: "k" })).status, 204);
    assert.deepEqual(await send(kit, "GET", `${I}?namespace=a.b&key=k`), { status: 200, body: null });
  });

  it("refuse queries without an index", async () => {
    await using kit = await open();
    assert.deepEqual(await send(kit, "POST", S, { namespace_prefix: [], query: "x" }), {
      status: 422,
      body: { detail: "Semantic search is not configured", code: "search_not_configured" },
    });
  });

  it("contain scores with an index", async () => {
    const embed = async (texts: readonly string[]) => texts.map((text) => (text.includes("cat") ? [3, 0] : [0, 1]));
    await using kit = await open({ store: { index: { dims: 2, embed } } });
    await send(kit, "PUT", I, { namespace: ["a"], key: "cat", value: { text: "cat" } });
    await send(kit, "PUT", I, { namespace: ["a"], key: "dog", value: { text: "dog" } });
    await send(kit, "PUT", I, { namespace: ["a"], key: "off", value: { text: "cat" }, index: false });
    const { body } = await send(kit, "POST", S, { namespace_prefix: ["a"], query: "a cat" });
    const { items } = body as { items: { key: string; score: number }[] };
    assert.deepEqual(
      items.map(({ key, score }) => [key, score]),
      [
        ["cat", 1],
        ["dog", 0],
      ],
    );
  });

  it("are 500 with a log record if the embedder is wrong, and nothing is stored", async () => {
    await using kit = await open({ store: { index: { dims: 2, embed: async () => [[1, 2, 3]] } } });
    assert.deepEqual(await send(kit, "PUT", I, { namespace: ["a"], key: "k", value: {} }), {
      status: 500,
      body: { detail: "Internal server error", code: "internal" },
    });
    assert.ok(kit.log.some(({ level, error }) => level === "error" && /vectors of length 2/.test(String(error))));
    assert.deepEqual(await send(kit, "POST", N, {}), { status: 200, body: { namespaces: [] } });
  });
});

describe("authorization of the store routes", () => {
  type May = (event: string, value: Record<string, unknown>) => Visibility;

  /** Sends requests to the routes of a real store with an authorization handler. */
  async function guarded(may: May) {
    const kit = await testService({ agents: { idle: async () => ({}) } });
    const { options: serviceOptions, environment } = serviceInternals(kit.service);
    const store = createStore({ storage: serviceOptions.storage, environment });
    const access: Pick<Access, "authorize"> = {
      authorize: async (_caller, event, value) => ({ visibility: may(event, value as Record<string, unknown>), value }),
    };
    const options = { access, scope: { deployment: "default" }, environment, guards: createIdleGuards(environment) };
    const binding = createAuthorizer(options, () => anonymousPrincipal);
    const routes = {
      put: `put ${I}`,
      get: `get ${I}`,
      delete: `delete ${I}`,
      search: `post ${S}`,
      namespaces: `post ${N}`,
    };
    const send = async (
      name: keyof typeof routes,
      rawQuery: RequestContext["rawQuery"],
      body?: JsonObject,
    ): Promise<Response> => {
      const route = STORE_ROUTES.find(({ method, path }) => `${method} ${path}` === routes[name]);
      const context: Partial<RequestContext> = {
        resources: createRequestResources({ store } as InternalResources, binding),
        rawQuery,
        bytes: async () => new TextEncoder().encode(body ? JSON.stringify(body) : ""),
      };
      return (await route?.handle?.(context as RequestContext)) as Response;
    };
    return { store: kit.service.store, send, [Symbol.asyncDispose]: () => kit[Symbol.asyncDispose]() };
  }

  it("runs for each call with its arguments", async () => {
    const calls: [string, unknown][] = [];
    await using at = await guarded((event, value) => {
      calls.push([event, structuredClone(value)]);
      return {};
    });
    await at.send("put", {}, { namespace: ["a"], key: "k", value: { x: 1 }, ttl: 5 });
    await at.send("put", {}, { namespace: ["a"], key: "k", value: { x: 1 }, index: ["x"] });
    await at.send("get", { namespace: "a", key: "k", refresh_ttl: "true" });
    await at.send("search", {}, { namespace_prefix: ["a"], filter: { x: 1 } });
    await at.send("namespaces", {}, { prefix: ["a"], max_depth: 1 });
    await at.send("namespaces", {}, {});
    await at.send("delete", {}, { namespace: ["a"], key: "k" });
    assert.deepEqual(calls, [
      ["store:put", { namespace: ["a"], key: "k", value: { x: 1 }, index: null, ttl: 5 }],
      ["store:put", { namespace: ["a"], key: "k", value: { x: 1 }, index: ["x"] }],
      ["store:get", { namespace: ["a"], key: "k" }],
      ["store:search", { namespace: ["a"], filter: { x: 1 }, limit: 10, offset: 0, query: null }],
      ["store:list_namespaces", { namespace: ["a"], suffix: null, max_depth: 1, limit: 100, offset: 0 }],
      ["store:list_namespaces", { namespace: [], suffix: null, max_depth: null, limit: 100, offset: 0 }],
      ["store:delete", { namespace: ["a"], key: "k" }],
    ]);
  });

  it("may put every namespace below one of the caller", async () => {
    await using at = await guarded((_event, value) => {
      value.namespace = ["ann", ...(value.namespace as string[])];
      return {};
    });
    await at.store.put(["bob", "notes"], "k", { by: "bob" });
    await at.send("put", {}, { namespace: ["notes"], key: "k", value: { by: "ann" } });
    assert.deepEqual((await at.store.get(["ann", "notes"], "k"))?.value, { by: "ann" });
    const got = (await (await at.send("get", { namespace: "notes", key: "k" })).json()) as JsonObject;
    assert.deepEqual(got.value, { by: "ann" });
    const searchResult = (await (await at.send("search", {}, { namespace_prefix: [] })).json()) as {
      items: JsonObject[];
    };
    assert.deepEqual(
      searchResult.items.map(({ value }) => value),
      [{ by: "ann" }],
    );
    assert.deepEqual(await (await at.send("namespaces", {}, {})).json(), { namespaces: [["ann", "notes"]] });
    await at.send("delete", {}, { namespace: ["notes"], key: "k" });
    assert.deepEqual(await at.store.namespaces(), [["bob", "notes"]]);
  });

  it("is validated after the handler changed the value", async () => {
    for (const namespace of [[], ["a.b"], "a", null, [1], ["langgraph"]]) {
      await using at = await guarded((_event, value) => {
        value.namespace = namespace;
        return {};
      });
      const put = at.send("put", {}, { namespace: ["a"], key: "k", value: {} });
      await assert.rejects(put, { code: "invalid", message: /^namespace/ });
    }
  });

  it("limits what a call reaches", async () => {
    await using at = await guarded(() => ({ filter: [{ key: "owner", equals: "ann" }] }));
    await at.store.put(["a"], "his", { owner: "bob" });
    await at.store.put(["a"], "hers", { owner: "ann" });
    await at.store.put(["b"], "his", { owner: "bob" });
    for (const key of ["his", "nobody's"]) {
      await assert.rejects(at.send("get", { namespace: "a", key }), { code: "not_found", message: "Item not found" });
    }
    const searchResult = (await (await at.send("search", {}, { namespace_prefix: [] })).json()) as {
      items: JsonObject[];
    };
    assert.deepEqual(
      searchResult.items.map(({ key }) => key),
      ["hers"],
    );
    assert.deepEqual(await (await at.send("namespaces", {}, {})).json(), { namespaces: [["a"]] });
    assert.equal((await at.send("delete", {}, { namespace: ["a"], key: "his" })).status, 204);
    assert.ok(await at.store.get(["a"], "his"));
    const over = at.send("put", {}, { namespace: ["a"], key: "his", value: { owner: "ann" } });
    await assert.rejects(over, { code: "forbidden" });
  });
});
