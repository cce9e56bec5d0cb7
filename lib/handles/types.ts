/** The types of the calls of one agent, in process and over HTTP. */
// biome-ignore-all lint/complexity/noBannedTypes: {} extends a type without required members
import type { Graphs, Untyped, Wire } from "../executor/agent-types.ts";
import type { StreamMode } from "../executor/contract.ts";
import type { Message, MessageChunk } from "../executor/message-types.ts";
import type { JsonObject } from "../json.ts";

/** The ids of a run. */
export interface RunRef {
  readonly run_id: string;
  readonly thread_id: string;
}

/** An interrupt that waits for an answer. */
export interface OpenInterrupt<Value> {
  readonly id: string;
  readonly value: Value;
}

/**
 * The end of a run. `waiting` means that it has open interrupts: on the wire such a run is a `success` and its thread is `interrupted`.
 * `cancelled` is `interrupted` on the wire. The values of a run that did not succeed are those that it stored last, or null.
 */
export type Outcome<Types extends Wire = Untyped> =
  | (RunRef & { readonly status: "success"; readonly values: Types["values"] })
  | (RunRef & {
      readonly status: "waiting";
      readonly values: Types["values"];
      readonly interrupts: readonly OpenInterrupt<Types["interrupt"]>[];
    })
  | (RunRef & {
      readonly status: "cancelled";
      readonly values: Types["values"] | null;
      /** The `reason` of the call that cancelled the run. */
      readonly reason: string | null;
    })
  | (RunRef & {
      readonly status: "error" | "timeout";
      readonly values: Types["values"] | null;
      readonly error: { readonly error: string; readonly message: string };
    });

/** An outcome other than `success`. */
export type FailedOutcome<Types extends Wire = Untyped> = Exclude<Outcome<Types>, { readonly status: "success" }>;

/** A run that was started. `outcome` waits for its end. It rejects only if the server cannot be asked. */
export interface StartedRun<Types extends Wire = Untyped> extends RunRef {
  outcome(): Promise<Outcome<Types>>;
}

/** The data of frames by stream mode. */
export interface FrameData<Types extends Wire> {
  values: Types["values"];
  updates: { readonly [node: string]: Partial<Types["values"]> | null };
  "messages-tuple": [message: MessageChunk | Message, metadata: JsonObject];
  messages: Message[];
  custom: Types["custom"];
  tasks: JsonObject;
  checkpoints: JsonObject;
  debug: JsonObject;
  events: JsonObject;
  tools: JsonObject;
  lifecycle: JsonObject;
}

/** A frame of a stream. Narrow it by `mode`. */
export type StreamFrame<Types extends Wire = Untyped, Mode extends StreamMode = StreamMode> = {
  [Name in Mode]: {
    readonly mode: Name;
    /** The number of the frame in its run; null for frames that are not stored. */
    readonly id: number | null;
    /** The segments `<node>:<task id>` of each level; empty for the agent itself. */
    readonly namespace: readonly string[];
    readonly data: FrameData<Types>[Name];
  };
}[Mode];

/**
 * The frames of a run. The iterator ends when the run has succeeded or waits for an answer, and throws `RunFailed` for any other end.
 * It can be used once. Leaving it early does not cancel the run.
 */
export interface RunFrames<Types extends Wire = Untyped, Mode extends StreamMode = StreamMode>
  extends AsyncIterable<StreamFrame<Types, Mode>> {
  /** The ids of the run, as soon as it is created. Rejects if it was not created. */
  readonly run: Promise<RunRef>;
  /** The outcome of the run. Waits for its end, also if nobody reads the frames. */
  readonly outcome: Promise<Outcome<Types>>;
}

/** The options of a call, beside its `context`. */
export interface CallSettings {
  /** The thread of the run. Default: a new thread. Null: the run is stateless, and its thread is deleted after it. */
  readonly thread_id?: string | null;
  /** The assistant to run, in place of the default one of the agent. */
  readonly assistant_id?: string;
  /** The version of the assistant. Default: the active one. */
  readonly assistant_version?: number;
  readonly metadata?: JsonObject;
  readonly config?: {
    readonly tags?: readonly string[];
    readonly recursion_limit?: number;
    readonly configurable?: JsonObject;
  };
  /** The URL that gets a POST when the run ends. */
  readonly webhook?: string;
  /** Creates a feedback link for each key. */
  readonly feedback_keys?: readonly string[];
  /** The treatment of active runs of the thread. Default `enqueue`: the new run waits for them. */
  readonly multitask_strategy?: "reject" | "enqueue" | "interrupt" | "rollback";
  /** Aborts the call: it rejects with the reason of the signal. The run continues. */
  readonly signal?: AbortSignal;
}

