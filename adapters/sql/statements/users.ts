/** Statements on users, and on the names that reports show. */
import { type Expression, type RawBuilder, sql } from "kysely";
import { jsonStrings } from "../functions.ts";
import { bigint, columns, text } from "../parameters.ts";
import { createBuilder, query } from "../query.ts";
import { identityTables } from "../schema/identity.ts";
import type { CoreTables } from "../schema/tables.ts";

const db = createBuilder<CoreTables>();

const idTypes = { id: text };

/** The columns of a user that the interface of the storage shows. */
const USER_COLUMNS = ["id", "email", "name", "created_at", "deleted_at"] as const;

/** Inserts a user unless the id or the email is in use. Returns the user. */
export const insertUser = query(columns(identityTables.users, USER_COLUMNS), (p) =>
  db
    .insertInto("users")
    .values({ id: p.id, email: p.email, name: p.name, created_at: p.created_at, deleted_at: p.deleted_at })
    .onConflict((conflict) => conflict.doNothing())
    .returning(USER_COLUMNS),
);

/** Marks a user as deleted, and returns the user unless it was deleted before. */
export const deleteUser = query({ ...idTypes, now: bigint }, (p) =>
  db
    .updateTable("users")
    .set({ deleted_at: p.now })
    .where("id", "=", p.id)
    .where("deleted_at", "is", null)
    .returning(USER_COLUMNS),
);

/** Revokes the API keys of a user. */
export const revokeKeysOfUser = query({ ...idTypes, now: bigint }, (p) =>
  db.updateTable("api_keys").set({ revoked_at: p.now }).where("user_id", "=", p.id).where("revoked_at", "is", null),
);

/** Deletes the memberships of a user. A subject that is no user keeps its memberships. */
export const deleteMembershipsOfUser = query(idTypes, (p) =>
  db
    .deleteFrom("memberships")
    .where("subject_id", "=", p.id)
    .where("subject_id", "in", (users) => users.selectFrom("users").select("id")),
);

/** Selects a user by id or email. The id wins if both match. */
export const selectUser = query({ user: text }, (p) =>
  db
    .selectFrom("users")
    .select(USER_COLUMNS)
    .where((user) => user.or([user("id", "=", p.user), user("email", "=", p.user)]))
    .where("deleted_at", "is", null)
    .orderBy(sql`case when id = ${p.user} then 0 else 1 end`)
    .limit(sql.lit(1)),
);

/** A user that custom authentication knows by its identity in a workspace. */
const identityTypes = { workspace_id: text, identity: text };

const hasIdentity = (p: { readonly [Name in keyof typeof identityTypes]: Expression<string> }): RawBuilder<boolean> =>
  sql<boolean>`workspace_id = ${p.workspace_id} and identity = ${p.identity} and deleted_at is null`;

/** Selects a user by identity. */
export const selectUserByIdentity = query(identityTypes, (p) =>
  db.selectFrom("users").select(["id", "email"]).where(hasIdentity(p)),
);

/** Inserts a user with an identity unless there is one. */
export const insertUserWithIdentity = query({ ...identityTypes, id: text, now: bigint }, (p) =>
  db
    .insertInto("users")
    .values({
      id: p.id,
      email: null,
      name: null,
      created_at: p.now,
      deleted_at: null,
      workspace_id: p.workspace_id,
      identity: p.identity,
    })
    .onConflict((conflict) => conflict.doNothing()),
);

/** Sets the email of a user with an identity, unless another user has it. */
export const updateEmailByIdentity = query({ ...identityTypes, email: text }, (p) =>
  db
    .updateTable("users")
    .set({ email: p.email })
    .where(hasIdentity(p))
    .where(
      sql<boolean>`not exists (select 1 from users other where other.email = ${p.email} and other.deleted_at is null)`,
    ),
);

/** Selects the users with a membership in the organization or in one of its workspaces: by email, those without one last. */
export const selectUsers = query({ organization_id: text }, (p) =>
  db
    .selectFrom("users")
    .select(USER_COLUMNS)
    .where("deleted_at", "is", null)
    .where(sql<boolean>`id in (select subject_id from memberships where scope_id = ${p.organization_id} or scope_id in
      (select id from workspaces where organization_id = ${p.organization_id} and deleted_at is null))`)
    .orderBy(sql`case when email is null then 1 else 0 end`)
    .orderBy("email")
    .orderBy("id"),
);

/** Selects the names of workspaces and projects, and the emails of users. Each argument is a JSON list of ids. */
export const selectNames = query(
  { workspaces: text, projects: text, users: text },
  (p) =>
    sql<{ kind: "workspace" | "project" | "user"; id: string; name: string | null }>`
    select 'workspace' as kind, id, name from workspaces where id in ${jsonStrings(p.workspaces)}
    union all select 'project', id, name from projects where id in ${jsonStrings(p.projects)}
    union all select 'user', id, email from users where id in ${jsonStrings(p.users)}`,
);
