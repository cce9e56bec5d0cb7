/** Authenticates requests by the auth mode of the deployment, and computes the caller's permissions. */
import { coalesceCalls, type Environment } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import { type Caller, type DeploymentRow, type IdentityStore, PERMISSIONS } from "../storage/identity.ts";
import { NO_FILTER, type Visibility } from "../storage/visibility.ts";
import { type Auth, type AuthEvent, type AuthUser, type CustomHandlers, mergeFilter, type SdkAuth } from "./custom.ts";
import { hashKey, hasValidChecksum, loadOwnerCaller, toCaller } from "./keys.ts";

/** The way in which callers are authenticated. */
export type AuthMode = "none" | "api_key" | "agent_builder" | "custom";

/** The authentication and authorization of a deployment. */
export interface AuthOptions {
  /**
   * `none` (the default): no authentication. `api_key`: requests need a key. `agent_builder`: the deployment is one user's agent.
   * `custom` (the default with `custom`): the host's own authentication.
   */
  readonly mode?: AuthMode;
  /** Mode `custom`: your authentication and authorization. An `Auth` object of `@langchain/langgraph-sdk/auth` works unchanged. */
  readonly custom?: Auth | SdkAuth;
  /** Mode `custom`: new resources get the equalities of the handler's filter as metadata. Default false: the handler sets metadata. */
  readonly merge_filter_on_create?: boolean;
  /** Has no effect: `X-Auth-Scheme: langsmith` never authenticates. */
  readonly disable_studio_auth?: boolean;
  /** Mode `agent_builder`: id or email of the owner at the first start. Later use `greenroom agents transfer`. */
  readonly owner?: string;
  /** Mode `agent_builder`: whether members of the workspace may see the agent at the first start. Later use `greenroom agents share`. */
  readonly shared?: boolean;
  /** Mode `agent_builder`: what members may do with a shared agent. `use`: run it on their own threads. Default `read`. */
  readonly shared_agents?: "read" | "use";
  /** The prefix of API keys. Default `gr`. */
  readonly key_prefix?: string;
}

/** The permission class of a request: read, run, or change what others see. */
export type AccessLevel = "read" | "run" | "change";

/** The authenticated caller of a deployment's route. */
export interface Principal {
  readonly user_id: string | null;
  readonly api_key: string | null;
  /** The threads that it may create and run on: their own, for a member who uses another user's shared agent. */
  readonly threads: Visibility;
  /** The user that custom authentication returned; null in every other mode. */
  readonly user: AuthUser | null;
  /**
   * The caller as of now, for streams that are open. Errors: those of `principal`. Absent where it cannot change. Custom
   * authentication runs once per request, because its credential may be valid only once.
   */
  refresh?(): Promise<Principal>;
}

export interface Access {
  /**
   * Returns the caller of a platform route, limited to the organization and workspace that the headers name. `user` is the user
   * for whom the host's code acts, which skips custom authentication. Creates the default rows in mode `none`. Throws
   * `unauthenticated`, or `forbidden` for an organization or workspace without access.
   */
  caller(request: Request, user?: AuthUser | null): Promise<Caller>;
  /**
   * Returns the caller of a deployment route, with `user` as in `caller`. Throws `unauthenticated`, `forbidden` if a permission
   * is missing, `not_found` if the key has no access to this deployment, and `unsupported_type`.
   */
  principal(request: Request, accessLevel: AccessLevel, user?: AuthUser | null): Promise<Principal>;
  /** Returns the principal of a user of custom authentication for whom the host's code acts. Stores the user if it is new. */
  user(user: AuthUser): Promise<Principal>;
  /**
   * Authorizes a call by the host's handlers or, without these, by the filter on threads of shared agents. Returns the value,
   * which a handler may have changed and a filter may have given metadata, and a filter of what the caller can see. Throws the
   * refusal, `unavailable` or `internal`.
   */
  authorize<Value extends object>(
    principal: Pick<Principal, "user" | "threads">,
    event: AuthEvent,
    value: Value,
  ): Promise<{ readonly value: Value; readonly visibility: Visibility }>;
  /** Returns a page of the workspaces that the caller may read, sorted by name. */
  workspaces(
    caller: Caller,
    page: { readonly limit: number; readonly offset: number },
  ): Promise<readonly { readonly id: string; readonly display_name: string; readonly organization_id: string }[]>;
}

