/** The thread event protocol for one caller: a reader stays open while its caller may read the thread. */

import type { InternalAssistants } from "../assistants/mod.ts";
import type { AuthorizedCall, Authorizer } from "../auth/authorizer.ts";
import type { ServiceError } from "../errors.ts";
import { authorizeNewRun, type RunEvent } from "../runs/authorization.ts";
import type { Scope } from "../storage/mod.ts";
import type { EventCounts, EventFilter, SerializedEvent } from "../streams/event-filter.ts";
import { createReader, type Reader } from "../streams/log.ts";
import type { StreamGuard } from "../streams/stream-guard.ts";
import type { CommandCaller, CommandResponse, InternalProtocol, ProtocolCommand, ThreadProtocol } from "./mod.ts";

/** The event stream of a thread. Its calls use the caller's filter at the time when it was opened. */
export interface AuthorizedThreadStream {
  subscribe(filter: EventFilter): Reader<SerializedEvent>;
  readStored(filter: EventFilter): AsyncIterable<SerializedEvent>;
  count(filters: readonly EventFilter[]): Promise<EventCounts>;
  command(command: ProtocolCommand): Promise<CommandResponse>;
  /** Resolves to the reason once the caller may no longer read the thread, else to null. */
  findRevocation(): Promise<ServiceError | null>;
  /** Calls `onLost` once when the caller loses access. Returns undefined if that cannot happen. */
  guard(onLost: (revocation: ServiceError | null) => void): StreamGuard | undefined;
}

/** The protocol for one caller, with the methods that only routes use. */
export interface AuthorizedProtocol {
  subscribe(thread_id: string, filter: EventFilter): Promise<Reader<SerializedEvent>>;
  /** Executes a command. `run` authorizes the runs that it creates; default: as `create` of the caller's runs. */
  command(thread_id: string, command: ProtocolCommand, run?: CommandCaller["run"]): Promise<CommandResponse>;
  open(thread_id: string, run: CommandCaller["run"]): Promise<AuthorizedThreadStream>;
}

interface InternalResources {
  readonly protocol: InternalProtocol;
  readonly assistants: Pick<InternalAssistants, "isDefault">;
}

const authorizeRead = (
  { authorize }: Authorizer<"threads:read">,
  thread_id: string,
): Promise<AuthorizedCall<{ readonly thread_id: string }>> => authorize("threads:read", { thread_id });

/**
 * Returns the function `subscribe` of a caller. It authorizes the call, subscribes, and resolves with the reader once the next
 * runs of the thread record all events. Rejects with the refusal, and leaves the reader if recording fails.
 */
export const subscribeEvents =
  (authorizer: Authorizer<"threads:read">, { protocol }: InternalResources): AuthorizedProtocol["subscribe"] =>
  async (thread_id, filter) => {
    const authorizedCall = await authorizeRead(authorizer, thread_id);
    const events = authorizer.guards.reader(
      authorizedCall,
      protocol.subscribe(authorizedCall.scope, thread_id, filter),
    );
    try {
      // Runs that the client creates after the response record all events, also in other processes.
      await protocol.recordAll(authorizedCall.scope, thread_id);
    } catch (error) {
      events.leave();
      throw error;
    }
    return events;
  };

/**
 * Returns the function `events` of a caller. It authorizes the call in the background and returns a reader at once, whose first
 * `next` throws if the caller may not read the thread.
 */
export const readEvents =
  (authorizer: Authorizer<"threads:read">, { protocol }: InternalResources): ThreadProtocol["events"] =>
  (thread_id, filter) => {
    const reader = authorizeRead(authorizer, thread_id).then((authorizedCall) =>
      authorizer.guards.reader(authorizedCall, protocol.events(authorizedCall.scope, thread_id, filter)),
    );
    // The first `next` throws the error.
    reader.catch(() => {});
    const leave = (): void => void reader.then((events) => events.leave()).catch(() => {});
    return createReader(async () => await (await reader).next(), leave);
  };

/**
 * Returns the function `command` of a caller. It authorizes what the command does, reading the thread or creating a run, and
 * executes it. `run` replaces the authorization of a run.
 */
export const executeCommand = (
  authorizer: Authorizer<"threads:read" | RunEvent>,
  { protocol, assistants }: InternalResources,
): AuthorizedProtocol["command"] => {
  const read = async (thread_id: string): Promise<Scope> => (await authorizeRead(authorizer, thread_id)).scope;
  const authorizeRun = authorizeNewRun(authorizer, { assistants });
  return (thread_id, command, run = (id, request) => authorizeRun(id, request)) =>
    protocol.command(authorizer.scope, thread_id, command, { read, run });
};

/**
 * Returns the function `open` of a caller. It authorizes reading the thread once for a socket, and resolves with what the socket
 * may do in that scope. Rejects with the refusal. Nothing is subscribed yet.
 */
export const openThreadStream =
  (authorizer: Authorizer<"threads:read">, { protocol }: InternalResources): AuthorizedProtocol["open"] =>
  async (thread_id, run) => {
    const authorizedCall = await authorizeRead(authorizer, thread_id);
    const { scope } = authorizedCall;
    const caller = { read: async () => scope, run };
    return {
      subscribe: (filter) => protocol.subscribe(scope, thread_id, filter),
      readStored: (filter) => protocol.readStored(scope, thread_id, filter),
      count: (filters) => protocol.count(scope, thread_id, filters),
      command: (command) => protocol.command(authorizer.scope, thread_id, command, caller),
      findRevocation: async () => (await authorizedCall.findRevocation?.()) ?? null,
      guard: (onLost) => authorizer.guards.open(authorizedCall, undefined, onLost),
    };
  };
