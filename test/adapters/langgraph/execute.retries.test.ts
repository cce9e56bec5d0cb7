/** Later attempts of LangGraph runs: whatever was stored when the process died, the run ends as it would have. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Annotation, interrupt, START, StateGraph } from "@langchain/langgraph";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import type { Executor, Job } from "../../../lib/executor/contract.ts";
import type { Json, JsonObject } from "../../../lib/json.ts";
import {
  createJob,
  createThread,
  createThreadAfter,
  type JobChanges,
  run,
  type Step,
  type StreamEvent,
} from "./executor.harness.ts";

const Log = Annotation.Root({
  log: Annotation<string[]>({ reducer: (current, update) => [...current, ...update], default: () => [] }),
});
type Update = { log: string[] };

/** The names of the nodes that were called, in order. */
let calls: string[] = [];
const node =
  (name: string, work: () => string = () => name) =>
  async (): Promise<Update> => {
    calls.push(name);
    const entry = work();
    // Siblings do not end in one tick.
    await new Promise<void>((resolve) => setTimeout(resolve, 0));
    return { log: [entry] };
  };

const createWideGraph = () =>
  new StateGraph(Log)
    .addNode("a", node("a"))
    .addNode("b", node("b"))
    .addNode("c", node("c"))
    .addNode("d", node("d"))
    .addEdge(START, "a")
    .addEdge("a", "b")
    .addEdge("a", "c")
    .addEdge(["b", "c"], "d");

/** Asks twice in one node, beside one that asks once and one that does not ask. */
const createAskingGraph = () =>
  new StateGraph(Log)
    .addNode(
      "twice",
      node("twice", () => `${interrupt("first?")}, ${interrupt("second?")}`),
    )
    .addNode("quiet", node("quiet"))
    .addNode("after", node("after"))
    .addEdge(START, "twice")
    .addEdge(START, "quiet")
    .addEdge("twice", "after");

const createNestedGraph = () =>
  new StateGraph(Log).addNode("inside", createAskingGraph().compile()).addEdge(START, "inside");

const createSiblingsGraph = () =>
  new StateGraph(Log)
    .addNode(
      "left",
      node("left", () => `left ${JSON.stringify(interrupt("left?"))}`),
    )
    .addNode(
      "right",
      node("right", () => `right ${JSON.stringify(interrupt("right?"))}`),
    )
    .addEdge(START, "left")
    .addEdge(START, "right");

interface Ended {
  readonly values: Json;
  readonly next: readonly string[];
  readonly questions: readonly Json[];
  readonly events: readonly StreamEvent[];
}

async function end(executor: Executor, job: Job): Promise<Ended> {
  calls = [];
  const { events, state } = await run(executor, job);
  const questions = state.tasks.flatMap((task) => task.interrupts.map((interrupt) => interrupt.value));
  return { values: state.values, next: state.next, questions, events };
}

/** The nodes whose writes are stored on the newest root checkpoint. */
function runToEnd(steps: readonly Step[]): string[] {
  const newest = steps.findLast((step) => "put" in step && step.put.ns === "");
  const id = newest && "put" in newest ? newest.put.checkpoint_id : "";
  return steps.flatMap((step) =>
    "at" in step && step.at.checkpoint_id === id
      ? step.writes.flatMap(({ channel, data }) => (channel === "log" ? (JSON.parse(data as string) as string[]) : []))
      : [],
  );
}

/**
 * Runs a job, then once more for every write it made, as the second attempt after a death right behind that write: each must
 * end as the first one did. `before` are the thread's earlier runs.
 */
async function runUntilDeath(
  graph: Parameters<typeof langgraph>[0][string],
  before: readonly JobChanges[],
  changes: JobChanges | ((ended: readonly Awaited<ReturnType<typeof run>>[]) => JobChanges),
): Promise<Ended> {
  const executor = langgraph({ graph });
  const thread = createThread();
  const ended = [];
  for (const earlier of before) ended.push(await run(executor, createJob(thread, "graph", earlier)));
  const stored = thread.checkpoints.steps.length;
  const job = createJob(thread, "graph", typeof changes === "function" ? changes(ended) : changes);
  const whole = await end(executor, job);
  const { steps } = thread.checkpoints;
  assert.ok(steps.length > stored);
  for (let count = stored; count <= steps.length; count++) {
    const { checkpoints } = await createThreadAfter(thread, steps.slice(0, count));
    const resumed = steps.slice(stored, count).some((step) => "put" in step && step.put.ns === "");
    const again = await end(executor, { ...job, checkpoints, attempt: 2, resumed });
    const { events: _events, ...againResult } = again;
    const { events: _whole, ...expected } = whole;
    assert.deepEqual(againResult, expected, `after ${count - stored} writes`);
    for (const name of resumed ? runToEnd(steps.slice(0, count)) : []) {
      assert.ok(!calls.includes(name), `${name} was called again after ${count - stored} writes`);
    }
  }
  return whole;
}

