-- advanceCron
-- (next_run_date bigint, now bigint, deployment text, cron_id text, seen_next bigint, seen_revision bigint, run_id text, run_id text)
update "crons" set "next_run_date" = ?, "updated_at" = ? where "deployment" = ? and "cron_id" = ? and "enabled" = 1 and "next_run_date" = ? and "revision" = ? and (? is null or exists (select 1 from runs where run_id = ?)) returning "cron_id"
--   SEARCH crons USING INDEX sqlite_autoindex_crons_1 (deployment=? AND cron_id=?)
--   SCALAR SUBQUERY
--     SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- deleteCron
-- (deployment text, cron_id text)
delete from "crons" where "deployment" = ? and "cron_id" = ? and true returning "cron_id"
--   SEARCH crons USING INDEX sqlite_autoindex_crons_1 (deployment=? AND cron_id=?)
--   SEARCH cron_firings USING COVERING INDEX sqlite_autoindex_cron_firings_1 (deployment=? AND cron_id=?)

-- deleteCron (filtered)
-- (deployment text, cron_id text, filter text)
delete from "crons" where "deployment" = ? and "cron_id" = ? and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(crons.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)) returning "cron_id"
-- Postgres:
delete from "crons" where "deployment" = $1::text and "cron_id" = $2::text and not exists (select 1 from json_array_elements(replace(replace(replace($3::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(crons.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)) returning "cron_id"
--   SEARCH crons USING INDEX sqlite_autoindex_crons_1 (deployment=? AND cron_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:
--   SEARCH cron_firings USING COVERING INDEX sqlite_autoindex_cron_firings_1 (deployment=? AND cron_id=?)

-- deleteOldFirings
-- (deployment text, before bigint, limit bigint)
delete from cron_firings where (deployment, cron_id, scheduled_at) in (
      select deployment, cron_id, scheduled_at from cron_firings where deployment = (select ?)
        and fired_at < (select ?) order by fired_at limit (select ?))
    returning cron_id
--   SEARCH cron_firings USING COVERING INDEX sqlite_autoindex_cron_firings_1 (deployment=? AND cron_id=? AND scheduled_at=?)
--   LIST SUBQUERY
--     SEARCH cron_firings USING INDEX cron_firings_fired (deployment=? AND fired_at<?)

-- deleteOrphanedEntries
-- (deployment text, cron_ids text)
delete from labels where kind in ('cron') and not exists (select 1 from "crons" gone
    where gone.deployment = labels.deployment and gone."cron_id" = labels.row_id) and deployment = ? and row_id in (select value from json_each(?))
    returning row_id
-- Postgres:
delete from labels where kind in ('cron') and not exists (select 1 from "crons" gone
    where gone.deployment = labels.deployment and gone."cron_id" = labels.row_id) and deployment = $1::text and row_id in (select value collate "C" as value from json_array_elements_text($2::text::json))
    returning row_id
--   SEARCH labels USING PRIMARY KEY (deployment=? AND kind=? AND row_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--   CORRELATED SCALAR SUBQUERY
--     SEARCH gone USING COVERING INDEX sqlite_autoindex_crons_1 (deployment=? AND cron_id=?)

-- insertCron
-- (deployment text, cron_id text, assistant_id text, thread_id text, on_run_completed text, schedule text, timezone text, end_time bigint, enabled bigint, next_run_date bigint, payload text, metadata text, user_id text, auth_user text, now bigint, now bigint, now bigint, deployment text, assistant_id text, thread_id text, deployment text, thread_id text)
insert into "crons" ("deployment", "cron_id", "assistant_id", "thread_id", "on_run_completed", "schedule", "timezone", "end_time", "enabled", "next_run_date", "payload", "metadata", "user_id", "auth_user", "failures", "created_at", "updated_at", "revision") select ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ? where exists (select 1 from assistants where deployment = ? and assistant_id = ?)
      and (? is null or exists (select 1 from threads
        where deployment = ? and thread_id = ? and hidden = 0)) returning *
--   SEARCH assistants EXISTS USING COVERING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--   SCALAR SUBQUERY
--     SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SEARCH cron_firings USING COVERING INDEX sqlite_autoindex_cron_firings_1 (deployment=? AND cron_id=?)

-- insertFiring
-- (deployment text, cron_id text, scheduled_at bigint, now bigint, run_id text)
insert into cron_firings (deployment, cron_id, scheduled_at, fired_at, run_id, skipped)
    select ?, ?, ?, ?, run_id, null from runs where run_id = ?
--   SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)

-- insertManualFiring
-- (now bigint, now bigint, run_id text, deployment text, cron_id text)
insert into cron_firings (deployment, cron_id, scheduled_at, fired_at, run_id, skipped, manual)
    select deployment, cron_id, ?, ?, ?, null, 1 from crons
    where deployment = ? and cron_id = ? on conflict do nothing
--   SEARCH crons USING COVERING INDEX sqlite_autoindex_crons_1 (deployment=? AND cron_id=?)

-- insertSkippedFirings
-- (deployment text, cron_id text, now bigint, skipped text, deployment text, cron_id text, seen_next bigint, seen_revision bigint, run_id text, run_id text)
insert into cron_firings (deployment, cron_id, scheduled_at, fired_at, run_id, skipped)
    select (select ?), (select ?), s.scheduled_at, (select ?), null, s.reason
    from (select json_extract(value, '$[0]') as "scheduled_at", json_extract(value, '$[1]') as "reason" from json_each((select ?))) s where exists (select 1 from crons c where c.deployment = (select ?) and c.cron_id = (select ?)
    and c.enabled = 1 and c.next_run_date = (select ?) and c.revision = (select ?)) and ((select ?) is null or exists (select 1 from runs where run_id = (select ?)))
    on conflict do nothing
-- Postgres:
insert into cron_firings (deployment, cron_id, scheduled_at, fired_at, run_id, skipped)
    select $1::text, $2::text, s.scheduled_at, $3::bigint, null, s.reason
    from (select (value ->> 0)::bigint as "scheduled_at", (value ->> 1) collate "C" as "reason" from json_array_elements($4::text::json)) s where exists (select 1 from crons c where c.deployment = $5::text and c.cron_id = $6::text
    and c.enabled = 1 and c.next_run_date = $7::bigint and c.revision = $8::bigint) and ($9::text is null or exists (select 1 from runs where run_id = $10::text))
    on conflict do nothing
--   SEARCH c EXISTS USING INDEX sqlite_autoindex_crons_1 (deployment=? AND cron_id=?)
--   SCALAR SUBQUERY
--     SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   SCAN json_each VIRTUAL TABLE INDEX 1:

-- isFiringOpen
-- (deployment text, cron_id text, seen_next bigint, seen_revision bigint, deployment text, cron_id text, scheduled_at bigint)
select 1 as open where exists (select 1 from crons c where c.deployment = (select ?) and c.cron_id = (select ?)
    and c.enabled = 1 and c.next_run_date = (select ?) and c.revision = (select ?)) and not exists (select 1 from cron_firings f where f.deployment = (select ?)
    and f.cron_id = (select ?) and f.scheduled_at = (select ?))
--   SEARCH c EXISTS USING INDEX sqlite_autoindex_crons_1 (deployment=? AND cron_id=?)
--   SCALAR SUBQUERY
--     SEARCH f USING COVERING INDEX sqlite_autoindex_cron_firings_1 (deployment=? AND cron_id=? AND scheduled_at=?)

-- selectCron
-- (deployment text, cron_id text)
select * from "crons" where "deployment" = ? and "cron_id" = ? and true
--   SEARCH crons USING INDEX sqlite_autoindex_crons_1 (deployment=? AND cron_id=?)

-- selectCron (filtered)
-- (deployment text, cron_id text, filter text)
select * from "crons" where "deployment" = ? and "cron_id" = ? and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(crons.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))
-- Postgres:
select * from "crons" where "deployment" = $1::text and "cron_id" = $2::text and not exists (select 1 from json_array_elements(replace(replace(replace($3::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(crons.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))
--   SEARCH crons USING INDEX sqlite_autoindex_crons_1 (deployment=? AND cron_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:

-- selectEnabledCrons ({"by_date":true,"failing":false})
-- (deployment text, due_by bigint, limit bigint)
select * from "crons" where "deployment" = ? and "enabled" = 1 and "next_run_date" is not null and "next_run_date" <= ? order by "next_run_date" limit ?
--   SEARCH crons USING INDEX crons_due (deployment=? AND next_run_date>? AND next_run_date<?)

-- selectEnabledCrons ({"by_date":false,"failing":true})
-- (deployment text, failures bigint, limit bigint)
select * from "crons" where "deployment" = ? and "enabled" = 1 and "failures" > 0 and "failures" >= ? limit ?
--   SEARCH crons USING INDEX crons_failing (deployment=? AND failures>?)

-- selectEnabledCrons ({"by_date":false,"failing":false})
-- (deployment text, limit bigint)
select * from "crons" where "deployment" = ? and "enabled" = 1 limit ?
--   SEARCH crons USING INDEX crons_created (deployment=?)

-- selectFirings
-- (deployment text, cron_id text, limit bigint, offset bigint)
select * from "cron_firings" where "deployment" = (select ?) and "cron_id" = (select ?) order by "scheduled_at" desc limit (select ?) offset (select ?)
--   SEARCH cron_firings USING INDEX sqlite_autoindex_cron_firings_1 (deployment=? AND cron_id=?)

-- selectOrphanedCrons
-- (deployment text, limit bigint)
select distinct row_id from labels where kind in ('cron') and not exists (select 1 from "crons" gone
    where gone.deployment = labels.deployment and gone."cron_id" = labels.row_id) and deployment = (select ?)
    limit (select ?)
--   SEARCH labels USING PRIMARY KEY (deployment=? AND kind=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH gone USING COVERING INDEX sqlite_autoindex_crons_1 (deployment=? AND cron_id=?)

-- selectVisibleThread
-- (deployment text, thread_id text)
select "thread_id" from "threads" where "deployment" = ? and "thread_id" = ? and "hidden" = 0
--   SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)

-- updateCron
-- (on_run_completed text, schedule text, timezone text, end_time bigint, enabled bigint, enabled bigint, next_run_date bigint, payload text, metadata text, now bigint, deployment text, cron_id text, expected_revision bigint, expected_run_date bigint)
update "crons" set "on_run_completed" = ?, "schedule" = ?, "timezone" = ?, "end_time" = ?, "failures" = case when enabled = 0 and ? = 1 then 0 else failures end, "enabled" = ?, "next_run_date" = ?, "payload" = ?, "metadata" = ?, "updated_at" = ?, "revision" = revision + 1 where "deployment" = ? and "cron_id" = ? and "revision" = ? and coalesce(next_run_date, -1) = coalesce(?, -1) returning *
--   SEARCH crons USING INDEX sqlite_autoindex_crons_1 (deployment=? AND cron_id=?)
