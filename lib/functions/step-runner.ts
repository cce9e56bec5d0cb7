/** Runs the work of a step until it succeeds or has no retries left. Each result is stored. */
import type { Environment } from "../environment.ts";
import { formatStepName, parseDuration } from "../executor/step-names.ts";
import type { Json } from "../json.ts";
import type { FunctionSpans, SpanScope } from "./function-spans.ts";
import { emitStepStart, type JournalWriter, type JournalWriterOptions } from "./journal-writer.ts";
import { type StepContext, StepError, type StepOptions } from "./operations.ts";
import type { PendingWaits } from "./pending-waits.ts";
import type { OperationUse } from "./replay.ts";
import { runStepAttempt, type StepAttemptResult, type StepContextStorage } from "./step-attempt.ts";

export interface StepRunnerOptions extends JournalWriterOptions {
  readonly environment: Environment;
  /** Null if no trace is recorded. */
  readonly spans?: FunctionSpans | null;
}

const DEFAULT_BACKOFF_MS = 1_000;
const MAX_BACKOFF_MS = 60_000;

const toErrorJson = (error: unknown): { name: string; message: string } =>
  error instanceof Error ? { name: error.name, message: error.message } : { name: "Error", message: String(error) };

/** Throws a TypeError for options of retries that would be found invalid only after the work of a step has failed. */
function requireValidRetries(retries: unknown, retry: unknown, label: string): void {
  if (typeof retries !== "number" || !(retries >= 0))
    throw new TypeError(`${label}: retries must be a number from 0, not ${String(retries)}`);
  if (typeof retry !== "function") throw new TypeError(`${label}: retry must be a function`);
}

export class StepRunner {
  readonly #options: StepRunnerOptions;
  readonly #stepContext: StepContextStorage | null;
  readonly #writer: JournalWriter;
  readonly #waits: PendingWaits;

  constructor(
    options: StepRunnerOptions,
    stepContext: StepContextStorage | null,
    writer: JournalWriter,
    waits: PendingWaits,
  ) {
    this.#options = options;
    this.#stepContext = stepContext;
    this.#writer = writer;
    this.#waits = waits;
  }

  /**
   * Runs the attempts of a step, with growing pauses, and stores each result. Continues the count of attempts that earlier runs
   * have stored. Resolves with the JSON result once it is stored. Rejects with a StepError after the last attempt, and with the
   * reason if the run stops. Between attempts the run may be suspended.
   */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one loop over the tries of a step, which share their times
  async execute(
    operation: OperationUse,
    { retries = 0, timeout, backoff = DEFAULT_BACKOFF_MS, retry = () => true }: StepOptions,
    work: (context: StepContext) => unknown,
  ): Promise<Json | undefined> {
    const { journal, environment, call, spans } = this.#options;
    const label = formatStepName(operation.name);
    requireValidRetries(retries, retry, label);
    const timeout_ms = timeout === undefined ? null : parseDuration(timeout, `${label}: timeout`);
    const pause_ms = parseDuration(backoff, `${label}: backoff`);
    const lastFailure = operation.recorded.failedEntries.at(-1);
    let attempt = (lastFailure?.attempt ?? 0) + 1;
    let nextTryAt = lastFailure?.until ?? null;
    let endWork = this.#waits.beginWork();
    try {
      const key = await journal.createId(operation.kind, operation.name, operation.occurrence);
      if (operation.kind === "step")
        this.#writer.runEffect(() => emitStepStart(call, journal.call_id, operation)).catch(() => {});
      for (;;) {
        if (nextTryAt !== null) {
          // A step that waits for its next attempt is not active.
          endWork();
          await this.#writer.waitUntil(operation, nextTryAt);
          endWork = this.#waits.beginWork();
        }
        const startedAt = environment.now();
        const scope = (operation.kind === "step" && spans?.createStepScope(key, operation.name, attempt)) || null;
        const run = (signal: AbortSignal): unknown => work({ key, attempt, signal });
        const attemptResult = await this.#runAttempt(operation, { timeout_ms, scope }, run);
        if ("value" in attemptResult) {
          const { value, message } = attemptResult;
          const result = value === undefined ? {} : { value };
          await this.#writer.append(operation, { phase: "done", attempt, began: startedAt, ...result }, message);
          return value;
        }
        const { error } = attemptResult;
        const willRetry = attempt <= retries && retry(error);
        const maxPause_ms = Math.min(MAX_BACKOFF_MS, pause_ms * 2 ** (attempt - 1));
        nextTryAt = willRetry ? environment.now() + Math.ceil(maxPause_ms * (1 - environment.random() / 4)) : null;
        const failure = { attempt, began: startedAt, error: toErrorJson(error), until: nextTryAt };
        await this.#writer.append(operation, { phase: willRetry ? "failed" : "error", ...failure });
        if (!willRetry) throw new StepError(label, failure.error.message, error);
        attempt++;
      }
    } finally {
      endWork();
    }
  }

  /**
   * Runs one attempt of a step, and resolves with its result or with `{ error }`. Rejects if the lease is lost or the run stops.
   * Tokens of a stopped run are dropped.
   */
  #runAttempt(
    { name }: OperationUse,
    { timeout_ms, scope }: { readonly timeout_ms: number | null; readonly scope: SpanScope | null },
    work: (signal: AbortSignal) => unknown,
  ): Promise<StepAttemptResult | { readonly error: unknown }> {
    const { signal, call, eventQueue } = this.#options;
    /** Streams a token between the values of the function, and drops it if the run was stopped. */
    const streamToken = (id: string, token: string): Promise<void> =>
      this.#writer.runEffect(function* () {
        if (!signal.aborted) yield* call.streamStepToken(id, token);
      });
    const attemptOptions = {
      label: formatStepName(name),
      timeout_ms,
      scope,
      stepContext: this.#stepContext,
      streamToken,
      reportUsage: eventQueue.reportStepUsage,
    };
    return runStepAttempt({ ...this.#options, ...attemptOptions }, work);
  }
}
