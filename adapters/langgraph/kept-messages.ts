/** Copies of messages, which tell whether a message has changed since. */
import type { JsonObject } from "../../lib/json.ts";
import { isChunk, isPlainObject, isShown, type Message, messageField, messageFields } from "./json.ts";

/** A message as it was. Its conversions are added on first use. */
export interface Kept {
  readonly chunk: boolean;
  /** `type` first. */
  readonly fields: Readonly<Record<string, unknown>>;
  wire?: JsonObject;
  text?: string;
}

/** A list of messages with its text. */
export interface KeptList {
  readonly text: string;
  readonly items: readonly Kept[];
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
    this.lists = [list, ...others].filter(({ text }) => {
      size += text.length;
      return size <= MOST_CHARACTERS;
    });
  }
}

/** Null for a message that has more than plain data: it may change unseen. */
export function keep(message: Message): Kept | null {
  const fields: Record<string, unknown> = {};
  for (const name of messageFields(message)) {
    const copy = copyOf(messageField(message, name));
    if (copy === OTHER) return null;
    fields[name] = copy;
  }
  return { chunk: isChunk(message), fields };
}

/** What a message with these fields may have: copies of them. */
export const copiesOf = ({ fields }: Kept): Record<string, unknown> => copyOf(fields) as Record<string, unknown>;

/** True if conversions of the message have the same results as those of the copy. */
export function isUnchanged(message: Message, { fields }: Kept): boolean {
  if (messageField(message, "type") !== fields.type) return false;
  let count = 1;
  for (const name of Object.keys(message)) {
    if (name === "type" || !isShown(name)) continue;
    const field = (message as Kept["fields"])[name];
    if (field === undefined) continue;
    if (!isSame(field, fields[name])) return false;
    count++;
  }
  return count === Object.keys(fields).length;
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
  const keys = Object.keys(value);
  if (keys.length !== Object.keys(kept).length) return false;
  for (const key of keys) {
    if (!Object.hasOwn(kept, key)) return false;
    if (!isSame((value as Kept["fields"])[key], (kept as Kept["fields"])[key])) return false;
  }
  return true;
}
