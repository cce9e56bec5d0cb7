/** The operations of a server that the calls of agents use: of a service in process, or of a server over HTTP. */
import type { StreamMode } from "../executor/contract.ts";
import type { Json } from "../json.ts";
import type { AgentHandle, CallSettings, RunRef } from "./types.ts";

/** The request of a run. */
export interface RunRequest extends Omit<CallSettings, "thread_id" | "assistant_id" | "signal"> {
  readonly assistant_id: string;
  readonly input?: Json;
  readonly command?: { readonly resume: Json };
  readonly context?: object;
  readonly stream_mode?: StreamMode | readonly StreamMode[];
  readonly stream_subgraphs?: boolean;
}

/** A frame as the server sends it. */
export interface ReceivedFrame {
  readonly id: number | null;
  /** The name with its namespace: `updates`, `values|node:task` … */
  readonly event: string;
  readonly data: Json;
}

/** A state as the server sends it. */
export interface ReceivedState {
  readonly values: Json;
  readonly next: readonly string[];
  readonly interrupts: readonly Json[];
}

/** The end of a run as its row has it. */
export interface RunEnd {
  readonly status: string;
  readonly cancel_reason: string | null;
}

/** The operations of a server. A null thread makes the run stateless. Each operation rejects with `signal.reason` when it aborts. */
export interface RunTransport {
  /** Creates a thread with the graph in its metadata and returns its id. */
  createThread(graph_id: string, signal?: AbortSignal): Promise<string>;
  deleteThread(thread_id: string): Promise<unknown>;
  /** Returns true if the error of a new run says that the run was not created. */
  isRefusal(error: unknown): boolean;
  /** Creates a run, without a thread if `thread_id` is null, and returns its ids without waiting for it. */
  create(thread_id: string | null, request: RunRequest, signal?: AbortSignal): Promise<RunRef>;
  /** Creates a run and waits for its result, which has the form of `join`. */
  wait(
    thread_id: string | null,
    request: RunRequest,
    signal?: AbortSignal,
  ): Promise<{ readonly run: RunRef; readonly result: Json }>;
  /** Creates a run and returns its frames with decoded data, until its end. */
  stream(
    thread_id: string | null,
    request: RunRequest,
    signal?: AbortSignal,
  ): Promise<{ readonly run: RunRef; readonly frames: AsyncIterable<ReceivedFrame> }>;
  /**
   * Waits for the end of a run. Returns its values, with `__interrupt__` if it waits, or `{ __error__ }`; null if the run was deleted.
   */
  join(run: RunRef, signal?: AbortSignal): Promise<Json>;
  /** Returns how a run ended, or null if the run was deleted. */
  findEnd(run: RunRef, signal?: AbortSignal): Promise<RunEnd | null>;
  /** Returns the newest state that a run has stored; null without one, or if the thread was deleted. */
  findState(run: RunRef, signal?: AbortSignal): Promise<ReceivedState | null>;
  /** Returns the current state of a thread. Rejects if the thread does not exist. */
  readState(thread_id: string): Promise<ReceivedState>;
}

/** The handles of agents, once their code is loaded. */
export interface AgentHandles {
  getHandle(name: string): AgentHandle | Promise<AgentHandle>;
}
