/** Accounts as the library's callers manage them: API keys, workspaces, projects, users, and who may use an agent. */
import type { Environment } from "../environment.ts";
import { ConfigError, ServiceError } from "../errors.ts";
import {
  type ApiKeyRow,
  type Caller,
  type DeploymentRow,
  type IdentityStore,
  idOf,
  type KeyGrants,
  type KeyKind,
  type Made,
  type MembershipRow,
  PERMISSIONS,
  type Permission,
  type ProjectRow,
  type UserRow,
  UUID,
  type WorkspaceRow,
} from "../storage/identity.ts";
import { hashKey, KEY_PREFIX, makeKey, shortKey } from "./api-keys.ts";

export interface KeyCreate {
  /** Default: the oldest organization. */
  readonly organization_id?: string;
  /** `sk`: a service key, nobody's. `pt`: a personal token. */
  readonly kind: KeyKind;
  /** `pt` only, and needed there: id or email of the user, whose permissions the token has. */
  readonly user?: string;
  /** `sk` only: ids or names of the workspaces the key reaches. Default: all of the organization, later ones too. */
  readonly workspaces?: readonly string[];
  /** `sk` only. Default: all but `organization:manage`. */
  readonly permissions?: readonly Permission[];
  /** Milliseconds since 1970, later than now. Default: it does not expire. */
  readonly expires_at?: number;
  readonly description?: string;
}

/** Which users or keys may do what, and where. */
export interface Grant {
  /** Id or email of a user. */
  readonly user: string;
  /** Id or name of a workspace. Without: the organization, and with that all of its workspaces. */
  readonly workspace?: string;
  /** Replaces what was granted there; none end it. Those of `organization:` are granted on an organization alone. */
  readonly permissions: readonly Permission[];
}

/**
 * Nouns are named by id or name (users by id or email), and looked for in the oldest organization where none is given.
 * Nothing is written when a call rejects. Errors: not_found, conflict (a name that is taken), invalid; each names the thing.
 */
export interface Accounts {
  /** `key` is not stored: this is the only time that it can be seen. */
  createKey(request: KeyCreate): Promise<{ readonly key: string; readonly row: ApiKeyRow }>;
  /** Oldest first, expired and revoked ones too. */
  listKeys(organization_id?: string): Promise<readonly ApiKeyRow[]>;
  /** By id or short form; from then on it is unknown. Again: no error. */
  revokeKey(key: string, organization_id?: string): Promise<ApiKeyRow>;

  /** With a project, `Default`. */
  createWorkspace(name: string, organization_id?: string): Promise<WorkspaceRow>;
  renameWorkspace(workspace: string, name: string): Promise<WorkspaceRow>;
  /** With its projects. What was billed to it stays, under its last name. */
  deleteWorkspace(workspace: string): Promise<WorkspaceRow>;
  /** By name. */
  listWorkspaces(organization_id?: string): Promise<readonly WorkspaceRow[]>;

  /** In the oldest workspace where none is given. */
  createProject(name: string, workspace?: string): Promise<ProjectRow>;
  renameProject(project: string, name: string, workspace?: string): Promise<ProjectRow>;
  deleteProject(project: string, workspace?: string): Promise<ProjectRow>;
  /** By name; of all workspaces where none is given. */
  listProjects(workspace?: string): Promise<readonly ProjectRow[]>;

  /** A member of the oldest organization. Default permissions there: `organization:read`. */
  createUser(user: {
    readonly email: string;
    readonly name?: string;
    readonly permissions?: readonly Permission[];
  }): Promise<UserRow>;
  /** The user's personal tokens are revoked, the memberships end. */
  deleteUser(user: string): Promise<UserRow>;
  /** By email. */
  listUsers(): Promise<readonly UserRow[]>;
  grant(grant: Grant): Promise<MembershipRow>;
  listMemberships(user: string): Promise<readonly MembershipRow[]>;

