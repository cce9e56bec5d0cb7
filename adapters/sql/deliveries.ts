/** Webhook deliveries: the outbox that ending runs write to, and the storage operations of its senders. */
import { sql } from "kysely";
import type { JsonObject } from "../../lib/json.ts";
import type {
  DeliveryAttempt,
  DeliveryQuery,
  DeliveryRow,
  DeliveryState,
  DeliveryStorage,
  MultitaskStrategy,
  PushConfig,
  PushStorage,
  Scope,
  TerminalStatus,
  TraceOrigin,
} from "../../lib/storage/mod.ts";
import { decodeJson } from "./columns.ts";
import { type Database, readAll, readOne } from "./database.ts";
import type { SqlFeatureFor } from "./feature.ts";
import { toFilterArgument } from "./filter-argument.ts";
import { createPushStatements, createPushStorage } from "./pushes.ts";
import type { Statement } from "./query.ts";
import { deliveryTables, pushTables } from "./schema/deliveries.ts";
import type { RowsOf } from "./schema/tables.ts";
import {
  claimDeliveries,
  insertAttempt,
  insertDeliveries,
  releaseDelivery,
  restartDelivery,
  selectAttempts,
  selectDeliveries,
  selectNextDue,
} from "./statements/deliveries.ts";

type Rows = RowsOf<typeof deliveryTables>;

export const webhooks: SqlFeatureFor<
  "webhooks",
  typeof deliveryTables & typeof pushTables,
  { runs: "webhook" | "webhook_host" | "webhook_depth" }
> = {
  tables: { ...deliveryTables, ...pushTables },
  runColumns: {
    webhook: ({ webhook }) => webhook?.url ?? null,
    webhook_host: ({ webhook }) => webhook?.host ?? null,
    webhook_depth: ({ webhook }) => webhook?.depth ?? 0,
  },
  /**
   * Returns the statements of a new run for push configurations. A run that an A2A request created with a resume value
   * continues the task of the run before it.
   */
  onRunCreated(deployment, { run: { run_id, thread_id, metadata, kwargs, push }, now }) {
    const resumes = metadata.created_by === "a2a" && (kwargs.command as JsonObject | undefined)?.resume !== undefined;
    return createPushStatements({ deployment, thread_id, run_id }, push, resumes, now);
  },
  onRunsEnded: insertDeliveries,
  retention: {
    table: "webhook_deliveries",
    key: "delivery_id",
    time: "created_at",
    condition: sql`state <> 'pending'`,
  },
  operations: createDeliveryStorage,
};

const STATES = ["pending", "delivered", "failed"] as const;

/**
 * Returns the statement that reads the deliveries of the query, at most `limit` after the position `after`. Without states, all
 * states match.
 */
function toSelect({ deployment, filter }: Scope, query: DeliveryQuery): Statement<Rows["webhook_deliveries"]> {
  const { state = [], run_id, thread_id, after, limit } = query;
  const states = [state].flat();
  const argument = toFilterArgument(filter);
  const shape = {
    states: STATES.filter((name) => states.includes(name)),
    of_run: run_id !== undefined,
    of_thread: thread_id !== undefined,
    after: after !== undefined,
    filtered: argument !== null,
  };
  return selectDeliveries(shape, {
    ...{ deployment, run_id: run_id ?? "", thread_id: thread_id ?? "", filter: argument ?? "", limit },
    ...{ after_created_at: after?.created_at ?? 0, after_id: after?.id ?? "" },
  });
}

/**
 * Creates the storage operations on webhook deliveries. `hasWorkerLock` returns true if this process holds the worker lock, if
 * the database has one; claims of an earlier holder are then free.
 */
