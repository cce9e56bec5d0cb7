/**
 * Writes `greenroom.schema.json`, the JSON Schema (draft-07) of `greenroom.json`: names from the sections of the options, descriptions,
 * types and defaults from their interfaces.
 *
 *   node scripts/config-schema.ts [--check]     --check: writes nothing, and fails if the file differs
 */
import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import * as ts from "typescript-5";
import { AGENT_SETTINGS } from "../adapters/agents.ts";
import { DEFAULTS, SETTINGS } from "../lib/options.ts";
import type { Rule, Section } from "../lib/validation.ts";
import { webhooksSchema } from "../lib/webhooks/options.ts";

const FILE = resolve(import.meta.dirname, "../greenroom.schema.json");

/** A JSON Schema, or a part of one. */
interface JsonSchema {
  readonly [keyword: string]: unknown;
}

/** The options that greenroom.json has. The others are code. */
const OPTIONS = [
  ...["deployment", "public_base_url", "auth", "worker", "limits", "steps", "retention", "feedback"],
  ...["usage", "webhooks", "http", "store", "checkpointer", "traces", "crons"],
];

const moduleExport = (description: string): JsonSchema => ({
  type: "string",
  pattern: "^.+\\.[A-Za-z]+(:[\\p{ID_Start}$_][\\p{ID_Continue}$]*)?$",
  description,
});

/** The keys that name exports of files, in place of options that are code. Null: greenroom.json cannot have the option. */
const CODE_OPTIONS: Readonly<Record<string, JsonSchema | null>> = {
  "auth.custom": null,
  "auth.path": moduleExport("Your authentication: `./file.ts:export`, an object as for `auth.custom` of createApp."),
  "store.index.embed": moduleExport(
    "`./file.ts:export`: a function from texts to vectors, or an object with embedDocuments.",
  ),
  "http.app": moduleExport("`./file.ts:export`: your own routes, a function or an object with fetch."),
  "traces.record": {
    description:
      "`all` keeps the spans of all runs, `none` stores nothing. An object keeps those of some runs, and of all runs what lists show.",
    default: "all",
    anyOf: [
      { enum: ["all", "none"] },
      {
        type: "object",
        properties: {
          sample: {
            ...{ description: "The share of runs whose spans are kept.", default: 1 },
            ...{ type: "number", minimum: 0, maximum: 1 },
          },
          failed: {
            ...{ description: "Keeps the spans of other runs, too, if they fail.", default: true, type: "boolean" },
          },
          slow_ms: {
            description: "Keeps the spans of other runs, too, if their active time reaches this.",
            ...{ type: "integer", minimum: 0 },
          },
        },
        additionalProperties: false,
      },
    ],
  },
  "traces.retention_ms": {
    description: "The time for which traces are kept after the end of their run. Null keeps them as long as the run.",
    default: 604_800_000,
    anyOf: [{ type: "integer", minimum: 0 }, { type: "null" }],
  },
  "traces.redact": moduleExport("`./file.ts:export`: a function that replaces or omits each value before it is kept."),
  "traces.sinks": {
    type: "array",
    items: moduleExport("`./file.ts:export`: an object that gets the spans of all runs, for example `otel()`."),
    description: "Get the spans of all runs, whatever `record` says. Default: none.",
  },
  "traces.otel": {
    description:
      "Exports spans by OTLP, as the variables OTEL_* say. Needs @opentelemetry/sdk-node and @opentelemetry/api. Default: true if OTEL_EXPORTER_OTLP_ENDPOINT is set.",
    anyOf: [
      { type: "boolean" },
      {
        type: "object",
        properties: {
          content: {
            type: "boolean",
            default: false,
            description:
              "Exports prompts, answers, arguments, results and error messages, as far as `traces.content` has them.",
          },
        },
        additionalProperties: false,
      },
    ],
  },
  "webhooks.loopback": null,
  "webhooks.transport": null,
};

const program = ts.createProgram([resolve("lib/options.ts"), resolve("lib/executor/agent-settings.ts")], {
  target: ts.ScriptTarget.ES2023,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  lib: ["lib.es2023.d.ts", "lib.dom.d.ts"],
  strict: true,
  exactOptionalPropertyTypes: true,
  allowImportingTsExtensions: true,
  noEmit: true,
  types: [],
});
const checker = program.getTypeChecker();

