/** The trace context that a run continues: where requests have it, which of several counts, and who may continue it. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { until } from "../../../support/until.ts";
import { graph, state } from "../../engine/attempt.harness.ts";
import { type Answer, type Kit, kit } from "./operations.harness.ts";

const toIds = (digit: string) => ({ trace_id: digit.repeat(32), span_id: digit.repeat(16) });
const toTraceParent = (digit: string): string => `00-${toIds(digit).trace_id}-${toIds(digit).span_id}-01`;
const meta = (digit: string) => ({ traceparent: toTraceParent(digit) });

const executor = graph(async function* () {
  yield state({ messages: [{ type: "ai", content: "Hello", id: "1" }] });
});
const options = { agents: undefined, executor };

/** The newest trace of the service. */
async function readNewest(it_: Kit): Promise<Answer> {
  const { items } = await it_.ask("GET", "/greenroom/traces?limit=1");
  return items[0];
}

const RPC = { accept: "application/json, text/event-stream", "a2a-version": "1.0" };
const rpc = (method: string, params: object): object => ({ jsonrpc: "2.0", id: 1, method, params });
const toA2aMessage = (metadata: object = {}): object => ({
  message: { messageId: crypto.randomUUID(), role: "ROLE_USER", parts: [{ text: "Hi" }], metadata },
});

describe("A trace context", () => {
  let it_: Kit;
  let thread_id: string;
  before(async () => {
    it_ = await kit(options as never);
    ({ thread_id } = await it_.ask("POST", "/threads", {}));
  });
  after(() => it_[Symbol.asyncDispose]());

  /** Sends a request, reads its answer to the end, and returns the trace of the run that it has created, once that has ended. */
  async function send(path: string, body: object, headers: Record<string, string> = {}): Promise<Answer> {
    const before = (await readNewest(it_))?.run_id;
    const init = { method: "POST", headers: { "content-type": "application/json", ...headers } };
    const response = await it_.fetch(`http://greenroom${path}`, { ...init, body: JSON.stringify(body) });
    const text = await response.text();
    assert.ok(response.ok, `${path}: ${response.status} ${text}`);
    let trace: Answer;
    await until(async () => {
      trace = await readNewest(it_);
      return trace?.run_id !== before;
    });
    return trace;
  }

  const request = { assistant_id: "g", input: { messages: [] } };

  it("in the header counts on every route that creates runs", async () => {
    const { run_id } = await send(`/threads/${thread_id}/runs/wait`, request);
    const agUi = {
      threadId: crypto.randomUUID(),
      runId: crypto.randomUUID(),
      messages: [{ id: "m1", role: "user", content: "Hi" }],
      tools: [],
      context: [],
    };
    const parts = [{ type: "text", text: "Hi" }];
    const routes: readonly (readonly [path: string, body: object, source: string, headers?: object])[] = [
      ["/runs", request, "runs.create"],
      ["/runs/wait", request, "runs.wait"],
      ["/runs/stream", request, "runs.stream"],
      [`/threads/${thread_id}/runs/wait`, request, "runs.wait"],
      [`/threads/${thread_id}/runs/stream`, request, "runs.stream"],
      [`/greenroom/runs/${run_id}/again`, {}, "runs.create"],
      ["/mcp", rpc("tools/call", { name: "g", arguments: { message: "Hi" } }), "mcp", RPC],
      ["/a2a/g", rpc("SendMessage", toA2aMessage()), "a2a", RPC],
      ["/ag-ui/g", { ...agUi, state: {}, forwardedProps: {} }, "ag-ui"],
      [
        "/ai/g/chat",
        { id: crypto.randomUUID(), messages: [{ id: "m", role: "user", parts }], trigger: "submit-message" },
        "ai",
      ],
    ];
    for (const [index, [path, body, source, headers = {}]] of routes.entries()) {
      const digit = "123456789abcdef"[index] as string;
      const trace = await send(path, body, { ...headers, ...meta(digit) });
      assert.deepEqual([trace.source, trace.trace_id], [source, toIds(digit).trace_id], path);
      assert.ok(
        trace.links.some(({ span_id }: Answer) => span_id === toIds(digit).span_id),
        path,
      );
    }
    const batch = await it_.fetch("http://greenroom/runs/batch", {
      ...{ method: "POST", headers: { "content-type": "application/json", ...meta("e") } },
      body: JSON.stringify([request, request]),
    });
    assert.equal(((await batch.json()) as Answer).length, 2);
    let items: Answer[] = [];
    await until(async () => {
      ({ items } = await it_.ask("GET", "/greenroom/traces?source=runs.batch"));
      return items.length === 2;
    });
    assert.deepEqual(
      items.map(({ trace_id }: Answer) => trace_id),
      [toIds("e").trace_id, toIds("e").trace_id],
    );
  });

  it("in the header of a command of the thread event protocol counts", async () => {
    const command = { id: 1, method: "run.start", params: request };
    const trace = await send(`/threads/${thread_id}/commands`, command, meta("a"));
    assert.deepEqual([trace.source, trace.trace_id], ["thread.command", toIds("a").trace_id]);
  });

  it("in the metadata of the run, then of its configuration, then in configurable counts without a header", async () => {
    const everywhere = { metadata: meta("2"), config: { metadata: meta("3"), configurable: meta("4") } };
    const cases: readonly (readonly [body: object, headers: Record<string, string>, digit: string])[] = [
      [everywhere, meta("1"), "1"],
      [everywhere, {}, "2"],
      [{ ...everywhere, metadata: {} }, {}, "3"],
      [{ config: { configurable: meta("4") } }, {}, "4"],
      [everywhere, { traceparent: "malformed" }, "2"],
      [{ ...everywhere, metadata: { traceparent: 7 } }, {}, "3"],
    ];
    for (const [body, headers, digit] of cases) {
      const { trace_id } = await send("/runs/wait", { ...request, ...body }, headers);
      assert.equal(trace_id, toIds(digit).trace_id);
    }
  });

  it("in a call of MCP counts before the header, and that before a message of A2A", async () => {
    const call = { name: "g", arguments: { message: "Hi" }, _meta: meta("5") };
    const mcp = await send("/mcp", rpc("tools/call", call), { ...RPC, ...meta("6") });
    assert.deepEqual([mcp.source, mcp.trace_id], ["mcp", toIds("5").trace_id]);
    const headed = await send("/a2a/g", rpc("SendMessage", toA2aMessage(meta("7"))), { ...RPC, ...meta("6") });
    assert.deepEqual([headed.source, headed.trace_id], ["a2a", toIds("6").trace_id]);
    const plain = await send("/a2a/g", rpc("SendMessage", toA2aMessage(meta("7"))), RPC);
    assert.deepEqual([plain.source, plain.trace_id], ["a2a", toIds("7").trace_id]);
    const wrong = { traceparent: "malformed" };
    const skipped = await send("/mcp", rpc("tools/call", { ...call, _meta: wrong }), { ...RPC, ...meta("6") });
    assert.equal(skipped.trace_id, toIds("6").trace_id);
    const followed = await send("/a2a/g", rpc("SendMessage", toA2aMessage(meta("7"))), { ...RPC, ...wrong });
    assert.equal(followed.trace_id, toIds("7").trace_id);
  });

  it("that is malformed changes nothing, wherever it is", async () => {
    const wrong = ["", "x", `00-${"0".repeat(32)}-${"1".repeat(16)}-01`, `ff-${"1".repeat(32)}-${"1".repeat(16)}-01`];
    const others = [`00-${"1".repeat(32)}-${"0".repeat(16)}-01`, `00-${"A".repeat(32)}-${"1".repeat(16)}-01`];
    for (const traceparent of [...wrong, ...others]) {
      const bad = { traceparent, tracestate: "=" };
      for (const [path, body, headers] of [
        ["/runs/wait", request, bad],
        ["/runs/wait", { ...request, metadata: bad, config: { metadata: bad, configurable: bad } }, {}],
        ["/mcp", rpc("tools/call", { name: "g", arguments: { message: "Hi" }, _meta: bad }), RPC],
        ["/mcp", rpc("tools/call", { name: "g", arguments: { message: "Hi" }, _meta: { traceparent: 7 } }), RPC],
        ["/a2a/g", rpc("SendMessage", toA2aMessage(bad)), RPC],
      ] as const) {
        const { trace_id, run_id, links } = await send(path, body, headers as Record<string, string>);
        assert.deepEqual([trace_id, links], [run_id.replaceAll("-", ""), undefined], `${path} ${traceparent}`);
      }
    }
  });
});

