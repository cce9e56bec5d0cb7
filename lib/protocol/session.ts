/** One WebSocket of the thread event protocol: its commands, and its subscriptions, sent as one ordered sequence of events. */
import { pause, type TickLimit } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import type { JsonObject } from "../json.ts";
import { END_EVENT } from "../storage/mod.ts";
import type { Reader } from "../streams/log.ts";
import {
  compileFilter,
  type EventFilter,
  type KeptEvents,
  type Passes,
  problemOfChannels,
  type SentEvent,
} from "../streams/protocol.ts";
import type { OpenThread } from "./authorization.ts";
import { type Command, type CommandAnswer, CommandError, errorAnswer, invalid, readCommand } from "./commands.ts";
import { CLOSE, type Connection, type ConnectionOptions, createConnection, startHeartbeat } from "./connection.ts";

export interface SessionOptions extends ConnectionOptions {
  /** Commands that all sessions may execute in one tick of the event loop. */
  readonly commands: TickLimit;
  /** The socket closes when its caller loses the permission to read. */
  readonly thread: OpenThread;
  /** The longest message, in bytes. */
  readonly max_bytes: number;
  /** Parses a message. Errors: bad_request (no JSON), invalid, too_large. */
  parse(text: string): Promise<unknown>;
  /** The filter in the params of a subscription, whose channels are checked. Errors: invalid. */
  readFilter(params: JsonObject): EventFilter;
}

export interface Session {
  /** A message of the client. */
  onMessage(data: unknown): void;
  /** The socket has closed. */
  onClose(): void;
}

/** How long a replay waits for another subscription: longer if no run executes, because then its end is part of the replay. */
const GATHER_MS = 10;
const GATHER_ENDED_MS = 150;
const MAX_SUBSCRIPTIONS = 100;
/** Of all subscriptions together; as many as the filter of one may have. */
const MAX_NAMESPACES = 1_000;
/** Commands that wait for the one before them. */
const MAX_WAITING = 100;

const NO_JSON = "Protocol commands must be valid JSON.";
const NO_COMMAND = "Protocol commands must include an integer id and string method.";

const sizeOf = (text: string): number => new TextEncoder().encode(text).length;

export function createSession(options: SessionOptions): Session {
  const { environment, thread } = options;
  const connection = createConnection(options, () => {
    stopHeartbeat();
    guard?.close();
    subscriptions.close();
  });
  const subscriptions = createSubscriptions({
    ...thread,
    send: connection.send,
    gather: (last) => pause(environment, last % (END_EVENT + 1) === END_EVENT ? GATHER_ENDED_MS : GATHER_MS),
  });
  const onMessage = createMessageQueue(options, connection, createCommandHandler(options, connection, subscriptions));
  const stopHeartbeat = startHeartbeat(options, connection);
  const guard = thread.guard((revocation) => revocation && connection.refuse(revocation));
  subscriptions.run().then(
    () => connection.close(CLOSE.going_away, "The events have ended. Connect again"),
    (error: unknown) => connection.fail("Reading a stream failed", error, "Internal server error"),
  );
  return { onMessage, onClose: connection.end };
}

/** Handles messages one after the other. Bounds how many wait. */
function createMessageQueue(
  { max_bytes, commands }: SessionOptions,
  connection: Connection,
  handle: (text: string) => Promise<void>,
): Session["onMessage"] {
  let waiting = 0;
  let waiting_bytes = 0;
  let last = Promise.resolve();

  return (data) => {
    if (connection.closed) return;
    if (typeof data !== "string") return connection.close(CLOSE.unsupported_data, "Commands are text");
    const bytes = data.length > max_bytes ? data.length : sizeOf(data);
    if (bytes > max_bytes) return connection.close(CLOSE.too_large, `A message has at most ${max_bytes} bytes`);
    waiting++;
    waiting_bytes += bytes;
    if (waiting > MAX_WAITING || waiting_bytes > 2 * max_bytes) {
      return connection.close(CLOSE.too_many, "Too many commands at once");
    }
    last = last
      // A storage that answers at once must not let the commands of one socket fill a tick.
      .then(() => commands.room(1))
      .then(() => (connection.closed ? undefined : handle(data)))
      .catch((error: unknown) => connection.fail("A command failed", error, "Internal server error"))
      .then(() => {
        waiting--;
        waiting_bytes -= bytes;
      });
  };
}

