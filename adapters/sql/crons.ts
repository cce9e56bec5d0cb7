/** Creates the storage operations on crons. */
import type { JsonObject } from "../../lib/json.ts";
import type {
  CreateRun,
  CronContent,
  CronFiring,
  CronQuery,
  CronRow,
  CronStorage,
  FireCron,
  FireCronResult,
  OnRunCompleted,
  Scope,
  SkipReason,
} from "../../lib/storage/mod.ts";
import { decodeJson, encodeJson } from "./columns.ts";
import { createRowFinder, type Database, readAll, readOne } from "./database.ts";
import { deleteIndexEntries, insertIndexEntries, replaceIndexEntries } from "./metadata-index.ts";
import type { ArgumentsFor } from "./parameters.ts";
import type { Statement } from "./query.ts";
import { readNotCreatedResult } from "./runs/create.ts";
import { createRunStatements } from "./runs/create-statements.ts";
import type { CoreTables } from "./schema/tables.ts";
import { type MetadataSearch, searchRows } from "./search.ts";
import {
  advanceCron,
  deleteCron,
  deleteOldFirings,
  deleteOrphanedEntries,
  insertCron,
  insertFiring,
  insertManualFiring,
  insertSkippedFirings,
  isFiringOpen,
  selectCron,
  selectEnabledCrons,
  selectFirings,
  selectOrphanedCrons,
  selectVisibleThread,
  updateCron,
} from "./statements/crons.ts";
import { selectCrons } from "./statements/search.ts";

type Row = CoreTables["crons"];
type Content = Pick<Row, keyof CronContent>;

type OldFirings = ArgumentsFor<typeof deleteOldFirings.types>;

/**
 * Returns the statements that delete old firings and, if it finds any, index entries of deleted crons. Reads which entries
 * these are; deletes nothing itself.
 */
export async function sweepCrons(driver: Database, old: OldFirings): Promise<Statement<unknown>[]> {
  const orphans = await driver.read(selectOrphanedCrons(old));
  const cron_ids = JSON.stringify(orphans.map(({ row_id }) => row_id));
  const { deployment } = old;
  return [deleteOldFirings(old), ...(orphans.length > 0 ? [deleteOrphanedEntries({ deployment, cron_ids })] : [])];
}

type Firing = ArgumentsFor<typeof insertFiring.types>;

/**
 * Returns `fireCron`, which handles one fire time of a cron in one batch: creates its run, or only records skips, and sets the
 * next fire time. It returns `fired`, or `skipped` for a request without a run. `lost`: the cron or the firing was changed by
 * someone else, nothing is written. `refused`: the run had no place, a skip is recorded. `stale`: the run must be planned
 * again.
 */
