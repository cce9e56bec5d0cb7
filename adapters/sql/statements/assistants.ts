/** Statements on assistants and their versions. */
import { type RawBuilder, sql } from "kysely";
import { isPermitted } from "../filter.ts";
import { bigint, columns, orNull, type ParametersFor } from "../parameters.ts";
import { createBuilder, query, scopedQuery, shapedQuery } from "../query.ts";
import { agentTables } from "../schema/agents.ts";
import type { CoreTables } from "../schema/tables.ts";

const db = createBuilder<CoreTables>();

const keyTypes = columns(agentTables.assistants, ["deployment", "assistant_id"]);
const contentTypes = columns(agentTables.assistants, [
  "graph_id",
  "name",
  "description",
  "config",
  "context",
  "metadata",
]);
const changeTypes = { ...keyTypes, ...contentTypes, expected_revision: bigint, now: bigint };

const versionColumns = sql`deployment, assistant_id, version, graph_id, name, description, config, context, metadata`;
const metadata = sql<string>`assistants.metadata`;

/**
 * Inserts an assistant unless it exists, and returns it. Its revision is the time, not 1: an assistant that was deleted and created
 * again must have another revision than the old one.
 */
export const insertAssistant = query({ ...keyTypes, ...contentTypes, now: bigint }, (p) =>
  db
    .insertInto("assistants")
    .values({
      deployment: p.deployment,
      assistant_id: p.assistant_id,
      version: sql.lit(1),
      graph_id: p.graph_id,
      name: p.name,
      description: p.description,
      config: p.config,
      context: p.context,
      metadata: p.metadata,
      created_at: p.now,
      updated_at: p.now,
      revision: p.now,
    })
    .onConflict((conflict) => conflict.doNothing())
    .returningAll(),
);

/** Inserts the first version of an assistant, as the assistant is; nothing if it has one. */
export const insertFirstVersion = query(
  keyTypes,
  (p) =>
    sql<never>`insert into assistant_versions (${versionColumns}, created_at)
    select ${versionColumns}, updated_at from assistants where deployment = ${p.deployment} and assistant_id = ${p.assistant_id}
    on conflict do nothing`,
);

/** Selects an assistant that the filter permits. */
export const selectAssistant = scopedQuery(keyTypes, (p, filter) =>
  db
    .selectFrom("assistants")
    .selectAll()
    .where("deployment", "=", p.deployment)
    .where("assistant_id", "=", p.assistant_id)
    .where(isPermitted(metadata, filter)),
);

/** Inserts the next version of an assistant whose revision is as expected. Returns its number. */
export const insertNextVersion = query(
  changeTypes,
  (p) =>
    sql<{ version: number }>`insert into assistant_versions (${versionColumns}, created_at)
    select a.deployment, a.assistant_id,
      (select max(v.version) + 1 from assistant_versions v
        where v.deployment = a.deployment and v.assistant_id = a.assistant_id),
      ${p.graph_id}, ${p.name}, ${p.description}, ${p.config}, ${p.context}, ${p.metadata}, ${p.now}
    from assistants a
    where a.deployment = ${p.deployment} and a.assistant_id = ${p.assistant_id} and a.revision = ${p.expected_revision}
    returning version`,
);

/** Gives an assistant the next revision if its revision is as expected. Changes nothing else of it. Returns the assistant. */
export const advanceRevision = query({ ...keyTypes, expected_revision: bigint }, (p) =>
  db
    .updateTable("assistants")
    .set({ revision: sql`revision + 1` })
    .where("deployment", "=", p.deployment)
    .where("assistant_id", "=", p.assistant_id)
    .where("revision", "=", p.expected_revision)
    .returningAll(),
);

/**
 * Makes `version` the active one, or the newest if it is null, in an assistant whose revision is as expected. Returns the assistant.
 * The other arguments are the content of that version.
 */
export const activateVersion = query({ ...changeTypes, version: orNull(bigint) }, (p) =>
  db
    .updateTable("assistants")
    .set({
      graph_id: p.graph_id,
      name: p.name,
      description: p.description,
      config: p.config,
      context: p.context,
      metadata: p.metadata,
      updated_at: p.now,
      version: sql<number>`coalesce(${p.version}, (select max(v.version) from assistant_versions v
        where v.deployment = assistants.deployment and v.assistant_id = assistants.assistant_id))`,
      revision: sql`revision + 1`,
    })
    .where("deployment", "=", p.deployment)
    .where("assistant_id", "=", p.assistant_id)
    .where("revision", "=", p.expected_revision)
    .returningAll(),
);

/** Selects one version of an assistant. */
export const selectVersion = query({ ...keyTypes, version: bigint }, (p) =>
  db
    .selectFrom("assistant_versions")
    .selectAll()
    .where("deployment", "=", p.deployment)
    .where("assistant_id", "=", p.assistant_id)
    .where("version", "=", p.version),
);

/** Selects the versions of an assistant, the newest first: a page of them, or all. */
export const selectVersions = shapedQuery(
  (_: { readonly paged: boolean }) => ({ ...keyTypes, limit: bigint, offset: bigint }),
  (p, { paged }) =>
    db
      .selectFrom("assistant_versions")
      .selectAll()
      .where("deployment", "=", p.deployment)
      .where("assistant_id", "=", p.assistant_id)
      .orderBy("version", "desc")
      .$if(paged, (versions) => versions.limit(p.limit).offset(p.offset)),
  { shapes: [{ paged: true }, { paged: false }] },
);

/** The revision of an assistant that the same batch deletes. All others are times. */
const markedRevision = sql<number>`-1`;

/** Marks an assistant that the filter permits, before the same batch deletes it with its threads. */
export const markAssistant = scopedQuery(keyTypes, (p, filter) =>
  db
    .updateTable("assistants")
    .set({ revision: markedRevision })
    .where("deployment", "=", p.deployment)
    .where("assistant_id", "=", p.assistant_id)
    .where(isPermitted(metadata, filter)),
);

/** Returns the condition that `markAssistant` has marked this assistant in the same batch. */
export const isAssistantMarked = (key: ParametersFor<typeof keyTypes>): RawBuilder<boolean> =>
  sql<boolean>`exists (select 1 from assistants a
    where a.deployment = ${key.deployment} and a.assistant_id = ${key.assistant_id} and a.revision = ${markedRevision})`;

/** Deletes an assistant that the filter permits, with its versions and crons. Returns a row if it existed. */
export const deleteAssistant = scopedQuery(keyTypes, (p, filter) =>
  db
    .deleteFrom("assistants")
    .where("deployment", "=", p.deployment)
    .where("assistant_id", "=", p.assistant_id)
    .where(isPermitted(metadata, filter))
    .returning("assistant_id"),
);
