/**
 * `sleep` and `wait` in an attempt of a graph. The journal of the run's durable call has the start and the end of
 * each, and the interrupt is resumed from it.
 */
import type { Environment } from "../../lib/environment.ts";
import type { Command, Interrupt, Job, StateEvent, StoredCheckpoint } from "../../lib/executor/contract.ts";
import { toResumeMap } from "../../lib/executor/job-request.ts";
import type { ActiveJournal, ExternalEvent, JournalEntry, WaitingFor } from "../../lib/executor/journal.ts";
import { findSchemaMismatch } from "../../lib/executor/schema-check.ts";
import { formatStepName } from "../../lib/executor/step-names.ts";
import type { Json } from "../../lib/json.ts";
import type { JobSaver } from "./job-saver.ts";
import { countConsumedAnswers } from "./resume-values.ts";
import {
  CALL_NOTE_CHANNEL,
  INTERRUPT,
  NULL_TASK,
  readAnswerCounts,
  readPendingWrites,
  readWrite,
  type TaskWrite,
  type ValueSerializer,
} from "./saver.ts";
import type { GraphConfig } from "./serialize.ts";
import { findWaitRequest, type GraphInterrupt, type WaitRequest, type WaitResult } from "./wait-interrupts.ts";

type WaitsEnvironment = Pick<Environment, "now" | "log">;

/** The address of an event, and the key of its wait. */
export interface StartedWait {
  readonly address: { readonly url: string; readonly token: string; readonly key: string };
  readonly key: string;
}

/** The continuation of a durable call. */
export interface ContinuedWaits {
  /** The job with the resume values of the client; null once an earlier attempt has stored them. */
  readonly job: Job | null;
  /** The resume values of the ended waits, by interrupt id. */
  readonly resume: Readonly<Record<string, Json>>;
}

/** A durable call, and the checkpoint that it continues from. */
interface ContinuedDurableCall {
  readonly stored: StoredCheckpoint;
  readonly call_id: string;
  /** True if the run was created for this call. */
  readonly isOfRun: boolean;
}

/** The end of a pending sleep or wait. */
interface WaitEnd {
  readonly phase: "done" | "timeout";
  readonly value: Json;
  readonly event?: number;
}

const position = { yielded: 0, reply: null };

/** Returns the interrupts among the writes of a checkpoint. */
const listInterrupts = (writes: readonly TaskWrite[]): GraphInterrupt[] =>
  writes.filter(([, channel]) => channel === INTERRUPT).flatMap(([, , interrupts]) => interrupts as GraphInterrupt[]);

export class GraphWaits {
  readonly #job: Job;
  readonly #environment: WaitsEnvironment;
  #journalPromise: Promise<ActiveJournal | null> | undefined;

  constructor(job: Job, environment: WaitsEnvironment) {
    this.#job = job;
    this.#environment = environment;
  }

