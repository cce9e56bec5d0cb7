import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { createService, fromFunctions, type Json, type JsonObject, type RunCreate } from "../../../lib/mod.ts";
import type { Storage } from "../../../lib/storage/mod.ts";
import { testClock, testService } from "../../suite/kit.ts";
import { advanceUntil, createFaultyStorage, kill } from "../../support/faulty.ts";
import { until } from "../../support/until.ts";
import { ask, assertGone, contents, notFound, talker } from "./run-stopper.harness.ts";

describe("a cancel of a run", () => {
  it("aborts the signal of the agent, and with `wait` returns after the run has ended", async () => {
    const agent = talker();
    await using kit = await testService({ agents: { talk: agent.talk } });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const { run, frames } = await runs.stream(thread_id, ask("slow 1"));
    await agent.reached("slow 1");
    await runs.cancel(thread_id, run.run_id, { wait: true });
    assert.deepEqual(agent.reasons, ["cancelled"]);
    assert.equal((await runs.get(thread_id, run.run_id)).status, "interrupted");
    assert.deepEqual(contents((await threads.get(thread_id)).values), ["slow 1", "step of slow 1"]);
    const last = (await Array.fromAsync(frames)).at(-1);
    assert.deepEqual(JSON.parse(last?.data ?? ""), { run_id: run.run_id, status: "interrupted" });
    // The run has ended, so that no cancel has an effect.
    await runs.cancel(thread_id, run.run_id, { wait: true });
    await runs.cancel(thread_id, run.run_id, { action: "rollback", wait: true });
    await runs.cancelMany({ thread_id, run_ids: [run.run_id] });
    assert.equal((await runs.get(thread_id, run.run_id)).status, "interrupted");
    await assert.rejects(runs.cancel(thread_id, crypto.randomUUID()), notFound);
    await assert.rejects(runs.cancel(crypto.randomUUID(), run.run_id), notFound);
    await assert.rejects(runs.cancelMany({ thread_id, run_ids: [crypto.randomUUID()] }), notFound);
  });

  it("with rollback waits until the executor has settled, and restores the thread", async () => {
    const agent = talker();
    await using kit = await testService({ agents: { talk: agent.talk } });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const { run } = await runs.stream(thread_id, ask("deaf 1"));
    await agent.reached("deaf 1");
    let answered = false;
    const cancelled = runs.cancel(thread_id, run.run_id, { action: "rollback", wait: true }).then(() => {
      answered = true;
    });
    await until(() =>
      runs.get(thread_id, run.run_id).then(
        () => false,
        () => true,
      ),
    );
    await assertGone(kit.service, thread_id, run.run_id);
    assert.equal(answered, false);
    agent.go();
    await cancelled;
    assert.deepEqual(agent.log, ["begin deaf 1", "end deaf 1"]);
    const thread = await threads.get(thread_id);
    assert.deepEqual([thread.status, thread.values], ["idle", null]);
    assert.deepEqual(contents(await (await runs.wait(thread_id, ask("2"))).result), ["2", "re: 2"]);
  });

  it("before its start ends the run and its readers at once", async () => {
    const agent = talker();
    await using kit = await testService({ agents: { talk: agent.talk } });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const first = await runs.create(thread_id, ask("slow 1"));
    await agent.reached("slow 1");
    const waits = await runs.wait(thread_id, ask("2"));
    const streams = await runs.stream(thread_id, ask("3", { stream_resumable: true }));
    await runs.cancel(thread_id, waits.run.run_id, { wait: true });
    assert.equal((await runs.get(thread_id, waits.run.run_id)).status, "interrupted");
    await waits.result;
    await runs.cancel(thread_id, streams.run.run_id);
    const frames = await Array.fromAsync(streams.frames);
    assert.deepEqual(
      frames.map(({ id, event }) => [id, event]),
      [[1, "end"]],
    );
    assert.deepEqual(await Array.fromAsync((await runs.joinStream(thread_id, streams.run.run_id)).frames), frames);
    const removed = await runs.wait(thread_id, ask("4"));
    await runs.cancel(thread_id, removed.run.run_id, { action: "rollback", wait: true });
    assert.equal(((await removed.result) as { __error__: JsonObject }).__error__["error"], "RunRolledBack");
    await runs.cancel(thread_id, first.run_id, { wait: true });
    assert.deepEqual(agent.log, ["begin slow 1", "end slow 1"]);
    assert.notEqual((await threads.get(thread_id)).status, "busy");
  });

  it("of many runs selects by status or by id", async () => {
    const agent = talker();
    await using kit = await testService({ agents: { talk: agent.talk } });
    const { runs, threads } = kit.service;
    const ids: string[] = [];
    for (const content of ["slow a", "slow b"]) {
      const { thread_id } = await threads.create();
      await runs.create(thread_id, ask(content));
      await agent.reached(content);
      await runs.create(thread_id, ask("waits"));
      ids.push(thread_id);
    }
    const statuses = async (): Promise<string[][]> =>
      await Promise.all(ids.map(async (id) => (await runs.list(id)).map(({ status }) => status)));
    await runs.cancelMany({ status: "pending" });
    assert.deepEqual(await statuses(), [
      ["interrupted", "running"],
      ["interrupted", "running"],
    ]);
    const [a, b] = ids as [string, string];
    const [, running] = await runs.list(a);
    await runs.cancelMany({ thread_id: a, run_ids: [running?.run_id as string, crypto.randomUUID()] });
    await until(async () => (await statuses())[0]?.[1] === "interrupted");
    assert.equal((await statuses())[1]?.[1], "running");
    await runs.cancelMany({ status: "all" }, "rollback");
    assert.deepEqual(await statuses(), [["interrupted", "interrupted"], ["interrupted"]]);
    assert.equal((await threads.get(b)).values, null);
  });

  it("of many runs stops a limited number at a time", async () => {
    const database = createFaultyStorage();
    await using kit = await testService({ storage: database.storage, agents: { talk: () => "done" } });
    const { runs, threads } = kit.service;
    for (const action of ["interrupt", "rollback"] as const) {
      const { thread_id } = await threads.create();
      const later = ask("later", { after_seconds: 3600 });
      const created = await Promise.all(Array.from({ length: 250 }, () => runs.create(thread_id, later)));
      const counts: number[] = [];
      database.faults.stopRuns = async (call) => {
        const stopped = (await call()) as readonly unknown[];
        counts.push(stopped.length);
        return stopped;
      };
      if (action === "interrupt") {
        await runs.cancelMany({ thread_id, run_ids: created.map(({ run_id }) => run_id) });
        assert.deepEqual(counts, [100, 100, 50]);
      } else {
        await runs.cancelMany({ status: "all" }, action);
        assert.deepEqual(counts, [100, 100, 50]);
      }
      const pendingRuns = await runs.list(thread_id, { limit: 1_000, status: "pending" });
      assert.deepEqual(pendingRuns, []);
    }
  });

  it("of a status without runs answers 404", async () => {
    const agent = talker();
    await using kit = await testService({ agents: { talk: agent.talk } });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const nothing = async (...statuses: readonly ("pending" | "running" | "all")[]): Promise<void> => {
      for (const status of statuses) {
        for (const action of ["interrupt", "rollback"] as const) {
          await assert.rejects(runs.cancelMany({ status }, action), notFound, `${status} ${action}`);
        }
      }
    };
    await nothing("pending", "running", "all");
    const { run_id } = await runs.create(thread_id, ask("later", { after_seconds: 3600 }));
    await nothing("running");
    await runs.cancelMany({ status: "all" });
    assert.equal((await runs.get(thread_id, run_id)).status, "interrupted");
    await nothing("pending", "running", "all");
    await runs.cancelMany({ thread_id, run_ids: [run_id] });
  });

  it("by a disconnected reader is stored before the signal aborts", async () => {
    const agent = talker();
    const { storage, faults } = createFaultyStorage();
    await using kit = await testService({ storage, agents: { talk: agent.talk } });
    const { runs } = kit.service;
    const order: string[] = [];
    faults.stopRuns = async (call) => {
      const stopped = await call();
      order.push(agent.reasons.length === 0 ? "stored" : "told");
      return stopped;
    };
    const wait = await runs.wait(null, ask("slow 1", { on_disconnect: "cancel" }));
    await agent.reached("slow 1");
    wait.leave();
    await wait.result;
    assert.deepEqual(order, ["stored"]);
    assert.equal((await runs.get(wait.run.thread_id, wait.run.run_id)).status, "interrupted");
  });

  it("of a run with a dead worker ends it after its lease", async () => {
    const clock = testClock();
    const agent = talker();
    const dead = createFaultyStorage();
    const executor = fromFunctions({ talk: agent.talk });
    const environment = { ...clock, log: () => {} };
    const first = await createService({ storage: dead.storage, executor, environment });
    const { thread_id } = await first.threads.create();
    const run = await first.runs.create(thread_id, ask("slow 1"));
    await agent.reached("slow 1");
    await clock.advance(100);
    kill(dead);
    const two = await createService({ storage: dead.share().storage, executor, environment });
    let ended = false;
    const cancelled = two.runs.cancel(thread_id, run.run_id, { wait: true }).then(() => {
      ended = true;
    });
    await clock.advance(1_000);
    assert.equal(ended, false);
    await advanceUntil(clock, () => ended);
    await cancelled;
    const after = await two.runs.get(thread_id, run.run_id);
    assert.equal(after.status, "interrupted");
    assert.equal((await two.threads.get(thread_id)).status, "interrupted");
    assert.deepEqual(contents((await two.threads.get(thread_id)).values), ["slow 1", "step of slow 1"]);
    assert.equal(agent.log.filter((line) => line === "begin slow 1").length, 1);
    await two.stop(0);
  });

  it("reaches a worker in another process, and waits for it", async () => {
    const clock = testClock();
    const agent = talker();
    const shared = createFaultyStorage();
    const executor = fromFunctions({ talk: agent.talk });
    const environment = { ...clock, log: () => {} };
    const first = await createService({ storage: shared.share().storage, executor, environment });
    const two = await createService({
      storage: shared.share().storage,
      executor,
      environment,
      worker: { concurrency: 0 },
    });
    const { thread_id } = await two.threads.create();
    for (const action of ["interrupt", "rollback"] as const) {
      const { run } = await first.runs.stream(thread_id, ask(`slow ${action}`));
      await agent.reached(`slow ${action}`);
      const joined = await two.runs.join(thread_id, run.run_id);
      let ended = false;
      void two.runs.cancel(thread_id, run.run_id, { action, wait: true }).then(() => {
        ended = true;
      });
      await advanceUntil(clock, () => ended);
      assert.ok(agent.log.includes(`end slow ${action}`));
      const row = await two.runs.get(thread_id, run.run_id).catch(() => null);
      assert.equal(row?.status, action === "interrupt" ? "interrupted" : undefined);
      let answer: Json | undefined;
      void joined.result.then((value) => {
        answer = value;
      });
      await advanceUntil(clock, () => answer !== undefined);
      assert.equal("__error__" in (answer as JsonObject), action === "rollback");
    }
    assert.deepEqual(contents((await two.threads.get(thread_id)).values), ["slow interrupt", "step of slow interrupt"]);
    await first.stop(0);
    await two.stop(0);
    await shared.storage.close();
  });
});

