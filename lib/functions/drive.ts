/** Runs a function and merges what it emits, yields and returns into one sequence. */
import type { Json } from "../json.ts";
import type { AgentFunction, FunctionJob } from "./agent.ts";
import { RaisedInterrupt } from "./call.ts";
import { copyJson } from "./copy.ts";

type FunctionEvent =
  | { readonly kind: "custom"; readonly data: Json; readonly value?: undefined }
  | { readonly kind: "usage"; readonly usage: Parameters<FunctionJob["spend"]>[0]; readonly value?: undefined }
  | { readonly kind: "waiting"; readonly value?: undefined }
  | { readonly kind: "yielded" | "returned"; readonly value: unknown };

interface Outcome {
  readonly ok: boolean;
  readonly value?: unknown;
  readonly error?: unknown;
}

/**
 * Calls the function. The last item is its return value or its interrupt; `waiting` means that it is still at work one turn of
 * the event loop after it was asked for more. Throws what the function throws or, once it has stopped, the signal's reason.
 */
export async function* drive(
  agent: AgentFunction,
  job: Omit<FunctionJob, "emit" | "interrupt" | "spend">,
  signal: AbortSignal,
  defer: (then: () => void) => void,
): AsyncGenerator<FunctionEvent> {
  const emitted: FunctionEvent[] = [];
  let wake = (): void => {};
  let iterator: AsyncIterator<unknown> | undefined;
  const onAbort = (): void => wake();
  signal.addEventListener("abort", onAbort);

  /** Waits for one step of the function and passes on what it emits meanwhile. */
  async function* wait(work: () => unknown): AsyncGenerator<FunctionEvent, unknown> {
    signal.throwIfAborted();
    let outcome: Outcome | undefined;
    const finish = (result: Outcome): void => {
      outcome = result;
      wake();
    };
    const finished = (async () => work())().then(
      (value) => finish({ ok: true, value }),
      (error: unknown) => finish({ ok: false, error }),
    );
    let turned = false;
    defer(() => {
      turned = true;
      wake();
    });
    while ((!outcome || emitted.length > 0) && !signal.aborted) {
      if (emitted.length > 0) yield emitted.shift() as FunctionEvent;
      else if (turned) {
        turned = false;
        yield { kind: "waiting" };
      } else
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
    }
    // An aborted function may still be at work: the thread must not go on before it has stopped.
    if (signal.aborted) await finished;
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
          wake();
        },
        spend(usage) {
          emitted.push({ kind: "usage", usage: { ...usage } });
          wake();
        },
        interrupt: (value) => new RaisedInterrupt(copyJson(value, "interrupt value")),
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
      else if (value instanceof RaisedInterrupt) {
        iterator = undefined;
        yield* wait(() => items.return?.());
      }
      if (done || value instanceof RaisedInterrupt) {
        yield { kind: "returned", value };
        return;
      }
      yield { kind: "yielded", value };
    }
  } finally {
    signal.removeEventListener("abort", onAbort);
    // Its cleanup belongs to the run.
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
