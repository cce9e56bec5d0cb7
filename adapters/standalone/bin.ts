#!/usr/bin/env node
/** The command `greenroom`: the library, a configuration file and a port. */
import { realpathSync } from "node:fs";
import { basename } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import type { GraphInfo } from "../../lib/executor/contract.ts";
import { createHandler } from "../../lib/http/handler.ts";
import {
  type AuthMode,
  ConfigError,
  createService,
  type Service,
  type ServiceOptions,
  staticIdentity,
  VERSION,
  validateOptions,
} from "../../lib/mod.ts";
import type { IdentityStore, Storage } from "../../lib/storage/types.ts";
import { isLibsql, isPostgres, openDatabase, sqliteDriver } from "../database.ts";
import { type Fetch, type Listener, serve as listen, PortTaken } from "../node/mod.ts";
import { studio } from "../studio/mod.ts";
import { type CommandOptions, type Given, readCommand, readPlace, shownDatabase, usage } from "./command-options.ts";
import { COMMANDS, runCommand, usageOf } from "./commands.ts";
import { readConfig } from "./config.ts";
import { loadGraphs } from "./graphs.ts";
import { localApi } from "./local.ts";
import { createLog, type Log, type Output } from "./log.ts";
import { loadModules } from "./modules.ts";
import { installLogger } from "./sdk-logger.ts";
import { didYouMean } from "./suggest.ts";

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
    const asked = args[0] === "help" ? ["--help", ...args.slice(2)] : args[0] === "version" ? ["--version"] : args;
    const options = readCommand(asked, process.env, [...COMMANDS, "help", "version"]);
    if (options.help) console.log(helpOn(args[0] === "help" ? args[1] : undefined));
    else if (options.version) console.log(VERSION);
    else await serve(options);
  } catch (error) {
    // What the user can mend is named; of anything else the stack is wanted.
    const known = error instanceof ConfigError || error instanceof PortTaken;
    console.error(`greenroom: ${known ? error.message : error instanceof Error ? error.stack : String(error)}`);
    process.exit(1);
  }
}

/** What `greenroom help COMMAND` says. */
function helpOn(word: string | undefined): string {
  if (word === undefined || word.startsWith("-") || word === "help" || word === "version") return usage;
  if (COMMANDS.has(word)) return usageOf(word);
  throw new ConfigError([`help: no such command ${word}${didYouMean(word, COMMANDS)}`]);
}

/** The log as the options want it: for people at a terminal text, in colours; for programs a line of JSON each. */
function logFor({ log_level, log_format }: CommandOptions): Log {
  const plain = Boolean(process.env.NO_COLOR) || process.env.TERM === "dumb";
  const output = (stream: NodeJS.WriteStream, write: (line: string) => void): Output => ({
    color: stream.isTTY === true && !plain,
    write,
  });
  return createLog({
    level: log_level,
    format: log_format ?? (process.stdout.isTTY ? "text" : "json"),
    out: output(process.stdout, (line) => console.log(line)),
    err: output(process.stderr, (line) => console.error(line)),
  });
}

