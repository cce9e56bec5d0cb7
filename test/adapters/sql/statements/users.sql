-- deleteMembershipsOfUser
-- (id text)
delete from "memberships" where "subject_id" = ? and "subject_id" in (select "id" from "users")
--   SEARCH memberships USING COVERING INDEX sqlite_autoindex_memberships_1 (subject_id=?)
--   USING INDEX sqlite_autoindex_users_1 FOR IN-OPERATOR

-- deleteUser
-- (now bigint, id text)
update "users" set "deleted_at" = ? where "id" = ? and "deleted_at" is null returning "id", "email", "name", "created_at", "deleted_at"
--   SEARCH users USING INDEX sqlite_autoindex_users_1 (id=?)

-- insertUser
-- (id text, email text, name text, created_at bigint, deleted_at bigint)
insert into "users" ("id", "email", "name", "created_at", "deleted_at") values (?, ?, ?, ?, ?) on conflict do nothing returning "id", "email", "name", "created_at", "deleted_at"
--   SCAN api_keys
--   SCAN deployments

-- insertUserWithIdentity
-- (id text, now bigint, workspace_id text, identity text)
insert into "users" ("id", "email", "name", "created_at", "deleted_at", "workspace_id", "identity") values (?, ?, ?, ?, ?, ?, ?) on conflict do nothing
-- Postgres:
insert into "users" ("id", "email", "name", "created_at", "deleted_at", "workspace_id", "identity") values ($1::text, null, null, $2::bigint, null, $3::text, $4::text) on conflict do nothing

-- revokeKeysOfUser
-- (now bigint, id text)
update "api_keys" set "revoked_at" = ? where "user_id" = ? and "revoked_at" is null
--   SCAN api_keys

-- selectNames
-- (workspaces text, projects text, users text)

    select 'workspace' as kind, id, name from workspaces where id in (select value from json_each(?))
    union all select 'project', id, name from projects where id in (select value from json_each(?))
    union all select 'user', id, email from users where id in (select value from json_each(?))
-- Postgres:

    select 'workspace' as kind, id, name from workspaces where id in (select value collate "C" as value from json_array_elements_text($1::text::json))
    union all select 'project', id, name from projects where id in (select value collate "C" as value from json_array_elements_text($2::text::json))
    union all select 'user', id, email from users where id in (select value collate "C" as value from json_array_elements_text($3::text::json))
--   COMPOUND QUERY
--     LEFT-MOST SUBQUERY
--       SEARCH workspaces USING INDEX sqlite_autoindex_workspaces_1 (id=?)
--       LIST SUBQUERY
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--     UNION ALL
--       SEARCH projects USING INDEX sqlite_autoindex_projects_1 (id=?)
--       LIST SUBQUERY
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--     UNION ALL
--       SEARCH users USING INDEX sqlite_autoindex_users_1 (id=?)
--       LIST SUBQUERY
--         SCAN json_each VIRTUAL TABLE INDEX 1:

-- selectUser
-- (user text, user text, user text)
select "id", "email", "name", "created_at", "deleted_at" from "users" where ("id" = ? or "email" = ?) and "deleted_at" is null order by case when id = ? then 0 else 1 end limit 1
--   SCAN users
--   USE TEMP B-TREE FOR ORDER BY

-- selectUserByIdentity
-- (workspace_id text, identity text)
select "id", "email" from "users" where workspace_id = ? and identity = ? and deleted_at is null
--   SEARCH users USING INDEX users_identity (workspace_id=? AND identity=?)

-- selectUsers
-- (organization_id text, organization_id text)
select "id", "email", "name", "created_at", "deleted_at" from "users" where "deleted_at" is null and id in (select subject_id from memberships where scope_id = ? or scope_id in
      (select id from workspaces where organization_id = ? and deleted_at is null)) order by case when email is null then 1 else 0 end, "email", "id"
--   SEARCH users USING INDEX sqlite_autoindex_users_1 (id=?)
--   LIST SUBQUERY
--     MULTI-INDEX OR
--       INDEX 1
--         SEARCH memberships USING INDEX memberships_scope (scope_id=?)
--       INDEX 2
--         LIST SUBQUERY
--           SEARCH workspaces USING INDEX workspaces_name (organization_id=?)
--         SEARCH memberships USING INDEX memberships_scope (scope_id=?)
--   USE TEMP B-TREE FOR ORDER BY

-- updateEmailByIdentity
-- (email text, workspace_id text, identity text, email text)
update "users" set "email" = ? where workspace_id = ? and identity = ? and deleted_at is null and not exists (select 1 from users other where other.email = ? and other.deleted_at is null)
--   SEARCH users USING INDEX users_identity (workspace_id=? AND identity=?)
--   SCALAR SUBQUERY
--     SEARCH other USING INDEX users_email (email=?)
