-- copyOfFeature ({"statement":"copyCalls"})
-- (thread_id text, deployment text, from text, deployment text, thread_id text)
insert into calls (deployment, thread_id, call_id, graph_id, first_run, run_id, beginning, created_at, ended_at)
    select deployment, (select ?), call_id, graph_id, '', run_id, beginning, created_at, ended_at from calls
    where deployment = (select ?) and thread_id = (select ?)
      and not exists (select 1 from runs r where r.run_id = calls.first_run and r.ended_at is null) and exists (select 1 from threads where deployment = (select ?)
    and thread_id = (select ?) and run_count < 0)
--   SEARCH threads EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SEARCH calls USING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   SEARCH call_tokens USING COVERING INDEX call_tokens_call (deployment=? AND thread_id=? AND call_id=?)
--   SEARCH call_events USING COVERING INDEX sqlite_autoindex_call_events_1 (deployment=? AND thread_id=? AND call_id=?)
--   SEARCH call_entries USING COVERING INDEX sqlite_autoindex_call_entries_1 (deployment=? AND thread_id=? AND call_id=?)

-- copyOfFeature ({"statement":"copyEntries"})
-- (thread_id text, deployment text, from text, thread_id text)
insert into call_entries (deployment, thread_id, call_id, idx, run_id, entry)
    select e.deployment, (select ?), e.call_id, e.idx, e.run_id, e.entry from call_entries e
    where e.deployment = (select ?) and e.thread_id = (select ?)
      and not exists (select 1 from runs r where r.run_id = e.run_id and r.ended_at is null)
      and exists (select 1 from calls c where c.deployment = e.deployment and c.thread_id = (select ?)
        and c.call_id = e.call_id)
--   SEARCH e USING INDEX sqlite_autoindex_call_entries_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   SEARCH c EXISTS USING COVERING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=? AND call_id=?)

-- copyRows ({"table":"checkpoints"})
-- (thread_id text, from_member text, member text, deployment text, from text, deployment text, from text, deployment text, thread_id text)
insert into "checkpoints" (deployment, thread_id, "ns", "checkpoint_id", "seq", "run_id", "parent_id", "type", "data", "bytes", "versions", "created_at", metadata)
      select deployment, (select ?), "ns", "checkpoint_id", "seq", "run_id", "parent_id", "type", "data", "bytes", "versions", "created_at", replace(metadata, (select ?), (select ?))
      from "checkpoints" where deployment = (select ?) and thread_id = (select ?)
        and (run_id is null or run_id not in (select r.run_id from runs r where r.deployment = (select ?)
          and r.thread_id = (select ?) and (r.status || '') in ('pending', 'running')))
        and exists (select 1 from threads where deployment = (select ?)
    and thread_id = (select ?) and run_count < 0)