  /** By name. */
  listAgents(): Promise<readonly DeploymentRow[]>;
  /** Members of the agent's workspace may see it from now on. */
  shareAgent(name: string): Promise<DeploymentRow>;
  unshareAgent(name: string): Promise<DeploymentRow>;
  /** Makes the user the owner. */
  transferAgent(name: string, user: string): Promise<DeploymentRow>;
}

export interface AccountOptions {
  readonly identity: IdentityStore;
  readonly environment: Pick<Environment, "now" | "uuid">;
  /** What new keys start with. Default `gr`. */
  readonly key_prefix?: string;
}

/** What a service key may do where nothing else is said. */
export const SERVICE_PERMISSIONS: readonly Permission[] = PERMISSIONS.filter((name) => name !== "organization:manage");

/** How often a key is drawn whose short form has four digits; then it has six. */
const DRAWS = 20;
/** Again as often; who finds no free form of six digits has millions of keys. */
const DRAWS_IN_ALL = 40;
const NAME_LENGTH = 255;
/** Of the calendar that JavaScript has. */
const LAST_MOMENT = 8.64e15;

/** Throws a ConfigError when keys cannot have that prefix. */
export function createAccounts({ identity, environment, key_prefix = KEY_PREFIX }: AccountOptions): Accounts {
  if (!/^[a-z][a-z0-9]{0,15}$/.test(key_prefix)) {
    throw new ConfigError(["auth.key_prefix: use up to 16 lower case letters and digits"]);
  }
  const organizationOf = async (given?: string): Promise<string> =>
    given?.toLowerCase() ?? (await identity.ensureDefaults(environment.now())).organization.id;

  async function workspacesOf(names: readonly string[], organization_id: string): Promise<readonly WorkspaceRow[]> {
    const rows = await identity.listWorkspaces(organization_id);
    const found = names.map((name) => [name, named(rows, name)] as const);
    const unknown = found.filter(([, row]) => !row).map(([name]) => name);
    if (unknown.length > 0) throw missing("Workspace", unknown.join(", "));
    return found.map(([, row]) => row as WorkspaceRow);
  }

  const workspaceOf = async (name: string, organization_id?: string): Promise<WorkspaceRow> =>
    (await workspacesOf([name], organization_id ?? (await organizationOf())))[0] as WorkspaceRow;

  async function projectsOf(workspace?: string): Promise<readonly ProjectRow[]> {
    const rows =
      workspace === undefined ? await identity.listWorkspaces(await organizationOf()) : [await workspaceOf(workspace)];
    return identity.listProjects(rows.map(({ id }) => id));
  }

  async function projectOf(name: string, workspace?: string): Promise<ProjectRow> {
    const rows = await projectsOf(workspace);
    const id = rows.find((row) => row.id === name.toLowerCase());
    if (id) return id;
    const [first, second] = rows.filter((row) => row.name === name);
    if (!first) throw missing("Project", name);
    if (second) throw new ServiceError("invalid", `Project ${name} is in several workspaces: name the workspace too`);
    return first;
  }

  async function userOf(name: string): Promise<UserRow> {
    const row = await identity.getUser(idOf(name));
    if (!row) throw missing("User", name);
    return row;
  }

  /** What the key itself may do where; a personal token may do what its user may. */
  async function grantsOf(request: KeyCreate, key: string, organization_id: string): Promise<readonly MembershipRow[]> {
    if (request.kind === "pt") return [];
    const permissions = provenPermissions(request.permissions ?? SERVICE_PERMISSIONS);
    const rows = request.workspaces && (await workspacesOf(request.workspaces, organization_id));
    return grantsOn(
      key,
      permissions,
      organization_id,
      rows?.map(({ id }) => id),
    );
  }

  async function changeAgent(
    name: string,
    change: { readonly owner_user_id?: string; readonly shared?: boolean },
  ): Promise<DeploymentRow> {
    const row = await identity.updateDeployment(name, change);
    if (!row) throw missing("Agent", name);
    return row;
  }

  return {
    async createKey(request) {
      const now = environment.now();
      checkKey(request, now);
      const organization_id = await organizationOf(request.organization_id);
      const user = request.user === undefined ? null : await userOf(request.user);
      const id = environment.uuid();
      const memberships = await grantsOf(request, id, organization_id);
      for (let drawn = 0; drawn < DRAWS_IN_ALL; drawn++) {
        const key = await makeKey(key_prefix, request.kind, () => environment.uuid());
        const row: ApiKeyRow = {
          id,
          organization_id,
          user_id: user?.id ?? null,
          kind: request.kind,
          key_hash: await hashKey(key),
          short_key: shortKey(key, drawn < DRAWS ? 4 : 6),
          description: request.description ?? null,
          created_at: now,
          expires_at: request.expires_at ?? null,
          revoked_at: null,
          last_used_at: null,
        };
        const { kind } = await identity.createKey(row, memberships);
        if (kind === "made") return { key, row };
        // Workspaces and the user were there a moment ago.
        if (kind === "parent_not_found") throw missing("Organization", organization_id);
      }
      throw new ServiceError("conflict", "No free short form was found for the key");
    },

    async listKeys(organization_id) {
      return identity.listKeys(await organizationOf(organization_id));
    },

    async revokeKey(key, organization_id) {
      const row = await identity.revokeKey(await organizationOf(organization_id), key, environment.now());
      if (!row) throw missing("API key", key);
      return row;
    },

    async createWorkspace(name, given) {
      proveName("Workspace", name);
      const organization_id = await organizationOf(given);
      const created_at = after(await identity.listWorkspaces(organization_id), environment.now());
      const terms = { id: environment.uuid(), organization_id, name, created_at, deleted_at: null };
      const row = made(await identity.createWorkspace(terms), "Workspace", name, `Organization ${organization_id}`);
      const project = { id: environment.uuid(), workspace_id: row.id, name: "Default", created_at, deleted_at: null };
      await identity.createProject(project);
      return row;
    },

    async renameWorkspace(workspace, name) {
      proveName("Workspace", name);
      const { id } = await workspaceOf(workspace);
      return made(await identity.renameWorkspace(id, name), "Workspace", name, `Workspace ${workspace}`);
    },

    async deleteWorkspace(workspace) {
      const row = await identity.deleteWorkspace((await workspaceOf(workspace)).id, environment.now());
      if (!row) throw missing("Workspace", workspace);
      return row;
    },

    async listWorkspaces(organization_id) {
      return identity.listWorkspaces(await organizationOf(organization_id));
    },

    async createProject(name, workspace) {
      proveName("Project", name);
      const { id: workspace_id } =
        workspace === undefined
          ? (await identity.ensureDefaults(environment.now())).workspace
          : await workspaceOf(workspace);
      const created_at = after(await identity.listProjects([workspace_id]), environment.now());
      const row = { id: environment.uuid(), workspace_id, name, created_at, deleted_at: null };
      return made(await identity.createProject(row), "Project", name, `Workspace ${workspace_id}`);
    },

    async renameProject(project, name, workspace) {
      proveName("Project", name);
      const { id } = await projectOf(project, workspace);
      return made(await identity.renameProject(id, name), "Project", name, `Project ${project}`);
    },

    async deleteProject(project, workspace) {
      const row = await identity.deleteProject((await projectOf(project, workspace)).id, environment.now());
      if (!row) throw missing("Project", project);
      return row;
    },

    listProjects: projectsOf,

    async createUser({ email, name, permissions = ["organization:read"] }) {
      if (!/^[^\s@]+@[^\s@]+$/.test(email) || !isName(email)) {
        throw new ServiceError("invalid", `email: ${JSON.stringify(email)} is not an email address`);
      }
      if (name !== undefined) proveName("User", name);
      const granted = provenPermissions(permissions);
      const scope_id = await organizationOf();
      const user: UserRow = {
        id: environment.uuid(),
        email,
        name: name ?? null,
        created_at: environment.now(),
        deleted_at: null,
      };
      const row = made(await identity.createUser(user), "User", email, "User");
      await identity.setMembership({ subject_id: row.id, scope_id, permissions: granted });
      return row;
    },

    async deleteUser(user) {
      const row = await identity.deleteUser((await userOf(user)).id, environment.now());
      if (!row) throw missing("User", user);
      return row;
    },

    async listUsers() {
      return identity.listUsers(await organizationOf());
    },

    async grant({ user, workspace, permissions }) {
      const granted = provenPermissions(permissions, true);
      const { id: subject_id } = await userOf(user);
      const organization_id = await organizationOf();
      if (workspace !== undefined) refuseOfOrganization(granted);
      const scope_id = workspace === undefined ? organization_id : (await workspaceOf(workspace, organization_id)).id;
      const membership = { subject_id, scope_id, permissions: granted };
      await identity.setMembership(membership);
      return membership;
    },

    async listMemberships(user) {
      return identity.listMemberships((await userOf(user)).id);
    },

    async listAgents() {
      return identity.listDeployments(await organizationOf());
    },
    shareAgent: (name) => changeAgent(name, { shared: true }),
    unshareAgent: (name) => changeAgent(name, { shared: false }),
    async transferAgent(name, user) {
      const { id } = await userOf(user);
      return changeAgent(name, { owner_user_id: id });
    },
  };
}

