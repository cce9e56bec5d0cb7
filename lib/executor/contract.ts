/** The contract of agent runtimes: an executor hosts graphs, gets each attempt of a run as a `Job`, and yields events. */
import type { Environment } from "../environment.ts";
import type { Json, JsonObject } from "../json.ts";
import type { AuthUser } from "../storage/rows.ts";
import type { AgentSchemas } from "./agent-schemas.ts";
import type { AgentSettings } from "./agent-settings.ts";
import type { Graphs, MergedGraphs } from "./agent-types.ts";
import type { CheckpointHandle, CheckpointReader } from "./checkpoint-handle.ts";
import type { Journal, OutputPosition } from "./journal.ts";
import type { ModelUsage } from "./model-usage.ts";
import type { StoreHandle } from "./store-handle.ts";
import type { TraceRecorder } from "./trace.ts";

export type {
  AuthUser,
  ChannelValue,
  NewCheckpoint,
  Payload,
  PendingWrite,
  StoredCheckpoint,
  StoredWrite,
} from "../storage/rows.ts";
export type * from "./agent-settings.ts";
export type * from "./checkpoint-handle.ts";
export type { ModelUsage } from "./model-usage.ts";
export type * from "./store-handle.ts";
export type * from "./trace.ts";

/**
 * All stream modes. `messages-tuple` frames are named `messages` on the wire, and mode `messages` is derived from them. With
 * `messages-tuple` an executor may report complete messages before the next state, by an event of mode `messages` with a list of
 * them.
 */
export const STREAM_MODES = [
  "values",
  "messages",
  "messages-tuple",
  "updates",
  "events",
  "tasks",
  "checkpoints",
  "debug",
  "custom",
  "tools",
  "lifecycle",
] as const;
/** A stream mode. */
export type StreamMode = (typeof STREAM_MODES)[number];

/** A `goto` to one node with an input for it. */
export interface Send {
  readonly node: string;
  readonly input: Json;
}

/** A command, which replaces the input of a run. */
export interface Command {
  /** The resume value of the pending interrupt, null too, or a map from interrupt id to value. */
  readonly resume?: Json;
  /** The update that is written to the state first: an object, or a list of [channel, value]. */
  readonly update?: Json;
  readonly goto?: readonly (string | Send)[];
}

/** The `config` of a run. */
export interface RunConfig {
  readonly tags?: readonly string[];
  readonly recursion_limit?: number;
  readonly configurable: JsonObject;
}

/** Identifies a checkpoint of the job's thread. `ns` is "" for the root graph. */
export interface CheckpointRef {
  readonly ns: string;
  readonly checkpoint_id: string;
}

/**
 * A pending interrupt that a run resumes. With LangGraph before 1.7.0, interrupts of one task share an id, and only the number of
 * answers distinguishes them.
 */
export interface InterruptRef {
  readonly checkpoint_ns: string;
  readonly checkpoint_id: string;
  /** Null for a stop at a breakpoint. */
  readonly interrupt_id: string | null;
  /** The number of answers that the task had consumed when it raised the interrupt. */
  readonly answered: number;
}

