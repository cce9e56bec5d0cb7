/** The cases of test/cases/webhook-urls.json, or of a larger file with the same format. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { validateWebhooks } from "../../../lib/webhooks/options.ts";
import {
  checkAddresses,
  checkUrl,
  findLiteralAddress,
  type WebhookPolicy,
  type WebhookUrlOptions,
} from "../../../lib/webhooks/policy.ts";

interface UrlCase {
  readonly id: string;
  readonly policy: string;
  readonly url?: string;
  readonly url_repeat?: { readonly prefix: string; readonly char: string; readonly count: number };
  readonly verdict: string;
  readonly reason: string;
  readonly canonical?: Readonly<Record<string, unknown>>;
}
interface DeliveryCase {
  readonly id: string;
  readonly policy: string;
  readonly url: string;
  readonly dns: readonly string[] | null;
  readonly verdict: string;
  readonly reason: string;
  readonly connect_to?: readonly string[];
}
interface HeaderCase {
  readonly id: string;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly env: Readonly<Record<string, string>>;
  readonly env_prefix?: string;
  readonly resolved?: Readonly<Record<string, string>>;
  readonly startup_error?: string;
}
interface ConfigCase {
  readonly id: string;
  readonly url: Readonly<Record<string, unknown>>;
  readonly startup_error?: string;
  readonly normalised?: Readonly<Record<string, unknown>>;
}

interface Cases {
  readonly policies: Readonly<Record<string, WebhookUrlOptions & { readonly disable_webhooks?: boolean }>>;
  readonly url_cases: readonly UrlCase[];
  readonly delivery_cases: readonly DeliveryCase[];
  readonly header_templates: readonly HeaderCase[];
  readonly config_cases: readonly ConfigCase[];
}

const file = join(import.meta.dirname, "../../cases/webhook-urls.json");
const cases = JSON.parse(readFileSync(file, "utf8")) as Cases;

function requireKnownFields(item: object, allowedFields: readonly string[]): void {
  const unknown = Object.keys(item).filter((key) => !allowedFields.includes(key));
  assert.deepEqual(unknown, [], "a field this test cannot read");
}

/** Creates the policy as a service does. */
function policyNamed(name: string): WebhookPolicy {
  const options = Object.hasOwn(cases.policies, name) ? cases.policies[name] : undefined;
  assert.ok(options, `no policy ${name}`);
  const { disable_webhooks, ...url } = options;
  const { settings, problems } = validateWebhooks({ url }, disable_webhooks, {});
  assert.deepEqual(problems, []);
  assert.ok(settings);
  return settings.policy;
}

describe("cases of webhook URLs", () => {
  it("cover every group of the file", () => {
    requireKnownFields(cases, [
      "format",
      "about",
      "reason_order",
      "policies",
      "url_cases",
      "delivery_cases",
      "header_templates",
      "config_cases",
    ]);
    for (const name of Object.keys(cases.policies)) policyNamed(name);
  });

  for (const item of cases.url_cases) {
    it(`${item.id} ${item.reason}`, () => {
      requireKnownFields(item, ["id", "policy", "url", "url_repeat", "verdict", "reason", "canonical", "note"]);
      const { url, url_repeat, canonical } = item;
      const raw = url_repeat ? url_repeat.prefix + url_repeat.char.repeat(url_repeat.count) : url;
      assert.ok(raw !== undefined, "neither url nor url_repeat");
      const judged = checkUrl(policyNamed(item.policy), raw);
      assert.deepEqual([judged.verdict, judged.reason], [item.verdict, item.reason]);
      if (!canonical) {
        assert.notEqual(judged.verdict, "accept");
        return;
      }
      assert.ok(judged.verdict === "accept");
      if (judged.destination.kind === "absolute") {
        const { href, ...destination } = judged.destination;
        assert.deepEqual(destination, canonical);
        assert.equal(new URL(href).hostname, canonical.host);
      } else {
        assert.deepEqual({ kind: judged.destination.kind }, canonical);
      }
    });
  }

  for (const item of cases.delivery_cases) {
    it(`${item.id} ${item.reason}`, () => {
      requireKnownFields(item, ["id", "policy", "url", "dns", "verdict", "reason", "connect_to", "note"]);
      const policy = policyNamed(item.policy);
      const judged = checkUrl(policy, item.url);
      if (judged.verdict !== "accept") {
        assert.deepEqual([judged.verdict, judged.reason, undefined], [item.verdict, item.reason, item.connect_to]);
        return;
      }
      if (judged.destination.kind === "loopback") {
        assert.deepEqual(["send", "ok", null, undefined], [item.verdict, item.reason, item.dns, item.connect_to]);
        return;
      }
      assert.ok(item.dns === null || Array.isArray(item.dns), "an answer this test cannot read");
      const literal = findLiteralAddress(judged.destination.host);
      assert.ok(literal !== null || item.dns !== null, "a name without an answer");
      const verdict = checkAddresses(policy, literal === null ? (item.dns ?? []) : [literal]);
      assert.deepEqual([verdict.verdict, verdict.reason], [item.verdict, item.reason]);
      assert.deepEqual(verdict.verdict === "send" ? verdict.connect_to : undefined, item.connect_to);
    });
  }
});

describe("cases of header templates", () => {
  for (const item of cases.header_templates) {
    it(`${item.id} ${item.startup_error ?? "resolved"}`, () => {
      requireKnownFields(item, ["id", "headers", "env", "env_prefix", "resolved", "startup_error", "note"]);
      const section = {
        headers: item.headers,
        ...(item.env_prefix === undefined ? {} : { env_prefix: item.env_prefix }),
      };
      for (const disabled of [false, true]) {
        const { settings, problems } = validateWebhooks(section, disabled, item.env);
        if (item.startup_error === undefined) {
          assert.deepEqual(problems, []);
          assert.deepEqual(Object.fromEntries(settings?.headers ?? []), item.resolved);
        } else {
          assert.equal(item.resolved, undefined);
          assert.ok(
            problems.some(({ type }) => type === item.startup_error),
            JSON.stringify(problems),
          );
          assert.equal(settings, null);
        }
      }
    });
  }
});

describe("cases of webhooks.url", () => {
  for (const item of cases.config_cases) {
    it(`${item.id} ${item.startup_error ?? "normalised"}`, () => {
      requireKnownFields(item, ["id", "url", "startup_error", "normalised", "note"]);
      const { settings, problems } = validateWebhooks({ url: item.url }, undefined, {});
      const codes = [...new Set(problems.map(({ type }) => type))];
      assert.deepEqual(codes, item.startup_error === undefined ? [] : [item.startup_error]);
      if (item.startup_error !== undefined) return;
      assert.ok(item.normalised && settings);
      const policy: Readonly<Record<string, unknown>> = { ...settings.policy };
      for (const [name, value] of Object.entries(item.normalised)) {
        assert.ok(Object.hasOwn(policy, name), name);
        assert.deepEqual(policy[name], value);
      }
    });
  }
});
