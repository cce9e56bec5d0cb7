// The same calls without HTTP: npm run build && npx bun examples/in-process.ts; on Deno npx deno run -A, on Node npx node.
// See docs/guides/in-process.md.
import { createService, fromFunctions, type JsonObject, ServiceError } from "greenroom";
import { nodeSqlite } from "greenroom/node-sqlite";

const { assistants, threads, runs, store, usage, stop } = await createService({
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
const input = { messages: [{ role: "user", content: "Hi" }] };
const { assistant_id } = await assistants.create({ graph_id: "greeter", context: { name: "Ann" } });
const { thread_id } = await threads.create({ metadata: { topic: "greetings" } });

const { run, frames } = await runs.stream(thread_id, { assistant_id, input, stream_mode: "messages-tuple" });
for await (const { event, data } of frames)
  if (event === "messages") console.log("Token:", JSON.parse(data)[0].content);
console.log("Spent:", JSON.stringify(await usage.traceUsage(run.run_id)));

const { result } = await runs.wait(thread_id, { assistant_id, input });
console.log("Result:", ((await result) as { messages: JsonObject[] }).messages.at(-1)?.content);
const found = await threads.search({ metadata: { topic: "greetings" } });
console.log("Threads:", found.total, found.items[0]?.status);
console.log("Stored:", JSON.stringify((await store.get(["greeted"], "Ann"))?.value));
try {
  await threads.get("00000000-0000-4000-8000-000000000000");
} catch (error) {
  if (error instanceof ServiceError) console.log("Error:", error.code, "-", error.message);
}
await stop();
