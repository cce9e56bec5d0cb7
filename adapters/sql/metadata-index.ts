/**
 * Filters on metadata. Each scalar of a row's metadata is stored as an index entry: a hash of its path, a hash of its value, and the
 * text itself if it is short. A matching row has all index entries of the filter. Hashes only narrow a search, and `contains` decides.
 * Exact index entries decide alone if the filter has nothing else (search.ts). The scalars at the top of a thread's state are index entries
 * too, which only narrow.
 */
import { ServiceError } from "../../lib/errors.ts";
import { contains, type Json, type JsonObject } from "../../lib/json.ts";
import type { Statement } from "./query.ts";
import {
  deleteEntriesOfRow,
  deleteOtherEntries,
  type IndexedKind,
  insertEntries,
} from "./statements/metadata-index.ts";

/** `exact`: the text that was hashed; null if it is long. */
export type IndexEntry = readonly [path_hash: number, value_hash: number, exact: string | null];

/** The maximum number of index entries in a statement. Others make it longer, but do not narrow the search. */
const MAX_NARROWING_ENTRIES = 8;
/** The limit of values in metadata: each value has an entry in an index. */
const MAX_ENTRIES = 1_000;
const MAX_METADATA_CHARS = 1024 * 1024;
/** Longer texts are stored only as hashes. */
const MAX_EXACT_CHARS = 200;
/** A state with more or longer scalars is a candidate for every filter. */
const MAX_STATE_ENTRIES = 32;
const MAX_STATE_TEXT_CHARS = 512;
/** The index entry of a state with too many or too long scalars. */
const WILDCARD_ENTRY: IndexEntry = [0, 0, null];

/**
 * Returns an index entry for each distinct pair of a path and a scalar in a metadata object, or in a filter on one; at most
 * `limit`. Items of a list have one path. The third member is the exact text, null if it is too long or two texts have one
 * hash.
 */
export function createIndexEntries(
  metadata: JsonObject,
  limit: number = Number.POSITIVE_INFINITY,
): readonly IndexEntry[] {
  const entries = new Map<string, IndexEntry>();
  /**
   * Adds the entry of a scalar to `entries`, or those inside an object or list. Stops at the limit. Items of a list get the
   * path `[]`.
   */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one recursion over lists, objects and scalars
  const visit = (path: string, pathHash: HashState, value: Json): void => {
    if (entries.size >= limit) return;
    if (Array.isArray(value)) {
      const itemHash = extendHash(pathHash, "[]");
      for (const element of value) visit(`${path}[]`, itemHash, element);
    } else if (typeof value === "object" && value !== null) {
      for (const key of Object.keys(value)) {
        if (entries.size >= limit) return;
        // A quoted key never equals the mark of an array element.
        const quoted = JSON.stringify(key);
        visit(path + quoted, extendHash(pathHash, quoted), value[key] as Json);
      }
    } else {
      const text = JSON.stringify(value);
      const [path_hash, value_hash] = [toHash(pathHash), toHash(extendHash(INITIAL_HASH, text))];
      const pathAndText = `${path}:${text}`;
      const hashKey = `${path_hash},${value_hash}`;
      const existing = entries.get(hashKey);
      // Two texts with one hash: neither is stored.
      const exact =
        pathAndText.length > MAX_EXACT_CHARS || (existing && existing[2] !== pathAndText) ? null : pathAndText;
      entries.set(hashKey, [path_hash, value_hash, exact]);
    }
  };
  visit("", INITIAL_HASH, metadata);
  return [...entries.values()];
}

/** The state of a hash. A path is hashed once, however many values are below it. */
type HashState = readonly [high: number, low: number];

const INITIAL_HASH: HashState = [0x9e3779b9, 0x7f4a7c15];

/** Returns the state of a hash after the characters of `text`. The given state does not change. */
function extendHash([high, low]: HashState, text: string): HashState {
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    high = Math.imul(high ^ unit, 0x01000193);
    low = Math.imul(low + unit, 0x2c1b3c6d);
    low ^= low >>> 13;
  }
  return [high, low];
}

/** Returns the state of a hash as an integer of 53 bits. Collisions cost time, but never give a wrong result. */
function toHash([first, second]: HashState): number {
  let [high, low] = [first ^ (second >>> 16), second];
  high = Math.imul(high, 0x85ebca6b);
  low = Math.imul(low ^ (high >>> 15), 0x297a2d39);
  return (high >>> 11) * 0x100000000 + (low >>> 0);
}

