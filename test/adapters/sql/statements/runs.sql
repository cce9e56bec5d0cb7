-- countActiveRuns
-- (deployment text, deployment text, deployment text, now bigint, deployment text, now bigint, deployment text, now bigint, deployment text)
select (select count(*) from runs where deployment = (select ?) and status = 'pending' and due_at <= updated_at) as immediate,
      (select min(due_at) from runs where deployment = (select ?) and status = 'pending' and due_at <= updated_at) as oldest_immediate,
      (select count(*) from runs where deployment = (select ?) and status = 'pending' and due_at > updated_at and due_at <= (select ?)) as late,
      (select min(due_at) from runs where deployment = (select ?) and status = 'pending' and due_at > updated_at and due_at <= (select ?)) as oldest_late,
      (select count(*) from runs where deployment = (select ?) and status = 'pending' and due_at > updated_at and due_at > (select ?)) as scheduled,
      (select count(*) from runs where deployment = (select ?) and status = 'running') as running
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX runs_status (deployment=? AND status=?)
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX runs_immediate (deployment=?)
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX runs_scheduled (deployment=? AND due_at<?)
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX runs_scheduled (deployment=? AND due_at<?)
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX runs_scheduled (deployment=? AND due_at>?)
--   SCALAR SUBQUERY
--     SEARCH runs USING COVERING INDEX runs_status (deployment=? AND status=?)

-- deleteRun
-- (deployment text, thread_id text, run_id text)
delete from "runs" where deployment = ? and thread_id = ? and run_id = ?
    and true and "status" <> 'running' returning "run_id"
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   SEARCH push_configs USING COVERING INDEX sqlite_autoindex_push_configs_1 (task_id=?)
--   SEARCH run_frames USING COVERING INDEX sqlite_autoindex_run_frames_1 (run_id=?)

-- deleteRun (filtered)
-- (deployment text, thread_id text, run_id text, filter text)
delete from "runs" where deployment = ? and thread_id = ? and run_id = ?
    and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) and "status" <> 'running' returning "run_id"
-- Postgres:
delete from "runs" where deployment = $1::text and thread_id = $2::text and run_id = $3::text
    and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($4::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) and "status" <> 'running' returning "run_id"
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH permitting USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:
--   SEARCH push_configs USING COVERING INDEX sqlite_autoindex_push_configs_1 (task_id=?)
--   SEARCH run_frames USING COVERING INDEX sqlite_autoindex_run_frames_1 (run_id=?)

-- isRunPresent
-- (deployment text, thread_id text, run_id text)
select "run_id" from "runs" where deployment = ? and thread_id = ? and run_id = ?
    and true
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- isRunPresent (filtered)
-- (deployment text, thread_id text, run_id text, filter text)
select "run_id" from "runs" where deployment = ? and thread_id = ? and run_id = ?
    and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))
-- Postgres:
select "run_id" from "runs" where deployment = $1::text and thread_id = $2::text and run_id = $3::text
    and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($4::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))
--   SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- selectRun
-- (deployment text, run_id text)
select * from "runs" where "deployment" = ? and "run_id" = ? and true
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- selectRun (filtered)
-- (deployment text, run_id text, filter text)
select * from "runs" where "deployment" = ? and "run_id" = ? and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))
-- Postgres:
select * from "runs" where "deployment" = $1::text and "run_id" = $2::text and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($3::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:

-- selectRuns ({"of_status":false,"below":false,"above":false,"filtered":false})
-- (deployment text, thread_id text, limit bigint, offset bigint)
select * from "runs" where "deployment" = (select ?) and "thread_id" = (select ?) and true order by "seq" desc limit (select ?) offset (select ?)
--   SEARCH runs USING INDEX runs_order (deployment=? AND thread_id=?)

-- selectRuns ({"of_status":true,"below":true,"above":false,"filtered":true})
-- (deployment text, thread_id text, status text, below bigint, filter text, limit bigint, offset bigint)
select * from "runs" where "deployment" = (select ?) and "thread_id" = (select ?) and "status" = (select ?) and "seq" < (select ?) and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) order by "seq" desc limit (select ?) offset (select ?)
-- Postgres:
select * from "runs" where "deployment" = $1::text and "thread_id" = $2::text and "status" = $3::text and "seq" < $4::bigint and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($5::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) order by "seq" desc limit $6::bigint offset $7::bigint
--   SEARCH runs USING INDEX runs_order (deployment=? AND thread_id=? AND seq<?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH permitting USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:

-- selectRuns ({"of_status":false,"below":false,"above":true,"filtered":false})
-- (deployment text, thread_id text, above bigint, limit bigint, offset bigint)
select * from "runs" where "deployment" = (select ?) and "thread_id" = (select ?) and "seq" > (select ?) and true order by "seq" asc limit (select ?) offset (select ?)
--   SEARCH runs USING INDEX runs_order (deployment=? AND thread_id=? AND seq>?)
