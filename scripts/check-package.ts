/**
 * Packs the package, installs it in an empty folder beside LangGraph, as its users do, and serves a graph from there: by
 * `npx greenroom` on Node and by `bunx --bun greenroom`. Also imports every export. Prints what failed; exit code 1 then.
 */
import { spawn, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";

interface Manifest {
  readonly devDependencies: Readonly<Record<string, string>>;
  readonly exports: Readonly<Record<string, unknown>>;
}

const folder = mkdtempSync(join(tmpdir(), "greenroom-package-"));
const manifest = JSON.parse(readFileSync("package.json", "utf8")) as Manifest;
const env = { ...process.env, PATH: `${resolve("node_modules/.bin")}${delimiter}${process.env.PATH}` };

function run(command: string, args: readonly string[], cwd: string): string {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, env, encoding: "utf8" });
  if (status !== 0) throw new Error(`${command} ${args.join(" ")} ended with ${status}:\n${stdout}${stderr}`);
  return stdout;
}

async function post(url: string, body: unknown): Promise<Record<string, unknown>> {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as Record<string, unknown>;
}

/** Starts the server, asks the graph for a refund and grants it. */
async function serves(command: string, args: readonly string[]): Promise<void> {
  const options = [...args, "--config", "langgraph.json", "--port", "0", "--database", ":memory:"];
  const child = spawn(command, options, { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"], detached: true });
  try {
    const url = await new Promise<string>((found, failed) => {
      let output = "";
      const look = (bytes: Uint8Array): void => {
        output += new TextDecoder().decode(bytes);
        const line = /^Greenroom listening on (\S+)$/m.exec(output)?.[1];
        if (line) found(line);
      };
      child.stdout.on("data", look);
      child.stderr.on("data", look);
      child.on("close", (code) => failed(new Error(`${command} ${options.join(" ")} ended with ${code}:\n${output}`)));
    });
    const { thread_id } = await post(`${url}/threads`, {});
    const wait = `${url}/threads/${thread_id}/runs/wait`;
    const input = { messages: [{ role: "user", content: "Please refund 9 euros" }] };
    await post(wait, { assistant_id: "agent", input });
    const { messages } = await post(wait, { assistant_id: "agent", command: { resume: "yes" } });
    const said = (messages as { content: string }[]).at(-1)?.content;
    if (said !== "Done: 9 euros are on their way.") throw new Error(`${command}: the graph said ${said}`);
  } finally {
    // The whole group: npx and bunx start the server as a child.
    if (child.pid && child.exitCode === null) process.kill(-child.pid, "SIGTERM");
  }
}

try {
  const [{ filename }] = JSON.parse(run("npm", ["pack", "--json", "--pack-destination", folder], ".")) as [
    { filename: string },
  ];
  writeFileSync(join(folder, "package.json"), '{ "private": true, "type": "module" }\n');
  const beside = ["@langchain/core", "@langchain/langgraph", "@libsql/client"].map(
    (name) => `${name}@${manifest.devDependencies[name]}`,
  );
  run("npm", ["install", "--prefer-offline", "--no-audit", "--no-fund", `./${filename}`, ...beside], folder);

  mkdirSync(join(folder, "src"));
  for (const file of ["approval.ts", "model.ts"]) cpSync(join("examples/demo", file), join(folder, "src", file));
  writeFileSync(
    join(folder, "langgraph.json"),
    '{ "node_version": "22", "graphs": { "agent": "./src/approval.ts:graph" } }\n',
  );

  const names = Object.keys(manifest.exports).filter((name) => !/bun-sqlite|kysely|json/.test(name));
  const imports = names.map((name) => `await import("greenroom${name.slice(1)}");`).join("\n");
  writeFileSync(join(folder, "imports.mjs"), imports);
  run("node", ["imports.mjs"], folder);
  await serves("npx", ["--no-install", "greenroom"]);
  await serves("bunx", ["--bun", "--no-install", "greenroom"]);
  console.log("The packed package serves a LangGraph.js graph on Node and on Bun");
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
