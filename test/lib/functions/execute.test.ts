import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemEnvironment } from "../../../lib/environment.ts";
import type {
  CheckpointHandle,
  ExecutorEvent,
  Job,
  StoredCheckpoint,
  StreamMode,
} from "../../../lib/executor/contract.ts";
import { CoroutineEvents } from "../../../lib/executor/coroutine.ts";
import { execute } from "../../../lib/functions/execute.ts";
import { type AgentFunction, fromFunctions } from "../../../lib/functions/mod.ts";
import type { Json, JsonObject } from "../../../lib/json.ts";
import { noStore } from "../../suite/no-store.ts";

type State = Extract<ExecutorEvent, { type: "state" }>;

const RUN = "11111111-2222-3333-4444-555555555555";

/** The events of a call, with those that show a state before it. */
async function* eventsOf(
  agent: AgentFunction,
  job: Job,
  {
    signal = new AbortController().signal,
    uuid = () => crypto.randomUUID(),
  }: { signal?: AbortSignal; uuid?: () => string } = {},
): AsyncGenerator<ExecutorEvent> {
  const call = execute({ agent }, job, signal, { ...systemEnvironment(), uuid });
  for await (const event of new CoroutineEvents(call, { take: (one) => one, shown() {}, close: () => undefined })) {
    if (event.type === "state") yield* event.frames ?? [];
    yield event;
  }
}

/** A thread that keeps what `recordStates` would keep. */
class Thread {
  readonly states: State[] = [];
  private readonly stored: StoredCheckpoint[] = [];
  private counter = 0;
  readonly uuid = (): string => `id-${++this.counter}`;

  private readonly checkpoints = {
    get: async ({ checkpoint_id }: { checkpoint_id?: string }) =>
      (checkpoint_id ? this.stored.find((one) => one.checkpoint_id === checkpoint_id) : this.stored.at(-1)) ?? null,
  } as unknown as CheckpointHandle;

  store(state: State, run_id: string): void {
    const json = (data: unknown): { type: string; data: string } => ({ type: "json", data: JSON.stringify(data) });
    this.states.push(state);
    const values = Object.entries(state.values as JsonObject);
    this.stored.push({
      ns: "",
      checkpoint_id: String(this.stored.length),
      parent_id: this.stored.length === 0 ? null : String(this.stored.length - 1),
      run_id,
      payload: json({ next: state.next, tasks: state.tasks }),
      metadata: { step: this.stored.length - 1 },
      versions: {},
      values: values.map(([channel, value]) => ({ channel, version: "1", ...json(value) })),
      writes: [],
      created_at: 0,
    });
  }

  job(given: Partial<Job> = {}): Job {
    return {
      run_id: RUN,
      thread_id: "thread",
      assistant_id: "assistant",
      graph_id: "agent",
      user: null,
      store: noStore,
      stateless: false,
      attempt: 1,
      resumed: false,
      input: undefined,
      command: null,
      from: null,
      config: { configurable: {}, tags: ["t"] },
      context: {},
      metadata: { origin: "test" },
      modes: new Set(),
      subgraphs: false,
      interrupt_before: [],
      interrupt_after: [],
      durability: "async",
      checkpoints: this.checkpoints,
      ...given,
    };
  }

  /** Runs to the end, or throws what the run throws; `seen` then holds what came before. */
  async run(agent: AgentFunction, given: Partial<Job> = {}, seen: ExecutorEvent[] = []): Promise<ExecutorEvent[]> {
    const job = this.job(given);
    for await (const event of eventsOf(agent, job, this)) {
      seen.push(event);
      if (event.type === "state") this.store(event, job.run_id);
    }
    return seen;
  }

  get last(): State {
    return this.states.at(-1) as State;
  }

  get contents(): Json[] {
    const { messages } = this.last.values as { messages: JsonObject[] };
    return messages.map((message) => [message.type, message.content]) as Json[];
  }
}

const modes = (...names: StreamMode[]): { modes: ReadonlySet<StreamMode> } => ({ modes: new Set(names) });
const shown = (events: readonly ExecutorEvent[], mode: StreamMode): JsonObject[] =>
  events.flatMap((event) => (event.type === "stream" && event.mode === mode ? [event.data as JsonObject] : []));
