import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemAmbient } from "../../lib/ambient.ts";
import { createEvents, type Events, type EventsOptions, type Frame } from "../../lib/events.ts";
import { testClock } from "../suite/kit.ts";

const RUN = "00000000-0000-4000-8000-000000000001";

function eventsAt(clock: ReturnType<typeof testClock>, options?: EventsOptions): Events {
  return createEvents({ ...systemAmbient(), now: clock.now, timer: clock.timer }, options);
}

async function collect(frames: AsyncIterable<Frame>): Promise<Frame[]> {
  const all: Frame[] = [];
  for await (const frame of frames) all.push(frame);
  return all;
}

describe("events", () => {
  it("gives every reader every frame in order, whenever it comes", async () => {
    const tape = eventsAt(testClock()).tape(RUN);
    tape.publish("metadata", "1");
    const early = collect(tape.read(0));
    tape.publish("values", "2");
    const late = collect(tape.read(0));
    const fromOne = collect(tape.read(1));
    tape.publish("end", "3");
    tape.end({ status: "success", result: {} });
    const expected = [
      { id: 1, event: "metadata", data: "1" },
      { id: 2, event: "values", data: "2" },
      { id: 3, event: "end", data: "3" },
    ];
    assert.deepEqual(await early, expected);
    assert.deepEqual(await late, expected);
    assert.deepEqual(await fromOne, expected.slice(1));
    assert.deepEqual(await collect(tape.read(0)), expected, "a reader after the end");
  });

  it("adds nothing after the end", async () => {
    const tape = eventsAt(testClock()).tape(RUN);
    tape.publish("end", "1");
    tape.end({ status: "error", result: { __error__: { error: "E", message: "m" } } });
    tape.publish("values", "2");
    tape.end({ status: "success", result: {} });
    assert.deepEqual(
      (await collect(tape.read(0))).map((frame) => frame.event),
      ["end"],
    );
    assert.equal((await tape.ended()).status, "error");
  });

  it("takes what is ready without waiting", () => {
    const tape = eventsAt(testClock()).tape(RUN);
    const reader = tape.read(0);
    assert.deepEqual(reader.take(), []);
    tape.publish("a", "1");
    tape.publish("b", "2");
    assert.deepEqual(
      reader.take().map((frame) => frame.event),
      ["a", "b"],
    );
    assert.deepEqual(reader.take(), []);
  });

  it("tells a reader behind the ring what it missed", async () => {
    const tape = eventsAt(testClock(), { ring_size: 2_000 }).tape(RUN);
    const slow = tape.read(0);
    for (let i = 0; i < 100; i++) tape.publish("values", "x".repeat(100));
    tape.end({ status: "success", result: {} });
    const [first, second, ...rest] = await collect(slow);
    assert.equal(first?.id, null);
    assert.equal(first?.event, "metadata");
    const { missing_before } = JSON.parse(first?.data ?? "{}");
    assert.equal(second?.id, missing_before);
    assert.equal(rest.at(-1)?.id, 100);
    assert.ok(rest.length < 30, "the ring is bounded");
  });

  it("keeps a first frame that is larger than the ring", async () => {
    const tape = eventsAt(testClock(), { ring_size: 100 }).tape(RUN);
    tape.publish("values", "x".repeat(1_000));
    tape.end({ status: "success", result: {} });
    assert.deepEqual(
      (await collect(tape.read(0))).map((frame) => frame.id),
      [1],
    );
  });

  it("lets a reader that is ahead wait, and others go on", async () => {
    const tape = eventsAt(testClock()).tape(RUN);
    tape.publish("a", "1");
    const ahead = collect(tape.read(2));
    const behind = tape.read(1)[Symbol.asyncIterator]();
    const waiting = behind.next();
    tape.publish("b", "2");
    assert.equal((await waiting).value?.event, "b");
    tape.publish("c", "3");
    tape.end({ status: "success", result: {} });
    assert.deepEqual(
      (await ahead).map((frame) => frame.event),
      ["c"],
    );
    assert.equal((await behind.next()).value?.event, "c");
    assert.equal((await behind.next()).done, true);
  });

  it("tells everybody who waits for the end, and who asks later", async () => {
    const tape = eventsAt(testClock()).tape(RUN);
    const waiting = [tape.ended(), tape.ended()];
    tape.publish("end", "1");
    tape.end({ status: "success", result: { a: 1 } });
    for (const outcome of [...waiting, tape.ended()]) assert.deepEqual((await outcome).result, { a: 1 });
  });

  it("numbers a later attempt above every earlier one", async () => {
    const tape = eventsAt(testClock()).tape(RUN);
    tape.publish("metadata", "1");
    tape.startAt(2 ** 32 + 1);
    tape.publish("metadata", "2");
    tape.startAt(5);
    tape.publish("end", "3");
    tape.end({ status: "success", result: {} });
    assert.deepEqual(
      (await collect(tape.read(0))).map((frame) => frame.id),
      [1, 2 ** 32 + 1, 2 ** 32 + 2],
    );
  });

  it("says once when a reader leaves before the end, and never after it", async () => {
    const tape = eventsAt(testClock()).tape(RUN);
    let left = 0;
    const iterator = tape.read(0, () => left++)[Symbol.asyncIterator]();
    const waiting = iterator.next();
    await iterator.return?.();
    await iterator.return?.();
    assert.equal((await waiting).done, true, "a waiting read ends");
    assert.equal(left, 1);
    const stayed = tape.read(0, () => left++);
    tape.publish("end", "1");
    tape.end({ status: "success", result: {} });
    await collect(stayed);
    assert.equal(left, 1);
  });

  it("counts what ended runs resulted in", () => {
    const events = eventsAt(testClock(), { keep_size: 10_000 });
    for (const run_id of ["one", "two"]) {
      events.tape(run_id).end({ status: "success", result: { deep: [{ text: "x".repeat(6_000) }] } });
    }
    assert.equal(events.find("one"), undefined);
    assert.ok(events.find("two"));
  });

  it("forgets ended runs by age and by size, never open ones", async () => {
    const clock = testClock();
    const events = eventsAt(clock, { keep_ms: 1_000, keep_size: 6_000 });
    const name = (i: number): string => `run-${i}`;
    const open = events.tape("open");
    for (let i = 0; i < 10; i++) {
      const tape = events.tape(name(i));
      tape.publish("values", "x".repeat(500));
      tape.end({ status: "success", result: {} });
    }
    assert.equal(events.find(name(0)), undefined, "too much is kept");
    assert.ok(events.find(name(9)));
    await clock.advance(2_000);
    events.tape("last").end({ status: "success", result: {} });
    assert.equal(events.find(name(9)), undefined, "too old");
    assert.equal(events.find("open"), open);
  });
});
