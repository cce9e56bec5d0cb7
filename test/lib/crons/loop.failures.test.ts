import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { CronCreate, ServiceOptions } from "../../../lib/mod.ts";
import {
  at,
  firings,
  here,
  loopTicks,
  MINUTE,
  minutely,
  readNextRunDate,
  until,
  type World,
  world,
} from "./loop.harness.ts";

describe("a cron whose run cannot be created", () => {
  it("is recorded as refused, and stays enabled", async () => {
    await using w = await world();
    const first = await w.open();
    const { crons } = first.service;
    const cronWithWebhook = await crons.create(null, { ...minutely, webhook: "https://hooks.example/?key=s3cret" });
    const unhosted = await crons.create(null, { ...minutely, assistant_id: "waiting" });
    await first.service.stop(0);
    await at(w, "2026-11-20T15:28:00Z");
    const { service, log } = await w.open({
      agents: { async *echo() {} },
      webhooks: { url: { allowed_domains: ["other.example"] } },
    } as Partial<ServiceOptions>);
    assert.deepEqual(await firings(w, cronWithWebhook.cron_id), ["15:28:00 refused"]);
    assert.deepEqual(await firings(w, unhosted.cron_id), ["15:28:00 refused"]);
    assert.equal(await readNextRunDate(service, cronWithWebhook.cron_id), "2026-11-20T15:29:00.000Z");
    assert.equal((await service.metrics()).crons.skipped.refused, 2);
    const why = log.flatMap((record) => (/refused/.test(record.message) ? [String(record.why)] : [])).sort();
    assert.match(why[0] ?? "", /Graph waiting not found/);
    assert.match(why[1] ?? "", /Invalid webhook URL/);
    assert.doesNotMatch(JSON.stringify(log), /s3cret/);
  });

  it("retries a fire time with growing pauses while the store fails", async () => {
    await using w = await world();
    const { service, faulty, log } = await w.open();
    const { cron_id } = await service.crons.create(null, minutely);
    let tries = 0;
    faulty.faults.fireCron = async (call) => {
      if (++tries < 3) throw new Error("no connection");
      return await call();
    };
    await at(w, "2026-11-20T15:28:00Z");
    assert.equal(tries, 1);
    await at(w, "2026-11-20T15:28:01Z");
    assert.equal(tries, 2);
    assert.deepEqual(await firings(w, cron_id), []);
    await at(w, "2026-11-20T15:28:02Z");
    assert.equal(tries, 2, "the pauses grow");
    await at(w, "2026-11-20T15:28:03Z");
    assert.deepEqual(await firings(w, cron_id), ["15:28:00 fired"]);
    assert.equal(log.filter(({ message }) => message === "firing a cron failed").length, 2);
    assert.equal((await service.metrics()).crons.fired, 1);
  });

  it("is resolved again when its assistant changes while it fires", async () => {
    await using w = await world();
    const { service, faulty } = await w.open();
    const { assistant_id } = await service.assistants.create({ graph_id: "echo", context: { v: 1 } });
    await service.crons.create(null, { ...minutely, assistant_id });
    let changed = false;
    faulty.faults.fireCron = async (call) => {
      if (!changed) {
        changed = true;
        await service.assistants.update(assistant_id, { context: { v: 2 } });
      }
      return await call();
    };
    await at(w, "2026-11-20T15:28:00Z");
    await until(() => w.jobs.length === 1);
    assert.deepEqual(w.jobs[0]?.context, { v: 2 });
  });
});

describe("a cron whose runs fail", () => {
  const failing: CronCreate = { ...minutely, assistant_id: "failing", metadata: { mine: 1 } };
  const fail = async (w: World, times: number): Promise<void> => {
    for (let i = 0; i < times; i++) {
      const before = w.jobs.length;
      await at(w, Math.floor(w.clock.now() / MINUTE + 1) * MINUTE);
      await until(() => w.jobs.length > before);
      await loopTicks();
    }
  };

  it("stays enabled by default", async () => {
    await using w = await world();
    const { service } = await w.open();
    const { cron_id } = await service.crons.create(null, failing);
    await fail(w, 3);
    assert.equal((await service.crons.get(cron_id)).enabled, true);
    assert.equal((await w.real.getCron(here, cron_id))?.failures, 3);
  });

  it("is disabled after `max_failures` in a row, with the reason in its metadata until it is enabled again", async () => {
    await using w = await world();
    const { service } = await w.open({ crons: { max_failures: 2 } });
    const { cron_id } = await service.crons.create(null, failing);
    await fail(w, 2);
    // This is before its next fire time.
    await at(w, w.clock.now() + 10_000);
    const disabled = await service.crons.get(cron_id);
    assert.deepEqual([disabled.enabled, disabled.next_run_date], [false, null]);
    assert.deepEqual(disabled.metadata, { mine: 1, disabled_reason: "2 runs in a row have failed" });
    assert.equal(await service.crons.count({ metadata: { disabled_reason: "2 runs in a row have failed" } }), 1);
    await at(w, w.clock.now() + 5 * MINUTE);
    assert.equal(w.jobs.length, 2);
    const enabled = await service.crons.update(cron_id, { enabled: true });
    assert.deepEqual(enabled.metadata, { mine: 1 });
    await fail(w, 1);
    await at(w, w.clock.now() + 10_000);
    assert.equal((await service.crons.get(cron_id)).enabled, true);
  });
});
