/**
 * Statements that search rows by their metadata. A search reads the rows of its rarest index entry in the order of their creation, and
 * looks up the other index entries for each row.
 */
import { type Expression, type RawBuilder, sql } from "kysely";
import { containsTextIgnoreCase, jsonStrings } from "../functions.ts";
import { bigint, columns, orNull, type ParametersFor, text } from "../parameters.ts";
import { createBuilder, query, shapedRowsQuery } from "../query.ts";
import { agentTables } from "../schema/agents.ts";
import type { CoreTables } from "../schema/tables.ts";
import { busy, effectiveStatus, running, waiting } from "../thread-status.ts";
import { INDEXED_ROWS, type IndexedKind, mayHaveValue } from "./metadata-index.ts";
import type { ThreadWithRuns } from "./threads.ts";

const db = createBuilder<CoreTables>();

/** The arguments of the conditions on rows. Each condition has the name of its argument; the argument of some is not used. */
const conditionTypes = {
  graph_id: text,
  name: text,
  assistant_id: text,
  thread_id: text,
  enabled: text,
  disabled: text,
  ids: text,
  busy: text,
  interrupted: text,
  status: text,
  waiting: text,
};

export type ConditionName = keyof typeof conditionTypes;

/** The arguments of a search without conditions. */
export const NO_CONDITIONS = Object.fromEntries(Object.keys(conditionTypes).map((name) => [name, ""])) as Record<
  ConditionName,
  string
>;

/** The sort keys and the conditions of a search for one kind of rows. */
interface SearchedRows {
  /** Sort keys that are no columns, or may be null: databases sort nulls differently. */
  readonly orders: Readonly<Record<string, RawBuilder<unknown>>>;
  readonly conditions: Readonly<Partial<Record<ConditionName, (value: Expression<string>) => RawBuilder<unknown>>>>;
}

const SEARCHED_ROWS: Readonly<Record<IndexedKind, SearchedRows>> = {
  assistant: {
    orders: {},
    conditions: {
      graph_id: (value) => sql`assistants.graph_id = ${value}`,
      name: (value) => containsTextIgnoreCase(sql<string>`assistants.name`, value),
    },
  },
  thread: {
    orders: { status: effectiveStatus },
    conditions: {
      ids: (value) => sql`threads.thread_id in ${jsonStrings(value)}`,
      busy: () => busy,
      // Written out, as in the condition of the index that serves the waiting threads.
      interrupted: () => sql`threads.status = 'interrupted' and not ${busy}`,
      status: (value) => sql`threads.status = ${value} and not ${busy}`,
      waiting: () => sql`threads.interrupts <> '{}'`,
    },
  },
  cron: {
    orders: {
      thread_id: sql`coalesce(crons.thread_id, '')`,
      end_time: sql`coalesce(crons.end_time, -1)`,
      next_run_date: sql`coalesce(crons.next_run_date, -1)`,
    },
    conditions: {
      assistant_id: (value) => sql`crons.assistant_id = ${value}`,
      thread_id: (value) => sql`crons.thread_id = ${value}`,
      enabled: () => sql`crons.enabled = 1`,
      disabled: () => sql`crons.enabled = 0`,
    },
  },
};

// ---------------------------------------------------------------------- index entries

const entryTypes = {
  ...columns(agentTables.labels, ["path_hash", "value_hash"]),
  /** The text of the index entry; null if it is long. */
  exact: orNull(text),
};

type EntryParameters = ParametersFor<typeof entryTypes>;

/**
 * Returns the condition that a row with the alias `rows` has the hashes of an index entry. The text of the entry is not
 * compared.
 */
const isEntry = (
  rows: string,
  kind: IndexedKind,
  deployment: Expression<string>,
  entry: Pick<EntryParameters, "path_hash" | "value_hash">,
): RawBuilder<boolean> => {
  const column = (name: string): RawBuilder<unknown> => sql.ref(`${rows}.${name}`);
  return sql<boolean>`${column("deployment")} = ${deployment} and ${column("kind")} = ${INDEXED_ROWS[kind].kind}
    and ${column("path_hash")} = ${entry.path_hash} and ${column("value_hash")} = ${entry.value_hash}`;
};

interface EntriesShape {
  readonly kind: IndexedKind;
  readonly entries: number;
}

const entryShapes: readonly EntriesShape[] = [
  { kind: "assistant", entries: 1 },
  { kind: "thread", entries: 2 },
];

/**
 * Counts the rows of each index entry, up to `limit`. `place` is the index of the index entry. `hashed` says whether a row has it only as hashes:
 * it may belong to another text.
 */
export const countEntries = shapedRowsQuery(
  {
    types: { deployment: text, limit: bigint },
    rowTypes: entryTypes,
    count: ({ entries }: EntriesShape) => entries,
  },
  (p, entries, { kind }) =>
    sql<{ place: number; found: number; hashed: number }>`${sql.join(
      entries.map((entry, index) => {
        const rows = sql`select 1 from labels l where ${isEntry("l", kind, p.deployment, entry)}`;
        return sql`select ${index} as place, (select count(*) from (${rows} limit ${p.limit}) as found) as found,
          exists (${rows} and exact is null) as hashed`;
      }),
      sql` union all `,
    )}`,
  { stable: true, shapes: entryShapes },
);

