import assert from "node:assert/strict";
import { REASONS, STATUS } from "../../lib/errors.ts";
import { isObject, type JsonObject } from "../../lib/json.ts";

const KNOWN: ReadonlySet<unknown> = new Set([...Object.keys(STATUS), ...Object.keys(REASONS)]);

/** The body of an error has a code of the list. Returns its other members. The report of `/ready` is no error. */
export function assertCode(text: string): JsonObject {
  const body: unknown = JSON.parse(text);
  assert.ok(isObject(body), text);
  const { code, ...rest } = body;
  assert.ok(body.ok === false || KNOWN.has(code), `no known code in ${text}`);
  return rest;
}
