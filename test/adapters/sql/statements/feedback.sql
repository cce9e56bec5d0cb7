-- countSubmission
-- (token_id text, id text)
update "feedback_tokens" set "submissions" = submissions + 1 where "token_id" = ? and exists (select 1 from feedback where feedback.id = ?)
--   SEARCH feedback_tokens USING INDEX sqlite_autoindex_feedback_tokens_1 (token_id=?)
--   SCALAR SUBQUERY
--     SEARCH feedback USING COVERING INDEX sqlite_autoindex_feedback_1 (id=?)

-- deleteRecord
-- (id text, workspace_ids text)
delete from "feedback" where "id" = ? and "workspace_id" in (select value from json_each(?)) and true returning "id"
-- Postgres:
delete from "feedback" where "id" = $1::text and "workspace_id" in (select value collate "C" as value from json_array_elements_text($2::text::json)) and true returning "id"
--   SEARCH feedback USING INDEX sqlite_autoindex_feedback_1 (id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     CREATE BLOOM FILTER

-- deleteRecord (filtered)
-- (id text, workspace_ids text, deployment text, filter text)
delete from "feedback" where "id" = ? and "workspace_id" in (select value from json_each(?)) and exists (select 1 from runs of_run where of_run.run_id = feedback.run_id
    and of_run.deployment = ? and exists (select 1 from threads permitting where permitting.deployment = "of_run"."deployment"
    and permitting.thread_id = "of_run"."thread_id" and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) ) returning "id"
-- Postgres:
delete from "feedback" where "id" = $1::text and "workspace_id" in (select value collate "C" as value from json_array_elements_text($2::text::json)) and exists (select 1 from runs of_run where of_run.run_id = feedback.run_id
    and of_run.deployment = $3::text and exists (select 1 from threads permitting where permitting.deployment = "of_run"."deployment"
    and permitting.thread_id = "of_run"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($4::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) offset 0) returning "id"
--   SEARCH feedback USING INDEX sqlite_autoindex_feedback_1 (id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     CREATE BLOOM FILTER
--   CORRELATED SCALAR SUBQUERY
--     SEARCH of_run USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:

-- deleteToken
-- (token_id text, deployment text, workspace_ids text)
delete from "feedback_tokens" where "token_id" = ? and "deployment" = ? and "workspace_id" in (select value from json_each(?)) and true returning "token_id"
-- Postgres:
delete from "feedback_tokens" where "token_id" = $1::text and "deployment" = $2::text and "workspace_id" in (select value collate "C" as value from json_array_elements_text($3::text::json)) and true returning "token_id"
--   SEARCH feedback_tokens USING INDEX sqlite_autoindex_feedback_tokens_1 (token_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     CREATE BLOOM FILTER

-- deleteToken (filtered)
-- (token_id text, deployment text, workspace_ids text, deployment text, filter text)
delete from "feedback_tokens" where "token_id" = ? and "deployment" = ? and "workspace_id" in (select value from json_each(?)) and exists (select 1 from runs of_run where of_run.run_id = feedback_tokens.run_id
    and of_run.deployment = ? and exists (select 1 from threads permitting where permitting.deployment = "of_run"."deployment"
    and permitting.thread_id = "of_run"."thread_id" and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) ) returning "token_id"
-- Postgres:
delete from "feedback_tokens" where "token_id" = $1::text and "deployment" = $2::text and "workspace_id" in (select value collate "C" as value from json_array_elements_text($3::text::json)) and exists (select 1 from runs of_run where of_run.run_id = feedback_tokens.run_id
    and of_run.deployment = $4::text and exists (select 1 from threads permitting where permitting.deployment = "of_run"."deployment"
    and permitting.thread_id = "of_run"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($5::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) offset 0) returning "token_id"
--   SEARCH feedback_tokens USING INDEX sqlite_autoindex_feedback_tokens_1 (token_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     CREATE BLOOM FILTER
--   CORRELATED SCALAR SUBQUERY
--     SEARCH of_run USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:

-- insertRecord
-- (id text, run_id text, workspace_id text, project_id text, thread_id text, key text, score text, value text, comment text, correction text, source text, source_metadata text, user_id text, run_started_at bigint, created_at bigint, modified_at bigint, extra text)
insert into "feedback" ("id", "run_id", "workspace_id", "project_id", "thread_id", "key", "score", "value", "comment", "correction", "source", "source_metadata", "user_id", "run_started_at", "created_at", "modified_at", "extra") select ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? where true on conflict do nothing returning "id"

-- insertRecord (filtered)
-- (id text, run_id text, workspace_id text, project_id text, thread_id text, key text, score text, value text, comment text, correction text, source text, source_metadata text, user_id text, run_started_at bigint, created_at bigint, modified_at bigint, extra text, run_id text, deployment text, filter text)
insert into "feedback" ("id", "run_id", "workspace_id", "project_id", "thread_id", "key", "score", "value", "comment", "correction", "source", "source_metadata", "user_id", "run_started_at", "created_at", "modified_at", "extra") select ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? where exists (select 1 from runs of_run where of_run.run_id = ?
    and of_run.deployment = ? and exists (select 1 from threads permitting where permitting.deployment = "of_run"."deployment"
    and permitting.thread_id = "of_run"."thread_id" and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) ) on conflict do nothing returning "id"
-- Postgres:
insert into "feedback" ("id", "run_id", "workspace_id", "project_id", "thread_id", "key", "score", "value", "comment", "correction", "source", "source_metadata", "user_id", "run_started_at", "created_at", "modified_at", "extra") select $1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text, $9::text, $10::text, $11::text, $12::text, $13::text, $14::bigint, $15::bigint, $16::bigint, $17::text where exists (select 1 from runs of_run where of_run.run_id = $18::text
    and of_run.deployment = $19::text and exists (select 1 from threads permitting where permitting.deployment = "of_run"."deployment"
    and permitting.thread_id = "of_run"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($20::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) offset 0) on conflict do nothing returning "id"
--   SEARCH of_run EXISTS USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH permitting USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:

-- insertSubmission
-- (id text, run_id text, workspace_id text, project_id text, thread_id text, key text, score text, value text, comment text, correction text, source text, source_metadata text, user_id text, run_started_at bigint, created_at bigint, modified_at bigint, extra text, token_id text, now bigint, limit bigint, deployment text, route text, idempotency_key text)
insert into "feedback" ("id", "run_id", "workspace_id", "project_id", "thread_id", "key", "score", "value", "comment", "correction", "source", "source_metadata", "user_id", "run_started_at", "created_at", "modified_at", "extra") select (select ?), (select ?), (select ?), (select ?), (select ?), (select ?), (select ?), (select ?), (select ?), (select ?), (select ?), (select ?), (select ?), (select ?), (select ?), (select ?), (select ?) where exists (select 1 from feedback_tokens t where t.token_id = (select ?)
          and (t.expires_at is null or t.expires_at > (select ?)) and t.submissions < (select ?))
        and not exists (select 1 from idempotency_keys k
          where k.deployment = (select ?) and k.route = (select ?) and k.key = (select ?)) returning "id"
--   SEARCH t EXISTS USING INDEX sqlite_autoindex_feedback_tokens_1 (token_id=?)
--   SCALAR SUBQUERY
--     SEARCH k USING COVERING INDEX sqlite_autoindex_idempotency_keys_1 (deployment=? AND route=? AND key=?)

-- insertSubmissionKey
-- (deployment text, route text, key text, body_hash text, id text, now bigint, id text)
insert into "idempotency_keys" ("deployment", "route", "key", "body_hash", "run_id", "created_at") select (select ?), (select ?), (select ?), (select ?), (select ?), (select ?) where exists (select 1 from feedback where feedback.id = (select ?))
--   SEARCH feedback EXISTS USING COVERING INDEX sqlite_autoindex_feedback_1 (id=?)

-- insertTokens
-- (deployment text, tokens text)
insert into feedback_tokens (deployment, submissions, token_id, run_id, workspace_id, project_id,
      feedback_key, config, expires_at, created_at)
    select (select ?), 0, t.* from (select json_extract(value, '$[0]') as "token_id", json_extract(value, '$[1]') as "run_id", json_extract(value, '$[2]') as "workspace_id", json_extract(value, '$[3]') as "project_id", json_extract(value, '$[4]') as "feedback_key", json_extract(value, '$[5]') as "config", json_extract(value, '$[6]') as "expires_at", json_extract(value, '$[7]') as "created_at" from json_each((select ?))) t
    where true returning token_id
-- Postgres:
insert into feedback_tokens (deployment, submissions, token_id, run_id, workspace_id, project_id,
      feedback_key, config, expires_at, created_at)
    select $1::text, 0, t.* from (select (value ->> 0) collate "C" as "token_id", (value ->> 1) collate "C" as "run_id", (value ->> 2) collate "C" as "workspace_id", (value ->> 3) collate "C" as "project_id", (value ->> 4) collate "C" as "feedback_key", (value ->> 5) collate "C" as "config", (value ->> 6)::bigint as "expires_at", (value ->> 7)::bigint as "created_at" from json_array_elements($2::text::json)) t
    where true returning token_id
--   SCAN json_each VIRTUAL TABLE INDEX 1:

-- insertTokens (filtered)
-- (deployment text, tokens text, run_ids text, deployment text, filter text)
insert into feedback_tokens (deployment, submissions, token_id, run_id, workspace_id, project_id,
      feedback_key, config, expires_at, created_at)
    select (select ?), 0, t.* from (select json_extract(value, '$[0]') as "token_id", json_extract(value, '$[1]') as "run_id", json_extract(value, '$[2]') as "workspace_id", json_extract(value, '$[3]') as "project_id", json_extract(value, '$[4]') as "feedback_key", json_extract(value, '$[5]') as "config", json_extract(value, '$[6]') as "expires_at", json_extract(value, '$[7]') as "created_at" from json_each((select ?))) t
    where not exists (select 1 from (select value from json_each((select ?))) asked
        where not (exists (select 1 from runs of_run where of_run.run_id = asked.value
    and of_run.deployment = (select ?) and exists (select 1 from threads permitting where permitting.deployment = "of_run"."deployment"
    and permitting.thread_id = "of_run"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) ))) returning token_id
-- Postgres:
insert into feedback_tokens (deployment, submissions, token_id, run_id, workspace_id, project_id,
      feedback_key, config, expires_at, created_at)
    select $1::text, 0, t.* from (select (value ->> 0) collate "C" as "token_id", (value ->> 1) collate "C" as "run_id", (value ->> 2) collate "C" as "workspace_id", (value ->> 3) collate "C" as "project_id", (value ->> 4) collate "C" as "feedback_key", (value ->> 5) collate "C" as "config", (value ->> 6)::bigint as "expires_at", (value ->> 7)::bigint as "created_at" from json_array_elements($2::text::json)) t
    where not exists (select 1 from (select value collate "C" as value from json_array_elements_text($3::text::json)) asked
        where not (exists (select 1 from runs of_run where of_run.run_id = asked.value
    and of_run.deployment = $4::text and exists (select 1 from threads permitting where permitting.deployment = "of_run"."deployment"
    and permitting.thread_id = "of_run"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($5::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) offset 0))) returning token_id
--   SCAN json_each VIRTUAL TABLE INDEX 1:
--   SCALAR SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SEARCH of_run USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--       SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--       CORRELATED SCALAR SUBQUERY
--         SCAN c VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN m VIRTUAL TABLE INDEX 1:
--           CORRELATED SCALAR SUBQUERY
--             SCAN e VIRTUAL TABLE INDEX 1:

-- insertTokensOfRun
-- (deployment text, workspace_id text, project_id text, life_ms bigint, now bigint, tokens text, run_id text)
insert into feedback_tokens (token_id, deployment, run_id, workspace_id, project_id, feedback_key, life_ms, created_at)
    select t.token_id, (select ?), r.run_id, (select ?), (select ?), t.feedback_key, (select ?), (select ?)
    from runs r cross join (select json_extract(value, '$[0]') as "feedback_key", json_extract(value, '$[1]') as "token_id" from json_each((select ?))) t where r.run_id = (select ?)
-- Postgres:
insert into feedback_tokens (token_id, deployment, run_id, workspace_id, project_id, feedback_key, life_ms, created_at)
    select t.token_id, $1::text, r.run_id, $2::text, $3::text, t.feedback_key, $4::bigint, $5::bigint
    from runs r cross join (select (value ->> 0) collate "C" as "feedback_key", (value ->> 1) collate "C" as "token_id" from json_array_elements($6::text::json)) t where r.run_id = $7::text
--   SEARCH r USING COVERING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   SCAN json_each VIRTUAL TABLE INDEX 1:

-- isRunVisible
select 1 as visible where true

-- isRunVisible (filtered)
-- (run_id text, deployment text, filter text)
select 1 as visible where exists (select 1 from runs of_run where of_run.run_id = ?
    and of_run.deployment = ? and exists (select 1 from threads permitting where permitting.deployment = "of_run"."deployment"
    and permitting.thread_id = "of_run"."thread_id" and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) )
-- Postgres:
select 1 as visible where exists (select 1 from runs of_run where of_run.run_id = $1::text
    and of_run.deployment = $2::text and exists (select 1 from threads permitting where permitting.deployment = "of_run"."deployment"
    and permitting.thread_id = "of_run"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($3::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) offset 0)
--   SEARCH of_run EXISTS USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH permitting USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:

-- selectObstacles
-- (deployment text, route text, idempotency_key text, token_id text)
select t.expires_at, t.submissions, k.run_id as feedback_id, k.body_hash
    from feedback_tokens t left join idempotency_keys k
      on k.deployment = (select ?) and k.route = (select ?) and k.key = (select ?)
    where t.token_id = (select ?)
--   SEARCH t USING INDEX sqlite_autoindex_feedback_tokens_1 (token_id=?)
--   SEARCH k USING INDEX sqlite_autoindex_idempotency_keys_1 (deployment=? AND route=? AND key=?) LEFT-JOIN

-- selectRecord
-- (id text)
select * from "feedback" where "id" = ?
--   SEARCH feedback USING INDEX sqlite_autoindex_feedback_1 (id=?)

-- selectRecords ({"one_workspace":true,"lists":[],"min_created_at":false,"max_created_at":false,"filtered":false,"has_comment":true,"has_score":false,"level":"run"})
-- (workspace_id text, limit bigint, offset bigint)
select * from "feedback" where workspace_id = (select ?) and coalesce(comment, '') <> '' and score is null and run_id is not null order by "created_at" desc, "id" limit (select ?) offset (select ?)
--   SEARCH feedback USING INDEX feedback_created (workspace_id=?)
--   USE TEMP B-TREE FOR LAST TERM OF ORDER BY

-- selectRecords ({"one_workspace":false,"lists":["id"],"min_created_at":true,"max_created_at":true,"filtered":false})
-- (workspace_ids text, id text, min_created_at bigint, max_created_at bigint, limit bigint, offset bigint)
select * from "feedback" where workspace_id || '' in (select value from json_each((select ?))) and "id" in (select value from json_each((select ?))) and created_at >= (select ?) and created_at <= (select ?) order by "created_at" desc, "id" limit (select ?) offset (select ?)
-- Postgres:
select * from "feedback" where workspace_id || '' in (select value collate "C" as value from json_array_elements_text($1::text::json)) and "id" in (select value collate "C" as value from json_array_elements_text($2::text::json)) and created_at >= $3::bigint and created_at <= $4::bigint order by "created_at" desc, "id" limit $5::bigint offset $6::bigint
--   SEARCH feedback USING INDEX sqlite_autoindex_feedback_1 (id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     CREATE BLOOM FILTER
--   USE TEMP B-TREE FOR ORDER BY

-- selectRecords ({"one_workspace":true,"lists":["run_id","project_id","key","source","user_id"],"min_created_at":false,"max_created_at":false,"filtered":true})
-- (workspace_id text, run_id text, project_id text, key text, source text, user_id text, deployment text, filter text, limit bigint, offset bigint)
select * from "feedback" where workspace_id || '' = (select ?) and "run_id" in (select value from json_each((select ?))) and "project_id" in (select value from json_each((select ?))) and "key" in (select value from json_each((select ?))) and "source" in (select value from json_each((select ?))) and "user_id" in (select value from json_each((select ?))) and exists (select 1 from runs of_run where of_run.run_id = feedback.run_id
    and of_run.deployment = (select ?) and exists (select 1 from threads permitting where permitting.deployment = "of_run"."deployment"
    and permitting.thread_id = "of_run"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) ) order by "created_at" desc, "id" limit (select ?) offset (select ?)
-- Postgres:
select * from "feedback" where workspace_id || '' = $1::text and "run_id" in (select value collate "C" as value from json_array_elements_text($2::text::json)) and "project_id" in (select value collate "C" as value from json_array_elements_text($3::text::json)) and "key" in (select value collate "C" as value from json_array_elements_text($4::text::json)) and "source" in (select value collate "C" as value from json_array_elements_text($5::text::json)) and "user_id" in (select value collate "C" as value from json_array_elements_text($6::text::json)) and exists (select 1 from runs of_run where of_run.run_id = feedback.run_id
    and of_run.deployment = $7::text and exists (select 1 from threads permitting where permitting.deployment = "of_run"."deployment"
    and permitting.thread_id = "of_run"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($8::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) offset 0) order by "created_at" desc, "id" limit $9::bigint offset $10::bigint
--   SEARCH feedback USING INDEX feedback_run (run_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     CREATE BLOOM FILTER
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     CREATE BLOOM FILTER
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     CREATE BLOOM FILTER
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     CREATE BLOOM FILTER
--   CORRELATED SCALAR SUBQUERY
--     SEARCH of_run USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:
--   USE TEMP B-TREE FOR ORDER BY

-- selectToken
-- (token_id text)
select * from "feedback_tokens" where "token_id" = ?
--   SEARCH feedback_tokens USING INDEX sqlite_autoindex_feedback_tokens_1 (token_id=?)

-- selectTokens ({"of_run":true,"after":false,"sort_order":"asc","filtered":false})
-- (workspace_ids text, run_id text, limit bigint, offset bigint)
select * from "feedback_tokens" where "workspace_id" in (select value from json_each((select ?))) and "run_id" = (select ?) and true order by "created_at" asc, "token_id" asc limit (select ?) offset (select ?)
-- Postgres:
select * from "feedback_tokens" where "workspace_id" in (select value collate "C" as value from json_array_elements_text($1::text::json)) and "run_id" = $2::text and true order by "created_at" asc, "token_id" asc limit $3::bigint offset $4::bigint
--   SEARCH feedback_tokens USING INDEX feedback_tokens_run (run_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     CREATE BLOOM FILTER

-- selectTokens ({"of_run":true,"after":false,"sort_order":"desc","filtered":true})
-- (workspace_ids text, run_id text, deployment text, filter text, limit bigint, offset bigint)
select * from "feedback_tokens" where "workspace_id" in (select value from json_each((select ?))) and "run_id" = (select ?) and exists (select 1 from runs of_run where of_run.run_id = feedback_tokens.run_id
    and of_run.deployment = (select ?) and exists (select 1 from threads permitting where permitting.deployment = "of_run"."deployment"
    and permitting.thread_id = "of_run"."thread_id" and not exists (select 1 from json_each((select ?)) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) ) order by "created_at" desc, "token_id" desc limit (select ?) offset (select ?)
-- Postgres:
select * from "feedback_tokens" where "workspace_id" in (select value collate "C" as value from json_array_elements_text($1::text::json)) and "run_id" = $2::text and exists (select 1 from runs of_run where of_run.run_id = feedback_tokens.run_id
    and of_run.deployment = $3::text and exists (select 1 from threads permitting where permitting.deployment = "of_run"."deployment"
    and permitting.thread_id = "of_run"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($4::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) offset 0) order by "created_at" desc, "token_id" desc limit $5::bigint offset $6::bigint
--   SEARCH feedback_tokens USING INDEX feedback_tokens_run (run_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     CREATE BLOOM FILTER
--   CORRELATED SCALAR SUBQUERY
--     SEARCH of_run USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:

-- selectTokens ({"of_run":false,"after":true,"sort_order":"desc","filtered":false})
-- (workspace_ids text, deployment text, after_created_at bigint, after_id text, limit bigint, offset bigint)
select * from "feedback_tokens" where "workspace_id" in (select value from json_each((select ?))) and "deployment" = (select ?) and (created_at, token_id) < ((select ?), (select ?)) and true order by "created_at" desc, "token_id" desc limit (select ?) offset (select ?)
-- Postgres:
select * from "feedback_tokens" where "workspace_id" in (select value collate "C" as value from json_array_elements_text($1::text::json)) and "deployment" = $2::text and (created_at, token_id) < ($3::bigint, $4::text) and true order by "created_at" desc, "token_id" desc limit $5::bigint offset $6::bigint
--   SEARCH feedback_tokens USING INDEX feedback_tokens_created (deployment=? AND (created_at,token_id)<(?,?))
--   REUSE SUBQUERY
--   REUSE SUBQUERY
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     CREATE BLOOM FILTER

-- summarizeBuckets ({"one_workspace":false,"lists":[],"min_created_at":false,"max_created_at":false,"filtered":false})
-- (origin bigint, stride_ms bigint, workspace_ids text)
select key, cast((created_at - (select ?)) / (select ?) as bigint) as bucket, count(*) as n,
      avg(case score when 'true' then 1 when 'false' then 0 else cast(score as double precision) end) as avg, min(case score when 'true' then 1 when 'false' then 0 else cast(score as double precision) end) as min, max(case score when 'true' then 1 when 'false' then 0 else cast(score as double precision) end) as max
    from feedback where workspace_id in (select value from json_each((select ?))) group by key, 2 order by key, bucket
-- Postgres:
select key, cast((created_at - $1::bigint) / $2::bigint as bigint) as bucket, count(*) as n,
      avg(case score when 'true' then 1 when 'false' then 0 else cast(score as double precision) end) as avg, min(case score when 'true' then 1 when 'false' then 0 else cast(score as double precision) end) as min, max(case score when 'true' then 1 when 'false' then 0 else cast(score as double precision) end) as max
    from feedback where workspace_id in (select value collate "C" as value from json_array_elements_text($3::text::json)) group by key, 2 order by key, bucket
--   SEARCH feedback USING INDEX feedback_created (workspace_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--   USE TEMP B-TREE FOR GROUP BY
--   USE TEMP B-TREE FOR ORDER BY

-- summarizeBuckets ({"one_workspace":true,"lists":["run_id"],"min_created_at":false,"max_created_at":false,"filtered":false})
-- (origin bigint, stride_ms bigint, workspace_id text, run_id text)
select key, cast((created_at - (select ?)) / (select ?) as bigint) as bucket, count(*) as n,
      avg(case score when 'true' then 1 when 'false' then 0 else cast(score as double precision) end) as avg, min(case score when 'true' then 1 when 'false' then 0 else cast(score as double precision) end) as min, max(case score when 'true' then 1 when 'false' then 0 else cast(score as double precision) end) as max
    from feedback where workspace_id || '' = (select ?) and "run_id" in (select value from json_each((select ?))) group by key, 2 order by key, bucket
-- Postgres:
select key, cast((created_at - $1::bigint) / $2::bigint as bigint) as bucket, count(*) as n,
      avg(case score when 'true' then 1 when 'false' then 0 else cast(score as double precision) end) as avg, min(case score when 'true' then 1 when 'false' then 0 else cast(score as double precision) end) as min, max(case score when 'true' then 1 when 'false' then 0 else cast(score as double precision) end) as max
    from feedback where workspace_id || '' = $3::text and "run_id" in (select value collate "C" as value from json_array_elements_text($4::text::json)) group by key, 2 order by key, bucket
--   SEARCH feedback USING INDEX feedback_run (run_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--   USE TEMP B-TREE FOR GROUP BY
--   USE TEMP B-TREE FOR ORDER BY

-- summarizeRecords ({"one_workspace":false,"lists":[],"min_created_at":false,"max_created_at":false,"filtered":false})
-- (workspace_ids text)
select key, case when substr(value, 1, 1) = '"' then value end as label, count(*) as n, count(score) as scored, sum(case score when 'true' then 1 when 'false' then 0 else cast(score as double precision) end) as sum, min(case score when 'true' then 1 when 'false' then 0 else cast(score as double precision) end) as min,
      max(case score when 'true' then 1 when 'false' then 0 else cast(score as double precision) end) as max
    from feedback where workspace_id in (select value from json_each((select ?))) group by key, case when substr(value, 1, 1) = '"' then value end order by key
-- Postgres:
select key, case when substr(value, 1, 1) = '"' then value end as label, count(*) as n, count(score) as scored, sum(case score when 'true' then 1 when 'false' then 0 else cast(score as double precision) end) as sum, min(case score when 'true' then 1 when 'false' then 0 else cast(score as double precision) end) as min,
      max(case score when 'true' then 1 when 'false' then 0 else cast(score as double precision) end) as max
    from feedback where workspace_id in (select value collate "C" as value from json_array_elements_text($1::text::json)) group by key, case when substr(value, 1, 1) = '"' then value end order by key
--   SEARCH feedback USING INDEX feedback_created (workspace_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--   USE TEMP B-TREE FOR GROUP BY
--   USE TEMP B-TREE FOR ORDER BY

-- summarizeRecords ({"one_workspace":true,"lists":["run_id"],"min_created_at":false,"max_created_at":false,"filtered":false})
-- (workspace_id text, run_id text)
select key, case when substr(value, 1, 1) = '"' then value end as label, count(*) as n, count(score) as scored, sum(case score when 'true' then 1 when 'false' then 0 else cast(score as double precision) end) as sum, min(case score when 'true' then 1 when 'false' then 0 else cast(score as double precision) end) as min,
      max(case score when 'true' then 1 when 'false' then 0 else cast(score as double precision) end) as max
    from feedback where workspace_id || '' = (select ?) and "run_id" in (select value from json_each((select ?))) group by key, case when substr(value, 1, 1) = '"' then value end order by key
-- Postgres:
select key, case when substr(value, 1, 1) = '"' then value end as label, count(*) as n, count(score) as scored, sum(case score when 'true' then 1 when 'false' then 0 else cast(score as double precision) end) as sum, min(case score when 'true' then 1 when 'false' then 0 else cast(score as double precision) end) as min,
      max(case score when 'true' then 1 when 'false' then 0 else cast(score as double precision) end) as max
    from feedback where workspace_id || '' = $1::text and "run_id" in (select value collate "C" as value from json_array_elements_text($2::text::json)) group by key, case when substr(value, 1, 1) = '"' then value end order by key
--   SEARCH feedback USING INDEX feedback_run (run_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--   USE TEMP B-TREE FOR GROUP BY
--   USE TEMP B-TREE FOR ORDER BY

-- updateRecord ({"changes":["comment","score"],"filtered":false})
-- (now bigint, score text, comment text, id text, workspace_ids text)
update "feedback" set "modified_at" = ?, "score" = ?, "comment" = ? where "id" = ? and "workspace_id" in (select value from json_each(?)) and true returning *
-- Postgres:
update "feedback" set "modified_at" = $1::bigint, "score" = $2::text, "comment" = $3::text where "id" = $4::text and "workspace_id" in (select value collate "C" as value from json_array_elements_text($5::text::json)) and true returning *
--   SEARCH feedback USING INDEX sqlite_autoindex_feedback_1 (id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     CREATE BLOOM FILTER

-- updateRecord ({"changes":[],"filtered":true})
-- (now bigint, id text, workspace_ids text, deployment text, filter text)
update "feedback" set "modified_at" = ? where "id" = ? and "workspace_id" in (select value from json_each(?)) and exists (select 1 from runs of_run where of_run.run_id = feedback.run_id
    and of_run.deployment = ? and exists (select 1 from threads permitting where permitting.deployment = "of_run"."deployment"
    and permitting.thread_id = "of_run"."thread_id" and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(permitting.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))) ) returning *
-- Postgres:
update "feedback" set "modified_at" = $1::bigint where "id" = $2::text and "workspace_id" in (select value collate "C" as value from json_array_elements_text($3::text::json)) and exists (select 1 from runs of_run where of_run.run_id = feedback.run_id
    and of_run.deployment = $4::text and exists (select 1 from threads permitting where permitting.deployment = "of_run"."deployment"
    and permitting.thread_id = "of_run"."thread_id" and not exists (select 1 from json_array_elements(replace(replace(replace($5::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(permitting.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))) offset 0) returning *
--   SEARCH feedback USING INDEX sqlite_autoindex_feedback_1 (id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     CREATE BLOOM FILTER
--   CORRELATED SCALAR SUBQUERY
--     SEARCH of_run USING INDEX sqlite_autoindex_runs_1 (run_id=?)
--     SEARCH permitting EXISTS USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--     CORRELATED SCALAR SUBQUERY
--       SCAN c VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN m VIRTUAL TABLE INDEX 1:
--         CORRELATED SCALAR SUBQUERY
--           SCAN e VIRTUAL TABLE INDEX 1:
