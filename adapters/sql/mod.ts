/** Storage over any SQL driver: each verb is one list of statements that takes effect as a whole or not at all. */
import type { Storage } from "../../lib/storage.ts";
import { assistantVerbs } from "./assistants.ts";
import { checkpointVerbs } from "./checkpoints.ts";
import type { SqlDriver } from "./driver.ts";
import { migrate } from "./migrate.ts";
import { runVerbs } from "./runs.ts";
import { threadVerbs } from "./threads.ts";

export type { Signals, SqlDriver, SqlRow, SqlStatement, SqlValue } from "./driver.ts";
export type { Tables } from "./schema.ts";

/** The Storage that keeps its rows behind `driver`. Closing it closes the driver. */
export function sqlStorage(driver: SqlDriver): Storage {
  return {
    migrate: () => migrate(driver),
    ...assistantVerbs(driver),
    ...threadVerbs(driver),
    ...runVerbs(driver),
    ...checkpointVerbs(driver),
    close: () => driver.close(),
  };
}
