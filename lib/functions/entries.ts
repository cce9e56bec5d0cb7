/** Entries of the journal: how they are stored with what the function has shown, and how verbs wait for that. */
import type { ExecutorEvent, Interrupt } from "../executor/contract.ts";
import type { Coroutine } from "../executor/coroutine.ts";
import type { JournalEntry, OpenJournal } from "../executor/journal.ts";
import { labelOf } from "../executor/step-names.ts";
import type { JsonObject } from "../json.ts";
import type { Call } from "./call.ts";
import type { Emitted } from "./drive.ts";
import type { Recorded, Replay, Verb } from "./replay.ts";
import type { Waits } from "./waits.ts";

export interface EntryOptions {
  readonly call: Call;
  readonly journal: OpenJournal;
  readonly emitted: Emitted;
  readonly signal: AbortSignal;
}

/** The phases after which the verb goes on. */
const OPEN: ReadonlySet<JournalEntry["phase"]> = new Set(["begun", "failed", "dropped"]);

type EntryPart = Pick<JournalEntry, "phase"> & Partial<JournalEntry>;

export class Entries {
  readonly #options: EntryOptions;
  readonly #replay: Replay;
  readonly #waits: Waits;
  readonly #rejecters = new Set<(reason: unknown) => void>();

  constructor(options: EntryOptions, replay: Replay, waits: Waits) {
    this.#options = options;
    this.#replay = replay;
    this.#waits = waits;
  }

  /** A promise that rejects when the run must stop. */
  guarded<Value>(start: (resolve: (value: Value) => void, reject: (reason: unknown) => void) => void): Promise<Value> {
    const { promise, resolve, reject } = Promise.withResolvers<Value>();
    this.#rejecters.add(reject);
    start(resolve, reject);
    return promise.finally(() => this.#rejecters.delete(reject));
  }

  /** Waits until a time; null: until the run stops. `ask`: what clients are asked meanwhile. */
  until(verb: Verb, until: number | null, ask?: Interrupt): Promise<void> {
    const asked = ask ? { ask } : {};
    return this.guarded<void>((resolve) => this.#waits.add({ verb, until, due: resolve, ...asked }));
  }

  /** The stored result of a verb, in its turn. */
  stored<Value>(outcome: NonNullable<Recorded["outcome"]>, verb: Verb): Promise<Value> {
    const done = this.#waits.begin();
    return this.guarded<Value>((resolve, reject) => this.#replay.give(outcome, verb, resolve, reject)).finally(done);
  }

  /** What the driver does between the values of the function. */
  effect<Value>(run: () => Coroutine<Value>): Promise<Value> {
    const done = this.#waits.begin();
    return this.guarded((resolve, reject) => {
      this.#options.emitted.push({
        kind: "effect",
        *run() {
          try {
            resolve(yield* run());
          } catch (error) {
            reject(error);
          } finally {
            done();
          }
        },
      });
    });
  }

  /** Stores an entry with all that was shown before it; resolves when that is committed. */
  async add(verb: Verb, part: EntryPart, message?: JsonObject): Promise<JournalEntry> {
    const { call, journal, signal } = this.#options;
    const { kind, name, occurrence } = verb;
    const done = this.#waits.begin();
    const replay = this.#replay;
    try {
      const { entry, committed } = await this.effect(function* () {
        signal.throwIfAborted();
        // A stop from here on comes too late for all of it: without its states, the entry would say that they are stored.
        if (message) yield* unbroken(call.said(message));
        yield* unbroken(call.commitStep());
        const position = replay.position();
        const entry = journal.append({ kind, name, occurrence, call: verb.call, position, ...part });
        if (kind === "step" && part.phase !== "failed") yield* shownEnd(call, journal.call_id, entry);
        // The next event is taken while this one is stored. A stop may leave it without anyone who waits.
        const committed = journal.commit();
        committed.catch(() => {});
        return { entry, committed };
      });
      await this.guarded<void>((resolve, reject) => void committed.then(resolve, reject));
      if (kind !== "begin" && !OPEN.has(part.phase)) replay.finished();
      return entry;
    } finally {
      done();
    }
  }

  /** The run must stop: everything that waits here rejects. */
  reject(reason: unknown): void {
    for (const reject of [...this.#rejecters]) reject(reason);
  }
}

const unbroken = (events: readonly ExecutorEvent[]): ExecutorEvent[] =>
  events.map((event) => (event.type === "state" ? { ...event, unbroken: true } : event));

/** Shows that a step starts, in mode `tasks`. */
export function* shownStart(call: Call, call_id: string, { name, occurrence }: Verb): Coroutine {
  const id = `${call_id}:${occurrence}:${name}`;
  yield* call.frames.show("tasks", { id, name: labelOf(name), input: null, triggers: [], interrupts: [] });
}

function shownEnd(call: Call, call_id: string, { name, occurrence, value, error }: JournalEntry): ExecutorEvent[] {
  const id = `${call_id}:${occurrence}:${name}`;
  const result: JsonObject = error ? { error: error.message, result: null } : { result: value ?? null };
  return call.frames.show("tasks", { id, name: labelOf(name), ...result, interrupts: [] });
}