const human = (content: string): JsonObject => ({ messages: [{ role: "user", content }] });
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

  it("runs the smallest program", async () => {
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

  it("leaves the state before the input, with it, and after each step", async () => {
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

  it("gives the function its own copy of the state, and keeps a copy of what it yields", async () => {
    const thread = new Thread();
    const update = { list: [{ a: 1 }] };
    const seen = await thread.run(
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
    for (const values of [...shown(seen, "values").slice(1), thread.last.values as JsonObject]) {
      assert.deepEqual(values.list, [{ a: 1 }]);
      assert.deepEqual(values.deep, [1]);
    }
    assert.deepEqual(thread.contents, [["human", "hi"]]);
  });

  it("keeps input that is no object as the value `input`, and goes on without input", async () => {
    const thread = new Thread();
    await thread.run(({ state }) => ({ got: state.input }), { input: [1, 2] });
    assert.deepEqual(thread.last.values, { input: [1, 2], got: [1, 2] });
    const before = thread.states.length;
    await thread.run(({ state }) => ({ again: state.got }));
    assert.deepEqual(thread.last.values, { input: [1, 2], got: [1, 2], again: [1, 2] });
    assert.equal(thread.states.length, before + 1);
  });

  it("forks from the checkpoint named", async () => {
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
  it("become one message with the id they were streamed under", async () => {
    const thread = new Thread();
    const seen = await thread.run(
      async function* () {
        yield "Hel";
        yield "lo";
        yield { done: true, messages: [{ role: "tool", content: "42", tool_call_id: "c" }] };
        yield "Bye";
      },
      { input: human("hi"), ...modes("messages-tuple", "updates") },
    );
    const tuples = shown(seen, "messages-tuple") as unknown as [JsonObject, JsonObject][];
    const [first, second, tool, bye] = tuples.map(([message]) => message);
    assert.deepEqual(first, { type: "AIMessageChunk", content: "Hel", id: first?.id });
    assert.deepEqual(second, { type: "AIMessageChunk", content: "lo", id: first?.id });
    assert.equal(tool?.type, "tool");
    assert.notEqual(bye?.id, first?.id);
    assert.equal(tuples.length, 4);
    assert.deepEqual(shown(seen, "updates"), [
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

  it("come from whatever a function returns", async () => {
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
      const seen = await thread.run(agent, modes("messages-tuple"));
      assert.deepEqual(thread.contents, [["ai", "ab"]]);
      const tuples = shown(seen, "messages-tuple") as unknown as [JsonObject][];
      assert.equal(tuples.map(([message]) => message.content).join(""), "ab");
    }
  });

  it("come from a stream of the AI SDK, whose errors fail the run", async () => {
    async function* parts(error?: Error): AsyncGenerator<unknown> {
      yield { type: "text-start", id: "1" };
      yield { type: "text-delta", id: "1", text: "a" };
      if (error) yield { type: "error", error };
      // As `streamObject` names it.
      yield { type: "text-delta", textDelta: "b" };
    }
    // As the AI SDK does, `textStream` says nothing of an error.
    async function* text(): AsyncGenerator<string> {
      yield "a";
    }
    const thread = new Thread();
    const read: string[] = [];
    // Each read of a property makes a stream, which holds what is not taken from it.
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

  it("are not shown twice, nor are messages that were there before", async () => {
    const thread = new Thread();
    const answer =
      (): AgentFunction =>
      ({ messages }) => ({ messages: [...messages, { role: "assistant", content: "x" }] });
    await thread.run(answer(), { input: human("a") });
    const seen = await thread.run(answer(), { input: human("b"), ...modes("messages-tuple") });
    assert.equal(shown(seen, "messages-tuple").length, 1);
    assert.equal(thread.contents.length, 4);
  });
});

describe("stream modes of functions", () => {
  it("show values, updates, custom data, tasks and events in order", async () => {
    const thread = new Thread();
    const seen = await thread.run(
      async function* ({ emit }) {
        emit({ at: 1 });
        yield { a: 1 };
        emit([2]);
        yield "t";
      },
      { input: { q: 1 }, ...modes("values", "updates", "custom", "tasks", "events") },
    );
    const reply = whole("ai", "t", "id-2");
    assert.deepEqual(shown(seen, "values"), [{ q: 1 }, { q: 1, a: 1 }, { q: 1, a: 1, messages: [reply] }]);
    assert.deepEqual(shown(seen, "updates"), [{ agent: { a: 1 } }, { agent: { messages: [reply] } }]);
    assert.deepEqual(shown(seen, "custom"), [{ at: 1 }, [2]]);
    assert.deepEqual(shown(seen, "tasks"), [
      { id: "id-1", name: "agent", input: { q: 1 }, triggers: ["branch:to:agent"], interrupts: [] },
      { id: "id-1", name: "agent", result: { a: 1, messages: [reply] }, interrupts: [] },
    ]);
    const events = shown(seen, "events");
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
    const order = seen.flatMap((event) =>
      event.type === "stream" && (event.mode === "custom" || event.mode === "updates") ? [event.mode] : [],
    );
    assert.deepEqual(order, ["custom", "updates", "custom", "updates"]);
  });

  it("are only those asked for, and a state is given without any", async () => {
    const thread = new Thread();
    const seen = await thread.run(() => undefined, { input: { a: 1 } });
    assert.ok(seen.every((event) => event.type === "state"));
    assert.deepEqual(thread.last.values, { a: 1 });
    assert.deepEqual(thread.last.next, []);
    assert.deepEqual(shown(await thread.run(() => null, modes("updates")), "updates"), [{ agent: null }]);
  });

  it("show what is emitted while the function waits", async () => {
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
    for await (const event of eventsOf(agent, thread.job(modes("custom")))) {
      kinds.push(event.type);
      if (event.type === "stream") proceed();
    }
    assert.deepEqual(kinds, ["stream", "state"]);
  });
});

describe("interrupts of functions", () => {
  const asking: AgentFunction = async function* ({ command, interrupt, state }) {
    yield { calls: ((state.calls as number | undefined) ?? 0) + 1 };
    if (command?.resume === undefined) yield interrupt({ question: "ok?" });
    yield { answer: command?.resume };
  };

  it("stop the run with a question, and go on with the answer", async () => {
    const thread = new Thread();
    const seen = await thread.run(asking, { input: human("hi"), ...modes("values", "updates", "tasks") });
    const interrupts = [{ id: "11111111222233334444555555555555", value: { question: "ok?" } }];
    assert.deepEqual(thread.last.next, ["agent"]);
    assert.deepEqual(thread.last.tasks[0]?.interrupts, interrupts);
    assert.equal(thread.last.tasks[0]?.id, shown(seen, "tasks")[0]?.id);
    assert.deepEqual(shown(seen, "values").at(-1), { __interrupt__: interrupts });
    assert.deepEqual(shown(seen, "updates").at(-1), { __interrupt__: interrupts });
    assert.deepEqual(shown(seen, "tasks").at(-1)?.interrupts, interrupts);

    const count = thread.states.length;
    await thread.run(asking, { command: { resume: "yes" }, interrupt_before: "*" });
    assert.deepEqual(thread.last.next, []);
    const { messages: _messages, ...values } = thread.last.values as JsonObject;
    assert.deepEqual(values, { calls: 2, answer: "yes" });
    assert.deepEqual(thread.states[count]?.source, undefined);
  });

  it("take an answer by interrupt id, and null as an answer", async () => {
    const thread = new Thread();
    await thread.run(asking);
    const id = thread.last.tasks[0]?.interrupts[0]?.id as string;
    await thread.run(asking, { command: { resume: { [id]: "by id" } } });
    assert.equal((thread.last.values as JsonObject).answer, "by id");
    await thread.run(asking);
    await thread.run(asking, { command: { resume: null } });
    assert.equal((thread.last.values as JsonObject).answer, null);
    await thread.run(asking, { command: { resume: "unasked" }, interrupt_before: "*" });
    assert.equal((thread.last.values as JsonObject).answer, "unasked");
  });

  it("run what the function does in the end, and may be returned", async () => {
    const thread = new Thread();
    let closed = false;
    await thread.run(async function* ({ interrupt }) {
      try {
        yield "partly";
        yield interrupt(1);
        yield { never: true };
      } finally {
        await Promise.resolve();
        closed = true;
      }
    });
    assert.ok(closed);
    assert.deepEqual(thread.contents, [["ai", "partly"]]);
    assert.deepEqual(thread.last.next, ["agent"]);
    await thread.run((job) => job.interrupt("again?"));
    assert.equal(thread.last.tasks[0]?.interrupts[0]?.value, "again?");
  });

  it("before the call hold a run with input until one goes on without", async () => {
    const thread = new Thread();
    const seen = await thread.run(() => "x", { input: human("hi"), interrupt_before: ["agent"], ...modes("values") });
    assert.deepEqual(thread.last.next, ["agent"]);
    assert.deepEqual(thread.contents, [["human", "hi"]]);
    assert.deepEqual(shown(seen, "values").at(-1), { __interrupt__: [] });
    await thread.run(() => "x", { interrupt_before: "*" });
    assert.deepEqual(thread.last.next, []);
    await thread.run(() => "y", { interrupt_before: "*" });
    assert.deepEqual(thread.last.next, ["agent"]);
    assert.equal(thread.contents.length, 2);
    await thread.run(() => "y", { interrupt_before: ["other"], interrupt_after: "*" });
    assert.deepEqual(thread.last.next, []);
  });
});

describe("commands to functions", () => {
  it("update the state by an object or by pairs, in place of input", async () => {
    const thread = new Thread();
    const agent: AgentFunction = ({ state }) => ({ seen: Object.keys(state) });
    await thread.run(agent, { command: { update: { a: 1, messages: "m" } }, input: { ignored: true } });
    assert.deepEqual((thread.last.values as JsonObject).seen, ["a", "messages"]);
    await thread.run(agent, {
      command: {
        update: [
          ["a", 2],
          ["messages", ["n"]],
          ["messages", ["o"]],
        ],
      },
    });
    assert.equal((thread.last.values as JsonObject).a, 2);
    assert.equal(thread.contents.length, 3);
    await assert.rejects(thread.run(agent, { command: { update: ["a", 2] } }), /command\.update/);
  });

  it("go to the function, to the end, and nowhere else", async () => {
    const thread = new Thread();
    let calls = 0;
    const agent: AgentFunction = ({ interrupt }) => {
      calls++;
      return interrupt("?");
    };
    await thread.run(agent, { input: { a: 1 } });
    await thread.run(agent, { command: { goto: ["__end__"], update: { b: 2 } } });
    assert.deepEqual([thread.last.next, thread.last.tasks, thread.last.values], [[], [], { a: 1, b: 2 }]);
    assert.equal(calls, 1);
    await thread.run(agent, { command: { goto: ["agent"] } });
    await thread.run(agent, { command: { goto: [{ node: "agent", input: { c: 3 } }] } });
    assert.equal(calls, 3);
    assert.deepEqual(thread.last.values, { a: 1, b: 2, c: 3 });
    await assert.rejects(thread.run(agent, { command: { goto: ["elsewhere"] } }), /"elsewhere"/);
  });
});

describe("later attempts of functions", () => {
  it("begin again from the state stored last", async () => {
    const thread = new Thread();
    const input = human("hi");
    await assert.rejects(
      thread.run(
        async function* () {
          yield { done: 1 };
          yield { done: 2 };
          throw new RangeError("gone");
        },
        { input },
      ),
      RangeError,
    );
    const count = thread.states.length;
    const from = { ns: "", checkpoint_id: "0" };
    await thread.run(({ state }) => ({ was: state.done }), {
      input,
      resumed: true,
      attempt: 2,
      from,
      interrupt_after: "*",
    });
    assert.equal((thread.last.values as JsonObject).was, 2);
    assert.equal(thread.contents.length, 1);
    assert.equal(thread.states.length, count + 1);
  });

  it("apply the input where only the state before it was stored", async () => {
    const thread = new Thread();
    const { value } = await eventsOf(() => "x", thread.job({ input: human("hi") })).next();
    thread.store(value as State, RUN);
    await thread.run(() => "x", { input: human("hi"), resumed: true });
    assert.deepEqual(
      thread.states.map(({ source }) => source),
      ["input", undefined, undefined],
    );
    assert.equal(thread.contents.length, 2);
  });

  it("say once more where a run that was over had stopped, without a call", async () => {
    const interrupts = [
      { input: human("hi") },
      { input: human("hi"), interrupt_before: "*" },
      { command: { update: { a: 1 } }, interrupt_before: "*" },
    ] as const;
    for (const given of interrupts) {
      for (const agent of [() => "x", ({ interrupt }) => interrupt(1)] as AgentFunction[]) {
        const thread = new Thread();
        const first = await thread.run(agent, { ...given, ...modes("values") });
        const { values, next, tasks } = thread.last;
        const again = { ...given, resumed: true, ...modes("values") };
        const seen = await thread.run(() => assert.fail("called again"), again);
        const [state, ...rest] = shown(seen, "values");
        assert.deepEqual(state, values);
        assert.deepEqual(rest, next.length > 0 ? shown(first, "values").slice(-1) : []);
        assert.deepEqual(
          [thread.last.values, thread.last.next, thread.last.tasks],
          [values, next, JSON.parse(JSON.stringify(tasks))],
        );
      }
    }
  });
});

describe("later attempts of functions with an answer", () => {
  const asking: AgentFunction = async function* ({ command, interrupt, state }) {
    if (command?.resume === undefined) yield interrupt("ok?");
    yield { answers: [...((state.answers as Json[] | undefined) ?? []), command?.resume ?? null] };
    if (state.crash) throw new Error("crash");
  };

  for (const by of ["value", "id"] as const) {
    it(`get it again (by ${by})`, async () => {
      const thread = new Thread();
      await thread.run(asking, { input: { crash: true }, run_id: "asks" });
      const id = thread.last.tasks[0]?.interrupts[0]?.id as string;
      const command = { resume: by === "id" ? { [id]: { seat: 7 } } : { seat: 7 }, update: { noted: true } };
      const ref = { checkpoint_ns: "", checkpoint_id: "1", interrupt_id: id, answered: 0 };
      const job = { command, interrupt_before: "*", resume_targets: [ref] } as const;
      await assert.rejects(thread.run(asking, job), /crash/);
      // A crash leaves no error behind: the last state is the one with the update.
      const answered = { ...thread.last, tasks: [], values: { ...(thread.last.values as JsonObject), crash: false } };
      thread.store(answered, RUN);
      const seen = await thread.run(asking, { ...job, attempt: 2, resumed: true, ...modes("values") });
      assert.deepEqual((thread.last.values as JsonObject).answers, [{ seat: 7 }, { seat: 7 }]);
      assert.deepEqual([thread.last.next, thread.last.tasks], [[], []]);
      assert.deepEqual(shown(seen, "values")[0], answered.values);
    });
  }
});

describe("failures of functions", () => {
  it("are the run's error and leave the updates before them", async () => {
    const thread = new Thread();
    const seen: ExecutorEvent[] = [];
    const failing = thread.run(
      async function* () {
        yield { a: 1 };
        yield "half a reply";
        throw new RangeError("boom");
      },
      { input: { q: 1 }, ...modes("tasks") },
      seen,
    );
    await assert.rejects(failing, { name: "RangeError", message: "boom" });
    assert.deepEqual(thread.last.values, { q: 1, a: 1 });
    assert.deepEqual(thread.last.next, ["agent"]);
    const error = JSON.stringify({ error: "RangeError", message: "boom" });
    assert.equal(thread.last.tasks[0]?.error, error);
    const { result, error: text } = shown(seen, "tasks").at(-1) ?? {};
    assert.deepEqual([result, text], [{}, error]);
  });

  it("come from everything that is not JSON, and say where it is", async () => {
    const loop: { self?: unknown } = {};
    loop.self = loop;
    const wrong: readonly (readonly [unknown, RegExp])[] = [
      [5, /yielded or returned 5;/],
      [undefined, /yielded or returned undefined;/],
      [null, /yielded or returned null;/],
      [[{}], /yielded or returned a list;/],
      [() => "", /yielded or returned a function;/],
      [new Map(), /yielded or returned an instance of Map;/],
      [{ a: { b: [Number.NaN] } }, /update\.a\.b\[0\] is NaN/],
      [{ a: 1n }, /update\.a is the bigint 1/],
      [{ a: new Set() }, /update\.a is an instance of Set/],
      [{ a: [undefined] }, /update\.a\[0\] is undefined/],
      [{ a: () => 1 }, /update\.a is a function/],
      [{ loop }, /update\.loop\.self contains itself/],
      [{ messages: [{ role: "wizard", content: "" }] }, /wizard/],
    ];
    for (const [value, text] of wrong) {
      const thread = new Thread();
      await assert.rejects(
        thread.run(async function* () {
          yield value;
        }),
        text,
      );
    }
    await assert.rejects(
      new Thread().run(({ emit }) => emit(Number.NaN)),
      /emitted data is NaN/,
    );
    await assert.rejects(
      new Thread().run(() => "", { input: { messages: [5] } }),
      /not 5/,
    );
  });

  it("do not come from dates, undefined keys, shared objects and own __proto__ keys", async () => {
    const thread = new Thread();
    const shared = { x: 1 };
    const at = new Date(0);
    await thread.run(() => ({
      at,
      none: undefined,
      twice: [shared, shared],
      odd: JSON.parse('{"__proto__":{"y":1}}'),
    }));
    assert.equal(
      JSON.stringify(thread.last.values),
      '{"at":"1970-01-01T00:00:00.000Z","twice":[{"x":1},{"x":1}],"odd":{"__proto__":{"y":1}}}',
    );
  });
});

describe("an aborted signal", () => {
  const stopped = async (agent: AgentFunction): Promise<ExecutorEvent[]> => {
    const abort = new AbortController();
    const seen: ExecutorEvent[] = [];
    const reason = new Error("cancelled");
    await assert.rejects(async () => {
      for await (const event of eventsOf(agent, new Thread().job(modes("custom")), abort)) {
        seen.push(event);
        abort.abort(reason);
      }
    }, reason);
    return seen;
  };

  it("reaches the function with its reason, at once", async () => {
    let heard: unknown;
    const seen = await stopped(async function* ({ emit, signal }) {
      emit("waiting");
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      heard = signal.reason;
      emit("too late");
      yield "never";
    });
    assert.equal(seen.length, 1);
    assert.equal((heard as Error).message, "cancelled");
  });

  it("ends a run once its function has come to rest, though that does not listen", async () => {
    for (const settles of [() => "done", () => assert.fail("too late")]) {
      const calls: string[] = [];
      const seen = await stopped(async ({ emit }) => {
        emit("waiting");
        await new Promise<void>((resolve) => setTimeout(resolve, 20));
        calls.push("settled");
        return settles();
      });
      assert.equal(seen.length, 1);
      assert.deepEqual(calls, ["settled"]);
    }
  });

  it("leaves the updates that a generator had yielded when it was at work on the next", async () => {
    const abort = new AbortController();
    const thread = new Thread();
    const agent: AgentFunction = async function* ({ signal }) {
      yield { messages: ["one"] };
      await new Promise<void>((_resolve, reject) => signal.addEventListener("abort", () => reject(new Error("heard"))));
    };
    await assert.rejects(async () => {
      for await (const event of eventsOf(agent, thread.job({ input: human("hi") }), abort)) {
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

  it("lets a generator do what it does in the end, and asks nothing more of it", async () => {
    const calls: string[] = [];
    const seen = await stopped(async function* ({ emit, signal }) {
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
    assert.equal(seen.length, 1);
  });

  it("stops a run before its function is called", async () => {
    const agent: AgentFunction = () => assert.fail("called");
    const events = eventsOf(agent, new Thread().job(), { signal: AbortSignal.abort(new Error("early")) });
    await assert.rejects(async () => {
      for await (const event of events) assert.fail(`gave ${event.type}`);
    }, /early/);
  });
});
