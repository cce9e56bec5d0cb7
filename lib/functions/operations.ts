/** The durable operations as agents use them. Their implementation is loaded when a function first uses one. */
// biome-ignore-all lint/suspicious/noExplicitAny: an answer without a schema is what its sender sends
import type { AsJson, Schema } from "../executor/agent-types.ts";
import type { CheckedDuration, Duration, StepName } from "../executor/step-names.ts";
import type { Json } from "../json.ts";

export type { CheckedDuration, Duration, DurationError, DurationPart, StepName } from "../executor/step-names.ts";

/** The argument of the work of a step. */
export interface StepContext {
  /** The idempotency key of this step. Equal in every attempt of it. */
  readonly key: string;
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  /** Aborts when the attempt takes longer than its `timeout`, and when the run must stop. */
  readonly signal: AbortSignal;
}

/** The retries of a step, and the time limit of each attempt. */
export interface StepOptions<Timeout extends Duration = Duration, Backoff extends Duration = Duration> {
  /** The maximum number of retries of a failed step. Default 0. */
  readonly retries?: number;
  /** The time limit of one attempt. Default: none. */
  readonly timeout?: Timeout;
  /** The pause before the first retry; each later one is twice as long, at most 60 s. Default 1 s. */
  readonly backoff?: Backoff;
  /** Returns true if an error is worth a retry. Default: every error is. */
  retry?(error: unknown): boolean;
}

/** The address to which the event of a wait is sent. */
export interface EventAddress {
  /** `POST` a JSON body to it. It needs no key, and is valid until the wait has its event. */
  readonly url: string;
  readonly token: string;
  readonly key: string;
}

/** A JSON Schema that is written in place. */
export type JsonSchema = { readonly [keyword: string]: unknown; readonly "~standard"?: never };

/** The type that a JSON Schema describes, as far as TypeScript can express it. */
export type FromJsonSchema<Declared> = Declared extends { readonly const: infer Value }
  ? Value
  : Declared extends { readonly enum: readonly (infer Value)[] }
    ? Value
    : Declared extends { readonly type: "boolean" }
      ? boolean
      : Declared extends { readonly type: "string" }
        ? string
        : Declared extends { readonly type: "number" | "integer" }
          ? number
          : Declared extends { readonly type: "array"; readonly items: infer Item }
            ? FromJsonSchema<Item>[]
            : Declared extends { readonly type: "object"; readonly properties: infer Members }
              ? { [Name in keyof Members]?: FromJsonSchema<Members[Name]> }
              : any;

/** The type of a value that fits a schema: the output of a Standard Schema, or what a JSON Schema describes. */
export type Infer<Declared> = Declared extends Schema<any, infer Output> ? Output : FromJsonSchema<Declared>;

/** `null` if an operation has a timeout. */
export type NullAfter<Timeout> = [Timeout] extends [undefined] ? never : null;

/** The timeout of a wait, the schema of its event, and the step that hands out its address. */
export interface WaitOptions<Declared, Timeout = Duration | undefined> {
  /** The duration after which `wait` returns null. Default: none. */
  readonly timeout?: Timeout;
  /**
   * A Standard Schema or a JSON Schema of the event. An event that does not fit its JSON Schema is refused, and the wait
   * continues.
   */
  readonly schema?: Declared;
  /** A step that hands the address to the sender of the event. */
  begin?(address: EventAddress): unknown;
}

/** The timeout of a question, and the schema of its answer. */
export interface AskOptions<Declared, Timeout = Duration | undefined> {
  /** The duration after which `ask` returns null. Default: none. */
  readonly timeout?: Timeout;
  /**
   * A Standard Schema or a JSON Schema of the resume value, which is then not validated by the agent's `resume`. Clients see its
   * JSON Schema as `response_schema`.
   */
  readonly schema?: Declared;
}

/** The result of a step: the text of a stream, and any other value as JSON keeps it. */
export type StepResult<Returned> = Returned extends AsyncIterable<unknown> | { readonly textStream: unknown }
  ? string
  : // biome-ignore lint/suspicious/noConfusingVoidType: a step may return nothing
    Returned extends Json | void
    ? Returned
    : AsJson<Returned>;

/**
 * The operations of durable functions. A function that uses them continues where it stopped, after a crash, a deploy,
 * or an answer that took a week. `Interrupt` is the type of the value of an ask.
 */
export interface DurableOperations<Interrupt = unknown> {
  /**
   * Calls `work` and stores its JSON result: later attempts of the run get that result and do not call `work` again.
   * If it returns an async iterable of texts, or an object with a `textStream`, its tokens are streamed as they come,
   * and the result is the whole text, which becomes a message of type `ai`. Throws a `StepError` after its last
   * attempt.
   */
  step<Returned, Timeout extends Duration = Duration, Backoff extends Duration = Duration>(
    name: StepName,
    work: (context: StepContext) => Returned,
    options?: StepOptions<Timeout, Backoff> & {
      readonly timeout?: CheckedDuration<Timeout>;
      readonly backoff?: CheckedDuration<Backoff>;
    },
  ): Promise<StepResult<Awaited<Returned>>>;
  /** Resolves after a duration or at a time. Long sleeps need no worker, and survive restarts. */
  sleep<Until extends Duration | Date>(name: StepName, until: Until & CheckedDuration<Until>): Promise<void>;
  /** Waits for one event from outside. Returns its JSON payload as `schema` parses it, or null after `timeout`. */
  wait<
    const Declared extends Schema | JsonSchema = Record<never, never>,
    Timeout extends Duration | undefined = undefined,
  >(
    name: StepName,
    options?: WaitOptions<Declared, Timeout> & { readonly timeout?: CheckedDuration<Timeout> },
  ): Promise<Infer<Declared> | NullAfter<Timeout>>;
  /**
   * Raises an interrupt with `value`. Returns its resume value as `schema` parses it, or null after `timeout`. Several
   * may be pending.
   */
  ask<
    const Declared extends Schema | JsonSchema = Record<never, never>,
    Timeout extends Duration | undefined = undefined,
  >(
    name: StepName,
    value: Interrupt,
    options?: AskOptions<Declared, Timeout> & { readonly timeout?: CheckedDuration<Timeout> },
  ): Promise<Infer<Declared> | NullAfter<Timeout>>;
}

/**
 * The error of a step that failed in its last attempt, also when it is replayed, and of a `wait` or `ask` whose answer the schema
 * refuses.
 */
export class StepError extends Error {
  override readonly name = "StepError";
  readonly step: string;
  /** The reasons why the schema refuses an answer. */
  readonly issues?: readonly { readonly path: readonly (string | number)[]; readonly message: string }[];
  /** Creates the error with the message `step: message`. `issues` is absent unless it is given. */
  constructor(step: string, message: string, cause?: unknown, issues?: StepError["issues"]) {
    super(`${step}: ${message}`, { cause });
    this.step = step;
    if (issues) this.issues = issues;
  }
}

/** The error of a `strict` function whose operations differ from its journal. Nothing was executed. */
export class ReplayMismatch extends Error {
  override readonly name = "ReplayMismatch";
}
