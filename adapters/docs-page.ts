/**
 * The page at `/docs`: the OpenAPI document as plain HTML, without scripts, fonts or requests to other hosts. Renderers of
 * OpenAPI documents are megabytes of JavaScript, and need styles that a strict Content-Security-Policy refuses.
 * @module
 */
import type { OpenApi } from "../lib/http/handler.ts";

export type { OpenApi } from "../lib/http/handler.ts";

type Schema = Readonly<Record<string, unknown>>;

/**
 * The API reference of a handler, as its `docs`.
 *
 * @example
 * ```ts
 * import { docsPage } from "greenroom/docs";
 * import { createHandler } from "greenroom/server";
 *
 * const handler = createHandler(service, { docs: docsPage });
 * ```
 */
export function docsPage(document: OpenApi): Response {
  const nonce = crypto.randomUUID();
  return new Response(renderPage(document, nonce), {
    headers: {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": `default-src 'none'; style-src 'nonce-${nonce}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
      "referrer-policy": "no-referrer",
      "x-content-type-options": "nosniff",
    },
  });
}

interface Operation {
  readonly method: string;
  readonly path: string;
  readonly tags?: readonly string[];
  readonly summary?: string;
  readonly description?: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly required?: boolean; readonly content: Contents };
  readonly responses: Readonly<Record<string, ResponseObject>>;
}

interface ResponseObject {
  readonly $ref?: string;
  readonly description: string;
  readonly content?: Contents;
}

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly description?: string;
  readonly schema: Schema;
}

type Contents = Readonly<Record<string, { readonly schema: Schema }>>;

const escapeHtml = (text: unknown): string => String(text).replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
/** Backquotes become code. */
const renderProse = (text = ""): string => escapeHtml(text).replace(/`([^`]+)`/g, "<code>$1</code>");
const toOperationId = ({ method, path }: Operation): string =>
  `${method}${path}`.replace(/[^A-Za-z0-9]+/g, "-").replace(/-$/, "");

function renderPage({ info, servers, paths, components }: OpenApi, nonce: string): string {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) =>
      resolveResponses({ ...(operation as Operation), method, path }),
    ),
  );
  /** Returns the operation with its responses in place of references to them. */
  function resolveResponses(operation: Operation): Operation {
    const responses = Object.entries(operation.responses).map(([status, response]) => {
      const name = response.$ref?.split("/").at(-1);
      return [status, (name === undefined ? response : components.responses?.[name]) as ResponseObject] as const;
    });
    return { ...operation, responses: Object.fromEntries(responses) };
  }
  const tags = [...new Set(operations.map(getTag))];
  const base = servers[0]?.url.replace(/\/$/, "") ?? "";
  const sections = tags.map((tag) => {
    const parts = operations
      .filter((operation) => getTag(operation) === tag)
      .map((operation) => renderOperation(operation, base));
    return `<h2 id="${escapeHtml(tag)}">${escapeHtml(tag)}</h2>${parts.join("")}`;
  });
  const schemas = Object.entries(components.schemas).map(
    ([name, schema]) => `<h3 id="schema-${escapeHtml(name)}">${escapeHtml(name)}</h3>${renderSchema(schema as Schema)}`,
  );
  const links = tags.map((tag) => {
    const items = operations
      .filter((operation) => getTag(operation) === tag)
      .map(
        (operation) =>
          `<li><a href="#${toOperationId(operation)}">${renderMethod(operation.method)} ${escapeHtml(operation.path)}</a></li>`,
      );
    return `<details><summary>${escapeHtml(tag)}</summary><ul>${items.join("")}</ul></details>`;
  });
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escapeHtml(info.title)} API</title>
<style nonce="${nonce}">${STYLE}</style>
<nav aria-label="Routes"><a href="#top"><b>${escapeHtml(info.title)} API</b></a>${links.join("")}<a href="#schemas">Schemas</a></nav>
<main id="top">
<h1>${escapeHtml(info.title)} API</h1>
<p>${renderProse(info.description)} Version ${escapeHtml(info.version)}. <a href="openapi.json">openapi.json</a> has the same for programs.</p>
<p>Where the server needs an API key, send it as the header <code>X-API-Key</code>.</p>
${sections.join("\n")}
<h2 id="schemas">Schemas</h2>
${schemas.join("\n")}
</main>
</html>
`;
}

