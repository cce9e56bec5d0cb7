/** What a row of the table of operations says, and how its call is authorized. operations.ts has the table. */
import type { Authorizer } from "../auth/authorizer.ts";
import type { AuthEvent } from "../auth/custom.ts";
import type { Scope } from "../storage/mod.ts";
import type { InternalResources } from "./resources.ts";

/**
 * `create`: the call creates runs, and is refused once the service stops. `stream`: the answer stays open. While an answer is open, its
 * caller needs the permission that it had.
 */
type Kind = "read" | "create" | "change" | "stream";

/** The authorization of one method of a resource. */
export interface Operation<Args extends readonly unknown[], Result> {
  readonly kind: Kind;
  /** The only events that the host's handlers are asked about. Empty: every caller may make the call. */
  readonly events: readonly AuthEvent[];
  /** The call in any scope. Default: the method of the resource that has the name of the operation. */
  readonly internalMethod?: (internalResources: InternalResources) => ScopedMethod<Args, Result>;
  /** Authorizes the call for one caller. */
  withAuthorization(
    authorizer: Authorizer,
    internalResources: InternalResources,
    call: ScopedMethod<Args, Result>,
  ): (...args: Args) => Result;
}

type ScopedMethod<Args extends readonly unknown[], Result> = (scope: Scope, ...args: Args) => Result;

/** The operations of a resource: each method has one. */
export type ResourceOperations<Resource> = {
  readonly [Name in keyof Resource]: Resource[Name] extends (...args: infer Args) => infer Result
    ? Operation<Args, Result>
    : never;
};

/** The part of a call that the host's handler gets. */
interface AuthorizationSubject<Args extends readonly unknown[], Value extends object> {
  /** Returns the value that the host's handler gets. */
  value(...args: Args): Value;
  /** Returns the arguments of the call, from the value as the handler leaves it. Default: as the caller gave them. */
  args?(value: Value, args: Args): Args;
}

/**
 * Defines an operation that authorizes one event, and then calls the resource in the scope of the authorization; a refusal
 * rejects before the call. `subject` says what the handler gets. The handler's changes of that value reach the call only if it
 * has `args`.
 */
export const defineOperation = <Args extends readonly unknown[], Value extends object, Result>(
  kind: Kind,
  event: AuthEvent,
  subject: AuthorizationSubject<Args, Value> | ((...args: NoInfer<Args>) => Value),
): Operation<Args, Promise<Result>> => {
  const { value, args: toArgs }: AuthorizationSubject<Args, Value> =
    typeof subject === "function" ? { value: subject } : subject;
  return {
    kind,
    events: [event],
    withAuthorization:
      ({ authorize }, _internalResources, call) =>
      async (...args) => {
        const authorizedCall = await authorize(event, value(...args));
        return await call(authorizedCall.scope, ...(toArgs?.(authorizedCall.value, args) ?? args));
      },
  };
};

/**
 * Returns an operation whose authorization has more than one step. The compiler refuses a `withAuthorization` that authorizes
 * other events.
 */
export const defineCustomOperation = <Event extends AuthEvent, Args extends readonly unknown[], Result>(
  kind: Kind,
  events: readonly Event[],
  withAuthorization: (
    authorizer: Authorizer<NoInfer<Event>>,
    internalResources: InternalResources,
    call: ScopedMethod<Args, Result>,
  ) => (...args: Args) => Result,
): Operation<Args, Result> => ({ kind, events, withAuthorization });

/** Returns a subject whose value is the id in the first argument, as member `name`. The call gets its arguments unchanged. */
export const idSubject = <More extends readonly unknown[]>(
  name: string,
): AuthorizationSubject<readonly [id: string, ...More], object> => ({
  value: (...[id]) => ({ [name]: id }),
});

/** Returns a subject whose value is the first argument. The call gets it as the handler leaves it, and the others unchanged. */
export const requestSubject = <Request extends object, More extends readonly unknown[]>(): AuthorizationSubject<
  readonly [request: Request, ...More],
  Request
> => ({ value: (...[request]) => request, args: (value, [, ...more]) => [value, ...more] });

/** Returns a subject whose value is the only argument, `{}` without it. The call gets it as the handler leaves it. */
export const querySubject = <Query extends object>(): AuthorizationSubject<readonly [query?: Query], object> => ({
  value: (query = {} as Query) => query,
  args: (value) => [value as Query],
});

/**
 * Returns a subject whose value is a patch with the id of the row that it changes. The call uses the patch as the handler leaves
 * it, without a member of that name, and the id as the caller gave it.
 */
export const patchSubject = <Patch extends object>(
  name: string,
): AuthorizationSubject<readonly [id: string, patch: Patch], object> => ({
  value: (id, patch) => ({ ...patch, [name]: id }),
  args: (value, [id]) => [id, omit(value, name) as Patch],
});

const omit = (value: object, name: string): object =>
  Object.fromEntries(Object.entries(value).filter(([key]) => key !== name));
