import type { BaseMessage } from "@langchain/core/messages";
import { interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";

const last = (messages: BaseMessage[]): string => messages.at(-1)?.text ?? "";

// Call your model here, for example with initChatModel of the package "langchain".
async function answer({ messages }: typeof MessagesAnnotation.State) {
  return { messages: [{ role: "assistant", content: `You said "${last(messages)}".` }] };
}

/** Pauses the run until a client resumes it with "yes" or "no". */
async function approve({ messages }: typeof MessagesAnnotation.State) {
  const decision = interrupt({ question: `Delete everything? (${last(messages)})`, answers: ["yes", "no"] });
  return { messages: [{ role: "assistant", content: decision === "yes" ? "Deleted." : "Nothing was deleted." }] };
}

export const agent = new StateGraph(MessagesAnnotation)
  .addNode("answer", answer)
  .addNode("approve", approve)
  .addConditionalEdges(START, ({ messages }) => (/\bdelete\b/i.test(last(messages)) ? "approve" : "answer"), [
    "answer",
    "approve",
  ])
  .compile();
