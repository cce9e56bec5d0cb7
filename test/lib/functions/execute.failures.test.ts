import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ExecutorEvent } from "../../../lib/executor/contract.ts";
import { findStreamed, modes, Thread } from "./execute.harness.ts";

describe("failures of functions", () => {
  it("become the run's error and keep the updates before them", async () => {
    const thread = new Thread();
    const events: ExecutorEvent[] = [];
    const failing = thread.run(
      async function* () {
        yield { a: 1 };
        yield "half a reply";
        throw new RangeError("boom");
      },
      { input: { q: 1 }, ...modes("tasks") },
      events,
    );
    await assert.rejects(failing, { name: "RangeError", message: "boom" });
    assert.deepEqual(thread.last.values, { q: 1, a: 1 });
    assert.deepEqual(thread.last.next, ["agent"]);
    const error = JSON.stringify({ error: "RangeError", message: "boom" });
    assert.equal(thread.last.tasks[0]?.error, error);
    const { result, error: text } = findStreamed(events, "tasks").at(-1) ?? {};
    assert.deepEqual([result, text], [{}, error]);
  });

  it("are raised for every value that is not JSON, with its path", async () => {
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

  it("are not raised for dates, undefined members, shared objects and own __proto__ keys", async () => {
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
