/** Batches as transactions: one each, or several in one. */
import type { SqlRow } from "../sql/driver.ts";
import { DatabaseUnavailable } from "../sql/driver.ts";
import type { Session, Source } from "./connection.ts";
import { type Fault, faultOf } from "./errors.ts";
import { beginStatements, beginText, commitText, MAX_NAMES, type Mark, markStatement, outcomeText } from "./locks.ts";
import type { Address } from "./place.ts";
import { type Bound, lastOf, rowsOf } from "./values.ts";

/** Time limit for the outcome of a commit. */
const OUTCOME_MS = 15_000;
/** Batches without lock keys may take long: a migration step can read a whole table. */
const LONG_BATCH_MS = 15 * 60_000;
/** So many bytes fit into the buffer of a socket. */
const AT_ONCE = 65_536;
/** The maximum of batches in one transaction: they run one after the other, in one process of the server. */
const SHARING = 8;

/** What this driver knows of the server. Before the first answer and the first commit, an error means wrong options. */
export interface Seen {
  answered: boolean;
  written: boolean;
  /** The `direct_url` has worked. */
  direct: boolean;
}

export type WithSession = <Result>(work: (session: Session) => Promise<Result>) => Promise<Result>;

export interface Context {
  readonly place: Address;
  readonly source: Source;
  readonly seen: Seen;
  readonly marks: Marks;
  readonly withSession: WithSession;
  now(): number;
  wait(ms: number): Promise<void>;
  isClosing(): boolean;
}

export type Write = (statements: readonly Bound[], lock_keys: readonly string[] | undefined) => Promise<SqlRow[][]>;

export function sessions(source: Source, seen: Seen): WithSession {
  return async (work) => {
    const session = await source.session();
    try {
      const result = await work(session);
      seen.answered = true;
      session.end(false);
      return result;
    } catch (error) {
      await giveUp(session, error);
      throw error;
    }
  };
}

export function createWriter({ place, source, seen, marks, now, wait, withSession }: Context): Write {
  /** Whether a transaction committed whose COMMIT was not answered. If it has not, it never will. */
  const tookEffect = async (mark: Mark): Promise<boolean> => {
    const until = now() + OUTCOME_MS;
    for (let tries = 1; ; tries += 1) {
      const token = await withSession(async (session) => {
        const [row] = rowsOf(lastOf(await session.run({ text: outcomeText(mark) })));
        return row?.token ?? null;
      }).catch((error: unknown) => {
        if (faultOf(error) === "statement" || now() >= until) throw place.unavailable(error, true);
      });
      if (token !== undefined) return token === mark.token;
      await wait(Math.min(25 * 2 ** tries, 500));
    }
  };

  return async (statements, lock_keys) => {
    const session = await source.session();
    const mark = marks.take();
    // The server cannot end a transaction that waits for the rest of what is sent at once.
    const runAll = bytesOf(statements) > AT_ONCE ? undefined : session.runAll;
    const limit_ms = lock_keys === undefined ? LONG_BATCH_MS : undefined;
    let results: SqlRow[][];
    try {
      if (runAll) {
        const beginning = beginStatements(lock_keys);
        const answers = await runAll([...beginning, ...statements, markStatement(mark)], limit_ms);
        results = answers.slice(beginning.length, -1).map(rowsOf);
      } else {
        const texts = [{ text: beginText(lock_keys) }, ...statements];
        results = (await inOrder(texts, (text) => session.run(text, limit_ms)))
          .slice(1)
          .map((result) => rowsOf(lastOf(result)));
      }
      seen.answered = true;
    } catch (error) {
      if (!(await giveUp(session, error))) marks.giveBack(mark);
      throw error;
    }
    try {
      // If the mark cannot be written, nothing is committed.
      await session.run({ text: runAll ? "commit" : commitText(mark) });
    } catch (error) {
      await giveUp(session, error);
      if (!isOver(faultOf(error)) || !(await tookEffect(mark))) throw error;
      seen.written = true;
      return results;
    }
    seen.written = true;
    session.end(false);
    marks.giveBack(mark);
    return results;
  };
}

interface Waiting {
  readonly statements: readonly Bound[];
  readonly lock_keys: readonly string[];
  readonly bytes: number;
  answer(rows: SqlRow[][] | Promise<SqlRow[][]>): void;
}

/**
 * Batches that arrive in the same tick share a transaction, up to a limit. If that fails, each of them is written separately: an error
 * belongs to one of them.
 */
export function createSharedWriter(write: Write): Write {
  let waiting: Waiting[] = [];

  const flush = (): void => {
    const all = waiting;
    waiting = [];
    for (let from = 0; from < all.length; ) {
      const first = all[from] as Waiting;
      let [to, bytes, names] = [from + 1, first.bytes, first.lock_keys.length];
      for (; to < all.length && to - from < SHARING; to++) {
        const next = all[to] as Waiting;
        bytes += next.bytes;
        names += next.lock_keys.length;
        if (bytes > AT_ONCE || names > MAX_NAMES) break;
      }
      void writeTogether(all.slice(from, to));
      from = to;
    }
  };

  const writeTogether = async (batches: readonly Waiting[]): Promise<void> => {
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
      // Nobody knows whether it took effect, so it cannot be repeated.
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
      waiting.push({ statements, lock_keys, bytes: bytesOf(statements), answer });
      if (waiting.length === 1) setImmediate(flush);
    });
  };
}

/** About as many as they have. */
const bytesOf = (statements: readonly Bound[]): number => {
  let bytes = 0;
  for (const { values } of statements) for (const value of values) bytes += value?.length ?? 0;
  return bytes;
};

/** The session cannot be used after this fault. */
const isOver = (fault: Fault): boolean => fault !== "statement" && fault !== "conflict";

/** Ends a failed session. True if the server must end it, and perhaps its transaction. */
async function giveUp(session: Session, error: unknown): Promise<boolean> {
  const over =
    isOver(faultOf(error)) ||
    (await session.run({ text: "rollback" }).then(
      () => false,
      () => true,
    ));
  session.end(over);
  return over;
}

/** The slots of one driver; no other driver uses them. */
export class Marks {
  readonly #driver: string;
  #made = 0;
  #tokens = 0;
  readonly #free: string[] = [];

  constructor(driver: string) {
    this.#driver = driver;
  }

  take(): Mark {
    this.#tokens += 2;
    const slot = this.#free.pop() ?? `${this.#driver}.${this.#made++}`;
    return { slot, token: this.#tokens };
  }

  /** Not after an unknown outcome: the next transaction in the slot would wait for this one. */
  giveBack({ slot }: Mark): void {
    this.#free.push(slot);
  }
}

async function inOrder<Item, Result>(items: readonly Item[], work: (item: Item) => Promise<Result>): Promise<Result[]> {
  const results: Result[] = [];
  for (const item of items) results.push(await work(item));
  return results;
}
