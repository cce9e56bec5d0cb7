/** The schema: every table once, and the numbered steps that change older databases. */
import { type FeatureTables, featureTables } from "../features.ts";
import {
  type Tables as CoreTables,
  coreTables,
  createTable,
  type RowsOf,
  type SchemaDialect,
  type TableDefinition,
} from "./tables.ts";

/** Table name → type of its rows. */
export type Tables = CoreTables & RowsOf<FeatureTables>;

/** All tables, each after those that it refers to. */
export const tables: typeof coreTables & FeatureTables = { ...coreTables, ...featureTables };

/** A change of the schema after its first version. Steps that were released are never edited. */
export interface SchemaStep {
  /** The tables that the step adds. */
  readonly tables: readonly string[];
  /** Statements for SQLite; a text column of Postgres needs `collate "C"`. */
  statements(dialect: SchemaDialect): readonly string[];
}

export interface Schema {
  /** The tables of the newest version. */
  readonly tables: Readonly<Record<string, TableDefinition>>;
  /** Step 0 leads from version 1 to version 2, and so on. */
  readonly steps: readonly SchemaStep[];
}

const countRows: SchemaStep = {
  tables: ["row_counts"],
  statements: (dialect) => [
    ...createTable("row_counts", tables.row_counts, dialect),
    ...(dialect === "sqlite"
      ? [
          "insert into row_counts select deployment, 'assistant', count(*) from assistants group by deployment",
          "insert into row_counts select deployment, 'thread', count(*) from threads where hidden = 0 group by deployment",
        ]
      : []),
  ],
};

/** The schema of this version of Greenroom. A change adds to `tables` and adds a step that changes older databases alike. */
const addResumeTargets: SchemaStep = {
  tables: [],
  statements: (dialect) => [
    `alter table runs add column resume_targets text${dialect === "postgres" ? ' collate "C"' : ""}`,
  ],
};

export const schema: Schema = { tables, steps: [countRows, addResumeTargets] };
