/** The WebSockets of Bun.serve, with the members of a standard WebSocket that the handler uses. */

/** The socket that Bun passes to the handlers of a server. */
interface ServerWebSocket {
  readonly data: BunSocket;
  readonly readyState: number;
  send(text: string): number;
  close(code?: number, reason?: string): void;
  getBufferedAmount(): number;
}

const OPEN = 1;

type EventType = "message" | "close" | "error";
type Listener = (event: never) => void;

export interface BunSocket {
  readonly bufferedAmount: number;
  send(text: string): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: EventType, listener: Listener): void;
  open(socket: ServerWebSocket): void;
  emit(type: EventType, event: object): void;
}

/**
 * Creates a socket for `server.upgrade`, which Bun connects later with `open`. Until then it sends nothing. `send` throws if Bun
 * drops the message of an open socket. Listeners get the events that are passed to `emit`; listening cannot be ended.
 */
export function createBunSocket(): BunSocket {
  const listeners: (readonly [type: EventType, listener: Listener])[] = [];
  let socket: ServerWebSocket | undefined;
  return {
    get bufferedAmount() {
      return socket?.getBufferedAmount() ?? 0;
    },
    /**
     * Sends a message. Throws if Bun drops the message of an open socket. Does nothing before `open` and on a closed
     * socket, which has an event of its own.
     */
    send(text) {
      // 0: Bun has dropped the message. It also does for a socket that has closed, which has its own event.
      if (socket?.send(text) === 0 && socket.readyState === OPEN) throw new Error("Bun dropped a WebSocket message");
    },
    close: (code, reason) => socket?.close(code, reason),
    addEventListener: (type, listener) => void listeners.push([type, listener]),
    open(connected) {
      socket = connected;
    },
    emit(type, event) {
      for (const [listenedType, listener] of listeners) if (listenedType === type) listener(event as never);
    },
  };
}

interface BunHandlers {
  open(socket: ServerWebSocket): void;
  message(socket: ServerWebSocket, data: unknown): void;
  close(socket: ServerWebSocket): void;
  readonly maxPayloadLength: number;
  readonly idleTimeout: number;
  readonly sendPings: boolean;
}

/**
 * Returns the `websocket` option of Bun.serve, which passes its events to the sockets of `createBunSocket`. Bun buffers a message
 * up to `maxPayloadLength` before the handler sees it.
 */
export const createBunHandlers = (maxPayloadLength: number): BunHandlers => ({
  open: (socket: ServerWebSocket): void => socket.data.open(socket),
  message: (socket: ServerWebSocket, data: unknown): void => socket.data.emit("message", { data }),
  close: (socket: ServerWebSocket): void => socket.data.emit("close", {}),
  maxPayloadLength,
  /** Seconds without a message or a pong; Bun sends pings. */
  idleTimeout: 60,
  sendPings: true,
});
