import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { systemEnvironment } from "../../../lib/environment.ts";
import { LeaseLost } from "../../../lib/errors.ts";
import type { NewCheckpoint } from "../../../lib/executor/contract.ts";
import {
  createCheckpointId,
  createJobCheckpoints,
  type JobCheckpoints,
} from "../../../lib/executor/job-checkpoints.ts";
import { WriteBarrier } from "../../../lib/executor/write-barrier.ts";
import type { ClaimedRun, Storage } from "../../../lib/storage/mod.ts";

const scope = { deployment: "default" };
const NOW = Date.UTC(2026, 0, 1);

interface Fixture extends AsyncDisposable {
  readonly storage: Storage;
  readonly claimed: ClaimedRun;
  readonly job: JobCheckpoints;
  /** Saves what the job has buffered. */
  store(): Promise<boolean>;
}

async function open(options: { sync?: boolean } = {}): Promise<Fixture> {
  const storage = nodeSqlite(":memory:");
  await storage.migrate();
  const [assistant_id, thread_id, run_id] = [crypto.randomUUID(), crypto.randomUUID(), crypto.randomUUID()];
  const content = { graph_id: "g", name: "g", description: null, config: {}, context: {}, metadata: {} };
  const { assistant } = await storage.createAssistant(scope, { assistant_id, ...content }, NOW);
  const outcome = await storage.createRun(scope, {
    run: {
      run_id,
      thread_id,
      assistant_id,
      graph_id: "g",
      metadata: {},
      kwargs: {},
      multitask_strategy: "enqueue",
      stateless: false,
      resumable: false,
      created_at: NOW,
    },
    expected: { assistant_revision: assistant.revision, thread_revision: null },
    create_thread: { thread_id, metadata: {}, config: {}, stateless: false },
    claim: { token: crypto.randomUUID(), lease_until: NOW + 10_000 },
    now: NOW,
  });
  assert.equal(outcome.kind, "created");
  const claimed = outcome.kind === "created" ? outcome.claimed : null;
  assert.ok(claimed);
  const store = async (): Promise<boolean> => {
    const saveResult = await storage.saveProgress(scope, claimed.lease, job.drain(), NOW);
    if (!saveResult) job.refuseWrites();
    return saveResult;
  };
  const job: JobCheckpoints = createJobCheckpoints({
    storage,
    scope,
    thread_id,
    run_id,
    head: null,
    resumed: false,
    sync: options.sync ?? false,
    now: () => NOW,
    retry: (ask) => ask(),
    barrier: new WriteBarrier(),
    onAdded: () => {},
    save: async () => void (await store()),
  });
  return { storage, claimed, job, store, [Symbol.asyncDispose]: () => storage.close() };
}

function checkpoint(
  id: number,
  messages: readonly string[],
  parent: number | null,
  fields: Partial<NewCheckpoint> = {},
): NewCheckpoint {
  const name = (n: number): string => `1f000000-0000-6000-8000-${n.toString().padStart(12, "0")}`;
  return {
    ns: "",
    checkpoint_id: name(id),
    parent_id: parent === null ? null : name(parent),
    payload: { type: "json", data: "{}" },
    metadata: { step: id },
    versions: { messages: String(id) },
    values: [{ channel: "messages", version: String(id), type: "json", data: JSON.stringify(messages) }],
    ...fields,
  };
}

