/** How the values of a checkpoint begin: what a list shows of a state that may be large. */
import type { CheckpointStorage } from "../../lib/storage/mod.ts";
import type { ThreadKey } from "./checkpoints.ts";
import { scalar } from "./dialect.ts";
import { andOfPermitted, scoped } from "./filter.ts";
import { type Database, prepared } from "./statement.ts";
import { type RawBuilder, sql } from "./template.ts";

type Key = ThreadKey & { checkpoint_id: string };
type ValueKey = ThreadKey & { channel: string; channel_version: string };

const ofThread = (p: ThreadKey, table: string): RawBuilder<unknown> =>
  sql`${sql.ref(`${table}.deployment`)} = ${scalar(p.deployment)} and ${sql.ref(`${table}.thread_id`)} = ${scalar(p.thread_id)}
    and ${sql.ref(`${table}.ns`)} = ''`;

const columns = sql`select c.checkpoint_id, c.versions from checkpoints c`;

const versionsOf = scoped<Key>(
  (p, bound) =>
    sql`${columns} where ${ofThread(p, "c")} and c.checkpoint_id = ${scalar(p.checkpoint_id)}${andOfPermitted("c", bound)}`,
);

const newestVersionsOf = scoped<ThreadKey & { run_id: string }>(
  (p, bound) =>
    sql`${columns} where ${ofThread(p, "c")} and c.run_id = ${scalar(p.run_id)}${andOfPermitted("c", bound)}
    order by c.seq desc limit 1`,
);

/** A value that others extend begins as the oldest of them does. */
const startOf = prepared<ValueKey>((p) => {
  const part = sql`${ofThread(p, "c")} and c.channel = ${scalar(p.channel)}`;
  return sql`with recursive parts (version, extends_version) as (
      select c.version, c.extends_version from channel_values c where ${part} and c.version = ${scalar(p.channel_version)}
      union all
      select c.version, c.extends_version from parts cross join channel_values c
      where ${part} and c.version = parts.extends_version)
    select substr(c.data, 1, 8192) as start from parts cross join channel_values c
    where ${part} and c.version = parts.version and parts.extends_version is null and c.type = 'json'`;
});

/** The verb that reads how a channel begins. */
export function openingVerbs(driver: Database): Pick<CheckpointStorage, "readOpening"> {
  return {
    /**
     * @statements newestVersionsOf · versionsOf · startOf
     * @guards The first 8,192 characters of a channel, for titles.
     */
    async readOpening({ deployment, filter }, thread_id, { checkpoint_id, run_id }, channel) {
      const key = { deployment, thread_id };
      let found = run_id === undefined ? [] : await driver.read(newestVersionsOf({ ...key, run_id }, filter));
      if (found.length === 0 && checkpoint_id !== null)
        found = await driver.read(versionsOf({ ...key, checkpoint_id }, filter));
      const [row] = found;
      if (!row) return null;
      const versions = new Map(Object.entries(JSON.parse(row.versions as string) as Record<string, string>));
      const channel_version = versions.get(channel);
      const [value] =
        channel_version === undefined ? [] : await driver.read(startOf({ ...key, channel, channel_version }));
      return { channels: [...versions.keys()], start: (value?.start ?? null) as string | null };
    },
  };
}
