/** What a cron says about its runs. */
import type { RunCreate } from "../runs/request.ts";

/** The run options of a cron. */
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

/** The names of the run options. */
export const CRON_RUN_OPTIONS: readonly (keyof CronRun)[] = [
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
];
