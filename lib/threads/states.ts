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

/** How long reading states may block the event loop, but for one large state. */
const MAX_BLOCKING_MS = 4;
/** How many states are read at once from a database that several processes share: each read waits for its server. */
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
  /** The row, if the scope shows it. Throws `not_found`. */
  requireThread(scope: Scope, thread_id: string): Promise<ThreadRow>;
  /** The same, not older than the frames that readers of its active run have received. */
  requireFreshThread(scope: Scope, thread_id: string): Promise<ThreadRow>;
  /** The id of the newest root checkpoint, including those of the active run. */
  findHead(row: ThreadRow): Promise<string | null>;
  /** The state at the head; null before the first run. Throws `StateUnreadable`. */
  readCurrentState(row: ThreadRow): Promise<ThreadState | null>;
  /** The same for searches: logs StateUnreadable and returns null, so that the other threads are found. */
  tryReadState(row: ThreadRow): Promise<ThreadState | null>;
  /** Throws `not_found` or `StateUnreadable`. */
  readStateAt(row: ThreadRow, checkpoint: CheckpointSelector, subgraphs?: boolean): Promise<ThreadState>;
  /** Newest first. */
  history(row: ThreadRow, query?: HistoryQuery): Promise<readonly ThreadState[]>;
  /** See `Threads.historyEach`. */
  historyEach(row: ThreadRow, query: HistoryQuery, add: AddStates): Promise<void>;
  /** The first of `values.messages`, whose end may be missing; null without messages. Reads no large state. */
  readFirstMessage(row: ThreadRow): Promise<Json>;
  /**
   * Does work on states after the work before it, with ticks of the event loop between: an embedded database answers at once, so that
   * nothing else would be done meanwhile.
   */
  runPaced<Answer>(work: () => Promise<Answer>): Promise<Answer>;
  /** Reads and changes the states of a graph; null when this service does not host the graph. */
  findGraph(graph_id: string): GraphState | null;
}

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

  async function requireThread(scope: Scope, thread_id: string): Promise<ThreadRow> {
    const row = await storage.getThread(scope, thread_id.toLowerCase());
    if (!row || (row.stateless && row.status !== "busy")) throw notFoundError("thread", thread_id);
    return row;
  }

  async function findHead(row: ThreadRow): Promise<string | null> {
    if (row.running === null) return row.head;
    const newestCheckpoint = await storage.getCheckpoint(deploymentScope, row.thread_id, {
      ns: "",
      run_id: row.running,
    });
    return newestCheckpoint?.checkpoint_id ?? row.head;
  }

  /** Repeats `read` when the active run was rolled back meanwhile: its checkpoints may be gone in the middle of it. */
  async function readConsistently<Answer>(row: ThreadRow, read: (row: ThreadRow) => Promise<Answer>): Promise<Answer> {
    if (row.running !== null) await waitUntilStored(row.running);
    const reading = read(row);
    await reading.catch(() => {});
    if (row.running === null || (await storage.getRun(deploymentScope, row.running))) return await reading;
    const current = await storage.getThread(deploymentScope, row.thread_id);
    return current ? await readConsistently(current, read) : await reading;
  }

  const createReads = (row: ThreadRow, head: string | null): ThreadReads => ({
    environment,
    reader: createStoredCheckpointReader(storage, deploymentScope, row.thread_id, head),
    createConfigReader: createStateConfigLookup(storage, deploymentScope, row),
    findGraph: findGraph,
  });

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

/** See `States.firstMessage`. */
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

/** See `States.paced`. */
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
