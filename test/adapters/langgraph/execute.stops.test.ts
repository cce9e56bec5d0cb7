/** Stopping LangGraph runs: nothing begins after the abort, nothing that was cut off counts, and the thread goes on from there. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AIMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import {
  Annotation,
  END,
  entrypoint,
  type LangGraphRunnableConfig,
  MessagesAnnotation,
  START,
  StateGraph,
  task,
} from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import type { GraphState, ThreadState } from "../../../lib/executor/contract.ts";
import type { Json, JsonObject } from "../../../lib/json.ts";
import { createJob, createThread, type JobChanges, run, type Thread } from "./executor.harness.ts";

const Log = Annotation.Root({
  log: Annotation<string[]>({ reducer: (current, update) => [...current, ...update], default: () => [] }),
});
type Graph = Parameters<typeof langgraph>[0][string];

/** The context of a graph under test. It stops itself, and its deaf nodes end when they are released. */
interface Scene {
  readonly calls: string[];
  /** Stops the run, and resolves some time later. */
  stop(): Promise<void>;
}

interface Stopped {
  readonly calls: readonly string[];
  readonly thread: Thread;
  readonly state: ThreadState | null;
  run(changes?: JobChanges): ReturnType<typeof run>;
}

async function runUntilStopped(make: (scene: Scene) => Graph, changes: JobChanges = {}): Promise<Stopped> {
  const abort = new AbortController();
  const calls: string[] = [];
  const scene: Scene = {
    calls,
    async stop() {
      await new Promise<void>((resolve) => setTimeout(resolve, 0));
      abort.abort("cancelled");
      await new Promise<void>((resolve) => setTimeout(resolve, 20));
      calls.push("let go");
    },
  };
  const executor = langgraph({ graph: make(scene) });
  const thread = createThread();
  await assert.rejects(run(executor, createJob(thread, "graph", { input: {}, ...changes }), abort.signal), /cancelled/);
  const callsBefore = [...calls];
  const { length } = thread.checkpoints.steps;
  await new Promise<void>((resolve) => setTimeout(resolve, 20));
  assert.deepEqual(calls, callsBefore, "something went on after the end");
  assert.equal(thread.checkpoints.steps.length, length, "something was written after the end");
  const states = executor.state?.("graph") as GraphState;
  const state = await states.get({ thread_id: thread.thread_id, ns: "" }, thread.checkpoints, { subgraphs: false });
  // What was cut off has not failed either: it is to be done.
  assert.deepEqual(
    state?.tasks.filter(({ error }) => error !== null),
    [],
  );
  return { calls: callsBefore, thread, state, run: (changes) => run(executor, createJob(thread, "graph", changes)) };
}

const log = (values: Json | undefined): Json => (values as JsonObject | undefined)?.log as Json;

const shapes: Readonly<Record<string, (scene: Scene) => Graph>> = {
  "one after the other": ({ calls, stop }) =>
    new StateGraph(Log)
      .addNode("deaf", async () => {
        await stop();
        return { log: ["deaf"] };
      })
      .addNode("next", () => {
        calls.push("next");
        return {};
      })
      .addEdge(START, "deaf")
      .addEdge("deaf", "next"),
  "side by side": ({ calls, stop }) =>
    new StateGraph(Log)
      .addNode("quick", () => ({ log: ["quick"] }))
      .addNode("deaf", async () => {
        await stop();
        return { log: ["deaf"] };
      })
      .addNode("next", () => {
        calls.push("next");
        return {};
      })
      .addEdge(START, "quick")
      .addEdge(START, "deaf")
      .addEdge("quick", "next"),
  "side by side, one at a time": ({ calls, stop }) =>
    new StateGraph(Log)
      .addNode("deaf", async () => {
        await stop();
        return { log: ["deaf"] };
      })
      .addNode("next", () => {
        calls.push("next");
        return {};
      })
      .addEdge(START, "deaf")
      .addEdge(START, "next")
      .compile()
      .withConfig({ maxConcurrency: 1 }) as Graph,
  "inside a subgraph": ({ calls, stop }) =>
    new StateGraph(Log)
      .addNode(
        "child",
        new StateGraph(Log)
          .addNode("deaf", async () => {
            await stop();
            return { log: ["deaf"] };
          })
          .addNode("next", () => {
            calls.push("next");
            return {};
          })
          .addEdge(START, "deaf")
          .addEdge("deaf", "next")
          .compile(),
      )
      .addEdge(START, "child"),
  "with a subgraph called by a node": ({ calls, stop }) => {
    const child = new StateGraph(Log)
      .addNode("next", () => {
        calls.push("next");
        return {};
      })
      .addEdge(START, "next")
      .compile();
    return new StateGraph(Log)
      .addNode("deaf", async (_state, config: LangGraphRunnableConfig) => {
        await stop();
        return await child.invoke({}, config);
      })
      .addEdge(START, "deaf");
  },
  "with retries": ({ calls, stop }) =>
    new StateGraph(Log)
      .addNode(
        "deaf",
        async () => {
          calls.push("try");
          await stop();
          throw new Error("failed");
        },
        { retryPolicy: { initialInterval: 1, jitter: false, logWarning: false } },
      )
      .addEdge(START, "deaf"),
  "with tasks": ({ calls, stop }) => {
    const next = task("next", async () => {
      calls.push("next");
    });
    return entrypoint("flow", async () => {
      await stop();
      await next();
    });
  },
};

