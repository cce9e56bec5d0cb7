/** A thread with the writer connection of a SQLite file: there a slow disk stops no event loop. */
import type { Worker } from "node:worker_threads";
import { DatabaseUnavailable, type SqlStatement } from "../sql/driver.ts";
import { type BatchResult, commitGroup, type GroupResult } from "./commit.ts";
import { type SqliteConnection, WRITER_SETTINGS } from "./file.ts";
import { createStatementCache } from "./statement-cache.ts";

/** A connection in a thread. Calls are executed one after another. */
export interface WriterThread {
  /** Commits the batches as `commitGroup` does. */
  commit(batches: readonly (readonly SqlStatement[])[]): Promise<GroupResult>;
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

/** A message to the thread: a group of batches, or a statement. Null closes it. */
type ThreadRequest = { readonly batches: readonly (readonly SqlStatement[])[] } | { readonly sql: string } | null;
/** An error as the thread sends it: with a class it would lose its codes. */
interface SerializedError {
  readonly message: string;
  readonly code?: unknown;
  readonly errcode?: unknown;
}
type ThreadResponse = { readonly value: GroupResult | null } | { readonly error: SerializedError };
/** The part of `node:worker_threads` that the thread uses. */
interface ThreadPort {
  on(event: "message", listen: (call: ThreadRequest) => void): void;
  postMessage(response: ThreadResponse): void;
}

/**
 * Runs in the thread: opens the database, then answers each message, in order, with a result or an error. Uses nothing but its
 * arguments, because its text is passed to the thread.
 */
function serveThreadRequests(
  port: ThreadPort,
  open: () => SqliteConnection,
  settings: readonly string[],
  commit: typeof commitGroup,
): void {
  const serializeError = (error: unknown): SerializedError => {
    const { message, code, errcode } = error as SerializedError;
    return { message, code, errcode };
  };
  const connection = open();
  for (const sql of settings) connection.run({ sql, args: [] });
  /**
   * Runs a request: null closes the connection, SQL is run without its rows, and batches are committed. Returns the
   * results of batches, with errors in a form that can be sent; else null.
   */
  const execute = (call: ThreadRequest): GroupResult | null => {
    if (call === null) connection.close();
    else if ("sql" in call) connection.run({ sql: call.sql, args: [] });
    else {
      const { results, commit_ms } = commit(connection, call.batches, () => performance.now());
      return {
        results: results.map((result) => ("error" in result ? { error: serializeError(result.error) } : result)),
        commit_ms,
      };
    }
    return null;
  };
  port.on("message", (call) => {
    try {
      port.postMessage({ value: execute(call) });
    } catch (error) {
      port.postMessage({ error: serializeError(error) });
    }
  });
  port.postMessage({ value: null });
}

/**
 * Returns the program of the thread as text, made of the texts of functions: a file of its own would be lost in bundles
 * and compiled programs.
 */
function createThreadProgram(open: OpenConnection<never>): string {
  // Bundlers that keep the names of functions call a function of their own for it.
  return `const __name = (named) => named;
const { parentPort, workerData } = process.getBuiltinModule("node:worker_threads");
(${serveThreadRequests})(
  parentPort,
  () => (${open})(process.getBuiltinModule(workerData.sqlite), (${createStatementCache}), workerData.path),
  workerData.settings,
  (${commitGroup}),
);`;
}

/**
 * Starts the thread that writes the database. Rejects where the runtime, its permissions or a bundler prevent it. The thread
 * keeps the process alive only while a call waits. When it ends, waiting calls reject with DatabaseUnavailable with `unknown`,
 * later ones without it.
 */
export async function startThread<Package>(
  sqlite: string,
  open: OpenConnection<Package>,
  path: string,
): Promise<WriterThread> {
  const threads = await import("node:worker_threads");
  const worker: Worker = new threads.Worker(createThreadProgram(open), {
    eval: true,
    execArgv: [],
    workerData: { sqlite, path, settings: WRITER_SETTINGS },
  });
  const waiting: { resolve(value: GroupResult | null): void; reject(error: unknown): void }[] = [];
  let endError: Error | undefined;
  /**
   * Rejects all waiting calls with an error that says that their effect is unknown. Later calls reject with the error of the
   * first end.
   */
  const endThread = (cause?: unknown): void => {
    endError ??= new DatabaseUnavailable(`The thread that writes ${path} has ended. Restart the process.`, {
      cause,
      lost: true,
    });
    // Whether the thread has committed what it was sent is unknown.
    const unknownResultError = new DatabaseUnavailable(endError.message, { cause, lost: true, unknown: true });
    for (const { reject } of waiting.splice(0)) reject(unknownResultError);
  };
  /**
   * Resolves with the next response of the thread that no earlier call waits for, or rejects with its error. Keeps the
   * process alive until then.
   */
  const waitForResponse = (): Promise<GroupResult | null> => {
    worker.ref();
    return new Promise((resolve, reject) => void waiting.push({ resolve, reject }));
  };
  /** Sends a request to the thread and returns its answer. Keeps the process alive until then. Throws if the thread has ended. */
  const call = async (request: ThreadRequest): Promise<GroupResult | null> => {
    if (endError) throw endError;
    worker.postMessage(request);
    return await waitForResponse();
  };
  worker.on("error", endThread);
  worker.on("exit", () => endThread());
  worker.on("message", (response: ThreadResponse) => {
    const next = waiting.shift();
    if (waiting.length === 0) worker.unref();
    if ("error" in response) next?.reject(deserializeError(response.error));
    else next?.resolve(response.value);
  });
  const started = waitForResponse();
  // What waits for an answer keeps the process alive, the start does not.
  worker.unref();
  await started;
  return {
    async commit(batches) {
      const { results, commit_ms } = (await call({ batches })) as GroupResult;
      return { results: results.map(deserializeResult), commit_ms };
    },
    async run(sql) {
      await call({ sql });
    },
    async close() {
      if (!endError) await call(null);
      await worker.terminate();
    },
  };
}

const deserializeError = ({ message, ...codes }: SerializedError): Error => Object.assign(new Error(message), codes);

const deserializeResult = (result: BatchResult): BatchResult =>
  "error" in result ? { error: deserializeError(result.error as SerializedError) } : result;
