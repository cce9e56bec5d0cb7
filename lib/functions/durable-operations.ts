/**
 * The durable operations of one attempt over the journal of its call. An operation with a stored result returns it.
 * Any other is executed, and its entry is committed together with the output before it.
 */
import type { Environment } from "../environment.ts";
import { formatIssueTypes, parseBySchema, type SchemaResult } from "../executor/agent-schemas.ts";
import type { Job } from "../executor/contract.ts";
import type { EventCoroutine } from "../executor/coroutine.ts";
import type { ExternalEvent, StepKind } from "../executor/journal.ts";
import { toJsonSchema } from "../executor/json-schemas.ts";
import { assertKnownOptions, isStandardSchema } from "../executor/option-names.ts";
import { parseSchema } from "../executor/schema-problems.ts";
import {
  type Duration,
  encodeStepName,
  formatStepName,
  parseDuration,
  resolveWakeTime,
  type StepName,
} from "../executor/step-names.ts";
import type { Json, JsonObject } from "../json.ts";
import { copyJson } from "./copy-json.ts";
import { endAttempt } from "./end-attempt.ts";
import type { JobSchemas } from "./job-schemas.ts";
import { JournalWriter } from "./journal-writer.ts";
import {
  type AskOptions,
  type EventAddress,
  type StepContext,
  StepError,
  type StepOptions,
  type WaitOptions,
} from "./operations.ts";
import { PendingWaits } from "./pending-waits.ts";
import { type OperationUse, Replay } from "./replay.ts";
import { loadStepContextStorage, type StepContextStorage } from "./step-attempt.ts";
import { StepRunner, type StepRunnerOptions } from "./step-runner.ts";

export interface DurableOperationsOptions extends StepRunnerOptions {
  readonly job: Job;
  readonly signal: AbortSignal;
  readonly strict: boolean;
  readonly yielded: number;
  /** True if this attempt starts the call. */
  readonly isNew: boolean;
  /** The schema of the values of asks. */
  readonly schemas: Pick<JobSchemas, "checkArgument"> | null;
}

const FINISH_MS = 50;

/** Returns the time at which a wait or an ask times out; null for never. */
const resolveTimeout = (
  timeout: Duration | undefined,
  label: string,
  { now }: Pick<Environment, "now">,
): number | null => (timeout === undefined ? null : now() + parseDuration(timeout, `${label}: timeout`));

export class DurableOperationsRuntime {
  readonly #options: DurableOperationsOptions;
  readonly #stepContext: StepContextStorage | null;
  readonly #replay: Replay;
  readonly #waits: PendingWaits;
  readonly #writer: JournalWriter;
  readonly #stepRunner: StepRunner;
  #closeReason: string | null = null;

