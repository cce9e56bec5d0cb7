import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ExecutorEvent } from "../../../lib/executor/contract.ts";
import { type AgentFunction, fromFunctions } from "../../../lib/functions/mod.ts";
import type { JsonObject } from "../../../lib/json.ts";
import { findStreamed, human, modes, RUN, runAgent, Thread } from "./execute.harness.ts";

const whole = (type: string, content: string, id: string): JsonObject => ({
  type,
  content,
  id,
  additional_kwargs: {},
  response_metadata: {},
});

describe("fromFunctions", () => {
  it("hosts each function as a graph", () => {
    const about = { description: "careful", max_attempts: 1, timeout_ms: 1000, abandon_ms: 200 };
    const executor = fromFunctions({ one: () => "", two: { agent: () => "", ...about } });
    assert.deepEqual(executor.graphs(), [{ graph_id: "one" }, { graph_id: "two", ...about }]);
    assert.throws(() => fromFunctions({ one: "x" as unknown as AgentFunction }), /one must be a function/);
    assert.throws(() => fromFunctions({ __end__: () => "" }), /reserved/);
  });

  it("refuses what is no function and unknown settings, all at once and with the known name", () => {
    const wrong: Readonly<Record<string, unknown>> = {
      text: "agent.ts",
      nothing: null,
      empty: {},
      slow: { agent: () => "", max_atempts: 1, retries: 2 },
      tool: { agent: () => "", mcp: { model_may_anwser: true }, strict: true },
      right: () => "",
    };
    const settingNames = "max_attempts, timeout_ms, abandon_ms, resume, description, mcp, a2a, agent, strict";
    assert.throws(() => fromFunctions(wrong as Record<string, AgentFunction>), {
      name: "ConfigError",
      problems: [
        "fromFunctions: text must be a function",
        "fromFunctions: nothing must be a function",
        "fromFunctions: empty must be a function",
        "fromFunctions: slow.max_atempts: unknown option; did you mean max_attempts?",
        `fromFunctions: slow.retries: unknown option; known options: ${settingNames}`,
        "fromFunctions: tool.mcp.model_may_anwser: unknown option; did you mean model_may_answer?",
      ],
    });
  });

  it("runs a function that returns a string", async () => {
    const thread = new Thread();
    await thread.run(
      async function* echo({ input }) {
        yield { messages: [input] };
      },
      { input: human("hi") },
    );
    assert.deepEqual(thread.contents, [
      ["human", "hi"],
      ["human", "hi"],
    ]);
  });

  it("stores the state before the input, after it and after each step", async () => {
    const thread = new Thread();
    const agent: AgentFunction = async function* () {
      yield { messages: ["a"], count: 1 };
      yield { count: 2 };
    };
    await thread.run(agent, { input: human("one") });
    assert.deepEqual(
      thread.states.map(({ next, source }) => [source, next]),
      [
        ["input", ["__start__"]],
        [undefined, ["agent"]],
        [undefined, ["agent"]],
        [undefined, []],
      ],
    );
    assert.deepEqual(thread.states[0]?.values, {});
    assert.deepEqual((thread.last.values as JsonObject).count, 2);

    await thread.run(agent, { input: { messages: "two", other: true } });
    assert.deepEqual(thread.states[4]?.values, thread.states[3]?.values);
    assert.deepEqual(thread.contents, [
      ["human", "one"],
      ["ai", "a"],
      ["human", "two"],
      ["ai", "a"],
    ]);
    assert.equal((thread.last.values as JsonObject).other, true);
  });

  it("gives the function a copy of the state, and copies what it yields", async () => {
    const thread = new Thread();
    const update = { list: [{ a: 1 }] };
    const events = await thread.run(
      async function* ({ state, messages, input }) {
        assert.equal(state.messages, messages);
        messages.push({ type: "ai", content: "sneaked in", id: "x" });
        (input as { deep: number[] }).deep.push(2);
        yield update;
        update.list[0]!.a = 2;
        yield {};
      },
      { input: { ...human("hi"), deep: [1] }, ...modes("values") },
    );
    for (const values of [...findStreamed(events, "values").slice(1), thread.last.values as JsonObject]) {
      assert.deepEqual(values.list, [{ a: 1 }]);
      assert.deepEqual(values.deep, [1]);
    }
    assert.deepEqual(thread.contents, [["human", "hi"]]);
  });

  it("stores input that is no object as the value `input`, and continues without input", async () => {
    const thread = new Thread();
    await thread.run(({ state }) => ({ got: state.input }), { input: [1, 2] });
    assert.deepEqual(thread.last.values, { input: [1, 2], got: [1, 2] });
    const before = thread.states.length;
    await thread.run(({ state }) => ({ again: state.got }));
    assert.deepEqual(thread.last.values, { input: [1, 2], got: [1, 2], again: [1, 2] });
    assert.equal(thread.states.length, before + 1);
  });

  it("forks from the given checkpoint", async () => {
    const thread = new Thread();
    await thread.run(() => "one", { input: human("a") });
    await thread.run(() => "two", { input: human("b"), from: { ns: "", checkpoint_id: "0" } });
    assert.deepEqual(thread.contents, [
      ["human", "b"],
      ["ai", "two"],
    ]);
    await assert.rejects(
      thread.run(() => "", { from: { ns: "", checkpoint_id: "none" } }),
      /no checkpoint none/,
    );
  });
});

