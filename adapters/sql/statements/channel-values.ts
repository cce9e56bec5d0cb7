/** The statement that reads the values of channels. */
import { type RawBuilder, sql } from "kysely";
import { jsonRows } from "../functions.ts";
import { columns, text } from "../parameters.ts";
import { query } from "../query.ts";
import { agentTables } from "../schema/agents.ts";
import type { CoreTables } from "../schema/tables.ts";

const ADDRESS_COLUMNS = { ns: "text", channel: "text", version: "text" } as const;

/** A value, and how many active runs have stored it: such a run may write it again. */
export type ValueRow = Omit<CoreTables["channel_values"], "deployment" | "thread_id"> & { readonly open: number };

/**
 * Selects the values that `wanted` lists, and all values that they extend, up to those that `known` lists, which come without data.
 * Both are JSON lists of places.
 */
export const selectValues = query(
  { ...columns(agentTables.channel_values, ["deployment", "thread_id"]), addresses: text, cached: text },
  (p) => {
    const isPart = sql`c.deployment = ${p.deployment} and c.thread_id = ${p.thread_id}
      and c.ns = parts.ns and c.channel = parts.channel and c.version = parts.version`;
    const isCached = sql`(c.ns, c.channel, c.version) in (select ns, channel, version from ${jsonRows(p.cached, ADDRESS_COLUMNS)} as known)`;
    const unlessCached = (column: RawBuilder<unknown>): RawBuilder<unknown> =>
      sql`case when ${isCached} then null else ${column} end`;
    return sql<ValueRow>`with recursive parts (ns, channel, version) as (
      select ns, channel, version from ${jsonRows(p.addresses, ADDRESS_COLUMNS)} as named
      union
      select c.ns, c.channel, c.extends_version from parts cross join channel_values c
      where ${isPart} and c.extends_version is not null and not ${isCached})
    select c.ns, c.channel, c.version, c.run_id, c.type, c.extends_version, ${unlessCached(sql`c.data`)} as data,
      ${unlessCached(sql`c.bytes`)} as bytes, (select count(*) from runs r where r.run_id = c.run_id
        and r.status in ('pending', 'running')) as open
    from parts cross join channel_values c where ${isPart}`;
  },
  { stable: true },
);
