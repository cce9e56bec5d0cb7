/** Checks the rules after every transaction: each change of a run or a thread is compared with the state before it. */
import type { Process } from "../node.ts";
import type { World } from "../world.ts";
import type { Answers } from "./answers.ts";
import { type Change, Changes } from "./changes.ts";
import type { Executions } from "./executions.ts";
import { isActive, type ThreadNote, type ThreadState } from "./notes.ts";
import { RunRules } from "./runs.ts";
import { SpanRules } from "./spans.ts";

/** Within that time after the last fault a free worker must have taken every run that is due. */
const IDLE_MS = 1_000;
/** The interval at which a worker looks for orphaned runs, in milliseconds. */
const POLL_MS = 2_000;

export class Oracle {
  readonly runs: RunRules;
  readonly executions: Executions;
  readonly answers: Answers;
  readonly spans: SpanRules;
  readonly changes: Changes;
  /** The present life of each thread. */
  readonly threads: Map<string, ThreadNote> = new Map();
  readonly #world: World;
  /** The turns of deleted threads: clients know their events by these. */
  readonly #turns = new Map<string, number>();
  #named = 0;
  #calmSince = Number.POSITIVE_INFINITY;
  /** The time at which each process last sent a claim of its own. */
  readonly #claimsSent = new WeakMap<Process, number>();
  /** The time at which every worker slot was last found taken: the end of a run and the next claim are not always one batch. */
  #fullAt = 0;

  constructor(world: World) {
    this.#world = world;
    this.changes = new Changes(world.database);
    this.runs = new RunRules(world);
    this.executions = this.runs.executions;
    this.answers = this.runs.answers;
    this.spans = new SpanRules(world);
  }

  /** No fault occurs any more. */
  calm(now: number): void {
    this.#calmSince = now;
    this.executions.calm(now);
  }

  afterCommit(process: Process): void {
    const batches = this.changes.take();
    this.runs.exact = batches.length === 1;
    for (const batch of batches) this.#lookAtBatch(batch, process);
  }

