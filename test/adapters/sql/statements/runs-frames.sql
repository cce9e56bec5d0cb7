-- selectFrames
-- (run_id text, after bigint, run_id text, after bigint, run_id text, after bigint, run_id text, after bigint, run_id text, deployment text)
select first_id, frames from run_frames
    where run_id = (select ?) and "last_id" > (select ?)
    and "first_id" >= coalesce((select max("first_id") from "run_frames" where run_id = (select ?) and "first_id" <= (select ?)), 0) and true and "first_id" <= (select max("first_id") from (
      select "first_id", sum(size) over (order by "first_id") - size as before from (
        select "first_id", size from "run_frames" where run_id = (select ?) and "last_id" > (select ?)
    and "first_id" >= coalesce((select max("first_id") from "run_frames" where run_id = (select ?) and "first_id" <= (select ?)), 0) and true order by "first_id" limit 64) as sizes) as sums
    where before < 1000000)
      and exists (select 1 from runs where run_id = (select ?) and deployment = (select ?)
        and true)
    order by first_id
--   SEARCH runs EXISTS USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   SEARCH run_frames USING INDEX sqlite_autoindex_run_frames_1 (run_id=? AND first_id>? AND first_id<?)
--   SCALAR SUBQUERY
--     SEARCH run_frames USING COVERING INDEX sqlite_autoindex_run_frames_1 (run_id=? AND first_id<?)
--   SCALAR SUBQUERY
--     CO-ROUTINE sums
--       CO-ROUTINE (subquery-18)
--         CO-ROUTINE sizes
--           SEARCH run_frames USING INDEX sqlite_autoindex_run_frames_1 (run_id=? AND first_id>?)
--           SCALAR SUBQUERY
--             SEARCH run_frames USING COVERING INDEX sqlite_autoindex_run_frames_1 (run_id=? AND first_id<?)
--         SCAN sizes
--       SCAN (subquery-18)
--     SEARCH sums

-- selectFrames (filtered)
-- (run_id text, after bigint, run_id text, after bigint, run_id text, after bigint, run_id text, after bigint, run_id text, deployment text, filter text)
select first_id, frames from run_frames
    where run_id = (select ?) and "last_id" > (select ?)
    and "first_id" >= coalesce((select max("first_id") from "run_frames" where run_id = (select ?) and "first_id" <= (select ?)), 0) and true and "first_id" <= (select max("first_id") from (
      select "first_id", sum(size) over (order by "first_id") - size as before from (
        select "first_id", size from "run_frames" where run_id = (select ?) and "last_id" > (select ?)
    and "first_id" >= coalesce((select max("first_id") from "run_frames" where run_id = (select ?) and "first_id" <= (select ?)), 0) and true order by "first_id" limit 64) as sizes) as sums
    where before < 1000000)
      and exists (select 1 from runs where run_id = (select ?) and deployment = (select ?)
        and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))))
    order by first_id
-- Postgres:
select first_id, frames from run_frames
    where run_id = $1::text and "last_id" > $2::bigint
    and "first_id" >= coalesce((select max("first_id") from "run_frames" where run_id = $3::text and "first_id" <= $4::bigint), 0) and true and "first_id" <= (select max("first_id") from (
      select "first_id", sum(size) over (order by "first_id") - size as before from (
        select "first_id", size from "run_frames" where run_id = $5::text and "last_id" > $6::bigint
    and "first_id" >= coalesce((select max("first_id") from "run_frames" where run_id = $7::text and "first_id" <= $8::bigint), 0) and true order by "first_id" limit 64) as sizes) as sums
    where before < 1000000)
      and exists (select 1 from runs where run_id = $9::text and deployment = $10::text
        and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($11::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))))
    order by first_id
--   SEARCH runs EXISTS USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH permitting USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:
--   SEARCH run_frames USING INDEX sqlite_autoindex_run_frames_1 (run_id=? AND first_id>? AND first_id<?)
--   SCALAR SUBQUERY
--     SEARCH run_frames USING COVERING INDEX sqlite_autoindex_run_frames_1 (run_id=? AND first_id<?)
--   SCALAR SUBQUERY
--     CO-ROUTINE sums
--       CO-ROUTINE (subquery-23)
--         CO-ROUTINE sizes
--           SEARCH run_frames USING INDEX sqlite_autoindex_run_frames_1 (run_id=? AND first_id>?)
--           SCALAR SUBQUERY
--             SEARCH run_frames USING COVERING INDEX sqlite_autoindex_run_frames_1 (run_id=? AND first_id<?)
--         SCAN sizes
--       SCAN (subquery-23)
--     SEARCH sums

-- upsertFrames
-- (run_id text, first_id bigint, last_id bigint, size bigint, frames text, deployment text, thread_id text, run_id text, token text)
insert into "run_frames" ("run_id", "first_id", "last_id", "size", "frames") select (select ?), (select ?), (select ?), (select ?), (select ?) where exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running') on conflict ("run_id", "first_id") do update set "last_id" = "excluded"."last_id", "size" = "excluded"."size", "frames" = "excluded"."frames" where "excluded"."last_id" > "run_frames"."last_id"
--   SEARCH runs EXISTS USING INDEX sqlite_autoindex_runs_1 (run_id=?)
