/** Filters on what a caller may see: conditions on the metadata of a row, as an authorization handler gives them. */
import { ServiceError } from "../errors.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";

/** A JSON value that a filter can compare. */
export type Scalar = string | number | boolean | null;

/** `equals`: the member is this value. `contains`: the member is a list that holds all of these. */
export type Condition =
  | { readonly key: string; readonly equals: Scalar }
  | { readonly key: string; readonly contains: readonly Scalar[] };

/** All conditions must hold; none: everything is permitted. */
export type Filter = readonly Condition[];

/** The rows that a call sees: those that the filter permits. Absent: all. */
export interface Visibility {
  readonly filter?: Filter;
}

/** The visibility of a call without a filter. */
export const NO_FILTER: Visibility = {};

/** What both of them permit. */
function intersectFilters(first: Visibility, second: Visibility): Visibility {
  const filter = [...(first.filter ?? []), ...(second.filter ?? [])];
  return filter.length > 0 ? { filter } : NO_FILTER;
}

/** True where the filter lets a row with this metadata be seen. */
export function matchesFilter(filter: Filter | undefined, metadata: JsonObject): boolean {
  return (filter ?? []).every((condition) => {
    const member: Json | undefined = Object.hasOwn(metadata, condition.key) ? metadata[condition.key] : undefined;
    if ("equals" in condition) return member === condition.equals;
    return Array.isArray(member) && condition.contains.every((item) => member.includes(item));
  });
}

/** Refuses a change after which the caller would not see the row: users cannot give rows away. Errors: forbidden. */
export function requireStillVisible(visibility: Visibility | undefined, metadata: JsonObject): void {
  throwIfViolated(visibility?.filter?.find((condition) => !matchesFilter([condition], metadata)));
}

/** The same for a new row. Metadata without the filter's keys is allowed: the row then belongs to no other user. */
export function requireOwnMetadata(visibility: Visibility | undefined, metadata: JsonObject): void {
  throwIfViolated(
    visibility?.filter?.find(
      (condition) => Object.hasOwn(metadata, condition.key) && !matchesFilter([condition], metadata),
    ),
  );
}

function throwIfViolated(violated: Condition | undefined): void {
  if (violated === undefined) return;
  throw new ServiceError("forbidden", `metadata.${violated.key}: with this value you could not see it`);
}

const isScalar = (value: unknown): value is Scalar =>
  value === null || typeof value === "string" || typeof value === "boolean" || Number.isFinite(value);

/** False for what would look empty without being so: lists, maps, dates. */
const isPlainObject = (value: unknown): value is JsonObject =>
  isObject(value) && [null, Object.prototype].includes(Object.getPrototypeOf(value));

function parseConditions(key: string, wanted: unknown): readonly Condition[] | null {
  if (isScalar(wanted)) return [{ key, equals: wanted }];
  const operators = isPlainObject(wanted) ? Object.entries(wanted) : [];
  if (operators.length === 0) return null;
  const conditions: Condition[] = [];
  for (const [operator, operand] of operators) {
    const list: readonly unknown[] = Array.isArray(operand) ? operand : [operand];
    if (operator === "$eq" && isScalar(operand)) conditions.push({ key, equals: operand });
    else if (operator === "$contains" && list.every(isScalar)) conditions.push({ key, contains: list });
    else return null;
  }
  return conditions;
}

/**
 * The filter that a handler has given: `{key: value}`, `{key: {$eq: value}}` and `{key: {$contains: value or list}}`, all of them
 * required; `{}` is none. Null for anything else: what is not understood must not let everything through.
 */
export function readFilter(input: unknown): Filter | null {
  if (!isPlainObject(input)) return null;
  const conditions: Condition[] = [];
  for (const [key, wanted] of Object.entries(input)) {
    const found = parseConditions(key, wanted);
    if (!found) return null;
    conditions.push(...found);
  }
  return conditions;
}

/** Metadata that the filter's equalities permit. */
export function toOwnerMetadata(filter: Filter): JsonObject {
  return Object.fromEntries(filter.flatMap((one) => ("equals" in one ? [[one.key, one.equals]] : [])));
}

/** The scope of a call: everything of the deployment, or what its filter permits. */
export const withVisibility = <Scope extends object>(
  scope: Scope,
  visibility: Visibility | undefined,
): Scope & Visibility =>
  visibility?.filter && visibility.filter.length > 0 ? { ...scope, filter: visibility.filter } : scope;

/** The scope of a call, limited to rows that another scope shows too. */
export const intersectScope = <Narrow extends Visibility>(scope: Narrow, other: Visibility | undefined): Narrow =>
  other?.filter ? { ...scope, ...intersectFilters(scope, other) } : scope;
