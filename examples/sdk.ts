// The stock SDK against a running server (npm start): npx bun examples/sdk.ts [URL]
import { Client } from "@langchain/langgraph-sdk";

const client = new Client({ apiUrl: process.argv[2] ?? "http://127.0.0.1:2024" });

const assistant = await client.assistants.create({ graphId: "writer", name: "Loud", context: { style: "loud" } });
const thread = await client.threads.create();
const stream = client.runs.stream(thread.thread_id, assistant.assistant_id, {
  input: { messages: [{ role: "user", content: "Tell me about green rooms" }] },
  streamMode: "messages-tuple",
});
for await (const { event, data } of stream) {
  if (event === "messages") console.log(data[0].content);
}

// A question for the person: the run stops, and continues with the answer.
const { thread_id } = await client.threads.create();
const refund = { messages: [{ role: "user", content: "Please refund 30 euros" }] };
await client.runs.wait(thread_id, "approval", { input: refund });
const { tasks } = await client.threads.getState(thread_id);
console.log("Asked:", JSON.stringify(tasks[0]?.interrupts[0]?.value));
await client.runs.wait(thread_id, "approval", { command: { resume: "yes" } });
const { values } = await client.threads.getState<{ messages: { content: string }[] }>(thread_id);
console.log("Answered:", values.messages.at(-1)?.content);
