/** What an adapter author writes: one pipe for SQL. Everything above it is the same for every database. */
import type { Signals } from "../../lib/storage/signals.ts";

export type { SignalKind, SignalListener, Signals } from "../../lib/storage/signals.ts";

/** A value that can be bound, and that rows hold. */
export type SqlValue = string | number | null | Uint8Array;

/** SQL text with its bound values. */
export interface SqlStatement {
  readonly sql: string;
  readonly args: readonly SqlValue[];
}

/** One row by column name. */
export type SqlRow = Readonly<Record<string, SqlValue>>;

/** Executes SQL statements on one database. */
export interface SqlDriver {
  readonly dialect: "sqlite" | "postgres";
  /**
   * Runs every statement in order in one write transaction and gives each one's rows; all take effect or none.
   *
   * On SQLite the write lock is taken before the first statement, and `touched` means nothing. On Postgres, in READ COMMITTED on one
   * connection, `touched` names what the statements change: before the first of them, batches that name the same wait for each
   * other, and one without `touched` waits for all others and they for it. A batch that was rolled back because of another
   * transaction (40001, 40P01), a unique index (23505) or a lost connection is run again; whether a commit without an answer took
   * effect is looked up. Rejects with `DatabaseUnavailable` when the database cannot be reached.
   */
  batch(statements: readonly SqlStatement[], lock_keys?: readonly string[]): Promise<SqlRow[][]>;
  /**
   * Runs one read outside any write transaction. It sees every batch that resolved before it was called; with `refresh`, those of
   * other processes perhaps later.
   */
  read(statement: SqlStatement): Promise<SqlRow[]>;
  /** Makes reads that are called from now on see every batch of other processes that had resolved. For reads from a replica. */
  refresh?(): void;
  /**
   * Where one process at a time executes: takes that right, and keeps it until `close` or the end of the process. True while
   * it is held; false while another living process holds it. Undefined where processes share the work by leases.
   */
  acquireWorkerLock?(): Promise<boolean>;
  /** Whoever has that right has it alone, whatever the clocks say: nobody else can take up what it executes. Default false. */
  readonly single_process?: boolean;
  /** Several processes execute on one database: what readers in another one are to see has to be stored. Default false. */
  readonly multi_process?: boolean;
  /** Wake-ups between processes that share the database; undefined where a process is alone. Carries ids, never data. */
  readonly signals?: Signals;
  /** Milliseconds since 1970 by the clock of the database, where processes with clocks of their own share it. */
  now?(): Promise<number>;
  /** Releases what the driver itself opened. A connection passed in by the host stays open. */
  close(): Promise<void>;
}

/** The database cannot be reached. The message names no secret. */
export class DatabaseUnavailable extends Error {
  /** True where nobody can tell whether the batch took effect: the connection was lost when it was committed, and has not come back. */
  readonly unknown: boolean;
  constructor(message: string, options: ErrorOptions & { readonly unknown?: boolean } = {}) {
    super(message, options);
    this.name = "DatabaseUnavailable";
    this.unknown = options.unknown ?? false;
  }
}
