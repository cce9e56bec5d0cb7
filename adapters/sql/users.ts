/** Users, and the names that reports show. */
import type { IdentityStore, UserRow } from "../../lib/storage/identity.ts";
import { each } from "./dialect.ts";
import type { SqlRow } from "./driver.ts";
import type { Tables } from "./schema/tables.ts";
import { type Database, prepared, readAll, readOne } from "./statement.ts";
import { type RawBuilder, sql } from "./template.ts";

type Id = { id: string };

const insertUser = prepared<Pick<Tables["users"], keyof UserRow>>(
  (p) =>
    sql`insert into users (id, email, name, created_at, deleted_at)
    values (${p.id}, ${p.email}, ${p.name}, ${p.created_at}, ${p.deleted_at}) on conflict do nothing returning *`,
);

const deleteUser = prepared<Id & { now: number }>(
  (p) => sql`update users set deleted_at = ${p.now} where id = ${p.id} and deleted_at is null returning *`,
);

const revokeTokensOf = prepared<Id & { now: number }>(
  (p) => sql`update api_keys set revoked_at = ${p.now} where user_id = ${p.id} and revoked_at is null`,
);

const deleteMembershipsOf = prepared<Id>(
  (p) =>
    sql`delete from memberships where subject_id = ${p.id}
  and subject_id in (select id from users)`,
);

const getUser = prepared<{ user: string }>(
  (p) =>
    sql`select * from users where (id = ${p.user} or email = ${p.user}) and deleted_at is null
    order by case when id = ${p.user} then 0 else 1 end limit 1`,
);

type Known = { workspace_id: string; identity: string };

const isKnown = (p: Known): RawBuilder<boolean> =>
  sql<boolean>`workspace_id = ${p.workspace_id} and identity = ${p.identity} and deleted_at is null`;

const getKnown = prepared<Known>((p) => sql`select id, email from users where ${isKnown(p)}`);

const insertKnown = prepared<Known & { id: string; now: number }>(
  (p) =>
    sql`insert into users (id, email, name, created_at, deleted_at, workspace_id, identity)
    values (${p.id}, null, null, ${p.now}, null, ${p.workspace_id}, ${p.identity}) on conflict do nothing`,
);

const tellEmail = prepared<Known & { email: string }>(
  (p) =>
    sql`update users set email = ${p.email} where ${isKnown(p)} and not exists (select 1 from users other
    where other.email = ${p.email} and other.deleted_at is null)`,
);

const listUsers = prepared<{ organization_id: string }>(
  (p) =>
    sql`select * from users where deleted_at is null and id in (
      select subject_id from memberships where scope_id = ${p.organization_id} or scope_id in
        (select id from workspaces where organization_id = ${p.organization_id} and deleted_at is null))
    order by case when email is null then 1 else 0 end, email, id`,
);

const names = prepared<{ workspaces: string; projects: string; users: string }>(
  (p) =>
    sql`select 'workspace' as kind, id, name from workspaces where id in ${each(p.workspaces)}
    union all select 'project', id, name from projects where id in ${each(p.projects)}
    union all select 'user', id, email from users where id in ${each(p.users)}`,
);

type UserVerbs = Pick<IdentityStore, "createUser" | "deleteUser" | "getUser" | "ensureUser" | "listUsers" | "names">;

/** The verbs on users. */
export function userVerbs(driver: Database): UserVerbs {
  return {
    /**
     * @statements insertUser
     * @guards insert, `on conflict do nothing`.
     */
    async createUser(user) {
      const [made] = await driver.batch([insertUser({ ...user })]);
      return made?.[0] ? { kind: "made", row: toUser(made[0]) } : { kind: "name_taken" };
    },

    /**
     * @statements deleteUser · revokeTokensOf · deleteMembershipsOf
     * @guards soft delete · revoke tokens · delete memberships.
     */
    async deleteUser(id, now) {
      const [deleted] = await driver.batch([
        deleteUser({ id, now }),
        revokeTokensOf({ id, now }),
        deleteMembershipsOf({ id }),
      ]);
      return deleted?.[0] ? toUser(deleted[0]) : null;
    },

    /** @statements getUser */
    getUser: (user) => readOne(driver, getUser({ user }), toUser),

    /**
     * @statements getKnown · insertKnown · tellEmail
     * @guards read · insert where unknown · set the email if it is free · select.
     */
    async ensureUser({ workspace_id, identity, email }, now) {
      const key = { workspace_id, identity };
      const [known] = await driver.read(getKnown(key));
      if (known && (email === undefined || email === known.email)) return known.id as string;
      const results = await driver.batch([
        insertKnown({ ...key, id: crypto.randomUUID(), now }),
        ...(email === undefined ? [] : [tellEmail({ ...key, email })]),
        getKnown(key),
      ]);
      return results.at(-1)?.[0]?.id as string;
    },

    /** @statements listUsers */
    listUsers: (organization_id) => readAll(driver, listUsers({ organization_id }), toUser),

    /** @statements names */
    async names(of) {
      const rows = await driver.read(
        names({
          workspaces: JSON.stringify(of.workspaces ?? []),
          projects: JSON.stringify(of.projects ?? []),
          users: JSON.stringify(of.users ?? []),
        }),
      );
      const those = <Name>(kind: string): ReadonlyMap<string, Name> =>
        new Map(rows.filter((row) => row.kind === kind).map(({ id, name }) => [id as string, name as Name]));
      return { workspaces: those("workspace"), projects: those("project"), users: those("user") };
    },
  };
}

function toUser(row: SqlRow): UserRow {
  const { id, email, name, created_at, deleted_at } = row as unknown as UserRow;
  return { id, email, name, created_at, deleted_at };
}
