/**
 * `sleep` and `wait` for nodes, tools and tasks of LangGraph, and the errors of durable functions for `instanceof`.
 *
 * @example
 * ```ts
 * import { StepError } from "greenroom/steps";
 *
 * try {
 *   await step("pay", pay, { retries: 3 });
 * } catch (error) {
 *   if (!(error instanceof StepError)) throw error;
 *   yield `${error.step} failed: ${error.message}`;
 * }
 * ```
 * @module
 */
export type { Schema } from "../lib/executor/agent-types.ts";
export type {
  CheckedDuration,
  Duration,
  DurationError,
  DurationPart,
  EventAddress,
  FromJsonSchema,
  Infer,
  JsonSchema,
  NullAfter,
  StepName,
  WaitOptions,
} from "../lib/functions/operations.ts";
export { ReplayMismatch, StepError } from "../lib/functions/operations.ts";
export { sleep, wait } from "./langgraph/node-operations.ts";