type EntryArguments = { deployment: string; id: string; indexed: string; entries: string };

/**
 * Returns the arguments that store the index entries of a row, with its metadata as JSON text. Throws `invalid` for metadata
 * that is too long or has too many values.
 */
function toEntryArguments(deployment: string, id: string, metadata: JsonObject): EntryArguments {
  const indexed = JSON.stringify(metadata);
  if (indexed.length > MAX_METADATA_CHARS) {
    throw new ServiceError("invalid", `metadata: must be at most ${MAX_METADATA_CHARS} characters of JSON`);
  }
  const entries = createIndexEntries(metadata, MAX_ENTRIES + 1);
  if (entries.length > MAX_ENTRIES) {
    throw new ServiceError(
      "invalid",
      `metadata: must contain at most ${MAX_ENTRIES} different values, because each is indexed`,
    );
  }
  return { deployment, id, indexed, entries: JSON.stringify(entries) };
}

/** Returns the statement that adds the index entries of a row that the same batch has inserted. It has no effect if the row existed before. */
export function insertIndexEntries(
  kind: IndexedKind,
  deployment: string,
  id: string,
  metadata: JsonObject,
): Statement<never>[] {
  return isEmpty(metadata) ? [] : [insertEntries({ source: kind }, toEntryArguments(deployment, id, metadata))];
}

/**
 * Returns the statements that replace the index entries of a row. They have no effect unless the row has this metadata, which
 * the same batch must have written. Throws `invalid` for metadata that is too long or has too many values.
 */
export function replaceIndexEntries(
  kind: IndexedKind,
  deployment: string,
  id: string,
  metadata: JsonObject,
): Statement<never>[] {
  const row = toEntryArguments(deployment, id, metadata);
  return [deleteOtherEntries({ source: kind }, row), insertEntries({ source: kind }, row)];
}

const STATE_SOURCE = { source: "values" } as const;

/**
 * Returns the statements that replace the index entries of a thread's state. They have no effect unless `head` is the head of
 * the thread, which the same batch must have set. Returns none for a state without scalars, so that entries of older states
 * remain: they never give a wrong result. `scalars` is null if they are unknown.
 */
export function replaceStateEntries(
  deployment: string,
  thread_id: string,
  head: string,
  scalars: JsonObject | null,
): Statement<never>[] {
  const entries = createStateEntries(scalars);
  if (entries.length === 0) return [];
  const args = { deployment, id: thread_id, indexed: head, entries: JSON.stringify(entries) };
  return [deleteOtherEntries(STATE_SOURCE, args), insertEntries(STATE_SOURCE, args)];
}

/** Returns the index entries of a state's scalars; one that matches every search if these are unknown, too many or too long. */
function createStateEntries(scalars: JsonObject | null): readonly IndexEntry[] {
  if (!scalars) return [WILDCARD_ENTRY];
  const scalarEntries = Object.entries(scalars);
  if (scalarEntries.length > MAX_STATE_ENTRIES || !scalarEntries.every(([, value]) => isIndexedInStates(value)))
    return [WILDCARD_ENTRY];
  return createIndexEntries(scalars).map(([path, value]) => [path, value, null]);
}

const isIndexedInStates = (value: Json): boolean =>
  typeof value === "string" ? value.length <= MAX_STATE_TEXT_CHARS : typeof value !== "object" || value === null;

/** Returns the statement that deletes all index entries of a row that the same batch has deleted. It has no effect if the row is still there. */
export const deleteIndexEntries = (kind: IndexedKind, deployment: string, id: string): Statement<never> =>
  deleteEntriesOfRow({ kind }, { deployment, id });

/**
 * Returns index entries that every state has whose values contain the filter, at most `MAX_NARROWING_ENTRIES`. Members that are
 * no scalars, and long texts, give none.
 */
export function createNarrowingEntries(filter: JsonObject): readonly IndexEntry[] {
  const indexedMembers = Object.entries(filter).filter(([, value]) => isIndexedInStates(value));
  return createIndexEntries(Object.fromEntries(indexedMembers), MAX_NARROWING_ENTRIES);
}

/** True for a filter without conditions. */
export function isEmpty(filter: JsonObject | undefined): boolean {
  return filter === undefined || Object.keys(filter).length === 0;
}

/** True if the row's `metadata` column contains the filter. */
export function matches(row: { readonly metadata: string }, filter: JsonObject | undefined): boolean {
  return filter === undefined || contains(JSON.parse(row.metadata) as Json, filter);
}
