/** The thread event protocol (v2) of a service: commands to a thread, and its events. */
import type { Environment } from "../environment.ts";
import { invalidField } from "../errors.ts";
import { EVERYTHING, type Visibility, withVisibility } from "../storage/visibility.ts";
import { createReader, type Reader } from "../streams/log.ts";
import {
  type EventFilter,
  type KeptEvents,
  type ProtocolEvent,
  problemOfChannels,
  type SentEvent,
  type ThreadEvents,
} from "../streams/protocol.ts";
import {
  type Command,
  type CommandAnswer,
  type CommandCaller,
  CommandError,
  type CommandOptions,
  createCommands,
  errorAnswer,
} from "./commands.ts";

export type { EventFilter, ProtocolEvent } from "../streams/protocol.ts";
export type { AnswerMeta, Command, CommandAnswer, CommandCaller, CommandErrorCode } from "./commands.ts";

/** Commands to threads, and their events, with the same objects as over HTTP. */
export interface ThreadProtocol {
  /**
   * The events that are kept and pass the filter, then live ones. The thread may not exist yet. The loop ends when it is left, when
   * the thread is deleted, and when the service stops. Errors: invalid (no channel, or an unknown one).
   *
   * @example
   * ```ts
   * for await (const { method, params } of service.threads.events(thread_id, { channels: ["values", "lifecycle"] })) {
   *   console.log(method, params.data);
   * }
   * ```
   */
  events(thread_id: string, filter: EventFilter, visibility?: Visibility): AsyncIterable<ProtocolEvent>;
  /**
   * Executes a command. What the command got wrong is an answer of type `error`; errors of the service are thrown.
   *
   * @example
   * ```ts
   * const answer = await service.threads.command(crypto.randomUUID(), {
   *   id: 1,
   *   method: "run.start",
   *   params: { assistant_id: "echo", input: { messages: [{ role: "user", content: "Hi" }] } },
   * });
   * console.log(answer.type); // success
   * ```
   */
  command(thread_id: string, command: Command, caller?: CommandCaller): Promise<CommandAnswer>;
}

/** The protocol as the HTTP side uses it. */
export interface Protocol extends ThreadProtocol {
  subscribe(thread_id: string, filter: EventFilter, visibility: Visibility): Reader<SentEvent>;
  kept(thread_id: string, filter: EventFilter, visibility: Visibility): AsyncIterable<SentEvent>;
  count(thread_id: string, filters: readonly EventFilter[], visibility: Visibility): Promise<KeptEvents>;
}

interface ProtocolOptions extends Omit<CommandOptions, "events"> {
  readonly events: ThreadEvents;
  readonly environment: Pick<Environment, "log">;
}

/** Calls in process may do everything. */
const IN_PROCESS: CommandCaller = {
  read: async () => EVERYTHING,
  run: async (_thread_id, request) => ({ request, origin: {} }),
};

export function createProtocol(options: ProtocolOptions): Protocol {
  const { scope } = options;
  const commands = createCommands(options);

  const subscribe: Protocol["subscribe"] = (thread_id, filter, visibility) =>
    options.events.subscribe(withVisibility(scope, visibility), thread_id.toLowerCase(), filter);

  return {
    subscribe,
    kept: (thread_id, filter, visibility) =>
      options.events.kept(withVisibility(scope, visibility), thread_id.toLowerCase(), filter),
    count: (thread_id, filters, visibility) =>
      options.events.count(withVisibility(scope, visibility), thread_id.toLowerCase(), filters),
    events(thread_id, filter, visibility = EVERYTHING) {
      const problem = problemOfChannels(filter.channels);
      if (problem) throw invalidField("channels", problem);
      const { next, leave } = subscribe(thread_id, filter, visibility);
      return createReader(async () => (await next()).map(({ data }) => JSON.parse(data) as ProtocolEvent), leave);
    },
    async command(given, { id, method, params = {} }, caller = IN_PROCESS) {
      const thread_id = given.toLowerCase();
      const meta = { thread_id };
      try {
        const call = Object.hasOwn(commands, method) ? commands[method] : undefined;
        if (!call) throw new CommandError("unknown_command", `Unknown protocol command: ${method}`);
        const { result, ...more } = await call(thread_id, params, caller);
        return { type: "success", id, result, meta: { ...meta, ...more } };
      } catch (error) {
        const answer = errorAnswer(id, error, meta);
        if (answer) return answer;
        throw error;
      }
    },
  };
}
