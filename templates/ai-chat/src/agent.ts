import { streamText } from "ai";
import type { FunctionJob } from "greenroom";
import { toModelMessages } from "greenroom/ai";
import { model } from "./model.ts";

/** Streams the model's reply. `messages` has the whole thread, which is the model's memory. */
export const agent = ({ messages, signal }: FunctionJob) =>
  streamText({ model, messages: toModelMessages(messages), abortSignal: signal, onError() {} });
