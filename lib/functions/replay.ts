/** What the journal of a call has: the uses of verbs that are stored, and how far the function had come. */
import type { Environment } from "../environment.ts";
import type { CallPosition, JournalEntry, OpenJournal, StepKind } from "../executor/journal.ts";
import { labelOf } from "../executor/step-names.ts";
import type { Call } from "./call.ts";
import type { Emitted } from "./drive.ts";
import { ReplayMismatch, StepError } from "./verbs.ts";

/** What the journal has of one use of a verb. */
export interface Recorded {
  outcome?: { readonly idx: number; readonly entry: JournalEntry };
  begun?: JournalEntry;
  readonly failed: JournalEntry[];
}

/** A use of a verb. */
export interface Verb {
  readonly kind: JournalEntry["kind"];
  readonly name: string;
  readonly occurrence: number;
  readonly call: number;
  readonly recorded: Recorded;
}

interface ReplayOptions {
  readonly call: Call;
  readonly journal: OpenJournal;
  readonly strict: boolean;
  /** How many values the function had yielded at the newest state. */
  readonly yielded: number;
  /** The call begins here. */
  readonly isNew: boolean;
  readonly emitted: Emitted;
  readonly environment: Pick<Environment, "defer" | "uuid">;
}

const keyOf = (kind: string, name: string, occurrence: number): string => `${kind} ${occurrence} ${name}`;

export class Replay {
  readonly #options: ReplayOptions;
  readonly #recorded = new Map<string, Recorded>();
  readonly #byCall = new Map<number, JournalEntry>();
  readonly #uses = new Map<string, number>();
  #calls = 0;
  /** Stored entries that verbs wait for: each tick of the event loop gives the oldest. */
  readonly #waiting = new Map<number, () => void>();
  #giving = false;
  /** The newest entry that was given, and the newest stored one. */
  #reached = -1;
  #last = -1;
  /** The newest stored position: values up to it are not shown again. */
  readonly #newest: CallPosition;
  /** Entries that no verb has asked for yet. */
  #left = 0;
  #disordered = false;
  #inFlight = 0;
  /** Two verbs were in use at once. */
  #concurrent = false;
  #mismatch: ReplayMismatch | null = null;

  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one branch for each phase of an entry
  constructor(options: ReplayOptions) {
    this.#options = options;
    const { entries } = options.journal;
    for (const [idx, entry] of entries.entries()) {
      if (entry.kind === "pause") continue;
      const recorded = this.of(entry.kind, entry.name, entry.occurrence);
      this.#recorded.set(keyOf(entry.kind, entry.name, entry.occurrence), recorded);
      if (entry.call > 0) this.#byCall.set(entry.call, entry);
      if (entry.phase === "begun") recorded.begun ??= entry;
      else if (entry.phase === "failed") recorded.failed.push(entry);
      else if (entry.phase !== "dropped") {
        recorded.outcome = { idx, entry };
        this.#last = idx;
        this.#left++;
      }
    }
    let newest: CallPosition = { yielded: options.isNew ? 0 : options.yielded, reply: null };
    for (const { position } of entries) if (position.yielded >= newest.yielded) newest = position;
    const { shown } = options.journal;
    this.#newest = shown && shown.yielded >= newest.yielded ? shown : newest;
  }

  of(kind: string, name: string, occurrence: number): Recorded {
    return this.#recorded.get(keyOf(kind, name, occurrence)) ?? { failed: [] };
  }

