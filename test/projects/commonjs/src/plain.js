const { AIMessage } = require("@langchain/core/messages");
const { Command, interrupt, MessagesAnnotation, START, StateGraph } = require("@langchain/langgraph");

const graph = new StateGraph(MessagesAnnotation)
  .addNode(
    "ask",
    () => new Command({ update: { messages: [new AIMessage(`${interrupt("What are we on?")}.`)] }, goto: "__end__" }),
    { ends: ["__end__"] },
  )
  .addEdge(START, "ask");

module.exports = { graph };
