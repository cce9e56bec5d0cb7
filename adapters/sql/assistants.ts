import type { JsonObject } from "../../lib/json.ts";
import type {
  AssistantContent,
  AssistantQuery,
  AssistantRow,
  AssistantStorage,
  AssistantVersionRow,
  NewAssistant,
  Scope,
} from "../../lib/storage/mod.ts";
import { permits } from "../../lib/storage/visibility.ts";
import { includes } from "./dialect.ts";
import type { SqlRow } from "./driver.ts";
import { andPermitted, scoped } from "./filter.ts";
import { addLabels, dropLabels, isEmpty, matches, replaceLabels } from "./labels.ts";
import type { Tables } from "./schema/tables.ts";
import { findRows, type Sought } from "./search.ts";
import { type Database, prepared, readOne, statement } from "./statement.ts";
import { type RawBuilder, sql } from "./template.ts";
import { deleteThreadsOf } from "./threads.ts";

type Key = { deployment: string; assistant_id: string };
type Content = Pick<Tables["assistants"], keyof AssistantContent>;

const versionColumns = sql`deployment, assistant_id, version, graph_id, name, description, config, context, metadata`;

// The revision is not 1: an assistant that was deleted and created again must have another one than the old one.
const insertAssistant = prepared<Key & Content & { now: number }>(
  (p) =>
    sql`insert into assistants (${versionColumns}, created_at, updated_at, revision)
    values (${p.deployment}, ${p.assistant_id}, 1, ${p.graph_id}, ${p.name}, ${p.description}, ${p.config}, ${p.context},
      ${p.metadata}, ${p.now}, ${p.now}, ${p.now})
    on conflict do nothing returning *`,
);

const insertFirstVersion = prepared<Key>(
  (p) =>
    sql`insert into assistant_versions (${versionColumns}, created_at)
    select ${versionColumns}, updated_at from assistants where deployment = ${p.deployment} and assistant_id = ${p.assistant_id}
    on conflict do nothing`,
);

const itsMetadata = sql`assistants.metadata`;

const getAssistant = scoped<Key>(
  (p, bound) =>
    sql`select * from assistants where deployment = ${p.deployment} and assistant_id = ${p.assistant_id}
    ${andPermitted(itsMetadata, bound)}`,
);

const insertNextVersion = prepared<Key & Content & { seen_revision: number; now: number }>(
  (p) =>
    sql`insert into assistant_versions (${versionColumns}, created_at)
    select a.deployment, a.assistant_id,
      (select max(v.version) + 1 from assistant_versions v
        where v.deployment = a.deployment and v.assistant_id = a.assistant_id),
      ${p.graph_id}, ${p.name}, ${p.description}, ${p.config}, ${p.context}, ${p.metadata}, ${p.now}
    from assistants a
    where a.deployment = ${p.deployment} and a.assistant_id = ${p.assistant_id} and a.revision = ${p.seen_revision}`,
);

/** Makes `version` the active one; null: the newest. The arguments contain the content of that version. */
const activate = prepared<Key & Content & { version: number | null; seen_revision: number; now: number }>(
  (p) =>
    sql`update assistants set graph_id = ${p.graph_id}, name = ${p.name}, description = ${p.description},
      config = ${p.config}, context = ${p.context}, metadata = ${p.metadata}, updated_at = ${p.now},
      version = coalesce(${p.version}, (select max(v.version) from assistant_versions v
        where v.deployment = assistants.deployment and v.assistant_id = assistants.assistant_id)),
      revision = revision + 1
    where deployment = ${p.deployment} and assistant_id = ${p.assistant_id} and revision = ${p.seen_revision}
    returning *`,
);

const getVersion = prepared<Key & { version: number }>(
  (p) =>
    sql`select * from assistant_versions where deployment = ${p.deployment} and assistant_id = ${p.assistant_id}
    and version = ${p.version}`,
);

const deleteAssistant = scoped<Key>(
  (p, bound) =>
    sql`delete from assistants where deployment = ${p.deployment} and assistant_id = ${p.assistant_id}
    ${andPermitted(itsMetadata, bound)} returning assistant_id`,
);

