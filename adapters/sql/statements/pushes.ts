/** Statements on push configurations. */
import { sql } from "kysely";
import { isThreadPermitted } from "../filter.ts";
import { bigint, columns } from "../parameters.ts";
import { createBuilder, query, scopedQuery } from "../query.ts";
import { agentTables } from "../schema/agents.ts";
import { pushTables } from "../schema/deliveries.ts";
import type { RowsOf } from "../schema/tables.ts";

const db = createBuilder<RowsOf<typeof pushTables>>();

const configTypes = columns(pushTables.push_configs, [
  ...(["push_id", "deployment", "task_id", "config_id", "last_run", "url", "host", "config"] as const),
]);
const taskTypes = columns(pushTables.push_configs, ["deployment", "task_id"]);

/**
 * Inserts a push configuration, or replaces the one with its id. Returns a row if its runs exist, the filter permits their thread and
 * the task has fewer than 10 others.
 */
export const upsertPush = scopedQuery(
  { ...configTypes, now: bigint },
  (p, filter) =>
    sql<{
      config_id: string;
    }>`insert into push_configs (push_id, deployment, thread_id, task_id, config_id, last_run, url, host,
      config, created_at)
    select ${p.push_id}, r.deployment, r.thread_id, r.run_id, ${p.config_id}, ${p.last_run}, ${p.url}, ${p.host}, ${p.config}, ${p.now}
    from runs r where r.run_id = ${p.task_id} and r.deployment = ${p.deployment}
      and exists (select 1 from runs l where l.run_id = ${p.last_run})
      and (select count(*) from push_configs c where c.task_id = r.run_id and c.config_id <> ${p.config_id}) < 10
      and ${isThreadPermitted("r", filter)}
    on conflict (task_id, config_id) do update set last_run = excluded.last_run, url = excluded.url, host = excluded.host,
      config = excluded.config
    returning config_id`,
  { stable: true },
);

/** Makes a new run the newest of the task of the run before it. */
export const continueTask = query(
  columns(agentTables.runs, ["deployment", "thread_id", "run_id"]),
  (p) =>
    sql<never>`update push_configs set last_run = ${p.run_id} where deployment = ${p.deployment} and last_run = (
      select q.run_id from runs q where q.deployment = ${p.deployment} and q.thread_id = ${p.thread_id}
        and q.seq < (select o.seq from runs o where o.run_id = ${p.run_id}) order by q.seq desc limit 1)`,
);

/** Selects the push configurations of a task whose thread the filter permits, the oldest first. */
export const selectPushes = scopedQuery(taskTypes, (p, filter) =>
  db
    .selectFrom("push_configs")
    .selectAll()
    .where("deployment", "=", p.deployment)
    .where("task_id", "=", p.task_id)
    .where(isThreadPermitted("push_configs", filter))
    .orderBy("created_at")
    .orderBy("config_id"),
);

/** Deletes a push configuration whose thread the filter permits. */
export const deletePush = scopedQuery(
  columns(pushTables.push_configs, ["deployment", "task_id", "config_id"]),
  (p, filter) =>
    db
      .deleteFrom("push_configs")
      .where("deployment", "=", p.deployment)
      .where("task_id", "=", p.task_id)
      .where("config_id", "=", p.config_id)
      .where(isThreadPermitted("push_configs", filter)),
);
