/** The built routes: what each takes, answers and refuses. */
import * as parse from "../../lib/http/parse/mod.ts";
import type { JsonObject } from "../../lib/json.ts";
import { CRONS_AND_STORE } from "./crons-and-store.ts";
import { PLATFORM } from "./platform.ts";
import { count, list, object, PAGES, record, ref, string } from "./schemas.ts";

export type Schema = parse.Fields<unknown>;

export interface Operation {
  readonly tag: string;
  readonly summary: string;
  readonly body?: Schema;
  /** The body is a list of these. */
  readonly list?: boolean;
  readonly query?: Schema;
  /** A body that is read by hand, and such a query. */
  readonly sends?: JsonObject;
  readonly asks?: readonly JsonObject[];
  /** Nobody is asked for a key. */
  readonly open?: boolean;
  readonly header?: Readonly<Record<string, string>>;
  /** Response headers by name. */
  readonly answers?: readonly string[];
  /** The schema of the 200 answer; absent: 204. */
  readonly ok?: JsonObject | "stream" | "text" | "csv";
  readonly also202?: string;
  readonly also204?: string;
  readonly errors: readonly number[];
}

const newRun = {
  tag: "Runs",
  body: parse.runCreate,
  header: { "Idempotency-Key": "1 to 255 visible ASCII characters; the same request again gives the same run" },
  errors: [400, 404, 409, 413, 422, 503, 507],
};
const LAST_EVENT = { "Last-Event-ID": "The last event seen; `-1` for all that are kept" };

