/** The stand-alone server: a project, its database and a port. Loads the project again for `greenroom dev`. */
import { fstatSync } from "node:fs";
import process from "node:process";
import { createHandler, type Handler } from "../../lib/http/handler.ts";
import { type AuthMode, createService, type Service, type ServiceOptions } from "../../lib/mod.ts";
import type { IdentityStore, Storage } from "../../lib/storage/types.ts";
import { isLibsql, isPostgres, openDatabase, sqliteDriver } from "../database.ts";
import { docsPage } from "../docs-page.ts";
import { type FetchHandler, type Listener, serve as listen, PortTaken } from "../node/mod.ts";
import { studio } from "../studio/mod.ts";
import { createListedKeyStore, requireSafeAccess } from "./access.ts";
import { type CommandOptions, type OptionValue, redactDatabaseUrl } from "./command-options.ts";
import type { FileConfig } from "./config.ts";
import { createLocalApi, type LocalApi } from "./local.ts";
import { createLog, type Log, type Output } from "./log.ts";
import { stopExporter } from "./otel.ts";
import { type LoadProjectOptions, loadProject, type Project } from "./project.ts";
import { installLogger } from "./sdk-logger.ts";

const DEFAULT_PORT = 2024;
const MAX_PORT_ATTEMPTS = 100;
const REPEATED_SIGNAL_MS = 250;
/** The time that runs may continue during a reload, and the time after it for runs that ignore their signal. */
const RELOAD_GRACE_MS = 300;

export interface Server {
  readonly url: string;
  readonly config: FileConfig;
  /**
   * Loads the project again. Requests wait while the services change; runs that do not end in time are put back. Throws a
   * ConfigError, and serves what it served, when the project cannot be loaded.
   */
  reload(): Promise<FileConfig>;
}

/**
 * Loads the project, opens the database, and starts the service and the HTTP server. Resolves once it listens; the
 * server then runs until SIGTERM or SIGINT, which end the process. Without workers elsewhere it becomes the worker,
 * else it prints that it is on standby. Rejects if it cannot start.
 */
export async function serve(options: CommandOptions, load: typeof loadProject = loadProject): Promise<Server> {
  const { host, dev } = options;
  await requireSqlite(options.database);
  const log = createServerLog(options);
  // Modules may ask for both while they are loaded.
  const local = createLocalApi();
  const removeLogger = installLogger(log.write);
  let url = "";
  let current: Promise<ServedProject>;
  const internalHandler: Handler = async (request, host) => (await current).internalHandler(request, host);
  const projectOptions: LoadProjectOptions = { options, log, local, getUrl: () => url, internalHandler };
  const project = await load(projectOptions);
  const { database } = project;
  const listedKeyStore = createListedKeyStore(process.env.GREENROOM_API_KEYS);
  const storage = await openStorage(database);
  const identity = listedKeyStore ?? storage.identity;
  const accessInput = { identity, hasListedKeys: listedKeyStore !== null, options };
  const mode = await requireSafeAccess(project.settings.auth, accessInput);
  // Accounts in memory are made anew at each start.
  const existingIds = listedKeyStore ? null : await listWorkspaceAndProjectIds(identity, project.settings.deployment);
  const executesRuns = project.settings.worker?.concurrency !== 0;
  // The same lock that the service's worker asks for.
  if (executesRuns && !(await storage.becomeWorker(Date.now()))) console.log(formatStandbyMessage(database));
  // The services of a changed project follow each other on one database, which may be in memory.
  const serviceStorage: Storage = dev ? { ...storage, close: async () => {} } : storage;
  const deployContext: DeployContext = { options, storage: serviceStorage, identity, local };
  const first = await deploy(project, mode, deployContext);
  current = Promise.resolve(first);
  if (existingIds) logCreated(first.service.deployment, project.settings.deployment ?? {}, existingIds, log);
  local.serve(internalHandler);
  const handler: Handler = async (request, host) => (await current).handler(request, host);
  const max_message_bytes = project.settings.http?.max_body_bytes;
  const listener = await listenFrom(log.wrapHandler(local.wrapHandler(handler)), options, { max_message_bytes }).catch(
    async (error: unknown) => {
      await first.service.stop(0);
      throw error;
    },
  );
  stopOnSignals(options, async (grace_ms) => {
    // It still listens: who asks is told that it is not ready, and readers stay to the end.
    await (await current).service.stop(grace_ms);
    await stopExporter();
    if (dev) await storage.close();
    local.close();
    removeLogger();
    // A client that keeps an idle connection must not keep the process.
    await Promise.race([listener.close().catch(() => {}), new Promise((resolve) => setTimeout(resolve, 500))]);
  });

  url = `http://${formatUrlHost(host.value)}:${listener.port}`;
  printStart(first, options, url);
  return {
    url,
    config: project.config,
    async reload() {
      const changed = await load(projectOptions);
      const mode = await requireSafeAccess(changed.settings.auth, accessInput);
      const old = await current;
      const next = old.service.stop(RELOAD_GRACE_MS).then(() => deploy(changed, mode, deployContext));
      current = next.catch(() => deploy(old.project, old.mode, deployContext));
      await current;
      await next;
      return changed.config;
    },
  };
}

