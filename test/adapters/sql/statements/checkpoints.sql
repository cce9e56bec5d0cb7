-- deleteLeased ({"table":"checkpoints"})
-- (deployment text, thread_id text, deployment text, thread_id text, run_id text, token text)
delete from "checkpoints" where deployment = (select ?) and thread_id = (select ?)
    and exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running')
--   SEARCH checkpoints USING COVERING INDEX checkpoints_order (deployment=? AND thread_id=?)
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- deleteLeased ({"table":"checkpoint_writes"})
-- (deployment text, thread_id text, deployment text, thread_id text, run_id text, token text)
delete from "checkpoint_writes" where deployment = (select ?) and thread_id = (select ?)
    and exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running')
--   SEARCH checkpoint_writes USING COVERING INDEX sqlite_autoindex_checkpoint_writes_1 (deployment=? AND thread_id=?)
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- deleteLeased ({"table":"channel_values"})
-- (deployment text, thread_id text, deployment text, thread_id text, run_id text, token text)
delete from "channel_values" where deployment = (select ?) and thread_id = (select ?)
    and exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running')
--   SEARCH channel_values USING COVERING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=?)
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- selectCheckpoint
-- (deployment text, thread_id text, ns text, checkpoint_id text)
select * from "checkpoints" where "deployment" = (select ?) and "thread_id" = (select ?) and "ns" = (select ?) and true and "checkpoint_id" = (select ?)
--   SEARCH checkpoints USING INDEX sqlite_autoindex_checkpoints_1 (deployment=? AND thread_id=? AND ns=? AND checkpoint_id=?)

-- selectCheckpoint (filtered)
-- (deployment text, thread_id text, ns text, filter text, checkpoint_id text)
select * from "checkpoints" where "deployment" = (select ?) and "thread_id" = (select ?) and "ns" = (select ?) and exists (select 1 from threads permitting where permitting.deployment = "checkpoints"."deployment"
    and permitting.thread_id = "checkpoints"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) and "checkpoint_id" = (select ?)
