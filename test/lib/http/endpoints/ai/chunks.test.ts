/** The chat endpoint maps run events to chunks for three versions of the AI SDK. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AIMessage } from "@langchain/core/messages";
import { interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { uiMessageChunkSchema } from "ai";
import { uiMessageChunkSchema as schema5 } from "ai-5";
import { uiMessageChunkSchema as schema6 } from "ai-6";
import { langgraph } from "../../../../../adapters/langgraph/mod.ts";
import type { JsonObject } from "../../../../../lib/json.ts";
import { combine, type FunctionJob, fromFunctions } from "../../../../../lib/mod.ts";
import { langchainAgents } from "../../../../compat/ai/agents.ts";
import { openChat, plain, readChunks } from "../../../../compat/ai/chat.ts";
import { testService } from "../../../../suite/mod.ts";

type Chunk = Awaited<ReturnType<typeof readChunks>>[number];
type Test = Awaited<ReturnType<typeof testService>>;

const usage_metadata = { input_tokens: 3, output_tokens: 2, total_tokens: 5 };
const agents = {
  async *rich() {
    yield {
      messages: [
        {
          ...{ type: "ai", id: "m1", usage_metadata },
          content: [
            { type: "reasoning", reasoning: "Hm" },
            {
              type: "text",
              text: "See there",
              annotations: [{ type: "citation", url: "https://x.example", title: "X" }],
            },
            { type: "image", data: "AAAA", mime_type: "image/png" },
          ],
          tool_calls: [{ name: "search", args: { q: "a" }, id: "c1", type: "tool_call" }],
          invalid_tool_calls: [{ name: "broken", args: "{", id: "c2", error: "no JSON", type: "invalid_tool_call" }],
        },
        { type: "tool", id: "t1", tool_call_id: "c1", name: "search", content: '{"found":"a"}' },
      ],
    };
    yield { messages: [{ type: "ai", id: "m2", content: "Done", usage_metadata }] };
  },
  /** Its last call has no result. */
  async *unfinished() {
    yield {
      messages: [
        { type: "ai", id: "m1", content: "", tool_calls: [{ name: "search", args: {}, id: "c1", type: "tool_call" }] },
      ],
    };
  },
  /** Requests approval of a call that is in no message. */
  async *apart({ command, interrupt }: FunctionJob) {
    const actionRequests = [{ name: "pay", args: { amount: 30 }, description: "Money" }];
    const reviewConfigs = [{ actionName: "pay", allowedDecisions: ["approve", "reject"] }];
    if (command?.resume === undefined) yield interrupt({ actionRequests, reviewConfigs });
    else yield JSON.stringify(command.resume);
  },
  async *fails() {
    yield "Hel";
    throw new Error("no model");
  },
  async *sees({ context, config, metadata }: FunctionJob) {
    yield JSON.stringify([context, config.configurable?.theme, metadata.page]);
  },
};

/** A graph with a subgraph. */
const inner = new StateGraph(MessagesAnnotation)
  .addNode("speak", () => ({ messages: [new AIMessage({ id: "inner", content: "From inside" })] }))
  .addEdge(START, "speak")
  .compile();
const outer = new StateGraph(MessagesAnnotation)
  .addNode("inner", inner)
  .addNode("ask", () => ({ messages: [new AIMessage(`Got ${interrupt("Sure?")}`)] }))
  .addEdge(START, "inner")
  .addEdge("inner", "ask")
  .compile();

const executor = () => combine(fromFunctions(agents), langchainAgents(), langgraph({ outer } as never));

const userMessage = (id: string, text: string): JsonObject => ({ id, role: "user", parts: [{ type: "text", text }] });

function post({ fetch }: Pick<Test, "fetch">, agent: string, text: string, bodyFields: object = {}): Promise<Response> {
  const body = { id: agent, trigger: "submit-message", messages: [userMessage(`u-${text}`, text)], ...bodyFields };
  return fetch(`http://localhost/ai/${agent}/chat`, { method: "POST", body: JSON.stringify(body) });
}

const joinText = (chunks: readonly Chunk[]): string =>
  chunks.flatMap(({ type, delta }) => (type === "text-delta" ? [delta] : [])).join("");

