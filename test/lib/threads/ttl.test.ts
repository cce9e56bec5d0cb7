import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { ConfigError, createService, type Executor, fromFunctions, type ServiceOptions } from "../../../lib/mod.ts";
import type { TestClock, TestService } from "../../suite/kit.ts";
import { testClock } from "../../suite/kit.ts";
import { advanceUntil, createClockedService } from "../../support/faulty.ts";

// Timers of the service keep no process alive, and some tests wait for nothing else.
let alive: ReturnType<typeof setInterval>;
before(() => {
  alive = setInterval(() => {}, 1_000);
});
after(() => clearInterval(alive));

const MINUTE = 60_000;
const refusal = (code: string, text: RegExp) => (error: { code?: string; message: string }) => {
  assert.equal(error.code, code, error.message);
  assert.match(error.message, text);
  return true;
};

const echo = fromFunctions({
  async *echo({ messages }) {
    yield { messages: [{ role: "assistant", content: `You said: ${String(messages.at(-1)?.content)}` }] };
  },
});

describe("threads with a time to live", () => {
  const host = async (
    checkpointer: ServiceOptions["checkpointer"] & object,
    executor: Executor = echo,
  ): Promise<{ clock: TestClock; host: TestService }> => {
    const clock = testClock();
    return { clock, host: await createClockedService(clock, { executor, checkpointer }) };
  };
  const absent = async (at: TestService, thread_id: string): Promise<boolean> =>
    (await at.service.threads.search({ ids: [thread_id] })).items.length === 0;

  it("are deleted after inactivity, and their readers end", async () => {
    const { clock, host: opened } = await host({});
    await using at = opened;
    const { threads } = at.service;
    const short = await threads.create({ ttl: 3 });
    const long = await threads.create({ ttl: { ttl: 7 } });
    const stays = await threads.create();
    const reading = (async () => {
      for await (const _ of await threads.stream(short.thread_id, { modes: ["lifecycle"] }));
    })();
    await clock.advance(4 * MINUTE);
    assert.equal(await threads.count(), 3);
    await threads.update(long.thread_id, { metadata: { seen: true } });
    // Expired threads are deleted every five minutes.
    await clock.advance(MINUTE);
    await advanceUntil(clock, () => absent(at, short.thread_id));
    await assert.rejects(threads.get(short.thread_id), refusal("not_found", /not found/));
    await reading;
    // The update restarts the time to live, which now ends after eleven minutes instead of seven.
    await clock.advance(5 * MINUTE);
    assert.equal(await threads.count(), 2);
    await clock.advance(5 * MINUTE);
    await advanceUntil(clock, () => absent(at, long.thread_id));
    assert.deepEqual(
      (await threads.search({ limit: 10 })).items.map(({ thread_id }) => thread_id),
      [stays.thread_id],
    );
  });

  it("keep their newest state with strategy keep_latest", async () => {
    const { clock, host: opened } = await host({
      ttl: { default_ttl: 1.5, strategy: "keep_latest", sweep_interval_minutes: 1 },
    });
    await using at = opened;
    const { threads, runs } = at.service;
    const { thread_id } = await threads.create();
    await runs.create(thread_id, { assistant_id: "echo", input: { messages: ["hi"] } });
    await advanceUntil(clock, async () => (await threads.get(thread_id)).status === "idle");
    const before = await threads.state(thread_id);
    const { ttl } = await threads.get(thread_id, { include: ["ttl"] });
    assert.deepEqual([ttl?.strategy, ttl?.ttl_minutes], ["keep_latest", 1.5]);
    assert.ok((await threads.history(thread_id)).length > 1);
    await clock.advance(2 * MINUTE);
    await advanceUntil(clock, async () => (await threads.history(thread_id)).length === 1);
    assert.deepEqual((await threads.state(thread_id)).values, before.values);
  });

  it("get the default also if a run creates them, except stateless ones, and wait while a run is active", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const waits = fromFunctions({ waits: () => promise });
    const { clock, host: opened } = await host({ ttl: { default_ttl: 2, sweep_interval_minutes: 1 } }, waits);
    await using at = opened;
    const { threads, runs } = at.service;
    const thread_id = "7f1c9c6e-3f5b-4f0a-9d59-3a2f5f0c0a01";
    const run = { assistant_id: "waits", if_not_exists: "create" } as const;
    const busy = await runs.create(thread_id, run);
    const stateless = await runs.create(null, { assistant_id: "waits" });
    const keptRun = await runs.create(null, { assistant_id: "waits", on_completion: "keep" });
    const minutes = async (id: string): Promise<number | undefined> =>
      (await threads.get(id, { include: ["ttl"] })).ttl?.ttl_minutes;
    assert.deepEqual([await minutes(thread_id), await minutes(keptRun.thread_id)], [2, 2]);
    assert.equal(await minutes(stateless.thread_id), undefined);
    await clock.advance(4 * MINUTE);
    assert.equal((await threads.get(thread_id)).status, "busy");
    resolve();
    for (const { thread_id, run_id } of [busy, keptRun]) {
      await advanceUntil(clock, async () => (await runs.get(thread_id, run_id)).status === "success");
    }
    assert.equal((await threads.get(thread_id)).status, "idle");
    await clock.advance(3 * MINUTE);
    await advanceUntil(clock, () => absent(at, thread_id));
  });

  it("are refused with invalid options", async () => {
    const ttl = { strategy: "burn", default_ttl: 0, sweep_interval_minutes: -1, often: true };
    const options = { storage: nodeSqlite(":memory:"), executor: echo, checkpointer: { ttl } };
    await assert.rejects(createService(options as never), (error: ConfigError) => {
      assert.ok(error instanceof ConfigError);
      const keys = error.problems.map((problem) => problem.split(":")[0]);
      assert.deepEqual(
        keys.toSorted(),
        ["default_ttl", "often", "strategy", "sweep_interval_minutes"].map((key) => `checkpointer.ttl.${key}`),
      );
      return true;
    });
  });
});
