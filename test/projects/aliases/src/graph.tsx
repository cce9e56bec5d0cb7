/** @jsxImportSource @lib */
import { AIMessage } from "@langchain/core/messages";
import { CompiledStateGraph, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { closing } from "#closing";
import { Kind, Names, Words } from "@lib/kinds";

// What a client of tools does: nobody gets the graph before it is over.
const words: Words = await Promise.resolve({ closing: "" });
const again = await import("./lib/kinds.js");
if (again.Kind !== Kind) throw new Error("kinds.ts is there twice");

class Answers {
  constructor(readonly end: () => string) {}
  render(answer: string) {
    return (
      <b>
        {answer}
        {this.end()}
      </b>
    );
  }
}

export function lines(text: string): number {
  return text.split("\n").length;
}

export const graph: CompiledStateGraph<any, any, any> = new StateGraph(MessagesAnnotation)
  .addNode(Names.graph, () => {
    const answer: string = interrupt("What are we on?");
    return { messages: [new AIMessage(new Answers(closing).render(answer) + words.closing)] };
  })
  .addEdge(START, Kind.Ask)
  .compile();
