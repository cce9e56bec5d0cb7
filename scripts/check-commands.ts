/**
 * Runs every command of the ```sh blocks of README.md and docs/, in order, with one shell for each page, and fails when one fails.
 * A page that calls http://127.0.0.1:2024 gets a server: the one its `sh server` block starts, otherwise the demo. Run after a build.
 *
 *   ```sh server      starts a server, which runs until the page's end, or until another block starts the same file
 *   ```sh elsewhere   is run by another test, named in ELSEWHERE
 *   ```ts             with a file name as its first line (`// agent.ts`) writes that file; port 2024 becomes the test's port
 *
 * The block right after a command shows what it prints: ```json must have the same keys, ```text the same lines. In text, ids and
 * times may differ, and `…` stands for anything.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { cpSync, existsSync, globSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";
import process from "node:process";
import { type UserFolder, userFolder } from "./as-user.ts";
import { type Block, DEMO_URL, isExpectedOutput, readBlocks, splitCommands } from "./doc-blocks.ts";

/** Commands that need a registry, a container or a whole checkout, by the test that runs them. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  "npm start": "test/e2e/examples.test.ts",
  "npx bun ": "test/e2e/examples.test.ts",
  "bunx --bun greenroom": "scripts/check-package.ts",
  "cd greenroom && npm install && npm pack": "scripts/check.ts",
  "mkdir my-agent && cd my-agent && npm init -y": "scripts/readme-program.ts",
  "npx --yes ./greenroom/greenroom-": "scripts/check-package.ts",
  "cd my-agent && npm install ../greenroom/": "scripts/check-package.ts",
  "npx greenroom init ": "scripts/check-package.ts",
  "npx greenroom dev": "test/adapters/standalone/dev.test.ts",
  "npm install greenroom": "scripts/check-package.ts",
  "npm install @copilotkit/": "test/browser/copilotkit.test.ts",
  "COPILOTKIT_TELEMETRY_DISABLED=true ": "test/browser/copilotkit.test.ts",
  "npm install @langchain/langgraph-sdk@": "test/repo/docs.node.test.ts",
  "npm install @opentelemetry/": "test/adapters/standalone/otel.node.test.ts",
  "npm install && npm run build": "scripts/check.ts",
  "node scripts/release.ts ": "test/repo/release.node.test.ts",
  "docker ": "test/e2e/docker.node.test.ts",
  "cp ../greenroom/greenroom-": "scripts/project-image.ts",
  "npx openapi-typescript@": "scripts/check-openapi.ts",
};

/** The time limit for the commands of a block, in seconds. Each starts npx, and the tests of a CI run take most of the machine. */
const LIMIT_S = 180;

function findMissingTests({ code }: Block): string[] {
  return splitCommands(code).flatMap((command) => {
    const test = Object.entries(ELSEWHERE).find(([start]) => command.startsWith(start))?.[1];
    if (test === undefined) return [`no test is named for: ${command}`];
    return existsSync(test) ? [] : [`${test}, which should run it, does not exist: ${command}`];
  });
}

/** Copies the examples of the checkout and a configuration of the demo's agents. */
function addExamples({ at }: UserFolder): void {
  cpSync("examples", at("examples"), { recursive: true });
  writeFileSync(at(".curlrc"), 'write-out = "\\n"\n');
  const config = readFileSync("examples/demo/greenroom.json", "utf8");
  writeFileSync(at("greenroom.json"), config.replaceAll('"./', '"./examples/demo/'));
}

