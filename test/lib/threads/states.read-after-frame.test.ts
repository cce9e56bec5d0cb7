/** A state that is read after a frame is never older than the frame. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { recordStates } from "../../../lib/executor/state-recorder.ts";
import { createService, type Executor, type Frame, type RunCreate, type Service } from "../../../lib/mod.ts";
import { findMissingTexts, readBackAgents, readExpectedTexts } from "../../e2e/read-after-frame-agents.ts";
import { testClock, testService } from "../../suite/kit.ts";
import { advanceUntil, collect, createClockedService, createFaultyStorage } from "../../support/faulty.ts";
import { createHub } from "../../support/shared-database.ts";

// Timers of services keep no process alive.
let alive: ReturnType<typeof setInterval>;
before(() => {
  alive = setInterval(() => {}, 1_000);
});
after(() => clearInterval(alive));

/** An upper bound of the frames of a run. */
const ROUNDS = 12;
const parsed = ({ event, data }: Frame): { readonly event: string; readonly data: unknown } => ({
  event,
  data: JSON.parse(data),
});

/** Every way to read a thread. */
const reads: Readonly<Record<string, (service: Service, thread_id: string) => Promise<unknown>>> = {
  state: ({ threads }, thread_id) => threads.state(thread_id),
  history: ({ threads }, thread_id) => threads.history(thread_id),
  thread: ({ threads }, thread_id) => threads.get(thread_id),
  search: async ({ threads }, thread_id) => (await threads.search({ ids: [thread_id] })).items,
};

/** Streams a run and reads after the frame of this number. Returns the missing texts; `last` is true after the last frame. */
async function round(
  service: Service,
  assistant_id: string,
  number: number,
  name: string,
  runFields: Partial<RunCreate>,
): Promise<{ readonly missing: string[]; readonly last: boolean }> {
  const { thread_id } = await service.threads.create();
  const word = "w".repeat(1 + (number % 4));
  const stream_mode = ["values", "updates"] as const;
  const request: RunCreate = { assistant_id, input: { log: [word] }, stream_mode: [...stream_mode], ...runFields };
  const { frames } = await service.runs.stream(thread_id, request);
  const read = reads[name] as (typeof reads)[string];
  const missing: string[] = [];
  let count = 0;
  let ended = false;
  for await (const frame of frames) {
    ended = frame.event === "end";
    if (count++ !== number) continue;
    const frameContent = parsed(frame);
    const expectedTexts = ended ? ["interrupted", `${word}-question`] : readExpectedTexts(frameContent);
    const answer = await read(service, thread_id);
    // A state has no status of the thread.
    const requiredTexts =
      name === "thread" || name === "search" ? expectedTexts : expectedTexts.filter((text) => text !== "interrupted");
    missing.push(
      ...findMissingTexts(requiredTexts, answer).map((text) => `${name} after ${frame.event} ${number}: ${text}`),
    );
  }
  return { missing, last: ended && count <= number + 1 };
}

for (const assistant_id of ["graph", "nested", "steps"]) {
  for (const runFields of [{}, { durability: "sync" }, { stream_resumable: true }] satisfies Partial<RunCreate>[]) {
    describe(`${assistant_id}, read after each frame, ${JSON.stringify(runFields)}`, () => {
      for (const name of Object.keys(reads)) {
        it(name, async () => {
          await using kit = await testService({ executor: readBackAgents() });
          const behind: string[] = [];
          let number = 0;
          for (let i = 0; i < ROUNDS; i++) {
            const subgraphs = assistant_id === "nested" ? { stream_subgraphs: i % 2 === 0 } : {};
            const { missing, last } = await round(kit.service, assistant_id, number, name, {
              ...runFields,
              ...subgraphs,
            });
            behind.push(...missing);
            number = last ? 0 : number + 1;
          }
          assert.deepEqual(behind, []);
        });
      }
    });
  }
}

describe("a process that reads a run of another one", () => {
  for (const assistant_id of ["graph", "nested", "steps"]) {
    it(`is never behind a frame that it has emitted: ${assistant_id}`, async () => {
      const database = createFaultyStorage();
      const hub = createHub("normal", (ms, fn) => setTimeout(fn, ms));
      const shared = { single_process: false, multi_process: true, signals: hub, becomeWorker: async () => true };
      const open = (concurrency: number): Promise<Service> =>
        createService({
          storage: { ...database.storage, ...shared, close: async () => {} },
          executor: readBackAgents(),
          worker: { concurrency },
          environment: { log: () => {} },
        });
      const [executing, reading] = [await open(10), await open(0)];
      try {
        const behind: string[] = [];
        for (const name of Object.keys(reads)) {
          let number = 0;
          for (let i = 0; i < ROUNDS; i++) {
            const { missing, last } = await round(reading, assistant_id, number, name, {
              stream_subgraphs: i % 2 === 0,
            });
            behind.push(...missing);
            number = last ? 0 : number + 1;
          }
        }
        assert.deepEqual(behind, []);
      } finally {
        await reading.stop(0);
        await executing.stop(0);
        await database.storage.close();
      }
    });
  }
});

