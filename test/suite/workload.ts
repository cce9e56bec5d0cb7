/** A random workload of concurrent workers and clients, followed by checks of all invariants. */
import assert from "node:assert/strict";
import type { ClaimedRun, ClaimRequest, Progress, Scope, StopAction, Storage } from "../../lib/storage/mod.ts";
import { checkAftermath, createBareCheckpoint } from "./workload/aftermath.ts";
import { type Attempt, History, MAX_ATTEMPTS, readAllFrames } from "./workload/history.ts";

const WORKERS = 8;
const CLIENTS = 12;
/** With effort 1, clients continue until all of these counts are reached, each for at most `STEPS` steps. */
const WANTED = { attempts: 130, refusals: 20, rolled_back: 25, evicted: 8, flagged: 8, repeated: 10, frames: 100 };
const STEPS = 600;
const THREADS = 10;
const LEASE_MS = 100;

/** Creates a seeded random number generator. */
export function createDice(seed: number): {
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

/**
 * Runs 8 workers and 12 clients on a few threads: leases expire, stalled workers write late, runs are stopped, rolled back, deleted
 * and created twice, threads are deleted.
 */
export async function runWorkload(storage: Storage, seed: number, effort = 1): Promise<void> {
  const goals = Object.entries(WANTED).map(
    ([name, most]) => [name as keyof typeof WANTED, Math.ceil(most * effort)] as const,
  );
  const scope: Scope = { deployment: "workload" };
  const { below, pick } = createDice(seed);
  const chance = (percent: number): boolean => below(100) < percent;
  const threadIds = Array.from({ length: THREADS }, (_, i) => `t${i}`);
  const history = new History();
  const done = { attempts: 0, refusals: 0, rolled_back: 0, evicted: 0, flagged: 0, repeated: 0, frames: 0 };
  const attempts: Attempt[] = [];
  let now = 1_000_000;
  let count = 0;
  let clientsLeft = CLIENTS;

  const { assistant } = await storage.createAssistant(
    scope,
    { assistant_id: "a", graph_id: "g", name: "n", description: null, config: {}, context: {}, metadata: {} },
    now,
  );

  const tick = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));
  const until = async (condition: () => boolean): Promise<void> => {
    while (clientsLeft > 0 && !condition()) await tick();
  };
  const request = (): ClaimRequest => ({
    token: `w${++count}`,
    lease_until: now + LEASE_MS,
    graph_ids: ["g"],
    max_attempts: { g: MAX_ATTEMPTS, other: 1 },
    now,
  });
  const begin = (claimed: ClaimedRun, at: Pick<ClaimRequest, "now" | "lease_until">, sentAt: number): Attempt => {
    done.attempts++;
    return history.addClaim(claimed, { ...at, latest: now }, sentAt);
  };

  // ------------------------------------------------------------- workers

  const claim = async (): Promise<Attempt | null> => {
    const sentAt = history.tick();
    const terms = request();
    const outcome = await storage.claimRun(scope, terms);
    return outcome.kind === "claimed" ? begin(outcome.claimed, terms, sentAt) : null;
  };

  /** Sends a write under the lease. Records whether it was accepted. */
  const sendFenced = async (attempt: Attempt, write: (sentAt: number) => Promise<boolean>): Promise<boolean> => {
    const sentAt = history.tick();
    const accepted = await write(sentAt);
    if (accepted) attempt.accepted = Math.max(attempt.accepted, sentAt);
    else {
      history.refusals++;
      done.refusals++;
    }
    return accepted;
  };

  /** Saves a checkpoint, frames and sometimes an answer on the head of an earlier run. Records what was accepted. */
  const save = async (
    attempt: Attempt,
    next: { frame: number },
    write: (progress: Progress, sentAt: number) => Promise<boolean>,
  ): Promise<boolean> => {
    const { run, thread } = attempt.claimed;
    const checkpoint_id = `c${String(++count).padStart(8, "0")}`;
    const runIdText = JSON.stringify(run.run_id);
    const answer = thread.head !== null && chance(30) ? thread.head : null;
    const list = run.resumable ? Array.from({ length: below(4) }, () => ({ event: "custom", data: `${++count}` })) : [];
    const progress: Progress = {
      checkpoints: [
        {
          ...createBareCheckpoint(checkpoint_id, now),
          values: [{ channel: "n", version: checkpoint_id, type: "json", data: "1" }],
        },
      ],
      writes: [
        { ns: "", checkpoint_id, task_id: "task", writes: [{ channel: "n", idx: 0, type: "json", data: runIdText }] },
        ...(answer === null
          ? []
          : [
              {
                ns: "",
                checkpoint_id: answer,
                task_id: "answer",
                writes: [{ channel: "__resume__", idx: 0, type: "json", data: runIdText }],
              },
            ]),
      ],
      ...(list.length > 0 ? { frames: { first_id: next.frame, list } } : {}),
    };
    return await sendFenced(attempt, async (sentAt) => {
      const accepted = await write(progress, sentAt);
      // A worker that loses the response sends the same again.
      if (accepted && chance(10)) await storage.saveProgress(scope, attempt.lease, progress, now);
      if (!accepted) {
        history.refused.add(checkpoint_id);
        return false;
      }
      const saved = { attempt, sentAt, answered: history.tick() };
      history.saved.set(checkpoint_id, saved);
      if (answer !== null) history.answers.push({ checkpoint_id: answer, saved });
      const frames = list.map(({ data }, i) => ({ id: next.frame + i, data, sentAt }));
      history.frames.set(run.run_id, [...(history.frames.get(run.run_id) ?? []), ...frames]);
      next.frame += list.length;
      done.frames += list.length;
      return true;
    });
  };

  const release = async (attempt: Attempt): Promise<void> => {
    attempt.release_sent = Math.min(attempt.release_sent, history.tick());
    await storage.releaseThreadLock(scope, attempt.lease);
  };

  /** Ends the run; with `goOn`, it claims the next one in the same call. */
  const end = async (attempt: Attempt, next: { frame: number }, goOn: boolean): Promise<boolean> => {
    const { lease, claimed } = attempt;
    const run = history.run(lease.run_id);
    const nextClaim = goOn ? request() : undefined;
    const status = claimed.cancelled ? "interrupted" : pick(["success", "error", "interrupted", "timeout"] as const);
    let end_frame = 0;
    const ended = await save(attempt, next, async (progress, sentAt) => {
      const last = claimed.run.resumable
        ? next.frame + (progress.frames?.list.length ?? 0)
        : claimed.run.claims * 2 ** 32;
      end_frame = last + below(2);
      const outcome = await storage.finishRun(scope, lease, {
        claims: claimed.run.claims,
        status,
        error: null,
        result: null,
        progress,
        discard: false,
        thread: {
          head: progress.checkpoints[0]?.checkpoint_id ?? null,
          status: pick(["idle", "interrupted", "error"]),
          interrupts: {},
          error: null,
        },
        end_frame,
        ...(nextClaim ? { next: nextClaim } : {}),
        now,
      });
      if (!outcome) return false;
      // Recorded before the next claim, which this release made possible.
      attempt.release_sent = Math.min(attempt.release_sent, sentAt);
      if (outcome.next) attempts.push(begin(outcome.next, nextClaim as ClaimRequest, sentAt));
      // The deletion of the ended run was answered before this end.
      if (run.seen_ended === false) run.rolled_back = false;
      run.ended = Math.min(run.ended, sentAt);
      run.end_frame = end_frame;
      return true;
    });
    if (!ended) await release(attempt);
    return ended;
  };

  const requeue = async (attempt: Attempt): Promise<void> => {
    const requeued = await sendFenced(attempt, async (sentAt) => {
      if (!(await storage.requeueRun(scope, attempt.lease, now))) return false;
      attempt.release_sent = Math.min(attempt.release_sent, sentAt);
      attempt.requeued = true;
      return true;
    });
    if (!requeued && chance(50)) await release(attempt);
  };

  const work = async (attempt: Attempt): Promise<void> => {
    const { lease, claimed } = attempt;
    const next = { frame: claimed.last_frame + 1 };
    if (claimed.cancelled || claimed.exhausted)
      return void (chance(10) ? await requeue(attempt) : await end(attempt, next, false));
    for (let step = below(4); step > 0; step--) {
      const stalled = now;
      // A stall: the lease expires, and then the worker writes without it.
      if (chance(8)) await until(() => now > stalled + 2 * LEASE_MS);
      else if (chance(60)) {
        const lease_until = now + LEASE_MS;
        const renewed = await sendFenced(attempt, async (sentAt) => {
          const renewal = await storage.renewLease(scope, lease, lease_until);
          if (renewal && history.run(lease.run_id).flagged < sentAt)
            assert.ok(renewal.cancelled, `${lease.run_id} was cancelled`);
          if (renewal) attempt.slot_until = lease_until;
          if (renewal?.cancelled && chance(50)) await end(attempt, next, false);
          return renewal !== null;
        });
        if (renewed && history.run(lease.run_id).ended < Number.POSITIVE_INFINITY) return;
      }
      const renewal = await save(attempt, next, (progress) => storage.saveProgress(scope, lease, progress, now));
      // Some workers ignore the refusal; those with a rollback signal take some ticks to stop.
      if (attempt.signalled) for (let ticks = below(6); ticks > 0; ticks--) await tick();
      if (!renewal && chance(attempt.signalled ? 90 : 50)) return release(attempt);
    }
    if (chance(10)) return;
    if (chance(15)) return requeue(attempt);
    const ended = await end(attempt, next, chance(40));
    if (ended && chance(20)) assert.equal(await end(attempt, next, false), false, "a run ends once");
  };

  const worker = async (): Promise<void> => {
    while (clientsLeft > 0) {
      const attempt = attempts.pop() ?? (await claim());
      if (attempt) await work(attempt);
      else await tick();
    }
  };

  // ------------------------------------------------------------- clients

  /** Records the outcome of a stop. */
  const stopped = (outcome: Awaited<ReturnType<Storage["stopRuns"]>>, action: StopAction, sentAt: number): void => {
    const answered = history.tick();
    for (const { run_id, thread_id, kind, end_frame, lock_token } of outcome) {
      const run = history.run(run_id);
      assert.equal(run.thread_id, thread_id);
      assert.equal(kind === "deleted", action === "rollback", `${run_id} was ${kind} by ${action}`);
      assert.equal(end_frame === null, kind !== "ended");
      const attempt = lock_token === null ? undefined : history.findAttempt(lock_token);
      // The attempt is unknown here if its claim is answered at the same time.
      if (attempt) assert.equal(attempt.lease.run_id, run_id);
      if (kind === "flagged") {
        run.flagged = Math.min(run.flagged, answered);
        done.flagged++;
      } else {
        run.ended = Math.min(run.ended, sentAt);
        if (kind === "ended") Object.assign(run, { end_frame, stopped: true });
        else {
          Object.assign(run, { rolled_back: true, deleted: answered, deletion_sent: sentAt });
          done.rolled_back++;
          if (lock_token !== null) done.evicted++;
          // Without a signal, as for a worker in another process, it finds out at its next write.
          if (attempt && chance(60)) attempt.signalled = true;
        }
      }
    }
  };

  const createRun = async (thread_id: string): Promise<void> => {
    const thread = await storage.getThread(scope, thread_id);
    const run_id = `r${++count}`;
    const multitask_strategy = pick([
      ...(["reject", "enqueue", "enqueue", "enqueue", "enqueue", "enqueue"] as const),
      ...(["interrupt", "rollback"] as const),
    ]);
    const dueAt = chance(15) ? now + below(3 * LEASE_MS) : now;
    const resumable = chance(60);
    const key = chance(25) ? `k${below(1 + count / 40)}` : undefined;
    const body_hash = pick(["one", "one", "two"]);
    const claimed = chance(30) ? { token: `c${run_id}`, lease_until: now + LEASE_MS } : undefined;
    const createdAt = now;
    const sentAt = history.tick();
    // Recorded first: another response may name the run before this one arrives.
    history.addRun(run_id, {
      thread_id,
      dueAt,
      at_once: dueAt <= createdAt,
      framed: resumable,
      sentAt,
      key,
      body_hash,
    });
    const outcome = await storage.createRun(scope, {
      run: {
        run_id,
        thread_id,
        assistant_id: "a",
        graph_id: "g",
        metadata: {},
        kwargs: {},
        multitask_strategy,
        stateless: false,
        resumable,
        created_at: dueAt,
      },
      expected: { assistant_revision: assistant.revision, thread_revision: thread?.revision ?? null },
      ...(thread ? {} : { create_thread: { thread_id, metadata: {}, config: {}, stateless: false } }),
      ...(thread && chance(20) ? { update_thread: { metadata: { last: run_id }, config: {} } } : {}),
      ...(claimed ? { claim: claimed } : {}),
      ...(key === undefined ? {} : { idempotency: { route: "/runs", key, body_hash } }),
      limits: { pending_per_thread: 6, pending: 1000 },
      now: createdAt,
    });
    if (outcome.kind === "created") {
      stopped(outcome.stopped, multitask_strategy === "rollback" ? "rollback" : "interrupt", sentAt);
      if (outcome.stopped.length > 0) assert.match(multitask_strategy, /interrupt|rollback/);
      if (outcome.claimed) {
        attempts.push(begin(outcome.claimed, { now: createdAt, lease_until: claimed?.lease_until as number }, sentAt));
      }
      return;
    }
    history.created.delete(run_id);
    assert.equal(await storage.getRun(scope, run_id), null, `${run_id} is stored, but the answer was ${outcome.kind}`);
    if (outcome.kind === "thread_full") assert.ok(outcome.pending >= 6);
    if (outcome.kind !== "repeated") return;
    const { run, same_body } = outcome;
    history.repeated.push({
      key: key as string,
      body_hash,
      run_id: run?.run_id ?? null,
      same_body,
      answered: history.tick(),
    });
    done.repeated++;
  };

  const stop = async (thread_id: string): Promise<void> => {
    const action = pick(["interrupt", "interrupt", "rollback"] as const);
    const runs = await storage.listRuns(scope, thread_id, { limit: 3, offset: below(3) });
    const status = pick([["pending"], ["pending"], ["running"], ["pending", "running"]] as const);
    const target = chance(8)
      ? { run_ids: (await storage.searchRuns(scope, { status, limit: 100 })).rows.map(({ run }) => run.run_id) }
      : { thread_id, run_ids: [...runs.map((run) => run.run_id), "none"] };
    const sentAt = history.tick();
    const outcome = await storage.stopRuns(scope, target, action, now);
    for (const { run_id } of outcome) assert.ok(target.run_ids.includes(run_id));
    stopped(outcome, action, sentAt);
  };

  const deleteRun = async (thread_id: string): Promise<void> => {
    const [run] = await storage.listRuns(scope, thread_id, { limit: 1, offset: below(4) });
    const sentAt = history.tick();
    if (!run || (await storage.deleteRun(scope, thread_id, run.run_id, now)) !== "deleted") return;
    const created = history.run(run.run_id);
    // Deleting a run that has not ended removes what it has stored.
    if (created.ended === Number.POSITIVE_INFINITY) Object.assign(created, { rolled_back: true, seen_ended: false });
    created.ended = Math.min(created.ended, sentAt);
    Object.assign(created, { deleted: history.tick(), deletion_sent: sentAt });
  };

  /** Checks invariants that hold within one response. */
  const checkReads = async (thread_id: string): Promise<void> => {
    const sorted = { limit: 50, offset: 0, sort_by: "status", sort_order: "asc" } as const;
    const threads = await storage.searchThreads(scope, sorted);
    assert.equal(threads.rows.length, threads.total);
    const listed = await storage.listRuns(scope, thread_id, { above: below(4), limit: 5, offset: 0 });
    for (const [i, run] of listed.entries()) assert.ok(i === 0 || run.seq > (listed[i - 1]?.seq ?? 0));
    assert.ok(listed.filter((run) => run.status === "running").length <= 1);
    const [run] = listed;
    if (!run) return;
    const frames = await readAllFrames(storage, scope, run.run_id);
    for (const [i, frame] of frames.entries()) assert.equal(frame.id, i + 1);
  };

  const enough = (): boolean => goals.every(([name, least]) => done[name] >= least);

  const client = async (): Promise<void> => {
    for (let step = 0; step < STEPS && clientsLeft > 0 && !enough(); step++) {
      now += below(4);
      // With a synchronous driver, the other workers and clients need this tick.
      await tick();
      const thread_id = pick(threadIds);
      const roll = below(100);
      if (roll < 60) await createRun(thread_id);
      else if (roll < 72) await stop(thread_id);
      else if (roll < 79) await deleteRun(thread_id);
      else if (roll < 82) {
        const sentAt = history.tick();
        if (await storage.deleteThread(scope, thread_id)) history.addThreadDeletion(thread_id, sentAt);
      } else if (roll < 90) {
        await storage.updateThread(scope, thread_id, ({ metadata }) => ({ metadata: { ...metadata, step } }), now);
      } else await checkReads(thread_id);
    }
    clientsLeft--;
  };

  const all = [...Array.from({ length: WORKERS }, worker), ...Array.from({ length: CLIENTS }, client)];
  await Promise.all(all).catch(async (error: unknown) => {
    // The others must stop before the storage is closed.
    clientsLeft = 0;
    await Promise.allSettled(all);
    throw error;
  });
  for (const [name, least] of goals) assert.ok(done[name] >= least, `only ${done[name]} ${name}`);

  // ---------------------------------------------------------- afterwards

  // Drains the queue: workers that still hold a lease count as dead.
  attempts.length = 0;
  for (let idle = 0; idle < 5; idle++) {
    now += LEASE_MS;
    for (let attempt = await claim(); attempt; attempt = attempts.pop() ?? (await claim())) {
      idle = 0;
      assert.equal(await end(attempt, { frame: attempt.claimed.last_frame + 1 }, true), true);
    }
  }
  assert.deepEqual(await storage.countActiveRuns(scope, now), {
    pending: 0,
    scheduled: 0,
    running: 0,
    oldest_due: null,
  });

  await checkAftermath(storage, { scope, history, now, assistant_revision: assistant.revision });
}
