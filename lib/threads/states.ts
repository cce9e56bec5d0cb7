/** Reads the states of threads. */
import { createSemaphore, type Environment, waitForNextTick } from "../environment.ts";
import { notFoundError, ServiceError, StateReadError } from "../errors.ts";
import type { Executor, GraphState, ThreadState } from "../executor/contract.ts";
import { createStateConfigLookup } from "../executor/job-request.ts";
import { recordedGraphState } from "../executor/recorded-states.ts";
import { createStoredCheckpointReader } from "../executor/stored-checkpoints.ts";
import { isObject, type Json, parseFirstItem } from "../json.ts";
import type { Scope, Storage, ThreadRow } from "../storage/mod.ts";
import { readState, type ThreadReads } from "./checkpoint-state.ts";
import { type AddStates, type CheckpointSelector, type HistoryQuery, readHistory } from "./history.ts";

/** The maximum time that reading states may block the event loop, except for one large state. */
const MAX_BLOCKING_MS = 4;
/** The maximum number of concurrent reads of states from a database server. A local database gets one read at a time. */
const MAX_CONCURRENT_READS = 8;

interface StateOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly executor: Executor;
  readonly environment: Environment;
  /**
   * Resolves once everything that readers of the run have received is stored, so that a state read after a frame is never older than
   * the frame. False when another process executes the run.
   */
  waitUntilStored(run_id: string): Promise<boolean>;
}

export interface States {
  /** Returns the row. Throws `not_found`, also if the scope excludes it, and for the thread of a stateless run that has ended. */
  requireThread(scope: Scope, thread_id: string): Promise<ThreadRow>;
  /** Returns a row that is not older than the frames that readers of its active run have received. Throws `not_found`. */
  requireFreshThread(scope: Scope, thread_id: string): Promise<ThreadRow>;
  /** Returns the id of the newest root checkpoint, including those of the active run, or null. */
  findHead(row: ThreadRow): Promise<string | null>;
  /** Returns the state at the head, or null before the first run. Throws `StateUnreadable`. */
  readCurrentState(row: ThreadRow): Promise<ThreadState | null>;
  /**
   * Returns the state at the head for searches. Logs a `StateReadError` and returns null, so that the search continues. Returns
   * null also without a state; rejects for errors of the storage.
   */
  tryReadState(row: ThreadRow): Promise<ThreadState | null>;
  /**
   * Returns the state at a checkpoint, or without an id the newest one; an empty state if there is none. Throws
   * `checkpoint_not_found` for an unknown id, and `StateReadError`.
   */
  readStateAt(row: ThreadRow, checkpoint: CheckpointSelector, subgraphs?: boolean): Promise<ThreadState>;
  /** Returns states, newest first, 10 without a limit. Throws `StateReadError`. */
  history(row: ThreadRow, query?: HistoryQuery): Promise<readonly ThreadState[]>;
  /** Reads a history in parts, as `Threads.historyEach` describes. */
  historyEach(row: ThreadRow, query: HistoryQuery, add: AddStates): Promise<void>;
  /**
   * Returns the first of `values.messages`, or null without messages. A long message may lack its end. Waits until the active
   * run has stored what it has emitted. Reads the whole state only if it is stored as one value.
   */
  readFirstMessage(row: ThreadRow): Promise<Json>;
  /**
   * Runs work on states in order, with ticks of the event loop between. Without these, a local database, which returns at once, would
   * block everything else.
   */
  runPaced<Answer>(work: () => Promise<Answer>): Promise<Answer>;
  /** Returns the state functions of a graph, or null if this service does not host it. */
  findGraph(graph_id: string): GraphState | null;
}

