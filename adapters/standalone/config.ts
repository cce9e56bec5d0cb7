/** Finds the configuration file of the stand-alone server, and reads those that are JSON. */
import { existsSync, readFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import process from "node:process";
import type { AgentSettings } from "../../lib/executor/contract.ts";
import type { App } from "../../lib/http/handler.ts";
import { ConfigError, type InputIssue, type ServiceOptions } from "../../lib/mod.ts";
import {
  anything,
  findIssues,
  flag,
  formatIssue,
  type Section,
  strictSection,
  UNKNOWN_OPTION,
  valueMatching,
} from "../../lib/validation.ts";
import { AGENT_SETTINGS } from "../agents.ts";
import { type OtelSetting, readOtelSetting } from "./otel.ts";

/** An export of a file. */
export interface ModuleExport {
  /** Absolute. */
  readonly file: string;
  readonly export: string;
}

/** A valid entry of `graphs`. */
export interface ConfiguredGraph extends ModuleExport {
  readonly graph_id: string;
  /** The export is a function that makes the graph, not one that is the agent. */
  readonly factory: boolean;
  /** The settings of the agent. */
  readonly settings: AgentSettings;
}

export interface FileConfig {
  /** Absolute. */
  readonly file: string;
  /** All that the file names. */
  readonly graph_ids: readonly string[];
  /** The graphs with valid entries. */
  readonly graphs: readonly ConfiguredGraph[];
  /** The module exports that other keys name, by key. The options in `service` omit them. */
  readonly modules: Readonly<Partial<Record<ModuleKey, ModuleExport>>>;
  /** The module exports that `traces.sinks` names. The options in `service` omit them. */
  readonly sinks: readonly ModuleExport[];
  /** The OTLP exporter that the server starts: `traces.otel`, which the options in `service` omit. */
  readonly otel: OtelSetting | undefined;
  readonly service: Pick<ServiceOptions, ServiceOption>;
  /** What only a configuration in code has. Undefined for a JSON file. */
  readonly code?: ConfigCode;
  readonly env: Readonly<Record<string, string>>;
  /** The file with those variables, absolute; it may be missing. */
  readonly env_file: string | undefined;
  /** Keys of a `langgraph.json` that change nothing here. */
  readonly unsupported: readonly string[];
  /** Warnings for the user; the server starts anyway. */
  readonly warnings: readonly string[];
  /** The problems of the file, each with its key. The other members have the valid parts. */
  readonly problems: readonly string[];
}

/** The part of a configuration in code that JSON cannot have. */
export interface ConfigCode {
  /** Agents by name. They are not validated. */
  readonly agents: unknown;
  readonly app: App | undefined;
  readonly database: string | undefined;
}

/** Sections of the file that are options of the library under the same names. `createService` validates them. */
const SERVICE_OPTIONS = [
  "deployment",
  "public_base_url",
  "auth",
  "worker",
  "limits",
  "steps",
  "retention",
  "feedback",
  "usage",
  "webhooks",
  "http",
  "store",
  "checkpointer",
  "traces",
  "crons",
] as const;

type ServiceOption = (typeof SERVICE_OPTIONS)[number];

/** Keys that name the export of a file. */
const MODULE_KEYS = ["auth.path", "store.index.embed", "http.app", "traces.redact"] as const;
type ModuleKey = (typeof MODULE_KEYS)[number];

/** Options that are code, and what the file has in their place. */
const CODE_KEYS = { "auth.custom": ". Use auth.path", "webhooks.loopback": "", "webhooks.transport": "" };

/** Returns the schema of a section of the file. */
export const configSection = (members: Section["members"]): Section => strictSection(members, [], "unknown key");
/** Returns members that other code validates. */
export const anyMembers = (...names: readonly string[]): Section["members"] =>
  Object.fromEntries(names.map((name) => [name, anything]));

/** The keys that both kinds of configuration file may have. */
const SHARED_KEYS = anyMembers("$schema", "graphs", "env", "dependencies", "node_version");
const objectRule = valueMatching((value) => isRecord(value), "must be an object");

/** The sections of a `greenroom.json` and of a `greenroom.config.ts`. */
export const SERVICE_KEYS: Section["members"] = {
  ...Object.fromEntries(SERVICE_OPTIONS.map((name) => [name, objectRule])),
  public_base_url: anything,
};

const greenroomKeys = configSection({ ...SHARED_KEYS, ...SERVICE_KEYS });

/** The supported keys of a `langgraph.json`. The server warns about its other keys. */
const langgraphKeys = configSection({
  ...SHARED_KEYS,
  auth: configSection(anyMembers("path", "disable_studio_auth")),
  store: configSection({
    index: configSection(anyMembers("dims", "embed", "fields")),
    ttl: configSection(anyMembers("default_ttl", "refresh_on_read", "sweep_interval_minutes")),
  }),
  checkpointer: configSection({ ttl: configSection(anyMembers("strategy", "default_ttl", "sweep_interval_minutes")) }),
  http: configSection({
    ...anyMembers("app", "enable_custom_route_auth", "body_timeout_ms", "middleware_order"),
    ...anyMembers(
      ...["assistants", "threads", "runs", "crons", "store", "meta", "ui", "mcp", "ai", "ag_ui", "a2a"].map(
        (group) => `disable_${group}`,
      ),
      ...["disable_operations", "disable_webhooks"],
    ),
    configurable_headers: configSection(anyMembers("includes", "excludes")),
    cors: configSection(
      anyMembers(
        "allow_origins",
        "allow_origin_regex",
        "allow_methods",
        "allow_headers",
        "allow_credentials",
        "expose_headers",
        "max_age",
      ),
    ),
  }),
  webhooks: objectRule,
});

/** Keys that only LangGraph needs, and those that only a greenroom.json has. */
const LANGGRAPH_ONLY_KEYS = [
  "dependencies",
  "node_version",
  "python_version",
  "dockerfile_lines",
  "image_distro",
  "base_image",
];
const OWN_ONLY_KEYS = SERVICE_OPTIONS.filter((name) => !Object.hasOwn(langgraphKeys.members, name));

/** An entry of `graphs` that is no text. */
const graphKeys = configSection({ ...AGENT_SETTINGS, path: anything, factory: flag });

const isOption = (name: string): boolean => (SERVICE_OPTIONS as readonly string[]).includes(name);

type JsonObject = Readonly<Record<string, unknown>>;

export const isRecord = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Returns true for a `langgraph.json`. A file with neither standard name is recognized by its content. */
function isLangGraphConfig(file: string, content: JsonObject): boolean {
  const name = basename(file);
  const has = (key: string): boolean => Object.hasOwn(content, key);
  if (name === "langgraph.json" || name === "greenroom.json") return name === "langgraph.json";
  if (OWN_ONLY_KEYS.some(has)) return false;
  return LANGGRAPH_ONLY_KEYS.some(has) || /langgra\.?ph/.test(String(content.$schema)) || name.startsWith("langgraph");
}

/** The names of Greenroom's own configuration files. A folder has one of them. */
export const OWN_CONFIG_FILES: readonly string[] = ["greenroom.json", "greenroom.config.ts"];

/** Returns true for a configuration that is code, such as `greenroom.config.ts`. */
export const isConfigModule = (file: string): boolean => /\.[cm]?[jt]s$/.test(file);

/**
 * Returns `path`, or else the first of `names` in this folder; undefined without one. Throws a ConfigError if the folder has both of
 * Greenroom's own files, one of which it would return.
 */
export function findConfigFile(path: string | undefined, names: readonly string[]): string | undefined {
  const file = path ?? names.find((name) => existsSync(name));
  if (file === undefined || !OWN_CONFIG_FILES.includes(basename(file))) return file;
  if (!OWN_CONFIG_FILES.every((name) => existsSync(join(dirname(file), name)))) return file;
  const folder = dirname(file) === "." ? "this folder" : dirname(file);
  throw new ConfigError([`${OWN_CONFIG_FILES.join(" and ")} are both in ${folder}: remove one of them`]);
}

/**
 * Returns `path` without a check, else the configuration file in this folder, Greenroom's own before `langgraph.json`.
 * Throws a ConfigError if there is none, or if both of Greenroom's own are there.
 */
export function requireConfigFile(path: string | undefined): string {
  const file = findConfigFile(path, [...OWN_CONFIG_FILES, "langgraph.json"]);
  if (file !== undefined) return file;
  throw new ConfigError([
    "No greenroom.json, greenroom.config.ts or langgraph.json in this folder. Name one with --config FILE, write a new project with " +
      'greenroom init DIR, or write a greenroom.json. The least it needs: {"graphs": {"agent": "./agent.ts:agent"}}',
  ]);
}

/**
 * Reads a `greenroom.json` or `langgraph.json`. Invalid members are left out and listed in `problems`; keys of
 * LangGraph that have no effect are listed in `unsupported`. Reads the `env` file, too, but imports no module. Throws a
 * ConfigError for a file that is no JSON object.
 */
export function readConfig(file: string): FileConfig {
  const absolute = resolve(file);
  const content = readContent(file);

  const problems: string[] = [];
  const isLangGraph = isLangGraphConfig(file, content);
  const inputIssues: InputIssue[] = [];
  const validMembers = dropInvalidMembers(isLangGraph ? langgraphKeys : greenroomKeys, content, [], inputIssues);
  const graphs = readGraphs(content.graphs, absolute, isLangGraph, inputIssues, problems);
  const unsupported = inputIssues.filter(({ type }) => isLangGraph && type === UNKNOWN_OPTION);
  problems.push(...inputIssues.filter((issue) => !unsupported.includes(issue)).map(formatIssue));
  const options = pickServiceOptions(validMembers);
  const moduleOptions = isLangGraph ? withLangGraphPrefix(options) : options;
  const { modules, sinks, otel, service } = readModules(moduleOptions, absolute, problems);
  const warnings: string[] = [];
  const env = readEnv(content.env, absolute, problems, warnings);
  return {
    file: absolute,
    graph_ids: isRecord(content.graphs) ? Object.keys(content.graphs) : [],
    graphs,
    modules,
    sinks,
    otel,
    service,
    env,
    env_file: findEnvFile(content.env, absolute),
    unsupported: unsupported.map(({ loc }) => loc.join(".")),
    warnings,
    problems: [...new Set(problems)],
  };
}

/** Returns the sections that are options of the service. */
export const pickServiceOptions = (members: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(members).filter(([name]) => isOption(name)));

/**
 * Returns the JSON object in a file. Throws a ConfigError that names the file if it is missing, no JSON or no object.
 */
export function readContent(file: string): JsonObject {
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(resolve(file), "utf8"));
  } catch (error) {
    const { code, message } = error as Error & { code?: unknown };
    throw new ConfigError([`${file}: ${code === "ENOENT" ? "no such file" : `cannot be read as JSON: ${message}`}`]);
  }
  if (!isRecord(content)) throw new ConfigError([`${file}: not a JSON object`]);
  return content;
}

