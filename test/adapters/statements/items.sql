-- assertItem
-- (deployment text, path text, key text, now bigint, expected text)
insert into assertions (holds) select 0 where not ((select value from store_items
      where deployment = ? and path = ? and key = ? and (expires_at is null or expires_at > ?))
      is not distinct from ?)
--   SCAN CONSTANT ROW
--   SCALAR SUBQUERY 1
--     SEARCH store_items USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND path=? AND key=?)

-- deleteExpiredItems
-- (deployment text, now bigint, deployment text, now bigint, limit bigint)
delete from store_items where deployment = (select ?) and expires_at <= (select ?)
    and (path, key) in (select i.path, i.key from store_items i
      where i.deployment = (select ?) and i.expires_at <= (select ?) order by i.expires_at limit (select ?))
    returning key
--   SEARCH store_items USING INDEX store_items_expiry (deployment=? AND expires_at<?)
--   SCALAR SUBQUERY 1
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 2
--     SCAN CONSTANT ROW
--   LIST SUBQUERY 6
--     SCALAR SUBQUERY 5
--       SCAN CONSTANT ROW
--     SEARCH i USING INDEX store_items_expiry (deployment=? AND expires_at<?)
--     SCALAR SUBQUERY 3
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 4
--       SCAN CONSTANT ROW
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
--   SCALAR SUBQUERY 2
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 6
--     SCAN CONSTANT ROW
--   LIST SUBQUERY 5
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     SCALAR SUBQUERY 3
--       SCAN CONSTANT ROW
--     CREATE BLOOM FILTER
--   SCALAR SUBQUERY 7
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 1
--     SCAN CONSTANT ROW

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
--   SCALAR SUBQUERY 1
--     SCAN CONSTANT ROW
--   SEARCH i USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND path=? AND key=?)
--   SCALAR SUBQUERY 3
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 4
--     SCAN CONSTANT ROW

-- selectNewestCandidates ({"prefix":false,"vectors":false,"conditions":[]})
-- (deployment text, deployment text, now bigint, start text, limit bigint, offset bigint)
select * from store_items where deployment = (select ?) and (path, key) in (
      select path, key from store_items where deployment = (select ?) and (expires_at is null or expires_at > (select ?)) and path >= (select ?)
      order by updated_at desc, path, key limit (select ?) offset (select ?))
    order by updated_at desc, path, key
--   SEARCH store_items USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND path=? AND key=?)
--   SCALAR SUBQUERY 1
--     SCAN CONSTANT ROW
--   LIST SUBQUERY 9
--     SCALAR SUBQUERY 5
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 6
--       SCAN CONSTANT ROW
--     SEARCH store_items USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND path>?)
--     SCALAR SUBQUERY 2
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 4
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 3
--       SCAN CONSTANT ROW
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
--   SCALAR SUBQUERY 1
--     SCAN CONSTANT ROW
--   LIST SUBQUERY 14
--     SCALAR SUBQUERY 10
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 11
--       SCAN CONSTANT ROW
--     SEARCH store_items USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND path>? AND path<?)
--     SCALAR SUBQUERY 2
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 9
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 4
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 3
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 5
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 6
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 7
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 8
--       SCAN CONSTANT ROW
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
--   SCALAR SUBQUERY 1
--     SCAN CONSTANT ROW
--   LIST SUBQUERY 13
--     SCALAR SUBQUERY 9
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 10
--       SCAN CONSTANT ROW
--     SEARCH store_items USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND path>? AND path<?)
--     SCALAR SUBQUERY 2
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 8
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 4
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 3
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 5
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 6
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 7
--       SCAN CONSTANT ROW
--     USE TEMP B-TREE FOR ORDER BY
--   USE TEMP B-TREE FOR ORDER BY

-- selectNextCandidates ({"prefix":false,"vectors":false,"conditions":[]})
-- (deployment text, now bigint, after_path text, after_key text, limit bigint)
select * from store_items where deployment = (select ?) and (expires_at is null or expires_at > (select ?))
      and (path, key) > ((select ?), (select ?)) order by path, key limit (select ?)
--   SCALAR SUBQUERY 5
--     SCAN CONSTANT ROW
--   SEARCH store_items USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND (path,key)>(?,?))
--   SCALAR SUBQUERY 1
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 3
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 4
--     SCAN CONSTANT ROW
--   REUSE SUBQUERY 3
--   REUSE SUBQUERY 4
--   SCALAR SUBQUERY 2
--     SCAN CONSTANT ROW

-- selectNextCandidates ({"prefix":true,"vectors":true,"conditions":["equals",{"below":true,"null_passes":false}]})
-- (deployment text, now bigint, end text, text text, bound double precision, member text, after_path text, after_key text, limit bigint)
select * from store_items where deployment = (select ?) and (expires_at is null or expires_at > (select ?)) and path < (select ?) and vectors is not null and instr(value, (select ?)) > 0 and coalesce(json_extract(value, '$."' || (select ?) || '"') <= (select ?) or typeof(json_extract(value, '$."' || (select ?) || '"')) = 'text', false)
      and (path, key) > ((select ?), (select ?)) order by path, key limit (select ?)
