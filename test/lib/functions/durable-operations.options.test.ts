/** Wrong options, durations and uses of durable operations by functions without types. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import { sleep as sleepInGraph, wait as waitInGraph } from "../../../adapters/steps.ts";
import type { JournalEntry } from "../../../lib/executor/journal.ts";
import type { AgentFunction, Json, JsonObject } from "../../../lib/mod.ts";
import { serviceInternals } from "../../../lib/service.ts";
import { type TestService, testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";

keepAlive();

/** The operations as a function without types calls them. */
type Operation = (...args: unknown[]) => Promise<unknown>;
type UntypedOperations = Readonly<Record<"step" | "sleep" | "wait" | "ask", Operation>>;

/** Work that a refused operation must not do. */
const forbiddenWork = (): never => assert.fail("the work was called");

/** Runs an agent on a new thread. Returns its result, and the journal entries of its durable call. */
async function run(
  kit: TestService,
): Promise<{ readonly result: JsonObject; readonly entries: readonly JournalEntry[]; readonly values: Json }> {
  const { thread_id } = await kit.service.threads.create();
  const { result } = await kit.service.runs.wait(thread_id, { assistant_id: "agent", input: { messages: "Hi" } });
  const ended = (await result) as JsonObject;
  const { storage } = serviceInternals(kit.service).options;
  const scope = { deployment: kit.service.deployment.name };
  const call = await storage.getNewestCall(scope, thread_id);
  const rows = call ? await storage.readJournalEntries(scope, thread_id, call.call_id, 0) : [];
  const entries = rows.map(({ entry }) => JSON.parse(entry) as JournalEntry);
  const { values, interrupts } = await kit.service.threads.state(thread_id);
  assert.deepEqual(interrupts, []);
  return { result: ended, entries, values };
}

type WrongCall = (operations: UntypedOperations) => Promise<unknown>;

/** Checks that the operation is refused with this error before anything is stored for it, and that a step before it is kept. */
async function assertRefused(call: WrongCall, message: string): Promise<void> {
  const agent: AgentFunction = async function* (job) {
    yield { n: await job.step("before", () => 1) };
    await call(job as unknown as UntypedOperations);
  };
  await using kit = await testService({ agents: { agent: { agent, max_attempts: 1 } } });
  const { result, entries, values } = await run(kit);
  assert.deepEqual(result.__error__, { error: "TypeError", message });
  assert.deepEqual(
    entries.map(({ name, phase }) => [name, phase]),
    [["before", "done"]],
  );
  assert.equal((values as JsonObject).n, 1);
}

const MISSPELT: readonly (readonly [title: string, call: WrongCall, message: string])[] = [
  [
    "timout of wait (W25)",
    ({ wait }) => wait("p", { timout: "1d" }),
    'p: unknown option "timout"; did you mean timeout?',
  ],
  [
    "shema of wait",
    ({ wait }) => wait("p", { shema: { type: "boolean" } }),
    'p: unknown option "shema"; did you mean schema?',
  ],
  [
    "timeoutMs of ask",
    ({ ask }) => ask("q", "?", { until: 5 }),
    'q: unknown option "until"; known options: timeout, schema',
  ],
  [
    "retrys of step",
    ({ step }) => step("s", forbiddenWork, { retrys: 3 }),
    's: unknown option "retrys"; did you mean retry?',
  ],
  [
    "backOff of step",
    ({ step }) => step("s", forbiddenWork, { backOff: "1s" }),
    's: unknown option "backOff"; did you mean backoff?',
  ],
  [
    "options of sleep",
    ({ sleep }) => sleep("z", { duration: "2d" }),
    'z: the time must be milliseconds or a duration such as "30s", "2d" or "1h 30m", not [object Object]',
  ],
];

const WRONG_VALUES: readonly (readonly [title: string, call: WrongCall, message: string])[] = [
  ["step without work", ({ step }) => step("s"), "s: the second argument is no function"],
  [
    "step with options in place of work",
    ({ step }) => step("s", { retries: 1 }),
    "s: the second argument is no function",
  ],
  [
    "retries of step as a text",
    ({ step }) => step("s", forbiddenWork, { retries: "3" }),
    "s: retries must be a number from 0, not 3",
  ],
  [
    "negative retries of step",
    ({ step }) => step("s", forbiddenWork, { retries: -1 }),
    "s: retries must be a number from 0, not -1",
  ],
  [
    "retry of step that is no function",
    ({ step }) => step("s", forbiddenWork, { retry: true }),
    "s: retry must be a function",
  ],
  ["begin of wait that is no function", ({ wait }) => wait("p", { begin: "url" }), "p: begin must be a function"],
];

