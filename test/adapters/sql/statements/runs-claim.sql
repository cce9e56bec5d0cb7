-- acquireThreadLock
-- (token text, lease_until bigint, deployment text, deployment text, token text)
update threads set slot_token = ?, slot_until = ?, claim_count = claim_count + 1
    where deployment = ? and thread_id = (select thread_id from runs
      where deployment = ? and status = 'running' and lease_token = ?) returning *
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX runs_status (deployment=? AND status=?)

-- hasEnded
-- (run_id text, claims bigint, status text, ended_at bigint, end_frame bigint)
select 1 as ended from runs f where f.run_id = ? and f.claims = ?
    and f.status = ? and f.ended_at = ? and f.end_frame = ?
--   SEARCH f USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- leaseAfter
-- (token text, lease_until bigint, progress_ms text, now bigint, max_attempts text, progress_ms text, now bigint, max_attempts text, now bigint, log_entry text, now bigint, now bigint, deployment text, graph_ids text, now bigint, now bigint, deployment text, now bigint, graph_ids text, now bigint, now bigint, run_id text, claims bigint, status text, ended_at bigint, end_frame bigint)
update runs set status = 'running', lease_token = (select ?), lease_until = (select ?),
      attempt = attempt + case when cancelled = 1 or (attempt + 1 - case when progressed > 1
    and (call_id is not null or started_at + (select value from json_each((select ?)) where key = graph_id) > (select ?)) then progressed else 1 end) >= (select value from json_each((select ?)) where key = graph_id) then 0 else 1 end, claims = claims + 1, counts_as_attempt = case when cancelled = 1 or (attempt + 1 - case when progressed > 1
    and (call_id is not null or started_at + (select value from json_each((select ?)) where key = graph_id) > (select ?)) then progressed else 1 end) >= (select value from json_each((select ?)) where key = graph_id) then 0 else 1 end,
      updated_at = (select ?), waiting_for = null, claim_log = substr((select ?) || coalesce(claim_log, ''), 1, 4000),
      (claim_number, started_at) = (select t.claim_count + 1, coalesce(runs.started_at,
          case when t.updated_at > (select ?) then t.updated_at else (select ?) end)
        from threads t where t.deployment = runs.deployment and t.thread_id = runs.thread_id)
    where run_id = (select run_id from (select run_id, thread_id from (
    select * from (select n.run_id, n.thread_id, n.due_at, n.seq from runs n
  where n.deployment = (select ?) and status = 'pending' and due_at <= updated_at and n.graph_id in (select value from json_each((select ?))) and true
    and exists (select 1 from threads t where t.deployment = n.deployment and t.thread_id = n.thread_id
      and (t.slot_token is null or t.slot_until <= (select ?)) )
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id and e.status = 'running' )
    and (n.has_checkpoint = 1 or not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.seq < n.seq and (+"e"."due_at" <= (select ?) or "e"."due_at" <= "e"."updated_at") ))
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.has_checkpoint = 1 and (n.has_checkpoint = 0 or e.seq < n.seq) )
  order by n.due_at, n.seq limit 1) as at_once
    union all
    select * from (select n.run_id, n.thread_id, n.due_at, n.seq from runs n
  where n.deployment = (select ?) and status = 'pending' and due_at > updated_at and due_at <= (select ?) and n.graph_id in (select value from json_each((select ?))) and true
    and exists (select 1 from threads t where t.deployment = n.deployment and t.thread_id = n.thread_id
      and (t.slot_token is null or t.slot_until <= (select ?)) )
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id and e.status = 'running' )
    and (n.has_checkpoint = 1 or not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.seq < n.seq and (+"e"."due_at" <= (select ?) or "e"."due_at" <= "e"."updated_at") ))
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.has_checkpoint = 1 and (n.has_checkpoint = 0 or e.seq < n.seq) )
  order by n.due_at, n.seq limit 1) as in_time) as due
  order by due_at, seq limit 1) as next) and exists (select 1 as ended from runs f where f.run_id = (select ?) and f.claims = (select ?)
    and f.status = (select ?) and f.ended_at = (select ?) and f.end_frame = (select ?))
    returning *, case when has_frames = 0 then 0
  else coalesce((select max(f.last_id) from run_frames f where f.run_id = runs.run_id), 0) end as last_frame
