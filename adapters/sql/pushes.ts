/** Push configurations of A2A tasks. Their notifications are rows in the outbox of webhooks. */
import type { NewPush, PushConfig, PushRow, PushStorage } from "../../lib/storage/mod.ts";
import { type Database, readAll, threadLockKey } from "./database.ts";
import type { Statement } from "./query.ts";
import type { pushTables } from "./schema/deliveries.ts";
import type { RowsOf } from "./schema/tables.ts";
import { insertCancelNotifications } from "./statements/deliveries.ts";
import { continueTask, deletePush, selectPushes, upsertPush } from "./statements/pushes.ts";

type StoredPush = RowsOf<typeof pushTables>["push_configs"];

/**
 * Returns the statements of a new run for push configurations. With `resumesTask` the run becomes the newest run of the task of
 * the run before it on the thread. `push` is stored as the configuration of its task, which is the run itself if it names none.
 */
export function createPushStatements(
  run: { readonly deployment: string; readonly thread_id: string; readonly run_id: string },
  push: NewPush | undefined,
  resumesTask: boolean,
  now: number,
): Statement[] {
  const { deployment, run_id } = run;
  const row = push && { ...toRow({ ...push, task_id: push.task_id ?? run_id }), deployment, last_run: run_id, now };
  return [...(resumesTask ? [continueTask(run)] : []), ...(row ? [upsertPush(row, undefined)] : [])];
}

/** Returns the columns of a push configuration. `config` is the JSON text of its terms together with the id of the task. */
function toRow({
  push_id,
  task_id,
  config_id,
  url,
  host,
  terms,
}: NewPush & { readonly task_id: string }): Pick<
  StoredPush,
  "push_id" | "task_id" | "config_id" | "url" | "host" | "config"
> {
  const stored: PushConfig = { ...terms, task_id };
  return { push_id, task_id, config_id, url, host, config: JSON.stringify(stored) };
}

/** Creates the storage operations on push configurations. */
export function createPushStorage(driver: Database): PushStorage {
  const toLockKeys = (deployment: string, thread_id: string): string[] => [threadLockKey(deployment, thread_id)];
  return {
    /**
     * Inserts or replaces a push configuration. Returns false if the task or its newest run does not exist, or it has too many.
     * @statements upsertPush
     * @guards insert or replace where the task's run and its newest run exist, the thread is visible, and the task has
     *   fewer than 10 others. Outcome: its row.
     */
    async setPush({ deployment, filter }, { thread_id, last_run, ...push }, now) {
      const upsert = upsertPush({ ...toRow(push), deployment, last_run, now }, filter);
      const [stored] = await driver.batch([upsert], toLockKeys(deployment, thread_id));
      return stored.length === 1;
    },

    /** @statements selectPushes */
    listPushes: ({ deployment, filter }, task_id) =>
      readAll(driver, selectPushes({ deployment, task_id }, filter), toPush),

    /**
     * @statements deletePush
     * @guards delete where the thread is visible.
     */
    async removePush({ deployment, filter }, { thread_id, task_id, config_id }) {
      await driver.batch([deletePush({ deployment, task_id, config_id }, filter)], toLockKeys(deployment, thread_id));
    },

    /**
     * @statements insertCancelNotifications
     * @guards insert a delivery for each configuration of the task where the thread is visible; once for each.
     */
    async notifyCancelled({ deployment, filter }, { thread_id, task_id }, now) {
      const insert = insertCancelNotifications({ deployment, task_id, now }, filter);
      await driver.batch([insert], toLockKeys(deployment, thread_id));
    },
  };
}

/** Converts a row. `terms` is the column `config` without the id of the task. */
function toPush(row: StoredPush): PushRow {
  const { push_id, task_id, thread_id, config_id, last_run, url, host, config } = row;
  const { task_id: _, ...terms } = JSON.parse(config) as PushConfig;
  return { push_id, task_id, thread_id, config_id, last_run, url, host, terms };
}
