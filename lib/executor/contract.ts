/**
 * What runs agents. An executor hosts graphs; the worker hands it one attempt of a run as a `Job` and shows, stores and
 * finishes what it yields. Nothing here knows HTTP, SQL or LangChain.
 */
import type { Environment } from "../environment.ts";
import type { Json, JsonObject } from "../json.ts";
import type { AuthUser, NewCheckpoint, PendingWrite, StoredCheckpoint } from "../storage/rows.ts";

export type {
  AuthUser,
  ChannelValue,
  NewCheckpoint,
  Payload,
  PendingWrite,
  StoredCheckpoint,
  StoredWrite,
} from "../storage/rows.ts";

/**
 * What a run can stream. `messages-tuple` frames are named `messages` on the wire; `messages` is derived from them. An executor that
 * knows before the next state that streamed messages are whole says so, where it is asked for `messages-tuple`, by an event of mode
 * `messages`: a list of them.
 */
export type StreamMode =
  | "values"
  | "messages"
  | "messages-tuple"
  | "updates"
  | "events"
  | "tasks"
  | "checkpoints"
  | "debug"
  | "custom"
  | "tools"
  | "lifecycle";

/** A packet for one node: `goto` with an input of its own. */
export interface Send {
  readonly node: string;
  readonly input: Json;
}

/** What a run does instead of taking input. */
export interface Command {
  /** Present (also as null) when the run answers a pending interrupt: a value, or a map interrupt id → value. */
  readonly resume?: Json;
  /** Written to the state first: an object, or a list of [channel, value]. */
  readonly update?: Json;
  readonly goto?: readonly (string | Send)[];
}

/** The `config` of a run. */
export interface RunConfig {
  readonly tags?: readonly string[];
  readonly recursion_limit?: number;
  readonly configurable: JsonObject;
}

/** Names one stored checkpoint of the job's thread. `ns` is "" for the graph itself. */
export interface CheckpointRef {
  readonly ns: string;
  readonly checkpoint_id: string;
}

/** One attempt of a run, as an executor sees it. */
export interface Job {
  readonly run_id: string;
  readonly thread_id: string;
  readonly assistant_id: string;
  readonly graph_id: string;
  /** A stateless run whose thread goes when it ends: nothing is read afterwards. */
  readonly temporary: boolean;
  /** 1 for the first attempt. */
  readonly attempt: number;
  /** This run has stored a checkpoint already: go on from `checkpoints`, ignore `input` and `command`. */
  readonly resumed: boolean;
  /** Undefined: go on from the state. */
  readonly input: Json | undefined;
  readonly command: Command | null;
  /** Fail before anything is written when `command.resume` matches no open interrupt; it is passed over otherwise. */
  readonly strict_resume?: boolean;
  /** The checkpoint to fork from; null is the thread's head. Equal in every attempt. */
  readonly from: CheckpointRef | null;
  readonly config: RunConfig;
  readonly context: JsonObject;
  readonly metadata: JsonObject;
  /** The modes of the request. Yield `stream` events of these only (`messages-tuple` where either messages mode is asked). */
  readonly modes: ReadonlySet<StreamMode>;
  /** Show subgraphs: `stream` events with a namespace. */
  readonly subgraphs: boolean;
  readonly interrupt_before: "*" | readonly string[];
  readonly interrupt_after: "*" | readonly string[];
  readonly durability: "sync" | "async" | "exit";
  /** Who made the run, where custom authentication knows; also in `config.configurable` as `langgraph_auth_user`. */
  readonly user: AuthUser | null;
  readonly checkpoints: CheckpointHandle;
  /** What is remembered beyond one thread. */
  readonly store: StoreHandle;
}

/** One item of the store. Times are ISO 8601, UTC. */
export interface StoreItem {
  readonly namespace: readonly string[];
  readonly key: string;
  readonly value: JsonObject;
  readonly created_at: string;
  readonly updated_at: string;
}

