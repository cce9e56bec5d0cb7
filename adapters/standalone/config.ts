/** What the stand-alone server is told: options and environment variables, and the configuration file. */
import { existsSync, readFileSync } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { parseArgs, parseEnv } from "node:util";
import { ConfigError, type ServiceOptions } from "../../lib/mod.ts";
import { problemsOfSettings } from "../agents.ts";
import { isLibsql, isPostgres, problemOfUrl } from "../database.ts";
import { LOG_FORMATS, LOG_LEVELS, type LogFormat, type LogLevel } from "./log.ts";
import { didYouMean } from "./suggest.ts";

/** A value, and the flag or variable that errors about it name. */
export interface Given {
  readonly value: string;
  readonly setting: string;
}

/** Options of the command, as flags or `GREENROOM_*`. Flags win; an empty variable counts as unset. */
export interface CommandOptions {
  readonly help: boolean;
  readonly version: boolean;
  readonly config?: string;
  readonly host: Given;
  /** Only this machine reaches the host. */
  readonly loopback: boolean;
  /** What URLs that leave the server start with. Default: where it listens. */
  readonly public_base_url?: Given;
  /** Undefined: 2024, or the next free one. */
  readonly port?: number;
  readonly database: Given;
  readonly workers?: number;
  /** How long runs may go on after SIGTERM. */
  readonly grace_ms: number;
  readonly log_level: LogLevel;
  /** Undefined: text at a terminal, else JSON. */
  readonly log_format?: LogFormat;
}

export const usage = `greenroom: serve agents behind the assistants, threads and runs API

  --config FILE    greenroom.json or langgraph.json; default: the one in this folder
  --host HOST      default 127.0.0.1; other than loopback addresses need API keys
  --port PORT      default 2024, or the next free one; 0 for any free one
  --database URL   a SQLite file, :memory:, or libSQL: file:PATH, libsql://HOST, https://HOST and so on, with the token in
                   GREENROOM_DATABASE_TOKEN; or postgres://USER:PASSWORD@HOST/NAME, where a pooler is in front with
                   GREENROOM_DATABASE_DIRECT_URL, the URL without it; default .greenroom/greenroom.db
  --public-base-url URL
                   what feedback links start with; default: where the server listens
  --workers N      runs executed at once; default 10
  --grace-ms N     how long runs may go on after SIGTERM or SIGINT, before they are put back; default 10000. A second signal
                   ends the server at once
  --log-level LEVEL
                   debug, info, warn or error; default info, which logs requests and ended runs
  --log-format FORMAT
                   text or json; default text at a terminal, else json
  -h, --help
  -v, --version

Each option is also an environment variable: GREENROOM_CONFIG, GREENROOM_HOST, GREENROOM_PORT, GREENROOM_DATABASE,
GREENROOM_PUBLIC_BASE_URL, GREENROOM_WORKERS, GREENROOM_GRACE_MS, GREENROOM_LOG_LEVEL, GREENROOM_LOG_FORMAT.
GREENROOM_API_KEYS is a list of your own keys, with commas, of at least 32 characters each; GREENROOM_USAGE_ENABLED is 0 or 1.

Accounts: greenroom keys|workspaces|projects|users|agents --help
Backups: greenroom backup --help
greenroom help [COMMAND] and greenroom version print what --help and --version do.
`;

/** A SQLite file. */
const DEFAULT_DATABASE: Given = { value: ".greenroom/greenroom.db", setting: "--database" };

type EnvVars = Readonly<Record<string, string | undefined>>;

/** An option by its flag, or else by its variable. */
function givenBy(name: string, flag: string | undefined, env: EnvVars): Given | undefined {
  if (flag !== undefined) return { value: flag, setting: `--${name}` };
  const setting = `GREENROOM_${name.toUpperCase().replaceAll("-", "_")}`;
  const value = env[setting];
  return value ? { value, setting } : undefined;
}

