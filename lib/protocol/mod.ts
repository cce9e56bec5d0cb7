/** The thread event protocol (v2) of a service: commands to a thread, and its events. */
import type { Environment } from "../environment.ts";
import { invalidFieldError } from "../errors.ts";
import type { Scope } from "../storage/mod.ts";
import {
  type EventCounts,
  type EventFilter,
  type ProtocolEvent,
  type SerializedEvent,
  type ThreadEvents,
  validateChannels,
} from "../streams/event-filter.ts";
import { createReader, type Reader } from "../streams/log.ts";
import { decodeSerializedEvent } from "../streams/thread-event.ts";
import {
  type CommandCaller,
  CommandError,
  type CommandOptions,
  type CommandResponse,
  createCommands,
  type ProtocolCommand,
  toErrorResponse,
} from "./commands.ts";

export type { EventFilter, ProtocolEvent } from "../streams/event-filter.ts";
export type {
  CommandCaller,
  CommandErrorCode,
  CommandResponse,
  CommandResponseMeta,
  ProtocolCommand,
} from "./commands.ts";

/** Commands to threads, and their events, with the same objects as over HTTP. */
export interface ThreadProtocol {
  /**
   * Iterates over the stored events that pass the filter, then over live ones. The thread may not exist yet. The loop ends when you leave
   * it, when the thread is deleted, and when the service stops. Throws `invalid` for no channel or an unknown one.
   *
   * @example
   * ```ts
   * for await (const { method, params } of service.threads.events(thread_id, { channels: ["values", "lifecycle"] })) {
   *   console.log(method, params.data);
   * }
   * ```
   */
  events(thread_id: string, filter: EventFilter): AsyncIterable<ProtocolEvent>;
  /**
   * Executes a command. Resolves with a response of type `error` if the command is wrong. Throws errors of the service.
   *
   * @example
   * ```ts
   * const response = await service.threads.command(crypto.randomUUID(), {
   *   id: 1,
   *   method: "run.start",
   *   params: { assistant_id: "echo", input: { messages: [{ role: "user", content: "Hi" }] } },
   * });
   * console.log(response.type); // success
   * ```
   */
  command(thread_id: string, command: ProtocolCommand): Promise<CommandResponse>;
}

/** The protocol for any scope, without authorization. */
export interface InternalProtocol {
  subscribe(scope: Scope, thread_id: string, filter: EventFilter): Reader<SerializedEvent>;
  /** Resolves when the next runs of the thread record all events. It applies while the thread has readers in this process. */
  recordAll(scope: Scope, thread_id: string): Promise<void>;
  readStored(scope: Scope, thread_id: string, filter: EventFilter): AsyncIterable<SerializedEvent>;
  count(scope: Scope, thread_id: string, filters: readonly EventFilter[]): Promise<EventCounts>;
  events(scope: Scope, thread_id: string, filter: EventFilter): Reader<ProtocolEvent>;
  /** Executes a command. `caller` authorizes it; default: everything in the scope. */
  command(scope: Scope, thread_id: string, command: ProtocolCommand, caller?: CommandCaller): Promise<CommandResponse>;
}

interface ProtocolOptions extends Omit<CommandOptions, "events"> {
  readonly events: ThreadEvents;
  readonly environment: Pick<Environment, "log">;
}

/** Creates a caller that may do everything in a scope. Its requests stay as they are, and its runs have an empty origin. */
const createTrustedCaller = (scope: Scope): CommandCaller => ({
  read: async () => scope,
  run: async (_thread_id, request) => ({ scope, request, origin: {} }),
});

/** Creates the protocol of thread events: subscriptions, and commands whose errors become responses. */
export function createProtocol(options: ProtocolOptions): InternalProtocol {
  const { events } = options;
  const commands = createCommands(options);

  const subscribe: InternalProtocol["subscribe"] = (scope, thread_id, filter) =>
    events.subscribe(scope, thread_id.toLowerCase(), filter);

  return {
    subscribe,
    recordAll: (scope, thread_id) => events.recordAll(scope, thread_id.toLowerCase()),
    readStored: (scope, thread_id, filter) => events.readStored(scope, thread_id.toLowerCase(), filter),
    count: (scope, thread_id, filters) => events.count(scope, thread_id.toLowerCase(), filters),
    /** Returns a reader of decoded events. Throws `invalid` for unknown channels. */
    events(scope, thread_id, filter) {
      const problem = validateChannels(filter.channels);
      if (problem) throw invalidFieldError("channels", problem);
      const { next, leave } = subscribe(scope, thread_id, filter);
      return createReader(async () => (await next()).map(decodeSerializedEvent), leave);
    },
    /** Executes a command and returns its response, also for a CommandError. Rethrows other errors. */
    async command(scope, raw_thread_id, { id, method, params = {} }, caller = createTrustedCaller(scope)) {
      const thread_id = raw_thread_id.toLowerCase();
      const meta = { thread_id };
      try {
        const handler = Object.hasOwn(commands, method) ? commands[method] : undefined;
        if (!handler) throw new CommandError("unknown_command", `Unknown protocol command: ${method}`);
        const { result, ...resultMeta } = await handler(thread_id, params, caller);
        return { type: "success", id, result, meta: { ...meta, ...resultMeta } };
      } catch (error) {
        const response = toErrorResponse(id, error, meta);
        if (response) return response;
        throw error;
      }
    },
  };
}