/** Executes the command in a message, and sends its answer. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
function createCommandHandler(
  options: SessionOptions,
  connection: Connection,
  subscriptions: Subscriptions,
): (text: string) => Promise<void> {
  const { environment, thread, thread_id } = options;
  /** The next command waits until the client has room for its answer. */
  const answer = (value: CommandAnswer): Promise<unknown> => connection.send(JSON.stringify(value));

  function subscribe(id: number, params: JsonObject): void {
    const problem = problemOfChannels(params.channels);
    if (problem) throw invalid(`subscription.subscribe ${problem}`);
    if (subscriptions.size >= MAX_SUBSCRIPTIONS) {
      throw invalid(
        `A socket has at most ${MAX_SUBSCRIPTIONS} subscriptions. Unsubscribe one, or open another socket.`,
      );
    }
    const filter = options.readFilter(params);
    if (subscriptions.namespaces + (filter.namespaces?.length ?? 0) > MAX_NAMESPACES) {
      throw invalid(`The subscriptions of a socket have at most ${MAX_NAMESPACES} namespaces. Open another socket.`);
    }
    const subscription_id = environment.uuid();
    // Other commands do not wait for the replay of another subscription, behind which this answer comes.
    subscriptions.add(subscription_id, filter, (replayed_events, applied_through_seq) => {
      const result = { subscription_id, replayed_events };
      void answer({ type: "success", id, result, meta: { thread_id, applied_through_seq } });
    });
  }

  function unsubscribe({ subscription_id }: JsonObject): JsonObject {
    const id = typeof subscription_id === "string" ? subscription_id : "it has no subscription_id";
    if (!subscriptions.remove(id)) throw new CommandError("no_such_subscription", `Unknown subscription: ${id}`);
    return {};
  }

  async function execute({ id, method, params = {} }: Command): Promise<void> {
    const revocation = await thread.findRevocation();
    if (revocation) connection.refuse(revocation);
    else if (method === "subscription.subscribe") subscribe(id, params);
    else if (method === "subscription.unsubscribe") {
      const result = unsubscribe(params);
      const { last: applied_through_seq } = await thread.count([]);
      await answer({ type: "success", id, result, meta: { thread_id, applied_through_seq } });
    } else await answer(await thread.command({ id, method, params }));
  }

  /** The answer to an error. Clients see only texts of errors that are meant for them. */
  function failure(id: number, error: unknown): CommandAnswer {
    const known = errorAnswer(id, error, { thread_id });
    if (known) return known;
    const code = error instanceof ServiceError ? error.code : "internal";
    if (!(error instanceof ServiceError)) connection.log("A command failed", error);
    const message = error instanceof ServiceError ? error.message : "Internal server error";
    const errors = { forbidden: "permission_denied", not_found: "no_such_run", invalid: "invalid_argument" } as const;
    const error_code = Object.hasOwn(errors, code) ? errors[code as keyof typeof errors] : "unknown_error";
    return { type: "error", id, error: error_code, message, meta: { thread_id } };
  }

  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: each way in which a message can fail has its own answer
  async function handle(text: string): Promise<void> {
    let value: unknown;
    try {
      value = await options.parse(text);
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      const message = error.code === "bad_request" ? NO_JSON : error.message;
      await answer({ type: "error", id: null, error: "invalid_argument", message });
      return;
    }
    const command = readCommand(value);
    if (!command) {
      await answer({ type: "error", id: null, error: "invalid_argument", message: NO_COMMAND });
      return;
    }
    try {
      await execute(command);
    } catch (error) {
      if (error instanceof ServiceError && error.code === "unauthenticated") return connection.refuse(error);
      await answer(failure(command.id, error));
    }
  }

  return handle;
}

interface Subscription {
  readonly id: string;
  readonly filter: EventFilter;
  readonly passes: Passes;
  /** Answers the subscription. */
  readonly answer: (replayed: number, last: number) => void;
  answered: boolean;
  /** True once it was sent what was kept up to the socket's position. */
  replayed: boolean;
}

interface SubscriptionOptions {
  subscribe(filter: EventFilter): Reader<SentEvent>;
  kept(filter: EventFilter): AsyncIterable<SentEvent>;
  count(filters: readonly EventFilter[]): Promise<KeptEvents>;
  /** Sends an event. Resolves when there is room for the next one; to false when the socket has closed. */
  send(text: string): Promise<boolean>;
  /** Waits a moment for subscriptions that the client sends together. `last`: the newest event. */
  gather(last: number): Promise<void>;
}

type Subscriptions = ReturnType<typeof createSubscriptions>;

