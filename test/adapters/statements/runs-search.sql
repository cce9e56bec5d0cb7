-- countRuns
-- (deployment text, pending text, deployment text, running text, deployment text, success text, since bigint, deployment text, error text, since bigint, deployment text, timeout text, since bigint, deployment text, interrupted text, since bigint)
select (select count(*) from runs where deployment = (select ?) and status = (select ?)
    and true and true) as "pending", (select count(*) from runs where deployment = (select ?) and status = (select ?)
    and true and true) as "running", (select count(*) from runs where deployment = (select ?) and status = (select ?)
    and created_at >= (select ?) and true) as "success", (select count(*) from runs where deployment = (select ?) and status = (select ?)
    and created_at >= (select ?) and true) as "error", (select count(*) from runs where deployment = (select ?) and status = (select ?)
    and created_at >= (select ?) and true) as "timeout", (select count(*) from runs where deployment = (select ?) and status = (select ?)
    and created_at >= (select ?) and true) as "interrupted"
--   SCAN CONSTANT ROW
--   SCALAR SUBQUERY 3
--     SEARCH runs USING COVERING INDEX runs_status (deployment=? AND status=?)
--     SCALAR SUBQUERY 1
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 2
--       SCAN CONSTANT ROW
--   SCALAR SUBQUERY 6
--     SEARCH runs USING COVERING INDEX runs_status (deployment=? AND status=?)
--     SCALAR SUBQUERY 4
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 5
--       SCAN CONSTANT ROW
--   SCALAR SUBQUERY 10
--     SEARCH runs USING COVERING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--     SCALAR SUBQUERY 7
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 8
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 9
--       SCAN CONSTANT ROW
--   SCALAR SUBQUERY 14
--     SEARCH runs USING COVERING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--     SCALAR SUBQUERY 11
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 12
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 13
--       SCAN CONSTANT ROW
--   SCALAR SUBQUERY 18
--     SEARCH runs USING COVERING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--     SCALAR SUBQUERY 15
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 16
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 17
--       SCAN CONSTANT ROW
--   SCALAR SUBQUERY 22
--     SEARCH runs USING COVERING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--     SCALAR SUBQUERY 19
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 20
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 21
--       SCAN CONSTANT ROW

-- countRuns (filtered)
-- (deployment text, pending text, filter text, deployment text, running text, filter text, deployment text, success text, since bigint, filter text, deployment text, error text, since bigint, filter text, deployment text, timeout text, since bigint, filter text, deployment text, interrupted text, since bigint, filter text)
select (select count(*) from runs where deployment = (select ?) and status = (select ?)
    and true and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))) as "pending", (select count(*) from runs where deployment = (select ?) and status = (select ?)
    and true and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))) as "running", (select count(*) from runs where deployment = (select ?) and status = (select ?)
    and created_at >= (select ?) and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))) as "success", (select count(*) from runs where deployment = (select ?) and status = (select ?)
    and created_at >= (select ?) and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))) as "error", (select count(*) from runs where deployment = (select ?) and status = (select ?)
    and created_at >= (select ?) and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))) as "timeout", (select count(*) from runs where deployment = (select ?) and status = (select ?)
    and created_at >= (select ?) and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))) as "interrupted"
-- Postgres:
select (select count(*) from runs where deployment = $1::text and status = $2::text
    and true and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($3::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))) as "pending", (select count(*) from runs where deployment = $4::text and status = $5::text
    and true and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($6::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))) as "running", (select count(*) from runs where deployment = $7::text and status = $8::text
    and created_at >= $9::bigint and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($10::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))) as "success", (select count(*) from runs where deployment = $11::text and status = $12::text
    and created_at >= $13::bigint and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($14::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))) as "error", (select count(*) from runs where deployment = $15::text and status = $16::text
    and created_at >= $17::bigint and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($18::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))) as "timeout", (select count(*) from runs where deployment = $19::text and status = $20::text
    and created_at >= $21::bigint and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($22::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))) as "interrupted"
