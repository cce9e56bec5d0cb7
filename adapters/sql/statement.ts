/** Statements that are compiled once for each dialect and then only filled in. */
import { compile, type Dialect, type Query } from "./dialect.ts";
import type { SqlDriver, SqlRow, SqlStatement, SqlValue } from "./driver.ts";

/** A statement with its arguments, for any database. */
export interface Statement {
  for(dialect: Dialect): SqlStatement;
}

/** An SqlDriver that takes statements for any database. */
export interface Pipe extends Pick<SqlDriver, "dialect" | "acquireWorkerLock"> {
  /** See `SqlDriver.batch`. */
  batch(statements: readonly Statement[], lock_keys?: readonly string[]): Promise<SqlRow[][]>;
  read(statement: Statement): Promise<SqlRow[]>;
  now?(): Promise<number>;
}

type Args = Readonly<Record<string, SqlValue>>;

class Placeholder {
  readonly name: string;
  /** Whose value it is: the arguments', or that of the row of this number. */
  readonly row: number | null;
  constructor(name: string, row: number | null) {
    this.name = name;
    this.row = row;
  }
}

const placeholders = (row: number | null): never =>
  new Proxy({}, { get: (_target, name) => new Placeholder(String(name), row) }) as never;

/** A compiled statement, and where its arguments come from. */
class Shape {
  readonly #text: string;
  readonly #slots: readonly unknown[];

  constructor(query: Query, dialect: Dialect) {
    const { sql, parameters } = compile(query, dialect);
    this.#text = sql;
    this.#slots = parameters;
  }

  fill(args: Args, rows: readonly Args[]): SqlStatement {
    const values = new Array<SqlValue>(this.#slots.length);
    for (let i = 0; i < values.length; i++) {
      const slot = this.#slots[i];
      if (!(slot instanceof Placeholder)) values[i] = slot as SqlValue;
      else values[i] = (slot.row === null ? args : (rows[slot.row] as Args))[slot.name] as SqlValue;
    }
    return { sql: this.#text, args: values };
  }
}

/** The shapes of one query. */
type Shapes = { [Of in Dialect]?: Shape };

/** A shape, made when it is first needed, with its arguments. */
class Filled implements Statement {
  readonly #shapes: Shapes;
  readonly #build: () => Query;
  readonly #args: Args;
  readonly #rows: readonly Args[];

  constructor(shapes: Shapes, build: () => Query, args: Args, rows: readonly Args[] = []) {
    this.#shapes = shapes;
    this.#build = build;
    this.#args = args;
    this.#rows = rows;
  }

  for(dialect: Dialect): SqlStatement {
    let made = this.#shapes[dialect];
    if (!made) {
      made = new Shape(this.#build(), dialect);
      this.#shapes[dialect] = made;
    }
    return made.fill(this.#args, this.#rows);
  }
}

/**
 * A statement whose text never changes. `build` is called once for each dialect, at the first use, with a placeholder for every
 * argument; afterwards a call costs one array. So `build` must not decide anything by a value. Arguments have names by which their
 * types are known (dialect.ts): those of the columns they are compared with or stored in.
 */
export function prepared<Of extends Args>(build: (args: Of) => Query): (args: Of) => Statement {
  const shapes: Shapes = {};
  const query = (): Query => build(placeholders(null));
  return (args) => new Filled(shapes, query, args);
}

/** How many rows one statement takes at most. */
const ROWS = 8;

/** The same over rows. `build` is called once for each number of rows; a longer list takes several statements. */
export function preparedRows<Of extends Args, Row extends Args>(
  build: (args: Of, rows: readonly Row[]) => Query,
): (args: Of, rows: readonly Row[]) => Statement[] {
  const made: Shapes[] = [];
  return (args, rows) => {
    const statements: Statement[] = [];
    for (let start = 0; start < rows.length; start += ROWS) {
      const part = rows.slice(start, start + ROWS);
      const query = (): Query =>
        build(
          placeholders(null),
          part.map((_, row): Row => placeholders(row)),
        );
      made[part.length] ??= {};
      statements.push(new Filled(made[part.length] as Shapes, query, args, part));
    }
    return statements;
  };
}

/** A statement made for one call. */
export function statement(query: Query): Statement {
  return {
    for(dialect) {
      const { sql, parameters } = compile(query, dialect);
      return { sql, args: parameters as readonly SqlValue[] };
    },
  };
}

/** What a batch touches of a thread: all of its rows, and all of its runs. */
export const ofThread = (deployment: string, thread_id: string): string => `thread ${deployment} ${thread_id}`;

/** The same of an idempotency key. */
export const ofKey = (deployment: string, { route, key }: { readonly route: string; readonly key: string }): string =>
  `key ${deployment} ${route} ${key}`;

/** A statement of the same text everywhere, without arguments. */
export function plain(text: string): Statement {
  return { for: () => ({ sql: text, args: [] }) };
}
