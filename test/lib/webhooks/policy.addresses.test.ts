import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isPublicAddress, isPublicResolvedAddress, parseAddress } from "../../../lib/webhooks/addresses.ts";
import { checkAddresses, checkUrl, createUrlPolicy, findLiteralAddress } from "../../../lib/webhooks/policy.ts";

/** Returns the decision for a URL with this address as its host. */
const findReason = (address: string): string =>
  checkUrl(createUrlPolicy(), `http://${address.includes(":") ? `[${address}]` : address}/`).reason;

describe("public addresses", () => {
  const v4 = {
    "0.0.0.0/8": ["0.0.0.0", "0.255.255.255", null, "1.0.0.0"],
    "10/8": ["10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"],
    "100.64/10": ["100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"],
    "127/8": ["127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"],
    "169.254/16": ["169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"],
    "172.16/12": ["172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"],
    "192.0.0/24": ["192.0.0.0", "192.0.0.255", "191.255.255.255", "192.0.1.0"],
    "192.0.2/24": ["192.0.2.0", "192.0.2.255", "192.0.1.255", "192.0.3.0"],
    "192.88.99/24": ["192.88.99.0", "192.88.99.255", "192.88.98.255", "192.88.100.0"],
    "192.168/16": ["192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"],
    "198.18/15": ["198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"],
    "198.51.100/24": ["198.51.100.0", "198.51.100.255", "198.51.99.255", "198.51.101.0"],
    "203.0.113/24": ["203.0.113.0", "203.0.113.255", "203.0.112.255", "203.0.114.0"],
    "224/4 and 240/4": ["224.0.0.0", "255.255.255.255", "223.255.255.255", null],
  };
  const end = "ffff:ffff:ffff:ffff:ffff:ffff";
  const v6 = {
    "outside 2000::/3, below": ["::", `1fff:ffff:${end}`, null, "2000::"],
    "outside 2000::/3, above": ["4000::", `ffff:ffff:${end}`, `3fff:ffff:${end}`, null],
    "2001::/23": ["2001::", `2001:1ff:${end}`, `2000:ffff:${end}`, "2001:200::"],
    "2001:db8::/32": ["2001:db8::", `2001:db8:${end}`, `2001:db7:${end}`, "2001:db9::"],
    "2002::/16": ["2002::", `2002:ffff:${end}`, `2001:ffff:${end}`, "2003::"],
    "3fff::/20": ["3fff::", `3fff:fff:${end}`, `3ffe:ffff:${end}`, "3fff:1000::"],
  };
  for (const [name, [first, last, before, after]] of Object.entries({ ...v4, ...v6 })) {
    it(`${name} are excluded up to their ends, and their neighbours are public`, () => {
      for (const address of [first, last]) {
        assert.equal(isPublicAddress(`${address}`), false, `${address}`);
        assert.equal(findReason(`${address}`), "ip_not_public", `${address}`);
      }
      for (const address of [before, after]) {
        if (!address) continue;
        assert.equal(isPublicAddress(address), true, address);
        assert.equal(findReason(address), "ok", address);
      }
    });
  }

  it("exclude the metadata addresses of clouds", () => {
    const v4 = ["169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "168.63.129.16"];
    for (const address of [...v4, "fd00:ec2::254", "fd20:ce::254", "fe80::a9fe:a9fe"]) {
      assert.equal(findReason(address), "ip_not_public", address);
      const answers = address.includes(":") ? [address] : [address, `::ffff:${address}`, `64:ff9b::${address}`];
      for (const answer of answers) assert.equal(isPublicResolvedAddress(answer), false, answer);
    }
    assert.deepEqual([findReason("168.63.129.15"), findReason("168.63.129.17")], ["ok", "ok"]);
  });

  it("exclude embedded private addresses", () => {
    const embedded = [
      "::127.0.0.1",
      "::ffff:8.8.8.8",
      "::8.8.8.8",
      "64:ff9b::8.8.8.8",
      "64:ff9b:1::808:808",
      "2002:808:808::",
      "fe80::1",
    ];
    for (const address of [
      ...embedded,
      "::ffff:0:8.8.8.8",
      "fc00::1",
      "fdff::1",
      "fec0::1",
      "ff02::1",
      "100::1",
      "5f00::1",
    ]) {
      assert.equal(isPublicAddress(address), false, address);
      assert.equal(findReason(address), "ip_not_public", address);
    }
  });

  it("are parsed exactly", () => {
    const bytes = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4];
    for (const text of [
      "2001:db8::1.2.3.4",
      "2001:DB8:0:0:0:0:102:304",
      "2001:0db8::0102:0304",
      "2001:db8:0::0:1.2.3.4",
    ]) {
      assert.deepEqual(parseAddress(text)?.toByteArray(), bytes, text);
    }
    assert.deepEqual(parseAddress("1:2:3:4:5:6:7::")?.toByteArray(), [0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 0]);
    assert.deepEqual(parseAddress("255.0.10.9")?.toByteArray(), [255, 0, 10, 9]);
    const v4 = [
      "",
      "1.2.3",
      "1.2.3.4.",
      "1.2.3.4.5",
      "01.2.3.4",
      "1.2.3.256",
      "0x1.2.3.4",
      " 1.2.3.4",
      "1.2.3.-4",
      "1.2..4",
      "8",
    ];
    const v6 = [
      ":",
      ":::",
      "1::2::3",
      "1:2:3:4:5:6:7",
      "1:2:3:4:5:6:7:8:9",
      "1:2:3:4::5:6:7:8",
      "::12345",
      "::g",
      "[::1]",
      "fe80::1%eth0",
    ];
    for (const text of [
      ...v4,
      ...v6,
      "::1.2.3",
      "::01.2.3.4",
      "1.2.3.4::",
      "1.2.3.4:5::",
      ":1::",
      "1::2:",
      "::1:",
      "1:2:3:4:5:6:7:1.2.3.4",
    ]) {
      assert.equal(parseAddress(text), null, text);
      assert.equal(isPublicAddress(text), false, text);
    }
  });
});

