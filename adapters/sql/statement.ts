/** Statements that are compiled once and then only filled in. */
import type { Compilable } from "kysely";
import type { SqlStatement, SqlValue } from "./driver.ts";

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

  constructor(query: Compilable) {
    const { sql, parameters } = query.compile();
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

/**
 * A statement whose text never changes. `build` is called once, at the first use, with a placeholder for every argument;
 * afterwards a call costs one array. So `build` must not decide anything by a value.
 */
export function shape<Of extends Args>(build: (args: Of) => Compilable): (args: Of) => SqlStatement {
  let made: Shape | undefined;
  return (args) => {
    made ??= new Shape(build(placeholders(null)));
    return made.fill(args, []);
  };
}

/** How many rows one statement takes at most. */
const ROWS = 8;

/** The same over rows. `build` is called once for each number of rows; a longer list takes several statements. */
export function shapeOfRows<Of extends Args, Row extends Args>(
  build: (args: Of, rows: readonly Row[]) => Compilable,
): (args: Of, rows: readonly Row[]) => SqlStatement[] {
  const made: Shape[] = [];
  return (args, rows) => {
    const statements: SqlStatement[] = [];
    for (let start = 0; start < rows.length; start += ROWS) {
      const part = rows.slice(start, start + ROWS);
      let known = made[part.length];
      if (!known) {
        const rowPlaceholders = part.map((_, row): Row => placeholders(row));
        known = new Shape(build(placeholders(null), rowPlaceholders));
        made[part.length] = known;
      }
      statements.push(known.fill(args, part));
    }
    return statements;
  };
}

/** A statement made for one call. */
export function statement(query: Compilable): SqlStatement {
  const compiled = query.compile();
  return { sql: compiled.sql, args: compiled.parameters as readonly SqlValue[] };
}