--   SCAN CONSTANT ROW
--   SCALAR SUBQUERY 8
--     SEARCH runs USING INDEX runs_status (deployment=? AND status=?)
--     SCALAR SUBQUERY 1
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 2
--       SCAN CONSTANT ROW
--     SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY 6
--       SCAN c VIRTUAL TABLE INDEX 1:
--       SCALAR SUBQUERY 3
--         SCAN CONSTANT ROW
--       CORRELATED SCALAR SUBQUERY 5
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY 4
--           SCAN e VIRTUAL TABLE INDEX 1:
--   SCALAR SUBQUERY 16
--     SEARCH runs USING INDEX runs_status (deployment=? AND status=?)
--     SCALAR SUBQUERY 9
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 10
--       SCAN CONSTANT ROW
--     SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY 14
--       SCAN c VIRTUAL TABLE INDEX 1:
--       SCALAR SUBQUERY 11
--         SCAN CONSTANT ROW
--       CORRELATED SCALAR SUBQUERY 13
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY 12
--           SCAN e VIRTUAL TABLE INDEX 1:
--   SCALAR SUBQUERY 25
--     SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--     SCALAR SUBQUERY 17
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 18
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 19
--       SCAN CONSTANT ROW
--     SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY 23
--       SCAN c VIRTUAL TABLE INDEX 1:
--       SCALAR SUBQUERY 20
--         SCAN CONSTANT ROW
--       CORRELATED SCALAR SUBQUERY 22
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY 21
--           SCAN e VIRTUAL TABLE INDEX 1:
--   SCALAR SUBQUERY 34
--     SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--     SCALAR SUBQUERY 26
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 27
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 28
--       SCAN CONSTANT ROW
--     SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY 32
--       SCAN c VIRTUAL TABLE INDEX 1:
--       SCALAR SUBQUERY 29
--         SCAN CONSTANT ROW
--       CORRELATED SCALAR SUBQUERY 31
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY 30
--           SCAN e VIRTUAL TABLE INDEX 1:
--   SCALAR SUBQUERY 43
--     SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--     SCALAR SUBQUERY 35
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 36
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 37
--       SCAN CONSTANT ROW
--     SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY 41
--       SCAN c VIRTUAL TABLE INDEX 1:
--       SCALAR SUBQUERY 38
--         SCAN CONSTANT ROW
--       CORRELATED SCALAR SUBQUERY 40
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY 39
--           SCAN e VIRTUAL TABLE INDEX 1:
--   SCALAR SUBQUERY 52
--     SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--     SCALAR SUBQUERY 44
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 45
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 46
--       SCAN CONSTANT ROW
--     SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY 50
--       SCAN c VIRTUAL TABLE INDEX 1:
--       SCALAR SUBQUERY 47
--         SCAN CONSTANT ROW
--       CORRELATED SCALAR SUBQUERY 49
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY 48
--           SCAN e VIRTUAL TABLE INDEX 1:

-- searchRuns ({"statuses":["pending","success"],"conditions":["after","metadata","filter","tested"],"narrow":false})
-- (deployment text, after_created_at bigint, after_id text, metadata text, filter text, tested_created_at bigint, tested_id text, pending text, limit bigint, deployment text, after_created_at bigint, after_id text, metadata text, filter text, tested_created_at bigint, tested_id text, success text, limit bigint, limit bigint)
select "runs"."run_id", "runs"."thread_id", "runs"."assistant_id", "runs"."graph_id", "runs"."seq", "runs"."created_at", "runs"."updated_at", "runs"."status", "runs"."metadata", "runs"."multitask_strategy", "runs"."attempt", "runs"."claims", "runs"."claim_number", "runs"."stateless", "runs"."started_at", "runs"."ended_at", "runs"."error", "runs"."has_frames", "runs"."end_frame", "runs"."user_id", "runs"."api_key", "runs"."webhook", "runs"."webhook_host", "runs"."webhook_depth", "runs"."cron_id", "runs"."cancel_reason", "runs"."call_id", "runs"."waiting_for", "runs"."lease_until", "runs"."cancelled", "runs"."claim_log", traces.trace_id, traces.tokens_in, traces.tokens_out, traces.cost_usd
    from (select run_id from (select run_id from runs where deployment = (select ?) and (created_at, run_id) < ((select ?), (select ?)) and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(runs.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)) and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) and (created_at, run_id) >= ((select ?), (select ?)) and status = (select ?)
      order by created_at desc, run_id desc limit (select ?)) as "pending" union all select run_id from (select run_id from runs where deployment = (select ?) and (created_at, run_id) < ((select ?), (select ?)) and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(runs.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)) and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) and (created_at, run_id) >= ((select ?), (select ?)) and status = (select ?)
      order by created_at desc, run_id desc limit (select ?)) as "success") as found join runs on runs.run_id = found.run_id
    left join traces on traces.trace_id = runs.run_id
    order by runs.created_at desc, runs.run_id desc limit (select ?)
