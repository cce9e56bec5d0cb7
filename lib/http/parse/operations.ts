/** Requests of the routes under /greenroom. Errors name their place, as those of the platform routes do. */
import * as v from "valibot";
import { InputError, ServiceError } from "../../errors.ts";
import type { JsonObject } from "../../json.ts";
import type { RunListQuery, SchedulePreview, ScoreQuery, ThreadListQuery } from "../../operations/mod.ts";
import type { DeliveryState, RunStatus, ThreadStatus } from "../../storage/mod.ts";
import { assistantId, containment, type Fields, integer, listOf, name, oneOf, UUID, uuid } from "./pieces.ts";
import { readQuery, type SentQuery } from "./read.ts";

const OBJECT = "must be a JSON object";

/** An object as JSON text. */
const objectText = v.pipe(
  v.string(OBJECT),
  v.transform((text): unknown => {
    try {
      return JSON.parse(text);
    } catch {
      return text;
    }
  }),
  containment,
) as v.GenericSchema<unknown, JsonObject>;

const cursor = v.optional(name);
const limit = (most: number): v.GenericSchema<number | undefined> =>
  v.optional(integer(1, most)) as v.GenericSchema<number | undefined>;
const runStatus = oneOf(["pending", "running", "success", "error", "timeout", "interrupted"] satisfies RunStatus[]);
const threadStatus = oneOf(["idle", "busy", "interrupted", "error"] satisfies ThreadStatus[]);
const deliveryState = oneOf(["pending", "delivered", "failed"] satisfies DeliveryState[]);

/** GET /greenroom/runs */
export const runListQuery: Fields<RunListQuery> = v.object({
  status: v.optional(listOf(runStatus)),
  assistant_id: v.optional(assistantId),
  graph_id: v.optional(name),
  thread_id: v.optional(uuid),
  cron_id: v.optional(uuid),
  user_id: v.optional(name),
  metadata: v.optional(objectText),
  created_after: v.optional(name),
  created_before: v.optional(name),
  started_after: v.optional(name),
  started_before: v.optional(name),
  limit: limit(1000),
  cursor,
}) as unknown as Fields<RunListQuery>;

const MOST_TEXT = 200;

/** GET /greenroom/threads */
export const threadListQuery: Fields<ThreadListQuery> = v.object({
  text: v.optional(v.pipe(name, v.maxLength(MOST_TEXT, `must have at most ${MOST_TEXT} characters`))),
  status: v.optional(threadStatus),
  assistant_id: v.optional(assistantId),
  graph_id: v.optional(name),
  metadata: v.optional(objectText),
  limit: limit(100),
  cursor,
}) as unknown as Fields<ThreadListQuery>;

/** GET /greenroom/inbox */
export const inboxQuery: Fields<Pick<ThreadListQuery, "assistant_id" | "graph_id" | "limit" | "cursor">> = v.object({
  assistant_id: v.optional(assistantId),
  graph_id: v.optional(name),
  limit: limit(100),
  cursor,
}) as unknown as Fields<Pick<ThreadListQuery, "assistant_id" | "graph_id" | "limit" | "cursor">>;

interface DeliveryListQuery {
  readonly state?: readonly DeliveryState[];
  readonly thread_id?: string;
  readonly limit?: number;
  readonly cursor?: string;
}

/** GET /greenroom/webhooks */
export const deliveryListQuery: Fields<DeliveryListQuery> = v.object({
  state: v.optional(listOf(deliveryState)),
  thread_id: v.optional(uuid),
  limit: limit(1000),
  cursor,
}) as unknown as Fields<DeliveryListQuery>;

/** GET /greenroom/crons/preview */
export const schedulePreview: Fields<SchedulePreview> = v.object({
  schedule: name,
  timezone: v.optional(name),
  end_time: v.optional(name),
  limit: limit(100),
}) as unknown as Fields<SchedulePreview>;

/** GET /greenroom/feedback/scores */
export const scoreQuery: Fields<ScoreQuery> = v.object({
  start: name,
  end: name,
  stride: v.optional(oneOf(["hour", "day", "week"])),
  key: v.optional(listOf(name)),
}) as unknown as Fields<ScoreQuery>;

/** GET /greenroom/feedback/links */
export const linkQuery: Fields<{ readonly limit?: number; readonly cursor?: string }> = v.object({
  limit: limit(1000),
  cursor,
}) as unknown as Fields<{ readonly limit?: number; readonly cursor?: string }>;

/** Reads a query. Throws an InputError. */
export const readLocated = <Output>(query: SentQuery, schema: Fields<Output>): Promise<Output> =>
  located(async () => readQuery(query, schema));

/** An id of a path. Errors: not_found, because what has no UUID cannot be there. */
export function readKnownId(value: string | undefined, what: string): string {
  if (value === undefined || !UUID.test(value)) throw new ServiceError("not_found", `${what} not found`);
  return value.toLowerCase();
}

/** Turns what a call says of a field of its query into an InputError with its place. */
export async function located<Answer>(call: () => Promise<Answer>): Promise<Answer> {
  try {
    return await call();
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== "invalid" || error instanceof InputError) throw error;
    const [, field, msg] = /^([a-z_]+)(?:\.\d+)?: (.+)$/s.exec(error.message) ?? [];
    if (field === undefined || msg === undefined) throw error;
    const type = msg === "is required" ? "missing" : "value_error";
    throw new InputError([{ loc: ["query", field], msg, type }]);
  }
}
