/** Creates the context that the handler of a route receives for a request. */
import type { Principal } from "../auth/principal.ts";
import { waitForNextTick as resolveNextTick } from "../environment.ts";
import { SchemaMismatch } from "../errors.ts";
import type { ServiceInternals } from "../service.ts";
import type { Authentication } from "./access.ts";
import { getDisconnectSignal, toCallerName } from "./caller.ts";
import { noFields, readObject, readQuery } from "./parse.ts";
import type { ReadBody } from "./request.ts";
import { RequestBodyBudget } from "./request-body-budget.ts";
import { type HandlerState, type RequestContext, type Route, yieldAfterLargeBody } from "./route.ts";
import type { MatchedRoute } from "./route-table.ts";

/** Returns true for a route whose handler changes nothing, so that it may be called again for one request. */
export const isReadOnly = ({ method, response, upgrades }: Route, access: Authentication["access"]): boolean =>
  access !== "open" && (access === "read" || method === "get") && response !== "stream" && upgrades === undefined;

/**
 * Rejects with `invalid` for members of the query that the route does not have. An account route checks the credential first, as its
 * handler would.
 */
export async function requireKnownQuery({ route, rawQuery }: MatchedRoute, auth: Authentication): Promise<void> {
  const { entries } = route.query ?? noFields;
  const unknown = Object.keys(rawQuery).filter((name) => !Object.hasOwn(entries, name));
  if (unknown.length === 0) return;
  if (auth.access === "account") await auth.accountCaller();
  // The format `query` puts that name before the field itself.
  const place = route.issues === "query" ? [] : ["query"];
  throw new SchemaMismatch(
    unknown.map((name) => ({ loc: [...place, name], msg: "is no parameter of this route", type: "extra_forbidden" })),
  );
}

/** A request with its caller. */
interface AuthenticatedRequest extends Pick<RequestContext, "request" | "request_id" | "host" | "principal"> {
  readonly auth: Authentication;
}

export type CreateContext = (call: AuthenticatedRequest, match: MatchedRoute) => RequestContext;

/**
 * Returns the function that creates the context of a request: the resources that its principal may use, a body budget,
 * and functions that read body and query when they are called. A read may read its body repeatedly; the body of a
 * change can be read once.
 */
export function createContextFactory(service: ServiceInternals, read: ReadBody, handler: HandlerState): CreateContext {
  const { environment } = service;
  return ({ auth, ...call }, { route, params, rawQuery }) => {
    const { request, principal } = call;
    const bodyBudget = new RequestBodyBudget(
      handler.bodyBudget,
      () => toCallerName(principal, call.host, request),
      () => getDisconnectSignal(call.host, request),
    );
    const canRepeat = isReadOnly(route, auth.access);
    let body: Promise<Uint8Array> | undefined;
    /**
     * Reads the body. For a read, caches the promise, so that it can be called repeatedly. For a change, a second call
     * fails, because the body is not retained.
     */
    const bytes = (): Promise<Uint8Array> => {
      const bodyBytes =
        body ??
        read(request, { limit: route.max_body_bytes, reserveMemory: (size) => bodyBudget.reserveRequestBody(size) });
      // Only a read may be repeated. The body of another request is not retained while its run executes.
      if (canRepeat) body = bodyBytes;
      return bodyBytes;
    };
    /** Returns a copy of the principal with the user of the account-level caller, or with null. */
    const getAccountPrincipal = async (): Promise<Principal> => ({
      ...principal,
      user: (await auth.accountCaller()).user ?? null,
    });
    const waitForNextTick = (): Promise<void> => resolveNextTick(environment);
    const { logUnknownKeys } = handler;
    const onUnknownKeys: RequestContext["onUnknownKeys"] =
      logUnknownKeys && ((keys, allowed) => logUnknownKeys(route, keys, allowed));
    const { resources, guardResponse: guard } = service.authorizeRequest(
      auth.access === "account" ? getAccountPrincipal : () => principal,
    );
    return {
      ...{ ...call, service, handler, bodyBudget, params, rawQuery, bytes, waitForNextTick, onUnknownKeys },
      ...{ resources, guard },
      route: `${request.method} ${route.path.replace(/:(\w+)\+?/g, "{$1}")}`,
      accountCaller: auth.accountCaller,
      /**
       * Reads the body and validates it by the schema of the route; a route without one gets `{}`. Waits for a tick
       * after a large body. Throws as `readObject`.
       */
      async body() {
        const bodyBytes = await bytes();
        const parsedBody = readObject(bodyBytes, route.body ?? noFields, { onUnknownKeys });
        await yieldAfterLargeBody({ waitForNextTick }, bodyBytes);
        return parsedBody;
      },
      query: () => readQuery(rawQuery, route.query ?? noFields),
    };
  };
}
