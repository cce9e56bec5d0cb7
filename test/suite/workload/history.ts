/** Records a random workload and checks the invariants of the storage afterwards. */
import assert from "node:assert/strict";
import type { StoredCheckpoint } from "../../../lib/executor/contract.ts";
import type { ClaimedRun, Lease, RunRow, Scope, Storage, StoredFrame, ThreadRow } from "../../../lib/storage/mod.ts";

/** One claim and the actions of its worker. Times are positions in the order of all requests and responses (`tick`). */
export interface Attempt {
  readonly lease: Lease;
  readonly claimed: ClaimedRun;
  /** `now` is the clock in the claim; `sent` and `answered` are the times of its request and response. */
  readonly now: number;
  readonly sentAt: number;
  readonly answered: number;
  /** The time at which the last accepted write was sent. */
  accepted: number;
  /** The clock time at which its thread lock expires, unless it is released before. */
  slot_until: number;
  /** The time at which it first sent a request that releases its thread lock: an end, a requeue or a release. */
  release_sent: number;
  requeued: boolean;
  /** Its worker has received the signal that the run was rolled back. */
  signalled: boolean;
}

interface Created {
  readonly thread_id: string;
  readonly dueAt: number;
  /** It was due at its creation. */
  readonly at_once: boolean;
  readonly framed: boolean;
  readonly sentAt: number;
  readonly key: string | undefined;
  readonly body_hash: string;
  /** The time at which the request that ended or deleted it was sent. */
  ended: number;
  /** The times at which its deletion was answered and sent. */
  deleted: number;
  deletion_sent: number;
  rolled_back: boolean;
  /** False: it was deleted before its end was answered. If the answer still arrives, it was not rolled back. */
  seen_ended?: boolean;
  /** The time at which the request that set its cancel flag was answered. */
  flagged: number;
  /** The id of its last frame, from the request that ended it. */
  end_frame: number | null;
  /** It was stopped while it was pending. */
  stopped: boolean;
}

interface Saved {
  readonly attempt: Attempt;
  readonly sentAt: number;
  readonly answered: number;
}

const NEVER = Number.POSITIVE_INFINITY;

/** The maximum number of attempts of a run. */
export const MAX_ATTEMPTS = 2;

export class History {
  readonly created: Map<string, Created> = new Map();
  readonly attempts: Attempt[] = [];
  readonly #byToken: Map<string, Attempt> = new Map();
  /** Accepted checkpoints; answers on checkpoints of earlier runs and frames follow. */
  readonly saved: Map<string, Saved> = new Map();
  readonly answers: { readonly checkpoint_id: string; readonly saved: Saved }[] = [];
  readonly frames: Map<string, { readonly id: number; readonly data: string; readonly sentAt: number }[]> = new Map();
  readonly refused: Set<string> = new Set();
  readonly repeated: {
    readonly key: string;
    readonly body_hash: string;
    readonly run_id: string | null;
    readonly same_body: boolean;
    readonly answered: number;
  }[] = [];
  readonly #threadsMade: Set<string> = new Set();
  /** The times at which deletions of a thread were sent and answered. */
  readonly #threadsDeleted: Map<string, { readonly sentAt: number; readonly answered: number }[]> = new Map();
  refusals = 0;
  #order = 0;

  /** Returns the next time in the order of requests and responses. */
  tick(): number {
    return ++this.#order;
  }

  run(run_id: string): Created {
    const run = this.created.get(run_id);
    assert.ok(run, `${run_id} was never created`);
    return run;
  }

  addRun(
    run_id: string,
    run: Pick<Created, "thread_id" | "dueAt" | "at_once" | "framed" | "sentAt" | "key" | "body_hash">,
  ): void {
    assert.ok(!this.created.has(run_id));
    const initial = {
      ended: NEVER,
      deleted: NEVER,
      deletion_sent: NEVER,
      rolled_back: false,
      flagged: NEVER,
      end_frame: null,
      stopped: false,
    };
    this.created.set(run_id, { ...run, ...initial });
    this.#threadsMade.add(run.thread_id);
  }

