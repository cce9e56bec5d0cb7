-- deleteEntriesOfRow ({"kind":"assistant"})
-- (deployment text, id text, deployment text, id text)
delete from labels where kind in ('assistant') and not exists (select 1 from "assistants" gone
    where gone.deployment = ? and gone."assistant_id" = ?) and deployment = ? and row_id = ?
--   SEARCH labels USING PRIMARY KEY (deployment=? AND kind=? AND row_id=?)
--   SCALAR SUBQUERY
--     SEARCH gone USING COVERING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)

-- deleteEntriesOfRow ({"kind":"thread"})
-- (deployment text, id text, deployment text, id text)
delete from labels where kind in ('thread', 'values') and not exists (select 1 from "threads" gone
    where gone.deployment = ? and gone."thread_id" = ?) and deployment = ? and row_id = ?
--   SEARCH labels USING PRIMARY KEY (deployment=? AND kind=? AND row_id=?)
--   SCALAR SUBQUERY
--     SEARCH gone USING COVERING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)

-- deleteEntriesOfRow ({"kind":"cron"})
-- (deployment text, id text, deployment text, id text)
delete from labels where kind in ('cron') and not exists (select 1 from "crons" gone
    where gone.deployment = ? and gone."cron_id" = ?) and deployment = ? and row_id = ?
--   SEARCH labels USING PRIMARY KEY (deployment=? AND kind=? AND row_id=?)
--   SCALAR SUBQUERY
--     SEARCH gone USING COVERING INDEX sqlite_autoindex_crons_1 (deployment=? AND cron_id=?)

-- deleteOtherEntries ({"source":"assistant"})
-- (deployment text, id text, deployment text, id text, indexed text, entries text)
delete from labels where deployment = (select ?) and kind = 'assistant'
      and row_id = (select ?) and (select "metadata" from "assistants" where deployment = (select ?)
    and "assistant_id" = (select ?)) = (select ?)
      and (path_hash, value_hash) not in
        (select path_hash, value_hash from (select json_extract(value, '$[0]') as "path_hash", json_extract(value, '$[1]') as "value_hash" from json_each((select ?))) as listed)
-- Postgres:
delete from labels where deployment = $1::text and kind = 'assistant'
      and row_id = $2::text and (select "metadata" from "assistants" where deployment = $3::text
    and "assistant_id" = $4::text) = $5::text
      and (path_hash, value_hash) not in
        (select path_hash, value_hash from (select (value ->> 0)::bigint as "path_hash", (value ->> 1)::bigint as "value_hash" from json_array_elements($6::text::json)) as listed)
--   SEARCH labels USING PRIMARY KEY (deployment=? AND kind=? AND row_id=?)
--   SCALAR SUBQUERY
--     SEARCH assistants USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     CREATE BLOOM FILTER

-- deleteOtherEntries ({"source":"thread"})
-- (deployment text, id text, deployment text, id text, indexed text, entries text)
delete from labels where deployment = (select ?) and kind = 'thread'
      and row_id = (select ?) and (select "metadata" from "threads" where deployment = (select ?)
    and "thread_id" = (select ?) and hidden = 0) = (select ?)
      and (path_hash, value_hash) not in
        (select path_hash, value_hash from (select json_extract(value, '$[0]') as "path_hash", json_extract(value, '$[1]') as "value_hash" from json_each((select ?))) as listed)
-- Postgres:
delete from labels where deployment = $1::text and kind = 'thread'
      and row_id = $2::text and (select "metadata" from "threads" where deployment = $3::text
    and "thread_id" = $4::text and hidden = 0) = $5::text
      and (path_hash, value_hash) not in
        (select path_hash, value_hash from (select (value ->> 0)::bigint as "path_hash", (value ->> 1)::bigint as "value_hash" from json_array_elements($6::text::json)) as listed)
--   SEARCH labels USING PRIMARY KEY (deployment=? AND kind=? AND row_id=?)
--   SCALAR SUBQUERY
--     SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     CREATE BLOOM FILTER

-- deleteOtherEntries ({"source":"cron"})
-- (deployment text, id text, deployment text, id text, indexed text, entries text)
delete from labels where deployment = (select ?) and kind = 'cron'
      and row_id = (select ?) and (select "metadata" from "crons" where deployment = (select ?)
    and "cron_id" = (select ?)) = (select ?)
      and (path_hash, value_hash) not in
        (select path_hash, value_hash from (select json_extract(value, '$[0]') as "path_hash", json_extract(value, '$[1]') as "value_hash" from json_each((select ?))) as listed)
