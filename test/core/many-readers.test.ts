/** What many readers of one thread or run cost together: reads, wake-ups and copies of large texts. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fromFunctions } from "../../lib/mod.ts";
import { Change, createStreamHub } from "../../lib/streams/hub.ts";
import { testClock, testService } from "../suite/kit.ts";
import { subscribe } from "./event-reading.ts";
import { faulty } from "./faulty.ts";

const READERS = 40;
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function turns(): Promise<void> {
  for (let count = 0; count < 20; count++) await turn();
}

describe("many readers", () => {
  it("of an absent thread leave without a read, and share the reads of a change", async () => {
    const database = faulty();
    const clock = testClock();
    const kit = await testService({
      storage: database.storage,
      executor: fromFunctions({ echo: () => "done" }),
      environment: clock,
    });
    const thread_id = crypto.randomUUID();
    const readers = Array.from({ length: READERS }, () => subscribe(kit.service, thread_id));
    const reads = readers.map((reader) => reader.next());
    await turns();
    const count = (): number => database.calls.getThread ?? 0;
    await kit.service.threads.create({ thread_id });
    let before = count();
    // The next poll finds the thread for all of them.
    await clock.advance(1_000);
    await turns();
    assert.ok(count() - before < READERS / 2, `${count() - before} reads found one thread`);

    const absent = crypto.randomUUID();
    const others = Array.from({ length: READERS }, () => subscribe(kit.service, absent));
    const waiting = others.map((reader) => reader.next());
    await turns();
    before = count();
    for (const reader of others) {
      reader.leave();
      await turn();
    }
    assert.deepEqual(await Promise.all(waiting), Array(READERS).fill([]));
    assert.equal(count() - before, 0, "readers that leave make others read");
    for (const reader of readers) reader.leave();
    await Promise.all(reads);
    await kit[Symbol.asyncDispose]();
  });

  it("wake by themselves when they leave", async () => {
    const change = new Change();
    const woken: string[] = [];
    const [one, other] = [{}, {}];
    void change.wait(one).then(() => woken.push("one"));
    void change.wait(other).then(() => woken.push("other"));
    change.wake(one);
    await turn();
    assert.deepEqual(woken, ["one"]);
    change.notify();
    await turn();
    assert.deepEqual(woken, ["one", "other"]);
  });

  it("of a run leave it one by one, and the others get its frames", async () => {
    const environment = { now: () => 0, timer: () => () => {}, defer: (fn: () => void) => void setImmediate(fn) };
    const hub = createStreamHub(environment as never);
    const run = hub.runEvents("run");
    const [one, other] = [run.read(0), run.read(0)];
    const [left, got] = [one.next(), other.next()];
    await turn();
    one.leave();
    assert.deepEqual(await left, []);
    run.publish("custom", "1");
    assert.deepEqual(await got, [{ id: 1, event: "custom", data: "1" }]);
    other.leave();
  });
});