async function stop(child: ChildProcess): Promise<void> {
  if (!child.pid || child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((done) => child.once("exit", done));
  process.kill(-child.pid, "SIGKILL");
  await ended;
}

class Page {
  readonly #user = userFolder();
  readonly #folder = this.#user.path;
  readonly #servers: ChildProcess[] = [];
  /** The servers that the page starts from a file, by the name of the file. */
  readonly #serversByFile = new Map<string, ChildProcess>();
  #url: string | undefined;

  readonly #env = {
    ...process.env,
    PATH: [join(this.#folder, "node_modules/.bin"), resolve("node_modules/.bin"), process.env.PATH].join(delimiter),
    GREENROOM_PORT: "0",
    // Every answer of curl ends its line.
    CURL_HOME: this.#folder,
    NO_COLOR: "1",
  };

  constructor() {
    addExamples(this.#user);
  }

  /** Writes a file that the page shows. Servers in it listen on a free port; clients in it find the server that runs. */
  async write(file: string, code: string): Promise<void> {
    if (code.includes(DEMO_URL)) await this.#startDemo();
    const text = code.replaceAll(DEMO_URL, this.#url ?? DEMO_URL).replaceAll(/\bport: 2024\b/g, "port: 0");
    writeFileSync(this.#user.at(file), text);
  }

  async #startDemo(): Promise<void> {
    if (this.#url === undefined) await this.serve("greenroom");
  }

  /** Starts a server and waits for its address. */
  async serve(code: string): Promise<void> {
    const file = /\S+\.m?ts\b/.exec(code)?.[0] ?? "";
    const before = this.#serversByFile.get(file);
    if (before) await stop(before);
    const child = spawn("bash", ["-c", code], {
      cwd: this.#folder,
      env: this.#env,
      detached: true,
    });
    this.#servers.push(child);
    if (file !== "") this.#serversByFile.set(file, child);
    const url = await new Promise<string>((resolveUrl, reject) => {
      let output = "";
      const read = (bytes: Uint8Array): void => {
        output += new TextDecoder().decode(bytes);
        const line = /(?:listening on|server:) (http:\S+)/i.exec(output)?.[1];
        if (line) resolveUrl(line);
      };
      child.stdout?.on("data", read);
      child.stderr?.on("data", read);
      child.on("close", (exit) =>
        reject(
          new Error(`ended with ${exit}:
${output}`),
        ),
      );
    });
    if (!code.includes("bun examples/")) this.#url = url;
  }

  /** Runs a block; its variables stay for the next one. */
  async run(code: string): Promise<string> {
    if (code.includes(DEMO_URL) || code.includes("greenroom backup")) await this.#startDemo();
    const names = [...code.matchAll(/^(?:export )?([A-Z_]+)=/gm)].map(([, name]) => name);
    const keep = names.map((name) => `declare -p ${name} >> variables`).join("\n");
    const commands = code.replaceAll(DEMO_URL, this.#url ?? DEMO_URL);
    const script = `set -euo pipefail\ntouch variables; . ./variables\n${commands}\n${keep}`;
    const child = spawn("timeout", [String(LIMIT_S), "bash", "-c", script], {
      cwd: this.#folder,
      env: this.#env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let [stdout, stderr] = ["", ""];
    child.stdout.on("data", (bytes: Buffer) => {
      stdout += bytes.toString();
    });
    child.stderr.on("data", (bytes: Buffer) => {
      stderr += bytes.toString();
    });
    const exit = await new Promise<number | null>((done) => child.on("close", done));
    if (exit !== 0) throw new Error(`ended with ${exit}:\n${stdout}${stderr}`);
    return stdout.trim();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#servers.map(stop));
    this.#user[Symbol.dispose]();
  }
}

async function findProblems(page: string): Promise<string[]> {
  const blocks = readBlocks(readFileSync(page, "utf8"));
  if (blocks.length === 0) return [];
  const problems: string[] = [];
  await using session = new Page();
  for (const block of blocks) {
    try {
      if (block.info.includes("elsewhere"))
        problems.push(...findMissingTests(block).map((text) => `${page}:${block.line} ${text}`));
      else if (block.file) await session.write(block.file, block.code);
      else if (block.info.includes("server")) await session.serve(block.code);
      else {
        const printed = await session.run(block.code);
        if (block.output && !isExpectedOutput(printed, block.output)) {
          problems.push(`${page}:${block.line} printed something else than the page shows:\n${printed}`);
        }
      }
    } catch (error) {
      problems.push(`${page}:${block.line} ${(error as Error).message}`);
    }
  }
  console.log(`${page}: ${blocks.length} blocks of commands`);
  return problems;
}

const pageArgs = process.argv.slice(2);
const pages = pageArgs.length > 0 ? pageArgs : ["README.md", ...globSync("docs/**/*.md").sort()];
const problems: string[] = [];
for (const page of pages) problems.push(...(await findProblems(page)));
for (const problem of problems) console.log(problem);
console.log(`${problems.length} problems`);
process.exitCode = problems.length > 0 ? 1 : 0;