describe("a stopped LangGraph run", () => {
  for (const [name, make] of Object.entries(shapes)) {
    for (const modes of [["values"], ["values", "events"]] as const) {
      it(`starts nothing more, and ends once its active node has: ${name} (${modes})`, async () => {
        const { calls, state } = await runUntilStopped(make, { modes });
        assert.deepEqual(
          calls.filter((call) => call !== "try"),
          ["let go"],
        );
        assert.deepEqual(calls.filter((call) => call === "try").length, name === "with retries" ? 1 : 0);
        assert.ok(!JSON.stringify(state?.values ?? null).includes("deaf"));
        assert.equal(state?.next.length, name.startsWith("side by side, one") ? 2 : 1);
      });
    }
  }

  for (const durability of ["async", "sync"] as const) {
    it(`keeps finished tasks, and continues with the others (${durability})`, async () => {
      let calls: string[] = [];
      let stops = true;
      const { state, run } = await runUntilStopped(
        ({ stop }) =>
          new StateGraph(Log)
            .addNode("first", () => {
              calls.push("first");
              return { log: ["first"] };
            })
            .addNode("quick", () => {
              calls.push("quick");
              return { log: ["quick"] };
            })
            .addNode("slow", async () => {
              calls.push("slow");
              if (stops) await stop();
              return { log: ["slow"] };
            })
            .addEdge(START, "first")
            .addEdge("first", "quick")
            .addEdge("first", "slow"),
        { durability },
      );
      assert.deepEqual([log(state?.values), state?.next], [["first", "quick"], ["slow"]]);
      calls = [];
      stops = false;
      const { state: ended } = await run();
      assert.deepEqual(calls, ["slow"]);
      assert.deepEqual(log(ended.values), ["first", "quick", "slow"]);
    });
  }

  for (const kind of ["a node", "a tool", "a node of a subgraph"] as const) {
    it(`passes the reason to ${kind} at once`, async () => {
      const abort = new AbortController();
      const heard: unknown[] = [];
      const listen = (signal: AbortSignal | undefined): Promise<never> =>
        new Promise((_resolve, reject) => {
          signal?.addEventListener("abort", () => {
            heard.push(signal.reason);
            reject(new Error("heard"));
          });
          setTimeout(() => abort.abort("rolled_back"), 0);
        });
      const nodes = new StateGraph(MessagesAnnotation);
      const wait = tool((_input, config) => listen(config.signal), { name: "wait", description: "waits" });
      const graph =
        kind === "a tool"
          ? nodes.addNode("wait", new ToolNode([wait])).addEdge(START, "wait")
          : nodes
              .addNode("wait", (_state, config: LangGraphRunnableConfig) => listen(config.signal))
              .addEdge(START, "wait");
      const whole =
        kind === "a node of a subgraph"
          ? new StateGraph(MessagesAnnotation).addNode("child", graph.compile()).addEdge(START, "child")
          : graph;
      const call = { name: "wait", args: {}, id: "c", type: "tool_call" };
      const input = { messages: [{ type: "ai", content: "", tool_calls: [call] }] };
      const executor = langgraph({ graph: whole as Graph });
      await assert.rejects(run(executor, createJob(createThread(), "graph", { input }), abort.signal), /rolled_back/);
      assert.deepEqual(heard, ["rolled_back"]);
    });
  }
});

describe("a tool call without a response after a stop", () => {
  const receivedTexts: string[][] = [];
  let stops = true;
  const agent = ({ stop }: Scene): Graph =>
    new StateGraph(MessagesAnnotation)
      .addNode("model", ({ messages }) => {
        receivedTexts.push(messages.map((message) => message.getType()));
        const last = messages.at(-1);
        const done = last && ToolMessage.isInstance(last);
        const call = { name: "book", args: {}, id: "call", type: "tool_call" } as const;
        return { messages: [new AIMessage(done ? "booked" : { content: "", tool_calls: [call] })] };
      })
      .addNode("tools", async () => {
        if (stops) await stop();
        return { messages: [new ToolMessage({ content: "7A", tool_call_id: "call" })] };
      })
      .addEdge(START, "model")
      .addConditionalEdges("model", ({ messages }) =>
        (messages.at(-1) as AIMessage).tool_calls?.length ? "tools" : END,
      )
      .addEdge("tools", "model");
  const types = (values: Json | undefined): unknown[] =>
    ((values as { messages: JsonObject[] } | undefined)?.messages ?? []).map(({ type }) => type);
  const input = { messages: [{ role: "user", content: "book a seat" }] };

  it("stays in the state, with the tool as the next task, and a run without input answers it", async () => {
    stops = true;
    const { state, run } = await runUntilStopped(agent, { input });
    assert.deepEqual([types(state?.values), state?.next], [["human", "ai"], ["tools"]]);
    stops = false;
    const { state: ended } = await run();
    assert.deepEqual(types(ended.values), ["human", "ai", "tool", "ai"]);
    assert.deepEqual(ended.next, []);
  });

  it("is in the next model call if the next run has input, unless the input answers it", async () => {
    stops = true;
    const { run } = await runUntilStopped(agent, { input });
    stops = false;
    receivedTexts.length = 0;
    await run({ input: { messages: [{ role: "user", content: "never mind" }] }, interrupt_before: ["tools"] });
    assert.deepEqual(receivedTexts, [["human", "ai", "human"]]);

    stops = true;
    const otherStop = await runUntilStopped(agent, { input });
    stops = false;
    receivedTexts.length = 0;
    const answer = { type: "tool", content: "cancelled by the user", tool_call_id: "call" };
    await otherStop.run({
      input: { messages: [answer, { role: "user", content: "never mind" }] },
      interrupt_before: "*",
    });
    const { state: answered } = await otherStop.run({ interrupt_before: ["tools"] });
    assert.deepEqual(receivedTexts, [["human", "ai", "tool", "human"]]);
    assert.deepEqual(types(answered.values), ["human", "ai", "tool", "human", "ai"]);
  });
});
