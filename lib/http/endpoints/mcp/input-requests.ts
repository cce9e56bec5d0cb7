/** Converts interrupts to requests to the client, and the client's responses to resume values. */

import {
  type Action,
  type Decision,
  describeInterrupt,
  parseApproval,
  toApprovalResumeValue,
} from "../../../executor/approvals.ts";
import type { Interrupt } from "../../../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import { tryParseInput } from "../fields.ts";
import { canElicit, type McpRequestHeader } from "./protocol.ts";
import { elicitResult, type InputResponses } from "./requests.ts";

/** An interrupt as a request to the client. */
interface InputRequest {
  /** The key of the request and its response. */
  readonly key: string;
  readonly interrupt: Interrupt;
  /** Null if this client lacks the capability. */
  readonly request: JsonObject | null;
}

/** The part of a request that holds the client's capabilities. */
type ClientCapabilities = Pick<McpRequestHeader, "capabilities">;

/** Methods that interrupts can send to the client unchanged, and the capability that each needs. */
const FORWARDED_METHODS: Readonly<Record<string, string>> = {
  "sampling/createMessage": "sampling",
  "roots/list": "roots",
};

const isNonEmptyString = (value: Json | undefined): value is string => typeof value === "string" && value !== "";

const PRIMITIVE_TYPES = ["string", "number", "integer", "boolean"];

/**
 * Returns a copy of a schema that forms can show, with the type `object`: its members are primitives or lists that hold
 * no objects. Returns null for any other schema.
 */
function toFlatSchema(value: Json | undefined): JsonObject | null {
  if (!isObject(value) || !isObject(value.properties)) return null;
  /** Returns true if the schema of a member is a primitive or a list that holds no objects. */
  const isFlat = (member: Json): boolean => {
    if (!isObject(member)) return false;
    if (member.type === "array") return isObject(member.items) && member.items.type !== "object";
    return PRIMITIVE_TYPES.includes(String(member.type));
  };
  return Object.values(value.properties).every(isFlat) ? { ...value, type: "object" } : null;
}

/** Creates the schema of a form with the required field `answer`, whose value is the whole resume value. */
const createSingleFieldSchema = (fieldSchema: JsonObject): JsonObject => ({
  type: "object",
  properties: { answer: fieldSchema },
  required: ["answer"],
});

/** Returns the field names of one action. They end with its number, from 1, if there are several actions. */
const getDecisionFields = (index: number, count: number): { decision: string; message: string; args: string } => {
  const suffix = count > 1 ? `_${index + 1}` : "";
  return { decision: `decision${suffix}`, message: `message${suffix}`, args: `args${suffix}` };
};

/**
 * Creates the schema of a form with a required decision and a message for each action, and its arguments as JSON text
 * if `edit` is allowed.
 */
function createApprovalSchema(actions: readonly Action[]): JsonObject {
  const members = actions.flatMap(({ name, allowed }, index): [string, Json][] => {
    const { decision, message, args } = getDecisionFields(index, actions.length);
    return [
      [decision, { type: "string", title: `Decision on ${name}`, enum: [...allowed] }],
      [message, { type: "string", title: `Message for ${name}`, description: "For a rejection or a response" }],
      ...(allowed.includes("edit")
        ? ([[args, { type: "string", title: `Arguments of ${name}`, description: "Changed arguments as JSON" }]] as [
            string,
            Json,
          ][])
        : []),
    ];
  });
  const required = actions.map((_, index) => getDecisionFields(index, actions.length).decision);
  return { type: "object", properties: Object.fromEntries(members), required };
}

/**
 * Returns the first schema that forms can show: `requestedSchema` or `schema` of the interrupt's value, or its response
 * schema. Returns null if there is none.
 */
function findResponseSchema({ value, response_schema }: Interrupt): JsonObject | null {
  const { requestedSchema, schema } = isObject(value) ? value : {};
  return toFlatSchema(requestedSchema) ?? toFlatSchema(schema) ?? toFlatSchema(response_schema);
}

/**
 * Returns the schema of a form: that of an approval, else the schema that the interrupt gives, else a single field
 * `answer`, which is a text unless the response schema is another primitive.
 */
function createFormSchema(interrupt: Interrupt): JsonObject {
  const approval = parseApproval(interrupt.value);
  if (approval) return createApprovalSchema(approval.actions);
  const { response_schema: schema = null } = interrupt;
  const isPrimitive = isObject(schema) && PRIMITIVE_TYPES.includes(String(schema.type));
  return findResponseSchema(interrupt) ?? createSingleFieldSchema(isPrimitive ? schema : { type: "string" });
}

/**
 * Converts an interrupt to a request of MCP: the request in its value for a forwarded method, a URL to visit if the
 * value has one, else a form. Returns null if the client lacks the capability for it.
 */
function toClientRequest(request: ClientCapabilities, interrupt: Interrupt): JsonObject | null {
  const { value } = interrupt;
  if (isObject(value) && typeof value.method === "string" && Object.hasOwn(FORWARDED_METHODS, value.method)) {
    const { method, params } = value;
    const canPass = isObject(request.capabilities[FORWARDED_METHODS[method as string] as string] ?? null);
    return canPass ? { method: method as string, ...(isObject(params) ? { params } : {}) } : null;
  }
  const message = describeInterrupt(value);
  if (isObject(value) && isNonEmptyString(value.url)) {
    if (!canElicit(request, "url")) return null;
    return { method: "elicitation/create", params: { mode: "url", message, url: value.url } };
  }
  if (!canElicit(request)) return null;
  return {
    method: "elicitation/create",
    params: { mode: "form", message, requestedSchema: createFormSchema(interrupt) },
  };
}