async function serve(options: CommandOptions): Promise<void> {
  const { host, database } = options;
  // What a Node that is too old says of the agents would mislead.
  if (!isLibsql(database.value) && !isPostgres(database.value)) await sqliteDriver(database.setting);
  const config = readConfig(options.config);
  // What the shell sets wins, as it does with .env files.
  for (const [name, value] of Object.entries(config.env)) process.env[name] ??= value;
  const name = basename(config.file);
  const log = logFor(options);
  for (const message of config.warnings) log.write({ level: "warn", message, file: name });
  if (config.unsupported.length > 0) {
    log.write({ level: "warn", message: `without effect here: ${config.unsupported.join(", ")}`, file: name });
  }

  // Modules may ask for both while they are loaded.
  const local = localApi();
  const removeLogger = installLogger(log.write);
  const loaded = await loadGraphs(config.graphs, config.file);
  const { modules, problems: ofModules } = await loadModules(config.modules);
  const { "auth.path": custom, "store.index.embed": embed, "http.app": app } = modules;
  const { worker, auth, store, usage: usageOptions, webhooks } = config.service;
  let url = "";
  const public_base_url = options.public_base_url?.value ?? config.service.public_base_url;
  const settings: Omit<ServiceOptions, "storage"> = {
    ...config.service,
    worker: options.workers === undefined ? worker : { ...worker, concurrency: options.workers },
    executor: local.executor(loaded.executor),
    auth: { ...auth, ...(custom ? { custom } : {}) },
    ...(store?.index && embed ? { store: { ...store, index: { ...store.index, embed } } } : {}),
    usage: { ...usageOptions, ...usageEnabled(process.env.GREENROOM_USAGE_ENABLED) },
    public_base_url: public_base_url ?? (() => url || undefined),
    // A relative URL is one of this server.
    webhooks: { ...webhooks, loopback: async (request) => local.requests(within)(request) },
    env: process.env,
    environment: { log: log.write },
    ...(log.onRunFinished ? { onRunFinished: log.onRunFinished } : {}),
  };
  const problems = [...config.problems, ...loaded.problems, ...ofModules];
  problems.push(...problemsOf(settings, config.graph_ids, problems));
  if (problems.length > 0) {
    const base = options.public_base_url?.setting;
    const shown = (problem: string): string =>
      base && problem.startsWith("public_base_url:") ? problem.replace("public_base_url", base) : `${name}: ${problem}`;
    throw new ConfigError(problems.map(shown));
  }

  const own = ownKeys(process.env.GREENROOM_API_KEYS);
  const storage = await openStorage(database);
  const identity = own ?? storage.identity;
  const mode = await guard({ identity, own: own !== null, asked: auth?.mode ?? (custom && "custom"), options });
  const open = mode === "none";
  // Accounts in memory are made anew at each start.
  const before = own ? null : await workspacesAndProjects(identity, config.service.deployment);
  const executes = settings.worker?.concurrency !== 0;
  // The same lock that the service's worker asks for.
  if (executes && !(await storage.becomeWorker(Date.now()))) console.log(standby(options.database));
  const service = await createService({ ...settings, storage, identity, auth: { ...settings.auth, mode } });
  if (before) logCreated(service.deployment, settings.deployment ?? {}, before, log);
  const graphs = loaded.executor.graphs().map(({ graph_id }) => graph_id);
  const named = typeof public_base_url === "string" ? [new URL(public_base_url).host] : [];
  const hosts = ["localhost", "127.0.0.1", "[::1]", urlHost(host.value), ...named];
  const handler = createHandler(service, {
    ...(app ? { app } : {}),
    studio: studio(),
    open_metrics: options.loopback,
    // Without keys any page on the web could reach the server: none may but those named, and loopback.
    ...(open ? { hosts } : {}),
  });
  const within = createHandler(service, { ...(app ? { app } : {}), acts_for: local.acts_for });
  local.serve(within);
  let listener: Listener;
  try {
    listener = await listenFrom(log.requests(local.requests(handler)), options);
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
    console.log(`Stopping: runs have ${options.grace_ms} ms to end. A second signal ends the server at once`);
    // It still listens: who asks is told that it is not ready, and readers stay to the end.
    await service.stop(options.grace_ms);
    local.close();
    removeLogger();
    // A client that keeps an idle connection must not keep the process.
    await Promise.race([listener.close().catch(() => {}), new Promise((resolve) => setTimeout(resolve, 500))]);
    process.exit(0);
  };
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => void stop());

  url = `http://${urlHost(host.value)}:${listener.port}`;
  const { organization_id, workspace_id, project_id } = service.deployment;
  if (open)
    console.log("No authentication: every program on this machine can use it. For API keys: greenroom keys --help");
  if (public_base_url === undefined && /^(?:0\.0\.0\.0|::)$/.test(host.value)) {
    console.warn(`Feedback links start with ${url}, which others cannot reach: set --public-base-url`);
  }
  console.log(`Graphs: ${graphs.join(", ")} (${name})`);
  console.log(`Database: ${shownDatabase(database.value)}`);
  console.log(`Organization ${organization_id}, workspace ${workspace_id}, project ${project_id}`);
  console.log(`API: ${url}/openapi.json`);
  console.log(`Studio: ${url}/studio/`);
  console.log(`Greenroom listening on ${url}`);
}

