/** Defines the routes of runs, on a thread and stateless, and the schemas of their requests. */
import * as v from "valibot";
import type { AccessLevel } from "../../auth/principal.ts";
import { invalidFieldError } from "../../errors.ts";
import type { Json } from "../../json.ts";
import type { RunCreate, RunOrigin } from "../../runs/mod.ts";
import type { CancelTarget } from "../../runs/run-stopper.ts";
import { MAX_EVENT_BYTES } from "../../steps/calls.ts";
import type { StopAction } from "../../storage/mod.ts";
import { isScriptRequest } from "../access.ts";
import { createListResponse } from "../json-list.ts";
import * as parse from "../parse.ts";
import { readLastEventId } from "../request.ts";
import { acceptedResponse, type HeaderValues, jsonResponse, noContentResponse, pickFields } from "../respond.ts";
import {
  createRouteGroup,
  type RequestContext,
  type Route,
  readOptionalThreadId,
  readPathSegment,
  readRunId,
  readThreadId,
  yieldAfterLargeBody,
} from "../route.ts";
import { readRunOrigin, runCreate } from "../run-request.ts";
import { createEventStreamResponse } from "../sse.ts";
import { createWaitResponse } from "../wait-response.ts";

const RUN_FIELDS = [
  "run_id",
  "thread_id",
  "assistant_id",
  "assistant_version",
  "created_at",
  "updated_at",
  "status",
  "metadata",
  "kwargs",
  "multitask_strategy",
  "langsmith_session_name",
  "cancel_reason",
  "waiting_for",
] as const;

const stopAction = v.optional(parse.oneOf(["interrupt", "rollback"])) as v.GenericSchema<StopAction | undefined>;

/** POST …/cancel */
const cancelQuery = v.object({ wait: v.optional(parse.flag), action: stopAction, reason: v.optional(parse.text) });

/** POST /runs/cancel, the query */
const cancelManyQuery = v.object({ action: stopAction });

interface RunsCancel {
  readonly status?: "pending" | "running" | "all";
  readonly thread_id?: string;
  readonly run_ids?: readonly string[];
}

/** POST /runs/cancel, the body. `toCancelTarget` converts it. */
export const cancelMany: parse.FieldSchema<RunsCancel> = v.object({
  status: v.optional(parse.oneOf(["pending", "running", "all"])),
  thread_id: v.optional(parse.uuid),
  run_ids: v.optional(
    v.pipe(
      parse.listSchema(parse.uuid),
      v.minLength(1, "must name a run"),
      v.maxLength(1000, "must name at most 1000 runs"),
    ),
  ),
});

/**
 * Returns the runs that a bulk cancel stops: those of `status`, or `run_ids` of the thread. Throws `invalid` for both
 * and for neither.
 */
function toCancelTarget({ status, thread_id, run_ids }: RunsCancel): CancelTarget {
  if (status !== undefined && (thread_id !== undefined || run_ids !== undefined)) {
    throw invalidFieldError("status", "not together with thread_id and run_ids. Send one or the other");
  }
  if (status !== undefined) return { status };
  if (thread_id !== undefined && run_ids !== undefined) return { thread_id, run_ids };
  throw invalidFieldError("status", "is required, or thread_id and run_ids");
}

/** GET /threads/{thread_id}/runs */
const runSearch = v.object({
  ...parse.pageFields,
  status: v.optional(parse.runStatus),
  select: v.optional(parse.listSchema(parse.oneOf(RUN_FIELDS))),
});

/** GET …/join */
const joinQuery = v.object({ cancel_on_disconnect: v.optional(parse.flag) });

const namespace = v.optional(parse.listSchema(parse.text));

/**
 * Reads the namespaces of a stream after `namespace` was validated; returns an empty object without any. A parameter
 * may hold a list. Reads the URL, because an empty namespace is the root graph.
 */
