/** Tests of push configurations: the deliveries at the ends of a task's runs. */
import assert from "node:assert/strict";
import type { ClaimedRun, DeliveryRow, NewPush, PushRow, Storage } from "../../../lib/storage/mod.ts";
import {
  createAssistant,
  createThread,
  finish,
  here,
  requireCreated,
  type StorageTest,
  type SuiteApi,
  there,
} from "./material.ts";

const id = (n: number): string => `0000000${n}-0000-4000-8000-00000000000${n}`;
const [FIRST, ANSWER, NEXT] = [id(1), id(2), id(3)] as const;
const NOBODY = { key: "owner", equals: "nobody" } as const;

const push = (config_id: string, n: number): NewPush => ({
  push_id: id(n),
  config_id,
  url: `https://${config_id}.example/`,
  host: `${config_id}.example:443`,
  terms: { version: "1.0", token: "t" },
});
const row = (config_id: string, n: number, changes: Partial<PushRow> = {}): PushRow => ({
  ...push(config_id, n),
  ...{ task_id: FIRST, thread_id: "t", last_run: FIRST },
  ...changes,
});

/** Creates a run of A2A with a claim. */
async function startRun(storage: Storage, run_id: string, run: object = {}): Promise<ClaimedRun> {
  const assistant = await createAssistant(storage);
  const creation = await requireCreated(storage, assistant, "t", run_id, {
    run: { metadata: { created_by: "a2a" }, ...run },
    claim: { token: run_id, lease_until: 5000 },
  });
  return creation.claimed as ClaimedRun;
}

/** Formats the rows of the outbox, oldest first: run, receiver and state. */
async function readOutbox(storage: Storage): Promise<string[]> {
  const rows = await storage.listDeliveries(here, { thread_id: "t", limit: 100 });
  const format = ({ run, push: of, url }: DeliveryRow): string =>
    [
      run.run_id.slice(7, 8),
      new URL(url).host.split(".")[0],
      run.status,
      Object.keys(of?.interrupts ?? {}).length,
    ].join();
  return rows.map(format).sort();
}

export function pushTests(api: SuiteApi, test: StorageTest): void {
  api.describe("push configurations", () => {
    test("get a delivery for the end of each run of their task, and of no other", async (storage) => {
      await createThread(storage, "t");
      const first = await startRun(storage, FIRST, { push: push("a", 4) });
      assert.equal(await storage.setPush(here, row("b", 5), 1500), true);
      assert.deepEqual(await storage.listPushes(here, FIRST), [row("a", 4), row("b", 5)]);
      const interrupts = { n: [{ id: "i", value: "?" }] };
      await storage.finishRun(
        here,
        first.lease,
        finish({ now: 2000, thread: { head: null, interrupts, status: "interrupted", error: null } }),
      );
      assert.deepEqual(await readOutbox(storage), ["1,a,success,1", "1,b,success,1"]);
      const [delivery] = await storage.listDeliveries(here, { thread_id: "t", limit: 1 });
      assert.deepEqual(delivery?.push, { version: "1.0", token: "t", task_id: FIRST, interrupts });
      assert.equal(delivery?.run.values, null);

      const answer = await startRun(storage, ANSWER, { kwargs: { command: { resume: "yes" } } });
      assert.deepEqual(await storage.listPushes(here, FIRST), [
        row("a", 4, { last_run: ANSWER }),
        row("b", 5, { last_run: ANSWER }),
      ]);
      await storage.removePush(here, { thread_id: "t", task_id: FIRST, config_id: "b" });
      await storage.removePush(here, { thread_id: "t", task_id: FIRST, config_id: "b" });
      const error = { error: "Odd", message: "It is odd" };
      await storage.finishRun(here, answer.lease, finish({ status: "error", error, now: 2100 }));
      const next = await startRun(storage, NEXT);
      await storage.finishRun(here, next.lease, finish({ now: 2200 }));
      assert.deepEqual(await readOutbox(storage), ["1,a,success,1", "1,b,success,1", "2,a,error,0"]);
    });

    test("get a delivery for runs that end before they start, and one for a task that is cancelled while it interrupts", async (storage) => {
      await createThread(storage, "t");
      const first = await startRun(storage, FIRST, { push: push("a", 4) });
      await requireCreated(storage, await createAssistant(storage), "t", ANSWER, {
        run: { metadata: { created_by: "a2a" }, push: push("b", 5) },
      });
      await storage.stopRuns(here, { thread_id: "t", run_ids: [ANSWER] }, "interrupt", 1500);
      assert.deepEqual(await readOutbox(storage), ["2,b,interrupted,0"]);
      await storage.finishRun(here, first.lease, finish({ now: 2000 }));
      const task = { thread_id: "t", task_id: FIRST };
      await storage.notifyCancelled({ ...here, filter: [NOBODY] }, task, 2100);
      await storage.notifyCancelled(there, task, 2100);
      assert.deepEqual(await readOutbox(storage), ["1,a,success,0", "2,b,interrupted,0"]);
      for (let times = 0; times < 2; times++) await storage.notifyCancelled(here, task, 2100);
      assert.deepEqual(await readOutbox(storage), ["1,a,interrupted,0", "1,a,success,0", "2,b,interrupted,0"]);
    });

    test("are at most ten for an existing task, and visible to callers who see its thread", async (storage) => {
      await createThread(storage, "t");
      await startRun(storage, FIRST);
      assert.equal(await storage.setPush(here, row("a", 4, { task_id: NEXT }), 1500), false);
      assert.equal(await storage.setPush(here, row("a", 4, { last_run: NEXT }), 1500), false);
      assert.equal(await storage.setPush(there, row("a", 4), 1500), false);
      const hidden = { ...here, filter: [NOBODY] };
      assert.equal(await storage.setPush(hidden, row("a", 4), 1500), false);
      for (let n = 0; n < 10; n++) assert.equal(await storage.setPush(here, row(`c${n}`, n), 1500), true);
      assert.equal(await storage.setPush(here, row("c10", 4), 1500), false);
      assert.equal(await storage.setPush(here, { ...row("c9", 4), url: "https://other.example/" }, 1600), true);
      const replaced = (await storage.listPushes(here, FIRST)).at(-1);
      assert.deepEqual([replaced?.push_id, replaced?.url], [id(9), "https://other.example/"]);
      assert.deepEqual(await storage.listPushes(hidden, FIRST), []);
      assert.deepEqual(await storage.listPushes(there, FIRST), []);
      await storage.removePush(hidden, { thread_id: "t", task_id: FIRST, config_id: "c9" });
      assert.equal((await storage.listPushes(here, FIRST)).length, 10);
      await storage.deleteThread(here, "t");
      assert.deepEqual(await storage.listPushes(here, FIRST), []);
    });
  });
}
