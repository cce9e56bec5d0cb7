/** Runs, and the events of durable functions. */
import type { ErrorReason } from "../../../lib/errors.ts";
import { RUN, THREAD } from "../example-ids.ts";
import { langgraph, type OperationTexts } from "./text.ts";

const INPUT = { messages: [{ role: "human", content: "Hello" }] };
const INPUT_TEXT = '{ messages: [{ role: "human", content: "Hello" }] }';

/** The errors of requests that create runs. */
const CREATION_CODES: Readonly<Record<number, readonly ErrorReason[]>> = {
  422: ["idempotency_key_reused", "webhook_refused", "public_base_url_missing"],
};
const THREAD_RUN_CODES: Readonly<Record<number, readonly ErrorReason[]>> = {
  ...CREATION_CODES,
  404: ["thread_not_found", "assistant_not_found", "checkpoint_not_found", "not_found"],
  409: [
    "thread_busy",
    "limit_reached",
    "interrupt_already_answered",
    "no_open_interrupt",
    "already_exists",
    "idempotent_run_gone",
  ],
};
const STATELESS_RUN_CODES: Readonly<Record<number, readonly ErrorReason[]>> = {
  ...CREATION_CODES,
  404: ["assistant_not_found", "not_found"],
  409: ["limit_reached", "idempotent_run_gone"],
};
const EVENT_CODES: Readonly<Record<number, readonly ErrorReason[]>> = { 422: ["event_misfit"], 410: ["call_ended"] };

