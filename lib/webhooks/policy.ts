/** Decides to which URLs and IP addresses webhooks may be sent. */
import { isLongerThan } from "../validation.ts";
import { isPublicAddress, isPublicResolvedAddress } from "./addresses.ts";

/** Restricts the URLs of webhooks. */
export interface WebhookUrlOptions {
  /**
   * Hosts; `*.host` allows every subdomain but not the host. Absent or empty: any public host. It does not allow private hosts: see
   * `allow_private_network`.
   */
  readonly allowed_domains?: readonly string[];
  /** Refuses absolute URLs with http. Default false. */
  readonly require_https?: boolean;
  /** The ports for both schemes. Default: 443 for https and 80 for http. */
  readonly allowed_ports?: readonly number[];
  /** Refuses relative URLs, which go to the host application. Default false. */
  readonly disable_loopback?: boolean;
  /** The maximum length of a URL in code points, 1 to 65,536. Default 65,536. */
  readonly max_url_length?: number;
  /** Allows addresses and host names that are not public. Default false. */
  readonly allow_private_network?: boolean;
}

/** The validated options. */
export interface WebhookPolicy {
  /** True if runs accept any webhook and none is sent. */
  readonly disabled: boolean;
  /** The normalized domains; empty for any public host. */
  readonly allowed_domains: readonly string[];
  readonly require_https: boolean;
  /** Null: 443 for https and 80 for http. */
  readonly allowed_ports: readonly number[] | null;
  readonly disable_loopback: boolean;
  readonly max_url_length: number;
  readonly allow_private_network: boolean;
}

/** The reason why a URL is refused. */
export type RefusalReason =
  | "empty"
  | "too_long"
  | "invalid_characters"
  | "scheme_relative"
  | "loopback_disabled"
  | "not_absolute"
  | "scheme_not_allowed"
  | "malformed_authority"
  | "userinfo_not_allowed"
  | "invalid_host"
  | "unparseable"
  | "https_required"
  | "non_canonical_ip"
  | "domain_not_allowed"
  | "ip_not_public"
  | "host_not_public"
  | "port_not_allowed";

type Destination =
  | {
      readonly kind: "absolute";
      readonly scheme: "http" | "https";
      /** Lower case, without a trailing dot; IPv6 addresses in brackets. */
      readonly host: string;
      readonly port: number;
      /** The URL to send to: as parsed, with this host and without its fragment. */
      readonly href: string;
    }
  | {
      readonly kind: "loopback";
      /** The relative URL without its fragment; starts with one `/`. */
      readonly path: string;
    };

export type UrlVerdict =
  | { readonly verdict: "accept"; readonly reason: "ok"; readonly destination: Destination }
  | { readonly verdict: "reject"; readonly reason: RefusalReason }
  | { readonly verdict: "ignore"; readonly reason: "webhooks_disabled" };

type AddressVerdict =
  | { readonly verdict: "send"; readonly reason: "ok"; readonly connect_to: readonly string[] }
  | { readonly verdict: "reject"; readonly reason: "dns_not_public" }
  | { readonly verdict: "retry"; readonly reason: "dns_failed" };

export const MAX_URL_LENGTH = 65_536;

/** C0, space, DEL, C1, backslash and all white space, including characters that URL parsers strip silently. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern must match them
const INVALID_CHARACTER = /[\u0000-\u0020\u007f-\u009f\\\p{White_Space}\ufeff]/u;
const DOTTED_DECIMAL = /^\d+\.\d+\.\d+\.\d+$/;
const PRIVATE_NAMES: readonly string[] = ["localhost", "local", "internal", "localdomain", "home.arpa"];

/** Returns the policy of options that `validateWebhooks` has validated. Invalid entries of `allowed_domains` match nothing. */
export function createUrlPolicy(options: WebhookUrlOptions = {}, disabled = false): WebhookPolicy {
  return {
    disabled,
    allowed_domains: (options.allowed_domains ?? []).map((entry) => normalizeDomain(entry) ?? ""),
    require_https: options.require_https ?? false,
    allowed_ports: options.allowed_ports ?? null,
    disable_loopback: options.disable_loopback ?? false,
    max_url_length: options.max_url_length ?? MAX_URL_LENGTH,
    allow_private_network: options.allow_private_network ?? false,
  };
}