export const OPERATIONS: Readonly<Record<string, Operation>> = {
  "post /assistants": {
    tag: "Assistants",
    summary: "Create an assistant",
    body: parse.assistantCreate,
    ok: ref("Assistant"),
    errors: [400, 404, 409, 413, 422],
  },
  "post /assistants/search": {
    tag: "Assistants",
    summary: "Search assistants",
    body: parse.assistantSearch,
    ok: list(ref("Assistant")),
    answers: PAGES,
    errors: [400, 413, 422],
  },
  "post /assistants/count": {
    tag: "Assistants",
    summary: "Count assistants",
    body: parse.assistantCount,
    ok: count,
    errors: [400, 413, 422],
  },
  "get /assistants/{assistant_id}": {
    tag: "Assistants",
    summary: "Get an assistant",
    ok: ref("Assistant"),
    errors: [404, 422],
  },
  "patch /assistants/{assistant_id}": {
    tag: "Assistants",
    summary: "Make a new version of an assistant and activate it",
    body: parse.assistantPatch,
    ok: ref("Assistant"),
    errors: [400, 404, 413, 422],
  },
  "delete /assistants/{assistant_id}": {
    tag: "Assistants",
    summary: "Delete an assistant with all its versions",
    query: parse.assistantDeletion,
    errors: [404, 409, 422],
  },
  "post /assistants/{assistant_id}/versions": {
    tag: "Assistants",
    summary: "List the versions of an assistant, newest first",
    body: parse.versionSearch,
    ok: list(ref("AssistantVersion")),
    errors: [400, 404, 413, 422],
  },
  "post /assistants/{assistant_id}/latest": {
    tag: "Assistants",
    summary: "Activate a version, named in the body or in the query",
    body: parse.latest,
    query: parse.latest,
    ok: ref("Assistant"),
    errors: [400, 404, 413, 422],
  },
  "get /assistants/{assistant_id}/graph": {
    tag: "Assistants",
    summary: "Get the nodes and edges of the graph",
    query: parse.drawing,
    ok: ref("DrawnGraph"),
    errors: [404, 422],
  },
  "get /assistants/{assistant_id}/schemas": {
    tag: "Assistants",
    summary: "Get the schemas of the graph",
    ok: ref("GraphSchemas"),
    errors: [404, 422],
  },
  "get /assistants/{assistant_id}/subgraphs": {
    tag: "Assistants",
    summary: "Get the schemas of the subgraphs",
    query: parse.subgraphSearch,
    ok: { type: "object", additionalProperties: ref("GraphSchemas") },
    errors: [404, 422],
  },
  "get /assistants/{assistant_id}/subgraphs/{namespace}": {
    tag: "Assistants",
    summary: "Get the schemas of one subgraph",
    query: parse.subgraphSearch,
    ok: { type: "object", additionalProperties: ref("GraphSchemas") },
    errors: [404, 422],
  },
  "post /threads": {
    tag: "Threads",
    summary: "Create a thread",
    body: parse.threadCreate,
    ok: ref("Thread"),
    errors: [400, 409, 413, 422],
  },
  "post /threads/search": {
    tag: "Threads",
    summary: "Search threads",
    body: parse.threadSearch,
    ok: list(ref("Thread")),
    answers: PAGES,
    errors: [400, 413, 422],
  },
  "post /threads/count": {
    tag: "Threads",
    summary: "Count threads",
    body: parse.threadCount,
    ok: count,
    errors: [400, 413, 422],
  },
  "post /threads/prune": {
    tag: "Threads",
    summary:
      "Delete threads, or all of their checkpoints but the newest state; those with an active run are left alone",
    body: parse.threadPrune,
    ok: record({ pruned_count: count }),
    errors: [400, 413, 422],
  },
  "post /threads/{thread_id}/copy": {
    tag: "Threads",
    summary: "Copy a thread with all its checkpoints",
    ok: ref("Thread"),
    errors: [409, 422],
  },
  "get /threads/{thread_id}": {
    tag: "Threads",
    summary: "Get a thread",
    query: parse.threadQuery,
    ok: ref("Thread"),
    errors: [404, 422],
  },
  "patch /threads/{thread_id}": {
    tag: "Threads",
    summary: "Merge metadata into a thread",
    body: parse.threadPatch,
    header: { Prefer: "`return=minimal` for an answer without a body" },
    ok: ref("Thread"),
    also204: "Changed, as `Prefer: return=minimal` asked",
    errors: [400, 404, 413, 422],
  },
  "delete /threads/{thread_id}": {
    tag: "Threads",
    summary: "Delete a thread with its runs and checkpoints",
    errors: [404, 422],
  },
  "get /threads/{thread_id}/state": {
    tag: "Threads",
    summary: "Get the state of a thread",
    query: parse.stateQuery,
    ok: ref("ThreadState"),
    errors: [404, 422],
  },
  "post /threads/{thread_id}/state": {
    tag: "Threads",
    summary: "Change the state of a thread as a node would, or fork it from a checkpoint",
    body: parse.stateChange,
    ok: record({ checkpoint: ref("Checkpoint") }),
    errors: [400, 404, 409, 413, 422],
  },
  "patch /threads/{thread_id}/state": {
    tag: "Threads",
    summary: "Merge metadata into the newest checkpoint",
    body: parse.stateNote,
    errors: [400, 404, 413, 422],
  },
  "get /threads/{thread_id}/state/{checkpoint_id}": {
    tag: "Threads",
    summary: "Get the state of a thread at a checkpoint",
    query: parse.stateQuery,
    ok: ref("ThreadState"),
    errors: [404, 422],
  },
  "post /threads/{thread_id}/state/checkpoint": {
    tag: "Threads",
    summary: "Get the state of a thread at a checkpoint, also one of a subgraph",
    body: parse.stateAt,
    ok: ref("ThreadState"),
    errors: [400, 404, 413, 422],
  },
  "get /threads/{thread_id}/history": {
    tag: "Threads",
    summary: "List the states of a thread, newest first",
    query: parse.historyQuery,
    ok: list(ref("ThreadState")),
    errors: [404, 422],
  },
  "post /threads/{thread_id}/history": {
    tag: "Threads",
    summary: "List the states of a thread, newest first, filtered",
    body: parse.historySearch,
    ok: list(ref("ThreadState")),
    errors: [400, 404, 413, 422],
  },
  "get /threads/{thread_id}/storage": {
    tag: "Threads",
    summary: "Measure what the checkpoints of a thread take, in bytes as they are stored",
    ok: ref("ThreadStorage"),
    errors: [404, 422],
  },
  "post /threads/{thread_id}/runs": {
    ...newRun,
    summary: "Create a run on a thread",
    ok: ref("Run"),
    answers: ["Content-Location"],
  },
  "post /threads/{thread_id}/runs/stream": {
    ...newRun,
    summary: "Create a run on a thread and stream its events",
    query: parse.streamQuery,
    ok: "stream",
    answers: ["Content-Location", "Location"],
  },
  "post /threads/{thread_id}/runs/wait": {
    ...newRun,
    summary: "Create a run on a thread and wait for its result",
    ok: ref("Result"),
    answers: ["Content-Location", "Location"],
  },
  "get /threads/{thread_id}/runs": {
    tag: "Runs",
    summary: "List the runs of a thread, newest first",
    query: parse.runSearch,
    ok: list(ref("Run")),
    errors: [404, 422],
  },
  "get /threads/{thread_id}/runs/{run_id}": { tag: "Runs", summary: "Get a run", ok: ref("Run"), errors: [404, 422] },
  "delete /threads/{thread_id}/runs/{run_id}": {
    tag: "Runs",
    summary: "Delete a run that is not running",
    errors: [404, 409, 422],
  },
  "get /threads/{thread_id}/runs/{run_id}/join": {
    tag: "Runs",
    summary: "Wait for the result of a run",
    query: parse.joinQuery,
    ok: ref("Result"),
    errors: [404, 422],
  },
  "get /threads/{thread_id}/runs/{run_id}/stream": {
    tag: "Runs",
    summary: "Stream the events of a run",
    query: parse.joinStreamQuery,
    header: LAST_EVENT,
    ok: "stream",
    answers: ["Location"],
    errors: [404, 422],
  },
  "post /threads/{thread_id}/runs/{run_id}/cancel": {
    tag: "Runs",
    summary: "Stop a run: it ends as interrupted, or is rolled back",
    query: parse.cancelQuery,
    also202: "It will stop",
    also204: "It has stopped, as `wait` asked",
    errors: [404, 422, 507],
  },
  "get /threads/{thread_id}/stream": {
    tag: "Threads",
    summary: "Stream the events of all runs of a thread, those to come too",
    query: parse.threadStreamQuery,
    header: { "Last-Event-ID": "The last event seen; `-` or `-1` for all that are kept" },
    ok: "stream",
    answers: ["Location"],
    errors: [404, 422],
  },
  "post /runs/batch": {
    ...newRun,
    summary: "Create stateless runs: all of them, or none",
    list: true,
    ok: list(ref("Run")),
  },
  "post /runs/cancel": {
    tag: "Runs",
    summary: "Stop the runs of a status, or some of a thread",
    body: parse.cancelMany,
    query: parse.cancelManyQuery,
    errors: [400, 404, 413, 422, 507],
  },
  "post /runs": { ...newRun, summary: "Create a stateless run", ok: ref("Run"), answers: ["Content-Location"] },
  "post /runs/stream": {
    ...newRun,
    summary: "Create a stateless run and stream its events",
    query: parse.streamQuery,
    ok: "stream",
    answers: ["Content-Location", "Location"],
  },
  "post /runs/wait": {
    ...newRun,
    summary: "Create a stateless run and wait for its result",
    ok: ref("Result"),
    answers: ["Content-Location"],
  },
  "get /runs/{run_id}/stream": {
    tag: "Runs",
    summary: "Stream the events of a stateless run",
    query: parse.joinStreamQuery,
    header: LAST_EVENT,
    ok: "stream",
    answers: ["Location"],
    errors: [404, 422],
  },
  "get /ok": {
    tag: "Server",
    open: true,
    summary: "Whether runs can be executed",
    ok: record({
      ok: { type: "boolean", const: true },
      services: record({ worker: record({ ok: { type: "boolean" } }), database: record({ ok: { type: "boolean" } }) }),
    }),
    errors: [503],
  },
  "get /ready": {
    tag: "Server",
    open: true,
    summary: "Whether requests should be sent here",
    ok: record({ ok: { type: "boolean", const: true } }),
    errors: [503],
  },
  "get /metrics": {
    tag: "Server",
    summary: "Measurements, as text for Prometheus or as JSON",
    query: parse.metricsQuery,
    ok: "text",
    errors: [422],
  },
  "get /info": {
    tag: "Server",
    open: true,
    summary: "Versions and what is offered",
    ok: record(
      {
        version: string,
        api_version: string,
        langgraph_js_version: string,
        flags: { type: "object", additionalProperties: { type: "boolean" } },
      },
      ["langgraph_js_version"],
    ),
    errors: [],
  },
  "get /openapi.json": { tag: "Server", open: true, summary: "This description", ok: object, errors: [] },
  ...CRONS_AND_STORE,
  ...PLATFORM,
};
