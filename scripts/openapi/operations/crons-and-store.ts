/** Crons, and the store. */
import type { ErrorReason } from "../../../lib/errors.ts";
import { CRON, THREAD } from "../example-ids.ts";
import { langgraph, type OperationTexts } from "./text.ts";

const INPUT = { messages: [{ role: "human", content: "Good morning" }] };
const INPUT_TEXT = '{ messages: [{ role: "human", content: "Good morning" }] }';
const CRON_BODY = { assistant_id: "agent", schedule: "0 9 * * 1-5", timezone: "Europe/Berlin", input: INPUT };
const CREATION_CODES: readonly ErrorReason[] = ["webhook_refused", "public_base_url_missing"];

export const cronTexts: OperationTexts = {
  "post /runs/crons": {
    description:
      "Creates a schedule that starts a run in a new thread each time. `schedule` is a cron expression of five fields in `timezone`, or a nickname such as `@daily`.",
    body: CRON_BODY,
    call: langgraph(
      `await client.crons.create("agent", {\n  schedule: "0 9 * * 1-5",\n  timezone: "Europe/Berlin",\n  input: ${INPUT_TEXT},\n});`,
    ),
    codes: { 404: ["assistant_not_found", "not_found"], 422: CREATION_CODES },
  },
  "post /threads/:thread_id/runs/crons": {
    description:
      "Creates a schedule whose runs share the thread, and so its state. The cron is deleted with the thread.",
    body: CRON_BODY,
    call: langgraph(
      `await client.crons.createForThread("${THREAD}", "agent", {\n  schedule: "0 9 * * 1-5",\n  timezone: "Europe/Berlin",\n  input: ${INPUT_TEXT},\n});`,
    ),
    codes: { 404: ["assistant_not_found", "thread_not_found", "not_found"], 422: CREATION_CODES },
  },
  "post /runs/crons/search": {
    description: "Returns the crons that match all filters, a page at a time, with the time of their next run.",
    body: { assistant_id: "agent", limit: 10 },
    call: langgraph(`await client.crons.search({ assistantId: "agent", limit: 10 });`),
  },
  "post /runs/crons/count": {
    description: "Returns the number of crons that match all filters, which are those of a search.",
    body: { assistant_id: "agent" },
    call: langgraph(`await client.crons.count({ assistantId: "agent" });`),
  },
  "get /runs/crons/:cron_id": {
    description: "Returns the cron with its schedule, the options of its runs and the time of the next one.",
  },
  "patch /runs/crons/:cron_id": {
    description:
      "Changes the cron. `enabled: false` pauses it; with `enabled: true` it continues at the next time of its schedule.",
    body: { enabled: false },
    call: langgraph(`await client.crons.update("${CRON}", { enabled: false });`),
    codes: { 422: CREATION_CODES },
  },
  "delete /runs/crons/:cron_id": {
    description: "Deletes the cron. Runs that it has started go on.",
    call: langgraph(`await client.crons.delete("${CRON}");`),
  },
};

const NAMESPACE = ["users", "ann"];

export const storeTexts: OperationTexts = {
  "put /store/items": {
    description:
      "Writes a value below a namespace and a key, and replaces the one that is there. All threads and agents of the deployment share the store.",
    body: { namespace: NAMESPACE, key: "profile", value: { city: "Bonn" } },
    call: langgraph(`await client.store.putItem(["users", "ann"], "profile", { city: "Bonn" });`),
  },
  "get /store/items": {
    description: "Returns the item with its value and its times, or null if there is none.",
    query: { namespace: "users.ann", key: "profile" },
    call: langgraph(`await client.store.getItem(["users", "ann"], "profile");`),
  },
  "delete /store/items": {
    description: "Deletes the item. An item that does not exist is no error.",
    body: { namespace: NAMESPACE, key: "profile" },
    call: langgraph(`await client.store.deleteItem(["users", "ann"], "profile");`),
  },
  "post /store/items/search": {
    description:
      "Returns the items below a namespace, filtered by their values. `query` sorts them by meaning, and needs `store.index` on the server.",
    body: { namespace_prefix: ["users"], filter: { city: "Bonn" }, limit: 10 },
    call: langgraph(`await client.store.searchItems(["users"], { filter: { city: "Bonn" }, limit: 10 });`),
    codes: { 422: ["search_not_configured"] },
  },
  "post /store/namespaces": {
    description: "Returns the namespaces that have items, filtered by their first and last labels.",
    body: { prefix: ["users"], max_depth: 2 },
    call: langgraph(`await client.store.listNamespaces({ prefix: ["users"], maxDepth: 2 });`),
  },
};
