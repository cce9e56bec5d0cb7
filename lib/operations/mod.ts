/** What an operator asks of a deployment as a whole, over all threads and of the server: the routes under `/greenroom`, as calls. */

import { DEFAULTS, type ServiceOptions } from "../options.ts";
import { type Caller, requireOfOrganization } from "../storage/identity.ts";
import { withDefaults } from "../validation.ts";
import { type CronOperations, cronOperations } from "./crons.ts";
import { type FeedbackOperations, feedbackOperations } from "./feedback.ts";
import type { OperationOptions, ServerFacts } from "./list.ts";
import { type RunOperations, runOperations } from "./runs.ts";
import { type ThreadOperations, threadOperations } from "./threads.ts";
import { type WebhookOperations, webhookOperations } from "./webhooks.ts";

export type { SchedulePreview } from "./crons.ts";
export type { ScoreQuery, ScoreStride } from "./feedback.ts";
export type { Cursor, Listing } from "./list.ts";

export type { PrepareAgain, RunDetail, RunListQuery, RunStats, RunSummary } from "./runs.ts";
export type { ThreadListQuery } from "./threads.ts";

/** Looks at a whole deployment. A call with a visibility filter sees what belongs to threads, or crons, that the filter permits. */
export interface Operations
  extends RunOperations,
    ThreadOperations,
    CronOperations,
    WebhookOperations,
    FeedbackOperations,
    ServerOperations {}

/** Calls that create runs. */
export const CREATING_OPERATIONS: ReadonlySet<string> = new Set(["runAgain", "runCron"]);

export function createOperations(options: OperationOptions): Operations {
  return {
    ...runOperations(options),
    ...threadOperations(options),
    ...cronOperations(options),
    ...webhookOperations(options),
    ...feedbackOperations(options),
    ...serverOperations(options),
  };
}

export interface ServerReport extends Pick<ServerFacts, "version" | "api_version" | "langgraph_js_version"> {
  /** The runtime with its version, such as `Node.js/24`; null where it is not known. */
  readonly runtime: string | null;
  readonly deployment: string;
  readonly uptime_seconds: number;
  /** `shared`: several processes may work on it. */
  readonly database: { readonly kind: string | null; readonly ok: boolean; readonly shared: boolean };
  readonly health: {
    readonly ok: boolean;
    readonly ready: boolean;
    readonly detail: string | null;
    readonly draining: boolean;
    readonly standby: boolean;
  };
  readonly worker: ServerFacts["metrics"]["worker"] & { readonly slots: number };
  readonly queue: ServerFacts["metrics"]["runs"] & { readonly oldest_pending_seconds: number };
  readonly webhooks: ServerFacts["metrics"]["webhooks"];
  readonly crons: ServerFacts["metrics"]["crons"];
  /** Options in effect, by name: numbers, switches and modes alone. */
  readonly configuration: Readonly<Record<string, string | number | boolean | null>>;
}

interface ServerOperations {
  /** Errors: forbidden: it needs `organization:manage`. */
  server(by: Caller): Promise<ServerReport>;
}

function serverOperations({ storage, options, environment, facts }: OperationOptions): ServerOperations {
  return {
    async server(by) {
      requireOfOrganization(by, "organization:manage");
      const { metrics, ready, healthy, database_ok, version, api_version, langgraph_js_version } = await facts();
      const { uptime_seconds, draining, standby, runs, oldest_pending_seconds, webhooks, crons } = metrics;
      const { concurrency: slots } = withDefaults(DEFAULTS.worker, options.worker);
      const { executing, claims, started, retried, leases_lost, ended } = metrics.worker;
      return {
        version,
        api_version,
        ...(langgraph_js_version === undefined ? {} : { langgraph_js_version }),
        runtime: environment.runtime ?? null,
        deployment: options.deployment?.name ?? "default",
        uptime_seconds,
        database: { kind: storage.kind ?? null, ok: database_ok, shared: storage.multi_process ?? false },
        health: { ok: healthy, ready: ready.ok, detail: ready.detail ?? null, draining, standby },
        worker: { slots, executing, claims, started, retried, leases_lost, ended },
        queue: { ...runs, oldest_pending_seconds },
        webhooks,
        crons,
        configuration: configurationOf(options),
      };
    },
  };
}

/** Every name is written here: an option that is added later is not shown before it was reviewed. */
function configurationOf(options: ServiceOptions): ServerReport["configuration"] {
  const worker = withDefaults(DEFAULTS.worker, options.worker);
  const limits = withDefaults(DEFAULTS.limits, options.limits);
  const retention = withDefaults(DEFAULTS.retention, options.retention);
  const feedback = withDefaults(DEFAULTS.feedback, options.feedback);
  const usage = withDefaults(DEFAULTS.usage, options.usage);
  const crons = withDefaults(DEFAULTS.crons, options.crons);
  const { auth = {}, checkpointer, store, http = {}, webhooks } = options;
  return {
    "auth.mode": auth.mode ?? (auth.custom ? "custom" : "none"),
    "auth.shared_agents": auth.shared_agents ?? "read",
    "worker.concurrency": worker.concurrency,
    "worker.lease_ms": worker.lease_ms,
    "worker.run_timeout_ms": worker.run_timeout_ms,
    "limits.pending_per_thread": limits.pending_per_thread,
    "limits.pending": limits.pending,
    "retention.frames_ms": retention.frames_ms,
    "retention.stateless_ms": retention.stateless_ms,
    "retention.idempotency_ms": retention.idempotency_ms,
    "retention.tokens_ms": retention.tokens_ms,
    "retention.deliveries_ms": retention.deliveries_ms,
    "feedback.token_ttl_ms": feedback.token_ttl_ms,
    "feedback.external_runs": feedback.external_runs,
    "usage.enabled": usage.enabled,
    "usage.unreadable_workspaces": usage.unreadable_workspaces,
    "crons.enabled": crons.enabled,
    "crons.misfire_grace_ms": crons.misfire_grace_ms,
    "crons.max_failures": options.crons?.max_failures ?? null,
    "checkpointer.ttl.strategy": checkpointer?.ttl?.strategy ?? null,
    "checkpointer.ttl.default_ttl": checkpointer?.ttl?.default_ttl ?? null,
    "store.index": store?.index !== undefined,
    "http.disable_webhooks": http.disable_webhooks ?? false,
    "http.max_body_bytes": http.max_body_bytes ?? null,
    "webhooks.signed": webhooks?.signing_secret !== undefined,
    public_base_url: options.public_base_url !== undefined,
  };
}
