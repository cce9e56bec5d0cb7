/**
 * Publishes a version to npm and JSR from its tag. See docs/releasing.md.
 *
 *   node scripts/release.ts vX.Y.Z                checks, then publishes; skips a registry that has the version already
 *   node scripts/release.ts vX.Y.Z --dry-run      the same without publishing
 *   node scripts/release.ts vX.Y.Z --verify-tag   only compares the tag with the versions, the changelog and the tree
 *   node scripts/release.ts --dry-run             everything that does not need a tag, on a built tree: part of `npm run check`
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { delimiter, resolve } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { findWorkflowProblems } from "./workflows.ts";

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly repository?: unknown;
  readonly scripts?: Readonly<Record<string, string>>;
}

interface CommandResult {
  readonly status: number;
  readonly out: string;
  readonly err: string;
}

const env: NodeJS.ProcessEnv = {
  ...process.env,
  PATH: `${resolve("node_modules/.bin")}${delimiter}${process.env.PATH}`,
  NO_COLOR: "1",
  DENO_NO_UPDATE_CHECK: "1",
};

function run(program: string, args: readonly string[], stdio: "pipe" | "inherit" = "pipe"): CommandResult {
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    env,
    encoding: "utf8",
    stdio: ["ignore", stdio, stdio],
  });
  return { status: status ?? 1, out: (stdout ?? "").trim(), err: (stderr ?? "").trim() || (error?.message ?? "") };
}

/** Runs a step and shows its output. Ends the program if the step fails. */
function step(program: string, args: readonly string[]): void {
  console.log(`> ${program} ${args.join(" ")}`);
  if (run(program, args, "inherit").status === 0) return;
  console.error(
    `${program} ${args.join(" ")} failed. What was published stays. Repair the cause and run the release again.`,
  );
  process.exit(1);
}

const read = (file: string): string => (existsSync(file) ? readFileSync(file, "utf8") : "");
const readVersion = (file: string): unknown =>
  (JSON.parse(read(file) || "{}") as { readonly version?: unknown }).version;

/** Returns a line for each file whose version differs from the one in package.json. */
function findVersionProblems(version: string): string[] {
  const files: readonly (readonly [file: string, version: unknown])[] = [
    ["package-lock.json", readVersion("package-lock.json")],
    ["jsr.json", readVersion("jsr.json")],
    ["VERSION in lib/service.ts", /^export const VERSION = "(.*)";$/m.exec(read("lib/service.ts"))?.[1]],
  ];
  return files
    .filter(([, fileVersion]) => fileVersion !== version)
    .map(([file, fileVersion]) => `${file}: the version is ${fileVersion ?? "missing"}; package.json says ${version}`);
}

function findTagProblems(tag: string, version: string): string[] {
  if (!/^v\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?$/.test(tag)) return [`${tag}: is not a version tag such as v1.2.3`];
  const problems: string[] = [];
  if (tag !== `v${version}`) problems.push(`${tag}: package.json says ${version}`);
  const tagged = run("git", ["rev-parse", "--verify", "--quiet", `refs/tags/${tag}^{commit}`]);
  const head = run("git", ["rev-parse", "HEAD"]);
  if (tagged.status !== 0) problems.push(`${tag}: the tag does not exist; create it: git tag ${tag}`);
  else if (tagged.out !== head.out) problems.push(`${tag}: the tag is on another commit than the one checked out`);
  const changed = run("git", ["status", "--porcelain"]);
  if (changed.status !== 0) problems.push(`git: ${changed.err}`);
  else if (changed.out !== "") problems.push(`The tree is not clean:\n${changed.out}`);
  const heading = `## [${tag.slice(1)}] - `;
  const dated = read("CHANGELOG.md")
    .split("\n")
    .some((line) => line.startsWith(heading) && /^\d{4}-\d\d-\d\d$/.test(line.slice(heading.length)));
  if (!dated) problems.push(`CHANGELOG.md: has no heading "${heading}YYYY-MM-DD"`);
  return problems;
}