const getTag = ({ tags }: Operation): string => tags?.[0] ?? "Other";
const renderMethod = (method: string): string =>
  `<span class="${escapeHtml(method)}">${escapeHtml(method.toUpperCase())}</span>`;

function renderOperation(operation: Operation, base: string): string {
  const { method, path, summary, description, parameters = [], requestBody, responses } = operation;
  const rows = parameters.map(
    (parameter) =>
      `<tr><td><code>${escapeHtml(parameter.name)}</code>${parameter.required ? " *" : ""}</td><td>${escapeHtml(parameter.in)}</td><td>${renderType(parameter.schema)}</td><td>${renderProse(parameter.description)}</td></tr>`,
  );
  const parts = [
    `<section><h3 id="${toOperationId(operation)}">${renderMethod(method)} <code>${escapeHtml(base + path)}</code></h3>`,
    `<p>${renderProse(summary)}${description ? `. ${renderProse(description)}` : ""}</p>`,
    rows.length > 0
      ? `<table><thead><tr><th>Parameter<th>In<th>Type<th>Description</thead><tbody>${rows.join("")}</tbody></table>`
      : "",
    requestBody ? `<p>Body${requestBody.required ? "" : ", optional"}: ${renderContents(requestBody.content)}</p>` : "",
    renderResponses(responses),
    "</section>",
  ];
  return parts.join("\n");
}

/** Renders the responses of an operation: successes expanded, errors collapsed. */
function renderResponses(responses: Operation["responses"]): string {
  const renderResponse = ([status, { description, content }]: [string, ResponseObject]): string =>
    `<li><b>${escapeHtml(status)}</b> ${renderProse(description)}${content ? `: ${renderContents(content)}` : ""}</li>`;
  const entries = Object.entries(responses);
  const successes = entries.filter(([status]) => status < "400").map(renderResponse);
  const errors = entries.filter(([status]) => status >= "400").map(renderResponse);
  return `<ul>${successes.join("")}</ul>${errors.length > 0 ? `<details><summary>Errors</summary><ul>${errors.join("")}</ul></details>` : ""}`;
}

const renderContents = (content: Contents): string =>
  Object.entries(content)
    .map(([type, { schema }]) => `<code>${escapeHtml(type)}</code> ${renderType(schema)}`)
    .join(", or ");

