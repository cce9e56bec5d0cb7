/** The authorizer of one caller: it runs the host's handler for each call with the whole value, and returns the scope that results. */
import type { Environment } from "../environment.ts";
import type { ServiceError } from "../errors.ts";
import type { Scope } from "../storage/mod.ts";
import { type Visibility, withVisibility } from "../storage/visibility.ts";
import type { AccessGrant, StreamGuard, StreamGuards } from "../streams/stream-guard.ts";
import type { AuthEvent } from "./custom.ts";
import type { Access, Principal } from "./principal.ts";
import { createRevocationCheck } from "./revocation.ts";

/** An internal resource: each method takes the scope first and authorizes nothing. For workers, crons and other resources. */
export type InternalResource<Resource> = {
  readonly [Name in keyof Resource]: Resource[Name] extends (...args: infer Args) => infer Result
    ? (scope: Scope, ...args: Args) => Result
    : never;
};

/** Returns the resource with a fixed scope as the first argument of each method. */
export const withFixedScope = <Resource extends object>(
  internalResource: InternalResource<Resource>,
  scope: Scope,
): Resource =>
  Object.fromEntries(
    Object.entries(internalResource).map(([name, method]) => [
      name,
      (...args: unknown[]) => (method as (scope: Scope, ...args: unknown[]) => unknown)(scope, ...args),
    ]),
  ) as Resource;

/** A call after authorization, with the scope in which it may act. */
export interface AuthorizedCall<Value> extends AccessGrant {
  /** The value as the host's handler leaves it. */
  readonly value: Value;
}

/** Authorizes each call of one caller. `Event`: the events that it may authorize. */
export interface Authorizer<Event extends AuthEvent = AuthEvent> {
  readonly caller: () => Principal | Promise<Principal>;
  /** The deployment. */
  readonly scope: Scope;
  readonly environment: AuthorizerEnvironment;
  /** False: every caller may do everything, so `authorize` changes nothing. */
  readonly isEnforced: boolean;
  /**
   * Authorizes a call. Resolves with the value, which the host's handler may have changed, and with the scope of the rows that
   * the caller sees; `findRevocation` is absent if the access cannot be lost. Rejects with the refusal (`unauthenticated`,
   * `forbidden`), and with `unavailable` or `internal` if a handler fails.
   */
  readonly authorize: <Value extends object>(event: Event, value: Value) => Promise<AuthorizedCall<Value>>;
  /** Guards everything that stays open for the caller. */
  readonly guards: StreamGuards;
}

type AuthorizerEnvironment = Pick<Environment, "now" | "uuid">;

/** An authorizer for the calls of one request. */
export interface RequestAuthorizer extends Authorizer {
  /** Calls `onLost` once when the caller loses the access to what the response sends. Undefined if that cannot happen. */
  guardResponse(onLost: (revocation: ServiceError | null) => void): StreamGuard | undefined;
}

interface AuthorizerOptions {
  /** Null: every caller may do everything. */
  readonly access: Pick<Access, "authorize"> | null;
  readonly scope: Scope;
  readonly environment: AuthorizerEnvironment;
  readonly guards: StreamGuards;
}

/**
 * Returns a function that reads what the caller can see now. It stands alone so that, while it waits, nothing else retains the
 * value.
 */
const authorizeAgain =
  (access: Pick<Access, "authorize">, principal: Principal, event: AuthEvent, value: object) =>
  async (): Promise<Visibility> => {
    const current = (await principal.refresh?.()) ?? principal;
    return (await access.authorize(current, event, value)).visibility;
  };

/**
 * Creates the authorizer of one caller. Its `authorize` calls `onAuthorized` with each grant. Without `access` everything is
 * permitted: it returns the value unchanged with the scope of the deployment, and never reads the caller.
 */
export function createAuthorizer(
  { access, scope: deploymentScope, environment, guards }: AuthorizerOptions,
  caller: Authorizer["caller"],
  onAuthorized: (grant: AccessGrant) => void = () => {},
): Authorizer {
  return {
    ...{ caller, scope: deploymentScope, environment, guards, isEnforced: access !== null },
    async authorize(event, value) {
      if (!access) return { value, scope: deploymentScope };
      const principal = await caller();
      const { value: handlerValue, visibility } = await access.authorize(principal, event, value);
      const scope = withVisibility(deploymentScope, visibility);
      // The handler of a new run is called once: its caller can see the run.
      const isFixed = !principal.refresh && (!principal.user || event === "threads:create_run");
      // Without a user no handler reads the value, which may be large.
      const findVisibility = authorizeAgain(access, principal, event, principal.user ? value : {});
      const grant = isFixed ? { scope } : { scope, findRevocation: createRevocationCheck(scope, findVisibility) };
      onAuthorized(grant);
      return { ...grant, value: handlerValue };
    },
  };
}

/**
 * Creates the authorizer of a request. The response itself checks the grant, not the readers of the request, because it also
 * drops what it has taken and not sent: `guardResponse` opens that check, undefined if nothing was authorized.
 */
export function createRequestAuthorizer(options: AuthorizerOptions, caller: Authorizer["caller"]): RequestAuthorizer {
  const { guards } = options;
  let readerGrant: AccessGrant | undefined;
  let latestGrant: AccessGrant | undefined;
  const authorizer = createAuthorizer(options, caller, (grant) => {
    latestGrant = grant;
  });
  /** Keeps the grant for the guard of the response. Returns one without the check of a revocation, for the call itself. */
  const moveGrantToResponse = ({ scope, findRevocation }: AccessGrant): AccessGrant => {
    readerGrant = { scope, ...(findRevocation ? { findRevocation } : {}) };
    return { scope };
  };
  return {
    ...authorizer,
    guards: {
      open: guards.open,
      reader: (grant, reader, thread) => guards.reader(moveGrantToResponse(grant), reader, thread),
      result: (grant, pending, thread) => guards.result(moveGrantToResponse(grant), pending, thread),
    },
    guardResponse(onLost) {
      const grant = readerGrant ?? latestGrant;
      return grant && guards.open(grant, undefined, onLost);
    },
  };
}
