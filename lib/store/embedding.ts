/** Selects the texts of a value that are embedded, and calls the host's embedder. */
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { Vector } from "../storage/items.ts";

/** Semantic search: embeds items when they are stored and queries when they are searched. */
export interface StoreIndex {
  /** The length of each vector. */
  readonly dims: number;
  /** Returns one vector per text, in the same order. */
  embed(texts: readonly string[]): Promise<readonly (readonly number[])[]>;
  /** Paths into the value to embed, such as `title` or `chapters[*].text`; `$` is the whole value. Default `["$"]`. */
  readonly fields?: readonly string[];
}

/**
 * The texts at a path in LangGraph's syntax: `a.b`, `list[0]`, `list[-1]`, `list[*].text`, `*` for all members, `{a,b.c}` for
 * several, `$` for the whole value. Lists and objects become JSON. A path to a missing value has no text.
 */
export function textsAt(value: JsonObject, path: string): readonly string[] {
  if (path === "" || path === "$") return [jsonText(value)];
  return textsOf(value, stepsOf(path));
}

/** Splits a path into names, `[...]` and `{...}`. */
const stepsOf = (path: string): readonly string[] => path.match(/\[[^\]]*\]?|\{[^}]*\}?|[^.[{]+/g) ?? [];

function textsOf(value: Json | undefined, steps: readonly string[]): readonly string[] {
  const [step, ...rest] = steps;
  if (step === undefined) return textOf(value);
  if (step.startsWith("[")) {
    if (!Array.isArray(value)) return [];
    const index = step.replace(/^\[|\]$/g, "");
    if (index === "*") return value.flatMap((item) => textsOf(item, rest));
    const item = /^-?\d+$/.test(index) ? value.at(Number(index)) : undefined;
    return textsOf(item, rest);
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

/** Embeds the texts, equal texts once. Throws when the embedder does not return one vector per text. */
export async function embed(index: StoreIndex, texts: readonly string[]): Promise<readonly Vector[]> {
  const unique = [...new Set(texts)];
  if (unique.length === 0) return [];
  const answer: unknown = await index.embed(unique);
  if (!Array.isArray(answer) || answer.length !== unique.length) {
    throw new Error(`store.index.embed: must return a list of ${unique.length} vectors for ${unique.length} texts`);
  }
  const vectors = new Map(unique.map((text, at) => [text, checkVector(answer[at], index.dims)]));
  return texts.map((text) => vectors.get(text) as Vector);
}

function checkVector(value: unknown, dims: number): Vector {
  const vector = Array.isArray(value) || ArrayBuffer.isView(value) ? Array.from(value as ArrayLike<unknown>) : [];
  if (vector.length !== dims) throw new Error(`store.index.embed: must return vectors of length ${dims}`);
  if (!vector.every((number) => Number.isFinite(number))) {
    throw new Error("store.index.embed: must return vectors of finite numbers");
  }
  return vector as Vector;
}
