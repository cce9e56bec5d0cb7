/** The names under which LangChain reports what runs in a node: those of the models, tools and chains, in every stream mode. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { BaseCallbackHandler } from "@langchain/core/callbacks/base";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import type { ChatResult } from "@langchain/core/outputs";
import { RunnableLambda } from "@langchain/core/runnables";
import { tool } from "@langchain/core/tools";
import { MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { createAgent } from "langchain";
import { z } from "zod";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import type { StreamMode } from "../../../lib/executor/contract.ts";
import { testService } from "../../suite/kit.ts";

type Graph = Parameters<typeof langgraph>[0][string];

/** Keeps the names that runs of tools, models and chains are started with. */
function createRecorder() {
  const names: string[] = [];
  const add = (kind: string, name: string | undefined): void => void names.push(`${kind} ${name ?? "of its own"}`);
  const handler = BaseCallbackHandler.fromMethods({
    handleToolStart: (_tool, _input, _run, _parent, _tags, _metadata, name) => add("tool", name),
    handleChainStart: (_chain, _inputs, _run, _parent, _tags, _metadata, _type, name) => add("chain", name),
    handleChatModelStart: (_model, _messages, _run, _parent, _extra, _tags, _metadata, name) => add("model", name),
  });
  return { names, callbacks: [handler] };
}

/** Calls the tool `lookup` once, then answers. */
class CallingModel extends BaseChatModel {
  _llmType(): string {
    return "calling";
  }
  override bindTools(): this {
    return this;
  }
  async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const isDone = messages.some((message) => message.getType() === "tool");
    const tool_calls = isDone ? [] : [{ id: "call-1", name: "lookup", args: { order: "1182" } }];
    return { generations: [{ text: "Done", message: new AIMessage({ content: "Done", tool_calls }) }] };
  }
}

const MODES: readonly StreamMode[] = ["values", "updates", "messages-tuple", "events"];

/** The reported names of a run for each stream mode. */
async function readNames(graph: Graph, { names }: { names: string[] }): Promise<readonly (readonly string[])[]> {
  await using kit = await testService({ executor: langgraph({ agent: graph }) });
  const lists: (readonly string[])[] = [];
  for (const mode of MODES) {
    const input = { messages: [{ role: "user", content: "Hi" }] };
    const { result } = await kit.service.runs.wait(null, { assistant_id: "agent", input, stream_mode: [mode] });
    assert.ok(!Object.hasOwn((await result) as object, "__error__"), JSON.stringify(await result));
    lists.push(names.splice(0));
  }
  return lists;
}

describe("the callbacks of a LangGraph run", () => {
  it("report tools and models of LangChain's createAgent by their names", async () => {
    const record = createRecorder();
    const lookup = tool(() => "found", {
      name: "lookup",
      description: "Looks up",
      schema: z.object({ order: z.string() }),
    });
    lookup.callbacks = record.callbacks;
    const agent = createAgent({ model: new CallingModel({ callbacks: record.callbacks }), tools: [lookup] });
    const expected = ["model of its own", "tool lookup", "model of its own"];
    for (const [index, names] of (await readNames(agent as unknown as Graph, record)).entries()) {
      assert.deepEqual(names, expected, `mode ${MODES[index]}`);
    }
  });

  it("report chains in nodes and conditional edges by their names, without the name of the node", async () => {
    const record = createRecorder();
    const inner = RunnableLambda.from((value: unknown) => value).withConfig({ callbacks: record.callbacks });
    const choose = RunnableLambda.from(() => "end").withConfig({ callbacks: record.callbacks });
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("work", async (state, config) => {
        record.names.push(`node ${(config as { readonly runName?: string }).runName ?? "without a name"}`);
        await inner.invoke(state, config);
        return {};
      })
      .addNode("end", () => ({}))
      .addEdge(START, "work")
      .addConditionalEdges("work", (state, config) => choose.invoke(state, config) as Promise<"end">, ["end"])
      .compile();
    const expected = ["node without a name", "chain RunnableLambda", "chain RunnableLambda"];
    for (const [index, names] of (await readNames(graph as unknown as Graph, record)).entries()) {
      assert.deepEqual(names, expected, `mode ${MODES[index]}`);
    }
  });
});
