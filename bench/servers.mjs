// The servers under test: each in a process and a folder of its own, ended with this process.
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { connect } from "./load.mjs";

const here = import.meta.dirname;
const root = join(here, "..");
const peers = join(here, "peers");

/** Everything that a bench leaves behind is in this folder. */
export const scratch = mkdtempSync(join(tmpdir(), "greenroom-bench-"));
const children = new Set();
process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(scratch, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

const env = {
  ...process.env,
  NO_COLOR: "1",
  PATH: `${join(root, "node_modules/.bin")}${delimiter}${process.env.PATH}`,
};

function start(command, args, { cwd, output }) {
  const child = spawn(command, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  children.add(child);
  let text = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk) => {
      text += chunk;
      output(text);
    });
  }
  const ended = new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, text }));
  });
  ended.finally(() => children.delete(child)).catch(() => {});
  return { child, ended };
}

/** Runs a program of this folder to its end; the last line that it prints is JSON. */
export async function program(runtime, ...args) {
  const { code, text } = await start(runtime, args, { cwd: here, output() {} }).ended;
  if (code !== 0) throw new Error(`${args[0]}: ${text}`);
  return JSON.parse(text.trim().split("\n").at(-1));
}

/** Returns a function that starts servers. `runtime` runs every server but the peer; `workers` limits the concurrent runs of Greenroom and the peer. */
export function createServerStarter({ runtime, workers, profile }) {
  const greenroom = (config, folder, program = "server.ts") => {
    const profiled = profile ? ["--cpu-prof", "--cpu-prof-dir", profile] : [];
    const serverOptions = {
      config: join(peers, config),
      database: join(folder, "greenroom.db"),
      port: "0",
      workers,
      "log-level": "warn", // the other servers log no requests either
    };
    const flags = Object.entries(serverOptions).flatMap(([key, value]) => [`--${key}`, value]);
    return [runtime, ...profiled, join(root, program), ...flags];
  };
  const commands = {
    greenroom: (folder) => greenroom("greenroom.json", folder),
    "greenroom without spans": (folder) => greenroom("no-spans.json", folder),
    "greenroom without LangGraph": (folder) => greenroom("function.json", folder),
    packed: (folder) => greenroom("function.json", folder, "dist/adapters/standalone/bin.js"),
    hand: (folder) => [runtime, join(here, "handwritten.mjs"), join(folder, "hand.db")],
    peer: () => ["node", join(peers, "langgraph-api.mjs"), workers],
    plain: () => [runtime, join(here, "plain-server.mjs")],
  };

  /** Starts a server. Resolves when /ok has answered, with the time that took. */
  async function serve(name, folder = join(scratch, crypto.randomUUID())) {
    mkdirSync(folder, { recursive: true });
    const [command, ...args] = commands[name](folder);
    const began = performance.now();
    let child;
    const url = await new Promise((resolve, reject) => {
      const output = (text) => {
        const [, url] = /listening on (http:\/\/[\w.]+:\d+)/.exec(text) ?? [];
        if (url) resolve(url);
      };
      const server = start(command, args, { cwd: folder, output });
      child = server.child;
      server.ended.then(({ text }) => reject(new Error(`${name} ended: ${text}`)), reject);
    });
    const client = connect(url);
    await client.request("GET", "/ok");
    const ms = performance.now() - began;
    const stop = async () => {
      client.close();
      const closed = new Promise((resolve) => child.on("close", resolve));
      const timer = setTimeout(() => child.kill("SIGKILL"), 5000);
      child.kill("SIGTERM");
      await closed;
      clearTimeout(timer);
    };
    /** Stands still, or goes on. A connection that is kept over the pause would be closed as the server wakes. */
    const pause = () => {
      client.close();
      process.kill(child.pid, "SIGSTOP");
    };
    const wake = () => process.kill(child.pid, "SIGCONT");
    return { name, url, client, ms, pid: child.pid, stop, pause, wake };
  }
  return serve;
}
