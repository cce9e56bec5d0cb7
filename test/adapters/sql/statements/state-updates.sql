-- insertStateCheckpoints (1 rows)
-- (deployment text, thread_id text, deployment text, thread_id text, 1, ns text, checkpoint_id text, parent_id text, type text, data text, bytes bytea, metadata text, versions text, created_at bigint, deployment text, thread_id text)
insert into checkpoints (deployment, thread_id, run_id, seq, ns, checkpoint_id, parent_id, type, data, bytes,
      metadata, versions, created_at)
    select (select ?), (select ?), null,
      v.column1 + coalesce((select max(seq) from checkpoints
        where deployment = (select ?) and thread_id = (select ?)), 0),
      v.column2, v.column3, v.column4, v.column5, v.column6, v.column7, v.column8, v.column9, v.column10
    from (values (?, ?, ?, ?, ?, ?,
          ?, ?, ?, ?)) as v
    where exists (select 1 from threads where deployment = (select ?)
    and thread_id = (select ?) and run_count < 0)
    on conflict (deployment, thread_id, ns, checkpoint_id) do update set
      parent_id = excluded.parent_id, type = excluded.type, data = excluded.data, bytes = excluded.bytes,
      metadata = excluded.metadata, versions = excluded.versions, created_at = excluded.created_at
      where checkpoints.run_id = excluded.run_id
--   CO-ROUTINE v
--   SEARCH threads EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SCAN v
--   SCALAR SUBQUERY
--     SEARCH checkpoints USING COVERING INDEX checkpoints_order (deployment=? AND thread_id=?)

-- insertStateCheckpoints (2 rows)
-- (deployment text, thread_id text, deployment text, thread_id text, 1, ns text, checkpoint_id text, parent_id text, type text, data text, bytes bytea, metadata text, versions text, created_at bigint, 2, ns text, checkpoint_id text, parent_id text, type text, data text, bytes bytea, metadata text, versions text, created_at bigint, deployment text, thread_id text)
insert into checkpoints (deployment, thread_id, run_id, seq, ns, checkpoint_id, parent_id, type, data, bytes,
      metadata, versions, created_at)
    select (select ?), (select ?), null,
      v.column1 + coalesce((select max(seq) from checkpoints
        where deployment = (select ?) and thread_id = (select ?)), 0),
      v.column2, v.column3, v.column4, v.column5, v.column6, v.column7, v.column8, v.column9, v.column10
    from (values (?, ?, ?, ?, ?, ?,
          ?, ?, ?, ?), (?, ?, ?, ?, ?, ?,
          ?, ?, ?, ?)) as v
    where exists (select 1 from threads where deployment = (select ?)
    and thread_id = (select ?) and run_count < 0)
    on conflict (deployment, thread_id, ns, checkpoint_id) do update set
      parent_id = excluded.parent_id, type = excluded.type, data = excluded.data, bytes = excluded.bytes,
      metadata = excluded.metadata, versions = excluded.versions, created_at = excluded.created_at
      where checkpoints.run_id = excluded.run_id
--   SEARCH threads EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SCAN 2-ROW VALUES CLAUSE
--   SCALAR SUBQUERY
--     SEARCH checkpoints USING COVERING INDEX checkpoints_order (deployment=? AND thread_id=?)

-- insertStateValues (1 rows)
-- (deployment text, thread_id text, ns text, channel text, version text, type text, data text, bytes bytea, extends_version text, deployment text, thread_id text)
insert into channel_values (deployment, thread_id, run_id, ns, channel, version, type, data, bytes, extends_version)
    select (select ?), (select ?), null, v.*
    from (values (?, ?, ?, ?, ?, ?,
          ?)) as v
    where exists (select 1 from threads where deployment = (select ?)
    and thread_id = (select ?) and run_count < 0)
    on conflict (deployment, thread_id, ns, channel, version) do update set type = excluded.type,
      data = excluded.data, bytes = excluded.bytes, extends_version = excluded.extends_version
      where channel_values.run_id = excluded.run_id
--   CO-ROUTINE v
--   SEARCH threads EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SCAN v

-- insertStateValues (2 rows)
-- (deployment text, thread_id text, ns text, channel text, version text, type text, data text, bytes bytea, extends_version text, ns text, channel text, version text, type text, data text, bytes bytea, extends_version text, deployment text, thread_id text)
insert into channel_values (deployment, thread_id, run_id, ns, channel, version, type, data, bytes, extends_version)
    select (select ?), (select ?), null, v.*
    from (values (?, ?, ?, ?, ?, ?,
          ?), (?, ?, ?, ?, ?, ?,
          ?)) as v
    where exists (select 1 from threads where deployment = (select ?)
    and thread_id = (select ?) and run_count < 0)
    on conflict (deployment, thread_id, ns, channel, version) do update set type = excluded.type,
      data = excluded.data, bytes = excluded.bytes, extends_version = excluded.extends_version
      where channel_values.run_id = excluded.run_id
--   SEARCH threads EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SCAN 2-ROW VALUES CLAUSE

-- unmarkThread
-- (deployment text, thread_id text)
update "threads" set "run_count" = -run_count where "deployment" = ? and "thread_id" = ? and "run_count" < 0
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)

-- upsertStateWrites (1 rows)
-- (deployment text, thread_id text, deployment text, thread_id text, ns text, checkpoint_id text, task_id text, idx bigint, channel text, type text, data text, bytes bytea, deployment text, thread_id text)
insert into checkpoint_writes (deployment, thread_id, run_id, run_seq, ns, checkpoint_id, task_id, idx, channel,
      type, data, bytes)
    select (select ?), (select ?), '', (select -run_count from threads where deployment = (select ?) and thread_id = (select ?)), v.*
    from (values (?, ?, ?, ?, ?, ?,
          ?, ?)) as v
    where exists (select 1 from threads where deployment = (select ?)
    and thread_id = (select ?) and run_count < 0)
    on conflict (deployment, thread_id, ns, checkpoint_id, task_id, idx, run_id) do update set
      run_seq = excluded.run_seq, channel = excluded.channel, type = excluded.type, data = excluded.data,
      bytes = excluded.bytes
--   CO-ROUTINE v
--   SEARCH threads EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SCAN v
--   SCALAR SUBQUERY
--     SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)

-- upsertStateWrites (2 rows)
-- (deployment text, thread_id text, deployment text, thread_id text, ns text, checkpoint_id text, task_id text, idx bigint, channel text, type text, data text, bytes bytea, ns text, checkpoint_id text, task_id text, idx bigint, channel text, type text, data text, bytes bytea, deployment text, thread_id text)
insert into checkpoint_writes (deployment, thread_id, run_id, run_seq, ns, checkpoint_id, task_id, idx, channel,
      type, data, bytes)
    select (select ?), (select ?), '', (select -run_count from threads where deployment = (select ?) and thread_id = (select ?)), v.*
    from (values (?, ?, ?, ?, ?, ?,
          ?, ?), (?, ?, ?, ?, ?, ?,
          ?, ?)) as v
    where exists (select 1 from threads where deployment = (select ?)
    and thread_id = (select ?) and run_count < 0)
    on conflict (deployment, thread_id, ns, checkpoint_id, task_id, idx, run_id) do update set
      run_seq = excluded.run_seq, channel = excluded.channel, type = excluded.type, data = excluded.data,
      bytes = excluded.bytes
--   SEARCH threads EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SCAN 2-ROW VALUES CLAUSE
--   SCALAR SUBQUERY
--     SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
