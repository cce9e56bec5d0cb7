/**
 * Searches rows by metadata. Reads the rows of the filter's rarest label, newest first, and looks up the other labels for each
 * row. If labels express the whole filter, SQL decides. Otherwise the candidates' metadata is read and compared with the filter.
 */
import { contains, type Json, type JsonObject } from "../../lib/json.ts";
import type { Page, Sorted } from "../../lib/storage/mod.ts";
import { type Filter, permits } from "../../lib/storage/visibility.ts";
import { each, scalar } from "./dialect.ts";
import type { SqlRow } from "./driver.ts";
import { type Label, type LabelKind, labelled, labelsOf } from "./labels.ts";
import { type Database, prepared, type Statement, statement } from "./statement.ts";
import { type RawBuilder, sql } from "./template.ts";

/** A search. */
export interface Sought {
  readonly kind: LabelKind;
  readonly deployment: string;
  /** The row's metadata must contain this. */
  readonly metadata: JsonObject | undefined;
  /** The caller's authorization filter. */
  readonly filter: Filter | undefined;
  /** Further conditions. Columns are named with their table. */
  readonly where: readonly RawBuilder<unknown>[];
  /** The conditions name row ids: rows are looked up by id, not read in order. Default false. */
  readonly named?: boolean;
}

/** How to read rows. */
export interface Reading<Row> extends Page, Sorted<string> {
  readonly columns: RawBuilder<Row>;
  /** The sort key; the id breaks ties. `created_at`: the column. */
  readonly by: "created_at" | RawBuilder<unknown>;
}

/** More labels make the statement longer, but not the search faster. */
const LABELS = 8;
/** From this offset on, the rows are counted first: a page behind the middle is read from the end. */
const FAR = 200;
/** How many rows of a label are counted to find the rarest one. */
const COUNTED = 1000;

/** One page of rows in order, and the total number. */
export async function findRows<Row = SqlRow>(
  driver: Database,
  sought: Sought,
  reading: Reading<Row>,
): Promise<{ readonly rows: readonly Row[]; readonly total: number }> {
  return (await findAnyRows(driver, sought, reading)) as { rows: Row[]; total: number };
}

async function findAnyRows(
  driver: Database,
  sought: Sought,
  reading: Reading<unknown>,
): Promise<{ readonly rows: readonly SqlRow[]; readonly total: number }> {
  const { limit, offset } = reading;
  if (limit === 0) return { rows: [], total: await countFound(driver, sought) };
  const plan = await planOf(driver, sought);
  if (plan.none) return { rows: [], total: 0 };
  if (plan.decided) {
    const far = offset < FAR ? null : (plan.total ?? (await count(driver, plan)));
    if (far !== null && 2 * offset > far) return { rows: await readFromEnd(driver, plan, reading, far), total: far };
    const page = sql`${orderOf(plan, reading)} limit ${limit} offset ${offset}`;
    const rows = await driver.read(select(plan, reading.columns, page));
    // A page that is not full ends the list. A count could differ, because others may write between two reads.
    const ends = rows.length < limit && (rows.length > 0 || offset === 0);
    return { rows, total: far ?? (ends ? offset + rows.length : (plan.total ?? (await count(driver, plan)))) };
  }
  const columns = sql`${plan.id} as id, ${plan.table}.metadata`;
  const found = (await driver.read(select(plan, columns, orderOf(plan, reading)))).filter((row) => holds(sought, row));
  const ids = found.slice(offset, offset + limit).map((row) => row.id as string);
  if (ids.length === 0) return { rows: [], total: found.length };
  // Reads rows by id and checks the filter again, because rows may have changed since.
  const named = sql`and ${plan.id} in ${each(JSON.stringify(ids))}`;
  const rows = await driver.read(select(plan, reading.columns, sql`${named} ${orderOf(plan, reading)}`));
  return { rows: rows.filter((row) => holds(sought, row)), total: found.length };
}

