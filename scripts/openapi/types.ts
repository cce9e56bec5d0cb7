/**
 * JSON Schemas of answers, from the TypeScript types of lib that declare them and their comments. isolatedDeclarations rules out the
 * other way, types inferred from schemas: exported values need their types written.
 */
import { fileURLToPath } from "node:url";
import { createGenerator } from "ts-json-schema-generator";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import { any, count, object, ref, time, uuid } from "./schemas.ts";

/** Types that say more in the document than in TypeScript. */
const KNOWN: Readonly<Record<string, JsonObject>> = { Uuid: uuid, IsoTime: time, Json: any, JsonObject: object };
/** Numbers are counts, except those of these names. */
const FRACTION = /_(?:usd|seconds)$|^(?:avg|min|max)$/;
const REFERENCE = "#/definitions/";

/** The schemas of these types, by their names. `sources`: the types of each file, below lib. */
export function schemasOf(sources: Readonly<Record<string, readonly string[]>>): JsonObject {
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
      return [name, shown(definitions[name] as Json, definitions as JsonObject, names) as JsonObject];
    }),
  );
}

/** A schema as the document has it: named types of its own are inside. `name`: of the member that has it. */
function shown(schema: Json, definitions: JsonObject, names: ReadonlySet<string>, name = ""): Json {
  if (Array.isArray(schema)) return schema.map((one) => shown(one, definitions, names, name));
  if (!isObject(schema)) return schema;
  const { $ref, ...rest } = schema;
  if (typeof $ref === "string") {
    const type = decodeURIComponent($ref.slice(REFERENCE.length));
    if (names.has(type)) return ref(type);
    return {
      ...(KNOWN[type] ?? (shown(definitions[type] as Json, definitions, names, name) as JsonObject)),
      ...texts(rest),
    };
  }
  const members = Object.entries(schema).map(([key, value]): [string, Json] => {
    if (key === "properties" && isObject(value)) {
      const shownMembers = Object.entries(value).map(([member, one]) => [
        member,
        shown(one, definitions, names, member),
      ]);
      return [key, Object.fromEntries(shownMembers) as JsonObject];
    }
    return [key, shown(value, definitions, names, name)];
  });
  const { additionalProperties, type, ...own } = Object.fromEntries(members) as JsonObject;
  const isOpen = isObject(additionalProperties) && !("properties" in own);
  return flat({ ...headOf(type, name), ...own, ...(isOpen ? { additionalProperties } : {}), ...texts(own) });
}

/** What a type of JSON Schema becomes. */
function headOf(type: Json | undefined, name: string): JsonObject {
  if (Array.isArray(type)) return { anyOf: type.map((one) => headOf(one, name)) };
  if (type === "number" && !FRACTION.test(name)) return count;
  return type === undefined ? {} : { type };
}

/** A union of texts as one enumeration. */
function flat({ anyOf, ...schema }: JsonObject): JsonObject {
  if (!Array.isArray(anyOf)) return schema;
  const textsIn = (one: Json): readonly Json[] | null => {
    if (!isObject(one)) return null;
    if (Array.isArray(one.enum)) return one.enum;
    return "const" in one ? [one.const as Json] : null;
  };
  const lists = anyOf.map(textsIn);
  if (lists.every((list) => list !== null)) return { type: "string", enum: lists.flat(), ...schema };
  return { anyOf, ...schema };
}

const texts = ({ description }: JsonObject): JsonObject =>
  typeof description === "string" ? { description: description.replace(/\s+/g, " ").replace(/\.$/, "") } : {};
