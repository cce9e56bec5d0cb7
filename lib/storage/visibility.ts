/** The visibility filter of a caller: conditions on the metadata of rows, as an authorization handler returns them. */
import { ServiceError } from "../errors.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";

/** A JSON value that a filter can compare. */
export type Scalar = string | number | boolean | null;

/** `equals`: the member is this value. `contains`: the member is a list that holds all of these. */
export type Condition =
  | { readonly key: string; readonly equals: Scalar }
  | { readonly key: string; readonly contains: readonly Scalar[] };

/** A list of conditions that must all hold. An empty list permits everything. */
export type Filter = readonly Condition[];

/** The rows that a call can see: those that the filter permits. Without a filter, all. */
export interface Visibility {
  readonly filter?: Filter;
}

/** The visibility without a filter. */
export const NO_FILTER: Visibility = {};

/** Returns the filter of the rows that both filters permit, as a member `filter`, which is absent if neither has conditions. */
function intersectFilters(first: Visibility, second: Visibility): Visibility {
  const filter = [...(first.filter ?? []), ...(second.filter ?? [])];
  return filter.length > 0 ? { filter } : NO_FILTER;
}

/**
 * Returns true if the filter permits a row with this metadata, always without a filter. Values are compared as they are;
 * `contains` needs a list with all of its items.
 */
export function matchesFilter(filter: Filter | undefined, metadata: JsonObject): boolean {
  return (filter ?? []).every((condition) => {
    const member: Json | undefined = Object.hasOwn(metadata, condition.key) ? metadata[condition.key] : undefined;
    if ("equals" in condition) return member === condition.equals;
    return Array.isArray(member) && condition.contains.every((item) => member.includes(item));
  });
}

/** Throws `forbidden` if the filter would exclude the row after a change to this metadata, because users cannot give rows away. */
export function requireStillVisible(visibility: Visibility | undefined, metadata: JsonObject): void {
  throwIfViolated(visibility?.filter?.find((condition) => !matchesFilter([condition], metadata)));
}

/**
 * Throws `forbidden` if the metadata of a new row has a key of the filter with another value. Metadata without the key is allowed,
 * because the row then belongs to no other user.
 */
export function requireOwnMetadata(visibility: Visibility | undefined, metadata: JsonObject): void {
  throwIfViolated(
    visibility?.filter?.find(
      (condition) => Object.hasOwn(metadata, condition.key) && !matchesFilter([condition], metadata),
    ),
  );
}

/** Throws `forbidden` that names the member. Does nothing for undefined. */
function throwIfViolated(violated: Condition | undefined): void {
  if (violated === undefined) return;
  throw new ServiceError("forbidden", `metadata.${violated.key}: with this value you could not see it`);
}

const isScalar = (value: unknown): value is Scalar =>
  value === null || typeof value === "string" || typeof value === "boolean" || Number.isFinite(value);

/** Returns false for lists, maps and dates, which would read as an empty filter. */
const isPlainObject = (value: unknown): value is JsonObject =>
  isObject(value) && [null, Object.prototype].includes(Object.getPrototypeOf(value));

/**
 * Returns the conditions on one key: that of a scalar, or those of `$eq` and `$contains`. Returns null if a part of `test` is
 * not supported or it has no operators.
 */
function parseConditions(key: string, test: unknown): readonly Condition[] | null {
  if (isScalar(test)) return [{ key, equals: test }];
  const operators = isPlainObject(test) ? Object.entries(test) : [];
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
 * Parses the filter that a handler returned: `{key: value}`, `{key: {$eq: value}}` and `{key: {$contains: value or list}}`, all of
 * which must hold; `{}` is no filter. Returns null for anything else, because an unknown form must not permit everything.
 */
export function readFilter(input: unknown): Filter | null {
  if (!isPlainObject(input)) return null;
  const conditions: Condition[] = [];
  for (const [key, test] of Object.entries(input)) {
    const keyConditions = parseConditions(key, test);
    if (!keyConditions) return null;
    conditions.push(...keyConditions);
  }
  return conditions;
}

/** Returns an object with the values that the filter requires by equality. Other conditions are ignored. */
export function toOwnerMetadata(filter: Filter): JsonObject {
  return Object.fromEntries(
    filter.flatMap((condition) => ("equals" in condition ? [[condition.key, condition.equals]] : [])),
  );
}

/** Returns the scope with the filter of the visibility, if it has one. */
export const withVisibility = <Scope extends object>(
  scope: Scope,
  visibility: Visibility | undefined,
): Scope & Visibility =>
  visibility?.filter && visibility.filter.length > 0 ? { ...scope, filter: visibility.filter } : scope;

/** Returns the scope, limited to rows that another visibility permits, too. */
export const intersectScope = <Narrow extends Visibility>(scope: Narrow, visibility: Visibility | undefined): Narrow =>
  visibility?.filter ? { ...scope, ...intersectFilters(scope, visibility) } : scope;
