/** Routes of Greenroom's own API refuse members of a query that they do not have; routes of the Agent Server API ignore them. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Route } from "../../../lib/http/route.ts";
import { loadAllRoutes } from "../../../lib/http/routes/mod.ts";
import { type TestService, testService } from "../../suite/kit.ts";

/** The paths that the Agent Server API does not have. */
const OWN_PATHS = /^\/greenroom\/|\/trace(\/stream)?$|\/steps$|\/events\/:name$/;

const own = (await loadAllRoutes()).filter(({ path, handle }) => OWN_PATHS.test(path) && handle);

const ID = "00000000-0000-4000-8000-00000000000a";

/** Returns the response to a request with a query. Ids in the path are those of nothing. */
async function send(service: TestService, { method, path }: Route, query: string, headers = {}): Promise<Response> {
  const url = `http://greenroom${path.replace(/:\w+/g, ID)}?${query}`;
  return await service.fetch(new Request(url, { method: method.toUpperCase(), headers }));
}

describe("a member of a query that a route does not have", () => {
  it("is refused by each own route with its place, whether the route has a query or not", async () => {
    await using service = await testService({ agents: { echo: () => "Hi" } });
    assert.ok(own.length >= 25, `${own.length}`);
    assert.ok(own.some(({ query }) => query === undefined) && own.some(({ query }) => query !== undefined));
    for (const route of own) {
      const response = await send(service, route, "limit_=1&odd=");
      const { detail, code } = (await response.json()) as { readonly detail: unknown; readonly code: string };
      const place = (name: string) => ({
        ...{ loc: ["query", name], msg: "is no parameter of this route", type: "extra_forbidden" },
      });
      const label = `${route.method} ${route.path}`;
      assert.deepEqual([response.status, code, detail], [422, "invalid", [place("limit_"), place("odd")]], label);
    }
  });

  it("is refused although it has the name of a member of all objects", async () => {
    await using service = await testService({ agents: { echo: () => "Hi" } });
    const [route] = own.filter(({ path }) => path === "/greenroom/runs") as [Route];
    assert.equal((await send(service, route, "__proto__=1")).status, 422);
    assert.equal((await send(service, route, "toString=1")).status, 422);
    assert.equal((await send(service, route, "limit=1")).status, 200);
  });

  it("is refused after the credential was checked", async () => {
    await using service = await testService({ agents: { echo: () => "Hi" }, auth: { mode: "api_key" } });
    for (const route of own) {
      const { status } = await send(service, route, "odd=1");
      assert.equal(status, route.access === "open" ? 422 : 401, `${route.method} ${route.path}`);
    }
  });

  it("is ignored by routes of the Agent Server API, whose clients may send newer ones", async () => {
    await using service = await testService({ agents: { echo: () => "Hi" } });
    for (const path of ["/ok?odd=1", "/info?odd=1", "/assistants/echo?odd=1"])
      assert.equal((await service.fetch(`http://greenroom${path}`)).status, 200, path);
    const run = { method: "POST", body: JSON.stringify({ assistant_id: "echo", input: {} }) };
    assert.equal((await service.fetch("http://greenroom/runs/wait?odd=1", run)).status, 200);
  });
});
