-- countRuns
-- (deployment text, pending text, deployment text, running text, deployment text, success text, since bigint, deployment text, error text, since bigint, deployment text, timeout text, since bigint, deployment text, interrupted text, since bigint)
select (select count(*) from runs where deployment = (select ?) and status = (select ?)
    and true and true) as "pending", (select count(*) from runs where deployment = (select ?) and status = (select ?)
    and true and true) as "running", (select count(*) from runs where deployment = (select ?) and status = (select ?)
    and created_at >= (select ?) and true) as "success", (select count(*) from runs where deployment = (select ?) and status = (select ?)
    and created_at >= (select ?) and true) as "error", (select count(*) from runs where deployment = (select ?) and status = (select ?)
    and created_at >= (select ?) and true) as "timeout", (select count(*) from runs where deployment = (select ?) and status = (select ?)
    and created_at >= (select ?) and true) as "interrupted"
--   SCALAR SUBQUERY
--     SEARCH runs USING COVERING INDEX runs_status (deployment=? AND status=?)
--   SCALAR SUBQUERY
--     SEARCH runs USING COVERING INDEX runs_status (deployment=? AND status=?)
--   SCALAR SUBQUERY
--     SEARCH runs USING COVERING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--   SCALAR SUBQUERY
--     SEARCH runs USING COVERING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--   SCALAR SUBQUERY
--     SEARCH runs USING COVERING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--   SCALAR SUBQUERY
--     SEARCH runs USING COVERING INDEX runs_status (deployment=? AND status=? AND created_at>?)

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
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX runs_status (deployment=? AND status=?)
--     SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX runs_status (deployment=? AND status=?)
--     SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--     SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--     SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--     SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--     SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:

-- searchRuns ({"statuses":["pending","success"],"conditions":["after","metadata","filter","tested"],"narrow":false})
-- (deployment text, after_created_at bigint, after_id text, metadata text, filter text, tested_created_at bigint, tested_id text, pending text, limit bigint, deployment text, after_created_at bigint, after_id text, metadata text, filter text, tested_created_at bigint, tested_id text, success text, limit bigint, limit bigint)
select "runs"."run_id", "runs"."thread_id", "runs"."assistant_id", "runs"."graph_id", "runs"."seq", "runs"."created_at", "runs"."updated_at", "runs"."status", "runs"."metadata", "runs"."multitask_strategy", "runs"."attempt", "runs"."claims", "runs"."claim_number", "runs"."stateless", "runs"."started_at", "runs"."ended_at", "runs"."error", "runs"."has_frames", "runs"."end_frame", "runs"."user_id", "runs"."api_key", "runs"."webhook", "runs"."webhook_host", "runs"."webhook_depth", "runs"."cron_id", "runs"."cancel_reason", "runs"."call_id", "runs"."waiting_for", "runs"."trace_origin", "runs"."assistant_version", "runs"."lease_until", "runs"."cancelled", "runs"."claim_log", traces.trace_id, traces.tokens_in, traces.tokens_out, traces.cost_usd
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
select "runs"."run_id", "runs"."thread_id", "runs"."assistant_id", "runs"."graph_id", "runs"."seq", "runs"."created_at", "runs"."updated_at", "runs"."status", "runs"."metadata", "runs"."multitask_strategy", "runs"."attempt", "runs"."claims", "runs"."claim_number", "runs"."stateless", "runs"."started_at", "runs"."ended_at", "runs"."error", "runs"."has_frames", "runs"."end_frame", "runs"."user_id", "runs"."api_key", "runs"."webhook", "runs"."webhook_host", "runs"."webhook_depth", "runs"."cron_id", "runs"."cancel_reason", "runs"."call_id", "runs"."waiting_for", "runs"."trace_origin", "runs"."assistant_version", "runs"."lease_until", "runs"."cancelled", "runs"."claim_log", traces.trace_id, traces.tokens_in, traces.tokens_out, traces.cost_usd
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
--   MERGE (UNION ALL)
--     LEFT
--       CO-ROUTINE pending
--         SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND (created_at,run_id)>(?,?) AND (created_at,run_id)<(?,?))
--         REUSE SUBQUERY
--         REUSE SUBQUERY
--         REUSE SUBQUERY
--         REUSE SUBQUERY
--         CORRELATED SCALAR SUBQUERY
--           SCAN c VIRTUAL TABLE INDEX 1:
--           CORRELATED SCALAR SUBQUERY
--             SCAN m VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY
--               SCAN e VIRTUAL TABLE INDEX 1:
--         SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--         CORRELATED SCALAR SUBQUERY
--           SCAN c VIRTUAL TABLE INDEX 1:
--           CORRELATED SCALAR SUBQUERY
--             SCAN m VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY
--               SCAN e VIRTUAL TABLE INDEX 1:
--       SCAN pending
--       SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       SEARCH traces USING INDEX sqlite_autoindex_traces_1 (trace_id=?) LEFT-JOIN
--       USE TEMP B-TREE FOR ORDER BY
--     RIGHT
--       CO-ROUTINE success
--         SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND (created_at,run_id)>(?,?) AND (created_at,run_id)<(?,?))
--         REUSE SUBQUERY
--         REUSE SUBQUERY
--         REUSE SUBQUERY
--         REUSE SUBQUERY
--         CORRELATED SCALAR SUBQUERY
--           SCAN c VIRTUAL TABLE INDEX 1:
--           CORRELATED SCALAR SUBQUERY
--             SCAN m VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY
--               SCAN e VIRTUAL TABLE INDEX 1:
--         SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--         CORRELATED SCALAR SUBQUERY
--           SCAN c VIRTUAL TABLE INDEX 1:
--           CORRELATED SCALAR SUBQUERY
--             SCAN m VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY
--               SCAN e VIRTUAL TABLE INDEX 1:
--       SCAN success
--       SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       SEARCH traces USING INDEX sqlite_autoindex_traces_1 (trace_id=?) LEFT-JOIN
--       USE TEMP B-TREE FOR ORDER BY

