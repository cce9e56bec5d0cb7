/** The schema: every table once, the row types derived from it, and the numbered steps that change older databases. */
import { agentTables } from "./agents.ts";
import { cronTables } from "./crons.ts";
import { identityTables } from "./identity.ts";
import { platformTables } from "./platform.ts";

/** One table, written for both databases. JSON is text, a time is milliseconds since 1970, a boolean is 0 or 1. */
export interface TableDefinition {
  /** Column name → definition, which starts with the column's type. */
  readonly columns: Readonly<Record<string, string>>;
  /** Constraints on the table as a whole. */
  readonly constraints?: readonly string[];
  /** Index statements without their `create`. */
  readonly indexes?: readonly string[];
  /** Stored in the order of its primary key, where the database can (SQLite's `without rowid`). */
  readonly clustered?: boolean;
}

type Definitions = typeof agentTables & typeof platformTables & typeof identityTables & typeof cronTables;

/** All tables, each after those that it refers to. */
export const tables: Definitions = { ...agentTables, ...platformTables, ...identityTables, ...cronTables };

type ColumnType = "text" | "bigint" | "integer" | "double precision" | "blob";

type ValueOf<Definition> = Definition extends `text${string}`
  ? string
  : Definition extends `blob${string}`
    ? Uint8Array
    : number;

type Column<Definition> = Definition extends `${ColumnType} not null${string}`
  ? ValueOf<Definition>
  : ValueOf<Definition> | null;

/** Table name → type of its rows. */
export type Tables = {
  [Table in keyof Definitions]: {
    -readonly [Name in keyof Definitions[Table]["columns"]]: Column<Definitions[Table]["columns"][Name]>;
  };
};

/** The columns of a checkpoint, write or channel value that hold its payload: text or bytes, the other one is null. */
export type PayloadColumns = Pick<Tables["checkpoints"], "type" | "data" | "bytes">;

/** A change of the schema after its first version. Steps that were released are never edited. */
export interface SchemaStep {
  /** The tables that the step adds. */
  readonly tables: readonly string[];
  /** Statements for SQLite; a text column of Postgres needs `collate "C"`. */
  statements(dialect: SchemaDialect): readonly string[];
}

export type SchemaDialect = "sqlite" | "postgres";

export interface Schema {
  /** The tables of the newest version. */
  readonly tables: Readonly<Record<string, TableDefinition>>;
  /** Step 0 leads from version 1 to version 2, and so on. */
  readonly steps: readonly SchemaStep[];
}

/** The schema of this version of Greenroom. A change adds to `tables` and adds a step that changes older databases alike. */
export const schema: Schema = { tables, steps: [] };

const POSTGRES_TYPES: Readonly<Record<ColumnType, string>> = {
  // Texts are ordered by their bytes, as in SQLite.
  text: 'text collate "C"',
  bigint: "bigint",
  integer: "integer",
  "double precision": "double precision",
  blob: "bytea",
};

const typeOf = (definition: string): ColumnType =>
  (Object.keys(POSTGRES_TYPES) as ColumnType[]).find((type) => definition.startsWith(type)) as ColumnType;

/** The statements that make a table and its indexes. */
export function createTable(name: string, table: TableDefinition, dialect: SchemaDialect): readonly string[] {
  const columns = Object.entries(table.columns).map(([column, definition]) => {
    if (dialect === "sqlite") return `${column} ${definition}`;
    const type = typeOf(definition);
    return `${column} ${POSTGRES_TYPES[type]}${definition.slice(type.length)}`;
  });
  const { constraints = [], indexes = [] } = table;
  const body = [...columns, ...constraints].join(", ");
  const clustered = table.clustered && dialect === "sqlite" ? " without rowid" : "";
  return [`create table ${name} (${body})${clustered}`, ...indexes.map((index) => `create ${index}`)];
}

/** Column name → type of arguments that are compared with it or stored in it; texts are left out. */
export function argumentTypes(): ReadonlyMap<string, string> {
  const columns = Object.values<TableDefinition>(tables).flatMap((table) =>
    Object.entries(table.columns).map(([name, definition]) => ({ name, type: typeOf(definition) })),
  );
  // A name that is a text in one table and a number in another needs arguments of other names.
  const texts = new Set(columns.filter(({ type }) => type === "text").map(({ name }) => name));
  return new Map(
    columns
      .filter(({ name }) => !texts.has(name))
      .map(({ name, type }) => [name, type === "integer" ? "bigint" : POSTGRES_TYPES[type]]),
  );
}
