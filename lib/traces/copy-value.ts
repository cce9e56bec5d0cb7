/** Copies values of agents as JSON, measures JSON and writes its start, all without the whole text, which can be very long. */
import type { Json } from "../json.ts";

/** A copy ends after so many values. */
const MAX_VALUES = 50_000;
/** Values that nest deeper are not copied. */
const MAX_DEPTH = 500;

/** The copy of a value. */
export interface CopiedValue {
  readonly json: Json;
  /** True if it has only the first values, because there are too many. */
  readonly isPartial: boolean;
}

/** The state of one copy: how many values it has, and the objects around the present one. */
class ValueCopier {
  readonly #ancestors = new Set<object>();
  #count = 0;

  get isPartial(): boolean {
    return this.#count > MAX_VALUES;
  }

  /**
   * Returns the copy; undefined for what JSON omits, such as functions. A number that is not finite becomes null, a bigint a
   * text, bytes their size. Throws a RangeError for cycles and what nests too deep, and what getters and `toJSON` throw.
   */
  copy(value: unknown): Json | undefined {
    if (value === null || typeof value === "string" || typeof value === "boolean") return value;
    if (typeof value === "number") return Number.isFinite(value) ? value : null;
    if (typeof value === "bigint") return value.toString();
    if (typeof value !== "object") return undefined;
    if (value instanceof ArrayBuffer || ArrayBuffer.isView(value))
      return { type: "file", mime: null, bytes: value.byteLength };
    if (this.#ancestors.has(value) || this.#ancestors.size >= MAX_DEPTH) throw new RangeError("endless or too deep");
    this.#ancestors.add(value);
    const json = this.#copyObject(value);
    this.#ancestors.delete(value);
    return json;
  }

  /**
   * Copies a list, the result of `toJSON`, or the members of an object. Leaves out the rest of an object once the maximum is
   * reached.
   */
  #copyObject(value: object): Json | undefined {
    if (Array.isArray(value)) return this.#copyList(value);
    const { toJSON } = value as { readonly toJSON?: unknown };
    if (typeof toJSON === "function") return this.copy(toJSON.call(value, ""));
    const members: [string, Json][] = [];
    for (const name of Object.keys(value)) {
      if (++this.#count > MAX_VALUES) break;
      const json = this.copy((value as Readonly<Record<string, unknown>>)[name]);
      if (json !== undefined) members.push([name, json]);
    }
    return Object.fromEntries(members);
  }

  /** Copies a list, with null for what JSON omits. Leaves out the rest once the maximum number of values is reached. */
  #copyList(list: readonly unknown[]): Json[] {
    const items: Json[] = [];
    for (const item of list) {
      if (++this.#count > MAX_VALUES) break;
      items.push(this.copy(item) ?? null);
    }
    return items;
  }
}

/**
 * Returns a value as plain JSON, with the size in place of bytes; undefined for values without one, such as cycles and functions. Texts
 * are shared with the value.
 */
export function copyValue(value: unknown): CopiedValue | undefined {
  const copier = new ValueCopier();
  try {
    const json = copier.copy(value);
    return json === undefined ? undefined : { json, isPartial: copier.isPartial };
  } catch {
    return undefined;
  }
}

/** Returns the bytes in UTF-8 of a text as JSON, without its quotes. Stops counting above the limit. */
function measureText(text: string, limit: number): number {
  let bytes = 0;
  for (let index = 0; index < text.length && bytes <= limit; index++) {
    const unit = text.charCodeAt(index);
    if (unit >= 0x800) bytes += measureWideUnit(text, index, unit);
    else if (unit >= 0x80 || unit === 0x22 || unit === 0x5c) bytes += 2;
    else if (unit >= 0x20) bytes += 1;
    else bytes += unit >= 8 && unit <= 13 && unit !== 11 ? 2 : 6;
  }
  return bytes;
}

/** Returns the bytes of a unit above U+07FF: two for each half of a pair. JSON escapes a half without the other. */
function measureWideUnit(text: string, index: number, unit: number): number {
  if ((unit & 0xf800) !== 0xd800) return 3;
  const isHigh = unit < 0xdc00;
  const other = text.charCodeAt(isHigh ? index + 1 : index - 1);
  return (other & 0xfc00) === (isHigh ? 0xdc00 : 0xd800) ? 2 : 6;
}

/** Returns the bytes in UTF-8 of a value as JSON. Above the limit it stops counting, and returns some number above the limit. */
export function measureJson(json: Json, limit: number = Number.POSITIVE_INFINITY): number {
  if (typeof json === "string") return measureText(json, limit) + 2;
  if (typeof json !== "object" || json === null) return String(json).length;
  // A comma follows each member but the last.
  let bytes = 2;
  if (Array.isArray(json)) {
    for (const item of json) {
      bytes += measureJson(item, limit - bytes) + 1;
      if (bytes > limit + 1) return bytes;
    }
    return json.length > 0 ? bytes - 1 : bytes;
  }
  const names = Object.keys(json);
  for (const name of names) {
    bytes += measureText(name, limit - bytes) + 3;
    bytes += measureJson(json[name] as Json, limit - bytes) + 1;
    if (bytes > limit + 1) return bytes;
  }
  return names.length > 0 ? bytes - 1 : bytes;
}

/**
 * Returns the JSON of a value; of a long one its start, which has at least `chars` characters, is not complete JSON, and may be
 * longer.
 */
export function writeStart(json: Json, chars: number): string {
  let text = "";
  const write = (value: Json): void => {
    if (typeof value === "string") text += JSON.stringify(value.length > chars ? value.slice(0, chars) : value);
    else if (typeof value !== "object" || value === null) text += String(value);
    else if (Array.isArray(value)) writeMembers("[]", value.entries());
    else writeMembers("{}", Object.entries(value));
  };
  const writeMembers = (brackets: string, members: Iterable<readonly [string | number, Json]>): void => {
    text += brackets[0];
    let isFirst = true;
    for (const [name, member] of members) {
      if (text.length > chars) return;
      if (!isFirst) text += ",";
      isFirst = false;
      if (typeof name === "string") text += `${JSON.stringify(name.slice(0, chars))}:`;
      write(member);
    }
    text += brackets[1];
  };
  write(json);
  return text;
}
