/** The Next.js example: built, started and driven, with the package as its users have it. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { after, before, describe, it } from "node:test";
import { type Program, root, start } from "../support/programs.ts";
import { converse, createClient, disconnect, type Hosted, human, leaveCounting, until } from "./host-client.ts";

const NEXT = "node_modules/next/dist/bin/next";
const env = { NEXT_TELEMETRY_DISABLED: "1", CI: "1" };
// Inside the checkout, so that the packages of the application are found; a folder that git does not see.
const places = join(root, ".greenroom");
let app = "";
const served: Program[] = [];

/** The package as npm installs it: compiled, without the sources. */
function installPackage(): void {
  const folder = join(app, "node_modules/greenroom");
  mkdirSync(folder, { recursive: true });
  const { version, exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    readonly version: string;
    readonly exports: Readonly<Record<string, string | { readonly default: string }>>;
  };
  const targets = Object.entries(exports).map(([name, at]) => [name, typeof at === "string" ? at : at.default]);
  const manifest = { name: "greenroom", version, type: "module", exports: Object.fromEntries(targets) };
  writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const args = [tsc, "-p", "tsconfig.build.json", "--outDir", join(folder, "dist"), "--declaration", "false"];
  spawnSync(process.execPath, [...args, "--declarationMap", "false", "--isolatedDeclarations", "false"], { cwd: root });
  assert.ok(existsSync(join(folder, "dist/server.js")), "the package was compiled");
}

/** Adds a LangGraph.js graph beside the example's function. */
function addGraph(): void {
  const route = join(app, "app/api/agents/[...path]/route.ts");
  const text = readFileSync(route, "utf8")
    .replace("import { createService, fromFunctions,", "import { combine, createService, fromFunctions,")
    .replace(
      "\n// The service of the process.",
      `import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { langgraph } from "greenroom/langgraph";
const State = Annotation.Root({ count: Annotation<number> });
const graph = new StateGraph(State).addNode("double", ({ count }) => ({ count: 2 * count })).addEdge(START, "double");
$&`,
    )
    .replace("executor: fromFunctions({", "executor: combine(langgraph({ doubling: graph }), fromFunctions({")
    .replace(/^ {4}\}\),$/m, "    })),");
  writeFileSync(route, text);
}

/** Next's own command. Its server is a process of its own there, which only SIGTERM reaches: not killed, but asked to end. */
function serve(mode: "start" | "dev"): Program {
  const args = [mode, "--hostname", "127.0.0.1", "--port", "0"];
  const program = start(NEXT, args, { cwd: app, env: { ...env, AGENTS_DB: `${mode}.db` }, command: [] });
  served.push(program);
  return program;
}

async function createHosted(program: Program): Promise<Hosted> {
  const [, url] = await program.printed(/Local:\s+(http:\/\/\S+)/);
  return { apiUrl: `${url}/api/agents`, graph: "counter", input: human("3"), says: /^1 2 3 $/ };
}

describe("Next.js", () => {
  before(() => {
    mkdirSync(places, { recursive: true });
    app = mkdtempSync(join(places, "next-"));
    cpSync(join(root, "examples/next"), app, { recursive: true });
    installPackage();
    addGraph();
  });
  after(async () => {
    for (const program of served) await program.kill("SIGTERM");
    rmSync(app, { recursive: true, force: true });
    if (readdirSync(places).length === 0) rmdirSync(places);
  });

  it("serves agents by a route handler from a build", { timeout: 400_000 }, async () => {
    await using build = start(NEXT, ["build"], { cwd: app, env, command: [] });
    assert.equal(await build.ended, 0, build.output());
    assert.ok(!existsSync(join(app, "agents.db")), "a build opens no database");
    const program = serve("start");
    const host = await createHosted(program);
    assert.deepEqual(await (await fetch(`${host.apiUrl}/ok`)).json(), {
      ok: true,
      services: { worker: { ok: true }, database: { ok: true } },
    });
    const nothing = await fetch(`${host.apiUrl}/nowhere`);
    assert.deepEqual(
      [nothing.status, await nothing.json()],
      [404, { detail: "There is nothing at this path", code: "route_not_found" }],
    );
    assert.equal((await fetch(`${host.apiUrl}smith/ok`)).status, 404);
    await converse(host);
    await disconnect(host);
    assert.deepEqual(await createClient(host).runs.wait(null, "doubling", { input: { count: 21 } }), { count: 42 });
    // Tokens come while the run goes on, and leaving in the middle ends it.
    await leaveCounting(host);
    await program.kill("SIGTERM");
  });

  it("serves agents in development, and their new code after a reload of the module", {
    timeout: 400_000,
  }, async () => {
    const host = await createHosted(serve("dev"));
    await converse(host);
    const client = createClient(host);
    const { thread_id } = await client.threads.create();
    const counted = async (): Promise<string> =>
      JSON.stringify(await client.runs.wait(thread_id, "counter", { input: human("3") }));
    assert.match(await counted(), /"1 2 3 "/);
    const route = join(app, "app/api/agents/[...path]/route.ts");
    const code = readFileSync(route, "utf8");
    for (const sign of ["#", "+"]) {
      const changed = code.replace(/yield `\$\{n\} `/, `yield \`${sign}\${n} \``);
      assert.notEqual(changed, code);
      writeFileSync(route, changed);
      await until(async () => (await counted()).includes(`"${sign}1 ${sign}2 ${sign}3 "`));
    }
    const { messages } = (await client.threads.getState(thread_id)).values as { messages: { content: string }[] };
    assert.equal(messages[1]?.content, "1 2 3 ");
  });
});
