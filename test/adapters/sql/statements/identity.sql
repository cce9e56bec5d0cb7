-- deleteMembership
-- (subject_id text, scope_id text)
delete from "memberships" where "subject_id" = ? and "scope_id" = ?
--   SEARCH memberships USING INDEX sqlite_autoindex_memberships_1 (subject_id=? AND scope_id=?)

-- deleteProjectsOfWorkspace
-- (now bigint, id text)
update "projects" set "deleted_at" = ? where "workspace_id" = ? and "deleted_at" is null
--   SEARCH projects USING INDEX projects_name (workspace_id=?)

-- deleteUnit ({"kind":"workspace"})
-- (now bigint, id text)
update "workspaces" set deleted_at = ? where id = ? and deleted_at is null
      returning *
--   SEARCH workspaces USING INDEX sqlite_autoindex_workspaces_1 (id=?)

-- deleteUnit ({"kind":"project"})
-- (now bigint, id text)
update "projects" set deleted_at = ? where id = ? and deleted_at is null
      returning *
--   SEARCH projects USING INDEX sqlite_autoindex_projects_1 (id=?)

-- hasUnit ({"kind":"workspace"})
-- (id text)
select id from "workspaces" where id = ? and deleted_at is null
--   SEARCH workspaces USING INDEX sqlite_autoindex_workspaces_1 (id=?)

-- hasUnit ({"kind":"project"})
-- (id text)
select id from "projects" where id = ? and deleted_at is null
--   SEARCH projects USING INDEX sqlite_autoindex_projects_1 (id=?)

-- hasUnitParent ({"kind":"workspace"})
-- (id text)
select o.id from organizations o where o.id = ?
--   SEARCH o USING COVERING INDEX sqlite_autoindex_organizations_1 (id=?)

-- hasUnitParent ({"kind":"project"})
-- (id text)
select o.id from (select id from workspaces where deleted_at is null) o where o.id = ?
--   SEARCH workspaces USING INDEX sqlite_autoindex_workspaces_1 (id=?)

-- insertKey
-- (id text, organization_id text, user_id text, kind text, key_hash text, short_key text, description text, created_at bigint, expires_at bigint, revoked_at bigint, last_used_at bigint, organization_id text, user_id text, user_id text, scopes text, organization_id text, organization_id text)
insert into "api_keys" ("id", "organization_id", "user_id", "kind", "key_hash", "short_key", "description", "created_at", "expires_at", "revoked_at", "last_used_at") select ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? where exists (select 1 from organizations where id = ?)
      and (? is null or exists (select 1 from users where id = ? and deleted_at is null))
      and not exists (select 1 from (select value from json_each(?)) as scopes where scopes.value <> ?
        and scopes.value not in
          (select id from workspaces where organization_id = ? and deleted_at is null)) on conflict do nothing returning "id"
-- Postgres:
insert into "api_keys" ("id", "organization_id", "user_id", "kind", "key_hash", "short_key", "description", "created_at", "expires_at", "revoked_at", "last_used_at") select $1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::bigint, $9::bigint, $10::bigint, $11::bigint where exists (select 1 from organizations where id = $12::text)
      and ($13::text is null or exists (select 1 from users where id = $14::text and deleted_at is null))
      and not exists (select 1 from (select value collate "C" as value from json_array_elements_text($15::text::json)) as scopes where scopes.value <> $16::text
        and scopes.value not in
          (select id from workspaces where organization_id = $17::text and deleted_at is null)) on conflict do nothing returning "id"
--   SEARCH organizations EXISTS USING COVERING INDEX sqlite_autoindex_organizations_1 (id=?)
--   SCALAR SUBQUERY
--     SEARCH users USING INDEX sqlite_autoindex_users_1 (id=?)
--   SCALAR SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     LIST SUBQUERY
--       SEARCH workspaces USING INDEX workspaces_name (organization_id=?)
--       CREATE BLOOM FILTER

-- insertKeyGrant
-- (scope_id text, permissions text, subject_id text, key_hash text)
insert into memberships (subject_id, scope_id, permissions)
    select id, ?, ? from api_keys where id = ? and key_hash = ?
    on conflict do nothing
--   SEARCH api_keys USING INDEX sqlite_autoindex_api_keys_2 (key_hash=?)

-- insertUnit ({"kind":"workspace"})
-- (id text, name text, created_at bigint, deleted_at bigint, parent text)
insert into "workspaces" (id, "organization_id", name, created_at, deleted_at)
      select ?, o.id, ?, ?, ? from organizations o where o.id = ?
      on conflict do nothing returning *
--   SEARCH o USING COVERING INDEX sqlite_autoindex_organizations_1 (id=?)
--   SCAN projects

-- insertUnit ({"kind":"project"})
-- (id text, name text, created_at bigint, deleted_at bigint, parent text)
insert into "projects" (id, "workspace_id", name, created_at, deleted_at)
      select ?, o.id, ?, ?, ? from (select id from workspaces where deleted_at is null) o where o.id = ?
      on conflict do nothing returning *
--   SEARCH workspaces USING INDEX sqlite_autoindex_workspaces_1 (id=?)
--   SCAN deployments

-- isShortKeyTaken
-- (organization_id text, short_key text)
select "id" from "api_keys" where "organization_id" = ? and "short_key" = ?
--   SEARCH api_keys USING INDEX api_keys_short (organization_id=? AND short_key=?)

