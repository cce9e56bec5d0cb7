-- claimDeliveries
-- (token text, until bigint, now bigint, deployment text, deployment text, deployment text, now bigint, deployment text, now bigint, now bigint, per_host bigint, per_host bigint, limit bigint)
update webhook_deliveries set claim_token = (select ?), claimed_until = (select ?),
      attempts = attempts + 1, series_attempts = series_attempts + 1, sent_at = coalesce(sent_at, (select ?))
    where delivery_id in (
      with recursive hosts (host) as (
        select min(host) from webhook_deliveries where deployment = (select ?) and state = 'pending'
        union all
        select (select min(w.host) from webhook_deliveries w
          where w.deployment = (select ?) and w.state = 'pending' and w.host > hosts.host)
        from hosts where hosts.host is not null
      ), busy as (
        select host, count(*) as sends from webhook_deliveries
        where deployment = (select ?) and claim_token is not null and claimed_until > (select ?)
        group by host
      ), due as (
        select d.delivery_id, d.host, d.due_at,
          row_number() over (partition by d.host order by d.due_at, d.delivery_id) as rank
        from hosts cross join webhook_deliveries d where d.delivery_id in (
          select w.delivery_id from webhook_deliveries w
          where w.deployment = (select ?) and w.host = hosts.host and w.state = 'pending'
            and w.due_at <= (select ?) and (w.claim_token is null or w.claimed_until <= (select ?))
          order by w.due_at, w.delivery_id limit (select ?))
      )
      select due.delivery_id from due left join busy on busy.host = due.host
      where due.rank + coalesce(busy.sends, 0) <= (select ?)
      order by due.due_at, due.delivery_id limit (select ?)
    ) returning *
--   SEARCH webhook_deliveries USING COVERING INDEX sqlite_autoindex_webhook_deliveries_1 (delivery_id=?)
--   LIST SUBQUERY
--     MATERIALIZE due
--       CO-ROUTINE (subquery-21)
--         MATERIALIZE hosts
--           SETUP
--             SEARCH webhook_deliveries USING COVERING INDEX deliveries_host (deployment=?)
--           RECURSIVE STEP
--             SCAN hosts
--             CORRELATED SCALAR SUBQUERY
--               SEARCH w USING COVERING INDEX deliveries_host (deployment=? AND host>?)
--         SCAN hosts
--         SEARCH d USING INDEX sqlite_autoindex_webhook_deliveries_1 (delivery_id=?)
--         CORRELATED LIST SUBQUERY
--           SEARCH w USING INDEX deliveries_host (deployment=? AND host=? AND due_at<?)
--         USE TEMP B-TREE FOR ORDER BY
--       SCAN (subquery-21)
--     MATERIALIZE busy
--       SEARCH webhook_deliveries USING INDEX deliveries_claimed (deployment=?)
--     SCAN due
--     SEARCH busy USING AUTOMATIC COVERING INDEX (host=?) LEFT-JOIN
--     USE TEMP B-TREE FOR ORDER BY

-- endWorkerClaims
update "webhook_deliveries" set "due_at" = claimed_until, "claim_token" = null, "claimed_until" = null where "claim_token" is not null and "claim_token" like 'worker %'
--   SCAN webhook_deliveries USING INDEX deliveries_claimed

-- insertAttempt
-- (delivery_id text, number bigint, at bigint, status bigint, error text, duration_ms bigint, address text, answer text, delivery_id text, deployment text, token text, token text)
insert into "delivery_attempts" ("delivery_id", "number", "at", "status", "error", "duration_ms", "address", "answer") select ?, ?, ?, ?, ?, ?, ?, ? where exists (select 1 from webhook_deliveries where delivery_id = ? and deployment = ?
    and claim_token in (?, 'worker ' || ?)) on conflict do nothing
--   SEARCH webhook_deliveries EXISTS USING INDEX sqlite_autoindex_webhook_deliveries_1 (delivery_id=?)

-- insertCancelNotifications
-- (now bigint, now bigint, now bigint, deployment text, task_id text, task_id text)
insert into webhook_deliveries ("delivery_id", "deployment", "url", "host", "depth", "state", "attempts", "series_attempts", "due_at", "created_at", "thread_id", "assistant_id", "status", "metadata", "kwargs", "multitask_strategy", "attempt", "stateless", "run_created_at", "started_at", "ended_at", "error", "state_values", "values_omitted", "cancel_reason", "run_id", "push", "interrupts", "assistant_version", "trace_origin")
    select substr(c.push_id, 1, 24) || '000000000000', r.deployment, c.url, c.host, 0, 'pending', 0, 0, ?, ?, r.thread_id, r.assistant_id, 'interrupted', '{}', '{}', r.multitask_strategy, r.attempt, r.stateless, r.created_at, r.started_at, ?, null, null, 0, null, r.run_id, c.config, case when 'interrupted' = 'success' then (select t.interrupts from threads t
      where t.deployment = r.deployment and t.thread_id = r.thread_id) else null end, r.assistant_version, r.trace_origin from (select runs.* from runs where deployment = ? and run_id in (
      select o.last_run from push_configs o where o.task_id = ?) and true) r
    join push_configs c on c.last_run = r.run_id
    where c.task_id = ? on conflict do nothing
