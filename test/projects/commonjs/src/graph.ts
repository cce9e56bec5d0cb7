import { AIMessage } from "@langchain/core/messages";
import { interrupt, StateGraph } from "@langchain/langgraph";
import words from "./words";

const { State } = require("./state") as typeof import("./state");
const { START } = require("@langchain/langgraph") as typeof import("@langchain/langgraph");

if (words.own === 0) throw new Error(`nothing in ${__dirname}`);

export const graph = new StateGraph(State)
  .addNode("ask", (): { messages: AIMessage[] } => {
    const answer: string = interrupt("What are we on?");
    return { messages: [new AIMessage(answer + words.closing())] };
  })
  .addEdge(START, "ask")
  .compile();

if (require.main === module) console.log("started by itself");
