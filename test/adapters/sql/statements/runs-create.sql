-- countPendingRuns
-- (deployment text, deployment text)
select ((select count(*) from runs r where r.deployment = (select ?) and r.status = 'pending')
    - (select count(*) from runs s where s.deployment = (select ?) and s.status = 'pending' and s.waiting_for is not null)) as pending
--   SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_status (deployment=? AND status=?)
--   SCALAR SUBQUERY
--     SEARCH s USING INDEX runs_status (deployment=? AND status=?)

-- insertKey
-- (route text, key text, body_hash text, now bigint, run_id text)
insert into "idempotency_keys" ("deployment", "route", "key", "body_hash", "run_id", "created_at") select deployment, ?, ?, ?, run_id, ? from runs where run_id = ?
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- insertRun
-- (run_id text, assistant_id text, graph_id text, metadata text, kwargs text, multitask_strategy text, stateless bigint, created_at bigint, has_frames bigint, has_idempotency_key bigint, created_at bigint, now bigint, now bigint, user_id text, api_key text, feedback text, webhook text, webhook_host text, webhook_depth bigint, call_id text, trace_origin text, auth_user text, cron_id text, resume_targets text, log_entry text, assistant_version bigint, token text, deployment text, thread_id text, run_id text)
insert into "runs" ("run_id", "deployment", "thread_id", "seq", "assistant_id", "graph_id", "status", "metadata", "kwargs", "multitask_strategy", "stateless", "attempt", "claims", "counts_as_attempt", "claim_number", "due_at", "lease_token", "lease_until", "cancelled", "has_checkpoint", "progressed", "has_frames", "has_idempotency_key", "created_at", "updated_at", "started_at", "user_id", "api_key", "feedback", "webhook", "webhook_host", "webhook_depth", "call_id", "trace_origin", "auth_user", "cron_id", "resume_targets", "claim_log", "assistant_version") select ?, deployment, thread_id, run_count, ?, ?, case started when 1 then 'running' else 'pending' end, ?, ?, ?, ?, started, started, started, started * claim_count, ?, case started when 1 then slot_token end, case started when 1 then slot_until end, 0, 0, 1, ?, ?, ?, ?, case started when 1 then ? end, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, case started when 1 then ? end, ? from (select *, case when slot_token = ? then 1 else 0 end as started from threads
      where deployment = ? and thread_id = ? and last_run = ?) as taken returning "seq", "status", "attempt", "claims", "claim_number", "started_at", "lease_token"
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SEARCH push_configs USING COVERING INDEX sqlite_autoindex_push_configs_1 (task_id=?)
--   SEARCH run_frames USING COVERING INDEX sqlite_autoindex_run_frames_1 (run_id=?)

-- insertThreadOfRun ({"origin":"request","limited":true})
-- (deployment text, thread_id text, now bigint, now bigint, now bigint, metadata text, config text, graph_id text, hidden bigint, now bigint, token text, lease_until bigint, run_id text, deployment text, thread_id text, token text, ttl_strategy text, ttl_ms bigint, deployment text, assistant_id text, assistant_revision bigint, deployment text, route text, key text, deployment text, deployment text, pending_limit bigint)
insert into "threads" ("deployment", "thread_id", "created_at", "updated_at", "state_updated_at", "metadata", "config", "graph_id", "status", "interrupts", "hidden", "all_events", "revision", "slot_token", "slot_until", "last_run", "run_count", "claim_count", "ttl_strategy", "ttl_ms") select (select ?), (select ?), (select ?), (select ?), (select ?), (select ?), (select ?), (select ?), 'idle', '{}', (select ?), 0, (select ?), (select ?), (select ?), (select ?), 1, coalesce((select d.claim_count from deleted_thread_claims d
    where d.deployment = (select ?) and d.id_suffix = substr((select ?), 33)), 0) + case when (select ?) is null then 0 else 1 end, (select ?), (select ?) where exists (select 1 from assistants a where a.deployment = (select ?) and a.assistant_id = (select ?)
      and a.revision = (select ?))
    and not exists (select 1 from idempotency_keys k where k.deployment = (select ?) and k.route = (select ?)
      and k.key = (select ?))
    and true
        and ((select count(*) from runs r where r.deployment = (select ?) and r.status = 'pending')
    - (select count(*) from runs s where s.deployment = (select ?) and s.status = 'pending' and s.waiting_for is not null)) < (select ?) on conflict do nothing returning *
