/** greenroom.schema.json and the loader: both accept the same configurations, and refuse the same keys. */
import assert from "node:assert/strict";
import { globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { describe, it } from "node:test";
import { Ajv } from "ajv";
import { findSettingsProblems } from "../../adapters/agents.ts";
import { readConfig } from "../../adapters/standalone/config.ts";
import { combine } from "../../lib/mod.ts";
import { createTemporaryFolder } from "../support/programs.ts";

interface Schema {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: false | Schema;
  readonly required?: readonly string[];
  readonly anyOf?: readonly Schema[];
  readonly enum?: readonly unknown[];
  readonly items?: Schema;
  readonly minimum?: number;
  readonly maximum?: number;
}
type JsonObject = { [key: string]: unknown };

const root = resolve(import.meta.dirname, "../..");
const schema = JSON.parse(readFileSync(join(root, "greenroom.schema.json"), "utf8")) as Schema;
const validate = new Ajv({ allErrors: true, allowUnionTypes: true }).compile(schema);
const AGENT = "./agent.ts:agent";
const MODULES: Readonly<Record<string, unknown>> = {
  "auth.path": "./auth.ts:auth",
  "store.index.embed": "./embed.ts:embed",
  "http.app": "./app.ts:app",
  "traces.redact": "./traces.ts:redact",
  "traces.sinks[]": "./traces.ts:sink",
};
/** Values of options that are texts of a certain form, or need others beside them. */
const TEXTS: Readonly<Record<string, unknown>> = {
  ...MODULES,
  public_base_url: "https://agents.example",
  "auth.key_prefix": "gr",
  "webhooks.signing_secret": `whsec_${"A".repeat(32)}`,
  "webhooks.env_prefix": "SERVICE_WEBHOOK_",
  "webhooks.url.allowed_domains": ["hooks.example"],
  "http.cors.allow_origins": ["https://app.example"],
  "http.mcp.protected_resource.resource": "https://agents.example/mcp",
  "http.mcp.protected_resource.authorization_servers": ["https://login.example"],
};

/** Returns the problems that the stand-alone server has with a configuration, without loading its modules. */
function findLoaderProblems(folder: string, config: JsonObject): readonly string[] {
  const file = join(folder, "greenroom.json");
  writeFileSync(file, JSON.stringify(config));
  const { service, graph_ids, problems } = readConfig(file);
  const executor = combine();
  const embed = service.store?.index
    ? { store: { ...service.store, index: { ...service.store.index, embed: () => [] } } }
    : {};
  const settings = { ...service, ...embed, executor } as Parameters<typeof findSettingsProblems>[0];
  return [...problems, ...findSettingsProblems(settings, graph_ids, problems, (problem) => problem)];
}

/** Returns a value that the schema accepts. */
function createValue(part: Schema, path: string): unknown {
  if (path in TEXTS) return TEXTS[path];
  if (part.enum) return part.enum[0];
  if (part.anyOf) return createValue(part.anyOf[0] as Schema, path);
  if (part.type === "boolean") return true;
  if (part.type === "integer" || part.type === "number") return part.minimum ?? 1;
  if (part.type === "array") return [createValue(part.items as Schema, `${path}[]`)];
  if (part.type === "object") {
    const required = part.required ?? [];
    return Object.fromEntries(
      required.map((name) => [name, createValue(part.properties?.[name] as Schema, `${path}.${name}`)]),
    );
  }
  return "x";
}

/** The sections with named members, each with its path. Entries of a map have the name `x`. */
function listSections(part: Schema, path: readonly string[] = []): readonly (readonly [readonly string[], Schema])[] {
  const parts = [part, ...(part.anyOf ?? [])];
  return parts.flatMap((section) => {
    const entries = section.additionalProperties ? [["x", section.additionalProperties] as const] : [];
    const members = [...Object.entries(section.properties ?? {}), ...entries];
    const inner = members.flatMap(([name, member]) => listSections(member, [...path, name]));
    return section.additionalProperties === false ? [[path, section] as const, ...inner] : inner;
  });
}

/** Returns a configuration with an object at a path, and what is required around it. */
function createConfig(path: readonly string[], value: JsonObject): JsonObject {
  const config: JsonObject = { graphs: { agent: AGENT } };
  if (path.length === 0) return { ...config, ...value };
  let part: Schema = schema;
  let target = config;
  for (const [index, name] of path.entries()) {
    const section = [part, ...(part.anyOf ?? [])].find(
      ({ properties, additionalProperties }) => properties?.[name] !== undefined || additionalProperties,
    ) as Schema;
    part = (section.properties?.[name] ?? section.additionalProperties) as Schema;
    const required = [part, ...(part.anyOf ?? [])].find(({ type }) => type === "object") as Schema;
    const at = path.slice(0, index + 1).join(".");
    const existing = (target[name] ?? createValue(required, at)) as JsonObject;
    const member: JsonObject = typeof existing === "object" ? { ...existing } : {};
    if (at === "graphs.x") member.path = AGENT;
    target[name] = index === path.length - 1 ? { ...member, ...value } : member;
    target = target[name] as JsonObject;
  }
  return config;
}

/** The keys that are no options of the service. */
const FILE_KEYS: readonly string[] = ["$schema", "graphs", "env", "dependencies", "node_version"];
/** The options that tables list and only code can set. */
const CODE_KEYS: readonly string[] = ["auth.custom"];

/** Returns the keys of a schema, sorted and joined by dots, without those of objects inside maps and lists. */
const listOptionKeys = ({ properties = {} }: Schema, path = ""): readonly string[] =>
  Object.entries(properties)
    .flatMap(([name, part]) => (part.properties ? listOptionKeys(part, `${path}${name}.`) : [`${path}${name}`]))
    .sort();

function createProject(folder: string): void {
  for (const file of ["agent.ts", "auth.ts", "embed.ts", "app.ts", "traces.ts"]) writeFileSync(join(folder, file), "");
}

/** The configurations of docs, templates and examples. */
function listConfigurations(): readonly (readonly [name: string, text: string])[] {
  const files = globSync("{templates,examples,test/projects}/**/greenroom.json", { cwd: root });
  const pages = globSync("{README.md,docs/**/*.md}", { cwd: root }).flatMap((page) => {
    const text = readFileSync(join(root, page), "utf8");
    const blocks = [...text.matchAll(/^```json\n(.*?)^```/gms), ...text.matchAll(/<<'END'\n(.*?)^END$/gms)];
    const inline = [...text.matchAll(/`(\{"graphs".*?\})`/gs)];
    return [...blocks, ...inline].map(([, block = ""]) => [page, block] as const);
  });
  return [...files.map((file) => [file, readFileSync(join(root, file), "utf8")] as const), ...pages].filter(
    ([, text]) => /^\s*\{[\s\S]*"graphs":/.test(text),
  );
}

describe("greenroom.schema.json", () => {
  it("accepts each configuration of docs, templates and examples, as the loader does", () => {
    const configurations = listConfigurations();
    assert.ok(configurations.length >= 7, `only ${configurations.length} configurations were found`);
    for (const [name, text] of configurations) {
      const config = JSON.parse(text) as JsonObject;
      validate(config);
      assert.deepEqual(validate.errors ?? [], [], `${name}: ${text}`);
      using folder = createTemporaryFolder();
      createProject(folder.path);
      const places = JSON.stringify(config).matchAll(/"(\.\/[\w./-]+\.[a-z]+)(?::\w+)?"/g);
      for (const [, place = ""] of places) {
        mkdirSync(dirname(join(folder.path, place)), { recursive: true });
        writeFileSync(join(folder.path, place), "");
      }
      assert.deepEqual(
        findLoaderProblems(folder.path, config).filter((problem) => !/SERVICE_WEBHOOK/.test(problem)),
        [],
        name,
      );
    }
  });

  it("has an address that each template and no server needs", () => {
    for (const file of globSync("templates/**/greenroom.json", { cwd: root })) {
      const { $schema } = JSON.parse(readFileSync(join(root, file), "utf8")) as JsonObject;
      assert.equal($schema, "./node_modules/greenroom/greenroom.schema.json", file);
    }
    const { files } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
      readonly files: readonly string[];
    };
    assert.ok(files.includes("greenroom.schema.json"));
  });

  const sections = listSections(schema);
  it("has a section for each object of options", () => assert.ok(sections.length > 25, `${sections.length}`));

  for (const [path, section] of sections) {
    const name = path.join(".") || "the file";
    it(`refuses an unknown key in ${name}, as the loader does`, () => {
      using folder = createTemporaryFolder();
      createProject(folder.path);
      const config = createConfig(path, { unknown_key: 1 });
      assert.equal(validate(config), false, JSON.stringify(config));
      assert.ok(validate.errors?.some(({ params }) => params.additionalProperty === "unknown_key"));
      const loaderProblems = findLoaderProblems(folder.path, createConfig(path, {}));
      const problems = findLoaderProblems(folder.path, config).filter((problem) => !loaderProblems.includes(problem));
      assert.ok(problems.length > 0, JSON.stringify(config));
    });
    it(`accepts each key of ${name}, as the loader does`, () => {
      for (const [key, part] of Object.entries(section.properties ?? {})) {
        if (key === "$schema" || key === "graphs") continue;
        using folder = createTemporaryFolder();
        createProject(folder.path);
        const config = createConfig(path, {
          [key]: createValue(part, [...path, key].join(".").replace(/^graphs\.x\./, "")),
        });
        if (path[0] === "graphs" && key === "path") (config.graphs as JsonObject).x = { path: AGENT };
        validate(config);
        assert.deepEqual(validate.errors ?? [], [], JSON.stringify(config));
        const unknown = findLoaderProblems(folder.path, config).filter((problem) => /unknown/.test(problem));
        assert.deepEqual(unknown, [], JSON.stringify(config));
      }
    });
  }

  const keys = listOptionKeys(schema).filter((key) => !FILE_KEYS.includes(key));

  it("has the options of the tables in docs/reference/configuration.md, and no others", () => {
    const page = readFileSync(join(root, "docs/reference/configuration.md"), "utf8");
    const [, options = ""] = /^## Options\n(.*?)^### In code only\n/ms.exec(page) ?? [];
    const documented = [...options.matchAll(/^\| `([\w.]+)` \|/gm)].map(([, key = ""]) => key);
    assert.ok(documented.length > 80, `only ${documented.length} options were found`);
    const modules = Object.keys(MODULES).filter((key) => page.includes(`| \`${key}\` |`));
    assert.deepEqual([...new Set([...documented, ...modules])].filter((key) => !CODE_KEYS.includes(key)).sort(), keys);
  });

  it("has each option that a table of a guide documents", () => {
    const sectionNames = [...new Set(keys.map((key) => key.split(".")[0] ?? ""))];
    const row = new RegExp(`^\\| \`((?:${sectionNames.join("|")})\\.[\\w.]+)\` \\|`, "gm");
    const rows = globSync("docs/{guides,operations}/**/*.md", { cwd: root }).flatMap((page) =>
      [...readFileSync(join(root, page), "utf8").matchAll(row)].map(([, key = ""]) => [page, key] as const),
    );
    assert.ok(rows.some(([page]) => page.endsWith("durable-functions.md")));
    for (const [page, key] of rows) assert.ok(keys.includes(key) || CODE_KEYS.includes(key), `${page}: ${key}`);
  });

  it("refuses what the loader says only code can set", () => {
    using folder = createTemporaryFolder();
    createProject(folder.path);
    for (const part of [{ auth: { custom: {} } }, { webhooks: { loopback: 1 } }, { webhooks: { transport: {} } }]) {
      const config = { graphs: { agent: AGENT }, ...part };
      assert.equal(validate(config), false);
      assert.match(findLoaderProblems(folder.path, config).join(), /only code can set it/);
    }
  });
});
