// Starts @langchain/langgraph-api in this process, without the file watcher and the debug log of its CLI.
import { startServer } from "@langchain/langgraph-api/server";

const { host } = await startServer({
  port: 0,
  host: "127.0.0.1",
  cwd: process.cwd(), // keeps its data in .langgraph_api of this folder
  nWorkers: Number(process.argv[2]),
  graphs: Object.fromEntries(
    ["echo", "tokens", "burst"].map((name) => [name, `${import.meta.dirname}/graphs.mjs:${name}`]),
  ),
});
console.log(`listening on ${/^http/.test(host) ? host : `http://${host}`}`);
