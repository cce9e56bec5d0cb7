/** Changes the state of a thread without a run: updates, copies, pruning. */
import type { InternalResource } from "../auth/authorizer.ts";
import { type Environment, uuidV7 } from "../environment.ts";
import { invalidFieldError, notFoundError, ServiceError } from "../errors.ts";
import {
  type Command,
  type GraphState,
  type Send,
  type StateConfig,
  type StateRef,
  type StateUpdate,
  StateUpdateError,
  type ThreadState,
  type WireCheckpoint,
} from "../executor/contract.ts";
import { createCheckpointCollector, type JobCheckpoints } from "../executor/job-checkpoints.ts";
import { createStateConfigLookup } from "../executor/job-request.ts";
import { type Json, type JsonObject, pickScalars } from "../json.ts";
import type { NewThreadState, PruneStrategy, Scope, Storage, ThreadRow } from "../storage/mod.ts";
import { trackFailures } from "./checkpoint-state.ts";
import type { CheckpointSelector } from "./history.ts";
import { checkpointNotFoundError, type States } from "./states.ts";

/** A state update, as if a node had returned it. */
export interface StateChange {
  /** A list is applied in order. Null or absent: no values; only the edges of `as_node` apply. */
  readonly values?: JsonObject | readonly JsonObject[] | null;
  readonly as_node?: string;
  /** The checkpoint at which the update starts a new branch. Default: the head. */
  readonly checkpoint?: CheckpointSelector;
  readonly checkpoint_id?: string;
}

/** Updates that are applied as one step. */
export interface Superstep {
  readonly updates: readonly {
    readonly values?: Json;
    readonly command?: {
      readonly update?: Json;
      readonly resume?: Json;
      readonly goto?: string | Send | readonly (string | Send)[] | null;
    } | null;
    readonly as_node: string;
  }[];
}

/** The maximum number of supersteps in one request. */
export const MAX_SUPERSTEPS = 100;

/** Authorizes a copy before it is stored. Returns its metadata, or throws. */
export type AuthorizeCopy = (copy: {
  readonly thread_id: string;
  readonly metadata: JsonObject;
}) => Promise<{ readonly metadata: JsonObject }>;

/** Changes of a thread's state. */
export interface StateChanges {
  /**
   * Changes the state as if a node had returned the update. Returns the new checkpoint. If no node is next, pending interrupts are
   * dismissed: `{ values: null, as_node: "__end__" }` dismisses them without a resume value. Throws `bad_request` (no graph has run
   * there), `not_found` (thread, graph or checkpoint), `conflict` (a run is active) or `invalid` (the graph refuses it).
   */
  updateState(thread_id: string, change: StateChange): Promise<WireCheckpoint>;
  /** Merges into the metadata of the newest checkpoint, shallowly. Throws `not_found` or `invalid` (a reserved name). */
  patchState(thread_id: string, metadata: JsonObject): Promise<void>;
}

interface InternalStateChanges extends InternalResource<StateChanges> {
  /** Copies a thread: its metadata and all checkpoints except those of active runs. Throws `conflict` (unknown thread). */
  copy(scope: Scope, thread_id: string, authorize?: AuthorizeCopy): Promise<ThreadRow>;
  /** Prunes threads, except those with an active run. Returns the ids of the pruned threads. */
  prune(scope: Scope, thread_ids: readonly string[], strategy?: PruneStrategy): Promise<readonly string[]>;
  /** Computes the initial state of a thread that does not exist yet. Stores nothing. Throws `invalid`. */
  createInitialState(
    thread_id: string,
    metadata: JsonObject,
    supersteps: readonly Superstep[],
  ): Promise<NewThreadState>;
}

interface ChangeOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly states: States;
}

type HostedGraph = readonly [graph_id: string, graph: GraphState];

/** Updates of the states of a thread. */
interface GraphUpdate {
  /** The state to start from. */
  readonly base: StateRef;
  readonly steps: readonly (readonly StateUpdate[])[];
  /** The collector of the new checkpoints. */
  readonly checkpoints: JobCheckpoints;
  readonly metadata: JsonObject;
  readonly readConfig: () => Promise<StateConfig>;
}