describe("tokens of functions", () => {
  it("become one message with the id of its stream", async () => {
    const thread = new Thread();
    const events = await thread.run(
      async function* () {
        yield "Hel";
        yield "lo";
        yield { done: true, messages: [{ role: "tool", content: "42", tool_call_id: "c" }] };
        yield "Bye";
      },
      { input: human("hi"), ...modes("messages-tuple", "updates") },
    );
    const tuples = findStreamed(events, "messages-tuple") as unknown as [JsonObject, JsonObject][];
    const [first, second, tool, bye] = tuples.map(([message]) => message);
    assert.deepEqual(first, { type: "AIMessageChunk", content: "Hel", id: first?.id });
    assert.deepEqual(second, { type: "AIMessageChunk", content: "lo", id: first?.id });
    assert.equal(tool?.type, "tool");
    assert.notEqual(bye?.id, first?.id);
    assert.equal(tuples.length, 4);
    assert.deepEqual(findStreamed(events, "updates"), [
      { agent: { done: true, messages: [whole("ai", "Hello", first?.id as string), tool] } },
      { agent: { messages: [whole("ai", "Bye", bye?.id as string)] } },
    ]);
    assert.deepEqual(thread.contents.slice(1), [
      ["ai", "Hello"],
      ["tool", "42"],
      ["ai", "Bye"],
    ]);
    assert.deepEqual(tuples[0]?.[1], {
      origin: "test",
      tags: ["t"],
      run_id: "11111111-2222-3333-4444-555555555555",
      thread_id: "thread",
      graph_id: "agent",
      assistant_id: "assistant",
      run_attempt: 1,
      langgraph_node: "agent",
      langgraph_step: 1,
      langgraph_checkpoint_ns: "",
      checkpoint_ns: "",
    });
    assert.equal(tuples[3]?.[1].langgraph_step, 2);
  });

  it("come from each return type of a function", async () => {
    async function* words(): AsyncGenerator<string> {
      yield "a";
      yield "b";
    }
    class TextResult {
      readonly textStream = words();
    }
    const agents: AgentFunction[] = [
      () => "ab",
      async () => "ab",
      () => ({ messages: [{ role: "assistant", content: "ab" }] }),
      () => ({ textStream: words() }),
      async () => new TextResult(),
      () => words(),
      async function* () {
        yield* new TextResult().textStream;
      },
      // biome-ignore lint/correctness/useYield: only returning is what is tested
      async function* () {
        return "ab";
      },
    ];
    for (const agent of agents) {
      const thread = new Thread();
      const events = await thread.run(agent, modes("messages-tuple"));
      assert.deepEqual(thread.contents, [["ai", "ab"]]);
      const tuples = findStreamed(events, "messages-tuple") as unknown as [JsonObject][];
      assert.equal(tuples.map(([message]) => message.content).join(""), "ab");
    }
  });

  it("come from a stream of the AI SDK, whose errors fail the run", async () => {
    async function* parts(error?: Error): AsyncGenerator<unknown> {
      yield { type: "text-start", id: "1" };
      yield { type: "text-delta", id: "1", text: "a" };
      if (error) yield { type: "error", error };
      // The shape of a result of `streamObject`.
      yield { type: "text-delta", textDelta: "b" };
    }
    // Like the AI SDK's, `textStream` does not report an error.
    async function* text(): AsyncGenerator<string> {
      yield "a";
    }
    const thread = new Thread();
    const read: string[] = [];
    // Each read of the property creates a stream, which buffers what is not read.
    class TextResult {
      get textStream(): AsyncIterable<string> {
        read.push("textStream");
        return text();
      }
      get fullStream(): AsyncIterable<unknown> {
        read.push("fullStream");
        return parts();
      }
    }
    await thread.run(() => new TextResult(), modes());
    assert.deepEqual(thread.contents, [["ai", "ab"]]);
    assert.deepEqual(read, ["fullStream"]);
    const failing = thread.run(() => ({ textStream: text(), fullStream: parts(new RangeError("no model")) }), modes());
    await assert.rejects(failing, { name: "RangeError", message: "no model" });
  });

  it("are not emitted twice, nor are older messages", async () => {
    const thread = new Thread();
    const answer =
      (): AgentFunction =>
      ({ messages }) => ({ messages: [...messages, { role: "assistant", content: "x" }] });
    await thread.run(answer(), { input: human("a") });
    const events = await thread.run(answer(), { input: human("b"), ...modes("messages-tuple") });
    assert.equal(findStreamed(events, "messages-tuple").length, 1);
    assert.equal(thread.contents.length, 4);
  });
});

