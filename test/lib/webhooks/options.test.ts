// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the templates of the configuration look like this
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  DELIVERY_DEFAULTS,
  validateWebhooks,
  type WebhookOptions,
  type WebhookSettings,
} from "../../../lib/webhooks/options.ts";
import { testService } from "../../suite/kit.ts";

type Environment = Readonly<Record<string, string>>;

const env: Environment = { SERVICE_WEBHOOK_A: "one", SERVICE_WEBHOOK_B: "two", SERVICE_WEBHOOK_EMPTY: "", SECRET: "s" };
const secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const createSecret = (bytes: number): string => `whsec_${btoa("k".repeat(bytes))}`;

/** Formats path and type of every problem. */
function wrong(webhooks: unknown, disable_webhooks?: unknown, variables: Environment = env): string[] {
  const { settings, problems } = validateWebhooks(webhooks, disable_webhooks, variables);
  assert.equal(settings === null, problems.length > 0);
  for (const { msg } of problems) assert.ok(msg.length > 0);
  return problems.map(({ loc, type }) => `${loc.join(".")} ${type}`);
}

function readSettings(webhooks: unknown, disable_webhooks?: unknown, variables: Environment = env): WebhookSettings {
  const { settings, problems } = validateWebhooks(webhooks, disable_webhooks, variables);
  assert.deepEqual(problems, []);
  assert.ok(settings);
  return settings;
}

