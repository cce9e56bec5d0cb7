/**
 * Runs test files on Bun, Deno and Node and ends with one line, `N passed, N failed`, for all of them.
 *
 *   npm test -- [--runtime bun,deno,node] [--file PART]... [--seed N]
 *
 *   --runtime    only these
 *   --file       every test file whose path has this part, on each of the runtimes
 *   --seed       the first seed of the simulation, to repeat an earlier run's; each commit has others
 *   --all        every file on every runtime, more random tests, the clients with the lowest versions of LangGraph, too, and then the
 *                tests in a browser: `npm run test:all`
 *   --versions   a folder. Runs nothing but the tests of LangGraph and its clients, with the packages of that folder
 *
 * Without --file and --all, scripts/test-matrix.ts says what runs where. The tests of the LangGraph executor run once more on Node with
 * the lowest versions of the peer range.
 */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { canRun, getRuntimes, RUNTIMES, type Runtime } from "./test-matrix.ts";
import { countLine, countReport, formatSlowest, type Outcome } from "./test-outcomes.ts";

const { values } = parseArgs({
  options: {
    runtime: { type: "string", default: "bun,deno,node" },
    file: { type: "string", multiple: true },
    versions: { type: "string" },
    seed: { type: "string" },
    all: { type: "boolean", default: false },
  },
});
/** The time limit of a lane, also on a slow machine. */
const limit_ms = (values.all ? 60 : 25) * 60_000;
const files = globSync("test/**/*.test.ts")
  .map((file) => file.replaceAll("\\", "/"))
  .filter((file) => !file.startsWith("test/browser/"))
  .filter((file) => !values.file || values.file.some((part) => file.includes(part)))
  .sort();

const bin = resolve("node_modules/.bin");

/** Returns the command of Node. npm installs its binary; on a machine that has Bun alone, Bun runs the package of the binary. */
function getNodeCommand(): string[] {
  if (existsSync("node_modules/node/bin/node")) return ["node"];
  const { version } = JSON.parse(readFileSync("node_modules/node/package.json", "utf8")) as { version: string };
  return ["bun", "x", "--package", `node-${process.platform}-${process.arch}@${version}`, "node"];
}

const listFiles = (runtime: Runtime): string[] =>
  files.filter((file) => canRun(file, runtime) && (values.all || values.file || getRuntimes(file).includes(runtime)));

/** Returns the first seed of the commit; 1 outside a checkout. */
function readCommitSeed(): number {
  const { stdout } = spawnSync("git", ["rev-parse", "HEAD"], { encoding: "utf8" });
  return /^[0-9a-f]{40}/.test(stdout ?? "") ? Number.parseInt(stdout.slice(0, 6), 16) + 1 : 1;
}
const seed = values.seed ?? process.env.GREENROOM_TEST_SEED ?? String(readCommitSeed());
if (!/^[1-9]\d{0,8}$/.test(seed)) {
  console.error(`Seed ${seed} is not a whole number from 1 to 999999999`);
  process.exit(2);
}

