-- deleteEvents ({"runs":"evicted","filtered":false})
-- (deployment text, deployment text, thread_id text, deployment text, thread_id text, run_id text, run_id text, deployment text, thread_id text, deployment text, thread_id text, run_id text, run_id text, deployment text, deployment text, thread_id text, deployment text, thread_id text, run_id text, run_id text, deployment text, thread_id text, deployment text, thread_id text, run_id text, run_id text, deployment text)
delete from thread_events where deployment = (select ?)
    and thread_id in (select r.thread_id from runs r where r.run_id in (select e.run_id from runs e where e.deployment = (select ?) and e.thread_id = (select ?)
      and e.status = 'pending' and exists (select 1 from threads w where w.deployment = (select ?)
        and w.thread_id = (select ?) and w.last_run = (select ?))
      and not exists (select 1 from runs where run_id = (select ?)) union all select e.run_id from runs e where e.deployment = (select ?) and e.thread_id = (select ?)
      and e.status = 'running' and exists (select 1 from threads w where w.deployment = (select ?)
        and w.thread_id = (select ?) and w.last_run = (select ?))
      and not exists (select 1 from runs where run_id = (select ?))) and r.stateless = 0 and r.deployment = (select ?) and r.claims > 0) and run_id in (select r.run_id from runs r where r.run_id in (select e.run_id from runs e where e.deployment = (select ?) and e.thread_id = (select ?)
      and e.status = 'pending' and exists (select 1 from threads w where w.deployment = (select ?)
        and w.thread_id = (select ?) and w.last_run = (select ?))
      and not exists (select 1 from runs where run_id = (select ?)) union all select e.run_id from runs e where e.deployment = (select ?) and e.thread_id = (select ?)
      and e.status = 'running' and exists (select 1 from threads w where w.deployment = (select ?)
        and w.thread_id = (select ?) and w.last_run = (select ?))
      and not exists (select 1 from runs where run_id = (select ?))) and r.stateless = 0 and r.deployment = (select ?) and r.claims > 0)
--   SEARCH thread_events USING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH r USING INDEX runs_status (deployment=?)
--     LIST SUBQUERY
--       COMPOUND QUERY
--         LEFT-MOST SUBQUERY
--           SEARCH w EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--           SCALAR SUBQUERY
--             SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--           SEARCH e USING INDEX runs_waiting (deployment=? AND thread_id=?)
--           CREATE BLOOM FILTER
--         UNION ALL
--           SEARCH e USING INDEX runs_running (deployment=? AND thread_id=?)
--           SCALAR SUBQUERY
--             SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--           SEARCH w EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--           CREATE BLOOM FILTER
--   LIST SUBQUERY
--     SEARCH r USING INDEX runs_status (deployment=?)
--     LIST SUBQUERY
--       COMPOUND QUERY
--         LEFT-MOST SUBQUERY
--           SEARCH w EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--           SCALAR SUBQUERY
--             SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--           SEARCH e USING INDEX runs_waiting (deployment=? AND thread_id=?)
--           CREATE BLOOM FILTER
--         UNION ALL
--           SEARCH e USING INDEX runs_running (deployment=? AND thread_id=?)
--           SCALAR SUBQUERY
--             SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--           SEARCH w EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--           CREATE BLOOM FILTER
--     CREATE BLOOM FILTER

-- deleteEvents ({"runs":"named","filtered":true})
-- (deployment text, run_ids text, deployment text, filter text, run_ids text, deployment text, filter text, deployment text, run_ids text, deployment text, filter text, run_ids text, deployment text, filter text, deployment text)
delete from thread_events where deployment = (select ?)
    and thread_id in (select r.thread_id from runs r where r.run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and true and n.status = 'pending'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and true and n.status = 'running'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))) and r.stateless = 0 and r.deployment = (select ?) and r.claims > 0) and run_id in (select r.run_id from runs r where r.run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and true and n.status = 'pending'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and true and n.status = 'running'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))) and r.stateless = 0 and r.deployment = (select ?) and r.claims > 0)
-- Postgres:
delete from thread_events where deployment = $1::text
    and thread_id in (select r.thread_id from runs r where r.run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($2::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $3::text and true and n.status = 'pending'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($4::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) union all select n.run_id from (select value collate "C" as value from json_array_elements_text($5::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $6::text and true and n.status = 'running'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($7::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))) and r.stateless = 0 and r.deployment = $8::text and r.claims > 0) and run_id in (select r.run_id from runs r where r.run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($9::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $10::text and true and n.status = 'pending'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($11::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) union all select n.run_id from (select value collate "C" as value from json_array_elements_text($12::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $13::text and true and n.status = 'running'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($14::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))) and r.stateless = 0 and r.deployment = $15::text and r.claims > 0)
--   SEARCH thread_events USING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH r USING INDEX runs_status (deployment=?)
--     LIST SUBQUERY
--       COMPOUND QUERY
--         LEFT-MOST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--           SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--           CORRELATED SCALAR SUBQUERY
--             SCAN c VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY
--               SCAN m VIRTUAL TABLE INDEX 1:
--               CORRELATED SCALAR SUBQUERY
--                 SCAN e VIRTUAL TABLE INDEX 1:
--           CREATE BLOOM FILTER
--         UNION ALL
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--           SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--           CORRELATED SCALAR SUBQUERY
--             SCAN c VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY
--               SCAN m VIRTUAL TABLE INDEX 1:
--               CORRELATED SCALAR SUBQUERY
--                 SCAN e VIRTUAL TABLE INDEX 1:
--           CREATE BLOOM FILTER
--   LIST SUBQUERY
--     SEARCH r USING INDEX runs_status (deployment=?)
--     LIST SUBQUERY
--       COMPOUND QUERY
--         LEFT-MOST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--           SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--           CORRELATED SCALAR SUBQUERY
--             SCAN c VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY
--               SCAN m VIRTUAL TABLE INDEX 1:
--               CORRELATED SCALAR SUBQUERY
--                 SCAN e VIRTUAL TABLE INDEX 1:
--           CREATE BLOOM FILTER
--         UNION ALL
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--           SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--           CORRELATED SCALAR SUBQUERY
--             SCAN c VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY
--               SCAN m VIRTUAL TABLE INDEX 1:
--               CORRELATED SCALAR SUBQUERY
--                 SCAN e VIRTUAL TABLE INDEX 1:
--           CREATE BLOOM FILTER
--     CREATE BLOOM FILTER

-- deleteEvents ({"runs":"named_of_thread","filtered":false})
-- (deployment text, run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text, deployment text, run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text, deployment text)
delete from thread_events where deployment = (select ?)
    and thread_id in (select r.thread_id from runs r where r.run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'running'
      and true) and r.stateless = 0 and r.deployment = (select ?) and r.claims > 0) and run_id in (select r.run_id from runs r where r.run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'running'
      and true) and r.stateless = 0 and r.deployment = (select ?) and r.claims > 0)
