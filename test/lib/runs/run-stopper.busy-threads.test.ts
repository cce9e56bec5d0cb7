import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { StoredCheckpoint } from "../../../lib/executor/contract.ts";
import { testService } from "../../suite/kit.ts";
import { createFaultyStorage } from "../../support/faulty.ts";
import { until } from "../../support/until.ts";
import { ask, assertGone, contents, notFound, result, talker } from "./run-stopper.harness.ts";

describe("a run on a busy thread", () => {
  it("with strategy interrupt ends the runs before it and keeps their states", async () => {
    const agent = talker();
    await using kit = await testService({ agents: { talk: agent.talk } });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const first = await runs.create(thread_id, ask("slow 1"));
    await agent.reached("slow 1");
    const waiting = await runs.stream(thread_id, ask("never"));
    const last = await runs.wait(thread_id, ask("2", { multitask_strategy: "interrupt" }));
    const values = contents(await last.result);
    assert.deepEqual(values, ["slow 1", "step of slow 1", "2", "re: 2"]);
    assert.deepEqual(agent.reasons, ["cancelled"]);
    assert.equal((await runs.get(thread_id, first.run_id)).status, "interrupted");
    assert.equal((await runs.get(thread_id, waiting.run.run_id)).status, "interrupted");
    const frames = await Array.fromAsync(waiting.frames);
    assert.deepEqual(
      frames.map(({ event, data }) => [event, JSON.parse(data)]),
      [["end", { run_id: waiting.run.run_id, status: "interrupted" }]],
    );
    assert.deepEqual(await Array.fromAsync((await runs.joinStream(thread_id, waiting.run.run_id)).frames), frames);
    assert.equal((await threads.get(thread_id)).status, "idle");
    assert.ok(!agent.log.includes("begin never"));
  });

  it("with strategy rollback deletes the runs before it with their states", async () => {
    const agent = talker();
    await using kit = await testService({ agents: { talk: agent.talk } });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    await (await runs.wait(thread_id, ask("0"))).result;
    const before = await threads.history(thread_id);
    const first = await runs.stream(thread_id, ask("slow 1", { stream_resumable: true }));
    await agent.reached("slow 1");
    const pending = await runs.wait(thread_id, ask("never"));
    await until(async () => contents((await threads.state(thread_id)).values).includes("step of slow 1"));
    const joined = await runs.join(thread_id, first.run.run_id);
    const last = await runs.wait(thread_id, ask("2", { multitask_strategy: "rollback" }));
    assert.deepEqual(contents(await last.result), ["0", "re: 0", "2", "re: 2"]);
    assert.deepEqual(agent.reasons, ["rolled_back"]);
    const error = { error: "RunRolledBack", message: "The run was rolled back" };
    assert.deepEqual(
      (await Array.fromAsync(first.frames)).slice(-2).map(({ event, data }) => [event, JSON.parse(data)]),
      [
        ["error", error],
        ["end", { run_id: first.run.run_id, status: "rollback" }],
      ],
    );
    assert.deepEqual(await joined.result, { __error__: error });
    assert.deepEqual(await pending.result, { __error__: error });
    await assertGone(kit.service, thread_id, first.run.run_id);
    await assertGone(kit.service, thread_id, pending.run.run_id);
    assert.deepEqual((await threads.history(thread_id)).slice(3), before);
    assert.ok(!agent.log.includes("begin never"));
  });

  it("starts after the run before it has settled, and shows the state before that run meanwhile", async () => {
    const agent = talker();
    await using kit = await testService({ agents: { talk: agent.talk } });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    await (await runs.wait(thread_id, ask("0"))).result;
    await runs.create(thread_id, ask("deaf 1"));
    await agent.reached("deaf 1");
    const last = await runs.wait(thread_id, ask("2", { multitask_strategy: "rollback" }));
    assert.deepEqual(contents((await threads.state(thread_id)).values), ["0", "re: 0"]);
    assert.deepEqual(contents((await threads.get(thread_id)).values), ["0", "re: 0"]);
    assert.ok(!agent.log.includes("begin 2"));
    agent.go();
    assert.deepEqual(contents(await last.result), ["0", "re: 0", "2", "re: 2"]);
    assert.ok(agent.log.indexOf("begin 2") > agent.log.indexOf("end deaf 1"));
  });

  it("is never shown with an empty state or that of a rolled-back run", async () => {
    const agent = talker();
    const { storage, faults } = createFaultyStorage();
    await using kit = await testService({ storage, agents: { talk: agent.talk } });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const first = await runs.wait(thread_id, ask("0"));
    const values = await first.result;
    const history = await threads.history(thread_id);
    // Before its checkpoint is read, between the checkpoint and its values, and while it is listed.
    const reads = [
      async () => (await threads.state(thread_id)).values,
      async () => (await threads.get(thread_id)).values,
      async () => (await threads.search()).items[0]?.values,
      async () => await threads.history(thread_id),
    ];
    for (const [i, read] of [...reads, ...reads].entries()) {
      const { run_id } = await runs.create(thread_id, ask(`slow ${i}`));
      await agent.reached(`slow ${i}`);
      await until(async () => contents((await threads.state(thread_id)).values).includes(`step of slow ${i}`));
      const cut = i < reads.length;
      const verb = i % reads.length === reads.length - 1 ? "listCheckpoints" : "getCheckpoint";
      faults[verb] = async (call) => {
        const answer = (await call()) as StoredCheckpoint | StoredCheckpoint[] | null;
        if (!answer) return answer;
        delete faults[verb];
        await runs.cancel(thread_id, run_id, { action: "rollback", wait: true });
        const torn = (checkpoint: StoredCheckpoint): StoredCheckpoint => ({ ...checkpoint, values: [] });
        if (!cut) return answer;
        return Array.isArray(answer) ? answer.map(torn) : torn(answer);
      };
      assert.deepEqual(await read(), verb === "getCheckpoint" ? values : history);
    }
    assert.deepEqual(await (await runs.join(thread_id, first.run.run_id)).result, values);
  });

  it("accepts its strategy on every call that creates one, and ignores it without a thread", async () => {
    const agent = talker();
    await using kit = await testService({ agents: { talk: agent.talk } });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    for (const [i, multitask_strategy] of (["interrupt", "rollback"] as const).entries()) {
      for (const call of ["create", "stream", "wait"] as const) {
        const content = `slow ${call} ${i}`;
        const first = await runs.create(thread_id, ask(content));
        await agent.reached(content);
        const createdRun = await runs[call](thread_id, ask("ok", { multitask_strategy }));
        const run = "run" in createdRun ? createdRun.run : createdRun;
        assert.equal(contents(await result(kit.service, thread_id, run.run_id)).at(-1), "re: ok");
        const rows = await runs.list(thread_id, { limit: 100 });
        const status = rows.find(({ run_id }) => run_id === first.run_id)?.status;
        assert.equal(status, multitask_strategy === "interrupt" ? "interrupted" : undefined);
        const alone = await runs.wait(null, ask("alone", { multitask_strategy }));
        assert.deepEqual(contents(await alone.result), ["alone", "re: alone"]);
      }
    }
  });

  it("from a checkpoint that it rolls back starts from the parent of that checkpoint", async () => {
    const agent = talker();
    await using kit = await testService({ agents: { talk: agent.talk } });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    await (await runs.wait(thread_id, ask("0"))).result;
    const first = await runs.create(thread_id, ask("slow 1"));
    await agent.reached("slow 1");
    await until(async () => (await threads.state(thread_id)).metadata?.["run_id"] === first.run_id);
    const checkpoint_id = (await threads.state(thread_id)).checkpoint?.checkpoint_id as string;
    const second = await runs.wait(thread_id, ask("2", { multitask_strategy: "rollback", checkpoint_id }));
    assert.deepEqual(contents(await second.result), ["0", "re: 0", "2", "re: 2"]);
    await assert.rejects(runs.get(thread_id, first.run_id), notFound);
  });
});
