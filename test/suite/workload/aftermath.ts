/** Compares a storage with the history of a random workload. */
import assert from "node:assert/strict";
import type { Lease, SavedCheckpoint, Scope, Storage } from "../../../lib/storage/mod.ts";
import { countThreads } from "../counts.ts";
import { type History, readAllFrames } from "./history.ts";

/** Returns a checkpoint with a version for channel `n`, but without the value: it shows a value that is left in the storage. */
export function createBareCheckpoint(checkpoint_id: string, created_at: number): SavedCheckpoint {
  return {
    ns: "",
    checkpoint_id,
    parent_id: null,
    payload: { type: "json", data: "{}" },
    metadata: {},
    versions: { n: checkpoint_id },
    values: [],
    created_at,
  };
}

export interface Aftermath {
  readonly scope: Scope;
  readonly history: History;
  /** A time at which every lease and thread lock has expired. */
  readonly now: number;
  readonly assistant_revision: number;
}

/** Checks every invariant. Call it when all runs have ended. */
export async function checkAftermath(storage: Storage, aftermath: Aftermath): Promise<void> {
  const { scope, history, now } = aftermath;
  const idle = { pending: 0, scheduled: 0, running: 0, oldest_due: null };
  assert.deepEqual(await storage.countActiveRuns(scope, now), idle);
  history.checkExclusion();
  history.checkAttempts();
  history.checkTurns();
  history.checkKeys();
  const runs = await history.checkRuns(storage, scope);
  const page = { limit: 1000, offset: 0 };
  const { rows } = await storage.searchThreads(scope, { ...page, sort_by: "thread_id", sort_order: "asc" });
  assert.equal(await countThreads(storage, scope, {}), rows.length);
  for (const thread of rows) {
    const { thread_id } = thread;
    const list = [...(await storage.listRuns(scope, thread_id, page))].reverse();
    assert.deepEqual(new Set(list.map((run) => run.run_id)), new Set(runs.get(thread_id)?.map((run) => run.run_id)));
    assert.deepEqual(await storage.listRuns(scope, thread_id, { above: 0, limit: 1000, offset: 0 }), list);
    history.checkThread(thread, list, now);
    history.checkCheckpoints(thread, await storage.listCheckpoints(scope, thread_id, { limit: 10_000 }));
  }
  for (const { thread_id } of rows) await checkRemains(storage, aftermath, thread_id);
  for (const run_id of history.goneWithFrames()) {
    if (await storage.getRun(scope, run_id)) continue;
    // A new run with the same id would show leftover frames.
    await createRun(storage, aftermath, run_id, "probe");
    assert.deepEqual(await readAllFrames(storage, scope, run_id), [], `frames left of ${run_id}`);
  }
}

/** Deleted checkpoints leave nothing on the thread: new ones with the same ids and versions would show it. */
async function checkRemains(storage: Storage, aftermath: Aftermath, thread_id: string): Promise<void> {
  const { scope, history, now } = aftermath;
  const goneIds = new Set(history.goneFrom(thread_id));
  // A run that is not due yet does not block a later one.
  await createRun(storage, aftermath, `later-${thread_id}`, thread_id, now + 1);
  await createRun(storage, aftermath, `probe-${thread_id}`, thread_id);
  const terms = { token: `probe-${thread_id}`, lease_until: now + 1 };
  const outcome = await storage.claimRun(scope, { ...terms, graph_ids: ["g"], now });
  assert.ok(outcome.kind === "claimed");
  const lease: Lease = outcome.claimed.lease;
  assert.equal(lease.run_id, `probe-${thread_id}`);
  const checkpoints = [...goneIds].map((checkpoint_id) => createBareCheckpoint(checkpoint_id, now));
  assert.equal(await storage.saveProgress(scope, lease, { checkpoints, writes: [] }, now), true);
  const list = await storage.listCheckpoints(scope, thread_id, { limit: 10_000 });
  for (const { checkpoint_id, values, writes } of list.filter((probe) => goneIds.has(probe.checkpoint_id))) {
    assert.deepEqual([values, writes], [[], []], `left of ${checkpoint_id}`);
  }
  await storage.stopRuns(scope, { thread_id, run_ids: [lease.run_id] }, "rollback", now);
  await storage.releaseThreadLock(scope, lease);
}

async function createRun(
  storage: Storage,
  { scope, now, assistant_revision }: Aftermath,
  run_id: string,
  thread_id: string,
  created_at: number = now,
): Promise<void> {
  const thread = await storage.getThread(scope, thread_id);
  const run = { run_id, thread_id, assistant_id: "a", graph_id: "g", metadata: {}, kwargs: {} };
  const outcome = await storage.createRun(scope, {
    run: { ...run, multitask_strategy: "enqueue", stateless: false, resumable: true, created_at },
    expected: { assistant_revision, thread_revision: thread?.revision ?? null },
    ...(thread ? {} : { create_thread: { thread_id, metadata: {}, config: {}, stateless: false } }),
    now,
  });
  assert.equal(outcome.kind, "created");
}
