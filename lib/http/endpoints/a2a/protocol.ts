/** The JSON-RPC messages of A2A: validation of requests in both versions, results and errors. */
import { A2A_VERSIONS, type A2aVersion } from "../../../a2a/json.ts";
import { type InputIssue, ServiceError } from "../../../errors.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import { isFiniteJson } from "../../../validation.ts";
import { readJson } from "../../parse.ts";
import type { RequestContext } from "../../route.ts";
import { type InputSchema, parseInput, tryParseInput } from "../fields.ts";
import {
  type A2aMethod,
  type A2aParams,
  type A2aRequestId,
  a2aParams,
  requestHeader,
  rpcRequest,
  UNKNOWN_PART_TEXT,
} from "./requests.ts";

/** The methods of 0.3 and their names since 1.0. */
const LEGACY_METHODS = {
  "message/send": "SendMessage",
  "message/stream": "SendStreamingMessage",
  "tasks/get": "GetTask",
  "tasks/cancel": "CancelTask",
  "tasks/resubscribe": "SubscribeToTask",
  "agent/getAuthenticatedExtendedCard": "GetExtendedAgentCard",
  "tasks/pushNotificationConfig/set": "CreateTaskPushNotificationConfig",
  "tasks/pushNotificationConfig/get": "GetTaskPushNotificationConfig",
  "tasks/pushNotificationConfig/list": "ListTaskPushNotificationConfigs",
  "tasks/pushNotificationConfig/delete": "DeleteTaskPushNotificationConfig",
} as const;

const isLegacyMethod = (method: string): method is keyof typeof LEGACY_METHODS => Object.hasOwn(LEGACY_METHODS, method);
const isSupportedMethod = (method: string): method is A2aMethod => Object.hasOwn(a2aParams["1.0"], method);