/** The option `context` of a call, which is required if the context has required members. */
export type ContextOption<Context> = {} extends Context
  ? { readonly context?: Context }
  : { readonly assistant_id: string; readonly context?: Partial<Context> } | { readonly context: Context };

/** The options of a call. `context` is required if the agent requires members of it and no assistant may have them. */
export type CallOptions<Types extends Wire = Untyped> = CallSettings & ContextOption<Types["context"]>;

/**
 * The options of an answer. After `interrupt` the agent starts again with this `context`, so give it if the agent requires
 * members. After `ask` it continues with the context of its start, and this one has no effect.
 */
export type ResumeOptions<Types extends Wire = Untyped> = Omit<CallSettings, "thread_id" | "assistant_id"> &
  (
    | { readonly assistant_id: string; readonly context?: Partial<Types["context"]> }
    | { readonly assistant_id?: string; readonly context?: Types["context"] }
  );

/** The options of a stream. */
export type StreamOptions<Types extends Wire, Mode extends StreamMode> = CallOptions<Types> & {
  /** The modes of the frames. Default `values`. */
  readonly stream_mode?: Mode | readonly Mode[];
  /** True for the frames of subgraphs too. */
  readonly stream_subgraphs?: boolean;
};

/** The rest of the parameters: options, which may be left out if none of them is required. */
export type Rest<Options> = {} extends Options ? [options?: Options] : [options: Options];

/** The state of a thread, with the types of its agent. */
export interface AgentState<Types extends Wire = Untyped> {
  readonly values: Types["values"];
  /** The nodes that run next. It is empty unless the thread waits or a run is active. */
  readonly next: readonly string[];
  readonly interrupts: readonly OpenInterrupt<Types["interrupt"]>[];
}

/**
 * The calls of one agent. Each rejects if the run is not created, for example for an input that does not fit: in process with a
 * `ServiceError`, in a client with the `HTTPError` of the SDK.
 */
export interface AgentHandle<Types extends Wire = Untyped> {
  /** Runs the agent and returns its values. Throws `RunFailed` unless the run succeeds, also if it waits for an answer. */
  run(input: Types["input"], ...options: Rest<CallOptions<Types>>): Promise<Types["values"]>;
  /** Runs the agent and streams its frames. The run is created at once. */
  stream<const Mode extends StreamMode = "values">(
    input: Types["input"],
    ...options: Rest<StreamOptions<Types, Mode>>
  ): RunFrames<Types, Mode>;
  /** Creates a run and returns its ids. The agent works in the background. */
  start(input: Types["input"], ...options: Rest<CallOptions<Types>>): Promise<StartedRun<Types>>;
  /**
   * Answers the open interrupt of a thread and waits for the end of the run. With several open interrupts, `answer` is an object of
   * answers by interrupt id.
   */
  resume(thread_id: string, answer: Types["resume"], options?: ResumeOptions<Types>): Promise<Outcome<Types>>;
  /** Returns the current state of a thread. */
  state(thread_id: string): Promise<AgentState<Types>>;
}

/** The calls of agents by graph id. */
export interface AgentCalls<Types extends Graphs> {
  /** Returns the calls of one agent. An unknown id is refused when it is called. */
  agent<Name extends keyof Types & string>(name: Name): AgentHandle<Types[Name]>;
}

/** The call `runs.run`. */
export interface TypedRuns<Types extends Graphs> {
  /** Runs an agent and returns its values: `service.agent(name).run(input, options)`. */
  run<Name extends keyof Types & string>(
    name: Name,
    input: Types[Name]["input"],
    ...options: Rest<CallOptions<Types[Name]>>
  ): Promise<Types[Name]["values"]>;
}
