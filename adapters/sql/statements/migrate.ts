/** Statements on the version of the schema. */
import { sql } from "kysely";
import { tableNames } from "../functions.ts";
import { bigint } from "../parameters.ts";
import { createBuilder, plainStatement, query } from "../query.ts";

/** The table with one row for each schema version that was reached. */
export const VERSIONS = "greenroom_versions";

const db = createBuilder<{ [VERSIONS]: { version: number } }>();

/** Creates the table of versions, unless it exists. */
export const createVersions = plainStatement(
  `create table if not exists ${VERSIONS} (version integer not null primary key)`,
);

/** Inserts a version. The primary key rejects the batch if another process made the same step before. */
export const insertVersion = query({ version: bigint }, (p) => db.insertInto(VERSIONS).values({ version: p.version }));

/** Selects the newest version that was reached; 0 before the first one. */
export const selectVersion = query({}, () =>
  db.selectFrom(VERSIONS).select(sql<number>`coalesce(max(version), 0)`.as("version")),
);

/** Selects the names of all tables of the database. */
export const selectTableNames = query({}, () => tableNames);
