/** `sleep` and `wait` for nodes, tools and tasks of LangGraph. */
import { formatIssueTypes, parseBySchema } from "../../lib/executor/agent-schemas.ts";
import type { Schema } from "../../lib/executor/agent-types.ts";
import { toJsonSchema } from "../../lib/executor/json-schemas.ts";
import { assertKnownOptions, isStandardSchema } from "../../lib/executor/option-names.ts";
import { parseSchema } from "../../lib/executor/schema-problems.ts";
import {
  type CheckedDuration,
  type Duration,
  encodeStepName,
  formatStepName,
  parseDuration,
  resolveWakeTime,
  type StepName,
} from "../../lib/executor/step-names.ts";
import {
  type Infer,
  type JsonSchema,
  type NullAfter,
  StepError,
  type WaitOptions,
} from "../../lib/functions/operations.ts";
import type { Json, JsonObject } from "../../lib/json.ts";
import type { GraphWaits } from "./graph-waits.ts";
import { WAIT_MARKER, WAITS_KEY, type WaitRequest, type WaitResult } from "./wait-interrupts.ts";

/**
 * Raises the interrupt of a sleep or a wait, so it rejects, until the run is resumed with its result; then it resolves
 * with that.
 */
const raiseWait = async (request: WaitRequest): Promise<WaitResult> => {
  const { interrupt } = await import("@langchain/langgraph");
  return interrupt({ [WAIT_MARKER]: request }) as WaitResult;
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
export async function sleep<Until extends Duration | Date>(
  name: StepName,
  until: Until & CheckedDuration<Until>,
): Promise<void> {
  const storedName = encodeStepName(name);
  const time = resolveWakeTime(until, 0, formatStepName(storedName));
  await raiseWait({ kind: "sleep", name: storedName, ...(until instanceof Date ? { at: time } : { ms: time }) });
}

/**
 * Waits for one event from outside, in a LangGraph node, tool or task. Returns its JSON payload, or null after `timeout`. Until
 * then it throws LangGraph's interrupt, so the node runs again from its start. `begin` runs as a `task()`, so it is not repeated
 * once it has succeeded. Throws for an invalid name, timeout or schema.
 * @example
 * ```ts
 * import { wait } from "greenroom/steps";
 *
 * const ship = async () => ({ parcel: await wait("parcel", { timeout: "30d" }) });
 * ```
 */
export async function wait<
  const Declared extends Schema | JsonSchema = Record<never, never>,
  Timeout extends Duration | undefined = undefined,
>(
  name: StepName,
  options: WaitOptions<Declared, Timeout> & { readonly timeout?: CheckedDuration<Timeout> } = {},
): Promise<Infer<Declared> | NullAfter<Timeout>> {
  const storedName = encodeStepName(name);
  const label = formatStepName(storedName);
  assertKnownOptions(options, ["timeout", "schema", "begin"], label);
  const { timeout, schema, begin } = options;
  const timeoutMember = timeout === undefined ? {} : { ms: parseDuration(timeout, `${label}: timeout`) };
  const schemaMember = schema === undefined ? {} : { schema: await toStoredSchema(schema, label) };
  const request: WaitRequest = { kind: "wait", name: storedName, ...timeoutMember, ...schemaMember };
  const parseResult = ({ payload }: WaitResult): Promise<Infer<Declared> | NullAfter<Timeout>> =>
    parsePayload(payload, schema, label) as Promise<Infer<Declared> | NullAfter<Timeout>>;
  if (!begin) return await parseResult(await raiseWait(request));
  const { getConfig, task } = await import("@langchain/langgraph");
  const beginTask = task(`begin ${label}`, async () => {
    const { checkpoint_ns, [WAITS_KEY]: waits } = getConfig().configurable ?? {};
    if (!waits) throw new Error(`${label}: begin needs a service`);
    const { address, key } = await (waits as GraphWaits).createAddress(request, String(checkpoint_ns));
    await begin(address);
    return key;
  });
  return await parseResult(await raiseWait({ ...request, key: await beginTask() }));
}

/** Returns the JSON Schema that is stored with a wait. Throws a TypeError for a schema that has none, or that cannot validate. */
const toStoredSchema = async (schema: Schema | JsonSchema, label: string): Promise<JsonObject> =>
  parseSchema(isStandardSchema(schema) ? await toJsonSchema(schema, label) : schema, label);

/**
 * Resolves with the payload as a Standard Schema parses it. Null, and a payload without such a schema, is returned as
 * it is. Rejects with a StepError for a payload that does not fit.
 */
async function parsePayload(payload: Json, schema: unknown, label: string): Promise<unknown> {
  if (!isStandardSchema(schema) || payload === null) return payload;
  const result = await parseBySchema(schema, payload, `event of ${label}`);
  if (!result.issues) return result.value;
  const text = `the event does not fit its schema: ${formatIssueTypes(result.issues)}`;
  throw new StepError(label, text, undefined, result.issues);
}
