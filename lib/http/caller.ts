/** Names the caller for whom a handler counts limits: by its credential, or by the address of the client. */
import type { Principal } from "../auth/principal.ts";
import type { HandlerHost } from "./route.ts";

/** The second argument of a handler that `Bun.serve` and `Deno.serve` call directly. */
interface RuntimeHost {
  requestIP?(request: Request): { readonly address: string } | null;
  readonly remoteAddr?: { readonly hostname?: string };
  /** The end of the response on Deno. It rejects when the client disconnects before the response is complete. */
  readonly completed?: Promise<void>;
}

const UNKNOWN_ADDRESS = "unknown";

/**
 * Returns the address of the connection: `address` of the host, else `requestIP` of Bun or `remoteAddr` of Deno.
 * Returns null if the host has none. Headers do not count, because clients can forge them.
 */
function findConnectionAddress(host: HandlerHost | object, request: Request): string | null {
  if ("address" in host && typeof host.address === "string") return host.address;
  const { requestIP, remoteAddr } = host as RuntimeHost;
  if (typeof requestIP === "function") return requestIP.call(host, request)?.address ?? null;
  return typeof remoteAddr?.hostname === "string" ? remoteAddr.hostname : null;
}

/**
 * Returns a signal that aborts when the client disconnects before its response is complete: the signal of the host,
 * else on Deno a new one that aborts when `completed` rejects, else the signal of the request.
 */
export function getDisconnectSignal(host: HandlerHost | object, request: Request): AbortSignal {
  if ("signal" in host && host.signal) return host.signal as AbortSignal;
  const { completed } = host as RuntimeHost;
  // The signal of a request on Deno aborts after complete responses, too.
  if (!(completed instanceof Promise)) return request.signal;
  const disconnected = new AbortController();
  completed.catch(() => disconnected.abort());
  return disconnected.signal;
}

/**
 * Returns the first four groups of an IPv6 address as `a:b:c:d::/64`, because a client of IPv6 has all addresses of a
 * /64. Returns an IPv4 address without its `::ffff:` prefix, and any text without a colon unchanged.
 */
function toNetwork(address: string): string {
  const [, ipv4Address] = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address) ?? [];
  if (ipv4Address !== undefined) return ipv4Address;
  if (!address.includes(":")) return address;
  const [leadingText = "", trailingText] = address.replace(/%.*$/, "").toLowerCase().split("::");
  const groups = leadingText.split(":").filter((group) => group !== "");
  const trailingGroups = trailingText === undefined ? [] : trailingText.split(":").filter((group) => group !== "");
  const zeroCount = trailingText === undefined ? 0 : 8 - groups.length - trailingGroups.length;
  const allGroups = [...groups, ...Array.from({ length: Math.max(0, zeroCount) }, () => "0"), ...trailingGroups];
  return `${allGroups
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ""))
    .join(":")}::/64`;
}

/**
 * Returns the name under which the usage of a caller is counted: `user` and its identity, else `key` and the API key's
 * name, else `address` and the network of the connection. All callers without a known address share one name.
 */
export function toCallerName(
  { user, api_key }: Pick<Principal, "user" | "api_key">,
  host: HandlerHost | object,
  request: Request,
): string {
  if (user) return `user ${user.identity}`;
  if (api_key !== null) return `key ${api_key}`;
  const address = findConnectionAddress(host, request);
  return `address ${address === null ? UNKNOWN_ADDRESS : toNetwork(address)}`;
}
