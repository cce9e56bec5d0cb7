/**
 * Filters on metadata. Each scalar of a row's metadata is stored as a label: a hash of its path, a hash of its value, and the
 * text itself if it is short. A matching row has all labels of the filter. Hashes only narrow a search, and `contains` decides.
 * Exact labels decide alone if the filter has nothing else (search.ts). The scalars at the top of a thread's state are labels
 * too, which only narrow.
 */
import { ServiceError } from "../../lib/errors.ts";
import { contains, type Json, type JsonObject } from "../../lib/json.ts";
import type { Statement } from "./query.ts";
import { deleteLabelsOf, deleteOtherLabels, insertLabels, type LabelKind } from "./statements/labels.ts";

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
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one recursion over lists, objects and scalars
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

type LabelArgs = { deployment: string; id: string; written: string; labels: string };

/** Returns the arguments for a row with its labels. Errors: invalid. */
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

/** Returns the statement that adds the labels of a row that the same batch has inserted. It has no effect if the row existed before. */
export function addLabels(kind: LabelKind, deployment: string, id: string, metadata: JsonObject): Statement<never>[] {
  return isEmpty(metadata) ? [] : [insertLabels({ source: kind }, ofRow(deployment, id, metadata))];
}

/** Returns the statements that replace the labels of a row whose metadata the same batch has updated. */
export function replaceLabels(
  kind: LabelKind,
  deployment: string,
  id: string,
  metadata: JsonObject,
): Statement<never>[] {
  const row = ofRow(deployment, id, metadata);
  return [deleteOtherLabels({ source: kind }, row), insertLabels({ source: kind }, row)];
}

const OF_STATE = { source: "values" } as const;

/**
 * Returns the statements that store the labels of a thread's state, in a batch that has made `head` the thread's head. `scalars` are the scalars at the top of its
 * values; null if they are unknown. Labels of older states may remain: they cost time, but never give a wrong result.
 */
export function valueLabels(
  deployment: string,
  thread_id: string,
  head: string,
  scalars: JsonObject | null,
): Statement<never>[] {
  const labels = stateLabels(scalars);
  if (labels.length === 0) return [];
  const args = { deployment, id: thread_id, written: head, labels: JSON.stringify(labels) };
  return [deleteOtherLabels(OF_STATE, args), insertLabels(OF_STATE, args)];
}

function stateLabels(scalars: JsonObject | null): readonly Label[] {
  if (!scalars) return [ANYTHING];
  const known = Object.entries(scalars);
  if (known.length > STATE_LABELS || !known.every(([, value]) => isNarrowing(value))) return [ANYTHING];
  return labelsOf(scalars).map(([path, value]) => [path, value, null]);
}

const isNarrowing = (value: Json): boolean =>
  typeof value === "string" ? value.length <= STATE_STRING : typeof value !== "object" || value === null;

/** Returns the statement that deletes all labels of a row that the same batch has deleted. It has no effect if the row is still there. */
export const dropLabels = (kind: LabelKind, deployment: string, id: string): Statement<never> =>
  deleteLabelsOf({ kind }, { deployment, id });

/** Returns labels that every state has whose values contain the filter. */
export function narrowingLabels(filter: JsonObject): readonly Label[] {
  const tops = Object.entries(filter).filter(([, value]) => isNarrowing(value));
  return labelsOf(Object.fromEntries(tops), NARROWING_LABELS);
}

/** True for a filter without conditions. */
export function isEmpty(filter: JsonObject | undefined): boolean {
  return filter === undefined || Object.keys(filter).length === 0;
}

/** True if the row's `metadata` column contains the filter. */
export function matches(row: { readonly metadata: string }, filter: JsonObject | undefined): boolean {
  return filter === undefined || contains(JSON.parse(row.metadata) as Json, filter);
}