-- Postgres:
update runs set status = 'running', lease_token = $1::text, lease_until = $2::bigint,
      attempt = attempt + case when cancelled = 1 or (attempt + 1 - case when progressed > 1
    and (call_id is not null or started_at + ($3::text::json ->> graph_id)::bigint > $4::bigint) then progressed else 1 end) >= ($5::text::json ->> graph_id)::bigint then 0 else 1 end, claims = claims + 1, counts_as_attempt = case when cancelled = 1 or (attempt + 1 - case when progressed > 1
    and (call_id is not null or started_at + ($6::text::json ->> graph_id)::bigint > $7::bigint) then progressed else 1 end) >= ($8::text::json ->> graph_id)::bigint then 0 else 1 end,
      updated_at = $9::bigint, waiting_for = null, claim_log = substr($10::text || coalesce(claim_log, ''), 1, 4000),
      (claim_number, started_at) = (select t.claim_count + 1, coalesce(runs.started_at,
          case when t.updated_at > $11::bigint then t.updated_at else $12::bigint end)
        from threads t where t.deployment = runs.deployment and t.thread_id = runs.thread_id)
    where run_id = (select run_id from (select run_id, thread_id from (
    select * from (select n.run_id, n.thread_id, n.due_at, n.seq from runs n
  where n.deployment = $13::text and status = 'pending' and due_at <= updated_at and n.graph_id = any(array(select value collate "C" as value from json_array_elements_text($14::text::json))) and true
    and exists (select 1 from threads t where t.deployment = n.deployment and t.thread_id = n.thread_id
      and (t.slot_token is null or t.slot_until <= $15::bigint) offset 0)
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id and e.status = 'running' offset 0)
    and (n.has_checkpoint = 1 or not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.seq < n.seq and (+"e"."due_at" <= $16::bigint or "e"."due_at" <= "e"."updated_at") offset 0))
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.has_checkpoint = 1 and (n.has_checkpoint = 0 or e.seq < n.seq) offset 0)
  order by n.due_at, n.seq limit 1) as at_once
    union all
    select * from (select n.run_id, n.thread_id, n.due_at, n.seq from runs n
  where n.deployment = $17::text and status = 'pending' and due_at > updated_at and due_at <= $18::bigint and n.graph_id = any(array(select value collate "C" as value from json_array_elements_text($19::text::json))) and true
    and exists (select 1 from threads t where t.deployment = n.deployment and t.thread_id = n.thread_id
      and (t.slot_token is null or t.slot_until <= $20::bigint) offset 0)
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id and e.status = 'running' offset 0)
    and (n.has_checkpoint = 1 or not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.seq < n.seq and (+"e"."due_at" <= $21::bigint or "e"."due_at" <= "e"."updated_at") offset 0))
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.has_checkpoint = 1 and (n.has_checkpoint = 0 or e.seq < n.seq) offset 0)
  order by n.due_at, n.seq limit 1) as in_time) as due
  order by due_at, seq limit 1) as next) and exists (select 1 as ended from runs f where f.run_id = $22::text and f.claims = $23::bigint
    and f.status = $24::text and f.ended_at = $25::bigint and f.end_frame = $26::bigint)
    returning *, case when has_frames = 0 then 0
  else coalesce((select max(f.last_id) from run_frames f where f.run_id = runs.run_id), 0) end as last_frame
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   SCALAR SUBQUERY
--     CO-ROUTINE next
--       CO-ROUTINE due
--         COMPOUND QUERY
--           LEFT-MOST SUBQUERY
--             CO-ROUTINE at_once
--               SEARCH n USING INDEX runs_immediate (deployment=?)
--               LIST SUBQUERY
--                 SCAN json_each VIRTUAL TABLE INDEX 1:
--                 CREATE BLOOM FILTER
--               CORRELATED SCALAR SUBQUERY
--                 SEARCH e USING COVERING INDEX runs_running (deployment=? AND thread_id=?)
--               CORRELATED SCALAR SUBQUERY
--                 SEARCH e USING INDEX runs_waiting (deployment=? AND thread_id=? AND seq<?)
--               CORRELATED SCALAR SUBQUERY
--                 SEARCH e USING COVERING INDEX runs_begun (deployment=? AND thread_id=?)
--               SEARCH t EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--             SCAN at_once
--           UNION ALL
--             CO-ROUTINE in_time
--               SEARCH n USING INDEX runs_scheduled (deployment=? AND due_at<?)
--               LIST SUBQUERY
--                 SCAN json_each VIRTUAL TABLE INDEX 1:
--                 CREATE BLOOM FILTER
--               CORRELATED SCALAR SUBQUERY
--                 SEARCH e USING COVERING INDEX runs_running (deployment=? AND thread_id=?)
--               CORRELATED SCALAR SUBQUERY
--                 SEARCH e USING INDEX runs_waiting (deployment=? AND thread_id=? AND seq<?)
--               CORRELATED SCALAR SUBQUERY
--                 SEARCH e USING COVERING INDEX runs_begun (deployment=? AND thread_id=?)
--               SEARCH t EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--             SCAN in_time
--       SCAN due
--       USE TEMP B-TREE FOR ORDER BY
--     SCAN next
--   SCALAR SUBQUERY
--     SEARCH f USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--   CORRELATED SCALAR SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--   CORRELATED SCALAR SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--   CORRELATED SCALAR SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--   CORRELATED SCALAR SUBQUERY
--     SEARCH t USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH f USING INDEX sqlite_autoindex_run_frames_1 (run_id=?)

