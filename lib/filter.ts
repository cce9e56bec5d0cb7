/** Filters on what a caller may see: conditions on the metadata of a row, as an authorization handler gives them. */
import type { Json, JsonObject } from "./json.ts";

export type Scalar = string | number | boolean | null;

/** `equals`: the member is this value. `contains`: the member is a list that holds all of these. */
export type Condition =
  | { readonly key: string; readonly equals: Scalar }
  | { readonly key: string; readonly contains: readonly Scalar[] };

/** All conditions must hold; none: everything is permitted. */
export type Filter = readonly Condition[];

/** How far a call reaches. What the filter does not permit is not there for it. Absent: everything. */
export interface Reach {
  readonly filter?: Filter;
}

/** The reach of a call that nobody bounds. */
export const EVERYTHING: Reach = {};

/** True where the filter lets a row with this metadata be seen. */
export function permits(filter: Filter | undefined, metadata: JsonObject): boolean {
  return (filter ?? []).every((condition) => {
    const member: Json | undefined = Object.hasOwn(metadata, condition.key) ? metadata[condition.key] : undefined;
    if ("equals" in condition) return member === condition.equals;
    return Array.isArray(member) && condition.contains.every((item) => member.includes(item));
  });
}

/** The scope of a call: everything of the deployment, or what its reach leaves of it. */
export const within = <Scope extends object>(scope: Scope, reach: Reach | undefined): Scope & Reach =>
  reach?.filter && reach.filter.length > 0 ? { ...scope, filter: reach.filter } : scope;
