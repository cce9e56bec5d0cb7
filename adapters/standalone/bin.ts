#!/usr/bin/env node
/** The command `greenroom`: the library, a configuration file and a port. */
import { realpathSync } from "node:fs";
import { basename } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import {
  type AuthMode,
  ConfigError,
  createService,
  type IdentityStore,
  type ServiceOptions,
  type Storage,
  staticIdentity,
  VERSION,
} from "../../lib/mod.ts";
import { createHandler } from "../../server.ts";
import { COMMANDS, runCommand } from "./commands.ts";
import {
  type CommandOptions,
  isLibsql,
  isPostgres,
  readCommand,
  readConfig,
  readPlace,
  shownDatabase,
  usage,
} from "./config.ts";
import { loadGraphs } from "./graphs.ts";
import { type Listener, listen, PortTaken } from "./listen.ts";
import { textLine } from "./log.ts";
import { loadModules } from "./modules.ts";
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
    if (COMMANDS.has(args[0] ?? "")) {
      const { database, ...keys } = readPlace(args, process.env);
      process.exit(await runCommand(args, () => openStorage(database), keys));
    }
    const options = readCommand(args, process.env);
    if (options.help) console.log(usage);
    else if (options.version) console.log(VERSION);
    else await serve(options);
  } catch (error) {
    // What the user can mend is named; of anything else the stack is wanted.
    const known = error instanceof ConfigError || error instanceof PortTaken;
    console.error(
      `greenroom: ${known ? asAsked(error.message) : error instanceof Error ? error.stack : String(error)}`,
    );
    process.exit(1);
  }
}

/** The settings by the names that they have here. */
function asAsked(message: string): string {
  return message
    .replaceAll("postgres: direct_url:", "GREENROOM_DATABASE_DIRECT_URL:")
    .replaceAll("postgres: url:", "--database:");
}

async function serve(options: CommandOptions): Promise<void> {
  const config = readConfig(options.config);
  // What the shell sets wins, as it does with .env files.
  for (const [name, value] of Object.entries(config.env)) process.env[name] ??= value;
  const name = basename(config.file);
  if (config.unsupported.length > 0) console.warn(`${name}: without effect here: ${config.unsupported.join(", ")}`);

  const executor = await loadGraphs(config.graphs, config.file);
  const { "auth.path": custom, "store.index.embed": embed, "http.app": app } = await loadModules(config.modules);
  const { worker, auth, store, usage: usageOptions, webhooks } = config.service;
  let url = "";
  const storage = await openStorage(options.database);
  const { mode, identity } = await guard(storage, auth?.mode ?? (custom && "custom"), options.loopback);
  const open = mode === "none";
  const public_base_url = options.public_base_url ?? config.service.public_base_url;
  const service = await createService({
    ...config.service,
    worker: options.workers === undefined ? worker : { ...worker, concurrency: options.workers },
    storage,
    executor,
    identity,
    auth: { ...auth, mode, ...(custom ? { custom } : {}) },
    ...(store?.index && embed ? { store: { ...store, index: { ...store.index, embed } } } : {}),
    usage: { ...usageOptions, ...usageEnabled(process.env.GREENROOM_USAGE_ENABLED) },
    public_base_url: public_base_url ?? (() => url || undefined),
    // A relative URL is one of this server.
    webhooks: { ...webhooks, loopback: (request) => within(request) },
    env: process.env,
    // For programs to read; people at a terminal get text.
    ...(process.stderr.isTTY ? { ambient: { log: (record) => console.error(textLine(record, Date.now())) } } : {}),
  }).catch((error: unknown) => {
    if (!(error instanceof ConfigError)) throw error;
    throw new ConfigError(error.problems.map((problem) => problem.replaceAll("auth.custom", "auth.path")));
  });
  const graphs = executor.graphs().map(({ graph_id }) => graph_id);
  const named = typeof public_base_url === "string" ? [new URL(public_base_url).host] : [];
  const hosts = ["localhost", "127.0.0.1", "[::1]", urlHost(options.host), ...named];
  const handler = createHandler(service, {
    // What stands at the mount itself is the application's to say.
    ...(app ? { app } : { page: () => page(url, graphs, mode) }),
    open_metrics: options.loopback,
    // Without keys any page on the web could reach the server: none may but those named, and loopback.
    ...(open ? { hosts } : {}),
  });
  const within = createHandler(service, app ? { app } : {});
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
  const { organization_id, workspace_id, project_id } = service.deployment;
  if (open) console.log("Open: no key is asked for, so whoever is on this machine can use it (greenroom keys --help)");
  if (public_base_url === undefined && /^(?:0\.0\.0\.0|::)$/.test(options.host)) {
    console.warn(`Feedback links start with ${url}, which others cannot reach: set --public-base-url`);
  }
  console.log(`Graphs: ${graphs.join(", ")} (${name})`);
  console.log(`Database: ${shownDatabase(options.database)}`);
  console.log(`Organization ${organization_id}, workspace ${workspace_id}, project ${project_id}`);
  console.log(`API: ${url}/openapi.json`);
  if ((await service.metrics()).standby) {
    console.log("Standing by: another server executes the runs of this database, until it ends");
  }
  console.log(`Greenroom listening on ${url}`);
}

/** How the server is guarded. Throws a ConfigError when it would be open to other machines. */
async function guard(
  storage: Storage,
  asked: AuthMode | undefined,
  loopback: boolean,
): Promise<{ readonly mode: AuthMode; readonly identity: IdentityStore }> {
  await storage.migrate();
  const own = ownKeys(process.env.GREENROOM_API_KEYS);
  const identity = own ?? storage.identity;
  const mode = asked ?? (own || (await identity.hasKeys()) ? "api_key" : "none");
  if (mode === "none" && own) {
    throw new ConfigError(['GREENROOM_API_KEYS: has no effect while auth.mode is "none"; remove one of the two']);
  }
  if (mode === "none" && !loopback) {
    throw new ConfigError([
      "--host: without keys anybody who reaches the server could use it, so it listens on loopback addresses alone; make a " +
        "key with greenroom keys create, or set GREENROOM_API_KEYS",
    ]);
  }
  return { mode, identity };
}

/** Accounts of the keys in a list with commas; null when it names none. */
function ownKeys(list = ""): IdentityStore | null {
  const keys = list.split(",").map((key) => key.trim());
  try {
    return keys.some((key) => key !== "") ? staticIdentity({ keys: keys.filter((key) => key !== "") }) : null;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw new ConfigError(error.problems.map((problem) => `GREENROOM_API_KEYS: ${problem}`));
  }
}

function usageEnabled(value: string | undefined): NonNullable<ServiceOptions["usage"]> {
  if (!value) return {};
  if (value !== "0" && value !== "1") throw new ConfigError([`GREENROOM_USAGE_ENABLED: ${value} is neither 0 nor 1`]);
  return { enabled: value === "1" };
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
  if (isPostgres(database)) {
    const { postgres } = await import("../postgres.ts");
    const direct_url = process.env.GREENROOM_DATABASE_DIRECT_URL;
    return postgres({ url: database, ...(direct_url ? { direct_url } : {}) });
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
