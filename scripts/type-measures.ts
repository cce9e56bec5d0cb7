/** Measures what the types of agents cost the compiler, and reads the texts that editors show for them. */
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import process from "node:process";
import * as ts from "typescript-5";

/** The maximum number of instantiations for each agent with three schemas, one `run` and one `stream`. */
const MAX_INSTANTIATIONS_PER_AGENT = 2_000;

/** Writes a program of agents with three schemas each, which runs and streams each of them. */
const writeAgents = (count: number): string => {
  const numbers = Array.from({ length: count }, (_, number) => number);
  const agents = numbers.map(
    (n) => `const a${n} = agent({
  state: v.object({ n${n}: v.optional(v.number(), 0) }),
  context: v.object({ tier${n}: v.picklist(["free", "pro"]) }),
  input: v.object({ order${n}: v.string() }),
}, ({ input, state, context }) => ({ n${n}: state.n${n} + input.order${n}.length + context.tier${n}.length }));`,
  );
  const calls = numbers.map(
    (n) => `const options${n} = { context: { tier${n}: "pro" } } as const;
(await service.runs.run("a${n}", { order${n}: "x" }, options${n})).n${n} satisfies number | undefined;
for await (const { data } of service.agent("a${n}").stream({ order${n}: "x" }, options${n})) data.n${n};`,
  );
  return `import { agent } from "greenroom";
import { createApp } from "greenroom/app";
import * as v from "valibot";
${agents.join("\n")}
const { service } = await createApp({ database: ":memory:", agents: { ${numbers.map((n) => `a${n}`).join(", ")} } });
${calls.join("\n")}
`;
};

/** Compiles a program of so many agents. Returns its number of instantiations. Throws if it does not compile. */
function countInstantiations(folder: string, count: number): number {
  const cwd = join(folder, `agents-${count}`);
  mkdirSync(cwd);
  writeFileSync(join(cwd, "agents.ts"), writeAgents(count));
  writeFileSync(join(cwd, "tsconfig.json"), '{ "extends": "../tsconfig.json", "include": ["agents.ts"] }\n');
  const tsc = resolve("node_modules/typescript/bin/tsc");
  const args = [tsc, "-p", ".", "--preserveSymlinks", "true", "--extendedDiagnostics"];
  const { status, stdout } = spawnSync(process.execPath, args, { cwd, encoding: "utf8" });
  const [, instantiations] = /^Instantiations:\s+(\d+)$/m.exec(stdout) ?? [];
  if (status !== 0 || instantiations === undefined) throw new Error(`${count} agents do not compile:\n${stdout}`);
  return Number(instantiations);
}

/** Returns a problem if an agent costs too many instantiations, or if a later agent costs more than an earlier one. */
export function findCostProblems(folder: string): readonly string[] {
  const [one = 0, some = 0, many = 0] = [1, 50, 200].map((count) => countInstantiations(folder, count));
  const [first, later] = [(some - one) / 49, (many - some) / 150].map(Math.round) as [number, number];
  console.log(`Instantiations: ${one} for one agent, ${some} for 50 (${first} each), ${many} for 200 (${later} each)`);
  const problems: string[] = [];
  if (Math.max(first, later) > MAX_INSTANTIATIONS_PER_AGENT)
    problems.push(`an agent costs ${Math.max(first, later)} instantiations, more than ${MAX_INSTANTIATIONS_PER_AGENT}`);
  if (later > first * 1.25) problems.push(`the cost of an agent grows with their number: ${first}, then ${later}`);
  return problems;
}

/** Returns a problem for each variable of a file whose text in editors is not the one in the comment above it: `// hover: TEXT`. */
export function findHoverProblems(folder: string, file: string): readonly string[] {
  const { config } = ts.readConfigFile(join(folder, "tsconfig.json"), ts.sys.readFile) as { config: unknown };
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, folder);
  const path = join(folder, file);
  const program = ts.createProgram([path], { ...options, preserveSymlinks: true });
  const checker = program.getTypeChecker();
  const source = program.getSourceFile(path);
  if (!source) throw new Error(`${file} was not read`);
  const expected = [...readFileSync(path, "utf8").matchAll(/^\/\/ hover: (.+)\n(?:export )?const (\w+)/gm)];
  if (expected.length === 0) throw new Error(`${file} has no comment "hover:"`);
  const texts = new Map<string, string>();
  for (const statement of source.statements.filter(ts.isVariableStatement)) {
    for (const { name } of statement.declarationList.declarations)
      texts.set(name.getText(), checker.typeToString(checker.getTypeAtLocation(name), name));
  }
  return expected.flatMap(([, text = "", name = ""]) =>
    texts.get(name) === text ? [] : [`${file}: the text of ${name} is ${texts.get(name)}, not ${text}`],
  );
}
