/**
 * Bundles programs that embed Greenroom, with esbuild (ESM and CommonJS) and `bun build --compile`, moves each bundle to an empty
 * folder and runs it there: their runs must succeed. Run after a build.
 */
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import process from "node:process";
import { userFolder } from "./as-user.ts";

/** Returns a program that runs a graph and a function. `start` is the code that declares `handler` and `stop`. */
const program = (imports: string, start: string, graphs: boolean): string => `
${imports}
const echo = async function* ({ messages }: { messages: readonly { content?: unknown }[] }) {
  yield \`You said \${messages.at(-1)?.content}\`;
};
async function main(): Promise<void> {
  ${start}
  for (const assistant_id of ${graphs ? '["counter", "echo"]' : '["echo"]'}) {
    const body = JSON.stringify({ assistant_id, input: { messages: [{ role: "user", content: "Hello" }] } });
    const answer = await handler(new Request("http://localhost/runs/wait", { method: "POST", body }));
    const { count, messages } = (await answer.json()) as { count?: number; messages: { content: string }[] };
    console.log(answer.status, count, messages.at(-1)?.content);
  }
  await stop();
}
void main();
`;
const GRAPH = `
import { Annotation, END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
const State = Annotation.Root({ ...MessagesAnnotation.spec, count: Annotation<number> });
const graph = new StateGraph(State)
  .addNode("counting", ({ messages }) => ({ count: messages.length, messages: [{ role: "assistant", content: "counted" }] }))
  .addEdge(START, "counting")
  .addEdge("counting", END);
`;
const SERVICE = `
import { combine, createService, fromFunctions } from "greenroom";
import { langgraph } from "greenroom/langgraph";
import { nodeSqlite } from "greenroom/node-sqlite";
import { createHandler } from "greenroom/server";
`;
const APP = 'import { createApp } from "greenroom/app";';
const startApp = (agents: string): string =>
  `const { fetch: handler, stop } = await createApp({ database: ":memory:", agents: ${agents} });`;
const SAID = "200 undefined You said Hello\n";
const COUNTED = `200 1 counted\n${SAID}`;

interface Program {
  readonly what: string;
  readonly source: string;
  readonly expected: string;
  /** The installed packages; by default all of the checkout. */
  readonly packages?: readonly string[];
  /** True for a program that runs before a release only, because two others cover the same together. */
  readonly at_release?: boolean;
}
const programs: readonly Program[] = [
  {
    what: "createService with a graph and a function",
    source: program(
      GRAPH + SERVICE,
      `const service = await createService({
        storage: nodeSqlite(":memory:"),
        executor: combine(langgraph({ counter: graph }), fromFunctions({ echo })),
      });
      const [handler, stop] = [createHandler(service), () => service.stop()];`,
      true,
    ),
    expected: COUNTED,
  },
  {
    what: "createApp with a graph and a function",
    source: program(GRAPH + APP, startApp("{ counter: graph, echo }"), true),
    expected: COUNTED,
    at_release: true,
  },
  {
    what: "createApp with a function, without the optional packages",
    source: program(APP, startApp("{ echo }"), false),
    expected: SAID,
    packages: Object.keys((JSON.parse(readFileSync("package.json", "utf8")) as { dependencies: object }).dependencies),
  },
];

const env = { ...process.env, PATH: `${resolve("node_modules/.bin")}${delimiter}${process.env.PATH}` };
function run(program: string, args: readonly string[], cwd: string): string {
  const { status, stdout, stderr } = spawnSync(program, args, { cwd, env, encoding: "utf8" });
  if (status !== 0) throw new Error(`${program} ${args.join(" ")} ended with ${status}:\n${stdout}${stderr}`);
  return stdout;
}

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
for (const { what, source, expected, packages, at_release } of programs) {
  if (at_release && process.env.GREENROOM_TEST_ALL !== "1") continue;
  using user = userFolder(packages);
  writeFileSync(user.at("program.ts"), source);
  const empty = mkdtempSync(join(tmpdir(), "greenroom-bundle-"));
  try {
    for (const [file, bundler, args, runner] of bundles) {
      run(bundler, args, user.path);
      cpSync(user.at(file), join(empty, file));
      const [program = "", ...programArgs] = [...runner, join(empty, file)];
      const printed = run(program, programArgs, empty);
      if (printed !== expected) throw new Error(`${what}, ${file} (${bundler}) printed:\n${printed}`);
      console.log(`${what}: ${file} by ${bundler} runs`);
    }
  } catch (error) {
    console.error((error as Error).message);
    process.exitCode = 1;
  } finally {
    rmSync(empty, { recursive: true, force: true });
  }
}