-- leaseNext
-- (token text, lease_until bigint, progress_ms text, now bigint, max_attempts text, progress_ms text, now bigint, max_attempts text, now bigint, log_entry text, now bigint, now bigint, deployment text, graph_ids text, thread_id text, now bigint, now bigint, deployment text, now bigint, graph_ids text, thread_id text, now bigint, now bigint)
update runs set status = 'running', lease_token = (select ?), lease_until = (select ?),
      attempt = attempt + case when cancelled = 1 or (attempt + 1 - case when progressed > 1
    and (call_id is not null or started_at + (select value from json_each((select ?)) where key = graph_id) > (select ?)) then progressed else 1 end) >= (select value from json_each((select ?)) where key = graph_id) then 0 else 1 end, claims = claims + 1, counts_as_attempt = case when cancelled = 1 or (attempt + 1 - case when progressed > 1
    and (call_id is not null or started_at + (select value from json_each((select ?)) where key = graph_id) > (select ?)) then progressed else 1 end) >= (select value from json_each((select ?)) where key = graph_id) then 0 else 1 end,
      updated_at = (select ?), waiting_for = null, claim_log = substr((select ?) || coalesce(claim_log, ''), 1, 4000),
      (claim_number, started_at) = (select t.claim_count + 1, coalesce(runs.started_at,
          case when t.updated_at > (select ?) then t.updated_at else (select ?) end)
        from threads t where t.deployment = runs.deployment and t.thread_id = runs.thread_id)
    where run_id = (select run_id from (select run_id, thread_id from (
    select * from (select n.run_id, n.thread_id, n.due_at, n.seq from runs n
  where n.deployment = (select ?) and status = 'pending' and due_at <= updated_at and n.graph_id in (select value from json_each((select ?))) and n.thread_id = (select ?)
    and exists (select 1 from threads t where t.deployment = n.deployment and t.thread_id = n.thread_id
      and (t.slot_token is null or t.slot_until <= (select ?)) )
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id and e.status = 'running' )
    and (n.has_checkpoint = 1 or not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.seq < n.seq and (+"e"."due_at" <= (select ?) or "e"."due_at" <= "e"."updated_at") ))
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.has_checkpoint = 1 and (n.has_checkpoint = 0 or e.seq < n.seq) )
  order by n.due_at, n.seq limit 1) as at_once
    union all
    select * from (select n.run_id, n.thread_id, n.due_at, n.seq from runs n
  where n.deployment = (select ?) and status = 'pending' and due_at > updated_at and due_at <= (select ?) and n.graph_id in (select value from json_each((select ?))) and n.thread_id = (select ?)
    and exists (select 1 from threads t where t.deployment = n.deployment and t.thread_id = n.thread_id
      and (t.slot_token is null or t.slot_until <= (select ?)) )
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id and e.status = 'running' )
    and (n.has_checkpoint = 1 or not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.seq < n.seq and (+"e"."due_at" <= (select ?) or "e"."due_at" <= "e"."updated_at") ))
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.has_checkpoint = 1 and (n.has_checkpoint = 0 or e.seq < n.seq) )
  order by n.due_at, n.seq limit 1) as in_time) as due
  order by due_at, seq limit 1) as next) and true
    returning *, case when has_frames = 0 then 0
  else coalesce((select max(f.last_id) from run_frames f where f.run_id = runs.run_id), 0) end as last_frame
