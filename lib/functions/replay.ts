/** Replays the journal of a durable call: which operations have results, and how far the function had come. */
import type { Environment } from "../environment.ts";
import type { ActiveJournal, JournalEntry, OutputPosition, StepKind } from "../executor/journal.ts";
import { formatStepName } from "../executor/step-names.ts";
import type { FunctionEventQueue } from "./driver.ts";
import type { FunctionInvocation } from "./invocation.ts";
import { ReplayMismatch, StepError } from "./operations.ts";

/** The journal entries of one use of a durable operation. */
export interface RecordedOperation {
  result?: { readonly idx: number; readonly entry: JournalEntry };
  startEntry?: JournalEntry;
  readonly failedEntries: JournalEntry[];
}

/** A use of a durable operation. */
export interface OperationUse {
  readonly kind: JournalEntry["kind"];
  readonly name: string;
  readonly occurrence: number;
  readonly call: number;
  readonly recorded: RecordedOperation;
}

interface ReplayOptions {
  readonly call: FunctionInvocation;
  readonly journal: ActiveJournal;
  readonly strict: boolean;
  /** The number of values that the function had yielded at the newest state. */
  readonly yielded: number;
  /** True if this attempt starts the call. */
  readonly isNew: boolean;
  readonly eventQueue: FunctionEventQueue;
  readonly environment: Pick<Environment, "defer" | "uuid">;
}

const formatOperationKey = (kind: string, name: string, occurrence: number): string => `${kind} ${occurrence} ${name}`;

export class Replay {
  readonly #options: ReplayOptions;
  readonly #recorded = new Map<string, RecordedOperation>();
  readonly #entryByNumber = new Map<number, JournalEntry>();
  readonly #useCounts = new Map<string, number>();
  #callCount = 0;
  /** Stored results that operations wait for. Each tick of the event loop delivers the oldest. */
  readonly #pendingResults = new Map<number, () => void>();
  #isDelivering = false;
  /** The index of the newest delivered entry, and of the newest entry with a result. */
  #deliveredIndex = -1;
  #lastResultIndex = -1;
  /** The newest stored position. Values up to it are not emitted again. */
  readonly #newestPosition: OutputPosition;
  /** The number of results that no operation has used yet. */
  #unusedCount = 0;
  #isReordered = false;
  #inFlightCount = 0;
  /** True once two operations were in use at the same time. */
  #hasConcurrency = false;
  #mismatchError: ReplayMismatch | null = null;

  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one branch for each phase of an entry
  constructor(options: ReplayOptions) {
    this.#options = options;
    const { entries } = options.journal;
    for (const [idx, entry] of entries.entries()) {
      if (entry.kind === "pause") continue;
      const recorded = this.getRecorded(entry.kind, entry.name, entry.occurrence);
      this.#recorded.set(formatOperationKey(entry.kind, entry.name, entry.occurrence), recorded);
      if (entry.call > 0) this.#entryByNumber.set(entry.call, entry);
      if (entry.phase === "begun") recorded.startEntry ??= entry;
      else if (entry.phase === "failed") recorded.failedEntries.push(entry);
      else if (entry.phase !== "dropped") {
        recorded.result = { idx, entry };
        this.#lastResultIndex = idx;
        this.#unusedCount++;
      }
    }
    let newestPosition: OutputPosition = { yielded: options.isNew ? 0 : options.yielded, reply: null };
    for (const { position } of entries) if (position.yielded >= newestPosition.yielded) newestPosition = position;
    const { emittedPosition } = options.journal;
    this.#newestPosition =
      emittedPosition && emittedPosition.yielded >= newestPosition.yielded ? emittedPosition : newestPosition;
  }

  getRecorded(kind: string, name: string, occurrence: number): RecordedOperation {
    return this.#recorded.get(formatOperationKey(kind, name, occurrence)) ?? { failedEntries: [] };
  }