/** Throws ConfigError with every problem, each naming its option or variable. */
export function readCommand(args: readonly string[], env: EnvVars, commands: Iterable<string> = []): CommandOptions {
  const problems: string[] = [];
  const names = [
    "config",
    "host",
    "port",
    "database",
    "public-base-url",
    "workers",
    "grace-ms",
    "log-level",
    "log-format",
  ] as const;
  const text = Object.fromEntries(names.map((name) => [name, { type: "string" as const }]));
  const { tokens } = parseArgs({
    args: [...args],
    options: { ...text, help: { type: "boolean", short: "h" }, version: { type: "boolean", short: "v" } },
    strict: false,
    tokens: true,
  });
  const flags = new Map<string, string>();
  let valueAt = -1;
  for (const token of tokens) {
    if (token.kind === "positional" && token.index !== valueAt) {
      const command = token.index === 0 ? `no such command${didYouMean(token.value, commands)}` : "";
      problems.push(`${token.value}: ${command || "not an option; see --help"}`);
    }
    if (token.kind !== "option") continue;
    if (token.name === "help" || token.name === "version") flags.set(token.name, "");
    else if (!(token.name in text)) {
      const known = [...names, "help", "version"].map((name) => `--${name}`);
      problems.push(`${token.rawName}: unknown option${didYouMean(token.rawName, known)}`);
      // What follows was meant as its value.
      valueAt = token.index + 1;
    } else if (!token.value) problems.push(`${token.rawName}: needs a value`);
    else flags.set(token.name, token.value);
  }
  const given = (name: (typeof names)[number]): Given | undefined => givenBy(name, flags.get(name), env);
  const whole = (name: "port" | "workers" | "grace-ms", most: number): number | undefined => {
    const option = given(name);
    if (!option) return undefined;
    if (/^\d{1,10}$/.test(option.value) && Number(option.value) <= most) return Number(option.value);
    problems.push(`${option.setting}: ${option.value} is not a whole number from 0 to ${most}`);
    return undefined;
  };

  const oneOf = <Value extends string>(
    name: "log-level" | "log-format",
    values: readonly Value[],
  ): Value | undefined => {
    const option = given(name);
    const value = values.find((known) => known === option?.value);
    if (option && value === undefined) {
      problems.push(`${option.setting}: ${option.value} is none of ${values.join(", ")}`);
    }
    return value;
  };

  const host = given("host") ?? { value: "127.0.0.1", setting: "--host" };
  const loopback = /^(?:localhost|127(?:\.\d{1,3}){3}|\[?::1\]?)$/i.test(host.value);
  const public_base_url = given("public-base-url");
  const database = given("database") ?? DEFAULT_DATABASE;
  const scheme = problemOfUrl(database.value);
  if (scheme !== undefined) problems.push(`${database.setting}: ${scheme}`);
  const config = given("config")?.value;
  const port = whole("port", 65_535);
  const workers = whole("workers", 1_000);
  const grace_ms = whole("grace-ms", 86_400_000) ?? 10_000;
  const log_level = oneOf("log-level", LOG_LEVELS) ?? "info";
  const log_format = oneOf("log-format", LOG_FORMATS);
  if (problems.length > 0 && !flags.has("help") && !flags.has("version")) throw new ConfigError(problems);
  return {
    help: flags.has("help"),
    version: flags.has("version"),
    host: { ...host, value: host.value.replace(/^\[(.*)\]$/, "$1") },
    loopback,
    database,
    grace_ms,
    log_level,
    ...(log_format === undefined ? {} : { log_format }),
    ...(config === undefined ? {} : { config }),
    ...(public_base_url === undefined ? {} : { public_base_url }),
    ...(port === undefined ? {} : { port }),
    ...(workers === undefined ? {} : { workers }),
  };
}

