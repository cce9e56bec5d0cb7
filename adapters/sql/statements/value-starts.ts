/** Statements that read how the values of a checkpoint begin. */
import { type RawBuilder, sql } from "kysely";
import { isThreadPermitted } from "../filter.ts";
import { columns, type ParametersFor, text } from "../parameters.ts";
import { createBuilder, query, scopedQuery } from "../query.ts";
import { agentTables } from "../schema/agents.ts";
import type { CoreTables } from "../schema/tables.ts";

const db = createBuilder<CoreTables>();

const stable = { stable: true };

const threadTypes = columns(agentTables.checkpoints, ["deployment", "thread_id"]);

/** Selects ids and channel versions of the checkpoints in the root namespace of a thread. */
const selectVersions = (p: ParametersFor<typeof threadTypes>) =>
  db
    .selectFrom("checkpoints as c")
    .select(["c.checkpoint_id", "c.versions"])
    .where("c.deployment", "=", p.deployment)
    .where("c.thread_id", "=", p.thread_id)
    .where("c.ns", "=", sql.lit(""));

/** Selects the versions of a root checkpoint whose thread the filter permits. */
export const selectVersionsOfCheckpoint = scopedQuery(
  { ...threadTypes, checkpoint_id: text },
  (p, filter) => selectVersions(p).where("c.checkpoint_id", "=", p.checkpoint_id).where(isThreadPermitted("c", filter)),
  stable,
);

/** Selects the versions of the newest root checkpoint that a run has stored, if the filter permits its thread. */
export const selectVersionsOfRun = scopedQuery(
  { ...threadTypes, run_id: text },
  (p, filter) =>
    selectVersions(p)
      .where("c.run_id", "=", p.run_id)
      .where(isThreadPermitted("c", filter))
      .orderBy("c.seq", "desc")
      .limit(sql.lit(1)),
  stable,
);

/** Selects the first 8,192 characters of a value in JSON. A value that others extend begins as the oldest of them does. */
export const selectStart = query(
  { ...threadTypes, channel: text, version: text },
  (p) => {
    const isPart: RawBuilder<boolean> = sql`c.deployment = ${p.deployment} and c.thread_id = ${p.thread_id} and c.ns = ''
      and c.channel = ${p.channel}`;
    return sql<{ start: string | null }>`with recursive parts (version, extends_version) as (
      select c.version, c.extends_version from channel_values c where ${isPart} and c.version = ${p.version}
      union all
      select c.version, c.extends_version from parts cross join channel_values c
      where ${isPart} and c.version = parts.extends_version)
    select substr(c.data, 1, 8192) as start from parts cross join channel_values c
    where ${isPart} and c.version = parts.version and parts.extends_version is null and c.type = 'json'`;
  },
  stable,
);
