/** Statements on API keys, memberships, workspaces and projects. */
import { sql } from "kysely";
import { jsonStrings } from "../functions.ts";
import { bigint, columns, orNull, text } from "../parameters.ts";
import { createBuilder, insertWhere, query, shapedQuery } from "../query.ts";
import { identityTables } from "../schema/identity.ts";
import type { CoreTables } from "../schema/tables.ts";

const db = createBuilder<CoreTables>();

const keyTypes = columns(identityTables.api_keys, [
  "id",
  "organization_id",
  "user_id",
  "kind",
  "key_hash",
  "short_key",
  "description",
  "created_at",
  "expires_at",
  "revoked_at",
  "last_used_at",
]);

/**
 * Inserts a key if its organization, its user and all scopes of its grants exist and its short form is new. Returns the id.
 * `scopes` is a JSON list.
 */
export const insertKey = query({ ...keyTypes, scopes: text }, (p) =>
  insertWhere(
    db,
    "api_keys",
    {
      id: p.id,
      organization_id: p.organization_id,
      user_id: p.user_id,
      kind: p.kind,
      key_hash: p.key_hash,
      short_key: p.short_key,
      description: p.description,
      created_at: p.created_at,
      expires_at: p.expires_at,
      revoked_at: p.revoked_at,
      last_used_at: p.last_used_at,
    },
    sql`exists (select 1 from organizations where id = ${p.organization_id})
      and (${p.user_id} is null or exists (select 1 from users where id = ${p.user_id} and deleted_at is null))
      and not exists (select 1 from ${jsonStrings(p.scopes)} as scopes where scopes.value <> ${p.organization_id}
        and scopes.value not in
          (select id from workspaces where organization_id = ${p.organization_id} and deleted_at is null))`,
  )
    .onConflict((conflict) => conflict.doNothing())
    .returning("id"),
);

/** Returns a row if the organization has a key with this short form. */
export const isShortKeyTaken = query({ organization_id: text, short_key: text }, (p) =>
  db
    .selectFrom("api_keys")
    .select("id")
    .where("organization_id", "=", p.organization_id)
    .where("short_key", "=", p.short_key),
);

const membershipTypes = columns(identityTables.memberships, ["subject_id", "scope_id", "permissions"]);

/** Inserts a grant of the key that this batch created. Without that key it has no effect. */
export const insertKeyGrant = query(
  { ...membershipTypes, key_hash: text },
  (p) =>
    sql<never>`insert into memberships (subject_id, scope_id, permissions)
    select id, ${p.scope_id}, ${p.permissions} from api_keys where id = ${p.subject_id} and key_hash = ${p.key_hash}
    on conflict do nothing`,
);

/** Revokes a key by its id or short form, and returns it. A key that was revoked before keeps its time. */
export const revokeKey = query({ organization_id: text, key: text, now: bigint }, (p) =>
  db
    .updateTable("api_keys")
    .set({ revoked_at: sql<number>`coalesce(revoked_at, ${p.now})` })
    .where("organization_id", "=", p.organization_id)
    .where((key) => key.or([key("id", "=", p.key), key("short_key", "=", p.key)]))
    .returningAll(),
);

/** Records the use of a key, unless a use at or after `before` is recorded. */
export const touchKey = query({ id: text, now: bigint, before: bigint }, (p) =>
  db
    .updateTable("api_keys")
    .set({ last_used_at: p.now })
    .where("id", "=", p.id)
    .where((key) => key.or([key("last_used_at", "is", null), key("last_used_at", "<=", p.before)])),
);

/** Selects the keys of an organization, or of all organizations if it is null, in the order of their creation. */
export const selectKeys = query({ organization_id: orNull(text), limit: bigint }, (p) =>
  db
    .selectFrom("api_keys")
    .selectAll()
    .where("organization_id", "=", sql<string>`coalesce(${p.organization_id}, organization_id)`)
    .orderBy("created_at")
    .orderBy("id")
    .limit(p.limit),
);

/** A row of a key, of one of its memberships, or of a workspace or project of its organization. */
export interface KeyPart extends Omit<CoreTables["api_keys"], "organization_id" | "short_key" | "kind" | "key_hash"> {
  readonly part: 1 | 2 | 3 | 4;
  /** The organization of a key or workspace, the scope of a membership, the workspace of a project. */
  readonly parent: string;
  /** The short form of a key, the permissions of a membership, or a name. */
  readonly name: string;
  readonly kind: string | null;
  readonly key_hash: string | null;
}

/**
 * Selects a key by its hash, with its memberships (part 2) and the workspaces (3) and projects (4) of its organization. One
 * statement reads all of them at one moment, so rows of different kinds share columns.
 */
