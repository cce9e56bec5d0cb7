/** Options of a host extend the handler and disable parts of it. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { anonymousPrincipal, type Principal } from "../../../lib/auth/principal.ts";
import { ServiceError } from "../../../lib/errors.ts";
import { type App, createHandler, type HandlerOptions } from "../../../lib/http/handler.ts";
import { createHeaderCopier } from "../../../lib/http/request.ts";
import { loadAllRoutes } from "../../../lib/http/routes/mod.ts";
import { GROUP_OPTIONS, httpSchema } from "../../../lib/options/http.ts";
import { findProblems } from "../../../lib/validation.ts";
import { testAccounts, testService } from "../../suite/kit.ts";
import { type Fake, type FakeOptions, fake, THREAD } from "./fake-service.ts";

const ROUTES = await loadAllRoutes();

const detail = async (response: Response): Promise<unknown> => [response.status, (await response.json()).detail];
const NOTHING = [404, "There is nothing at this path"];

describe("http.disable_…", () => {
  const paths: readonly (readonly [method: string, path: string, group: string])[] = [
    ["POST", "/assistants/search", "assistants"],
    ["GET", "/assistants/x", "assistants"],
    ["POST", "/threads", "threads"],
    ["GET", `/threads/${THREAD}`, "threads"],
    ["PUT", `/threads/${THREAD}/stream`, "threads"],
    ["POST", `/threads/${THREAD}/commands`, "threads"],
    ["POST", "/runs", "runs"],
    ["PUT", "/runs/wait", "runs"],
    ["POST", `/threads/${THREAD}/runs`, "runs"],
    ["PUT", `/threads/${THREAD}/runs/x/join`, "runs"],
    ["POST", "/runs/crons", "crons"],
    ["POST", "/runs/crons/search", "crons"],
    ["DELETE", "/runs/crons/x", "crons"],
    ["POST", `/threads/${THREAD}/runs/crons`, "crons"],
    ["PUT", "/store/items", "store"],
    ["POST", "/store/namespaces", "store"],
    ["GET", "/info", "meta"],
    ["GET", "/metrics", "meta"],
    ["GET", "/docs", "meta"],
    ["GET", "/openapi.json", "meta"],
    ["POST", "/ui/x", "ui"],
    ["GET", "/mcp", "mcp"],
    ["POST", "/mcp/", "mcp"],
    ["GET", "/a2a/x", "a2a"],
    ["GET", "/ok", "none"],
    ["GET", "/ready", "none"],
    ["GET", "/api/v1/info", "none"],
  ];

  for (const option of GROUP_OPTIONS) {
    it(`${option} disables its routes and no others`, async () => {
      const group = option.replace("disable_", "");
      const { send, calls } = fake({ http: { [option]: true } });
      const absent: string[] = [];
      for (const [method, path] of paths) {
        const response = await send(method, path, method === "POST" || method === "PUT" ? {} : undefined);
        const { detail } = (await response.json().catch(() => ({}))) as { detail?: unknown };
        if (detail === NOTHING[1]) absent.push(path);
        assert.equal(response.status === 404, detail === NOTHING[1], path);
      }
      assert.deepEqual(
        absent,
        paths.filter(([, , of]) => of === group).map(([, path]) => path),
      );
      assert.ok(!calls.some(([name]) => String(name).startsWith(`${group}.`)));
    });
  }

  it("answers 404 as for an unknown path: no 405, no 501 and no finding about the body", async () => {
    const { send } = fake({ http: { disable_threads: true, disable_mcp: true } });
    const never = await send("PUT", "/nowhere", "{");
    const hidden = await send("PUT", "/threads", "{");
    const headers = ({ headers }: Response): unknown => [...headers].filter(([name]) => name !== "x-request-id");
    assert.deepEqual(headers(hidden), headers(never));
    assert.deepEqual(await detail(hidden), await detail(never));
    assert.deepEqual(await detail(await send("POST", "/mcp/")), NOTHING);
  });

  it("works under a prefix, and for paths with other slashes", async () => {
    const { send, calls } = fake({ prefix: "/agents", http: { disable_threads: true } });
    assert.deepEqual(await detail(await send("POST", "/agents/threads", {})), NOTHING);
    assert.deepEqual(await detail(await send("POST", "/agents/threads/", {})), NOTHING);
    assert.equal((await send("POST", "/agents/runs", { assistant_id: "g" })).status, 200);
    assert.equal(calls.length, 1);
  });

  it("covers every route of the OpenAPI document by its group", async () => {
    const { paths: all } = JSON.parse(
      readFileSync(new URL("../../../lib/http/openapi.json", import.meta.url), "utf8"),
    ) as {
      paths: Record<string, unknown>;
    };
    const { send } = fake({ http: { disable_crons: true, disable_store: true } });
    const { paths: visiblePaths } = (await (await send("GET", "/openapi.json")).json()) as { paths: object };
    const excludedPaths = Object.keys(all).filter((path) => !(path in visiblePaths));
    // Without `http.mcp.protected_resource` there is no such metadata.
    assert.ok(excludedPaths.every((path) => /^\/store\/|\/runs\/crons|^\/\.well-known\//.test(path)));
    assert.ok(!Object.keys(visiblePaths).some((path) => /^\/store\/|\/runs\/crons/.test(path)));
    // The rest of the platform API and the health of the process belong to no group.
    for (const { path, group } of ROUTES) {
      const free = path.startsWith("/api/v1/") || path === "/ok" || path === "/ready";
      assert.equal(group === undefined, free, path);
    }
  });

  it("is visible in /info", async () => {
    const { send } = fake({ http: { disable_assistants: true } });
    assert.deepEqual((await (await send("GET", "/info")).json()).flags, { assistants: false });
  });

  it("does not affect calls in process", async () => {
    const all = Object.fromEntries(GROUP_OPTIONS.map((name) => [name, true]));
    await using kit = await testService({ agents: { hello: () => "Hello" }, http: all });
    const { thread_id } = await kit.service.threads.create();
    const { result } = await kit.service.runs.wait(thread_id, { assistant_id: "hello", input: {} });
    assert.equal(((await result) as { messages: { content: string }[] }).messages.at(-1)?.content, "Hello");
    assert.equal((await kit.fetch("http://x/threads", { method: "POST", body: "{}" })).status, 404);
    assert.equal((await kit.fetch("http://x/ok")).status, 200);
  });
});

describe("custom routes", () => {
  const app: App = async (request) => {
    const { pathname } = new URL(request.url);
    if (pathname.endsWith("/nothing")) return undefined;
    if (pathname.endsWith("/fails")) throw new Error("password of the database");
    if (pathname.endsWith("/moved")) return Response.redirect("https://elsewhere.example/", 302);
    if (pathname.endsWith("/wrong")) return "text" as unknown as Response;
    return new Response(`${request.method} ${pathname} ${await request.text()}`, { headers: { "x-own": "1" } });
  };
  const text = async (options: FakeOptions, method: string, path: string, body?: string): Promise<[number, string]> => {
    const response = await fake({ app, ...options }).send(method, path, body);
    return [response.status, await response.text()];
  };

  it("are called for unknown paths of every method", async () => {
    assert.deepEqual(await text({}, "GET", "/hello"), [200, "GET /hello "]);
    assert.deepEqual(await text({}, "POST", "/hello", "body"), [200, "POST /hello body"]);
    assert.deepEqual(await text({}, "PROPFIND", "/hello"), [200, "PROPFIND /hello "]);
    assert.deepEqual(await text({}, "OPTIONS", "/hello"), [200, "OPTIONS /hello "]);
    assert.deepEqual(await text({}, "GET", "/"), [200, "GET / "]);
  });

  it("are not called for routes of the API or for their refusals", async () => {
    const appPaths: string[] = [];
    const watching: App = (request) => {
      appPaths.push(request.url);
      return new Response("app");
    };
    const { send } = fake({ app: watching, studio: () => new Response("page") });
    for (const [method, path, status] of [
      ["GET", "/ok", 200],
      ["GET", "/studio/", 200],
      ["PUT", "/threads", 405],
      ["GET", "/threads/x", 422],
      ["GET", "/docs", 501],
      ["OPTIONS", "/threads", 204],
      ["GET", `/api/v1/feedback/tokens/${THREAD}`, 422],
    ] as const) {
      const response = await send(method, path);
      assert.notEqual(await response.text(), "app", path);
      assert.equal(response.status, status, path);
    }
    assert.deepEqual(appPaths, []);
  });

  it("can replace a disabled group", async () => {
    assert.deepEqual(await text({ http: { disable_meta: true } }, "GET", "/info"), [200, "GET /info "]);
  });

  it("can be an object with fetch", async () => {
    class Framework {
      readonly name = "framework";
      fetch(_request: Request): Response {
        return new Response(this.name);
      }
    }
    assert.deepEqual(await text({ app: new Framework() }, "GET", "/hello"), [200, "framework"]);
  });

  it("answer 404 for unknown paths, and 500 without details when they fail", async () => {
    const { send, log } = fake({ app });
    assert.deepEqual(await detail(await send("GET", "/nothing")), NOTHING);
    const response = await send("GET", "/fails");
    assert.deepEqual(await detail(response), [500, "Internal server error"]);
    assert.deepEqual(await detail(await send("GET", "/wrong")), [500, "Internal server error"]);
    assert.equal(log.length, 2);
    assert.equal(log[0]?.request_id, response.headers.get("x-request-id"));
  });

  it("get a request id and CORS headers, also on responses with immutable headers", async () => {
    const { send } = fake({ app });
    const response = await send("GET", "/moved", undefined, { origin: "https://a.example", "x-request-id": "mine" });
    assert.deepEqual(
      ["location", "x-request-id", "access-control-allow-origin"].map((name) => response.headers.get(name)),
      ["https://elsewhere.example/", "mine", "*"],
    );
    assert.equal((await send("HEAD", "/hello")).headers.get("x-own"), "1");
    assert.equal(await (await send("HEAD", "/hello")).text(), "");
  });

  it("get preflight responses from the handler", async () => {
    const response = await fake({ app }).send("OPTIONS", "/hello", undefined, {
      origin: "https://a.example",
      "access-control-request-method": "POST",
    });
    assert.deepEqual([response.status, response.headers.get("access-control-allow-origin")], [204, "*"]);
  });

  it("stand below the prefix of the mount, and receive the whole path", async () => {
    const options = { prefix: "/agents" };
    assert.deepEqual(await text(options, "GET", "/agents/hello"), [200, "GET /agents/hello "]);
    assert.deepEqual(await text(options, "GET", "/agents"), [200, "GET /agents "]);
    assert.equal((await text(options, "GET", "/hello"))[0], 404);
    assert.equal((await text(options, "GET", "/agentsmith"))[0], 404);
    assert.equal((await text(options, "GET", "/agents/ok"))[0], 200);
  });

  it("are protected from other hosts and origins as the handler is", async () => {
    const { send } = fake({ app, hosts: ["localhost"] });
    assert.equal((await send("GET", "/hello", undefined, { host: "evil.example" })).status, 421);
    const foreign = { host: "localhost", origin: "https://evil.example" };
    assert.equal((await send("POST", "/hello", "{}", foreign)).status, 403);
  });

  it("require no key without http.enable_custom_route_auth", async () => {
    for (const [enable_custom_route_auth, path, status] of [
      [undefined, "/hello", 200],
      [false, "/hello", 200],
      [true, "/hello", 401],
      [true, "/", 401],
      [true, "/api/v1/mine", 401],
      [true, "/ok", 200],
    ] as const) {
      const kit = await testService({
        agents: { hello: () => "Hello" },
        auth: { mode: "api_key" },
        http: enable_custom_route_auth === undefined ? {} : { enable_custom_route_auth },
      });
      const handler = createHandler(kit.service, { app });
      assert.equal((await handler(new Request(`http://x${path}`))).status, status, path);
      await kit[Symbol.asyncDispose]();
    }
  });
});

describe("http.configurable_headers", () => {
  const requestHeaders = new Headers({
    "User-Agent": "test/1",
    "X-Locale": "de",
    "X-Tracing-Id": "7",
    "Accept-Language": "de-CH",
    "X-Session-Token": "s",
    "X-Organization-Id": "o",
    "X-Auth-Scheme": "service-api-key",
    Authorization: "Bearer s",
    "Proxy-Authorization": "Bearer s",
    Cookie: "a=s",
    "X-Api-Key": "s",
    "X-Tenant-Id": "t",
    "X-Service-Key": "s",
    "X-Webhook-Depth": "1",
  });
  const copied = (choice?: Parameters<typeof createHeaderCopier>[0]): string[] =>
    Object.keys(createHeaderCopier(choice)(requestHeaders)).sort();
  const usual = ["user-agent", "x-auth-scheme", "x-locale", "x-tracing-id"];

  it("copies x-* and user-agent by default", () => {
    assert.deepEqual(copied(), usual);
    assert.deepEqual(createHeaderCopier()(new Headers({ "X-Locale": "de" })), { "x-locale": "de" });
  });

  it("copies only included headers, in any case, with * as a wildcard", () => {
    assert.deepEqual(copied({ includes: ["Accept-Language"] }), ["accept-language"]);
    assert.deepEqual(copied({ includes: ["X-*-ID", "user*"] }), ["user-agent", "x-tracing-id"]);
    assert.deepEqual(copied({ includes: ["x-lo*le"] }), ["x-locale"]);
    assert.deepEqual(copied({ includes: [] }), []);
    assert.deepEqual(copied({ includes: ["*"] }), ["accept-language", ...usual]);
  });

  it("applies exclusions before inclusions", () => {
    assert.deepEqual(copied({ excludes: ["X-LOCALE", "user-*"] }), ["x-auth-scheme", "x-tracing-id"]);
    assert.deepEqual(copied({ excludes: ["*"] }), []);
    assert.deepEqual(copied({ includes: ["x-locale"], excludes: ["x-locale"] }), []);
  });

  it("copies headers that look like credentials only by their full names, and credentials never", () => {
    assert.deepEqual(copied({ includes: ["X-Session-Token", "x-organization-id"] }), [
      "x-organization-id",
      "x-session-token",
    ]);
    assert.deepEqual(copied({ includes: ["x-session*"] }), []);
    const never = "authorization proxy-authorization cookie x-api-key x-tenant-id x-service-key x-webhook-depth";
    assert.deepEqual(copied({ includes: never.split(" ") }), []);
  });

  it("matches every pattern in a short time", () => {
    const choice = { includes: [`${"*a".repeat(5_000)}b`] };
    assert.deepEqual(createHeaderCopier(choice)(new Headers({ [`x${"a".repeat(5_000)}`]: "1" })), {});
  });

  it("copies headers to runs over HTTP, and no response contains a credential", async () => {
    let config: unknown;
    await using kit = await testService({
      agents: {
        hello: (job) => {
          config = job.config.configurable;
          return "Hello";
        },
      },
      http: { configurable_headers: { includes: ["x-session-token", "accept-*"], excludes: ["accept-encoding"] } },
    });
    const { thread_id } = await kit.service.threads.create();
    const ask = async (path: string, init?: RequestInit): Promise<string> =>
      await (await kit.fetch(`http://x${path}`, init)).text();
    const headers = { "x-session-token": "canary", "accept-language": "de", "x-locale": "de" };
    const body = JSON.stringify({ assistant_id: "hello", input: {} });
    const answers = [await ask(`/threads/${thread_id}/runs/wait`, { method: "POST", headers, body })];
    const {
      run_id: _,
      thread_id: _t,
      graph_id: _g,
      assistant_id: _a,
      ...otherConfig
    } = config as Record<string, unknown>;
    assert.deepEqual(otherConfig, { "x-session-token": "canary", "accept-language": "de" });
    for (const path of ["", "/runs", "/state", "/history"]) answers.push(await ask(`/threads/${thread_id}${path}`));
    assert.ok(answers.join().includes("accept-language"));
    assert.ok(!answers.join().includes("canary"));
  });

  it("accepts lists of names", () => {
    for (const name of ["includes", "excludes"]) {
      const findMessage = (value: unknown): string =>
        findProblems(httpSchema, { configurable_headers: { [name]: value } }).join();
      assert.equal(findMessage(["x-*", "Accept"]), "");
      for (const wrong of ["x-*", [5], ["a b"], [""], { 0: "x" }]) assert.match(findMessage(wrong), /must be a list/);
    }
  });
});

describe("log records", () => {
  const failing = (options: FakeOptions & HandlerOptions = {}): Fake => {
    const fails = (): never => {
      throw new Error("disk");
    };
    return fake({ answers: { "threads.get": fails }, ...options });
  };

  it("of a request contain its id", async () => {
    const { send, log } = failing();
    const response = await send("GET", `/threads/${THREAD}`, undefined, { "x-request-id": "mine" });
    assert.equal(response.headers.get("x-request-id"), "mine");
    assert.equal(log[0]?.request_id, "mine");
  });

  it("of an aborted stream or result contain the ids of request, run and thread", async () => {
    const { send, log, runLog, result } = fake();
    runLog.fail(new Error("disk"));
    const headers = { "x-request-id": "mine" };
    const stream = await send("POST", `/threads/${THREAD}/runs/stream`, { assistant_id: "g" }, headers);
    await assert.rejects(stream.text());
    result.reject(new Error("disk"));
    await (await send("POST", `/threads/${THREAD}/runs/wait`, { assistant_id: "g" }, headers)).text();
    assert.equal(log.length, 2);
    for (const { request_id, run_id, thread_id } of log) {
      assert.deepEqual([request_id, run_id, thread_id], ["mine", "22222222-2222-4222-8222-222222222222", THREAD]);
    }
  });

  it("contain no secret of a request, whatever fails", async () => {
    const canary = "canary-0a1b2c3d";
    const storage = nodeSqlite(":memory:");
    let failing = false;
    const sometimes = new Proxy(storage, {
      get(target, name) {
        const value = Reflect.get(target, name, target) as unknown;
        if (typeof value !== "function") return value;
        return (...args: unknown[]): unknown => {
          if (failing && !["close", "becomeWorker", "claimRun"].includes(String(name))) throw new Error("disk");
          return value.apply(target, args);
        };
      },
    });
    const records: unknown[] = [];
    const { identity, keys } = testAccounts({ keys: { one: {} } });
    await using kit = await testService({
      // Error messages of agents are logged, so agents must keep secrets out of them.
      agents: { bad: () => Promise.reject(new Error("bad")), good: () => "Hello" },
      storage: sometimes,
      identity,
      auth: { mode: "api_key" },
      onRunFinished: (run) => {
        records.push(run);
        throw new Error("hook");
      },
    });
    const handler = createHandler(kit.service, { app: () => Promise.reject(new Error("app")) });
    const headers = { authorization: canary, cookie: canary, "x-session-token": canary, "x-request-id": "mine" };
    const ask = async (path: string, body?: object, extraHeaders: Record<string, string> = {}): Promise<number> => {
      const init = {
        method: body ? "POST" : "GET",
        headers: { ...headers, ...extraHeaders },
        body: JSON.stringify(body),
      };
      const response = await handler(new Request(`http://x${path}?token=${canary}`, init as RequestInit));
      await response.text().catch(() => {});
      return response.status;
    };
    const key = { "x-api-key": keys["one"] as string };
    const secrets = { config: { configurable: { api_key: canary } }, context: { password: canary } };
    assert.equal(await ask("/runs/wait", { assistant_id: "bad", input: { canary }, ...secrets }, key), 200);
    assert.equal(await ask("/runs/wait", { assistant_id: "good", input: { canary }, ...secrets }, key), 200);
    assert.equal(await ask("/threads", {}, { "x-api-key": canary }), 401);
    assert.equal(await ask("/hello", {}, key), 500);
    while (records.length < 2) await new Promise((resolve) => setTimeout(resolve, 1));
    failing = true;
    assert.equal(await ask("/runs/wait", { assistant_id: "good", input: { canary }, ...secrets }, key), 500);
    assert.equal(await ask(`/threads/${THREAD}`, undefined, key), 500);
    failing = false;
    const text = JSON.stringify(kit.log, (_name, value: unknown) =>
      value instanceof Error ? [value.message, value.stack, value.cause] : value,
    );
    for (const secret of [canary, keys["one"] as string]) assert.ok(!text.includes(secret), text);
    const of = (part: string) => kit.log.filter(({ message }) => message.includes(part));
    assert.ok(of("A request failed").length >= 3 && of("onRunFinished failed").length === 2);
    assert.ok(of("A request failed").every(({ request_id }) => request_id === "mine"));
    assert.ok(of("onRunFinished failed").every(({ run_id, thread_id }) => run_id && thread_id));
  });

  it("are not written for refusals", async () => {
    const principal: Principal = anonymousPrincipal;
    const refused = (): never => {
      throw new ServiceError("not_found", "Thread not found");
    };
    const { send, log } = fake({ principal, answers: { "threads.get": refused } });
    assert.equal((await send("GET", `/threads/${THREAD}`)).status, 404);
    assert.deepEqual(log, []);
  });
});
