/** The connection of a WebSocket: sends messages in order as the client reads them, and closes if it stops reading. */
import { type Environment, pause, type TickBudget, type WeightedSemaphore } from "../environment.ts";
import type { ServiceError } from "../errors.ts";
import { surrogateSafeEnd } from "../json.ts";

/** The parts of a WebSocket that a session uses. */
interface SessionSocket {
  /** The number of bytes that are sent and still buffered. */
  readonly bufferedAmount: number;
  send(text: string): void;
  /** Sends a part of a message. The next one continues it, until `last`. Absent if the runtime sends messages only whole. */
  sendPart?(text: string, last: boolean): void;
  close(code: number, reason: string): void;
}

export interface ConnectionOptions {
  readonly environment: Environment;
  /** Limits what all sessions send in one tick of the event loop. */
  readonly sendBudget: TickBudget;
  /** Limits the large messages that all sockets without `sendPart` buffer, in characters. */
  readonly largeMessageBudget: WeightedSemaphore;
  readonly socket: SessionSocket;
  readonly thread_id: string;
  /** Members of every log record. */
  readonly ids: Readonly<Record<string, string>>;
}

/** The close codes of the server. From 4000 on: 4000 + the HTTP status of the error. */
export const CLOSE = {
  going_away: 1001,
  unsupported_data: 1003,
  too_large: 1009,
  unauthenticated: 4401,
  forbidden: 4403,
  not_found: 4404,
  too_slow: 4408,
  too_many: 4429,
  internal: 4500,
} as const;

const ACCESS_LOST = "The credential, or its permission, is not valid any more";

const HEARTBEAT_MS = 5_000;
/** A client that reads nothing during this many heartbeats is disconnected. */
const MAX_STALLED_HEARTBEATS = 6;
/** Messages wait while the socket buffers more than this. */
const MAX_BUFFERED_BYTES = 256 * 1024;
const BUFFER_POLL_MS = 20;
/** The number of characters that count as one unit in the budget of a tick. */
const CHARS_PER_BUDGET_UNIT = 4 * 1024;
const MAX_PART_CHARS = 64 * 1024;

/** A socket until one side closes it. */
export interface Connection {
  readonly isClosed: boolean;
  /** The number of sent messages and parts. */
  readonly sentCount: number;
  log(message: string, error: unknown): void;
  /** Sends a message after those before it, when the client has room. Resolves to false if the socket has closed. */
  send(text: string): Promise<boolean>;
  /** Closes the socket and ends the connection. Has no effect once it has ended. */
  close(code: number, reason: string): void;
  /** Closes the socket after the caller lost access. */
  closeRevoked(revocation: ServiceError): void;
  /** Logs an error of the server and closes the socket. */
  fail(message: string, error: unknown, reason: string): void;
  /** Marks the connection as closed and calls `onEnd`. For a socket that the client closed. */
  end(): void;
}

const isStalled = (socket: SessionSocket): boolean => socket.bufferedAmount > MAX_BUFFERED_BYTES;

/**
 * Creates the connection of a socket. It sends one message after another, each once the client has room, and calls `onEnd` when
 * it closes.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createConnection(options: ConnectionOptions, onEnd: () => void): Connection {
  const { environment, sendBudget, largeMessageBudget, socket, thread_id, ids } = options;
  let isClosed = false;
  let sentCount = 0;
  let last: Promise<unknown> = Promise.resolve();

  function log(message: string, error: unknown): void {
    environment.log({ level: "error", message, thread_id, ...ids, error });
  }

  /** Marks the connection as closed and calls `onEnd`, each time it is called. Does not close the socket. */
  function end(): void {
    isClosed = true;
    onEnd();
  }

  /** Closes the socket and ends the connection. Has no effect once it has ended. */
  function close(code: number, reason: string): void {
    if (isClosed) return;
    end();
    try {
      socket.close(code, reason);
    } catch {
      // The socket has closed already.
    }
  }

  /** Logs the error and closes the connection as an internal error. */
  function fail(message: string, error: unknown, reason: string): void {
    log(message, error);
    close(CLOSE.internal, reason);
  }

  /** Waits until the client has read most of what was sent. */
  async function waitForRoom(): Promise<void> {
    while (!isClosed && isStalled(socket)) await pause(environment, BUFFER_POLL_MS);
  }

  /**
   * Waits for room and for the budget of the tick, and writes. An error of the socket is logged and closes it. Does nothing once
   * closed.
   */
  async function writeWithRoom(text: string, write: () => void): Promise<void> {
    await waitForRoom();
    await sendBudget.waitForRoom(Math.ceil(text.length / CHARS_PER_BUDGET_UNIT));
    if (isClosed) return;
    try {
      write();
      sentCount++;
    } catch (error) {
      fail("Sending to a WebSocket failed", error, "Sending failed");
    }
  }

  /** Sends a text in parts, so that a slow client costs no copy of a large message. */
  async function sendInParts(text: string, write: NonNullable<SessionSocket["sendPart"]>): Promise<void> {
    for (let from = 0, to = 0; from < text.length && !isClosed; from = to) {
      to = surrogateSafeEnd(text, from + MAX_PART_CHARS);
      const part = text.slice(from, to);
      await writeWithRoom(part, () => write(part, to === text.length));
    }
  }

  /**
   * Sends a text once the client has room, large ones in parts or one at a time in all sockets. Resolves to false if the socket
   * has closed.
   */
  async function sendMessage(text: string): Promise<boolean> {
    if (text.length > MAX_PART_CHARS && socket.sendPart)
      await sendInParts(text, (part, end) => socket.sendPart?.(part, end));
    else if (text.length <= MAX_BUFFERED_BYTES) await writeWithRoom(text, () => socket.send(text));
    else {
      const release = await largeMessageBudget.acquire(text.length);
      await writeWithRoom(text, () => socket.send(text));
      await waitForRoom();
      release();
    }
    return !isClosed;
  }

  return {
    get isClosed() {
      return isClosed;
    },
    get sentCount() {
      return sentCount;
    },
    log,
    send(text) {
      const delivered = last.then(() => sendMessage(text));
      last = delivered;
      return delivered;
    },
    close,
    closeRevoked: ({ code }) => close(CLOSE[code as "forbidden"] ?? CLOSE.forbidden, ACCESS_LOST),
    fail,
    end,
  };
}

/**
 * Closes the socket of a client that reads nothing for `MAX_STALLED_HEARTBEATS` intervals. Sends nothing. Returns a function that
 * stops it.
 */
export function startHeartbeat(options: ConnectionOptions, connection: Connection): () => void {
  const { environment, socket } = options;
  let stalledHeartbeats = 0;
  let sentCount = 0;
  let cancel = (): void => {};

  /** Checks the client later, again and again. Closes the connection if it has not read for several checks. */
  function scheduleHeartbeat(): void {
    cancel = environment.timer(HEARTBEAT_MS, () => {
      stalledHeartbeats = isStalled(socket) && connection.sentCount === sentCount ? stalledHeartbeats + 1 : 0;
      sentCount = connection.sentCount;
      if (stalledHeartbeats === MAX_STALLED_HEARTBEATS)
        return connection.close(CLOSE.too_slow, "The client does not read");
      scheduleHeartbeat();
    });
  }

  scheduleHeartbeat();
  return () => cancel();
}
