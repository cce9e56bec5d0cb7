/** The report of a server: versions, health, metrics and options. */
import type { CronCounters } from "../crons/loop.ts";
import type { WorkerCounters } from "../engine/worker.ts";
import type { Environment } from "../environment.ts";
import { resolveSettings, type ServiceOptions } from "../options.ts";
import type { Storage } from "../storage/mod.ts";
import type { HistogramFamily } from "../traces/histograms.ts";
import type { TraceCounters } from "../traces/sinks.ts";
import type { DeliveryCounters } from "../webhooks/sender.ts";
import type { Readiness } from "./storage-lifecycle.ts";

/** The answer of `GET /info`. */
export interface ServiceInfo {
  readonly version: string;
  /** The version of the agent server API that this service supports. */
  readonly api_version: string;
  /** The LangGraph.js version of the graphs; absent if there is none, or if it is unknown. */
  readonly langgraph_js_version?: string;
  readonly flags: Readonly<Record<string, boolean>>;
}

/** The deployment's runs now, and the counters of this process since its start. */
export interface Metrics {
  readonly uptime_seconds: number;
  readonly draining: boolean;
  /** Another process executes the runs of this database. */
  readonly standby: boolean;
  readonly runs: { readonly pending: number; readonly scheduled: number; readonly running: number };
  /** The time since the oldest pending run is due; 0 without one. */
  readonly oldest_pending_seconds: number;
  readonly worker: WorkerCounters;
  readonly webhooks: DeliveryCounters;
  readonly crons: CronCounters;
  readonly traces: Readonly<TraceCounters>;
  /** Times and tokens of this process since its start. */
  readonly histograms: readonly HistogramFamily[];
}

/** The answer of `GET /greenroom/server`. */
export interface ServerReport extends Pick<ServiceInfo, "version" | "api_version" | "langgraph_js_version"> {
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
  readonly worker: Omit<WorkerCounters, "frames_shown" | "frames_stored"> & { readonly slots: number };
  readonly queue: Metrics["runs"] & { readonly oldest_pending_seconds: number };
  readonly webhooks: DeliveryCounters;
  readonly crons: CronCounters;
  /** Options in effect, by name: only numbers, switches and modes. */
  readonly configuration: Readonly<Record<string, string | number | boolean | null>>;
}

/** The state of the service from which the report is built. */
interface ReportInput {
  readonly info: ServiceInfo;
  readonly ready: Readiness;
  readonly healthy: boolean;
  readonly database_ok: boolean;
  readonly metrics: Metrics;
}

/** Returns the report from what was read before. Secrets of the options are omitted. */
export function createServerReport(
  options: ServiceOptions,
  storage: Storage,
  environment: Environment,
  { info, metrics, ready, healthy, database_ok }: ReportInput,
): ServerReport {
  const { version, api_version, langgraph_js_version } = info;
  const { uptime_seconds, draining, standby, runs, oldest_pending_seconds, webhooks, crons } = metrics;
  const { concurrency: slots } = resolveSettings(options).worker;
  const { executing, claims, started, retried, leases_lost, ended } = metrics.worker;
  return {
    version,
    api_version,
    ...(langgraph_js_version === undefined ? {} : { langgraph_js_version }),
    runtime: environment.runtime ?? null,
    deployment: options.deployment?.name ?? "default",
    uptime_seconds,
    database: { kind: storage.kind ?? null, ok: database_ok, shared: storage.multi_process ?? false },
    health: { ok: healthy, ready: ready.ok, detail: ready.ok ? null : ready.detail, draining, standby },
    worker: { slots, executing, claims, started, retried, leases_lost, ended },
    queue: { ...runs, oldest_pending_seconds },
    webhooks,
    crons,
    configuration: listConfiguration(options),
  };
}

/**
 * Returns the options that a report may show. Every name is written here: an option that is added later is not shown before it
 * was reviewed.
 */
function listConfiguration(options: ServiceOptions): ServerReport["configuration"] {
  // Prices are a table.
  const settings = Object.entries(resolveSettings(options)).flatMap(([section, values]) =>
    Object.entries(values).flatMap(([key, value]) => (key === "prices" ? [] : [[`${section}.${key}`, value]])),
  );
  const { auth = {}, checkpointer, store, http = {}, webhooks } = options;
  return {
    "auth.mode": auth.mode ?? (auth.custom ? "custom" : "none"),
    "auth.shared_agents": auth.shared_agents ?? "read",
    ...Object.fromEntries(settings),
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
