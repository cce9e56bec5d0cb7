/** Schemas of crons and of the store. */

import type { FieldSchema } from "../../lib/http/parse.ts";
import { cronCount, cronCreate, cronPatch, cronSearch } from "../../lib/http/routes/crons.ts";
import { itemAddress, itemPut, itemSearch, namespaceSearch } from "../../lib/http/routes/store.ts";

import type { JsonObject } from "../../lib/json.ts";
import { list, nullable, object, record, string, time, uuid } from "./schemas.ts";

const completed: JsonObject = { type: "string", enum: ["delete", "keep"] };

export const cronAndStoreSchemas: JsonObject = {
  Cron: record({
    cron_id: uuid,
    assistant_id: uuid,
    thread_id: nullable(uuid),
    on_run_completed: nullable(completed),
    end_time: nullable(time),
    schedule: string,
    timezone: nullable(string),
    created_at: time,
    updated_at: time,
    payload: {
      ...object,
      description: "The options of its runs, without credentials and without the query of the webhook",
    },
    user_id: nullable(string),
    next_run_date: nullable(time),
    metadata: object,
    enabled: { type: "boolean" },
  }),
  StoreItem: record(
    {
      namespace: list(string),
      key: string,
      value: object,
      created_at: time,
      updated_at: time,
      score: { type: "number", description: "Cosine similarity, in searches with `query`" },
    },
    ["score"],
  ),
};

/** Request schemas by name. */
export const cronAndStoreRequests: readonly (readonly [FieldSchema<unknown>, string])[] = [
  [cronCreate, "CronCreate"],
  [cronPatch, "CronPatch"],
  [cronSearch, "CronSearch"],
  [cronCount, "CronCount"],
  [itemPut, "StoreItemPut"],
  [itemAddress, "StoreItemPlace"],
  [itemSearch, "StoreItemSearch"],
  [namespaceSearch, "StoreNamespaceSearch"],
] as unknown as readonly (readonly [FieldSchema<unknown>, string])[];
