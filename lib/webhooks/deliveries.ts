/** The JSON form of webhook deliveries. */
import type { IsoTime, Uuid } from "../json.ts";
import { formatIsoTime } from "../rfc3339.ts";
import { type CursorPage, type CursorQuery, decodeCursor, encodeCursor } from "../storage/cursor.ts";
import type { DeliveryRow, DeliveryState, DeliveryStorage, Scope, TerminalStatus } from "../storage/mod.ts";
import { redactUrl } from "./policy.ts";

/** The webhook of a run, or a push notification of A2A about it. */
export interface DeliverySummary {
  /** The id of the run; a push notification has an id of its own. */
  readonly delivery_id: Uuid;
  readonly run_id: Uuid;
  readonly thread_id: Uuid;
  readonly assistant_id: Uuid;
  readonly run_status: TerminalStatus;
  /** The URL with `?…` for its query, which may hold a secret. */
  readonly url: string;
  readonly host: string;
  readonly state: DeliveryState;
  readonly attempts: number;
  readonly created_at: IsoTime;
  readonly first_sent_at: IsoTime | null;
  /** The time of the next attempt; null unless the delivery is pending. */
  readonly next_attempt_at: IsoTime | null;
}

/** A delivery with its attempts. */
export interface DeliveryDetail extends DeliverySummary {
  readonly attempt_list: readonly {
    readonly number: number;
    readonly at: IsoTime;
    readonly status: number | null;
    readonly error: string | null;
    readonly duration_ms: number;
    readonly address: string | null;
    /** The first 2 KiB of the response body; null for a relative URL, without a body, and if it is no text. */
    readonly answer: string | null;
  }[];
}

/** The filters and the page of a list of deliveries. */
export interface DeliveryListQuery extends CursorQuery {
  readonly state?: readonly DeliveryState[];
  readonly thread_id?: string;
}

/**
 * Returns a page of deliveries, newest first, 50 without a limit. `next` is the cursor of the next page; null if this one is
 * not full. Throws `invalid` for a wrong cursor.
 */
export async function listDeliveries(
  storage: DeliveryStorage,
  scope: Scope,
  { limit = 50, cursor, ...query }: DeliveryListQuery,
): Promise<CursorPage<DeliverySummary>> {
  const rows = await storage.listDeliveries(scope, { ...query, ...decodeCursor(cursor), limit });
  const last = rows.length === limit ? rows.at(-1) : undefined;
  const next = last ? { created_at: last.created_at, id: last.delivery_id } : null;
  return { items: rows.map(toDeliverySummary), next: encodeCursor(next) };
}

/** Returns the delivery of a run with its attempts, or null if there is none. */
export async function findDelivery(
  storage: DeliveryStorage,
  scope: Scope,
  run_id: string,
): Promise<DeliveryDetail | null> {
  const [row] = await storage.listDeliveries(scope, { run_id, limit: 1 });
  if (!row) return null;
  const attempts = await storage.listAttempts(scope, run_id);
  return {
    ...toDeliverySummary(row),
    attempt_list: attempts.map(({ number, at, status, error, duration_ms, address, answer = null }) => ({
      ...{ number, at: formatIsoTime(at), status, error, duration_ms, address, answer },
    })),
  };
}

/** Converts a row. Redacts the query of the URL. Only a pending delivery has a time of its next attempt. */
function toDeliverySummary(row: DeliveryRow): DeliverySummary {
  return {
    delivery_id: row.delivery_id,
    run_id: row.run.run_id,
    thread_id: row.run.thread_id,
    assistant_id: row.run.assistant_id,
    run_status: row.run.status,
    url: redactUrl(row.url),
    host: row.host,
    state: row.state,
    attempts: row.attempts,
    created_at: formatIsoTime(row.created_at),
    first_sent_at: formatIsoTime(row.sent_at),
    next_attempt_at: row.state === "pending" ? formatIsoTime(row.due_at) : null,
  };
}
