/** Sessions of clients with `initialize`. The id contains the client's capabilities, so nothing is stored and every process can read it. */
import type { Principal } from "../../../auth/principal.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import type { Run } from "../../../runs/mod.ts";
import { tryParseInput } from "../fields.ts";
import { sessionToken } from "./requests.ts";

export const SESSION_HEADER = "mcp-session-id";

/** The session of a request. Its id is not signed: a forged one allows no more than `initialize` does. */
export interface McpSession {
  readonly nonce: string;
  readonly capabilities: JsonObject;
}

const MAX_SESSION_ID_CHARS = 500;

const sortKeys = (_key: string, value: unknown): unknown =>
  isObject(value) ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))) : value;

export const encodeUrlSafe = (text: string): string =>
  btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

/** Decodes a token; an empty text if it is not valid. */
export function decodeUrlSafe(token: string): string {
  try {
    return atob(token.replaceAll("-", "+").replaceAll("_", "/"));
  } catch {
    return "";
  }
}

/**
 * Returns a digest of the caller and the values. What is stored with it belongs to this caller. The order of members does not
 * matter.
 */
export async function createCallerDigest(
  { user, user_id, api_key }: Principal,
  ...values: readonly Json[]
): Promise<string> {
  const caller = user ? user.identity : (user_id ?? api_key);
  const text = JSON.stringify([caller, ...values], sortKeys);
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return encodeUrlSafe(String.fromCharCode(...new Uint8Array(hash)));
}

/** Encodes the id of a new session. `nonce` is a random UUID. */
export const encodeSessionId = (nonce: string, capabilities: JsonObject): string =>
  encodeUrlSafe(JSON.stringify([nonce, capabilities]));

/**
 * Reads the nonce and the capabilities of the client from the session id of a request. Returns null without one, and
 * for an id of another server.
 */
export function readSession(headers: Headers): McpSession | null {
  const id = headers.get(SESSION_HEADER) ?? "";
  const text = id.length > MAX_SESSION_ID_CHARS ? "" : decodeUrlSafe(id);
  try {
    const [nonce, capabilities] = tryParseInput(sessionToken, JSON.parse(text)) ?? [];
    return nonce === undefined || capabilities === undefined ? null : { nonce, capabilities };
  } catch {
    return null;
  }
}

const createSessionDigest = (principal: Principal, { nonce }: McpSession): Promise<string> =>
  createCallerDigest(principal, nonce);

/** Names a request of a session in the metadata of its run and thread. The nonce is needed to compute it. */
export async function createRequestKey(
  principal: Principal,
  session: McpSession,
  id: string | number,
): Promise<string> {
  return `${await createSessionDigest(principal, session)}.${await createCallerDigest(principal, session.nonce, id)}`;
}

/** Returns true if a run was started by a request of this session and this caller. */
export async function belongsToSession({ metadata }: Run, principal: Principal, session: McpSession): Promise<boolean> {
  const { mcp_request } = metadata;
  return typeof mcp_request === "string" && mcp_request.startsWith(`${await createSessionDigest(principal, session)}.`);
}
