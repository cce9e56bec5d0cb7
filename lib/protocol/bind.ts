/** The thread event protocol as one caller may use it. */
import type { Binding, Permit } from "../auth/binding.ts";
import { refusalOf, watchPermission } from "../auth/permission.ts";
import type { ServiceError } from "../errors.ts";
import type { BoundRuns } from "../runs/bind.ts";
import { createReader, type Reader } from "../streams/log.ts";
import type { EventFilter, KeptEvents, SentEvent } from "../streams/protocol.ts";
import type { Command, CommandAnswer, CommandCaller, ProtocolDirectory, ThreadProtocol } from "./mod.ts";

/** An open thread. Its calls use the caller's filter of the time when it was opened. */
export interface OpenThread {
  subscribe(filter: EventFilter): Reader<SentEvent>;
  kept(filter: EventFilter): AsyncIterable<SentEvent>;
  count(filters: readonly EventFilter[]): Promise<KeptEvents>;
  command(command: Command): Promise<CommandAnswer>;
  /** Why the caller may not read the thread any more; null while it may. */
  refusal(): Promise<ServiceError | null>;
  /** Calls `lost` once when the caller loses the permission. The result stops the checks. */
  watch(lost: (refusal: ServiceError) => void): () => void;
}

export interface BoundProtocol extends ThreadProtocol {
  subscribe(thread_id: string, filter: EventFilter): Promise<Reader<SentEvent>>;
  /** `run`: permits the runs of commands. Default: as `create` of the caller's runs. */
  command(thread_id: string, command: Command, run?: CommandCaller["run"]): Promise<CommandAnswer>;
  open(thread_id: string, run: CommandCaller["run"]): Promise<OpenThread>;
}

export function bindProtocol(
  protocol: ProtocolDirectory,
  { authorize, reader, environment, scope }: Binding,
  runs: () => BoundRuns,
): BoundProtocol {
  const read = (thread_id: string): Promise<Permit<object>> => authorize("threads:read", { thread_id });
  const subscribe: BoundProtocol["subscribe"] = async (thread_id, filter) => {
    const permit = await read(thread_id);
    const events = reader(permit, protocol.subscribe(permit.scope, thread_id, filter));
    try {
      // Runs that the client makes once it has an answer record what it reads, in other processes too.
      await protocol.recordAll(permit.scope, thread_id);
    } catch (error) {
      events.leave();
      throw error;
    }
    return events;
  };

  return {
    subscribe,
    events(thread_id, filter) {
      const opened = read(thread_id).then((permit) => reader(permit, protocol.events(permit.scope, thread_id, filter)));
      // The first `next` gets the error.
      opened.catch(() => {});
      const leave = (): void => void opened.then((events) => events.leave()).catch(() => {});
      return createReader(async () => await (await opened).next(), leave);
    },
    command: (thread_id, command, run = (id, request) => runs().permit(id, request)) =>
      protocol.command(scope, thread_id, command, { read: async (id) => (await read(id)).scope, run }),
    async open(thread_id, run) {
      const permit = await read(thread_id);
      const seen = permit.scope;
      const caller = { read: async () => seen, run };
      return {
        subscribe: (filter) => protocol.subscribe(seen, thread_id, filter),
        kept: (filter) => protocol.kept(seen, thread_id, filter),
        count: (filters) => protocol.count(seen, thread_id, filters),
        command: (command) => protocol.command(scope, thread_id, command, caller),
        refusal: async () => (permit.again ? await refusalOf(permit) : null),
        watch: (lost) => watchPermission(environment, permit, lost),
      };
    },
  };
}