-- Postgres:
select * from "checkpoints" where "deployment" = $1::text and "thread_id" = $2::text and "ns" = $3::text and exists (select 1 from threads permitting where permitting.deployment = "checkpoints"."deployment"
    and permitting.thread_id = "checkpoints"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($4::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) and "checkpoint_id" = $5::text
--   SEARCH checkpoints USING INDEX sqlite_autoindex_checkpoints_1 (deployment=? AND thread_id=? AND ns=? AND checkpoint_id=?)
--   SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:

-- selectCheckpoints ({"in_namespace":false,"before":false,"filtered":false})
-- (deployment text, thread_id text, below bigint, limit bigint)
select * from "checkpoints" where "deployment" = (select ?) and "thread_id" = (select ?) and "seq" < (select ?) and true order by "seq" desc limit (select ?)
--   SEARCH checkpoints USING INDEX checkpoints_order (deployment=? AND thread_id=? AND seq<?)

-- selectCheckpoints ({"in_namespace":true,"before":true,"filtered":false})
-- (deployment text, thread_id text, below bigint, ns text, deployment text, thread_id text, before text, ns text, limit bigint)
select * from "checkpoints" where "deployment" = (select ?) and "thread_id" = (select ?) and "seq" < (select ?) and true and "ns" = (select ?) and "seq" < (select max(seq) as seq from checkpoints where deployment = (select ?)
    and thread_id = (select ?) and checkpoint_id = (select ?) and ns = (select ?)) order by "seq" desc limit (select ?)
--   SEARCH checkpoints USING INDEX checkpoints_order (deployment=? AND thread_id=? AND seq<?)
--   SCALAR SUBQUERY
--     SEARCH checkpoints USING INDEX sqlite_autoindex_checkpoints_1 (deployment=? AND thread_id=? AND ns=? AND checkpoint_id=?)

-- selectCheckpoints ({"in_namespace":false,"before":true,"filtered":true})
-- (deployment text, thread_id text, below bigint, filter text, deployment text, thread_id text, before text, limit bigint)
select * from "checkpoints" where "deployment" = (select ?) and "thread_id" = (select ?) and "seq" < (select ?) and exists (select 1 from threads permitting where permitting.deployment = "checkpoints"."deployment"
    and permitting.thread_id = "checkpoints"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) and "seq" < (select max(seq) as seq from checkpoints where deployment = (select ?)
    and thread_id = (select ?) and checkpoint_id = (select ?)) order by "seq" desc limit (select ?)
-- Postgres:
select * from "checkpoints" where "deployment" = $1::text and "thread_id" = $2::text and "seq" < $3::bigint and exists (select 1 from threads permitting where permitting.deployment = "checkpoints"."deployment"
    and permitting.thread_id = "checkpoints"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($4::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) and "seq" < (select max(seq) as seq from checkpoints where deployment = $5::text
    and thread_id = $6::text and checkpoint_id = $7::text) order by "seq" desc limit $8::bigint
--   SEARCH checkpoints USING INDEX checkpoints_order (deployment=? AND thread_id=? AND seq<?)
--   SCALAR SUBQUERY
--     SEARCH checkpoints USING INDEX checkpoints_order (deployment=? AND thread_id=?)
--   SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:

-- selectNewestCheckpoint
-- (deployment text, thread_id text, ns text)
select * from "checkpoints" where "deployment" = (select ?) and "thread_id" = (select ?) and "ns" = (select ?) and true order by "seq" desc limit 1
--   SEARCH checkpoints USING INDEX checkpoints_order (deployment=? AND thread_id=?)

-- selectNewestCheckpoint (filtered)
-- (deployment text, thread_id text, ns text, filter text)
select * from "checkpoints" where "deployment" = (select ?) and "thread_id" = (select ?) and "ns" = (select ?) and exists (select 1 from threads permitting where permitting.deployment = "checkpoints"."deployment"
    and permitting.thread_id = "checkpoints"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) order by "seq" desc limit 1
-- Postgres:
select * from "checkpoints" where "deployment" = $1::text and "thread_id" = $2::text and "ns" = $3::text and exists (select 1 from threads permitting where permitting.deployment = "checkpoints"."deployment"
    and permitting.thread_id = "checkpoints"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($4::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) order by "seq" desc limit 1
--   SEARCH checkpoints USING INDEX checkpoints_order (deployment=? AND thread_id=?)
--   SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:

-- selectNewestOfRun
-- (deployment text, thread_id text, ns text, run_id text)
select * from "checkpoints" where "deployment" = (select ?) and "thread_id" = (select ?) and "ns" = (select ?) and true and "run_id" = (select ?) order by "seq" desc limit 1
--   SEARCH checkpoints USING INDEX checkpoints_order (deployment=? AND thread_id=?)

-- selectNewestOfRun (filtered)
-- (deployment text, thread_id text, ns text, filter text, run_id text)
select * from "checkpoints" where "deployment" = (select ?) and "thread_id" = (select ?) and "ns" = (select ?) and exists (select 1 from threads permitting where permitting.deployment = "checkpoints"."deployment"
    and permitting.thread_id = "checkpoints"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) and "run_id" = (select ?) order by "seq" desc limit 1
-- Postgres:
select * from "checkpoints" where "deployment" = $1::text and "thread_id" = $2::text and "ns" = $3::text and exists (select 1 from threads permitting where permitting.deployment = "checkpoints"."deployment"
    and permitting.thread_id = "checkpoints"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($4::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) and "run_id" = $5::text order by "seq" desc limit 1
--   SEARCH checkpoints USING INDEX checkpoints_order (deployment=? AND thread_id=?)
--   SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:

-- selectSizes
-- (deployment text, thread_id text, deployment text, thread_id text, deployment text, thread_id text)
select 'checkpoints' as section, '' as channel, count(*) as count,
      coalesce(sum(coalesce(octet_length("data"), 0) + coalesce(octet_length("bytes"), 0) + coalesce(octet_length("metadata"), 0) + coalesce(octet_length("versions"), 0)), 0) as bytes from checkpoints where deployment = (select ?) and thread_id = (select ?)
    union all select 'pending_writes', '', count(*), coalesce(sum(coalesce(octet_length("data"), 0) + coalesce(octet_length("bytes"), 0)), 0) from checkpoint_writes
      where deployment = (select ?) and thread_id = (select ?)
    union all select 'channel_values', channel, count(*), coalesce(sum(coalesce(octet_length("data"), 0) + coalesce(octet_length("bytes"), 0)), 0) from channel_values
      where deployment = (select ?) and thread_id = (select ?) group by channel
--   COMPOUND QUERY
--     LEFT-MOST SUBQUERY
--       SEARCH checkpoints USING INDEX checkpoints_order (deployment=? AND thread_id=?)
--     UNION ALL
--       SEARCH checkpoint_writes USING INDEX sqlite_autoindex_checkpoint_writes_1 (deployment=? AND thread_id=?)
--     UNION ALL
--       SEARCH channel_values USING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=?)
--       USE TEMP B-TREE FOR GROUP BY

-- selectWrites
-- (addresses text, deployment text, thread_id text)
select w.* from (select json_extract(value, '$[0]') as "ns", json_extract(value, '$[1]') as "checkpoint_id" from json_each((select ?))) j
    cross join checkpoint_writes w
    where w.deployment = (select ?) and w.thread_id = (select ?) and w.ns = j.ns and w.checkpoint_id = j.checkpoint_id
-- Postgres:
select w.* from (select (value ->> 0) collate "C" as "ns", (value ->> 1) collate "C" as "checkpoint_id" from json_array_elements($1::text::json)) j
    cross join checkpoint_writes w
    where w.deployment = $2::text and w.thread_id = $3::text and w.ns = j.ns and w.checkpoint_id = j.checkpoint_id
--   SCAN json_each VIRTUAL TABLE INDEX 1:
--   SEARCH w USING INDEX sqlite_autoindex_checkpoint_writes_1 (deployment=? AND thread_id=? AND ns=? AND checkpoint_id=?)

-- upsertLeasedCheckpoints (1 rows)
-- (deployment text, thread_id text, run_id text, deployment text, thread_id text, 1, ns text, checkpoint_id text, parent_id text, type text, data text, bytes bytea, metadata text, versions text, created_at bigint, deployment text, thread_id text, run_id text, token text)
insert into checkpoints (deployment, thread_id, run_id, seq, ns, checkpoint_id, parent_id, type, data, bytes,
      metadata, versions, created_at)
    select (select ?), (select ?), (select ?),
      v.column1 + coalesce((select max(seq) from checkpoints
        where deployment = (select ?) and thread_id = (select ?)), 0),
      v.column2, v.column3, v.column4, v.column5, v.column6, v.column7, v.column8, v.column9, v.column10
    from (values (?, ?, ?, ?, ?, ?,
          ?, ?, ?, ?)) as v
    where exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running')
    on conflict (deployment, thread_id, ns, checkpoint_id) do update set
      parent_id = excluded.parent_id, type = excluded.type, data = excluded.data, bytes = excluded.bytes,
      metadata = excluded.metadata, versions = excluded.versions, created_at = excluded.created_at
      where checkpoints.run_id = excluded.run_id
--   CO-ROUTINE v
--   SEARCH runs EXISTS USING INDEX runs_running (deployment=? AND thread_id=?)
--   SCAN v
--   SCALAR SUBQUERY
--     SEARCH checkpoints USING COVERING INDEX checkpoints_order (deployment=? AND thread_id=?)

-- upsertLeasedCheckpoints (2 rows)
-- (deployment text, thread_id text, run_id text, deployment text, thread_id text, 1, ns text, checkpoint_id text, parent_id text, type text, data text, bytes bytea, metadata text, versions text, created_at bigint, 2, ns text, checkpoint_id text, parent_id text, type text, data text, bytes bytea, metadata text, versions text, created_at bigint, deployment text, thread_id text, run_id text, token text)
insert into checkpoints (deployment, thread_id, run_id, seq, ns, checkpoint_id, parent_id, type, data, bytes,
      metadata, versions, created_at)
    select (select ?), (select ?), (select ?),
      v.column1 + coalesce((select max(seq) from checkpoints
        where deployment = (select ?) and thread_id = (select ?)), 0),
      v.column2, v.column3, v.column4, v.column5, v.column6, v.column7, v.column8, v.column9, v.column10
    from (values (?, ?, ?, ?, ?, ?,
          ?, ?, ?, ?), (?, ?, ?, ?, ?, ?,
          ?, ?, ?, ?)) as v
    where exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running')
    on conflict (deployment, thread_id, ns, checkpoint_id) do update set
      parent_id = excluded.parent_id, type = excluded.type, data = excluded.data, bytes = excluded.bytes,
      metadata = excluded.metadata, versions = excluded.versions, created_at = excluded.created_at
      where checkpoints.run_id = excluded.run_id
--   SEARCH runs EXISTS USING INDEX runs_running (deployment=? AND thread_id=?)
--   SCAN 2-ROW VALUES CLAUSE
--   SCALAR SUBQUERY
--     SEARCH checkpoints USING COVERING INDEX checkpoints_order (deployment=? AND thread_id=?)

-- upsertLeasedValues (1 rows)
-- (deployment text, thread_id text, run_id text, ns text, channel text, version text, type text, data text, bytes bytea, extends_version text, deployment text, thread_id text, run_id text, token text)
insert into channel_values (deployment, thread_id, run_id, ns, channel, version, type, data, bytes, extends_version)
    select (select ?), (select ?), (select ?), v.*
    from (values (?, ?, ?, ?, ?, ?,
          ?)) as v
    where exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running')
    on conflict (deployment, thread_id, ns, channel, version) do update set type = excluded.type,
      data = excluded.data, bytes = excluded.bytes, extends_version = excluded.extends_version
      where channel_values.run_id = excluded.run_id
--   CO-ROUTINE v
--   SEARCH runs EXISTS USING INDEX runs_running (deployment=? AND thread_id=?)
--   SCAN v

-- upsertLeasedValues (2 rows)
-- (deployment text, thread_id text, run_id text, ns text, channel text, version text, type text, data text, bytes bytea, extends_version text, ns text, channel text, version text, type text, data text, bytes bytea, extends_version text, deployment text, thread_id text, run_id text, token text)
insert into channel_values (deployment, thread_id, run_id, ns, channel, version, type, data, bytes, extends_version)
    select (select ?), (select ?), (select ?), v.*
    from (values (?, ?, ?, ?, ?, ?,
          ?), (?, ?, ?, ?, ?, ?,
          ?)) as v
    where exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running')
    on conflict (deployment, thread_id, ns, channel, version) do update set type = excluded.type,
      data = excluded.data, bytes = excluded.bytes, extends_version = excluded.extends_version
      where channel_values.run_id = excluded.run_id
--   SEARCH runs EXISTS USING INDEX runs_running (deployment=? AND thread_id=?)
--   SCAN 2-ROW VALUES CLAUSE

-- upsertLeasedWrites (1 rows)
-- (deployment text, thread_id text, run_id text, run_id text, ns text, checkpoint_id text, task_id text, idx bigint, channel text, type text, data text, bytes bytea, deployment text, thread_id text, run_id text, token text)
insert into checkpoint_writes (deployment, thread_id, run_id, run_seq, ns, checkpoint_id, task_id, idx, channel,
      type, data, bytes)
    select (select ?), (select ?), (select ?), (select seq from runs where run_id = (select ?)), v.*
    from (values (?, ?, ?, ?, ?, ?,
          ?, ?)) as v
    where exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running')
    on conflict (deployment, thread_id, ns, checkpoint_id, task_id, idx, run_id) do update set
      run_seq = excluded.run_seq, channel = excluded.channel, type = excluded.type, data = excluded.data,
      bytes = excluded.bytes
--   CO-ROUTINE v
--   SEARCH runs EXISTS USING INDEX runs_running (deployment=? AND thread_id=?)
--   SCAN v
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- upsertLeasedWrites (2 rows)
-- (deployment text, thread_id text, run_id text, run_id text, ns text, checkpoint_id text, task_id text, idx bigint, channel text, type text, data text, bytes bytea, ns text, checkpoint_id text, task_id text, idx bigint, channel text, type text, data text, bytes bytea, deployment text, thread_id text, run_id text, token text)
insert into checkpoint_writes (deployment, thread_id, run_id, run_seq, ns, checkpoint_id, task_id, idx, channel,
      type, data, bytes)
    select (select ?), (select ?), (select ?), (select seq from runs where run_id = (select ?)), v.*
    from (values (?, ?, ?, ?, ?, ?,
          ?, ?), (?, ?, ?, ?, ?, ?,
          ?, ?)) as v
    where exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running')
    on conflict (deployment, thread_id, ns, checkpoint_id, task_id, idx, run_id) do update set
      run_seq = excluded.run_seq, channel = excluded.channel, type = excluded.type, data = excluded.data,
      bytes = excluded.bytes
--   SEARCH runs EXISTS USING INDEX runs_running (deployment=? AND thread_id=?)
--   SCAN 2-ROW VALUES CLAUSE
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
