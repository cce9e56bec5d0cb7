/** Reads the states of threads. */
import { createBudget, type Environment, loopTick } from "../environment.ts";
import { notFound, ServiceError, StateUnreadable } from "../errors.ts";
import { storedCheckpoints } from "../executor/checkpoints.ts";
import type {
  CheckpointReader,
  Executor,
  GraphState,
  StateRef,
  StoredCheckpoint,
  ThreadState,
} from "../executor/contract.ts";
import { stateConfigs } from "../executor/kwargs.ts";
import { recordedState } from "../executor/recorded-states.ts";
import { firstItem, isObject, type Json, type JsonObject } from "../json.ts";
import type { Scope, Storage, ThreadRow } from "../storage/mod.ts";
import { LARGE, storedSize, trackFailures } from "./checkpoint-state.ts";

/** How long reading states may block the event loop, but for one large state. */
const BUSY_MS = 4;
/** How many states are read at once from a database that several processes share: each read waits for its server. */
const AT_ONCE = 8;

/** Names a checkpoint of a thread; without an id, the newest. */
export interface CheckpointSelector {
  readonly checkpoint_id?: string;
  readonly checkpoint_ns?: string;
}

export interface HistoryQuery {
  /** Default 10. */
  readonly limit?: number;
  readonly before?: string;
  readonly metadata?: JsonObject;
  /** With `checkpoint_ns`: the states of a subgraph. With `checkpoint_id`: only that state. */
  readonly checkpoint?: CheckpointSelector;
}

/** Receives a part of a history: `read` reads its states, and may be called again. */
export type AddStates = (read: () => Promise<readonly ThreadState[]>) => Promise<void>;

interface StateOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly executor: Executor;
  readonly environment: Environment;
  /**
   * Resolves once everything that readers of the run have received is stored, so that a state read after a frame is never older than
   * the frame. False when another process executes the run.
   */
  caughtUp(run_id: string): Promise<boolean>;
}

export interface States {
  /** The row, if the scope shows it. Errors: not_found. */
  visible(seen: Scope, thread_id: string): Promise<ThreadRow>;
  /** The same, not older than the frames that readers of its active run have received. */
  shown(seen: Scope, thread_id: string): Promise<ThreadRow>;
  /** The id of the newest root checkpoint, including those of the active run. */
  headOf(row: ThreadRow): Promise<string | null>;
  /** The state at the head; null before the first run. Errors: StateUnreadable. */
  current(row: ThreadRow): Promise<ThreadState | null>;
  /** The same for searches: logs StateUnreadable and returns null, so that the other threads are found. */
  readable(row: ThreadRow): Promise<ThreadState | null>;
  /** Errors: not_found, StateUnreadable. */
  at(row: ThreadRow, checkpoint: CheckpointSelector, subgraphs?: boolean): Promise<ThreadState>;
  /** Newest first. */
  history(row: ThreadRow, query?: HistoryQuery): Promise<readonly ThreadState[]>;
  /** See `Threads.historyEach`. */
  historyEach(row: ThreadRow, query: HistoryQuery, add: AddStates): Promise<void>;
  /** The first of `values.messages`, whose end may be missing; null without messages. Reads no large state. */
  firstMessage(row: ThreadRow): Promise<Json>;
  /**
   * Does work on states after the work before it, with ticks of the event loop between: an embedded database answers at once, so that
   * nothing else would be done meanwhile.
   */
  paced<Answer>(work: () => Promise<Answer>): Promise<Answer>;
  /** Reads and changes the states of a graph; null when this service does not host the graph. */
  of(graph_id: string): GraphState | null;
}

