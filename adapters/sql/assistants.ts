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
import { matchesFilter } from "../../lib/storage/visibility.ts";
import { createRowFinder, type Database, readOne } from "./database.ts";
import { deleteIndexEntries, insertIndexEntries, isEmpty, matches, replaceIndexEntries } from "./metadata-index.ts";
import type { ArgumentsFor } from "./parameters.ts";
import type { CoreTables } from "./schema/tables.ts";
import { type MetadataSearch, searchRows } from "./search.ts";
import {
  activateVersion,
  advanceRevision,
  deleteAssistant,
  insertAssistant,
  insertFirstVersion,
  insertNextVersion,
  markAssistant,
  selectAssistant,
  selectVersion,
  selectVersions,
} from "./statements/assistants.ts";
import { selectAssistants } from "./statements/search.ts";
import { deleteAssistantThreads } from "./threads.ts";

type Row = CoreTables["assistants"];
type Content = Pick<Row, keyof AssistantContent>;

/** Creates the storage operations on assistants and their versions. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createAssistantStorage(driver: Database): AssistantStorage {
  const get = ({ deployment, filter }: Scope, assistant_id: string): Promise<AssistantRow | null> =>
    readOne(driver, selectAssistant({ deployment, assistant_id }, filter), toAssistant);
  return {
    /**
     * Inserts the assistant with its version 1 and index entries, or returns the existing row as `exists`.
     * @statements insertAssistant · insertFirstVersion · insertIndexEntries · selectAssistant
     * @guards insert, `on conflict do nothing` · insert version 1 · labels · select the row. Outcome: rows of the
     *   insert.
     */
    async createAssistant({ deployment }, assistant: NewAssistant, now) {
      const { assistant_id } = assistant;
      const key = { deployment, assistant_id };
      const insert = insertAssistant({ ...key, ...toContent(assistant), now });
      const select = selectAssistant(key, undefined);
      const statements = [
        insert,
        insertFirstVersion(key),
        ...insertIndexEntries("assistant", deployment, assistant_id, assistant.metadata),
        select,
      ];
      const findRows = createRowFinder(statements, await driver.batch(statements));
      const [stored] = findRows(select);
      return { kind: findRows(insert).length > 0 ? "created" : "exists", assistant: toAssistant(stored as Row) };
    },

    /** @statements selectAssistant */
    getAssistant: get,

    /** @statements selectVersion */
    async getAssistantVersion({ deployment, filter }, assistant_id, version) {
      const row = await readOne(driver, selectVersion({ deployment, assistant_id, version }), toVersion);
      return row && matchesFilter(filter, row.metadata) ? row : null;
    },

    /**
     * @statements searchRows
     * @guards Follows the rarest label and checks the rest on the row (`search.ts`).
     */
    async searchAssistants(scope, query) {
      const { rows, total } = await searchRows(driver, selectAssistants, toSearch(scope, query), query);
      return { rows: rows.map(toAssistant), total };
    },

    /**
     * Stores the result of `next` as a new version, which is active unless `next` says otherwise. Calls `next` again if the row
     * changed meanwhile. Returns null if there is none.
     * @statements selectAssistant · insertNextVersion · activateVersion · replaceIndexEntries · advanceRevision
     * @guards read · insert version max + 1 where `revision` is as expected · update the row where `revision` is as expected, version =
     *   max; or only `revision` + 1, without the labels · labels. Retries.
     */
    async updateAssistant(scope, assistant_id, next, now) {
      const { deployment } = scope;
      for (;;) {
        const active = await get(scope, assistant_id);
        if (!active) return null;
        const content = next(active);
        const args = { deployment, assistant_id, ...toContent(content), expected_revision: active.revision, now };
        if (content.activate === false) {
          const draft = await insertDraft(driver, args);
          if (draft) return draft;
          continue;
        }
        const [, updated] = await driver.batch([
          insertNextVersion(args),
          activateVersion({ ...args, version: null }),
          ...replaceIndexEntries("assistant", deployment, assistant_id, content.metadata),
        ]);
        if (updated?.[0]) return toAssistant(updated[0]);
      }
    },

    /**
     * Copies an earlier version to the row of the assistant, without a new version.
     * @statements selectAssistant · selectVersion · activateVersion · replaceIndexEntries
     * @guards read assistant and version; the filter must permit the version's metadata · update where `revision` is as expected
     *   · labels. Retries.
     */
    async setLatest(scope, assistant_id, version, now) {
      const { deployment } = scope;
      for (;;) {
        const active = await get(scope, assistant_id);
        if (!active) return { kind: "assistant_not_found" };
        const [stored] = await driver.read(selectVersion({ deployment, assistant_id, version }));
        if (!stored) return { kind: "version_not_found" };
        const content = toVersion(stored);
        if (!matchesFilter(scope.filter, content.metadata)) return { kind: "hidden" };
        const [updated] = await driver.batch([
          activateVersion({
            deployment,
            assistant_id,
            ...toContent(content),
            version,
            expected_revision: active.revision,
            now,
          }),
          ...replaceIndexEntries("assistant", deployment, assistant_id, content.metadata),
        ]);
        if (updated?.[0]) return { kind: "updated", assistant: toAssistant(updated[0]) };
      }
    },

    /**
     * Deletes the assistant with its versions and crons, and with `delete_threads` its threads. Returns false if there was none.
     * @statements markAssistant · deleteAssistantThreads · deleteAssistant · deleteIndexEntries
     * @guards with `delete_threads`: mark the assistant (`revision` -1) · tokens, claim counts, threads and labels of threads
     *   whose `metadata.assistant_id` names it, only if it is marked · delete (versions, crons by foreign key) · delete its
     *   labels if it is gone.
     */
    async deleteAssistant({ deployment, filter }, assistant_id, { delete_threads, threads }) {
      const key = { deployment, assistant_id };
      const deletion = deleteAssistant(key, filter);
      const statements = [
        ...(delete_threads
          ? [markAssistant(key, filter), ...deleteAssistantThreads(deployment, assistant_id, threads?.filter)]
          : []),
        deletion,
        deleteIndexEntries("assistant", deployment, assistant_id),
      ];
      const findRows = createRowFinder(statements, await driver.batch(statements));
      return findRows(deletion).length === 1;
    },

    /**
     * Returns a page of the versions that contain the metadata, newest first; null if there is no such assistant.
     * @statements selectAssistant · selectVersions
     */
    async listAssistantVersions(scope, assistant_id, query) {
      if (scope.filter && !(await get(scope, assistant_id))) return null;
      const { limit, offset, metadata } = query;
      const key = { deployment: scope.deployment, assistant_id };
      const paged = isEmpty(metadata);
      const rows = await driver.read(selectVersions({ paged }, { ...key, limit, offset }));
      if (rows.length === 0) return (await get(scope, assistant_id)) ? [] : null;
      if (paged) return rows.map(toVersion);
      const matching = rows.filter((row) => matches(row, metadata));
      return matching.slice(offset, offset + limit).map(toVersion);
    },
  };
}

