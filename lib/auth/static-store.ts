/** Implements the verbs of the static identity store over its tables. */
import {
  type DeploymentRow,
  type IdentityStore,
  idOf,
  type Made,
  type ProjectRow,
  type UserRow,
  UUID,
  type WorkspaceRow,
} from "../storage/identity.ts";
import { freshId, type Tables } from "./static-tables.ts";

type Place = Parameters<IdentityStore["placeDeployment"]>[0];

export function deploymentVerbs(
  tables: Tables,
): Pick<
  IdentityStore,
  "ensureDefaults" | "placeDeployment" | "getDeployment" | "updateDeployment" | "listDeployments"
> {
  const { organization, workspaces, projects, users, deployments, live, alive } = tables;
  const { namedWorkspace, namedProject, oldestWorkspace, oldestProject } = tables;

  /** The project of a deployment; undefined when an id is unknown or belongs to another workspace. */
  async function placeOf(deployment: Place, now: number): Promise<ProjectRow | undefined> {
    const { name, workspace, project } = deployment;
    const current = alive(projects, deployments.get(name)?.project_id ?? null);
    const byId = project === undefined ? undefined : alive(projects, idOf(project));
    const mustExist = project !== undefined && UUID.test(project);
    let target: WorkspaceRow | undefined;
    if (workspace !== undefined) {
      target = alive(workspaces, idOf(workspace)) ?? live(workspaces).find((row) => row.name === workspace);
      if (!target && (mustExist || UUID.test(workspace))) return undefined;
      target ??= await namedWorkspace(workspace, now);
    } else {
      target = alive(workspaces, (project === undefined ? current : byId)?.workspace_id ?? null);
      target ??= await oldestWorkspace(now);
    }
    if (byId?.workspace_id === target.id) return byId;
    if (project === undefined) return current?.workspace_id === target.id ? current : oldestProject(target.id, now);
    return mustExist ? undefined : namedProject(target.id, project, now);
  }

  function deploymentOf(name: string): DeploymentRow | null {
    const row = deployments.get(name);
    if (!row) return null;
    const { workspace_id } = projects.get(row.project_id) as ProjectRow;
    return { ...row, workspace_id, organization_id: organization.id };
  }

  return {
    async ensureDefaults(now) {
      const workspace = await oldestWorkspace(now);
      return { organization, workspace, project: await oldestProject(workspace.id, now) };
    },

    async placeDeployment(deployment, now) {
      const { name, owner_user_id = null, shared = false } = deployment;
      if (owner_user_id !== null && !alive(users, owner_user_id) && !deployments.has(name)) {
        return { kind: "parent_not_found" };
      }
      const project = await placeOf(deployment, now);
      if (!project) return { kind: "parent_not_found" };
      deployments.set(name, { ...(deployments.get(name) ?? { name, owner_user_id, shared }), project_id: project.id });
      return { kind: "made", row: deploymentOf(name) as DeploymentRow };
    },

    async getDeployment(name) {
      return deploymentOf(name);
    },

    async updateDeployment(name, { owner_user_id, shared }) {
      const row = deployments.get(name);
      if (!row || (typeof owner_user_id === "string" && !alive(users, owner_user_id))) return null;
      deployments.set(name, {
        ...row,
        ...(owner_user_id === undefined ? {} : { owner_user_id }),
        ...(shared === undefined ? {} : { shared }),
      });
      return deploymentOf(name);
    },

    async listDeployments(organization_id) {
      if (organization_id !== organization.id) return [];
      return [...deployments.keys()].sort(byCodePoint).map((name) => deploymentOf(name) as DeploymentRow);
    },
  };
}