-- searchRuns ({"statuses":["pending","running","success","error","timeout","interrupted"],"conditions":["thread_id","created_after"],"narrow":true})
-- (deployment text, thread_id text, created_after bigint, statuses text, limit bigint, limit bigint)
select "runs"."run_id", "runs"."thread_id", "runs"."assistant_id", "runs"."graph_id", "runs"."seq", "runs"."created_at", "runs"."updated_at", "runs"."status", "runs"."metadata", "runs"."multitask_strategy", "runs"."attempt", "runs"."claims", "runs"."claim_number", "runs"."stateless", "runs"."started_at", "runs"."ended_at", "runs"."error", "runs"."has_frames", "runs"."end_frame", "runs"."user_id", "runs"."api_key", "runs"."webhook", "runs"."webhook_host", "runs"."webhook_depth", "runs"."cron_id", "runs"."cancel_reason", "runs"."call_id", "runs"."waiting_for", "runs"."trace_origin", "runs"."assistant_version", "runs"."lease_until", "runs"."cancelled", "runs"."claim_log", traces.trace_id, traces.tokens_in, traces.tokens_out, traces.cost_usd
    from (select run_id from (select run_id from runs where deployment = (select ?) and thread_id = (select ?) and created_at >= (select ?) and (status || '') in (select value from json_each((select ?)))
      order by created_at desc, run_id desc limit (select ?)) as "few") as found join runs on runs.run_id = found.run_id
    left join traces on traces.trace_id = runs.run_id
    order by runs.created_at desc, runs.run_id desc limit (select ?)
