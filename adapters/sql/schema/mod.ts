/** The schema: every table once, and the numbered steps that change older databases. */
import { type FeatureTables, featureTables } from "../features.ts";
import {
  type CoreTables,
  coreTables,
  createTable,
  type RowsOf,
  type SchemaDialect,
  type TableDefinition,
} from "./tables.ts";
import { traceTables } from "./traces.ts";

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

/** The schema of this version of Greenroom. A change adds to `tables` and adds a step that changes older databases alike. */
export const schema: Schema = {
  tables,
  steps: [
    {
      tables: Object.keys(traceTables),
      statements: (dialect) => [
        `alter table runs add column trace_origin text${dialect === "postgres" ? ' collate "C"' : ""}`,
        ...Object.entries(traceTables).flatMap(([name, table]) => createTable(name, table, dialect)),
      ],
    },
    {
      tables: [],
      statements: () => [
        "alter table runs add column assistant_version bigint",
        "alter table webhook_deliveries add column assistant_version bigint",
      ],
    },
    {
      tables: [],
      statements: (dialect) => [
        `alter table webhook_deliveries add column trace_origin text${dialect === "postgres" ? ' collate "C"' : ""}`,
      ],
    },
  ],
};
