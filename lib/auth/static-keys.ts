/** Accounts from options: for tests, containers and hosts that manage accounts themselves. */
import { createLazyModule } from "../environment.ts";
import { ConfigError } from "../errors.ts";
import { type IdentityStore, PERMISSIONS } from "../storage/identity.ts";
import { withDefaults } from "../validation.ts";
import type { IdentityMethods, StaticIdentityOptions, StaticKey } from "./static-store.ts";

export type { StaticIdentityOptions, StaticKey } from "./static-store.ts";

const MIN_KEY_CHARS = 32;
const DEFAULTS: Omit<Required<StaticIdentityOptions>, "keys"> = {
  organization: { id: "7b1c2f0e-3a54-5d86-9c1b-000000000001", name: "Default" },
  workspaces: [{ id: "7b1c2f0e-3a54-5d86-9c1b-000000000002", name: "Default" }],
  projects: [],
  users: [],
};

/**
 * Creates a read-only IdentityStore of these accounts. Methods that change accounts reject with `forbidden`, except for revoking a key,
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
  const rows = { ...withDefaults(DEFAULTS, options), keys: options.keys };
  validateStaticOptions(rows);
  return {
    any_keys: true,
    ...createLazyModule<IdentityMethods>(
      {
        ...{
          ensureDefaults: true,
          registerDeployment: true,
          getDeployment: true,
          updateDeployment: true,
          listDeployments: true,
        },
        ...{ findKey: true, touchKey: true, createKey: true, revokeKey: true, listKeys: true },
        ...{ createUnit: true, renameUnit: true, deleteUnit: true, listUnits: true },
        ...{ createUser: true, deleteUser: true, getUser: true, ensureUser: true, listUsers: true },
        ...{ setMembership: true, listMemberships: true, readNames: true },
      },
      async () => (await import("./static-store.ts")).createStaticStore(rows),
    ),
  };
}

/** Returns what is wrong with a key of the options; empty if nothing is. Does not name the key. */
function findKeyProblems(
  { key, permissions = [], workspaces: workspace_ids = [], user }: StaticKey,
  workspaces: Required<StaticIdentityOptions>["workspaces"],
  users: Required<StaticIdentityOptions>["users"],
): string[] {
  const unknownWorkspaces = workspace_ids.filter((id) => !workspaces.some((row) => row.id === id));
  return [
    ...(key.length < MIN_KEY_CHARS ? [`has ${key.length} characters; use at least ${MIN_KEY_CHARS}`] : []),
    // Other characters are not safe in a header.
    ...(/^[\x21-\x7e]*$/.test(key) ? [] : ["use visible ASCII characters without white space"]),
    ...permissions.filter((name) => !PERMISSIONS.includes(name)).map((name) => `there is no permission ${name}`),
    ...unknownWorkspaces.map((id) => `no workspace ${id}`),
    ...(user === undefined || users.some(({ id }) => id === user) ? [] : [`no user ${user}`]),
  ];
}

/** Throws a ConfigError with all problems. These never quote a key, nor text that can be one. */
function validateStaticOptions({ keys, workspaces, projects, users }: Required<StaticIdentityOptions>): void {
  const problems: string[] = [];
  const keyOptions = keys.map((key): StaticKey => (typeof key === "string" ? { key } : key));
  for (const [order, key] of keyOptions.entries()) {
    problems.push(...findKeyProblems(key, workspaces, users).map((problem) => `keys.${order}: ${problem}`));
  }
  for (const { id, workspace } of projects) {
    if (!workspaces.some((row) => row.id === workspace)) problems.push(`projects: ${id}: no workspace ${workspace}`);
  }
  const uniqueFields: Readonly<Record<string, readonly (string | null | undefined)[]>> = {
    keys: keyOptions.map(({ key }) => key),
    "keys: short_key": keyOptions.map(({ short_key }) => short_key),
    workspaces: workspaces.map(({ id }) => id),
    "workspaces: name": workspaces.map(({ name }) => name),
    projects: projects.map(({ id }) => id),
    "projects: name": projects.map(({ workspace, name }) => JSON.stringify([workspace, name])),
    users: users.map(({ id }) => id),
    "users: email": users.map(({ email }) => email),
  };
  for (const [field, values] of Object.entries(uniqueFields)) {
    const texts = values.filter((value) => typeof value === "string");
    if (new Set(texts).size < texts.length) problems.push(`${field}: must be unique`);
  }
  if (problems.length > 0) throw new ConfigError(problems);
}
