-- continueCall
-- (run_id text, deployment text, thread_id text, call_id text, deployment text, thread_id text, run_id text, token text)
update "calls" set "run_id" = (select ?), "due_at" = null where "deployment" = (select ?) and "thread_id" = (select ?) and "call_id" = (select ?) and exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running')
--   SEARCH calls USING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=? AND call_id=?)
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- countSuspendedRuns
-- (deployment text)
select count(*) as "count" from "runs" where "deployment" = (select ?) and "status" = 'pending' and "waiting_for" is not null
--   SEARCH runs USING INDEX runs_status (deployment=? AND status=?)

-- endCall
-- (due_at bigint, now bigint, deployment text, thread_id text, call_id text, deployment text, thread_id text, run_id text, token text)
update "calls" set "due_at" = (select ?), "ended_at" = (select ?) where "deployment" = (select ?) and "thread_id" = (select ?) and "call_id" = (select ?) and exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running')
--   SEARCH calls USING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=? AND call_id=?)
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- insertCall
-- (deployment text, thread_id text, call_id text, graph_id text, run_id text, run_id text, beginning text, deployment text, thread_id text, run_id text, token text)
insert into calls (deployment, thread_id, call_id, graph_id, first_run, run_id, beginning, created_at)
    select (select ?), (select ?), (select ?), (select ?), (select ?), (select ?), (select ?), updated_at
    from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running'
    on conflict do nothing
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   SEARCH call_tokens USING COVERING INDEX call_tokens_call (deployment=? AND thread_id=? AND call_id=?)
--   SEARCH call_events USING COVERING INDEX sqlite_autoindex_call_events_1 (deployment=? AND thread_id=? AND call_id=?)
--   SEARCH call_entries USING COVERING INDEX sqlite_autoindex_call_entries_1 (deployment=? AND thread_id=? AND call_id=?)

-- insertCallToken
-- (token_hash text, deployment text, thread_id text, call_id text, name text, occurrence bigint, deployment text, thread_id text, run_id text, token text)
insert into "call_tokens" ("token_hash", "deployment", "thread_id", "call_id", "name", "occurrence") select (select ?), (select ?), (select ?), (select ?), (select ?), (select ?) where exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running') on conflict do nothing
--   SEARCH runs EXISTS USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- insertEvent
-- (name text, occurrence bigint, payload text, now bigint, deployment text, thread_id text, call_id text, name text, occurrence bigint)
insert into call_events (deployment, thread_id, call_id, seq, name, occurrence, payload, created_at)
    select deployment, thread_id, call_id, 1 + coalesce((select max(e.seq) from call_events e where e.deployment = calls.deployment
      and e.thread_id = calls.thread_id and e.call_id = calls.call_id), 0), (select ?), (select ?), (select ?), (select ?)
    from calls where deployment = (select ?) and thread_id = (select ?) and call_id = (select ?) and ended_at is null
      and not exists (select 1 from call_events o where o.deployment = calls.deployment and o.thread_id = calls.thread_id
        and o.call_id = calls.call_id and o.name = (select ?) and o.occurrence = (select ?))
    returning seq
--   SEARCH calls USING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=? AND call_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH o USING INDEX sqlite_autoindex_call_events_1 (deployment=? AND thread_id=? AND call_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH e USING COVERING INDEX sqlite_autoindex_call_events_1 (deployment=? AND thread_id=? AND call_id=?)

-- selectCall
-- (deployment text, thread_id text, call_id text)
select * from "calls" where "deployment" = (select ?) and "thread_id" = (select ?) and "call_id" = (select ?) and true
--   SEARCH calls USING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=? AND call_id=?)

-- selectCall (filtered)
-- (deployment text, thread_id text, call_id text, filter text)
select * from "calls" where "deployment" = (select ?) and "thread_id" = (select ?) and "call_id" = (select ?) and exists (select 1 from threads permitting where permitting.deployment = "calls"."deployment"
    and permitting.thread_id = "calls"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))
-- Postgres:
select * from "calls" where "deployment" = $1::text and "thread_id" = $2::text and "call_id" = $3::text and exists (select 1 from threads permitting where permitting.deployment = "calls"."deployment"
    and permitting.thread_id = "calls"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($4::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))
--   SEARCH calls USING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=? AND call_id=?)
--   SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:

-- selectCallOfToken
-- (token_hash text, deployment text)
select c.*, t.name, t.occurrence,
      (select e.payload from call_events e where e.deployment = t.deployment and e.thread_id = t.thread_id
        and e.call_id = t.call_id and e.name = t.name and e.occurrence = t.occurrence order by e.seq limit 1) as payload
    from call_tokens t join calls c on c.deployment = t.deployment and c.thread_id = t.thread_id and c.call_id = t.call_id
    where t.token_hash = (select ?) and t.deployment = (select ?)
--   SEARCH t USING INDEX sqlite_autoindex_call_tokens_1 (token_hash=?)
--   SEARCH c USING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=? AND call_id=?)
--   REUSE SUBQUERY
--   CORRELATED SCALAR SUBQUERY
--     SEARCH e USING INDEX sqlite_autoindex_call_events_1 (deployment=? AND thread_id=? AND call_id=?)

-- selectDueCalls
-- (deployment text, now bigint, limit bigint)
select * from "calls" where "deployment" = (select ?) and "due_at" <= (select ?) and "due_at" is not null and "ended_at" is null and not exists (select 1 from runs r
    where r.deployment = calls.deployment and r.thread_id = calls.thread_id and r.status = 'running') and not exists (select 1 from runs r
    where r.deployment = calls.deployment and r.thread_id = calls.thread_id and r.status = 'pending') order by "due_at" limit (select ?)
--   SEARCH calls USING INDEX calls_due (deployment=? AND due_at>? AND due_at<?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_running (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)

-- selectEntries
-- (deployment text, thread_id text, call_id text, idx bigint, limit bigint)
select "idx", "entry" from "call_entries" where "deployment" = (select ?) and "thread_id" = (select ?) and "call_id" = (select ?) and "idx" >= (select ?) and true order by "idx" limit (select ?)
--   SEARCH call_entries USING INDEX sqlite_autoindex_call_entries_1 (deployment=? AND thread_id=? AND call_id=? AND idx>?)

-- selectEntries (filtered)
-- (deployment text, thread_id text, call_id text, idx bigint, filter text, limit bigint)
select "idx", "entry" from "call_entries" where "deployment" = (select ?) and "thread_id" = (select ?) and "call_id" = (select ?) and "idx" >= (select ?) and exists (select 1 from threads permitting where permitting.deployment = "call_entries"."deployment"
    and permitting.thread_id = "call_entries"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) order by "idx" limit (select ?)
-- Postgres:
select "idx", "entry" from "call_entries" where "deployment" = $1::text and "thread_id" = $2::text and "call_id" = $3::text and "idx" >= $4::bigint and exists (select 1 from threads permitting where permitting.deployment = "call_entries"."deployment"
    and permitting.thread_id = "call_entries"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($5::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) order by "idx" limit $6::bigint
--   SEARCH call_entries USING INDEX sqlite_autoindex_call_entries_1 (deployment=? AND thread_id=? AND call_id=? AND idx>?)
--   SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:

-- selectEvents
-- (deployment text, thread_id text, call_id text, seq bigint)
select "seq", "name", "occurrence", "payload" from "call_events" where "deployment" = (select ?) and "thread_id" = (select ?) and "call_id" = (select ?) and "seq" > (select ?) and true order by "seq"
--   SEARCH call_events USING INDEX sqlite_autoindex_call_events_1 (deployment=? AND thread_id=? AND call_id=? AND seq>?)

-- selectEvents (filtered)
-- (deployment text, thread_id text, call_id text, seq bigint, filter text)
select "seq", "name", "occurrence", "payload" from "call_events" where "deployment" = (select ?) and "thread_id" = (select ?) and "call_id" = (select ?) and "seq" > (select ?) and exists (select 1 from threads permitting where permitting.deployment = "call_events"."deployment"
    and permitting.thread_id = "call_events"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) order by "seq"
-- Postgres:
select "seq", "name", "occurrence", "payload" from "call_events" where "deployment" = $1::text and "thread_id" = $2::text and "call_id" = $3::text and "seq" > $4::bigint and exists (select 1 from threads permitting where permitting.deployment = "call_events"."deployment"
    and permitting.thread_id = "call_events"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($5::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) order by "seq"
--   SEARCH call_events USING INDEX sqlite_autoindex_call_events_1 (deployment=? AND thread_id=? AND call_id=? AND seq>?)
--   SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:

-- selectNewestCall
-- (deployment text, thread_id text)
select * from "calls" where "deployment" = (select ?) and "thread_id" = (select ?) and true order by "created_at" desc, "call_id" desc limit 1
--   SEARCH calls USING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=?)
--   USE TEMP B-TREE FOR ORDER BY

-- selectNewestCall (filtered)
-- (deployment text, thread_id text, filter text)
select * from "calls" where "deployment" = (select ?) and "thread_id" = (select ?) and exists (select 1 from threads permitting where permitting.deployment = "calls"."deployment"
    and permitting.thread_id = "calls"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) order by "created_at" desc, "call_id" desc limit 1
-- Postgres:
select * from "calls" where "deployment" = $1::text and "thread_id" = $2::text and exists (select 1 from threads permitting where permitting.deployment = "calls"."deployment"
    and permitting.thread_id = "calls"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($3::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) order by "created_at" desc, "call_id" desc limit 1
--   SEARCH calls USING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=?)
--   SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:
--   USE TEMP B-TREE FOR ORDER BY

-- setCallDue
-- (due_at bigint, ended_at bigint, deployment text, thread_id text, call_id text, before bigint)
update "calls" set "due_at" = (select ?), "ended_at" = (select ?) where "deployment" = (select ?) and "thread_id" = (select ?) and "call_id" = (select ?) and "ended_at" is null and "due_at" = (select ?)
--   SEARCH calls USING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=? AND call_id=?)

-- setCallOfRun
-- (call_id text, deployment text, thread_id text, run_id text, token text)
update "runs" set "call_id" = (select ?), "progressed" = attempt where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running'
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- setPosition
-- (position text, deployment text, thread_id text, call_id text, deployment text, thread_id text, run_id text, token text)
update "calls" set "position" = (select ?) where "deployment" = (select ?) and "thread_id" = (select ?) and "call_id" = (select ?) and exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running')
--   SEARCH calls USING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=? AND call_id=?)
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- suspendCall
-- (deployment text, thread_id text, call_id text, after bigint, now bigint, due_at bigint, deployment text, thread_id text, call_id text, deployment text, thread_id text, run_id text, token text)
update "calls" set "due_at" = case when exists (select 1 from call_events e where e.deployment = (select ?)
    and e.thread_id = (select ?) and e.call_id = (select ?) and e.seq > (select ?)) then (select ?) else (select ?) end, "ended_at" = null where "deployment" = (select ?) and "thread_id" = (select ?) and "call_id" = (select ?) and exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running')
