import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  checkUrl,
  createUrlPolicy,
  type RefusalReason,
  type UrlVerdict,
  type WebhookUrlOptions,
} from "../../../lib/webhooks/policy.ts";

const judge = (url: string, options: WebhookUrlOptions = {}): UrlVerdict => checkUrl(createUrlPolicy(options), url);
const findReason = (url: string, options: WebhookUrlOptions = {}): string => judge(url, options).reason;

function refuses(reason: RefusalReason, urls: readonly string[], options: WebhookUrlOptions = {}): void {
  for (const url of urls) {
    assert.deepEqual(judge(url, options), { verdict: "reject", reason }, JSON.stringify(url));
  }
}

/** Checks `hosts`, which maps URLs to host and port. */
function accepts(hosts: Readonly<Record<string, string>>, options: WebhookUrlOptions = {}): void {
  for (const [url, expected] of Object.entries(hosts)) {
    const judged = judge(url, options);
    assert.equal(judged.reason, "ok", JSON.stringify(url));
    assert.ok(judged.verdict === "accept" && judged.destination.kind === "absolute", url);
    assert.equal(`${judged.destination.host}:${judged.destination.port}`, expected);
  }
}

const readHref = (url: string): string => {
  const judged = judge(url);
  assert.ok(judged.verdict === "accept" && judged.destination.kind === "absolute", url);
  return judged.destination.href;
};

