/**
 * Turns of threads that were deleted. Clients know events by their `seq`, so a thread that is created again with the same id
 * continues the turns of the deleted one. One row keeps the highest turn of all deleted threads with the same last four digits.
 */
import { type Expression, type RawBuilder, sql } from "kysely";
import type { Operand, Operands } from "./parameters.ts";

/** The name of the row in `probes`: ids are UUIDs, so that there are at most 65,536 for a deployment. */
const rowName = (deployment: Operand<string>, thread_id: Operand<string>): RawBuilder<string> =>
  sql<string>`'turns ' || ${deployment} || ' ' || substr(${thread_id}, 33)`;

/** Keeps the turns of threads that will be deleted. `threads` is the table with the condition that selects them. */
export const keepTurns = (threads: Expression<unknown>): RawBuilder<never> =>
  sql<never>`insert into probes (name, at)
    select ${rowName(sql.ref("threads.deployment"), sql.ref("threads.thread_id"))}, max(threads.turn) from ${threads}
      and threads.turn > 0 group by 1 order by 1
    on conflict (name) do update set at = excluded.at where excluded.at > probes.at`;

/** The turn of a thread that is created. */
export const firstTurn = (p: Operands<{ deployment: string; thread_id: string }>): RawBuilder<number> =>
  sql<number>`coalesce((select d.at from probes d
    where d.name = ${rowName(p.deployment, p.thread_id)}), 0)`;
