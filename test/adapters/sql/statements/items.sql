-- assertItem
-- (deployment text, path text, key text, now bigint, expected text)
insert into assertions (holds) select 0 where not ((select value from store_items
      where deployment = ? and path = ? and key = ? and (expires_at is null or expires_at > ?))
      is not distinct from ?)
--   SCALAR SUBQUERY
--     SEARCH store_items USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND path=? AND key=?)

-- deleteExpiredItems
-- (deployment text, now bigint, deployment text, now bigint, limit bigint)
delete from store_items where deployment = (select ?) and expires_at <= (select ?)
    and (path, key) in (select i.path, i.key from store_items i
      where i.deployment = (select ?) and i.expires_at <= (select ?) order by i.expires_at limit (select ?))
    returning key
--   SEARCH store_items USING INDEX store_items_expiry (deployment=? AND expires_at<?)
--   LIST SUBQUERY
--     SEARCH i USING INDEX store_items_expiry (deployment=? AND expires_at<?)
--     CREATE BLOOM FILTER

-- deleteItem
-- (deployment text, path text, key text)
delete from "store_items" where "deployment" = ? and "path" = ? and "key" = ?
--   SEARCH store_items USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND path=? AND key=?)

-- refreshItems
-- (now bigint, deployment text, places text, now bigint, now bigint)
update store_items set expires_at = (select ?) + ttl_ms where deployment = (select ?)
      and (path, key) in (select path, key from (select json_extract(value, '$[0]') as "path", json_extract(value, '$[1]') as "key" from json_each((select ?))) as listed)
      and expires_at > (select ?) and expires_at < (select ?) + ttl_ms
-- Postgres:
update store_items set expires_at = $1::bigint + ttl_ms where deployment = $2::text
      and (path, key) in (select path, key from (select (value ->> 0) collate "C" as "path", (value ->> 1) collate "C" as "key" from json_array_elements($3::text::json)) as listed)
      and expires_at > $4::bigint and expires_at < $5::bigint + ttl_ms
--   SEARCH store_items USING INDEX store_items_expiry (deployment=? AND expires_at>?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     CREATE BLOOM FILTER

-- selectItem
-- (deployment text, path text, key text, now bigint)
select * from "store_items" where "deployment" = ? and "path" = ? and "key" = ? and (expires_at is null or expires_at > ?)
--   SEARCH store_items USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND path=? AND key=?)

-- selectItems
-- (places text, deployment text, now bigint)
select i.* from (select json_extract(value, '$[0]') as "path", json_extract(value, '$[1]') as "key" from json_each((select ?))) as listed cross join store_items i
    where i.deployment = (select ?) and i.path = listed.path and i.key = listed.key and (expires_at is null or expires_at > (select ?))
-- Postgres:
select i.* from (select (value ->> 0) collate "C" as "path", (value ->> 1) collate "C" as "key" from json_array_elements($1::text::json)) as listed cross join store_items i
    where i.deployment = $2::text and i.path = listed.path and i.key = listed.key and (expires_at is null or expires_at > $3::bigint)
--   SCAN json_each VIRTUAL TABLE INDEX 1:
--   SEARCH i USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND path=? AND key=?)

-- selectNewestCandidates ({"prefix":false,"vectors":false,"conditions":[]})
-- (deployment text, deployment text, now bigint, start text, limit bigint, offset bigint)
select * from store_items where deployment = (select ?) and (path, key) in (
      select path, key from store_items where deployment = (select ?) and (expires_at is null or expires_at > (select ?)) and path >= (select ?)
      order by updated_at desc, path, key limit (select ?) offset (select ?))
    order by updated_at desc, path, key
--   SEARCH store_items USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND path=? AND key=?)
--   LIST SUBQUERY
--     SEARCH store_items USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND path>?)
--     USE TEMP B-TREE FOR ORDER BY
--   USE TEMP B-TREE FOR ORDER BY