/** The verbs on assistants and their versions. */
export function assistantVerbs(driver: Database): AssistantStorage {
  const get = ({ deployment, filter }: Scope, assistant_id: string): Promise<AssistantRow | null> =>
    readOne(driver, getAssistant({ deployment, assistant_id }, filter), toAssistant);
  return {
    /**
     * @statements insertAssistant · insertFirstVersion · addLabels · getAssistant
     * @guards insert, `on conflict do nothing` · insert version 1 · labels · select the row. Outcome: rows of the
     *   insert.
     */
    async createAssistant({ deployment }, assistant: NewAssistant, now) {
      const { assistant_id } = assistant;
      const results = await driver.batch([
        insertAssistant({ deployment, assistant_id, ...toContent(assistant), now }),
        insertFirstVersion({ deployment, assistant_id }),
        ...addLabels("assistant", deployment, assistant_id, assistant.metadata),
        getAssistant({ deployment, assistant_id }, undefined),
      ]);
      return {
        kind: results[0]?.length ? "created" : "exists",
        assistant: toAssistant(results.at(-1)?.[0] as SqlRow),
      };
    },

    /** @statements getAssistant */
    getAssistant: get,

    /**
     * @statements findRows
     * @guards Follows the rarest label and checks the rest on the row (`search.ts`).
     */
    async searchAssistants(scope, query) {
      const { sort_by } = query;
      const { rows, total } = await findRows(driver, sought(scope, query), {
        ...query,
        columns: sql<SqlRow>`assistants.*`,
        by: sort_by === "created_at" ? sort_by : sql.ref(`assistants.${sort_by}`),
      });
      return { rows: rows.map(toAssistant), total };
    },

    /**
     * @statements getAssistant · insertNextVersion · activate · replaceLabels
     * @guards read · insert version max + 1 where `revision = seen` · update the row where `revision = seen`, version =
     *   max · labels. Retries.
     */
    async updateAssistant(scope, assistant_id, next, now) {
      const { deployment } = scope;
      for (;;) {
        const active = await get(scope, assistant_id);
        if (!active) return null;
        const content = next(active);
        const args = { deployment, assistant_id, ...toContent(content), seen_revision: active.revision, now };
        const [, updated] = await driver.batch([
          insertNextVersion(args),
          activate({ ...args, version: null }),
          ...replaceLabels("assistant", deployment, assistant_id, content.metadata),
        ]);
        if (updated?.[0]) return toAssistant(updated[0]);
      }
    },

    /**
     * @statements getAssistant · getVersion · activate · replaceLabels
     * @guards read assistant and version; the filter must permit the version's metadata · update where `revision = seen`
     *   · labels. Retries.
     */
    async setLatest(scope, assistant_id, version, now) {
      const { deployment } = scope;
      for (;;) {
        const active = await get(scope, assistant_id);
        if (!active) return { kind: "assistant_not_found" };
        const [stored] = await driver.read(getVersion({ deployment, assistant_id, version }));
        if (!stored) return { kind: "version_not_found" };
        const content = toVersion(stored);
        if (!permits(scope.filter, content.metadata)) return { kind: "hidden" };
        const [updated] = await driver.batch([
          activate({ deployment, assistant_id, ...toContent(content), version, seen_revision: active.revision, now }),
          ...replaceLabels("assistant", deployment, assistant_id, content.metadata),
        ]);
        if (updated?.[0]) return { kind: "updated", assistant: toAssistant(updated[0]) };
      }
    },

    /**
     * @statements deleteAssistant · dropLabels · deleteThreadsOf
     * @guards delete (versions, crons by foreign key) · delete its labels if it is gone · with `delete_threads`: tokens,
     *   turns, threads and labels of threads whose `metadata.assistant_id` names it, only if the assistant is gone.
     */
    async deleteAssistant({ deployment, filter }, assistant_id, { delete_threads, threads }) {
      const [deleted] = await driver.batch([
        deleteAssistant({ deployment, assistant_id }, filter),
        dropLabels("assistant", deployment, assistant_id),
        ...(delete_threads ? deleteThreadsOf(deployment, assistant_id, threads?.filter) : []),
      ]);
      return deleted?.length === 1;
    },

    /** @statements getAssistant · statement */
    async listAssistantVersions(scope, assistant_id, query) {
      if (scope.filter && !(await get(scope, assistant_id))) return null;
      const page = isEmpty(query.metadata) ? sql` limit ${query.limit} offset ${query.offset}` : sql``;
      const select = sql`select * from assistant_versions where deployment = ${scope.deployment}
        and assistant_id = ${assistant_id} order by version desc${page}`;
      let rows: readonly SqlRow[] = await driver.read(statement(select));
      if (rows.length === 0) return (await get(scope, assistant_id)) ? [] : null;
      if (!isEmpty(query.metadata)) {
        rows = rows.filter((row) => matches(row, query.metadata)).slice(query.offset, query.offset + query.limit);
      }
      return rows.map(toVersion);
    },
  };
}

function sought({ deployment, filter }: Scope, { metadata, graph_id, name }: AssistantQuery): Sought {
  const where: RawBuilder<unknown>[] = [];
  if (graph_id !== undefined) where.push(sql`assistants.graph_id = ${graph_id}`);
  if (name !== undefined) where.push(includes(sql.ref("assistants.name"), name));
  return { kind: "assistant", deployment, metadata, filter, where };
}

const toContent = ({ graph_id, name, description, config, context, metadata }: AssistantContent): Content => ({
  graph_id,
  name,
  description,
  config: JSON.stringify(config),
  context: JSON.stringify(context),
  metadata: JSON.stringify(metadata),
});

function toVersion(row: SqlRow): AssistantVersionRow {
  const stored = row as unknown as Tables["assistant_versions"];
  return {
    assistant_id: stored.assistant_id,
    version: stored.version,
    graph_id: stored.graph_id,
    name: stored.name,
    description: stored.description,
    config: JSON.parse(stored.config) as JsonObject,
    context: JSON.parse(stored.context) as JsonObject,
    metadata: JSON.parse(stored.metadata) as JsonObject,
    created_at: stored.created_at,
  };
}

function toAssistant(row: SqlRow): AssistantRow {
  const { updated_at, revision } = row as unknown as Tables["assistants"];
  return { ...toVersion(row), updated_at, revision };
}
