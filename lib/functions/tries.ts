/** The tries of a step: its work is repeated, with pauses, until it succeeds or no retry is left. Each result is stored. */
import type { Environment } from "../environment.ts";
import { durationOf, labelOf } from "../executor/step-names.ts";
import type { Json } from "../json.ts";
import { type Entries, type EntryOptions, shownStart } from "./entries.ts";
import type { Verb } from "./replay.ts";
import { type StepContext, StepError, type StepOptions } from "./verbs.ts";
import type { Waits } from "./waits.ts";
import { type Inside, tryWork, type Worked } from "./work.ts";

export interface TryOptions extends EntryOptions {
  readonly environment: Environment;
}

const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;

const errorOf = (error: unknown): { name: string; message: string } =>
  error instanceof Error ? { name: error.name, message: error.message } : { name: "Error", message: String(error) };

export class Tries {
  readonly #options: TryOptions;
  readonly #inside: Inside | null;
  readonly #entries: Entries;
  readonly #waits: Waits;

  constructor(options: TryOptions, inside: Inside | null, entries: Entries, waits: Waits) {
    this.#options = options;
    this.#inside = inside;
    this.#entries = entries;
    this.#waits = waits;
  }

  /** Tries the work of a step until it succeeds or has no retries left. */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one loop over the tries of a step, which share their times
  async execute(
    verb: Verb,
    { retries = 0, timeout, backoff = FIRST_PAUSE_MS, retry = () => true }: StepOptions,
    work: (context: StepContext) => unknown,
  ): Promise<Json | undefined> {
    const { journal, environment, call } = this.#options;
    const label = labelOf(verb.name);
    const timeout_ms = timeout === undefined ? null : durationOf(timeout, `${label}: timeout`);
    const pause_ms = durationOf(backoff, `${label}: backoff`);
    const last = verb.recorded.failed.at(-1);
    let attempt = (last?.attempt ?? 0) + 1;
    let next = last?.until ?? null;
    let done = this.#waits.begin();
    try {
      const key = await journal.id(verb.kind, verb.name, verb.occurrence);
      if (verb.kind === "step") this.#entries.effect(() => shownStart(call, journal.call_id, verb)).catch(() => {});
      for (;;) {
        if (next !== null) {
          // A step that waits for its next try does not work.
          done();
          await this.#entries.until(verb, next);
          done = this.#waits.begin();
        }
        const began = environment.now();
        const worked = await this.#try(verb, timeout_ms, (signal) => work({ key, attempt, signal }));
        if ("value" in worked) {
          const { value, message } = worked;
          const result = value === undefined ? {} : { value };
          await this.#entries.add(verb, { phase: "done", attempt, began, ...result }, message);
          return value;
        }
        const { error } = worked;
        const again = attempt <= retries && retry(error);
        const longest = Math.min(LONGEST_PAUSE_MS, pause_ms * 2 ** (attempt - 1));
        next = again ? environment.now() + Math.ceil(longest * (1 - environment.random() / 4)) : null;
        const failure = { attempt, began, error: errorOf(error), until: next };
        await this.#entries.add(verb, { phase: again ? "failed" : "error", ...failure });
        if (!again) throw new StepError(label, failure.error.message, error);
        attempt++;
      }
    } finally {
      done();
    }
  }

  #try(
    { name }: Verb,
    timeout_ms: number | null,
    work: (signal: AbortSignal) => unknown,
  ): Promise<Worked | { readonly error: unknown }> {
    const { signal, call, emitted } = this.#options;
    const speak = (id: string, token: string): Promise<void> =>
      this.#entries.effect(function* () {
        if (!signal.aborted) yield* call.spoken(id, token);
      });
    const own = { label: labelOf(name), timeout_ms, inside: this.#inside, speak, spend: emitted.spendInStep };
    return tryWork({ ...this.#options, ...own }, work);
  }
}
