// A LangGraph.js agent with a tool that a person has to approve.
import { AIMessage, ToolMessage } from "@langchain/core/messages";
import { END, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { DemoModel } from "./model.ts";

type State = typeof MessagesAnnotation.State;
const model = new DemoModel({});

const listCalls = ({ messages }: State) => {
  const last = messages.at(-1);
  return AIMessage.isInstance(last) ? (last.tool_calls ?? []) : [];
};

async function think({ messages }: State, config: object): Promise<Partial<State>> {
  return { messages: [await model.invoke(messages, config)] };
}

function act(state: State): Partial<State> {
  return {
    messages: listCalls(state).map(({ id = "", args }) => {
      const answer = interrupt({ question: `Refund ${args.amount} euros?`, answers: ["yes", "no"] });
      const content = answer === "yes" ? `${args.amount} euros are on their way.` : "the refund was refused.";
      return new ToolMessage({ tool_call_id: id, name: "refund", content });
    }),
  };
}

export const graph = new StateGraph(MessagesAnnotation)
  .addNode("think", think)
  .addNode("act", act)
  .addEdge(START, "think")
  .addConditionalEdges("think", (state) => (listCalls(state).length > 0 ? "act" : END), ["act", END])
  .addEdge("act", "think")
  .compile();