-- Postgres:
select "runs"."run_id", "runs"."thread_id", "runs"."assistant_id", "runs"."graph_id", "runs"."seq", "runs"."created_at", "runs"."updated_at", "runs"."status", "runs"."metadata", "runs"."multitask_strategy", "runs"."attempt", "runs"."claims", "runs"."claim_number", "runs"."stateless", "runs"."started_at", "runs"."ended_at", "runs"."error", "runs"."has_frames", "runs"."end_frame", "runs"."user_id", "runs"."api_key", "runs"."webhook", "runs"."webhook_host", "runs"."webhook_depth", "runs"."cron_id", "runs"."cancel_reason", "runs"."call_id", "runs"."waiting_for", "runs"."trace_origin", "runs"."assistant_version", "runs"."lease_until", "runs"."cancelled", "runs"."claim_log", traces.trace_id, traces.tokens_in, traces.tokens_out, traces.cost_usd
    from (select run_id from (select run_id from runs where deployment = $1::text and thread_id = $2::text and created_at >= $3::bigint and (status || '') in (select value collate "C" as value from json_array_elements_text($4::text::json))
      order by created_at desc, run_id desc limit $5::bigint) as "few") as found join runs on runs.run_id = found.run_id
    left join traces on traces.trace_id = runs.run_id
    order by runs.created_at desc, runs.run_id desc limit $6::bigint
--   CO-ROUTINE few
--     SEARCH runs USING INDEX runs_order (deployment=? AND thread_id=?)
--     LIST SUBQUERY
--       SCAN json_each VIRTUAL TABLE INDEX 1:
--       CREATE BLOOM FILTER
--     USE TEMP B-TREE FOR ORDER BY
--   SCAN few
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   SEARCH traces USING INDEX sqlite_autoindex_traces_1 (trace_id=?) LEFT-JOIN
--   USE TEMP B-TREE FOR ORDER BY

-- searchRuns ({"statuses":["pending"],"conditions":["waiting"],"narrow":false})
-- (deployment text, pending text, pending text, limit bigint, limit bigint)
select "runs"."run_id", "runs"."thread_id", "runs"."assistant_id", "runs"."graph_id", "runs"."seq", "runs"."created_at", "runs"."updated_at", "runs"."status", "runs"."metadata", "runs"."multitask_strategy", "runs"."attempt", "runs"."claims", "runs"."claim_number", "runs"."stateless", "runs"."started_at", "runs"."ended_at", "runs"."error", "runs"."has_frames", "runs"."end_frame", "runs"."user_id", "runs"."api_key", "runs"."webhook", "runs"."webhook_host", "runs"."webhook_depth", "runs"."cron_id", "runs"."cancel_reason", "runs"."call_id", "runs"."waiting_for", "runs"."trace_origin", "runs"."assistant_version", "runs"."lease_until", "runs"."cancelled", "runs"."claim_log", traces.trace_id, traces.tokens_in, traces.tokens_out, traces.cost_usd
    from (select run_id from (select run_id from runs where deployment = (select ?) and (status = (select ?) and waiting_for is not null) and status = (select ?)
      order by created_at desc, run_id desc limit (select ?)) as "pending") as found join runs on runs.run_id = found.run_id
    left join traces on traces.trace_id = runs.run_id
    order by runs.created_at desc, runs.run_id desc limit (select ?)
--   CO-ROUTINE pending
--     SEARCH runs USING INDEX runs_status (deployment=? AND status=?)
--   SCAN pending
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   SEARCH traces USING INDEX sqlite_autoindex_traces_1 (trace_id=?) LEFT-JOIN
--   USE TEMP B-TREE FOR ORDER BY

