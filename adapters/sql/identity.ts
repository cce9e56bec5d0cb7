/** Accounts in SQL tables. */
import {
  type ApiKeyRow,
  type IdentityStore,
  type KeyGrants,
  type MembershipRow,
  PERMISSIONS,
  type Permission,
  type UnitKind,
  type UnitRows,
} from "../../lib/storage/identity.ts";
import { type Database, readAll } from "./database.ts";
import { createDeploymentStorage } from "./deployments.ts";
import type { CoreTables } from "./schema/tables.ts";
import {
  deleteMembership,
  deleteProjectsOfWorkspace,
  deleteUnit,
  hasUnit,
  hasUnitParent,
  insertKey,
  insertKeyGrant,
  insertUnit,
  isShortKeyTaken,
  type KeyPart,
  renameUnit,
  revokeKey,
  selectKeyParts,
  selectKeys,
  selectMemberships,
  selectUnits,
  touchKey,
  upsertMembership,
} from "./statements/identity.ts";
import { createUserStorage } from "./users.ts";

/** The interval between two updates of a key's last use. */
const TOUCH_INTERVAL_MS = 60_000;

type KeyOperations =
  | "findKey"
  | "touchKey"
  | "createKey"
  | "revokeKey"
  | "listKeys"
  | "setMembership"
  | "listMemberships";

/**
 * Creates the storage operations on keys and memberships. Keys are revoked and not deleted; a membership that is set without
 * permissions is deleted.
 */
function createKeyStorage(driver: Database): Pick<IdentityStore, KeyOperations> {
  return {
    /**
     * @statements selectKeyParts
     * @guards Key, memberships, workspaces and projects in one statement.
     */
    findKey: async (key_hash) => toGrants(await driver.read(selectKeyParts({ key_hash }))),

    /**
     * @statements touchKey
     * @guards At most once a minute.
     */
    async touchKey(id, now) {
      await driver.batch([touchKey({ id, now, before: now - TOUCH_INTERVAL_MS })], []);
    },

    /**
     * Stores a key with its memberships. Stores nothing if its short form is taken in the organization (`short_key_taken`), or
     * else if the organization, the user or a scope does not exist (`parent_not_found`).
     * @statements isShortKeyTaken · insertKey · insertKeyGrant
     * @guards select whether the short form is taken · insert where organization, user and scopes exist · memberships
     *   where the key is this one.
     */
    async createKey(key, memberships) {
      const { organization_id, short_key, key_hash } = key;
      const scopes = JSON.stringify(memberships.map(({ scope_id }) => scope_id));
      const [existingKeys, inserted] = await driver.batch([
        isShortKeyTaken({ organization_id, short_key }),
        insertKey({ ...key, scopes }),
        ...memberships.map((membership) => insertKeyGrant({ ...toColumns(membership), key_hash })),
      ]);
      if (inserted?.length) return { kind: "made" };
      return { kind: existingKeys?.length ? "short_key_taken" : "parent_not_found" };
    },

    /**
     * Revokes the key with this id or short form, and returns it. A key that is revoked already keeps its time. Returns null if
     * the organization has no such key.
     * @statements revokeKey
     */
    async revokeKey(organization_id, key, now) {
      const [revoked] = await driver.batch([revokeKey({ organization_id, key, now })]);
      return revoked?.[0] ? toKey(revoked[0]) : null;
    },

    /** @statements selectKeys */
    listKeys: ({ organization_id = null, limit = Number.MAX_SAFE_INTEGER }) =>
      readAll(driver, selectKeys({ organization_id, limit }), toKey),

    /**
     * Stores the permissions of a membership, or deletes it if there are none.
     * @statements upsertMembership · deleteMembership
     * @guards upsert or delete.
     */
    async setMembership(membership) {
      const { subject_id, scope_id } = membership;
      await driver.batch([
        membership.permissions.length > 0
          ? upsertMembership(toColumns(membership))
          : deleteMembership({ subject_id, scope_id }),
      ]);
    },

    /** @statements selectMemberships */
    listMemberships: (subject_id) => readAll(driver, selectMemberships({ subject_id }), toMembership),
  };
}

type UnitOperations = "createUnit" | "renameUnit" | "deleteUnit" | "listUnits";

