import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createTickBudget } from "../../lib/environment.ts";

/** Creates an event loop that ticks on demand. */
function loop() {
  let deferred: (() => void)[] = [];
  return {
    environment: { defer: (fn: () => void) => void deferred.push(fn) },
    async tick(): Promise<void> {
      const dueCallbacks = deferred;
      deferred = [];
      for (const fn of dueCallbacks) fn();
      await new Promise((resolve) => setImmediate(resolve));
    },
    idle: () => deferred.length === 0,
  };
}

describe("createTickBudget", () => {
  it("admits a limited amount of work per tick in order of arrival", async () => {
    const { environment, tick, idle } = loop();
    const limit = createTickBudget(environment, 4);
    const done: number[] = [];
    for (let at = 0; at < 7; at += 1) void limit.waitForRoom(2).then(() => done.push(at));
    await tick();
    assert.deepEqual(done, [0, 1, 2, 3]);
    await tick();
    assert.deepEqual(done, [0, 1, 2, 3, 4, 5]);
    await tick();
    assert.deepEqual(done, [0, 1, 2, 3, 4, 5, 6]);
    await tick();
    assert.ok(idle());
  });

  it("queues continued work behind waiting work", async () => {
    const { environment, tick } = loop();
    const limit = createTickBudget(environment, 1);
    const done: string[] = [];
    const work = (name: string): void => {
      if (limit.isReached()) {
        limit.wait(() => work(name));
        return;
      }
      done.push(name);
      limit.spend(1);
      if (done.length < 6) work(name);
    };
    for (const name of ["a", "b", "c"]) work(name);
    for (let at = 0; at < 6; at += 1) await tick();
    assert.deepEqual(done.slice(0, 6), ["a", "a", "b", "c", "a", "b"]);
  });

  it("counts work whose cost is known afterwards, and work that is larger than a tick", async () => {
    const { environment, tick } = loop();
    const limit = createTickBudget(environment, 4);
    limit.spend(100);
    assert.ok(limit.isReached());
    let went = false;
    void limit.waitForRoom(100).then(() => {
      went = true;
    });
    await tick();
    assert.ok(went && limit.isReached());
    await tick();
    assert.ok(!limit.isReached());
  });
});