/** Where an account command works: options of its line, variables, and what the configuration says of keys. */
export function readPlace(
  args: readonly string[],
  env: EnvVars,
): { readonly database: Given; readonly key_prefix?: string } {
  const { values } = parseArgs({
    args: [...args],
    options: { config: { type: "string" }, database: { type: "string" } },
    strict: false,
  });
  const text = (value: unknown): string | undefined => (typeof value === "string" && value !== "" ? value : undefined);
  const database = givenBy("database", text(values.database), env) ?? DEFAULT_DATABASE;
  const file =
    givenBy("config", text(values.config), env)?.value ?? ["greenroom.json"].find((name) => existsSync(name));
  if (file === undefined) return { database };
  const { auth } = readContent(file);
  const key_prefix = isRecord(auth) ? text(auth.key_prefix) : undefined;
  return { database, ...(key_prefix === undefined ? {} : { key_prefix }) };
}

/** A database as the log may name it. A URL may carry a password, and a token after the question mark. */
export function shownDatabase(database: string): string {
  if (isPostgres(database)) {
    const { host, pathname } = new URL(database);
    return `postgres://${host}${pathname}`;
  }
  return isLibsql(database) ? database.replace(/\?.*$/s, "") : database;
}

/** An export of a file. */
export interface Place {
  /** Absolute. */
  readonly file: string;
  readonly export: string;
}

/** One entry of `graphs`. */
export interface GraphEntry extends Place {
  readonly graph_id: string;
  /** The export is a function that makes the graph, not one that is the agent. */
  readonly factory: boolean;
  /** What the library is told of it. */
  readonly settings: GraphSettings;
}

interface GraphSettings {
  readonly max_attempts?: number;
  readonly timeout_ms?: number;
  readonly abandon_ms?: number;
  /** Of its default assistant. */
  readonly description?: string;
}

export interface FileConfig {
  /** Absolute. */
  readonly file: string;
  /** All that the file names. */
  readonly graph_ids: readonly string[];
  /** Those whose entries can be read. */
  readonly graphs: readonly GraphEntry[];
  /** What other keys take from files, by key; the options in `service` are without them. */
  readonly modules: Readonly<Partial<Record<ModuleKey, Place>>>;
  readonly service: Pick<ServiceOptions, Option>;
  readonly env: Readonly<Record<string, string>>;
  /** Keys of a `langgraph.json` that change nothing here. */
  readonly unsupported: readonly string[];
  /** What the user is told, and the server does without. */
  readonly warnings: readonly string[];
  /** What is wrong with the file, each by its key; everything else is what could be read all the same. */
  readonly problems: readonly string[];
}

/** Sections of the file that are options of the library under the same names. `createService` proves them. */
const OPTIONS: readonly Option[] = [
  "deployment",
  "public_base_url",
  "auth",
  "worker",
  "limits",
  "retention",
  "feedback",
  "usage",
  "webhooks",
  "http",
  "store",
  "checkpointer",
  "crons",
];

type Option =
  | "deployment"
  | "public_base_url"
  | "auth"
  | "worker"
  | "limits"
  | "retention"
  | "feedback"
  | "usage"
  | "webhooks"
  | "http"
  | "store"
  | "checkpointer"
  | "crons";

/** Keys that name the export of a file. */
const MODULES = ["auth.path", "store.index.embed", "http.app"] as const;
type ModuleKey = (typeof MODULES)[number];

interface Shape {
  readonly [key: string]: true | Shape;
}

/** What every `langgraph.json` has, and a file of any name may. */
const PROJECT: Shape = { $schema: true, graphs: true, env: true, dependencies: true, node_version: true };

const greenroomKeys: Shape = {
  ...PROJECT,
  ...Object.fromEntries(OPTIONS.map((name): [string, true] => [name, true])),
};

/** What a `langgraph.json` may hold; of its other keys the server says that they change nothing. */
const langgraphKeys: Shape = {
  ...PROJECT,
  auth: { path: true, disable_studio_auth: true },
  store: {
    index: { dims: true, embed: true, fields: true },
    ttl: { default_ttl: true, refresh_on_read: true, sweep_interval_minutes: true },
  },
  checkpointer: { ttl: { strategy: true, default_ttl: true, sweep_interval_minutes: true } },
  http: {
    app: true,
    enable_custom_route_auth: true,
    body_timeout_ms: true,
    middleware_order: true,
    configurable_headers: { includes: true, excludes: true },
    cors: {
      allow_origins: true,
      allow_origin_regex: true,
      allow_methods: true,
      allow_headers: true,
      allow_credentials: true,
      expose_headers: true,
      max_age: true,
    },
    ...Object.fromEntries(
      ["assistants", "threads", "runs", "crons", "store", "meta", "ui", "mcp", "a2a", "webhooks"].map(
        (group): [string, true] => [`disable_${group}`, true],
      ),
    ),
  },
  webhooks: true,
};

