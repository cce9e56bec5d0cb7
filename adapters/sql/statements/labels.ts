/** Statements on labels, which index the metadata of rows and the values of states. */
import { type Expression, type RawBuilder, sql } from "kysely";
import { rowsOf } from "../functions.ts";
import { type Operand, type ParametersFor, text } from "../parameters.ts";
import { shaped } from "../query.ts";

/** Kinds of rows whose metadata has labels. */
export type LabelKind = "assistant" | "thread" | "cron";

/** What labels are of: the metadata of a kind of row, or the values of a thread's state. */
type LabelSource = LabelKind | "values";

/** `written`: the column on which the labels depend. */
interface LabelledRows {
  readonly kind: RawBuilder<string>;
  readonly table: "assistants" | "threads" | "crons";
  readonly id: "assistant_id" | "thread_id" | "cron_id";
  readonly written: "metadata" | "head";
}

/** The rows that have labels of each kind. */
export const LABELLED_ROWS: Readonly<Record<LabelSource, LabelledRows>> = {
  assistant: { kind: sql`'assistant'`, table: "assistants", id: "assistant_id", written: "metadata" },
  thread: { kind: sql`'thread'`, table: "threads", id: "thread_id", written: "metadata" },
  cron: { kind: sql`'cron'`, table: "crons", id: "cron_id", written: "metadata" },
  values: { kind: sql`'values'`, table: "threads", id: "thread_id", written: "head" },
};

/** `written`: the value on which the labels depend. `labels`: a JSON list of them. */
const labelTypes = { deployment: text, id: text, written: text, labels: text };

type LabelParameters = ParametersFor<typeof labelTypes>;

const columnOf = (source: LabelSource, name: string, p: LabelParameters, rest = sql``): RawBuilder<unknown> => {
  const { table, id } = LABELLED_ROWS[source];
  return sql`(select ${sql.ref(name)} from ${sql.table(table)} where deployment = ${p.deployment}
    and ${sql.ref(id)} = ${p.id}${rest})`;
};

/** This batch wrote the row; otherwise the labels must have no effect. Hidden threads have no labels. */
const isWritten = (source: LabelSource, p: LabelParameters): RawBuilder<boolean> => {
  const { table, written } = LABELLED_ROWS[source];
  const visible = table === "threads" ? sql` and hidden = 0` : sql``;
  return sql<boolean>`${columnOf(source, written, p, visible)} = ${p.written}`;
};

const SOURCES = ["assistant", "thread", "cron", "values"] as const;

const options = { stable: true, shapes: SOURCES.map((source) => ({ source })) };

/** Deletes the labels of a row that are not in the list, if `written` is what the row has. */
export const deleteOtherLabels = shaped(
  (_: { readonly source: LabelSource }) => labelTypes,
  (p, { source }) =>
    sql<never>`delete from labels where deployment = ${p.deployment} and kind = ${LABELLED_ROWS[source].kind}
      and row_id = ${p.id} and ${isWritten(source, p)}
      and (path_hash, value_hash) not in
        (select path_hash, value_hash from ${rowsOf(p.labels, { path_hash: "bigint", value_hash: "bigint" })} as listed)`,
  options,
);

/**
 * Inserts labels of a row, if `written` is what the row has. One statement for all labels, because each statement binds the whole
 * metadata. An existing label may be an older text with the same hash.
 */
export const insertLabels = shaped(
  (_: { readonly source: LabelSource }) => labelTypes,
  (p, { source }) =>
    sql<never>`insert into labels (deployment, kind, row_id, created_at, path_hash, value_hash, exact)
      select ${p.deployment}, ${LABELLED_ROWS[source].kind}, ${p.id}, ${columnOf(source, "created_at", p)}, v.*
      from ${rowsOf(p.labels, { path_hash: "bigint", value_hash: "bigint", exact: "text" })} as v
      where ${isWritten(source, p)} on conflict (deployment, kind, row_id, path_hash, value_hash)
        do update set exact = excluded.exact where labels.exact is distinct from excluded.exact`,
  options,
);

const KINDS: Readonly<Record<LabelKind, RawBuilder<unknown>>> = {
  assistant: sql`'assistant'`,
  thread: sql`'thread', 'values'`,
  cron: sql`'cron'`,
};

const leftBy = (kind: LabelKind, deployment: Operand<string>, id: Operand<string>): RawBuilder<unknown> => {
  const { table, id: id_column } = LABELLED_ROWS[kind];
  return sql`labels where kind in (${KINDS[kind]}) and not exists (select 1 from ${sql.table(table)} gone
    where gone.deployment = ${deployment} and gone.${sql.ref(id_column)} = ${id})`;
};

/** Returns the table with the condition that the row of a label is gone. Labels of a thread include those of its state. */
export const leftLabels = (kind: LabelKind): RawBuilder<unknown> =>
  leftBy(kind, sql<string>`labels.deployment`, sql<string>`labels.row_id`);

/** Deletes all labels of a row that is gone. */
export const deleteLabelsOf = shaped(
  (_: { readonly kind: LabelKind }) => ({ deployment: text, id: text }),
  (p, { kind }) =>
    sql<never>`delete from ${leftBy(kind, p.deployment, p.id)} and deployment = ${p.deployment} and row_id = ${p.id}`,
  { shapes: [{ kind: "assistant" }, { kind: "thread" }, { kind: "cron" }] },
);

/**
 * Returns a condition on the id of a thread that is true for every visible thread whose values have the label, at its head or during
 * a run. The label with two zeros stands for states whose values are not indexed.
 */
export const mayHaveValue = (
  id: Expression<unknown>,
  deployment: Operand<string>,
  label: { readonly path_hash: Operand<number>; readonly value_hash: Operand<number> },
): RawBuilder<boolean> =>
  sql<boolean>`${id} in (select row_id from labels where deployment = ${deployment} and kind = 'values'
        and path_hash = ${label.path_hash} and value_hash = ${label.value_hash}
      union all select row_id from labels where deployment = ${deployment} and kind = 'values'
        and path_hash = 0 and value_hash = 0
      union all select thread_id from runs where deployment = ${deployment} and status = 'running')`;
