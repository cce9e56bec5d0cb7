-- deleteEventsBeforeEnd
-- (deployment text, thread_id text, run_id text, run_id text)
delete from "thread_events" where deployment = ? and thread_id = ? and run_id = ?
    and not exists (select 1 from runs r where r.run_id = ?) and "first_seq" % 4294967296 >= 65536 and "first_seq" % 4294967296 < 4294967295
--   SEARCH thread_events USING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=?)
--   SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- deleteOldEvents
-- (deployment text, before bigint, limit bigint)
delete from thread_events where (deployment, thread_id, first_seq) in (
      select deployment, thread_id, first_seq from thread_events where deployment = (select ?)
        and created_at < (select ?) order by created_at limit (select ?))
    returning first_seq
--   SEARCH thread_events USING COVERING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=? AND first_seq=?)
--   LIST SUBQUERY
--     SEARCH thread_events USING INDEX thread_events_created (deployment=? AND created_at<?)

-- recordAllEvents
-- (deployment text, thread_id text)
update "threads" set "all_events" = 1 where "deployment" = ? and "thread_id" = ? and "hidden" = 0 and true returning "thread_id"
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)

-- recordAllEvents (filtered)
-- (deployment text, thread_id text, filter text)
update "threads" set "all_events" = 1 where "deployment" = ? and "thread_id" = ? and "hidden" = 0 and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(threads.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)) returning "thread_id"
-- Postgres:
update "threads" set "all_events" = 1 where "deployment" = $1::text and "thread_id" = $2::text and "hidden" = 0 and not exists (select 1 from json_array_elements(replace(replace(replace($3::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(threads.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)) returning "thread_id"
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:

-- replaceEnd
-- (now bigint, deployment text, thread_id text, run_id text, run_id text)
update "thread_events" set "first_seq" = last_seq, "methods" = 1, "size" = 30, "events" = '[[0,0,[],' || cast(? as text) || ',"{\"event\":\"interrupted\"}"]]' where deployment = ? and thread_id = ? and run_id = ?
    and not exists (select 1 from runs r where r.run_id = ?) and "last_seq" % 4294967296 = 4294967295
--   SEARCH thread_events USING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=?)
--   SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- selectEvents
-- (deployment text, thread_id text, after bigint, deployment text, thread_id text, after bigint, deployment text, thread_id text, methods bigint, deployment text, thread_id text, after bigint, deployment text, thread_id text, after bigint, deployment text, thread_id text, methods bigint)

      select first_seq, last_seq, run_id, events from thread_events
      where deployment = (select ?) and thread_id = (select ?) and "last_seq" > (select ?)
    and "first_seq" >= coalesce((select max("first_seq") from "thread_events" where deployment = (select ?) and thread_id = (select ?) and "first_seq" <= (select ?)), 0) and first_seq < coalesce((select (r.claim_number + 1) * 4294967296 from runs r where r.deployment = (select ?)
    and r.thread_id = (select ?) and r.status = 'running'), 9007199254740991) and methods & (select ?) <> 0 and "first_seq" <= (select max("first_seq") from (
      select "first_seq", sum(size) over (order by "first_seq") - size as before from (
        select "first_seq", size from "thread_events" where deployment = (select ?) and thread_id = (select ?) and "last_seq" > (select ?)
    and "first_seq" >= coalesce((select max("first_seq") from "thread_events" where deployment = (select ?) and thread_id = (select ?) and "first_seq" <= (select ?)), 0) and first_seq < coalesce((select (r.claim_number + 1) * 4294967296 from runs r where r.deployment = (select ?)
    and r.thread_id = (select ?) and r.status = 'running'), 9007199254740991) and methods & (select ?) <> 0 order by "first_seq" limit 64) as sizes) as sums
    where before < 1000000)
        and true
      order by first_seq
--   SEARCH thread_events USING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=? AND first_seq>? AND first_seq<?)
--   SCALAR SUBQUERY
--     SEARCH thread_events USING COVERING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=? AND first_seq<?)
--   SCALAR SUBQUERY
--     SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--   SCALAR SUBQUERY
--     CO-ROUTINE sums
--       CO-ROUTINE (subquery-27)
--         CO-ROUTINE sizes
--           SEARCH thread_events USING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=? AND first_seq>? AND first_seq<?)
--           SCALAR SUBQUERY
--             SEARCH thread_events USING COVERING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=? AND first_seq<?)
--           SCALAR SUBQUERY
--             SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--         SCAN sizes
--       SCAN (subquery-27)
--     SEARCH sums

-- selectEvents (filtered)
-- (deployment text, thread_id text, after bigint, deployment text, thread_id text, after bigint, deployment text, thread_id text, methods bigint, deployment text, thread_id text, after bigint, deployment text, thread_id text, after bigint, deployment text, thread_id text, methods bigint, filter text)

      select first_seq, last_seq, run_id, events from thread_events
      where deployment = (select ?) and thread_id = (select ?) and "last_seq" > (select ?)
    and "first_seq" >= coalesce((select max("first_seq") from "thread_events" where deployment = (select ?) and thread_id = (select ?) and "first_seq" <= (select ?)), 0) and first_seq < coalesce((select (r.claim_number + 1) * 4294967296 from runs r where r.deployment = (select ?)
    and r.thread_id = (select ?) and r.status = 'running'), 9007199254740991) and methods & (select ?) <> 0 and "first_seq" <= (select max("first_seq") from (
      select "first_seq", sum(size) over (order by "first_seq") - size as before from (
        select "first_seq", size from "thread_events" where deployment = (select ?) and thread_id = (select ?) and "last_seq" > (select ?)
    and "first_seq" >= coalesce((select max("first_seq") from "thread_events" where deployment = (select ?) and thread_id = (select ?) and "first_seq" <= (select ?)), 0) and first_seq < coalesce((select (r.claim_number + 1) * 4294967296 from runs r where r.deployment = (select ?)
    and r.thread_id = (select ?) and r.status = 'running'), 9007199254740991) and methods & (select ?) <> 0 order by "first_seq" limit 64) as sizes) as sums
    where before < 1000000)
        and exists (select 1 from threads permitting where permitting.deployment = "thread_events"."deployment"
    and permitting.thread_id = "thread_events"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))
      order by first_seq
