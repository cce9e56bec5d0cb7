/** Prepared statements: compiled once per dialect, then filled with arguments. */
import { compile } from "./dialect.ts";
import type { Dialect, SqlDriver, SqlRow, SqlStatement, SqlValue } from "./driver.ts";
import { once, plainStatement, type Statement } from "./query.ts";
import type { RawBuilder } from "./template.ts";

export type { Statement } from "./query.ts";

/** An SqlDriver that takes statements for every database. */
export interface Database extends Pick<SqlDriver, "dialect" | "acquireWorkerLock" | "check"> {
  /** See `SqlDriver.batch`. */
  batch<const List extends readonly Statement<unknown>[]>(
    statements: List,
    lock_keys?: readonly string[],
  ): Promise<BatchRows<List>>;
  read<Row>(statement: Statement<Row>): Promise<Row[]>;
  now?(): Promise<number>;
}

/** The rows of each statement of a batch, in the order of the statements. */
export type BatchRows<List extends readonly Statement<unknown>[]> = {
  -readonly [Index in keyof List]: List[Index] extends Statement<infer Row> ? Row[] : never;
};

/** Returns the rows that a statement of a batch returned. */
export type RowsOf = <Row>(statement: Statement<Row>) => Row[];

/** Returns a function that finds the rows of a statement of a batch in the results of the batch. */
export const rowsIn =
  (statements: readonly Statement<unknown>[], results: readonly (readonly unknown[])[]): RowsOf =>
  <Row>(statement: Statement<Row>) =>
    (results[statements.indexOf(statement)] ?? []) as Row[];

export type Args = Readonly<Record<string, SqlValue>>;

class Placeholder {
  readonly name: string;
  /** The row with the value; null if the arguments have it. */
  readonly row: number | null;
  constructor(name: string, row: number | null) {
    this.name = name;
    this.row = row;
  }
}

const placeholders = (row: number | null): never =>
  new Proxy({}, { get: (_target, name) => new Placeholder(String(name), row) }) as never;

/** A compiled statement with its placeholders. */
class CompiledStatement {
  readonly #text: string;
  readonly #parameters: readonly unknown[];

  constructor(query: RawBuilder<unknown>, dialect: Dialect) {
    const { sql, parameters } = compile(query, dialect);
    this.#text = sql;
    this.#parameters = parameters;
  }

  fill(args: Args, rows: readonly Args[]): SqlStatement {
    const values = new Array<SqlValue>(this.#parameters.length);
    for (let i = 0; i < values.length; i++) {
      const parameter = this.#parameters[i];
      if (!(parameter instanceof Placeholder)) values[i] = parameter as SqlValue;
      else values[i] = (parameter.row === null ? args : (rows[parameter.row] as Args))[parameter.name] as SqlValue;
    }
    return { sql: this.#text, args: values };
  }
}

/** One query, compiled for each dialect in use. */
type Compiled = { [Of in Dialect]?: CompiledStatement };

/** A prepared statement with its arguments; compiled on first use. */
class Filled implements Statement {
  readonly #compiled: Compiled;
  readonly #build: () => RawBuilder<unknown>;
  readonly #args: Args;
  readonly #rows: readonly Args[];

  constructor(compiled: Compiled, build: () => RawBuilder<unknown>, args: Args, rows: readonly Args[] = []) {
    this.#compiled = compiled;
    this.#build = build;
    this.#args = args;
    this.#rows = rows;
  }

  for(dialect: Dialect): SqlStatement {
    let made = this.#compiled[dialect];
    if (!made) {
      made = new CompiledStatement(this.#build(), dialect);
      this.#compiled[dialect] = made;
    }
    return made.fill(this.#args, this.#rows);
  }
}

/**
 * A statement whose text never changes. `build` runs once per dialect, on first use, with a placeholder for each argument, so it
 * must not branch on values. Later calls cost one array. Arguments have the names of the columns that they are compared with or
 * stored in, which determines their types (dialect.ts).
 */
export function prepared<Of extends Args>(build: (args: Of) => RawBuilder<unknown>): (args: Of) => Statement {
  const compiled: Compiled = {};
  const query = (): RawBuilder<unknown> => build(placeholders(null));
  return (args) => new Filled(compiled, query, args);
}

/** The maximum of rows in one statement. */
const ROWS = 8;

/** Like `prepared`, for a list of rows. `build` runs once per number of rows. A longer list becomes several statements. */
export function preparedRows<Of extends Args, Row extends Args>(
  build: (args: Of, rows: readonly Row[]) => RawBuilder<unknown>,
): (args: Of, rows: readonly Row[]) => Statement[] {
  const made: Compiled[] = [];
  return (args, rows) => {
    const statements: Statement[] = [];
    for (let start = 0; start < rows.length; start += ROWS) {
      const part = rows.slice(start, start + ROWS);
      const query = (): RawBuilder<unknown> =>
        build(
          placeholders(null),
          part.map((_, row): Row => placeholders(row)),
        );
      made[part.length] ??= {};
      statements.push(new Filled(made[part.length] as Compiled, query, args, part));
    }
    return statements;
  };
}

/** A statement that is compiled for a single call. */
export const statement = (query: RawBuilder<unknown>): Statement => once(query as RawBuilder<SqlRow>);

/** The lock key of a thread with its runs and checkpoints. */
export const ofThread = (deployment: string, thread_id: string): string => `thread ${deployment} ${thread_id}`;

/** The lock key of an idempotency key. */
export const ofKey = (deployment: string, { route, key }: { readonly route: string; readonly key: string }): string =>
  `key ${deployment} ${route} ${key}`;

/** What a read returns first; null without rows. */
export async function readOne<Row, Stored = SqlRow>(
  driver: Database,
  read: Statement<Stored>,
  toRow: (row: Stored) => Row,
): Promise<Row | null> {
  const [row] = await driver.read(read);
  return row ? toRow(row) : null;
}

/** All that a read returns. */
export async function readAll<Row, Stored = SqlRow>(
  driver: Database,
  read: Statement<Stored>,
  toRow: (row: Stored) => Row,
): Promise<Row[]> {
  return (await driver.read(read)).map(toRow);
}

/** A statement without arguments, with the same text for every database. */
export const plain = (text: string): Statement => plainStatement(text);
