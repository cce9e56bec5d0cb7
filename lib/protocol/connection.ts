/** The connection of a WebSocket: sends one message after another as the client takes them, and closes one that takes nothing. */
import { type Environment, pause, type TickBudget, type WeightedSemaphore } from "../environment.ts";
import type { ServiceError } from "../errors.ts";
import { surrogateSafeEnd } from "../json.ts";

/** What a session needs of a socket. */
interface SessionSocket {
  /** Bytes that were sent and have not left yet. */
  readonly bufferedAmount: number;
  send(text: string): void;
  /** Sends a part of a message; the next one continues it, up to the last. Absent where the runtime sends messages whole. */
  sendPart?(text: string, last: boolean): void;
  close(code: number, reason: string): void;
}

export interface ConnectionOptions {
  readonly environment: Environment;
  /** What all sessions may send in one tick of the event loop. */
  readonly sendBudget: TickBudget;
  /** The large messages that all sockets without `sendPart` buffer, in characters. */
  readonly largeMessageBudget: WeightedSemaphore;
  readonly socket: SessionSocket;
  readonly thread_id: string;
  /** Part of every log record. */
  readonly ids: Readonly<Record<string, string>>;
}

/** Why the server closes a socket. From 4000 on: 4000 + the status that a request would get. */
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
/** A client that takes nothing during this many heartbeats is disconnected. */
const MAX_STALLED_HEARTBEATS = 6;
/** Messages wait while this many bytes have not left the socket. */
const MAX_BUFFERED_BYTES = 256 * 1024;
const BUFFER_POLL_MS = 20;
/** The size of a text that counts as one in the limit of a tick, in characters. */
const CHARS_PER_BUDGET_UNIT = 4 * 1024;
/** The size of a part of a message, in characters. */
const MAX_PART_CHARS = 64 * 1024;

/** A socket until one side closes it. */
export interface Connection {
  readonly closed: boolean;
  /** How many messages and parts were sent. */
  readonly sentCount: number;
  log(message: string, error: unknown): void;
  /** Sends a message after those before it, when the client has room. Resolves to false when the socket has closed. */
  send(text: string): Promise<boolean>;
  close(code: number, reason: string): void;
  /** Closes after the permission was lost. */
  closeRevoked(revocation: ServiceError): void;
  /** Closes after an error of the server. */
  fail(message: string, error: unknown, reason: string): void;
  /** The socket has closed. */
  end(): void;
}

const isStalled = (socket: SessionSocket): boolean => socket.bufferedAmount > MAX_BUFFERED_BYTES;

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createConnection(options: ConnectionOptions, onEnd: () => void): Connection {
  const { environment, sendBudget, largeMessageBudget, socket, thread_id, ids } = options;
  let closed = false;
  let sentCount = 0;
  let last: Promise<unknown> = Promise.resolve();

  function log(message: string, error: unknown): void {
    environment.log({ level: "error", message, thread_id, ...ids, error });
  }

  function end(): void {
    closed = true;
    onEnd();
  }

  function close(code: number, reason: string): void {
    if (closed) return;
    end();
    try {
      socket.close(code, reason);
    } catch {
      // It has closed already.
    }
  }

  function fail(message: string, error: unknown, reason: string): void {
    log(message, error);
    close(CLOSE.internal, reason);
  }

  /** Waits until the client has taken most of what was sent. */
  async function waitForRoom(): Promise<void> {
    while (!closed && isStalled(socket)) await pause(environment, BUFFER_POLL_MS);
  }

  async function writeWithRoom(text: string, write: () => void): Promise<void> {
    await waitForRoom();
    await sendBudget.waitForRoom(Math.ceil(text.length / CHARS_PER_BUDGET_UNIT));
    if (closed) return;
    try {
      write();
      sentCount++;
    } catch (error) {
      fail("Sending to a WebSocket failed", error, "Sending failed");
    }
  }

  /** In parts, so that a slow client costs no copy of a large message. */
  async function sendInParts(text: string, write: NonNullable<SessionSocket["sendPart"]>): Promise<void> {
    for (let from = 0, to = 0; from < text.length && !closed; from = to) {
      to = surrogateSafeEnd(text, from + MAX_PART_CHARS);
      const part = text.slice(from, to);
      await writeWithRoom(part, () => write(part, to === text.length));
    }
  }

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
    return !closed;
  }

  return {
    get closed() {
      return closed;
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

/** Closes the socket of a client that does not read. The result stops it. */
export function startHeartbeat(options: ConnectionOptions, connection: Connection): () => void {
  const { environment, socket } = options;
  let stalledHeartbeats = 0;
  let sentCount = 0;
  let cancel = (): void => {};

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
