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
        ? form.plain(object(item))
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
  const object = (fields: object): JsonObject => {
    const entries: [string, Json][] = [];
    let same = true;
    for (const [key, field] of Object.entries(fields)) {
      const json = inner(field);
      same &&= json === field && json !== undefined;
      if (json !== undefined) entries.push([key, json]);
    }
    return same ? (fields as JsonObject) : Object.fromEntries(entries);
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
export function messageFields(message: Message): Record<string, unknown> {
  const { type, ...rest } = Object.fromEntries(ownFields(message)) as Record<string, unknown>;
  return { type: message.getType?.() ?? type, ...rest };
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
