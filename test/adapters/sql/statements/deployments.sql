-- insertMissingOrganization
-- (id text, now bigint, owner text, name text, owner text)
insert into "organizations" ("id", "name", "created_at") select ?, 'Default', ? where not exists (select 1 from organizations) and (? is null or exists (select 1 from deployments where name = ?)
    or exists (select 1 from users where id = ? and deleted_at is null)) on conflict do nothing
--   SCALAR SUBQUERY
--     SCAN organizations USING COVERING INDEX sqlite_autoindex_organizations_2
--   SCALAR SUBQUERY
--     SEARCH deployments USING COVERING INDEX sqlite_autoindex_deployments_1 (name=?)
--   SCALAR SUBQUERY
--     SEARCH users USING INDEX sqlite_autoindex_users_1 (id=?)
--   SEARCH api_keys USING COVERING INDEX api_keys_short (organization_id=?)
--   SCAN workspaces

-- insertMissingProject ({"workspace":false,"project":false})
-- (id text, name text, project text, now bigint, name text, name text, name text, owner text, name text, owner text)
insert into "projects" ("id", "workspace_id", "name", "created_at") select ?, coalesce((select w.id from projects p join workspaces w on w.id = p.workspace_id
    where p.deleted_at is null and w.deleted_at is null
      and p.id = (select project_id from deployments where name = ?)), (select id from workspaces where organization_id = (select id from organizations order by created_at, id limit 1)
  and deleted_at is null order by created_at, id limit 1)), ?, ? where coalesce((select w.id from projects p join workspaces w on w.id = p.workspace_id
    where p.deleted_at is null and w.deleted_at is null
      and p.id = (select project_id from deployments where name = ?)), (select id from workspaces where organization_id = (select id from organizations order by created_at, id limit 1)
  and deleted_at is null order by created_at, id limit 1)) is not null and (select id from projects where workspace_id = coalesce((select w.id from projects p join workspaces w on w.id = p.workspace_id
    where p.deleted_at is null and w.deleted_at is null
      and p.id = (select project_id from deployments where name = ?)), (select id from workspaces where organization_id = (select id from organizations order by created_at, id limit 1)
  and deleted_at is null order by created_at, id limit 1)) and deleted_at is null order by case when id = (select project_id from deployments where name = ?) then 0 else 1 end, created_at, id limit 1) is null and (? is null or exists (select 1 from deployments where name = ?)
    or exists (select 1 from users where id = ? and deleted_at is null)) on conflict do nothing
--   SCALAR SUBQUERY
--     SEARCH p USING INDEX sqlite_autoindex_projects_1 (id=?)
--     SCALAR SUBQUERY
--       SEARCH deployments USING INDEX sqlite_autoindex_deployments_1 (name=?)
--     SEARCH w USING INDEX sqlite_autoindex_workspaces_1 (id=?)
--   SCALAR SUBQUERY
--     SEARCH workspaces USING INDEX workspaces_name (organization_id=?)
--     SCALAR SUBQUERY
--       SCAN organizations
--       USE TEMP B-TREE FOR ORDER BY
--     USE TEMP B-TREE FOR ORDER BY
--   SCALAR SUBQUERY
--     SEARCH projects USING INDEX projects_name (workspace_id=?)
--     SCALAR SUBQUERY
--       SEARCH p USING INDEX sqlite_autoindex_projects_1 (id=?)
--       SCALAR SUBQUERY
--         SEARCH deployments USING INDEX sqlite_autoindex_deployments_1 (name=?)
--       SEARCH w USING INDEX sqlite_autoindex_workspaces_1 (id=?)
--     SCALAR SUBQUERY
--       SEARCH workspaces USING INDEX workspaces_name (organization_id=?)
--       SCALAR SUBQUERY
--         SCAN organizations
--         USE TEMP B-TREE FOR ORDER BY
--       USE TEMP B-TREE FOR ORDER BY
--     SCALAR SUBQUERY
--       SEARCH deployments USING INDEX sqlite_autoindex_deployments_1 (name=?)
--     USE TEMP B-TREE FOR ORDER BY
--   SCALAR SUBQUERY
--     SEARCH deployments USING COVERING INDEX sqlite_autoindex_deployments_1 (name=?)
--   SCALAR SUBQUERY
--     SEARCH users USING INDEX sqlite_autoindex_users_1 (id=?)
--   SCALAR SUBQUERY
--     SEARCH p USING INDEX sqlite_autoindex_projects_1 (id=?)
--     SCALAR SUBQUERY
--       SEARCH deployments USING INDEX sqlite_autoindex_deployments_1 (name=?)
--     SEARCH w USING INDEX sqlite_autoindex_workspaces_1 (id=?)
--   SCALAR SUBQUERY
--     SEARCH workspaces USING INDEX workspaces_name (organization_id=?)
--     SCALAR SUBQUERY
--       SCAN organizations
--       USE TEMP B-TREE FOR ORDER BY
--     USE TEMP B-TREE FOR ORDER BY
--   SCAN deployments