/** Throws if the runtime has no SQLite for a file: what a Node that is too old says of the agents would mislead. */
async function requireSqlite({ value, setting }: OptionValue): Promise<void> {
  if (!isLibsql(value) && !isPostgres(value)) await sqliteDriver(setting);
}

/**
 * Calls `close` with the grace period at the first SIGTERM or SIGINT, and then ends the process with code 0. A second
 * signal ends the process at once with code 1.
 */
function stopOnSignals({ dev, grace_ms }: CommandOptions, close: (grace_ms: number) => Promise<void>): void {
  let stoppedAt = Number.POSITIVE_INFINITY;
  /**
   * Stops the server and ends the process with code 0. A second signal ends it at once with code 1, unless it comes
   * right after the first, because npm hands signals on twice.
   */
  const stop = async (): Promise<void> => {
    // npm and process groups hand the same signal on twice.
    if (performance.now() - stoppedAt > REPEATED_SIGNAL_MS) process.exit(1);
    if (stoppedAt !== Number.POSITIVE_INFINITY) return;
    stoppedAt = performance.now();
    if (!dev) console.log(`Stopping: active runs have ${grace_ms} ms to end. A second signal stops the server at once`);
    await close(dev ? Math.min(RELOAD_GRACE_MS, grace_ms) : grace_ms);
    process.exit(0);
  };
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => void stop());
}

/** A project as it is served. */
interface ServedProject {
  readonly project: Project;
  readonly mode: AuthMode;
  readonly service: Service;
  /** The handlers of requests from outside, and of those of the project's own code. */
  readonly handler: Handler;
  readonly internalHandler: Handler;
}

interface DeployContext {
  readonly options: CommandOptions;
  readonly storage: Storage;
  readonly identity: IdentityStore;
  readonly local: LocalApi;
}

/**
 * Creates the service of a project, which starts its worker, and its handlers. Without authentication, the handler
 * accepts only requests to loopback addresses, the host and the public URL. Rejects for invalid settings.
 */
async function deploy(
  project: Project,
  mode: AuthMode,
  { options, storage, identity, local }: DeployContext,
): Promise<ServedProject> {
  const { settings, app } = project;
  const auth = { ...settings.auth, mode };
  const executor = options.dev ? withShortAbandon(settings.executor) : settings.executor;
  const service = await createService({ ...settings, executor, storage, identity, auth });
  const { public_base_url } = settings;
  const publicHosts = typeof public_base_url === "string" ? [new URL(public_base_url).host] : [];
  const hosts = ["localhost", "127.0.0.1", "[::1]", formatUrlHost(options.host.value), ...publicHosts];
  const handler = createHandler(service, {
    ...(app ? { app } : {}),
    studio: studio(),
    open_metrics: options.loopback,
    langsmith_studio: options.studio,
    development: options.dev,
    docs: docsPage,
    // Without keys any page on the web could reach the server: none may but those named, and loopback.
    ...(mode === "none" ? { hosts } : {}),
  });
  let ownHandler: Handler | undefined;
  /** Answers requests of the graphs to their own server. The handler is created at the first one. */
  const internalHandler: Handler = (request, host) => {
    ownHandler ??= createHandler(service, { ...(app ? { app } : {}), acts_for: local.acts_for });
    return ownHandler(request, host);
  };
  return { project, mode, service, handler, internalHandler };
}

/**
 * Returns a copy of the executor whose graphs are abandoned after at most `RELOAD_GRACE_MS`, because runs that ignore
 * their signal must not delay a reload.
 */
function withShortAbandon(executor: ServiceOptions["executor"]): ServiceOptions["executor"] {
  return {
    ...executor,
    graphs: () =>
      executor
        .graphs()
        .map((graph) => ({ ...graph, abandon_ms: Math.min(graph.abandon_ms ?? RELOAD_GRACE_MS, RELOAD_GRACE_MS) })),
  };
}

/** Prints where the server listens, with warnings about missing authentication and unreachable links. */
function printStart({ project, mode, service }: ServedProject, options: CommandOptions, url: string): void {
  const { host } = options;
  if (mode === "none" && !options.dev)
    console.log(
      "No authentication: every program on this machine can use the server. To create API keys: greenroom keys --help",
    );
  if (typeof project.settings.public_base_url !== "string" && /^(?:0\.0\.0\.0|::)$/.test(host.value)) {
    console.warn(`Feedback links start with ${url}, which others cannot reach: set --public-base-url`);
  }
  console.log(`Graphs: ${project.graph_ids.join(", ")} (${project.name})`);
  console.log(`Database: ${redactDatabaseUrl(project.database.value)}`);
  const { organization_id, workspace_id, project_id } = service.deployment;
  if (!options.dev) console.log(`Organization ${organization_id}, workspace ${workspace_id}, project ${project_id}`);
  if (project.otlp_endpoint !== null) console.log(`Traces: exported to ${project.otlp_endpoint}`);
  console.log(`API: ${url}/docs`);
  console.log(`Studio: ${url}/studio/`);
  if (options.studio) console.log(`LangSmith Studio: https://smith.langchain.com/studio?baseUrl=${url}`);
  console.log(`Greenroom listening on ${url}`);
}