function createDeliveryStorage(driver: Database, hasWorkerLock: () => boolean): DeliveryStorage & PushStorage {
  return {
    ...createPushStorage(driver),

    /**
     * Claims at most `limit` due deliveries for `token` until `until`, and returns them, earliest first. Counts an attempt for
     * each. A delivery with an expired claim is due.
     * @statements claimDeliveries
     * @guards one update of due rows, at most `per_host` per host including those being sent; sets token and
     *   `claimed_until`, `attempts + 1`.
     */
    async claimDeliveries({ deployment }, { token, until, now, limit, per_host }) {
      const claimant = hasWorkerLock() ? `worker ${token}` : token;
      const [claimed] = await driver.batch(
        [claimDeliveries({ deployment, token: claimant, until, now, limit, per_host })],
        [`deliveries ${deployment}`],
      );
      const rows = claimed.map(toDelivery);
      return rows.sort((a, b) => a.due_at - b.due_at || (a.delivery_id < b.delivery_id ? -1 : 1));
    },

    /**
     * Stores an attempt, sets the state of its delivery (`pending` with the next due time), and releases the claim. An
     * uncounted attempt is taken off the retry series. Returns false, and stores nothing, if the claim is lost.
     * @statements insertAttempt · releaseDelivery
     * @guards insert the attempt where claimed · set state and `due_at`, release the claim where claimed.
     */
    async recordDeliveryAttempt({ deployment }, token, attempt, result) {
      const fence = { deployment, delivery_id: attempt.delivery_id, token };
      const { number, at, status, error, duration_ms, address, answer = null } = attempt;
      const due_at = result.state === "pending" ? result.due_at : null;
      const uncounted = result.state === "pending" && result.uncounted ? 1 : 0;
      const [, released] = await driver.batch(
        [
          insertAttempt({ ...fence, number, at, status, error, duration_ms, address, answer }),
          releaseDelivery({ ...fence, state: result.state, due_at, uncounted }),
        ],
        [`delivery ${attempt.delivery_id}`],
      );
      return released.length === 1;
    },

    /** @statements selectNextDue */
    getNextDeliveryTime: ({ deployment }) => readOne(driver, selectNextDue({ deployment }), ({ due_at }) => due_at),

    /** @statements selectDeliveries */
    listDeliveries: (scope, query) => readAll(driver, toSelect(scope, query), toDelivery),

    /** @statements selectAttempts */
    listAttempts: ({ deployment, filter }, delivery_id) =>
      readAll(driver, selectAttempts({ deployment, delivery_id }, filter), toAttempt),

    /**
     * Makes a delivery of any state pending and due now, with a new retry series. Returns false, and changes nothing, while an
     * attempt is in progress, or if the delivery does not exist or is not visible.
     * @statements restartDelivery
     * @guards `pending` with a new series, where no attempt is under way and the thread is visible.
     */
    async redeliver({ deployment, filter }, delivery_id, now) {
      const restart = restartDelivery({ deployment, delivery_id, now }, filter);
      const [restarted] = await driver.batch([restart], [`delivery ${delivery_id}`]);
      return restarted.length === 1;
    },
  };
}

/** Converts a row. `push` is there only for the delivery of a push configuration, with the interrupts of its run. */
function toDelivery(stored: Rows["webhook_deliveries"]): DeliveryRow {
  return {
    delivery_id: stored.delivery_id,
    url: stored.url,
    host: stored.host,
    state: stored.state as DeliveryState,
    attempts: stored.attempts,
    series_attempts: stored.series_attempts,
    due_at: stored.due_at,
    sent_at: stored.sent_at,
    depth: stored.depth,
    created_at: stored.created_at,
    ...(stored.push === null
      ? {}
      : {
          push: {
            ...(JSON.parse(stored.push) as PushConfig),
            interrupts: decodeJson<JsonObject>(stored.interrupts) ?? {},
          },
        }),
    run: {
      run_id: stored.run_id,
      thread_id: stored.thread_id,
      assistant_id: stored.assistant_id,
      ...(stored.assistant_version === null ? {} : { assistant_version: stored.assistant_version }),
      status: stored.status as TerminalStatus,
      metadata: JSON.parse(stored.metadata) as JsonObject,
      kwargs: JSON.parse(stored.kwargs) as JsonObject,
      multitask_strategy: stored.multitask_strategy as MultitaskStrategy,
      attempt: stored.attempt,
      stateless: stored.stateless === 1,
      created_at: stored.run_created_at,
      started_at: stored.started_at,
      ended_at: stored.ended_at,
      error: decodeJson<JsonObject>(stored.error),
      values: stored.state_values,
      values_omitted: stored.values_omitted === 1,
      ...(stored.cancel_reason === null ? {} : { cancel_reason: stored.cancel_reason }),
      ...(stored.trace_origin === null ? {} : { trace_origin: JSON.parse(stored.trace_origin) as TraceOrigin }),
    },
  };
}

function toAttempt({ answer, ...attempt }: Rows["delivery_attempts"]): DeliveryAttempt {
  return answer === null ? attempt : { ...attempt, answer };
}
