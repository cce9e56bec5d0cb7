/** Elicitation for clients with `initialize`: requests on the open response of a tool call. Any process handles the responses. */
import { nullIfNotFound, ServiceError } from "../../../errors.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import type { Run } from "../../../runs/mod.ts";
import type { RequestContext } from "../../route.ts";
import { findError } from "../messages.ts";
import {
  cancelProtocolRequest,
  isActive,
  isCancelled,
  omitKwargs,
  type ProtocolRequestState,
  readProtocolRequest,
} from "../protocol-requests.ts";
import { watchThreads } from "../watch.ts";
import { keyInputRequests, parseInputResponse, toInputRequests } from "./input-requests.ts";
import type { McpRequestHeader } from "./protocol.ts";
import { createRequestState, findFirstRun, parseRequestState } from "./request-state.ts";
import type { McpMessage, McpRequestId } from "./requests.ts";
import { addResumeEntries, listUnanswered, resumeProtocolRequest } from "./resume.ts";
import { belongsToSession, createRequestKey, readSession } from "./session.ts";

/** A message on the open response before the result. */
export type StreamedMessage =
  | { readonly kind: "request"; readonly message: JsonObject }
  /** The run whose progress is reported from now on. */
  | { readonly kind: "run"; readonly run: Run };

/** The open response of a tool call whose client can be elicited. */
export class StreamingToolResult {
  isDisconnected = false;
  #queue: StreamedMessage[] = [];
  #listener: ((message: StreamedMessage) => void) | undefined;
  #release = (): void => {};

