import { AIMessage } from "@langchain/core/messages";
import { RunnableConfig } from "@langchain/core/runnables";
import { Command, interrupt, StateGraph } from "@langchain/langgraph";
import { StateAnnotation } from "./state.js";

type State = typeof StateAnnotation.State;

async function ask(_state: State, _config: RunnableConfig) {
  const answer: string = interrupt("What are we on?");
  return new Command({ update: { messages: [new AIMessage(answer)] }, goto: "close" });
}

export const graph = new StateGraph(StateAnnotation)
  .addNode("ask", ask, { ends: ["close"] })
  .addNode("close", (state: State) => ({ messages: [new AIMessage(`${state.messages.at(-1)?.content}.`)] }))
  .addEdge("__start__", "ask")
  .compile();

graph.name = "New Agent";
