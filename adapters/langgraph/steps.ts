/**
 * `sleep` and `wait` in an attempt of a graph. The journal of the run's call has when each was first seen, and what it got; the
 * interrupt is answered from there.
 */
import type { Environment } from "../../lib/environment.ts";
import type { Command, Interrupt, Job, StateEvent, StoredCheckpoint } from "../../lib/executor/contract.ts";
import type { JournalEntry, OpenJournal, OutsideEvent, WaitingFor } from "../../lib/executor/journal.ts";
import { answersById } from "../../lib/executor/kwargs.ts";
import { misfit } from "../../lib/executor/schema-check.ts";
import { labelOf } from "../../lib/executor/step-names.ts";
import type { Json } from "../../lib/json.ts";
import type { JobSaver } from "./job-saver.ts";
import { consumedAnswers } from "./resume-values.ts";
import {
  answerCounts,
  CALL,
  INTERRUPT,
  NULL_TASK,
  pendingWrites,
  readWrite,
  type TaskWrite,
  type Values,
} from "./saver.ts";
import type { GraphConfig } from "./serialize.ts";
import { type AskedInterrupt, type AskedStep, type StepAnswer, stepOf } from "./step-marks.ts";

type StepsEnvironment = Pick<Environment, "now" | "log">;

/** The address of an event, and the name of its wait. */
export interface StartedWait {
  readonly address: { readonly url: string; readonly token: string; readonly key: string };
  readonly key: string;
}

/** How a run continues its call. */
export interface ContinuedSteps {
  /** With the answers of the client; null once an earlier attempt has stored them. */
  readonly job: Job | null;
  /** The answers that are due, by interrupt id. */
  readonly resume: Readonly<Record<string, Json>>;
}

/** A durable call, and the checkpoint that it continues from. */
interface StoredCall {
  readonly stored: StoredCheckpoint;
  readonly call_id: string;
  /** The run was created for this call. */
  readonly isOwn: boolean;
}

/** What answers an open entry now. */
interface End {
  readonly phase: "done" | "timeout";
  readonly value: Json;
  readonly event?: number;
}

const position = { yielded: 0, reply: null };

/** The interrupts among the writes of a checkpoint. */
const askedIn = (writes: readonly TaskWrite[]): AskedInterrupt[] =>
  writes.filter(([, channel]) => channel === INTERRUPT).flatMap(([, , asked]) => asked as AskedInterrupt[]);

export class GraphSteps {
  readonly #job: Job;
  readonly #environment: StepsEnvironment;
  #opening: Promise<OpenJournal | null> | undefined;

  constructor(job: Job, environment: StepsEnvironment) {
    this.#job = job;
    this.#environment = environment;
  }

