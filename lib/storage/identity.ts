/** Accounts: organizations, workspaces, projects, deployments, users and API keys, and the permissions of callers. */
import { ServiceError } from "../errors.ts";
import type { AuthUser } from "./rows.ts";

export const PERMISSIONS = [
  "organization:read",
  "organization:manage",
  "workspaces:read",
  "runs:read",
  "runs:create",
  "feedback:create",
  "feedback:read",
  "feedback:delete",
] as const;

/** A permission of a user or a key. */
export type Permission = (typeof PERMISSIONS)[number];

/** The pattern of the ids of accounts. Any other text is a name. */
export const UUID: RegExp = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** Returns an id in lower case, and a name unchanged. */
export const normalizeId = (text: string): string => (UUID.test(text) ? text.toLowerCase() : text);

/** The authenticated sender of a request, with its permissions. */
export interface Caller {
  readonly organization_id: string;
  /** Null for a service key, and without authentication. */
  readonly user_id: string | null;
  /** The short form of the key in the request; null without one. */
  readonly api_key: string | null;
  /** The id of that key. */
  readonly key_id: string | null;
  /** The permissions on the organization. */
  readonly permissions: ReadonlySet<Permission>;
  /** The permissions on each accessible workspace, by its id. */
  readonly workspaces: ReadonlyMap<string, ReadonlySet<Permission>>;
  /** The default project of each workspace, which is its oldest. */
  readonly projects: ReadonlyMap<string, string>;
  /** The user of custom authentication, for its handlers. Absent with a key. */
  readonly user?: AuthUser;
}

/** Returns the ids of the workspaces on which the caller has the permission. Throws `permission_missing` if there is none. */
export function requireWorkspacesWith(caller: Caller, permission: Permission): readonly string[] {
  const ids = [...caller.workspaces].filter(([, permissions]) => permissions.has(permission)).map(([id]) => id);
  if (ids.length === 0) throw new ServiceError("permission_missing", `This needs the permission ${permission}`);
  return ids;
}

/** Throws `permission_missing` if the caller does not have the permission on the organization. */
export function requireOrganizationPermission(caller: Caller, permission: Permission): void {
  if (!caller.permissions.has(permission)) {
    throw new ServiceError("permission_missing", `This needs the permission ${permission}`);
  }
}

// ---------------------------------------------------------------------- rows

/** An organization as stored. */
export interface OrganizationRow {
  readonly id: string;
  readonly name: string;
  readonly created_at: number;
}

/** A workspace as stored. */
export interface WorkspaceRow {
  readonly id: string;
  readonly organization_id: string;
  readonly name: string;
  readonly created_at: number;
  readonly deleted_at: number | null;
}

/** A project as stored. */
export interface ProjectRow {
  readonly id: string;
  readonly workspace_id: string;
  readonly name: string;
  readonly created_at: number;
  readonly deleted_at: number | null;
}

/** The units of an organization: its workspaces, and their projects. */
export interface UnitRows {
  readonly workspace: WorkspaceRow;
  readonly project: ProjectRow;
}

/** The kinds of units. */
export type UnitKind = keyof UnitRows;

/** A user as stored. */
export interface UserRow {
  readonly id: string;
  readonly email: string | null;
  readonly name: string | null;
  readonly created_at: number;
  readonly deleted_at: number | null;
}

/** The permissions of a user or a key on an organization or a workspace. */
export interface MembershipRow {
  readonly subject_id: string;
  /** Id of an organization or a workspace. */
  readonly scope_id: string;
  readonly permissions: readonly Permission[];
}

/** `pt`: a personal key. `sk`: a service key. */
export type KeyKind = "pt" | "sk";

/** An API key as stored: its hash, never the key. */
export interface ApiKeyRow {
  readonly id: string;
  readonly organization_id: string;
  /** The user of a personal token; null for a service key. */
  readonly user_id: string | null;
  readonly kind: KeyKind;
  /** SHA-256 of the whole key, hex. */
  readonly key_hash: string;
  /** Unique in its organization. */
  readonly short_key: string;
  readonly description: string | null;
  readonly created_at: number;
  readonly expires_at: number | null;
  readonly revoked_at: number | null;
  /** Written at most once a minute. */
  readonly last_used_at: number | null;
}

/** A deployment: the project to which its runs are billed, and its owner in mode `agent_builder`. */
export interface DeploymentRow {
  readonly name: string;
  readonly project_id: string;
  readonly workspace_id: string;
  readonly organization_id: string;
  readonly owner_user_id: string | null;
  readonly shared: boolean;
}

/** A key with the memberships of the key and, for a personal token, of its user. */
export interface KeyGrants {
  readonly key: ApiKeyRow;
  readonly memberships: readonly MembershipRow[];
  /** All workspaces of the organization that are not deleted, oldest first. */
  readonly workspaces: readonly WorkspaceRow[];
  /** Their projects that are not deleted, oldest first. */
  readonly projects: readonly ProjectRow[];
}

/** Names for reports; deleted entities keep their last one. */
export interface EntityNames {
  readonly workspaces: ReadonlyMap<string, string>;
  readonly projects: ReadonlyMap<string, string>;
  /** Email by user id. */
  readonly users: ReadonlyMap<string, string | null>;
}

