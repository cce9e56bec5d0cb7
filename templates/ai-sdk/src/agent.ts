import { isStepCount, streamText, tool } from "ai";
import type { FunctionJob } from "greenroom";
import { toModelMessages } from "greenroom/ai";
import { z } from "zod";
import { model } from "./model.ts";

const tools = {
  time: tool({
    description: "The time in a time zone",
    inputSchema: z.object({ zone: z.string() }),
    execute: ({ zone }) => new Date().toLocaleTimeString("en", { timeZone: zone }),
  }),
};

/**
 * Streams the model's reply. `messages` has the whole thread, which is the model's memory. Text, calls of tools and their results become
 * messages of the thread, tokens count as usage, and an error of the model fails the run.
 */
export const agent = ({ messages, signal }: FunctionJob) =>
  streamText({
    model,
    tools,
    stopWhen: isStepCount(5),
    messages: toModelMessages(messages),
    abortSignal: signal,
    onError() {},
  });
