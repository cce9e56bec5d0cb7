/**
 * The errors of durable functions, for `instanceof`.
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
export { ReplayMismatch, StepError } from "../lib/functions/verbs.ts";
