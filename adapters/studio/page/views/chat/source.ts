/** Declares the interface between a chat and its thread. The views depend on it, not on the protocol below it. */
import type { ReadonlySignal } from "@preact/signals";
import type { WaitingFor, WaitingInterrupt } from "../../api/types.ts";
import type { ChatMessage } from "./messages.ts";

/** The messages of a subagent while it runs. */
export interface Nested {
  readonly name: string;
  /** The tool call that started it: its card shows the subagent. */
  readonly call: string | undefined;
  readonly isOver: boolean;
  readonly messages: readonly ChatMessage[];
}

export interface ChatState {
  /** The server does not have the thread yet. */
  readonly isNew: boolean;
  readonly phase: "loading" | "idle" | "running" | "missing";
  /** The messages; null if the state has none. */
  readonly messages: readonly ChatMessage[] | null;
  readonly values: unknown;
  readonly interrupts: readonly WaitingInterrupt[];
  readonly nested: ReadonlyMap<string, Nested>;
  /** Milliseconds that calls of tools took, by their ids. */
  readonly times: ReadonlyMap<string, number>;
  readonly run_id: string | null;
  /** The waits of the running durable function; undefined while it works. */
  readonly waiting_for: readonly WaitingFor[] | undefined;
  /** The error of the last run, or of reading the thread. */
  readonly error: string | null;
  readonly metadata: Readonly<Record<string, unknown>>;
  /** The id of the shown checkpoint; null for the newest. */
  readonly checkpoint_id: string | null;
  /** The number of runs that ended. A change makes views read the history again. */
  readonly version: number;
}

export interface Turn {
  readonly assistant_id: string;
  readonly input?: unknown;
  /** The checkpoint to go on from; the shown one by default. */
  readonly checkpoint_id?: string | null;
  readonly context?: Readonly<Record<string, unknown>>;
  /** The messages that stay visible: those before an edited one. */
  readonly after?: readonly ChatMessage[];
}

export interface ChatSource {
  readonly state: ReadonlySignal<ChatState>;
  /**
   * Shows the messages of the input at once and starts a run. Resolves when the run was accepted. Rejects if none was started,
   * and then the messages disappear.
   */
  send(turn: Turn): Promise<void>;
  /** Answers all interrupts that wait, by their ids, and follows the run. Rejects if another answer came first. */
  answer(answers: Readonly<Record<string, unknown>>): Promise<void>;
  /** Cancels the running run, else the waiting one; does nothing without either. Does not wait for its end. */
  stop(): Promise<void>;
  /** Shows the conversation as of a checkpoint; null: the newest. Resolves when it was read; an error is put into the state. */
  show(checkpoint_id: string | null): Promise<void>;
  /**
   * Reads the thread and the shown checkpoint again, and follows a run that is active. Never rejects: an error is put into the
   * state.
   */
  reload(): Promise<void>;
  /** Stops following and polling for good. Runs go on. */
  close(): void;
}
