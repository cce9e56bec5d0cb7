/** Callbacks of an execution. */

/** Methods of a LangChain callback handler. */
export type Callbacks = { readonly [method: `handle${string}`]: (...args: never[]) => void };

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
  return { ...Object.fromEntries(methods), name: "greenroom", awaitHandlers: true };
}
