/** Runs an attempt of a run on a function: prepares the state, calls the function and converts what it yields. */
import type { Environment } from "../environment.ts";
import type { AgentSchemas } from "../executor/agent-schemas.ts";
import type { Command, ExecutorEvent, Job, StateEvent } from "../executor/contract.ts";
import type { EventCoroutine } from "../executor/coroutine.ts";
import { findResumeMismatch, toResumeMap } from "../executor/job-request.ts";
import type { Message } from "../executor/message-types.ts";
import { applyUpdates, getMessages } from "../executor/messages.ts";
import { END, START } from "../executor/state-changes.ts";
import type { TraceRecorder } from "../executor/trace.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { AgentDefinition } from "./agent.ts";
import { copyJson } from "./copy-json.ts";
import { FunctionDriver, type FunctionEvent, FunctionEventQueue } from "./driver.ts";
import type { DurableOperationsRuntime } from "./durable-operations.ts";
import { createFrames, createInterruptFrames } from "./frames.ts";
import type { FunctionJob } from "./function-job.ts";
import type { FunctionSpans } from "./function-spans.ts";
import { InterruptGuard } from "./interrupt-guard.ts";
import { createTask, FunctionInvocation, InterruptSignal } from "./invocation.ts";
import type { JobSchemas } from "./job-schemas.ts";
import type { DurableOperations } from "./operations.ts";
import type { ContextStorage, SpanContext } from "./span-context.ts";
import { loadSpanStorage } from "./span-storage.ts";
import { type BaseFunctionJob, type ContinuedCall, readHead, type ThreadHead } from "./thread-head.ts";

