/** API keys, users and workspaces from a list, kept in memory: for tests, containers and hosts with accounts of their own. */
import { ConfigError } from "../errors.ts";
import { type IdentityStore, PERMISSIONS, type Permission } from "../storage/identity.ts";
import { hashKey } from "./api-keys.ts";
import { grantsOn, SERVICE_PERMISSIONS } from "./grants.ts";
import { deploymentVerbs, keyVerbs, userVerbs, workspaceVerbs } from "./static-store.ts";
import { createTables, derivedId, type Tables } from "./static-tables.ts";

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
 * An IdentityStore in memory: changes last as long as the process. The ids of rows that it makes are derived from their names, so
 * every process has the same ids. Throws a ConfigError with every problem.
 */
export function staticIdentity(options: StaticIdentityOptions): IdentityStore {
  checkOptions(options);
  const tables = createTables({ ...(options.organization ?? DEFAULT_ORGANIZATION), created_at: 0 });
  for (const { id, name } of options.workspaces ?? [DEFAULT_WORKSPACE]) tables.addWorkspace(id, name, 0);
  for (const { id, name, workspace } of options.projects ?? []) tables.addProject(id, workspace, name, 0);
  for (const { id, email = null, name = null } of options.users ?? []) {
    tables.put(tables.users, { id, email, name, created_at: 0, deleted_at: null });
  }

  // Hashing is asynchronous: every verb waits for it.
  const ready = seedKeys(tables, options.keys);
  const store: Omit<IdentityStore, "any_keys"> = {
    ...deploymentVerbs(tables),
    ...keyVerbs(tables),
    ...workspaceVerbs(tables),
    ...userVerbs(tables),
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

async function seedKeys(tables: Tables, given: StaticIdentityOptions["keys"]): Promise<void> {
  const { organization, keys, grant, live, workspaces, oldestProject } = tables;
  for (const [order, key] of namedKeys(given).entries()) {
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
}

/** The default short form is the last four characters of the key, or more where two keys end alike. */
function namedKeys(keys: StaticIdentityOptions["keys"]): readonly (StaticKey & { readonly short_key: string })[] {
  const given = keys.map((key): StaticKey => (typeof key === "string" ? { key } : key));
  const used = new Set(given.flatMap(({ short_key }) => short_key ?? []));
  return given.map((key, order) => {
    const forms = [4, 6, 8].map((digits) => `static_...${key.key.slice(-digits)}`);
    const short_key = key.short_key ?? forms.find((form) => !used.has(form)) ?? `${forms[0]}#${order + 1}`;
    used.add(short_key);
    return { ...key, short_key };
  });
}

/** The problems never quote the given texts: they may be keys. */
function checkOptions({
  keys,
  workspaces = [DEFAULT_WORKSPACE],
  projects = [],
  users = [],
}: StaticIdentityOptions): void {
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
