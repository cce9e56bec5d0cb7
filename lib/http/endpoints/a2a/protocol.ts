/** The messages of A2A: what a request must have in both families of the protocol, and how errors are answered. */
import { type A2aVersion, VERSIONS } from "../../../a2a/wire.ts";
import { type InputIssue, ServiceError } from "../../../errors.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import { isFiniteJson } from "../../../validation.ts";
import { readJson } from "../../parse.ts";
import type { RequestContext } from "../../route.ts";
import { type Reads, readAs, tryRead } from "../fields.ts";
import { type A2aMethod, type RpcId, type RpcParams, rpcCall, rpcHead, rpcParams, UNKNOWN_PART } from "./requests.ts";

/** The methods of 0.3, by their names since 1.0. */
const LEGACY = {
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

const isLegacy = (method: string): method is keyof typeof LEGACY => Object.hasOwn(LEGACY, method);
const isKnown = (method: string): method is A2aMethod => Object.hasOwn(rpcParams["1.0"], method);

/** Codes with the reason that answers since 1.0 name. */
const CODES = {
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

/** An error answer. */
export class RpcError extends Error {
  readonly kind: keyof typeof CODES;

  constructor(kind: keyof typeof CODES, message: string) {
    super(message);
    this.kind = kind;
  }

  /** 400 for a body that is no request. */
  get status(): number {
    return this.kind === "parse" || this.kind === "request" ? 400 : 200;
  }
}

/** What an answer needs to know of its request. */
export interface RequestHead {
  readonly id: RpcId | null;
  /** The family of the method's name. */
  readonly version: A2aVersion;
}

/** A request that passed the checks, with the parameters of its method. */
export type RpcRequest<Method extends A2aMethod = A2aMethod> = {
  readonly [Name in Method]: RequestHead & { readonly method: Name; readonly params: RpcParams[Name] };
}[Method];

/** A request for one agent. */
export interface Called<Method extends A2aMethod = A2aMethod> {
  readonly context: RequestContext;
  readonly request: RpcRequest<Method>;
  readonly assistant_id: string;
  readonly graph_id: string;
}

/** Answers to what is no request. */
export const UNKNOWN: RequestHead = { id: null, version: "1.0" };

/** The body. Errors: another type of content, no JSON. */
export function parseBody(headers: Headers, bytes: Uint8Array): unknown {
  const type = headers.get("content-type")?.split(";")[0]?.trim().toLowerCase();
  if (type !== "application/json") throw new RpcError("content", "The content type must be application/json");
  try {
    return readJson(bytes);
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    throw new RpcError("parse", "Invalid JSON payload");
  }
}

/** Members whose own members are the client's. */
const FREE: ReadonlySet<string> = new Set(["data", "metadata"]);
/** The parts of a message are this deep in the parameters. */
const DEEPEST = 3;

/** Requests of 1.0 are ProtoJSON: a field may have its name in the protocol's definition too, such as `context_id`. */
function jsonNames(value: Json, depth = 0): Json {
  if (depth > DEEPEST) return value;
  if (Array.isArray(value)) return value.map((one) => jsonNames(one, depth + 1));
  if (!isObject(value)) return value;
  const members = Object.entries(value).flatMap(([name, member]): [string, Json][] => {
    const shown = name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
    if (shown !== name && Object.hasOwn(value, shown)) return [];
    return [[shown, FREE.has(name) ? member : jsonNames(member, depth + 1)]];
  });
  return Object.fromEntries(members);
}

/** The head of a request that may be malformed. */
export function headOf(message: unknown): RequestHead {
  const { id = null, method = "" } = tryRead(rpcHead, message) ?? {};
  return { id, version: isLegacy(method) ? "0.3" : "1.0" };
}

/** Errors: one for what is no request, an unknown method or version, parameters that do not fit. */
export function readRequest(message: unknown, headers: Headers): RpcRequest {
  const refuse = (what = "not a JSON-RPC 2.0 request with an id"): RpcError =>
    new RpcError("request", `Request payload validation error: ${what}`);
  if (!isFiniteJson(message)) throw refuse();
  const {
    id,
    method: name,
    params,
  } = readAs(rpcCall, message, ({ loc }) => refuse(loc[0] === "method" ? "no method" : undefined));
  checkVersion(headers);
  const version = isLegacy(name) ? "0.3" : "1.0";
  const method = isLegacy(name) ? LEGACY[name] : name;
  if (!isKnown(method)) throw new RpcError("method", "Invalid method.");
  const sent = version === "1.0" ? jsonNames(params) : params;
  const read = readAs(rpcParams[version][method] as Reads<unknown>, sent, wrongParams, "params");
  return { id, version, method, params: read } as RpcRequest;
}

/** The error of a finding in the parameters. Texts that are no predicate name their place themselves. */
export function wrongParams({ loc, msg }: InputIssue): RpcError {
  const isPredicate = /^(?:must|is)\b/.test(msg);
  const kind = msg === UNKNOWN_PART ? "content" : "params";
  return new RpcError(kind, isPredicate ? `${loc.join(".")}: ${msg}` : msg);
}

/** The version that the client asks for; null where it names none. Errors: one that is not served. */
export function checkVersion(headers: Headers): A2aVersion | null {
  const sent = headers.get("a2a-version")?.trim() ?? "";
  if (sent === "") return null;
  const version = VERSIONS.find((one) => sent === one || sent.startsWith(`${one}.`));
  if (version) return version;
  throw new RpcError("version", `The A2A version ${sent} is not supported: ${VERSIONS.join(", ")}`);
}

export const resultMessage = ({ id }: RequestHead, result: Json): JsonObject => ({ jsonrpc: "2.0", id, result });

export function errorMessage({ id, version }: RequestHead, { kind, message }: RpcError): JsonObject {
  const [code, reason]: readonly [number, string?] = CODES[kind];
  const info = { "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason, domain: "a2a-protocol.org" };
  const data: JsonObject = reason !== undefined && version === "1.0" ? { data: [info as JsonObject] } : {};
  return { jsonrpc: "2.0", id, error: { code, message, ...data } };
}

export const noTask = (id: string | null): RpcError =>
  new RpcError("task", `Task not found: ${id?.slice(0, 100) ?? null}`);
