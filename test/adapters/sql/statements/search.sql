-- countEntries ({"kind":"assistant","entries":1})
-- (0, deployment text, path_hash bigint, value_hash bigint, limit bigint, deployment text, path_hash bigint, value_hash bigint)
select ? as place, (select count(*) from (select 1 from labels l where "l"."deployment" = (select ?) and "l"."kind" = 'assistant'
    and "l"."path_hash" = (select ?) and "l"."value_hash" = (select ?) limit (select ?)) as found) as found,
          exists (select 1 from labels l where "l"."deployment" = (select ?) and "l"."kind" = 'assistant'
    and "l"."path_hash" = (select ?) and "l"."value_hash" = (select ?) and exact is null) as hashed
--   SCALAR SUBQUERY
--     CO-ROUTINE found
--       SEARCH l USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=?)
--     SCAN found
--   SCALAR SUBQUERY
--     SEARCH l USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=? AND exact=?)

-- countEntries ({"kind":"thread","entries":2})
-- (0, deployment text, path_hash bigint, value_hash bigint, limit bigint, deployment text, path_hash bigint, value_hash bigint, 1, deployment text, path_hash bigint, value_hash bigint, limit bigint, deployment text, path_hash bigint, value_hash bigint)
select ? as place, (select count(*) from (select 1 from labels l where "l"."deployment" = (select ?) and "l"."kind" = 'thread'
    and "l"."path_hash" = (select ?) and "l"."value_hash" = (select ?) limit (select ?)) as found) as found,
          exists (select 1 from labels l where "l"."deployment" = (select ?) and "l"."kind" = 'thread'
    and "l"."path_hash" = (select ?) and "l"."value_hash" = (select ?) and exact is null) as hashed union all select ? as place, (select count(*) from (select 1 from labels l where "l"."deployment" = (select ?) and "l"."kind" = 'thread'
    and "l"."path_hash" = (select ?) and "l"."value_hash" = (select ?) limit (select ?)) as found) as found,
          exists (select 1 from labels l where "l"."deployment" = (select ?) and "l"."kind" = 'thread'
    and "l"."path_hash" = (select ?) and "l"."value_hash" = (select ?) and exact is null) as hashed
--   COMPOUND QUERY
--     LEFT-MOST SUBQUERY
--       SCALAR SUBQUERY
--         CO-ROUTINE found
--           SEARCH l USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=?)
--         SCAN found
--       SCALAR SUBQUERY
--         SEARCH l USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=? AND exact=?)
--     UNION ALL
--       SCALAR SUBQUERY
--         CO-ROUTINE found
--           SEARCH l USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=?)
--         SCAN found
--       SCALAR SUBQUERY
--         SEARCH l USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=? AND exact=?)

-- countRows ({"kind":"assistant","entries":1,"exact":true,"where":[],"values":0})
-- (deployment text, path_hash bigint, value_hash bigint, exact text)
select count(*) as total from labels followed where "followed"."deployment" = (select ?) and "followed"."kind" = 'assistant'
    and "followed"."path_hash" = (select ?) and "followed"."value_hash" = (select ?) and followed.exact = (select ?)
--   SEARCH followed USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=? AND exact=?)

-- countRows ({"kind":"thread","entries":0,"exact":true,"where":["status"],"values":1})
-- (deployment text, status text, deployment text, path_hash bigint, value_hash bigint, deployment text, deployment text)
select count(*) as total from "threads" where "threads".deployment = (select ?) and threads.hidden = 0 and threads.status = (select ?) and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending')) and "threads"."thread_id" in (select row_id from labels where deployment = (select ?) and kind = 'values'
        and path_hash = (select ?) and value_hash = (select ?)
      union all select row_id from labels where deployment = (select ?) and kind = 'values'
        and path_hash = 0 and value_hash = 0
      union all select thread_id from runs where deployment = (select ?) and status = 'running')
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     COMPOUND QUERY
--       LEFT-MOST SUBQUERY
--         SEARCH labels USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=?)
--       UNION ALL
--         SEARCH labels USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=?)
--       UNION ALL
--         SEARCH runs USING COVERING INDEX runs_running (deployment=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)

-- countRows ({"kind":"cron","entries":2,"exact":false,"where":[],"values":0})
-- (deployment text, path_hash bigint, value_hash bigint, deployment text, deployment text, path_hash bigint, value_hash bigint)
select count(*) as total from labels followed cross join "crons" where "followed"."deployment" = (select ?) and "followed"."kind" = 'cron'
    and "followed"."path_hash" = (select ?) and "followed"."value_hash" = (select ?) and "crons".deployment = (select ?) and "crons"."cron_id" = followed.row_id and exists (select 1 from labels l where "l"."deployment" = (select ?) and "l"."kind" = 'cron'
    and "l"."path_hash" = (select ?) and "l"."value_hash" = (select ?) and l.row_id = followed.row_id)