--   SEARCH c USING INDEX sqlite_autoindex_push_configs_1 (task_id=?)
--   LIST SUBQUERY
--     SEARCH o USING INDEX sqlite_autoindex_push_configs_1 (task_id=?)
--     CREATE BLOOM FILTER
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH t USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SEARCH delivery_attempts USING COVERING INDEX sqlite_autoindex_delivery_attempts_1 (delivery_id=?)

-- insertCancelNotifications (filtered)
-- (now bigint, now bigint, now bigint, deployment text, task_id text, filter text, task_id text)
insert into webhook_deliveries ("delivery_id", "deployment", "url", "host", "depth", "state", "attempts", "series_attempts", "due_at", "created_at", "thread_id", "assistant_id", "status", "metadata", "kwargs", "multitask_strategy", "attempt", "stateless", "run_created_at", "started_at", "ended_at", "error", "state_values", "values_omitted", "cancel_reason", "run_id", "push", "interrupts", "assistant_version", "trace_origin")
    select substr(c.push_id, 1, 24) || '000000000000', r.deployment, c.url, c.host, 0, 'pending', 0, 0, ?, ?, r.thread_id, r.assistant_id, 'interrupted', '{}', '{}', r.multitask_strategy, r.attempt, r.stateless, r.created_at, r.started_at, ?, null, null, 0, null, r.run_id, c.config, case when 'interrupted' = 'success' then (select t.interrupts from threads t
      where t.deployment = r.deployment and t.thread_id = r.thread_id) else null end, r.assistant_version, r.trace_origin from (select runs.* from runs where deployment = ? and run_id in (
      select o.last_run from push_configs o where o.task_id = ?) and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))) r
    join push_configs c on c.last_run = r.run_id
    where c.task_id = ? on conflict do nothing
