import { interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";

export const graph = new StateGraph(MessagesAnnotation)
  .addNode("ask", () => {
    const element = interrupt("Which element?");
    return { messages: [{ role: "assistant", content: `${element}.` }] };
  })
  .addEdge(START, "ask")
  .compile();
