/** The size of statements. */
import type { SqlStatement } from "./driver.ts";

/** Approximate bytes of a statement and its arguments. Throws for a value that SQLite packages would bind as another value. */
export function sizeOf(statement: SqlStatement): number {
  let bytes = statement.sql.length;
  for (const value of statement.args) {
    if (typeof value === "string") bytes += value.length;
    else if (value instanceof Uint8Array) bytes += value.byteLength;
    else if (typeof value === "number" || value === null) bytes += 8;
    else throw new TypeError(`A ${typeof value} is not an SqlValue: ${statement.sql}`);
  }
  return bytes;
}
