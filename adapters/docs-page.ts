/**
 * The page at `/docs`: the OpenAPI document as HTML, to search, to read and to send requests from. It loads nothing and calls no other
 * host: renderers of OpenAPI documents are megabytes of JavaScript, and need what a strict Content-Security-Policy refuses.
 * @module
 */
import type { OpenApi } from "../lib/http/handler.ts";
import {
  type DocumentOperation,
  type DocumentSchema,
  escapeAttribute,
  escapeText,
  renderCode,
  renderMethod,
  renderProse,
  toElementId,
} from "./docs-page/html.ts";
import { ANSWER_TEMPLATE, type Failures, renderOperation } from "./docs-page/operation.ts";
import { renderSchema } from "./docs-page/schemas.ts";
import { SCRIPT } from "./docs-page/script.ts";
import { STYLE } from "./docs-page/style.ts";

export type { OpenApi } from "../lib/http/handler.ts";

/**
 * Returns the API reference of a handler, for its option `docs`. People can send each request to the server that serves the page.
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
  const page = pages.get(document) ?? createPage(document);
  pages.set(document, page);
  const nonce = crypto.randomUUID();
  const sources = [
    "default-src 'none'",
    `style-src 'nonce-${nonce}'`,
    `script-src 'nonce-${nonce}'`,
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ];
  return new Response(page.parts.join(nonce), {
    headers: {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": sources.join("; "),
      "referrer-policy": "no-referrer",
      "x-content-type-options": "nosniff",
      // A stored page keeps the nonce of its own policy, so only the browser that got it may store it.
      "cache-control": "private, no-cache",
      etag: page.etag,
    },
  });
}

/** A page that was rendered once: its HTML without the nonces, and its tag. */
interface Page {
  /** The HTML, cut at each nonce. */
  readonly parts: readonly string[];
  readonly etag: string;
}

/** The pages by their documents. A handler has one document. */
const pages = new WeakMap<OpenApi, Page>();

/** Renders the page of a document. */
function createPage(document: OpenApi): Page {
  const cut = crypto.randomUUID();
  const parts = renderPage(document, cut).split(cut);
  return { parts, etag: `"${hashText(parts.join(""))}"` };
}

/** Returns the FNV-1a hash of a text, as hexadecimal digits behind its length. */
function hashText(text: string): string {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return `${text.length.toString(16)}-${(hash >>> 0).toString(16)}`;
}

const getTag = ({ tags }: DocumentOperation): string => tags?.[0] ?? "Other";
const toTagId = (tag: string): string => `tag-${tag.toLowerCase().replace(/[^a-z0-9]+/g, "-")}`;

/**
 * Returns the whole page as HTML. Groups are in the order of the document's tags; groups of other tags follow. The
 * nonce permits its styles and its script. The script shows one section at a time.
 */