describe("stream modes of functions", () => {
  it("emit values, updates, custom data, tasks and events in order", async () => {
    const thread = new Thread();
    const eventList = await thread.run(
      async function* ({ emit }) {
        emit({ at: 1 });
        yield { a: 1 };
        emit([2]);
        yield "t";
      },
      { input: { q: 1 }, ...modes("values", "updates", "custom", "tasks", "events") },
    );
    const reply = whole("ai", "t", "id-2");
    assert.deepEqual(findStreamed(eventList, "values"), [{ q: 1 }, { q: 1, a: 1 }, { q: 1, a: 1, messages: [reply] }]);
    assert.deepEqual(findStreamed(eventList, "updates"), [{ agent: { a: 1 } }, { agent: { messages: [reply] } }]);
    assert.deepEqual(findStreamed(eventList, "custom"), [{ at: 1 }, [2]]);
    assert.deepEqual(findStreamed(eventList, "tasks"), [
      { id: "id-1", name: "agent", input: { q: 1 }, triggers: ["branch:to:agent"], interrupts: [] },
      { id: "id-1", name: "agent", result: { a: 1, messages: [reply] }, interrupts: [] },
    ]);
    const events = findStreamed(eventList, "events");
    assert.deepEqual(
      events.map((event) => [event.event, event.data]),
      [
        ["on_chain_start", { input: { q: 1 } }],
        ["on_chain_stream", { chunk: { a: 1 } }],
        [
          "on_chat_model_stream",
          { chunk: { type: "AIMessageChunk", content: "t", id: "id-2", response_metadata: {} } },
        ],
        ["on_chain_stream", { chunk: { messages: [reply] } }],
        ["on_chain_end", { output: { q: 1, a: 1, messages: [reply] } }],
      ],
    );
    for (const key of ["name", "run_id", "tags", "metadata", "parent_ids"])
      assert.ok(events.every((event) => key in event));
    const order = eventList.flatMap((event) =>
      event.type === "stream" && (event.mode === "custom" || event.mode === "updates") ? [event.mode] : [],
    );
    assert.deepEqual(order, ["custom", "updates", "custom", "updates"]);
  });

  it("emit only the requested ones, and the state without any", async () => {
    const thread = new Thread();
    const events = await thread.run(() => undefined, { input: { a: 1 } });
    assert.ok(events.every((event) => event.type === "state"));
    assert.deepEqual(thread.last.values, { a: 1 });
    assert.deepEqual(thread.last.next, []);
    assert.deepEqual(findStreamed(await thread.run(() => null, modes("updates")), "updates"), [{ agent: null }]);
  });

  it("emit events while the function waits", async () => {
    const thread = new Thread();
    let proceed = (): void => {};
    const gate = new Promise<void>((resolve) => {
      proceed = resolve;
    });
    const agent: AgentFunction = async ({ emit }) => {
      emit("working");
      await gate;
      return "done";
    };
    const kinds: string[] = [];
    for await (const event of runAgent(agent, thread.job(modes("custom")))) {
      kinds.push(event.type);
      if (event.type === "stream") proceed();
    }
    assert.deepEqual(kinds, ["stream", "state"]);
  });
});

