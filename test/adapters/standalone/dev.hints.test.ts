/** Checks the hints that `greenroom dev` prints about mistakes of its user. */
import assert from "node:assert/strict";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { Client } from "@langchain/langgraph-sdk";
import { createTemporaryFolder, type Program, root, runtime, start, waitForUrl } from "../../support/programs.ts";

const AGENT = `import { lookUp } from "./lib/orders.ts";

type Job = { messages: { content: string }[]; interrupt(value: unknown): object; context: { yields?: boolean } };

export async function* agent({ messages }: Job) {
  yield "Looking. ";
  yield await lookUp(messages.at(-1)?.content ?? "");
}

export async function* asker({ interrupt, context }: Job) {
  if (context.yields) yield interrupt("Go on?");
  else interrupt("Go on?");
  yield "Done.";
}
`;
const ORDERS = `// Orders by their number.
const orders: Record<string, string> = { one: "shipped" };

export async function lookUp(id: string): Promise<string> {
  await new Promise((resolve) => setTimeout(resolve, 1));
  const order = orders[id];
  if (order === undefined) throw new RangeError("There is no order " + id);
  return order;
}
`;

interface Project extends Disposable {
  dev(args?: readonly string[]): Program;
  serve(): Program;
}

function createProject(): Project {
  const folder = createTemporaryFolder();
  mkdirSync(join(folder.path, "lib"));
  const files = {
    "package.json": '{ "type": "module" }',
    "greenroom.json": '{ "graphs": { "agent": "./agent.ts:agent", "asker": "./agent.ts:asker" } }',
    "agent.ts": AGENT,
    "lib/orders.ts": ORDERS,
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder.path, name), text);
  symlinkSync(join(root, "node_modules"), join(folder.path, "node_modules"), "junction");
  const run = (args: readonly string[]): Program =>
    start("server.ts", [...args, "--port", "0", "--database", ":memory:"], { cwd: folder.path });
  return {
    ...folder,
    dev: (args = []) => run(["dev", "--no-open", ...args]),
    serve: () => run(["--log-format", "text"]),
  };
}

const input = { messages: [{ role: "user", content: "one" }] };

async function post(url: string, body: unknown): Promise<{ readonly status: number; readonly text: string }> {
  const response = await fetch(url, { method: "POST", body: JSON.stringify(body) });
  return { status: response.status, text: await response.text() };
}

describe("greenroom dev", () => {
  it("warns once about unknown keys of a request body, and not about those of the SDK", async () => {
    using folder = createProject();
    await using program = folder.dev();
    const url = await waitForUrl(program);
    const client = new Client({ apiUrl: url });
    const { thread_id } = await client.threads.create({ metadata: { a: 1 }, ifExists: "raise", ttl: 60 });
    await client.threads.search({ metadata: { a: 1 }, limit: 1, sortBy: "created_at", sortOrder: "asc" });
    await client.runs.wait(thread_id, "agent", {
      input,
      config: { configurable: { x: 1 }, tags: ["t"] },
      context: { y: 1 },
      metadata: { z: 1 },
      multitaskStrategy: "enqueue",
      durability: "async",
      onDisconnect: "continue",
    });
    for await (const _ of client.runs.stream(thread_id, "agent", { input, streamMode: ["values", "messages-tuple"] }));
    await client.threads.getHistory(thread_id, { limit: 2 });
    await client.store.putItem(["a"], "b", { c: 1 });
    await client.store.searchItems(["a"], { limit: 2 });
    assert.equal((await post(`${url}/runs/wait`, { assistant_id: "agent", inputs: input, colour: 1 })).status, 200);
    await program.printed(/warn .*unknown keys/);
    assert.equal((await post(`${url}/runs/wait`, { assistant_id: "agent", inputs: input, colour: 1 })).status, 200);
    assert.equal((await post(`${url}/threads`, { meta_data: {} })).status, 200);
    await program.printed(/meta_data/);
    const warnings = program
      .output()
      .match(/^.* warn .*$/gm)
      ?.map((line) => line.replace(/^\S+ /, ""));
    assert.deepEqual(warnings, [
      "warn a request body has unknown keys, which are ignored method=POST path=/runs/wait keys=inputs (did you mean input?), colour",
      "warn a request body has unknown keys, which are ignored method=POST path=/threads keys=meta_data (did you mean metadata?)",
    ]);
  });

  it("fails a run whose interrupt was not yielded, and says what to write", async () => {
    using folder = createProject();
    await using program = folder.dev();
    const url = await waitForUrl(program);
    const yielded = await post(`${url}/runs/wait`, { assistant_id: "asker", input, context: { yields: true } });
    assert.match(yielded.text, /"__interrupt__"/);
    const lost = await post(`${url}/runs/wait`, { assistant_id: "asker", input });
    assert.match(lost.text, /"UnusedInterrupt".*write yield job\.interrupt\(value\)/);
    await program.printed(/UnusedInterrupt: .*write yield job\.interrupt\(value\)/);
  });

  it("suggests an assistant for a misspelled id", async () => {
    using folder = createProject();
    await using program = folder.dev();
    const url = await waitForUrl(program);
    const misspelt = await post(`${url}/runs/wait`, { assistant_id: "agnet", input });
    assert.equal(misspelt.status, 404);
    assert.equal(JSON.parse(misspelt.text).detail, "Assistant agnet not found; did you mean agent?");
    const otherResult = await post(`${url}/runs/wait`, { assistant_id: "chat", input });
    assert.equal(JSON.parse(otherResult.text).detail, "Assistant chat not found; graphs: agent, asker");
    const { assistant_id } = JSON.parse(
      (await post(`${url}/assistants`, { graph_id: "agent", name: "Support" })).text,
    ) as { assistant_id: string };
    const named = await post(`${url}/runs/wait`, { assistant_id: "Support", input });
    assert.equal(
      JSON.parse(named.text).detail,
      `Assistant Support not found; the assistant named Support has the id ${assistant_id}`,
    );
  });

  it("prints the code of a thrown error, and only the frames of the project", async () => {
    using folder = createProject();
    await using program = folder.dev();
    const url = await waitForUrl(program);
    const unknown = { messages: [{ role: "user", content: "two" }] };
    assert.equal((await post(`${url}/runs/wait`, { assistant_id: "agent", input: unknown })).status, 200);
    await program.printed(/a run failed[\s\S]*return order;\n/);
    const output = program.output();
    assert.match(output, /RangeError: There is no order two\n/);
    assert.match(output, /^ +at lookUp \(lib\/orders\.ts:7\)$/m);
    assert.match(
      output,
      /^ +6 \| +const order = orders\[id\];\n +> 7 \| +if \(order === undefined\) throw new RangeError\("There is no order " \+ id\);\n +8 \| +return order;$/m,
    );
    // Bun leaves out the callers of an awaited call.
    if (runtime !== "bun") assert.match(output, /^ +at .*\(?agent\.ts:7\)?$/m);
    assert.doesNotMatch(output, /node:internal|node_modules|lib\/functions|adapters\//);
  });
});
