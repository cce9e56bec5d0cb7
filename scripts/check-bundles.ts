/**
 * Bundles a program that embeds Greenroom, with esbuild (ESM and CommonJS) and `bun build --compile`, moves each bundle to an empty
 * folder and runs it there: a LangGraph run and a run of a function must end well. Run after a build.
 */
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import process from "node:process";
import { userFolder } from "./as-user.ts";

const PROGRAM = `
import { Annotation, END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { combine, createService, fromFunctions } from "greenroom";
import { langgraph } from "greenroom/langgraph";
import { nodeSqlite } from "greenroom/node-sqlite";
import { createHandler } from "greenroom/server";

const State = Annotation.Root({ ...MessagesAnnotation.spec, count: Annotation<number> });
const graph = new StateGraph(State)
  .addNode("counting", ({ messages }) => ({ count: messages.length, messages: [{ role: "assistant", content: "counted" }] }))
  .addEdge(START, "counting")
  .addEdge("counting", END);

async function main(): Promise<void> {
  const echo = async function* ({ messages }: { messages: readonly { content: unknown }[] }) {
    yield \`You said \${messages.at(-1)?.content}\`;
  };
  const service = await createService({
    storage: nodeSqlite(":memory:"),
    executor: combine(langgraph({ counter: graph }), fromFunctions({ echo })),
  });
  const handler = createHandler(service);
  for (const assistant_id of ["counter", "echo"]) {
    const body = JSON.stringify({ assistant_id, input: { messages: [{ role: "user", content: "Hello" }] } });
    const answer = await handler(new Request("http://localhost/runs/wait", { method: "POST", body }));
    const { count, messages } = (await answer.json()) as { count?: number; messages: { content: string }[] };
    console.log(answer.status, count, messages.at(-1)?.content);
  }
  await service.stop();
}
void main();
`;
const EXPECTED = "200 1 counted\n200 undefined You said Hello\n";

const env = { ...process.env, PATH: `${resolve("node_modules/.bin")}${delimiter}${process.env.PATH}` };
function run(program: string, args: readonly string[], cwd: string): string {
  const { status, stdout, stderr } = spawnSync(program, args, { cwd, env, encoding: "utf8" });
  if (status !== 0) throw new Error(`${program} ${args.join(" ")} ended with ${status}:\n${stdout}${stderr}`);
  return stdout;
}

using user = userFolder();
writeFileSync(user.at("program.ts"), PROGRAM);
const empty = mkdtempSync(join(tmpdir(), "greenroom-bundle-"));
const esbuild = ["program.ts", "--bundle", "--platform=node", "--log-level=error"];
const bundles: readonly (readonly [
  file: string,
  bundler: string,
  args: readonly string[],
  runner: readonly string[],
])[] = [
  ["esm.mjs", "esbuild", [...esbuild, "--format=esm", "--outfile=esm.mjs"], ["node"]],
  ["cjs.cjs", "esbuild", [...esbuild, "--format=cjs", "--outfile=cjs.cjs"], ["node"]],
  ["compiled", "bun", ["build", "--compile", "program.ts", "--outfile", "compiled"], []],
];
try {
  for (const [file, bundler, args, runner] of bundles) {
    run(bundler, args, user.path);
    cpSync(user.at(file), join(empty, file));
    const [program = "", ...rest] = [...runner, join(empty, file)];
    const printed = run(program, rest, empty);
    if (printed !== EXPECTED) throw new Error(`${file} (${bundler}) printed:\n${printed}`);
    console.log(`${file}: bundled by ${bundler}, runs a graph and a function`);
  }
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
} finally {
  rmSync(empty, { recursive: true, force: true });
}
