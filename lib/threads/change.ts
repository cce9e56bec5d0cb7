/** Changes the state of a thread without a run: updates, copies, pruning. */
import type { InternalResource } from "../auth/authorizer.ts";
import { type Environment, uuidV7 } from "../environment.ts";
import { invalidFieldError, notFoundError, ServiceError } from "../errors.ts";
import { collectedCheckpoints, type JobCheckpoints } from "../executor/checkpoints.ts";
import {
  type Command,
  type GraphState,
  type Send,
  type StateConfig,
  type StateRef,
  StateRefused,
  type StateUpdate,
  type ThreadState,
  type WireCheckpoint,
} from "../executor/contract.ts";
import { stateConfigs } from "../executor/kwargs.ts";
import { type Json, type JsonObject, pickScalars } from "../json.ts";
import type { NewThreadState, PruneStrategy, Scope, Storage, ThreadRow } from "../storage/mod.ts";
import { trackFailures } from "./checkpoint-state.ts";
import type { CheckpointSelector } from "./history.ts";
import { noCheckpoint, type States } from "./read.ts";

/** A state update, as if a node had returned it. */
export interface StateChange {
  /** A list is applied in order. Null or absent: no values; only the edges of `as_node` apply. */
  readonly values?: JsonObject | readonly JsonObject[] | null;
  readonly as_node?: string;
  /** The checkpoint that the update is based on; a new branch starts there. Default: the head. */
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
export const MOST_SUPERSTEPS = 100;

/** Authorizes a copy before it is stored. Returns the metadata of the copy; throws to refuse. */
export type AuthorizeCopy = (copy: {
  readonly thread_id: string;
  readonly metadata: JsonObject;
}) => Promise<{ readonly metadata: JsonObject }>;

/** Changes of a thread's state. */
export interface StateChanges {
  /**
   * Changes the state as if a node had returned the update. Returns the new checkpoint. If no node is next, open questions are
   * closed: `{ values: null, as_node: "__end__" }` closes them without an answer. Errors: bad_request (no graph has run
   * there), not_found (thread, graph or checkpoint), conflict (a run is active), invalid (the graph refuses it).
   */
  updateState(thread_id: string, change: StateChange): Promise<WireCheckpoint>;
  /** Merges into the metadata of the newest checkpoint, shallowly. Errors: not_found, invalid (a reserved name). */
  patchState(thread_id: string, metadata: JsonObject): Promise<void>;
}

interface Changes extends InternalResource<StateChanges> {
  /** Copies a thread: its metadata and all checkpoints except those of active runs. Errors: conflict (unknown thread). */
  copy(scope: Scope, thread_id: string, authorize?: AuthorizeCopy): Promise<ThreadRow>;
  /** Skips threads that do not exist or have an active run. Returns the ids of the pruned threads. */
  prune(scope: Scope, thread_ids: readonly string[], strategy?: PruneStrategy): Promise<readonly string[]>;
  /** Computes the initial state of a thread that does not exist yet. Stores nothing. Errors: invalid. */
  opening(thread_id: string, metadata: JsonObject, supersteps: readonly Superstep[]): Promise<NewThreadState>;
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
  /** The state that they start from. */
  readonly at: StateRef;
  readonly steps: readonly (readonly StateUpdate[])[];
  /** Take the new checkpoints. */
  readonly checkpoints: JobCheckpoints;
  readonly metadata: JsonObject;
  readonly readConfig: () => Promise<StateConfig>;
}

/** Applies updates by the graph; the new checkpoints are collected for one write instead of stored one by one. */
function stateWriter({ storage, scope, environment, states }: ChangeOptions) {
  const collected = (thread_id: string, head: string | null): JobCheckpoints =>
    collectedCheckpoints({ storage, scope, thread_id, head, now: () => environment.now() });

  /** Rethrows storage errors unchanged. Errors: invalid (the graph refuses the update). */
  async function applyUpdates(
    [graph_id, graph]: HostedGraph,
    { at, steps, checkpoints, metadata, readConfig }: GraphUpdate,
  ): Promise<{ readonly checkpoint: { ns: string; checkpoint_id: string }; readonly state: ThreadState }> {
    if (!graph.update) throw new ServiceError("invalid", `Graph ${graph_id} changes its states only by runs`);
    const { reader, failed, config } = trackFailures(checkpoints, readConfig);
    try {
      return await graph.update(at, graph_id, steps, reader, { metadata, environment, config });
    } catch (error) {
      if (failed()) throw error instanceof StateRefused ? error.cause : error;
      if (!(error instanceof StateRefused)) throw error;
      throw new ServiceError("invalid", error.message, { cause: error });
    }
  }

  /** The graph that wrote the checkpoint, if this service hosts it; otherwise the graph of the thread. */
  function graphOf(row: ThreadRow, checkpoint: JsonObject | undefined): HostedGraph {
    const written = checkpoint?.graph_id;
    if (typeof written === "string") {
      const graph = states.of(written);
      if (graph) return [written, graph];
    }
    const graph_id = row.graph_id ?? row.metadata.graph_id;
    if (typeof graph_id !== "string") {
      const message = `Thread ${row.thread_id} has no graph: run one on it, or set metadata.graph_id`;
      throw new ServiceError("bad_request", message);
    }
    const graph = states.of(graph_id);
    if (!graph) throw notFoundError("graph", graph_id);
    return [graph_id, graph];
  }

  return { collected, applyUpdates, graphOf };
}

/** Where a change starts, and what it changes. */
function readChange({ values = null, as_node, checkpoint, checkpoint_id }: StateChange) {
  const update: StateUpdate = { values: values as Json, ...(as_node === undefined ? {} : { as_node }) };
  return {
    ns: checkpoint?.checkpoint_ns ?? "",
    checkpoint_id: checkpoint?.checkpoint_id ?? checkpoint_id,
    update,
  };
}

/** The metadata of checkpoints that an update adds. */
function metadataOf({ thread_id, metadata: { assistant_id } }: ThreadRow, graph_id: string): JsonObject {
  return { graph_id, thread_id, ...(typeof assistant_id === "string" ? { assistant_id } : {}) };
}

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createChanges(options: ChangeOptions): Changes {
  const { storage, scope: deploymentScope, environment, states } = options;
  const { collected, applyUpdates, graphOf } = stateWriter(options);

  /** Updates the state of a thread as it is now. Returns null when the thread changed meanwhile. */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: the checks of one update, in their order
  async function tryUpdate(scope: Scope, thread_id: string, change: StateChange): Promise<WireCheckpoint | null> {
    const { ns, checkpoint_id, update } = readChange(change);
    const row = await states.visible(scope, thread_id);
    if (row.status === "busy") throw busy(thread_id);
    const checkpoints = collected(row.thread_id, row.head);
    const named = checkpoint_id === undefined ? {} : { checkpoint_id };
    const stored = await checkpoints.get({ ns, ...named });
    const graph = graphOf(row, stored?.metadata);
    if (!stored && (checkpoint_id !== undefined || ns !== "")) {
      throw noCheckpoint(thread_id, checkpoint_id ?? `in ${ns}`);
    }
    const [graph_id] = graph;
    const { checkpoint: added, state } = await applyUpdates(graph, {
      at: { thread_id: row.thread_id, ns, ...named },
      steps: [[update]],
      checkpoints,
      metadata: metadataOf(row, graph_id),
      readConfig: stateConfigs(storage, deploymentScope, row)(graph_id, stored?.run_id),
    });
    const head = added.ns === "" ? added.checkpoint_id : row.head;
    if (head === null) throw noCheckpoint(thread_id, `in ${ns}`);
    const content = { graph_id, progress: checkpoints.drain(), head, scalars: pickScalars(state.values) };
    const written = { ...content, expected_head: row.head, ends: state.next.length === 0 };
    const outcome = await storage.writeState(scope, row.thread_id, written, environment.now());
    if (outcome === "busy") throw busy(thread_id);
    if (outcome === "not_found") throw notFoundError("thread", thread_id);
    if (outcome !== "written") return null;
    return {
      thread_id: row.thread_id,
      checkpoint_ns: added.ns,
      checkpoint_id: added.checkpoint_id,
      checkpoint_map: null,
    };
  }

  return {
    async updateState(scope, thread_id, change) {
      for (;;) {
        const added = await tryUpdate(scope, thread_id, change);
        if (added) return added;
      }
    },
    async patchState(scope, thread_id, metadata) {
      const reserved = Object.keys(metadata).find((name) => RESERVED.has(name));
      if (reserved !== undefined) throw new ServiceError("invalid", `metadata.${reserved}: is set by the service`);
      const row = await states.visible(scope, thread_id);
      const checkpoint_id = await states.headOf(row);
      const at = checkpoint_id === null ? null : { ns: "", checkpoint_id };
      if (!at || !(await storage.annotateCheckpoint(scope, row.thread_id, at, metadata))) {
        throw new ServiceError("not_found", `Thread ${thread_id} has no state yet`);
      }
    },
    async copy(scope, thread_id, authorize = async (copy) => copy) {
      const absent = new ServiceError("conflict", `Thread ${thread_id} not found: there is nothing to copy`);
      for (;;) {
        const row = await states.visible(scope, thread_id).catch((error: unknown) => {
          throw error instanceof ServiceError && error.code === "not_found" ? absent : error;
        });
        const copy = uuidV7(environment);
        // Threads imported from other servers can have their id in the metadata.
        const id: JsonObject = Object.hasOwn(row.metadata, "thread_id") ? { thread_id: copy } : {};
        const { metadata } = await authorize({ thread_id: copy, metadata: { ...row.metadata, ...id } });
        const outcome = await storage.copyThread(
          scope,
          { from: row.thread_id, expected_revision: row.revision, thread_id: copy, metadata },
          environment.now(),
        );
        if (outcome.kind === "copied") return outcome.thread;
        if (outcome.kind === "not_found") throw absent;
      }
    },
    prune: (scope, thread_ids, strategy = "delete") => {
      const named = [...new Set(thread_ids.map((id) => id.toLowerCase()))];
      return storage.pruneThreads(scope, { thread_ids: named, strategy }, environment.now());
    },
    async opening(thread_id, about, supersteps) {
      if (supersteps.length > MOST_SUPERSTEPS) {
        throw invalidFieldError("supersteps", `must be at most ${MOST_SUPERSTEPS}`);
      }
      const { graph_id, assistant_id } = about;
      const graph = typeof graph_id === "string" ? states.of(graph_id) : null;
      if (!graph || typeof graph_id !== "string") {
        throw invalidFieldError("supersteps", "need metadata.graph_id, the id of a graph of this server");
      }
      const checkpoints = collected(thread_id, null);
      const steps = supersteps.map(({ updates }) => updates.map(updateOf));
      const metadata = { graph_id, thread_id, ...(typeof assistant_id === "string" ? { assistant_id } : {}) };
      const at = { thread_id, ns: "" };
      const readConfig = stateConfigs(storage, deploymentScope, { thread_id, metadata: about, config: {} })(
        graph_id,
        null,
      );
      const updates = { at, steps, checkpoints, metadata, readConfig };
      const { checkpoint, state } = await applyUpdates([graph_id, graph], updates);
      const scalars = pickScalars(state.values);
      return { graph_id, progress: checkpoints.drain(), head: checkpoint.checkpoint_id, scalars };
    },
  };
}

/** Checkpoint metadata that only the service may set. */
const RESERVED: ReadonlySet<string> = new Set([
  "source",
  "step",
  "parents",
  "run_id",
  "thread_id",
  "graph_id",
  "assistant_id",
]);

const busy = (thread_id: string): ServiceError =>
  new ServiceError(
    "thread_busy",
    `Thread ${thread_id} is already running a task. Wait for it to end, then change the state.`,
  );

function updateOf({ values = null, command, as_node }: Superstep["updates"][number]): StateUpdate {
  if (!command) return { values, as_node };
  const { update, resume, goto } = command;
  const targets = goto === null || goto === undefined ? [] : ([goto].flat() as (string | Send)[]);
  const checked: Command = {
    ...(resume === undefined ? {} : { resume }),
    ...(update === undefined || update === null ? {} : { update }),
    ...(targets.length > 0 ? { goto: targets } : {}),
  };
  return { values, as_node, command: checked };
}
