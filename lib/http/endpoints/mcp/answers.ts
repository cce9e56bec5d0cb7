/** The questions of an agent as requests to the client, and the client's answers as values for `resume`. */
import type { Interrupt } from "../../../executor/contract.ts";
import { type Action, approvalOf, type Decision, decisionsAnswer, questionText } from "../../../executor/questions.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import { tryRead } from "../fields.ts";
import { canElicit, type RequestHead } from "./protocol.ts";
import { elicited, type SentAnswers } from "./requests.ts";

/** A question as one request, or why the client cannot be asked. */
interface Asked {
  /** The key of the request, and of its answer. */
  readonly key: string;
  readonly interrupt: Interrupt;
  /** Null: this client cannot be asked. */
  readonly request: JsonObject | null;
}

/** What a client can do. */
type Able = Pick<RequestHead, "capabilities">;

/** Requests that pass through, and the capability that they need. */
const PASSED: Readonly<Record<string, string>> = { "sampling/createMessage": "sampling", "roots/list": "roots" };

const isText = (value: Json | undefined): value is string => typeof value === "string" && value !== "";

const PRIMITIVES = ["string", "number", "integer", "boolean"];

/** A schema that forms can show: an object of primitives, or of lists of choices. */
function flatSchema(value: Json | undefined): JsonObject | null {
  if (!isObject(value) || !isObject(value.properties)) return null;
  const isFlat = (one: Json): boolean => {
    if (!isObject(one)) return false;
    if (one.type === "array") return isObject(one.items) && one.items.type !== "object";
    return PRIMITIVES.includes(String(one.type));
  };
  return Object.values(value.properties).every(isFlat) ? { ...value, type: "object" } : null;
}

/** A form with one field, whose value is the whole resume value. */
const singleField = (answer: JsonObject): JsonObject => ({
  type: "object",
  properties: { answer },
  required: ["answer"],
});

/** The names of the fields of one action: numbered where there are several. */
const fieldsOf = (index: number, count: number): { decision: string; message: string; args: string } => {
  const end = count > 1 ? `_${index + 1}` : "";
  return { decision: `decision${end}`, message: `message${end}`, args: `args${end}` };
};

