/** `SqlDriver`, the interface that an adapter author implements. All code above it is the same for every database. */
import type { Signals } from "../../lib/storage/mod.ts";

export type { SignalKind, SignalListener, Signals } from "../../lib/storage/mod.ts";

/** A value of a parameter or of a row. */
export type SqlValue = string | number | null | Uint8Array;

/** SQL text with its parameters. */
export interface SqlStatement {
  readonly sql: string;
  readonly args: readonly SqlValue[];
}

/** The values of a row by column name. */
export type SqlRow = Readonly<Record<string, SqlValue>>;

/** Executes SQL statements on one database. */
export interface SqlDriver {
  readonly dialect: "sqlite" | "postgres";
  /**
   * Runs every statement in order in one write transaction and returns the rows of each. Either all take effect or none.
   *
   * On SQLite, it takes the write lock before the first statement and ignores `lock_keys`. On Postgres (READ COMMITTED, one
   * connection), `lock_keys` names what the statements change: before their first statement, batches with a common key wait for
   * each other, and a batch without `lock_keys` waits for all others and they for it. The driver runs a batch again that was
   * rolled back because of another transaction (40001, 40P01), a unique index (23505) or a lost connection. If a commit got no
   * answer, it finds out whether the batch took effect. Rejects with `DatabaseUnavailable` when the database cannot be reached.
   */
  batch(statements: readonly SqlStatement[], lock_keys?: readonly string[]): Promise<SqlRow[][]>;
  /**
   * Runs one read outside any write transaction. It sees every batch that resolved before the call. With `refresh`, batches of other
   * processes may appear later.
   */
  read(statement: SqlStatement): Promise<SqlRow[]>;
  /** Makes later reads see every batch of other processes that resolved before this call. Only for drivers that read from a replica. */
  refresh?(): void;
  /**
   * Acquires the worker lock, which lets one process at a time execute runs, and keeps it until `close` or the end of the process.
   * False while another living process holds it. Undefined where processes share the work by leases.
   */
  acquireWorkerLock?(): Promise<boolean>;
  /** Only the process with the worker lock executes runs, so no other process requeues them, whatever the clocks say. Default false. */
  readonly single_process?: boolean;
  /** Several processes execute runs on one database, so frames for readers in other processes must be stored. Default false. */
  readonly multi_process?: boolean;
  /** Wake-ups between processes that share the database; undefined with a single process. They carry ids, never data. */
  readonly signals?: Signals;
  /** Looks at the database's files. Rejects with `DatabaseUnavailable` when they were damaged, deleted or replaced. */
  check?(): Promise<void>;
  /** Milliseconds since 1970 by the database's clock, if processes with different clocks share it. */
  now?(): Promise<number>;
  /** Closes what the driver opened. A connection that the host passed in stays open. */
  close(): Promise<void>;
}

/** The languages of databases in which statements are compiled. */
export type Dialect = SqlDriver["dialect"];

/** The database cannot be reached. The message contains no secrets. */
export class DatabaseUnavailable extends Error {
  /** True when it is unknown whether the batch took effect: the connection was lost during the commit and could not be restored. */
  readonly unknown: boolean;
  /** True when the files of the database were damaged, deleted or replaced: waiting does not help. */
  readonly lost: boolean;
  constructor(message: string, options: ErrorOptions & { readonly unknown?: boolean; readonly lost?: boolean } = {}) {
    super(message, options);
    this.name = "DatabaseUnavailable";
    this.unknown = options.unknown ?? false;
    this.lost = options.lost ?? false;
  }
}

/**
 * Returns the approximate size of a statement in bytes: characters of text, bytes of arrays, 8 for a number or null. Throws a
 * TypeError for any other value, because SQLite packages would bind it as another value.
 */
export function measureStatement(statement: SqlStatement): number {
  let bytes = statement.sql.length;
  for (const value of statement.args) {
    if (typeof value === "string") bytes += value.length;
    else if (value instanceof Uint8Array) bytes += value.byteLength;
    else if (typeof value === "number" || value === null) bytes += 8;
    else throw new TypeError(`A ${typeof value} is not an SqlValue: ${statement.sql}`);
  }
  return bytes;
}