-- Postgres:

      select first_seq, last_seq, run_id, events from thread_events
      where deployment = $1::text and thread_id = $2::text and "last_seq" > $3::bigint
    and "first_seq" >= coalesce((select max("first_seq") from "thread_events" where deployment = $4::text and thread_id = $5::text and "first_seq" <= $6::bigint), 0) and first_seq < coalesce((select (r.claim_number + 1) * 4294967296 from runs r where r.deployment = $7::text
    and r.thread_id = $8::text and r.status = 'running'), 9007199254740991) and methods & $9::bigint <> 0 and "first_seq" <= (select max("first_seq") from (
      select "first_seq", sum(size) over (order by "first_seq") - size as before from (
        select "first_seq", size from "thread_events" where deployment = $10::text and thread_id = $11::text and "last_seq" > $12::bigint
    and "first_seq" >= coalesce((select max("first_seq") from "thread_events" where deployment = $13::text and thread_id = $14::text and "first_seq" <= $15::bigint), 0) and first_seq < coalesce((select (r.claim_number + 1) * 4294967296 from runs r where r.deployment = $16::text
    and r.thread_id = $17::text and r.status = 'running'), 9007199254740991) and methods & $18::bigint <> 0 order by "first_seq" limit 64) as sizes) as sums
    where before < 1000000)
        and exists (select 1 from threads permitting where permitting.deployment = "thread_events"."deployment"
    and permitting.thread_id = "thread_events"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($19::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))
      order by first_seq
--   SEARCH thread_events USING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=? AND first_seq>? AND first_seq<?)
--   SCALAR SUBQUERY
--     SEARCH thread_events USING COVERING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=? AND first_seq<?)
--   SCALAR SUBQUERY
--     SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--   SCALAR SUBQUERY
--     CO-ROUTINE sums
--       CO-ROUTINE (subquery-32)
--         CO-ROUTINE sizes
--           SEARCH thread_events USING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=? AND first_seq>? AND first_seq<?)
--           SCALAR SUBQUERY
--             SEARCH thread_events USING COVERING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=? AND first_seq<?)
--           SCALAR SUBQUERY
--             SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--         SCAN sizes
--       SCAN (subquery-32)
--     SEARCH sums
--   SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:

-- selectNewestEvent
-- (deployment text, thread_id text, deployment text, thread_id text)
select "last_seq" from "thread_events" where "deployment" = (select ?) and "thread_id" = (select ?) and "first_seq" < coalesce((select (r.claim_number + 1) * 4294967296 from runs r where r.deployment = (select ?)
    and r.thread_id = (select ?) and r.status = 'running'), 9007199254740991) and true order by "first_seq" desc limit 1
--   SEARCH thread_events USING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=? AND first_seq<?)
--   SCALAR SUBQUERY
--     SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)

-- selectNewestEvent (filtered)
-- (deployment text, thread_id text, deployment text, thread_id text, filter text)
select "last_seq" from "thread_events" where "deployment" = (select ?) and "thread_id" = (select ?) and "first_seq" < coalesce((select (r.claim_number + 1) * 4294967296 from runs r where r.deployment = (select ?)
    and r.thread_id = (select ?) and r.status = 'running'), 9007199254740991) and exists (select 1 from threads permitting where permitting.deployment = "thread_events"."deployment"
    and permitting.thread_id = "thread_events"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) order by "first_seq" desc limit 1
-- Postgres:
select "last_seq" from "thread_events" where "deployment" = $1::text and "thread_id" = $2::text and "first_seq" < coalesce((select (r.claim_number + 1) * 4294967296 from runs r where r.deployment = $3::text
    and r.thread_id = $4::text and r.status = 'running'), 9007199254740991) and exists (select 1 from threads permitting where permitting.deployment = "thread_events"."deployment"
    and permitting.thread_id = "thread_events"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($5::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) order by "first_seq" desc limit 1
--   SEARCH thread_events USING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=? AND first_seq<?)
--   SCALAR SUBQUERY
--     SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--   SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:

-- selectOldEvents
-- (deployment text, before bigint)
select "first_seq" from "thread_events" where "deployment" = (select ?) and "created_at" < (select ?) order by "created_at" limit 1
--   SEARCH thread_events USING INDEX thread_events_created (deployment=? AND created_at<?)

-- upsertEvents
-- (deployment text, thread_id text, first_seq bigint, last_seq bigint, run_id text, methods bigint, size bigint, now bigint, events text, deployment text, thread_id text, run_id text, token text)
insert into "thread_events" ("deployment", "thread_id", "first_seq", "last_seq", "run_id", "methods", "size", "created_at", "events") select (select ?), (select ?), (select ?), (select ?), (select ?), (select ?), (select ?), (select ?), (select ?) where exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running') on conflict ("deployment", "thread_id", "first_seq") do update set "last_seq" = "excluded"."last_seq", "methods" = "excluded"."methods", "size" = "excluded"."size", "events" = "excluded"."events" where "excluded"."last_seq" > "thread_events"."last_seq"
--   SEARCH runs EXISTS USING INDEX sqlite_autoindex_runs_1 (run_id=?)
