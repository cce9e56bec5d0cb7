import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AgentFunction } from "../../../lib/functions/mod.ts";
import type { Json, JsonObject } from "../../../lib/json.ts";
import { findStreamed, human, modes, RUN, runAgent, type State, Thread } from "./execute.harness.ts";

describe("later attempts of functions", () => {
  it("continue from the last stored state", async () => {
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

  it("apply the input if only the state before it was stored", async () => {
    const thread = new Thread();
    const { value } = await runAgent(() => "x", thread.job({ input: human("hi") })).next();
    thread.store(value as State, RUN);
    await thread.run(() => "x", { input: human("hi"), resumed: true });
    assert.deepEqual(
      thread.states.map(({ source }) => source),
      ["input", undefined, undefined],
    );
    assert.equal(thread.contents.length, 2);
  });

  it("repeat the last frames of a run that had ended, without a call of the function", async () => {
    const interrupts = [
      { input: human("hi") },
      { input: human("hi"), interrupt_before: "*" },
      { command: { update: { a: 1 } }, interrupt_before: "*" },
    ] as const;
    for (const interruptOptions of interrupts) {
      for (const agent of [() => "x", ({ interrupt }) => interrupt(1)] as AgentFunction[]) {
        const thread = new Thread();
        const first = await thread.run(agent, { ...interruptOptions, ...modes("values") });
        const { values, next, tasks } = thread.last;
        const again = { ...interruptOptions, resumed: true, ...modes("values") };
        const events = await thread.run(() => assert.fail("called again"), again);
        const [state, ...laterStates] = findStreamed(events, "values");
        assert.deepEqual(state, values);
        assert.deepEqual(laterStates, next.length > 0 ? findStreamed(first, "values").slice(-1) : []);
        assert.deepEqual(
          [thread.last.values, thread.last.next, thread.last.tasks],
          [values, next, JSON.parse(JSON.stringify(tasks))],
        );
      }
    }
  });
});

describe("later attempts of functions with a resume value", () => {
  const asking: AgentFunction = async function* ({ command, interrupt, state }) {
    if (command?.resume === undefined) yield interrupt("ok?");
    yield { answers: [...((state.answers as Json[] | undefined) ?? []), command?.resume ?? null] };
    if (state.crash) throw new Error("crash");
  };

  for (const by of ["value", "id"] as const) {
    it(`receive it again (by ${by})`, async () => {
      const thread = new Thread();
      await thread.run(asking, { input: { crash: true }, run_id: "asks" });
      const id = thread.last.tasks[0]?.interrupts[0]?.id as string;
      const command = { resume: by === "id" ? { [id]: { seat: 7 } } : { seat: 7 }, update: { noted: true } };
      const ref = { checkpoint_ns: "", checkpoint_id: "1", interrupt_id: id, answered: 0 };
      const job = { command, interrupt_before: "*", resume_targets: [ref] } as const;
      await assert.rejects(thread.run(asking, job), /crash/);
      // A crash stores no error: the last state is the one with the update.
      const answered = { ...thread.last, tasks: [], values: { ...(thread.last.values as JsonObject), crash: false } };
      thread.store(answered, RUN);
      const events = await thread.run(asking, { ...job, attempt: 2, resumed: true, ...modes("values") });
      assert.deepEqual((thread.last.values as JsonObject).answers, [{ seat: 7 }, { seat: 7 }]);
      assert.deepEqual([thread.last.next, thread.last.tasks], [[], []]);
      assert.deepEqual(findStreamed(events, "values")[0], answered.values);
    });
  }
});
