/** Reads a configuration that is code, such as `greenroom.config.ts`. Its module is loaded as those of agents are. */
import { existsSync } from "node:fs";
import { basename, resolve } from "node:path";
import type { App } from "../../lib/http/handler.ts";
import { ConfigError, type InputIssue } from "../../lib/mod.ts";
import { formatIssue } from "../../lib/validation.ts";
import { findUrlProblem } from "../database.ts";
import {
  anyMembers,
  configSection,
  dropInvalidMembers,
  type FileConfig,
  findEnvFile,
  isRecord,
  pickServiceOptions,
  readEnv,
  SERVICE_KEYS,
  takeAtPath,
} from "./config.ts";
import { loadExport, toApp } from "./modules.ts";

const CONFIG_KEYS = configSection({
  ...anyMembers("$schema", "agents", "database", "env", "dependencies", "node_version"),
  ...SERVICE_KEYS,
});

/** The keys that only a JSON file has, or that the server sets, with what is wrong with them. */
const REFUSED_KEYS: Readonly<Record<string, string>> = {
  graphs: "only a greenroom.json has it. Use agents",
  "auth.path": "only a greenroom.json has it. Use auth.custom",
  "webhooks.loopback": "the server sets it",
};

const EXAMPLE = "Write export default defineConfig({ agents: { … } })";

/**
 * Imports a configuration in code and returns the settings of its default export; invalid members are left out and
 * listed in `problems`. Reads the `env` file, too. Rejects with a ConfigError that names the file if it is no
 * configuration.
 */
export async function readConfigModule(file: string): Promise<FileConfig> {
  const absolute = resolve(file);
  const content = await loadConfigObject(absolute);
  const problems: string[] = [];
  let options: Readonly<Record<string, unknown>> = content;
  for (const [key, problem] of Object.entries(REFUSED_KEYS)) {
    const [value, remaining] = takeAtPath(options, key.split("."));
    options = remaining;
    if (value !== undefined) problems.push(`${key}: ${problem}`);
  }
  const [app, ownOptions] = takeAtPath(options, ["http", "app"]);
  if (app !== undefined && toApp(app) === undefined)
    problems.push("http.app: neither a function nor an object with fetch");
  const inputIssues: InputIssue[] = [];
  const members = dropInvalidMembers(CONFIG_KEYS, ownOptions, [], inputIssues);
  problems.push(...inputIssues.map(formatIssue));
  const warnings: string[] = [];
  const env = readEnv(content.env, absolute, problems, warnings);
  const agents = content.agents;
  return {
    file: absolute,
    graph_ids: isRecord(agents) ? Object.keys(agents) : [],
    graphs: [],
    modules: {},
    sinks: [],
    otel: undefined,
    service: pickServiceOptions(members),
    code: { agents, app: app as App | undefined, database: readDatabase(content.database, problems) },
    env,
    env_file: findEnvFile(content.env, absolute),
    unsupported: [],
    warnings,
    problems: [...new Set(problems)],
  };
}

/**
 * Imports the file and resolves with its default export. Rejects with a ConfigError if the file is missing or fails to
 * load, or if the export is no object.
 */
async function loadConfigObject(file: string): Promise<Readonly<Record<string, unknown>>> {
  const name = basename(file);
  if (!existsSync(file)) throw new ConfigError([`${name}: no such file`]);
  let content: unknown;
  try {
    content = await loadExport({ file, export: "default" });
  } catch (error) {
    const { message } = error as Error;
    const hint = message.startsWith(`${name} has no export`) ? `. ${EXAMPLE}` : "";
    throw new ConfigError([`${message}${hint}`]);
  }
  if (isRecord(content)) return content;
  const kind = content === null || Array.isArray(content) ? String(JSON.stringify(content)) : `a ${typeof content}`;
  throw new ConfigError([`${name}: the default export is ${kind}, and no configuration. ${EXAMPLE}`]);
}

/** Returns the database; undefined if none is named. Adds what is wrong with it to `problems`. */
function readDatabase(value: unknown, problems: string[]): string | undefined {
  if (value === undefined) return undefined;
  const problem =
    typeof value === "string" && value !== "" ? findUrlProblem(value) : "must be a file path, :memory: or a URL";
  if (problem === undefined) return value as string;
  problems.push(`database: ${problem}`);
  return undefined;
}
