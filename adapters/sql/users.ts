/** Users, and the names that reports show. */
import type { IdentityStore } from "../../lib/storage/identity.ts";
import { createRowFinder, type Database } from "./database.ts";
import {
  deleteMembershipsOfUser,
  deleteUser,
  insertUser,
  insertUserWithIdentity,
  revokeKeysOfUser,
  selectNames,
  selectUser,
  selectUserByIdentity,
  selectUsers,
  updateEmailByIdentity,
} from "./statements/users.ts";

type UserStorage = Pick<
  IdentityStore,
  "createUser" | "deleteUser" | "getUser" | "ensureUser" | "listUsers" | "readNames"
>;

/** Creates the storage operations on users. */
export function createUserStorage(driver: Database): UserStorage {
  return {
    /**
     * Stores a user and returns its row. Returns `name_taken`, and stores nothing, if the row conflicts with an existing user.
     * @statements insertUser
     * @guards insert, `on conflict do nothing`.
     */
    async createUser(user) {
      const [inserted] = await driver.batch([insertUser({ ...user })]);
      return inserted[0] ? { kind: "made", row: inserted[0] } : { kind: "name_taken" };
    },

    /**
     * Marks a user as deleted, revokes its API keys and deletes its memberships. Returns the user; null if it does not exist or
     * is deleted already.
     * @statements deleteUser · revokeKeysOfUser · deleteMembershipsOfUser
     * @guards soft delete · revoke tokens · delete memberships.
     */
    async deleteUser(id, now) {
      const [deleted] = await driver.batch([
        deleteUser({ id, now }),
        revokeKeysOfUser({ id, now }),
        deleteMembershipsOfUser({ id }),
      ]);
      return deleted[0] ?? null;
    },

    /**
     * Returns the user with this id, else the one with this email; null if there is none or it is deleted.
     * @statements selectUser
     */
    async getUser(user) {
      const [row] = await driver.read(selectUser({ user }));
      return row ?? null;
    },

    /**
     * Returns the id of the user with this identity, and creates it if it is unknown. If `email` is given and differs, it
     * becomes the email of the user unless another user has it.
     * @statements selectUserByIdentity · insertUserWithIdentity · updateEmailByIdentity
     * @guards read · insert where unknown · set the email if it is free · select.
     */
    async ensureUser({ workspace_id, identity, email }, now) {
      const key = { workspace_id, identity };
      const [existing] = await driver.read(selectUserByIdentity(key));
      if (existing && (email === undefined || email === existing.email)) return existing.id;
      const select = selectUserByIdentity(key);
      const statements = [
        insertUserWithIdentity({ ...key, id: crypto.randomUUID(), now }),
        ...(email === undefined ? [] : [updateEmailByIdentity({ ...key, email })]),
        select,
      ];
      const [user] = createRowFinder(statements, await driver.batch(statements))(select);
      return (user as { readonly id: string }).id;
    },

    /** @statements selectUsers */
    listUsers: (organization_id) => driver.read(selectUsers({ organization_id })),

    /**
     * Returns the names of these workspaces, projects and users, in a map by id for each kind. Unknown ids are absent.
     * @statements selectNames
     */
    async readNames(ids) {
      const rows = await driver.read(
        selectNames({
          workspaces: JSON.stringify(ids.workspaces ?? []),
          projects: JSON.stringify(ids.projects ?? []),
          users: JSON.stringify(ids.users ?? []),
        }),
      );
      const namesOfKind = <Name>(kind: (typeof rows)[number]["kind"]): ReadonlyMap<string, Name> =>
        new Map(rows.filter((row) => row.kind === kind).map(({ id, name }) => [id, name as Name]));
      return {
        workspaces: namesOfKind("workspace"),
        projects: namesOfKind("project"),
        users: namesOfKind("user"),
      };
    },
  };
}