function approvalSchema(actions: readonly Action[]): JsonObject {
  const members = actions.flatMap(({ name, allowed }, index): [string, Json][] => {
    const { decision, message, args } = fieldsOf(index, actions.length);
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
  const required = actions.map((_, index) => fieldsOf(index, actions.length).decision);
  return { type: "object", properties: Object.fromEntries(members), required };
}

/** The schema that an interrupt gives for its form; null if forms cannot show it. */
function ownSchema({ value, response_schema }: Interrupt): JsonObject | null {
  const { requestedSchema, schema } = isObject(value) ? value : {};
  return flatSchema(requestedSchema) ?? flatSchema(schema) ?? flatSchema(response_schema);
}

/** The schema of the form for an interrupt. */
function formSchema(interrupt: Interrupt): JsonObject {
  const approval = approvalOf(interrupt.value);
  if (approval) return approvalSchema(approval.actions);
  const { response_schema: schema = null } = interrupt;
  const isPrimitive = isObject(schema) && PRIMITIVES.includes(String(schema.type));
  return ownSchema(interrupt) ?? singleField(isPrimitive ? schema : { type: "string" });
}

function requestOf(request: Able, interrupt: Interrupt): JsonObject | null {
  const { value } = interrupt;
  if (isObject(value) && typeof value.method === "string" && Object.hasOwn(PASSED, value.method)) {
    const { method, params } = value;
    const canPass = isObject(request.capabilities[PASSED[method as string] as string] ?? null);
    return canPass ? { method: method as string, ...(isObject(params) ? { params } : {}) } : null;
  }
  const message = questionText(value);
  if (isObject(value) && isText(value.url)) {
    if (!canElicit(request, "url")) return null;
    return { method: "elicitation/create", params: { mode: "url", message, url: value.url } };
  }
  if (!canElicit(request)) return null;
  return { method: "elicitation/create", params: { mode: "form", message, requestedSchema: formSchema(interrupt) } };
}

/** The questions as requests, in their order. `suffix`: at the end of all keys. */
export function askedOf(request: Able, open: readonly Interrupt[], suffix = ""): Asked[] {
  const taken = new Set<string>();
  return open.map((interrupt) => {
    const { id, value } = interrupt;
    const own = isObject(value) && isText(value.key) && !taken.has(value.key) ? value.key : id;
    taken.add(own);
    return { key: `${own}${suffix}`, interrupt, request: requestOf(request, interrupt) };
  });
}

/** The requests by key; null if this client cannot be asked all of them. */
export function inputRequests(asked: readonly Asked[]): JsonObject | null {
  if (asked.some(({ request }) => request === null)) return null;
  return Object.fromEntries(asked.map(({ key, request }) => [key, request as JsonObject]));
}

/** What the answer to one request does. */
export type Reply =
  | { readonly kind: "resume"; readonly value: Json }
  /** The person has closed the form: the question stays open. */
  | { readonly kind: "cancel" }
  /** It does not fit the form. */
  | { readonly kind: "invalid" };

const INVALID: Reply = { kind: "invalid" };

/** Whether a value fits the member of a flat schema. */
function fits(value: Json | undefined, schema: Json): boolean {
  if (!isObject(schema) || value === undefined) return true;
  const choices =
    schema.enum ??
    (Array.isArray(schema.oneOf) ? schema.oneOf.map((one) => (isObject(one) ? (one.const ?? null) : null)) : undefined);
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

function fitsForm(content: JsonObject, schema: JsonObject): boolean {
  const required = Array.isArray(schema.required) ? schema.required : [];
  const properties = isObject(schema.properties) ? schema.properties : {};
  return (
    required.every((name) => typeof name === "string" && Object.hasOwn(content, name)) &&
    Object.entries(properties).every(([name, member]) => fits(content[name], member))
  );
}

function decisionOf({ allowed }: Action, fields: ReturnType<typeof fieldsOf>, content: JsonObject): Decision | null {
  const type = allowed.find((one) => one === content[fields.decision]);
  const message = content[fields.message];
  if (type === "reject") return isText(message) ? { type, message } : { type };
  if (type === "respond") return { type, message: isText(message) ? message : "" };
  if (type === "approve") return { type };
  if (type !== "edit") return null;
  try {
    const args = JSON.parse(String(content[fields.args])) as Json;
    return isObject(args) ? { type, args } : null;
  } catch {
    return null;
  }
}

/** Reads the answer to a question. */
export function replyOf(interrupt: Interrupt, answer: JsonObject): Reply {
  const { value } = interrupt;
  const approval = approvalOf(value);
  if (isObject(value) && typeof value.method === "string" && Object.hasOwn(PASSED, value.method)) {
    return { kind: "resume", value: answer };
  }
  const reply = tryRead(elicited, answer);
  if (!reply) return INVALID;
  if (reply.action === "cancel") return { kind: "cancel" };
  if (reply.action === "decline") {
    const rejected =
      approval &&
      decisionsAnswer(
        approval,
        approval.actions.map(() => ({ type: "reject" })),
      );
    return { kind: "resume", value: rejected ?? { action: "decline" } };
  }
  const { content } = reply;
  if (isObject(value) && isText(value.url)) return { kind: "resume", value: { action: "accept", ...content } };
  if (!fitsForm(content, formSchema(interrupt))) return INVALID;
  if (!approval) return { kind: "resume", value: ownSchema(interrupt) ? content : (content.answer ?? null) };
  const { actions } = approval;
  const decisions = actions.map((one, index) => decisionOf(one, fieldsOf(index, actions.length), content));
  const known = decisions.filter((one) => one !== null);
  return known.length === actions.length ? { kind: "resume", value: decisionsAnswer(approval, known) } : INVALID;
}

/** Reads the answer to a question from all that were sent; null without one. */
export function replyIn(sent: SentAnswers, { key, interrupt }: Pick<Asked, "key" | "interrupt">): Reply | null {
  const answer = Object.hasOwn(sent, key) ? sent[key] : undefined;
  return answer ? replyOf(interrupt, answer) : null;
}
