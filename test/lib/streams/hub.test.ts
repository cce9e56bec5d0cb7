import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemEnvironment } from "../../../lib/environment.ts";
import type { StoredFrame } from "../../../lib/storage/mod.ts";
import type { Frame } from "../../../lib/streams/frames.ts";
import { StreamHub, type StreamHubOptions } from "../../../lib/streams/hub.ts";
import { testClock } from "../../suite/kit.ts";

const RUN = "00000000-0000-4000-8000-000000000001";

function eventsAt(clock: ReturnType<typeof testClock>, options?: StreamHubOptions): StreamHub {
  return new StreamHub({ ...systemEnvironment(), now: clock.now, timer: clock.timer }, options);
}

async function collect(frames: AsyncIterable<Frame>): Promise<Frame[]> {
  const all: Frame[] = [];
  for await (const frame of frames) all.push(frame);
  return all;
}

describe("events", () => {
  it("gives every reader every frame in order, whenever it comes", async () => {
    const runEvents = eventsAt(testClock()).runEvents(RUN);
    runEvents.publish("metadata", "1");
    const early = collect(runEvents.read(0));
    runEvents.publish("values", "2");
    const late = collect(runEvents.read(0));
    const fromOne = collect(runEvents.read(1));
    runEvents.publish("end", "3");
    runEvents.end({ status: "success", result: {} });
    const expected = [
      { id: 1, event: "metadata", data: "1" },
      { id: 2, event: "values", data: "2" },
      { id: 3, event: "end", data: "3" },
    ];
    assert.deepEqual(await early, expected);
    assert.deepEqual(await late, expected);
    assert.deepEqual(await fromOne, expected.slice(1));
    assert.deepEqual(await collect(runEvents.read(0)), expected, "a reader after the end");
  });

  it("adds nothing after the end", async () => {
    const runEvents = eventsAt(testClock()).runEvents(RUN);
    runEvents.publish("end", "1");
    runEvents.end({ status: "error", result: { __error__: { error: "E", message: "m" } } });
    runEvents.publish("values", "2");
    runEvents.end({ status: "success", result: {} });
    assert.deepEqual(
      (await collect(runEvents.read(0))).map((frame) => frame.event),
      ["end"],
    );
    assert.equal((await runEvents.ended()).status, "error");
  });

  it("gives all that is ready at once", async () => {
    const runEvents = eventsAt(testClock()).runEvents(RUN);
    const reader = runEvents.read(0);
    runEvents.publish("a", "1");
    runEvents.publish("b", "2");
    const batches = [await reader.next()];
    const waiting = reader.next();
    runEvents.publish("c", "3");
    runEvents.publish("d", "4");
    batches.push(await waiting);
    assert.deepEqual(
      batches.map((batch) => batch.map((frame) => frame.event)),
      [
        ["a", "b"],
        ["c", "d"],
      ],
    );
    runEvents.end({ status: "success", result: {} });
    assert.deepEqual(await reader.next(), []);
  });

  it("tells a reader behind the ring what it missed", async () => {
    const runEvents = eventsAt(testClock(), { ring_size: 2_000 }).runEvents(RUN);
    const slow = runEvents.read(0);
    for (let i = 0; i < 100; i++) runEvents.publish("values", "x".repeat(100));
    runEvents.end({ status: "success", result: {} });
    const [first, second, ...rest] = await collect(slow);
    assert.equal(first?.id, null);
    assert.equal(first?.event, "metadata");
    const { missing_before } = JSON.parse(first?.data ?? "{}");
    assert.equal(second?.id, missing_before);
    assert.equal(rest.at(-1)?.id, 100);
    assert.ok(rest.length < 30, "the ring is bounded");
  });

  it("keeps a first frame that is larger than the ring", async () => {
    const runEvents = eventsAt(testClock(), { ring_size: 100 }).runEvents(RUN);
    runEvents.publish("values", "x".repeat(1_000));
    runEvents.end({ status: "success", result: {} });
    assert.deepEqual(
      (await collect(runEvents.read(0))).map((frame) => frame.id),
      [1],
    );
  });

  it("lets a reader that is ahead wait, and others go on", async () => {
    const runEvents = eventsAt(testClock()).runEvents(RUN);
    runEvents.publish("a", "1");
    const ahead = collect(runEvents.read(2));
    const behind = runEvents.read(1)[Symbol.asyncIterator]();
    const waiting = behind.next();
    runEvents.publish("b", "2");
    assert.equal((await waiting).value?.event, "b");
    runEvents.publish("c", "3");
    runEvents.end({ status: "success", result: {} });
    assert.deepEqual(
      (await ahead).map((frame) => frame.event),
      ["c"],
    );
    assert.equal((await behind.next()).value?.event, "c");
    assert.equal((await behind.next()).done, true);
  });

  it("tells everybody who waits for the end, and who asks later", async () => {
    const runEvents = eventsAt(testClock()).runEvents(RUN);
    const waiting = [runEvents.ended(), runEvents.ended()];
    runEvents.publish("end", "1");
    runEvents.end({ status: "success", result: { a: 1 } });
    for (const outcome of [...waiting, runEvents.ended()]) assert.deepEqual((await outcome).result, { a: 1 });
  });

  it("numbers a later attempt above every earlier one", async () => {
    const runEvents = eventsAt(testClock()).runEvents(RUN);
    runEvents.publish("metadata", "1");
    runEvents.startAt(2 ** 32 + 1);
    runEvents.publish("metadata", "2");
    runEvents.startAt(5);
    runEvents.publish("end", "3");
    runEvents.end({ status: "success", result: {} });
    assert.deepEqual(
      (await collect(runEvents.read(0))).map((frame) => frame.id),
      [1, 2 ** 32 + 1, 2 ** 32 + 2],
    );
  });

  it("says once when a reader leaves before the end, and never after it", async () => {
    const runEvents = eventsAt(testClock()).runEvents(RUN);
    let left = 0;
    const iterator = runEvents.read(0, () => left++)[Symbol.asyncIterator]();
    const waiting = iterator.next();
    await iterator.return?.();
    await iterator.return?.();
    assert.equal((await waiting).done, true, "a waiting read ends");
    assert.equal(left, 1);
    const stayed = runEvents.read(0, () => left++);
    runEvents.publish("end", "1");
    runEvents.end({ status: "success", result: {} });
    await collect(stayed);
    assert.equal(left, 1);
  });

  it("counts what ended runs resulted in", () => {
    const events = eventsAt(testClock(), { keep_size: 10_000 });
    for (const run_id of ["one", "two"]) {
      events.runEvents(run_id).end({ status: "success", result: { deep: [{ text: "x".repeat(6_000) }] } });
    }
    assert.equal(events.find("one"), undefined);
    assert.ok(events.find("two"));
  });

  it("forgets ended runs by age and by size, never open ones", async () => {
    const clock = testClock();
    const events = eventsAt(clock, { keep_ms: 1_000, keep_size: 6_000 });
    const name = (i: number): string => `run-${i}`;
    const open = events.runEvents("open");
    for (let i = 0; i < 10; i++) {
      const runEvents = events.runEvents(name(i));
      runEvents.publish("values", "x".repeat(500));
      runEvents.end({ status: "success", result: {} });
    }
    assert.equal(events.find(name(0)), undefined, "too much is kept");
    assert.ok(events.find(name(9)));
    await clock.advance(2_000);
    events.runEvents("last").end({ status: "success", result: {} });
    assert.equal(events.find(name(9)), undefined, "too old");
    assert.equal(events.find("open"), open);
  });

  it("takes no more at once than a reader should hold", async () => {
    const runEvents = eventsAt(testClock()).runEvents(RUN);
    const reader = runEvents.read(0);
    for (let i = 0; i < 100; i++) runEvents.publish("values", "x".repeat(10_000));
    runEvents.end({ status: "success", result: {} });
    const ids: unknown[] = [];
    for (let took = await reader.next(); took.length > 0; took = await reader.next()) {
      assert.ok(took.length < 10, `${took.length} at once`);
      ids.push(...took.map(({ id }) => id));
    }
    assert.deepEqual(ids, upTo(100));
  });

  it("forgets a tape on request, and only that one", () => {
    const events = eventsAt(testClock());
    const runEvents = events.runEvents(RUN);
    assert.equal(runEvents.followed, false);
    void runEvents.ended();
    assert.equal(runEvents.followed, true);
    events.forget(runEvents);
    assert.equal(events.find(RUN), undefined);
    const next = events.runEvents(RUN);
    events.forget(runEvents);
    runEvents.end({ status: "success", result: {} });
    assert.equal(events.find(RUN), next);
  });
});

