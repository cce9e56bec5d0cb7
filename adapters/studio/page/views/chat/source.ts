/** Where a chat gets its conversation from. The views know this interface alone, whatever the protocol below it. */
import type { ReadonlySignal } from "@preact/signals";
import type { WaitingFor, WaitingInterrupt } from "../../api/types.ts";
import type { ChatMessage } from "./messages.ts";

/** What a subagent says while it runs. */
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
  /** Null: the state has no messages. */
  readonly messages: readonly ChatMessage[] | null;
  readonly values: unknown;
  readonly interrupts: readonly WaitingInterrupt[];
  readonly nested: ReadonlyMap<string, Nested>;
  /** Milliseconds that calls of tools took, by their ids. */
  readonly times: ReadonlyMap<string, number>;
  readonly run_id: string | null;
  /** What the run under way sleeps for; absent while it works. */
  readonly waiting_for: readonly WaitingFor[] | undefined;
  /** Of the last run, or of reading. */
  readonly error: string | null;
  readonly metadata: Readonly<Record<string, unknown>>;
  /** The checkpoint that is shown where it is not the newest. */
  readonly checkpoint_id: string | null;
  /** Counts ends of runs: what depends on the history is read again. */
  readonly version: number;
}

export interface Turn {
  readonly assistant_id: string;
  readonly input?: unknown;
  /** The checkpoint to go on from; the shown one by default. */
  readonly checkpoint_id?: string | null;
  readonly context?: Readonly<Record<string, unknown>>;
  /** The messages that stay in sight: those before an edited one. */
  readonly after?: readonly ChatMessage[];
}

export interface ChatSource {
  readonly state: ReadonlySignal<ChatState>;
  /** Resolves when the run was accepted. Rejects if none began. */
  send(turn: Turn): Promise<void>;
  /** Answers all interrupts that wait, by their ids. Rejects if another answer came first. */
  answer(answers: Readonly<Record<string, unknown>>): Promise<void>;
  stop(): Promise<void>;
  /** Shows the conversation as of a checkpoint; null: the newest. */
  show(checkpoint_id: string | null): Promise<void>;
  reload(): Promise<void>;
  close(): void;
}