--   SEARCH followed USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=?)
--   SEARCH l EXISTS USING PRIMARY KEY (deployment=? AND kind=? AND row_id=? AND path_hash=? AND value_hash=?)
--   SEARCH crons USING COVERING INDEX sqlite_autoindex_crons_1 (deployment=? AND cron_id=?)

-- selectAssistants ({"exact":true,"where":[],"values":0,"sort_by":"created_at","sort_order":"desc","listed":false,"kind":"assistant","entries":0})
-- (deployment text, limit bigint, offset bigint)
select assistants.* from "assistants" where "assistants".deployment = (select ?) order by "assistants"."created_at" desc, "assistants"."assistant_id" desc limit (select ?) offset (select ?)
--   SEARCH assistants USING INDEX assistants_created (deployment=?)
--   USE TEMP B-TREE FOR LAST TERM OF ORDER BY

-- selectAssistants ({"exact":true,"where":["graph_id","name"],"values":0,"sort_by":"name","sort_order":"asc","listed":false,"kind":"assistant","entries":2})
-- (deployment text, path_hash bigint, value_hash bigint, exact text, deployment text, deployment text, path_hash bigint, value_hash bigint, exact text, graph_id text, name text, limit bigint, offset bigint)
select assistants.* from labels followed cross join "assistants" where "followed"."deployment" = (select ?) and "followed"."kind" = 'assistant'
    and "followed"."path_hash" = (select ?) and "followed"."value_hash" = (select ?) and followed.exact = (select ?) and "assistants".deployment = (select ?) and "assistants"."assistant_id" = followed.row_id and exists (select 1 from labels l where "l"."deployment" = (select ?) and "l"."kind" = 'assistant'
    and "l"."path_hash" = (select ?) and "l"."value_hash" = (select ?) and l.row_id = followed.row_id and l.exact = (select ?)) and assistants.graph_id = (select ?) and instr(lower(assistants.name), lower((select ?))) > 0 order by "assistants"."name" asc, "assistants"."assistant_id" asc limit (select ?) offset (select ?)
-- Postgres:
select assistants.* from labels followed cross join "assistants" where "followed"."deployment" = $1::text and "followed"."kind" = 'assistant'
    and "followed"."path_hash" = $2::bigint and "followed"."value_hash" = $3::bigint and followed.exact = $4::text and "assistants".deployment = $5::text and "assistants"."assistant_id" = followed.row_id and exists (select 1 from labels l where "l"."deployment" = $6::text and "l"."kind" = 'assistant'
    and "l"."path_hash" = $7::bigint and "l"."value_hash" = $8::bigint and l.row_id = followed.row_id and l.exact = $9::text) and assistants.graph_id = $10::text and strpos(lower(assistants.name collate "C"), lower($11::text collate "C")) > 0 order by "assistants"."name" asc, "assistants"."assistant_id" asc limit $12::bigint offset $13::bigint
--   SEARCH followed USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=? AND exact=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH l USING PRIMARY KEY (deployment=? AND kind=? AND row_id=? AND path_hash=? AND value_hash=?)
--   SEARCH assistants USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--   USE TEMP B-TREE FOR ORDER BY

-- selectCandidates ({"kind":"thread","entries":0,"exact":true,"where":["ids"],"values":0,"sort_by":"created_at","sort_order":"desc"})
-- (deployment text, ids text)
select "threads"."thread_id" as id, "threads".metadata
      from "threads" where "threads".deployment = (select ?) and threads.hidden = 0 and threads.thread_id in (select value from json_each((select ?))) order by +"threads"."created_at" desc, "threads"."thread_id" desc
-- Postgres:
select "threads"."thread_id" as id, "threads".metadata
      from "threads" where "threads".deployment = $1::text and threads.hidden = 0 and threads.thread_id in (select value collate "C" as value from json_array_elements_text($2::text::json)) order by +"threads"."created_at" desc, "threads"."thread_id" desc
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--   USE TEMP B-TREE FOR ORDER BY

-- selectCandidates ({"kind":"cron","entries":2,"exact":false,"where":["enabled"],"values":0,"sort_by":"end_time","sort_order":"asc"})
-- (deployment text, path_hash bigint, value_hash bigint, deployment text, deployment text, path_hash bigint, value_hash bigint)
select "crons"."cron_id" as id, "crons".metadata
      from labels followed cross join "crons" where "followed"."deployment" = (select ?) and "followed"."kind" = 'cron'
    and "followed"."path_hash" = (select ?) and "followed"."value_hash" = (select ?) and "crons".deployment = (select ?) and "crons"."cron_id" = followed.row_id and exists (select 1 from labels l where "l"."deployment" = (select ?) and "l"."kind" = 'cron'
    and "l"."path_hash" = (select ?) and "l"."value_hash" = (select ?) and l.row_id = followed.row_id) and crons.enabled = 1 order by coalesce(crons.end_time, -1) asc, "crons"."cron_id" asc
