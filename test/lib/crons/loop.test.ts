/** Crons fire: on time, once, and as any other run. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import type { AgentFunction, CronCreate, FunctionJob, Run, Service, ServiceOptions } from "../../../lib/mod.ts";
import type { CronFiring, Storage } from "../../../lib/storage/types.ts";
import { type TestClock, type TestService, testClock, testService } from "../../suite/kit.ts";
import { type Faulty, faulty } from "../../support/faulty.ts";

const here = { deployment: "default" };
const START = Date.parse("2026-11-20T15:27:30Z");
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

interface World extends AsyncDisposable {
  readonly clock: TestClock;
  readonly real: Storage;
  readonly jobs: FunctionJob[];
  /** Lets every run of `waiting` end. */
  release(): void;
  /** Bodies of webhooks that were sent. */
  readonly told: Record<string, unknown>[];
  /** Another process on the same database. */
  open(options?: Partial<ServiceOptions>): Promise<TestService & { readonly faulty: Faulty }>;
}

/** Processes on one database and one clock, which no test leaves running. */
async function world(): Promise<World> {
  const clock = testClock(START);
  const real = nodeSqlite(":memory:");
  const first = faulty(real);
  const jobs: FunctionJob[] = [];
  const told: World["told"] = [];
  const gate = Promise.withResolvers<void>();
  const opened: TestService[] = [];
  const agents: Record<string, AgentFunction> = {
    async *echo(job) {
      jobs.push(job);
      yield { done: true };
    },
    async *waiting(job) {
      jobs.push(job);
      await gate.promise;
      yield {};
    },
    async *failing(job) {
      jobs.push(job);
      yield {};
      throw new Error("no");
    },
  };
  return {
    clock,
    real,
    jobs,
    told,
    release: gate.resolve,
    async open(options = {}) {
      const mine = first.share();
      const kit = await testService({
        storage: mine.storage,
        agents,
        environment: clock,
        public_base_url: "https://agents.example",
        webhooks: {
          transport: {
            resolve: async () => ["93.184.215.14"],
            async send({ body }) {
              told.push(JSON.parse(body));
              return { status: 200, retry_after: null, address: "93.184.215.14" };
            },
          },
        },
        ...options,
      });
      opened.push(kit);
      await loopTicks();
      return { ...kit, faulty: mine };
    },
    async [Symbol.asyncDispose]() {
      gate.resolve();
      for (const { service } of opened) {
        let stopped = false;
        void service.stop(0).then(() => {
          stopped = true;
        });
        for (let i = 0; i < 500 && !stopped; i++) await clock.advance(100);
        assert.ok(stopped, "it stops");
      }
      await real.close();
    },
  };
}

async function loopTicks(count = 20): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setTimeout(resolve, 0));
}

/** Waits for what is to come of itself, without time passing. */
async function until(fact: () => Promise<boolean> | boolean): Promise<void> {
  for (let i = 0; i < 2000 && !(await fact()); i++) await loopTicks(1);
  assert.ok(await fact(), "it never came");
}

/** The clock jumps to a moment, and what is due then is done. */
async function at({ clock }: World, moment: string | number): Promise<void> {
  await clock.set(typeof moment === "string" ? Date.parse(moment) : moment);
  await loopTicks();
}

const minutely: CronCreate = { assistant_id: "echo", schedule: "* * * * *" };
const time = (ms: number): string => new Date(ms).toISOString().slice(11, 19);

async function firings({ real }: World, cron_id: string): Promise<string[]> {
  const rows: readonly CronFiring[] = await real.listCronFirings(here, cron_id, { limit: 1000, offset: 0 });
  return rows
    .toReversed()
    .map(({ scheduled_at, run_id, skipped }) => `${time(scheduled_at)} ${run_id ? "fired" : skipped}`);
}

const nextOf = async ({ crons }: Service, cron_id: string): Promise<string | null> =>
  (await crons.get(cron_id)).next_run_date;

