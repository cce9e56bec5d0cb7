/** Finds mistakes in a JSON Schema that would let it accept any value. */
import { isObject, type Json, type JsonObject } from "../json.ts";
import { suggestName } from "../validation.ts";

const TYPES = ["null", "boolean", "string", "number", "integer", "array", "object"];

const isSchema = (value: Json): boolean => typeof value === "boolean" || isObject(value);
const isNumber = (value: Json): boolean => typeof value === "number";
/** Returns a check that a value is a list with at least one element, and that all elements pass. */
const createNonEmptyListCheck =
  (isElement: (element: Json) => boolean) =>
  (value: Json): boolean =>
    Array.isArray(value) && value.length > 0 && value.every(isElement);
const isType = (value: Json): boolean => TYPES.includes(value as string);
const areSchemas = (value: Json): boolean => isObject(value) && Object.values(value).every(isSchema);
const anyValue = (): boolean => true;

const schema = [isSchema, "must be a schema"] as const;
const schemas = [createNonEmptyListCheck(isSchema), "must be a list of schemas"] as const;
const members = [areSchemas, "must be an object of schemas"] as const;
const number = [isNumber, "must be a number"] as const;

/** The keywords that restrict values, with a check of each. */
const KEYWORDS: Readonly<Record<string, readonly [isValid: (value: Json) => boolean, text: string]>> = {
  type: [(value) => isType(value) || createNonEmptyListCheck(isType)(value), ""],
  const: [anyValue, ""],
  enum: [createNonEmptyListCheck(anyValue), "must be a list with at least one value"],
  properties: members,
  patternProperties: members,
  additionalProperties: schema,
  propertyNames: schema,
  required: [
    (value) => Array.isArray(value) && value.every((name) => typeof name === "string"),
    "must be a list of names",
  ],
  items: schema,
  prefixItems: schemas,
  ...{ anyOf: schemas, oneOf: schemas, allOf: schemas },
  ...{ minimum: number, maximum: number, exclusiveMinimum: number, exclusiveMaximum: number },
  ...{ minLength: number, maxLength: number, minItems: number, maxItems: number },
  pattern: [(value) => typeof value === "string", "must be a text"],
};

/** Other keywords of JSON Schema. Values are not compared with them. */
const OTHER_KEYWORDS: ReadonlySet<string> = new Set([
  ...["$schema", "$id", "$ref", "$defs", "$comment", "$anchor", "$dynamicRef", "$dynamicAnchor", "$vocabulary"],
  ...["definitions", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "format"],
  ...["not", "if", "then", "else", "contains", "minContains", "maxContains", "uniqueItems", "multipleOf", "nullable"],
  ...["minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "dependencies", "additionalItems"],
  ...["unevaluatedItems", "unevaluatedProperties", "contentEncoding", "contentMediaType", "contentSchema", "id"],
]);

/** The depth below which schemas are not checked. */
const MAX_DEPTH = 32;

/** Returns a copy of a schema as it is stored. Throws a TypeError that begins with `label` for a schema that cannot validate. */
export function parseSchema(value: unknown, label: string): JsonObject {
  const problem = findSchemaProblem(value);
  if (problem !== undefined) throw new TypeError(`${label}: ${problem}`);
  return JSON.parse(JSON.stringify(value)) as JsonObject;
}

/** Returns the first mistake in a schema with its path, or undefined. */
function findSchemaProblem(value: unknown, path = "schema", depth = 0): string | undefined {
  if ((typeof value === "boolean" && depth > 0) || depth > MAX_DEPTH) return undefined;
  if (typeof value === "object" && value !== null && "~standard" in value && !isPlainObject(value)) {
    return `${path}: must be JSON Schema. Convert it first, for example with z.toJSONSchema(schema)`;
  }
  if (!isPlainObject(value)) return `${path}: must be a JSON Schema object such as { type: "boolean" }`;
  const keys = Object.keys(value);
  for (const key of keys) {
    const problem = findKeywordProblem(key, value[key] as Json, `${path}.${key}`);
    if (problem !== undefined) return problem;
  }
  if (keys.length > 0 && !keys.some((key) => Object.hasOwn(KEYWORDS, key) || OTHER_KEYWORDS.has(key))) {
    return `${path}: has no keyword of JSON Schema, so every value would fit. Give a type, such as { type: "boolean" }`;
  }
  for (const [part, partPath] of listInnerSchemas(value, path)) {
    const problem = findSchemaProblem(part, partPath, depth + 1);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

const isPlainObject = (value: unknown): value is JsonObject =>
  isObject(value as Json) && [Object.prototype, null].includes(Object.getPrototypeOf(value));

/** Returns the mistake in one keyword, or undefined. Unknown keywords count only if their names resemble a known one. */
function findKeywordProblem(key: string, value: Json, path: string): string | undefined {
  if (!Object.hasOwn(KEYWORDS, key)) {
    const hint = OTHER_KEYWORDS.has(key) ? "" : suggestName(key, Object.keys(KEYWORDS));
    return hint === "" ? undefined : `${path}: unknown keyword${hint}`;
  }
  const [isValid, text] = KEYWORDS[key] as (typeof KEYWORDS)[string];
  if (isValid(value)) return undefined;
  if (key !== "type") return `${path}: ${text}`;
  const wrong = (Array.isArray(value) ? value : [value]).find((type) => !isType(type));
  const hint = wrong === "bool" ? "; did you mean boolean?" : suggestName(String(wrong), TYPES);
  return `${path}: ${JSON.stringify(wrong ?? [])} is not a type${hint || `; types: ${TYPES.join(", ")}`}`;
}

/** Yields the schemas directly inside a schema, such as those of its properties and items, each with its path. */
function* listInnerSchemas(value: JsonObject, path: string): Generator<readonly [Json, string]> {
  for (const key of ["items", "additionalProperties", "propertyNames"]) {
    if (value[key] !== undefined) yield [value[key], `${path}.${key}`];
  }
  for (const key of ["properties", "patternProperties", "anyOf", "oneOf", "allOf", "prefixItems"]) {
    for (const [name, part] of Object.entries((value[key] ?? {}) as JsonObject)) yield [part, `${path}.${key}.${name}`];
  }
}
