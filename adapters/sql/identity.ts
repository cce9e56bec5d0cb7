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
  type WorkspaceRow,
} from "../../lib/storage/identity.ts";
import { deploymentVerbs } from "./deployments.ts";
import { each } from "./dialect.ts";
import type { SqlRow } from "./driver.ts";
import type { Tables } from "./schema/tables.ts";
import { type Database, prepared, readAll } from "./statement.ts";
import { type RawBuilder, sql } from "./template.ts";
import { userVerbs } from "./users.ts";

/** The interval between two updates of a key's last use. */
const TOUCH_MS = 60_000;

type Id = { id: string };

// ---------------------------------------------------------------------- keys

/** Inserts nothing unless everything that the key refers to exists and its short form is new. */
const insertKey = prepared<Tables["api_keys"] & { scopes: string }>(
  (p) =>
    sql`insert into api_keys (id, organization_id, user_id, kind, key_hash, short_key, description, created_at,
      expires_at, revoked_at, last_used_at)
    select ${p.id}, o.id, ${p.user_id}, ${p.kind}, ${p.key_hash}, ${p.short_key}, ${p.description}, ${p.created_at},
      ${p.expires_at}, ${p.revoked_at}, ${p.last_used_at}
    from organizations o where o.id = ${p.organization_id}
      and (${p.user_id} is null or exists (select 1 from users where id = ${p.user_id} and deleted_at is null))
      and not exists (select 1 from ${each(p.scopes)} as scopes where scopes.value <> o.id and scopes.value not in
        (select id from workspaces where organization_id = o.id and deleted_at is null))
    on conflict do nothing returning id`,
);

const isShortTaken = prepared<{ organization_id: string; short_key: string }>(
  (p) => sql`select id from api_keys where organization_id = ${p.organization_id} and short_key = ${p.short_key}`,
);

/** The grant of the key that this batch created; nothing without that key. */
const insertGrant = prepared<Tables["memberships"] & { key_hash: string }>(
  (p) =>
    sql`insert into memberships (subject_id, scope_id, permissions)
    select id, ${p.scope_id}, ${p.permissions} from api_keys where id = ${p.subject_id} and key_hash = ${p.key_hash}
    on conflict do nothing`,
);

const revokeKey = prepared<{ organization_id: string; key: string; now: number }>(
  (p) =>
    sql`update api_keys set revoked_at = coalesce(revoked_at, ${p.now})
    where organization_id = ${p.organization_id} and (id = ${p.key} or short_key = ${p.key}) returning *`,
);

const touchKey = prepared<{ id: string; now: number; before: number }>(
  (p) =>
    sql`update api_keys set last_used_at = ${p.now}
    where id = ${p.id} and (last_used_at is null or last_used_at <= ${p.before})`,
);

const listKeys = prepared<{ organization_id: string | null; limit: number }>(
  (p) =>
    sql`select * from api_keys where organization_id = coalesce(${p.organization_id}, organization_id)
    order by created_at, id limit ${p.limit}`,
);

