/** Finds agents that cannot be called by A2A, because their input takes no messages. */
import { findSchemaMismatch } from "../../../executor/schema-check.ts";
import { isObject, type JsonObject } from "../../../json.ts";
import type { RequestResources } from "../../../service/resources.ts";

/** An input as A2A sends it. */
const MESSAGE_INPUT: JsonObject = { messages: [{ type: "human", content: "Hi", id: "m" }] };
const MAX_LISTED_MEMBERS = 10;

/**
 * Returns a text that says why an agent takes no messages: its declared input has no member `messages`, or does not accept an object
 * with it. Returns null for an agent that takes them or declares no input. Throws `not_found`.
 */
export async function findMessageProblem(
  { assistants }: Pick<RequestResources, "assistants">,
  assistant_id: string,
): Promise<string | null> {
  const { input_schema } = await assistants.schemas(assistant_id);
  if (!input_schema) return null;
  const members = isObject(input_schema.properties) ? Object.keys(input_schema.properties) : [];
  const isAccepted =
    members.length > 0 ? members.includes("messages") : !findSchemaMismatch(input_schema, MESSAGE_INPUT);
  if (isAccepted) return null;
  const names = members.slice(0, MAX_LISTED_MEMBERS).join(", ");
  const reason = members.length > 0 ? `its input has ${names}` : "its input is no object with messages";
  return `The agent takes no messages: ${reason}, and A2A needs a member messages`;
}
