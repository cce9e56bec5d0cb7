import assert from "node:assert/strict";
import { REASONS, STATUS } from "../../lib/errors.ts";
import { isObject, type JsonObject } from "../../lib/json.ts";

const KNOWN: ReadonlySet<unknown> = new Set([...Object.keys(STATUS), ...Object.keys(REASONS)]);

/** An error of JSON-RPC has the number of its own protocols. */
const isRpc = ({ jsonrpc, error = null }: JsonObject): boolean =>
  jsonrpc === "2.0" && isObject(error) && Number.isInteger(error.code);

/** The body of an error has a code of the list. Returns its other members. The report of `/ready` is no error. */
export function assertCode(text: string): JsonObject {
  const body: unknown = JSON.parse(text);
  assert.ok(isObject(body), text);
  const { code, ...otherFields } = body;
  assert.ok(body.ok === false || isRpc(body) || KNOWN.has(code), `no known code in ${text}`);
  return otherFields;
}