/** The files of each lane. Lanes take about as long and run beside each other; all other files are one more lane. */
const LANES: Readonly<Record<Runtime, readonly RegExp[]>> = {
  bun: [/^test\/simulation\//, /^test\/adapters\//, /^test\/e2e\//],
  deno: [/^test\/adapters\//],
  node: [/^test\/adapters\//, /^test\/compat\//, /^test\/(?:e2e|repo)\//],
};
const splitIntoLanes = (runtime: Runtime): string[][] => {
  const lanes = [...LANES[runtime], /^/];
  const byLane = Map.groupBy(listFiles(runtime), (file) => lanes.findIndex((lane) => lane.test(file)));
  return [...byLane.values()];
};

/** The tests that depend on the version of LangGraph; `CLIENTS` may depend on it. */
const LANGGRAPH =
  /^test\/(?:adapters\/(?:langgraph\/|sql\/pruning\.langgraph)|compat\/(?:remote-graph|one-answer)\.test)/;
const CLIENTS = /^test\/compat\/(?:thread-streams|sdk)\.test/;
const LOWEST = "node_modules/.lowest";

/** The commands that run a lane. A lane runs in one process, because loading the code takes longer than most files do. */
const commands: Readonly<Record<Runtime, (report: string, lane: readonly string[]) => string[]>> = {
  bun: (report, lane) => [
    "bun",
    "test",
    "--timeout=60000",
    "--reporter=junit",
    `--reporter-outfile=${report}`,
    ...lane.map((file) => `./${file}`),
  ],
  deno: (report, lane) => {
    // Deno loads everything anew for each file it is given.
    const all = report.replace(/\.xml$/, ".test.ts");
    writeFileSync(all, lane.map((file) => `import ${JSON.stringify(pathToFileURL(file).href)};\n`).join(""));
    return ["deno", "test", "-A", "--no-check", `--junit-path=${report}`, all];
  },
  node: (report, lane) => [
    ...getNodeCommand(),
    // Much is made and little is kept.
    "--max-semi-space-size=64",
    "--import=./scripts/light-tests.ts",
    "scripts/test-node.ts",
    report,
    ...lane,
  ],
};

/** A process that runs tests. */
interface Lane {
  readonly name: string;
  readonly command: readonly string[];
  readonly files: number;
  readonly env: NodeJS.ProcessEnv;
  /** A JUnit report that the process writes. Without one its output ends with `N passed, N failed`. */
  readonly report?: string;
}

function run({ name, command: [program = "", ...args], files, env, report }: Lane): Promise<Outcome> {
  const started = performance.now();
  return new Promise((done) => {
    const chunks: Buffer[] = [];
    const child = spawn(program, args, { env, stdio: ["ignore", "pipe", "pipe"] });
    const timer = setTimeout(() => child.kill("SIGKILL"), limit_ms);
    child.stdout.on("data", (bytes: Buffer) => chunks.push(bytes));
    child.stderr.on("data", (bytes: Buffer) => chunks.push(bytes));
    child.on("error", (error) => chunks.push(Buffer.from(`${error.message}\n`)));
    // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: prints what came of a process, and why it ended
    child.on("close", (exit, signal) => {
      clearTimeout(timer);
      const output = Buffer.concat(chunks).toString();
      const xml = report && existsSync(report) ? readFileSync(report, "utf8") : "";
      const outcome = report ? countReport(xml, exit) : countLine(output, exit);
      if (outcome.failed > 0) console.log(output);
      const seconds = ((performance.now() - started) / 1000).toFixed(1);
      const end = signal ? `, ended by ${signal}` : "";
      console.log(`${name}: ${outcome.passed} passed, ${outcome.failed} failed (${files} files, ${seconds} s${end})`);
      if (formatSlowest(xml) !== "") console.log(`  ${formatSlowest(xml)}`);
      done(outcome);
    });
  });
}

/** Returns the environment of a process that imports the packages installed in the folder `versions`. */
const createVersionEnv = (versions: string): Readonly<Record<string, string>> => ({
  GREENROOM_TEST_VERSIONS: resolve(versions),
  NODE_OPTIONS: `${process.env.NODE_OPTIONS ?? ""} --import ${pathToFileURL("test/versions/use.mjs").href}`,
});

/** Ends the program if the lowest versions are missing: their tests must not be left out. */
function requireVersions(versions: string): void {
  if (existsSync(join(versions, "package.json"))) return;
  console.error(`${versions} has no packages. Install them: node scripts/install.mjs testing`);
  process.exit(2);
}

const readManifest = (folder: string): { name: string; version: string; dependencies: object } =>
  JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));

function formatVersions(versions: string): string {
  return Object.keys(readManifest(versions).dependencies)
    .map((name) => readManifest(join(versions, "node_modules", name)))
    .map(({ name, version }) => `${name} ${version}`)
    .join(", ");
}

function createLane(runtime: Runtime, files: readonly string[], versions?: string): Lane {
  if (versions) requireVersions(versions);
  const report = join(folder, `${runtime}-${reports++}.xml`);
  return {
    name: versions ? `${runtime} with ${formatVersions(versions)}` : runtime,
    command: commands[runtime](report, files),
    files: files.length,
    env: versions ? { ...env, ...createVersionEnv(versions) } : env,
    report,
  };
}

/** Returns the lanes of each runtime, and one with the lowest version of LangGraph. With `--versions`, that lane alone. */
function createLanes(): Lane[] {
  const isVersioned = (file: string): boolean =>
    LANGGRAPH.test(file) || ((values.all || values.versions !== undefined) && CLIENTS.test(file));
  const versioned = files.filter(isVersioned);
  if (values.versions) return [createLane("node", versioned, values.versions)];
  const usual = runtimes.flatMap((runtime) => splitIntoLanes(runtime).map((files) => createLane(runtime, files)));
  if (!runtimes.includes("node") || versioned.length === 0) return usual;
  return [...usual, createLane("node", versioned, LOWEST)];
}

const named = values.runtime.split(",");
const unknown = named.filter((name) => !RUNTIMES.some((runtime) => runtime === name));
const runtimes = RUNTIMES.filter((runtime) => named.includes(runtime) && listFiles(runtime).length > 0);
if (unknown.length > 0 || (runtimes.length === 0 && !values.versions)) {
  console.error(
    unknown.length > 0 ? `Unknown runtime ${unknown.join(", ")}: use bun, deno, node` : "No test file matches",
  );
  process.exit(2);
}
const folder = mkdtempSync(join(tmpdir(), "greenroom-test-"));
const env = {
  ...process.env,
  PATH: `${bin}${delimiter}${process.env.PATH}`,
  NO_COLOR: "1",
  DENO_NO_UPDATE_CHECK: "1",
  // For what each process of a run would make again for itself.
  GREENROOM_TEST_SHARED: folder,
  GREENROOM_TEST_SEED: seed,
  GREENROOM_TEST_ALL: values.all || values.versions ? "1" : "0",
  // Tests start many processes of Node: what one has compiled the next need not.
  NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? join(folder, "compiled"),
};
console.log(`Seeds from ${seed}; again with --seed ${seed}`);
let reports = 0;
try {
  // Side by side: much of it is waiting.
  const outcomes = await Promise.all(createLanes().map(run));
  // Then the pages: a busy machine makes them slow.
  if (values.all && !values.file && runtimes.includes("node")) {
    const pages = globSync("test/browser/**/*.test.ts").length;
    outcomes.push(
      await run({
        name: "browser",
        command: [...getNodeCommand(), "scripts/test-browser.ts", "--all"],
        files: pages,
        env,
      }),
    );
  }
  const sum = (key: keyof Outcome): number => outcomes.reduce((total, outcome) => total + outcome[key], 0);
  console.log(`${sum("passed")} passed, ${sum("failed")} failed`);
  process.exitCode = sum("failed") > 0 ? 1 : 0;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