-- Postgres:
delete from thread_events where deployment = $1::text
    and thread_id in (select r.thread_id from runs r where r.run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($2::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $3::text and n.thread_id = $4::text and n.status = 'pending'
      and true union all select n.run_id from (select value collate "C" as value from json_array_elements_text($5::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $6::text and n.thread_id = $7::text and n.status = 'running'
      and true) and r.stateless = 0 and r.deployment = $8::text and r.claims > 0) and run_id in (select r.run_id from runs r where r.run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($9::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $10::text and n.thread_id = $11::text and n.status = 'pending'
      and true union all select n.run_id from (select value collate "C" as value from json_array_elements_text($12::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $13::text and n.thread_id = $14::text and n.status = 'running'
      and true) and r.stateless = 0 and r.deployment = $15::text and r.claims > 0)
--   SEARCH thread_events USING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH r USING INDEX runs_status (deployment=?)
--     LIST SUBQUERY
--       COMPOUND QUERY
--         LEFT-MOST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--           CREATE BLOOM FILTER
--         UNION ALL
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX runs_running (deployment=? AND thread_id=?)
--           CREATE BLOOM FILTER
--   LIST SUBQUERY
--     SEARCH r USING INDEX runs_status (deployment=?)
--     LIST SUBQUERY
--       COMPOUND QUERY
--         LEFT-MOST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--           CREATE BLOOM FILTER
--         UNION ALL
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX runs_running (deployment=? AND thread_id=?)
--           CREATE BLOOM FILTER
--     CREATE BLOOM FILTER

-- deleteEvents ({"runs":"pending","filtered":false})
-- (deployment text, deployment text, thread_id text, run_id text, deployment text, deployment text, thread_id text, run_id text, deployment text)
delete from thread_events where deployment = (select ?)
    and thread_id in (select r.thread_id from runs r where r.run_id in (select run_id from runs where deployment = (select ?) and thread_id = (select ?) and run_id = (select ?)
    and true and status = 'pending') and r.stateless = 0 and r.deployment = (select ?) and r.claims > 0) and run_id in (select r.run_id from runs r where r.run_id in (select run_id from runs where deployment = (select ?) and thread_id = (select ?) and run_id = (select ?)
    and true and status = 'pending') and r.stateless = 0 and r.deployment = (select ?) and r.claims > 0)
--   SEARCH thread_events USING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH r USING INDEX runs_status (deployment=?)
--     LIST SUBQUERY
--       SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       CREATE BLOOM FILTER
--   LIST SUBQUERY
--     SEARCH r USING INDEX runs_status (deployment=?)
--     LIST SUBQUERY
--       SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       CREATE BLOOM FILTER
--     CREATE BLOOM FILTER

-- deleteEvents ({"runs":"resting","filtered":true})
-- (deployment text, deployment text, thread_id text, run_id text, filter text, deployment text, deployment text, thread_id text, run_id text, filter text, deployment text)
delete from thread_events where deployment = (select ?)
    and thread_id in (select r.thread_id from runs r where r.run_id in (select run_id from runs where deployment = (select ?) and thread_id = (select ?) and run_id = (select ?)
    and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) and status <> 'running') and r.stateless = 0 and r.deployment = (select ?) and r.claims > 0) and run_id in (select r.run_id from runs r where r.run_id in (select run_id from runs where deployment = (select ?) and thread_id = (select ?) and run_id = (select ?)
    and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) and status <> 'running') and r.stateless = 0 and r.deployment = (select ?) and r.claims > 0)
-- Postgres:
delete from thread_events where deployment = $1::text
    and thread_id in (select r.thread_id from runs r where r.run_id in (select run_id from runs where deployment = $2::text and thread_id = $3::text and run_id = $4::text
    and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($5::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) and status <> 'running') and r.stateless = 0 and r.deployment = $6::text and r.claims > 0) and run_id in (select r.run_id from runs r where r.run_id in (select run_id from runs where deployment = $7::text and thread_id = $8::text and run_id = $9::text
    and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($10::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) and status <> 'running') and r.stateless = 0 and r.deployment = $11::text and r.claims > 0)
--   SEARCH thread_events USING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH r USING INDEX runs_status (deployment=?)
--     LIST SUBQUERY
--       SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--       CORRELATED SCALAR SUBQUERY
--         SCAN c VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN m VIRTUAL TABLE INDEX 1:
--           CORRELATED SCALAR SUBQUERY
--             SCAN e VIRTUAL TABLE INDEX 1:
--       CREATE BLOOM FILTER
--   LIST SUBQUERY
--     SEARCH r USING INDEX runs_status (deployment=?)
--     LIST SUBQUERY
--       SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--       CORRELATED SCALAR SUBQUERY
--         SCAN c VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN m VIRTUAL TABLE INDEX 1:
--           CORRELATED SCALAR SUBQUERY
--             SCAN e VIRTUAL TABLE INDEX 1:
--       CREATE BLOOM FILTER
--     CREATE BLOOM FILTER

-- deleteOfFeatures ({"runs":"named_of_thread","filtered":false,"statement":"deleteTokensOfRuns"})
-- (run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text)
delete from feedback_tokens where run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'running'
      and true)
-- Postgres:
delete from feedback_tokens where run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($1::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $2::text and n.thread_id = $3::text and n.status = 'pending'
      and true union all select n.run_id from (select value collate "C" as value from json_array_elements_text($4::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $5::text and n.thread_id = $6::text and n.status = 'running'
      and true)
--   SEARCH feedback_tokens USING COVERING INDEX feedback_tokens_run (run_id=?)
--   LIST SUBQUERY
--     COMPOUND QUERY
--       LEFT-MOST SUBQUERY
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       UNION ALL
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH n USING INDEX runs_running (deployment=? AND thread_id=?)

-- deleteOfFeatures ({"runs":"named_of_thread","filtered":false,"statement":"deleteEntriesOfRuns"})
-- (run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text)
delete from call_entries where run_id in (select u.run_id from runs u where u.run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'running'
      and true) and u.call_id is not null and u.ended_at is null) and (deployment, thread_id, call_id) in (select deployment, thread_id, call_id from runs
    where run_id in (select u.run_id from runs u where u.run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'running'
      and true) and u.call_id is not null and u.ended_at is null))
-- Postgres:
delete from call_entries where run_id in (select u.run_id from runs u where u.run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($1::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $2::text and n.thread_id = $3::text and n.status = 'pending'
      and true union all select n.run_id from (select value collate "C" as value from json_array_elements_text($4::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $5::text and n.thread_id = $6::text and n.status = 'running'
      and true) and u.call_id is not null and u.ended_at is null) and (deployment, thread_id, call_id) in (select deployment, thread_id, call_id from runs
    where run_id in (select u.run_id from runs u where u.run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($7::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $8::text and n.thread_id = $9::text and n.status = 'pending'
      and true union all select n.run_id from (select value collate "C" as value from json_array_elements_text($10::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $11::text and n.thread_id = $12::text and n.status = 'running'
      and true) and u.call_id is not null and u.ended_at is null))
--   SEARCH call_entries USING INDEX sqlite_autoindex_call_entries_1 (deployment=? AND thread_id=? AND call_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SEARCH u USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       LIST SUBQUERY
--         COMPOUND QUERY
--           LEFT-MOST SUBQUERY
--             SCAN json_each VIRTUAL TABLE INDEX 1:
--             SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--           UNION ALL
--             SCAN json_each VIRTUAL TABLE INDEX 1:
--             SEARCH n USING INDEX runs_running (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH u USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       COMPOUND QUERY
--         LEFT-MOST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         UNION ALL
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX runs_running (deployment=? AND thread_id=?)
--     CREATE BLOOM FILTER

-- deleteOfFeatures ({"runs":"named_of_thread","filtered":false,"statement":"deleteCallsOfRuns"})
-- (run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text)
delete from calls where first_run in (select u.run_id from runs u where u.run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'running'
      and true) and u.call_id is not null and u.ended_at is null) and (deployment, thread_id, call_id) in (select deployment, thread_id, call_id from runs
    where run_id in (select u.run_id from runs u where u.run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'running'
      and true) and u.call_id is not null and u.ended_at is null))
-- Postgres:
delete from calls where first_run in (select u.run_id from runs u where u.run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($1::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $2::text and n.thread_id = $3::text and n.status = 'pending'
      and true union all select n.run_id from (select value collate "C" as value from json_array_elements_text($4::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $5::text and n.thread_id = $6::text and n.status = 'running'
      and true) and u.call_id is not null and u.ended_at is null) and (deployment, thread_id, call_id) in (select deployment, thread_id, call_id from runs
    where run_id in (select u.run_id from runs u where u.run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($7::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $8::text and n.thread_id = $9::text and n.status = 'pending'
      and true union all select n.run_id from (select value collate "C" as value from json_array_elements_text($10::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $11::text and n.thread_id = $12::text and n.status = 'running'
      and true) and u.call_id is not null and u.ended_at is null))
--   SEARCH calls USING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=? AND call_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SEARCH u USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       LIST SUBQUERY
--         COMPOUND QUERY
--           LEFT-MOST SUBQUERY
--             SCAN json_each VIRTUAL TABLE INDEX 1:
--             SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--           UNION ALL
--             SCAN json_each VIRTUAL TABLE INDEX 1:
--             SEARCH n USING INDEX runs_running (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH u USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       COMPOUND QUERY
--         LEFT-MOST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         UNION ALL
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX runs_running (deployment=? AND thread_id=?)
--     CREATE BLOOM FILTER
--   SEARCH call_tokens USING COVERING INDEX call_tokens_call (deployment=? AND thread_id=? AND call_id=?)
--   SEARCH call_events USING COVERING INDEX sqlite_autoindex_call_events_1 (deployment=? AND thread_id=? AND call_id=?)
--   SEARCH call_entries USING COVERING INDEX sqlite_autoindex_call_entries_1 (deployment=? AND thread_id=? AND call_id=?)

-- deleteOfFeatures ({"runs":"named_of_thread","filtered":false,"statement":"reopenCallsOfRuns"})
-- (run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text)
update calls set due_at = created_at, position = null where (deployment, thread_id, call_id) in (select deployment, thread_id, call_id from runs
    where run_id in (select u.run_id from runs u where u.run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'running'
      and true) and u.call_id is not null and u.ended_at is null)) and ended_at is null
-- Postgres:
update calls set due_at = created_at, position = null where (deployment, thread_id, call_id) in (select deployment, thread_id, call_id from runs
    where run_id in (select u.run_id from runs u where u.run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($1::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $2::text and n.thread_id = $3::text and n.status = 'pending'
      and true union all select n.run_id from (select value collate "C" as value from json_array_elements_text($4::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $5::text and n.thread_id = $6::text and n.status = 'running'
      and true) and u.call_id is not null and u.ended_at is null)) and ended_at is null
--   SEARCH calls USING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=? AND call_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SEARCH u USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       LIST SUBQUERY
--         COMPOUND QUERY
--           LEFT-MOST SUBQUERY
--             SCAN json_each VIRTUAL TABLE INDEX 1:
--             SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--           UNION ALL
--             SCAN json_each VIRTUAL TABLE INDEX 1:
--             SEARCH n USING INDEX runs_running (deployment=? AND thread_id=?)

-- deleteOfFeatures ({"runs":"named_of_thread","filtered":false,"statement":"deleteTracesOfRuns"})
-- (run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text)
delete from run_traces where run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'running'
      and true)
-- Postgres:
delete from run_traces where run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($1::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $2::text and n.thread_id = $3::text and n.status = 'pending'
      and true union all select n.run_id from (select value collate "C" as value from json_array_elements_text($4::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $5::text and n.thread_id = $6::text and n.status = 'running'
      and true)
--   SEARCH run_traces USING PRIMARY KEY (run_id=?)
--   LIST SUBQUERY
--     COMPOUND QUERY
--       LEFT-MOST SUBQUERY
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       UNION ALL
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH n USING INDEX runs_running (deployment=? AND thread_id=?)
--   SEARCH run_trace_contents USING COVERING INDEX sqlite_autoindex_run_trace_contents_1 (run_id=?)
--   SEARCH run_trace_parts USING COVERING INDEX sqlite_autoindex_run_trace_parts_1 (run_id=?)

-- deleteOrphanedThreads
-- (deployment text, now bigint)
delete from "threads" where deployment = ? and last_run is null and run_count > 0 and hidden = 1
    and (slot_token is null or slot_until <= ?)
    and not exists (select 1 from runs r where r.deployment = threads.deployment and r.thread_id = threads.thread_id) returning "thread_id"
--   SEARCH threads USING INDEX threads_left (deployment=? AND hidden=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_order (deployment=? AND thread_id=?)
--   SEARCH calls USING COVERING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=?)
--   SEARCH crons USING COVERING INDEX crons_thread (deployment=? AND thread_id=?)
--   SEARCH channel_values USING COVERING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoint_writes USING COVERING INDEX sqlite_autoindex_checkpoint_writes_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoints USING COVERING INDEX checkpoints_order (deployment=? AND thread_id=?)
--   SEARCH thread_events USING COVERING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=?)
--   SEARCH runs USING COVERING INDEX runs_order (deployment=? AND thread_id=?)

-- deleteProgress ({"runs":"named_of_thread","filtered":false,"table":"checkpoints"})
-- (deployment text, run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text)
delete from "checkpoints" where deployment = (select ?)
      and thread_id in (select thread_id from runs where run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'running'
      and true) and claims > 0) and run_id in (select run_id from runs where run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'running'
      and true) and claims > 0)
-- Postgres:
delete from "checkpoints" where deployment = $1::text
      and thread_id in (select thread_id from runs where run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($2::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $3::text and n.thread_id = $4::text and n.status = 'pending'
      and true union all select n.run_id from (select value collate "C" as value from json_array_elements_text($5::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $6::text and n.thread_id = $7::text and n.status = 'running'
      and true) and claims > 0) and run_id in (select run_id from runs where run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($8::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $9::text and n.thread_id = $10::text and n.status = 'pending'
      and true union all select n.run_id from (select value collate "C" as value from json_array_elements_text($11::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $12::text and n.thread_id = $13::text and n.status = 'running'
      and true) and claims > 0)
--   SEARCH checkpoints USING INDEX checkpoints_order (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       COMPOUND QUERY
--         LEFT-MOST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         UNION ALL
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX runs_running (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       COMPOUND QUERY
--         LEFT-MOST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         UNION ALL
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX runs_running (deployment=? AND thread_id=?)
--     CREATE BLOOM FILTER

-- deleteProgress ({"runs":"named_of_thread","filtered":false,"table":"checkpoint_writes"})
-- (deployment text, run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text)
delete from "checkpoint_writes" where deployment = (select ?)
      and thread_id in (select thread_id from runs where run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'running'
      and true) and claims > 0) and run_id in (select run_id from runs where run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'running'
      and true) and claims > 0)
-- Postgres:
delete from "checkpoint_writes" where deployment = $1::text
      and thread_id in (select thread_id from runs where run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($2::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $3::text and n.thread_id = $4::text and n.status = 'pending'
      and true union all select n.run_id from (select value collate "C" as value from json_array_elements_text($5::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $6::text and n.thread_id = $7::text and n.status = 'running'
      and true) and claims > 0) and run_id in (select run_id from runs where run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($8::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $9::text and n.thread_id = $10::text and n.status = 'pending'
      and true union all select n.run_id from (select value collate "C" as value from json_array_elements_text($11::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $12::text and n.thread_id = $13::text and n.status = 'running'
      and true) and claims > 0)
--   SEARCH checkpoint_writes USING COVERING INDEX sqlite_autoindex_checkpoint_writes_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       COMPOUND QUERY
--         LEFT-MOST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         UNION ALL
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX runs_running (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       COMPOUND QUERY
--         LEFT-MOST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         UNION ALL
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX runs_running (deployment=? AND thread_id=?)
--     CREATE BLOOM FILTER

-- deleteProgress ({"runs":"named_of_thread","filtered":false,"table":"channel_values"})
-- (deployment text, run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text)
delete from "channel_values" where deployment = (select ?)
      and thread_id in (select thread_id from runs where run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'running'
      and true) and claims > 0) and run_id in (select run_id from runs where run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'running'
      and true) and claims > 0)
-- Postgres:
delete from "channel_values" where deployment = $1::text
      and thread_id in (select thread_id from runs where run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($2::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $3::text and n.thread_id = $4::text and n.status = 'pending'
      and true union all select n.run_id from (select value collate "C" as value from json_array_elements_text($5::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $6::text and n.thread_id = $7::text and n.status = 'running'
      and true) and claims > 0) and run_id in (select run_id from runs where run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($8::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $9::text and n.thread_id = $10::text and n.status = 'pending'
      and true union all select n.run_id from (select value collate "C" as value from json_array_elements_text($11::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $12::text and n.thread_id = $13::text and n.status = 'running'
      and true) and claims > 0)
--   SEARCH channel_values USING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       COMPOUND QUERY
--         LEFT-MOST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         UNION ALL
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX runs_running (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       COMPOUND QUERY
--         LEFT-MOST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         UNION ALL
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX runs_running (deployment=? AND thread_id=?)
--     CREATE BLOOM FILTER

-- deleteRuns ({"runs":"evicted","filtered":false})
-- (deployment text, thread_id text, deployment text, thread_id text, run_id text, run_id text, deployment text, thread_id text, deployment text, thread_id text, run_id text, run_id text)
delete from runs
      where run_id in (select e.run_id from runs e where e.deployment = (select ?) and e.thread_id = (select ?)
      and e.status = 'pending' and exists (select 1 from threads w where w.deployment = (select ?)
        and w.thread_id = (select ?) and w.last_run = (select ?))
      and not exists (select 1 from runs where run_id = (select ?)) union all select e.run_id from runs e where e.deployment = (select ?) and e.thread_id = (select ?)
      and e.status = 'running' and exists (select 1 from threads w where w.deployment = (select ?)
        and w.thread_id = (select ?) and w.last_run = (select ?))
      and not exists (select 1 from runs where run_id = (select ?))) returning run_id, thread_id, lease_token
--   SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   LIST SUBQUERY
--     COMPOUND QUERY
--       LEFT-MOST SUBQUERY
--         SEARCH w EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--         SCALAR SUBQUERY
--           SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         SEARCH e USING INDEX runs_waiting (deployment=? AND thread_id=?)
--       UNION ALL
--         SEARCH e USING INDEX runs_running (deployment=? AND thread_id=?)
--         SCALAR SUBQUERY
--           SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         SEARCH w EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SEARCH push_configs USING COVERING INDEX sqlite_autoindex_push_configs_1 (task_id=?)
--   SEARCH run_frames USING COVERING INDEX sqlite_autoindex_run_frames_1 (run_id=?)

-- deleteRuns ({"runs":"named","filtered":true})
-- (run_ids text, deployment text, filter text, run_ids text, deployment text, filter text)
delete from runs
      where run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and true and n.status = 'pending'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and true and n.status = 'running'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))) returning run_id, thread_id, lease_token
-- Postgres:
delete from runs
      where run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($1::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $2::text and true and n.status = 'pending'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($3::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) union all select n.run_id from (select value collate "C" as value from json_array_elements_text($4::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $5::text and true and n.status = 'running'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($6::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))) returning run_id, thread_id, lease_token
--   SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   LIST SUBQUERY
--     COMPOUND QUERY
--       LEFT-MOST SUBQUERY
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--         CORRELATED SCALAR SUBQUERY
--           SCAN c VIRTUAL TABLE INDEX 1:
--           CORRELATED SCALAR SUBQUERY
--             SCAN m VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY
--               SCAN e VIRTUAL TABLE INDEX 1:
--       UNION ALL
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--         CORRELATED SCALAR SUBQUERY
--           SCAN c VIRTUAL TABLE INDEX 1:
--           CORRELATED SCALAR SUBQUERY
--             SCAN m VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY
--               SCAN e VIRTUAL TABLE INDEX 1:
--   SEARCH push_configs USING COVERING INDEX sqlite_autoindex_push_configs_1 (task_id=?)
--   SEARCH run_frames USING COVERING INDEX sqlite_autoindex_run_frames_1 (run_id=?)

-- deleteRuns ({"runs":"named_of_thread","filtered":false})
-- (run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text)
delete from runs
      where run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'running'
      and true) returning run_id, thread_id, lease_token
-- Postgres:
delete from runs
      where run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($1::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $2::text and n.thread_id = $3::text and n.status = 'pending'
      and true union all select n.run_id from (select value collate "C" as value from json_array_elements_text($4::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $5::text and n.thread_id = $6::text and n.status = 'running'
      and true) returning run_id, thread_id, lease_token
--   SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   LIST SUBQUERY
--     COMPOUND QUERY
--       LEFT-MOST SUBQUERY
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       UNION ALL
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH n USING INDEX runs_running (deployment=? AND thread_id=?)
--   SEARCH push_configs USING COVERING INDEX sqlite_autoindex_push_configs_1 (task_id=?)
--   SEARCH run_frames USING COVERING INDEX sqlite_autoindex_run_frames_1 (run_id=?)

-- deleteRuns ({"runs":"pending","filtered":false})
-- (deployment text, thread_id text, run_id text)
delete from runs
      where run_id in (select run_id from runs where deployment = (select ?) and thread_id = (select ?) and run_id = (select ?)
    and true and status = 'pending') returning run_id, thread_id, lease_token
--   SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   SEARCH push_configs USING COVERING INDEX sqlite_autoindex_push_configs_1 (task_id=?)
--   SEARCH run_frames USING COVERING INDEX sqlite_autoindex_run_frames_1 (run_id=?)

-- deleteRuns ({"runs":"resting","filtered":true})
-- (deployment text, thread_id text, run_id text, filter text)
delete from runs
      where run_id in (select run_id from runs where deployment = (select ?) and thread_id = (select ?) and run_id = (select ?)
    and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) and status <> 'running') returning run_id, thread_id, lease_token
-- Postgres:
delete from runs
      where run_id in (select run_id from runs where deployment = $1::text and thread_id = $2::text and run_id = $3::text
    and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($4::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) and status <> 'running') returning run_id, thread_id, lease_token
--   SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:
--   SEARCH push_configs USING COVERING INDEX sqlite_autoindex_push_configs_1 (task_id=?)
--   SEARCH run_frames USING COVERING INDEX sqlite_autoindex_run_frames_1 (run_id=?)

-- endFeatureOfUnclaimed ({"runs":"named_of_thread","filtered":false,"feature":"feedback"})
-- (now bigint, run_ids text, deployment text, thread_id text)
update feedback_tokens set expires_at = (select ?) + life_ms where expires_at is null and life_ms is not null
    and run_id in (select run_id from runs where run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true) and claims = 0 and feedback is not null)
-- Postgres:
update feedback_tokens set expires_at = $1::bigint + life_ms where expires_at is null and life_ms is not null
    and run_id in (select run_id from runs where run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($2::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $3::text and n.thread_id = $4::text and n.status = 'pending'
      and true) and claims = 0 and feedback is not null)
--   SEARCH feedback_tokens USING INDEX feedback_tokens_run (run_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SCAN json_each VIRTUAL TABLE INDEX 1:
--       SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- endFeatureOfUnclaimed ({"runs":"named_of_thread","filtered":false,"feature":"webhooks"})
-- (now bigint, now bigint, now bigint, run_ids text, deployment text, thread_id text, now bigint, now bigint, now bigint, run_ids text, deployment text, thread_id text)
insert into webhook_deliveries ("delivery_id", "deployment", "url", "host", "depth", "state", "attempts", "series_attempts", "due_at", "created_at", "thread_id", "assistant_id", "status", "metadata", "kwargs", "multitask_strategy", "attempt", "stateless", "run_created_at", "started_at", "ended_at", "error", "state_values", "values_omitted", "cancel_reason", "run_id", "push", "interrupts", "assistant_version", "trace_origin")
    select r.run_id, r.deployment, r.webhook, coalesce(r.webhook_host, ''), r.webhook_depth, 'pending', 0, 0, (select ?), (select ?), r.thread_id, r.assistant_id, 'interrupted', r.metadata, r.kwargs, r.multitask_strategy, r.attempt, r.stateless, r.created_at, r.started_at, (select ?), null, case when r.stateless = 1 then null else null end, case when r.stateless = 1 then 0 else 0 end, case when 'interrupted' = 'interrupted' then r.cancel_reason else null end, r.run_id, null, null, r.assistant_version, r.trace_origin from (select * from runs where webhook is not null and run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true) and claims = 0) r
    union all
    select substr(c.push_id, 1, 24) || substr(r.run_id, 25), r.deployment, c.url, c.host, 0, 'pending', 0, 0, (select ?), (select ?), r.thread_id, r.assistant_id, 'interrupted', '{}', '{}', r.multitask_strategy, r.attempt, r.stateless, r.created_at, r.started_at, (select ?), null, null, 0, null, r.run_id, c.config, case when 'interrupted' = 'success' then (select t.interrupts from threads t
      where t.deployment = r.deployment and t.thread_id = r.thread_id) else null end, r.assistant_version, r.trace_origin from (select * from runs where run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true) and claims = 0) r join push_configs c on c.last_run = r.run_id
    where true on conflict do nothing
-- Postgres:
insert into webhook_deliveries ("delivery_id", "deployment", "url", "host", "depth", "state", "attempts", "series_attempts", "due_at", "created_at", "thread_id", "assistant_id", "status", "metadata", "kwargs", "multitask_strategy", "attempt", "stateless", "run_created_at", "started_at", "ended_at", "error", "state_values", "values_omitted", "cancel_reason", "run_id", "push", "interrupts", "assistant_version", "trace_origin")
    select r.run_id, r.deployment, r.webhook, coalesce(r.webhook_host, ''), r.webhook_depth, 'pending', 0, 0, $1::bigint, $2::bigint, r.thread_id, r.assistant_id, 'interrupted', r.metadata, r.kwargs, r.multitask_strategy, r.attempt, r.stateless, r.created_at, r.started_at, $3::bigint, null, case when r.stateless = 1 then null else null end, case when r.stateless = 1 then 0 else 0 end, case when 'interrupted' = 'interrupted' then r.cancel_reason else null end, r.run_id, null, null, r.assistant_version, r.trace_origin from (select * from runs where webhook is not null and run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($4::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $5::text and n.thread_id = $6::text and n.status = 'pending'
      and true) and claims = 0) r
    union all
    select substr(c.push_id, 1, 24) || substr(r.run_id, 25), r.deployment, c.url, c.host, 0, 'pending', 0, 0, $7::bigint, $8::bigint, r.thread_id, r.assistant_id, 'interrupted', '{}', '{}', r.multitask_strategy, r.attempt, r.stateless, r.created_at, r.started_at, $9::bigint, null, null, 0, null, r.run_id, c.config, case when 'interrupted' = 'success' then (select t.interrupts from threads t
      where t.deployment = r.deployment and t.thread_id = r.thread_id) else null end, r.assistant_version, r.trace_origin from (select * from runs where run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($10::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $11::text and n.thread_id = $12::text and n.status = 'pending'
      and true) and claims = 0) r join push_configs c on c.last_run = r.run_id
    where true on conflict do nothing
--   COMPOUND QUERY
--     LEFT-MOST SUBQUERY
--       SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       LIST SUBQUERY
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     UNION ALL
--       SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       LIST SUBQUERY
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       SEARCH c USING INDEX push_configs_last (last_run=?)
--       CORRELATED SCALAR SUBQUERY
--         SEARCH t USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SEARCH delivery_attempts USING COVERING INDEX sqlite_autoindex_delivery_attempts_1 (delivery_id=?)

-- endUnclaimed ({"runs":"evicted","filtered":false})
-- (now bigint, now bigint, deployment text, thread_id text, deployment text, thread_id text, run_id text, run_id text)

      update runs set status = 'interrupted', ended_at = (select ?), updated_at = (select ?),
        end_frame = cast(1 as bigint) + case when feedback is not null then 1 else 0 end
      where run_id in (select e.run_id from runs e where e.deployment = (select ?) and e.thread_id = (select ?)
      and e.status = 'pending' and exists (select 1 from threads w where w.deployment = (select ?)
        and w.thread_id = (select ?) and w.last_run = (select ?))
      and not exists (select 1 from runs where run_id = (select ?))) and claims = 0 returning run_id, thread_id, end_frame
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   LIST SUBQUERY
--     SEARCH w EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     SCALAR SUBQUERY
--       SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     SEARCH e USING INDEX runs_waiting (deployment=? AND thread_id=?)

-- endUnclaimed ({"runs":"named","filtered":true})
-- (now bigint, now bigint, run_ids text, deployment text, filter text)

      update runs set status = 'interrupted', ended_at = (select ?), updated_at = (select ?),
        end_frame = cast(1 as bigint) + case when feedback is not null then 1 else 0 end
      where run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and true and n.status = 'pending'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))) and claims = 0 returning run_id, thread_id, end_frame
-- Postgres:

      update runs set status = 'interrupted', ended_at = $1::bigint, updated_at = $2::bigint,
        end_frame = cast(1 as bigint) + case when feedback is not null then 1 else 0 end
      where run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($3::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $4::text and true and n.status = 'pending'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($5::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))) and claims = 0 returning run_id, thread_id, end_frame
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:

-- endUnclaimed ({"runs":"named_of_thread","filtered":false})
-- (now bigint, now bigint, run_ids text, deployment text, thread_id text)

      update runs set status = 'interrupted', ended_at = (select ?), updated_at = (select ?),
        end_frame = cast(1 as bigint) + case when feedback is not null then 1 else 0 end
      where run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true) and claims = 0 returning run_id, thread_id, end_frame
-- Postgres:

      update runs set status = 'interrupted', ended_at = $1::bigint, updated_at = $2::bigint,
        end_frame = cast(1 as bigint) + case when feedback is not null then 1 else 0 end
      where run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($3::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $4::text and n.thread_id = $5::text and n.status = 'pending'
      and true) and claims = 0 returning run_id, thread_id, end_frame
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- flagRuns ({"runs":"evicted","filtered":false})
-- (now bigint, now bigint, deployment text, thread_id text, deployment text, thread_id text, run_id text, run_id text, deployment text, thread_id text, deployment text, thread_id text, run_id text, run_id text)

      update runs set cancelled = 1,
        due_at = case when waiting_for is not null and due_at > updated_at then (select ?) else due_at end,
        updated_at = case when waiting_for is not null and due_at > updated_at then (select ?) else updated_at end
      where run_id in (select e.run_id from runs e where e.deployment = (select ?) and e.thread_id = (select ?)
      and e.status = 'pending' and exists (select 1 from threads w where w.deployment = (select ?)
        and w.thread_id = (select ?) and w.last_run = (select ?))
      and not exists (select 1 from runs where run_id = (select ?)) union all select e.run_id from runs e where e.deployment = (select ?) and e.thread_id = (select ?)
      and e.status = 'running' and exists (select 1 from threads w where w.deployment = (select ?)
        and w.thread_id = (select ?) and w.last_run = (select ?))
      and not exists (select 1 from runs where run_id = (select ?))) returning run_id, thread_id, lease_token
--   SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   LIST SUBQUERY
--     COMPOUND QUERY
--       LEFT-MOST SUBQUERY
--         SEARCH w EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--         SCALAR SUBQUERY
--           SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         SEARCH e USING INDEX runs_waiting (deployment=? AND thread_id=?)
--       UNION ALL
--         SEARCH e USING INDEX runs_running (deployment=? AND thread_id=?)
--         SCALAR SUBQUERY
--           SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         SEARCH w EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)

-- flagRuns ({"runs":"named","filtered":true})
-- (now bigint, now bigint, run_ids text, deployment text, filter text, run_ids text, deployment text, filter text)

      update runs set cancelled = 1,
        due_at = case when waiting_for is not null and due_at > updated_at then (select ?) else due_at end,
        updated_at = case when waiting_for is not null and due_at > updated_at then (select ?) else updated_at end
      where run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and true and n.status = 'pending'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and true and n.status = 'running'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))) returning run_id, thread_id, lease_token
-- Postgres:

      update runs set cancelled = 1,
        due_at = case when waiting_for is not null and due_at > updated_at then $1::bigint else due_at end,
        updated_at = case when waiting_for is not null and due_at > updated_at then $2::bigint else updated_at end
      where run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($3::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $4::text and true and n.status = 'pending'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($5::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) union all select n.run_id from (select value collate "C" as value from json_array_elements_text($6::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $7::text and true and n.status = 'running'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($8::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))) returning run_id, thread_id, lease_token
--   SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   LIST SUBQUERY
--     COMPOUND QUERY
--       LEFT-MOST SUBQUERY
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--         CORRELATED SCALAR SUBQUERY
--           SCAN c VIRTUAL TABLE INDEX 1:
--           CORRELATED SCALAR SUBQUERY
--             SCAN m VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY
--               SCAN e VIRTUAL TABLE INDEX 1:
--       UNION ALL
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--         CORRELATED SCALAR SUBQUERY
--           SCAN c VIRTUAL TABLE INDEX 1:
--           CORRELATED SCALAR SUBQUERY
--             SCAN m VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY
--               SCAN e VIRTUAL TABLE INDEX 1:

-- flagRuns ({"runs":"named_of_thread","filtered":false})
-- (now bigint, now bigint, run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text)

      update runs set cancelled = 1,
        due_at = case when waiting_for is not null and due_at > updated_at then (select ?) else due_at end,
        updated_at = case when waiting_for is not null and due_at > updated_at then (select ?) else updated_at end
      where run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'running'
      and true) returning run_id, thread_id, lease_token
-- Postgres:

      update runs set cancelled = 1,
        due_at = case when waiting_for is not null and due_at > updated_at then $1::bigint else due_at end,
        updated_at = case when waiting_for is not null and due_at > updated_at then $2::bigint else updated_at end
      where run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($3::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $4::text and n.thread_id = $5::text and n.status = 'pending'
      and true union all select n.run_id from (select value collate "C" as value from json_array_elements_text($6::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $7::text and n.thread_id = $8::text and n.status = 'running'
      and true) returning run_id, thread_id, lease_token
--   SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   LIST SUBQUERY
--     COMPOUND QUERY
--       LEFT-MOST SUBQUERY
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       UNION ALL
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH n USING INDEX runs_running (deployment=? AND thread_id=?)

-- insertEnds ({"runs":"evicted","filtered":false})
-- (now bigint, now bigint, deployment text, thread_id text, deployment text, thread_id text, run_id text, run_id text, deployment text, thread_id text, deployment text, thread_id text, run_id text, run_id text, deployment text)
insert into thread_events (deployment, thread_id, first_seq, last_seq, run_id, methods, size, created_at, events)
    select r.deployment, r.thread_id, t.claim_count * 4294967296 + r.seq % 65536, t.claim_count * 4294967296 + r.seq % 65536, r.run_id, 1, 30, (select ?), '[[0,0,[],' || cast((select ?) as text) || ',"{\"event\":\"interrupted\"}"]]'
    from runs r cross join threads t where r.run_id in (select e.run_id from runs e where e.deployment = (select ?) and e.thread_id = (select ?)
      and e.status = 'pending' and exists (select 1 from threads w where w.deployment = (select ?)
        and w.thread_id = (select ?) and w.last_run = (select ?))
      and not exists (select 1 from runs where run_id = (select ?)) union all select e.run_id from runs e where e.deployment = (select ?) and e.thread_id = (select ?)
      and e.status = 'running' and exists (select 1 from threads w where w.deployment = (select ?)
        and w.thread_id = (select ?) and w.last_run = (select ?))
      and not exists (select 1 from runs where run_id = (select ?))) and r.stateless = 0
      and r.deployment = (select ?) and t.deployment = r.deployment and t.thread_id = r.thread_id
    on conflict do nothing
--   SEARCH r USING INDEX runs_status (deployment=?)
--   LIST SUBQUERY
--     COMPOUND QUERY
--       LEFT-MOST SUBQUERY
--         SEARCH w EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--         SCALAR SUBQUERY
--           SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         SEARCH e USING INDEX runs_waiting (deployment=? AND thread_id=?)
--         CREATE BLOOM FILTER
--       UNION ALL
--         SEARCH e USING INDEX runs_running (deployment=? AND thread_id=?)
--         SCALAR SUBQUERY
--           SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         SEARCH w EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--         CREATE BLOOM FILTER
--   SEARCH t USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   REUSE SUBQUERY

-- insertEnds ({"runs":"named","filtered":true})
-- (now bigint, now bigint, run_ids text, deployment text, filter text, run_ids text, deployment text, filter text, deployment text)
insert into thread_events (deployment, thread_id, first_seq, last_seq, run_id, methods, size, created_at, events)
    select r.deployment, r.thread_id, t.claim_count * 4294967296 + r.seq % 65536, t.claim_count * 4294967296 + r.seq % 65536, r.run_id, 1, 30, (select ?), '[[0,0,[],' || cast((select ?) as text) || ',"{\"event\":\"interrupted\"}"]]'
    from runs r cross join threads t where r.run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and true and n.status = 'pending'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and true and n.status = 'running'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))) and r.stateless = 0
      and r.deployment = (select ?) and t.deployment = r.deployment and t.thread_id = r.thread_id
    on conflict do nothing
-- Postgres:
insert into thread_events (deployment, thread_id, first_seq, last_seq, run_id, methods, size, created_at, events)
    select r.deployment, r.thread_id, t.claim_count * 4294967296 + r.seq % 65536, t.claim_count * 4294967296 + r.seq % 65536, r.run_id, 1, 30, $1::bigint, '[[0,0,[],' || cast($2::bigint as text) || ',"{\"event\":\"interrupted\"}"]]'
    from runs r cross join threads t where r.run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($3::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $4::text and true and n.status = 'pending'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($5::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) union all select n.run_id from (select value collate "C" as value from json_array_elements_text($6::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $7::text and true and n.status = 'running'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($8::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))) and r.stateless = 0
      and r.deployment = $9::text and t.deployment = r.deployment and t.thread_id = r.thread_id
    on conflict do nothing
--   SEARCH r USING INDEX runs_status (deployment=?)
--   LIST SUBQUERY
--     COMPOUND QUERY
--       LEFT-MOST SUBQUERY
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--         CORRELATED SCALAR SUBQUERY
--           SCAN c VIRTUAL TABLE INDEX 1:
--           CORRELATED SCALAR SUBQUERY
--             SCAN m VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY
--               SCAN e VIRTUAL TABLE INDEX 1:
--         CREATE BLOOM FILTER
--       UNION ALL
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--         CORRELATED SCALAR SUBQUERY
--           SCAN c VIRTUAL TABLE INDEX 1:
--           CORRELATED SCALAR SUBQUERY
--             SCAN m VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY
--               SCAN e VIRTUAL TABLE INDEX 1:
--         CREATE BLOOM FILTER
--   SEARCH t USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   REUSE SUBQUERY

-- insertEnds ({"runs":"named_of_thread","filtered":false})
-- (now bigint, now bigint, run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text, deployment text)
insert into thread_events (deployment, thread_id, first_seq, last_seq, run_id, methods, size, created_at, events)
    select r.deployment, r.thread_id, t.claim_count * 4294967296 + r.seq % 65536, t.claim_count * 4294967296 + r.seq % 65536, r.run_id, 1, 30, (select ?), '[[0,0,[],' || cast((select ?) as text) || ',"{\"event\":\"interrupted\"}"]]'
    from runs r cross join threads t where r.run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'running'
      and true) and r.stateless = 0
      and r.deployment = (select ?) and t.deployment = r.deployment and t.thread_id = r.thread_id
    on conflict do nothing
-- Postgres:
insert into thread_events (deployment, thread_id, first_seq, last_seq, run_id, methods, size, created_at, events)
    select r.deployment, r.thread_id, t.claim_count * 4294967296 + r.seq % 65536, t.claim_count * 4294967296 + r.seq % 65536, r.run_id, 1, 30, $1::bigint, '[[0,0,[],' || cast($2::bigint as text) || ',"{\"event\":\"interrupted\"}"]]'
    from runs r cross join threads t where r.run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($3::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $4::text and n.thread_id = $5::text and n.status = 'pending'
      and true union all select n.run_id from (select value collate "C" as value from json_array_elements_text($6::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $7::text and n.thread_id = $8::text and n.status = 'running'
      and true) and r.stateless = 0
      and r.deployment = $9::text and t.deployment = r.deployment and t.thread_id = r.thread_id
    on conflict do nothing
--   SEARCH r USING INDEX runs_status (deployment=?)
--   LIST SUBQUERY
--     COMPOUND QUERY
--       LEFT-MOST SUBQUERY
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         CREATE BLOOM FILTER
--       UNION ALL
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH n USING INDEX runs_running (deployment=? AND thread_id=?)
--         CREATE BLOOM FILTER
--   SEARCH t USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   REUSE SUBQUERY

-- insertEnds ({"runs":"pending","filtered":false})
-- (now bigint, now bigint, deployment text, thread_id text, run_id text, deployment text)
insert into thread_events (deployment, thread_id, first_seq, last_seq, run_id, methods, size, created_at, events)
    select r.deployment, r.thread_id, t.claim_count * 4294967296 + r.seq % 65536, t.claim_count * 4294967296 + r.seq % 65536, r.run_id, 1, 30, (select ?), '[[0,0,[],' || cast((select ?) as text) || ',"{\"event\":\"interrupted\"}"]]'
    from runs r cross join threads t where r.run_id in (select run_id from runs where deployment = (select ?) and thread_id = (select ?) and run_id = (select ?)
    and true and status = 'pending') and r.stateless = 0
      and r.deployment = (select ?) and t.deployment = r.deployment and t.thread_id = r.thread_id
    on conflict do nothing
--   SEARCH r USING INDEX runs_status (deployment=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     CREATE BLOOM FILTER
--   SEARCH t USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   REUSE SUBQUERY

-- insertEnds ({"runs":"resting","filtered":true})
-- (now bigint, now bigint, deployment text, thread_id text, run_id text, filter text, deployment text)
insert into thread_events (deployment, thread_id, first_seq, last_seq, run_id, methods, size, created_at, events)
    select r.deployment, r.thread_id, t.claim_count * 4294967296 + r.seq % 65536, t.claim_count * 4294967296 + r.seq % 65536, r.run_id, 1, 30, (select ?), '[[0,0,[],' || cast((select ?) as text) || ',"{\"event\":\"interrupted\"}"]]'
    from runs r cross join threads t where r.run_id in (select run_id from runs where deployment = (select ?) and thread_id = (select ?) and run_id = (select ?)
    and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) and status <> 'running') and r.stateless = 0
      and r.deployment = (select ?) and t.deployment = r.deployment and t.thread_id = r.thread_id
    on conflict do nothing
-- Postgres:
insert into thread_events (deployment, thread_id, first_seq, last_seq, run_id, methods, size, created_at, events)
    select r.deployment, r.thread_id, t.claim_count * 4294967296 + r.seq % 65536, t.claim_count * 4294967296 + r.seq % 65536, r.run_id, 1, 30, $1::bigint, '[[0,0,[],' || cast($2::bigint as text) || ',"{\"event\":\"interrupted\"}"]]'
    from runs r cross join threads t where r.run_id in (select run_id from runs where deployment = $3::text and thread_id = $4::text and run_id = $5::text
    and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($6::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) and status <> 'running') and r.stateless = 0
      and r.deployment = $7::text and t.deployment = r.deployment and t.thread_id = r.thread_id
    on conflict do nothing
--   SEARCH r USING INDEX runs_status (deployment=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:
--     CREATE BLOOM FILTER
--   SEARCH t USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   REUSE SUBQUERY

-- insertEndsOfUnclaimed ({"runs":"evicted","filtered":false})
-- (now bigint, now bigint, deployment text, thread_id text, deployment text, thread_id text, run_id text, run_id text, deployment text)
insert into thread_events (deployment, thread_id, first_seq, last_seq, run_id, methods, size, created_at, events)
    select r.deployment, r.thread_id, t.claim_count * 4294967296 + r.seq % 65536, t.claim_count * 4294967296 + r.seq % 65536, r.run_id, 1, 30, (select ?), '[[0,0,[],' || cast((select ?) as text) || ',"{\"event\":\"interrupted\"}"]]'
    from runs r cross join threads t where r.run_id in (select run_id from runs where run_id in (select e.run_id from runs e where e.deployment = (select ?) and e.thread_id = (select ?)
      and e.status = 'pending' and exists (select 1 from threads w where w.deployment = (select ?)
        and w.thread_id = (select ?) and w.last_run = (select ?))
      and not exists (select 1 from runs where run_id = (select ?))) and claims = 0) and r.stateless = 0
      and r.deployment = (select ?) and t.deployment = r.deployment and t.thread_id = r.thread_id
    on conflict do nothing
--   SEARCH r USING INDEX runs_status (deployment=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SEARCH w EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--       SCALAR SUBQUERY
--         SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       SEARCH e USING INDEX runs_waiting (deployment=? AND thread_id=?)
--     CREATE BLOOM FILTER
--   SEARCH t USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   REUSE SUBQUERY

-- insertEndsOfUnclaimed ({"runs":"named","filtered":true})
-- (now bigint, now bigint, run_ids text, deployment text, filter text, deployment text)
insert into thread_events (deployment, thread_id, first_seq, last_seq, run_id, methods, size, created_at, events)
    select r.deployment, r.thread_id, t.claim_count * 4294967296 + r.seq % 65536, t.claim_count * 4294967296 + r.seq % 65536, r.run_id, 1, 30, (select ?), '[[0,0,[],' || cast((select ?) as text) || ',"{\"event\":\"interrupted\"}"]]'
    from runs r cross join threads t where r.run_id in (select run_id from runs where run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and true and n.status = 'pending'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))) and claims = 0) and r.stateless = 0
      and r.deployment = (select ?) and t.deployment = r.deployment and t.thread_id = r.thread_id
    on conflict do nothing
-- Postgres:
insert into thread_events (deployment, thread_id, first_seq, last_seq, run_id, methods, size, created_at, events)
    select r.deployment, r.thread_id, t.claim_count * 4294967296 + r.seq % 65536, t.claim_count * 4294967296 + r.seq % 65536, r.run_id, 1, 30, $1::bigint, '[[0,0,[],' || cast($2::bigint as text) || ',"{\"event\":\"interrupted\"}"]]'
    from runs r cross join threads t where r.run_id in (select run_id from runs where run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($3::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $4::text and true and n.status = 'pending'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($5::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))) and claims = 0) and r.stateless = 0
      and r.deployment = $6::text and t.deployment = r.deployment and t.thread_id = r.thread_id
    on conflict do nothing
--   SEARCH r USING INDEX runs_status (deployment=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SCAN json_each VIRTUAL TABLE INDEX 1:
--       SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--       CORRELATED SCALAR SUBQUERY
--         SCAN c VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN m VIRTUAL TABLE INDEX 1:
--           CORRELATED SCALAR SUBQUERY
--             SCAN e VIRTUAL TABLE INDEX 1:
--     CREATE BLOOM FILTER
--   SEARCH t USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   REUSE SUBQUERY

-- insertEndsOfUnclaimed ({"runs":"named_of_thread","filtered":false})
-- (now bigint, now bigint, run_ids text, deployment text, thread_id text, deployment text)
insert into thread_events (deployment, thread_id, first_seq, last_seq, run_id, methods, size, created_at, events)
    select r.deployment, r.thread_id, t.claim_count * 4294967296 + r.seq % 65536, t.claim_count * 4294967296 + r.seq % 65536, r.run_id, 1, 30, (select ?), '[[0,0,[],' || cast((select ?) as text) || ',"{\"event\":\"interrupted\"}"]]'
    from runs r cross join threads t where r.run_id in (select run_id from runs where run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true) and claims = 0) and r.stateless = 0
      and r.deployment = (select ?) and t.deployment = r.deployment and t.thread_id = r.thread_id
    on conflict do nothing
-- Postgres:
insert into thread_events (deployment, thread_id, first_seq, last_seq, run_id, methods, size, created_at, events)
    select r.deployment, r.thread_id, t.claim_count * 4294967296 + r.seq % 65536, t.claim_count * 4294967296 + r.seq % 65536, r.run_id, 1, 30, $1::bigint, '[[0,0,[],' || cast($2::bigint as text) || ',"{\"event\":\"interrupted\"}"]]'
    from runs r cross join threads t where r.run_id in (select run_id from runs where run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($3::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $4::text and n.thread_id = $5::text and n.status = 'pending'
      and true) and claims = 0) and r.stateless = 0
      and r.deployment = $6::text and t.deployment = r.deployment and t.thread_id = r.thread_id
    on conflict do nothing
--   SEARCH r USING INDEX runs_status (deployment=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SCAN json_each VIRTUAL TABLE INDEX 1:
--       SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     CREATE BLOOM FILTER
--   SEARCH t USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   REUSE SUBQUERY

-- markThreads ({"runs":"evicted","filtered":false})
-- (deployment text, deployment text, thread_id text, deployment text, thread_id text, run_id text, run_id text, deployment text, thread_id text, deployment text, thread_id text, run_id text, run_id text)
update threads set last_run = null where deployment = (select ?)
      and thread_id in (select r.thread_id from runs r where r.run_id in (select e.run_id from runs e where e.deployment = (select ?) and e.thread_id = (select ?)
      and e.status = 'pending' and exists (select 1 from threads w where w.deployment = (select ?)
        and w.thread_id = (select ?) and w.last_run = (select ?))
      and not exists (select 1 from runs where run_id = (select ?)) union all select e.run_id from runs e where e.deployment = (select ?) and e.thread_id = (select ?)
      and e.status = 'running' and exists (select 1 from threads w where w.deployment = (select ?)
        and w.thread_id = (select ?) and w.last_run = (select ?))
      and not exists (select 1 from runs where run_id = (select ?))))
      and (hidden = 1 or slot_token is not null)
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH r USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       COMPOUND QUERY
--         LEFT-MOST SUBQUERY
--           SEARCH w EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--           SCALAR SUBQUERY
--             SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--           SEARCH e USING INDEX runs_waiting (deployment=? AND thread_id=?)
--         UNION ALL
--           SEARCH e USING INDEX runs_running (deployment=? AND thread_id=?)
--           SCALAR SUBQUERY
--             SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--           SEARCH w EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)

-- markThreads ({"runs":"named","filtered":true})
-- (deployment text, run_ids text, deployment text, filter text, run_ids text, deployment text, filter text)
update threads set last_run = null where deployment = (select ?)
      and thread_id in (select r.thread_id from runs r where r.run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and true and n.status = 'pending'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and true and n.status = 'running'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))))
      and (hidden = 1 or slot_token is not null)
-- Postgres:
update threads set last_run = null where deployment = $1::text
      and thread_id in (select r.thread_id from runs r where r.run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($2::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $3::text and true and n.status = 'pending'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($4::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) union all select n.run_id from (select value collate "C" as value from json_array_elements_text($5::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $6::text and true and n.status = 'running'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($7::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))))
      and (hidden = 1 or slot_token is not null)
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH r USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       COMPOUND QUERY
--         LEFT-MOST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--           SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--           CORRELATED SCALAR SUBQUERY
--             SCAN c VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY
--               SCAN m VIRTUAL TABLE INDEX 1:
--               CORRELATED SCALAR SUBQUERY
--                 SCAN e VIRTUAL TABLE INDEX 1:
--         UNION ALL
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--           SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--           CORRELATED SCALAR SUBQUERY
--             SCAN c VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY
--               SCAN m VIRTUAL TABLE INDEX 1:
--               CORRELATED SCALAR SUBQUERY
--                 SCAN e VIRTUAL TABLE INDEX 1:

-- markThreads ({"runs":"named_of_thread","filtered":false})
-- (deployment text, run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text)
update threads set last_run = null where deployment = (select ?)
      and thread_id in (select r.thread_id from runs r where r.run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'running'
      and true))
      and (hidden = 1 or slot_token is not null)
-- Postgres:
update threads set last_run = null where deployment = $1::text
      and thread_id in (select r.thread_id from runs r where r.run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($2::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $3::text and n.thread_id = $4::text and n.status = 'pending'
      and true union all select n.run_id from (select value collate "C" as value from json_array_elements_text($5::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $6::text and n.thread_id = $7::text and n.status = 'running'
      and true))
      and (hidden = 1 or slot_token is not null)
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH r USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       COMPOUND QUERY
--         LEFT-MOST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         UNION ALL
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX runs_running (deployment=? AND thread_id=?)

-- markThreads ({"runs":"pending","filtered":false})
-- (deployment text, deployment text, thread_id text, run_id text)
update threads set last_run = null where deployment = (select ?)
      and thread_id in (select r.thread_id from runs r where r.run_id in (select run_id from runs where deployment = (select ?) and thread_id = (select ?) and run_id = (select ?)
    and true and status = 'pending'))
      and (hidden = 1 or slot_token is not null)
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH r USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- markThreads ({"runs":"resting","filtered":true})
-- (deployment text, deployment text, thread_id text, run_id text, filter text)
update threads set last_run = null where deployment = (select ?)
      and thread_id in (select r.thread_id from runs r where r.run_id in (select run_id from runs where deployment = (select ?) and thread_id = (select ?) and run_id = (select ?)
    and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) and status <> 'running'))
      and (hidden = 1 or slot_token is not null)
-- Postgres:
update threads set last_run = null where deployment = $1::text
      and thread_id in (select r.thread_id from runs r where r.run_id in (select run_id from runs where deployment = $2::text and thread_id = $3::text and run_id = $4::text
    and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($5::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) and status <> 'running'))
      and (hidden = 1 or slot_token is not null)
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH r USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--       CORRELATED SCALAR SUBQUERY
--         SCAN c VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN m VIRTUAL TABLE INDEX 1:
--           CORRELATED SCALAR SUBQUERY
--             SCAN e VIRTUAL TABLE INDEX 1:

-- selectOrphanedThread
-- (deployment text, now bigint)
select "thread_id" from "threads" where deployment = ? and last_run is null and run_count > 0 and hidden = 1
    and (slot_token is null or slot_until <= ?)
    and not exists (select 1 from runs r where r.deployment = threads.deployment and r.thread_id = threads.thread_id) limit 1
--   SEARCH threads USING INDEX threads_left (deployment=? AND hidden=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_order (deployment=? AND thread_id=?)

-- setCancelReason ({"runs":"evicted","filtered":false})
-- (cancel_reason text, deployment text, thread_id text, deployment text, thread_id text, run_id text, run_id text, deployment text, thread_id text, deployment text, thread_id text, run_id text, run_id text)
update runs set cancel_reason = (select ?) where run_id in (select e.run_id from runs e where e.deployment = (select ?) and e.thread_id = (select ?)
      and e.status = 'pending' and exists (select 1 from threads w where w.deployment = (select ?)
        and w.thread_id = (select ?) and w.last_run = (select ?))
      and not exists (select 1 from runs where run_id = (select ?)) union all select e.run_id from runs e where e.deployment = (select ?) and e.thread_id = (select ?)
      and e.status = 'running' and exists (select 1 from threads w where w.deployment = (select ?)
        and w.thread_id = (select ?) and w.last_run = (select ?))
      and not exists (select 1 from runs where run_id = (select ?)))
      and cancelled = 0
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   LIST SUBQUERY
--     COMPOUND QUERY
--       LEFT-MOST SUBQUERY
--         SEARCH w EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--         SCALAR SUBQUERY
--           SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         SEARCH e USING INDEX runs_waiting (deployment=? AND thread_id=?)
--       UNION ALL
--         SEARCH e USING INDEX runs_running (deployment=? AND thread_id=?)
--         SCALAR SUBQUERY
--           SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         SEARCH w EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)

-- setCancelReason ({"runs":"named","filtered":true})
-- (cancel_reason text, run_ids text, deployment text, filter text, run_ids text, deployment text, filter text)
update runs set cancel_reason = (select ?) where run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and true and n.status = 'pending'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and true and n.status = 'running'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))))
      and cancelled = 0
-- Postgres:
update runs set cancel_reason = $1::text where run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($2::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $3::text and true and n.status = 'pending'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($4::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) union all select n.run_id from (select value collate "C" as value from json_array_elements_text($5::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $6::text and true and n.status = 'running'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($7::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))))
      and cancelled = 0
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   LIST SUBQUERY
--     COMPOUND QUERY
--       LEFT-MOST SUBQUERY
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--         CORRELATED SCALAR SUBQUERY
--           SCAN c VIRTUAL TABLE INDEX 1:
--           CORRELATED SCALAR SUBQUERY
--             SCAN m VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY
--               SCAN e VIRTUAL TABLE INDEX 1:
--       UNION ALL
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--         CORRELATED SCALAR SUBQUERY
--           SCAN c VIRTUAL TABLE INDEX 1:
--           CORRELATED SCALAR SUBQUERY
--             SCAN m VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY
--               SCAN e VIRTUAL TABLE INDEX 1:

-- setCancelReason ({"runs":"named_of_thread","filtered":false})
-- (cancel_reason text, run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text)
update runs set cancel_reason = (select ?) where run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'running'
      and true)
      and cancelled = 0