--   SEARCH calls USING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=? AND call_id=?)
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   SCALAR SUBQUERY
--     SEARCH e USING COVERING INDEX sqlite_autoindex_call_events_1 (deployment=? AND thread_id=? AND call_id=? AND seq>?)

-- upsertEntries (1 rows)
-- (deployment text, thread_id text, call_id text, run_id text, idx bigint, entry text, deployment text, thread_id text, run_id text, token text)
insert into call_entries (deployment, thread_id, call_id, run_id, idx, entry)
    select (select ?), (select ?), (select ?), (select ?), v.*
    from (values (?, ?)) as v where exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running')
    on conflict (deployment, thread_id, call_id, idx) do update set entry = excluded.entry
--   CO-ROUTINE v
--   SEARCH runs EXISTS USING INDEX runs_running (deployment=? AND thread_id=?)
--   SCAN v

-- upsertEntries (2 rows)
-- (deployment text, thread_id text, call_id text, run_id text, idx bigint, entry text, idx bigint, entry text, deployment text, thread_id text, run_id text, token text)
insert into call_entries (deployment, thread_id, call_id, run_id, idx, entry)
    select (select ?), (select ?), (select ?), (select ?), v.*
    from (values (?, ?), (?, ?)) as v where exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running')
    on conflict (deployment, thread_id, call_id, idx) do update set entry = excluded.entry
--   SEARCH runs EXISTS USING INDEX runs_running (deployment=? AND thread_id=?)
--   SCAN 2-ROW VALUES CLAUSE

-- wakeCall
-- (now bigint, deployment text, thread_id text, call_id text)
update "calls" set "due_at" = (select ?) where "deployment" = (select ?) and "thread_id" = (select ?) and "call_id" = (select ?) and "ended_at" is null and not exists (select 1 from runs r where r.run_id = calls.run_id and r.ended_at is null)
--   SEARCH calls USING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=? AND call_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- wakeRun
-- (now bigint, now bigint, deployment text, thread_id text, call_id text)
update "runs" set "due_at" = ?, "updated_at" = ? where "deployment" = ? and "thread_id" = ? and "status" = 'pending' and "waiting_for" is not null and "due_at" > "updated_at" and "call_id" = ?
--   SEARCH runs USING INDEX runs_waiting (deployment=? AND thread_id=?)