export const selectKeyParts = query(
  { key_hash: text },
  (p) =>
    sql<KeyPart>`with found as (
      select * from api_keys k where k.key_hash = ${p.key_hash} and (k.user_id is null
        or exists (select 1 from users u where u.id = k.user_id and u.deleted_at is null)))
    select 1 as part, id, organization_id as parent, short_key as name, created_at, user_id, kind, key_hash, description,
      expires_at, revoked_at, last_used_at from found
    union all
    select 2, m.subject_id, m.scope_id, m.permissions, 0, null, null, null, null, null, null, null
      from found f join memberships m on m.subject_id in (f.id, f.user_id)
    union all
    select 3, w.id, w.organization_id, w.name, w.created_at, null, null, null, null, null, null, null
      from found f join workspaces w on w.organization_id = f.organization_id where w.deleted_at is null
    union all
    select 4, p.id, p.workspace_id, p.name, p.created_at, null, null, null, null, null, null, null
      from found f join workspaces w on w.organization_id = f.organization_id join projects p on p.workspace_id = w.id
      where w.deleted_at is null and p.deleted_at is null
    order by 1, 5, 2`,
);

/** Inserts a membership, or replaces its permissions. */
export const upsertMembership = query(membershipTypes, (p) =>
  db
    .insertInto("memberships")
    .values({ subject_id: p.subject_id, scope_id: p.scope_id, permissions: p.permissions })
    .onConflict((conflict) =>
      conflict.columns(["subject_id", "scope_id"]).doUpdateSet({ permissions: sql`excluded.permissions` }),
    ),
);

/** Deletes a membership. */
export const deleteMembership = query({ subject_id: text, scope_id: text }, (p) =>
  db.deleteFrom("memberships").where("subject_id", "=", p.subject_id).where("scope_id", "=", p.scope_id),
);

/** Selects the memberships of a user or key, in the order of their scopes. */
export const selectMemberships = query({ subject_id: text }, (p) =>
  db.selectFrom("memberships").selectAll().where("subject_id", "=", p.subject_id).orderBy("scope_id"),
);

/** The tables of units: rows with a name that is unique within their parent. */
const UNITS = {
  workspace: {
    table: sql.table("workspaces"),
    parent: sql.ref("organization_id"),
    parents: sql`organizations`,
  },
  project: {
    table: sql.table("projects"),
    parent: sql.ref("workspace_id"),
    parents: sql`(select id from workspaces where deleted_at is null)`,
  },
} as const;

/** The kind of a unit, which decides its table. */
export interface UnitShape {
  readonly kind: keyof typeof UNITS;
}

type UnitRow = { id: string; name: string; created_at: number; deleted_at: number | null };

const units = { shapes: [{ kind: "workspace" }, { kind: "project" }] as readonly UnitShape[] };

/** Inserts a unit if its parent exists and has no other unit of this name. Returns the unit. */
export const insertUnit = shapedQuery(
  (_: UnitShape) => ({ id: text, parent: text, name: text, created_at: bigint, deleted_at: orNull(bigint) }),
  (p, { kind }) => {
    const { table, parent, parents } = UNITS[kind];
    return sql<UnitRow>`insert into ${table} (id, ${parent}, name, created_at, deleted_at)
      select ${p.id}, o.id, ${p.name}, ${p.created_at}, ${p.deleted_at} from ${parents} o where o.id = ${p.parent}
      on conflict do nothing returning *`;
  },
  units,
);

/** Returns a row if the parent of units exists. */
export const hasUnitParent = shapedQuery(
  (_: UnitShape) => ({ id: text }),
  (p, { kind }) => sql<{ id: string }>`select o.id from ${UNITS[kind].parents} o where o.id = ${p.id}`,
  units,
);

/** Renames a unit unless its parent has another unit of this name. Returns the unit. */
export const renameUnit = shapedQuery(
  (_: UnitShape) => ({ id: text, name: text }),
  (p, { kind }) => {
    const { table, parent } = UNITS[kind];
    return sql<UnitRow>`update ${table} set name = ${p.name} where id = ${p.id} and deleted_at is null
      and not exists (select 1 from ${table} other where other.${parent} = ${table}.${parent}
        and other.name = ${p.name} and other.id <> ${table}.id and other.deleted_at is null)
      returning *`;
  },
  units,
);

/** Returns a row if the unit exists. */
export const hasUnit = shapedQuery(
  (_: UnitShape) => ({ id: text }),
  (p, { kind }) => sql<{ id: string }>`select id from ${UNITS[kind].table} where id = ${p.id} and deleted_at is null`,
  units,
);

/** Marks a unit as deleted, and returns it unless it was deleted before. */
export const deleteUnit = shapedQuery(
  (_: UnitShape) => ({ id: text, now: bigint }),
  (p, { kind }) =>
    sql<UnitRow>`update ${UNITS[kind].table} set deleted_at = ${p.now} where id = ${p.id} and deleted_at is null
      returning *`,
  units,
);

/** Selects the units of parents, which are a JSON list of ids, in the order of their names. */
export const selectUnits = shapedQuery(
  (_: UnitShape) => ({ parents: text }),
  (p, { kind }) =>
    sql<UnitRow>`select * from ${UNITS[kind].table} where ${UNITS[kind].parent} in ${jsonStrings(p.parents)}
      and deleted_at is null order by name, id`,
  units,
);

/** Marks the projects of a workspace as deleted. */
export const deleteProjectsOfWorkspace = query({ id: text, now: bigint }, (p) =>
  db
    .updateTable("projects")
    .set({ deleted_at: p.now })
    .where("workspace_id", "=", p.id)
    .where("deleted_at", "is", null),
);
