/**
 * Writes lib/http/openapi.json from the route table, the schemas that check requests, and the schemas of the answers; and the
 * list of routes in docs/reference/http-routes.md.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { toJsonSchema } from "@valibot/to-json-schema";
import { runAgentInput } from "../../lib/http/endpoints/ag-ui/requests.ts";
import { chatBody } from "../../lib/http/endpoints/ai/requests.ts";
import { type Fields, UUID } from "../../lib/http/parse.ts";
import type { Route } from "../../lib/http/route.ts";
import {
  assistantCount,
  assistantCreate,
  assistantPatch,
  assistantSearch,
  latest,
  versionSearch,
} from "../../lib/http/routes/assistants.ts";
import { feedbackCreate, feedbackLink, feedbackPatch, submission } from "../../lib/http/routes/feedback-requests.ts";
import { allRoutes } from "../../lib/http/routes/mod.ts";
import { eventFilter, threadCommand } from "../../lib/http/routes/protocol.ts";
import { cancelMany } from "../../lib/http/routes/runs.ts";
import {
  historySearch,
  stateAt,
  stateChange,
  stateNote,
  threadCount,
  threadCreate,
  threadPatch,
  threadPrune,
  threadSearch,
} from "../../lib/http/routes/threads.ts";
import { runCreate } from "../../lib/http/run-request.ts";
import type { JsonObject } from "../../lib/json.ts";
import { cronAndStoreRequests, cronAndStoreSchemas } from "./crons-and-store.ts";
import { operationSchemas } from "./operations.ts";
import { HAND_READ, type HandRead, platformSchemas } from "./platform.ts";
import { routesPage } from "./routes-page.ts";
import { contentOf, ERRORS, HEADERS, list, ref, schemas, string, uuid } from "./schemas.ts";

const ROUTES = await allRoutes();

type Schema = Fields<unknown>;

/** The JSON Schema of what a client may send. In a body, null stands for an absent field, or clears it. */
function requestSchema(schema: Schema, place: "body" | "query"): JsonObject {
  const { $schema, ...rest } = toJsonSchema(schema, {
    target: "draft-2020-12",
    typeMode: "input",
    errorMode: "ignore",
    overrideAction: ({ valibotAction, jsonSchema }) => {
      if (valibotAction.type !== "regex" || !("requirement" in valibotAction) || valibotAction.requirement !== UUID) {
        return undefined;
      }
      // The expression ignores case, which JSON Schema cannot say.
      const { pattern: _, ...rest } = jsonSchema;
      return { ...rest, format: "uuid" };
    },
    overrideSchema: ({ valibotSchema, jsonSchema }) => {
      // JSON Schema cannot say that the last variant is for all other values.
      if (valibotSchema.type === "variant") return { anyOf: jsonSchema.oneOf ?? [] };
      // The optional field inside has null already.
      if (valibotSchema.type === "nullish") {
        const [inner] = jsonSchema.anyOf as [JsonObject];
        const nulls = (inner.anyOf ?? []) as readonly JsonObject[];
        const taken = Object.keys(inner).length === 0 || nulls.some(({ type }) => type === "null");
        if (taken) return inner as typeof jsonSchema;
        // Null is what an absent member is read as: that is not worth saying.
        const { default: standard, ...present } = jsonSchema;
        return standard === null ? present : undefined;
      }
      const open = Object.keys(jsonSchema).length === 0;
      if (place === "query" || open || valibotSchema.type !== "optional") return undefined;
      const { default: standard, ...present } = jsonSchema;
      return {
        anyOf: [...(present.anyOf ?? [present]), { type: "null" }],
        ...(standard === undefined ? {} : { default: standard }),
      };
    },
  });
  return JSON.parse(JSON.stringify(rest, withoutEmpty)) as JsonObject;
}

function withoutEmpty(key: string, value: unknown): unknown {
  const empty = typeof value === "object" && value !== null && Object.keys(value).length === 0;
  return empty && (key === "required" || key === "properties") ? undefined : value;
}

/** Path parameters that are UUIDs. */
const IDS = new Set(["thread_id", "run_id", "cron_id", "token", "id"]);

const keyOf = ({ method, path }: Route): string => `${method} ${path}`;
const handRead = (route: Route): HandRead => HAND_READ[keyOf(route)] ?? {};
/** The path as OpenAPI writes it. */
const templateOf = ({ path }: Route): string => path.replace(/:(\w+)\+?/g, "{$1}");
const namesIn = (path: string): string[] => [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string);
const isAccountPath = ({ path }: Route): boolean => path.startsWith("/api/v1/");

/** The description of the header. */
const keyHeader = ({ public_headers }: Route): string =>
  `1 to 255 visible ASCII characters; the same ${public_headers ? "submission again is recorded once" : "request again gives the same run"}`;

