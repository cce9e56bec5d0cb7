/** Schemas of the routes under `/greenroom`: those of the types that their calls return. */
import type { JsonObject } from "../../lib/json.ts";
import { count, list, nullable, object, record, ref, string, time } from "./schemas.ts";
import { createSchemas } from "./types.ts";

/** A page may be short, or empty, while `next` is not null. */
const listing = (item: string): JsonObject =>
  record({
    items: list(ref(item)),
    next: { ...nullable(string), description: "The `cursor` of the next page; null at the end. Pages may be short" },
  });

export const operationSchemas: JsonObject = {
  ...createSchemas({
    "runs/search.ts": ["RunSummary", "RunDetail"],
    "runs/stats.ts": ["RunStats"],
    "threads/summaries.ts": ["ThreadSummary", "InboxThread"],
    "webhooks/deliveries.ts": ["DeliverySummary", "DeliveryDetail"],
    "crons/firings.ts": ["CronDetail"],
    "feedback/overview.ts": ["ScoreSeries", "FeedbackLink"],
    "service/report.ts": ["ServerReport"],
    "steps/calls.ts": ["RunSteps"],
    "traces/run-trace.ts": ["RunTrace"],
    "traces/traces.ts": ["TraceListing"],
  }),
  RunListing: listing("RunSummary"),
  ThreadListing: listing("ThreadSummary"),
  Inbox: record({
    items: list(ref("InboxThread")),
    total: { ...count, description: "Threads with open interrupts" },
    next: nullable(string),
  }),
  TraceListingPage: listing("TraceListing"),
  DeliveryListing: listing("DeliverySummary"),
  FeedbackLinks: listing("FeedbackLink"),
  Received: record({ received: { type: "boolean", enum: [true] } }),
  Chat: record({ id: string, messages: { ...list(object), description: "Messages of the AI SDK" } }),
  SchedulePreview: record({ next: list(time) }),
};