const isOption = (name: string): boolean => (OPTIONS as readonly string[]).includes(name);

type JsonObject = Readonly<Record<string, unknown>>;

const isRecord = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Reads `greenroom.json` or `langgraph.json`. Throws ConfigError for a file that is no JSON object. */
export function readConfig(path: string | undefined): FileConfig {
  const file = path ?? ["greenroom.json", "langgraph.json"].find((name) => existsSync(name));
  if (file === undefined) {
    throw new ConfigError([
      "No greenroom.json or langgraph.json in this folder. Write a greenroom.json, or name a file with --config FILE. " +
        'The least it needs: {"graphs": {"agent": "./agent.ts:agent"}}',
    ]);
  }
  const absolute = resolve(file);
  const content = readContent(file);

  const problems: string[] = [];
  const langgraph = basename(file) === "langgraph.json";
  const shape = langgraph ? langgraphKeys : greenroomKeys;
  const unknown = unknownKeys(content, shape, "", problems);
  const graphs = readGraphs(content.graphs, absolute, langgraph, unknown, problems);
  if (!langgraph) problems.push(...unknown.map((key) => `${key}: unknown key`));
  const options = Object.entries(known(content, shape)).filter(([name, value]) => {
    if (!isOption(name)) return false;
    const fits = name === "public_base_url" || isRecord(value);
    if (!fits) problems.push(`${name}: must be an object`);
    return fits;
  });
  const { modules, service } = readModules(Object.fromEntries(options), absolute, problems);
  const warnings: string[] = [];
  const env = readEnv(content.env, absolute, problems, warnings);
  return {
    file: absolute,
    graph_ids: isRecord(content.graphs) ? Object.keys(content.graphs) : [],
    graphs,
    modules,
    service,
    env,
    unsupported: langgraph ? unknown : [],
    warnings,
    problems: [...new Set(problems)],
  };
}

function readContent(file: string): JsonObject {
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(resolve(file), "utf8"));
  } catch (error) {
    const missing = (error as { code?: unknown }).code === "ENOENT";
    throw new ConfigError([`${file}: ${missing ? "no such file" : "cannot be read as JSON"}`]);
  }
  if (!isRecord(content)) throw new ConfigError([`${file}: not a JSON object`]);
  return content;
}

/** The part of `record` that `shape` has. */
function known(record: JsonObject, shape: Shape): JsonObject {
  return Object.fromEntries(
    Object.entries(record).flatMap(([key, value]) => {
      const inner = Object.hasOwn(shape, key) ? shape[key] : undefined;
      if (inner === undefined) return [];
      return [[key, inner === true || !isRecord(value) ? value : known(value, inner)]];
    }),
  );
}

/** The keys that `shape` does not have, and problems with what has to be an object. */
function unknownKeys(record: JsonObject, shape: Shape, prefix: string, problems: string[]): string[] {
  return Object.entries(record).flatMap(([key, value]) => {
    const known = Object.hasOwn(shape, key) ? shape[key] : undefined;
    if (known === undefined) return [`${prefix}${key}`];
    if (known === true) return [];
    if (isRecord(value)) return unknownKeys(value, known, `${prefix}${key}.`, problems);
    problems.push(`${prefix}${key}: must be an object`);
    return [];
  });
}

/**
 * In `langgraph.json` a plain function is a factory, as everywhere this file is read. In `greenroom.json` it is the agent
 * itself unless the entry says `"factory": true`: nothing is called at start to find out.
 */