-- insertMissingProject ({"workspace":true,"project":true})
-- (id text, workspace_id text, workspace text, workspace_id text, project text, now bigint, workspace_id text, workspace text, workspace_id text, workspace_id text, workspace text, workspace_id text, project_id text, project text, project_id text, owner text, name text, owner text)
insert into "projects" ("id", "workspace_id", "name", "created_at") select ?, (select id from workspaces where deleted_at is null
      and (id = ? or (name = ? and organization_id = (select id from organizations order by created_at, id limit 1)))
      order by case when id = ? then 0 else 1 end limit 1), ?, ? where (select id from workspaces where deleted_at is null
      and (id = ? or (name = ? and organization_id = (select id from organizations order by created_at, id limit 1)))
      order by case when id = ? then 0 else 1 end limit 1) is not null and (select id from projects where workspace_id = (select id from workspaces where deleted_at is null
      and (id = ? or (name = ? and organization_id = (select id from organizations order by created_at, id limit 1)))
      order by case when id = ? then 0 else 1 end limit 1) and deleted_at is null and (id = ? or name = ?)
    order by case when id = ? then 0 else 1 end limit 1) is null and (? is null or exists (select 1 from deployments where name = ?)
    or exists (select 1 from users where id = ? and deleted_at is null)) on conflict do nothing
--   SCALAR SUBQUERY
--     SCAN workspaces USING INDEX workspaces_name
--     SCALAR SUBQUERY
--       SCAN organizations
--       USE TEMP B-TREE FOR ORDER BY
--     USE TEMP B-TREE FOR ORDER BY
--   SCALAR SUBQUERY
--     SEARCH projects USING INDEX projects_name (workspace_id=?)
--     SCALAR SUBQUERY
--       SCAN workspaces USING INDEX workspaces_name
--       SCALAR SUBQUERY
--         SCAN organizations
--         USE TEMP B-TREE FOR ORDER BY
--       USE TEMP B-TREE FOR ORDER BY
--     USE TEMP B-TREE FOR ORDER BY
--   SCALAR SUBQUERY
--     SEARCH deployments USING COVERING INDEX sqlite_autoindex_deployments_1 (name=?)
--   SCALAR SUBQUERY
--     SEARCH users USING INDEX sqlite_autoindex_users_1 (id=?)
--   SCALAR SUBQUERY
--     SCAN workspaces USING INDEX workspaces_name
--     SCALAR SUBQUERY
--       SCAN organizations
--       USE TEMP B-TREE FOR ORDER BY
--     USE TEMP B-TREE FOR ORDER BY
--   SCAN deployments

-- insertMissingWorkspace ({"workspace":false,"project":false})
-- (id text, workspace text, now bigint, name text, owner text, name text, owner text)
insert into "workspaces" ("id", "organization_id", "name", "created_at") select ?, (select id from organizations order by created_at, id limit 1), ?, ? where coalesce((select w.id from projects p join workspaces w on w.id = p.workspace_id
    where p.deleted_at is null and w.deleted_at is null
      and p.id = (select project_id from deployments where name = ?)), (select id from workspaces where organization_id = (select id from organizations order by created_at, id limit 1)
  and deleted_at is null order by created_at, id limit 1)) is null and (? is null or exists (select 1 from deployments where name = ?)
    or exists (select 1 from users where id = ? and deleted_at is null)) on conflict do nothing
