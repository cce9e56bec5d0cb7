// The same calls without HTTP: npm run build && npx bun examples/in-process.ts; on Deno npx deno run -A, on Node npx node.
// See docs/guides/in-process.md.
import { createService, fromFunctions, ServiceError } from "greenroom";
import { nodeSqlite } from "greenroom/node-sqlite";

const service = await createService({
  storage: nodeSqlite(":memory:"),
  executor: fromFunctions({
    async *greeter({ messages, context, store, spend }) {
      yield `Hello, ${context.name ?? "you"}. `;
      yield `You have written ${messages.filter(({ type }) => type === "human").length} messages.`;
      await store.put(["greeted"], String(context.name), { times: messages.length });
      spend({ tokens_in: 10, tokens_out: 7 });
    },
  }),
});
const { assistants, threads, store, usage, stop } = service;
const greeter = service.agent("greeter");
const { assistant_id } = await assistants.create({ graph_id: "greeter", context: { name: "Ann" } });
const { thread_id } = await threads.create({ metadata: { topic: "greetings" } });

const frames = greeter.stream({ messages: "Hi" }, { assistant_id, thread_id, stream_mode: "messages-tuple" });
for await (const { data } of frames) console.log("Token:", data[0].content);
const { run_id } = await frames.run;
console.log("Spent:", JSON.stringify(await usage.traceUsage(run_id)));

const { messages } = await greeter.run({ messages: "Hi" }, { assistant_id, thread_id });
console.log("Result:", messages?.at(-1)?.content);
const found = await threads.search({ metadata: { topic: "greetings" } });
console.log("Threads:", found.total, found.items[0]?.status);
console.log("Stored:", JSON.stringify((await store.get(["greeted"], "Ann"))?.value));
try {
  await threads.get("00000000-0000-4000-8000-000000000000");
} catch (error) {
  if (error instanceof ServiceError) console.log("Error:", error.code, "-", error.message);
}
await stop();