-- Postgres:
update runs set status = 'running', lease_token = $1::text, lease_until = $2::bigint,
      attempt = attempt + case when cancelled = 1 or (attempt + 1 - case when progressed > 1
    and (call_id is not null or started_at + ($3::text::json ->> graph_id)::bigint > $4::bigint) then progressed else 1 end) >= ($5::text::json ->> graph_id)::bigint then 0 else 1 end, claims = claims + 1, counts_as_attempt = case when cancelled = 1 or (attempt + 1 - case when progressed > 1
    and (call_id is not null or started_at + ($6::text::json ->> graph_id)::bigint > $7::bigint) then progressed else 1 end) >= ($8::text::json ->> graph_id)::bigint then 0 else 1 end,
      updated_at = $9::bigint, waiting_for = null, claim_log = substr($10::text || coalesce(claim_log, ''), 1, 4000),
      (claim_number, started_at) = (select t.claim_count + 1, coalesce(runs.started_at,
          case when t.updated_at > $11::bigint then t.updated_at else $12::bigint end)
        from threads t where t.deployment = runs.deployment and t.thread_id = runs.thread_id)
    where run_id = (select run_id from (select run_id, thread_id from (
    select * from (select n.run_id, n.thread_id, n.due_at, n.seq from runs n
  where n.deployment = $13::text and status = 'pending' and due_at <= updated_at and n.graph_id = any(array(select value collate "C" as value from json_array_elements_text($14::text::json))) and n.thread_id = $15::text
    and exists (select 1 from threads t where t.deployment = n.deployment and t.thread_id = n.thread_id
      and (t.slot_token is null or t.slot_until <= $16::bigint) offset 0)
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id and e.status = 'running' offset 0)
    and (n.has_checkpoint = 1 or not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.seq < n.seq and (+"e"."due_at" <= $17::bigint or "e"."due_at" <= "e"."updated_at") offset 0))
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.has_checkpoint = 1 and (n.has_checkpoint = 0 or e.seq < n.seq) offset 0)
  order by n.due_at, n.seq limit 1) as at_once
    union all
    select * from (select n.run_id, n.thread_id, n.due_at, n.seq from runs n
  where n.deployment = $18::text and status = 'pending' and due_at > updated_at and due_at <= $19::bigint and n.graph_id = any(array(select value collate "C" as value from json_array_elements_text($20::text::json))) and n.thread_id = $21::text
    and exists (select 1 from threads t where t.deployment = n.deployment and t.thread_id = n.thread_id
      and (t.slot_token is null or t.slot_until <= $22::bigint) offset 0)
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id and e.status = 'running' offset 0)
    and (n.has_checkpoint = 1 or not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.seq < n.seq and (+"e"."due_at" <= $23::bigint or "e"."due_at" <= "e"."updated_at") offset 0))
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.has_checkpoint = 1 and (n.has_checkpoint = 0 or e.seq < n.seq) offset 0)
  order by n.due_at, n.seq limit 1) as in_time) as due
  order by due_at, seq limit 1) as next) and true
    returning *, case when has_frames = 0 then 0
  else coalesce((select max(f.last_id) from run_frames f where f.run_id = runs.run_id), 0) end as last_frame
--   SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   SCALAR SUBQUERY
--     CO-ROUTINE next
--       CO-ROUTINE due
--         COMPOUND QUERY
--           LEFT-MOST SUBQUERY
--             CO-ROUTINE at_once
--               SEARCH n USING INDEX runs_immediate (deployment=?)
--               LIST SUBQUERY
--                 SCAN json_each VIRTUAL TABLE INDEX 1:
--                 CREATE BLOOM FILTER
--               CORRELATED SCALAR SUBQUERY
--                 SEARCH e USING COVERING INDEX runs_running (deployment=? AND thread_id=?)
--               CORRELATED SCALAR SUBQUERY
--                 SEARCH e USING INDEX runs_waiting (deployment=? AND thread_id=? AND seq<?)
--               CORRELATED SCALAR SUBQUERY
--                 SEARCH e USING COVERING INDEX runs_begun (deployment=? AND thread_id=?)
--               SEARCH t EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--             SCAN at_once
--           UNION ALL
--             CO-ROUTINE in_time
--               SEARCH n USING INDEX runs_scheduled (deployment=? AND due_at<?)
--               LIST SUBQUERY
--                 SCAN json_each VIRTUAL TABLE INDEX 1:
--                 CREATE BLOOM FILTER
--               CORRELATED SCALAR SUBQUERY
--                 SEARCH e USING COVERING INDEX runs_running (deployment=? AND thread_id=?)
--               CORRELATED SCALAR SUBQUERY
--                 SEARCH e USING INDEX runs_waiting (deployment=? AND thread_id=? AND seq<?)
--               CORRELATED SCALAR SUBQUERY
--                 SEARCH e USING COVERING INDEX runs_begun (deployment=? AND thread_id=?)
--               SEARCH t EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--             SCAN in_time
--       SCAN due
--       USE TEMP B-TREE FOR ORDER BY
--     SCAN next
--   CORRELATED SCALAR SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--   CORRELATED SCALAR SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--   CORRELATED SCALAR SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--   CORRELATED SCALAR SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--   CORRELATED SCALAR SUBQUERY
--     SEARCH t USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH f USING INDEX sqlite_autoindex_run_frames_1 (run_id=?)

