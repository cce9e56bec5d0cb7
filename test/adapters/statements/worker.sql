-- deleteRoomProbes
delete from "probes" where "name" like 'room %'
--   SCAN probes

-- freeSlots ({"of":"running"})
update threads set slot_token = null, slot_until = null where slot_token is not null
    and (deployment, thread_id) in (select deployment, thread_id from runs where status = 'running')
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY 2
--     SCAN runs USING COVERING INDEX runs_running

-- freeSlots ({"of":"pending"})
update threads set slot_token = null, slot_until = null where slot_token is not null
    and (deployment, thread_id) in (select deployment, thread_id from runs where status = 'pending' and due_at <= updated_at)
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY 2
--     SCAN runs USING INDEX runs_immediate

-- freeSlots ({"of":"deleted"})
update threads set slot_token = null, slot_until = null where slot_token is not null
    and (deployment, thread_id) in (select deployment, thread_id from threads where last_run is null and run_count > 0)
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY 2
--     SCAN threads USING INDEX threads_left

-- insertRoomProbes
-- (count bigint, padding text, now bigint)
with recursive room (i) as (select 1 union all select i + 1 from room where i < ?)
    insert into probes (name, at) select 'room ' || cast(i as text) || ?, ? from room
--   CO-ROUTINE room
--     SETUP
--       SCAN CONSTANT ROW
--     RECURSIVE STEP
--       SCAN room
--   SCAN room

-- requeueRunning
-- (now bigint, now bigint, now bigint)
update "runs" set "status" = 'pending', "lease_token" = null, "lease_until" = null, "updated_at" = ?, "due_at" = case when due_at > ? then ? else due_at end where "status" = 'running'
--   SCAN runs USING INDEX runs_running

-- upsertProbe
-- (name text, now bigint)
insert into "probes" ("name", "at") values (?, ?) on conflict ("name") do update set "at" = "excluded"."at"
