/** Authorization filters as SQL: like `permits`, on the stored metadata, with one parameter. */
import { type Expression, type RawBuilder, sql } from "kysely";
import { passesFilterTests, rowByRow } from "./functions.ts";
import type { Operand } from "./parameters.ts";

/** A filter as a parameter, or its placeholder. Null: no filter. */
export type FilterParameter = Operand<string> | null;

/** Returns the condition that the filter permits rows with this metadata; true without a filter. */
export const isPermitted = (metadata: Expression<unknown>, filter: FilterParameter): RawBuilder<boolean> =>
  filter === null ? sql<boolean>`true` : passesFilterTests(metadata, filter);

/**
 * Returns the condition that the thread of a row exists and the filter permits it, also if the thread is hidden. It is always
 * true without a filter. `rows` is the table or alias of the rows, with the columns `deployment` and `thread_id`.
 */
export function isThreadPermitted(rows: string, filter: FilterParameter): RawBuilder<boolean> {
  if (filter === null) return sql<boolean>`true`;
  const [deployment, thread_id] = [sql.ref(`${rows}.deployment`), sql.ref(`${rows}.thread_id`)];
  return sql<boolean>`exists (select 1 from threads permitting where permitting.deployment = ${deployment}
    and permitting.thread_id = ${thread_id} and ${passesFilterTests(sql`permitting.metadata`, filter)})`;
}

/**
 * Returns the condition that the run exists in the deployment and the filter permits its thread. It is always true without a
 * filter, also for a run that does not exist.
 */
export const isRunPermitted = (
  run_id: Expression<unknown>,
  deployment: Operand<string>,
  filter: FilterParameter,
): RawBuilder<boolean> =>
  filter === null
    ? sql<boolean>`true`
    : sql<boolean>`exists (select 1 from runs of_run where of_run.run_id = ${run_id}
    and of_run.deployment = ${deployment} and ${isThreadPermitted("of_run", filter)} ${rowByRow})`;
