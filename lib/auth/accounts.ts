/** Manages API keys, workspaces, projects, users and shared agents. */
import { createLazyModule } from "../environment.ts";
import { ConfigError } from "../errors.ts";
import type { AccountOptions, Accounts } from "./account-operations.ts";
import { KEY_PREFIX } from "./keys.ts";

export type { Accounts, KeyCreate } from "./account-operations.ts";

/**
 * Creates the operations on accounts: keys, workspaces, projects, users and agents. Throws a ConfigError for an invalid
 * `key_prefix`.
 * @example
 * ```ts
 * import { createAccounts } from "greenroom";
 * import { nodeSqlite } from "greenroom/node-sqlite";
 *
 * const storage = nodeSqlite("agents.db");
 * await storage.migrate();
 * const environment = { now: Date.now, uuid: () => crypto.randomUUID() };
 * const accounts = createAccounts({ identity: storage.identity, environment });
 * const { key } = await accounts.createKey({ kind: "sk", description: "deploy" });
 * ```
 */
export function createAccounts({ identity, environment, key_prefix = KEY_PREFIX }: AccountOptions): Accounts {
  if (!/^[a-z][a-z0-9]{0,15}$/.test(key_prefix)) {
    throw new ConfigError(["auth.key_prefix: use up to 16 lower case letters and digits"]);
  }
  return createLazyModule<Accounts>(
    {
      ...{ createKey: true, listKeys: true, revokeKey: true },
      ...{ createWorkspace: true, renameWorkspace: true, deleteWorkspace: true, listWorkspaces: true },
      ...{ createProject: true, renameProject: true, deleteProject: true, listProjects: true },
      ...{ createUser: true, deleteUser: true, listUsers: true, grant: true, listMemberships: true },
      ...{ listAgents: true, shareAgent: true, unshareAgent: true, transferAgent: true },
    },
    async () =>
      (await import("./account-operations.ts")).createAccountOperations({ identity, environment, key_prefix }),
  );
}