-- Postgres:
update runs set cancel_reason = $1::text where run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($2::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $3::text and n.thread_id = $4::text and n.status = 'pending'
      and true union all select n.run_id from (select value collate "C" as value from json_array_elements_text($5::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $6::text and n.thread_id = $7::text and n.status = 'running'
      and true)
      and cancelled = 0
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   LIST SUBQUERY
--     COMPOUND QUERY
--       LEFT-MOST SUBQUERY
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       UNION ALL
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH n USING INDEX runs_running (deployment=? AND thread_id=?)

-- takeClaimNumbers ({"runs":"evicted","filtered":false})
-- (deployment text, deployment text, thread_id text, deployment text, thread_id text, run_id text, run_id text, deployment text, thread_id text, deployment text, thread_id text, run_id text, run_id text, deployment text)
update threads set claim_count = claim_count + 1 where deployment = (select ?)
    and thread_id in (select r.thread_id from runs r where r.run_id in (select e.run_id from runs e where e.deployment = (select ?) and e.thread_id = (select ?)
      and e.status = 'pending' and exists (select 1 from threads w where w.deployment = (select ?)
        and w.thread_id = (select ?) and w.last_run = (select ?))
      and not exists (select 1 from runs where run_id = (select ?)) union all select e.run_id from runs e where e.deployment = (select ?) and e.thread_id = (select ?)
      and e.status = 'running' and exists (select 1 from threads w where w.deployment = (select ?)
        and w.thread_id = (select ?) and w.last_run = (select ?))
      and not exists (select 1 from runs where run_id = (select ?))) and r.stateless = 0 and r.deployment = (select ?))
--   SEARCH threads USING COVERING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH r USING INDEX runs_status (deployment=?)
--     LIST SUBQUERY
--       COMPOUND QUERY
--         LEFT-MOST SUBQUERY
--           SEARCH w EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--           SCALAR SUBQUERY
--             SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--           SEARCH e USING INDEX runs_waiting (deployment=? AND thread_id=?)
--           CREATE BLOOM FILTER
--         UNION ALL
--           SEARCH e USING INDEX runs_running (deployment=? AND thread_id=?)
--           SCALAR SUBQUERY
--             SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--           SEARCH w EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--           CREATE BLOOM FILTER

-- takeClaimNumbers ({"runs":"named","filtered":true})
-- (deployment text, run_ids text, deployment text, filter text, run_ids text, deployment text, filter text, deployment text)
update threads set claim_count = claim_count + 1 where deployment = (select ?)
    and thread_id in (select r.thread_id from runs r where r.run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and true and n.status = 'pending'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and true and n.status = 'running'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))) and r.stateless = 0 and r.deployment = (select ?))
