/** Tests of crons and of the outcomes of their ticks. */

import assert from "node:assert/strict";
import type {
  AssistantRow,
  CreateRun,
  CronRow,
  FireCron,
  FireCronResult,
  NewCron,
  Storage,
  ThreadRow,
} from "../../../lib/storage/mod.ts";
import { countCrons, countThreads } from "../counts.ts";
import {
  createAssistant,
  createClaimedRun,
  createPendingRun,
  createThread,
  finish,
  here,
  newRun,
  requireCreated,
  type StorageTest,
  type SuiteApi,
  statuses,
  there,
} from "./material.ts";

const firstPage = { limit: 100, offset: 0 };

function newCron(cron_id: string, options: Partial<NewCron> = {}): NewCron {
  const thread = options.thread_id ?? null;
  return {
    cron_id,
    assistant_id: "a",
    thread_id: null,
    on_run_completed: thread === null ? "delete" : null,
    schedule: "* * * * *",
    timezone: null,
    end_time: null,
    enabled: true,
    next_run_date: 5000,
    payload: { input: { a: 1 } },
    metadata: {},
    user_id: null,
    auth_user: null,
    ...options,
  };
}

async function createCron(
  storage: Storage,
  cron_id: string,
  options: Partial<NewCron> = {},
  now = 1000,
): Promise<CronRow> {
  const outcome = await storage.createCron(here, newCron(cron_id, options), now);
  assert.ok(outcome.kind === "created", outcome.kind);
  return outcome.cron;
}

/** A stateless run, or a run on a thread in its current revision. */
async function createRunRequest(
  storage: Storage,
  assistant: AssistantRow,
  run_id: string,
  thread_id: string | null = null,
  options: Partial<CreateRun["run"]> = {},
): Promise<CreateRun> {
  const expected = { assistant_revision: assistant.revision };
  const ownThreadId = thread_id ?? `thread-${run_id}`;
  const run = newRun(ownThreadId, run_id, {
    created_at: 5100,
    cron_id: "c",
    stateless: thread_id === null,
    ...options,
  });
  if (thread_id === null) {
    const create_thread = { thread_id: ownThreadId, metadata: { cron_id: "c" }, config: {}, stateless: true };
    return { run, expected: { ...expected, thread_revision: null }, create_thread, now: 5100 };
  }
  const thread = (await storage.getThread(here, thread_id)) as ThreadRow;
  return { run, expected: { ...expected, thread_revision: thread.revision }, now: 5100 };
}

function tick(cron: CronRow, run: CreateRun | null, options: Partial<FireCron> = {}): FireCron {
  const scheduled_at = cron.next_run_date as number;
  return {
    cron_id: cron.cron_id,
    expected: { next_run_date: scheduled_at, revision: cron.revision },
    next_run_date: 65000,
    skipped: [],
    firing: run ? { scheduled_at, run } : null,
    now: 5100,
    ...options,
  };
}

const firings = async (storage: Storage, cron_id = "c"): Promise<string[]> =>
  (await storage.listCronFirings(here, cron_id, firstPage)).map(
    ({ scheduled_at, run_id, skipped }) => `${scheduled_at} ${run_id ?? skipped}`,
  );

const get = async (storage: Storage, cron_id = "c"): Promise<CronRow> =>
  (await storage.getCron(here, cron_id)) ?? assert.fail(`there is no cron ${cron_id}`);

const kinds = (outcomes: readonly FireCronResult[]): string[] => outcomes.map(({ kind }) => kind).sort();