function createFireCron(driver: Database): CronStorage["fireCron"] {
  /**
   * Records fire times as skipped and sets the next one. Returns false, and sets nothing, if the cron has changed since it was
   * read.
   */
  async function skip(fire: FireCron, firing: Firing, skipped: FireCron["skipped"]): Promise<boolean> {
    const { next_run_date } = fire;
    const results = await driver.batch([
      ...(skipped.length > 0 ? [insertSkippedFirings({ ...firing, skipped: encodeSkipped(skipped) })] : []),
      advanceCron({ ...firing, next_run_date }),
    ]);
    return results.at(-1)?.length === 1;
  }

  /**
   * Finds out why a fire time created no run. Returns `lost` if the firing is no longer open, and `stale` if the request must
   * be planned again. A busy or full thread and a full deployment are recorded as a skip, with the next fire time (`refused`).
   */
  async function explainRefusedFiring(fire: FireCron, firing: Firing, request: CreateRun): Promise<FireCronResult> {
    const [open] = await driver.read(isFiringOpen(firing));
    if (!open) return { kind: "lost" };
    const { kind: reason } = await readNotCreatedResult(driver, firing.deployment, request);
    if (reason !== "thread_busy" && reason !== "thread_full" && reason !== "deployment_full") return { kind: "stale" };
    const { scheduled_at } = firing;
    const recorded = await skip(fire, { ...firing, run_id: null }, [...fire.skipped, { scheduled_at, reason }]);
    return recorded ? { kind: "refused", reason } : { kind: "lost" };
  }

  return async ({ deployment }, fire) => {
    const { cron_id, expected, next_run_date, now } = fire;
    const scheduled_at = fire.firing?.scheduled_at ?? expected.next_run_date;
    const fire_time = {
      deployment,
      cron_id,
      seen_next: expected.next_run_date,
      seen_revision: expected.revision,
      scheduled_at,
    };
    const firing: Firing = { ...fire_time, now, run_id: null };
    if (!fire.firing) return { kind: (await skip(fire, firing, fire.skipped)) ? "skipped" : "lost" };
    const { run: request } = fire.firing;
    const create = createRunStatements(deployment, request, request.limits?.pending ?? null, fire_time);
    const fired: Firing = { ...firing, run_id: request.run.run_id };
    const statements = [
      ...create.statements,
      insertFiring(fired),
      ...(fire.skipped.length > 0 ? [insertSkippedFirings({ ...fired, skipped: encodeSkipped(fire.skipped) })] : []),
      advanceCron({ ...fired, next_run_date }),
    ];
    const lock_keys = [...create.lock_keys, `cron ${deployment} ${cron_id}`];
    const findRows = createRowFinder(statements, await driver.batch(statements, lock_keys));
    const created = create.toCreatedRun(findRows);
    return created ? { kind: "fired", created } : await explainRefusedFiring(fire, firing, request);
  };
}

/** Creates the storage operations on crons and their firings. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createCronStorage(driver: Database): CronStorage {
  const get = ({ deployment, filter }: Scope, cron_id: string): Promise<CronRow | null> =>
    readOne(driver, selectCron({ deployment, cron_id }, filter), toCron);

  return {
    /**
     * @statements insertCron · insertIndexEntries · selectVisibleThread
     * @guards insert where assistant and thread exist · labels.
     */
    async createCron({ deployment }, cron, now) {
      const { cron_id, assistant_id, thread_id, user_id } = cron;
      const columns = { assistant_id, thread_id, user_id, auth_user: encodeJson(cron.auth_user), ...toContent(cron) };
      const [inserted] = await driver.batch([
        insertCron({ deployment, cron_id, ...columns, now }),
        ...insertIndexEntries("cron", deployment, cron_id, cron.metadata),
      ]);
      if (inserted?.[0]) return { kind: "created", cron: toCron(inserted[0]) };
      const threadExists =
        thread_id === null || (await driver.read(selectVisibleThread({ deployment, thread_id }))).length > 0;
      return { kind: threadExists ? "assistant_not_found" : "thread_not_found" };
    },

    /** @statements selectCron */
    getCron: get,

    /**
     * @statements searchRows
     * @guards As searchAssistants.
     */
    async searchCrons(scope, query) {
      const { rows, total } = await searchRows(driver, selectCrons, toSearch(scope, query), query);
      return { rows: rows.map(toCron), total };
    },

    /**
     * Stores the result of `next`. Calls it again if the cron changed meanwhile. Returns null if there is none.
     * @statements selectCron · updateCron · replaceIndexEntries
     * @guards read · update where `revision` and `next_run_date` are as seen · labels; retries.
     */
    async updateCron(scope, cron_id, next, now) {
      const { deployment } = scope;
      for (;;) {
        const cron = await get(scope, cron_id);
        if (!cron) return null;
        const content = next(cron);
        const expected = { expected_revision: cron.revision, expected_run_date: cron.next_run_date };
        const [updated] = await driver.batch([
          updateCron({ deployment, cron_id, ...toContent(content), ...expected, now }),
          ...replaceIndexEntries("cron", deployment, cron_id, content.metadata),
        ]);
        if (updated?.[0]) return toCron(updated[0]);
      }
    },

    /**
     * @statements deleteCron · deleteIndexEntries
     * @guards delete · labels if it is gone.
     */
    async deleteCron({ deployment, filter }, cron_id) {
      const [deleted] = await driver.batch([
        deleteCron({ deployment, cron_id }, filter),
        deleteIndexEntries("cron", deployment, cron_id),
      ]);
      return deleted?.length === 1;
    },

    /** @statements selectEnabledCrons */
    listEnabledCrons({ deployment }, { due_by, failures, limit }) {
      const shape = { by_date: due_by !== undefined, failing: failures !== undefined };
      const args = { deployment, due_by: due_by ?? 0, failures: failures ?? 0, limit };
      return readAll(driver, selectEnabledCrons(shape, args), toCron);
    },

    /**
     * @statements insertSkippedFirings · advanceCron · isFiringOpen · readNotCreatedResult · createRunStatements · insertFiring
     * @guards the statements of `createRun`, which also require that the cron is as seen and the fire time has no firing ·
     *   insert the firing from the run · skipped fire times · advance `next_run_date` where it is as seen. The primary key of
     *   `cron_firings` makes a fire time fire once. Without a run to create: skipped fire times · advance.
     */
    fireCron: createFireCron(driver),

    /**
     * @statements insertManualFiring
     * @guards insert the firing of a run that was created by hand, where the cron exists.
     */
    async recordFiring({ deployment }, { cron_id, fired_at, run_id }) {
      await driver.batch(
        [insertManualFiring({ deployment, cron_id, now: fired_at, run_id })],
        [`cron ${deployment} ${cron_id}`],
      );
    },

    /** @statements selectFirings */
    listCronFirings: ({ deployment }, cron_id, { limit, offset }) =>
      readAll(driver, selectFirings({ deployment, cron_id, limit, offset }), toFiring),
  };
}