interface AccessOptions {
  readonly identity: IdentityStore;
  readonly environment: Environment;
  readonly mode: AuthMode;
  /** The host's handlers, in mode `custom`. */
  readonly customHandlers: CustomHandlers | null;
  readonly shared_agents: "read" | "use";
  readonly deployment: DeploymentRow;
  readonly key_prefix: string;
}

/** The metadata that names the creator of a thread on another user's shared agent. */
const CREATOR_KEY = "owner_user_id";
const KEY_AUTH_SCHEMES = new Set(["service-api-key", "langsmith-api-key"]);
/** `last_used_at` of a key is stored at most this often. */
const KEY_TOUCH_INTERVAL_MS = 60_000;
/** The maximum number of keys in that cache. */
const MAX_CACHED_TOUCHES = 10_000;
/** The time for which the ids of custom users are cached, and their maximum number. */
const USER_ID_TTL_MS = 60_000;
const MAX_CACHED_USERS = 10_000;

/** The principal of mode `none`. */
export const anonymousPrincipal: Principal = {
  user_id: null,
  api_key: null,
  threads: NO_FILTER,
  user: null,
};

/** The time for which open streams share a lookup. */
const SHARED_READ_TTL_MS = 500;

/**
 * Returns a function that looks up the caller of a key, null for an unknown, revoked or expired one. It stores the last use in
 * the background, at most once a minute.
 */
function createKeyLookup({
  identity,
  environment,
  key_prefix,
}: AccessOptions): (key: string) => Promise<Caller | null> {
  const touchTimes = new Map<string, number>();

  /** Stores that the key was used, at most once in an interval. Does not wait; a failure is logged. */
  function touch(id: string, last_used_at: number | null): void {
    const now = environment.now();
    if (now - Math.max(touchTimes.get(id) ?? 0, last_used_at ?? 0) < KEY_TOUCH_INTERVAL_MS) return;
    if (touchTimes.size >= MAX_CACHED_TOUCHES) touchTimes.clear();
    touchTimes.set(id, now);
    identity.touchKey(id, now).catch((error: unknown) => {
      environment.log({ level: "warn", message: "storing last_used_at of a key failed", error });
    });
  }

  /** Returns the caller of a key; null for an unknown, revoked or expired one. Notes that the key was used. */
  async function findCaller(key: string): Promise<Caller | null> {
    // A wrong checksum saves the query.
    if (!identity.any_keys && !(await hasValidChecksum(key, key_prefix))) return null;
    const grants = await identity.findKey(await hashKey(key));
    const now = environment.now();
    if (!grants || grants.key.revoked_at !== null) return null;
    if (grants.key.expires_at !== null && grants.key.expires_at <= now) return null;
    touch(grants.key.id, grants.key.last_used_at);
    return toCaller(grants);
  }

  return findCaller;
}

/** Returns a function that finds or creates the user id for usage of a custom user's runs, and caches it for a minute. */
function createUserIdLookup({ identity, environment, deployment }: AccessOptions): (user: AuthUser) => Promise<string> {
  const { workspace_id } = deployment;
  const users = new Map<string, { readonly id: Promise<string>; readonly until: number }>();

  /**
   * Returns the id of the user, which is created when it is missing. Caches it for a while by identity and email; a failed call
   * is not cached.
   */
  async function ensureUserId(user: AuthUser): Promise<string> {
    const email = typeof user.email === "string" ? { email: user.email } : {};
    const key = JSON.stringify([user.identity, email]);
    const now = environment.now();
    const cached = users.get(key);
    if (cached && now < cached.until) return await cached.id;
    if (users.size >= MAX_CACHED_USERS) users.clear();
    const id = identity.ensureUser({ workspace_id, identity: user.identity, ...email }, now);
    users.set(key, { id, until: now + USER_ID_TTL_MS });
    id.catch(() => users.delete(key));
    return await id;
  }

  return ensureUserId;
}