/** A page among `total` rows, in the opposite order: the database steps over each row before a page. */
async function readFromEnd(
  driver: Database,
  plan: Plan,
  reading: Reading<unknown>,
  total: number,
): Promise<readonly SqlRow[]> {
  const size = Math.min(reading.limit, total - reading.offset);
  if (size <= 0) return [];
  const order = orderOf(plan, { ...reading, sort_order: reading.sort_order === "asc" ? "desc" : "asc" });
  const page = sql`${order} limit ${size} offset ${total - reading.offset - size}`;
  return (await driver.read(select(plan, reading.columns, page))).toReversed();
}

/** The number of rows. */
async function countFound(driver: Database, sought: Sought): Promise<number> {
  const plan = await planOf(driver, sought);
  if (plan.none) return 0;
  if (plan.decided) return plan.total ?? (await count(driver, plan));
  const rows = await driver.read(select(plan, sql`${plan.table}.metadata`, sql``));
  return rows.filter((row) => holds(sought, row)).length;
}

/** The plan of a search. */
interface Plan {
  readonly sought: Sought;
  readonly table: RawBuilder<unknown>;
  readonly id: RawBuilder<unknown>;
  /** Labels, the rarest first. */
  readonly labels: readonly Label[];
  /** The labels express the whole filter, so no metadata is compared. */
  readonly decided: boolean;
  /** No row has one of the labels. */
  readonly none: boolean;
  /** The number of rows, if known. */
  readonly total: number | null;
}

async function planOf(driver: Database, sought: Sought): Promise<Plan> {
  const { metadata = {}, filter = [], kind } = sought;
  const asked = [metadata, ...filter.map(partOf)];
  const known = new Map(asked.flatMap((part) => labelsOf(part, LABELS + 1)).map((label) => [label.join(), label]));
  const labels = [...known.values()].slice(0, LABELS);
  const table = sql.table(labelled[kind].table);
  const id = sql`${table}.${sql.ref(labelled[kind].id)}`;
  let plan: Plan = { sought, table, id, labels, decided: true, none: false, total: null };
  if (asked.every((part) => Object.keys(part).length === 0)) return plan;
  if (labels.length === 0) return { ...plan, decided: false };

  const exact = known.size <= LABELS && labels.every((label) => label[2] !== null) && asked.every(areItsLabels);
  const [row] = await driver.read(
    statement(sql`select ${sql.join(labels.flatMap((label, i) => looks(plan, label, i)))}`),
  );
  const counts = labels.map((_, i) => Number(row?.[`n${i}`]));
  const order = labels.map((_, i) => i).sort((a, b) => (counts[a] as number) - (counts[b] as number));
  const first = counts[order[0] as number] as number;
  // A label stored only as hashes may belong to another text.
  const decided = exact && labels.every((_, i) => Number(row?.[`old${i}`]) === 0);
  plan = { ...plan, labels: order.map((i) => labels[i] as Label), decided, none: first === 0 };
  return decided && labels.length === 1 && countable(sought) && first < COUNTED ? { ...plan, total: first } : plan;
}

/** How many rows have a label, up to a limit, and whether one has it only as hashes. */
function looks({ sought }: Plan, label: Label, i: number): RawBuilder<unknown>[] {
  const rows = sql`select 1 from labels l where ${isLabel(sought, label)}`;
  return [
    sql`(select count(*) from (${rows} limit ${COUNTED}) as found) as ${sql.ref(`n${i}`)}`,
    sql`exists (${rows} and exact is null) as ${sql.ref(`old${i}`)}`,
  ];
}

/** Labels are counted without their rows. Labels of crons may remain after their thread or assistant was deleted. */
const countable = ({ kind, where }: Sought): boolean => kind !== "cron" && where.length === 0;

const isLabel = ({ deployment, kind }: Sought, [path, value]: Label): RawBuilder<unknown> =>
  sql`l.deployment = ${scalar(deployment)} and l.kind = ${scalar(kind)} and l.path_hash = ${scalar(path)}
    and l.value_hash = ${scalar(value)}`;