/**
 * Stores a version that is not activated: inserts version max + 1, then advances `revision`, each where that is as expected. Returns
 * the assistant as it would be with that version; null if its revision is not as expected.
 */
async function insertDraft(
  driver: Database,
  args: ArgumentsFor<typeof insertNextVersion.types>,
): Promise<AssistantRow | null> {
  const { deployment, assistant_id, expected_revision, now } = args;
  const advance = advanceRevision({ deployment, assistant_id, expected_revision });
  const insert = insertNextVersion(args);
  const findRows = createRowFinder([insert, advance], await driver.batch([insert, advance]));
  const [[inserted], [assistant]] = [findRows(insert), findRows(advance)];
  if (!assistant || !inserted) return null;
  const { graph_id, name, description, config, context, metadata } = args;
  const content = { graph_id, name, description, config, context, metadata };
  return toAssistant({ ...assistant, ...content, version: inserted.version, updated_at: now });
}

const toSearch = ({ deployment, filter }: Scope, { metadata, graph_id, name }: AssistantQuery): MetadataSearch => ({
  kind: "assistant",
  deployment,
  metadata,
  filter,
  where: { graph_id, name },
});

/** Returns the columns of an assistant's content. `config`, `context` and `metadata` become JSON text. */
const toContent = ({ graph_id, name, description, config, context, metadata }: AssistantContent): Content => ({
  graph_id,
  name,
  description,
  config: JSON.stringify(config),
  context: JSON.stringify(context),
  metadata: JSON.stringify(metadata),
});

/** Converts a row, also that of an assistant, whose other columns are omitted. */
function toVersion(stored: CoreTables["assistant_versions"]): AssistantVersionRow {
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

function toAssistant(row: Row): AssistantRow {
  const { updated_at, revision } = row;
  return { ...toVersion(row), updated_at, revision };
}
