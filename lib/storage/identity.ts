/** Accounts: organizations, workspaces, projects, deployments, users and API keys, and what a caller may do. */
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

/** One permission of a user or a key. */
export type Permission = (typeof PERMISSIONS)[number];

/** Ids of accounts are UUIDs; what is none is a name. */
export const UUID: RegExp = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** An id in lower case; a name as it is. */
export const normalizeId = (text: string): string => (UUID.test(text) ? text.toLowerCase() : text);

/** Who makes a request, and what they may do. */
export interface Caller {
  readonly organization_id: string;
  /** Null for a service key, and without authentication. */
  readonly user_id: string | null;
  /** Short form of the key that was sent; null without one. */
  readonly api_key: string | null;
  /** Id of that key. */
  readonly key_id: string | null;
  /** On the organization as a whole. */
  readonly permissions: ReadonlySet<Permission>;
  /** On each workspace that it may use, by its id. */
  readonly workspaces: ReadonlyMap<string, ReadonlySet<Permission>>;
  /** The project that records without one go to, by workspace: the oldest of each. */
  readonly projects: ReadonlyMap<string, string>;
  /** Whom custom authentication knows, and its handlers are asked about; absent with a key. */
  readonly user?: AuthUser;
}

/** Throws forbidden when the caller has the permission on no workspace. Gives those where it has it. */
export function requireWorkspacesWith(caller: Caller, permission: Permission): readonly string[] {
  const ids = [...caller.workspaces].filter(([, permissions]) => permissions.has(permission)).map(([id]) => id);
  if (ids.length === 0) throw new ServiceError("permission_missing", `This needs the permission ${permission}`);
  return ids;
}

/** Throws forbidden when the caller does not have the permission on the organization. */
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

/** What an organization is divided into: its workspaces, and their projects. */
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

/** What a user or a key may do on an organization or a workspace. */
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
  /** Whose personal token it is; null for a service key. */
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

/** One deployment: where its runs are billed, and who owns it in mode `agent_builder`. */
export interface DeploymentRow {
  readonly name: string;
  readonly project_id: string;
  readonly workspace_id: string;
  readonly organization_id: string;
  readonly owner_user_id: string | null;
  readonly shared: boolean;
}

/** A key that may be used, and what comes with it: the memberships of the key and, for a personal token, of its user. */
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

/** Outcomes of making or changing a named thing. `parent_not_found`: what it was to belong to is not there. */
export type IdentityWriteResult<Row> =
  | { readonly kind: "made"; readonly row: Row }
  | { readonly kind: "name_taken" | "parent_not_found" | "not_found" };

/**
 * Where accounts are kept. The SQL storages have one; a host may bring its own. Each verb is atomic by itself; an exception means
 * that the store failed. A read-only store rejects what changes accounts with `forbidden`. Names are unique among what is not deleted:
 * workspaces in their organization, projects in their workspace, organizations and users' emails overall.
 */
export interface IdentityStore {
  /** The oldest organization with its oldest workspace and project, all named `Default` where they have to be made. */
  ensureDefaults(now: number): Promise<{
    readonly organization: OrganizationRow;
    readonly workspace: WorkspaceRow;
    readonly project: ProjectRow;
  }>;
  /**
   * The deployment's row, made when it is missing, moved when it is elsewhere. `workspace` and `project` are ids or names; a name
   * that is not there is made, an id that is not there gives `parent_not_found`. `owner` and `shared` count only when it is made.
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
  getDeployment(name: string): Promise<DeploymentRow | null>;
  updateDeployment(
    name: string,
    change: { readonly owner_user_id?: string | null; readonly shared?: boolean },
  ): Promise<DeploymentRow | null>;
  /** By name. */
  listDeployments(organization_id: string): Promise<readonly DeploymentRow[]>;

  /** True where keys may be of any shape: they are looked up whatever they look like. */
  readonly any_keys?: boolean;
  /** Null when there is no such key. Expired and revoked ones are found: their times tell. */
  findKey(key_hash: string): Promise<KeyGrants | null>;
  /** Notes that the key was used. */
  touchKey(id: string, now: number): Promise<void>;
  /** `taken`: its short form is another key's in the organization. */
  createKey(
    key: ApiKeyRow,
    memberships: readonly MembershipRow[],
  ): Promise<{ readonly kind: "made" | "short_key_taken" | "parent_not_found" }>;
  /** By id or short form. Null when there is none; a key that was revoked before keeps that time. */
  revokeKey(organization_id: string, key: string, now: number): Promise<ApiKeyRow | null>;
  /** Oldest first. Default: of all organizations, without a limit. */
  listKeys(query: { readonly organization_id?: string; readonly limit?: number }): Promise<readonly ApiKeyRow[]>;

  createUnit<Kind extends UnitKind>(kind: Kind, row: UnitRows[Kind]): Promise<IdentityWriteResult<UnitRows[Kind]>>;
  renameUnit<Kind extends UnitKind>(kind: Kind, id: string, name: string): Promise<IdentityWriteResult<UnitRows[Kind]>>;
  /** A workspace with its projects. */
  deleteUnit<Kind extends UnitKind>(kind: Kind, id: string, now: number): Promise<UnitRows[Kind] | null>;
  /** By name, deleted ones left out: workspaces of organizations, projects of workspaces. */
  listUnits<Kind extends UnitKind>(kind: Kind, parent_ids: readonly string[]): Promise<readonly UnitRows[Kind][]>;
  createUser(user: UserRow): Promise<IdentityWriteResult<UserRow>>;
  deleteUser(id: string, now: number): Promise<UserRow | null>;
  /** By id or email. */
  getUser(user: string): Promise<UserRow | null>;
  /**
   * The id of the user whom custom authentication calls `identity` in the workspace. Creates the user if there is none. A given email
   * replaces the stored one, unless another user has it.
   */
  ensureUser(
    user: { readonly workspace_id: string; readonly identity: string; readonly email?: string },
    now: number,
  ): Promise<string>;
  /** Members of the organization, by email. */
  listUsers(organization_id: string): Promise<readonly UserRow[]>;
  /** Replaces what the subject may do on the scope; no permissions end the membership. */
  setMembership(membership: MembershipRow): Promise<void>;
  listMemberships(subject_id: string): Promise<readonly MembershipRow[]>;
  /** Deleted entities too. */
  readNames(ids: {
    readonly workspaces?: readonly string[];
    readonly projects?: readonly string[];
    readonly users?: readonly string[];
  }): Promise<EntityNames>;
}
