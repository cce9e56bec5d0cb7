/** The WebSocket of a thread in the event protocol: its commands, and its subscriptions as one ordered sequence of events. */
import { pause, type TickBudget } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import type { JsonObject } from "../json.ts";
import { END_EVENT_NUMBER } from "../storage/mod.ts";
import {
  compileFilter,
  type EventCounts,
  type EventFilter,
  type EventPredicate,
  type SerializedEvent,
  validateChannels,
} from "../streams/event-filter.ts";
import type { Reader } from "../streams/log.ts";
import type { AuthorizedThreadStream } from "./authorization.ts";
import {
  CommandError,
  type CommandResponse,
  invalidArgumentError,
  type ProtocolCommand,
  readCommand,
  toErrorResponse,
} from "./commands.ts";
import { CLOSE, type Connection, type ConnectionOptions, createConnection, startHeartbeat } from "./connection.ts";

export interface SocketSessionOptions extends ConnectionOptions {
  /** Limits the commands that all sessions execute in one tick of the event loop. */
  readonly commandBudget: TickBudget;
  /** The thread of the socket. The socket closes when its caller loses access. */
  readonly thread: AuthorizedThreadStream;
  /** The maximum size of a message, in bytes. */
  readonly max_bytes: number;
  /** Parses a message. Throws `bad_request` (no JSON), `invalid` and `too_large`. */
  parse(text: string): Promise<unknown>;
  /** Reads the filter in the params of a subscription, whose channels are checked. Throws `invalid`. */
  readFilter(params: JsonObject): EventFilter;
}

export interface SocketSession {
  /** Handles a message of the client. */
  onMessage(data: unknown): void;
  /** Called when the socket has closed. */
  onClose(): void;
}

/** The time that a replay waits for further subscriptions: longer if no run is active, because then its end is part of the replay. */
const REPLAY_DEBOUNCE_MS = 10;
const ENDED_REPLAY_DEBOUNCE_MS = 150;
const MAX_SUBSCRIPTIONS = 100;
/** The maximum of all subscriptions together; as many as the filter of one may have. */
const MAX_NAMESPACES = 1_000;
/** The maximum number of commands that wait for the one before them. */
const MAX_QUEUED_COMMANDS = 100;

const INVALID_JSON_TEXT = "Protocol commands must be valid JSON.";
const INVALID_COMMAND_TEXT = "Protocol commands must include an integer id and string method.";

const countUtf8Bytes = (text: string): number => new TextEncoder().encode(text).length;

/**
 * Opens the session of a socket: commands, subscriptions, heartbeat and guard. It closes the socket if the caller loses access or
 * the events end, and stops all at the end of the socket.
 */
export function createSocketSession(options: SocketSessionOptions): SocketSession {
  const { environment, thread } = options;
  const connection = createConnection(options, () => {
    stopHeartbeat();
    guard?.close();
    subscriptions.close();
  });
  const subscriptions = createSubscriptions({
    ...thread,
    send: connection.send,
    debounce: (last) =>
      pause(
        environment,
        last % (END_EVENT_NUMBER + 1) === END_EVENT_NUMBER ? ENDED_REPLAY_DEBOUNCE_MS : REPLAY_DEBOUNCE_MS,
      ),
  });
  const onMessage = createMessageQueue(options, connection, createCommandHandler(options, connection, subscriptions));
  const stopHeartbeat = startHeartbeat(options, connection);
  const guard = thread.guard((revocation) => revocation && connection.closeRevoked(revocation));
  subscriptions.run().then(
    () => connection.close(CLOSE.going_away, "The events have ended. Connect again"),
    (error: unknown) => connection.fail("Reading a stream failed", error, "Internal server error"),
  );
  return { onMessage, onClose: connection.end };
}

/**
 * Returns the handler of messages, which handles one after the other. Closes the socket if too many wait, or one is binary, too
 * large or fails.
 */
