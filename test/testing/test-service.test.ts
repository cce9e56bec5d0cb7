/** `testService` takes what `createApp` takes. */
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import { ConfigError, fromFunctions, type Json } from "../../lib/mod.ts";
import { type TestServiceOptions, testService } from "../suite/kit.ts";

const builder = new StateGraph(MessagesAnnotation)
  .addNode("node", () => ({ messages: [{ role: "assistant", content: "From a graph." }] }))
  .addEdge(START, "node");
const input = { messages: [{ role: "user", content: "Hi" }] };

const refused = async (options: TestServiceOptions): Promise<readonly string[]> => {
  const error = await testService(options).then(
    () => assert.fail("was accepted"),
    (error: unknown) => error,
  );
  assert.ok(error instanceof ConfigError, String(error));
  return error.problems;
};

describe("testService", () => {
  it("hosts functions, graphs, factories and agents with settings, as createApp does", async () => {
    await using kit = await testService({
      agents: {
        plain: () => "From a function.",
        settings: { agent: () => "From a function.", description: "Has settings", max_attempts: 2 },
        graph: builder.compile(),
        factory: { graph: () => builder.compile(), timeout_ms: 5_000 },
      },
    });
    const readAnswer = async (assistant_id: string): Promise<Json | undefined> => {
      const { result } = await kit.service.runs.wait(null, { assistant_id, input });
      return ((await result) as { messages: { content: string }[] }).messages.at(-1)?.content;
    };
    assert.equal(await readAnswer("plain"), "From a function.");
    assert.equal(await readAnswer("settings"), "From a function.");
    assert.equal(await readAnswer("graph"), "From a graph.");
    assert.equal(await readAnswer("factory"), "From a graph.");
    const [assistant] = (await kit.service.assistants.search({ graph_id: "settings" })).items;
    assert.equal(assistant?.description, "Has settings");
  });

  it("accepts a database, and the options of the handler and of HTTP", async () => {
    const folder = mkdtempSync(join(tmpdir(), "test-service-"));
    try {
      const database = join(folder, "agents.db");
      await using kit = await testService({
        database,
        agents: { echo: () => "Hi" },
        http: { prefix: "/agents", disable_crons: true },
      });
      assert.ok(existsSync(database));
      assert.equal((await kit.fetch("http://greenroom/agents/ok")).status, 200);
      assert.equal((await kit.fetch("http://greenroom/ok")).status, 404);
      const body = { method: "POST", body: "{}" };
      assert.equal((await kit.fetch("http://greenroom/agents/runs/crons/search", body)).status, 404);
      await kit.service.stop(0);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it("rejects agents beside an executor, and a database beside a storage", async () => {
    const agents = { echo: () => "Hi" };
    assert.deepEqual(await refused({ agents, executor: fromFunctions(agents) }), [
      "executor: not together with agents. Give one of them",
    ]);
    assert.deepEqual(await refused({ agents, storage: nodeSqlite(":memory:"), database: ":memory:" }), [
      "storage: not together with database. Give one of them",
    ]);
    assert.deepEqual(await refused({ agents: { echo: 5 as never }, http: { prefix: "agents" } }), [
      "http.prefix: must be a path such as /agents",
      "agents.echo: is neither a function nor a LangGraph.js graph. Give a function, a graph, { agent: function } or { graph: graph or factory }",
    ]);
    assert.match((await refused({})).join("\n"), /^agents: missing\. Give at least one/);
  });
});