describe("JobCheckpoints", () => {
  it("returns a checkpoint before and after it is stored", async () => {
    await using fixture = await open();
    const { job, store, storage, claimed } = fixture;
    await job.put(checkpoint(1, ["a"], null));
    await job.putWrites({ ns: "", checkpoint_id: checkpoint(1, [], null).checkpoint_id }, "task", [
      { channel: "x", idx: 0, type: "json", data: "1" },
    ]);
    const before = await job.get({ ns: "" });
    assert.equal(before?.values[0]?.data, '["a"]');
    assert.equal(before?.writes.length, 1);
    assert.equal(await storage.getCheckpoint(scope, claimed.run.thread_id, { ns: "" }), null, "nothing is stored yet");
    assert.ok(await store());
    const stored = await storage.getCheckpoint(scope, claimed.run.thread_id, { ns: "" });
    assert.equal(stored?.values[0]?.data, '["a"]');
    assert.equal(stored?.writes.length, 1);
    assert.equal((await job.get({ ns: "" }))?.writes.length, 1);
    assert.equal(job.hasReady(), false);
  });

  it("returns held checkpoints whatever a save drains", async () => {
    await using fixture = await open();
    const { job, store } = fixture;
    const [first, second] = [checkpoint(1, ["a"], null), checkpoint(2, ["b"], 1)];
    await job.put(first);
    await store();
    const release = job.openBarrier();
    await job.putWrites({ ns: "", checkpoint_id: first.checkpoint_id }, "task", [
      { channel: "x", idx: 0, type: "json", data: "1" },
    ]);
    await job.put(second);
    const writes = async (): Promise<number | undefined> =>
      (await job.get({ ns: "", checkpoint_id: first.checkpoint_id }))?.writes.length;
    assert.equal(await writes(), 1);
    for (const _ of [1, 2]) {
      await store();
      assert.equal(await writes(), 1, "its write is held");
    }
    release();
    await store();
    assert.equal(await writes(), 1);
    await store();
    assert.equal(await writes(), 1, "its write is stored");
  });

  it("lists stored and unsaved checkpoints once each, newest first", async () => {
    await using fixture = await open();
    const { job, store } = fixture;
    await job.put(checkpoint(1, ["a"], null));
    await job.put(checkpoint(2, ["a", "b"], 1));
    await store();
    await job.put(checkpoint(3, ["a", "b", "c"], 2));
    const steps: unknown[] = [];
    for await (const stored of job.list({ ns: "" })) steps.push(stored.metadata["step"]);
    assert.deepEqual(steps, [3, 2, 1]);
    const limited: unknown[] = [];
    for await (const stored of job.list({ ns: "", limit: 2 })) limited.push(stored.metadata["step"]);
    assert.deepEqual(limited, [3, 2]);
  });

  it("stores the new items of a growing list, and reads the whole list", async () => {
    await using fixture = await open();
    const { job, storage, claimed } = fixture;
    const messages: string[] = Array.from({ length: 20 }, (_, i) => `${i}${"x".repeat(100)}`);
    let written = 0;
    for (let step = 1; step <= 200; step++) {
      messages.push(`message ${step}`);
      await job.put(checkpoint(step, messages, step === 1 ? null : step - 1));
      const progress = job.drain();
      for (const { values } of progress.checkpoints) for (const value of values) written += value.data.length;
      assert.ok(await storage.saveProgress(scope, claimed.lease, progress, NOW));
    }
    const whole = JSON.stringify(messages);
    assert.ok(written < 20 * whole.length, `${written} characters for a list of ${whole.length}, 200 times`);
    const head = await storage.getCheckpoint(scope, claimed.run.thread_id, { ns: "" });
    assert.equal(head?.values[0]?.data, whole);
    const middle = await storage.getCheckpoint(scope, claimed.run.thread_id, {
      ns: "",
      checkpoint_id: checkpoint(100, [], null).checkpoint_id,
    });
    assert.equal(middle?.values[0]?.data, JSON.stringify(messages.slice(0, 120)));
  });

  it("stores a list with a changed last element as a new list", async () => {
    await using fixture = await open();
    const { job, storage, claimed, store } = fixture;
    const long = "x".repeat(2_000);
    await job.put(checkpoint(1, [long, "a"], null));
    await job.put(checkpoint(2, [long, "ab"], 1));
    await job.put(checkpoint(3, [long], 2));
    await store();
    for (const [id, expected] of [
      [1, [long, "a"]],
      [2, [long, "ab"]],
      [3, [long]],
    ] as const) {
      const { checkpoint_id } = checkpoint(id, [], null);
      const stored = await storage.getCheckpoint(scope, claimed.run.thread_id, { ns: "", checkpoint_id });
      assert.equal(stored?.values[0]?.data, JSON.stringify(expected));
    }
  });

  it("refuses every write after the lease is lost", async () => {
    await using fixture = await open({ sync: true });
    const { job, storage, claimed } = fixture;
    await job.put(checkpoint(1, ["a"], null));
    await storage.deleteThread(scope, claimed.run.thread_id);
    await assert.rejects(job.put(checkpoint(2, ["a", "b"], 1)), LeaseLost);
    await assert.rejects(
      job.putWrites({ ns: "", checkpoint_id: "x" }, "t", [{ channel: "c", idx: 0, type: "json", data: "1" }]),
      LeaseLost,
    );
  });

  it("creates ids that sort by time and never below the head", () => {
    const environment = { ...systemEnvironment(), now: () => NOW };
    const ids = [createCheckpointId(environment, null)];
    for (let i = 0; i < 50; i++) ids.push(createCheckpointId(environment, ids.at(-1) ?? null));
    assert.deepEqual([...ids].sort(), ids);
    assert.match(ids[0] ?? "", /^[0-9a-f]{8}-[0-9a-f]{4}-6[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    const later = createCheckpointId({ ...environment, now: () => NOW + 1_000 }, null);
    const above = createCheckpointId(environment, later);
    assert.ok(above > later, "a clock that went back");
  });
});
