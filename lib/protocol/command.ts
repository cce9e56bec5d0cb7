/** Commands of the thread event protocol, and their answers. */
import { ServiceError } from "../errors.ts";
import type { JsonObject } from "../json.ts";
import type { RunCreate, RunOrigin } from "../runs/mod.ts";
import type { ThreadRow } from "../storage/mod.ts";
import type { Visibility } from "../storage/visibility.ts";
import type { ThreadDirectory } from "../threads/mod.ts";

/** Why a command failed. */
export type CommandErrorCode =
  | "invalid_argument"
  | "unknown_command"
  | "unknown_error"
  | "no_such_run"
  | "no_such_subscription"
  | "no_such_namespace"
  | "no_such_interrupt"
  | "no_such_checkpoint"
  | "permission_denied"
  | "not_supported";

/** A command to a thread. */
export interface Command {
  /** Chosen by the client; the answer carries it. */
  readonly id: number;
  /** `run.start`, `input.respond`, `agent.getTree` or `state.get`; on a WebSocket also `subscription.subscribe` and `….unsubscribe`. */
  readonly method: string;
  readonly params?: JsonObject;
}

/** The thread of an answer; for commands that create a run, also the `seq` of the last event before it. */
export interface AnswerMeta {
  readonly thread_id: string;
  readonly applied_through_seq?: number;
}

/** The answer to a command. `id` is null for a message that is no command. */
export type CommandAnswer =
  | { readonly type: "success"; readonly id: number; readonly result: JsonObject; readonly meta: AnswerMeta }
  | {
      readonly type: "error";
      readonly id: number | null;
      readonly error: CommandErrorCode;
      readonly message: string;
      readonly meta?: AnswerMeta;
    };

/** What the sender of a command may see and do. Its calls may refuse, with the errors of a route. */
export interface CommandCaller {
  /** What the caller can see of a thread. */
  read(thread_id: string): Promise<Visibility>;
  /** The run that a command creates, as validation and authorization leave it. */
  run(thread_id: string, request: RunCreate): Promise<{ readonly request: RunCreate; readonly origin: RunOrigin }>;
}

/** A command that failed. */
export class CommandError extends Error {
  readonly code: CommandErrorCode;
  constructor(code: CommandErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "CommandError";
    this.code = code;
  }
}

export const invalid = (message: string): CommandError => new CommandError("invalid_argument", message);

/** The command in a parsed message; null for any other value. */
export function readCommand(value: unknown): Command | null {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  const { id, method, params } = value as { readonly [key: string]: unknown };
  if (typeof id !== "number" || !Number.isSafeInteger(id) || id < 0 || typeof method !== "string") return null;
  if (params === undefined || params === null) return { id, method };
  return typeof params === "object" && !Array.isArray(params) ? { id, method, params: params as JsonObject } : null;
}

/** The answer to an error of a command; undefined for errors of the service. */
export function errorAnswer(id: number | null, error: unknown, meta?: AnswerMeta): CommandAnswer | undefined {
  if (!(error instanceof CommandError)) return undefined;
  return { type: "error", id, error: error.code, message: error.message, ...(meta ? { meta } : {}) };
}

/** The result of a command, and the `seq` of the last event before a run that it created. */
export interface CommandResult extends Pick<AnswerMeta, "applied_through_seq"> {
  readonly result: JsonObject;
}

/** Errors: CommandError, and those of the caller and the storage. */
export type CommandCall = (thread_id: string, params: JsonObject, caller: CommandCaller) => Promise<CommandResult>;

export const noRun = (thread_id: string): CommandError =>
  new CommandError("no_such_run", `Thread ${thread_id} has no run yet.`);

/** The thread; null if there is none that is visible. */
export async function findThread(
  threads: Pick<ThreadDirectory, "visible">,
  thread_id: string,
  visibility?: Visibility,
): Promise<ThreadRow | null> {
  try {
    return await threads.visible(thread_id, visibility);
  } catch (error) {
    if (error instanceof ServiceError && error.code === "not_found") return null;
    throw error;
  }
}
