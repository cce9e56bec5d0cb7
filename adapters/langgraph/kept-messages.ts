/** Copies of messages, which tell whether a message has changed since. */
import type { JsonObject } from "../../lib/json.ts";
import { isChunk, isPlainObject, isShown, type Message, messageField } from "./json.ts";

/** A message as it was. Its conversions are added on first use. */
export interface Kept {
  readonly chunk: boolean;
  readonly type: string;
  readonly fields: Readonly<Record<string, unknown>>;
  wire?: JsonObject;
  text?: string;
  /** The own names of a message that was the same, if it has standard fields only. */
  names?: readonly string[];
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
  for (const name of Object.keys(message)) {
    if (name === "type" || !isShown(name)) continue;
    const copy = copyOf(messageField(message, name));
    if (copy === OTHER) return null;
    if (copy !== undefined) fields[name] = shared(copy);
  }
  return { chunk: isChunk(message), type, fields };
}

/** What a message with these fields may have: copies of them. */
export function copiesOf({ fields }: Kept): Record<string, unknown> {
  const copies = { ...fields };
  for (const name in copies) {
    const value = copies[name];
    if (value === NO_FIELDS) copies[name] = {};
    else if (value === NO_ITEMS) copies[name] = [];
    else if (typeof value === "object" && value !== null) copies[name] = copyOf(value);
  }
  return copies;
}

/** True if conversions of the message have the same results as those of the copy. */
export function isUnchanged(message: Message, kept: Kept): boolean {
  if (messageField(message, "type") !== kept.type) return false;
  const names = Object.keys(message);
  if (kept.names && hasNames(names, kept.names)) return hasStandardFields(message as StandardFields, kept.fields);
  let count = 0;
  let standard = true;
  for (const name of names) {
    if (name === "type" || !isShown(name)) continue;
    const field = (message as Kept["fields"])[name];
    standard &&= (STANDARD as readonly string[]).includes(name);
    if (field === undefined) continue;
    if (!isSame(field, kept.fields[name])) return false;
    count++;
  }
  if (count !== Object.keys(kept.fields).length) return false;
  if (standard) {
    kept.names = layouts.find((layout) => hasNames(names, layout)) ?? names;
    if (kept.names === names) layouts = [names, ...layouts.slice(0, MOST_LAYOUTS - 1)];
  }
  return true;
}

/** The names that messages had lately: long lists of messages share them. */
let layouts: readonly (readonly string[])[] = [];
const MOST_LAYOUTS = 8;

/** The fields of LangChain's own classes. */
const STANDARD = [
  ...(["content", "id", "name", "additional_kwargs", "response_metadata", "usage_metadata"] as const),
  ...(["tool_calls", "invalid_tool_calls", "tool_call_id", "status", "artifact"] as const),
];
type StandardFields = { readonly [Name in (typeof STANDARD)[number]]?: unknown };

/** Field by field: each read has its own cache, and a long thread has thousands. */
function hasStandardFields(message: StandardFields, kept: StandardFields): boolean {
  return (
    isSame(message.content, kept.content) &&
    isSame(message.id, kept.id) &&
    isSame(message.name, kept.name) &&
    isSame(message.additional_kwargs, kept.additional_kwargs) &&
    isSame(message.response_metadata, kept.response_metadata) &&
    isSame(message.tool_calls, kept.tool_calls) &&
    isSame(message.invalid_tool_calls, kept.invalid_tool_calls) &&
    isSame(message.usage_metadata, kept.usage_metadata) &&
    isSame(message.tool_call_id, kept.tool_call_id) &&
    isSame(message.status, kept.status) &&
    isSame(message.artifact, kept.artifact)
  );
}

function hasNames(names: readonly string[], own: readonly string[]): boolean {
  if (names.length !== own.length) return false;
  for (let i = 0; i < own.length; i++) if (names[i] !== own[i]) return false;
  return true;
}

/** An object to which only this module can add, and which no copy of it has. */
class Marked extends class {
  constructor(object: object) {
    // biome-ignore lint/correctness/noConstructorReturn: a private field of another object, faster than a WeakMap.
    return object;
  }
} {
  #kept: Kept | undefined;
  static keptOf(object: object): Kept | undefined {
    return #kept in object ? object.#kept : undefined;
  }
  static setKept(object: object, kept: Kept | undefined): void {
    if (!(#kept in object)) new Marked(object);
    (object as Marked).#kept = kept;
  }
}

/** The copy that was made of a message. */
export const keptOf: (message: Message) => Kept | undefined = Marked.keptOf;

/** Messages that cannot get members have no copy. */
export function setKept(message: Message, kept: Kept | undefined): void {
  if (Object.isExtensible(message)) Marked.setKept(message, kept);
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

const NO_ITEMS: readonly never[] = Object.freeze([]);
const NO_FIELDS: object = Object.freeze({});

/** Most messages have several empty fields. No one else may get these: see `copiesOf`. */
function shared(copy: unknown): unknown {
  if (typeof copy !== "object" || copy === null) return copy;
  if (Array.isArray(copy)) return copy.length === 0 ? NO_ITEMS : copy;
  return isEmpty(copy) ? NO_FIELDS : copy;
}

function isSame(value: unknown, kept: unknown): boolean {
  if (value === kept) return true;
  if (kept === NO_ITEMS) return Array.isArray(value) && value.length === 0;
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
