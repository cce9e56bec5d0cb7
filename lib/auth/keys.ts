/** API keys, `<prefix>_<pt|sk>_<32 hex>_<10 hex>`, and the permissions that keys and users get from memberships. */
import {
  type Caller,
  type IdentityStore,
  type KeyGrants,
  type KeyKind,
  type MembershipRow,
  PERMISSIONS,
  type Permission,
  type ProjectRow,
  type WorkspaceRow,
} from "../storage/identity.ts";

/** The default permissions of a service key. */
export const SERVICE_PERMISSIONS: readonly Permission[] = PERMISSIONS.filter((name) => name !== "organization:manage");

export const isOrganizationPermission = (permission: Permission): boolean => permission.startsWith("organization:");

/**
 * Returns the memberships of a key. Without a list of workspaces, all permissions are granted on the organization and apply to
 * all of its workspaces. With one, `organization:` permissions are granted on the organization and the others on each workspace.
 * Memberships without permissions are omitted.
 */
export function createMemberships(
  subject_id: string,
  permissions: readonly Permission[],
  organization_id: string,
  workspaces?: readonly string[],
): readonly MembershipRow[] {
  if (!workspaces) return [{ subject_id, scope_id: organization_id, permissions }];
  const onOrganization = permissions.filter(isOrganizationPermission);
  const onWorkspaces = permissions.filter((permission) => !isOrganizationPermission(permission));
  return [
    { subject_id, scope_id: organization_id, permissions: onOrganization },
    ...[...new Set(workspaces)].map((scope_id) => ({ subject_id, scope_id, permissions: onWorkspaces })),
  ].filter((membership) => membership.permissions.length > 0);
}

/**
 * Returns the caller of a key, with the permissions of the key and of its user. Does not check whether the key is revoked or
 * expired.
 */
export function toCaller({ key, memberships, workspaces, projects }: KeyGrants): Caller {
  const { organization_id, user_id, short_key: api_key, id: key_id } = key;
  return {
    organization_id,
    user_id,
    api_key,
    key_id,
    ...resolvePermissions(organization_id, memberships, workspaces, projects),
  };
}

/**
 * Loads the caller of a deployment without authentication. It has every permission on the default organization and all its
 * workspaces. Creates the default rows if they are missing.
 */
export async function loadOwnerCaller(identity: IdentityStore, now = 0): Promise<Caller> {
  const { organization } = await identity.ensureDefaults(now);
  const organization_id = organization.id;
  const workspaces = await identity.listUnits("workspace", [organization_id]);
  const projects = [
    ...(await identity.listUnits(
      "project",
      workspaces.map(({ id }) => id),
    )),
  ].sort((a, b) => a.created_at - b.created_at || (a.id < b.id ? -1 : 1));
  const ownerMemberships = [{ scope_id: organization_id, permissions: PERMISSIONS }];
  const noUserOrKey = { user_id: null, api_key: null, key_id: null };
  return {
    organization_id,
    ...noUserOrKey,
    ...resolvePermissions(organization_id, ownerMemberships, workspaces, projects),
  };
}

/**
 * Resolves memberships to permissions: those on the organization, except `organization:` ones, apply to all workspaces. Omits
 * workspaces without permissions. `projects` are sorted, oldest first, and the oldest of each workspace is returned.
 */
function resolvePermissions(
  organization_id: string,
  memberships: readonly Omit<MembershipRow, "subject_id">[],
  workspaces: readonly WorkspaceRow[],
  projects: readonly ProjectRow[],
): Pick<Caller, "permissions" | "workspaces" | "projects"> {
  const permissionsOn = (scope_id: string): readonly Permission[] =>
    memberships.filter((membership) => membership.scope_id === scope_id).flatMap(({ permissions }) => permissions);
  const permissions = new Set(permissionsOn(organization_id));
  const granted = workspaces.map(({ id }) => {
    const workspacePermissions = [...permissions, ...permissionsOn(id)].filter(
      (permission) => !isOrganizationPermission(permission),
    );
    return [id, new Set(workspacePermissions)] as const;
  });
  const oldestProjects = new Map<string, string>();
  for (const { id, workspace_id } of projects)
    if (!oldestProjects.has(workspace_id)) oldestProjects.set(workspace_id, id);
  return {
    permissions,
    workspaces: new Map(granted.filter(([, workspacePermissions]) => workspacePermissions.size > 0)),
    projects: oldestProjects,
  };
}

/** The default prefix of keys. */
export const KEY_PREFIX = "gr";

const SECRET_CHARS = 32;
const CHECKSUM_CHARS = 10;
/** A key without its prefix. */
const KEY_AFTER_PREFIX = /^_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}$/;

/**
 * Returns a new key, which is stored nowhere. `randomUuid` returns a UUID (version 4) from a cryptographic source. One UUID has
 * only 122 random bits, so the key takes 128 bits of the hash of two.
 */
export async function generateKey(prefix: string, kind: KeyKind, randomUuid: () => string): Promise<string> {
  const random = await sha256(`${randomUuid()}${randomUuid()}`);
  const body = `${prefix}_${kind}_${random.slice(0, SECRET_CHARS)}`;
  return `${body}_${await computeChecksum(body)}`;
}

/** Returns the public form of a key: prefix, kind and the last digits. */
export function toShortKey(key: string, digits = 4): string {
  return `${key.slice(0, -(SECRET_CHARS + 1 + CHECKSUM_CHARS))}...${key.slice(-digits)}`;
}

/** Returns the stored form of a key: SHA-256 in hexadecimal. */
export function hashKey(key: string): Promise<string> {
  return sha256(key);
}

/** Returns true for a key with this prefix and a valid checksum. Other text cannot be a key and needs no lookup. */
export async function hasValidChecksum(key: string, prefix: string): Promise<boolean> {
  if (!key.startsWith(prefix) || !KEY_AFTER_PREFIX.test(key.slice(prefix.length))) return false;
  const body = key.slice(0, -(CHECKSUM_CHARS + 1));
  // Both sides come from the request, so the comparison time reveals no secret.
  return key.slice(-CHECKSUM_CHARS) === (await computeChecksum(body));
}

async function computeChecksum(body: string): Promise<string> {
  return (await sha256(body)).slice(0, CHECKSUM_CHARS);
}

async function sha256(text: string): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
