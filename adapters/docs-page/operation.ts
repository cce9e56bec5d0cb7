/** Renders an operation: its text, parameters, body and responses, and beside them the request to send with its examples. */
import type { OpenApi } from "../../lib/http/handler.ts";
import {
  type Contents,
  type DocumentOperation,
  type DocumentSchema,
  escapeAttribute,
  escapeText,
  type OperationParameter,
  type ResponseObject,
  renderCode,
  renderMethod,
  renderProse,
  toElementId,
  withoutLinks,
} from "./html.ts";
import { renderSchema, renderType } from "./schemas.ts";

type Components = OpenApi["components"];

/** The failures of operations as HTML, each with the id of its element. Many operations have the same ones. */
export type Failures = Map<string, string>;

/**
 * Returns the section of an operation as HTML: its texts, parameters, body and responses, and beside them the form,
 * samples and example. `base` is the path of the mount. Adds its failures to `failures`, and links to them.
 */
export function renderOperation(
  operation: DocumentOperation,
  base: string,
  components: Components,
  failures: Failures,
): string {
  const { method, path, summary, description } = operation;
  const id = toElementId(operation);
  return `<section class="operation" hidden id="${id}" data-method="${escapeAttribute(method)}" data-path="${escapeAttribute(base + path)}" aria-labelledby="${id}-title">
<header><h2 id="${id}-title">${renderProse(summary)}</h2>
<p class="route">${renderMethod(method)} <code>${escapeText(base + path)}</code></p></header>
<div class="columns"><div class="text"><p>${renderProse(description)}</p>
${renderParameters(operation)}
${renderBody(operation, components)}
${renderResponses(operation, components, failures)}</div>
<div class="try">${renderRequest(operation)}${renderSamples(operation, base)}${renderExample(operation)}</div></div></section>`;
}

/** Returns a table of the parameters as HTML; an empty text without any. */
function renderParameters({ parameters = [] }: DocumentOperation): string {
  const rows = parameters.map(
    (parameter) =>
      `<tr><th scope="row"><code>${escapeText(parameter.name)}</code>${parameter.required ? ' <b class="required" title="required">*</b>' : ""}</th><td>${escapeText(parameter.in)}</td><td>${renderType(parameter.schema)} ${renderProse(parameter.description)}</td></tr>`,
  );
  return rows.length === 0
    ? ""
    : `<h3>Parameters</h3><table aria-label="Parameters"><thead><tr><th scope="col">Name</th><th scope="col">In</th><th scope="col">Type</th></tr></thead><tbody>${rows.join("")}</tbody></table>`;
}

/** Returns the first content of the request body with its members, as HTML; an empty text without a body. */
function renderBody({ requestBody }: DocumentOperation, components: Components): string {
  if (!requestBody) return "";
  const [media] = Object.values(requestBody.content);
  return media
    ? `<h3>Body${requestBody.required ? "" : ", optional"}: ${renderType(media.schema)}</h3>${renderMembers(media.schema, components)}`
    : "";
}

/**
 * Returns the members of the object that a schema, or that of its items, names, as HTML; an empty text if it is no
 * object or not found. Those of a named schema are on the page once: the script copies them into an element that links to them.
 */
