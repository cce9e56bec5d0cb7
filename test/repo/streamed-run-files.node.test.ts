/** docs/architecture.md lists and draws the files of lib/ that one streamed run executes: coverage says which these are. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Session } from "node:inspector/promises";
import { it } from "node:test";
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import { createHandler, type Handler } from "../../lib/http/handler.ts";
import { createService, fromFunctions } from "../../lib/mod.ts";
import { readStreamedRun } from "../../scripts/code-limits.ts";

const ROOT = new URL("../../", import.meta.url);

/** A streamed run on a new thread; the thread is made before it. */
async function prepared(handler: Handler): Promise<() => Promise<string>> {
  const post = (path: string, body: object): Promise<Response> =>
    handler(new Request(`http://greenroom${path}`, { method: "POST", body: JSON.stringify(body) }));
  const { thread_id } = (await (await post("/threads", {})).json()) as { thread_id: string };
  const request = { assistant_id: "echo", input: { role: "user", content: "Hello" }, stream_mode: "updates" };
  return async () => (await post(`/threads/${thread_id}/runs/stream`, request)).text();
}

/** Returns the functions that were called, by the file of lib/ that has them. */
async function recordCalledFunctions(work: () => Promise<unknown>): Promise<Map<string, ReadonlySet<string>>> {
  const session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  await work();
  const { result } = await session.post("Profiler.takePreciseCoverage");
  session.disconnect();
  const inLib = result.filter(({ url }) => url.startsWith(`${ROOT.href}lib/`));
  const calledFunctions = inLib.map(({ url, functions }): [string, ReadonlySet<string>] => {
    const names = functions.filter(({ ranges }) => (ranges[0]?.count ?? 0) > 0).map(({ functionName }) => functionName);
    return [url.slice(ROOT.href.length), new Set(names)];
  });
  return new Map(calledFunctions.filter(([, names]) => names.size > 0));
}

it("the files that docs/architecture.md lists, and the functions that it draws, are those that a streamed run executes", async () => {
  const page = readFileSync(new URL("docs/architecture.md", ROOT), "utf8");
  const { section, files: listed } = readStreamedRun(page);

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
    const functions = await recordCalledFunctions(async () => {
      streamed = await run();
    });
    assert.match(streamed, /"status":"success"/);
    const calledNames = [...functions.keys()].sort();
    const [list, ran] = [new Set(listed), new Set(calledNames)];
    const [missing, wrong] = [calledNames.filter((file) => !list.has(file)), listed.filter((file) => !ran.has(file))];
    assert.deepEqual({ missing, wrong, count: listed.length }, { missing: [], wrong: [], count: calledNames.length });
    const drawn = [...section.matchAll(/"([#\w]+) · (lib\/[\w/-]+\.ts)"/g)];
    assert.ok(drawn.length >= 15);
    for (const [label, name = "", file = ""] of drawn) assert.ok(functions.get(file)?.has(name), label);
  } finally {
    await service.stop(0);
  }
});
