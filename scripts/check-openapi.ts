/**
 * Checks lib/http/openapi.json with the tools of otherErrors: `redocly lint`, swagger-parser, and openapi-typescript, whose types must compile
 * with the right program of test/projects/openapi and refuse each marked line of the wrong one, on TypeScript 5 and 7.
 *
 *   node scripts/check-openapi.ts     needs `node scripts/install.mjs checks`
 */
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const DOCUMENT = "lib/http/openapi.json";
const PROGRAMS = "test/projects/openapi";
/** The tools are installed apart: openapi-typescript needs TypeScript 5, and the tests need none of them. */
const TOOLS = resolve("node_modules/.openapi");
const problems: string[] = [];

/** Runs a program of Node. Returns its output and its exit code. */
function run(args: readonly string[], cwd = "."): { readonly code: number | null; readonly output: string } {
  const env = { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" };
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd, env, encoding: "utf8" });
  return { code: status, output: `${stdout}${stderr}` };
}

/** Lints the document. A warning outside of the list of exceptions is a problem, and so is an exception that nothing needs. */
function lint(): void {
  const program = join(TOOLS, "node_modules/@redocly/cli/bin/cli.js");
  const config = "scripts/openapi/redocly.yaml";
  const { code, output } = run([program, "lint", DOCUMENT, "--config", config, "--format", "json"]);
  const json = /^\{[\s\S]*?^\}/m.exec(output)?.[0];
  if (json === undefined) {
    problems.push(`redocly lint printed no report:\n${output}`);
    return;
  }
  const { totals, problems: warnings } = JSON.parse(json) as LintReport;
  for (const { ruleId, message, location, ignored } of warnings)
    if (!ignored) problems.push(`redocly ${ruleId}: ${message} ${location[0]?.pointer ?? ""}`);
  const exceptions = readFileSync("scripts/openapi/.redocly.lint-ignore.yaml", "utf8").match(/^ {4}- /gm)?.length ?? 0;
  if (totals.ignored !== exceptions)
    problems.push(`redocly: ${exceptions} exceptions are listed, and ${totals.ignored} of them are needed`);
  if (code !== 0 && totals.errors === 0) problems.push(`redocly lint ended with ${code}`);
  console.log(`redocly lint: ${totals.errors} errors, ${totals.warnings} warnings, ${totals.ignored} exceptions`);
}

interface LintReport {
  readonly totals: { readonly errors: number; readonly warnings: number; readonly ignored: number };
  readonly problems: readonly {
    readonly ruleId: string;
    readonly message: string;
    readonly ignored?: boolean;
    readonly location: readonly { readonly pointer?: string }[];
  }[];
}

/** Validates the document by the schema of OpenAPI and resolves its references. */
async function validate(): Promise<void> {
  const require = createRequire(join(TOOLS, "package.json"));
  const { default: parser } = (await import(require.resolve("@apidevtools/swagger-parser"))) as {
    default: { validate(document: unknown): Promise<{ readonly info: { readonly title: string } }> };
  };
  await parser.validate(JSON.parse(readFileSync(DOCUMENT, "utf8"))).then(
    ({ info }) => console.log(`swagger-parser: ${info.title} is valid`),
    (error: Error) => problems.push(`swagger-parser: ${error.message}`),
  );
}

/** Returns the lines of a program that have an error, by the output of a compiler. */
const listErrorLines = (output: string, file: string): number[] => {
  const lines = [...output.matchAll(/^(.+?)\((\d+),\d+\): error/gm)].filter(([, at]) => at === file);
  return [...new Set(lines.map(([, , line]) => Number(line)))].sort((a, b) => a - b);
};

/** Generates types and compiles the programs with them. */
function checkTypes(): void {
  const folder = mkdtempSync(join(tmpdir(), "greenroom-openapi-"));
  cpSync(PROGRAMS, folder, { recursive: true });
  symlinkSync(join(TOOLS, "node_modules"), join(folder, "node_modules"));
  const generator = join(TOOLS, "node_modules/openapi-typescript/bin/cli.js");
  const generated = run([generator, resolve(DOCUMENT), "-o", join(folder, "openapi.d.ts")]);
  if (generated.code !== 0) problems.push(`openapi-typescript: ${generated.output}`);
  const wrong = readFileSync(join(folder, "wrong.ts"), "utf8").split("\n");
  const marked = wrong.flatMap((line, index) => (line.includes("// error:") ? [index + 1] : []));
  const compilers = {
    "TypeScript 5": join(TOOLS, "node_modules/typescript/bin/tsc"),
    "TypeScript 7": resolve("node_modules/typescript/bin/tsc"),
  };
  for (const [name, compiler] of Object.entries(compilers)) {
    const { output } = run([compiler, "-p", ".", "--pretty", "false"], folder);
    const refused = listErrorLines(output, "wrong.ts");
    const otherErrors = output.split("\n").filter((line) => line.includes("error TS") && !line.startsWith("wrong.ts("));
    if (otherErrors.length > 0) problems.push(`${name}: right.ts does not compile:\n${otherErrors.join("\n")}`);
    if (refused.join() !== marked.join())
      problems.push(`${name}: errors in the lines ${refused} of wrong.ts, and not in ${marked}:\n${output}`);
    console.log(
      `${name}: ${otherErrors.length} errors in right.ts, ${refused.length} of ${marked.length} lines refused in wrong.ts`,
    );
  }
  rmSync(folder, { recursive: true });
}

lint();
await validate();
checkTypes();
for (const problem of problems) console.error(problem);
process.exitCode = problems.length > 0 ? 1 : 0;
