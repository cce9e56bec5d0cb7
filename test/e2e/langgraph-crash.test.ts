/** Graphs that sleep and wait, after kill -9: nothing of a node that ended is repeated, and both go on when they are due. */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { it } from "node:test";
import { createTemporaryFolder, root, start, waitForUrl } from "../support/programs.ts";
import { until } from "../support/until.ts";

it("graphs that sleep and wait continue after kill -9", async () => {
  using folder = createTemporaryFolder();
  const agents = join(root, "test/e2e/langgraph-crash-agents.ts");
  const graphs = { sleeps: `${agents}:sleeps`, waits: `${agents}:waits` };
  writeFileSync(join(folder.path, "greenroom.json"), JSON.stringify({ graphs, worker: { lease_ms: 1000 } }));
  const serve = () => start("server.ts", ["--port", "0", "--database", "agents.db"], { cwd: folder.path });
  const caller =
    (url: string) =>
    async (path: string, body?: object): Promise<Record<string, unknown>> => {
      const init = body && {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      };
      const response = await fetch(url + path, init);
      const text = await response.text();
      assert.ok(response.ok, `${path}: ${response.status} ${text}`);
      return JSON.parse(text);
    };

  await using first = serve();
  const before = caller(await waitForUrl(first));
  const paths: string[] = [];
  for (const assistant_id of ["waits", "sleeps"]) {
    const { thread_id } = await before("/threads", {});
    const { run_id } = await before(`/threads/${thread_id}/runs`, { assistant_id, input: {} });
    const path = `/threads/${thread_id}/runs/${run_id}`;
    paths.push(path);
    await until(async () => (await before(path))["waiting_for"] !== undefined, assistant_id);
  }
  const [waits, sleeps] = paths as [string, string];
  await first.kill("SIGKILL");

  await using second = serve();
  const between = caller(await waitForUrl(second));
  assert.equal(((await between(waits))["waiting_for"] as object[]).length, 1);
  await between(`${waits.split("/runs/")[0]}/events/parcel`, { n: 1 });
  await second.kill("SIGKILL");

  await using third = serve();
  const after = caller(await waitForUrl(third));
  const values = async (path: string): Promise<unknown> => {
    await until(async () => (await after(path))["status"] === "success", path);
    return (await after(`${path.split("/runs/")[0]}/state`))["values"];
  };
  assert.deepEqual(await values(waits), { log: ["before", { n: 1 }, "after"] });
  assert.deepEqual(await values(sleeps), { log: ["before", "slept", "after"] });
  const notes = readFileSync(join(folder.path, "notes"), "utf8").trim().split("\n");
  for (const name of ["waits", "sleeps"]) {
    const nodeNotes = notes.filter((line) => line.startsWith(name));
    assert.equal(nodeNotes.filter((line) => line.endsWith("before")).length, 1, notes.join());
    // The process may have died after the line and before the state.
    assert.deepEqual(
      [...new Set(nodeNotes)],
      ["before", "paused", "after"].map((what) => `${name} ${what}`),
    );
  }
});
