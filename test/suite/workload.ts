/** Workers and clients that do at random what they do in earnest, and what must hold afterwards. */
import assert from "node:assert/strict";
import type { ClaimedRun, Lease, Progress, Scope, Storage } from "../../lib/storage.ts";

const WORKERS = 8;
const CLIENTS = 12;
/** Clients go on until so much has happened, and each at most so long. */
const ATTEMPTS = 120;
const REFUSED = 15;
const STEPS = 600;
const THREADS = 10;
const LEASE_MS = 100;

/** Repeatable randomness. */
export function dice(seed: number): {
  /** An integer in [0, count). */
  readonly below: (count: number) => number;
  readonly pick: <Item>(items: readonly Item[]) => Item;
} {
  let state = seed * 2654435761 + 1;
  const below = (count: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor(((state ^ (state >>> 13)) >>> 0) / (0x100000000 / count));
  };
  return { below, pick: (items) => items[below(items.length)] as (typeof items)[number] };
}

interface Attempt {
  readonly run_id: string;
  readonly thread_id: string;
  /** When the claim was answered. */
  readonly claimed: number;
  /** When the last write was sent that the storage accepted. */
  accepted: number;
}

interface Created {
  readonly thread_id: string;
  /** When the request was sent. */
  readonly sent: number;
  deleted: boolean;
}