/** The JSON-RPC codes of errors, and their reasons since 1.0. */
const ERROR_CODES = {
  parse: [-32700],
  request: [-32600],
  method: [-32601],
  params: [-32602],
  internal: [-32603],
  task: [-32001, "TASK_NOT_FOUND"],
  cancelable: [-32002, "TASK_NOT_CANCELABLE"],
  push: [-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED"],
  unsupported: [-32004, "UNSUPPORTED_OPERATION"],
  content: [-32005, "CONTENT_TYPE_NOT_SUPPORTED"],
  card: [-32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED"],
  version: [-32009, "VERSION_NOT_SUPPORTED"],
} as const;

export class A2aError extends Error {
  readonly kind: keyof typeof ERROR_CODES;

  constructor(kind: keyof typeof ERROR_CODES, message: string) {
    super(message);
    this.kind = kind;
  }

  /** Returns 400 for a body that is no request, else 200. */
  get status(): number {
    return this.kind === "parse" || this.kind === "request" ? 400 : 200;
  }
}

/** The members of a request that its response needs. */
export interface A2aRequestHeader {
  readonly id: A2aRequestId | null;
  /** The version to which the method's name belongs. */
  readonly version: A2aVersion;
}

/** A validated request with the parameters of its method. */
export type A2aRequest<Method extends A2aMethod = A2aMethod> = {
  readonly [Name in Method]: A2aRequestHeader & { readonly method: Name; readonly params: A2aParams[Name] };
}[Method];

/** A request to one agent, with its HTTP request. */
export interface A2aRequestContext<Method extends A2aMethod = A2aMethod> {
  readonly context: RequestContext;
  readonly request: A2aRequest<Method>;
  readonly assistant_id: string;
  readonly graph_id: string;
}

/** The header for responses to a body that is no request. */
export const UNKNOWN_HEADER: A2aRequestHeader = { id: null, version: "1.0" };

/** Parses the body. Throws an A2aError for another content type and for invalid JSON. */
export function parseBody(headers: Headers, bytes: Uint8Array): unknown {
  const type = headers.get("content-type")?.split(";")[0]?.trim().toLowerCase();
  if (type !== "application/json") throw new A2aError("content", "The content type must be application/json");
  try {
    return readJson(bytes);
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    throw new A2aError("parse", "Invalid JSON payload");
  }
}

/** Members whose own members are defined by the client. */
const CLIENT_DEFINED_MEMBERS: ReadonlySet<string> = new Set(["data", "metadata"]);
/** The depth of message parts in the parameters. */
const MAX_DEPTH = 3;

/**
 * Returns a copy with the names of members in camel case, at any depth but in members that clients define. ProtoJSON
 * also allows the names of the protocol's definition, such as `context_id`; of a member in both notations the camel
 * case one stays.
 */
function toJsonNames(value: Json, depth = 0): Json {
  if (depth > MAX_DEPTH) return value;
  if (Array.isArray(value)) return value.map((entry) => toJsonNames(entry, depth + 1));
  if (!isObject(value)) return value;
  const members = Object.entries(value).flatMap(([name, member]): [string, Json][] => {
    const jsonName = name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
    if (jsonName !== name && Object.hasOwn(value, jsonName)) return [];
    return [[jsonName, CLIENT_DEFINED_MEMBERS.has(name) ? member : toJsonNames(member, depth + 1)]];
  });
  return Object.fromEntries(members);
}

/**
 * Reads id and version of a request that can be malformed. The id is null by default, and the version is 1.0.
 */
export function readRequestHeader(message: unknown): A2aRequestHeader {
  const { id = null, method = "" } = tryParseInput(requestHeader, message) ?? {};
  return { id, version: isLegacyMethod(method) ? "0.3" : "1.0" };
}

/**
 * Validates a request and its parameters. The name of the method decides the version, not the header. A method of 0.3
 * gets the name of 1.0. Throws an A2aError for a malformed request, an unknown method, an unsupported version in the
 * header, and invalid parameters.
 */
export function readRequest(message: unknown, headers: Headers): A2aRequest {
  const toError = (finding = "not a JSON-RPC 2.0 request with an id"): A2aError =>
    new A2aError("request", `Request payload validation error: ${finding}`);
  if (!isFiniteJson(message)) throw toError();
  const {
    id,
    method: name,
    params,
  } = parseInput(rpcRequest, message, ({ loc }) => toError(loc[0] === "method" ? "no method" : undefined));
  readVersion(headers);
  const version = isLegacyMethod(name) ? "0.3" : "1.0";
  const method = isLegacyMethod(name) ? LEGACY_METHODS[name] : name;
  if (!isSupportedMethod(method)) throw new A2aError("method", "Invalid method.");
  const paramsJson = version === "1.0" ? toJsonNames(params) : params;
  const parsedParams = parseInput(
    a2aParams[version][method] as InputSchema<unknown>,
    paramsJson,
    invalidParamsError,
    "params",
  );
  return { id, version, method, params: parsedParams } as A2aRequest;
}

/**
 * Creates the error of a finding in the parameters, or in the content for an unknown part. Prefixes its location unless
 * the text is a sentence of its own.
 */
export function invalidParamsError({ loc, msg }: InputIssue): A2aError {
  const isPredicate = /^(?:must|is)\b/.test(msg);
  const kind = msg === UNKNOWN_PART_TEXT ? "content" : "params";
  return new A2aError(kind, isPredicate ? `${loc.join(".")}: ${msg}` : msg);
}

/**
 * Reads the version that the client requests; `1.0.3` counts as 1.0. Returns null without the header. Throws an
 * A2aError for an unsupported version.
 */
export function readVersion(headers: Headers): A2aVersion | null {
  const headerValue = headers.get("a2a-version")?.trim() ?? "";
  if (headerValue === "") return null;
  const version = A2A_VERSIONS.find(
    (supported) => headerValue === supported || headerValue.startsWith(`${supported}.`),
  );
  if (version) return version;
  throw new A2aError("version", `The A2A version ${headerValue} is not supported: ${A2A_VERSIONS.join(", ")}`);
}

export const toResultMessage = ({ id }: A2aRequestHeader, result: Json): JsonObject => ({ jsonrpc: "2.0", id, result });

/** Returns an error as a JSON-RPC message. Its reason is included only in version 1.0. */
export function toErrorMessage({ id, version }: A2aRequestHeader, { kind, message }: A2aError): JsonObject {
  const [code, reason]: readonly [number, string?] = ERROR_CODES[kind];
  const info = { "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason, domain: "a2a-protocol.org" };
  const data: JsonObject = reason !== undefined && version === "1.0" ? { data: [info as JsonObject] } : {};
  return { jsonrpc: "2.0", id, error: { code, message, ...data } };
}

export const taskNotFoundError = (id: string | null): A2aError =>
  new A2aError("task", `Task not found: ${id?.slice(0, 100) ?? null}`);