/**
 * Returns the record without the members, at any depth, that do not fit the schema, and adds a finding for each to
 * `inputIssues`. `at` is the place of the record, for the findings. Returns the same record if all fit.
 */
export function dropInvalidMembers(
  schema: Section,
  record: JsonObject,
  at: InputIssue["loc"],
  inputIssues: InputIssue[],
): JsonObject {
  const issues = findIssues(schema, record, at);
  inputIssues.push(...issues);
  return issues.reduce((remaining, { loc }) => takeAtPath(remaining, loc.slice(at.length).map(String))[1], record);
}

/**
 * Returns the graphs of a configuration whose file exists; adds the others, and invalid settings, to the lists of
 * problems. In `langgraph.json` a plain function is a factory of graphs; in `greenroom.json` it is the agent unless the
 * entry says `"factory": true`. Nothing is imported.
 */
// biome-ignore lint/complexity/useMaxParams: a value and its file, and the lists that its problems go to
function readGraphs(
  value: unknown,
  file: string,
  isLangGraph: boolean,
  inputIssues: InputIssue[],
  problems: string[],
): ConfiguredGraph[] {
  if (!isRecord(value) || Object.keys(value).length === 0) {
    problems.push('graphs: no graph. Write {"graphs": {"agent": "./agent.ts:agent"}}');
    return [];
  }
  return Object.entries(value).flatMap(([graph_id, entry]) => {
    const key = ["graphs", graph_id];
    const validEntry = dropInvalidMembers(graphKeys, isRecord(entry) ? entry : { path: entry }, key, inputIssues);
    const { path, factory = isLangGraph, ...settings } = validEntry;
    const moduleExport = parseModuleExport(path, file);
    if (typeof moduleExport !== "string") return { graph_id, ...moduleExport, factory: factory === true, settings };
    problems.push(`${key.join(".")}: ${moduleExport}`);
    return [];
  });
}

