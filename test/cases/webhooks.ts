/** Webhook cases: which URLs runs may name, where deliveries go, and what the configuration may hold. */
import assert from "node:assert/strict";
import { ConfigError } from "../../lib/errors.ts";
import { type ServiceOptions, serviceInternals } from "../../lib/service.ts";
import { validateWebhooks, type WebhookSettings } from "../../lib/webhooks/options.ts";
import { checkUrl } from "../../lib/webhooks/policy.ts";
import { type Case, createCases, type Fields, fields, isFields, number, text, UnsupportedCaseError } from "./case.ts";
import { createRun, deliver, outbox, PUBLIC, type Sent } from "./deliveries.ts";
import { expectStatus, parseBody } from "./expect.ts";
import { type HostOptions, startHost } from "./host.ts";

/** Groups of a webhook file. */
export const WEBHOOK_GROUPS =
  "format about reason_order policies url_cases delivery_cases header_templates config_cases";

export function createWebhookCases(file: string, of: Fields): readonly Case[] {
  const policies = isFields(of["policies"]) ? of["policies"] : {};
  const getPolicy = (entry: Fields): Fields => {
    const name = entry["policy"] === undefined ? "default" : text(entry, "policy");
    if (name === "default" && !Object.hasOwn(policies, name)) return {};
    if (!Object.hasOwn(policies, name)) throw new UnsupportedCaseError(`unknown policy ${name}`);
    return fields(policies, name);
  };
  const group = (name: string, fieldNames: string, run: (entry: Fields) => Promise<void>): readonly Case[] =>
    of[name] === undefined ? [] : createCases(file, name, of[name], { fieldNames, run });
  return [
    ...group("url_cases", "id note basis policy url url_repeat verdict reason canonical", (entry) =>
      runUrl(getPolicy(entry), entry),
    ),
    ...group("delivery_cases", "id note basis policy url url_repeat dns verdict reason connect_to", (entry) =>
      runDelivery(getPolicy(entry), entry),
    ),
    ...group("header_templates", "id note basis headers env env_prefix resolved startup_error", runHeaders),
    ...group("config_cases", "id note basis url startup_error normalised", runConfig),
  ];
}

type Webhooks = NonNullable<ServiceOptions["webhooks"]>;

/** The options of a policy, which is `webhooks.url` and `disable_webhooks`. */
function createOptions({ disable_webhooks, ...url }: Fields): { readonly url: Fields; readonly http: Fields } {
  return { url, http: disable_webhooks === undefined ? {} : { disable_webhooks } };
}

function createSettings(webhooks: Fields, disable_webhooks?: unknown, env: Fields = {}): WebhookSettings {
  const { settings, problems } = validateWebhooks(webhooks, disable_webhooks, env as Readonly<Record<string, string>>);
  if (!settings) throw new Error(problems.map(({ loc, msg, type }) => `${loc.join(".")}: ${msg} (${type})`).join("; "));
  return settings;
}

function readUrl(of: Fields): string {
  if (of["url_repeat"] === undefined) return text(of, "url");
  if (of["url"] !== undefined) throw new UnsupportedCaseError("url and url_repeat");
  const repeat = fields(of, "url_repeat");
  return text(repeat, "prefix") + text(repeat, "char").repeat(number(repeat, "count"));
}

/** Returns the parts of an absolute URL that delivery uses, in the form of `canonical`. */
function toCanonical(href: string): Fields {
  const { protocol, hostname, port } = new URL(href);
  const scheme = protocol.slice(0, -1);
  return {
    kind: "absolute",
    scheme,
    host: hostname,
    port: port === "" ? { http: 80, https: 443 }[scheme] : Number(port),
  };
}

async function runUrl(policy: Fields, of: Fields): Promise<void> {
  const raw = readUrl(of);
  const [verdict, reason] = [text(of, "verdict"), text(of, "reason")];
  if (!["accept", "reject", "ignore"].includes(verdict)) throw new UnsupportedCaseError(`unknown verdict ${verdict}`);
  const { url, http } = createOptions(policy);
  const judged = checkUrl(createSettings({ url }, http["disable_webhooks"]).policy, raw);
  const canonical = of["canonical"] === undefined ? undefined : fields(of, "canonical");
  if (judged.verdict === "accept") {
    const { destination } = judged;
    const destinationParts = destination.kind === "absolute" ? toCanonical(destination.href) : { kind: "loopback" };
    if (canonical) {
      const named = destination as unknown as Fields;
      const parts = Object.fromEntries(Object.keys(canonical).map((name) => [name, named[name]]));
      assert.deepEqual(parts, canonical, "the destination");
      assert.deepEqual(destinationParts, canonical, "what the destination's URL says");
    }
  }
  assert.deepEqual([judged.verdict, judged.reason], [verdict, reason]);

  const outgoing = outbox(async () => [PUBLIC]);
  await using host = await startHost({ http, webhooks: { url, ...outgoing.ways } as Webhooks });
  const { storage } = serviceInternals(host.test.service).options;
  const { answer, thread_id } = await createRun(host, raw, "wait");
  const threadResponse = await host.ask("GET", `/threads/${thread_id}`, { auth: "owner" });
  const rows = await storage.listDeliveries({ deployment: "default" }, { limit: 10 });
  if (verdict === "reject") {
    expectStatus(answer, 422);
    assert.deepEqual(parseBody(answer), { detail: `Invalid webhook URL: ${reason}`, code: "webhook_refused" });
    expectStatus(threadResponse, 404);
    assert.equal(rows.length, 0, "a refused run has no delivery");
    return;
  }
  expectStatus(answer, 200);
  expectStatus(threadResponse, 200);
  if (verdict === "ignore") {
    assert.equal(rows.length, 0, "nothing is to be delivered");
    assert.deepEqual(outgoing.all, []);
    return;
  }
  assert.deepEqual(
    rows.map((row) => row.url),
    // What no text may hold, as half of a surrogate pair, is not kept.
    [raw.toWellFormed()],
  );
  const [first] = await outgoing.first();
  if (canonical) {
    const went = first?.url.startsWith("http://loopback.invalid/")
      ? { kind: "loopback" }
      : toCanonical(first?.url ?? "");
    assert.deepEqual(went, canonical, "where it was sent");
  }
}

