import assert from "node:assert/strict";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import { Annotation, END, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import type { Executor, GraphState, StreamMode, ThreadState } from "../../../lib/executor/contract.ts";
import type { Json, JsonObject } from "../../../lib/json.ts";
import { createJob, createThread, type JobChanges, run, type Thread } from "./executor.harness.ts";

export const Log = Annotation.Root({
  log: Annotation<string[]>({ reducer: (current, update) => [...current, ...update], default: () => [] }),
  data: Annotation<unknown>,
});

export const createStepsGraph = () =>
  new StateGraph(Log)
    .addNode("one", () => ({ log: ["one"] }))
    .addNode("two", () => ({ log: ["two"] }), { ends: ["told", END] })
    .addNode("told", (state: typeof Log.State) => ({ log: [`told ${state.data}`] }))
    .addEdge(START, "one")
    .addEdge("one", "two");

export const createAskingGraph = () =>
  new StateGraph(Log)
    .addNode("ask", () => ({ log: [`answer ${JSON.stringify(interrupt({ question: "ok?" }))}`] }))
    .addNode("after", () => ({ log: ["after"] }))
    .addEdge(START, "ask")
    .addEdge("ask", "after")
    .compile();

export const createChatGraph = () => {
  const model = new FakeListChatModel({ responses: ["Hello"] });
  return new StateGraph(MessagesAnnotation)
    .addNode("agent", async (state) => ({ messages: [await model.invoke(state.messages)] }))
    .addEdge(START, "agent")
    .compile();
};

export interface Hosted {
  readonly executor: Executor;
  readonly thread: Thread;
  run(changes?: JobChanges): ReturnType<typeof run>;
  state(checkpoint_id?: string): Promise<ThreadState>;
  history(): Promise<ThreadState[]>;
}

export function createHost(graph: Parameters<typeof langgraph>[0][string]): Hosted {
  const executor = langgraph({ graph });
  const thread = createThread();
  const states = executor.state?.("graph") as GraphState;
  const state = async (checkpoint_id?: string): Promise<ThreadState> => {
    const at = { thread_id: thread.thread_id, ns: "", ...(checkpoint_id === undefined ? {} : { checkpoint_id }) };
    const stored = await states.get(at, thread.checkpoints, { subgraphs: false });
    assert.ok(stored);
    return stored;
  };
  return {
    executor,
    thread,
    run: (changes) => run(executor, createJob(thread, "graph", changes)),
    state,
    async history() {
      const stored = await Array.fromAsync(thread.checkpoints.list({ ns: "" }));
      return await Promise.all(stored.map(({ checkpoint_id }) => state(checkpoint_id)));
    },
  };
}

export const log = (values: Json): Json => (values as JsonObject).log as Json;

export const getEventData = (events: readonly { mode: string; data: Json }[], mode: StreamMode): Json[] =>
  events.filter((event) => event.mode === mode).map((event) => event.data);
