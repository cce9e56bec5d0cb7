import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { SendError } from "../../../lib/webhooks/http-client.ts";
import { here } from "../../suite/storage/material.ts";
import { PUBLIC, type Sent, ticks, until, world } from "./webhooks.harness.ts";

const HOUR = 3_600_000;

describe("attempts of webhook deliveries", () => {
  it("are tried eight times with growing pauses and up to 10 % jitter, and given up after the last attempt", async () => {
    const draws = [0, 0.25, 0.5, 0.75, 0.999, 0, 0.5];
    let drawn = 0;
    await using w = await world({ random: () => draws[drawn++] as number });
    const deliveries = w.open();
    await w.endRunWithWebhook("r1");
    deliveries.wake();
    const waits = [5_000, 300_000, 1_800_000, 2 * HOUR, 5 * HOUR, 10 * HOUR, 10 * HOUR];
    for (const [i, wait] of waits.entries()) {
      await w.requests(i + 1);
      const failing = w.sentRequests[i] as Sent;
      if (i % 2) failing.answer([301, 400, 500][i % 3] as number);
      else failing.fail(new SendError("network_error", PUBLIC));
      await until(() => deliveries.counters().retried === i + 1 && deliveries.counters().sending === 0);
      await ticks();
      const { due_at, state } = await w.row("r1");
      assert.equal(due_at - w.now(), Math.round(wait * (0.9 + 0.2 * (draws[i] as number))));
      assert.equal(state, "pending");
      w.jump(due_at - w.now() - 1);
      await w.requests(i + 1);
      w.jump(1);
    }
    await w.requests(8);
    (w.sentRequests[7] as Sent).answer(500);
    await until(async () => (await w.row("r1")).state === "failed");
    w.jump(100 * HOUR);
    await w.requests(8);
    assert.equal(new Set(w.sentRequests.map(({ request }) => request.body)).size, 1, "the body is the same each time");
    const { attempt_list: attempts } = await deliveries.get("r1");
    assert.deepEqual(
      attempts.map(({ number, status, error }) => [number, status, error]),
      [1, 2, 3, 4, 5, 6, 7, 8].map((n) =>
        n === 8
          ? [8, 500, "bad_status"]
          : n % 2
            ? [n, null, "network_error"]
            : [n, [301, 400, 500][(n - 1) % 3], "bad_status"],
      ),
    );
    assert.equal(w.log.filter(({ level }) => level === "warn").length, 1);
    assert.doesNotMatch(JSON.stringify(w.log), /s3cret/);
    assert.match(JSON.stringify(w.log), /hooks\.example\.com\/in\?…/);
  });

  it("wait for the Retry-After of the receiver within bounds", async () => {
    const cases: [status: number, retry_after: string | null, wait: number][] = [
      [429, "120", 120_000],
      [503, "120", 120_000],
      [503, "Thu, 01 Jan 2026 00:10:00 GMT", 600_000],
      [429, "99999999999999999999999", 24 * HOUR],
      [429, "Fri, 01 Jan 2027 00:00:00 GMT", 24 * HOUR],
      // Retry-After never shortens the schedule.
      [429, "2", 5_000],
      [429, "Thu, 01 Jan 1970 00:00:00 GMT", 5_000],
      [429, null, 5_000],
      [503, "soon", 5_000],
      [503, "-5", 5_000],
      [500, "120", 5_000],
      [302, "120", 5_000],
    ];
    for (const [status, retry_after, wait] of cases) {
      await using w = await world();
      await w.endRunWithWebhook("r1");
      w.open();
      await w.requests(1);
      (w.sentRequests[0] as Sent).answer(status, { retry_after });
      await until(async () => (await w.row("r1")).due_at > w.now());
      assert.equal((await w.row("r1")).due_at - w.now(), wait, `${status} ${retry_after}`);
    }
    await using w = await world();
    await w.endRunWithWebhook("r1");
    w.open({ schedule_ms: [0] });
    await w.requests(1);
    (w.sentRequests[0] as Sent).answer(503, { retry_after: "0" });
    await until(async () => (await w.row("r1")).due_at > w.now());
    assert.equal((await w.row("r1")).due_at - w.now(), 1_000);
  });

  it("are given up at once on status 410", async () => {
    await using w = await world();
    await w.endRunWithWebhook("r1");
    w.open();
    await w.requests(1);
    (w.sentRequests[0] as Sent).answer(410);
    await until(async () => (await w.row("r1")).state === "failed");
  });

  it("store no attempt once another process has claimed them", async () => {
    await using w = await world();
    await w.endRunWithWebhook("r1");
    w.open({ timeout_ms: 200_000 });
    await w.requests(1);
    w.jump(400_000);
    const claim = { token: "other", until: w.now() + 60_000, now: w.now(), limit: 1, per_host: 2 };
    await w.storage.claimDeliveries(here, claim);
    await until(() => w.log.length > 0);
    assert.match(w.log[0]?.message ?? "", /another process/);
    assert.deepEqual(await w.storage.listAttempts(here, "r1"), []);
  });

  it("keep all their attempts however often a stop aborts them", async () => {
    await using w = await world();
    await w.endRunWithWebhook("r1");
    for (let stops = 1; stops <= 4; stops++) {
      const deliveries = w.open({ schedule_ms: [5_000] });
      await w.requests(stops);
      await deliveries.stop();
      w.jump(60_000);
    }
    w.open({ schedule_ms: [5_000] });
    await w.requests(5);
    (w.sentRequests[4] as Sent).answer(503);
    await w.waits("r1");
    w.jump(60_000);
    await w.requests(6);
    (w.sentRequests[5] as Sent).answer(503);
    await until(async () => (await w.row("r1")).state === "failed");
    assert.deepEqual([(await w.row("r1")).attempts, (await w.row("r1")).series_attempts], [6, 2]);
  });
});
