/** Questions to clients with `initialize`: requests on the open answer of a call. Any process takes the replies. */
import { nullIfNotFound, ServiceError } from "../../../errors.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import type { Run } from "../../../runs/mod.ts";
import type { RequestContext } from "../../route.ts";
import {
  cancelProtocolRequest,
  isActive,
  isCancelled,
  omitKwargs,
  type ProtocolRequestState,
  readProtocolRequest,
} from "../protocol-requests.ts";
import { findError } from "../messages.ts";
import { watchThreads } from "../watch.ts";
import { keyInputRequests, parseInputResponse, toInputRequests } from "./input-requests.ts";
import { createRequestState, findFirstRun, parseRequestState } from "./request-state.ts";
import type { McpRequestHeader } from "./protocol.ts";
import type { McpMessage, McpRequestId } from "./requests.ts";
import { addResumeEntries, listUnanswered, resumeProtocolRequest } from "./resume.ts";
import { belongsToSession, createRequestKey, readSession } from "./session.ts";

/** What an open answer sends before its result. */
export type StreamedMessage =
  | { readonly kind: "request"; readonly message: JsonObject }
  /** Progress is that of this run from now on. */
  | { readonly kind: "run"; readonly run: Run };

/** The open answer of a call whose client can be asked. */
export class StreamingToolResult {
  isDisconnected = false;
  #queue: StreamedMessage[] = [];
  #listener: ((message: StreamedMessage) => void) | undefined;
  #release = (): void => {};

  send(message: StreamedMessage): void {
    if (this.#listener) this.#listener(message);
    else this.#queue.push(message);
  }

  /** Takes what is sent, and what was. */
  listen(listener: (message: StreamedMessage) => void): void {
    this.#listener = listener;
    for (const message of this.#queue.splice(0)) listener(message);
  }

  /** `release`: called when the client hangs up. */
  onDisconnect(release: () => void): void {
    this.#release = release;
    if (this.isDisconnected) release();
  }

  leave(): void {
    this.isDisconnected = true;
    this.#release();
  }
}

/** The hub ends all logs at shutdown, though the run goes on. */
export const isStopping = (result: Json): boolean => findError(result)?.error === "ServerStopping";

/** The thread's note on a run whose questions the person did not answer: its call has been answered with the handle. */
const DECLINED_KEY = "mcp_closed";
const isDeclined = ({ newestRun, thread }: ProtocolRequestState): boolean =>
  thread.metadata[DECLINED_KEY] === newestRun.run_id;

const ELICIT_ID_PREFIX = "elicit:";
const createElicitId = (firstRun: Run, newestRun: Run, index: number): string =>
  `${ELICIT_ID_PREFIX}${createRequestState(firstRun, newestRun)}.${index}`;

/** Up to 2025-11-25 a page has an id of its own. */
function createRequestMessage(id: string, { params = null, ...request }: JsonObject): JsonObject {
  const urlModeMembers: JsonObject = isObject(params) && params.mode === "url" ? { elicitationId: id } : {};
  return { jsonrpc: "2.0", id, ...request, ...(isObject(params) ? { params: { ...params, ...urlModeMembers } } : {}) };
}

/**
 * Asks the client, and waits until the call has ended, or cannot be answered on this connection. How far it has come then; null when
 * the server stops while a run of the call goes on.
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

  /** How far the call has come once no run of it is active; null when the server stops. */
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

  /** Asks what is open. Undefined while the client is asked. A function of its own: what it reads is not kept meanwhile. */
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
      isDeclined(protocolRequest)
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
    // The process that took the last reply may have crashed before it started the run.
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

/** Takes a client's reply to a question. One that is forged, repeated or late changes nothing. Errors: those of a new run. */
async function handleElicitResult(
  context: RequestContext,
  { id, result }: Extract<McpMessage, { readonly kind: "reply" }>,
): Promise<void> {
  const [, state, index] = /^elicit:([\w-]+)\.(0|[1-9]\d{0,2})$/.exec(id) ?? [];
  const session = readSession(context.request.headers);
  const [first_id, interrupted_run_id] = parseRequestState(state);
  if (first_id === undefined || !session) return;
  const first = await findFirstRun(context.resources, first_id);
  if (!first || !(await belongsToSession(first, context.principal, session))) return;
  const protocolRequest = await readProtocolRequest(context.resources, first);
  const interrupt = protocolRequest.pending[Number(index)];
  if (
    !interrupt ||
    protocolRequest.newestRun.run_id !== interrupted_run_id ||
    isCancelled(protocolRequest) ||
    isDeclined(protocolRequest)
  )
    return;
  if (!listUnanswered(protocolRequest).includes(interrupt)) return;
  const response = result ? parseInputResponse(interrupt, result) : null;
  if (response?.kind === "resume")
    return await addResumeEntries(context, protocolRequest, [[interrupt, response.value]]);
  // The question stays open, and the call gets its handle.
  await context.resources.threads.update(first.thread_id, { metadata: { [DECLINED_KEY]: interrupted_run_id } });
}

/** How many runs of a thread are searched for a request. */
const MAX_SEARCHED_RUNS = 20;

/** Cancels the call that a request of the session has begun. No effect on one that is answered. */
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
    !isDeclined(protocolRequest) && keyInputRequests(toInputRequests(session, protocolRequest.pending)) !== null;
  if (isActive(protocolRequest.newestRun) || isElicited) await cancelProtocolRequest(resources, protocolRequest);
}

/** Takes a message that gets no answer: a reply to a question, or a cancelled request. Others have no effect. */
export async function handleNotification(context: RequestContext, message: McpMessage): Promise<void> {
  try {
    if (message.kind === "reply") await handleElicitResult(context, message);
    else if (message.kind === "cancel") await cancelRequest(context, message.id);
  } catch (error) {
    // Deleted or hidden meanwhile.
    nullIfNotFound(error);
  }
}