function readNamespaces(url: string): { readonly namespaces?: readonly string[] } {
  const input = new URL(url).searchParams.getAll("namespace");
  const namespaces = input.flatMap((value) => (value === "" ? [value] : (parse.parseListItems(value) as string[])));
  return namespaces.length === 0 ? {} : { namespaces };
}

/** POST …/runs/stream, the query. `readNamespaces` reads the values. */
const streamQuery = v.object({ namespace });

/** GET …/runs/{run_id}/stream */
const joinStreamQuery = v.object({
  stream_mode: v.optional(parse.listSchema(parse.streamMode)),
  namespace,
  /** Accepted and ignored: the whole run is replayed. */
  checkpoint_id: v.optional(parse.name),
  cancel_on_disconnect: v.optional(parse.flag),
});

const defineRoute = createRouteGroup({ tag: "Runs", group: "runs" });

/** The response to an event, also to a repeated one. */
export const RECEIVED_RESPONSE: { readonly received: true } = { received: true };

/** The maximum number of runs of a batch. All are created in one transaction, which delays other requests. */
const MAX_BATCH_RUNS = 100;

/** Returns the path of a run relative to the mount. Clients append it to their base URL. */
const formatRunPath = (thread_id: string | null, run_id: string): string =>
  thread_id === null ? `/runs/${run_id}` : `/threads/${thread_id}/runs/${run_id}`;

/** The ways in which runs are created, by the end of the path. */
const SOURCES = { "": "runs.create", "/stream": "runs.stream", "/wait": "runs.wait" } as const;

/**
 * Reads the run that a request creates: its thread (null without one), the request and its origin. `pathSuffix` is the end of its
 * path: each route has its own idempotency keys. Throws `invalid`.
 */
async function readNewRun(
  context: RequestContext,
  pathSuffix: keyof typeof SOURCES,
): Promise<[string | null, RunCreate, RunOrigin]> {
  const thread_id = readOptionalThreadId(context);
  const bytes = await context.bytes();
  const route = `${thread_id === null ? "" : `/threads/${thread_id}`}/runs${pathSuffix}`;
  const input = parse.readObject(bytes, runCreate, context);
  await yieldAfterLargeBody(context, bytes);
  return [thread_id, input, await readRunOrigin(context, SOURCES[pathSuffix], bytes, route)];
}

/**
 * Creates a run, on the thread of the path if there is one, and responds with it at once, with its path in `content-location`. A
 * repeated idempotency key gets the first run.
 */
async function createRun(context: RequestContext): Promise<Response> {
  const [thread_id, request, origin] = await readNewRun(context, "");
  const run = await context.resources.runs.create(thread_id, request, origin);
  return jsonResponse(run, { "content-location": formatRunPath(thread_id, run.run_id) });
}

/**
 * Creates a run, on the thread of the path if there is one, and streams its frames as server-sent events, only those of the
 * namespaces in the query if it has some. A repeated idempotency key streams the first run. `content-location` is the path of the
 * run, and `location` that of its stream.
 */
async function streamRun(context: RequestContext): Promise<Response> {
  context.query();
  const { namespaces } = readNamespaces(context.request.url);
  const options = namespaces === undefined ? [] : ([{ namespaces }] as const);
  const [thread_id, request, origin] = await readNewRun(context, "/stream");
  const { run, frames } = await context.resources.runs.stream(thread_id, request, origin, ...options);
  const path = formatRunPath(thread_id, run.run_id);
  const ids = { run_id: run.run_id, thread_id: run.thread_id };
  return createEventStreamResponse(context, frames, {
    ids,
    headers: { "content-location": path, location: `${path}/stream` },
  });
}

/**
 * Creates a run, on the thread of the path if there is one, and responds with its result when it ends, with status 200 and
 * `__error__` if it fails. `content-location` is the path of the run, and `location`, only on a thread, where it can be joined. Large
 * results of runs on a thread are read again when the budget has room.
 */