--   SEARCH a EXISTS USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--   SCALAR SUBQUERY
--     SEARCH k USING COVERING INDEX sqlite_autoindex_idempotency_keys_1 (deployment=? AND route=? AND key=?)
--   SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_status (deployment=? AND status=?)
--   SCALAR SUBQUERY
--     SEARCH s USING INDEX runs_status (deployment=? AND status=?)
--   SCALAR SUBQUERY
--     SEARCH d USING PRIMARY KEY (deployment=? AND id_suffix=?)
--   SEARCH calls USING COVERING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=?)
--   SEARCH crons USING COVERING INDEX crons_thread (deployment=? AND thread_id=?)
--   SEARCH channel_values USING COVERING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoint_writes USING COVERING INDEX sqlite_autoindex_checkpoint_writes_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoints USING COVERING INDEX checkpoints_order (deployment=? AND thread_id=?)
--   SEARCH thread_events USING COVERING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=?)
--   SEARCH runs USING COVERING INDEX runs_order (deployment=? AND thread_id=?)

-- insertThreadOfRun ({"origin":"cron","limited":false})
-- (deployment text, thread_id text, now bigint, now bigint, now bigint, metadata text, config text, graph_id text, hidden bigint, now bigint, token text, lease_until bigint, run_id text, deployment text, thread_id text, token text, ttl_strategy text, ttl_ms bigint, deployment text, assistant_id text, assistant_revision bigint, deployment text, route text, key text, deployment text, cron_id text, seen_next bigint, seen_revision bigint, deployment text, cron_id text, scheduled_at bigint)
insert into "threads" ("deployment", "thread_id", "created_at", "updated_at", "state_updated_at", "metadata", "config", "graph_id", "status", "interrupts", "hidden", "all_events", "revision", "slot_token", "slot_until", "last_run", "run_count", "claim_count", "ttl_strategy", "ttl_ms") select (select ?), (select ?), (select ?), (select ?), (select ?), (select ?), (select ?), (select ?), 'idle', '{}', (select ?), 0, (select ?), (select ?), (select ?), (select ?), 1, coalesce((select d.claim_count from deleted_thread_claims d
    where d.deployment = (select ?) and d.id_suffix = substr((select ?), 33)), 0) + case when (select ?) is null then 0 else 1 end, (select ?), (select ?) where exists (select 1 from assistants a where a.deployment = (select ?) and a.assistant_id = (select ?)
      and a.revision = (select ?))
    and not exists (select 1 from idempotency_keys k where k.deployment = (select ?) and k.route = (select ?)
      and k.key = (select ?))
    and exists (select 1 from crons c where c.deployment = (select ?) and c.cron_id = (select ?)
    and c.enabled = 1 and c.next_run_date = (select ?) and c.revision = (select ?)) and not exists (select 1 from cron_firings f where f.deployment = (select ?)
    and f.cron_id = (select ?) and f.scheduled_at = (select ?))
        and true on conflict do nothing returning *
--   SEARCH a EXISTS USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--   SCALAR SUBQUERY
--     SEARCH k USING COVERING INDEX sqlite_autoindex_idempotency_keys_1 (deployment=? AND route=? AND key=?)
--   SCALAR SUBQUERY
--     SEARCH f USING COVERING INDEX sqlite_autoindex_cron_firings_1 (deployment=? AND cron_id=? AND scheduled_at=?)
--   SEARCH c EXISTS USING INDEX sqlite_autoindex_crons_1 (deployment=? AND cron_id=?)
--   SCALAR SUBQUERY
--     SEARCH d USING PRIMARY KEY (deployment=? AND id_suffix=?)
--   SEARCH calls USING COVERING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=?)
--   SEARCH crons USING COVERING INDEX crons_thread (deployment=? AND thread_id=?)
--   SEARCH channel_values USING COVERING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoint_writes USING COVERING INDEX sqlite_autoindex_checkpoint_writes_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoints USING COVERING INDEX checkpoints_order (deployment=? AND thread_id=?)
--   SEARCH thread_events USING COVERING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=?)
--   SEARCH runs USING COVERING INDEX runs_order (deployment=? AND thread_id=?)

-- requireRuns
-- (run_ids text, count bigint)
insert into assertions (holds) select 0 where not ((select count(*) from runs where run_id in (select value from json_each(?))) >= ?)
-- Postgres:
insert into assertions (holds) select 0 where not ((select count(*) from runs where run_id in (select value collate "C" as value from json_array_elements_text($1::text::json))) >= $2::bigint)
--   SCALAR SUBQUERY
--     SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SCAN json_each VIRTUAL TABLE INDEX 1:

-- selectAnsweringRun
-- (deployment text, thread_id text, resume_targets text)
select r.run_id from runs r where r.deployment = (select ?) and r.thread_id = (select ?) and (r.status || '') in ('pending', 'running')
    and r.resume_targets is not null and exists (select 1 from (select value from json_each(r.resume_targets)) answered
      where answered.value in (select value from json_each((select ?)))) order by r.seq limit 1
-- Postgres:
select r.run_id from runs r where r.deployment = $1::text and r.thread_id = $2::text and (r.status || '') in ('pending', 'running')
    and r.resume_targets is not null and exists (select 1 from (select value collate "C" as value from json_array_elements_text(r.resume_targets::json)) answered
      where answered.value in (select value collate "C" as value from json_array_elements_text($3::text::json))) order by r.seq limit 1
--   SEARCH r USING INDEX runs_order (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     LIST SUBQUERY
--       SCAN json_each VIRTUAL TABLE INDEX 1:
--       CREATE BLOOM FILTER

-- selectObstacles
-- (deployment text, deployment text, deployment text, thread_id text)
select ((select count(*) from runs r where r.deployment = (select ?) and r.status = 'pending')
    - (select count(*) from runs s where s.deployment = (select ?) and s.status = 'pending' and s.waiting_for is not null)) as pending,
      (select count(*) from runs r where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending') as pending_of_thread, ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending')) as busy
    from threads where deployment = (select ?) and thread_id = (select ?)
--   SEARCH threads USING COVERING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_status (deployment=? AND status=?)
--   SCALAR SUBQUERY
--     SEARCH s USING INDEX runs_status (deployment=? AND status=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)

-- selectRunOfKey
-- (deployment text, route text, key text)
select k.body_hash as key_hash, r.* from idempotency_keys k
    left join runs r on r.deployment = k.deployment and r.run_id = k.run_id
    where k.deployment = (select ?) and k.route = (select ?) and k.key = (select ?)
--   SEARCH k USING INDEX sqlite_autoindex_idempotency_keys_1 (deployment=? AND route=? AND key=?)
--   SEARCH r USING INDEX sqlite_autoindex_runs_1 (run_id=?) LEFT-JOIN