async function runDelivery(policy: Fields, of: Fields): Promise<void> {
  const raw = readUrl(of);
  const verdict = text(of, "verdict");
  const { dns = null } = of;
  if (!["send", "reject", "retry"].includes(verdict)) throw new UnsupportedCaseError(`unknown verdict ${verdict}`);
  if (dns !== null && !Array.isArray(dns) && typeof dns !== "string") throw new UnsupportedCaseError("dns is no list");
  const lookedUpHosts: string[] = [];
  const outgoing = outbox(async (host) => {
    lookedUpHosts.push(host);
    if (typeof dns === "string") throw new Error(dns);
    return dns ?? [];
  });
  const { url, http } = createOptions(policy);
  const { row, attempt } = await deliver(raw, { http, webhooks: { url, ...outgoing.ways } as Webhooks });
  assert.deepEqual(
    [attempt.error ?? "ok", { delivered: "send", failed: "reject", pending: "retry" }[row.state]],
    [text(of, "reason"), verdict],
  );
  if (dns === null) assert.deepEqual(lookedUpHosts, [], "no name is looked up");
  else if (verdict !== "reject") assert.equal(lookedUpHosts.length, 1, "the name is looked up once");
  assert.equal(outgoing.all.length, verdict === "send" ? 1 : 0, "requests that were sent");
  if (verdict === "retry") assert.ok(row.due_at > attempt.at, "it is due again, later");
  if (of["connect_to"] !== undefined) assert.deepEqual(outgoing.all[0]?.addresses, of["connect_to"], "addresses");
}

/** Rejects with a ConfigError that has a problem of the code, and starts nothing. */
async function expectRefused(options: HostOptions, code: string): Promise<void> {
  const started = startHost(options).then(
    async (host) => {
      await host[Symbol.asyncDispose]();
      return null;
    },
    (error: unknown) => error,
  );
  const error = await started;
  assert.ok(
    error instanceof ConfigError,
    `the service starts; expected ${code}${error ? `, got ${String(error)}` : ""}`,
  );
  const codes = error.problems.map((problem) => /\((\w+)\)$/.exec(problem)?.[1]);
  assert.ok(codes.includes(code), `expected ${code}, got ${error.problems.join("; ")}`);
}

async function runHeaders(of: Fields): Promise<void> {
  const { headers, env_prefix, env } = of;
  const outgoing = outbox(async () => [PUBLIC]);
  const webhooks = { headers, ...(env_prefix === undefined ? {} : { env_prefix }) };
  const environment = env === undefined ? {} : (fields(of, "env") as Readonly<Record<string, string>>);
  const options = { env: environment, webhooks: { ...webhooks, ...outgoing.ways } as unknown as Webhooks };
  if (of["startup_error"] !== undefined) {
    if (of["resolved"] !== undefined) throw new UnsupportedCaseError("startup_error and resolved");
    await expectRefused(options, text(of, "startup_error"));
    // A typing error in a header must not wait for the day when webhooks are switched on.
    await expectRefused({ ...options, http: { disable_webhooks: true } }, text(of, "startup_error"));
    return;
  }
  const resolved = fields(of, "resolved");
  const settings = createSettings(webhooks, undefined, environment);
  assert.deepEqual(Object.fromEntries(settings.headers), resolved);
  await deliver("https://hooks.example.com/x", options);
  const [first] = await outgoing.first();
  expectHeaders(first, resolved);
}

/** Checks that the request has each header once, by its name in any case. */
function expectHeaders(request: Sent | undefined, expected: Fields): void {
  const lower = (of: readonly (readonly [string, unknown])[]): readonly (readonly [string, unknown])[] =>
    of.map(([name, value]) => [name.toLowerCase(), value] as const).sort(([a], [b]) => (a < b ? -1 : 1));
  const expectedHeaders = lower(Object.entries(expected));
  const names = new Set(expectedHeaders.map(([name]) => name));
  assert.deepEqual(
    lower(request?.headers ?? []).filter(([name]) => names.has(name)),
    expectedHeaders,
    "headers that were sent",
  );
}

async function runConfig(of: Fields): Promise<void> {
  const { url } = of;
  const webhooks = { url } as Webhooks;
  if (of["startup_error"] !== undefined) {
    if (of["normalised"] !== undefined) throw new UnsupportedCaseError("startup_error and normalised");
    await expectRefused({ webhooks }, text(of, "startup_error"));
    return;
  }
  const normalised = fields(of, "normalised");
  await using _host = await startHost({ webhooks });
  const policy = createSettings({ url }).policy as unknown as Fields;
  const unknown = Object.keys(normalised).filter((name) => !Object.hasOwn(policy, name));
  if (unknown.length > 0) throw new UnsupportedCaseError(`unknown option ${unknown.join(", ")}`);
  assert.deepEqual(Object.fromEntries(Object.keys(normalised).map((name) => [name, policy[name]])), normalised);
}
