import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { recordStates } from "../../../lib/executor/state-recorder.ts";
import { createService, type Executor, type Frame, type RunCreate, type Service } from "../../../lib/mod.ts";
import type { ThreadPosition } from "../../../lib/streams/thread-subscription.ts";
import { testClock, testService } from "../../suite/kit.ts";
import { advanceUntil, collect, createClockedService, createFaultyStorage } from "../../support/faulty.ts";
import { until } from "../../support/until.ts";

// Timers of the service keep no process alive, and some tests wait for nothing else.
let alive: ReturnType<typeof setInterval>;
before(() => {
  alive = setInterval(() => {}, 1_000);
});
after(() => clearInterval(alive));

const ask = (...data: string[]): RunCreate => ({ assistant_id: "show", input: data, stream_mode: "custom" });
const askResumable = (...data: string[]): RunCreate => ({ ...ask(...data), stream_resumable: true });

/** Shows each item of its input; `wait` waits until it is stopped, or the test lets it go on, and `fail` fails. */
function shower(): { readonly executor: Executor; readonly go: () => void } {
  const waiting = new Set<() => void>();
  return {
    go() {
      for (const resume of waiting) resume();
    },
    executor: {
      graphs: () => [{ graph_id: "show" }],
      execute: recordStates(async function* (job, signal) {
        for (const data of job.input as string[]) {
          if (data === "fail") throw new RangeError("too far");
          if (data !== "wait") yield { type: "stream", mode: "custom", data };
          else if (!signal.aborted) {
            await new Promise<void>((resolve) => {
              waiting.add(resolve);
              signal.addEventListener("abort", () => resolve());
            });
          }
        }
        yield { type: "state", values: { input: job.input ?? null }, next: [], tasks: [] };
      }),
    },
  };
}

/** Two services on one database and one clock; only the first executes. */
async function twoProcesses(executor: Executor): Promise<{
  readonly clock: ReturnType<typeof testClock>;
  readonly first: Service;
  readonly second: Service;
  readonly stop: () => Promise<void>;
}> {
  const clock = testClock();
  const shared = createFaultyStorage();
  const environment = { ...clock, log: () => {} };
  const start = (concurrency: number): Promise<Service> =>
    createService({ storage: shared.share().storage, executor, worker: { concurrency }, environment });
  const [first, second] = [await start(1), await start(0)];
  const stop = async (): Promise<void> => {
    for (const service of [first, second]) await service.stop(0);
    await shared.storage.close();
  };
  return { clock, first, second, stop };
}

/** Formats each frame as `event data`, and a marker with its status. */
const formatFrames = (frames: readonly Frame[]): string[] =>
  frames.map(({ event, data }) => {
    const value = JSON.parse(data);
    if (event === "custom") return value;
    if (event === "lifecycle") return `${value.event} ${value.status ?? ""}`.trim();
    if (event === "state_update") return `state ${value.values?.input?.[0]}`;
    return value.status ? `${event} ${value.status}` : event;
  });

const parsePosition = (id: Frame["id"] | undefined): ThreadPosition => {
  const [seq, frame, at] = String(id).split("-").map(Number);
  return { seq, frame, at } as ThreadPosition;
};
const START = { seq: 0, frame: 0, at: 0 };

/** Whoever has seen some of what was told, and stored, is told the rest. */
async function checkPositions(threads: Service["threads"], thread_id: string, all: readonly Frame[]): Promise<void> {
  for (let seenCount = 0; seenCount < all.length; seenCount++) {
    const after = seenCount === 0 ? START : parsePosition(all[seenCount - 1]?.id);
    const laterFrames = collect(await threads.stream(thread_id, { after }));
    await until(() => laterFrames.list.length >= all.length - seenCount);
    assert.deepEqual(laterFrames.list, all.slice(seenCount));
  }
}

