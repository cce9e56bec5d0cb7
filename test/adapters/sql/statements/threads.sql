-- deleteEntriesOfAssistant
-- (deployment text, deployment text, path_hash bigint, value_hash bigint)
delete from labels where kind in ('thread', 'values') and not exists (select 1 from "threads" gone
    where gone.deployment = labels.deployment and gone."thread_id" = labels.row_id) and deployment = ? and row_id in (select row_id from labels where deployment = ? and kind = 'thread'
    and path_hash = ? and value_hash = ?)
--   SEARCH labels USING PRIMARY KEY (deployment=? AND kind=? AND row_id=?)
--   LIST SUBQUERY
--     SEARCH labels USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH gone USING COVERING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)

-- deleteOfAssistant ({"statement":"deleteTokensOfRuns","filtered":true})
-- (deployment text, deployment text, deployment text, path_hash bigint, value_hash bigint, member text, deployment text, assistant_id text, filter text)
delete from feedback_tokens where run_id in (select run_id from runs where deployment = ? and thread_id in (
      select thread_id from threads where deployment = ? and thread_id in (select row_id from labels where deployment = ? and kind = 'thread'
    and path_hash = ? and value_hash = ?) and instr(threads.metadata, ?) > 0
    and exists (select 1 from assistants a
    where a.deployment = ? and a.assistant_id = ? and a.revision = -1)
    and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(threads.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))))