/**
 * Decides whether a run may use this URL: `accept` with the destination, `reject` with the first reason, or `ignore` if
 * webhooks are disabled. Does no DNS lookup: `checkAddresses` checks the addresses before each attempt.
 */
export function checkUrl(policy: WebhookPolicy, raw: string): UrlVerdict {
  if (policy.disabled) return { verdict: "ignore", reason: "webhooks_disabled" };
  const destination = parseDestination(policy, raw);
  if (typeof destination === "string") return { verdict: "reject", reason: destination };
  return { verdict: "accept", reason: "ok", destination };
}

/**
 * Decides whether to send to a host with these addresses: `send` with all of them as `connect_to`, `reject` if one of them is
 * not public (unless the policy allows private networks), `retry` without any. Connect to no other address. A host that is an
 * address (`findLiteralAddress`) is checked the same way.
 */
export function checkAddresses(policy: WebhookPolicy, addresses: readonly string[]): AddressVerdict {
  if (addresses.length === 0) return { verdict: "retry", reason: "dns_failed" };
  if (!policy.allow_private_network && !addresses.every(isPublicResolvedAddress)) {
    return { verdict: "reject", reason: "dns_not_public" };
  }
  return { verdict: "send", reason: "ok", connect_to: addresses };
}

/** Returns the address without brackets if the host is an address, or null for a name, which needs a lookup. */
export function findLiteralAddress(host: string): string | null {
  if (host.startsWith("[")) return host.slice(1, -1);
  return DOTTED_DECIMAL.test(host) ? host : null;
}

/**
 * Normalizes an entry of `allowed_domains`: lower case, IDNA, without one trailing dot; IPv6 in brackets. Null when it is neither a
 * host nor `*.` and a name.
 */
