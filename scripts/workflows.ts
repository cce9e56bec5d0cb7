/** Checks .github/workflows: every command exists, and a release verifies everything before it publishes. */
import { spawnSync } from "node:child_process";
import { existsSync, globSync, readFileSync } from "node:fs";

interface Step {
  readonly uses?: string;
  readonly run?: string;
}

interface Job {
  readonly needs?: string | readonly string[];
  readonly permissions?: Readonly<Record<string, string>>;
  readonly steps?: readonly Step[];
}

interface Workflow {
  readonly on?: Readonly<Record<string, { readonly tags?: readonly string[] } | null>>;
  readonly permissions?: Readonly<Record<string, string>>;
  readonly jobs?: Readonly<Record<string, Job>>;
}

interface Command {
  readonly job: string;
  readonly index: number;
  readonly line: string;
}

const FOLDER = ".github/workflows";
const PUBLISH = 'node scripts/release.ts "$GITHUB_REF_NAME"';
/** The commands of a release, in their order. */
const RELEASE = [`${PUBLISH} --verify-tag`, ".ci/run", "npm run test:all", PUBLISH];

/** One line for each problem. `scripts` are those of package.json; `env` has Bun, which parses YAML, in its PATH. */
export function problemsOfWorkflows(scripts: Readonly<Record<string, string>>, env: NodeJS.ProcessEnv): string[] {
  const problems: string[] = [];
  const workflows = new Map<string, Workflow>();
  const files = globSync(`${FOLDER}/*.{yml,yaml}`).sort();
  for (const [index, { value, error }] of parse(files, env).entries()) {
    const file = files[index] ?? "";
    if (error !== undefined) problems.push(`${file}: is not YAML: ${error}`);
    else if (typeof value !== "object" || value === null || Array.isArray(value))
      problems.push(`${file}: is not a YAML mapping`);
    else workflows.set(file.slice(FOLDER.length + 1), value);
  }
  for (const [file, workflow] of workflows) {
    const found = [...problemsOfSteps(workflow, scripts), ...problemsOfPermissions(workflow)];
    problems.push(...found.map((problem) => `${FOLDER}/${file}: ${problem}`));
  }
  const required: readonly (readonly [file: string, check: (workflow: Workflow) => string[]])[] = [
    ["ci.yml", problemsOfCi],
    ["release.yml", problemsOfRelease],
  ];
  for (const [file, check] of required) {
    const workflow = workflows.get(file);
    if (workflow) problems.push(...check(workflow).map((problem) => `${FOLDER}/${file}: ${problem}`));
    else if (!existsSync(`${FOLDER}/${file}`)) problems.push(`${FOLDER}/${file}: is missing`);
  }
  return problems;
}

const PARSE = `const parse = (yaml) => {
  try { return { value: Bun.YAML.parse(yaml) }; } catch (error) { return { error: error.message }; }
};
console.log(JSON.stringify((await Bun.stdin.json()).map(parse)));`;

function parse(
  files: readonly string[],
  env: NodeJS.ProcessEnv,
): { readonly value?: unknown; readonly error?: string }[] {
  const input = JSON.stringify(files.map((file) => readFileSync(file, "utf8")));
  const { status, stdout, stderr, error } = spawnSync("bun", ["-e", PARSE], { input, encoding: "utf8", env });
  if (status !== 0) throw new Error(`Bun cannot parse the workflows: ${error?.message ?? stderr}`);
  return JSON.parse(stdout);
}

const jobsOf = (workflow: Workflow): [string, Job][] => Object.entries(workflow.jobs ?? {});

function commandsOf(workflow: Workflow): Command[] {
  return jobsOf(workflow).flatMap(([job, { steps = [] }]) =>
    steps
      .flatMap(({ run = "" }) => run.split("\n"))
      .map((line) => line.trim())
      .filter((line) => line !== "" && !line.startsWith("#"))
      .map((line, index) => ({ job, index, line })),
  );
}

