/** `greenroom openapi`: prints the OpenAPI document of the API, with the schemas of the project's own agents if asked to. */
import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import process from "node:process";
import { toJsonSchema } from "../../lib/executor/json-schemas.ts";
import { createRouteTable, isDisabledBy } from "../../lib/http/route-table.ts";
import { ROUTES } from "../../lib/http/routes/mod.ts";
import type { Json, JsonObject } from "../../lib/json.ts";
import { ConfigError, type Executor, type HttpOptions } from "../../lib/mod.ts";
import { type AgentJsonSchemas, addAgentSchemas, type Document } from "./agents-openapi.ts";
import { describeUnknownOption, parseTokens } from "./arguments.ts";
import { readCommand } from "./command-options.ts";
import { createLocalApi } from "./local.ts";
import { createLog } from "./log.ts";
import { loadProject } from "./project.ts";

export const openapiUsage = `greenroom openapi: print the OpenAPI document of the API

  greenroom openapi [--agents] [--config FILE] [--output FILE]

  --agents       load the project, and add the schemas of its agents: RunCreate_<agent> and Values_<agent>. The document then
                 has the routes that the project serves
  --config FILE  the configuration of the project; default: the one in this folder
  --output FILE  write the document to a file, also if the agents print something while they are loaded

The document that a server has at /openapi.json needs no key, and never has schemas of agents.
`;

interface OpenapiOptions {
  readonly help: boolean;
  readonly agents: boolean;
  readonly config: string | undefined;
  readonly output: string | undefined;
}

/**
 * Writes the OpenAPI document to standard output or the file of `--output`, which it replaces; prints the usage with
 * `--help`. Rejects with a ConfigError for invalid options or an invalid project.
 */
export async function runOpenapi(args: readonly string[]): Promise<void> {
  const options = readOptions(args);
  if (options.help) {
    console.log(openapiUsage);
    return;
  }
  const document = await createDocument(options);
  const text = `${JSON.stringify(document, null, 2)}\n`;
  if (options.output === undefined) await writeOutput(text);
  else writeDocument(options.output, text);
}

const VALUE_OPTIONS = ["config", "output"];
const OPTION_NAMES = ["agents", ...VALUE_OPTIONS, "help"];

/** Returns the options of the command. Throws a ConfigError with every problem, unless help is requested. */
function readOptions(args: readonly string[]): OpenapiOptions {
  const problems: string[] = [];
  const values = new Map<string, string | undefined>();
  for (const { name, rawName, value } of parseTokens(args, VALUE_OPTIONS)) {
    if (name === undefined) problems.push(`${rawName}: not expected here; see --help`);
    else if (!OPTION_NAMES.includes(name)) problems.push(describeUnknownOption(rawName, OPTION_NAMES));
    else if (VALUE_OPTIONS.includes(name) && !value) problems.push(`${rawName}: needs a value`);
    values.set(name ?? "", value);
  }
  const agents = values.has("agents");
  if (values.has("config") && !agents) problems.push("--config: needs --agents; without it, no project is read");
  if (problems.length > 0 && !values.has("help")) throw new ConfigError(problems);
  return { help: values.has("help"), agents, config: values.get("config"), output: values.get("output") };
}

/** Writes to standard output. Resolves once the text has been taken, because the process ends after it. */
const writeOutput = (text: string): Promise<void> =>
  new Promise((done, fail) => process.stdout.write(text, (error) => (error ? fail(error) : done())));

/** Writes the file, in place of one that exists. Throws a ConfigError if it cannot be written. */
function writeDocument(file: string, text: string): void {
  try {
    writeFileSync(resolve(file), text);
  } catch (error) {
    throw new ConfigError([`--output: ${file} cannot be written: ${(error as Error).message}`]);
  }
}

/**
 * Resolves with the document that the package ships. With `agents`, resolves with a copy for the project, which is
 * loaded: without disabled routes and with the schemas of its agents.
 */
