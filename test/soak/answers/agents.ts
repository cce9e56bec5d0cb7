/** Agents that ask several questions, and note what each question was answered. After an answer they wait for their gate. */
import { appendFileSync, existsSync } from "node:fs";
import { dirname } from "node:path";
import process from "node:process";
import { Annotation, interrupt, type LangGraphRunnableConfig, START, StateGraph } from "@langchain/langgraph";
import type { AgentFunction } from "../../../lib/mod.ts";
import { type Consumed, getGatePath, QUESTIONS } from "./questions.ts";

const NUMBERS: readonly number[] = Array.from({ length: QUESTIONS }, (_, at) => at);

const log = process.env.SOAK_EXECUTIONS;
if (!log) throw new Error("SOAK_EXECUTIONS is not set");

async function consume(thread_id: string, question: number, answer: unknown, signal?: AbortSignal): Promise<void> {
  // Its own lines are whole: the rest of a killed process's line ends with the line break in front.
  appendFileSync(log as string, `\n${JSON.stringify({ thread_id, question, answer } as Consumed)}\n`);
  const gate = getGatePath(dirname(log as string), String(answer));
  while (!existsSync(gate)) {
    signal?.throwIfAborted();
    await new Promise((done) => setTimeout(done, 5));
  }
}

const State = Annotation.Root({
  asked: Annotation<number[]>({ reducer: (before, added) => [...before, ...added], default: () => [] }),
});

async function ask(question: number, { configurable, signal }: LangGraphRunnableConfig): Promise<void> {
  await consume(String(configurable?.thread_id), question, interrupt({ question }), signal);
}

/** A graph with all questions in one node: with the lowest LangGraph their interrupts share an id. */
const all = new StateGraph(State)
  .addNode("all", async (_state, config: LangGraphRunnableConfig) => {
    for (const question of NUMBERS) await ask(question, config);
    return { asked: [...NUMBERS] };
  })
  .addEdge(START, "all")
  .compile();

export const one_node: unknown = all;
export const inside: unknown = new StateGraph(State).addNode("inner", all).addEdge(START, "inner").compile();

/** A question in each run of the node. */
export const loop: unknown = new StateGraph(State)
  .addNode("next", async ({ asked }, config: LangGraphRunnableConfig) => {
    await ask(asked.length, config);
    return { asked: [asked.length] };
  })
  .addEdge(START, "next")
  .addConditionalEdges("next", ({ asked }) => (asked.length < QUESTIONS ? "next" : "__end__"), ["next", "__end__"])
  .compile();

export const plain: AgentFunction = async function* ({ thread_id, command, state, interrupt: raise, signal }) {
  const askedQuestions = (state.asked as number[] | undefined) ?? [];
  if (command?.resume === undefined) yield raise({ question: askedQuestions.length });
  await consume(thread_id, askedQuestions.length, command?.resume, signal);
  yield { asked: [...askedQuestions, askedQuestions.length] };
  if (askedQuestions.length + 1 < QUESTIONS) yield raise({ question: askedQuestions.length + 1 });
};

export const durable: AgentFunction = async ({ thread_id, ask: askFor, step, signal }) => {
  for (const question of NUMBERS) {
    const answer = await askFor(`question ${question}`, { question });
    await step(`answer ${question}`, () => consume(thread_id, question, answer, signal));
  }
  return { asked: [...NUMBERS] };
};
