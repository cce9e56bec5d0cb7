/** What the endpoints of agents' protocols share: the runs of one call. */
import { ServiceError } from "../../errors.ts";
import { type Interrupt, ResumeRefused } from "../../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../json.ts";
import type { Run, RunOrigin } from "../../runs/mod.ts";
import type { RequestResources, Resources } from "../../service/resources.ts";
import type { Thread } from "../../threads/mod.ts";

/** The protocol by which a run came: its `metadata.created_by`. */
export type AgentProtocol = "mcp" | "ai" | "ag-ui" | "a2a";

/** The metadata of a run that came by a protocol. `task_id`: the first run of its call, for a later one. */
export const createRequestMetadata = (created_by: AgentProtocol, task_id?: string): JsonObject => ({
  created_by,
  ...(task_id === undefined ? {} : { task_id }),
});

/** How far one call has come. */
export interface ProtocolRequestState {
  readonly firstRun: Run;
  /** Its newest run: the first one, or the last that answers its questions. Any client may have sent the answer. */
  readonly newestRun: Run;
  /** The questions that are open; empty while it runs, and once the thread went on without an answer. */
  readonly pending: readonly Interrupt[];
  /** The thread went on with another input. */
  readonly isSuperseded: boolean;
  /** With its time to live, and without its state. */
  readonly thread: Thread;
}

type ProtocolResources = Pick<RequestResources, "runs" | "threads">;

/** The most answers of one call that are looked at. */
const MAX_RESUMING_RUNS = 1000;
const PAGE_SIZE = 20;

export const isActive = ({ status }: Pick<Run, "status">): boolean => status === "pending" || status === "running";

/** For those that keep a run while they wait: its input may be large. */
export const omitKwargs = (run: Run): Run => ({ ...run, kwargs: {} });

/** A run answers questions if it resumes. The studio, and clients of the API, name no task in its metadata. */
export const isResumingRun = ({ kwargs }: Pick<Run, "kwargs">): boolean =>
  isObject(kwargs.command) && kwargs.command.resume !== undefined;

/**
 * Reads how far the call that began with a run has come, by the run and its thread alone. Errors: not_found (the thread is
 * gone, or hidden from the caller).
 */
export async function readProtocolRequest(
  { runs, threads }: ProtocolResources,
  firstRun: Run,
): Promise<ProtocolRequestState> {
  const { thread_id } = firstRun;
  for (let from = firstRun; ; ) {
    const { newestRun, isSuperseded } = await findNewestRun(runs, from);
    from = newestRun;
    const thread = await threads.get(thread_id, { include: ["ttl"], state: false });
    const interrupts = filterInterrupts(Object.values(thread.interrupts).flat());
    const isFinal = isSuperseded || isActive(newestRun) || (thread.status !== "busy" && interrupts.length === 0);
    // The interrupts may be those of a run that came between the two reads: an answer must not reach them.
    if (!isFinal && (await runs.list(thread_id, { after: newestRun.run_id, limit: 1 })).length > 0) continue;
    const isWaiting = !isSuperseded && newestRun.status === "success" && thread.status !== "busy";
    return { firstRun, newestRun, pending: isWaiting ? interrupts : [], isSuperseded, thread };
  }
}

/** The newest run of a call, from one of its runs on, and whether the thread went on with another input. */
async function findNewestRun(
  runs: ProtocolResources["runs"],
  from: Run,
): Promise<Pick<ProtocolRequestState, "newestRun" | "isSuperseded">> {
  let newestRun = from;
  for (let count = 0; count < MAX_RESUMING_RUNS && !isActive(newestRun); count += PAGE_SIZE) {
    const later = await runs.list(from.thread_id, { after: newestRun.run_id, limit: PAGE_SIZE });
    const end = later.findIndex((run) => !isResumingRun(run));
    newestRun = (end < 0 ? later : later.slice(0, end)).at(-1) ?? newestRun;
    if (end >= 0) return { newestRun, isSuperseded: true };
    if (later.length < PAGE_SIZE) break;
  }
  return { newestRun, isSuperseded: false };
}

/** Somebody has cancelled its run, or closed its questions. */
export const isCancelled = ({ firstRun, newestRun, thread }: ProtocolRequestState): boolean =>
  newestRun.status === "interrupted" || thread.metadata.task_cancelled === firstRun.run_id;

