// The server of stalls.mjs: agents that take what they get, on a file, with every default.
import { Annotation, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { langgraph } from "../../adapters/langgraph/mod.ts";
import { serve } from "../../adapters/node/mod.ts";
import { createHandler } from "../../lib/http/handler.ts";
import { combine, createService, fromFunctions, staticIdentity } from "../../lib/mod.ts";

const [path, ...keys] = process.argv.slice(2);
const { bunSqlite: open } =
  "Bun" in globalThis
    ? await import("../../adapters/sqlite/bun.ts")
    : { bunSqlite: (await import("../../adapters/sqlite/node.ts")).nodeSqlite };

const chat = new StateGraph(MessagesAnnotation)
  .addNode("answer", () => ({ messages: [{ role: "ai", content: "done" }] }))
  .addEdge(START, "answer")
  .compile();
const Any = Annotation.Root({ data: Annotation() });
const keep = new StateGraph(Any)
  .addNode("keep", () => ({}))
  .addEdge(START, "keep")
  .compile();

const service = await createService({
  storage: open(path),
  ...(keys.length > 0 ? { identity: staticIdentity({ keys }), auth: { mode: "api_key" } } : {}),
  executor: combine(
    fromFunctions({
      echo: () => "done",
      store: ({ input }) => ({ data: input.data }),
      ask: ({ interrupt }) => interrupt("?"),
      async large({ input: { size = 5 * 1024 * 1024, ms = 0 } }) {
        await new Promise((resolve) => setTimeout(resolve, ms));
        return "m".repeat(size);
      },
    }),
    langgraph({ chat, keep }),
  ),
});
const { port } = await serve(createHandler(service), { hostname: "127.0.0.1", port: 0 });
console.log(`listening on ${port}`);
