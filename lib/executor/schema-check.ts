/** Whether a value fits a JSON Schema: the keywords that describe answers and events. Others are ignored. */
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

/** Deeper schemas and values are not looked into. */
const DEEPEST = 32;

/** What does not fit, as a text; null if the value fits. */
export function misfit(schema: Json, value: Json, at = "value", depth = 0): string | null {
  if (schema === false) return `${at} is not allowed`;
  if (!isObject(schema) || depth > DEEPEST) return null;
  const types = ([] as Json[]).concat(schema.type ?? []);
  if (types.length > 0 && !types.some((type) => TYPES[String(type)]?.(value) ?? true)) {
    return `${at} must be of type ${types.join(" or ")}`;
  }
  if ("const" in schema && !sameJson(schema.const as Json, value))
    return `${at} must be ${JSON.stringify(schema.const)}`;
  if (Array.isArray(schema.enum) && !schema.enum.some((one) => sameJson(one, value))) {
    return `${at} must be one of ${schema.enum.map((one) => JSON.stringify(one)).join(", ")}`;
  }
  return (
    outOfRange(schema, value, at) ??
    wrongMembers(schema, value, at, depth) ??
    wrongItems(schema, value, at, depth) ??
    wrongChoice(schema, value, at, depth)
  );
}

function outOfRange(schema: JsonObject, value: Json, at: string): string | null {
  const limit = (name: string): number | null => (typeof schema[name] === "number" ? schema[name] : null);
  const [size, least, most] =
    typeof value === "number"
      ? ([value, limit("minimum"), limit("maximum")] as const)
      : typeof value === "string"
        ? ([[...value].length, limit("minLength"), limit("maxLength")] as const)
        : Array.isArray(value)
          ? ([value.length, limit("minItems"), limit("maxItems")] as const)
          : ([0, null, null] as const);
  if (least !== null && size < least) return `${at} must be at least ${least}`;
  if (most !== null && size > most) return `${at} must be at most ${most}`;
  if (typeof value === "number") {
    const [above, below] = [limit("exclusiveMinimum"), limit("exclusiveMaximum")];
    if (above !== null && value <= above) return `${at} must be above ${above}`;
    if (below !== null && value >= below) return `${at} must be below ${below}`;
  }
  return null;
}

function wrongMembers(schema: JsonObject, value: Json, at: string, depth: number): string | null {
  if (!isObject(value)) return null;
  const { properties, required, additionalProperties } = schema;
  const known = isObject(properties ?? null) ? (properties as JsonObject) : {};
  const missing = Array.isArray(required) ? required.find((name) => !Object.hasOwn(value, String(name))) : undefined;
  if (missing !== undefined) return `${at}.${missing} is missing`;
  for (const [name, member] of Object.entries(value)) {
    const own = Object.hasOwn(known, name) ? known[name] : additionalProperties;
    const problem = own === undefined ? null : misfit(own, member, `${at}.${name}`, depth + 1);
    if (problem !== null) return problem;
  }
  return null;
}

function wrongItems({ items }: JsonObject, value: Json, at: string, depth: number): string | null {
  if (!Array.isArray(value) || items === undefined) return null;
  for (const [i, item] of value.entries()) {
    const problem = misfit(items, item, `${at}[${i}]`, depth + 1);
    if (problem !== null) return problem;
  }
  return null;
}

function wrongChoice({ anyOf, oneOf, allOf }: JsonObject, value: Json, at: string, depth: number): string | null {
  for (const part of Array.isArray(allOf) ? allOf : []) {
    const problem = misfit(part, value, at, depth + 1);
    if (problem !== null) return problem;
  }
  for (const choices of [anyOf, oneOf]) {
    if (!Array.isArray(choices) || choices.some((one) => misfit(one, value, at, depth + 1) === null)) continue;
    return `${at} fits none of the allowed forms`;
  }
  return null;
}
