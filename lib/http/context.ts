/** The context that the handler of a route gets for a request. */
import type { Principal } from "../auth/principal.ts";
import { loopTick } from "../environment.ts";
import type { ServiceInternals } from "../service.ts";
import type { Authentication } from "./access.ts";
import { callerName, clientSignal } from "./caller.ts";
import { nothing, readObject, readQuery } from "./parse.ts";
import type { ReadBody } from "./request.ts";
import { RequestBodies } from "./request-bodies.ts";
import { type HandlerState, type RequestContext, type Route, yieldAfter } from "./route.ts";
import type { MatchedRoute } from "./route-table.ts";

/** Returns true for a route whose handler changes nothing, so that it may be called again for one request. */
export const isRead = ({ method, answer, upgrades }: Route, access: Authentication["access"]): boolean =>
  access !== "open" && (access === "read" || method === "get") && answer !== "stream" && upgrades === undefined;

/** A request with its caller. */
interface AuthenticatedRequest extends Pick<RequestContext, "request" | "request_id" | "host" | "principal"> {
  readonly auth: Authentication;
}

export type CreateContext = (call: AuthenticatedRequest, match: MatchedRoute) => RequestContext;

export function contextFactory(service: ServiceInternals, read: ReadBody, handler: HandlerState): CreateContext {
  const { environment } = service;
  return ({ auth, ...call }, { route, params, parameters }) => {
    const { request, principal } = call;
    const large = new RequestBodies(
      handler.large,
      () => callerName(principal, call.host, request),
      () => clientSignal(call.host, request),
    );
    const isRepeated = isRead(route, auth.access);
    let body: Promise<Uint8Array> | undefined;
    const bytes = (): Promise<Uint8Array> => {
      const sent = body ?? read(request, { limit: route.max_body_bytes, receive: (size) => large.receive(size) });
      // Only a read may be made again. The body of another request is not kept while its run executes.
      if (isRepeated) body = sent;
      return sent;
    };
    const ofAccount = async (): Promise<Principal> => ({ ...principal, user: (await auth.caller()).user ?? null });
    const tick = (): Promise<void> => loopTick(environment);
    const { logUnknownKeys } = handler;
    const onUnknownKeys: RequestContext["onUnknownKeys"] =
      logUnknownKeys && ((keys, allowed) => logUnknownKeys(route, keys, allowed));
    const bound = service.bind(auth.access === "account" ? ofAccount : () => principal);
    return {
      ...{ ...call, service, handler, large, params, parameters, bytes, tick, onUnknownKeys },
      ...bound,
      caller: auth.caller,
      async body() {
        const sent = await bytes();
        const value = readObject(sent, route.body ?? nothing, { onUnknownKeys });
        await yieldAfter({ tick }, sent);
        return value;
      },
      query: () => readQuery(parameters, route.query ?? nothing),
    };
  };
}
