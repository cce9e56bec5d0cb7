-- selectValues
-- (addresses text, deployment text, thread_id text, cached text, cached text, cached text, deployment text, thread_id text)
with recursive parts (ns, channel, version) as (
      select ns, channel, version from (select json_extract(value, '$[0]') as "ns", json_extract(value, '$[1]') as "channel", json_extract(value, '$[2]') as "version" from json_each((select ?))) as named
      union
      select c.ns, c.channel, c.extends_version from parts cross join channel_values c
      where c.deployment = (select ?) and c.thread_id = (select ?)
      and c.ns = parts.ns and c.channel = parts.channel and c.version = parts.version and c.extends_version is not null and not (c.ns, c.channel, c.version) in (select ns, channel, version from (select json_extract(value, '$[0]') as "ns", json_extract(value, '$[1]') as "channel", json_extract(value, '$[2]') as "version" from json_each((select ?))) as known))
    select c.ns, c.channel, c.version, c.run_id, c.type, c.extends_version, case when (c.ns, c.channel, c.version) in (select ns, channel, version from (select json_extract(value, '$[0]') as "ns", json_extract(value, '$[1]') as "channel", json_extract(value, '$[2]') as "version" from json_each((select ?))) as known) then null else c.data end as data,
      case when (c.ns, c.channel, c.version) in (select ns, channel, version from (select json_extract(value, '$[0]') as "ns", json_extract(value, '$[1]') as "channel", json_extract(value, '$[2]') as "version" from json_each((select ?))) as known) then null else c.bytes end as bytes, (select count(*) from runs r where r.run_id = c.run_id
        and r.status in ('pending', 'running')) as open
    from parts cross join channel_values c where c.deployment = (select ?) and c.thread_id = (select ?)
      and c.ns = parts.ns and c.channel = parts.channel and c.version = parts.version
-- Postgres:
with recursive parts (ns, channel, version) as (
      select ns, channel, version from (select (value ->> 0) collate "C" as "ns", (value ->> 1) collate "C" as "channel", (value ->> 2) collate "C" as "version" from json_array_elements($1::text::json)) as named
      union
      select c.ns, c.channel, c.extends_version from parts cross join channel_values c
      where c.deployment = $2::text and c.thread_id = $3::text
      and c.ns = parts.ns and c.channel = parts.channel and c.version = parts.version and c.extends_version is not null and not (c.ns, c.channel, c.version) in (select ns, channel, version from (select (value ->> 0) collate "C" as "ns", (value ->> 1) collate "C" as "channel", (value ->> 2) collate "C" as "version" from json_array_elements($4::text::json)) as known))
    select c.ns, c.channel, c.version, c.run_id, c.type, c.extends_version, case when (c.ns, c.channel, c.version) in (select ns, channel, version from (select (value ->> 0) collate "C" as "ns", (value ->> 1) collate "C" as "channel", (value ->> 2) collate "C" as "version" from json_array_elements($5::text::json)) as known) then null else c.data end as data,
      case when (c.ns, c.channel, c.version) in (select ns, channel, version from (select (value ->> 0) collate "C" as "ns", (value ->> 1) collate "C" as "channel", (value ->> 2) collate "C" as "version" from json_array_elements($6::text::json)) as known) then null else c.bytes end as bytes, (select count(*) from runs r where r.run_id = c.run_id
        and r.status in ('pending', 'running')) as open
    from parts cross join channel_values c where c.deployment = $7::text and c.thread_id = $8::text
      and c.ns = parts.ns and c.channel = parts.channel and c.version = parts.version
--   CO-ROUTINE parts
--     SETUP
--       SCAN json_each VIRTUAL TABLE INDEX 1:
--     RECURSIVE STEP
--       SCAN parts
--       SEARCH c USING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=? AND ns=? AND channel=? AND version=?)
--       LIST SUBQUERY
--         SCAN json_each VIRTUAL TABLE INDEX 1:
--         CREATE BLOOM FILTER
--   SCAN parts
--   SEARCH c USING INDEX sqlite_autoindex_channel_values_1 (deployment=? AND thread_id=? AND ns=? AND channel=? AND version=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     CREATE BLOOM FILTER
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     CREATE BLOOM FILTER
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING INDEX sqlite_autoindex_runs_1 (run_id=?)
