/** The messages of MCP: what a request must have in both eras of the protocol, and how results and errors are answered. */
import { ServiceError } from "../../../errors.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import { VERSION } from "../../../service.ts";
import { isFiniteJson } from "../../../validation.ts";
import { readJson } from "../../parse.ts";
import { jsonResponse } from "../../respond.ts";
import { type InputSchema, parseInput } from "../fields.ts";
import {
  type McpMessage,
  type McpMethod,
  type McpParams,
  type McpRequestId,
  META_PREFIX,
  mcpMessage,
  mcpParams,
} from "./requests.ts";
import { readSession } from "./session.ts";

/** The version whose requests carry what they need. */
export const MODERN_VERSION = "2026-07-28";
/** The versions with `initialize`, newest first. */
export const LEGACY_VERSIONS: readonly string[] = [
  "2025-11-25",
  "2025-06-18",
  "2025-03-26",
  "2024-11-05",
  "2024-10-07",
];
/** What a client without the header speaks. */
const DEFAULT_VERSION = "2025-03-26";

export const TASKS_EXTENSION = "io.modelcontextprotocol/tasks";
export const SERVER_INFO: JsonObject = { name: "greenroom", version: VERSION };

export const ERROR_CODES = {
  parse: -32700,
  request: -32600,
  method: -32601,
  params: -32602,
  internal: -32603,
  refused: -32000,
  header: -32020,
  capability: -32021,
  version: -32022,
} as const;

/** An error answer. `id` null where the request is not known; undefined: that of the request. */
export class McpError extends Error {
  readonly code: number;
  readonly status: number;
  readonly data: Json | undefined;
  readonly id: null | undefined;

  constructor(
    code: keyof typeof ERROR_CODES,
    message: string,
    { status = 200, data, id }: { status?: number; data?: Json; id?: null } = {},
  ) {
    super(message);
    this.code = ERROR_CODES[code];
    this.status = status;
    this.data = data;
    this.id = id;
  }
}

/** What is kept of a request until it is answered. */
export interface McpRequestHeader {
  readonly id: McpRequestId;
  readonly isModern: boolean;
  /** What the client can do; of a legacy client, what its session says. */
  readonly capabilities: JsonObject;
  readonly progressToken: McpRequestId | undefined;
}

/** A request that passed the checks of its era, with the parameters of its method. */
export type McpRequest<Method extends McpMethod = McpMethod> = {
  readonly [Name in Method]: McpRequestHeader & { readonly method: Name; readonly params: McpParams[Name] };
}[Method];

/** The methods of each era. */
const METHODS: { readonly modern: readonly McpMethod[]; readonly legacy: readonly McpMethod[] } = {
  modern: [
    "server/discover",
    "tools/list",
    "tools/call",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
    "subscriptions/listen",
  ],
  legacy: ["initialize", "ping", "tools/list", "tools/call"],
};

/** Errors: those of the transport, in the order in which the reference servers find them. */
export function checkTransport(headers: Headers): void {
  const accept = headers.get("accept") ?? "";
  const accepts = (type: string): boolean =>
    accept.split(",").some((part) => {
      const name = part.split(";")[0]?.trim().toLowerCase() ?? "";
      return name === type || name === "*/*" || name === `${type.split("/")[0]}/*`;
    });
  if (!accepts("application/json") || !accepts("text/event-stream")) {
    const message = "Not Acceptable: Client must accept both application/json and text/event-stream";
    throw new McpError("refused", message, { status: 406, id: null });
  }
  const type = headers.get("content-type")?.split(";")[0]?.trim().toLowerCase();
  if (type !== "application/json") {
    const message = "Unsupported Media Type: Content-Type must be application/json";
    throw new McpError("refused", message, { status: 415, id: null });
  }
}

/** The body. Errors: no JSON. */
export function parseBody(bytes: Uint8Array): unknown {
  try {
    return readJson(bytes);
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    throw new McpError("parse", "Parse error: Invalid JSON", { status: 400, id: null });
  }
}

const invalidRequest = (message: string): McpError => new McpError("request", message, { status: 400, id: null });

const DEFAULT_MAX_BATCH = 50;

/** The requests of a batch; null for a single message. Errors: an era without batches, or a list that is too long or empty. */
export function readBatch(
  body: unknown,
  headers: Headers,
  max_batch: number = DEFAULT_MAX_BATCH,
): readonly unknown[] | null {
  if (!Array.isArray(body)) return null;
  const version = headers.get("mcp-protocol-version") ?? DEFAULT_VERSION;
  if (version > DEFAULT_VERSION) throw invalidRequest("Invalid Request: no batches in this version of the protocol");
  if (body.length === 0 || body.length > max_batch) {
    throw invalidRequest(`Invalid Request: a batch must have 1 to ${max_batch} messages`);
  }
  return body;
}

/** Proxies must not change event streams. */
export const SSE_HEADERS = { "cache-control": "no-cache, no-transform" } as const;

/** A message of a client. Errors: what is none. */
export function readMessage(input: unknown): McpMessage {
  const toError = (): McpError => invalidRequest("Invalid Request: Invalid JSON-RPC message");
  if (!isFiniteJson(input)) throw toError();
  return parseInput(mcpMessage, input, toError);
}

type RequestMessage = Extract<McpMessage, { readonly kind: "request" }>;