function createMessageQueue(
  { max_bytes, commandBudget }: SocketSessionOptions,
  connection: Connection,
  handle: (text: string) => Promise<void>,
): SocketSession["onMessage"] {
  let queuedCommands = 0;
  let queuedBytes = 0;
  let last = Promise.resolve();

  return (data) => {
    if (connection.isClosed) return;
    if (typeof data !== "string") return connection.close(CLOSE.unsupported_data, "Commands are text");
    const bytes = data.length > max_bytes ? data.length : countUtf8Bytes(data);
    if (bytes > max_bytes) return connection.close(CLOSE.too_large, `A message has at most ${max_bytes} bytes`);
    queuedCommands++;
    queuedBytes += bytes;
    if (queuedCommands > MAX_QUEUED_COMMANDS || queuedBytes > 2 * max_bytes) {
      return connection.close(CLOSE.too_many, "Too many commands at once");
    }
    last = last
      // With a fast storage, the commands of one socket must not fill a tick.
      .then(() => commandBudget.waitForRoom(1))
      .then(() => (connection.isClosed ? undefined : handle(data)))
      .catch((error: unknown) => connection.fail("A command failed", error, "Internal server error"))
      .then(() => {
        queuedCommands--;
        queuedBytes -= bytes;
      });
  };
}

/** Creates a function that executes the command in a message and sends its response. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
function createCommandHandler(
  options: SocketSessionOptions,
  connection: Connection,
  subscriptions: Subscriptions,
): (text: string) => Promise<void> {
  const { environment, thread, thread_id } = options;
  /** The next command waits until the client has room for the response. */
  const sendResponse = (response: CommandResponse): Promise<unknown> => connection.send(JSON.stringify(response));

  /**
   * Adds a subscription, whose response follows its replay. Throws `invalid_argument` for invalid channels and too many
   * subscriptions or namespaces.
   */
  function subscribe(id: number, params: JsonObject): void {
    const problem = validateChannels(params.channels);
    if (problem) throw invalidArgumentError(`subscription.subscribe ${problem}`);
    if (subscriptions.size >= MAX_SUBSCRIPTIONS) {
      throw invalidArgumentError(
        `A socket has at most ${MAX_SUBSCRIPTIONS} subscriptions. Unsubscribe one, or open another socket.`,
      );
    }
    const filter = options.readFilter(params);
    if (subscriptions.namespaces + (filter.namespaces?.length ?? 0) > MAX_NAMESPACES) {
      throw invalidArgumentError(
        `The subscriptions of a socket have at most ${MAX_NAMESPACES} namespaces. Open another socket.`,
      );
    }
    const subscription_id = environment.uuid();
    // The response follows the replay of other subscriptions. Other commands do not wait for it.
    subscriptions.add(subscription_id, filter, (replayed_events, applied_through_seq) => {
      const result = { subscription_id, replayed_events };
      void sendResponse({ type: "success", id, result, meta: { thread_id, applied_through_seq } });
    });
  }

  /** Ends a subscription and returns an empty result. Throws `no_such_subscription` for an unknown one. */
  function unsubscribe({ subscription_id }: JsonObject): JsonObject {
    const id = typeof subscription_id === "string" ? subscription_id : "it has no subscription_id";
    if (!subscriptions.remove(id)) throw new CommandError("no_such_subscription", `Unknown subscription: ${id}`);
    return {};
  }

  /**
   * Executes a command and sends its response, after a check of the caller's access. The response to a subscription follows later
   * and is not awaited. Closes the socket, without a response, if the access was revoked. Rejects, also for wrong params, without
   * a response.
   */
  async function execute({ id, method, params = {} }: ProtocolCommand): Promise<void> {
    const revocation = await thread.findRevocation();
    if (revocation) connection.closeRevoked(revocation);
    else if (method === "subscription.subscribe") subscribe(id, params);
    else if (method === "subscription.unsubscribe") {
      const result = unsubscribe(params);
      const { last: applied_through_seq } = await thread.count([]);
      await sendResponse({ type: "success", id, result, meta: { thread_id, applied_through_seq } });
    } else await sendResponse(await thread.command({ id, method, params }));
  }

  /** Creates the response to an error. Logs internal errors and hides their texts. */
  function toFailureResponse(id: number, error: unknown): CommandResponse {
    const response = toErrorResponse(id, error, { thread_id });
    if (response) return response;
    const code = error instanceof ServiceError ? error.code : "internal";
    if (!(error instanceof ServiceError)) connection.log("A command failed", error);
    const message = error instanceof ServiceError ? error.message : "Internal server error";
    const errors = { forbidden: "permission_denied", not_found: "no_such_run", invalid: "invalid_argument" } as const;
    const error_code = Object.hasOwn(errors, code) ? errors[code as keyof typeof errors] : "unknown_error";
    return { type: "error", id, error: error_code, message, meta: { thread_id } };
  }

  /**
   * Parses and executes a message. Sends an error response for a wrong one and for a failure. Closes the socket if the caller is
   * not authenticated any more.
   */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: each way in which a message can fail has its own answer
  async function handleMessage(text: string): Promise<void> {
    let value: unknown;
    try {
      value = await options.parse(text);
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      const message = error.code === "bad_request" ? INVALID_JSON_TEXT : error.message;
      await sendResponse({ type: "error", id: null, error: "invalid_argument", message });
      return;
    }
    const command = readCommand(value);
    if (!command) {
      await sendResponse({ type: "error", id: null, error: "invalid_argument", message: INVALID_COMMAND_TEXT });
      return;
    }
    try {
      await execute(command);
    } catch (error) {
      if (error instanceof ServiceError && error.code === "unauthenticated") return connection.closeRevoked(error);
      await sendResponse(toFailureResponse(command.id, error));
    }
  }

  return handleMessage;
}

