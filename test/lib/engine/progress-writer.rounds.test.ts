/** Runs that stream at the same time share the commits of their saves. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { sqlStorage } from "../../../adapters/sql/mod.ts";
import { nodeSqliteDriver } from "../../../adapters/sqlite/node.ts";
import { createSaveScheduler } from "../../../lib/engine/save-scheduler.ts";
import { fromFunctions } from "../../../lib/mod.ts";
import { testClock, testService } from "../../suite/kit.ts";

describe("the save scheduler", () => {
  it("starts saves together, after a delay of 10 to 50 ms that grows with their number", async () => {
    const clock = testClock();
    const began: string[] = [];
    const from = clock.now();
    const join = createSaveScheduler(clock);
    const note = (name: string) => () => void began.push(`${name} at ${clock.now() - from}`);
    join(note("a"));
    await clock.advance(4);
    join(note("b"));
    await clock.advance(6);
    assert.deepEqual(began.splice(0), ["a at 10", "b at 10"]);
    for (let i = 0; i < 20; i++) join(note("c"));
    await clock.advance(10);
    assert.equal(began.splice(0).length, 20);
    join(note("d"));
    await clock.advance(29);
    assert.deepEqual(began, []);
    await clock.advance(1);
    assert.deepEqual(began.splice(0), ["d at 50"]);
    for (let i = 0; i < 500; i++) join(note("e"));
    await clock.advance(10);
    began.length = 0;
    join(note("f"));
    await clock.advance(50);
    assert.deepEqual(began.splice(0), ["f at 110"]);
  });

  it("leaves out cancelled saves, and starts a new round afterwards", async () => {
    const clock = testClock();
    const began: string[] = [];
    const join = createSaveScheduler(clock);
    const leave = join(() => void began.push("a"));
    join(() => void began.push("b"));
    leave();
    leave();
    await clock.advance(10);
    assert.deepEqual(began.splice(0), ["b"]);
    join(() => void began.push("c"))();
    await clock.advance(5);
    join(() => void began.push("d"));
    await clock.advance(9);
    assert.deepEqual(began, []);
    await clock.advance(1);
    assert.deepEqual(began, ["d"]);
  });

  it("makes one commit for many streams", async () => {
    const [streams, tokens] = [20, 50];
    const clock = testClock();
    const driver = nodeSqliteDriver(":memory:");
    let saves = 0;
    const times = new Set<number>();
    let runs = 0;
    await using kit = await testService({
      storage: sqlStorage({
        ...driver,
        async batch(statements, lock_keys) {
          if (statements.some(({ sql }) => sql.startsWith("insert into run_frames"))) {
            saves++;
            times.add(clock.now());
          }
          return await driver.batch(statements, lock_keys);
        },
      }),
      executor: fromFunctions({
        async *tokens() {
          // Each stream has its own interval.
          const pause_ms = 4 + (runs++ % 7);
          for (let i = 0; i < tokens; i++) {
            await new Promise<void>((resolve) => clock.timer(pause_ms, resolve));
            yield "word ";
          }
        },
      }),
      environment: clock,
      worker: { concurrency: streams },
    });
    const bodies = Array.from({ length: streams }, async () => {
      const run = { assistant_id: "tokens", input: {}, stream_mode: ["messages-tuple"], stream_resumable: true };
      const headers = { "content-type": "application/json" };
      const response = await kit.fetch("http://localhost/runs/stream", {
        method: "POST",
        headers,
        body: JSON.stringify(run),
      });
      return await response.text();
    });
    let ended = false;
    const all = Promise.all(bodies).finally(() => {
      ended = true;
    });
    while (!ended) await clock.advance(1);
    for (const body of await all) assert.equal(body.split("word ").length, tokens + 1);
    assert.ok(saves >= 5 * times.size, `${saves} saves at ${times.size} times`);
  });
});