async function createDocument({ agents, config }: OpenapiOptions): Promise<Document> {
  const { default: openapi } = await import("../../lib/http/openapi.json", { with: { type: "json" } });
  const document = openapi as unknown as Document;
  if (!agents) return document;
  const { executor, http } = await loadExecutor(config);
  return addAgentSchemas(await omitDisabledRoutes(document, http), await readAgentSchemas(executor));
}

/**
 * Loads the project as the server does, and resolves with its executor and HTTP options. Its warnings and the log of
 * its modules go to standard error. While it loads, calls of graphs to their own server get status 503.
 */
async function loadExecutor(
  config: string | undefined,
): Promise<{ readonly executor: Executor; readonly http: HttpOptions }> {
  const output = { color: false, write: (line: string) => console.error(line) };
  const log = createLog({ level: "warn", format: "text", out: output, err: output });
  const local = createLocalApi();
  try {
    const { settings } = await loadProject({
      options: readCommand(config === undefined ? [] : ["--config", config], process.env),
      log,
      local,
      getUrl: () => "",
      internalHandler: async () => new Response(null, { status: 503 }),
    });
    return { executor: settings.executor, http: settings.http ?? {} };
  } finally {
    local.close();
  }
}

/** Returns a copy of the document without the paths of which the project disables all routes. */
async function omitDisabledRoutes(document: Document, http: HttpOptions): Promise<Document> {
  const table = createRouteTable(ROUTES, "", isDisabledBy(http));
  const paths: Record<string, JsonObject> = {};
  for (const [path, operations] of Object.entries(document.paths)) {
    await table.load(path);
    if (table.findRoutes(path).length > 0) paths[path] = operations as JsonObject;
  }
  return omitUnusedComponents({ ...document, paths });
}

/** Returns a copy without the schemas, responses and examples that no path refers to, also through other ones. */
function omitUnusedComponents(document: Document): Document {
  const components = document.components as unknown as Readonly<Record<string, JsonObject>>;
  const used = new Set<string>();
  /** Adds the components that a part of the document refers to, and those that they refer to. */
  const addUsed = (part: Json): void => {
    for (const [, reference = ""] of JSON.stringify(part).matchAll(/"#\/components\/([^"]+)"/g)) {
      if (used.has(reference)) continue;
      used.add(reference);
      const [kind = "", ...name] = reference.split("/");
      addUsed(components[kind]?.[name.join("/").replaceAll("~1", "/").replaceAll("~0", "~")] ?? null);
    }
  };
  addUsed(document.paths);
  const isUsed = (kind: string, name: string): boolean =>
    kind === "securitySchemes" || used.has(`${kind}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`);
  const entries = Object.entries(components).map(([kind, members]) => [
    kind,
    Object.fromEntries(Object.entries(members).filter(([name]) => isUsed(kind, name))),
  ]);
  return { ...document, components: Object.fromEntries(entries) as Document["components"] };
}

/**
 * Resolves with the JSON Schemas that each agent declares; null for those it does not. A schema of resume values that
 * has no JSON Schema is null, too.
 */
async function readAgentSchemas(executor: Executor): Promise<readonly AgentJsonSchemas[]> {
  const agents: AgentJsonSchemas[] = [];
  for (const { graph_id, schemas } of executor.graphs()) {
    const declared = await executor.state?.(graph_id)?.schemas(graph_id);
    // The schema of a graph describes the context with its defaults filled in. What the server accepts may lack them.
    const context = await findJsonSchema(schemas?.context);
    agents.push({
      graph_id,
      input: declared?.input_schema ?? null,
      context: context ?? declared?.context_schema ?? null,
      values: declared?.output_schema ?? null,
      resume: await findJsonSchema(schemas?.resume),
      validates_input: schemas?.input !== undefined,
      validates_context: context !== null,
    });
  }
  return agents;
}

/** Resolves with the JSON Schema of what a schema accepts; null without a schema, and for one without a JSON Schema. */
const findJsonSchema = async (schema: Parameters<typeof toJsonSchema>[0] | undefined): Promise<JsonObject | null> =>
  schema ? await toJsonSchema(schema, "schema").catch(() => null) : null;