/** An attempt of a run, as the executor gets it. */
export interface Job {
  readonly run_id: string;
  readonly thread_id: string;
  readonly assistant_id: string;
  readonly graph_id: string;
  /** True if the run is stateless. Its thread is deleted after the run. */
  readonly stateless: boolean;
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  /** True if an earlier attempt has stored a checkpoint. Continue from `checkpoints` then, and ignore `input` and `command`. */
  readonly resumed: boolean;
  /** The input; undefined to continue from the state. */
  readonly input: Json | undefined;
  readonly command: Command | null;
  /**
   * True to fail before the first write if `command.resume` matches no pending interrupt. By default such a value is ignored.
   */
  readonly strict_resume?: boolean;
  /**
   * The interrupts that `command.resume` answers. Throw `ResumeError` before anything is written if one of them is not pending in
   * the state that the attempt starts from, unless an earlier attempt of this run has consumed its answer. `recordStates` checks
   * this.
   */
  readonly resume_targets?: readonly InterruptRef[];
  /** The checkpoint to fork from; null for the thread's head. It is equal in every attempt. */
  readonly from: CheckpointRef | null;
  readonly config: RunConfig;
  readonly context: JsonObject;
  readonly metadata: JsonObject;
  /** The modes whose `stream` events to yield. Either messages mode of the request is `messages-tuple` here. */
  readonly modes: ReadonlySet<StreamMode>;
  /** True to yield the `stream` events of subgraphs too, with a namespace. */
  readonly subgraphs: boolean;
  readonly interrupt_before: "*" | readonly string[];
  readonly interrupt_after: "*" | readonly string[];
  readonly durability: "sync" | "async" | "exit";
  /**
   * The `event`s of the thread event protocol to yield. `state`: `values`, `checkpoints` and `input.requested` of the root graph,
   * with `data` null for `values` that name their checkpoint. `all`: every method, also of subgraphs. Default `none`. Ignored by
   * executors without `GraphInfo.protocol_events`.
   */
  readonly events?: "none" | "state" | "all";
  /** The user from custom authentication; also in `config.configurable` as `langgraph_auth_user`. */
  readonly user: AuthUser | null;
  readonly checkpoints: CheckpointHandle;
  /** The store that all threads share. */
  readonly store: StoreHandle;
  /** The journal of durable functions. */
  readonly journal?: Journal;
  /** The recorder of the attempt's spans; absent if the service records no traces. */
  readonly trace?: TraceRecorder;
}

/**
 * A pending interrupt. Its `id` is stable while it is pending. In states and threads, `answered` is the number of answers that
 * its task had consumed when it raised the interrupt; it is absent for none.
 */
export interface Interrupt {
  readonly id: string;
  readonly value: Json;
  readonly [extra: string]: Json;
}

/** A task of a state, in wire form. */
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

/** An event for subscribers. `data` is plain JSON in wire form (flat messages, no class instances). */
export interface StreamEvent {
  readonly type: "stream";
  readonly mode: StreamMode;
  readonly namespace?: readonly string[];
  readonly data: Json;
  /** The position of a durable function once this event is emitted. */
  readonly position?: OutputPosition;
}

/** An event that an executor yields while it executes a run. */
export type ExecutorEvent =
  | StreamEvent
  /**
   * The state of the root graph after a step, with the checkpoint that holds it. The executor has put that checkpoint
   * (`Job.checkpoints`), or `recordStates` does. The last state is the run's result and the thread's new head, so an attempt must
   * yield at least one. A `next` that is not empty means that the run stopped at an interrupt or a breakpoint.
   */
  | {
      readonly type: "state";
      readonly values: Json;
      readonly next: readonly string[];
      readonly tasks: readonly Task[];
      readonly checkpoint?: CheckpointRef & {
        readonly parent_id?: string;
        readonly step?: number;
        readonly source?: string;
      };
      /** The stream events of this state. Subscribers get them with it, not before its checkpoint is put. */
      readonly frames?: readonly StreamEvent[];
      /** The source, for `recordStates`: `input` is the state before the input. Default `loop`. */
      readonly source?: "input" | "loop";
      /** The active durable call, for `recordStates`, with its number of entries and of yielded values. */
      readonly call?: { readonly call_id: string; readonly at: number; readonly yielded: number };
      /**
       * The tasks, for `recordStates`, whose interrupts the run answers. They are pending again if the run does not reach its end.
       */
      readonly resumed_tasks?: readonly Task[];
      /** The input, for `recordStates`, that the next run of the agent continues with. */
      readonly input?: Json;
      /** Set for `recordStates` to put the state although the run is being stopped, because a journal entry belongs to it. */
      readonly atomic?: true;
    }
  /**
   * An event of the thread event protocol, in wire form. The service adds `seq`, `event_id` and time, and creates the lifecycle
   * of the root graph. `event`s and `stream` events are separate, so do not yield one for the other.
   */
  | {
      readonly type: "event";
      readonly method:
        | "values"
        | "updates"
        | "checkpoints"
        | "messages"
        | "tools"
        | "lifecycle"
        | "tasks"
        | "custom"
        | "input.requested";
      /** `<node>:<task id>` of each level; empty for the root graph. */
      readonly namespace: readonly string[];
      readonly node?: string;
      readonly data: Json;
      /** The checkpoint that holds the values, if the executor stores one. Only with `values`. */
      readonly checkpoint_id?: string;
    }
  /**
   * Model usage. It is summed over the attempt and stored with the run's trace. `repeats` means that another attempt reports this
   * usage again while a journal is active, unless this attempt ends or suspends the run.
   */
  | ({ readonly type: "usage"; readonly repeats?: boolean } & ModelUsage);

