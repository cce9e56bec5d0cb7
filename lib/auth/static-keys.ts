/** An identity store in memory, made from options: for tests, containers and hosts that manage accounts themselves. */
import { ConfigError } from "../errors.ts";
import { type IdentityStore, PERMISSIONS, type Permission } from "../storage/identity.ts";
import { hashKey } from "./api-keys.ts";
import { grantsOn, SERVICE_PERMISSIONS } from "./grants.ts";
import { deploymentVerbs, keyVerbs, userVerbs, workspaceVerbs } from "./static-store.ts";
import { createTables, derivedId, type Tables } from "./static-tables.ts";

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
 * Makes an IdentityStore in memory. Changes are lost when the process ends. Ids of new rows are derived from their names, so every
 * process has the same ids. Throws a ConfigError with every problem.
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
  const tables = createTables({ ...(options.organization ?? DEFAULT_ORGANIZATION), created_at: 0 });
  for (const { id, name } of options.workspaces ?? [DEFAULT_WORKSPACE]) tables.addWorkspace(id, name, 0);
  for (const { id, name, workspace } of options.projects ?? []) tables.addProject(id, workspace, name, 0);
  for (const { id, email = null, name = null } of options.users ?? []) {
    tables.put(tables.users, { id, email, name, created_at: 0, deleted_at: null });
  }

  // Hashing the keys is asynchronous, so every verb waits for it.
  const ready = seedKeys(tables, options.keys);
  const store: Omit<IdentityStore, "any_keys"> = {
    ...deploymentVerbs(tables),
    ...keyVerbs(tables),
    ...workspaceVerbs(tables),
    ...userVerbs(tables),
  };
  const waitingVerbs = Object.entries(store).map(([name, verb]) => [
    name,
    async (...args: readonly unknown[]): Promise<unknown> => {
      await ready;
      return (verb as (...args: readonly unknown[]) => Promise<unknown>)(...args);
    },
  ]);
  return { ...(Object.fromEntries(waitingVerbs) as Omit<IdentityStore, "any_keys">), any_keys: true };
}

async function seedKeys(tables: Tables, options: StaticIdentityOptions["keys"]): Promise<void> {
  const { organization, keys, grant, live, workspaces, oldestProject } = tables;
  for (const [order, key] of namedKeys(options).entries()) {
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
  const refuseDuplicates = (what: string, values: readonly (string | null | undefined)[]): void => {
    const texts = values.filter((value) => typeof value === "string");
    if (new Set(texts).size < texts.length) problems.push(`${what}: must be unique`);
  };
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
  refuseDuplicates(
    "keys",
    objects.map(({ key }) => key),
  );
  refuseDuplicates(
    "keys: short_key",
    objects.map(({ short_key }) => short_key),
  );
  refuseDuplicates(
    "workspaces",
    workspaces.map(({ id }) => id),
  );
  refuseDuplicates(
    "workspaces: name",
    workspaces.map(({ name }) => name),
  );
  refuseDuplicates(
    "projects",
    projects.map(({ id }) => id),
  );
  refuseDuplicates(
    "projects: name",
    projects.map(({ workspace, name }) => JSON.stringify([workspace, name])),
  );
  refuseDuplicates(
    "users",
    users.map(({ id }) => id),
  );
  refuseDuplicates(
    "users: email",
    users.map(({ email }) => email),
  );
  if (problems.length > 0) throw new ConfigError(problems);
}