function renderMembers(schema: DocumentSchema, { schemas }: Components): string {
  const { $ref } = (schema.type === "array" ? (schema.items as DocumentSchema) : schema) as { $ref?: string };
  const name = $ref?.replace(/^.*\//, "");
  const named = name === undefined ? schema : (schemas[name] as DocumentSchema | undefined);
  const isObject = [named, ...((named?.anyOf as DocumentSchema[] | undefined) ?? [])].some((part) => part?.properties);
  if (!named || !isObject) return "";
  return name === undefined ? renderSchema(named) : `<div data-role="members">${renderType(schema)}</div>`;
}

/**
 * Returns the responses of an operation: successes with their members, failures with links to their descriptions, which it adds to
 * `failures`.
 */
function renderResponses({ responses }: DocumentOperation, components: Components, failures: Failures): string {
  const entries = Object.entries(responses).map(([status, response]) => {
    const name = response.$ref?.split("/").at(-1);
    return [status, (name === undefined ? response : components.responses?.[name]) as ResponseObject] as const;
  });
  const renderHead = (status: string, { description, content }: ResponseObject): string =>
    `<b>${escapeText(status)}</b> ${renderProse(description)}${content ? `: ${renderContents(content)}` : ""}`;
  const items = entries.map(([status, response]) => {
    const [media] = Object.values(response.content ?? {});
    if (status < "400") {
      const members = media ? renderMembers(media.schema, components) : "";
      return members === ""
        ? `<li>${renderHead(status, response)}</li>`
        : `<li><details><summary>${withoutLinks(renderHead(status, response))}</summary>${members}</details></li>`;
    }
    const codes = Object.values(media?.examples ?? {}).map((example) => {
      const code = escapeAttribute(String((example as { $ref?: string }).$ref).replace(/^.*\//, ""));
      return `<a href="#code-${code}">${code.replace(/\.\w+$/, "")}</a>`;
    });
    const description = renderProse(response.description.replace(/\. Codes: .*$/, ""));
    const failure = `${description}${codes.length > 0 ? `: ${codes.join(", ")}` : ""}`;
    const id = failures.get(failure) ?? `failure-${failures.size + 1}`;
    failures.set(failure, id);
    return `<li class="failure"><b>${escapeText(status)}</b> <a href="#${id}">${description}</a></li>`;
  });
  return `<h3>Responses</h3><ul class="responses">${items.join("")}</ul>`;
}

/** Returns each media type with the type of its content, as HTML. */
const renderContents = (content: Contents): string =>
  Object.entries(content)
    .map(([type, { schema }]) => `<code>${escapeText(type)}</code> ${renderType(schema)}`)
    .join(", or ");

/**
 * Returns the fields of the request as HTML, with the values of its example, and the button that sends it. For a
 * WebSocket there is a text instead of the button.
 */
function renderRequest(operation: DocumentOperation): string {
  const { parameters = [], requestBody, method } = operation;
  const fields = parameters.map(renderField);
  const [media] = Object.values(requestBody?.content ?? {});
  const body = media
    ? `<label class="body">Body<textarea data-role="body" rows="8">${escapeText(JSON.stringify(media.example ?? {}, null, 2))}</textarea></label>`
    : "";
  const isSocket = "101" in operation.responses;
  const send = isSocket
    ? "<p>A WebSocket: open it with an SDK.</p>"
    : `<p class="actions"><button type="button" class="primary" data-role="send">Send ${escapeText(method.toUpperCase())}</button></p>`;
  return `<h3>Request</h3><div class="fields" spellcheck="false">${fields.join("")}${body}</div>${send}`;
}

/** The element in which an operation shows its answer. The script copies it into each operation that people open. */
export const ANSWER_TEMPLATE = `<template data-role="answer-template"><div class="answer" data-role="answer" hidden><p data-role="status" role="status"></p>
<p><button type="button" data-role="stop" hidden>Stop</button></p>${renderCode("", "Answer", "answer-body")}</div></template>`;

/** Returns the text of a parameter in the example. A list has one item for each line. */
const toFieldText = (example: unknown): string => (example === undefined ? "" : [example].flat().map(String).join(","));

const renderField = ({ name, in: location, required, example, schema }: OperationParameter): string =>
  `<label><span>${escapeText(name)}${required ? " *" : ""} <small>${escapeText(location)}</small></span><input data-in="${escapeAttribute(location)}" data-name="${escapeAttribute(name)}"${isList(schema) ? " data-list" : ""} value="${escapeAttribute(toFieldText(example))}" autocomplete="off"></label>`;

const isList = ({ type, anyOf }: DocumentSchema): boolean =>
  type === "array" || (Array.isArray(anyOf) && anyOf.some((part: DocumentSchema) => part.type === "array"));

/**
 * Returns the request as a curl command, and as the first call of an SDK, else of `fetch`, as HTML with buttons that
 * copy. The script writes the command anew when fields change.
 */
function renderSamples(operation: DocumentOperation, base: string): string {
  const [sample] = operation["x-codeSamples"] ?? [];
  const url = `http://127.0.0.1:2024${base}${operation.path}`;
  const command = `curl -X ${operation.method.toUpperCase()} '${url}'`;
  const code = sample ? `${renderImport(sample.label)}\n\n${sample.source}` : `await fetch("${url}");`;
  const title = sample?.label ?? "fetch";
  return `<h3>curl <button type="button" data-role="copy">Copy</button></h3>${renderCode(command, "curl", "curl")}
<h3>${escapeText(title)} <button type="button" data-role="copy">Copy</button></h3>${renderCode(code, title, sample ? "sdk" : "fetch")}`;
}

/** Returns the code that imports the SDK and creates its client. `$URL` stands for the address of the server. */
const renderImport = (label: string): string =>
  label === "langsmith"
    ? 'import { Client } from "langsmith";\n\nconst client = new Client({ apiUrl: "$URL/api/v1" });'
    : `import { Client } from "${label}";\n\nconst client = new Client({ apiUrl: "$URL" });`;

/** Returns the first example of a response, in the order of the document, as HTML; an empty text if there is none. */
function renderExample({ responses }: DocumentOperation): string {
  for (const [status, { content }] of Object.entries(responses)) {
    for (const { example } of Object.values(content ?? {})) {
      if (example === undefined) continue;
      const text = typeof example === "string" ? example : JSON.stringify(example, null, 2);
      return `<h3>Example of ${escapeText(status)}</h3>${renderCode(text, `Example of ${status}`)}`;
    }
  }
  return "";
}
