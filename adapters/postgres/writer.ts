/** Batches as transactions: one each, or several in one. */
import type { SqlRow } from "../sql/driver.ts";
import { DatabaseUnavailable } from "../sql/driver.ts";
import type { PostgresAddress } from "./address.ts";
import type { PostgresSession, SessionSource } from "./connection.ts";
import { classifyError, type ErrorClass } from "./errors.ts";
import {
  type CommitMarker,
  createBeginSql,
  createBeginStatements,
  createCommitResultSql,
  createCommitSql,
  createMarkerStatement,
  MAX_LOCK_NAMES,
} from "./locks.ts";
import { type BoundStatement, getLastResult, toRows } from "./values.ts";

/** Time limit for the outcome of a commit. */
const COMMIT_RESULT_TIMEOUT_MS = 15_000;
/** Batches without lock keys may take long: a migration step can read a whole table. */
const LONG_BATCH_TIMEOUT_MS = 15 * 60_000;
/** The number of bytes that fit into the buffer of a socket. */
const MAX_PIPELINED_BYTES = 65_536;
/** The maximum of batches in one transaction: they run one after the other, in one process of the server. */
const MAX_BATCHES_PER_TRANSACTION = 8;

/**
 * The state of the server as this driver has seen it. Before the first response and the first commit, an error means wrong options.
 */
export interface ServerState {
  hasAnswered: boolean;
  hasCommitted: boolean;
  /** The `direct_url` has worked. */
  isDirectUrlChecked: boolean;
}

export type WithSession = <Result>(work: (session: PostgresSession) => Promise<Result>) => Promise<Result>;

export interface DriverContext {
  readonly address: PostgresAddress;
  readonly source: SessionSource;
  readonly serverState: ServerState;
  readonly commitMarkers: CommitMarkers;
  readonly withSession: WithSession;
  now(): number;
  wait(ms: number): Promise<void>;
  isClosing(): boolean;
}

export type WriteBatch = (
  statements: readonly BoundStatement[],
  lock_keys: readonly string[] | undefined,
) => Promise<SqlRow[][]>;

/**
 * Returns a function that runs work with a session and gives the session back. If the work throws, the session is rolled back, or
 * closed if it is broken, and the error passed on. Success notes that the server has answered.
 */
export function createWithSession(source: SessionSource, serverState: ServerState): WithSession {
  return async (work) => {
    const session = await source.session();
    try {
      const result = await work(session);
      serverState.hasAnswered = true;
      session.end(false);
      return result;
    } catch (error) {
      await discardSession(session, error);
      throw error;
    }
  };
}

/**
 * Returns a function that writes statements in one transaction and returns their rows. If COMMIT gets no response, it finds out
 * whether it took effect, and succeeds or throws accordingly. Throws DatabaseUnavailable with `unknown` if that cannot be found
 * out; other errors mean that nothing was written.
 */
export function createWriter({
  address,
  source,
  serverState,
  commitMarkers,
  now,
  wait,
  withSession,
}: DriverContext): WriteBatch {
  /**
   * Resolves with true if a transaction committed whose COMMIT got no response, and with false if it did not; then it
   * never will, because a higher token is written. Tries again for a limited time, then rejects with
   * DatabaseUnavailable with `unknown`.
   */
  const didCommit = async (marker: CommitMarker): Promise<boolean> => {
    const until = now() + COMMIT_RESULT_TIMEOUT_MS;
    for (let tries = 1; ; tries += 1) {
      const token = await withSession(async (session) => {
        const [row] = toRows(getLastResult(await session.run({ text: createCommitResultSql(marker) })));
        return row?.token ?? null;
      }).catch((error: unknown) => {
        if (classifyError(error) === "statement" || now() >= until) throw address.toUnavailableError(error, true);
      });
      if (token !== undefined) return token === marker.token;
      await wait(Math.min(25 * 2 ** tries, 500));
    }
  };

  return async (statements, lock_keys) => {
    const session = await source.session();
    const marker = commitMarkers.acquire();
    // The server cannot end a transaction that waits for the rest of what is sent at once.
    const runAll = estimateBytes(statements) > MAX_PIPELINED_BYTES ? undefined : session.runAll;
    const limit_ms = lock_keys === undefined ? LONG_BATCH_TIMEOUT_MS : undefined;
    let results: SqlRow[][];
    try {
      if (runAll) {
        const beginning = createBeginStatements(lock_keys);
        const answers = await runAll([...beginning, ...statements, createMarkerStatement(marker)], limit_ms);
        results = answers.slice(beginning.length, -1).map(toRows);
      } else {
        const texts = [{ text: createBeginSql(lock_keys) }, ...statements];
        results = (await mapInOrder(texts, (text) => session.run(text, limit_ms)))
          .slice(1)
          .map((result) => toRows(getLastResult(result)));
      }
      serverState.hasAnswered = true;
    } catch (error) {
      if (!(await discardSession(session, error))) commitMarkers.release(marker);
      throw error;
    }
    try {
      // If the mark cannot be written, nothing is committed.
      await session.run({ text: runAll ? "commit" : createCommitSql(marker) });
    } catch (error) {
      await discardSession(session, error);
      if (!endsSession(classifyError(error)) || !(await didCommit(marker))) throw error;
      serverState.hasCommitted = true;
      return results;
    }
    serverState.hasCommitted = true;
    session.end(false);
    commitMarkers.release(marker);
    return results;
  };
}

