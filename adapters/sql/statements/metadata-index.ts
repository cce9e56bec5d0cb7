/** Statements on index entries, which index the metadata of rows and the values of states. */
import { type Expression, type RawBuilder, sql } from "kysely";
import { jsonRows } from "../functions.ts";
import { type Operand, type ParametersFor, text } from "../parameters.ts";
import { shapedQuery } from "../query.ts";

/** Kinds of rows whose metadata has index entries. */
export type IndexedKind = "assistant" | "thread" | "cron";

/** The source of index entries: the metadata of a kind of row, or the values of a thread's state. */
type IndexSource = IndexedKind | "values";

/** `written`: the column on which the index entries depend. */
interface IndexedRows {
  readonly kind: RawBuilder<string>;
  readonly table: "assistants" | "threads" | "crons";
  readonly id: "assistant_id" | "thread_id" | "cron_id";
  readonly indexed: "metadata" | "head";
}

/** The rows that have index entries of each kind. */
export const INDEXED_ROWS: Readonly<Record<IndexSource, IndexedRows>> = {
  assistant: { kind: sql`'assistant'`, table: "assistants", id: "assistant_id", indexed: "metadata" },
  thread: { kind: sql`'thread'`, table: "threads", id: "thread_id", indexed: "metadata" },
  cron: { kind: sql`'cron'`, table: "crons", id: "cron_id", indexed: "metadata" },
  values: { kind: sql`'values'`, table: "threads", id: "thread_id", indexed: "head" },
};

/** `written`: the value on which the index entries depend. `index entries`: a JSON list of them. */
const entryTypes = { deployment: text, id: text, indexed: text, entries: text };

type EntryParameters = ParametersFor<typeof entryTypes>;

/** Returns a subquery with a column of the indexed row; null if there is no such row or it does not meet `condition`. */
const selectColumn = (
  source: IndexSource,
  name: string,
  p: EntryParameters,
  condition = sql``,
): RawBuilder<unknown> => {
  const { table, id } = INDEXED_ROWS[source];
  return sql`(select ${sql.ref(name)} from ${sql.table(table)} where deployment = ${p.deployment}
    and ${sql.ref(id)} = ${p.id}${condition})`;
};

/**
 * Returns the condition that the row has the value of `p.indexed`, as this batch wrote it; otherwise its index entries must not
 * change. It is false for hidden threads, which have no index entries.
 */
const isIndexedBy = (source: IndexSource, p: EntryParameters): RawBuilder<boolean> => {
  const { table, indexed } = INDEXED_ROWS[source];
  const visible = table === "threads" ? sql` and hidden = 0` : sql``;
  return sql<boolean>`${selectColumn(source, indexed, p, visible)} = ${p.indexed}`;
};

const SOURCES = ["assistant", "thread", "cron", "values"] as const;

const options = { stable: true, shapes: SOURCES.map((source) => ({ source })) };

/** Deletes the index entries of a row that are not in the list, if `written` is what the row has. */
export const deleteOtherEntries = shapedQuery(
  (_: { readonly source: IndexSource }) => entryTypes,
  (p, { source }) =>
    sql<never>`delete from labels where deployment = ${p.deployment} and kind = ${INDEXED_ROWS[source].kind}
      and row_id = ${p.id} and ${isIndexedBy(source, p)}
      and (path_hash, value_hash) not in
        (select path_hash, value_hash from ${jsonRows(p.entries, { path_hash: "bigint", value_hash: "bigint" })} as listed)`,
  options,
);

/**
 * Inserts index entries of a row, if `written` is what the row has. One statement for all index entries, because each statement binds the whole
 * metadata. An existing index entry may be an older text with the same hash.
 */
export const insertEntries = shapedQuery(
  (_: { readonly source: IndexSource }) => entryTypes,
  (p, { source }) =>
    sql<never>`insert into labels (deployment, kind, row_id, created_at, path_hash, value_hash, exact)
      select ${p.deployment}, ${INDEXED_ROWS[source].kind}, ${p.id}, ${selectColumn(source, "created_at", p)}, v.*
      from ${jsonRows(p.entries, { path_hash: "bigint", value_hash: "bigint", exact: "text" })} as v
      where ${isIndexedBy(source, p)} on conflict (deployment, kind, row_id, path_hash, value_hash)
        do update set exact = excluded.exact where labels.exact is distinct from excluded.exact`,
  options,
);

const ENTRY_KINDS: Readonly<Record<IndexedKind, RawBuilder<unknown>>> = {
  assistant: sql`'assistant'`,
  thread: sql`'thread', 'values'`,
  cron: sql`'cron'`,
};

/** Returns the table of index entries with the condition that a kind has no row with this id any more, for `from`. */
const orphanedEntriesWhere = (
  kind: IndexedKind,
  deployment: Operand<string>,
  id: Operand<string>,
): RawBuilder<unknown> => {
  const { table, id: id_column } = INDEXED_ROWS[kind];
  return sql`labels where kind in (${ENTRY_KINDS[kind]}) and not exists (select 1 from ${sql.table(table)} gone
    where gone.deployment = ${deployment} and gone.${sql.ref(id_column)} = ${id})`;
};

/** Returns the table with the condition that the row of an index entry is gone. Index entries of a thread include those of its state. */
export const orphanedEntries = (kind: IndexedKind): RawBuilder<unknown> =>
  orphanedEntriesWhere(kind, sql<string>`labels.deployment`, sql<string>`labels.row_id`);

/** Deletes all index entries of a row that is gone. */
export const deleteEntriesOfRow = shapedQuery(
  (_: { readonly kind: IndexedKind }) => ({ deployment: text, id: text }),
  (p, { kind }) =>
    sql<never>`delete from ${orphanedEntriesWhere(kind, p.deployment, p.id)} and deployment = ${p.deployment} and row_id = ${p.id}`,
  { shapes: [{ kind: "assistant" }, { kind: "thread" }, { kind: "cron" }] },
);

/**
 * Returns a condition on the id of a thread that is true for every visible thread whose values have the index entry, at its head or during
 * a run. The index entry with two zeros stands for states whose values are not indexed.
 */
export const mayHaveValue = (
  id: Expression<unknown>,
  deployment: Operand<string>,
  entry: { readonly path_hash: Operand<number>; readonly value_hash: Operand<number> },
): RawBuilder<boolean> =>
  sql<boolean>`${id} in (select row_id from labels where deployment = ${deployment} and kind = 'values'
        and path_hash = ${entry.path_hash} and value_hash = ${entry.value_hash}
      union all select row_id from labels where deployment = ${deployment} and kind = 'values'
        and path_hash = 0 and value_hash = 0
      union all select thread_id from runs where deployment = ${deployment} and status = 'running')`;
