/** The database client: an SqlDriver that takes statements for every database. */
import type { SqlDriver, SqlRow } from "./driver.ts";
import type { Statement } from "./query.ts";

/** An SqlDriver that takes statements for every database. */
export interface Database extends Pick<SqlDriver, "dialect" | "acquireWorkerLock" | "check"> {
  /** See `SqlDriver.batch`. */
  batch<const List extends readonly Statement<unknown>[]>(
    statements: List,
    lock_keys?: readonly string[],
  ): Promise<BatchRows<List>>;
  read<Row>(statement: Statement<Row>): Promise<Row[]>;
  now?(): Promise<number>;
}

/** The rows of each statement of a batch, in the order of the statements. */
export type BatchRows<List extends readonly Statement<unknown>[]> = {
  -readonly [Index in keyof List]: List[Index] extends Statement<infer Row> ? Row[] : never;
};

/** Returns the rows that a statement of a batch returned. */
export type RowFinder = <Row>(statement: Statement<Row>) => Row[];

/** Returns a function that finds the rows of a statement of a batch in the results of the batch. */
export const createRowFinder =
  (statements: readonly Statement<unknown>[], results: readonly (readonly unknown[])[]): RowFinder =>
  <Row>(statement: Statement<Row>) =>
    (results[statements.indexOf(statement)] ?? []) as Row[];

/** The lock key of a thread with its runs and checkpoints. */
export const threadLockKey = (deployment: string, thread_id: string): string => `thread ${deployment} ${thread_id}`;

/** The lock key of an idempotency key. */
export const idempotencyLockKey = (
  deployment: string,
  { route, key }: { readonly route: string; readonly key: string },
): string => `key ${deployment} ${route} ${key}`;

/** Returns the first row of a read, or null without rows. */
export async function readOne<Row, Stored = SqlRow>(
  driver: Database,
  read: Statement<Stored>,
  toRow: (row: Stored) => Row,
): Promise<Row | null> {
  const [row] = await driver.read(read);
  return row ? toRow(row) : null;
}

/** Returns all rows of a read. */
export async function readAll<Row, Stored = SqlRow>(
  driver: Database,
  read: Statement<Stored>,
  toRow: (row: Stored) => Row,
): Promise<Row[]> {
  return (await driver.read(read)).map(toRow);
}
