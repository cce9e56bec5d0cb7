/** Runs graphs with a recorder of spans, and an agent of LangChain with parallel tools and a subagent. */
import { tool } from "@langchain/core/tools";
import { createAgent } from "langchain";
import { z } from "zod";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import { systemEnvironment } from "../../../lib/environment.ts";
import type { ExecutorEvent } from "../../../lib/executor/contract.ts";
import { SpanRecording } from "../../support/span-recording.ts";
import { hasToolResult, type TimedCall, TimedModel } from "../../support/timed-model.ts";
import { createJob, createThread, type JobChanges, type Thread } from "./executor.harness.ts";

export type Graph = Parameters<typeof langgraph>[0][string];

/** The input of a conversation that begins. */
export const QUESTION = { messages: [{ role: "user", content: "Is it warm in Ulm?" }] };

/** The ways in which clients follow a run. */
export const FOLLOWED: Readonly<Record<string, JobChanges>> = {
  "no client follows it": {},
  "clients read modes": { modes: ["messages-tuple", "events", "updates"], subgraphs: true },
  "clients read protocol events": { events: "all" },
};

/** Runs a graph. Returns what was recorded, the events, and the error that the attempt threw. */
export async function record(
  graph: Graph,
  changes: JobChanges = {},
  { thread = createThread(), signal = new AbortController().signal }: { thread?: Thread; signal?: AbortSignal } = {},
): Promise<{ trace: SpanRecording; events: ExecutorEvent[]; error: unknown }> {
  const trace = new SpanRecording();
  const job = createJob(thread, "graph", { input: QUESTION, trace, ...changes });
  const events: ExecutorEvent[] = [];
  try {
    for await (const event of langgraph({ graph }).execute(job, signal, systemEnvironment())) events.push(event);
    return { trace, events, error: undefined };
  } catch (error) {
    return { trace, events, error };
  }
}

/** Creates a function whose first callers wait until there are `count` of them. */
export function createMeeting(count: number): () => Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let missing = count;
  return async () => {
    missing--;
    if (missing <= 0) resolve();
    await promise;
  };
}

/** Creates an agent that calls `weather` and `research` at once. `research` asks another agent. */
export function createResearchAgent(calls: TimedCall[]): Graph {
  const meet = createMeeting(2);
  const researcher = createAgent({
    name: "researcher",
    model: new TimedModel("small", calls, () => ({ text: "It is often warm." })),
    tools: [],
  });
  const weather = tool(() => meet().then(() => "warm"), { name: "weather", schema: z.object({ city: z.string() }) });
  const research = tool(
    async () => {
      await meet();
      const { messages } = await researcher.invoke(QUESTION);
      return String(messages.at(-1)?.content);
    },
    { name: "research", schema: z.object({}) },
  );
  const model = new TimedModel("large", calls, (messages) =>
    hasToolResult(messages)
      ? { text: "Yes it is." }
      : { calls: { c1: { name: "weather", args: { city: "Ulm" } }, c2: { name: "research", args: {} } } },
  );
  return createAgent({ model, tools: [weather, research] });
}