  /**
   * Opens the journal of the durable call, or of a new one, once; later calls ignore their argument. Resolves with null if the
   * call has continued without this run. Throws if the graph runs without a service. What is stored of the config has no user.
   */
  #openJournal(call: { readonly call_id: string } | null): Promise<ActiveJournal | null> {
    const { journal, input, context, config, metadata } = this.#job;
    if (!journal) throw new Error("sleep and wait need a service");
    this.#journalPromise ??= journal.open(call, () => {
      const {
        langgraph_auth_user: _u,
        langgraph_auth_user_id: _i,
        langgraph_auth_permissions: _p,
        ...configurable
      } = config.configurable;
      return { input: input ?? null, values: {}, context, config: { ...config, configurable } as never, metadata };
    });
    return this.#journalPromise;
  }

  /** Opens the journal, of a new call if none is open. Throws if the call has continued without this run. */
  async #requireJournal(): Promise<ActiveJournal> {
    const journal = await this.#openJournal(null);
    if (!journal) throw new Error("The call of the run is gone");
    return journal;
  }

  /**
   * Returns how the run continues its durable call: the job with its resume value by interrupt id (null in a later
   * attempt), and the results that are due. `gone` if the run's own call has continued without it, null if the run
   * continues none. Reads events from now on and appends the ends of waits that have come.
   */
  async continueCall(values: ValueSerializer): Promise<ContinuedWaits | "gone" | null> {
    const { command, resumed } = this.#job;
    const call = await this.#findCall(values);
    if (!call) return null;
    const journal = await this.#openJournal(call);
    if (!journal) this.#journalPromise = undefined;
    if (!journal) return call.isOfRun ? "gone" : null;
    await journal.listen(() => {});
    this.#appendEnds(journal);
    const interrupts = listInterrupts(readPendingWrites(call.stored, values));
    const job = resumed ? null : { ...this.#job, command: addressCommand(command, interrupts) };
    return { job, resume: await this.#findDueResults(journal, call.stored, values) };
  }

  /**
   * Returns the durable call that the run continues: its own, or else that of the thread. A run that is `resumed`, or that starts a
   * new step by an input, a `from` or a `goto`, does not continue that of the thread. Null for none, and without a journal or a
   * stored checkpoint.
   */
  async #findCall(values: ValueSerializer): Promise<ContinuedDurableCall | null> {
    const { journal, command, input, from, resumed, checkpoints } = this.#job;
    const runCallId = journal?.call_id ?? null;
    const startsNewStep = (input ?? null) !== null || from !== null || (command?.goto ?? []).length > 0;
    if (!journal || (runCallId === null && (resumed || startsNewStep))) return null;
    const stored = await checkpoints.get({ ns: "" });
    const note = stored?.writes.find(({ channel }) => channel === CALL_NOTE_CHANNEL);
    const call_id = runCallId ?? (note ? (readWrite(note, values) as string) : null);
    return stored && call_id !== null ? { stored, call_id, isOfRun: runCallId !== null } : null;
  }

  /**
   * Returns the results in the journal that no task has taken, as `{ payload }` by interrupt id; the payload is null
   * for a sleep or a timeout. Empty if none are due.
   */
  async #findDueResults(
    journal: ActiveJournal,
    stored: StoredCheckpoint,
    values: ValueSerializer,
  ): Promise<Record<string, Json>> {
    const counts = readAnswerCounts(stored);
    const consumed = await countConsumedAnswers(this.#job.checkpoints, stored, values);
    const dueEntries = listInterrupts(readPendingWrites(stored, values)).flatMap((interrupt): [string, Json][] => {
      const { id = "" } = interrupt;
      const request = findWaitRequest(interrupt);
      const startEntry = request && findStartEntry(journal, formatWaitKey(interrupt, request, counts));
      const end = startEntry && findEndEntry(journal, startEntry);
      const isTaken = (consumed.get(id) ?? 0) > (counts.get(id) ?? 0);
      return end && !isTaken ? [[id, { payload: end.value ?? null } satisfies WaitResult as never]] : [];
    });
    return Object.fromEntries(dueEntries);
  }

  /**
   * Appends the first appearance of a sleep or a wait and returns the entry. Its end is counted from now; it has none without a
   * duration or a time.
   */
  #appendStart(journal: ActiveJournal, { kind, name, ms, at, schema }: WaitRequest, key: string): JournalEntry {
    const uses = journal.entries.filter(({ phase }) => phase === "begun");
    const occurrence = 1 + uses.filter((entry) => entry.kind === kind && entry.name === name).length;
    const until = at ?? (ms === undefined ? null : this.#environment.now() + ms);
    const schemaMember = schema === undefined ? {} : { schema };
    return journal.append({
      ...{ kind, name, occurrence, call: uses.length + 1, phase: "begun", until, value: key, position },
      ...schemaMember,
    });
  }

  /**
   * Creates the address of a wait and commits it, with the start of the wait, before `begin` gets it. Each attempt of `begin`
   * gets a new address, but the same key for its own calls.
   */
  async createAddress(request: WaitRequest, key: string): Promise<StartedWait> {
    const journal = await this.#requireJournal();
    const { name, occurrence } = findStartEntry(journal, key) ?? this.#appendStart(journal, request, key);
    const address = await journal.createEventAddress(name, occurrence);
    await journal.commit();
    return { address: { ...address, key: await journal.createId("begin", name, occurrence) }, key };
  }

  #listOpenEntries(journal: ActiveJournal): JournalEntry[] {
    return journal.entries.filter((entry) => entry.phase === "begun" && !findEndEntry(journal, entry));
  }

  /** Appends the ends of the pending sleeps and waits that have come. */
  #appendEnds(journal: ActiveJournal): void {
    for (const startEntry of this.#listOpenEntries(journal)) {
      const end = this.#findEnd(journal, startEntry);
      const { kind, name, occurrence, call } = startEntry;
      if (end) journal.append({ kind, name, occurrence, call, position, ...end });
    }
  }

  /**
   * Returns how a sleep or a wait ends: with the first event that fits, or by its time. Null if it is still open. Events that do
   * not fit the schema are appended to the journal as dropped.
   */
  #findEnd(journal: ActiveJournal, startEntry: JournalEntry): WaitEnd | null {
    const { kind, name, occurrence, until = null, schema, call } = startEntry;
    const used = new Set(journal.entries.map(({ event }) => event));
    const isMatching = (event: ExternalEvent): boolean =>
      event.name === name && !used.has(event.seq) && [null, occurrence].includes(event.occurrence);
    for (const { seq, payload } of kind === "wait" ? journal.getEvents().filter(isMatching) : []) {
      const problem = schema ? findSchemaMismatch(schema, payload) : null;
      if (problem === null) return { phase: "done", value: payload, event: seq };
      const error = { name: "DoesNotFit", message: problem };
      journal.append({ kind, name, occurrence, call, position, phase: "dropped", event: seq, error });
    }
    if (until === null || until > this.#environment.now()) return null;
    return { phase: kind === "sleep" ? "done" : "timeout", value: null };
  }

  /**
   * Ends the attempt of a graph that has stopped at interrupts. Returns null if the run is suspended because it only sleeps and
   * waits. Else returns its last state; if waits are pending beside interrupts of clients, the thread shows these under the id of
   * the durable call, which is noted in the checkpoint. Throws for waits of a stateless run with durability `exit`.
   */
  async endAttempt(state: StateEvent, saver: JobSaver, config: GraphConfig): Promise<StateEvent | null> {
    const tuple = await saver.getTuple(config);
    const waits = listInterrupts(tuple?.pendingWrites ?? []).filter((interrupt) => findWaitRequest(interrupt) !== null);
    if (!tuple || waits.length === 0) return state;
    if (this.#job.stateless && this.#job.durability === "exit") {
      throw new Error('a stateless run sleeps and waits only with durability "async" or "sync"');
    }
    const journal = await this.#requireJournal();
    await journal.listen(() => {});
    const openEntries = await this.#findOrAppendEntries(journal, waits);
    const clientInterrupts = state.tasks.flatMap(({ interrupts }) => interrupts);
    if (clientInterrupts.length > 0)
      await saver.putWrites(tuple.config, [[CALL_NOTE_CHANNEL, journal.call_id]], NULL_TASK);
    const waitingFor = openEntries.map(toWaitingFor);
    let count: number;
    do {
      // An event that comes meanwhile may be for one of them.
      count = journal.getEvents().length;
      this.#appendEnds(journal);
      const nearestEnd = this.#nearestEnd(journal, openEntries);
      if (clientInterrupts.length > 0) await journal.pause(nearestEnd);
      else await journal.suspend(nearestEnd, waitingFor);
    } while (journal.getEvents().length !== count);
    return clientInterrupts.length > 0
      ? { ...state, tasks: moveToCallTask(state, journal.call_id, clientInterrupts) }
      : null;
  }

  /**
   * Returns the start entries of these sleeps and waits, in their order. Appends an entry to the journal for each one
   * that has none.
   */
  async #findOrAppendEntries(journal: ActiveJournal, interrupts: readonly GraphInterrupt[]): Promise<JournalEntry[]> {
    const stored = await this.#job.checkpoints.get({ ns: "" });
    const counts = stored ? readAnswerCounts(stored) : new Map<string, number>();
    return interrupts.map((interrupt) => {
      const request = findWaitRequest(interrupt) as WaitRequest;
      const key = formatWaitKey(interrupt, request, counts);
      return findStartEntry(journal, key) ?? this.#appendStart(journal, request, key);
    });
  }

  /** Returns when the first of these entries ends, in milliseconds: now, if one has ended already. Null if none ends by time. */
  #nearestEnd(journal: ActiveJournal, openEntries: readonly JournalEntry[]): number | null {
    const endTimes = openEntries.map((startEntry) =>
      findEndEntry(journal, startEntry) ? this.#environment.now() : (startEntry.until ?? null),
    );
    const times = endTimes.filter((time) => time !== null);
    return times.length > 0 ? Math.min(...times) : null;
  }
}

