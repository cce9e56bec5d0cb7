/** The calls of `createAccounts`: they look rows up by id or name, check the request, and write. */
import type { Environment } from "../environment.ts";
import { ServiceError } from "../errors.ts";
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
import { isName } from "../validation.ts";
import {
  checkKeyRequest,
  checkName,
  existing,
  findByIdOrName,
  type KeyCreate,
  laterThan,
  missing,
  refuseOrganizationPermissions,
  rowOf,
  validPermissions,
} from "./account-checks.ts";
import { grantsOn, hashKey, makeKey, SERVICE_PERMISSIONS, shortKey } from "./keys.ts";

export type { KeyCreate } from "./account-checks.ts";

/** The permissions of a user on an organization or a workspace. */
interface Grant {
  /** Id or email of a user. */
  readonly user: string;
  /** Id or name of a workspace. Default: the organization, including all of its workspaces. */
  readonly workspace?: string;
  /** Replaces the permissions there; an empty list ends the membership. `organization:` ones need an organization. */
  readonly permissions: readonly Permission[];
}

/**
 * Arguments are ids or names (of users: ids or emails). The default organization is the oldest one. A call that rejects has written
 * nothing. Errors: not_found, conflict (the name is taken), invalid, forbidden (static accounts); the text names the row.
 */
export interface Accounts {
  /** Only the hash of `key` is stored: show it to the user now. */
  createKey(request: KeyCreate): Promise<{ readonly key: string; readonly row: ApiKeyRow }>;
  /** Oldest first, including expired and revoked keys. */
  listKeys(organization_id?: string): Promise<readonly ApiKeyRow[]>;
  /** Revokes a key by id or short form, at once. Revoking it again is no error. */
  revokeKey(key: string, organization_id?: string): Promise<ApiKeyRow>;

  /** Creates the workspace with a project named `Default`. */
  createWorkspace(name: string, organization_id?: string): Promise<WorkspaceRow>;
  renameWorkspace(workspace: string, name: string): Promise<WorkspaceRow>;
  /** Deletes the workspace with its projects. Its usage stays in reports, under its last name. */
  deleteWorkspace(workspace: string): Promise<WorkspaceRow>;
  /** Sorted by name. */
  listWorkspaces(organization_id?: string): Promise<readonly WorkspaceRow[]>;

  /** Default workspace: the oldest. */
  createProject(name: string, workspace?: string): Promise<ProjectRow>;
  renameProject(project: string, name: string, workspace?: string): Promise<ProjectRow>;
  deleteProject(project: string, workspace?: string): Promise<ProjectRow>;
  /** Sorted by name. Default: the projects of all workspaces. */
  listProjects(workspace?: string): Promise<readonly ProjectRow[]>;

  /** Creates a member of the oldest organization. Default permissions there: `organization:read`. */
  createUser(user: {
    readonly email: string;
    readonly name?: string;
    readonly permissions?: readonly Permission[];
  }): Promise<UserRow>;
  /** Deletes the user, revokes the personal tokens and ends the memberships. */
  deleteUser(user: string): Promise<UserRow>;
  /** Sorted by email. */
  listUsers(): Promise<readonly UserRow[]>;
  grant(grant: Grant): Promise<MembershipRow>;
  listMemberships(user: string): Promise<readonly MembershipRow[]>;

  /** Sorted by name. */
  listAgents(): Promise<readonly DeploymentRow[]>;
  /** Lets members of the agent's workspace see it. */
  shareAgent(name: string): Promise<DeploymentRow>;
  unshareAgent(name: string): Promise<DeploymentRow>;
  /** Makes the user the owner of the agent. */
  transferAgent(name: string, user: string): Promise<DeploymentRow>;
}

export interface AccountOptions {
  readonly identity: IdentityStore;
  readonly environment: Pick<Environment, "now" | "uuid">;
  /** The prefix of new keys. Default `gr`. */
  readonly key_prefix?: string;
}

/** Draws of keys whose short form of four digits is taken, before short forms get six digits. */
const SHORT_DRAWS = 20;
/** Draws in total. Only with millions of keys is every drawn short form taken. */
const MAX_DRAWS = 40;