-- Postgres:
delete from feedback_tokens where run_id in (select run_id from runs where deployment = $1::text and thread_id in (
      select thread_id from threads where deployment = $2::text and thread_id in (select row_id from labels where deployment = $3::text and kind = 'thread'
    and path_hash = $4::bigint and value_hash = $5::bigint) and strpos(threads.metadata, $6::text) > 0
    and exists (select 1 from assistants a
    where a.deployment = $7::text and a.assistant_id = $8::text and a.revision = -1)
    and not exists (select 1 from json_array_elements(replace(replace(replace($9::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(threads.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))))
--   SEARCH feedback_tokens USING COVERING INDEX feedback_tokens_run (run_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX runs_order (deployment=? AND thread_id=?)
--     LIST SUBQUERY
--       SEARCH a EXISTS USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--       SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--       LIST SUBQUERY
--         SEARCH labels USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=?)
--       CORRELATED SCALAR SUBQUERY
--         SCAN c VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN m VIRTUAL TABLE INDEX 1:
--           CORRELATED SCALAR SUBQUERY
--             SCAN e VIRTUAL TABLE INDEX 1:

-- deleteOfAssistant ({"statement":"deleteEntriesOfRuns","filtered":false})
-- (deployment text, deployment text, deployment text, path_hash bigint, value_hash bigint, member text, deployment text, assistant_id text, deployment text, deployment text, deployment text, path_hash bigint, value_hash bigint, member text, deployment text, assistant_id text)
delete from call_entries where run_id in (select u.run_id from runs u where u.run_id in (select run_id from runs where deployment = ? and thread_id in (
      select thread_id from threads where deployment = ? and thread_id in (select row_id from labels where deployment = ? and kind = 'thread'
    and path_hash = ? and value_hash = ?) and instr(threads.metadata, ?) > 0
    and exists (select 1 from assistants a
    where a.deployment = ? and a.assistant_id = ? and a.revision = -1)
    and true)) and u.call_id is not null and u.ended_at is null) and (deployment, thread_id, call_id) in (select deployment, thread_id, call_id from runs
    where run_id in (select u.run_id from runs u where u.run_id in (select run_id from runs where deployment = ? and thread_id in (
      select thread_id from threads where deployment = ? and thread_id in (select row_id from labels where deployment = ? and kind = 'thread'
    and path_hash = ? and value_hash = ?) and instr(threads.metadata, ?) > 0
    and exists (select 1 from assistants a
    where a.deployment = ? and a.assistant_id = ? and a.revision = -1)
    and true)) and u.call_id is not null and u.ended_at is null))
-- Postgres:
delete from call_entries where run_id in (select u.run_id from runs u where u.run_id in (select run_id from runs where deployment = $1::text and thread_id in (
      select thread_id from threads where deployment = $2::text and thread_id in (select row_id from labels where deployment = $3::text and kind = 'thread'
    and path_hash = $4::bigint and value_hash = $5::bigint) and strpos(threads.metadata, $6::text) > 0
    and exists (select 1 from assistants a
    where a.deployment = $7::text and a.assistant_id = $8::text and a.revision = -1)
    and true)) and u.call_id is not null and u.ended_at is null) and (deployment, thread_id, call_id) in (select deployment, thread_id, call_id from runs
    where run_id in (select u.run_id from runs u where u.run_id in (select run_id from runs where deployment = $9::text and thread_id in (
      select thread_id from threads where deployment = $10::text and thread_id in (select row_id from labels where deployment = $11::text and kind = 'thread'
    and path_hash = $12::bigint and value_hash = $13::bigint) and strpos(threads.metadata, $14::text) > 0
    and exists (select 1 from assistants a
    where a.deployment = $15::text and a.assistant_id = $16::text and a.revision = -1)
    and true)) and u.call_id is not null and u.ended_at is null))
--   SEARCH call_entries USING INDEX sqlite_autoindex_call_entries_1 (deployment=? AND thread_id=? AND call_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SEARCH u USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       LIST SUBQUERY
--         SEARCH runs USING INDEX runs_order (deployment=? AND thread_id=?)
--         LIST SUBQUERY
--           SEARCH a EXISTS USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--           SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--           LIST SUBQUERY
--             SEARCH labels USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=?)
--   LIST SUBQUERY
--     SEARCH u USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SEARCH runs USING INDEX runs_order (deployment=? AND thread_id=?)
--       LIST SUBQUERY
--         SEARCH a EXISTS USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--         SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--         LIST SUBQUERY
--           SEARCH labels USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=?)
--     CREATE BLOOM FILTER

-- deleteOfAssistant ({"statement":"deleteCallsOfRuns","filtered":false})
-- (deployment text, deployment text, deployment text, path_hash bigint, value_hash bigint, member text, deployment text, assistant_id text, deployment text, deployment text, deployment text, path_hash bigint, value_hash bigint, member text, deployment text, assistant_id text)
delete from calls where first_run in (select u.run_id from runs u where u.run_id in (select run_id from runs where deployment = ? and thread_id in (
      select thread_id from threads where deployment = ? and thread_id in (select row_id from labels where deployment = ? and kind = 'thread'
    and path_hash = ? and value_hash = ?) and instr(threads.metadata, ?) > 0
    and exists (select 1 from assistants a
    where a.deployment = ? and a.assistant_id = ? and a.revision = -1)
    and true)) and u.call_id is not null and u.ended_at is null) and (deployment, thread_id, call_id) in (select deployment, thread_id, call_id from runs
    where run_id in (select u.run_id from runs u where u.run_id in (select run_id from runs where deployment = ? and thread_id in (
      select thread_id from threads where deployment = ? and thread_id in (select row_id from labels where deployment = ? and kind = 'thread'
    and path_hash = ? and value_hash = ?) and instr(threads.metadata, ?) > 0
    and exists (select 1 from assistants a
    where a.deployment = ? and a.assistant_id = ? and a.revision = -1)
    and true)) and u.call_id is not null and u.ended_at is null))
-- Postgres:
delete from calls where first_run in (select u.run_id from runs u where u.run_id in (select run_id from runs where deployment = $1::text and thread_id in (
      select thread_id from threads where deployment = $2::text and thread_id in (select row_id from labels where deployment = $3::text and kind = 'thread'
    and path_hash = $4::bigint and value_hash = $5::bigint) and strpos(threads.metadata, $6::text) > 0
    and exists (select 1 from assistants a
    where a.deployment = $7::text and a.assistant_id = $8::text and a.revision = -1)
    and true)) and u.call_id is not null and u.ended_at is null) and (deployment, thread_id, call_id) in (select deployment, thread_id, call_id from runs
    where run_id in (select u.run_id from runs u where u.run_id in (select run_id from runs where deployment = $9::text and thread_id in (
      select thread_id from threads where deployment = $10::text and thread_id in (select row_id from labels where deployment = $11::text and kind = 'thread'
    and path_hash = $12::bigint and value_hash = $13::bigint) and strpos(threads.metadata, $14::text) > 0
    and exists (select 1 from assistants a
    where a.deployment = $15::text and a.assistant_id = $16::text and a.revision = -1)
    and true)) and u.call_id is not null and u.ended_at is null))
--   SEARCH calls USING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=? AND call_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SEARCH u USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       LIST SUBQUERY
--         SEARCH runs USING INDEX runs_order (deployment=? AND thread_id=?)
--         LIST SUBQUERY
--           SEARCH a EXISTS USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--           SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--           LIST SUBQUERY
--             SEARCH labels USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=?)
--   LIST SUBQUERY
--     SEARCH u USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SEARCH runs USING INDEX runs_order (deployment=? AND thread_id=?)
--       LIST SUBQUERY
--         SEARCH a EXISTS USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--         SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--         LIST SUBQUERY
--           SEARCH labels USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=?)
--     CREATE BLOOM FILTER
--   SEARCH call_tokens USING COVERING INDEX call_tokens_call (deployment=? AND thread_id=? AND call_id=?)
--   SEARCH call_events USING COVERING INDEX sqlite_autoindex_call_events_1 (deployment=? AND thread_id=? AND call_id=?)
--   SEARCH call_entries USING COVERING INDEX sqlite_autoindex_call_entries_1 (deployment=? AND thread_id=? AND call_id=?)

-- deleteOfAssistant ({"statement":"reopenCallsOfRuns","filtered":false})
-- (deployment text, deployment text, deployment text, path_hash bigint, value_hash bigint, member text, deployment text, assistant_id text)
update calls set due_at = created_at, position = null where (deployment, thread_id, call_id) in (select deployment, thread_id, call_id from runs
    where run_id in (select u.run_id from runs u where u.run_id in (select run_id from runs where deployment = ? and thread_id in (
      select thread_id from threads where deployment = ? and thread_id in (select row_id from labels where deployment = ? and kind = 'thread'
    and path_hash = ? and value_hash = ?) and instr(threads.metadata, ?) > 0
    and exists (select 1 from assistants a
    where a.deployment = ? and a.assistant_id = ? and a.revision = -1)
    and true)) and u.call_id is not null and u.ended_at is null)) and ended_at is null
-- Postgres:
update calls set due_at = created_at, position = null where (deployment, thread_id, call_id) in (select deployment, thread_id, call_id from runs
    where run_id in (select u.run_id from runs u where u.run_id in (select run_id from runs where deployment = $1::text and thread_id in (
      select thread_id from threads where deployment = $2::text and thread_id in (select row_id from labels where deployment = $3::text and kind = 'thread'
    and path_hash = $4::bigint and value_hash = $5::bigint) and strpos(threads.metadata, $6::text) > 0
    and exists (select 1 from assistants a
    where a.deployment = $7::text and a.assistant_id = $8::text and a.revision = -1)
    and true)) and u.call_id is not null and u.ended_at is null)) and ended_at is null
--   SEARCH calls USING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=? AND call_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SEARCH u USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       LIST SUBQUERY
--         SEARCH runs USING INDEX runs_order (deployment=? AND thread_id=?)
--         LIST SUBQUERY
--           SEARCH a EXISTS USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--           SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--           LIST SUBQUERY
--             SEARCH labels USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=?)