--   SCALAR SUBQUERY
--     SEARCH p USING INDEX sqlite_autoindex_projects_1 (id=?)
--     SCALAR SUBQUERY
--       SEARCH deployments USING INDEX sqlite_autoindex_deployments_1 (name=?)
--     SEARCH w USING INDEX sqlite_autoindex_workspaces_1 (id=?)
--   SCALAR SUBQUERY
--     SEARCH workspaces USING INDEX workspaces_name (organization_id=?)
--     SCALAR SUBQUERY
--       SCAN organizations
--       USE TEMP B-TREE FOR ORDER BY
--     USE TEMP B-TREE FOR ORDER BY
--   SCALAR SUBQUERY
--     SEARCH deployments USING COVERING INDEX sqlite_autoindex_deployments_1 (name=?)
--   SCALAR SUBQUERY
--     SEARCH users USING INDEX sqlite_autoindex_users_1 (id=?)
--   SCALAR SUBQUERY
--     SCAN organizations
--     USE TEMP B-TREE FOR ORDER BY
--   SCAN projects

-- insertMissingWorkspace ({"workspace":true,"project":true})
-- (id text, workspace text, now bigint, workspace_id text, workspace text, workspace_id text, owner text, name text, owner text)
insert into "workspaces" ("id", "organization_id", "name", "created_at") select ?, (select id from organizations order by created_at, id limit 1), ?, ? where (select id from workspaces where deleted_at is null
      and (id = ? or (name = ? and organization_id = (select id from organizations order by created_at, id limit 1)))
      order by case when id = ? then 0 else 1 end limit 1) is null and (? is null or exists (select 1 from deployments where name = ?)
    or exists (select 1 from users where id = ? and deleted_at is null)) on conflict do nothing
--   SCALAR SUBQUERY
--     SCAN workspaces USING INDEX workspaces_name
--     SCALAR SUBQUERY
--       SCAN organizations
--       USE TEMP B-TREE FOR ORDER BY
--     USE TEMP B-TREE FOR ORDER BY
--   SCALAR SUBQUERY
--     SEARCH deployments USING COVERING INDEX sqlite_autoindex_deployments_1 (name=?)
--   SCALAR SUBQUERY
--     SEARCH users USING INDEX sqlite_autoindex_users_1 (id=?)
--   SCALAR SUBQUERY
--     SCAN organizations
--     USE TEMP B-TREE FOR ORDER BY
--   SCAN projects

-- selectDefaults
select "o"."id" as "organization_id", "o"."name" as "organization_name", "o"."created_at" as "organization_created", "w"."id" as "workspace_id", "w"."name" as "workspace_name", "w"."created_at" as "workspace_created", "p"."id", "p"."name", "p"."created_at" from "organizations" as "o" inner join "workspaces" as "w" on "w"."organization_id" = "o"."id" inner join "projects" as "p" on "p"."workspace_id" = "w"."id" where "o"."id" = (select id from organizations order by created_at, id limit 1) and "w"."id" = (select id from workspaces where organization_id = (select id from organizations order by created_at, id limit 1)
  and deleted_at is null order by created_at, id limit 1) and "p"."deleted_at" is null order by "p"."created_at", "p"."id" limit 1
--   SEARCH w USING INDEX sqlite_autoindex_workspaces_1 (id=?)
--   SCALAR SUBQUERY
--     SEARCH workspaces USING INDEX workspaces_name (organization_id=?)
--     SCALAR SUBQUERY
--       SCAN organizations
--       USE TEMP B-TREE FOR ORDER BY
--     USE TEMP B-TREE FOR ORDER BY
--   SCALAR SUBQUERY
--     SCAN organizations
--     USE TEMP B-TREE FOR ORDER BY
--   SEARCH o USING INDEX sqlite_autoindex_organizations_1 (id=?)
--   SEARCH p USING INDEX projects_name (workspace_id=?)
--   REUSE SUBQUERY
--   USE TEMP B-TREE FOR ORDER BY

