/** Checks how a run changes: every transition of its row is compared with the rules. */
import type { JsonObject } from "../../../lib/json.ts";
import { MAX_ATTEMPTS, readScript } from "../agent.ts";
import type { Process } from "../node.ts";
import { ofAttempts } from "../thread-events.ts";
import type { World } from "../world.ts";
import { Answers } from "./answers.ts";
import { Executions } from "./executions.ts";
import {
  type Claim,
  isActive,
  isActiveStatus,
  LEFT_BY_RUN,
  type RunNote,
  type RunState,
  type ThreadNote,
  type ThreadState,
  TRACE_TABLES,
} from "./notes.ts";

/** What a run is made of, as `Changes` notes it. */
type CreatedColumns = [
  kwargs: string,
  graph_id: string,
  context: string,
  active: string,
  strategy: string,
  webhook: string | null,
  feedback: string | null,
];

export class RunRules {
  readonly byId: Map<string, RunNote> = new Map();
  /** Run ids that nothing may name any more. */
  readonly removedIds: Set<string> = new Set();
  readonly claims: Map<string, Claim> = new Map();
  /** The time at which a run was last claimed, ended or removed. */
  progressAt = 0;
  /** The time at which a run was last claimed. */
  claimedAt = 0;
  /** The database is as the batch in hand has left it. */
  exact = true;
  readonly #world: World;
  readonly executions: Executions;
  readonly answers: Answers;

  constructor(world: World) {
    this.#world = world;
    this.executions = new Executions(world, this.byId);
    this.answers = new Answers(world, this.byId);
  }

  /** A batch has left the run's row so; `extra` is what it was made of. */
  look(
    run_id: string,
    image: string | null,
    extra: string | null,
    threads: ReadonlyMap<string, ThreadNote>,
    process: Process,
    threadsBefore: ReadonlyMap<string, ThreadState>,
  ): void {
    const world = this.#world;
    const runNote = this.byId.get(run_id);
    if (image === null) {
      if (runNote?.fate === "present") this.#vanished(runNote);
      return;
    }
    const state = JSON.parse(image) as RunState;
    if (this.removedIds.has(run_id)) world.violation("I3", `${runNote?.tag ?? run_id} was removed, and is back`);
    else if (runNote) this.#changed(runNote, state, process, threadsBefore);
    else this.#created(state, extra as string, threads.get(state.thread_id) as ThreadNote, process);
  }

