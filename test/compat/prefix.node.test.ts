/** What clients rely on holds below a prefix as well, and nothing is served beside it. */
import assert from "node:assert/strict";
import process from "node:process";
import { after, describe, it } from "node:test";
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import { createHandler } from "../../lib/http/handler.ts";
import { type TestService, testService } from "../suite/kit.ts";
import { sdkSuite } from "./sdk/mod.ts";
import { overSocket, SDKS } from "./sdk/reach.ts";
import { sharedStorage } from "./sdk/shared-storage.ts";

const { createStorageOptions, close } = sharedStorage(() => nodeSqlite(":memory:"));
after(close);

// In `npm test` sdk.test.ts runs the suite below a prefix, on Bun.
if (process.env.GREENROOM_TEST_ALL !== "0")
  sdkSuite({ describe, it }, "SDK 2.0.0 over a socket below /api/agents", {
    Sdk: SDKS["SDK 2.0.0"],
    open: overSocket,
    createStorageOptions,
    prefix: "/api/agents",
  });

const PUBLIC = "https://app.example/api/agents";
const input = { messages: [{ role: "user", content: "Hello" }] };

async function mountService(prefix: string): Promise<
  AsyncDisposable & {
    readonly kit: TestService;
    send(path: string, body?: unknown, method?: string): Promise<Response>;
  }
> {
  const kit = await testService({ agents: { hello: () => "Hello" }, public_base_url: PUBLIC });
  const handler = createHandler(kit.service, { prefix });
  return {
    kit,
    send(path, body, method = body === undefined ? "GET" : "POST") {
      return handler(
        new Request(`http://internal:8080${path}`, { method, body: body && JSON.stringify(body) } as object),
      );
    },
    [Symbol.asyncDispose]: () => kit[Symbol.asyncDispose](),
  };
}

describe("a prefix", () => {
  it("does not match similar paths", async () => {
    await using at = await mountService("/api/agents");
    for (const path of [
      "/ok",
      "/agents/ok",
      "/api/agentsmith/ok",
      "/api/agents2",
      "/api/agents.json/ok",
      "/api/agent/ok",
      "/API/agents/ok",
      "//api/agents/ok",
      "/api//agents/ok",
      "/api%2Fagents/ok",
      "/api/agents%2Fok",
      "/%61pi/agents/ok",
      "/api/%61gents/ok",
      "/x/api/agents/ok",
      "/api/agents/../ok",
      "/api/agents/%2e%2e/ok",
      "/api/agents/api/agents/ok",
    ]) {
      const response = await at.send(path);
      assert.equal(response.status, 404, path);
      assert.deepEqual(
        await response.json(),
        { detail: "There is nothing at this path", code: "route_not_found" },
        path,
      );
    }
    for (const path of ["/api/agents/ok", "/api/agents/./ok", "/api/agents/x/../ok", "/api/agents/ok?a=/b"]) {
      assert.equal((await at.send(path)).status, 200, path);
    }
  });

  it("may end in a slash, and is no pattern", async () => {
    for (const prefix of ["/v1.2", "/v1.2/"]) {
      await using at = await mountService(prefix);
      assert.equal((await at.send("/v1.2/ok")).status, 200);
      assert.equal((await at.send("/v1x2/ok")).status, 404);
    }
  });

  it("is rejected if it is ambiguous", async () => {
    await using at = await mountService("/");
    assert.equal((await at.send("/ok")).status, 200);
    for (const prefix of [
      "api",
      "/a%20b",
      "/caf%C3%A9",
      "/café",
      "/a?b",
      "/a#b",
      "/a//b",
      "/a/:b",
      "/*",
      "/(a)",
      "/a+",
    ]) {
      assert.throws(
        () => createHandler(at.kit.service, { prefix }),
        /^TypeError: createHandler: prefix: must be a path such as/,
      );
    }
  });

  it("is not in the paths that clients append to their URL", async () => {
    await using at = await mountService("/api/agents");
    const { thread_id } = (await (await at.send("/api/agents/threads", {})).json()) as { thread_id: string };
    const on = `/threads/${thread_id}/runs`;
    const ask = { assistant_id: "hello", input };
    const readLocations = async (path: string): Promise<readonly [string | null, string | null]> => {
      const response = await at.send(`/api/agents${path}`, ask);
      await response.text();
      return [response.headers.get("content-location"), response.headers.get("location")];
    };
    const id = "[0-9a-f-]{36}";
    for (const [path, location, next] of [
      [on, `^${on}/${id}$`, null],
      [`${on}/wait`, `^${on}/${id}$`, `^${on}/${id}/join$`],
      [`${on}/stream`, `^${on}/${id}$`, `^${on}/${id}/stream$`],
      ["/runs", `^/runs/${id}$`, null],
      ["/runs/stream", `^/runs/${id}$`, `^/runs/${id}/stream$`],
    ] as const) {
      const [first, second] = await readLocations(path);
      assert.match(String(first), new RegExp(location), path);
      if (next === null) assert.equal(second, null, path);
      else assert.match(String(second), new RegExp(next), path);
      // Whoever follows one finds it below the mount.
      if (next !== null) assert.equal((await at.send(`/api/agents${second}`)).status, 200, path);
    }
    const { servers } = (await (await at.send("/api/agents/openapi.json")).json()) as { servers: unknown };
    assert.deepEqual(servers, [{ url: "/api/agents" }]);
  });

  it("is in links that leave the process as in public_base_url, whatever the request contains", async () => {
    await using at = await mountService("/api/agents");
    const response = await at.send("/api/agents/runs/stream", {
      assistant_id: "hello",
      input,
      feedback_keys: ["helpful"],
    });
    const link = /"helpful":"([^"]+)"/.exec(await response.text())?.[1] ?? "";
    assert.match(link, /^https:\/\/app\.example\/api\/agents\/api\/v1\/feedback\/tokens\/[0-9a-f-]{36}$/);
    // It works as it is once the host's name is that of this process.
    const { pathname } = new URL(link);
    assert.equal((await at.send(pathname, { score: 1 })).status, 200);
    assert.equal((await at.send(pathname.replace("/api/agents", ""), { score: 1 })).status, 404);
  });

  it("may stand beside another one, with a separate service", async () => {
    await using support = await mountService("/support");
    await using sales = await mountService("/sales");
    const { thread_id } = (await (await support.send("/support/threads", {})).json()) as { thread_id: string };
    assert.equal((await support.send(`/support/threads/${thread_id}`)).status, 200);
    assert.equal((await sales.send(`/sales/threads/${thread_id}`)).status, 404);
    assert.equal((await sales.send(`/support/threads/${thread_id}`)).status, 404);
    assert.equal((await support.send("/sales/ok")).status, 404);
  });
});
