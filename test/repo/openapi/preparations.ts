/** The rows that must exist before the example of an operation is sent. */
import { isObject, type Json, type JsonObject } from "../../../lib/json.ts";
import {
  ADDRESS,
  ASSISTANT,
  CHECKPOINT,
  CRON,
  FEEDBACK,
  LINK,
  RUN,
  THREAD,
  WORKSPACE,
} from "../../../scripts/openapi/example-ids.ts";
import type { World } from "./world.ts";

type Preparation = (world: World) => Promise<void>;

const say = (content: string): JsonObject => ({ messages: [{ role: "human", content, id: "m0" }] });
const HELLO = { assistant_id: "agent", input: say("Hello") };

/** Creates the thread of the examples. */
async function addThread({ send }: World): Promise<void> {
  await send("POST", "/threads", { thread_id: THREAD, metadata: { topic: "weather" } });
}

/** Creates a run on the thread. `RUN` is its id from now on. */
async function addRun({ send, ids }: World, request: JsonObject): Promise<string> {
  const { run_id } = await send("POST", `/threads/${THREAD}/runs`, { ...request, if_not_exists: "create" });
  ids.set(RUN, run_id as string);
  return run_id as string;
}

/** Executes a run on the thread of the examples. */
async function addFinishedRun(world: World, request: JsonObject = {}): Promise<void> {
  await addThread(world);
  const run_id = await addRun(world, { ...HELLO, stream_resumable: true, ...request });
  await world.send("GET", `/threads/${THREAD}/runs/${run_id}/join`);
}

/** Executes a run, and notes the checkpoint at its end. */
async function addCheckpoint(world: World): Promise<void> {
  await addFinishedRun(world);
  const { checkpoint } = await world.send("GET", `/threads/${THREAD}/state`);
  if (isObject(checkpoint)) world.ids.set(CHECKPOINT, checkpoint.checkpoint_id as string);
}

/** Starts a run that goes on until it is cancelled. */
async function addActiveRun(world: World): Promise<void> {
  await addThread(world);
  const run_id = await addRun(world, { assistant_id: "agent", input: say("Wait"), stream_resumable: true });
  await world.waitUntil(
    async () => (await world.send("GET", `/threads/${THREAD}/runs/${run_id}`)).status === "running",
  );
}

/** Starts a run of a durable function, which waits for an event. */
async function addWaitingRun(world: World): Promise<void> {
  await addThread(world);
  const run_id = await addRun(world, { assistant_id: "parcel", input: {} });
  await world.waitUntil(async () => {
    const { waiting_for } = await world.send("GET", `/threads/${THREAD}/runs/${run_id}`);
    return waiting_for !== undefined && world.getAddress() !== null;
  });
  world.ids.set(ADDRESS, world.getAddress() as string);
}

/** Executes a run that ends at an interrupt. */
async function addInterrupt(world: World): Promise<void> {
  await addFinishedRun(world, { assistant_id: "approve", input: say("Refund it") });
}

async function addStatelessRun({ send, ids }: World): Promise<void> {
  const { run_id } = await send("POST", "/runs", { ...HELLO, stream_resumable: true });
  ids.set(RUN, run_id as string);
}

async function addAssistant({ send }: World): Promise<void> {
  const context = { tone: "polite" };
  await send("POST", "/assistants", { graph_id: "agent", assistant_id: ASSISTANT, name: "Polite", context });
}

/** Creates an assistant whose second version is active. */
async function addAssistantVersion(world: World): Promise<void> {
  await addAssistant(world);
  await world.send("PATCH", `/assistants/${ASSISTANT}`, { context: { tone: "short" } });
}

async function addCron({ send, ids }: World): Promise<void> {
  const body = {
    assistant_id: "agent",
    schedule: "0 9 * * 1-5",
    timezone: "Europe/Berlin",
    input: say("Good morning"),
  };
  const { cron_id } = await send("POST", "/runs/crons", body);
  ids.set(CRON, cron_id as string);
}

async function addItem({ send }: World): Promise<void> {
  await send("PUT", "/store/items", { namespace: ["users", "ann"], key: "profile", value: { city: "Bonn" } });
}

/** Creates a feedback link for a finished run. */
async function addLink(world: World): Promise<void> {
  await addFinishedRun(world);
  const { id } = await world.send("POST", "/api/v1/feedback/tokens", {
    run_id: world.ids.get(RUN) as string,
    feedback_key: "helpful",
    expires_in: { days: 7 },
  });
  world.ids.set(LINK, id as string);
}

async function addFeedback(world: World): Promise<void> {
  await addFinishedRun(world);
  const run_id = world.ids.get(RUN) as string;
  await world.send("POST", "/api/v1/feedback", { id: FEEDBACK, run_id, key: "helpful", score: 1, comment: "Correct" });
}

/** Executes a run with a webhook, and waits until that is delivered. */
async function addDelivery(world: World): Promise<void> {
  await addFinishedRun(world, { webhook: "/hooks/run" });
  await world.waitUntil(async () => {
    const { items } = await world.send("GET", "/greenroom/webhooks?state=delivered");
    return Array.isArray(items) && items.length > 0;
  });
}

async function addTrace(world: World): Promise<void> {
  await addFinishedRun(world);
  const { list } = await world.send("GET", "/api/v1/workspaces");
  const [workspace] = list as readonly Json[];
  if (isObject(workspace)) world.ids.set(WORKSPACE, workspace.id as string);
}

