/** Unknown paths of a server whose own Hono application has a `notFound` handler. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Hono } from "hono";
import { Hono as QuickHono } from "hono/quick";
import { type App, createHandler } from "../../../lib/http/handler.ts";
import { testService } from "../../suite/kit.ts";

/** Returns the statuses and texts of GET requests through a service with this application. */
async function answers(app: App, ...paths: readonly string[]): Promise<readonly (readonly [number, string])[]> {
  await using kit = await testService({ agents: { echo: () => "Hi" } });
  const handler = createHandler(kit.service, { app });
  const list: (readonly [number, string])[] = [];
  for (const path of paths) {
    const response = await handler(new Request(`http://greenroom${path}`));
    list.push([response.status, await response.text()]);
  }
  return list;
}

/** A host's subclass, whose instances are copied in another way. */
class OwnHono extends Hono {
  override basePath(): never {
    throw new Error("This class makes no copies");
  }
}

describe("the notFound handler of a Hono application", () => {
  for (const [name, create] of Object.entries({
    hono: () => new Hono(),
    "hono/quick": () => new QuickHono() as Hono,
    "a subclass": () => new OwnHono(),
  })) {
    it(`answers 404 for unknown paths if it sets no status (${name})`, async () => {
      const app = create()
        .use("*", async (c, next) => {
          await next();
          c.header("x-app", "1");
        })
        .get("/here", (c) => c.text("Here"))
        .notFound((c) => c.text("Not here"));
      const list = await answers(app, "/nowhere", "/threads/a/b/c", "/here", "/nowhere");
      const missing = [404, "Not here"];
      assert.deepEqual(list, [missing, missing, [200, "Here"], missing]);
      assert.equal((await app.request("/nowhere")).status, 200, "the application itself is as it was");
    });
  }

  it("keeps its own status, headers and body", async () => {
    const app = new Hono().notFound((c) => c.json({ error: "moved" }, 410, { "x-reason": "old" }));
    await using kit = await testService({ agents: { echo: () => "Hi" } });
    const response = await createHandler(kit.service, { app })(new Request("http://greenroom/nowhere"));
    assert.deepEqual([response.status, response.headers.get("x-reason")], [410, "old"]);
    assert.deepEqual(await response.json(), { error: "moved" });
    const redirects = new Hono().notFound((c) => c.redirect("/home"));
    assert.equal((await answers(redirects, "/nowhere"))[0]?.[0], 302);
  });

  it("does not change responses of middleware, catch-all routes and errors", async () => {
    const files = new Hono()
      .use("/static/*", async (c, next) => (c.req.path === "/static/a.txt" ? c.text("A file") : await next()))
      .notFound((c) => c.text("Not here"));
    assert.deepEqual(await answers(files, "/static/a.txt", "/static/b.txt"), [
      [200, "A file"],
      [404, "Not here"],
    ]);
    const all = new Hono().get("*", (c) => c.text("The page")).notFound((c) => c.text("Not here"));
    assert.deepEqual(await answers(all, "/nowhere"), [[200, "The page"]]);
    const fails = new Hono()
      .notFound(() => {
        throw new Error("It broke");
      })
      .onError((error, c) => c.text(error.message, 500));
    assert.deepEqual(await answers(fails, "/nowhere"), [[500, "It broke"]]);
  });
});
