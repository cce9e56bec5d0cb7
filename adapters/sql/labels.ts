/**
 * Filters on metadata. Each scalar of a row's metadata is stored as a label: a hash of its path, a hash of its value, and the
 * text itself if it is short. A matching row has all labels of the filter. Hashes only narrow a search, and `contains` decides.
 * Exact labels decide alone if the filter has nothing else (search.ts). The scalars at the top of a thread's state are labels
 * too, which only narrow.
 */
import { ServiceError } from "../../lib/errors.ts";
import { contains, type Json, type JsonObject } from "../../lib/json.ts";
import { rowsOf, scalar } from "./dialect.ts";
import { prepared, type Statement } from "./statement.ts";
import { type RawBuilder, sql } from "./template.ts";

/** Kinds of rows whose metadata has labels. */
export type LabelKind = "assistant" | "thread" | "cron";

/** `exact`: the text that was hashed; null if it is long. */
export type Label = readonly [path_hash: number, value_hash: number, exact: string | null];

/** More labels than these make the statement longer, but do not narrow the filter further. */
const NARROWING_LABELS = 8;
/** The limit of values in metadata: each value has an entry in an index. */
const MOST_LABELS = 1_000;
const MOST_CHARACTERS = 1024 * 1024;
/** Longer texts are stored only as hashes. */
const EXACT_LENGTH = 200;
/** A state with more or longer scalars is a candidate for every filter. */
const STATE_LABELS = 32;
const STATE_STRING = 512;
/** The label of a state with too many or too long scalars. */
const ANYTHING: Label = [0, 0, null];

/** The distinct labels of a metadata object, or of a filter on one; at most `most`. */
export function labelsOf(metadata: JsonObject, most: number = Number.POSITIVE_INFINITY): readonly Label[] {
  const found = new Map<string, Label>();
  const visit = (path: string, hashed: Hashed, value: Json): void => {
    if (found.size >= most) return;
    if (Array.isArray(value)) {
      const at = hashOn(hashed, "[]");
      for (const item of value) visit(`${path}[]`, at, item);
    } else if (typeof value === "object" && value !== null) {
      for (const key of Object.keys(value)) {
        if (found.size >= most) return;
        // A quoted key never equals the mark of an array element.
        const quoted = JSON.stringify(key);
        visit(path + quoted, hashOn(hashed, quoted), value[key] as Json);
      }
    } else {
      const text = JSON.stringify(value);
      const [path_hash, value_hash] = [toHash(hashed), toHash(hashOn(NOTHING, text))];
      const whole = `${path}:${text}`;
      const same = `${path_hash},${value_hash}`;
      const there = found.get(same);
      // Two texts with one hash: neither is stored.
      const exact = whole.length > EXACT_LENGTH || (there && there[2] !== whole) ? null : whole;
      found.set(same, [path_hash, value_hash, exact]);
    }
  };
  visit("", NOTHING, metadata);
  return [...found.values()];
}

/** The state of a hash. A path is hashed once, however many values are below it. */
type Hashed = readonly [high: number, low: number];

const NOTHING: Hashed = [0x9e3779b9, 0x7f4a7c15];

function hashOn([high, low]: Hashed, text: string): Hashed {
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    high = Math.imul(high ^ unit, 0x01000193);
    low = Math.imul(low + unit, 0x2c1b3c6d);
    low ^= low >>> 13;
  }
  return [high, low];
}

/** A 53-bit hash of a string. Collisions cost time, but never give a wrong result. */
function toHash([first, second]: Hashed): number {
  let [high, low] = [first ^ (second >>> 16), second];
  high = Math.imul(high, 0x85ebca6b);
  low = Math.imul(low ^ (high >>> 15), 0x297a2d39);
  return (high >>> 11) * 0x100000000 + (low >>> 0);
}

/** The table and id column of each kind. */
export const labelled: Readonly<Record<LabelKind, { readonly table: string; readonly id: string }>> = {
  assistant: { table: "assistants", id: "assistant_id" },
  thread: { table: "threads", id: "thread_id" },
  cron: { table: "crons", id: "cron_id" },
};