function parameters(route: Route): JsonObject[] {
  const inPath = namesIn(templateOf(route)).map((name) => ({
    name,
    in: "path",
    required: true,
    schema: IDS.has(name) ? uuid : string,
    ...(name === "assistant_id" ? { description: "A UUID, or a graph id for its default assistant" } : {}),
  }));
  const query = route.query ? requestSchema(route.query, "query") : {};
  const needed = new Set((query.required ?? []) as readonly string[]);
  const inQuery = Object.entries((query.properties ?? {}) as JsonObject).map(([name, schema]) => ({
    ...{ name, in: "query", required: needed.has(name), schema },
  }));
  const headers = {
    ...(route.idempotency_key ? { "Idempotency-Key": keyHeader(route) } : {}),
    ...route.request_headers,
  };
  const inHeader = Object.entries(headers).map(([name, description]) => ({
    name,
    in: "header",
    required: false,
    description,
    schema: string,
  }));
  return [...inPath, ...inQuery, ...(handRead(route).query ?? []), ...inHeader];
}

/** What follows from the route's access, body, query and ids, and what it says itself. */
function errorsOf(route: Route): number[] {
  const read = handRead(route);
  const hasBody = route.body !== undefined || read.body !== undefined;
  const ids = namesIn(templateOf(route)).filter((name) => name.endsWith("_id"));
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

function responses(route: Route): JsonObject {
  const { answer, accepted, no_content, upgrades, answer_headers } = route;
  const headers = Object.fromEntries((answer_headers ?? []).map((name) => [name, HEADERS[name] as JsonObject]));
  const success: JsonObject = {};
  if (answer !== undefined) {
    success["200"] = { description: "Success", ...(answer_headers ? { headers } : {}), content: contentOf(answer) };
  }
  if (upgrades) success["101"] = { description: upgrades };
  if (accepted) success["202"] = { description: accepted };
  if (no_content || (answer === undefined && !upgrades)) success["204"] = { description: no_content ?? "Done" };
  const limit = route.max_body_bytes;
  const tooLarge = `The body is larger than ${(limit ?? 0) / 1024} KiB or holds more values than \`http.max_body_values\``;
  const failures = errorsOf(route).map((status) => {
    const schema = ref(route.issues && status === 422 ? "InputError" : "Error");
    const content = route.error_text ? { "text/plain": { schema: string } } : { "application/json": { schema } };
    const description = status === 413 && limit !== undefined ? tooLarge : (ERRORS[status] as string);
    return [String(status), { description, content }];
  });
  return { ...success, ...Object.fromEntries(failures) };
}

function requestBody(route: Route, names: Map<Schema, string>): JsonObject {
  const { body, list: asList = false } = route;
  const byHand = handRead(route).body;
  if (byHand) return { requestBody: { required: true, content: { "application/json": { schema: byHand } } } };
  if (!body) return {};
  const name = names.get(body);
  if (!name) throw new Error(`Name the body of ${keyOf(route)} in openapi() of scripts/openapi/mod.ts`);
  const one = ref(name);
  const required = asList || Object.values(body.entries).some(({ type }) => type !== "optional" && type !== "nullish");
  const schema = asList ? { ...list(one), minItems: 1 } : one;
  return { requestBody: { required, content: { "application/json": { schema } } } };
}

/** The OpenAPI description of every built route. */
export function openapi(version: string): JsonObject {
  const names = new Map<Schema, string>([
    [assistantCreate, "AssistantCreate"],
    [assistantPatch, "AssistantPatch"],
    [assistantSearch, "AssistantSearch"],
    [assistantCount, "AssistantCount"],
    [versionSearch, "VersionSearch"],
    [latest, "Latest"],
    [threadCreate, "ThreadCreate"],
    [threadPatch, "ThreadPatch"],
    [threadSearch, "ThreadSearch"],
    [threadCount, "ThreadCount"],
    [threadPrune, "ThreadPrune"],
    [stateChange, "StateChange"],
    [stateNote, "StateNote"],
    [stateAt, "StateAt"],
    [historySearch, "HistorySearch"],
    [threadCommand, "ThreadCommand"],
    [eventFilter, "EventFilter"],
    [runCreate, "RunCreate"],
    [cancelMany, "RunsCancel"],
    [chatBody, "ChatRequest"],
    [runAgentInput, "RunAgentInput"],
    [feedbackCreate, "FeedbackCreate"],
    [feedbackPatch, "FeedbackPatch"],
    [feedbackLink, "FeedbackTokenCreate"],
    [submission, "Submission"],
    ...cronAndStoreRequests,
  ] as [Schema, string][]);
  const paths: Record<string, JsonObject> = {};
  for (const route of ROUTES.filter(({ handle }) => handle)) {
    const path = templateOf(route);
    const described: JsonObject = {
      tags: [route.tag],
      summary: route.summary,
      parameters: parameters(route),
      ...requestBody(route, names),
      responses: responses(route),
      ...(route.access === "open" ? { security: [] } : {}),
    };
    paths[path] = { ...paths[path], [route.method]: described };
  }
  const requests = [...names].map(([schema, name]) => [name, requestSchema(schema, "body")]);
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
  const document = openapi(version);
  writeFileSync(new URL("lib/http/openapi.json", root), `${JSON.stringify(document, null, 1)}\n`);
  writeFileSync(new URL("docs/reference/http-routes.md", root), routesPage(ROUTES, document));
}
