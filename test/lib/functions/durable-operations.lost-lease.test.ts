/** Durable functions whose process stands still, stops or cannot reach its store at an awkward moment. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { type Executor, type FunctionJob, fromFunctions } from "../../../lib/mod.ts";
import { testClock, testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";
import { advanceUntil, createClockedService, createFaultyStorage, kill } from "../../support/faulty.ts";
import { until } from "../../support/until.ts";

keepAlive();

const LEASE_MS = 10_000;
const worker = { lease_ms: LEASE_MS };
const request = { assistant_id: "agent", input: {} };

describe("a durable function whose process stalls or dies", () => {
  it("does not retry a step in a stalled process before another process has the run", async () => {
    const [clock, later] = [testClock(), testClock()];
    const log: string[] = [];
    const createAgent = (process: string) => {
      return async ({ step }: FunctionJob): Promise<string> => {
        const charge = ({ attempt }: { readonly attempt: number }): void => {
          log.push(`${process} charges ${attempt}`);
          if (attempt === 1) throw new Error("declined");
        };
        await step("charge", charge, { retries: 3, backoff: "1s" });
        await step("ship", () => void log.push(`${process} ships`));
        return "done";
      };
    };
    const first = createFaultyStorage();
    const second = first.share();
    const agents = (process: string) => fromFunctions({ agent: createAgent(process) });
    await using a = await createClockedService(clock, { storage: first.storage, worker, executor: agents("a") });
    const { thread_id } = await a.service.threads.create();
    const { run_id } = await a.service.runs.create(thread_id, request);
    await advanceUntil(clock, async () => (await a.service.runs.steps(thread_id, run_id)).steps.length > 0, 1);
    await later.advance(2 * LEASE_MS);
    await using b = await createClockedService(later, { storage: second.storage, worker, executor: agents("b") });
    await advanceUntil(later, async () => (await b.service.runs.get(thread_id, run_id)).status === "success");
    await clock.set(later.now());
    await clock.advance(LEASE_MS);
    assert.deepEqual(log, ["a charges 1", "b charges 2", "b ships"]);
  });

  it("keeps its interrupt pending if the process died before the end of the run was stored", async () => {
    const [clock, later] = [testClock(), testClock()];
    const agent = async ({ step, ask, wait }: FunctionJob): Promise<string> => {
      await step("begin", () => 1);
      const answer = await ask("choice", "Which one?");
      return `${answer} ${await wait("parcel")}`;
    };
    const executor = fromFunctions({ agent });
    const first = createFaultyStorage();
    const second = first.share();
    await using a = await createClockedService(clock, { storage: first.storage, worker, executor });
    const { thread_id } = await a.service.threads.create();
    first.faults.finishRun = () => {
      kill(first);
      return new Promise(() => {});
    };
    const { run_id } = await a.service.runs.create(thread_id, { ...request, durability: "sync" });
    await advanceUntil(clock, () => first.faults.claimRun !== undefined);
    await a.service.threads.send(thread_id, "parcel", "RX-7");
    await later.advance(2 * LEASE_MS);
    await using b = await createClockedService(later, { storage: second.storage, worker, executor });
    const { runs, threads } = b.service;
    await advanceUntil(later, async () => (await runs.get(thread_id, run_id)).status === "success");
    await advanceUntil(later, async () => (await threads.get(thread_id)).status === "interrupted");
    const resume = { assistant_id: "agent", command: { resume: "This one" } };
    const answered = await runs.create(thread_id, resume);
    await advanceUntil(later, async () => (await runs.get(thread_id, answered.run_id)).status === "success");
    assert.equal(readTexts((await threads.state(thread_id)).values).at(-1), "This one RX-7");
  });

  it("does not fail if the process stalled between two storage operations that failed", async () => {
    const clock = testClock();
    const { storage, faults, calls } = createFaultyStorage();
    const agent = async ({ step, sleep }: FunctionJob): Promise<string> => {
      await step("begin", () => 1);
      await sleep("rest", "1h");
      return "done";
    };
    const executor = fromFunctions({ agent });
    await using kit = await createClockedService(clock, { storage, worker, executor });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const { run_id } = await runs.create(thread_id, request);
    await advanceUntil(clock, async () => (await runs.get(thread_id, run_id)).waiting_for !== undefined);
    let failures = 0;
    faults.readJournalEntries = (call) => {
      if (++failures > 2) return call();
      throw new Error("the store could not be reached");
    };
    await clock.set(clock.now() + 3_600_000);
    await advanceUntil(clock, () => failures === 1, 10);
    await clock.set(clock.now() + 3 * LEASE_MS);
    await advanceUntil(clock, async () => (await runs.get(thread_id, run_id)).status !== "pending");
    await advanceUntil(clock, async () => (await runs.get(thread_id, run_id)).status !== "running");
    assert.equal((await runs.get(thread_id, run_id)).status, "success");
    assert.equal(calls.suspendRun, 1);
  });

  it("raises its interrupts beside a sleep also if creating their ids takes long", async () => {
    const clock = testClock();
    const agent = async ({ ask, sleep }: FunctionJob): Promise<string> => {
      void sleep("cool off", "30d");
      return (await Promise.all([ask("first", "First?"), ask("second", "Second?")])).join();
    };
    await using kit = await createClockedService(clock, { worker, executor: fromFunctions({ agent }) });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const { subtle } = crypto;
    const digest = subtle.digest.bind(subtle);
    let heldCalls = 0;
    const gate = Promise.withResolvers<void>();
    subtle.digest = async (algorithm, data) => {
      if (algorithm === "SHA-1") {
        heldCalls++;
        await gate.promise;
      }
      return await digest(algorithm, data);
    };
    try {
      const { run_id } = await runs.create(thread_id, request);
      await advanceUntil(clock, () => heldCalls > 0, 1);
      await clock.advance(1000);
      gate.resolve();
      await advanceUntil(clock, async () => (await runs.get(thread_id, run_id)).status !== "running");
    } finally {
      gate.resolve();
      subtle.digest = digest;
    }
    const { interrupts } = await threads.state(thread_id);
    assert.deepEqual(
      interrupts.map(({ value }) => value),
      ["First?", "Second?"],
    );
  });

  it("wakes for an event that arrives during its suspension", async () => {
    const clock = testClock();
    const { storage, faults } = createFaultyStorage();
    let reads = 0;
    faults.readCallEvents = async (call) => {
      const events = await call();
      reads++;
      return events;
    };
    const agent = async ({ wait }: FunctionJob): Promise<unknown> => await wait("parcel");
    await using kit = await createClockedService(clock, { storage, worker, executor: fromFunctions({ agent }) });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    let run_id = "";
    faults.countSuspended = async (call) => {
      delete faults.countSuspended;
      const before = reads;
      await runs.send(thread_id, run_id, "parcel", "came");
      // The signal makes the attempt, which is still active, read its events.
      await until(() => reads > before);
      return await call();
    };
    ({ run_id } = await runs.create(thread_id, request));
    await advanceUntil(clock, async () => (await runs.get(thread_id, run_id)).status === "success", 100, 50);
    const { messages } = (await (await runs.join(thread_id, run_id)).result) as { messages: { content: string }[] };
    assert.deepEqual(
      messages.map(({ content }) => content),
      ["came"],
    );
  });

  it("does not start over when another process deletes its thread while it reads the journal", async () => {
    const clock = testClock();
    const first = createFaultyStorage();
    const second = first.share();
    const log: string[] = [];
    const agent = async ({ step, sleep }: FunctionJob): Promise<string> => {
      await step("charge", () => void log.push("charged"));
      await sleep("rest", "1h");
      return "done";
    };
    await using kit = await createClockedService(clock, {
      storage: first.storage,
      worker,
      executor: fromFunctions({ agent }),
    });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const { run_id } = await runs.create(thread_id, request);
    await advanceUntil(clock, async () => (await runs.get(thread_id, run_id)).waiting_for !== undefined);
    let deleted = false;
    first.faults.readJournalEntries = async (call) => {
      deleted ||= await second.storage.deleteThread({ deployment: "default" }, thread_id);
      return await call();
    };
    await clock.set(clock.now() + 3_600_000);
    await advanceUntil(clock, () => deleted);
    await clock.advance(2 * LEASE_MS);
    assert.deepEqual(log, ["charged"]);
  });

  it("keeps the states that a step wrote if a stop comes before its journal entry", async () => {
    const storage = nodeSqlite(":memory:");
    const agent = async function* ({ step }: FunctionJob) {
      yield "Before. ";
      yield (await step("write", tokens)) === "one two " ? "After." : "Lost.";
    };
    async function* tokens(): AsyncGenerator<string> {
      yield "one ";
      yield "two ";
    }
    const executor = fromFunctions({ agent });
    let stopping: Promise<void> | undefined;
    const stopped: Executor = {
      ...executor,
      async *execute(...args) {
        for await (const event of executor.execute(...args)) {
          yield event;
          const { messages } = (event.type === "state" ? event.values : {}) as { messages?: { content: string }[] };
          if (messages?.at(-1)?.content !== "Before. ") continue;
          stopping ??= first.service.stop(0);
          await until(() => args[1].aborted);
        }
      },
    };
    const first = await testService({ storage: { ...storage, close: async () => {} }, executor: stopped });
    const { thread_id } = await first.service.threads.create();
    const { run_id } = await first.service.runs.create(thread_id, request);
    await until(() => stopping !== undefined);
    await stopping;
    await using second = await testService({ storage, executor });
    const { runs, threads } = second.service;
    await until(async () => (await runs.get(thread_id, run_id)).status === "success");
    assert.deepEqual(readTexts((await threads.state(thread_id)).values), ["Before. ", "one two ", "After."]);
  });

  it("emits a reply once that a step has completed", async () => {
    const [clock, later] = [testClock(), testClock()];
    const first = createFaultyStorage();
    const second = first.share();
    const executor = (dies: boolean) =>
      fromFunctions({
        agent: async function* ({ step }: FunctionJob) {
          await step("begin", () => 1);
          yield "Before. ";
          await step("write", async function* () {
            yield "one two ";
          });
          await step("hang", () => (dies ? new Promise<void>(() => {}) : undefined));
          yield "After.";
        },
      });
    await using a = await createClockedService(clock, { storage: first.storage, worker, executor: executor(true) });
    const { thread_id } = await a.service.threads.create();
    const { run_id } = await a.service.runs.create(thread_id, {
      ...request,
      stream_mode: "messages-tuple",
      stream_resumable: true,
    });
    await advanceUntil(clock, async () => (await a.service.runs.steps(thread_id, run_id)).steps.length > 1, 1);
    kill(first);
    await later.advance(2 * LEASE_MS);
    await using b = await createClockedService(later, { storage: second.storage, worker, executor: executor(false) });
    const { runs, threads } = b.service;
    await advanceUntil(later, async () => (await runs.get(thread_id, run_id)).status === "success");
    assert.deepEqual(readTexts((await threads.state(thread_id)).values), ["Before. ", "one two ", "After."]);
  });
});

const readTexts = (values: unknown): string[] =>
  (values as { readonly messages: readonly { readonly content: string }[] }).messages.map(({ content }) => content);