const isOfOrganization = (permission: Permission): boolean => permission.startsWith("organization:");

/**
 * The memberships of a key that reaches these workspaces, or without a list all of the organization: then the permissions are
 * granted on the organization, and reach the workspaces from there.
 */
export function grantsOn(
  subject_id: string,
  permissions: readonly Permission[],
  organization_id: string,
  workspaces?: readonly string[],
): readonly MembershipRow[] {
  if (!workspaces) return [{ subject_id, scope_id: organization_id, permissions }];
  const wide = permissions.filter(isOfOrganization);
  const narrow = permissions.filter((permission) => !isOfOrganization(permission));
  return [
    { subject_id, scope_id: organization_id, permissions: wide },
    ...[...new Set(workspaces)].map((scope_id) => ({ subject_id, scope_id, permissions: narrow })),
  ].filter((membership) => membership.permissions.length > 0);
}

// -------------------------------------------------------------------- callers

/**
 * Who uses a key, and what they may do. The permissions of the key and those of its user add up; of those granted on the
 * organization, all but `organization:` ones reach all its workspaces. Whether the key may still be used is not looked at.
 */
export function callerOf({ key, memberships, workspaces, projects }: KeyGrants): Caller {
  const on = (scope_id: string): readonly Permission[] =>
    memberships.filter((membership) => membership.scope_id === scope_id).flatMap(({ permissions }) => permissions);
  const permissions = new Set(on(key.organization_id));
  const reached = workspaces
    .map(({ id }) => {
      const granted = [...permissions, ...on(id)].filter((permission) => !isOfOrganization(permission));
      return [id, new Set(granted)] as const;
    })
    .filter(([, granted]) => granted.size > 0);
  return {
    organization_id: key.organization_id,
    user_id: key.user_id,
    api_key: key.short_key,
    key_id: key.id,
    permissions,
    workspaces: new Map(reached),
    projects: firstOfEach(projects),
  };
}

