import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Auth as SdkAuth } from "@langchain/langgraph-sdk/auth";
import {
  type Auth,
  type AuthContext,
  type AuthEvent,
  type AuthUser,
  type CustomHandlers,
  defineAuth,
  findAuthProblems,
  HandlerRefusal,
} from "../../../lib/auth/custom.ts";
import { createCustomHandlers } from "../../../lib/auth/custom-handlers.ts";
import type { LogRecord } from "../../../lib/environment.ts";
import type { JsonObject } from "../../../lib/json.ts";
import { matchesFilter, NO_FILTER, readFilter } from "../../../lib/storage/visibility.ts";

const ann: AuthUser = { identity: "ann", permissions: ["p"], display_name: "ann", is_authenticated: true };
const request = (init?: RequestInit): Request => new Request("http://greenroom/threads?x=1", init);

/** Creates custom handlers with a log. `late` lets their timeout fire. */
function guarded(custom: Parameters<typeof createCustomHandlers>[0], merge_filter_on_create = false) {
  const log: LogRecord[] = [];
  const timers = new Map<object, { ms: number; fn: () => void }>();
  const environment = {
    log: (record: LogRecord) => void log.push(record),
    timer(ms: number, fn: () => void) {
      const key = {};
      timers.set(key, { ms, fn });
      return () => timers.delete(key);
    },
  };
  const guard: CustomHandlers = createCustomHandlers(custom, { environment, merge_filter_on_create });
  const late = (): void => {
    for (const [key, { ms, fn }] of timers) if (ms === 10_000 && timers.delete(key)) fn();
  };
  return { guard, log, timers, late };
}

const authenticating = (authenticate: Auth["authenticate"]) => guarded({ authenticate });
// Hosts that use JavaScript can pass any type.
const answering = (answer: unknown) => authenticating((async () => answer) as Auth["authenticate"]);
const throwing = (thrown: unknown) =>
  authenticating(() => {
    throw thrown;
  });
const handling = (on: Readonly<Record<string, (context: AuthContext) => unknown>>, merge = false) =>
  guarded({ authenticate: () => "ann", on: on as NonNullable<Auth["on"]> }, merge);