describe("a cron that is due", () => {
  it("fires at its time, and then again and again", async () => {
    await using w = await world();
    const { service } = await w.open();
    const { cron_id } = await service.crons.create(null, { ...minutely, input: { a: 1 } });
    await at(w, "2026-11-20T15:27:59.999Z");
    assert.equal(w.jobs.length, 0);
    await at(w, "2026-11-20T15:28:00Z");
    await until(() => w.jobs.length === 1);
    assert.deepEqual(w.jobs[0]?.input, { a: 1 });
    assert.equal(await nextOf(service, cron_id), "2026-11-20T15:29:00.000Z");
    await at(w, "2026-11-20T15:29:00Z");
    await until(() => w.jobs.length === 2);
    assert.deepEqual(await firings(w, cron_id), ["15:28:00 fired", "15:29:00 fired"]);
    assert.equal((await service.metrics()).crons.fired, 2);
  });

  it("makes a run as any other, that says which cron it is of", async () => {
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
    await until(async () => w.told.length === 1);
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
    const [told] = w.told;
    assert.deepEqual([told?.run_id, told?.status], [run.run_id, "success"]);
    assert.doesNotMatch(JSON.stringify([run, told]), /secret|Ann/);
    const row = await w.real.getRun(here, run.run_id);
    const { extra: _, ...known } = user;
    assert.deepEqual([row?.user_id, row?.api_key, row?.auth_user], ["u1", null, known]);
    assert.equal(row?.cron_id, cron.cron_id);
    assert.deepEqual([w.jobs[0]?.context, w.jobs[0]?.user], [{ tone: "dry" }, known]);
    const [token] = row?.feedback ?? [];
    assert.equal((await w.real.getFeedbackToken(token?.[1] ?? ""))?.feedback_key, "liked");
    const { workspace_id } = service.deployment;
    const query = { workspace_ids: [workspace_id], start: START, end: START + HOUR, origin: START, stride_ms: HOUR };
    assert.deepEqual(await w.real.countUsage({ ...query, group_by: "user" }), [
      { bucket: 0, dimension: "u1", traces: 1 },
    ]);
  });

  it("runs on a thread of its own, which stays when that is asked for", async () => {
    await using w = await world();
    const { service } = await w.open({ retention: { stateless_ms: 0 } });
    const gone = await service.crons.create(null, { ...minutely, input: { of: "gone" } });
    const kept = await service.crons.create(null, { ...minutely, input: { of: "kept" }, on_run_completed: "keep" });
    await at(w, "2026-11-20T15:28:00Z");
    await until(() => w.jobs.length === 2);
    await loopTicks();
    for (let i = 0; i < 20; i++) await w.clock.advance(1000);
    const { items } = await service.threads.search();
    assert.deepEqual(
      items.map(({ metadata }) => metadata?.cron_id),
      [kept.cron_id],
    );
    const [thread] = items;
    assert.deepEqual(thread?.values, { of: "kept", done: true });
    assert.equal(thread?.status, "idle");
    const [firing] = await w.real.listCronFirings(here, gone.cron_id, { limit: 1, offset: 0 });
    assert.equal(await w.real.getRun(here, firing?.run_id ?? ""), null);
  });

  it("waits on its thread, unless it is to be refused there", async () => {
    await using w = await world();
    const { service, log } = await w.open();
    const { thread_id } = await service.threads.create();
    await service.runs.create(thread_id, { assistant_id: "waiting", input: {} });
    const waits = await service.crons.create(thread_id, minutely);
    const refused = await service.crons.create(thread_id, { ...minutely, multitask_strategy: "reject" });
    await at(w, "2026-11-20T15:28:00Z");
    assert.deepEqual(await firings(w, waits.cron_id), ["15:28:00 fired"]);
    assert.deepEqual(await firings(w, refused.cron_id), ["15:28:00 thread_busy"]);
    assert.equal(await nextOf(service, refused.cron_id), "2026-11-20T15:29:00.000Z");
    assert.equal((await service.metrics()).crons.skipped.thread_busy, 1);
    const skips = log.filter(({ message }) => /skipped/.test(message));
    assert.deepEqual(
      skips.map(({ cron_id, reason, count }) => [cron_id, reason, count]),
      [[refused.cron_id, "thread_busy", 1]],
    );
    w.release();
    await until(() => w.jobs.length === 2);
  });

  it("stops the thread's run where it says so", async () => {
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

  it("fires nothing from its end on, and goes on when that is moved", async () => {
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

  it("fires by its new schedule, and not at all while it is disabled", async () => {
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

describe("ticks that nobody fired in time", () => {
  it("are made up for by one run, for the latest", async () => {
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
    assert.equal(await nextOf(service, cron_id), "2026-11-20T15:32:00.000Z");
    const [skip] = log.filter(({ message }) => /skipped/.test(message));
    assert.deepEqual(
      [skip?.reason, skip?.count, skip?.first, skip?.last],
      ["superseded", 3, "2026-11-20T15:28:00.000Z", "2026-11-20T15:30:00.000Z"],
    );
    await until(() => w.jobs.length === 1);
  });

  it("are missed when they are older than the grace", async () => {
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
    assert.equal(await nextOf(service, old.cron_id), "2026-11-20T16:28:00.000Z");
    assert.deepEqual(await firings(w, both.cron_id), [
      "15:28:00 missed",
      "15:29:00 missed",
      "15:30:00 superseded",
      "15:31:00 fired",
    ]);
    const { fired, skipped } = (await service.metrics()).crons;
    assert.deepEqual([fired, skipped.missed, skipped.superseded], [1, 3, 1]);
  });

  it("are fired up to an hour late, where nothing else is said", async () => {
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

  it("may be many, and are all recorded for as long as records are kept", async () => {
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
    assert.equal(await nextOf(quiet.service, cron_id), "2026-12-30T15:30:00.000Z");
  });
});

describe("several processes", () => {
  it("fire each tick once", async () => {
    await using w = await world();
    const services = [await w.open(), await w.open(), await w.open({ worker: { concurrency: 0 } })];
    const { crons } = (services[0] as TestService).service;
    const made = await Promise.all(Array.from({ length: 10 }, () => crons.create(null, minutely)));
    await at(w, "2026-11-20T15:28:00Z");
    await at(w, "2026-11-20T15:29:00Z");
    for (const { cron_id } of made) {
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

  it("notice crons that others have made, and fire without executing runs themselves", async () => {
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

  it("do not fire a tick again after a clock went back", async () => {
    await using w = await world();
    const { service } = await w.open();
    const { cron_id } = await service.crons.create(null, minutely);
    await at(w, "2026-11-20T15:28:00Z");
    await until(() => w.jobs.length === 1);
    await w.clock.set(START);
    const back = await service.crons.update(cron_id, { schedule: "* * * * *" });
    assert.equal(back.next_run_date, "2026-11-20T15:28:00.000Z");
    for (let i = 0; i < 3; i++) await at(w, w.clock.now() + 15_000);
    assert.equal(await nextOf(service, cron_id), "2026-11-20T15:29:00.000Z");
    assert.deepEqual(await firings(w, cron_id), ["15:28:00 fired"]);
    assert.equal(w.jobs.length, 1);
  });
});

describe("a cron whose run cannot be made", () => {
  it("is recorded as refused, and goes on", async () => {
    await using w = await world();
    const first = await w.open();
    const { crons } = first.service;
    const told = await crons.create(null, { ...minutely, webhook: "https://hooks.example/?key=s3cret" });
    const unhosted = await crons.create(null, { ...minutely, assistant_id: "waiting" });
    await first.service.stop(0);
    await at(w, "2026-11-20T15:28:00Z");
    const { service, log } = await w.open({
      agents: { async *echo() {} },
      webhooks: { url: { allowed_domains: ["other.example"] } },
    } as Partial<ServiceOptions>);
    assert.deepEqual(await firings(w, told.cron_id), ["15:28:00 refused"]);
    assert.deepEqual(await firings(w, unhosted.cron_id), ["15:28:00 refused"]);
    assert.equal(await nextOf(service, told.cron_id), "2026-11-20T15:29:00.000Z");
    assert.equal((await service.metrics()).crons.skipped.refused, 2);
    const why = log.flatMap((record) => (/refused/.test(record.message) ? [String(record.why)] : [])).sort();
    assert.match(why[0] ?? "", /Graph waiting not found/);
    assert.match(why[1] ?? "", /Invalid webhook URL/);
    assert.doesNotMatch(JSON.stringify(log), /s3cret/);
  });

  it("is fired later where the store failed", async () => {
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

  it("is resolved again when what it is made from changed", async () => {
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

  it("goes on where nothing else is said", async () => {
    await using w = await world();
    const { service } = await w.open();
    const { cron_id } = await service.crons.create(null, failing);
    await fail(w, 3);
    assert.equal((await service.crons.get(cron_id)).enabled, true);
    assert.equal((await w.real.getCron(here, cron_id))?.failures, 3);
  });

  it("is disabled after so many in a row, and says why until it is enabled again", async () => {
    await using w = await world();
    const { service } = await w.open({ crons: { max_failures: 2 } });
    const { cron_id } = await service.crons.create(null, failing);
    await fail(w, 2);
    // Before it would fire next.
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

describe("a service with crons", () => {
  it("tells that it has them", async () => {
    await using w = await world();
    const { service } = await w.open();
    assert.equal((await service.info()).flags.crons, true);
  });

  it("keeps what became of a tick for thirty days", async () => {
    await using w = await world();
    const { service } = await w.open();
    const { cron_id } = await service.crons.create(null, minutely);
    await at(w, "2026-11-20T15:28:00Z");
    await service.crons.update(cron_id, { enabled: false });
    await at(w, "2026-12-20T15:28:00Z");
    assert.deepEqual(await firings(w, cron_id), ["15:28:00 fired"]);
    await at(w, "2026-12-20T17:00:00Z");
    assert.deepEqual(await firings(w, cron_id), []);
  });

  it("refuses options that cannot be", async () => {
    for (const crons of [{ misfire_grace_ms: -1 }, { max_failures: 0 }, { enabled: 1 }, { every: 1 }]) {
      const storage = nodeSqlite(":memory:");
      const made = testService({ storage, crons: crons as never, agents: { async *echo() {} } });
      await assert.rejects(made, new RegExp(`crons\\.${Object.keys(crons)[0]}: `));
      await storage.close();
    }
  });

  it("lets what is about to be stored be stored when it stops", async () => {
    await using w = await world();
    const { service, faulty } = await w.open();
    const { cron_id } = await service.crons.create(null, minutely);
    const gate = Promise.withResolvers<void>();
    faulty.faults.fireCron = async (call) => {
      await gate.promise;
      return await call();
    };
    await at(w, "2026-11-20T15:28:00Z");
    let stopped = false;
    const stop = service.stop(0).then(() => {
      stopped = true;
    });
    await loopTicks();
    assert.equal(stopped, false);
    gate.resolve();
    await until(() => stopped);
    await stop;
    assert.deepEqual(await firings(w, cron_id), ["15:28:00 fired"]);
    await at(w, "2026-11-20T15:35:00Z");
    assert.deepEqual(await firings(w, cron_id), ["15:28:00 fired"]);
  });
});
