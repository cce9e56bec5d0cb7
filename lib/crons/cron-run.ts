/** The part of a cron that describes its runs. */
import type { RunCreate } from "../runs/request.ts";

/** The names of the run options of a cron. */
export const CRON_RUN_OPTIONS = [
  "assistant_version",
  "input",
  "config",
  "context",
  "webhook",
  "interrupt_before",
  "interrupt_after",
  "multitask_strategy",
  "durability",
  "checkpoint_during",
  "stream_mode",
  "stream_subgraphs",
  "stream_resumable",
  "feedback_keys",
] as const;

/** The options of the runs of a cron. */
export type CronRunOptions = Pick<RunCreate, (typeof CRON_RUN_OPTIONS)[number]>;