describe("The option traces.parent", () => {
  const link = { kind: "called_by", ...toIds("1") };
  for (const [parent, continues, links] of [
    ["continue", true, [link]],
    ["link", false, [link]],
    ["ignore", false, undefined],
  ] as const) {
    it(`${parent} ${continues ? "gives the run the trace of its caller" : `leaves ${links ? "a link" : "nothing"}`}`, async () => {
      await using it_ = await kit({ ...options, traces: { parent } } as never);
      for (const [headers, metadata] of [
        [meta("1"), {}],
        [{}, meta("1")],
      ] as const) {
        const body = { assistant_id: "g", input: {}, metadata };
        await it_.ask("POST", "/runs/wait", body, 200, headers);
        const { run_id, trace_id, links: found } = await readNewest(it_);
        assert.equal(trace_id, continues ? toIds("1").trace_id : run_id.replaceAll("-", ""));
        assert.deepEqual(found, links);
      }
    });
  }

  it("continue makes a link for callers with a row filter, wherever the context is", async () => {
    const custom = {
      authenticate: ({ headers }: Request) => headers.get("x-user") ?? "ann",
      on: { "*": ({ user }: Answer) => (user.identity === "root" ? true : { owner: user.identity }) },
    };
    await using it_ = await kit({ ...options, auth: { custom } } as never);
    const send = async (user: string, headers: object, body: object): Promise<Answer> => {
      const create = { assistant_id: "g", input: {}, ...body };
      const { thread_id } = await it_.ask("POST", "/threads", { metadata: { owner: user } }, 200, { "x-user": user });
      const path = `/threads/${thread_id}/runs/wait`;
      await it_.ask("POST", path, create, 200, { "x-user": user, ...headers });
      const { items } = await it_.ask("GET", "/greenroom/traces?limit=1", undefined, 200, { "x-user": user });
      return items[0];
    };
    const cases = [
      [meta("1"), {}],
      [{}, { metadata: { owner: "ann", ...meta("1") } }],
      [{}, { config: { metadata: meta("1") } }],
    ] as const;
    for (const [headers, body] of cases) {
      const { trace_id, run_id, links } = await send("ann", headers, body);
      assert.deepEqual([trace_id, links], [run_id.replaceAll("-", ""), [link]]);
    }
    assert.equal((await send("root", meta("1"), {})).trace_id, toIds("1").trace_id);
  });
});