--   SEARCH followed USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=?)
--   SEARCH l EXISTS USING PRIMARY KEY (deployment=? AND kind=? AND row_id=? AND path_hash=? AND value_hash=?)
--   SEARCH crons USING INDEX sqlite_autoindex_crons_1 (deployment=? AND cron_id=?)
--   USE TEMP B-TREE FOR ORDER BY

-- selectCrons ({"exact":true,"where":["assistant_id"],"values":0,"sort_by":"created_at","sort_order":"desc","listed":false,"kind":"cron","entries":0})
-- (deployment text, assistant_id text, limit bigint, offset bigint)
select crons.* from "crons" where "crons".deployment = (select ?) and crons.assistant_id = (select ?) order by "crons"."created_at" desc, "crons"."cron_id" desc limit (select ?) offset (select ?)
--   SEARCH crons USING INDEX crons_created (deployment=?)
--   USE TEMP B-TREE FOR LAST TERM OF ORDER BY

-- selectCrons ({"exact":true,"where":["disabled"],"values":0,"sort_by":"next_run_date","sort_order":"desc","listed":false,"kind":"cron","entries":1})
-- (deployment text, path_hash bigint, value_hash bigint, exact text, deployment text, limit bigint, offset bigint)
select crons.* from labels followed cross join "crons" where "followed"."deployment" = (select ?) and "followed"."kind" = 'cron'
    and "followed"."path_hash" = (select ?) and "followed"."value_hash" = (select ?) and followed.exact = (select ?) and "crons".deployment = (select ?) and "crons"."cron_id" = followed.row_id and crons.enabled = 0 order by coalesce(crons.next_run_date, -1) desc, "crons"."cron_id" desc limit (select ?) offset (select ?)
--   SEARCH followed USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=? AND exact=?)
--   SEARCH crons USING INDEX sqlite_autoindex_crons_1 (deployment=? AND cron_id=?)
--   USE TEMP B-TREE FOR ORDER BY

-- selectStoredCount
-- (deployment text, kind text)
select "total" from "row_counts" where "deployment" = ? and "kind" = ?
--   SEARCH row_counts USING PRIMARY KEY (deployment=? AND kind=?)

-- selectThreads ({"exact":true,"where":[],"values":0,"sort_by":"created_at","sort_order":"desc","listed":false,"kind":"thread","entries":0})
-- (deployment text, limit bigint, offset bigint)
select threads.*, (select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') as running, exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending') as waiting from "threads" where "threads".deployment = (select ?) and threads.hidden = 0 order by "threads"."created_at" desc, "threads"."thread_id" desc limit (select ?) offset (select ?)
--   SEARCH threads USING INDEX threads_created (deployment=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--   USE TEMP B-TREE FOR LAST TERM OF ORDER BY

-- selectThreads ({"exact":true,"where":[],"values":0,"sort_by":"created_at","sort_order":"desc","listed":false,"kind":"thread","entries":1})
-- (deployment text, path_hash bigint, value_hash bigint, exact text, deployment text, limit bigint, offset bigint)
select threads.*, (select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') as running, exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending') as waiting from labels followed cross join "threads" where "followed"."deployment" = (select ?) and "followed"."kind" = 'thread'
    and "followed"."path_hash" = (select ?) and "followed"."value_hash" = (select ?) and followed.exact = (select ?) and "threads".deployment = (select ?) and "threads"."thread_id" = followed.row_id order by followed.created_at desc, followed.row_id desc limit (select ?) offset (select ?)
--   SEARCH followed USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=? AND exact=?)
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)

