-- selectStart
-- (deployment text, thread_id text, channel text, version text, deployment text, thread_id text, channel text, deployment text, thread_id text, channel text)
with recursive parts (version, extends_version) as (
      select c.version, c.extends_version from channel_values c where c.deployment = (select ?) and c.thread_id = (select ?) and c.ns = ''
      and c.channel = (select ?) and c.version = (select ?)
      union all
      select c.version, c.extends_version from parts cross join channel_values c
      where c.deployment = (select ?) and c.thread_id = (select ?) and c.ns = ''
      and c.channel = (select ?) and c.version = parts.extends_version)
    select substr(c.data, 1, 8192) as start from parts cross join channel_values c
    where c.deployment = (select ?) and c.thread_id = (select ?) and c.ns = ''
      and c.channel = (select ?) and c.version = parts.version and parts.extends_version is null and c.type = 'json'
--   CO-ROUTINE parts
--     SETUP
--       SEARCH c USING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=? AND ns=? AND channel=? AND version=?)
--     RECURSIVE STEP
--       SCAN parts
--       SEARCH c USING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=? AND ns=? AND channel=? AND version=?)
--   SCAN parts
--   SEARCH c USING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=? AND ns=? AND channel=? AND version=?)

-- selectVersionsOfCheckpoint
-- (deployment text, thread_id text, checkpoint_id text)
select "c"."checkpoint_id", "c"."versions" from "checkpoints" as "c" where "c"."deployment" = (select ?) and "c"."thread_id" = (select ?) and "c"."ns" = '' and "c"."checkpoint_id" = (select ?) and true
--   SEARCH c USING INDEX sqlite_autoindex_checkpoints_1 (deployment=? AND thread_id=? AND ns=? AND checkpoint_id=?)

-- selectVersionsOfCheckpoint (filtered)
-- (deployment text, thread_id text, checkpoint_id text, filter text)
select "c"."checkpoint_id", "c"."versions" from "checkpoints" as "c" where "c"."deployment" = (select ?) and "c"."thread_id" = (select ?) and "c"."ns" = '' and "c"."checkpoint_id" = (select ?) and exists (select 1 from threads permitting where permitting.deployment = "c"."deployment"
    and permitting.thread_id = "c"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))
-- Postgres:
select "c"."checkpoint_id", "c"."versions" from "checkpoints" as "c" where "c"."deployment" = $1::text and "c"."thread_id" = $2::text and "c"."ns" = '' and "c"."checkpoint_id" = $3::text and exists (select 1 from threads permitting where permitting.deployment = "c"."deployment"
    and permitting.thread_id = "c"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($4::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))
--   SEARCH c USING INDEX sqlite_autoindex_checkpoints_1 (deployment=? AND thread_id=? AND ns=? AND checkpoint_id=?)
--   SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:

-- selectVersionsOfRun
-- (deployment text, thread_id text, run_id text)
select "c"."checkpoint_id", "c"."versions" from "checkpoints" as "c" where "c"."deployment" = (select ?) and "c"."thread_id" = (select ?) and "c"."ns" = '' and "c"."run_id" = (select ?) and true order by "c"."seq" desc limit 1
--   SEARCH c USING INDEX checkpoints_order (deployment=? AND thread_id=?)

-- selectVersionsOfRun (filtered)
-- (deployment text, thread_id text, run_id text, filter text)
select "c"."checkpoint_id", "c"."versions" from "checkpoints" as "c" where "c"."deployment" = (select ?) and "c"."thread_id" = (select ?) and "c"."ns" = '' and "c"."run_id" = (select ?) and exists (select 1 from threads permitting where permitting.deployment = "c"."deployment"
    and permitting.thread_id = "c"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) order by "c"."seq" desc limit 1
-- Postgres:
select "c"."checkpoint_id", "c"."versions" from "checkpoints" as "c" where "c"."deployment" = $1::text and "c"."thread_id" = $2::text and "c"."ns" = '' and "c"."run_id" = $3::text and exists (select 1 from threads permitting where permitting.deployment = "c"."deployment"
    and permitting.thread_id = "c"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($4::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) order by "c"."seq" desc limit 1
--   SEARCH c USING INDEX checkpoints_order (deployment=? AND thread_id=?)
--   SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:
