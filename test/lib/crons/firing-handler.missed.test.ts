/** Checks the fire times that passed while no process fired them: at most one run catches up, and the others are recorded. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { at, firings, here, MINUTE, minutely, readNextRunDate, START, until, world } from "./loop.harness.ts";

const HOUR = 60 * MINUTE;

describe("missed fire times", () => {
  it("are superseded by the latest one, which fires one run", async () => {
    await using w = await world();
    const { service, log } = await w.open();
    const { cron_id } = await service.crons.create(null, minutely);
    await at(w, "2026-11-20T15:31:10Z");
    assert.deepEqual(await firings(w, cron_id), [
      "15:28:00 superseded",
      "15:29:00 superseded",
      "15:30:00 superseded",
      "15:31:00 fired",
    ]);
    assert.equal(await readNextRunDate(service, cron_id), "2026-11-20T15:32:00.000Z");
    const [skip] = log.filter(({ message }) => /skipped/.test(message));
    assert.deepEqual(
      [skip?.reason, skip?.count, skip?.first, skip?.last],
      ["superseded", 3, "2026-11-20T15:28:00.000Z", "2026-11-20T15:30:00.000Z"],
    );
    await until(() => w.jobs.length === 1);
  });

  it("are recorded as missed when they are older than the grace period", async () => {
    await using w = await world();
    const first = await w.open({ crons: { misfire_grace_ms: 90_000 } });
    const old = await first.service.crons.create(null, { ...minutely, schedule: "28 * * * *" });
    const both = await first.service.crons.create(null, minutely);
    await first.service.stop(0);
    await at(w, "2026-11-20T15:31:00Z");
    assert.deepEqual(await firings(w, both.cron_id), [], "a service that was stopped fires nothing");
    const { service } = await w.open({ crons: { misfire_grace_ms: 90_000 } });
    await until(() => w.jobs.length === 1);
    assert.deepEqual(await firings(w, old.cron_id), ["15:28:00 missed"]);
    assert.equal(await readNextRunDate(service, old.cron_id), "2026-11-20T16:28:00.000Z");
    assert.deepEqual(await firings(w, both.cron_id), [
      "15:28:00 missed",
      "15:29:00 missed",
      "15:30:00 superseded",
      "15:31:00 fired",
    ]);
    const { fired, skipped } = (await service.metrics()).crons;
    assert.deepEqual([fired, skipped.missed, skipped.superseded], [1, 3, 1]);
  });

  it("fire up to an hour late by default", async () => {
    await using w = await world();
    await w.open({ crons: { enabled: false } });
    const { crons } = (await w.open({ crons: { enabled: false } })).service;
    const late = await crons.create(null, { ...minutely, schedule: "30 15 * * *" });
    const missed = await crons.create(null, { ...minutely, schedule: "29 15 * * *" });
    await at(w, "2026-11-20T16:30:00Z");
    await w.open();
    await until(() => w.jobs.length === 1);
    assert.deepEqual(await firings(w, late.cron_id), ["15:30:00 fired"]);
    assert.deepEqual(await firings(w, missed.cron_id), ["15:29:00 missed"]);
  });

  it("are all recorded, however many there are, within the retention of records", async () => {
    await using w = await world();
    const quiet = await w.open({ crons: { enabled: false } });
    const { cron_id } = await quiet.service.crons.create(null, { ...minutely, schedule: "*/30 * * * *" });
    await at(w, START + 40 * 24 * HOUR);
    await w.open();
    await until(() => w.jobs.length === 1);
    const rows = [0, 1000].map((offset) => w.real.listCronFirings(here, cron_id, { limit: 1000, offset }));
    const all = (await Promise.all(rows)).flat();
    assert.equal(all.length, 30 * 48);
    assert.deepEqual(
      all.slice(0, 3).map(({ skipped }) => skipped),
      [null, "superseded", "missed"],
    );
    assert.equal(await readNextRunDate(quiet.service, cron_id), "2026-12-30T15:30:00.000Z");
  });
});