describe("checkUrl", () => {
  it("accepts everything unchecked while webhooks are disabled", () => {
    for (const url of ["", "x", "https://hooks.example.com/x", "a".repeat(70_000)]) {
      assert.deepEqual(checkUrl(createUrlPolicy({}, true), url), { verdict: "ignore", reason: "webhooks_disabled" });
    }
  });

  it("counts the length in code points before it checks the characters", () => {
    const short = { max_url_length: 30 };
    assert.equal(findReason(`https://hooks.example.com/${"😀".repeat(4)}`, short), "ok");
    refuses("too_long", [`https://hooks.example.com/${"😀".repeat(5)}`, " ".repeat(31), "/".repeat(31)], short);
    refuses("too_long", ["😀".repeat(31), "a".repeat(1_000)], short);
    assert.equal(findReason(`/${"a".repeat(65_535)}`), "ok");
    refuses("too_long", [`/${"a".repeat(65_536)}`, "😀".repeat(65_537)]);
    refuses("not_absolute", ["😀".repeat(30)], short);
    refuses("empty", [""], { max_url_length: 1 });
    assert.equal(findReason("/", { max_url_length: 1 }), "ok");
  });

  it("refuses control characters, backslashes and white space anywhere", () => {
    const codes = [0, 9, 10, 13, 0x1f, 0x20, 0x5c, 0x7f, 0x80, 0x85, 0x9f, 0xa0, 0x1680, 0x2000, 0x200a, 0x2028];
    for (const code of [...codes, 0x2029, 0x202f, 0x205f, 0x3000, 0xfeff]) {
      const char = String.fromCodePoint(code);
      const urls = [
        "^https://hooks.example.com/",
        "ht^tps://a.example/",
        "https://a^.example",
        "https://a.example/?#^",
      ];
      refuses(
        "invalid_characters",
        [...urls, "/x^", "^//x", "//x^", "https://a.example/x^"].map((url) => url.replace("^", char)),
      );
    }
    for (const code of [0x21, 0x7e, 0xa1, 0x200b, 0x2060, 0xfffd]) {
      assert.equal(findReason(`https://hooks.example.com/${String.fromCodePoint(code)}`), "ok", code.toString(16));
    }
  });

  it("distinguishes relative URLs from those with a host", () => {
    refuses("scheme_relative", ["//", "//hooks.example.com/x", "///x", "////"]);
    refuses("scheme_relative", ["//x"], { disable_loopback: true });
    refuses("loopback_disabled", ["/", "/x", "/a/%2e%2e/b", "/x//y"], { disable_loopback: true });
    for (const [url, path] of Object.entries({
      "/": "/",
      "/x?y=//z#f": "/x?y=//z",
      "/.//evil.example": "/.//evil.example",
      "/a/%2e%2e/b": "/a/%2e%2e/b",
      "/@evil.example:1": "/@evil.example:1",
      "/https://x": "/https://x",
    })) {
      const judged = judge(url, { require_https: true, allowed_ports: [], allowed_domains: ["a.example"] });
      assert.deepEqual(judged, { verdict: "accept", reason: "ok", destination: { kind: "loopback", path } });
      assert.equal(new URL(path, "http://loopback.invalid").origin, "http://loopback.invalid");
    }
  });

  it("requires the scheme http or https", () => {
    refuses("not_absolute", [
      "x",
      "hooks.example.com",
      "hooks.example.com/x:y",
      "?x",
      "#x",
      ":x",
      "://x.example",
      "1http://x",
    ]);
    refuses("not_absolute", [
      "a_b:c",
      "http//x.example",
      "-x:y",
      "ｈttps://x.example",
      "%68ttp://x.example",
      "http;//x",
    ]);
    refuses("scheme_not_allowed", ["hooks.example.com:443/x", "localhost:3000", "javascript:x", "mailto:a@b.example"]);
    refuses("scheme_not_allowed", [
      "ws://x.example",
      "FILE:///x",
      "http+unix://x",
      "a:",
      "httpss://x.example",
      "http.://x",
    ]);
    refuses("not_absolute", ["httpſ://x.example"]);
    accepts({ "HTTPS://Hooks.Example.COM/X": "hooks.example.com:443", "hTTp://a.example": "a.example:80" });
  });

  it("requires two slashes and a host", () => {
    refuses("malformed_authority", [
      "https:",
      "https:/",
      "https://",
      "https:///x.example",
      "https:x.example",
      "https:/x.example",
    ]);
    refuses("malformed_authority", ["https://?x", "https://#x", "http:////x.example", "https:?x", "https:@x.example"]);
    refuses("userinfo_not_allowed", [
      "https://@a.example",
      "https://:@a.example",
      "https://a%40b@a.example/",
      "https://a:b:c@",
    ]);
    refuses("userinfo_not_allowed", ["https://a.example:443@evil.example?x", "https://@", "https://%@a.example"]);
    refuses("invalid_host", [
      "https://a%2eexample/",
      "https://%61.example",
      "https://a.example:4%34",
      "https://a.example%",
    ]);
    assert.equal(findReason("https://a.example/@x%2f?@%"), "ok");
    assert.equal(findReason("https://a.example?@"), "ok");
    assert.equal(findReason("https://a.example#@%"), "ok");
  });

  it("refuses what URL parsers refuse, equally on every runtime", () => {
    const hosts = [
      "a.example:65536",
      "a.example:99999",
      "a.example:80:80",
      ":80",
      ":",
      "[::1",
      "::1",
      "[]",
      "[::1]x",
      "a[b].example",
    ];
    const odd = [
      "a^b.example",
      "a|b.example",
      "a<b.example",
      "a＠b.example",
      "a％41.example",
      "a／b.example",
      "127.0.0.1：80",
    ];
    const idna = [
      "xn--",
      "xn--.example",
      "xn--a.example",
      "x.xn--zzzzzzzzz",
      "xn--abc-.example",
      "XN--ASCII-.example",
      "\u00ad",
    ];
    const numbers = [
      "256.1.1.1",
      "1.2.3.4.5",
      "1.2.3.256",
      "a.1",
      "foo.0x",
      "foo.09",
      "1..1",
      "4294967296",
      "0x100000000",
    ];
    const v6 = [
      "[1:2:3:4:5:6:7]",
      "[1:2:3:4:5:6:7:8:9]",
      "[::1.2.3]",
      "[::01.2.3.4]",
      "[12345::]",
      "[:1]",
      "[::g]",
      "[fe80::1%eth0]",
    ];
    for (const host of [...hosts, ...odd, ...idna, ...numbers]) refuses("unparseable", [`http://${host}/x`]);
    for (const host of v6) refuses(host.includes("%") ? "invalid_host" : "unparseable", [`http://${host}/x`]);
    refuses("unparseable", ["http://a.example:8０/", "http://a.example:+80/", "http://a.example:0x50/"]);
    refuses("unparseable", ["http://a.example:99999/"], { require_https: true });
    accepts({
      "http://xn--bcher-kva.example": "xn--bcher-kva.example:80",
      "http://XN--BCHER-KVA.example": "xn--bcher-kva.example:80",
      "http://faß.example": "xn--fa-hia.example:80",
      "http://BÜCHER.example": "xn--bcher-kva.example:80",
      "http://ex\u00adample.com": "example.com:80",
      "http://a。example．": "a.example:80",
      "http://☃.example": "xn--n3h.example:80",
      "http://xn--n3h.example": "xn--n3h.example:80",
      "http://a--b.example": "a--b.example:80",
      "http://*.example.com": "*.example.com:80",
    });
  });

  it("checks scheme, labels, spelling, domain, address, name and port in this order", () => {
    refuses("https_required", ["http://a..b", "http://0x7f.1", "http://x:0"], { require_https: true });
    refuses("invalid_host", [
      "http://a..example",
      "http://.example.com",
      "http://.",
      "http://..",
      "http://a.example..",
      "http://1.2.3.4..",
    ]);
    refuses("invalid_host", [`http://${"a".repeat(64)}.example`], { allowed_domains: ["b.example"] });
    refuses("non_canonical_ip", ["http://0x7f.1", "http://127.0.0.1."], { allowed_domains: ["127.0.0.1"] });
    refuses("domain_not_allowed", ["http://127.0.0.1", "http://localhost", "http://b.example:1"], {
      allowed_domains: ["a.example"],
    });
    refuses("ip_not_public", ["http://127.0.0.1:1", "https://[::1]:1"]);
    refuses("host_not_public", ["http://localhost:1", "http://x.local:1"]);
  });

  it("limits the length of names and labels", () => {
    const label = "a".repeat(63);
    const longest = [label, label, label, "a".repeat(61)].join(".");
    assert.equal(longest.length, 253);
    assert.equal(findReason(`https://${label}.example`), "ok");
    assert.equal(findReason(`https://${longest}`), "ok");
    assert.equal(findReason(`https://${longest}./`), "ok");
    refuses("invalid_host", [
      `https://${"a".repeat(64)}.example`,
      `https://x.${"a".repeat(64)}`,
      `https://${longest}a`,
    ]);
    refuses("invalid_host", [`https://${longest}a./`]);
    // 59 letters and an umlaut make 64 characters and more as xn--.
    refuses("invalid_host", [`https://${"a".repeat(59)}ü.example`]);
  });

  it("accepts IPv4 addresses only in dotted decimal form", () => {
    const odd = [
      "0x8.8.8.8",
      "010.8.8.8",
      "8.8.8",
      "8.8",
      "8",
      "0x08080808",
      "8.8.8.010",
      "８.8.8.8",
      "8。8.8.8",
      "8.8.8.8.",
    ];
    for (const host of [
      ...odd,
      "8.8.8.00",
      "0x8.0x8.0x8.0x8",
      "8.8.8.8\u00ad",
      "①.8.8.8",
      "0x",
      "0X8.8.8.8",
      "00.0.0.0",
    ]) {
      refuses("non_canonical_ip", [`http://${host}`, `http://${host}:80/x`, `http://${host}:/x`]);
      refuses("non_canonical_ip", [`http://${host}/x`], { allow_private_network: true });
    }
    accepts({
      "http://8.8.8.8": "8.8.8.8:80",
      "https://8.8.8.8:443?x": "8.8.8.8:443",
      "http://8.8.8.8:/x": "8.8.8.8:80",
    });
    accepts({ "http://10.0.0.1/": "10.0.0.1:80", "http://0.0.0.0": "0.0.0.0:80" }, { allow_private_network: true });
    accepts({ "http://[2606:4700:0:0::1111]/": "[2606:4700::1111]:80", "https://[2A00::A]": "[2a00::a]:443" });
  });

  it("compares names without case, trailing dot and script", () => {
    const domains = { allowed_domains: ["*.MyCompany.com.", "api.example", "*.faß.example", "bücher.example"] };
    for (const host of [
      "a.mycompany.com",
      "a.b.MYCOMPANY.com.",
      "API.example",
      "api.example.",
      "x.faß.example",
      "x.xn--fa-hia.example",
    ]) {
      assert.equal(findReason(`https://${host}/`, domains), "ok", host);
    }
    const otherUrls = [
      "mycompany.com",
      "mycompany.com.",
      "evilmycompany.com",
      "a.mycompany.com.evil.example",
      "x.api.example",
    ];
    for (const host of [
      ...otherUrls,
      "api.example.com",
      "faß.example",
      "x.fass.example",
      "www.bücher.example",
      "8.8.8.8",
      "[2a00::1]",
    ]) {
      refuses("domain_not_allowed", [`https://${host}/`], domains);
    }
    refuses("invalid_host", ["https://.mycompany.com/"], domains);
    assert.equal(findReason("https://a.example", { allowed_domains: [] }), "ok");
  });

  it("compares addresses by value, and listed domains do not allow private ones", () => {
    const listed = {
      allowed_domains: ["8.8.8.8", "[2606:4700:4700:0:0:0:0:1111]", "2606:4700:4700::1001", "10.0.0.5", "localhost"],
    };
    for (const host of ["8.8.8.8", "[2606:4700:4700::1111]", "[2606:4700:4700:0::1111]", "[2606:4700:4700::1001]"]) {
      assert.equal(findReason(`https://${host}/`, listed), "ok", host);
    }
    refuses(
      "domain_not_allowed",
      ["https://8.8.4.4", "https://[2606:4700:4700::1112]", "https://x.8.8.8.8.example"],
      listed,
    );
    refuses("non_canonical_ip", ["https://8.8.2056", "https://134744072"], listed);
    refuses("ip_not_public", ["https://10.0.0.5"], listed);
    refuses("host_not_public", ["https://localhost"], listed);
    assert.equal(findReason("https://10.0.0.5", { ...listed, allow_private_network: true }), "ok");
    refuses("domain_not_allowed", ["https://10.0.0.6"], { ...listed, allow_private_network: true });
  });

  it("refuses names with a meaning inside a network", () => {
    const suffixes = ["localhost", "local", "internal", "localdomain", "home.arpa"];
    for (const name of suffixes) {
      refuses("host_not_public", [
        `http://${name}`,
        `http://${name}.`,
        `http://a.${name}`,
        `http://A.B.${name.toUpperCase()}./x`,
      ]);
      assert.equal(findReason(`http://x${name}.example`), "ok");
      assert.equal(findReason(`http://${name}.example`), "ok");
    }
    refuses("host_not_public", ["http://intranet", "http://com.", "http://☃", "http://localhost。"]);
    for (const host of [
      "xlocal.example",
      "arpa.example",
      "x.arpa",
      "a.xlocalhost",
      "myhome.arpa",
      "a.internal.example",
    ]) {
      assert.equal(findReason(`http://${host}`), "ok", host);
    }
    assert.equal(findReason("http://a.internal", { allow_private_network: true }), "ok");
  });

  it("allows the default ports of the schemes, or the listed ports", () => {
    refuses("port_not_allowed", [
      "https://a.example:80",
      "http://a.example:443",
      "https://a.example:8443",
      "https://a.example:0",
    ]);
    refuses("port_not_allowed", [
      "https://a.example:444",
      "http://a.example:65535",
      "http://a.example:81",
      "http://a.example:0",
    ]);
    accepts({
      "https://a.example:443": "a.example:443",
      "https://a.example:00443": "a.example:443",
      "https://a.example:/x": "a.example:443",
      "http://a.example:80": "a.example:80",
    });
    const listed = { allowed_ports: [443, 8443] };
    accepts(
      {
        "http://a.example:443": "a.example:443",
        "http://a.example:8443": "a.example:8443",
        "https://a.example": "a.example:443",
      },
      listed,
    );
    refuses("port_not_allowed", ["http://a.example", "http://a.example:80", "https://a.example:80"], listed);
    refuses("port_not_allowed", ["http://a.example", "https://a.example"], { allowed_ports: [] });
    refuses("port_not_allowed", ["http://a.example:0"], { allowed_ports: [0], allow_private_network: true });
  });

  it("sends to the host that it checked, without the fragment", () => {
    assert.equal(readHref("https://A.example.#x"), "https://a.example/");
    assert.equal(readHref("https://a.example./x/../y?q=a b#f".replace(" ", "%20")), "https://a.example/y?q=a%20b");
    assert.equal(readHref("https://bücher.example:443/é?#"), "https://xn--bcher-kva.example/%C3%A9?");
    assert.equal(readHref("http://[2A00::1]:80/x"), "http://[2a00::1]/x");
  });
});
