/**
 * Claim counts of threads that were deleted. Clients know events by their `seq`, so a thread that is created again with the same id
 * continues the claim count of the deleted one. One row keeps the highest claim count of all deleted threads with the same last four digits.
 */
import { type Expression, type RawBuilder, sql } from "kysely";
import type { Operand, Operands } from "./parameters.ts";

/** The end of a thread's id by which its claim count is kept. */
const idSuffix = (thread_id: Operand<string>): RawBuilder<string> => sql<string>`substr(${thread_id}, 33)`;

/**
 * Returns the statement that keeps the claim counts of threads that will be deleted, the highest for each suffix of their ids.
 * A higher count that is kept already stays, and counts of 0 are not kept. `threads` is the table with the condition that
 * selects them.
 */
export const keepClaimCounts = (threads: Expression<unknown>): RawBuilder<never> =>
  sql<never>`insert into deleted_thread_claims (deployment, id_suffix, claim_count)
    select threads.deployment, ${idSuffix(sql.ref("threads.thread_id"))}, max(threads.claim_count) from ${threads}
      and threads.claim_count > 0 group by 1, 2 order by 1, 2
    on conflict (deployment, id_suffix) do update set claim_count = excluded.claim_count
      where excluded.claim_count > deleted_thread_claims.claim_count`;

/** Returns the claim count of a thread that is created. */
export const firstClaimCount = (p: Operands<{ deployment: string; thread_id: string }>): RawBuilder<number> =>
  sql<number>`coalesce((select d.claim_count from deleted_thread_claims d
    where d.deployment = ${p.deployment} and d.id_suffix = ${idSuffix(p.thread_id)}), 0)`;