interface Subscription {
  readonly id: string;
  readonly filter: EventFilter;
  readonly passes: EventPredicate;
  /** Sends the response to the subscription. */
  readonly acknowledge: (replayed: number, last: number) => void;
  isAcknowledged: boolean;
  /** True once the stored events up to the socket's position were sent. */
  isReplayed: boolean;
}

interface SubscriptionOptions {
  subscribe(filter: EventFilter): Reader<SerializedEvent>;
  readStored(filter: EventFilter): AsyncIterable<SerializedEvent>;
  count(filters: readonly EventFilter[]): Promise<EventCounts>;
  /** Sends an event. Resolves when there is room for the next one; to false if the socket has closed. */
  send(text: string): Promise<boolean>;
  /** Waits for subscriptions that the client sends together. `last` is the newest event. */
  debounce(last: number): Promise<void>;
}

/** The subscriptions of a socket. */
interface Subscriptions {
  /** The number of subscriptions. */
  readonly size: number;
  /** The number of namespaces in all filters: each event is compared with all of them. */
  readonly namespaces: number;
  /** Adds a subscription or replaces that with its id. `run` acknowledges and replays it, and opens a new reader. */
  add(id: string, filter: EventFilter, acknowledge: Subscription["acknowledge"]): void;
  /** Removes a subscription. Returns false if there is none. */
  remove(id: string): boolean;
  /** Ends all subscriptions and the reader. */
  close(): void;
  /** Sends events. Resolves to true when the events have ended, and to false after `close`. Rejects if a read fails. */
  run(): Promise<boolean>;
}