describe("validateWebhooks", () => {
  it("has defaults", () => {
    const settings = readSettings(undefined);
    assert.deepEqual(settings, readSettings({ url: {}, headers: {}, delivery: {} }, false));
    assert.deepEqual(settings, {
      policy: {
        disabled: false,
        allowed_domains: [],
        require_https: false,
        allowed_ports: null,
        disable_loopback: false,
        max_url_length: 65_536,
        allow_private_network: false,
      },
      headers: [],
      secrets: [],
      timeout_ms: 15_000,
      schedule_ms: [5e3, 3e5, 18e5, 72e5, 18e6, 36e6, 36e6],
      concurrency: 20,
      loopback: null,
      transport: null,
    });
    assert.equal(readSettings(undefined, true).policy.disabled, true);
    assert.equal(DELIVERY_DEFAULTS.timeout_ms, 15_000);
  });

  it("accepts all options", () => {
    const loopback = (): Response => new Response();
    const transport = { resolve: () => {}, send: () => {} };
    const delivery = { timeout_ms: 1, schedule_ms: [], concurrency: 1_000 };
    const settings = readSettings({
      loopback,
      transport,
      delivery,
      url: { require_https: true, allowed_ports: [1, 65_535] },
    });
    assert.equal(settings.loopback, loopback);
    assert.deepEqual(settings.transport, transport);
    assert.deepEqual([settings.timeout_ms, settings.schedule_ms, settings.concurrency], [1, [], 1_000]);
    assert.equal(settings.policy.require_https, true);
    assert.deepEqual(settings.policy.allowed_ports, [1, 65_535]);
  });

  it("reports every problem at once, also while webhooks are disabled", () => {
    const webhooks = {
      headers: { Host: "x", "X-T": "${{ env.SERVICE_WEBHOOK_C }}" },
      signing_secret: ["whsec_x", 5, "${{ env.SECRET }}"],
      url: {
        allowed_domains: ["*", "ok.example", 5],
        allowed_ports: [0, 80, 65_536],
        max_url_length: 0,
        require_http: true,
      },
      delivery: { timeout_ms: 0, retries: 3 },
      header: {},
      constructor: 1,
    };
    const expected = [
      "webhooks.url.allowed_domains.0 invalid_allowed_domain",
      "webhooks.url.allowed_domains.2 invalid_allowed_domain",
      "webhooks.url.allowed_ports.0 invalid_allowed_port",
      "webhooks.url.allowed_ports.2 invalid_allowed_port",
      "webhooks.url.max_url_length invalid_max_url_length",
      "webhooks.url.require_http unknown_option",
      "webhooks.delivery.timeout_ms invalid_timeout_ms",
      "webhooks.delivery.retries unknown_option",
      "webhooks.header unknown_option",
      "webhooks.constructor unknown_option",
      "webhooks.headers.Host reserved_header",
      "webhooks.headers.X-T missing_env",
      "webhooks.signing_secret.0 invalid_signing_secret",
      "webhooks.signing_secret.1 invalid_signing_secret",
      "webhooks.signing_secret.2 env_not_allowed",
    ];
    assert.deepEqual(wrong(webhooks), expected);
    assert.deepEqual(wrong(webhooks, true), expected);
    assert.deepEqual(
      wrong(webhooks, "yes").sort(),
      [...expected, "http.disable_webhooks invalid_disable_webhooks"].sort(),
    );
  });

  it("refuses values of other types", () => {
    for (const value of [null, [], "x", 5]) {
      assert.deepEqual(wrong(value), ["webhooks invalid_webhooks"]);
      assert.deepEqual(wrong({ headers: value }), ["webhooks.headers invalid_headers"]);
      assert.deepEqual(wrong({ url: value }), ["webhooks.url invalid_url"]);
      assert.deepEqual(wrong({ delivery: value }), ["webhooks.delivery invalid_delivery"]);
      assert.deepEqual(wrong({ transport: value }), ["webhooks.transport invalid_transport"]);
      assert.deepEqual(wrong({ loopback: value }), ["webhooks.loopback invalid_loopback"]);
      for (const name of ["require_https", "disable_loopback", "allow_private_network"]) {
        assert.deepEqual(wrong({ url: { [name]: value } }), [`webhooks.url.${name} invalid_${name}`]);
      }
    }
    assert.deepEqual(wrong({ env_prefix: "" }), ["webhooks.env_prefix invalid_prefix"]);
    for (const value of [null, {}, "x", 5]) {
      assert.deepEqual(wrong({ url: { allowed_domains: value } }), [
        "webhooks.url.allowed_domains invalid_allowed_domain",
      ]);
      assert.deepEqual(wrong({ url: { allowed_ports: value } }), ["webhooks.url.allowed_ports invalid_allowed_port"]);
      assert.deepEqual(wrong({ delivery: { schedule_ms: value } }), [
        "webhooks.delivery.schedule_ms invalid_schedule_ms",
      ]);
      assert.deepEqual(wrong(undefined, value), ["http.disable_webhooks invalid_disable_webhooks"]);
    }
    const send = (): void => {};
    assert.deepEqual(wrong({ transport: { send } }), ["webhooks.transport.resolve invalid_resolve"]);
    assert.deepEqual(wrong({ transport: { send, resolve: 5 } }), ["webhooks.transport.resolve invalid_resolve"]);
    assert.deepEqual(wrong({ transport: { send, resolve: send, x: 1 } }), ["webhooks.transport.x unknown_option"]);
  });

  it("enforces the bounds of numbers", () => {
    const delivery = (name: string, value: unknown): string[] => wrong({ delivery: { [name]: value } });
    for (const [name, most] of [
      ["timeout_ms", 600_000],
      ["concurrency", 1_000],
    ] as const) {
      for (const value of [1, most]) assert.deepEqual(delivery(name, value), []);
      for (const value of [0, most + 1, 1.5, "5", null, Number.NaN, Number.POSITIVE_INFINITY, [5]]) {
        assert.deepEqual(delivery(name, value), [`webhooks.delivery.${name} invalid_${name}`]);
      }
    }
    const week = 7 * 86_400_000;
    for (const value of [[], [0, week], new Array(20).fill(0)]) assert.deepEqual(delivery("schedule_ms", value), []);
    for (const value of [[-1], [week + 1], [1.5], ["1"], [null], new Array(21).fill(0), new Array(1)]) {
      assert.deepEqual(delivery("schedule_ms", value), ["webhooks.delivery.schedule_ms invalid_schedule_ms"]);
    }
    for (const value of [1, 65_536]) assert.deepEqual(wrong({ url: { max_url_length: value } }), []);
    for (const value of [0, 65_537, -1, 1.5, "60", null]) {
      assert.deepEqual(wrong({ url: { max_url_length: value } }), [
        "webhooks.url.max_url_length invalid_max_url_length",
      ]);
    }
    for (const value of [0, 65_536, -1, 1.5, "443", null, undefined]) {
      assert.deepEqual(wrong({ url: { allowed_ports: [value] } }), [
        "webhooks.url.allowed_ports.0 invalid_allowed_port",
      ]);
    }
  });

  it("accepts hosts, wildcards and addresses as domains", () => {
    const label = "a".repeat(63);
    const domains: Readonly<Record<string, string>> = {
      "Hooks.Example.COM.": "hooks.example.com",
      "*.Example.com.": "*.example.com",
      "bücher.example": "xn--bcher-kva.example",
      "XN--BCHER-KVA.example": "xn--bcher-kva.example",
      "*.faß.example": "*.xn--fa-hia.example",
      "hooks．example.com": "hooks.example.com",
      "a_b.example": "a_b.example",
      [`${label}.example`]: `${label}.example`,
      "*.com": "*.com",
      localhost: "localhost",
      "8.8.8.8": "8.8.8.8",
      "10.0.0.5": "10.0.0.5",
      "9.9.9.9.": "9.9.9.9",
      "[2606:4700:4700:0:0:0:0:1111]": "[2606:4700:4700::1111]",
      "[2606:4700:4700::ABCD]": "[2606:4700:4700::abcd]",
      "2606:4700:4700::1111": "[2606:4700:4700::1111]",
      "[::ffff:8.8.8.8]": "[::ffff:808:808]",
    };
    for (const [entry, expected] of Object.entries(domains)) {
      assert.deepEqual(readSettings({ url: { allowed_domains: [entry] } }).policy.allowed_domains, [expected], entry);
    }
    const stars = [
      "*",
      "*.",
      "**",
      "*example.com",
      "**.example.com",
      "*.*.example.com",
      "a.*",
      "a.*.example",
      "a*.example",
      "＊.a.example",
    ];
    const parts = [
      "https://a.example",
      "//a.example",
      "a.example/",
      "a.example/x",
      "a.example:443",
      "a.example:",
      "u@a.example",
      "a.example?x",
      "a.example#x",
    ];
    const hosts = [
      "",
      ".",
      "../..",
      ".a.example",
      "a..example",
      "a.example..",
      "*..a.example",
      " a.example",
      "a.example ",
      "a b.example",
      "a\n.example",
      "a%2eexample",
      "a\\b",
    ];
    const odd = [
      `${"a".repeat(64)}.example`,
      `${label}.${label}.${label}.${label}`,
      "xn--a.example",
      "a^b.example",
      "a,\u0000b",
      "\ufeffa.example",
    ];
    const numbers = [
      "0x7f.1",
      "127.1",
      "134744072",
      "010.0.0.1",
      "８.8.8.8",
      "256.1.1.1",
      "a.1",
      "*.8.8.8.8",
      "*.1",
      "*.[::1]",
      "[::1]:80",
      "[::1",
      "::1]",
      "[]",
      "1::2::3",
      "a:b:c",
      "fe80::1%eth0",
    ];
    for (const entry of [...stars, ...parts, ...hosts, ...odd, ...numbers, 5, null, undefined, ["a.example"], {}]) {
      assert.deepEqual(
        wrong({ url: { allowed_domains: [entry] } }),
        ["webhooks.url.allowed_domains.0 invalid_allowed_domain"],
        `${entry}`,
      );
    }
  });

  it("reads secrets, also from templates", () => {
    const bytes = new TextEncoder().encode("0123456789abcdef0123456789abcdef");
    assert.deepEqual(readSettings({ signing_secret: secret }).secrets, [bytes]);
    assert.deepEqual(
      readSettings({ signing_secret: [createSecret(24), createSecret(64)] }).secrets.map((key) => key.length),
      [24, 64],
    );
    const variables = { SERVICE_WEBHOOK_S: `${secret}\n`, MY_S: secret.slice("whsec_".length) };
    assert.deepEqual(readSettings({ signing_secret: "${{ env.SERVICE_WEBHOOK_S }}" }, true, variables).secrets, [
      bytes,
    ]);
    assert.deepEqual(
      readSettings({ signing_secret: ["whsec_${{ env.MY_S }}"], env_prefix: "MY_" }, false, variables).secrets,
      [bytes],
    );
    for (const value of [
      createSecret(23),
      createSecret(65),
      "",
      "whsec_",
      secret.slice(6),
      secret.toUpperCase(),
      `${secret}=`,
      `${secret} x`,
      "whsec_*",
      5,
      null,
      {},
      [],
    ]) {
      assert.deepEqual(
        wrong({ signing_secret: value }),
        ["webhooks.signing_secret invalid_signing_secret"],
        JSON.stringify(value),
      );
    }
    assert.deepEqual(wrong({ signing_secret: "${{ env.SERVICE_WEBHOOK_C }}" }, true), [
      "webhooks.signing_secret missing_env",
    ]);
    assert.deepEqual(wrong({ signing_secret: "${{ x }}" }), ["webhooks.signing_secret invalid_template"]);
    assert.deepEqual(wrong({ signing_secret: "${{ env.A }}", env_prefix: "" }), ["webhooks.env_prefix invalid_prefix"]);
  });
});

