/** The sender of a command: validation and authorization of the runs that commands create. */
import type { CommandCaller } from "../protocol/mod.ts";
import type { RequestContext } from "./context.ts";
import * as parse from "./parse/mod.ts";
import { authorizeNewRun, callerOrigin } from "./run-authorization.ts";

/** `mayRun`: called before a run is created. */
export const commandCaller = (context: RequestContext, mayRun = async (): Promise<void> => {}): CommandCaller => ({
  async read(thread_id) {
    return (await context.authorize({ thread_id }, "threads:read")).visibility;
  },
  async run(thread_id, sent) {
    await mayRun();
    const [request, authorized] = await authorizeNewRun(context, thread_id, parse.readFields(sent, parse.runCreate));
    return { request, origin: { ...callerOrigin(context), ...authorized } };
  },
});

/** The check of a WebSocket, which was opened with the permission to read. The user of custom authentication has no other. */
export const mayRun =
  ({ service, request, principal }: RequestContext): (() => Promise<void>) =>
  async () => {
    if (!principal.user) await service.access.principal(request, "run");
  };