/**
 * Creates the subscriptions of a socket. They share one reader, so that the end of a run follows all of its events. New subscriptions
 * first get the stored events up to the reader's position, in one replay for those that arrive together: after a reconnect the SDK
 * sends all at once. Then a reader with the wider filter continues there.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
function createSubscriptions(options: SubscriptionOptions): Subscriptions {
  const active = new Map<string, Subscription>();
  let isClosed = false;
  /** The `seq` of the last event that was read; null before the first subscription. */
  let position: number | null = null;
  /** Counts the changes of `active`. */
  let version = 0;
  let newestSeq = 0;
  let leaveReader = (): void => {};

  /** Notes the change of the subscriptions, and leaves the reader so that the next one has them. */
  function update(): void {
    version++;
    leaveReader();
  }

  /**
   * Acknowledges new subscriptions once, with the number of events that a replay sends. Does so before their first event, because
   * clients drop events that come earlier.
   */
  async function acknowledgeAll(newSubscriptions: readonly Subscription[]): Promise<void> {
    const unacknowledged = newSubscriptions.filter(({ isAcknowledged }) => !isAcknowledged);
    if (unacknowledged.length === 0) return;
    const { counts, last } = await options.count(unacknowledged.map(({ filter }) => filter));
    newestSeq = last;
    for (const [index, subscription] of unacknowledged.entries()) {
      subscription.isAcknowledged = true;
      subscription.acknowledge(counts[index] as number, last);
    }
  }

  /**
   * Sends the stored events up to `until` that new subscriptions missed. Ends early if they were removed or the socket has
   * closed.
   */
  async function replay(newSubscriptions: readonly Subscription[], until: number): Promise<void> {
    const since = findLowestSince(newSubscriptions);
    if (since >= until) return;
    for await (const event of options.readStored({ ...mergeFilters(newSubscriptions), since })) {
      const recipients = newSubscriptions.filter(({ id }) => active.has(id));
      if (event.seq > until || recipients.length === 0) break;
      if (passesAny(event, recipients) && !(await options.send(event.data))) break;
    }
  }

  /** Sends live events until the subscriptions change. Resolves to false when the events have ended. */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: a change of the subscriptions ends it at each step
  async function forwardLive(reader: Reader<SerializedEvent>, expectedVersion: number): Promise<boolean> {
    leaveReader = reader.leave;
    try {
      while (version === expectedVersion) {
        const events = await reader.next();
        if (events.length === 0) return version !== expectedVersion;
        for (const event of events) {
          // Keeps the position, so that the next reader starts with this event.
          if (version !== expectedVersion) return true;
          position = Math.max(position ?? 0, event.seq);
          if (passesAny(event, active.values())) await options.send(event.data);
        }
      }
      return true;
    } finally {
      reader.leave();
    }
  }

  return {
    get size() {
      return active.size;
    },
    get namespaces() {
      return [...active.values()].reduce((sum, { filter }) => sum + (filter.namespaces?.length ?? 0), 0);
    },
    add(id, filter, acknowledge) {
      active.set(id, {
        id,
        filter,
        passes: compileFilter(filter),
        acknowledge,
        isAcknowledged: false,
        isReplayed: false,
      });
      update();
    },
    remove(id) {
      const removed = active.delete(id);
      if (removed) update();
      return removed;
    },
    close() {
      isClosed = true;
      active.clear();
      update();
    },
    // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: a change of the subscriptions starts it over after each wait
    async run() {
      while (!isClosed) {
        const expectedVersion = version;
        const newSubscriptions = [...active.values()].filter(({ isReplayed }) => !isReplayed);
        if (newSubscriptions.length > 0) {
          await acknowledgeAll(newSubscriptions);
          if (version === expectedVersion) await options.debounce(newestSeq);
          if (version !== expectedVersion) continue;
          for (const subscription of newSubscriptions) subscription.isReplayed = true;
          if (position === null) position = findLowestSince(newSubscriptions);
          else await replay(newSubscriptions, position);
          if (version !== expectedVersion) continue;
        }
        const reader = options.subscribe({ ...mergeFilters([...active.values()]), since: position ?? 0 });
        if (!(await forwardLive(reader, expectedVersion))) return true;
      }
      return false;
    },
  };
}

const getSince = ({ filter }: Subscription): number => filter.since ?? 0;

/** Returns the lowest `since` of the subscriptions. */
const findLowestSince = (subscriptions: readonly Subscription[]): number => Math.min(...subscriptions.map(getSince));

/** Returns true if one of the subscriptions includes the event and starts before it. */
function passesAny({ seq, event, namespace, name }: SerializedEvent, subscriptions: Iterable<Subscription>): boolean {
  for (const subscription of subscriptions)
    if (seq > getSince(subscription) && subscription.passes(event, namespace, name)) return true;
  return false;
}

/** Returns a filter without `since` that includes all events of the subscriptions, and perhaps more. */
function mergeFilters(subscriptions: readonly Subscription[]): EventFilter {
  const filters = subscriptions.map(({ filter }) => filter);
  const channels = [...new Set(filters.flatMap((filter) => filter.channels))];
  if (!filters.every(({ namespaces = [] }) => namespaces.length > 0)) return { channels };
  const namespaces = filters.flatMap((filter) => filter.namespaces ?? []);
  const depths = filters.map(({ depth = Number.POSITIVE_INFINITY }) => depth);
  const depth = Math.max(...depths);
  return { channels, namespaces, ...(Number.isFinite(depth) ? { depth } : {}) };
}
