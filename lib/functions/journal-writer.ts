/** Appends journal entries and commits them together with the output of the function. */
import type { ExecutorEvent, Interrupt } from "../executor/contract.ts";
import type { EventCoroutine } from "../executor/coroutine.ts";
import type { ActiveJournal, JournalEntry } from "../executor/journal.ts";
import { formatStepName } from "../executor/step-names.ts";
import type { JsonObject } from "../json.ts";
import type { FunctionEventQueue } from "./driver.ts";
import type { FunctionInvocation } from "./invocation.ts";
import type { PendingWaits } from "./pending-waits.ts";
import type { OperationUse, RecordedOperation, Replay } from "./replay.ts";

export interface JournalWriterOptions {
  readonly call: FunctionInvocation;
  readonly journal: ActiveJournal;
  readonly eventQueue: FunctionEventQueue;
  readonly signal: AbortSignal;
}

/** The phases of entries that do not settle their operation. */
const UNSETTLED_PHASES: ReadonlySet<JournalEntry["phase"]> = new Set(["begun", "failed", "dropped"]);

type EntryMembers = Pick<JournalEntry, "phase"> & Partial<JournalEntry>;

export class JournalWriter {
  readonly #options: JournalWriterOptions;
  readonly #replay: Replay;
  readonly #waits: PendingWaits;
  readonly #rejecters = new Set<(reason: unknown) => void>();

  constructor(options: JournalWriterOptions, replay: Replay, waits: PendingWaits) {
    this.#options = options;
    this.#replay = replay;
    this.#waits = waits;
  }

  /**
   * Calls `start` at once and returns a promise that it settles. The promise rejects with the reason if the run must stop before.
   */
  rejectOnStop<Value>(
    start: (resolve: (value: Value) => void, reject: (reason: unknown) => void) => void,
  ): Promise<Value> {
    const { promise, resolve, reject } = Promise.withResolvers<Value>();
    this.#rejecters.add(reject);
    start(resolve, reject);
    return promise.finally(() => this.#rejecters.delete(reject));
  }

  /**
   * Adds a pending wait for an operation, at which the run may be suspended. Resolves once `until`, a time in milliseconds, has
   * passed; with null it never resolves. Rejects with the reason if the run stops. `ask` is the interrupt with which the run ends
   * if the function only waits.
   */
  waitUntil(operation: OperationUse, until: number | null, ask?: Interrupt): Promise<void> {
    const askMember = ask ? { ask } : {};
    return this.rejectOnStop<void>((resolve) => this.#waits.add({ operation, until, onDue: resolve, ...askMember }));
  }

  /**
   * Resolves with a copy of the stored result of an operation, in a later tick and in the order of the journal; null for a
   * timeout. Rejects with a StepError for a stored failure, and with the reason if the run stops. Keeps the attempt from ending
   * meanwhile.
   */
  deliverResult<Value>(outcome: NonNullable<RecordedOperation["result"]>, operation: OperationUse): Promise<Value> {
    const endWork = this.#waits.beginWork();
    return this.rejectOnStop<Value>((resolve, reject) =>
      this.#replay.deliverResult(outcome, operation, resolve, reject),
    ).finally(endWork);
  }

  /**
   * Queues a coroutine that the driver runs between the values of the function. Resolves with its result. Rejects with what it
   * throws, or with the reason if the run stops. Keeps the attempt from ending until it has run.
   */
  runEffect<Value>(run: () => EventCoroutine<Value>): Promise<Value> {
    const endWork = this.#waits.beginWork();
    return this.rejectOnStop((resolve, reject) => {
      this.#options.eventQueue.push({
        kind: "effect",
        /** Runs the coroutine and settles the promise of `runEffect` with its result or its error. Does not throw. */
        *run() {
          try {
            resolve(yield* run());
          } catch (error) {
            reject(error);
          } finally {
            endWork();
          }
        },
      });
    });
  }

  /**
   * Appends an entry and commits it with all output before it. Resolves with it once that is stored. `message` is added to the
   * state first, and the end of a step is emitted in mode `tasks`. An entry that settles its operation ends the use of it.
   * Rejects if the run stops or a limit of the journal is reached.
   */
  async append(operation: OperationUse, members: EntryMembers, message?: JsonObject): Promise<JournalEntry> {
    const { call, journal, signal } = this.#options;
    const { kind, name, occurrence } = operation;
    const endWork = this.#waits.beginWork();
    const replay = this.#replay;
    try {
      const { entry, committed } = await this.runEffect(function* () {
        signal.throwIfAborted();
        // A stop after this point is too late for all of it: without its states, the entry would claim that they are
        // stored.
        if (message) yield* toAtomicEvents(call.addStepMessage(message));
        yield* toAtomicEvents(call.commitStep());
        const position = replay.createPosition();
        const entry = journal.append({ kind, name, occurrence, call: operation.call, position, ...members });
        if (kind === "step" && members.phase !== "failed") yield* createStepEndFrames(call, journal.call_id, entry);
        // The driver continues during the commit. After a stop the promise may have no reader.
        const committed = journal.commit();
        committed.catch(() => {});
        return { entry, committed };
      });
      await this.rejectOnStop<void>((resolve, reject) => void committed.then(resolve, reject));
      if (kind !== "begin" && !UNSETTLED_PHASES.has(members.phase)) replay.completeOperation();
      return entry;
    } finally {
      endWork();
    }
  }

  /** Rejects every promise that waits here, because the run must stop. */
  reject(reason: unknown): void {
    for (const reject of [...this.#rejecters]) reject(reason);
  }
}

const toAtomicEvents = (events: readonly ExecutorEvent[]): ExecutorEvent[] =>
  events.map((event) => (event.type === "state" ? { ...event, atomic: true } : event));

/** Yields the start of a step in mode `tasks`; nothing if the mode was not requested. */
export function* emitStepStart(
  call: FunctionInvocation,
  call_id: string,
  { name, occurrence }: OperationUse,
): EventCoroutine {
  const id = `${call_id}:${occurrence}:${name}`;
  yield* call.frames.createFrames("tasks", {
    id,
    name: formatStepName(name),
    input: null,
    triggers: [],
    interrupts: [],
  });
}

/**
 * Returns the frame of the end of a step in mode `tasks`, with its stored result or the message of its error; none if the mode
 * was not requested.
 */
function createStepEndFrames(
  call: FunctionInvocation,
  call_id: string,
  { name, occurrence, value, error }: JournalEntry,
): ExecutorEvent[] {
  const id = `${call_id}:${occurrence}:${name}`;
  const result: JsonObject = error ? { error: error.message, result: null } : { result: value ?? null };
  return call.frames.createFrames("tasks", { id, name: formatStepName(name), ...result, interrupts: [] });
}
