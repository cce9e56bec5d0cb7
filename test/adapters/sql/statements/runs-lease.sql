-- countFailure
-- (failed bigint, deployment text, cron_id text, failed bigint, deployment text, thread_id text, run_id text, token text)
update "crons" set "failures" = case when (select ?) = 1 then failures + 1 else 0 end where "deployment" = (select ?) and "cron_id" = (select ?) and ((select ?) = 1 or failures > 0) and exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running')
--   SEARCH crons USING INDEX sqlite_autoindex_crons_1 (deployment=? AND cron_id=?)
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- endFeature ({"feature":"feedback"})
-- (now bigint, deployment text, thread_id text, run_id text, token text)
update feedback_tokens set expires_at = (select ?) + life_ms where expires_at is null and life_ms is not null
    and run_id in (select run_id from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running' and feedback is not null)
--   SEARCH feedback_tokens USING INDEX feedback_tokens_run (run_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- endFeature ({"feature":"webhooks"})
-- (now bigint, now bigint, status text, now bigint, error text, values text, values_omitted bigint, status text, deployment text, thread_id text, run_id text, token text, now bigint, now bigint, status text, now bigint, error text, status text, deployment text, thread_id text, run_id text, token text)
insert into webhook_deliveries ("delivery_id", "deployment", "url", "host", "depth", "state", "attempts", "series_attempts", "due_at", "created_at", "thread_id", "assistant_id", "status", "metadata", "kwargs", "multitask_strategy", "attempt", "stateless", "run_created_at", "started_at", "ended_at", "error", "state_values", "values_omitted", "cancel_reason", "run_id", "push", "interrupts", "assistant_version", "trace_origin")
    select r.run_id, r.deployment, r.webhook, coalesce(r.webhook_host, ''), r.webhook_depth, 'pending', 0, 0, (select ?), (select ?), r.thread_id, r.assistant_id, (select ?), r.metadata, r.kwargs, r.multitask_strategy, r.attempt, r.stateless, r.created_at, r.started_at, (select ?), (select ?), case when r.stateless = 1 then null else (select ?) end, case when r.stateless = 1 then 0 else (select ?) end, case when (select ?) = 'interrupted' then r.cancel_reason else null end, r.run_id, null, null, r.assistant_version, r.trace_origin from (select * from runs where webhook is not null and deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running') r
    union all
    select substr(c.push_id, 1, 24) || substr(r.run_id, 25), r.deployment, c.url, c.host, 0, 'pending', 0, 0, (select ?), (select ?), r.thread_id, r.assistant_id, (select ?), '{}', '{}', r.multitask_strategy, r.attempt, r.stateless, r.created_at, r.started_at, (select ?), (select ?), null, 0, null, r.run_id, c.config, case when (select ?) = 'success' then (select t.interrupts from threads t
      where t.deployment = r.deployment and t.thread_id = r.thread_id) else null end, r.assistant_version, r.trace_origin from (select * from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running') r join push_configs c on c.last_run = r.run_id
    where true on conflict do nothing
--   COMPOUND QUERY
--     LEFT-MOST SUBQUERY
--       SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     UNION ALL
--       SEARCH runs USING INDEX runs_running (deployment=? AND thread_id=?)
--       SEARCH c USING INDEX push_configs_last (last_run=?)
--       REUSE SUBQUERY
--       CORRELATED SCALAR SUBQUERY
--         SEARCH t USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SEARCH delivery_attempts USING COVERING INDEX sqlite_autoindex_delivery_attempts_1 (delivery_id=?)

-- endRun
-- (status text, run_error text, result text, now bigint, end_frame bigint, now bigint, deployment text, thread_id text, run_id text, token text)
update "runs" set "status" = (select ?), "error" = (select ?), "result" = (select ?), "ended_at" = (select ?), "end_frame" = (select ?), "updated_at" = (select ?), "lease_token" = null, "lease_until" = null where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running' returning "run_id"
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- extendLease
-- (lease_until bigint, lease_until bigint, deployment text, thread_id text, run_id text, token text)
update "runs" set "lease_until" = case when "lease_until" < (select ?) then (select ?) else "lease_until" end where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running' returning "cancelled"
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- extendThreadLock
-- (lease_until bigint, lease_until bigint, deployment text, thread_id text, token text, deployment text, thread_id text, run_id text, token text)
update "threads" set "slot_until" = case when "slot_until" < (select ?) then (select ?) else "slot_until" end where deployment = (select ?) and thread_id = (select ?) and slot_token = (select ?) and exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running')
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- isLeased
-- (deployment text, thread_id text, run_id text, token text)
select "run_id" from "runs" where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running'
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- releaseLeasedThreadLock
-- (deployment text, thread_id text, token text, deployment text, thread_id text, run_id text, token text)
update "threads" set "slot_token" = null, "slot_until" = null where deployment = (select ?) and thread_id = (select ?) and slot_token = (select ?) and exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running')
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- releaseLostThreadLock
-- (deployment text, thread_id text, token text, deployment text, thread_id text, run_id text, token text)
update "threads" set "slot_token" = null, "slot_until" = null where deployment = (select ?) and thread_id = (select ?) and slot_token = (select ?) and not exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running')
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- requeueRun
-- (now bigint, now bigint, now bigint, deployment text, thread_id text, run_id text, token text)
update "runs" set "attempt" = attempt - counts_as_attempt, "counts_as_attempt" = 0, "status" = 'pending', "lease_token" = null, "lease_until" = null, "updated_at" = (select ?), "due_at" = case when due_at > (select ?) then (select ?) else due_at end where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running' returning "run_id"
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- setHasCheckpoint
-- (deployment text, thread_id text, run_id text, token text)
update "runs" set "has_checkpoint" = 1, "progressed" = attempt where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running' returning "run_id"
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- suspendRun
-- (now bigint, waiting_for text, deployment text, thread_id text, call_id text, after bigint, now bigint, due_at bigint, deployment text, thread_id text, run_id text, token text)
update "runs" set "status" = 'pending', "lease_token" = null, "lease_until" = null, "updated_at" = (select ?), "attempt" = runs.attempt - counts_as_attempt, "counts_as_attempt" = 0, "has_checkpoint" = 1, "waiting_for" = (select ?), "due_at" = case when cancelled = 1 or exists (select 1 from call_events e where e.deployment = (select ?)
    and e.thread_id = (select ?) and e.call_id = (select ?) and e.seq > (select ?)) then (select ?) else (select ?) end where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running' returning "due_at"
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   SCALAR SUBQUERY
--     SEARCH e USING COVERING INDEX sqlite_autoindex_call_events_1 (deployment=? AND thread_id=? AND call_id=? AND seq>?)

-- updateEndedThread
-- (now bigint, resting_status text, now bigint, head text, resting_status text, interrupts text, resting_status text, thread_error text, token text, token text, deployment text, thread_id text, deployment text, thread_id text, run_id text, token text)
update "threads" set "updated_at" = (select ?), "state_updated_at" = case when (select ?) is null then state_updated_at else (select ?) end, "head" = coalesce((select ?), head), "status" = coalesce((select ?), status), "interrupts" = coalesce((select ?), interrupts), "error" = case when (select ?) is null then error else (select ?) end, "slot_token" = case when slot_token = (select ?) then null else slot_token end, "slot_until" = case when slot_token = (select ?) then null else slot_until end where "deployment" = (select ?) and "thread_id" = (select ?) and exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running')
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
