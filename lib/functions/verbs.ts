/** The verbs of durable functions, as agents see them. steps.ts has their code, which is loaded when a function uses one. */
import type { Duration, StepName } from "../executor/step-names.ts";
import type { JsonObject } from "../json.ts";

export type { Duration, StepName } from "../executor/step-names.ts";

/** What the work of a step gets. */
export interface StepContext {
  /** The same in every try of this step: pass it to services that take an idempotency key. */
  readonly key: string;
  /** 1 for the first try. */
  readonly attempt: number;
  /** Aborts when the try takes longer than its `timeout`, and when the run must stop. */
  readonly signal: AbortSignal;
}

export interface StepOptions {
  /** How often a failed step is tried again. Default 0. */
  readonly retries?: number;
  /** The time limit of one try. Default: none. */
  readonly timeout?: Duration;
  /** The pause before the first retry; each later one is twice as long, at most 60 s. Default 1 s. */
  readonly backoff?: Duration;
  /** Whether an error is worth a retry. Default: every error is. */
  retry?(error: unknown): boolean;
}

/** The address for the event of a wait. */
export interface EventAddress {
  /** `POST` a JSON body to it. It needs no key, and is valid until the wait is answered. */
  readonly url: string;
  readonly token: string;
  readonly key: string;
}

/** The value that a JSON schema describes, as far as types can say it. */
export type FromJsonSchema<Schema> = Schema extends { readonly const: infer Value }
  ? Value
  : Schema extends { readonly enum: readonly (infer Value)[] }
    ? Value
    : Schema extends { readonly type: "boolean" }
      ? boolean
      : Schema extends { readonly type: "string" }
        ? string
        : Schema extends { readonly type: "number" | "integer" }
          ? number
          : Schema extends { readonly type: "array"; readonly items: infer Item }
            ? FromJsonSchema<Item>[]
            : Schema extends { readonly type: "object"; readonly properties: infer Members }
              ? { [Name in keyof Members]?: FromJsonSchema<Members[Name]> }
              : // biome-ignore lint/suspicious/noExplicitAny: an answer without a schema is what its sender sends
                any;

/** How long `wait` waits, what it takes, and who sends it. */
export interface WaitOptions<Schema> {
  /** Then `wait` returns null. Default: none. */
  readonly timeout?: Duration;
  /** JSON Schema. An event that does not fit is refused, and the wait continues. */
  readonly schema?: Schema;
  /** A step that hands the address to the sender of the event. */
  begin?(address: EventAddress): unknown;
}

export interface AskOptions<Schema> {
  readonly timeout?: Duration;
  /** JSON Schema of the answer; clients see it as `response_schema`. */
  readonly schema?: Schema;
}

/** What a step returns: the text of a stream, and any other value as its JSON. */
export type StepResult<Returned> = Returned extends AsyncIterable<unknown> | { readonly textStream: unknown }
  ? string
  : Returned;

/** What makes a function durable: it continues where it stopped, after a crash, a deploy, or an answer that took a week. */
export interface DurableOperations {
  /**
   * Calls `work` and stores its JSON result: later attempts of the run get that result and do not call `work` again. If it returns an
   * async iterable of texts, or an object with a `textStream`, its tokens are shown as they come, and the result is the whole text,
   * which becomes a message of type `ai`. Throws a `StepError` after its last try.
   */
  step<Returned>(
    name: StepName,
    work: (context: StepContext) => Returned,
    options?: StepOptions,
  ): Promise<StepResult<Awaited<Returned>>>;
  /** Resolves after a duration or at a time. Long sleeps need no worker, and survive restarts. */
  sleep(name: StepName, until: Duration | Date): Promise<void>;
  /** Waits for one event from outside: its JSON payload, or null after `timeout`. */
  wait<const Schema extends JsonObject | { readonly [key: string]: unknown } = Record<never, never>>(
    name: StepName,
    options?: WaitOptions<Schema>,
  ): Promise<FromJsonSchema<Schema> | null>;
  /** Shows an interrupt with `value`, and returns its answer, or null after `timeout`. Several may be open. */
  ask<const Schema extends JsonObject | { readonly [key: string]: unknown } = Record<never, never>>(
    name: StepName,
    value: unknown,
    options?: AskOptions<Schema>,
  ): Promise<FromJsonSchema<Schema> | null>;
}

/** A step failed after its last try, also when it is replayed. */
export class StepError extends Error {
  override readonly name = "StepError";
  readonly step: string;
  constructor(step: string, message: string, cause?: unknown) {
    super(`${step}: ${message}`, { cause });
    this.step = step;
  }
}

/** With `strict`: the function takes another way than the one that its journal has. Nothing was executed. */
export class ReplayMismatch extends Error {
  override readonly name = "ReplayMismatch";
}