-- Postgres:
select * from store_items where deployment = $1::text and (expires_at is null or expires_at > $2::bigint) and path < $3::text and vectors is not null and strpos(value, $4::text) > 0 and (select case json_typeof(m.it) when 'number' then (m.it #>> '{}')::double precision <= $5::double precision
      else m.it is not null end from (select replace(replace(replace(value, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json -> $6::text as it offset 0) m)
      and (path, key) > ($7::text, $8::text) order by path, key limit $9::bigint
--   SCALAR SUBQUERY 10
--     SCAN CONSTANT ROW
--   SEARCH store_items USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND (path,key)>(?,?) AND path<?)
--   SCALAR SUBQUERY 1
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 8
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 9
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 3
--     SCAN CONSTANT ROW
--   REUSE SUBQUERY 8
--   REUSE SUBQUERY 9
--   SCALAR SUBQUERY 2
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 4
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 5
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 6
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 7
--     SCAN CONSTANT ROW

-- selectNextCandidates ({"prefix":true,"vectors":false,"conditions":[{"below":false,"null_passes":true}]})
-- (deployment text, now bigint, end text, bound double precision, member text, after_path text, after_key text, limit bigint)
select * from store_items where deployment = (select ?) and (expires_at is null or expires_at > (select ?)) and path < (select ?) and coalesce(json_extract(value, '$."' || (select ?) || '"') >= (select ?) , json_type(value, '$."' || (select ?) || '"') = 'null')
      and (path, key) > ((select ?), (select ?)) order by path, key limit (select ?)
-- Postgres:
select * from store_items where deployment = $1::text and (expires_at is null or expires_at > $2::bigint) and path < $3::text and (select case json_typeof(m.it) when 'number' then (m.it #>> '{}')::double precision >= $4::double precision
      else m.it is not null end from (select replace(replace(replace(value, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json -> $5::text as it offset 0) m)
      and (path, key) > ($6::text, $7::text) order by path, key limit $8::bigint
--   SCALAR SUBQUERY 9
--     SCAN CONSTANT ROW
--   SEARCH store_items USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND (path,key)>(?,?) AND path<?)
--   SCALAR SUBQUERY 1
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 7
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 8
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 3
--     SCAN CONSTANT ROW
--   REUSE SUBQUERY 7
--   REUSE SUBQUERY 8
--   SCALAR SUBQUERY 2
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 4
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 5
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 6
--     SCAN CONSTANT ROW

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
--       SCAN CONSTANT ROW
--       SCALAR SUBQUERY 4
--         SEARCH i USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND path>?)
--         SCALAR SUBQUERY 1
--           SCAN CONSTANT ROW
--         SCALAR SUBQUERY 2
--           SCAN CONSTANT ROW
--         SCALAR SUBQUERY 3
--           SCAN CONSTANT ROW
--     RECURSIVE STEP
--       SCAN p
--       CORRELATED SCALAR SUBQUERY 8
--         SEARCH i USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND path>?)
--         SCALAR SUBQUERY 6
--           SCAN CONSTANT ROW
--         SCALAR SUBQUERY 7
--           SCAN CONSTANT ROW
--   SCALAR SUBQUERY 10
--     SCAN CONSTANT ROW
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
--       SCAN CONSTANT ROW
--       SCALAR SUBQUERY 5
--         SEARCH i USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND path>? AND path<?)
--         SCALAR SUBQUERY 1
--           SCAN CONSTANT ROW
--         SCALAR SUBQUERY 2
--           SCAN CONSTANT ROW
--         SCALAR SUBQUERY 3
--           SCAN CONSTANT ROW
--         SCALAR SUBQUERY 4
--           SCAN CONSTANT ROW
--     RECURSIVE STEP
--       SCAN p
--       CORRELATED SCALAR SUBQUERY 10
--         SEARCH i USING INDEX sqlite_autoindex_store_items_1 (deployment=? AND path>? AND path<?)
--         SCALAR SUBQUERY 7
--           SCAN CONSTANT ROW
--         SCALAR SUBQUERY 8
--           SCAN CONSTANT ROW
--         SCALAR SUBQUERY 9
--           SCAN CONSTANT ROW
--   SCALAR SUBQUERY 12
--     SCAN CONSTANT ROW
--   SCAN paths

-- upsertItem
-- (deployment text, path text, key text, value text, vectors text, now bigint, now bigint, ttl_ms bigint, expires_at bigint)
insert into "store_items" ("deployment", "path", "key", "value", "vectors", "created_at", "updated_at", "ttl_ms", "expires_at") values (?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict ("deployment", "path", "key") do update set "value" = excluded.value, "vectors" = excluded.vectors, "created_at" = case when store_items.expires_at <= excluded.updated_at then excluded.created_at
          else store_items.created_at end, "updated_at" = excluded.updated_at, "ttl_ms" = excluded.ttl_ms, "expires_at" = excluded.expires_at
