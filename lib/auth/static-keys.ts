/** Accounts from options: for tests, containers and hosts that manage accounts themselves. */
import { ConfigError } from "../errors.ts";
import { type IdentityStore, type MembershipRow, PERMISSIONS, type Permission } from "../storage/identity.ts";
import { hashKey } from "./api-keys.ts";
import { grantsOn, SERVICE_PERMISSIONS } from "./grants.ts";
import { derivedId, namedProject, namedWorkspace, type StaticRows, staticStore } from "./static-store.ts";

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

const KEY_LENGTH = 32;
const DEFAULT_ORGANIZATION = { id: "7b1c2f0e-3a54-5d86-9c1b-000000000001", name: "Default" };
const DEFAULT_WORKSPACE = { id: "7b1c2f0e-3a54-5d86-9c1b-000000000002", name: "Default" };

/**
 * Makes a read-only IdentityStore of these accounts. Verbs that change accounts reject with `forbidden`, except for revoking a key,
 * which lasts until the process ends. Ids of rows without one are derived from their names, so every process has the same ids.
 * Throws a ConfigError with every problem.
 *
 * @example
 * ```ts
 * import { createService, fromFunctions, staticIdentity } from "greenroom";
 * import { nodeSqlite } from "greenroom/node-sqlite";
 *
 * const service = await createService({
 *   storage: nodeSqlite("agents.db"),
 *   executor: fromFunctions({ echo: ({ messages }) => `Message ${messages.length}` }),
 *   identity: staticIdentity({ keys: ["a-secret-of-at-least-32-characters"] }),
 *   auth: { mode: "api_key" },
 * });
 * ```
 */
export function staticIdentity(options: StaticIdentityOptions): IdentityStore {
  checkOptions(options);
  return staticStore(createRows(options));
}

async function createRows(options: StaticIdentityOptions): Promise<StaticRows> {
  const { organization = DEFAULT_ORGANIZATION, workspaces = [DEFAULT_WORKSPACE], projects = [], users = [] } = options;
  const organization_id = organization.id;
  const [created_at, deleted_at] = [0, null];
  const memberships: MembershipRow[] = [];
  const rows: StaticRows = {
    organization: { ...organization, created_at },
    workspaces: byId(workspaces.map(({ id, name }) => ({ id, organization_id, name, created_at, deleted_at }))),
    projects: byId(
      projects.map(({ id, name, workspace }) => ({ id, workspace_id: workspace, name, created_at, deleted_at })),
    ),
    users: byId(users.map(({ id, email = null, name = null }) => ({ id, email, name, created_at, deleted_at }))),
    keys: new Map(),
    memberships,
  };
  for (const [order, key] of namedKeys(options.keys).entries()) {
    const id = await derivedId("key", organization_id, key.key);
    memberships.push(...grantsOn(id, key.permissions ?? SERVICE_PERMISSIONS, organization_id, key.workspaces));
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
  if (rows.workspaces.size === 0) await namedWorkspace(rows, "Default", created_at);
  const hasProject = new Set(projects.map(({ workspace }) => workspace));
  for (const id of rows.workspaces.keys()) if (!hasProject.has(id)) await namedProject(rows, id, "Default", created_at);
  return rows;
}

const byId = <Row extends { readonly id: string }>(rows: readonly Row[]): Map<string, Row> =>
  new Map(rows.map((row) => [row.id, row]));

/** The default short form has the last four characters of the key, or more if two keys end with the same. */
function namedKeys(keys: StaticIdentityOptions["keys"]): readonly (StaticKey & { readonly short_key: string })[] {
  const objects = keys.map((key): StaticKey => (typeof key === "string" ? { key } : key));
  const used = new Set(objects.flatMap(({ short_key }) => short_key ?? []));
  return objects.map((key, order) => {
    const forms = [4, 6, 8].map((digits) => `static_...${key.key.slice(-digits)}`);
    const short_key = key.short_key ?? forms.find((form) => !used.has(form)) ?? `${forms[0]}#${order + 1}`;
    used.add(short_key);
    return { ...key, short_key };
  });
}

/** Problems never quote a key, nor text that can be one. */
function checkOptions({
  keys,
  workspaces = [DEFAULT_WORKSPACE],
  projects = [],
  users = [],
}: StaticIdentityOptions): void {
  const problems: string[] = [];
  const objects = keys.map((key): StaticKey => (typeof key === "string" ? { key } : key));
  for (const [order, { key, permissions = [], workspaces: workspace_ids = [], user }] of objects.entries()) {
    const at = `keys.${order}`;
    if (key.length < KEY_LENGTH) problems.push(`${at}: has ${key.length} characters; use at least ${KEY_LENGTH}`);
    // Other characters are not safe in a header.
    if (!/^[\x21-\x7e]*$/.test(key)) problems.push(`${at}: use visible ASCII characters without white space`);
    for (const name of permissions)
      if (!PERMISSIONS.includes(name)) problems.push(`${at}: there is no permission ${name}`);
    for (const id of workspace_ids)
      if (!workspaces.some((row) => row.id === id)) problems.push(`${at}: no workspace ${id}`);
    if (user !== undefined && !users.some(({ id }) => id === user)) problems.push(`${at}: no user ${user}`);
  }
  for (const { id, workspace } of projects) {
    if (!workspaces.some((row) => row.id === workspace)) problems.push(`projects: ${id}: no workspace ${workspace}`);
  }
  const unique: Readonly<Record<string, readonly (string | null | undefined)[]>> = {
    keys: objects.map(({ key }) => key),
    "keys: short_key": objects.map(({ short_key }) => short_key),
    workspaces: workspaces.map(({ id }) => id),
    "workspaces: name": workspaces.map(({ name }) => name),
    projects: projects.map(({ id }) => id),
    "projects: name": projects.map(({ workspace, name }) => JSON.stringify([workspace, name])),
    users: users.map(({ id }) => id),
    "users: email": users.map(({ email }) => email),
  };
  for (const [what, values] of Object.entries(unique)) {
    const texts = values.filter((value) => typeof value === "string");
    if (new Set(texts).size < texts.length) problems.push(`${what}: must be unique`);
  }
  if (problems.length > 0) throw new ConfigError(problems);
}
