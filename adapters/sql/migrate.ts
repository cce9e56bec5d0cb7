/** Brings a database to the schema of this code, step by step, and refuses what it cannot understand. */
import { sql } from "kysely";
import { ConfigError } from "../../lib/errors.ts";
import { defining, isDamage, tableNames } from "./dialect.ts";
import type { SqlRow } from "./driver.ts";
import { newSchema, type SchemaStep, schemaSteps } from "./schema.ts";
import { type Pipe, plain, prepared, type Statement, statement } from "./statement.ts";

const record = prepared<{ version: number }>((p) => sql`insert into greenroom_schema (version) values (${p.version})`);

/**
 * See `Storage.migrate`. The version is read again after each step, also because a connection that reads knows the tables as they
 * were until its next read: Deno would leave out the new columns there.
 */
export async function migrate(driver: Pipe): Promise<void> {
  const newest = schemaSteps.length;
  for (let version = await currentVersion(driver); version < newest; version = await currentVersion(driver)) {
    // An empty database gets all steps at once.
    const [to, statements] =
      version === 0 ? [newest, newSchema()] : [version + 1, (schemaSteps[version] as SchemaStep).statements];
    const versions = Array.from({ length: to - version }, (_, i) => record({ version: version + i + 1 }));
    try {
      await driver.batch([
        plain("create table if not exists greenroom_schema (version integer not null primary key)"),
        // The primary key refuses them, and with them the batch, when another process was first.
        ...versions,
        ...statements.map((statement) => plain(defining(statement, driver.dialect))),
      ]);
    } catch (error) {
      if ((await currentVersion(driver)) <= version) throw error;
    }
  }
}

async function currentVersion(driver: Pipe): Promise<number> {
  const names = new Set((await look(driver, statement(tableNames))).map((row) => String(row.name)));
  if (!names.has("greenroom_schema")) {
    const taken = schemaSteps.flatMap((step) => step.tables).filter((name) => names.has(name));
    if (taken.length === 0) return 0;
    throw new ConfigError([
      `storage: the database has tables named ${taken.join(", ")} that Greenroom did not make; give it a database of its own`,
    ]);
  }
  const rows = await look(driver, plain("select coalesce(max(version), 0) as version from greenroom_schema"));
  const version = Number(rows[0]?.version);
  if (version > schemaSteps.length) {
    throw new ConfigError([
      `storage: the database has schema version ${version}, this Greenroom knows versions up to ${schemaSteps.length}; use a newer Greenroom`,
    ]);
  }
  const missing = schemaSteps
    .slice(0, version)
    .flatMap((step) => step.tables)
    .filter((name) => !names.has(name));
  if (missing.length > 0) {
    throw new ConfigError([
      `storage: the database has schema version ${version} but lacks the tables ${missing.join(", ")}; restore it from a backup`,
    ]);
  }
  return version;
}

async function look(driver: Pipe, read: Statement): Promise<SqlRow[]> {
  try {
    return await driver.read(read);
  } catch (error) {
    if (!isDamage(error)) throw error;
    throw new ConfigError([
      `storage: the database cannot be read (${(error as Error).message}); it is damaged or not a database`,
    ]);
  }
}
