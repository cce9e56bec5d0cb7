/** Runs one attempt of a step. */
import type { Environment } from "../environment.ts";
import type { ModelUsage } from "../executor/contract.ts";
import type { ActiveJournal } from "../executor/journal.ts";
import type { Json, JsonObject } from "../json.ts";
import { copyJson } from "./copy-json.ts";
import type { SpanScope } from "./function-spans.ts";
import { type ContextStorage, createContextStorage } from "./span-context.ts";
import { findTextStream } from "./streams.ts";

/** The storage of the label of the step that the caller runs in. */
export type StepContextStorage = ContextStorage<string>;

let stepContext: Promise<StepContextStorage | null> | undefined;

/**
 * Loads the storage of the step that code runs in, once for the process. Resolves to null on runtimes without
 * `AsyncLocalStorage`.
 */
export function loadStepContextStorage(): Promise<StepContextStorage | null> {
  stepContext ??= createContextStorage<string>();
  return stepContext;
}

interface StepAttemptOptions {
  readonly label: string;
  /** The signal of the run. */
  readonly signal: AbortSignal;
  readonly timeout_ms: number | null;
  readonly stepContext: StepContextStorage | null;
  readonly environment: Pick<Environment, "timer" | "uuid">;
  readonly journal: Pick<ActiveJournal, "ensureLease">;
  /** Streams a token of a message of the step. */
  streamToken(id: string, token: string): Promise<void>;
  reportUsage(usage: ModelUsage): void;
  /** The place of the spans of the step; null if no trace is recorded. */
  readonly scope: SpanScope | null;
}

/** The result of a step, and the message that it has streamed. */
export interface StepAttemptResult {
  readonly value: Json | undefined;
  readonly message?: JsonObject;
}

const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Ensures the lease and calls `work` once. Resolves with a JSON copy of its result, or with `{ error }`. A returned text stream
 * is streamed, and its text is the result. After `timeout_ms`, aborts `work`'s signal and resolves with a TimeoutError without
 * waiting for it. Rejects if the lease is lost and, after `work` has settled, with the reason if the run stops.
 */
export async function runStepAttempt(
  { label, signal, timeout_ms, stepContext, environment, journal, streamToken, reportUsage, scope }: StepAttemptOptions,
  work: (signal: AbortSignal) => unknown,
): Promise<StepAttemptResult | { readonly error: unknown }> {
  await journal.ensureLease();
  const controller = new AbortController();
  const onAbort = (): void => controller.abort(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  const timeout = Promise.withResolvers<never>();
  const cancel =
    timeout_ms === null
      ? () => {}
      : environment.timer(Math.min(timeout_ms, MAX_TIMER_MS), () => {
          const error = Object.assign(new Error(`took longer than ${timeout_ms} ms`), { name: "TimeoutError" });
          controller.abort(error);
          timeout.reject(error);
        });
  timeout.promise.catch(() => {});
  const endSpan = scope?.start();
  const callWork = async (): Promise<unknown> => work(controller.signal);
  const runWork = (): Promise<unknown> => scope?.run(callWork) ?? callWork();
  const workPromise = (stepContext ? stepContext.run(label, runWork) : runWork()).then(async (value) => {
    const stream = findTextStream(value, reportUsage, () => scope?.createPartRecorder());
    return stream ? await streamReply(stream, controller.signal, environment.uuid(), streamToken) : { value };
  });
  workPromise.catch(() => {});
  try {
    const { value, ...message }: { readonly value: unknown; readonly message?: JsonObject } = await Promise.race([
      workPromise,
      timeout.promise,
    ]);
    signal.throwIfAborted();
    const copy = value === undefined ? undefined : copyJson(value, `result of ${label}`);
    endSpan?.({ status: "ok" });
    return { ...message, value: copy };
  } catch (error) {
    endSpan?.(signal.aborted ? { status: "interrupted" } : { status: "error", error });
    if (signal.aborted) throw signal.reason;
    return { error };
  } finally {
    cancel();
    signal.removeEventListener("abort", onAbort);
  }
}

/**
 * Sends the tokens of a text stream one after the other. Resolves with their text and with the message, of type `ai`, that the
 * state gets. Rejects with a TypeError for elements that are not texts, and with the reason of an abort.
 */
async function streamReply(
  stream: AsyncIterable<unknown>,
  signal: AbortSignal,
  id: string,
  streamToken: StepAttemptOptions["streamToken"],
): Promise<{ readonly value: string; readonly message: JsonObject }> {
  let text = "";
  for await (const token of stream) {
    signal.throwIfAborted();
    if (typeof token !== "string") throw new TypeError("a stream in a step must have texts only");
    text += token;
    await streamToken(id, token);
  }
  return { value: text, message: { type: "ai", content: text, id } };
}