-- Postgres:
insert into webhook_deliveries ("delivery_id", "deployment", "url", "host", "depth", "state", "attempts", "series_attempts", "due_at", "created_at", "thread_id", "assistant_id", "status", "metadata", "kwargs", "multitask_strategy", "attempt", "stateless", "run_created_at", "started_at", "ended_at", "error", "state_values", "values_omitted", "cancel_reason", "run_id", "push", "interrupts", "assistant_version", "trace_origin")
    select substr(c.push_id, 1, 24) || '000000000000', r.deployment, c.url, c.host, 0, 'pending', 0, 0, $1::bigint, $2::bigint, r.thread_id, r.assistant_id, 'interrupted', '{}', '{}', r.multitask_strategy, r.attempt, r.stateless, r.created_at, r.started_at, $3::bigint, null, null, 0, null, r.run_id, c.config, case when 'interrupted' = 'success' then (select t.interrupts from threads t
      where t.deployment = r.deployment and t.thread_id = r.thread_id) else null end, r.assistant_version, r.trace_origin from (select runs.* from runs where deployment = $4::text and run_id in (
      select o.last_run from push_configs o where o.task_id = $5::text) and exists (select 1 from threads permitting where permitting.deployment = "runs"."deployment"
    and permitting.thread_id = "runs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($6::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))) r
    join push_configs c on c.last_run = r.run_id
    where c.task_id = $7::text on conflict do nothing
--   SEARCH c USING INDEX sqlite_autoindex_push_configs_1 (task_id=?)
--   LIST SUBQUERY
--     SEARCH o USING INDEX sqlite_autoindex_push_configs_1 (task_id=?)
--     CREATE BLOOM FILTER
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:
--   CORRELATED SCALAR SUBQUERY
--     SEARCH t USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SEARCH delivery_attempts USING COVERING INDEX sqlite_autoindex_delivery_attempts_1 (delivery_id=?)

-- releaseDelivery
-- (state text, due_at bigint, uncounted bigint, delivery_id text, deployment text, token text, token text)
update "webhook_deliveries" set "state" = ?, "due_at" = coalesce(?, due_at), "series_attempts" = series_attempts - ?, "claim_token" = null, "claimed_until" = null where delivery_id = ? and deployment = ?
    and claim_token in (?, 'worker ' || ?) returning "delivery_id"
--   SEARCH webhook_deliveries USING INDEX sqlite_autoindex_webhook_deliveries_1 (delivery_id=?)

-- restartDelivery
-- (now bigint, delivery_id text, deployment text, now bigint)
update "webhook_deliveries" set "state" = 'pending', "series_attempts" = 0, "due_at" = ?, "claim_token" = null, "claimed_until" = null where "delivery_id" = ? and "deployment" = ? and (claim_token is null or claimed_until <= ?) and true returning "delivery_id"
--   SEARCH webhook_deliveries USING INDEX sqlite_autoindex_webhook_deliveries_1 (delivery_id=?)

-- restartDelivery (filtered)
-- (now bigint, delivery_id text, deployment text, now bigint, filter text)
update "webhook_deliveries" set "state" = 'pending', "series_attempts" = 0, "due_at" = ?, "claim_token" = null, "claimed_until" = null where "delivery_id" = ? and "deployment" = ? and (claim_token is null or claimed_until <= ?) and exists (select 1 from threads permitting where permitting.deployment = "webhook_deliveries"."deployment"
    and permitting.thread_id = "webhook_deliveries"."thread_id" and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) returning "delivery_id"
-- Postgres:
update "webhook_deliveries" set "state" = 'pending', "series_attempts" = 0, "due_at" = $1::bigint, "claim_token" = null, "claimed_until" = null where "delivery_id" = $2::text and "deployment" = $3::text and (claim_token is null or claimed_until <= $4::bigint) and exists (select 1 from threads permitting where permitting.deployment = "webhook_deliveries"."deployment"
    and permitting.thread_id = "webhook_deliveries"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($5::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) returning "delivery_id"
--   SEARCH webhook_deliveries USING INDEX sqlite_autoindex_webhook_deliveries_1 (delivery_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH permitting USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:

-- selectAttempts
-- (delivery_id text, deployment text)
select "a".* from "delivery_attempts" as "a" inner join "webhook_deliveries" as "d" on "d"."delivery_id" = "a"."delivery_id" where "a"."delivery_id" = (select ?) and "d"."deployment" = (select ?) and true order by "a"."number"
--   SEARCH d USING INDEX sqlite_autoindex_webhook_deliveries_1 (delivery_id=?)
--   REUSE SUBQUERY
--   SEARCH a USING INDEX sqlite_autoindex_delivery_attempts_1 (delivery_id=?)

-- selectAttempts (filtered)
-- (delivery_id text, deployment text, filter text)
select "a".* from "delivery_attempts" as "a" inner join "webhook_deliveries" as "d" on "d"."delivery_id" = "a"."delivery_id" where "a"."delivery_id" = (select ?) and "d"."deployment" = (select ?) and exists (select 1 from threads permitting where permitting.deployment = "d"."deployment"
    and permitting.thread_id = "d"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) order by "a"."number"
-- Postgres:
select "a".* from "delivery_attempts" as "a" inner join "webhook_deliveries" as "d" on "d"."delivery_id" = "a"."delivery_id" where "a"."delivery_id" = $1::text and "d"."deployment" = $2::text and exists (select 1 from threads permitting where permitting.deployment = "d"."deployment"
    and permitting.thread_id = "d"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($3::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) order by "a"."number"
--   SEARCH d USING INDEX sqlite_autoindex_webhook_deliveries_1 (delivery_id=?)
--   REUSE SUBQUERY
--   SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:
--   SEARCH a USING INDEX sqlite_autoindex_delivery_attempts_1 (delivery_id=?)

-- selectDeliveries ({"states":[],"of_run":false,"of_thread":false,"after":true,"filtered":false})
-- (deployment text, after_created_at bigint, after_id text, limit bigint)
select * from "webhook_deliveries" where "deployment" = (select ?) and (created_at, delivery_id) < ((select ?), (select ?)) and true order by "created_at" desc, "delivery_id" desc limit (select ?)
--   SEARCH webhook_deliveries USING INDEX deliveries_created (deployment=? AND (created_at,delivery_id)<(?,?))
--   REUSE SUBQUERY
--   REUSE SUBQUERY

-- selectDeliveries ({"states":["failed"],"of_run":false,"of_thread":false,"after":false,"filtered":true})
-- (deployment text, filter text, limit bigint)
select * from "webhook_deliveries" where "deployment" = (select ?) and state = 'failed' and exists (select 1 from threads permitting where permitting.deployment = "webhook_deliveries"."deployment"
    and permitting.thread_id = "webhook_deliveries"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) order by "created_at" desc, "delivery_id" desc limit (select ?)
-- Postgres:
select * from "webhook_deliveries" where "deployment" = $1::text and state = 'failed' and exists (select 1 from threads permitting where permitting.deployment = "webhook_deliveries"."deployment"
    and permitting.thread_id = "webhook_deliveries"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($2::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) order by "created_at" desc, "delivery_id" desc limit $3::bigint
--   SEARCH webhook_deliveries USING INDEX deliveries_failed (deployment=?)
--   SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:

-- selectDeliveries ({"states":["pending","delivered"],"of_run":true,"of_thread":true,"after":false,"filtered":false})
-- (deployment text, run_id text, thread_id text, limit bigint)
select * from "webhook_deliveries" where "deployment" = (select ?) and state in ('pending', 'delivered') and "delivery_id" = (select ?) and "thread_id" = (select ?) and true order by "created_at" desc, "delivery_id" desc limit (select ?)
--   SEARCH webhook_deliveries USING INDEX sqlite_autoindex_webhook_deliveries_1 (delivery_id=?)

-- selectNextDue
-- (deployment text)
select "due_at" from "webhook_deliveries" where "deployment" = (select ?) and "state" = 'pending' and "claim_token" is null order by "due_at" limit 1
--   SEARCH webhook_deliveries USING INDEX deliveries_due (deployment=?)
