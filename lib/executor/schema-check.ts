/**
 * Validates values against a JSON Schema. Supports the keywords that describe resume values, events and arguments of tools, and
 * ignores all others, such as `format`.
 */
import { isObject, type Json, type JsonObject, sameJson } from "../json.ts";

const TYPES: Readonly<Record<string, (value: Json) => boolean>> = {
  null: (value) => value === null,
  boolean: (value) => typeof value === "boolean",
  string: (value) => typeof value === "string",
  number: (value) => typeof value === "number",
  integer: (value) => Number.isInteger(value),
  array: (value) => Array.isArray(value),
  object: (value) => isObject(value),
};

/** The depth below which schemas and values are not checked. */
const MAX_DEPTH = 32;
/** The maximum number of comparisons per check. Overlapping forms of a recursive schema would take exponential time. */
const MAX_COMPARISONS = 200_000;

/** Validates a value. Returns at most `limit` mismatches, each with its path. `label` names the value. */
export function findSchemaMismatches(schema: Json, value: Json, label: string, limit: number): readonly string[] {
  const check = new SchemaCheck(schema, limit);
  check.visit(schema, value, label, 0);
  return check.findings;
}

/** Validates `value` against a JSON Schema. Returns a description of the first mismatch, or null. */
export const findSchemaMismatch = (schema: Json, value: Json): string | null =>
  findSchemaMismatches(schema, value, "value", 1)[0] ?? null;

class SchemaCheck {
  readonly #root: Json;
  readonly #limit: number;
  #comparisons = 0;
  findings: string[] = [];

  constructor(root: Json, limit: number) {
    this.#root = root;
    this.#limit = limit;
  }

