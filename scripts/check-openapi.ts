/**
 * Checks lib/http/openapi.json, and the document of the agents of a sample, with the tools of others: `redocly lint`, swagger-parser, and
 * openapi-typescript, whose types must compile with the right programs of test/projects/openapi and refuse each marked line of the wrong
 * ones, on TypeScript 5 and 7.
 *
 *   node scripts/check-openapi.ts     needs `node scripts/install.mjs checks`
 */
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const DOCUMENT = "lib/http/openapi.json";
const PROGRAMS = "test/projects/openapi";
const SAMPLE = "scripts/openapi/sample-config.ts";
/** The tools are installed apart: openapi-typescript needs TypeScript 5, and the tests need none of them. */
const TOOLS = resolve("node_modules/.openapi");
const problems: string[] = [];

/** Runs a program of Node. Returns its output and its exit code. */
function run(args: readonly string[], cwd = "."): { readonly code: number | null; readonly output: string } {
  const env = { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" };
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd, env, encoding: "utf8" });
  return { code: status, output: `${stdout}${stderr}` };
}

/** Lints a document, and returns the report. Adds a problem and returns null if there is none. */
function lint(document: string): LintReport | null {
  const program = join(TOOLS, "node_modules/@redocly/cli/bin/cli.js");
  const config = "scripts/openapi/redocly.yaml";
  const { code, output } = run([program, "lint", document, "--config", config, "--format", "json"]);
  const json = /^\{[\s\S]*?^\}/m.exec(output)?.[0];
  if (json === undefined) {
    problems.push(`redocly lint of ${document} printed no report:\n${output}`);
    return null;
  }
  const report = JSON.parse(json) as LintReport;
  const { errors, warnings, ignored } = report.totals;
  if (code !== 0 && errors === 0) problems.push(`redocly lint of ${document} ended with ${code}`);
  console.log(`redocly lint: ${errors} errors, ${warnings} warnings, ${ignored} exceptions`);
  return report;
}

/**
 * Lints the document and the one with the agents of the sample. A warning outside of the list of exceptions is a problem, and so is an
 * exception that nothing needs. The sample has the same exceptions, and clients alone use the values of its agents.
 */
function lintAll(sample: string): void {
  const [report, ofSample] = [lint(DOCUMENT), lint(sample)];
  if (!report || !ofSample) return;
  for (const warning of report.problems) if (!warning.ignored) problems.push(formatWarning(warning));
  const exceptions = readExceptions();
  if (report.totals.ignored !== exceptions.size)
    problems.push(`redocly: ${exceptions.size} exceptions are listed, and ${report.totals.ignored} of them are needed`);
  const isException = ({ ruleId, location }: LintReport["problems"][number]): boolean =>
    exceptions.has(`${ruleId} ${location[0]?.pointer}`) ||
    (ruleId === "no-unused-components" && /\/schemas\/Values_/.test(location[0]?.pointer ?? ""));
  for (const warning of ofSample.problems)
    if (!isException(warning)) problems.push(`with agents: ${formatWarning(warning)}`);
}

/** Returns the exceptions of the list, each as its rule and its place. */
function readExceptions(): ReadonlySet<string> {
  const exceptions = new Set<string>();
  let rule = "";
  for (const line of readFileSync("scripts/openapi/.redocly.lint-ignore.yaml", "utf8").split("\n")) {
    rule = /^ {2}([\w-]+):$/.exec(line)?.[1] ?? rule;
    const pointer = /^ {4}- "(.*)"$/.exec(line)?.[1];
    if (pointer !== undefined) exceptions.add(`${rule} ${pointer}`);
  }
  return exceptions;
}

const formatWarning = ({ ruleId, message, location }: LintReport["problems"][number]): string =>
  `redocly ${ruleId}: ${message} ${location[0]?.pointer ?? ""}`;

interface LintReport {
  readonly totals: { readonly errors: number; readonly warnings: number; readonly ignored: number };
  readonly problems: readonly {
    readonly ruleId: string;
    readonly message: string;
    readonly ignored?: boolean;
    readonly location: readonly { readonly pointer?: string }[];
  }[];
}

