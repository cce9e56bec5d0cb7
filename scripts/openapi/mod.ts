/**
 * Writes lib/http/openapi.json from the route table, the schemas that check requests, and the schemas of the answers; and the
 * list of routes in docs/reference/http-routes.md.
 */
import { readFileSync, writeFileSync } from "node:fs";
import type { Route } from "../../lib/http/route.ts";
import { loadAllRoutes } from "../../lib/http/routes/mod.ts";
import type { JsonObject } from "../../lib/json.ts";
import { cronAndStoreSchemas } from "./crons-and-store.ts";
import { operationSchemas } from "./operations.ts";
import { HAND_READ, type HandRead, platformSchemas } from "./platform.ts";
import { createRequestSchema, REQUESTS } from "./requests.ts";
import { routesPage } from "./routes-page.ts";
import { ERRORS, HEADERS, list, ref, schemas, string, toContent, uuid } from "./schemas.ts";

const ROUTES = await loadAllRoutes();

/** Path parameters that are UUIDs. */
const IDS = new Set(["thread_id", "run_id", "cron_id", "token", "id"]);

const formatRoute = ({ method, path }: Route): string => `${method} ${path}`;
const getHandRead = (route: Route): HandRead => HAND_READ[formatRoute(route)] ?? {};
const toTemplate = ({ path }: Route): string => path.replace(/:(\w+)\+?/g, "{$1}");
const listPathParameters = (path: string): string[] =>
  [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string);
const isAccountPath = ({ path }: Route): boolean => path.startsWith("/api/v1/");

const describeKeyHeader = ({ public_headers }: Route): string =>
  `1 to 255 visible ASCII characters; the same ${public_headers ? "submission again is recorded once" : "request again gives the same run"}`;

function createParameters(route: Route): JsonObject[] {
  const inPath = listPathParameters(toTemplate(route)).map((name) => ({
    name,
    in: "path",
    required: true,
    schema: IDS.has(name) ? uuid : string,
    ...(name === "assistant_id" ? { description: "A UUID, or a graph id for its default assistant" } : {}),
  }));
  const query = route.query ? createRequestSchema(route.query, "query") : {};
  const needed = new Set((query.required ?? []) as readonly string[]);
  const inQuery = Object.entries((query.properties ?? {}) as JsonObject).map(([name, schema]) => ({
    ...{ name, in: "query", required: needed.has(name), schema },
  }));
  const headers = {
    ...(route.idempotency_key ? { "Idempotency-Key": describeKeyHeader(route) } : {}),
    ...route.request_headers,
  };
  const inHeader = Object.entries(headers).map(([name, description]) => ({
    name,
    in: "header",
    required: false,
    description,
    schema: string,
  }));
  return [...inPath, ...inQuery, ...(getHandRead(route).query ?? []), ...inHeader];
}

/** Returns the error statuses of a route: those of its access, body, query and ids, and those that it declares. */
function listErrors(route: Route): number[] {
  const read = getHandRead(route);
  const hasBody = route.body !== undefined || read.body !== undefined;
  const ids = listPathParameters(toTemplate(route)).filter((name) => name.endsWith("_id"));
  const checked =
    hasBody || route.query !== undefined || read.query !== undefined || (ids.length > 0 && route.tag !== "Operations");
  return [
    ...(route.access === "open" ? [] : [401, 403]),
    // The platform answers 422 to a body that is not JSON.
    ...(hasBody && !isAccountPath(route) ? [400] : []),
    ...(hasBody ? [408, 413] : []),
    ...(checked ? [422] : []),
    ...(route.errors ?? []),
  ];
}

function createResponses(route: Route): JsonObject {
  const { response, accepted, no_content, upgrades, response_headers } = route;
  const headers = Object.fromEntries((response_headers ?? []).map((name) => [name, HEADERS[name] as JsonObject]));
  const success: JsonObject = {};
  if (response !== undefined) {
    success["200"] = { description: "Success", ...(response_headers ? { headers } : {}), content: toContent(response) };
  }
  if (upgrades) success["101"] = { description: upgrades };
  if (accepted) success["202"] = { description: accepted };
  if (no_content || (response === undefined && !upgrades)) success["204"] = { description: no_content ?? "Done" };
  const limit = route.max_body_bytes;
  const tooLarge = `The body is larger than ${(limit ?? 0) / 1024} KiB or holds more values than \`http.max_body_values\``;
  const failures = listErrors(route).map((status) => {
    const schema = ref(route.issues && status === 422 ? "InputError" : "Error");
    const content = route.error_text ? { "text/plain": { schema: string } } : { "application/json": { schema } };
    const description = status === 413 && limit !== undefined ? tooLarge : (ERRORS[status] as string);
    return [String(status), { description, content }];
  });
  return { ...success, ...Object.fromEntries(failures) };
}

function createRequestBody(route: Route): JsonObject {
  const { body, list: asList = false } = route;
  const byHand = getHandRead(route).body;
  if (byHand) return { requestBody: { required: true, content: { "application/json": { schema: byHand } } } };
  if (!body) return {};
  const name = REQUESTS.get(body);
  if (!name) throw new Error(`Name the body of ${formatRoute(route)} in REQUESTS of scripts/openapi/requests.ts`);
  const element = ref(name);
  const required = asList || Object.values(body.entries).some(({ type }) => type !== "optional" && type !== "nullish");
  const schema = asList ? { ...list(element), minItems: 1 } : element;
  return { requestBody: { required, content: { "application/json": { schema } } } };
}

/** Returns the OpenAPI document of every route that has a handler. Throws if a schema is missing. */
export function createOpenApi(version: string): JsonObject {
  const paths: Record<string, JsonObject> = {};
  for (const route of ROUTES.filter(({ handle }) => handle)) {
    const path = toTemplate(route);
    const described: JsonObject = {
      tags: [route.tag],
      summary: route.summary,
      parameters: createParameters(route),
      ...createRequestBody(route),
      responses: createResponses(route),
      ...(route.access === "open" ? { security: [] } : {}),
    };
    paths[path] = { ...paths[path], [route.method]: described };
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
    info: { title: "Greenroom", version, description: "Agents, threads and runs behind one handler." },
    paths,
    // The empty one: a server without keys requires none.
    security: [{ "X-API-Key": [] }, {}],
    components: {
      schemas: components,
      securitySchemes: { "X-API-Key": { type: "apiKey", in: "header", name: "X-API-Key" } },
    },
  };
}

if (import.meta.main) {
  const root = new URL("../../", import.meta.url);
  const { version } = JSON.parse(readFileSync(new URL("package.json", root), "utf8")) as { version: string };
  const document = createOpenApi(version);
  writeFileSync(new URL("lib/http/openapi.json", root), `${JSON.stringify(document, null, 1)}\n`);
  writeFileSync(new URL("docs/reference/http-routes.md", root), routesPage(ROUTES, document));
}
