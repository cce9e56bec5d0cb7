/** The tables of the core, how tables are written, and the row types derived from them. */
import { agentTables } from "./agents.ts";
import { cronTables } from "./crons.ts";
import { identityTables } from "./identity.ts";
import { storeTables } from "./items.ts";

/** A table for both databases. JSON is text, a time is milliseconds since 1970, a boolean is 0 or 1. */
export interface TableDefinition {
  /** Column name → definition, which starts with the column's type. */
  readonly columns: Readonly<Record<string, string>>;
  /** Constraints on the table as a whole. */
  readonly constraints?: readonly string[];
  /** Index statements without their `create`. */
  readonly indexes?: readonly string[];
  /** Triggers of SQLite without their `create`. A step that builds the table of a trigger anew must create the trigger anew too. */
  readonly triggers?: readonly string[];
  /** Stored in the order of its primary key, where the database can (SQLite's `without rowid`). */
  readonly clustered?: boolean;
}

type Definitions = Readonly<Record<string, TableDefinition>>;

type CoreDefinitions = typeof agentTables & typeof identityTables & typeof cronTables & typeof storeTables;

/** The tables that belong to no feature, each after those that it refers to. */
export const coreTables: CoreDefinitions = { ...agentTables, ...identityTables, ...cronTables, ...storeTables };

const POSTGRES_TYPES = {
  // Texts are ordered by their bytes, as in SQLite.
  text: 'text collate "C"',
  bigint: "bigint",
  integer: "integer",
  "double precision": "double precision",
  blob: "bytea",
} as const;

type ColumnType = keyof typeof POSTGRES_TYPES;

type ValueOf<Definition> = Definition extends `text${string}`
  ? string
  : Definition extends `blob${string}`
    ? Uint8Array
    : number;

type Column<Definition> = Definition extends `${ColumnType} not null${string}`
  ? ValueOf<Definition>
  : ValueOf<Definition> | null;

/** Column name → type of its values. */
export type ColumnsOf<Table extends TableDefinition> = {
  -readonly [Name in keyof Table["columns"]]: Column<Table["columns"][Name]>;
};

/** Table name → type of its rows. */
export type RowsOf<Tables extends Definitions> = { [Table in keyof Tables]: ColumnsOf<Tables[Table]> };

/** The rows of the core's tables. */
export type CoreTables = RowsOf<CoreDefinitions>;

/** The columns of a checkpoint, write or channel value that hold its payload: text or bytes, the other one is null. */
export type PayloadColumns = Pick<CoreTables["checkpoints"], "type" | "data" | "bytes">;

export type SchemaDialect = "sqlite" | "postgres";

const parseColumnType = (definition: string): ColumnType =>
  (Object.keys(POSTGRES_TYPES) as ColumnType[]).find((type) => definition.startsWith(type)) as ColumnType;

/** Returns the statements that create a table and its indexes, on SQLite also its triggers. */
export function createTable(name: string, table: TableDefinition, dialect: SchemaDialect): readonly string[] {
  const columns = Object.entries(table.columns).map(([column, definition]) => {
    if (dialect === "sqlite") return `${column} ${definition}`;
    const type = parseColumnType(definition);
    return `${column} ${POSTGRES_TYPES[type]}${definition.slice(type.length)}`;
  });
  const { constraints = [], indexes = [], triggers = [] } = table;
  const body = [...columns, ...constraints].join(", ");
  const clustered = table.clustered && dialect === "sqlite" ? " without rowid" : "";
  const extras = dialect === "sqlite" ? [...indexes, ...triggers] : indexes;
  return [`create table ${name} (${body})${clustered}`, ...extras.map((definition) => `create ${definition}`)];
}

const ARGUMENT_TYPES = {
  text: "text",
  bigint: "bigint",
  integer: "bigint",
  "double precision": "double precision",
  blob: "bytea",
} as const;

/** Returns the Postgres type of an argument for a column with this definition. */
export const postgresArgumentType = (definition: string): (typeof ARGUMENT_TYPES)[ColumnType] =>
  ARGUMENT_TYPES[parseColumnType(definition)];
