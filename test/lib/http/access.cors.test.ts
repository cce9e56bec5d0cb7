import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createHandler } from "../../../lib/http/handler.ts";
import type { HttpOptions } from "../../../lib/mod.ts";
import { createOriginPattern, httpSchema } from "../../../lib/options/http.ts";
import { findProblems } from "../../../lib/validation.ts";
import { testService } from "../../suite/kit.ts";
import { type FakeOptions, fake, notFound, THREAD } from "./fake-service.ts";

type Cors = NonNullable<HttpOptions["cors"]>;

const PAGE = "https://app.example";
const EXPOSED = "Content-Location, Location, Mcp-Session-Id, X-Pagination-Total, X-Pagination-Next";

/** Returns the status and the CORS headers of a response. */
function readCorsHeaders({ status, headers }: Response): Record<string, unknown> {
  const names = [...headers.keys()].filter((name) => name.startsWith("access-control-"));
  return { status, ...Object.fromEntries(names.map((name) => [name.slice(15), headers.get(name)])) };
}

const sendWithCors = async (cors: Cors, origin = PAGE, options: FakeOptions = {}): Promise<Record<string, unknown>> =>
  readCorsHeaders(await fake({ http: { cors }, ...options }).send("GET", "/ok", undefined, { origin }));

const preflight = async (cors: Cors, headers: Record<string, string> = {}): Promise<Record<string, unknown>> =>
  readCorsHeaders(
    await fake({ http: { cors } }).send("OPTIONS", "/threads", undefined, {
      origin: PAGE,
      "access-control-request-method": "POST",
      "access-control-request-headers": "content-type,x-own",
      ...headers,
    }),
  );

describe("allow_origins and allow_origin_regex", () => {
  it("allow listed origins and those of a pattern", async () => {
    const cors = { allow_origins: ["https://one.example"], allow_origin_regex: "https://[a-z]+\\.two\\.example" };
    for (const [origin, expected] of [
      ["https://one.example", true],
      ["https://a.two.example", true],
      ["https://A.two.example", false],
      ["https://two.example", false],
      ["https://a.two.example.evil.example", false],
      ["https://evil.example/https://a.two.example", false],
      ["xhttps://a.two.example", false],
      ["null", false],
    ] as const) {
      assert.equal((await sendWithCors(cors, origin))["allow-origin"], expected ? origin : undefined, origin);
    }
  });

  it("match the whole origin, whatever the pattern contains", () => {
    assert.equal(createOriginPattern("a|b").test("ab"), false);
    assert.equal(createOriginPattern("a|b").test("b"), true);
    assert.throws(() => createOriginPattern("a)|(?:.*"), SyntaxError);
  });

  it("allow no other origin beside a pattern, and every origin without both", async () => {
    assert.equal((await sendWithCors({ allow_origin_regex: "https://x" }))["allow-origin"], undefined);
    assert.equal((await sendWithCors({}))["allow-origin"], "*");
    assert.equal((await sendWithCors({ allow_origins: [] }))["allow-origin"], undefined);
  });

  it("extend the loopback origins of a handler with hosts, and permit changes from no others", async () => {
    const options: FakeOptions = {
      hosts: ["127.0.0.1"],
      http: { cors: { allow_origin_regex: "https://.*\\.example" } },
    };
    const { send, calls } = fake(options);
    const status = async (origin: string): Promise<number> => (await send("POST", "/threads", {}, { origin })).status;
    assert.deepEqual([await status(PAGE), await status("https://evil.test")], [200, 403]);
    assert.equal(calls.length, 1);
  });
});

describe("allow_credentials", () => {
  it("returns the origin and never *", async () => {
    for (const allow_origins of [["*"], [PAGE]]) {
      assert.deepEqual(await sendWithCors({ allow_origins, allow_credentials: true }), {
        status: 200,
        "allow-origin": PAGE,
        "allow-credentials": "true",
        "expose-headers": EXPOSED,
      });
    }
    assert.deepEqual(await sendWithCors({ allow_origins: [PAGE], allow_credentials: true }, "https://b.example"), {
      status: 200,
    });
  });

  it("sets Vary so that caches separate origins", async () => {
    const { send } = fake({ http: { cors: { allow_credentials: true } } });
    assert.equal((await send("GET", "/ok", undefined, { origin: PAGE })).headers.get("vary"), "Origin");
    assert.equal((await send("GET", "/ok")).headers.get("vary"), "Origin");
  });

  it("is off by default", async () => {
    assert.equal(
      (await sendWithCors({ allow_origins: [PAGE], allow_credentials: false }))["allow-credentials"],
      undefined,
    );
  });
});

