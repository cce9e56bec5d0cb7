/** One try of the work of a step. */
import type { Environment } from "../environment.ts";
import type { Spending } from "../executor/contract.ts";
import type { OpenJournal } from "../executor/journal.ts";
import type { Json, JsonObject } from "../json.ts";
import { copyJson } from "./plain.ts";
import { textsOf } from "./streams.ts";

/** Where asynchronous code runs: in a step or not. Absent where the runtime cannot tell. */
export interface Inside {
  run<Result>(label: string, work: () => Result): Result;
  getStore(): string | undefined;
}

let inside: Promise<Inside | null> | undefined;

/** Imports a module of the runtime; the comments keep bundlers from resolving it. */
const builtin = <Module>(name: string): Promise<Module> =>
  import(/* webpackIgnore: true */ /* @vite-ignore */ name) as Promise<Module>;

export function loadInside(): Promise<Inside | null> {
  inside ??= builtin<{ readonly AsyncLocalStorage: new () => Inside }>("node:async_hooks").then(
    ({ AsyncLocalStorage }) => new AsyncLocalStorage(),
    () => null,
  );
  return inside;
}

interface WorkOptions {
  readonly label: string;
  /** That of the run. */
  readonly signal: AbortSignal;
  readonly timeout_ms: number | null;
  readonly inside: Inside | null;
  readonly environment: Pick<Environment, "timer" | "uuid">;
  readonly journal: Pick<OpenJournal, "ensureLease">;
  /** Shows a token of a message. */
  speak(id: string, token: string): Promise<void>;
  /** Counts tokens of a model. */
  spend(usage: Spending): void;
}

/** The result of a step, with the message that it has written. */
export interface Worked {
  readonly value: Json | undefined;
  readonly message?: JsonObject;
}

const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** A stop of the run rejects once the work has ended; a timeout does not wait for it. */
export async function tryWork(
  { label, signal, timeout_ms, inside, environment, journal, speak, spend }: WorkOptions,
  work: (signal: AbortSignal) => unknown,
): Promise<Worked | { readonly error: unknown }> {
  await journal.ensureLease();
  const own = new AbortController();
  const onAbort = (): void => own.abort(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  const late = Promise.withResolvers<never>();
  const cancel =
    timeout_ms === null
      ? () => {}
      : environment.timer(Math.min(timeout_ms, LONGEST_TIMER_MS), () => {
          const error = Object.assign(new Error(`took longer than ${timeout_ms} ms`), { name: "TimeoutError" });
          own.abort(error);
          late.reject(error);
        });
  late.promise.catch(() => {});
  const run = async (): Promise<unknown> => work(own.signal);
  const started = (inside ? inside.run(label, run) : run()).then(async (value) => {
    const stream = textsOf(value, spend);
    return stream ? await speakAll(stream, own.signal, environment.uuid(), speak) : { value };
  });
  started.catch(() => {});
  try {
    const { value, ...message }: { readonly value: unknown; readonly message?: JsonObject } = await Promise.race([
      started,
      late.promise,
    ]);
    signal.throwIfAborted();
    return { ...message, value: value === undefined ? undefined : copyJson(value, `result of ${label}`) };
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    return { error };
  } finally {
    cancel();
    signal.removeEventListener("abort", onAbort);
  }
}

/** Shows the tokens of a stream as they come. */
async function speakAll(
  stream: AsyncIterable<unknown>,
  signal: AbortSignal,
  id: string,
  speak: WorkOptions["speak"],
): Promise<{ readonly value: string; readonly message: JsonObject }> {
  let text = "";
  for await (const token of stream) {
    signal.throwIfAborted();
    if (typeof token !== "string") throw new TypeError("a stream in a step must have texts only");
    text += token;
    await speak(id, token);
  }
  return { value: text, message: { type: "ai", content: text, id } };
}
