/** The calls of `createAccounts`: they look rows up by id or name, check the request, and write. */
import type { Environment } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import {
  type ApiKeyRow,
  type DeploymentRow,
  type IdentityStore,
  type MembershipRow,
  normalizeId,
  type Permission,
  type ProjectRow,
  type UserRow,
  type WorkspaceRow,
} from "../storage/identity.ts";
import { isName } from "../validation.ts";
import {
  findByIdOrName,
  type KeyCreate,
  nextCreationTime,
  notFoundRowError,
  parsePermissions,
  refuseOrganizationPermissions,
  requireRow,
  requireWrittenRow,
  validateKeyRequest,
  validateName,
} from "./account-checks.ts";
import { createMemberships, generateKey, hashKey, SERVICE_PERMISSIONS, toShortKey } from "./keys.ts";

export type { KeyCreate } from "./account-checks.ts";

/** The permissions of a user on an organization or a workspace. */
export interface PermissionGrant {
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
  grant(grant: PermissionGrant): Promise<MembershipRow>;
  listMemberships(user: string): Promise<readonly MembershipRow[]>;

  /** Sorted by name. */
  listAgents(): Promise<readonly DeploymentRow[]>;
  /** Lets members of the agent's workspace see it. */
  shareAgent(name: string): Promise<DeploymentRow>;
  unshareAgent(name: string): Promise<DeploymentRow>;
  /** Makes the user the owner of the agent. */
  transferAgent(name: string, user: string): Promise<DeploymentRow>;
}

/** The parts that accounts need. */
export interface AccountOptions {
  readonly identity: IdentityStore;
  readonly environment: Pick<Environment, "now" | "uuid">;
  /** The prefix of new keys. Default `gr`. */
  readonly key_prefix?: string;
}

/** Draws of keys whose short form of four digits is taken, before short forms get six digits. */
const SHORT_FORM_ATTEMPTS = 20;
/** Draws in total. Only with millions of keys is every drawn short form taken. */
const MAX_KEY_ATTEMPTS = 40;

/** Creates the operations on accounts for the host. They check no permissions. */
export function createAccountOperations(options: Required<AccountOptions>): Accounts {
  const context: AccountContext = { ...options, find: createLookup(options.identity, options.environment) };
  return {
    ...createKeyOperations(context),
    ...createWorkspaceOperations(context),
    ...createProjectOperations(context),
    ...createUserOperations(context),
    ...createAgentOperations(context),
  };
}

interface AccountContext extends Required<AccountOptions> {
  readonly find: Lookup;
}

/**
 * Finds rows by id or name. Methods named `require…` throw `not_found` with the missing row. Reading the default organization creates
 * the default rows if they are missing.
 */
interface Lookup {
  /** Returns the id in lower case, or without one that of the default organization. Does not look up an id. */
  resolveOrganizationId(id?: string): Promise<string>;
  /** Returns the workspaces in the order of `names`. Throws `not_found` with all that are missing. */
  requireWorkspaces(names: readonly string[], organization_id: string): Promise<readonly WorkspaceRow[]>;
  /** Returns a workspace, by default of the default organization. */
  requireWorkspace(name: string, organization_id?: string): Promise<WorkspaceRow>;
  /**
   * Returns the projects of a workspace or, without an argument, of all workspaces of the default organization. Throws
   * `not_found` for an unknown workspace.
   */
  findProjects(workspace?: string): Promise<readonly ProjectRow[]>;
  /** Returns a project by id or name. Throws `not_found`, and `invalid` if several workspaces have one of this name. */
  requireProject(name: string, workspace?: string): Promise<ProjectRow>;
  /** Returns a user by id or email address, in any organization. */
  requireUser(name: string): Promise<UserRow>;
}

function createLookup(identity: IdentityStore, environment: AccountOptions["environment"]): Lookup {
  const resolveOrganizationId = async (id?: string): Promise<string> =>
    id?.toLowerCase() ?? (await identity.ensureDefaults(environment.now())).organization.id;

  async function requireWorkspaces(
    names: readonly string[],
    organization_id: string,
  ): Promise<readonly WorkspaceRow[]> {
    const rows = await identity.listUnits("workspace", [organization_id]);
    const pairs = names.map((name) => [name, findByIdOrName(rows, name)] as const);
    const unknownNames = pairs.filter(([, row]) => !row).map(([name]) => name);
    if (unknownNames.length > 0) throw notFoundRowError("Workspace", unknownNames.join(", "));
    return pairs.map(([, row]) => row as WorkspaceRow);
  }

  const requireWorkspace = async (name: string, organization_id?: string): Promise<WorkspaceRow> =>
    (await requireWorkspaces([name], organization_id ?? (await resolveOrganizationId())))[0] as WorkspaceRow;

  async function findProjects(workspace?: string): Promise<readonly ProjectRow[]> {
    const rows =
      workspace === undefined
        ? await identity.listUnits("workspace", [await resolveOrganizationId()])
        : [await requireWorkspace(workspace)];
    return identity.listUnits(
      "project",
      rows.map(({ id }) => id),
    );
  }

  async function requireProject(name: string, workspace?: string): Promise<ProjectRow> {
    const rows = await findProjects(workspace);
    const rowById = rows.find((row) => row.id === name.toLowerCase());
    if (rowById) return rowById;
    const [first, second] = rows.filter((row) => row.name === name);
    if (second) throw new ServiceError("invalid", `Project ${name} is in several workspaces: name the workspace too`);
    return requireRow(first, "Project", name);
  }

  const requireUser = async (name: string): Promise<UserRow> =>
    requireRow(await identity.getUser(normalizeId(name)), "User", name);

  return { resolveOrganizationId, requireWorkspaces, requireWorkspace, findProjects, requireProject, requireUser };
}

