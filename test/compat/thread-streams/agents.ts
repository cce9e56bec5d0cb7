/** Agents of the thread stream tests, beside those of the other client tests. */
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { END, type LangGraphRunnableConfig, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { z } from "zod";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import { combine, type Executor, fromFunctions } from "../../../lib/mod.ts";
import { FakeChatModel, type Gates, testExecutor } from "../../support/graphs.ts";

const search = tool(async ({ q }: { q: string }) => JSON.stringify({ found: q }), {
  name: "search",
  description: "Searches",
  schema: z.object({ q: z.string() }),
});

/** Calls a tool, then a subgraph whose model streams. */
function trip(gates: Gates): Parameters<typeof langgraph>[0][string] {
  const model = (text: string) =>
    new FakeChatModel(
      () => ({ text }),
      (token, signal) => gates.pass(`${text} ${token}`, signal),
    );
  const research = new StateGraph(MessagesAnnotation)
    .addNode("inner", async (_state, config) => ({
      messages: [await model("Found it").invoke([], config)] as BaseMessage[],
    }))
    .addEdge(START, "inner")
    .addEdge("inner", END)
    .compile();
  return new StateGraph(MessagesAnnotation)
    .addNode("plan", (_state, config: LangGraphRunnableConfig) => {
      config.writer?.({ name: "progress", payload: { done: 1 } });
      const tool_calls = [{ id: "call-1", name: "search", args: { q: "hotel" } }];
      return { messages: [new AIMessage({ id: "plan-1", content: "", tool_calls })] };
    })
    .addNode("tools", new ToolNode([search]))
    .addNode("research", research)
    .addNode("done", (_state, config: LangGraphRunnableConfig) => {
      config.writer?.({ name: "other", payload: "x" });
      config.writer?.({ name: "progress", payload: { done: 2 } });
      return {};
    })
    .addEdge(START, "plan")
    .addEdge("plan", "tools")
    .addEdge("tools", "research")
    .addEdge("research", "done")
    .addEdge("done", END)
    .compile() as never;
}

/** `trip` is a LangGraph graph, `report` and `both` are functions. */
export function streamExecutor(gates: Gates): Executor {
  return combine(
    testExecutor(gates),
    langgraph({ trip: trip(gates) }),
    fromFunctions({
      async *report({ emit }) {
        emit({ name: "progress", payload: { done: 1 } });
        emit({ name: "other", payload: "x" });
        emit({ name: "progress", payload: { done: 2 } });
        yield "reported";
      },
      async *slow({ signal }) {
        yield "one ";
        await gates.pass("one", signal);
        yield "two";
      },
    }),
  );
}
