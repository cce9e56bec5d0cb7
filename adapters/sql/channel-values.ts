/** Reads the values of checkpoints. A list that has grown is stored in parts: the oldest is the whole list, the others are tails. */
import type { ChannelValue, Payload } from "../../lib/executor/contract.ts";
import type { Database } from "./database.ts";
import type { PayloadColumns } from "./schema/tables.ts";
import { selectValues, type ValueRow } from "./statements/channel-values.ts";

/** Identifies a thread. */
export type ThreadKey = { deployment: string; thread_id: string };

export type ValueAddress = readonly [ns: string, channel: string, version: string];

/** Shorter lists are read again, in characters. */
const MIN_CACHED_CHARS = 1024;
/** The limit of all known lists together, in characters. */
const MAX_CACHED_CHARS = 2 * 1024 * 1024;

/** The part of a version of a list in the text of a newer version that extends it. */
interface VersionInfo {
  readonly length: number;
  /** See `ChannelValue`. */
  readonly tail_length: number;
  readonly run_id: string | null;
  /** Its run has not ended, or that of an older version. */
  readonly open: boolean;
}

/** The newest known version of a list, with those that it begins with. Or another value, which begins with none. */
interface CachedChannelValue {
  readonly address: ValueAddress;
  readonly data: string;
  /** By version; also its own. */
  readonly versions: ReadonlyMap<string, VersionInfo>;
}

/** About what a start takes, in characters. */
const VERSION_CHARS = 64;

const measureValue = ({ data, versions }: CachedChannelValue): number => data.length + VERSION_CHARS * versions.size;

/** The lists that were read last, one for each channel of a thread. Only those of ended runs: these never change. */
export class ChannelValueCache {
  readonly #values: Map<string, CachedChannelValue> = new Map();
  #size = 0;

  get({ deployment, thread_id }: ThreadKey, [ns, channel]: ValueAddress): CachedChannelValue | undefined {
    return this.#values.get(toKey(deployment, thread_id, ns, channel));
  }

  /**
   * Adds a value, or replaces the one of its channel. Above `MAX_CACHED_CHARS` it then removes the values that were added
   * first.
   */
  add({ deployment, thread_id }: ThreadKey, value: CachedChannelValue): void {
    const key = toKey(deployment, thread_id, value.address[0], value.address[1]);
    this.#drop(key);
    this.#values.set(key, value);
    this.#size += measureValue(value);
    for (const oldest of this.#values.keys()) {
      if (this.#size <= MAX_CACHED_CHARS) break;
      this.#drop(oldest);
    }
  }

  /** Removes a value from the cache. Does nothing if it is not there. */
  #drop(key: string): void {
    const existing = this.#values.get(key);
    if (existing) this.#size -= measureValue(existing);
    this.#values.delete(key);
  }
}

/**
 * Reads the values at these addresses, none without addresses, and returns a function that finds one of them: undefined if the
 * database does not have it. That function throws if an older part of a list is missing. It adds JSON values of at least
 * `MIN_CACHED_CHARS` to `cache`, unless a run that wrote to them has not ended.
 */
export async function readValues(
  driver: Database,
  key: ThreadKey,
  addresses: readonly ValueAddress[],
  cache?: ChannelValueCache,
): Promise<(address: ValueAddress) => ChannelValue | undefined> {
  if (addresses.length === 0) return () => undefined;
  const cachedVersions = new Map<string, CachedVersion>();
  for (const address of addresses) {
    const value = cache?.get(key, address);
    if (!value) continue;
    for (const [ns, channel, version] of [value.address, address]) {
      const info = value.versions.get(version);
      if (info) cachedVersions.set(toKey(ns, channel, version), { address: [ns, channel, version], value, info });
    }
  }
  const cachedAddresses = [...cachedVersions.values()].map(({ address }) => address);
  const rows = await driver.read(
    selectValues({ ...key, addresses: JSON.stringify(addresses), cached: JSON.stringify(cachedAddresses) }),
  );
  const parts = new Map(rows.map((row) => [toKey(row.ns, row.channel, row.version), row]));
  for (const [versionKey, { info }] of cachedVersions) {
    const row = parts.get(versionKey);
    // The thread was deleted and created again.
    if (row && row.run_id !== info.run_id) return await readValues(driver, key, addresses);
  }
  const assembleValue = createValueAssembler(parts, cachedVersions);
  return (address) => {
    const row = parts.get(toKey(...address));
    if (!row) return undefined;
    const value = assembleValue(row);
    if (!value) return { channel: row.channel, version: row.version, ...toPayload(row) };
    const info = value.versions.get(row.version) as VersionInfo;
    if (
      cache &&
      !info.open &&
      value.data.length >= MIN_CACHED_CHARS &&
      !cache.get(key, address)?.versions.has(row.version)
    ) {
      cache.add(key, value);
    }
    const { length, tail_length: delta_length } = info;
    return {
      channel: row.channel,
      version: row.version,
      type: "json",
      data: getVersionText(value, info),
      ...(delta_length > 0 ? { delta_length } : {}),
      ...(row.version === value.address[2] ? {} : { base: value.data.slice(0, length) }),
    };
  };
}