function getInterface(file: string, name: string): ts.Type {
  const source = program.getSourceFile(resolve(file));
  const module = source && checker.getSymbolAtLocation(source);
  const symbol = module && checker.getExportsOfModule(module).find((exported) => exported.name === name);
  if (!symbol) throw new Error(`${file} exports no ${name}`);
  return checker.getDeclaredTypeOfSymbol(
    symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol,
  );
}

const typeOfProperty = (property: ts.Symbol): ts.Type => checker.getNonNullableType(checker.getTypeOfSymbol(property));

/** Returns the doc comment of a property on one line. */
const describeProperty = (property: ts.Symbol): string =>
  ts.displayPartsToString(property.getDocumentationComment(checker)).replace(/\s+/g, " ").trim();

/** Returns the default that a doc comment names: a number, true, false or a text in backticks. Undefined without one. */
function parseDefault(description: string): unknown {
  const [, text = ""] = /\b[Dd]efault:? (true|false|`[^`]+`|-?[\d,]+(?:\.\d+)?)(?=[\s.:;,]|$)/.exec(description) ?? [];
  if (text === "") return undefined;
  if (text.startsWith("`")) return text.includes("[") ? JSON.parse(text.slice(1, -1)) : text.slice(1, -1);
  return JSON.parse(text.replaceAll(",", ""));
}

/** Returns the limits that the text of a rule names. */
function parseLimits(rule: Rule | undefined): JsonSchema {
  const text = String(rule?.message ?? "");
  const [, minimum, maximum] = /whole number from (\d+) to (\d+)/.exec(text) ?? [];
  if (minimum !== undefined) return { type: "integer", minimum: Number(minimum), maximum: Number(maximum) };
  const [, least] = /whole number, at least (\d+)/.exec(text) ?? [];
  if (least !== undefined) return { type: "integer", minimum: Number(least) };
  if (/whole number above 0/.test(text)) return { type: "integer", minimum: 1 };
  const [, most] = /number above 0, at most ([\d.]+)/.exec(text) ?? [];
  return most === undefined ? {} : { exclusiveMinimum: 0, maximum: Number(most) };
}

/** Returns the schema of a type that is no section. */
function convertType(type: ts.Type): JsonSchema {
  const members = type.isUnion() ? type.types : [type];
  const literals = members.flatMap((member) => (member.isStringLiteral() ? [member.value] : []));
  if (literals.length === members.length) return { enum: literals };
  if (members.every((member) => member.flags & ts.TypeFlags.BooleanLike)) return { type: "boolean" };
  if (members.length > 1) {
    const serializable = members.filter((member) => member.getCallSignatures().length === 0);
    const schemas = serializable.map(convertType);
    return schemas.length === 1 ? (schemas[0] as JsonSchema) : { anyOf: schemas };
  }
  if (type.flags & ts.TypeFlags.String) return { type: "string" };
  if (type.flags & ts.TypeFlags.Number) return { type: "number" };
  if (checker.isArrayType(type)) {
    const [item] = checker.getTypeArguments(type as ts.TypeReference);
    return { type: "array", items: item ? convertType(item) : {} };
  }
  const entry = checker.getIndexTypeOfType(type, ts.IndexKind.String);
  if (entry) return { type: "object", additionalProperties: convertType(entry) };
  const properties = checker.getPropertiesOfType(type);
  if (properties.length === 0) throw new Error(`${checker.typeToString(type)} has no JSON Schema`);
  return {
    type: "object",
    properties: Object.fromEntries(
      properties.map((property) => [property.name, convertType(typeOfProperty(property))]),
    ),
    required: properties.filter(({ flags }) => !(flags & ts.SymbolFlags.Optional)).map(({ name }) => name),
    additionalProperties: false,
  };
}

/** Returns true if the value is a default of this schema. A doc comment can name what follows from other options. */
function hasDefault(schema: JsonSchema, value: unknown): boolean {
  if (value === undefined) return false;
  if (Array.isArray(schema.enum)) return schema.enum.includes(value);
  const type = Array.isArray(value) ? "array" : typeof value;
  const types = Array.isArray(schema.anyOf) ? schema.anyOf.map((part: JsonSchema) => part.type) : [schema.type];
  return types.some((name) => name === type || (name === "integer" && Number.isInteger(value)));
}

/** Returns the schema of one option. Undefined if greenroom.json cannot have it. */
function convertOption(path: string, rule: Rule | Section, property: ts.Symbol | undefined): JsonSchema | undefined {
  const code = CODE_OPTIONS[path];
  if (code !== undefined) return code ?? undefined;
  if (!property) throw new Error(`${path} has no property in an interface`);
  const group = /^http\.disable_(?!webhooks)(\w+)$/.exec(path)?.[1];
  const description = group
    ? `True: the routes of ${group} are not served. Default false.`
    : describeProperty(property);
  if (description === "") throw new Error(`${path} has no doc comment in its interface`);
  const section = path === "webhooks" ? webhooksSchema : rule;
  const [name = "", key = ""] = path.split(".");
  const defaults = (DEFAULTS as Readonly<Record<string, Readonly<Record<string, unknown>>>>)[name];
  const value = defaults?.[key] ?? parseDefault(description);
  if ("members" in section) return { description, ...convertSection(section, typeOfProperty(property), `${path}.`) };
  const schema = { ...convertType(typeOfProperty(property)), ...parseLimits(rule) };
  return { description, ...(hasDefault(schema, value) ? { default: value } : {}), ...schema };
}

/** Returns the schema of a section, whose options are also those of CODE_OPTIONS. */
function convertSection(section: Section, type: ts.Type, path = "", names = Object.keys(section.members)): JsonSchema {
  const properties = new Map(checker.getPropertiesOfType(type).map((property) => [property.name, property]));
  const added = Object.keys(CODE_OPTIONS).filter(
    (key) => key.startsWith(path) && !key.slice(path.length).includes("."),
  );
  const keys = [...new Set([...names, ...(path === "" ? [] : added.map((key) => key.slice(path.length)))])];
  const schemas = keys.flatMap((name) => {
    const schema = convertOption(`${path}${name}`, section.members[name] as Rule, properties.get(name));
    return schema ? [[name, schema] as const] : [];
  });
  const isRequired = (name: string): boolean => {
    const property = properties.get(name);
    return property !== undefined && !(property.flags & ts.SymbolFlags.Optional);
  };
  const required = schemas.map(([name]) => name).filter((name) => path !== "" && isRequired(name));
  return {
    type: "object",
    properties: Object.fromEntries(schemas),
    ...(required.length > 0 ? { required } : {}),
    additionalProperties: false,
  };
}

function convertAgent(): JsonSchema {
  const settings = getInterface("lib/executor/agent-settings.ts", "AgentSettings");
  const section = { members: AGENT_SETTINGS } as unknown as Section;
  const { properties } = convertSection(section, settings, "graphs.") as { readonly properties: JsonSchema };
  const path = moduleExport("The file and its export, default: the default export.");
  const factory = {
    type: "boolean",
    default: false,
    description: "The export is a function that makes the graph, not one that is the agent.",
  };
  return {
    anyOf: [
      path,
      { type: "object", properties: { path, factory, ...properties }, required: ["path"], additionalProperties: false },
    ],
  };
}

const schema = {
  $schema: "http://json-schema.org/draft-07/schema#",
  title: "greenroom.json",
  description: "The configuration of the stand-alone server of Greenroom.",
  type: "object",
  properties: {
    $schema: { type: "string", description: "The address of this schema, for editors." },
    graphs: {
      type: "object",
      description: "The agents by name. Each is the export of a file, or an object with `path` and settings.",
      additionalProperties: convertAgent(),
      minProperties: 1,
    },
    env: {
      description: "A file of NAME=value lines, or the variables themselves. Variables of the shell take precedence.",
      anyOf: [{ type: "string" }, { type: "object", additionalProperties: { type: ["string", "number", "boolean"] } }],
    },
    dependencies: { description: "Only LangGraph's own server needs it." },
    node_version: { description: "Only LangGraph's own server needs it." },
    ...(convertSection(SETTINGS, getInterface("lib/options.ts", "ServiceOptions"), "", OPTIONS)
      .properties as JsonSchema),
  },
  required: ["graphs"],
  additionalProperties: false,
};
const text = `${JSON.stringify(schema, null, 2)}\n`;
if (!process.argv.includes("--check")) writeFileSync(FILE, text);
else if (readFileSync(FILE, "utf8") !== text) {
  console.error("greenroom.schema.json differs from the options: run node scripts/config-schema.ts");
  process.exitCode = 1;
}
