/** The client of the example on `node:sqlite`, and drivers over it that do one thing wrong. */
import { DatabaseSync, type StatementSync } from "node:sqlite";
import type { SqlDriver, SqlRow, SqlValue } from "../../../../adapters/sql/driver.ts";
import { type Client, clientDriver } from "../../../../examples/storage-adapter.ts";

/** A database in memory, each of whose answers comes in a later tick, as over a network. */
export function openClient(): Client {
  const database = new DatabaseSync(":memory:", { enableForeignKeyConstraints: false });
  const prepared = new Map<string, StatementSync>();
  return {
    async execute(sql, args) {
      await new Promise<void>((resolve) => setImmediate(resolve));
      const statement = prepared.get(sql) ?? database.prepare(sql);
      prepared.set(sql, statement);
      // Numbers would be bound as REAL.
      const values = args.map((value) => (Number.isSafeInteger(value) ? BigInt(value as number) : value));
      return statement.all(...values).map((row) => ({ ...row }) as SqlRow);
    },
    async close() {
      database.close();
    },
  };
}

const openDriver = (): SqlDriver => clientDriver(openClient());

/** Creates a driver over a client with a changed `execute`. */
const changeClient = (change: (client: Client) => Client["execute"]): SqlDriver => {
  const client = openClient();
  return clientDriver({ execute: change(client), close: () => client.close() });
};

/** Creates a driver over a client that changes each value of a row. */
const read = (change: (value: SqlValue) => unknown): SqlDriver =>
  changeClient((client) => async (sql, args) => {
    const rows = await client.execute(sql, args);
    return rows.map((row) =>
      Object.fromEntries(Object.entries(row).map(([name, value]) => [name, change(value) as SqlValue])),
    );
  });

const isEnd = (sql: string): boolean => /^(?:begin|commit|rollback)\b/.test(sql);

/** The broken drivers, by the name of their fault. */
export const faults: Readonly<Record<string, () => SqlDriver>> = {
  "Each statement is committed by itself": () =>
    changeClient((client) => async (sql, args) => (isEnd(sql) ? [] : await client.execute(sql, args))),
  "A failing statement is skipped and the rest committed": () =>
    changeClient((client) => async (sql, args) => await client.execute(sql, args).catch(() => [])),
  "Foreign keys are not enforced": () =>
    changeClient(
      (client) => async (sql, args) => (sql.startsWith("pragma foreign_keys") ? [] : await client.execute(sql, args)),
    ),
  "Batches do not wait for each other": () => {
    const client = openClient();
    const run = async (sql: string, args: readonly SqlValue[]): Promise<SqlRow[]> =>
      isEnd(sql) ? [] : await client.execute(sql, args);
    return {
      ...clientDriver(client),
      async batch(statements) {
        await client.execute("pragma foreign_keys = on", []);
        const results: SqlRow[][] = [];
        for (const { sql, args } of statements) results.push(await run(sql, args));
        return results;
      },
    };
  },
  "Writes return no rows": () =>
    changeClient((client) => async (sql, args) => {
      const rows = await client.execute(sql, args);
      return /^\s*(?:insert|update|delete)/i.test(sql) ? [] : rows;
    }),
  "A batch that took effect is executed again": () => {
    const driver = openDriver();
    return {
      ...driver,
      async batch(statements) {
        await driver.batch(statements);
        return await driver.batch(statements);
      },
    };
  },
  "A failed batch returns empty results": () => {
    const driver = openDriver();
    return { ...driver, batch: (statements) => driver.batch(statements).catch(() => statements.map(() => [])) };
  },
  "A read returns a cached result": () => {
    const driver = openDriver();
    const rowsBySql = new Map<string, Promise<SqlRow[]>>();
    return {
      ...driver,
      read(statement) {
        const key = JSON.stringify(statement);
        const answer = rowsBySql.get(key) ?? driver.read(statement);
        rowsBySql.set(key, answer);
        return answer;
      },
    };
  },
  "Numbers come back as bigints": () => read((value) => (Number.isInteger(value) ? BigInt(value as number) : value)),
  "Numbers come back as text": () => read((value) => (typeof value === "number" ? String(value) : value)),
  "Bytes come back as an ArrayBuffer": () =>
    read((value) => (value instanceof Uint8Array ? value.slice().buffer : value)),
};