export function keyVerbs({
  organization,
  workspaces,
  projects,
  users,
  keys,
  memberships,
  put,
  grant,
  live,
  alive,
}: Tables): Pick<IdentityStore, "findKey" | "touchKey" | "createKey" | "revokeKey" | "listKeys" | "hasKeys"> {
  return {
    async findKey(key_hash) {
      const key = [...keys.values()].find((row) => row.key_hash === key_hash);
      if (!key || (key.user_id !== null && !alive(users, key.user_id))) return null;
      const liveWorkspaces = live(workspaces);
      return {
        key,
        memberships: [...memberships.values()].filter(({ subject_id }) => [key.id, key.user_id].includes(subject_id)),
        workspaces: liveWorkspaces,
        projects: live(projects).filter(({ workspace_id }) => liveWorkspaces.some(({ id }) => id === workspace_id)),
      };
    },

    async touchKey(id, now) {
      const key = keys.get(id);
      if (key && (key.last_used_at ?? Number.NEGATIVE_INFINITY) <= now - 60_000)
        put(keys, { ...key, last_used_at: now });
    },

    async createKey(key, grants) {
      const exists = (scope: string): boolean => scope === organization.id || alive(workspaces, scope) !== undefined;
      if ([...keys.values()].some((row) => row.short_key === key.short_key || row.key_hash === key.key_hash)) {
        return { kind: "short_key_taken" };
      }
      const hasOwner = key.organization_id === organization.id && (key.user_id === null || alive(users, key.user_id));
      if (!hasOwner || !grants.every(({ scope_id }) => exists(scope_id))) return { kind: "parent_not_found" };
      put(keys, key);
      for (const membership of grants) grant(membership);
      return { kind: "made" };
    },

    async revokeKey(organization_id, key, now) {
      if (organization_id !== organization.id) return null;
      const row = [...keys.values()].find(({ id, short_key }) => id === key || short_key === key);
      return row ? put(keys, { ...row, revoked_at: row.revoked_at ?? now }) : null;
    },

    async listKeys(organization_id) {
      return organization_id === organization.id ? [...keys.values()] : [];
    },

    async hasKeys() {
      return keys.size > 0;
    },
  };
}

export function workspaceVerbs({
  organization,
  workspaces,
  projects,
  put,
  live,
  alive,
  end,
  projectsIn,
}: Tables): Pick<
  IdentityStore,
  | "createWorkspace"
  | "renameWorkspace"
  | "deleteWorkspace"
  | "listWorkspaces"
  | "createProject"
  | "renameProject"
  | "deleteProject"
  | "listProjects"
> {
  return {
    async createWorkspace(row) {
      if (row.organization_id !== organization.id) return { kind: "parent_not_found" };
      const taken = workspaces.has(row.id) || live(workspaces).some(({ name }) => name === row.name);
      return taken ? { kind: "name_taken" } : { kind: "made", row: put(workspaces, row) };
    },

    async renameWorkspace(id, name) {
      return rename(workspaces, id, name, live(workspaces));
    },

    async deleteWorkspace(id, now) {
      const row = end(workspaces, id, now);
      if (row) for (const project of projectsIn(id)) end(projects, project.id, now);
      return row;
    },

    async listWorkspaces(organization_id) {
      return organization_id === organization.id ? live(workspaces).sort(byName) : [];
    },

    async createProject(row) {
      if (!alive(workspaces, row.workspace_id)) return { kind: "parent_not_found" };
      const taken = projects.has(row.id) || projectsIn(row.workspace_id).some(({ name }) => name === row.name);
      return taken ? { kind: "name_taken" } : { kind: "made", row: put(projects, row) };
    },

    async renameProject(id, name) {
      return rename(projects, id, name, projectsIn(projects.get(id)?.workspace_id ?? ""));
    },

    async deleteProject(id, now) {
      return end(projects, id, now);
    },

    async listProjects(workspace_ids) {
      return workspace_ids.flatMap(projectsIn).sort(byName);
    },
  };
}

export function userVerbs({
  organization,
  workspaces,
  projects,
  users,
  keys,
  memberships,
  identities,
  put,
  grant,
  live,
  alive,
  end,
}: Tables): Pick<
  IdentityStore,
  "createUser" | "deleteUser" | "getUser" | "ensureUser" | "listUsers" | "setMembership" | "listMemberships" | "names"
