/** Runs the function: one sequence of what it emits, yields and returns. */
import type { Json } from "../json.ts";
import { Question } from "./call.ts";
import { copyJson } from "./copy.ts";
import type { AgentFunction, FunctionJob } from "./mod.ts";

type Produced =
  | { readonly kind: "custom"; readonly data: Json; readonly value?: undefined }
  | { readonly kind: "spent"; readonly usage: Parameters<FunctionJob["spend"]>[0]; readonly value?: undefined }
  | { readonly kind: "waiting"; readonly value?: undefined }
  | { readonly kind: "yielded" | "returned"; readonly value: unknown };

interface Outcome {
  readonly ok: boolean;
  readonly value?: unknown;
  readonly error?: unknown;
}

/**
 * Calls the function and gives what it emits, yields and returns, in that order; the last item is what it returned, or the question
 * it asked; `waiting` when it is still at work one turn of the event loop after it was asked for more. Nothing is asked of it before
 * the last item was taken. Throws what it throws or, once it has come to rest, the signal's reason.
 */
export async function* produce(
  agent: AgentFunction,
  job: Omit<FunctionJob, "emit" | "interrupt" | "spend">,
  signal: AbortSignal,
  defer: (then: () => void) => void,
): AsyncGenerator<Produced> {
  const emitted: Produced[] = [];
  let ring = (): void => {};
  let iterator: AsyncIterator<unknown> | undefined;
  const onAbort = (): void => ring();
  signal.addEventListener("abort", onAbort);

  /** Waits for one step of the function, passing on what it emits meanwhile. Begins none once the signal has aborted. */
  async function* wait(work: () => unknown): AsyncGenerator<Produced, unknown> {
    signal.throwIfAborted();
    let outcome: Outcome | undefined;
    const settle = (settled: Outcome): void => {
      outcome = settled;
      ring();
    };
    const settled = (async () => work())().then(
      (value) => settle({ ok: true, value }),
      (error: unknown) => settle({ ok: false, error }),
    );
    let turned = false;
    defer(() => {
      turned = true;
      ring();
    });
    while ((!outcome || emitted.length > 0) && !signal.aborted) {
      if (emitted.length > 0) yield emitted.shift() as Produced;
      else if (turned) {
        turned = false;
        yield { kind: "waiting" };
      } else
        await new Promise<void>((resolve) => {
          ring = resolve;
        });
    }
    // A function that is still at work has not stopped, whether it listens or not.
    if (signal.aborted) await settled;
    signal.throwIfAborted();
    const { ok, value, error } = outcome as Outcome;
    if (!ok) throw error;
    return value;
  }

  try {
    const result = yield* wait(() =>
      agent({
        ...job,
        emit(data) {
          emitted.push({ kind: "custom", data: copyJson(data, "emitted data") });
          ring();
        },
        spend(usage) {
          emitted.push({ kind: "spent", usage: { ...usage } });
          ring();
        },
        interrupt: (value) => new Question(copyJson(value, "interrupt value")),
      }),
    );
    const stream = streamOf(result);
    if (!stream) {
      yield { kind: "returned", value: result };
      return;
    }
    const items = stream[Symbol.asyncIterator]();
    iterator = items;
    while (true) {
      const { done, value } = (yield* wait(() => items.next())) as IteratorResult<unknown>;
      if (done) iterator = undefined;
      else if (value instanceof Question) {
        iterator = undefined;
        yield* wait(() => items.return?.());
      }
      if (done || value instanceof Question) {
        yield { kind: "returned", value };
        return;
      }
      yield { kind: "yielded", value };
    }
  } finally {
    signal.removeEventListener("abort", onAbort);
    // What it does in the end belongs to the run.
    if (iterator) await (async (open) => open.return?.())(iterator).catch(() => {});
  }
}

function streamOf(result: unknown): AsyncIterable<unknown> | null {
  if (isAsyncIterable(result)) return result;
  const text =
    typeof result === "object" && result !== null ? (result as { textStream?: unknown }).textStream : undefined;
  return isAsyncIterable(text) ? text : null;
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return (
    typeof value === "object" &&
    value !== null &&
    typeof (value as Partial<AsyncIterable<unknown>>)[Symbol.asyncIterator] === "function"
  );
}
