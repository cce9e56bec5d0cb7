/**
 * Statements that are sent together, with one Sync. Each query of `pg` has a Sync of its own, for which the server sends an answer
 * of its own, and both sides wake up.
 */
import type { PostgresResult } from "./values.ts";

/** The part of a connection of `pg` that a query writes to. */
export interface PgConnection {
  readonly stream: { cork?(): void; uncork?(): void };
  /** The texts that the session keeps prepared, by name. The client adds one when the server has answered. */
  readonly parsedStatements: Record<string, string | undefined>;
  sync(): void;
}

/** A query of `pg`: it writes its messages, and its client gives it the answers. */
export interface Submittable {
  readonly name?: string;
  readonly text?: string;
  submit(connection: PgConnection): unknown;
  handleRowDescription(message: unknown): void;
  handleDataRow(message: unknown): void;
  handleCommandComplete(message: unknown, connection: PgConnection): void;
  handleEmptyQuery(connection: PgConnection): void;
  handleReadyForQuery(connection: PgConnection): void;
  handleError(error: unknown, connection: PgConnection): void;
}

export type OnResult = (error: unknown, result: PostgresResult) => void;

/** Is itself a query for the client. After the first error the server skips the rest. */
export class StatementGroup implements Submittable {
  readonly #queries: readonly Submittable[];
  readonly #results: PostgresResult[] = [];
  #current = 0;
  #firstError: unknown;
  callback: (error: unknown, results: PostgresResult[]) => void;

  /** Each opener makes a query that gives its result to `done`. */
  constructor(openers: readonly ((done: OnResult) => Submittable)[], callback: StatementGroup["callback"]) {
    this.callback = callback;
    this.#queries = openers.map((open) =>
      open((error, result) => {
        this.#firstError ??= error;
        this.#results.push(result);
      }),
    );
  }

  get #query(): Submittable {
    return this.#queries[this.#current] as Submittable;
  }

  /** The client notes by these which statement it has prepared. */
  get name(): string | undefined {
    return this.#queries[this.#current]?.name;
  }

  get text(): string | undefined {
    return this.#queries[this.#current]?.text;
  }

  /**
   * Called by `pg`: sends all statements of the group at once with one sync, so that the server ends the group at the first
   * error. Returns null, which means success for `pg`.
   */
  submit(connection: PgConnection): unknown {
    const { stream } = connection;
    // What is prepared here is known to the rest of the group, and to the session only if nothing before it fails.
    const prepared: PgConnection["parsedStatements"] = Object.create(connection.parsedStatements);
    const unsynced: PgConnection = Object.create(connection, {
      sync: { value() {} },
      parsedStatements: { value: prepared },
      submittedNamedStatements: { value: {} },
    });
    stream.cork?.();
    try {
      for (const query of this.#queries) {
        query.submit(unsynced);
        if (query.name !== undefined) prepared[query.name] = query.text;
      }
    } finally {
      connection.sync();
      stream.uncork?.();
    }
    return null;
  }

  handleRowDescription(message: unknown): void {
    this.#query.handleRowDescription(message);
  }

  handleDataRow(message: unknown): void {
    this.#query.handleDataRow(message);
  }

  /** Passes the end of a statement to its query. The messages that follow are those of the next statement. */
  handleCommandComplete(message: unknown, connection: PgConnection): void {
    this.#query.handleCommandComplete(message, connection);
    this.#current += 1;
  }

  /** Passes the end of an empty statement to its query. The messages that follow are those of the next statement. */
  handleEmptyQuery(connection: PgConnection): void {
    this.#query.handleEmptyQuery(connection);
    this.#current += 1;
  }

  handleError(error: unknown): void {
    this.callback(error, []);
  }

  /** Called by `pg` at the end of the group: calls back with the first error, or the results. */
  handleReadyForQuery(connection: PgConnection): void {
    for (const query of this.#queries) query.handleReadyForQuery(connection);
    this.callback(this.#firstError, this.#results);
  }
}