/** Returns what the run waits for, with the end as ISO 8601 text; null for a wait without one. */
function toWaitingFor({ kind, name, until = null }: JournalEntry): WaitingFor {
  return {
    kind: kind as WaitingFor["kind"],
    name: formatStepName(name),
    until: until === null ? null : new Date(until).toISOString(),
  };
}

/**
 * Returns the key of a sleep or a wait in the journal: that of the request, else the interrupt id. Before LangGraph
 * 1.5.0 all interrupts of a task have the same id, so the number of resume values that the task had consumed follows
 * it, if not 0.
 */
function formatWaitKey({ id = "" }: GraphInterrupt, { key }: WaitRequest, counts: ReadonlyMap<string, number>): string {
  const count = counts.get(id) ?? 0;
  return key ?? (count > 0 ? `${id} ${count}` : id);
}

const findStartEntry = (journal: ActiveJournal, key: string): JournalEntry | undefined =>
  journal.entries.find(({ phase, value }) => phase === "begun" && value === key);

/** Returns the entry that ends a sleep or a wait; undefined while it is open. */
function findEndEntry({ entries }: ActiveJournal, { kind, name, occurrence }: JournalEntry): JournalEntry | undefined {
  return entries.find(
    (entry) =>
      (entry.phase === "done" || entry.phase === "timeout") &&
      entry.kind === kind &&
      entry.name === name &&
      entry.occurrence === occurrence,
  );
}

/**
 * Addresses the resume value of a client to its interrupt id, because LangGraph would not know which interrupt it is for. Returns
 * the same command if it has no value, has ids already, or if not exactly one interrupt of clients is pending.
 */
function addressCommand(command: Command | null, interrupts: readonly GraphInterrupt[]): Command | null {
  const resume = command?.resume;
  const ids = interrupts.filter((interrupt) => !findWaitRequest(interrupt)).flatMap(({ id }) => id ?? []);
  if (resume === undefined || ids.length !== 1 || toResumeMap(resume, new Set(ids))) return command;
  return { ...command, resume: { [ids[0] as string]: resume } };
}

/**
 * Moves the interrupts of the state to its first interrupted task, which gets the id of the durable call; other tasks lose
 * theirs. While the thread shows it, the call is active.
 */
function moveToCallTask(
  { tasks }: StateEvent,
  call_id: string,
  clientInterrupts: readonly Interrupt[],
): StateEvent["tasks"] {
  const first = tasks.find(({ interrupts }) => interrupts.length > 0) as StateEvent["tasks"][number];
  return tasks.map((task) =>
    task === first ? { ...task, id: call_id, interrupts: clientInterrupts } : { ...task, interrupts: [] },
  );
}
