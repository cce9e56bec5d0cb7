/**
 * Storage over any SQL driver: each verb is one list of statements that takes effect as a whole or not at all.
 * @module
 */
import { ServiceError, toStorageError } from "../../lib/errors.ts";
import type { Storage } from "../../lib/storage/mod.ts";
import { assistantVerbs } from "./assistants.ts";
import { checkpointVerbs } from "./checkpoints.ts";
import { cronVerbs } from "./crons.ts";
import type { Database } from "./database.ts";
import { DatabaseUnavailable, type SqlDriver } from "./driver.ts";
import { isFull, isUnstorable } from "./errors.ts";
import { featureVerbs } from "./features.ts";
import { sqlIdentity } from "./identity.ts";
import { itemVerbs } from "./items.ts";
import { migrate } from "./migrate.ts";
import { openingVerbs } from "./openings.ts";
import { eventVerbs } from "./runs/events.ts";
import { runVerbs } from "./runs/mod.ts";
import { endWorkerClaims } from "./statements/deliveries.ts";
import {
  deleteRoomProbes,
  freeSlots,
  insertRoomProbes,
  LEFT_SLOT_NAMES,
  requeueRunning,
  upsertProbe,
} from "./statements/worker.ts";
import { stateVerbs } from "./states.ts";
import { threadVerbs } from "./threads.ts";
import { WriteHealth } from "./write-health.ts";

export type { SignalKind, SignalListener, Signals, SqlDriver, SqlRow, SqlStatement, SqlValue } from "./driver.ts";
export { DatabaseUnavailable } from "./driver.ts";
export type { Tables } from "./schema/mod.ts";

/**
 * The Storage that keeps its rows behind `driver`. Closing it closes the driver.
 *
 * @example
 * ```ts
 * import { type SqlDriver, sqlStorage } from "greenroom/sql";
 *
 * const storageOn = (driver: SqlDriver) => sqlStorage(driver);
 * ```
 */
export function sqlStorage(driver: SqlDriver): Storage {
  const health = new WriteHealth();
  const pipe = pipeOf(driver, health);
  const { becomeWorker, executes } = adoption(pipe);
  return {
    kind: driver.dialect,
    single_process: driver.single_process ?? false,
    multi_process: driver.multi_process ?? false,
    ...(driver.signals && { signals: driver.signals }),
    ...(driver.refresh && { refresh: () => driver.refresh?.() }),
    ...(pipe.now && { now: pipe.now }),
    ...(pipe.check && { check: pipe.check }),
    migrate: () => migrate(pipe),
    becomeWorker,
    failure: () => health.failure,
    /**
     * @statements upsertProbe · insertRoomProbes · deleteRoomProbes
     * @guards writes one row of `write_probes`. After a failed write it also inserts and deletes as many bytes as that write
     *   had.
     */
    async probe(now) {
      await pipe.batch([upsertProbe({ now })], []);
      if (health.isDamaged) throw new Error(health.failure as string);
      if (health.failure === null) return;
      // A separate batch: rows that one batch inserts and deletes never reach the disk.
      const count = Math.ceil(health.bytes / ROOM_ROW.length);
      await pipe.batch([insertRoomProbes({ now, count, padding: ROOM_ROW })], []);
      await pipe.batch([deleteRoomProbes({})], []);
      health.recovered();
    },
    ...assistantVerbs(pipe),
    ...threadVerbs(pipe),
    ...runVerbs(pipe),
    ...eventVerbs(pipe),
    ...checkpointVerbs(pipe),
    ...openingVerbs(pipe),
    ...featureVerbs(pipe, executes),
    ...stateVerbs(pipe),
    ...cronVerbs(pipe),
    ...itemVerbs(pipe),
    identity: sqlIdentity(pipe),
    close: () => driver.close(),
  };
}

/** The padding of a row that tests whether there is room. */
const ROOM_ROW = "x".repeat(1024);

/** See `Storage.becomeWorker`. `executes`: this process holds the worker lock, if the database has one. */
function adoption(driver: Database): Pick<Storage, "becomeWorker"> & { readonly executes: () => boolean } {
  let adopting: Promise<void> | undefined;
  let adopted = false;

  async function adopt(now: number): Promise<void> {
    await driver.batch([
      ...LEFT_SLOT_NAMES.map((of) => freeSlots({ of }, {})),
      requeueRunning({ now }),
      endWorkerClaims({}),
    ]);
    adopted = true;
  }

  return {
    executes: () => adopted,
    /**
     * @statements freeSlots · requeueRunning · endWorkerClaims
     * @guards Acquires the worker lock of the driver. A driver without this lock always returns true. After acquiring
     *   it, once: free the slots of threads with running, due or deleted runs · requeue all running runs · end the
     *   delivery claims of dead workers.
     */
    async becomeWorker(now) {
      if (!driver.acquireWorkerLock) return true;
      if (!(await driver.acquireWorkerLock())) {
        adopting = undefined;
        adopted = false;
        return false;
      }
      // Once only: runs that start later belong to this process.
      adopting ??= adopt(now).catch((error: unknown) => {
        adopting = undefined;
        throw error;
      });
      await adopting;
      return true;
    },
  };
}

/** The driver for statements of every database. Maps errors to those that callers can handle. */
function pipeOf(driver: SqlDriver, health: WriteHealth): Database {
  const { dialect } = driver;
  const tell = (error: unknown): never => {
    if (isFull(error)) throw new ServiceError("storage_full", "The disk of the database is full", { cause: error });
    if (isUnstorable(error))
      throw new ServiceError("invalid", "This database cannot store text with U+0000", { cause: error });
    if (error instanceof DatabaseUnavailable) throw toStorageError(error);
    throw error;
  };
  const failed = (error: unknown): never => {
    health.note(error, []);
    return tell(error);
  };
  return {
    dialect,
    batch(statements, lock_keys) {
      const texts = statements.map((statement) => statement.for(dialect));
      // The declared row types meet what the driver returns here and in `read`, and nowhere else.
      return driver.batch(texts, lock_keys).catch((error: unknown) => {
        health.note(error, texts);
        return tell(error);
      }) as Promise<never>;
    },
    read: (statement) => driver.read(statement.for(dialect)).catch(failed) as Promise<never>,
    ...(driver.now && { now: () => (driver.now as () => Promise<number>)().catch(tell) }),
    ...(driver.check && { check: () => (driver.check as () => Promise<void>)().catch(failed) }),
    ...(driver.acquireWorkerLock && {
      acquireWorkerLock: () => (driver.acquireWorkerLock as () => Promise<boolean>)(),
    }),
  };
}
