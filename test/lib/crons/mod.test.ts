/** Crons as a resource: validation, responses and updates. */

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import type { Cron, CronCreate, Service, ServiceOptions } from "../../../lib/mod.ts";
import type { Storage } from "../../../lib/storage/types.ts";
import { countCrons } from "../../suite/counts.ts";
import { type TestClock, testClock, testService } from "../../suite/kit.ts";

const ABSENT = "00000000-0000-4000-8000-00000000dead";
const here = { deployment: "default" };

interface World extends AsyncDisposable {
  readonly clock: TestClock;
  readonly storage: Storage;
  readonly service: Service;
}

async function world(options: Partial<ServiceOptions> = {}): Promise<World> {
  const clock = testClock(Date.parse("2026-11-20T15:27:30Z"));
  const storage = nodeSqlite(":memory:");
  const kit = await testService({
    storage,
    environment: clock,
    public_base_url: "https://agents.example",
    agents: {
      async *echo() {
        yield { done: true };
      },
      async *other() {
        yield {};
      },
    },
    ...options,
  });
  return { clock, storage, service: kit.service, [Symbol.asyncDispose]: () => kit[Symbol.asyncDispose]() };
}

const hourly: CronCreate = { assistant_id: "echo", schedule: "0 * * * *" };
const invalid = (field: string) => ({ code: "invalid", message: new RegExp(`^${field}: `) });

