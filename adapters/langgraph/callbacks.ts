/** Callbacks of an execution. */

/** Methods of a LangChain callback handler. */
export type Callbacks = { readonly [method: `handle${string}`]: (...args: never[]) => void };

/** The name of this adapter's handlers. */
export const NAME = "greenroom";

/** One handler that calls all of them. LangChain makes several promises for every handler and token. */
export function oneHandler(all: readonly Callbacks[]): object {
  const calls = new Map<string, ((...args: unknown[]) => void)[]>();
  for (const [method, call] of all.flatMap((one) => Object.entries(one))) {
    calls.set(method, [...(calls.get(method) ?? []), call as (...args: unknown[]) => void]);
  }
  const methods = [...calls].map(([method, list]) => [
    method,
    (...args: unknown[]): void => {
      for (const call of list) call(...args);
    },
  ]);
  // LangChain makes a promise for each chain that a handler does not ignore.
  const ignoreChain = ![...calls.keys()].some((name) => name.startsWith("handleChain"));
  return { ...Object.fromEntries(methods), name: NAME, awaitHandlers: true, ignoreChain };
}

/** The callbacks of one node, which what it calls inherits. */
export interface CallbackManager {
  handlers: readonly object[];
  inheritableHandlers: readonly object[];
}

const nameOf = (handler: object): unknown => (handler as { readonly name?: unknown }).name;

/** The methods of a handler: its own, or those of its class. */
function methodsOf(handler: object): Callbacks {
  const names = [handler, Object.getPrototypeOf(handler) as object].flatMap((holder) =>
    Object.getOwnPropertyNames(holder),
  );
  const call = (name: string): unknown =>
    (handler as Record<string, { bind(of: object): unknown }>)[name]?.bind(handler);
  const calls = names.filter((name) => name.startsWith("handle")).map((name) => [name, call(name)]);
  return Object.fromEntries(calls) as Callbacks;
}

/** LangChain's class. */
export type CallbackManagerClass = new (
  parent_run_id: string,
  handlers: { readonly handlers: object[]; readonly inheritableHandlers: object[] },
) => CallbackManager;

/**
 * Gives callbacks to what runs in a node, and not to the run: with callbacks, LangChain copies them and their metadata for each part
 * of each step. Where a run has some, they become part of its handler, because another one would cost promises for every token.
 */
export function nodeCallbacks(
  handler: object,
  Manager: CallbackManagerClass,
  run_id: string,
): (config: { callbacks?: unknown }) => void {
  const made = new Map<object, object>();
  const joined = new Map<object, object>();

  function withAdded(one: object): object {
    const known = made.get(one);
    if (known || nameOf(one) !== NAME) return known ?? one;
    const larger = oneHandler([methodsOf(one), methodsOf(handler)]);
    made.set(one, larger);
    // A node that is tried again has the manager of its first try.
    made.set(larger, larger);
    return larger;
  }
  made.set(handler, handler);

  /** LangGraph's handler of mode `messages` with this module's: LangChain queues each token for a handler that it does not await. */
  function withMessages(messages: object, own: object): object {
    const known = joined.get(messages);
    if (known) return known;
    const both = { ...oneHandler([methodsOf(own), methodsOf(messages)]), lc_prefer_streaming: true };
    joined.set(messages, both);
    // A node that is tried again has the manager of its first try.
    made.set(both, both);
    return both;
  }

  const extended = (handlers: readonly object[]): readonly object[] => {
    const own = handlers.map(withAdded);
    // Tracers give a run callbacks without the handler of this module.
    const list = own.some((one) => made.has(one)) ? own : [...own, handler];
    const messages = list.find((one) => nameOf(one) === "StreamMessagesHandler");
    const ours = list.find((one) => nameOf(one) === NAME);
    if (!messages || !ours) return list;
    return list.flatMap((one) => (one === messages ? withMessages(messages, ours) : one === ours ? [] : one));
  };

  return (config) => {
    const { handlers, inheritableHandlers } = (config.callbacks ?? {}) as Partial<CallbackManager>;
    if (handlers && inheritableHandlers) {
      const manager = config.callbacks as CallbackManager;
      manager.handlers = extended(handlers);
      manager.inheritableHandlers = extended(inheritableHandlers);
    } else if (!config.callbacks) {
      // Events that nodes dispatch need the run that they belong to.
      config.callbacks = new Manager(run_id, { handlers: [handler], inheritableHandlers: [handler] });
    }
  };
}

/** Metadata of LangChain runs. */
export type Metadata = Readonly<Record<string, unknown>>;

/** Calls `note` for each chain that starts. */
export const onChainStart =
  (note: (metadata: Metadata, name: string | undefined, run_id: string, input: unknown) => void) =>
  (
    _chain: unknown,
    input: unknown,
    run_id: string,
    _parent?: string,
    _tags?: unknown,
    metadata: Metadata = {},
    _type?: unknown,
    name?: string,
  ): void =>
    note(metadata, name, run_id, input);

/** The parent runs of LangChain events, which name only their own run. */
export interface RunParents {
  readonly callbacks: Callbacks;
  /** The runs that contain the run of this event, outermost first. */
  of(event: { readonly event: string; readonly run_id: string }): readonly string[];
}

export function runParents(): RunParents {
  const parents = new Map<string, readonly string[]>();
  const note = (_what: unknown, _input: unknown, run_id: string, parent?: string): void => {
    parents.set(run_id, parent === undefined ? [] : [...(parents.get(parent) ?? []), parent]);
  };
  return {
    callbacks: {
      handleChainStart: note,
      handleChatModelStart: note,
      handleLLMStart: note,
      handleRetrieverStart: note,
      handleToolStart: note,
    },
    of({ event, run_id }) {
      const found = parents.get(run_id) ?? [];
      if (event.endsWith("_end")) parents.delete(run_id);
      return found;
    },
  };
}
