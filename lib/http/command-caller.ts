/** The sender of a command: validation and authorization of the runs that commands create. */
import type { CommandCaller } from "../protocol/mod.ts";
import type { RequestContext } from "./context.ts";
import { readFields } from "./parse/read.ts";
import { runCreate } from "./parse/runs.ts";
import { authorizeNewRun, callerOrigin } from "./run-authorization.ts";

/** `contextOfRuns`: gives the context of a run that is created. */
export const commandCaller = (
  context: RequestContext,
  contextOfRuns = async (): Promise<RequestContext> => context,
): CommandCaller => ({
  async read(thread_id) {
    return (await context.authorize({ thread_id }, "threads:read")).visibility;
  },
  async run(thread_id, sent) {
    const running = await contextOfRuns();
    const [request, authorized] = await authorizeNewRun(running, thread_id, readFields(sent, runCreate));
    return { request, origin: { ...callerOrigin(running), ...authorized } };
  },
});

/**
 * For a WebSocket, which was opened with the permission to read: its caller may run less, and on fewer threads. The user of custom
 * authentication has no other permission.
 */
export const runsOfSocket = (context: RequestContext) => async (): Promise<RequestContext> => {
  const { access } = context.service;
  if (context.principal.user) return context;
  const principal = await access.principal(context.request, "run");
  return {
    ...context,
    principal,
    authorize: (value, event = "threads:create_run") => access.authorize(principal, event, value),
  };
};
