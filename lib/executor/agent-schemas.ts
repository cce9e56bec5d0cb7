/** The schemas that an agent declares, and the validation of values by them. */
import type { InputIssue } from "../errors.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { Schema } from "./agent-types.ts";

/** The Standard Schemas of an agent. */
export interface AgentSchemas {
  readonly state?: Schema;
  readonly context?: Schema;
  readonly input?: Schema;
  readonly interrupt?: Schema;
  readonly resume?: Schema;
  readonly custom?: Schema;
  /** False to store updates without validating them by `state`. */
  readonly validate_state?: boolean;
}

/** A reason why a value does not fit its schema. It holds nothing of the value but what the message quotes. */
export interface SchemaIssue {
  readonly path: readonly (string | number)[];
  readonly message: string;
  /** A code such as `invalid_type`, or `value_error` if the validator gives none. */
  readonly type: string;
}

/** The output of a schema, or the issues of a value that does not fit. */
export type SchemaResult =
  | { readonly value: unknown; readonly issues: null }
  | { readonly issues: readonly SchemaIssue[] };

type ValidatorResult = Awaited<ReturnType<Schema["~standard"]["validate"]>>;

/**
 * Validates a value and returns its output or its issues, as a promise only for an asynchronous schema. If the validator itself
 * fails, throws or rejects with an error that says which schema failed. `label` names the value.
 */
export function parseBySchema(schema: Schema, value: unknown, label: string): SchemaResult | Promise<SchemaResult> {
  const fail = (cause: unknown): never => {
    throw new Error(`The schema of the ${label} threw an error`, { cause });
  };
  let result: ValidatorResult | Promise<ValidatorResult>;
  try {
    result = schema["~standard"].validate(value);
  } catch (error) {
    return fail(error);
  }
  return result instanceof Promise ? result.then(toSchemaResult, fail) : toSchemaResult(result);
}

/** Converts the result of a validator, which may have a value beside its issues. */
function toSchemaResult(result: ValidatorResult): SchemaResult {
  if (result.issues) return { issues: result.issues.map(toSchemaIssue) };
  return { value: result.value, issues: null };
}

const ISSUE_TYPE = /^[a-z][a-z_]{0,39}$/i;

/** Copies path and message. Other members of an issue hold the value, except for the code of zod and arktype and the type of valibot. */
function toSchemaIssue(issue: NonNullable<ValidatorResult["issues"]>[number]): SchemaIssue {
  const { code, type } = issue as { readonly code?: unknown; readonly type?: unknown };
  const name = [code, type].find((text) => typeof text === "string" && ISSUE_TYPE.test(text));
  // The path of arktype is a list whose map() creates a list with its length.
  const path = Array.from(issue.path ?? [], (segment) => {
    const key = typeof segment === "object" ? segment.key : segment;
    return typeof key === "number" ? key : String(key);
  });
  return { path, message: String(issue.message), type: typeof name === "string" ? name : "value_error" };
}

/** Formats issues for errors that are stored: paths and types, because a message may quote the value. */
export const formatIssueTypes = (issues: readonly SchemaIssue[]): string =>
  issues.map(({ path, type }) => `${path.length > 0 ? path.join(".") : "the value"} (${type})`).join(", ");

/** Formats issues with their messages. */
export const formatIssues = (issues: readonly SchemaIssue[]): string =>
  issues.map(({ path, message }) => (path.length > 0 ? `${path.join(".")}: ${message}` : message)).join("; ");

/** Returns the issues of a value at `loc` in a request, as responses list them. */
export const toInputIssues = (loc: readonly (string | number)[], issues: readonly SchemaIssue[]): InputIssue[] =>
  issues.map(({ path, message, type }) => ({ loc: [...loc, ...path], msg: message, type }));

/** The error of a run whose state does not fit the schema of its agent. */
export class InvalidState extends Error {
  override readonly name = "InvalidState";
  constructor(issues: readonly SchemaIssue[]) {
    super(`The state does not fit the agent's schema: ${formatIssueTypes(issues)}`);
  }
}

/** The error of a run whose input, context or answer no longer fits the schema of its agent. */
export class InvalidInput extends Error {
  override readonly name = "InvalidInput";
  constructor(label: string, issues: readonly SchemaIssue[]) {
    super(`The ${label} does not fit the agent's schema: ${formatIssueTypes(issues)}`);
  }
}

/** Returns the values of a state that its schema describes: all but the messages. */
export function omitMessages({ messages: _messages, ...values }: JsonObject): JsonObject {
  return values;
}

/**
 * Validates a state after a change. Returns the issues of the members that have changed, and those of the whole state; an empty list if
 * nothing but messages has changed, or if the agent does not validate its updates.
 */
export async function findUpdateIssues(
  { state: schema, validate_state = true }: AgentSchemas,
  before: Json,
  after: JsonObject,
): Promise<readonly SchemaIssue[]> {
  const values = omitMessages(after);
  const previous = isObject(before) ? before : {};
  const isChanged = (name: string): boolean => previous[name] !== after[name];
  if (!schema || !validate_state || !Object.keys(values).some(isChanged)) return [];
  const { issues } = await parseBySchema(schema, values, "state");
  return (issues ?? []).filter(({ path: [name] }) => name === undefined || isChanged(String(name)));
}