export function cronTests(api: SuiteApi, test: StorageTest): void {
  api.describe("crons", () => {
    test("are stored unchanged", async (storage) => {
      await createAssistant(storage);
      await createThread(storage, "t");
      const auth_user = { identity: "ann", permissions: ["p"] };
      const options = { timezone: "Europe/Berlin", end_time: 99000, user_id: "u", auth_user, metadata: { team: "a" } };
      const cron = await createCron(storage, "c", { thread_id: "t", ...options });
      const { revision, ...row } = cron;
      assert.equal(typeof revision, "number");
      const initial = { failures: 0, created_at: 1000, updated_at: 1000 };
      assert.deepEqual(row, { ...newCron("c", { thread_id: "t", ...options }), ...initial });
      assert.deepEqual(await storage.getCron(here, "c"), cron);
      assert.equal(await storage.getCron(here, "d"), null);
      assert.equal(await storage.getCron(there, "c"), null);
    });

    test("record firings by hand", async (storage) => {
      await createAssistant(storage);
      await createCron(storage, "c", { enabled: false, next_run_date: null });
      await storage.recordFiring(here, { cron_id: "c", fired_at: 3000, run_id: "r1" });
      await storage.recordFiring(here, { cron_id: "c", fired_at: 3000, run_id: "r2" });
      await storage.recordFiring(here, { cron_id: "d", fired_at: 3000, run_id: "r3" });
      await storage.recordFiring(there, { cron_id: "c", fired_at: 4000, run_id: "r4" });
      const firing = { cron_id: "c", scheduled_at: 3000, fired_at: 3000, run_id: "r1", skipped: null, manual: true };
      assert.deepEqual(await storage.listCronFirings(here, "c", { limit: 9, offset: 0 }), [firing]);
      assert.equal((await storage.getCron(here, "c"))?.next_run_date, null);
    });

    test("require their assistant and their thread", async (storage) => {
      const make = (options: Partial<NewCron>) => storage.createCron(here, newCron("c", options), 1000);
      assert.deepEqual(await make({}), { kind: "assistant_not_found" });
      await createAssistant(storage);
      assert.deepEqual(await make({ thread_id: "t" }), { kind: "thread_not_found" });
      await storage.createThread(here, { thread_id: "h", metadata: {}, config: {}, stateless: true }, 1000);
      assert.deepEqual(await make({ thread_id: "h", metadata: { m: 1 } }), { kind: "thread_not_found" });
      assert.equal(await countCrons(storage, here, {}), 0);
      assert.equal(await countCrons(storage, here, { metadata: { m: 1 } }), 0);
    });

    test("are found by each of their members, in any order", async (storage) => {
      await createAssistant(storage);
      await createAssistant(storage, { assistant_id: "b" });
      await createThread(storage, "t");
      await createCron(storage, "c1", { metadata: { team: "a", list: [1, 2] }, next_run_date: 7000 }, 1000);
      await createCron(storage, "c2", { metadata: { team: "b" }, assistant_id: "b", next_run_date: 6000 }, 1001);
      await createCron(
        storage,
        "c3",
        { metadata: { team: "a" }, thread_id: "t", enabled: false, next_run_date: null },
        1002,
      );
      const search = async (query: Partial<Parameters<Storage["searchCrons"]>[1]>, scope = here) => {
        const page = { ...firstPage, sort_by: "created_at", sort_order: "asc" } as const;
        const { rows, total } = await storage.searchCrons(scope, { ...page, ...query });
        return `${rows.map(({ cron_id }) => cron_id).join()} of ${total}`;
      };
      assert.equal(await search({}), "c1,c2,c3 of 3");
      assert.equal(await search({ sort_order: "desc" }), "c3,c2,c1 of 3");
      assert.equal(await search({ sort_by: "next_run_date", enabled: true }), "c2,c1 of 2");
      for (const sort_by of ["cron_id", "assistant_id", "thread_id", "end_time", "updated_at"] as const) {
        assert.match(await search({ sort_by }), / of 3$/);
      }
      assert.equal(await search({ enabled: false }), "c3 of 1");
      assert.equal(await search({ assistant_id: "b" }), "c2 of 1");
      assert.equal(await search({ thread_id: "t" }), "c3 of 1");
      assert.equal(await search({ metadata: { team: "a" } }), "c1,c3 of 2");
      assert.equal(await search({ metadata: { team: "a" }, limit: 1, offset: 1 }), "c3 of 2");
      assert.equal(await search({ metadata: { list: [2] } }), "c1 of 1");
      assert.equal(await search({ metadata: { team: "c" } }), " of 0");
      assert.equal(await search({ limit: 1, offset: 1 }), "c2 of 3");
      assert.equal(await search({}, there), " of 0");
      assert.equal(await countCrons(storage, here, {}), 3);
      assert.equal(await countCrons(storage, here, { metadata: { team: "a" }, enabled: true }), 1);
      assert.equal(await countCrons(storage, there, {}), 0);
    });

    test("are visible only within a filter", async (storage) => {
      await createAssistant(storage);
      await createCron(storage, "c", { metadata: { owner: "ann", teams: ["x", "y"] } });
      const ownerScope = (owner: string) => ({ ...here, filter: [{ key: "owner", equals: owner }] });
      const [ann, bob] = [ownerScope("ann"), ownerScope("bob")];
      const page = { ...firstPage, sort_by: "created_at", sort_order: "asc" } as const;
      const change = (scope: typeof ann) =>
        storage.updateCron(scope, "c", (cron) => ({ ...cron, schedule: "0 0 * * *" }), 2000);
      assert.equal(await storage.getCron(bob, "c"), null);
      assert.equal(await change(bob), null);
      assert.equal(await countCrons(storage, bob, {}), 0);
      assert.deepEqual(await storage.searchCrons(bob, page), { rows: [], total: 0 });
      assert.equal(await storage.deleteCron(bob, "c"), false);
      assert.equal((await storage.getCron(ann, "c"))?.schedule, "* * * * *");
      assert.equal(await countCrons(storage, { ...here, filter: [{ key: "teams", contains: ["y"] }] }, {}), 1);
      assert.equal((await storage.searchCrons(ann, page)).total, 1);
      assert.equal((await change(ann))?.schedule, "0 0 * * *");
      assert.equal(await storage.deleteCron(ann, "c"), true);
    });

    test("are changed by one update after the other", async (storage) => {
      await createAssistant(storage);
      const before = await createCron(storage, "c", { metadata: { count: 0 } });
      const add = () =>
        storage.updateCron(
          here,
          "c",
          (cron) => ({ ...cron, metadata: { count: (cron.metadata.count as number) + 1 } }),
          2000,
        );
      await Promise.all([add(), add(), add()]);
      const cron = await get(storage);
      assert.deepEqual(cron.metadata, { count: 3 });
      assert.deepEqual([cron.created_at, cron.updated_at], [1000, 2000]);
      assert.notEqual(cron.revision, before.revision);
      assert.equal(await countCrons(storage, here, { metadata: { count: 3 } }), 1);
      assert.equal(await countCrons(storage, here, { metadata: { count: 0 } }), 0);
      const content = { schedule: "@daily", timezone: "Asia/Tokyo", end_time: 9000, enabled: false };
      const changes = { next_run_date: null, payload: { input: 2 }, on_run_completed: "keep" as const };
      const changed = await storage.updateCron(here, "c", (row) => ({ ...row, ...content, ...changes }), 3000);
      assert.deepEqual(changed, { ...cron, ...content, ...changes, updated_at: 3000, revision: changed?.revision });
      assert.equal(await storage.updateCron(there, "c", (row) => row, 3000), null);
    });

    test("are not set back by an update that was prepared while they fired", async (storage) => {
      const assistant = await createAssistant(storage);
      const cron = await createCron(storage, "c");
      const run = await createRunRequest(storage, assistant, "r1");
      let firing: Promise<FireCronResult> | undefined;
      const changed = await storage.updateCron(
        here,
        "c",
        (row) => {
          firing ??= storage.fireCron(here, tick(cron, run));
          return { ...row, metadata: { seen: row.next_run_date } };
        },
        2000,
      );
      const { kind } = await (firing as Promise<FireCronResult>);
      // The database decides which of the two is first.
      const next_run_date = kind === "fired" ? 65000 : 5000;
      assert.deepEqual([changed?.next_run_date, changed?.metadata], [next_run_date, { seen: next_run_date }]);
      assert.deepEqual(await firings(storage), kind === "fired" ? ["5000 r1"] : []);
    });

    test("are deleted with their thread, with their assistant, and by themselves", async (storage) => {
      const assistant = await createAssistant(storage);
      await createAssistant(storage, { assistant_id: "b" });
      await createThread(storage, "t");
      for (const [id, options] of [
        ["c1", { thread_id: "t" }],
        ["c2", { assistant_id: "b" }],
        ["c", {}],
        ["c4", {}],
      ] as const) {
        const cron = await createCron(storage, id, { ...options, metadata: { its: id } });
        const skipped = [{ scheduled_at: 5000, reason: "missed" as const }];
        assert.deepEqual(await storage.fireCron(here, tick(cron, null, { skipped })), { kind: "skipped" });
      }
      await storage.deleteThread(here, "t");
      await storage.deleteAssistant(here, "b", { delete_threads: false });
      assert.equal(await storage.deleteCron(there, "c"), false);
      const fired = await storage.fireCron(
        here,
        tick(await get(storage), await createRunRequest(storage, assistant, "r1"), { next_run_date: null }),
      );
      assert.equal(fired.kind, "fired");
      assert.equal(await storage.deleteCron(here, "c"), true);
      assert.equal(await storage.deleteCron(here, "c"), false);
      for (const id of ["c1", "c2", "c"]) {
        assert.equal(await storage.getCron(here, id), null);
        assert.deepEqual(await firings(storage, id), []);
        assert.equal(await countCrons(storage, here, { metadata: { its: id } }), 0);
      }
      assert.equal((await storage.getRun(here, "r1"))?.status, "pending", "its runs stay");
      assert.equal(await countCrons(storage, here, { metadata: { its: "c4" } }), 1);
      // First labels of the deleted c1 and c2, then no labels.
      assert.equal(await storage.deleteExpired(here, { firings_before: 0, limit: 100, now: 9000 }), 2);
      assert.equal(await storage.deleteExpired(here, { firings_before: 0, limit: 100, now: 9000 }), 0);
      assert.deepEqual(await firings(storage, "c4"), ["5000 missed"]);
      assert.equal(await storage.deleteExpired(there, { firings_before: 6000, limit: 100, now: 9000 }), 0);
      assert.equal(await storage.deleteExpired(here, { firings_before: 5101, limit: 100, now: 9000 }), 1);
      assert.deepEqual(await firings(storage, "c4"), []);
      assert.equal(await countCrons(storage, here, { metadata: { its: "c4" } }), 1);
    });

    test("are due at their time while they are enabled", async (storage) => {
      await createAssistant(storage);
      assert.equal((await storage.listEnabledCrons(here, { due_by: 1e15, limit: 1 }))[0], undefined);
      await createCron(storage, "c1", { next_run_date: 7000 });
      await createCron(storage, "c2", { next_run_date: 6000 });
      await createCron(storage, "c3", { next_run_date: null });
      await createCron(storage, "c4", { next_run_date: 5000, enabled: false });
      const listDue = async (now: number, limit = 10, scope = here) =>
        (await storage.listEnabledCrons(scope, { due_by: now, limit: limit })).map(({ cron_id }) => cron_id).join();
      assert.equal(await listDue(5999), "");
      assert.equal(await listDue(6000), "c2");
      assert.equal(await listDue(9000), "c2,c1");
      assert.equal(await listDue(9000, 1), "c2");
      assert.equal(await listDue(9000, 10, there), "");
      assert.equal((await storage.listEnabledCrons(here, { due_by: 1e15, limit: 1 }))[0]?.next_run_date, 6000);
      assert.equal((await storage.listEnabledCrons(there, { due_by: 1e15, limit: 1 }))[0], undefined);
    });
  });

  api.describe("fireCron", () => {
    test("creates a run, advances the cron and records the firing", async (storage) => {
      const assistant = await createAssistant(storage);
      const cron = await createCron(storage, "c");
      const skipped = [
        { scheduled_at: 3000, reason: "missed" as const },
        { scheduled_at: 4000, reason: "superseded" as const },
      ];
      const run = await createRunRequest(storage, assistant, "r1", null, { user_id: "u" });
      const outcome = await storage.fireCron(here, tick(cron, run, { skipped }));
      assert.ok(outcome.kind === "fired");
      const { created: createdRun } = outcome;
      assert.deepEqual([createdRun.run.run_id, createdRun.run.status, createdRun.run.cron_id], ["r1", "pending", "c"]);
      assert.deepEqual([createdRun.claimed, createdRun.stopped], [null, []]);
      assert.deepEqual(await storage.getRun(here, "r1"), createdRun.run);
      assert.equal((await storage.getThread(here, "thread-r1"))?.status, "busy");
      const { revision, ...after } = await get(storage);
      assert.deepEqual({ ...after, revision }, { ...cron, next_run_date: 65000, updated_at: 5100 });
      assert.deepEqual(await firings(storage), ["5000 r1", "4000 superseded", "3000 missed"]);
      assert.deepEqual(await storage.listCronFirings(here, "c", { limit: 1, offset: 1 }), [
        { cron_id: "c", scheduled_at: 4000, fired_at: 5100, run_id: null, skipped: "superseded" },
      ]);
    });

    test("creates one run if several processes fire the same fire time", async (storage) => {
      const assistant = await createAssistant(storage);
      const cron = await createCron(storage, "c");
      const runs = await Promise.all(
        Array.from({ length: 8 }, (_, i) =>
          createRunRequest(storage, assistant, `r${i}`, null, { stateless: i % 2 === 0 }),
        ),
      );
      const skipped = [{ scheduled_at: 4000, reason: "superseded" as const }];
      const outcomes = await Promise.all(runs.map((run) => storage.fireCron(here, tick(cron, run, { skipped }))));
      assert.deepEqual(kinds(outcomes), ["fired", ...Array(7).fill("lost")]);
      const rows = await Promise.all(runs.map(({ run }) => storage.getRun(here, run.run_id)));
      assert.equal(rows.filter((run) => run !== null).length, 1);
      const threads = await Promise.all(runs.map(({ run }) => storage.getThread(here, run.thread_id)));
      assert.equal(threads.filter((thread) => thread !== null).length, 1, "and no thread without its run");
      assert.equal((await firings(storage)).length, 2);
      assert.equal((await get(storage)).next_run_date, 65000);
    });

    test("creates one run on a thread too", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const cron = await createCron(storage, "c", { thread_id: "t" });
      const runs = await Promise.all(["r1", "r2", "r3"].map((id) => createRunRequest(storage, assistant, id, "t")));
      const outcomes = await Promise.all(runs.map((run) => storage.fireCron(here, tick(cron, run))));
      assert.deepEqual(kinds(outcomes), ["fired", "lost", "lost"]);
      assert.equal((await storage.listRuns(here, "t", firstPage)).length, 1);
    });

    test("fires no fire time again, whatever the cron contains", async (storage) => {
      const assistant = await createAssistant(storage);
      const cron = await createCron(storage, "c");
      const fire = async (run_id: string) =>
        (await storage.fireCron(here, tick(await get(storage), await createRunRequest(storage, assistant, run_id))))
          .kind;
      assert.equal(await fire("r1"), "fired");
      // A clock was set back, and the next tick was computed from there.
      await storage.updateCron(here, "c", (row) => ({ ...row, next_run_date: cron.next_run_date }), 4000);
      assert.equal(await fire("r2"), "lost");
      assert.equal(await storage.getRun(here, "r2"), null);
      assert.equal(await storage.getThread(here, "thread-r2"), null);
      assert.equal((await get(storage)).next_run_date, 5000);
      assert.deepEqual(await storage.fireCron(here, tick(await get(storage), null)), { kind: "skipped" });
      assert.equal((await get(storage)).next_run_date, 65000);
      assert.deepEqual(await firings(storage), ["5000 r1"]);
    });

    test("has no effect if the cron has changed since it was read", async (storage) => {
      const assistant = await createAssistant(storage);
      const cron = await createCron(storage, "c");
      const skipped = [{ scheduled_at: 4000, reason: "superseded" as const }];
      const attempts = async (note: string) => {
        for (const run of [await createRunRequest(storage, assistant, "r1"), null]) {
          assert.deepEqual(await storage.fireCron(here, tick(cron, run, { skipped })), { kind: "lost" }, note);
        }
        assert.equal(await storage.getRun(here, "r1"), null);
        assert.equal(await storage.getThread(here, "thread-r1"), null);
        assert.deepEqual(await firings(storage), []);
      };
      assert.deepEqual(await storage.fireCron(there, tick(cron, null, { skipped })), { kind: "lost" });
      await storage.updateCron(here, "c", (row) => ({ ...row, payload: {} }), 2000);
      await attempts("changed");
      assert.equal((await get(storage)).next_run_date, 5000);
      await storage.updateCron(here, "c", (row) => ({ ...row, enabled: false, next_run_date: null }), 2000);
      await attempts("disabled");
      await storage.deleteCron(here, "c");
      await attempts("deleted");
    });

    test("leaves no rows if a row that the run was resolved from has changed", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t", { m: 1 });
      const skipped = [{ scheduled_at: 4000, reason: "superseded" as const }];
      for (const thread_id of ["t", null]) {
        const id = thread_id === null ? "c" : "d";
        const cron = await createCron(storage, id, { thread_id });
        const now = (await storage.getAssistant(here, "a")) as AssistantRow;
        const run = await createRunRequest(storage, now, `r-${id}`, thread_id);
        const fire = tick(cron, { ...run, run: { ...run.run, cron_id: id } }, { skipped });
        if (thread_id === null) await storage.updateAssistant(here, "a", (row) => row, 5050);
        else await storage.updateThread(here, "t", () => ({ metadata: { m: 2 } }), 5050);
        assert.deepEqual(await storage.fireCron(here, fire), { kind: "stale" });
        assert.deepEqual(await storage.getCron(here, id), cron);
        assert.deepEqual(await firings(storage, id), []);
        assert.equal(await storage.getRun(here, `r-${id}`), null);
      }
      assert.equal((await storage.getThread(here, "t"))?.status, "idle");
      assert.equal(assistant.assistant_id, "a");
    });

    test("records a skip if the thread or a limit rejects the run, and advances the cron", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      await createPendingRun(storage, assistant, "t", "before");
      const limits = { pending_per_thread: 1, pending: 1 };
      const skipped = [{ scheduled_at: 4000, reason: "superseded" as const }];
      const cases = [
        ["thread_busy", "t", { multitask_strategy: "reject" }, undefined],
        ["thread_full", "t", {}, { ...limits, pending: 9 }],
        ["deployment_full", "t", {}, { ...limits, pending_per_thread: 9 }],
        ["deployment_full", null, {}, limits],
      ] as const;
      for (const [i, [reason, thread_id, options, limit]] of cases.entries()) {
        const id = `c${i}`;
        const cron = await createCron(storage, id, { thread_id });
        const run = await createRunRequest(storage, assistant, `r${i}`, thread_id, { ...options, cron_id: id });
        const fire = tick(cron, { ...run, ...(limit ? { limits: limit } : {}) }, { skipped });
        assert.deepEqual(await storage.fireCron(here, fire), { kind: "refused", reason });
        assert.deepEqual(await firings(storage, id), [`5000 ${reason}`, "4000 superseded"]);
        assert.equal((await storage.getCron(here, id))?.next_run_date, 65000);
        assert.equal(await storage.getRun(here, `r${i}`), null);
        assert.deepEqual(await storage.fireCron(here, fire), { kind: "lost" });
      }
      assert.equal(await statuses(storage, "t"), "before pending");
    });

    test("stops the thread's runs once if the strategy requires it", async (storage) => {
      const assistant = await createAssistant(storage);
      for (const [multitask_strategy, expectedStatuses] of [
        ["interrupt", "old-interrupt interrupted,new-interrupt pending"],
        ["rollback", "new-rollback pending"],
        ["enqueue", "old-enqueue pending,new-enqueue pending"],
      ] as const) {
        const thread = multitask_strategy;
        await createThread(storage, thread);
        await createPendingRun(storage, assistant, thread, `old-${thread}`);
        const cron = await createCron(storage, `c-${thread}`, { thread_id: thread });
        const run = await createRunRequest(storage, assistant, `new-${thread}`, thread, { multitask_strategy });
        const outcome = await storage.fireCron(here, tick(cron, run));
        assert.ok(outcome.kind === "fired");
        assert.equal(outcome.created.stopped.length, thread === "enqueue" ? 0 : 1);
        const late = await createRunRequest(storage, assistant, `late-${thread}`, thread, { multitask_strategy });
        assert.deepEqual(await storage.fireCron(here, tick(cron, late)), { kind: "lost" });
        assert.equal(await statuses(storage, thread), expectedStatuses);
      }
    });

    test("creates the rows of the run: its thread's metadata, tokens and webhook", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t", { a: 1 });
      const cron = await createCron(storage, "c", { thread_id: "t" });
      const webhook = { url: "https://x.example/", host: "x.example:443", depth: 0 };
      const billed = { life_ms: 1000, workspace_id: "w", project_id: "p" };
      const feedback = { tokens: [["liked", "token-1"]] as const, ...billed };
      const run = await createRunRequest(storage, assistant, "r1", "t", { webhook, feedback });
      const update_thread = { metadata: { a: 2 }, config: { tags: ["x"] } };
      const outcome = await storage.fireCron(here, tick(cron, { ...run, update_thread }));
      assert.ok(outcome.kind === "fired");
      assert.deepEqual(outcome.created.run.webhook, webhook);
      assert.deepEqual(outcome.created.run.feedback, [["liked", "token-1"]]);
      assert.equal(await countThreads(storage, here, { metadata: { a: 2 } }), 1);
      assert.equal((await storage.getFeedbackToken("token-1"))?.run_id, "r1");
    });
  });

  api.describe("failures of a cron's runs", () => {
    test("are counted in a row, with the end of the run", async (storage) => {
      const assistant = await createAssistant(storage);
      await createCron(storage, "c");
      await createCron(storage, "d");
      let count = 0;
      const end = async (status: "success" | "error" | "timeout" | "interrupted", cron_id?: string) => {
        const id = `r${++count}`;
        await createThread(storage, id);
        const of = cron_id === undefined ? {} : { cron_id };
        const claim = { token: `token-${id}`, lease_until: 5000 };
        const { claimed: claimedRun } = await requireCreated(storage, assistant, id, id, { run: of, claim });
        assert.ok(claimedRun);
        assert.deepEqual(await storage.finishRun(here, claimedRun.lease, finish({ status, ...of })), { next: null });
        // A second call has no effect.
        assert.equal(await storage.finishRun(here, claimedRun.lease, finish({ status, ...of })), null);
        return (await get(storage)).failures;
      };
      assert.equal(await end("error", "c"), 1);
      assert.equal(await end("timeout", "c"), 2);
      assert.equal(await end("interrupted", "c"), 2);
      assert.equal(await end("error"), 2);
      assert.equal(await end("error", "d"), 2);
      assert.deepEqual(
        (await storage.listEnabledCrons(here, { failures: 2, limit: 10 })).map(({ cron_id }) => cron_id),
        ["c"],
      );
      assert.equal((await storage.listEnabledCrons(here, { failures: 1, limit: 10 })).length, 2);
      assert.deepEqual(await storage.listEnabledCrons(there, { failures: 1, limit: 10 }), []);
      assert.equal((await storage.updateCron(here, "c", (cron) => cron, 3000))?.failures, 2);
      assert.equal(await end("success", "c"), 0);
      assert.equal(await end("error", "c"), 1);
      await storage.updateCron(here, "c", (cron) => ({ ...cron, enabled: false, next_run_date: null }), 3000);
      assert.deepEqual(
        (await storage.listEnabledCrons(here, { failures: 1, limit: 10 })).map(({ cron_id }) => cron_id),
        ["d"],
        "a disabled cron is not read",
      );
      const enabled = await storage.updateCron(here, "c", (cron) => ({ ...cron, enabled: true }), 3000);
      assert.equal(enabled?.failures, 0, "who enables it begins anew");
    });

    test("are not counted for a run that was taken over", async (storage) => {
      const assistant = await createAssistant(storage);
      await createCron(storage, "c");
      await createThread(storage, "t");
      const { lease } = await createClaimedRun(storage, assistant, "t", "r1");
      const lost = { ...lease, token: "other" };
      assert.equal(await storage.finishRun(here, lost, finish({ status: "error", cron_id: "c" })), null);
      assert.equal((await get(storage)).failures, 0);
    });
  });
}
