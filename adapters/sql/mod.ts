/**
 * Storage over any SQL driver: each storage operation is a list of statements that takes effect as a whole or not at all.
 * @module
 */
import { ServiceError, toStorageError } from "../../lib/errors.ts";
import type { Storage } from "../../lib/storage/mod.ts";
import { createAssistantStorage } from "./assistants.ts";
import { createCheckpointStorage } from "./checkpoints.ts";
import { createCronStorage } from "./crons.ts";
import type { Database } from "./database.ts";
import { DatabaseUnavailable, type SqlDriver } from "./driver.ts";
import { isDiskFullError, isUnstorableTextError } from "./errors.ts";
import { createFeatureStorage } from "./features.ts";
import { createIdentityStorage } from "./identity.ts";
import { createItemStorage } from "./items.ts";
import { migrate } from "./migrate.ts";
import { createEventStorage } from "./runs/events.ts";
import { createRunStorage } from "./runs/mod.ts";
import { deleteSpaceProbes, insertSpaceProbes, upsertProbe } from "./statements/worker.ts";
import { createStateStorage } from "./states.ts";
import { createThreadStorage } from "./threads.ts";
import { createValueStartStorage } from "./value-starts.ts";
import { createWorkerAdoption } from "./worker-adoption.ts";
import { WriteHealth } from "./write-health.ts";

export type * from "../../lib/storage/types.ts";
export type { SignalKind, SignalListener, Signals, SqlDriver, SqlRow, SqlStatement, SqlValue } from "./driver.ts";
export { DatabaseUnavailable } from "./driver.ts";
export type { Tables } from "./schema/mod.ts";

/**
 * Creates the Storage that keeps its rows behind `driver`. Closing it closes the driver.
 * @example
 * ```ts
 * import { type SqlDriver, sqlStorage } from "greenroom/sql";
 *
 * const storageOn = (driver: SqlDriver) => sqlStorage(driver);
 * ```
 */
export function sqlStorage(driver: SqlDriver): Storage {
  const health = new WriteHealth();
  const database = createDatabase(driver, health);
  const { becomeWorker, hasWorkerLock } = createWorkerAdoption(database);
  return {
    kind: driver.dialect,
    single_process: driver.single_process ?? false,
    multi_process: driver.multi_process ?? false,
    ...(driver.signals && { signals: driver.signals }),
    ...(driver.refresh && { refresh: () => driver.refresh?.() }),
    ...(database.now && { now: database.now }),
    ...(database.check && { check: database.check }),
    migrate: () => migrate(database),
    becomeWorker,
    failure: () => health.failure,
    /**
     * Writes a row. After a failed write it writes as many bytes as that had, and clears the failure if that succeeds. Throws
     * while the file is damaged.
     * @statements upsertProbe · insertSpaceProbes · deleteSpaceProbes
     * @guards writes one row of `write_probes`. After a failed write it also inserts and deletes as many bytes as that write
     *   had.
     */
    async probe(now) {
      await database.batch([upsertProbe({ now })], []);
      if (health.isDamaged) throw new Error(health.failure as string);
      if (health.failure === null) return;
      // A separate batch: rows that one batch inserts and deletes never reach the disk.
      const count = Math.ceil(health.bytes / PROBE_PADDING.length);
      await database.batch([insertSpaceProbes({ now, count, padding: PROBE_PADDING })], []);
      await database.batch([deleteSpaceProbes({})], []);
      health.clearFailure();
    },
    ...createAssistantStorage(database),
    ...createThreadStorage(database),
    ...createRunStorage(database),
    ...createEventStorage(database),
    ...createCheckpointStorage(database),
    ...createValueStartStorage(database),
    ...createFeatureStorage(database, hasWorkerLock),
    ...createStateStorage(database),
    ...createCronStorage(database),
    ...createItemStorage(database),
    identity: createIdentityStorage(database),
    close: () => driver.close(),
  };
}

/** The padding of a row that tests whether there is room. */
const PROBE_PADDING = "x".repeat(1024);

/**
 * Wraps the driver for statements of every dialect. Records failures of batches, reads and checks in `health`, and maps errors to
 * those that callers can handle: `storage_full`, `invalid` (text with U+0000) and outages. Errors of `now` are only mapped; those
 * of `acquireWorkerLock` are passed on unchanged.
 */
function createDatabase(driver: SqlDriver, health: WriteHealth): Database {
  const { dialect } = driver;
  /** Throws the error as a ServiceError if it is a full disk, a text that cannot be stored, or an outage; else unchanged. */
  const throwServiceError = (error: unknown): never => {
    if (isDiskFullError(error))
      throw new ServiceError("storage_full", "The disk of the database is full", { cause: error });
    if (isUnstorableTextError(error))
      throw new ServiceError("invalid", "This database cannot store text with U+0000", { cause: error });
    if (error instanceof DatabaseUnavailable) throw toStorageError(error);
    throw error;
  };
  /** Records a full disk or a damaged file in `health`, and throws the error as `throwServiceError` does. */
  const recordAndThrow = (error: unknown): never => {
    health.recordFailure(error, []);
    return throwServiceError(error);
  };
  return {
    dialect,
    /**
     * Compiles the statements and runs them as one transaction of the driver. Returns the rows of each statement. A failure is
     * recorded in `health` with the size of the batch, and thrown as a ServiceError where it is one.
     */
    batch(statements, lock_keys) {
      const texts = statements.map((statement) => statement.compileFor(dialect));
      // The declared row types meet what the driver returns here and in `read`, and nowhere else.
      return driver.batch(texts, lock_keys).catch((error: unknown) => {
        health.recordFailure(error, texts);
        return throwServiceError(error);
      }) as Promise<never>;
    },
    read: (statement) => driver.read(statement.compileFor(dialect)).catch(recordAndThrow) as Promise<never>,
    ...(driver.now && { now: () => (driver.now as () => Promise<number>)().catch(throwServiceError) }),
    ...(driver.check && { check: () => (driver.check as () => Promise<void>)().catch(recordAndThrow) }),
    ...(driver.acquireWorkerLock && {
      acquireWorkerLock: () => (driver.acquireWorkerLock as () => Promise<boolean>)(),
    }),
  };
}