-- searchRuns ({"statuses":["error"],"conditions":["min_active_ms","error_type","moving"],"narrow":false})
-- (deployment text, min_active_ms double precision, error_type text, pending text, error text, limit bigint, limit bigint)
select "runs"."run_id", "runs"."thread_id", "runs"."assistant_id", "runs"."graph_id", "runs"."seq", "runs"."created_at", "runs"."updated_at", "runs"."status", "runs"."metadata", "runs"."multitask_strategy", "runs"."attempt", "runs"."claims", "runs"."claim_number", "runs"."stateless", "runs"."started_at", "runs"."ended_at", "runs"."error", "runs"."has_frames", "runs"."end_frame", "runs"."user_id", "runs"."api_key", "runs"."webhook", "runs"."webhook_host", "runs"."webhook_depth", "runs"."cron_id", "runs"."cancel_reason", "runs"."call_id", "runs"."waiting_for", "runs"."trace_origin", "runs"."assistant_version", "runs"."lease_until", "runs"."cancelled", "runs"."claim_log", traces.trace_id, traces.tokens_in, traces.tokens_out, traces.cost_usd
    from (select run_id from (select run_id from runs where deployment = (select ?) and coalesce((select t.active_ms from run_traces t where t.run_id = runs.run_id), ended_at - started_at) >= (select ?) and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(runs.error) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)) and not (status = (select ?) and waiting_for is not null) and status = (select ?)
      order by created_at desc, run_id desc limit (select ?)) as "error") as found join runs on runs.run_id = found.run_id
    left join traces on traces.trace_id = runs.run_id
    order by runs.created_at desc, runs.run_id desc limit (select ?)
