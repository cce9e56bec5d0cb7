/** Looks into the server's SQLite file from outside: what the API does not show must not be there either. */
import { DatabaseSync } from "node:sqlite";

type Row = Readonly<Record<string, string | number | null>>;

export interface Inspection extends Disposable {
  rows(sql: string, ...args: (string | number)[]): readonly Row[];
  /** Rows by table that belong to one of these runs, as `table: rows`. */
  listRemaining(run_ids: readonly string[]): string[];
  /** Where the text of a row matches, as `table.column: match`. Rows that SQL's `like` rules out are not looked at. */
  matches(like: string, pattern: RegExp): string[];
  /** Where one of these keys stands, as `table.column: key`. */
  mentions(keys: readonly string[]): string[];
}

export function inspect(path: string): Inspection {
  const database = new DatabaseSync(path, { readOnly: true });
  database.exec("pragma busy_timeout = 5000");
  const rows = (sql: string, ...args: (string | number)[]): Row[] => database.prepare(sql).all(...args) as Row[];
  const tables = (): string[] =>
    rows("select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'").map(
      ({ name }) => `${name}`,
    );
  const columns = (table: string): Row[] => rows("select name, type from pragma_table_info(?)", table);

  function matches(like: string, pattern: RegExp): string[] {
    const remainingRows: string[] = [];
    for (const table of tables()) {
      // The key of a create outlives its run: a repeated create must not bring it back.
      if (table === KEYS) continue;
      for (const { name, type } of columns(table)) {
        if (!/text|blob/i.test(String(type))) continue;
        const castColumn = `cast(${name} as text)`;
        const sql = `select ${castColumn} as value from ${table} where ${castColumn} like ?`;
        for (const row of database.prepare(sql).iterate(like) as Iterable<Row>) {
          for (const [match] of String(row.value).matchAll(pattern)) remainingRows.push(`${table}.${name}: ${match}`);
        }
      }
    }
    return remainingRows;
  }

  return {
    rows,
    listRemaining(run_ids) {
      const ids = JSON.stringify(run_ids);
      return tables().flatMap((table) => {
        if (table === KEYS || !columns(table).some(({ name }) => name === "run_id")) return [];
        // Readers are told that a rolled-back run is over.
        const exception = table === "thread_events" ? " and instr(events, 'interrupted') = 0" : "";
        const sql = `select count(*) as n from ${table} where run_id in (select value from json_each(?))${exception}`;
        const n = Number(rows(sql, ids)[0]?.n);
        return n > 0 ? [`${table}: ${n} rows of runs that are gone`] : [];
      });
    },
    matches,
    mentions(keys) {
      const keySet = new Set(keys);
      return matches("%key-%", KEY).filter((remainingRows) => keySet.has(remainingRows.split(": ")[1] ?? ""));
    },
    [Symbol.dispose]: () => database.close(),
  };
}

const KEYS = "idempotency_keys";

/** The form of the keys that clients give their runs. */
const KEY = /\bkey-[a-z0-9]+-\d+\b/g;

/** Makes keys that no other soak has made. */
export function createKeyMaker(): () => string {
  const salt = Math.random().toString(36).slice(2, 8);
  let count = 0;
  return () => `key-${salt}-${++count}`;
}
