/**
 * Converts a graph's values to plain JSON. A form (serialize.ts, serde.ts) converts the values that JSON does not
 * have.
 */
import type { Json, JsonObject } from "../../lib/json.ts";

export type ConvertInner = (value: unknown) => Json | undefined;

/** Converts values that JSON does not have. Undefined omits the value (in a list it becomes null). */
export interface JsonForm {
  /** Converts undefined, bigint, NaN and infinities, symbols, functions. */
  primitive(value: unknown): Json | undefined;
  /** Converts an object that is neither a list nor a plain object. */
  instance(value: object, convertInner: ConvertInner): Json | undefined;
  /** Converts an object that contains itself. */
  cycle(): Json | undefined;
  /** Converts a plain object whose content is already JSON. May return another object. */
  plain(value: JsonObject): JsonObject;
}

/**
 * Converts a value to JSON. Shares the parts that are plain JSON with the value, instead of copying them. Undefined members are
 * omitted, undefined elements become null; returns undefined if the form omits the value itself. Throws what the form throws, for
 * functions, symbols or cycles.
 */
export function toJson(value: unknown, form: JsonForm): Json | undefined {
  const ancestors: object[] = [];
  /**
   * Converts a value inside the converted one. Passes what JSON lacks to `form.primitive`, and an object that contains
   * itself to `form.cycle`.
   */
  const convertInner: ConvertInner = (item) => {
    if (item === null || typeof item === "string" || typeof item === "boolean") return item;
    if (typeof item === "number" && Number.isFinite(item)) return item;
    if (typeof item !== "object") return form.primitive(item);
    if (ancestors.includes(item)) return form.cycle();
    ancestors.push(item);
    const json = convertComposite(item);
    ancestors.pop();
    return json;
  };
  /** Converts a list, a plain object, which then passes `form.plain`, or another instance, by `form.instance`. */
  const convertComposite = (item: object): Json | undefined => {
    if (Array.isArray(item)) return convertList(item);
    return isPlainObject(item)
      ? form.plain(convertObject(item as Record<string, unknown>))
      : form.instance(item, convertInner);
  };
  /** Converts the elements; undefined becomes null. Returns the same list if no element changes, else a copy. */
  const convertList = (items: readonly unknown[]): Json[] => {
    let copy: Json[] | undefined;
    for (let index = 0; index < items.length; index++) {
      const json = convertInner(items[index]) ?? null;
      if (copy) copy.push(json);
      else if (json !== items[index]) copy = [...(items.slice(0, index) as Json[]), json];
    }
    return copy ?? (items as Json[]);
  };
  /** Converts the members and omits undefined ones. Returns the same object if nothing changes, else a copy. */
  const convertObject = (fields: Readonly<Record<string, unknown>>): JsonObject => {
    const keys = Object.keys(fields);
    let copy: [string, Json][] | undefined;
    for (const [index, key] of keys.entries()) {
      const json = convertInner(fields[key]);
      if (!copy && (json === undefined || json !== fields[key])) {
        copy = keys.slice(0, index).map((before) => [before, fields[before] as Json]);
      }
      if (copy && json !== undefined) copy.push([key, json]);
    }
    return copy ? Object.fromEntries(copy) : (fields as JsonObject);
  };
  return convertInner(value);
}

/**
 * Returns true for an object that is no class instance: without a prototype, or with that of `Object`, also of another
 * realm.
 */
function isPlainObject(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  // The second test is for objects of another realm.
  return prototype === null || prototype === Object.prototype || Object.getPrototypeOf(prototype) === null;
}

const MESSAGE = Symbol.for("langchain.message");

/** A LangChain message, from any copy of the package. */
export interface LangChainMessage {
  readonly type?: unknown;
  readonly id?: unknown;
  getType?(): string;
}

export function isMessage(value: object): value is LangChainMessage {
  return (value as { [MESSAGE]?: unknown })[MESSAGE] === true;
}

/** Returns true if LangChain's name of the message's class ends with `Chunk`: it is a part of a streamed message. */
export function isChunk(message: LangChainMessage): boolean {
  const { lc_name } = message.constructor as { lc_name?: () => string };
  return lc_name?.().endsWith("Chunk") ?? false;
}

/** Returns the public members of a message, `type` first, without undefined ones. Called for each token. */
export function convertMessage(message: LangChainMessage, convertInner: ConvertInner): Record<string, Json> {
  const fields: Record<string, Json> = {};
  const type = convertInner(message.getType?.() ?? message.type ?? null);
  if (type !== undefined) fields.type = type;
  for (const name of Object.keys(message)) {
    if (name === "type" || !isPublicField(name)) continue;
    const value = (message as Record<string, unknown>)[name];
    const json = value === undefined ? undefined : convertInner(value);
    if (json !== undefined) fields[name] = json;
  }
  return fields;
}

/** Returns false for LangChain's own fields, and for a name that would change the prototype of a copy. */
function isPublicField(name: string): boolean {
  const first = name[0];
  return !(first === "l" && name.startsWith("lc_")) && !(first === "_" && name === "__proto__");
}

/**
 * Returns the content of an instance of any other class: for LangChain's classes the public fields, else the result of
 * its `toJSON`, else a copy of its own enumerable members. The content is not converted yet.
 */
export function readInstanceFields(value: object): unknown {
  // LangChain's toJSON writes a constructor call, which is useless as data.
  if ((value as { lc_serializable?: unknown }).lc_serializable !== undefined)
    return Object.fromEntries(readPublicFields(value));
  const { toJSON } = value as { toJSON?: unknown };
  return typeof toJSON === "function" ? (toJSON.call(value) as unknown) : Object.fromEntries(Object.entries(value));
}

function readPublicFields(value: object): [string, unknown][] {
  return Object.entries(value).filter(([key, field]) => isPublicField(key) && field !== undefined);
}

export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (let index = 0; index < bytes.length; index += 8192)
    text += String.fromCharCode(...bytes.subarray(index, index + 8192));
  return btoa(text);
}

export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
