/** Writes lib/http/openapi.json: the built routes, their request schemas as the server checks them, and their answers. */
import { readFileSync, writeFileSync } from "node:fs";
import { toJsonSchema } from "@valibot/to-json-schema";
import * as parse from "../../lib/http/parse/mod.ts";
import type { JsonObject } from "../../lib/json.ts";
import { cronAndStoreRequests, cronAndStoreSchemas } from "./crons-and-store.ts";
import { OPERATIONS, type Operation, type Schema } from "./operations.ts";
import { platformSchemas } from "./platform.ts";
import { ERRORS, HEADERS, list, nullable, object, ref, schemas, string, uuid } from "./schemas.ts";

/** The JSON Schema of what a client may send. In a body, null stands for an absent field. */
function requestSchema(schema: Schema, place: "body" | "query"): JsonObject {
  const { $schema, ...rest } = toJsonSchema(schema, {
    target: "draft-2020-12",
    typeMode: "input",
    errorMode: "ignore",
    overrideSchema: ({ valibotSchema, jsonSchema }) => {
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

/** Parts of paths that are UUIDs. */
const IDS = new Set(["thread_id", "run_id", "cron_id", "token", "id"]);

function parameters(path: string, operation: Operation): JsonObject[] {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name: name as string,
    in: "path",
    required: true,
    schema: IDS.has(name as string) ? uuid : string,
    ...(name === "assistant_id" ? { description: "A UUID, or a graph id for its default assistant" } : {}),
  }));
  const query = operation.query ? (requestSchema(operation.query, "query").properties as JsonObject) : {};
  const inQuery = Object.entries(query).map(([name, schema]) => ({ name, in: "query", required: false, schema }));
  inQuery.push(...((operation.asks ?? []) as typeof inQuery));
  const inHeader = Object.entries(operation.header ?? {}).map(([name, description]) => ({
    name,
    in: "header",
    required: false,
    description,
    schema: string,
  }));
  return [...inPath, ...inQuery, ...inHeader];
}

function responses(path: string, operation: Operation): JsonObject {
  const headers = Object.fromEntries((operation.answers ?? []).map((name) => [name, HEADERS[name] as JsonObject]));
  const { ok } = operation;
  const success: JsonObject = {};
  if (ok === undefined && !operation.also204) success["204"] = { description: "Done" };
  else if (ok !== undefined) {
    const frames = { schema: { type: "string", description: "Frames of `id`, `event` and `data`" } };
    const content: JsonObject =
      ok === "stream"
        ? { "text/event-stream": frames }
        : ok === "text"
          ? { "text/plain": { schema: string }, "application/json": { schema: object } }
          : ok === "csv"
            ? { "text/csv": { schema: string } }
            : { "application/json": { schema: ok } };
    success["200"] = { description: "Success", ...(operation.answers ? { headers } : {}), content };
  }
  if (operation.also202) success["202"] = { description: operation.also202 };
  if (operation.also204) success["204"] = { description: operation.also204 };
  const listed = path.startsWith("/api/v1/");
  // A body that may be too large may be too slow as well.
  const errors = operation.errors.flatMap((status) => (status === 413 ? [408, 413] : [status]));
  const failures = [...(operation.open ? [] : GUARDED), ...errors].map((status) => {
    const schema = ref(listed && status === 422 ? "InputError" : "Error");
    return [String(status), { description: ERRORS[status] as string, content: { "application/json": { schema } } }];
  });
  return { ...success, ...Object.fromEntries(failures) };
}

/** What a route with a key answers to those who do not have the right one. */
const GUARDED = [401, 403];

function requestBody(schema: Schema, names: Map<Schema, string>, asList: boolean): JsonObject {
  const one = ref(names.get(schema) as string);
  const required = asList || Object.values(schema.entries).some((entry) => entry.type !== "optional");
  return { required, content: { "application/json": { schema: asList ? { ...list(one), minItems: 1 } : one } } };
}

const feedbackKey: JsonObject = { type: "string", minLength: 1, maxLength: 255 };
/** Fields of a run that the service judges, not the schema. */
const RUN_TOLD: JsonObject = {
  webhook: {
    ...nullable({ type: "string", minLength: 1, maxLength: 65_536 }),
    description: "Where the end of the run is told, by a POST: an absolute URL, or a path of the host application",
  },
  feedback_keys: {
    anyOf: [feedbackKey, { ...list(feedbackKey), maxItems: 50 }, { type: "null" }],
    description: "For each a link is made to which feedback can be submitted; the `feedback` event tells them",
  },
};

/** The OpenAPI description of every built route. */
export function openapi(version: string): JsonObject {
  const names = new Map<Schema, string>([
    [parse.assistantCreate, "AssistantCreate"],
    [parse.assistantPatch, "AssistantPatch"],
    [parse.assistantSearch, "AssistantSearch"],
    [parse.assistantCount, "AssistantCount"],
    [parse.versionSearch, "VersionSearch"],
    [parse.latest, "Latest"],
    [parse.threadCreate, "ThreadCreate"],
    [parse.threadPatch, "ThreadPatch"],
    [parse.threadSearch, "ThreadSearch"],
    [parse.threadCount, "ThreadCount"],
    [parse.threadPrune, "ThreadPrune"],
    [parse.stateChange, "StateChange"],
    [parse.stateNote, "StateNote"],
    [parse.stateAt, "StateAt"],
    [parse.historySearch, "HistorySearch"],
    [parse.runCreate, "RunCreate"],
    [parse.cancelMany, "RunsCancel"],
    ...cronAndStoreRequests,
  ] as [Schema, string][]);
  const paths: Record<string, JsonObject> = {};
  for (const [key, operation] of Object.entries(OPERATIONS)) {
    const [method, path] = key.split(" ") as [string, string];
    const described: JsonObject = {
      tags: [operation.tag],
      summary: operation.summary,
      parameters: parameters(path, operation),
      ...(operation.body ? { requestBody: requestBody(operation.body, names, operation.list === true) } : {}),
      ...(operation.sends
        ? { requestBody: { required: true, content: { "application/json": { schema: operation.sends } } } }
        : {}),
      responses: responses(path, operation),
      ...(operation.open ? { security: [] } : {}),
    };
    paths[path] = { ...paths[path], [method]: described };
  }
  const requests = [...names].map(([schema, name]) => {
    const request = requestSchema(schema, "body");
    const told = schema === (parse.runCreate as Schema) ? RUN_TOLD : {};
    return [name, { ...request, properties: { ...(request.properties as JsonObject), ...told } }];
  });
  return {
    openapi: "3.1.0",
    info: { title: "Greenroom", version, description: "Agents, threads and runs behind one handler." },
    paths,
    // The empty one: a server without keys asks nobody.
    security: [{ "X-API-Key": [] }, {}],
    components: {
      schemas: { ...schemas, ...cronAndStoreSchemas, ...platformSchemas, ...Object.fromEntries(requests) },
      securitySchemes: { "X-API-Key": { type: "apiKey", in: "header", name: "X-API-Key" } },
    },
  };
}

if (import.meta.main) {
  const root = new URL("../../", import.meta.url);
  const { version } = JSON.parse(readFileSync(new URL("package.json", root), "utf8")) as { version: string };
  writeFileSync(new URL("lib/http/openapi.json", root), `${JSON.stringify(openapi(version), null, 1)}\n`);
}
