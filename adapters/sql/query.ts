/**
 * Statements. Each declares its arguments, has typed rows, and is compiled once per database on first use, so its text must not
 * depend on values. Kysely's builder checks tables, columns and values. In its `sql` tag only the declared row type is known.
 */
import {
  type Compilable,
  type DeleteResult,
  type Expression,
  type InsertObject,
  type InsertQueryBuilder,
  type InsertResult,
  NOOP_QUERY_EXECUTOR,
  type OperationNodeSource,
  QueryCreator,
  type RawBuilder,
  type Simplify,
  sql,
  type UpdateResult,
} from "kysely";
import type { Filter } from "../../lib/storage/visibility.ts";
import { type CompileOptions, compileQuery } from "./compiler.ts";
import type { Dialect, SqlRow, SqlStatement, SqlValue } from "./driver.ts";
import { toFilterArgument } from "./filter-argument.ts";
import {
  type ArgumentsFor,
  createParameters,
  Parameter,
  type ParametersFor,
  type ParameterTypes,
  text,
} from "./parameters.ts";

/** Creates Kysely's builder for these tables. It builds statements and never executes them. */
export const createBuilder = <Tables>(): QueryCreator<Tables> => new QueryCreator({ executor: NOOP_QUERY_EXECUTOR });

/**
 * Returns an insert of the rows that a query selects. `source` is that query behind its list of columns, as in sql`from runs where …`.
 * Each column stands beside its value, and Kysely checks both. Continue the insert with `onConflict` or `returning`.
 */
export function insertFrom<Tables, Table extends keyof Tables & string>(
  builder: QueryCreator<Tables>,
  table: Table,
  values: InsertObject<Tables, Table>,
  source: Expression<unknown>,
): InsertQueryBuilder<Tables, Table, InsertResult> {
  const select = sql`select ${sql.join(Object.values(values))} ${source}`;
  const names = Object.keys(values) as never;
  return builder
    .insertInto(table)
    .columns(names)
    .expression(select as Expression<never>);
}

/** Returns an insert of one row that takes place only where the condition holds. See `insertFrom`. */
export const insertWhere = <Tables, Table extends keyof Tables & string>(
  builder: QueryCreator<Tables>,
  table: Table,
  values: InsertObject<Tables, Table>,
  condition: Expression<unknown>,
): InsertQueryBuilder<Tables, Table, InsertResult> => insertFrom(builder, table, values, sql`where ${condition}`);

/** A statement with its arguments, for every database. `Row` is the type of the rows that it returns; `never` without rows. */
export interface Statement<out Row = SqlRow> {
  /** Returns the text and the values for this database. */
  compileFor(dialect: Dialect): SqlStatement;
  /** Never set: it carries the type of the rows. */
  readonly row?: Row;
}

/** The row type of a statement that is being built. */
export type RowOfQuery<Query> =
  Query extends RawBuilder<infer Row>
    ? Row
    : Query extends Compilable<infer Output>
      ? Output extends InsertResult | UpdateResult | DeleteResult
        ? never
        : Simplify<Output>
      : never;

/** The rows that a defined statement returns. */
export type RowOf<Define extends (...args: never) => Statement<unknown>> =
  ReturnType<Define> extends Statement<infer Row> ? Row : never;

/** A compiled text of a definition, for the tests that compile every statement. */
export interface Variant {
  /** Tells the variants of one definition apart; empty if there is only one. */
  readonly name: string;
  compile(dialect: Dialect): ReturnType<typeof compileQuery>;
}

/** A statement as it is defined: call it with its arguments. */
export interface Definition<Types extends ParameterTypes, Row> {
  (args: ArgumentsFor<Types>): Statement<Row>;
  readonly types: Types;
  readonly variants: readonly Variant[];
}

export interface QueryOptions {
  /**
   * Writes each argument as `(select ?)` on SQLite, except those of a list of rows. SQLite 3.54 compiles a statement that joins,
   * orders, takes a maximum or lists its own rows again at each call if it compares a plain parameter, which costs more than running it.
   */
  readonly stable?: boolean;
}