/** Creates the functions that read the states of threads. Reads run one at a time on embedded databases. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createStates({
  storage,
  scope: deploymentScope,
  executor,
  environment,
  waitUntilStored,
}: StateOptions): States {
  const runPaced = createPacer(environment, storage.multi_process ? MAX_CONCURRENT_READS : 1);
  const hostedGraphs = new Set(executor.graphs().map((graph) => graph.graph_id));
  const findGraph = (graph_id: string): GraphState | null =>
    hostedGraphs.has(graph_id) ? (executor.state?.(graph_id) ?? recordedGraphState) : null;

  /** Returns the thread. Throws `not_found`, also for the thread of a stateless run that has ended. */
  async function requireThread(scope: Scope, thread_id: string): Promise<ThreadRow> {
    const row = await storage.getThread(scope, thread_id.toLowerCase());
    if (!row || (row.stateless && row.status !== "busy")) throw notFoundError("thread", thread_id);
    return row;
  }

  /** Returns the id of the newest root checkpoint, of the active run if it has stored one; null if there is none. */
  async function findHead(row: ThreadRow): Promise<string | null> {
    if (row.running === null) return row.head;
    const newestCheckpoint = await storage.getCheckpoint(deploymentScope, row.thread_id, {
      ns: "",
      run_id: row.running,
    });
    return newestCheckpoint?.checkpoint_id ?? row.head;
  }

  /**
   * Waits until the active run has stored what it has emitted, and returns the result of `read`. If that run was rolled back
   * meanwhile, calls `read` again with the new row, because checkpoints may have disappeared during the read. Rejects as the
   * last `read` does.
   */
  async function readConsistently<Answer>(row: ThreadRow, read: (row: ThreadRow) => Promise<Answer>): Promise<Answer> {
    if (row.running !== null) await waitUntilStored(row.running);
    const reading = read(row);
    await reading.catch(() => {});
    if (row.running === null || (await storage.getRun(deploymentScope, row.running))) return await reading;
    const current = await storage.getThread(deploymentScope, row.thread_id);
    return current ? await readConsistently(current, read) : await reading;
  }

  /**
   * Returns what `readState` needs to read checkpoints of the thread. `head` is the newest root checkpoint; null if reads are
   * not to start at it.
   */
  const createReads = (row: ThreadRow, head: string | null): ThreadReads => ({
    environment,
    reader: createStoredCheckpointReader(storage, deploymentScope, row.thread_id, head),
    createConfigReader: createStateConfigLookup(storage, deploymentScope, row),
    findGraph: findGraph,
  });

  /**
   * Returns the state at the newest root checkpoint, also of an active run; null for a thread without one. Throws
   * `StateReadError`.
   */
  const readCurrentState = (row: ThreadRow): Promise<ThreadState | null> =>
    readConsistently(row, async (row) => {
      const reads = createReads(row, await findHead(row));
      return await readState(reads, { thread_id: row.thread_id, ns: "" });
    });

  const historyEach: States["historyEach"] = (row, query, add) =>
    readHistory({ readConsistently, runPaced, createReads: (row) => createReads(row, null) }, row, query, add);

  return {
    requireThread,
    async requireFreshThread(scope, thread_id) {
      const row = await requireThread(scope, thread_id);
      return row.running !== null && (await waitUntilStored(row.running)) ? await requireThread(scope, thread_id) : row;
    },
    findHead,
    readCurrentState,
    findGraph,
    runPaced,
    async readFirstMessage(row) {
      if (row.running !== null) await waitUntilStored(row.running);
      return await findFirstMessage(storage, deploymentScope, row, readCurrentState);
    },
    async tryReadState(row) {
      try {
        return await readCurrentState(row);
      } catch (error) {
        if (!(error instanceof StateReadError)) throw error;
        environment.log({
          level: "error",
          message: "reading a thread's state failed",
          thread_id: row.thread_id,
          error,
        });
        return null;
      }
    },
    /**
     * Returns the state at a checkpoint, or the current one; an empty state for a thread without one. Throws
     * `checkpoint_not_found`.
     */
    async readStateAt({ thread_id, ...rest }, { checkpoint_id, checkpoint_ns = "" }, subgraphs = false) {
      const idSelector = checkpoint_id === undefined ? {} : { checkpoint_id };
      const state = await readConsistently({ thread_id, ...rest }, async (row) => {
        const reads = createReads(row, await findHead(row));
        return await readState(reads, { thread_id, ns: checkpoint_ns, ...idSelector }, subgraphs);
      });
      if (state) return state;
      if (checkpoint_id === undefined) return EMPTY_STATE;
      throw checkpointNotFoundError(thread_id, checkpoint_id);
    },
    async history(row, query = {}) {
      const states: ThreadState[] = [];
      await historyEach(row, query, async (read) => void states.push(...(await read())));
      return states;
    },
    historyEach,
  };
}

/** The channels of states that are stored as one value, and of functional graphs. */
const SINGLE_VALUE_CHANNELS: ReadonlySet<string> = new Set(["__root__", "__end__"]);

/**
 * Returns the first message of the state, read from the start of its stored list if possible, and perhaps without its end; null
 * if it has none.
 */
async function findFirstMessage(
  storage: Storage,
  scope: Scope,
  row: ThreadRow,
  readCurrentState: States["readCurrentState"],
): Promise<Json> {
  const { thread_id, head, running } = row;
  const at = { checkpoint_id: head, ...(running === null ? {} : { run_id: running }) };
  const firstValue = await storage.readValueStart(scope, thread_id, at, "messages");
  if (!firstValue) return null;
  if (firstValue.start !== null) return parseFirstItem(firstValue.start) ?? null;
  // The state is one value, of whatever form.
  if (!firstValue.channels.some((channel) => SINGLE_VALUE_CHANNELS.has(channel))) return null;
  const values = (await readCurrentState(row))?.values;
  return isObject(values) && Array.isArray(values.messages) ? (values.messages[0] ?? null) : null;
}

/**
 * Returns a function that runs work, at most `maxConcurrent` at a time, and returns its result. After each `MAX_BLOCKING_MS` of
 * work it waits for a tick, so that other requests run. It rejects as the work does.
 */
function createPacer(environment: Environment, maxConcurrent: number): States["runPaced"] {
  const budget = createSemaphore(maxConcurrent);
  const clock = environment.monotonic ?? environment.now;
  let blocked_ms = 0;
  return async (work) => {
    const release = await budget.acquire(1);
    const startedAt = clock();
    try {
      return await work();
    } finally {
      blocked_ms += Math.max(0, clock() - startedAt);
      if (blocked_ms >= MAX_BLOCKING_MS) {
        blocked_ms = 0;
        await waitForNextTick(environment);
      }
      release();
    }
  };
}

export const checkpointNotFoundError = (thread_id: string, checkpoint_id: string): ServiceError =>
  new ServiceError("checkpoint_not_found", `Thread ${thread_id} has no checkpoint ${checkpoint_id}`);

const EMPTY_STATE: ThreadState = {
  values: {},
  next: [],
  tasks: [],
  metadata: null,
  created_at: null,
  checkpoint: null,
  parent_checkpoint: null,
  interrupts: [],
};