export function createStates({ storage, scope, executor, environment, caughtUp }: StateOptions): States {
  const paced = pacer(environment, storage.multi_process ? AT_ONCE : 1);
  const hosted = new Set(executor.graphs().map((graph) => graph.graph_id));
  const of = (graph_id: string): GraphState | null =>
    hosted.has(graph_id) ? (executor.state?.(graph_id) ?? recordedState) : null;

  async function visible(seen: Scope, thread_id: string): Promise<ThreadRow> {
    const row = await storage.getThread(seen, thread_id.toLowerCase());
    if (!row || (row.stateless && row.status !== "busy")) throw notFound("thread", thread_id);
    return row;
  }

  async function headOf(row: ThreadRow): Promise<string | null> {
    if (row.running === null) return row.head;
    const newest = await storage.getCheckpoint(scope, row.thread_id, { ns: "", run_id: row.running });
    return newest?.checkpoint_id ?? row.head;
  }

  /** Repeats `read` when the active run was rolled back meanwhile: its checkpoints may be gone in the middle of it. */
  async function consistently<Answer>(row: ThreadRow, read: (row: ThreadRow) => Promise<Answer>): Promise<Answer> {
    if (row.running !== null) await caughtUp(row.running);
    const answer = read(row);
    await answer.catch(() => {});
    if (row.running === null || (await storage.getRun(scope, row.running))) return await answer;
    const current = await storage.getThread(scope, row.thread_id);
    return current ? await consistently(current, read) : await answer;
  }

  /** Reads each checkpoint with the graph that wrote it: several graphs may have run on one thread. */
  async function stateFrom(
    at: StateRef,
    reader: CheckpointReader,
    configOf: ReturnType<typeof stateConfigs>,
    { subgraphs = false, graphOf = of }: { readonly subgraphs?: boolean; readonly graphOf?: States["of"] } = {},
  ): Promise<ThreadState | null> {
    const stored = await reader.get(at);
    if (!stored) return null;
    if (storedSize(stored.values) > LARGE) await loopTick(environment);
    const { graph_id } = stored.metadata;
    const graph = (typeof graph_id === "string" && graphOf(graph_id)) || recordedState;
    const config = configOf(String(graph_id), stored.run_id);
    // A graph may fail to apply the pending writes of its head. Reading the checkpoint by its id leaves them out.
    const refs = at.checkpoint_id === undefined ? [at, { ...at, checkpoint_id: stored.checkpoint_id }] : [at];
    let failure: unknown;
    for (const ref of refs) {
      const { failed, ...tracked } = trackFailures(reader, config);
      try {
        return await graph.get(ref, tracked.reader, { subgraphs, config: tracked.config });
      } catch (error) {
        if (failed()) throw error;
        failure = error;
      }
    }
    throw new StateUnreadable("The state could not be read", { cause: failure });
  }

  const current = (row: ThreadRow): Promise<ThreadState | null> =>
    consistently(row, async (row) => {
      const reader = storedCheckpoints(storage, scope, row.thread_id, await headOf(row));
      return await stateFrom({ thread_id: row.thread_id, ns: "" }, reader, stateConfigs(storage, scope, row));
    });

  /** Reads the next states of a history, up to a large one. */
  const historyPart = (row: ThreadRow, query: HistoryQuery & { readonly limit: number }): Promise<HistoryPart> =>
    consistently(row, async (row) => {
      const { thread_id } = row;
      const { limit, before, metadata, checkpoint: { checkpoint_id, checkpoint_ns: ns = "" } = {} } = query;
      const configOf = stateConfigs(storage, scope, row);
      const reader = storedCheckpoints(storage, scope, thread_id, null);
      const graphOf = askedOnce(of);
      const states: ThreadState[] = [];
      const named = checkpoint_id === undefined ? null : await reader.get({ ns, checkpoint_id });
      const checkpoints: AsyncIterable<StoredCheckpoint> | StoredCheckpoint[] =
        checkpoint_id === undefined ? reader.list({ ns, limit, before, metadata }) : named ? [named] : [];
      let count = 0;
      let last: string | null = null;
      let isLarge = false;
      for await (const { ns, checkpoint_id, values } of checkpoints) {
        const state = await paced(() => stateFrom({ thread_id, ns, checkpoint_id }, reader, configOf, { graphOf }));
        if (state) states.push(state);
        count++;
        last = checkpoint_id;
        isLarge = storedSize(values) > LARGE;
        if (isLarge) break;
      }
      return { states, count, last, isLarge };
    });

  async function historyEach(row: ThreadRow, query: HistoryQuery, add: AddStates): Promise<void> {
    let left = query.limit ?? 10;
    let { before } = query;
    let isLarge = false;
    while (left > 0) {
      // After a large state the next one is read alone: it is probably as large.
      const part = { ...query, limit: isLarge ? 1 : left, ...(before === undefined ? {} : { before }) };
      let found: Omit<HistoryPart, "states"> = { count: 0, last: null, isLarge: false };
      await add(async () => {
        const { states, ...position } = await historyPart(row, part);
        found = position;
        return states;
      });
      left -= found.count;
      if (found.count === 0 || found.last === null || query.checkpoint?.checkpoint_id !== undefined) return;
      before = found.last;
      ({ isLarge } = found);
    }
  }

  return {
    visible,
    async shown(seen, thread_id) {
      const row = await visible(seen, thread_id);
      return row.running !== null && (await caughtUp(row.running)) ? await visible(seen, thread_id) : row;
    },
    headOf,
    current,
    of,
    paced,
    async firstMessage(row) {
      if (row.running !== null) await caughtUp(row.running);
      return await firstMessageOf(storage, scope, row, current);
    },
    async readable(row) {
      try {
        return await current(row);
      } catch (error) {
        if (!(error instanceof StateUnreadable)) throw error;
        environment.log({
          level: "error",
          message: "reading a thread's state failed",
          thread_id: row.thread_id,
          error,
        });
        return null;
      }
    },
    async at({ thread_id, ...rest }, { checkpoint_id, checkpoint_ns = "" }, subgraphs = false) {
      const named = checkpoint_id === undefined ? {} : { checkpoint_id };
      const state = await consistently({ thread_id, ...rest }, async (row) => {
        const reader = storedCheckpoints(storage, scope, thread_id, await headOf(row));
        const configOf = stateConfigs(storage, scope, row);
        return await stateFrom({ thread_id, ns: checkpoint_ns, ...named }, reader, configOf, { subgraphs });
      });
      if (state) return state;
      if (checkpoint_id === undefined) return EMPTY_STATE;
      throw noCheckpoint(thread_id, checkpoint_id);
    },
    async history(row, query = {}) {
      const states: ThreadState[] = [];
      await historyEach(row, query, async (read) => void states.push(...(await read())));
      return states;
    },
    historyEach,
  };
}