describe("a cron", () => {
  it("is returned with all of its members and their defaults", async () => {
    await using w = await world();
    const { crons, assistants } = w.service;
    const cron = await crons.create(null, hourly);
    assert.deepEqual(cron, {
      cron_id: cron.cron_id,
      assistant_id: (await assistants.get("echo")).assistant_id,
      thread_id: null,
      on_run_completed: "delete",
      end_time: null,
      schedule: "0 * * * *",
      timezone: null,
      created_at: "2026-11-20T15:27:30.000Z",
      updated_at: "2026-11-20T15:27:30.000Z",
      payload: {},
      user_id: null,
      next_run_date: "2026-11-20T16:00:00.000Z",
      metadata: {},
      enabled: true,
    });
    assert.deepEqual(await crons.get(cron.cron_id), cron);
    assert.deepEqual(await crons.get(cron.cron_id.toUpperCase()), cron);
    assert.equal((await countCrons(w.storage, here, {})) as number, 1);
    assert.deepEqual(
      await w.storage.listEnabledCrons(here, { due_by: Date.parse("2026-11-20T15:59:59Z"), limit: 9 }),
      [],
      "it fires later",
    );
  });

  it("keeps the options of its runs, and returns them without credentials", async () => {
    await using w = await world();
    const { crons } = w.service;
    const payload = {
      input: { messages: ["hi"] },
      config: { configurable: { tone: "dry", openai_api_key: "sk-1" }, tags: ["t"] },
      context: { place: "here", password: "s3cret" },
      webhook: "https://hooks.example/in?key=s3cret",
      interrupt_before: ["a"],
      interrupt_after: "*" as const,
      multitask_strategy: "reject" as const,
      durability: "sync" as const,
      checkpoint_during: true,
      stream_mode: ["values" as const],
      stream_subgraphs: true,
      stream_resumable: true,
      feedback_keys: ["liked"],
    };
    const user = { identity: "ann", permissions: ["p"], display_name: "Ann", is_authenticated: true, token: "s3cret" };
    const cron = await crons.create(null, { ...hourly, ...payload, metadata: { a: 1 } }, { user_id: "u1", user });
    assert.deepEqual(cron.payload, {
      ...payload,
      config: { configurable: { tone: "dry" }, tags: ["t"] },
      context: { place: "here" },
      webhook: "https://hooks.example/in?…",
    });
    assert.deepEqual([cron.user_id, cron.metadata], ["u1", { a: 1 }]);
    assert.doesNotMatch(JSON.stringify(await crons.search()), /s3cret|sk-1|ann/);
    const row = await w.storage.getCron(here, cron.cron_id);
    assert.deepEqual(row?.payload, payload, "its runs get everything");
    const { token: _, ...storedUser } = user;
    assert.deepEqual(row?.auth_user, storedUser);
  });

  it("fires on an existing thread, or on one that it creates with `if_not_exists`", async () => {
    await using w = await world();
    const { crons, threads, assistants } = w.service;
    const { thread_id } = await threads.create();
    const cron = await crons.create(thread_id.toUpperCase(), hourly);
    assert.deepEqual([cron.thread_id, cron.on_run_completed], [thread_id, null]);
    await assert.rejects(crons.create(ABSENT, hourly), { code: "not_found", message: /Thread/ });
    await assert.rejects(crons.create(ABSENT, { ...hourly, if_not_exists: "reject" }), { code: "not_found" });
    const createdCron = await crons.create(ABSENT, { ...hourly, if_not_exists: "create", metadata: { a: 1 } });
    const { assistant_id } = await assistants.get("echo");
    const metadata = { graph_id: "echo", assistant_id, a: 1, cron_id: createdCron.cron_id };
    assert.deepEqual((await threads.get(ABSENT)).metadata, metadata);
    assert.equal((await threads.get(ABSENT)).status, "idle", "it does not run at once");
    assert.equal((await crons.create(null, { ...hourly, if_not_exists: "create" })).thread_id, null);
    for (const on_run_completed of ["delete", "keep"] as const) {
      await assert.rejects(crons.create(thread_id, { ...hourly, on_run_completed }), invalid("on_run_completed"));
      assert.equal((await crons.create(null, { ...hourly, on_run_completed })).on_run_completed, on_run_completed);
    }
    assert.equal((await crons.create(thread_id, { ...hourly, on_run_completed: null })).on_run_completed, null);
  });

  it("is refused for each option that its runs would be refused for", async () => {
    await using w = await world({ webhooks: { url: { allowed_domains: ["good.example"] } } });
    const { crons } = w.service;
    const create = (overrides: Partial<CronCreate>) => crons.create(null, { ...hourly, ...overrides });
    await assert.rejects(create({ assistant_id: "nobody" }), { code: "not_found", message: /nobody/ });
    await assert.rejects(create({ assistant_id: ABSENT }), { code: "not_found" });
    await assert.rejects(create({ webhook: "https://bad.example/" }), { code: "invalid", message: /webhook/ });
    await assert.rejects(create({ feedback_keys: [""] }), { code: "invalid", message: /feedback_keys/ });
    const two = { config: { configurable: { a: 1 } }, context: { a: 2 } };
    await assert.rejects(create(two), { code: "bad_request", message: /a has two values/ });
    await assert.rejects(create({ schedule: "0 0 30 2 *" }), invalid("schedule"));
    await assert.rejects(create({ schedule: "2026-12-24T18:00:00Z" }), invalid("schedule"));
    await assert.rejects(create({ timezone: "Mars/Phobos" }), invalid("timezone"));
    await assert.rejects(create({ timezone: "" }), invalid("timezone"));
    for (const end_time of ["soon", "2026-02-30T00:00:00Z", "2026-11-20T15:27:30Z", "2026-11-20T17:27:30+02:00"]) {
      await assert.rejects(create({ end_time }), invalid("end_time"), end_time);
    }
    assert.equal(await crons.count(), 0);
    assert.equal((await create({ webhook: "https://good.example/" })).enabled, true);
  });

  it("ends at a time in any format", async () => {
    await using w = await world();
    const { crons } = w.service;
    const end = async (end_time: string) => {
      const cron = await crons.create(null, { ...hourly, end_time });
      return [cron.end_time, cron.next_run_date];
    };
    const [four, five] = ["2026-11-20T16:00:00.000Z", "2026-11-20T17:00:00.000Z"];
    assert.deepEqual(await end("2026-11-20T17:00:00Z"), [five, four]);
    assert.deepEqual(await end("2026-11-20T17:00"), [five, four]);
    assert.deepEqual(await end("2026-11-20 18:00:00+0100"), [five, four]);
    assert.deepEqual(await end("2026-11-20T18:00:00.000000+01:00"), [five, four]);
    assert.deepEqual(await end("2026-11-20T18:00:00+01"), [five, four]);
    assert.deepEqual(await end("2026-11-20t18:00+01"), [five, four]);
    assert.deepEqual(await end("2026-11-20T18:00:00 01:00"), [five, four], "a plus that was not escaped");
    assert.deepEqual(await end("2026-11-20T17:00:00.000001"), ["2026-11-20T17:00:00.001Z", four], "rounded up");
    assert.deepEqual(await end("2026-11-20T18:59:59.999900+02"), [five, four]);
    assert.deepEqual(await end("2026-11-20T16:00:00.000000001Z"), ["2026-11-20T16:00:00.001Z", four]);
    assert.deepEqual(await end("2026-11-21"), ["2026-11-21T00:00:00.000Z", four]);
    assert.deepEqual(await end("2026-11-20T16:00:00Z"), [four, null], "the end itself is no fire time");
  });

  it("uses the clock of its time zone", async () => {
    await using w = await world();
    const next = async (schedule: string, timezone: string | null) =>
      (await w.service.crons.create(null, { ...hourly, schedule, timezone })).next_run_date;
    assert.equal(await next("0 9 * * MON-FRI", "Europe/Berlin"), "2026-11-23T08:00:00.000Z");
    assert.equal(await next("0 9 * * *", "America/New_York"), "2026-11-21T14:00:00.000Z");
    assert.equal(await next("@daily", null), "2026-11-21T00:00:00.000Z");
  });

  it("has no next run date while it is disabled", async () => {
    await using w = await world();
    const { crons } = w.service;
    const cron = await crons.create(null, { ...hourly, enabled: false });
    assert.deepEqual([cron.enabled, cron.next_run_date], [false, null]);
    const enabled = await crons.update(cron.cron_id, { enabled: true });
    assert.deepEqual([enabled.enabled, enabled.next_run_date], [true, "2026-11-20T16:00:00.000Z"]);
    assert.equal((await crons.update(cron.cron_id, { enabled: false })).next_run_date, null);
    assert.equal((await crons.update(cron.cron_id, { schedule: "5 * * * *" })).next_run_date, null);
    assert.equal((await crons.update(cron.cron_id, { enabled: null })).enabled, false);
  });
});

