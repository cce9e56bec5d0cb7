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

/** Returns a line for each problem. `scripts` are those of package.json; `env` has Bun, which parses YAML, in its PATH. */
export function findWorkflowProblems(scripts: Readonly<Record<string, string>>, env: NodeJS.ProcessEnv): string[] {
  const problems: string[] = [];
  const workflows = new Map<string, Workflow>();
  const files = globSync(`${FOLDER}/*.{yml,yaml}`).sort();
  for (const [index, { value, error }] of parseWorkflows(files, env).entries()) {
    const file = files[index] ?? "";
    if (error !== undefined) problems.push(`${file}: is not YAML: ${error}`);
    else if (typeof value !== "object" || value === null || Array.isArray(value))
      problems.push(`${file}: is not a YAML mapping`);
    else workflows.set(file.slice(FOLDER.length + 1), value);
  }
  for (const [file, workflow] of workflows) {
    const workflowProblems = [...findStepProblems(workflow, scripts), ...findPermissionProblems(workflow)];
    problems.push(...workflowProblems.map((problem) => `${FOLDER}/${file}: ${problem}`));
  }
  const required: readonly (readonly [file: string, check: (workflow: Workflow) => string[]])[] = [
    ["ci.yml", findCiProblems],
    ["release.yml", findReleaseProblems],
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

function parseWorkflows(
  files: readonly string[],
  env: NodeJS.ProcessEnv,
): { readonly value?: unknown; readonly error?: string }[] {
  const input = JSON.stringify(files.map((file) => readFileSync(file, "utf8")));
  const { status, stdout, stderr, error } = spawnSync("bun", ["-e", PARSE], { input, encoding: "utf8", env });
  if (status !== 0) throw new Error(`Bun cannot parse the workflows: ${error?.message ?? stderr}`);
  return JSON.parse(stdout);
}

const listJobs = (workflow: Workflow): [string, Job][] => Object.entries(workflow.jobs ?? {});

function listCommands(workflow: Workflow): Command[] {
  return listJobs(workflow).flatMap(([job, { steps = [] }]) =>
    steps
      .flatMap(({ run = "" }) => run.split("\n"))
      .map((line) => line.trim())
      .filter((line) => line !== "" && !line.startsWith("#"))
      .map((line, index) => ({ job, index, line })),
  );
}

function findStepProblems(workflow: Workflow, scripts: Readonly<Record<string, string>>): string[] {
  const problems: string[] = [];
  for (const { job, line } of listCommands(workflow)) {
    const problem = findCommandProblem(line, scripts);
    if (problem) problems.push(`job ${job}: ${line}: ${problem}`);
  }
  for (const [job, { steps = [] }] of listJobs(workflow))
    for (const { uses } of steps)
      if (uses !== undefined && !/^[\w.-]+\/[\w./-]+@(?:[0-9a-f]{40}|v\d+)$/.test(uses))
        problems.push(`job ${job}: ${uses}: name a commit or a major version after the @`);
  return problems;
}

function findCommandProblem(line: string, scripts: Readonly<Record<string, string>>): string | undefined {
  if (line === "npm ci") return undefined;
  const [program = "", first = "", second = ""] = line.split(/\s+/);
  if (program === "npm") {
    const script = first === "run" ? second : first;
    return Object.hasOwn(scripts, script) ? undefined : `package.json has no script ${script}`;
  }
  const file = program === "node" || program === "bun" ? first : program;
  return existsSync(file) ? undefined : `there is no file ${file}`;
}

/** Returns a line for each job with more than the right to read the repository, except for the job that publishes. */
function findPermissionProblems(workflow: Workflow): string[] {
  const problems: string[] = [];
  const formatPermissions = (permissions: unknown): string => JSON.stringify(permissions) ?? "missing";
  const read = formatPermissions({ contents: "read" });
  const publish = formatPermissions({ contents: "read", "id-token": "write" });
  if (formatPermissions(workflow.permissions) !== read)
    problems.push(`permissions: is ${formatPermissions(workflow.permissions)}; write ${read}`);
  for (const [job, { permissions }] of listJobs(workflow)) {
    const publishes = listCommands(workflow).some((command) => command.job === job && command.line === PUBLISH);
    const required = publishes ? publish : read;
    if (formatPermissions(permissions ?? workflow.permissions) !== required)
      problems.push(
        `job ${job}: permissions: is ${formatPermissions(permissions ?? workflow.permissions)}; write ${required}`,
      );
  }
  return problems;
}

function findCiProblems(workflow: Workflow): string[] {
  const problems = ["push", "pull_request"]
    .filter((event) => !Object.hasOwn(workflow.on ?? {}, event))
    .map((event) => `on: ${event} is missing`);
  if (!listCommands(workflow).some(({ line }) => line === ".ci/run")) problems.push("does not run .ci/run");
  return problems;
}

// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one check after the other, each with its text
function findReleaseProblems(workflow: Workflow): string[] {
  const problems: string[] = [];
  const tags = { push: { tags: ["v*"] } };
  if (JSON.stringify(workflow.on) !== JSON.stringify(tags)) problems.push(`on: write ${JSON.stringify(tags)}`);
  for (const [job, { steps = [], ...jobOptions }] of listJobs(workflow))
    for (const part of [jobOptions, ...steps])
      for (const key of ["if", "continue-on-error"])
        if (key in part) problems.push(`job ${job}: ${key}: a release must not skip a step or ignore its failure`);
  const commands = listCommands(workflow);
  const matches = RELEASE.map((expected) => commands.filter(({ line }) => line === expected));
  for (const [index, expected] of RELEASE.entries()) {
    const [first, ...repetitions] = matches[index] ?? [];
    if (!first || repetitions.length > 0)
      problems.push(`runs ${expected} ${repetitions.length + (first ? 1 : 0)} times; run it once`);
    const before = matches[index - 1]?.[0];
    if (first && before && !isBefore(before, first, workflow)) problems.push(`run ${before.line} before ${expected}`);
  }
  return problems;
}

/** Returns true if `first` runs before `second`. Jobs run side by side unless one needs the other. */
function isBefore(first: Command, second: Command, { jobs = {} }: Workflow): boolean {
  if (first.job === second.job) return first.index < second.index;
  const needed = new Set([second.job]);
  for (const job of needed) for (const name of [jobs[job]?.needs ?? []].flat()) needed.add(name);
  return needed.has(first.job);
}