-- selectDeployment
-- (name text)
select "d"."name", "d"."project_id", "p"."workspace_id", "w"."organization_id", "d"."owner_user_id", "d"."shared" from "deployments" as "d" inner join "projects" as "p" on "p"."id" = "d"."project_id" inner join "workspaces" as "w" on "w"."id" = "p"."workspace_id" where "d"."name" = ?
--   SEARCH d USING INDEX sqlite_autoindex_deployments_1 (name=?)
--   SEARCH p USING INDEX sqlite_autoindex_projects_1 (id=?)
--   SEARCH w USING INDEX sqlite_autoindex_workspaces_1 (id=?)

-- selectDeployments
-- (organization_id text)
select "d"."name", "d"."project_id", "p"."workspace_id", "w"."organization_id", "d"."owner_user_id", "d"."shared" from "deployments" as "d" inner join "projects" as "p" on "p"."id" = "d"."project_id" inner join "workspaces" as "w" on "w"."id" = "p"."workspace_id" where "w"."organization_id" = ? order by "d"."name"
--   SCAN d USING INDEX sqlite_autoindex_deployments_1
--   SEARCH p USING INDEX sqlite_autoindex_projects_1 (id=?)
--   SEARCH w USING INDEX sqlite_autoindex_workspaces_1 (id=?)

-- selectPlacedDeployment ({"workspace":false,"project":false})
-- (name text, name text, name text)
select "d"."name", "d"."project_id", "p"."workspace_id", "w"."organization_id", "d"."owner_user_id", "d"."shared" from "deployments" as "d" inner join "projects" as "p" on "p"."id" = "d"."project_id" inner join "workspaces" as "w" on "w"."id" = "p"."workspace_id" where "d"."name" = ? and "d"."project_id" = (select id from projects where workspace_id = coalesce((select w.id from projects p join workspaces w on w.id = p.workspace_id
    where p.deleted_at is null and w.deleted_at is null
      and p.id = (select project_id from deployments where name = ?)), (select id from workspaces where organization_id = (select id from organizations order by created_at, id limit 1)
  and deleted_at is null order by created_at, id limit 1)) and deleted_at is null order by case when id = (select project_id from deployments where name = ?) then 0 else 1 end, created_at, id limit 1)
--   SEARCH d USING INDEX sqlite_autoindex_deployments_1 (name=?)
--   SCALAR SUBQUERY
--     SEARCH projects USING INDEX projects_name (workspace_id=?)
--     SCALAR SUBQUERY
--       SEARCH p USING INDEX sqlite_autoindex_projects_1 (id=?)
--       SCALAR SUBQUERY
--         SEARCH deployments USING INDEX sqlite_autoindex_deployments_1 (name=?)
--       SEARCH w USING INDEX sqlite_autoindex_workspaces_1 (id=?)
--     SCALAR SUBQUERY
--       SEARCH workspaces USING INDEX workspaces_name (organization_id=?)
--       SCALAR SUBQUERY
--         SCAN organizations
--         USE TEMP B-TREE FOR ORDER BY
--       USE TEMP B-TREE FOR ORDER BY
--     SCALAR SUBQUERY
--       SEARCH deployments USING INDEX sqlite_autoindex_deployments_1 (name=?)
--     USE TEMP B-TREE FOR ORDER BY
--   SEARCH p USING INDEX sqlite_autoindex_projects_1 (id=?)
--   REUSE SUBQUERY
--   SEARCH w USING INDEX sqlite_autoindex_workspaces_1 (id=?)

