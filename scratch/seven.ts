import { tool } from "@langchain/core/tools";
import { AIMessage, AIMessageChunk, HumanMessage } from "@langchain/core/messages";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import { interrupt, MessagesAnnotation, StateGraph, START, END } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { langgraph } from "../adapters/langgraph/mod.ts";
import { aJob, aThread } from "../test/adapters/langgraph-driver.ts";
import { z } from "zod";
const search = tool(async ({ q }: any) => JSON.stringify({ found: q }), { name: "search", description: "s", schema: z.object({ q: z.string() }) });
const sub = new StateGraph(MessagesAnnotation).addNode("inner", async (s, config) => {
  const m = new FakeListChatModel({ responses: ["Hi you"] });
  return { messages: [await m.invoke("x", config)] };
}).addEdge(START, "inner").compile();
const graph = new StateGraph(MessagesAnnotation)
  .addNode("plan", async (_s, config) => { config.writer?.({ progress: 1 }); config.writer?.({ name: "notes", payload: { n: 1 } }); return { messages: [new AIMessage({ id: "m-plan", content: "", tool_calls: [{ id: "call_1", name: "search", args: { q: "a" } }] })] }; })
  .addNode("tools", new ToolNode([search]))
  .addNode("research", sub)
  .addNode("ask", async () => { const a = interrupt({ question: "ok?" }); return { messages: [new HumanMessage({ id: "h2", content: String(a) })] }; })
  .addEdge(START, "plan").addEdge("plan", "tools").addEdge("tools", "research").addEdge("research", "ask").addEdge("ask", END).compile();
const ex = langgraph({ graph });
const thread = aThread();
for (const change of [{ input: { messages: [{ type: "human", content: "hello", id: "u1" }] } }, { command: { resume: "yes" } }] as any[]) {
  for await (const e of ex.execute(aJob(thread, "graph", { ...change, events: process.argv[2] ?? "all", modes: (process.argv[3] ?? "").split(",").filter(Boolean) } as any), new AbortController().signal)) {
    if (e.type === "event") console.log(e.method, JSON.stringify(e.namespace).replace(/-[0-9a-f-]{30,}/g, ""), e.node ?? "", e.checkpoint_id ? "#" : "", JSON.stringify(e.data).slice(0, 150));
    else if (e.type === "stream") console.log("   v1", e.mode, JSON.stringify(e.namespace ?? null).slice(0,20)); else console.log("STATE", (e as any).next);
  }
}