  #add(...findings: readonly string[]): void {
    this.findings.push(...findings.slice(0, this.#limit - this.findings.length));
  }

  /**
   * Adds a finding for each mismatch of a value, with its path `at`. Accepts keywords and references that are not supported, and
   * stops at the limits of depth, comparisons and findings.
   */
  visit(schema: Json, value: Json, at: string, depth: number): void {
    if (schema === false) this.#add(`${at} is not allowed`);
    if (!isObject(schema) || depth > MAX_DEPTH || this.#comparisons++ > MAX_COMPARISONS) return;
    const types = ([] as Json[]).concat(schema.type ?? []);
    if (types.length > 0 && !types.some((type) => TYPES[String(type)]?.(value) ?? true)) {
      this.#add(`${at} must be of type ${types.join(" or ")}`);
      return;
    }
    this.#add(
      ...findChoiceMismatch(schema, value, at),
      ...findSizeMismatches(schema, value, at),
      ...findMissingMembers(schema, value, at),
    );
    for (const [part, member, path] of listInnerSchemas(schema, value, at)) {
      if (this.findings.length >= this.#limit) return;
      this.visit(part, member, path, depth + 1);
    }
    for (const part of this.#listAppliedSchemas(schema, value, depth)) this.visit(part, value, at, depth + 1);
    // A value that matches several forms of `oneOf` passes, because ignored keywords may distinguish them.
    for (const forms of [schema.anyOf, schema.oneOf]) {
      if (!Array.isArray(forms) || forms.some((form) => this.#fits(form, value, depth))) continue;
      this.#add(`${at} fits none of the allowed forms`);
    }
  }

  /** Returns true if the value matches. Adds no findings. */
  #fits(schema: Json, value: Json, depth: number): boolean {
    const { findings } = this;
    this.findings = [];
    this.visit(schema, value, "", depth + 1);
    const { length } = this.findings;
    this.findings = findings;
    return length === 0;
  }

  /**
   * Yields further schemas that apply to the same value: those of `$ref` and `allOf`, and `then` or `else` by whether the value
   * matches `if`.
   */
  *#listAppliedSchemas({ $ref, allOf, if: test, ...schema }: JsonObject, value: Json, depth: number): Generator<Json> {
    if (typeof $ref === "string") yield this.#resolve($ref);
    if (Array.isArray(allOf)) yield* allOf;
    if (test !== undefined) yield (this.#fits(test, value, depth) ? schema.then : schema.else) ?? true;
  }

  /** Returns the part of the schema that a reference names. All values match an unknown one. */
  #resolve(reference: string): Json {
    let part: Json | undefined = reference.startsWith("#") ? this.#root : true;
    for (const name of reference.split("/").slice(1)) {
      const key = name.replaceAll("~1", "/").replaceAll("~0", "~");
      part =
        (isObject(part) || Array.isArray(part)) && Object.hasOwn(part, key) ? (part as JsonObject)[key] : undefined;
    }
    return part ?? true;
  }
}

/** Returns a problem if the value is not the `const` or none of the `enum` of the schema; else none. */
function findChoiceMismatch(schema: JsonObject, value: Json, path: string): string[] {
  if ("const" in schema && !sameJson(schema.const as Json, value)) {
    return [`${path} must be ${JSON.stringify(schema.const)}`];
  }
  if (!Array.isArray(schema.enum) || schema.enum.some((choice) => sameJson(choice, value))) return [];
  return [`${path} must be one of ${schema.enum.map((choice) => JSON.stringify(choice)).join(", ")}`];
}

/** Returns the problems with limits of numbers, lengths and patterns; none for other types. Lengths count code points. */
function findSizeMismatches(schema: JsonObject, value: Json, path: string): string[] {
  const limit = (name: string): number | null => (typeof schema[name] === "number" ? schema[name] : null);
  const check = (bound: number | null, isWrong: (bound: number) => boolean, text: string): string[] =>
    bound !== null && isWrong(bound) ? [`${path} ${text.replace("#", String(bound))}`] : [];
  if (typeof value === "number") {
    return [
      ...check(limit("minimum"), (least) => value < least, "must be at least #"),
      ...check(limit("maximum"), (most) => value > most, "must be at most #"),
      ...check(limit("exclusiveMinimum"), (below) => value <= below, "must be above #"),
      ...check(limit("exclusiveMaximum"), (above) => value >= above, "must be below #"),
    ];
  }
  if (typeof value === "string") {
    const [least, most] = [limit("minLength"), limit("maxLength")];
    const length = least === null && most === null ? 0 : [...value].length;
    return [
      ...check(least, (bound) => length < bound, "must be at least # characters long"),
      ...check(most, (bound) => length > bound, "must be at most # characters long"),
      ...findPatternMismatch(schema.pattern, value, path),
    ];
  }
  if (!Array.isArray(value)) return [];
  return [
    ...check(limit("minItems"), (least) => value.length < least, "must have at least # items"),
    ...check(limit("maxItems"), (most) => value.length > most, "must have at most # items"),
  ];
}

/** Returns the mismatch with a pattern as a list of at most one. A pattern that JavaScript does not support matches. */
function findPatternMismatch(pattern: Json | undefined, value: string, path: string): string[] {
  if (typeof pattern !== "string") return [];
  try {
    return new RegExp(pattern, "u").test(value) ? [] : [`${path} must match the pattern ${JSON.stringify(pattern)}`];
  } catch {
    // Other languages have patterns that JavaScript does not support.
    return [];
  }
}

/** Returns a problem for each required member that is missing; none for what is no object. */
function findMissingMembers({ required }: JsonObject, value: Json, path: string): string[] {
  if (!isObject(value) || !Array.isArray(required)) return [];
  return required.filter((name) => !Object.hasOwn(value, String(name))).map((name) => `${path}.${name} is missing`);
}

type Part = readonly [schema: Json, value: Json, at: string];

/**
 * Yields the items or members of a value, each with its schema and path; true, which accepts any value, stands for a missing
 * schema. Names of members come too, with the schema `propertyNames`. Yields nothing for other values.
 */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one branch for each keyword of JSON Schema
function* listInnerSchemas(schema: JsonObject, value: Json, path: string): Generator<Part> {
  if (Array.isArray(value)) {
    const { items, prefixItems } = schema;
    const prefixSchemas = Array.isArray(prefixItems) ? prefixItems : [];
    for (const [i, item] of value.entries()) yield [prefixSchemas[i] ?? items ?? true, item, `${path}[${i}]`];
  } else if (isObject(value)) {
    const { properties, patternProperties, additionalProperties, propertyNames } = schema;
    const namedSchemas = isObject(properties) ? properties : {};
    const otherSchema = patternProperties === undefined ? additionalProperties : true;
    for (const [name, member] of Object.entries(value)) {
      yield [propertyNames ?? true, name, `the name ${path}.${name}`];
      yield [(Object.hasOwn(namedSchemas, name) ? namedSchemas[name] : otherSchema) ?? true, member, `${path}.${name}`];
    }
  }
}