-- Postgres:
select "runs"."run_id", "runs"."thread_id", "runs"."assistant_id", "runs"."graph_id", "runs"."seq", "runs"."created_at", "runs"."updated_at", "runs"."status", "runs"."metadata", "runs"."multitask_strategy", "runs"."attempt", "runs"."claims", "runs"."claim_number", "runs"."stateless", "runs"."started_at", "runs"."ended_at", "runs"."error", "runs"."has_frames", "runs"."end_frame", "runs"."user_id", "runs"."api_key", "runs"."webhook", "runs"."webhook_host", "runs"."webhook_depth", "runs"."cron_id", "runs"."cancel_reason", "runs"."call_id", "runs"."waiting_for", "runs"."lease_until", "runs"."cancelled", "runs"."claim_log", traces.trace_id, traces.tokens_in, traces.tokens_out, traces.cost_usd
    from (select run_id from (select run_id from runs where deployment = $1::text and (created_at, run_id) < ($2::bigint, $3::text) and not exists (select 1 from json_array_elements(replace(replace(replace($4::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(runs.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)) and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($5::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) and (created_at, run_id) >= ($6::bigint, $7::text) and status = $8::text
      order by created_at desc, run_id desc limit $9::bigint) as "pending" union all select run_id from (select run_id from runs where deployment = $10::text and (created_at, run_id) < ($11::bigint, $12::text) and not exists (select 1 from json_array_elements(replace(replace(replace($13::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(runs.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)) and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($14::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) and (created_at, run_id) >= ($15::bigint, $16::text) and status = $17::text
      order by created_at desc, run_id desc limit $18::bigint) as "success") as found join runs on runs.run_id = found.run_id
    left join traces on traces.trace_id = runs.run_id
    order by runs.created_at desc, runs.run_id desc limit $19::bigint
--   SCALAR SUBQUERY 37
--     SCAN CONSTANT ROW
--   MERGE (UNION ALL)
--     LEFT
--       CO-ROUTINE pending
--         SCALAR SUBQUERY 16
--           SCAN CONSTANT ROW
--         SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND (created_at,run_id)>(?,?) AND (created_at,run_id)<(?,?))
--         SCALAR SUBQUERY 1
--           SCAN CONSTANT ROW
--         SCALAR SUBQUERY 15
--           SCAN CONSTANT ROW
--         SCALAR SUBQUERY 2
--           SCAN CONSTANT ROW
--         SCALAR SUBQUERY 3
--           SCAN CONSTANT ROW
--         SCALAR SUBQUERY 13
--           SCAN CONSTANT ROW
--         SCALAR SUBQUERY 14
--           SCAN CONSTANT ROW
--         REUSE SUBQUERY 2
--         REUSE SUBQUERY 3
--         REUSE SUBQUERY 13
--         REUSE SUBQUERY 14
--         CORRELATED SCALAR SUBQUERY 7
--           SCAN c VIRTUAL TABLE INDEX 1:
--           SCALAR SUBQUERY 4
--             SCAN CONSTANT ROW
--           CORRELATED SCALAR SUBQUERY 6
--             SCAN m VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY 5
--               SCAN e VIRTUAL TABLE INDEX 1:
--         SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--         CORRELATED SCALAR SUBQUERY 11
--           SCAN c VIRTUAL TABLE INDEX 1:
--           SCALAR SUBQUERY 8
--             SCAN CONSTANT ROW
--           CORRELATED SCALAR SUBQUERY 10
--             SCAN m VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY 9
--               SCAN e VIRTUAL TABLE INDEX 1:
--       SCAN pending
--       SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       SEARCH traces USING INDEX sqlite_autoindex_traces_1 (trace_id=?) LEFT-JOIN
--       USE TEMP B-TREE FOR ORDER BY
--     RIGHT
--       CO-ROUTINE success
--         SCALAR SUBQUERY 34
--           SCAN CONSTANT ROW
--         SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND (created_at,run_id)>(?,?) AND (created_at,run_id)<(?,?))
--         SCALAR SUBQUERY 19
--           SCAN CONSTANT ROW
--         SCALAR SUBQUERY 33
--           SCAN CONSTANT ROW
--         SCALAR SUBQUERY 20
--           SCAN CONSTANT ROW
--         SCALAR SUBQUERY 21
--           SCAN CONSTANT ROW
--         SCALAR SUBQUERY 31
--           SCAN CONSTANT ROW
--         SCALAR SUBQUERY 32
--           SCAN CONSTANT ROW
--         REUSE SUBQUERY 20
--         REUSE SUBQUERY 21
--         REUSE SUBQUERY 31
--         REUSE SUBQUERY 32
--         CORRELATED SCALAR SUBQUERY 25
--           SCAN c VIRTUAL TABLE INDEX 1:
--           SCALAR SUBQUERY 22
--             SCAN CONSTANT ROW
--           CORRELATED SCALAR SUBQUERY 24
--             SCAN m VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY 23
--               SCAN e VIRTUAL TABLE INDEX 1:
--         SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--         CORRELATED SCALAR SUBQUERY 29
--           SCAN c VIRTUAL TABLE INDEX 1:
--           SCALAR SUBQUERY 26
--             SCAN CONSTANT ROW
--           CORRELATED SCALAR SUBQUERY 28
--             SCAN m VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY 27
--               SCAN e VIRTUAL TABLE INDEX 1:
--       SCAN success
--       SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       SEARCH traces USING INDEX sqlite_autoindex_traces_1 (trace_id=?) LEFT-JOIN
--       USE TEMP B-TREE FOR ORDER BY

-- searchRuns ({"statuses":["pending","running","success","error","timeout","interrupted"],"conditions":["thread_id","created_after"],"narrow":true})
-- (deployment text, thread_id text, created_after bigint, statuses text, limit bigint, limit bigint)
select "runs"."run_id", "runs"."thread_id", "runs"."assistant_id", "runs"."graph_id", "runs"."seq", "runs"."created_at", "runs"."updated_at", "runs"."status", "runs"."metadata", "runs"."multitask_strategy", "runs"."attempt", "runs"."claims", "runs"."claim_number", "runs"."stateless", "runs"."started_at", "runs"."ended_at", "runs"."error", "runs"."has_frames", "runs"."end_frame", "runs"."user_id", "runs"."api_key", "runs"."webhook", "runs"."webhook_host", "runs"."webhook_depth", "runs"."cron_id", "runs"."cancel_reason", "runs"."call_id", "runs"."waiting_for", "runs"."lease_until", "runs"."cancelled", "runs"."claim_log", traces.trace_id, traces.tokens_in, traces.tokens_out, traces.cost_usd
    from (select run_id from (select run_id from runs where deployment = (select ?) and thread_id = (select ?) and created_at >= (select ?) and (status || '') in (select value from json_each((select ?)))
      order by created_at desc, run_id desc limit (select ?)) as "few") as found join runs on runs.run_id = found.run_id
    left join traces on traces.trace_id = runs.run_id
    order by runs.created_at desc, runs.run_id desc limit (select ?)
-- Postgres:
select "runs"."run_id", "runs"."thread_id", "runs"."assistant_id", "runs"."graph_id", "runs"."seq", "runs"."created_at", "runs"."updated_at", "runs"."status", "runs"."metadata", "runs"."multitask_strategy", "runs"."attempt", "runs"."claims", "runs"."claim_number", "runs"."stateless", "runs"."started_at", "runs"."ended_at", "runs"."error", "runs"."has_frames", "runs"."end_frame", "runs"."user_id", "runs"."api_key", "runs"."webhook", "runs"."webhook_host", "runs"."webhook_depth", "runs"."cron_id", "runs"."cancel_reason", "runs"."call_id", "runs"."waiting_for", "runs"."lease_until", "runs"."cancelled", "runs"."claim_log", traces.trace_id, traces.tokens_in, traces.tokens_out, traces.cost_usd
    from (select run_id from (select run_id from runs where deployment = $1::text and thread_id = $2::text and created_at >= $3::bigint and (status || '') in (select value collate "C" as value from json_array_elements_text($4::text::json))
      order by created_at desc, run_id desc limit $5::bigint) as "few") as found join runs on runs.run_id = found.run_id
    left join traces on traces.trace_id = runs.run_id
    order by runs.created_at desc, runs.run_id desc limit $6::bigint
--   CO-ROUTINE few
--     SCALAR SUBQUERY 6
--       SCAN CONSTANT ROW
--     SEARCH runs USING INDEX runs_order (deployment=? AND thread_id=?)
--     SCALAR SUBQUERY 1
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 2
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 3
--       SCAN CONSTANT ROW
--     LIST SUBQUERY 5
--       SCAN json_each VIRTUAL TABLE INDEX 1:
--       SCALAR SUBQUERY 4
--         SCAN CONSTANT ROW
--       CREATE BLOOM FILTER
--     USE TEMP B-TREE FOR ORDER BY
--   SCALAR SUBQUERY 9
--     SCAN CONSTANT ROW
--   SCAN few
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   SEARCH traces USING INDEX sqlite_autoindex_traces_1 (trace_id=?) LEFT-JOIN
--   USE TEMP B-TREE FOR ORDER BY

-- selectLastTested ({"statuses":["pending","success"],"conditions":["after"],"narrow":false})
-- (deployment text, after_created_at bigint, after_id text, pending text, deployment text, after_created_at bigint, after_id text, success text)

      select * from (select created_at, run_id from (
        select created_at, run_id from runs where deployment = (select ?) and (created_at, run_id) < ((select ?), (select ?)) and status = (select ?)
        order by created_at desc, run_id desc limit 1 offset 4999) as "pending" union all select created_at, run_id from (
        select created_at, run_id from runs where deployment = (select ?) and (created_at, run_id) < ((select ?), (select ?)) and status = (select ?)
        order by created_at desc, run_id desc limit 1 offset 4999) as "success") as positions order by created_at desc, run_id desc limit 1
--   MERGE (UNION ALL)
--     LEFT
--       CO-ROUTINE pending
--         SEARCH runs USING COVERING INDEX runs_status (deployment=? AND status=? AND (created_at,run_id)<(?,?))
--         SCALAR SUBQUERY 1
--           SCAN CONSTANT ROW
--         SCALAR SUBQUERY 4
--           SCAN CONSTANT ROW
--         SCALAR SUBQUERY 2
--           SCAN CONSTANT ROW
--         SCALAR SUBQUERY 3
--           SCAN CONSTANT ROW
--         REUSE SUBQUERY 2
--         REUSE SUBQUERY 3
--       SCAN pending
--       USE TEMP B-TREE FOR ORDER BY
--     RIGHT
--       CO-ROUTINE success
--         SEARCH runs USING COVERING INDEX runs_status (deployment=? AND status=? AND (created_at,run_id)<(?,?))
--         SCALAR SUBQUERY 7
--           SCAN CONSTANT ROW
--         SCALAR SUBQUERY 10
--           SCAN CONSTANT ROW
--         SCALAR SUBQUERY 8
--           SCAN CONSTANT ROW
--         SCALAR SUBQUERY 9
--           SCAN CONSTANT ROW
--         REUSE SUBQUERY 8
--         REUSE SUBQUERY 9
--       SCAN success
--       USE TEMP B-TREE FOR ORDER BY

-- selectRunTimes
-- (deployment text, pending text, limit bigint, deployment text, running text, limit bigint, deployment text, success text, since bigint, limit bigint, deployment text, error text, since bigint, limit bigint, deployment text, timeout text, since bigint, limit bigint, deployment text, interrupted text, since bigint, limit bigint, limit bigint)

      select * from (select status, created_at, started_at, ended_at from (
        select status, created_at, started_at, ended_at from runs where deployment = (select ?) and status = (select ?)
    and true and true order by created_at desc limit (select ?)) as "pending" union all select status, created_at, started_at, ended_at from (
        select status, created_at, started_at, ended_at from runs where deployment = (select ?) and status = (select ?)
    and true and true order by created_at desc limit (select ?)) as "running" union all select status, created_at, started_at, ended_at from (
        select status, created_at, started_at, ended_at from runs where deployment = (select ?) and status = (select ?)
    and created_at >= (select ?) and true order by created_at desc limit (select ?)) as "success" union all select status, created_at, started_at, ended_at from (
        select status, created_at, started_at, ended_at from runs where deployment = (select ?) and status = (select ?)
    and created_at >= (select ?) and true order by created_at desc limit (select ?)) as "error" union all select status, created_at, started_at, ended_at from (
        select status, created_at, started_at, ended_at from runs where deployment = (select ?) and status = (select ?)
    and created_at >= (select ?) and true order by created_at desc limit (select ?)) as "timeout" union all select status, created_at, started_at, ended_at from (
        select status, created_at, started_at, ended_at from runs where deployment = (select ?) and status = (select ?)
    and created_at >= (select ?) and true order by created_at desc limit (select ?)) as "interrupted") as times order by created_at desc limit (select ?)
--   SCALAR SUBQUERY 35
--     SCAN CONSTANT ROW
--   MERGE (UNION ALL)
--     LEFT
--       MERGE (UNION ALL)
--         LEFT
--           MERGE (UNION ALL)
--             LEFT
--               CO-ROUTINE pending
--                 SCALAR SUBQUERY 3
--                   SCAN CONSTANT ROW
--                 SEARCH runs USING INDEX runs_status (deployment=? AND status=?)
--                 SCALAR SUBQUERY 1
--                   SCAN CONSTANT ROW
--                 SCALAR SUBQUERY 2
--                   SCAN CONSTANT ROW
--               SCAN pending
--               USE TEMP B-TREE FOR ORDER BY
--             RIGHT
--               CO-ROUTINE running
--                 SCALAR SUBQUERY 8
--                   SCAN CONSTANT ROW
--                 SEARCH runs USING INDEX runs_status (deployment=? AND status=?)
--                 SCALAR SUBQUERY 6
--                   SCAN CONSTANT ROW
--                 SCALAR SUBQUERY 7
--                   SCAN CONSTANT ROW
--               SCAN running
--               USE TEMP B-TREE FOR ORDER BY
--         RIGHT
--           CO-ROUTINE success
--             SCALAR SUBQUERY 14
--               SCAN CONSTANT ROW
--             SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--             SCALAR SUBQUERY 11
--               SCAN CONSTANT ROW
--             SCALAR SUBQUERY 12
--               SCAN CONSTANT ROW
--             SCALAR SUBQUERY 13
--               SCAN CONSTANT ROW
--           SCAN success
--           USE TEMP B-TREE FOR ORDER BY
--     RIGHT
--       MERGE (UNION ALL)
--         LEFT
--           MERGE (UNION ALL)
--             LEFT
--               CO-ROUTINE error
--                 SCALAR SUBQUERY 20
--                   SCAN CONSTANT ROW
--                 SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--                 SCALAR SUBQUERY 17
--                   SCAN CONSTANT ROW
--                 SCALAR SUBQUERY 18
--                   SCAN CONSTANT ROW
--                 SCALAR SUBQUERY 19
--                   SCAN CONSTANT ROW
--               SCAN error
--               USE TEMP B-TREE FOR ORDER BY
--             RIGHT
--               CO-ROUTINE timeout
--                 SCALAR SUBQUERY 26
--                   SCAN CONSTANT ROW
--                 SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--                 SCALAR SUBQUERY 23
--                   SCAN CONSTANT ROW
--                 SCALAR SUBQUERY 24
--                   SCAN CONSTANT ROW
--                 SCALAR SUBQUERY 25
--                   SCAN CONSTANT ROW
--               SCAN timeout
--               USE TEMP B-TREE FOR ORDER BY
--         RIGHT
--           CO-ROUTINE interrupted
--             SCALAR SUBQUERY 32
--               SCAN CONSTANT ROW
--             SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--             SCALAR SUBQUERY 29
--               SCAN CONSTANT ROW
--             SCALAR SUBQUERY 30
--               SCAN CONSTANT ROW
--             SCALAR SUBQUERY 31
--               SCAN CONSTANT ROW
--           SCAN interrupted
--           USE TEMP B-TREE FOR ORDER BY

-- selectRunTimes (filtered)
-- (deployment text, pending text, filter text, limit bigint, deployment text, running text, filter text, limit bigint, deployment text, success text, since bigint, filter text, limit bigint, deployment text, error text, since bigint, filter text, limit bigint, deployment text, timeout text, since bigint, filter text, limit bigint, deployment text, interrupted text, since bigint, filter text, limit bigint, limit bigint)

      select * from (select status, created_at, started_at, ended_at from (
        select status, created_at, started_at, ended_at from runs where deployment = (select ?) and status = (select ?)
    and true and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) order by created_at desc limit (select ?)) as "pending" union all select status, created_at, started_at, ended_at from (
        select status, created_at, started_at, ended_at from runs where deployment = (select ?) and status = (select ?)
    and true and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) order by created_at desc limit (select ?)) as "running" union all select status, created_at, started_at, ended_at from (
        select status, created_at, started_at, ended_at from runs where deployment = (select ?) and status = (select ?)
    and created_at >= (select ?) and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) order by created_at desc limit (select ?)) as "success" union all select status, created_at, started_at, ended_at from (
        select status, created_at, started_at, ended_at from runs where deployment = (select ?) and status = (select ?)
    and created_at >= (select ?) and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) order by created_at desc limit (select ?)) as "error" union all select status, created_at, started_at, ended_at from (
        select status, created_at, started_at, ended_at from runs where deployment = (select ?) and status = (select ?)
    and created_at >= (select ?) and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) order by created_at desc limit (select ?)) as "timeout" union all select status, created_at, started_at, ended_at from (
        select status, created_at, started_at, ended_at from runs where deployment = (select ?) and status = (select ?)
    and created_at >= (select ?) and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) order by created_at desc limit (select ?)) as "interrupted") as times order by created_at desc limit (select ?)
