/** The bodies and queries of requests as JSON Schemas, from the schemas that read them. */
import { toJsonSchema } from "@valibot/to-json-schema";
import { runAgentInput } from "../../lib/http/endpoints/ag-ui/requests.ts";
import { chatBody } from "../../lib/http/endpoints/ai/requests.ts";
import { type FieldSchema, UUID } from "../../lib/http/parse.ts";
import {
  assistantCount,
  assistantCreate,
  assistantPatch,
  assistantSearch,
  versionChoice,
  versionSearch,
} from "../../lib/http/routes/assistants.ts";
import { feedbackCreate, feedbackLink, feedbackPatch, submission } from "../../lib/http/routes/feedback-requests.ts";
import { eventFilter, threadCommand } from "../../lib/http/routes/protocol.ts";
import { cancelMany } from "../../lib/http/routes/runs.ts";
import {
  checkpointStateQuery,
  historySearch,
  statePatch,
  stateUpdateBody,
  threadCount,
  threadCreate,
  threadPatch,
  threadPrune,
  threadSearch,
} from "../../lib/http/routes/threads.ts";
import { command, runCreate } from "../../lib/http/run-request.ts";
import type { JsonObject } from "../../lib/json.ts";
import { cronAndStoreRequests } from "./crons-and-store.ts";

type Schema = FieldSchema<unknown>;

/** The bodies, with their names in the document. */
export const REQUESTS: ReadonlyMap<Schema, string> = new Map<Schema, string>([
  [assistantCreate, "AssistantCreate"],
  [assistantPatch, "AssistantPatch"],
  [assistantSearch, "AssistantSearch"],
  [assistantCount, "AssistantCount"],
  [versionSearch, "VersionSearch"],
  [versionChoice, "Latest"],
  [threadCreate, "ThreadCreate"],
  [threadPatch, "ThreadPatch"],
  [threadSearch, "ThreadSearch"],
  [threadCount, "ThreadCount"],
  [threadPrune, "ThreadPrune"],
  [stateUpdateBody, "StateChange"],
  [statePatch, "StateNote"],
  [checkpointStateQuery, "StateAt"],
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

/** The functions that replace parts of Valibot's conversion. */
type Overrides = Required<Pick<NonNullable<Parameters<typeof toJsonSchema>[1]>, "overrideAction" | "overrideSchema">>;

/** Returns the JSON Schema of what a client may send. In a body, null stands for an absent field, or clears it. */
export function createRequestSchema(schema: Schema, location: "body" | "query"): JsonObject {
  const { $schema, ...jsonSchema } = toJsonSchema(schema, {
    ...{ target: "draft-2020-12", typeMode: "input", errorMode: "ignore", overrideAction },
    overrideSchema: (context) => overrideSchema(context, location),
  });
  return JSON.parse(JSON.stringify(jsonSchema, withoutEmpty)) as JsonObject;
}

const overrideAction: Overrides["overrideAction"] = ({ valibotAction, jsonSchema }) => {
  if (!("requirement" in valibotAction) || valibotAction.requirement !== UUID) return undefined;
  // The expression ignores case, which JSON Schema cannot say.
  const { pattern: _, ...present } = jsonSchema;
  return { ...present, format: "uuid" };
};

type Converted = ReturnType<Overrides["overrideSchema"]>;

function overrideSchema(
  { valibotSchema, jsonSchema }: Parameters<Overrides["overrideSchema"]>[0],
  location: "body" | "query",
): Converted {
  const { type } = valibotSchema;
  // Handlers take the member as it is: no schema lists it. `{}` and not a description, which generated types would narrow.
  if ((valibotSchema as unknown) === command)
    return { ...jsonSchema, properties: { ...jsonSchema.properties, resume: {} } };
  // JSON Schema cannot say that the last variant is for all other values.
  if (type === "variant") return { anyOf: jsonSchema.oneOf ?? [] };
  if (type === "nullish") return toNullableSchema(jsonSchema);
  if (location === "query" || type !== "optional" || Object.keys(jsonSchema).length === 0) return undefined;
  const { default: defaultValue, ...present } = jsonSchema;
  const withDefault = defaultValue === undefined ? {} : { default: defaultValue };
  // A schema for any value takes null as it is.
  if (Object.keys(present).length === 0) return withDefault;
  return { anyOf: [...(present.anyOf ?? [present]), { type: "null" }], ...withDefault };
}

/** Returns the schema of a field that null clears, with null once. Undefined: the conversion is right as it is. */
function toNullableSchema(jsonSchema: NonNullable<Converted>): Converted {
  const { default: defaultValue, ...present } = jsonSchema;
  const [inner] = jsonSchema.anyOf as [NonNullable<Converted>];
  const alternatives = (inner.anyOf ?? []) as readonly { readonly type?: unknown }[];
  // The optional field inside has null already.
  if (Object.keys(inner).length === 0 || alternatives.some((alternative) => alternative.type === "null")) return inner;
  // Null is what an absent member is read as: that is not worth saying.
  return defaultValue === null ? present : undefined;
}

function withoutEmpty(key: string, value: unknown): unknown {
  const empty = typeof value === "object" && value !== null && Object.keys(value).length === 0;
  return empty && (key === "required" || key === "properties") ? undefined : value;
}
