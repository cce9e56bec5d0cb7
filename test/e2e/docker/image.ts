/** A Dockerfile as a script: each stage is a folder that stands for its file system, and its commands run there. */
import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import process from "node:process";

export interface Instruction {
  readonly name: string;
  readonly text: string;
}

/** Parses the instructions in order, without comments and with continued lines joined. */
export function parseInstructions(dockerfile: string): readonly Instruction[] {
  const text = dockerfile
    .split("\n")
    .filter((line) => !/^\s*#/.test(line))
    .join("\n")
    .replaceAll("\\\n", "");
  return text
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => {
      const [, name = "", argument = ""] = /^(\w+)\s+(.*)$/.exec(line.trim()) ?? [];
      return { name, text: argument.trim() };
    });
}

/** Parses a command in exec form. */
const exec = (text: string): readonly string[] => JSON.parse(text) as string[];

/** Lists the files of a folder that a `.dockerignore` includes. Later lines win, and `!` includes again. */
export function listContextFiles(folder: string, ignore: string): readonly string[] {
  const rules = ignore
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const pattern = line.replace(/^!/, "").replace(/[.+^${}()|[\]\\]/g, "\\$&");
      const source = pattern.replaceAll("**/", "(?:.+/)?").replace(/(?<![)])\*(?!\*)/g, "[^/]*");
      return { kept: line.startsWith("!"), matches: new RegExp(`^${source}(?:/.*)?$`) };
    });
  const ignored = (path: string): boolean =>
    rules.reduce((out, { kept: isException, matches }) => (matches.test(path) ? !isException : out), false);
  const files = (at: string): string[] =>
    readdirSync(join(folder, at), { withFileTypes: true }).flatMap((entry) => {
      const path = at === "" ? entry.name : `${at}/${entry.name}`;
      const open = rules.some(({ kept: isException }) => isException) || !ignored(path);
      if (entry.isDirectory()) return open && !/(?:^|\/)(?:node_modules|\.git)$/.test(path) ? files(path) : [];
      return ignored(path) ? [] : [path];
    });
  return files("");
}

export interface Image {
  /** The folder that stands for the root of the image. */
  readonly root: string;
  readonly env: Readonly<Record<string, string>>;
  readonly workdir: string;
  readonly user: string;
  readonly base: string;
  readonly entrypoint: readonly string[];
  readonly cmd: readonly string[];
  readonly healthcheck: readonly string[];
  readonly otherInstructions: Readonly<Record<string, string>>;
}

export interface BuildOptions {
  readonly context: string;
  /** The folder for the file systems of the stages. */
  readonly folder: string;
  /** Programs that come first on the PATH of its commands. */
  readonly programs: string;
}

const readIfExists = (file: string): string => (existsSync(file) ? readFileSync(file, "utf8") : "");

