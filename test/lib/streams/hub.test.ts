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

describe("a run log", () => {
  it("gives every reader every frame in order, whenever it subscribes", async () => {
    const runLog = eventsAt(testClock()).getLog(RUN);
    runLog.publish("metadata", "1");
    const early = collect(runLog.read(0));
    runLog.publish("values", "2");
    const late = collect(runLog.read(0));
    const fromOne = collect(runLog.read(1));
    runLog.publish("end", "3");
    runLog.end({ status: "success", result: {} });
    const expected = [
      { id: 1, event: "metadata", data: "1" },
      { id: 2, event: "values", data: "2" },
      { id: 3, event: "end", data: "3" },
    ];
    assert.deepEqual(await early, expected);
    assert.deepEqual(await late, expected);
    assert.deepEqual(await fromOne, expected.slice(1));
    assert.deepEqual(await collect(runLog.read(0)), expected, "a reader after the end");
  });

  it("adds nothing after the end", async () => {
    const runLog = eventsAt(testClock()).getLog(RUN);
    runLog.publish("end", "1");
    runLog.end({ status: "error", result: { __error__: { error: "E", message: "m" } } });
    runLog.publish("values", "2");
    runLog.end({ status: "success", result: {} });
    assert.deepEqual(
      (await collect(runLog.read(0))).map((frame) => frame.event),
      ["end"],
    );
    assert.equal((await runLog.waitForEnd()).status, "error");
  });

  it("returns all ready frames at once", async () => {
    const runLog = eventsAt(testClock()).getLog(RUN);
    const reader = runLog.read(0);
    runLog.publish("a", "1");
    runLog.publish("b", "2");
    const batches = [await reader.next()];
    const waiting = reader.next();
    runLog.publish("c", "3");
    runLog.publish("d", "4");
    batches.push(await waiting);
    assert.deepEqual(
      batches.map((batch) => batch.map((frame) => frame.event)),
      [
        ["a", "b"],
        ["c", "d"],
      ],
    );
    runLog.end({ status: "success", result: {} });
    assert.deepEqual(await reader.next(), []);
  });

  it("tells a reader behind the ring which frames it missed", async () => {
    const runLog = eventsAt(testClock(), { ring_size: 2_000 }).getLog(RUN);
    const slow = runLog.read(0);
    for (let i = 0; i < 100; i++) runLog.publish("values", "x".repeat(100));
    runLog.end({ status: "success", result: {} });
    const [first, second, ...laterFrames] = await collect(slow);
    assert.equal(first?.id, null);
    assert.equal(first?.event, "metadata");
    const { missing_before } = JSON.parse(first?.data ?? "{}");
    assert.equal(second?.id, missing_before);
    assert.equal(laterFrames.at(-1)?.id, 100);
    assert.ok(laterFrames.length < 30, "the ring is bounded");
  });

  it("keeps a first frame that is larger than the ring", async () => {
    const runLog = eventsAt(testClock(), { ring_size: 100 }).getLog(RUN);
    runLog.publish("values", "x".repeat(1_000));
    runLog.end({ status: "success", result: {} });
    assert.deepEqual(
      (await collect(runLog.read(0))).map((frame) => frame.id),
      [1],
    );
  });

  it("blocks a reader that is ahead, and not the others", async () => {
    const runLog = eventsAt(testClock()).getLog(RUN);
    runLog.publish("a", "1");
    const ahead = collect(runLog.read(2));
    const behind = runLog.read(1)[Symbol.asyncIterator]();
    const waiting = behind.next();
    runLog.publish("b", "2");
    assert.equal((await waiting).value?.event, "b");
    runLog.publish("c", "3");
    runLog.end({ status: "success", result: {} });
    assert.deepEqual(
      (await ahead).map((frame) => frame.event),
      ["c"],
    );
    assert.equal((await behind.next()).value?.event, "c");
    assert.equal((await behind.next()).done, true);
  });

  it("resolves all waits for the end, also late ones", async () => {
    const runLog = eventsAt(testClock()).getLog(RUN);
    const waiting = [runLog.waitForEnd(), runLog.waitForEnd()];
    runLog.publish("end", "1");
    runLog.end({ status: "success", result: { a: 1 } });
    for (const outcome of [...waiting, runLog.waitForEnd()]) assert.deepEqual((await outcome).result, { a: 1 });
  });

  it("numbers the frames of a later attempt above every earlier one", async () => {
    const runLog = eventsAt(testClock()).getLog(RUN);
    runLog.publish("metadata", "1");
    runLog.startAt(2 ** 32 + 1);
    runLog.publish("metadata", "2");
    runLog.startAt(5);
    runLog.publish("end", "3");
    runLog.end({ status: "success", result: {} });
    assert.deepEqual(
      (await collect(runLog.read(0))).map((frame) => frame.id),
      [1, 2 ** 32 + 1, 2 ** 32 + 2],
    );
  });

  it("calls back once when a reader leaves before the end, and never after it", async () => {
    const runLog = eventsAt(testClock()).getLog(RUN);
    let leaveCount = 0;
    const iterator = runLog.read(0, () => leaveCount++)[Symbol.asyncIterator]();
    const waiting = iterator.next();
    await iterator.return?.();
    await iterator.return?.();
    assert.equal((await waiting).done, true, "a waiting read ends");
    assert.equal(leaveCount, 1);
    const stayed = runLog.read(0, () => leaveCount++);
    runLog.publish("end", "1");
    runLog.end({ status: "success", result: {} });
    await collect(stayed);
    assert.equal(leaveCount, 1);
  });

  it("counts the results of ended runs towards its size", () => {
    const events = eventsAt(testClock(), { keep_size: 10_000 });
    for (const run_id of ["one", "two"]) {
      events.getLog(run_id).end({ status: "success", result: { deep: [{ text: "x".repeat(6_000) }] } });
    }
    assert.equal(events.find("one"), undefined);
    assert.ok(events.find("two"));
  });

  it("is deleted by age and by size after its end, and never before", async () => {
    const clock = testClock();
    const events = eventsAt(clock, { keep_ms: 1_000, keep_size: 6_000 });
    const name = (i: number): string => `run-${i}`;
    const open = events.getLog("open");
    for (let i = 0; i < 10; i++) {
      const runLog = events.getLog(name(i));
      runLog.publish("values", "x".repeat(500));
      runLog.end({ status: "success", result: {} });
    }
    assert.equal(events.find(name(0)), undefined, "too much is kept");
    assert.ok(events.find(name(9)));
    await clock.advance(2_000);
    events.getLog("last").end({ status: "success", result: {} });
    assert.equal(events.find(name(9)), undefined, "too old");
    assert.equal(events.find("open"), open);
  });

  it("returns a limited amount at once", async () => {
    const runLog = eventsAt(testClock()).getLog(RUN);
    const reader = runLog.read(0);
    for (let i = 0; i < 100; i++) runLog.publish("values", "x".repeat(10_000));
    runLog.end({ status: "success", result: {} });
    const ids: unknown[] = [];
    for (let took = await reader.next(); took.length > 0; took = await reader.next()) {
      assert.ok(took.length < 10, `${took.length} at once`);
      ids.push(...took.map(({ id }) => id));
    }
    assert.deepEqual(ids, upTo(100));
  });

  it("is deleted on request, without its successor", () => {
    const events = eventsAt(testClock());
    const runLog = events.getLog(RUN);
    assert.equal(runLog.hasSubscribers, false);
    void runLog.waitForEnd();
    assert.equal(runLog.hasSubscribers, true);
    events.forget(runLog);
    assert.equal(events.find(RUN), undefined);
    const next = events.getLog(RUN);
    events.forget(runLog);
    runLog.end({ status: "success", result: {} });
    assert.equal(events.find(RUN), next);
  });
});