-- selectNewestCandidates ({"prefix":true,"vectors":true,"conditions":["equals",{"below":true,"null_passes":false}]})
-- (deployment text, deployment text, now bigint, end text, text text, bound double precision, member text, start text, limit bigint, offset bigint)
select * from store_items where deployment = (select ?) and (path, key) in (
      select path, key from store_items where deployment = (select ?) and (expires_at is null or expires_at > (select ?)) and path < (select ?) and vectors is not null and instr(value, (select ?)) > 0 and coalesce(json_extract(value, '$."' || (select ?) || '"') <= (select ?) or typeof(json_extract(value, '$."' || (select ?) || '"')) = 'text', false) and path >= (select ?)
      order by updated_at desc, path, key limit (select ?) offset (select ?))
    order by updated_at desc, path, key
-- Postgres:
select * from store_items where deployment = $1::text and (path, key) in (
      select path, key from store_items where deployment = $2::text and (expires_at is null or expires_at > $3::bigint) and path < $4::text and vectors is not null and strpos(value, $5::text) > 0 and (select case json_typeof(m.it) when 'number' then (m.it #>> '{}')::double precision <= $6::double precision
      else m.it is not null end from (select replace(replace(replace(value, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json -> $7::text as it offset 0) m) and path >= $8::text
      order by updated_at desc, path, key limit $9::bigint offset $10::bigint)
    order by updated_at desc, path, key
--   SEARCH store_items USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND path=? AND key=?)
--   LIST SUBQUERY
--     SEARCH store_items USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND path>? AND path<?)
--     USE TEMP B-TREE FOR ORDER BY
--   USE TEMP B-TREE FOR ORDER BY

-- selectNewestCandidates ({"prefix":true,"vectors":false,"conditions":[{"below":false,"null_passes":true}]})
-- (deployment text, deployment text, now bigint, end text, bound double precision, member text, start text, limit bigint, offset bigint)
select * from store_items where deployment = (select ?) and (path, key) in (
      select path, key from store_items where deployment = (select ?) and (expires_at is null or expires_at > (select ?)) and path < (select ?) and coalesce(json_extract(value, '$."' || (select ?) || '"') >= (select ?) , json_type(value, '$."' || (select ?) || '"') = 'null') and path >= (select ?)
      order by updated_at desc, path, key limit (select ?) offset (select ?))
    order by updated_at desc, path, key
-- Postgres:
select * from store_items where deployment = $1::text and (path, key) in (
      select path, key from store_items where deployment = $2::text and (expires_at is null or expires_at > $3::bigint) and path < $4::text and (select case json_typeof(m.it) when 'number' then (m.it #>> '{}')::double precision >= $5::double precision
      else m.it is not null end from (select replace(replace(replace(value, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json -> $6::text as it offset 0) m) and path >= $7::text
      order by updated_at desc, path, key limit $8::bigint offset $9::bigint)
    order by updated_at desc, path, key
--   SEARCH store_items USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND path=? AND key=?)
--   LIST SUBQUERY
--     SEARCH store_items USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND path>? AND path<?)
--     USE TEMP B-TREE FOR ORDER BY
--   USE TEMP B-TREE FOR ORDER BY

-- selectNextCandidates ({"prefix":false,"vectors":false,"conditions":[]})
-- (deployment text, now bigint, after_path text, after_key text, limit bigint)
select * from store_items where deployment = (select ?) and (expires_at is null or expires_at > (select ?))
      and (path, key) > ((select ?), (select ?)) order by path, key limit (select ?)
--   SEARCH store_items USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND (path,key)>(?,?))
--   REUSE SUBQUERY
--   REUSE SUBQUERY

-- selectNextCandidates ({"prefix":true,"vectors":true,"conditions":["equals",{"below":true,"null_passes":false}]})
-- (deployment text, now bigint, end text, text text, bound double precision, member text, after_path text, after_key text, limit bigint)
select * from store_items where deployment = (select ?) and (expires_at is null or expires_at > (select ?)) and path < (select ?) and vectors is not null and instr(value, (select ?)) > 0 and coalesce(json_extract(value, '$."' || (select ?) || '"') <= (select ?) or typeof(json_extract(value, '$."' || (select ?) || '"')) = 'text', false)
      and (path, key) > ((select ?), (select ?)) order by path, key limit (select ?)
-- Postgres:
select * from store_items where deployment = $1::text and (expires_at is null or expires_at > $2::bigint) and path < $3::text and vectors is not null and strpos(value, $4::text) > 0 and (select case json_typeof(m.it) when 'number' then (m.it #>> '{}')::double precision <= $5::double precision
      else m.it is not null end from (select replace(replace(replace(value, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json -> $6::text as it offset 0) m)
      and (path, key) > ($7::text, $8::text) order by path, key limit $9::bigint
--   SEARCH store_items USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND (path,key)>(?,?) AND path<?)
--   REUSE SUBQUERY
--   REUSE SUBQUERY

-- selectNextCandidates ({"prefix":true,"vectors":false,"conditions":[{"below":false,"null_passes":true}]})
-- (deployment text, now bigint, end text, bound double precision, member text, after_path text, after_key text, limit bigint)
select * from store_items where deployment = (select ?) and (expires_at is null or expires_at > (select ?)) and path < (select ?) and coalesce(json_extract(value, '$."' || (select ?) || '"') >= (select ?) , json_type(value, '$."' || (select ?) || '"') = 'null')
      and (path, key) > ((select ?), (select ?)) order by path, key limit (select ?)
-- Postgres:
select * from store_items where deployment = $1::text and (expires_at is null or expires_at > $2::bigint) and path < $3::text and (select case json_typeof(m.it) when 'number' then (m.it #>> '{}')::double precision >= $4::double precision
      else m.it is not null end from (select replace(replace(replace(value, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json -> $5::text as it offset 0) m)
      and (path, key) > ($6::text, $7::text) order by path, key limit $8::bigint
--   SEARCH store_items USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND (path,key)>(?,?) AND path<?)
--   REUSE SUBQUERY
--   REUSE SUBQUERY

-- selectPaths ({"prefix":false})
-- (deployment text, start text, now bigint, deployment text, now bigint, limit bigint)
with recursive paths (path) as (
      select (select i.path from store_items i
    where i.deployment = (select ?) and i.path >= (select ?) 
      and (expires_at is null or expires_at > (select ?)) order by i.path limit 1) union all select (select i.path from store_items i
    where i.deployment = (select ?) and i.path > p.path 
      and (expires_at is null or expires_at > (select ?)) order by i.path limit 1) from paths p where p.path is not null
    ) select path from paths where path is not null limit (select ?)
--   CO-ROUTINE paths
--     SETUP
--       SCALAR SUBQUERY
--         SEARCH i USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND path>?)
--     RECURSIVE STEP
--       SCAN p
--       CORRELATED SCALAR SUBQUERY
--         SEARCH i USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND path>?)
--   SCAN paths

-- selectPaths ({"prefix":true})
-- (deployment text, start text, end text, now bigint, deployment text, end text, now bigint, limit bigint)
with recursive paths (path) as (
      select (select i.path from store_items i
    where i.deployment = (select ?) and i.path >= (select ?) and i.path < (select ?)
      and (expires_at is null or expires_at > (select ?)) order by i.path limit 1) union all select (select i.path from store_items i
    where i.deployment = (select ?) and i.path > p.path and i.path < (select ?)
      and (expires_at is null or expires_at > (select ?)) order by i.path limit 1) from paths p where p.path is not null
    ) select path from paths where path is not null limit (select ?)
--   CO-ROUTINE paths
--     SETUP
--       SCALAR SUBQUERY
--         SEARCH i USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND path>? AND path<?)
--     RECURSIVE STEP
--       SCAN p
--       CORRELATED SCALAR SUBQUERY
--         SEARCH i USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND path>? AND path<?)
--   SCAN paths

-- upsertItem
-- (deployment text, path text, key text, value text, vectors text, now bigint, now bigint, ttl_ms bigint, expires_at bigint)
insert into "store_items" ("deployment", "path", "key", "value", "vectors", "created_at", "updated_at", "ttl_ms", "expires_at") values (?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict ("deployment", "path", "key") do update set "value" = excluded.value, "vectors" = excluded.vectors, "created_at" = case when store_items.expires_at <= excluded.updated_at then excluded.created_at
          else store_items.created_at end, "updated_at" = excluded.updated_at, "ttl_ms" = excluded.ttl_ms, "expires_at" = excluded.expires_at
