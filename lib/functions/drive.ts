/** Calls a function and passes on what it yields, emits and returns. */
import type { ExecutorEvent, Spending } from "../executor/contract.ts";
import type { Json } from "../json.ts";
import { type AgentFunction, type FunctionJob, RaisedInterrupt } from "./call.ts";
import { copyJson } from "./plain.ts";
import { streamOf } from "./streams.ts";

export type FunctionEvent =
  | { readonly kind: "custom"; readonly data: Json; readonly value?: undefined }
  | { readonly kind: "usage"; readonly usage: Spending; readonly value?: undefined }
  | { readonly kind: "waiting"; readonly value?: undefined }
  | { readonly kind: "effect"; readonly run: () => AsyncIterable<ExecutorEvent>; readonly value?: undefined }
  | { readonly kind: "yielded" | "returned"; readonly value: unknown };

/** What a function emits while it executes, and what its steps do. */
export class Emitted {
  readonly list: FunctionEvent[] = [];
  wake = (): void => {};
  /** The run is suspended: the engine no longer waits for the function. */
  left = false;

  readonly spend = (usage: Spending): void => this.push({ kind: "usage", usage: { ...usage } });

  push(event: FunctionEvent): void {
    this.list.push(event);
    this.wake();
  }
}

/**
 * Calls the function. The last item is its return value or its interrupt; `waiting` means that it still executes one tick of
 * the event loop after it was asked for more. Throws what the function throws or, once it has stopped, the signal's reason.
 */
export async function* drive(
  agent: AgentFunction,
  job: Omit<FunctionJob, "emit" | "interrupt" | "spend">,
  signal: AbortSignal,
  defer: (then: () => void) => void,
  emitted: Emitted,
): AsyncGenerator<FunctionEvent> {
  const { list } = emitted;
  let iterator: AsyncIterator<unknown> | undefined;
  const onAbort = (): void => emitted.wake();
  signal.addEventListener("abort", onAbort);

  /** One step of the function. `next` gives what it emits meanwhile, and undefined at its end; then `result` gives or throws what it did. */
  function begin(work: () => unknown): { next(): Promise<FunctionEvent | undefined>; result(): unknown } {
    signal.throwIfAborted();
    let result: (() => unknown) | undefined;
    const finish = (its: () => unknown): void => {
      result = its;
      emitted.wake();
    };
    const finished = answerOf(work).then(
      (value) => finish(() => value),
      (error: unknown) =>
        finish(() => {
          throw error;
        }),
    );
    let ticked = false;
    defer(() => {
      ticked = true;
      emitted.wake();
    });
    return {
      async next() {
        while ((!result || list.length > 0) && !signal.aborted) {
          if (list.length > 0) return list.shift();
          if (ticked) {
            ticked = false;
            return { kind: "waiting" };
          }
          await new Promise<void>((resolve) => {
            emitted.wake = resolve;
          });
        }
        // An aborted function may still be at work: the thread must not go on before it has stopped.
        if (signal.aborted) await finished;
        signal.throwIfAborted();
        return undefined;
      },
      result: () => (result as () => unknown)(),
    };
  }

  try {
    let step = begin(() =>
      agent({
        ...job,
        emit(data) {
          emitted.push({ kind: "custom", data: copyJson(data, "emitted data") });
        },
        spend: emitted.spend,
        interrupt: (value) => new RaisedInterrupt(copyJson(value, "interrupt value")),
      }),
    );
    for (let event = await step.next(); event; event = await step.next()) yield event;
    const result = step.result();
    const stream = streamOf(result, emitted.spend);
    if (!stream) {
      yield { kind: "returned", value: result };
      return;
    }
    const items = stream[Symbol.asyncIterator]();
    iterator = items;
    while (true) {
      step = begin(() => items.next());
      for (let event = await step.next(); event; event = await step.next()) yield event;
      const { done, value } = step.result() as IteratorResult<unknown>;
      if (done || value instanceof RaisedInterrupt) iterator = undefined;
      if (!done && value instanceof RaisedInterrupt) {
        step = begin(() => items.return?.());
        for (let event = await step.next(); event; event = await step.next()) yield event;
        step.result();
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
    if (iterator && !emitted.left) await (async (open) => open.return?.())(iterator).catch(() => {});
  }
}

/** The answer of a call, whether it returns, throws or promises. */
function answerOf(call: () => unknown): Promise<unknown> {
  try {
    return Promise.resolve(call());
  } catch (error) {
    return Promise.reject(error);
  }
}
