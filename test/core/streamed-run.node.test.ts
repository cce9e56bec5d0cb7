/** docs/architecture.md lists the files of lib/ that one streamed run executes: coverage says which these are. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Session } from "node:inspector/promises";
import { it } from "node:test";
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import { createHandler, type Handler } from "../../lib/http/handler.ts";
import { createService, fromFunctions } from "../../lib/mod.ts";

const ROOT = new URL("../../", import.meta.url);

/** A streamed run on a new thread; the thread is made before it. */
async function prepared(handler: Handler): Promise<() => Promise<string>> {
  const post = (path: string, body: object): Promise<Response> =>
    handler(new Request(`http://greenroom${path}`, { method: "POST", body: JSON.stringify(body) }));
  const { thread_id } = (await (await post("/threads", {})).json()) as { thread_id: string };
  const request = { assistant_id: "echo", input: { role: "user", content: "Hello" }, stream_mode: "updates" };
  return async () => (await post(`/threads/${thread_id}/runs/stream`, request)).text();
}

/** Files of lib/ in which a function was called. */
async function filesCalled(work: () => Promise<unknown>): Promise<string[]> {
  const session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  await work();
  const { result } = await session.post("Profiler.takePreciseCoverage");
  session.disconnect();
  return result
    .filter(({ url }) => url.startsWith(`${ROOT.href}lib/`))
    .filter(({ functions }) => functions.some(({ ranges }) => (ranges[0]?.count ?? 0) > 0))
    .map(({ url }) => url.slice(ROOT.href.length))
    .sort();
}

it("the files that docs/architecture.md lists are those that a streamed run executes", async () => {
  const page = readFileSync(new URL("docs/architecture.md", ROOT), "utf8");
  const section = page.split(/^## /m).find((part) => part.startsWith("One streamed run\n")) ?? "";
  const listed = section.match(/(?<=`)lib\/[\w/-]+\.ts(?=`)/g) ?? [];

  const service = await createService({
    storage: nodeSqlite(":memory:"),
    executor: fromFunctions({
      async *echo({ input }) {
        yield { messages: [input] };
      },
    }),
    // No timer fires: nothing but the run is measured.
    environment: { timer: () => () => {} },
  });
  try {
    const handler = createHandler(service);
    const warm = await (await prepared(handler))();
    assert.match(warm, /"status":"success"/);
    const run = await prepared(handler);
    let streamed = "";
    const called = await filesCalled(async () => {
      streamed = await run();
    });
    assert.match(streamed, /"status":"success"/);
    const [list, ran] = [new Set(listed), new Set(called)];
    const [missing, wrong] = [called.filter((file) => !list.has(file)), listed.filter((file) => !ran.has(file))];
    assert.deepEqual({ missing, wrong, count: listed.length }, { missing: [], wrong: [], count: called.length });
  } finally {
    await service.stop(0);
  }
});