-- renameUnit ({"kind":"workspace"})
-- (name text, id text, name text)
update "workspaces" set name = ? where id = ? and deleted_at is null
      and not exists (select 1 from "workspaces" other where other."organization_id" = "workspaces"."organization_id"
        and other.name = ? and other.id <> "workspaces".id and other.deleted_at is null)
      returning *
--   SEARCH workspaces USING INDEX sqlite_autoindex_workspaces_1 (id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH other USING INDEX workspaces_name (organization_id=? AND name=?)

-- renameUnit ({"kind":"project"})
-- (name text, id text, name text)
update "projects" set name = ? where id = ? and deleted_at is null
      and not exists (select 1 from "projects" other where other."workspace_id" = "projects"."workspace_id"
        and other.name = ? and other.id <> "projects".id and other.deleted_at is null)
      returning *
--   SEARCH projects USING INDEX sqlite_autoindex_projects_1 (id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH other USING INDEX projects_name (workspace_id=? AND name=?)

-- revokeKey
-- (now bigint, organization_id text, key text, key text)
update "api_keys" set "revoked_at" = coalesce(revoked_at, ?) where "organization_id" = ? and ("id" = ? or "short_key" = ?) returning *
--   MULTI-INDEX OR
--     INDEX 1
--       SEARCH api_keys USING INDEX sqlite_autoindex_api_keys_1 (id=?)
--     INDEX 2
--       SEARCH api_keys USING INDEX api_keys_short (organization_id=? AND short_key=?)

-- selectKeyParts
-- (key_hash text)
with found as (
      select * from api_keys k where k.key_hash = ? and (k.user_id is null
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
    order by 1, 5, 2
--   MERGE (UNION ALL)
--     LEFT
--       MERGE (UNION ALL)
--         LEFT
--           SEARCH k USING INDEX sqlite_autoindex_api_keys_2 (key_hash=?)
--           CORRELATED SCALAR SUBQUERY
--             SEARCH u USING INDEX sqlite_autoindex_users_1 (id=?)
--         RIGHT
--           SEARCH k USING INDEX sqlite_autoindex_api_keys_2 (key_hash=?)
--           CORRELATED SCALAR SUBQUERY
--             SEARCH u USING INDEX sqlite_autoindex_users_1 (id=?)
--           SEARCH m USING INDEX sqlite_autoindex_memberships_1 (subject_id=?)
--     RIGHT
--       MERGE (UNION ALL)
--         LEFT
--           SEARCH k USING INDEX sqlite_autoindex_api_keys_2 (key_hash=?)
--           CORRELATED SCALAR SUBQUERY
--             SEARCH u USING INDEX sqlite_autoindex_users_1 (id=?)
--           SEARCH w USING INDEX workspaces_name (organization_id=?)
--           USE TEMP B-TREE FOR LAST 2 TERMS OF ORDER BY
--         RIGHT
--           SEARCH k USING INDEX sqlite_autoindex_api_keys_2 (key_hash=?)
--           CORRELATED SCALAR SUBQUERY
--             SEARCH u USING INDEX sqlite_autoindex_users_1 (id=?)
--           SEARCH w USING INDEX workspaces_name (organization_id=?)
--           SEARCH p USING INDEX projects_name (workspace_id=?)
--           USE TEMP B-TREE FOR LAST 2 TERMS OF ORDER BY

-- selectKeys
-- (organization_id text, limit bigint)
select * from "api_keys" where "organization_id" = coalesce(?, organization_id) order by "created_at", "id" limit ?
--   SCAN api_keys
--   USE TEMP B-TREE FOR ORDER BY

-- selectMemberships
-- (subject_id text)
select * from "memberships" where "subject_id" = ? order by "scope_id"
--   SEARCH memberships USING INDEX sqlite_autoindex_memberships_1 (subject_id=?)

-- selectUnits ({"kind":"workspace"})
-- (parents text)
select * from "workspaces" where "organization_id" in (select value from json_each(?))
      and deleted_at is null order by name, id
-- Postgres:
select * from "workspaces" where "organization_id" in (select value collate "C" as value from json_array_elements_text($1::text::json))
      and deleted_at is null order by name, id
--   SEARCH workspaces USING INDEX workspaces_name (organization_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--   USE TEMP B-TREE FOR ORDER BY

-- selectUnits ({"kind":"project"})
-- (parents text)
select * from "projects" where "workspace_id" in (select value from json_each(?))
      and deleted_at is null order by name, id
-- Postgres:
select * from "projects" where "workspace_id" in (select value collate "C" as value from json_array_elements_text($1::text::json))
      and deleted_at is null order by name, id
--   SEARCH projects USING INDEX projects_name (workspace_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--   USE TEMP B-TREE FOR ORDER BY

-- touchKey
-- (now bigint, id text, before bigint)
update "api_keys" set "last_used_at" = ? where "id" = ? and ("last_used_at" is null or "last_used_at" <= ?)
--   SEARCH api_keys USING INDEX sqlite_autoindex_api_keys_1 (id=?)

-- upsertMembership
-- (subject_id text, scope_id text, permissions text)
insert into "memberships" ("subject_id", "scope_id", "permissions") values (?, ?, ?) on conflict ("subject_id", "scope_id") do update set "permissions" = excluded.permissions
