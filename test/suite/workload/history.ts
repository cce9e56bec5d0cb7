/** What happened in a random workload, and what must be true of the storage afterwards. */
import assert from "node:assert/strict";
import type { StoredCheckpoint } from "../../../lib/executor/contract.ts";
import type { ClaimedRun, Lease, RunRow, Scope, Storage, StoredFrame, ThreadRow } from "../../../lib/storage/mod.ts";

/** One claim, and what its worker did. Moments are places in the order of everything that was sent or answered. */
export interface Attempt {
  readonly lease: Lease;
  readonly claimed: ClaimedRun;
  /** What the claim called the present, and when it was sent and answered. */
  readonly now: number;
  readonly sent: number;
  readonly answered: number;
  /** When the last write was sent that the storage accepted. */
  accepted: number;
  /** How long its slot lasts, unless it lets go before. */
  slot_until: number;
  /** When it first asked to let go of its slot: by an end, a requeue or a release. */
  let_go: number;
  requeued: boolean;
  /** Somebody told its worker that the run was rolled back. */
  told: boolean;
}

interface Created {
  readonly thread_id: string;
  readonly due: number;
  /** It was due when it was made: by whatever clock. */
  readonly at_once: boolean;
  readonly framed: boolean;
  readonly sent: number;
  readonly key: string | undefined;
  readonly body_hash: string;
  /** When it was told to end, or to be gone; the moment the request was sent. */
  ended: number;
  /** When the answer came that it is gone, and when that was asked for. */
  deleted: number;
  deletion_sent: number;
  rolled_back: boolean;
  /** False for one that was deleted before an answer told of its end: it is not rolled back if one comes. */
  seen_ended?: boolean;
  /** When its flag was answered. */
  flagged: number;
  /** The id of its last frame, as whoever ended it said. */
  end_frame: number | null;
  /** It had not started, or was to start again, when it was stopped. */
  stopped: boolean;
}

interface Saved {
  readonly attempt: Attempt;
  readonly sent: number;
  readonly answered: number;
}

const NEVER = Number.POSITIVE_INFINITY;

/** How often a run may be started. */
export const MAX_ATTEMPTS = 2;

export class History {
  readonly created: Map<string, Created> = new Map();
  readonly attempts: Attempt[] = [];
  readonly #byToken: Map<string, Attempt> = new Map();
  /** Checkpoints, answers on others' checkpoints, and frames that were accepted. */
  readonly saved: Map<string, Saved> = new Map();
  readonly answers: { readonly checkpoint_id: string; readonly saved: Saved }[] = [];
  readonly frames: Map<string, { readonly id: number; readonly data: string; readonly sent: number }[]> = new Map();
  readonly refused: Set<string> = new Set();
  readonly repeated: {
    readonly key: string;
    readonly body_hash: string;
    readonly run_id: string | null;
    readonly same_body: boolean;
    readonly answered: number;
  }[] = [];
  readonly #threadsMade: Set<string> = new Set();
  /** When the deletions of a thread were sent and answered. */
  readonly #threadsDeleted: Map<string, { readonly sent: number; readonly answered: number }[]> = new Map();
  refusals = 0;
  #order = 0;

