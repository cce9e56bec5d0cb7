/** Reads the values of checkpoints. A list that has grown is stored in parts: the oldest is the whole list, the others are tails. */
import { type RawBuilder, sql } from "kysely";
import type { ChannelValue, Payload } from "../../lib/executor/contract.ts";
import { rowsOf, scalar } from "./dialect.ts";
import type { PayloadColumns, Tables } from "./schema/tables.ts";
import { type Database, prepared } from "./statement.ts";

/** Identifies a thread. */
export type ThreadKey = { deployment: string; thread_id: string };

export type ValuePlace = readonly [ns: string, channel: string, version: string];

type ValueRow = Tables["channel_values"] & {
  /** Its run has not ended, and may write it again. */
  readonly open: number;
};

const PLACE = { ns: "text", channel: "text", version: "text" } as const;

/** The values that `wanted` lists, and all values that they extend, up to those that `kept` lists, which come without data. */
const valuesOf = prepared<ThreadKey & { wanted: string; kept: string }>((p) => {
  const part = sql`c.deployment = ${scalar(p.deployment)} and c.thread_id = ${scalar(p.thread_id)}
    and c.ns = parts.ns and c.channel = parts.channel and c.version = parts.version`;
  const isKept = sql`(c.ns, c.channel, c.version) in (select ns, channel, version from ${rowsOf(p.kept, PLACE)} as kept)`;
  const unlessKept = (column: RawBuilder<unknown>): RawBuilder<unknown> =>
    sql`case when ${isKept} then null else ${column} end`;
  return sql`with recursive parts (ns, channel, version) as (
      select ns, channel, version from ${rowsOf(p.wanted, PLACE)} as named
      union
      select c.ns, c.channel, c.extends_version from parts cross join channel_values c
      where ${part} and c.extends_version is not null and not ${isKept})
    select c.ns, c.channel, c.version, c.run_id, c.type, c.extends_version, ${unlessKept(sql`c.data`)} as data,
      ${unlessKept(sql`c.bytes`)} as bytes, (select count(*) from runs r where r.run_id = c.run_id
        and r.status in ('pending', 'running')) as open
    from parts cross join channel_values c where ${part}`;
});

/** Shorter lists are read again, in characters. */
const KNOWN_FROM = 1024;
/** The limit of all known lists together, in characters. */
const MOST_CHARACTERS = 2 * 1024 * 1024;

interface KnownValue {
  readonly place: ValuePlace;
  readonly run_id: string | null;
  readonly value: ChannelValue & { readonly data: string };
}

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
    this.size += known.value.data.length;
    for (const oldest of this.values.keys()) {
      if (this.size <= MOST_CHARACTERS) break;
      this.drop(oldest);
    }
  }

  private drop(key: string): void {
    this.size -= this.values.get(key)?.value.data.length ?? 0;
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
  const kept = new Map(
    wanted.flatMap((place) => {
      const value = known?.of(key, place);
      return value ? [[keyOf(...value.place), value] as const] : [];
    }),
  );
  const places = [...kept.values()].map(({ place }) => place);
  const rows = (await driver.read(
    valuesOf({ ...key, wanted: JSON.stringify(wanted), kept: JSON.stringify(places) }),
  )) as unknown as readonly ValueRow[];
  const parts = new Map(rows.map((row) => [keyOf(row.ns, row.channel, row.version), row]));
  for (const [at, { run_id }] of kept) {
    const row = parts.get(at);
    // The thread was deleted and created again.
    if (row && row.run_id !== run_id) return await readValues(driver, key, wanted);
  }
  return (place) => {
    const row = parts.get(keyOf(...place));
    if (!row) return undefined;
    const { value, open } = whole(row, parts, kept);
    const { data } = value;
    if (known && !open && value.type === "json" && typeof data === "string" && data.length >= KNOWN_FROM) {
      known.add(key, { place, run_id: row.run_id, value: { ...value, data } });
    }
    return value;
  };
}

export function keyOf(...names: readonly (string | number)[]): string {
  return JSON.stringify(names);
}

export function payloadOf({ type, data, bytes }: PayloadColumns): Payload {
  return { type, data: data ?? (bytes as Uint8Array) };
}

/** A value, with the older values that it extends in front. `open`: a part may change. */
function whole(
  part: ValueRow,
  parts: ReadonlyMap<string, ValueRow>,
  kept: ReadonlyMap<string, KnownValue>,
): { readonly value: ChannelValue; readonly open: boolean } {
  const { ns, channel, version } = part;
  const tails: string[] = [];
  for (let at = part, open = false; ; ) {
    open ||= at.open > 0;
    const known = kept.get(keyOf(ns, channel, at.version))?.value;
    if (tails.length === 0 && known) return { value: known, open };
    if (tails.length === 0 && at.extends_version === null)
      return { value: { channel, version, ...payloadOf(at) }, open };
    tails.push(innerOf(known?.data ?? textOf(at)));
    if (known || at.extends_version === null) {
      // The oldest part is a full copy.
      const copied = (tails.at(-1)?.length ?? 0) - (known?.tail_length ?? 0);
      const data = `[${tails.reverse().filter(Boolean).join(",")}]`;
      return { value: { channel, version, type: part.type, data, tail_length: data.length - copied }, open };
    }
    const older = parts.get(keyOf(ns, channel, at.extends_version));
    if (!older)
      throw new Error(`The stored value of channel ${channel} is incomplete: version ${at.extends_version} is gone`);
    at = older;
  }
}

const innerOf = (list: string): string => list.trim().slice(1, -1).trim();

function textOf({ data, bytes }: PayloadColumns): string {
  return data ?? new TextDecoder().decode(bytes as Uint8Array);
}
