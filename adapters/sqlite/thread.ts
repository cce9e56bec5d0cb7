/** A thread with the writer connection of a SQLite file: there a slow disk stops no event loop. */
import type { Worker } from "node:worker_threads";
import { DatabaseUnavailable, type SqlStatement } from "../sql/driver.ts";
import { type Committed, commitGroup, type Outcome } from "./commit.ts";
import { type SqliteConnection, WRITER_SETTINGS } from "./file.ts";
import { createStatementCache } from "./statement-cache.ts";

/** A connection in a thread. Calls are executed one after another. */
export interface WriterThread {
  /** Like `commitGroup`. */
  commit(batches: readonly (readonly SqlStatement[])[]): Promise<Committed>;
  /** Runs one statement outside a transaction. */
  run(sql: string): Promise<void>;
  /** Closes the connection and ends the thread. */
  close(): Promise<void>;
}

/** Opens a file with one package. Uses nothing but its arguments: its text runs in the thread. */
export type OpenConnection<Package> = (
  sqlite: Package,
  createCache: typeof createStatementCache,
  path: string,
) => SqliteConnection;

/** What the thread is sent: a group of batches, or a statement. Null: close. */
type Call = { readonly batches: readonly (readonly SqlStatement[])[] } | { readonly sql: string } | null;
/** An error as the thread sends it: with a class it would lose its codes. */
interface SentError {
  readonly message: string;
  readonly code?: unknown;
  readonly errcode?: unknown;
}
type Answer = { readonly value: Committed | null } | { readonly error: SentError };
/** The part of `node:worker_threads` that the thread uses. */
interface Port {
  on(event: "message", listen: (call: Call) => void): void;
  postMessage(answer: Answer): void;
}

/** Uses nothing but its arguments: its text runs in the thread. */
function serveCalls(
  port: Port,
  open: () => SqliteConnection,
  settings: readonly string[],
  commit: typeof commitGroup,
): void {
  const sent = (error: unknown): SentError => {
    const { message, code, errcode } = error as SentError;
    return { message, code, errcode };
  };
  const connection = open();
  for (const sql of settings) connection.run({ sql, args: [] });
  const execute = (call: Call): Committed | null => {
    if (call === null) connection.close();
    else if ("sql" in call) connection.run({ sql: call.sql, args: [] });
    else {
      const { outcomes, commit_ms } = commit(connection, call.batches, () => performance.now());
      return {
        outcomes: outcomes.map((outcome) => ("error" in outcome ? { error: sent(outcome.error) } : outcome)),
        commit_ms,
      };
    }
    return null;
  };
  port.on("message", (call) => {
    try {
      port.postMessage({ value: execute(call) });
    } catch (error) {
      port.postMessage({ error: sent(error) });
    }
  });
  port.postMessage({ value: null });
}

/** The program of the thread, as text: a file of its own would be lost in bundles and compiled programs. */
function programOf(open: OpenConnection<never>): string {
  // Bundlers that keep the names of functions call a function of their own for it.
  return `const __name = (named) => named;
const { parentPort, workerData } = process.getBuiltinModule("node:worker_threads");
(${serveCalls})(
  parentPort,
  () => (${open})(process.getBuiltinModule(workerData.sqlite), (${createStatementCache}), workerData.path),
  workerData.settings,
  (${commitGroup}),
);`;
}

/** Starts the thread. Rejects where the runtime, its permissions or a bundler prevent it. The thread keeps no process alive. */
export async function startThread<Package>(
  sqlite: string,
  open: OpenConnection<Package>,
  path: string,
): Promise<WriterThread> {
  const threads = await import("node:worker_threads");
  const worker: Worker = new threads.Worker(programOf(open), {
    eval: true,
    execArgv: [],
    workerData: { sqlite, path, settings: WRITER_SETTINGS },
  });
  const waiting: { resolve(value: Committed | null): void; reject(error: unknown): void }[] = [];
  let ended: Error | undefined;
  const end = (cause?: unknown): void => {
    ended ??= new DatabaseUnavailable(`The thread that writes ${path} has ended. Restart the process.`, {
      cause,
      lost: true,
    });
    // Whether the thread has committed what it was sent is unknown.
    const unanswered = new DatabaseUnavailable(ended.message, { cause, lost: true, unknown: true });
    for (const { reject } of waiting.splice(0)) reject(unanswered);
  };
  const answered = (): Promise<Committed | null> => {
    worker.ref();
    return new Promise((resolve, reject) => void waiting.push({ resolve, reject }));
  };
  const call = async (sent: Call): Promise<Committed | null> => {
    if (ended) throw ended;
    worker.postMessage(sent);
    return await answered();
  };
  worker.on("error", end);
  worker.on("exit", () => end());
  worker.on("message", (answer: Answer) => {
    const next = waiting.shift();
    if (waiting.length === 0) worker.unref();
    if ("error" in answer) next?.reject(received(answer.error));
    else next?.resolve(answer.value);
  });
  const started = answered();
  // What waits for an answer keeps the process alive, the start does not.
  worker.unref();
  await started;
  return {
    async commit(batches) {
      const { outcomes, commit_ms } = (await call({ batches })) as Committed;
      return { outcomes: outcomes.map(restored), commit_ms };
    },
    async run(sql) {
      await call({ sql });
    },
    async close() {
      if (!ended) await call(null);
      await worker.terminate();
    },
  };
}

const received = ({ message, ...codes }: SentError): Error => Object.assign(new Error(message), codes);

const restored = (outcome: Outcome): Outcome =>
  "error" in outcome ? { error: received(outcome.error as SentError) } : outcome;
