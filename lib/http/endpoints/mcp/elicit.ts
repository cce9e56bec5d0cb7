/** Questions to clients with `initialize`: requests on the open answer of a call. Any process takes the replies. */
import { nullIfNotFound, ServiceError } from "../../../errors.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import type { Run } from "../../../runs/mod.ts";
import type { RequestContext } from "../../route.ts";
import { type CallState, cancelCall, isActive, isCancelled, readCall, withoutRequest } from "../calls.ts";
import { errorIn } from "../messages.ts";
import { watchThreads } from "../watch.ts";
import { askedOf, inputRequests, replyOf } from "./answers.ts";
import { firstRun, runsOfState, stateOfCall } from "./call-state.ts";
import type { RequestHead } from "./protocol.ts";
import type { RpcId, RpcMessage } from "./requests.ts";
import { answerCall, resumeCall, unansweredOf } from "./resume.ts";
import { isOfSession, readSession, requestKey } from "./session.ts";

/** What an open answer sends before its result. */
export type Sent =
  | { readonly kind: "request"; readonly message: JsonObject }
  /** Progress is that of this run from now on. */
  | { readonly kind: "run"; readonly run: Run };

/** The open answer of a call whose client can be asked. */
export class OpenAnswer {
  left = false;
  #unsent: Sent[] = [];
  #take: ((sent: Sent) => void) | undefined;
  #release = (): void => {};