-- deleteOfAssistant ({"statement":"deleteTracesOfRuns","filtered":false})
-- (deployment text, deployment text, deployment text, path_hash bigint, value_hash bigint, member text, deployment text, assistant_id text)
delete from run_traces where run_id in (select run_id from runs where deployment = ? and thread_id in (
      select thread_id from threads where deployment = ? and thread_id in (select row_id from labels where deployment = ? and kind = 'thread'
    and path_hash = ? and value_hash = ?) and instr(threads.metadata, ?) > 0
    and exists (select 1 from assistants a
    where a.deployment = ? and a.assistant_id = ? and a.revision = -1)
    and true))
-- Postgres:
delete from run_traces where run_id in (select run_id from runs where deployment = $1::text and thread_id in (
      select thread_id from threads where deployment = $2::text and thread_id in (select row_id from labels where deployment = $3::text and kind = 'thread'
    and path_hash = $4::bigint and value_hash = $5::bigint) and strpos(threads.metadata, $6::text) > 0
    and exists (select 1 from assistants a
    where a.deployment = $7::text and a.assistant_id = $8::text and a.revision = -1)
    and true))
--   SEARCH run_traces USING PRIMARY KEY (run_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX runs_order (deployment=? AND thread_id=?)
--     LIST SUBQUERY
--       SEARCH a EXISTS USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--       SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--       LIST SUBQUERY
--         SEARCH labels USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=?)
--   SEARCH run_trace_contents USING COVERING INDEX sqlite_autoindex_run_trace_contents_1 (run_id=?)
--   SEARCH run_trace_parts USING COVERING INDEX sqlite_autoindex_run_trace_parts_1 (run_id=?)

