-- addClaimedTrace
-- (workspace_id text, project_id text, deployment text, token text)
insert into usage_hourly (workspace_id, hour, project_id, user_id, api_key, traces)
    select (select ?), r.started_at - ((r.started_at % 3600000) + 3600000) % 3600000, (select ?), coalesce(r.user_id, ''),
      coalesce(r.api_key, ''), 1
    from usage_seals s cross join runs r
    where s.name = 'hourly' and true and r.deployment = (select ?) and r.status = 'running' and r.lease_token = (select ?)
    and r.attempt = 1 and r.counts_as_attempt = 1 and r.started_at < s.sealed_before
      and not exists (select 1 from traces t where t.trace_id = r.run_id)
    on conflict (workspace_id, hour, project_id, user_id, api_key)
  do update set traces = usage_hourly.traces + excluded.traces
--   SEARCH s USING INDEX sqlite_autoindex_usage_seals_1 (name=?)
--   SEARCH r USING INDEX runs_status (deployment=? AND status=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH t USING COVERING INDEX sqlite_autoindex_traces_1 (trace_id=?)

-- addCreatedTrace
-- (workspace_id text, project_id text, started_at bigint, run_id text, deployment text, token text)
insert into usage_hourly (workspace_id, hour, project_id, user_id, api_key, traces)
    select (select ?), r.started_at - ((r.started_at % 3600000) + 3600000) % 3600000, (select ?), coalesce(r.user_id, ''),
      coalesce(r.api_key, ''), 1
    from usage_seals s cross join runs r
    where s.name = 'hourly' and s.sealed_before > (select ?) and r.run_id = (select ?) and r.deployment = (select ?) and r.status = 'running' and r.lease_token = (select ?)
    and r.attempt = 1 and r.counts_as_attempt = 1 and r.started_at < s.sealed_before
      and not exists (select 1 from traces t where t.trace_id = r.run_id)
    on conflict (workspace_id, hour, project_id, user_id, api_key)
  do update set traces = usage_hourly.traces + excluded.traces
--   SEARCH s USING INDEX sqlite_autoindex_usage_seals_1 (name=?)
--   SEARCH r USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH t USING COVERING INDEX sqlite_autoindex_traces_1 (trace_id=?)

-- addLeasedTraceUsage
-- (tokens_in bigint, tokens_out bigint, cost_usd double precision, run_id text, deployment text, thread_id text, run_id text, token text)
update "traces" set "tokens_in" = tokens_in + (select ?), "tokens_out" = tokens_out + (select ?), "cost_usd" = cost_usd + (select ?) where "trace_id" = (select ?) and exists (select 1 from runs where deployment = (select ?) and thread_id = (select ?)
    and run_id = (select ?) and lease_token = (select ?) and status = 'running')
--   SEARCH traces USING INDEX sqlite_autoindex_traces_1 (trace_id=?)
--   SCALAR SUBQUERY
--     SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- addTraceUsage
-- (tokens_in bigint, tokens_out bigint, cost_usd double precision, run_id text)
update "traces" set "tokens_in" = tokens_in + ?, "tokens_out" = tokens_out + ?, "cost_usd" = cost_usd + ? where "trace_id" = ?
--   SEARCH traces USING INDEX sqlite_autoindex_traces_1 (trace_id=?)

-- countTraces ({"group":"workspace"})
-- (origin bigint, stride_ms bigint, workspace_ids text, hours_from bigint, hours_from bigint, hours_from bigint, hours_to bigint, hours_to bigint, hours_from bigint, origin bigint, stride_ms bigint, workspace_ids text, start bigint, hours_from bigint, origin bigint, stride_ms bigint, workspace_ids text, hours_from bigint, hours_from bigint, hours_to bigint, hours_to bigint, hours_from bigint, end bigint)

      select bucket, nullif(dimension, '') as dimension, sum(traces) as traces from (
        select (hour - cast((select ?) as bigint)) / cast((select ?) as bigint) as bucket, workspace_id as dimension, sum(traces) as traces from usage_hourly
          where workspace_id in (select value from json_each((select ?))) and hour >= (select ?) and hour < (select case when seal < (select ?) then (select ?)
      when seal > (select ?) then (select ?) else seal end
      from (select coalesce((select sealed_before from usage_seals where name = 'hourly'), (select ?)) as seal) s)
          group by 1, 2
        union all select (started_at - cast((select ?) as bigint)) / cast((select ?) as bigint), coalesce(workspace_id, ''), count(*) from traces
        where counted = 1 and workspace_id in (select value from json_each((select ?))) and started_at >= (select ?) and started_at < (select ?)
        group by 1, 2
        union all select (started_at - cast((select ?) as bigint)) / cast((select ?) as bigint), coalesce(workspace_id, ''), count(*) from traces
        where counted = 1 and workspace_id in (select value from json_each((select ?))) and started_at >= (select case when seal < (select ?) then (select ?)
      when seal > (select ?) then (select ?) else seal end
      from (select coalesce((select sealed_before from usage_seals where name = 'hourly'), (select ?)) as seal) s) and started_at < (select ?)
        group by 1, 2
      ) c
      group by c.bucket, c.dimension order by c.bucket, c.dimension = '', c.dimension
-- Postgres:

      select bucket, nullif(dimension, '') as dimension, sum(traces) as traces from (
        select (hour - cast($1::bigint as bigint)) / cast($2::bigint as bigint) as bucket, workspace_id as dimension, sum(traces) as traces from usage_hourly
          where workspace_id in (select value collate "C" as value from json_array_elements_text($3::text::json)) and hour >= $4::bigint and hour < (select case when seal < $5::bigint then $6::bigint
      when seal > $7::bigint then $8::bigint else seal end
      from (select coalesce((select sealed_before from usage_seals where name = 'hourly'), $9::bigint) as seal) s)
          group by 1, 2
        union all select (started_at - cast($10::bigint as bigint)) / cast($11::bigint as bigint), coalesce(workspace_id, ''), count(*) from traces
        where counted = 1 and workspace_id in (select value collate "C" as value from json_array_elements_text($12::text::json)) and started_at >= $13::bigint and started_at < $14::bigint
        group by 1, 2
        union all select (started_at - cast($15::bigint as bigint)) / cast($16::bigint as bigint), coalesce(workspace_id, ''), count(*) from traces
        where counted = 1 and workspace_id in (select value collate "C" as value from json_array_elements_text($17::text::json)) and started_at >= (select case when seal < $18::bigint then $19::bigint
      when seal > $20::bigint then $21::bigint else seal end
      from (select coalesce((select sealed_before from usage_seals where name = 'hourly'), $22::bigint) as seal) s) and started_at < $23::bigint
        group by 1, 2
      ) c
      group by c.bucket, c.dimension order by c.bucket, c.dimension = '', c.dimension
--   CO-ROUTINE c
--     COMPOUND QUERY
--       LEFT-MOST SUBQUERY
--         SEARCH usage_hourly USING PRIMARY KEY (workspace_id=? AND hour>? AND hour<?)
--         LIST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--         SCALAR SUBQUERY
--           CO-ROUTINE s
--             SCALAR SUBQUERY
--               SEARCH usage_seals USING INDEX sqlite_autoindex_usage_seals_1 (name=?)
--           SCAN s
--         USE TEMP B-TREE FOR GROUP BY
--       UNION ALL
--         SEARCH traces USING COVERING INDEX traces_billed (workspace_id=? AND started_at>? AND started_at<?)
--         LIST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--         USE TEMP B-TREE FOR GROUP BY
--       UNION ALL
--         SEARCH traces USING COVERING INDEX traces_billed (workspace_id=? AND started_at>? AND started_at<?)
--         LIST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--         SCALAR SUBQUERY
--           CO-ROUTINE s
--             SCALAR SUBQUERY
--               SEARCH usage_seals USING INDEX sqlite_autoindex_usage_seals_1 (name=?)
--           SCAN s
--         USE TEMP B-TREE FOR GROUP BY
--   SCAN c
--   USE TEMP B-TREE FOR GROUP BY
--   USE TEMP B-TREE FOR ORDER BY

-- countTraces ({"group":"user"})
-- (origin bigint, stride_ms bigint, workspace_ids text, hours_from bigint, hours_from bigint, hours_from bigint, hours_to bigint, hours_to bigint, hours_from bigint, origin bigint, stride_ms bigint, workspace_ids text, start bigint, hours_from bigint, origin bigint, stride_ms bigint, workspace_ids text, hours_from bigint, hours_from bigint, hours_to bigint, hours_to bigint, hours_from bigint, end bigint)

      select bucket, nullif(dimension, '') as dimension, sum(traces) as traces from (
        select (hour - cast((select ?) as bigint)) / cast((select ?) as bigint) as bucket, user_id as dimension, sum(traces) as traces from usage_hourly
          where workspace_id in (select value from json_each((select ?))) and hour >= (select ?) and hour < (select case when seal < (select ?) then (select ?)
      when seal > (select ?) then (select ?) else seal end
      from (select coalesce((select sealed_before from usage_seals where name = 'hourly'), (select ?)) as seal) s)
          group by 1, 2
        union all select (started_at - cast((select ?) as bigint)) / cast((select ?) as bigint), coalesce(user_id, ''), count(*) from traces
        where counted = 1 and workspace_id in (select value from json_each((select ?))) and started_at >= (select ?) and started_at < (select ?)
        group by 1, 2
        union all select (started_at - cast((select ?) as bigint)) / cast((select ?) as bigint), coalesce(user_id, ''), count(*) from traces
        where counted = 1 and workspace_id in (select value from json_each((select ?))) and started_at >= (select case when seal < (select ?) then (select ?)
      when seal > (select ?) then (select ?) else seal end
      from (select coalesce((select sealed_before from usage_seals where name = 'hourly'), (select ?)) as seal) s) and started_at < (select ?)
        group by 1, 2
      ) c
      group by c.bucket, c.dimension order by c.bucket, c.dimension = '', c.dimension
-- Postgres:

      select bucket, nullif(dimension, '') as dimension, sum(traces) as traces from (
        select (hour - cast($1::bigint as bigint)) / cast($2::bigint as bigint) as bucket, user_id as dimension, sum(traces) as traces from usage_hourly
          where workspace_id in (select value collate "C" as value from json_array_elements_text($3::text::json)) and hour >= $4::bigint and hour < (select case when seal < $5::bigint then $6::bigint
      when seal > $7::bigint then $8::bigint else seal end
      from (select coalesce((select sealed_before from usage_seals where name = 'hourly'), $9::bigint) as seal) s)
          group by 1, 2
        union all select (started_at - cast($10::bigint as bigint)) / cast($11::bigint as bigint), coalesce(user_id, ''), count(*) from traces
        where counted = 1 and workspace_id in (select value collate "C" as value from json_array_elements_text($12::text::json)) and started_at >= $13::bigint and started_at < $14::bigint
        group by 1, 2
        union all select (started_at - cast($15::bigint as bigint)) / cast($16::bigint as bigint), coalesce(user_id, ''), count(*) from traces
        where counted = 1 and workspace_id in (select value collate "C" as value from json_array_elements_text($17::text::json)) and started_at >= (select case when seal < $18::bigint then $19::bigint
      when seal > $20::bigint then $21::bigint else seal end
      from (select coalesce((select sealed_before from usage_seals where name = 'hourly'), $22::bigint) as seal) s) and started_at < $23::bigint
        group by 1, 2
      ) c
      group by c.bucket, c.dimension order by c.bucket, c.dimension = '', c.dimension
--   CO-ROUTINE c
--     COMPOUND QUERY
--       LEFT-MOST SUBQUERY
--         SEARCH usage_hourly USING PRIMARY KEY (workspace_id=? AND hour>? AND hour<?)
--         LIST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--         SCALAR SUBQUERY
--           CO-ROUTINE s
--             SCALAR SUBQUERY
--               SEARCH usage_seals USING INDEX sqlite_autoindex_usage_seals_1 (name=?)
--           SCAN s
--         USE TEMP B-TREE FOR GROUP BY
--       UNION ALL
--         SEARCH traces USING INDEX traces_billed (workspace_id=? AND started_at>? AND started_at<?)
--         LIST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--         USE TEMP B-TREE FOR GROUP BY
--       UNION ALL
--         SEARCH traces USING INDEX traces_billed (workspace_id=? AND started_at>? AND started_at<?)
--         LIST SUBQUERY
--           SCAN json_each VIRTUAL TABLE INDEX 1:
--         SCALAR SUBQUERY
--           CO-ROUTINE s
--             SCALAR SUBQUERY
--               SEARCH usage_seals USING INDEX sqlite_autoindex_usage_seals_1 (name=?)
--           SCAN s
--         USE TEMP B-TREE FOR GROUP BY
--   SCAN c
--   USE TEMP B-TREE FOR GROUP BY
--   USE TEMP B-TREE FOR ORDER BY

-- insertClaimedTrace
-- (workspace_id text, project_id text, counted bigint, deployment text, token text)
insert into traces (trace_id, deployment, thread_id, workspace_id, project_id, user_id, api_key, started_at, counted)
    select r.run_id, r.deployment, case when r.stateless = 1 then null else r.thread_id end, (select ?),
      (select ?), r.user_id, r.api_key, r.started_at, (select ?)
    from runs r where r.deployment = (select ?) and r.status = 'running' and r.lease_token = (select ?)
    and r.attempt = 1 and r.counts_as_attempt = 1 on conflict do nothing
--   SEARCH r USING INDEX runs_status (deployment=? AND status=?)

-- insertCreatedTrace
-- (workspace_id text, project_id text, counted bigint, run_id text, deployment text, token text)
insert into traces (trace_id, deployment, thread_id, workspace_id, project_id, user_id, api_key, started_at, counted)
    select r.run_id, r.deployment, case when r.stateless = 1 then null else r.thread_id end, (select ?),
      (select ?), r.user_id, r.api_key, r.started_at, (select ?)
    from runs r where r.run_id = (select ?) and r.deployment = (select ?) and r.status = 'running' and r.lease_token = (select ?)
    and r.attempt = 1 and r.counts_as_attempt = 1 on conflict do nothing
--   SEARCH r USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- moveSeal
-- (until bigint, sealed bigint)
insert into usage_seals (name, sealed_before) select 'hourly', (select ?) where coalesce((select sealed_before from usage_seals where name = 'hourly'), -8640000000000000) = (select ?)
    on conflict (name) do update set sealed_before = excluded.sealed_before
--   SCALAR SUBQUERY
--     SEARCH usage_seals USING INDEX sqlite_autoindex_usage_seals_1 (name=?)

-- selectTrace
-- (trace_id text)
select * from "traces" where "trace_id" = ?
--   SEARCH traces USING INDEX sqlite_autoindex_traces_1 (trace_id=?)

-- selectUnsealed
select (select sealed_before from usage_seals where name = 'hourly') as sealed, (select min(t.started_at) from traces t
    where t.counted = 1 and t.started_at >= coalesce((select sealed_before from usage_seals where name = 'hourly'), -8640000000000000)) as next
--   SCALAR SUBQUERY
--     SEARCH usage_seals USING INDEX sqlite_autoindex_usage_seals_1 (name=?)
--   SCALAR SUBQUERY
--     SEARCH t USING COVERING INDEX traces_started (started_at>?)
--     SCALAR SUBQUERY
--       SEARCH usage_seals USING INDEX sqlite_autoindex_usage_seals_1 (name=?)

-- sumHours
-- (sealed bigint, until bigint, sealed bigint)
insert into usage_hourly (workspace_id, hour, project_id, user_id, api_key, traces)
    select t.workspace_id, t.started_at - ((t.started_at % 3600000) + 3600000) % 3600000, t.project_id, coalesce(t.user_id, ''), coalesce(t.api_key, ''),
      count(*)
    from traces t where t.counted = 1 and t.started_at >= (select ?) and t.started_at < (select ?)
      and coalesce((select sealed_before from usage_seals where name = 'hourly'), -8640000000000000) = (select ?)
    group by 1, 2, 3, 4, 5
--   SEARCH t USING INDEX traces_started (started_at>? AND started_at<?)
--   SCALAR SUBQUERY
--     SEARCH usage_seals USING INDEX sqlite_autoindex_usage_seals_1 (name=?)
--   USE TEMP B-TREE FOR GROUP BY

-- sumTraceUsage ({"group":"workspace"})
-- (origin bigint, stride_ms bigint, workspace_ids text, start bigint, end bigint)
select bucket, nullif(dimension, '') as dimension, traces, tokens_in, tokens_out, cost_usd from (
        select (started_at - cast((select ?) as bigint)) / cast((select ?) as bigint) as bucket, coalesce(workspace_id, '') as dimension, count(*) as traces,
          cast(sum(tokens_in) as double precision) as tokens_in, cast(sum(tokens_out) as double precision) as tokens_out, cast(sum(cost_usd) as double precision) as cost_usd from traces
        where counted = 1 and workspace_id in (select value from json_each((select ?))) and started_at >= (select ?)
          and started_at < (select ?)
        group by 1, 2
      ) c
      order by c.bucket, c.dimension = '', c.dimension
-- Postgres:
select bucket, nullif(dimension, '') as dimension, traces, tokens_in, tokens_out, cost_usd from (
        select (started_at - cast($1::bigint as bigint)) / cast($2::bigint as bigint) as bucket, coalesce(workspace_id, '') as dimension, count(*) as traces,
          cast(sum(tokens_in) as double precision) as tokens_in, cast(sum(tokens_out) as double precision) as tokens_out, cast(sum(cost_usd) as double precision) as cost_usd from traces
        where counted = 1 and workspace_id in (select value collate "C" as value from json_array_elements_text($3::text::json)) and started_at >= $4::bigint
          and started_at < $5::bigint
        group by 1, 2
      ) c
      order by c.bucket, c.dimension = '', c.dimension
--   CO-ROUTINE c
--     SEARCH traces USING INDEX traces_billed (workspace_id=? AND started_at>? AND started_at<?)
--     LIST SUBQUERY
--       SCAN json_each VIRTUAL TABLE INDEX 1:
--     USE TEMP B-TREE FOR GROUP BY
--   SCAN c
--   USE TEMP B-TREE FOR ORDER BY

-- sumTraceUsage ({"group":"user"})
-- (origin bigint, stride_ms bigint, workspace_ids text, start bigint, end bigint)
select bucket, nullif(dimension, '') as dimension, traces, tokens_in, tokens_out, cost_usd from (
        select (started_at - cast((select ?) as bigint)) / cast((select ?) as bigint) as bucket, coalesce(user_id, '') as dimension, count(*) as traces,
          cast(sum(tokens_in) as double precision) as tokens_in, cast(sum(tokens_out) as double precision) as tokens_out, cast(sum(cost_usd) as double precision) as cost_usd from traces
        where counted = 1 and workspace_id in (select value from json_each((select ?))) and started_at >= (select ?)
          and started_at < (select ?)
        group by 1, 2
      ) c
      order by c.bucket, c.dimension = '', c.dimension
-- Postgres:
select bucket, nullif(dimension, '') as dimension, traces, tokens_in, tokens_out, cost_usd from (
        select (started_at - cast($1::bigint as bigint)) / cast($2::bigint as bigint) as bucket, coalesce(user_id, '') as dimension, count(*) as traces,
          cast(sum(tokens_in) as double precision) as tokens_in, cast(sum(tokens_out) as double precision) as tokens_out, cast(sum(cost_usd) as double precision) as cost_usd from traces
        where counted = 1 and workspace_id in (select value collate "C" as value from json_array_elements_text($3::text::json)) and started_at >= $4::bigint
          and started_at < $5::bigint
        group by 1, 2
      ) c
      order by c.bucket, c.dimension = '', c.dimension
--   CO-ROUTINE c
--     SEARCH traces USING INDEX traces_billed (workspace_id=? AND started_at>? AND started_at<?)
--     LIST SUBQUERY
--       SCAN json_each VIRTUAL TABLE INDEX 1:
--     USE TEMP B-TREE FOR GROUP BY
--   SCAN c
--   USE TEMP B-TREE FOR ORDER BY