  constructor(options: DurableOperationsOptions, stepContext: StepContextStorage | null) {
    this.#options = options;
    this.#stepContext = stepContext;
    const { journal, signal, call } = options;
    this.#replay = new Replay(options);
    this.#waits = new PendingWaits({
      ...options,
      onEventDropped: (operation, { seq }, problem) => {
        const error = { name: "DoesNotFit", message: problem };
        this.#writer.append(operation, { phase: "dropped", event: seq, error }).catch(() => {});
      },
      onIdle: () => this.#endIdleAttempt(),
    });
    this.#writer = new JournalWriter(options, this.#replay, this.#waits);
    this.#stepRunner = new StepRunner(options, stepContext, this.#writer, this.#waits);
    call.durableCall = journal;
    call.reportedUsageCount = Math.max(0, ...journal.entries.map(({ spent }) => spent ?? 0));
    options.eventQueue.isInStep = () => stepContext?.getStore() !== undefined;
    signal.addEventListener("abort", () => this.#stop(signal.reason), { once: true });
  }

  /**
   * Returns true if an earlier attempt has stored the value that the function yields now, and counts the value; the caller must
   * drop it. Restarts the idle timer.
   */
  skipStoredValue(): boolean {
    this.#waits.recordActivity();
    return this.#replay.skipStoredValue();
  }

  /** Returns true if an earlier attempt has emitted what the function emits now. Restarts the idle timer. */
  isReplaying(): boolean {
    this.#waits.recordActivity();
    return this.#replay.isReplaying();
  }

  /**
   * Numbers the use of an operation, restarts the idle timer and returns the use with its journal entries. Throws before anything
   * is stored: an error if the call has ended or the caller is inside a step, the reason of an abort, and a ReplayMismatch in
   * strict mode.
   */
  #registerUse(kind: StepKind, stepName: StepName): OperationUse {
    const name = encodeStepName(stepName);
    const throwError = (reason: string): never => {
      throw new Error(`${formatStepName(name)}: ${reason}`);
    };
    if (this.#closeReason) throwError(this.#closeReason);
    this.#options.signal.throwIfAborted();
    const outerStep = this.#stepContext?.getStore();
    if (outerStep !== undefined) throwError(`a ${kind} inside the step ${outerStep}; call it outside of steps`);
    this.#waits.recordActivity();
    return this.#replay.registerUse(kind, name);
  }

  /**
   * Resolves with a copy of the stored result of the step, or runs the step with its retries and stores its result first. Rejects
   * with a StepError if it has failed for good, a TypeError for invalid arguments, an error inside another step or after the end
   * of the call, and the reason if the run stops.
   */
  async step(stepName: StepName, work: (context: StepContext) => unknown, options: StepOptions = {}): Promise<unknown> {
    const operation = this.#registerUse("step", stepName);
    assertKnownOptions(options, ["retries", "timeout", "backoff", "retry"], formatStepName(operation.name));
    if (typeof work !== "function")
      throw new TypeError(`${formatStepName(operation.name)}: the second argument is no function`);
    const { result } = operation.recorded;
    if (result) return await this.#writer.deliverResult(result, operation);
    const value = await this.#stepRunner.execute(operation, options, work);
    return value === undefined ? undefined : structuredClone(value);
  }

  /**
   * Resolves at the time, which is stored at the first call. If it has passed at the first call, resolves at once and stores
   * nothing. The run may be suspended meanwhile. Rejects with the reason if the run stops.
   */
  async sleep(stepName: StepName, until: Duration | Date): Promise<void> {
    const operation = this.#registerUse("sleep", stepName);
    const { result, startEntry } = operation.recorded;
    if (result) return await this.#writer.deliverResult(result, operation);
    const now = this.#options.environment.now();
    const dueAt = startEntry?.until ?? resolveWakeTime(until, now, formatStepName(operation.name));
    if (!startEntry && dueAt <= now) return;
    if (!startEntry) await this.#writer.append(operation, { phase: "begun", until: dueAt });
    await this.#writer.waitUntil(operation, dueAt);
    await this.#writer.append(operation, { phase: "done" });
  }

  /**
   * Resolves with a copy of the payload of one event, as the schema parses it, once that is stored, or with null after the
   * timeout. `begin` runs once before, as a step with the address of the event. The run may be suspended meanwhile. Rejects with
   * a StepError if the Standard Schema refuses the payload or `begin` fails, and with the reason if the run stops.
   */
  async wait(stepName: StepName, options: WaitOptions<unknown> = {}): Promise<unknown> {
    const operation = this.#registerUse("wait", stepName);
    const { result, startEntry } = operation.recorded;
    const label = formatStepName(operation.name);
    assertKnownOptions(options, ["timeout", "schema", "begin"], label);
    const { timeout, schema, begin } = options;
    if (begin !== undefined && typeof begin !== "function") throw new TypeError(`${label}: begin must be a function`);
    if (result) return await this.#deliverAnswer(result, operation, schema);
    const until = resolveTimeout(timeout, label, this.#options.environment);
    const schemaMember =
      schema === undefined || startEntry ? {} : { schema: await this.#toStoredSchema(schema, label) };
    const entry = startEntry ?? (await this.#writer.append(operation, { phase: "begun", until, ...schemaMember }));
    const eventPromise = this.#writer.rejectOnStop<ExternalEvent | null>((resolve) => {
      const onDue = (): void => resolve(null);
      this.#waits.add({ operation, until: entry.until ?? null, onDue, onEvent: resolve, schema: entry.schema });
    });
    eventPromise.catch(() => {});
    await this.#waits.watchEvents();
    if (begin) await this.#runBeginStep(operation, begin);
    const event = await eventPromise;
    const eventMembers = event ? { phase: "done" as const, value: event.payload, event: event.seq } : null;
    await this.#writer.append(operation, eventMembers ?? { phase: "timeout" });
    return event ? await this.#parseAnswer(structuredClone(event.payload), schema, label) : null;
  }

  /**
   * Resolves with the stored result of an operation as its schema parses it, null after a timeout. Rejects with a StepError if
   * the schema refuses it, and with the reason if the run stops.
   */
  async #deliverAnswer(
    result: NonNullable<OperationUse["recorded"]["result"]>,
    operation: OperationUse,
    schema: unknown,
  ): Promise<unknown> {
    const value = await this.#writer.deliverResult<Json>(result, operation);
    if (result.entry.phase === "timeout") return value;
    return await this.#parseAnswer(value, schema, formatStepName(operation.name));
  }

  /**
   * Returns an answer as a Standard Schema parses it, a promise if that is asynchronous. Returns the same value for any other
   * schema and without one. Throws or rejects with a StepError that has the issues of an answer that does not fit.
   */
  #parseAnswer(answer: Json, schema: unknown, label: string): unknown {
    if (!isStandardSchema(schema)) return answer;
    const toValue = (result: SchemaResult): unknown => {
      if (!result.issues) return result.value;
      const text = `the answer does not fit its schema: ${formatIssueTypes(result.issues)}`;
      throw new StepError(label, text, undefined, result.issues);
    };
    const result = parseBySchema(schema, answer, `answer to ${label}`);
    return result instanceof Promise ? this.#waits.trackWork(result).then(toValue) : toValue(result);
  }

  /**
   * Resolves with the JSON Schema that is stored with a wait, converted from a Standard Schema. Rejects with a TypeError for a
   * Standard Schema that has none, and for a JSON Schema that is invalid.
   */
  async #toStoredSchema(schema: unknown, label: string): Promise<JsonObject> {
    if (!isStandardSchema(schema)) return parseSchema(schema, label);
    return parseSchema(await this.#waits.trackWork(toJsonSchema(schema, label)), label);
  }

  /**
   * Runs `begin` as a step with the address of a wait. Each attempt gets a new address, which is committed first. Does nothing if
   * an earlier attempt has succeeded. Rejects with a StepError if `begin` fails; there is no retry.
   */
  async #runBeginStep({ name, occurrence }: OperationUse, begin: (address: EventAddress) => unknown): Promise<void> {
    const { journal } = this.#options;
    const recorded = this.#replay.getRecorded("begin", name, occurrence);
    if (recorded.result) return;
    const operation: OperationUse = { kind: "begin", name, occurrence, call: 0, recorded };
    await this.#stepRunner.execute(operation, {}, async ({ key }) => {
      const address = await journal.createEventAddress(name, occurrence);
      await journal.commit();
      await begin({ ...address, key });
    });
  }

  /**
   * Resolves with the stored answer as the schema parses it, or with null after the timeout. An ask without an answer is stored
   * and becomes an interrupt with `value`: once the function only waits, the run ends with it, and the run that resumes it stores
   * the answer. Rejects in stateless runs, with a TypeError if the agent's schema of interrupts refuses the value, with a StepError if the schema refuses the answer, and with the reason if the run
   * stops.
   */
  async ask(stepName: StepName, value: unknown, options: AskOptions<unknown> = {}): Promise<unknown> {
    const operation = this.#registerUse("ask", stepName);
    const { result, startEntry } = operation.recorded;
    const label = formatStepName(operation.name);
    assertKnownOptions(options, ["timeout", "schema"], label);
    const { timeout, schema } = options;
    if (result) return await this.#deliverAnswer(result, operation, schema);
    const { job, journal, schemas } = this.#options;
    if (job.stateless) throw new Error(`${label}: a stateless run cannot ask; run it on a thread`);
    const until = resolveTimeout(timeout, label, this.#options.environment);
    const interruptValue = copyJson(value ?? null, `value of ${label}`);
    // A started ask is not validated again: an earlier version of the function may have had another schema.
    const checked = startEntry
      ? undefined
      : schemas?.checkArgument("interrupt", interruptValue, `ask "${label}": the value`);
    if (checked) await this.#waits.trackWork(checked);
    // A started ask keeps its schema: an earlier version of the function may have had one that would be refused now.
    const declaredSchema = schema === undefined || startEntry ? undefined : await this.#toStoredSchema(schema, label);
    const responseSchema = startEntry ? startEntry.schema : declaredSchema;
    const createId = async (): Promise<string> =>
      (await this.#waits.trackWork(journal.createId("ask", operation.name, operation.occurrence))).replaceAll("-", "");
    const id = (startEntry?.value as string | undefined) ?? (await createId());
    const schemaMember = responseSchema ? { schema: responseSchema } : {};
    const entry =
      startEntry ?? (await this.#writer.append(operation, { phase: "begun", until, value: id, ...schemaMember }));
    const ask = {
      id,
      value: interruptValue,
      ...(responseSchema ? { response_schema: responseSchema } : {}),
      name: label,
    };
    await this.#writer.waitUntil(operation, entry.until ?? null, ask);
    await this.#writer.append(operation, { phase: "timeout" });
    return null;
  }

  /**
   * Queues the end of the attempt of a function that only waits. Does nothing if no ask is pending and the next wait is due
   * within `linger_ms`.
   */
  #endIdleAttempt(): void {
    const { environment, journal } = this.#options;
    const waits = this.#waits;
    const nearest = waits.findNearestDueTime();
    const isSoon = nearest !== null && nearest - environment.now() <= journal.limits.linger_ms;
    if (!isSoon || waits.getPendingAsks().length > 0) endAttempt(this.#options, waits, this.#replay);
  }

  /** Rejects pending operations with the reason, and refuses later ones, because the run must stop. Nothing more is stored. */
  #stop(reason: unknown): void {
    this.close("the run was stopped");
    this.#writer.reject(reason);
  }

  /**
   * Ends the call after the function returned: drops pending waits and runs the steps that were not awaited to their end. Their
   * tokens, results and usage count, and other data that is emitted meanwhile is dropped. Logs a warning if the function diverged
   * from its journal. Throws a ReplayMismatch in strict mode, or the reason of an abort.
   */
  *finish(): EventCoroutine {
    const { call, eventQueue, signal, environment, job } = this.#options;
    this.close();
    this.#replay.throwIfMismatched();
    while (this.#waits.isBusy() && !signal.aborted) {
      const next = eventQueue.events.shift();
      if (next?.kind === "effect") yield* next.run();
      else if (next?.kind === "usage") yield* call.reportUsage(next);
      else if (!next) {
        const waiting = eventQueue.wait();
        environment.timer(FINISH_MS, eventQueue.wake);
        yield waiting;
      }
    }
    signal.throwIfAborted();
    const divergence = this.#replay.findDivergence();
    if (!divergence) return;
    const { run_id, thread_id, graph_id } = job;
    const message = "a durable function took another way than its journal: steps were removed or reordered";
    environment.log({ level: "warn", message, run_id, thread_id, graph_id, ...divergence });
  }

  /** Makes later operations throw the first reason, and drops the pending waits without settling their promises. */
  close(reason = "the call has ended"): void {
    this.#closeReason ??= reason;
    this.#waits.close();
  }
}

/** Loads the step context, and creates the durable operations of one attempt. */
export async function openDurableOperations(options: DurableOperationsOptions): Promise<DurableOperationsRuntime> {
  return new DurableOperationsRuntime(options, await loadStepContextStorage());
}
