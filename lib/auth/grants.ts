/** What a key or a person is allowed to do, computed from memberships. */
import {
  type Caller,
  type IdentityStore,
  type KeyGrants,
  type MembershipRow,
  PERMISSIONS,
  type Permission,
  type ProjectRow,
} from "../storage/identity.ts";

/** What a service key may do where nothing else is said. */
export const SERVICE_PERMISSIONS: readonly Permission[] = PERMISSIONS.filter((name) => name !== "organization:manage");

export const isOfOrganization = (permission: Permission): boolean => permission.startsWith("organization:");

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
