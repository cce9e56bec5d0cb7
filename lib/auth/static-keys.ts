/** Accounts in memory, told at the start: for tests, containers and hosts that keep their accounts elsewhere. */
import { ConfigError } from "../errors.ts";
import {
  type ApiKeyRow,
  type DeploymentRow,
  type IdentityStore,
  idOf,
  type Made,
  type MembershipRow,
  PERMISSIONS,
  type Permission,
  type ProjectRow,
  type UserRow,
  UUID,
  type WorkspaceRow,
} from "../storage/identity.ts";
import { hashKey } from "./api-keys.ts";
import { grantsOn, SERVICE_PERMISSIONS } from "./grants.ts";

export interface StaticKey {
  /** At least 32 characters, of any shape. */
  readonly key: string;
  /** What it is called in reports. Default: `static_...` and its last four characters. */
  readonly short_key?: string;
  /** Default: all but `organization:manage`. */
  readonly permissions?: readonly Permission[];
  /** Ids of the workspaces it reaches. Default: all, later ones too. */
  readonly workspaces?: readonly string[];
  /** Id of the user whose it is. */
  readonly user?: string;
}

export interface StaticIdentityOptions {
  readonly keys: readonly (string | StaticKey)[];
  readonly organization?: { readonly id: string; readonly name: string };
  /** In this order of age. Default: one, `Default`. */
  readonly workspaces?: readonly { readonly id: string; readonly name: string }[];
  /** In this order of age. Default: one in each workspace without, `Default`. */
  readonly projects?: readonly { readonly id: string; readonly name: string; readonly workspace: string }[];
  readonly users?: readonly { readonly id: string; readonly email?: string | null; readonly name?: string | null }[];
}

const KEY_LENGTH = 32;
const DEFAULT_ORGANIZATION = { id: "7b1c2f0e-3a54-5d86-9c1b-000000000001", name: "Default" };
const DEFAULT_WORKSPACE = { id: "7b1c2f0e-3a54-5d86-9c1b-000000000002", name: "Default" };

/**
 * An IdentityStore in memory: what its verbs change lasts as long as the process. Ids of what it makes by itself follow from the
 * names, so that another process, or the next one, has the same. Throws a ConfigError with every problem.
 */
