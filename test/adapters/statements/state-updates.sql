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
    where exists (select 1 from threads where deployment = (select (select ?))
    and thread_id = (select (select ?)) and run_count < 0)
    on conflict (deployment, thread_id, ns, checkpoint_id) do update set
      parent_id = excluded.parent_id, type = excluded.type, data = excluded.data, bytes = excluded.bytes,
      metadata = excluded.metadata, versions = excluded.versions, created_at = excluded.created_at
      where checkpoints.run_id = excluded.run_id
-- Postgres:
insert into checkpoints (deployment, thread_id, run_id, seq, ns, checkpoint_id, parent_id, type, data, bytes,
      metadata, versions, created_at)
    select $1::text, $2::text, null,
      v.column1 + coalesce((select max(seq) from checkpoints
        where deployment = $3::text and thread_id = $4::text), 0),
      v.column2, v.column3, v.column4, v.column5, v.column6, v.column7, v.column8, v.column9, v.column10
    from (values ($5::bigint, $6::text, $7::text, $8::text, $9::text, $10::text,
          $11::bytea, $12::text, $13::text, $14::bigint)) as v
    where exists (select 1 from threads where deployment = $15::text
    and thread_id = $16::text and run_count < 0)
    on conflict (deployment, thread_id, ns, checkpoint_id) do update set
      parent_id = excluded.parent_id, type = excluded.type, data = excluded.data, bytes = excluded.bytes,
      metadata = excluded.metadata, versions = excluded.versions, created_at = excluded.created_at
      where checkpoints.run_id = excluded.run_id
--   CO-ROUTINE v
--     SCAN CONSTANT ROW
--   SEARCH threads EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SCALAR SUBQUERY 8
--     SCAN CONSTANT ROW
--     SCALAR SUBQUERY 7
--       SCAN CONSTANT ROW
--   SCALAR SUBQUERY 10
--     SCAN CONSTANT ROW
--     SCALAR SUBQUERY 9
--       SCAN CONSTANT ROW
--   SCAN v
--   SCALAR SUBQUERY 1
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 2
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 5
--     SEARCH checkpoints USING COVERING INDEX checkpoints_order (deployment=? AND thread_id=?)
--     SCALAR SUBQUERY 3
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 4
--       SCAN CONSTANT ROW

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
    where exists (select 1 from threads where deployment = (select (select ?))
    and thread_id = (select (select ?)) and run_count < 0)
    on conflict (deployment, thread_id, ns, checkpoint_id) do update set
      parent_id = excluded.parent_id, type = excluded.type, data = excluded.data, bytes = excluded.bytes,
      metadata = excluded.metadata, versions = excluded.versions, created_at = excluded.created_at
      where checkpoints.run_id = excluded.run_id
-- Postgres:
insert into checkpoints (deployment, thread_id, run_id, seq, ns, checkpoint_id, parent_id, type, data, bytes,
      metadata, versions, created_at)
    select $1::text, $2::text, null,
      v.column1 + coalesce((select max(seq) from checkpoints
        where deployment = $3::text and thread_id = $4::text), 0),
      v.column2, v.column3, v.column4, v.column5, v.column6, v.column7, v.column8, v.column9, v.column10
    from (values ($5::bigint, $6::text, $7::text, $8::text, $9::text, $10::text,
          $11::bytea, $12::text, $13::text, $14::bigint), ($15::bigint, $16::text, $17::text, $18::text, $19::text, $20::text,
          $21::bytea, $22::text, $23::text, $24::bigint)) as v
    where exists (select 1 from threads where deployment = $25::text
    and thread_id = $26::text and run_count < 0)
    on conflict (deployment, thread_id, ns, checkpoint_id) do update set
      parent_id = excluded.parent_id, type = excluded.type, data = excluded.data, bytes = excluded.bytes,
      metadata = excluded.metadata, versions = excluded.versions, created_at = excluded.created_at
      where checkpoints.run_id = excluded.run_id
--   SEARCH threads EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SCALAR SUBQUERY 9
--     SCAN CONSTANT ROW
--     SCALAR SUBQUERY 8
--       SCAN CONSTANT ROW
--   SCALAR SUBQUERY 11
--     SCAN CONSTANT ROW
--     SCALAR SUBQUERY 10
--       SCAN CONSTANT ROW
--   SCAN 2-ROW VALUES CLAUSE
--   SCALAR SUBQUERY 1
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 2
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 5
--     SEARCH checkpoints USING COVERING INDEX checkpoints_order (deployment=? AND thread_id=?)
--     SCALAR SUBQUERY 3
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 4
--       SCAN CONSTANT ROW