/**
 * Returns the absolute file and the export that a text such as `./file.ts:export` names, relative to the folder of
 * `file`; the export is `default` if none is named. Returns a text with what is wrong for other values, Python and
 * missing files.
 */
function parseModuleExport(path: unknown, file: string): ModuleExport | string {
  const parts =
    typeof path === "string" ? /^(.+?\.[a-z]+)(?::([\p{ID_Start}$_][\p{ID_Continue}$]*))?$/iu.exec(path) : null;
  if (!parts) return 'not of the form "./file.ts:export"';
  const name = parts[1] as string;
  if (/\.py$/.test(name)) return "Python cannot be served; only JavaScript and TypeScript";
  const absolute = resolve(dirname(file), name);
  return existsSync(absolute) ? { file: absolute, export: parts[2] ?? "default" } : `no such file ${name}`;
}

/**
 * Returns the exports of files that options name, and the options without these. Adds to `problems` what names no
 * existing file, options that only code can set, and an index of the store without embeddings.
 */
function readModules(
  options: JsonObject,
  file: string,
  problems: string[],
): Pick<FileConfig, "modules" | "sinks" | "otel" | "service"> {
  const modules: [ModuleKey, ModuleExport][] = [];
  let service = options;
  for (const key of MODULE_KEYS) {
    const [value, rest] = takeAtPath(service, key.split("."));
    service = rest;
    if (value === undefined) continue;
    const moduleExport = parseModuleExport(value, file);
    if (typeof moduleExport === "string") problems.push(`${key}: ${moduleExport}`);
    else modules.push([key, moduleExport]);
  }
  for (const [key, replacement] of Object.entries(CODE_KEYS)) {
    if (takeAtPath(options, key.split("."))[0] !== undefined)
      problems.push(`${key}: only code can set it${replacement}`);
  }
  const index = isRecord(options.store) ? options.store.index : undefined;
  if (isRecord(index) && index.embed === undefined) problems.push("store.index.embed: missing");
  const [paths, rest] = takeAtPath(service, ["traces", "sinks"]);
  const [otel, serviceOptions] = takeAtPath(rest, ["traces", "otel"]);
  return {
    modules: Object.fromEntries(modules),
    sinks: readSinks(paths, file, problems),
    otel: readOtelSetting(otel, problems),
    service: serviceOptions,
  };
}