-- deleteOfThread ({"statement":"deleteTokensOfRuns","filtered":true})
-- (deployment text, thread_id text, filter text)
delete from feedback_tokens where run_id in (select run_id from runs where deployment = ? and thread_id = ?
      and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))))
-- Postgres:
delete from feedback_tokens where run_id in (select run_id from runs where deployment = $1::text and thread_id = $2::text
      and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($3::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))))
--   SEARCH feedback_tokens USING COVERING INDEX feedback_tokens_run (run_id=?)
--   LIST SUBQUERY
--     SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:
--     SEARCH runs USING INDEX runs_order (deployment=? AND thread_id=?)

-- deleteOfThread ({"statement":"deleteEntriesOfRuns","filtered":false})
-- (deployment text, thread_id text, deployment text, thread_id text)
delete from call_entries where run_id in (select u.run_id from runs u where u.run_id in (select run_id from runs where deployment = ? and thread_id = ?
      and true) and u.call_id is not null and u.ended_at is null) and (deployment, thread_id, call_id) in (select deployment, thread_id, call_id from runs
    where run_id in (select u.run_id from runs u where u.run_id in (select run_id from runs where deployment = ? and thread_id = ?
      and true) and u.call_id is not null and u.ended_at is null))
--   SEARCH call_entries USING INDEX sqlite_autoindex_call_entries_1 (deployment=? AND thread_id=? AND call_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SEARCH u USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       LIST SUBQUERY
--         SEARCH runs USING INDEX runs_order (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH u USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SEARCH runs USING INDEX runs_order (deployment=? AND thread_id=?)
--     CREATE BLOOM FILTER

-- deleteOfThread ({"statement":"deleteCallsOfRuns","filtered":false})
-- (deployment text, thread_id text, deployment text, thread_id text)
delete from calls where first_run in (select u.run_id from runs u where u.run_id in (select run_id from runs where deployment = ? and thread_id = ?
      and true) and u.call_id is not null and u.ended_at is null) and (deployment, thread_id, call_id) in (select deployment, thread_id, call_id from runs
    where run_id in (select u.run_id from runs u where u.run_id in (select run_id from runs where deployment = ? and thread_id = ?
      and true) and u.call_id is not null and u.ended_at is null))
--   SEARCH calls USING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=? AND call_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SEARCH u USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       LIST SUBQUERY
--         SEARCH runs USING INDEX runs_order (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH u USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SEARCH runs USING INDEX runs_order (deployment=? AND thread_id=?)
--     CREATE BLOOM FILTER
--   SEARCH call_tokens USING COVERING INDEX call_tokens_call (deployment=? AND thread_id=? AND call_id=?)
--   SEARCH call_events USING COVERING INDEX sqlite_autoindex_call_events_1 (deployment=? AND thread_id=? AND call_id=?)
--   SEARCH call_entries USING COVERING INDEX sqlite_autoindex_call_entries_1 (deployment=? AND thread_id=? AND call_id=?)

-- deleteOfThread ({"statement":"reopenCallsOfRuns","filtered":false})
-- (deployment text, thread_id text)
update calls set due_at = created_at, position = null where (deployment, thread_id, call_id) in (select deployment, thread_id, call_id from runs
    where run_id in (select u.run_id from runs u where u.run_id in (select run_id from runs where deployment = ? and thread_id = ?
      and true) and u.call_id is not null and u.ended_at is null)) and ended_at is null
--   SEARCH calls USING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=? AND call_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SEARCH u USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       LIST SUBQUERY
--         SEARCH runs USING INDEX runs_order (deployment=? AND thread_id=?)

-- deleteOfThread ({"statement":"deleteTracesOfRuns","filtered":false})
-- (deployment text, thread_id text)
delete from run_traces where run_id in (select run_id from runs where deployment = ? and thread_id = ?
      and true)
--   SEARCH run_traces USING PRIMARY KEY (run_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX runs_order (deployment=? AND thread_id=?)
--   SEARCH run_trace_contents USING COVERING INDEX sqlite_autoindex_run_trace_contents_1 (run_id=?)
--   SEARCH run_trace_parts USING COVERING INDEX sqlite_autoindex_run_trace_parts_1 (run_id=?)

-- deleteThread
-- (deployment text, thread_id text)
delete from "threads" where deployment = ? and thread_id = ? and true returning "thread_id"
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SEARCH calls USING COVERING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=?)
--   SEARCH crons USING COVERING INDEX crons_thread (deployment=? AND thread_id=?)
--   SEARCH channel_values USING COVERING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoint_writes USING COVERING INDEX sqlite_autoindex_checkpoint_writes_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoints USING COVERING INDEX checkpoints_order (deployment=? AND thread_id=?)
--   SEARCH thread_events USING COVERING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=?)
--   SEARCH runs USING COVERING INDEX runs_order (deployment=? AND thread_id=?)

-- deleteThread (filtered)
-- (deployment text, thread_id text, filter text)
delete from "threads" where deployment = ? and thread_id = ? and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(threads.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)) returning "thread_id"
-- Postgres:
delete from "threads" where deployment = $1::text and thread_id = $2::text and not exists (select 1 from json_array_elements(replace(replace(replace($3::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
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
--   SEARCH calls USING COVERING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=?)
--   SEARCH crons USING COVERING INDEX crons_thread (deployment=? AND thread_id=?)
--   SEARCH channel_values USING COVERING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoint_writes USING COVERING INDEX sqlite_autoindex_checkpoint_writes_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoints USING COVERING INDEX checkpoints_order (deployment=? AND thread_id=?)
--   SEARCH thread_events USING COVERING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=?)
--   SEARCH runs USING COVERING INDEX runs_order (deployment=? AND thread_id=?)

-- deleteThreadsOfAssistant
-- (deployment text, deployment text, path_hash bigint, value_hash bigint, member text, deployment text, assistant_id text)
delete from "threads" where deployment = ? and thread_id in (select row_id from labels where deployment = ? and kind = 'thread'
    and path_hash = ? and value_hash = ?) and instr(threads.metadata, ?) > 0
    and exists (select 1 from assistants a
    where a.deployment = ? and a.assistant_id = ? and a.revision = -1)
    and true
-- Postgres:
delete from "threads" where deployment = $1::text and thread_id in (select row_id from labels where deployment = $2::text and kind = 'thread'
    and path_hash = $3::bigint and value_hash = $4::bigint) and strpos(threads.metadata, $5::text) > 0
    and exists (select 1 from assistants a
    where a.deployment = $6::text and a.assistant_id = $7::text and a.revision = -1)
    and true
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH labels USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=?)
--   SCALAR SUBQUERY
--     SEARCH a USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--   SEARCH calls USING COVERING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=?)
--   SEARCH crons USING COVERING INDEX crons_thread (deployment=? AND thread_id=?)
--   SEARCH channel_values USING COVERING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoint_writes USING COVERING INDEX sqlite_autoindex_checkpoint_writes_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoints USING COVERING INDEX checkpoints_order (deployment=? AND thread_id=?)
--   SEARCH thread_events USING COVERING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=?)
--   SEARCH runs USING COVERING INDEX runs_order (deployment=? AND thread_id=?)

-- deleteThreadsOfAssistant (filtered)
-- (deployment text, deployment text, path_hash bigint, value_hash bigint, member text, deployment text, assistant_id text, filter text)
delete from "threads" where deployment = ? and thread_id in (select row_id from labels where deployment = ? and kind = 'thread'
    and path_hash = ? and value_hash = ?) and instr(threads.metadata, ?) > 0
    and exists (select 1 from assistants a
    where a.deployment = ? and a.assistant_id = ? and a.revision = -1)
    and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(threads.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))
