/** API keys, workspaces, projects, users and shared agents, as the library's callers manage them. */
import type { Environment } from "../environment.ts";
import { ConfigError, ServiceError } from "../errors.ts";
import {
  type ApiKeyRow,
  type DeploymentRow,
  type IdentityStore,
  idOf,
  type MembershipRow,
  type Permission,
  type ProjectRow,
  type UserRow,
  type WorkspaceRow,
} from "../storage/identity.ts";
import {
  checkKeyRequest,
  checkName,
  findByIdOrName,
  isName,
  type KeyCreate,
  laterThan,
  missing,
  refuseOrganizationPermissions,
  rowOf,
  validPermissions,
} from "./account-checks.ts";
import { hashKey, KEY_PREFIX, makeKey, shortKey } from "./api-keys.ts";
import { grantsOn, SERVICE_PERMISSIONS } from "./grants.ts";

export type { KeyCreate } from "./account-checks.ts";

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

/** After this many draws with a taken short form of four digits, short forms have six. */
const DRAWS = 20;
/** After as many draws again, no short form is free: that takes millions of keys. */
const DRAWS_IN_ALL = 40;

/** Throws a ConfigError when `key_prefix` is not a valid prefix of keys. */
export function createAccounts({ identity, environment, key_prefix = KEY_PREFIX }: AccountOptions): Accounts {
  if (!/^[a-z][a-z0-9]{0,15}$/.test(key_prefix)) {
    throw new ConfigError(["auth.key_prefix: use up to 16 lower case letters and digits"]);
  }
  const context: AccountContext = { identity, environment, key_prefix, find: createLookup(identity, environment) };
  return {
    ...keyVerbs(context),
    ...workspaceVerbs(context),
    ...projectVerbs(context),
    ...userVerbs(context),
    ...agentVerbs(context),
  };
}

interface AccountContext extends Required<AccountOptions> {
  readonly find: Lookup;
}

type Lookup = ReturnType<typeof createLookup>;

