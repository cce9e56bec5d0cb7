/**
 * Every statement of `adapters/sql/statements` is prepared on both databases. `test/adapters/sql/statements` shows its text and how SQLite
 * reads the tables, so that a change of a statement is reviewed by its difference.
 *
 *   GREENROOM_RECORD=1 node --test test/adapters/sql/statements.node.test.ts     writes the files
 */
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { after, before, describe, it } from "node:test";
import { PGlite } from "@electric-sql/pglite";
import { Parameter } from "../../../adapters/sql/parameters.ts";
import type { Variant } from "../../../adapters/sql/query.ts";
import { tables } from "../../../adapters/sql/schema/mod.ts";
import { createTable, type TableDefinition } from "../../../adapters/sql/schema/tables.ts";
import { createVersions } from "../../../adapters/sql/statements/migrate.ts";

const SOURCES = "adapters/sql/statements";
const SNAPSHOTS = "test/adapters/sql/statements";

const FOREIGN_KEY =
  "An insert into a referenced table lists the tables that refer to it, which SQLite reads only with deferred constraints";

const FEW_ORGANIZATIONS = "A server has few organizations; their oldest is read at a start or by an administrator";

/** Statements that may read a whole stored table, with the reason. */
const ALLOWED_SCANS: Readonly<Record<string, string>> = {
  'releaseThreadLocks ({"source":"pending"})': "Reads an index that has only runs that are due, once at a start",
  'releaseThreadLocks ({"source":"deleted"})': "Reads an index that has only threads of deleted runs, once at a start",
  requeueRunning: "Reads an index that has only running runs, once at a start",
  insertUser: FOREIGN_KEY,
  insertMissingOrganization: FOREIGN_KEY,
  insertMissingWorkspace: FEW_ORGANIZATIONS,
  insertMissingProject: FEW_ORGANIZATIONS,
  upsertDeployment: FEW_ORGANIZATIONS,
  selectDefaults: FEW_ORGANIZATIONS,
  selectPlacedDeployment: FEW_ORGANIZATIONS,
  endWorkerClaims: "Reads an index that has only claimed deliveries, once at a start",
  selectUser: "Finds a user for an administrator who names it by id or by email",
  selectKeys: "Lists the API keys of a deployment, at most some thousands, for an administrator",
  revokeKeysOfUser: "Deleting a user is rare, and a deployment has at most some thousands of keys",
  insertUnit: FOREIGN_KEY,
};

interface NamedVariant extends Variant {
  /** The name of the export. */
  readonly definition: string;
  /** Export and variant, as in `selectCron (filtered)`. */
  readonly title: string;
}

/** Returns the statements that a file exports, in alphabetical order. */
async function readStatements(file: string): Promise<readonly NamedVariant[]> {
  const exports: Readonly<Record<string, unknown>> = await import(`../../../${SOURCES}/${file}`);
  return Object.keys(exports)
    .sort()
    .flatMap((name) => {
      const { variants = [] } = exports[name] as { readonly variants?: readonly Variant[] };
      return variants.map((variant) => ({
        ...variant,
        definition: name,
        title: variant.name ? `${name} (${variant.name})` : name,
      }));
    });
}

const files = readdirSync(SOURCES).sort();
const readSchema = (dialect: "sqlite" | "postgres"): string =>
  [
    createVersions.compileFor(dialect).sql,
    ...Object.entries<TableDefinition>(tables).flatMap(([name, table]) => createTable(name, table, dialect)),
  ].join(";\n");

/** Removes what differs between the texts for both databases anyway: the form of parameters. */
const withoutParameterForms = (sql: string): string =>
  sql.replace(/\(select \?\)/g, "?").replace(/\$\d+::(?:text|bigint|double precision|bytea)/g, "?");