-- selectPlacedDeployment ({"workspace":true,"project":true})
-- (name text, workspace_id text, workspace text, workspace_id text, project_id text, project text, project_id text)
select "d"."name", "d"."project_id", "p"."workspace_id", "w"."organization_id", "d"."owner_user_id", "d"."shared" from "deployments" as "d" inner join "projects" as "p" on "p"."id" = "d"."project_id" inner join "workspaces" as "w" on "w"."id" = "p"."workspace_id" where "d"."name" = ? and "d"."project_id" = (select id from projects where workspace_id = (select id from workspaces where deleted_at is null
      and (id = ? or (name = ? and organization_id = (select id from organizations order by created_at, id limit 1)))
      order by case when id = ? then 0 else 1 end limit 1) and deleted_at is null and (id = ? or name = ?)
    order by case when id = ? then 0 else 1 end limit 1)
--   SEARCH d USING INDEX sqlite_autoindex_deployments_1 (name=?)
--   SCALAR SUBQUERY
--     SEARCH projects USING INDEX projects_name (workspace_id=?)
--     SCALAR SUBQUERY
--       SCAN workspaces USING INDEX workspaces_name
--       SCALAR SUBQUERY
--         SCAN organizations
--         USE TEMP B-TREE FOR ORDER BY
--       USE TEMP B-TREE FOR ORDER BY
--     USE TEMP B-TREE FOR ORDER BY
--   SEARCH p USING INDEX sqlite_autoindex_projects_1 (id=?)
--   REUSE SUBQUERY
--   SEARCH w USING INDEX sqlite_autoindex_workspaces_1 (id=?)

-- updateDeployment
-- (changes_owner bigint, owner text, changes_shared bigint, shared bigint, name text, owner text, owner text)
update "deployments" set "owner_user_id" = case when ? = 1 then ? else owner_user_id end, "shared" = case when ? = 1 then ? else shared end where "name" = ? and (? is null or exists (select 1 from users where id = ? and deleted_at is null)) returning "name"
--   SEARCH deployments USING INDEX sqlite_autoindex_deployments_1 (name=?)
--   SCALAR SUBQUERY
--     SEARCH users USING INDEX sqlite_autoindex_users_1 (id=?)

-- upsertDeployment ({"workspace":false,"project":false})
-- (name text, name text, name text, owner text, shared bigint, name text, name text, owner text, name text, owner text)
insert into "deployments" ("name", "project_id", "owner_user_id", "shared") select ?, (select id from projects where workspace_id = coalesce((select w.id from projects p join workspaces w on w.id = p.workspace_id
    where p.deleted_at is null and w.deleted_at is null
      and p.id = (select project_id from deployments where name = ?)), (select id from workspaces where organization_id = (select id from organizations order by created_at, id limit 1)
  and deleted_at is null order by created_at, id limit 1)) and deleted_at is null order by case when id = (select project_id from deployments where name = ?) then 0 else 1 end, created_at, id limit 1), ?, ? where (select id from projects where workspace_id = coalesce((select w.id from projects p join workspaces w on w.id = p.workspace_id
    where p.deleted_at is null and w.deleted_at is null
      and p.id = (select project_id from deployments where name = ?)), (select id from workspaces where organization_id = (select id from organizations order by created_at, id limit 1)
  and deleted_at is null order by created_at, id limit 1)) and deleted_at is null order by case when id = (select project_id from deployments where name = ?) then 0 else 1 end, created_at, id limit 1) is not null and (? is null or exists (select 1 from deployments where name = ?)
    or exists (select 1 from users where id = ? and deleted_at is null)) on conflict ("name") do update set "project_id" = excluded.project_id where "deployments"."project_id" <> excluded.project_id
