/** The parent runs of LangChain events, which name only their own run. */

export interface RunParents {
  /** A callback handler of the attempt. */
  readonly handler: object;
  /** The runs that contain the run of this event, outermost first. */
  of(event: { readonly event: string; readonly run_id: string }): readonly string[];
}

export function runParents(): RunParents {
  const parents = new Map<string, readonly string[]>();
  const note = (_what: unknown, _input: unknown, run_id: string, parent?: string): void => {
    parents.set(run_id, parent === undefined ? [] : [...(parents.get(parent) ?? []), parent]);
  };
  return {
    handler: {
      name: "greenroom_run_parents",
      awaitHandlers: true,
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
