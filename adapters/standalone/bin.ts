#!/usr/bin/env node
/** The command `greenroom`: the library, a configuration file and a port. */
import { realpathSync } from "node:fs";
import { basename } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { ConfigError, createService, type Storage, VERSION } from "../../lib/mod.ts";
import { createHandler } from "../../server.ts";
import { type CommandOptions, isLibsql, readCommand, readConfig, usage } from "./config.ts";
import { loadGraphs } from "./graphs.ts";
import { type Listener, listen, PortTaken } from "./listen.ts";
import type { Fetch } from "./node-http.ts";
import { page } from "./page.ts";

const DEFAULT_PORT = 2024;
const PORTS_TRIED = 100;
const SAME_SIGNAL_MS = 250;

/**
 * Serves until SIGTERM or SIGINT. Ends the process itself: 0 after a clean stop, 1 when it cannot start or a second signal
 * comes.
 */
export async function main(args: readonly string[] = process.argv.slice(2)): Promise<void> {
  try {
    const options = readCommand(args, process.env);
    if (options.help) console.log(usage);
    else if (options.version) console.log(VERSION);
    else await serve(options);
  } catch (error) {
    // What the user can mend is named; of anything else the stack is wanted.
    const known = error instanceof ConfigError || error instanceof PortTaken;
    console.error(`greenroom: ${known ? error.message : error instanceof Error ? error.stack : String(error)}`);
    process.exit(1);
  }
}

async function serve(options: CommandOptions): Promise<void> {
  const config = readConfig(options.config);
  // What the shell sets wins, as it does with .env files.
  for (const [name, value] of Object.entries(config.env)) process.env[name] ??= value;
  const name = basename(config.file);
  if (config.unsupported.length > 0) console.warn(`${name}: without effect here: ${config.unsupported.join(", ")}`);

  const executor = await loadGraphs(config.graphs, config.file);
  const { worker } = config.service;
  const service = await createService({
    ...config.service,
    worker: options.workers === undefined ? worker : { ...worker, concurrency: options.workers },
    storage: await openStorage(options.database),
    executor,
  });
  const graphs = executor.graphs().map(({ graph_id }) => graph_id);
  let url = "";
  const hosts = ["localhost", "127.0.0.1", "[::1]", urlHost(options.host)];
  const handler = createHandler(service, { hosts, page: () => page(url, graphs) });
  let listener: Listener;
  try {
    listener = await listenFrom(handler, options);
  } catch (error) {
    await service.stop(0);
    throw error;
  }

  let stoppedAt = Number.POSITIVE_INFINITY;
  const stop = async (): Promise<void> => {
    // npm and process groups hand the same signal on twice.
    if (performance.now() - stoppedAt > SAME_SIGNAL_MS) process.exit(1);
    if (stoppedAt !== Number.POSITIVE_INFINITY) return;
    stoppedAt = performance.now();
    console.log(`Stopping: runs may go on for ${options.grace_ms} ms; a second signal ends the server at once`);
    // It still listens: who asks is told that it is not ready, and readers stay to the end.
    await service.stop(options.grace_ms);
    // A client that keeps an idle connection must not keep the process.
    await Promise.race([listener.close().catch(() => {}), new Promise((resolve) => setTimeout(resolve, 500))]);
    process.exit(0);
  };
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => void stop());

  url = `http://${urlHost(options.host)}:${listener.port}`;
  console.log(`Graphs: ${graphs.join(", ")} (${name})`);
  // A URL may carry a token after the question mark.
  console.log(`Database: ${isLibsql(options.database) ? options.database.replace(/\?.*$/s, "") : options.database}`);
  console.log(`API: ${url}/openapi.json`);
  if ((await service.metrics()).standby) {
    console.log("Standing by: another server executes the runs of this database, until it ends");
  }
  console.log(`Greenroom listening on ${url}`);
}

const urlHost = (host: string): string => (host.includes(":") ? `[${host}]` : host);

async function openStorage(database: string): Promise<Storage> {
  if (isLibsql(database)) {
    const { libsql } = await import("../libsql.ts").catch((error: unknown) => {
      throw new ConfigError([
        `--database: a libSQL URL needs the package @libsql/client (${(error as Error).message})`,
      ]);
    });
    const authToken = process.env.GREENROOM_DATABASE_TOKEN;
    return libsql({ url: database, ...(authToken ? { authToken } : {}) });
  }
  const open = await sqlite();
  try {
    return open(database);
  } catch (error) {
    throw new ConfigError([`--database: ${(error as Error).message}`]);
  }
}

async function sqlite(): Promise<(path: string) => Storage> {
  if ("Bun" in globalThis) return (await import("../bun-sqlite.ts")).bunSqlite;
  const { nodeSqlite } = await import("../node-sqlite.ts").catch((error: unknown) => {
    if ((error as { code?: unknown }).code !== "ERR_UNKNOWN_BUILTIN_MODULE") throw error;
    throw new ConfigError([
      `This is Node ${process.versions.node}, which has no SQLite: use Node 22.18 or newer, or Bun (bunx --bun greenroom)`,
    ]);
  });
  return nodeSqlite;
}

/** An asked-for port or an error; without one the first free port from 2024 on. */
async function listenFrom(handler: Fetch, { host: hostname, port }: CommandOptions): Promise<Listener> {
  if (port !== undefined) return listen(handler, { hostname, port });
  for (let next = DEFAULT_PORT; ; next += 1) {
    try {
      const listener = await listen(handler, { hostname, port: next });
      if (next > DEFAULT_PORT) console.log(`Port ${DEFAULT_PORT} is taken, using ${next}`);
      return listener;
    } catch (error) {
      if (!(error instanceof PortTaken) || next === DEFAULT_PORT + PORTS_TRIED) throw error;
    }
  }
}

// `import.meta.main` is missing on Node 22, and npx starts this file through a link.
const started = process.argv[1];
if (started && realpathSync(started) === fileURLToPath(import.meta.url)) await main();
