/** What the endpoints of agents' protocols share to read requests: fields that may be wrong, and the first finding as an error. */
import * as v from "valibot";
import type { InputIssue } from "../../errors.ts";
import { isObject, type Json } from "../../json.ts";
import { toInputIssue } from "../../validation.ts";

/** A schema whose values have the type. */
export type InputSchema<Output> = v.GenericSchema<unknown, Output>;

/** A field that counts as absent where its value does not fit. */
export const lenient = <Output>(schema: InputSchema<Output>): InputSchema<Output | undefined> =>
  v.fallback(v.optional(schema), undefined);

/** A field with a value for requests that leave it out. */
export const withDefault = <Output>(schema: InputSchema<Output>, value: Output): InputSchema<Output> =>
  v.optional(schema as v.GenericSchema<unknown>, value) as InputSchema<Output>;

/** A list of anything, which is passed on as it came: its items are not visited. */
export const anyList: InputSchema<Json[]> = v.pipe(
  v.custom<Json[]>(Array.isArray, "must be a list"),
  v.metadata({ type: "array" }),
);

/** Reads an object of a request. Throws what `refuse` makes of the first finding. `name`: the place of a value that is no object. */
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

/** What a member that is missing must be; undefined for other issues. */
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

/** The output of a schema; undefined for a value that does not fit. */
export function tryParseInput<Output>(schema: InputSchema<Output>, input: unknown): Output | undefined {
  const { success, output } = v.safeParse(schema, input, { abortEarly: true });
  return success ? output : undefined;
}

/** The issue at the most exact place: for a union, that of an option whose members do not fit. */
function findInnermostIssue(issue: v.BaseIssue<unknown>): v.BaseIssue<unknown> {
  const inner = issue.issues?.find(({ path }) => path !== undefined);
  if (!inner?.path) return issue;
  const path = [...(issue.path ?? []), ...inner.path] as typeof inner.path;
  return findInnermostIssue({ ...inner, path });
}
