// A driver over any client that runs SQL on one connection to a SQLite database: see docs/storage-adapter.md.
import type { SqlDriver, SqlRow, SqlStatement, SqlValue } from "greenroom/sql";

/** What is used of the client. Text, numbers, bytes and null come back as they were sent. */
export interface Client {
  execute(sql: string, args: readonly SqlValue[]): Promise<SqlRow[]>;
  close(): Promise<void>;
}

export function clientDriver(client: Client): SqlDriver {
  let last: Promise<unknown> = Promise.resolve();
  // Whatever came between the statements of a batch would be a part of it.
  function inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = last.then(work);
    last = turn.catch(() => {});
    return turn;
  }
  async function transaction(statements: readonly SqlStatement[]): Promise<SqlRow[][]> {
    // A client may have connected anew, and this is a setting of the connection.
    await client.execute("pragma foreign_keys = on", []);
    await client.execute("begin immediate", []);
    try {
      const results: SqlRow[][] = [];
      for (const { sql, args } of statements) results.push(await client.execute(sql, args));
      await client.execute("commit", []);
      return results;
    } catch (error) {
      // SQLite may have ended the transaction by itself: then there is nothing to undo.
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
