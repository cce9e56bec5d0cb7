import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import type { JsonObject } from "../../../lib/json.ts";
import type { DeliveredRun, DeliveryRow } from "../../../lib/storage/mod.ts";
import { buildPayload } from "../../../lib/webhooks/delivery-attempt.ts";
import type { Loopback } from "../../../lib/webhooks/options.ts";
import { createUrlPolicy, type WebhookUrlOptions } from "../../../lib/webhooks/policy.ts";
import { here } from "../../suite/storage/material.ts";
import { PUBLIC, type Sent, until, world } from "./webhooks.harness.ts";

const at = (seconds: number): number => Date.UTC(2026, 0, 2, 3, 4, seconds);

function aRow(run: Partial<DeliveredRun> = {}): DeliveryRow {
  return {
    delivery_id: "r1",
    url: "https://hooks.example.com/",
    host: "hooks.example.com:443",
    state: "pending",
    attempts: 1,
    series_attempts: 1,
    due_at: at(9),
    sent_at: at(10),
    depth: 0,
    created_at: at(9),
    run: {
      run_id: "r1",
      thread_id: "t",
      assistant_id: "a",
      assistant_version: 3,
      status: "success",
      metadata: { m: [1] },
      kwargs: {},
      multitask_strategy: "enqueue",
      attempt: 2,
      stateless: false,
      created_at: at(5),
      started_at: at(6) + 7,
      ended_at: at(9),
      error: null,
      values: '{"messages":["é"]}',
      values_omitted: false,
      ...run,
    },
  };
}

const buildRunPayload = (run?: Partial<DeliveredRun>): JsonObject => JSON.parse(buildPayload(aRow(run)));

describe("the payload of a webhook", () => {
  it("contains the run with its status and times", () => {
    assert.deepEqual(buildRunPayload(), {
      run_id: "r1",
      thread_id: "t",
      assistant_id: "a",
      assistant_version: 3,
      status: "success",
      created_at: "2026-01-02T03:04:05.000Z",
      updated_at: "2026-01-02T03:04:09.000Z",
      run_started_at: "2026-01-02T03:04:06.007Z",
      run_ended_at: "2026-01-02T03:04:09.000Z",
      webhook_sent_at: "2026-01-02T03:04:10.000Z",
      metadata: { m: [1] },
      multitask_strategy: "enqueue",
      attempt: 2,
      kwargs: { config: { metadata: { m: [1] } } },
      error: null,
      values: { messages: ["é"] },
    });
    assert.equal(buildRunPayload({ started_at: null }).run_started_at, null);
    assert.equal(buildRunPayload({ values: null }).values, null);
  });

  it("is the same in every attempt", () => {
    const row = aRow();
    const later = { ...row, attempts: 7, series_attempts: 3, due_at: at(50), state: "failed" as const };
    assert.equal(buildPayload(later), buildPayload(row));
  });

  it("contains the error of a failed run, and null for others", () => {
    const error = { error: "ValueError", message: "no" };
    for (const status of ["error", "timeout"] as const)
      assert.deepEqual(buildRunPayload({ status, error }).error, error);
    for (const status of ["success", "interrupted"] as const) assert.equal(buildRunPayload({ status }).error, null);
  });

  it("contains no state of stateless runs", () => {
    assert.equal("values" in buildRunPayload({ stateless: true, values: null }), false);
    assert.equal("values_omitted" in buildRunPayload({ stateless: true, values: null }), false);
  });

  it("omits a state that would exceed the maximum size", () => {
    const mebibyte = 1024 * 1024;
    const omitted = (run: Partial<DeliveredRun>): unknown[] => [
      buildRunPayload(run).values_omitted,
      buildRunPayload(run).values === null,
    ];
    assert.deepEqual(omitted({ values: null, values_omitted: true }), [true, true]);
    assert.deepEqual(omitted({ values: JSON.stringify("x".repeat(5 * mebibyte)) }), [true, true]);
    assert.deepEqual(omitted({ values: JSON.stringify("é".repeat(3 * mebibyte)) }), [true, true]);
    assert.deepEqual(omitted({ values: JSON.stringify("é".repeat(2 * mebibyte)) }), [undefined, false]);
    assert.deepEqual(omitted({ values: JSON.stringify("x".repeat(5 * mebibyte - 2000)) }), [undefined, false]);
    assert.deepEqual(omitted({ values: null, kwargs: { input: "x".repeat(6 * mebibyte) } }), [undefined, true]);
  });

  it("contains the request without keys, secrets of authentication and the webhook", () => {
    const kwargs: JsonObject = JSON.parse(`{
      "input": { "api_key": "part of the input", "__proto__": { "a": 1 } },
      "webhook": "https://hooks.example.com/?key=s3cret",
      "config": {
        "tags": ["x"],
        "recursion_limit": 9,
        "configurable": {
          "user": "u",
          "x-api-key": "s3cret", "X_Api_Key": "s3cret", "openai_api_key": "s3cret", "apiKey": "s3cret",
          "langgraph_auth_user": { "identity": "s3cret" }, "langgraph_auth_permissions": ["s3cret"],
          "langgraph-auth-user-id": "s3cret", "Authorization": "Bearer s3cret", "cookie": "s3cret",
          "models": [{ "name": "m", "api-key": "s3cret" }], "monkey": "k", "api_key_hint": "h"
        }
      },
      "context": { "tone": "kind", "ANTHROPIC_API_KEY": "s3cret" },
      "stream_mode": ["values"]
    }`);
    const stored = structuredClone(kwargs);
    assert.doesNotMatch(buildPayload(aRow({ kwargs })), /s3cret/);
    assert.deepEqual(buildRunPayload({ kwargs }).kwargs, {
      input: kwargs.input,
      config: {
        tags: ["x"],
        recursion_limit: 9,
        configurable: { user: "u", models: [{ name: "m" }], monkey: "k", api_key_hint: "h" },
        metadata: { m: [1] },
      },
      context: { tone: "kind" },
      stream_mode: ["values"],
    });
    assert.deepEqual(kwargs, stored);
  });
});

