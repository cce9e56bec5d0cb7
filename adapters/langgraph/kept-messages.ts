/** Copies of messages, which tell whether a message has changed since. */
import type { JsonObject } from "../../lib/json.ts";
import { isChunk, isPlainObject, isShown, type Message, messageField, messageFields } from "./json.ts";

/** A message as it was. Its conversions are added on first use. */
export interface Kept {
  readonly chunk: boolean;
  readonly type: string;
  readonly fields: Readonly<Record<string, unknown>>;
  wire?: JsonObject;
  text?: string;
  /** The own names of a message that was the same, with its values; `HIDDEN` for those that are not compared. */
  own?: { readonly names: readonly string[]; readonly values: readonly unknown[] };
}

/** A list of messages with its text. */
export interface KeptList {
  readonly text: string;
  readonly items: readonly Kept[];
  /** The wire form of the first items, with their text without brackets. */
  shown?: { readonly items: readonly JsonObject[]; readonly text: string };
}

/** Shorter texts are read again, in characters. */
const LIST_FROM = 1024;
/** The limit of all lists together, in characters. */
const MOST_CHARACTERS = 2 * 1024 * 1024;

/** The lists that were used last, by their text: the next run of a thread begins with the list that the last one has left. */
export class KeptLists {
  private lists: readonly KeptList[] = [];

  find(text: string): KeptList | undefined {
    if (text.length < LIST_FROM) return undefined;
    return this.lists.find((list) => list.text === text);
  }

  /** `instead` of a list that the new one extends. */
  add(list: KeptList, instead?: KeptList): void {
    if (list.text.length < LIST_FROM) return;
    const others = this.lists.filter((one) => one !== instead && one.text !== list.text);
    let size = 0;
    this.lists = [list, ...others].filter(({ text, shown }) => {
      size += text.length + (shown?.text.length ?? 0);
      return size <= MOST_CHARACTERS;
    });
  }
}

/** Null for a message that has more than plain data: it may change unseen. */
export function keep(message: Message): Kept | null {
  const fields: Record<string, unknown> = {};
  const type = messageField(message, "type");
  if (typeof type !== "string") return null;
  for (const name of messageFields(message)) {
    if (name === "type") continue;
    const copy = copyOf(messageField(message, name));
    if (copy === OTHER) return null;
    fields[name] = copy;
  }
  return { chunk: isChunk(message), type, fields };
}

/** What a message with these fields may have: copies of them. */
export function copiesOf({ fields }: Kept): Record<string, unknown> {
  const copies = { ...fields };
  for (const name in copies) {
    const value = copies[name];
    if (typeof value === "object" && value !== null) copies[name] = copyOf(value);
  }
  return copies;
}

/** True if conversions of the message have the same results as those of the copy. */
export function isUnchanged(message: Message, kept: Kept): boolean {
  const { type, fields, own } = kept;
  if (messageField(message, "type") !== type) return false;
  const names = Object.keys(message);
  if (own && hasNames(names, own.names)) {
    for (let i = 0; i < names.length; i++) {
      const value = own.values[i];
      if (value === HIDDEN) continue;
      const field = (message as Kept["fields"])[names[i] as string];
      if (field !== value && !isSame(field, value)) return false;
    }
    return true;
  }
  let count = 0;
  for (const name of names) {
    if (name === "type" || !isShown(name)) continue;
    const field = (message as Kept["fields"])[name];
    if (field === undefined) continue;
    if (!isSame(field, fields[name])) return false;
    count++;
  }
  if (count !== Object.keys(fields).length) return false;
  const values = names.map((name) => (name === "type" || !isShown(name) ? HIDDEN : fields[name]));
  kept.own = { names, values };
  return true;
}

const HIDDEN: unique symbol = Symbol("not compared");

function hasNames(names: readonly string[], own: readonly string[]): boolean {
  if (names.length !== own.length) return false;
  for (let i = 0; i < own.length; i++) if (names[i] !== own[i]) return false;
  return true;
}

/** What cannot be copied. */
const OTHER: unique symbol = Symbol("other than plain data");
const DEEPEST = 32;

/** A copy of plain data, which may contain undefined; `OTHER` for all else. */
function copyOf(value: unknown, depth = 0): unknown {
  if (typeof value === "function" || typeof value === "symbol") return OTHER;
  if (typeof value !== "object" || value === null) return value;
  if (depth === DEEPEST) return OTHER;
  if (Array.isArray(value)) {
    const items: unknown[] = [];
    for (const item of value) {
      const copy = copyOf(item, depth + 1);
      if (copy === OTHER) return OTHER;
      items.push(copy);
    }
    return items;
  }
  if (!isPlainObject(value)) return OTHER;
  const copies: Record<string, unknown> = {};
  for (const key of Object.keys(value)) {
    const copy = copyOf((value as Record<string, unknown>)[key], depth + 1);
    if (copy === OTHER || key === "__proto__") return OTHER;
    copies[key] = copy;
  }
  return copies;
}

function isSame(value: unknown, kept: unknown): boolean {
  if (value === kept) return true;
  if (typeof value !== "object" || typeof kept !== "object" || value === null || kept === null) {
    return Object.is(value, kept);
  }
  if (Array.isArray(value)) {
    if (!Array.isArray(kept) || value.length !== kept.length) return false;
    for (let i = 0; i < value.length; i++) if (!isSame(value[i], kept[i])) return false;
    return true;
  }
  if (Array.isArray(kept) || !isPlainObject(value)) return false;
  if (isEmpty(value)) return isEmpty(kept);
  const keys = Object.keys(value);
  if (keys.length !== Object.keys(kept).length) return false;
  for (const key of keys) {
    if (!Object.hasOwn(kept, key)) return false;
    if (!isSame((value as Kept["fields"])[key], (kept as Kept["fields"])[key])) return false;
  }
  return true;
}

function isEmpty(value: object): boolean {
  for (const _ in value) return false;
  return true;
}
