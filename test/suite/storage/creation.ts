/** Tests of the creation of runs. */

import assert from "node:assert/strict";
import type { CreateRunResult, ThreadRow } from "../../../lib/storage/mod.ts";
import { countThreads } from "../counts.ts";
import {
  claimNext,
  claimTerms,
  createAssistant,
  createClaimedRun,
  createPendingRun,
  createThread,
  finish,
  here,
  newRun,
  request,
  type StorageTest,
  type SuiteApi,
} from "./material.ts";

export function creationTests(api: SuiteApi, test: StorageTest): void {
  api.describe("createRun", () => {
    test("adds a pending run and makes the thread busy", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const options = { metadata: { m: 1 }, kwargs: { input: { text: "x\0y" } }, assistant_version: 3 };
      const run = newRun("t", "r1", options);
      const outcome = await storage.createRun(here, { ...(await request(storage, assistant, "t", "r1")), run });
      assert.equal(outcome.kind, "created");
      const row = { ...run, seq: 1, updated_at: 1100, status: "pending", attempt: 0, claims: 0, claim_number: 0 };
      const unset = { user_id: null, api_key: null, feedback: [], webhook: null, auth_user: null };
      const initial = { ...unset, started_at: null, ended_at: null, error: null, result: null, end_frame: null };
      assert.deepEqual(outcome, { kind: "created", run: { ...row, ...initial }, claimed: null, stopped: [] });
      assert.deepEqual(await storage.getRun(here, "r1"), { ...row, ...initial });
      const thread = (await storage.getThread(here, "t")) as ThreadRow;
      assert.equal(thread.status, "busy");
      assert.equal(thread.running, null);
      assert.equal(thread.graph_id, "echo");
      assert.equal(thread.updated_at, 1100);
    });

    test("claims the run for an idle worker if the thread has no other", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t", { m: 1 });
      const first = await createClaimedRun(storage, assistant, "t", "r1");
      assert.equal(first.run.assistant_version, undefined);
      assert.deepEqual(first.lease, { run_id: "r1", thread_id: "t", token: "token-r1" });
      assert.equal(first.run.status, "running");
      assert.equal(first.run.attempt, 1);
      assert.equal(first.run.started_at, 1100);
      assert.equal(first.resumed, false);
      assert.deepEqual(first.thread, await storage.getThread(here, "t"));
      assert.equal(first.thread.running, "r1");
      const second = await storage.createRun(here, {
        ...(await request(storage, assistant, "t", "r2")),
        claim: { token: "token-r2", lease_until: 5000 },
      });
      assert.equal(second.kind === "created" && second.run.status, "pending");
      assert.equal(second.kind === "created" && second.claimed, null);
      await storage.finishRun(here, first.lease, finish());
      const third = await storage.createRun(here, {
        ...(await request(storage, assistant, "t", "r3")),
        claim: { token: "token-r3", lease_until: 5000 },
      });
      assert.equal(third.kind === "created" && third.claimed, null, "r2 waits before it");
      assert.equal((await claimNext(storage, here, claimTerms("next")))?.run.run_id, "r2");
    });

    test("creates the thread in the same batch, once", async (storage) => {
      const assistant = await createAssistant(storage);
      const create = (run_id: string, assistant_revision = assistant.revision) =>
        storage.createRun(here, {
          run: newRun("t", run_id),
          expected: { assistant_revision, thread_revision: null },
          create_thread: { thread_id: "t", metadata: { made: run_id }, config: { c: 1 }, stateless: false },
          claim: { token: `token-${run_id}`, lease_until: 5000 },
          now: 1100,
        });
      assert.deepEqual(await create("r0", assistant.revision - 1), { kind: "stale" });
      assert.equal(await storage.getThread(here, "t"), null, "no orphan thread");
      const outcomes = await Promise.all(["r1", "r2", "r3"].map((id) => create(id)));
      // The database decides which of them is first.
      const won = outcomes.findIndex((outcome) => outcome.kind === "created");
      const winner = outcomes[won] as Extract<CreateRunResult, { kind: "created" }>;
      const stale = outcomes.toSpliced(won, 1);
      assert.deepEqual(stale, [{ kind: "stale" }, { kind: "stale" }]);
      const thread = (await storage.getThread(here, "t")) as ThreadRow;
      assert.deepEqual(winner.claimed?.thread, thread);
      assert.deepEqual(thread.metadata, { made: `r${won + 1}` });
      assert.equal(thread.graph_id, "echo");
      assert.equal(await countThreads(storage, here, { metadata: { made: `r${won + 1}` } }), 1);
      for (const lost of ["r1", "r2", "r3"].toSpliced(won, 1)) {
        assert.equal(await countThreads(storage, here, { metadata: { made: lost } }), 0);
        assert.equal(await storage.getRun(here, lost), null);
      }
    });

    test("rejects a run if a row that it was resolved from has changed", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t", { a: 1 });
      const expected = await request(storage, assistant, "t", "r1");
      await storage.updateThread(here, "t", () => ({ metadata: { a: 2 } }), 1050);
      const rewrite = { ...expected, update_thread: { metadata: { lost: 1 }, config: {} } };
      assert.deepEqual(await storage.createRun(here, rewrite), { kind: "stale" });
      assert.deepEqual((await storage.getThread(here, "t"))?.metadata, { a: 2 });
      assert.equal(await countThreads(storage, here, { metadata: { a: 2 } }), 1);
      const again = await request(storage, assistant, "t", "r1");
      await storage.updateAssistant(here, "a", (row) => row, 1060);
      assert.deepEqual(await storage.createRun(here, again), { kind: "stale" });
      await storage.deleteAssistant(here, "a", { delete_threads: false });
      assert.deepEqual(await storage.createRun(here, again), { kind: "stale" });
      assert.deepEqual(await storage.createRun(here, { ...again, run: newRun("u", "r1") }), {
        kind: "thread_not_found",
      });
      assert.equal(await storage.getRun(here, "r1"), null);
      assert.equal((await storage.getThread(here, "t"))?.status, "idle");
    });

    test("writes the thread's metadata and config with the run", async (storage) => {
      const assistant = await createAssistant(storage);
      const before = await createThread(storage, "t", { a: 1 });
      const update_thread = { metadata: { a: 2, b: [1] }, config: { configurable: { c: 1 } } };
      const outcome = await storage.createRun(here, {
        ...(await request(storage, assistant, "t", "r1")),
        update_thread,
      });
      assert.equal(outcome.kind, "created");
      const thread = (await storage.getThread(here, "t")) as ThreadRow;
      assert.deepEqual(thread.metadata, update_thread.metadata);
      assert.deepEqual(thread.config, update_thread.config);
      assert.notEqual(thread.revision, before.revision);
      assert.equal(await countThreads(storage, here, { metadata: { a: 1 } }), 0);
      assert.equal(await countThreads(storage, here, { metadata: { a: 2, b: [1] } }), 1);
      assert.equal((await createPendingRun(storage, assistant, "t", "r2")).kind, "created");
      assert.equal(
        (await storage.getThread(here, "t"))?.revision,
        thread.revision,
        "a run without changes moves nothing",
      );
    });

    test("accepts one of twenty concurrent runs with strategy reject", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const expected = await request(storage, assistant, "t", "");
      const outcomes = await Promise.all(
        Array.from({ length: 20 }, (_, i) =>
          storage.createRun(here, { ...expected, run: newRun("t", `r${i}`, { multitask_strategy: "reject" }) }),
        ),
      );
      assert.equal(outcomes.filter((outcome) => outcome.kind === "created").length, 1);
      assert.equal(outcomes.filter((outcome) => outcome.kind === "thread_busy").length, 19);
      assert.equal((await storage.listRuns(here, "t", { limit: 50, offset: 0 })).length, 1);
    });
  });
}