/**
 * Converts interrupts to requests, in their order. The request is null if the client cannot handle it. The key is that
 * of the interrupt's value if none before has it, else the interrupt's id, and ends with `suffix`.
 */
export function toInputRequests(
  request: ClientCapabilities,
  interrupts: readonly Interrupt[],
  suffix = "",
): InputRequest[] {
  const usedKeys = new Set<string>();
  return interrupts.map((interrupt) => {
    const { id, value } = interrupt;
    const baseKey = isObject(value) && isNonEmptyString(value.key) && !usedKeys.has(value.key) ? value.key : id;
    usedKeys.add(baseKey);
    return { key: `${baseKey}${suffix}`, interrupt, request: toClientRequest(request, interrupt) };
  });
}

/** Returns the requests by key; null if the client lacks the capability for one of them. */
export function keyInputRequests(inputRequests: readonly InputRequest[]): JsonObject | null {
  if (inputRequests.some(({ request }) => request === null)) return null;
  return Object.fromEntries(inputRequests.map(({ key, request }) => [key, request as JsonObject]));
}

/** The effect of one response. */
export type InputResponse =
  | { readonly kind: "resume"; readonly value: Json }
  /** The user closed the form: the interrupt stays pending. */
  | { readonly kind: "cancel" }
  /** The response does not match the form. */
  | { readonly kind: "invalid" };

const INVALID_RESPONSE: InputResponse = { kind: "invalid" };

/**
 * Returns true if a value has the type of the member of a flat schema and is one of its choices. An absent value and an
 * unknown type match.
 */
function matchesMember(value: Json | undefined, schema: Json): boolean {
  if (!isObject(schema) || value === undefined) return true;
  const choices =
    schema.enum ??
    (Array.isArray(schema.oneOf)
      ? schema.oneOf.map((choice) => (isObject(choice) ? (choice.const ?? null) : null))
      : undefined);
  if (Array.isArray(choices) && !choices.includes(value)) return false;
  switch (schema.type) {
    case "string":
      return typeof value === "string";
    case "number":
      return typeof value === "number";
    case "integer":
      return Number.isInteger(value);
    case "boolean":
      return typeof value === "boolean";
    case "array":
      return Array.isArray(value);
    default:
      return true;
  }
}

/**
 * Returns true if the content has all required members and each member fits its schema. Members that the schema does not name are
 * ignored.
 */
function matchesForm(content: JsonObject, schema: JsonObject): boolean {
  const required = Array.isArray(schema.required) ? schema.required : [];
  const properties = isObject(schema.properties) ? schema.properties : {};
  return (
    required.every((name) => typeof name === "string" && Object.hasOwn(content, name)) &&
    Object.entries(properties).every(([name, member]) => matchesMember(content[name], member))
  );
}

/** Returns the decision on an action; null for one that is not allowed and for edited arguments that are not a JSON object. */
function parseDecision(
  { allowed }: Action,
  fields: ReturnType<typeof getDecisionFields>,
  content: JsonObject,
): Decision | null {
  const type = allowed.find((decision) => decision === content[fields.decision]);
  const message = content[fields.message];
  if (type === "reject") return isNonEmptyString(message) ? { type, message } : { type };
  if (type === "respond") return { type, message: isNonEmptyString(message) ? message : "" };
  if (type === "approve") return { type };
  if (type !== "edit") return null;
  try {
    const args = JSON.parse(String(content[fields.args])) as Json;
    return isObject(args) ? { type, args } : null;
  } catch {
    return null;
  }
}

/**
 * Parses the response to an interrupt: a resume value, a cancellation, or invalid. A declined approval resumes with
 * rejections of all actions, another declined interrupt with `{action: "decline"}`. The response to a forwarded request
 * is the value as it is. A form resumes with its content, or with its field `answer`.
 */
export function parseInputResponse(interrupt: Interrupt, response: JsonObject): InputResponse {
  const { value } = interrupt;
  const approval = parseApproval(value);
  if (isObject(value) && typeof value.method === "string" && Object.hasOwn(FORWARDED_METHODS, value.method)) {
    return { kind: "resume", value: response };
  }
  const result = tryParseInput(elicitResult, response);
  if (!result) return INVALID_RESPONSE;
  if (result.action === "cancel") return { kind: "cancel" };
  if (result.action === "decline") {
    const rejected =
      approval &&
      toApprovalResumeValue(
        approval,
        approval.actions.map(() => ({ type: "reject" })),
      );
    return { kind: "resume", value: rejected ?? { action: "decline" } };
  }
  const { content } = result;
  if (isObject(value) && isNonEmptyString(value.url))
    return { kind: "resume", value: { action: "accept", ...content } };
  if (!matchesForm(content, createFormSchema(interrupt))) return INVALID_RESPONSE;
  if (!approval) return { kind: "resume", value: findResponseSchema(interrupt) ? content : (content.answer ?? null) };
  const { actions } = approval;
  const parsedDecisions = actions.map((action, index) =>
    parseDecision(action, getDecisionFields(index, actions.length), content),
  );
  const decisions = parsedDecisions.filter((decision) => decision !== null);
  return decisions.length === actions.length
    ? { kind: "resume", value: toApprovalResumeValue(approval, decisions) }
    : INVALID_RESPONSE;
}

/** Parses the response to an interrupt from all responses by key; null if it is missing. */
export function findInputResponse(
  inputResponses: InputResponses,
  { key, interrupt }: Pick<InputRequest, "key" | "interrupt">,
): InputResponse | null {
  const response = Object.hasOwn(inputResponses, key) ? inputResponses[key] : undefined;
  return response ? parseInputResponse(interrupt, response) : null;
}