  /** The next place in the order of things. */
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
    run: Pick<Created, "thread_id" | "due" | "at_once" | "framed" | "sent" | "key" | "body_hash">,
  ): void {
    assert.ok(!this.created.has(run_id));
    const rest = {
      ended: NEVER,
      deleted: NEVER,
      deletion_sent: NEVER,
      rolled_back: false,
      flagged: NEVER,
      end_frame: null,
      stopped: false,
    };
    this.created.set(run_id, { ...run, ...rest });
    this.#threadsMade.add(run.thread_id);
  }

  /** Notes a claim as soon as it is answered, whenever the work on it starts. */
  addClaim(claimed: ClaimedRun, now: number, sent: number, lease_until: number): Attempt {
    const { lease, run, thread } = claimed;
    assert.equal(run.status, "running");
    assert.equal(thread.running, run.run_id);
    assert.equal(thread.slot?.token, lease.token);
    assert.ok(run.created_at <= now || this.run(run.run_id).at_once, `${run.run_id} was claimed before it was due`);
    assert.equal(run.end_frame, null);
    const times = { now, sent, answered: this.tick(), accepted: 0, slot_until: lease_until, let_go: NEVER };
    const attempt: Attempt = { lease, claimed, ...times, requeued: false, told: false };
    this.attempts.push(attempt);
    this.#byToken.set(lease.token, attempt);
    return attempt;
  }

  attemptOf(token: string): Attempt | undefined {
    return this.#byToken.get(token);
  }

  addThreadDeletion(thread_id: string, sent: number): void {
    const answered = this.tick();
    this.#threadsDeleted.set(thread_id, [...(this.#threadsDeleted.get(thread_id) ?? []), { sent, answered }]);
  }

  /** True when the thread may have been deleted after what was sent at `from`, and before what was answered at `to`. */
  #threadGone(thread_id: string, from: number, to: number): boolean {
    return (this.#threadsDeleted.get(thread_id) ?? []).some(({ sent, answered }) => answered > from && sent < to);
  }

  /** No two attempts on one thread overlap, and each starts when the slot of the one before is free. */
  checkExclusion(): void {
    for (const inOrder of grouped(this.attempts, ({ lease }) => lease.thread_id).values()) {
      for (const [i, attempt] of inOrder.entries()) {
        const { run_id, thread_id } = attempt.lease;
        for (const next of inOrder.slice(i + 1)) {
          // A database that does several things at once may answer the later of two claims first.
          const other = next.sent < attempt.answered && this.#overlap(next, attempt, inOrder) === null;
          const overlap = other ? null : this.#overlap(attempt, next, inOrder);
          assert.equal(overlap, null, `${overlap} ${next.lease.run_id} was claimed on ${thread_id}`);
        }
        const run = this.run(run_id);
        assert.ok(attempt.accepted < run.deleted, `${run_id} wrote after it was gone`);
        assert.ok(attempt.sent < run.deleted, `${run_id} was claimed after it was gone`);
      }
    }
  }

  /** What is wrong if the one attempt was claimed before the other; null: nothing. */
  #overlap(attempt: Attempt, next: Attempt, all: readonly Attempt[]): string | null {
    const { run_id, thread_id } = attempt.lease;
    if (attempt.accepted >= next.answered) return `${run_id} wrote after`;
    // A third one may have taken the slot over, later by the clock, and be through with it.
    const over = all.some(({ now, sent }) => attempt.slot_until <= now && sent < next.answered);
    const free = attempt.let_go < next.answered || over;
    return free || this.#threadGone(thread_id, attempt.sent, next.answered) ? null : `${run_id} had the slot when`;
  }

  /** Of a thread's runs the one goes first that has begun to store something, else the oldest that is due. */
  checkOrder(rows: readonly RunRow[]): void {
    const begun = new Map<string, number>();
    for (const { attempt, answered } of this.saved.values()) {
      const { run_id } = attempt.lease;
      begun.set(run_id, Math.min(begun.get(run_id) ?? NEVER, answered));
    }
    for (const attempt of this.attempts) {
      const row = rows.find((run) => run.run_id === attempt.lease.run_id);
      for (const other of row ? rows : []) {
        const run = this.run(other.run_id);
        if (other === row || run.ended < attempt.answered || attempt.answered < run.sent) continue;
        const goesFirst = attempt.claimed.resumed
          ? (begun.get(other.run_id) ?? NEVER) < attempt.sent && other.seq < (row as RunRow).seq
          : (begun.get(other.run_id) ?? NEVER) < attempt.sent ||
            (other.seq < (row as RunRow).seq && run.due <= attempt.now);
        assert.ok(!goesFirst, `${other.run_id} was waiting when ${attempt.lease.run_id} was claimed`);
      }
    }
  }

  /** Claims count up; an attempt is charged unless it was put back or had only to be ended. */
  checkAttempts(): void {
    for (const [run_id, inOrder] of grouped(this.attempts, ({ lease }) => lease.run_id)) {
      let charged = 0;
      let last = 0;
      for (const [i, attempt] of inOrder.entries()) {
        const { run, cancelled, exhausted, last_frame } = attempt.claimed;
        assert.equal(run.claims, i + 1, `claims of ${run_id}`);
        if (this.run(run_id).flagged < attempt.sent) assert.ok(cancelled, `${run_id} forgot that it was cancelled`);
        assert.equal(exhausted, !cancelled && charged >= MAX_ATTEMPTS, `${run_id} at claim ${i + 1}`);
        const executes = !cancelled && !exhausted;
        if (executes) charged++;
        assert.equal(run.attempt, charged, `attempts of ${run_id} at claim ${i + 1}`);
        if (attempt.requeued && executes) charged--;
        for (const frame of this.frames.get(run_id) ?? []) {
          if (frame.sent < attempt.sent) last = Math.max(last, frame.id);
        }
        // Not "equal": a frame that was sent before the claim may have been stored before it and answered after.
        assert.ok(last_frame >= last, `${run_id} goes on at ${last_frame} though ${last} was stored`);
      }
    }
  }

  /** No two claims of a thread have one turn, and a run that is claimed again has a later one. */
  checkTurns(): void {
    for (const [run_id, inOrder] of grouped(this.attempts, ({ lease }) => lease.run_id)) {
      for (const [i, { claimed }] of inOrder.entries()) {
        const before = inOrder[i - 1]?.claimed.run.turn ?? 0;
        assert.ok(claimed.run.turn > before, `${run_id} had turn ${before}, and then ${claimed.run.turn}`);
      }
    }
    for (const [thread_id, all] of grouped(this.attempts, ({ lease }) => lease.thread_id)) {
      // A thread that is made again counts from the start.
      if (this.#threadsDeleted.has(thread_id)) continue;
      const turns = all.map(({ claimed }) => claimed.run.turn);
      assert.equal(new Set(turns).size, turns.length, `turns of ${thread_id}: ${turns}`);
    }
  }

  /** A key makes one run, and never a second one. */
  checkKeys(): void {
    const runs = grouped(
      [...this.created].filter(([, { key }]) => key !== undefined),
      ([, run]) => run.key as string,
    );
    for (const [key, [...made]] of runs) assert.equal(made.length, 1, `${key} made ${made.map(([run_id]) => run_id)}`);
    for (const { key, run_id, same_body, body_hash, answered } of this.repeated) {
      const [first] = runs.get(key) ?? [];
      assert.ok(first, `${key} was repeated before it made a run`);
      const [made, run] = first;
      if (run_id === null) assert.ok(this.#isGone(run, answered), `${key} does not know ${made} any more`);
      else assert.equal(run_id, made, `the run of ${key}`);
      assert.equal(same_body, body_hash === run.body_hash);
    }
  }

  /** Whether it may be gone for what was answered at `to`. */
  #isGone(run: Created, to: number = NEVER): boolean {
    return run.deletion_sent < to || this.#threadGone(run.thread_id, run.sent, to);
  }

  /** Nothing is lost, and nothing is left over. Gives the runs that are left, by thread. */
  async checkRuns(storage: Storage, scope: Scope): Promise<Map<string, RunRow[]>> {
    const left: RunRow[] = [];
    for (const [run_id, known] of this.created) {
      const run = await storage.getRun(scope, run_id);
      const frames = await allFrames(storage, scope, run_id);
      if (!run) {
        assert.ok(this.#isGone(known), `${run_id} is lost`);
        assert.deepEqual(frames, [], `frames of ${run_id}, which is gone`);
        continue;
      }
      left.push(run);
      assert.ok(run.ended_at !== null, `${run_id} is ${run.status} after draining`);
      assert.equal(known.deleted, NEVER, `${run_id} was deleted`);
      const accepted = [...(this.frames.get(run_id) ?? [])].sort((a, b) => a.id - b.id);
      assert.deepEqual(
        frames,
        accepted.map(({ data }, i) => ({ id: i + 1, event: "custom", data })),
        `frames of ${run_id}`,
      );
      assert.equal(run.framed, known.framed);
      const started = [...this.saved.values()].some(({ attempt }) => attempt.lease.run_id === run_id);
      if (known.stopped) assert.ok(!started, `${run_id} was ended by somebody else than its worker`);
      const next = known.framed ? frames.length + 1 : run.claims * 2 ** 32 + 1;
      assert.equal(run.end_frame, known.stopped ? next : known.end_frame, `the last frame of ${run_id}`);
    }
    return grouped(left, (run) => run.thread_id);
  }

  checkThread(thread: ThreadRow, runs: readonly RunRow[], now: number): void {
    const { thread_id } = thread;
    assert.ok(this.#threadsMade.has(thread_id), `${thread_id} is an orphan`);
    assert.notEqual(thread.status, "busy");
    assert.equal(thread.running, null);
    assert.ok(
      thread.slot === null || thread.slot.until <= now,
      `the slot of ${thread_id} is still ${thread.slot?.token}'s`,
    );
    const last = thread.metadata.last as string | undefined;
    assert.ok(last === undefined || this.created.has(last), `${last} changed ${thread_id}, and was not made`);
    this.checkOrder(runs);
  }

  /** Every checkpoint that was accepted, with what belongs to it, and no other. */
  checkCheckpoints(thread: ThreadRow, checkpoints: readonly StoredCheckpoint[]): void {
    const { thread_id } = thread;
    const found = new Map(checkpoints.map((checkpoint) => [checkpoint.checkpoint_id, checkpoint]));
    for (const { checkpoint_id, values, writes } of checkpoints) {
      const saved = this.saved.get(checkpoint_id);
      assert.ok(saved && !this.refused.has(checkpoint_id), `${checkpoint_id} was refused, and is there`);
      assert.ok(!this.run(saved.attempt.lease.run_id).rolled_back, `${checkpoint_id} was rolled back, and is there`);
      assert.equal(values.length, 1);
      assert.equal(writes.filter((write) => write.task_id === "task").length, 1);
      // A later run's answer counts; it is taken back with the run.
      const seqOf = ({ attempt }: Saved): number => attempt.claimed.run.seq;
      const answered = this.answers
        .filter((answer) => answer.checkpoint_id === checkpoint_id)
        .filter(({ saved }) => !this.run(saved.attempt.lease.run_id).rolled_back)
        .sort((a, b) => seqOf(a.saved) - seqOf(b.saved))
        .at(-1);
      assert.deepEqual(
        writes.filter((write) => write.task_id === "answer").map((write) => write.data),
        answered ? [JSON.stringify(answered.saved.attempt.lease.run_id)] : [],
        `answers on ${checkpoint_id}`,
      );
    }
    for (const [checkpoint_id, { attempt, sent }] of this.saved) {
      const { run_id } = attempt.lease;
      if (attempt.lease.thread_id !== thread_id || this.run(run_id).rolled_back) continue;
      if (this.#threadGone(thread_id, sent, NEVER)) continue;
      assert.ok(found.has(checkpoint_id), `${checkpoint_id} was accepted, and is gone`);
    }
    if (thread.head !== null) assert.ok(found.has(thread.head), `the head of ${thread_id} is stored`);
  }

  /** Runs that had frames and are gone, or may be: made while their thread was deleted. At the most 30. */
  goneWithFrames(): string[] {
    const had = [...this.frames.keys()].filter((run_id) => this.frames.get(run_id)?.length);
    return had.filter((run_id) => this.#isGone(this.run(run_id))).slice(0, 30);
  }

  /** Checkpoints that must have left nothing on the thread: no value, no write. */
  goneFrom(thread_id: string): string[] {
    const gone = [...this.saved].filter(
      ([, { attempt, sent }]) =>
        this.run(attempt.lease.run_id).rolled_back || this.#threadGone(attempt.lease.thread_id, sent, NEVER),
    );
    const ofThread = gone.filter(([, { attempt }]) => attempt.lease.thread_id === thread_id).map(([id]) => id);
    return [...ofThread, ...[...this.refused].filter((id) => !this.saved.has(id))];
  }
}

/** All stored frames of a run, page by page. */
export async function allFrames(storage: Storage, scope: Scope, run_id: string): Promise<StoredFrame[]> {
  const frames: StoredFrame[] = [];
  for (;;) {
    const page = await storage.readFrames(scope, run_id, frames.at(-1)?.id ?? 0);
    if (page.length === 0) return frames;
    frames.push(...page);
  }
}

function grouped<Item>(items: readonly Item[], key: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const group = groups.get(key(item));
    if (group) group.push(item);
    else groups.set(key(item), [item]);
  }
  return groups;
}
