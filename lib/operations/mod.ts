/** What an operator asks of a deployment as a whole, over all threads: the routes under `/greenroom`, as calls. */
import { type CronOperationOptions, type CronOperations, cronOperations } from "./crons.ts";
import { type FeedbackOperationOptions, type FeedbackOperations, feedbackOperations } from "./feedback.ts";
import { type RunOperationOptions, type RunOperations, runOperations } from "./runs.ts";
import { type ServerOperationOptions, type ServerOperations, serverOperations } from "./server.ts";
import { type ThreadOperationOptions, type ThreadOperations, threadOperations } from "./threads.ts";
import { type WebhookOperationOptions, type WebhookOperations, webhookOperations } from "./webhooks.ts";

export type { SchedulePreview } from "./crons.ts";
export type { ScoreQuery, ScoreStride } from "./feedback.ts";
export type { Cursor, Listing } from "./list.ts";
export type { PrepareAgain, RunDetail, RunListQuery, RunSummary } from "./runs.ts";
export type { ServerFacts, ServerReport } from "./server.ts";
export type { RunStats } from "./stats.ts";
export type { ThreadListQuery } from "./threads.ts";

/** Looks at a whole deployment. A call with a visibility filter sees what belongs to threads, or crons, that the filter permits. */
export interface Operations
  extends RunOperations,
    ThreadOperations,
    CronOperations,
    WebhookOperations,
    FeedbackOperations,
    ServerOperations {}

export type OperationOptions = RunOperationOptions &
  ThreadOperationOptions &
  CronOperationOptions &
  WebhookOperationOptions &
  FeedbackOperationOptions &
  ServerOperationOptions;

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