describe("checkAddresses", () => {
  const open = createUrlPolicy();
  it("sends only if every address is public, and only to these", () => {
    for (const addresses of [
      ["8.8.8.8"],
      ["8.8.8.8", "2a00::1"],
      ["::ffff:8.8.8.8"],
      ["::ffff:808:808"],
      ["64:ff9b::8.8.8.8"],
    ]) {
      assert.deepEqual(checkAddresses(open, addresses), { verdict: "send", reason: "ok", connect_to: addresses });
    }
    const mixed = [
      ["8.8.8.8", "10.0.0.1"],
      ["10.0.0.1", "8.8.8.8"],
      ["::ffff:10.0.0.1"],
      ["::ffff:7f00:1"],
      ["64:ff9b::a9fe:a9fe"],
    ];
    for (const addresses of [
      ...mixed,
      ["8.8.8.8", "::1"],
      ["64:ff9b:1::808:808"],
      ["::8.8.8.8"],
      ["x"],
      [""],
      ["fe80::1%eth0"],
      ["127.1"],
    ]) {
      assert.deepEqual(
        checkAddresses(open, addresses),
        { verdict: "reject", reason: "dns_not_public" },
        `${addresses}`,
      );
    }
  });

  it("retries without an address", () => {
    assert.deepEqual(checkAddresses(open, []), { verdict: "retry", reason: "dns_failed" });
    assert.deepEqual(checkAddresses(createUrlPolicy({ allow_private_network: true }), []), {
      verdict: "retry",
      reason: "dns_failed",
    });
  });

  it("sends to private addresses if the policy allows it", () => {
    const addresses = ["10.0.0.1", "::1"];
    const policy = createUrlPolicy({ allow_private_network: true });
    assert.deepEqual(checkAddresses(policy, addresses), { verdict: "send", reason: "ok", connect_to: addresses });
  });

  it("accepts hosts that are addresses", () => {
    assert.equal(findLiteralAddress("8.8.8.8"), "8.8.8.8");
    assert.equal(findLiteralAddress("[2a00::1]"), "2a00::1");
    assert.equal(findLiteralAddress("8.8.8.8.example"), null);
  });
});