/** Sends a chat as the AI SDK does, and leaves while its run goes on. */
async function addActiveChat({ url, advanceUntil }: World): Promise<void> {
  const messages = [{ id: "m0", role: "user", parts: [{ type: "text", text: "Wait" }] }];
  const body = JSON.stringify({ id: THREAD, trigger: "submit-message", messages });
  const response = await advanceUntil(fetch(`${url}/ai/agent/chat`, { method: "POST", body }));
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  await advanceUntil(reader.read());
  await reader.cancel();
}

/** The operations by what must be there. An operation without an entry needs nothing. */
const NEEDS: readonly (readonly [prepare: Preparation, operations: readonly string[]])[] = [
  [
    addThread,
    [
      "post_threads_search",
      "post_threads_count",
      "delete_threads_thread_id",
      "patch_threads_thread_id",
      "post_threads_thread_id_commands",
      "get_threads_thread_id_stream_events",
      "post_threads_thread_id_runs",
      "post_threads_thread_id_runs_stream",
      "post_threads_thread_id_runs_wait",
      "post_threads_thread_id_runs_crons",
    ],
  ],
  [
    addFinishedRun,
    [
      "post_threads_prune",
      "post_threads_thread_id_copy",
      "get_threads_thread_id",
      "get_threads_thread_id_state",
      "post_threads_thread_id_state",
      "patch_threads_thread_id_state",
      "get_threads_thread_id_history",
      "post_threads_thread_id_history",
      "get_threads_thread_id_storage",
      "get_threads_thread_id_stream",
      "post_threads_thread_id_stream_events",
      "get_threads_thread_id_runs",
      "get_threads_thread_id_runs_run_id",
      "delete_threads_thread_id_runs_run_id",
      "get_threads_thread_id_runs_run_id_join",
      "get_threads_thread_id_runs_run_id_stream",
      "get_threads_thread_id_runs_run_id_trace",
      "get_threads_thread_id_runs_run_id_trace_stream",
      "delete_threads_thread_id_runs_run_id_trace",
      "get_greenroom_traces",
      "get_greenroom_traces_run_id",
      "get_greenroom_traces_run_id_stream",
      "get_greenroom_runs",
      "get_greenroom_runs_stats",
      "get_greenroom_runs_run_id",
      "post_greenroom_runs_run_id_again",
      "get_greenroom_threads",
      "post_api_v1_feedback_tokens",
      "post_api_v1_feedback",
      "get_ai_assistant_id_chat_chat_id",
    ],
  ],
  [addCheckpoint, ["get_threads_thread_id_state_checkpoint_id", "post_threads_thread_id_state_checkpoint"]],
  [addActiveRun, ["post_threads_thread_id_runs_run_id_cancel", "post_runs_cancel"]],
  [addActiveChat, ["get_ai_assistant_id_chat_chat_id_stream", "post_ai_assistant_id_chat_chat_id_stop"]],
  [
    addWaitingRun,
    ["get_threads_thread_id_runs_run_id_steps", "post_threads_thread_id_events_name", "post_greenroom_events_address"],
  ],
  [addInterrupt, ["get_greenroom_inbox"]],
  [addStatelessRun, ["get_runs_run_id_stream"]],
  [
    addAssistant,
    [
      "post_assistants_search",
      "post_assistants_count",
      "get_assistants_assistant_id",
      "patch_assistants_assistant_id",
      "delete_assistants_assistant_id",
      "get_assistants_assistant_id_graph",
      "get_assistants_assistant_id_schemas",
      "get_assistants_assistant_id_subgraphs",
      "get_assistants_assistant_id_subgraphs_namespace",
    ],
  ],
  [addAssistantVersion, ["post_assistants_assistant_id_versions", "post_assistants_assistant_id_latest"]],
  [
    addCron,
    [
      "post_runs_crons_search",
      "post_runs_crons_count",
      "get_runs_crons_cron_id",
      "patch_runs_crons_cron_id",
      "delete_runs_crons_cron_id",
      "get_greenroom_crons_cron_id",
      "post_greenroom_crons_cron_id_run",
    ],
  ],
  [addItem, ["get_store_items", "delete_store_items", "post_store_items_search", "post_store_namespaces"]],
  [
    addLink,
    [
      "get_api_v1_feedback_tokens",
      "get_api_v1_feedback_tokens_token",
      "post_api_v1_feedback_tokens_token",
      "get_greenroom_feedback_links",
      "delete_greenroom_feedback_links_id",
    ],
  ],
  [
    addFeedback,
    [
      "get_api_v1_feedback",
      "get_api_v1_feedback_stats",
      "get_api_v1_feedback_id",
      "patch_api_v1_feedback_id",
      "delete_api_v1_feedback_id",
      "get_greenroom_feedback_scores",
    ],
  ],
  [addDelivery, ["get_greenroom_webhooks", "get_greenroom_webhooks_run_id", "post_greenroom_webhooks_run_id_send"]],
  [
    addTrace,
    ["get_api_v1_orgs_current_billing_granular_usage", "get_api_v1_orgs_current_billing_granular_usage_export"],
  ],
];

const byOperation = new Map(
  NEEDS.flatMap(([prepare, operations]) => operations.map((operation) => [operation, prepare] as const)),
);

/** The operations that have rows of their own. */
export const preparedOperations: readonly string[] = [...byOperation.keys()];

/** Creates the rows that the example of an operation names. */
export const prepare = async (world: World, operationId: string): Promise<void> =>
  await byOperation.get(operationId)?.(world);
