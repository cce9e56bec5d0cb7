/** The connection of a WebSocket: sends one message after another as the client takes them, and closes one that takes nothing. */
import { type Budget, type Environment, pause, type TickLimit } from "../environment.ts";
import type { ServiceError } from "../errors.ts";
import { pieceEnd } from "../json.ts";

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
  readonly limit: TickLimit;
  /** The large messages that all sockets without `sendPart` buffer, in characters. */
  readonly whole: Budget;
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

const NOT_VALID = "The credential, or its permission, is not valid any more";

const BEAT_MS = 5_000;
/** A client that takes nothing during this many heartbeats is disconnected. */
const STALLED_BEATS = 6;
/** Messages wait while this many bytes have not left the socket. */
const BUFFERED_BYTES = 256 * 1024;
const ROOM_POLL_MS = 20;
/** The size of a text that counts as one in the limit of a tick, in characters. */
const CHUNK_SIZE = 4 * 1024;
/** The size of a part of a message, in characters. */
const PART_SIZE = 64 * 1024;

/** A socket until one side closes it. */
export interface Connection {
  readonly closed: boolean;
  /** How many messages and parts were sent. */
  readonly sent: number;
  log(message: string, error: unknown): void;
  /** Sends a message after those before it, when the client has room. Resolves to false when the socket has closed. */
  send(text: string): Promise<boolean>;
  close(code: number, reason: string): void;
  /** Closes after the permission was lost. */
  refuse(refusal: ServiceError): void;
  /** Closes after an error of the server. */
  fail(message: string, error: unknown, reason: string): void;
  /** The socket has closed. */
  end(): void;
}

const isStalled = (socket: SessionSocket): boolean => socket.bufferedAmount > BUFFERED_BYTES;

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createConnection(options: ConnectionOptions, onEnd: () => void): Connection {
  const { environment, limit, whole, socket, thread_id, ids } = options;
  let closed = false;
  let sent = 0;
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
  async function room(): Promise<void> {
    while (!closed && isStalled(socket)) await pause(environment, ROOM_POLL_MS);
  }

  async function put(text: string, write: () => void): Promise<void> {
    await room();
    await limit.room(Math.ceil(text.length / CHUNK_SIZE));
    if (closed) return;
    try {
      write();
      sent++;
    } catch (error) {
      fail("Sending to a WebSocket failed", error, "Sending failed");
    }
  }

  /** In parts, so that a slow client costs no copy of a large message. */
  async function putParts(text: string, write: NonNullable<SessionSocket["sendPart"]>): Promise<void> {
    for (let from = 0, to = 0; from < text.length && !closed; from = to) {
      to = pieceEnd(text, from + PART_SIZE);
      const part = text.slice(from, to);
      await put(part, () => write(part, to === text.length));
    }
  }

  async function deliver(text: string): Promise<boolean> {
    if (text.length > PART_SIZE && socket.sendPart) await putParts(text, (part, end) => socket.sendPart?.(part, end));
    else if (text.length <= BUFFERED_BYTES) await put(text, () => socket.send(text));
    else {
      const release = await whole.take(text.length);
      await put(text, () => socket.send(text));
      await room();
      release();
    }
    return !closed;
  }

  return {
    get closed() {
      return closed;
    },
    get sent() {
      return sent;
    },
    log,
    send(text) {
      const delivered = last.then(() => deliver(text));
      last = delivered;
      return delivered;
    },
    close,
    refuse: ({ code }) => close(CLOSE[code as "forbidden"] ?? CLOSE.forbidden, NOT_VALID),
    fail,
    end,
  };
}

/** Closes the socket of a client that does not read. The result stops it. */
export function startHeartbeat(options: ConnectionOptions, connection: Connection): () => void {
  const { environment, socket } = options;
  let stalled = 0;
  let sent = 0;
  let cancel = (): void => {};

  function beat(): void {
    cancel = environment.timer(BEAT_MS, () => {
      stalled = isStalled(socket) && connection.sent === sent ? stalled + 1 : 0;
      sent = connection.sent;
      if (stalled === STALLED_BEATS) return connection.close(CLOSE.too_slow, "The client does not read");
      beat();
    });
  }

  beat();
  return () => cancel();
}
