/** How deliveries leave the process: names are resolved here, and connections go to the addresses that were judged. */
import { type Environment, systemEnvironment } from "../environment.ts";

/** All addresses of a name, IPv4 and IPv6, as text. Rejects, or gives none, when the name cannot be resolved now. */
export type Resolve = (host: string) => Promise<readonly string[]>;

export interface OutboundRequest {
  /** Absolute, http or https. Its host is what `Host` and the certificate are about. */
  readonly url: string;
  readonly method: "POST";
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: string;
  /** For the whole exchange. */
  readonly timeout_ms: number;
  readonly connect_timeout_ms: number;
}

export interface OutboundAnswer {
  readonly status: number;
  readonly retry_after: string | null;
  /** The address that was connected to, where that is known. */
  readonly address: string | null;
}

/**
 * Sends the request to one of the addresses and to nothing else: no other lookup, no proxy, no redirect. Resolves with the
 * answer whatever its status is. Rejects with a `SendError` when there is no answer, or once the signal is aborted.
 */
export type Send = (
  request: OutboundRequest,
  addresses: readonly string[],
  signal: AbortSignal,
) => Promise<OutboundAnswer>;

/** Why there is no answer. `code` is stored with the attempt; the cause stays with the error. */
export class SendError extends Error {
  readonly code: "timeout" | "network_error" | "aborted";
  /** The address that was connected to, if any. */
  readonly address: string | null;
  constructor(code: SendError["code"], address: string | null, options?: ErrorOptions) {
    super(code, options);
    this.name = "SendError";
    this.code = code;
    this.address = address;
  }
}

/** How much of an answer is read: nothing in it is used. */
const MAX_ANSWER_BYTES = 1024;

// What is used of Node's modules, as it is used: the core is compiled without the types of any runtime.
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
interface Http {
  readonly Agent: new (options: { readonly keepAlive: boolean; readonly proxyEnv: object }) => object;
  request(options: Readonly<Record<string, unknown>>): Outgoing;
}
interface Dns {
  lookup(
    host: string,
    options: { readonly all: true; readonly verbatim: boolean },
  ): Promise<readonly { readonly address: string }[]>;
}
type Lookup = (
  host: string,
  options: { readonly all?: boolean } | number,
  callback: (error: null, address: string | readonly { address: string; family: number }[], family?: number) => void,
) => void;

/** A module of the runtime. Bundlers are to leave it where it is. */
const builtin = <Module>(name: string): Promise<Module> =>
  import(/* webpackIgnore: true */ /* @vite-ignore */ name) as Promise<Module>;

/** Resolving and sending by `node:http`; null on runtimes without it. */
export async function systemTransport(
  environment: Pick<Environment, "timer"> = systemEnvironment(),
): Promise<{ readonly resolve: Resolve; readonly send: Send } | null> {
  try {
    const [http, https, dns] = await Promise.all([
      builtin<Http>("node:http"),
      builtin<Http>("node:https"),
      builtin<Dns>("node:dns/promises"),
    ]);
    return {
      // The system's resolver, not DNS queries: it knows /etc/hosts and what else the machine is told, as people expect of every
      // program on it. Whatever it answers is judged.
      resolve: async (host) => (await dns.lookup(host, { all: true, verbatim: true })).map(({ address }) => address),
      send: (request, addresses, signal) => {
        const { protocol } = new URL(request.url);
        return exchange(protocol === "https:" ? https : http, environment, request, addresses, signal);
      },
    };
  } catch {
    return null;
  }
}

function exchange(
  http: Http,
  environment: Pick<Environment, "timer">,
  request: OutboundRequest,
  addresses: readonly string[],
  signal: AbortSignal,
): Promise<OutboundAnswer> {
  return new Promise((resolve, reject) => {
    const url = new URL(request.url);
    const host = url.hostname.replace(/^\[|\]$/g, "");
    const body = new TextEncoder().encode(request.body);
    // Known beforehand where there is only one: not every runtime tells.
    let address = addresses.length === 1 ? (addresses[0] as string) : null;
    let done = false;
    const settle = (finish: () => void): void => {
      if (done) return;
      done = true;
      cancelConnect();
      cancelWhole();
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
      // A connection of its own, without keep-alive: none that was made for another address is used. Where agents look for
      // proxies in the environment, this one finds none.
      agent: new http.Agent({ keepAlive: false, proxyEnv: {} }),
      lookup: only(addresses),
      autoSelectFamilyAttemptTimeout: Math.max(250, Math.floor(request.connect_timeout_ms / addresses.length)),
      // What certificates are about. An address has none to be named by.
      ...(isAddress(host) ? {} : { servername: host }),
      headers: { ...Object.fromEntries(request.headers), host: url.host, "content-length": String(body.length) },
    });
    const cancelConnect = environment.timer(request.connect_timeout_ms, () => fail("timeout"));
    const cancelWhole = environment.timer(request.timeout_ms, () => fail("timeout"));
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
      // The status is the answer: what becomes of the rest changes nothing, unless it keeps us waiting.
      const answered = (): void => settle(() => resolve({ status, retry_after, address }));
      let read = 0;
      response.on("data", (chunk: Uint8Array) => {
        read += chunk.length;
        if (read >= MAX_ANSWER_BYTES) answered();
      });
      response.on("end", answered);
      response.on("error", answered);
      response.on("close", answered);
    });
    if (signal.aborted) onAbort();
    else {
      signal.addEventListener("abort", onAbort, { once: true });
      outgoing.end(body);
    }
  });
}

const isAddress = (host: string): boolean => host.includes(":") || /^[\d.]+$/.test(host);

/** A lookup that answers these addresses, whatever it is asked. */
function only(addresses: readonly string[]): Lookup {
  const all = addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));
  return (_host, options, callback) => {
    if (typeof options === "object" && options.all) callback(null, all);
    else callback(null, all[0]?.address ?? "", all[0]?.family);
  };
}