  #created(state: RunState, extra: string, thread: ThreadNote, process: Process): void {
    const world = this.#world;
    const { run_id } = state;
    const [stored, graph_id, context, active, strategy, webhook, feedback] = JSON.parse(extra) as CreatedColumns;
    const kwargs = JSON.parse(stored) as JsonObject & { context: JsonObject };
    const script = readScript(kwargs.input ?? kwargs.context["script"], (kwargs.command ?? null) as JsonObject | null);
    const targets = (kwargs["resume_targets"] ?? []) as unknown as readonly { readonly interrupt_id: string | null }[];
    const note: RunNote = {
      run_id,
      tag: script.tag,
      script,
      thread,
      framed: state.has_frames === 1,
      resumable: kwargs["resumable"] === true,
      shows: (kwargs["stream_mode"] as string[]).join() !== "values" || kwargs["all_events"] !== true,
      temporary: state.stateless === 1,
      webhook,
      tokens: feedback === null ? [] : (JSON.parse(feedback) as [string, string][]),
      claims: [],
      state,
      fate: "present",
      createdBy: process,
      requeuedBy: null,
      lastExecution: null,
      targets: targets.map(({ interrupt_id }) => interrupt_id),
      savesItself: graph_id === "saver",
      rooted: 0,
      saved: 0,
    };
    const activeRuns = thread.runs.filter((run) => isActive(run));
    this.byId.set(run_id, note);
    thread.runs.push(note);
    world.count("run created");
    world.note(
      `${process.name} creates ${note.tag} on ${thread.name}, ${state.status}${state.has_frames ? ", framed" : ""}`,
    );
    const { v } = JSON.parse(context) as JsonObject;
    if (v !== kwargs.context["v"] || active !== graph_id) {
      world.violation("I14", `${note.tag} has context ${kwargs.context["v"]}, its assistant had ${v}`);
    }
    this.#checkStrategy(note, strategy, activeRuns);
    this.answers.accepted(note, strategy, activeRuns);
    if (this.exact) this.#checkTokens(note, null);
    if (state.status === "running") {
      this.#claimed(note, { ...state, claims: 0, attempt: 0, status: "pending" }, state, process);
    } else if (state.status !== "pending") {
      world.violation("status", `${note.tag} was created as ${state.status}`);
    }
  }

  /** `others` were active before it. */
  #checkStrategy(run: RunNote, strategy: string, activeRuns: readonly RunNote[]): void {
    const world = this.#world;
    const toStop = activeRuns.filter(({ state }) => strategy !== "interrupt" || state.cancelled !== 1);
    const pending = [run, ...activeRuns].filter(({ state }) => state.status === "pending").length;
    if (strategy !== "enqueue" && toStop.length > 0) {
      world.violation("strategy", `${run.tag} (${strategy}) was made beside ${toStop.map(({ tag }) => tag).join()}`);
    } else if (strategy === "enqueue" && pending > world.plan.pending_per_thread) {
      world.violation("limits", `${run.tag} is the ${pending}th pending run of ${run.thread.name}`);
    }
  }

  #vanished(run: RunNote): void {
    const world = this.#world;
    this.removedIds.add(run.run_id);
    const was = run.state;
    run.fate = run.thread.deleted
      ? run.temporary && !isActiveStatus(was.status)
        ? "swept"
        : "thread_deleted"
      : isActiveStatus(was.status)
        ? "rolled_back"
        : "deleted";
    this.progressAt = world.scheduler.now;
    world.count(`run ${run.fate}`);
    world.note(`${run.tag} is ${run.fate}`);
    if (isActiveStatus(was.status) && !world.clients.some((client) => client.mayRemove(run))) {
      world.violation("lost", `${run.tag} is gone while ${was.status}, and nobody asked for that`);
    }
    if (this.exact) this.checkNothingLeft(run);
  }

  /** Checks I10: tokens exist as soon as the run does, and their lifetime begins with its end. */
  #checkTokens(run: RunNote, expires_at: number | null): void {
    if (run.tokens.length === 0) return;
    const rows = this.#world.database.query("select expires_at from feedback_tokens where run_id = ?", [run.run_id]);
    if (rows.length === run.tokens.length && rows.every((row) => row.expires_at === expires_at)) return;
    const expiries = rows.map((row) => row.expires_at).join();
    this.#world.violation(
      "I10",
      `${run.tag} is ${run.state.status}, and its tokens live until ${expiries}, not ${expires_at}`,
    );
  }

  /** Checks I7: the end of a run and its delivery are stored in one batch. */
  #checkOutbox(run: RunNote): void {
    if (run.webhook === null) return;
    const deliveries = this.#world.database.query("select status from webhook_deliveries where delivery_id = ?", [
      run.run_id,
    ]);
    if (deliveries.length === 1 && deliveries[0]?.status === run.state.status) return;
    this.#world.violation(
      "I7",
      `${run.tag} ended as ${run.state.status}, and ${deliveries[0]?.status ?? "nothing"} is to be told`,
    );
  }

  /** Checks I3: a removed run has left no rows. The deletion of an ended run leaves the state as it is. */
  checkNothingLeft(run: RunNote): void {
    const { database } = this.#world;
    for (const table of run.fate === "deleted" ? (["run_frames"] as const) : LEFT_BY_RUN) {
      const [row] = database.query(`select count(*) as count from ${table} where run_id = ?`, [run.run_id]);
      if (Number(row?.count) > 0) {
        this.#world.violation("I3", `${run.tag} is ${run.fate}, and ${row?.count} rows of ${table} are left`);
      }
    }
    // The trace of a stateless run outlives it.
    for (const table of run.fate === "swept" ? [] : TRACE_TABLES) {
      const [row] = database.query(`select count(*) as count from ${table} where run_id = ?`, [run.run_id]);
      if (Number(row?.count) > 0)
        this.#world.violation("I3", `${run.tag} is ${run.fate}, and ${row?.count} rows of ${table} are left`);
    }
    const [remainingEvents] = database.query(
      `select count(*) as count from thread_events where run_id = ? and ${ofAttempts()}`,
      [run.run_id],
    );
    if (Number(remainingEvents?.count) > 0)
      this.#world.violation("I3", `${run.tag} is ${run.fate}, and events of it are left`);
    if (run.fate === "swept" || run.tokens.length === 0) return;
    const [row] = database.query("select count(*) as count from feedback_tokens where run_id = ?", [run.run_id]);
    if (Number(row?.count) > 0)
      this.#world.violation("I10", `${run.tag} is ${run.fate}, and ${row?.count} of its tokens are left`);
  }

  #changed(run: RunNote, is: RunState, process: Process, threadsBefore: ReadonlyMap<string, ThreadState>): void {
    const world = this.#world;
    const { now } = world.scheduler;
    const was = run.state;
    run.state = is;
    const refuse = (rule: string, text: string): void =>
      world.violation(rule, `${run.tag} ${was.status} -> ${is.status} by ${process.name}: ${text}`);
    for (const key of ["thread_id", "seq", "created_at", "stateless"] as const) {
      if (was[key] !== is[key]) refuse("I1", `${key} changed from ${was[key]} to ${is[key]}`);
    }
    if (is.claims < is.attempt) refuse("I12", `${is.claims} claims, ${is.attempt} attempts`);
    if (is.progressed !== was.progressed) {
      if (is.status === "running" && is.lease_token === was.lease_token) this.#progressed(run, is, refuse);
      else refuse("I12", "made progress without a lease");
    }
    if (!isActiveStatus(was.status)) {
      if (was.status !== is.status || was.end_frame !== is.end_frame || was.ended_at !== is.ended_at) {
        refuse("I1", "it had ended already");
      }
      if (is.has_frames === 0) this.#unframed(run, refuse);
      return;
    }
    const owner = run.claims.at(-1);
    if (was.status === "pending") {
      if (is.status === "running") this.#claimed(run, was, is, process);
      else if (is.status === "interrupted") this.#ended(run, is, process, threadsBefore);
      else if (is.status !== "pending") refuse("I1", "it was not started");
      else if (is.attempt !== was.attempt || is.claims !== was.claims) refuse("I12", "attempts changed");
      return;
    }
    const over = (was.lease_until ?? 0) <= now || !owner?.process.alive;
    if (is.status === "running") {
      if (is.lease_token === was.lease_token) {
        if (is.attempt !== was.attempt || is.claims !== was.claims) refuse("I12", "attempts changed");
      } else {
        if (!over) refuse("I2", `${owner?.process.name} still held it`);
        this.#claimed(run, was, is, process);
      }
    } else if (is.status === "pending") {
      const isOwner = owner?.process === process;
      const uncharged = is.attempt === was.attempt - (owner?.charged ?? 0);
      run.requeuedBy = process;
      if (isOwner && uncharged) {
        world.note(`${process.name} puts ${run.tag} back`);
        owner.returned = true;
      } else if (!over) refuse("I2", `${owner?.process.name} still held it`);
      else if (is.attempt !== was.attempt) refuse("I12", `attempt ${was.attempt} became ${is.attempt}`);
    } else {
      if (owner?.process !== process) refuse("I2", `${owner?.process.name} held it`);
      this.#ended(run, is, process, threadsBefore);
    }
  }

  /** Checks that the frames of a stateless run that is not resumable are deleted with it, and all others later. */
  #unframed(run: RunNote, refuse: (rule: string, text: string) => void): void {
    if (!run.framed) return;
    run.framed = false;
    const { retention, skew_ms } = this.#world.plan;
    const keptMs = run.temporary && !run.resumable ? retention.stateless_ms : retention.frames_ms;
    const age = this.#world.scheduler.now - (run.state.ended_at ?? 0);
    if (age + 2 * skew_ms <= keptMs) refuse("retention", `its frames are gone after ${age} ms`);
  }

  #claimed(run: RunNote, was: RunState, is: RunState, process: Process): void {
    const world = this.#world;
    const token = is.lease_token as string;
    const charged = is.attempt - was.attempt;
    this.progressAt = world.scheduler.now;
    this.claimedAt = world.scheduler.now;
    world.count("claim");
    world.note(`${process.name} claims ${run.tag} attempt ${is.attempt}${is.cancelled ? ", cancelled" : ""}`);
    if (this.claims.has(token)) world.violation("R1", `${run.tag} was claimed with a token that was used before`);
    if (is.claims !== was.claims + 1) world.violation("R1", `${run.tag} has ${is.claims} claims after ${was.claims}`);
    // It is claimed only to be ended.
    const over = is.cancelled === 1 || this.#countStarts(run, was, is) >= MAX_ATTEMPTS;
    if (charged !== (over ? 0 : 1)) {
      world.violation(
        "I12",
        `${run.tag} went from attempt ${was.attempt} to ${is.attempt}${over ? ", to be ended" : ""}`,
      );
    }
    const last = run.claims.at(-1);
    if (charged > 0 && was.attempt > 0 && last) {
      const taker = was.status === "running" ? process : (run.requeuedBy ?? process);
      // A claim that took effect after its lease had expired: its process had stalled.
      const late = last.until <= last.at;
      const lost = late || !last.process.alive || this.executions.mayHaveLost(last.process, last.at, taker);
      const { name } = last.process;
      if (!lost && !last.returned) {
        world.violation("I12", `${run.tag} is started again by ${taker.name}, and ${name} had lost nothing`);
      }
    }
    this.#checkOrder(run, is);
    run.rooted = this.#countRoots(run);
    const claim: Claim = {
      run_id: run.run_id,
      token,
      process,
      at: world.scheduler.now,
      attempt: is.attempt,
      until: is.lease_until as number,
      charged,
      executed: false,
      returned: false,
    };
    this.claims.set(token, claim);
    run.claims.push(claim);
  }

  /** How often it was started, as far as that counts: for a while not before the attempt that has made progress. */
  #countStarts(run: RunNote, was: RunState, is: RunState): number {
    const { run_timeout_ms } = this.#world.plan;
    const young = run.savesItself && was.started_at !== null && is.updated_at < was.started_at + run_timeout_ms;
    return was.attempt + 1 - (young ? was.progressed : 1);
  }

  /** Only a root checkpoint that was not there before is progress, of the attempt that stores it. */
  #progressed(run: RunNote, is: RunState, refuse: (rule: string, text: string) => void): void {
    // A later batch of the same commit may have rolled the run back, with its checkpoints.
    const isThere = this.#world.database.query("select 1 from runs where run_id = ?", [run.run_id]).length > 0;
    const roots = this.#countRoots(run);
    if (is.progressed !== is.attempt) refuse("I12", `attempt ${is.attempt} made the progress of ${is.progressed}`);
    else if (isThere && roots <= run.rooted)
      refuse("I12", `attempt ${is.attempt} made progress without a root checkpoint`);
  }

  /** Counts the root checkpoints that the run has stored. */
  #countRoots({ run_id, state: { thread_id } }: RunNote): number {
    const [row] = this.#world.database.query(
      "select count(*) as count from checkpoints where run_id = ?1 and thread_id = ?2 and ns = ''",
      [run_id, thread_id],
    );
    return Number(row?.count ?? 0);
  }

  /** First in, first out; but what has begun comes before everything else of its thread. */
  #checkOrder(run: RunNote, is: RunState): void {
    const waiting = run.thread.runs.filter(
      (candidate) => candidate !== run && candidate.fate === "present" && candidate.state.status === "pending",
    );
    const begunRun = waiting.find(({ state }) => state.has_checkpoint === 1);
    if (begunRun) this.#world.violation("order", `${run.tag} starts before ${begunRun.tag}, which has begun`);
    if (is.has_checkpoint === 1) return;
    // A run for later is not due while the clock of the process that claims is behind; one that was due at once stays due.
    const isDue = (state: RunState): boolean => state.due_at <= is.updated_at || state.due_at <= state.updated_at;
    const earlier = waiting.find(({ state }) => state.seq < is.seq && state.due_at <= is.due_at && isDue(state));
    if (earlier) this.#world.violation("order", `${run.tag} starts before ${earlier.tag}`);
  }

  #ended(run: RunNote, is: RunState, process: Process, threadsBefore: ReadonlyMap<string, ThreadState>): void {
    const world = this.#world;
    this.progressAt = world.scheduler.now;
    world.count(`run ${is.status}`);
    world.note(`${process.name} ends ${run.tag}: ${is.status}`);
    if (is.ended_at === null || is.end_frame === null) {
      world.violation("I6", `${run.tag} has ended without an end frame`);
    }
    const { thread } = run;
    thread.ended.push(run);
    if (!this.exact) return;
    this.#checkTokens(run, (is.ended_at ?? 0) + world.plan.token_ttl_ms);
    this.#checkOutbox(run);
    const [newest] = world.database.query(
      `select checkpoint_id, (select count(*) from checkpoints where run_id = ?1) as count from checkpoints
        where thread_id = ?2 and run_id = ?1 and ns = '' order by seq desc limit 1`,
      [run.run_id, run.state.thread_id],
    );
    run.saved = Number(newest?.count ?? 0);
    if (thread.state.hidden === 1) return;
    const before = threadsBefore.get(thread.thread_id)?.head ?? thread.state.head;
    const head = newest ? String(newest.checkpoint_id) : before;
    if (thread.state.head !== head) {
      world.violation("I4", `${run.tag} ended at ${head}, and the head of ${thread.name} is ${thread.state.head}`);
    }
  }

  /** Checks I2: checkpoints, writes and frames are accepted only from the holder of the lease. */
  checkWriter(run_id: string, was: RunState | undefined, process: Process): void {
    const run = this.byId.get(run_id);
    const present = run?.fate === "present" ? run.state : undefined;
    const runs = was?.status === "running" || present?.status === "running";
    const owner = run?.claims.findLast(
      (claim) => claim.token === was?.lease_token || claim.token === present?.lease_token,
    );
    if (!run || !runs || owner?.process !== process) {
      const holder = owner?.process.name ?? "nobody";
      this.#world.violation("I2", `${process.name} wrote for ${run?.tag ?? run_id}, which ${holder} holds`);
    }
  }

  /** Checks R3: a process that has stopped by itself has requeued its runs. */
  processStopped(process: Process): void {
    for (const run of this.byId.values()) {
      if (run.fate !== "present" || run.state.status !== "running") continue;
      const claim = run.claims.at(-1);
      if (claim?.process !== process || this.executions.wasDisturbed(process, claim.at)) continue;
      this.#world.violation("R3", `${process.name} has stopped, and still holds ${run.tag}`);
    }
  }
}