/** Key, memberships, workspaces and projects at one moment: different kinds of rows in columns of equal types. */
const findKey = prepared<{ key_hash: string }>(
  (p) =>
    sql`with found as (
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

function keyVerbs(driver: Database) {
  return {
    /**
     * @statements findKey
     * @guards Key, memberships, workspaces and projects in one statement.
     */
    findKey: async (key_hash) => toGrants(await driver.read(findKey({ key_hash }))),

    /**
     * @statements touchKey
     * @guards At most once a minute.
     */
    async touchKey(id, now) {
      await driver.batch([touchKey({ id, now, before: now - TOUCH_MS })], []);
    },

    /**
     * @statements isShortTaken · insertKey · insertGrant
     * @guards select whether the short form is taken · insert where organization, user and scopes exist · memberships
     *   where the key is this one.
     */
    async createKey(key, memberships) {
      const { organization_id, short_key, key_hash } = key;
      const scopes = JSON.stringify(memberships.map(({ scope_id }) => scope_id));
      const [taken, made] = await driver.batch([
        isShortTaken({ organization_id, short_key }),
        insertKey({ ...key, scopes }),
        ...memberships.map((membership) => insertGrant({ ...toColumns(membership), key_hash })),
      ]);
      if (made?.length) return { kind: "made" };
      return { kind: taken?.length ? "short_key_taken" : "parent_not_found" };
    },

    /** @statements revokeKey */
    async revokeKey(organization_id, key, now) {
      const [revoked] = await driver.batch([revokeKey({ organization_id, key, now })]);
      return revoked?.[0] ? toKey(revoked[0]) : null;
    },

    /** @statements listKeys */
    listKeys: ({ organization_id = null, limit = Number.MAX_SAFE_INTEGER }) =>
      readAll(driver, listKeys({ organization_id, limit }), toKey),

    /**
     * @statements putMembership · deleteMembership
     * @guards upsert or delete.
     */
    async setMembership(membership) {
      const { subject_id, scope_id } = membership;
      await driver.batch([
        membership.permissions.length > 0
          ? putMembership(toColumns(membership))
          : deleteMembership({ subject_id, scope_id }),
      ]);
    },

    /** @statements listMemberships */
    listMemberships: (subject_id) =>
      readAll(driver, listMemberships({ subject_id }), ({ subject_id, scope_id, permissions }) =>
        toMembership(subject_id, scope_id, permissions),
      ),
  } satisfies Partial<IdentityStore>;
}

const putMembership = prepared<Tables["memberships"]>(
  (p) =>
    sql`insert into memberships (subject_id, scope_id, permissions)
    values (${p.subject_id}, ${p.scope_id}, ${p.permissions})
    on conflict (subject_id, scope_id) do update set permissions = excluded.permissions`,
);

const deleteMembership = prepared<{ subject_id: string; scope_id: string }>(
  (p) => sql`delete from memberships where subject_id = ${p.subject_id} and scope_id = ${p.scope_id}`,
);

const listMemberships = prepared<{ subject_id: string }>(
  (p) => sql`select * from memberships where subject_id = ${p.subject_id} order by scope_id`,
);

// ------------------------------------------------- workspaces and projects

type Named = { id: string; parent: string; name: string; created_at: number; deleted_at: number | null };

/** Statements for rows with a name that is unique within a parent. */
function namedRows(table: RawBuilder<unknown>, parent: RawBuilder<unknown>, parents: RawBuilder<unknown>) {
  return {
    insert: prepared<Named>(
      (p) =>
        sql`insert into ${table} (id, ${parent}, name, created_at, deleted_at)
        select ${p.id}, o.id, ${p.name}, ${p.created_at}, ${p.deleted_at} from ${parents} o where o.id = ${p.parent}
        on conflict do nothing returning *`,
    ),
    hasParent: prepared<Id>((p) => sql`select o.id from ${parents} o where o.id = ${p.id}`),
    rename: prepared<Id & { name: string }>(
      (p) =>
        sql`update ${table} set name = ${p.name} where id = ${p.id} and deleted_at is null
        and not exists (select 1 from ${table} other where other.${parent} = ${table}.${parent}
          and other.name = ${p.name} and other.id <> ${table}.id and other.deleted_at is null)
        returning *`,
    ),
    isThere: prepared<Id>((p) => sql`select id from ${table} where id = ${p.id} and deleted_at is null`),
    delete: prepared<Id & { now: number }>(
      (p) => sql`update ${table} set deleted_at = ${p.now} where id = ${p.id} and deleted_at is null returning *`,
    ),
    list: prepared<{ parents: string }>(
      (p) => sql`select * from ${table} where ${parent} in ${each(p.parents)} and deleted_at is null order by name, id`,
    ),
  };
}

const workspaces = namedRows(sql`workspaces`, sql`organization_id`, sql`organizations`);
const projects = namedRows(sql`projects`, sql`workspace_id`, sql`(select id from workspaces where deleted_at is null)`);

const deleteProjectsOf = prepared<Id & { now: number }>(
  (p) => sql`update projects set deleted_at = ${p.now} where workspace_id = ${p.id} and deleted_at is null`,
);

const units = { workspace: workspaces, project: projects };

function unitVerbs(driver: Database) {
  return {
    /**
     * @statements insert · hasParent
     * @guards Where the parent exists; without a row, a read of the parent finds the reason.
     */
    async createUnit(kind, row) {
      const parent = "organization_id" in row ? row.organization_id : row.workspace_id;
      const [made, there] = await driver.batch([
        units[kind].insert({ ...row, parent }),
        units[kind].hasParent({ id: parent }),
      ]);
      if (made?.[0]) return { kind: "made", row: asIs(made[0]) };
      return { kind: there?.length ? "name_taken" : "parent_not_found" };
    },
    /**
     * @statements rename · isThere
     * @guards update where the name is free · select whether it exists.
     */
    async renameUnit(kind, id, name) {
      const [renamed, there] = await driver.batch([units[kind].rename({ id, name }), units[kind].isThere({ id })]);
      if (renamed?.[0]) return { kind: "made", row: asIs(renamed[0]) };
      return { kind: there?.length ? "name_taken" : "not_found" };
    },
    /**
     * @statements delete · deleteProjectsOf
     * @guards soft delete · the projects of a workspace.
     */
    async deleteUnit(kind, id, now) {
      const its = kind === "workspace" ? [deleteProjectsOf({ id, now })] : [];
      const [deleted] = await driver.batch([units[kind].delete({ id, now }), ...its]);
      return deleted?.[0] ? asIs(deleted[0]) : null;
    },
    /** @statements list */
    listUnits: <Kind extends UnitKind>(kind: Kind, parent_ids: readonly string[]) =>
      readAll(driver, units[kind].list({ parents: JSON.stringify(parent_ids) }), asIs<UnitRows[Kind]>),
  } satisfies Pick<IdentityStore, "createUnit" | "renameUnit" | "deleteUnit" | "listUnits">;
}

/** The IdentityStore on `driver`. */
export function sqlIdentity(driver: Database): IdentityStore {
  return { ...deploymentVerbs(driver), ...keyVerbs(driver), ...unitVerbs(driver), ...userVerbs(driver) };
}

// ----------------------------------------------------------------------- rows

function toGrants(rows: readonly SqlRow[]): KeyGrants | null {
  const part = (number: number): readonly SqlRow[] => rows.filter((row) => row.part === number);
  const [found] = part(1);
  if (!found) return null;
  const { part: _, parent, name, ...key } = found;
  const named = ({
    id,
    name,
    created_at,
  }: SqlRow): Pick<WorkspaceRow, "id" | "name" | "created_at" | "deleted_at"> => ({
    id: id as string,
    name: name as string,
    created_at: created_at as number,
    deleted_at: null,
  });
  return {
    key: toKey({ ...key, organization_id: parent as string, short_key: name as string }),
    memberships: part(2).map((row) => toMembership(row.id, row.parent, row.name)),
    workspaces: part(3).map((row) => ({ ...named(row), organization_id: row.parent as string })),
    projects: part(4).map((row) => ({ ...named(row), workspace_id: row.parent as string })),
  };
}

/** For tables whose columns are the members of the row. */
const asIs = <Row>(row: SqlRow): Row => row as unknown as Row;
const toKey = asIs<ApiKeyRow>;

const toColumns = (membership: MembershipRow): Tables["memberships"] => ({
  ...membership,
  permissions: JSON.stringify(membership.permissions),
});

/** Ignores permissions that only a later release knows. */
function toMembership(subject_id: unknown, scope_id: unknown, permissions: unknown): MembershipRow {
  const known = (JSON.parse(String(permissions)) as readonly string[]).filter((permission): permission is Permission =>
    (PERMISSIONS as readonly string[]).includes(permission),
  );
  return { subject_id: String(subject_id), scope_id: String(scope_id), permissions: known };
}