-- Postgres:
delete from "threads" where deployment = $1::text and thread_id in (select row_id from labels where deployment = $2::text and kind = 'thread'
    and path_hash = $3::bigint and value_hash = $4::bigint) and strpos(threads.metadata, $5::text) > 0
    and exists (select 1 from assistants a
    where a.deployment = $6::text and a.assistant_id = $7::text and a.revision = -1)
    and not exists (select 1 from json_array_elements(replace(replace(replace($8::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(threads.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH labels USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=?)
--   SCALAR SUBQUERY
--     SEARCH a USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:
--   SEARCH calls USING COVERING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=?)
--   SEARCH crons USING COVERING INDEX crons_thread (deployment=? AND thread_id=?)
--   SEARCH channel_values USING COVERING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoint_writes USING COVERING INDEX sqlite_autoindex_checkpoint_writes_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoints USING COVERING INDEX checkpoints_order (deployment=? AND thread_id=?)
--   SEARCH thread_events USING COVERING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=?)
--   SEARCH runs USING COVERING INDEX runs_order (deployment=? AND thread_id=?)

-- insertThread
-- (deployment text, thread_id text, now bigint, now bigint, now bigint, metadata text, config text, graph_id text, head text, hidden bigint, now bigint, run_count bigint, deployment text, thread_id text, ttl_strategy text, ttl_ms bigint)
insert into "threads" ("deployment", "thread_id", "created_at", "updated_at", "state_updated_at", "metadata", "config", "graph_id", "status", "head", "interrupts", "hidden", "all_events", "revision", "run_count", "claim_count", "ttl_strategy", "ttl_ms") values ((select ?), (select ?), (select ?), (select ?), (select ?), (select ?), (select ?), (select ?), 'idle', (select ?), '{}', (select ?), 0, (select ?), (select ?), coalesce((select d.claim_count from deleted_thread_claims d
    where d.deployment = (select ?) and d.id_suffix = substr((select ?), 33)), 0), (select ?), (select ?)) on conflict do nothing returning *
--   SCALAR SUBQUERY
--     SEARCH d USING PRIMARY KEY (deployment=? AND id_suffix=?)
--   SEARCH calls USING COVERING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=?)
--   SEARCH crons USING COVERING INDEX crons_thread (deployment=? AND thread_id=?)
--   SEARCH channel_values USING COVERING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoint_writes USING COVERING INDEX sqlite_autoindex_checkpoint_writes_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoints USING COVERING INDEX checkpoints_order (deployment=? AND thread_id=?)
--   SEARCH thread_events USING COVERING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=?)
--   SEARCH runs USING COVERING INDEX runs_order (deployment=? AND thread_id=?)

-- keepClaimCountsOfAssistant
-- (deployment text, deployment text, path_hash bigint, value_hash bigint, member text, deployment text, assistant_id text)
insert into deleted_thread_claims (deployment, id_suffix, claim_count)
    select threads.deployment, substr("threads"."thread_id", 33), max(threads.claim_count) from threads where deployment = ? and thread_id in (select row_id from labels where deployment = ? and kind = 'thread'
    and path_hash = ? and value_hash = ?) and instr(threads.metadata, ?) > 0
    and exists (select 1 from assistants a
    where a.deployment = ? and a.assistant_id = ? and a.revision = -1)
    and true
      and threads.claim_count > 0 group by 1, 2 order by 1, 2
    on conflict (deployment, id_suffix) do update set claim_count = excluded.claim_count
      where excluded.claim_count > deleted_thread_claims.claim_count
-- Postgres:
insert into deleted_thread_claims (deployment, id_suffix, claim_count)
    select threads.deployment, substr("threads"."thread_id", 33), max(threads.claim_count) from threads where deployment = $1::text and thread_id in (select row_id from labels where deployment = $2::text and kind = 'thread'
    and path_hash = $3::bigint and value_hash = $4::bigint) and strpos(threads.metadata, $5::text) > 0
    and exists (select 1 from assistants a
    where a.deployment = $6::text and a.assistant_id = $7::text and a.revision = -1)
    and true
      and threads.claim_count > 0 group by 1, 2 order by 1, 2
    on conflict (deployment, id_suffix) do update set claim_count = excluded.claim_count
      where excluded.claim_count > deleted_thread_claims.claim_count
--   SEARCH a EXISTS USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH labels USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=?)
--   USE TEMP B-TREE FOR GROUP BY

