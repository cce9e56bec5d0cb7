/** The rows of `staticIdentity`, and the calls that read them. */
import { ServiceError } from "../errors.ts";
import {
  type ApiKeyRow,
  type DeploymentRow,
  type IdentityStore,
  type MembershipRow,
  normalizeId,
  type OrganizationRow,
  type Permission,
  type ProjectRow,
  type UnitKind,
  type UnitRows,
  type UserRow,
  UUID,
  type WorkspaceRow,
} from "../storage/identity.ts";
import { createMemberships, hashKey, SERVICE_PERMISSIONS } from "./keys.ts";
/** An API key of the configuration, with what it may do. */
export interface StaticKey {
  /** At least 32 visible ASCII characters; no format is required. */
  readonly key: string;
  /** The name of the key in reports. Default: `static_...` and its last four characters. */
  readonly short_key?: string;
  /** Default: all except `organization:manage`. */
  readonly permissions?: readonly Permission[];
  /** Ids of its workspaces. Default: all, including later ones. */
  readonly workspaces?: readonly string[];
  /** Id of its user. */
  readonly user?: string;
}

/** The keys, users and workspaces of `staticIdentity`. */
export interface StaticIdentityOptions {
  readonly keys: readonly (string | StaticKey)[];
  readonly organization?: { readonly id: string; readonly name: string };
  /** Oldest first. Default: one workspace named `Default`. */
  readonly workspaces?: readonly { readonly id: string; readonly name: string }[];
  /** Oldest first. A workspace without a project gets one named `Default`. */
  readonly projects?: readonly { readonly id: string; readonly name: string; readonly workspace: string }[];
  readonly users?: readonly { readonly id: string; readonly email?: string | null; readonly name?: string | null }[];
}

/** Rows by id, oldest first. There is at least one workspace, and each of them has a project. */
interface StaticRows {
  readonly organization: OrganizationRow;
  readonly workspaces: Map<string, WorkspaceRow>;
  readonly projects: Map<string, ProjectRow>;
  readonly users: Map<string, UserRow>;
  readonly keys: Map<string, ApiKeyRow>;
  readonly memberships: readonly MembershipRow[];
}

/**
 * Creates the rows of the options: each key with its hash and an id derived from it, and its memberships, by default with the permissions
 * of a service. Adds a workspace `Default` if there is none, and a project `Default` to each workspace without one.
 */
