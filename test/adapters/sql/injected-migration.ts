/** A schema version after the newest, planted for tests: it changes tables in every way that a later release may need. */

import { readFileSync, writeFileSync } from "node:fs";
import type { SqlDriver } from "../../../adapters/sql/driver.ts";
import { migrate } from "../../../adapters/sql/migrate.ts";
import { type Schema, type SchemaStep, schema, tables } from "../../../adapters/sql/schema/mod.ts";
import { createTable, type SchemaDialect, type TableDefinition } from "../../../adapters/sql/schema/tables.ts";

const tags: TableDefinition = {
  columns: {
    deployment: "text not null",
    thread_id: "text not null",
    tag: "text not null",
    made_at: "bigint not null",
    note: "blob",
  },
  constraints: [
    "primary key (deployment, thread_id, tag)",
    "foreign key (deployment, thread_id) references threads (deployment, thread_id) on delete cascade",
  ],
  indexes: ["index tags_tag on tags (deployment, tag)"],
  clustered: true,
};

const BY_PRIORITY =
  "index runs_immediate on runs (deployment, priority, due_at, seq) where status = 'pending' and due_at <= updated_at";

/** Returns the statements of a step that adds a column, changes an index, fills a new table from other rows, and rebuilds a table. */
function createSecondStep(dialect: SchemaDialect): readonly string[] {
  const rebuilt = createTable("labels", tables.labels, dialect);
  return [
    "alter table runs add column priority integer not null default 0 check (priority >= 0)",
    "drop index runs_immediate",
    `create ${BY_PRIORITY}`,
    ...createTable("tags", tags, dialect),
    "insert into tags (deployment, thread_id, tag, made_at) select deployment, thread_id, status, created_at from threads",
    "alter table labels rename to labels_before",
    "drop index labels_value",
    // The primary key of Postgres has a name, which the new table gets.
    ...(dialect === "postgres"
      ? ["alter table labels_before rename constraint labels_pkey to labels_before_pkey"]
      : []),
    ...(dialect === "postgres"
      ? ["alter table labels_before rename constraint labels_kind_check to labels_before_kind_check"]
      : []),
    ...rebuilt,
    // As a step that cannot know the text that was hashed, nor what the states hold.
    `insert into labels select deployment, kind, row_id, path_hash, value_hash, null, created_at from labels_before
      where kind <> 'values'`,
    `insert into labels select deployment, 'values', thread_id, 0, 0, null, created_at from threads
      where hidden = 0 and head is not null`,
    "drop table labels_before",
  ];
}

export const plantedStep: SchemaStep = { tables: ["tags"], statements: createSecondStep };

export const planted: Schema = {
  tables: {
    ...tables,
    runs: {
      ...tables.runs,
      columns: { ...tables.runs.columns, priority: "integer not null default 0 check (priority >= 0)" },
      indexes: tables.runs.indexes.map((index) => (index.startsWith("index runs_immediate ") ? BY_PRIORITY : index)),
    },
    tags,
  },
  steps: [...schema.steps, plantedStep],
};

const FIRST = new URL("first-schema.jsonl", import.meta.url);
const RELEASED = /^## \[\d/m.test(readFileSync(new URL("../../../CHANGELOG.md", import.meta.url), "utf8"));
if (process.env.GREENROOM_RECORD === "1" && !RELEASED && schema.steps.length === 0) {
  writeFileSync(
    FIRST,
    Object.entries(tables)
      .map((entry) => `${JSON.stringify(entry)}\n`)
      .join(""),
  );
}

/**
 * Returns the statements that make version 1 and take every step, with the injected one. Until the first release version 1 may change
 * without a step: `GREENROOM_RECORD=1 node --test test/adapters/sql/migrate.test.ts` records its tables anew.
 */
export function createSteps(dialect: SchemaDialect): readonly string[] {
  const first = readFileSync(FIRST, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as [string, TableDefinition]);
  return [
    ...first.flatMap(([name, table]) => createTable(name, table, dialect)),
    ...planted.steps.flatMap((step) => step.statements(dialect)),
  ];
}

/** Returns the statements that make the newest version at once, with the injected step. */
export const createNewest = (dialect: SchemaDialect): readonly string[] =>
  Object.entries(planted.tables).flatMap(([name, table]) => createTable(name, table, dialect));

/** Migrates the driver's database as a Greenroom with this schema does when it starts. */
export function migrateTo(driver: SqlDriver, schema: Schema): Promise<void> {
  const { dialect } = driver;
  return migrate(
    {
      dialect,
      batch: (statements, lock_keys) =>
        driver.batch(
          statements.map((statement) => statement.compileFor(dialect)),
          lock_keys,
        ) as Promise<never>,
      read: (statement) => driver.read(statement.compileFor(dialect)) as Promise<never>,
    },
    schema,
  );
}
