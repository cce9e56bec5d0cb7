/** The agents that a `greenroom.json` names: `agent()`, definitions with settings, functions and graphs. */
import assert from "node:assert/strict";
import { symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { createTemporaryFolder, type Program, root, start, waitForUrl } from "../../support/programs.ts";

/** The module of a checkout that `greenroom` exports: a temporary folder has no package. */
const AGENTS = `import { agent } from ${JSON.stringify(join(root, "lib/mod.ts"))};
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { z } from "zod";

export const refund = agent(
  {
    input: z.object({ order: z.string(), cents: z.number() }),
    state: z.object({ paid: z.number().default(0) }),
    description: "Pays money back",
    max_attempts: 2,
  },
  ({ input, state }) => ({ paid: state.paid + input.cents }),
);
export const untyped = agent(() => ({ n: 1 }));
const graph = new StateGraph(Annotation.Root({ topic: Annotation<string>() }))
  .addNode("write", ({ topic }) => ({ topic: topic.toUpperCase() }))
  .addEdge(START, "write");
export const defined = { agent: () => ({ n: 2 }), description: "Defined" };
export const drawn = { graph, description: "Drawn" };
export const misspelt = { agent: () => "x", max_atempts: 1 };
export const both = { agent: () => "x", graph };
export const nothing = {};
export const text = "agent";
`;

/** Creates a project whose `greenroom.json` has these graphs. */
function createProject(graphs: object): ReturnType<typeof createTemporaryFolder> {
  const folder = createTemporaryFolder();
  writeFileSync(join(folder.path, "package.json"), '{ "type": "module" }');
  writeFileSync(join(folder.path, "agents.ts"), AGENTS);
  writeFileSync(join(folder.path, "greenroom.json"), JSON.stringify({ graphs }));
  symlinkSync(join(root, "node_modules"), join(folder.path, "node_modules"), "junction");
  return folder;
}

const serve = (cwd: string): Program => start("server.ts", ["--port", "0", "--database", ":memory:"], { cwd });

const readJson = async (url: string, body?: object): Promise<Record<string, unknown>> => {
  const init = body ? { method: "POST", body: JSON.stringify(body) } : {};
  const response = await fetch(url, init);
  return { status: response.status, ...((await response.json()) as object) };
};

describe("the agents of greenroom.json", () => {
  it("may be exports of agent() and definitions, with their schemas and settings", async () => {
    using folder = createProject({
      refund: { path: "./agents.ts:refund", max_attempts: 1 },
      untyped: "./agents.ts:untyped",
      defined: "./agents.ts:defined",
      drawn: "./agents.ts:drawn",
    });
    await using program = serve(folder.path);
    const url = await waitForUrl(program);
    const run = (assistant_id: string, input: object): Promise<Record<string, unknown>> =>
      readJson(`${url}/runs/wait`, { assistant_id, input });
    assert.deepEqual(await run("refund", { order: "A", cents: 5 }), { status: 200, paid: 5 });
    const { status, code, detail } = await run("refund", { order: 7 });
    assert.deepEqual([status, code, (detail as unknown[]).length], [422, "invalid", 2]);
    assert.deepEqual(await run("untyped", {}), { status: 200, n: 1 });
    assert.deepEqual(await run("defined", {}), { status: 200, n: 2 });
    assert.deepEqual(await run("drawn", { topic: "cats" }), { status: 200, topic: "CATS" });
    const describeAgent = async (graph_id: string): Promise<unknown> =>
      (await readJson(`${url}/assistants/${graph_id}`))["description"];
    const descriptions = await Promise.all(["refund", "defined", "drawn"].map(describeAgent));
    assert.deepEqual(descriptions, ["Pays money back", "Defined", "Drawn"]);
    const { input_schema } = await readJson(`${url}/assistants/refund/schemas`);
    assert.deepEqual((input_schema as { required: string[] }).required, ["order", "cents"]);
  });

  it("are all named with what is wrong before the server starts", async () => {
    using folder = createProject(
      Object.fromEntries(["misspelt", "both", "nothing", "text"].map((name) => [name, `./agents.ts:${name}`])),
    );
    await using program = serve(folder.path);
    assert.notEqual(await program.ended, 0);
    const lines = [
      "graphs.misspelt.max_atempts: unknown option; did you mean max_attempts?",
      "graphs.both: both give agent or graph, not both",
      "graphs.nothing: nothing is neither a function nor a LangGraph.js graph",
      "graphs.text: text is neither a function nor a LangGraph.js graph",
    ];
    for (const line of lines) assert.ok(program.output().includes(line), program.output());
  });
});
