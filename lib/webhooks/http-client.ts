/** Sends HTTP requests by `node:http`, only to addresses that were checked. */
import type { Environment } from "../environment.ts";

/** A request to the receiver of a webhook. */
export interface OutboundRequest {
  /** Absolute, http or https. Its host is sent as `Host` and checked against the certificate. */
  readonly url: string;
  readonly method: "POST";
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: string;
  /** The timeout of the whole exchange, including the connection. */
  readonly timeout_ms: number;
  readonly connect_timeout_ms: number;
}

/** The response of a receiver. */
export interface OutboundResponse {
  readonly status: number;
  readonly retry_after: string | null;
  /** The address of the connection; null when the runtime does not report it. */
  readonly address: string | null;
  /** The start of the body, at most 2 KiB; absent if there is none or it was not read. */
  readonly body?: Uint8Array;
}

/**
 * Sends the request to one of the addresses, without further lookups, proxies or redirects. Resolves with any status. Rejects with a
 * `SendError` when there is no response or the signal aborts.
 */
export type SendRequest = (
  request: OutboundRequest,
  addresses: readonly string[],
  signal: AbortSignal,
) => Promise<OutboundResponse>;

/** A request without a response. `code` is stored with the attempt. */
export class SendError extends Error {
  readonly code: "timeout" | "network_error" | "aborted";
  /** The address of the connection, if known. */
  readonly address: string | null;
  constructor(code: SendError["code"], address: string | null, options?: ErrorOptions) {
    super(code, options);
    this.name = "SendError";
    this.code = code;
    this.address = address;
  }
}

/** The maximum number of bytes of a response body to read. */
export const MAX_RESPONSE_BYTES = 2048;

// The core is compiled without runtime types, so these declare the parts of Node's modules that are used here.
interface Socket {
  readonly remoteAddress?: string | undefined;
  once(event: "connect" | "secureConnect", listener: () => void): unknown;
}
interface Incoming {
  readonly statusCode?: number | undefined;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly socket?: Socket | null;
  on(event: "data", listener: (chunk: Uint8Array) => void): unknown;
  on(event: "end" | "error" | "close", listener: () => void): unknown;
}
interface Outgoing {
  on(event: "error", listener: (error: unknown) => void): unknown;
  on(event: "close", listener: () => void): unknown;
  on(event: "socket", listener: (socket: Socket) => void): unknown;
  on(event: "response", listener: (response: Incoming) => void): unknown;
  end(body: Uint8Array): unknown;
  destroy(): unknown;
}
export interface Http {
  readonly Agent: new (options: { readonly keepAlive: boolean; readonly proxyEnv: object }) => object;
  request(options: Readonly<Record<string, unknown>>): Outgoing;
}
type Lookup = (
  host: string,
  options: { readonly all?: boolean } | number,
  callback: (error: null, address: string | readonly { address: string; family: number }[], family?: number) => void,
) => void;

interface HttpRequestOptions {
  /** The module of the scheme of the URL. */
  readonly http: Http;
  readonly environment: Pick<Environment, "timer">;
  readonly request: OutboundRequest;
  /** The addresses to connect to, instead of those of the host name. */
  readonly addresses: readonly string[];
  readonly signal: AbortSignal;
}

/**
 * Sends one request to one of these addresses, without keep-alive and proxies, and closes the connection. Resolves with the
 * status and at most 2 KiB of the body, also if the body fails. Rejects with a SendError when a timeout passes, the network
 * fails or `signal` aborts.
 */
export function sendHttpRequest({
  http,
  environment,
  request,
  addresses,
  signal,
}: HttpRequestOptions): Promise<OutboundResponse> {
  return new Promise((resolve, reject) => {
    const url = new URL(request.url);
    const host = url.hostname.replace(/^\[|\]$/g, "");
    const body = new TextEncoder().encode(request.body);
    // Not every runtime reports the address of a connection. A single one is known beforehand.
    let address = addresses.length === 1 ? (addresses[0] as string) : null;
    let isSettled = false;
    const settle = (finish: () => void): void => {
      if (isSettled) return;
      isSettled = true;
      cancelConnect();
      cancelTimeout();
      signal.removeEventListener("abort", onAbort);
      finish();
      outgoing.destroy();
    };
    const fail = (code: SendError["code"], cause?: unknown): void =>
      settle(() => reject(new SendError(code, address, { cause })));
    const onAbort = (): void => fail("aborted", signal.reason);
    const outgoing = http.request({
      protocol: url.protocol,
      host,
      port: url.port === "" ? undefined : Number(url.port),
      method: request.method,
      path: `${url.pathname}${url.search}`,
      // A new agent without keep-alive never reuses a connection to another address. `proxyEnv: {}` hides proxy variables.
      agent: new http.Agent({ keepAlive: false, proxyEnv: {} }),
      lookup: createFixedLookup(addresses),
      autoSelectFamilyAttemptTimeout: Math.max(250, Math.floor(request.connect_timeout_ms / addresses.length)),
      // SNI allows names only, not addresses.
      ...(isAddress(host) ? {} : { servername: host }),
      headers: { ...Object.fromEntries(request.headers), host: url.host, "content-length": String(body.length) },
    });
    const cancelConnect = environment.timer(request.connect_timeout_ms, () => fail("timeout"));
    const cancelTimeout = environment.timer(request.timeout_ms, () => fail("timeout"));
    outgoing.on("error", (error) => fail("network_error", error));
    outgoing.on("close", () => fail("network_error"));
    outgoing.on("socket", (socket) => {
      const connected = (): void => {
        address = socket.remoteAddress ?? address;
        cancelConnect();
      };
      socket.once(url.protocol === "https:" ? "secureConnect" : "connect", connected);
    });
    outgoing.on("response", (response) => {
      cancelConnect();
      const status = response.statusCode ?? 0;
      const retry_after = response.headers["retry-after"] ?? null;
      address = response.socket?.remoteAddress ?? address;
      // Only the status counts: an error of the body is ignored. The timeout still applies while it is read.
      const succeed = (): void => settle(() => resolve({ status, retry_after, address, body: start.slice(0, read) }));
      const start = new Uint8Array(MAX_RESPONSE_BYTES);
      let read = 0;
      response.on("data", (chunk: Uint8Array) => {
        start.set(chunk.subarray(0, MAX_RESPONSE_BYTES - read), read);
        read = Math.min(read + chunk.length, MAX_RESPONSE_BYTES);
        if (read === MAX_RESPONSE_BYTES) succeed();
      });
      response.on("end", succeed);
      response.on("error", succeed);
      response.on("close", succeed);
    });
    if (signal.aborted) onAbort();
    else {
      signal.addEventListener("abort", onAbort, { once: true });
      outgoing.end(body);
    }
  });
}

const isAddress = (host: string): boolean => host.includes(":") || /^[\d.]+$/.test(host);

/** Returns a lookup function that gives these addresses for any name: all of them, or the first if it is asked for one. */
function createFixedLookup(addresses: readonly string[]): Lookup {
  const all = addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));
  return (_host, options, callback) => {
    if (typeof options === "object" && options.all) callback(null, all);
    else callback(null, all[0]?.address ?? "", all[0]?.family);
  };
}