/**
 * Defines a statement: returns a function that binds arguments to it. `build` runs at the first use for each dialect, with a
 * parameter for each argument.
 */
export function query<Types extends ParameterTypes, Query extends OperationNodeSource>(
  types: Types,
  build: (parameters: ParametersFor<Types>) => Query,
  options: QueryOptions = {},
): Definition<Types, RowOfQuery<Query>> {
  const compiled = new CompiledTexts(() => build(createParameters(types, null)), options);
  const variants = [toVariant("", compiled)];
  return Object.assign((args: ArgumentsFor<Types>) => new BoundStatement(compiled, args, []), { types, variants });
}

/** Returns a variant of a statement for the tests that compile each of them. */
const toVariant = (name: string, compiled: CompiledTexts): Variant => ({
  name,
  compile: (dialect) => compiled.compileFor(dialect),
});

/** A statement for callers with and without a filter on metadata. */
export interface ScopedDefinition<Types extends ParameterTypes, Row> {
  (args: ArgumentsFor<Types>, filter: Filter | undefined): Statement<Row>;
  readonly types: Types;
  readonly variants: readonly Variant[];
}

/**
 * Defines a statement for scopes with and without a filter: returns a function that binds arguments and a filter. `build` gets
 * the filter as a parameter, or null for a scope without one or with an empty one, so that such a call pays for no condition.
 */
export function scopedQuery<Types extends ParameterTypes, Query extends OperationNodeSource>(
  types: Types,
  build: (parameters: ParametersFor<Types>, filter: Expression<string> | null) => Query,
  options: QueryOptions = {},
): ScopedDefinition<Types, RowOfQuery<Query>> {
  const filtered = query(
    { ...types, filter: text },
    // The types of the spread are those of its parts.
    (parameters) => build(parameters as unknown as ParametersFor<Types>, parameters.filter as Expression<string>),
    options,
  );
  const unfiltered = query(types, (parameters) => build(parameters, null), options);
  /** Binds the arguments to the statement with the filter, or to that without one if the filter is undefined or empty. */
  const bind = (args: ArgumentsFor<Types>, filter: Filter | undefined): Statement<RowOfQuery<Query>> => {
    const argument = toFilterArgument(filter);
    return argument === null
      ? unfiltered(args)
      : filtered({ ...args, filter: argument } as ArgumentsFor<Types & { filter: typeof text }>);
  };
  const [unfilteredVariant, filteredVariant] = [unfiltered.variants[0] as Variant, filtered.variants[0] as Variant];
  return Object.assign(bind, { types, variants: [unfilteredVariant, { ...filteredVariant, name: "filtered" }] });
}

/** The most shapes of one statement that stay compiled. */
const MAX_SHAPES = 256;

/** A statement whose text depends on a shape. */
export interface ShapedDefinition<Shape, Types extends ParameterTypes, Row> {
  (shape: Shape, args: ArgumentsFor<Types>): Statement<Row>;
  /** The shapes in `options.shapes`. */
  readonly variants: readonly Variant[];
}

interface ShapedOptions<Shape> extends QueryOptions {
  /** Shapes that stand for all of them in the snapshot of the statements. */
  readonly shapes: readonly Shape[];
}

/**
 * Defines a statement whose text depends on a shape of a few flags and counts: returns a function that binds arguments to a
 * shape. Each shape is compiled at its first use; of more than 256 the oldest is dropped. `typesFor` names the arguments of a
 * shape. Values belong into the arguments, never into the shape.
 */
export function shapedQuery<Shape, Types extends ParameterTypes, Query extends OperationNodeSource>(
  typesFor: (shape: Shape) => Types,
  build: (parameters: ParametersFor<Types>, shape: Shape) => Query,
  options: ShapedOptions<Shape>,
): ShapedDefinition<Shape, Types, RowOfQuery<Query>> {
  const texts = new CompiledShapes<Shape>(
    (shape) => new CompiledTexts(() => build(createParameters(typesFor(shape), null), shape), options),
  );
  const bind = (shape: Shape, args: ArgumentsFor<Types>): Statement<RowOfQuery<Query>> =>
    new BoundStatement(texts.getTexts(shape), args, []);
  return Object.assign(bind, { variants: texts.variants(options.shapes) });
}

