/** Checks of the traces of runs that clients of each protocol, crons, webhooks and durable calls create; and of who sees them. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AIMessage } from "@langchain/core/messages";
import { MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import type { FunctionJob } from "../../../../lib/functions/function-job.ts";
import type { JsonObject } from "../../../../lib/json.ts";
import type { Permission } from "../../../../lib/storage/identity.ts";
import type { Storage } from "../../../../lib/storage/mod.ts";
import type { RunTrace } from "../../../../lib/traces/run-trace.ts";
import { type TestService, type TestServiceOptions, testClock, testService } from "../../../suite/kit.ts";
import { until } from "../../../support/until.ts";
import { customWorld, owning, type World } from "../../auth/custom-auth.harness.ts";
import { asker as askA2a, say } from "../endpoints/a2a/a2a.harness.ts";
import { asker as askMcp } from "../endpoints/mcp/mcp.harness.ts";

const TRACE_ID = "0af7651916cd43dd8448eb211c80319c";
const OTHER_ID = "1bf7651916cd43dd8448eb211c80319d";
const traceparent = `00-${TRACE_ID}-b7ad6b7169203331-01`;

const echo = new StateGraph(MessagesAnnotation)
  .addNode("answer", ({ messages }) => ({ messages: [new AIMessage(`You said ${messages.length}`)] }))
  .addEdge(START, "answer")
  .compile();

const MESSAGES = { messages: [{ role: "user", content: "Hi" }] };

/** Creates a service with the agent `echo` on a new storage. */
const createEcho = async (storage: Storage, options: object = {}): Promise<TestService> =>
  await testService({ storage, agents: { echo }, ...options } as TestServiceOptions);

/** Returns the newest trace with this source, once its run has ended. */
async function readNewest({ service }: TestService, source: string): Promise<RunTrace> {
  let run_id = "";
  await until(async () => {
    const { items } = await service.traces.search({});
    const found = items.find((item) => item.source === source && item.ended_at !== undefined);
    run_id = found?.run_id ?? "";
    return run_id !== "";
  }, `a trace of ${source}`);
  return await service.traces.get(null, run_id);
}

const KINDS = ["run", "request", "queue", "attempt", "node"];

/** Checks that a run has one span of each kind, and this trace id; its own without one. */
async function requireTrace(test: TestService, source: string, trace_id?: string): Promise<void> {
  const trace = await readNewest(test, source);
  // A slow machine has slow commits, which are spans, too.
  assert.deepEqual(
    trace.spans.map(({ kind }) => kind).filter((kind) => kind !== "commit"),
    KINDS,
    source,
  );
  assert.equal(trace.trace_id, trace_id ?? trace.run_id.replaceAll("-", ""), source);
  assert.equal(trace.source, source);
}

