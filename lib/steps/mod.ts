/** Durable calls while no attempt works on them: delivers events, lists operations and continues due calls. */
import { notFoundError, ServiceError } from "../errors.ts";
import type { JournalEntry } from "../executor/journal.ts";
import { findSchemaMismatch } from "../executor/schema-check.ts";
import { encodeStepName, formatStepName, type StepName } from "../executor/step-names.ts";
import { type Json, sameJson } from "../json.ts";
import { formatIsoTime } from "../rfc3339.ts";
import type { DurableCallRow, RunRow, Scope } from "../storage/mod.ts";
import { isFiniteJson, NUMBER_OUT_OF_RANGE } from "../validation.ts";
import { type InternalDurableCalls, MAX_EVENT_BYTES, type RunSteps, type StepRecord } from "./calls.ts";
import { isThreadWaiting, readEntryTexts } from "./journal.ts";
import { createDueCallResumer, type DurableCallOptions } from "./resume-due-calls.ts";
import { hashToken } from "./tokens.ts";

/** The maximum length of a result in lists, in characters. Longer ones are omitted. */
const MAX_RESULT_CHARS = 64 * 1024;

const callEndedError = (): ServiceError => new ServiceError("call_ended", "The call has ended: it takes no event");

/** Creates the operations on durable calls: events for them, their steps, and the job that continues due ones. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createDurableCalls(
  options: DurableCallOptions,
): InternalDurableCalls & { resumeDueCalls(): Promise<number> } {
  const { storage, scope: deploymentScope, environment } = options;
  const { resumeDueCalls } = createDueCallResumer(options);

  const readJournalTexts = (scope: Scope, { thread_id, call_id }: DurableCallRow): Promise<string[]> =>
    readEntryTexts((idx) => storage.readJournalEntries(scope, thread_id, call_id, idx));

  /**
   * Returns false for a call that has ended. Otherwise reads its run and its thread, and returns true while that run has not
   * ended or the thread shows the interrupt of the call.
   */
  async function isActive({ thread_id, run_id, ...call }: DurableCallRow): Promise<boolean> {
    if (call.ended_at !== null) return false;
    const [run, thread] = await Promise.all([
      storage.getRun(deploymentScope, run_id),
      storage.getThread(deploymentScope, thread_id),
    ]);
    return run?.ended_at === null || (thread !== null && isThreadWaiting(thread.interrupts, call));
  }

  /**
   * Throws `gone` if the call or the wait has ended, and `event_misfit` if the payload does not fit the schema of the wait. An
   * event that the function does not wait for yet passes.
   */
  async function requireOpenWait(
    call: DurableCallRow,
    name: string,
    occurrence: number | null,
    payload: Json,
  ): Promise<void> {
    if (!(await isActive(call))) throw callEndedError();
    // Journals can be long, so only entries that may belong to a wait are parsed.
    const candidateTexts = (await readJournalTexts(deploymentScope, call)).filter((text) => text.includes('"wait"'));
    const waitEntries = candidateTexts.map(parseEntry).filter((entry) => entry.kind === "wait" && entry.name === name);
    const settledOccurrences = new Set(
      waitEntries.filter(({ phase }) => phase === "done" || phase === "timeout").map(getOccurrence),
    );
    if (occurrence !== null && settledOccurrences.has(occurrence)) throw callEndedError();
    const openWait = waitEntries.find(
      (entry) =>
        entry.phase === "begun" &&
        !settledOccurrences.has(entry.occurrence) &&
        entry.occurrence === (occurrence ?? entry.occurrence),
    );
    const problem = openWait?.schema ? findSchemaMismatch(openWait.schema, payload) : null;
    if (problem !== null) throw new ServiceError("event_misfit", `The event does not fit: ${problem}`);
  }

  /**
   * Stores an event, and starts to continue due calls in the background. Resolves to false if the storage refuses the event,
   * because the call has ended or the wait has one.
   */
  async function storeEvent(
    call: DurableCallRow,
    name: string,
    occurrence: number | null,
    payload: Json,
  ): Promise<boolean> {
    const event = await storage.addCallEvent(deploymentScope, call, { name, occurrence, payload }, environment.now());
    if (event) void resumeDueCalls().catch(() => {});
    return event !== null;
  }

  /**
   * Stores an event for a call. Throws `event_not_awaited` without a call, `gone` if it has ended, `event_misfit`, `invalid` or
   * `too_large`.
   */
  async function sendEvent(call: DurableCallRow | null, name: StepName, payload: Json): Promise<void> {
    const storedName = parseStepName(name);
    validatePayload(payload);
    if (!call) {
      const message = `Nothing waits for ${formatStepName(storedName)}: the thread has no call of a durable function`;
      throw new ServiceError("event_not_awaited", message);
    }
    await requireOpenWait(call, storedName, null, payload);
    if (!(await storeEvent(call, storedName, null, payload))) throw callEndedError();
  }

  /** Returns the run. Throws `not_found` if it does not exist or belongs to another thread. */
  async function requireRun(scope: Scope, thread_id: string, run_id: string): Promise<RunRow> {
    const run = await storage.getRun(scope, run_id.toLowerCase());
    if (!run || run.thread_id !== thread_id.toLowerCase()) throw notFoundError("run", run_id);
    return run;
  }

  const findCall = async (scope: Scope, { thread_id, call_id }: RunRow): Promise<DurableCallRow | null> =>
    call_id === undefined ? null : await storage.getCall(scope, thread_id, call_id);

  return {
    resumeDueCalls,
    /**
     * Sends an event to the newest call of a thread. Throws `not_found` for an unknown or stateless thread, and what `sendEvent`
     * throws.
     */
    async send(scope, thread_id, name, payload) {
      const id = thread_id.toLowerCase();
      const thread = await storage.getThread(scope, id);
      if (!thread || thread.stateless) throw notFoundError("thread", thread_id);
      await sendEvent(await storage.getNewestCall(scope, id), name, payload);
    },
    // biome-ignore lint/complexity/useMaxParams: the public operation has these parameters, behind the scope of its caller
    async sendToRun(scope, thread_id, run_id, name, payload) {
      await sendEvent(await findCall(scope, await requireRun(scope, thread_id, run_id)), name, payload);
    },
    /**
     * Stores the event of a token. Does nothing if the same payload has come before. Throws `event_answered` for another payload,
     * `event_not_awaited` for an unknown token, and what `sendEvent` throws.
     */
    async deliver(token, payload) {
      const tokenRow = await storage.findToken(deploymentScope, await hashToken(token));
      // Guesses need no rate limit: a token has 256 bits, and a limit would lock out the sender of a valid one.
      if (!tokenRow) throw new ServiceError("event_not_awaited", "This address is not known");
      validatePayload(payload);
      const { call, name, occurrence } = tokenRow;
      let { answer } = tokenRow;
      if (answer === undefined) {
        await requireOpenWait(call, name, occurrence, payload);
        if (await storeEvent(call, name, occurrence, payload)) return;
        answer = (await storage.findToken(deploymentScope, await hashToken(token)))?.answer;
        if (answer === undefined) throw callEndedError();
      }
      if (sameJson(answer, payload)) return;
      throw new ServiceError("event_answered", "Another event has come to this address");
    },
    /**
     * Returns the steps of the run's call and all events that have come for it; empty lists without a call. Throws `not_found`
     * without the run.
     */
    async steps(scope, thread_id, run_id) {
      const call = await findCall(scope, await requireRun(scope, thread_id, run_id));
      if (!call) return { call_id: null, steps: [], events: [] };
      const entries = (await readJournalTexts(scope, call)).map(parseEntry);
      const usedSeqs = new Set(entries.flatMap(({ event, phase }) => (phase === "done" ? (event ?? []) : [])));
      const events = await storage.readCallEvents(scope, call.thread_id, call.call_id, 0);
      return {
        call_id: call.call_id,
        steps: toStepRecords(entries),
        events: events.map(({ seq, name, payload }) => ({ name, payload, used: usedSeqs.has(seq) })),
      };
    },
  };
}

