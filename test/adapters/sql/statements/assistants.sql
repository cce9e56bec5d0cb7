-- activateVersion
-- (graph_id text, name text, description text, config text, context text, metadata text, now bigint, version bigint, deployment text, assistant_id text, expected_revision bigint)
update "assistants" set "graph_id" = ?, "name" = ?, "description" = ?, "config" = ?, "context" = ?, "metadata" = ?, "updated_at" = ?, "version" = coalesce(?, (select max(v.version) from assistant_versions v
        where v.deployment = assistants.deployment and v.assistant_id = assistants.assistant_id)), "revision" = revision + 1 where "deployment" = ? and "assistant_id" = ? and "revision" = ? returning *
--   SEARCH assistants USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH v USING COVERING INDEX sqlite_autoindex_assistant_versions_1 (deployment=? AND assistant_id=?)

-- advanceRevision
-- (deployment text, assistant_id text, expected_revision bigint)
update "assistants" set "revision" = revision + 1 where "deployment" = ? and "assistant_id" = ? and "revision" = ? returning *
--   SEARCH assistants USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)

-- deleteAssistant
-- (deployment text, assistant_id text)
delete from "assistants" where "deployment" = ? and "assistant_id" = ? and true returning "assistant_id"
--   SEARCH assistants USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--   SEARCH crons USING COVERING INDEX crons_assistant (deployment=? AND assistant_id=?)
--   SEARCH assistant_versions USING COVERING INDEX sqlite_autoindex_assistant_versions_1 (deployment=? AND assistant_id=?)

-- deleteAssistant (filtered)
-- (deployment text, assistant_id text, filter text)
delete from "assistants" where "deployment" = ? and "assistant_id" = ? and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(assistants.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end)) returning "assistant_id"
-- Postgres:
delete from "assistants" where "deployment" = $1::text and "assistant_id" = $2::text and not exists (select 1 from json_array_elements(replace(replace(replace($3::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(assistants.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end)) returning "assistant_id"
--   SEARCH assistants USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:
--   SEARCH crons USING COVERING INDEX crons_assistant (deployment=? AND assistant_id=?)
--   SEARCH assistant_versions USING COVERING INDEX sqlite_autoindex_assistant_versions_1 (deployment=? AND assistant_id=?)

-- insertAssistant
-- (deployment text, assistant_id text, graph_id text, name text, description text, config text, context text, metadata text, now bigint, now bigint, now bigint)
insert into "assistants" ("deployment", "assistant_id", "version", "graph_id", "name", "description", "config", "context", "metadata", "created_at", "updated_at", "revision") values (?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing returning *
--   SEARCH crons USING COVERING INDEX crons_assistant (deployment=? AND assistant_id=?)
--   SEARCH assistant_versions USING COVERING INDEX sqlite_autoindex_assistant_versions_1 (deployment=? AND assistant_id=?)

-- insertFirstVersion
-- (deployment text, assistant_id text)
insert into assistant_versions (deployment, assistant_id, version, graph_id, name, description, config, context, metadata, created_at)
    select deployment, assistant_id, version, graph_id, name, description, config, context, metadata, updated_at from assistants where deployment = ? and assistant_id = ?
    on conflict do nothing
--   SEARCH assistants USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)

-- insertNextVersion
-- (graph_id text, name text, description text, config text, context text, metadata text, now bigint, deployment text, assistant_id text, expected_revision bigint)
insert into assistant_versions (deployment, assistant_id, version, graph_id, name, description, config, context, metadata, created_at)
    select a.deployment, a.assistant_id,
      (select max(v.version) + 1 from assistant_versions v
        where v.deployment = a.deployment and v.assistant_id = a.assistant_id),
      ?, ?, ?, ?, ?, ?, ?
    from assistants a
    where a.deployment = ? and a.assistant_id = ? and a.revision = ?
    returning version
--   SEARCH a USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SEARCH v USING COVERING INDEX sqlite_autoindex_assistant_versions_1 (deployment=? AND assistant_id=?)

-- markAssistant
-- (deployment text, assistant_id text)
update "assistants" set "revision" = -1 where "deployment" = ? and "assistant_id" = ? and true
--   SEARCH assistants USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)

-- markAssistant (filtered)
-- (deployment text, assistant_id text, filter text)
update "assistants" set "revision" = -1 where "deployment" = ? and "assistant_id" = ? and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(assistants.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))
-- Postgres:
update "assistants" set "revision" = -1 where "deployment" = $1::text and "assistant_id" = $2::text and not exists (select 1 from json_array_elements(replace(replace(replace($3::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(assistants.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))
--   SEARCH assistants USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:

-- selectAssistant
-- (deployment text, assistant_id text)
select * from "assistants" where "deployment" = ? and "assistant_id" = ? and true
--   SEARCH assistants USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)

-- selectAssistant (filtered)
-- (deployment text, assistant_id text, filter text)
select * from "assistants" where "deployment" = ? and "assistant_id" = ? and not exists (select 1 from json_each(?) c where not exists (select 1 from json_each(assistants.metadata) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then m.type = json_type(c.value, '$[2]') and m.atom is json_extract(c.value, '$[2]')
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where e.type = json_type(c.value, '$[2]') and e.atom is json_extract(c.value, '$[2]'))
      end))
-- Postgres:
select * from "assistants" where "deployment" = $1::text and "assistant_id" = $2::text and not exists (select 1 from json_array_elements(replace(replace(replace($3::text, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) c where not exists (
      select 1 from json_each(replace(replace(replace(assistants.metadata, '\\', chr(1)), '\u', '\u0001u'), chr(1), '\\')::json) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then json_typeof(m.value) not in ('object', 'array') and m.value::text = (c.value -> 2)::text
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where json_typeof(e.value) not in ('object', 'array') and e.value::text = (c.value -> 2)::text)
      end))
--   SEARCH assistants USING INDEX sqlite_autoindex_assistants_1 (deployment=? AND assistant_id=?)
--   CORRELATED SCALAR SUBQUERY
--     SCAN c VIRTUAL TABLE INDEX 1:
--     CORRELATED SCALAR SUBQUERY
--       SCAN m VIRTUAL TABLE INDEX 1:
--       CORRELATED SCALAR SUBQUERY
--         SCAN e VIRTUAL TABLE INDEX 1:

-- selectVersion
-- (deployment text, assistant_id text, version bigint)
select * from "assistant_versions" where "deployment" = ? and "assistant_id" = ? and "version" = ?
--   SEARCH assistant_versions USING INDEX sqlite_autoindex_assistant_versions_1 (deployment=? AND assistant_id=? AND version=?)

-- selectVersions ({"paged":true})
-- (deployment text, assistant_id text, limit bigint, offset bigint)
select * from "assistant_versions" where "deployment" = ? and "assistant_id" = ? order by "version" desc limit ? offset ?
--   SEARCH assistant_versions USING INDEX sqlite_autoindex_assistant_versions_1 (deployment=? AND assistant_id=?)

-- selectVersions ({"paged":false})
-- (deployment text, assistant_id text)
select * from "assistant_versions" where "deployment" = ? and "assistant_id" = ? order by "version" desc
--   SEARCH assistant_versions USING INDEX sqlite_autoindex_assistant_versions_1 (deployment=? AND assistant_id=?)