  /**
   * Records a claim. Call it as soon as the claim is answered, even if the work starts later. `latest`: the time then. A run that others
   * have changed meanwhile is due by the times of these calls.
   */
  addClaim(
    claimed: ClaimedRun,
    { now, lease_until, latest }: { readonly now: number; readonly lease_until: number; readonly latest: number },
    sentAt: number,
  ): Attempt {
    const { lease, run, thread } = claimed;
    assert.equal(run.status, "running");
    assert.equal(thread.running, run.run_id);
    assert.equal(thread.lock?.token, lease.token);
    assert.ok(run.created_at <= latest || this.run(run.run_id).at_once, `${run.run_id} was claimed before it was due`);
    assert.equal(run.end_frame, null);
    const times = { now, sentAt, answered: this.tick(), accepted: 0, slot_until: lease_until, release_sent: NEVER };
    const attempt: Attempt = { lease, claimed, ...times, requeued: false, signalled: false };
    this.attempts.push(attempt);
    this.#byToken.set(lease.token, attempt);
    return attempt;
  }

  findAttempt(token: string): Attempt | undefined {
    return this.#byToken.get(token);
  }

  addThreadDeletion(thread_id: string, sentAt: number): void {
    const answered = this.tick();
    this.#threadsDeleted.set(thread_id, [...(this.#threadsDeleted.get(thread_id) ?? []), { sentAt, answered }]);
  }

  /** True if the thread may have been deleted between a request sent at `from` and a response at `to`. */
  #threadGone(thread_id: string, from: number, to: number): boolean {
    return (this.#threadsDeleted.get(thread_id) ?? []).some(({ sentAt, answered }) => answered > from && sentAt < to);
  }

  /** Checks that attempts on one thread never overlap: each starts after the thread lock of the one before is released. */
  checkExclusion(): void {
    for (const inOrder of groupBy(this.attempts, ({ lease }) => lease.thread_id).values()) {
      for (const [i, attempt] of inOrder.entries()) {
        const { run_id, thread_id } = attempt.lease;
        for (const next of inOrder.slice(i + 1)) {
          // A concurrent database may answer the later of two claims first.
          const reordered = next.sentAt < attempt.answered && this.#overlap(next, attempt, inOrder) === null;
          const overlap = reordered ? null : this.#overlap(attempt, next, inOrder);
          assert.equal(overlap, null, `${overlap} ${next.lease.run_id} was claimed on ${thread_id}`);
        }
        const run = this.run(run_id);
        assert.ok(attempt.accepted < run.deleted, `${run_id} wrote after it was gone`);
        assert.ok(attempt.sentAt < run.deleted, `${run_id} was claimed after it was gone`);
      }
    }
  }

  /** Returns the problem if `attempt` was claimed before `next`; null if both are consistent. */
  #overlap(attempt: Attempt, next: Attempt, all: readonly Attempt[]): string | null {
    const { run_id, thread_id } = attempt.lease;
    if (attempt.accepted >= next.answered) return `${run_id} wrote after`;
    // A third attempt, with a later clock, may have taken over the expired thread lock and released it.
    const expired = all.some(({ now, sentAt }) => attempt.slot_until <= now && sentAt < next.answered);
    const free = attempt.release_sent < next.answered || expired;
    return free || this.#threadGone(thread_id, attempt.sentAt, next.answered) ? null : `${run_id} had the slot when`;
  }

  /** A thread continues the run that has stored something; otherwise it starts its oldest due run. */
  checkOrder(rows: readonly RunRow[]): void {
    const startedAt = new Map<string, number>();
    for (const { attempt, answered } of this.saved.values()) {
      const { run_id } = attempt.lease;
      startedAt.set(run_id, Math.min(startedAt.get(run_id) ?? NEVER, answered));
    }
    for (const attempt of this.attempts) {
      const row = rows.find((run) => run.run_id === attempt.lease.run_id);
      for (const rival of row ? rows : []) {
        const run = this.run(rival.run_id);
        if (rival === row || run.ended < attempt.answered || attempt.answered < run.sentAt) continue;
        const goesFirst = attempt.claimed.resumed
          ? (startedAt.get(rival.run_id) ?? NEVER) < attempt.sentAt && rival.seq < (row as RunRow).seq
          : (startedAt.get(rival.run_id) ?? NEVER) < attempt.sentAt ||
            (rival.seq < (row as RunRow).seq && run.dueAt <= attempt.now);
        assert.ok(!goesFirst, `${rival.run_id} was waiting when ${attempt.lease.run_id} was claimed`);
      }
    }
  }

  /** Claims count up. A claim counts as an attempt unless the run was requeued or only had to be ended. */
  checkAttempts(): void {
    for (const [run_id, inOrder] of groupBy(this.attempts, ({ lease }) => lease.run_id)) {
      let counted = 0;
      let last = 0;
      for (const [i, attempt] of inOrder.entries()) {
        const { run, cancelled, exhausted, last_frame } = attempt.claimed;
        assert.equal(run.claims, i + 1, `claims of ${run_id}`);
        if (this.run(run_id).flagged < attempt.sentAt) assert.ok(cancelled, `${run_id} forgot that it was cancelled`);
        assert.equal(exhausted, !cancelled && counted >= MAX_ATTEMPTS, `${run_id} at claim ${i + 1}`);
        const executes = !cancelled && !exhausted;
        if (executes) counted++;
        assert.equal(run.attempt, counted, `attempts of ${run_id} at claim ${i + 1}`);
        if (attempt.requeued && executes) counted--;
        for (const frame of this.frames.get(run_id) ?? []) {
          if (frame.sentAt < attempt.sentAt) last = Math.max(last, frame.id);
        }
        // It may be larger: a frame sent before the claim can be stored before it and answered after it.
        assert.ok(last_frame >= last, `${run_id} goes on at ${last_frame} though ${last} was stored`);
      }
    }
  }

  /** Turns are unique per thread, and each claim of a run has a later turn than the one before. */
  checkTurns(): void {
    for (const [run_id, inOrder] of groupBy(this.attempts, ({ lease }) => lease.run_id)) {
      for (const [i, { claimed }] of inOrder.entries()) {
        const before = inOrder[i - 1]?.claimed.run.claim_number ?? 0;
        assert.ok(
          claimed.run.claim_number > before,
          `${run_id} had turn ${before}, and then ${claimed.run.claim_number}`,
        );
      }
    }
    for (const [thread_id, all] of groupBy(this.attempts, ({ lease }) => lease.thread_id)) {
      // A recreated thread counts from 1 again.
      if (this.#threadsDeleted.has(thread_id)) continue;
      const turns = all.map(({ claimed }) => claimed.run.claim_number);
      assert.equal(new Set(turns).size, turns.length, `turns of ${thread_id}: ${turns}`);
    }
  }

  /** An idempotency key creates exactly one run. */
  checkKeys(): void {
    const runs = groupBy(
      [...this.created].filter(([, { key }]) => key !== undefined),
      ([, run]) => run.key as string,
    );
    for (const [key, entries] of runs) {
      assert.equal(entries.length, 1, `${key} created ${entries.map(([run_id]) => run_id)}`);
    }
    for (const { key, run_id, same_body, body_hash, answered } of this.repeated) {
      const [first] = runs.get(key) ?? [];
      assert.ok(first, `${key} was repeated before it created a run`);
      const [first_id, run] = first;
      if (run_id === null) assert.ok(this.#isGone(run, answered), `${key} has lost ${first_id}`);
      else assert.equal(run_id, first_id, `the run of ${key}`);
      assert.equal(same_body, body_hash === run.body_hash);
    }
  }

  /** True if the run may have been deleted before a response at `to`. */
  #isGone(run: Created, to: number = NEVER): boolean {
    return run.deletion_sent < to || this.#threadGone(run.thread_id, run.sentAt, to);
  }

  /** Every run is either stored completely or deleted completely. Returns the stored runs by thread. */
  async checkRuns(storage: Storage, scope: Scope): Promise<Map<string, RunRow[]>> {
    const remainingRuns: RunRow[] = [];
    for (const [run_id, created] of this.created) {
      const run = await storage.getRun(scope, run_id);
      const frames = await readAllFrames(storage, scope, run_id);
      if (!run) {
        assert.ok(this.#isGone(created), `${run_id} is lost`);
        assert.deepEqual(frames, [], `frames of ${run_id}, which is gone`);
        continue;
      }
      remainingRuns.push(run);
      assert.ok(run.ended_at !== null, `${run_id} is ${run.status} after draining`);
      assert.equal(created.deleted, NEVER, `${run_id} was deleted`);
      const accepted = [...(this.frames.get(run_id) ?? [])].sort((a, b) => a.id - b.id);
      assert.deepEqual(
        frames,
        accepted.map(({ data }, i) => ({ id: i + 1, event: "custom", data })),
        `frames of ${run_id}`,
      );
      assert.equal(run.resumable, created.framed);
      const started = [...this.saved.values()].some(({ attempt }) => attempt.lease.run_id === run_id);
      if (created.stopped) assert.ok(!started, `${run_id} had started, but a stop ended it`);
      const next = created.framed ? frames.length + 1 : run.claims * 2 ** 32 + 1;
      assert.equal(run.end_frame, created.stopped ? next : created.end_frame, `the last frame of ${run_id}`);
    }
    return groupBy(remainingRuns, (run) => run.thread_id);
  }

  checkThread(thread: ThreadRow, runs: readonly RunRow[], now: number): void {
    const { thread_id } = thread;
    assert.ok(this.#threadsMade.has(thread_id), `${thread_id} is an orphan`);
    assert.notEqual(thread.status, "busy");
    assert.equal(thread.running, null);
    assert.ok(
      thread.lock === null || thread.lock.until <= now,
      `the slot of ${thread_id} belongs to ${thread.lock?.token}`,
    );
    const last = thread.metadata.last as string | undefined;
    assert.ok(last === undefined || this.created.has(last), `${last} changed ${thread_id}, but was not created`);
    this.checkOrder(runs);
  }

  /** The thread has every accepted checkpoint with its values and writes, and no other. */
  checkCheckpoints(thread: ThreadRow, checkpoints: readonly StoredCheckpoint[]): void {
    const { thread_id } = thread;
    const stored = new Map(checkpoints.map((checkpoint) => [checkpoint.checkpoint_id, checkpoint]));
    for (const { checkpoint_id, values, writes } of checkpoints) {
      const saved = this.saved.get(checkpoint_id);
      assert.ok(saved && !this.refused.has(checkpoint_id), `${checkpoint_id} was refused, but is stored`);
      assert.ok(!this.run(saved.attempt.lease.run_id).rolled_back, `${checkpoint_id} was rolled back, but is stored`);
      assert.equal(values.length, 1);
      assert.equal(writes.filter((write) => write.task_id === "task").length, 1);
      // The answer of the latest run counts, until that run is rolled back.
      const getSeq = ({ attempt }: Saved): number => attempt.claimed.run.seq;
      const answered = this.answers
        .filter((answer) => answer.checkpoint_id === checkpoint_id)
        .filter(({ saved }) => !this.run(saved.attempt.lease.run_id).rolled_back)
        .sort((a, b) => getSeq(a.saved) - getSeq(b.saved))
        .at(-1);
      assert.deepEqual(
        writes.filter((write) => write.task_id === "answer").map((write) => write.data),
        answered ? [JSON.stringify(answered.saved.attempt.lease.run_id)] : [],
        `answers on ${checkpoint_id}`,
      );
    }
    for (const [checkpoint_id, { attempt, sentAt }] of this.saved) {
      const { run_id } = attempt.lease;
      if (attempt.lease.thread_id !== thread_id || this.run(run_id).rolled_back) continue;
      if (this.#threadGone(thread_id, sentAt, NEVER)) continue;
      assert.ok(stored.has(checkpoint_id), `${checkpoint_id} was accepted, but is not stored`);
    }
    if (thread.head !== null) assert.ok(stored.has(thread.head), `the head of ${thread_id} is stored`);
  }

  /** Up to 30 runs with frames that are or may be deleted: their thread was deleted while they were created. */
  goneWithFrames(): string[] {
    const had = [...this.frames.keys()].filter((run_id) => this.frames.get(run_id)?.length);
    return had.filter((run_id) => this.#isGone(this.run(run_id))).slice(0, 30);
  }

  /** Returns the checkpoints of which no value or write may be left on the thread. */
  goneFrom(thread_id: string): string[] {
    const goneCheckpoints = [...this.saved].filter(
      ([, { attempt, sentAt }]) =>
        this.run(attempt.lease.run_id).rolled_back || this.#threadGone(attempt.lease.thread_id, sentAt, NEVER),
    );
    const ofThread = goneCheckpoints
      .filter(([, { attempt }]) => attempt.lease.thread_id === thread_id)
      .map(([id]) => id);
    return [...ofThread, ...[...this.refused].filter((id) => !this.saved.has(id))];
  }
}

/** Reads all stored frames of a run, page by page. */
export async function readAllFrames(storage: Storage, scope: Scope, run_id: string): Promise<StoredFrame[]> {
  const frames: StoredFrame[] = [];
  for (;;) {
    const page = await storage.readFrames(scope, run_id, frames.at(-1)?.id ?? 0);
    if (page.length === 0) return frames;
    frames.push(...page);
  }
}

function groupBy<Item>(items: readonly Item[], key: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const group = groups.get(key(item));
    if (group) group.push(item);
    else groups.set(key(item), [item]);
  }
  return groups;
}
