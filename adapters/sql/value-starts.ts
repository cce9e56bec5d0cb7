/** Reads the start of a channel value, for lists that show a part of a large state. */
import type { CheckpointStorage } from "../../lib/storage/mod.ts";
import type { Database } from "./database.ts";
import { selectStart, selectVersionsOfCheckpoint, selectVersionsOfRun } from "./statements/value-starts.ts";

/** Creates the storage operation that reads how a channel begins. */
export function createValueStartStorage(driver: Database): Pick<CheckpointStorage, "readValueStart"> {
  return {
    /**
     * Returns the channel names of the newest root checkpoint of a run, or else of `checkpoint_id`, and the first characters of
     * one channel: null for it without a stored value. Returns null if there is no such checkpoint or it is not visible.
     * @statements selectVersionsOfRun · selectVersionsOfCheckpoint · selectStart
     * @guards The first 8,192 characters of a channel, for titles.
     */
    async readValueStart({ deployment, filter }, thread_id, { checkpoint_id, run_id }, channel) {
      const key = { deployment, thread_id };
      let rows = run_id === undefined ? [] : await driver.read(selectVersionsOfRun({ ...key, run_id }, filter));
      if (rows.length === 0 && checkpoint_id !== null)
        rows = await driver.read(selectVersionsOfCheckpoint({ ...key, checkpoint_id }, filter));
      const [row] = rows;
      if (!row) return null;
      const versions = new Map(Object.entries(JSON.parse(row.versions) as Record<string, string>));
      const version = versions.get(channel);
      const [value] = version === undefined ? [] : await driver.read(selectStart({ ...key, channel, version }));
      return { channels: [...versions.keys()], start: value?.start ?? null };
    },
  };
}
