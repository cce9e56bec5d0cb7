/** Agents for the tests of traces after kill -9. Files in the working directory say how often a step has begun. */
import { existsSync, writeFileSync } from "node:fs";
import { MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import type { FunctionJob } from "greenroom";
import { TimedModel } from "../support/timed-model.ts";

const never = (): Promise<never> => new Promise((_, reject) => setTimeout(reject, 600_000, new Error("too late")));

/** Asks, sleeps, prepares and sends. The first time the last step never ends, so that it can be killed. */
export async function mailer({ ask, sleep, step }: FunctionJob): Promise<unknown> {
  await ask("approve", "May I send it?");
  await sleep("cool_off", "3s");
  await step("prepare", () => new Promise((resolve) => setTimeout(resolve, 50, "ready")));
  return await step("send", async () => {
    if (existsSync("begun")) return "sent";
    writeFileSync("begun", "");
    return await never();
  });
}

/** A node that ends, and one that calls a model, which does not answer. */
export const graph: unknown = new StateGraph(MessagesAnnotation)
  .addNode("before", () => ({ messages: [] }))
  .addNode("call", async ({ messages }) => ({ messages: [await new TimedModel("slow", [], never).invoke(messages)] }))
  .addEdge(START, "before")
  .addEdge("before", "call")
  .compile();
