/** Walks a value of a graph and makes plain JSON of it; two forms (wire.ts, serde.ts) say what stands for the rest. */
import type { Json, JsonObject } from "../../lib/json.ts";

export type Inner = (value: unknown) => Json | undefined;

/** How a form writes what JSON does not have. Undefined leaves the value out (in a list it is null). */
export interface Form {
  /** undefined, bigint, NaN and infinities, symbols, functions. */
  primitive(value: unknown): Json | undefined;
  /** An object that is neither a list nor plain. */
  instance(value: object, inner: Inner): Json | undefined;
  /** An object that holds itself. */
  cycle(): Json | undefined;
  /** A plain object whose content is JSON already; may give another one. */
  plain(value: JsonObject): JsonObject;
}

/** Parts that are plain JSON already are shared with `value`, not copied. */
export function toJson(value: unknown, form: Form): Json | undefined {
  const open: object[] = [];
  const inner: Inner = (item) => {
    if (item === null || typeof item === "string" || typeof item === "boolean") return item;
    if (typeof item === "number" && Number.isFinite(item)) return item;
    if (typeof item !== "object") return form.primitive(item);
    if (open.includes(item)) return form.cycle();
    open.push(item);
    const json = Array.isArray(item)
      ? list(item)
      : isPlain(item)
        ? form.plain(object(item as Record<string, unknown>))
        : form.instance(item, inner);
    open.pop();
    return json;
  };
  const list = (items: readonly unknown[]): Json[] => {
    let copy: Json[] | undefined;
    for (let at = 0; at < items.length; at++) {
      const json = inner(items[at]) ?? null;
      if (copy) copy.push(json);
      else if (json !== items[at]) copy = [...(items.slice(0, at) as Json[]), json];
    }
    return copy ?? (items as Json[]);
  };
  const object = (fields: Readonly<Record<string, unknown>>): JsonObject => {
    const keys = Object.keys(fields);
    let copy: [string, Json][] | undefined;
    for (const [at, key] of keys.entries()) {
      const json = inner(fields[key]);
      if (!copy && (json === undefined || json !== fields[key])) {
        copy = keys.slice(0, at).map((before) => [before, fields[before] as Json]);
      }
      if (copy && json !== undefined) copy.push([key, json]);
    }
    return copy ? Object.fromEntries(copy) : (fields as JsonObject);
  };
  return inner(value);
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  // The second test is for objects of another realm.
  return prototype === null || prototype === Object.prototype || Object.getPrototypeOf(prototype) === null;
}

const MESSAGE = Symbol.for("langchain.message");

/** A LangChain message, of whatever copy of the package. */
export interface Message {
  readonly type?: unknown;
  readonly id?: unknown;
  getType?(): string;
}

export function isMessage(value: object): value is Message {
  return (value as { [MESSAGE]?: unknown })[MESSAGE] === true;
}

export function isChunk(message: Message): boolean {
  const { lc_name } = message.constructor as { lc_name?: () => string };
  return lc_name?.().endsWith("Chunk") ?? false;
}

/** What a message holds, `type` first. */
export function messageJson(message: Message, inner: Inner): JsonObject {
  const fields: [string, Json][] = [["type", inner(message.getType?.() ?? message.type) ?? null]];
  for (const [key, field] of ownFields(message)) {
    const json = key === "type" ? undefined : inner(field);
    if (json !== undefined) fields.push([key, json]);
  }
  return Object.fromEntries(fields);
}

/** The content of any other class instance: what its `toJSON` gives, or its fields. */
export function instanceFields(value: object): unknown {
  // LangChain's toJSON writes a constructor call, which is of no use to anybody who gets data.
  if ((value as { lc_serializable?: unknown }).lc_serializable !== undefined)
    return Object.fromEntries(ownFields(value));
  const { toJSON } = value as { toJSON?: unknown };
  return typeof toJSON === "function" ? (toJSON.call(value) as unknown) : Object.fromEntries(Object.entries(value));
}

function ownFields(value: object): [string, unknown][] {
  return Object.entries(value).filter(([key, field]) => !key.startsWith("lc_") && field !== undefined);
}

/** Base64 of bytes. */
export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}

export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