/** A statement whose text depends on a shape, with a list of rows whose length the shape says. */
export interface ShapedRowsDefinition<Shape, Types extends ParameterTypes, RowTypes extends ParameterTypes, Row> {
  (shape: Shape, args: ArgumentsFor<Types>, rows: readonly ArgumentsFor<RowTypes>[]): Statement<Row>;
  /** The shapes in `options.shapes`. */
  readonly variants: readonly Variant[];
}

interface ShapedRowsTypes<Shape, Types extends ParameterTypes, RowTypes extends ParameterTypes> {
  readonly types: Types;
  readonly rowTypes: RowTypes;
  /** Returns how many rows the list of a statement with this shape has. */
  count(shape: Shape): number;
}

/**
 * Defines a statement like `shapedQuery`, also with a list of rows, whose number the shape decides. With `stable`, the
 * arguments of the rows are written as `(select ?)` too.
 */
export function shapedRowsQuery<
  Shape,
  Types extends ParameterTypes,
  RowTypes extends ParameterTypes,
  Query extends OperationNodeSource,
>(
  { types, rowTypes, count }: ShapedRowsTypes<Shape, Types, RowTypes>,
  build: (parameters: ParametersFor<Types>, rows: readonly ParametersFor<RowTypes>[], shape: Shape) => Query,
  options: ShapedOptions<Shape>,
): ShapedRowsDefinition<Shape, Types, RowTypes, RowOfQuery<Query>> {
  const toRows = (shape: Shape): readonly ParametersFor<RowTypes>[] =>
    Array.from({ length: count(shape) }, (_, index) => createParameters(rowTypes, index));
  const texts = new CompiledShapes<Shape>(
    (shape) =>
      new CompiledTexts(() => build(createParameters(types, null), toRows(shape), shape), {
        ...options,
        stable: options.stable ? "rows" : false,
      }),
  );
  const bind = (
    shape: Shape,
    args: ArgumentsFor<Types>,
    rows: readonly ArgumentsFor<RowTypes>[],
  ): Statement<RowOfQuery<Query>> => new BoundStatement(texts.getTexts(shape), args, rows);
  return Object.assign(bind, { variants: texts.variants(options.shapes) });
}

/** The most rows in one statement. */
const MAX_ROWS = 8;

/** A statement for a list of rows. */
export interface RowsDefinition<Types extends ParameterTypes, RowTypes extends ParameterTypes, Row> {
  (args: ArgumentsFor<Types>, rows: readonly ArgumentsFor<RowTypes>[]): Statement<Row>[];
  readonly types: Types;
  readonly rowTypes: RowTypes;
  readonly variants: readonly Variant[];
}

/**
 * Defines a statement for a list of rows: returns a function that binds arguments and rows to it. That returns a statement for
 * each eight rows, in order, and none without rows. `build` runs at the first use of each number of rows.
 */
export function rowsQuery<
  Types extends ParameterTypes,
  RowTypes extends ParameterTypes,
  Query extends OperationNodeSource,
