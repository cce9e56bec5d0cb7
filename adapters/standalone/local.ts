/**
 * The server as its own graphs and routes reach it: `new Client()` of the LangGraph SDK without a URL asks whatever stands on
 * `globalThis` under two symbols, without a socket.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { ExecutorEvent, GraphState, Job } from "../../lib/executor/contract.ts";
import type { Handler } from "../../lib/http/handler.ts";
import type { AuthUser, Executor } from "../../lib/mod.ts";

const FETCH_SYMBOL = Symbol.for("langgraph_api:fetch");
const URL_SYMBOL = Symbol.for("langgraph_api:url");
/** Nothing is connected to: calls only need something to start with. */
const BASE_URL = "http://localhost";

/** Where the host's code is at work, and for whom. */
interface CallerContext {
  readonly api: Api;
  readonly run: Pick<Job, "run_id" | "thread_id"> | null;
  /** Of a run that somebody made whom custom authentication knows. */
  readonly user: AuthUser | null;
  /** Of a request: what its caller has sent. */
  readonly headers: Headers | null;
  /** The run has ended. */
  hasEnded: boolean;
}

interface Api {
  handler: Handler | null;
  readonly users: WeakMap<Request, AuthUser>;
}

const callerContexts = new AsyncLocalStorage<CallerContext | undefined>();

/** The run that the code at work belongs to. */
export const getCurrentRun = (): CallerContext["run"] => callerContexts.getStore()?.run ?? null;

export interface LocalApi {
  /** Runs act for who made them. */
  wrapExecutor(executor: Executor): Executor;
  /** What a request leads to acts for its caller. */
  wrapHandler(handler: Handler): Handler;
  /** For the handler that answers calls: whom they act for. */
  readonly acts_for: (request: Request) => AuthUser | null;
  /** Calls are answered from now on. */
  serve(handler: Handler): void;
  /** Removes what stands on `globalThis`. */
  close(): void;
}

/** Stands on `globalThis` from now on; calls before `serve` are answered with 503. */
export function createLocalApi(): LocalApi {
  const api: Api = { handler: null, users: new WeakMap() };
  // A client takes it when it is made, and with it the place where that happens.
  const getFetch = (): typeof fetch => fetchFrom(callerContexts.getStore(), api);
  Object.defineProperty(globalThis, FETCH_SYMBOL, { configurable: true, get: getFetch });
  Object.defineProperty(globalThis, URL_SYMBOL, { configurable: true, value: BASE_URL });
  return {
    wrapExecutor: (executor) => wrapExecutorCalls(api, executor),
    wrapHandler: (handler) => (request, host) => {
      const { headers } = request;
      return callerContexts.run({ api, run: null, user: null, headers, hasEnded: false }, () => handler(request, host));
    },
    acts_for: (request) => api.users.get(request) ?? null,
    serve(handler) {
      api.handler = handler;
    },
    close() {
      api.handler = null;
      if (Object.getOwnPropertyDescriptor(globalThis, FETCH_SYMBOL)?.get !== getFetch) return;
      for (const name of [FETCH_SYMBOL, URL_SYMBOL]) Reflect.deleteProperty(globalThis, name);
    },
  };
}

function wrapExecutorCalls(api: Api, executor: Executor): Executor {
  return {
    graphs: () => executor.graphs(),
    ...(executor.versions && { versions: () => executor.versions?.() ?? Promise.resolve({}) }),
    execute(job, signal, environment) {
      const { run_id, thread_id, user } = job;
      const context: CallerContext = { api, run: { run_id, thread_id }, user, headers: null, hasEnded: false };
      const events = callerContexts.run(context, () =>
        executor.execute(job, signal, environment)[Symbol.asyncIterator](),
      );
      const markEnded = (): void => {
        context.hasEnded = true;
      };
      // Made once: there is a step for each token.
      const readNext = (): Promise<IteratorResult<ExecutorEvent>> => events.next();
      const endIfDone = ({ done }: IteratorResult<ExecutorEvent>): void => {
        if (done) markEnded();
      };
      return {
        [Symbol.asyncIterator]: () => ({
          next() {
            const step = callerContexts.run(context, readNext);
            step.then(endIfDone, markEnded);
            return step;
          },
          async return(value) {
            const last = await callerContexts.run(context, async () => events.return?.(value)).finally(markEnded);
            return last ?? { done: true, value: undefined };
          },
        }),
      };
    },
    state(graph_id) {
      const state = executor.state?.(graph_id) ?? null;
      return state && runWithoutCaller(state);
    },
  };
}

/** States are read for anybody, also in the background: whoever happens to be the reason must not be acted for. */
function runWithoutCaller(state: GraphState): GraphState {
  const methods = Object.entries(state).map(([name, method]) => [
    name,
    (...args: unknown[]) => callerContexts.run(undefined, () => method.apply(state, args)),
  ]);
  return Object.fromEntries(methods) as GraphState;
}

const createRefusal = (code: "forbidden" | "unavailable", detail: string): Response =>
  Response.json({ detail, code }, { status: code === "forbidden" ? 403 : 503 });

/** What a client calls that was made at this place, or at none. */
function fetchFrom(context: CallerContext | undefined, defaultApi: Api): typeof fetch {
  const call = async (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    const { handler, users } = context?.api ?? defaultApi;
    if (!handler)
      return createRefusal("unavailable", "The server is not up: its API can be called once it has started");
    const request = new Request(input, init);
    if (!context) return await callHandler(handler, request);
    const reason = findReasonToRefuse(context);
    if (reason !== undefined) return createRefusal("forbidden", reason);
    if (context.headers) return await callHandler(handler, withCaller(request, context.headers));
    if (context.user) users.set(request, context.user);
    return await callHandler(handler, request);
  };
  return call as typeof fetch;
}

/** Returns why a Client that acts for a caller may not act for it here and now, or undefined. */
function findReasonToRefuse(context: CallerContext): string | undefined {
  if (!context.user && !context.headers) return undefined;
  // Clients put calls into a queue, which may go on at another place: it must not act for another caller there.
  const current = callerContexts.getStore();
  if (current && current !== context)
    return "This Client was made in another run or request: make one in each, or give it an apiUrl";
  return context.hasEnded
    ? "The run that made this Client has ended, so the Client has no user any more. Make a new Client in each run"
    : undefined;
}

/** The request as the caller would have sent it. The SDK's own key may come from the environment, and be worth more than theirs. */
function withCaller(request: Request, caller: Headers): Request {
  request.headers.delete("x-api-key");
  for (const [name, value] of caller) if (isCredentialHeader(name)) request.headers.set(name, value);
  return request;
}

const isCredentialHeader = (header: string): boolean =>
  header !== "idempotency-key" &&
  !header.startsWith("sec-") &&
  (header.startsWith("x-") || /auth|token|secret|passw|credential|cookie|signature|jwt|bearer|key$/.test(header));

/** As `fetch`: the caller's signal ends the wait, and the body. */
async function callHandler(handler: Handler, request: Request): Promise<Response> {
  const { signal } = request;
  signal.throwIfAborted();
  const pending = Promise.resolve(handler(request));
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  try {
    const response = await Promise.race([pending, aborted.promise]);
    const { body, status, statusText, headers } = response;
    if (!body) return response;
    return new Response(body.pipeThrough(new TransformStream(), { signal }), { status, statusText, headers });
  } catch (error) {
    pending.then((late) => late.body?.cancel()).catch(() => {});
    throw error;
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