export function normalizeDomain(entry: string): string | null {
  const isWildcard = entry.startsWith("*.");
  const text = isWildcard ? entry.slice(2) : entry;
  const isBareIpv6 = !text.startsWith("[") && text.split(":").length > 2;
  if (INVALID_CHARACTER.test(text) || (isBareIpv6 ? /[^0-9a-f:.]/i : /[@%/?#*]|:(?![^[]*\]$)/).test(text)) return null;
  const url = parseUrl(`http://${isBareIpv6 ? `[${text}]` : text}/`);
  if (!url) return null;
  const host = readHost(url);
  if (host.includes("*") || !hasValidLabels(host)) return null;
  if (isWildcard) return findLiteralAddress(host) === null ? `*.${host}` : null;
  return DOTTED_DECIMAL.test(host) && host !== text.replace(/\.$/, "") ? null : host;
}

/**
 * Returns the destination of a URL, or of the path of a loopback, which begins with one slash, without its fragment. Returns
 * the first reason why it is refused as a string.
 */
function parseDestination(policy: WebhookPolicy, raw: string): Destination | RefusalReason {
  if (raw === "") return "empty";
  if (isLongerThan(raw, policy.max_url_length)) return "too_long";
  if (INVALID_CHARACTER.test(raw)) return "invalid_characters";
  if (raw.startsWith("//")) return "scheme_relative";
  if (raw.startsWith("/")) {
    return policy.disable_loopback ? "loopback_disabled" : { kind: "loopback", path: omitFragment(raw) };
  }
  return parseAbsoluteDestination(policy, raw);
}

/** Parses an absolute URL, and checks scheme, host and port. Returns the destination, or the reason why it is refused. */
function parseAbsoluteDestination(policy: WebhookPolicy, raw: string): Destination | RefusalReason {
  const origin = readOrigin(raw);
  if (typeof origin === "string") return origin;
  const { scheme, authority } = origin;
  const url = parseUrl(raw);
  if (!url) return "unparseable";
  if (policy.require_https && scheme !== "https") return "https_required";
  const host = readHost(url);
  const port = url.port === "" ? DEFAULT_PORT[scheme] : Number(url.port);
  return (
    findHostProblem(policy, host, authority) ??
    (isAllowedPort(policy, scheme, port) ? { kind: "absolute", scheme, host, port, href: toHref(url, host) } : null) ??
    "port_not_allowed"
  );
}

/** Reads the scheme and the authority of a URL from its text, or returns why it is refused. */
function readOrigin(raw: string): { readonly scheme: "http" | "https"; readonly authority: string } | RefusalReason {
  const colon = /^[A-Za-z][A-Za-z0-9+.-]*:/.exec(raw)?.[0];
  if (colon === undefined) return "not_absolute";
  const scheme = colon.slice(0, -1).toLowerCase();
  if (scheme !== "http" && scheme !== "https") return "scheme_not_allowed";
  // URL parsers accept other numbers of slashes, but disagree about where the host is then.
  const authority = /^\/\/([^/?#]+)/.exec(raw.slice(colon.length))?.[1];
  if (authority === undefined) return "malformed_authority";
  if (authority.includes("@")) return "userinfo_not_allowed";
  if (authority.includes("%")) return "invalid_host";
  return { scheme, authority };
}

const DEFAULT_PORT = { http: 80, https: 443 };

/**
 * Returns the reason why a host is refused, or null: invalid, an unusual spelling of an address, not in the allowed domains, or
 * not public.
 */
function findHostProblem(policy: WebhookPolicy, host: string, authority: string): RefusalReason | null {
  if (!hasValidLabels(host)) return "invalid_host";
  // URL parsers read 0x7f.1, 017700000001 and full-width digits as addresses; other software does not.
  if (DOTTED_DECIMAL.test(host) && authority.replace(/:\d*$/, "") !== host) return "non_canonical_ip";
  if (!isAllowedDomain(policy, host)) return "domain_not_allowed";
  if (policy.allow_private_network) return null;
  const address = findLiteralAddress(host);
  if (address !== null) return isPublicAddress(address) ? null : "ip_not_public";
  return isPublicName(host) ? null : "host_not_public";
}

/** Returns the URL, or null if the parser refuses the text or the host has an invalid `xn--` label. */
function parseUrl(text: string): URL | null {
  try {
    const url = new URL(text);
    // Node does not validate xn-- labels of an ASCII host. A soft hyphen, which IDNA drops, forces the validation.
    if (/(?:^|\.)xn--/.test(url.hostname) && new URL(`http://\u00ad${url.hostname}`).hostname !== url.hostname)
      return null;
    return url;
  } catch {
    return null;
  }
}

const readHost = (url: URL): string => url.hostname.replace(/\.$/, "");

/**
 * Returns the URL without its fragment and with the host that was checked, without a trailing dot. Changes `url` itself if its
 * host differs.
 */
function toHref(url: URL, host: string): string {
  if (url.hostname !== host) url.hostname = host;
  return omitFragment(url.href);
}

const omitFragment = (text: string): string => {
  const hash = text.indexOf("#");
  return hash < 0 ? text : text.slice(0, hash);
};

const hasValidLabels = (host: string): boolean =>
  host.startsWith("[") ||
  (host.length <= 253 && host.split(".").every((label) => label.length >= 1 && label.length <= 63));

const isAllowedDomain = ({ allowed_domains }: WebhookPolicy, host: string): boolean =>
  allowed_domains.length === 0 ||
  allowed_domains.some((entry) => (entry.startsWith("*.") ? host.endsWith(entry.slice(1)) : host === entry));

const isPublicName = (name: string): boolean =>
  name.includes(".") && !PRIVATE_NAMES.some((suffix) => name === suffix || name.endsWith(`.${suffix}`));

const isAllowedPort = ({ allowed_ports }: WebhookPolicy, scheme: "http" | "https", port: number): boolean =>
  port !== 0 && (allowed_ports ? allowed_ports.includes(port) : port === DEFAULT_PORT[scheme]);

/**
 * Returns the URL for logs and responses, without its fragment and with `?…` for its query, which can contain a secret of the
 * receiver.
 */
export function redactUrl(url: string): string {
  const end = url.search(/[?#]/);
  return end < 0 ? url : `${url.slice(0, end)}${url[end] === "?" ? "?…" : ""}`;
}
