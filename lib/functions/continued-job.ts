/** What the function gets when a call goes on. */
import type { CallOrigin } from "../executor/journal.ts";
import { messagesOf } from "../executor/messages.ts";
import type { JsonObject } from "../json.ts";
import type { DrivenJob } from "./mod.ts";

/** The job of a call: what its start had, for the user of this run. */
export function continuedJob(own: DrivenJob, { input, values, context, config, metadata }: CallOrigin): DrivenJob {
  const state = structuredClone(values);
  const { configurable: start, ...rest } = config as { readonly configurable?: JsonObject };
  const auth = Object.entries(own.config.configurable).filter(([name]) => name.startsWith("langgraph_auth_"));
  const configurable = { ...start, run_id: own.run_id, ...Object.fromEntries(auth) };
  return {
    ...own,
    input: input ?? undefined,
    command: null,
    state,
    messages: messagesOf(state) as JsonObject[],
    context: structuredClone(context),
    config: { ...structuredClone(rest), configurable } as DrivenJob["config"],
    metadata: structuredClone(metadata),
  };
}