--   SEARCH threads EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoints USING INDEX checkpoints_order (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH r USING INDEX runs_order (deployment=? AND thread_id=?)
--     CREATE BLOOM FILTER

-- copyRows ({"table":"checkpoint_writes"})
-- (thread_id text, deployment text, from text, deployment text, from text, deployment text, thread_id text)
insert into "checkpoint_writes" (deployment, thread_id, "ns", "checkpoint_id", "task_id", "idx", "run_id", "run_seq", "channel", "type", "data", "bytes")
      select deployment, (select ?), "ns", "checkpoint_id", "task_id", "idx", "run_id", "run_seq", "channel", "type", "data", "bytes"
      from "checkpoint_writes" where deployment = (select ?) and thread_id = (select ?)
        and (run_id is null or run_id not in (select r.run_id from runs r where r.deployment = (select ?)
          and r.thread_id = (select ?) and (r.status || '') in ('pending', 'running')))
        and exists (select 1 from threads where deployment = (select ?)
    and thread_id = (select ?) and run_count < 0)
--   SEARCH threads EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoint_writes USING INDEX sqlite_autoindex_checkpoint_writes_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH r USING INDEX runs_order (deployment=? AND thread_id=?)
--     CREATE BLOOM FILTER

-- copyRows ({"table":"channel_values"})
-- (thread_id text, deployment text, from text, deployment text, from text, deployment text, thread_id text)
insert into "channel_values" (deployment, thread_id, "ns", "channel", "version", "run_id", "type", "data", "bytes", "extends_version")
      select deployment, (select ?), "ns", "channel", "version", "run_id", "type", "data", "bytes", "extends_version"
      from "channel_values" where deployment = (select ?) and thread_id = (select ?)
        and (run_id is null or run_id not in (select r.run_id from runs r where r.deployment = (select ?)
          and r.thread_id = (select ?) and (r.status || '') in ('pending', 'running')))
        and exists (select 1 from threads where deployment = (select ?)
    and thread_id = (select ?) and run_count < 0)
--   SEARCH threads EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SEARCH channel_values USING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH r USING INDEX runs_order (deployment=? AND thread_id=?)
--     CREATE BLOOM FILTER

-- copyStateEntries
-- (thread_id text, now bigint, deployment text, from text, deployment text, thread_id text)
insert into labels (deployment, kind, row_id, path_hash, value_hash, exact, created_at)
    select deployment, kind, (select ?), path_hash, value_hash, exact, (select ?) from labels
    where deployment = (select ?) and kind = 'values' and row_id = (select ?) and exists (select 1 from threads where deployment = (select ?)
    and thread_id = (select ?) and run_count < 0)
    on conflict do nothing
--   SEARCH threads EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SEARCH labels USING PRIMARY KEY (deployment=? AND kind=? AND row_id=?)

-- insertCopy
-- (deployment text, thread_id text, now bigint, now bigint, now bigint, metadata text, now bigint, deployment text, thread_id text, deployment text, from text, expected_revision bigint)
insert into "threads" ("deployment", "thread_id", "created_at", "updated_at", "state_updated_at", "metadata", "config", "graph_id", "status", "head", "interrupts", "hidden", "all_events", "revision", "run_count", "claim_count", "ttl_strategy", "ttl_ms") select (select ?), (select ?), (select ?), (select ?), (select ?), (select ?), config, graph_id, case when status = 'interrupted' then status else 'idle' end, head, case when status = 'interrupted' then interrupts else '{}' end, 0, 0, (select ?), -1 - run_count, coalesce((select d.claim_count from deleted_thread_claims d
    where d.deployment = (select ?) and d.id_suffix = substr((select ?), 33)), 0), "ttl_strategy", "ttl_ms" from threads where deployment = (select ?) and thread_id = (select ?) and hidden = 0
      and revision = (select ?) and true on conflict do nothing returning *
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SCALAR SUBQUERY
--     SEARCH d USING PRIMARY KEY (deployment=? AND id_suffix=?)
--   SEARCH calls USING COVERING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=?)
--   SEARCH crons USING COVERING INDEX crons_thread (deployment=? AND thread_id=?)
--   SEARCH channel_values USING COVERING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoint_writes USING COVERING INDEX sqlite_autoindex_checkpoint_writes_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoints USING COVERING INDEX checkpoints_order (deployment=? AND thread_id=?)
--   SEARCH thread_events USING COVERING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=?)
--   SEARCH runs USING COVERING INDEX runs_order (deployment=? AND thread_id=?)

-- insertCopy (filtered)
-- (deployment text, thread_id text, now bigint, now bigint, now bigint, metadata text, now bigint, deployment text, thread_id text, deployment text, from text, expected_revision bigint, filter text)
insert into "threads" ("deployment", "thread_id", "created_at", "updated_at", "state_updated_at", "metadata", "config", "graph_id", "status", "head", "interrupts", "hidden", "all_events", "revision", "run_count", "claim_count", "ttl_strategy", "ttl_ms") select (select ?), (select ?), (select ?), (select ?), (select ?), (select ?), config, graph_id, case when status = 'interrupted' then status else 'idle' end, head, case when status = 'interrupted' then interrupts else '{}' end, 0, 0, (select ?), -1 - run_count, coalesce((select d.claim_count from deleted_thread_claims d
    where d.deployment = (select ?) and d.id_suffix = substr((select ?), 33)), 0), "ttl_strategy", "ttl_ms" from threads where deployment = (select ?) and thread_id = (select ?) and hidden = 0
      and revision = (select ?) and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)) on conflict do nothing returning *
