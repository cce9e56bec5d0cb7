/** Spellings of addresses that no webhook may reach, and DNS results that lead to them. */

/** Loopback, private, link-local, shared, metadata and other addresses that are not public. */
export const PRIVATE_V4: readonly string[] = [
  "127.0.0.1",
  "127.255.255.254",
  "0.0.0.0",
  "10.0.0.1",
  "100.64.0.1",
  "100.100.100.200",
  "169.254.169.254",
  "172.16.0.1",
  "172.31.255.255",
  "192.0.0.192",
  "192.168.1.1",
  "198.18.0.1",
  "224.0.0.1",
  "255.255.255.255",
];

export const PRIVATE_V6: readonly string[] = [
  "::1",
  "0:0:0:0:0:0:0:1",
  "0000:0000:0000:0000:0000:0000:0000:0001",
  "::",
  "::2",
  "fe80::1",
  "febf::1",
  "fec0::1",
  "fc00::1",
  "fd00:ec2::254",
  "fd12:3456:789a::1",
  "ff02::1",
  "ff0e::1",
  "100::1",
  "4000::1",
  "5f00::1",
  "2001:db8::1",
  "2001::1",
  "2001:20::1",
  "3fff::1",
  "64:ff9b:1::7f00:1",
];

const parseBytes = (address: string): number[] => address.split(".").map(Number);
const toNumber = (address: string): number => parseBytes(address).reduce((sum, byte) => sum * 256 + byte, 0);
const hex = (value: number, width = 2): string => value.toString(16).padStart(width, "0");
const octal = (value: number): string => `0${value.toString(8)}`;
const shifted = (text: string, by: number): string =>
  text.replace(/\d/g, (digit) => String.fromCodePoint(digit.charCodeAt(0) + by));

/** Formats an IPv4 address as two groups of IPv6. */
function groups(address: string): string {
  const [a = 0, b = 0, c = 0, d = 0] = parseBytes(address);
  return `${hex(a)}${hex(b)}:${hex(c)}${hex(d)}`;
}

/** Lists the spellings of an address as the host of a URL that some parser, resolver or network stack accepts. */
export function spellings(address: string): string[] {
  const [a = 0, b = 0, c = 0, d = 0] = parseBytes(address);
  const inverted = groups([a, b, c, d].map((byte) => 255 - byte).join("."));
  const tail = toNumber(address) % 2 ** 24;
  return [
    address,
    `${address}.`,
    `${toNumber(address)}`,
    `0x${hex(toNumber(address), 8)}`,
    `0X${hex(toNumber(address), 8).toUpperCase()}`,
    `0${toNumber(address).toString(8)}`,
    `${a}.${tail}`,
    `0x${hex(a)}.0x${hex(tail, 6)}`,
    `${a}.${b}.${c * 256 + d}`,
    [a, b, c, d].map((byte) => `0x${hex(byte)}`).join("."),
    [a, b, c, d].map(octal).join("."),
    [a, b, c, d].map((byte) => `000${octal(byte)}`).join("."),
    `${a}.${octal(b)}.0x${hex(c)}.${d}`,
    [a, b, c, d].map((byte) => String(byte).padStart(4, "0")).join("."),
    shifted(address, 0xff10 - 0x30),
    shifted(address, 0x1d7ce - 0x30),
    address.replaceAll(".", "。"),
    address.replaceAll(".", "．"),
    `${address}\u00ad`,
    address.replaceAll(".", "%2e"),
    [...address].map((char) => `%${hex(char.charCodeAt(0))}`).join(""),
    `user@${address}`,
    `hooks.example.com@${address}`,
    `[::ffff:${address}]`,
    `[::ffff:${groups(address)}]`,
    `[0:0:0:0:0:ffff:${groups(address)}]`,
    `[::${address}]`,
    `[::ffff:0:${groups(address)}]`,
    `[64:ff9b::${address}]`,
    `[64:ff9b::${groups(address)}]`,
    `[64:ff9b:1::${groups(address)}]`,
    `[2002:${groups(address)}::1]`,
    `[2001:0:5db8:d70e:0:0:${inverted}]`,
    `[fe80::5efe:${address}]`,
  ];
}

/** Names that machines or clouds resolve by themselves, and names of private zones. */
export const PRIVATE_NAMES: readonly string[] = [
  "localhost",
  "LOCALHOST",
  "localhost.",
  "localhost..",
  "ｌｏｃａｌｈｏｓｔ",
  "ⓛocalhost",
  "a.localhost",
  "localhost.localdomain",
  "ip6-localhost",
  "loopback",
  "metadata",
  "metadata.google.internal",
  "metadata.google.internal.",
  "instance-data",
  "printer.local",
  "kubernetes.default.svc.cluster.local",
  "router.home.arpa",
  "db.internal",
  "intranet",
];

/** Texts that are no plain URL but that some software resolves to the address. `{to}` stands for address and port. */
export const SHAPES: readonly string[] = [
  "//{to}/x",
  "///{to}/x",
  "/\\{to}/x",
  "\\\\{to}\\x",
  "http:/{to}/x",
  "http:{to}/x",
  "http:///{to}/x",
  "http:////{to}/x",
  "http:\\\\{to}\\x",
  "http:/\\{to}/x",
  " http://{to}/x",
  "http://{to}/x\n",
  "ht\ttp://{to}/x",
  "http://\t{to}/x",
  "http://hooks.example.com\\@{to}/x",
  "http://hooks.example.com@{to}/x",
  "http://a:b@{to}/x",
  "http://@{to}/x",
  "http://:@{to}/x",
  "http://hooks.example.com%40{to}/x",
  "http://{to}%23.example.com/x",
  "http://{to}%00.example.com/x",
  "http://{to}\0.example.com/x",
  "http://{to}\r\nHost:hooks.example.com/x",
  "http://{to}#@hooks.example.com/",
  "http://{to}?@hooks.example.com/",
  "http://{to};hooks.example.com/",
  "http://{to},hooks.example.com/",
  "ftp://{to}/x",
  "gopher://{to}/_x",
  "file://{to}/etc/passwd",
  "ws://{to}/x",
  "unix://{to}/x",
  "dict://{to}/x",
  "javascript://{to}/%0aalert(1)",
  "data:text/plain,{to}",
  "blob:http://{to}/x",
  "{to}/x",
];

/** Addresses with zones, which URLs do not allow. */
export const ZONES: readonly string[] = ["[::1%lo]", "[::1%25lo]", "[fe80::1%eth0]", "[fe80::1%251]"];

/** DNS results that must prevent a delivery. `{public}` stands for a public address. */
export const ANSWERS: readonly (readonly string[])[] = [
  ...[...PRIVATE_V4, ...PRIVATE_V6].map((address) => [address]),
  ...PRIVATE_V4.flatMap((address) => [[`::ffff:${address}`], [`64:ff9b::${address}`], [`2002:${groups(address)}::1`]]),
  ["{public}", "127.0.0.1"],
  ["127.0.0.1", "{public}"],
  ["{public}", "{public}", "{public}", "10.0.0.1"],
  ["{public}", "::1"],
  ["::1", "{public}"],
  ["2606:4700::1", "127.0.0.1"],
  ["2606:4700::1", "{public}", "fe80::1"],
  ["{public}", "::ffff:7f00:1"],
  ["127.0.0.1", "::1"],
  ["127.1"],
  ["0x7f.1"],
  ["0177.0.0.1"],
  ["2130706433"],
  ["[::1]"],
  ["::1%lo"],
  ["fe80::1%eth0"],
  ["localhost"],
  [""],
  [" 127.0.0.1"],
  ["{public}", "not an address"],
];