/**
 * Returns the caller, limited to the organization and workspace that the headers name. Throws `workspace_forbidden` for others.
 */
function limitToRequestedWorkspace(caller: Caller, headers: Headers): Caller {
  const organization = headers.get("x-organization-id")?.toLowerCase();
  if (organization && organization !== caller.organization_id) {
    throw new ServiceError("workspace_forbidden", "X-Organization-Id: this key has no access to it");
  }
  const workspace = headers.get("x-tenant-id")?.toLowerCase();
  if (!workspace) return caller;
  const permissions = caller.workspaces.get(workspace);
  if (!permissions) throw new ServiceError("workspace_forbidden", "X-Tenant-Id: this key has no access to it");
  return { ...caller, workspaces: new Map([[workspace, permissions]]) };
}

/** Creates the authentication and authorization of a deployment, by mode or by custom handlers. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createAccess(options: AccessOptions): Access {
  const { identity, environment, mode, customHandlers, shared_agents, deployment } = options;
  const { workspace_id } = deployment;
  const findCaller = createKeyLookup(options);
  const getAgent = (name: string): Promise<DeploymentRow | null> => identity.getDeployment(name);
  const requestLookups = { caller: findCaller, agent: getAgent };
  /** The lookups of open streams, which are shared because many streams may have the same key. */
  const coalesce = coalesceCalls(undefined, (forget) => environment.timer(SHARED_READ_TTL_MS, forget));
  const streamLookups: typeof requestLookups = {
    caller: (key) => coalesce(`caller ${key}`, 0, () => findCaller(key)),
    agent: (name) => coalesce(`agent ${name}`, 0, () => getAgent(name)),
  };
  const ensureUserId = createUserIdLookup(options);
  /** Returns the principal of a custom user, which sees all threads unless a handler limits it. Stores the user if it is new. */
  const toUserPrincipal: Access["user"] = async (user) => ({
    ...anonymousPrincipal,
    user_id: await ensureUserId(user),
    user,
  });

  /** Returns the caller for a custom user: its permissions apply to the deployment's workspace. Stores the user if it is new. */
  async function toUserCaller(user: AuthUser): Promise<Caller> {
    const permissions = new Set(PERMISSIONS.filter((name) => user.permissions.includes(name)));
    return {
      organization_id: deployment.organization_id,
      user_id: await ensureUserId(user),
      api_key: null,
      key_id: null,
      permissions,
      workspaces: new Map([[workspace_id, permissions]]),
      projects: new Map([[workspace_id, deployment.project_id]]),
      user,
    };
  }

  /**
   * Returns the caller of a valid API key, else that of custom authentication, which may use the same header for its tokens.
   * Stores a user that is new. Throws what the host's handler throws.
   */
  async function authenticateCustomCaller(customHandlers: CustomHandlers, request: Request): Promise<Caller> {
    const key = request.headers.get("x-api-key");
    return (key ? await findCaller(key) : null) ?? (await toUserCaller(await customHandlers.authenticate(request)));
  }

  /**
   * Returns the caller of the key, limited to the workspace of the headers. Throws `api_key_missing`, `api_key_invalid` or
   * `workspace_forbidden`.
   */
  async function requireKey(headers: Headers, lookup = findCaller): Promise<Caller> {
    const key = headers.get("x-api-key");
    if (!key) throw new ServiceError("api_key_missing", "An API key is needed: send it as X-API-Key");
    const caller = await lookup(key);
    if (!caller) throw new ServiceError("api_key_invalid", "The API key is unknown, expired or revoked");
    return limitToRequestedWorkspace(caller, headers);
  }

  const hiddenAgentError = (): ServiceError => new ServiceError("route_not_found", "There is nothing at this path");

  /**
   * Returns the filter on threads: none for the owner and for reading members, else those that the member has created. Throws
   * `route_not_found` if the caller may not use the agent so.
   */
  async function resolveThreadVisibility(
    { user_id, workspaces }: Caller,
    accessLevel: AccessLevel,
    row: DeploymentRow | null,
  ): Promise<Visibility> {
    const agent = row ?? deployment;
    const isOwner = user_id !== null && user_id === agent.owner_user_id;
    const canRead = user_id !== null && agent.shared && workspaces.get(agent.workspace_id)?.has("runs:read");
    if (isOwner || (canRead && accessLevel === "read")) return NO_FILTER;
    if (!canRead || accessLevel === "change" || shared_agents !== "use") throw hiddenAgentError();
    return { filter: [{ key: CREATOR_KEY, equals: user_id }] };
  }

  /**
   * Returns the caller of a request with a key. Throws what `principal` throws: unknown key, wrong type, missing permission, or
   * an agent that is not visible.
   */
  async function authenticateKey(
    { headers, is_json }: { readonly headers: Headers; readonly is_json: boolean },
    accessLevel: AccessLevel,
    { caller: lookup, agent } = requestLookups,
  ): Promise<Principal> {
    const caller = await requireKey(headers, lookup);
    const { user_id, api_key } = caller;
    const refresh = (): Promise<Principal> => authenticateKey({ headers, is_json }, accessLevel, streamLookups);
    const principal = { ...anonymousPrincipal, user_id, api_key, refresh };
    if (mode === "agent_builder") {
      if (!is_json) throw new ServiceError("unsupported_type", "Content-Type: must be application/json");
      return {
        ...principal,
        threads: await resolveThreadVisibility(caller, accessLevel, await agent(deployment.name)),
      };
    }
    const permissions = caller.workspaces.get(workspace_id);
    if (!permissions) throw hiddenAgentError();
    const requiredPermission = accessLevel === "read" ? "runs:read" : "runs:create";
    if (!permissions.has(requiredPermission))
      throw new ServiceError("permission_missing", `This needs the permission ${requiredPermission}`);
    return principal;
  }

  return {
    user: toUserPrincipal,
    async authorize({ user, threads }, event, value) {
      if (customHandlers && user) return await customHandlers.authorize(user, event, value);
      const visibility = event.startsWith("threads:") ? threads : NO_FILTER;
      const { filter } = visibility;
      return { value: filter ? mergeFilter(event, value, filter) : value, visibility };
    },
    async caller(request, user = null) {
      const { headers } = request;
      if (customHandlers)
        return limitToRequestedWorkspace(
          await (user ? toUserCaller(user) : authenticateCustomCaller(customHandlers, request)),
          headers,
        );
      if (mode === "none") return limitToRequestedWorkspace(await loadOwnerCaller(identity), headers);
      return await requireKey(headers);
    },
    async workspaces(caller, { limit, offset }) {
      const rows = await identity.listUnits("workspace", [caller.organization_id]);
      const readable = rows.filter(({ id }) => caller.workspaces.get(id)?.has("workspaces:read"));
      const page = readable.slice(offset, offset + limit);
      return page.map(({ id, name, organization_id }) => ({ id, display_name: name, organization_id }));
    },
    async principal(request, accessLevel, actingUser = null) {
      if (customHandlers) return await toUserPrincipal(actingUser ?? (await customHandlers.authenticate(request)));
      if (mode === "none") return anonymousPrincipal;
      const { headers } = request;
      if (mode === "agent_builder" && !KEY_AUTH_SCHEMES.has(headers.get("x-auth-scheme")?.toLowerCase() ?? "")) {
        throw new ServiceError("unauthenticated", "X-Auth-Scheme: must be service-api-key");
      }
      // Not the request: a stream would keep its body in memory.
      const is_json = !request.body || /^application\/json\b/i.test(headers.get("content-type") ?? "");
      return await authenticateKey({ headers, is_json }, accessLevel);
    },
  };
}
