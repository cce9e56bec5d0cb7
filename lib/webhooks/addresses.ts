/** Decides which IP addresses are public. The ranges are written out because existing classifiers miss some of them. */

/** An address as bytes: 4 for IPv4, 16 for IPv6. */
export type AddressBytes = readonly number[];

/** Prefix and its length in bits. */
type Range = readonly [prefix: AddressBytes, bits: number];

const NOT_PUBLIC_V4: readonly Range[] = [
  [[0], 8],
  [[10], 8],
  [[100, 64], 10],
  [[127], 8],
  // Azure's wire server, which serves metadata to virtual machines.
  [[168, 63, 129, 16], 32],
  [[169, 254], 16],
  [[172, 16], 12],
  [[192, 0, 0], 24],
  [[192, 0, 2], 24],
  [[192, 88, 99], 24],
  [[192, 168], 16],
  [[198, 18], 15],
  [[198, 51, 100], 24],
  [[203, 0, 113], 24],
  [[224], 4],
  [[240], 4],
];

/** Global unicast: the only public range of IPv6. */
const GLOBAL_V6: Range = [[0x20], 3];
/** The parts of global unicast for protocol assignments, documentation and 6to4. */
const NOT_PUBLIC_V6: readonly Range[] = [
  [[0x20, 0x01, 0x00], 23],
  [[0x20, 0x01, 0x0d, 0xb8], 32],
  [[0x20, 0x02], 16],
  [[0x3f, 0xff, 0x00], 20],
];

/** IPv6 ranges with an IPv4 address in the last four bytes: IPv4-mapped and NAT64. */
const EMBEDDING: readonly Range[] = [
  [[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff], 96],
  [[0x00, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0], 96],
];

/**
 * True for a public address. False for other text, including brackets, zones, and IPv4 in any spelling but plain dotted decimal.
 * Mapped and NAT64 addresses are not public here.
 */
export function isPublicAddress(address: string): boolean {
  const bytes = addressBytes(address);
  return bytes !== null && isPublic(bytes);
}

/** The same for an address from a resolver: a mapped or NAT64 address is checked by its IPv4 address. */
export function isPublicAnswer(address: string): boolean {
  const bytes = addressBytes(address);
  if (bytes === null) return false;
  return isPublic(EMBEDDING.some((range) => isIn(bytes, range)) ? bytes.slice(12) : bytes);
}

/** Parses an address; null for other text. */
export function addressBytes(address: string): AddressBytes | null {
  return address.includes(":") ? bytesOfV6(address) : bytesOfV4(address);
}

function isPublic(bytes: AddressBytes): boolean {
  if (bytes.length === 4) return !NOT_PUBLIC_V4.some((range) => isIn(bytes, range));
  return isIn(bytes, GLOBAL_V6) && !NOT_PUBLIC_V6.some((range) => isIn(bytes, range));
}

function isIn(bytes: AddressBytes, [prefix, bits]: Range): boolean {
  if (bytes.length === 4 && prefix.length > 4) return false;
  return prefix.every((byte, i) => {
    const unused = Math.max(0, (i + 1) * 8 - bits);
    return (bytes[i] as number) >> unused === byte >> unused;
  });
}

/** Refuses leading zeros, which some parsers read as octal. */
function bytesOfV4(text: string): AddressBytes | null {
  const parts = text.split(".");
  if (parts.length !== 4 || !parts.every((part) => /^(?:0|[1-9][0-9]{0,2})$/.test(part))) return null;
  const bytes = parts.map(Number);
  return bytes.every((byte) => byte <= 255) ? bytes : null;
}

function bytesOfV6(text: string): AddressBytes | null {
  const halves = text.split("::");
  if (halves.length > 2) return null;
  const [head, tail] = halves.map((half, i) => bytesOfGroups(half, i === halves.length - 1));
  if (!head || tail === null) return null;
  if (tail === undefined) return head.length === 16 ? head : null;
  // `::` replaces at least one group of zeros.
  const zeros = 16 - head.length - tail.length;
  return zeros < 2 ? null : [...head, ...new Array<number>(zeros).fill(0), ...tail];
}

/** Parses groups between colons; the last group of an address may be dotted decimal. */
function bytesOfGroups(half: string, last: boolean): AddressBytes | null {
  if (half === "") return [];
  const groups = half.split(":");
  const bytes: number[] = [];
  for (const [i, group] of groups.entries()) {
    if (last && i === groups.length - 1 && group.includes(".")) {
      const v4 = bytesOfV4(group);
      if (v4 === null) return null;
      bytes.push(...v4);
    } else {
      if (!/^[0-9a-f]{1,4}$/i.test(group)) return null;
      const value = Number.parseInt(group, 16);
      bytes.push(value >> 8, value & 0xff);
    }
  }
  return bytes;
}
