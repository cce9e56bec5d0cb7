/** The Postgres server of a soak: asked and disturbed from outside, and copied into a file that the checks of the other soaks read. */
import { DatabaseSync } from "node:sqlite";
import pg from "pg";

type Value = string | number | null | Uint8Array;
export type Row = Readonly<Record<string, Value>>;

/** The members of `pg` that are used. */
interface Pool {
  query(text: string, values?: readonly unknown[]): Promise<{ readonly rows: Row[] }>;
  on(event: "error", listener: () => void): unknown;
  end(): Promise<void>;
}

export interface DatabaseClient {
  /** Whole numbers come as numbers. */
  rows(sql: string, ...values: (string | number)[]): Promise<readonly Row[]>;
  close(): Promise<void>;
}

/** Every table of the database, with all its rows, as a SQLite file. */
export async function copyTo(file: string, database: DatabaseClient): Promise<void> {
  const columns = await database.rows(`select table_name, column_name, data_type from information_schema.columns
    where table_schema = current_schema() order by table_name, ordinal_position`);
  const tables = Map.groupBy(columns, ({ table_name }) => String(table_name));
  const target = new DatabaseSync(file);
  try {
    for (const [table, list] of tables) {
      const names = list.map(({ column_name }) => `"${column_name}"`);
      const types = list.map(({ data_type }) => TYPES[String(data_type)] ?? "text");
      target.exec(`create table "${table}" (${names.map((name, i) => `${name} ${types[i]}`).join(", ")})`);
      const insert = target.prepare(
        `insert into "${table}" (${names.join(", ")}) values (${names.map(() => "?").join(", ")})`,
      );
      target.exec("begin");
      for (const row of await database.rows(`select * from "${table}"`)) {
        insert.run(...list.map(({ column_name }) => sqliteValue(row[String(column_name)] ?? null)));
      }
      target.exec("commit");
    }
    // The checks join these for each of thousands of runs.
    for (const table of tables.keys()) {
      if (tables.get(table)?.some(({ column_name }) => column_name === "run_id")) {
        target.exec(`create index "${table} by run" on "${table}" (run_id)`);
      }
    }
  } finally {
    target.close();
  }
}

const TYPES: Readonly<Record<string, string>> = {
  bigint: "integer",
  integer: "integer",
  smallint: "integer",
  "double precision": "real",
  real: "real",
  bytea: "blob",
};

/** As the storage has it: a whole number is bound as one, not as REAL, and types that only Postgres has come as text. */
function sqliteValue(value: unknown): string | number | bigint | null | Uint8Array {
  if (typeof value === "boolean") return value ? 1n : 0n;
  if (typeof value === "number") return Number.isSafeInteger(value) ? BigInt(value) : value;
  if (value === null || typeof value === "string" || value instanceof Uint8Array) return value;
  return JSON.stringify(value);
}

/** Asks the server itself. */
export function ask(url: string): DatabaseClient {
  const types = { getTypeParser: (type: number) => (type === 20 ? Number : pg.types.getTypeParser(type)) };
  const config = { connectionString: url, max: 2, application_name: "soak", types };
  const pool = new pg.Pool(config) as unknown as Pool;
  // The server is restarted now and then.
  pool.on("error", () => {});
  return {
    rows: async (sql, ...values) => (await pool.query(sql, values)).rows,
    close: () => pool.end(),
  };
}

/** Ends every session that listens; gives how many there were. */
export async function cutSignals(database: DatabaseClient): Promise<number> {
  const cut = await database.rows(`select pg_terminate_backend(pid) from pg_stat_activity
    where application_name = 'greenroom' and (query like 'listen %' or query like 'select pg_notify%' or query = 'select 1')`);
  return cut.length;
}

/** Makes deliveries due again that dead processes had claimed. A living process has sent them within `sent_ms`, or claims them anew. */
export async function forgetClaims(database: DatabaseClient, claim_ms: number, sent_ms: number): Promise<void> {
  await database.rows(
    "update webhook_deliveries set claimed_until = 1 where claim_token is not null and claimed_until < $1",
    Date.now() + claim_ms - sent_ms,
  );
}