-- Postgres:
update threads set claim_count = claim_count + 1 where deployment = $1::text
    and thread_id in (select r.thread_id from runs r where r.run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($2::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $3::text and true and n.status = 'pending'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($4::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) union all select n.run_id from (select value collate "C" as value from json_array_elements_text($5::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $6::text and true and n.status = 'running'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($7::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))) and r.stateless = 0 and r.deployment = $8::text)
--   SEARCH threads USING COVERING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH r USING INDEX runs_status (deployment=?)
--     LIST SUBQUERY
--       COMPOUND QUERY
--         LEFT-MOST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--           SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--           CORRELATED SCALAR SUBQUERY
--             SCAN c VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY
--               SCAN m VIRTUAL TABLE INDEX 1:
--               CORRELATED SCALAR SUBQUERY
--                 SCAN e VIRTUAL TABLE INDEX 1:
--           CREATE BLOOM FILTER
--         UNION ALL
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--           SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--           CORRELATED SCALAR SUBQUERY
--             SCAN c VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY
--               SCAN m VIRTUAL TABLE INDEX 1:
--               CORRELATED SCALAR SUBQUERY
--                 SCAN e VIRTUAL TABLE INDEX 1:
--           CREATE BLOOM FILTER

-- takeClaimNumbers ({"runs":"named_of_thread","filtered":false})
-- (deployment text, run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text, deployment text)
update threads set claim_count = claim_count + 1 where deployment = (select ?)
    and thread_id in (select r.thread_id from runs r where r.run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'running'
      and true) and r.stateless = 0 and r.deployment = (select ?))
