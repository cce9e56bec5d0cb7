-- clearHasFrames
-- (run_ids text)
update runs set has_frames = 0 where run_id in (select value from json_each(?))
    and not exists (select 1 from run_frames f where f.run_id = runs.run_id) returning run_id
-- Postgres:
update runs set has_frames = 0 where run_id in (select value collate "C" as value from json_array_elements_text($1::text::json))
    and not exists (select 1 from run_frames f where f.run_id = runs.run_id) returning run_id
--   SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--   CORRELATED SCALAR SUBQUERY
--     SEARCH f USING COVERING INDEX sqlite_autoindex_run_frames_1 (run_id=?)

-- clearHasIdempotencyKey
-- (run_ids text)
update "runs" set "has_idempotency_key" = 0 where "run_id" in (select value from json_each(?))
-- Postgres:
update "runs" set "has_idempotency_key" = 0 where "run_id" in (select value collate "C" as value from json_array_elements_text($1::text::json))
--   SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:

-- deleteFrames
-- (run_ids text, limit bigint)
delete from run_frames where (run_id, first_id) in (
      select run_id, first_id from run_frames where run_id in (select value from json_each((select ?))) limit (select ?))
    returning first_id
-- Postgres:
delete from run_frames where (run_id, first_id) in (
      select run_id, first_id from run_frames where run_id in (select value collate "C" as value from json_array_elements_text($1::text::json)) limit $2::bigint)
    returning first_id
--   SEARCH run_frames USING COVERING INDEX sqlite_autoindex_run_frames_1 (run_id=? AND first_id=?)
--   LIST SUBQUERY
--     SEARCH run_frames USING COVERING INDEX sqlite_autoindex_run_frames_1 (run_id=?)
--     LIST SUBQUERY
--       SCAN json_each VIRTUAL TABLE INDEX 1:

-- deleteHiddenThreads
-- (deployment text, thread_ids text)
delete from threads where deployment = ? and thread_id in (select value from json_each(?)) and hidden = 1
    and not exists (select 1 from runs r where r.deployment = threads.deployment and r.thread_id = threads.thread_id)
-- Postgres:
delete from threads where deployment = $1::text and thread_id in (select value collate "C" as value from json_array_elements_text($2::text::json)) and hidden = 1
    and not exists (select 1 from runs r where r.deployment = threads.deployment and r.thread_id = threads.thread_id)
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_order (deployment=? AND thread_id=?)
--   SEARCH calls USING COVERING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=?)
--   SEARCH crons USING COVERING INDEX crons_thread (deployment=? AND thread_id=?)
--   SEARCH channel_values USING COVERING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoint_writes USING COVERING INDEX sqlite_autoindex_checkpoint_writes_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoints USING COVERING INDEX checkpoints_order (deployment=? AND thread_id=?)
--   SEARCH thread_events USING COVERING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=?)
--   SEARCH runs USING COVERING INDEX runs_order (deployment=? AND thread_id=?)

-- deleteKeys
-- (deployment text, keys text)
delete from idempotency_keys where deployment = (select ?)
    and (route, key) in (select json_extract(value, '$[0]') as "route", json_extract(value, '$[1]') as "key" from json_each((select ?))) returning key
-- Postgres:
delete from idempotency_keys where deployment = $1::text
    and (route, key) in (select (value ->> 0) collate "C" as "route", (value ->> 1) collate "C" as "key" from json_array_elements($2::text::json)) returning key