/** Returns the module exports that the value of `traces.sinks` names. */
function readSinks(paths: unknown, file: string, problems: string[]): readonly ModuleExport[] {
  if (paths === undefined) return [];
  if (!Array.isArray(paths)) {
    problems.push('traces.sinks: must be a list of texts of the form "./file.ts:export"');
    return [];
  }
  return paths.flatMap((path: unknown, index) => {
    const moduleExport = parseModuleExport(path, file);
    if (typeof moduleExport !== "string") return moduleExport;
    problems.push(`traces.sinks.${index}: ${moduleExport}`);
    return [];
  });
}

/**
 * Returns the options with both LangGraph's and Greenroom's default prefix for the variables of webhooks. Returns the
 * same options without webhooks or with a prefix of their own.
 */
function withLangGraphPrefix(options: JsonObject): JsonObject {
  const { webhooks } = options;
  if (!isRecord(webhooks) || webhooks.env_prefix !== undefined) return options;
  return { ...options, webhooks: { ...webhooks, env_prefix: ["LG_WEBHOOK_", "SERVICE_WEBHOOK_"] } };
}

/**
 * Returns the value at a path, undefined if there is none, and a copy of the record without it. Returns the same record
 * if a part of the path is no object.
 */
export function takeAtPath(
  record: JsonObject,
  [name = "", ...path]: readonly string[],
): readonly [unknown, JsonObject] {
  const { [name]: value, ...rest } = record;
  if (path.length === 0) return [value, rest];
  if (!isRecord(value)) return [undefined, record];
  const [inner, remaining] = takeAtPath(value, path);
  return [inner, { ...record, [name]: remaining }];
}

/** Returns the file that `env` names, absolute; undefined if it names none. `file`: the configuration. */
export const findEnvFile = (value: unknown, file: string): string | undefined =>
  typeof value === "string" ? resolve(dirname(file), value) : undefined;

/**
 * Returns the variables of `env`: those of the object as texts, or of a file of `NAME=value` lines, relative to `file`.
 * Empty for a missing file, which is added to `warnings`, and for an invalid value or file, which is added to
 * `problems`. Sets no variable.
 */
export function readEnv(value: unknown, file: string, problems: string[], warnings: string[]): Record<string, string> {
  if (value === undefined) return {};
  if (
    isRecord(value) &&
    Object.values(value).every((variable) => ["string", "number", "boolean"].includes(typeof variable))
  ) {
    return Object.fromEntries(Object.entries(value).map(([name, variable]) => [name, String(variable)]));
  }
  if (typeof value !== "string") {
    problems.push("env: neither a file name nor an object of texts");
    return {};
  }
  try {
    return process
      .getBuiltinModule("node:util")
      .parseEnv(readFileSync(resolve(dirname(file), value), "utf8")) as Record<string, string>;
  } catch (error) {
    // Projects keep it out of their repository: a fresh copy has none.
    const isMissing = (error as { code?: unknown }).code === "ENOENT";
    if (isMissing) warnings.push(`env: there is no file ${value}, so no variable is set`);
    else problems.push(`env: ${value} cannot be read`);
    return {};
  }
}