-- Postgres:

      select * from (select status, created_at, started_at, ended_at from (
        select status, created_at, started_at, ended_at from runs where deployment = $1::text and status = $2::text
    and true and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($3::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) order by created_at desc limit $4::bigint) as "pending" union all select status, created_at, started_at, ended_at from (
        select status, created_at, started_at, ended_at from runs where deployment = $5::text and status = $6::text
    and true and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($7::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) order by created_at desc limit $8::bigint) as "running" union all select status, created_at, started_at, ended_at from (
        select status, created_at, started_at, ended_at from runs where deployment = $9::text and status = $10::text
    and created_at >= $11::bigint and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($12::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) order by created_at desc limit $13::bigint) as "success" union all select status, created_at, started_at, ended_at from (
        select status, created_at, started_at, ended_at from runs where deployment = $14::text and status = $15::text
    and created_at >= $16::bigint and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($17::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) order by created_at desc limit $18::bigint) as "error" union all select status, created_at, started_at, ended_at from (
        select status, created_at, started_at, ended_at from runs where deployment = $19::text and status = $20::text
    and created_at >= $21::bigint and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($22::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) order by created_at desc limit $23::bigint) as "timeout" union all select status, created_at, started_at, ended_at from (
        select status, created_at, started_at, ended_at from runs where deployment = $24::text and status = $25::text
    and created_at >= $26::bigint and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($27::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) order by created_at desc limit $28::bigint) as "interrupted") as times order by created_at desc limit $29::bigint