/** What is wrong with the service's options, by their names in the file; of keys in `told` nothing more. */
function problemsOf(
  settings: Omit<ServiceOptions, "storage">,
  graph_ids: readonly string[],
  told: readonly string[],
): readonly string[] {
  // Also those that could not be loaded.
  const graphs = (): readonly GraphInfo[] => graph_ids.map((graph_id) => ({ graph_id, checkpoints: "worker" }));
  const keyOf = (problem: string): string => problem.replace(/:.*$/s, "");
  try {
    validateOptions({ ...settings, executor: { ...settings.executor, graphs } } as ServiceOptions);
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) return [];
    // The storage is opened once the rest is right.
    const keys = new Set(["storage", ...told.map(keyOf)]);
    return error.problems
      .map((problem) => problem.replaceAll("auth.custom", "auth.path").replace(/^executor:/, "graphs:"))
      .filter((problem) => !keys.has(keyOf(problem)));
  }
}

/** Ids of the workspaces and projects that are there, where the deployment names one. */
async function workspacesAndProjects(
  identity: IdentityStore,
  { project, workspace }: NonNullable<ServiceOptions["deployment"]> = {},
): Promise<ReadonlySet<string> | null> {
  if (project === undefined && workspace === undefined) return null;
  const { organization } = await identity.ensureDefaults(Date.now());
  const workspaces = (await identity.listWorkspaces(organization.id)).map(({ id }) => id);
  return new Set([...workspaces, ...(await identity.listProjects(workspaces)).map(({ id }) => id)]);
}

/** Logs a workspace or project that this start has created: the name may be a typing error. */
function logCreated(
  deployment: Service["deployment"],
  names: NonNullable<ServiceOptions["deployment"]>,
  before: ReadonlySet<string>,
  log: Log,
): void {
  for (const kind of ["workspace", "project"] as const) {
    const id = deployment[`${kind}_id`];
    const name = names[kind];
    if (name === undefined || before.has(id)) continue;
    const message = `created a ${kind}: none had the name in deployment.${kind}`;
    log.write({ level: "info", message, name, [`${kind}_id`]: id });
  }
}

/** How callers are known. Throws a ConfigError when the server would be open to other machines. */
async function guard({ identity, own, asked, options }: Guarded): Promise<AuthMode> {
  const mode = asked ?? (own || (await identity.hasKeys()) ? "api_key" : "none");
  if (mode === "none" && own) {
    throw new ConfigError(['GREENROOM_API_KEYS: has no effect while auth.mode is "none"; remove one of the two']);
  }
  if (mode === "none" && !options.loopback) {
    throw new ConfigError([
      `${options.host.setting}: without keys anybody who reaches the server could use it, so it listens on loopback addresses ` +
        "alone; make a key with greenroom keys create, or set GREENROOM_API_KEYS",
    ]);
  }
  return mode;
}

interface Guarded {
  readonly identity: IdentityStore;
  /** Its keys are those of GREENROOM_API_KEYS. */
  readonly own: boolean;
  readonly asked: AuthMode | undefined;
  readonly options: CommandOptions;
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

/** Runs made here may name graphs and webhooks that the other server does not have. */
const standby = ({ value }: Given): string =>
  `Standing by: another server executes the runs of ${shownDatabase(value)}, also those made here, until it ends. ` +
  "For runs of your own start with --database OTHER";

const urlHost = (host: string): string => (host.includes(":") ? `[${host}]` : host);

/** Opens the database. Errors name the flags and variables. */
function openStorage({ value, setting }: Given): Promise<Storage> {
  const { GREENROOM_DATABASE_TOKEN: auth_token, GREENROOM_DATABASE_DIRECT_URL: direct_url } = process.env;
  return openDatabase(
    { url: value, ...(auth_token ? { auth_token } : {}), ...(direct_url ? { direct_url } : {}) },
    { url: setting, auth_token: "GREENROOM_DATABASE_TOKEN", direct_url: "GREENROOM_DATABASE_DIRECT_URL" },
  );
}

/** An asked-for port or an error; without one the first free port from 2024 on. */
async function listenFrom(handler: Fetch, { host, port }: CommandOptions): Promise<Listener> {
  const hostname = host.value;
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