/** A state event, which an attempt must yield at least once. */
export type StateEvent = Extract<ExecutorEvent, { type: "state" }>;

/** The declaration of a graph by its executor. */
export interface GraphInfo extends AgentSettings {
  readonly graph_id: string;
  /**
   * True if a retry continues from the newest root checkpoint, so that an attempt that has stored one has made progress. Default
   * false: a retry starts the agent again, on the state that was stored last.
   */
  readonly resumes_on_retry?: boolean;
  /**
   * True if the executor yields `event`s if `Job.events` requests them. Default false: the service creates events of the root
   * graph from `stream` and `state` events.
   */
  readonly protocol_events?: boolean;
  /** The schemas of input, context and answers. A run whose values do not fit is refused. */
  readonly schemas?: AgentSchemas;
}

/** Versions of libraries in the response of `GET /info`. */
export interface LibraryVersions {
  readonly langgraph_js_version?: string;
}

/** Hosts graphs and runs their attempts. */
export interface Executor<Types extends Graphs = Graphs> {
  /** The types of the graphs. Only the type checker uses it: no executor has this member. */
  readonly "~graphs"?: Types;
  graphs(): readonly GraphInfo[];
  /**
   * Executes one attempt. Stops soon after `signal` aborts. Throws to fail the run, and returns to finish it. An executor that
   * puts no checkpoints wraps this method in `recordStates`.
   */
  execute(job: Job, signal: AbortSignal, environment: Environment): AsyncIterable<ExecutorEvent>;
  /** Returns the versions of the libraries of the graphs, for `GET /info`. */
  versions?(): Promise<LibraryVersions>;
  /** Returns an object that reads the states of a graph; null (or no method) for graphs whose states `recordStates` records. */
  state?(graph_id: string): GraphState | null;
}

/** The state of a thread at one checkpoint, in wire form. */
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

/** Identifies a state of a thread: at a checkpoint, or without `checkpoint_id` the newest, with its pending writes. */
export interface StateRef {
  readonly thread_id: string;
  readonly ns: string;
  readonly checkpoint_id?: string;
}

/** The configuration from which a graph factory builds a graph, to read its states or to draw it. */
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

/** An update of a state, as a node would make it. */
export interface StateUpdate {
  /** The values; null for the effect of `as_node` alone. */
  readonly values: Json;
  readonly as_node?: string;
  readonly command?: Command;
}

/**
 * The error of a state that cannot be updated: the node is unknown, or the graph refuses the values. The caller gets `message`.
 */
export class StateUpdateError extends Error {
  // The name is part of the API.
  override readonly name = "StateRefused";
}

/**
 * The error of a refused resume value: an interrupt id is not pending, the map of values is empty, or one value stands for
 * several pending interrupts. The run ends as `error`, and subscribers get the ids.
 */
