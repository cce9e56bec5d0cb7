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

/** The run or request on whose behalf the code of the project executes. */
interface CallerContext {
  readonly api: Api;
  readonly run: Pick<Job, "run_id" | "thread_id"> | null;
  /** The user of custom authentication who created the run; null without one. */
  readonly user: AuthUser | null;
  /** The headers of the request; null in a run. */
  readonly headers: Headers | null;
  /** The run has ended. */
  hasEnded: boolean;
}

interface Api {
  handler: Handler | null;
  readonly users: WeakMap<Request, AuthUser>;
}

const callerContexts = new AsyncLocalStorage<CallerContext | undefined>();

/** Returns the run in which the calling code executes; null outside of runs. */
export const getCurrentRun = (): CallerContext["run"] => callerContexts.getStore()?.run ?? null;

export interface LocalApi {
  /** Wraps an executor so that calls from its runs act for the user who created the run. */
  wrapExecutor(executor: Executor): Executor;
  /** Wraps a handler so that calls from its requests act for the caller of the request. */
  wrapHandler(handler: Handler): Handler;
  /** Returns the user for whom a local call acts; an option of the handler that answers these calls. */
  readonly acts_for: (request: Request) => AuthUser | null;
  /** Calls are answered from now on. */
  serve(handler: Handler): void;
  /** Removes what stands on `globalThis`. */
  close(): void;
}

/**
 * Puts the `fetch` and the base URL by which clients of LangGraph's SDK call this server on `globalThis`, until
 * `close`. Calls before `serve` get a response with status 503.
 */
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

/**
 * Returns the executor with a context around each run, by which requests of the graph to its own server act for the run's caller.
 * The context ends with the run.
 */
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

/**
 * Returns an object whose methods call those of the state without a caller. States are read for many callers at once,
 * so none of them may be acted for.
 */
function runWithoutCaller(state: GraphState): GraphState {
  const methods = Object.entries(state).map(([name, method]) => [
    name,
    (...args: unknown[]) => callerContexts.run(undefined, () => method.apply(state, args)),
  ]);
  return Object.fromEntries(methods) as GraphState;
}

const createRefusal = (code: "forbidden" | "unavailable", detail: string): Response =>
  Response.json({ detail, code }, { status: code === "forbidden" ? 403 : 503 });

/** Creates the `fetch` of a client that was created in this context, or outside of any. */
function fetchFrom(context: CallerContext | undefined, defaultApi: Api): typeof fetch {
  /**
   * Answers a request to the own server without the network. Responds 503 before the server is up, and 403 where the caller of
   * the run cannot be passed on.
   */
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

/**
 * Returns why a client may not act for its caller here and now: it runs in another run or request, or its run has
 * ended. Undefined if it may, and for a client without a user.
 */
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

/**
 * Changes the request to what the caller would have sent, and returns the same object: removes `x-api-key`, which the
 * SDK may take from the environment, and sets the caller's headers that may carry credentials.
 */
function withCaller(request: Request, caller: Headers): Request {
  request.headers.delete("x-api-key");
  for (const [name, value] of caller) if (isCredentialHeader(name)) request.headers.set(name, value);
  return request;
}

/**
 * Returns true for a header that may carry a credential, judged by its name: every `x-` header, and names with words
 * such as `auth` or `token`. `idempotency-key` and `sec-` headers are none.
 */
const isCredentialHeader = (header: string): boolean =>
  header !== "idempotency-key" &&
  !header.startsWith("sec-") &&
  (header.startsWith("x-") || /auth|token|secret|passw|credential|cookie|signature|jwt|bearer|key$/.test(header));

/**
 * Calls the handler and resolves with its response, like `fetch`. The signal of the request rejects the wait and ends
 * the response body; the body of a response that comes later is cancelled. The handler itself is not stopped.
 */
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
