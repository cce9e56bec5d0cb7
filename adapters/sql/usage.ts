/**
 * Traces and usage counts. Traces are the source; `usage_hourly` has the sums of each hour before the seal. A batch that writes a
 * trace of such an hour also adds it to the sum. '' means null in its key columns.
 */
import type { TraceRow, TraceUsage, UsageQuery, UsageStorage } from "../../lib/storage/mod.ts";
import { type Database, readOne } from "./database.ts";
import type { SqlFeatureFor } from "./feature.ts";
import type { RowsOf } from "./schema/tables.ts";
import { usageTables } from "./schema/usage.ts";
import {
  addClaimedTrace,
  addCreatedTrace,
  addLeasedTraceUsage,
  addTraceUsage,
  countTraces,
  insertClaimedTrace,
  insertCreatedTrace,
  moveSeal,
  selectTrace,
  selectUnsealed,
  sumHours,
  sumTraceUsage,
} from "./statements/usage.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Earlier than every time: sums start here while no hour is sealed. */
const MIN_TIME_MS = -8_640_000_000_000_000;

export const usage: SqlFeatureFor<"usage", typeof usageTables> = {
  tables: usageTables,
  /**
   * Returns the statements for the trace of a first attempt; none without a trace. They have no effect if the run has one
   * already. A counted trace of a sealed hour is also added to its sum.
   */
  onRunClaimed(deployment, { token, trace }, created) {
    if (!trace) return [];
    const { workspace_id, project_id, counted } = trace;
    const claimed = { deployment, token, workspace_id, project_id, counted: counted ? 1 : 0 };
    const insert = created ? insertCreatedTrace({ ...claimed, ...created }) : insertClaimedTrace(claimed);
    if (!counted) return [insert];
    return [created ? addCreatedTrace({ ...claimed, ...created }) : addClaimedTrace(claimed), insert];
  },
  onAttemptFinished: (fence, { usage: reported }) => (reported ? [addLeasedTraceUsage({ ...fence, ...reported })] : []),
  operations: createUsageStorage,
};

const floorTo = (moment: number, unit: number): number => Math.floor(moment / unit) * unit;

/**
 * Returns the full hours between two times. Returns an empty range at `start` if there are none or the buckets would split an
 * hour.
 */
function fullHours({ start, end, origin, stride_ms }: UsageQuery): { hours_from: number; hours_to: number } {
  const hours_from = floorTo(start + HOUR_MS - 1, HOUR_MS);
  const hours_to = floorTo(end, HOUR_MS);
  const onHours = origin % HOUR_MS === 0 && stride_ms % HOUR_MS === 0;
  return onHours && hours_from < hours_to ? { hours_from, hours_to } : { hours_from: start, hours_to: start };
}

// --------------------------------------------------------- storage operations

/** Creates the storage operations on traces and usage counts. */
function createUsageStorage(driver: Database): UsageStorage {
  return {
    /** @statements selectTrace */
    getTrace: (trace_id) => readOne(driver, selectTrace({ trace_id }), toTrace),
    /**
     * @statements addTraceUsage
     * @guards one update, which has no effect without a trace. The engine calls it for attempts that do not end their
     *   run.
     */
    async addTraceUsage(run_id, { tokens_in, tokens_out, cost_usd }) {
      await driver.batch([addTraceUsage({ run_id, tokens_in, tokens_out, cost_usd })], []);
    },
    /**
     * Counts traces by bucket and group, with tokens if requested.
     * @statements sumTraceUsage · countTraces
     * @guards With `tokens` it sums only traces: an hour is sealed before its last run has ended.
     */
    async countUsage(query) {
      const { workspace_ids, start, end, origin, stride_ms } = query;
      // Division rounds towards zero, so the first bucket must start before every trace.
      const before = Math.max(0, Math.ceil((origin - start) / stride_ms));
      const shape = { group: query.group_by };
      const args = {
        workspace_ids: JSON.stringify(workspace_ids),
        ...{ start, end, stride_ms },
        origin: origin - before * stride_ms,
      };
      /** Converts a row to numbers. Buckets count from `origin`, so that those before it are negative. */
      const toCount = ({
        bucket,
        dimension,
        traces,
      }: {
        bucket: number;
        dimension: string | null;
        traces: number;
      }) => ({
        bucket: Number(bucket) - before,
        dimension,
        traces: Number(traces),
      });
      if (!query.tokens) return (await driver.read(countTraces(shape, { ...args, ...fullHours(query) }))).map(toCount);
      const rows = await driver.read(sumTraceUsage(shape, args));
      return rows.map((row) => ({ ...toCount(row), ...toUsage(row) }));
    },
    /**
     * Sums at most a day of hours before `before`. Returns true if more hours are left.
     * @statements selectUnsealed · sumHours · moveSeal
     * @guards read the seal · sum at most a day of hours where the seal is as seen · move the seal where it is as seen.
     */
    async sealUsage(before) {
      const last = floorTo(before, HOUR_MS);
      const [row] = await driver.read(selectUnsealed({}));
      const sealed = row?.sealed == null ? MIN_TIME_MS : Number(row.sealed);
      if (sealed >= last) return false;
      // Sums start at the seal, not at the trace that was found: an earlier trace may be written in between.
      const until = row?.next == null ? last : Math.min(last, floorTo(Number(row.next), HOUR_MS) + DAY_MS);
      await driver.batch([sumHours({ sealed, until }), moveSeal({ sealed, until })]);
      return until < last;
    },
  };
}

/** Converts tokens and cost to numbers, because databases may return sums as text. */
const toUsage = ({ tokens_in, tokens_out, cost_usd }: TraceUsage): TraceUsage => ({
  tokens_in: Number(tokens_in),
  tokens_out: Number(tokens_out),
  cost_usd: Number(cost_usd),
});

function toTrace(row: RowsOf<typeof usageTables>["traces"]): TraceRow {
  const { trace_id, thread_id, workspace_id, project_id, user_id, api_key } = row;
  return {
    ...{ trace_id, thread_id, workspace_id, project_id, user_id, api_key },
    started_at: Number(row.started_at),
    counted: row.counted === 1,
    usage: toUsage(row),
  };
}
