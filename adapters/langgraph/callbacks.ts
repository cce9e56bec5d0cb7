/** Callback handlers of LangChain, and how they reach what runs in nodes. */
import { isMessagesHandler } from "./langgraph-internals.ts";

/** The methods of a LangChain callback handler. */
export type Callbacks = { readonly [method: `handle${string}`]: (...args: never[]) => void };

/** The name of this adapter's handlers. */
export const HANDLER_NAME = "greenroom";

/**
 * Combines handlers to one that calls all of them in order, because LangChain creates several promises for every handler and
 * token. Return values are dropped; the first handler that throws keeps the following ones from being called.
 */
export function combineHandlers(handlers: readonly Callbacks[]): object {
  const calls = new Map<string, ((...args: unknown[]) => void)[]>();
  for (const [method, call] of handlers.flatMap((handler) => Object.entries(handler))) {
    calls.set(method, [...(calls.get(method) ?? []), call as (...args: unknown[]) => void]);
  }
  const methods = [...calls].map(([method, methodCalls]) => [
    method,
    (...args: unknown[]): void => {
      for (const call of methodCalls) call(...args);
    },
  ]);
  // LangChain creates a promise for each chain that a handler does not ignore.
  const ignoreChain = ![...calls.keys()].some((name) => name.startsWith("handleChain"));
  return { ...Object.fromEntries(methods), name: HANDLER_NAME, awaitHandlers: true, ignoreChain };
}

/** The callbacks of one node. The runs inside the node inherit them. */
export interface CallbackManager {
  handlers: readonly object[];
  inheritableHandlers: readonly object[];
}

const isGreenroomHandler = (handler: object): boolean => (handler as { readonly name?: unknown }).name === HANDLER_NAME;

/** Returns the `handle…` methods of an object and of its class, bound to it. Those of base classes are not included. */
export function bindMethods(handler: object): Callbacks {
  const names = [handler, Object.getPrototypeOf(handler) as object].flatMap((owner) =>
    Object.getOwnPropertyNames(owner),
  );
  const bindMethod = (name: string): unknown =>
    (handler as Record<string, { bind(thisArgument: object): unknown }>)[name]?.bind(handler);
  const calls = names.filter((name) => name.startsWith("handle")).map((name) => [name, bindMethod(name)]);
  return Object.fromEntries(calls) as Callbacks;
}

/** The constructor of LangChain's CallbackManager. */
export type CallbackManagerClass = new (
  parent_run_id: string,
  handlers: { readonly handlers: object[]; readonly inheritableHandlers: object[] },
) => CallbackManager;

/**
 * Returns a function that changes the config in place, so that its callbacks include the handler. It is for configs of nodes, not
 * of the run: with callbacks, LangChain copies them and their metadata for each part of each step. A config without callbacks
 * gets a new manager; one whose callbacks are a plain list stays as it is.
 */
export function createCallbackAdder(
  handler: object,
  Manager: CallbackManagerClass,
  run_id: string,
): (config: { callbacks?: unknown }) => void {
  const withHandler = createHandlerAdder(handler);
  return (config) => {
    const { handlers, inheritableHandlers } = (config.callbacks ?? {}) as Partial<CallbackManager>;
    if (handlers && inheritableHandlers) {
      const manager = config.callbacks as CallbackManager;
      manager.handlers = withHandler(handlers);
      manager.inheritableHandlers = withHandler(inheritableHandlers);
    } else if (!config.callbacks) {
      // Events that nodes dispatch must name their run.
      config.callbacks = new Manager(run_id, { handlers: [handler], inheritableHandlers: [handler] });
    }
  };
}

/**
 * Returns a function that adds the handler to a list. Merges it into a handler of the list, because each further
 * handler costs promises for every token. Caches each combination, so that a retried node has the list of its first
 * attempt.
 */