/** Durations that are no durations, with the end of their error. */
const WRONG_DURATIONS: readonly (readonly [duration: unknown, text: string])[] = [
  ["10 minuts", '"10 minuts"'],
  ["10 minutes", '"10 minutes"'],
  ["2 fortnights", '"2 fortnights"'],
  ["30", '"30"'],
  ["-5s", '"-5s"'],
  ["", '""'],
  ["1e3s", '"1e3s"'],
  [`1d${" or later".repeat(50)}`, `"1d or later or later or later or later o"`],
  [-1, "-1"],
  [Number.NaN, "NaN"],
  [Number.POSITIVE_INFINITY, "Infinity"],
  [true, "true"],
  [null, "null"],
];

const TIMED: readonly (readonly [place: string, label: string, call: (duration: unknown) => WrongCall])[] = [
  ["sleep", "t: the time", (duration) => (job) => job.sleep("t", duration)],
  ["timeout of step", "t: timeout", (timeout) => (job) => job.step("t", forbiddenWork, { timeout })],
  ["backoff of step", "t: backoff", (backoff) => (job) => job.step("t", forbiddenWork, { backoff })],
  ["timeout of wait", "t: timeout", (timeout) => (job) => job.wait("t", { timeout, begin: forbiddenWork })],
  ["timeout of ask", "t: timeout", (timeout) => (job) => job.ask("t", "?", { timeout })],
];

const RULE = 'must be milliseconds or a duration such as "30s", "2d" or "1h 30m", not';

describe("a durable operation that is called without types", () => {
  for (const [title, call, message] of [...MISSPELT, ...WRONG_VALUES]) {
    it(`refuses ${title} before anything is stored`, async () => {
      await assertRefused(call, message);
    });
  }

  for (const [place, label, createCall] of TIMED) {
    it(`refuses a wrong duration as ${place} before anything is stored`, async () => {
      for (const [duration, text] of WRONG_DURATIONS)
        await assertRefused(createCall(duration), `${label} ${RULE} ${text}`);
    });
  }

  it("refuses a wrong duration or option in a graph, which does not wait", async () => {
    // A text whose type is a literal does not compile.
    const wrong: string = "10 minuts";
    const wrongCalls: readonly (readonly [call: () => Promise<unknown>, message: string])[] = [
      [() => sleepInGraph("t", wrong), `t: the time ${RULE} "10 minuts"`],
      [() => waitInGraph("t", { timeout: wrong }), `t: timeout ${RULE} "10 minuts"`],
      [() => waitInGraph("t", { timout: "1d" } as never), 't: unknown option "timout"; did you mean timeout?'],
    ];
    for (const [call, message] of wrongCalls) {
      const graph = new StateGraph(Annotation.Root({ n: Annotation<unknown> }))
        .addNode("node", async () => ({ n: await call() }))
        .addEdge(START, "node")
        .compile();
      await using kit = await testService({ executor: langgraph({ agent: graph }) });
      const { result, entries } = await run(kit);
      assert.deepEqual(result.__error__, { error: "TypeError", message });
      assert.deepEqual(entries, []);
    }
  });
});

describe("a result that a function without types takes for what it was", () => {
  const readError = async (agent: AgentFunction): Promise<Json | undefined> => {
    await using kit = await testService({ agents: { agent: { agent, max_attempts: 1 } } });
    return (await run(kit)).result.__error__;
  };

  it("is a StepError for a step that returns a Map, which is called once (W21)", async () => {
    let calls = 0;
    const message = "s: Not JSON: result of s is an instance of Map";
    const error = await readError(async ({ step }) => {
      const ages: unknown = await step("s", () => {
        calls++;
        return new Map([["a", 1]]);
      });
      return { age: (ages as ReadonlyMap<string, number>).get("a") ?? null };
    });
    assert.deepEqual(error, { error: "StepError", message });
    assert.equal(calls, 1);
  });

  it("is a text for a Date of a step, in the first attempt too (W22)", async () => {
    const at = new Date("2026-11-29T08:00:00.000Z");
    await using kit = await testService({
      agents: { agent: async ({ step }) => ({ at: await step("s", () => ({ at })) }) },
    });
    assert.deepEqual((await run(kit)).result.at, { at: "2026-11-29T08:00:00.000Z" });
    const error = await readError(async ({ step }) => {
      const { at: date } = (await step("s", () => ({ at }))) as unknown as { at: Date };
      return { ms: date.getTime() };
    });
    assert.equal((error as JsonObject).error, "TypeError");
    assert.match(String((error as JsonObject).message), /getTime/);
  });

  it("is null after the timeout of an ask, whose members fail with a TypeError (W23)", async () => {
    const ask: AgentFunction = async (job) => {
      const schema = { type: "object", properties: { ok: { type: "boolean" } } } as const;
      const answer = (await job.ask("q", 1, { schema, timeout: "0s" })) as { ok: boolean };
      return { ok: answer.ok };
    };
    const error = (await readError(ask)) as JsonObject;
    assert.equal(error.error, "TypeError");
    assert.match(String(error.message), /null/);
  });
});
