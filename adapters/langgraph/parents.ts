/** The parent runs of LangChain events, which name only their own run. */
import type { Callbacks } from "./callbacks.ts";

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