/** Applies updates by the graph. Collects new checkpoints for one write. */
interface StateWriter {
  /** Returns a collector of the checkpoints that an update adds to a thread with this head; null for a new thread. */
  collectCheckpoints(thread_id: string, head: string | null): JobCheckpoints;
  /**
   * Has the graph apply the updates, and returns the new checkpoint and its state. Adds the checkpoints to `checkpoints` and
   * stores nothing. Throws `invalid` if the graph refuses them or has no updates, and rethrows storage errors unchanged.
   */
  applyUpdates(
    graph: HostedGraph,
    update: GraphUpdate,
  ): Promise<{ readonly checkpoint: { ns: string; checkpoint_id: string }; readonly state: ThreadState }>;
  /**
   * Returns the graph that wrote the checkpoint if this service hosts it, else the graph of the thread's row or metadata.
   * Throws `bad_request` if the thread names none, and `not_found` if that is not hosted.
   */
  requireGraph(row: ThreadRow, checkpoint: JsonObject | undefined): HostedGraph;
}

function createStateWriter({ storage, scope, environment, states }: ChangeOptions): StateWriter {
  const collectCheckpoints = (thread_id: string, head: string | null): JobCheckpoints =>
    createCheckpointCollector({ storage, scope, thread_id, head, now: () => environment.now() });

  async function applyUpdates(
    [graph_id, graph]: HostedGraph,
    { base, steps, checkpoints, metadata, readConfig }: GraphUpdate,
  ): ReturnType<StateWriter["applyUpdates"]> {
    if (!graph.update) throw new ServiceError("invalid", `Graph ${graph_id} changes its states only by runs`);
    const { reader, hasFailed, config } = trackFailures(checkpoints, readConfig);
    try {
      return await graph.update(base, graph_id, steps, reader, { metadata, environment, config });
    } catch (error) {
      if (hasFailed()) throw error instanceof StateUpdateError ? error.cause : error;
      if (!(error instanceof StateUpdateError)) throw error;
      throw new ServiceError("invalid", error.message, { cause: error });
    }
  }

  function requireGraph(row: ThreadRow, checkpoint: JsonObject | undefined): HostedGraph {
    const writerGraphId = checkpoint?.graph_id;
    if (typeof writerGraphId === "string") {
      const graph = states.findGraph(writerGraphId);
      if (graph) return [writerGraphId, graph];
    }
    const graph_id = row.graph_id ?? row.metadata.graph_id;
    if (typeof graph_id !== "string") {
      const message = `Thread ${row.thread_id} has no graph: run one on it, or set metadata.graph_id`;
      throw new ServiceError("bad_request", message);
    }
    const graph = states.findGraph(graph_id);
    if (!graph) throw notFoundError("graph", graph_id);
    return [graph_id, graph];
  }

  return { collectCheckpoints, applyUpdates, requireGraph };
}

/**
 * Returns the checkpoint that a change starts from, with the root as default namespace and perhaps without an id, and its
 * update. `checkpoint` has precedence over `checkpoint_id`.
 */
function parseChange({ values = null, as_node, checkpoint, checkpoint_id }: StateChange): {
  readonly ns: string;
  readonly checkpoint_id: string | undefined;
  readonly update: StateUpdate;
} {
  const update: StateUpdate = { values: values as Json, ...(as_node === undefined ? {} : { as_node }) };
  return {
    ns: checkpoint?.checkpoint_ns ?? "",
    checkpoint_id: checkpoint?.checkpoint_id ?? checkpoint_id,
    update,
  };
}

/** Returns the metadata of checkpoints that an update adds. */
function toCheckpointMetadata({ thread_id, metadata: { assistant_id } }: ThreadRow, graph_id: string): JsonObject {
  return { graph_id, thread_id, ...(typeof assistant_id === "string" ? { assistant_id } : {}) };
}

