/** A server with agents of LangChain, on a file: `serve.ts <file> <port>`. */
import process from "node:process";
import { serve } from "../../../adapters/node/mod.ts";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { createHandler } from "../../../lib/http/handler.ts";
import { combine, createService, type FunctionJob, fromFunctions } from "../../../lib/mod.ts";
import { langchainAgents } from "./agents.ts";

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
const service = await createService({
  storage: nodeSqlite(file),
  executor: combine(fromFunctions(agents), langchainAgents()),
});
const server = await serve(createHandler(service), { port: Number(port), hostname: "127.0.0.1" });
console.log(`Greenroom listening on http://127.0.0.1:${server.port}`);
