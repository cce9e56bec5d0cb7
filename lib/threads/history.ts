/** Reads the states of a thread from the newest to the oldest. */
import type { CheckpointReader, GraphState, StoredCheckpoint, ThreadState } from "../executor/contract.ts";
import type { JsonObject } from "../json.ts";
import type { ThreadRow } from "../storage/mod.ts";
import { countStoredChars, LARGE_STATE_CHARS, readState, type ThreadReads } from "./checkpoint-state.ts";

/** Selects a checkpoint of a thread: the newest without an id. */
export interface CheckpointSelector {
  readonly checkpoint_id?: string;
  readonly checkpoint_ns?: string;
}

/** The filter and page of the states of a thread. */
export interface HistoryQuery {
  /** Default 10. */
  readonly limit?: number;
  readonly before?: string;
  readonly metadata?: JsonObject;
  /** Limits the history to a subgraph with `checkpoint_ns`, to one state with `checkpoint_id`. */
  readonly checkpoint?: CheckpointSelector;
}

/** Receives a part of a history. `read` reads its states and may be called again. */
export type AddStates = (read: () => Promise<readonly ThreadState[]>) => Promise<void>;

/** The functions with which a history reads its thread. */
export interface HistoryReads {
  /** Reads, and reads again if the active run was rolled back meanwhile. */
  readConsistently<Answer>(row: ThreadRow, read: (row: ThreadRow) => Promise<Answer>): Promise<Answer>;
  /** Runs work as `States.runPaced` does. */
  runPaced<Answer>(work: () => Promise<Answer>): Promise<Answer>;
  createReads(row: ThreadRow): ThreadReads;
}

/** The checkpoints that some states of a history come from. */
interface HistoryPosition {
  readonly count: number;
  /** The id of the oldest checkpoint. */
  readonly last: string | null;
  /** True if the oldest checkpoint is large. */
  readonly isLarge: boolean;
}

interface HistoryPart extends HistoryPosition {
  readonly states: readonly ThreadState[];
}

interface PartQuery extends HistoryQuery {
  readonly limit: number;
}

/**
 * Reads a history in parts: calls `add` for each with a function that reads its states, and waits for it. `add` must call that
 * function, else the history ends. A part ends with a large state, and the next one is read alone. Stops after `limit`
 * checkpoints (10 by default), at the end of the history, or after a checkpoint that the query names.
 */
export async function readHistory(
  reads: HistoryReads,
  row: ThreadRow,
  query: HistoryQuery,
  add: AddStates,
): Promise<void> {
  let remaining = query.limit ?? 10;
  let { before } = query;
  let isLarge = false;
  while (remaining > 0) {
    // After a large state the next one is read alone: it is probably as large.
    const part = { ...query, limit: isLarge ? 1 : remaining, ...(before === undefined ? {} : { before }) };
    let position: HistoryPosition = { count: 0, last: null, isLarge: false };
    await add(async () => {
      const { states, ...end } = await readPart(reads, row, part);
      position = end;
      return states;
    });
    remaining -= position.count;
    if (position.count === 0 || position.last === null || query.checkpoint?.checkpoint_id !== undefined) return;
    before = position.last;
    ({ isLarge } = position);
  }
}

/**
 * Reads the next states of a history, up to and with a large one; all again if the run was rolled back meanwhile. Returns also
 * the number of checkpoints, the last one (null without any), and whether that was large. Checkpoints that are gone have no
 * state.
 */
const readPart = (reads: HistoryReads, row: ThreadRow, query: PartQuery): Promise<HistoryPart> =>
  reads.readConsistently(row, async (row) => {
    const { thread_id } = row;
    const threadReads = reads.createReads(row);
    const findGraph = memoizeByGraph(threadReads.findGraph);
    const states: ThreadState[] = [];
    let count = 0;
    let last: string | null = null;
    let isLarge = false;
    for await (const { ns, checkpoint_id, values } of await findCheckpoints(threadReads.reader, query)) {
      const state = await reads.runPaced(() =>
        readState({ ...threadReads, findGraph }, { thread_id, ns, checkpoint_id }),
      );
      if (state) states.push(state);
      count++;
      last = checkpoint_id;
      isLarge = countStoredChars(values) > LARGE_STATE_CHARS;
      if (isLarge) break;
    }
    return { states, count, last, isLarge };
  });

/**
 * Returns the checkpoint that the query names, in a list that is empty if it does not exist, or without a name the checkpoints
 * of its namespace, newest first.
 */
async function findCheckpoints(
  reader: CheckpointReader,
  { limit, before, metadata, checkpoint: { checkpoint_id, checkpoint_ns: ns = "" } = {} }: PartQuery,
): Promise<AsyncIterable<StoredCheckpoint> | readonly StoredCheckpoint[]> {
  if (checkpoint_id === undefined) return reader.list({ ns, limit, before, metadata });
  const checkpoint = await reader.get({ ns, checkpoint_id });
  return checkpoint ? [checkpoint] : [];
}

/**
 * Returns a function that finds each graph once and returns the same object again, also null, because states of one graph share
 * data that it reads once.
 */
function memoizeByGraph(findGraph: ThreadReads["findGraph"]): ThreadReads["findGraph"] {
  const graphs = new Map<string, GraphState | null>();
  return (graph_id) => {
    const graph = graphs.has(graph_id) ? (graphs.get(graph_id) ?? null) : findGraph(graph_id);
    graphs.set(graph_id, graph);
    return graph;
  };
}
