/** Answers of the routes that the SDK does not have, as lib declares them. Types alone: nothing of the server is in the page. */
import type { InboxThread } from "../../../../lib/threads/summaries.ts";

export type { CronDetail } from "../../../../lib/crons/firings.ts";
export type { Cron } from "../../../../lib/crons/mod.ts";
export type { WaitingFor } from "../../../../lib/executor/journal.ts";
export type { StoreItem } from "../../../../lib/executor/store-handle.ts";
export type { FeedbackRecord } from "../../../../lib/feedback/mod.ts";
export type { FeedbackLink, ScoreSeries } from "../../../../lib/feedback/overview.ts";
export type { Json } from "../../../../lib/json.ts";
export type { RunDetail, RunSummary } from "../../../../lib/runs/search.ts";
export type { RunStats } from "../../../../lib/runs/stats.ts";
export type { ServerReport } from "../../../../lib/service/report.ts";
export type { RunSteps, StepRecord } from "../../../../lib/steps/calls.ts";
export type { CursorPage as Listing } from "../../../../lib/storage/cursor.ts";
export type { RunStatus } from "../../../../lib/storage/mod.ts";
export type { Span, SpanStatus, SpanValue } from "../../../../lib/storage/spans.ts";
export type { Inbox, InboxThread, ThreadSummary } from "../../../../lib/threads/summaries.ts";
export type { RunTrace } from "../../../../lib/traces/run-trace.ts";
export type { UsageRecord, UsageReport } from "../../../../lib/usage/mod.ts";
export type { DeliveryDetail, DeliverySummary } from "../../../../lib/webhooks/deliveries.ts";

/** An interrupt with an id to answer it by. */
export type WaitingInterrupt = InboxThread["interrupts"][number] & { readonly interrupt_id: string };
