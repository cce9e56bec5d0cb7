/** Answers of the routes that the SDK does not have. */
export interface Listed<T> {
  readonly items: readonly T[];
  readonly next: string | null;
}

export type RunStatus = "pending" | "running" | "success" | "error" | "timeout" | "interrupted";
export type ThreadStatus = "idle" | "busy" | "interrupted" | "error";
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

export interface ThreadRow {
  readonly thread_id: string;
  readonly title: string | null;
  readonly status: ThreadStatus;
  readonly graph_id: string | null;
  readonly assistant_id: string | null;
  readonly created_at: string;
  readonly updated_at: string;
  readonly metadata: Readonly<Record<string, unknown>>;
}

export interface Usage {
  readonly tokens_in: number;
  readonly tokens_out: number;
  readonly cost_usd: number;
}

export interface RunRow {
  readonly run_id: string;
  readonly thread_id: string;
  readonly assistant_id: string;
  readonly graph_id: string;
  readonly status: RunStatus;
  readonly attempt: number;
  readonly claims: number;
  readonly multitask_strategy: string;
  readonly temporary: boolean;
  readonly lease_until: string | null;
  readonly cancel_requested: boolean;
  readonly cancel_reason: string | null;
  readonly created_at: string;
  readonly updated_at: string;
  readonly started_at: string | null;
  readonly ended_at: string | null;
  readonly wait_ms: number | null;
  readonly duration_ms: number | null;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly started_by: {
    readonly user_id: string | null;
    readonly api_key: string | null;
    readonly cron_id: string | null;
  };
  readonly usage: Usage | null;
  readonly error: { readonly error: string; readonly message: string } | null;
  readonly webhook: boolean;
}

export interface DeliveryRow {
  readonly run_id: string;
  readonly thread_id: string;
  readonly assistant_id: string;
  readonly run_status: RunStatus;
  readonly url: string;
  readonly host: string;
  readonly state: "pending" | "delivered" | "failed";
  readonly attempts: number;
  readonly created_at: string;
  readonly first_sent_at: string | null;
  readonly next_attempt_at: string | null;
}

export interface Delivery extends DeliveryRow {
  readonly attempt_list: readonly {
    readonly number: number;
    readonly at: string;
    readonly status: number | null;
    readonly error: string | null;
    readonly duration_ms: number;
    readonly address: string | null;
    readonly answer: string | null;
  }[];
}

export interface RunDetail extends RunRow {
  readonly kwargs: Readonly<Record<string, unknown>>;
  readonly result: unknown;
  readonly checkpoint_id: string | null;
  readonly frames: { readonly stored: boolean; readonly end: number };
  readonly turn: number;
  readonly seq: number;
  readonly delivery: Delivery | null;
  readonly feedback: readonly {
    readonly feedback_key: string;
    readonly created_at: string;
    readonly expires_at: string | null;
  }[];
  readonly not_stored: readonly string[];
}

export interface Percentiles {
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
}

export interface RunStats {
  readonly since: string;
  readonly until: string;
  readonly statuses: Readonly<Record<RunStatus, number>>;
  readonly minutes: readonly {
    readonly minute: string;
    readonly created: number;
    readonly started: number;
    readonly ended: number;
    readonly failed: number;
    readonly queued: number;
    readonly wait_ms: Percentiles | null;
    readonly duration_ms: Percentiles | null;
  }[];
  readonly complete: boolean;
}

export interface WaitingInterrupt {
  readonly interrupt_id: string;
  readonly task_id: string;
  readonly node: string | null;
  readonly value: unknown;
}

export interface InboxItem {
  readonly thread_id: string;
  readonly title: string | null;
  readonly graph_id: string | null;
  readonly assistant_id: string | null;
  readonly since: string;
  readonly age_ms: number;
  readonly interrupts: readonly WaitingInterrupt[];
}

export interface CronDetail {
  readonly cron_id: string;
  readonly enabled: boolean;
  readonly failures: number;
  readonly max_failures: number | null;
  readonly disabled_reason: string | null;
  readonly next: readonly string[];
  readonly firings: readonly {
    readonly scheduled_at: string;
    readonly fired_at: string;
    readonly manual: boolean;
    readonly run_id: string | null;
    readonly run_status: RunStatus | null;
    readonly thread_id: string | null;
    readonly skipped: string | null;
  }[];
}

export interface ServerInfo {
  readonly version: string;
  readonly api_version: string;
  readonly langgraph_js_version: string | null;
  readonly runtime: string;
  readonly deployment: string;
  readonly uptime_seconds: number;
  readonly database: { readonly kind: string | null; readonly ok: boolean; readonly shared: boolean };
  readonly health: {
    readonly ok: boolean;
    readonly ready: boolean;
    readonly detail: string | null;
    readonly draining: boolean;
    readonly standby: boolean;
  };
  readonly worker: Readonly<Record<string, unknown>>;
  readonly queue: Readonly<Record<string, number>>;
  readonly webhooks: Readonly<Record<string, number>>;
  readonly crons: { readonly fired: number; readonly skipped: Readonly<Record<string, number>> };
  readonly configuration: Readonly<Record<string, unknown>>;
}

export interface ScoreSeries {
  readonly start: string;
  readonly end: string;
  readonly stride: string;
  readonly keys: readonly {
    readonly key: string;
    readonly buckets: readonly {
      readonly start: string;
      readonly n: number;
      readonly avg: number | null;
      readonly min: number | null;
      readonly max: number | null;
    }[];
  }[];
}

export interface FeedbackLink {
  readonly id: string;
  readonly url: string;
  readonly run_id: string;
  readonly feedback_key: string;
  readonly created_at: string;
  readonly expires_at: string | null;
  readonly submissions: number;
}
