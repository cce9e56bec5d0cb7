/** What calls need while no attempt works on them: events for them, and runs that continue them when they are due. */
import { notFound, ServiceError } from "../errors.ts";
import type { JournalEntry } from "../executor/journal.ts";
import { misfit } from "../executor/schema-check.ts";
import { labelOf, nameOf, type StepName } from "../executor/step-names.ts";
import { type Json, sameJson } from "../json.ts";
import { isoTime } from "../rfc3339.ts";
import type { CallRow, RunRow, Scope } from "../storage/mod.ts";
import { BEYOND, isFiniteJson } from "../validation.ts";
import { type CallDirectory, MOST_EVENT_BYTES, type RunSteps, type StepRecord } from "./calls.ts";
import { type CallOptions, createDueCalls } from "./due.ts";
import { isWaiting, readTexts } from "./journal.ts";
import { hashOf } from "./tokens.ts";

/** A longer result is left out of lists, in characters. */
const MOST_RESULT = 64 * 1024;

const gone = (): ServiceError => new ServiceError("call_ended", "The call has ended: it takes no event");

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createCalls(options: CallOptions): CallDirectory & { continueDue(): Promise<number> } {
  const { storage, scope, environment } = options;
  const { continueDue } = createDueCalls(options);

  const textsOf = (scope: Scope, { thread_id, call_id }: CallRow): Promise<string[]> =>
    readTexts((idx) => storage.readEntries(scope, thread_id, call_id, idx));

  /** A call is open while a run of it is active, or its thread shows what it waits for. */
  async function isOpen({ thread_id, run_id, ...call }: CallRow): Promise<boolean> {
    if (call.ended_at !== null) return false;
    const [run, thread] = await Promise.all([storage.getRun(scope, run_id), storage.getThread(scope, thread_id)]);
    return run?.ended_at === null || (thread !== null && isWaiting(thread.interrupts, call));
  }

  /** Errors: invalid, gone. */
  async function check(call: CallRow, name: string, occurrence: number | null, payload: Json): Promise<void> {
    if (!(await isOpen(call))) throw gone();
    // A journal may be long: only entries that may be of a wait are parsed.
    const maybe = (await textsOf(scope, call)).filter((text) => text.includes('"wait"'));
    const waits = maybe.map(parsed).filter((entry) => entry.kind === "wait" && entry.name === name);
    const over = new Set(waits.filter(({ phase }) => phase === "done" || phase === "timeout").map(occurrenceOf));
    if (occurrence !== null && over.has(occurrence)) throw gone();
    const open = waits.find(
      (entry) =>
        entry.phase === "begun" && !over.has(entry.occurrence) && entry.occurrence === (occurrence ?? entry.occurrence),
    );
    const problem = open?.schema ? misfit(open.schema, payload) : null;
    if (problem !== null) throw new ServiceError("event_misfit", `The event does not fit: ${problem}`);
  }

  async function add(call: CallRow, name: string, occurrence: number | null, payload: Json): Promise<boolean> {
    const stored = await storage.addCallEvent(scope, call, { name, occurrence, payload }, environment.now());
    if (stored) void continueDue().catch(() => {});
    return stored !== null;
  }

  async function sendTo(call: CallRow | null, name: StepName, payload: Json): Promise<void> {
    const stored = readName(name);
    checkPayload(payload);
    if (!call) {
      const message = `Nothing waits for ${labelOf(stored)}: the thread has no call of a durable function`;
      throw new ServiceError("event_not_awaited", message);
    }
    await check(call, stored, null, payload);
    if (!(await add(call, stored, null, payload))) throw gone();
  }

  async function runOf(scope: Scope, thread_id: string, run_id: string): Promise<RunRow> {
    const run = await storage.getRun(scope, run_id.toLowerCase());
    if (!run || run.thread_id !== thread_id.toLowerCase()) throw notFound("run", run_id);
    return run;
  }

  const callOf = async (scope: Scope, { thread_id, call_id }: RunRow): Promise<CallRow | null> =>
    call_id === undefined ? null : await storage.getCall(scope, thread_id, call_id);

  return {
    continueDue,
    async send(scope, thread_id, name, payload) {
      const id = thread_id.toLowerCase();
      const thread = await storage.getThread(scope, id);
      if (!thread || thread.stateless) throw notFound("thread", thread_id);
      await sendTo(await storage.newestCall(scope, id), name, payload);
    },
    // biome-ignore lint/complexity/useMaxParams: the public operation has these parameters, behind the scope of its caller
    async sendToRun(scope, thread_id, run_id, name, payload) {
      await sendTo(await callOf(scope, await runOf(scope, thread_id, run_id)), name, payload);
    },
    async deliver(token, payload) {
      const found = await storage.findToken(scope, await hashOf(token));
      // Guesses need no limit: a token has 256 bits, and a limit would lock out the sender of a valid one.
      if (!found) throw new ServiceError("event_not_awaited", "This address is not known");
      checkPayload(payload);
      const { call, name, occurrence } = found;
      let { answer } = found;
      if (answer === undefined) {
        await check(call, name, occurrence, payload);
        if (await add(call, name, occurrence, payload)) return;
        answer = (await storage.findToken(scope, await hashOf(token)))?.answer;
        if (answer === undefined) throw gone();
      }
      if (sameJson(answer, payload)) return;
      throw new ServiceError("event_answered", "Another event has come to this address");
    },
    async steps(scope, thread_id, run_id) {
      const call = await callOf(scope, await runOf(scope, thread_id, run_id));
      if (!call) return { call_id: null, steps: [], events: [] };
      const entries = (await textsOf(scope, call)).map(parsed);
      const used = new Set(entries.flatMap(({ event, phase }) => (phase === "done" ? (event ?? []) : [])));
      const events = await storage.readCallEvents(scope, call.thread_id, call.call_id, 0);
      return {
        call_id: call.call_id,
        steps: recordsOf(entries),
        events: events.map(({ seq, name, payload }) => ({ name, payload, used: used.has(seq) })),
      };
    },
  };
}