async function waitForRun(context: RequestContext): Promise<Response> {
  const [thread_id, request, origin] = await readNewRun(context, "/wait");
  const wait = await context.resources.runs.wait(thread_id, request, origin);
  const path = formatRunPath(thread_id, wait.run.run_id);
  // Stateless runs have no route to join.
  const location: HeaderValues = thread_id === null ? {} : { location: `${path}/join` };
  const rereadResult = createResultReader(context, wait.run.thread_id, wait.run.run_id);
  return createWaitResponse(
    context,
    wait,
    { "content-location": path, ...location },
    thread_id === null ? {} : { rereadResult },
  );
}

/** Returns a function that reads the result of an ended run. It does not refer to the run, whose input may be large. */
const createResultReader =
  ({ resources }: RequestContext, thread_id: string, run_id: string) =>
  async (): Promise<Json> =>
    (await (await resources.runs.join(thread_id, run_id)).result) ?? {};

/**
 * Responds with the result of a run, `{}` if it has none and `{ __error__ }` with status 200 if it failed: at once if the run has
 * ended, else when it ends. Stops waiting when the client disconnects, which cancels the run if `cancel_on_disconnect` is set.
 * Throws `not_found`.
 */
async function joinRun(
  context: RequestContext,
  options: { readonly cancel_on_disconnect?: boolean },
): Promise<Response> {
  const wait = await context.resources.runs.join(readThreadId(context), readRunId(context), options);
  const { run } = wait;
  if (run.status === "pending" || run.status === "running")
    return createWaitResponse(
      context,
      wait,
      {},
      { rereadResult: createResultReader(context, run.thread_id, run.run_id) },
    );
  try {
    return jsonResponse((await wait.result) ?? {});
  } finally {
    wait.leave();
  }
}

/**
 * Creates a stateless run for each item of the body, all or none, and responds with them in this order, before they execute. A
 * repeated idempotency key gets the earlier ones. Throws `invalid` for an empty list and above `MAX_BATCH_RUNS`.
 */
async function createBatch(context: RequestContext): Promise<Response> {
  const bytes = await context.bytes();
  const input = parse.readList(bytes, runCreate, context);
  if (input.length > MAX_BATCH_RUNS) {
    throw invalidFieldError("body", `must hold at most ${MAX_BATCH_RUNS} runs. Send the others in another request`);
  }
  await yieldAfterLargeBody(context, bytes);
  return jsonResponse(
    await context.resources.runs.createBatch(input, await readRunOrigin(context, "runs.batch", bytes, "/runs/batch")),
  );
}

/** Returns the options without `cancel_on_disconnect` for HEAD, which disconnects at once, and for images and links of a page. */
const toJoinOptions = <Options extends { readonly cancel_on_disconnect?: boolean }>(
  { request }: RequestContext,
  options: Options,
): Options =>
  request.method === "HEAD" || !isScriptRequest(request) ? { ...options, cancel_on_disconnect: false } : options;

/**
 * Returns the access level of a join request: `run` if a script sends it with a `cancel_on_disconnect` that is not
 * false, else `read`. HEAD and pages can only read.
 */
function resolveJoinAccess(request: Pick<Request, "method" | "url" | "headers">): AccessLevel {
  if (request.method === "HEAD" || !isScriptRequest(request)) return "read";
  const values = new URL(request.url).searchParams.getAll("cancel_on_disconnect").filter((value) => value !== "");
  return values.every((value) => /^(?:false|0|no)$/i.test(value)) ? "read" : "run";
}

/**
 * Streams the frames of a run after `Last-Event-ID`, or all, in the stream modes and namespaces of the query, by default in all of
 * them. Ignores `checkpoint_id`. The response names its own path in `location`. Throws `not_found`.
 */