-- keepClaimCountsOfAssistant (filtered)
-- (deployment text, deployment text, path_hash bigint, value_hash bigint, member text, deployment text, assistant_id text, filter text)
insert into deleted_thread_claims (deployment, id_suffix, claim_count)
    select threads.deployment, substr("threads"."thread_id", 33), max(threads.claim_count) from threads where deployment = ? and thread_id in (select row_id from labels where deployment = ? and kind = 'thread'
    and path_hash = ? and value_hash = ?) and instr(threads.metadata, ?) > 0
    and exists (select 1 from assistants a
    where a.deployment = ? and a.assistant_id = ? and a.revision = -1)
    and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(threads.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))
      and threads.claim_count > 0 group by 1, 2 order by 1, 2
    on conflict (deployment, id_suffix) do update set claim_count = excluded.claim_count
      where excluded.claim_count > deleted_thread_claims.claim_count
-- Postgres:
insert into deleted_thread_claims (deployment, id_suffix, claim_count)
    select threads.deployment, substr("threads"."thread_id", 33), max(threads.claim_count) from threads where deployment = $1::text and thread_id in (select row_id from labels where deployment = $2::text and kind = 'thread'
    and path_hash = $3::bigint and value_hash = $4::bigint) and strpos(threads.metadata, $5::text) > 0
    and exists (select 1 from assistants a
    where a.deployment = $6::text and a.assistant_id = $7::text and a.revision = -1)
    and not exists (select 1 from json_array_elements(replace(replace(replace($8::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(threads.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))
      and threads.claim_count > 0 group by 1, 2 order by 1, 2
    on conflict (deployment, id_suffix) do update set claim_count = excluded.claim_count
      where excluded.claim_count > deleted_thread_claims.claim_count
--   SEARCH a EXISTS USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH labels USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:
--   USE TEMP B-TREE FOR GROUP BY

-- keepClaimCountsOfThread
-- (deployment text, thread_id text)
insert into deleted_thread_claims (deployment, id_suffix, claim_count)
    select threads.deployment, substr("threads"."thread_id", 33), max(threads.claim_count) from threads where deployment = ? and thread_id = ? and true
      and threads.claim_count > 0 group by 1, 2 order by 1, 2
    on conflict (deployment, id_suffix) do update set claim_count = excluded.claim_count
      where excluded.claim_count > deleted_thread_claims.claim_count
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   USE TEMP B-TREE FOR ORDER BY

-- keepClaimCountsOfThread (filtered)
-- (deployment text, thread_id text, filter text)
insert into deleted_thread_claims (deployment, id_suffix, claim_count)
    select threads.deployment, substr("threads"."thread_id", 33), max(threads.claim_count) from threads where deployment = ? and thread_id = ? and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(threads.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))
      and threads.claim_count > 0 group by 1, 2 order by 1, 2
    on conflict (deployment, id_suffix) do update set claim_count = excluded.claim_count
      where excluded.claim_count > deleted_thread_claims.claim_count
-- Postgres:
insert into deleted_thread_claims (deployment, id_suffix, claim_count)
    select threads.deployment, substr("threads"."thread_id", 33), max(threads.claim_count) from threads where deployment = $1::text and thread_id = $2::text and not exists (select 1 from json_array_elements(replace(replace(replace($3::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(threads.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))
      and threads.claim_count > 0 group by 1, 2 order by 1, 2
    on conflict (deployment, id_suffix) do update set claim_count = excluded.claim_count
      where excluded.claim_count > deleted_thread_claims.claim_count
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:
--   USE TEMP B-TREE FOR ORDER BY

-- selectThread
-- (deployment text, thread_id text)
select threads.*, (select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') as running, exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending') as waiting from threads
    where deployment = ? and thread_id = ? and true
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)

-- selectThread (filtered)
-- (deployment text, thread_id text, filter text)
select threads.*, (select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') as running, exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending') as waiting from threads
    where deployment = ? and thread_id = ? and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(threads.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))
-- Postgres:
select threads.*, (select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') as running, exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending') as waiting from threads
    where deployment = $1::text and thread_id = $2::text and not exists (select 1 from json_array_elements(replace(replace(replace($3::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(threads.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)

-- updateThread
-- (metadata text, ttl_strategy text, ttl_ms bigint, now bigint, deployment text, thread_id text, expected_revision bigint)
update "threads" set "metadata" = ?, "ttl_strategy" = ?, "ttl_ms" = ?, "updated_at" = ?, "revision" = revision + 1 where "deployment" = ? and "thread_id" = ? and "revision" = ? returning *, (select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') as "running", exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending') as "waiting"
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
