/** Renders an operation: its text, parameters, body and responses, and beside them the request to send with its examples. */
import type { OpenApi } from "../../lib/http/handler.ts";
import {
  type Contents,
  type DocumentOperation,
  type DocumentSchema,
  escapeHtml,
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

/**
 * Returns the section of an operation as HTML: its texts, parameters, body and responses, and beside them the form,
 * samples and example. `base` is the path of the mount.
 */
export function renderOperation(operation: DocumentOperation, base: string, components: Components): string {
  const { method, path, summary, description } = operation;
  const id = toElementId(operation);
  return `<section class="operation" id="${id}" data-method="${escapeHtml(method)}" data-path="${escapeHtml(base + path)}" aria-labelledby="${id}-title">
<header><h2 id="${id}-title">${renderProse(summary)}</h2>
<p class="route">${renderMethod(method)} <code>${escapeHtml(base + path)}</code></p></header>
<div class="columns"><div class="text"><p>${renderProse(description)}</p>
${renderParameters(operation, id)}
${renderBody(operation, components)}
${renderResponses(operation, components)}</div>
<div class="try">${renderRequest(operation, id)}${renderSamples(operation, base, id)}${renderExample(operation)}</div></div></section>`;
}

/** Returns a table of the parameters as HTML; an empty text without any. */
function renderParameters({ parameters = [] }: DocumentOperation, id: string): string {
  const rows = parameters.map(
    (parameter) =>
      `<tr><th scope="row"><code>${escapeHtml(parameter.name)}</code>${parameter.required ? ' <b class="required" title="required">*</b>' : ""}</th><td>${escapeHtml(parameter.in)}</td><td>${renderType(parameter.schema)} ${renderProse(parameter.description)}</td></tr>`,
  );
  return rows.length === 0
    ? ""
    : `<h3 id="${id}-parameters">Parameters</h3><table aria-labelledby="${id}-parameters"><thead><tr><th scope="col">Name</th><th scope="col">In</th><th scope="col">Type</th></tr></thead><tbody>${rows.join("")}</tbody></table>`;
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
 * object or not found.
 */
function renderMembers(schema: DocumentSchema, { schemas }: Components): string {
  const { $ref } = (schema.type === "array" ? (schema.items as DocumentSchema) : schema) as { $ref?: string };
  const named = $ref === undefined ? schema : (schemas[$ref.replace(/^.*\//, "")] as DocumentSchema | undefined);
  const isObject = [named, ...((named?.anyOf as DocumentSchema[] | undefined) ?? [])].some((part) => part?.properties);
  return named && isObject ? renderSchema(named) : "";
}

/** Returns the responses of an operation: successes with their members, errors with links to their codes. */
function renderResponses({ responses }: DocumentOperation, components: Components): string {
  const entries = Object.entries(responses).map(([status, response]) => {
    const name = response.$ref?.split("/").at(-1);
    return [status, (name === undefined ? response : components.responses?.[name]) as ResponseObject] as const;
  });
  const renderHead = (status: string, { description, content }: ResponseObject): string =>
    `<b>${escapeHtml(status)}</b> ${renderProse(description.replace(/\. Codes: .*$/, ""))}${content && status < "400" ? `: ${renderContents(content)}` : ""}`;
  const items = entries.map(([status, response]) => {
    const [media] = Object.values(response.content ?? {});
    if (status < "400") {
      const members = media ? renderMembers(media.schema, components) : "";
      return members === ""
        ? `<li>${renderHead(status, response)}</li>`
        : `<li><details><summary>${withoutLinks(renderHead(status, response))}</summary>${members}</details></li>`;
    }
    const codes = Object.values(media?.examples ?? {}).map((example) => {
      const code = escapeHtml(String((example as { $ref?: string }).$ref).replace(/^.*\//, ""));
      return `<a href="#code-${code}"><code>${code.replace(/\.\w+$/, "")}</code></a>`;
    });
    return `<li class="failure">${renderHead(status, response)}${codes.length > 0 ? `: ${codes.join(", ")}` : ""}</li>`;
  });
  return `<h3>Responses</h3><ul class="responses">${items.join("")}</ul>`;
}

/** Returns each media type with the type of its content, as HTML. */
const renderContents = (content: Contents): string =>
  Object.entries(content)
    .map(([type, { schema }]) => `<code>${escapeHtml(type)}</code> ${renderType(schema)}`)
    .join(", or ");

/**
 * Returns the fields of the request as HTML, with the values of its example, and the button that sends it. For a
 * WebSocket there is a text instead of the button.
 */
function renderRequest(operation: DocumentOperation, id: string): string {
  const { parameters = [], requestBody, method } = operation;
  const fields = parameters.map((parameter, index) => renderField(parameter, `${id}-field-${index}`));
  const [media] = Object.values(requestBody?.content ?? {});
  const body = media
    ? `<label class="body">Body<textarea data-role="body" spellcheck="false" rows="8">${escapeHtml(JSON.stringify(media.example ?? {}, null, 2))}</textarea></label>`
    : "";
  const isSocket = "101" in operation.responses;
  const send = isSocket
    ? "<p>A WebSocket: open it with an SDK.</p>"
    : `<p class="actions"><button type="button" class="primary" data-role="send">Send ${escapeHtml(method.toUpperCase())}</button> <button type="button" data-role="stop" hidden>Stop</button></p>
<div class="answer" data-role="answer" hidden><p data-role="status" role="status"></p>${renderCode("", "Answer", "answer-body")}</div>`;
  return `<h3>Request</h3><div class="fields">${fields.join("")}${body}</div>${send}`;
}

/** Returns the text of a parameter in the example. A list has one item for each line. */
const toFieldText = (example: unknown): string => (example === undefined ? "" : [example].flat().map(String).join(","));

const renderField = ({ name, in: location, required, example, schema }: OperationParameter, id: string): string =>
  `<label for="${id}"><span>${escapeHtml(name)}${required ? " *" : ""}</span> <small>${escapeHtml(location)}</small></label><input id="${id}" data-in="${escapeHtml(location)}" data-name="${escapeHtml(name)}"${isList(schema) ? " data-list" : ""} value="${escapeHtml(toFieldText(example))}" autocomplete="off" spellcheck="false">`;

const isList = ({ type, anyOf }: DocumentSchema): boolean =>
  type === "array" || (Array.isArray(anyOf) && anyOf.some((part: DocumentSchema) => part.type === "array"));

/**
 * Returns the request as a curl command, and as the first call of an SDK, else of `fetch`, as HTML with buttons that
 * copy. The script writes the command anew when fields change.
 */
function renderSamples(operation: DocumentOperation, base: string, id: string): string {
  const [sample] = operation["x-codeSamples"] ?? [];
  const url = `http://127.0.0.1:2024${base}${operation.path}`;
  const command = `curl -X ${operation.method.toUpperCase()} '${url}'`;
  const code = sample ? `${renderImport(sample.label)}\n\n${sample.source}` : `await fetch("${url}");`;
  const title = sample?.label ?? "fetch";
  return `<h3 id="${id}-curl">curl <button type="button" data-role="copy">Copy</button></h3>${renderCode(command, "curl", "curl")}
<h3 id="${id}-sdk">${escapeHtml(title)} <button type="button" data-role="copy">Copy</button></h3>${renderCode(code, title, sample ? "sdk" : "fetch")}`;
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
      return `<h3>Example of ${escapeHtml(status)}</h3>${renderCode(text, `Example of ${status}`)}`;
    }
  }
  return "";
}