-- Postgres:
delete from labels where deployment = $1::text and kind = 'cron'
      and row_id = $2::text and (select "metadata" from "crons" where deployment = $3::text
    and "cron_id" = $4::text) = $5::text
      and (path_hash, value_hash) not in
        (select path_hash, value_hash from (select (value ->> 0)::bigint as "path_hash", (value ->> 1)::bigint as "value_hash" from json_array_elements($6::text::json)) as listed)
--   SEARCH labels USING PRIMARY KEY (deployment=? AND kind=? AND row_id=?)
--   SCALAR SUBQUERY
--     SEARCH crons USING INDEX sqlite_autoindex_crons_1 (deployment=? AND cron_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     CREATE BLOOM FILTER

-- deleteOtherEntries ({"source":"values"})
-- (deployment text, id text, deployment text, id text, indexed text, entries text)
delete from labels where deployment = (select ?) and kind = 'values'
      and row_id = (select ?) and (select "head" from "threads" where deployment = (select ?)
    and "thread_id" = (select ?) and hidden = 0) = (select ?)
      and (path_hash, value_hash) not in
        (select path_hash, value_hash from (select json_extract(value, '$[0]') as "path_hash", json_extract(value, '$[1]') as "value_hash" from json_each((select ?))) as listed)
-- Postgres:
delete from labels where deployment = $1::text and kind = 'values'
      and row_id = $2::text and (select "head" from "threads" where deployment = $3::text
    and "thread_id" = $4::text and hidden = 0) = $5::text
      and (path_hash, value_hash) not in
        (select path_hash, value_hash from (select (value ->> 0)::bigint as "path_hash", (value ->> 1)::bigint as "value_hash" from json_array_elements($6::text::json)) as listed)
--   SEARCH labels USING PRIMARY KEY (deployment=? AND kind=? AND row_id=?)
--   SCALAR SUBQUERY
--     SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   LIST SUBQUERY
--     SCAN json_each VIRTUAL TABLE INDEX 1:
--     CREATE BLOOM FILTER

-- insertEntries ({"source":"assistant"})
-- (deployment text, id text, deployment text, id text, entries text, deployment text, id text, indexed text)
insert into labels (deployment, kind, row_id, created_at, path_hash, value_hash, exact)
      select (select ?), 'assistant', (select ?), (select "created_at" from "assistants" where deployment = (select ?)
    and "assistant_id" = (select ?)), v.*
      from (select json_extract(value, '$[0]') as "path_hash", json_extract(value, '$[1]') as "value_hash", json_extract(value, '$[2]') as "exact" from json_each((select ?))) as v
      where (select "metadata" from "assistants" where deployment = (select ?)
    and "assistant_id" = (select ?)) = (select ?) on conflict (deployment, kind, row_id, path_hash, value_hash)
        do update set exact = excluded.exact where labels.exact is distinct from excluded.exact
-- Postgres:
insert into labels (deployment, kind, row_id, created_at, path_hash, value_hash, exact)
      select $1::text, 'assistant', $2::text, (select "created_at" from "assistants" where deployment = $3::text
    and "assistant_id" = $4::text), v.*
      from (select (value ->> 0)::bigint as "path_hash", (value ->> 1)::bigint as "value_hash", (value ->> 2) collate "C" as "exact" from json_array_elements($5::text::json)) as v
      where (select "metadata" from "assistants" where deployment = $6::text
    and "assistant_id" = $7::text) = $8::text on conflict (deployment, kind, row_id, path_hash, value_hash)
        do update set exact = excluded.exact where labels.exact is distinct from excluded.exact
--   SCAN json_each VIRTUAL TABLE INDEX 1:
--   SCALAR SUBQUERY
--     SEARCH assistants USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--   SCALAR SUBQUERY
--     SEARCH assistants USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)

-- insertEntries ({"source":"thread"})
-- (deployment text, id text, deployment text, id text, entries text, deployment text, id text, indexed text)
insert into labels (deployment, kind, row_id, created_at, path_hash, value_hash, exact)
      select (select ?), 'thread', (select ?), (select "created_at" from "threads" where deployment = (select ?)
    and "thread_id" = (select ?)), v.*
      from (select json_extract(value, '$[0]') as "path_hash", json_extract(value, '$[1]') as "value_hash", json_extract(value, '$[2]') as "exact" from json_each((select ?))) as v
      where (select "metadata" from "threads" where deployment = (select ?)
    and "thread_id" = (select ?) and hidden = 0) = (select ?) on conflict (deployment, kind, row_id, path_hash, value_hash)
        do update set exact = excluded.exact where labels.exact is distinct from excluded.exact
