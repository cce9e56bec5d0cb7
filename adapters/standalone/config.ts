/** Reads the configuration file of the stand-alone server. */
import { existsSync, readFileSync } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { parseEnv } from "node:util";
import { ConfigError, type ServiceOptions } from "../../lib/mod.ts";
import { problemsOfSettings } from "../agents.ts";

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
  /** The file with those variables, absolute; it may be missing. */
  readonly env_file: string | undefined;
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

export const isRecord = (value: unknown): value is JsonObject =>
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
    env_file: typeof content.env === "string" ? resolve(dirname(absolute), content.env) : undefined,
    unsupported: langgraph ? unknown : [],
    warnings,
    problems: [...new Set(problems)],
  };
}

/** The JSON object in a file. Throws ConfigError for anything else. */
export function readContent(file: string): JsonObject {
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