  #lookAtBatch(changes: readonly Change[], process: Process): void {
    const latest = (kind: Change["kind"]): Map<string, Change> =>
      new Map(changes.filter((change) => change.kind === kind).map((change) => [change.id, change]));
    const before = new Map<string, ThreadState>();
    const threads = latest("threads");
    for (const [id, { image }] of threads) this.#lookAtThread(id, image, before);
    const runs = latest("runs");
    const writerIds = new Set([...latest("writes").keys(), ...latest("spans").keys()]);
    const writers = [...writerIds].map((id) => [id, this.runs.byId.get(id)?.state] as const);
    const touched = new Set(threads.keys());
    for (const [id, { image }] of runs) {
      const created = changes.find((change) => change.id === id && change.extra !== null);
      this.runs.look(id, image, created?.extra ?? null, this.threads, process, before);
      const thread = this.runs.byId.get(id)?.thread.thread_id;
      if (thread) touched.add(thread);
    }
    for (const [id, state] of writers) this.runs.checkWriter(id, state, process);
    for (const { kind, id, image } of changes) if (kind === "spans" && image !== null) this.spans.store(id, image);
    for (const id of touched) this.#checkSlot(id, before.get(id), process);
  }

  #lookAtThread(thread_id: string, image: string | null, before: Map<string, ThreadState>): void {
    const threadNote = this.threads.get(thread_id);
    if (threadNote) before.set(thread_id, threadNote.state);
    if (image === null) {
      if (!threadNote) return;
      threadNote.deleted = true;
      this.#turns.set(thread_id, threadNote.state.claim_count);
      this.threads.delete(thread_id);
      this.#world.note(`${threadNote.name} is gone`);
      return;
    }
    const state = JSON.parse(image) as ThreadState;
    const holder = state.slot_token === null ? undefined : this.runs.claims.get(state.slot_token);
    if (holder) holder.until = state.slot_until as number;
    if (threadNote) threadNote.state = state;
    else {
      const note: ThreadNote = {
        thread_id,
        name: `t${++this.#named}`,
        state,
        deleted: false,
        ended: [],
        runs: [],
        freeSince: this.#world.scheduler.now,
      };
      this.threads.set(thread_id, note);
      const before = this.#turns.get(thread_id) ?? 0;
      if (state.claim_count - (state.slot_token === null ? 0 : 1) < before) {
        this.#world.violation(
          "I15",
          `${note.name} begins with turn ${state.claim_count}, and had ${before} when it was deleted`,
        );
      }
    }
  }

  #checkSlot(thread_id: string, was: ThreadState | undefined, process: Process): void {
    const world = this.#world;
    const { now } = world.scheduler;
    const thread = this.threads.get(thread_id);
    if (!thread) return;
    const is = thread.state;
    const running = thread.runs.filter((run) => run.fate === "present" && run.state.status === "running");
    if (running.length > 1) {
      world.violation("I2", `${running.map((run) => run.tag).join(" and ")} run on ${thread.name}`);
    }
    for (const run of running) {
      if (run.state.lease_token === is.slot_token) continue;
      world.violation("slot", `${run.tag} runs on ${thread.name} without its slot`);
    }
    if (!was?.slot_token || was.slot_token === is.slot_token) return;
    thread.freeSince = now;
    if ((was.slot_until ?? 0) > now) {
      this.executions.slotFreed(this.runs.claims.get(was.slot_token), process.name, thread);
    }
  }

  /** Everything that was created has ended, and nothing executes. */
  settled(): boolean {
    if (this.executions.active().length > 0) return false;
    for (const run of this.runs.byId.values()) if (isActive(run)) return false;
    for (const { state } of this.threads.values()) {
      if ((state.slot_until ?? 0) > this.#world.scheduler.now) return false;
    }
    return true;
  }

  /** Records a claim that looks for expired leases first. */
  claimSent(process: Process, now: number): void {
    this.#claimsSent.set(process, now);
  }

  /** I13, where every worker slot is always taken, which `checkLiveness` leaves out: expired leases are looked for all the same. */
  claimSentWithEnd(process: Process, now: number): void {
    const late = now - (this.#claimsSent.get(process) ?? Number.NEGATIVE_INFINITY);
    if (late < POLL_MS) return;
    this.#world.violation(
      "I13",
      `${process.name} has not looked for expired leases for ${late} ms, and claims with an end`,
    );
  }

  unsettled(): string {
    const runs = [...this.runs.byId.values()].filter(isActive);
    const slots = [...this.threads.values()].filter(({ state }) => (state.slot_until ?? 0) > this.#world.scheduler.now);
    const clients = this.#world.clients.filter((client) => !client.idle || client.streams > 0);
    return [
      ...runs.map((run) => `${run.tag} is ${run.state.status}, attempt ${run.state.attempt}`),
      ...this.executions
        .active()
        .map((execution) => `${this.runs.byId.get(execution.run_id)?.tag} executes on ${execution.process.name}`),
      ...slots.map((thread) => `the slot of ${thread.name} is taken`),
      ...clients.map((client) => `${client.name} waits: ${client.doing}`),
    ].join("; ");
  }

  /** Checks I13: no run waits while a worker is free. */
  checkLiveness(): void {
    const world = this.#world;
    const { plan, nodes } = world;
    const { now } = world.scheduler;
    // A lease that a dead process left, then two polls; on a file a standby asks every 250 ms.
    const calm = this.#calmSince + plan.lease_ms + 2 * POLL_MS + 8_500;
    if (now < calm + IDLE_MS) return;
    const running = [...this.runs.byId.values()].filter(
      (run) => run.fate === "present" && run.state.status === "running",
    );
    for (const { tag, state } of running) {
      // Where every place is always taken, it is in its turn all the same.
      const since = Math.max(state.lease_until as number, calm);
      if (this.runs.claimedAt - since <= 2 * POLL_MS + IDLE_MS) continue;
      world.violation("I13", `the lease of ${tag} has been over for ${now - since} ms, and others were started`);
    }
    const executions = this.executions.active();
    const executing = Math.max(running.length, executions.length);
    if (executing >= plan.concurrency * (plan.mode === "file" ? 1 : nodes.length)) {
      this.#fullAt = now;
      return;
    }
    if (executions.some((execution) => execution.stoppedAt !== null)) return;
    for (const thread of this.threads.values()) {
      if (thread.state.slot_token !== null && (thread.state.slot_until ?? 0) > now - IDLE_MS) continue;
      if (thread.runs.some((run) => run.fate === "present" && run.state.status === "running")) continue;
      const free = Math.max(thread.freeSince, thread.state.slot_until ?? 0);
      for (const run of thread.runs) {
        if (run.fate !== "present" || run.state.status !== "pending") continue;
        const since = Math.max(run.state.due_at, free, calm, this.#fullAt);
        // Nothing wakes the worker of a file for a run that a standby has created: its next poll finds it.
        const unseen = plan.mode === "file" && run.createdBy !== world.lockHolder ? POLL_MS : 0;
        if (now - since <= unseen + IDLE_MS) continue;
        world.violation("I13", `${run.tag} has waited ${now - since} ms while a worker is free`);
      }
    }
  }
}
