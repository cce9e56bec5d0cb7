/** A filter on values finds the threads whose state holds it, whichever way the state came to be. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Annotation, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import { combine, fromFunctions, type Json, type JsonObject } from "../../../lib/mod.ts";
import { testService } from "../../suite/kit.ts";

const state = Annotation.Root({
  topic: Annotation<string>,
  step: Annotation<number>({ reducer: (current, update) => current + update, default: () => 0 }),
  list: Annotation<string[]>,
});

const executor = () =>
  combine(
    fromFunctions({
      async *keep({ input }) {
        yield input as JsonObject;
      },
      async *fail({ input }) {
        yield input as JsonObject;
        throw new Error("boom happened");
      },
      async *ask({ input, command, interrupt }) {
        if (command?.resume === undefined) {
          yield input as JsonObject;
          yield interrupt("ok?");
        }
        yield { topic: "answered" };
      },
    }),
    langgraph({
      graph: new StateGraph(state)
        .addNode("count", () => ({ step: 1 }))
        .addNode("wait", ({ list }) => (list?.includes("ask") ? { topic: interrupt("which?") as string } : {}))
        .addNode("end", ({ list }) => {
          if (list?.includes("fail")) throw new Error("boom happened");
          return { step: 1 };
        })
        .addEdge(START, "count")
        .addEdge("count", "wait")
        .addEdge("wait", "end")
        .addEdge("end", END)
        .compile(),
    }),
  );

const FILTERS: readonly JsonObject[] = [
  { topic: "tea" },
  { topic: "answered" },
  { topic: "edited" },
  { topic: "x".repeat(600) },
  { step: 0 },
  { step: 1 },
  { step: 2 },
  { step: 2, topic: "tea" },
  { topic: null },
  { list: ["ask"] },
  { list: [] },
  { step: 2, list: ["fail"] },
  { k7: 7 },
];

describe("a filter on values", () => {
  it("finds the states that a read of every state finds", async () => {
    const alive = setInterval(() => {}, 60_000);
    try {
      await using host = await testService({ executor: executor() });
      const ask = async (method: string, path: string, body?: unknown): Promise<Json> => {
        const init = body === undefined ? { method } : { method, body: JSON.stringify(body) };
        const answer = await host.fetch(`http://greenroom${path}`, init);
        const text = await answer.text();
        assert.ok(answer.ok, `${method} ${path}: ${text}`);
        return text === "" ? null : (JSON.parse(text) as Json);
      };
      const thread = async (): Promise<string> =>
        ((await ask("POST", "/threads", {})) as { thread_id: string }).thread_id;
      const run = (id: string, assistant_id: string, body: JsonObject): Promise<Json> =>
        ask("POST", `/threads/${id}/runs/wait`, { assistant_id, ...body });

      await thread();
      const many = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`k${i}`, i]));
      const inputs: readonly JsonObject[] = [
        { topic: "tea", step: 1 },
        { topic: "x".repeat(600), step: 2 },
        { topic: null },
        { list: ["a"] },
        many,
      ];
      for (const input of inputs) {
        for (const agent of ["keep", "fail", "ask"]) await run(await thread(), agent, { input });
      }
      for (const list of [["none"], ["ask"], ["fail"], ["ask", "fail"]]) {
        await run(await thread(), "graph", { input: { topic: "tea", list } });
      }
      const resumed = await thread();
      await run(resumed, "graph", { input: { topic: "tea", list: ["ask"] } });
      await run(resumed, "graph", { command: { resume: "answered" } });
      const edited = await thread();
      await run(edited, "graph", { input: { topic: "tea", list: ["none"] } });
      const copied = (await ask("POST", `/threads/${edited}/copy`)) as { thread_id: string };
      await ask("POST", `/threads/${edited}/state`, { values: { topic: "edited" } });
      await ask("POST", `/threads/${copied.thread_id}/state`, { values: { step: 5 } });
      await ask("POST", "/threads", {
        metadata: { graph_id: "graph" },
        supersteps: [{ updates: [{ values: { topic: "tea" }, as_node: "count" }] }],
      });

      const all = (await ask("POST", "/threads/search", { limit: 1000 })) as { thread_id: string; values: Json }[];
      const has = (values: Json, [key, expectedValue]: [string, Json]): boolean => {
        const member = (values as JsonObject | null)?.[key];
        if (!Array.isArray(expectedValue)) return member === expectedValue;
        return Array.isArray(member) && expectedValue.every((element) => member.includes(element));
      };
      for (const values of FILTERS) {
        const expected = all.filter((thread) => Object.entries(values).every((entry) => has(thread.values, entry)));
        const matches = (await ask("POST", "/threads/search", { values, limit: 1000 })) as { thread_id: string }[];
        const description = JSON.stringify(values).slice(0, 80);
        assert.deepEqual(
          matches.map((thread) => thread.thread_id),
          expected.map((thread) => thread.thread_id),
          description,
        );
        assert.equal(await ask("POST", "/threads/count", { values }), expected.length, description);
      }
      assert.ok(all.length > 20);
    } finally {
      clearInterval(alive);
    }
  });
});
