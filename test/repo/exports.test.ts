import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, it } from "node:test";

const root = resolve(import.meta.dirname, "../..");
const json = (file: string): Record<string, unknown> => JSON.parse(readFileSync(join(root, file), "utf8"));

/** Returns true for a source whose first comment is the documentation of its module: JSR shows it, as do editors. */
const isDocumented = (source: string): boolean => /^\/\*\*(?:(?!\*\/)[\s\S])*\* @module\n \*\//.test(source);

describe("exports", () => {
  const manifest = json("package.json");
  const jsr = json("jsr.json");
  const npm = Object.fromEntries(
    Object.entries(manifest.exports as Record<string, Record<string, string>>).filter(
      ([name]) => name !== "./package.json",
    ),
  );

  it("are the same in package.json and jsr.json", () => {
    const sources = Object.entries(npm).map(([name, target]) => [name, target["greenroom-source"]]);
    assert.deepEqual(Object.fromEntries(sources), jsr.exports);
    assert.equal(jsr.version, manifest.version);
    assert.equal(jsr.license, manifest.license);
  });

  it("require the same Kysely, of which JSR can name only one range", () => {
    const ranges = (manifest.dependencies as Record<string, string>).kysely?.split(" || ") ?? [];
    const { kysely = "" } = jsr.imports as Record<string, string>;
    assert.ok(ranges.includes(kysely.replace("npm:kysely@", "")), kysely);
  });

  it("name existing sources, and the outputs of the build", () => {
    for (const [name, target] of Object.entries(npm)) {
      const source = target["greenroom-source"] as string;
      assert.ok(existsSync(join(root, source)), `${name}: ${source} does not exist`);
      assert.equal(target.default, source.replace(/^\.\/(.*)\.ts$/, "./dist/$1.js"));
      assert.equal(target.types, source.replace(/^\.\/(.*)\.ts$/, "./dist/$1.d.ts"));
    }
  });

  it("are documented, each with @module", () => {
    const sources = Object.values(jsr.exports as Record<string, string>);
    assert.deepEqual(
      sources.filter((source) => !isDocumented(readFileSync(join(root, source), "utf8"))),
      [],
    );
    assert.equal(isDocumented("/** An entry. */\nexport {};\n/**\n * Another.\n * @module\n */"), false);
  });

  it("of greenroom are listed by name, types included", () => {
    const source = ["lib/mod.ts", "lib/types.ts"].map((file) => readFileSync(join(root, file), "utf8")).join("\n");
    const lists = [...source.matchAll(/^export (?:type )?\{([^}]*)\} from "[^"]+";$/gm)];
    // Every export is a list of names: `export *` would hide how many there are. Other entry points have lists of their own.
    const others = ["./types.ts", "./executor/contract.ts", "./storage/types.ts"];
    const stars = [...source.matchAll(/^export type \* from "([^"]+)";$/gm)].map(([, file = ""]) => file);
    assert.deepEqual(stars.sort(), others.sort());
    assert.equal(lists.length + stars.length, source.match(/^export /gm)?.length);
    const names = lists.flatMap(([, list = ""]) =>
      list
        .split(",")
        .map((name) => name.trim())
        .filter(Boolean),
    );
    for (const name of ["type Service", "type ServiceOptions", "type RunCreate", "type Thread"]) {
      assert.ok(names.includes(name) || names.includes(name.slice(5)), name);
    }
  });

  it("import under their public names", async () => {
    const names = async (source: string): Promise<string[]> => Object.keys(await import(join(root, source)));
    const core = await names("lib/mod.ts");
    assert.deepEqual(core.sort(), [
      "ConfigError",
      "InputError",
      "LeaseLost",
      "RunFailed",
      "ServiceError",
      "VERSION",
      "agent",
      "combine",
      "createAccounts",
      "createService",
      "defineAuth",
      "fromFunctions",
      "staticIdentity",
      "validateOptions",
    ]);
    assert.ok((await names("lib/http/handler.ts")).includes("createHandler"));
    assert.deepEqual(await names("adapters/app.ts"), ["createApp", "defineConfig"]);
    assert.deepEqual((await names("adapters/client.ts")).sort(), ["RunFailed", "client"]);
    assert.deepEqual((await names("adapters/node/mod.ts")).sort(), [
      "PortTaken",
      "serve",
      "toNodeHandler",
      "toUpgradeListener",
    ]);
    assert.ok((await names("adapters/sqlite/node.ts")).includes("nodeSqlite"));
    assert.ok((await names("adapters/postgres/mod.ts")).includes("postgres"));
    assert.ok((await names("adapters/langgraph/mod.ts")).includes("langgraph"));
    assert.deepEqual((await names("adapters/steps.ts")).sort(), ["ReplayMismatch", "StepError", "sleep", "wait"]);
    assert.deepEqual((await names("adapters/otel/mod.ts")).sort(), ["otel", "traceIds"]);
    const testing = await names("test/suite/mod.ts");
    for (const name of ["storageSuite", "testService", "catchWebhooks"]) assert.ok(testing.includes(name), name);
  });
});
