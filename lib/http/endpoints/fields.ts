/** Schemas and parsing of requests, shared by the endpoints: optional members, and the first finding as an error. */
import * as v from "valibot";
import type { InputIssue } from "../../errors.ts";
import { isObject, type Json } from "../../json.ts";
import { toInputIssue } from "../../validation.ts";

/** A schema whose output has the type. */
export type InputSchema<Output> = v.GenericSchema<unknown, Output>;

/** Makes a member optional, and ignores an invalid value. */
export const lenient = <Output>(schema: InputSchema<Output>): InputSchema<Output | undefined> =>
  v.fallback(v.optional(schema), undefined);

/** Makes a member optional with a default. */
export const withDefault = <Output>(schema: InputSchema<Output>, value: Output): InputSchema<Output> =>
  v.optional(schema as v.GenericSchema<unknown>, value) as InputSchema<Output>;

/** A list of anything. Its items are not validated. */
export const anyList: InputSchema<Json[]> = v.pipe(
  v.custom<Json[]>(Array.isArray, "must be a list"),
  v.metadata({ type: "array" }),
);

/**
 * Parses an object of a request; unknown members are dropped as the schema says. Throws the error that `toError` creates from the
 * first finding. `name` is the location of a value that is no object.
 */
export function parseInput<Output>(
  schema: InputSchema<Output>,
  input: unknown,
  toError: (finding: InputIssue) => Error,
  name = "body",
): Output {
  if (!isObject(input)) throw toError({ loc: [name], msg: "must be an object", type: "value_error" });
  const result = v.safeParse(schema, input, { abortEarly: true });
  if (result.success) return result.output;
  const issue = findInnermostIssue(result.issues[0]);
  throw toError({
    ...toInputIssue(issue),
    msg: describeMissingMember(schema, issue) ?? issue.message,
    type: "value_error",
  });
}

/**
 * Returns the text for a missing member: that of its schema for a member at the top, else `is required`. Returns
 * undefined for other issues.
 */
function describeMissingMember<Output>(
  schema: InputSchema<Output>,
  { path }: v.BaseIssue<unknown>,
): string | undefined {
  const last = path?.at(-1) as { readonly key?: unknown; readonly origin?: string } | undefined;
  if (last?.origin !== "key") return undefined;
  const { entries = {} } = schema as { readonly entries?: Readonly<Record<string, { readonly message?: unknown }>> };
  const memberMessage = path?.length === 1 ? entries[String(last.key)]?.message : undefined;
  return typeof memberMessage === "string" ? memberMessage : "is required";
}

/** Returns the output of a schema; undefined for a value that does not match. */
export function tryParseInput<Output>(schema: InputSchema<Output>, input: unknown): Output | undefined {
  const { success, output } = v.safeParse(schema, input, { abortEarly: true });
  return success ? output : undefined;
}

/**
 * Returns the issue inside a union whose option has a member that does not match, at any depth, with its whole path.
 * Returns the issue itself if there is none.
 */
function findInnermostIssue(issue: v.BaseIssue<unknown>): v.BaseIssue<unknown> {
  const inner = issue.issues?.find(({ path }) => path !== undefined);
  if (!inner?.path) return issue;
  const path = [...(issue.path ?? []), ...inner.path] as typeof inner.path;
  return findInnermostIssue({ ...inner, path });
}
