/** The filter of a scope as one argument of a statement. */
import type { Filter } from "../../lib/storage/visibility.ts";

/**
 * Returns the filter as a JSON list of tests for the SQL condition `passesFilterTests`. Returns null without a filter and for
 * an empty one.
 */
export function toFilterArgument(filter: Filter | undefined): string | null {
  if (!filter || filter.length === 0) return null;
  const tests = filter.flatMap((condition): unknown[] => {
    if ("equals" in condition) return [[condition.key, "is", condition.equals]];
    return [[condition.key, "list"], ...condition.contains.map((item) => [condition.key, "has", item])];
  });
  return JSON.stringify(tests);
}