describe("The statements", () => {
  let sqlite: DatabaseSync;
  let postgres: PGlite;
  before(async () => {
    sqlite = new DatabaseSync(":memory:");
    sqlite.exec(readSchema("sqlite"));
    postgres = new PGlite();
    await postgres.exec(readSchema("postgres"));
    if (process.env.GREENROOM_RECORD) {
      rmSync(SNAPSHOTS, { recursive: true, force: true });
      mkdirSync(SNAPSHOTS, { recursive: true });
    }
  });
  after(async () => {
    sqlite.close();
    await postgres.close();
  });

  /**
   * Returns the lines that `explain query plan` prints, indented by their depth. Leaves out the subqueries of stable arguments, which
   * read no table, and the numbers of subqueries, which each change of a statement would change.
   */
  function explain(sql: string): readonly string[] {
    const values = Array.from(sql.matchAll(/\?/g), () => null);
    const rows = sqlite.prepare(`explain query plan ${sql}`).all(...values);
    const reads = rows.filter(({ detail }) => detail !== "SCAN CONSTANT ROW");
    const isArgument = ({ id, detail }: (typeof rows)[number]): boolean =>
      /^SCALAR SUBQUERY/.test(String(detail)) && !reads.some(({ parent }) => parent === id);
    const depths = new Map<unknown, number>([[0, 0]]);
    return reads
      .filter((row) => !isArgument(row))
      .map(({ id, parent, detail }) => {
        const depth = depths.get(parent) ?? 0;
        depths.set(id, depth + 1);
        return `--   ${"  ".repeat(depth)}${String(detail).replace(/(SUBQUERY) \d+$/, "$1")}`;
      });
  }

  function describeVariant({ title, compile }: NamedVariant): string {
    const [forSqlite, forPostgres] = [compile("sqlite"), compile("postgres")];
    const isSame = withoutParameterForms(forSqlite.sql) === withoutParameterForms(forPostgres.sql);
    const types = forPostgres.parameters.map((parameter) =>
      parameter instanceof Parameter ? `${parameter.name} ${parameter.type.postgres}` : JSON.stringify(parameter),
    );
    return [
      `-- ${title}`,
      ...(types.length > 0 ? [`-- (${types.join(", ")})`] : []),
      forSqlite.sql,
      ...(isSame ? [] : ["-- Postgres:", forPostgres.sql]),
      ...explain(forSqlite.sql),
    ].join("\n");
  }

  for (const file of files) {
    const snapshot = join(SNAPSHOTS, `${basename(file, ".ts")}.sql`);

    it(`of ${file} are valid on SQLite and Postgres`, async () => {
      const statements = await readStatements(file);
      assert.ok(statements.length > 0, `${file} exports no statement`);
      for (const { title, compile } of statements) {
        assert.doesNotThrow(() => sqlite.prepare(compile("sqlite").sql), title);
        await assert.doesNotReject(postgres.query(`prepare checked as ${compile("postgres").sql}`), title);
        await postgres.query("deallocate checked");
      }
    });

    it(`of ${file} have the texts and plans of ${snapshot}`, async () => {
      const described = (await readStatements(file)).map(describeVariant);
      const text = `${described.join("\n\n")}\n`;
      if (process.env.GREENROOM_RECORD) writeFileSync(snapshot, text);
      const recorded = existsSync(snapshot) ? readFileSync(snapshot, "utf8") : "";
      if (recorded !== text) console.log("GREENROOM_RECORD=1 node --test test/adapters/sql/statements.node.test.ts");
      assert.equal(text, recorded);
    });

    it(`of ${file} scan no stored table`, async () => {
      for (const { title, compile, definition } of await readStatements(file)) {
        const scans = explain(compile("sqlite").sql).filter((line) =>
          Object.keys(tables).some((table) => new RegExp(`SCAN ${table}\\b(?! USING COVERING INDEX)`).test(line)),
        );
        if (definition in ALLOWED_SCANS || title in ALLOWED_SCANS)
          assert.notDeepEqual(scans, [], `${title} scans nothing: remove it from the list`);
        else assert.deepEqual(scans, [], title);
      }
    });
  }
});