function problemsOfSteps(workflow: Workflow, scripts: Readonly<Record<string, string>>): string[] {
  const problems: string[] = [];
  for (const { job, line } of commandsOf(workflow)) {
    const problem = problemOfCommand(line, scripts);
    if (problem) problems.push(`job ${job}: ${line}: ${problem}`);
  }
  for (const [job, { steps = [] }] of jobsOf(workflow))
    for (const { uses } of steps)
      if (uses !== undefined && !/^[\w.-]+\/[\w./-]+@(?:[0-9a-f]{40}|v\d+)$/.test(uses))
        problems.push(`job ${job}: ${uses}: name a commit or a major version after the @`);
  return problems;
}

function problemOfCommand(line: string, scripts: Readonly<Record<string, string>>): string | undefined {
  if (line === "npm ci") return undefined;
  const [program = "", first = "", second = ""] = line.split(/\s+/);
  if (program === "npm") {
    const script = first === "run" ? second : first;
    return Object.hasOwn(scripts, script) ? undefined : `package.json has no script ${script}`;
  }
  const file = program === "node" || program === "bun" ? first : program;
  return existsSync(file) ? undefined : `there is no file ${file}`;
}

/** Only the job that publishes gets more than the right to read the repository. */
function problemsOfPermissions(workflow: Workflow): string[] {
  const problems: string[] = [];
  const shown = (permissions: unknown): string => JSON.stringify(permissions) ?? "missing";
  const read = shown({ contents: "read" });
  const publish = shown({ contents: "read", "id-token": "write" });
  if (shown(workflow.permissions) !== read)
    problems.push(`permissions: is ${shown(workflow.permissions)}; write ${read}`);
  for (const [job, { permissions }] of jobsOf(workflow)) {
    const publishes = commandsOf(workflow).some((command) => command.job === job && command.line === PUBLISH);
    const wanted = publishes ? publish : read;
    if (shown(permissions ?? workflow.permissions) !== wanted)
      problems.push(`job ${job}: permissions: is ${shown(permissions ?? workflow.permissions)}; write ${wanted}`);
  }
  return problems;
}

function problemsOfCi(workflow: Workflow): string[] {
  const problems = ["push", "pull_request"]
    .filter((event) => !Object.hasOwn(workflow.on ?? {}, event))
    .map((event) => `on: ${event} is missing`);
  if (!commandsOf(workflow).some(({ line }) => line === ".ci/run")) problems.push("does not run .ci/run");
  return problems;
}

// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one check after the other, each with its text
function problemsOfRelease(workflow: Workflow): string[] {
  const problems: string[] = [];
  const tags = { push: { tags: ["v*"] } };
  if (JSON.stringify(workflow.on) !== JSON.stringify(tags)) problems.push(`on: write ${JSON.stringify(tags)}`);
  for (const [job, { steps = [], ...rest }] of jobsOf(workflow))
    for (const part of [rest, ...steps])
      for (const key of ["if", "continue-on-error"])
        if (key in part) problems.push(`job ${job}: ${key}: a release must not skip a step or ignore its failure`);
  const commands = commandsOf(workflow);
  const found = RELEASE.map((wanted) => commands.filter(({ line }) => line === wanted));
  for (const [at, wanted] of RELEASE.entries()) {
    const [first, ...more] = found[at] ?? [];
    if (!first || more.length > 0) problems.push(`runs ${wanted} ${more.length + (first ? 1 : 0)} times; run it once`);
    const before = found[at - 1]?.[0];
    if (first && before && !isBefore(before, first, workflow)) problems.push(`run ${before.line} before ${wanted}`);
  }
  return problems;
}

/** Jobs run side by side unless one needs the other. */
function isBefore(one: Command, other: Command, { jobs = {} }: Workflow): boolean {
  if (one.job === other.job) return one.index < other.index;
  const needed = new Set([other.job]);
  for (const job of needed) for (const name of [jobs[job]?.needs ?? []].flat()) needed.add(name);
  return needed.has(one.job);
}
