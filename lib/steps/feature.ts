/**
 * The feature of durable functions: journals of attempts, and durable calls that continue without a client. Most of
 * its code is loaded on first use.
 */
import { createLazyModule } from "../environment.ts";
import type { AttemptJournal, FeatureContext, FeatureOf, JournalAttempt } from "../features/mod.ts";
import type { DurableCallProgress, NewRun, Suspension } from "../storage/mod.ts";
import type { JournalContext, UnsavedJournal } from "./journal.ts";
import type { DurableCallOptions } from "./resume-due-calls.ts";

interface StepsContext extends FeatureContext {
  readonly settings: {
    readonly steps: { readonly entries: number; readonly result_bytes: number; readonly journal_bytes: number };
    readonly limits: { readonly suspended: number };
    readonly worker: { readonly linger_ms: number };
  };
}

/** The interval between searches for due calls. Needed because signals can be lost and processes can die. */
const DUE_CALLS_INTERVAL_MS = 1_000;

/**
 * Creates the feature of durable functions: their resources, a job that continues due calls, and the journals of attempts. Its
 * code is imported when a call is due, an event arrives or a journal is opened.
 */
export function stepsFeature(context: StepsContext): FeatureOf<"steps"> {
  const { settings, storage, scope, environment } = context;
  const limits = { ...settings.steps, ...settings.limits, ...settings.worker };
  let runs: ReturnType<DurableCallOptions["runs"]>;
  const load = async () => (await import("./mod.ts")).createDurableCalls({ ...context, runs: () => runs });
  const calls = createLazyModule<Awaited<ReturnType<typeof load>>>(
    { send: true, sendToRun: true, steps: true, deliver: true, resumeDueCalls: true },
    load,
  );
  return {
    resources: { calls },
    connect(parts) {
      ({ runs } = parts as { readonly runs: typeof runs });
    },
    job: {
      interval_ms: DUE_CALLS_INTERVAL_MS,
      failure: "continuing calls failed",
      // The code is loaded when a call is due.
      step: async () =>
        (await storage.listDueCalls(scope, environment.now(), 1)).length > 0 ? await calls.resumeDueCalls() : 0,
    },
    prepare: (_request, { call_id }: { readonly call_id?: string }): Pick<NewRun, "call_id"> =>
      call_id === undefined ? {} : { call_id },
    journal: (attempt) => createAttemptJournal({ ...context, limits }, attempt),
  };
}

const createUnsavedJournal = (): UnsavedJournal => ({ entries: [], tokens: [] });

/**
 * Creates the journal of one attempt. It reads nothing until a durable function opens it, and collects changes until a save takes
 * them with `drain`.
 */
function createAttemptJournal(context: JournalContext, attempt: JournalAttempt): AttemptJournal {
  let call_id = attempt.claimed.run.call_id ?? null;
  let isOpen = false;
  let isPaused = false;
  let unsaved = createUnsavedJournal();
  let suspension: Suspension | null = null;
  let countEntries = (): number => 0;
  const closeListeners: (() => void)[] = [];
  let isClosed = false;
  return {
    get call_id() {
      return call_id;
    },
    get isOpen() {
      return isOpen;
    },
    get suspension() {
      return suspension;
    },
    /** Opens the journal and returns it; null if the call to continue no longer exists or another run has continued it. */
    async open(call, origin) {
      const { openJournal } = await import("./journal.ts");
      const journal = await openJournal({
        ...{ ...context, attempt, call, origin },
        assignedCallId: call_id,
        unsaved: () => unsaved,
        suspend(due_at, waiting_for, lastEventSeq) {
          suspension = { due_at, waiting_for, last_event_seq: lastEventSeq };
        },
        /** Notes that the call stays open after this run and is due at `due_at`. The end of the run stores it. */
        pause(due_at, lastEventSeq) {
          isPaused = true;
          unsaved.release = { due_at, last_event_seq: lastEventSeq, ended: false };
        },
        onClose: (close) => void (isClosed ? close() : closeListeners.push(close)),
      });
      if (!journal) return null;
      ({ call_id } = journal);
      isOpen = true;
      countEntries = () => journal.entries.length;
      return journal;
    },
    abortSuspended: attempt.abortSuspended,
    hasUnsaved: () => unsaved.entries.length + unsaved.tokens.length > 0,
    onEmitted(event) {
      if (event.type === "stream" && event.position) unsaved.position = event.position;
    },
    /** Removes and returns what a save stores of the call; an empty object without a call or changes. */
    drain() {
      const { start, release, entries, tokens, position } = unsaved;
      if (call_id === null || !(start || release || position || entries.length + tokens.length > 0)) return {};
      const { position: emittedPosition, ...progress } = unsaved;
      const call: DurableCallProgress = {
        call_id,
        ...progress,
        ...(emittedPosition ? { position: JSON.stringify({ ...emittedPosition, at: countEntries() }) } : {}),
      };
      unsaved = createUnsavedJournal();
      return { call };
    },
    close() {
      isClosed = true;
      for (const close of closeListeners) close();
    },
    end() {
      if (call_id !== null && !isPaused && !suspension)
        unsaved.release = { due_at: null, last_event_seq: 0, ended: true };
    },
  };
}