/** Creates the storage operations on workspaces and projects. Deleted ones keep their rows. */
function createUnitStorage(driver: Database): Pick<IdentityStore, UnitOperations> {
  return {
    /**
     * Stores a workspace or project and returns its row. Stores nothing if its parent does not exist (`parent_not_found`), or
     * if its name is taken there (`name_taken`).
     * @statements insertUnit · hasUnitParent
     * @guards Where the parent exists; without a row, a read of the parent finds the reason.
     */
    async createUnit(kind, row) {
      const parent = "organization_id" in row ? row.organization_id : row.workspace_id;
      const [inserted, existing] = await driver.batch([
        insertUnit({ kind }, { ...row, parent }),
        hasUnitParent({ kind }, { id: parent }),
      ]);
      if (inserted?.[0]) return { kind: "made", row: castRow(inserted[0]) };
      return { kind: existing?.length ? "name_taken" : "parent_not_found" };
    },
    /**
     * Renames a workspace or project and returns its row. Changes nothing if it does not exist or is deleted (`not_found`), or
     * if another one of its parent has the name (`name_taken`).
     * @statements renameUnit · hasUnit
     * @guards update where the name is free · select whether it exists.
     */
    async renameUnit(kind, id, name) {
      const [renamed, existing] = await driver.batch([renameUnit({ kind }, { id, name }), hasUnit({ kind }, { id })]);
      if (renamed?.[0]) return { kind: "made", row: castRow(renamed[0]) };
      return { kind: existing?.length ? "name_taken" : "not_found" };
    },
    /**
     * Marks a workspace, with its projects, or a project as deleted, and returns its row. Returns null if it does not exist or
     * is deleted already.
     * @statements deleteUnit · deleteProjectsOfWorkspace
     * @guards soft delete · the projects of a workspace.
     */
    async deleteUnit(kind, id, now) {
      const projects = kind === "workspace" ? [deleteProjectsOfWorkspace({ id, now })] : [];
      const [deleted] = await driver.batch([deleteUnit({ kind }, { id, now }), ...projects]);
      return deleted?.[0] ? castRow(deleted[0]) : null;
    },
    /** @statements selectUnits */
    listUnits: <Kind extends UnitKind>(kind: Kind, parent_ids: readonly string[]) =>
      readAll(driver, selectUnits({ kind }, { parents: JSON.stringify(parent_ids) }), castRow<UnitRows[Kind]>),
  };
}

/** Creates the IdentityStore on `driver`. */
export function createIdentityStorage(driver: Database): IdentityStore {
  return {
    ...createDeploymentStorage(driver),
    ...createKeyStorage(driver),
    ...createUnitStorage(driver),
    ...createUserStorage(driver),
  };
}

// ----------------------------------------------------------------------- rows

/**
 * Returns a key with its memberships, workspaces and projects from rows of these four parts, in any order. Returns null if no
 * row is the key.
 */
function toGrants(rows: readonly KeyPart[]): KeyGrants | null {
  const selectPart = (number: KeyPart["part"]): readonly KeyPart[] => rows.filter(({ part }) => part === number);
  const [keyPart] = selectPart(1);
  if (!keyPart) return null;
  const { part: _, parent, name, ...key } = keyPart;
  const toUnit = ({ id, name, created_at }: KeyPart) => ({ id, name, created_at, deleted_at: null });
  return {
    key: toKey({ ...key, organization_id: parent, short_key: name } as CoreTables["api_keys"]),
    memberships: selectPart(2).map((row) =>
      toMembership({ subject_id: row.id, scope_id: row.parent, permissions: row.name }),
    ),
    workspaces: selectPart(3).map((row) => ({ ...toUnit(row), organization_id: row.parent })),
    projects: selectPart(4).map((row) => ({ ...toUnit(row), workspace_id: row.parent })),
  };
}

/** The kind of a unit decides its columns, which the statement does not know. */
const castRow = <Row>(row: object): Row => row as Row;

const toKey = ({ kind, ...key }: CoreTables["api_keys"]): ApiKeyRow => ({ ...key, kind: kind as ApiKeyRow["kind"] });

/** Returns the columns of a membership, with the permissions as JSON text. */
const toColumns = (membership: MembershipRow): CoreTables["memberships"] => ({
  ...membership,
  permissions: JSON.stringify(membership.permissions),
});

/** Converts a row. Omits permissions that this release does not know. */
function toMembership({ subject_id, scope_id, permissions }: CoreTables["memberships"]): MembershipRow {
  const knownPermissions = (JSON.parse(permissions) as readonly string[]).filter(
    (permission): permission is Permission => (PERMISSIONS as readonly string[]).includes(permission),
  );
  return { subject_id, scope_id, permissions: knownPermissions };
}
