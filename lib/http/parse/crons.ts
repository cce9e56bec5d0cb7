/** Requests of the crons routes. */
import * as v from "valibot";
import { CRON_RUN_OPTIONS, type CronCreate, type CronPatch, type CronRun, type CronSearch } from "../../crons/mod.ts";
import type { JsonObject } from "../../json.ts";
import type { CronQuery, CronSort } from "../../storage/mod.ts";
import {
  anyObject,
  assistantId,
  containment,
  type Fields,
  flag,
  listOf,
  name,
  oneOf,
  order,
  page,
  text,
  uuid,
} from "./pieces.ts";
import { readObject } from "./read.ts";
import { runCreate } from "./runs.ts";

const CRON_FIELDS = [
  "cron_id",
  "assistant_id",
  "thread_id",
  "on_run_completed",
  "end_time",
  "schedule",
  "timezone",
  "created_at",
  "updated_at",
  "payload",
  "user_id",
  "next_run_date",
  "metadata",
  "enabled",
] as const;

/** The options of its runs, validated as by the routes that create runs. */
const run = Object.fromEntries(CRON_RUN_OPTIONS.map((option) => [option, runCreate.entries[option]])) as Record<
  keyof CronRun,
  v.GenericSchema
>;

// The service validates schedules, time zones and times.
const timing = {
  timezone: v.optional(name),
  end_time: v.optional(text),
  enabled: v.optional(flag),
  on_run_completed: v.optional(oneOf(["delete", "keep"])),
  metadata: v.optional(anyObject),
};

/** POST /runs/crons and /threads/{thread_id}/runs/crons */
export const cronCreate: Fields<CronCreate> = v.object({
  assistant_id: assistantId,
  schedule: name,
  ...timing,
  ...run,
  if_not_exists: v.optional(oneOf(["reject", "create"])),
}) as unknown as Fields<CronCreate>;

const cronPatch = v.object({ schedule: v.optional(name), ...timing, ...run }) as unknown as Fields<CronPatch>;

/** Fields that null clears. In other fields null counts as absent. */
const CLEARED = ["timezone", "end_time", ...CRON_RUN_OPTIONS] as const;

/** PATCH /runs/crons/{cron_id} */
export function readCronPatch(bytes: Uint8Array): CronPatch {
  const patch = readObject(bytes, cronPatch);
  const sent = (bytes.length === 0 ? {} : JSON.parse(new TextDecoder().decode(bytes))) as JsonObject;
  const cleared = CLEARED.filter((field) => Object.hasOwn(sent, field) && sent[field] === null);
  return { ...patch, ...Object.fromEntries(cleared.map((field) => [field, null])) };
}

const filter = {
  assistant_id: v.optional(assistantId),
  thread_id: v.optional(uuid),
  enabled: v.optional(flag),
  metadata: v.optional(containment),
};

/** POST /runs/crons/count */
export const cronCount: Fields<CronQuery> = v.object(filter);

/** POST /runs/crons/search */
export const cronSearch: Fields<CronSearch & { readonly select?: readonly string[] }> = v.object({
  ...filter,
  ...page,
  sort_by: v.optional(
    oneOf([
      "cron_id",
      "assistant_id",
      "thread_id",
      "next_run_date",
      "end_time",
      "created_at",
      "updated_at",
    ] satisfies CronSort[]),
  ) as v.GenericSchema<CronSort | undefined>,
  sort_order: order,
  select: v.optional(listOf(oneOf(CRON_FIELDS))),
});