-- Postgres:
update threads set claim_count = claim_count + 1 where deployment = $1::text
    and thread_id in (select r.thread_id from runs r where r.run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($2::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $3::text and n.thread_id = $4::text and n.status = 'pending'
      and true union all select n.run_id from (select value collate "C" as value from json_array_elements_text($5::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $6::text and n.thread_id = $7::text and n.status = 'running'
      and true) and r.stateless = 0 and r.deployment = $8::text)
--   SEARCH threads USING COVERING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH r USING INDEX runs_status (deployment=?)
--     LIST SUBQUERY
--       COMPOUND QUERY
--         LEFT-MOST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--           CREATE BLOOM FILTER
--         UNION ALL
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX runs_running (deployment=? AND thread_id=?)
--           CREATE BLOOM FILTER

-- takeClaimNumbers ({"runs":"pending","filtered":false})
-- (deployment text, deployment text, thread_id text, run_id text, deployment text)
update threads set claim_count = claim_count + 1 where deployment = (select ?)
    and thread_id in (select r.thread_id from runs r where r.run_id in (select run_id from runs where deployment = (select ?) and thread_id = (select ?) and run_id = (select ?)
    and true and status = 'pending') and r.stateless = 0 and r.deployment = (select ?))
--   SEARCH threads USING COVERING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH r USING INDEX runs_status (deployment=?)
--     LIST SUBQUERY
--       SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       CREATE BLOOM FILTER

-- takeClaimNumbers ({"runs":"resting","filtered":true})
-- (deployment text, deployment text, thread_id text, run_id text, filter text, deployment text)
update threads set claim_count = claim_count + 1 where deployment = (select ?)
    and thread_id in (select r.thread_id from runs r where r.run_id in (select run_id from runs where deployment = (select ?) and thread_id = (select ?) and run_id = (select ?)
    and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) and status <> 'running') and r.stateless = 0 and r.deployment = (select ?))
-- Postgres:
update threads set claim_count = claim_count + 1 where deployment = $1::text
    and thread_id in (select r.thread_id from runs r where r.run_id in (select run_id from runs where deployment = $2::text and thread_id = $3::text and run_id = $4::text
    and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($5::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) and status <> 'running') and r.stateless = 0 and r.deployment = $6::text)
--   SEARCH threads USING COVERING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH r USING INDEX runs_status (deployment=?)
--     LIST SUBQUERY
--       SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--       CORRELATED SCALAR SUBQUERY
--         SCAN c VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN m VIRTUAL TABLE INDEX 1:
--           CORRELATED SCALAR SUBQUERY
--             SCAN e VIRTUAL TABLE INDEX 1:
--       CREATE BLOOM FILTER

-- takeClaimNumbersOfUnclaimed ({"runs":"evicted","filtered":false})
-- (deployment text, deployment text, thread_id text, deployment text, thread_id text, run_id text, run_id text, deployment text)
update threads set claim_count = claim_count + 1 where deployment = (select ?)
    and thread_id in (select r.thread_id from runs r where r.run_id in (select run_id from runs where run_id in (select e.run_id from runs e where e.deployment = (select ?) and e.thread_id = (select ?)
      and e.status = 'pending' and exists (select 1 from threads w where w.deployment = (select ?)
        and w.thread_id = (select ?) and w.last_run = (select ?))
      and not exists (select 1 from runs where run_id = (select ?))) and claims = 0) and r.stateless = 0 and r.deployment = (select ?))
--   SEARCH threads USING COVERING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH r USING INDEX runs_status (deployment=?)
--     LIST SUBQUERY
--       SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       LIST SUBQUERY
--         SEARCH w EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--         SCALAR SUBQUERY
--           SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         SEARCH e USING INDEX runs_waiting (deployment=? AND thread_id=?)
--       CREATE BLOOM FILTER

-- takeClaimNumbersOfUnclaimed ({"runs":"named","filtered":true})
-- (deployment text, run_ids text, deployment text, filter text, deployment text)
update threads set claim_count = claim_count + 1 where deployment = (select ?)
    and thread_id in (select r.thread_id from runs r where r.run_id in (select run_id from runs where run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and true and n.status = 'pending'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))) and claims = 0) and r.stateless = 0 and r.deployment = (select ?))
