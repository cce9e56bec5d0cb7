/** A project as the server runs it: its configuration file and the modules that this names. */
import { basename } from "node:path";
import process from "node:process";
import type { App, Handler } from "../../lib/http/handler.ts";
import { ConfigError, type ServiceOptions } from "../../lib/mod.ts";
import { findSettingsProblems } from "../agents.ts";
import { type CommandOptions, chooseDatabase, type OptionValue } from "./command-options.ts";
import { type FileConfig, isConfigModule, readConfig, requireConfigFile } from "./config.ts";
import type { LocalApi } from "./local.ts";
import type { Log } from "./log.ts";
import { loadAgents, loadGraphs, loadModules, loadSinks } from "./modules.ts";
import { loadExporter } from "./otel.ts";

export interface Project {
  /** The configuration file's name. */
  readonly name: string;
  readonly config: FileConfig;
  readonly settings: Omit<ServiceOptions, "storage">;
  /** Routes of the project's own. */
  readonly app: App | undefined;
  readonly graph_ids: readonly string[];
  readonly database: OptionValue;
  /** Where the OTLP exporter sends spans; null without one. */
  readonly otlp_endpoint: string | null;
}

/**
 * Reads the configuration at `path`, or the one in this folder for undefined: a JSON file, or code, which it imports.
 * Rejects with a ConfigError if there is none.
 */
async function loadConfig(path: string | undefined): Promise<FileConfig> {
  const file = requireConfigFile(path);
  if (!isConfigModule(file)) return readConfig(file);
  return await (await import("./config-module.ts")).readConfigModule(file);
}

export interface LoadProjectOptions {
  readonly options: CommandOptions;
  readonly log: Log;
  readonly local: LocalApi;
  /** Returns the URL of the server; empty before it listens. */
  readonly getUrl: () => string;
  /** The handler of the requests of the project's own code. */
  readonly internalHandler: Handler;
}

/**
 * Reads the configuration, sets its variables, imports its modules, and returns the settings of the service. Logs each
 * warning once. Rejects with a ConfigError that has everything that is wrong, if anything is.
 */
export async function loadProject({
  options,
  log,
  local,
  getUrl,
  internalHandler,
}: LoadProjectOptions): Promise<Project> {
  const config = await loadConfig(options.config);
  setVariables(config.env);
  const name = basename(config.file);
  const unsupported =
    config.unsupported.length > 0 ? [`unsupported keys without effect: ${config.unsupported.join(", ")}`] : [];
  for (const message of [...config.warnings, ...unsupported].filter((message) => !loggedWarnings.has(message))) {
    loggedWarnings.add(message);
    log.write({ level: "warn", message, file: name });
  }
  const { code } = config;
  const loaded = code ? await loadAgents(code.agents, config.file) : await loadGraphs(config.graphs, config.file);
  const { modules, problems: moduleProblems } = await loadModules(config.modules);
  const { sinks, problems: sinkProblems } = await loadSinks(config.sinks);
  const exporter = await loadExporter(config.otel, config.file, log.write);
  const {
    "auth.path": custom,
    "store.index.embed": embed,
    "http.app": app = code?.app,
    "traces.redact": redact,
  } = modules;
  const { worker, auth, store, usage, traces, webhooks } = config.service;
  const allSinks = [...(traces?.sinks ?? []), ...sinks, ...exporter.sinks];
  const public_base_url = options.public_base_url?.value ?? config.service.public_base_url;
  const settings: Project["settings"] = {
    ...config.service,
    worker: options.workers === undefined ? worker : { ...worker, concurrency: options.workers },
    executor: local.wrapExecutor(loaded.executor),
    auth: { ...auth, ...(custom ? { custom } : {}) },
    ...(store?.index && embed ? { store: { ...store, index: { ...store.index, embed } } } : {}),
    traces: {
      // A developer looks at prompts and answers. No other start keeps them unless it is told to.
      ...(options.dev ? { content: "all" } : {}),
      ...traces,
      ...(redact ? { redact } : {}),
      ...(allSinks.length > 0 ? { sinks: allSinks } : {}),
    },
    usage: { ...usage, ...readUsageEnabled(process.env.GREENROOM_USAGE_ENABLED) },
    public_base_url: public_base_url ?? (() => getUrl() || undefined),
    // A relative URL is one of this server.
    webhooks: { ...webhooks, loopback: async (request) => local.wrapHandler(internalHandler)(request) },
    env: process.env,
    environment: { log: log.write },
    ...(log.onRunFinished ? { onRunFinished: log.onRunFinished } : {}),
  };
  const problems = [...config.problems, ...loaded.problems, ...moduleProblems, ...sinkProblems, ...exporter.problems];
  /** Returns a problem with the key that the configuration has for the option. */
  const rename = (problem: string): string =>
    code
      ? problem.replace(/^executor:/, "agents:")
      : problem.replaceAll("auth.custom", "auth.path").replace(/^executor:/, "graphs:");
  problems.push(...findSettingsProblems(settings, config.graph_ids, problems, rename));
  if (problems.length > 0) {
    const urlSetting = options.public_base_url?.setting;
    const formatProblem = (problem: string): string =>
      urlSetting && problem.startsWith("public_base_url:")
        ? problem.replace("public_base_url", urlSetting)
        : `${name}: ${problem}`;
    throw new ConfigError(problems.map(formatProblem));
  }
  const graph_ids = loaded.executor.graphs().map(({ graph_id }) => graph_id);
  const database = chooseDatabase(options.database, code?.database);
  return { name, config, settings, app, graph_ids, database, otlp_endpoint: exporter.endpoint };
}

/** The warnings that were logged. A reload does not repeat them. */
const loggedWarnings = new Set<string>();

/** The variables that the last configuration has set. */
const configuredVariables = new Set<string>();

/**
 * Removes the variables of the earlier configuration from `process.env` and sets those of this one. Variables of the
 * shell have precedence, as with .env files.
 */
function setVariables(env: FileConfig["env"]): void {
  for (const name of configuredVariables) delete process.env[name];
  configuredVariables.clear();
  for (const [name, value] of Object.entries(env)) {
    if (process.env[name] !== undefined) continue;
    process.env[name] = value;
    configuredVariables.add(name);
  }
}

/** Returns the setting; an empty object if it is not set. Throws ConfigError for a value other than 0 and 1. */
function readUsageEnabled(value: string | undefined): NonNullable<ServiceOptions["usage"]> {
  if (!value) return {};
  if (value !== "0" && value !== "1") throw new ConfigError([`GREENROOM_USAGE_ENABLED: ${value} is neither 0 nor 1`]);
  return { enabled: value === "1" };
}
