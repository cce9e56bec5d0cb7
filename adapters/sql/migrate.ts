/** Brings a database to the newest schema version and refuses a database that it cannot serve. */
import { ConfigError } from "../../lib/errors.ts";
import type { Database } from "./database.ts";
import { isDamageError } from "./errors.ts";
import { plainStatement, type Statement } from "./query.ts";
import { schema as currentSchema, type Schema, type SchemaStep } from "./schema/mod.ts";
import { createTable } from "./schema/tables.ts";
import { createVersions, insertVersion, selectTableNames, selectVersion, VERSIONS } from "./statements/migrate.ts";

/**
 * See `Storage.migrate`. Reads the version again after each step: a connection caches the tables until its next read,
 * and Deno would omit columns that the step added.
 *
 * @statements selectTableNames · selectVersion · createVersions · insertVersion · createTable · steps
 * @guards Reads table names and version. Batch: create `greenroom_versions` · insert the version numbers (primary key: a
 *   process that comes second fails and reads again) · the statements of the step. An empty database gets the newest
 *   tables in one batch.
 */
export async function migrate(driver: Database, schema: Schema = currentSchema): Promise<void> {
  const newest = newestVersion(schema);
  for (let version = await currentVersion(driver, schema); version < newest; ) {
    const statements =
      version === 0
        ? Object.entries(schema.tables).flatMap(([name, table]) => createTable(name, table, driver.dialect))
        : (schema.steps[version - 1] as SchemaStep).statements(driver.dialect);
    // An empty database gets the newest tables at once.
    const reached = version === 0 ? newest : version + 1;
    const versions = Array.from({ length: reached - version }, (_, i) => insertVersion({ version: version + i + 1 }));
    try {
      await driver.batch([
        createVersions,
        // The primary key rejects the batch when another process made the same step first.
        ...versions,
        ...statements.map((text) => plainStatement(text)),
      ]);
    } catch (error) {
      if ((await currentVersion(driver, schema)) <= version) throw error;
    }
    version = await currentVersion(driver, schema);
  }
}

const newestVersion = ({ steps }: Schema): number => 1 + steps.length;

/**
 * Returns the schema version of the database; 0 if it has no tables of Greenroom. Throws a ConfigError for tables of another
 * program, missing tables, and a newer version.
 */
async function currentVersion(driver: Database, schema: Schema): Promise<number> {
  const newest = newestVersion(schema);
  const tableNames = new Set((await inspect(driver, selectTableNames({}))).map(({ name }) => name));
  if (!tableNames.has(VERSIONS)) {
    const foreignTables = Object.keys(schema.tables).filter((name) => tableNames.has(name));
    if (foreignTables.length === 0) return 0;
    throw new ConfigError([
      `storage: the database has tables named ${foreignTables.join(", ")} that Greenroom did not create. Use a separate database`,
    ]);
  }
  const [row] = await inspect(driver, selectVersion({}));
  const version = row?.version ?? 0;
  if (version > newest) {
    throw new ConfigError([
      `storage: the database has schema version ${version}, this Greenroom knows versions up to ${newest}; use a newer Greenroom`,
    ]);
  }
  if (version === 0) return 0;
  const addedLater = new Set(schema.steps.slice(version - 1).flatMap((step) => step.tables));
  const missing = Object.keys(schema.tables).filter((name) => !tableNames.has(name) && !addedLater.has(name));
  if (missing.length > 0) {
    throw new ConfigError([
      `storage: the database has schema version ${version} but lacks the tables ${missing.join(", ")}; restore it from a backup`,
    ]);
  }
  return version;
}

/** Reads rows. Throws a ConfigError if the file is damaged or not a database; other errors pass unchanged. */
async function inspect<Row>(driver: Database, read: Statement<Row>): Promise<Row[]> {
  try {
    return await driver.read(read);
  } catch (error) {
    if (!isDamageError(error)) throw error;
    throw new ConfigError([
      `storage: the database cannot be read (${(error as Error).message}); it is damaged or not a database`,
    ]);
  }
}
