/**
 * JSON Schemas of answers, from the TypeScript types of lib that declare them and their comments. isolatedDeclarations rules out the
 * other way, types inferred from schemas: exported values need their types written.
 */
import { fileURLToPath } from "node:url";
import { createGenerator } from "ts-json-schema-generator";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import { any, count, object, ref, time, uuid } from "./schemas.ts";

/** Types that say more in the document than in TypeScript. */
const NAMED_SCHEMAS: Readonly<Record<string, JsonObject>> = {
  Uuid: uuid,
  IsoTime: time,
  Json: any,
  JsonObject: object,
};
/** Numbers are counts, except those of these names. */
const FRACTION_NAMES =
  /_(?:usd|seconds)$|^(?:active|queued|suspended|start|duration|total|max|first_token)_ms$|^score$|^(?:avg|min|max)$/;
const REFERENCE = "#/definitions/";

/** Returns the schemas of types by their names. `sources` has the types of each file below `lib`. */
export function createSchemas(sources: Readonly<Record<string, readonly string[]>>): JsonObject {
  const root = fileURLToPath(new URL("../../", import.meta.url));
  const files = Object.keys(sources).map((path) => path.replace(/\.ts$/, ""));
  const generator = createGenerator({
    ...{ path: `${root}lib/{${files.join(",")}}.ts`, tsconfig: `${root}tsconfig.lib.json` },
    ...{ skipTypeCheck: true, additionalProperties: true, jsDoc: "extended" },
  });
  const names = new Set(Object.values(sources).flat());
  return Object.fromEntries(
    [...names].map((name) => {
      const { definitions = {} } = generator.createSchema(name);
      return [name, toDocumentSchema(definitions[name] as Json, definitions as JsonObject, names) as JsonObject];
    }),
  );
}

/** Returns a schema with its types inlined, except those of `names`. `name` is the member that has the schema. */
function toDocumentSchema(schema: Json, definitions: JsonObject, names: ReadonlySet<string>, name = ""): Json {
  if (Array.isArray(schema)) return schema.map((element) => toDocumentSchema(element, definitions, names, name));
  if (!isObject(schema)) return schema;
  const { $ref, ...annotations } = schema;
  if (typeof $ref === "string") {
    const type = decodeURIComponent($ref.slice(REFERENCE.length));
    if (names.has(type)) return ref(type);
    return {
      ...(NAMED_SCHEMAS[type] ?? (toDocumentSchema(definitions[type] as Json, definitions, names, name) as JsonObject)),
      ...copyDescription(annotations),
    };
  }
  const members = Object.entries(schema).map(([key, value]): [string, Json] => {
    if (key === "properties" && isObject(value)) {
      const memberSchemas = Object.entries(value).map(([member, memberSchema]) => [
        member,
        toDocumentSchema(memberSchema, definitions, names, member),
      ]);
      return [key, Object.fromEntries(memberSchemas) as JsonObject];
    }
    return [key, toDocumentSchema(value, definitions, names, name)];
  });
  const { additionalProperties, type, ...keywords } = Object.fromEntries(members) as JsonObject;
  const isOpen = isObject(additionalProperties) && !("properties" in keywords);
  return mergeTextUnion({
    ...toTypeKeyword(type, name),
    ...keywords,
    ...(isOpen ? { additionalProperties } : {}),
    ...copyDescription(keywords),
  });
}

/** Returns the schema of a type of JSON Schema. */
function toTypeKeyword(type: Json | undefined, name: string): JsonObject {
  if (Array.isArray(type)) return { anyOf: type.map((memberType) => toTypeKeyword(memberType, name)) };
  if (type === "number" && !FRACTION_NAMES.test(name)) return count;
  return type === undefined ? {} : { type };
}

/** Returns a union of texts as one enumeration, and any other schema unchanged. */
function mergeTextUnion({ anyOf, ...schema }: JsonObject): JsonObject {
  if (!Array.isArray(anyOf)) return schema;
  const findTexts = (alternative: Json): readonly Json[] | null => {
    if (!isObject(alternative)) return null;
    if (Array.isArray(alternative.enum)) return alternative.enum;
    return "const" in alternative ? [alternative.const as Json] : null;
  };
  const lists = anyOf.map(findTexts);
  if (lists.every((list) => list !== null)) return { type: "string", enum: lists.flat(), ...schema };
  return { anyOf, ...schema };
}

const copyDescription = ({ description }: JsonObject): JsonObject =>
  typeof description === "string" ? { description: description.replace(/\s+/g, " ").replace(/\.$/, "") } : {};