describe("authenticate", () => {
  it("accepts a string as the identity", async () => {
    assert.deepEqual(await answering("ann").guard.authenticate(request()), {
      identity: "ann",
      permissions: [],
      display_name: "ann",
      is_authenticated: true,
    });
  });

  it("accepts an object with an identity and keeps its other members", async () => {
    const user = { identity: "ann", permissions: ["a"], display_name: "Ann", is_authenticated: false, org: { id: 7 } };
    assert.deepEqual(await answering(user).guard.authenticate(request()), user);
    const odd = {
      identity: "ann",
      permissions: "all",
      display_name: 7,
      is_authenticated: "yes",
      token: "t",
      no: undefined,
    };
    assert.deepEqual(await answering(odd).guard.authenticate(request()), {
      identity: "ann",
      permissions: [],
      display_name: "ann",
      is_authenticated: true,
      token: "t",
    });
  });

  for (const answer of [undefined, null, true, 7, {}, { identity: 7 }, [], ["ann"], { identity: "a", n: 1n }]) {
    it(`fails when the handler returns ${typeof answer === "object" && answer && "n" in answer ? "a bigint" : JSON.stringify(answer)}`, async () => {
      const { guard, log } = answering(answer);
      await assert.rejects(guard.authenticate(request()), { code: "internal", message: "Internal server error" });
      assert.equal(log.length, 1);
    });
  }

  it("passes a copy of the request without its body, and leaves the body to the route", async () => {
    const requests: Request[] = [];
    const { guard } = authenticating(async (copy) => {
      requests.push(copy);
      assert.equal(await copy.text(), "");
      return "ann";
    });
    const original = request({ method: "POST", body: "{}", headers: { authorization: "Bearer t", cookie: "a=b" } });
    await guard.authenticate(original);
    assert.deepEqual([requests[0]?.method, requests[0]?.url], ["POST", "http://greenroom/threads?x=1"]);
    assert.deepEqual(
      [requests[0]?.headers.get("authorization"), requests[0]?.headers.get("cookie")],
      ["Bearer t", "a=b"],
    );
    assert.equal(await original.text(), "{}");
  });

  it("refuses with the status, message and headers of the thrown error", async () => {
    const headers = { "www-authenticate": "Bearer", "content-length": "99", "bad name": "x" };
    for (const headerInput of [headers, Object.entries(headers)]) {
      const thrown = Object.assign(new Error("Who are you?"), { status: 401, headers: headerInput });
      const { guard, log } = throwing(thrown);
      const error = await guard.authenticate(request()).catch((error: unknown) => error);
      assert.ok(error instanceof HandlerRefusal);
      assert.deepEqual([error.status, error.message], [401, "Who are you?"]);
      assert.deepEqual(error.headers, { "www-authenticate": "Bearer" });
      assert.deepEqual(log, []);
    }
    for (const [thrown, message] of [
      [{ status: 403 }, "Forbidden"],
      [{ status: 418, message: "" }, "Refused"],
      [{ status: 503, message: "later" }, "later"],
    ] as const) {
      const { status } = thrown;
      await assert.rejects(throwing(thrown).guard.authenticate(request()), { name: "AuthRefusal", status, message });
    }
  });

  for (const thrown of [
    new Error("s3cret"),
    "s3cret",
    undefined,
    null,
    { status: 200 },
    { status: 302 },
    { status: "401" },
    { status: 401.5 },
  ]) {
    it(`reveals nothing of a thrown ${thrown instanceof Error ? "error" : JSON.stringify(thrown)}`, async () => {
      const { guard, log } = throwing(thrown);
      await assert.rejects(guard.authenticate(request()), { code: "internal", message: "Internal server error" });
      assert.deepEqual(
        log.map(({ level, handler }) => [level, handler]),
        [["error", "authenticate"]],
      );
    });
  }

  it("fails with `unavailable` after ten seconds", async () => {
    const { guard, late, timers } = authenticating(() => new Promise(() => {}));
    const answer = guard.authenticate(request());
    late();
    await assert.rejects(answer, { code: "unavailable" });
    assert.equal((await answering("ann").guard.authenticate(request())).identity, "ann");
    assert.equal(timers.size, 0, "nothing waits any more");
  });

  it("ignores a failure after the timeout", async () => {
    const { promise, reject } = Promise.withResolvers<string>();
    const { guard, late } = authenticating(() => promise);
    const answer = guard.authenticate(request());
    late();
    await assert.rejects(answer, { code: "unavailable" });
    reject(new Error("at last"));
    await promise.catch(() => {});
  });

  it("uses an Auth object of the SDK, including handlers that are added later", async () => {
    const auth = new SdkAuth().authenticate(async (copy: Request) => ({
      identity: copy.headers.get("authorization") ?? "",
      permissions: ["p"],
    }));
    const { guard } = guarded(auth);
    auth.on("threads:create", () => false);
    const user = await guard.authenticate(request({ headers: { authorization: "ann" } }));
    assert.deepEqual([user.identity, user.permissions], ["ann", ["p"]]);
    await assert.rejects(guard.authorize(user, "threads:create", {}), { code: "forbidden" });
  });
});