describe("a page of another site", () => {
  it("changes nothing with the cookies of its user, unless it may send them", async () => {
    const crossSiteHeaders = {
      origin: PAGE,
      "sec-fetch-site": "cross-site",
      cookie: "session=1",
      "content-type": "text/plain",
    };
    const status = async (cors: Cors, changes: Record<string, string | undefined> = {}, path = "/threads") => {
      const { send } = fake({ http: { cors }, app: () => new Response("mine") });
      const headers = Object.entries({ ...crossSiteHeaders, ...changes }).filter(([, value]) => value !== undefined);
      return (await send("POST", path, {}, Object.fromEntries(headers) as Record<string, string>)).status;
    };
    assert.equal(await status({}), 403);
    assert.equal(await status({ allow_origins: [PAGE] }), 403);
    assert.equal(await status({ allow_origins: ["https://b.example"], allow_credentials: true }), 403);
    assert.notEqual(await status({ allow_origins: [PAGE], allow_credentials: true }), 403);
    assert.notEqual(await status({}, { cookie: undefined }), 403);
    assert.notEqual(await status({}, { "sec-fetch-site": "same-origin" }), 403);
    assert.notEqual(await status({}, { "sec-fetch-site": undefined, origin: undefined }), 403);
    assert.equal(await status({}, {}, "/login/callback"), 200);
  });
});

describe("a preflight response", () => {
  it("lists the allowed methods and headers with a maximum age", async () => {
    assert.deepEqual(
      await preflight({ allow_methods: ["get", "POST"], allow_headers: ["content-type", "X-Own"], max_age: 0 }),
      {
        status: 204,
        "allow-origin": "*",
        "allow-methods": "GET, POST",
        "allow-headers": "content-type, X-Own",
        "max-age": "0",
        "expose-headers": EXPOSED,
      },
    );
  });

  it("allows the requested headers by default and with *", async () => {
    for (const cors of [{}, { allow_methods: ["*"], allow_headers: ["*"] }]) {
      const answer = await preflight(cors);
      assert.equal(answer["allow-methods"], "GET, HEAD, PUT, POST, DELETE, PATCH, OPTIONS");
      assert.equal(answer["allow-headers"], "content-type,x-own");
      assert.equal(answer["max-age"], "600");
    }
    assert.equal((await preflight({ allow_headers: [] }))["allow-headers"], undefined);
  });

  it("names the origin of a page with credentials", async () => {
    const answer = await preflight({ allow_credentials: true });
    assert.deepEqual([answer["allow-origin"], answer["allow-credentials"]], [PAGE, "true"]);
  });

  it("allows nothing to a page of another origin", async () => {
    const answer = await preflight({ allow_origins: ["https://other.example"] });
    assert.deepEqual([answer["status"], answer["allow-origin"]], [204, undefined]);
  });
});

describe("CORS headers of a response", () => {
  const cors: Cors = { allow_origins: [PAGE], expose_headers: ["X-Mine", "location"], allow_credentials: true };
  const expected = { "allow-origin": PAGE, "allow-credentials": "true", "expose-headers": `${EXPOSED}, X-Mine` };
  const from = { origin: PAGE };

  for (const [what, method, path, body, status] of [
    ["an answer", "GET", "/ok", undefined, 200],
    ["an unknown path", "GET", "/nowhere", undefined, 404],
    ["a group that is left out", "POST", "/store/items/search", {}, 404],
    ["a wrong method", "PUT", "/threads", {}, 405],
    ["a wrong body", "POST", "/threads", "{", 400],
    ["a hidden thread", "GET", `/threads/${THREAD}`, undefined, 404],
    ["a failure", "GET", `/threads/${THREAD}/history`, undefined, 500],
  ] as const) {
    it(`match the page on ${what}`, async () => {
      const fails = (): never => {
        throw new Error("disk");
      };
      const answers = { "threads.get": notFound, "threads.history": fails };
      const { send } = fake({ http: { cors, disable_store: true }, answers });
      assert.deepEqual(readCorsHeaders(await send(method, path, body, from)), { status, ...expected });
    });
  }

  it("match the page on a stream", async () => {
    const { send, runLog } = fake({ http: { cors } });
    runLog.add({ id: 1, event: "end", data: "{}" });
    const response = await send("POST", `/threads/${THREAD}/runs/stream`, { assistant_id: "g" }, from);
    assert.match(await response.text(), /event: end/);
    assert.deepEqual(readCorsHeaders(response), { status: 200, ...expected });
  });

  it("match the page on the host's own routes, unless these set their own", async () => {
    const appHeaders = { "access-control-allow-origin": "https://own.example" };
    const app = (request: Request): Response =>
      new Response("own", { headers: request.url.endsWith("/says") ? appHeaders : {} });
    const { send } = fake({ http: { cors }, app });
    assert.deepEqual(readCorsHeaders(await send("GET", "/mine", undefined, from)), { status: 200, ...expected });
    assert.deepEqual(readCorsHeaders(await send("GET", "/says", undefined, from)), {
      status: 200,
      "allow-origin": "https://own.example",
    });
  });
});