--   SCALAR SUBQUERY
--     SEARCH projects USING INDEX projects_name (workspace_id=?)
--     SCALAR SUBQUERY
--       SEARCH p USING INDEX sqlite_autoindex_projects_1 (id=?)
--       SCALAR SUBQUERY
--         SEARCH deployments USING INDEX sqlite_autoindex_deployments_1 (name=?)
--       SEARCH w USING INDEX sqlite_autoindex_workspaces_1 (id=?)
--     SCALAR SUBQUERY
--       SEARCH workspaces USING INDEX workspaces_name (organization_id=?)
--       SCALAR SUBQUERY
--         SCAN organizations
--         USE TEMP B-TREE FOR ORDER BY
--       USE TEMP B-TREE FOR ORDER BY
--     SCALAR SUBQUERY
--       SEARCH deployments USING INDEX sqlite_autoindex_deployments_1 (name=?)
--     USE TEMP B-TREE FOR ORDER BY
--   SCALAR SUBQUERY
--     SEARCH deployments USING COVERING INDEX sqlite_autoindex_deployments_1 (name=?)
--   SCALAR SUBQUERY
--     SEARCH users USING INDEX sqlite_autoindex_users_1 (id=?)
--   SCALAR SUBQUERY
--     SEARCH projects USING INDEX projects_name (workspace_id=?)
--     SCALAR SUBQUERY
--       SEARCH p USING INDEX sqlite_autoindex_projects_1 (id=?)
--       SCALAR SUBQUERY
--         SEARCH deployments USING INDEX sqlite_autoindex_deployments_1 (name=?)
--       SEARCH w USING INDEX sqlite_autoindex_workspaces_1 (id=?)
--     SCALAR SUBQUERY
--       SEARCH workspaces USING INDEX workspaces_name (organization_id=?)
--       SCALAR SUBQUERY
--         SCAN organizations
--         USE TEMP B-TREE FOR ORDER BY
--       USE TEMP B-TREE FOR ORDER BY
--     SCALAR SUBQUERY
--       SEARCH deployments USING INDEX sqlite_autoindex_deployments_1 (name=?)
--     USE TEMP B-TREE FOR ORDER BY

-- upsertDeployment ({"workspace":true,"project":true})
-- (name text, workspace_id text, workspace text, workspace_id text, project_id text, project text, project_id text, owner text, shared bigint, workspace_id text, workspace text, workspace_id text, project_id text, project text, project_id text, owner text, name text, owner text)
insert into "deployments" ("name", "project_id", "owner_user_id", "shared") select ?, (select id from projects where workspace_id = (select id from workspaces where deleted_at is null
      and (id = ? or (name = ? and organization_id = (select id from organizations order by created_at, id limit 1)))
      order by case when id = ? then 0 else 1 end limit 1) and deleted_at is null and (id = ? or name = ?)
    order by case when id = ? then 0 else 1 end limit 1), ?, ? where (select id from projects where workspace_id = (select id from workspaces where deleted_at is null
      and (id = ? or (name = ? and organization_id = (select id from organizations order by created_at, id limit 1)))
      order by case when id = ? then 0 else 1 end limit 1) and deleted_at is null and (id = ? or name = ?)
    order by case when id = ? then 0 else 1 end limit 1) is not null and (? is null or exists (select 1 from deployments where name = ?)
    or exists (select 1 from users where id = ? and deleted_at is null)) on conflict ("name") do update set "project_id" = excluded.project_id where "deployments"."project_id" <> excluded.project_id
--   SCALAR SUBQUERY
--     SEARCH projects USING INDEX projects_name (workspace_id=?)
--     SCALAR SUBQUERY
--       SCAN workspaces USING INDEX workspaces_name
--       SCALAR SUBQUERY
--         SCAN organizations
--         USE TEMP B-TREE FOR ORDER BY
--       USE TEMP B-TREE FOR ORDER BY
--     USE TEMP B-TREE FOR ORDER BY
--   SCALAR SUBQUERY
--     SEARCH deployments USING COVERING INDEX sqlite_autoindex_deployments_1 (name=?)
--   SCALAR SUBQUERY
--     SEARCH users USING INDEX sqlite_autoindex_users_1 (id=?)
--   SCALAR SUBQUERY
--     SEARCH projects USING INDEX projects_name (workspace_id=?)
--     SCALAR SUBQUERY
--       SCAN workspaces USING INDEX workspaces_name
--       SCALAR SUBQUERY
--         SCAN organizations
--         USE TEMP B-TREE FOR ORDER BY
--       USE TEMP B-TREE FOR ORDER BY
--     USE TEMP B-TREE FOR ORDER BY