  #open(call: { readonly call_id: string } | null): Promise<OpenJournal | null> {
    const { journal, input, context, config, metadata } = this.#job;
    if (!journal) throw new Error("sleep and wait need a service");
    this.#opening ??= journal.open(call, () => {
      const {
        langgraph_auth_user: _u,
        langgraph_auth_user_id: _i,
        langgraph_auth_permissions: _p,
        ...configurable
      } = config.configurable;
      return { input: input ?? null, values: {}, context, config: { ...config, configurable } as never, metadata };
    });
    return this.#opening;
  }

  async #opened(): Promise<OpenJournal> {
    const journal = await this.#open(null);
    if (!journal) throw new Error("The call of the run is gone");
    return journal;
  }

  /**
   * What the run continues with. `gone`: the call that the run was made for has gone on.
   * Null: the run continues none.
   */
  async continued(values: Values): Promise<ContinuedSteps | "gone" | null> {
    const { command, resumed } = this.#job;
    const call = await this.#storedCall(values);
    if (!call) return null;
    const journal = await this.#open(call);
    if (!journal) this.#opening = undefined;
    if (!journal) return call.isOwn ? "gone" : null;
    await journal.listen(() => {});
    this.#settle(journal);
    const asked = askedIn(pendingWrites(call.stored, values));
    const job = resumed ? null : { ...this.#job, command: byId(command, asked) };
    return { job, resume: await this.#dueAnswers(journal, call.stored, values) };
  }

  /** The durable call that the run continues: its own, or that of the thread. Null for none. */
  async #storedCall(values: Values): Promise<StoredCall | null> {
    const { journal, command, input, from, resumed, checkpoints } = this.#job;
    const own = journal?.call_id ?? null;
    const moves = (input ?? null) !== null || from !== null || (command?.goto ?? []).length > 0;
    if (!journal || (own === null && (resumed || moves))) return null;
    const stored = await checkpoints.get({ ns: "" });
    const note = stored?.writes.find(({ channel }) => channel === CALL);
    const call_id = own ?? (note ? (readWrite(note, values) as string) : null);
    return stored && call_id !== null ? { stored, call_id, isOwn: own !== null } : null;
  }

  /** The answers of the journal that no task has taken, by interrupt id. */
  async #dueAnswers(journal: OpenJournal, stored: StoredCheckpoint, values: Values): Promise<Record<string, Json>> {
    const counts = answerCounts(stored);
    const consumed = await consumedAnswers(this.#job.checkpoints, stored, values);
    const due = askedIn(pendingWrites(stored, values)).flatMap((interrupt): [string, Json][] => {
      const { id = "" } = interrupt;
      const step = stepOf(interrupt);
      const begun = step && findBegun(journal, keyOf(interrupt, step, counts));
      const end = begun && outcomeOf(journal, begun);
      const isTaken = (consumed.get(id) ?? 0) > (counts.get(id) ?? 0);
      return end && !isTaken ? [[id, { payload: end.value ?? null } satisfies StepAnswer as never]] : [];
    });
    return Object.fromEntries(due);
  }

  /** Notes the first appearance of a sleep or a wait. */
  #begin(journal: OpenJournal, { kind, name, ms, at, schema }: AskedStep, key: string): JournalEntry {
    const uses = journal.entries.filter(({ phase }) => phase === "begun");
    const occurrence = 1 + uses.filter((entry) => entry.kind === kind && entry.name === name).length;
    const until = at ?? (ms === undefined ? null : this.#environment.now() + ms);
    const kept = schema === undefined ? {} : { schema };
    return journal.append({
      ...{ kind, name, occurrence, call: uses.length + 1, phase: "begun", until, value: key, position },
      ...kept,
    });
  }

  /** The address of a wait, committed before `begin` gets it. Each try has an address of its own. */
  async address(asked: AskedStep, key: string): Promise<StartedWait> {
    const journal = await this.#opened();
    const { name, occurrence } = findBegun(journal, key) ?? this.#begin(journal, asked, key);
    const address = await journal.address(name, occurrence);
    await journal.commit();
    return { address: { ...address, key: await journal.id("begin", name, occurrence) }, key };
  }

  #isOpen(journal: OpenJournal): JournalEntry[] {
    return journal.entries.filter((entry) => entry.phase === "begun" && !outcomeOf(journal, entry));
  }

  /** Stores what has come for the open sleeps and waits. */
  #settle(journal: OpenJournal): void {
    for (const begun of this.#isOpen(journal)) {
      const end = this.#endOf(journal, begun);
      const { kind, name, occurrence, call } = begun;
      if (end) journal.append({ kind, name, occurrence, call, position, ...end });
    }
  }

  #endOf(journal: OpenJournal, begun: JournalEntry): End | null {
    const { kind, name, occurrence, until = null, schema, call } = begun;
    const used = new Set(journal.entries.map(({ event }) => event));
    const isFor = (event: OutsideEvent): boolean =>
      event.name === name && !used.has(event.seq) && [null, occurrence].includes(event.occurrence);
    for (const { seq, payload } of kind === "wait" ? journal.events().filter(isFor) : []) {
      const problem = schema ? misfit(schema, payload) : null;
      if (problem === null) return { phase: "done", value: payload, event: seq };
      const error = { name: "DoesNotFit", message: problem };
      journal.append({ kind, name, occurrence, call, position, phase: "dropped", event: seq, error });
    }
    if (until === null || until > this.#environment.now()) return null;
    return { phase: kind === "sleep" ? "done" : "timeout", value: null };
  }

  /**
   * Called when the graph has stopped at interrupts. Returns null if the run is suspended because it only sleeps and waits. Else returns
   * its last state; if something sleeps or waits beside what clients answer, the thread shows that as the call's.
   */
  async leave(state: StateEvent, saver: JobSaver, at: GraphConfig): Promise<StateEvent | null> {
    const tuple = await saver.getTuple(at);
    const asked = askedIn(tuple?.pendingWrites ?? []).filter((interrupt) => stepOf(interrupt) !== null);
    if (!tuple || asked.length === 0) return state;
    if (this.#job.stateless && this.#job.durability === "exit") {
      throw new Error('a stateless run sleeps and waits only with durability "async" or "sync"');
    }
    const journal = await this.#opened();
    await journal.listen(() => {});
    const open = await this.#entriesOf(journal, asked);
    const shown = state.tasks.flatMap(({ interrupts }) => interrupts);
    if (shown.length > 0) await saver.putWrites(tuple.config, [[CALL, journal.call_id]], NULL_TASK);
    const waiting = open.map(toWaitingFor);
    let count: number;
    do {
      // An event that comes meanwhile may be for one of them.
      count = journal.events().length;
      this.#settle(journal);
      const nearest = this.#nearestEnd(journal, open);
      if (shown.length > 0) await journal.pause(nearest);
      else await journal.suspend(nearest, waiting);
    } while (journal.events().length !== count);
    return shown.length > 0 ? { ...state, tasks: ofCall(state, journal.call_id, shown) } : null;
  }

  /** The entries of these sleeps and waits. Notes those that appear for the first time. */
  async #entriesOf(journal: OpenJournal, asked: readonly AskedInterrupt[]): Promise<JournalEntry[]> {
    const stored = await this.#job.checkpoints.get({ ns: "" });
    const counts = stored ? answerCounts(stored) : new Map<string, number>();
    return asked.map((interrupt) => {
      const step = stepOf(interrupt) as AskedStep;
      const key = keyOf(interrupt, step, counts);
      return findBegun(journal, key) ?? this.#begin(journal, step, key);
    });
  }

  /** When the first of these entries has its answer: now, if one has it already. Null: none ends by time. */
  #nearestEnd(journal: OpenJournal, open: readonly JournalEntry[]): number | null {
    const due = open.map((begun) => (outcomeOf(journal, begun) ? this.#environment.now() : (begun.until ?? null)));
    const times = due.filter((time) => time !== null);
    return times.length > 0 ? Math.min(...times) : null;
  }
}

