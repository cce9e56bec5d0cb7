/** What is embedded of a value, and the vectors that the host's embedder makes of it. */
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { Vector } from "../storage/items.ts";

/** What finds items by meaning. */
export interface StoreIndex {
  /** Length of each vector. */
  readonly dims: number;
  /** One vector per text. */
  embed(texts: readonly string[]): Promise<readonly (readonly number[])[]>;
  /** Paths into the value that are embedded, as `title` or `chapters[*].text`; `$` is the whole value. Default `["$"]`. */
  readonly fields?: readonly string[];
}

/**
 * The texts at a path, as LangGraph reads it: `a.b`, `list[0]`, `list[-1]`, `list[*].text`, `*` for all members, `{a,b.c}`
 * for several, `$` for the whole value. Scalars count as text, lists and objects as JSON; where nothing is there is none.
 */
export function textsAt(value: JsonObject, path: string): readonly string[] {
  if (path === "" || path === "$") return [jsonText(value)];
  return textsOf(value, stepsOf(path));
}

/** Names, and what brackets and braces hold together with them. */
const stepsOf = (path: string): readonly string[] => path.match(/\[[^\]]*\]?|\{[^}]*\}?|[^.[{]+/g) ?? [];

function textsOf(value: Json | undefined, steps: readonly string[]): readonly string[] {
  const [step, ...rest] = steps;
  if (step === undefined) return textOf(value);
  if (step.startsWith("[")) {
    if (!Array.isArray(value)) return [];
    const place = step.replace(/^\[|\]$/g, "");
    if (place === "*") return value.flatMap((item) => textsOf(item, rest));
    const at = /^-?\d+$/.test(place) ? value.at(Number(place)) : undefined;
    return textsOf(at, rest);
  }
  if (step.startsWith("{")) {
    const fields = step.replace(/^\{|\}$/g, "").split(",");
    return fields.flatMap((field) => textsOf(value, [...stepsOf(field.trim()), ...rest]));
  }
  if (step === "*") {
    const members = isObject(value) || Array.isArray(value) ? Object.values(value) : [];
    return members.flatMap((member) => textsOf(member, rest));
  }
  return isObject(value) && Object.hasOwn(value, step) ? textsOf(value[step], rest) : [];
}

function textOf(value: Json | undefined): readonly string[] {
  if (value === undefined || value === null) return [];
  return [typeof value === "object" ? jsonText(value) : String(value)];
}

const jsonText = (value: Json): string => JSON.stringify(value, null, 2);

/** One vector per text; equal texts are embedded once. Throws when the embedder gives anything else. */
export async function embedded(index: StoreIndex, texts: readonly string[]): Promise<readonly Vector[]> {
  const unique = [...new Set(texts)];
  if (unique.length === 0) return [];
  const given: unknown = await index.embed(unique);
  if (!Array.isArray(given) || given.length !== unique.length) {
    throw new Error(`store.index.embed: gave no list of ${unique.length} vectors for ${unique.length} texts`);
  }
  const vectors = new Map(unique.map((text, at) => [text, proven(given[at], index.dims)]));
  return texts.map((text) => vectors.get(text) as Vector);
}

function proven(given: unknown, dims: number): Vector {
  const vector = Array.isArray(given) || ArrayBuffer.isView(given) ? Array.from(given as ArrayLike<unknown>) : [];
  if (vector.length !== dims) throw new Error(`store.index.embed: gave a vector whose length is not ${dims}`);
  if (!vector.every((number) => Number.isFinite(number))) {
    throw new Error("store.index.embed: gave a vector that holds something else than finite numbers");
  }
  return vector as Vector;
}
