import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AgentFunction } from "../../../lib/functions/mod.ts";
import type { JsonObject } from "../../../lib/json.ts";
import { findStreamed, human, modes, Thread } from "./execute.harness.ts";

describe("interrupts of functions", () => {
  const asking: AgentFunction = async function* ({ command, interrupt, state }) {
    yield { calls: ((state.calls as number | undefined) ?? 0) + 1 };
    if (command?.resume === undefined) yield interrupt({ question: "ok?" });
    yield { answer: command?.resume };
  };

  it("stop the run, and the resume value continues it", async () => {
    const thread = new Thread();
    const events = await thread.run(asking, { input: human("hi"), ...modes("values", "updates", "tasks") });
    const interrupts = [{ id: "11111111222233334444555555555555", value: { question: "ok?" } }];
    assert.deepEqual(thread.last.next, ["agent"]);
    assert.deepEqual(thread.last.tasks[0]?.interrupts, interrupts);
    assert.equal(thread.last.tasks[0]?.id, findStreamed(events, "tasks")[0]?.id);
    assert.deepEqual(findStreamed(events, "values").at(-1), { __interrupt__: interrupts });
    assert.deepEqual(findStreamed(events, "updates").at(-1), { __interrupt__: interrupts });
    assert.deepEqual(findStreamed(events, "tasks").at(-1)?.interrupts, interrupts);

    const count = thread.states.length;
    await thread.run(asking, { command: { resume: "yes" }, interrupt_before: "*" });
    assert.deepEqual(thread.last.next, []);
    const { messages: _messages, ...values } = thread.last.values as JsonObject;
    assert.deepEqual(values, { calls: 2, answer: "yes" });
    assert.deepEqual(thread.states[count]?.source, undefined);
  });

  it("accept a resume value by interrupt id, and null as a resume value", async () => {
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

  it("run the function's `finally`, and can be returned", async () => {
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

  it("with `interrupt_before` stop a run with input until a run without input continues", async () => {
    const thread = new Thread();
    const events = await thread.run(() => "x", { input: human("hi"), interrupt_before: ["agent"], ...modes("values") });
    assert.deepEqual(thread.last.next, ["agent"]);
    assert.deepEqual(thread.contents, [["human", "hi"]]);
    assert.deepEqual(findStreamed(events, "values").at(-1), { __interrupt__: [] });
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
  it("update the state by an object or by pairs, and replace the input", async () => {
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

  it("can go to the function and to the end only", async () => {
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