> {
  return {
    async createUser(user) {
      const taken =
        users.has(user.id) || (user.email !== null && live(users).some(({ email }) => email === user.email));
      return taken ? { kind: "name_taken" } : { kind: "made", row: put(users, user) };
    },

    async deleteUser(id, now) {
      const row = end(users, id, now);
      for (const key of row ? keys.values() : []) {
        if (key.user_id === id) put(keys, { ...key, revoked_at: key.revoked_at ?? now });
      }
      for (const [key, { subject_id }] of row ? [...memberships] : []) if (subject_id === id) memberships.delete(key);
      return row;
    },

    async getUser(user) {
      return alive(users, user) ?? live(users).find(({ email }) => email === user) ?? null;
    },

    async ensureUser({ workspace_id, identity, email }, now) {
      const key = JSON.stringify([workspace_id, identity]);
      const find = (): UserRow | undefined => alive(users, identities.get(key) ?? null);
      const id = find()?.id ?? (await freshId("user", workspace_id, identity, users));
      const row = find() ?? put(users, { id, email: null, name: null, created_at: now, deleted_at: null });
      identities.set(key, row.id);
      const taken = live(users).some((other) => other.id !== row.id && other.email === email);
      if (email !== undefined && !taken) put(users, { ...row, email });
      return row.id;
    },

    async listUsers(organization_id) {
      const scopes = [organization.id, ...live(workspaces).map(({ id }) => id)];
      const members = [...memberships.values()].filter(({ scope_id }) => scopes.includes(scope_id));
      if (organization_id !== organization.id) return [];
      return live(users)
        .filter(({ id }) => members.some(({ subject_id }) => subject_id === id))
        .sort((a, b) => byLast(a.email, b.email) || byCodePoint(a.id, b.id));
    },

    async setMembership(membership) {
      grant(membership);
    },

    async listMemberships(subject_id) {
      return [...memberships.values()]
        .filter((membership) => membership.subject_id === subject_id)
        .sort((a, b) => byCodePoint(a.scope_id, b.scope_id));
    },

    async names(of) {
      const pick = <Row, Name>(rows: Map<string, Row>, ids: readonly string[] = [], name: (row: Row) => Name) =>
        new Map(ids.flatMap((id): [string, Name][] => (rows.has(id) ? [[id, name(rows.get(id) as Row)]] : [])));
      return {
        workspaces: pick(workspaces, of.workspaces, ({ name }) => name),
        projects: pick(projects, of.projects, ({ name }) => name),
        users: pick(users, of.users, ({ email }) => email),
      };
    },
  };
}

/** Renames a row, unless a sibling has the name. */
function rename<Row extends { readonly id: string; readonly name: string; readonly deleted_at: number | null }>(
  rows: Map<string, Row>,
  id: string,
  name: string,
  siblings: readonly Row[],
): Made<Row> {
  const row = rows.get(id);
  if (row?.deleted_at !== null) return { kind: "not_found" };
  if (siblings.some((other) => other.id !== id && other.name === name)) return { kind: "name_taken" };
  const renamed = { ...row, name };
  rows.set(id, renamed);
  return { kind: "made", row: renamed };
}

/** Compares text by code points, as databases do. */
function byCodePoint(a: string, b: string): number {
  const [left, right] = [[...a], [...b]];
  const at = left.findIndex((character, i) => character !== right[i]);
  if (at === -1) return left.length - right.length;
  return (left[at]?.codePointAt(0) ?? -1) - (right[at]?.codePointAt(0) ?? -1);
}

const byName = (a: { readonly id: string; readonly name: string }, b: typeof a): number =>
  byCodePoint(a.name, b.name) || byCodePoint(a.id, b.id);

/** Sorts null last. */
const byLast = (a: string | null, b: string | null): number =>
  a === null || b === null ? Number(a === null) - Number(b === null) : byCodePoint(a, b);
