/** Runs the program of README.md as a reader does: in a new project, with the packed package, on each runtime that the page names. */
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import process from "node:process";
import { type Block, DEMO_URL, isExpectedOutput, readBlocks, splitCommands } from "./doc-blocks.ts";
import { Program } from "./program.ts";

interface ReadmeProgram {
  /** Installs the package in a new project beside the folder `greenroom`. */
  readonly install: string;
  readonly file: string;
  readonly code: string;
  /** The commands that start the program, by runtime. */
  readonly starts: ReadonlyMap<string, string>;
  /** The first call, with its printed output. */
  readonly call: Block;
}

/** Reads the blocks of README.md. Throws if the page has no complete program. */
export function readProgram(page: string): ReadmeProgram {
  const blocks = readBlocks(page);
  const program = blocks.find(({ file }) => file !== undefined);
  const call = blocks.find(({ code, output }) => code.startsWith("curl ") && output !== undefined);
  const install = blocks.flatMap(({ code }) => splitCommands(code)).find((command) => command.includes("npm init -y"));
  if (!program?.file || !call || !install) throw new Error("README.md shows no program with its install and its call");
  const commands = page.matchAll(new RegExp(`(?:^|\`)((bun|deno|node)\\b[^\`\n]* ${program.file})(?:\`|$)`, "gm"));
  const starts = new Map([...commands].map(([, command = "", runtime = ""]) => [runtime, command]));
  for (const runtime of ["bun", "deno", "node"]) {
    if (!starts.has(runtime)) throw new Error(`README.md does not say how ${runtime} starts ${program.file}`);
  }
  return { install, file: program.file, code: program.code, starts, call };
}

async function expectStudio(url: string): Promise<void> {
  const page = await fetch(`${url}/`);
  const html = await page.text();
  const script = /<script type="module" src="([^"]+)"/.exec(html)?.[1];
  if (!page.url.endsWith("/studio/") || script === undefined) throw new Error(`${url}/ leads to no studio: ${html}`);
  const { status, headers } = await fetch(new URL(script, page.url));
  if (status !== 200 || !headers.get("content-type")?.includes("javascript"))
    throw new Error(`The script of the studio: ${status}`);
}

/** Throws if a page of another site gets a response that it may read. */
async function expectNoForeignPages(url: string): Promise<void> {
  const headers = { origin: "https://elsewhere.example", "content-type": "application/json" };
  const response = await fetch(`${url}/threads`, { method: "POST", headers, body: "{}" });
  const allowed = response.headers.get("access-control-allow-origin");
  if (response.status !== 403 || allowed !== null)
    throw new Error(`A page of another site: ${response.status}, Access-Control-Allow-Origin: ${allowed}`);
}

function expectPrinted({ code, output }: Block, url: string, cwd: string): void {
  const { stdout, stderr } = spawnSync("bash", ["-c", code.replaceAll(DEMO_URL, url)], { cwd, encoding: "utf8" });
  if (!output || !isExpectedOutput(stdout.trim(), output))
    throw new Error(`The call of README.md printed something else than the page shows:\n${stdout}${stderr}`);
}

/** Throws unless the threads of the runtimes before are in the same database file. Adds a thread to `threads`. */
async function expectThreads(url: string, threads: string[]): Promise<void> {
  for (const thread_id of threads) {
    const { status } = await fetch(`${url}/threads/${thread_id}`);
    if (status !== 200) throw new Error(`A thread of another runtime: ${status}`);
  }
  const created = await fetch(`${url}/threads`, { method: "POST", body: "{}" });
  threads.push(((await created.json()) as { thread_id: string }).thread_id);
}

/**
 * Installs the tarball by the page's command in a new project in `folder`, starts the program on Bun, Deno and Node, makes the page's call,
 * loads the studio, and stops it by SIGTERM. The one change to the program is its port: any free one. `paths`: values of PATH, such
 * as one for each version of Node.
 */
export async function runReadmeProgram(
  page: string,
  tarball: string,
  folder: string,
  paths: readonly string[],
): Promise<void> {
  const { install, file, code, starts, call } = readProgram(page);
  mkdirSync(join(folder, "greenroom"), { recursive: true });
  cpSync(tarball, join(folder, "greenroom", basename(tarball)));
  // A reader has no export conditions: those of the checks would select the sources.
  const { DENO_CONDITIONS: _conditions, ...inherited } = process.env;
  const env = { ...inherited, PATH: paths[0], NO_COLOR: "1", DENO_NO_UPDATE_CHECK: "1" };
  const script = `${install} && pwd`;
  const installed = spawnSync("bash", ["-euc", script], { cwd: folder, env, encoding: "utf8" });
  if (installed.status !== 0) throw new Error(`${install} ended with ${installed.status}:\n${installed.stderr}`);
  const project = installed.stdout.trim().split("\n").at(-1) as string;
  // npm 11 writes this by itself; earlier ones write no type.
  const manifest = JSON.parse(readFileSync(join(project, "package.json"), "utf8")) as object;
  writeFileSync(join(project, "package.json"), JSON.stringify({ ...manifest, type: "commonjs" }));
  const text = code.replace(/\bport: 2024\b/, "port: 0");
  if (text === code) throw new Error("The program of README.md does not listen on port 2024");
  writeFileSync(join(project, file), text);
  const threads: string[] = [];
  for (const [index, path] of paths.entries()) {
    for (const [runtime, command] of starts) {
      if (index > 0 && runtime !== "node") continue;
      await using program = new Program(command, project, { ...env, PATH: path });
      const url = await program.url();
      expectPrinted(call, url, project);
      await expectStudio(url);
      await expectNoForeignPages(url);
      await expectThreads(url, threads);
      await program.terminate();
    }
  }
}
