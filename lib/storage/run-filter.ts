/** The filters that searches for runs and for their traces have in common. */
import type { JsonObject } from "../json.ts";
import type { RunStatus } from "./rows.ts";

/** The filters of a search for runs. The times of `…_after` are inclusive, those of `…_before` exclusive. */
export interface RunFilter<Time> {
  readonly status?: readonly RunStatus[];
  /** The UUID of an assistant. Clients may also send a graph id, which means its default assistant. */
  readonly assistant_id?: string;
  readonly graph_id?: string;
  readonly thread_id?: string;
  readonly cron_id?: string;
  readonly user_id?: string;
  /** Members that the metadata of the run must have: strings, numbers and booleans. */
  readonly metadata?: JsonObject;
  readonly created_after?: Time;
  readonly created_before?: Time;
  /** Times of the first start. */
  readonly started_after?: Time;
  readonly started_before?: Time;
  /** The minimum of the active time by the trace of the run; of a run without a trace, of the time from its first start to its end. */
  readonly min_active_ms?: number;
  /** The name of the error with which the run ended, such as `TypeError`. */
  readonly error_type?: string;
  /** True: only suspended runs; false: only others. */
  readonly waiting?: boolean;
}