async function joinStream(context: RequestContext<unknown, v.InferOutput<typeof joinStreamQuery>>): Promise<Response> {
  const [thread_id, run_id] = [readOptionalThreadId(context), readRunId(context)];
  // The whole run is replayed for every `checkpoint_id`.
  const { checkpoint_id: _, namespace: _read, ...query } = toJoinOptions(context, context.query());
  const { stream_mode: modes, ...joinOptions } = query;
  const options = { ...joinOptions, ...readNamespaces(context.request.url) };
  const after = readLastEventId(context.request.headers);
  const { frames } = await context.resources.runs.joinStream(thread_id, run_id, { after, modes, ...options });
  const ids = { run_id, ...(thread_id === null ? {} : { thread_id }) };
  return createEventStreamResponse(context, frames, {
    ids,
    headers: { location: `${formatRunPath(thread_id, run_id)}/stream` },
  });
}

const runCreationOptions = {
  access: "run",
  events: ["threads:create_run", "assistants:read"],
  body: runCreate,
  idempotency_key: true,
  errors: [404, 409, 503, 507],
} as const;
const runStreamOptions = {
  ...runCreationOptions,
  query: streamQuery,
  response: "stream",
  response_headers: ["Content-Location", "Location"],
  handle: streamRun,
} as const;
const runWaitOptions = { ...runCreationOptions, response: "Result", handle: waitForRun } as const;
const joinRouteOptions = {
  access: resolveJoinAccess,
  events: ["threads:read", "threads:update"],
  errors: [404],
} as const;
const joinStreamOptions = {
  ...joinRouteOptions,
  query: joinStreamQuery,
  request_headers: { "Last-Event-ID": "The last event seen; `-1` for all that are stored" },
  response: "stream",
  response_headers: ["Location"],
  handle: joinStream,
} as const;