export function accountCalls(options: Required<AccountOptions>): Accounts {
  const context: AccountContext = { ...options, find: createLookup(options.identity, options.environment) };
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

/** Finds rows by id or name. Errors: not_found; the text names the missing row. */
function createLookup(identity: IdentityStore, environment: AccountOptions["environment"]) {
  const organizationOf = async (id?: string): Promise<string> =>
    id?.toLowerCase() ?? (await identity.ensureDefaults(environment.now())).organization.id;

  async function workspacesOf(names: readonly string[], organization_id: string): Promise<readonly WorkspaceRow[]> {
    const rows = await identity.listUnits("workspace", [organization_id]);
    const pairs = names.map((name) => [name, findByIdOrName(rows, name)] as const);
    const unknown = pairs.filter(([, row]) => !row).map(([name]) => name);
    if (unknown.length > 0) throw missing("Workspace", unknown.join(", "));
    return pairs.map(([, row]) => row as WorkspaceRow);
  }

  const workspaceOf = async (name: string, organization_id?: string): Promise<WorkspaceRow> =>
    (await workspacesOf([name], organization_id ?? (await organizationOf())))[0] as WorkspaceRow;

  async function projectsOf(workspace?: string): Promise<readonly ProjectRow[]> {
    const rows =
      workspace === undefined
        ? await identity.listUnits("workspace", [await organizationOf()])
        : [await workspaceOf(workspace)];
    return identity.listUnits(
      "project",
      rows.map(({ id }) => id),
    );
  }

  async function projectOf(name: string, workspace?: string): Promise<ProjectRow> {
    const rows = await projectsOf(workspace);
    const rowById = rows.find((row) => row.id === name.toLowerCase());
    if (rowById) return rowById;
    const [first, second] = rows.filter((row) => row.name === name);
    if (second) throw new ServiceError("invalid", `Project ${name} is in several workspaces: name the workspace too`);
    return existing(first, "Project", name);
  }

  const userOf = async (name: string): Promise<UserRow> => existing(await identity.getUser(idOf(name)), "User", name);

  return { organizationOf, workspacesOf, workspaceOf, projectsOf, projectOf, userOf };
}

function keyVerbs({
  identity,
  environment,
  key_prefix,
  find,
}: AccountContext): Pick<Accounts, "createKey" | "listKeys" | "revokeKey"> {
  const { organizationOf, workspacesOf, userOf } = find;

  /** The memberships of a service key. A personal token has those of its user. */
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
    // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: each absent member of the request has a default
    async createKey(request) {
      const now = environment.now();
      checkKeyRequest(request, now);
      const organization_id = await organizationOf(request.organization_id);
      const user = request.user === undefined ? null : await userOf(request.user);
      const id = environment.uuid();
      const memberships = await grantsOf(request, id, organization_id);
      for (let draws = 0; draws < MAX_DRAWS; draws++) {
        const key = await makeKey(key_prefix, request.kind, () => environment.uuid());
        const row: ApiKeyRow = {
          id,
          organization_id,
          user_id: user?.id ?? null,
          kind: request.kind,
          key_hash: await hashKey(key),
          short_key: shortKey(key, draws < SHORT_DRAWS ? 4 : 6),
          description: request.description ?? null,
          created_at: now,
          expires_at: request.expires_at ?? null,
          revoked_at: null,
          last_used_at: null,
        };
        const { kind } = await identity.createKey(row, memberships);
        if (kind === "made") return { key, row };
        // The workspaces and the user were just read.
        if (kind === "parent_not_found") throw missing("Organization", organization_id);
      }
      throw new ServiceError("conflict", "No free short form was found for the key: retry");
    },

    async listKeys(organization_id) {
      return identity.listKeys({ organization_id: await organizationOf(organization_id) });
    },

    async revokeKey(key, organization_id) {
      const row = await identity.revokeKey(await organizationOf(organization_id), key, environment.now());
      return existing(row, "API key", key);
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
    async createWorkspace(name, organization) {
      checkName("Workspace", name);
      const organization_id = await organizationOf(organization);
      const created_at = laterThan(await identity.listUnits("workspace", [organization_id]), environment.now());
      const terms = { id: environment.uuid(), organization_id, name, created_at, deleted_at: null };
      const row = rowOf(
        await identity.createUnit("workspace", terms),
        "Workspace",
        name,
        `Organization ${organization_id}`,
      );
      const project = { id: environment.uuid(), workspace_id: row.id, name: "Default", created_at, deleted_at: null };
      await identity.createUnit("project", project);
      return row;
    },

    async renameWorkspace(workspace, name) {
      checkName("Workspace", name);
      const { id } = await workspaceOf(workspace);
      return rowOf(await identity.renameUnit("workspace", id, name), "Workspace", name, `Workspace ${workspace}`);
    },

    async deleteWorkspace(workspace) {
      const row = await identity.deleteUnit("workspace", (await workspaceOf(workspace)).id, environment.now());
      return existing(row, "Workspace", workspace);
    },

    async listWorkspaces(organization_id) {
      return identity.listUnits("workspace", [await organizationOf(organization_id)]);
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
      const created_at = laterThan(await identity.listUnits("project", [workspace_id]), environment.now());
      const row = { id: environment.uuid(), workspace_id, name, created_at, deleted_at: null };
      return rowOf(await identity.createUnit("project", row), "Project", name, `Workspace ${workspace_id}`);
    },

    async renameProject(project, name, workspace) {
      checkName("Project", name);
      const { id } = await projectOf(project, workspace);
      return rowOf(await identity.renameUnit("project", id, name), "Project", name, `Project ${project}`);
    },

    async deleteProject(project, workspace) {
      const row = await identity.deleteUnit("project", (await projectOf(project, workspace)).id, environment.now());
      return existing(row, "Project", project);
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
      return existing(await identity.deleteUser((await userOf(user)).id, environment.now()), "User", user);
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

  const changeAgent = async (
    name: string,
    change: { readonly owner_user_id?: string; readonly shared?: boolean },
  ): Promise<DeploymentRow> => existing(await identity.updateDeployment(name, change), "Agent", name);

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