function createHandlerAdder(handler: object): (handlers: readonly object[]) => readonly object[] {
  const combinedByHandler = new Map<object, object>([[handler, handler]]);
  const combinedWithMessages = new Map<object, object>();

  function withHandler(greenroomHandler: object): object {
    const cached = combinedByHandler.get(greenroomHandler);
    if (cached) return cached;
    const combinedHandler = combineHandlers([bindMethods(greenroomHandler), bindMethods(handler)]);
    combinedByHandler.set(greenroomHandler, combinedHandler).set(combinedHandler, combinedHandler);
    return combinedHandler;
  }

  /**
   * Merges LangGraph's handler of mode `messages`: LangChain queues each token for a handler that it does not await.
   */
  function withMessages(messages: object, greenroomHandler: object): object {
    const cached = combinedWithMessages.get(messages);
    if (cached) return cached;
    const combinedHandler = {
      ...combineHandlers([bindMethods(greenroomHandler), bindMethods(messages)]),
      lc_prefer_streaming: true,
    };
    combinedWithMessages.set(messages, combinedHandler);
    combinedByHandler.set(combinedHandler, combinedHandler);
    return combinedHandler;
  }

  return (handlers) => {
    const list = handlers.map((listedHandler) =>
      isGreenroomHandler(listedHandler) ? withHandler(listedHandler) : listedHandler,
    );
    // Tracers add callbacks to a run without a handler of this adapter.
    if (!list.some(isGreenroomHandler)) list.push(handler);
    const messages = list.find(isMessagesHandler);
    const greenroomHandler = list.find(isGreenroomHandler);
    if (!messages || !greenroomHandler) return list;
    const combinedHandler = withMessages(messages, greenroomHandler);
    return list
      .filter((listedHandler) => listedHandler !== greenroomHandler)
      .map((listedHandler) => (listedHandler === messages ? combinedHandler : listedHandler));
  };
}

/** The metadata of LangChain runs. */
export type Metadata = Readonly<Record<string, unknown>>;

/** The positional arguments of LangChain's handlers. */
export type ChainStart = [
  ...[chain: unknown, input: unknown, run_id: string, parent?: string],
  ...[tags?: unknown, metadata?: Metadata, type?: unknown, name?: string],
];
export type ToolStart = [
  ...[tool: unknown, input: unknown, run_id: string, parent?: string],
  ...[tags?: unknown, metadata?: Metadata, name?: string, call_id?: string],
];
export type RetrieverStart = [
  ...[retriever: unknown, query: string, run_id: string, parent?: string],
  ...[tags?: unknown, metadata?: Metadata, name?: string],
];
export type ChatModelStart = [
  ...[model: unknown, messages: unknown, run_id: string, parent?: string],
  ...[extra?: unknown, tags?: unknown, metadata?: Metadata, name?: string],
];

/** The parent runs of LangChain events, which name only their own run. */
export interface RunParents {
  readonly callbacks: Callbacks;
  /** Returns the runs that contain the run of this event, outermost first. Forgets the run with its end event. */
  takeParents(event: { readonly event: string; readonly run_id: string }): readonly string[];
}

/**
 * Creates callbacks that record the ancestors of each of LangChain's runs. `takeParents` returns those of an event, outermost
 * first, and forgets them when the event ends the run; it returns an empty list for an unknown run.
 */
export function createRunParents(): RunParents {
  const parents = new Map<string, readonly string[]>();
  const recordParent = (_component: unknown, _input: unknown, run_id: string, parent?: string): void => {
    parents.set(run_id, parent === undefined ? [] : [...(parents.get(parent) ?? []), parent]);
  };
  return {
    callbacks: {
      handleChainStart: recordParent,
      handleChatModelStart: recordParent,
      handleLLMStart: recordParent,
      handleRetrieverStart: recordParent,
      handleToolStart: recordParent,
    },
    takeParents({ event, run_id }) {
      const parentIds = parents.get(run_id) ?? [];
      if (event.endsWith("_end")) parents.delete(run_id);
      return parentIds;
    },
  };
}
