/** Crons: runs that start by the clock. */
import type { Ambient } from "../ambient.ts";
import type { AssistantDirectory, PageOf } from "../assistants.ts";
import type { CronQuery, CronSort, OnRunCompleted } from "../cron-storage.ts";
import { ServiceError } from "../errors.ts";
import type { Reach } from "../filter.ts";
import type { JsonObject } from "../json.ts";
import type { RunCreate, RunOrigin } from "../runs/request.ts";
import type { Scope, Storage } from "../storage.ts";

/** A cron as the API shows it; times are ISO 8601, UTC. */
export interface Cron {
  readonly cron_id: string;
  readonly assistant_id: string;
  readonly thread_id: string | null;
  readonly on_run_completed: OnRunCompleted | null;
  readonly end_time: string | null;
  readonly schedule: string;
  readonly timezone: string | null;
  readonly created_at: string;
  readonly updated_at: string;
  /** The options of its runs, without credentials. */
  readonly payload: JsonObject;
  readonly user_id: string | null;
  readonly next_run_date: string | null;
  readonly metadata: JsonObject;
  readonly enabled: boolean;
}

/** What the runs of a cron take. */
export type CronRun = Pick<
  RunCreate,
  | "input"
  | "config"
  | "context"
  | "webhook"
  | "interrupt_before"
  | "interrupt_after"
  | "multitask_strategy"
  | "durability"
  | "checkpoint_during"
  | "stream_mode"
  | "stream_subgraphs"
  | "stream_resumable"
  | "feedback_keys"
>;

interface CronTiming {
  /** Five fields, or a nickname as `@daily`. */
  readonly schedule: string;
  readonly timezone?: string | null;
  /** ISO 8601. */
  readonly end_time?: string | null;
  readonly enabled?: boolean | null;
  readonly on_run_completed?: OnRunCompleted | null;
  readonly metadata?: JsonObject | null;
}

export interface CronCreate extends CronRun, CronTiming {
  readonly assistant_id: string;
  readonly if_not_exists?: "reject" | "create" | null;
}

/** What is absent stays; null clears what may be without a value. */
export type CronPatch = CronRun & Partial<CronTiming>;

export interface CronSearch extends CronQuery {
  readonly limit?: number;
  readonly offset?: number;
  readonly sort_by?: CronSort;
  readonly sort_order?: "asc" | "desc";
}

export interface Crons {
  /** `thread_id` null: a stateless cron. Errors: not_found (assistant, thread), invalid. */
  create(thread_id: string | null, request: CronCreate, origin?: RunOrigin): Promise<Cron>;
  /** Errors: not_found. */
  get(cron_id: string, reach?: Reach): Promise<Cron>;
  /** Errors: not_found, invalid. */
  update(cron_id: string, patch: CronPatch, reach?: Reach): Promise<Cron>;
  /** Errors: not_found. */
  delete(cron_id: string, reach?: Reach): Promise<void>;
  search(query?: CronSearch, reach?: Reach): Promise<PageOf<Cron>>;
  count(query?: CronQuery, reach?: Reach): Promise<number>;
}

export interface CronLoop extends Crons {
  /** Ends the loop, once what it is about to store is stored. */
  stop(): Promise<void>;
}

export interface CronOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly ambient: Ambient;
  readonly assistants: AssistantDirectory;
}

const notBuilt = (): never => {
  throw new ServiceError("not_built", "Crons: not built yet");
};

export function createCrons(_options: CronOptions): CronLoop {
  return {
    create: async () => notBuilt(),
    get: async () => notBuilt(),
    update: async () => notBuilt(),
    delete: async () => notBuilt(),
    search: async () => notBuilt(),
    count: async () => notBuilt(),
    stop: async () => {},
  };
}
