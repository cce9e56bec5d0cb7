/** What an adapter author writes: one pipe for SQL. Everything above it is the same for every database. */

export type SqlValue = string | number | null | Uint8Array;

export interface SqlStatement {
  readonly sql: string;
  readonly args: readonly SqlValue[];
}

/** One row by column name. */
export type SqlRow = Readonly<Record<string, SqlValue>>;

export interface SqlDriver {
  readonly dialect: "sqlite" | "postgres";
  /**
   * Runs every statement in order in one write transaction and gives each one's rows; all take effect or none.
   * On SQLite the write lock is taken before the first statement; on Postgres READ COMMITTED, one connection.
   */
  batch(statements: readonly SqlStatement[]): Promise<SqlRow[][]>;
  /** Runs one read outside any write transaction. It sees every batch that resolved before it was called. */
  read(statement: SqlStatement): Promise<SqlRow[]>;
  /**
   * Where one process at a time executes: takes that right, and keeps it until `close` or the end of the process. True while
   * it is held; false while another living process holds it. Undefined where processes share the work by leases.
   */
  exclusive?(): Promise<boolean>;
  /** Whoever has that right has it alone, whatever the clocks say: nobody else can take up what it executes. Default false. */
  readonly alone?: boolean;
  /** Wake-ups between processes that share the database; undefined where a process is alone. Carries ids, never data. */
  readonly signals?: Signals;
  /** Releases what the driver itself opened. A connection passed in by the host stays open. */
  close(): Promise<void>;
}

export interface Signals {
  publish(channel: string, id: string): void;
  subscribe(listener: (channel: string, id: string) => void): () => void;
}