async function post(
  { fetch }: TestService,
  path: string,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<string> {
  const response = await fetch(`http://127.0.0.1${path}`, { method: "POST", body: JSON.stringify(body), headers });
  const text = await response.text();
  assert.ok(response.ok, `${path}: ${response.status} ${text}`);
  return text;
}

function registerSourceChecks(open: () => Promise<Storage>): void {
  it("is the route of the Agent Server API", async () => {
    await using test = await createEcho(await open());
    const run = { assistant_id: "echo", input: MESSAGES };
    const { thread_id } = JSON.parse(await post(test, "/threads", {})) as { thread_id: string };
    const headers = { traceparent };
    await post(test, "/runs", run, headers);
    await requireTrace(test, "runs.create", TRACE_ID);
    await post(test, `/threads/${thread_id}/runs/wait`, run, headers);
    await requireTrace(test, "runs.wait", TRACE_ID);
    await post(test, "/runs/stream", run, headers);
    await requireTrace(test, "runs.stream", TRACE_ID);
    await post(test, "/runs/batch", [run], headers);
    await requireTrace(test, "runs.batch", TRACE_ID);
    await post(test, `/threads/${thread_id}/commands`, { id: 1, method: "run.start", params: run }, headers);
    await requireTrace(test, "thread.command", TRACE_ID);
    await (await test.service.runs.wait(null, run)).result;
    await requireTrace(test, "in_process");
  });

  it("is the protocol of the client, whose trace context it continues", async () => {
    await using test = await createEcho(await open());
    const headers = { traceparent };
    const agUiRun = {
      threadId: crypto.randomUUID(),
      runId: "r1",
      messages: [{ id: "u1", role: "user", content: "Hi" }],
    };
    await post(test, "/ag-ui/echo", agUiRun, { ...headers, accept: "text/event-stream" });
    await requireTrace(test, "ag-ui", TRACE_ID);

    const message = { id: "u1", role: "user", parts: [{ type: "text", text: "Hi" }] };
    await post(test, "/ai/echo/chat", { id: "c", trigger: "submit-message", messages: [message] }, headers);
    await requireTrace(test, "ai", TRACE_ID);

    const a2a = askA2a(test.fetch as never);
    await a2a("echo", "SendMessage", say("Hi", { metadata: { traceparent } }), { "a2a-version": "1.0" });
    await requireTrace(test, "a2a", TRACE_ID);

    const mcp = askMcp(test.fetch as never);
    // The context of the message precedes that of the request.
    const options = { meta: { traceparent }, headers: { traceparent: traceparent.replace(TRACE_ID, OTHER_ID) } };
    const { result } = await mcp("tools/list");
    const [tool] = result.tools as readonly JsonObject[];
    await mcp("tools/call", { name: tool?.name as string, arguments: { message: "Hi" } }, options);
    await requireTrace(test, "mcp", TRACE_ID);
  });

  it("is the cron, which its trace links to", async () => {
    await using test = await createEcho(await open());
    const request = { assistant_id: "echo", schedule: "@yearly", input: MESSAGES };
    const { cron_id } = await test.service.crons.create(null, request);
    const { run_id } = await test.service.crons.run(cron_id);
    await requireTrace(test, "cron");
    const { links, cron_id: id } = await test.service.traces.get(null, run_id);
    assert.deepEqual([links, id], [[{ kind: "fired_by", cron_id }], cron_id]);
    assert.equal((await test.service.traces.search({ cron_id })).items.length, 1);
  });

  it("is a webhook for a run that a relative webhook starts", async () => {
    const run = { assistant_id: "echo", input: MESSAGES };
    await using test: TestService = await createEcho(await open(), {
      webhooks: {
        async loopback(request: Request): Promise<Response> {
          const depth = request.headers.get("x-webhook-depth") ?? "";
          await post(test, "/runs", run, { "x-webhook-depth": depth });
          return new Response(null, { status: 204 });
        },
      },
    });
    const { result } = await test.service.runs.wait(null, { ...run, webhook: "/hook" });
    await result;
    await requireTrace(test, "webhook");
    const { items } = await test.service.traces.search({ source: "in_process" });
    await until(async () => {
      const { spans } = await test.service.traces.get(null, items[0]?.run_id as string);
      return spans.some(({ kind, status, name }) => kind === "webhook" && status === "ok" && name === "relative URL");
    });
  });

  it("is a call for the run that goes on after an ask without an answer", async () => {
    const clock = testClock();
    const asker = async ({ ask }: FunctionJob): Promise<string> => String(await ask("ok", "?", { timeout: "1h" }));
    await using test = await testService({ storage: await open(), agents: { asker }, environment: clock } as never);
    const { runs, threads, traces } = test.service;
    const { thread_id } = await threads.create();
    const { run_id } = await runs.create(thread_id, { assistant_id: "asker", input: MESSAGES } as never);
    const waitFor = (status: string): Promise<void> =>
      until(async () => {
        await clock.advance(1_000);
        return (await threads.get(thread_id)).status === status;
      }, `the thread is ${status}`);
    await waitFor("interrupted");
    await clock.advance("1h");
    await waitFor("idle");
    const { items } = await traces.search({ source: "call", thread_id });
    assert.equal(items.length, 1);
    const { links, spans } = await traces.get(thread_id, items[0]?.run_id as string);
    assert.deepEqual(links, [{ kind: "resumes", run_id }]);
    const [ask] = spans.filter(({ kind }) => kind === "ask");
    assert.deepEqual([ask?.name, ask?.status], ["ok", "timeout"]);
    assert.ok((ask?.start_ms ?? 0) < 0, "it began in the run before");
  });
}

/** The routes of the trace of a run. */
const listPaths = (thread_id: string | null, run_id: string): string[] => [
  ...[`/greenroom/traces/${run_id}`, `/greenroom/traces/${run_id}/stream`],
  ...(thread_id === null ? [] : [`/threads/${thread_id}/runs/${run_id}/trace`]),
  ...(thread_id === null ? [] : [`/threads/${thread_id}/runs/${run_id}/trace/stream`]),
];

const listRunIds = async ({ ask }: World, who: string, query = ""): Promise<string[]> => {
  const { status, text } = await ask(who, "GET", `/greenroom/traces${query}`);
  assert.equal(status, 200, text);
  return (JSON.parse(text) as { items: { run_id: string }[] }).items.map(({ run_id }) => run_id).sort();
};

function registerVisibilityChecks(open: () => Promise<Storage>): void {
  it("sees only traces of visible runs, no worker, and may name another trace but not continue it", async () => {
    await using world = await customWorld({ storage: await open(), on: { "*": owning } });
    const { ask } = world;
    const run = async (who: string, path: string): Promise<string> => {
      const { body } = await ask(who, "POST", path, { assistant_id: "agent", input: {} }, { traceparent });
      const run_id = body.run_id as string;
      await until(async () => {
        const { items } = await world.it.service.traces.search({});
        return items.some((item) => item.run_id === run_id && item.ended_at !== undefined);
      });
      return run_id;
    };
    const thread_id = (await ask("ann", "POST", "/threads", {})).body.thread_id as string;
    const [onThread, stateless] = [await run("ann", `/threads/${thread_id}/runs`), await run("ann", "/runs")];
    for (const run_id of [onThread, stateless]) {
      const { body } = await ask("ann", "GET", `/greenroom/traces/${run_id}`);
      assert.equal(body.trace_id, run_id.replaceAll("-", ""));
      assert.deepEqual(body.links, [{ kind: "called_by", trace_id: TRACE_ID, span_id: "b7ad6b7169203331" }]);
      assert.ok(!JSON.stringify(body).includes('"worker"'));
    }
    for (const path of [...listPaths(thread_id, onThread), ...listPaths(null, stateless)]) {
      assert.equal((await ask("ann", "GET", path)).status, 200, path);
      assert.equal((await ask("bob", "GET", path)).status, 404, path);
    }
    const path = `/threads/${thread_id}/runs/${onThread}/trace`;
    assert.equal((await ask("bob", "DELETE", path)).status, 404);
    assert.equal((await ask("ann", "GET", path)).status, 200);
    assert.deepEqual(
      [await listRunIds(world, "ann"), await listRunIds(world, "bob")],
      [[onThread, stateless].sort(), []],
    );
    // What the filters name is hidden like all else.
    for (const query of [`?thread_id=${thread_id}`, "?graph_id=agent", "?failed=false", "?metadata={}"])
      assert.deepEqual(await listRunIds(world, "bob", query), [], query);
    assert.equal((await ask("ann", "DELETE", path)).status, 204);
  });

  it("sees the trace of a stateless run a day later, when the run is gone, and no other caller does", async () => {
    const clock = testClock();
    const storage = await open();
    await using world = await customWorld({ storage, on: { "*": owning }, environment: clock });
    const { ask } = world;
    const { body } = await ask("ann", "POST", "/runs", { assistant_id: "agent", input: {} });
    const run_id = body.run_id as string;
    const readStatus = async (who: string, path: string): Promise<number> => (await ask(who, "GET", path)).status;
    await until(async () => {
      await clock.advance(1_000);
      return (await listRunIds(world, "ann", "?status=success")).length === 1;
    });
    await clock.set(clock.now() + 86_400_000);
    await until(async () => {
      await clock.advance(10_000);
      return (await storage.getRun({ deployment: "default" }, run_id)) === null;
    }, "the run is gone");
    for (const path of listPaths(null, run_id)) {
      assert.equal(await readStatus("ann", path), 200, path);
      assert.equal(await readStatus("bob", path), 404, path);
    }
    assert.deepEqual([await listRunIds(world, "ann"), await listRunIds(world, "bob")], [[run_id], []]);
    const trace = JSON.parse((await ask("ann", "GET", `/greenroom/traces/${run_id}`)).text) as RunTrace;
    assert.deepEqual([trace.status, trace.thread_id, trace.source], ["success", undefined, "runs.create"]);
  });
}

function registerRevocationChecks(open: () => Promise<Storage>): void {
  /** Opens the stream of a run that does not end, takes the access away, and checks that the stream breaks. */
  async function requireBreak(
    openPath: (thread_id: string, run_id: string) => string,
    takeAccess: (world: World, thread_id: string, refuse: () => void) => Promise<void>,
  ): Promise<void> {
    const clock = testClock();
    let isRefused = false;
    await using world = await customWorld({
      storage: await open(),
      environment: clock,
      on: { "*": (context) => (isRefused ? false : owning(context)) },
      agents: {
        async *agent({ signal }) {
          yield { messages: [] };
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
        },
      },
    });
    const { ask, it: test } = world;
    const thread_id = (await ask("ann", "POST", "/threads", {})).body.thread_id as string;
    const request = { assistant_id: "agent", input: {} };
    const run_id = (await ask("ann", "POST", `/threads/${thread_id}/runs`, request)).body.run_id as string;
    const response = await test.fetch(`http://greenroom${openPath(thread_id, run_id)}`, {
      headers: { authorization: "Bearer ann" },
    });
    assert.equal(response.status, 200);
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    let outcome = "";
    const reading = (async () => {
      while (!(await reader.read()).done);
      outcome = "ended";
    })().catch(() => {
      outcome = "broken";
    });
    const beat = async (): Promise<void> => {
      for (let count = 0; count < 20; count++) await clock.advance(500);
    };
    await beat();
    assert.equal(outcome, "");
    await takeAccess(world, thread_id, () => {
      isRefused = true;
    });
    await until(async () => {
      await beat();
      return outcome !== "";
    }, "the stream breaks");
    await reading;
    assert.equal(outcome, "broken");
    isRefused = false;
    await test.service.runs.cancel(thread_id, run_id);
    await until(async () => {
      await clock.advance(500);
      return (await test.service.runs.get(thread_id, run_id)).status === "interrupted";
    }, "the run has stopped");
  }

  const PATHS = [
    (thread_id: string, run_id: string) => `/threads/${thread_id}/runs/${run_id}/trace/stream`,
    (_: string, run_id: string) => `/greenroom/traces/${run_id}/stream`,
  ];

  it("whose permission is taken away loses its streams", async () => {
    for (const path of PATHS) await requireBreak(path, async (_world, _thread_id, refuse) => refuse());
  });

  it("whose thread gets another owner loses its streams", async () => {
    for (const path of PATHS)
      await requireBreak(path, async ({ it: { service } }, thread_id) => {
        await service.threads.update(thread_id, { metadata: { owner: "bob" } });
      });
  });
}

function registerReaderChecks(open: () => Promise<Storage>): void {
  it("reads traces with a key for reading, and deletes none", async () => {
    await using test = await createEcho(await open(), { auth: { mode: "api_key" } });
    const createHeaders = async (permissions: readonly Permission[]): Promise<{ readonly "x-api-key": string }> => {
      const { key } = await test.service.accounts.createKey({ kind: "sk", description: "test", permissions });
      return { "x-api-key": key };
    };
    const [reader, writer] = [await createHeaders(["runs:read"]), await createHeaders(["runs:create", "runs:read"])];
    const { thread_id } = JSON.parse(await post(test, "/threads", {}, writer)) as { thread_id: string };
    await post(test, `/threads/${thread_id}/runs/wait`, { assistant_id: "echo", input: MESSAGES }, writer);
    const { run_id } = await readNewest(test, "runs.wait");
    const readStatus = async (method: string, path: string, headers?: HeadersInit): Promise<number> => {
      const response = await test.fetch(`http://greenroom${path}`, { method, ...(headers ? { headers } : {}) });
      await response.text();
      return response.status;
    };
    for (const path of [...listPaths(thread_id, run_id), "/greenroom/traces"]) {
      assert.equal(await readStatus("GET", path, reader), 200, path);
      assert.equal(await readStatus("GET", path), 401, path);
    }
    const path = `/threads/${thread_id}/runs/${run_id}/trace`;
    assert.equal(await readStatus("DELETE", path, reader), 403);
    assert.equal(await readStatus("GET", path, reader), 200);
    assert.equal(await readStatus("DELETE", path, writer), 204);
    assert.equal(await readStatus("GET", path, reader), 404);
  });

  it("deletes no trace if a handler refuses threads:delete, and searches none if it refuses threads:search", async () => {
    const refuse = (): boolean => false;
    const on = { "threads:delete": refuse, "threads:search": refuse };
    await using world = await customWorld({ storage: await open(), on });
    const { ask } = world;
    const thread_id = (await ask("ann", "POST", "/threads", {})).body.thread_id as string;
    const request = { assistant_id: "agent", input: {} };
    const run_id = (await ask("ann", "POST", `/threads/${thread_id}/runs`, request)).body.run_id as string;
    await until(async () => (await world.it.service.runs.get(thread_id, run_id)).status === "success");
    const path = `/threads/${thread_id}/runs/${run_id}/trace`;
    assert.equal((await ask("ann", "DELETE", path)).status, 403);
    assert.equal((await ask("ann", "GET", path)).status, 200);
    assert.equal((await ask("ann", "GET", "/greenroom/traces")).status, 403);
  });
}

function registerFilterChecks(open: () => Promise<Storage>): void {
  it("are refused with their place, or find what they say", async () => {
    await using test = await createEcho(await open());
    await post(test, "/runs/wait", { assistant_id: "echo", input: MESSAGES });
    const { run_id } = await readNewest(test, "runs.wait");
    const ask = async (query: string): Promise<readonly [status: number, answer: JsonObject]> => {
      const response = await test.fetch(`http://greenroom/greenroom/traces?${query}`);
      return [response.status, (await response.json()) as JsonObject];
    };
    const huge = "9".repeat(400);
    const refused = [
      ...["node=%00", "tool=a%00", "model=%00", "error_type=%00", "graph_id=%00", "user_id=%00", "cursor=%00"],
      ...["limit=10000000", "limit=-1", `limit=${huge}`, "min_tokens=-1", `min_tokens=${huge}`, "min_tokens=1e3000"],
      ...["min_active_ms=Infinity", "min_active_ms=NaN", "min_active_ms=1e999", "started_after=%00", "failed=2"],
      ...["cursor=1_", "cursor=99999999999999999_x", "cursor=1.5_x", "metadata=%00", "metadata=null"],
      ...["__proto__=x", "constructor=x", "toString=x"],
    ];
    for (const query of refused) {
      const [status, answer] = await ask(query);
      assert.equal(status, 422, `${query}: ${JSON.stringify(answer)}`);
      const [name] = query.split("=");
      assert.deepEqual((answer.detail as { loc: string[] }[])[0]?.loc, ["query", name], query);
    }
    const found: readonly (readonly [query: string, isFound: boolean])[] = [
      ...([
        ["node=answer", true],
        ["node=%ED%A0%80", false],
        ["node=%27%3B--", false],
        ["node=%22", false],
      ] as const),
      ...([
        ["min_active_ms=999999999999999", false],
        ["min_tokens=9007199254740991", false],
        ["limit=1000", true],
      ] as const),
      ...['metadata={"__proto__":"x"}', 'metadata={"constructor":"x"}', 'metadata={"toString":null}'].map(
        (query) => [query, false] as const,
      ),
      ...([
        ['metadata={"a":"\\u0000"}', false],
        ['metadata={"\\ud800":"\\udc00"}', false],
        ["metadata={}", true],
      ] as const),
      ...([
        ["cursor=-999999999999999_x", false],
        ["cursor=999999999999999_x", true],
      ] as const),
    ];
    for (const [query, isFound] of found) {
      const [status, answer] = await ask(query);
      assert.equal(status, 200, `${query}: ${JSON.stringify(answer)}`);
      const ids = (answer.items as readonly JsonObject[]).map((item) => item.run_id);
      assert.deepEqual(ids, isFound ? [run_id] : [], query);
    }
  });
}

/** Registers the checks. Each opens a new storage. */
export function registerTraceRouteChecks(name: string, open: () => Promise<Storage>): void {
  describe(`the source of a trace on ${name}`, () => registerSourceChecks(open));
  describe(`a caller with a filter on ${name}`, () => registerVisibilityChecks(open));
  describe(`a caller that follows a trace on ${name}`, () => registerRevocationChecks(open));
  describe(`a caller that may only read, on ${name},`, () => registerReaderChecks(open));
  describe(`odd filters of traces on ${name}`, () => registerFilterChecks(open));
}
