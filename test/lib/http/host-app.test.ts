/** The middleware of a host's Hono application, around the routes of the API. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Hono, type MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";
import { HTTPException } from "hono/http-exception";
import { type App, createHandler, type HandlerOptions } from "../../../lib/http/handler.ts";
import type { HttpOptions } from "../../../lib/mod.ts";
import { type TestService, type TestServiceOptions, testService } from "../../suite/kit.ts";

const agents = {
  async *agent({ input }: { input: unknown }) {
    yield { messages: [], said: input as string };
  },
};

interface World extends AsyncDisposable {
  readonly kit: TestService;
  send(method: string, path: string, body?: unknown, headers?: HeadersInit): Promise<Response>;
}

async function world(app: App, options: Partial<TestServiceOptions> & HandlerOptions = {}): Promise<World> {
  const { prefix, hosts, acts_for, ...serviceOptions } = options;
  const kit = await testService({ agents, ...serviceOptions });
  const handlerOptions = {
    ...(prefix ? { prefix } : {}),
    ...(hosts ? { hosts } : {}),
    ...(acts_for ? { acts_for } : {}),
  };
  const handler = createHandler(kit.service, { app, ...handlerOptions });
  return {
    kit,
    send: (method, path, body, headers = {}) =>
      handler(
        new Request(`http://greenroom${path}`, {
          method,
          headers,
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        }),
      ),
    [Symbol.asyncDispose]: () => kit[Symbol.asyncDispose](),
  };
}

const marks =
  (name: string): MiddlewareHandler =>
  async (c, next) => {
    await next();
    c.header("x-mark", name, { append: true });
  };

describe("the middleware of a Hono application", () => {
  it("runs around API routes that match its path, and around the application's own routes", async () => {
    const sub = new Hono().use("*", marks("sub")).get("/inside", (c) => c.text("inside"));
    const app = new Hono()
      .use("*", marks("all"))
      .use("/threads/*", marks("threads"))
      .get("/hello", marks("hello"), (c) => c.text("Hello"))
      .get("/info", (c) => c.text("shadowed"))
      .all("/assistants/*", (c) => c.text("shadowed"))
      .route("/threads", sub);
    await using it = await world(app);
    const marked = async (method: string, path: string, body?: unknown): Promise<[number, string | null]> => {
      const response = await it.send(method, path, body);
      await response.text();
      assert.ok(response.headers.get("x-request-id"));
      assert.equal(response.headers.get("access-control-allow-origin"), "*");
      return [response.status, response.headers.get("x-mark")];
    };
    assert.deepEqual(await marked("GET", "/info"), [200, "all"]);
    assert.deepEqual(await marked("HEAD", "/info"), [200, "all"]);
    assert.deepEqual(await marked("POST", "/threads", {}), [200, "sub, threads, all"]);
    assert.deepEqual(await marked("PUT", "/threads", {}), [405, "sub, threads, all"]);
    assert.deepEqual(await marked("POST", "/assistants/search", {}), [200, "all"]);
    assert.deepEqual(await marked("GET", "/api/v1/info"), [200, "all"]);
    assert.deepEqual(await marked("GET", "/hello"), [200, "hello, all"]);
    assert.deepEqual(await marked("GET", "/nowhere"), [404, "all"]);
    assert.equal(((await (await it.send("GET", "/info")).json()) as { version: unknown }).version !== undefined, true);
  });

  it("may set headers before the response exists, in each way that Hono has", async () => {
    const app = new Hono().use("*", async (c, next) => {
      c.header("x-before", "1");
      c.header("content-type", "text/odd");
      c.header("set-cookie", "a=1", { append: true });
      c.header("set-cookie", "b=2", { append: true });
      await next();
    });
    app.use("/ok", async (c, next) => {
      c.res.headers.set("x-res", "2");
      await next();
    });
    await using it = await world(app);
    for (const [method, path, status, res] of [
      ["GET", "/ok", 200, "2"],
      ["HEAD", "/ok", 200, "2"],
      ["GET", "/info", 200, null],
      ["GET", "/store/items", 400, null],
    ] as const) {
      const response = await it.send(method, path);
      assert.equal(response.status, status);
      const { headers } = response;
      assert.deepEqual(
        ["x-before", "content-type", "x-res"].map((name) => headers.get(name)),
        ["1", "application/json", res],
      );
      assert.deepEqual(headers.getSetCookie(), ["a=1", "b=2"]);
    }
    assert.equal((await it.send("PUT", "/store/items", { namespace: ["a"], key: "b", value: {} })).status, 204);
  });

  it("may respond itself or throw, which the application's error handler turns into a response", async () => {
    const app = new Hono()
      .use("/threads", async (c) => {
        // A middleware without `next` is a route, and the API has this path.
        return c.text("never");
      })
      .use("/store/*", async (c, _next) => c.json({ stop: true }, 418))
      .use("/runs/*", async (_c, _next) => {
        throw new HTTPException(402, { message: "Pay first" });
      })
      .use("/crons/*", async (_c, _next) => {
        throw new Error("it failed");
      });
    app.onError((error, c) => c.text(`handled: ${error.message}`, 502));
    await using it = await world(app);
    const readResponse = async (method: string, path: string, body?: unknown): Promise<[number, string]> => {
      const response = await it.send(method, path, body);
      return [response.status, await response.text()];
    };
    assert.equal((await readResponse("POST", "/threads", {}))[0], 200);
    assert.deepEqual(
      it.kit.log.filter(({ level }) => level === "warn").map(({ path }) => path),
      ["/threads"],
    );
    assert.deepEqual(await readResponse("PUT", "/store/items", {}), [418, '{"stop":true}']);
    assert.deepEqual(await readResponse("POST", "/runs/wait", {}), [502, "handled: Pay first"]);
  });

  it("may read the body before the API does, in each way that Hono has", async () => {
    const app = new Hono();
    app.use("*", bodyLimit({ maxSize: 100, onError: (c) => c.text("Too much", 413) }));
    let read: unknown;
    app.use("*", async (c, next) => {
      const how = c.req.header("x-read");
      if (how === "json") read = await c.req.json();
      if (how === "text") read = await c.req.text();
      if (how === "bytes") read = (await c.req.arrayBuffer()).byteLength;
      await next();
    });
    await using it = await world(app);
    for (const [how, expectedBody] of [
      ["json", { metadata: { a: 1 } }],
      ["text", '{"metadata":{"a":1}}'],
      ["bytes", 20],
      ["not", undefined],
    ] as const) {
      read = undefined;
      const response = await it.send("POST", "/threads", { metadata: { a: 1 } }, { "x-read": how });
      assert.equal(response.status, 200, how);
      assert.deepEqual(((await response.json()) as { metadata: unknown }).metadata, { a: 1 });
      assert.deepEqual(read, expectedBody);
    }
    assert.equal((await it.send("POST", "/threads", { metadata: { a: "x".repeat(200) } })).status, 413);
  });

  it("passes streams on as they arrive, and reports a disconnected reader", async () => {
    const go = Promise.withResolvers<void>();
    const disconnected = Promise.withResolvers<void>();
    const app = new Hono().use("*", marks("all"));
    await using it = await world(app, {
      agents: {
        async *agent({ signal }: { signal: AbortSignal }) {
          yield { messages: [], said: "first" };
          signal.addEventListener("abort", () => disconnected.resolve());
          await go.promise;
          yield { messages: [], said: "second" };
        },
      },
    });
    const body = { assistant_id: "agent", input: {}, on_disconnect: "cancel" };
    const response = await it.send("POST", "/runs/stream", body);
    assert.equal(response.headers.get("x-mark"), "all");
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    const decoder = new TextDecoder();
    let text = "";
    while (!text.includes("first")) text += decoder.decode((await reader.read()).value);
    assert.ok(!text.includes("second"));
    await reader.cancel();
    await disconnected.promise;
    go.resolve();
  });

  it("runs before or after authentication, as http.middleware_order says", async () => {
    const appPaths: string[] = [];
    const app = new Hono().use("*", async (c, next) => {
      appPaths.push(c.req.path);
      await next();
    });
    const custom = { authenticate: () => Promise.reject(Object.assign(new Error("Who are you?"), { status: 401 })) };
    for (const [middleware_order, before] of [
      [undefined, true],
      ["middleware_first", true],
      ["auth_first", false],
    ] as const) {
      const http: HttpOptions = middleware_order ? { middleware_order } : {};
      await using it = await world(app, { auth: { custom }, http });
      for (const path of ["/threads", "/api/v1/feedback/tokens"]) {
        appPaths.length = 0;
        assert.equal((await it.send("POST", path, {})).status, 401);
        assert.deepEqual(appPaths, before ? [path] : [], `${middleware_order} ${path}`);
      }
      appPaths.length = 0;
      assert.equal((await it.send("GET", "/info")).status, 200);
      assert.deepEqual(appPaths, ["/info"]);
    }
    const authenticatedPaths: string[] = [];
    const once = {
      authenticate(request: Request) {
        authenticatedPaths.push(new URL(request.url).pathname);
        return "ann";
      },
    };
    await using it = await world(app, { auth: { custom: once }, http: { middleware_order: "auth_first" } });
    assert.equal((await it.send("POST", "/threads", {})).status, 200);
    assert.equal((await it.send("GET", "/api/v1/workspaces")).status, 200);
    assert.deepEqual(authenticatedPaths, ["/threads", "/api/v1/workspaces"]);
  });

  it("runs after the check of the host name, and under a prefix", async () => {
    const log: string[] = [];
    const app = new Hono().use("/agents/*", async (c, next) => {
      log.push(c.req.path);
      await next();
    });
    await using it = await world(app, { prefix: "/agents", hosts: ["greenroom"] });
    assert.equal((await it.send("GET", "/agents/info")).status, 200);
    assert.equal((await it.send("GET", "/info")).status, 404);
    assert.equal((await it.send("GET", "/agents/info", undefined, { host: "evil.example" })).status, 421);
    assert.deepEqual(log, ["/agents/info"]);
  });

  it("is not used for applications of other frameworks", async () => {
    const log: string[] = [];
    const otherApp = {
      routes: [{ method: "ALL", path: "*", handler: (_a: unknown, _b: unknown) => log.push("route") }],
      router: { add() {} },
      use() {},
      fetch: () => undefined,
    };
    await using it = await world(otherApp as unknown as App);
    assert.equal((await it.send("GET", "/info")).status, 200);
    assert.equal((await it.send("GET", "/x")).status, 404);
    assert.deepEqual(log, []);
  });
});

describe("acts_for", () => {
  it("names the user for whom the host calls, without authentication and with authorization", async () => {
    const user = { identity: "ann", permissions: [], display_name: "ann", is_authenticated: true };
    const custom = {
      authenticate: () => Promise.reject(Object.assign(new Error("Who are you?"), { status: 401 })),
      on: {
        "threads:create": ({ value, user }: { value: { metadata?: object }; user: { identity: string } }) => {
          value.metadata = { owner: user.identity };
        },
        "threads:search": () => false,
      },
    };
    const acts_for = ({ headers }: Request) => (headers.has("x-mine") ? user : null);
    await using it = await world(() => undefined, { auth: { custom: custom as never }, acts_for });
    assert.equal((await it.send("POST", "/threads", {})).status, 401);
    const response = await it.send("POST", "/threads", {}, { "x-mine": "1" });
    assert.deepEqual(((await response.json()) as { metadata: unknown }).metadata, { owner: "ann" });
    assert.equal((await it.send("POST", "/threads/search", {}, { "x-mine": "1" })).status, 403);
    assert.deepEqual(await (await it.send("GET", "/api/v1/workspaces", undefined, { "x-mine": "1" })).json(), []);
  });

  it("opens nothing in the mode api_key", async () => {
    const user = { identity: "ann", permissions: ["runs:read"], display_name: "ann", is_authenticated: true };
    await using it = await world(() => undefined, { auth: { mode: "api_key" }, acts_for: () => user });
    assert.equal((await it.send("POST", "/threads", {})).status, 401);
    assert.equal((await it.send("GET", "/api/v1/workspaces")).status, 401);
  });
});