/**
 * Yields the events of one attempt of a run on a function: applies the input, calls the function and yields what it emits. Throws
 * the function's error after its state event, and the reason of an abort without one. A run that ends or stops before the call
 * yields only states and their frames. Returns without a final state if the run is suspended.
 */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: the life of one call, in its order
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: the life of one call, in its order
export function* execute(
  { agent, strict = false, "~schemas": schemas }: AgentDefinition,
  runJob: Job,
  signal: AbortSignal,
  environment: Environment,
): EventCoroutine {
  const { uuid, defer } = environment;
  const head = yield* readHead(runJob);
  signal.throwIfAborted();
  // An input with a schema is an argument, which is not in the state: a run that continues from it gets that of the run before.
  const jobSchemas = schemas ? yield* loadJobSchemas(schemas) : null;
  const keptInput = schemas?.input ? (runJob.input ?? head.input) : undefined;
  const job = keptInput === undefined ? runJob : { ...runJob, input: keptInput };
  const initialState = createInitialState(runJob, head, uuid, {
    keptInput,
    hasInputSchema: schemas?.input !== undefined,
  });
  yield* initialState.events;
  if (!initialState.callsFunction) {
    const { call: pausedCall } = head;
    if (job.resumed && pausedCall)
      yield import("./open-durable-call.ts").then(({ restorePause }) => restorePause(job, pausedCall));
    return;
  }
  const call = new FunctionInvocation({
    job,
    values: initialState.values,
    step: initialState.step,
    uuid,
    resumedTasks: head.resumedTasks,
    keptInput,
  });
  const spans = job.trace ? yield* createSpans(job.trace, signal) : null;
  const interruptGuard = new InterruptGuard();
  const eventQueue = new FunctionEventQueue();
  if (spans) eventQueue.addToSpan = createUsageCounter(spans, call);
  let runtime: DurableOperationsRuntime | undefined;
  let functionJob = createFunctionJob(job, head, initialState.values, signal);
  /**
   * Opens the durable call that the run continues, or a new one, and sets `runtime` and `functionJob`. Resolves to false, with
   * both unchanged, if the call to continue no longer exists.
   */
  const startRuntime = async (continuedCall: ContinuedCall | null): Promise<boolean> => {
    const { openDurableCall } = await import("./open-durable-call.ts");
    const hasStoredState = job.resumed || initialState.events.some(({ type }) => type === "state");
    const openedCall = await openDurableCall({
      job,
      functionJob,
      call,
      head,
      eventQueue,
      signal,
      strict,
      schemas: jobSchemas,
      environment,
      continuedCall,
      hasStoredState,
      spans,
    });
    if (openedCall) ({ runtime, functionJob } = openedCall);
    return openedCall !== null;
  };
  const continuedCall = findContinuedCall(runJob, head);
  if (continuedCall && !(yield startRuntime(continuedCall)) && job.journal?.call_id) {
    // The durable call of this run has continued without it, or has ended.
    yield toStateEvent(head);
    return;
  }
  let loading: Promise<unknown> | undefined;
  /**
   * Returns the durable operation with this name. Its first use opens the durable call. It throws `UnusedInterrupt` while an
   * interrupt is unused, and a rejection that the function does not await is ignored.
   */
  const createOperation =
    (name: keyof DurableOperations) =>
    (...args: unknown[]): Promise<unknown> => {
      interruptGuard.requireNone();
      const callOperation = () =>
        (runtime as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>)[name]?.(...args);
      if (!runtime) loading ??= startRuntime(null);
      const promise = Promise.resolve(loading && !runtime ? loading.then(callOperation) : callOperation());
      // The function may be stopped while it does not await this promise.
      promise.catch(() => {});
      return promise;
    };
  const operations = {
    step: createOperation("step"),
    sleep: createOperation("sleep"),
    wait: createOperation("wait"),
    ask: createOperation("ask"),
  } as unknown as DurableOperations;
  yield* call.start();
  try {
    // Tokens come fast: the extra tick of the event loop is needed only while a step is pending.
    const onNextTick = (then: () => void): void => (call.hasPendingStep() ? defer(then) : undefined);
    const parsedJob = jobSchemas ? yield* jobSchemas.parseJob(functionJob) : functionJob;
    const store = interruptGuard.wrapStore(job.store);
    const driver = new FunctionDriver({
      agent,
      job: Object.assign(parsedJob, operations, { store }),
      ...{ signal, onNextTick, eventQueue, schemas: jobSchemas, interruptGuard, spans },
    });
    try {
      for (const functionEvent of driver.run()) {
        if (functionEvent instanceof Promise) yield functionEvent;
        else if (functionEvent.kind === "effect") yield* functionEvent.run();
        else if (functionEvent.value instanceof InterruptSignal) {
          if (functionEvent.value.checked) yield functionEvent.value.checked;
          call.durableCall = null;
          return yield* call.pause(functionEvent.value);
        } else if (functionEvent.kind !== "returned") yield* handleEvent(call, functionEvent, runtime, jobSchemas);
        else {
          if (jobSchemas) yield* jobSchemas.checkUpdate(call.values, functionEvent.value);
          if (loading) yield loading.catch(() => {});
          if (runtime) yield* runtime.finish();
          call.durableCall = null;
          return yield* call.finish(functionEvent.value);
        }
        if (eventQueue.isSuspended) return;
      }
    } finally {
      const closing = driver.close();
      if (closing) yield closing;
    }
  } catch (error) {
    if (!signal.aborted) yield* call.fail(error);
    throw error;
  } finally {
    runtime?.close();
    if (eventQueue.isSuspended) job.journal?.abortSuspended();
  }
}

let spanModules: Promise<SpanModules> | undefined;
let loadedSpans: SpanModules | undefined;
interface SpanModules {
  readonly FunctionSpans: typeof import("./function-spans.ts").FunctionSpans;
  readonly storage: ContextStorage<SpanContext> | null;
}

/** Loads what records spans, once, and creates the spans of an attempt. */
function* createSpans(trace: TraceRecorder, signal: AbortSignal): EventCoroutine<FunctionSpans> {
  spanModules ??= Promise.all([import("./function-spans.ts"), loadSpanStorage()]).then(
    ([{ FunctionSpans }, storage]) => ({
      FunctionSpans,
      storage,
    }),
  );
  loadedSpans ??= (yield spanModules) as SpanModules;
  return new loadedSpans.FunctionSpans(trace, loadedSpans.storage, signal);
}

/** Returns a function that adds usage to the span of its caller, unless an earlier attempt has reported it: see `reportUsage`. */
function createUsageCounter(spans: FunctionSpans, call: FunctionInvocation): FunctionEventQueue["addToSpan"] {
  let count = 0;
  return (usage, in_step) => {
    if (!in_step) count++;
    if (in_step || count > call.reportedUsageCount) spans.addUsage(usage);
  };
}

/** Imports the validation by schemas, which few agents need, and returns a validator for these schemas. */
function* loadJobSchemas(schemas: AgentSchemas): EventCoroutine<JobSchemas> {
  const loaded = (yield import("./job-schemas.ts")) as {
    readonly JobSchemas: new (schemas: AgentSchemas) => JobSchemas;
  };
  return new loaded.JobSchemas(schemas);
}

