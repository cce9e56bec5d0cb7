/** A server with agents of LangChain, on a file: `serve.ts <file> <port>`. */
import { existsSync, writeFileSync } from "node:fs";
import process from "node:process";
import { AIMessage } from "@langchain/core/messages";
import { MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import { serve } from "../../../adapters/node/mod.ts";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { createHandler } from "../../../lib/http/handler.ts";
import { combine, createService, type FunctionJob, fromFunctions } from "../../../lib/mod.ts";
import { langchainAgents, TokenModel } from "./agents.ts";

const [, , file = "", port = "0"] = process.argv;
const agents = {
  /** In the first turn, the second attempt gets to the end. */
  async *slow({ attempt, messages, signal }: FunctionJob) {
    yield "Begun. ";
    if (attempt === 1 && messages.length === 1)
      await new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    yield "Ended.";
  },
};
/** Its second node gets to its end in the second process. */
const steps = new StateGraph(MessagesAnnotation)
  .addNode("one", () => ({ messages: [new AIMessage("One.")] }))
  .addNode("two", async (_state, { signal }) => {
    const isFirst = !existsSync(`${file}.begun`);
    writeFileSync(`${file}.begun`, "");
    const message = await new TokenModel({}).invoke("two");
    if (isFirst)
      await new Promise((_resolve, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
    return { messages: [message] };
  })
  .addEdge(START, "one")
  .addEdge("one", "two")
  .compile();
const service = await createService({
  storage: nodeSqlite(file),
  executor: combine(fromFunctions(agents), langchainAgents(), langgraph({ steps } as never)),
});
const server = await serve(createHandler(service), { port: Number(port), hostname: "127.0.0.1" });
console.log(`Greenroom listening on http://127.0.0.1:${server.port}`);