function renderPage(document: OpenApi, nonce: string): string {
  const { info, servers, paths, components, tags = [] } = document;
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ ...(operation as DocumentOperation), method, path })),
  );
  const byTag = Map.groupBy(operations, getTag);
  const listed = tags.map(({ name }) => name).filter((name) => byTag.has(name));
  const names = [...listed, ...[...byTag.keys()].filter((name) => !listed.includes(name))];
  const base = servers[0]?.url.replace(/\/$/, "") ?? "";
  const failures: Failures = new Map();
  const title = `${escapeText(info.title)} API`;
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${title}</title>
<style nonce="${nonce}">${STYLE}</style>
<noscript><style nonce="${nonce}">main > section[hidden] { display: block !important }</style></noscript>
<body data-base="${escapeAttribute(base)}">
<header class="bar"><h1><a href="#top">${title}</a></h1><label>API key <input type="password" data-role="key" autocomplete="off" placeholder="stays in this page"></label></header>
<nav aria-label="Operations"><input type="search" data-role="search" aria-label="Search operations" placeholder="Search, such as: create a run" autocomplete="off">
<p data-role="count" role="status"></p><ul data-role="results" id="results" hidden></ul>
<div data-role="groups" id="groups">${names.map((name) => renderGroup(name, byTag.get(name) ?? [])).join("")}
<a href="#codes">Codes of errors</a><a href="#schemas">Schemas</a></div></nav>
<main>
${renderOverview(document, names)}
${names.flatMap((name) => (byTag.get(name) ?? []).map((operation) => renderOperation(operation, base, components, failures))).join("\n")}
${renderCodes(components, failures)}
${renderSchemas(components)}
</main>
${ANSWER_TEMPLATE}
<dialog aria-labelledby="deletion"><h2 id="deletion">Send this deletion?</h2><p><code data-role="question"></code></p><p>What it deletes cannot be restored.</p>
<form method="dialog"><button value="cancel">Cancel</button><button value="delete" class="danger">Delete</button></form></dialog>
<script nonce="${nonce}">${SCRIPT}</script>
</html>
`;
}

/** Returns a folded list of links to the operations of a tag, as HTML. */
function renderGroup(tag: string, operations: readonly DocumentOperation[]): string {
  const items = operations.map((operation) => {
    const { method, path, summary } = operation;
    return `<li><a href="#${toElementId(operation)}">${renderProse(summary)} <small>${renderMethod(method)}${escapeText(path)}</small></a></li>`;
  });
  return `<details id="${toTagId(tag)}"><summary>${escapeText(tag)}</summary><ul>${items.join("")}</ul></details>`;
}

/** Returns the first view of the page as HTML: what the API is, how to use the page, and links to the groups. */
function renderOverview({ info, tags = [] }: OpenApi, names: readonly string[]): string {
  const items = names.map((name) => {
    const description = tags.find((tag) => tag.name === name)?.description;
    return `<li><a href="#${toTagId(name)}">${escapeText(name)}</a><br>${renderProse(description)}</li>`;
  });
  return `<section id="top"><h2>Work with this API</h2>
<p>${renderProse(info.description)} Version ${escapeText(info.version)}. <a href="openapi.json">openapi.json</a> has the same for programs.</p>
<p>Choose an operation, or search: <kbd>/</kbd> goes to the search field. Each operation has an example that you can change and send to this server. Where the server needs an API key, write it into the field above. The key stays in the memory of this page: it is in no address, in no storage and in no copied command.</p>
<ul class="sections">${items.join("")}</ul></section>`;
}

/**
 * Returns the section with the codes of errors, sorted, with their meaning and an example, and with the failures of operations, as
 * HTML.
 */
function renderCodes({ examples = {} }: OpenApi["components"], failures: Failures): string {
  const entries = Object.entries(examples).sort(([a], [b]) => (a < b ? -1 : 1));
  const items = entries.map(([name, example]) => {
    const { summary, description, value } = example as { summary?: string; description?: string; value?: unknown };
    const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
    return `<h3 id="code-${escapeAttribute(name)}">${escapeText(name === summary ? name : `${summary}, ${name.split(".").at(-1)}`)}</h3><p>${renderProse(description)}</p>${renderCode(text, `Example of ${name}`)}`;
  });
  const failureItems = [...failures].map(([failure, id]) => `<li id="${id}">${failure}</li>`);
  return `<section id="codes" hidden><h2>Codes of errors</h2>${items.join("\n")}<h3>Failures of operations</h3><ul>${failureItems.join("\n")}</ul></section>`;
}

/** Returns the section with all named schemas, as HTML. */
function renderSchemas({ schemas }: OpenApi["components"]): string {
  const items = Object.entries(schemas).map(
    ([name, schema]) =>
      `<h3 id="schema-${escapeAttribute(name)}">${escapeText(name)}</h3><div>${renderSchema(schema as DocumentSchema)}</div>`,
  );
  return `<section id="schemas" hidden><h2>Schemas</h2>${items.join("\n")}</section>`;
}
