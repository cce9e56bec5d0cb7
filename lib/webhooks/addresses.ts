/** Decides which IP addresses are public, with the registries of special addresses that ipaddr.js has. */
import ipaddr from "ipaddr.js";

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** Azure's wire server, which serves metadata to virtual machines. No registry of special addresses has it. */
const AZURE_WIRE_SERVER = "168.63.129.16";
/** Global unicast is the only part of IPv6 that is assigned; ipaddr.js counts the unassigned parts as unicast. */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR("2000::/3");

/** Parses an address. Returns null for other text, for zones, and for IPv4 in any spelling but plain dotted decimal. */
export function parseAddress(text: string): Address | null {
  if (!text.includes(":")) return parseIpv4(text);
  const tailStart = text.lastIndexOf(":") + 1;
  const tail = text.slice(tailStart);
  if (!tail.includes(".")) return parseIpv6(text);
  // ipaddr.js reads `::1.2.3.4` as the mapped address `::ffff:1.2.3.4`. Hexadecimal groups are read exactly.
  const ipv4 = parseIpv4(tail);
  return ipv4 && parseIpv6(text.slice(0, tailStart) + ipv4.toIPv4MappedAddress().toString().slice("::ffff:".length));
}

const parseIpv4 = (text: string): ipaddr.IPv4 | null =>
  ipaddr.IPv4.isValidFourPartDecimal(text) ? ipaddr.IPv4.parse(text) : null;

const parseIpv6 = (text: string): ipaddr.IPv6 | null =>
  !text.includes("%") && ipaddr.IPv6.isValid(text) ? ipaddr.IPv6.parse(text) : null;

/** Returns true if the text is a public address. Returns false for a name, and for an IPv4 address that is embedded in IPv6. */
export function isPublicAddress(text: string): boolean {
  const address = parseAddress(text);
  return address !== null && isPublic(address);
}

/**
 * Returns true if an address from a resolver is public; false for other text. An IPv4-mapped or NAT64 address is judged by its
 * IPv4 address.
 */
export function isPublicResolvedAddress(text: string): boolean {
  const address = parseAddress(text);
  if (address === null) return false;
  const isEmbedding = address instanceof ipaddr.IPv6 && EMBEDDING_RANGES.some((range) => address.match(range));
  return isPublic(isEmbedding ? new ipaddr.IPv4(address.toByteArray().slice(12)) : address);
}

const EMBEDDING_RANGES = [ipaddr.IPv6.parseCIDR("::ffff:0:0/96"), ipaddr.IPv6.parseCIDR("64:ff9b::/96")];

/** Returns true for a unicast address of the public internet. The address of Azure's service for its machines does not count. */
function isPublic(address: Address): boolean {
  if (address.range() !== "unicast") return false;
  if (address instanceof ipaddr.IPv6) return address.match(GLOBAL_UNICAST);
  return address.toString() !== AZURE_WIRE_SERVER;
}