/** Creates the operations on API keys. */
function createKeyOperations({
  identity,
  environment,
  key_prefix,
  find,
}: AccountContext): Pick<Accounts, "createKey" | "listKeys" | "revokeKey"> {
  const { resolveOrganizationId, requireWorkspaces, requireUser } = find;

  /**
   * Returns the memberships of a service key; none for a personal token, which has those of its user. Throws `invalid` or
   * `not_found`.
   */
  async function resolveMemberships(
    request: KeyCreate,
    key: string,
    organization_id: string,
  ): Promise<readonly MembershipRow[]> {
    if (request.kind === "pt") return [];
    const permissions = parsePermissions(request.permissions ?? SERVICE_PERMISSIONS);
    const rows = request.workspaces && (await requireWorkspaces(request.workspaces, organization_id));
    return createMemberships(
      key,
      permissions,
      organization_id,
      rows?.map(({ id }) => id),
    );
  }

  return {
    /**
     * Creates a key and returns it with its row; only its hash is stored, so it cannot be read again. Throws `invalid`,
     * `not_found`, or `conflict` if no short form is free.
     */
    // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: each absent member of the request has a default
    async createKey(request) {
      const now = environment.now();
      validateKeyRequest(request, now);
      const organization_id = await resolveOrganizationId(request.organization_id);
      const user = request.user === undefined ? null : await requireUser(request.user);
      const id = environment.uuid();
      const memberships = await resolveMemberships(request, id, organization_id);
      for (let attempt = 0; attempt < MAX_KEY_ATTEMPTS; attempt++) {
        const key = await generateKey(key_prefix, request.kind, () => environment.uuid());
        const row: ApiKeyRow = {
          id,
          organization_id,
          user_id: user?.id ?? null,
          kind: request.kind,
          key_hash: await hashKey(key),
          short_key: toShortKey(key, attempt < SHORT_FORM_ATTEMPTS ? 4 : 6),
          description: request.description ?? null,
          created_at: now,
          expires_at: request.expires_at ?? null,
          revoked_at: null,
          last_used_at: null,
        };
        const { kind } = await identity.createKey(row, memberships);
        if (kind === "made") return { key, row };
        // The workspaces and the user were just read.
        if (kind === "parent_not_found") throw notFoundRowError("Organization", organization_id);
      }
      throw new ServiceError("conflict", "No free short form was found for the key: retry");
    },

    async listKeys(organization_id) {
      return identity.listKeys({ organization_id: await resolveOrganizationId(organization_id) });
    },

    /** Revokes a key, by id or short form, and returns it. A revoked key keeps its first time. Throws `not_found`. */
    async revokeKey(key, organization_id) {
      const row = await identity.revokeKey(await resolveOrganizationId(organization_id), key, environment.now());
      return requireRow(row, "API key", key);
    },
  };
}

function createWorkspaceOperations({
  identity,
  environment,
  find,
}: AccountContext): Pick<Accounts, "createWorkspace" | "renameWorkspace" | "deleteWorkspace" | "listWorkspaces"> {
  const { resolveOrganizationId, requireWorkspace } = find;
  return {
    /**
     * Creates a workspace with a project named Default, and returns the workspace. Throws `invalid`, `already_exists` or
     * `not_found`.
     */
    async createWorkspace(name, organization) {
      validateName("Workspace", name);
      const organization_id = await resolveOrganizationId(organization);
      const created_at = nextCreationTime(await identity.listUnits("workspace", [organization_id]), environment.now());
      const workspaceRow = { id: environment.uuid(), organization_id, name, created_at, deleted_at: null };
      const row = requireWrittenRow(
        await identity.createUnit("workspace", workspaceRow),
        "Workspace",
        name,
        `Organization ${organization_id}`,
      );
      const project = { id: environment.uuid(), workspace_id: row.id, name: "Default", created_at, deleted_at: null };
      await identity.createUnit("project", project);
      return row;
    },

    /** Renames a workspace and returns its changed row. Throws `invalid`, `already_exists` or `not_found`. */
    async renameWorkspace(workspace, name) {
      validateName("Workspace", name);
      const { id } = await requireWorkspace(workspace);
      return requireWrittenRow(
        await identity.renameUnit("workspace", id, name),
        "Workspace",
        name,
        `Workspace ${workspace}`,
      );
    },

    /** Marks a workspace and its projects as deleted, and returns it. Throws `not_found`. */
    async deleteWorkspace(workspace) {
      const row = await identity.deleteUnit("workspace", (await requireWorkspace(workspace)).id, environment.now());
      return requireRow(row, "Workspace", workspace);
    },

    async listWorkspaces(organization_id) {
      return identity.listUnits("workspace", [await resolveOrganizationId(organization_id)]);
    },
  };
}

