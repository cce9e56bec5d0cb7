/** The statement that reads the values of channels. */
import { type RawBuilder, sql } from "kysely";
import { rowsOf } from "../functions.ts";
import { columns, text } from "../parameters.ts";
import { query } from "../query.ts";
import { agentTables } from "../schema/agents.ts";
import type { Tables } from "../schema/tables.ts";

const PLACE = { ns: "text", channel: "text", version: "text" } as const;

/** A value, and how many active runs have stored it: such a run may write it again. */
export type ValueRow = Omit<Tables["channel_values"], "deployment" | "thread_id"> & { readonly open: number };

/**
 * Selects the values that `wanted` lists, and all values that they extend, up to those that `known` lists, which come without data.
 * Both are JSON lists of places.
 */
export const selectValues = query(
  { ...columns(agentTables.channel_values, ["deployment", "thread_id"]), wanted: text, known: text },
  (p) => {
    const isPart = sql`c.deployment = ${p.deployment} and c.thread_id = ${p.thread_id}
      and c.ns = parts.ns and c.channel = parts.channel and c.version = parts.version`;
    const isKnown = sql`(c.ns, c.channel, c.version) in (select ns, channel, version from ${rowsOf(p.known, PLACE)} as known)`;
    const unlessKnown = (column: RawBuilder<unknown>): RawBuilder<unknown> =>
      sql`case when ${isKnown} then null else ${column} end`;
    return sql<ValueRow>`with recursive parts (ns, channel, version) as (
      select ns, channel, version from ${rowsOf(p.wanted, PLACE)} as named
      union
      select c.ns, c.channel, c.extends_version from parts cross join channel_values c
      where ${isPart} and c.extends_version is not null and not ${isKnown})
    select c.ns, c.channel, c.version, c.run_id, c.type, c.extends_version, ${unlessKnown(sql`c.data`)} as data,
      ${unlessKnown(sql`c.bytes`)} as bytes, (select count(*) from runs r where r.run_id = c.run_id
        and r.status in ('pending', 'running')) as open
    from parts cross join channel_values c where ${isPart}`;
  },
  { stable: true },
);