describe("an update of a cron", () => {
  it("keeps absent members, merges metadata and removes what is null", async () => {
    await using w = await world();
    const { crons } = w.service;
    const cron = await crons.create(null, {
      ...hourly,
      input: { a: 1 },
      context: { b: 2 },
      webhook: "https://hooks.example/",
      timezone: "Europe/Berlin",
      end_time: "2027-01-01T00:00:00Z",
      metadata: { kept: 1, changed: 1 },
    });
    await w.clock.set(w.clock.now() + 1000);
    const change = { input: { a: 2 }, context: null, metadata: { changed: 2 }, interrupt_before: ["x"] };
    const changed = await crons.update(cron.cron_id, change);
    assert.deepEqual(changed, {
      ...cron,
      payload: { input: { a: 2 }, webhook: "https://hooks.example/", interrupt_before: ["x"] },
      metadata: { kept: 1, changed: 2 },
      updated_at: "2026-11-20T15:27:31.000Z",
    });
    const cleared = await crons.update(cron.cron_id, { end_time: null, timezone: null, webhook: null });
    assert.deepEqual([cleared.end_time, cleared.timezone, cleared.payload.webhook], [null, null, undefined]);
    assert.equal((await crons.update(cron.cron_id, { on_run_completed: "keep" })).on_run_completed, "keep");
    assert.equal((await crons.update(cron.cron_id, { on_run_completed: null })).on_run_completed, "keep");
    assert.deepEqual(await crons.get(cron.cron_id), await crons.update(cron.cron_id, {}));
  });

  it("computes the next run date from now if the timing changes, and only then", async () => {
    await using w = await world({ crons: { enabled: false } });
    const { crons } = w.service;
    const { cron_id } = await crons.create(null, hourly);
    await w.clock.set(Date.parse("2026-11-20T17:10:00Z"));
    const at = async (patch: Parameters<typeof crons.update>[1]) => (await crons.update(cron_id, patch)).next_run_date;
    assert.equal(await at({ input: { a: 1 } }), "2026-11-20T16:00:00.000Z", "it is due still");
    assert.equal(await at({ schedule: "5 * * * *" }), "2026-11-20T18:05:00.000Z");
    assert.equal(await at({ timezone: "Asia/Kolkata" }), "2026-11-20T17:35:00.000Z");
    assert.equal(await at({ end_time: "2026-11-20T17:30:00Z" }), null);
    assert.equal(await at({ end_time: "2026-11-20T17:36:00Z" }), "2026-11-20T17:35:00.000Z");
    assert.equal(await at({ end_time: null }), "2026-11-20T17:35:00.000Z");
    assert.equal(await at({ timezone: null, enabled: true }), "2026-11-20T18:05:00.000Z");
  });

  it("is refused for the same reasons as a creation", async () => {
    await using w = await world({ webhooks: { url: { allowed_domains: ["good.example"] } } });
    const { crons, threads } = w.service;
    const { thread_id } = await threads.create();
    const cron = await crons.create(thread_id, hourly);
    const update = (patch: Parameters<typeof crons.update>[1]) => crons.update(cron.cron_id, patch);
    await assert.rejects(crons.update(ABSENT, {}), { code: "not_found", message: /Cron/ });
    await assert.rejects(update({ schedule: "0/15 * * * *" }), invalid("schedule"));
    await assert.rejects(update({ timezone: "Nowhere" }), invalid("timezone"));
    await assert.rejects(update({ end_time: "2020-01-01T00:00:00Z" }), invalid("end_time"));
    await assert.rejects(update({ on_run_completed: "keep" }), invalid("on_run_completed"));
    await assert.rejects(update({ webhook: "https://bad.example/" }), { code: "invalid", message: /webhook/ });
    assert.deepEqual(await crons.get(cron.cron_id), cron);
  });
});