  /**
   * Returns true if an earlier attempt has stored the value that the function yields now, and counts the value; it must be
   * neither emitted nor stored again. At the last such value, restores the reply that was open then.
   */
  skipStoredValue(): boolean {
    const { call } = this.#options;
    if (call.yieldedCount >= this.#newestPosition.yielded) return false;
    call.yieldedCount++;
    if (call.yieldedCount === this.#newestPosition.yielded) this.#restoreReply();
    return true;
  }

  /**
   * Returns the position for a new entry: the yielded values and a copy of the reply. While the function is behind the newest
   * stored position, returns that one.
   */
  createPosition(): OutputPosition {
    const { yieldedCount: yielded, reply } = this.#options.call;
    return yielded < this.#newestPosition.yielded ? this.#newestPosition : { yielded, reply: reply && { ...reply } };
  }

  /**
   * Returns true while the function repeats what an earlier attempt did: a recorded result is still to be delivered, or a stored
   * value still to be reached. Custom events are not emitted again meanwhile.
   */
  isReplaying(): boolean {
    return (
      this.#deliveredIndex < this.#lastResultIndex || this.#options.call.yieldedCount < this.#newestPosition.yielded
    );
  }

  /**
   * Numbers the use of an operation and returns it with its recorded entries. A use without entries ends the replay, unless
   * stored results are still to be delivered. Throws a ReplayMismatch in strict mode if the order differs.
   */
  registerUse(kind: StepKind, name: string): OperationUse {
    const useKey = formatOperationKey(kind, name, 0);
    const occurrence = (this.#useCounts.get(useKey) ?? 0) + 1;
    this.#useCounts.set(useKey, occurrence);
    const recorded = this.getRecorded(kind, name, occurrence);
    const operation = { kind, name, occurrence, call: ++this.#callCount, recorded };
    if (++this.#inFlightCount > 1) this.#hasConcurrency = true;
    if (this.#options.strict) this.#requireSameOrder(operation);
    const { result, startEntry, failedEntries } = recorded;
    // The code has changed: the remaining entries will not be used.
    if (!result && !startEntry && failedEntries.length === 0 && this.#pendingResults.size === 0)
      this.#deliveredIndex = this.#lastResultIndex;
    return operation;
  }

  /**
   * Calls `resolve` or `reject` with a stored result in a later tick, after all earlier ones, so that concurrent code continues
   * in the stored order: with a copy of the value, null for a timeout, or a StepError. Counts the result as used.
   */
  deliverResult(
    { idx, entry }: NonNullable<RecordedOperation["result"]>,
    operation: OperationUse,
    resolve: (value: never) => void,
    reject: (reason: unknown) => void,
  ): void {
    this.#unusedCount--;
    if (entry.call !== operation.call) this.#isReordered = true;
    this.#pendingResults.set(idx, () => {
      this.#advanceTo(idx, entry);
      if (entry.phase === "error") {
        const cause = Object.assign(new Error(entry.error?.message), { name: entry.error?.name ?? "Error" });
        reject(new StepError(formatStepName(operation.name), cause.message, cause));
      } else if (entry.phase === "timeout") resolve(null as never);
      else resolve((entry.value === undefined ? undefined : structuredClone(entry.value)) as never);
    });
    this.#scheduleDelivery();
  }

  /** Delivers the pending results in the order of the journal, one in each tick. Does nothing while a delivery is scheduled. */
  #scheduleDelivery(): void {
    if (this.#isDelivering || this.#pendingResults.size === 0) return;
    this.#isDelivering = true;
    this.#options.environment.defer(() => {
      this.#isDelivering = false;
      const index = Math.min(...this.#pendingResults.keys());
      const deliver = this.#pendingResults.get(index);
      this.#pendingResults.delete(index);
      deliver?.();
      this.#scheduleDelivery();
    });
  }

  completeOperation(): void {
    this.#inFlightCount--;
  }

  /**
   * Ends the use of an operation and notes that the journal is replayed up to this entry. The count of yielded values follows the
   * entry, unless operations are concurrent.
   */
  #advanceTo(idx: number, { position }: JournalEntry): void {
    this.completeOperation();
    if (idx <= this.#deliveredIndex) return;
    this.#deliveredIndex = idx;
    const { call } = this.#options;
    // Changed code may yield more or less before this entry. With concurrent operations the number has no meaning.
    if (
      this.#hasConcurrency ||
      call.yieldedCount === position.yielded ||
      call.yieldedCount >= this.#newestPosition.yielded
    )
      return;
    call.yieldedCount = position.yielded;
    if (call.yieldedCount === this.#newestPosition.yielded) this.#restoreReply();
  }

  /**
   * Continues the reply of the newest position, if it has one. If subscribers may have received more of it, gives it a new id and
   * queues an effect that emits it again.
   */
  #restoreReply(): void {
    const { reply } = this.#newestPosition;
    if (!reply) return;
    const { journal, call, environment, eventQueue } = this.#options;
    call.reply = { ...reply };
    if (journal.isOutputStored || journal.entries.at(-1)?.kind === "pause") return;
    // Subscribers may have received more of the reply, so it starts again under another id.
    const id = environment.uuid();
    call.reply = { ...reply, id };
    eventQueue.push({
      kind: "effect",
      *run() {
        yield* call.streamStepToken(id, reply.text);
      },
    });
  }

  /**
   * Throws a ReplayMismatch if the journal has another operation at this number, or this operation at another number. After the
   * first mismatch, throws its error at each use.
   */
  #requireSameOrder({ kind, name, occurrence, call, recorded }: OperationUse): void {
    const recordedEntry = this.#entryByNumber.get(call);
    const ownEntry = recorded.result?.entry ?? recorded.startEntry ?? recorded.failedEntries[0];
    const isSame =
      !recordedEntry ||
      (recordedEntry.kind === kind && recordedEntry.name === name && recordedEntry.occurrence === occurrence);
    if (!this.#mismatchError && isSame && (!ownEntry || ownEntry.call === call)) return;
    const stored = recordedEntry
      ? `${recordedEntry.kind} ${formatStepName(recordedEntry.name)}`
      : `it as call ${ownEntry?.call}`;
    this.#mismatchError ??= new ReplayMismatch(
      `call ${call} is ${kind} ${formatStepName(name)}; the journal has ${stored}`,
    );
    throw this.#mismatchError;
  }

  /** Throws the ReplayMismatch of this attempt, which the function may have caught. */
  throwIfMismatched(): void {
    if (this.#mismatchError) throw this.#mismatchError;
  }

  /** Returns the number of unused results at the end; null if no operation was removed or reordered. */
  findDivergence(): { readonly unused_entries: number } | null {
    return this.#unusedCount > 0 || this.#isReordered ? { unused_entries: this.#unusedCount } : null;
  }
}
