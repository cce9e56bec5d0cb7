/** `sleep` and `wait` for nodes, tools and tasks of LangGraph. */
import { parseSchema } from "../../lib/executor/schema-problems.ts";
import { type Duration, durationOf, labelOf, nameOf, type StepName, timeOf } from "../../lib/executor/step-names.ts";
import type { Described, WaitOptions } from "../../lib/functions/verbs.ts";
import type { JsonObject } from "../../lib/json.ts";
import { type AskedStep, STEP, STEPS, type StepAnswer } from "./step-marks.ts";
import type { GraphSteps } from "./steps.ts";

const ask = async (step: AskedStep): Promise<StepAnswer> => {
  const { interrupt } = await import("@langchain/langgraph");
  return interrupt({ [STEP]: step }) as StepAnswer;
};

/**
 * Waits for a duration or until a time, in a LangGraph node, tool or task. The run is suspended meanwhile, and needs no worker. As
 * after an interrupt, the node starts again at its top; so put what must not be repeated into a `task()`.
 *
 * @example
 * ```ts
 * import { sleep } from "greenroom/steps";
 *
 * const remind = async () => {
 *   await sleep("before the reminder", "2d");
 *   return { messages: [{ role: "assistant", content: "Two days are over." }] };
 * };
 * ```
 */
export async function sleep(name: StepName, until: Duration | Date): Promise<void> {
  const stored = nameOf(name);
  const time = timeOf(until, 0, labelOf(stored));
  await ask({ kind: "sleep", name: stored, ...(until instanceof Date ? { at: time } : { ms: time }) });
}

/**
 * Waits for one event from outside, in a LangGraph node, tool or task: its JSON payload, or null after `timeout`. `begin` runs as a
 * `task()`, so it is not repeated once it has succeeded.
 *
 * @example
 * ```ts
 * import { wait } from "greenroom/steps";
 *
 * const ship = async () => ({ parcel: await wait("parcel", { timeout: "30d" }) });
 * ```
 */
export async function wait<
  const Schema extends JsonObject | { readonly [key: string]: unknown } = Record<never, never>,
>(name: StepName, { timeout, schema, begin }: WaitOptions<Schema> = {}): Promise<Described<Schema> | null> {
  const stored = nameOf(name);
  const label = labelOf(stored);
  const ms = timeout === undefined ? {} : { ms: durationOf(timeout, `${label}: timeout`) };
  const kept = schema === undefined ? {} : { schema: parseSchema(schema, label) };
  const step: AskedStep = { kind: "wait", name: stored, ...ms, ...kept };
  if (!begin) return (await ask(step)).payload as Described<Schema> | null;
  const { getConfig, task } = await import("@langchain/langgraph");
  const handOut = task(`begin ${label}`, async () => {
    const { checkpoint_ns, [STEPS]: steps } = getConfig().configurable ?? {};
    if (!steps) throw new Error(`${label}: begin needs a service`);
    const { address, key } = await (steps as GraphSteps).address(step, String(checkpoint_ns));
    await begin(address);
    return key;
  });
  return (await ask({ ...step, key: await handOut() })).payload as Described<Schema> | null;
}