/** 8 workers and 12 clients on a few threads: leases run out, stalled workers write late, threads and runs are deleted. */
export async function runWorkload(storage: Storage, seed: number): Promise<void> {
  const scope: Scope = { deployment: "workload" };
  const { below, pick } = dice(seed);
  const chance = (percent: number): boolean => below(100) < percent;
  const threadIds = Array.from({ length: THREADS }, (_, i) => `t${i}`);
  let now = 1_000_000;
  let order = 0;
  let count = 0;
  let clientsLeft = CLIENTS;
  let refused = 0;

  const created = new Map<string, Created>();
  const attempts: Attempt[] = [];
  const threadDeleted = new Map<string, number>();
  const threadMade = new Set<string>();
  const stored = new Map<string, { readonly thread_id: string; readonly sent: number }>();
  const neverStored = new Set<string>();
  const claims: { readonly lease: Lease; readonly attempt: Attempt }[] = [];

  const { assistant } = await storage.createAssistant(
    scope,
    { assistant_id: "a", graph_id: "g", name: "n", description: null, config: {}, context: {}, metadata: {} },
    now,
  );

  const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));
  const until = async (condition: () => boolean): Promise<void> => {
    while (clientsLeft > 0 && !condition()) await turn();
  };

  /** Notes a claim as soon as it is answered, whenever the work on it starts. */
  const begin = (claim: ClaimedRun): { readonly lease: Lease; readonly attempt: Attempt } => {
    const { run_id, thread_id } = claim.lease;
    assert.equal(claim.run.status, "running");
    assert.equal(claim.thread.running, run_id);
    const attempt: Attempt = { run_id, thread_id, claimed: ++order, accepted: 0 };
    attempts.push(attempt);
    return { lease: claim.lease, attempt };
  };

  const claim = async (token: string): Promise<ReturnType<typeof begin> | null> => {
    const outcome = await storage.claimRun(scope, { token, lease_until: now + LEASE_MS, graph_ids: ["g"], now });
    return outcome.kind === "claimed" ? begin(outcome.claimed) : null;
  };

  /** A write with the lease: notes what was accepted, and what was not and so must never be seen. */
  const fenced = async (
    attempt: Attempt,
    checkpoint_id: string | null,
    write: () => Promise<boolean>,
  ): Promise<boolean> => {
    const sent = ++order;
    const accepted = await write();
    if (accepted) attempt.accepted = Math.max(attempt.accepted, sent);
    else refused++;
    if (checkpoint_id !== null) {
      if (accepted) stored.set(checkpoint_id, { thread_id: attempt.thread_id, sent });
      else neverStored.add(checkpoint_id);
    }
    return accepted;
  };

  const progressOf = (checkpoint_id: string): Progress => ({
    checkpoints: [
      {
        ns: "",
        checkpoint_id,
        parent_id: null,
        payload: { type: "json", data: "{}" },
        metadata: {},
        versions: { n: checkpoint_id },
        values: [{ channel: "n", version: checkpoint_id, type: "json", data: "1" }],
        created_at: now,
      },
    ],
    writes: [{ ns: "", checkpoint_id, task_id: "task", writes: [{ channel: "n", idx: 0, type: "json", data: '"w"' }] }],
  });

  const end = async (lease: Lease, attempt: Attempt): Promise<boolean> => {
    const head = `c${String(++count).padStart(8, "0")}`;
    const done = await fenced(attempt, head, () =>
      storage.finishRun(scope, lease, {
        status: pick(["success", "error", "interrupted", "timeout"]),
        error: null,
        result: null,
        progress: progressOf(head),
        discard: false,
        thread: { head, status: pick(["idle", "interrupted", "error"]), interrupts: {}, error: null },
        now,
      }),
    );
    if (!done) await storage.releaseSlot(scope, lease);
    return done;
  };

  const work = async (lease: Lease, attempt: Attempt): Promise<void> => {
    for (let step = below(4); step > 0; step--) {
      const id = `c${String(++count).padStart(8, "0")}`;
      const stalled = now;
      // A stall: time passes the lease, and the write comes from a worker that no longer holds it.
      if (chance(8)) await until(() => now > stalled + 2 * LEASE_MS);
      else if (chance(60)) {
        await fenced(attempt, null, async () => (await storage.renewLease(scope, lease, now + LEASE_MS)) !== null);
      }
      const kept = await fenced(attempt, id, () => storage.saveProgress(scope, lease, progressOf(id), now));
      // Some go on as if nothing had happened.
      if (!kept && chance(50)) return storage.releaseSlot(scope, lease);
    }
    if (chance(10)) return;
    if (chance(10)) return void (await fenced(attempt, null, () => storage.requeueRun(scope, lease, now)));
    const done = await end(lease, attempt);
    if (done && chance(20)) assert.equal(await end(lease, attempt), false, "a run ends once");
  };

  const worker = async (): Promise<void> => {
    while (clientsLeft > 0) {
      const taken = claims.pop() ?? (await claim(`w${++count}`));
      if (taken) await work(taken.lease, taken.attempt);
      else await turn();
    }
  };

  const createRun = async (thread_id: string): Promise<void> => {
    const thread = await storage.getThread(scope, thread_id);
    const run_id = `r${++count}`;
    const multitask_strategy = pick(["reject", "enqueue", "enqueue"] as const);
    const sent = ++order;
    const outcome = await storage.createRun(scope, {
      run: {
        run_id,
        thread_id,
        assistant_id: "a",
        graph_id: "g",
        metadata: {},
        kwargs: {},
        multitask_strategy,
        temporary: false,
      },
      seen: { assistant_revision: assistant.revision, thread_revision: thread?.revision ?? null },
      ...(thread ? {} : { create_thread: { thread_id, metadata: {}, config: {}, hidden: false } }),
      ...(thread && chance(20) ? { update_thread: { metadata: { last: run_id }, config: {} } } : {}),
      ...(chance(30) ? { claim: { token: `c${run_id}`, lease_until: now + LEASE_MS } } : {}),
      now,
    });
    if (outcome.kind !== "created") {
      assert.equal(await storage.getRun(scope, run_id), null);
      return;
    }
    threadMade.add(thread_id);
    created.set(run_id, { thread_id, sent, deleted: false });
    if (outcome.claimed) claims.push(begin(outcome.claimed));
  };

  const client = async (): Promise<void> => {
    for (let step = 0; step < STEPS && (attempts.length < ATTEMPTS || refused < REFUSED); step++) {
      now += below(4);
      // Where a driver answers at once, nobody else would ever get a turn.
      await turn();
      const thread_id = pick(threadIds);
      const roll = below(100);
      if (roll < 60) {
        await createRun(thread_id);
      } else if (roll < 75) {
        const [run] = await storage.listRuns(scope, thread_id, { limit: 1, offset: below(4) });
        if (run) await storage.cancelRun(scope, thread_id, run.run_id, now);
      } else if (roll < 82) {
        const [run] = await storage.listRuns(scope, thread_id, { limit: 1, offset: below(4) });
        if (run && (await storage.deleteRun(scope, thread_id, run.run_id)) === "deleted") {
          const known = created.get(run.run_id);
          if (known) known.deleted = true;
        }
      } else if (roll < 85) {
        if (await storage.deleteThread(scope, thread_id)) threadDeleted.set(thread_id, ++order);
      } else if (roll < 92) {
        await storage.updateThread(scope, thread_id, ({ metadata }) => ({ metadata: { ...metadata, step } }), now);
      } else {
        const found = await storage.searchThreads(scope, {
          limit: 50,
          offset: 0,
          sort_by: "status",
          sort_order: "asc",
        });
        assert.equal(found.rows.length, found.total);
      }
    }
    clientsLeft--;
  };

  await Promise.all([...Array.from({ length: WORKERS }, worker), ...Array.from({ length: CLIENTS }, client)]);

  // Drain: whoever still held a lease is dead now.
  for (;;) {
    now += LEASE_MS;
    const taken = await claim(`d${++count}`);
    if (!taken) break;
    assert.equal(await end(taken.lease, taken.attempt), true);
  }
  const wasDeleted = (thread_id: string, sent: number): boolean => (threadDeleted.get(thread_id) ?? 0) > sent;

  assert.ok(attempts.length >= ATTEMPTS, `${attempts.length} attempts were made`);
  assert.ok(refused >= REFUSED, `${refused} late writes were refused`);

  // No write of an attempt is accepted once another attempt on its thread was claimed.
  for (const thread_id of threadIds) {
    const inOrder = attempts.filter((attempt) => attempt.thread_id === thread_id).sort((a, b) => a.claimed - b.claimed);
    for (const [i, attempt] of inOrder.entries()) {
      const next = inOrder[i + 1];
      if (next) assert.ok(attempt.accepted < next.claimed, `${attempt.run_id} wrote after ${next.run_id} was claimed`);
    }
  }

  // Nothing is lost, nothing is left over.
  for (const [run_id, { thread_id, sent, deleted }] of created) {
    const run = await storage.getRun(scope, run_id);
    if (!run) assert.ok(deleted || wasDeleted(thread_id, sent), `${run_id} is gone`);
    else {
      assert.ok(run.ended_at !== null, `${run_id} is ${run.status} after draining`);
      assert.ok(!deleted, `${run_id} was deleted`);
    }
  }

  const threads = await storage.searchThreads(scope, {
    limit: 100,
    offset: 0,
    sort_by: "thread_id",
    sort_order: "asc",
  });
  for (const thread of threads.rows) {
    const { thread_id } = thread;
    assert.ok(threadMade.has(thread_id), `${thread_id} is an orphan`);
    assert.notEqual(thread.status, "busy");
    assert.equal(thread.running, null);

    // First in, first out: runs were first claimed in the order they were created.
    const runs = [...(await storage.listRuns(scope, thread_id, { limit: 1000, offset: 0 }))].reverse();
    const firstClaims = runs
      .map((run) => attempts.find((attempt) => attempt.run_id === run.run_id)?.claimed)
      .filter((claim) => claim !== undefined);
    assert.deepEqual(
      firstClaims,
      [...firstClaims].sort((a, b) => a - b),
    );

    const checkpoints = await storage.listCheckpoints(scope, thread_id, { limit: 10_000 });
    const ids = new Set(checkpoints.map((checkpoint) => checkpoint.checkpoint_id));
    for (const { checkpoint_id, values, writes } of checkpoints) {
      assert.ok(!neverStored.has(checkpoint_id), `${checkpoint_id} was refused, and is there`);
      assert.deepEqual([values.length, writes.length], [1, 1]);
    }
    for (const [checkpoint_id, saved] of stored) {
      if (saved.thread_id === thread_id && !wasDeleted(thread_id, saved.sent)) {
        assert.ok(ids.has(checkpoint_id), `${checkpoint_id} was accepted, and is gone`);
      }
    }
    if (thread.head !== null) assert.ok(ids.has(thread.head), `the head of ${thread_id} is stored`);
  }
}
