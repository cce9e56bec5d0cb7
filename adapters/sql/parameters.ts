/** The arguments of statements: their types for the compiler, and their types in Postgres. */
import { type Expression, type OperationNode, ValueNode } from "kysely";
import type { SqlValue } from "./driver.ts";
import { type ColumnsOf, postgresArgumentType, type TableDefinition } from "./schema/tables.ts";

/** The type of an argument of a statement. */
export interface ParameterType<Value extends SqlValue> {
  /** The type that Postgres is told, as in `$1::bigint`. */
  readonly postgres: "text" | "bigint" | "double precision" | "bytea";
  /** Never set: it carries the type of the value. */
  readonly value?: Value;
}

/** Argument name → its type. */
export type ParameterTypes = Readonly<Record<string, ParameterType<SqlValue>>>;

/** The values that a statement with these arguments is called with. */
export type ArgumentsFor<Types extends ParameterTypes> = {
  readonly [Name in keyof Types]: Types[Name] extends ParameterType<infer Value> ? Value : never;
};

export const text: ParameterType<string> = { postgres: "text" };
/** A whole number; also a time in milliseconds since 1970, and a boolean as 0 or 1. */
export const bigint: ParameterType<number> = { postgres: "bigint" };
export const double: ParameterType<number> = { postgres: "double precision" };

/** Returns the same type with null. */
export const orNull = <Value extends SqlValue>({ postgres }: ParameterType<Value>): ParameterType<Value | null> => ({
  postgres,
});

/**
 * Returns the types of arguments that are compared with columns of a table or stored in them.
 *
 * @example
 * ```ts
 * const types = { ...columns(cronTables.crons, ["deployment", "cron_id", "end_time"]), now: bigint };
 * ```
 */
export function columns<
  Table extends TableDefinition,
  const Names extends readonly (keyof Table["columns"] & string)[],
>(table: Table, names: Names): { readonly [Name in Names[number]]: ParameterType<ColumnsOf<Table>[Name]> } {
  const types = names.map((name) => [name, { postgres: postgresArgumentType(table.columns[name] as string) }]);
  return Object.fromEntries(types) as never;
}

/** An argument inside a statement that is being built. It takes the place of a value in the builder and in the `sql` tag. */
export class Parameter<Value extends SqlValue> implements Expression<Value> {
  readonly name: string;
  readonly type: ParameterType<Value>;
  /** The index of the row that has the value, in a statement for a list of rows; otherwise null. */
  readonly row: number | null;

  constructor(name: string, type: ParameterType<Value>, row: number | null) {
    this.name = name;
    this.type = type;
    this.row = row;
  }

  get expressionType(): Value | undefined {
    return undefined;
  }

  toOperationNode(): OperationNode {
    return ValueNode.create(this);
  }
}

/** The arguments of a statement that is being built. */
export type ParametersFor<Types extends ParameterTypes> = {
  readonly [Name in keyof Types]: Types[Name] extends ParameterType<infer Value> ? Expression<Value> : never;
};

/**
 * Creates a parameter for each type. They stand for the arguments of the statement, or with `row` for those of the row with
 * this index in its list.
 */
export function createParameters<Types extends ParameterTypes>(types: Types, row: number | null): ParametersFor<Types> {
  const parameters = Object.entries(types).map(([name, type]) => [name, new Parameter(name, type, row)]);
  return Object.fromEntries(parameters);
}

/** A value, or the expression that stands for it in a statement that is being built. Fragments of statements take operands. */
export type Operand<Value> = Expression<Value> | Value;

/** Operands by name. */
export type Operands<Values> = { readonly [Name in keyof Values]: Operand<Values[Name]> };