--   SEARCH idempotency_keys USING COVERING INDEX sqlite_autoindex_idempotency_keys_1 (deployment=? AND route=? AND key=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:

-- deleteOldOfFeature ({"feature":"feedback"})
-- (keys text)
delete from "feedback_tokens" where "token_id" in (select value from json_each(?)) and true
      returning "token_id" as key
-- Postgres:
delete from "feedback_tokens" where "token_id" in (select value collate "C" as value from json_array_elements_text($1::text::json)) and true
      returning "token_id" as key
--   SEARCH feedback_tokens USING COVERING INDEX sqlite_autoindex_feedback_tokens_1 (token_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:

-- deleteOldOfFeature ({"feature":"webhooks"})
-- (keys text)
delete from "webhook_deliveries" where "delivery_id" in (select value from json_each(?)) and state <> 'pending'
      returning "delivery_id" as key
-- Postgres:
delete from "webhook_deliveries" where "delivery_id" in (select value collate "C" as value from json_array_elements_text($1::text::json)) and state <> 'pending'
      returning "delivery_id" as key
--   SEARCH webhook_deliveries USING INDEX sqlite_autoindex_webhook_deliveries_1 (delivery_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--   SEARCH delivery_attempts USING COVERING INDEX sqlite_autoindex_delivery_attempts_1 (delivery_id=?)

-- deleteOldOfFeature ({"feature":"traces"})
-- (keys text)
delete from "run_traces" where "run_id" in (select value from json_each(?)) and ended_at is not null
      returning "run_id" as key
-- Postgres:
delete from "run_traces" where "run_id" in (select value collate "C" as value from json_array_elements_text($1::text::json)) and ended_at is not null
      returning "run_id" as key
--   SEARCH run_traces USING PRIMARY KEY (run_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--   SEARCH run_trace_contents USING COVERING INDEX sqlite_autoindex_run_trace_contents_1 (run_id=?)
--   SEARCH run_trace_parts USING COVERING INDEX sqlite_autoindex_run_trace_parts_1 (run_id=?)

-- deleteOldRuns
-- (run_ids text)
delete from "runs" where "run_id" in (select value from json_each(?)) returning "run_id"
-- Postgres:
delete from "runs" where "run_id" in (select value collate "C" as value from json_array_elements_text($1::text::json)) returning "run_id"
--   SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--   SEARCH push_configs USING COVERING INDEX sqlite_autoindex_push_configs_1 (task_id=?)
--   SEARCH run_frames USING COVERING INDEX sqlite_autoindex_run_frames_1 (run_id=?)

-- selectFramedRuns
-- (deployment text, before bigint, limit bigint)
select "run_id", "thread_id" from "runs" where "deployment" = (select ?) and has_frames = 1 and "ended_at" is not null and "ended_at" < (select ?) order by "ended_at" limit (select ?)
--   SEARCH runs USING INDEX runs_with_frames (deployment=? AND ended_at>? AND ended_at<?)

-- selectOldKeys
-- (deployment text, before bigint, limit bigint)
select "route", "key", "run_id" from "idempotency_keys" where "deployment" = (select ?) and "created_at" < (select ?) order by "created_at" limit (select ?)
--   SEARCH idempotency_keys USING INDEX keys_created (deployment=? AND created_at<?)

-- selectOldOfFeature ({"feature":"feedback"})
-- (deployment text, before bigint, limit bigint)
select "token_id" as key from "feedback_tokens" where deployment = (select ?)
      and true and "expires_at" < (select ?) order by "expires_at" limit (select ?)
--   SEARCH feedback_tokens USING INDEX feedback_tokens_expiry (deployment=? AND expires_at<?)

-- selectOldOfFeature ({"feature":"webhooks"})
-- (deployment text, before bigint, limit bigint)
select "delivery_id" as key from "webhook_deliveries" where deployment = (select ?)
      and state <> 'pending' and "created_at" < (select ?) order by "created_at" limit (select ?)
--   SEARCH webhook_deliveries USING INDEX deliveries_created (deployment=? AND created_at<?)

-- selectOldOfFeature ({"feature":"traces"})
-- (deployment text, before bigint, before bigint, limit bigint)
select "run_id" as key from "run_traces" where deployment = (select ?)
      and ended_at is not null and "started_at" < (select ?) and "ended_at" < (select ?) order by "started_at" limit (select ?)
--   SEARCH run_traces USING INDEX run_traces_started (deployment=? AND started_at<?)

-- selectStatelessRuns
-- (deployment text, before bigint, limit bigint)
select "run_id", "thread_id" from "runs" where "deployment" = (select ?) and stateless = 1 and has_frames = 0 and has_idempotency_key = 0 and "ended_at" is not null and "ended_at" < (select ?) order by "ended_at" limit (select ?)
--   SEARCH runs USING INDEX runs_stateless (deployment=? AND ended_at>? AND ended_at<?)

-- selectUnresumableRuns
-- (deployment text, before bigint, limit bigint)
select "run_id", "thread_id" from "runs" where "deployment" = (select ?) and stateless = 1 and has_frames = 1 and not instr(kwargs, '"resumable":true') > 0 and "ended_at" is not null and "ended_at" < (select ?) order by "ended_at" limit (select ?)
-- Postgres:
select "run_id", "thread_id" from "runs" where "deployment" = $1::text and stateless = 1 and has_frames = 1 and not strpos(kwargs, '"resumable":true') > 0 and "ended_at" is not null and "ended_at" < $2::bigint order by "ended_at" limit $3::bigint
--   SEARCH runs USING INDEX runs_passing (deployment=? AND ended_at>? AND ended_at<?)
