-- deleteTrace
-- (run_id text, deployment text)
delete from run_traces where run_traces.run_id = (select ?) and run_traces.deployment = (select ?) and true
    and not exists (select 1 from runs r where r.run_id = run_traces.run_id and r.status in ('pending', 'running'))
    returning run_id
--   SEARCH run_traces USING PRIMARY KEY (run_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   SEARCH run_trace_contents USING COVERING INDEX sqlite_autoindex_run_trace_contents_1 (run_id=?)
--   SEARCH run_trace_parts USING COVERING INDEX sqlite_autoindex_run_trace_parts_1 (run_id=?)

-- deleteTrace (filtered)
-- (run_id text, deployment text, filter text, filter text)
delete from run_traces where run_traces.run_id = (select ?) and run_traces.deployment = (select ?) and case when run_traces.thread_id is null
      then run_traces.visible is not null and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(run_traces.visible) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))
      else exists (select 1 from threads permitting where permitting.deployment = "run_traces"."deployment"
    and permitting.thread_id = "run_traces"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) end
    and not exists (select 1 from runs r where r.run_id = run_traces.run_id and r.status in ('pending', 'running'))
    returning run_id
-- Postgres:
delete from run_traces where run_traces.run_id = $1::text and run_traces.deployment = $2::text and case when run_traces.thread_id is null
      then run_traces.visible is not null and not exists (select 1 from json_array_elements(replace(replace(replace($3::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(run_traces.visible, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))
      else exists (select 1 from threads permitting where permitting.deployment = "run_traces"."deployment"
    and permitting.thread_id = "run_traces"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($4::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) end
    and not exists (select 1 from runs r where r.run_id = run_traces.run_id and r.status in ('pending', 'running'))
    returning run_id
--   SEARCH run_traces USING PRIMARY KEY (run_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:
--   CORRELATED SCALAR SUBQUERY
--     SEARCH permitting USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   SEARCH run_trace_contents USING COVERING INDEX sqlite_autoindex_run_trace_contents_1 (run_id=?)
--   SEARCH run_trace_parts USING COVERING INDEX sqlite_autoindex_run_trace_parts_1 (run_id=?)

-- insertTraceContents (1 rows)
-- (run_id text, hash text, content text, deployment text, thread_id text, run_id text, token text)
insert into run_trace_contents (run_id, hash, content) select (select ?), v.*
    from (values (?, ?)) as v where exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running')
    on conflict do nothing
--   CO-ROUTINE v
--   SEARCH runs EXISTS USING INDEX runs_running (deployment=? AND thread_id=?)
--   SCAN v

-- insertTraceContents (2 rows)
-- (run_id text, hash text, content text, hash text, content text, deployment text, thread_id text, run_id text, token text)
insert into run_trace_contents (run_id, hash, content) select (select ?), v.*
    from (values (?, ?), (?, ?)) as v where exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running')
    on conflict do nothing
--   SEARCH runs EXISTS USING INDEX runs_running (deployment=? AND thread_id=?)
--   SCAN 2-ROW VALUES CLAUSE

-- searchTraces ({"conditions":[]})
-- (deployment text, limit bigint)
select "run_traces"."run_id", "run_traces"."thread_id", "run_traces"."graph_id", "run_traces"."assistant_id", "run_traces"."cron_id", "run_traces"."user_id", "run_traces"."source", "run_traces"."created_at", "run_traces"."started_at", "run_traces"."ended_at", "run_traces"."active_ms", "run_traces"."failed", "run_traces"."error_type", "run_traces"."names", "run_traces"."head", case when run_traces.ended_at is null then coalesce(runs.status, run_traces.status) else run_traces.status end as status,
  case when (runs.status = 'pending' and runs.waiting_for is not null) then 1 else 0 end as waiting from run_traces left join runs on runs.run_id = run_traces.run_id where run_traces.deployment = (select ?) order by run_traces.started_at desc, run_traces.run_id desc limit (select ?)
--   SEARCH run_traces USING INDEX run_traces_started (deployment=?)
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?) LEFT-JOIN

-- searchTraces ({"conditions":["failed","started_after"]})
-- (deployment text, started_after bigint, limit bigint)
select "run_traces"."run_id", "run_traces"."thread_id", "run_traces"."graph_id", "run_traces"."assistant_id", "run_traces"."cron_id", "run_traces"."user_id", "run_traces"."source", "run_traces"."created_at", "run_traces"."started_at", "run_traces"."ended_at", "run_traces"."active_ms", "run_traces"."failed", "run_traces"."error_type", "run_traces"."names", "run_traces"."head", case when run_traces.ended_at is null then coalesce(runs.status, run_traces.status) else run_traces.status end as status,
  case when (runs.status = 'pending' and runs.waiting_for is not null) then 1 else 0 end as waiting from run_traces left join runs on runs.run_id = run_traces.run_id where run_traces.deployment = (select ?) and run_traces.failed = 1 and run_traces.started_at >= (select ?) order by run_traces.started_at desc, run_traces.run_id desc limit (select ?)
--   SEARCH run_traces USING INDEX run_traces_failed (deployment=? AND started_at>?)
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?) LEFT-JOIN

-- searchTraces ({"conditions":["tool","status","metadata","filter","after","tested"]})
-- (deployment text, tool text, statuses text, metadata text, filter text, filter text, after_started_at bigint, after_id text, tested_started_at bigint, tested_id text, limit bigint)
select "run_traces"."run_id", "run_traces"."thread_id", "run_traces"."graph_id", "run_traces"."assistant_id", "run_traces"."cron_id", "run_traces"."user_id", "run_traces"."source", "run_traces"."created_at", "run_traces"."started_at", "run_traces"."ended_at", "run_traces"."active_ms", "run_traces"."failed", "run_traces"."error_type", "run_traces"."names", "run_traces"."head", case when run_traces.ended_at is null then coalesce(runs.status, run_traces.status) else run_traces.status end as status,
  case when (runs.status = 'pending' and runs.waiting_for is not null) then 1 else 0 end as waiting from run_traces left join runs on runs.run_id = run_traces.run_id where run_traces.deployment = (select ?) and instr(run_traces.names, (select ?)) > 0 and case when run_traces.ended_at is null then coalesce(runs.status, run_traces.status) else run_traces.status end in (select value from json_each((select ?))) and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(coalesce(runs.metadata, run_traces.visible, '{}')) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)) and case when run_traces.thread_id is null
      then run_traces.visible is not null and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(run_traces.visible) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))
      else exists (select 1 from threads permitting where permitting.deployment = "run_traces"."deployment"
    and permitting.thread_id = "run_traces"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) end and (run_traces.started_at, run_traces.run_id) < ((select ?), (select ?)) and (run_traces.started_at, run_traces.run_id) >= ((select ?), (select ?)) order by run_traces.started_at desc, run_traces.run_id desc limit (select ?)