  /** A yielded value was stored already: it is neither shown nor stored again. */
  skips(): boolean {
    const { call } = this.#options;
    if (call.yielded >= this.#newest.yielded) return false;
    call.yielded++;
    if (call.yielded === this.#newest.yielded) this.#restoreReply();
    return true;
  }

  /** For a new entry. What one chain stores while another one is behind must not forget what was shown. */
  position(): CallPosition {
    const { yielded, reply } = this.#options.call;
    return yielded < this.#newest.yielded ? this.#newest : { yielded, reply: reply && { ...reply } };
  }

  /** What the function emits was shown already. */
  isBehind(): boolean {
    return this.#reached < this.#last || this.#options.call.yielded < this.#newest.yielded;
  }

  /** Numbers the use of a verb. Errors: ReplayMismatch. */
  use(kind: StepKind, name: string): Verb {
    const used = keyOf(kind, name, 0);
    const occurrence = (this.#uses.get(used) ?? 0) + 1;
    this.#uses.set(used, occurrence);
    const recorded = this.of(kind, name, occurrence);
    const verb = { kind, name, occurrence, call: ++this.#calls, recorded };
    if (++this.#inFlight > 1) this.#concurrent = true;
    if (this.#options.strict) this.#compare(verb);
    const { outcome, begun, failed } = recorded;
    // The code has changed: entries that are left will not be asked for.
    if (!outcome && !begun && failed.length === 0 && this.#waiting.size === 0) this.#reached = this.#last;
    return verb;
  }

  /** Gives a stored result in its turn, so that concurrent code takes the same way. */
  give(
    { idx, entry }: NonNullable<Recorded["outcome"]>,
    verb: Verb,
    resolve: (value: never) => void,
    reject: (reason: unknown) => void,
  ): void {
    this.#left--;
    if (entry.call !== verb.call) this.#disordered = true;
    this.#waiting.set(idx, () => {
      this.#pass(idx, entry);
      if (entry.phase === "error") {
        const cause = Object.assign(new Error(entry.error?.message), { name: entry.error?.name ?? "Error" });
        reject(new StepError(labelOf(verb.name), cause.message, cause));
      } else if (entry.phase === "timeout") resolve(null as never);
      else resolve((entry.value === undefined ? undefined : structuredClone(entry.value)) as never);
    });
    this.#giveNext();
  }

  #giveNext(): void {
    if (this.#giving || this.#waiting.size === 0) return;
    this.#giving = true;
    this.#options.environment.defer(() => {
      this.#giving = false;
      const first = Math.min(...this.#waiting.keys());
      const give = this.#waiting.get(first);
      this.#waiting.delete(first);
      give?.();
      this.#giveNext();
    });
  }

  /** A verb has its result. */
  finished(): void {
    this.#inFlight--;
  }

  #pass(idx: number, { position }: JournalEntry): void {
    this.finished();
    if (idx <= this.#reached) return;
    this.#reached = idx;
    const { call } = this.#options;
    // Changed code may yield more or less before this entry. Beside other chains the number says nothing.
    if (this.#concurrent || call.yielded === position.yielded || call.yielded >= this.#newest.yielded) return;
    call.yielded = position.yielded;
    if (call.yielded === this.#newest.yielded) this.#restoreReply();
  }

  /** The reply goes on where the newest entry has it. */
  #restoreReply(): void {
    const { reply } = this.#newest;
    if (!reply) return;
    const { journal, call, environment, emitted } = this.#options;
    call.reply = { ...reply };
    if (journal.isStored || journal.entries.at(-1)?.kind === "pause") return;
    // Who reads may have seen more of it: it begins again, under another id.
    const id = environment.uuid();
    call.reply = { ...reply, id };
    emitted.push({
      kind: "effect",
      *run() {
        yield* call.spoken(id, reply.text);
      },
    });
  }

  #compare({ kind, name, occurrence, call, recorded }: Verb): void {
    const there = this.#byCall.get(call);
    const own = recorded.outcome?.entry ?? recorded.begun ?? recorded.failed[0];
    const same = !there || (there.kind === kind && there.name === name && there.occurrence === occurrence);
    if (!this.#mismatch && same && (!own || own.call === call)) return;
    const stored = there ? `${there.kind} ${labelOf(there.name)}` : `it as call ${own?.call}`;
    this.#mismatch ??= new ReplayMismatch(`call ${call} is ${kind} ${labelOf(name)}; the journal has ${stored}`);
    throw this.#mismatch;
  }

  /** Errors: ReplayMismatch, which the function may have caught. */
  check(): void {
    if (this.#mismatch) throw this.#mismatch;
  }

  /** How many entries are left over at the end; null if nothing was removed or reordered. */
  difference(): { readonly unused_entries: number } | null {
    return this.#left > 0 || this.#disordered ? { unused_entries: this.#left } : null;
  }
}
