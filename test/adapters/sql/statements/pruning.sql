-- clearParents ({"expired":false,"filtered":false})
-- (deployment text, thread_ids text, deployment text)
update checkpoints set parent_id = null where deployment = (select ?) and thread_id in (select threads.thread_id from (select value from json_each((select ?))) named cross join threads where threads.deployment = (select ?)
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true) and parent_id is not null
      and not exists (select 1 from checkpoints c where c.deployment = checkpoints.deployment
        and c.thread_id = checkpoints.thread_id and c.ns = checkpoints.ns
        and c.checkpoint_id = checkpoints.parent_id)
-- Postgres:
update checkpoints set parent_id = null where deployment = $1::text and thread_id in (select threads.thread_id from (select value collate "C" as value from json_array_elements_text($2::text::json)) named cross join threads where threads.deployment = $3::text
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true) and parent_id is not null
      and not exists (select 1 from checkpoints c where c.deployment = checkpoints.deployment
        and c.thread_id = checkpoints.thread_id and c.ns = checkpoints.ns
        and c.checkpoint_id = checkpoints.parent_id)
--   SEARCH checkpoints USING INDEX checkpoints_order (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH c USING COVERING INDEX sqlite_autoindex_checkpoints_1 (deployment=? AND thread_id=? AND ns=? AND checkpoint_id=?)

-- deleteCheckpoints ({"expired":false,"filtered":false})
-- (thread_ids text, deployment text, deployment text, deployment text, deployment text, ":", deployment text, deployment text, deployment text, deployment text, deployment text, deployment text, deployment text, deployment text)
with recursive pruned (thread_id, head) as (select threads.thread_id, threads.head from (select value from json_each((select ?))) named cross join threads where threads.deployment = (select ?)
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true),
    heads (thread_id, head, seq) as (select c.thread_id, c.checkpoint_id, c.seq from pruned cross join checkpoints c
      where "c".deployment = (select ?) and "c".thread_id = "pruned".thread_id and c.ns = '' and c.checkpoint_id = pruned.head), newest (thread_id, seq) as (select c.thread_id, max(c.seq) from heads cross join checkpoints c
      where "c".deployment = (select ?) and "c".thread_id = "heads".thread_id and c.ns <> '' group by c.thread_id, c.ns), kept (thread_id, ns, checkpoint_id) as (
      select thread_id, '', head from heads
      union all
      select c.thread_id, c.ns, c.checkpoint_id from newest cross join checkpoints c cross join heads
      where "c".deployment = (select ?) and "c".thread_id = "newest".thread_id and c.seq = newest.seq and heads.thread_id = c.thread_id
        and (c.seq > heads.seq or not instr(c.ns, ?) > 0
          or heads.head in (select value from json_each(c.metadata, '$.parents')))), walk (thread_id, ns, checkpoint_id, channel, version, depth, written) as (
      select c.thread_id, c.ns, c.checkpoint_id, entry.key, entry.value, 0, 0
      from kept cross join checkpoints c cross join json_each(c.versions) entry
      where "c".deployment = (select ?) and "c".thread_id = "kept".thread_id and c.ns = kept.ns and c.checkpoint_id = kept.checkpoint_id
        and substr(entry.key, 1, 7) <> 'branch:' and entry.key <> '__start__'
        and not exists (select 1 from channel_values v where "v".deployment = (select ?) and "v".thread_id = "c".thread_id and v.ns = "c".ns
      and v.channel = entry.key and v.version = entry.value)
      union all
      select p.thread_id, p.ns, p.checkpoint_id, walk.channel, entry.value, walk.depth + 1,
        case when coalesce(entry.value, '') <> coalesce(walk.version, '') then 1 else 0 end
      from walk cross join checkpoints c cross join checkpoints p
        left join json_each(p.versions) entry on entry.key = walk.channel
      where "c".deployment = (select ?) and "c".thread_id = "walk".thread_id and c.ns = walk.ns and c.checkpoint_id = walk.checkpoint_id
        and "p".deployment = (select ?) and "p".thread_id = "walk".thread_id and p.ns = walk.ns and p.checkpoint_id = c.parent_id and p.seq < c.seq
        and not exists (select 1 from channel_values v where "v".deployment = (select ?) and "v".thread_id = "walk".thread_id and v.ns = "walk".ns
      and v.channel = walk.channel and v.version = walk.version)
        and (entry.value = walk.version or exists (select 1 from checkpoint_writes w where "w".deployment = (select ?) and "w".thread_id = "walk".thread_id
          and w.ns = walk.ns and w.checkpoint_id = p.checkpoint_id and w.channel = walk.channel))), parts (thread_id, ns, channel, depth) as (
      select thread_id, ns, channel, max(depth) from walk where written = 1 group by thread_id, ns, channel), stays (thread_id, ns, checkpoint_id) as (
      select thread_id, ns, checkpoint_id from kept
      union
      select walk.thread_id, walk.ns, walk.checkpoint_id from parts cross join walk
      where walk.thread_id = parts.thread_id and walk.ns = parts.ns and walk.channel = parts.channel
        and walk.depth <= parts.depth) delete from checkpoints where deployment = (select ?)
      and (thread_id, ns, checkpoint_id) in (select c.thread_id, c.ns, c.checkpoint_id
        from pruned cross join checkpoints c
        where c.deployment = (select ?) and c.thread_id = pruned.thread_id
        except select thread_id, ns, checkpoint_id from stays)
-- Postgres:
with recursive pruned (thread_id, head) as (select threads.thread_id, threads.head from (select value collate "C" as value from json_array_elements_text($1::text::json)) named cross join threads where threads.deployment = $2::text
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true),
    heads (thread_id, head, seq) as (select c.thread_id, c.checkpoint_id, c.seq from pruned cross join checkpoints c
      where "c".deployment = $3::text and "c".thread_id = "pruned".thread_id and c.ns = '' and c.checkpoint_id = pruned.head), newest (thread_id, seq) as (select c.thread_id, max(c.seq) from heads cross join checkpoints c
      where "c".deployment = $4::text and "c".thread_id = "heads".thread_id and c.ns <> '' group by c.thread_id, c.ns), kept (thread_id, ns, checkpoint_id) as (
      select thread_id, '', head from heads
      union all
      select c.thread_id, c.ns, c.checkpoint_id from newest cross join checkpoints c cross join heads
      where "c".deployment = $5::text and "c".thread_id = "newest".thread_id and c.seq = newest.seq and heads.thread_id = c.thread_id
        and (c.seq > heads.seq or not strpos(c.ns, $6::text) > 0
          or heads.head in (select value collate "C" as value from json_each_text(replace(replace(replace(c.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json -> 'parents')))), walk (thread_id, ns, checkpoint_id, channel, version, depth, written) as (
      select c.thread_id, c.ns, c.checkpoint_id, entry.key, entry.value, 0, 0
      from kept cross join checkpoints c cross join lateral (select key collate "C" as key, value collate "C" as value from json_each_text(c.versions::json)) entry
      where "c".deployment = $7::text and "c".thread_id = "kept".thread_id and c.ns = kept.ns and c.checkpoint_id = kept.checkpoint_id
        and substr(entry.key, 1, 7) <> 'branch:' and entry.key <> '__start__'
        and not exists (select 1 from channel_values v where "v".deployment = $8::text and "v".thread_id = "c".thread_id and v.ns = "c".ns
      and v.channel = entry.key and v.version = entry.value)
      union all
      select p.thread_id, p.ns, p.checkpoint_id, walk.channel, entry.value, walk.depth + 1,
        case when coalesce(entry.value, '') <> coalesce(walk.version, '') then 1 else 0 end
      from walk cross join checkpoints c cross join checkpoints p
        left join lateral (select key collate "C" as key, value collate "C" as value from json_each_text(p.versions::json)) entry on entry.key = walk.channel
      where "c".deployment = $9::text and "c".thread_id = "walk".thread_id and c.ns = walk.ns and c.checkpoint_id = walk.checkpoint_id
        and "p".deployment = $10::text and "p".thread_id = "walk".thread_id and p.ns = walk.ns and p.checkpoint_id = c.parent_id and p.seq < c.seq
        and not exists (select 1 from channel_values v where "v".deployment = $11::text and "v".thread_id = "walk".thread_id and v.ns = "walk".ns
      and v.channel = walk.channel and v.version = walk.version)
        and (entry.value = walk.version or exists (select 1 from checkpoint_writes w where "w".deployment = $12::text and "w".thread_id = "walk".thread_id
          and w.ns = walk.ns and w.checkpoint_id = p.checkpoint_id and w.channel = walk.channel))), parts (thread_id, ns, channel, depth) as (
      select thread_id, ns, channel, max(depth) from walk where written = 1 group by thread_id, ns, channel), stays (thread_id, ns, checkpoint_id) as (
      select thread_id, ns, checkpoint_id from kept
      union
      select walk.thread_id, walk.ns, walk.checkpoint_id from parts cross join walk
      where walk.thread_id = parts.thread_id and walk.ns = parts.ns and walk.channel = parts.channel
        and walk.depth <= parts.depth) delete from checkpoints where deployment = $13::text
      and (thread_id, ns, checkpoint_id) in (select c.thread_id, c.ns, c.checkpoint_id
        from pruned cross join checkpoints c
        where c.deployment = $14::text and c.thread_id = pruned.thread_id
        except select thread_id, ns, checkpoint_id from stays)
--   SEARCH checkpoints USING COVERING INDEX sqlite_autoindex_checkpoints_1 (deployment=?)
--   LIST SUBQUERY
--     MERGE (EXCEPT)
--       LEFT
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--         CORRELATED SCALAR SUBQUERY
--           SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--         CORRELATED SCALAR SUBQUERY
--           SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--         SEARCH c USING COVERING INDEX sqlite_autoindex_checkpoints_1 (deployment=? AND thread_id=?)
--         USE TEMP B-TREE FOR ORDER BY
--       RIGHT
--         MATERIALIZE stays
--           MERGE (UNION)
--             LEFT
--               MATERIALIZE kept
--                 COMPOUND QUERY
--                   LEFT-MOST SUBQUERY
--                     SCAN json_each VIRTUAL TABLE INDEX 1:
--                     SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--                     CORRELATED SCALAR SUBQUERY
--                       SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--                     CORRELATED SCALAR SUBQUERY
--                       SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--                     SEARCH c USING COVERING INDEX sqlite_autoindex_checkpoints_1 (deployment=? AND thread_id=? AND ns=? AND checkpoint_id=?)
--                   UNION ALL
--                     MATERIALIZE newest
--                       SCAN json_each VIRTUAL TABLE INDEX 1:
--                       SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--                       CORRELATED SCALAR SUBQUERY
--                         SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--                       CORRELATED SCALAR SUBQUERY
--                         SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--                       SEARCH c USING COVERING INDEX sqlite_autoindex_checkpoints_1 (deployment=? AND thread_id=? AND ns=? AND checkpoint_id=?)
--                       SEARCH c USING INDEX checkpoints_order (deployment=? AND thread_id=?)
--                       USE TEMP B-TREE FOR GROUP BY
--                     SCAN newest
--                     SEARCH c USING INDEX checkpoints_order (deployment=? AND thread_id=? AND seq=?)
--                     SCAN json_each VIRTUAL TABLE INDEX 1:
--                     SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--                     CORRELATED SCALAR SUBQUERY
--                       SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--                     CORRELATED SCALAR SUBQUERY
--                       SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--                     SEARCH c USING INDEX sqlite_autoindex_checkpoints_1 (deployment=? AND thread_id=? AND ns=? AND checkpoint_id=?)
--                     CORRELATED LIST SUBQUERY
--                       SCAN json_each VIRTUAL TABLE INDEX 3:
--               SCAN kept
--               USE TEMP B-TREE FOR ORDER BY
--             RIGHT
--               MATERIALIZE parts
--                 MATERIALIZE walk
--                   SETUP
--                     SCAN kept
--                     SEARCH c USING INDEX sqlite_autoindex_checkpoints_1 (deployment=? AND thread_id=? AND ns=? AND checkpoint_id=?)
--                     SCAN entry VIRTUAL TABLE INDEX 1:
--                     CORRELATED SCALAR SUBQUERY
--                       SEARCH v USING COVERING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=? AND ns=? AND channel=? AND version=?)
--                   RECURSIVE STEP
--                     SCAN walk
--                     CORRELATED SCALAR SUBQUERY
--                       SEARCH v USING COVERING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=? AND ns=? AND channel=? AND version=?)
--                     SEARCH c USING INDEX sqlite_autoindex_checkpoints_1 (deployment=? AND thread_id=? AND ns=? AND checkpoint_id=?)
--                     SEARCH p USING INDEX sqlite_autoindex_checkpoints_1 (deployment=? AND thread_id=? AND ns=? AND checkpoint_id=?)
--                     SCAN entry VIRTUAL TABLE INDEX 1: LEFT-JOIN
--                     CORRELATED SCALAR SUBQUERY
--                       SEARCH w USING INDEX sqlite_autoindex_checkpoint_writes_1 (deployment=? AND thread_id=? AND ns=? AND checkpoint_id=?)
--                 BLOOM FILTER ON walk (written=?)
--                 SEARCH walk USING AUTOMATIC PARTIAL COVERING INDEX (written=?)
--                 USE TEMP B-TREE FOR GROUP BY
--               SCAN parts
--               BLOOM FILTER ON walk (thread_id=? AND ns=? AND channel=?)
--               SEARCH walk USING AUTOMATIC COVERING INDEX (thread_id=? AND ns=? AND channel=?)
--               USE TEMP B-TREE FOR ORDER BY
--         SCAN stays
--         USE TEMP B-TREE FOR ORDER BY
--       CREATE BLOOM FILTER

-- deleteCheckpoints ({"expired":true,"filtered":true})
-- (thread_ids text, deployment text, now bigint, filter text, deployment text, deployment text, deployment text, ":", deployment text, deployment text, deployment text, deployment text, deployment text, deployment text, deployment text, deployment text)
with recursive pruned (thread_id, head) as (select threads.thread_id, threads.head from (select value from json_each((select ?))) named cross join threads where threads.deployment = (select ?)
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and ttl_strategy = 'keep_latest' and ttl_ms is not null
  and (ttl_strategy = 'delete' or pruned_at is null or pruned_at <= case when updated_at > state_updated_at then updated_at else state_updated_at end)
  and (case when updated_at > state_updated_at then updated_at else state_updated_at end + ttl_ms) <= (select ?)
    and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(threads.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))),
    heads (thread_id, head, seq) as (select c.thread_id, c.checkpoint_id, c.seq from pruned cross join checkpoints c
      where "c".deployment = (select ?) and "c".thread_id = "pruned".thread_id and c.ns = '' and c.checkpoint_id = pruned.head), newest (thread_id, seq) as (select c.thread_id, max(c.seq) from heads cross join checkpoints c
      where "c".deployment = (select ?) and "c".thread_id = "heads".thread_id and c.ns <> '' group by c.thread_id, c.ns), kept (thread_id, ns, checkpoint_id) as (
      select thread_id, '', head from heads
      union all
      select c.thread_id, c.ns, c.checkpoint_id from newest cross join checkpoints c cross join heads
      where "c".deployment = (select ?) and "c".thread_id = "newest".thread_id and c.seq = newest.seq and heads.thread_id = c.thread_id
        and (c.seq > heads.seq or not instr(c.ns, ?) > 0
          or heads.head in (select value from json_each(c.metadata, '$.parents')))), walk (thread_id, ns, checkpoint_id, channel, version, depth, written) as (
      select c.thread_id, c.ns, c.checkpoint_id, entry.key, entry.value, 0, 0
      from kept cross join checkpoints c cross join json_each(c.versions) entry
      where "c".deployment = (select ?) and "c".thread_id = "kept".thread_id and c.ns = kept.ns and c.checkpoint_id = kept.checkpoint_id
        and substr(entry.key, 1, 7) <> 'branch:' and entry.key <> '__start__'
        and not exists (select 1 from channel_values v where "v".deployment = (select ?) and "v".thread_id = "c".thread_id and v.ns = "c".ns
      and v.channel = entry.key and v.version = entry.value)
      union all
      select p.thread_id, p.ns, p.checkpoint_id, walk.channel, entry.value, walk.depth + 1,
        case when coalesce(entry.value, '') <> coalesce(walk.version, '') then 1 else 0 end
      from walk cross join checkpoints c cross join checkpoints p
        left join json_each(p.versions) entry on entry.key = walk.channel
      where "c".deployment = (select ?) and "c".thread_id = "walk".thread_id and c.ns = walk.ns and c.checkpoint_id = walk.checkpoint_id
        and "p".deployment = (select ?) and "p".thread_id = "walk".thread_id and p.ns = walk.ns and p.checkpoint_id = c.parent_id and p.seq < c.seq
        and not exists (select 1 from channel_values v where "v".deployment = (select ?) and "v".thread_id = "walk".thread_id and v.ns = "walk".ns
      and v.channel = walk.channel and v.version = walk.version)
        and (entry.value = walk.version or exists (select 1 from checkpoint_writes w where "w".deployment = (select ?) and "w".thread_id = "walk".thread_id
          and w.ns = walk.ns and w.checkpoint_id = p.checkpoint_id and w.channel = walk.channel))), parts (thread_id, ns, channel, depth) as (
      select thread_id, ns, channel, max(depth) from walk where written = 1 group by thread_id, ns, channel), stays (thread_id, ns, checkpoint_id) as (
      select thread_id, ns, checkpoint_id from kept
      union
      select walk.thread_id, walk.ns, walk.checkpoint_id from parts cross join walk
      where walk.thread_id = parts.thread_id and walk.ns = parts.ns and walk.channel = parts.channel
        and walk.depth <= parts.depth) delete from checkpoints where deployment = (select ?)
      and (thread_id, ns, checkpoint_id) in (select c.thread_id, c.ns, c.checkpoint_id
        from pruned cross join checkpoints c
        where c.deployment = (select ?) and c.thread_id = pruned.thread_id
        except select thread_id, ns, checkpoint_id from stays)
-- Postgres:
with recursive pruned (thread_id, head) as (select threads.thread_id, threads.head from (select value collate "C" as value from json_array_elements_text($1::text::json)) named cross join threads where threads.deployment = $2::text
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and ttl_strategy = 'keep_latest' and ttl_ms is not null
  and (ttl_strategy = 'delete' or pruned_at is null or pruned_at <= case when updated_at > state_updated_at then updated_at else state_updated_at end)
  and (case when updated_at > state_updated_at then updated_at else state_updated_at end + ttl_ms) <= $3::bigint
    and not exists (select 1 from json_array_elements(replace(replace(replace($4::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(threads.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))),
    heads (thread_id, head, seq) as (select c.thread_id, c.checkpoint_id, c.seq from pruned cross join checkpoints c
      where "c".deployment = $5::text and "c".thread_id = "pruned".thread_id and c.ns = '' and c.checkpoint_id = pruned.head), newest (thread_id, seq) as (select c.thread_id, max(c.seq) from heads cross join checkpoints c
      where "c".deployment = $6::text and "c".thread_id = "heads".thread_id and c.ns <> '' group by c.thread_id, c.ns), kept (thread_id, ns, checkpoint_id) as (
      select thread_id, '', head from heads
      union all
      select c.thread_id, c.ns, c.checkpoint_id from newest cross join checkpoints c cross join heads
      where "c".deployment = $7::text and "c".thread_id = "newest".thread_id and c.seq = newest.seq and heads.thread_id = c.thread_id
        and (c.seq > heads.seq or not strpos(c.ns, $8::text) > 0
          or heads.head in (select value collate "C" as value from json_each_text(replace(replace(replace(c.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json -> 'parents')))), walk (thread_id, ns, checkpoint_id, channel, version, depth, written) as (
      select c.thread_id, c.ns, c.checkpoint_id, entry.key, entry.value, 0, 0
      from kept cross join checkpoints c cross join lateral (select key collate "C" as key, value collate "C" as value from json_each_text(c.versions::json)) entry
      where "c".deployment = $9::text and "c".thread_id = "kept".thread_id and c.ns = kept.ns and c.checkpoint_id = kept.checkpoint_id
        and substr(entry.key, 1, 7) <> 'branch:' and entry.key <> '__start__'
        and not exists (select 1 from channel_values v where "v".deployment = $10::text and "v".thread_id = "c".thread_id and v.ns = "c".ns
      and v.channel = entry.key and v.version = entry.value)
      union all
      select p.thread_id, p.ns, p.checkpoint_id, walk.channel, entry.value, walk.depth + 1,
        case when coalesce(entry.value, '') <> coalesce(walk.version, '') then 1 else 0 end
      from walk cross join checkpoints c cross join checkpoints p
        left join lateral (select key collate "C" as key, value collate "C" as value from json_each_text(p.versions::json)) entry on entry.key = walk.channel
      where "c".deployment = $11::text and "c".thread_id = "walk".thread_id and c.ns = walk.ns and c.checkpoint_id = walk.checkpoint_id
        and "p".deployment = $12::text and "p".thread_id = "walk".thread_id and p.ns = walk.ns and p.checkpoint_id = c.parent_id and p.seq < c.seq
        and not exists (select 1 from channel_values v where "v".deployment = $13::text and "v".thread_id = "walk".thread_id and v.ns = "walk".ns
      and v.channel = walk.channel and v.version = walk.version)
        and (entry.value = walk.version or exists (select 1 from checkpoint_writes w where "w".deployment = $14::text and "w".thread_id = "walk".thread_id
          and w.ns = walk.ns and w.checkpoint_id = p.checkpoint_id and w.channel = walk.channel))), parts (thread_id, ns, channel, depth) as (
      select thread_id, ns, channel, max(depth) from walk where written = 1 group by thread_id, ns, channel), stays (thread_id, ns, checkpoint_id) as (
      select thread_id, ns, checkpoint_id from kept
      union
      select walk.thread_id, walk.ns, walk.checkpoint_id from parts cross join walk
      where walk.thread_id = parts.thread_id and walk.ns = parts.ns and walk.channel = parts.channel
        and walk.depth <= parts.depth) delete from checkpoints where deployment = $15::text
      and (thread_id, ns, checkpoint_id) in (select c.thread_id, c.ns, c.checkpoint_id
        from pruned cross join checkpoints c
        where c.deployment = $16::text and c.thread_id = pruned.thread_id
        except select thread_id, ns, checkpoint_id from stays)
--   SEARCH checkpoints USING COVERING INDEX sqlite_autoindex_checkpoints_1 (deployment=?)
--   LIST SUBQUERY
--     MERGE (EXCEPT)
--       LEFT
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--         CORRELATED SCALAR SUBQUERY
--           SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--         CORRELATED SCALAR SUBQUERY
--           SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--         CORRELATED SCALAR SUBQUERY
--           SCAN c VIRTUAL TABLE INDEX 1:
--           CORRELATED SCALAR SUBQUERY
--             SCAN m VIRTUAL TABLE INDEX 1:
--             CORRELATED SCALAR SUBQUERY
--               SCAN e VIRTUAL TABLE INDEX 1:
--         SEARCH c USING COVERING INDEX sqlite_autoindex_checkpoints_1 (deployment=? AND thread_id=?)
--         USE TEMP B-TREE FOR ORDER BY
--       RIGHT
--         MATERIALIZE stays
--           MERGE (UNION)
--             LEFT
--               MATERIALIZE kept
--                 COMPOUND QUERY
--                   LEFT-MOST SUBQUERY
--                     SCAN json_each VIRTUAL TABLE INDEX 1:
--                     SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--                     CORRELATED SCALAR SUBQUERY
--                       SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--                     CORRELATED SCALAR SUBQUERY
--                       SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--                     CORRELATED SCALAR SUBQUERY
--                       SCAN c VIRTUAL TABLE INDEX 1:
--                       CORRELATED SCALAR SUBQUERY
--                         SCAN m VIRTUAL TABLE INDEX 1:
--                         CORRELATED SCALAR SUBQUERY
--                           SCAN e VIRTUAL TABLE INDEX 1:
--                     SEARCH c USING COVERING INDEX sqlite_autoindex_checkpoints_1 (deployment=? AND thread_id=? AND ns=? AND checkpoint_id=?)
--                   UNION ALL
--                     MATERIALIZE newest
--                       SCAN json_each VIRTUAL TABLE INDEX 1:
--                       SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--                       CORRELATED SCALAR SUBQUERY
--                         SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--                       CORRELATED SCALAR SUBQUERY
--                         SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--                       CORRELATED SCALAR SUBQUERY
--                         SCAN c VIRTUAL TABLE INDEX 1:
--                         CORRELATED SCALAR SUBQUERY
--                           SCAN m VIRTUAL TABLE INDEX 1:
--                           CORRELATED SCALAR SUBQUERY
--                             SCAN e VIRTUAL TABLE INDEX 1:
--                       SEARCH c USING COVERING INDEX sqlite_autoindex_checkpoints_1 (deployment=? AND thread_id=? AND ns=? AND checkpoint_id=?)
--                       SEARCH c USING INDEX checkpoints_order (deployment=? AND thread_id=?)
--                       USE TEMP B-TREE FOR GROUP BY
--                     SCAN newest
--                     SEARCH c USING INDEX checkpoints_order (deployment=? AND thread_id=? AND seq=?)
--                     SCAN json_each VIRTUAL TABLE INDEX 1:
--                     SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--                     CORRELATED SCALAR SUBQUERY
--                       SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--                     CORRELATED SCALAR SUBQUERY
--                       SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--                     CORRELATED SCALAR SUBQUERY
--                       SCAN c VIRTUAL TABLE INDEX 1:
--                       CORRELATED SCALAR SUBQUERY
--                         SCAN m VIRTUAL TABLE INDEX 1:
--                         CORRELATED SCALAR SUBQUERY
--                           SCAN e VIRTUAL TABLE INDEX 1:
--                     SEARCH c USING INDEX sqlite_autoindex_checkpoints_1 (deployment=? AND thread_id=? AND ns=? AND checkpoint_id=?)
--                     CORRELATED LIST SUBQUERY
--                       SCAN json_each VIRTUAL TABLE INDEX 3:
--               SCAN kept
--               USE TEMP B-TREE FOR ORDER BY
--             RIGHT
--               MATERIALIZE parts
--                 MATERIALIZE walk
--                   SETUP
--                     SCAN kept
--                     SEARCH c USING INDEX sqlite_autoindex_checkpoints_1 (deployment=? AND thread_id=? AND ns=? AND checkpoint_id=?)
--                     SCAN entry VIRTUAL TABLE INDEX 1:
--                     CORRELATED SCALAR SUBQUERY
--                       SEARCH v USING COVERING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=? AND ns=? AND channel=? AND version=?)
--                   RECURSIVE STEP
--                     SCAN walk
--                     CORRELATED SCALAR SUBQUERY
--                       SEARCH v USING COVERING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=? AND ns=? AND channel=? AND version=?)
--                     SEARCH c USING INDEX sqlite_autoindex_checkpoints_1 (deployment=? AND thread_id=? AND ns=? AND checkpoint_id=?)
--                     SEARCH p USING INDEX sqlite_autoindex_checkpoints_1 (deployment=? AND thread_id=? AND ns=? AND checkpoint_id=?)
--                     SCAN entry VIRTUAL TABLE INDEX 1: LEFT-JOIN
--                     CORRELATED SCALAR SUBQUERY
--                       SEARCH w USING INDEX sqlite_autoindex_checkpoint_writes_1 (deployment=? AND thread_id=? AND ns=? AND checkpoint_id=?)
--                 BLOOM FILTER ON walk (written=?)
--                 SEARCH walk USING AUTOMATIC PARTIAL COVERING INDEX (written=?)
--                 USE TEMP B-TREE FOR GROUP BY
--               SCAN parts
--               BLOOM FILTER ON walk (thread_id=? AND ns=? AND channel=?)
--               SEARCH walk USING AUTOMATIC COVERING INDEX (thread_id=? AND ns=? AND channel=?)
--               USE TEMP B-TREE FOR ORDER BY
--         SCAN stays
--         USE TEMP B-TREE FOR ORDER BY
--       CREATE BLOOM FILTER

-- deleteEntriesOfThreads
-- (deployment text, thread_ids text)
delete from labels where kind in ('thread', 'values') and not exists (select 1 from "threads" gone
    where gone.deployment = labels.deployment and gone."thread_id" = labels.row_id) and deployment = ? and row_id in (select value from json_each(?))
-- Postgres:
delete from labels where kind in ('thread', 'values') and not exists (select 1 from "threads" gone
    where gone.deployment = labels.deployment and gone."thread_id" = labels.row_id) and deployment = $1::text and row_id in (select value collate "C" as value from json_array_elements_text($2::text::json))
--   SEARCH labels USING PRIMARY KEY (deployment=? AND kind=? AND row_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--   CORRELATED SCALAR SUBQUERY
--     SEARCH gone USING COVERING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)

-- deleteOfFeatures ({"expired":false,"filtered":false,"statement":"deleteTokensOfRuns"})
-- (deployment text, thread_ids text, deployment text)
delete from feedback_tokens where run_id in (select run_id from runs where deployment = (select ?) and thread_id in (select threads.thread_id from (select value from json_each((select ?))) named cross join threads where threads.deployment = (select ?)
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true))
-- Postgres:
delete from feedback_tokens where run_id in (select run_id from runs where deployment = $1::text and thread_id in (select threads.thread_id from (select value collate "C" as value from json_array_elements_text($2::text::json)) named cross join threads where threads.deployment = $3::text
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true))
--   SEARCH feedback_tokens USING COVERING INDEX feedback_tokens_run (run_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX runs_order (deployment=? AND thread_id=?)
--     LIST SUBQUERY
--       SCAN json_each VIRTUAL TABLE INDEX 1:
--       SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--       CORRELATED SCALAR SUBQUERY
--         SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--       CORRELATED SCALAR SUBQUERY
--         SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)

-- deleteOfFeatures ({"expired":false,"filtered":false,"statement":"deleteEntriesOfRuns"})
-- (deployment text, thread_ids text, deployment text, deployment text, thread_ids text, deployment text)
delete from call_entries where run_id in (select u.run_id from runs u where u.run_id in (select run_id from runs where deployment = (select ?) and thread_id in (select threads.thread_id from (select value from json_each((select ?))) named cross join threads where threads.deployment = (select ?)
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true)) and u.call_id is not null and u.ended_at is null) and (deployment, thread_id, call_id) in (select deployment, thread_id, call_id from runs
    where run_id in (select u.run_id from runs u where u.run_id in (select run_id from runs where deployment = (select ?) and thread_id in (select threads.thread_id from (select value from json_each((select ?))) named cross join threads where threads.deployment = (select ?)
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true)) and u.call_id is not null and u.ended_at is null))
-- Postgres:
delete from call_entries where run_id in (select u.run_id from runs u where u.run_id in (select run_id from runs where deployment = $1::text and thread_id in (select threads.thread_id from (select value collate "C" as value from json_array_elements_text($2::text::json)) named cross join threads where threads.deployment = $3::text
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true)) and u.call_id is not null and u.ended_at is null) and (deployment, thread_id, call_id) in (select deployment, thread_id, call_id from runs
    where run_id in (select u.run_id from runs u where u.run_id in (select run_id from runs where deployment = $4::text and thread_id in (select threads.thread_id from (select value collate "C" as value from json_array_elements_text($5::text::json)) named cross join threads where threads.deployment = $6::text
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true)) and u.call_id is not null and u.ended_at is null))
--   SEARCH call_entries USING INDEX sqlite_autoindex_call_entries_1 (deployment=? AND thread_id=? AND call_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SEARCH u USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       LIST SUBQUERY
--         SEARCH runs USING INDEX runs_order (deployment=? AND thread_id=?)
--         LIST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--           CORRELATED SCALAR SUBQUERY
--             SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--           CORRELATED SCALAR SUBQUERY
--             SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH u USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SEARCH runs USING INDEX runs_order (deployment=? AND thread_id=?)
--       LIST SUBQUERY
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--         CORRELATED SCALAR SUBQUERY
--           SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--         CORRELATED SCALAR SUBQUERY
--           SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--     CREATE BLOOM FILTER

-- deleteOfFeatures ({"expired":false,"filtered":false,"statement":"deleteCallsOfRuns"})
-- (deployment text, thread_ids text, deployment text, deployment text, thread_ids text, deployment text)
delete from calls where first_run in (select u.run_id from runs u where u.run_id in (select run_id from runs where deployment = (select ?) and thread_id in (select threads.thread_id from (select value from json_each((select ?))) named cross join threads where threads.deployment = (select ?)
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true)) and u.call_id is not null and u.ended_at is null) and (deployment, thread_id, call_id) in (select deployment, thread_id, call_id from runs
    where run_id in (select u.run_id from runs u where u.run_id in (select run_id from runs where deployment = (select ?) and thread_id in (select threads.thread_id from (select value from json_each((select ?))) named cross join threads where threads.deployment = (select ?)
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true)) and u.call_id is not null and u.ended_at is null))
-- Postgres:
delete from calls where first_run in (select u.run_id from runs u where u.run_id in (select run_id from runs where deployment = $1::text and thread_id in (select threads.thread_id from (select value collate "C" as value from json_array_elements_text($2::text::json)) named cross join threads where threads.deployment = $3::text
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true)) and u.call_id is not null and u.ended_at is null) and (deployment, thread_id, call_id) in (select deployment, thread_id, call_id from runs
    where run_id in (select u.run_id from runs u where u.run_id in (select run_id from runs where deployment = $4::text and thread_id in (select threads.thread_id from (select value collate "C" as value from json_array_elements_text($5::text::json)) named cross join threads where threads.deployment = $6::text
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true)) and u.call_id is not null and u.ended_at is null))
--   SEARCH calls USING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=? AND call_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SEARCH u USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       LIST SUBQUERY
--         SEARCH runs USING INDEX runs_order (deployment=? AND thread_id=?)
--         LIST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--           CORRELATED SCALAR SUBQUERY
--             SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--           CORRELATED SCALAR SUBQUERY
--             SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SEARCH u USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SEARCH runs USING INDEX runs_order (deployment=? AND thread_id=?)
--       LIST SUBQUERY
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--         CORRELATED SCALAR SUBQUERY
--           SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--         CORRELATED SCALAR SUBQUERY
--           SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--     CREATE BLOOM FILTER
--   SEARCH call_tokens USING COVERING INDEX call_tokens_call (deployment=? AND thread_id=? AND call_id=?)
--   SEARCH call_events USING COVERING INDEX sqlite_autoindex_call_events_1 (deployment=? AND thread_id=? AND call_id=?)
--   SEARCH call_entries USING COVERING INDEX sqlite_autoindex_call_entries_1 (deployment=? AND thread_id=? AND call_id=?)

-- deleteOfFeatures ({"expired":false,"filtered":false,"statement":"reopenCallsOfRuns"})
-- (deployment text, thread_ids text, deployment text)
update calls set due_at = created_at, position = null where (deployment, thread_id, call_id) in (select deployment, thread_id, call_id from runs
    where run_id in (select u.run_id from runs u where u.run_id in (select run_id from runs where deployment = (select ?) and thread_id in (select threads.thread_id from (select value from json_each((select ?))) named cross join threads where threads.deployment = (select ?)
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true)) and u.call_id is not null and u.ended_at is null)) and ended_at is null
-- Postgres:
update calls set due_at = created_at, position = null where (deployment, thread_id, call_id) in (select deployment, thread_id, call_id from runs
    where run_id in (select u.run_id from runs u where u.run_id in (select run_id from runs where deployment = $1::text and thread_id in (select threads.thread_id from (select value collate "C" as value from json_array_elements_text($2::text::json)) named cross join threads where threads.deployment = $3::text
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true)) and u.call_id is not null and u.ended_at is null)) and ended_at is null
--   SEARCH calls USING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=? AND call_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     LIST SUBQUERY
--       SEARCH u USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       LIST SUBQUERY
--         SEARCH runs USING INDEX runs_order (deployment=? AND thread_id=?)
--         LIST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--           CORRELATED SCALAR SUBQUERY
--             SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--           CORRELATED SCALAR SUBQUERY
--             SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)

-- deleteOfFeatures ({"expired":false,"filtered":false,"statement":"deleteTracesOfRuns"})
-- (deployment text, thread_ids text, deployment text)
delete from run_traces where run_id in (select run_id from runs where deployment = (select ?) and thread_id in (select threads.thread_id from (select value from json_each((select ?))) named cross join threads where threads.deployment = (select ?)
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true))
-- Postgres:
delete from run_traces where run_id in (select run_id from runs where deployment = $1::text and thread_id in (select threads.thread_id from (select value collate "C" as value from json_array_elements_text($2::text::json)) named cross join threads where threads.deployment = $3::text
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true))
--   SEARCH run_traces USING PRIMARY KEY (run_id=?)
--   LIST SUBQUERY
--     SEARCH runs USING INDEX runs_order (deployment=? AND thread_id=?)
--     LIST SUBQUERY
--       SCAN json_each VIRTUAL TABLE INDEX 1:
--       SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--       CORRELATED SCALAR SUBQUERY
--         SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--       CORRELATED SCALAR SUBQUERY
--         SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--   SEARCH run_trace_contents USING COVERING INDEX sqlite_autoindex_run_trace_contents_1 (run_id=?)
--   SEARCH run_trace_parts USING COVERING INDEX sqlite_autoindex_run_trace_parts_1 (run_id=?)

-- deleteThreads ({"expired":false,"filtered":false})
-- (deployment text, thread_ids text, deployment text)
delete from threads where deployment = (select ?)
      and thread_id in (select threads.thread_id from (select value from json_each((select ?))) named cross join threads where threads.deployment = (select ?)
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true) returning thread_id
-- Postgres:
delete from threads where deployment = $1::text
      and thread_id in (select threads.thread_id from (select value collate "C" as value from json_array_elements_text($2::text::json)) named cross join threads where threads.deployment = $3::text
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true) returning thread_id
--   SEARCH threads USING COVERING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--   SEARCH calls USING COVERING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=?)
--   SEARCH crons USING COVERING INDEX crons_thread (deployment=? AND thread_id=?)
--   SEARCH channel_values USING COVERING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoint_writes USING COVERING INDEX sqlite_autoindex_checkpoint_writes_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoints USING COVERING INDEX checkpoints_order (deployment=? AND thread_id=?)
--   SEARCH thread_events USING COVERING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=?)
--   SEARCH runs USING COVERING INDEX runs_order (deployment=? AND thread_id=?)

-- deleteThreads ({"expired":true,"filtered":true})
-- (deployment text, thread_ids text, deployment text, now bigint, filter text)
delete from threads where deployment = (select ?)
      and thread_id in (select threads.thread_id from (select value from json_each((select ?))) named cross join threads where threads.deployment = (select ?)
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and ttl_strategy = 'delete' and ttl_ms is not null
  and (ttl_strategy = 'delete' or pruned_at is null or pruned_at <= case when updated_at > state_updated_at then updated_at else state_updated_at end)
  and (case when updated_at > state_updated_at then updated_at else state_updated_at end + ttl_ms) <= (select ?)
    and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(threads.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) returning thread_id
-- Postgres:
delete from threads where deployment = $1::text
      and thread_id in (select threads.thread_id from (select value collate "C" as value from json_array_elements_text($2::text::json)) named cross join threads where threads.deployment = $3::text
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and ttl_strategy = 'delete' and ttl_ms is not null
  and (ttl_strategy = 'delete' or pruned_at is null or pruned_at <= case when updated_at > state_updated_at then updated_at else state_updated_at end)
  and (case when updated_at > state_updated_at then updated_at else state_updated_at end + ttl_ms) <= $4::bigint
    and not exists (select 1 from json_array_elements(replace(replace(replace($5::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(threads.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) returning thread_id
--   SEARCH threads USING COVERING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:
--   SEARCH calls USING COVERING INDEX sqlite_autoindex_calls_1 (deployment=? AND thread_id=?)
--   SEARCH crons USING COVERING INDEX crons_thread (deployment=? AND thread_id=?)
--   SEARCH channel_values USING COVERING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoint_writes USING COVERING INDEX sqlite_autoindex_checkpoint_writes_1 (deployment=? AND thread_id=?)
--   SEARCH checkpoints USING COVERING INDEX checkpoints_order (deployment=? AND thread_id=?)
--   SEARCH thread_events USING COVERING INDEX sqlite_autoindex_thread_events_1 (deployment=? AND thread_id=?)
--   SEARCH runs USING COVERING INDEX runs_order (deployment=? AND thread_id=?)

-- deleteValues ({"expired":false,"filtered":false})
-- (deployment text, thread_ids text, deployment text, deployment text, deployment text, deployment text, thread_ids text, deployment text)
with recursive needed (thread_id, ns, channel, version) as (
        select c.thread_id, c.ns, entry.key, entry.value from checkpoints c cross join json_each(c.versions) entry
        where c.deployment = (select ?)
          and c.thread_id in (select threads.thread_id from (select value from json_each((select ?))) named cross join threads where threads.deployment = (select ?)
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true)
        union
        select v.thread_id, v.ns, v.channel, v.extends_version from needed cross join channel_values v
        where v.deployment = (select ?) and v.thread_id = needed.thread_id and v.ns = needed.ns
          and v.channel = needed.channel and v.version = needed.version and v.extends_version is not null)
      delete from channel_values where deployment = (select ?)
        and (thread_id, ns, channel, version) in (select thread_id, ns, channel, version from channel_values
          where deployment = (select ?) and thread_id in (select threads.thread_id from (select value from json_each((select ?))) named cross join threads where threads.deployment = (select ?)
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true) except select thread_id, ns, channel, version from needed)
-- Postgres:
with recursive needed (thread_id, ns, channel, version) as (
        select c.thread_id, c.ns, entry.key, entry.value from checkpoints c cross join lateral (select key collate "C" as key, value collate "C" as value from json_each_text(c.versions::json)) entry
        where c.deployment = $1::text
          and c.thread_id in (select threads.thread_id from (select value collate "C" as value from json_array_elements_text($2::text::json)) named cross join threads where threads.deployment = $3::text
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true)
        union
        select v.thread_id, v.ns, v.channel, v.extends_version from needed cross join channel_values v
        where v.deployment = $4::text and v.thread_id = needed.thread_id and v.ns = needed.ns
          and v.channel = needed.channel and v.version = needed.version and v.extends_version is not null)
      delete from channel_values where deployment = $5::text
        and (thread_id, ns, channel, version) in (select thread_id, ns, channel, version from channel_values
          where deployment = $6::text and thread_id in (select threads.thread_id from (select value collate "C" as value from json_array_elements_text($7::text::json)) named cross join threads where threads.deployment = $8::text
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true) except select thread_id, ns, channel, version from needed)
--   SEARCH channel_values USING COVERING INDEX sqlite_autoindex_channel_values_1 (deployment=?)
--   LIST SUBQUERY
--     MERGE (EXCEPT)
--       LEFT
--         SEARCH channel_values USING COVERING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=?)
--         LIST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--           SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--           CORRELATED SCALAR SUBQUERY
--             SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--           CORRELATED SCALAR SUBQUERY
--             SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--       RIGHT
--         MATERIALIZE needed
--           SETUP
--             SEARCH c USING INDEX checkpoints_order (deployment=? AND thread_id=?)
--             LIST SUBQUERY
--               SCAN json_each VIRTUAL TABLE INDEX 1:
--               SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--               CORRELATED SCALAR SUBQUERY
--                 SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--               CORRELATED SCALAR SUBQUERY
--                 SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--             SCAN entry VIRTUAL TABLE INDEX 1:
--           RECURSIVE STEP
--             SCAN needed
--             SEARCH v USING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=? AND ns=? AND channel=? AND version=?)
--         SCAN needed
--         USE TEMP B-TREE FOR ORDER BY
--       CREATE BLOOM FILTER

-- deleteWrites ({"expired":false,"filtered":false})
-- (deployment text, thread_ids text, deployment text)
delete from checkpoint_writes where deployment = (select ?) and thread_id in (select threads.thread_id from (select value from json_each((select ?))) named cross join threads where threads.deployment = (select ?)
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true) and not exists (select 1 from checkpoints c
      where c.deployment = checkpoint_writes.deployment and c.thread_id = checkpoint_writes.thread_id
        and c.ns = checkpoint_writes.ns and c.checkpoint_id = checkpoint_writes.checkpoint_id)
-- Postgres:
delete from checkpoint_writes where deployment = $1::text and thread_id in (select threads.thread_id from (select value collate "C" as value from json_array_elements_text($2::text::json)) named cross join threads where threads.deployment = $3::text
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true) and not exists (select 1 from checkpoints c
      where c.deployment = checkpoint_writes.deployment and c.thread_id = checkpoint_writes.thread_id
        and c.ns = checkpoint_writes.ns and c.checkpoint_id = checkpoint_writes.checkpoint_id)
--   SEARCH checkpoint_writes USING COVERING INDEX sqlite_autoindex_checkpoint_writes_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH c USING COVERING INDEX sqlite_autoindex_checkpoints_1 (deployment=? AND thread_id=? AND ns=? AND checkpoint_id=?)

-- keepClaimCountsOfThreads ({"expired":false,"filtered":false})
-- (deployment text, thread_ids text, deployment text)
insert into deleted_thread_claims (deployment, id_suffix, claim_count)
    select threads.deployment, substr("threads"."thread_id", 33), max(threads.claim_count) from threads where deployment = (select ?) and thread_id in (select threads.thread_id from (select value from json_each((select ?))) named cross join threads where threads.deployment = (select ?)
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true)
      and threads.claim_count > 0 group by 1, 2 order by 1, 2
    on conflict (deployment, id_suffix) do update set claim_count = excluded.claim_count
      where excluded.claim_count > deleted_thread_claims.claim_count
-- Postgres:
insert into deleted_thread_claims (deployment, id_suffix, claim_count)
    select threads.deployment, substr("threads"."thread_id", 33), max(threads.claim_count) from threads where deployment = $1::text and thread_id in (select threads.thread_id from (select value collate "C" as value from json_array_elements_text($2::text::json)) named cross join threads where threads.deployment = $3::text
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true)
      and threads.claim_count > 0 group by 1, 2 order by 1, 2
    on conflict (deployment, id_suffix) do update set claim_count = excluded.claim_count
      where excluded.claim_count > deleted_thread_claims.claim_count
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--   USE TEMP B-TREE FOR GROUP BY

-- selectExpiredThreads
-- (deployment text, now bigint, limit bigint)
select thread_id, ttl_strategy from threads
    where deployment = (select ?) and ttl_ms is not null
  and (ttl_strategy = 'delete' or pruned_at is null or pruned_at <= case when updated_at > state_updated_at then updated_at else state_updated_at end)
  and (case when updated_at > state_updated_at then updated_at else state_updated_at end + ttl_ms) <= (select ?)
      and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending')) and true
    order by (case when updated_at > state_updated_at then updated_at else state_updated_at end + ttl_ms) limit (select ?)
--   SEARCH threads USING INDEX threads_expiry (deployment=? AND <expr><?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)

-- selectExpiredThreads (filtered)
-- (deployment text, now bigint, filter text, limit bigint)
select thread_id, ttl_strategy from threads
    where deployment = (select ?) and ttl_ms is not null
  and (ttl_strategy = 'delete' or pruned_at is null or pruned_at <= case when updated_at > state_updated_at then updated_at else state_updated_at end)
  and (case when updated_at > state_updated_at then updated_at else state_updated_at end + ttl_ms) <= (select ?)
      and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending')) and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))
    order by (case when updated_at > state_updated_at then updated_at else state_updated_at end + ttl_ms) limit (select ?)
-- Postgres:
select thread_id, ttl_strategy from threads
    where deployment = $1::text and ttl_ms is not null
  and (ttl_strategy = 'delete' or pruned_at is null or pruned_at <= case when updated_at > state_updated_at then updated_at else state_updated_at end)
  and (case when updated_at > state_updated_at then updated_at else state_updated_at end + ttl_ms) <= $2::bigint
      and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending')) and not exists (select 1 from json_array_elements(replace(replace(replace($3::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))
    order by (case when updated_at > state_updated_at then updated_at else state_updated_at end + ttl_ms) limit $4::bigint
--   SEARCH threads USING INDEX threads_expiry (deployment=? AND <expr><?)
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

-- setPrunedAt ({"expired":false,"filtered":false})
-- (now bigint, deployment text, thread_ids text, deployment text)
update threads set pruned_at = (select ?) where deployment = (select ?) and thread_id in (select threads.thread_id from (select value from json_each((select ?))) named cross join threads where threads.deployment = (select ?)
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true) returning thread_id
-- Postgres:
update threads set pruned_at = $1::bigint where deployment = $2::text and thread_id in (select threads.thread_id from (select value collate "C" as value from json_array_elements_text($3::text::json)) named cross join threads where threads.deployment = $4::text
    and threads.thread_id = named.value and hidden = 0 and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending'))
    and true
    and true) returning thread_id
--   SEARCH threads USING COVERING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
