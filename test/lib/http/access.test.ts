import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type FakeOptions, fake, THREAD } from "./fake-service.ts";

const LOCAL: FakeOptions = { hosts: ["localhost", "127.0.0.1", "[::1]"] };

async function allowed(options: FakeOptions, origin: string): Promise<string | null> {
  const response = await fake(options).send("GET", "/ok", undefined, { origin });
  return response.headers.get("access-control-allow-origin");
}

describe("CORS", () => {
  it("allows every page by default, and exposes the headers that clients need", async () => {
    const response = await fake().send("GET", "/ok", undefined, { origin: "https://a.example" });
    assert.equal(response.headers.get("access-control-allow-origin"), "*");
    assert.equal(
      response.headers.get("access-control-expose-headers"),
      "Content-Location, Location, Mcp-Session-Id, X-Pagination-Total, X-Pagination-Next",
    );
    assert.equal(response.headers.get("vary"), null);
  });

  it("covers errors", async () => {
    const response = await fake().send("GET", "/threads/x", undefined, { origin: "https://a.example" });
    assert.deepEqual([response.status, response.headers.get("access-control-allow-origin")], [422, "*"]);
  });

  it("answers a preflight with 204 and the requested headers", async () => {
    const { send, calls } = fake();
    const response = await send("OPTIONS", `/threads/${THREAD}/runs/stream`, undefined, {
      origin: "https://a.example",
      "access-control-request-method": "POST",
      "access-control-request-headers": "content-type,x-api-key",
    });
    assert.deepEqual([response.status, await response.text()], [204, ""]);
    assert.equal(response.headers.get("access-control-allow-origin"), "*");
    assert.equal(response.headers.get("access-control-allow-headers"), "content-type,x-api-key");
    assert.equal(response.headers.get("access-control-allow-methods"), "GET, HEAD, PUT, POST, DELETE, PATCH, OPTIONS");
    assert.deepEqual(calls, []);
  });

  it("returns a configured origin and no other", async () => {
    const options = { cors: ["https://a.example"] };
    assert.equal(await allowed(options, "https://a.example"), "https://a.example");
    assert.equal(await allowed(options, "https://b.example"), null);
    const response = await fake(options).send("GET", "/ok", undefined, { origin: "https://b.example" });
    assert.equal(response.headers.get("vary"), "Origin");
  });
});

describe("a handler with hosts", () => {
  for (const [host, status] of [
    ["localhost:2024", 200],
    ["127.0.0.1", 200],
    ["[::1]:2024", 200],
    ["LOCALHOST", 200],
    ["evil.example", 421],
    ["localhost.evil.example", 421],
    ["evil.example:2024", 421],
  ] as const) {
    it(`answers ${status} as ${host}`, async () => {
      const response = await fake(LOCAL).send("GET", "/ok", undefined, { host });
      assert.equal(response.status, status);
    });
  }

  it("serves pages of loopback origins, of its hosts and of allow_origins", async () => {
    assert.equal(await allowed(LOCAL, "http://localhost:3000"), "http://localhost:3000");
    assert.equal(await allowed(LOCAL, "http://[::1]:5173"), "http://[::1]:5173");
    assert.equal(await allowed(LOCAL, "https://evil.example"), null);
    assert.equal(await allowed(LOCAL, "http://localhost.evil.example"), null);
    assert.equal(await allowed(LOCAL, "null"), null);
    assert.equal(await allowed({ hosts: ["agents.example"] }, "https://agents.example"), "https://agents.example");
    assert.equal(await allowed({ ...LOCAL, cors: ["https://a.example"] }, "https://a.example"), "https://a.example");
    assert.equal(await allowed({ ...LOCAL, cors: ["https://a.example"] }, "https://b.example"), null);
  });

  it("refuses changes by pages of other origins, whose simple requests have no preflight", async () => {
    const { send, calls } = fake(LOCAL);
    const headers = { origin: "https://evil.example", "content-type": "text/plain" };
    assert.equal((await send("POST", "/threads", {}, headers)).status, 403);
    assert.equal((await send("DELETE", `/threads/${THREAD}`, undefined, headers)).status, 403);
    assert.deepEqual(calls, []);
    assert.equal((await send("POST", "/threads", {}, { origin: "http://localhost:3000" })).status, 200);
    assert.equal((await send("POST", "/threads", {})).status, 200);
  });
});

describe("a handler with a prefix", () => {
  it("serves below the prefix only", async () => {
    const { send } = fake({ prefix: "/agents/" });
    assert.equal((await send("GET", "/agents/ok")).status, 200);
    assert.equal((await send("GET", "/ok")).status, 404);
    assert.equal((await send("GET", "/agentsx/ok")).status, 404);
    assert.equal((await send("GET", "/agents%2Fok")).status, 404);
    assert.equal((await send("GET", "/agents/../ok")).status, 404);
    assert.equal((await send("PUT", "/agents/ok")).status, 405);
    const description = (await (await send("GET", "/agents/openapi.json")).json()) as { servers: unknown };
    assert.deepEqual(description.servers, [{ url: "/agents" }]);
  });

  it("refuses a prefix that is no plain path", () => {
    for (const prefix of ["agents", "/a b", "/:id", "/a*", "//a"]) {
      assert.throws(() => fake({ prefix }), /prefix/);
    }
  });
});