/** Builds the last stage. Throws with the output of a command that fails. */
export function build(dockerfile: string, { context, folder, programs }: BuildOptions): Image {
  const stages = new Map<string, string>();
  let root = "";
  let base = "";
  let workdir = "/";
  let user = "root";
  let env: Record<string, string> = {};
  let entrypoint: readonly string[] = [];
  let cmd: readonly string[] = [];
  let healthcheck: readonly string[] = [];
  let otherInstructions: Record<string, string> = {};
  /** Replaces paths of the image in a text. */
  const inside = (text: string): string =>
    text.replace(/(^|[\s"'=])(\/(?:app|data|package)(?=[/\s"']|$))/g, `$1${root}$2`);
  for (const { name, text } of parseInstructions(dockerfile)) {
    if (name === "FROM") {
      const [from = "", , stage = ""] = text.split(/\s+/);
      root = join(folder, stage || "last");
      stages.set(stage, root);
      [base, workdir, user, env, entrypoint, cmd, healthcheck, otherInstructions] = [
        from,
        "/",
        "root",
        {},
        [],
        [],
        [],
        {},
      ];
      mkdirSync(root, { recursive: true });
    } else if (name === "ENV") {
      for (const [, key = "", value = ""] of text.matchAll(/(\w+)=(\S+)/g)) env[key] = inside(value);
    } else if (name === "WORKDIR") {
      workdir = text;
      mkdirSync(join(root, text), { recursive: true });
    } else if (name === "USER") user = text;
    else if (name === "COPY") {
      const words = text.split(/\s+/);
      const flags = words.filter((word) => word.startsWith("--"));
      const paths = words.filter((word) => !word.startsWith("--"));
      const to = paths.pop() as string;
      const target = to.startsWith("/") ? join(root, to) : join(root, workdir, to);
      const stage = flags.find((flag) => flag.startsWith("--from="))?.slice("--from=".length);
      const from = stage === undefined ? context : stages.get(stage);
      if (from === undefined) throw new Error(`COPY ${text}: there is no stage ${stage}`);
      const contextFiles =
        stage === undefined ? listContextFiles(context, readIfExists(join(context, ".dockerignore"))) : null;
      for (const path of paths) copy(from, path, target, to.endsWith("/"), contextFiles);
    } else if (name === "RUN") {
      const options = { cwd: join(root, workdir), env: { ...outside(programs), ...env }, encoding: "utf8" } as const;
      const { status, stdout, stderr } = spawnSync("sh", ["-c", inside(text)], options);
      if (status !== 0) throw new Error(`RUN ${text} ended with ${status}:\n${stdout}${stderr}`);
    } else if (name === "ENTRYPOINT") entrypoint = exec(text).map(inside);
    else if (name === "CMD") cmd = exec(text).map(inside);
    else if (name === "HEALTHCHECK") healthcheck = exec(text.replace(/^.*?CMD\s+/, "")).map(inside);
    else otherInstructions[name] = text;
  }
  return { root, base, workdir: join(root, workdir), user, env, entrypoint, cmd, healthcheck, otherInstructions };
}

const OF_NETWORK = /^(?:npm_config_\w+|https?_proxy|no_proxy|NODE_EXTRA_CA_CERTS|SSL_CERT_\w+)$/i;

/** Returns the variables with which a command finds its programs and its registry, without those of Greenroom. */
export function outside(programs?: string): Record<string, string> {
  const { PATH = "", HOME = "" } = process.env;
  const path = [programs, dirname(process.execPath), PATH].filter(Boolean).join(":");
  const network = Object.entries(process.env).filter(([name, value]) => value !== undefined && OF_NETWORK.test(name));
  return { ...(Object.fromEntries(network) as Record<string, string>), PATH: path, HOME };
}

function copy(from: string, path: string, target: string, into: boolean, contextFiles: readonly string[] | null): void {
  if (contextFiles) {
    const pattern = new RegExp(`^${path.replace(/[.+^${}()|[\]\\]/g, "\\$&").replaceAll("*", "[^/]*")}$`);
    const inFolder = (file: string): boolean => path === "." || file.startsWith(`${path}/`);
    const matchingFiles = contextFiles.filter((file) => inFolder(file) || pattern.test(file));
    if (matchingFiles.length === 0 && !path.includes("*"))
      throw new Error(`COPY ${path}: the context has no such file`);
    for (const file of matchingFiles) {
      // The contents of a folder are copied, not the folder.
      const name = path !== "." && inFolder(file) ? file.slice(path.length + 1) : file;
      mkdirSync(dirname(join(target, name)), { recursive: true });
      cpSync(join(from, file), join(target, name));
    }
    return;
  }
  const source = join(from, path);
  const directory = statSync(source).isDirectory();
  // Links are copied as links: packages are linked and not installed.
  cpSync(source, into && !directory ? join(target, basename(path)) : target, {
    recursive: true,
    verbatimSymlinks: true,
  });
}

/** Creates an `npm` that links the packages of this checkout instead of fetching them. All other commands run the real one. */
export function linkingNpm(folder: string, checkout: string): string {
  const script = `#!/usr/bin/env node
const { spawnSync } = require("node:child_process");
const { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync } = require("node:fs");
const { dirname, join } = require("node:path");
const packages = ${JSON.stringify(join(checkout, "node_modules"))};
const versionOf = (name) => JSON.parse(readFileSync(join(packages, name, "package.json"), "utf8")).version;
const link = (name) => {
  const at = join("node_modules", name);
  mkdirSync(dirname(at), { recursive: true });
  if (!existsSync(at)) symlinkSync(join(packages, name), at);
};
const [command, ...args] = process.argv.slice(2);
if (command === "ci") symlinkSync(packages, "node_modules");
else if (command === "install") {
  for (const wanted of args.filter((arg) => !arg.startsWith("-"))) {
    if (wanted.startsWith("./")) {
      mkdirSync("unpacked");
      if (spawnSync("tar", ["-xzf", wanted, "-C", "unpacked"], { stdio: "inherit" }).status !== 0) process.exit(1);
      mkdirSync("node_modules", { recursive: true });
      renameSync("unpacked/package", "node_modules/greenroom");
      rmSync("unpacked", { recursive: true });
      Object.keys(JSON.parse(readFileSync("node_modules/greenroom/package.json", "utf8")).dependencies).forEach(link);
    } else {
      const [, name, version] = /^(.+)@(.+)$/.exec(wanted);
      if (versionOf(name) !== version) throw new Error(wanted + " is not what was tested: " + versionOf(name));
      link(name);
    }
  }
} else {
  const PATH = process.env.PATH.split(":").filter((folder) => folder !== ${JSON.stringify(folder)}).join(":");
  process.exit(spawnSync("npm", [command, ...args], { stdio: "inherit", env: { ...process.env, PATH } }).status ?? 1);
}
`;
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "npm");
  if (!existsSync(file)) writeFileSync(file, script);
  chmodSync(file, 0o755);
  return folder;
}
