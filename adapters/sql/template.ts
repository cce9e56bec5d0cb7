/** SQL with arguments in it: what a template names becomes a parameter, unless it is a template itself. */

/** A statement, or a part of one, before compilation. `Value`: the type of what it evaluates to. */
export class RawBuilder<Value = unknown> {
  declare readonly value: Value | undefined;
  /** One more than there are parts, which stand between them. */
  readonly texts: readonly string[];
  readonly parts: readonly unknown[];
  /** What Postgres gets instead. */
  readonly postgres: RawBuilder<unknown> | undefined;

  constructor(texts: readonly string[], parts: readonly unknown[], postgres?: RawBuilder<unknown>) {
    this.texts = texts;
    this.parts = parts;
    this.postgres = postgres;
  }
}

interface SqlTag {
  <Value = unknown>(texts: TemplateStringsArray, ...parts: readonly unknown[]): RawBuilder<Value>;
  /** A column, of a table if the name has a dot. */
  ref<Value = unknown>(name: string): RawBuilder<Value>;
  table(name: string): RawBuilder<unknown>;
  /** Values or templates, with commas or `separator` between them. */
  join(items: readonly unknown[], separator?: RawBuilder<unknown>): RawBuilder<unknown>;
}

const quoted = (name: string): RawBuilder<unknown> => new RawBuilder([`"${name.replaceAll('"', '""')}"`], []);
const comma = new RawBuilder([", "], []);

export const sql: SqlTag = Object.assign(
  (texts: TemplateStringsArray, ...parts: readonly unknown[]) => new RawBuilder<never>(texts, parts),
  {
    ref: (name: string) => sql.join(name.split(".").map(quoted), new RawBuilder(["."], [])) as RawBuilder<never>,
    table: quoted,
    join(items: readonly unknown[], separator = comma) {
      const parts = items.flatMap((item, i) => (i === 0 ? [item] : [separator, item]));
      return new RawBuilder(new Array<string>(parts.length + 1).fill(""), parts);
    },
  },
);

/** A part of a statement with a different text for Postgres. */
export const byDialect = <Value>(sqlite: RawBuilder<Value>, postgres: RawBuilder<unknown>): RawBuilder<Value> =>
  new RawBuilder(sqlite.texts, sqlite.parts, postgres);