const parsed = (text: string): JournalEntry => JSON.parse(text) as JournalEntry;
const occurrenceOf = ({ occurrence }: JournalEntry): number => occurrence;

/** Errors: invalid. */
function readName(name: StepName): string {
  try {
    return nameOf(name);
  } catch (error) {
    throw new ServiceError("invalid", (error as Error).message);
  }
}

/** Errors: invalid, too_large. */
function checkPayload(payload: Json): void {
  if (payload === null || payload === undefined) throw new ServiceError("invalid", "An event must not be null");
  if (!isFiniteJson(payload)) throw new ServiceError("invalid", `An event ${BEYOND}`);
  if (new TextEncoder().encode(JSON.stringify(payload)).length > MOST_EVENT_BYTES) {
    throw new ServiceError("too_large", `An event has at most ${MOST_EVENT_BYTES} bytes`);
  }
}

/** One record for each use of a verb, in the order of the first entries. */
function recordsOf(entries: readonly JournalEntry[]): RunSteps["steps"] {
  const records = new Map<string, StepRecord>();
  for (const entry of entries) {
    if (entry.kind === "pause") continue;
    const key = JSON.stringify([entry.kind, entry.name, entry.occurrence]);
    records.set(key, recordOf(entry.kind, entry, records.get(key)));
  }
  return [...records.values()];
}

const STATUS = {
  begun: "waiting",
  dropped: "waiting",
  failed: "retrying",
  done: "done",
  error: "failed",
  timeout: "timed_out",
} as const;

function recordOf(kind: StepRecord["kind"], entry: JournalEntry, before: StepRecord | undefined): StepRecord {
  const { name, occurrence, phase, attempt, until, value, error, began, at, run_id } = entry;
  const ended = STATUS[phase] !== "waiting" && STATUS[phase] !== "retrying";
  const result = phase === "done" ? (value ?? null) : null;
  const omitted = JSON.stringify(result).length > MOST_RESULT;
  return {
    kind,
    name,
    occurrence,
    status: STATUS[phase],
    attempts: attempt ?? before?.attempts ?? (ended ? 1 : 0),
    started_at: before?.started_at ?? isoTime(began ?? at),
    ended_at: ended ? isoTime(at) : null,
    until: isoTime(until ?? null) ?? before?.until ?? null,
    result: omitted ? null : result,
    result_omitted: omitted,
    error: error ? { error: error.name, message: error.message } : null,
    run_id,
  };
}