export function staticIdentity(options: StaticIdentityOptions): IdentityStore {
  prove(options);
  const organization = { ...(options.organization ?? DEFAULT_ORGANIZATION), created_at: 0 };
  const workspaces = new Map<string, WorkspaceRow>();
  const projects = new Map<string, ProjectRow>();
  const users = new Map<string, UserRow>();
  const keys = new Map<string, ApiKeyRow>();
  const deployments = new Map<string, Omit<DeploymentRow, "workspace_id" | "organization_id">>();
  const memberships = new Map<string, MembershipRow>();
  /** Ids of the users of custom authentication, by workspace and identity. */
  const identities = new Map<string, string>();

  const put = <Row extends { readonly id: string }>(rows: Map<string, Row>, row: Row): Row => {
    rows.set(row.id, row);
    return row;
  };
  const grant = (membership: MembershipRow): void => {
    const key = JSON.stringify([membership.subject_id, membership.scope_id]);
    if (membership.permissions.length > 0) memberships.set(key, membership);
    else memberships.delete(key);
  };
  const live = <Row extends { readonly deleted_at: number | null }>(rows: Map<string, Row>): Row[] =>
    [...rows.values()].filter((row) => row.deleted_at === null);
  const alive = <Row extends { readonly deleted_at: number | null }>(
    rows: Map<string, Row>,
    id: string | null,
  ): Row | undefined => {
    const row = id === null ? undefined : rows.get(id);
    return row?.deleted_at === null ? row : undefined;
  };
  /** The row once its deletion is noted. */
  const end = <Row extends { readonly id: string; readonly deleted_at: number | null }>(
    rows: Map<string, Row>,
    id: string,
    now: number,
  ): Row | null => {
    const row = alive(rows, id);
    return row ? put(rows, { ...row, deleted_at: now }) : null;
  };

  const addWorkspace = (id: string, name: string, created_at: number): WorkspaceRow =>
    put(workspaces, { id, organization_id: organization.id, name, created_at, deleted_at: null });
  const addProject = (id: string, workspace_id: string, name: string, created_at: number): ProjectRow =>
    put(projects, { id, workspace_id, name, created_at, deleted_at: null });

  for (const { id, name } of options.workspaces ?? [DEFAULT_WORKSPACE]) addWorkspace(id, name, 0);
  for (const { id, name, workspace } of options.projects ?? []) addProject(id, workspace, name, 0);
  for (const { id, email = null, name = null } of options.users ?? []) {
    put(users, { id, email, name, created_at: 0, deleted_at: null });
  }

  /** Hashing takes a turn: the first verb waits for it. */
  const ready = (async () => {
    for (const [order, key] of settledKeys(options.keys).entries()) {
      const id = await derivedId("key", organization.id, key.key);
      const permissions = key.permissions ?? SERVICE_PERMISSIONS;
      for (const membership of grantsOn(id, permissions, organization.id, key.workspaces)) grant(membership);
      keys.set(id, {
        id,
        organization_id: organization.id,
        user_id: key.user ?? null,
        kind: key.user === undefined ? "sk" : "pt",
        key_hash: await hashKey(key.key),
        short_key: key.short_key,
        description: null,
        created_at: order,
        expires_at: null,
        revoked_at: null,
        last_used_at: null,
      });
    }
    for (const { id } of live(workspaces)) await oldestProject(id, 0);
  })();

  function projectsIn(workspace_id: string): ProjectRow[] {
    return live(projects).filter((project) => project.workspace_id === workspace_id);
  }

  // What is looked for again after an await: somebody else may have made it meanwhile.
  async function namedWorkspace(name: string, now: number): Promise<WorkspaceRow> {
    const find = (): WorkspaceRow | undefined => live(workspaces).find((row) => row.name === name);
    return (
      find() ??
      freshId("workspace", organization.id, name, workspaces).then((id) => find() ?? addWorkspace(id, name, now))
    );
  }
  async function namedProject(workspace_id: string, name: string, now: number): Promise<ProjectRow> {
    const find = (): ProjectRow | undefined => projectsIn(workspace_id).find((row) => row.name === name);
    return (
      find() ??
      freshId("project", workspace_id, name, projects).then((id) => find() ?? addProject(id, workspace_id, name, now))
    );
  }
  async function oldestWorkspace(now: number): Promise<WorkspaceRow> {
    return live(workspaces)[0] ?? namedWorkspace("Default", now);
  }
  async function oldestProject(workspace_id: string, now: number): Promise<ProjectRow> {
    return projectsIn(workspace_id)[0] ?? namedProject(workspace_id, "Default", now);
  }

  /** The project a deployment is to be in; undefined where it is said by an id that is unknown, or is elsewhere. */
  async function placeOf(deployment: Place, now: number): Promise<ProjectRow | undefined> {
    const { name, workspace, project } = deployment;
    const home = alive(projects, deployments.get(name)?.project_id ?? null);
    const known = project === undefined ? undefined : alive(projects, idOf(project));
    const mustBeThere = project !== undefined && UUID.test(project);
    let target: WorkspaceRow | undefined;
    if (workspace !== undefined) {
      target = alive(workspaces, idOf(workspace)) ?? live(workspaces).find((row) => row.name === workspace);
      if (!target && (mustBeThere || UUID.test(workspace))) return undefined;
      target ??= await namedWorkspace(workspace, now);
    } else {
      target = alive(workspaces, (project === undefined ? home : known)?.workspace_id ?? null);
      target ??= await oldestWorkspace(now);
    }
    if (known?.workspace_id === target.id) return known;
    if (project === undefined) return home?.workspace_id === target.id ? home : oldestProject(target.id, now);
    return mustBeThere ? undefined : namedProject(target.id, project, now);
  }

  function deploymentOf(name: string): DeploymentRow | null {
    const row = deployments.get(name);
    if (!row) return null;
    const { workspace_id } = projects.get(row.project_id) as ProjectRow;
    return { ...row, workspace_id, organization_id: organization.id };
  }

  const store: Omit<IdentityStore, "any_keys"> = {
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

    async findKey(key_hash) {
      const key = [...keys.values()].find((row) => row.key_hash === key_hash);
      if (!key || (key.user_id !== null && !alive(users, key.user_id))) return null;
      const own = live(workspaces);
      return {
        key,
        memberships: [...memberships.values()].filter(({ subject_id }) => [key.id, key.user_id].includes(subject_id)),
        workspaces: own,
        projects: live(projects).filter(({ workspace_id }) => own.some(({ id }) => id === workspace_id)),
      };
    },

    async touchKey(id, now) {
      const key = keys.get(id);
      if (key && (key.last_used_at ?? Number.NEGATIVE_INFINITY) <= now - 60_000)
        put(keys, { ...key, last_used_at: now });
    },

    async createKey(key, granted) {
      const known = (scope: string): boolean => scope === organization.id || alive(workspaces, scope) !== undefined;
      if ([...keys.values()].some((row) => row.short_key === key.short_key || row.key_hash === key.key_hash)) {
        return { kind: "short_key_taken" };
      }
      const there = key.organization_id === organization.id && (key.user_id === null || alive(users, key.user_id));
      if (!there || !granted.every(({ scope_id }) => known(scope_id))) return { kind: "parent_not_found" };
      put(keys, key);
      for (const membership of granted) grant(membership);
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

  const waiting = Object.entries(store).map(([name, verb]) => [
    name,
    async (...args: readonly unknown[]): Promise<unknown> => {
      await ready;
      return (verb as (...args: readonly unknown[]) => Promise<unknown>)(...args);
    },
  ]);
  return { ...(Object.fromEntries(waiting) as Omit<IdentityStore, "any_keys">), any_keys: true };
}

type Place = Parameters<IdentityStore["placeDeployment"]>[0];

/** A key without a short form is called by its end: four characters, more where another one ends alike. */
function settledKeys(keys: StaticIdentityOptions["keys"]): readonly (StaticKey & { readonly short_key: string })[] {
  const given = keys.map((key): StaticKey => (typeof key === "string" ? { key } : key));
  const used = new Set(given.flatMap(({ short_key }) => short_key ?? []));
  return given.map((key, order) => {
    const forms = [4, 6, 8].map((digits) => `static_...${key.key.slice(-digits)}`);
    const short_key = key.short_key ?? forms.find((form) => !used.has(form)) ?? `${forms[0]}#${order + 1}`;
    used.add(short_key);
    return { ...key, short_key };
  });
}

/** Texts in it are never shown: they may be keys. */
function prove({ keys, workspaces = [DEFAULT_WORKSPACE], projects = [], users = [] }: StaticIdentityOptions): void {
  const problems: string[] = [];
  const twice = (what: string, values: readonly (string | null | undefined)[]): void => {
    const known = values.filter((value) => typeof value === "string");
    if (new Set(known).size < known.length) problems.push(`${what}: one is given twice`);
  };
  const given = keys.map((key): StaticKey => (typeof key === "string" ? { key } : key));
  for (const [order, { key, permissions = [], workspaces: reached = [], user }] of given.entries()) {
    const at = `keys.${order}`;
    if (key.length < KEY_LENGTH) problems.push(`${at}: has ${key.length} characters; use at least ${KEY_LENGTH}`);
    // Nothing else survives a header.
    if (!/^[\x21-\x7e]*$/.test(key)) problems.push(`${at}: use visible ASCII characters without white space`);
    for (const name of permissions)
      if (!PERMISSIONS.includes(name)) problems.push(`${at}: there is no permission ${name}`);
    for (const id of reached) if (!workspaces.some((row) => row.id === id)) problems.push(`${at}: no workspace ${id}`);
    if (user !== undefined && !users.some(({ id }) => id === user)) problems.push(`${at}: no user ${user}`);
  }
  for (const { id, workspace } of projects) {
    if (!workspaces.some((row) => row.id === workspace)) problems.push(`projects: ${id}: no workspace ${workspace}`);
  }
  twice(
    "keys",
    given.map(({ key }) => key),
  );
  twice(
    "keys: short_key",
    given.map(({ short_key }) => short_key),
  );
  twice(
    "workspaces",
    workspaces.map(({ id }) => id),
  );
  twice(
    "workspaces: name",
    workspaces.map(({ name }) => name),
  );
  twice(
    "projects",
    projects.map(({ id }) => id),
  );
  twice(
    "projects: name",
    projects.map(({ workspace, name }) => JSON.stringify([workspace, name])),
  );
  twice(
    "users",
    users.map(({ id }) => id),
  );
  twice(
    "users: email",
    users.map(({ email }) => email),
  );
  if (problems.length > 0) throw new ConfigError(problems);
}

/** Named anew, unless another living one has the name already. */
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

/** A UUID that follows from the kind, what it is in, its name and `time`, of those that were deleted. */
async function derivedId(kind: string, parent: string, name: string, time = 0): Promise<string> {
  const bytes = new TextEncoder().encode(JSON.stringify([kind, parent, name, time]));
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  const hex = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

/** The first derived id that nobody has had. */
async function freshId(
  kind: string,
  parent: string,
  name: string,
  rows: ReadonlyMap<string, unknown>,
): Promise<string> {
  for (let time = 0; ; time++) {
    const id = await derivedId(kind, parent, name, time);
    if (!rows.has(id)) return id;
  }
}

/** As databases order text. */
function byCodePoint(a: string, b: string): number {
  const [left, right] = [[...a], [...b]];
  const at = left.findIndex((character, i) => character !== right[i]);
  if (at === -1) return left.length - right.length;
  return (left[at]?.codePointAt(0) ?? -1) - (right[at]?.codePointAt(0) ?? -1);
}

const byName = (a: { readonly id: string; readonly name: string }, b: typeof a): number =>
  byCodePoint(a.name, b.name) || byCodePoint(a.id, b.id);

/** Null last. */
const byLast = (a: string | null, b: string | null): number =>
  a === null || b === null ? Number(a === null) - Number(b === null) : byCodePoint(a, b);
