import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  interrupt,
  type LangGraphRunnableConfig,
  MessagesAnnotation,
  Send,
  START,
  StateGraph,
} from "@langchain/langgraph";
import {
  createCallingNode,
  createHost,
  createParallelGraph,
  formatEvents,
  hello,
  Log,
  type State,
} from "./protocol-events.harness.ts";

describe("langgraph: protocol events of subgraphs", () => {
  it("start from the outside and end from the inside", async () => {
    const graph = createParallelGraph({
      a: createParallelGraph({ b: createParallelGraph({ c: createCallingNode("Hi") }) }),
    });
    const { events } = await createHost(graph)({ input: hello });
    assert.deepEqual(formatEvents(events, ["lifecycle", "values"]), [
      "values [] messages 1",
      'lifecycle [a:A] started {"graph_name":"a"}',
      "values [a:A] messages 1",
      'lifecycle [a:A|b:B] started {"graph_name":"b"}',
      "values [a:A|b:B] messages 1",
      'lifecycle [a:A|b:B|c:C] started {"graph_name":"c"}',
      'lifecycle [a:A|b:B|c:C] completed {"graph_name":"c"}',
      "values [a:A|b:B] messages 2",
      'lifecycle [a:A|b:B] completed {"graph_name":"b"}',
      "values [a:A] messages 2",
      'lifecycle [a:A] completed {"graph_name":"a"}',
      "values [] messages 2",
    ]);
  });

  it("are separate for tasks that a send creates", async () => {
    const inside = createParallelGraph({ inner: ({ log }: { log: string[] }) => ({ log: [`${log[0]}!`] }) }, Log);
    const graph = new StateGraph(Log)
      .addNode("map", () => ({}))
      .addNode("work", inside as never)
      .addEdge(START, "map")
      .addConditionalEdges("map", () => ["x", "y"].map((branch) => new Send("work", { log: [branch] })));
    const { events } = await createHost(graph)({ input: {} });
    const lives = events.filter(({ method }) => method === "lifecycle");
    const byTask = Map.groupBy(lives, ({ namespace }) => namespace.join("|"));
    assert.equal(byTask.size, 2);
    for (const taskEvents of byTask.values()) {
      assert.deepEqual(
        taskEvents.map(({ data }) => data),
        [
          { event: "started", graph_name: "work" },
          { event: "completed", graph_name: "work" },
        ],
      );
    }
    const inner = events.filter(({ method, namespace }) => method === "values" && namespace.length === 1);
    assert.deepEqual(new Set(inner.map(({ namespace }) => namespace.join("|"))), new Set(byTask.keys()));
    assert.equal(events.filter(({ method, node }) => method === "updates" && node === "work").length, 2);
  });

  it("have the name and the tool call of an agent", async () => {
    const agent = createParallelGraph({ model: createCallingNode("Hi") }) as unknown as {
      withConfig(config: object): { invoke(...parts: unknown[]): unknown };
    };
    const named = agent.withConfig({ metadata: { lc_agent_name: "researcher" } });
    const task = async (_state: State, config: LangGraphRunnableConfig) => named.invoke(hello, config);
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("model", () => ({}))
      .addNode("tools", task)
      .addNode("plain", task)
      .addEdge(START, "model")
      .addEdge("tools", "plain")
      .addConditionalEdges("model", (state) => [
        new Send("tools", { ...state, tool_call: { name: "task", args: {}, id: "call-1", type: "tool_call" } }),
      ]);
    const { events } = await createHost(graph)({ input: hello });
    const cause = '"cause":{"type":"toolCall","tool_call_id":"call-1"}';
    assert.deepEqual(formatEvents(events, ["lifecycle"]), [
      `lifecycle [tools:A] started {"graph_name":"researcher",${cause}}`,
      'lifecycle [tools:A|model:B] started {"graph_name":"model"}',
      'lifecycle [tools:A|model:B] completed {"graph_name":"model"}',
      'lifecycle [tools:A] completed {"graph_name":"researcher"}',
      'lifecycle [plain:C] started {"graph_name":"researcher"}',
      'lifecycle [plain:C|model:D] started {"graph_name":"model"}',
      'lifecycle [plain:C|model:D] completed {"graph_name":"model"}',
      'lifecycle [plain:C] completed {"graph_name":"researcher"}',
    ]);
  });

  it("end as interrupted, after the interrupt in their namespace", async () => {
    const inside = createParallelGraph({ inner: () => ({ log: [interrupt("q")] }) }, Log);
    const go = createHost(createParallelGraph({ outer: inside }, Log));
    const { events } = await go({ input: {} });
    assert.deepEqual(formatEvents(events, ["lifecycle", "input.requested", "updates"]), [
      'lifecycle [outer:A] started {"graph_name":"outer"}',
      'input.requested [outer:A] {"payload":"q"}',
      'lifecycle [outer:A] interrupted {"graph_name":"outer"}',
    ]);
    const answered = await go({ command: { resume: "a" } });
    assert.deepEqual(formatEvents(answered.events, ["lifecycle", "input.requested"]), [
      'lifecycle [outer:A] started {"graph_name":"outer"}',
      'lifecycle [outer:A] completed {"graph_name":"outer"}',
    ]);
  });
});
