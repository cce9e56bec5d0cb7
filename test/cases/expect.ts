/** Answers against what cases expect of them. */
import assert from "node:assert/strict";
import { assertCode } from "../support/error-codes.ts";
import { type Fields, isFields, list, UnsupportedCaseError } from "./case.ts";

/** A response with its body as text. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** The placeholders in angle brackets, with a test of their values. `owner` is the object that the value is in. */
export type Kinds = Readonly<Record<string, (value: unknown, owner: unknown) => boolean>>;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const uuid =
  (version?: string) =>
  (value: unknown): boolean => {
    const match = typeof value === "string" ? UUID.exec(value) : null;
    return match !== null && (version === undefined || match[1] === version);
  };

/** Returns the placeholders of every case file. */
export const createKinds = (base_url: string): Kinds => ({
  uuid: uuid(),
  "uuid v4": uuid("4"),
  "uuid v7": uuid("7"),
  base_url: (value) => value === base_url,
  id: (value, owner) => (isFields(owner) && owner["id"] !== undefined ? value === owner["id"] : uuid()(value)),
});

/** Returns the expected value, with the actual value at each placeholder that it fits. */
export function fillPlaceholders(expected: unknown, actual: unknown, kinds: Kinds, owner: unknown = actual): unknown {
  if (typeof expected === "string") return fillText(expected, actual, kinds, owner);
  if (Array.isArray(expected)) {
    return expected.map((element, i) =>
      fillPlaceholders(element, Array.isArray(actual) ? actual[i] : undefined, kinds),
    );
  }
  if (!isFields(expected)) return expected;
  const of = isFields(actual) ? actual : {};
  return Object.fromEntries(
    Object.entries(expected).map(([key, expectedMember]) => {
      const actualMember = Object.hasOwn(of, key) ? of[key] : undefined;
      return [key, fillPlaceholders(expectedMember, actualMember, kinds, isFields(actualMember) ? actualMember : of)];
    }),
  );
}

function fillText(expected: string, actual: unknown, kinds: Kinds, owner: unknown): unknown {
  if (expected === actual) return expected;
  const whole = /^<([^<>]+)>$/.exec(expected)?.[1];
  if (whole !== undefined) {
    const kind = Object.hasOwn(kinds, whole) ? kinds[whole] : undefined;
    if (!kind) throw new UnsupportedCaseError(`unknown placeholder ${expected}`);
    return kind(actual, owner) ? actual : expected;
  }
  const parts = expected.split(/<([^<>]+)>/);
  const names = parts.filter((_, i) => i % 2 === 1);
  if (names.length === 0 || typeof actual !== "string") return expected;
  for (const name of names)
    if (!Object.hasOwn(kinds, name)) throw new UnsupportedCaseError(`unknown placeholder <${name}>`);
  const literal = (part: string): string => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const pattern = parts.map((part, i) => (i % 2 === 1 ? "(.+?)" : literal(part))).join("");
  const match = new RegExp(`^${pattern}$`, "s").exec(actual);
  const fits = match && names.every((name, i) => kinds[name]?.(match[i + 1], owner));
  return fits ? actual : expected;
}

/** Parses the body as JSON. Throws an AssertionError if it is none. */
export function parseBody(answer: Answer): unknown {
  try {
    return JSON.parse(answer.text);
  } catch {
    throw new assert.AssertionError({ message: `the answer is no JSON: ${formatAnswer(answer)}` });
  }
}

/** Formats a response. */
export const formatAnswer = ({ status, text }: Answer): string => `${status} ${text.slice(0, 300)}`;

export function expectStatus(answer: Answer, status: unknown): void {
  if (!Number.isInteger(status)) throw new UnsupportedCaseError(`${JSON.stringify(status)} is no status`);
  assert.equal(answer.status, status, `expected status ${status}, got ${formatAnswer(answer)}`);
}

/** The members of cases that `expectAnswer` checks, in the form of `knows`. */
export const EXPECTED = "expect_status expect_response expect_detail_loc expect_detail_type";

/** Checks status, response and the first issue of a refusal. */
export function expectAnswer(answer: Answer, of: Fields, kinds: Kinds): void {
  expectStatus(answer, of["expect_status"]);
  if (of["expect_detail_loc"] !== undefined || of["expect_detail_type"] !== undefined) {
    const { detail } = parseBody(answer) as { readonly detail?: unknown };
    const issue: unknown = Array.isArray(detail) ? detail[0] : undefined;
    assert.ok(isFields(issue), `the answer lists no issue: ${formatAnswer(answer)}`);
    assert.deepEqual(Object.keys(issue).sort(), ["loc", "msg", "type"], "an issue has loc, msg and type");
    if (of["expect_detail_loc"] !== undefined) assert.deepEqual(issue["loc"], list(of, "expect_detail_loc"));
    if (of["expect_detail_type"] !== undefined) assert.equal(issue["type"], of["expect_detail_type"]);
  }
  if (of["expect_response"] !== undefined) expectResponse(answer, of["expect_response"], kinds);
}

/** A text is the body as it is; members named `header x` of an object are headers, all others the body's. */
function expectResponse(answer: Answer, expected: unknown, kinds: Kinds): void {
  if (typeof expected === "string") {
    assert.equal(answer.text, expected);
    return;
  }
  if (!isFields(expected)) {
    const body = parseBody(answer);
    assert.deepEqual(body, fillPlaceholders(expected, body, kinds));
    return;
  }
  const ofBody: [string, unknown][] = [];
  for (const [name, value] of Object.entries(expected)) {
    const header = /^header (.+)$/.exec(name)?.[1];
    if (header === undefined) ofBody.push([name, value]);
    else expectHeader(answer, header, value, kinds);
  }
  if (ofBody.length === 0) return;
  // The files are older than the code that every error has.
  const body = answer.status >= 400 ? assertCode(answer.text) : parseBody(answer);
  assert.deepEqual(body, fillPlaceholders(Object.fromEntries(ofBody), body, kinds));
}

/** A content type that is named without parameters may have some. */
function expectHeader({ headers }: Answer, name: string, expected: unknown, kinds: Kinds): void {
  const header = headers.get(name);
  const bare = name.toLowerCase() === "content-type" && typeof expected === "string" && !expected.includes(";");
  const actual = bare && header !== null ? (header.split(";")[0] as string).trim() : header;
  assert.equal(actual, fillPlaceholders(expected, actual, kinds), `header ${name}`);
}
