/** Immediate runs start although the machine's clock was set back, on a file and in memory. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { testClock, testService } from "../../suite/kit.ts";

const HOUR_MS = 3_600_000;

describe("a worker whose clock is set back by an hour", () => {
  it("starts an immediate run at once and a delayed one at its time", async () => {
    const clock = testClock();
    let skew = 0;
    const gate = Promise.withResolvers<void>();
    const order: string[] = [];
    // Timers continue, because they use the monotonic clock.
    const environment = { now: () => clock.now() + skew, timer: clock.timer };
    await using kit = await testService({
      environment,
      agents: {
        async graph({ input }) {
          order.push(String(input));
          if (input === "first") await gate.promise;
          return {};
        },
      },
    });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const create = (input: string, after_seconds = 0): Promise<unknown> =>
      runs.create(thread_id, { assistant_id: "graph", input, after_seconds });
    await create("first");
    await create("second");
    await create("later", 5);
    skew = -HOUR_MS;
    gate.resolve();
    for (let i = 0; i < 200 && order.length < 2; i++) await clock.advance(100);
    assert.deepEqual(order, ["first", "second"]);
    // The delayed run starts by the clock that was set back.
    for (let i = 0; i < 10; i++) await clock.advance(1_000);
    assert.deepEqual(order, ["first", "second"]);
    skew = 0;
    for (let i = 0; i < 200 && order.length < 3; i++) await clock.advance(100);
    assert.deepEqual(order, ["first", "second", "later"]);
  });
});
