/** What the journal of a call has: the uses of verbs that are stored, and how far the function had come. */
import type { Environment } from "../environment.ts";
import type { CallPosition, JournalEntry, OpenJournal, StepKind } from "../executor/journal.ts";
import { labelOf } from "../executor/step-names.ts";
import type { FunctionInvocation } from "./call.ts";
import type { FunctionEventQueue } from "./drive.ts";
import { ReplayMismatch, StepError } from "./verbs.ts";

/** What the journal has of one use of a verb. */
export interface RecordedOperation {
  result?: { readonly idx: number; readonly entry: JournalEntry };
  startEntry?: JournalEntry;
  readonly failedEntries: JournalEntry[];
}

/** A use of a verb. */
export interface OperationUse {
  readonly kind: JournalEntry["kind"];
  readonly name: string;
  readonly occurrence: number;
  readonly call: number;
  readonly recorded: RecordedOperation;
}

interface ReplayOptions {
  readonly call: FunctionInvocation;
  readonly journal: OpenJournal;
  readonly strict: boolean;
  /** How many values the function had yielded at the newest state. */
  readonly yielded: number;
  /** The call begins here. */
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
  /** Stored entries that verbs wait for: each tick of the event loop gives the oldest. */
  readonly #pendingResults = new Map<number, () => void>();
  #isDelivering = false;
  /** The newest entry that was given, and the newest stored one. */
  #deliveredIndex = -1;
  #lastResultIndex = -1;
  /** The newest stored position: values up to it are not shown again. */
  readonly #newestPosition: CallPosition;
  /** Entries that no verb has asked for yet. */
  #unusedCount = 0;
  #isReordered = false;
  #inFlightCount = 0;
  /** Two verbs were in use at once. */
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
    let newestPosition: CallPosition = { yielded: options.isNew ? 0 : options.yielded, reply: null };
    for (const { position } of entries) if (position.yielded >= newestPosition.yielded) newestPosition = position;
    const { shown: emittedPosition } = options.journal;
    this.#newestPosition =
      emittedPosition && emittedPosition.yielded >= newestPosition.yielded ? emittedPosition : newestPosition;
  }

  getRecorded(kind: string, name: string, occurrence: number): RecordedOperation {
    return this.#recorded.get(formatOperationKey(kind, name, occurrence)) ?? { failedEntries: [] };
  }

  /** A yielded value was stored already: it is neither shown nor stored again. */
  skipStoredValue(): boolean {
    const { call } = this.#options;
    if (call.yieldedCount >= this.#newestPosition.yielded) return false;
    call.yieldedCount++;
    if (call.yieldedCount === this.#newestPosition.yielded) this.#restoreReply();
    return true;
  }

  /** For a new entry. What one chain stores while another one is behind must not forget what was shown. */
  createPosition(): CallPosition {
    const { yieldedCount: yielded, reply } = this.#options.call;
    return yielded < this.#newestPosition.yielded ? this.#newestPosition : { yielded, reply: reply && { ...reply } };
  }

  /** What the function emits was shown already. */
  isReplaying(): boolean {
    return (
      this.#deliveredIndex < this.#lastResultIndex || this.#options.call.yieldedCount < this.#newestPosition.yielded
    );
  }

  /** Numbers the use of a verb. Errors: ReplayMismatch. */
  registerUse(kind: StepKind, name: string): OperationUse {
    const useKey = formatOperationKey(kind, name, 0);
    const occurrence = (this.#useCounts.get(useKey) ?? 0) + 1;
    this.#useCounts.set(useKey, occurrence);
    const recorded = this.getRecorded(kind, name, occurrence);
    const operation = { kind, name, occurrence, call: ++this.#callCount, recorded };
    if (++this.#inFlightCount > 1) this.#hasConcurrency = true;
    if (this.#options.strict) this.#requireSameOrder(operation);
    const { result, startEntry, failedEntries } = recorded;
    // The code has changed: entries that are left will not be asked for.
    if (!result && !startEntry && failedEntries.length === 0 && this.#pendingResults.size === 0)
      this.#deliveredIndex = this.#lastResultIndex;
    return operation;
  }

  /** Gives a stored result in its turn, so that concurrent code takes the same way. */
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
        reject(new StepError(labelOf(operation.name), cause.message, cause));
      } else if (entry.phase === "timeout") resolve(null as never);
      else resolve((entry.value === undefined ? undefined : structuredClone(entry.value)) as never);
    });
    this.#scheduleDelivery();
  }

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

  /** A verb has its result. */
  completeOperation(): void {
    this.#inFlightCount--;
  }

  #advanceTo(idx: number, { position }: JournalEntry): void {
    this.completeOperation();
    if (idx <= this.#deliveredIndex) return;
    this.#deliveredIndex = idx;
    const { call } = this.#options;
    // Changed code may yield more or less before this entry. Beside other chains the number says nothing.
    if (
      this.#hasConcurrency ||
      call.yieldedCount === position.yielded ||
      call.yieldedCount >= this.#newestPosition.yielded
    )
      return;
    call.yieldedCount = position.yielded;
    if (call.yieldedCount === this.#newestPosition.yielded) this.#restoreReply();
  }

  /** The reply goes on where the newest entry has it. */
  #restoreReply(): void {
    const { reply } = this.#newestPosition;
    if (!reply) return;
    const { journal, call, environment, eventQueue } = this.#options;
    call.reply = { ...reply };
    if (journal.isStored || journal.entries.at(-1)?.kind === "pause") return;
    // Who reads may have seen more of it: it begins again, under another id.
    const id = environment.uuid();
    call.reply = { ...reply, id };
    eventQueue.push({
      kind: "effect",
      *run() {
        yield* call.streamStepToken(id, reply.text);
      },
    });
  }

  #requireSameOrder({ kind, name, occurrence, call, recorded }: OperationUse): void {
    const recordedEntry = this.#entryByNumber.get(call);
    const ownEntry = recorded.result?.entry ?? recorded.startEntry ?? recorded.failedEntries[0];
    const isSame =
      !recordedEntry ||
      (recordedEntry.kind === kind && recordedEntry.name === name && recordedEntry.occurrence === occurrence);
    if (!this.#mismatchError && isSame && (!ownEntry || ownEntry.call === call)) return;
    const stored = recordedEntry
      ? `${recordedEntry.kind} ${labelOf(recordedEntry.name)}`
      : `it as call ${ownEntry?.call}`;
    this.#mismatchError ??= new ReplayMismatch(`call ${call} is ${kind} ${labelOf(name)}; the journal has ${stored}`);
    throw this.#mismatchError;
  }

  /** Errors: ReplayMismatch, which the function may have caught. */
  throwIfMismatched(): void {
    if (this.#mismatchError) throw this.#mismatchError;
  }

  /** How many entries are left over at the end; null if nothing was removed or reordered. */
  findDivergence(): { readonly unused_entries: number } | null {
    return this.#unusedCount > 0 || this.#isReordered ? { unused_entries: this.#unusedCount } : null;
  }
}
