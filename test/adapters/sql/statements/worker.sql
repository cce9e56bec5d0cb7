-- deleteSpaceProbes
delete from "write_probes" where "id" > 0
--   SEARCH write_probes USING INDEX sqlite_autoindex_write_probes_1 (id>?)

-- insertSpaceProbes
-- (count bigint, now bigint, padding text)
with recursive room (id) as (select 1 union all select id + 1 from room where id < ?)
    insert into write_probes (id, at, padding) select id, ?, ? from room
--   CO-ROUTINE room
--     SETUP
--     RECURSIVE STEP
--       SCAN room
--   SCAN room

-- releaseThreadLocks ({"source":"running"})
update threads set slot_token = null, slot_until = null where slot_token is not null
    and (deployment, thread_id) in (select deployment, thread_id from runs where status = 'running')
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SCAN runs USING COVERING INDEX runs_running

-- releaseThreadLocks ({"source":"pending"})
update threads set slot_token = null, slot_until = null where slot_token is not null
    and (deployment, thread_id) in (select deployment, thread_id from runs where status = 'pending' and due_at <= updated_at)
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SCAN runs USING INDEX runs_immediate

-- releaseThreadLocks ({"source":"deleted"})
update threads set slot_token = null, slot_until = null where slot_token is not null
    and (deployment, thread_id) in (select deployment, thread_id from threads where last_run is null and run_count > 0)
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SCAN threads USING INDEX threads_left

-- requeueRunning
-- (now bigint, now bigint, now bigint)
update "runs" set "status" = 'pending', "lease_token" = null, "lease_until" = null, "updated_at" = ?, "due_at" = case when due_at > ? then ? else due_at end, "claim_log" = substr('{"lease_until":' || cast(lease_until as text) || '}' || '
' || coalesce(claim_log, ''), 1, 4000) where "status" = 'running'
--   SCAN runs USING INDEX runs_running

-- upsertProbe
-- (now bigint)
insert into "write_probes" ("id", "at", "padding") values (0, ?, '') on conflict ("id") do update set "at" = "excluded"."at"