/**
 * Yields the events of what a function emitted. `waiting` commits the pending step. Data and yielded values that a replay has
 * stored already have no events. Throws `InvalidState` or a TypeError for a value that a schema refuses.
 */
function* handleEvent(
  call: FunctionInvocation,
  functionEvent: FunctionEvent,
  runtime: DurableOperationsRuntime | undefined,
  jobSchemas: JobSchemas | null,
): EventCoroutine {
  if (functionEvent.kind === "custom") {
    if (functionEvent.checked) yield functionEvent.checked;
    if (!runtime?.isReplaying()) yield* call.emit(functionEvent.data);
  } else if (functionEvent.kind === "usage") yield* call.reportUsage(functionEvent);
  else if (functionEvent.kind === "yielded") {
    if (runtime?.skipStoredValue()) return;
    if (jobSchemas) yield* jobSchemas.checkUpdate(call.values, functionEvent.value);
    yield* call.handleValue(functionEvent.value);
  } else yield* call.commitStep();
}

/**
 * Returns the durable call that the run continues; null if it starts a new one. That is the call of the run's own journal, else
 * the call that waits at the head of the thread, if the run is no retry and has neither input nor `goto`.
 */
function findContinuedCall(job: Job, { call, next }: ThreadHead): ContinuedCall | null {
  const { journal, command, input, graph_id } = job;
  if (journal?.call_id) return { call_id: journal.call_id };
  const startsNewCall = (command?.goto ?? []).length > 0 || (!command && (input ?? null) !== null);
  return call && !startsNewCall && !job.resumed && next.includes(graph_id) ? call : null;
}

/**
 * Returns a state event that repeats the head of the thread: its values, next nodes and tasks and, if present, its kept input and
 * durable call.
 */
const toStateEvent = ({ values, next, tasks, call, input }: ThreadHead): StateEvent => ({
  ...{ type: "state", values, next, tasks },
  ...(input === undefined ? {} : { input }),
  ...(call ? { call } : {}),
});

interface InitialState {
  readonly events: readonly ExecutorEvent[];
  readonly values: JsonObject;
  readonly step: number;
  /** False if the run ends without a call of the function. */
  readonly callsFunction: boolean;
}

/**
 * Returns the state with the input or the command of a run applied, its events, and whether the function is called: not with
 * `goto` END, at a breakpoint, or in a retry whose earlier attempt had ended. A retry does not apply the input again once it is
 * stored. Changes neither the head nor the job. Throws for resume values and `goto` that do not fit.
 */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one check for each member of a command, and then its effects