--   SCALAR SUBQUERY 65
--     SCAN CONSTANT ROW
--   MERGE (UNION ALL)
--     LEFT
--       MERGE (UNION ALL)
--         LEFT
--           MERGE (UNION ALL)
--             LEFT
--               CO-ROUTINE pending
--                 SCALAR SUBQUERY 8
--                   SCAN CONSTANT ROW
--                 SEARCH runs USING INDEX runs_status (deployment=? AND status=?)
--                 SCALAR SUBQUERY 1
--                   SCAN CONSTANT ROW
--                 SCALAR SUBQUERY 2
--                   SCAN CONSTANT ROW
--                 SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--                 CORRELATED SCALAR SUBQUERY 6
--                   SCAN c VIRTUAL TABLE INDEX 1:
--                   SCALAR SUBQUERY 3
--                     SCAN CONSTANT ROW
--                   CORRELATED SCALAR SUBQUERY 5
--                     SCAN m VIRTUAL TABLE INDEX 1:
--                     CORRELATED SCALAR SUBQUERY 4
--                       SCAN e VIRTUAL TABLE INDEX 1:
--               SCAN pending
--               USE TEMP B-TREE FOR ORDER BY
--             RIGHT
--               CO-ROUTINE running
--                 SCALAR SUBQUERY 18
--                   SCAN CONSTANT ROW
--                 SEARCH runs USING INDEX runs_status (deployment=? AND status=?)
--                 SCALAR SUBQUERY 11
--                   SCAN CONSTANT ROW
--                 SCALAR SUBQUERY 12
--                   SCAN CONSTANT ROW
--                 SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--                 CORRELATED SCALAR SUBQUERY 16
--                   SCAN c VIRTUAL TABLE INDEX 1:
--                   SCALAR SUBQUERY 13
--                     SCAN CONSTANT ROW
--                   CORRELATED SCALAR SUBQUERY 15
--                     SCAN m VIRTUAL TABLE INDEX 1:
--                     CORRELATED SCALAR SUBQUERY 14
--                       SCAN e VIRTUAL TABLE INDEX 1:
--               SCAN running
--               USE TEMP B-TREE FOR ORDER BY
--         RIGHT
--           CO-ROUTINE success
--             SCALAR SUBQUERY 29
--               SCAN CONSTANT ROW
--             SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--             SCALAR SUBQUERY 21
--               SCAN CONSTANT ROW
--             SCALAR SUBQUERY 22
--               SCAN CONSTANT ROW
--             SCALAR SUBQUERY 23
--               SCAN CONSTANT ROW
--             SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--             CORRELATED SCALAR SUBQUERY 27
--               SCAN c VIRTUAL TABLE INDEX 1:
--               SCALAR SUBQUERY 24
--                 SCAN CONSTANT ROW
--               CORRELATED SCALAR SUBQUERY 26
--                 SCAN m VIRTUAL TABLE INDEX 1:
--                 CORRELATED SCALAR SUBQUERY 25
--                   SCAN e VIRTUAL TABLE INDEX 1:
--           SCAN success
--           USE TEMP B-TREE FOR ORDER BY
--     RIGHT
--       MERGE (UNION ALL)
--         LEFT
--           MERGE (UNION ALL)
--             LEFT
--               CO-ROUTINE error
--                 SCALAR SUBQUERY 40
--                   SCAN CONSTANT ROW
--                 SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--                 SCALAR SUBQUERY 32
--                   SCAN CONSTANT ROW
--                 SCALAR SUBQUERY 33
--                   SCAN CONSTANT ROW
--                 SCALAR SUBQUERY 34
--                   SCAN CONSTANT ROW
--                 SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--                 CORRELATED SCALAR SUBQUERY 38
--                   SCAN c VIRTUAL TABLE INDEX 1:
--                   SCALAR SUBQUERY 35
--                     SCAN CONSTANT ROW
--                   CORRELATED SCALAR SUBQUERY 37
--                     SCAN m VIRTUAL TABLE INDEX 1:
--                     CORRELATED SCALAR SUBQUERY 36
--                       SCAN e VIRTUAL TABLE INDEX 1:
--               SCAN error
--               USE TEMP B-TREE FOR ORDER BY
--             RIGHT
--               CO-ROUTINE timeout
--                 SCALAR SUBQUERY 51
--                   SCAN CONSTANT ROW
--                 SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--                 SCALAR SUBQUERY 43
--                   SCAN CONSTANT ROW
--                 SCALAR SUBQUERY 44
--                   SCAN CONSTANT ROW
--                 SCALAR SUBQUERY 45
--                   SCAN CONSTANT ROW
--                 SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--                 CORRELATED SCALAR SUBQUERY 49
--                   SCAN c VIRTUAL TABLE INDEX 1:
--                   SCALAR SUBQUERY 46
--                     SCAN CONSTANT ROW
--                   CORRELATED SCALAR SUBQUERY 48
--                     SCAN m VIRTUAL TABLE INDEX 1:
--                     CORRELATED SCALAR SUBQUERY 47
--                       SCAN e VIRTUAL TABLE INDEX 1:
--               SCAN timeout
--               USE TEMP B-TREE FOR ORDER BY
--         RIGHT
--           CO-ROUTINE interrupted
--             SCALAR SUBQUERY 62
--               SCAN CONSTANT ROW
--             SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--             SCALAR SUBQUERY 54
--               SCAN CONSTANT ROW
--             SCALAR SUBQUERY 55
--               SCAN CONSTANT ROW
--             SCALAR SUBQUERY 56
--               SCAN CONSTANT ROW
--             SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--             CORRELATED SCALAR SUBQUERY 60
--               SCAN c VIRTUAL TABLE INDEX 1:
--               SCALAR SUBQUERY 57
--                 SCAN CONSTANT ROW
--               CORRELATED SCALAR SUBQUERY 59
--                 SCAN m VIRTUAL TABLE INDEX 1:
--                 CORRELATED SCALAR SUBQUERY 58
--                   SCAN e VIRTUAL TABLE INDEX 1:
--           SCAN interrupted
--           USE TEMP B-TREE FOR ORDER BY
