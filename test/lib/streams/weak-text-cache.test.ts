/** Many readers of one thread or run share reads, wake-ups and copies of large texts. */
import assert from "node:assert/strict";
import process from "node:process";
import { describe, it } from "node:test";
import { systemEnvironment } from "../../../lib/environment.ts";
import { fromFunctions } from "../../../lib/mod.ts";
import type { EventBus } from "../../../lib/storage/event-bus.ts";
import type { Scope } from "../../../lib/storage/mod.ts";
import type { Frame } from "../../../lib/streams/frames.ts";
import { StreamHub } from "../../../lib/streams/hub.ts";
import { ChangeNotifier, createReader, type Reader } from "../../../lib/streams/log.ts";
import { createStreamGuards } from "../../../lib/streams/stream-guard.ts";
import { testClock, testService } from "../../suite/kit.ts";
import { subscribe } from "../../support/event-reading.ts";
import { createFaultyStorage } from "../../support/faulty.ts";
import { until } from "../../support/until.ts";

const READERS = 40;
const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function ticks(): Promise<void> {
  for (let count = 0; count < 20; count++) await tick();
}

describe("many readers", () => {
  it("of an absent thread leave without a read, and share the reads of a change", async () => {
    const database = createFaultyStorage();
    const clock = testClock();
    const kit = await testService({
      storage: database.storage,
      executor: fromFunctions({ echo: () => "done" }),
      environment: clock,
    });
    const thread_id = crypto.randomUUID();
    const readers = Array.from({ length: READERS }, () => subscribe(kit.service, thread_id));
    const reads = readers.map((reader) => reader.next());
    await ticks();
    const count = (): number => database.calls.getThread ?? 0;
    await kit.service.threads.create({ thread_id });
    let before = count();
    // The next poll finds the thread for all of them.
    await clock.advance(1_000);
    await ticks();
    assert.ok(count() - before < READERS / 2, `${count() - before} reads found one thread`);

    const absent = crypto.randomUUID();
    const otherReaders = Array.from({ length: READERS }, () => subscribe(kit.service, absent));
    const waiting = otherReaders.map((reader) => reader.next());
    await ticks();
    before = count();
    for (const reader of otherReaders) {
      reader.leave();
      await tick();
    }
    assert.deepEqual(await Promise.all(waiting), Array(READERS).fill([]));
    assert.equal(count(), before, "readers that leave make others read");
    for (const reader of readers) reader.leave();
    await Promise.all(reads);
    await kit[Symbol.asyncDispose]();
  });

  it("share one copy of each large event, whether its text is stored or read from its state", async () => {
    const database = createFaultyStorage();
    await using kit = await testService({
      storage: database.storage,
      executor: fromFunctions({ large: () => "m".repeat(5_000_000) }),
    });
    const { thread_id } = await kit.service.threads.create();
    const params = { assistant_id: "large", input: {} };
    await kit.service.threads.command(thread_id, { id: 1, method: "run.start", params });
    await until(async () => (await kit.service.threads.get(thread_id)).status === "idle");
    for (const channels of [["messages"], ["values"]]) {
      const readers = Array.from({ length: 5 }, () => subscribe(kit.service, thread_id, { channels, since: 1 }));
      const before = database.calls.readEvents ?? 0;
      const got = await Promise.all(
        readers.map(async (reader) => {
          for (;;) {
            const large = (await reader.next()).find(({ data }) => data.length > 1_000_000);
            if (large) return large;
          }
        }),
      );
      // They retain the text, and a later reader shares it.
      const late = subscribe(kit.service, thread_id, { channels, since: 1 });
      for (let large: unknown; !large; ) {
        large = (await late.next()).find(({ data }) => data.length > 1_000_000);
        if (large) got.push(large as never);
      }
      assert.equal(new Set(got).size, 1, `${channels}: copies`);
      assert.ok((database.calls.readEvents ?? 0) - before <= 6, "readers that come together share the reads");
      for (const reader of [...readers, late]) reader.leave();
    }
  });

  it("of a large ended run share its log", async () => {
    const database = createFaultyStorage();
    await using kit = await testService({
      storage: database.storage,
      executor: fromFunctions({ large: () => "m".repeat(5_000_000) }),
    });
    const { thread_id } = await kit.service.threads.create();
    const request = { assistant_id: "large", stream_mode: ["values"], stream_resumable: true } as const;
    const wait = await kit.service.runs.wait(thread_id, request);
    await wait.result;
    const { run_id } = wait.run;
    const before = { ...database.calls };
    const streams: Reader<Frame>[] = [];
    const got = new Set<Frame>();
    while (streams.length < 5) {
      const { frames } = await kit.service.runs.joinStream(thread_id, run_id);
      streams.push(frames);
      let large: Frame | undefined;
      while (!large) large = (await frames.next()).find(({ data }) => data.length > 1_000_000);
      got.add(large);
    }
    assert.equal(got.size, 1, "copies");
    const states = (database.calls.getCheckpoint ?? 0) - (before.getCheckpoint ?? 0);
    assert.ok(states <= 1, `${states} read the state that the run left`);
    assert.ok((database.calls.readFrames ?? 0) - (before.readFrames ?? 0) <= 5, "each reads the frames");
    for (const frames of streams) frames.leave();

    const rows = database.calls.getRun ?? 0;
    const together = await Promise.all(
      Array.from({ length: READERS }, () => kit.service.runs.joinStream(thread_id, run_id)),
    );
    const reads = (database.calls.getRun ?? 0) - rows;
    assert.ok(reads < 5, `${reads} reads of one row`);
    for (const { frames } of together) frames.leave();
  });

  it("cost the same for each small event of a large page as of a small one", async () => {
    const executor = fromFunctions({
      async *count({ messages, emit }) {
        for (let at = 0; at < Number(messages.at(-1)?.content); at++) {
          emit(at);
          if (at % 500 === 0) await tick();
        }
        yield "done";
      },
    });
    await using kit = await testService({ executor });
    const { service } = kit;

    /** Events that replays take, in one millisecond of CPU. */
    async function rate(count: number, replays: number): Promise<number> {
      const { thread_id } = await service.threads.create();
      const params = { assistant_id: "count", input: { messages: [{ role: "user", content: String(count) }] } };
      await service.threads.command(thread_id, { id: 1, method: "run.start", params });
      await until(async () => (await service.threads.get(thread_id)).status === "idle");
      let best = 0;
      for (let round = 0; round < 3; round++) {
        const before = process.cpuUsage();
        for (let replay = 0; replay < replays; replay++) {
          const reader = subscribe(service, thread_id, { channels: ["custom"], since: 1 });
          for (let takenCount = 0; takenCount < count; ) takenCount += (await reader.next()).length;
          reader.leave();
        }
        const { user, system } = process.cpuUsage(before);
        best = Math.max(best, (1_000 * count * replays) / (user + system));
      }
      return best;
    }

    const [few, many] = [await rate(500, 40), await rate(20_000, 1)];
    assert.ok(many > few / 3, `${many} events per ms of a large page, ${few} of a small one`);
  });

  it("end when their thread cannot be read", async () => {
    const clock = testClock();
    const bus = { subscribe: () => () => {} } as unknown as EventBus;
    const getThread = (): never => {
      throw new Error("down");
    };
    const guards = createStreamGuards({
      storage: { getThread },
      bus,
      environment: { ...systemEnvironment(), ...clock },
    });
    let leaveCount = 0;
    const items = createReader(
      async () => [1],
      () => leaveCount++,
    );
    const scope = { deployment: "default", filter: [{ key: "owner", value: "ann" }] } as unknown as Scope;
    const reader = guards.reader({ scope }, items, { thread_id: crypto.randomUUID() });
    await clock.advance(1_500);
    await assert.rejects(async () => {
      for await (const _ of reader);
    }, /down/);
    assert.equal(leaveCount, 1);
  });

  it("wake up without others when they leave", async () => {
    const change = new ChangeNotifier();
    const woken: string[] = [];
    const [first, second] = [{}, {}];
    void change.wait(first).then(() => woken.push("one"));
    void change.wait(second).then(() => woken.push("other"));
    change.wake(first);
    await tick();
    assert.deepEqual(woken, ["one"]);
    change.notify();
    await tick();
    assert.deepEqual(woken, ["one", "other"]);
  });

  it("of a run leave one by one, and the others get its frames", async () => {
    const environment = { now: () => 0, timer: () => () => {}, defer: (fn: () => void) => void setImmediate(fn) };
    const hub = new StreamHub(environment as never);
    const run = hub.getLog("run");
    const [first, second] = [run.read(0), run.read(0)];
    const [firstRead, secondRead] = [first.next(), second.next()];
    await tick();
    first.leave();
    assert.deepEqual(await firstRead, []);
    run.publish("custom", "1");
    assert.deepEqual(await secondRead, [{ id: 1, event: "custom", data: "1" }]);
    second.leave();
  });
});