export const RUN_ROUTES: readonly Route[] = [
  defineRoute("post", "/threads/:thread_id/runs", {
    ...runCreationOptions,
    summary: "Create a run on a thread",
    response: "Run",
    response_headers: ["Content-Location"],
    handle: createRun,
  }),
  defineRoute("post", "/threads/:thread_id/runs/stream", {
    ...runStreamOptions,
    summary: "Create a run on a thread and stream its events",
  }),
  defineRoute("post", "/threads/:thread_id/runs/wait", {
    ...runWaitOptions,
    summary: "Create a run on a thread and wait for its result",
    response_headers: ["Content-Location", "Location"],
  }),
  defineRoute("get", "/threads/:thread_id/runs", {
    summary: "List the runs of a thread, newest first",
    events: ["threads:read"],
    query: runSearch,
    response: "Run[]",
    errors: [404],
    /**
     * Responds with a page of the thread's runs, newest first (10 by default), as a list that is streamed if it is long. `select`
     * names the fields of each, by default all. Responds 404 for an unknown thread.
     */
    async handle(context) {
      const thread_id = readThreadId(context);
      const { select, ...search } = context.query();
      const runs = pickFields(await context.resources.runs.list(thread_id, search), select);
      return await createListResponse(context, async (add) => {
        for (const run of runs) await add(() => run);
      });
    },
  }),
  defineRoute("get", "/threads/:thread_id/runs/:run_id", {
    summary: "Get a run",
    events: ["threads:read"],
    response: "Run",
    errors: [404],
    async handle(context) {
      return jsonResponse(await context.resources.runs.get(readThreadId(context), readRunId(context)));
    },
  }),
  defineRoute("delete", "/threads/:thread_id/runs/:run_id", {
    summary: "Delete a run that is not running",
    events: ["threads:delete"],
    errors: [404, 409],
    /** Deletes the run and responds 204, or 404 for an unknown run and 409 while it is running. */
    async handle(context) {
      await context.resources.runs.delete(readThreadId(context), readRunId(context));
      return noContentResponse();
    },
  }),
  defineRoute("get", "/threads/:thread_id/runs/:run_id/join", {
    ...joinRouteOptions,
    summary: "Wait for the result of a run",
    query: joinQuery,
    response: "Result",
    async handle(context) {
      return await joinRun(context, toJoinOptions(context, context.query()));
    },
  }),
  defineRoute("get", "/threads/:thread_id/runs/:run_id/stream", {
    ...joinStreamOptions,
    summary: "Stream the events of a run",
  }),
  defineRoute("post", "/threads/:thread_id/runs/:run_id/cancel", {
    summary: "Cancel a run: it ends as `interrupted`, or is rolled back",
    access: "run",
    events: ["threads:update"],
    query: cancelQuery,
    accepted: "The run will stop",
    no_content: "The run has stopped (`wait`)",
    errors: [404, 507],
    /**
     * Cancels a run, by default with `interrupt`. Responds 202 once the stop is stored, or with `wait` 204 once the run has ended;
     * the same for a run that had ended before. Responds 404 for an unknown run, and 422 for a `reason` with `rollback`.
     */
    async handle(context) {
      const [thread_id, run_id] = [readThreadId(context), readRunId(context)];
      const { wait = false, action = "interrupt", reason } = context.query();
      const options = { action, wait, ...(reason === undefined ? {} : { reason }) };
      await context.resources.runs.cancel(thread_id, run_id, options);
      return wait ? noContentResponse() : acceptedResponse();
    },
  }),
  defineRoute("get", "/threads/:thread_id/runs/:run_id/steps", {
    summary: "Get the steps of a run of a durable function",
    strict_query: true,
    events: ["threads:read"],
    response: "RunSteps",
    errors: [404],
    async handle(context) {
      return jsonResponse(await context.resources.runs.steps(readThreadId(context), readRunId(context)));
    },
  }),
  defineRoute("post", "/threads/:thread_id/events/:name", {
    summary: "Send an event to the durable function of a thread; the body is any JSON but null",
    strict_query: true,
    access: "run",
    events: ["threads:update"],
    max_body_bytes: MAX_EVENT_BYTES,
    response: "Received",
    errors: [404, 410, 422, 507],
    /**
     * Sends the JSON body as the event `name` to the durable call of the thread, and responds with `RECEIVED_RESPONSE`. Responds 404
     * without the thread or a call, 410 if the call has ended, and 422 for null or a body that does not fit the schema of the wait.
     */
    async handle(context) {
      const name = readPathSegment(context, "name");
      await context.resources.threads.send(readThreadId(context), name, parse.readJson(await context.bytes()) as Json);
      return jsonResponse(RECEIVED_RESPONSE);
    },
  }),
  defineRoute("post", "/runs/batch", {
    ...runCreationOptions,
    summary: "Create several stateless runs, all or none",
    list: true,
    response: "Run[]",
    handle: createBatch,
  }),
  defineRoute("post", "/runs/cancel", {
    summary: "Cancel all runs of a status, or given runs of a thread",
    access: "run",
    events: ["threads:update"],
    body: cancelMany,
    query: cancelManyQuery,
    errors: [404, 507],
    /**
     * Cancels the active runs of a status, or the named runs of a thread (body), by the `action` of the query, by default
     * `interrupt`. Responds 204, also if named runs are unknown or have ended, but 404 if the thread has none of them or no run has
     * the status. Does not wait for their ends.
     */
    async handle(context) {
      const { action = "interrupt" } = context.query();
      const target = toCancelTarget(await context.body());
      await context.resources.runs.cancelMany(target, action);
      return noContentResponse();
    },
  }),
  defineRoute("post", "/runs", {
    ...runCreationOptions,
    summary: "Create a stateless run",
    response: "Run",
    response_headers: ["Content-Location"],
    handle: createRun,
  }),
  defineRoute("post", "/runs/stream", { ...runStreamOptions, summary: "Create a stateless run and stream its events" }),
  defineRoute("post", "/runs/wait", {
    ...runWaitOptions,
    summary: "Create a stateless run and wait for its result",
    response_headers: ["Content-Location"],
  }),
  defineRoute("get", "/runs/:run_id/stream", { ...joinStreamOptions, summary: "Stream the events of a stateless run" }),
];