/** The caller where nobody is asked: every permission on the default organization and all its workspaces. */
export async function owner(identity: IdentityStore, now = 0): Promise<Caller> {
  const { organization } = await identity.ensureDefaults(now);
  const workspaces = (await identity.listWorkspaces(organization.id)).map(({ id }) => id);
  const projects = [...(await identity.listProjects(workspaces))].sort(
    (a, b) => a.created_at - b.created_at || (a.id < b.id ? -1 : 1),
  );
  const all = new Set(PERMISSIONS);
  const some = new Set(PERMISSIONS.filter((permission) => !isOfOrganization(permission)));
  return {
    organization_id: organization.id,
    user_id: null,
    api_key: null,
    key_id: null,
    permissions: all,
    workspaces: new Map(workspaces.map((id) => [id, some])),
    projects: firstOfEach(projects),
  };
}

function firstOfEach(projects: readonly ProjectRow[]): ReadonlyMap<string, string> {
  const first = new Map<string, string>();
  for (const { id, workspace_id } of projects) if (!first.has(workspace_id)) first.set(workspace_id, id);
  return first;
}

// --------------------------------------------------------------------- checks

const missing = (what: string, name: string): ServiceError =>
  new ServiceError("not_found", `${what} ${name} not found`);

/** The oldest of them is the default one: what comes later must not look as old. */
const after = (rows: readonly { readonly created_at: number }[], now: number): number =>
  Math.max(now, ...rows.map(({ created_at }) => created_at + 1));