describe("a thread stream", () => {
  it("sends the frames of each run, with ids from which a reader can continue", async () => {
    await using kit = await testService({ executor: shower().executor });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    await (await runs.wait(thread_id, askResumable("before"))).result;
    const live = collect(await threads.stream(thread_id));
    for (const request of [askResumable("a", "b"), askResumable("c", "fail"), askResumable("d")]) {
      await (await runs.wait(thread_id, request)).result;
    }
    await until(() => live.list.length === 10);
    const expected = ["metadata", "a", "b", "run_done success"];
    expected.push("metadata", "c", "run_done error", "metadata", "d", "run_done success");
    assert.deepEqual(formatFrames(live.list), expected);
    const [, failed] = live.list.filter(({ event }) => event === "run_done");
    assert.deepEqual(JSON.parse(failed?.data ?? "").error, { error: "RangeError", message: "too far" });
    assert.ok(live.list.every(({ id }) => /^\d+-\d+-\d+$/.test(String(id))));
    assert.deepEqual(new Set(live.list.map(({ id }) => id)).size, 10);
    const all = collect(await threads.stream(thread_id, { after: START }));
    await until(() => all.list.length === 13);
    assert.deepEqual(formatFrames(all.list.slice(0, 3)), ["metadata", "before", "run_done success"]);
    assert.deepEqual(all.list.slice(3), live.list);
    await checkPositions(threads, thread_id, all.list);
  });

  it("sends the new frames of an active run, and pending runs", async () => {
    const { executor, go } = shower();
    await using kit = await testService({ executor });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const { frames } = await runs.stream(thread_id, ask("early", "wait", "late"));
    const first = frames[Symbol.asyncIterator]();
    for (let i = 0; i < 2; i++) await first.next();
    await runs.create(thread_id, ask("next"));
    const later = await runs.create(thread_id, { ...ask("later"), after_seconds: 0.05 });
    const live = collect(await threads.stream(thread_id));
    const all = collect(await threads.stream(thread_id, { after: START }));
    await until(() => all.list.length === 2);
    go();
    await (await runs.join(thread_id, later.run_id)).result;
    const laterTexts = ["late", "run_done success", "metadata", "next", "run_done success"];
    laterTexts.push("metadata", "later", "run_done success");
    await until(() => all.list.length === 10 && live.list.length === 8);
    assert.deepEqual(formatFrames(live.list), laterTexts);
    assert.deepEqual(formatFrames(all.list), ["metadata", "early", ...laterTexts]);
  });

  it("sends runs in the order of their starts, also delayed ones", async () => {
    const { executor } = shower();
    await using kit = await testService({ executor });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const live = collect(await threads.stream(thread_id));
    const later = await runs.create(thread_id, { ...askResumable("later"), after_seconds: 0.2 });
    await (await runs.wait(thread_id, askResumable("now"))).result;
    await until(() => live.list.length === 3);
    const lastSeenId = live.list.at(-1)?.id;
    const again = collect(await threads.stream(thread_id, { after: parsePosition(lastSeenId) }));
    await (await runs.join(thread_id, later.run_id)).result;
    await until(() => live.list.length === 6 && again.list.length === 3);
    assert.deepEqual(formatFrames(again.list), ["metadata", "later", "run_done success"]);
    assert.deepEqual(live.list.slice(3), again.list);
    // A reader that reconnects after its end receives it too.
    const last = collect(await threads.stream(thread_id, { after: parsePosition(lastSeenId) }));
    await until(() => last.list.length === 3);
    assert.deepEqual(last.list, again.list);
    // A reader that has seen it receives nothing again.
    const end = collect(await threads.stream(thread_id, { after: parsePosition(again.list.at(-1)?.id) }));
    await (await runs.wait(thread_id, askResumable("new"))).result;
    await until(() => end.list.length === 3);
    assert.deepEqual(formatFrames(end.list), ["metadata", "new", "run_done success"]);
  });

  it("continues at the position of its reader after the run there was deleted", async () => {
    const { executor } = shower();
    const clock = testClock();
    await using kit = await createClockedService(clock, { executor });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const live = collect(await threads.stream(thread_id));
    const stopped = await runs.create(thread_id, { ...askResumable("never"), after_seconds: 3_600 });
    await runs.create(thread_id, { ...askResumable("later"), after_seconds: 60 });
    const now = await runs.create(thread_id, askResumable("now"));
    await advanceUntil(clock, () => live.list.length === 3);
    const lastSeen = parsePosition(live.list.at(-1)?.id);
    await runs.delete(thread_id, now.run_id);
    await advanceUntil(clock, () => live.list.length === 6, 1_000);
    const again = collect(await threads.stream(thread_id, { after: lastSeen }));
    await advanceUntil(clock, () => again.list.length === 3);
    assert.deepEqual(formatFrames(again.list), ["metadata", "later", "run_done success"]);
    // It was created first and is sent last.
    await runs.cancel(thread_id, stopped.run_id);
    await advanceUntil(clock, () => again.list.length === 4);
    await runs.delete(thread_id, stopped.run_id);
    const end = collect(await threads.stream(thread_id, { after: parsePosition(again.list.at(-1)?.id) }));
    await runs.create(thread_id, askResumable("new"));
    await advanceUntil(clock, () => end.list.length === 3);
    assert.deepEqual(formatFrames(end.list), ["metadata", "new", "run_done success"]);
  });

  it("sends the end of pending runs that are deleted", async () => {
    const { executor, go } = shower();
    await using kit = await testService({ executor });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    await runs.create(thread_id, askResumable("a", "wait"));
    const queued = [await runs.create(thread_id, askResumable("b")), await runs.create(thread_id, askResumable("c"))];
    const live = collect(await threads.stream(thread_id, { after: { seq: 0, frame: 0, at: 0 } }));
    await until(() => live.list.length === 2);
    for (const { run_id } of queued) await runs.delete(thread_id, run_id);
    go();
    await until(() => live.list.length === 5);
    const ended = live.list.filter(({ event }) => event === "run_done").map(({ data }) => JSON.parse(data));
    assert.deepEqual(
      ended.slice(1).map(({ run_id, status }) => [run_id, status]),
      queued.map(({ run_id }) => [run_id, "rollback"]),
    );
  });

  it("sends the end of a stopped pending run once, after those before it", async () => {
    const { executor, go } = shower();
    await using kit = await testService({ executor });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const live = collect(await threads.stream(thread_id));
    const later = await runs.create(thread_id, { ...askResumable("never"), after_seconds: 3_600 });
    await runs.create(thread_id, askResumable("a", "wait"));
    const second = await runs.create(thread_id, askResumable("b"));
    const third = await runs.create(thread_id, askResumable("never"));
    const fourth = await runs.create(thread_id, askResumable("c"));
    await until(() => live.list.length === 2);
    await runs.cancel(thread_id, third.run_id);
    go();
    await (await runs.join(thread_id, fourth.run_id)).result;
    await until(() => live.list.length === 10);
    await runs.cancel(thread_id, later.run_id);
    await until(() => live.list.length === 11);
    const expected = ["metadata", "a", "run_done success", "metadata", "b", "run_done success", "run_done interrupted"];
    expected.push("metadata", "c", "run_done success", "run_done interrupted");
    assert.deepEqual(formatFrames(live.list), expected);
    const ended = live.list.filter(({ event }) => event === "run_done").map(({ data }) => JSON.parse(data).run_id);
    assert.deepEqual(ended.slice(1), [second.run_id, third.run_id, fourth.run_id, later.run_id]);
    await checkPositions(threads, thread_id, live.list);
  });

  it("sends the status of stopped runs", async () => {
    const { executor } = shower();
    await using kit = await testService({ executor });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const live = collect(await threads.stream(thread_id, { modes: ["lifecycle"] }));
    const first = await runs.create(thread_id, ask("wait"));
    await until(() => live.list.length === 1);
    const second = await runs.create(thread_id, ask("never"));
    await runs.cancel(thread_id, second.run_id);
    await runs.cancel(thread_id, first.run_id);
    await until(() => live.list.length === 3);
    await runs.create(thread_id, ask("wait"));
    await until(() => live.list.length === 4);
    await (await runs.wait(thread_id, { ...ask("ok"), multitask_strategy: "rollback" })).result;
    await (await runs.wait(thread_id, ask("fail"))).result;
    await until(() => live.list.length === 9);
    const story = (run_id: string): string[] =>
      formatFrames(live.list.filter(({ data }) => JSON.parse(data).run_id === run_id));
    assert.deepEqual(story(first.run_id), ["started", "interrupted interrupted"]);
    assert.deepEqual(story(second.run_id), ["interrupted interrupted"]);
    assert.deepEqual(formatFrames(live.list.slice(3)), [
      "started",
      "rolled_back rollback",
      "started",
      "completed success",
      "started",
      "failed error",
    ]);
  });

  it("sends the state after each run, and several modes together", async () => {
    const { executor } = shower();
    await using kit = await testService({ executor });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    await (await runs.wait(thread_id, ask("zero"))).result;
    const modes = ["state_update", "lifecycle", "run_modes"] as const;
    const live = collect(await threads.stream(thread_id, { modes }));
    for (const word of ["one", "two"]) {
      await (await runs.wait(thread_id, ask(word))).result;
      await until(() => formatFrames(live.list).includes(`state ${word}`));
    }
    await until(() => live.list.length === 12);
    assert.deepEqual(formatFrames(live.list.slice(0, 6)), [
      "started",
      "metadata",
      "one",
      "completed success",
      "state one",
      "run_done success",
    ]);
    assert.deepEqual(
      live.list.slice(0, 6).map(({ id }) => typeof id),
      ["object", "string", "string", "object", "object", "string"],
    );
    const again = collect(await threads.stream(thread_id, { modes: ["state_update"], after: START }));
    await until(() => again.list.length > 0);
    assert.deepEqual(formatFrames(again.list), ["state two"]);
  });

  it("ends when the thread is deleted, when the service stops, and when its reader leaves", async () => {
    const { executor } = shower();
    const kit = await testService({ executor });
    const { runs, threads } = kit.service;
    await assert.rejects(threads.stream(crypto.randomUUID()), { code: "not_found" });
    const { thread_id } = await threads.create();
    const live = collect(await threads.stream(thread_id));
    const { frames } = await runs.stream(thread_id, ask("a", "wait"));
    const reader = frames[Symbol.asyncIterator]();
    for (let i = 0; i < 2; i++) await reader.next();
    await until(() => live.list.length === 2);
    await threads.delete(thread_id);
    await until(live.ended);
    assert.deepEqual(formatFrames(live.list), ["metadata", "a", "run_done rollback"]);

    const otherThread = await threads.create();
    const leavingReader = (await threads.stream(otherThread.thread_id))[Symbol.asyncIterator]();
    const waiting = leavingReader.next();
    await leavingReader.return?.();
    assert.equal((await waiting).done, true);
    assert.equal((await leavingReader.next()).done, true);

    const idle = collect(await threads.stream(otherThread.thread_id));
    const busy = await threads.create();
    await runs.create(busy.thread_id, ask("a", "wait"));
    const reading = collect(await threads.stream(busy.thread_id, { after: START }));
    await until(() => reading.list.length === 2);
    await kit.service.stop(0);
    await until(() => idle.ended() && reading.ended());
    assert.deepEqual(formatFrames(reading.list), ["metadata", "a"]);
  });

  it("omits no run for a slow reader, and mixes no two runs", async () => {
    const { executor } = shower();
    await using kit = await testService({ executor });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const reader = await threads.stream(thread_id);
    const frames: Frame[] = [];
    const first = reader.next();
    const words = Array.from({ length: 30 }, (_, i) => `word ${i}`);
    for (let i = 0; i < 4; i++) await (await runs.wait(thread_id, ask(...words))).result;
    frames.push(...(await first));
    while (frames.length < 4 * 32) frames.push(...(await reader.next()));
    for (let i = 0; i < 4; i++) {
      assert.deepEqual(formatFrames(frames.slice(32 * i, 32 * (i + 1))), ["metadata", ...words, "run_done success"]);
    }
    reader.leave();
  });

  it("sends the runs that another process executes", async () => {
    const { clock, first, second, stop } = await twoProcesses(shower().executor);
    const { thread_id } = await first.threads.create();
    const live = collect(await second.threads.stream(thread_id));
    for (const request of [askResumable("a"), ask("b"), askResumable("c")]) {
      let ended = false;
      void first.runs.wait(thread_id, request).then(async ({ result }) => {
        await result;
        ended = true;
      });
      await advanceUntil(clock, () => ended, 10);
    }
    await advanceUntil(clock, () => formatFrames(live.list).filter((word) => word.startsWith("run_done")).length === 3);
    assert.deepEqual(formatFrames(live.list), [
      ...["metadata", "a", "run_done success", "run_done success"],
      ...["metadata", "c", "run_done success"],
    ]);
    await first.threads.delete(thread_id);
    await advanceUntil(clock, live.ended);
    await stop();
  });

  it("sends them in one order, whatever the order of the signals", async () => {
    const { executor, go } = shower();
    const { clock, first, second, stop } = await twoProcesses(executor);
    // The end of the first run and the frames of the second are read at different times.
    for (let delay = 0; delay < 2_000; delay += 125) {
      const { thread_id } = await first.threads.create();
      const live = collect(await second.threads.stream(thread_id));
      await first.runs.create(thread_id, ask("wait"));
      await clock.advance(delay);
      await first.runs.create(thread_id, askResumable("a", "b"));
      await clock.advance(300);
      go();
      await advanceUntil(clock, () => live.list.length === 5, 50);
      assert.deepEqual(formatFrames(live.list), ["run_done success", "metadata", "a", "b", "run_done success"]);
      for (let seenCount = 1; seenCount < 5; seenCount++) {
        const laterFrames = collect(
          await second.threads.stream(thread_id, { after: parsePosition(live.list[seenCount - 1]?.id) }),
        );
        await advanceUntil(clock, () => laterFrames.list.length >= 5 - seenCount, 50);
        assert.deepEqual(laterFrames.list, live.list.slice(seenCount));
      }
    }
    await stop();
  });
});