const upTo = (last: number, first = 1): number[] => Array.from({ length: last + 1 - first }, (_, i) => first + i);

/** A table of frames, each as long as it is told, that gives a few at a time and counts how often it was asked. */
function table(page = 10): {
  readonly stored: StoredFrame[];
  readonly load: NonNullable<StreamHubOptions["load"]>;
  readonly asked: number[];
} {
  const stored: StoredFrame[] = [];
  const asked: number[] = [];
  return {
    stored,
    asked,
    async load(_run_id, after) {
      asked.push(after);
      return stored.filter(({ id }) => id > after).slice(0, page);
    },
  };
}

describe("a tape whose frames are stored", () => {
  const size = 100;
  const data = "x".repeat(size);
  const ended = { status: "success", result: {} } as const;

  it("gives a reader behind the ring what is stored, without a gap or a frame twice", async () => {
    const { stored, load, asked } = table();
    const runEvents = eventsAt(testClock(), { load, ring_size: 2_000 }).runEvents(RUN);
    runEvents.stored = true;
    const readers = [0, 0, 3, 40].map((after) => collect(runEvents.read(after)));
    const slow = runEvents.read(0)[Symbol.asyncIterator]();
    for (let id = 1; id <= 100; id++) {
      stored.push({ id, event: "values", data });
      runEvents.publish("values", data);
    }
    const first = [await slow.next(), await slow.next()].map(({ value }) => value?.id);
    runEvents.publish("end", "{}");
    runEvents.end(ended);
    const ids = (await Promise.all(readers)).map((frames) => frames.map(({ id }) => id));
    assert.deepEqual(ids, [upTo(101), upTo(101), upTo(101, 4), upTo(101, 41)]);
    const rest = (await collect({ [Symbol.asyncIterator]: () => slow })).map(({ id }) => id);
    assert.deepEqual([...first, ...rest], upTo(101));
    const late = await collect(runEvents.read(0));
    assert.deepEqual(
      late.map(({ id }) => id),
      upTo(101),
    );
    assert.ok(asked.length < 60, `${asked.length} times`);
  });

  it("gives what another process has shown before it goes on itself", async () => {
    const { stored, load } = table();
    const runEvents = eventsAt(testClock(), { load }).runEvents(RUN);
    runEvents.stored = true;
    runEvents.publish("values", data);
    stored.push(...upTo(25).map((id) => ({ id, event: "values", data })));
    const waiting = collect(runEvents.read(0));
    runEvents.skipTo(25);
    runEvents.skipTo(20);
    assert.equal(runEvents.lastId, 25);
    runEvents.publish("metadata", "{}");
    assert.deepEqual(
      (await runEvents.read(25).next()).map(({ id }) => id),
      [26],
    );
    runEvents.end(ended);
    assert.deepEqual(
      (await waiting).map(({ id }) => id),
      upTo(26),
    );
  });

  it("tells what is not stored any more, once", async () => {
    const { stored, load } = table();
    const runEvents = eventsAt(testClock(), { load, ring_size: 2_000 }).runEvents(RUN);
    runEvents.stored = true;
    runEvents.attempt = 2;
    for (let id = 1; id <= 50; id++) runEvents.publish("values", data);
    runEvents.end(ended);
    const gap = { run_id: RUN, attempt: 2 };
    const all = await collect(runEvents.read(0));
    const missing_before = all[1]?.id as number;
    assert.deepEqual(JSON.parse(all[0]?.data ?? ""), { ...gap, missing_before });
    assert.deepEqual(
      all.slice(1).map(({ id }) => id),
      upTo(50, missing_before),
    );
    // A part of it still is.
    stored.push(...upTo(50, 20).map((id) => ({ id, event: "values", data })));
    const some = await collect(runEvents.read(5));
    assert.deepEqual(JSON.parse(some[0]?.data ?? ""), { ...gap, missing_before: 20 });
    assert.deepEqual(
      some.slice(1).map(({ id }) => id),
      upTo(50, 20),
    );
  });

  it("loads one page at a time for all of its readers, and fails only the reader that it cannot load for", async () => {
    const { stored, load } = table(5);
    let [now, most, broken] = [0, 0, false];
    const slowly: typeof load = async (run_id, after) => {
      if (broken) throw new Error("no");
      most = Math.max(most, ++now);
      await new Promise((resolve) => setTimeout(resolve, 0));
      now--;
      return await load(run_id, after);
    };
    const runEvents = eventsAt(testClock(), { load: slowly, ring_size: 500 }).runEvents(RUN);
    runEvents.stored = true;
    for (let id = 1; id <= 60; id++) {
      stored.push({ id, event: "values", data });
      runEvents.publish("values", data);
    }
    runEvents.end(ended);
    const starts = Array.from({ length: 12 }, (_, i) => 5 * i);
    const read = await Promise.all(starts.map((after) => collect(runEvents.read(after))));
    assert.deepEqual(
      read.map((frames) => frames.map(({ id }) => id)),
      starts.map((after) => upTo(60, after + 1)),
    );
    assert.equal(most, 1);
    broken = true;
    await assert.rejects(collect(runEvents.read(0)), /no/);
    broken = false;
    assert.equal((await collect(runEvents.read(0))).length, 60);
  });

  it("reads a page once for all of its readers, wherever in it they are: slow ones hold no page", async () => {
    const { stored, load, asked } = table(50);
    const runEvents = eventsAt(testClock(), { load, ring_size: 500 }).runEvents(RUN);
    runEvents.stored = true;
    for (let id = 1; id <= 60; id++) {
      stored.push({ id, event: "values", data });
      runEvents.publish("values", data);
    }
    const readers = Array.from({ length: 10 }, (_, after) => runEvents.read(after));
    const first = await Promise.all(readers.map(async (reader) => (await reader.next())[0]?.id));
    assert.deepEqual(first, upTo(10));
    assert.deepEqual(asked, [0]);
    for (const reader of readers) reader.leave();
  });

  it("holds little more than what is shown at once, which its readers get from there", async () => {
    const { stored, load, asked } = table();
    const runEvents = eventsAt(testClock(), { load }).runEvents(RUN);
    runEvents.stored = true;
    const reader = runEvents.read(0);
    const frame = "x".repeat(64 * 1024);
    for (let burst = 0; burst < 20; burst++) {
      for (let i = 0; i < 9; i++) {
        runEvents.publish("values", frame);
        stored.push({ id: runEvents.lastId, event: "values", data: frame });
      }
      const ids: unknown[] = [];
      while (ids.length < 9) ids.push(...(await reader.next()).map(({ id }) => id));
      assert.deepEqual(ids, upTo(runEvents.lastId, runEvents.lastId - 8));
    }
    assert.deepEqual(asked, []);
    const { lastId } = runEvents;
    for (let after = 0; after < lastId; after++) {
      const late = runEvents.read(after);
      await late.next();
      late.leave();
    }
    const held = lastId - asked.length;
    assert.ok(held > 0 && held * frame.length <= 1024 * 1024, `${held} frames`);
  });

  it("costs nothing for readers that never read", async () => {
    const { load, asked } = table();
    const runEvents = eventsAt(testClock(), { load, ring_size: 2_000 }).runEvents(RUN);
    runEvents.stored = true;
    for (let reader = 1; reader <= 1_000; reader++) runEvents.read(0);
    for (let id = 1; id <= 1_000; id++) runEvents.publish("values", data);
    assert.deepEqual(asked, []);
  });
});