describe("a later attempt of a LangGraph run", () => {
  for (const durability of ["async", "sync", "exit"] as const) {
    it(`continues from what the earlier one has stored (${durability})`, async () => {
      const { values } = await runUntilDeath(createWideGraph(), [], { input: { log: ["in"] }, durability });
      assert.deepEqual(values, { log: ["in", "a", "b", "c", "d"] });
      const nextDeath = await runUntilDeath(createWideGraph(), [{ input: {} }], {
        input: { log: ["more"] },
        durability,
      });
      assert.deepEqual((nextDeath.values as JsonObject).log, ["a", "b", "c", "d", "more", "a", "b", "c", "d"]);
    });

    it(`continues from a fork, and does not fork again (${durability})`, async () => {
      const fork = (ended: readonly Awaited<ReturnType<typeof run>>[]): JobChanges => ({
        input: { log: ["forked"] },
        from: ended[0]?.state.checkpoint ?? null,
        durability,
      });
      const before = [{ input: { log: ["1"] } }, { input: { log: ["2"] } }];
      const { values } = await runUntilDeath(createWideGraph(), before, fork);
      assert.deepEqual(values, { log: ["1", "a", "b", "c", "d", "forked", "a", "b", "c", "d"] });
      const replayed = await runUntilDeath(
        createWideGraph(),
        [{ input: { log: ["1"] }, interrupt_before: ["d"] }, {}, { input: { log: ["2"] } }],
        (ended) => ({ ...fork(ended), input: undefined }),
      );
      assert.deepEqual(replayed.values, { log: ["1", "a", "b", "c", "d"] });
    });

    for (const [name, graph] of [
      ["asked by a node", createAskingGraph()],
      ["asked inside a subgraph", createNestedGraph()],
    ] as const) {
      for (const by of ["value", "id", "id beside another key"] as const) {
        const answer =
          (text: string) =>
          (ended: readonly Awaited<ReturnType<typeof run>>[]): JobChanges => {
            const id = ended.at(-1)?.state.tasks.flatMap((task) => task.interrupts)[0]?.id as string;
            const answers = { [id]: text, ...(by === "id" ? {} : { other: 3 }) };
            return { command: { resume: by === "value" ? text : answers }, durability };
          };
        it(`gives a resume value once, to its interrupt (${name}, by ${by}, ${durability})`, async () => {
          const first = await runUntilDeath(graph, [{ input: {} }], answer("one"));
          assert.deepEqual(first.questions, ["second?"]);
          const last = await runUntilDeath(graph, [{ input: {} }, { command: { resume: "one" } }], answer("two"));
          const { log } = last.values as { log: string[] };
          assert.deepEqual([...log].sort(), ["after", "one, two", "quiet"]);
        });
        it(`gives equal resume values to two interrupts in two runs (${name}, by ${by}, ${durability})`, async () => {
          const last = await runUntilDeath(graph, [{ input: {} }, { command: { resume: "yes" } }], answer("yes"));
          assert.ok((last.values as { log: string[] }).log.includes("yes, yes"));
        });
      }
    }

    it(`gives one resume value to all interrupts, as LangGraph does (${durability})`, async () => {
      const { values } = await runUntilDeath(createSiblingsGraph(), [{ input: {} }], {
        command: { resume: "x" },
        durability,
      });
      assert.deepEqual(values, { log: ['left "x"', 'right "x"'] });
    });

    for (const answer of [false, null, 0, ""]) {
      it(`keeps the resume value ${JSON.stringify(answer)} (${durability})`, async () => {
        const { questions } = await runUntilDeath(createAskingGraph(), [{ input: {} }], {
          command: { resume: answer },
          durability,
        });
        assert.deepEqual(questions, ["second?"]);
        const { values } = await runUntilDeath(createSiblingsGraph(), [{ input: {} }], (ended) => {
          const ids = ended[0]?.state.tasks.flatMap((task) => task.interrupts.map(({ id }) => id)) ?? [];
          const answers = Object.fromEntries(ids.map((id) => [id, answer]));
          return { command: { resume: { ...answers, other: 3 } }, durability };
        });
        const text = JSON.stringify(answer);
        assert.deepEqual(values, { log: [`left ${text}`, `right ${text}`] });
      });
    }
  }

  it("emits the state from which it continues once, before anything else", async () => {
    const executor = langgraph({ graph: createWideGraph() });
    const thread = createThread();
    const job = createJob(thread, "graph", { input: { log: ["in"] }, modes: ["values", "updates"] });
    await end(executor, job);
    const { steps } = thread.checkpoints;
    for (let count = 1; count <= steps.length; count++) {
      const { checkpoints } = await createThreadAfter(thread, steps.slice(0, count));
      const { events } = await end(executor, { ...job, checkpoints, attempt: 2, resumed: true });
      const logs = events.filter(({ mode }) => mode === "values").map(({ data }) => (data as Update).log.join());
      assert.equal(events[0]?.mode, "values");
      assert.deepEqual(logs, [...new Set(logs)]);
      assert.equal(logs.at(-1), "in,a,b,c,d");
      // Earlier results of nodes are emitted again, with a mark.
      for (const { data } of events.filter(({ mode }) => mode === "updates")) {
        const { __metadata__: mark, ...updates } = data as JsonObject;
        for (const name of Object.keys(updates)) assert.equal(mark === undefined, calls.includes(name), name);
      }
    }
  });
});