describe("options of http.cors", () => {
  for (const [name, good, bad] of [
    [
      "allow_origins",
      [[], ["*"], ["null"], [PAGE, "http://localhost:3000", "chrome-extension://abc"]],
      ["*", [PAGE, 5], ["app.example"], [`${PAGE}/`], ["https://*.example"], [""]],
    ],
    ["allow_origin_regex", ["https://.*", ""], ["(", 5, ["a"]]],
    ["allow_methods", [["*"], ["GET", "get"]], ["GET", [""], ["GET, POST"]]],
    ["allow_headers", [["*"], ["X-A"]], [["x a"], ["a\r\nb"], [null]]],
    ["expose_headers", [[], ["X-A"]], [["x:a"], "X-A"]],
    ["allow_credentials", [true, false], ["yes", 1]],
    ["max_age", [0, 86_400], [-1, 1.5, "600", Number.NaN]],
  ] as const) {
    it(`validate ${name}`, () => {
      const findMessages = (value: unknown): string[] => findProblems(httpSchema, { cors: { [name]: value } }, "http");
      for (const value of good) assert.deepEqual(findMessages(value), [], JSON.stringify(value));
      for (const value of bad) {
        const [problem, ...otherProblems] = findMessages(value);
        assert.ok(problem?.startsWith(`http.cors.${name}: `) && otherProblems.length === 0, JSON.stringify(value));
      }
    });
  }
});

describe("the origin of LangSmith's hosted Studio", () => {
  const STUDIO = "https://smith.langchain.com";
  const options: FakeOptions = {
    hosts: ["127.0.0.1"],
    langsmith_studio: true,
    http: { cors: { allow_headers: ["x-own"], allow_methods: ["GET"] } },
  };
  const asks = {
    "access-control-request-method": "PATCH",
    "access-control-request-headers": "x-auth-scheme,x-api-key",
  };
  const privately = { ...asks, "access-control-request-private-network": "true" };

  it("may call with every method and header, also a server on a private address", async () => {
    const { send } = fake(options);
    const answer = await send("OPTIONS", "/threads", undefined, { origin: STUDIO, ...privately });
    const { "allow-methods": methods, ...otherHeaders } = readCorsHeaders(answer);
    assert.match(String(methods), /PATCH/);
    assert.deepEqual(otherHeaders, {
      status: 204,
      "allow-origin": STUDIO,
      "allow-headers": "x-auth-scheme,x-api-key",
      "allow-private-network": "true",
      "max-age": "600",
      "expose-headers": EXPOSED,
    });
    assert.match(answer.headers.get("vary") ?? "", /Origin/);
    const publicly = readCorsHeaders(await send("OPTIONS", "/threads", undefined, { origin: STUDIO, ...asks }));
    assert.equal(publicly["allow-private-network"], undefined);
    assert.equal((await send("POST", "/threads", {}, { origin: STUDIO })).status, 200);
  });

  it("matches no other origin, and none without the option", async () => {
    for (const origin of [PAGE, "http://smith.langchain.com", `${STUDIO}.example`, "https://a.smith.langchain.com"]) {
      const answer = readCorsHeaders(
        await fake(options).send("OPTIONS", "/threads", undefined, { origin, ...privately }),
      );
      assert.equal(answer["allow-origin"], undefined, origin);
      assert.equal(answer["allow-private-network"], undefined, origin);
      assert.equal((await fake(options).send("POST", "/threads", {}, { origin })).status, 403, origin);
    }
    const without = fake({ ...options, langsmith_studio: false });
    const answer = readCorsHeaders(
      await without.send("OPTIONS", "/threads", undefined, { origin: STUDIO, ...privately }),
    );
    assert.deepEqual([answer["allow-origin"], answer["allow-private-network"]], [undefined, undefined]);
    assert.equal((await without.send("POST", "/threads", {}, { origin: STUDIO })).status, 403);
  });

  it("may send JSON as text/plain", async () => {
    const { send, calls } = fake(options);
    const headers = { origin: STUDIO, "content-type": "text/plain;charset=UTF-8" };
    assert.equal((await send("POST", "/threads", { metadata: { a: 1 } }, headers)).status, 200);
    assert.deepEqual(
      calls.map(([verb, request]) => [verb, (request as { metadata: unknown }).metadata]),
      [["threads.create", { a: 1 }]],
    );
  });

  it("requires a key, whatever X-Auth-Scheme says", async () => {
    await using test = await testService({ agents: { echo: () => "Hi" }, auth: { mode: "api_key" } });
    const { key } = await test.service.accounts.createKey({ kind: "sk" });
    const handler = createHandler(test.service, { langsmith_studio: true });
    const status = async (headers: Record<string, string>): Promise<number> => {
      const requestHeaders = { origin: STUDIO, "x-auth-scheme": "langsmith", ...headers };
      return (
        await handler(new Request("http://127.0.0.1/threads", { method: "POST", body: "{}", headers: requestHeaders }))
      ).status;
    };
    assert.deepEqual(
      [await status({}), await status({ "x-api-key": "wrong" }), await status({ "x-api-key": key })],
      [401, 401, 200],
    );
  });
});