  /** Passes a message to the stream; before the stream has started, queues it. */
  send(message: StreamedMessage): void {
    if (this.#listener) this.#listener(message);
    else this.#queue.push(message);
  }

  /** Calls `listener` with queued messages, then with each new one. */
  listen(listener: (message: StreamedMessage) => void): void {
    this.#listener = listener;
    for (const message of this.#queue.splice(0)) listener(message);
  }

  /**
   * Calls `release` when the client disconnects; at once if it already has. Replaces the function that was set before.
   */
  onDisconnect(release: () => void): void {
    this.#release = release;
    if (this.isDisconnected) release();
  }

  /** Marks the client as disconnected and calls the function of `onDisconnect`. */
  leave(): void {
    this.isDisconnected = true;
    this.#release();
  }
}

/** Returns true for the result of a server that is stopping. The run continues. */
export const isStopping = (result: Json): boolean => findError(result)?.error === "ServerStopping";

/** The key in the thread's metadata of a run whose interrupts the user did not answer. Its call was answered with the handle. */
const UNANSWERED_KEY = "mcp_closed";
const isLeftUnanswered = ({ newestRun, thread }: ProtocolRequestState): boolean =>
  thread.metadata[UNANSWERED_KEY] === newestRun.run_id;

const ELICIT_ID_PREFIX = "elicit:";
const createElicitId = (firstRun: Run, newestRun: Run, index: number): string =>
  `${ELICIT_ID_PREFIX}${createRequestState(firstRun, newestRun)}.${index}`;

/**
 * Creates the JSON-RPC request to the client. A request in URL mode gets `id` as `elicitationId`, which versions up to
 * 2025-11-25 need.
 */
function createRequestMessage(id: string, { params = null, ...request }: JsonObject): JsonObject {
  const urlModeMembers: JsonObject = isObject(params) && params.mode === "url" ? { elicitationId: id } : {};
  return { jsonrpc: "2.0", id, ...request, ...(isObject(params) ? { params: { ...params, ...urlModeMembers } } : {}) };
}

/**
 * Elicits input until the call has ended, or cannot be continued on this connection. Returns its state then; null if the server stops
 * while a run is active.
 */
export async function elicitUntilDone(
  context: RequestContext,
  request: McpRequestHeader,
  firstRun: Run,
  streamingResult: StreamingToolResult,
): Promise<ProtocolRequestState | null> {
  const { resources } = context;
  const watch = watchThreads(context, [firstRun.thread_id]);
  let elicitedRunId = "";
  let lastState: ProtocolRequestState | null = null;

  /**
   * Waits until no run of the call is active, and sends each of its runs to the response. A disconnect leaves the run
   * and ends the watch. Forgets `lastState` while a run is active. Returns the state of the call, or null if the server
   * stops.
   */
  async function waitUntilIdle(): Promise<ProtocolRequestState | null> {
    for (;;) {
      const protocolRequest = await readProtocolRequest(
        resources,
        await resources.runs.get(firstRun.thread_id, firstRun.run_id),
      );
      const { thread_id, run_id } = protocolRequest.newestRun;
      if (!isActive(protocolRequest.newestRun)) return protocolRequest;
      lastState = null;
      const { result, leave } = await resources.runs.join(thread_id, run_id);
      streamingResult.onDisconnect(() => {
        leave();
        watch.close();
      });
      streamingResult.send({ kind: "run", run: omitKwargs(protocolRequest.newestRun) });
      if (isStopping(await result)) return null;
      streamingResult.onDisconnect(watch.close);
    }
  }

  /**
   * Waits for the active run, then sends pending interrupts as requests, each once, or resumes the call if all are
   * answered. Returns undefined and keeps `lastState` while the client is elicited. Returns the state with which
   * elicitation ends: none is pending, one cannot be elicited, or the client has left.
   */
  async function elicitPending(): Promise<ProtocolRequestState | null | undefined> {
    const protocolRequest = await waitUntilIdle();
    if (!protocolRequest || streamingResult.isDisconnected) return protocolRequest;
    const { newestRun, pending } = protocolRequest;
    const requests = toInputRequests(request, pending).flatMap((inputRequest) =>
      inputRequest.request ? [inputRequest.request] : [],
    );
    if (
      pending.length === 0 ||
      requests.length < pending.length ||
      isCancelled(protocolRequest) ||
      isLeftUnanswered(protocolRequest)
    )
      return protocolRequest;
    for (const [index, elicitation] of elicitedRunId === newestRun.run_id ? [] : requests.entries()) {
      streamingResult.send({
        kind: "request",
        message: createRequestMessage(createElicitId(firstRun, newestRun, index), elicitation),
      });
    }
    elicitedRunId = newestRun.run_id;
    lastState = { ...protocolRequest, firstRun, newestRun: omitKwargs(newestRun) };
    // The process that handled the last response may have crashed before it started the run.
    if (listUnanswered(protocolRequest).length === 0) await resumeProtocolRequest(context, protocolRequest);
    return undefined;
  }

  streamingResult.onDisconnect(watch.close);
  try {
    for (;;) {
      await watch.next();
      const protocolRequest = await elicitPending();
      if (protocolRequest !== undefined) return protocolRequest;
    }
  } catch (error) {
    if (lastState && error instanceof ServiceError && error.reason === "server_stopping") return lastState;
    throw error;
  } finally {
    watch.close();
  }
}

/**
 * Handles the response to an elicitation: stores the answer and resumes the call once all are answered. If the user
 * closed the form or the response is invalid, marks the interrupts in the thread as left unanswered, and the call ends
 * with a handle. Ignores a response that is forged, repeated or late. Throws the errors of a new run.
 */
async function handleElicitResult(
  context: RequestContext,
  { id, result }: Extract<McpMessage, { readonly kind: "reply" }>,
): Promise<void> {
  const [, state, index] = /^elicit:([\w-]+)\.(0|[1-9]\d{0,2})$/.exec(id) ?? [];
  const session = readSession(context.request.headers);
  const [first_id, interrupted_run_id] = parseRequestState(state);
  if (first_id === undefined || !session) return;
  const firstRun = await findFirstRun(context.resources, first_id);
  if (!firstRun || !(await belongsToSession(firstRun, context.principal, session))) return;
  const protocolRequest = await readProtocolRequest(context.resources, firstRun);
  const interrupt = protocolRequest.pending[Number(index)];
  if (
    !interrupt ||
    protocolRequest.newestRun.run_id !== interrupted_run_id ||
    isCancelled(protocolRequest) ||
    isLeftUnanswered(protocolRequest)
  )
    return;
  if (!listUnanswered(protocolRequest).includes(interrupt)) return;
  const response = result ? parseInputResponse(interrupt, result) : null;
  if (response?.kind === "resume")
    return await addResumeEntries(context, protocolRequest, [[interrupt, response.value]]);
  // The interrupt stays pending, and the call ends with a handle to continue.
  await context.resources.threads.update(firstRun.thread_id, { metadata: { [UNANSWERED_KEY]: interrupted_run_id } });
}

/** The number of runs of a thread that are searched for a request. */
const MAX_SEARCHED_RUNS = 20;

/**
 * Stops the runs of the tool call that the session requested with this id, if one is active or the client is elicited.
 * Does nothing for a call that was answered or is unknown.
 */
async function cancelRequest({ resources, principal, request }: RequestContext, id: McpRequestId): Promise<void> {
  const session = readSession(request.headers);
  if (!session) return;
  const metadata = { mcp_request: await createRequestKey(principal, session, id) };
  const [thread] = (await resources.threads.search({ metadata, limit: 1, select: ["thread_id"] })).items;
  if (thread?.thread_id === undefined) return;
  const runs = await resources.runs.list(thread.thread_id, { limit: MAX_SEARCHED_RUNS });
  const firstRun = runs.find((run) => run.metadata.mcp_request === metadata.mcp_request);
  const protocolRequest = firstRun && (await readProtocolRequest(resources, firstRun));
  if (!protocolRequest) return;
  const isElicited =
    !isLeftUnanswered(protocolRequest) && keyInputRequests(toInputRequests(session, protocolRequest.pending)) !== null;
  if (isActive(protocolRequest.newestRun) || isElicited) await cancelProtocolRequest(resources, protocolRequest);
}

/** Handles a message without a response: the response to an elicitation, or a cancellation. Ignores others, and deleted threads. */
export async function handleNotification(context: RequestContext, message: McpMessage): Promise<void> {
  try {
    if (message.kind === "reply") await handleElicitResult(context, message);
    else if (message.kind === "cancel") await cancelRequest(context, message.id);
  } catch (error) {
    // The thread was deleted or hidden meanwhile.
    nullIfNotFound(error);
  }
}