-- Postgres:
insert into labels (deployment, kind, row_id, created_at, path_hash, value_hash, exact)
      select $1::text, 'thread', $2::text, (select "created_at" from "threads" where deployment = $3::text
    and "thread_id" = $4::text), v.*
      from (select (value ->> 0)::bigint as "path_hash", (value ->> 1)::bigint as "value_hash", (value ->> 2) collate "C" as "exact" from json_array_elements($5::text::json)) as v
      where (select "metadata" from "threads" where deployment = $6::text
    and "thread_id" = $7::text and hidden = 0) = $8::text on conflict (deployment, kind, row_id, path_hash, value_hash)
        do update set exact = excluded.exact where labels.exact is distinct from excluded.exact
--   SCAN json_each VIRTUAL TABLE INDEX 1:
--   SCALAR SUBQUERY
--     SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SCALAR SUBQUERY
--     SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)

-- insertEntries ({"source":"cron"})
-- (deployment text, id text, deployment text, id text, entries text, deployment text, id text, indexed text)
insert into labels (deployment, kind, row_id, created_at, path_hash, value_hash, exact)
      select (select ?), 'cron', (select ?), (select "created_at" from "crons" where deployment = (select ?)
    and "cron_id" = (select ?)), v.*
      from (select json_extract(value, '$[0]') as "path_hash", json_extract(value, '$[1]') as "value_hash", json_extract(value, '$[2]') as "exact" from json_each((select ?))) as v
      where (select "metadata" from "crons" where deployment = (select ?)
    and "cron_id" = (select ?)) = (select ?) on conflict (deployment, kind, row_id, path_hash, value_hash)
        do update set exact = excluded.exact where labels.exact is distinct from excluded.exact
-- Postgres:
insert into labels (deployment, kind, row_id, created_at, path_hash, value_hash, exact)
      select $1::text, 'cron', $2::text, (select "created_at" from "crons" where deployment = $3::text
    and "cron_id" = $4::text), v.*
      from (select (value ->> 0)::bigint as "path_hash", (value ->> 1)::bigint as "value_hash", (value ->> 2) collate "C" as "exact" from json_array_elements($5::text::json)) as v
      where (select "metadata" from "crons" where deployment = $6::text
    and "cron_id" = $7::text) = $8::text on conflict (deployment, kind, row_id, path_hash, value_hash)
        do update set exact = excluded.exact where labels.exact is distinct from excluded.exact
--   SCAN json_each VIRTUAL TABLE INDEX 1:
--   SCALAR SUBQUERY
--     SEARCH crons USING INDEX sqlite_autoindex_crons_1 (deployment=? AND cron_id=?)
--   SCALAR SUBQUERY
--     SEARCH crons USING INDEX sqlite_autoindex_crons_1 (deployment=? AND cron_id=?)

-- insertEntries ({"source":"values"})
-- (deployment text, id text, deployment text, id text, entries text, deployment text, id text, indexed text)
insert into labels (deployment, kind, row_id, created_at, path_hash, value_hash, exact)
      select (select ?), 'values', (select ?), (select "created_at" from "threads" where deployment = (select ?)
    and "thread_id" = (select ?)), v.*
      from (select json_extract(value, '$[0]') as "path_hash", json_extract(value, '$[1]') as "value_hash", json_extract(value, '$[2]') as "exact" from json_each((select ?))) as v
      where (select "head" from "threads" where deployment = (select ?)
    and "thread_id" = (select ?) and hidden = 0) = (select ?) on conflict (deployment, kind, row_id, path_hash, value_hash)
        do update set exact = excluded.exact where labels.exact is distinct from excluded.exact
-- Postgres:
insert into labels (deployment, kind, row_id, created_at, path_hash, value_hash, exact)
      select $1::text, 'values', $2::text, (select "created_at" from "threads" where deployment = $3::text
    and "thread_id" = $4::text), v.*
      from (select (value ->> 0)::bigint as "path_hash", (value ->> 1)::bigint as "value_hash", (value ->> 2) collate "C" as "exact" from json_array_elements($5::text::json)) as v
      where (select "head" from "threads" where deployment = $6::text
    and "thread_id" = $7::text and hidden = 0) = $8::text on conflict (deployment, kind, row_id, path_hash, value_hash)
        do update set exact = excluded.exact where labels.exact is distinct from excluded.exact
--   SCAN json_each VIRTUAL TABLE INDEX 1:
--   SCALAR SUBQUERY
--     SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
--   SCALAR SUBQUERY
--     SEARCH threads USING INDEX sqlite_autoindex_threads_1 (deployment=? AND thread_id=?)