describe("handlers", () => {
  const runHandlers = async (names: readonly string[], event: AuthEvent): Promise<string[]> => {
    const calls: string[] = [];
    const { guard } = handling(Object.fromEntries(names.map((name) => [name, () => void calls.push(name)])));
    await guard.authorize(ann, event, {});
    return calls;
  };

  it("are selected by the most specific name, and only one is called", async () => {
    const all = ["*", "*:create", "threads", "threads:create"];
    for (let handlerCount = all.length; handlerCount > 0; handlerCount--) {
      assert.deepEqual(await runHandlers(all.slice(0, handlerCount), "threads:create"), [all[handlerCount - 1]]);
    }
    assert.deepEqual(await runHandlers(["threads:read", "assistants", "*:read"], "threads:create"), []);
    assert.deepEqual(await runHandlers(["*"], "store:list_namespaces"), ["*"]);
    assert.deepEqual(await runHandlers(["*:create_run", "threads"], "threads:create_run"), ["threads"]);
  });

  it("receive event, resource, action, value, permissions and user", async () => {
    const contexts: AuthContext[] = [];
    const { guard } = handling({ "*": (context) => void contexts.push(context) });
    await guard.authorize(ann, "store:list_namespaces", { prefix: ["a"] });
    assert.deepEqual(contexts, [
      {
        event: "store:list_namespaces",
        resource: "store",
        action: "list_namespaces",
        value: { prefix: ["a"] },
        permissions: ["p"],
        user: ann,
      },
    ]);
  });

  it("change a copy of the value and not the parsed request", async () => {
    const input = { metadata: { tags: ["a"] }, thread_id: "t" };
    const { guard } = handling({
      threads({ value }) {
        (value.metadata as JsonObject).owner = "ann";
        ((value.metadata as JsonObject).tags as string[]).push("b");
      },
    });
    const { value } = await guard.authorize(ann, "threads:update", input);
    assert.deepEqual(value, { metadata: { tags: ["a", "b"], owner: "ann" }, thread_id: "t" });
    assert.deepEqual(input, { metadata: { tags: ["a"] }, thread_id: "t" });
  });

  it("receive metadata in each value of a create event", async () => {
    const metadataEvents: [string, boolean][] = [];
    const { guard } = handling({ "*": ({ event, value }) => void metadataEvents.push([event, "metadata" in value]) });
    const events: readonly AuthEvent[] = ["threads:create", "threads:create_run", "assistants:create", "crons:create"];
    for (const event of [...events, "threads:read" as const]) await guard.authorize(ann, event, {});
    assert.deepEqual(metadataEvents, [...events.map((event) => [event, true]), ["threads:read", false]]);
  });

  it("are optional", async () => {
    const value = {};
    const { guard } = handling({ assistants: () => false });
    const answer = await guard.authorize(ann, "threads:create", value);
    assert.equal(answer.value, value);
    assert.equal(answer.visibility, NO_FILTER);
  });

  for (const answer of [undefined, null, true, {}]) {
    it(`allow by returning ${JSON.stringify(answer)}`, async () => {
      const { guard } = handling({ threads: async () => answer });
      assert.equal((await guard.authorize(ann, "threads:read", {})).visibility, NO_FILTER);
    });
  }

  it("forbid by returning false", async () => {
    await assert.rejects(handling({ threads: () => false }).guard.authorize(ann, "threads:read", {}), {
      code: "forbidden",
    });
  });

  const broken: readonly unknown[] = [
    ...["yes", "", 0, 1, [], [{ owner: "ann" }], new Map([["owner", "ann"]]), new Date(0), () => true],
    ...[{ owner: undefined }, { owner: {} }, { owner: ["ann"] }, { owner: { $ne: "bob" } }, { owner: Number.NaN }],
    ...[{ owner: { $eq: ["ann"] } }, { owner: { $eq: "ann", $gt: 1 } }, { team: { $contains: [["a"]] } }],
    ...[{ team: { $contains: { a: 1 } } }, { team: { $contains: undefined } }, { $or: [{ owner: "ann" }] }],
  ];
  for (const [i, answer] of broken.entries()) {
    it(`fail when they return a value that is no filter (${i})`, async () => {
      const { guard, log } = handling({ threads: () => answer });
      await assert.rejects(guard.authorize(ann, "threads:read", {}), { code: "internal" });
      assert.deepEqual(
        log.map(({ handler }) => handler),
        ["threads"],
      );
    });
  }

  it("fail, refuse and time out as authentication does", async () => {
    const fails = (thrown: unknown) =>
      handling({
        threads() {
          throw thrown;
        },
      }).guard.authorize(ann, "threads:read", {});
    await assert.rejects(fails({ status: 402, message: "Pay first" }), { status: 402, message: "Pay first" });
    await assert.rejects(fails(new Error("s3cret")), { code: "internal", message: "Internal server error" });
    const { guard, late } = handling({ threads: () => new Promise(() => {}) });
    const answer = guard.authorize(ann, "threads:read", {});
    late();
    await assert.rejects(answer, { code: "unavailable" });
  });

  const invalidChanges: readonly ((value: AuthContext["value"]) => void)[] = [
    (value) => Object.assign(value, { metadata: "ann" }),
    (value) => Object.assign(value, { metadata: [] }),
    (value) => Object.assign(value, { metadata: { since: new Date(0) } }),
    (value) => Object.assign(value, { metadata: { count: 1n } }),
    (value) => Object.assign(value, { metadata: { ask: () => {} } }),
    (value) => Object.assign(value, { metadata: { number: Number.POSITIVE_INFINITY } }),
    (value) => Object.assign(value, { metadata: { value } }),
  ];
  for (const [i, change] of invalidChanges.entries()) {
    it(`fail when they change the value to one that cannot be stored (${i})`, async () => {
      const { guard, log } = handling({ threads: ({ value }) => change(value) });
      await assert.rejects(guard.authorize(ann, "threads:create", {}), { code: "internal" });
      assert.equal(log.length, 1);
    });
  }

  it("can return a filter, whose equalities are merged into created metadata if the host enables it", async () => {
    const returnedFilter = { owner: "ann", kind: { $eq: 7 }, team: { $contains: "a" } };
    const filter = [
      { key: "owner", equals: "ann" },
      { key: "kind", equals: 7 },
      { key: "team", contains: ["a"] },
    ];
    const merging = handling({ "*": () => returnedFilter }, true).guard;
    const input = { metadata: { owner: "bob", note: "n" } };
    for (const event of ["threads:create", "threads:create_run", "assistants:create", "crons:create"] as const) {
      const { value, visibility } = await merging.authorize(ann, event, input);
      assert.deepEqual([value.metadata, visibility], [{ owner: "ann", note: "n", kind: 7 }, { filter }]);
    }
    assert.deepEqual((await merging.authorize(ann, "threads:update", input)).value, input);
    const plain = handling({ "*": () => returnedFilter }).guard;
    assert.deepEqual(await plain.authorize(ann, "threads:create", input), { value: input, visibility: { filter } });
  });
});

describe("a filter", () => {
  const matches = (filter: unknown, metadata: JsonObject): boolean => {
    const read = readFilter(filter);
    assert.ok(read, JSON.stringify(filter));
    return matchesFilter(read, metadata);
  };

  it("with an equality requires a member of the same value and type", () => {
    assert.ok(matches({ owner: "ann" }, { owner: "ann", more: 1 }));
    assert.ok(matches({ owner: { $eq: "ann" } }, { owner: "ann" }));
    assert.ok(matches({ n: 1, t: true, z: null }, { n: 1, t: true, z: null }));
    for (const owner of ["Ann", ["ann"], { $eq: "ann" }, null]) assert.ok(!matches({ owner: "ann" }, { owner }));
    assert.ok(!matches({ n: 1 }, { n: "1" }) && !matches({ t: true }, { t: 1 }) && !matches({ z: null }, {}));
    assert.ok(!matches({ constructor: null }, {}) && !matches({ toString: null }, {}));
  });

  it("with `$contains` requires all listed items of a list", () => {
    assert.ok(matches({ team: { $contains: "a" } }, { team: ["b", "a"] }));
    assert.ok(matches({ team: { $contains: ["a", "b"] } }, { team: ["b", "a", "c"] }));
    assert.ok(!matches({ team: { $contains: ["a", "b"] } }, { team: ["a"] }));
    for (const team of ["a", "abc", { a: 1 }, [["a"]]]) assert.ok(!matches({ team: { $contains: "a" } }, { team }));
    assert.ok(matches({ team: { $contains: [] } }, { team: [] }) && !matches({ team: { $contains: [] } }, {}));
  });

  it("requires all of its members and operators", () => {
    assert.ok(!matches({ owner: "ann", team: { $contains: "a" } }, { owner: "ann", team: [] }));
    assert.ok(!matches({ team: { $contains: "a", $eq: "a" } }, { team: ["a"] }));
  });
});

describe("findAuthProblems", () => {
  const authenticate = () => "ann";
  it("names each problem of auth.custom", () => {
    assert.deepEqual(findAuthProblems({ authenticate }), []);
    assert.deepEqual(findAuthProblems(new SdkAuth().authenticate(async () => "ann")), []);
    const names = ["*", "threads", "crons:update", "*:search", "*:list_namespaces", "store:put"];
    assert.deepEqual(
      findAuthProblems({ authenticate, on: Object.fromEntries(names.map((name) => [name, () => {}])) }),
      [],
    );
    for (const custom of [null, 7, () => "ann", {}, { authenticate: "ann" }, new SdkAuth()]) {
      assert.match(findAuthProblems(custom).join(), /^auth\.custom: must have a function authenticate/);
    }
    assert.match(findAuthProblems({ authenticate, on: [] }).join(), /^auth\.custom\.on: must be an object/);
    assert.match(
      findAuthProblems({ authenticate, on: { threads: true } }).join(),
      /^auth\.custom\.on\.threads: must be a f/,
    );
    for (const name of ["thread:create", "threads:put", "threads:create:x", "create", "*:*", "", "toString"]) {
      assert.match(findAuthProblems({ authenticate, on: { [name]: () => {} } }).join(), /there is no such event/, name);
    }
    assert.match(
      findAuthProblems({ authenticate, on: { "threads:craete": () => true } }).join(),
      /^auth\.custom\.on\.threads:craete: there is no such event .*; did you mean threads:create\?$/,
    );
  });

  it("types the user of handlers by the return type of authenticate in defineAuth", async () => {
    const auth = defineAuth({
      authenticate: async () => ({ identity: "ann", team: "blue" }),
      on: { threads: ({ user }) => ({ team: { $contains: user.team } }) },
    });
    const { guard } = guarded(auth);
    const user = await guard.authenticate(request());
    const { visibility } = await guard.authorize(user, "threads:read", { thread_id: null });
    assert.deepEqual(visibility, { filter: [{ key: "team", contains: ["blue"] }] });
  });
});