const SCHEMAS = { 5: schema5, 6: schema6, 7: uiMessageChunkSchema };

/** Throws as the clients do: for chunks that the version does not know and parts without a start. */
async function assertReadable(chunks: readonly Chunk[], version: 5 | 6 | 7): Promise<void> {
  const sdkSchema: unknown = SCHEMAS[version];
  const schema = (typeof sdkSchema === "function" ? sdkSchema() : sdkSchema) as {
    validate?(value: unknown): PromiseLike<{ readonly success: boolean }> | { readonly success: boolean };
    safeParse?(value: unknown): { readonly success: boolean };
  };
  const open = new Set<unknown>();
  const calls = new Set<unknown>();
  for (const [at, chunk] of chunks.entries()) {
    const { type, id, toolCallId } = chunk;
    const result = schema.validate ? await schema.validate(chunk) : schema.safeParse?.(chunk);
    assert.ok(result?.success, `${version}: ${JSON.stringify(chunk)}`);
    assert.equal(type === "start", at === 0);
    assert.equal(type === "finish", at === chunks.length - 1);
    if (/^(?:text|reasoning)-start$/.test(type)) open.add(id);
    else if (/^(?:text|reasoning)-delta$/.test(type)) assert.ok(open.has(id));
    else if (/^(?:text|reasoning)-end$/.test(type)) assert.ok(open.delete(id));
    else if (/^tool-input/.test(type)) calls.add(toolCallId);
    else if (/^tool-(?:output|approval-request)/.test(type)) assert.ok(calls.has(toolCallId), JSON.stringify(chunk));
  }
  assert.equal(open.size, 0);
}

/** The stream of the agent `rich`, one chunk per line. */
const RECORDED = String.raw`
{"type":"start","messageId":"reply-u-Go","messageMetadata":{"run_id":"RUN","thread_id":"THREAD"}}
{"type":"start-step"}
{"type":"reasoning-start","id":"m1:0"}
{"type":"reasoning-delta","id":"m1:0","delta":"Hm"}
{"type":"reasoning-end","id":"m1:0"}
{"type":"text-start","id":"m1:1"}
{"type":"text-delta","id":"m1:1","delta":"See there"}
{"type":"text-end","id":"m1:1"}
{"type":"source-url","sourceId":"m1:1:0","url":"https://x.example","title":"X"}
{"type":"file","url":"data:image/png;base64,AAAA","mediaType":"image/png"}
{"type":"tool-input-start","toolCallId":"c1","toolName":"search","providerExecuted":true}
{"type":"tool-input-delta","toolCallId":"c1","inputTextDelta":"{\"q\":\"a\"}"}
{"type":"tool-input-available","toolCallId":"c1","toolName":"search","input":{"q":"a"},"providerExecuted":true}
{"type":"tool-input-start","toolCallId":"c2","toolName":"broken","providerExecuted":true}
{"type":"tool-input-delta","toolCallId":"c2","inputTextDelta":"{"}
{"type":"tool-input-error","toolCallId":"c2","toolName":"broken","input":"{","errorText":"no JSON","providerExecuted":true}
{"type":"tool-output-available","toolCallId":"c1","output":{"found":"a"},"providerExecuted":true}
{"type":"finish-step"}
{"type":"start-step"}
{"type":"text-start","id":"m2:0"}
{"type":"text-delta","id":"m2:0","delta":"Done"}
{"type":"text-end","id":"m2:0"}
{"type":"finish-step"}
{"type":"finish","finishReason":"stop","messageMetadata":{"usage":{"input_tokens":6,"output_tokens":4,"total_tokens":10}}}
[DONE]`
  .trim()
  .split("\n")
  .map((line) => `data: ${line}\n\n`)
  .join("");