-- Postgres:
insert into "threads" ("deployment", "thread_id", "created_at", "updated_at", "state_updated_at", "metadata", "config", "graph_id", "status", "head", "interrupts", "hidden", "all_events", "revision", "run_count", "claim_count", "ttl_strategy", "ttl_ms") select $1::text, $2::text, $3::bigint, $4::bigint, $5::bigint, $6::text, config, graph_id, case when status = 'interrupted' then status else 'idle' end, head, case when status = 'interrupted' then interrupts else '{}' end, 0, 0, $7::bigint, -1 - run_count, coalesce((select d.claim_count from deleted_thread_claims d
    where d.deployment = $8::text and d.id_suffix = substr($9::text, 33)), 0), "ttl_strategy", "ttl_ms" from threads where deployment = $10::text and thread_id = $11::text and hidden = 0
      and revision = $12::bigint and not exists (select 1 from json_array_elements(replace(replace(replace($13::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)) on conflict do nothing returning *
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:
--   SCALAR SUBQUERY
--     SEARCH d USING PRIMARY KEY (deployment=? AND id_suffix=?)
--   SEARCH calls USING COVERING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=?)
--   SEARCH crons USING COVERING INDEX crons_thread (deployment=? AND thread_id=?)
--   SEARCH channel_values USING COVERING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoint_writes USING COVERING INDEX sqlite_autoindex_checkpoint_writes_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoints USING COVERING INDEX checkpoints_order (deployment=? AND thread_id=?)
--   SEARCH thread_events USING COVERING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=?)
--   SEARCH runs USING COVERING INDEX runs_order (deployment=? AND thread_id=?)

-- moveHead
-- (head text, graph_id text, now bigint, now bigint, ends bigint, ends bigint, deployment text, thread_id text, expected_head text)
update "threads" set "head" = ?, "graph_id" = ?, "updated_at" = ?, "state_updated_at" = ?, "run_count" = -1 - run_count, "interrupts" = case when status = 'interrupted' and ? = 1 then '{}' else interrupts end, "status" = case when status = 'interrupted' and ? = 1 then 'idle' else status end where "deployment" = ? and "thread_id" = ? and "hidden" = 0 and coalesce(head, '') = coalesce(?, '') and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending')) and true returning "thread_id"
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)

-- moveHead (filtered)
-- (head text, graph_id text, now bigint, now bigint, ends bigint, ends bigint, deployment text, thread_id text, expected_head text, filter text)
update "threads" set "head" = ?, "graph_id" = ?, "updated_at" = ?, "state_updated_at" = ?, "run_count" = -1 - run_count, "interrupts" = case when status = 'interrupted' and ? = 1 then '{}' else interrupts end, "status" = case when status = 'interrupted' and ? = 1 then 'idle' else status end where "deployment" = ? and "thread_id" = ? and "hidden" = 0 and coalesce(head, '') = coalesce(?, '') and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending')) and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)) returning "thread_id"
-- Postgres:
update "threads" set "head" = $1::text, "graph_id" = $2::text, "updated_at" = $3::bigint, "state_updated_at" = $4::bigint, "run_count" = -1 - run_count, "interrupts" = case when status = 'interrupted' and $5::bigint = 1 then '{}' else interrupts end, "status" = case when status = 'interrupted' and $6::bigint = 1 then 'idle' else status end where "deployment" = $7::text and "thread_id" = $8::text and "hidden" = 0 and coalesce(head, '') = coalesce($9::text, '') and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending')) and not exists (select 1 from json_array_elements(replace(replace(replace($10::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)) returning "thread_id"
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:

-- selectAnyThread
-- (deployment text, thread_id text)
select "thread_id" from "threads" where "deployment" = ? and "thread_id" = ?
--   SEARCH threads USING COVERING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)

