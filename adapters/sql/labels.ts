/**
 * Filters on metadata. Each scalar of a row's metadata is stored as a label, a hash of its path and one of its value.
 * Labels only narrow: a row that matches always has the labels of the filter, and `contains` decides on the rest.
 */
import { type RawBuilder, sql } from "kysely";
import { contains, type Json, type JsonObject } from "../../lib/json.ts";
import type { Page } from "../../lib/storage.ts";
import { raw, settled } from "./dialect.ts";
import type { SqlDriver, SqlRow, SqlStatement } from "./driver.ts";
import { shape, shapeOfRows } from "./statement.ts";

/** What has labels. */
export type LabelKind = "assistant" | "thread";

export type Label = readonly [path_hash: number, value_hash: number];

/** More labels than this do not narrow a filter further, they only make the statement long. */
const NARROWING_LABELS = 8;

/** The labels of a metadata object, or of a filter on one; each pair once. */
export function labelsOf(metadata: JsonObject): readonly Label[] {
  const found = new Map<string, Label>();
  const visit = (path: string, value: Json): void => {
    if (Array.isArray(value)) {
      for (const item of value) visit(`${path}[]`, item);
    } else if (typeof value === "object" && value !== null) {
      // A quoted key never reads like the mark of an array element.
      for (const key of Object.keys(value)) visit(path + JSON.stringify(key), value[key] as Json);
    } else {
      const label: Label = [hash(path), hash(JSON.stringify(value))];
      found.set(label.join(), label);
    }
  };
  visit("", metadata);
  return [...found.values()];
}

/** 53 bits of a string. Not a secret and not a proof: collisions cost time, never a wrong answer. */
function hash(text: string): number {
  let high = 0x9e3779b9;
  let low = 0x7f4a7c15;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    high = Math.imul(high ^ unit, 0x01000193);
    low = Math.imul(low + unit, 0x2c1b3c6d);
    low ^= low >>> 13;
  }
  high ^= low >>> 16;
  high = Math.imul(high, 0x85ebca6b);
  low = Math.imul(low ^ (high >>> 15), 0x297a2d39);
  return (high >>> 11) * 0x100000000 + (low >>> 0);
}

type LabelArgs = { deployment: string; id: string; metadata: string };
type LabelRow = { path: number; value: number };

// A row's labels follow from its metadata alone. So the guard is the metadata itself: where it is not what this batch wrote,
// the batch did not take effect and its labels must not either.
const guards: Record<LabelKind, (p: LabelArgs) => RawBuilder<unknown>> = {
  assistant: (p) =>
    sql`(select metadata from assistants where deployment = ${settled(p.deployment)}
      and assistant_id = ${settled(p.id)}) = ${settled(p.metadata)}`,
  thread: (p) =>
    sql`(select metadata from threads where deployment = ${settled(p.deployment)}
      and thread_id = ${settled(p.id)} and hidden = 0) = ${settled(p.metadata)}`,
};

const trimOf = (kind: LabelKind): ((args: LabelArgs & { labels: string }) => SqlStatement) =>
  shape<LabelArgs & { labels: string }>((p) =>
    raw(sql`delete from labels where deployment = ${settled(p.deployment)} and kind = ${settled(kind)}
      and row_id = ${settled(p.id)} and ${guards[kind](p)}
      and (path_hash, value_hash) not in
        (select json_extract(value, '$[0]'), json_extract(value, '$[1]') from json_each(${settled(p.labels)}))`),
  );

const addTo = (kind: LabelKind): ((args: LabelArgs, labels: readonly LabelRow[]) => SqlStatement[]) =>
  shapeOfRows<LabelArgs, LabelRow>((p, labels) =>
    raw(sql`insert into labels (deployment, kind, row_id, path_hash, value_hash)
      select ${p.deployment}, ${kind}, ${p.id}, v.*
      from (values ${sql.join(labels.map((label) => sql`(${label.path}, ${label.value})`))}) as v
      where ${guards[kind](p)} on conflict do nothing`),
  );

const trim = { assistant: trimOf("assistant"), thread: trimOf("thread") };
const add = { assistant: addTo("assistant"), thread: addTo("thread") };

/** Labels of a row that the same batch has inserted before; none where that row was there already. */
export function addLabels(kind: LabelKind, deployment: string, id: string, metadata: JsonObject): SqlStatement[] {
  const rows = labelsOf(metadata).map(([path, value]) => ({ path, value }));
  return add[kind]({ deployment, id, metadata: JSON.stringify(metadata) }, rows);
}

/** Makes these the labels of a row whose metadata the same batch has written before. */
export function replaceLabels(kind: LabelKind, deployment: string, id: string, metadata: JsonObject): SqlStatement[] {
  const labels = JSON.stringify(labelsOf(metadata));
  return [
    trim[kind]({ deployment, id, metadata: JSON.stringify(metadata), labels }),
    ...addLabels(kind, deployment, id, metadata),
  ];
}

/** Conditions on `id` that every row with this metadata meets. */
export function narrowing(kind: LabelKind, deployment: string, id: string, filter: JsonObject): RawBuilder<boolean>[] {
  return labelsOf(filter)
    .slice(0, NARROWING_LABELS)
    .map(
      ([path, value]) =>
        sql<boolean>`${sql.ref(id)} in (select row_id from labels where deployment = ${deployment}
          and kind = ${kind} and path_hash = ${path} and value_hash = ${value})`,
    );
}

/** True for a filter that asks for nothing. */
export function isEmpty(filter: JsonObject | undefined): boolean {
  return filter === undefined || Object.keys(filter).length === 0;
}

/** True for a row whose `metadata` column contains the filter. */
export function matches(row: SqlRow, filter: JsonObject | undefined): boolean {
  return filter === undefined || contains(JSON.parse(row.metadata as string) as Json, filter);
}

/**
 * One page of a search and the number of all matches. `rows` builds the statement that reads the candidates in order, all
 * of them without a page; `count` the one that counts them.
 */
export async function searchRows(
  driver: SqlDriver,
  filter: JsonObject | undefined,
  page: Page,
  rows: (page: Page | null) => SqlStatement,
  count: () => SqlStatement,
): Promise<{ readonly rows: readonly SqlRow[]; readonly total: number }> {
  if (isEmpty(filter)) {
    const found = await driver.read(rows(page));
    // A page that is not full ends the list. Where others write between two reads, a count would differ from it.
    const ends = found.length < page.limit && (found.length > 0 || page.offset === 0);
    const total = ends ? page.offset + found.length : Number((await driver.read(count()))[0]?.total);
    return { rows: found, total };
  }
  const found = (await driver.read(rows(null))).filter((row) => matches(row, filter));
  return { rows: found.slice(page.offset, page.offset + page.limit), total: found.length };
}

/** How many rows match. `count` counts the candidates; `metadata` reads theirs, where the filter has to decide. */
export async function countRows(
  driver: SqlDriver,
  filter: JsonObject | undefined,
  count: () => SqlStatement,
  metadata: () => SqlStatement,
): Promise<number> {
  if (isEmpty(filter)) return Number((await driver.read(count()))[0]?.total);
  return (await driver.read(metadata())).filter((row) => matches(row, filter)).length;
}