-- insertStateValues (1 rows)
-- (deployment text, thread_id text, ns text, channel text, version text, type text, data text, bytes bytea, extends_version text, deployment text, thread_id text)
insert into channel_values (deployment, thread_id, run_id, ns, channel, version, type, data, bytes, extends_version)
    select (select ?), (select ?), null, v.*
    from (values (?, ?, ?, ?, ?, ?,
          ?)) as v
    where exists (select 1 from threads where deployment = (select (select ?))
    and thread_id = (select (select ?)) and run_count < 0)
    on conflict (deployment, thread_id, ns, channel, version) do update set type = excluded.type,
      data = excluded.data, bytes = excluded.bytes, extends_version = excluded.extends_version
      where channel_values.run_id = excluded.run_id
-- Postgres:
insert into channel_values (deployment, thread_id, run_id, ns, channel, version, type, data, bytes, extends_version)
    select $1::text, $2::text, null, v.*
    from (values ($3::text, $4::text, $5::text, $6::text, $7::text, $8::bytea,
          $9::text)) as v
    where exists (select 1 from threads where deployment = $10::text
    and thread_id = $11::text and run_count < 0)
    on conflict (deployment, thread_id, ns, channel, version) do update set type = excluded.type,
      data = excluded.data, bytes = excluded.bytes, extends_version = excluded.extends_version
      where channel_values.run_id = excluded.run_id
--   CO-ROUTINE v
--     SCAN CONSTANT ROW
--   SEARCH threads EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SCALAR SUBQUERY 5
--     SCAN CONSTANT ROW
--     SCALAR SUBQUERY 4
--       SCAN CONSTANT ROW
--   SCALAR SUBQUERY 7
--     SCAN CONSTANT ROW
--     SCALAR SUBQUERY 6
--       SCAN CONSTANT ROW
--   SCAN v
--   SCALAR SUBQUERY 1
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 2
--     SCAN CONSTANT ROW

-- insertStateValues (2 rows)
-- (deployment text, thread_id text, ns text, channel text, version text, type text, data text, bytes bytea, extends_version text, ns text, channel text, version text, type text, data text, bytes bytea, extends_version text, deployment text, thread_id text)
insert into channel_values (deployment, thread_id, run_id, ns, channel, version, type, data, bytes, extends_version)
    select (select ?), (select ?), null, v.*
    from (values (?, ?, ?, ?, ?, ?,
          ?), (?, ?, ?, ?, ?, ?,
          ?)) as v
    where exists (select 1 from threads where deployment = (select (select ?))
    and thread_id = (select (select ?)) and run_count < 0)
    on conflict (deployment, thread_id, ns, channel, version) do update set type = excluded.type,
      data = excluded.data, bytes = excluded.bytes, extends_version = excluded.extends_version
      where channel_values.run_id = excluded.run_id
-- Postgres:
insert into channel_values (deployment, thread_id, run_id, ns, channel, version, type, data, bytes, extends_version)
    select $1::text, $2::text, null, v.*
    from (values ($3::text, $4::text, $5::text, $6::text, $7::text, $8::bytea,
          $9::text), ($10::text, $11::text, $12::text, $13::text, $14::text, $15::bytea,
          $16::text)) as v
    where exists (select 1 from threads where deployment = $17::text
    and thread_id = $18::text and run_count < 0)
    on conflict (deployment, thread_id, ns, channel, version) do update set type = excluded.type,
      data = excluded.data, bytes = excluded.bytes, extends_version = excluded.extends_version
      where channel_values.run_id = excluded.run_id
--   SEARCH threads EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SCALAR SUBQUERY 6
--     SCAN CONSTANT ROW
--     SCALAR SUBQUERY 5
--       SCAN CONSTANT ROW
--   SCALAR SUBQUERY 8
--     SCAN CONSTANT ROW
--     SCALAR SUBQUERY 7
--       SCAN CONSTANT ROW
--   SCAN 2-ROW VALUES CLAUSE
--   SCALAR SUBQUERY 1
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 2
--     SCAN CONSTANT ROW

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
    where exists (select 1 from threads where deployment = (select (select ?))
    and thread_id = (select (select ?)) and run_count < 0)
    on conflict (deployment, thread_id, ns, checkpoint_id, task_id, idx, run_id) do update set
      run_seq = excluded.run_seq, channel = excluded.channel, type = excluded.type, data = excluded.data,
      bytes = excluded.bytes