/** A schema in a line. */
function renderType(schema: unknown): string {
  if (schema === true || schema === undefined) return "any";
  const { $ref, anyOf, const: value, enum: values, type, items, format, description } = schema as Schema;
  if (typeof $ref === "string") {
    const name = escapeHtml($ref.replace(/^.*\//, ""));
    return `<a href="#schema-${name}">${name}</a>`;
  }
  if (Array.isArray(anyOf)) return [...new Set(anyOf.map(renderType))].join(" | ");
  if (value !== undefined) return `<code>${escapeHtml(JSON.stringify(value))}</code>`;
  if (Array.isArray(values))
    return values.map((constant) => `<code>${escapeHtml(JSON.stringify(constant))}</code>`).join(" | ");
  if (type === "array") return `list of ${renderType(items)}`;
  const typeName = Array.isArray(type) ? type.join(" | ") : type;
  return `${escapeHtml(typeName ?? "any")}${format ? ` (${escapeHtml(format)})` : ""}${typeName === "string" && description ? `: ${renderProse(String(description))}` : ""}`;
}

/** The members of an object as a list, theirs nested in it. */
function renderSchema(schema: Schema): string {
  const objectSchema = [schema, ...((schema.anyOf as Schema[] | undefined) ?? [])].find(({ properties }) => properties);
  if (!objectSchema) return `<p>${renderProse(schema.description as string | undefined)} ${renderType(schema)}</p>`;
  const required = new Set((objectSchema.required as string[] | undefined) ?? []);
  const items = Object.entries(objectSchema.properties as Readonly<Record<string, Schema>>).map(([name, member]) => {
    const memberSchema = findObjectSchema(member);
    const description = `<code>${escapeHtml(name)}</code>${required.has(name) ? " *" : ""} ${renderType(member)}${renderLimits(member)} ${renderProse(member.description as string | undefined)}`;
    return memberSchema
      ? `<li><details><summary>${description}</summary>${renderSchema(memberSchema)}</details></li>`
      : `<li>${description}</li>`;
  });
  return `${schema.description ? `<p>${renderProse(String(schema.description))}</p>` : ""}<ul class="members">${items.join("")}</ul>`;
}

/** The object that a member is, or that its items are. */
function findObjectSchema(schema: Schema): Schema | undefined {
  const candidates = [schema, schema.items as Schema | undefined, ...((schema.anyOf as Schema[] | undefined) ?? [])];
  return candidates.find((candidate) => candidate?.properties) as Schema | undefined;
}

/**
 * Returns HTML with the default and the limits of a schema; an empty text without any. Leaves out `MAX_SAFE_INTEGER`, which means no limit.
 */
function renderLimits(schema: Schema): string {
  const names = ["default", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern"];
  const limitNames = names.filter((name) => schema[name] !== undefined && schema[name] !== Number.MAX_SAFE_INTEGER);
  return limitNames.length === 0
    ? ""
    : ` <small>${limitNames.map((name) => `${name} ${escapeHtml(JSON.stringify(schema[name]))}`).join(", ")}</small>`;
}

const STYLE = `
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --link: light-dark(#0b57d0, #8ab4f8) }
* { box-sizing: border-box }
html { scroll-padding-top: 1rem }
body { margin: 0; font: 15px/1.55 system-ui, sans-serif; display: grid; grid-template-columns: 20rem minmax(0, 1fr) }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; padding: 1rem; border-right: 1px solid var(--line); font-size: 13px }
nav ul { list-style: none; margin: 0 0 .5rem; padding: 0 } nav li a { display: block; overflow-wrap: anywhere; padding: .1rem 0 }
nav summary { padding: .3rem 0; font-weight: 600; cursor: pointer }
main { max-width: 56rem; padding: 1rem 2rem 4rem }
a { color: var(--link); text-decoration: none } a:hover { text-decoration: underline }
code, nav span { font: 13px ui-monospace, monospace } h3 code { font-size: 15px; overflow-wrap: anywhere }
h2 { margin-top: 3rem; border-bottom: 1px solid var(--line) }
section { border: 1px solid var(--line); border-radius: 8px; padding: 0 1rem .5rem; margin: 1rem 0 }
section h3 { margin: .8rem 0 0 } h3 span { font: 600 13px ui-monospace, monospace; padding: .15rem .4rem; border-radius: 4px; background: var(--soft) }
.get { color: light-dark(#0a6b2d, #6dd58c) } .post { color: light-dark(#0b57d0, #8ab4f8) } .put, .patch { color: light-dark(#8a5a00, #f0b849) } .delete { color: light-dark(#b3261e, #f2938c) }
table { border-collapse: collapse; width: 100%; font-size: 14px } th, td { text-align: left; padding: .25rem .5rem; border-bottom: 1px solid var(--line); vertical-align: top } td:last-child { width: 50% }
ul { padding-left: 1.2rem } .members { list-style: none; border-left: 2px solid var(--line); padding-left: .8rem } summary { cursor: pointer } small { opacity: .7 }
:target { background: #ffd54f33 }
@media (max-width: 50rem) { body { display: block } nav { position: static; height: auto; border-right: 0; border-bottom: 1px solid var(--line) } main { padding: 1rem } }
`;
