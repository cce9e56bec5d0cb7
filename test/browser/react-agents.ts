/** Agents of the @langchain/react tests, beside those of the client tests. */
import { AIMessage } from "@langchain/core/messages";
import { END, type LangGraphRunnableConfig, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { langgraph } from "../../adapters/langgraph/mod.ts";
import { combine, type Executor, fromFunctions } from "../../lib/mod.ts";
import { FakeChatModel, type Gates, testExecutor } from "../clients/graphs.ts";

/** A team whose researcher has a writer: graphs in graphs, whose model speaks word by word. */
function team(gates: Gates): Parameters<typeof langgraph>[0] {
  const model = new FakeChatModel(
    () => ({ text: "Deep thought here" }),
    (token, signal) => gates.pass(`deep ${token}`, signal),
  );
  const writer = new StateGraph(MessagesAnnotation)
    .addNode("draft", async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
    .addEdge(START, "draft")
    .addEdge("draft", END)
    .compile();
  const research = new StateGraph(MessagesAnnotation)
    .addNode("writer", writer)
    .addNode("check", () => ({ messages: [new AIMessage("Checked")] }))
    .addEdge(START, "writer")
    .addEdge("writer", "check")
    .addEdge("check", END)
    .compile();
  const report = async (_: unknown, { signal }: LangGraphRunnableConfig): Promise<object> => {
    await gates.pass("report", signal);
    return { messages: [new AIMessage("Reported")] };
  };
  return {
    team: new StateGraph(MessagesAnnotation)
      .addNode("research", research)
      .addNode("report", report)
      .addEdge(START, "research")
      .addEdge("research", "report")
      .addEdge("report", END)
      .compile(),
  };
}

export function reactExecutor(gates: Gates): Executor {
  const functions = fromFunctions({
    /** Fails for some texts. */
    async *moody({ messages }) {
      const text = String(messages.at(-1)?.content);
      yield "Well, ";
      if (text === "fail") throw new Error("boom happened");
      yield text;
    },
    /** Waits after each word, but not in the first turn. */
    async *"gated-words"({ messages, signal }) {
      for (const [at, word] of (`You said: ${messages.at(-1)?.content}`.match(/\S+\s*/g) ?? []).entries()) {
        yield word;
        if (messages.length > 1) await gates.pass(`token ${at + 1}`, signal);
      }
    },
  });
  return combine(combine(testExecutor(gates), functions), langgraph(team(gates)));
}