interface WaitingBatch {
  readonly statements: readonly BoundStatement[];
  readonly lock_keys: readonly string[];
  readonly bytes: number;
  answer(rows: SqlRow[][] | Promise<SqlRow[][]>): void;
}

/**
 * Returns a function that lets batches of the same tick share a transaction, up to a limit. If that fails, each is
 * written alone, because the error belongs to one of them; if the effect is unknown, all reject instead. A batch
 * without lock keys is always written alone, at once.
 */
export function createSharedWriter(write: WriteBatch): WriteBatch {
  let waiting: WaitingBatch[] = [];

  /** Starts to write all waiting batches, in as few transactions as the limits allow. Does not wait for them. */
  const flush = (): void => {
    const batches = waiting;
    waiting = [];
    for (let from = 0; from < batches.length; ) {
      const first = batches[from] as WaitingBatch;
      let [to, bytes, names] = [from + 1, first.bytes, first.lock_keys.length];
      for (; to < batches.length && to - from < MAX_BATCHES_PER_TRANSACTION; to++) {
        const next = batches[to] as WaitingBatch;
        bytes += next.bytes;
        names += next.lock_keys.length;
        if (bytes > MAX_PIPELINED_BYTES || names > MAX_LOCK_NAMES) break;
      }
      void writeInOneTransaction(batches.slice(from, to));
      from = to;
    }
  };

  /**
   * Writes the batches in one transaction and answers each. If it fails, writes each of them alone, unless the effect is unknown:
   * then all get the error. Never rejects.
   */
  const writeInOneTransaction = async (batches: readonly WaitingBatch[]): Promise<void> => {
    const writeEach = (): void => {
      for (const { statements, lock_keys, answer } of batches) answer(write(statements, lock_keys));
    };
    if (batches.length === 1) return writeEach();
    let rows: SqlRow[][];
    try {
      rows = await write(
        batches.flatMap(({ statements }) => statements),
        batches.flatMap(({ lock_keys }) => lock_keys),
      );
    } catch (error) {
      // Its effect is unknown, so it cannot be repeated.
      if (!(error instanceof DatabaseUnavailable)) return writeEach();
      for (const { answer } of batches) answer(Promise.reject(error));
      return;
    }
    let from = 0;
    for (const { statements, answer } of batches) {
      answer(rows.slice(from, from + statements.length));
      from += statements.length;
    }
  };

  return (statements, lock_keys) => {
    if (lock_keys === undefined) return write(statements, lock_keys);
    return new Promise((answer) => {
      waiting.push({ statements, lock_keys, bytes: estimateBytes(statements), answer });
      if (waiting.length === 1) setImmediate(flush);
    });
  };
}

/**
 * Returns the sum of the lengths of all values, of texts in characters, which is about their bytes. The SQL does not
 * count.
 */
const estimateBytes = (statements: readonly BoundStatement[]): number => {
  let bytes = 0;
  for (const { values } of statements) for (const value of values) bytes += value?.length ?? 0;
  return bytes;
};

/** The session cannot be used after this fault. */
const endsSession = (errorClass: ErrorClass): boolean => errorClass !== "statement" && errorClass !== "conflict";

/**
 * Ends a failed session, after a rollback if it still works. Returns true if it is broken: then the server must end it, and
 * perhaps its transaction.
 */
async function discardSession(session: PostgresSession, error: unknown): Promise<boolean> {
  const isBroken =
    endsSession(classifyError(error)) ||
    (await session.run({ text: "rollback" }).then(
      () => false,
      () => true,
    ));
  session.end(isBroken);
  return isBroken;
}

/** The slots of one driver; no other driver uses them. */
export class CommitMarkers {
  readonly #driver: string;
  #slotCount = 0;
  #lastToken = 0;
  readonly #freeSlots: string[] = [];

  constructor(driver: string) {
    this.#driver = driver;
  }

  /** Removes a free slot, or creates one, and returns it with a higher token than any before. */
  acquire(): CommitMarker {
    this.#lastToken += 2;
    const slot = this.#freeSlots.pop() ?? `${this.#driver}.${this.#slotCount++}`;
    return { slot, token: this.#lastToken };
  }

  /** Not after an unknown outcome: the next transaction in the slot would wait for this one. */
  release({ slot }: CommitMarker): void {
    this.#freeSlots.push(slot);
  }
}

/**
 * Calls `work` for one item after the other and resolves with the results. Rejects at the first failure, and leaves out
 * the items after it.
 */
async function mapInOrder<Item, Result>(
  items: readonly Item[],
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  for (const item of items) results.push(await work(item));
  return results;
}