-- selectThreads ({"exact":true,"where":["interrupted"],"values":0,"sort_by":"created_at","sort_order":"desc","listed":false,"kind":"thread","entries":0})
-- (deployment text, limit bigint, offset bigint)
select threads.*, (select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') as running, exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending') as waiting from "threads" where "threads".deployment = (select ?) and threads.hidden = 0 and threads.status = 'interrupted' and not ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending')) order by "threads"."created_at" desc, "threads"."thread_id" desc limit (select ?) offset (select ?)
--   SEARCH threads USING INDEX threads_created (deployment=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--   USE TEMP B-TREE FOR LAST TERM OF ORDER BY

-- selectThreads ({"exact":true,"where":["busy"],"values":0,"sort_by":"status","sort_order":"desc","listed":true,"kind":"thread","entries":2})
-- (deployment text, path_hash bigint, value_hash bigint, exact text, deployment text, deployment text, path_hash bigint, value_hash bigint, exact text, listed text)
select threads.*, (select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') as running, exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending') as waiting from labels followed cross join "threads" where "followed"."deployment" = (select ?) and "followed"."kind" = 'thread'
    and "followed"."path_hash" = (select ?) and "followed"."value_hash" = (select ?) and followed.exact = (select ?) and "threads".deployment = (select ?) and "threads"."thread_id" = followed.row_id and exists (select 1 from labels l where "l"."deployment" = (select ?) and "l"."kind" = 'thread'
    and "l"."path_hash" = (select ?) and "l"."value_hash" = (select ?) and l.row_id = followed.row_id and l.exact = (select ?)) and ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending')) and "threads"."thread_id" in (select value from json_each((select ?))) order by case when ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending')) then 'busy' else threads.status end desc, "threads"."thread_id" desc 
-- Postgres:
select threads.*, (select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') as running, exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending') as waiting from labels followed cross join "threads" where "followed"."deployment" = $1::text and "followed"."kind" = 'thread'
    and "followed"."path_hash" = $2::bigint and "followed"."value_hash" = $3::bigint and followed.exact = $4::text and "threads".deployment = $5::text and "threads"."thread_id" = followed.row_id and exists (select 1 from labels l where "l"."deployment" = $6::text and "l"."kind" = 'thread'
    and "l"."path_hash" = $7::bigint and "l"."value_hash" = $8::bigint and l.row_id = followed.row_id and l.exact = $9::text) and ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending')) and "threads"."thread_id" in (select value collate "C" as value from json_array_elements_text($10::text::json)) order by case when ((select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') is not null or exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending')) then 'busy' else threads.status end desc, "threads"."thread_id" desc 
--   SEARCH followed USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=? AND exact=?)
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     CREATE BLOOM FILTER
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--   SEARCH l EXISTS USING PRIMARY KEY (deployment=? AND kind=? AND row_id=? AND path_hash=? AND value_hash=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--   USE TEMP B-TREE FOR ORDER BY

-- selectThreads ({"exact":true,"where":["waiting"],"values":2,"sort_by":"created_at","sort_order":"desc","listed":false,"kind":"thread","entries":0})
-- (deployment text, deployment text, path_hash bigint, value_hash bigint, deployment text, deployment text, deployment text, path_hash bigint, value_hash bigint, deployment text, deployment text, limit bigint, offset bigint)
select threads.*, (select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running') as running, exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending') as waiting from "threads" where "threads".deployment = (select ?) and threads.hidden = 0 and threads.interrupts <> '{}' and "threads"."thread_id" in (select row_id from labels where deployment = (select ?) and kind = 'values'
        and path_hash = (select ?) and value_hash = (select ?)
      union all select row_id from labels where deployment = (select ?) and kind = 'values'
        and path_hash = 0 and value_hash = 0
      union all select thread_id from runs where deployment = (select ?) and status = 'running') and "threads"."thread_id" in (select row_id from labels where deployment = (select ?) and kind = 'values'
        and path_hash = (select ?) and value_hash = (select ?)
      union all select row_id from labels where deployment = (select ?) and kind = 'values'
        and path_hash = 0 and value_hash = 0
      union all select thread_id from runs where deployment = (select ?) and status = 'running') order by +"threads"."created_at" desc, "threads"."thread_id" desc limit (select ?) offset (select ?)
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     COMPOUND QUERY
--       LEFT-MOST SUBQUERY
--         SEARCH labels USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=?)
--       UNION ALL
--         SEARCH labels USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=?)
--       UNION ALL
--         SEARCH runs USING COVERING INDEX runs_running (deployment=?)
--   LIST SUBQUERY
--     COMPOUND QUERY
--       LEFT-MOST SUBQUERY
--         SEARCH labels USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=?)
--         CREATE BLOOM FILTER
--       UNION ALL
--         SEARCH labels USING COVERING INDEX labels_value (deployment=? AND kind=? AND path_hash=? AND value_hash=?)
--         CREATE BLOOM FILTER
--       UNION ALL
--         SEARCH runs USING COVERING INDEX runs_running (deployment=?)
--         CREATE BLOOM FILTER
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING INDEX runs_running (deployment=? AND thread_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH r USING COVERING INDEX runs_waiting (deployment=? AND thread_id=?)
--   USE TEMP B-TREE FOR ORDER BY