/** Filters and page of a search in the store. */
export interface StoreSearch {
  /** Conditions on members of the value: a value, or `{$eq, $ne, $gt, $gte, $lt, $lte}`. */
  readonly filter?: JsonObject;
  /** By meaning. Needs `store.index`. */
  readonly query?: string;
  /** Default 10. */
  readonly limit?: number;
  readonly offset?: number;
  readonly refresh_ttl?: boolean;
}

/** Filters and page of a search for namespaces. */
export interface StoreNamespaceSearch {
  /** Labels; `*` stands for any one. */
  readonly prefix?: readonly string[];
  readonly suffix?: readonly string[];
  readonly max_depth?: number;
  /** Default 100. */
  readonly limit?: number;
  readonly offset?: number;
}

/** One write: as `put`, or with the value null as `delete`. */
export interface StorePut {
  readonly namespace: readonly string[];
  readonly key: string;
  readonly value: JsonObject | null;
  readonly index?: false | readonly string[];
  readonly ttl?: number | null;
}

/** Items under namespaces, shared by all threads of a deployment. Errors: invalid (a namespace, key or value out of bounds). */
export interface StoreHandle {
  /** Null when there is none. */
  get(
    namespace: readonly string[],
    key: string,
    options?: { readonly refresh_ttl?: boolean },
  ): Promise<StoreItem | null>;
  /** `index` false: not found by meaning; a list: only by these fields. `ttl` in minutes; null: for good. */
  put(
    namespace: readonly string[],
    key: string,
    value: JsonObject,
    options?: { readonly index?: false | readonly string[]; readonly ttl?: number | null },
  ): Promise<void>;
  /** In their order. All of them, or none. */
  putMany(items: readonly StorePut[]): Promise<void>;
  /** No error when there is none. */
  delete(namespace: readonly string[], key: string): Promise<void>;
  search(
    namespace_prefix: readonly string[],
    query?: StoreSearch,
  ): Promise<readonly (StoreItem & { readonly score?: number })[]>;
  namespaces(query?: StoreNamespaceSearch): Promise<readonly (readonly string[])[]>;
}

/** A pending question of a graph. `id` is stable while it is pending. */
export interface Interrupt {
  readonly id: string;
  readonly value: Json;
  readonly [extra: string]: Json;
}

/** One task of a state, as the wire shows it. */
export interface Task {
  readonly id: string;
  readonly name: string;
  readonly path?: Json;
  readonly error: Json;
  readonly interrupts: readonly Interrupt[];
  readonly checkpoint: Json;
  readonly state: ThreadState | null;
  readonly result: Json;
}

/** What an executor yields while a run is executed. */
export type ExecutorEvent =
  /** Shown to readers at once. `data` is plain JSON in wire form (messages flat, never class instances). */
  | { readonly type: "stream"; readonly mode: StreamMode; readonly namespace?: readonly string[]; readonly data: Json }
  /**
   * The root graph's state after a step; kept, not shown. Executors with checkpoints of their own name the one it belongs
   * to; for the others the worker writes one. The last one is the result of wait and join, and the thread's new head:
   * every execution that returns has yielded at least one. `next` not empty: the run stopped at an interrupt or breakpoint.
   */
  | {
      readonly type: "state";
      readonly values: Json;
      readonly next: readonly string[];
      readonly tasks: readonly Task[];
      readonly checkpoint?: CheckpointRef;
      /** `input`: as it was before the input; `loop`: after the input was applied, or after a step of `node`. */
      readonly step?: { readonly source: "input" | "loop"; readonly node?: string; readonly update?: Json };
    }
  /** Tokens and cost that were spent. Summed over an attempt, and kept with the run's trace when it ends. */
  | { readonly type: "usage"; readonly tokens_in?: number; readonly tokens_out?: number; readonly cost_usd?: number };

/** A state event, which an attempt must yield at least once. */
export type StateEvent = Extract<ExecutorEvent, { type: "state" }>;

