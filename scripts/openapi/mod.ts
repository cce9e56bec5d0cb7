/**
 * Writes lib/http/openapi.json from the route table, the texts and examples of operations, the schemas that check requests, and the
 * schemas of the answers; the list of routes in docs/reference/http-routes.md, and the fields of run requests in
 * docs/reference/run-requests.md.
 *
 *   node scripts/openapi/mod.ts [--check]     --check: writes nothing, and fails where a file differs
 */
import { readFileSync, writeFileSync } from "node:fs";
import type { Route } from "../../lib/http/route.ts";
import { loadAllRoutes } from "../../lib/http/routes/mod.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import { cronAndStoreSchemas } from "./crons-and-store.ts";
import { findText, formatRoute, TEXTS } from "./operations/mod.ts";
import type { OperationText } from "./operations/text.ts";
import { operationSchemas } from "./operations.ts";
import { createParameters, createRequestBody, getHandRead, listPathParameters, toTemplate } from "./parameters.ts";
import { platformSchemas } from "./platform.ts";
import { createRequestSchema, REQUESTS } from "./requests.ts";
import { createSuccesses, hidesRoutes, SharedParts } from "./responses.ts";
import { routesPage } from "./routes-page.ts";
import { runFieldsPage } from "./run-fields.ts";
import { schemas } from "./schemas.ts";
import { TAGS } from "./tags.ts";

const ROUTES = await loadAllRoutes();

const isAccountPath = ({ path }: Route): boolean => path.startsWith("/api/v1/");

/**
 * Returns the id of an operation from its method and path, such as `post_threads_thread_id_copy`. Programs that were generated from
 * the document name it, so it never changes.
 */
export const createOperationId = (route: Pick<Route, "method" | "path">): string =>
  `${route.method}_${toTemplate(route)}`.replace(/[^A-Za-z0-9]+/g, "_").replace(/_$/, "");

/** Returns the error statuses of a route: those of its access, body, query and ids, and those that it declares. */
function listErrors(route: Route): number[] {
  const read = getHandRead(route);
  const hasBody = route.body !== undefined || read.body !== undefined;
  const ids = listPathParameters(toTemplate(route)).filter((name) => name.endsWith("_id"));
  const checked =
    (hasBody && !read.is_rpc) ||
    route.query !== undefined ||
    read.query !== undefined ||
    route.strict_query === true ||
    (ids.length > 0 && route.tag !== "Operations");
  const statuses = [
    ...(route.access === "open" ? [] : [401, 403]),
    // The platform answers 422 to a body that is not JSON, and JSON-RPC has errors of its own.
    ...(hasBody && !isAccountPath(route) && !read.is_rpc ? [400] : []),
    ...(hasBody ? [408, 413] : []),
    ...(hidesRoutes(route) ? [404] : []),
    ...(checked ? [422] : []),
    ...(route.errors ?? []),
  ];
  return [...new Set(statuses)].sort((a, b) => a - b);
}

/** Returns the call of an SDK as the extension that renderers of OpenAPI documents show. */
function createSamples({ call }: OperationText): JsonObject {
  return call ? { "x-codeSamples": [{ lang: "TypeScript", label: call.package, source: call.code }] } : {};
}

function createOperation(route: Route, shared: SharedParts): JsonObject {
  const text = findText(route);
  const operationId = createOperationId(route);
  const errors = listErrors(route).map((status) => [String(status), shared.getErrorResponse(route, text, status)]);
  return {
    operationId,
    tags: [route.tag],
    summary: route.summary,
    description: text.description,
    parameters: createParameters(route, text),
    ...createRequestBody(route, text),
    responses: { ...createSuccesses(route, operationId), ...Object.fromEntries(errors) },
    ...(route.access === "open" ? { security: [] } : {}),
    ...createSamples(text),
  };
}

/** Returns the schema with `additionalProperties: true` in each object that lists no members: generated types then accept any. */
function openObjects(schema: Json): Json {
  if (Array.isArray(schema)) return schema.map(openObjects);
  if (!isObject(schema)) return schema;
  const members = Object.fromEntries(Object.entries(schema).map(([key, member]) => [key, openObjects(member)]));
  const isOpen =
    [schema.type].flat().includes("object") && !("properties" in schema || "additionalProperties" in schema);
  return isOpen ? { ...members, additionalProperties: true } : members;
}

/** Returns the OpenAPI document of every route that has a handler. Throws if a schema, a text or an example is missing. */
export function createOpenApi(version: string): JsonObject {
  const routes = ROUTES.filter(({ handle }) => handle);
  const formattedRoutes = new Set(routes.map(formatRoute));
  const unknown = Object.keys(TEXTS).filter((key) => !formattedRoutes.has(key));
  if (unknown.length > 0) throw new Error(`scripts/openapi/operations describes routes that do not exist: ${unknown}`);
  const shared = new SharedParts();
  const paths: Record<string, JsonObject> = {};
  for (const route of routes) {
    const path = toTemplate(route);
    paths[path] = { ...paths[path], [route.method]: createOperation(route, shared) };
  }
  const requests = [...REQUESTS].map(([schema, name]) => [name, createRequestSchema(schema, "body")]);
  const components: JsonObject = {
    ...schemas,
    ...cronAndStoreSchemas,
    ...platformSchemas,
    ...operationSchemas,
    ...Object.fromEntries(requests),
  };
  for (const [, name = ""] of JSON.stringify({ paths, components }).matchAll(/#\/components\/schemas\/(\w+)/g)) {
    if (!(name in components))
      throw new Error(`Add the schema ${name} to a file of scripts/openapi, e.g. operations.ts`);
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Greenroom",
      version,
      description: "Agents, threads and runs behind one handler.",
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "/" }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    paths: openObjects(paths),
    // The empty one: a server without keys requires none.
    security: [{ "X-API-Key": [] }, {}],
    components: {
      schemas: openObjects(components),
      responses: shared.responses,
      examples: shared.examples,
      securitySchemes: { "X-API-Key": { type: "apiKey", in: "header", name: "X-API-Key" } },
    },
  };
}

/** Writes the files, or with `--check` names those that differ and fails. */
function writeFiles(isCheck: boolean): void {
  const root = new URL("../../", import.meta.url);
  const { version } = JSON.parse(readFileSync(new URL("package.json", root), "utf8")) as { version: string };
  const document = createOpenApi(version);
  const files = {
    "lib/http/openapi.json": `${JSON.stringify(document, null, 1)}\n`,
    "docs/reference/http-routes.md": routesPage(ROUTES, document),
    "docs/reference/run-requests.md": runFieldsPage(document),
  };
  for (const [path, text] of Object.entries(files)) {
    const file = new URL(path, root);
    if (!isCheck) writeFileSync(file, text);
    else if (readFileSync(file, "utf8") !== text) {
      console.error(`${path} differs from its sources. Run: node scripts/openapi/mod.ts`);
      process.exitCode = 1;
    }
  }
}

if (import.meta.main) writeFiles(process.argv[2] === "--check");