-- Postgres:
select "run_traces"."run_id", "run_traces"."thread_id", "run_traces"."graph_id", "run_traces"."assistant_id", "run_traces"."cron_id", "run_traces"."user_id", "run_traces"."source", "run_traces"."created_at", "run_traces"."started_at", "run_traces"."ended_at", "run_traces"."active_ms", "run_traces"."failed", "run_traces"."error_type", "run_traces"."names", "run_traces"."head", case when run_traces.ended_at is null then coalesce(runs.status, run_traces.status) else run_traces.status end as status,
  case when (runs.status = 'pending' and runs.waiting_for is not null) then 1 else 0 end as waiting from run_traces left join runs on runs.run_id = run_traces.run_id where run_traces.deployment = $1::text and strpos(run_traces.names, $2::text) > 0 and case when run_traces.ended_at is null then coalesce(runs.status, run_traces.status) else run_traces.status end in (select value collate "C" as value from json_array_elements_text($3::text::json)) and not exists (select 1 from json_array_elements(replace(replace(replace($4::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(coalesce(runs.metadata, run_traces.visible, '{}'), '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)) and case when run_traces.thread_id is null
      then run_traces.visible is not null and not exists (select 1 from json_array_elements(replace(replace(replace($5::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(run_traces.visible, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))
      else exists (select 1 from threads permitting where permitting.deployment = "run_traces"."deployment"
    and permitting.thread_id = "run_traces"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($6::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) end and (run_traces.started_at, run_traces.run_id) < ($7::bigint, $8::text) and (run_traces.started_at, run_traces.run_id) >= ($9::bigint, $10::text) order by run_traces.started_at desc, run_traces.run_id desc limit $11::bigint
--   SEARCH run_traces USING INDEX run_traces_started (deployment=? AND (started_at,run_id)>(?,?) AND (started_at,run_id)<(?,?))
--   REUSE SUBQUERY
--   REUSE SUBQUERY
--   REUSE SUBQUERY
--   REUSE SUBQUERY
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:
--   CORRELATED SCALAR SUBQUERY
--     SEARCH permitting USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?) LEFT-JOIN
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     CREATE BLOOM FILTER
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:

-- searchTraces ({"conditions":["thread_id"]})
-- (deployment text, deployment text, thread_id text, limit bigint)
select "run_traces"."run_id", "run_traces"."thread_id", "run_traces"."graph_id", "run_traces"."assistant_id", "run_traces"."cron_id", "run_traces"."user_id", "run_traces"."source", "run_traces"."created_at", "run_traces"."started_at", "run_traces"."ended_at", "run_traces"."active_ms", "run_traces"."failed", "run_traces"."error_type", "run_traces"."names", "run_traces"."head", case when run_traces.ended_at is null then coalesce(runs.status, run_traces.status) else run_traces.status end as status,
  case when (runs.status = 'pending' and runs.waiting_for is not null) then 1 else 0 end as waiting from run_traces left join runs on runs.run_id = run_traces.run_id where run_traces.deployment = (select ?) and run_traces.run_id in (select r.run_id from runs r where r.deployment = (select ?) and r.thread_id = (select ?)) order by run_traces.started_at desc, run_traces.run_id desc limit (select ?)
--   SEARCH run_traces USING INDEX run_traces_started (deployment=?)
--   LIST SUBQUERY
--     SEARCH r USING INDEX runs_order (deployment=? AND thread_id=?)
--     CREATE BLOOM FILTER
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?) LEFT-JOIN

-- selectLastTestedTrace ({"conditions":["failed","after"]})
-- (deployment text, after_started_at bigint, after_id text)
select started_at, run_id from run_traces where run_traces.deployment = (select ?) and run_traces.failed = 1 and (run_traces.started_at, run_traces.run_id) < ((select ?), (select ?)) order by started_at desc, run_id desc limit 1 offset 4999
--   SEARCH run_traces USING COVERING INDEX run_traces_failed (deployment=? AND (started_at,run_id)<(?,?))
--   REUSE SUBQUERY
--   REUSE SUBQUERY

-- selectTrace
-- (run_id text, deployment text)
select "run_traces"."run_id", "run_traces"."thread_id", "run_traces"."graph_id", "run_traces"."assistant_id", "run_traces"."cron_id", "run_traces"."user_id", "run_traces"."source", "run_traces"."created_at", "run_traces"."started_at", "run_traces"."ended_at", "run_traces"."active_ms", "run_traces"."failed", "run_traces"."error_type", "run_traces"."names", "run_traces"."head", case when run_traces.ended_at is null then coalesce(runs.status, run_traces.status) else run_traces.status end as status,
  case when (runs.status = 'pending' and runs.waiting_for is not null) then 1 else 0 end as waiting, run_traces.spans, runs.claims, runs.claim_log from run_traces left join runs on runs.run_id = run_traces.run_id where run_traces.run_id = (select ?) and run_traces.deployment = (select ?) and true
--   SEARCH run_traces USING PRIMARY KEY (run_id=?)
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?) LEFT-JOIN

-- selectTrace (filtered)
-- (run_id text, deployment text, filter text, filter text)
select "run_traces"."run_id", "run_traces"."thread_id", "run_traces"."graph_id", "run_traces"."assistant_id", "run_traces"."cron_id", "run_traces"."user_id", "run_traces"."source", "run_traces"."created_at", "run_traces"."started_at", "run_traces"."ended_at", "run_traces"."active_ms", "run_traces"."failed", "run_traces"."error_type", "run_traces"."names", "run_traces"."head", case when run_traces.ended_at is null then coalesce(runs.status, run_traces.status) else run_traces.status end as status,
  case when (runs.status = 'pending' and runs.waiting_for is not null) then 1 else 0 end as waiting, run_traces.spans, runs.claims, runs.claim_log from run_traces left join runs on runs.run_id = run_traces.run_id where run_traces.run_id = (select ?) and run_traces.deployment = (select ?) and case when run_traces.thread_id is null
      then run_traces.visible is not null and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(run_traces.visible) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))
      else exists (select 1 from threads permitting where permitting.deployment = "run_traces"."deployment"
    and permitting.thread_id = "run_traces"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) end
-- Postgres:
select "run_traces"."run_id", "run_traces"."thread_id", "run_traces"."graph_id", "run_traces"."assistant_id", "run_traces"."cron_id", "run_traces"."user_id", "run_traces"."source", "run_traces"."created_at", "run_traces"."started_at", "run_traces"."ended_at", "run_traces"."active_ms", "run_traces"."failed", "run_traces"."error_type", "run_traces"."names", "run_traces"."head", case when run_traces.ended_at is null then coalesce(runs.status, run_traces.status) else run_traces.status end as status,
  case when (runs.status = 'pending' and runs.waiting_for is not null) then 1 else 0 end as waiting, run_traces.spans, runs.claims, runs.claim_log from run_traces left join runs on runs.run_id = run_traces.run_id where run_traces.run_id = $1::text and run_traces.deployment = $2::text and case when run_traces.thread_id is null
      then run_traces.visible is not null and not exists (select 1 from json_array_elements(replace(replace(replace($3::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(run_traces.visible, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))
      else exists (select 1 from threads permitting where permitting.deployment = "run_traces"."deployment"
    and permitting.thread_id = "run_traces"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($4::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) end
--   SEARCH run_traces USING PRIMARY KEY (run_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:
--   CORRELATED SCALAR SUBQUERY
--     SEARCH permitting USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?) LEFT-JOIN

-- selectTraceContents
-- (run_id text, run_id text, deployment text)
select hash, content from run_trace_contents where run_id = (select ?)
      and exists (select 1 from run_traces where run_traces.run_id = (select ?) and run_traces.deployment = (select ?) and true)
--   SEARCH run_traces EXISTS USING PRIMARY KEY (run_id=?)
--   SEARCH run_trace_contents USING INDEX sqlite_autoindex_run_trace_contents_1 (run_id=?)

-- selectTraceContents (filtered)
-- (run_id text, run_id text, deployment text, filter text, filter text)
select hash, content from run_trace_contents where run_id = (select ?)
      and exists (select 1 from run_traces where run_traces.run_id = (select ?) and run_traces.deployment = (select ?) and case when run_traces.thread_id is null
      then run_traces.visible is not null and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(run_traces.visible) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))
      else exists (select 1 from threads permitting where permitting.deployment = "run_traces"."deployment"
    and permitting.thread_id = "run_traces"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) end)
-- Postgres:
select hash, content from run_trace_contents where run_id = $1::text
      and exists (select 1 from run_traces where run_traces.run_id = $2::text and run_traces.deployment = $3::text and case when run_traces.thread_id is null
      then run_traces.visible is not null and not exists (select 1 from json_array_elements(replace(replace(replace($4::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(run_traces.visible, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))
      else exists (select 1 from threads permitting where permitting.deployment = "run_traces"."deployment"
    and permitting.thread_id = "run_traces"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($5::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) end)
--   SEARCH run_traces EXISTS USING PRIMARY KEY (run_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:
--   CORRELATED SCALAR SUBQUERY
--     SEARCH permitting USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:
--   SEARCH run_trace_contents USING INDEX sqlite_autoindex_run_trace_contents_1 (run_id=?)

-- selectTraceParts
-- (run_id text)
select part, spans from run_trace_parts where run_id = (select ?) order by part
--   SEARCH run_trace_parts USING INDEX sqlite_autoindex_run_trace_parts_1 (run_id=?)

-- selectTraceProgress
-- (run_id text, deployment text)
select runs.claims, runs.claim_log, run_traces.head, run_traces.names, run_traces.active_ms
    from runs left join run_traces on run_traces.run_id = runs.run_id
    where runs.run_id = (select ?) and runs.deployment = (select ?)
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   SEARCH run_traces USING PRIMARY KEY (run_id=?) LEFT-JOIN

-- upsertTrace
-- (source text, status text, ended_at bigint, active_ms double precision, tokens bigint, failed bigint, error_type text, names text, head text, spans text, deployment text, thread_id text, run_id text, token text)
insert into run_traces (run_id, deployment, thread_id, graph_id, assistant_id, cron_id, user_id, source, status,
      created_at, started_at, ended_at, active_ms, tokens, failed, error_type, names, head, spans, visible)
    select run_id, deployment, case stateless when 1 then null else thread_id end, graph_id, assistant_id, cron_id, user_id,
      (select ?), (select ?), created_at, started_at, (select ?), (select ?), (select ?), (select ?),
      (select ?), (select ?), (select ?), (select ?), case runs.stateless when 1 then (select h.metadata from threads h
      where h.deployment = runs.deployment and h.thread_id = runs.thread_id and length(h.metadata) <= 4096)
    end
    from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running'
    on conflict (run_id) do update set status = excluded.status, ended_at = excluded.ended_at, active_ms = excluded.active_ms,
      tokens = excluded.tokens, failed = excluded.failed, error_type = excluded.error_type, names = excluded.names,
      head = excluded.head, spans = excluded.spans
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH h USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SEARCH run_trace_contents USING COVERING INDEX sqlite_autoindex_run_trace_contents_1 (run_id=?)
--   SEARCH run_trace_parts USING COVERING INDEX sqlite_autoindex_run_trace_parts_1 (run_id=?)

-- upsertTraceParts (1 rows)
-- (run_id text, part bigint, spans text, deployment text, thread_id text, run_id text, token text)
insert into run_trace_parts (run_id, part, spans) select (select ?), v.*
    from (values (?, ?)) as v where exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running')
    on conflict (run_id, part) do update set spans = excluded.spans
--   CO-ROUTINE v
--   SEARCH runs EXISTS USING INDEX runs_running (deployment=? AND thread_id=?)
--   SCAN v

-- upsertTraceParts (2 rows)
-- (run_id text, part bigint, spans text, part bigint, spans text, deployment text, thread_id text, run_id text, token text)
insert into run_trace_parts (run_id, part, spans) select (select ?), v.*
    from (values (?, ?), (?, ?)) as v where exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running')
    on conflict (run_id, part) do update set spans = excluded.spans
--   SEARCH runs EXISTS USING INDEX runs_running (deployment=? AND thread_id=?)
--   SCAN 2-ROW VALUES CLAUSE