export const runTexts: OperationTexts = {
  "post /threads/:thread_id/runs": {
    description:
      "Starts a run in the background and returns it at once. Read its result with `join`, its events with `stream`. While the thread is busy, `multitask_strategy` decides what happens.",
    body: { assistant_id: "agent", input: INPUT, metadata: { source: "docs" } },
    call: langgraph(
      `await client.runs.create("${THREAD}", "agent", {\n  input: ${INPUT_TEXT},\n  metadata: { source: "docs" },\n});`,
    ),
    codes: THREAD_RUN_CODES,
  },
  "post /threads/:thread_id/runs/stream": {
    description:
      "Starts a run and streams its events as server-sent events. `stream_mode` chooses them. With `stream_resumable` a client can come back and read on.",
    body: { assistant_id: "agent", input: INPUT, stream_mode: ["values", "messages-tuple"] },
    call: langgraph(
      `for await (const event of client.runs.stream("${THREAD}", "agent", {\n  input: ${INPUT_TEXT},\n  streamMode: ["values", "messages-tuple"],\n})) console.log(event);`,
    ),
    codes: THREAD_RUN_CODES,
  },
  "post /threads/:thread_id/runs/wait": {
    description:
      "Starts a run and answers when it ends, with the final values. If the run waits for a person, the result has `__interrupt__`; send the answer as `command.resume` of another run.",
    body: { assistant_id: "agent", input: INPUT },
    call: langgraph(`await client.runs.wait("${THREAD}", "agent", { input: ${INPUT_TEXT} });`),
    codes: THREAD_RUN_CODES,
  },
  "get /threads/:thread_id/runs": {
    description:
      "Returns the runs of the thread, a page at a time. `status` filters them and `select` returns a part of each.",
    query: { limit: 10, status: "success" },
    call: langgraph(`await client.runs.list("${THREAD}", { limit: 10, status: "success" });`),
  },
  "get /threads/:thread_id/runs/:run_id": {
    description: "Returns the run with its status and the request that created it.",
    call: langgraph(`await client.runs.get("${THREAD}", "${RUN}");`),
  },
  "delete /threads/:thread_id/runs/:run_id": {
    description: "Deletes a run that has ended or has not started. The state of the thread stays.",
    call: langgraph(`await client.runs.delete("${THREAD}", "${RUN}");`),
    codes: { 409: ["run_active"] },
  },
  "get /threads/:thread_id/runs/:run_id/join": {
    description:
      "Answers when the run has ended, with the final values. White space comes before the answer while the run goes on, so that proxies keep the connection.",
    call: langgraph(`await client.runs.join("${THREAD}", "${RUN}");`),
  },
  "get /threads/:thread_id/runs/:run_id/stream": {
    description:
      "Streams the events of the run until it ends. A run with `stream_resumable` is replayed from the beginning, or from `Last-Event-ID`.",
    headers: { "Last-Event-ID": "-1" },
    call: langgraph(
      `for await (const event of client.runs.joinStream("${THREAD}", "${RUN}", { lastEventId: "-1" })) console.log(event);`,
    ),
  },
  "post /threads/:thread_id/runs/:run_id/cancel": {
    description:
      "Stops the run. With the action `interrupt` its state so far stays, with `rollback` the run and its checkpoints are deleted. With `wait` the answer comes when it has stopped.",
    query: { wait: true, action: "interrupt" },
    call: langgraph(`await client.runs.cancel("${THREAD}", "${RUN}", true, "interrupt");`),
  },
  "get /threads/:thread_id/runs/:run_id/steps": {
    description:
      "Returns what a durable function has done: its steps, sleeps and waits with their results, and what it waits for now.",
  },
  "get /threads/:thread_id/runs/:run_id/trace": {
    description:
      "Returns what the run did: its spans with their times, parents, tokens and errors, its sums, and when it was queued, active and suspended. An active run has the spans so far. Members without a value are absent.",
    codes: { 404: ["run_not_found", "trace_not_found"] },
  },
  "get /threads/:thread_id/runs/:run_id/trace/stream": {
    description:
      "Streams the trace: `trace` with all so far, `span` for each span that starts or changes, which replaces the one with its id, and `end` with the trace without its spans.",
    codes: { 404: ["run_not_found", "trace_not_found"] },
  },
  "delete /threads/:thread_id/runs/:run_id/trace": {
    description: "Deletes the trace of a run that has ended, with all copied values. The run stays.",
    codes: { 404: ["run_not_found", "trace_not_found"], 409: ["run_active"] },
  },
  "post /threads/:thread_id/events/:name": {
    description:
      "Gives an event to the durable function of the thread. The function continues from the `wait` of this name. The event must fit the schema of the wait.",
    path: { name: "parcel" },
    body: { code: 7 },
    codes: { ...EVENT_CODES, 404: ["thread_not_found", "event_not_awaited"] },
  },
  "post /greenroom/events/:address": {
    description:
      "Gives an event to the `wait` that handed out this address. Needs no key, because the address is secret. The same event again gets the same answer.",
    body: { code: 7 },
    codes: { ...EVENT_CODES, 404: ["event_not_awaited"], 409: ["event_answered"] },
  },
  "post /runs/batch": {
    description: "Creates up to 100 stateless runs in one transaction. If one of them is invalid, none is created.",
    body: [{ assistant_id: "agent", input: INPUT }],
    call: langgraph(`await client.runs.createBatch([{ assistantId: "agent", input: ${INPUT_TEXT} }]);`),
    codes: STATELESS_RUN_CODES,
  },
  "post /runs/cancel": {
    description: "Stops all runs with a status, or the runs `run_ids` of one thread.",
    body: { thread_id: THREAD, run_ids: [RUN] },
    call: langgraph(`await client.runs.cancelMany({ threadId: "${THREAD}", runIds: ["${RUN}"] });`),
    codes: { 404: ["not_found", "thread_not_found"] },
  },
  "post /runs": {
    description:
      "Starts a run without a thread in the background. Its state and the run are deleted a minute after its end, unless `on_completion` is `keep`. `config.assistant_version` is the same as `assistant_version`.",
    body: { assistant_id: "agent", input: INPUT },
    call: langgraph(`await client.runs.create(null, "agent", { input: ${INPUT_TEXT} });`),
    codes: STATELESS_RUN_CODES,
  },
  "post /runs/stream": {
    description: "Starts a run without a thread and streams its events as server-sent events.",
    body: { assistant_id: "agent", input: INPUT, stream_mode: "updates" },
    call: langgraph(
      `for await (const event of client.runs.stream(null, "agent", { input: ${INPUT_TEXT}, streamMode: "updates" })) console.log(event);`,
    ),
    codes: STATELESS_RUN_CODES,
  },
  "post /runs/wait": {
    description: "Starts a run without a thread and answers when it ends, with the final values.",
    body: { assistant_id: "agent", input: INPUT },
    call: langgraph(`await client.runs.wait(null, "agent", { input: ${INPUT_TEXT} });`),
    codes: STATELESS_RUN_CODES,
  },
  "get /runs/:run_id/stream": {
    description: "Streams the events of a stateless run until it ends. Only a run with `stream_resumable` is replayed.",
    headers: { "Last-Event-ID": "-1" },
  },
};