-- Postgres:
update threads set claim_count = claim_count + 1 where deployment = $1::text
    and thread_id in (select r.thread_id from runs r where r.run_id in (select run_id from runs where run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($2::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $3::text and true and n.status = 'pending'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($4::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))) and claims = 0) and r.stateless = 0 and r.deployment = $5::text)
--   SEARCH threads USING COVERING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH r USING INDEX runs_status (deployment=?)
--     LIST SUBQUERY
--       SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       LIST SUBQUERY
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--         CORRELATED SCALAR SUBQUERY
--           SCAN c VIRTUAL TABLE INDEX 1:
--           CORRELATED SCALAR SUBQUERY
--             SCAN m VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY
--               SCAN e VIRTUAL TABLE INDEX 1:
--       CREATE BLOOM FILTER

-- takeClaimNumbersOfUnclaimed ({"runs":"named_of_thread","filtered":false})
-- (deployment text, run_ids text, deployment text, thread_id text, deployment text)
update threads set claim_count = claim_count + 1 where deployment = (select ?)
    and thread_id in (select r.thread_id from runs r where r.run_id in (select run_id from runs where run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true) and claims = 0) and r.stateless = 0 and r.deployment = (select ?))
-- Postgres:
update threads set claim_count = claim_count + 1 where deployment = $1::text
    and thread_id in (select r.thread_id from runs r where r.run_id in (select run_id from runs where run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($2::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $3::text and n.thread_id = $4::text and n.status = 'pending'
      and true) and claims = 0) and r.stateless = 0 and r.deployment = $5::text)
