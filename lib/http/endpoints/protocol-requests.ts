/** Protocol requests: the runs of one request of an agent protocol. The endpoints share this. */
import { ServiceError } from "../../errors.ts";
import { type Interrupt, ResumeError } from "../../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../json.ts";
import type { Run, RunOrigin } from "../../runs/mod.ts";
import type { RequestResources, Resources } from "../../service/resources.ts";
import type { Thread } from "../../threads/mod.ts";

/** The protocol of a request, stored as `metadata.created_by` of its runs. */
export type AgentProtocol = "mcp" | "ai" | "ag-ui" | "a2a";

/**
 * Creates the metadata of a run that a protocol starts. `task_id` is the first run of the request; later runs need it.
 */
export const createRequestMetadata = (created_by: AgentProtocol, task_id?: string): JsonObject => ({
  created_by,
  ...(task_id === undefined ? {} : { task_id }),
});

/** The progress of a protocol request. */
export interface ProtocolRequestState {
  readonly firstRun: Run;
  /** The newest run: the first one, or the last that resumed it. Any client can have created it. */
  readonly newestRun: Run;
  /** The pending interrupts. Empty while a run is active, and once the thread continued without a resume value. */
  readonly pending: readonly Interrupt[];
  /** True if the thread continued with another input. */
  readonly isSuperseded: boolean;
  /** The thread with its time to live and without its state. */
  readonly thread: Thread;
}

type ProtocolResources = Pick<RequestResources, "runs" | "threads">;

/** The maximum number of resuming runs that are read. */
const MAX_RESUMING_RUNS = 1000;
const PAGE_SIZE = 20;

export const isActive = ({ status }: Pick<Run, "status">): boolean => status === "pending" || status === "running";

/** Returns the run without `kwargs`, so that a waiting request does not retain a large input. */
export const omitKwargs = (run: Run): Run => ({ ...run, kwargs: {} });

/** Returns true for a run that resumes. Runs of the studio and of API clients have no task in their metadata. */
export const isResumingRun = ({ kwargs }: Pick<Run, "kwargs">): boolean =>
  isObject(kwargs.command) && kwargs.command.resume !== undefined;

/**
 * Reads the newest run of a protocol request, its thread, and its pending interrupts, which are none while a run is
 * active and once the thread went on with another input. Reads again if a run started meanwhile. Throws `not_found` if
 * the thread is deleted or hidden from the caller.
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
    const isConsistent = isSuperseded || isActive(newestRun) || (thread.status !== "busy" && interrupts.length === 0);
    // Reads again if a run started between the two reads: its interrupts must not get the client's resume value.
    if (!isConsistent && (await runs.list(thread_id, { after: newestRun.run_id, limit: 1 })).length > 0) continue;
    const isWaiting = !isSuperseded && newestRun.status === "success" && thread.status !== "busy";
    return { firstRun, newestRun, pending: isWaiting ? interrupts : [], isSuperseded, thread };
  }
}

/**
 * Returns the newest run of a request, from one of its runs on: the last of the resuming runs that follow it without
 * another input. `isSuperseded` is true if the thread continued with another input.
 */
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

/** Returns true if the run was cancelled or the interrupts were dismissed. */
export const isCancelled = ({ firstRun, newestRun, thread }: ProtocolRequestState): boolean =>
  newestRun.status === "interrupted" || thread.metadata.task_cancelled === firstRun.run_id;

/**
 * Cancels the active run of a request and waits for its end. If the request waits for interrupts instead, writes `task_cancelled` to the
 * metadata of its thread. Both dismiss the interrupts. Does nothing for a request that has ended. Throws `not_found`.
 */
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

/**
 * Dismisses pending interrupts by ending the graph, including those that are pending again because the run that resumed
 * them was cancelled. Does nothing if the thread has none or another client has resumed. Throws `not_found`.
 */
export async function dismissInterrupts(
  { threads }: Pick<ProtocolResources, "threads">,
  thread_id: string,
): Promise<void> {
  const { status, interrupts } = await threads.get(thread_id, { state: false });
  if (status !== "interrupted" || Object.keys(interrupts).length === 0) return;
  await threads.updateState(thread_id, { values: null, as_node: "__end__" }).catch((error: unknown) => {
    // Another client resumed first, which also removes the interrupts.
    if (!(error instanceof ServiceError && error.reason === "thread_busy")) throw error;
  });
}

/** The error of a request whose interrupt was never answered. Clients see this value. */
export const UNANSWERED_ERROR = "QuestionLapsed";

/**
 * Returns the result of the newest run as `join` does, also `{ __error__ }` of a failed run; waits for a run that is active. After
 * a later input, reads the values at the run's checkpoint. An interrupt that the thread continued without becomes an `__error__`.
 */
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

export const filterInterrupts = (list: readonly Json[]): readonly Interrupt[] =>
  list.filter((entry): entry is Interrupt => isObject(entry) && typeof entry.id === "string");

/** Returns the idempotency key of a run that resumes `newest`. All resume attempts get the same run, unless their `message_id` differs. */
export const createResumeOrigin = (newestRun: Run, message_id = ""): Pick<RunOrigin, "idempotency"> => ({
  idempotency: { route: "answer", key: `answer:${newestRun.run_id}${message_id}`, body_hash: "" },
});

/** Returns the pending interrupts in a result of `wait` or `join`, or an empty list. */
export const readInterrupts = (result: Json): readonly Interrupt[] => {
  const list = isObject(result) ? result.__interrupt__ : undefined;
  return Array.isArray(list) ? filterInterrupts(list) : [];
};

/**
 * Throws `not_found` if the assistant does not exist for the caller. Reads nothing for a run of this assistant, which is
 * named by its id or its graph. Accepts a run of another assistant.
 */
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

/**
 * Returns the answer counts that a resuming run expects, by interrupt id; 0 for an interrupt without one. Before LangGraph 1.5, two interrupts of a node share an id and differ in this
 * number.
 */
export const toExpectedAnswers = (interrupts: readonly Interrupt[]): Readonly<Record<string, number>> =>
  Object.fromEntries(interrupts.map(({ id, answered }) => [id, typeof answered === "number" ? answered : 0]));

/** Returns true if a run failed to resume because its interrupt is answered or no longer exists. */
export const isNoLongerPending = (error: unknown): error is ServiceError =>
  error instanceof ServiceError &&
  (error.reason === "interrupt_already_answered" ||
    error.reason === "no_open_interrupt" ||
    error.cause instanceof ResumeError);

/**
 * Throws if `error` says that a run resumed too late: a ServiceError with a text for people, and `error` as its cause. With the
 * `run_id` of the run that was faster it has the reason and the `run_id` of `error`, else the reason `no_open_interrupt`. Returns
 * for other errors: throw them yourself.
 */
export function throwIfNoLongerPending(error: unknown): void {
  if (!isNoLongerPending(error)) return;
  const { run_id } = error;
  if (run_id === undefined) throw notPendingError("This question is not open any more", { cause: error });
  throw new ServiceError(error.reason, "This question is already answered", { cause: error, run_id });
}

export const notPendingError = (message: string, options?: ErrorOptions): ServiceError =>
  new ServiceError("no_open_interrupt", message, options);
