/** The card of an agent: its abilities, address and security schemes. */

import { A2A_VERSIONS, type A2aVersion } from "../../../a2a/json.ts";
import type { Assistant } from "../../../assistants/mod.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import { getPublicBaseUrl } from "../../../options.ts";
import { jsonResponse } from "../../respond.ts";
import type { RequestContext } from "../../route.ts";
import { findMessageProblem } from "./message-input.ts";
import { HISTORY_SCOPE, SCOPE_HEADER } from "./options.ts";
import { arePushNotificationsEnabled } from "./push.ts";

const HISTORY_EXTENSION: JsonObject = {
  uri: HISTORY_SCOPE,
  description: "Choose task-only or full-context response history",
  required: false,
  params: {
    header: SCOPE_HEADER,
    values: ["context", "task"],
    default: "context",
    methods: ["SendMessage", "GetTask", "ListTasks"],
  },
};

/**
 * Reads content modes from the assistant's `metadata.a2a`, and drops those that are no text. Returns `text/plain` if
 * there is none.
 */
function readModes({ metadata }: Assistant, name: "input_modes" | "output_modes"): string[] {
  const configuredModes: Json | undefined = isObject(metadata.a2a ?? null)
    ? (metadata.a2a as JsonObject)[name]
    : undefined;
  const modes = Array.isArray(configuredModes) ? configuredModes.filter((mode) => typeof mode === "string") : [];
  return modes.length > 0 ? modes : ["text/plain"];
}

/**
 * Returns the members of a card that demand an API key, in the format of the version. Returns an empty object without
 * authentication, and for custom authentication, whose schemes are unknown here.
 */
function createSecurity({ service: { options } }: RequestContext, version: A2aVersion): JsonObject {
  if (!["api_key", "agent_builder"].includes(options.auth?.mode ?? "none")) return {};
  const name = "x-api-key";
  if (version === "0.3") {
    return { securitySchemes: { apiKey: { type: "apiKey", in: "header", name } }, security: [{ apiKey: [] }] };
  }
  return {
    securitySchemes: { apiKey: { apiKeySecurityScheme: { location: "header", name } } },
    securityRequirements: [{ schemes: { apiKey: { list: [] } } }],
  };
}

/**
 * Creates the card for a version. Null creates a card that serves both versions. The card of an agent that takes no messages says so in
 * its description, and has no input modes.
 */
async function createCard(
  context: RequestContext,
  assistant: Assistant,
  version: A2aVersion | null,
): Promise<JsonObject> {
  const { request, handler, service } = context;
  const base = getPublicBaseUrl(service.options) ?? new URL(request.url).origin + handler.base;
  const url = `${base.replace(/\/$/, "")}/a2a/${assistant.assistant_id}`;
  const { name } = assistant;
  // A factory may fail to create a graph. Its card is served nevertheless.
  const problem = await findMessageProblem(context.resources, assistant.assistant_id).catch(() => null);
  const agentDescription = assistant.description || `Agent \`${name}\``;
  const description = problem === null ? agentDescription : `${agentDescription}\n\n${problem}.`;
  const inputModes = problem === null ? readModes(assistant, "input_modes") : [];
  const modes = { input: inputModes, output: readModes(assistant, "output_modes") };
  const isLegacy = version === "0.3";
  return {
    ...{ name, description, version: String(assistant.version) },
    ...(isLegacy
      ? {}
      : {
          supportedInterfaces: A2A_VERSIONS.map((protocolVersion) => ({
            url,
            protocolBinding: "JSONRPC",
            protocolVersion,
          })),
        }),
    ...(version === "1.0" ? {} : { url, preferredTransport: "JSONRPC", protocolVersion: "0.3.0" }),
    capabilities: {
      streaming: true,
      pushNotifications: arePushNotificationsEnabled(context.service),
      extensions: [HISTORY_EXTENSION],
    },
    ...createSecurity(context, version ?? "1.0"),
    ...{ defaultInputModes: modes.input, defaultOutputModes: modes.output },
    skills: [
      {
        ...{ id: assistant.graph_id, name, description, tags: ["assistant"] },
        ...{ inputModes: modes.input, outputModes: modes.output },
      },
    ],
  };
}

/**
 * Creates the response with the card, which clients may cache for 60 seconds, and its tag. Responds 304 if
 * `If-None-Match` has the tag, weak or strong, or `*`.
 */
export async function createCardResponse(
  context: RequestContext,
  assistant: Assistant,
  version: A2aVersion | null,
): Promise<Response> {
  const card = await createCard(context, assistant, version);
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(JSON.stringify(card)));
  const tag = [...new Uint8Array(hash).slice(0, 12)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const etag = `W/"${tag}"`;
  const headers = { etag, "cache-control": "private, max-age=60", vary: "a2a-version" };
  const clientTags = (context.request.headers.get("if-none-match") ?? "")
    .split(",")
    .map((clientTag) => clientTag.trim());
  const isUnchanged =
    clientTags.includes("*") || clientTags.some((clientTag) => clientTag.replace(/^W\//, "") === `"${tag}"`);
  return isUnchanged ? new Response(null, { status: 304, headers }) : jsonResponse(card, headers);
}