-- Postgres:
insert into checkpoint_writes (deployment, thread_id, run_id, run_seq, ns, checkpoint_id, task_id, idx, channel,
      type, data, bytes)
    select $1::text, $2::text, '', (select -run_count from threads where deployment = $3::text and thread_id = $4::text), v.*
    from (values ($5::text, $6::text, $7::text, $8::bigint, $9::text, $10::text,
          $11::text, $12::bytea)) as v
    where exists (select 1 from threads where deployment = $13::text
    and thread_id = $14::text and run_count < 0)
    on conflict (deployment, thread_id, ns, checkpoint_id, task_id, idx, run_id) do update set
      run_seq = excluded.run_seq, channel = excluded.channel, type = excluded.type, data = excluded.data,
      bytes = excluded.bytes
--   CO-ROUTINE v
--     SCAN CONSTANT ROW
--   SEARCH threads EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SCALAR SUBQUERY 8
--     SCAN CONSTANT ROW
--     SCALAR SUBQUERY 7
--       SCAN CONSTANT ROW
--   SCALAR SUBQUERY 10
--     SCAN CONSTANT ROW
--     SCALAR SUBQUERY 9
--       SCAN CONSTANT ROW
--   SCAN v
--   SCALAR SUBQUERY 1
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 2
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 5
--     SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     SCALAR SUBQUERY 3
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 4
--       SCAN CONSTANT ROW

-- upsertStateWrites (2 rows)
-- (deployment text, thread_id text, deployment text, thread_id text, ns text, checkpoint_id text, task_id text, idx bigint, channel text, type text, data text, bytes bytea, ns text, checkpoint_id text, task_id text, idx bigint, channel text, type text, data text, bytes bytea, deployment text, thread_id text)
insert into checkpoint_writes (deployment, thread_id, run_id, run_seq, ns, checkpoint_id, task_id, idx, channel,
      type, data, bytes)
    select (select ?), (select ?), '', (select -run_count from threads where deployment = (select ?) and thread_id = (select ?)), v.*
    from (values (?, ?, ?, ?, ?, ?,
          ?, ?), (?, ?, ?, ?, ?, ?,
          ?, ?)) as v
    where exists (select 1 from threads where deployment = (select (select ?))
    and thread_id = (select (select ?)) and run_count < 0)
    on conflict (deployment, thread_id, ns, checkpoint_id, task_id, idx, run_id) do update set
      run_seq = excluded.run_seq, channel = excluded.channel, type = excluded.type, data = excluded.data,
      bytes = excluded.bytes
-- Postgres:
insert into checkpoint_writes (deployment, thread_id, run_id, run_seq, ns, checkpoint_id, task_id, idx, channel,
      type, data, bytes)
    select $1::text, $2::text, '', (select -run_count from threads where deployment = $3::text and thread_id = $4::text), v.*
    from (values ($5::text, $6::text, $7::text, $8::bigint, $9::text, $10::text,
          $11::text, $12::bytea), ($13::text, $14::text, $15::text, $16::bigint, $17::text, $18::text,
          $19::text, $20::bytea)) as v
    where exists (select 1 from threads where deployment = $21::text
    and thread_id = $22::text and run_count < 0)
    on conflict (deployment, thread_id, ns, checkpoint_id, task_id, idx, run_id) do update set
      run_seq = excluded.run_seq, channel = excluded.channel, type = excluded.type, data = excluded.data,
      bytes = excluded.bytes
--   SEARCH threads EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SCALAR SUBQUERY 9
--     SCAN CONSTANT ROW
--     SCALAR SUBQUERY 8
--       SCAN CONSTANT ROW
--   SCALAR SUBQUERY 11
--     SCAN CONSTANT ROW
--     SCALAR SUBQUERY 10
--       SCAN CONSTANT ROW
--   SCAN 2-ROW VALUES CLAUSE
--   SCALAR SUBQUERY 1
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 2
--     SCAN CONSTANT ROW
--   SCALAR SUBQUERY 5
--     SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     SCALAR SUBQUERY 3
--       SCAN CONSTANT ROW
--     SCALAR SUBQUERY 4
--       SCAN CONSTANT ROW
