/** The routes of crons and of the store. */
import * as parse from "../../lib/http/parse/mod.ts";
import * as store from "../../lib/http/parse/store.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { Operation, Schema } from "./operations.ts";
import { count, list, nullable, object, PAGES, record, ref, string, time, uuid } from "./schemas.ts";

const newCron = { tag: "Crons", body: parse.cronCreate, ok: ref("Cron"), errors: [400, 404, 413, 422, 507] };

export const CRONS_AND_STORE: Readonly<Record<string, Operation>> = {
  "post /runs/crons": { ...newCron, summary: "Create a cron whose runs have threads of their own" },
  "post /threads/{thread_id}/runs/crons": { ...newCron, summary: "Create a cron whose runs are on a thread" },
  "post /runs/crons/search": {
    tag: "Crons",
    summary: "Search crons",
    body: parse.cronSearch,
    ok: list(ref("Cron")),
    answers: PAGES,
    errors: [400, 413, 422],
  },
  "post /runs/crons/count": {
    tag: "Crons",
    summary: "Count crons",
    body: parse.cronCount,
    ok: count,
    errors: [400, 413, 422],
  },
  "get /runs/crons/{cron_id}": { tag: "Crons", summary: "Get a cron", ok: ref("Cron"), errors: [404, 422] },
  "patch /runs/crons/{cron_id}": {
    tag: "Crons",
    summary: "Change a cron: what is absent stays, null clears; metadata is merged",
    sends: ref("CronPatch"),
    ok: ref("Cron"),
    errors: [400, 404, 413, 422],
  },
  "delete /runs/crons/{cron_id}": { tag: "Crons", summary: "Delete a cron; its runs stay", errors: [404, 422] },
  "put /store/items": {
    tag: "Store",
    summary: "Write an item",
    body: store.itemPut,
    errors: [400, 413, 422, 507],
  },
  "get /store/items": {
    tag: "Store",
    summary: "Get an item; null when there is none",
    asks: [
      { name: "namespace", in: "query", required: true, schema: string, description: "Labels, joined by dots" },
      { name: "key", in: "query", required: true, schema: string },
      { name: "refresh_ttl", in: "query", required: false, schema: { type: "boolean" } },
    ],
    ok: nullable(ref("StoreItem")),
    errors: [400, 422],
  },
  "delete /store/items": {
    tag: "Store",
    summary: "Delete an item, if there is one",
    body: store.itemPlace,
    errors: [400, 413, 422],
  },
  "post /store/items/search": {
    tag: "Store",
    summary: "Search items under a namespace",
    body: store.itemSearch,
    ok: record({ items: list(ref("StoreItem")) }),
    errors: [400, 413, 422],
  },
  "post /store/namespaces": {
    tag: "Store",
    summary: "List namespaces",
    body: store.namespaceSearch,
    ok: record({ namespaces: list(list(string)) }),
    errors: [400, 413, 422],
  },
};

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
  CronPatch: {
    type: "object",
    description: "Also every option of a run that a cron takes",
    properties: {
      schedule: string,
      timezone: nullable(string),
      end_time: nullable(time),
      enabled: { type: "boolean" },
      on_run_completed: nullable(completed),
      metadata: object,
    },
  },
  StoreItem: record(
    {
      namespace: list(string),
      key: string,
      value: object,
      created_at: time,
      updated_at: time,
      score: { type: "number", description: "Of a search by `query`: cosine similarity" },
    },
    ["score"],
  ),
};

/** Request schemas by name. */
export const cronAndStoreRequests: readonly (readonly [Schema, string])[] = [
  [parse.cronCreate, "CronCreate"],
  [parse.cronSearch, "CronSearch"],
  [parse.cronCount, "CronCount"],
  [store.itemPut, "StoreItemPut"],
  [store.itemPlace, "StoreItemPlace"],
  [store.itemSearch, "StoreItemSearch"],
  [store.namespaceSearch, "StoreNamespaceSearch"],
] as unknown as readonly (readonly [Schema, string])[];