interface DeliveryCase {
  readonly id: string;
  readonly url: string;
  readonly policy: string;
  readonly dns: readonly string[] | null;
  readonly verdict: "send" | "reject" | "retry";
  readonly reason: string;
  readonly connect_to?: readonly string[];
}

interface Cases {
  readonly policies: Readonly<Record<string, WebhookUrlOptions & { readonly disable_webhooks?: boolean }>>;
  readonly delivery_cases: readonly DeliveryCase[];
}

const file = new URL("../../cases/webhook-urls.json", import.meta.url);
const { policies, delivery_cases } = JSON.parse(readFileSync(file, "utf8")) as Cases;

describe("webhook delivery cases of test/cases/webhook-urls.json", () => {
  for (const { id, url, policy: name, dns, verdict, reason, connect_to } of delivery_cases) {
    it(`${id}: ${url} under ${name} with ${JSON.stringify(dns)}: ${verdict} ${reason}`, async () => {
      const policy = policies[name];
      assert.ok(policy, `policy ${name}`);
      const { disable_webhooks, ...options } = policy;
      const resolvedHosts: string[] = [];
      await using w = await world({
        async resolve(host) {
          resolvedHosts.push(host);
          return dns ?? assert.fail("no name is to be resolved");
        },
      });
      await w.endRunWithWebhook("r1", url);
      w.open({ policy: createUrlPolicy(options, disable_webhooks) });
      if (verdict === "send") {
        await w.requests(1);
        assert.deepEqual(w.sentRequests[0]?.addresses, connect_to);
        assert.equal(resolvedHosts.length, dns === null ? 0 : 1);
        return;
      }
      await until(async () => (await w.storage.listAttempts(here, "r1")).length === 1);
      const [attempt] = await w.storage.listAttempts(here, "r1");
      assert.deepEqual([attempt?.error, attempt?.status, attempt?.address], [reason, null, null]);
      assert.equal((await w.row("r1")).state, verdict === "retry" ? "pending" : "failed");
      assert.equal(w.log.length, 1);
      await w.requests(0);
    });
  }
});

describe("a delivery without an address", () => {
  it("is retried if the name cannot be resolved, with a new look-up", async () => {
    const answers: (() => Promise<readonly string[]>)[] = [
      () => Promise.reject(new Error("SERVFAIL")),
      () => {
        throw new Error("odd");
      },
      async () => [PUBLIC, "127.0.0.1"],
    ];
    let resolveCount = 0;
    await using w = await world({ resolve: () => (answers[resolveCount++] as () => Promise<readonly string[]>)() });
    await w.endRunWithWebhook("r1");
    w.open({ schedule_ms: [10, 10, 10] });
    for (let i = 1; i <= 3; i++) {
      await until(async () => (await w.storage.listAttempts(here, "r1")).length === i);
      if (i < 3) await w.waits("r1");
      w.jump(11);
    }
    const attempts = await w.storage.listAttempts(here, "r1");
    assert.deepEqual(
      attempts.map(({ error }) => error),
      ["dns_failed", "dns_failed", "dns_not_public"],
    );
    assert.equal((await w.row("r1")).state, "failed");
    await w.requests(0);
  });

  it("waits for another process if this one cannot send it", async () => {
    await using w = await world({ transport: null });
    await w.endRunWithWebhook("r1");
    await w.endRunWithWebhook("r2", "/hook");
    w.open();
    for (const [id, error] of [
      ["r1", "delivery_unavailable"],
      ["r2", "loopback_unavailable"],
    ] as const) {
      await until(async () => (await w.row(id)).due_at > w.now());
      assert.equal((await w.storage.listAttempts(here, id))[0]?.error, error);
    }
  });
});