/**
 * All subscriptions share one reader, so that the end of a run follows all of its events, whichever subscription they are for. New
 * subscriptions first get the kept events up to the position of the reader, in one replay for those that came together: after a
 * reconnect the SDK sends all of its own at once. Then a reader with the wider filter continues there.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
function createSubscriptions(options: SubscriptionOptions) {
  const active = new Map<string, Subscription>();
  let closed = false;
  /** The `seq` of the last event that was read; null before the first subscription. */
  let position: number | null = null;
  /** Counts the changes of `active`. */
  let version = 0;
  let newest = 0;
  let leave = (): void => {};

  function update(): void {
    version++;
    leave();
  }

  /** Answers come before the first event: clients drop what comes earlier. */
  async function answer(fresh: readonly Subscription[]): Promise<void> {
    const waiting = fresh.filter(({ answered }) => !answered);
    if (waiting.length === 0) return;
    const { counts, last } = await options.count(waiting.map(({ filter }) => filter));
    newest = last;
    for (const [at, subscription] of waiting.entries()) {
      subscription.answered = true;
      subscription.answer(counts[at] as number, last);
    }
  }

  /** Sends what new subscriptions missed. */
  async function replay(fresh: readonly Subscription[], until: number): Promise<void> {
    const since = firstOf(fresh);
    if (since >= until) return;
    for await (const event of options.kept({ ...union(fresh), since })) {
      const wanting = fresh.filter(({ id }) => active.has(id));
      if (event.seq > until || wanting.length === 0) break;
      if (isWanted(event, wanting) && !(await options.send(event.data))) break;
    }
  }

  /** Sends live events until the subscriptions change. Resolves to false when the events have ended. */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: a change of the subscriptions ends it at each step
  async function follow(reader: Reader<SentEvent>, since: number): Promise<boolean> {
    leave = reader.leave;
    try {
      while (version === since) {
        const ready = await reader.next();
        if (ready.length === 0) return version !== since;
        for (const event of ready) {
          // The position stays: the next reader begins with this event.
          if (version !== since) return true;
          position = Math.max(position ?? 0, event.seq);
          if (isWanted(event, active.values())) await options.send(event.data);
        }
      }
      return true;
    } finally {
      reader.leave();
    }
  }

  return {
    get size(): number {
      return active.size;
    },
    /** How many namespaces their filters have: each event is compared with all of them. */
    get namespaces(): number {
      return [...active.values()].reduce((sum, { filter }) => sum + (filter.namespaces?.length ?? 0), 0);
    },
    add(id: string, filter: EventFilter, answer: Subscription["answer"]): void {
      active.set(id, { id, filter, passes: compileFilter(filter), answer, answered: false, replayed: false });
      update();
    },
    /** False if there is none. */
    remove(id: string): boolean {
      const removed = active.delete(id);
      if (removed) update();
      return removed;
    },
    close(): void {
      closed = true;
      active.clear();
      update();
    },
    /** Sends events until `close`, the end of the events, or a failed read. Resolves to false after `close`. */
    // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: a change of the subscriptions starts it over after each wait
    async run(): Promise<boolean> {
      while (!closed) {
        const since = version;
        const fresh = [...active.values()].filter(({ replayed }) => !replayed);
        if (fresh.length > 0) {
          await answer(fresh);
          if (version === since) await options.gather(newest);
          if (version !== since) continue;
          for (const subscription of fresh) subscription.replayed = true;
          if (position === null) position = firstOf(fresh);
          else await replay(fresh, position);
          if (version !== since) continue;
        }
        const reader = options.subscribe({ ...union([...active.values()]), since: position ?? 0 });
        if (!(await follow(reader, since))) return true;
      }
      return false;
    },
  };
}

const sinceOf = ({ filter }: Subscription): number => filter.since ?? 0;

/** The lowest `seq` behind which one of them wants events. */
const firstOf = (all: readonly Subscription[]): number => Math.min(...all.map(sinceOf));

function isWanted({ seq, event, namespace, name }: SentEvent, by: Iterable<Subscription>): boolean {
  for (const one of by) if (seq > sinceOf(one) && one.passes(event, namespace, name)) return true;
  return false;
}

/** A filter that lets pass what any of them lets pass, and perhaps more. */
function union(all: readonly Subscription[]): EventFilter {
  const filters = all.map(({ filter }) => filter);
  const channels = [...new Set(filters.flatMap((filter) => filter.channels))];
  if (!filters.every(({ namespaces = [] }) => namespaces.length > 0)) return { channels };
  const namespaces = filters.flatMap((filter) => filter.namespaces ?? []);
  const depths = filters.map(({ depth = Number.POSITIVE_INFINITY }) => depth);
  const depth = Math.max(...depths);
  return { channels, namespaces, ...(Number.isFinite(depth) ? { depth } : {}) };
}