// ---------------------------------------------------------------------- search

/** Selects the rows that a search finds. */
export interface SearchShape {
  readonly kind: IndexedKind;
  /** The number of index entries of the rows, the rarest first. */
  readonly entries: number;
  /** The index entries express the whole filter: their texts are compared too. */
  readonly exact: boolean;
  readonly where: readonly ConditionName[];
  /** The number of index entries that the state of a thread may have. They follow the others. */
  readonly values: number;
}

/** The order of a search. The id breaks ties. */
interface OrderShape {
  readonly sort_by: string;
  readonly sort_order: "asc" | "desc";
}

const searchTypes = { ...conditionTypes, deployment: text };

type SearchParameters = ParametersFor<typeof searchTypes>;

const rows = {
  rowTypes: entryTypes,
  count: ({ entries, values }: SearchShape): number => entries + values,
};

/** Index entries are counted without their rows. Index entries of crons may remain after their thread or assistant was deleted. */
export const isCountable = ({ kind, where, values }: Omit<SearchShape, "labels" | "exact">): boolean =>
  kind !== "cron" && where.length === 0 && values === 0;

const getTable = ({ kind }: SearchShape): RawBuilder<unknown> => sql.table(INDEXED_ROWS[kind].table);
const getIdColumn = ({ kind }: SearchShape): RawBuilder<unknown> =>
  sql.ref(`${INDEXED_ROWS[kind].table}.${INDEXED_ROWS[kind].id}`);

/**
 * Returns the condition that a row `followed` is the rarest index entry, also with its text if the search is exact. The index
 * has these rows in the order of creation.
 */
function isLeadingEntry(
  p: SearchParameters,
  entry: EntryParameters,
  { kind, exact }: SearchShape,
): RawBuilder<unknown> {
  const text = exact ? sql` and followed.exact = ${entry.exact}` : sql``;
  return sql`${isEntry("followed", kind, p.deployment, entry)}${text}`;
}

/** Returns the conditions besides the rarest index entry. `id` is the expression for the id of a row. */
function createConditions(
  p: SearchParameters,
  entries: readonly EntryParameters[],
  shape: SearchShape,
  id: RawBuilder<unknown>,
): readonly RawBuilder<unknown>[] {
  const { kind, where, exact } = shape;
  const otherEntries = entries.slice(1, shape.entries).map((entry) => {
    const text = exact ? sql` and l.exact = ${entry.exact}` : sql``;
    return sql`exists (select 1 from labels l where ${isEntry("l", kind, p.deployment, entry)} and l.row_id = ${id}${text})`;
  });
  // Hidden threads have no index entries. The condition is a literal, because the indexes for searches contain only visible threads.
  const isVisible = kind === "thread" && shape.entries === 0 ? [sql`threads.hidden = 0`] : [];
  return [
    ...otherEntries,
    ...isVisible,
    ...where.map((name) => SEARCHED_ROWS[kind].conditions[name]?.(p[name]) ?? sql`false`),
    ...entries.slice(shape.entries).map((entry) => mayHaveValue(getIdColumn(shape), p.deployment, entry)),
  ];
}

/** Returns the part of a select from the word `from` on that finds the rows of a search. */
function selectMatches(
  p: SearchParameters,
  entries: readonly EntryParameters[],
  shape: SearchShape,
  extraConditions: readonly RawBuilder<unknown>[] = [],
): RawBuilder<unknown> {
  const table = getTable(shape);
  const [first] = entries;
  const joinWithAnd = (conditions: readonly RawBuilder<unknown>[]): RawBuilder<unknown> =>
    sql.join(conditions, sql` and `);
  const inDeployment = sql`${table}.deployment = ${p.deployment}`;
  if (!first || shape.entries === 0) {
    return sql`from ${table} where ${joinWithAnd([inDeployment, ...createConditions(p, entries, shape, getIdColumn(shape)), ...extraConditions])}`;
  }
  const joinConditions = [inDeployment, sql`${getIdColumn(shape)} = followed.row_id`];
  const conditions = [
    ...joinConditions,
    ...createConditions(p, entries, shape, sql`followed.row_id`),
    ...extraConditions,
  ];
  return sql`from labels followed cross join ${table} where ${isLeadingEntry(p, first, shape)} and ${joinWithAnd(conditions)}`;
}

/**
 * Returns the `order by` of a search: the sort key, then the id in the same direction. A sign before `created_at` keeps its
 * index out where rows are looked up by id.
 */