/** What an executor declares about a graph. */
export interface GraphInfo {
  readonly graph_id: string;
  /**
   * Who writes checkpoints: the executor itself through `job.checkpoints`, or the worker from `state` events. `own`: a later attempt
   * goes on behind the newest root checkpoint, so one that stores another has made progress.
   */
  readonly checkpoints: "own" | "worker";
  /** How often a run may be started, without progress between, before it ends as `error`; 1: once. Default 3. */
  readonly max_attempts?: number;
  /** How long one attempt may take before the run ends as `timeout`, in milliseconds. Default: `worker.run_timeout_ms`. */
  readonly timeout_ms?: number;
  /**
   * How long a run that was told to stop may ignore it before it is abandoned, in milliseconds, at most `worker.lease_ms`: the thread's
   * next run begins then. Default 1,000 on a SQLite file that only this process executes, else 5,000.
   */
  readonly abandon_ms?: number;
  readonly description?: string;
}

/** Versions of libraries that `GET /info` shows. */
export interface LibraryVersions {
  readonly langgraph_js_version?: string;
}

/** Hosts graphs and runs their attempts. */
export interface Executor {
  graphs(): readonly GraphInfo[];
  /** Runs one attempt. Stops soon after `signal` aborts. Throws to fail the run; returns to finish it. */
  execute(job: Job, signal: AbortSignal): AsyncIterable<ExecutorEvent>;
  /** What `GET /info` tells of the libraries that graphs are built with; nothing of those that are not there. */
  versions?(): Promise<LibraryVersions>;
  /** Reads the states of a graph that writes its own checkpoints; null (or no method) for graphs whose checkpoints the worker writes. */
  state?(graph_id: string): GraphState | null;
}

/** The state of a thread at one checkpoint, as the wire shows it. */
export interface ThreadState {
  readonly values: Json;
  readonly next: readonly string[];
  readonly tasks: readonly Task[];
  readonly metadata: JsonObject | null;
  /** ISO 8601, UTC. */
  readonly created_at: string | null;
  readonly checkpoint: WireCheckpoint | null;
  readonly parent_checkpoint: WireCheckpoint | null;
  readonly interrupts: readonly Interrupt[];
}

/** A checkpoint reference as clients see it. */
export interface WireCheckpoint {
  readonly thread_id: string;
  readonly checkpoint_ns: string;
  readonly checkpoint_id: string;
  readonly checkpoint_map: JsonObject | null;
}

/** Names one state of a thread: that of a checkpoint, or without `checkpoint_id` the newest, with what is pending on it. */
export interface StateRef {
  readonly thread_id: string;
  readonly ns: string;
  readonly checkpoint_id?: string;
}

/** The configuration of a run, where a graph is made from one to be read or drawn. */
export interface StateConfig {
  readonly configurable: JsonObject;
  readonly metadata: JsonObject;
  readonly context: JsonObject;
}

/** JSON Schemas of a graph. */
export interface GraphSchemas {
  readonly graph_id: string;
  readonly input_schema: JsonObject | null;
  readonly output_schema: JsonObject | null;
  readonly state_schema: JsonObject | null;
  readonly config_schema: JsonObject | null;
  readonly context_schema: JsonObject | null;
}

/** Nodes and edges of a graph. */
export interface DrawnGraph {
  readonly nodes: readonly {
    readonly id: string;
    readonly type?: string;
    readonly data?: Json;
    readonly metadata?: Json;
  }[];
  readonly edges: readonly {
    readonly source: string;
    readonly target: string;
    readonly data?: string;
    readonly conditional?: boolean;
  }[];
}

/** One change of a state, as a node would make it. */
export interface StateUpdate {
  /** Null: no values, only what `as_node` leads to. */
  readonly values: Json;
  readonly as_node?: string;
  readonly command?: Command;
}

/** A state cannot be changed so: no such node, or values that the graph refuses. `message` is for the caller. */
export class StateRefused extends Error {
  override readonly name = "StateRefused";
}