-- requeueExpired
-- (now bigint, now bigint, now bigint, run_ids text, deployment text, now bigint)
update "runs" set "status" = 'pending', "lease_token" = null, "lease_until" = null, "updated_at" = ?, "due_at" = case when due_at > ? then ? else due_at end, "claim_log" = substr('{"lease_until":' || cast(lease_until as text) || '}' || '
' || coalesce(claim_log, ''), 1, 4000) where "run_id" in (select value from json_each(?)) and deployment = ? and status = 'running' and lease_until <= ?
-- Postgres:
update "runs" set "status" = 'pending', "lease_token" = null, "lease_until" = null, "updated_at" = $1::bigint, "due_at" = case when due_at > $2::bigint then $3::bigint else due_at end, "claim_log" = substr('{"lease_until":' || cast(lease_until as text) || '}' || '
' || coalesce(claim_log, ''), 1, 4000) where "run_id" in (select value collate "C" as value from json_array_elements_text($4::text::json)) and deployment = $5::text and status = 'running' and lease_until <= $6::bigint
--   SEARCH runs USING INDEX runs_status (deployment=? AND status=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     CREATE BLOOM FILTER

-- selectCandidates
-- (deployment text, now bigint, deployment text, graph_ids text, now bigint, now bigint, limit bigint, deployment text, now bigint, graph_ids text, now bigint, now bigint, limit bigint, limit bigint, deployment text, deployment text, now bigint)

    select 'expired' as kind, run_id, thread_id from (
      select run_id, thread_id from runs where deployment = (select ?) and status = 'running' and lease_until <= (select ?) limit 20) as leases
    union all
    select 'next', run_id, thread_id from (select run_id, thread_id from (
    select * from (select n.run_id, n.thread_id, n.due_at, n.seq from runs n
  where n.deployment = (select ?) and status = 'pending' and due_at <= updated_at and n.graph_id in (select value from json_each((select ?))) and true
    and exists (select 1 from threads t where t.deployment = n.deployment and t.thread_id = n.thread_id
      and (t.slot_token is null or t.slot_until <= (select ?)) )
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id and e.status = 'running' )
    and (n.has_checkpoint = 1 or not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.seq < n.seq and (+"e"."due_at" <= (select ?) or "e"."due_at" <= "e"."updated_at") ))
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.has_checkpoint = 1 and (n.has_checkpoint = 0 or e.seq < n.seq) )
  order by n.due_at, n.seq limit (select ?)) as at_once
    union all
    select * from (select n.run_id, n.thread_id, n.due_at, n.seq from runs n
  where n.deployment = (select ?) and status = 'pending' and due_at > updated_at and due_at <= (select ?) and n.graph_id in (select value from json_each((select ?))) and true
    and exists (select 1 from threads t where t.deployment = n.deployment and t.thread_id = n.thread_id
      and (t.slot_token is null or t.slot_until <= (select ?)) )
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id and e.status = 'running' )
    and (n.has_checkpoint = 1 or not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.seq < n.seq and (+"e"."due_at" <= (select ?) or "e"."due_at" <= "e"."updated_at") ))
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.has_checkpoint = 1 and (n.has_checkpoint = 0 or e.seq < n.seq) )
  order by n.due_at, n.seq limit (select ?)) as in_time) as due
  order by due_at, seq limit (select ?)) as next
    union all
    select 'waiting', null, null
      where exists (select 1 from runs where deployment = (select ?) and status = 'pending' and due_at <= updated_at and due_at >= 0)
        or exists (select 1 from runs where deployment = (select ?) and status = 'pending' and due_at > updated_at and due_at <= (select ?))
