/** Creates the resources of a service, and those of its callers, from the table of operations, and counts their open calls. */
import { type Authorizer, withFixedScope } from "../auth/authorizer.ts";
import type { KeepAlive } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import type { Feedback, FeedbackTokens } from "../feedback/mod.ts";
import type { DurableCalls, DurableCallTokens } from "../steps/calls.ts";
import type { Scope } from "../storage/mod.ts";
import type { Usage } from "../usage/mod.ts";
import type { Operation } from "./operation.ts";
import { OPERATIONS, ROUTE_OPERATIONS } from "./operations.ts";
import type { InternalResources, RequestResources, Resources, ServiceParts } from "./resources.ts";

export interface InFlightCalls {
  readonly promises: Set<Promise<unknown>>;
  /** True if calls that create runs are refused. */
  stopping: boolean;
  /** True if all calls are refused. */
  closed: boolean;
  /**
   * Returns a copy of a resource whose methods are tracked: each call is in `promises` and keeps the process alive until it
   * settles, and rejects with `server_stopping` if calls of its kind are refused. `operations` are the rows of the resource in
   * the table, which say which methods create runs; without them none does.
   */
  track<Resource extends object>(
    resource: Resource,
    operations?: Readonly<Record<string, { readonly kind: string }>>,
  ): Resource;
}

export const STOPPING = "The server is stopping";

/**
 * Creates the register of calls that `stop` waits for. Tracked calls keep the process alive; a stopping service refuses those
 * that create runs, a closed one all, with `server_stopping`.
 */
export function createInFlightCalls({ keepAlive }: { readonly keepAlive?: KeepAlive }): InFlightCalls {
  const promises = new Set<Promise<unknown>>();
  const stopping = (): ServiceError => new ServiceError("server_stopping", STOPPING);

  const calls: InFlightCalls = {
    promises,
    stopping: false,
    closed: false,
    /**
     * Returns the resource with tracked calls. After the service has closed, unexpected errors become `server_stopping`, except
     * of calls that create runs, because clients must not be told to try again.
     */
    track(resource, operations = {}) {
      /**
       * Returns the call with tracking. Once the service has closed it rejects with `server_stopping`, a call that creates runs
       * as soon as the service stops. An error after closing becomes `server_stopping`, too, unless it is a ServiceError or the
       * call creates runs.
       */
      const tracked =
        (call: (...args: unknown[]) => Promise<unknown>, creates_runs = false) =>
        // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: what a stopping service answers depends on the moment and on the kind of the call
        async (...args: unknown[]): Promise<unknown> => {
          if (calls.closed || (calls.stopping && creates_runs)) throw stopping();
          const promise = call(...args);
          promises.add(promise);
          keepAlive?.acquire();
          try {
            return await promise;
          } catch (error) {
            // A run may have been created: clients must not be told to try again.
            const keepsError = creates_runs || error instanceof ServiceError;
            throw calls.closed && !keepsError ? stopping() : error;
          } finally {
            promises.delete(promise);
            keepAlive?.release();
          }
        };
      return Object.fromEntries(
        Object.entries(resource).map(([name, call]) => [name, tracked(call, operations[name]?.kind === "create")]),
      ) as typeof resource;
    },
  };
  return calls;
}

type AuthorizedMethod = (...args: readonly unknown[]) => unknown;
type ScopedMethod = (scope: Scope, ...args: readonly unknown[]) => unknown;
type NamedOperations = readonly (readonly [name: string, row: Operation<readonly unknown[], unknown>])[];

const listOperations = (operations: object): NamedOperations => Object.entries(operations);

const RESOURCE_OPERATIONS: readonly (readonly [resource: keyof Resources, rows: NamedOperations])[] = (
  Object.keys(OPERATIONS) as (keyof Resources)[]
).map((resource) => [resource, listOperations(OPERATIONS[resource])]);

const REQUEST_OPERATIONS = new Map<string, NamedOperations>(RESOURCE_OPERATIONS);
for (const [resource, operations] of Object.entries(ROUTE_OPERATIONS)) {
  REQUEST_OPERATIONS.set(resource, [...(REQUEST_OPERATIONS.get(resource) ?? []), ...listOperations(operations)]);
}

/**
 * Returns the internal resources with tracked operations, for which `stop` waits. Of the protocol only `command` is tracked:
 * readers of events end by themselves.
 */