/** The states of a graph: reads, and changes that no run makes. */
export interface GraphState {
  /** A state that this graph has written. Null when there is none. `config`: that of the run that wrote it. */
  get(
    at: StateRef,
    checkpoints: CheckpointReader,
    options: { readonly subgraphs: boolean; readonly config?: () => Promise<StateConfig> },
  ): Promise<ThreadState | null>;
  /**
   * Applies steps one after the other, the updates of one step at once, on the state at `at`. What it puts is only collected: the
   * caller stores all of it or nothing. `metadata` is what every checkpoint that it puts carries. Gives the last checkpoint of
   * the root and the state there. Errors: StateRefused. Absent: the states of this graph are changed by runs alone.
   */
  update?(
    at: StateRef,
    graph_id: string,
    steps: readonly (readonly StateUpdate[])[],
    checkpoints: CheckpointHandle,
    options: {
      readonly metadata: JsonObject;
      readonly environment: Environment;
      readonly config?: () => Promise<StateConfig>;
    },
  ): Promise<{ readonly checkpoint: CheckpointRef; readonly state: ThreadState }>;
  /** `config` here and below: that of the assistant whose graph it is. */
  schemas(graph_id: string, config?: StateConfig): Promise<GraphSchemas>;
  drawn(graph_id: string, xray: boolean | number, config?: StateConfig): Promise<DrawnGraph>;
  /** Namespace → schemas of the subgraphs; `{}` when there are none. */
  subgraphs(
    graph_id: string,
    namespace: string | null,
    recurse: boolean,
    config?: StateConfig,
  ): Promise<Readonly<Record<string, GraphSchemas>>>;
}

/** Reads checkpoints of one thread. A job's reader sees what the job has put but not yet stored. */
export interface CheckpointReader {
  /** Without `checkpoint_id`: for the root namespace the state the job goes on from, else the newest of that namespace. */
  get(at: { readonly ns: string; readonly checkpoint_id?: string }): Promise<StoredCheckpoint | null>;
  /** Newest first. Without `ns`: all namespaces. */
  list(at: {
    readonly ns?: string;
    readonly before?: string;
    readonly limit?: number;
    readonly metadata?: JsonObject;
  }): AsyncIterable<StoredCheckpoint>;
}

/** A job's checkpoints. Both writes throw LeaseLost when the run is not this worker's any more. */
export interface CheckpointHandle extends CheckpointReader {
  /** Queued in order; resolves when queued, with durability `sync` when committed. */
  put(checkpoint: NewCheckpoint): Promise<void>;
  putWrites(
    at: { readonly ns: string; readonly checkpoint_id: string },
    task_id: string,
    writes: readonly PendingWrite[],
  ): Promise<void>;
}

/**
 * Joins executors into one. A graph id that two of them host is reported by `createService`.
 *
 * @example
 * ```ts
 * import { combine, fromFunctions } from "greenroom";
 * import { langgraph } from "greenroom/langgraph";
 *
 * const executor = combine(langgraph({ support: graph }), fromFunctions({ echo: () => "Hello" }));
 * ```
 */
export function combine(...executors: readonly Executor[]): Executor {
  for (const [index, executor] of executors.entries()) {
    if (typeof executor?.graphs === "function" && typeof executor.execute === "function") continue;
    const example = "combine(langgraph({ support: graph }), fromFunctions({ echo }))";
    throw new TypeError(`combine: argument ${index + 1} is not an executor. Pass executors, for example ${example}.`);
  }
  const home = (graph_id: string): Executor => {
    const found = executors.find((executor) => executor.graphs().some((graph) => graph.graph_id === graph_id));
    if (!found) throw new Error(`No executor hosts the graph ${graph_id}`);
    return found;
  };
  return {
    graphs: () => executors.flatMap((executor) => executor.graphs()),
    async versions() {
      const told = await Promise.all(executors.map((executor) => executor.versions?.()));
      return Object.assign({}, ...told.toReversed()) as LibraryVersions;
    },
    execute: (job, signal) => home(job.graph_id).execute(job, signal),
    state: (graph_id) => home(graph_id).state?.(graph_id) ?? null,
  };
}