describe("a start with secrets in webhook headers", () => {
  const authorization = { Authorization: "Bearer ${{ env.SERVICE_WEBHOOK_A }}", "X-Plain": "text" };
  const warnings = async (webhooks: WebhookOptions, disable_webhooks = false): Promise<readonly string[]> => {
    const agents = { async *agent() {} };
    await using it = await testService({ agents, env, webhooks, http: { disable_webhooks } });
    return it.log.filter(({ level }) => level === "warn").map(({ message }) => message);
  };

  it("warns if any public host may receive them, by name and without the secret", async () => {
    const [warning = "", ...otherWarnings] = await warnings({ headers: authorization });
    assert.deepEqual(otherWarnings, []);
    assert.match(
      warning,
      /^webhooks\.headers: .* Authorization sent to any public host; .*webhooks\.url\.allowed_domains$/,
    );
    assert.doesNotMatch(warning, /X-Plain|Bearer|one/);
  });

  it("does not warn if hosts are listed, nothing is secret or nothing is sent", async () => {
    assert.deepEqual(await warnings({ headers: authorization, url: { allowed_domains: ["hooks.example"] } }), []);
    assert.deepEqual(await warnings({ headers: { "X-Plain": "text" } }), []);
    assert.deepEqual(await warnings({ headers: authorization }, true), []);
  });
});