interface CachedVersion {
  readonly address: ValueAddress;
  readonly value: CachedChannelValue;
  readonly info: VersionInfo;
}

export function toKey(...names: readonly (string | number)[]): string {
  return JSON.stringify(names);
}

export function toPayload({ type, data, bytes }: PayloadColumns): Payload {
  return { type, data: data ?? (bytes as Uint8Array) };
}

/** The text of a version. */
const getVersionText = ({ data, versions, address }: CachedChannelValue, { length }: VersionInfo): string =>
  length === versions.get(address[2])?.length ? data : `${data.slice(0, length)}]`;

/**
 * Returns a function that joins the row of a value with the older rows that it extends. Versions of one list share the returned
 * object. The function returns null for a row that extends none and is not JSON text, and throws if a row that it needs is
 * missing.
 */
function createValueAssembler(
  parts: ReadonlyMap<string, ValueRow>,
  cachedVersions: ReadonlyMap<string, CachedVersion>,
): (part: ValueRow) => CachedChannelValue | null {
  const assembled: CachedChannelValue[] = [];
  const findBase = ({ ns, channel, version }: ValueRow): CachedChannelValue | undefined =>
    cachedVersions.get(toKey(ns, channel, version))?.value ??
    assembled.find(({ address, versions }) => address[0] === ns && address[1] === channel && versions.has(version));
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one walk from a tail to the value that it extends, and back
  return (part) => {
    const { ns, channel, version } = part;
    const deltas: ValueRow[] = [];
    let current = part;
    let base = findBase(current);
    while (!base && current.extends_version !== null) {
      deltas.push(current);
      const next = parts.get(toKey(ns, channel, current.extends_version));
      if (!next)
        throw new Error(
          `The stored value of channel ${channel} is incomplete: version ${current.extends_version} is gone`,
        );
      current = next;
      base = findBase(current);
    }
    if (base && deltas.length === 0) return base;
    if (deltas.length === 0) {
      const { data } = current;
      if (current.type !== "json" || data === null) return null;
      return {
        address: [ns, channel, version],
        data,
        versions: new Map([[version, toVersionInfo(current, data.length - 1)]]),
      };
    }
    const baseInfo = base?.versions.get(current.version);
    const baseItems = omitBrackets(base && baseInfo ? getVersionText(base, baseInfo) : decodeText(current));
    let data = `[${baseItems}`;
    let info = baseInfo ?? toVersionInfo(current, baseItems.length + 1);
    const versions = new Map([[current.version, info]]);
    for (const delta of deltas.reverse()) {
      const added = omitBrackets(decodeText(delta));
      const comma = added !== "" && data.length > 1 ? "," : "";
      data += comma + added;
      const addedLength = comma.length + added.length;
      // The brackets count as stored in a tail.
      const tail_length = addedLength + (info.tail_length || "[]".length);
      info = {
        length: info.length + addedLength,
        tail_length,
        run_id: delta.run_id,
        open: info.open || delta.open > 0,
      };
      versions.set(delta.version, info);
    }
    const list: CachedChannelValue = { address: [ns, channel, version], data: `${data}]`, versions };
    assembled.push(list);
    return list;
  };
}

/** Returns the part of a version that is stored whole: it has no tail. */
const toVersionInfo = ({ run_id, open }: ValueRow, length: number): VersionInfo => ({
  length,
  tail_length: 0,
  run_id,
  open: open > 0,
});

const omitBrackets = (list: string): string => list.trim().slice(1, -1).trim();

function decodeText({ data, bytes }: PayloadColumns): string {
  return data ?? new TextDecoder().decode(bytes as Uint8Array);
}
