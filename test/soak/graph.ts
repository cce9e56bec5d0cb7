/** The LangGraph graph of the soak: `steps` nodes one after the other, and a question if asked for. No model, no network. */
import process from "node:process";
import { AIMessage } from "@langchain/core/messages";
import {
  Annotation,
  END,
  interrupt,
  type LangGraphRunnableConfig,
  MessagesAnnotation,
  START,
  StateGraph,
} from "@langchain/langgraph";
import { HELD_MS, type JobIds, mark, type Plan, pause, type Token } from "./agents.ts";

const State = Annotation.Root({ ...MessagesAnnotation.spec, done: Annotation<number> });
type Values = typeof State.State;

interface JobContext {
  readonly plan: Plan;
  readonly ids: JobIds;
  readonly signal: AbortSignal;
}

function readContext({ metadata = {}, configurable = {}, context, signal }: LangGraphRunnableConfig): JobContext {
  const plan = metadata.soak as Plan;
  return {
    plan,
    ids: {
      run_id: String(configurable.run_id),
      thread_id: String(configurable.thread_id),
      // LangGraph does not tell its nodes; 0 stands for "not known".
      attempt: 0,
      key: plan.key,
      version: Number((context as { version?: number } | undefined)?.version ?? 0),
    },
    signal: signal as AbortSignal,
  };
}

/** Runs one node as a separate execution: between two nodes nothing of the run can write. */
async function runExecution<Result>(
  config: LangGraphRunnableConfig,
  work: (context: JobContext, token: string) => Promise<Result>,
) {
  const all = readContext(config);
  const token = crypto.randomUUID();
  mark("begin", token, all.ids);
  try {
    return await work(all, token);
  } finally {
    mark("end", token, all.ids);
  }
}

const message = (step: string, key: string, token: string): { messages: AIMessage[] } => ({
  // No id: LangGraph makes one for each time, so a step that counted twice shows twice.
  messages: [new AIMessage(`${step} ${key} ${token}`)],
});

function step({ done = 0 }: Values, config: LangGraphRunnableConfig): Promise<Partial<Values>> {
  return runExecution(config, async ({ plan, ids, signal }, token) => {
    const { key, wait_ms = 0, tokens = 0, zombie_ms = 0 } = plan;
    try {
      if (done === 0 && plan.hold === "start") {
        mark("hold", token, ids);
        await pause(HELD_MS, signal);
      }
      mark("step", token, ids, done);
      await pause(wait_ms, signal);
      for (let n = 0; n < tokens; n++) {
        config.writer?.({ key, attempt: 0, n: done * tokens + n, pid: process.pid } satisfies Token);
      }
      if (plan.hold === done + 1) {
        mark("hold", token, ids);
        await pause(HELD_MS, signal);
      }
    } catch (error) {
      const until = Date.now() + zombie_ms;
      for (let n = 0; Date.now() < until; n++) {
        mark("late", token, ids, n);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      // A careless node returns as if nothing had happened.
      if (zombie_ms === 0) throw error;
    }
    return { ...message(`s${done}`, key, token), done: done + 1 };
  });
}

function ask(_state: Values, config: LangGraphRunnableConfig): Partial<Values> {
  const { plan, ids } = readContext(config);
  mark("ask", "", ids);
  interrupt({ key: plan.key });
  return {};
}

function out(_state: Values, config: LangGraphRunnableConfig): Promise<Partial<Values>> {
  return runExecution(config, async ({ plan, ids, signal }, token) => {
    if (plan.hold === "out") {
      mark("hold", token, ids);
      await pause(HELD_MS, signal);
    }
    return message("out", plan.key, token);
  });
}

export const graph: unknown = new StateGraph(State)
  .addNode("step", step)
  .addNode("ask", ask)
  .addNode("out", out)
  .addEdge(START, "step")
  .addConditionalEdges(
    "step",
    ({ done }: Values, config: LangGraphRunnableConfig) => {
      const { plan } = readContext(config);
      if (done < (plan.steps ?? 1)) return "step";
      return plan.ask ? "ask" : "out";
    },
    ["step", "ask", "out"],
  )
  .addEdge("ask", "out")
  .addEdge("out", END)
  .compile();