--   SEARCH threads USING COVERING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH r USING INDEX runs_status (deployment=?)
--     LIST SUBQUERY
--       SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       LIST SUBQUERY
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       CREATE BLOOM FILTER

-- touchThreads ({"runs":"evicted","filtered":false})
-- (now bigint, deployment text, deployment text, thread_id text, deployment text, thread_id text, run_id text, run_id text, deployment text, thread_id text, deployment text, thread_id text, run_id text, run_id text)
update threads set updated_at = (select ?) where deployment = (select ?)
      and thread_id in (select r.thread_id from runs r where r.run_id in (select e.run_id from runs e where e.deployment = (select ?) and e.thread_id = (select ?)
      and e.status = 'pending' and exists (select 1 from threads w where w.deployment = (select ?)
        and w.thread_id = (select ?) and w.last_run = (select ?))
      and not exists (select 1 from runs where run_id = (select ?)) union all select e.run_id from runs e where e.deployment = (select ?) and e.thread_id = (select ?)
      and e.status = 'running' and exists (select 1 from threads w where w.deployment = (select ?)
        and w.thread_id = (select ?) and w.last_run = (select ?))
      and not exists (select 1 from runs where run_id = (select ?))))
--   SEARCH threads USING COVERING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH r USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       COMPOUND QUERY
--         LEFT-MOST SUBQUERY
--           SEARCH w EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--           SCALAR SUBQUERY
--             SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--           SEARCH e USING INDEX runs_waiting (deployment=? AND thread_id=?)
--         UNION ALL
--           SEARCH e USING INDEX runs_running (deployment=? AND thread_id=?)
--           SCALAR SUBQUERY
--             SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--           SEARCH w EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)

