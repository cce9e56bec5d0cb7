/** Renders schemas: a type in a line, and the members of an object as a list. */
import { type DocumentSchema, escapeAttribute, escapeText, renderProse, withoutLinks } from "./html.ts";

/**
 * Returns the type of a schema in a line of HTML: a link for a reference, `|` between alternatives, constants as code,
 * else the type with its format. A text has its description, too.
 */
export function renderType(schema: unknown): string {
  if (schema === true || schema === undefined) return "any";
  const { $ref, anyOf, const: value, enum: values, type, items, format, description } = schema as DocumentSchema;
  if (typeof $ref === "string") {
    const name = escapeAttribute($ref.replace(/^.*\//, ""));
    return `<a href="#schema-${name}">${name}</a>`;
  }
  if (Array.isArray(anyOf)) return [...new Set(anyOf.map(renderType))].join(" | ");
  if (value !== undefined) return `<code>${escapeText(JSON.stringify(value))}</code>`;
  if (Array.isArray(values))
    return values.map((constant) => `<code>${escapeText(JSON.stringify(constant))}</code>`).join(" | ");
  if (type === "array") return `list of ${renderType(items)}`;
  const typeName = Array.isArray(type) ? type.join(" | ") : type;
  return `${escapeText(typeName ?? "any")}${format ? ` (${escapeText(format)})` : ""}${typeName === "string" && description ? `: ${renderProse(String(description))}` : ""}`;
}

/**
 * Returns the members of an object as a list in HTML, with members of objects nested in it; a paragraph with the type
 * for a schema without members. References are links, which are not followed.
 */
export function renderSchema(schema: DocumentSchema): string {
  const objectSchema = [schema, ...((schema.anyOf as DocumentSchema[] | undefined) ?? [])].find(
    ({ properties }) => properties,
  );
  if (!objectSchema) return `<p>${renderProse(schema.description as string | undefined)} ${renderType(schema)}</p>`;
  const required = new Set((objectSchema.required as string[] | undefined) ?? []);
  const items = Object.entries(objectSchema.properties as Readonly<Record<string, DocumentSchema>>).map(
    ([name, member]) => {
      const memberSchema = findObjectSchema(member);
      const mark = required.has(name) ? ' <b class="required" title="required">*</b>' : "";
      const description = `<code>${escapeText(name)}</code>${mark} ${renderType(member)}${renderLimits(member)} ${renderProse(member.description as string | undefined)}`;
      return memberSchema
        ? `<li><details><summary>${withoutLinks(description)}</summary>${renderSchema(memberSchema)}</details></li>`
        : `<li>${description}</li>`;
    },
  );
  return `${schema.description ? `<p>${renderProse(String(schema.description))}</p>` : ""}<ul class="members">${items.join("")}</ul>`;
}

/**
 * Returns the first schema with properties among the schema itself, that of its items and its alternatives; undefined
 * if none has any.
 */
function findObjectSchema(schema: DocumentSchema): DocumentSchema | undefined {
  const candidates = [
    schema,
    schema.items as DocumentSchema | undefined,
    ...((schema.anyOf as DocumentSchema[] | undefined) ?? []),
  ];
  return candidates.find((candidate) => candidate?.properties) as DocumentSchema | undefined;
}

/**
 * Returns HTML with the default and the limits of a schema; an empty text without any. Leaves out `MAX_SAFE_INTEGER`, which means no
 * limit.
 */
function renderLimits(schema: DocumentSchema): string {
  const names = ["default", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern"];
  const limitNames = names.filter((name) => schema[name] !== undefined && schema[name] !== Number.MAX_SAFE_INTEGER);
  return limitNames.length === 0
    ? ""
    : ` <small>${limitNames.map((name) => `${name} ${escapeText(JSON.stringify(schema[name]))}`).join(", ")}</small>`;
}
