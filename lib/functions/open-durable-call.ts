/** Opens the durable call of a function. Loaded when a function first uses a durable operation, or continues a call. */
import type { Environment } from "../environment.ts";
import type { Job } from "../executor/contract.ts";
import { toResumeMap } from "../executor/job-request.ts";
import type { ActiveJournal, CallInput, JournalEntry } from "../executor/journal.ts";
import type { Message } from "../executor/message-types.ts";
import { getMessages } from "../executor/messages.ts";
import { findSchemaMismatch } from "../executor/schema-check.ts";
import type { Json, JsonObject } from "../json.ts";
import type { FunctionEventQueue } from "./driver.ts";
import { type DurableOperationsRuntime, openDurableOperations } from "./durable-operations.ts";
import type { FunctionSpans } from "./function-spans.ts";
import type { FunctionInvocation } from "./invocation.ts";
import type { JobSchemas } from "./job-schemas.ts";
import type { BaseFunctionJob, ContinuedCall, ThreadHead } from "./thread-head.ts";

interface DurableCallRequest {
  readonly job: Job;
  readonly call: FunctionInvocation;
  readonly head: ThreadHead;
  readonly eventQueue: FunctionEventQueue;
  readonly signal: AbortSignal;
  readonly strict: boolean;
  readonly schemas: Pick<JobSchemas, "checkArgument"> | null;
  readonly environment: Environment;
  /** The job that the function gets in a new call. */
  readonly functionJob: BaseFunctionJob;
  readonly continuedCall: ContinuedCall | null;
  /** True if the run has stored a state. */
  readonly hasStoredState: boolean;
  /** Null if no trace is recorded. */
  readonly spans: FunctionSpans | null;
}

/**
 * Opens the durable call that the run starts or continues, stores its resume values, and emits a state from which the next
 * attempt can continue. Returns null if the call to continue no longer exists. Throws without a journal.
 */
export async function openDurableCall(
  request: DurableCallRequest,
): Promise<{ readonly runtime: DurableOperationsRuntime; readonly functionJob: BaseFunctionJob } | null> {
  const { job, call, head, functionJob, continuedCall, eventQueue, hasStoredState } = request;
  if (!job.journal) throw new Error("step, sleep, wait and ask need a service: this executor has no journal");
  const journal = await job.journal.open(continuedCall, () => createCallInput(job, call));
  if (!journal) return null;
  if (continuedCall && !job.resumed) await recordAnswers(request, journal);
  const yielded = head.call?.yielded ?? 0;
  const runtime = await openDurableOperations({ ...request, journal, yielded, isNew: !continuedCall });
  // The next attempt must continue from a state of this run.
  eventQueue.push({
    kind: "effect",
    /**
     * Commits the pending step. Emits a state of the started call if there is none yet, or if states are stored only at the end.
     */
    *run() {
      yield* call.commitStep();
      if ((!hasStoredState && !call.hasEmittedState) || job.durability === "exit")
        yield call.createStateEvent([job.graph_id], []);
    },
  });
  return { runtime, functionJob: continuedCall ? createContinuedJob(functionJob, journal.origin) : functionJob };
}

/**
 * Pauses a call again that an earlier attempt had paused, because the end of the run was not stored. Does nothing without a
 * journal or if the call no longer exists.
 */
export async function restorePause({ journal }: Job, { call_id }: ContinuedCall): Promise<void> {
  const paused = await journal?.open({ call_id }, () => {
    throw new Error("A call that was paused has begun");
  });
  await paused?.restorePause();
}

/**
 * Returns the input that every attempt of the call gets: input, state, context, config and metadata of the run. Omits the user
 * from the config, because each run has its own.
 */
function createCallInput({ input, context, config, metadata }: Job, call: FunctionInvocation): CallInput {
  const {
    langgraph_auth_user: _user,
    langgraph_auth_user_id: _id,
    langgraph_auth_permissions: _may,
    ...configurable
  } = {
    ...config.configurable,
  } as JsonObject;
  const values = call.initialValues;
  const storedConfig = { ...config, configurable: configurable } as unknown as JsonObject;
  return { input: input ?? null, values, context, config: storedConfig, metadata };
}

/**
 * Appends the resume values of the run to the journal: each settles the open ask with its id. A resume value that is no map of
 * ids answers the only open ask, and is ignored if there are several. Logs a warning for a value that does not fit the schema of
 * its ask, which stays open.
 */
async function recordAnswers({ job, head, environment }: DurableCallRequest, journal: ActiveJournal): Promise<void> {
  const resume = job.command?.resume;
  if (resume === undefined) return;
  const askEntries = journal.entries.filter(({ kind, phase }) => kind === "ask" && phase === "begun");
  const settledKeys = new Set(
    journal.entries.filter(({ kind, phase }) => kind === "ask" && phase !== "begun").map(formatEntryKey),
  );
  const openAsks = askEntries.filter((entry) => !settledKeys.has(formatEntryKey(entry)));
  const targetIds = new Set(head.interrupt_ids);
  const ids = new Set(
    openAsks.map(({ value }) => value as string).filter((id) => targetIds.size === 0 || targetIds.has(id)),
  );
  const answers = toResumeMap(resume, ids) ?? (ids.size === 1 ? { [[...ids][0] as string]: resume } : {});
  const { run_id, thread_id } = job;
  for (const { name, occurrence, call: number, value: id, schema } of openAsks) {
    if (!Object.hasOwn(answers, id as string)) continue;
    const value = answers[id as string] as Json;
    const problem = schema ? findSchemaMismatch(schema, value) : null;
    if (problem !== null) {
      const message = "an answer does not fit the schema of its ask, which stays open";
      environment.log({ level: "warn", message, run_id, thread_id, ask: name, problem });
      continue;
    }
    const position = { yielded: journal.entries.at(-1)?.position.yielded ?? 0, reply: null };
    journal.append({ kind: "ask", name, occurrence, call: number, phase: "done", value, position });
  }
}

const formatEntryKey = ({ name, occurrence }: JournalEntry): string => `${occurrence} ${name}`;

/**
 * Returns a job for the run that continues a durable call: copies of the call's first input, state, context, config and metadata,
 * with the ids and the user of this run and without a command.
 */
function createContinuedJob(
  functionJob: BaseFunctionJob,
  { input, values, context, config, metadata }: CallInput,
): BaseFunctionJob {
  const state = structuredClone(values);
  const { configurable: startConfigurable, ...otherConfig } = config as { readonly configurable?: JsonObject };
  const authEntries = Object.entries(functionJob.config.configurable).filter(([name]) =>
    name.startsWith("langgraph_auth_"),
  );
  const configurable = { ...startConfigurable, run_id: functionJob.run_id, ...Object.fromEntries(authEntries) };
  return {
    ...functionJob,
    input: input ?? undefined,
    command: null,
    state,
    messages: getMessages(state) as Message[],
    context: structuredClone(context),
    config: { ...structuredClone(otherConfig), configurable } as BaseFunctionJob["config"],
    metadata: structuredClone(metadata),
  };
}