describe("the deletion of a thread", () => {
  it("stops its runs as a rollback does, and notifies their readers", async () => {
    const agent = talker();
    await using kit = await testService({ agents: { talk: agent.talk } });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const { frames } = await runs.stream(thread_id, ask("slow 1"));
    await agent.reached("slow 1");
    const waits = await runs.wait(thread_id, ask("2"));
    await threads.delete(thread_id);
    const error = { error: "RunDeleted", message: "The run was deleted" };
    const [last, end] = (await Array.fromAsync(frames)).slice(-2);
    assert.deepEqual([last?.event, JSON.parse(last?.data ?? ""), end?.event], ["error", error, "end"]);
    assert.deepEqual(await waits.result, { __error__: error });
    await until(() => agent.reasons.length > 0);
    assert.deepEqual(agent.reasons, ["rolled_back"]);
    assert.ok(!agent.log.includes("begin 2"));
  });
});

describe("a cancel of all runs of a status", () => {
  it("stops a part at a time, and includes runs that start meanwhile", async () => {
    const real = nodeSqlite(":memory:");
    const parts: number[] = [];
    let claimedMeanwhile: string | undefined;
    const storage: Storage = {
      ...real,
      async stopRuns(scope, target, action, now, reason) {
        if (parts.length === 0) {
          // Another process claims the oldest run, which is in the last part.
          const terms = { token: "token", lease_until: Date.now() + 60_000, worker: "other" };
          const outcome = await real.claimRun(scope, { ...terms, graph_ids: ["talk"], now: Date.now() } as never);
          if (outcome.kind === "claimed") claimedMeanwhile = outcome.claimed.run.run_id;
        }
        const stopped = await real.stopRuns(scope, target, action, now, reason);
        parts.push(stopped.length);
        return stopped;
      },
    };
    await using kit = await testService({ agents: { talk: () => "" }, storage, worker: { concurrency: 0 } });
    const { service } = kit;
    const batch = Array.from({ length: 100 }, (): RunCreate => ({ assistant_id: "talk", input: {} }));
    for (let n = 0; n < 3; n += 1) await service.runs.createBatch(batch);
    let ticks = 0;
    let over = false;
    const tick = (): void => {
      ticks += 1;
      if (!over) setImmediate(tick);
    };
    setImmediate(tick);
    await service.runs.cancelMany({ status: "pending" });
    over = true;
    assert.deepEqual(
      parts.filter((stopped) => stopped > 0),
      [100, 100, 100],
    );
    assert.ok(ticks >= 3, `${ticks} ticks`);
    assert.ok(claimedMeanwhile);
    const activeRuns = await service.runs.search({ status: ["pending", "running"] });
    assert.deepEqual(
      activeRuns.items.map(({ run_id, cancel_requested }) => [run_id, cancel_requested]),
      [[claimedMeanwhile, true]],
    );
    await assert.rejects(service.runs.cancelMany({ status: "pending" }), { code: "not_found" });
  });

  it("does not report a run as not created if the service stops before its store responds", async () => {
    const { storage, faults } = createFaultyStorage();
    const answer = Promise.withResolvers<void>();
    const createSent = Promise.withResolvers<void>();
    faults.createRun = async (call) => {
      await call();
      createSent.resolve();
      await answer.promise;
      throw new Error("the store did not answer");
    };
    const kit = await testService({ storage, executor: fromFunctions({ agent: () => "done" }) });
    const created = kit.service.runs.create(null, { assistant_id: "agent", input: {} });
    const refused = assert.rejects(created, { message: "the store did not answer" });
    await createSent.promise;
    const stopped = kit.service.stop(0);
    await stopped;
    answer.resolve();
    await refused;
  });
});