/** Finds rows by id or name. Each function throws not_found, which names what is missing. */
function createLookup(identity: IdentityStore, environment: AccountOptions["environment"]) {
  const organizationOf = async (given?: string): Promise<string> =>
    given?.toLowerCase() ?? (await identity.ensureDefaults(environment.now())).organization.id;

  async function workspacesOf(names: readonly string[], organization_id: string): Promise<readonly WorkspaceRow[]> {
    const rows = await identity.listWorkspaces(organization_id);
    const found = names.map((name) => [name, findByIdOrName(rows, name)] as const);
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

  return { organizationOf, workspacesOf, workspaceOf, projectsOf, projectOf, userOf };
}

function keyVerbs({
  identity,
  environment,
  key_prefix,
  find,
}: AccountContext): Pick<Accounts, "createKey" | "listKeys" | "revokeKey"> {
  const { organizationOf, workspacesOf, userOf } = find;

  /** What the key itself may do where; a personal token may do what its user may. */
  async function grantsOf(request: KeyCreate, key: string, organization_id: string): Promise<readonly MembershipRow[]> {
    if (request.kind === "pt") return [];
    const permissions = validPermissions(request.permissions ?? SERVICE_PERMISSIONS);
    const rows = request.workspaces && (await workspacesOf(request.workspaces, organization_id));
    return grantsOn(
      key,
      permissions,
      organization_id,
      rows?.map(({ id }) => id),
    );
  }

  return {
    async createKey(request) {
      const now = environment.now();
      checkKeyRequest(request, now);
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
  };
}

function workspaceVerbs({
  identity,
  environment,
  find,
}: AccountContext): Pick<Accounts, "createWorkspace" | "renameWorkspace" | "deleteWorkspace" | "listWorkspaces"> {
  const { organizationOf, workspaceOf } = find;
  return {
    async createWorkspace(name, given) {
      checkName("Workspace", name);
      const organization_id = await organizationOf(given);
      const created_at = laterThan(await identity.listWorkspaces(organization_id), environment.now());
      const terms = { id: environment.uuid(), organization_id, name, created_at, deleted_at: null };
      const row = rowOf(await identity.createWorkspace(terms), "Workspace", name, `Organization ${organization_id}`);
      const project = { id: environment.uuid(), workspace_id: row.id, name: "Default", created_at, deleted_at: null };
      await identity.createProject(project);
      return row;
    },

    async renameWorkspace(workspace, name) {
      checkName("Workspace", name);
      const { id } = await workspaceOf(workspace);
      return rowOf(await identity.renameWorkspace(id, name), "Workspace", name, `Workspace ${workspace}`);
    },

    async deleteWorkspace(workspace) {
      const row = await identity.deleteWorkspace((await workspaceOf(workspace)).id, environment.now());
      if (!row) throw missing("Workspace", workspace);
      return row;
    },

    async listWorkspaces(organization_id) {
      return identity.listWorkspaces(await organizationOf(organization_id));
    },
  };
}

function projectVerbs({
  identity,
  environment,
  find,
}: AccountContext): Pick<Accounts, "createProject" | "renameProject" | "deleteProject" | "listProjects"> {
  const { workspaceOf, projectsOf, projectOf } = find;
  return {
    async createProject(name, workspace) {
      checkName("Project", name);
      const { id: workspace_id } =
        workspace === undefined
          ? (await identity.ensureDefaults(environment.now())).workspace
          : await workspaceOf(workspace);
      const created_at = laterThan(await identity.listProjects([workspace_id]), environment.now());
      const row = { id: environment.uuid(), workspace_id, name, created_at, deleted_at: null };
      return rowOf(await identity.createProject(row), "Project", name, `Workspace ${workspace_id}`);
    },

    async renameProject(project, name, workspace) {
      checkName("Project", name);
      const { id } = await projectOf(project, workspace);
      return rowOf(await identity.renameProject(id, name), "Project", name, `Project ${project}`);
    },

    async deleteProject(project, workspace) {
      const row = await identity.deleteProject((await projectOf(project, workspace)).id, environment.now());
      if (!row) throw missing("Project", project);
      return row;
    },

    listProjects: projectsOf,
  };
}

function userVerbs({
  identity,
  environment,
  find,
}: AccountContext): Pick<Accounts, "createUser" | "deleteUser" | "listUsers" | "grant" | "listMemberships"> {
  const { organizationOf, workspaceOf, userOf } = find;
  return {
    async createUser({ email, name, permissions = ["organization:read"] }) {
      if (!/^[^\s@]+@[^\s@]+$/.test(email) || !isName(email)) {
        throw new ServiceError("invalid", `email: ${JSON.stringify(email)} is not an email address`);
      }
      if (name !== undefined) checkName("User", name);
      const granted = validPermissions(permissions);
      const scope_id = await organizationOf();
      const user: UserRow = {
        id: environment.uuid(),
        email,
        name: name ?? null,
        created_at: environment.now(),
        deleted_at: null,
      };
      const row = rowOf(await identity.createUser(user), "User", email, "User");
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
      const granted = validPermissions(permissions, true);
      const { id: subject_id } = await userOf(user);
      const organization_id = await organizationOf();
      if (workspace !== undefined) refuseOrganizationPermissions(granted);
      const scope_id = workspace === undefined ? organization_id : (await workspaceOf(workspace, organization_id)).id;
      const membership = { subject_id, scope_id, permissions: granted };
      await identity.setMembership(membership);
      return membership;
    },

    async listMemberships(user) {
      return identity.listMemberships((await userOf(user)).id);
    },
  };
}

function agentVerbs({
  identity,
  find,
}: AccountContext): Pick<Accounts, "listAgents" | "shareAgent" | "unshareAgent" | "transferAgent"> {
  const { organizationOf, userOf } = find;

  async function changeAgent(
    name: string,
    change: { readonly owner_user_id?: string; readonly shared?: boolean },
  ): Promise<DeploymentRow> {
    const row = await identity.updateDeployment(name, change);
    if (!row) throw missing("Agent", name);
    return row;
  }

  return {
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