/** Validates a document by the schema of OpenAPI and resolves its references. */
async function validate(document: string): Promise<void> {
  const require = createRequire(join(TOOLS, "package.json"));
  const { default: parser } = (await import(require.resolve("@apidevtools/swagger-parser"))) as {
    default: { validate(document: unknown): Promise<{ readonly info: { readonly title: string } }> };
  };
  await parser.validate(JSON.parse(readFileSync(document, "utf8"))).then(
    ({ info }) => console.log(`swagger-parser: ${info.title} is valid`),
    (error: Error) => problems.push(`swagger-parser: ${document}: ${error.message}`),
  );
}

/** Writes the document of the sample's agents to a file, as `greenroom openapi --agents` does. Throws if the command fails. */
function writeSample(file: string): void {
  const { code, output } = run(["server.ts", "openapi", "--agents", "--config", SAMPLE, "--output", file]);
  if (code !== 0) throw new Error(`greenroom openapi --agents ended with ${code}:\n${output}`);
  const { schemas } = (JSON.parse(readFileSync(file, "utf8")) as { components: { schemas: object } }).components;
  const count = Object.keys(schemas).filter((name) => name.startsWith("RunCreate_")).length;
  if (count < 8) throw new Error(`The document of the sample has the requests of ${count} agents`);
}

/** Returns the lines of a program that have an error, by the output of a compiler. */
const listErrorLines = (output: string, file: string): number[] => {
  const lines = [...output.matchAll(/^(.+?)\((\d+),\d+\): error/gm)].filter(([, at]) => at === file);
  return [...new Set(lines.map(([, , line]) => Number(line)))].sort((a, b) => a - b);
};

/** The declarations that the programs import, with their documents, and the names of these programs. */
const GENERATED = [
  { declarations: "openapi.d.ts", isSample: false, right: "right.ts", wrong: "wrong.ts" },
  { declarations: "agents.d.ts", isSample: true, right: "agents-right.ts", wrong: "agents-wrong.ts" },
] as const;

/** Generates the types of both documents into `folder`, and compiles the programs with them. */
function checkTypes(folder: string, sample: string): void {
  cpSync(PROGRAMS, folder, { recursive: true });
  symlinkSync(join(TOOLS, "node_modules"), join(folder, "node_modules"));
  const generator = join(TOOLS, "node_modules/openapi-typescript/bin/cli.js");
  for (const { declarations, isSample } of GENERATED) {
    const document = isSample ? sample : resolve(DOCUMENT);
    const generated = run([generator, document, "-o", join(folder, declarations)]);
    if (generated.code !== 0) problems.push(`openapi-typescript: ${generated.output}`);
  }
  const compilers = {
    "TypeScript 5": join(TOOLS, "node_modules/typescript/bin/tsc"),
    "TypeScript 7": resolve("node_modules/typescript/bin/tsc"),
  };
  for (const [name, compiler] of Object.entries(compilers)) {
    const { output } = run([compiler, "-p", ".", "--pretty", "false"], folder);
    const isOfWrong = (line: string): boolean => GENERATED.some(({ wrong }) => line.startsWith(`${wrong}(`));
    const otherErrors = output.split("\n").filter((line) => line.includes("error TS") && !isOfWrong(line));
    if (otherErrors.length > 0) problems.push(`${name}: right programs do not compile:\n${otherErrors.join("\n")}`);
    for (const { wrong } of GENERATED) {
      const lines = readFileSync(join(folder, wrong), "utf8").split("\n");
      const marked = lines.flatMap((line, index) => (line.includes("// error:") ? [index + 1] : []));
      const refused = listErrorLines(output, wrong);
      if (refused.join() !== marked.join())
        problems.push(`${name}: errors in the lines ${refused} of ${wrong}, and not in ${marked}:\n${output}`);
      console.log(
        `${name}: ${otherErrors.length} errors in right programs, ${refused.length} of ${marked.length} lines refused in ${wrong}`,
      );
    }
  }
}

const folder = mkdtempSync(join(tmpdir(), "greenroom-openapi-"));
try {
  const sample = join(folder, "agents.json");
  writeSample(sample);
  lintAll(sample);
  for (const document of [DOCUMENT, sample]) await validate(document);
  const programs = join(folder, "programs");
  mkdirSync(programs);
  checkTypes(programs, sample);
} finally {
  rmSync(folder, { recursive: true });
}
for (const problem of problems) console.error(problem);
process.exitCode = problems.length > 0 ? 1 : 0;