describe("chunks of a chat", () => {
  for (const ai_sdk of [5, 6, 7] as const) {
    it(`match version ${ai_sdk} for every agent`, async () => {
      await using test = await testService({ executor: executor() });
      const texts = { clerk: "refund lookup mail", plain: "lookup fails", helped: "helper" };
      for (const agent of [...Object.keys(agents), "clerk", "plain", "helped", "both", "asks", "twice", "outer"]) {
        const response = await post(test, agent, texts[agent as keyof typeof texts] ?? "Go", { ai_sdk });
        await assertReadable(await readChunks(response), ai_sdk);
      }
    });
  }

  it("have these exact bytes", async () => {
    await using test = await testService({ executor: executor() });
    const response = await post(test, "rich", "Go");
    assert.deepEqual(
      ["content-type", "cache-control", "x-vercel-ai-ui-message-stream"].map((name) => response.headers.get(name)),
      ["text/event-stream", "no-cache", "v1"],
    );
    const text = await response.text();
    const run_id = String(/"run_id":"([^"]+)"/.exec(text)?.[1]);
    const thread_id = String(/"thread_id":"([^"]+)"/.exec(text)?.[1]);
    const chunks = text
      .replaceAll(/^: heartbeat\n/gm, "")
      .replaceAll(/^id: .*\n/gm, "")
      .replaceAll(run_id, "RUN")
      .replaceAll(thread_id, "THREAD");
    assert.equal(chunks, RECORDED);
  });

  it("exclude messages of subagents and include those of subgraphs", async () => {
    await using test = await testService({ executor: executor() });
    assert.equal(
      joinText(await readChunks(await post(test, "helped", "helper"))),
      "Done: It says: You said Deep thought",
    );
    const outer = await readChunks(await post(test, "outer", "Go"));
    assert.equal(joinText(outer), "From inside");
  });

  it("include messages of subagents as preliminary outputs if the host enables it", async () => {
    await using test = await testService({ executor: executor(), http: { ai: { subagents: "preliminary" } } });
    for (const ai_sdk of [5, 6, 7] as const) {
      const id = `c${ai_sdk}`;
      const chunks = await readChunks(await post(test, "helped", "helper", { id, ai_sdk }));
      await assertReadable(chunks, ai_sdk);
      const outputs = chunks.filter(({ type }) => type === "tool-output-available");
      assert.deepEqual(
        outputs.map(({ output, preliminary }) => [output, preliminary]),
        [
          ["You ", true],
          ["You said ", true],
          ["You said Deep ", true],
          ["You said Deep thought", true],
          ["It says: You said Deep thought", undefined],
        ],
      );
      const replay = await test.fetch(`http://localhost/ai/helped/chat/${id}/stream?ai_sdk=${ai_sdk}`);
      assert.deepEqual(await readChunks(replay), chunks);
    }
    const chat = openChat({ id: "chat", agent: "helped", fetch: test.fetch });
    await chat.sendMessage({ text: "helper" });
    const stored = (await (await test.fetch("http://localhost/ai/helped/chat/chat")).json()) as { messages: unknown };
    assert.deepEqual(stored.messages, plain(chat.messages));
  });

  it("request approval of a call that is in no message, and contain the decision", async () => {
    await using test = await testService({ executor: executor() });
    const chunks = await readChunks(await post(test, "apart", "Go"));
    const request = chunks.find(({ type }) => type === "tool-approval-request");
    const input = chunks.find(({ type }) => type === "tool-input-available");
    assert.equal(input?.toolCallId, request?.approvalId);
    assert.deepEqual([input?.dynamic, input?.toolName, request?.reason], [true, "pay", "Money"]);
  });

  it("reject pending approvals if the next message is text", async () => {
    await using test = await testService({ executor: executor() });
    await readChunks(await post(test, "clerk", "refund mail"));
    const chunks = await readChunks(await post(test, "clerk", "Rather not"));
    assert.equal(joinText(chunks), "Done: Rather not; Rather not");
  });

  it("come from a run with the context, configuration and metadata of the body", async () => {
    await using test = await testService({ executor: executor() });
    const requestFields = {
      context: { user: "ann" },
      config: { configurable: { theme: "dark" } },
      metadata: { page: 1 },
    };
    const chunks = await readChunks(await post(test, "sees", "Go", { ...requestFields, ignored: true }));
    assert.deepEqual(JSON.parse(joinText(chunks)), [{ user: "ann", theme: "dark" }, "dark", 1]);
  });
});