describe("a relative webhook", () => {
  /** Makes one attempt to `url` with this `loopback`. Returns the requests that it received, and the attempt. */
  async function attempt(loopback: Loopback, url = "/hook?x=1", options: WebhookUrlOptions = {}) {
    const requests: Request[] = [];
    await using w = await world({
      loopback(request) {
        requests.push(request);
        return loopback(request);
      },
    });
    await w.endRunWithWebhook("r1", url, 3);
    w.open({
      policy: createUrlPolicy(options),
      headers: [
        ["X-Static", "s"],
        ["x-webhook-depth", "0"],
      ],
    });
    await until(async () => (await w.storage.listAttempts(here, "r1")).length === 1);
    const [storedAttempt] = await w.storage.listAttempts(here, "r1");
    assert.deepEqual(w.sentRequests as Sent[], [], "nothing goes over the network");
    return { requests, made: storedAttempt, state: (await w.row("r1")).state };
  }

  it("calls the host application, without credentials and with its depth", async () => {
    let body: JsonObject = {};
    const {
      requests,
      made: storedAttempt,
      state,
    } = await attempt(async (request) => {
      body = await request.json();
      return Response.json({ ok: true });
    });
    const [request] = requests;
    assert.equal(request?.url, "http://loopback.invalid/hook?x=1");
    assert.equal(request?.method, "POST");
    assert.deepEqual(Object.fromEntries(request?.headers ?? []), {
      "content-type": "application/json; charset=utf-8",
      "user-agent": "greenroom/1.0.0 (webhook)",
      "webhook-id": "msg_r1",
      "idempotency-key": "msg_r1",
      "x-static": "s",
      "x-webhook-depth": "4",
    });
    assert.equal(body.run_id, "r1");
    assert.deepEqual(
      [state, storedAttempt?.status, storedAttempt?.error, storedAttempt?.address],
      ["delivered", 200, null, null],
    );
  });

  it("cannot leave the host application by its path", async () => {
    for (const [url, path] of [
      ["/a/%2e%2e/b", "/b"],
      ["/../../x", "/x"],
      ["/.//evil.example/x", "//evil.example/x"],
      ["/@evil.example", "/@evil.example"],
    ] as const) {
      const { requests, state } = await attempt(() => new Response(), url);
      assert.deepEqual([requests[0]?.url, state], [`http://loopback.invalid${path}`, "delivered"]);
    }
  });

  it("fails as other deliveries do", async () => {
    const redirect = await attempt(() => Response.redirect("http://loopback.invalid/other"));
    assert.deepEqual([redirect.made?.status, redirect.made?.error, redirect.requests.length], [302, "bad_status", 1]);
    const goneAttempt = await attempt(() => new Response(null, { status: 410 }));
    assert.equal(goneAttempt.state, "failed");
    const broken = await attempt(() => {
      throw new Error("s3cret");
    });
    assert.deepEqual([broken.state, broken.made?.error], ["pending", "network_error"]);
    const forbidden = await attempt(() => new Response(), "/hook", { disable_loopback: true });
    assert.deepEqual([forbidden.state, forbidden.made?.error], ["failed", "loopback_disabled"]);
    assert.deepEqual(forbidden.requests, []);
  });

  it("uses the status of the response, however long the body is or however it ends", async () => {
    let cancelled = false;
    const endless = new ReadableStream({
      pull: (controller) => controller.enqueue(new Uint8Array(512)),
      cancel() {
        cancelled = true;
      },
    });
    assert.equal((await attempt(() => new Response(endless))).state, "delivered");
    await until(() => cancelled);
    const breaking = new ReadableStream({ pull: (controller) => controller.error(new Error("odd")) });
    assert.equal((await attempt(() => new Response(breaking))).state, "delivered");
  });
});
