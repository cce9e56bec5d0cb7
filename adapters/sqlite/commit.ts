/** How a group of batches becomes one commit, on the event loop or in the writer's thread. */
import type { SqlRow, SqlStatement } from "../sql/driver.ts";
import type { SqliteConnection } from "./file.ts";

/** The result of a batch: the rows of its statements, or the error that left it without effect. */
export type BatchResult = { readonly rows: SqlRow[][] } | { readonly error: unknown };

/** The results of batches that were committed together. */
export interface GroupResult {
  readonly results: readonly BatchResult[];
  /** The duration of the commit without the statements. */
  readonly commit_ms: number;
}

/**
 * Commits the batches in one transaction and returns the rows or the error of each. With several batches, one that fails has no
 * effect on the others. Throws when nothing of it was committed. Uses nothing but its arguments: writer-thread.ts passes the text
 * of this function to a thread.
 */
export function commitGroup(
  connection: SqliteConnection,
  batches: readonly (readonly SqlStatement[])[],
  now: () => number,
): GroupResult {
  const exec = (sql: string): void => void connection.run({ sql, args: [] });
  const run = (batch: readonly SqlStatement[]): BatchResult => ({
    rows: batch.map((statement) => connection.run(statement)),
  });
  /**
   * Runs a batch and returns its rows, or its error, after which none of its changes stay. Throws if the error has
   * ended the whole transaction.
   */
  const runInSavepoint = (batch: readonly SqlStatement[]): BatchResult => {
    exec("savepoint batch");
    try {
      const result = run(batch);
      exec("release batch");
      return result;
    } catch (error) {
      // A full disk or an I/O error ends the transaction, with what the other batches wrote in it.
      if (!connection.inTransaction()) throw error;
      exec("rollback to batch");
      exec("release batch");
      return { error };
    }
  };
  exec("begin immediate");
  try {
    const results = batches.map(batches.length === 1 ? run : runInSavepoint);
    const start = now();
    exec("commit");
    return { results, commit_ms: now() - start };
  } catch (error) {
    if (connection.inTransaction()) exec("rollback");
    throw error;
  }
}