  send(sent: Sent): void {
    if (this.#take) this.#take(sent);
    else this.#unsent.push(sent);
  }

  /** Takes what is sent, and what was. */
  listen(take: (sent: Sent) => void): void {
    this.#take = take;
    for (const sent of this.#unsent.splice(0)) take(sent);
  }

  /** `release`: called when the client hangs up. */
  hold(release: () => void): void {
    this.#release = release;
    if (this.left) release();
  }

  leave(): void {
    this.left = true;
    this.#release();
  }
}

/** The hub ends all logs at shutdown, though the run goes on. */
export const isStopping = (result: Json): boolean => errorIn(result)?.error === "ServerStopping";

/** The thread's note on a run whose questions the person did not answer: its call has been answered with the handle. */
const CLOSED = "mcp_closed";
const isClosed = ({ newest, thread }: CallState): boolean => thread.metadata[CLOSED] === newest.run_id;

const PREFIX = "elicit:";
const questionId = (first: Run, newest: Run, at: number): string => `${PREFIX}${stateOfCall(first, newest)}.${at}`;

/** Up to 2025-11-25 a page has an id of its own. */
function messageOf(id: string, { params = null, ...request }: JsonObject): JsonObject {
  const page: JsonObject = isObject(params) && params.mode === "url" ? { elicitationId: id } : {};
  return { jsonrpc: "2.0", id, ...request, ...(isObject(params) ? { params: { ...params, ...page } } : {}) };
}

/**
 * Asks the client, and waits until the call has ended, or cannot be answered on this connection. How far it has come then; null when
 * the server stops while a run of the call goes on.
 */
export async function askOpenly(
  context: RequestContext,
  request: RequestHead,
  first: Run,
  answer: OpenAnswer,
): Promise<CallState | null> {
  const { nouns } = context;
  const watch = watchThreads(context, [first.thread_id]);
  let asked = "";
  let last: CallState | null = null;

  /** How far the call has come once no run of it is active; null when the server stops. */
  async function idleCall(): Promise<CallState | null> {
    for (;;) {
      const call = await readCall(nouns, await nouns.runs.get(first.thread_id, first.run_id));
      const { thread_id, run_id } = call.newest;
      if (!isActive(call.newest)) return call;
      last = null;
      const { result, leave } = await nouns.runs.join(thread_id, run_id);
      answer.hold(() => {
        leave();
        watch.close();
      });
      answer.send({ kind: "run", run: withoutRequest(call.newest) });
      if (isStopping(await result)) return null;
      answer.hold(watch.close);
    }
  }

  /** Asks what is open. Undefined while the client is asked. A function of its own: what it reads is not kept meanwhile. */
  async function ask(): Promise<CallState | null | undefined> {
    const call = await idleCall();
    if (!call || answer.left) return call;
    const { newest, open } = call;
    const requests = askedOf(request, open).flatMap((one) => (one.request ? [one.request] : []));
    if (open.length === 0 || requests.length < open.length || isCancelled(call) || isClosed(call)) return call;
    for (const [at, one] of asked === newest.run_id ? [] : requests.entries()) {
      answer.send({ kind: "request", message: messageOf(questionId(first, newest, at), one) });
    }
    asked = newest.run_id;
    last = { ...call, first, newest: withoutRequest(newest) };
    // The process that took the last reply may have crashed before it started the run.
    if (unansweredOf(call).length === 0) await resumeCall(context, call);
    return undefined;
  }

  answer.hold(watch.close);
  try {
    for (;;) {
      await watch.next();
      const call = await ask();
      if (call !== undefined) return call;
    }
  } catch (error) {
    if (last && error instanceof ServiceError && error.reason === "server_stopping") return last;
    throw error;
  } finally {
    watch.close();
  }
}

/** Takes a client's reply to a question. One that is forged, repeated or late changes nothing. Errors: those of a new run. */
async function takeReply(
  context: RequestContext,
  { id, result }: Extract<RpcMessage, { readonly kind: "reply" }>,
): Promise<void> {
  const [, state, at] = /^elicit:([\w-]+)\.(0|[1-9]\d{0,2})$/.exec(id) ?? [];
  const session = readSession(context.request.headers);
  const [first_id, asked] = runsOfState(state);
  if (first_id === undefined || !session) return;
  const first = await firstRun(context.nouns, first_id);
  if (!first || !(await isOfSession(first, context.principal, session))) return;
  const call = await readCall(context.nouns, first);
  const interrupt = call.open[Number(at)];
  if (!interrupt || call.newest.run_id !== asked || isCancelled(call) || isClosed(call)) return;
  if (!unansweredOf(call).includes(interrupt)) return;
  const reply = result ? replyOf(interrupt, result) : null;
  if (reply?.kind === "resume") return await answerCall(context, call, [[interrupt, reply.value]]);
  // The question stays open, and the call gets its handle.
  await context.nouns.threads.update(first.thread_id, { metadata: { [CLOSED]: asked } });
}

/** How many runs of a thread are searched for a request. */
const NEWEST = 20;

/** Cancels the call that a request of the session has begun. No effect on one that is answered. */
async function cancelRequest({ nouns, principal, request }: RequestContext, id: RpcId): Promise<void> {
  const session = readSession(request.headers);
  if (!session) return;
  const metadata = { mcp_request: await requestKey(principal, session, id) };
  const [thread] = (await nouns.threads.search({ metadata, limit: 1, select: ["thread_id"] })).items;
  if (thread?.thread_id === undefined) return;
  const runs = await nouns.runs.list(thread.thread_id, { limit: NEWEST });
  const first = runs.find((run) => run.metadata.mcp_request === metadata.mcp_request);
  const call = first && (await readCall(nouns, first));
  if (!call) return;
  const waits = !isClosed(call) && inputRequests(askedOf(session, call.open)) !== null;
  if (isActive(call.newest) || waits) await cancelCall(nouns, call);
}

/** Takes a message that gets no answer: a reply to a question, or a cancelled request. Others have no effect. */
export async function takeNotice(context: RequestContext, message: RpcMessage): Promise<void> {
  try {
    if (message.kind === "reply") await takeReply(context, message);
    else if (message.kind === "cancel") await cancelRequest(context, message.id);
  } catch (error) {
    // Deleted or hidden meanwhile.
    nullIfNotFound(error);
  }
}