/**
 * The result of creating or changing a named row. `parent_not_found`: the organization or workspace that should contain it does not
 * exist.
 */
export type IdentityWriteResult<Row> =
  | { readonly kind: "made"; readonly row: Row }
  | { readonly kind: "name_taken" | "parent_not_found" | "not_found" };

/**
 * The store of accounts. The SQL storages have one; a host may bring its own. Each operation is atomic. An exception means that the
 * store failed. A read-only store rejects changes with `forbidden`. Names are unique among rows that are not deleted: workspaces in
 * their organization, projects in their workspace, organizations and the emails of users overall.
 */
export interface IdentityStore {
  /** Returns the oldest organization with its oldest workspace and project. Creates missing ones with the name `Default`. */
  ensureDefaults(now: number): Promise<{
    readonly organization: OrganizationRow;
    readonly workspace: WorkspaceRow;
    readonly project: ProjectRow;
  }>;
  /**
   * Creates the row of a deployment, or moves an existing one to the workspace and project. Both are ids or names: a missing name
   * is created, a missing id gives `parent_not_found`. `owner_user_id` and `shared` apply only to a new row.
   */
  registerDeployment(
    deployment: {
      readonly name: string;
      readonly workspace?: string;
      readonly project?: string;
      readonly owner_user_id?: string;
      readonly shared?: boolean;
    },
    now: number,
  ): Promise<IdentityWriteResult<DeploymentRow>>;
  /** Reads a deployment. Returns null if there is none. */
  getDeployment(name: string): Promise<DeploymentRow | null>;
  /** Writes the members of `change` and returns the deployment, or null if there is none. */
  updateDeployment(
    name: string,
    change: { readonly owner_user_id?: string | null; readonly shared?: boolean },
  ): Promise<DeploymentRow | null>;
  /** Lists the deployments of an organization, sorted by name; none for an unknown organization. */
  listDeployments(organization_id: string): Promise<readonly DeploymentRow[]>;

  /** True if keys can have any format, so that every key is looked up. */
  readonly any_keys?: boolean;
  /** Finds a key, including expired and revoked ones. Returns null if there is none. */
  findKey(key_hash: string): Promise<KeyGrants | null>;
  /** Stores that the key was used, at most once a minute. Has no effect for an unknown key. */
  touchKey(id: string, now: number): Promise<void>;
  /** Creates a key. `short_key_taken`: another key of the organization has this short form. */
  createKey(
    key: ApiKeyRow,
    memberships: readonly MembershipRow[],
  ): Promise<{ readonly kind: "made" | "short_key_taken" | "parent_not_found" }>;
  /** Revokes a key by id or short form. A revoked key keeps its first time. Returns null if there is none. */
  revokeKey(organization_id: string, key: string, now: number): Promise<ApiKeyRow | null>;
  /** Lists keys, oldest first. Default: of all organizations, without a limit. */
  listKeys(query: { readonly organization_id?: string; readonly limit?: number }): Promise<readonly ApiKeyRow[]>;

  /** Creates a workspace or a project. `name_taken`: another one of the same parent has the name; nothing was written. */
  createUnit<Kind extends UnitKind>(kind: Kind, row: UnitRows[Kind]): Promise<IdentityWriteResult<UnitRows[Kind]>>;
  /** Renames a workspace or a project. `not_found`: it does not exist or is deleted. */
  renameUnit<Kind extends UnitKind>(kind: Kind, id: string, name: string): Promise<IdentityWriteResult<UnitRows[Kind]>>;
  /** Deletes a workspace with its projects, or a project. Returns null if it does not exist. */
  deleteUnit<Kind extends UnitKind>(kind: Kind, id: string, now: number): Promise<UnitRows[Kind] | null>;
  /** Lists the workspaces of organizations or the projects of workspaces, sorted by name, without deleted ones. */
  listUnits<Kind extends UnitKind>(kind: Kind, parent_ids: readonly string[]): Promise<readonly UnitRows[Kind][]>;
  /** Creates a user. `name_taken`: another user has the email; nothing was written. */
  createUser(user: UserRow): Promise<IdentityWriteResult<UserRow>>;
  /** Marks a user as deleted, revokes its tokens and ends its memberships. Returns it, or null if there is none. */
  deleteUser(id: string, now: number): Promise<UserRow | null>;
  /** Finds a user by id or email. Returns null if there is none. */
  getUser(user: string): Promise<UserRow | null>;
  /**
   * Returns the id of the user that custom authentication calls `identity` in the workspace. Creates a missing user. `email`
   * replaces the stored one, unless another user has it.
   */
  ensureUser(
    user: { readonly workspace_id: string; readonly identity: string; readonly email?: string },
    now: number,
  ): Promise<string>;
  /** Lists the members of the organization, sorted by email. */
  listUsers(organization_id: string): Promise<readonly UserRow[]>;
  /** Replaces the permissions of the subject on the scope. An empty list ends the membership. */
  setMembership(membership: MembershipRow): Promise<void>;
  /** Lists the memberships of a user or a key; none for an unknown one. */
  listMemberships(subject_id: string): Promise<readonly MembershipRow[]>;
  /** Reads the names of these ids, including deleted entities. */
  readNames(ids: {
    readonly workspaces?: readonly string[];
    readonly projects?: readonly string[];
    readonly users?: readonly string[];
  }): Promise<EntityNames>;
}
