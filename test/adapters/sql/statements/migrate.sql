-- insertVersion
-- (version bigint)
insert into "greenroom_versions" ("version") values (?)

-- selectTableNames
select name from sqlite_master where type = 'table'
-- Postgres:
select tablename as name from pg_tables where schemaname = current_schema()
--   SCAN sqlite_master

-- selectVersion
select coalesce(max(version), 0) as "version" from "greenroom_versions"
--   SEARCH greenroom_versions