type LabelArgs = { deployment: string; id: string; written: string; labels: string };

/** What the labels of a kind depend on. `is` is true if this batch wrote the row; else the labels must have no effect. */
interface Source {
  readonly kind: string;
  readonly created_at: (p: LabelArgs) => RawBuilder<unknown>;
  readonly is: (p: LabelArgs) => RawBuilder<unknown>;
}

const column = (
  name: string,
  table: string,
  id: string,
  p: LabelArgs,
  rest: RawBuilder<unknown>,
): RawBuilder<unknown> =>
  sql`(select ${sql.ref(name)} from ${sql.table(table)} where deployment = ${scalar(p.deployment)}
    and ${sql.ref(id)} = ${scalar(p.id)}${rest})`;

/** `of`: a column of the row, with the value that was written. */
function sourceOf(kind: LabelKind | "values", of: string): Source {
  const { table, id } = labelled[kind === "values" ? "thread" : kind];
  const visible = table === "threads" ? sql` and hidden = 0` : sql``;
  return {
    kind,
    created_at: (p) => column("created_at", table, id, p, sql``),
    is: (p) => sql`${column(of, table, id, p, visible)} = ${scalar(p.written)}`,
  };
}

const trimOf = ({ kind, is }: Source): ((args: LabelArgs) => Statement) =>
  prepared<LabelArgs>(
    (p) =>
      sql`delete from labels where deployment = ${scalar(p.deployment)} and kind = ${scalar(kind)}
      and row_id = ${scalar(p.id)} and ${is(p)}
      and (path_hash, value_hash) not in
        (select path_hash, value_hash from ${rowsOf(p.labels, { path_hash: "bigint", value_hash: "bigint" })} as kept)`,
  );

// One statement for all labels, because each statement binds the whole metadata. An existing label may be an older text with the same hash.
const addTo = ({ kind, created_at, is }: Source): ((args: LabelArgs) => Statement) =>
  prepared<LabelArgs>(
    (p) =>
      sql`insert into labels (deployment, kind, row_id, created_at, path_hash, value_hash, exact)
      select ${p.deployment}, ${kind}, ${p.id}, ${created_at(p)}, v.*
      from ${rowsOf(p.labels, { path_hash: "bigint", value_hash: "bigint", exact: "text" })} as v
      where ${is(p)} on conflict (deployment, kind, row_id, path_hash, value_hash)
        do update set exact = excluded.exact where labels.exact is distinct from excluded.exact`,
  );

const statementsOf = (source: Source) => ({ trim: trimOf(source), add: addTo(source) });

const ofMetadata = {
  assistant: statementsOf(sourceOf("assistant", "metadata")),
  thread: statementsOf(sourceOf("thread", "metadata")),
  cron: statementsOf(sourceOf("cron", "metadata")),
};
const ofState = statementsOf(sourceOf("values", "head"));

/** The arguments for a row with its labels. Errors: invalid. */
function ofRow(deployment: string, id: string, metadata: JsonObject): LabelArgs {
  const written = JSON.stringify(metadata);
  if (written.length > MOST_CHARACTERS) {
    throw new ServiceError("invalid", `metadata: must be at most ${MOST_CHARACTERS} characters of JSON`);
  }
  const labels = labelsOf(metadata, MOST_LABELS + 1);
  if (labels.length > MOST_LABELS) {
    throw new ServiceError(
      "invalid",
      `metadata: must contain at most ${MOST_LABELS} different values, because each is indexed`,
    );
  }
  return { deployment, id, written, labels: JSON.stringify(labels) };
}

/** Adds the labels of a row that the same batch has inserted; none if the row existed before. */
export function addLabels(kind: LabelKind, deployment: string, id: string, metadata: JsonObject): Statement[] {
  return isEmpty(metadata) ? [] : [ofMetadata[kind].add(ofRow(deployment, id, metadata))];
}