/** Returns a line for each missing prerequisite of provenance, the signed statement of where a package was built. */
function findProvenanceProblems(manifest: Manifest): string[] {
  const problems: string[] = [];
  if (!manifest.repository) problems.push("package.json: `repository` is missing; npm requires it for provenance");
  if (!process.env.ACTIONS_ID_TOKEN_REQUEST_URL && !process.env.SIGSTORE_ID_TOKEN) {
    problems.push("Provenance is available only in the release workflow: push the tag instead (docs/releasing.md)");
  }
  return problems;
}

/** Returns true if npm has this version. Ends the program if npm does not respond, or has the version from another commit. */
function isOnNpm(name: string, version: string): boolean {
  const { status, out, err } = run("npm", ["view", `${name}@${version}`, "version", "gitHead", "--json"]);
  if (status !== 0 && /E404|is not in this registry|No match found/.test(out + err)) return false;
  if (status !== 0) fail([`npm view: ${err || out}`]);
  if (out === "") return false;
  const published = JSON.parse(out) as string | { readonly gitHead?: string };
  const commit = typeof published === "string" ? undefined : published.gitHead;
  const head = run("git", ["rev-parse", "HEAD"]).out;
  if (commit !== undefined && commit !== head)
    fail([`npm has ${version} from another commit (${commit}); raise the version`]);
  return true;
}

function fail(problems: readonly string[]): never {
  console.error([`Nothing was published:`, ...problems].join("\n- "));
  process.exit(1);
}

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { "dry-run": { type: "boolean", default: false }, "verify-tag": { type: "boolean", default: false } },
});
const [tag, ...extraArgs] = positionals;
const { "dry-run": dry, "verify-tag": onlyTag } = values;
if (extraArgs.length > 0 || (tag === undefined && (!dry || onlyTag)))
  fail(["Name one tag: node scripts/release.ts vX.Y.Z [--dry-run | --verify-tag]"]);

const manifest = JSON.parse(read("package.json")) as Manifest;
const { name, version } = manifest;
const problems = [
  ...findVersionProblems(version),
  ...findWorkflowProblems(manifest.scripts ?? {}, env),
  ...(tag === undefined ? [] : findTagProblems(tag, version)),
  ...(dry || onlyTag ? [] : findProvenanceProblems(manifest)),
];
if (problems.length > 0) fail(problems);
if (onlyTag) {
  console.log(`${tag} fits the versions, the changelog and the tree`);
  process.exit(0);
}

// `npm install greenroom` must not select a pre-release.
const channel = version.includes("-") ? "next" : "latest";
const toNpm = ["publish", "--access", "public", "--tag", channel];
if (tag === undefined) {
  // The caller has built the tree; without --ignore-scripts, packing builds it again.
  step("npm", [...toNpm, "--dry-run", "--ignore-scripts"]);
  // A release checks types on Deno before. Slow types are refused all the same.
  step("deno", ["publish", "--dry-run", "--allow-dirty", "--quiet", "--no-check"]);
  const { out, err } = run("deno", ["publish", "--dry-run", "--allow-dirty", "--no-check"]);
  const missing = ["LICENSE", "THIRD-PARTY-LICENSES", "assets.ts"].filter(
    (file) => !`${out}${err}`.includes(`/${file} (`),
  );
  if (missing.length > 0) fail([`JSR would not get ${missing.join(", ")}`]);
} else {
  env.GREENROOM_TEST_ALL = "1";
  step("npm", ["run", "check"]);
  if (dry) {
    step("npm", [...toNpm, "--dry-run"]);
    step("deno", ["publish", "--dry-run"]);
  } else {
    if (isOnNpm(name, version)) console.log(`npm already has ${name} ${version}`);
    else step("npm", [...toNpm, "--provenance"]);
    // Deno skips a version that JSR already has.
    step("deno", ["publish"]);
  }
}
console.log(dry ? `${version} can be released` : `${version} is released`);
