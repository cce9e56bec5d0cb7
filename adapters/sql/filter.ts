/** What authorization lets a call see, as SQL: the same as `permits`, on metadata where it is stored, with one parameter. */
import { type RawBuilder, sql } from "kysely";
import type { Filter } from "../../lib/storage/visibility.ts";
import { passes, type Query, rowByRow } from "./dialect.ts";
import type { SqlValue } from "./driver.ts";
import { prepared, type Statement } from "./statement.ts";

/** A filter as a parameter, or the placeholder for one. Null: nothing is asked. */
export type Bound = string | null;

type Args = Readonly<Record<string, SqlValue>>;

/** The parameter that a scope's filter is passed as. */
export function boundOf(filter: Filter | undefined): Bound {
  if (!filter || filter.length === 0) return null;
  const tests = filter.flatMap((condition): unknown[] => {
    if ("equals" in condition) return [[condition.key, "is", condition.equals]];
    return [[condition.key, "list"], ...condition.contains.map((item) => [condition.key, "has", item])];
  });
  return JSON.stringify(tests);
}

/** True where the filter permits a row with this metadata, a column or an expression of JSON text. */
export function permitted(metadata: RawBuilder<unknown>, bound: string): RawBuilder<boolean> {
  return passes(metadata, bound);
}

/** The same as one more condition of a statement; nothing where nothing is asked. */
export const andPermitted = (metadata: RawBuilder<unknown>, bound: Bound): RawBuilder<unknown> =>
  bound === null ? sql`` : sql` and ${permitted(metadata, bound)}`;

/** One more condition on rows of a thread, as runs are: that their thread is permitted, a hidden one too. `rows` is their table's name. */
export function andOfPermitted(rows: string, bound: Bound): RawBuilder<unknown> {
  if (bound === null) return sql``;
  const [deployment, thread_id] = [sql.ref(`${rows}.deployment`), sql.ref(`${rows}.thread_id`)];
  return sql` and exists (select 1 from threads permitting where permitting.deployment = ${deployment}
    and permitting.thread_id = ${thread_id} and ${permitted(sql`permitting.metadata`, bound)})`;
}

/** One more condition on rows that name a run: that it is there, of the deployment and on a thread that is permitted. */
export function andOfRunPermitted(run_id: RawBuilder<unknown>, deployment: string, bound: Bound): RawBuilder<unknown> {
  if (bound === null) return sql``;
  return sql` and exists (select 1 from runs of_run where of_run.run_id = ${run_id}
    and of_run.deployment = ${deployment}${andOfPermitted("of_run", bound)} ${rowByRow})`;
}

/** Where a statement that is being built finds its filter. */
export type BoundIn<Of> = (p: Of) => Bound;

/**
 * What a scope's filter may bound. `make` is called twice: for calls without a filter, which pay for no condition, and for those
 * with one.
 */
export function either<Of extends Args, Made>(
  make: (bound: BoundIn<Of>) => (args: Of) => Made,
): (args: Of, filter: Filter | undefined) => Made {
  const whole = make(() => null);
  const part = make((p) => (p as Of & { readonly bound: string }).bound);
  return (args, filter) => {
    const bound = boundOf(filter);
    return bound === null ? whole(args) : part({ ...args, bound });
  };
}

/** A statement that a scope's filter may bound, as `shape` makes it; `build` gets null where there is none. */
export const scoped = <Of extends Args>(
  build: (args: Of, bound: Bound) => Query,
): ((args: Of, filter: Filter | undefined) => Statement) =>
  either<Of, Statement>((bound) => prepared<Of>((p) => build(p, bound(p))));
