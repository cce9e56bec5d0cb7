// An agent made with the AI SDK: the thread is its memory. After npm run build on Bun: npx bun examples/ai-sdk.ts; on Deno:
// npx deno serve -A --host 127.0.0.1 --port 3000 examples/ai-sdk.ts; on Node hand `fetch` to a server as node.ts does.
import process from "node:process";
import { type ModelMessage, streamText } from "ai";
import { createService, fromFunctions, type JsonObject } from "greenroom";
import { nodeSqlite } from "greenroom/node-sqlite";
import { createHandler } from "greenroom/server";
import { model } from "./ai-model.ts";

const ROLES: Readonly<Record<string, string>> = { human: "user", ai: "assistant" };
const toModel = ({ type, content }: JsonObject) => ({ role: ROLES[String(type)] ?? type, content }) as ModelMessage;

const service = await createService({
  storage: nodeSqlite("agents.db"),
  executor: fromFunctions({
    async *chat({ messages, signal, spend }) {
      const onAbort = (): void => console.log("The model was stopped");
      const asked = { model, messages: messages.map(toModel), abortSignal: signal, onAbort, onError() {} };
      for await (const part of streamText(asked).fullStream) {
        if (part.type === "text-delta") yield part.text;
        if (part.type === "error") throw part.error;
        if (part.type !== "finish") continue;
        const { inputTokens = 0, outputTokens = 0 } = part.totalUsage;
        spend({ tokens_in: inputTokens, tokens_out: outputTokens });
      }
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
