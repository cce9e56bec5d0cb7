/** The caller for whom a server counts its limits: a credential, or the address of the client. */
import type { Principal } from "../auth/principal.ts";
import type { HandlerHost } from "./route.ts";

/** The second argument of a handler that `Bun.serve` and `Deno.serve` call directly. */
interface RuntimeHost {
  requestIP?(request: Request): { readonly address: string } | null;
  readonly remoteAddr?: { readonly hostname?: string };
  /** Of Deno: rejects when the client disconnects before the response is complete. */
  readonly completed?: Promise<void>;
}

const UNKNOWN = "unknown";

/** Returns the address of the connection, or null if the host does not provide it. Headers never name it: every client can send them. */
function connectionAddress(host: HandlerHost | object, request: Request): string | null {
  if ("address" in host && typeof host.address === "string") return host.address;
  const { requestIP, remoteAddr } = host as RuntimeHost;
  if (typeof requestIP === "function") return requestIP.call(host, request)?.address ?? null;
  return typeof remoteAddr?.hostname === "string" ? remoteAddr.hostname : null;
}

/** Returns a signal that aborts when the client disconnects before its response is complete. */
export function getDisconnectSignal(host: HandlerHost | object, request: Request): AbortSignal {
  if ("signal" in host && host.signal) return host.signal as AbortSignal;
  const { completed } = host as RuntimeHost;
  // The signal of a request on Deno aborts after complete responses, too.
  if (!(completed instanceof Promise)) return request.signal;
  const disconnected = new AbortController();
  completed.catch(() => disconnected.abort());
  return disconnected.signal;
}

/** Returns the network of an address: a client of IPv6 has all addresses of a /64. */
function addressNetwork(address: string): string {
  const [, mapped] = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address) ?? [];
  if (mapped !== undefined) return mapped;
  if (!address.includes(":")) return address;
  const [head = "", tail] = address.replace(/%.*$/, "").toLowerCase().split("::");
  const groups = head.split(":").filter((group) => group !== "");
  const end = tail === undefined ? [] : tail.split(":").filter((group) => group !== "");
  const zeros = tail === undefined ? 0 : 8 - groups.length - end.length;
  const all = [...groups, ...Array.from({ length: Math.max(0, zeros) }, () => "0"), ...end];
  return `${all
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ""))
    .join(":")}::/64`;
}

/** Returns the name under which the use of a caller is counted: its user or key, or without authentication its address. */
export function toCallerName(
  { user, api_key }: Pick<Principal, "user" | "api_key">,
  host: HandlerHost | object,
  request: Request,
): string {
  if (user) return `user ${user.identity}`;
  if (api_key !== null) return `key ${api_key}`;
  const address = connectionAddress(host, request);
  return `address ${address === null ? UNKNOWN : addressNetwork(address)}`;
}