-- takeThread ({"strategy":"enqueue","origin":"request","limited":true})
-- (now bigint, graph_id text, metadata text, config text, changes bigint, run_id text, token text, lease_until bigint, token text, now bigint, now bigint, deployment text, thread_id text, thread_revision bigint, deployment text, assistant_id text, assistant_revision bigint, deployment text, route text, key text, pending_per_thread bigint, deployment text, deployment text, pending_limit bigint)
update threads set updated_at = (select ?), graph_id = (select ?),
      metadata = coalesce((select ?), metadata), config = coalesce((select ?), config),
      revision = revision + (select ?), last_run = (select ?), run_count = run_count + 1,
      (slot_token, slot_until, claim_count) = (select
          case when starts then (select ?) else threads.slot_token end,
          case when starts then (select ?) else threads.slot_until end,
          case when starts then threads.claim_count + 1 else threads.claim_count end
        from (select (select ?) is not null and (threads.slot_token is null or threads.slot_until <= (select ?))
          and not exists (select 1 from runs r where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running')
          and not exists (select 1 from runs r where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending' and (+"r"."due_at" <= (select ?) or "r"."due_at" <= "r"."updated_at")) as starts) claim)
      where deployment = (select ?) and thread_id = (select ?) and revision = (select ?)
        and exists (select 1 from assistants a where a.deployment = (select ?) and a.assistant_id = (select ?)
      and a.revision = (select ?))
    and not exists (select 1 from idempotency_keys k where k.deployment = (select ?) and k.route = (select ?)
      and k.key = (select ?))
    and true and (select count(*) from runs r where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending') < (select ?) and ((select count(*) from runs r where r.deployment = (select ?) and r.status = 'pending')
    - (select count(*) from runs s where s.deployment = (select ?) and s.status = 'pending' and s.waiting_for is not null)) < (select ?)
      returning *
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SCALAR SUBQUERY
--     SEARCH a USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--   SCALAR SUBQUERY
--     SEARCH k USING COVERING INDEX sqlite_autoindex_idempotency_keys_1 (deployment=? AND route=? AND key=?)
--   SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_status (deployment=? AND status=?)
--   SCALAR SUBQUERY
--     SEARCH s USING INDEX runs_status (deployment=? AND status=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     CO-ROUTINE claim
--       CORRELATED SCALAR SUBQUERY
--         SEARCH r USING COVERING INDEX runs_running (deployment=? AND thread_id=?)
--       CORRELATED SCALAR SUBQUERY
--         SEARCH r USING INDEX runs_waiting (deployment=? AND thread_id=?)
--     SCAN claim

-- takeThread ({"strategy":"reject","origin":"resume","limited":false})
-- (now bigint, graph_id text, metadata text, config text, changes bigint, run_id text, token text, lease_until bigint, token text, now bigint, deployment text, thread_id text, thread_revision bigint, deployment text, assistant_id text, assistant_revision bigint, deployment text, route text, key text, deployment text, thread_id text, resume_targets text)
update threads set updated_at = (select ?), graph_id = (select ?),
      metadata = coalesce((select ?), metadata), config = coalesce((select ?), config),
      revision = revision + (select ?), last_run = (select ?), run_count = run_count + 1,
      (slot_token, slot_until, claim_count) = (select
          case when starts then (select ?) else threads.slot_token end,
          case when starts then (select ?) else threads.slot_until end,
          case when starts then threads.claim_count + 1 else threads.claim_count end
        from (select (select ?) is not null and (threads.slot_token is null or threads.slot_until <= (select ?))
          and not exists (select 1 from runs r where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running')
          and not exists (select 1 from runs r where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending' and true) as starts) claim)
      where deployment = (select ?) and thread_id = (select ?) and revision = (select ?)
        and exists (select 1 from assistants a where a.deployment = (select ?) and a.assistant_id = (select ?)
      and a.revision = (select ?))
    and not exists (select 1 from idempotency_keys k where k.deployment = (select ?) and k.route = (select ?)
      and k.key = (select ?))
    and not exists (select 1 from runs r where r.deployment = (select ?) and r.thread_id = (select ?) and (r.status || '') in ('pending', 'running')
    and r.resume_targets is not null and exists (select 1 from (select value from json_each(r.resume_targets)) answered
      where answered.value in (select value from json_each((select ?))))) and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending')) and true
      returning *
-- Postgres:
update threads set updated_at = $1::bigint, graph_id = $2::text,
      metadata = coalesce($3::text, metadata), config = coalesce($4::text, config),
      revision = revision + $5::bigint, last_run = $6::text, run_count = run_count + 1,
      (slot_token, slot_until, claim_count) = (select
          case when starts then $7::text else threads.slot_token end,
          case when starts then $8::bigint else threads.slot_until end,
          case when starts then threads.claim_count + 1 else threads.claim_count end
        from (select $9::text is not null and (threads.slot_token is null or threads.slot_until <= $10::bigint)
          and not exists (select 1 from runs r where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running')
          and not exists (select 1 from runs r where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending' and true) as starts) claim)
      where deployment = $11::text and thread_id = $12::text and revision = $13::bigint
        and exists (select 1 from assistants a where a.deployment = $14::text and a.assistant_id = $15::text
      and a.revision = $16::bigint)
    and not exists (select 1 from idempotency_keys k where k.deployment = $17::text and k.route = $18::text
      and k.key = $19::text)
    and not exists (select 1 from runs r where r.deployment = $20::text and r.thread_id = $21::text and (r.status || '') in ('pending', 'running')
    and r.resume_targets is not null and exists (select 1 from (select value collate "C" as value from json_array_elements_text(r.resume_targets::json)) answered
      where answered.value in (select value collate "C" as value from json_array_elements_text($22::text::json)))) and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending')) and true
      returning *
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SCALAR SUBQUERY
--     SEARCH a USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--   SCALAR SUBQUERY
--     SEARCH k USING COVERING INDEX sqlite_autoindex_idempotency_keys_1 (deployment=? AND route=? AND key=?)
--   SCALAR SUBQUERY
--     SEARCH r USING INDEX runs_order (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN json_each VIRTUAL TABLE INDEX 1:
--       LIST SUBQUERY
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         CREATE BLOOM FILTER
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     CO-ROUTINE claim
--       CORRELATED SCALAR SUBQUERY
--         SEARCH r USING COVERING INDEX runs_running (deployment=? AND thread_id=?)
--       CORRELATED SCALAR SUBQUERY
--         SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--     SCAN claim

-- takeThread ({"strategy":"interrupt","origin":"cron","limited":true})
-- (now bigint, graph_id text, metadata text, config text, changes bigint, run_id text, token text, lease_until bigint, token text, now bigint, deployment text, thread_id text, thread_revision bigint, deployment text, assistant_id text, assistant_revision bigint, deployment text, route text, key text, deployment text, cron_id text, seen_next bigint, seen_revision bigint, deployment text, cron_id text, scheduled_at bigint, deployment text, deployment text, pending_limit bigint)
update threads set updated_at = (select ?), graph_id = (select ?),
      metadata = coalesce((select ?), metadata), config = coalesce((select ?), config),
      revision = revision + (select ?), last_run = (select ?), run_count = run_count + 1,
      (slot_token, slot_until, claim_count) = (select
          case when starts then (select ?) else threads.slot_token end,
          case when starts then (select ?) else threads.slot_until end,
          case when starts then threads.claim_count + 1 else threads.claim_count end
        from (select (select ?) is not null and (threads.slot_token is null or threads.slot_until <= (select ?))
          and not exists (select 1 from runs r where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running')
          and not exists (select 1 from runs r where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending' and r.claims > 0) as starts) claim)
      where deployment = (select ?) and thread_id = (select ?) and revision = (select ?)
        and exists (select 1 from assistants a where a.deployment = (select ?) and a.assistant_id = (select ?)
      and a.revision = (select ?))
    and not exists (select 1 from idempotency_keys k where k.deployment = (select ?) and k.route = (select ?)
      and k.key = (select ?))
    and exists (select 1 from crons c where c.deployment = (select ?) and c.cron_id = (select ?)
    and c.enabled = 1 and c.next_run_date = (select ?) and c.revision = (select ?)) and not exists (select 1 from cron_firings f where f.deployment = (select ?)
    and f.cron_id = (select ?) and f.scheduled_at = (select ?)) and true and ((select count(*) from runs r where r.deployment = (select ?) and r.status = 'pending')
    - (select count(*) from runs s where s.deployment = (select ?) and s.status = 'pending' and s.waiting_for is not null)) - (select count(*) from runs r where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending') < (select ?)
      returning *
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SCALAR SUBQUERY
--     SEARCH a USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--   SCALAR SUBQUERY
--     SEARCH k USING COVERING INDEX sqlite_autoindex_idempotency_keys_1 (deployment=? AND route=? AND key=?)
--   SCALAR SUBQUERY
--     SEARCH c USING INDEX sqlite_autoindex_crons_1 (deployment=? AND cron_id=?)
--   SCALAR SUBQUERY
--     SEARCH f USING COVERING INDEX sqlite_autoindex_cron_firings_1 (deployment=? AND cron_id=? AND scheduled_at=?)
--   SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_status (deployment=? AND status=?)
--   SCALAR SUBQUERY
--     SEARCH s USING INDEX runs_status (deployment=? AND status=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     CO-ROUTINE claim
--       CORRELATED SCALAR SUBQUERY
--         SEARCH r USING COVERING INDEX runs_running (deployment=? AND thread_id=?)
--       CORRELATED SCALAR SUBQUERY
--         SEARCH r USING INDEX runs_waiting (deployment=? AND thread_id=?)
--     SCAN claim

-- takeThread ({"strategy":"rollback","origin":"request","limited":false})
-- (now bigint, graph_id text, metadata text, config text, changes bigint, run_id text, token text, lease_until bigint, token text, now bigint, deployment text, thread_id text, thread_revision bigint, deployment text, assistant_id text, assistant_revision bigint, deployment text, route text, key text)
update threads set updated_at = (select ?), graph_id = (select ?),
      metadata = coalesce((select ?), metadata), config = coalesce((select ?), config),
      revision = revision + (select ?), last_run = (select ?), run_count = run_count + 1,
      (slot_token, slot_until, claim_count) = (select
          case when starts then (select ?) else threads.slot_token end,
          case when starts then (select ?) else threads.slot_until end,
          case when starts then threads.claim_count + 1 else threads.claim_count end
        from (select (select ?) is not null and (threads.slot_token is null or threads.slot_until <= (select ?))
          and not exists (select 1 from runs r where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running')
          and not exists (select 1 from runs r where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending' and false) as starts) claim)
      where deployment = (select ?) and thread_id = (select ?) and revision = (select ?)
        and exists (select 1 from assistants a where a.deployment = (select ?) and a.assistant_id = (select ?)
      and a.revision = (select ?))
    and not exists (select 1 from idempotency_keys k where k.deployment = (select ?) and k.route = (select ?)
      and k.key = (select ?))
    and true and true and true
      returning *
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SCALAR SUBQUERY
--     SEARCH a USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--   SCALAR SUBQUERY
--     SEARCH k USING COVERING INDEX sqlite_autoindex_idempotency_keys_1 (deployment=? AND route=? AND key=?)
--   CORRELATED SCALAR SUBQUERY
--     CO-ROUTINE claim
--       CORRELATED SCALAR SUBQUERY
--         SEARCH r USING COVERING INDEX runs_running (deployment=? AND thread_id=?)
--       CORRELATED SCALAR SUBQUERY
--         SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--     SCAN claim