function createInitialState(
  job: Job,
  head: ThreadHead,
  uuid: () => string,
  { keptInput, hasInputSchema }: { readonly keptInput: Json | undefined; readonly hasInputSchema: boolean },
): InitialState {
  const { command, graph_id: name } = job;
  const input = command ? null : (job.input ?? null);
  const breakpoint = job.interrupt_before === "*" || job.interrupt_before.includes(name);

  if (job.resumed && !head.next.includes(START)) {
    // An earlier attempt has applied the input. If that attempt had also ended, only the last events are missing.
    const { values, step, next, tasks } = head;
    const frames = createFrames(job, "values", values);
    const pendingTasks = tasks.filter((task) => task.error === null);
    if (next.length > 0 && pendingTasks.length === 0) return { events: frames, values, step, callsFunction: true };
    const interrupts = pendingTasks.flatMap((task) => task.interrupts);
    if (next.length > 0) frames.push(...createInterruptFrames(job, interrupts));
    return { events: [{ ...toStateEvent(head), frames }], values, step, callsFunction: false };
  }

  const resumeValue = job.strict_resume ? command?.resume : undefined;
  const mismatchError = resumeValue === undefined ? null : findResumeMismatch(resumeValue, head.interrupt_ids);
  if (mismatchError) throw mismatchError;
  const targets = (command?.goto ?? []).map((to) => (typeof to === "string" ? { node: to, input: null } : to));
  const unknownTarget = targets.find((target) => target.node !== name && target.node !== END);
  if (unknownTarget)
    throw new Error(`goto names ${JSON.stringify(unknownTarget.node)}, but the only node is ${JSON.stringify(name)}`);
  const endsWithoutCall = targets.length > 0 && targets.every((target) => target.node === END);

  const toInputUpdate = hasInputSchema ? pickInputMessages : toStateUpdate;
  const inputMember = keptInput === undefined ? {} : { input: keptInput };
  const changes: JsonObject[] = input === null ? [] : [toInputUpdate(input)];
  if (command) {
    changes.push(...toCommandUpdates(command.update ?? null));
    for (const target of targets)
      if (target.node === name && target.input !== null) changes.push(toStateUpdate(target.input));
  }
  // The function receives these objects and may change them, so the job's own objects are copied.
  const changeCopies = changes.map((change) => copyJson(change, "input") as JsonObject);
  const values = applyUpdates(
    head.values,
    changeCopies.map((change) => [change, "human"]),
    uuid,
  );

  const continuesNode = input === null && head.next.includes(name);
  const stopsAtBreakpoint = !endsWithoutCall && breakpoint && !continuesNode && command?.resume === undefined;
  const next = endsWithoutCall ? [] : [name];
  const events: ExecutorEvent[] = [];
  let { step } = head;
  if (input !== null && !job.resumed) {
    events.push({ type: "state", values: head.values, next: [START], tasks: [], source: "input", ...inputMember });
    step++;
  }
  const frames = createFrames(job, "values", values);
  if (changes.length > 0 || endsWithoutCall || stopsAtBreakpoint) {
    const tasks = stopsAtBreakpoint ? [createTask(uuid(), name)] : [];
    events.push({ type: "state", values, next, tasks, frames, ...inputMember });
    step++;
  } else {
    events.push(...frames);
  }
  if (stopsAtBreakpoint) events.push(...createInterruptFrames(job, []));
  return { events, values, step, callsFunction: !endsWithoutCall && !stopsAtBreakpoint };
}

function toStateUpdate(input: Json): JsonObject {
  return isObject(input) ? input : { input };
}

/** Returns the members of an input that go into the state: an input with a schema is an argument, and only its messages do. */
const pickInputMessages = (input: Json): JsonObject =>
  isObject(input) && Object.hasOwn(input, "messages") ? { messages: input.messages as Json } : {};

/**
 * Returns the updates of a command as a list of objects: none for null, the object itself, and one object for each pair of a list
 * of [key, value]. Throws for other forms.
 */
function toCommandUpdates(update: Json): JsonObject[] {
  if (update === null) return [];
  if (isObject(update)) return [update];
  const isPair = (pair: Json): pair is [string, Json] =>
    Array.isArray(pair) && pair.length === 2 && typeof pair[0] === "string";
  if (!Array.isArray(update) || !update.every(isPair)) {
    throw new Error("command.update must be an object or a list of [key, value]");
  }
  return update.map((pair) => Object.fromEntries([pair]));
}

/**
 * Returns the public members of the job. `state` is a copy that the function may change, and `messages` are the messages in that
 * copy. `command` has no `goto`, and its `resume` is the value for this function alone.
 */
function createFunctionJob(job: Job, head: ThreadHead, values: JsonObject, signal: AbortSignal): BaseFunctionJob {
  const { run_id, thread_id, assistant_id, graph_id, attempt, stateless } = job;
  const { input, context, config, metadata, user, store } = job;
  const state = copyJson(values, "state") as JsonObject;
  const command = job.command && normalizeCommand(job.command, head.interrupt_ids);
  return {
    ...{ run_id, thread_id, assistant_id, graph_id, attempt, stateless },
    ...{ input, command, state, messages: getMessages(state) as Message[], context },
    ...{ config, metadata, user, store, signal },
  };
}

/**
 * Returns the command with `update` and `resume` alone. A map of resume values is reduced to the value for the first pending
 * interrupt that it names, and `resume` is omitted if it names none. Any other resume value is kept.
 */
function normalizeCommand({ resume, update }: Command, ids: readonly string[]): NonNullable<FunctionJob["command"]> {
  const updateMember = update === undefined ? {} : { update };
  const resumeMap = resume === undefined ? null : toResumeMap(resume, new Set(ids));
  const id = resumeMap && ids.find((pendingId) => Object.hasOwn(resumeMap, pendingId));
  const value = resumeMap ? resumeMap[id ?? ""] : resume;
  return { ...updateMember, ...(value === undefined ? {} : { resume: value }) };
}