function createOrder(shape: SearchShape & OrderShape): RawBuilder<unknown> {
  const { kind, entries, where, values, sort_by, sort_order } = shape;
  const direction = sort_order === "asc" ? sql`asc` : sql`desc`;
  const sortKey = SEARCHED_ROWS[kind].orders[sort_by] ?? sql.ref(`${INDEXED_ROWS[kind].table}.${sort_by}`);
  if (sort_by !== "created_at") return sql`order by ${sortKey} ${direction}, ${getIdColumn(shape)} ${direction}`;
  if (entries > 0) return sql`order by followed.created_at ${direction}, followed.row_id ${direction}`;
  const sign = where.includes("ids") || values > 0 ? sql`+` : sql``;
  return sql`order by ${sign}${sortKey} ${direction}, ${getIdColumn(shape)} ${direction}`;
}

/** Counts the rows that a search finds. */
export const countRows = shapedRowsQuery(
  { ...rows, types: searchTypes },
  (p, entries, shape) => {
    const [first] = entries;
    if (!first || shape.entries === 0 || !isCountable(shape)) {
      return sql<{ total: number }>`select count(*) as total ${selectMatches(p, entries, shape)}`;
    }
    const conditions = [isLeadingEntry(p, first, shape), ...createConditions(p, entries, shape, sql`followed.row_id`)];
    return sql<{
      total: number;
    }>`select count(*) as total from labels followed where ${sql.join(conditions, sql` and `)}`;
  },
  {
    stable: true,
    shapes: [
      { kind: "assistant", entries: 1, exact: true, where: [], values: 0 },
      { kind: "thread", entries: 0, exact: true, where: ["status"], values: 1 },
      { kind: "cron", entries: 2, exact: false, where: [], values: 0 },
    ],
  },
);

const orderShapes: readonly (SearchShape & OrderShape)[] = [
  { kind: "thread", entries: 0, exact: true, where: ["ids"], values: 0, sort_by: "created_at", sort_order: "desc" },
  { kind: "cron", entries: 2, exact: false, where: ["enabled"], values: 0, sort_by: "end_time", sort_order: "asc" },
];

/** Selects the ids and the metadata of all rows that a search finds, in order. The caller compares the metadata with the filter. */
export const selectCandidates = shapedRowsQuery(
  { ...rows, types: searchTypes },
  (p, entries, shape: SearchShape & OrderShape) =>
    sql<{ id: string; metadata: string }>`select ${getIdColumn(shape)} as id, ${getTable(shape)}.metadata
      ${selectMatches(p, entries, shape)} ${createOrder(shape)}`,
  { stable: true, shapes: orderShapes },
);

/** Selects how many rows of a kind a deployment has. Triggers of SQLite keep the number. */
export const selectStoredCount = query({ deployment: text, kind: text }, (p) =>
  db.selectFrom("row_counts").select("total").where("deployment", "=", p.deployment).where("kind", "=", p.kind),
);

/** Selects the found rows that are read: a page, or those with the ids in `listed`, a JSON list. */
interface PageShape extends SearchShape, OrderShape {
  readonly listed: boolean;
}

/**
 * Defines the statement that reads these columns of a page of a search. With `listed` it reads all rows with the listed ids
 * instead.
 */
const selectPage = <Row>(read: RawBuilder<Row>, shapes: readonly PageShape[]) =>
  shapedRowsQuery(
    { ...rows, types: { ...searchTypes, listed: text, limit: bigint, offset: bigint } },
    (p, entries, shape: PageShape) => {
      const extraConditions = shape.listed ? [sql`${getIdColumn(shape)} in ${jsonStrings(p.listed)}`] : [];
      const page = shape.listed ? sql`` : sql`limit ${p.limit} offset ${p.offset}`;
      return sql<Row>`select ${read} ${selectMatches(p, entries, shape, extraConditions)} ${createOrder(shape)} ${page}`;
    },
    { stable: true, shapes },
  );

/** A statement that selects found rows. */
export type SelectRows<Row> = ReturnType<typeof selectPage<Row>>;

const page = { exact: true, where: [], values: 0, sort_by: "created_at", sort_order: "desc", listed: false } as const;

/** Selects assistants that a search finds. */
export const selectAssistants = selectPage(sql<CoreTables["assistants"]>`assistants.*`, [
  { ...page, kind: "assistant", entries: 0 },
  { ...page, kind: "assistant", entries: 2, where: ["graph_id", "name"], sort_by: "name", sort_order: "asc" },
]);

/** Selects threads that a search finds. */
export const selectThreads = selectPage(sql<ThreadWithRuns>`threads.*, ${running} as running, ${waiting} as waiting`, [
  { ...page, kind: "thread", entries: 0 },
  { ...page, kind: "thread", entries: 1 },
  { ...page, kind: "thread", entries: 0, where: ["interrupted"] },
  { ...page, kind: "thread", entries: 2, where: ["busy"], listed: true, sort_by: "status" },
  { ...page, kind: "thread", entries: 0, values: 2, where: ["waiting"] },
]);

/** Selects crons that a search finds. */
export const selectCrons = selectPage(sql<CoreTables["crons"]>`crons.*`, [
  { ...page, kind: "cron", entries: 0, where: ["assistant_id"] },
  { ...page, kind: "cron", entries: 1, where: ["disabled"], sort_by: "next_run_date" },
]);