/** Some states of a history, how many checkpoints they come from, and the oldest of these. */
interface HistoryPart {
  readonly states: readonly ThreadState[];
  readonly count: number;
  readonly last: string | null;
  /** The oldest is large. */
  readonly isLarge: boolean;
}

/** The channels of states that are stored as one value, and of functional graphs. */
const WHOLE: ReadonlySet<string> = new Set(["__root__", "__end__"]);

/** See `States.firstMessage`. */
async function firstMessageOf(
  storage: Storage,
  scope: Scope,
  row: ThreadRow,
  current: States["current"],
): Promise<Json> {
  const { thread_id, head, running } = row;
  const at = { checkpoint_id: head, ...(running === null ? {} : { run_id: running }) };
  const opening = await storage.readOpening(scope, thread_id, at, "messages");
  if (!opening) return null;
  if (opening.start !== null) return firstItem(opening.start) ?? null;
  // The state is one value, of whatever form.
  if (!opening.channels.some((channel) => WHOLE.has(channel))) return null;
  const values = (await current(row))?.values;
  return isObject(values) && Array.isArray(values.messages) ? (values.messages[0] ?? null) : null;
}

/** See `States.paced`. */
function pacer(environment: Environment, most: number): States["paced"] {
  const budget = createBudget(most);
  const clock = environment.monotonic ?? environment.now;
  let busy_ms = 0;
  return async (work) => {
    const release = await budget.take(1);
    const from = clock();
    try {
      return await work();
    } finally {
      busy_ms += Math.max(0, clock() - from);
      if (busy_ms >= BUSY_MS) {
        busy_ms = 0;
        await loopTick(environment);
      }
      release();
    }
  };
}

/** States of one graph have much in common, which it reads once. */
function askedOnce(of: States["of"]): States["of"] {
  const graphs = new Map<string, GraphState | null>();
  return (graph_id) => {
    const graph = graphs.has(graph_id) ? (graphs.get(graph_id) ?? null) : of(graph_id);
    graphs.set(graph_id, graph);
    return graph;
  };
}

export const noCheckpoint = (thread_id: string, checkpoint_id: string): ServiceError =>
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
