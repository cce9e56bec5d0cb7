/** Threads and their states. */
import { CHECKPOINT, THREAD } from "../example-ids.ts";
import { langgraph, type OperationTexts } from "./text.ts";

const HUMAN = { messages: [{ role: "human", content: "What is new?" }] };

export const threadTexts: OperationTexts = {
  "post /threads": {
    description:
      "A thread is a conversation: runs read its state and write it. Without `thread_id` the server chooses an id. With `supersteps` the thread starts with a state.",
    body: { thread_id: THREAD, metadata: { topic: "weather" }, if_exists: "do_nothing" },
    call: langgraph(
      `await client.threads.create({\n  threadId: "${THREAD}",\n  metadata: { topic: "weather" },\n  ifExists: "do_nothing",\n});`,
    ),
    codes: { 409: ["already_exists"], 422: ["invalid"] },
  },
  "post /threads/search": {
    description:
      "Returns the threads that match all filters, a page at a time. `metadata` and `values` match threads that contain them. `X-Pagination-Total` has the number of all matches.",
    body: { metadata: { topic: "weather" }, status: "idle", limit: 10 },
    call: langgraph(`await client.threads.search({ metadata: { topic: "weather" }, status: "idle", limit: 10 });`),
  },
  "post /threads/count": {
    description: "Returns the number of threads that match all filters, which are those of a search.",
    body: { metadata: { topic: "weather" } },
    call: langgraph(`await client.threads.count({ metadata: { topic: "weather" } });`),
  },
  "post /threads/prune": {
    description:
      "Deletes many threads in one call. With the strategy `keep_latest` the threads stay, and lose all checkpoints but the newest. Threads with an active run are skipped; the result counts the others.",
    body: { thread_ids: [THREAD], strategy: "keep_latest" },
    call: langgraph(`await client.threads.prune(["${THREAD}"], { strategy: "keep_latest" });`),
  },
  "post /threads/:thread_id/copy": {
    description:
      "Creates a thread with a new id and the metadata, the state and the checkpoints of this one. Runs are not copied.",
    call: langgraph(`await client.threads.copy("${THREAD}");`),
    codes: { 409: ["already_exists"] },
  },
  "get /threads/:thread_id": {
    description:
      "Returns the thread with its status, its current values and its open interrupts. With `include=ttl` it says when the thread expires.",
    call: langgraph(`await client.threads.get("${THREAD}");`),
  },
  "patch /threads/:thread_id": {
    description: "Merges the members of `metadata` into those of the thread, and sets its time to live.",
    body: { metadata: { topic: "travel" } },
    call: langgraph(`await client.threads.update("${THREAD}", { metadata: { topic: "travel" } });`),
  },
  "delete /threads/:thread_id": {
    description: "Deletes the thread. Its active runs are cancelled first; its runs, checkpoints and crons go with it.",
    call: langgraph(`await client.threads.delete("${THREAD}");`),
  },
  "get /threads/:thread_id/state": {
    description:
      "Returns the newest state: the values, the nodes that are next, and the interrupts that wait for an answer. `select` returns a part of it.",
    call: langgraph(`await client.threads.getState("${THREAD}");`),
  },
  "post /threads/:thread_id/state": {
    description:
      "Writes values as the node `as_node` would, and creates a checkpoint. With `checkpoint` the update starts a new branch there. No run starts.",
    body: { values: HUMAN, as_node: "agent" },
    call: langgraph(
      `await client.threads.updateState("${THREAD}", {\n  values: { messages: [{ role: "human", content: "What is new?" }] },\n  asNode: "agent",\n});`,
    ),
    codes: { 404: ["thread_not_found", "checkpoint_not_found"], 409: ["thread_busy"] },
  },
  "patch /threads/:thread_id/state": {
    description: "Merges metadata into that of the newest checkpoint. The values do not change.",
    body: { metadata: { reviewed: true } },
    call: langgraph(`await client.threads.patchState("${THREAD}", { reviewed: true });`),
    codes: { 404: ["thread_not_found", "not_found"] },
  },
  "get /threads/:thread_id/state/:checkpoint_id": {
    description: "Returns the state as it was at a checkpoint. The history of the thread lists the ids of checkpoints.",
    call: langgraph(`await client.threads.getState("${THREAD}", "${CHECKPOINT}");`),
    codes: { 404: ["thread_not_found", "checkpoint_not_found"] },
  },
  "post /threads/:thread_id/state/checkpoint": {
    description:
      "Returns the state as it was at a checkpoint. Its namespace names a subgraph; with `subgraphs` the tasks have the states of theirs.",
    body: { checkpoint: { checkpoint_id: CHECKPOINT, checkpoint_ns: "" } },
    call: langgraph(
      `await client.threads.getState("${THREAD}", { checkpoint_id: "${CHECKPOINT}", checkpoint_ns: "" });`,
    ),
    codes: { 404: ["thread_not_found", "checkpoint_not_found"] },
  },
  "get /threads/:thread_id/history": {
    description:
      "Returns the states of the thread with their checkpoints, newest first. For the next page send the id of the last checkpoint as `before`.",
    query: { limit: 2 },
  },
  "post /threads/:thread_id/history": {
    description:
      "Returns the states of the thread, newest first, and filters by metadata or checkpoint namespace. For the next page send the last checkpoint as `before`.",
    body: { limit: 2 },
    call: langgraph(`await client.threads.getHistory("${THREAD}", { limit: 2 });`),
  },
  "get /threads/:thread_id/storage": {
    description:
      "Returns how many bytes the checkpoints, the values of each channel and the pending writes of the thread use in the database.",
  },
  "get /threads/:thread_id/stream": {
    description:
      "Streams the events of every run of the thread, in the order in which they happen. The stream stays open between runs. `Last-Event-ID` continues after an event.",
    query: { stream_mode: ["run_modes"] },
    headers: { "Last-Event-ID": "-" },
    call: langgraph(
      `for await (const event of client.threads.joinStream("${THREAD}", { lastEventId: "-", streamMode: ["run_modes"] })) console.log(event);`,
    ),
  },
  "post /threads/:thread_id/commands": {
    description:
      "Sends a command of the event protocol: `run.start`, `input.respond`, `state.get` and others. A command that fails is an answer of type `error` with status 200.",
    body: {
      id: 1,
      method: "run.start",
      params: { assistant_id: "agent", input: { messages: [{ role: "human", content: "Hello" }] } },
    },
  },
  "post /threads/:thread_id/stream/events": {
    description:
      "Streams the events of the thread whose channel and namespace pass the filter, in the event protocol. It starts with those that are stored; `since` skips them up to a number.",
    body: { channels: ["lifecycle", "messages"] },
  },
  "get /threads/:thread_id/stream/events": {
    description:
      "Opens a WebSocket that takes commands and sends events of the thread. `threads.stream` of the SDK uses it. A request without a handshake gets 426.",
    headers: { Upgrade: "websocket" },
    codes: { 403: ["origin_refused"] },
  },
};