const parseEntry = (text: string): JournalEntry => JSON.parse(text) as JournalEntry;
const getOccurrence = ({ occurrence }: JournalEntry): number => occurrence;

/** Returns the stored form of a name. Throws `invalid`. */
function parseStepName(name: StepName): string {
  try {
    return encodeStepName(name);
  } catch (error) {
    throw new ServiceError("invalid", (error as Error).message);
  }
}

/** Throws `invalid` for null and for numbers beyond JSON, and `too_large`. */
function validatePayload(payload: Json): void {
  if (payload === null || payload === undefined) throw new ServiceError("invalid", "An event must not be null");
  if (!isFiniteJson(payload)) throw new ServiceError("invalid", `An event ${NUMBER_OUT_OF_RANGE}`);
  if (new TextEncoder().encode(JSON.stringify(payload)).length > MAX_EVENT_BYTES) {
    throw new ServiceError("too_large", `An event has at most ${MAX_EVENT_BYTES} bytes`);
  }
}

/** Returns one record for each use of an operation, in the order of the first entries. Pauses give none. */
function toStepRecords(entries: readonly JournalEntry[]): RunSteps["steps"] {
  const records = new Map<string, StepRecord>();
  for (const entry of entries) {
    if (entry.kind === "pause") continue;
    const key = JSON.stringify([entry.kind, entry.name, entry.occurrence]);
    records.set(key, toStepRecord(entry.kind, entry, records.get(key)));
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

/**
 * Converts an entry to the record of its operation, with attempts and start of the `previous` entries. A long result is null,
 * with `result_omitted`.
 */
function toStepRecord(kind: StepRecord["kind"], entry: JournalEntry, previous: StepRecord | undefined): StepRecord {
  const { name, occurrence, phase, attempt, until, value, error, began, at, run_id } = entry;
  const isEnded = STATUS[phase] !== "waiting" && STATUS[phase] !== "retrying";
  const result = phase === "done" ? (value ?? null) : null;
  const isOmitted = JSON.stringify(result).length > MAX_RESULT_CHARS;
  return {
    kind,
    name,
    occurrence,
    status: STATUS[phase],
    attempts: attempt ?? previous?.attempts ?? (isEnded ? 1 : 0),
    started_at: previous?.started_at ?? formatIsoTime(began ?? at),
    ended_at: isEnded ? formatIsoTime(at) : null,
    until: formatIsoTime(until ?? null) ?? previous?.until ?? null,
    result: isOmitted ? null : result,
    result_omitted: isOmitted,
    error: error ? { error: error.name, message: error.message } : null,
    run_id,
  };
}