export function trackInternalResources(resources: ServiceParts, { track }: InFlightCalls): InternalResources {
  const { protocol } = resources;
  const tracked = RESOURCE_OPERATIONS.map(([resource]) => [
    resource,
    track<object>(resources[resource], OPERATIONS[resource]),
  ]);
  const { command } = track({ command: protocol.command }, ROUTE_OPERATIONS.protocol);
  return { ...Object.fromEntries(tracked), protocol: { ...protocol, command } };
}

/** Returns the internal method that an operation calls: that of its `internalMethod`, else the method with its name. */
const getScopedMethod = (
  internalResources: InternalResources,
  resource: string,
  name: string,
  { internalMethod: getMethod }: NamedOperations[number][1],
): ScopedMethod =>
  getMethod
    ? getMethod(internalResources)
    : ((internalResources as unknown as Record<string, Record<string, ScopedMethod>>)[resource]?.[
        name
      ] as ScopedMethod);

/** The resources of the service itself, with the calls that no handler is asked about. */
export interface ServiceResources extends Resources {
  readonly feedback: Feedback & FeedbackTokens;
  readonly calls: DurableCalls & DurableCallTokens;
  readonly usage: Usage;
}

/**
 * Creates the resources of the service: their calls have the fixed scope, and nothing is authorized. All calls are tracked,
 * except `usage.admit`, which uses no storage, and `threads.events`, whose readers end by themselves.
 */
export function createServiceResources(
  internalResources: InternalResources,
  usage: Usage,
  scope: Scope,
  { track }: InFlightCalls,
): ServiceResources {
  const methods = RESOURCE_OPERATIONS.map(([resource, operations]) => [
    resource,
    withFixedScope<object>(
      Object.fromEntries(
        operations.map(([name, operation]) => [name, getScopedMethod(internalResources, resource, name, operation)]),
      ),
      scope,
    ),
  ]);
  const resources: Resources = Object.fromEntries(methods);
  const { token, submit } = internalResources.feedback;
  const { deliver } = internalResources.calls;
  return {
    ...resources,
    feedback: { ...resources.feedback, token, submit },
    calls: { ...resources.calls, deliver },
    usage: { ...track<Usage>(usage), admit: usage.admit },
  };
}

/** Creates a resource whose methods authorize each call of the caller, and then act in the scope of the authorization. */
function createAuthorizedResource(
  resource: string,
  operations: NamedOperations,
  internalResources: InternalResources,
  authorizer: Authorizer,
): object {
  const calls: Record<string, AuthorizedMethod> = {};
  for (const [name, operation] of operations) {
    calls[name] = (...args) =>
      operation.withAuthorization(
        authorizer,
        internalResources,
        getScopedMethod(internalResources, resource, name, operation),
      )(...args);
  }
  return calls;
}

/** Creates the resources for a caller of `service.as`, all at once. Nothing is authorized before a call. */
export const createAuthorizedResources = (internalResources: InternalResources, authorizer: Authorizer): Resources =>
  Object.fromEntries(
    RESOURCE_OPERATIONS.map(([resource, operations]) => [
      resource,
      createAuthorizedResource(resource, operations, internalResources, authorizer),
    ]),
  ) as never;

/** The resources for the caller of a request. Each is created when it is first used: a request needs few. */
class LazyResources {
  readonly internalResources: InternalResources;
  readonly authorizer: Authorizer;
  readonly created: Record<string, object> = {};

  constructor(internalResources: InternalResources, authorizer: Authorizer) {
    this.internalResources = internalResources;
    this.authorizer = authorizer;
  }

  static {
    for (const [resource, operations] of REQUEST_OPERATIONS) {
      Object.defineProperty(LazyResources.prototype, resource, {
        /** Creates the resource at the first access and caches it. */
        get(this: LazyResources): object {
          this.created[resource] ??= createAuthorizedResource(
            resource,
            operations,
            this.internalResources,
            this.authorizer,
          );
          return this.created[resource];
        },
      });
    }
  }
}

/**
 * Creates the resources for the caller of a request, with the operations that only routes use. Each is created when it is first
 * used.
 */
export const createRequestResources = (
  internalResources: InternalResources,
  authorizer: Authorizer,
): RequestResources => new LazyResources(internalResources, authorizer) as unknown as RequestResources;
