/** W3C trace context between two servers: each way in which one calls the other leaves one trace id in both, and the span that called. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { tool } from "@langchain/core/tools";
import { MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { RemoteGraph } from "@langchain/langgraph/remote";
import { z } from "zod";
import { span } from "../../adapters/langgraph/mod.ts";
import { type Listener, serve } from "../../adapters/node/mod.ts";
import { createHandler } from "../../lib/http/handler.ts";
import type { FunctionJob } from "../../lib/mod.ts";
import type { Span } from "../../lib/storage/mod.ts";
import type { RunTrace } from "../../lib/traces/run-trace.ts";
import { type TestService, testService } from "../suite/kit.ts";
import { until } from "../support/until.ts";

const TRACE_ID = "0af7651916cd43dd8448eb211c80319c";
const TRACE_PARENT = `00-${TRACE_ID}-b7ad6b7169203331-01`;

type State = typeof MessagesAnnotation.State;

describe("A trace context", () => {
  let far: TestService;
  let near: TestService;
  let farServer: Listener;
  let nearServer: Listener;
  let receiver: Listener;
  const received: string[] = [];

  before(async () => {
    far = await testService({ agents: { echo: () => "Hello" } });
    farServer = await serve(createHandler(far.service), { port: 0, hostname: "127.0.0.1" });
    receiver = await serve(
      async (request) => {
        received.push(request.headers.get("traceparent") ?? "none");
        return new Response(null, { status: 204 });
      },
      { port: 0, hostname: "127.0.0.1" },
    );
    near = await testService({
      agents: createCallers(farServer.url),
      webhooks: { url: { allow_private_network: true, allowed_ports: [receiver.port] } },
    });
    nearServer = await serve(createHandler(near.service), { port: 0, hostname: "127.0.0.1" });
  });
  after(async () => {
    for (const server of [nearServer, farServer, receiver]) await server.close();
    for (const { service } of [near, far]) await service.stop();
  });

  /** Returns the newest trace of a server, once its run has ended. */
  async function readNewest({ service }: TestService): Promise<RunTrace> {
    let trace: RunTrace | undefined;
    await until(async () => {
      const { items } = await service.traces.search({ limit: 1 });
      trace = items[0] && (await service.traces.get(null, items[0].run_id));
      return trace?.ended_at !== undefined;
    });
    return trace as RunTrace;
  }

  /** Returns the span of the near trace that has called the far run. Fails if it is in another trace. */
  function findCaller(nearTrace: RunTrace, farTrace: RunTrace): Span {
    assert.equal(farTrace.trace_id, nearTrace.trace_id);
    const link = farTrace.links?.find(({ kind }) => kind === "called_by");
    assert.equal(link?.trace_id, nearTrace.trace_id);
    const caller = nearTrace.spans.find(({ span_id }) => span_id === link?.span_id);
    assert.ok(caller, `${link?.span_id} is none of ${JSON.stringify(nearTrace.spans)}`);
    return caller;
  }

  const post = async (url: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> => {
    const init = { method: "POST", headers: { "content-type": "application/json", ...headers } };
    const response = await fetch(url, { ...init, body: JSON.stringify(body) });
    assert.ok(response.ok, `${response.status} ${url}`);
    return response;
  };

  for (const [graph, caller] of [
    ["node", "agent echo"],
    ["inside", "node call"],
    ["in_tool", "node call"],
    ["plain", "custom ask the other"],
    ["stepped", "step ask the other"],
  ] as const) {
    it(`goes from one server to the other by the agent ${graph}, and names the span ${caller}`, async () => {
      const response = await post(`${nearServer.url}/runs/wait`, { assistant_id: graph, input: { messages: [] } });
      assert.match(await response.text(), /Hello/);
      const nearTrace = await readNewest(near);
      assert.equal(nearTrace.trace_id, nearTrace.run_id.replaceAll("-", ""));
      const { kind, name } = findCaller(nearTrace, await readNewest(far));
      assert.equal(`${kind} ${name}`, caller);
    });
  }

  it("goes through a server that continues another trace", async () => {
    const response = await post(
      `${nearServer.url}/runs/wait`,
      { assistant_id: "node", input: { messages: [] } },
      { traceparent: TRACE_PARENT, tracestate: "vendor=1" },
    );
    await response.text();
    const [nearTrace, farTrace] = [await readNewest(near), await readNewest(far)];
    assert.equal(nearTrace.trace_id, TRACE_ID);
    assert.equal(findCaller(nearTrace, farTrace).kind, "agent");
  });

  it("comes with a call of MCP and a message of A2A", async () => {
    const meta = { traceparent: TRACE_PARENT };
    const requests = [
      ["/mcp", "tools/call", { name: "echo", arguments: { message: "Hi" }, _meta: meta }],
      [
        "/a2a/echo",
        "SendMessage",
        { message: { messageId: "1", role: "ROLE_USER", parts: [{ text: "Hi" }], metadata: meta } },
      ],
    ] as const;
    for (const [path, method, params] of requests) {
      const response = await post(
        `${farServer.url}${path}`,
        { jsonrpc: "2.0", id: 1, method, params },
        { accept: "application/json, text/event-stream", "a2a-version": "1.0" },
      );
      assert.match(await response.text(), /Hello/);
      const trace = await readNewest(far);
      assert.deepEqual([trace.trace_id, trace.source], [TRACE_ID, path === "/mcp" ? "mcp" : "a2a"]);
    }
  });

  it("goes to the receiver of a webhook, as that of the delivery attempt", async () => {
    const request = { assistant_id: "plain", input: {}, webhook: `http://127.0.0.1:${receiver.port}/` };
    await (await post(`${nearServer.url}/runs/wait`, request, { traceparent: TRACE_PARENT })).text();
    await until(() => received.length > 0);
    const [version, trace_id, span_id, flags] = (received[0] ?? "").split("-");
    assert.deepEqual([version, trace_id, flags], ["00", TRACE_ID, "01"]);
    let webhook: Span | undefined;
    await until(async () => {
      webhook = (await readNewest(near)).spans.find(({ kind }) => kind === "webhook");
      return webhook !== undefined;
    });
    assert.equal(webhook?.span_id, span_id);
  });
});

/** Creates the agents that call the agent `echo` of another server. */
function createCallers(url: string) {
  const remote = new RemoteGraph({ graphId: "echo", url });
  const input = { messages: [{ role: "user", content: "Hi" }] };
  const createGraph = (name: string, work: unknown) =>
    new StateGraph(MessagesAnnotation)
      .addNode(name, work as () => object)
      .addEdge(START, name as typeof START)
      .compile();
  const callTool = tool(async (_input, config) => await remote.invoke(input, config), {
    ...{ name: "call", schema: z.object({}) },
  });
  const ask = async ({ traceparent, signal }: FunctionJob): Promise<string> => {
    const headers = { "content-type": "application/json", ...(traceparent === undefined ? {} : { traceparent }) };
    const body = JSON.stringify({ assistant_id: "echo", input });
    return await (await fetch(`${url}/runs/wait`, { method: "POST", headers, body, signal })).text();
  };
  return {
    node: createGraph("far", remote),
    inside: createGraph("call", async (_state: State, config: object) => await remote.invoke(input, config)),
    in_tool: createGraph("call", async (_state: State, config: object) =>
      span("look up", async () => (await callTool.invoke({}, config)) as object),
    ),
    plain: async (job: FunctionJob) => await job.span("ask the other", () => ask(job)),
    stepped: async (job: FunctionJob) => await job.step("ask the other", () => ask(job)),
  };
}
