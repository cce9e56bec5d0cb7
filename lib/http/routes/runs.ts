/** The routes of runs. Each serves its path with a thread and without one. */
import type { Assistants } from "../../assistants/mod.ts";
import { ServiceError } from "../../errors.ts";
import type { FrameReader, RunCreate, RunOrigin, Runs, RunWait } from "../../runs/mod.ts";
import { both, type Visibility } from "../../storage/visibility.ts";
import type { Threads } from "../../threads/mod.ts";
import { body, query, type RequestContext, type Routes, rest, runId, threadId } from "../context.ts";
import * as parse from "../parse/mod.ts";
import { accepted, empty, type HeaderValues, json, selected } from "../respond.ts";
import { assistantVisibility, mayRun, visibilitiesOf } from "../run-authorization.ts";
import { requireOwn } from "../shared-access.ts";
import { type Bodies, sseBody, waitBody } from "../sse.ts";

/** All runs of a batch are made in one transaction, while which nothing else is answered. */
const MOST_IN_BATCH = 100;

type Name =
  | "create"
  | "stream"
  | "wait"
  | "createBatch"
  | "list"
  | "get"
  | "delete"
  | "cancel"
  | "cancelMany"
  | "join"
  | "joinStream"
  | "threadStream";

export function runRoutes(
  { assistants, runs, threads }: { assistants: Assistants; runs: Runs; threads: Threads },
  bodies: Bodies,
  copied: parse.HeaderCopy,
): Routes<Name> {
  /** Null: a stateless run. */
  const thread = (call: RequestContext): string | null => (call.params.thread_id === undefined ? null : threadId(call));
  // Paths are relative to the mount: clients append them to the URL they know.
  const place = (thread_id: string | null, run_id: string): string =>
    thread_id === null ? `/runs/${run_id}` : `/threads/${thread_id}/runs/${run_id}`;
  const streamed = (
    { principal, request_id }: RequestContext,
    frames: FrameReader,
    of: Readonly<Record<string, string>>,
    headers: HeaderValues,
  ): Response =>
    new Response(sseBody(frames, bodies, { ...of, request_id }, principal.isStillValid), {
      headers: {
        "content-type": "text/event-stream",
        "cache-control": "no-cache",
        "x-accel-buffering": "no",
        ...headers,
      },
    });
  const awaited = ({ principal, request_id }: RequestContext, wait: RunWait, headers: HeaderValues): Response => {
    const { run_id, thread_id } = wait.run;
    return new Response(waitBody(wait, bodies, { run_id, thread_id, request_id }, principal.isStillValid), {
      headers: { "content-type": "application/json", ...headers },
    });
  };
  /** What the request adds to its body, and where it was sent: the same key means another run on another route. */
  async function origin(call: RequestContext, bytes: Uint8Array, route: string): Promise<RunOrigin> {
    const { headers } = call.request;
    const { user_id, api_key, user } = call.principal;
    // A key that somebody else has used says nothing of this call.
    const place = user ? `${route} ${JSON.stringify(user.identity)}` : route;
    const idempotency = await parse.readIdempotency(headers, place, bytes);
    const webhook_depth = parse.readWebhookDepth(headers);
    const configurable = copied(headers);
    return {
      configurable,
      user_id,
      api_key,
      webhook_depth,
      ...(user ? { user } : {}),
      ...(idempotency ? { idempotency } : {}),
    };
  }
  /** A run as its caller may have it. Authorization is told of its id, so it is made here where anybody is asked. */
  async function allowed(
    call: RequestContext,
    thread_id: string | null,
    request: RunCreate,
  ): Promise<[RunCreate, Pick<RunOrigin, "threads" | "assistants" | "run_ids">]> {
    const among = await assistantVisibility(call, assistants, request.assistant_id);
    const run_id = call.principal.user ? bodies.environment.uuid() : null;
    const run = await mayRun(call, thread_id, run_id, request);
    return [run.request, { ...visibilitiesOf(run.threads, among), ...(run_id === null ? {} : { run_ids: [run_id] }) }];
  }
  async function asked(call: RequestContext, verb: string): Promise<[string | null, RunCreate, RunOrigin]> {
    const thread_id = thread(call);
    if (thread_id !== null) await requireOwn(call, threads, thread_id);
    const bytes = await call.bytes();
    const route = `${thread_id === null ? "" : `/threads/${thread_id}`}/runs${verb}`;
    const sent = parse.readObject(bytes, parse.runCreate);
    await rest(call, bytes);
    const [request, agreed] = await allowed(call, thread_id, sent);
    return [thread_id, request, { ...(await origin(call, bytes, route)), ...agreed }];
  }
  const named = async (call: RequestContext, event: "threads:read" | "threads:delete") => {
    const [thread_id, run_id] = [threadId(call), runId(call)];
    return { thread_id, run_id, ...(await call.authorize(event, { thread_id, run_id })) };
  };
  /** A join, and within which reach: who stops the run by leaving does what `cancel` does. */
  const joining = async (
    call: RequestContext,
    thread_id: string | null,
    run_id: string,
    stops = false,
  ): Promise<Visibility> => {
    const { visibility } = await call.authorize("threads:read", { thread_id, run_id });
    if (!stops) return visibility;
    if (thread_id !== null) await requireOwn(call, threads, thread_id);
    else if (call.principal.guest)
      throw new ServiceError("forbidden", "cancel_on_disconnect: only the owner may ask for it");
    const cancel = { thread_id, action: "interrupt", metadata: { run_ids: [run_id] } };
    return both(visibility, (await call.authorize("threads:update", cancel)).visibility);
  };
  // HEAD leaves at once and must change nothing.
  const leaving = <Asked extends { readonly cancel_on_disconnect?: boolean }>(
    call: RequestContext,
    asked: Asked,
  ): Asked => (call.request.method === "HEAD" ? { ...asked, cancel_on_disconnect: false } : asked);

  return {
    async create(call) {
      const [thread_id, request, from] = await asked(call, "");
      const run = await runs.create(thread_id, request, from);
      return json(run, { "content-location": place(thread_id, run.run_id) });
    },
    async stream(call) {
      query(call, parse.streamQuery);
      const { namespaces } = parse.readNamespaces(call.url);
      const shown = namespaces === undefined ? [] : ([{ namespaces }] as const);
      const [thread_id, request, from] = await asked(call, "/stream");
      const { run, frames } = await runs.stream(thread_id, request, from, ...shown);
      const at = place(thread_id, run.run_id);
      const { run_id, thread_id: on } = run;
      return streamed(call, frames, { run_id, thread_id: on }, { "content-location": at, location: `${at}/stream` });
    },
    async wait(call) {
      const [thread_id, request, from] = await asked(call, "/wait");
      const wait = await runs.wait(thread_id, request, from);
      const at = place(thread_id, wait.run.run_id);
      return awaited(call, wait, { "content-location": at, ...(thread_id === null ? {} : { location: `${at}/join` }) });
    },
    async createBatch(call) {
      const bytes = await call.bytes();
      const requests: RunCreate[] = [];
      const run_ids: string[] = [];
      let reaches: Pick<RunOrigin, "assistants"> = {};
      const sent = parse.readList(bytes, parse.runCreate);
      if (sent.length > MOST_IN_BATCH) {
        throw new ServiceError("invalid", `body: must hold at most ${MOST_IN_BATCH} runs, as they are made at once`);
      }
      await rest(call, bytes);
      for (const request of sent) {
        const [changed, its] = await allowed(call, null, request);
        requests.push(changed);
        run_ids.push(...(its.run_ids ?? []));
        // What one of them may not use, none of them uses.
        const filter = [...(reaches.assistants?.filter ?? []), ...(its.assistants?.filter ?? [])];
        reaches = filter.length > 0 ? { assistants: { filter } } : {};
      }
      const from = { ...(await origin(call, bytes, "/runs/batch")), ...reaches };
      return json(await runs.createBatch(requests, run_ids.length > 0 ? { ...from, run_ids } : from));
    },
    async list(call) {
      const thread_id = threadId(call);
      const { select, ...search } = query(call, parse.runSearch);
      const { visibility } = await call.authorize("threads:read", { thread_id });
      return json(selected(await runs.list(thread_id, search, visibility), select));
    },
    async get(call) {
      const { thread_id, run_id, visibility } = await named(call, "threads:read");
      return json(await runs.get(thread_id, run_id, visibility));
    },
    async delete(call) {
      const { thread_id, run_id, visibility } = await named(call, "threads:delete");
      await runs.delete(thread_id, run_id, visibility);
      return empty();
    },
    async cancel(call) {
      const [thread_id, run_id] = [threadId(call), runId(call)];
      const { wait = false, action = "interrupt", reason } = query(call, parse.cancelQuery);
      await requireOwn(call, threads, thread_id);
      const { visibility } = await call.authorize("threads:update", {
        thread_id,
        action,
        metadata: { run_ids: [run_id] },
      });
      await runs.cancel(thread_id, run_id, { action, wait, ...(reason === undefined ? {} : { reason }) }, visibility);
      return wait ? empty() : accepted();
    },
    async cancelMany(call) {
      const { action = "interrupt" } = query(call, parse.cancelManyQuery);
      const target = parse.readTarget(await body(call, parse.cancelMany));
      if ("thread_id" in target) await requireOwn(call, threads, target.thread_id);
      else if (call.principal.guest) throw new ServiceError("forbidden", "status: only the owner may cancel all runs");
      const { thread_id, ...metadata } = { thread_id: null, ...target };
      const { visibility } = await call.authorize("threads:update", { thread_id, action, metadata });
      await runs.cancelMany(target, action, visibility);
      return empty();
    },
    async join(call) {
      const options = leaving(call, query(call, parse.joinQuery));
      const [thread_id, run_id] = [threadId(call), runId(call)];
      const visibility = await joining(call, thread_id, run_id, options.cancel_on_disconnect);
      return awaited(call, await runs.join(thread_id, run_id, options, visibility), {});
    },
    async joinStream(call) {
      const [thread_id, run_id] = [thread(call), runId(call)];
      // The whole run is replayed, whichever checkpoint of it the caller knows.
      const { checkpoint_id: _, namespace: _read, ...asked } = leaving(call, query(call, parse.joinStreamQuery));
      const { stream_mode: modes, ...left } = asked;
      const options = { ...left, ...parse.readNamespaces(call.url) };
      const after = parse.readLastEventId(call.request.headers);
      const visibility = await joining(call, thread_id, run_id, options.cancel_on_disconnect);
      const { frames } = await runs.joinStream(thread_id, run_id, { after, modes, ...options }, visibility);
      const of = { run_id, ...(thread_id === null ? {} : { thread_id }) };
      return streamed(call, frames, of, { location: `${place(thread_id, run_id)}/stream` });
    },
    async threadStream(call) {
      const thread_id = threadId(call);
      const { stream_mode = [], stream_modes = [] } = query(call, parse.threadStreamQuery);
      const after = parse.readThreadEventId(call.request.headers);
      const { visibility } = await call.authorize("threads:read", { thread_id });
      const frames = await threads.stream(thread_id, { modes: [...stream_mode, ...stream_modes], after }, visibility);
      return streamed(call, frames, { thread_id }, { location: `/threads/${thread_id}/stream` });
    },
  };
}
