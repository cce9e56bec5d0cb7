/** Crons fire on time and once, and their runs are ordinary runs. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Run } from "../../../lib/mod.ts";
import type { TestService } from "../../suite/kit.ts";
import {
  at,
  firings,
  here,
  loopTicks,
  MINUTE,
  minutely,
  readNextRunDate,
  START,
  until,
  world,
} from "./loop.harness.ts";

const HOUR = 60 * MINUTE;

describe("a cron that is due", () => {
  it("fires at each of its fire times", async () => {
    await using w = await world();
    const { service } = await w.open();
    const { cron_id } = await service.crons.create(null, { ...minutely, input: { a: 1 } });
    await at(w, "2026-11-20T15:27:59.999Z");
    assert.equal(w.jobs.length, 0);
    await at(w, "2026-11-20T15:28:00Z");
    await until(() => w.jobs.length === 1);
    assert.deepEqual(w.jobs[0]?.input, { a: 1 });
    assert.equal(await readNextRunDate(service, cron_id), "2026-11-20T15:29:00.000Z");
    await at(w, "2026-11-20T15:29:00Z");
    await until(() => w.jobs.length === 2);
    assert.deepEqual(await firings(w, cron_id), ["15:28:00 fired", "15:29:00 fired"]);
    assert.equal((await service.metrics()).crons.fired, 2);
  });

  it("creates a run with its id", async () => {
    await using w = await world();
    const { service } = await w.open();
    const user = { identity: "ann", permissions: ["p"], display_name: "Ann", is_authenticated: true, extra: "secret" };
    const thread_id = (await service.threads.create()).thread_id;
    const cron = await service.crons.create(
      thread_id,
      {
        ...minutely,
        input: { a: 1 },
        context: { tone: "dry" },
        metadata: { team: "a" },
        webhook: "https://hooks.example/in?key=1",
        feedback_keys: ["liked"],
      },
      { user_id: "u1", api_key: "lsv2…abcd", user },
    );
    await at(w, "2026-11-20T15:28:00Z");
    await until(async () => w.webhookBodies.length === 1);
    const [run] = (await service.runs.list(thread_id)) as [Run];
    const { assistant_id } = cron;
    assert.deepEqual(run.metadata, {
      created_by: "system",
      graph_id: "echo",
      assistant_id,
      team: "a",
      cron_id: cron.cron_id,
    });
    assert.deepEqual([run.status, run.multitask_strategy], ["success", "enqueue"]);
    assert.deepEqual(run.kwargs.feedback_keys, ["liked"]);
    const [webhookBody] = w.webhookBodies;
    assert.deepEqual([webhookBody?.run_id, webhookBody?.status], [run.run_id, "success"]);
    assert.doesNotMatch(JSON.stringify([run, webhookBody]), /secret|Ann/);
    const row = await w.real.getRun(here, run.run_id);
    const { extra: _, ...storedUser } = user;
    assert.deepEqual([row?.user_id, row?.api_key, row?.auth_user], ["u1", null, storedUser]);
    assert.equal(row?.cron_id, cron.cron_id);
    assert.deepEqual([w.jobs[0]?.context, w.jobs[0]?.user], [{ tone: "dry" }, storedUser]);
    const [token] = row?.feedback ?? [];
    assert.equal((await w.real.getFeedbackToken(token?.[1] ?? ""))?.feedback_key, "liked");
    const { workspace_id } = service.deployment;
    const query = { workspace_ids: [workspace_id], start: START, end: START + HOUR, origin: START, stride_ms: HOUR };
    assert.deepEqual(await w.real.countUsage({ ...query, group_by: "user" }), [
      { bucket: 0, dimension: "u1", traces: 1 },
    ]);
  });

  it("runs on a new thread, which stays with `on_run_completed: keep`", async () => {
    await using w = await world();
    const { service } = await w.open({ retention: { stateless_ms: 0 } });
    const deletedThreadCron = await service.crons.create(null, { ...minutely, input: { of: "gone" } });
    const keptThreadCron = await service.crons.create(null, {
      ...minutely,
      input: { of: "kept" },
      on_run_completed: "keep",
    });
    await at(w, "2026-11-20T15:28:00Z");
    await until(() => w.jobs.length === 2);
    await loopTicks();
    for (let i = 0; i < 20; i++) await w.clock.advance(1000);
    const { items } = await service.threads.search();
    assert.deepEqual(
      items.map(({ metadata }) => metadata?.cron_id),
      [keptThreadCron.cron_id],
    );
    const [thread] = items;
    assert.deepEqual(thread?.values, { of: "kept", done: true });
    assert.equal(thread?.status, "idle");
    const [firing] = await w.real.listCronFirings(here, deletedThreadCron.cron_id, { limit: 1, offset: 0 });
    assert.equal(await w.real.getRun(here, firing?.run_id ?? ""), null);
  });

  it("enqueues its run on a busy thread, unless its strategy is to reject", async () => {
    await using w = await world();
    const { service, log } = await w.open();
    const { thread_id } = await service.threads.create();
    await service.runs.create(thread_id, { assistant_id: "waiting", input: {} });
    const waits = await service.crons.create(thread_id, minutely);
    const refused = await service.crons.create(thread_id, { ...minutely, multitask_strategy: "reject" });
    await at(w, "2026-11-20T15:28:00Z");
    assert.deepEqual(await firings(w, waits.cron_id), ["15:28:00 fired"]);
    assert.deepEqual(await firings(w, refused.cron_id), ["15:28:00 thread_busy"]);
    assert.equal(await readNextRunDate(service, refused.cron_id), "2026-11-20T15:29:00.000Z");
    assert.equal((await service.metrics()).crons.skipped.thread_busy, 1);
    const skips = log.filter(({ message }) => /skipped/.test(message));
    assert.deepEqual(
      skips.map(({ cron_id, reason, count }) => [cron_id, reason, count]),
      [[refused.cron_id, "thread_busy", 1]],
    );
    w.release();
    await until(() => w.jobs.length === 2);
  });

  it("interrupts the active run of its thread with that strategy", async () => {
    await using w = await world();
    const { service } = await w.open();
    const { thread_id } = await service.threads.create();
    const old = await service.runs.create(thread_id, { assistant_id: "waiting", input: {} });
    await until(() => w.jobs.length === 1);
    await service.crons.create(thread_id, { ...minutely, multitask_strategy: "rollback" });
    await at(w, "2026-11-20T15:28:00Z");
    w.release();
    await until(() => w.jobs.length === 2);
    await assert.rejects(service.runs.get(thread_id, old.run_id), { code: "not_found" });
  });

  it("fires nothing from its end time on, and again after the end time moves", async () => {
    await using w = await world();
    const { service } = await w.open();
    const { cron_id } = await service.crons.create(null, { ...minutely, end_time: "2026-11-20T15:29:00Z" });
    await at(w, "2026-11-20T15:28:00Z");
    await at(w, "2026-11-20T15:29:00Z");
    await at(w, "2026-11-20T15:31:00Z");
    assert.deepEqual(await firings(w, cron_id), ["15:28:00 fired"]);
    const ended = await service.crons.get(cron_id);
    assert.deepEqual([ended.enabled, ended.next_run_date], [true, null]);
    const later = await service.crons.update(cron_id, { end_time: "2026-11-20T15:33:00Z" });
    assert.equal(later.next_run_date, "2026-11-20T15:32:00.000Z");
    await at(w, "2026-11-20T15:32:00Z");
    assert.deepEqual(await firings(w, cron_id), ["15:28:00 fired", "15:32:00 fired"]);
  });

  it("fires by its changed schedule, and never while it is disabled", async () => {
    await using w = await world();
    const { service } = await w.open();
    const { cron_id } = await service.crons.create(null, { ...minutely, schedule: "0 * * * *" });
    await service.crons.update(cron_id, { schedule: "* * * * *" });
    await at(w, "2026-11-20T15:28:00Z");
    await service.crons.update(cron_id, { enabled: false });
    await at(w, "2026-11-20T15:40:00Z");
    assert.deepEqual(await firings(w, cron_id), ["15:28:00 fired"]);
    await service.crons.update(cron_id, { enabled: true });
    await at(w, "2026-11-20T15:41:00Z");
    assert.deepEqual(await firings(w, cron_id), ["15:28:00 fired", "15:41:00 fired"]);
  });
});

describe("several processes", () => {
  it("fire each fire time once", async () => {
    await using w = await world();
    const services = [await w.open(), await w.open(), await w.open({ worker: { concurrency: 0 } })];
    const { crons } = (services[0] as TestService).service;
    const createdCrons = await Promise.all(Array.from({ length: 10 }, () => crons.create(null, minutely)));
    await at(w, "2026-11-20T15:28:00Z");
    await at(w, "2026-11-20T15:29:00Z");
    for (const { cron_id } of createdCrons) {
      assert.deepEqual(await firings(w, cron_id), ["15:28:00 fired", "15:29:00 fired"]);
    }
    // Those that the third has fired are found by a poll.
    await w.clock.advance(2_500);
    await until(() => w.jobs.length === 20);
    const fired = await Promise.all(services.map(async ({ service }) => (await service.metrics()).crons.fired));
    assert.equal(
      fired.reduce((sum, count) => sum + count, 0),
      20,
    );
  });

  it("fire crons that others created, also in a process that executes no runs", async () => {
    await using w = await world();
    const maker = await w.open({ crons: { enabled: false } });
    const idle = await w.open({ worker: { concurrency: 0 } });
    const { cron_id } = await maker.service.crons.create(null, minutely);
    // The poll comes every ten seconds.
    for (let i = 0; i < 7; i++) await at(w, w.clock.now() + 5_000);
    assert.deepEqual(await firings(w, cron_id), ["15:28:00 fired"]);
    assert.equal((await idle.service.metrics()).crons.fired, 1);
    await w.clock.advance(2_500);
    await until(() => w.jobs.length === 1);
  });

  it("fire no fire time twice after a clock was set back", async () => {
    await using w = await world();
    const { service } = await w.open();
    const { cron_id } = await service.crons.create(null, minutely);
    await at(w, "2026-11-20T15:28:00Z");
    await until(() => w.jobs.length === 1);
    await w.clock.set(START);
    const back = await service.crons.update(cron_id, { schedule: "* * * * *" });
    assert.equal(back.next_run_date, "2026-11-20T15:28:00.000Z");
    for (let i = 0; i < 3; i++) await at(w, w.clock.now() + 15_000);
    assert.equal(await readNextRunDate(service, cron_id), "2026-11-20T15:29:00.000Z");
    assert.deepEqual(await firings(w, cron_id), ["15:28:00 fired"]);
    assert.equal(w.jobs.length, 1);
  });
});