/** A request that is checked by the rules of its era. */
export function checkRequest(message: RequestMessage, headers: Headers): McpRequest {
  const { id, meta } = message;
  const isModern = meta?.protocolVersion !== undefined || headers.get("mcp-protocol-version") === MODERN_VERSION;
  const { method, capabilities } = isModern ? checkModern(message, headers) : checkLegacy(message, headers);
  const params = parseInput(mcpParams[method] as InputSchema<unknown>, message.params, ({ loc, msg }) => {
    // The one of which the protocol says that it concerns the HTTP request.
    const status = loc[0] === "inputResponses" ? 400 : 200;
    return new McpError("params", `Invalid params: ${loc.join(".")} ${msg}`, { status });
  });
  const request = { id, method, params, isModern, capabilities, progressToken: meta?.progressToken } as McpRequest;
  if (isModern) checkName(request, headers);
  return request;
}

/** What the rules of an era say about a request. */
interface CheckedMethod {
  readonly method: McpMethod;
  readonly capabilities: JsonObject;
}

function checkLegacy({ method: name }: RequestMessage, headers: Headers): CheckedMethod {
  const version = headers.get("mcp-protocol-version");
  if (name !== "initialize" && version !== null && !LEGACY_VERSIONS.includes(version)) {
    const supported = `(supported versions: ${LEGACY_VERSIONS.join(", ")})`;
    const message = `Bad Request: Unsupported protocol version: ${version} ${supported}`;
    throw new McpError("refused", message, { status: 400, id: null });
  }
  const method = METHODS.legacy.find((supportedName) => supportedName === name);
  if (method === undefined) throw new McpError("method", "Method not found");
  return { method, capabilities: readSession(headers)?.capabilities ?? {} };
}

function checkModern({ method: name, meta }: RequestMessage, headers: Headers): CheckedMethod {
  const version = meta?.protocolVersion ?? null;
  if (version === null) throw missingMetaError("protocolVersion");
  checkHeader(headers, "MCP-Protocol-Version", version);
  if (version !== MODERN_VERSION) {
    const data = { supported: [MODERN_VERSION], requested: version };
    throw new McpError("version", `Unsupported protocol version: ${version}`, { status: 400, data });
  }
  checkHeader(headers, "Mcp-Method", name);
  const method = METHODS.modern.find((supportedName) => supportedName === name);
  if (method === undefined) throw new McpError("method", "Method not found", { status: 404 });
  if (!meta?.capabilities) throw missingMetaError("clientCapabilities");
  return { method, capabilities: meta.capabilities };
}

/** Errors: a header that names something else than the parameters. */
function checkName(request: McpRequest, headers: Headers): void {
  const name = findTargetName(request);
  if (name !== undefined) checkHeader(headers, "Mcp-Name", name);
}

/** The tool or the task that a request is about. */
function findTargetName(request: McpRequest): string | undefined {
  switch (request.method) {
    case "tools/call":
      return request.params.name;
    case "tasks/get":
    case "tasks/update":
    case "tasks/cancel":
      return request.params.taskId;
    default:
      return undefined;
  }
}

const missingMetaError = (name: string): McpError =>
  new McpError("params", `Invalid params: _meta["${META_PREFIX}${name}"] is required`, { status: 400 });

/** The value of a header, which may be sent as `=?base64?…?=`; null for one that is not valid. */
function decodeHeaderValue(value: string): string | null {
  const [, base64] = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/.exec(value) ?? [];
  if (base64 === undefined) return value;
  if (base64.length % 4 > 0) return null;
  try {
    const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** Errors: a header that says something else than the body. Proxies route by it. */
export function checkHeader(headers: Headers, name: string, body: string): void {
  const headerValue = headers.get(name);
  if (headerValue !== null && decodeHeaderValue(headerValue.trim()) === body) return;
  const finding = headerValue === null ? "is missing" : `says ${headerValue}`;
  throw new McpError("header", `Header mismatch: ${name} ${finding}, the body says ${body}`, { status: 400 });
}

/** A result in the form of the request's era. `more`: members of `_meta`. */
export function toResultMessage(request: McpRequestHeader, result: JsonObject, extraMeta: JsonObject = {}): JsonObject {
  const { id, isModern } = request;
  const meta = { ...(isModern ? { [`${META_PREFIX}serverInfo`]: SERVER_INFO } : {}), ...extraMeta };
  const resultJson = {
    ...result,
    ...(isModern && result.resultType === undefined ? { resultType: "complete" } : {}),
    ...(Object.keys(meta).length > 0 ? { _meta: meta } : {}),
  };
  return { result: resultJson, jsonrpc: "2.0", id };
}

/** The message of an error. `id`: that of its request. */
export function toErrorMessage({ code, message, data, id }: McpError, request_id: Json = null): JsonObject {
  return {
    jsonrpc: "2.0",
    error: { code, message, ...(data === undefined ? {} : { data }) },
    id: id === null ? null : request_id,
  };
}

export const toErrorResponse = (error: McpError, request_id: Json = null): Response =>
  jsonResponse(toErrorMessage(error, request_id), {}, error.status);

/** A client that lacks a capability. */
export const missingCapabilityError = (required: JsonObject): McpError =>
  new McpError("capability", "Missing required client capability", {
    status: 400,
    data: { requiredCapabilities: required },
  });

/** The client can show a form to its user. */
export function canElicit(
  { capabilities: { elicitation = null } }: Pick<McpRequestHeader, "capabilities">,
  mode: "form" | "url" = "form",
): boolean {
  if (!isObject(elicitation)) return false;
  // A client that names no mode has forms.
  return mode in elicitation || (mode === "form" && !("url" in elicitation));
}

/** The client polls tasks. */
export const canPoll = ({ capabilities: { extensions = null } }: McpRequestHeader): boolean =>
  isObject(extensions) && isObject(extensions[TASKS_EXTENSION] ?? null);
