/** Statements that are compiled once and then only filled in. */
import type { Compilable } from "kysely";
import type { SqlStatement, SqlValue } from "./driver.ts";

class Placeholder {
  readonly name: string;
  constructor(name: string) {
    this.name = name;
  }
}

const placeholders = new Proxy({}, { get: (_target, name) => new Placeholder(String(name)) });

/**
 * A statement whose text never changes. `build` is called once, at the first use, with a placeholder for every argument;
 * afterwards a call costs one array. So `build` must not decide anything by a value.
 */
export function shape<Args extends Readonly<Record<string, SqlValue>>>(
  build: (args: Args) => Compilable,
): (args: Args) => SqlStatement {
  let text = "";
  let slots: readonly unknown[] | null = null;
  return (args) => {
    if (slots === null) {
      const compiled = build(placeholders as Args).compile();
      text = compiled.sql;
      slots = compiled.parameters;
    }
    const values = new Array<SqlValue>(slots.length);
    for (let i = 0; i < values.length; i++) {
      const slot = slots[i];
      values[i] = slot instanceof Placeholder ? (args[slot.name] as SqlValue) : (slot as SqlValue);
    }
    return { sql: text, args: values };
  };
}

/** A statement made for one call. */
export function statement(query: Compilable): SqlStatement {
  const compiled = query.compile();
  return { sql: compiled.sql, args: compiled.parameters as readonly SqlValue[] };
}