-- touchThreads ({"runs":"named","filtered":true})
-- (now bigint, deployment text, run_ids text, deployment text, filter text, run_ids text, deployment text, filter text)
update threads set updated_at = (select ?) where deployment = (select ?)
      and thread_id in (select r.thread_id from runs r where r.run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and true and n.status = 'pending'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and true and n.status = 'running'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))))
-- Postgres:
update threads set updated_at = $1::bigint where deployment = $2::text
      and thread_id in (select r.thread_id from runs r where r.run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($3::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $4::text and true and n.status = 'pending'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($5::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) union all select n.run_id from (select value collate "C" as value from json_array_elements_text($6::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $7::text and true and n.status = 'running'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($8::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))))
--   SEARCH threads USING COVERING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH r USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       COMPOUND QUERY
--         LEFT-MOST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--           SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--           CORRELATED SCALAR SUBQUERY
--             SCAN c VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY
--               SCAN m VIRTUAL TABLE INDEX 1:
--               CORRELATED SCALAR SUBQUERY
--                 SCAN e VIRTUAL TABLE INDEX 1:
--         UNION ALL
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--           SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--           CORRELATED SCALAR SUBQUERY
--             SCAN c VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY
--               SCAN m VIRTUAL TABLE INDEX 1:
--               CORRELATED SCALAR SUBQUERY
--                 SCAN e VIRTUAL TABLE INDEX 1:

-- touchThreads ({"runs":"named_of_thread","filtered":false})
-- (now bigint, deployment text, run_ids text, deployment text, thread_id text, run_ids text, deployment text, thread_id text)
update threads set updated_at = (select ?) where deployment = (select ?)
      and thread_id in (select r.thread_id from runs r where r.run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true union all select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'running'
      and true))
-- Postgres:
update threads set updated_at = $1::bigint where deployment = $2::text
      and thread_id in (select r.thread_id from runs r where r.run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($3::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $4::text and n.thread_id = $5::text and n.status = 'pending'
      and true union all select n.run_id from (select value collate "C" as value from json_array_elements_text($6::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $7::text and n.thread_id = $8::text and n.status = 'running'
      and true))
--   SEARCH threads USING COVERING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH r USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       COMPOUND QUERY
--         LEFT-MOST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--         UNION ALL
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH n USING INDEX runs_running (deployment=? AND thread_id=?)

-- touchThreadsOfUnclaimed ({"runs":"evicted","filtered":false})
-- (now bigint, deployment text, deployment text, thread_id text, deployment text, thread_id text, run_id text, run_id text)
update threads set updated_at = (select ?) where deployment = (select ?)
      and thread_id in (select thread_id from runs where run_id in (select e.run_id from runs e where e.deployment = (select ?) and e.thread_id = (select ?)
      and e.status = 'pending' and exists (select 1 from threads w where w.deployment = (select ?)
        and w.thread_id = (select ?) and w.last_run = (select ?))
      and not exists (select 1 from runs where run_id = (select ?))) and claims = 0)
--   SEARCH threads USING COVERING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SEARCH w EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--       SCALAR SUBQUERY
--         SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       SEARCH e USING INDEX runs_waiting (deployment=? AND thread_id=?)

-- touchThreadsOfUnclaimed ({"runs":"named","filtered":true})
-- (now bigint, deployment text, run_ids text, deployment text, filter text)
update threads set updated_at = (select ?) where deployment = (select ?)
      and thread_id in (select thread_id from runs where run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and true and n.status = 'pending'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))) and claims = 0)
-- Postgres:
update threads set updated_at = $1::bigint where deployment = $2::text
      and thread_id in (select thread_id from runs where run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($3::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $4::text and true and n.status = 'pending'
      and exists (select 1 from threads permitting where permitting.deployment = "n"."deployment"
    and permitting.thread_id = "n"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($5::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))) and claims = 0)
--   SEARCH threads USING COVERING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SCAN json_each VIRTUAL TABLE INDEX 1:
--       SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--       CORRELATED SCALAR SUBQUERY
--         SCAN c VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN m VIRTUAL TABLE INDEX 1:
--           CORRELATED SCALAR SUBQUERY
--             SCAN e VIRTUAL TABLE INDEX 1:

-- touchThreadsOfUnclaimed ({"runs":"named_of_thread","filtered":false})
-- (now bigint, deployment text, run_ids text, deployment text, thread_id text)
update threads set updated_at = (select ?) where deployment = (select ?)
      and thread_id in (select thread_id from runs where run_id in (select n.run_id from (select value from json_each((select ?))) j cross join runs n where n.run_id = j.value
      and n.deployment = (select ?) and n.thread_id = (select ?) and n.status = 'pending'
      and true) and claims = 0)
-- Postgres:
update threads set updated_at = $1::bigint where deployment = $2::text
      and thread_id in (select thread_id from runs where run_id in (select n.run_id from (select value collate "C" as value from json_array_elements_text($3::text::json)) j cross join runs n where n.run_id = j.value
      and n.deployment = $4::text and n.thread_id = $5::text and n.status = 'pending'
      and true) and claims = 0)
--   SEARCH threads USING COVERING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SCAN json_each VIRTUAL TABLE INDEX 1:
--       SEARCH n USING INDEX sqlite_autoindex_runs_1 (run_id=?)