/** Replaces the labels of a row whose metadata the same batch has updated. */
export function replaceLabels(kind: LabelKind, deployment: string, id: string, metadata: JsonObject): Statement[] {
  const row = ofRow(deployment, id, metadata);
  return [ofMetadata[kind].trim(row), ofMetadata[kind].add(row)];
}

/**
 * The labels of a thread's state, in a batch that has made `head` the thread's head. `scalars` are the scalars at the top of its
 * values; null if they are unknown. Labels of older states may remain: they cost time, but never give a wrong result.
 */
export function valueLabels(
  deployment: string,
  thread_id: string,
  head: string,
  scalars: JsonObject | null,
): Statement[] {
  const labels = stateLabels(scalars);
  if (labels.length === 0) return [];
  const args = { deployment, id: thread_id, written: head, labels: JSON.stringify(labels) };
  return [ofState.trim(args), ofState.add(args)];
}

function stateLabels(scalars: JsonObject | null): readonly Label[] {
  if (!scalars) return [ANYTHING];
  const known = Object.entries(scalars);
  if (known.length > STATE_LABELS || !known.every(([, value]) => isNarrowing(value))) return [ANYTHING];
  return labelsOf(scalars).map(([path, value]) => [path, value, null]);
}

const isNarrowing = (value: Json): boolean =>
  typeof value === "string" ? value.length <= STATE_STRING : typeof value !== "object" || value === null;

const KINDS = { assistant: sql`'assistant'`, thread: sql`'thread', 'values'`, cron: sql`'cron'` };

/** Labels whose row is gone, of a thread also those of its state. `deployment` and `id`: of that row. */
const leftBy = (kind: LabelKind, deployment: unknown, id: unknown): RawBuilder<unknown> =>
  sql`labels where kind in (${KINDS[kind]}) and not exists (select 1 from ${sql.table(labelled[kind].table)} gone
    where gone.deployment = ${deployment} and gone.${sql.ref(labelled[kind].id)} = ${id})`;

/** Labels of any rows that are gone. */
export const leftLabels = (kind: LabelKind): RawBuilder<unknown> =>
  leftBy(kind, sql`labels.deployment`, sql`labels.row_id`);

const dropOf = (kind: LabelKind): ((args: { deployment: string; id: string }) => Statement) =>
  prepared(
    (p) => sql`delete from ${leftBy(kind, p.deployment, p.id)} and deployment = ${p.deployment} and row_id = ${p.id}`,
  );
const drops = { assistant: dropOf("assistant"), thread: dropOf("thread"), cron: dropOf("cron") };

/** Deletes all labels of a row that the same batch has deleted; none if the row is still there. */
export const dropLabels = (kind: LabelKind, deployment: string, id: string): Statement =>
  drops[kind]({ deployment, id });

/** Conditions on `id`: true for every visible thread whose values contain the filter, at its head or during a run. */
export function narrowingValues(deployment: string, id: string, filter: JsonObject): RawBuilder<boolean>[] {
  const tops = Object.entries(filter).filter(([, value]) => isNarrowing(value));
  return labelsOf(Object.fromEntries(tops), NARROWING_LABELS).map(
    ([path, value]) =>
      sql<boolean>`${sql.ref(id)} in (select row_id from labels where deployment = ${deployment} and kind = 'values'
            and path_hash = ${path} and value_hash = ${value}
          union all select row_id from labels where deployment = ${deployment} and kind = 'values'
            and path_hash = ${ANYTHING[0]} and value_hash = ${ANYTHING[1]}
          union all select thread_id from runs where deployment = ${deployment} and status = 'running')`,
  );
}

/** True for a filter without conditions. */
export function isEmpty(filter: JsonObject | undefined): boolean {
  return filter === undefined || Object.keys(filter).length === 0;
}

/** True if the row's `metadata` column contains the filter. */
export function matches(row: { readonly metadata: string }, filter: JsonObject | undefined): boolean {
  return filter === undefined || contains(JSON.parse(row.metadata) as Json, filter);
}
