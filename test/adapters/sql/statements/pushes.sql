-- continueTask
-- (run_id text, deployment text, deployment text, thread_id text, run_id text)
update push_configs set last_run = ? where deployment = ? and last_run = (
      select q.run_id from runs q where q.deployment = ? and q.thread_id = ?
        and q.seq < (select o.seq from runs o where o.run_id = ?) order by q.seq desc limit 1)
--   SEARCH push_configs USING INDEX push_configs_last (last_run=?)
--   SCALAR SUBQUERY
--     SEARCH q USING INDEX runs_order (deployment=? AND thread_id=? AND seq<?)
--     SCALAR SUBQUERY
--       SEARCH o USING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- deletePush
-- (deployment text, task_id text, config_id text)
delete from "push_configs" where "deployment" = ? and "task_id" = ? and "config_id" = ? and true
--   SEARCH push_configs USING INDEX sqlite_autoindex_push_configs_1 (task_id=? AND config_id=?)

-- deletePush (filtered)
-- (deployment text, task_id text, config_id text, filter text)
delete from "push_configs" where "deployment" = ? and "task_id" = ? and "config_id" = ? and exists (select 1 from threads permitting where permitting.deployment = "push_configs"."deployment"
    and permitting.thread_id = "push_configs"."thread_id" and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))
-- Postgres:
delete from "push_configs" where "deployment" = $1::text and "task_id" = $2::text and "config_id" = $3::text and exists (select 1 from threads permitting where permitting.deployment = "push_configs"."deployment"
    and permitting.thread_id = "push_configs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($4::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))
--   SEARCH push_configs USING INDEX sqlite_autoindex_push_configs_1 (task_id=? AND config_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH permitting USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:

-- selectPushes
-- (deployment text, task_id text)
select * from "push_configs" where "deployment" = ? and "task_id" = ? and true order by "created_at", "config_id"
--   SEARCH push_configs USING INDEX sqlite_autoindex_push_configs_1 (task_id=?)
--   USE TEMP B-TREE FOR ORDER BY

-- selectPushes (filtered)
-- (deployment text, task_id text, filter text)
select * from "push_configs" where "deployment" = ? and "task_id" = ? and exists (select 1 from threads permitting where permitting.deployment = "push_configs"."deployment"
    and permitting.thread_id = "push_configs"."thread_id" and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) order by "created_at", "config_id"
-- Postgres:
select * from "push_configs" where "deployment" = $1::text and "task_id" = $2::text and exists (select 1 from threads permitting where permitting.deployment = "push_configs"."deployment"
    and permitting.thread_id = "push_configs"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($3::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) order by "created_at", "config_id"
--   SEARCH push_configs USING INDEX sqlite_autoindex_push_configs_1 (task_id=?)
--   SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:
--   USE TEMP B-TREE FOR ORDER BY

-- upsertPush
-- (push_id text, config_id text, last_run text, url text, host text, config text, now bigint, task_id text, deployment text, last_run text, config_id text)
insert into push_configs (push_id, deployment, thread_id, task_id, config_id, last_run, url, host,
      config, created_at)
    select (select ?), r.deployment, r.thread_id, r.run_id, (select ?), (select ?), (select ?), (select ?), (select ?), (select ?)
    from runs r where r.run_id = (select ?) and r.deployment = (select ?)
      and exists (select 1 from runs l where l.run_id = (select ?))
      and (select count(*) from push_configs c where c.task_id = r.run_id and c.config_id <> (select ?)) < 10
      and true
    on conflict (task_id, config_id) do update set last_run = excluded.last_run, url = excluded.url, host = excluded.host,
      config = excluded.config
    returning config_id
--   SEARCH r USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH c USING COVERING INDEX sqlite_autoindex_push_configs_1 (task_id=?)
--   SEARCH l EXISTS USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- upsertPush (filtered)
-- (push_id text, config_id text, last_run text, url text, host text, config text, now bigint, task_id text, deployment text, last_run text, config_id text, filter text)
insert into push_configs (push_id, deployment, thread_id, task_id, config_id, last_run, url, host,
      config, created_at)
    select (select ?), r.deployment, r.thread_id, r.run_id, (select ?), (select ?), (select ?), (select ?), (select ?), (select ?)
    from runs r where r.run_id = (select ?) and r.deployment = (select ?)
      and exists (select 1 from runs l where l.run_id = (select ?))
      and (select count(*) from push_configs c where c.task_id = r.run_id and c.config_id <> (select ?)) < 10
      and exists (select 1 from threads permitting where permitting.deployment = "r"."deployment"
    and permitting.thread_id = "r"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)))
    on conflict (task_id, config_id) do update set last_run = excluded.last_run, url = excluded.url, host = excluded.host,
      config = excluded.config
    returning config_id
-- Postgres:
insert into push_configs (push_id, deployment, thread_id, task_id, config_id, last_run, url, host,
      config, created_at)
    select $1::text, r.deployment, r.thread_id, r.run_id, $2::text, $3::text, $4::text, $5::text, $6::text, $7::bigint
    from runs r where r.run_id = $8::text and r.deployment = $9::text
      and exists (select 1 from runs l where l.run_id = $10::text)
      and (select count(*) from push_configs c where c.task_id = r.run_id and c.config_id <> $11::text) < 10
      and exists (select 1 from threads permitting where permitting.deployment = "r"."deployment"
    and permitting.thread_id = "r"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($12::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)))
    on conflict (task_id, config_id) do update set last_run = excluded.last_run, url = excluded.url, host = excluded.host,
      config = excluded.config
    returning config_id
--   SEARCH r USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH c USING COVERING INDEX sqlite_autoindex_push_configs_1 (task_id=?)
--   SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:
--   SEARCH l EXISTS USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