-- Postgres:
select "runs"."run_id", "runs"."thread_id", "runs"."assistant_id", "runs"."graph_id", "runs"."seq", "runs"."created_at", "runs"."updated_at", "runs"."status", "runs"."metadata", "runs"."multitask_strategy", "runs"."attempt", "runs"."claims", "runs"."claim_number", "runs"."stateless", "runs"."started_at", "runs"."ended_at", "runs"."error", "runs"."has_frames", "runs"."end_frame", "runs"."user_id", "runs"."api_key", "runs"."webhook", "runs"."webhook_host", "runs"."webhook_depth", "runs"."cron_id", "runs"."cancel_reason", "runs"."call_id", "runs"."waiting_for", "runs"."trace_origin", "runs"."assistant_version", "runs"."lease_until", "runs"."cancelled", "runs"."claim_log", traces.trace_id, traces.tokens_in, traces.tokens_out, traces.cost_usd
    from (select run_id from (select run_id from runs where deployment = $1::text and coalesce((select t.active_ms from run_traces t where t.run_id = runs.run_id), ended_at - started_at) >= $2::double precision and not exists (select 1 from json_array_elements(replace(replace(replace($3::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(runs.error, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)) and not (status = $4::text and waiting_for is not null) and status = $5::text
      order by created_at desc, run_id desc limit $6::bigint) as "error") as found join runs on runs.run_id = found.run_id
    left join traces on traces.trace_id = runs.run_id
    order by runs.created_at desc, runs.run_id desc limit $7::bigint
--   CO-ROUTINE error
--     SEARCH runs USING INDEX runs_status (deployment=? AND status=?)
--     CORRELATED SCALAR SUBQUERY
--       SEARCH t USING PRIMARY KEY (run_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:
--   SCAN error
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
--         REUSE SUBQUERY
--         REUSE SUBQUERY
--       SCAN pending
--       USE TEMP B-TREE FOR ORDER BY
--     RIGHT
--       CO-ROUTINE success
--         SEARCH runs USING COVERING INDEX runs_status (deployment=? AND status=? AND (created_at,run_id)<(?,?))
--         REUSE SUBQUERY
--         REUSE SUBQUERY
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
--   MERGE (UNION ALL)
--     LEFT
--       MERGE (UNION ALL)
--         LEFT
--           MERGE (UNION ALL)
--             LEFT
--               CO-ROUTINE pending
--                 SEARCH runs USING INDEX runs_status (deployment=? AND status=?)
--               SCAN pending
--               USE TEMP B-TREE FOR ORDER BY
--             RIGHT
--               CO-ROUTINE running
--                 SEARCH runs USING INDEX runs_status (deployment=? AND status=?)
--               SCAN running
--               USE TEMP B-TREE FOR ORDER BY
--         RIGHT
--           CO-ROUTINE success
--             SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--           SCAN success
--           USE TEMP B-TREE FOR ORDER BY
--     RIGHT
--       MERGE (UNION ALL)
--         LEFT
--           MERGE (UNION ALL)
--             LEFT
--               CO-ROUTINE error
--                 SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--               SCAN error
--               USE TEMP B-TREE FOR ORDER BY
--             RIGHT
--               CO-ROUTINE timeout
--                 SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--               SCAN timeout
--               USE TEMP B-TREE FOR ORDER BY
--         RIGHT
--           CO-ROUTINE interrupted
--             SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND created_at>?)
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
--   MERGE (UNION ALL)
--     LEFT
--       MERGE (UNION ALL)
--         LEFT
--           MERGE (UNION ALL)
--             LEFT
--               CO-ROUTINE pending
--                 SEARCH runs USING INDEX runs_status (deployment=? AND status=?)
--                 SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--                 CORRELATED SCALAR SUBQUERY
--                   SCAN c VIRTUAL TABLE INDEX 1:
--                   CORRELATED SCALAR SUBQUERY
--                     SCAN m VIRTUAL TABLE INDEX 1:
--                     CORRELATED SCALAR SUBQUERY
--                       SCAN e VIRTUAL TABLE INDEX 1:
--               SCAN pending
--               USE TEMP B-TREE FOR ORDER BY
--             RIGHT
--               CO-ROUTINE running
--                 SEARCH runs USING INDEX runs_status (deployment=? AND status=?)
--                 SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--                 CORRELATED SCALAR SUBQUERY
--                   SCAN c VIRTUAL TABLE INDEX 1:
--                   CORRELATED SCALAR SUBQUERY
--                     SCAN m VIRTUAL TABLE INDEX 1:
--                     CORRELATED SCALAR SUBQUERY
--                       SCAN e VIRTUAL TABLE INDEX 1:
--               SCAN running
--               USE TEMP B-TREE FOR ORDER BY
--         RIGHT
--           CO-ROUTINE success
--             SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--             SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--             CORRELATED SCALAR SUBQUERY
--               SCAN c VIRTUAL TABLE INDEX 1:
--               CORRELATED SCALAR SUBQUERY
--                 SCAN m VIRTUAL TABLE INDEX 1:
--                 CORRELATED SCALAR SUBQUERY
--                   SCAN e VIRTUAL TABLE INDEX 1:
--           SCAN success
--           USE TEMP B-TREE FOR ORDER BY
--     RIGHT
--       MERGE (UNION ALL)
--         LEFT
--           MERGE (UNION ALL)
--             LEFT
--               CO-ROUTINE error
--                 SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--                 SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--                 CORRELATED SCALAR SUBQUERY
--                   SCAN c VIRTUAL TABLE INDEX 1:
--                   CORRELATED SCALAR SUBQUERY
--                     SCAN m VIRTUAL TABLE INDEX 1:
--                     CORRELATED SCALAR SUBQUERY
--                       SCAN e VIRTUAL TABLE INDEX 1:
--               SCAN error
--               USE TEMP B-TREE FOR ORDER BY
--             RIGHT
--               CO-ROUTINE timeout
--                 SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--                 SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--                 CORRELATED SCALAR SUBQUERY
--                   SCAN c VIRTUAL TABLE INDEX 1:
--                   CORRELATED SCALAR SUBQUERY
--                     SCAN m VIRTUAL TABLE INDEX 1:
--                     CORRELATED SCALAR SUBQUERY
--                       SCAN e VIRTUAL TABLE INDEX 1:
--               SCAN timeout
--               USE TEMP B-TREE FOR ORDER BY
--         RIGHT
--           CO-ROUTINE interrupted
--             SEARCH runs USING INDEX runs_status (deployment=? AND status=? AND created_at>?)
--             SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--             CORRELATED SCALAR SUBQUERY
--               SCAN c VIRTUAL TABLE INDEX 1:
--               CORRELATED SCALAR SUBQUERY
--                 SCAN m VIRTUAL TABLE INDEX 1:
--                 CORRELATED SCALAR SUBQUERY
--                   SCAN e VIRTUAL TABLE INDEX 1:
--           SCAN interrupted
--           USE TEMP B-TREE FOR ORDER BY