/** Cancels the run of a call, and closes its questions. No effect on a call that has ended. Errors: not_found. */
export async function cancelProtocolRequest(
  resources: ProtocolResources,
  { firstRun, newestRun, pending }: ProtocolRequestState,
): Promise<void> {
  const { thread_id } = firstRun;
  if (isActive(newestRun)) await resources.runs.cancel(thread_id, newestRun.run_id, { wait: true });
  else if (pending.length === 0) return;
  else await resources.threads.update(thread_id, { metadata: { task_cancelled: firstRun.run_id } });
  await dismissInterrupts(resources, thread_id);
}

/** Closes open questions, also those that opened again because the run that answered them was cancelled. Errors: not_found. */
export async function dismissInterrupts(
  { threads }: Pick<ProtocolResources, "threads">,
  thread_id: string,
): Promise<void> {
  const { status, interrupts } = await threads.get(thread_id, { state: false });
  if (status !== "interrupted" || Object.keys(interrupts).length === 0) return;
  await threads.updateState(thread_id, { values: null, as_node: "__end__" }).catch((error: unknown) => {
    // An answer came first: it takes the questions with it.
    if (!(error instanceof ServiceError && error.reason === "thread_busy")) throw error;
  });
}

/** The error of a call whose question was not answered. */
export const UNANSWERED_ERROR = "QuestionLapsed";

/** The result of the newest run of a call, as `join` gives it, also after later runs of the thread. */
export async function readProtocolResult(
  { runs, threads }: ProtocolResources,
  { newestRun, isSuperseded }: ProtocolRequestState,
): Promise<Json> {
  const checkpoint_id = isSuperseded ? (await runs.inspect(newestRun.run_id)).checkpoint_id : null;
  if (checkpoint_id === null || newestRun.status === "error") {
    return await (await runs.join(newestRun.thread_id, newestRun.run_id)).result;
  }
  const { values, interrupts } = await threads.stateAt(newestRun.thread_id, { checkpoint_id });
  if (interrupts.length === 0) return values;
  return { __error__: { error: UNANSWERED_ERROR, message: "The conversation went on without an answer" } };
}

/** The interrupts in a list of JSON values. */
export const filterInterrupts = (list: readonly Json[]): readonly Interrupt[] =>
  list.filter((entry): entry is Interrupt => isObject(entry) && typeof entry.id === "string");

/**
 * For the run that answers the interrupts of a call's newest run. A repeated answer gives the same run; so does every other answer,
 * unless `message_id` tells them apart.
 */
export const createResumeOrigin = (newestRun: Run, message_id = ""): Pick<RunOrigin, "idempotency"> => ({
  idempotency: { route: "answer", key: `answer:${newestRun.run_id}${message_id}`, body_hash: "" },
});

/** The open questions of a result of `wait` or `join`. */
export const readInterrupts = (result: Json): readonly Interrupt[] => {
  const list = isObject(result) ? result.__interrupt__ : undefined;
  return Array.isArray(list) ? filterInterrupts(list) : [];
};

/** For a run that a request finds again. Errors: not_found (it is of another assistant, and there is none with this id). */
export async function requireAssistant(
  { assistants }: Pick<Resources, "assistants">,
  run: Run | undefined,
  assistant_id: string,
): Promise<void> {
  const isOfRun = run && [run.assistant_id, run.metadata.graph_id].includes(assistant_id);
  if (!isOfRun) await assistants.get(assistant_id);
}

export const conflictError = (message: string, options?: ErrorOptions): ServiceError =>
  new ServiceError("conflict", message, options);

/** The interrupts as the caller has read them. Before LangGraph 1.5, two interrupts of a node have one id, and differ in this number. */
export const toExpectedAnswers = (interrupts: readonly Interrupt[]): Readonly<Record<string, number>> =>
  Object.fromEntries(interrupts.map(({ id, answered }) => [id, typeof answered === "number" ? answered : 0]));

/** The interrupt that a run was to answer has an answer already, or is gone. */
export const isNoLongerPending = (error: unknown): error is ServiceError =>
  error instanceof ServiceError &&
  (error.reason === "interrupt_already_answered" ||
    error.reason === "no_open_interrupt" ||
    error.cause instanceof ResumeRefused);

/** Throws the error of a run whose answer came too late as a conflict, with a text for people. */
export function throwIfNoLongerPending(error: unknown): void {
  if (!isNoLongerPending(error)) return;
  const { run_id } = error;
  if (run_id === undefined) throw notPendingError("This question is not open any more", { cause: error });
  throw new ServiceError(error.reason, "This question is already answered", { cause: error, run_id });
}

/** The refusal of an answer to an interrupt that is not open. */
export const notPendingError = (message: string, options?: ErrorOptions): ServiceError =>
  new ServiceError("no_open_interrupt", message, options);
