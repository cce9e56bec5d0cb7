// A driver over any client that runs SQL on one connection to a SQLite database: see docs/storage-adapter.md.
import type { SqlDriver, SqlRow, SqlStatement, SqlValue } from "greenroom/sql";

/** The part of the client that the driver uses. Text, numbers, bytes and null come back as they were sent. */
export interface Client {
  execute(sql: string, args: readonly SqlValue[]): Promise<SqlRow[]>;
  close(): Promise<void>;
}

export function clientDriver(client: Client): SqlDriver {
  let last: Promise<unknown> = Promise.resolve();
  // One at a time: a statement between those of a batch would become part of its transaction.
  function inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = last.then(work);
    last = turn.catch(() => {});
    return turn;
  }
  async function transaction(statements: readonly SqlStatement[]): Promise<SqlRow[][]> {
    // Every time: the client may have reconnected, and this is a setting of the connection.
    await client.execute("pragma foreign_keys = on", []);
    await client.execute("begin immediate", []);
    try {
      const results: SqlRow[][] = [];
      for (const { sql, args } of statements) results.push(await client.execute(sql, args));
      await client.execute("commit", []);
      return results;
    } catch (error) {
      // Fails if SQLite has already ended the transaction.
      await client.execute("rollback", []).catch(() => {});
      throw error;
    }
  }
  return {
    dialect: "sqlite",
    batch: (statements) => inTurn(() => transaction(statements)),
    read: ({ sql, args }) => inTurn(() => client.execute(sql, args)),
    close: () => inTurn(() => client.close()),
  };
}