async function createRows(options: Required<StaticIdentityOptions>): Promise<StaticRows> {
  const { organization, workspaces, projects, users } = options;
  const organization_id = organization.id;
  const [created_at, deleted_at] = [0, null];
  const memberships: MembershipRow[] = [];
  const rows: StaticRows = {
    organization: { ...organization, created_at },
    workspaces: indexById(workspaces.map(({ id, name }) => ({ id, organization_id, name, created_at, deleted_at }))),
    projects: indexById(
      projects.map(({ id, name, workspace }) => ({ id, workspace_id: workspace, name, created_at, deleted_at })),
    ),
    users: indexById(users.map(({ id, email = null, name = null }) => ({ id, email, name, created_at, deleted_at }))),
    keys: new Map(),
    memberships,
  };
  for (const [order, key] of withShortKeys(options.keys).entries()) {
    const id = await deriveId("key", organization_id, key.key);
    memberships.push(...createMemberships(id, key.permissions ?? SERVICE_PERMISSIONS, organization_id, key.workspaces));
    rows.keys.set(id, {
      id,
      organization_id,
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
  if (rows.workspaces.size === 0) await ensureWorkspace(rows, "Default", created_at);
  const workspacesWithProject = new Set(projects.map(({ workspace }) => workspace));
  for (const id of rows.workspaces.keys())
    if (!workspacesWithProject.has(id)) await ensureProject(rows, id, "Default", created_at);
  return rows;
}

const indexById = <Row extends { readonly id: string }>(rows: readonly Row[]): Map<string, Row> =>
  new Map(rows.map((row) => [row.id, row]));

/**
 * Returns the keys with their short forms. The default has the last four characters of the key, or more if two keys end alike.
 */
function withShortKeys(keys: StaticIdentityOptions["keys"]): readonly (StaticKey & { readonly short_key: string })[] {
  const keyOptions = keys.map((key): StaticKey => (typeof key === "string" ? { key } : key));
  const usedShortKeys = new Set(keyOptions.flatMap(({ short_key }) => short_key ?? []));
  return keyOptions.map((key, order) => {
    const forms = [4, 6, 8].map((digits) => `static_...${key.key.slice(-digits)}`);
    const short_key = key.short_key ?? forms.find((form) => !usedShortKeys.has(form)) ?? `${forms[0]}#${order + 1}`;
    usedShortKeys.add(short_key);
    return { ...key, short_key };
  });
}

export type IdentityMethods = Omit<IdentityStore, "any_keys">;

/** Rejects with `static_accounts`: the accounts can only be changed in the options. */
const rejectStaticAccounts = async (): Promise<never> => {
  throw new ServiceError(
    "static_accounts",
    "These accounts are static: change the options that define them, and restart",
  );
};

const REJECTED_METHODS = {
  createKey: rejectStaticAccounts,
  createUnit: rejectStaticAccounts,
  renameUnit: rejectStaticAccounts,
  deleteUnit: rejectStaticAccounts,
  createUser: rejectStaticAccounts,
  deleteUser: rejectStaticAccounts,
  setMembership: rejectStaticAccounts,
} satisfies Partial<IdentityStore>;

/**
 * Creates the methods of a static IdentityStore. Until the process ends, it keeps deployments, the workspaces and projects that
 * they name, the users of custom authentication, and the last use and revocation of keys. Other changes throw `static_accounts`.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createStaticStore(options: Required<StaticIdentityOptions>): IdentityMethods {
  const ready = createRows(options);
  const deployments = new Map<string, DeploymentRow>();
  return {
    ...REJECTED_METHODS,

    /** Returns the first workspace and its oldest project. Creates nothing. */
    async ensureDefaults() {
      const { organization, workspaces, projects } = await ready;
      const workspace = [...workspaces.values()][0] as WorkspaceRow;
      return { organization, workspace, project: listProjects(projects, workspace.id)[0] as ProjectRow };
    },
    /**
     * Keeps the row of the deployment in memory and returns `{ kind: "made", row }`. An existing one keeps its owner and whether
     * it is shared. Creates a workspace or project whose name is missing. Returns `parent_not_found` for an unknown owner or id.
     */
    async registerDeployment({ owner_user_id = null, shared = false, ...placement }, now) {
      const rows = await ready;
      const { name } = placement;
      const hasOwner = owner_user_id === null || rows.users.has(owner_user_id) || deployments.has(name);
      const project = hasOwner ? await resolveProject(rows, placement, deployments.get(name), now) : undefined;
      if (!project) return { kind: "parent_not_found" };
      const { id: project_id, workspace_id } = project;
      const organization_id = rows.organization.id;
      const currentOwner = deployments.get(name) ?? { owner_user_id, shared };
      const row = { ...currentOwner, name, project_id, workspace_id, organization_id };
      deployments.set(name, row);
      return { kind: "made", row };
    },
    async getDeployment(name) {
      return deployments.get(name) ?? null;
    },
    /** Changes the row in memory and returns it. Returns null, and changes nothing, for an unknown deployment or owner. */
    async updateDeployment(name, { owner_user_id, shared }) {
      const { users } = await ready;
      const row = deployments.get(name);
      if (!row || (typeof owner_user_id === "string" && !users.has(owner_user_id))) return null;
      const owner = owner_user_id === undefined ? row.owner_user_id : owner_user_id;
      const updatedRow = { ...row, owner_user_id: owner, shared: shared ?? row.shared };
      deployments.set(name, updatedRow);
      return updatedRow;
    },
    async listDeployments(organization_id) {
      return [...deployments.values()].filter((row) => row.organization_id === organization_id).sort(compareBy("name"));
    },

    /**
     * Returns the key with this hash, also a revoked one, with its memberships and all workspaces and projects. Returns null for
     * an unknown one.
     */
    async findKey(key_hash) {
      const { keys, memberships, workspaces, projects } = await ready;
      const key = [...keys.values()].find((row) => row.key_hash === key_hash);
      if (!key) return null;
      return {
        key,
        memberships: memberships.filter(({ subject_id }) => subject_id === key.id),
        workspaces: [...workspaces.values()],
        projects: [...projects.values()],
      };
    },
    /** Notes the time in memory, at most once in an interval. Does nothing for an unknown key. */
    async touchKey(id, now) {
      const { keys } = await ready;
      const key = keys.get(id);
      if (key && (key.last_used_at ?? 0) <= now - KEY_TOUCH_INTERVAL_MS) keys.set(id, { ...key, last_used_at: now });
    },
    /**
     * Revokes a key, by id or short form, until the process ends, and returns it. A revoked key keeps its first time. Returns
     * null for an unknown one.
     */
    async revokeKey(organization_id, key, now) {
      const { organization, keys } = await ready;
      const row = [...keys.values()].find(({ id, short_key }) => id === key || short_key === key);
      if (!row || organization_id !== organization.id) return null;
      const revoked = { ...row, revoked_at: row.revoked_at ?? now };
      keys.set(row.id, revoked);
      return revoked;
    },
    /** Returns at most `limit` keys, in the order of the options; none for another organization. */
    async listKeys({ organization_id, limit }) {
      const { organization, keys } = await ready;
      return (organization_id ?? organization.id) === organization.id ? [...keys.values()].slice(0, limit) : [];
    },
    /** Returns the workspaces or projects of these parents, sorted by name. */
    async listUnits<Kind extends UnitKind>(kind: Kind, parent_ids: readonly string[]) {
      const { workspaces, projects } = await ready;
      const rows: { readonly [K in UnitKind]: readonly UnitRows[K][] } = {
        workspace: [...workspaces.values()].filter((row) => parent_ids.includes(row.organization_id)),
        project: parent_ids.flatMap((id) => listProjects(projects, id)),
      };
      const unitRows: readonly UnitRows[Kind][] = rows[kind];
      return [...unitRows].sort(compareBy("name"));
    },
    /** Returns a user by id or email; null if there is none. */
    async getUser(user) {
      const { users } = await ready;
      return users.get(user) ?? [...users.values()].find(({ email }) => email === user) ?? null;
    },
    /** Returns the derived id of the user, and keeps its row in memory. An email that another user has is not taken over. */
    async ensureUser({ workspace_id, identity, email }, now) {
      const { users } = await ready;
      const id = await deriveId("user", workspace_id, identity);
      const row = users.get(id) ?? { id, email: null, name: null, created_at: now, deleted_at: null };
      const isTaken = [...users.values()].some((candidate) => candidate.id !== id && candidate.email === email);
      users.set(id, email === undefined || isTaken ? row : { ...row, email });
      return id;
    },
    // Only keys have memberships.
    listUsers: async () => [],
    async listMemberships(subject_id) {
      const { memberships } = await ready;
      return memberships.filter((row) => row.subject_id === subject_id).sort(compareBy("scope_id"));
    },
    /** Returns the names of the known ids; unknown ones are missing. */
    async readNames(entityIds) {
      const { workspaces, projects, users } = await ready;
      const pick = <Row, Name>(rows: Map<string, Row>, ids: readonly string[] = [], name: (row: Row) => Name) =>
        new Map(ids.flatMap((id): [string, Name][] => (rows.has(id) ? [[id, name(rows.get(id) as Row)]] : [])));
      return {
        workspaces: pick(workspaces, entityIds.workspaces, ({ name }) => name),
        projects: pick(projects, entityIds.projects, ({ name }) => name),
        users: pick(users, entityIds.users, ({ email }) => email),
      };
    },
  };
}

/** `last_used_at` of a key changes at most this often. */
const KEY_TOUCH_INTERVAL_MS = 60_000;

type Placement = Pick<Parameters<IdentityStore["registerDeployment"]>[0], "name" | "workspace" | "project">;

/**
 * Returns the project of a deployment; undefined if an id is unknown or belongs to another workspace. Creates a workspace or
 * project whose name is missing. Without names keeps the current project.
 */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: workspace and project are each named by id, by name, or not at all
async function resolveProject(
  rows: StaticRows,
  { workspace, project }: Placement,
  current: DeploymentRow | undefined,
  now: number,
): Promise<ProjectRow | undefined> {
  const { workspaces, projects } = rows;
  const projectById = project === undefined ? undefined : projects.get(normalizeId(project));
  const mustExist = project !== undefined && UUID.test(project);
  let target: WorkspaceRow | undefined;
  if (workspace !== undefined) {
    target = workspaces.get(normalizeId(workspace)) ?? [...workspaces.values()].find(({ name }) => name === workspace);
    if (!target && (mustExist || UUID.test(workspace))) return undefined;
    target ??= await ensureWorkspace(rows, workspace, now);
  } else {
    target = workspaces.get((project === undefined ? current : projectById)?.workspace_id ?? "");
    target ??= [...workspaces.values()][0] as WorkspaceRow;
  }
  const { id } = target;
  if (projectById?.workspace_id === id) return projectById;
  if (project !== undefined) return mustExist ? undefined : ensureProject(rows, id, project, now);
  const siblings = listProjects(projects, id);
  return (
    siblings.find((row) => row.id === current?.project_id) ?? siblings[0] ?? ensureProject(rows, id, "Default", now)
  );
}

const listProjects = (projects: ReadonlyMap<string, ProjectRow>, workspace_id: string): ProjectRow[] =>
  [...projects.values()].filter((project) => project.workspace_id === workspace_id);

/** Returns the workspace with this name, which is added to the rows if it is missing. */
function ensureWorkspace(rows: StaticRows, name: string, created_at: number): Promise<WorkspaceRow> {
  const { organization, workspaces } = rows;
  const row = { organization_id: organization.id, name, created_at, deleted_at: null };
  return findOrAdd(workspaces, "workspace", organization.id, row, () => true);
}

/** Returns the project of this name in the workspace, which is added to the rows if it is missing. */
function ensureProject(
  { projects }: StaticRows,
  workspace_id: string,
  name: string,
  created_at: number,
): Promise<ProjectRow> {
  const row = { workspace_id, name, created_at, deleted_at: null };
  return findOrAdd(projects, "project", workspace_id, row, (candidate) => candidate.workspace_id === workspace_id);
}

/** Returns the sibling with this name, or adds the row with an id derived from kind, parent and name. */
// biome-ignore lint/complexity/useMaxParams: the map, and what a row that is missing gets
async function findOrAdd<Row extends { readonly id: string; readonly name: string }>(
  rows: Map<string, Row>,
  kind: string,
  parent: string,
  row: Omit<Row, "id"> & { readonly name: string },
  isSibling: (candidate: Row) => boolean,
): Promise<Row> {
  const { name } = row;
  for (let time = 0; ; time++) {
    const id = await deriveId(kind, parent, name, time);
    // Searched after the await: another call may have added it.
    const existingRow = [...rows.values()].find((candidate) => candidate.name === name && isSibling(candidate));
    if (existingRow) return existingRow;
    if (!rows.has(id)) rows.set(id, { ...row, id } as unknown as Row);
  }
}

/** Returns a UUID derived from kind, parent and name, equal in every process; `time` counts ids that other rows have. */
async function deriveId(kind: string, parent: string, name: string, time = 0): Promise<string> {
  const bytes = new TextEncoder().encode(JSON.stringify([kind, parent, name, time]));
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  const hex = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

/** Returns a function that compares two rows by this member, by code points, as databases sort. */
const compareBy =
  <Key extends string>(key: Key) =>
  (a: { readonly [_ in Key]: string }, b: { readonly [_ in Key]: string }): number => {
    const [left, right] = [a[key], b[key]].map((text) =>
      Array.from(text, (character) => String(character.codePointAt(0)).padStart(7, "0")).join(),
    ) as [string, string];
    return left < right ? -1 : Number(left > right);
  };