function toWaitingFor({ kind, name, until = null }: JournalEntry): WaitingFor {
  return {
    kind: kind as WaitingFor["kind"],
    name: labelOf(name),
    until: until === null ? null : new Date(until).toISOString(),
  };
}

/**
 * What names a sleep or a wait in the journal. Before LangGraph 1.5.0 all interrupts of a task have the same id, so the number of answers
 * that the task had consumed belongs to it.
 */
function keyOf({ id = "" }: AskedInterrupt, { key }: AskedStep, counts: ReadonlyMap<string, number>): string {
  const count = counts.get(id) ?? 0;
  return key ?? (count > 0 ? `${id} ${count}` : id);
}

const findBegun = (journal: OpenJournal, key: string): JournalEntry | undefined =>
  journal.entries.find(({ phase, value }) => phase === "begun" && value === key);

/** What settled a sleep or a wait. */
function outcomeOf({ entries }: OpenJournal, { kind, name, occurrence }: JournalEntry): JournalEntry | undefined {
  return entries.find(
    (entry) =>
      (entry.phase === "done" || entry.phase === "timeout") &&
      entry.kind === kind &&
      entry.name === name &&
      entry.occurrence === occurrence,
  );
}

/** The command of a client with its answer by interrupt id: LangGraph would not know which interrupt it is for. */
function byId(command: Command | null, asked: readonly AskedInterrupt[]): Command | null {
  const given = command?.resume;
  const ids = asked.filter((one) => !stepOf(one)).flatMap(({ id }) => id ?? []);
  if (given === undefined || ids.length !== 1 || answersById(given, new Set(ids))) return command;
  return { ...command, resume: { [ids[0] as string]: given } };
}

/** The interrupts of the state, under the id of the call: while the thread shows it, the call is open. */
function ofCall({ tasks }: StateEvent, call_id: string, shown: readonly Interrupt[]): StateEvent["tasks"] {
  const first = tasks.find(({ interrupts }) => interrupts.length > 0) as StateEvent["tasks"][number];
  return tasks.map((task) =>
    task === first ? { ...task, id: call_id, interrupts: shown } : { ...task, interrupts: [] },
  );
}
