/** The operation of traces whose authorization has more than one step. */
import type { Authorizer } from "../auth/authorizer.ts";
import type { InternalTraces, Traces } from "./traces.ts";

/** Returns `stream`, which authorizes reading the thread, and rejects otherwise. Its frames reject once the caller loses access. */
export const authorizeStreamTrace =
  (
    { authorize, guards }: Authorizer<"threads:read">,
    { traces }: { readonly traces: InternalTraces },
  ): Traces["stream"] =>
  async (thread_id, run_id) => {
    const authorizedCall = await authorize("threads:read", { thread_id, run_id });
    const frames = await traces.stream(authorizedCall.scope, thread_id, run_id);
    return guards.reader(
      authorizedCall,
      frames,
      thread_id === null ? undefined : { thread_id: thread_id.toLowerCase() },
    );
  };
