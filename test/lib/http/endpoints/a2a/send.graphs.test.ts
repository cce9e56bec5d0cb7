/** LangGraph graphs as A2A agents: two interrupts at once, streamed tokens, and input without messages. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { AIMessage } from "@langchain/core/messages";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import { Annotation, END, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { langgraph } from "../../../../../adapters/langgraph/mod.ts";
import type { JsonObject } from "../../../../../lib/json.ts";
import { a2aWorld, answerText, joinTexts, readState, readTask, say } from "./a2a.harness.ts";

const asks = (question: string) => () => ({ messages: [new AIMessage(`${question} ${interrupt(question)}`)] });
const twice = new StateGraph(MessagesAnnotation)
  .addNode("from", asks("From?"))
  .addNode("to", asks("To?"))
  .addNode("book", () => ({ messages: [new AIMessage("Booked")] }))
  .addEdge(START, "from")
  .addEdge(START, "to")
  .addEdge(["from", "to"], "book")
  .addEdge("book", END);

const model = new FakeListChatModel({ responses: ["Once upon a time"] });
const talks = new StateGraph(MessagesAnnotation)
  .addNode("model", async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
  .addEdge(START, "model")
  .addEdge("model", END);

const counts = new StateGraph(Annotation.Root({ count: Annotation<number>() }))
  .addNode("add", ({ count }) => ({ count: count + 1 }))
  .addEdge(START, "add")
  .addEdge("add", END);

const executor = langgraph({ twice: twice.compile(), talks: talks.compile(), counts: counts.compile() });

it("one A2A message answers two interrupts", async () => {
  await using it = await a2aWorld({ executor });
  const task = readTask(await it.ask("twice", "SendMessage", say("Book")));
  assert.equal(readState(task), "INPUT_REQUIRED");
  const parts = task.status.message?.parts ?? [];
  const open = parts.flatMap(({ data = null }) => (data ? [(data as JsonObject).interrupt as JsonObject] : []));
  assert.deepEqual(open.map(({ value = null }) => value).sort(), ["From?", "To?"]);
  const { id: taskId, contextId } = task;
  const answers = open.map(({ id = null, value }) => ({ id, value: value === "To?" ? "Rome" : "Oslo" }));
  for (const wrong of [[{ text: "Rome" }], [{ data: { resume: answers.slice(1) } }]]) {
    const { error } = await it.ask("twice", "SendMessage", say(wrong as JsonObject[], { taskId, contextId }));
    assert.match(String(error.message), /waits for 2 answers/);
  }
  const done = readTask(
    await it.ask("twice", "SendMessage", say([{ data: { resume: answers } }], { taskId, contextId })),
  );
  assert.deepEqual([done.id, answerText(done)], [taskId, "Booked"]);
  const historyTexts = done.history?.map(({ parts: of }) => joinTexts(of)).sort();
  assert.deepEqual(historyTexts, ["Book", "Booked", "From? Oslo", "To? Rome"]);
});

it("an A2A task streams the tokens of a model as one artifact", async () => {
  await using it = await a2aWorld({ executor });
  const { events } = await it.ask("talks", "SendStreamingMessage", say("Tell"));
  const updates = events.flatMap(({ artifactUpdate }) => (artifactUpdate ? [artifactUpdate as JsonObject] : []));
  const text = updates.map(({ artifact }) => joinTexts((artifact as JsonObject).parts as JsonObject[])).join("");
  assert.equal(text, "Once upon a time");
  assert.deepEqual([updates[0]?.append, updates.at(-1)?.append, updates.at(-1)?.lastChunk], [false, true, true]);
});

it("A2A refuses a text message to a graph whose input has no messages", async () => {
  await using it = await a2aWorld({ executor });
  const { error } = await it.ask("counts", "SendMessage", say("One"));
  assert.equal(error.code, -32602);
  assert.match(String(error.message), /its input has count/);
});
