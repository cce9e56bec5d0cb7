/** Statements that fail a batch, so that it has no effect. */
import { type Expression, type RawBuilder, sql } from "kysely";

/** Returns a statement that fails the batch unless the condition holds. `isFailedAssertion` knows the error. */
export const assertThat = (condition: Expression<unknown>): RawBuilder<never> =>
  sql<never>`insert into assertions (holds) select 0 where not (${condition})`;