describe("a read of a thread during its run", () => {
  it("returns the pending interrupt, and waits for no other node", async () => {
    await using kit = await testService({ executor: readBackAgents() });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const request: RunCreate = { assistant_id: "slow", input: { log: ["w"] }, stream_mode: ["updates"] };
    const { run, frames } = await runs.stream(thread_id, request);
    for await (const frame of frames) if (frame.event === "updates") break;
    const thread = await threads.get(thread_id);
    assert.equal(thread.status, "busy");
    assert.deepEqual(findMissingTexts(["w-question"], thread.interrupts), []);
    assert.deepEqual((await threads.search({ ids: [thread_id], select: ["interrupts"] })).items, [
      { interrupts: thread.interrupts },
    ]);
    await runs.cancel(thread_id, run.run_id, { wait: true });
  });

  /** Emits a value with its state, then one for each of these, whose states come at the end. */
  const telling = (after: readonly unknown[]): Executor => ({
    graphs: () => [{ graph_id: "g" }],
    execute: recordStates(async function* () {
      yield { type: "state", values: { at: 1 }, next: ["more"], tasks: [] };
      yield { type: "stream", mode: "values", data: { at: 1 } };
      yield { type: "stream", mode: "custom", data: "shown" };
      for (const name of after) {
        await name;
        yield { type: "stream", mode: "values", data: { at: 2 } };
      }
      yield { type: "state", values: { at: 2 }, next: [], tasks: [] };
    }),
  });
  const ask: RunCreate = { assistant_id: "g", stream_mode: ["values", "custom"] };

  it("returns the stored state while the store takes no writes", async () => {
    const clock = testClock();
    const database = createFaultyStorage();
    const go = Promise.withResolvers<void>();
    const stored = Promise.withResolvers<void>();
    database.faults.saveProgress = async (call) => {
      await stored.promise;
      return await call();
    };
    await using kit = await createClockedService(clock, { storage: database.storage, executor: telling([go.promise]) });
    const { thread_id } = await kit.service.threads.create();
    const read = collect((await kit.service.runs.stream(thread_id, ask)).frames);
    await advanceUntil(clock, () => read.list.length === 3, 1);
    let state: unknown;
    void kit.service.threads.state(thread_id).then(({ values }) => {
      state = values;
    });
    await clock.advance(1_000);
    assert.equal(state, undefined);
    await advanceUntil(clock, () => state !== undefined, 100, 30);
    assert.deepEqual(state, {});
    // The awaited state arrives, and the read returns.
    let late: unknown;
    void kit.service.threads.state(thread_id).then(({ values }) => {
      late = values;
    });
    await clock.advance(10);
    assert.equal(late, undefined);
    stored.resolve();
    await clock.advance(0);
    await clock.advance(0);
    assert.deepEqual(late, { at: 1 });
    go.resolve();
    await advanceUntil(clock, read.ended);
  });

  it("stops waiting for a run that is rolled back", async () => {
    const clock = testClock();
    const database = createFaultyStorage();
    await using kit = await createClockedService(clock, {
      storage: database.storage,
      executor: telling([new Promise(() => {})]),
    });
    const { thread_id } = await kit.service.threads.create();
    const stream = await kit.service.runs.stream(thread_id, ask);
    const read = collect(stream.frames);
    await advanceUntil(clock, () => read.list.length === 3, 1);
    database.faults.saveProgress = () => new Promise(() => {});
    const answers: unknown[] = [];
    void kit.service.threads.state(thread_id).then(({ values }) => answers.push(values));
    void kit.service.threads.get(thread_id).then(({ values }) => answers.push(values));
    await kit.service.runs.cancel(thread_id, stream.run.run_id, { action: "rollback" });
    await advanceUntil(clock, () => answers.length === 2, 100, 30);
    assert.deepEqual(answers, [{}, null]);
    assert.deepEqual((await kit.service.threads.state(thread_id)).values, {});
  });

  it("returns values whose state does not follow after the executor has settled", async () => {
    const clock = testClock();
    const go = Promise.withResolvers<void>();
    await using kit = await createClockedService(clock, { executor: telling([undefined, go.promise]) });
    const { thread_id } = await kit.service.threads.create();
    const read = collect((await kit.service.runs.stream(thread_id, ask)).frames);
    await advanceUntil(clock, () => read.list.length === 4, 1);
    assert.equal(read.list.at(-1)?.data, '{"at":2}');
    go.resolve();
    await advanceUntil(clock, read.ended);
    assert.deepEqual(
      read.list.map(({ id, event }) => [id, event]),
      ["metadata", "values", "custom", "values", "values", "end"].map((event, i) => [i + 1, event]),
    );
  });
});
