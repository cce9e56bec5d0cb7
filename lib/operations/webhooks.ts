/** Webhook deliveries, as the API shows them. */
import { ServiceError } from "../errors.ts";
import { isoTime } from "../rfc3339.ts";
import type { DeliveryRow, DeliveryState, Scope, Storage, TerminalStatus } from "../storage/mod.ts";
import { type Visibility, withVisibility } from "../storage/visibility.ts";
import { shownUrl } from "../webhooks/policy.ts";
import { type Cursor, cursorOf, type Listing, type OperationOptions, positionOf } from "./list.ts";

/** A delivery: the webhook of one run. Its id is the run's. */
export interface DeliverySummary {
  readonly run_id: string;
  readonly thread_id: string;
  readonly assistant_id: string;
  readonly run_status: TerminalStatus;
  /** With `?…` for its query, which may hold a secret. */
  readonly url: string;
  readonly host: string;
  readonly state: DeliveryState;
  readonly attempts: number;
  readonly created_at: string;
  readonly first_sent_at: string | null;
  /** Null unless it is pending. */
  readonly next_attempt_at: string | null;
}

export interface DeliveryDetail extends DeliverySummary {
  readonly attempt_list: readonly {
    readonly number: number;
    readonly at: string;
    readonly status: number | null;
    readonly error: string | null;
    readonly duration_ms: number;
    readonly address: string | null;
    /** The first 2 KiB of the answer's body; null for a relative URL, without a body, and where it is no text. */
    readonly answer: string | null;
  }[];
}

export interface WebhookOperations {
  /** Newest first. Default limit: 50. Errors: invalid (the cursor). */
  listDeliveries(
    query?: Cursor & { readonly state?: readonly DeliveryState[]; readonly thread_id?: string },
    visibility?: Visibility,
  ): Promise<Listing<DeliverySummary>>;
  /** Errors: not_found. */
  inspectDelivery(run_id: string, visibility?: Visibility): Promise<DeliveryDetail>;
  /** Makes it due now, with a new series of retries. Errors: not_found, conflict (an attempt is under way). */
  sendAgain(run_id: string, visibility?: Visibility): Promise<void>;
}

export function webhookOperations({ storage, scope, deliveries }: OperationOptions): WebhookOperations {
  return {
    async listDeliveries({ limit = 50, cursor, ...query } = {}, visibility) {
      const { after } = positionOf(cursor);
      const place = after ? { after: { created_at: after.created_at, delivery_id: after.id } } : {};
      const visible = withVisibility(scope, visibility);
      const rows = await storage.listDeliveries(visible, { ...query, ...place, limit, offset: 0 });
      const last = rows.length === limit ? rows.at(-1) : undefined;
      const next = last ? { created_at: last.created_at, id: last.delivery_id } : null;
      return { items: rows.map(summaryOf), next: cursorOf(next) };
    },

    async inspectDelivery(run_id, visibility) {
      const found = await deliveryDetail(storage, withVisibility(scope, visibility), run_id.toLowerCase());
      if (!found) throw new ServiceError("not_found", `Webhook delivery ${run_id} not found`);
      return found;
    },

    sendAgain: (run_id, visibility) => deliveries.redeliver(run_id.toLowerCase(), visibility),
  };
}

/** The delivery of a run with its attempts; null where there is none. */
export async function deliveryDetail(storage: Storage, scope: Scope, run_id: string): Promise<DeliveryDetail | null> {
  const row = await storage.getDelivery(scope, run_id);
  if (!row) return null;
  const attempts = await storage.listAttempts(scope, run_id);
  return {
    ...summaryOf(row),
    attempt_list: attempts.map(({ number, at, status, error, duration_ms, address, answer = null }) => ({
      ...{ number, at: isoTime(at), status, error, duration_ms, address, answer },
    })),
  };
}

function summaryOf(row: DeliveryRow): DeliverySummary {
  return {
    run_id: row.run.run_id,
    thread_id: row.run.thread_id,
    assistant_id: row.run.assistant_id,
    run_status: row.run.status,
    url: shownUrl(row.url),
    host: row.host,
    state: row.state,
    attempts: row.attempts,
    created_at: isoTime(row.created_at),
    first_sent_at: isoTime(row.sent_at),
    next_attempt_at: row.state === "pending" ? isoTime(row.due_at) : null,
  };
}