const upTo = (last: number, first = 1): number[] => Array.from({ length: last + 1 - first }, (_, i) => first + i);

/** A table of frames, each as long as it is told, that gives a few at a time and counts how often it was asked. */
function table(page = 10): {
  readonly stored: StoredFrame[];
  readonly load: NonNullable<StreamHubOptions["load"]>;
  readonly loadPositions: number[];
} {
  const stored: StoredFrame[] = [];
  const loadPositions: number[] = [];
  return {
    stored,
    loadPositions,
    async load(_run_id, after) {
      loadPositions.push(after);
      return stored.filter(({ id }) => id > after).slice(0, page);
    },
  };
}

describe("a run log with stored frames", () => {
  const size = 100;
  const data = "x".repeat(size);
  const ended = { status: "success", result: {} } as const;

  it("gives a reader behind the ring the stored frames, without a gap or a repetition", async () => {
    const { stored, load, loadPositions } = table();
    const runLog = eventsAt(testClock(), { load, ring_size: 2_000 }).getLog(RUN);
    runLog.hasStoredFrames = true;
    const readers = [0, 0, 3, 40].map((after) => collect(runLog.read(after)));
    const slow = runLog.read(0)[Symbol.asyncIterator]();
    for (let id = 1; id <= 100; id++) {
      stored.push({ id, event: "values", data });
      runLog.publish("values", data);
    }
    const first = [await slow.next(), await slow.next()].map(({ value }) => value?.id);
    runLog.publish("end", "{}");
    runLog.end(ended);
    const ids = (await Promise.all(readers)).map((frames) => frames.map(({ id }) => id));
    assert.deepEqual(ids, [upTo(101), upTo(101), upTo(101, 4), upTo(101, 41)]);
    const laterIds = (await collect({ [Symbol.asyncIterator]: () => slow })).map(({ id }) => id);
    assert.deepEqual([...first, ...laterIds], upTo(101));
    const late = await collect(runLog.read(0));
    assert.deepEqual(
      late.map(({ id }) => id),
      upTo(101),
    );
    assert.ok(loadPositions.length < 60, `${loadPositions.length} times`);
  });

  it("gives the frames of another process before its own", async () => {
    const { stored, load } = table();
    const runLog = eventsAt(testClock(), { load }).getLog(RUN);
    runLog.hasStoredFrames = true;
    runLog.publish("values", data);
    stored.push(...upTo(25).map((id) => ({ id, event: "values", data })));
    const waiting = collect(runLog.read(0));
    runLog.skipTo(25);
    runLog.skipTo(20);
    assert.equal(runLog.lastId, 25);
    runLog.publish("metadata", "{}");
    assert.deepEqual(
      (await runLog.read(25).next()).map(({ id }) => id),
      [26],
    );
    runLog.end(ended);
    assert.deepEqual(
      (await waiting).map(({ id }) => id),
      upTo(26),
    );
  });

  it("reports frames that are no longer stored once", async () => {
    const { stored, load } = table();
    const runLog = eventsAt(testClock(), { load, ring_size: 2_000 }).getLog(RUN);
    runLog.hasStoredFrames = true;
    runLog.attempt = 2;
    for (let id = 1; id <= 50; id++) runLog.publish("values", data);
    runLog.end(ended);
    const gap = { run_id: RUN, attempt: 2 };
    const all = await collect(runLog.read(0));
    const missing_before = all[1]?.id as number;
    assert.deepEqual(JSON.parse(all[0]?.data ?? ""), { ...gap, missing_before });
    assert.deepEqual(
      all.slice(1).map(({ id }) => id),
      upTo(50, missing_before),
    );
    // Some frames are still stored.
    stored.push(...upTo(50, 20).map((id) => ({ id, event: "values", data })));
    const some = await collect(runLog.read(5));
    assert.deepEqual(JSON.parse(some[0]?.data ?? ""), { ...gap, missing_before: 20 });
    assert.deepEqual(
      some.slice(1).map(({ id }) => id),
      upTo(50, 20),
    );
  });

  it("loads one page at a time for all readers, and fails only the reader whose page cannot be loaded", async () => {
    const { stored, load } = table(5);
    let [now, most, broken] = [0, 0, false];
    const slowly: typeof load = async (run_id, after) => {
      if (broken) throw new Error("no");
      most = Math.max(most, ++now);
      await new Promise((resolve) => setTimeout(resolve, 0));
      now--;
      return await load(run_id, after);
    };
    const runLog = eventsAt(testClock(), { load: slowly, ring_size: 500 }).getLog(RUN);
    runLog.hasStoredFrames = true;
    for (let id = 1; id <= 60; id++) {
      stored.push({ id, event: "values", data });
      runLog.publish("values", data);
    }
    runLog.end(ended);
    const starts = Array.from({ length: 12 }, (_, i) => 5 * i);
    const read = await Promise.all(starts.map((after) => collect(runLog.read(after))));
    assert.deepEqual(
      read.map((frames) => frames.map(({ id }) => id)),
      starts.map((after) => upTo(60, after + 1)),
    );
    assert.equal(most, 1);
    broken = true;
    await assert.rejects(collect(runLog.read(0)), /no/);
    broken = false;
    assert.equal((await collect(runLog.read(0))).length, 60);
  });

  it("reads a page once for all readers at any position, and slow readers hold no page", async () => {
    const { stored, load, loadPositions } = table(50);
    const runLog = eventsAt(testClock(), { load, ring_size: 500 }).getLog(RUN);
    runLog.hasStoredFrames = true;
    for (let id = 1; id <= 60; id++) {
      stored.push({ id, event: "values", data });
      runLog.publish("values", data);
    }
    const readers = Array.from({ length: 10 }, (_, after) => runLog.read(after));
    const first = await Promise.all(readers.map(async (reader) => (await reader.next())[0]?.id));
    assert.deepEqual(first, upTo(10));
    assert.deepEqual(loadPositions, [0]);
    for (const reader of readers) reader.leave();
  });

  it("retains at most 1 MiB of frames, which its readers receive from memory", async () => {
    const { stored, load, loadPositions } = table();
    const runLog = eventsAt(testClock(), { load }).getLog(RUN);
    runLog.hasStoredFrames = true;
    const reader = runLog.read(0);
    const frame = "x".repeat(64 * 1024);
    for (let burst = 0; burst < 20; burst++) {
      for (let i = 0; i < 9; i++) {
        runLog.publish("values", frame);
        stored.push({ id: runLog.lastId, event: "values", data: frame });
      }
      const ids: unknown[] = [];
      while (ids.length < 9) ids.push(...(await reader.next()).map(({ id }) => id));
      assert.deepEqual(ids, upTo(runLog.lastId, runLog.lastId - 8));
    }
    assert.deepEqual(loadPositions, []);
    const { lastId } = runLog;
    for (let after = 0; after < lastId; after++) {
      const late = runLog.read(after);
      await late.next();
      late.leave();
    }
    const unreadCount = lastId - loadPositions.length;
    assert.ok(unreadCount > 0 && unreadCount * frame.length <= 1024 * 1024, `${unreadCount} frames`);
  });

  it("loads nothing for readers that never read", async () => {
    const { load, loadPositions } = table();
    const runLog = eventsAt(testClock(), { load, ring_size: 2_000 }).getLog(RUN);
    runLog.hasStoredFrames = true;
    for (let reader = 1; reader <= 1_000; reader++) runLog.read(0);
    for (let id = 1; id <= 1_000; id++) runLog.publish("values", data);
    assert.deepEqual(loadPositions, []);
  });
});
