// An agent made with the AI SDK: the thread is its memory. After npm run build on Bun: npx bun examples/ai-sdk.ts; on Deno:
// npx deno serve -A --host 127.0.0.1 --port 3000 examples/ai-sdk.ts; on Node hand `fetch` to a server as node.ts does.
import process from "node:process";
import { streamText } from "ai";
import { createService, fromFunctions } from "greenroom";
import { toModelMessages } from "greenroom/ai";
import { nodeSqlite } from "greenroom/node-sqlite";
import { createHandler } from "greenroom/server";
import { model } from "./ai-model.ts";

const service = await createService({
  storage: nodeSqlite("agents.db"),
  executor: fromFunctions({
    chat({ messages, signal }) {
      const onAbort = (): void => console.log("The model was stopped");
      return streamText({ model, messages: toModelMessages(messages), abortSignal: signal, onAbort, onError() {} });
    },
  }),
});
const agents = createHandler(service, { prefix: "/agents" });
process.once("SIGTERM", () => void service.stop().then(() => process.exit(0)));

async function answer(request: Request): Promise<Response> {
  const run_id = /^\/spent\/(.+)$/.exec(new URL(request.url).pathname)?.[1];
  return run_id ? Response.json(await service.usage.traceUsage(run_id)) : await agents(request);
}
export default { port: Number(process.env.PORT ?? 3000), hostname: "127.0.0.1", idleTimeout: 0, fetch: answer };