function createProjectOperations({
  identity,
  environment,
  find,
}: AccountContext): Pick<Accounts, "createProject" | "renameProject" | "deleteProject" | "listProjects"> {
  const { requireWorkspace, findProjects, requireProject } = find;
  return {
    /**
     * Creates a project, without `workspace` in the default one, and returns it. Throws `invalid`, `already_exists` or
     * `not_found`.
     */
    async createProject(name, workspace) {
      validateName("Project", name);
      const { id: workspace_id } =
        workspace === undefined
          ? (await identity.ensureDefaults(environment.now())).workspace
          : await requireWorkspace(workspace);
      const created_at = nextCreationTime(await identity.listUnits("project", [workspace_id]), environment.now());
      const row = { id: environment.uuid(), workspace_id, name, created_at, deleted_at: null };
      return requireWrittenRow(await identity.createUnit("project", row), "Project", name, `Workspace ${workspace_id}`);
    },

    /** Renames a project and returns its changed row. Throws `invalid`, `already_exists` or `not_found`. */
    async renameProject(project, name, workspace) {
      validateName("Project", name);
      const { id } = await requireProject(project, workspace);
      return requireWrittenRow(await identity.renameUnit("project", id, name), "Project", name, `Project ${project}`);
    },

    /** Marks a project as deleted, and returns it. Throws `not_found`. */
    async deleteProject(project, workspace) {
      const row = await identity.deleteUnit(
        "project",
        (await requireProject(project, workspace)).id,
        environment.now(),
      );
      return requireRow(row, "Project", project);
    },

    listProjects: findProjects,
  };
}

function createUserOperations({
  identity,
  environment,
  find,
}: AccountContext): Pick<Accounts, "createUser" | "deleteUser" | "listUsers" | "grant" | "listMemberships"> {
  const { resolveOrganizationId, requireWorkspace, requireUser } = find;
  return {
    /**
     * Creates a user with permissions on the default organization, and returns it. Throws `invalid`, or `already_exists` for the
     * email address.
     */
    async createUser({ email, name, permissions = ["organization:read"] }) {
      if (!/^[^\s@]+@[^\s@]+$/.test(email) || !isName(email)) {
        throw new ServiceError("invalid", `email: ${JSON.stringify(email)} is not an email address`);
      }
      if (name !== undefined) validateName("User", name);
      const grantedPermissions = parsePermissions(permissions);
      const scope_id = await resolveOrganizationId();
      const user: UserRow = {
        id: environment.uuid(),
        email,
        name: name ?? null,
        created_at: environment.now(),
        deleted_at: null,
      };
      const row = requireWrittenRow(await identity.createUser(user), "User", email, "User");
      await identity.setMembership({ subject_id: row.id, scope_id, permissions: grantedPermissions });
      return row;
    },

    async deleteUser(user) {
      return requireRow(await identity.deleteUser((await requireUser(user)).id, environment.now()), "User", user);
    },

    async listUsers() {
      return identity.listUsers(await resolveOrganizationId());
    },

    /**
     * Replaces the permissions of a user on the organization or a workspace; an empty list removes them. Throws `invalid` or
     * `not_found`.
     */
    async grant({ user, workspace, permissions }) {
      const grantedPermissions = parsePermissions(permissions, true);
      const { id: subject_id } = await requireUser(user);
      const organization_id = await resolveOrganizationId();
      if (workspace !== undefined) refuseOrganizationPermissions(grantedPermissions);
      const scope_id =
        workspace === undefined ? organization_id : (await requireWorkspace(workspace, organization_id)).id;
      const membership = { subject_id, scope_id, permissions: grantedPermissions };
      await identity.setMembership(membership);
      return membership;
    },

    async listMemberships(user) {
      return identity.listMemberships((await requireUser(user)).id);
    },
  };
}

function createAgentOperations({
  identity,
  find,
}: AccountContext): Pick<Accounts, "listAgents" | "shareAgent" | "unshareAgent" | "transferAgent"> {
  const { resolveOrganizationId, requireUser } = find;

  const changeAgent = async (
    name: string,
    change: { readonly owner_user_id?: string; readonly shared?: boolean },
  ): Promise<DeploymentRow> => requireRow(await identity.updateDeployment(name, change), "Agent", name);

  return {
    async listAgents() {
      return identity.listDeployments(await resolveOrganizationId());
    },
    shareAgent: (name) => changeAgent(name, { shared: true }),
    unshareAgent: (name) => changeAgent(name, { shared: false }),
    /** Makes the user the owner of the agent, and returns the changed row of the agent. Throws `not_found` for either. */
    async transferAgent(name, user) {
      const { id } = await requireUser(user);
      return changeAgent(name, { owner_user_id: id });
    },
  };
}