-- Postgres:

    select 'expired' as kind, run_id, thread_id from (
      select run_id, thread_id from runs where deployment = $1::text and status = 'running' and lease_until <= $2::bigint limit 20) as leases
    union all
    select 'next', run_id, thread_id from (select run_id, thread_id from (
    select * from (select n.run_id, n.thread_id, n.due_at, n.seq from runs n
  where n.deployment = $3::text and status = 'pending' and due_at <= updated_at and n.graph_id = any(array(select value collate "C" as value from json_array_elements_text($4::text::json))) and true
    and exists (select 1 from threads t where t.deployment = n.deployment and t.thread_id = n.thread_id
      and (t.slot_token is null or t.slot_until <= $5::bigint) offset 0)
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id and e.status = 'running' offset 0)
    and (n.has_checkpoint = 1 or not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.seq < n.seq and (+"e"."due_at" <= $6::bigint or "e"."due_at" <= "e"."updated_at") offset 0))
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.has_checkpoint = 1 and (n.has_checkpoint = 0 or e.seq < n.seq) offset 0)
  order by n.due_at, n.seq limit $7::bigint) as at_once
    union all
    select * from (select n.run_id, n.thread_id, n.due_at, n.seq from runs n
  where n.deployment = $8::text and status = 'pending' and due_at > updated_at and due_at <= $9::bigint and n.graph_id = any(array(select value collate "C" as value from json_array_elements_text($10::text::json))) and true
    and exists (select 1 from threads t where t.deployment = n.deployment and t.thread_id = n.thread_id
      and (t.slot_token is null or t.slot_until <= $11::bigint) offset 0)
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id and e.status = 'running' offset 0)
    and (n.has_checkpoint = 1 or not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.seq < n.seq and (+"e"."due_at" <= $12::bigint or "e"."due_at" <= "e"."updated_at") offset 0))
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.has_checkpoint = 1 and (n.has_checkpoint = 0 or e.seq < n.seq) offset 0)
  order by n.due_at, n.seq limit $13::bigint) as in_time) as due
  order by due_at, seq limit $14::bigint) as next
    union all
    select 'waiting', null, null
      where exists (select 1 from runs where deployment = $15::text and status = 'pending' and due_at <= updated_at and due_at >= 0)
        or exists (select 1 from runs where deployment = $16::text and status = 'pending' and due_at > updated_at and due_at <= $17::bigint)
--   COMPOUND QUERY
--     LEFT-MOST SUBQUERY
--       CO-ROUTINE leases
--         SEARCH runs USING INDEX runs_status (deployment=? AND status=?)
--       SCAN leases
--     UNION ALL
--       CO-ROUTINE next
--         CO-ROUTINE due
--           COMPOUND QUERY
--             LEFT-MOST SUBQUERY
--               CO-ROUTINE at_once
--                 SEARCH n USING INDEX runs_immediate (deployment=?)
--                 LIST SUBQUERY
--                   SCAN json_each VIRTUAL TABLE INDEX 1:
--                   CREATE BLOOM FILTER
--                 CORRELATED SCALAR SUBQUERY
--                   SEARCH e USING COVERING INDEX runs_running (deployment=? AND thread_id=?)
--                 CORRELATED SCALAR SUBQUERY
--                   SEARCH e USING INDEX runs_waiting (deployment=? AND thread_id=? AND seq<?)
--                 CORRELATED SCALAR SUBQUERY
--                   SEARCH e USING COVERING INDEX runs_begun (deployment=? AND thread_id=?)
--                 SEARCH t EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--               SCAN at_once
--             UNION ALL
--               CO-ROUTINE in_time
--                 SEARCH n USING INDEX runs_scheduled (deployment=? AND due_at<?)
--                 LIST SUBQUERY
--                   SCAN json_each VIRTUAL TABLE INDEX 1:
--                   CREATE BLOOM FILTER
--                 CORRELATED SCALAR SUBQUERY
--                   SEARCH e USING COVERING INDEX runs_running (deployment=? AND thread_id=?)
--                 CORRELATED SCALAR SUBQUERY
--                   SEARCH e USING INDEX runs_waiting (deployment=? AND thread_id=? AND seq<?)
--                 CORRELATED SCALAR SUBQUERY
--                   SEARCH e USING COVERING INDEX runs_begun (deployment=? AND thread_id=?)
--                 SEARCH t EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--               SCAN in_time
--         SCAN due
--         USE TEMP B-TREE FOR ORDER BY
--       SCAN next
--     UNION ALL
--       SCALAR SUBQUERY
--         SEARCH runs USING INDEX runs_immediate (deployment=? AND due_at>?)
--       SCALAR SUBQUERY
--         SEARCH runs USING INDEX runs_scheduled (deployment=? AND due_at<?)