/** Creates the operations that change the states of threads: updates, metadata of the head, copies and pruning. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createStateOperations(options: ChangeOptions): InternalStateChanges {
  const { storage, scope: deploymentScope, environment, states } = options;
  const { collectCheckpoints, applyUpdates, requireGraph } = createStateWriter(options);

  /**
   * Stores an updated state as a new checkpoint: one of the thread itself becomes the head, one of a subgraph leaves the head as
   * it is. Returns the address of the new checkpoint; null, with nothing stored, if the thread changed meanwhile. Throws
   * `not_found`, `checkpoint_not_found`, `thread_busy`, `bad_request` or `invalid`.
   */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: the checks of one update, in their order
  async function tryUpdate(scope: Scope, thread_id: string, change: StateChange): Promise<WireCheckpoint | null> {
    const { ns, checkpoint_id, update } = parseChange(change);
    const row = await states.requireThread(scope, thread_id);
    if (row.status === "busy") throw threadBusyError(thread_id);
    const checkpoints = collectCheckpoints(row.thread_id, row.head);
    const idSelector = checkpoint_id === undefined ? {} : { checkpoint_id };
    const stored = await checkpoints.get({ ns, ...idSelector });
    const graph = requireGraph(row, stored?.metadata);
    if (!stored && (checkpoint_id !== undefined || ns !== "")) {
      throw checkpointNotFoundError(thread_id, checkpoint_id ?? `in ${ns}`);
    }
    const [graph_id] = graph;
    const { checkpoint: newCheckpoint, state } = await applyUpdates(graph, {
      base: { thread_id: row.thread_id, ns, ...idSelector },
      steps: [[update]],
      checkpoints,
      metadata: toCheckpointMetadata(row, graph_id),
      readConfig: createStateConfigLookup(storage, deploymentScope, row)(graph_id, stored?.run_id),
    });
    const head = newCheckpoint.ns === "" ? newCheckpoint.checkpoint_id : row.head;
    if (head === null) throw checkpointNotFoundError(thread_id, `in ${ns}`);
    const content = { graph_id, progress: checkpoints.drain(), head, scalars: pickScalars(state.values) };
    const stateWrite = { ...content, expected_head: row.head, ends: state.next.length === 0 };
    const result = await storage.writeState(scope, row.thread_id, stateWrite, environment.now());
    if (result === "busy") throw threadBusyError(thread_id);
    if (result === "not_found") throw notFoundError("thread", thread_id);
    if (result !== "written") return null;
    return {
      thread_id: row.thread_id,
      checkpoint_ns: newCheckpoint.ns,
      checkpoint_id: newCheckpoint.checkpoint_id,
      checkpoint_map: null,
    };
  }

  return {
    /**
     * Stores an updated state as a new checkpoint, and tries again as often as the thread changes meanwhile. A checkpoint of a
     * subgraph does not move the head. Returns the address of the new checkpoint. Throws what `tryUpdate` throws.
     */
    async updateState(scope, thread_id, change) {
      for (;;) {
        const newCheckpoint = await tryUpdate(scope, thread_id, change);
        if (newCheckpoint) return newCheckpoint;
      }
    },
    /**
     * Merges metadata into the newest checkpoint of the thread. Throws `invalid` for reserved members, `not_found` without a
     * state.
     */
    async patchState(scope, thread_id, metadata) {
      const reserved = Object.keys(metadata).find((name) => RESERVED_METADATA.has(name));
      if (reserved !== undefined) throw new ServiceError("invalid", `metadata.${reserved}: is set by the service`);
      const row = await states.requireThread(scope, thread_id);
      const checkpoint_id = await states.findHead(row);
      const head = checkpoint_id === null ? null : { ns: "", checkpoint_id };
      if (!head || !(await storage.annotateCheckpoint(scope, row.thread_id, head, metadata))) {
        throw new ServiceError("not_found", `Thread ${thread_id} has no state yet`);
      }
    },
    /**
     * Copies the thread with its states under a new id, again as often as it changes meanwhile, and returns the row of the
     * copy. `authorize` may change the metadata, and is called for each try. Throws `conflict` if the thread does not exist.
     */
    async copy(scope, thread_id, authorize = async (copy) => copy) {
      const nothingToCopyError = new ServiceError(
        "conflict",
        `Thread ${thread_id} not found: there is nothing to copy`,
      );
      for (;;) {
        const row = await states.requireThread(scope, thread_id).catch((error: unknown) => {
          throw error instanceof ServiceError && error.code === "not_found" ? nothingToCopyError : error;
        });
        const copy = uuidV7(environment);
        // Threads imported from other servers can have their id in the metadata.
        const id: JsonObject = Object.hasOwn(row.metadata, "thread_id") ? { thread_id: copy } : {};
        const { metadata } = await authorize({ thread_id: copy, metadata: { ...row.metadata, ...id } });
        const result = await storage.copyThread(
          scope,
          { from: row.thread_id, expected_revision: row.revision, thread_id: copy, metadata },
          environment.now(),
        );
        if (result.kind === "copied") return result.thread;
        if (result.kind === "not_found") throw nothingToCopyError;
      }
    },
    prune: (scope, thread_ids, strategy = "delete") => {
      const ids = [...new Set(thread_ids.map((id) => id.toLowerCase()))];
      return storage.pruneThreads(scope, { thread_ids: ids, strategy }, environment.now());
    },
    /**
     * Returns the head and the checkpoints of the supersteps for a new thread, and stores nothing. Throws `invalid` for too
     * many supersteps, without a hosted graph in the metadata, and if the graph refuses an update.
     */
    async createInitialState(thread_id, threadMetadata, supersteps) {
      if (supersteps.length > MAX_SUPERSTEPS) {
        throw invalidFieldError("supersteps", `must be at most ${MAX_SUPERSTEPS}`);
      }
      const { graph_id, assistant_id } = threadMetadata;
      const graph = typeof graph_id === "string" ? states.findGraph(graph_id) : null;
      if (!graph || typeof graph_id !== "string") {
        throw invalidFieldError("supersteps", "need metadata.graph_id, the id of a graph of this server");
      }
      const checkpoints = collectCheckpoints(thread_id, null);
      const steps = supersteps.map(({ updates }) => updates.map(toStateUpdate));
      const metadata = { graph_id, thread_id, ...(typeof assistant_id === "string" ? { assistant_id } : {}) };
      const base = { thread_id, ns: "" };
      const readConfig = createStateConfigLookup(storage, deploymentScope, {
        thread_id,
        metadata: threadMetadata,
        config: {},
      })(graph_id, null);
      const updates = { base, steps, checkpoints, metadata, readConfig };
      const { checkpoint, state } = await applyUpdates([graph_id, graph], updates);
      const scalars = pickScalars(state.values);
      return { graph_id, progress: checkpoints.drain(), head: checkpoint.checkpoint_id, scalars };
    },
  };
}

/** Checkpoint metadata that only the service may set. */
const RESERVED_METADATA: ReadonlySet<string> = new Set([
  "source",
  "step",
  "parents",
  "run_id",
  "thread_id",
  "graph_id",
  "assistant_id",
]);

const threadBusyError = (thread_id: string): ServiceError =>
  new ServiceError(
    "thread_busy",
    `Thread ${thread_id} is already running a task. Wait for it to end, then change the state.`,
  );

/**
 * Returns the update for the executor. Empty members of its command are omitted, and one `goto` becomes a list; missing values
 * are null.
 */
function toStateUpdate({ values = null, command, as_node }: Superstep["updates"][number]): StateUpdate {
  if (!command) return { values, as_node };
  const { update, resume, goto } = command;
  const targets = goto === null || goto === undefined ? [] : ([goto].flat() as (string | Send)[]);
  const stateCommand: Command = {
    ...(resume === undefined ? {} : { resume }),
    ...(update === undefined || update === null ? {} : { update }),
    ...(targets.length > 0 ? { goto: targets } : {}),
  };
  return { values, as_node, command: stateCommand };
}