export class ResumeError extends Error {
  // Clients of the API get this name.
  override readonly name: string = "ResumeRefused";
  readonly reason: "not_pending" | "empty_map" | "ambiguous";
  /** Present if the interrupts were pending when the run was created. */
  readonly code?: "interrupt_gone";
  /** The refused ids. */
  readonly interrupt_ids: readonly string[];
  readonly pending_ids: readonly string[];

  constructor(message: string, details: Pick<ResumeError, "reason" | "code" | "interrupt_ids" | "pending_ids">) {
    super(message);
    this.reason = details.reason;
    if (details.code) this.code = details.code;
    this.interrupt_ids = details.interrupt_ids;
    this.pending_ids = details.pending_ids;
  }
}

/**
 * Reads the states of a graph, and updates them outside runs. Each object serves one request, so it may cache what it has read.
 */
export interface GraphState {
  /**
   * Returns a state that this graph has written, or null if it does not exist. `config` loads the configuration of the run that
   * wrote it.
   */
  get(
    at: StateRef,
    checkpoints: CheckpointReader,
    options: { readonly subgraphs: boolean; readonly config?: () => Promise<StateConfig> },
  ): Promise<ThreadState | null>;
  /**
   * Applies steps in order to the state at `at`, and the updates of a step at once. The caller stores all checkpoints that are
   * put, or none; each of them carries `metadata`. Returns the last root checkpoint and its state. Throws `StateUpdateError`.
   * Absent if only runs can change the states of this graph.
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
  /** Returns the schemas of the graph. `config` is the configuration of the assistant, here and below. */
  schemas(graph_id: string, config?: StateConfig): Promise<GraphSchemas>;
  /**
   * Returns the nodes and edges of the graph. `xray` draws subgraphs in place of their nodes: to any depth if it is true, else to
   * this depth.
   */
  graph(graph_id: string, xray: boolean | number, config?: StateConfig): Promise<DrawnGraph>;
  /** Returns the schemas of the subgraphs by namespace. */
  subgraphs(
    graph_id: string,
    namespace: string | null,
    recurse: boolean,
    config?: StateConfig,
  ): Promise<Readonly<Record<string, GraphSchemas>>>;
}

/**
 * Combines executors into one. `createService` refuses a graph id that two of them host. Throws a TypeError for an argument that is
 * no executor.
 *
 * @example
 * ```ts
 * import { combine, fromFunctions } from "greenroom";
 * import { langgraph } from "greenroom/langgraph";
 *
 * const executor = combine(langgraph({ support: graph }), fromFunctions({ echo: () => "Hello" }));
 * ```
 */
export function combine<const Executors extends readonly Executor[]>(
  ...executors: Executors
): Executor<MergedGraphs<Executors>> {
  for (const [index, executor] of executors.entries()) {
    if (typeof executor?.graphs === "function" && typeof executor.execute === "function") continue;
    const example = "combine(langgraph({ support: graph }), fromFunctions({ echo }))";
    throw new TypeError(`combine: argument ${index + 1} is not an executor. Pass executors, for example ${example}.`);
  }
  /** Returns the first executor that hosts the graph. Throws if there is none. */
  const requireHost = (graph_id: string): Executor => {
    const host = executors.find((executor) => executor.graphs().some((graph) => graph.graph_id === graph_id));
    if (!host) throw new Error(`No executor hosts the graph ${graph_id}`);
    return host;
  };
  return {
    graphs: () => executors.flatMap((executor) => executor.graphs()),
    /** Returns the versions of all executors; those of earlier executors win. */
    async versions() {
      const versions = await Promise.all(executors.map((executor) => executor.versions?.()));
      return Object.assign({}, ...versions.toReversed()) as LibraryVersions;
    },
    execute: (job, signal, environment) => requireHost(job.graph_id).execute(job, signal, environment),
    state: (graph_id) => requireHost(graph_id).state?.(graph_id) ?? null,
  };
}