-- selectMetadata
-- (deployment text, thread_id text, ns text, checkpoint_id text, deployment text, thread_id text)
select "metadata" from "checkpoints" where "deployment" = (select ?) and "thread_id" = (select ?) and "ns" = (select ?) and "checkpoint_id" = (select ?) and exists (select 1 from threads t where t.deployment = (select ?) and t.thread_id = (select ?)
    and t.hidden = 0 and true)
--   SEARCH t EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoints USING INDEX sqlite_autoindex_checkpoints_1 (deployment=? AND thread_id=? AND ns=? AND checkpoint_id=?)

-- selectMetadata (filtered)
-- (deployment text, thread_id text, ns text, checkpoint_id text, deployment text, thread_id text, filter text)
select "metadata" from "checkpoints" where "deployment" = (select ?) and "thread_id" = (select ?) and "ns" = (select ?) and "checkpoint_id" = (select ?) and exists (select 1 from threads t where t.deployment = (select ?) and t.thread_id = (select ?)
    and t.hidden = 0 and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(t.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))
-- Postgres:
select "metadata" from "checkpoints" where "deployment" = $1::text and "thread_id" = $2::text and "ns" = $3::text and "checkpoint_id" = $4::text and exists (select 1 from threads t where t.deployment = $5::text and t.thread_id = $6::text
    and t.hidden = 0 and not exists (select 1 from json_array_elements(replace(replace(replace($7::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(t.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))
--   SEARCH t EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:
--   SEARCH checkpoints USING INDEX sqlite_autoindex_checkpoints_1 (deployment=? AND thread_id=? AND ns=? AND checkpoint_id=?)

-- selectState
-- (deployment text, thread_id text)
select "head", "revision", ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending')) as "busy" from "threads" where "deployment" = ? and "thread_id" = ? and "hidden" = 0 and true
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)

-- selectState (filtered)
-- (deployment text, thread_id text, filter text)
select "head", "revision", ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending')) as "busy" from "threads" where "deployment" = ? and "thread_id" = ? and "hidden" = 0 and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))
-- Postgres:
select "head", "revision", ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending')) as "busy" from "threads" where "deployment" = $1::text and "thread_id" = $2::text and "hidden" = 0 and not exists (select 1 from json_array_elements(replace(replace(replace($3::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)

-- setMetadata
-- (metadata text, deployment text, thread_id text, ns text, checkpoint_id text, expected text, deployment text, thread_id text)
update "checkpoints" set "metadata" = ? where "deployment" = ? and "thread_id" = ? and "ns" = ? and "checkpoint_id" = ? and "metadata" = ? and exists (select 1 from threads t where t.deployment = ? and t.thread_id = ?
    and t.hidden = 0 and true) returning "checkpoint_id"
--   SEARCH checkpoints USING INDEX sqlite_autoindex_checkpoints_1 (deployment=? AND thread_id=? AND ns=? AND checkpoint_id=?)
--   SCALAR SUBQUERY
--     SEARCH t USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)

-- setMetadata (filtered)
-- (metadata text, deployment text, thread_id text, ns text, checkpoint_id text, expected text, deployment text, thread_id text, filter text)
update "checkpoints" set "metadata" = ? where "deployment" = ? and "thread_id" = ? and "ns" = ? and "checkpoint_id" = ? and "metadata" = ? and exists (select 1 from threads t where t.deployment = ? and t.thread_id = ?
    and t.hidden = 0 and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(t.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) returning "checkpoint_id"
-- Postgres:
update "checkpoints" set "metadata" = $1::text where "deployment" = $2::text and "thread_id" = $3::text and "ns" = $4::text and "checkpoint_id" = $5::text and "metadata" = $6::text and exists (select 1 from threads t where t.deployment = $7::text and t.thread_id = $8::text
    and t.hidden = 0 and not exists (select 1 from json_array_elements(replace(replace(replace($9::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(t.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) returning "checkpoint_id"
--   SEARCH checkpoints USING INDEX sqlite_autoindex_checkpoints_1 (deployment=? AND thread_id=? AND ns=? AND checkpoint_id=?)
--   SCALAR SUBQUERY
--     SEARCH t USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:
