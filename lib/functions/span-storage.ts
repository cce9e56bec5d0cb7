/** Loads what the sources of spans share that LangGraph and functions do not call. */
import { type ContextStorage, createContextStorage, type SpanContext } from "./span-context.ts";

let loading: Promise<ContextStorage<SpanContext> | null> | undefined;
let loadedStorage: ContextStorage<SpanContext> | null = null;

/** Returns the place of the running code; undefined outside of runs that are recorded. */
export const findSpanContext = (): SpanContext | undefined => loadedStorage?.getStore();

/**
 * Loads the storage of the span that code runs in, once, and subscribes to the calls of the AI SDK. Resolves to null on runtimes without
 * a storage.
 */
export function loadSpanStorage(): Promise<ContextStorage<SpanContext> | null> {
  loading ??= createContextStorage<SpanContext>().then(async (storage) => {
    const { subscribeToAiCalls } = await import("./ai-channel.ts");
    await subscribeToAiCalls(storage);
    loadedStorage = storage;
    return storage;
  });
  return loading;
}
