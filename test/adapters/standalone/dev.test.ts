/** `greenroom dev`: a project whose files change while it is served. */
import assert from "node:assert/strict";
import { mkdirSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { watchFiles } from "../../../adapters/standalone/watch.ts";
import { createTemporaryFolder, type Program, root, runtime, start, waitForUrl } from "../../support/programs.ts";
import { until } from "../../support/until.ts";

const AGENT = `import { word } from "./words.js";
import { shout } from "./lib/shout.ts";
enum Kind { Said = "said" }
export async function* agent({ messages }: { messages: { content: string }[] }) {
  yield shout(\`\${word} \${Kind.Said} \${messages.at(-1)?.content}\`);
}
`;
const FILES = {
  "package.json": '{ "type": "module" }',
  "greenroom.json": '{ "graphs": { "agent": "./agent.ts:agent" } }',
  "agent.ts": AGENT,
  "words.js": 'export const word = "one";\n',
  "lib/shout.ts": "export const shout = (text: string): string => text.concat('!');\n",
};

interface Harness extends Disposable {
  readonly path: string;
  write(name: string, text: string): void;
  dev(args?: readonly string[]): Program;
}

function createProject(extraFiles: Readonly<Record<string, string>> = {}): Harness {
  const folder = createTemporaryFolder();
  const write = (name: string, text: string): void => writeFileSync(join(folder.path, name), text);
  mkdirSync(join(folder.path, "lib"));
  for (const [name, text] of Object.entries({ ...FILES, ...extraFiles })) write(name, text);
  return {
    ...folder,
    write,
    dev: (args = []) => start("server.ts", ["dev", "--port", "0", "--no-open", ...args], { cwd: folder.path }),
  };
}

async function post(url: string, body: unknown): Promise<Record<string, unknown>> {
  const response = await fetch(url, { method: "POST", body: JSON.stringify(body) });
  assert.equal(response.status, 200, url);
  return (await response.json()) as Record<string, unknown>;
}

const input = { messages: [{ role: "user", content: "Hi" }] };

/** Returns the last answer of the agent. */
async function answer(url: string, thread?: string): Promise<string | undefined> {
  const path = thread === undefined ? "/runs/wait" : `/threads/${thread}/runs/wait`;
  const { messages } = (await post(`${url}${path}`, { assistant_id: "agent", input })) as {
    messages: { content: string }[];
  };
  return messages.at(-1)?.content;
}

/** Resolves once the program has reloaded this many times. */
const waitForReload = (program: Program, times: number): Promise<unknown> =>
  program.printed(new RegExp(`(?:^Reloaded in [\\s\\S]*?){${times}}`, "m"));

describe("greenroom dev", () => {
  it("serves the new code of agents, of their imports and of the configuration; threads stay", async () => {
    using folder = createProject();
    await using program = folder.dev(["--database", ":memory:"]);
    const url = await waitForUrl(program);
    await program.printed(/^Watching 4 files/m);
    const { thread_id } = (await post(`${url}/threads`, {})) as { thread_id: string };
    assert.equal(await answer(url, thread_id), "one said Hi!");
    folder.write("words.js", 'export const word = "two";\n');
    await waitForReload(program, 1);
    assert.equal(await answer(url, thread_id), "two said Hi!");
    // As editors do that replace the file.
    folder.write("lib/new", "export const shout = (text: string): string => text.toUpperCase();\n");
    renameSync(join(folder.path, "lib/new"), join(folder.path, "lib/shout.ts"));
    await waitForReload(program, 2);
    assert.equal(await answer(url, thread_id), "TWO SAID HI");
    folder.write(
      "greenroom.json",
      '{ "graphs": { "agent": "./agent.ts:agent", "other": { "path": "./agent.ts:agent" } } }',
    );
    await waitForReload(program, 3);
    await post(`${url}/runs/wait`, { assistant_id: "other", input });
    const state = (await (await fetch(`${url}/threads/${thread_id}/state`)).json()) as {
      values: { messages: unknown[] };
    };
    assert.equal(state.values.messages.length, 6);
    assert.match(program.output(), /^\d\d:\d\d:\d\d\.\d{3} run agent success \d+ ms thread_id=\S+$/m);
    assert.equal(await program.kill("SIGTERM"), 0);
  });

  it("prints the file, line and text of an error, keeps the old agents, and recovers", async () => {
    using folder = createProject();
    await using program = folder.dev();
    const url = await waitForUrl(program);
    await program.printed(/^Watching/m);
    folder.write("words.js", "export const word = ;\n");
    await program.printed(
      /agent\.ts cannot be loaded: .*Unexpected[\s\S]*at words\.js:1:\d+[\s\S]*\| export const word = ;/,
    );
    await program.printed(/^The earlier agents stay/m);
    assert.equal(await answer(url), "one said Hi!");
    folder.write("words.js", '// A comment\nthrow new Error("no key");\nexport const word = "never";\n');
    await program.printed(/agent\.ts cannot be loaded: no key\n {4}at words\.js:2:/);
    assert.equal(await answer(url), "one said Hi!");
    folder.write("words.js", 'import { two } from "./lib/two.ts";\nexport const word = two;\n');
    await program.printed(/agent\.ts cannot be loaded: .*two\.ts/);
    assert.equal(await answer(url), "one said Hi!");
    // A file that nothing has imported so far mends it.
    folder.write("lib/two.ts", 'export const two: string = "two";\n');
    await waitForReload(program, 1);
    assert.equal(await answer(url), "two said Hi!");
    folder.write("greenroom.json", '{ "graphs": ');
    await program.printed(/greenroom\.json: cannot be read as JSON: .*(?:end of JSON|EOF)/i);
    assert.equal(await answer(url), "two said Hi!");
  });

  it("continues after a module that never ends to load", async () => {
    using folder = createProject();
    await using program = folder.dev();
    const url = await waitForUrl(program);
    await program.printed(/^Watching/m);
    folder.write("words.js", 'await new Promise(() => {});\nexport const word = "never";\n');
    await program.printed(/^The project has not loaded in 10 s: .*\nThe earlier agents stay/m);
    assert.equal(await answer(url), "one said Hi!");
    // Bun drops no module that it is loading.
    if (runtime === "bun") return assert.match(program.output(), /restart/);
    folder.write("words.js", 'export const word = "two";\n');
    await waitForReload(program, 1);
    assert.equal(await answer(url), "two said Hi!");
  });

  it("watches the other folders if one cannot be read", () => {
    using folder = createTemporaryFolder();
    const watch = watchFiles(join(folder.path, "gone/too"));
    watch.recordLoad([], 0, true);
    assert.deepEqual(watch.listFiles(), []);
  });

  it("waits for a project that cannot be loaded at the start", async () => {
    using folder = createProject({ "words.js": "export const word = ;\n" });
    // No file that can be read.
    symlinkSync("loop.ts", join(folder.path, "loop.ts"));
    await using program = folder.dev();
    await program.printed(/at words\.js:1:[\s\S]*^Waiting for a change$/m);
    folder.write("words.js", 'export const word = "mended";\n');
    assert.equal(await answer(await waitForUrl(program)), "mended said Hi!");
    await using none = start("server.ts", ["dev"], { cwd: join(folder.path, "lib") });
    assert.equal(await none.ended, 1);
    assert.match(
      none.output(),
      /No greenroom\.json, greenroom\.config\.ts or langgraph\.json in this folder.*greenroom init DIR/,
    );
  });

  it("requeues a running run, and answers all requests meanwhile; a stream breaks, and resumes after its last frame", async () => {
    const holding = 'export async function* agent() {\n  yield "begun ";\n  await new Promise(() => {});\n}\n';
    using folder = createProject({ "agent.ts": holding });
    await using program = folder.dev();
    const url = await waitForUrl(program);
    await program.printed(/^Watching/m);
    const { thread_id } = (await post(`${url}/threads`, {})) as { thread_id: string };
    const body = { assistant_id: "agent", input, stream_mode: "messages-tuple", stream_resumable: true };
    const response = await fetch(`${url}/threads/${thread_id}/runs/stream`, {
      method: "POST",
      body: JSON.stringify(body),
    });
    const location = response.headers.get("location");
    let streamed = "";
    const read = (async () => {
      for await (const chunk of response.body as ReadableStream<Uint8Array>)
        streamed += new TextDecoder().decode(chunk);
    })().catch(() => {});
    await until(() => streamed.includes("begun"));
    let asks = true;
    const statuses = new Set<number>();
    const asking = (async () => {
      while (asks) statuses.add((await fetch(`${url}/threads/${thread_id}`)).status);
    })();
    folder.write("agent.ts", AGENT);
    await waitForReload(program, 1);
    // The connection breaks, so that clients reconnect.
    await read;
    assert.doesNotMatch(streamed, /event: end/);
    const last = [...streamed.matchAll(/^id: (\d+)$/gm)].at(-1)?.[1] ?? "";
    const remainingFrames = await (await fetch(`${url}${location}`, { headers: { "last-event-id": last } })).text();
    assert.match(remainingFrames, /one said Hi!/);
    assert.match(remainingFrames, /event: end\ndata: .*"status":"success"/);
    asks = false;
    await asking;
    assert.deepEqual([...statuses], [200]);
    const runs = (await (await fetch(`${url}/threads/${thread_id}/runs`)).json()) as { status: string }[];
    assert.deepEqual(
      runs.map(({ status }) => status),
      ["success"],
    );
  });

  // The other runtimes load this package by the same loader.
  if (runtime === "node")
    it("reloads a LangGraph.js graph, and a waiting run continues in the new code", async () => {
      const graph = (text: string): string => `
import { interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
const ask = () => ({ messages: [{ type: "ai", content: "${text} " + interrupt("Name?") }] });
export const agent = new StateGraph(MessagesAnnotation).addNode("ask", ask).addEdge(START, "ask").compile();
`;
      using folder = createProject({ "agent.ts": graph("Hello") });
      symlinkSync(join(root, "node_modules"), join(folder.path, "node_modules"), "junction");
      await using program = folder.dev();
      const url = await waitForUrl(program);
      await program.printed(/^Watching/m);
      const { thread_id } = (await post(`${url}/threads`, {})) as { thread_id: string };
      const wait = `${url}/threads/${thread_id}/runs/wait`;
      assert.ok("__interrupt__" in (await post(wait, { assistant_id: "agent", input })));
      folder.write("agent.ts", graph("Good day"));
      await waitForReload(program, 1);
      const { messages } = (await post(wait, { assistant_id: "agent", command: { resume: "Ada" } })) as {
        messages: { content: string }[];
      };
      assert.equal(messages.at(-1)?.content, "Good day Ada");
    });
});