>(
  types: Types,
  rowTypes: RowTypes,
  build: (parameters: ParametersFor<Types>, rows: readonly ParametersFor<RowTypes>[]) => Query,
  options: QueryOptions = {},
): RowsDefinition<Types, RowTypes, RowOfQuery<Query>> {
  const compiledCounts = Array.from({ length: MAX_ROWS }, (_, last) => {
    const indexes = Array.from({ length: last + 1 }, (_, index) => index);
    const buildRows = (): Query =>
      build(
        createParameters(types, null),
        indexes.map((index) => createParameters(rowTypes, index)),
      );
    return new CompiledTexts(buildRows, options);
  });
  /** Returns the statements that handle all rows, each at most `MAX_ROWS`; none without rows. */
  const bind = (args: ArgumentsFor<Types>, rows: readonly ArgumentsFor<RowTypes>[]): Statement<RowOfQuery<Query>>[] => {
    const statements: Statement<RowOfQuery<Query>>[] = [];
    for (let start = 0; start < rows.length; start += MAX_ROWS) {
      const chunk = rows.slice(start, start + MAX_ROWS);
      statements.push(new BoundStatement(compiledCounts[chunk.length - 1] as CompiledTexts, args, chunk));
    }
    return statements;
  };
  const variants = [1, 2].map((count) => toVariant(`${count} rows`, compiledCounts[count - 1] as CompiledTexts));
  return Object.assign(bind, { types, rowTypes, variants });
}

/** Returns a statement without arguments, with the same text for every database. */
export const plainStatement = <Row = never>(sql: string): Statement<Row> => ({ compileFor: () => ({ sql, args: [] }) });

/** The texts of a statement: compiled once per database, on first use. */
class CompiledTexts {
  readonly #build: () => OperationNodeSource;
  readonly #options: CompileOptions;
  readonly #texts: { [Name in Dialect]?: ReturnType<typeof compileQuery> } = {};

  constructor(build: () => OperationNodeSource, options: CompileOptions) {
    this.#build = build;
    this.#options = options;
  }

  /** Compiles the query for a dialect, once. */
  compileFor(dialect: Dialect): ReturnType<typeof compileQuery> {
    this.#texts[dialect] ??= compileQuery(this.#build(), dialect, this.#options);
    return this.#texts[dialect];
  }
}

/** The compiled texts of a statement by its shape. Of more than `MAX_SHAPES` the oldest is dropped. */
class CompiledShapes<Shape> {
  readonly #texts: Map<string, CompiledTexts> = new Map();
  readonly #compile: (shape: Shape) => CompiledTexts;

  constructor(compile: (shape: Shape) => CompiledTexts) {
    this.#compile = compile;
  }

  /** Returns the texts of a shape and keeps them. Beyond `MAX_SHAPES` it drops the shape that was added first. */
  getTexts(shape: Shape): CompiledTexts {
    const key = JSON.stringify(shape);
    let texts = this.#texts.get(key);
    if (!texts) {
      const [oldest] = this.#texts.keys();
      if (this.#texts.size >= MAX_SHAPES && oldest !== undefined) this.#texts.delete(oldest);
      texts = this.#compile(shape);
      this.#texts.set(key, texts);
    }
    return texts;
  }

  variants(shapes: readonly Shape[]): readonly Variant[] {
    return shapes.map((shape) => toVariant(JSON.stringify(shape), this.#compile(shape)));
  }
}

type Values = Readonly<Record<string, SqlValue>>;

/** A compiled statement with the values of its arguments. */
class BoundStatement implements Statement<never> {
  readonly #compiled: CompiledTexts;
  readonly #args: Values;
  readonly #rows: readonly Values[];

  constructor(compiled: CompiledTexts, args: Values, rows: readonly Values[]) {
    this.#compiled = compiled;
    this.#args = args;
    this.#rows = rows;
  }

  /** Returns the text for a dialect, compiled once, with the arguments in the order of that text. */
  compileFor(dialect: Dialect): SqlStatement {
    const { sql, parameters } = this.#compiled.compileFor(dialect);
    const args = new Array<SqlValue>(parameters.length);
    // A loop, not map: this runs for each statement of each request.
    for (let index = 0; index < args.length; index++) args[index] = this.#valueOf(parameters[index]);
    return { sql, args };
  }

  /** Returns the argument of a parameter, from its row if it has one. Another value is returned unchanged. */
  #valueOf(parameter: unknown): SqlValue {
    if (!(parameter instanceof Parameter)) return parameter as SqlValue;
    const values = parameter.row === null ? this.#args : (this.#rows[parameter.row] as Values);
    return values[parameter.name] as SqlValue;
  }
}