function made<Row>(outcome: Made<Row>, what: string, name: string, other: string): Row {
  if (outcome.kind === "made") return outcome.row;
  if (outcome.kind === "name_taken") throw new ServiceError("conflict", `${what} ${name} already exists`);
  throw new ServiceError("not_found", `${other} not found`);
}

const named = <Row extends { readonly id: string; readonly name: string }>(
  rows: readonly Row[],
  name: string,
): Row | undefined => rows.find(({ id }) => id === name.toLowerCase()) ?? rows.find((row) => row.name === name);

const isName = (name: string): boolean =>
  name.length > 0 &&
  name.trim() === name &&
  name.isWellFormed() &&
  [...name].length <= NAME_LENGTH &&
  !name.includes("\0");

function proveName(what: string, name: string): void {
  if (!isName(name)) {
    throw new ServiceError(
      "invalid",
      `${what} name ${JSON.stringify(name.slice(0, 80))}: use 1 to ${NAME_LENGTH} characters without white space at the ends`,
    );
  }
  // Everything is found by id or name.
  if (UUID.test(name)) throw new ServiceError("invalid", `${what} name ${name}: looks like an id`);
}

function provenPermissions(permissions: readonly string[], none = false): readonly Permission[] {
  const known: readonly string[] = PERMISSIONS;
  const unknown = permissions.filter((permission) => !known.includes(permission));
  if (unknown.length > 0) {
    throw new ServiceError(
      "invalid",
      `permissions: there is no ${unknown.join(", ")}; known are ${PERMISSIONS.join(", ")}`,
    );
  }
  if (permissions.length === 0 && !none) throw new ServiceError("invalid", "permissions: none is given");
  return PERMISSIONS.filter((permission) => permissions.includes(permission));
}

function refuseOfOrganization(permissions: readonly Permission[]): void {
  const wide = permissions.filter(isOfOrganization);
  if (wide.length > 0) {
    throw new ServiceError("invalid", `permissions: ${wide.join(", ")} can be granted on the organization alone`);
  }
}

function checkKey({ kind, user, workspaces, permissions, expires_at, description }: KeyCreate, now: number): void {
  const problems: string[] = [];
  if (kind === "pt") {
    if (user === undefined) problems.push("user: a personal token needs one");
    if (workspaces !== undefined) problems.push("workspaces: a personal token reaches those of its user");
    if (permissions !== undefined) problems.push("permissions: a personal token has those of its user");
  } else if (kind !== "sk") problems.push(`kind: ${JSON.stringify(kind)} is neither pt nor sk`);
  else if (user !== undefined) problems.push("user: a service key has none");
  if (workspaces?.length === 0) problems.push("workspaces: none is given");
  if (expires_at !== undefined && !(Number.isInteger(expires_at) && expires_at <= LAST_MOMENT)) {
    problems.push("expires_at: must be whole milliseconds since 1970");
  } else if (expires_at !== undefined && expires_at <= now) {
    problems.push(`expires_at: ${new Date(Math.max(expires_at, -LAST_MOMENT)).toISOString()} is not in the future`);
  }
  if (description !== undefined && !(description.isWellFormed() && [...description].length <= NAME_LENGTH)) {
    problems.push(`description: at most ${NAME_LENGTH} characters`);
  }
  if (problems.length > 0) throw new ServiceError("invalid", problems.join("; "));
}