describe("crons", () => {
  it("are searched, counted and deleted", async () => {
    await using w = await world();
    const { crons, threads, assistants } = w.service;
    const { thread_id } = await threads.create();
    const createdCrons: Cron[] = [];
    for (const [id, request] of [
      [null, { ...hourly, metadata: { team: "a" } }],
      [thread_id, { ...hourly, metadata: { team: "b" }, enabled: false }],
      [null, { ...hourly, assistant_id: "other" }],
    ] as const) {
      createdCrons.push(await crons.create(id, request));
      await w.clock.set(w.clock.now() + 1000);
    }
    const [first, second, third] = createdCrons as [Cron, Cron, Cron];
    assert.deepEqual(await crons.search(), { items: [third, second, first], total: 3, next: null });
    assert.deepEqual(await crons.search({ limit: 1, offset: 1 }), { items: [second], total: 3, next: 2 });
    assert.deepEqual((await crons.search({ sort_by: "created_at", sort_order: "asc" })).items, createdCrons);
    assert.deepEqual((await crons.search({ metadata: { team: "a" } })).items, [first]);
    assert.deepEqual((await crons.search({ thread_id })).items, [second]);
    assert.deepEqual((await crons.search({ enabled: false })).items, [second]);
    assert.deepEqual((await crons.search({ assistant_id: "other" })).items, [third]);
    const { assistant_id } = await assistants.get("other");
    assert.deepEqual((await crons.search({ assistant_id })).items, [third]);
    assert.deepEqual(await crons.search({ assistant_id: "nobody" }), { items: [], total: 0, next: null });
    assert.equal(await crons.count({ assistant_id: "nobody" }), 0);
    assert.equal(await crons.count({ assistant_id: "echo", enabled: true }), 1);
    assert.equal(await crons.count(), 3);

    await crons.delete(first.cron_id);
    await assert.rejects(crons.delete(first.cron_id), { code: "not_found" });
    await assert.rejects(crons.get(first.cron_id), { code: "not_found" });
    await threads.delete(thread_id);
    await assert.rejects(crons.get(second.cron_id), { code: "not_found" });
    assert.equal(await crons.count(), 1);
    const ownAssistant = await assistants.create({ graph_id: "echo" });
    await crons.create(null, { ...hourly, assistant_id: ownAssistant.assistant_id });
    await assistants.delete(ownAssistant.assistant_id);
    assert.equal(await crons.count(), 1);
  });
});