const encodeSkipped = (skipped: FireCron["skipped"]): string =>
  JSON.stringify(skipped.map(({ scheduled_at, reason }) => [scheduled_at, reason]));

/** Returns the search for crons. `enabled` true or false becomes a condition; without it crons of both states match. */
function toSearch(
  { deployment, filter }: Scope,
  { metadata, assistant_id, thread_id, enabled }: CronQuery,
): MetadataSearch {
  const state = { enabled: enabled === true ? "" : undefined, disabled: enabled === false ? "" : undefined };
  return { kind: "cron", deployment, metadata, filter, where: { assistant_id, thread_id, ...state } };
}

/** Returns the columns of a cron's content. `payload` and `metadata` become JSON text, `enabled` 1 or 0. */
function toContent(cron: CronContent): Content {
  return {
    on_run_completed: cron.on_run_completed,
    schedule: cron.schedule,
    timezone: cron.timezone,
    end_time: cron.end_time,
    enabled: cron.enabled ? 1 : 0,
    next_run_date: cron.next_run_date,
    payload: JSON.stringify(cron.payload),
    metadata: JSON.stringify(cron.metadata),
  };
}

/** Converts a row, without its deployment. */
function toCron({ deployment: _, ...stored }: Row): CronRow {
  return {
    ...stored,
    on_run_completed: stored.on_run_completed as OnRunCompleted | null,
    enabled: stored.enabled === 1,
    payload: JSON.parse(stored.payload) as JsonObject,
    metadata: JSON.parse(stored.metadata) as JsonObject,
    auth_user: decodeJson<JsonObject>(stored.auth_user),
  };
}

/** Converts a row. Only a firing by hand has the member `manual`. */
function toFiring(row: CoreTables["cron_firings"]): CronFiring {
  const { cron_id, scheduled_at, fired_at, run_id, skipped, manual } = row;
  const firing = { cron_id, scheduled_at, fired_at, run_id, skipped: skipped as SkipReason | null };
  return manual === 1 ? { ...firing, manual: true } : firing;
}
