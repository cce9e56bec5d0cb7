/**
 * Writes a project from each template with the packed package, installs all of them at once, and fails unless each compiles under
 * `strict`, passes its tests on Bun, Deno and Node, and builds its page if it has one.
 *
 *   node scripts/check-templates.ts TARBALL
 */
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, delimiter, join, resolve } from "node:path";
import process from "node:process";
import { promisify } from "node:util";

interface Manifest {
  readonly scripts: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly overrides?: Readonly<Record<string, string>>;
}

/** The commands that run a project's tests, with the forms of their lines that count the tests that passed. */
const TEST_COMMANDS: Readonly<Record<string, readonly [command: string, passed: RegExp]>> = {
  node: ["npm test", /^ℹ pass (\d+)$/m],
  // Bun ends a test after 5 s, which a busy machine may need.
  bun: ["bun test --timeout=60000", /^ *(\d+) pass$/m],
  deno: ["deno test -A", /^ok \| (\d+) passed/m],
};

const INSTALL = "npm install --prefer-offline --no-audit --no-fund";

const [tarballArg] = process.argv.slice(2);
if (tarballArg === undefined) throw new Error("Name the packed package: node scripts/check-templates.ts TARBALL");
const tarball = resolve(tarballArg);
const templates = readdirSync("templates").filter((name) => existsSync(join("templates", name, "package.json")));
const folder = mkdtempSync(join(tmpdir(), "greenroom-templates-"));
const env = {
  ...process.env,
  PATH: `${join(folder, "node_modules/.bin")}${delimiter}${resolve("node_modules/.bin")}${delimiter}${process.env.PATH}`,
  NO_COLOR: "1",
  DENO_NO_UPDATE_CHECK: "1",
};

/** Runs a command and returns what it prints. Throws with the output if it fails. */
async function run(command: string, cwd: string): Promise<string> {
  const [file = "", ...args] = command.split(" ");
  try {
    const { stdout, stderr } = await promisify(execFile)(file, args, { cwd, env, maxBuffer: 1 << 28 });
    return stdout + stderr;
  } catch (error) {
    const { stdout = "", stderr = "" } = error as { readonly stdout?: string; readonly stderr?: string };
    throw new Error(`${basename(cwd)}: ${command} failed:\n${stdout}${stderr}`, { cause: error });
  }
}

const readManifest = (path: string): Manifest => JSON.parse(readFileSync(path, "utf8")) as Manifest;

const writeJson = (path: string, content: object): void => writeFileSync(path, JSON.stringify(content));

/** Installs the packed package, and writes the projects by its command, as members of an npm workspace that is not installed yet. */
async function writeProjects(): Promise<void> {
  const root = join(folder, "package.json");
  const greenroom = `file:${tarball}`;
  writeJson(root, { private: true, dependencies: { greenroom } });
  await run(INSTALL, folder);
  let overrides: Readonly<Record<string, string>> = {};
  for (const template of templates) {
    await run(`greenroom init ${template} --template ${template}`, folder);
    const path = join(folder, template, "package.json");
    const manifest = readManifest(path);
    writeJson(path, { ...manifest, dependencies: { ...manifest.dependencies, greenroom } });
    overrides = { ...overrides, ...manifest.overrides };
  }
  // npm 11 fails to add workspaces to an installed project.
  for (const path of ["node_modules", "package-lock.json"]) rmSync(join(folder, path), { recursive: true });
  writeJson(root, { private: true, workspaces: templates, overrides });
}

/** Runs the tests of a project on each runtime. Returns how many there are. Throws unless all runtimes pass the same number. */
async function runTests(project: string): Promise<number> {
  const counts: Record<string, number> = {};
  for (const [runtime, [command, passed]] of Object.entries(TEST_COMMANDS)) {
    const output = await run(command, project);
    counts[runtime] = Number(passed.exec(output)?.[1] ?? 0);
  }
  const count = counts.node ?? 0;
  if (count === 0 || Object.values(counts).some((passedTests) => passedTests !== count))
    throw new Error(`${basename(project)}: tests that passed: ${JSON.stringify(counts)}`);
  return count;
}

async function checkProject(template: string): Promise<void> {
  const project = join(folder, template);
  await run("tsc --strict", project);
  const count = await runTests(project);
  const hasPage = readManifest(join(project, "package.json")).scripts.build !== undefined;
  if (hasPage) await run("npm run build", project);
  console.log(
    `${template}: compiles, ${count} tests pass on Bun, Deno and Node${hasPage ? ", the page is built" : ""}`,
  );
}

try {
  if (templates.length === 0) throw new Error("There is no template");
  await writeProjects();
  const began = performance.now();
  await run(INSTALL, folder);
  console.log(`One install for ${templates.length} projects: ${Math.round((performance.now() - began) / 1000)} s`);
  for (const template of templates) await checkProject(template);
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}