function readGraphs(
  value: unknown,
  file: string,
  langgraph: boolean,
  unknown: string[],
  problems: string[],
): GraphEntry[] {
  if (!isRecord(value) || Object.keys(value).length === 0) {
    problems.push('graphs: names no graph; write {"graphs": {"agent": "./agent.ts:agent"}}');
    return [];
  }
  return Object.entries(value).flatMap(([graph_id, entry]) => {
    const key = `graphs.${graph_id}`;
    const { path, factory = langgraph, ...about } = isRecord(entry) ? entry : { path: entry };
    const { description, max_attempts, timeout_ms, abandon_ms, ...rest } = about as Record<string, unknown>;
    unknown.push(...Object.keys(rest).map((name) => `${key}.${name}`));
    if (typeof factory !== "boolean") problems.push(`${key}.factory: must be true or false`);
    const settings = { description, max_attempts, timeout_ms, abandon_ms };
    const wrong = new Map(problemsOfSettings(settings));
    problems.push(...[...wrong].map(([name, problem]) => `${key}.${name}: ${problem}`));
    const place = placeOf(path, file);
    if (typeof place !== "string") {
      const usable = Object.entries(settings).filter(([name, value]) => value !== undefined && !wrong.has(name));
      return { graph_id, ...place, factory: factory === true, settings: Object.fromEntries(usable) };
    }
    problems.push(`${key}: ${place}`);
    return [];
  });
}

/** The export that a text such as `./file.ts:export` names, or what is wrong with it. */
function placeOf(path: unknown, file: string): Place | string {
  const parts =
    typeof path === "string" ? /^(.+?\.[a-z]+)(?::([\p{ID_Start}$_][\p{ID_Continue}$]*))?$/iu.exec(path) : null;
  if (!parts) return 'not of the form "./file.ts:export"';
  const name = parts[1] as string;
  if (/\.py$/.test(name)) return "Python cannot be served; only JavaScript and TypeScript";
  const absolute = resolve(dirname(file), name);
  return existsSync(absolute) ? { file: absolute, export: parts[2] ?? "default" } : `no such file ${name}`;
}

/** The options, and apart from them what they take from files. */
function readModules(options: JsonObject, file: string, problems: string[]): Pick<FileConfig, "modules" | "service"> {
  const modules: [ModuleKey, Place][] = [];
  let service = options;
  for (const key of MODULES) {
    const [value, rest] = taken(service, key.split("."));
    service = rest;
    if (value === undefined) continue;
    const place = placeOf(value, file);
    if (typeof place === "string") problems.push(`${key}: ${place}`);
    else modules.push([key, place]);
  }
  const index = isRecord(options.store) ? options.store.index : undefined;
  if (isRecord(index)) {
    for (const name of ["dims", "embed"] as const) {
      if (index[name] === undefined) problems.push(`store.index.${name}: missing`);
    }
  }
  return { modules: Object.fromEntries(modules), service };
}

/** The value at a path, and the record without it. */
function taken(record: JsonObject, [name = "", ...path]: readonly string[]): readonly [unknown, JsonObject] {
  const { [name]: value, ...rest } = record;
  if (path.length === 0) return [value, rest];
  if (!isRecord(value)) return [undefined, record];
  const [inner, left] = taken(value, path);
  return [inner, { ...record, [name]: left }];
}

/** `env`: a file of `NAME=value` lines, which may be missing, or the variables themselves. */
function readEnv(value: unknown, file: string, problems: string[], warnings: string[]): Record<string, string> {
  if (value === undefined) return {};
  if (isRecord(value) && Object.values(value).every((item) => ["string", "number", "boolean"].includes(typeof item))) {
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, String(item)]));
  }
  if (typeof value !== "string") {
    problems.push("env: neither a file name nor an object of texts");
    return {};
  }
  try {
    return parseEnv(readFileSync(resolve(dirname(file), value), "utf8")) as Record<string, string>;
  } catch (error) {
    // Projects keep it out of their repository: a fresh copy has none.
    const missing = (error as { code?: unknown }).code === "ENOENT";
    if (missing) warnings.push(`env: there is no file ${value}, so it sets no variable`);
    else problems.push(`env: ${value} cannot be read`);
    return {};
  }
}
