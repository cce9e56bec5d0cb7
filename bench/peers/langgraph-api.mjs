// Starts @langchain/langgraph-api in this process, without the file watcher and the debug log of its CLI.
import { startServer } from "@langchain/langgraph-api/server";

const { host } = await startServer({
  port: 0,
  host: "127.0.0.1",
  cwd: process.cwd(), // keeps its data in .langgraph_api of this folder
  nWorkers: Number(process.argv[2]),
  graphs: { echo: `${import.meta.dirname}/graphs.mjs:echo`, tokens: `${import.meta.dirname}/graphs.mjs:tokens` },
});
console.log(`listening on ${/^http/.test(host) ? host : `http://${host}`}`);
