/** The stand-alone server as a process of its own, on each runtime, and a folder that it may fill. */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, cpSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

export type Runtime = "bun" | "node" | "deno";
export const RUNTIMES: readonly Runtime[] = ["bun", "node", "deno"];

const root = resolve(import.meta.dirname, "../..");
const modules = join(root, "node_modules");

// The binaries themselves: a process is ended by its id, and that must not be the id of a wrapper.
const COMMANDS: Readonly<Record<Runtime, readonly string[]>> = {
  bun: [join(modules, ".bin/bun")],
  node: [join(modules, ".bin/node"), "--no-warnings"],
  deno: [join(modules, ".bin/deno"), "run", "-A", "--no-check"],
};

const children = new Set<ChildProcess>();
const folders = new Set<string>();

/** Ends every process that was started here, and removes the folders unless they are to be kept. */
export function cleanUp(keep: boolean): void {
  for (const child of children) if (child.pid) signal(child.pid, "SIGKILL");
  for (const path of folders) {
    if (keep) console.log(`kept: ${path}`);
    else rmSync(path, { recursive: true, force: true });
  }
  folders.clear();
}

/** Sends a signal. Returns false when the process is gone. */
export function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    process.kill(pid, name);
    return true;
  } catch {
    return false;
  }
}

export interface Site {
  readonly path: string;
  readonly config: string;
  readonly database: string;
  /** The file that the agents append to. */
  readonly executions: string;
  /** Sections of the configuration beside `graphs` and `worker`. */
  settings: object;
}

type Worker = Readonly<Record<string, number>>;

const siteAt = (path: string, settings: object): Site => ({
  path,
  config: join(path, "greenroom.json"),
  database: join(path, "greenroom.db"),
  executions: join(path, "executions.log"),
  settings,
});

/** Creates a folder with a configuration that hosts the soak's agents. */
export function createSite(worker: Worker = {}, settings: object = {}): Site {
  const path = mkdtempSync(join(tmpdir(), "greenroom-soak-"));
  folders.add(path);
  const site = siteAt(path, settings);
  configure(site, worker);
  return site;
}

/** Copies the folder of an earlier soak, with its configuration. */
export function copySite(from: string): Site {
  const path = mkdtempSync(join(tmpdir(), "greenroom-soak-"));
  folders.add(path);
  cpSync(from, path, { recursive: true });
  return siteAt(path, {});
}

/** Writes the configuration that the next server of the site starts with. */
export function configure({ config, settings }: Site, worker: Worker): void {
  const agents = join(import.meta.dirname, "agents.ts");
  const graphs = {
    agent: `${agents}:agent`,
    flood: `${agents}:flood`,
    echo: `${agents}:echo`,
    graph: `${join(import.meta.dirname, "graph.ts")}:graph`,
  };
  writeFileSync(config, JSON.stringify({ graphs, worker: { concurrency: 50, ...worker }, ...settings }));
}

export interface Server {
  readonly pid: number;
  readonly runtime: Runtime;
  readonly url: string;
  /** The time at which it reported that it listens. */
  readonly listening_at: number;
  /** Resolves with the exit code or the signal's name. */
  readonly ended: Promise<number | string>;
  /** Returns true once the process has ended. */
  hasEnded(): boolean;
  /** Resolves when the process is gone. Harmless when it is gone already. */
  end(name?: NodeJS.Signals): Promise<number | string>;
  /** Returns the memory of the process in MiB. */
  rss(): number;
  /** Returns both outputs so far. */
  output(): string;
}

export interface ServerOptions {
  readonly runtime: Runtime;
  readonly site: Site;
  readonly port?: number;
  /** Put before the command: a tracer. */
  readonly under?: readonly string[];
  /** The program, as a path from the repository's root; default `server.ts`. */
  readonly script?: string;
  /** A folder whose packages replace those of the checkout on Node, as test/versions/use.mjs does. */
  readonly versions?: string;
}

const START_MS = 60_000;
let started = 0;

/** Starts a server and resolves once it listens. */
export async function startServer({
  runtime,
  site,
  port = 0,
  under = [],
  script = "server.ts",
  versions,
}: ServerOptions): Promise<Server> {
  const output = join(site.path, `server-${++started}-${runtime}.log`);
  const [program = "", ...args] = [
    ...under,
    ...COMMANDS[runtime],
    "--conditions=greenroom-source",
    ...(versions ? ["--import", pathToFileURL(join(root, "test/versions/use.mjs")).href] : []),
    join(root, script),
    ...["--config", site.config, "--database", site.database, "--port", String(port)],
  ];
  const inherited = Object.entries(process.env).filter(
    ([name]) => !/^(?:GREENROOM_(?!DATABASE_WRITER)|NODE_OPTIONS|npm_)/.test(name),
  );
  const env = { ...Object.fromEntries(inherited), SOAK_EXECUTIONS: site.executions, DENO_NO_UPDATE_CHECK: "1" };
  if (versions) Object.assign(env, { GREENROOM_TEST_VERSIONS: versions });
  // Into a file: a pipe that nobody empties in time would hold the server up.
  const file = openSync(output, "a");
  const child = spawn(program, args, { cwd: site.path, env, stdio: ["ignore", file, file] });
  closeSync(file);
  children.add(child);
  const ended = new Promise<number | string>((done) => {
    child.on("error", (error) => done(error.message));
    child.on("exit", (code, name) => done(code ?? name ?? "unknown"));
  });
  let hasEnded = false;
  void ended.then(() => {
    hasEnded = true;
    children.delete(child);
  });
  const text = (): string => readFileSync(output, "utf8");
  const deadline = Date.now() + START_MS;
  for (;;) {
    const url = /^Greenroom listening on (\S+)$/m.exec(text())?.[1];
    if (url) {
      const pid = child.pid as number;
      return {
        pid,
        runtime,
        url,
        listening_at: Date.now(),
        ended,
        hasEnded: () => hasEnded,
        rss: () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024,
        end(name = "SIGKILL") {
          if (!hasEnded) signal(pid, name);
          return ended;
        },
        output: text,
      };
    }
    if (hasEnded) throw new Error(`The ${runtime} server ended with ${await ended}:\n${text()}`);
    if (Date.now() > deadline) {
      if (child.pid) signal(child.pid, "SIGKILL");
      throw new Error(`The ${runtime} server did not start:\n${text()}`);
    }
    await new Promise((done) => setTimeout(done, 5));
  }
}

/** Returns a free port that no outgoing connection takes while the server is down. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    const free = await new Promise<boolean>((done) => {
      const server = createServer();
      server.once("error", () => done(false));
      server.listen(port, "127.0.0.1", () => server.close(() => done(true)));
    });
    if (free) return port;
  }
}

export const sleep = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

/** Resolves once the condition holds; throws when it does not within the time. */
export async function until(what: string, condition: () => boolean | Promise<boolean>, ms = 60_000): Promise<void> {
  const deadline = Date.now() + ms;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`Not within ${ms} ms: ${what}`);
    await sleep(10);
  }
}