/**
 * Returns true for an output at a terminal, false for a file, a pipe or a closed output. Bun loads its streams for
 * `process.stdout`, a tenth of a start: a file or a pipe is known without.
 */
function isTerminal(name: "stdout" | "stderr"): boolean {
  try {
    return fstatSync(name === "stdout" ? 1 : 2).isCharacterDevice() && process[name].isTTY === true;
  } catch {
    return false; // closed
  }
}

/**
 * Creates the log of the server on standard output and error. Without a chosen format, it is text at a terminal and
 * with `dev`, else one line of JSON for each record. Colours are used at terminals only, unless the environment
 * disables them.
 */
function createServerLog({ log_level, log_format, dev }: CommandOptions): Log {
  const isColorDisabled = Boolean(process.env.NO_COLOR) || process.env.TERM === "dumb";
  const output = (isShown: boolean, write: (line: string) => void): Output => ({
    color: isShown && !isColorDisabled,
    write,
  });
  const isShown = isTerminal("stdout");
  return createLog({
    level: log_level,
    format: log_format ?? (isShown || dev ? "text" : "json"),
    brief: dev,
    out: output(isShown, (line) => console.log(line)),
    err: output(isTerminal("stderr"), (line) => console.error(line)),
  });
}

/**
 * Returns the ids of all workspaces of the default organization and of their projects; null if the deployment names
 * neither. Creates the default organization and its defaults if they are missing.
 */
async function listWorkspaceAndProjectIds(
  identity: IdentityStore,
  { project, workspace }: NonNullable<ServiceOptions["deployment"]> = {},
): Promise<ReadonlySet<string> | null> {
  if (project === undefined && workspace === undefined) return null;
  const { organization } = await identity.ensureDefaults(Date.now());
  const workspaces = (await identity.listUnits("workspace", [organization.id])).map(({ id }) => id);
  return new Set([...workspaces, ...(await identity.listUnits("project", workspaces)).map(({ id }) => id)]);
}

/**
 * Logs, at level `info`, a workspace and a project that the deployment names and whose id is not among `existingIds`:
 * this start has created it, and the name may be a typing error.
 */
function logCreated(
  deployment: Service["deployment"],
  names: NonNullable<ServiceOptions["deployment"]>,
  existingIds: ReadonlySet<string>,
  log: Log,
): void {
  for (const kind of ["workspace", "project"] as const) {
    const id = deployment[`${kind}_id`];
    const name = names[kind];
    if (name === undefined || existingIds.has(id)) continue;
    const message = `created the ${kind} of deployment.${kind}: none had this name`;
    log.write({ level: "info", message, name, [`${kind}_id`]: id });
  }
}

/** Formats the notice of a standby server. It warns because runs created here may name graphs that the active server lacks. */
const formatStandbyMessage = ({ value }: OptionValue): string =>
  `Standing by: another server executes all runs of ${redactDatabaseUrl(value)}, including those created here, until it stops. ` +
  "To execute runs here, start with --database OTHER";

const formatUrlHost = (host: string): string => (host.includes(":") ? `[${host}]` : host);

/**
 * Opens the database, with further settings from `GREENROOM_DATABASE_…` variables that are set. Rejects with errors
 * that name these variables, or the flag of the URL.
 */
export function openStorage({ value, setting }: OptionValue): Promise<Storage> {
  const { env } = process;
  const names = {
    url: setting,
    auth_token: "GREENROOM_DATABASE_TOKEN",
    direct_url: "GREENROOM_DATABASE_DIRECT_URL",
    writer: "GREENROOM_DATABASE_WRITER",
  };
  const namedOptions = Object.entries(names).filter(([option, name]) => option !== "url" && env[name]);
  return openDatabase(
    { ...Object.fromEntries(namedOptions.map(([option, name]) => [option, env[name]])), url: value },
    names,
  );
}

/**
 * Listens on the port of the options, and rejects if it is taken. Without one, listens on the first free port from the
 * default on, and prints it if it is another one; rejects after a limited number of taken ports.
 */
async function listenFrom(
  handler: FetchHandler,
  { host, port }: CommandOptions,
  { max_message_bytes }: { readonly max_message_bytes: number | undefined },
): Promise<Listener> {
  const listenOptions = { hostname: host.value, ...(max_message_bytes === undefined ? {} : { max_message_bytes }) };
  if (port !== undefined) return listen(handler, { ...listenOptions, port });
  for (let next = DEFAULT_PORT; ; next += 1) {
    try {
      const listener = await listen(handler, { ...listenOptions, port: next });
      if (next > DEFAULT_PORT) console.log(`Port ${DEFAULT_PORT} is taken, using ${next}`);
      return listener;
    } catch (error) {
      if (!(error instanceof PortTaken) || next === DEFAULT_PORT + MAX_PORT_ATTEMPTS) throw error;
    }
  }
}
