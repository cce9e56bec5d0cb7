/** The JSON-RPC messages of MCP: validation of requests in both generations of the protocol, results and errors. */
import { ServiceError } from "../../../errors.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import { VERSION } from "../../../service.ts";
import type { TraceContext } from "../../../traces/ids.ts";
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

/** The version without sessions: each request carries its version and capabilities. */
export const MODERN_VERSION = "2026-07-28";
/** The versions with `initialize`, newest first. */
export const LEGACY_VERSIONS: readonly string[] = [
  "2025-11-25",
  "2025-06-18",
  "2025-03-26",
  "2024-11-05",
  "2024-10-07",
];
/** The version of a client that sends no version header. */
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

/** An error response. `id` is null if the request has no valid id; undefined takes that of the request. */
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

/** The members of a request that are retained until its response. */
export interface McpRequestHeader {
  readonly id: McpRequestId;
  readonly isModern: boolean;
  /** The client's capabilities: of the request, or in older versions of the session. */
  readonly capabilities: JsonObject;
  readonly progressToken: McpRequestId | undefined;
  /** The trace context in `_meta`. */
  readonly trace: TraceContext;
}

/** A validated request with the parameters of its method. */
export type McpRequest<Method extends McpMethod = McpMethod> = {
  readonly [Name in Method]: McpRequestHeader & { readonly method: Name; readonly params: McpParams[Name] };
}[Method];

/** The methods of each generation of the protocol. */
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

/**
 * Checks the headers of the transport, in the order of the reference servers. Throws an McpError with status 406 unless
 * the client accepts JSON and event streams, and with 415 unless the body is JSON.
 */
export function checkTransport(headers: Headers): void {
  const accept = headers.get("accept") ?? "";
  /** Returns true if the `Accept` header has the type or a range that includes it. */
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

/** Parses the body. Throws an McpError with status 400 for invalid JSON and for JSON that nests too deep. */
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

/**
 * Returns the messages of a batch, not validated; null for a single message. Throws an McpError with status 400 for a version
 * without batches, and for an empty or too long list.
 */
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

/** Parses a message of a client: a request, a notification or a reply. Throws an McpError with status 400 for anything else. */
export function readMessage(input: unknown): McpMessage {
  const toError = (): McpError => invalidRequest("Invalid Request: Invalid JSON-RPC message");
  if (!isFiniteJson(input)) throw toError();
  return parseInput(mcpMessage, input, toError);
}

type RequestMessage = Extract<McpMessage, { readonly kind: "request" }>;

/**
 * Validates a request by the rules of its version, and returns it with its parsed parameters and the client's
 * capabilities. It is modern if its `_meta` or the header names a modern version. Throws an McpError for headers,
 * method or parameters that are wrong.
 */
export function checkRequest(message: RequestMessage, headers: Headers): McpRequest {
  const { id, meta } = message;
  const isModern = meta?.protocolVersion !== undefined || headers.get("mcp-protocol-version") === MODERN_VERSION;
  const { method, capabilities } = isModern ? checkModern(message, headers) : checkLegacy(message, headers);
  const params = parseInput(mcpParams[method] as InputSchema<unknown>, message.params, ({ loc, msg }) => {
    // The protocol defines this error as one of the HTTP request.
    const status = loc[0] === "inputResponses" ? 400 : 200;
    return new McpError("params", `Invalid params: ${loc.join(".")} ${msg}`, { status });
  });
  const { progressToken, trace = {} } = meta ?? {};
  const request = { id, method, params, isModern, capabilities, progressToken, trace } as McpRequest;
  if (isModern) checkName(request, headers);
  return request;
}

/** The result of the checks that depend on the version. */
interface CheckedMethod {
  readonly method: McpMethod;
  readonly capabilities: JsonObject;
}

/**
 * Returns the method, and the capabilities that the session has, or none. Throws an McpError for an unsupported version (status
 * 400), and for an unsupported method (status 200).
 */
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

/**
 * Returns the method and the capabilities of the request. Throws an McpError with status 400 for missing members, headers that
 * differ from the body, and an unsupported version, and with 404 for an unsupported method.
 */
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

/**
 * Throws an McpError with status 400 if the header is missing or names another tool or task than the parameters. Does nothing for
 * methods without either.
 */
function checkName(request: McpRequest, headers: Headers): void {
  const name = findTargetName(request);
  if (name !== undefined) checkHeader(headers, "Mcp-Name", name);
}

/** Returns the tool or the task that a request names. Returns undefined for other methods. */
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

/**
 * Decodes the value of a header that is sent as `=?base64?…?=`, and returns other values unchanged. Returns null for
 * base64 or UTF-8 that is not valid.
 */
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

/**
 * Throws an McpError with status 400 if a header is missing or differs from the value in the body. Proxies route by it.
 */
export function checkHeader(headers: Headers, name: string, body: string): void {
  const headerValue = headers.get(name);
  if (headerValue !== null && decodeHeaderValue(headerValue.trim()) === body) return;
  const finding = headerValue === null ? "is missing" : `says ${headerValue}`;
  throw new McpError("header", `Header mismatch: ${name} ${finding}, the body says ${body}`, { status: 400 });
}

/**
 * Creates the message of a result in the form of the request's version. A modern one is `complete` unless the result says
 * otherwise, and names the server in `_meta`. Pass further members of `_meta` as `extraMeta`: it replaces a `_meta` in `result`,
 * always for a modern version, and for others unless it is empty.
 */
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

/**
 * Creates the message of an error. Its id is `request_id`, that of the request, or null if the error itself has the id null
 * because it belongs to no request.
 */
export function toErrorMessage({ code, message, data, id }: McpError, request_id: Json = null): JsonObject {
  return {
    jsonrpc: "2.0",
    error: { code, message, ...(data === undefined ? {} : { data }) },
    id: id === null ? null : request_id,
  };
}

export const toErrorResponse = (error: McpError, request_id: Json = null): Response =>
  jsonResponse(toErrorMessage(error, request_id), {}, error.status);

/** Creates the error with status 400 that names the capabilities which the client lacks. */
export const missingCapabilityError = (required: JsonObject): McpError =>
  new McpError("capability", "Missing required client capability", {
    status: 400,
    data: { requiredCapabilities: required },
  });

/**
 * Returns true if the client can show a form, or with mode `url` a page, to its user. A client that names no mode can
 * show forms.
 */
export function canElicit(
  { capabilities: { elicitation = null } }: Pick<McpRequestHeader, "capabilities">,
  mode: "form" | "url" = "form",
): boolean {
  if (!isObject(elicitation)) return false;
  // A client without modes supports forms.
  return mode in elicitation || (mode === "form" && !("url" in elicitation));
}

/** Returns true if the client can poll tasks. */
export const canPoll = ({ capabilities: { extensions = null } }: McpRequestHeader): boolean =>
  isObject(extensions) && isObject(extensions[TASKS_EXTENSION] ?? null);
