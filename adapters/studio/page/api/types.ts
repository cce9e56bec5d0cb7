/** Answers of the routes that the SDK does not have, as lib declares them. Types alone: nothing of the server is in the page. */
import type { InboxThread } from "../../../../lib/operations/threads.ts";

export type { Cron } from "../../../../lib/crons/mod.ts";
export type { StoreItem } from "../../../../lib/executor/store-handle.ts";
export type { FeedbackRecord } from "../../../../lib/feedback/mod.ts";
export type { CronDetail } from "../../../../lib/operations/crons.ts";
export type { FeedbackLink, ScoreSeries } from "../../../../lib/operations/feedback.ts";
export type { Listing } from "../../../../lib/operations/list.ts";
export type { ServerReport } from "../../../../lib/operations/mod.ts";
export type { RunDetail, RunStats, RunSummary } from "../../../../lib/operations/runs.ts";
export type { Inbox, InboxThread, ThreadSummary } from "../../../../lib/operations/threads.ts";
export type { DeliveryDetail, DeliverySummary } from "../../../../lib/operations/webhooks.ts";
export type { RunStatus } from "../../../../lib/storage/mod.ts";
export type { UsageRecord, UsageReport } from "../../../../lib/usage/mod.ts";

/** An interrupt with an id to answer it by. */
export type WaitingInterrupt = InboxThread["interrupts"][number] & { readonly interrupt_id: string };
