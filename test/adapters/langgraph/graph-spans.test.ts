/** The spans of LangGraph runs: which there are, under which parents, when they start and end, and what they say. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { RecordedSpan } from "../../support/span-recording.ts";
import { CALL_TOKENS, type TimedCall } from "../../support/timed-model.ts";
import { createThread } from "./executor.harness.ts";
import { createResearchAgent, FOLLOWED, QUESTION, record } from "./graph-spans.harness.ts";

const AGENT_TREE = [
  "node model_request",
  "node model_request",
  "node model_request > model large",
  "node model_request > model large",
  "node tools",
  "node tools",
  "node tools > tool research",
  "node tools > tool research > agent researcher",
  "node tools > tool research > agent researcher > node model_request",
  "node tools > tool research > agent researcher > node model_request > model small",
  "node tools > tool weather",
];

/** Asserts that a span contains what happened between two times. */
const assertContains = (
  outer: RecordedSpan,
  { started, ended = Number.NaN }: { started: number; ended?: number },
): void =>
  assert.ok(
    outer.started <= started && ended <= (outer.ended ?? Number.NaN),
    `${outer.kind} ${outer.name}: ${outer.started} to ${outer.ended} does not contain ${started} to ${ended}`,
  );

describe("The spans of an agent of LangChain", () => {
  for (const [way, changes] of Object.entries(FOLLOWED)) {
    it(`form the same tree if ${way}`, async () => {
      const { trace, error } = await record(createResearchAgent([]), changes);
      assert.equal(error, undefined);
      assert.deepEqual(trace.describe().sort(), AGENT_TREE);
    });

    it(`have the times at which models and tools ran if ${way}`, async () => {
      const calls: TimedCall[] = [];
      const { trace } = await record(createResearchAgent(calls), changes);
      const models = trace.list("model");
      assert.deepEqual(
        models.map(({ name }) => name),
        ["large", "small", "large"],
      );
      for (const [index, call] of calls.entries()) assertContains(models[index] as RecordedSpan, call);
      for (const span of trace.spans) {
        const parent = trace.spans.find(({ span_id }) => span_id === span.parent_id);
        if (parent) assertContains(parent, span);
      }
      const [first, weather, research, last] = [models[0], trace.only("weather"), trace.only("research"), models[2]];
      // Each of the tools waits for the other one.
      assert.ok(weather.started < (research.ended ?? 0) && research.started < (weather.ended ?? 0), "they overlap");
      for (const { started, ended = 0 } of [weather, research]) {
        assert.ok((first?.ended ?? Number.NaN) <= started, "the tools start after the first model call");
        assert.ok(ended <= (last?.started ?? 0), "the last model call starts after the tools");
      }
    });

    it(`have the tokens that the run counts if ${way}`, async () => {
      const { trace, events } = await record(createResearchAgent([]), changes);
      assert.deepEqual(
        trace.list("model").map(({ result }) => result?.tokens),
        [CALL_TOKENS, CALL_TOKENS, CALL_TOKENS],
      );
      const usage = events.filter((event) => event.type === "usage");
      const sum = (name: "tokens_in" | "tokens_out"): number =>
        usage.reduce((total, event) => total + (event[name] ?? 0), 0);
      assert.deepEqual([sum("tokens_in"), sum("tokens_out")], [3 * CALL_TOKENS.in, 3 * CALL_TOKENS.out]);
      const others = trace.spans.filter(({ kind }) => kind !== "model");
      assert.deepEqual(
        others.filter(({ result }) => result?.tokens !== undefined),
        [],
      );
    });
  }

  it("describe model calls without their secrets", async () => {
    const { trace } = await record(createResearchAgent([]));
    const { kind, operation, provider, model, params, result } = trace.list("large")[0] as RecordedSpan;
    const { status, response_model, finish_reasons } = result ?? {};
    assert.deepEqual(
      { kind, operation, provider, model, params, status, response_model, finish_reasons },
      {
        ...{ kind: "model", operation: "chat", provider: "openai", model: "large" },
        params: { temperature: 0.2, tools: ["weather", "research"] },
        ...{ status: "ok", response_model: "large-1", finish_reasons: ["tool_calls"] },
      },
    );
    assert.ok(!JSON.stringify(trace.spans).includes("ot kept"), "a secret or a description is in a span");
  });

  it("name the calls of tools, the tasks of nodes and their supersteps", async () => {
    const { trace } = await record(createResearchAgent([]));
    assert.equal(trace.only("weather").tool_call_id, "c1");
    assert.equal(trace.only("research").tool_call_id, "c2");
    const nodes = trace.list("node");
    for (const { name, task_id, namespace } of nodes) assert.equal(namespace?.at(-1), `${name}:${task_id}`);
    assert.deepEqual(
      nodes.map(({ name, step, namespace, try: number }) => [name, step, namespace?.length, number]),
      [
        ["model_request", 1, 1, 1],
        ["tools", 2, 1, 1],
        ["tools", 2, 1, 1],
        ["model_request", 1, 2, 1],
        ["model_request", 3, 1, 1],
      ],
    );
    assert.deepEqual(trace.only("researcher").namespace, nodes[3]?.namespace?.slice(0, 1));
  });

  it("refer to the checkpoint that a model's node starts from, and copy the prompt only on request", async () => {
    const thread = createThread();
    const { trace } = await record(createResearchAgent([]), {}, { thread });
    const [first, last] = trace.list("large") as [RecordedSpan, RecordedSpan];
    for (const { input } of [first, last]) {
      assert.ok(typeof input === "object");
      const stored = await thread.checkpoints.get({ ns: "", checkpoint_id: input.ref.checkpoint_id });
      assert.deepEqual(input.ref.namespace, []);
      assert.ok(stored, "the checkpoint is not stored");
    }
    assert.notDeepEqual(first.input, last.input);
    const { content, type } = (first.inputCopy as { type: string; content: string }[])[0] ?? {};
    assert.deepEqual({ type, content }, { type: "human", content: QUESTION.messages[0]?.content });
    assert.match(JSON.stringify(last.outputCopy), /Yes it is/);
    assert.deepEqual(trace.only("weather").inputCopy, { city: "Ulm" });
  });

  it("refer to no checkpoint if only the last one is stored", async () => {
    const { trace } = await record(createResearchAgent([]), { durability: "exit" });
    assert.deepEqual(
      trace.list("model").map(({ input }) => typeof input),
      ["function", "function", "function"],
    );
  });

  it("note the first token of streamed calls only", async () => {
    const waited = await record(createResearchAgent([]));
    assert.deepEqual(
      waited.trace.list("model").map(({ firstToken }) => firstToken),
      [undefined, undefined, undefined],
    );
    const calls: TimedCall[] = [];
    const streamed = await record(createResearchAgent(calls), { modes: ["messages-tuple"] });
    for (const [index, { firstToken = 0, ended = 0 }] of streamed.trace.list("model").entries()) {
      assert.ok((calls[index]?.ended ?? Number.NaN) <= firstToken && firstToken <= ended);
    }
  });
});