describe("an aborted signal of a function", () => {
  const stopped = async (agent: AgentFunction): Promise<ExecutorEvent[]> => {
    const abort = new AbortController();
    const events: ExecutorEvent[] = [];
    const reason = new Error("cancelled");
    await assert.rejects(async () => {
      for await (const event of runAgent(agent, new Thread().job(modes("custom")), abort)) {
        events.push(event);
        abort.abort(reason);
      }
    }, reason);
    return events;
  };

  it("has its reason, and is aborted at once", async () => {
    let heard: unknown;
    const events = await stopped(async function* ({ emit, signal }) {
      emit("waiting");
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      heard = signal.reason;
      emit("too late");
      yield "never";
    });
    assert.equal(events.length, 1);
    assert.equal((heard as Error).message, "cancelled");
  });

  it("ends the run after a function that ignores it has settled", async () => {
    for (const settles of [() => "done", () => assert.fail("too late")]) {
      const calls: string[] = [];
      const events = await stopped(async ({ emit }) => {
        emit("waiting");
        await new Promise<void>((resolve) => setTimeout(resolve, 20));
        calls.push("settled");
        return settles();
      });
      assert.equal(events.length, 1);
      assert.deepEqual(calls, ["settled"]);
    }
  });

  it("keeps the updates that a generator yielded before", async () => {
    const abort = new AbortController();
    const thread = new Thread();
    const agent: AgentFunction = async function* ({ signal }) {
      yield { messages: ["one"] };
      await new Promise<void>((_resolve, reject) => signal.addEventListener("abort", () => reject(new Error("heard"))));
    };
    await assert.rejects(async () => {
      for await (const event of runAgent(agent, thread.job({ input: human("hi") }), abort)) {
        if (event.type === "state") thread.store(event, RUN);
        if (event.type === "state" && thread.states.length === 3) abort.abort(new Error("cancelled"));
      }
    }, /cancelled/);
    assert.deepEqual(thread.contents, [
      ["human", "hi"],
      ["ai", "one"],
    ]);
    assert.deepEqual(thread.last.next, ["agent"]);
    await thread.run(() => "two", { input: human("more") });
    assert.equal(thread.contents.length, 4);
  });

  it("runs the `finally` of a generator, which yields nothing more", async () => {
    const calls: string[] = [];
    const events = await stopped(async function* ({ emit, signal }) {
      try {
        emit("first");
        yield { a: 1 };
        calls.push("went on");
        yield { b: 2 };
      } finally {
        calls.push(String(signal.aborted));
        await new Promise<void>((resolve) => setTimeout(resolve, 0));
        calls.push("closed");
      }
    });
    assert.deepEqual(calls, ["true", "closed"]);
    assert.equal(events.length, 1);
  });

  it("prevents the call of the function if it was aborted before", async () => {
    const agent: AgentFunction = () => assert.fail("called");
    const events = runAgent(agent, new Thread().job(), { signal: AbortSignal.abort(new Error("early")) });
    await assert.rejects(async () => {
      for await (const event of events) assert.fail(`gave ${event.type}`);
    }, /early/);
  });
});
