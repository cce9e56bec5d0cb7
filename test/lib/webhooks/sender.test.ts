import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { describe, it } from "node:test";
import { createUrlPolicy } from "../../../lib/webhooks/policy.ts";
import { here } from "../../suite/storage/material.ts";
import { header, PUBLIC, type Sent, ticks, until, world } from "./webhooks.harness.ts";

const HOUR = 3_600_000;

describe("webhook deliveries", () => {
  it("are sent at once when a run has ended", async () => {
    await using w = await world();
    const deliveries = w.open();
    await ticks();
    await w.endRunWithWebhook("r1", "https://hooks.example.com:443/in?key=s3cret#part");
    deliveries.wake();
    await w.requests(1);
    const [firstRequest] = w.sentRequests as [Sent];
    const { url, method, timeout_ms, connect_timeout_ms, body, headers } = firstRequest.request;
    assert.deepEqual(
      [url, method, timeout_ms, connect_timeout_ms],
      ["https://hooks.example.com/in?key=s3cret", "POST", 15000, 5000],
    );
    assert.deepEqual(firstRequest.addresses, [PUBLIC]);
    assert.deepEqual(headers, [
      ["content-type", "application/json; charset=utf-8"],
      ["user-agent", "greenroom/1.0.0 (webhook)"],
      ["webhook-id", "msg_r1"],
      ["idempotency-key", "msg_r1"],
    ]);
    assert.equal(JSON.parse(body).run_id, "r1");
    w.jump(40);
    firstRequest.answer(204);
    await until(async () => (await w.row("r1")).state === "delivered");
    const { attempt_list, ...summary } = await deliveries.get("r1");
    const at = new Date(w.now() - 40).toISOString();
    assert.deepEqual(attempt_list, [
      { number: 1, at, status: 204, error: null, duration_ms: 40, address: PUBLIC, answer: null },
    ]);
    assert.deepEqual(deliveries.counters(), { sending: 0, attempts: 1, delivered: 1, retried: 0, failed: 0 });
    assert.deepEqual(w.log, []);
    const [delivery] = (await deliveries.list()).items;
    assert.equal(delivery?.url, "https://hooks.example.com:443/in?…");
    assert.deepEqual(summary, delivery);
    await assert.rejects(deliveries.get("r2"), { code: "not_found" });
  });

  it("time out after 15 seconds", async () => {
    const never = new Promise<never>(() => {});
    await using w = await world({
      resolve: (host) => (host.startsWith("dns") ? never : Promise.resolve([PUBLIC])),
      loopback: () => never,
    });
    await w.endRunWithWebhook("r1");
    await w.endRunWithWebhook("r2", "https://dns.example.com/");
    await w.endRunWithWebhook("r3", "/hook");
    w.open();
    await w.requests(1);
    const [firstRequest] = w.sentRequests as [Sent];
    w.jump(14_999);
    await ticks();
    assert.equal(firstRequest.signal.aborted, false);
    w.jump(1);
    assert.equal(firstRequest.signal.aborted, true);
    for (const id of ["r1", "r2", "r3"]) {
      await until(async () => (await w.row(id)).due_at > w.now());
      const [attempt] = await w.storage.listAttempts(here, id);
      assert.deepEqual([attempt?.error, attempt?.status, attempt?.duration_ms], ["timeout", null, 15_000]);
    }
    // A late response changes nothing.
    firstRequest.answer(200);
    await ticks();
    assert.equal((await w.row("r1")).state, "pending");
  });

  it("to a host that hangs delay no other hosts", async () => {
    await using w = await world();
    for (let i = 0; i < 6; i++) await w.endRunWithWebhook(`hang${i}`, "https://hang.example.com/");
    for (let i = 0; i < 3; i++) await w.endRunWithWebhook(`kind${i}`, "https://kind.example.com/");
    const deliveries = w.open();
    await w.requests(4);
    const hosts = (): string => w.sentRequests.map(({ request }) => new URL(request.url).hostname.split(".")[0]).join();
    assert.equal(hosts(), "hang,hang,kind,kind");
    (w.sentRequests[2] as Sent).answer(200);
    await w.requests(5);
    assert.equal(hosts(), "hang,hang,kind,kind,kind");
    await w.endRunWithWebhook("late", "https://late.example.com/");
    deliveries.wake();
    await w.requests(6);
    assert.ok(hosts().endsWith("late"));
    w.jump(15_000);
    await w.requests(8);
    assert.ok(hosts().endsWith("late,hang,hang"));
  });

  it("have a concurrency limit", async () => {
    await using w = await world();
    for (let i = 0; i < 9; i++) await w.endRunWithWebhook(`r${i}`, `https://host${i}.example.com/`);
    const deliveries = w.open({ concurrency: 3 });
    for (let i = 0; i < 9; i++) {
      await w.requests(Math.min(i + 3, 9));
      deliveries.wake();
      await ticks();
      assert.ok(deliveries.counters().sending <= 3);
      (w.sentRequests[i] as Sent).answer(200);
    }
    await until(() => deliveries.counters().delivered === 9);
  });

  it("are sent again after their process has died", async () => {
    await using w = await world();
    await w.endRunWithWebhook("r1");
    const claim = { token: "dead", until: w.now() + 60_000, now: w.now(), limit: 20, per_host: 2 };
    const [claimed] = await w.storage.claimDeliveries(here, claim);
    w.open();
    await ticks();
    w.jump(59_999);
    await w.requests(0);
    w.jump(15_000);
    await w.requests(1);
    const { body } = (w.sentRequests[0] as Sent).request;
    assert.equal(JSON.parse(body).webhook_sent_at, new Date(claimed?.sent_at as number).toISOString());
    assert.deepEqual([(await w.row("r1")).attempts, (await w.row("r1")).series_attempts], [2, 2]);
    assert.equal(header(w.sentRequests[0] as Sent, "webhook-id"), "msg_r1");
  });

  it("are aborted and released when the sender stops", async () => {
    await using w = await world();
    await w.endRunWithWebhook("r1");
    const first = w.open();
    await w.requests(1);
    await first.stop();
    assert.equal((w.sentRequests[0] as Sent).signal.aborted, true);
    const { state, due_at } = await w.row("r1");
    assert.deepEqual([state, due_at], ["pending", w.now() + 1_000]);
    first.wake();
    w.jump(60_000);
    await w.requests(1);
    w.open();
    await w.requests(2);
    assert.equal((w.sentRequests[1] as Sent).request.body, (w.sentRequests[0] as Sent).request.body);
  });

  it("can be sent again on request under the same id", async () => {
    await using w = await world();
    await w.endRunWithWebhook("r1");
    const deliveries = w.open({ schedule_ms: [] });
    await w.requests(1);
    await assert.rejects(deliveries.redeliver("r1"), { code: "conflict" });
    await assert.rejects(deliveries.redeliver("r9"), { code: "not_found" });
    (w.sentRequests[0] as Sent).answer(500);
    await until(async () => (await w.row("r1")).state === "failed");
    w.jump(HOUR);
    await deliveries.redeliver("r1");
    await w.requests(2);
    const [first, second] = w.sentRequests as [Sent, Sent];
    assert.deepEqual(second.request, first.request);
    second.answer(200);
    await until(async () => (await w.row("r1")).state === "delivered");
    assert.deepEqual(
      (await deliveries.get("r1")).attempt_list.map(({ number }) => number),
      [1, 2],
    );
  });

  it("are signed with every secret, anew at each attempt", async () => {
    const secrets = [new Uint8Array(24).fill(1), new Uint8Array(64).fill(2)];
    await using w = await world();
    await w.endRunWithWebhook("r1");
    w.open({
      secrets,
      headers: [
        ["Authorization", "Bearer s3cret"],
        ["User-Agent", "mine"],
      ],
    });
    for (let i = 0; i < 2; i++) {
      await w.requests(i + 1);
      const request = w.sentRequests[i] as Sent;
      const timestamp = String(Math.floor(w.now() / 1000));
      assert.equal(header(request, "webhook-timestamp"), timestamp);
      const signed = `msg_r1.${timestamp}.${request.request.body}`;
      const expected = secrets.map((key) => `v1,${createHmac("sha256", key).update(signed).digest("base64")}`);
      assert.equal(header(request, "webhook-signature"), expected.join(" "));
      assert.equal(header(request, "Authorization"), "Bearer s3cret");
      assert.deepEqual([header(request, "user-agent"), header(request, "User-Agent")], [undefined, "mine"]);
      request.answer(500);
      await w.waits("r1");
      w.jump(6_000);
    }
  });

  it("wait while the store fails, and are recorded when it works again", async () => {
    await using w = await world();
    await w.endRunWithWebhook("r1");
    const { claimDeliveries, recordDeliveryAttempt } = w.storage;
    let broken = true;
    Object.assign(w.storage, {
      claimDeliveries: (...args: Parameters<typeof claimDeliveries>) =>
        broken ? Promise.reject(new Error("down")) : claimDeliveries(...args),
      recordDeliveryAttempt: (...args: Parameters<typeof recordDeliveryAttempt>) =>
        broken ? Promise.reject(new Error("down")) : recordDeliveryAttempt(...args),
    });
    w.open();
    await until(() => w.log.length === 1);
    broken = false;
    await ticks();
    w.jump(2_000);
    await w.requests(1);
    broken = true;
    (w.sentRequests[0] as Sent).answer(200);
    await ticks();
    broken = false;
    w.jump(2_000);
    await until(async () => (await w.row("r1")).state === "delivered");
    await w.requests(1);
  });

  it("stay stored while webhooks are disabled", async () => {
    await using w = await world();
    await w.endRunWithWebhook("r1");
    const deliveries = w.open({ policy: createUrlPolicy({}, true) });
    deliveries.wake();
    await w.requests(0);
    assert.equal((await w.row("r1")).attempts, 0);
  });
});
