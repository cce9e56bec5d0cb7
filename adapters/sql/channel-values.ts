/** Reads the values of checkpoints. A list that has grown is stored in parts: the oldest is the whole list, the others are tails. */
import type { ChannelValue, Payload } from "../../lib/executor/contract.ts";
import type { Database } from "./database.ts";
import type { PayloadColumns } from "./schema/tables.ts";
import { selectValues, type ValueRow } from "./statements/channel-values.ts";

/** Identifies a thread. */
export type ThreadKey = { deployment: string; thread_id: string };

export type ValuePlace = readonly [ns: string, channel: string, version: string];

/** Shorter lists are read again, in characters. */
const KNOWN_FROM = 1024;
/** The limit of all known lists together, in characters. */
const MOST_CHARACTERS = 2 * 1024 * 1024;

/** Where a version of a list ends in the text of one that begins with it. */
interface Start {
  readonly end: number;
  /** See `ChannelValue`. */
  readonly tail_length: number;
  readonly run_id: string | null;
  /** Its run has not ended, or that of an older version. */
  readonly open: boolean;
}

/** The newest known version of a list, with those that it begins with. Or another value, which begins with none. */
interface KnownValue {
  readonly place: ValuePlace;
  readonly data: string;
  /** By version; also its own. */
  readonly starts: ReadonlyMap<string, Start>;
}

/** About what a start takes, in characters. */
const START_SIZE = 64;

const sizeOf = ({ data, starts }: KnownValue): number => data.length + START_SIZE * starts.size;

/** The lists that were read last, one for each channel of a thread. Only those of ended runs: these never change. */
export class KnownValues {
  private readonly values: Map<string, KnownValue> = new Map();
  private size = 0;

  of({ deployment, thread_id }: ThreadKey, [ns, channel]: ValuePlace): KnownValue | undefined {
    return this.values.get(keyOf(deployment, thread_id, ns, channel));
  }

  add({ deployment, thread_id }: ThreadKey, known: KnownValue): void {
    const key = keyOf(deployment, thread_id, known.place[0], known.place[1]);
    this.drop(key);
    this.values.set(key, known);
    this.size += sizeOf(known);
    for (const oldest of this.values.keys()) {
      if (this.size <= MOST_CHARACTERS) break;
      this.drop(oldest);
    }
  }

  private drop(key: string): void {
    const there = this.values.get(key);
    if (there) this.size -= sizeOf(there);
    this.values.delete(key);
  }
}

/** The values at these places. Undefined: there is none. */
export async function readValues(
  driver: Database,
  key: ThreadKey,
  wanted: readonly ValuePlace[],
  known?: KnownValues,
): Promise<(place: ValuePlace) => ChannelValue | undefined> {
  if (wanted.length === 0) return () => undefined;
  const knownPlaces = new Map<string, KnownPlace>();
  for (const place of wanted) {
    const value = known?.of(key, place);
    if (!value) continue;
    for (const [ns, channel, version] of [value.place, place]) {
      const start = value.starts.get(version);
      if (start) knownPlaces.set(keyOf(ns, channel, version), { place: [ns, channel, version], value, start });
    }
  }
  const places = [...knownPlaces.values()].map(({ place }) => place);
  const rows = await driver.read(
    selectValues({ ...key, wanted: JSON.stringify(wanted), known: JSON.stringify(places) }),
  );
  const parts = new Map(rows.map((row) => [keyOf(row.ns, row.channel, row.version), row]));
  for (const [at, { start }] of knownPlaces) {
    const row = parts.get(at);
    // The thread was deleted and created again.
    if (row && row.run_id !== start.run_id) return await readValues(driver, key, wanted);
  }
  const knownOf = joiner(parts, knownPlaces);
  return (place) => {
    const row = parts.get(keyOf(...place));
    if (!row) return undefined;
    const value = knownOf(row);
    if (!value) return { channel: row.channel, version: row.version, ...payloadOf(row) };
    const start = value.starts.get(row.version) as Start;
    if (known && !start.open && value.data.length >= KNOWN_FROM && !known.of(key, place)?.starts.has(row.version)) {
      known.add(key, value);
    }
    const { end, tail_length: delta_length } = start;
    return {
      channel: row.channel,
      version: row.version,
      type: "json",
      data: textAt(value, start),
      ...(delta_length > 0 ? { delta_length } : {}),
      ...(row.version === value.place[2] ? {} : { base: value.data.slice(0, end) }),
    };
  };
}

interface KnownPlace {
  readonly place: ValuePlace;
  readonly value: KnownValue;
  readonly start: Start;
}

export function keyOf(...names: readonly (string | number)[]): string {
  return JSON.stringify(names);
}

export function payloadOf({ type, data, bytes }: PayloadColumns): Payload {
  return { type, data: data ?? (bytes as Uint8Array) };
}

/** The text of a version. */
const textAt = ({ data, starts, place }: KnownValue, { end }: Start): string =>
  end === starts.get(place[2])?.end ? data : `${data.slice(0, end)}]`;

/**
 * Puts values together with the older ones that they extend: lists that begin alike, as those of a history do, once. Null for a value
 * that is no JSON text.
 */
function joiner(
  parts: ReadonlyMap<string, ValueRow>,
  knownPlaces: ReadonlyMap<string, KnownPlace>,
): (part: ValueRow) => KnownValue | null {
  const made: KnownValue[] = [];
  const find = ({ ns, channel, version }: ValueRow): KnownValue | undefined =>
    knownPlaces.get(keyOf(ns, channel, version))?.value ??
    made.find(({ place, starts }) => place[0] === ns && place[1] === channel && starts.has(version));
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one walk from a tail to the value that it extends, and back
  return (part) => {
    const { ns, channel, version } = part;
    const tails: ValueRow[] = [];
    let at = part;
    let older = find(at);
    while (!older && at.extends_version !== null) {
      tails.push(at);
      const next = parts.get(keyOf(ns, channel, at.extends_version));
      if (!next)
        throw new Error(`The stored value of channel ${channel} is incomplete: version ${at.extends_version} is gone`);
      at = next;
      older = find(at);
    }
    if (older && tails.length === 0) return older;
    if (tails.length === 0) {
      const { data } = at;
      if (at.type !== "json" || data === null) return null;
      return { place: [ns, channel, version], data, starts: new Map([[version, startOf(at, data.length - 1)]]) };
    }
    const known = older?.starts.get(at.version);
    const inner = innerOf(older && known ? textAt(older, known) : textOf(at));
    let data = `[${inner}`;
    let start = known ?? startOf(at, inner.length + 1);
    const starts = new Map([[at.version, start]]);
    for (const tail of tails.reverse()) {
      const added = innerOf(textOf(tail));
      const comma = added !== "" && data.length > 1 ? "," : "";
      data += comma + added;
      const longer = comma.length + added.length;
      // The brackets count as stored in a tail.
      const tail_length = longer + (start.tail_length || "[]".length);
      start = { end: start.end + longer, tail_length, run_id: tail.run_id, open: start.open || tail.open > 0 };
      starts.set(tail.version, start);
    }
    const list: KnownValue = { place: [ns, channel, version], data: `${data}]`, starts };
    made.push(list);
    return list;
  };
}

const startOf = ({ run_id, open }: ValueRow, end: number): Start => ({ end, tail_length: 0, run_id, open: open > 0 });

const innerOf = (list: string): string => list.trim().slice(1, -1).trim();

function textOf({ data, bytes }: PayloadColumns): string {
  return data ?? new TextDecoder().decode(bytes as Uint8Array);
}