/** The rows with all labels that meet the other conditions, or only their labels if there are no other conditions. */
function select(plan: Plan, columns: RawBuilder<unknown> | null, rest: RawBuilder<unknown>): Statement {
  const { sought, table, id, decided } = plan;
  const { deployment, kind, where } = sought;
  const [first, ...others] = plan.labels;
  const exactly = (label: Label): RawBuilder<unknown> => (decided ? sql` and l.exact = ${scalar(label[2])}` : sql``);
  const conditions = [...where];
  // Hidden threads have no labels. The condition is a literal, because the indexes for searches contain only visible threads.
  if (kind === "thread" && !first) conditions.unshift(sql`threads.hidden = 0`);
  const also = (row: RawBuilder<unknown>): RawBuilder<unknown> =>
    sql.join(
      [
        ...others.map(
          (label) =>
            sql`and exists (select 1 from labels l where ${isLabel(sought, label)} and l.row_id = ${row}${exactly(label)})`,
        ),
        ...conditions.map((condition) => sql`and ${condition}`),
      ],
      sql` `,
    );
  if (!first) {
    return statement(
      sql`select ${columns ?? sql`count(*) as total`} from ${table}
        where ${table}.deployment = ${deployment} ${also(id)} ${rest}`,
    );
  }
  if (!columns && countable(sought)) {
    return statement(
      sql`select count(*) as total from labels followed where ${followed(plan, first)}
        ${also(sql`followed.row_id`)} ${rest}`,
    );
  }
  return statement(
    sql`select ${columns ?? sql`count(*) as total`} from labels followed cross join ${table}
      where ${followed(plan, first)}
        and ${table}.deployment = ${scalar(deployment)} and ${id} = followed.row_id ${also(sql`followed.row_id`)} ${rest}`,
  );
}

const followed = ({ sought, decided }: Plan, [path, value, exact]: Label): RawBuilder<unknown> =>
  sql`followed.deployment = ${scalar(sought.deployment)} and followed.kind = ${scalar(sought.kind)}
    and followed.path_hash = ${scalar(path)} and followed.value_hash = ${scalar(value)}
    ${decided ? sql`and followed.exact = ${scalar(exact)}` : sql``}`;

/** On SQLite triggers keep the number of all rows: to count 100,000 takes 3 ms of every search. */
const storedCount = prepared<{ deployment: string; kind: LabelKind }>(
  (p) => sql`select total from row_counts where deployment = ${p.deployment} and kind = ${p.kind}`,
);

async function count(driver: Database, plan: Plan): Promise<number> {
  const { deployment, kind, where } = plan.sought;
  const isStored = driver.dialect === "sqlite" && plan.labels.length === 0 && where.length === 0 && kind !== "cron";
  const [row] = await driver.read(isStored ? storedCount({ deployment, kind }) : select(plan, null, sql``));
  return Number(row?.total ?? 0);
}

/** The index of labels is already in the order of creation. */
function orderOf({ labels, id, table, sought }: Plan, { by, sort_order }: Reading<unknown>): RawBuilder<unknown> {
  const direction = sort_order === "asc" ? sql`asc` : sql`desc`;
  const [time, row] =
    labels.length > 0
      ? [sql`followed.created_at`, sql`followed.row_id`]
      : [sql`${sought.named ? sql`+` : sql``}${table}.created_at`, id];
  return sql`order by ${by === "created_at" ? time : by} ${direction}, ${by === "created_at" ? row : id} ${direction}`;
}

/** A condition of a filter as an object that the metadata must contain. */
const partOf = (condition: Filter[number]): JsonObject =>
  Object.fromEntries([[condition.key, "equals" in condition ? condition.equals : [...condition.contains]]]);

const holds = ({ metadata = {}, filter }: Sought, row: SqlRow): boolean => {
  const its = JSON.parse(row.metadata as string) as JsonObject;
  return contains(its, metadata) && permits(filter, its);
};

/**
 * True for a filter that a row contains if it has all labels: no empty objects or lists, and no list item with more than one
 * scalar, which labels could not tell from two items with one scalar each.
 */
function areItsLabels(filter: JsonObject): boolean {
  const scalars = (value: Json): number => {
    if (typeof value !== "object" || value === null) return 1;
    const listed = Array.isArray(value);
    const inner = (listed ? value : Object.values(value)).map(scalars);
    if (inner.length === 0 || (listed && inner.some((one) => one > 1))) return Number.POSITIVE_INFINITY;
    return inner.reduce((total, one) => total + one, 0);
  };
  return Object.values(filter).every((value) => Number.isFinite(scalars(value)));
}
