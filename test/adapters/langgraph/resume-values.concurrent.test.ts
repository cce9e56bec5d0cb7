import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Annotation, interrupt, START, StateGraph } from "@langchain/langgraph";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import { type AgentFunction, combine, fromFunctions, type Json, type JsonObject } from "../../../lib/mod.ts";
import { type TestServiceOptions, testService } from "../../suite/kit.ts";

const TRIES = 20;
const State = Annotation.Root({ paid: Annotation<number[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });
const AMOUNTS = [10, 9_999] as const;

/** Creates agents that ask before each payment, with a record of the answers. After an answer they wait for `gate`. */
function createPayers() {
  const consumed: (readonly [amount: number, answer: unknown])[] = [];
  let gate = Promise.withResolvers<void>();
  let calls = 0;
  const pay = async (amount: number, answer: unknown): Promise<void> => {
    if (!consumed.some(([paid, by]) => paid === amount && by === answer)) consumed.push([amount, answer]);
    await gate.promise;
  };
  const ask = async (amount: number): Promise<void> => {
    calls++;
    await pay(amount, interrupt({ amount }));
  };
  const one_node = new StateGraph(State)
    .addNode("both", async () => {
      for (const amount of AMOUNTS) await ask(amount);
      return { paid: [...AMOUNTS] };
    })
    .addEdge(START, "both")
    .compile();
  const two_nodes = new StateGraph(State)
    .addNode("small", async () => ask(10).then(() => ({ paid: [10] })))
    .addNode("large", async () => ask(9_999).then(() => ({ paid: [9_999] })))
    .addEdge(START, "small")
    .addEdge("small", "large")
    .compile();
  const inside = new StateGraph(State).addNode("inner", one_node).addEdge(START, "inner").compile();
  const plain: AgentFunction = async function* ({ command, state, interrupt }) {
    calls++;
    const paid = (state.paid as number[] | undefined) ?? [];
    const [amount, next] = AMOUNTS.filter((candidate) => !paid.includes(candidate));
    if (amount === undefined) return;
    if (command?.resume === undefined) yield interrupt({ amount });
    await pay(amount, command?.resume);
    yield { paid: [...paid, amount] };
    if (next !== undefined) yield interrupt({ amount: next });
  };
  const durable: AgentFunction = async ({ ask: askFor, step }) => {
    calls++;
    for (const amount of AMOUNTS) {
      const answer = await askFor(`pay ${amount}`, { amount });
      await step(`paid ${amount}`, () => pay(amount, answer));
    }
    return { paid: [...AMOUNTS] };
  };
  const blocker: AgentFunction = async () => {
    await gate.promise;
  };
  const executor = combine(
    langgraph({ one_node, two_nodes, inside, by_id: { graph: two_nodes, resume: "by_id" } }),
    fromFunctions({ plain, durable, blocker }),
  );
  return {
    executor,
    consumed,
    calls: () => calls,
    close() {
      gate = Promise.withResolvers<void>();
    },
    open: () => gate.resolve(),
  };
}

const AGENTS = ["one_node", "two_nodes", "inside", "plain", "durable"] as const;

interface Sent {
  readonly status: number;
  readonly body: JsonObject;
}

async function createHarness(options: Pick<TestServiceOptions, "worker"> = {}) {
  const agents = createPayers();
  const kit = await testService({ ...options, executor: agents.executor });
  const send = async (method: string, path: string, body?: unknown, key?: string): Promise<Sent> => {
    const headers = { "content-type": "application/json", ...(key ? { "idempotency-key": key } : {}) };
    const requestBody = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await kit.fetch(`http://greenroom${path}`, { method, headers, ...requestBody });
    const text = await response.text();
    return { status: response.status, body: text === "" ? {} : (JSON.parse(text) as JsonObject) };
  };
  /** Creates a thread that waits for the answer to the first payment. */
  const createWaitingThread = async (assistant_id: string): Promise<string> => {
    const { body } = await send("POST", "/threads", {});
    const thread_id = body.thread_id as string;
    await send("POST", `/threads/${thread_id}/runs/wait`, { assistant_id, input: { paid: [] } });
    agents.consumed.length = 0;
    return thread_id;
  };
  const open = async (thread_id: string): Promise<readonly JsonObject[]> => {
    const { interrupts } = (await send("GET", `/threads/${thread_id}`)).body;
    return Object.values(interrupts as JsonObject).flat() as JsonObject[];
  };
  const waitUntilSettled = async (thread_id: string): Promise<void> => {
    const { runs } = kit.service;
    for (const { run_id } of await runs.list(thread_id)) await (await runs.join(thread_id, run_id)).result;
  };
  return {
    ...{ kit, agents, send, waiting: createWaitingThread, open, settled: waitUntilSettled },
    resume: (thread_id: string, assistant_id: string, resume: Json, extraFields: object = {}, key?: string) =>
      send("POST", `/threads/${thread_id}/runs`, { assistant_id, command: { resume }, ...extraFields }, key),
    [Symbol.asyncDispose]: async () => {
      agents.open();
      await kit[Symbol.asyncDispose]();
    },
  };
}

const readAmounts = (interrupts: readonly JsonObject[]): Json[] =>
  interrupts.map(({ value }) => (value as JsonObject).amount as Json);

describe("two concurrent resume values", () => {
  for (const agent of AGENTS) {
    for (const by of ["value", "id"] as const) {
      for (const strategy of ["enqueue", "interrupt"] as const) {
        it(`${agent}: one is consumed, and none reaches a later interrupt (by ${by}, ${strategy})`, async () => {
          await using at = await createHarness();
          for (let attempt = 0; attempt < TRIES; attempt++) {
            at.agents.close();
            const thread_id = await at.waiting(agent);
            const [{ id }] = (await at.open(thread_id)) as [JsonObject];
            const answer = (text: string): Json => (by === "id" ? { [id as string]: text } : text);
            const options = { multitask_strategy: strategy, strict_resume: attempt % 2 === 0 };
            const keys = attempt % 4 < 2 ? (["a", "b"] as const) : ([] as const);
            const both = await Promise.all(
              ["first", "second"].map((text, i) => at.resume(thread_id, agent, answer(text), options, keys[i])),
            );
            at.agents.open();
            await at.settled(thread_id);
            const [won, lost] = both.toSorted((a, b) => a.status - b.status) as [Sent, Sent];
            assert.deepEqual([won.status, lost.status, lost.body.code], [200, 409, "interrupt_already_answered"]);
            assert.equal(lost.body.run_id, won.body.run_id);
            assert.equal(at.agents.consumed.length, 1);
            assert.equal(at.agents.consumed[0]?.[0], 10);
            assert.deepEqual(readAmounts(await at.open(thread_id)), [9_999]);
          }
        });
      }
    }

    it(`${agent}: a repeated request returns the first run, whatever is pending then`, async () => {
      await using at = await createHarness();
      for (let attempt = 0; attempt < TRIES; attempt++) {
        at.agents.close();
        const thread_id = await at.waiting(agent);
        const again = (): Promise<Sent> => at.resume(thread_id, agent, "first", {}, `key-${attempt}`);
        const [first, second] = await Promise.all([again(), again()]);
        assert.deepEqual([first.status, second.status, first.body.run_id], [200, 200, second.body.run_id]);
        at.agents.open();
        await at.settled(thread_id);
        assert.equal((await again()).body.run_id, first.body.run_id);
        assert.equal((await at.resume(thread_id, agent, "large")).status, 200);
        await at.settled(thread_id);
        assert.equal((await again()).body.run_id, first.body.run_id);
        assert.deepEqual(at.agents.consumed, [
          [10, "first"],
          [9_999, "large"],
        ]);
        const calls = at.agents.calls();
        const late = await at.resume(thread_id, agent, "again");
        assert.deepEqual([late.status, late.body.code], [409, "no_open_interrupt"]);
        const named = await at.resume(thread_id, agent, { ["0".repeat(32)]: "again" });
        assert.deepEqual([named.status, named.body.code], [409, "no_open_interrupt"]);
        assert.equal(at.agents.calls(), calls);
      }
    });

    it(`${agent}: a resume value that is late when its run starts ends the run, and no node is called`, async () => {
      await using at = await createHarness({ worker: { concurrency: 1 } });
      for (let attempt = 0; attempt < TRIES; attempt++) {
        at.agents.close();
        const thread_id = await at.waiting(agent);
        const [{ id }] = (await at.open(thread_id)) as [JsonObject];
        // Both wait for the worker slot, the new input first: afterwards another interrupt is open.
        await at.send("POST", "/runs", { assistant_id: "blocker" });
        await at.send("POST", `/threads/${thread_id}/runs`, { assistant_id: agent, input: { paid: [] } });
        const late = await at.resume(thread_id, agent, attempt % 2 ? "late" : { [id as string]: "late" });
        assert.equal(late.status, 200);
        at.agents.open();
        await at.settled(thread_id);
        const { result } = await at.kit.service.runs.join(thread_id, late.body.run_id as string);
        const { __error__: error } = (await result) as { __error__: JsonObject };
        const { message: _message, pending_ids, ...errorBody } = error;
        assert.deepEqual(errorBody, {
          error: "UnknownInterruptError",
          code: "interrupt_gone",
          reason: "not_pending",
          interrupt_ids: [id],
        });
        assert.deepEqual(
          pending_ids,
          (await at.open(thread_id)).map((interrupt) => interrupt.id),
        );
        assert.deepEqual(at.agents.consumed, []);
        const { status } = (await at.send("GET", `/threads/${thread_id}`)).body;
        assert.equal(status, "interrupted");
      }
    });
  }
});
