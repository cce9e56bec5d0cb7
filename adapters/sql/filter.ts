/** Authorization filters as SQL: like `permits`, on the stored metadata, with one parameter. */
import type { Expression } from "kysely";
import type { ListPosition } from "../../lib/storage/cursor.ts";
import type { Filter } from "../../lib/storage/visibility.ts";
import { passes, rowByRow } from "./dialect.ts";
import { toFilterArgument } from "./filter-argument.ts";
import type { Operand } from "./parameters.ts";
import { type Args, prepared, type Statement } from "./statement.ts";
import { type RawBuilder, sql } from "./template.ts";

/** A filter as a parameter, or its placeholder. Null: no filter. */
export type Bound = Operand<string> | null;

/** Returns the condition that the filter permits rows with this metadata; true without a filter. */
export const isPermitted = (metadata: Expression<unknown>, filter: Bound): RawBuilder<boolean> =>
  filter === null ? sql<boolean>`true` : passes(metadata, filter);

/**
 * Returns the condition that the filter permits the thread of rows of this table, also a hidden thread; true without a filter. The
 * rows have the columns `deployment` and `thread_id`.
 */
export function isThreadPermitted(rows: string, filter: Bound): RawBuilder<boolean> {
  if (filter === null) return sql<boolean>`true`;
  const [deployment, thread_id] = [sql.ref(`${rows}.deployment`), sql.ref(`${rows}.thread_id`)];
  return sql<boolean>`exists (select 1 from threads permitting where permitting.deployment = ${deployment}
    and permitting.thread_id = ${thread_id} and ${passes(sql`permitting.metadata`, filter)})`;
}

/** Returns the condition that the run exists in the deployment and the filter permits its thread; true without a filter. */
export const isRunPermitted = (
  run_id: Expression<unknown>,
  deployment: Operand<string>,
  filter: Bound,
): RawBuilder<boolean> =>
  filter === null
    ? sql<boolean>`true`
    : sql<boolean>`exists (select 1 from runs of_run where of_run.run_id = ${run_id}
    and of_run.deployment = ${deployment} and ${isThreadPermitted("of_run", filter)} ${rowByRow})`;

/** Returns a further condition: `isPermitted`, or nothing without a filter. */
export const andPermitted = (metadata: RawBuilder<unknown>, filter: Bound): RawBuilder<unknown> =>
  filter === null ? sql`` : sql` and ${isPermitted(metadata, filter)}`;

/** Returns a further condition: `isThreadPermitted`, or nothing without a filter. */
export const andOfPermitted = (rows: string, filter: Bound): RawBuilder<unknown> =>
  filter === null ? sql`` : sql` and ${isThreadPermitted(rows, filter)}`;

/** Finds the filter of a statement that is being built. */
export type BoundIn<Of> = (p: Of) => Bound;

/** Statements for scopes with and without a filter. Calls `make` once for each, so a call without a filter pays for no condition. */
export function filterable<Of extends Args, Made>(
  make: (bound: BoundIn<Of>) => (args: Of) => Made,
): (args: Of, filter: Filter | undefined) => Made {
  const whole = make(() => null);
  const part = make((p) => (p as Of & { readonly bound: string }).bound);
  return (args, filter) => {
    const bound = toFilterArgument(filter);
    return bound === null ? whole(args) : part({ ...args, bound });
  };
}

/** A statement for scopes with and without a filter; `build` gets null for those without. */
export const scoped = <Of extends Args>(
  build: (args: Of, bound: Bound) => RawBuilder<unknown>,
): ((args: Of, filter: Filter | undefined) => Statement) =>
  filterable<Of, Statement>((bound) => prepared<Of>((p) => build(p, bound(p))));

/** Rows that come after a place in a list with the newest first. */
export const below = (position: ListPosition | undefined, id: string): readonly RawBuilder<unknown>[] =>
  position ? [sql`(created_at, ${sql.ref(id)}) < (${position.created_at}, ${position.id})`] : [];
