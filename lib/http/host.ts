/** What a host gives to the handler beside the request. */

/** The part of a standard WebSocket that the handler uses. */
export interface HostSocket {
  readonly bufferedAmount: number;
  send(text: string): void;
  close(code?: number, reason?: string): void;
  /** `message` events have `data`. */
  // biome-ignore lint/suspicious/noExplicitAny: the event types of the runtimes have no common parameter.
  addEventListener(type: "message" | "close" | "error", listener: (event: any) => void): void;
}

/** What a host can do for one request. */
export interface HandlerHost {
  /**
   * Accepts the request as a WebSocket, as `Deno.upgradeWebSocket` does. `response`: what the handler returns; without it a response
   * of status 101 that the host ignores. Null: the handshake is not valid. Messages of more than `max_bytes` may close the socket.
   */
  upgradeWebSocket?(options: {
    readonly max_bytes: number;
  }): { readonly socket: HostSocket; readonly response?: Response } | null;
}
