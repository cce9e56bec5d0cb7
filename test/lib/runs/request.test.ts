import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import type { GraphState } from "../../../lib/executor/contract.ts";
import { recordStates } from "../../../lib/executor/state-recorder.ts";
import { combine, createService, type Executor, type Frame, fromFunctions, type JsonObject } from "../../../lib/mod.ts";
import { testService } from "../../suite/kit.ts";
import { createFaultyStorage } from "../../support/faulty.ts";
import { until } from "../webhooks/webhooks.harness.ts";

// Timers of the service keep no process alive, and some tests wait for nothing else.
let alive: ReturnType<typeof setInterval>;
before(() => {
  alive = setInterval(() => {}, 1_000);
});
after(() => clearInterval(alive));

async function read(frames: AsyncIterable<Frame>): Promise<Frame[]> {
  const all: Frame[] = [];
  for await (const frame of frames) all.push(frame);
  return all;
}

/** Creates a graph whose state can be read only by a checkpoint's id, or not at all. */
function fragile(graph_id: string, byId: boolean): Executor {
  const ownFunctions = fromFunctions({ [graph_id]: async () => ({ done: true }) });
  const state: Partial<GraphState> = {
    async get({ thread_id, checkpoint_id }, reader) {
      const stored = checkpoint_id !== undefined && byId ? await reader.get({ ns: "", checkpoint_id }) : null;
      if (!stored) throw new TypeError("what is to be applied cannot be");
      return {
        values: { read: "by id" },
        next: [],
        tasks: [],
        metadata: stored.metadata,
        created_at: new Date(stored.created_at).toISOString(),
        checkpoint: { thread_id, checkpoint_ns: "", checkpoint_id: stored.checkpoint_id, checkpoint_map: null },
        parent_checkpoint: null,
        interrupts: [],
      };
    },
  };
  return { ...ownFunctions, state: () => state as GraphState };
}

describe("a created run", () => {
  it("is returned as pending, even after a worker has claimed it", async () => {
    await using kit = await testService({ agents: { ok: async () => "ok" } });
    const { thread_id } = await kit.service.threads.create();
    for (const at of [thread_id, null]) {
      const run = await kit.service.runs.create(at, { assistant_id: "ok" });
      assert.equal(run.status, "pending");
      await (await kit.service.runs.join(run.thread_id, run.run_id)).result;
      assert.equal((await kit.service.runs.get(run.thread_id, run.run_id)).status, "success");
    }
  });
});

describe("a configuration with contradictions", () => {
  it("is refused in an assistant and in a run", async () => {
    await using kit = await testService({ agents: { ok: async () => "ok" } });
    const { assistants, runs } = kit.service;
    const both = { config: { configurable: { model: "a", same: [1] } }, context: { model: "b", same: [1] } };
    const refusal = { code: "bad_request", message: /^model has two values/ };
    await assert.rejects(assistants.create({ graph_id: "ok", ...both }), refusal);
    await assert.rejects(assistants.update("ok", both), refusal);
    await assert.rejects(runs.create(null, { assistant_id: "ok", ...both }), refusal);
    const agreed = { config: both.config, context: { model: "a", other: 1 } };
    assert.deepEqual((await assistants.create({ graph_id: "ok", ...agreed })).context, agreed.context);
    // Members of another version are not part of the request.
    await assistants.update("ok", { config: both.config });
    assert.deepEqual((await assistants.update("ok", { context: both.context })).config, {});
  });
});

describe("the start checkpoint of a run", () => {
  it("can be named in each way of the clients, and is not kept by the thread", async () => {
    await using kit = await testService({ agents: { log: async () => null } });
    const { threads, runs } = kit.service;
    const { thread_id } = await threads.create();
    const turn = async (input: JsonObject, requestFields: object = {}): Promise<unknown> =>
      (await runs.wait(thread_id, { assistant_id: "log", input, ...requestFields })).result;
    await turn({ a: 1 });
    const checkpoint_id = (await threads.state(thread_id)).checkpoint?.checkpoint_id as string;
    for (const named of [
      { checkpoint: { checkpoint_id, checkpoint_ns: "", checkpoint_map: null } },
      { checkpoint_id },
      { config: { configurable: { checkpoint_id, checkpoint_ns: "", thread_id: "other", own: 1 } } },
    ]) {
      await turn({ b: 2 });
      assert.deepEqual(await turn({ c: 3 }, named), { a: 1, c: 3 });
    }
    assert.deepEqual((await threads.get(thread_id)).config, { configurable: { own: 1 } });
    assert.deepEqual(await turn({ d: 4 }), { a: 1, c: 3, d: 4 });
    const unknown = { config: { configurable: { checkpoint_id: "none" } } };
    await assert.rejects(turn({}, unknown), { code: "not_found", message: /no checkpoint none/ });
    await assert.rejects(runs.create(null, { assistant_id: "log", ...unknown }), { code: "bad_request" });
  });
});

describe("a join of an ended run", () => {
  it("returns the values after the last run, and the error of the run", async () => {
    const hold = Promise.withResolvers<void>();
    await using kit = await testService({
      agents: {
        log: async ({ input }) => {
          if ((input as JsonObject)["fail"]) throw new RangeError("too far");
          return input as JsonObject;
        },
        async *slow() {
          yield { begun: 1 };
          await hold.promise;
        },
      },
    });
    const { threads, runs } = kit.service;
    const { thread_id } = await threads.create();
    const turn = async (input: JsonObject): Promise<[string, unknown]> => {
      const { run, result } = await runs.wait(thread_id, { assistant_id: "log", input });
      return [run.run_id, await result];
    };
    const join = async (run_id: string): Promise<unknown> => await (await runs.join(thread_id, run_id)).result;
    const [first, ownState] = await turn({ a: 1 });
    assert.deepEqual([ownState, await join(first)], [{ a: 1 }, { a: 1 }]);
    const [second] = await turn({ b: 2 });
    assert.deepEqual(
      [await join(first), await join(second)],
      [
        { a: 1, b: 2 },
        { a: 1, b: 2 },
      ],
    );
    const request = { assistant_id: "slow", durability: "sync", stream_mode: ["values"] } as const;
    const slow = await runs.stream(thread_id, request);
    for await (const { data } of slow.frames) if (data.includes("begun")) break;
    assert.deepEqual(await join(second), { a: 1, b: 2 });
    const waiting = join(slow.run.run_id);
    hold.resolve();
    assert.deepEqual(await waiting, { a: 1, b: 2, begun: 1 });
    assert.deepEqual(await join(first), { a: 1, b: 2, begun: 1 });
    const [failed, error] = await turn({ fail: 1 });
    assert.deepEqual(error, { __error__: { error: "RangeError", message: "too far" } });
    assert.deepEqual(await join(failed), error);
    const { run, result } = await runs.wait(null, { assistant_id: "log", input: { c: 3 } });
    assert.deepEqual([await result, await (await runs.join(run.thread_id, run.run_id)).result], [{ c: 3 }, { c: 3 }]);
  });

  it("returns pending nodes only if the run stopped at a breakpoint", async () => {
    await using kit = await testService({
      agents: {
        async *half({ signal }) {
          yield { half: true };
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
        },
      },
    });
    const { threads, runs } = kit.service;
    const { thread_id } = await threads.create();
    const request = { assistant_id: "half", input: { a: 1 } };
    const interrupted = await runs.wait(thread_id, { ...request, interrupt_before: "*" });
    assert.deepEqual(await interrupted.result, { a: 1, __interrupt__: [] });
    const { run, frames } = await runs.stream(thread_id, { assistant_id: "half", stream_mode: ["values"] });
    const waiting = runs.join(thread_id, run.run_id);
    for await (const { data } of frames) if (data.includes("half")) break;
    // The emitted state is not recorded yet.
    await until(async () => Object.hasOwn((await threads.state(thread_id)).values as JsonObject, "half"));
    await runs.cancel(thread_id, run.run_id, { wait: true });
    assert.deepEqual(await (await waiting).result, { a: 1, half: true });
    assert.deepEqual(await (await runs.join(thread_id, run.run_id)).result, { a: 1, half: true });
    assert.equal((await threads.get(thread_id)).status, "interrupted");
    // The run that wrote the state decides, and not the joined run.
    const otherRun = await runs.wait(thread_id, { ...request, interrupt_before: "*" });
    assert.deepEqual(await otherRun.result, { a: 1, half: true, __interrupt__: [] });
    const joined = await (await runs.join(thread_id, run.run_id)).result;
    assert.deepEqual(joined, { a: 1, half: true, __interrupt__: [] });
  });
});

describe("a run that is cancelled before its first state", () => {
  it("leaves the thread unchanged, and returns its state", async () => {
    await using kit = await testService({
      agents: {
        async *ask(job) {
          if (!job.command) yield job.interrupt("sure?");
          yield { begun: true };
          await new Promise((resolve) => job.signal.addEventListener("abort", resolve));
        },
      },
    });
    const { threads, runs } = kit.service;
    const { thread_id } = await threads.create();
    const interruptedRun = await runs.wait(thread_id, { assistant_id: "ask", input: { x: 1 } });
    const question = await interruptedRun.result;
    const [{ interrupts, status }, state] = [await threads.get(thread_id), await threads.state(thread_id)];
    assert.deepEqual([status, (question as JsonObject)["x"], state.next], ["interrupted", 1, ["ask"]]);
    const { run, result } = await runs.wait(thread_id, {
      assistant_id: "ask",
      command: { resume: "yes" },
      durability: "exit",
    });
    const { frames } = await runs.joinStream(thread_id, run.run_id);
    for await (const { data } of frames) if (data.includes("begun")) break;
    await runs.cancel(thread_id, run.run_id, { wait: true });
    assert.deepEqual(await result, question);
    assert.deepEqual(await (await runs.join(thread_id, run.run_id)).result, question);
    const now = await threads.get(thread_id);
    assert.deepEqual([now.status, now.interrupts], ["interrupted", interrupts]);
    assert.deepEqual(await threads.get(thread_id, { state: false }), { ...now, values: null });
    assert.deepEqual(await threads.state(thread_id), state);
  });
});

describe("a service that stops", () => {
  it("reports to waiting clients that the run continues later", async () => {
    const started = Promise.withResolvers<void>();
    await using kit = await testService({
      agents: {
        async slow({ signal }) {
          started.resolve();
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
          return "late";
        },
      },
    });
    const { result } = await kit.service.runs.wait(null, { assistant_id: "slow" });
    await started.promise;
    await kit.service.stop(0);
    assert.equal(((await result) as { __error__: JsonObject }).__error__["error"], "ServerStopping");
  });
});

describe("a join of a stream", () => {
  it("that has ended always ends, for every position", async () => {
    const storage = nodeSqlite(":memory:");
    const sharedStorage = createFaultyStorage(storage).share().storage;
    const executor = fromFunctions({
      ok: async () => "ok",
      broken: async () => {
        throw new RangeError("too far");
      },
    });
    const options = { storage: sharedStorage, executor, environment: { log: () => {} } };
    const firstService = await createService(options);
    const { thread_id } = await firstService.threads.create();
    const ended: { run_id: string; expected: string[] }[] = [];
    for (const [assistant_id, expected] of [
      ["ok", ["end"]],
      ["broken", ["error", "end"]],
    ] as const) {
      const { run, frames } = await firstService.runs.stream(thread_id, { assistant_id });
      const all = await read(frames);
      const last = all.at(-1) as Frame;
      ended.push({ run_id: run.run_id, expected: [...expected] });
      const again = async (after: number): Promise<Frame[]> =>
        await read((await firstService.runs.joinStream(thread_id, run.run_id, { after })).frames);
      assert.deepEqual(
        (await again(last.id as number)).map(({ event, data }) => [event, data]),
        [["end", last.data]],
      );
      assert.deepEqual(await again(999), all, "an id that the run has never had");
    }
    await firstService.stop(0);
    const two = await createService(options);
    for (const { run_id, expected } of ended) {
      const frames = await read((await two.runs.joinStream(thread_id, run_id, { after: 1 })).frames);
      assert.deepEqual(
        frames.map(({ event }) => event),
        expected,
      );
      assert.ok(frames.every(({ id }) => (id as number) > 1));
    }
    await two.stop(0);
    await storage.close();
  });

  it("with some modes ends at once when its reader leaves, also without frames", async () => {
    const here = Promise.withResolvers<void>();
    const agents = {
      async slow({ signal }: { signal: AbortSignal }) {
        here.resolve();
        await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      },
    };
    await using kit = await testService({ agents });
    const { thread_id } = await kit.service.threads.create();
    const { run_id } = await kit.service.runs.create(thread_id, { assistant_id: "slow" });
    await here.promise;
    const joinOptions = { modes: ["updates"] as const, cancel_on_disconnect: true };
    const reader = (await kit.service.runs.joinStream(thread_id, run_id, joinOptions)).frames[Symbol.asyncIterator]();
    assert.equal((await reader.next()).value.event, "metadata");
    const next = reader.next();
    await reader.return?.();
    assert.equal((await next).done, true);
    await (await kit.service.runs.join(thread_id, run_id)).result;
    assert.equal((await kit.service.runs.get(thread_id, run_id)).status, "interrupted");
  });
});

describe("a thread with an unreadable state", () => {
  it("can be read by its checkpoint's id, and does not break a search", async () => {
    const executor = combine(fragile("newest", true), fragile("never", false), fromFunctions({ ok: async () => "ok" }));
    await using kit = await testService({ executor });
    const { threads, runs } = kit.service;
    const ids: string[] = [];
    for (const assistant_id of ["newest", "never", "ok"]) {
      const { thread_id } = await threads.create();
      await (await runs.wait(thread_id, { assistant_id, input: { a: 1 } })).result;
      ids.push(thread_id);
    }
    const [newest, never, ok] = ids as [string, string, string];
    assert.deepEqual((await threads.get(newest)).values, { read: "by id" });
    assert.deepEqual((await threads.state(newest)).values, { read: "by id" });
    await assert.rejects(
      threads.state(never),
      (error: Error) => error.name === "StateUnreadable" && error.cause instanceof TypeError,
    );
    const { items } = await threads.search();
    assert.deepEqual(new Set(items.map(({ thread_id }) => thread_id)), new Set(ids));
    assert.equal(items.find(({ thread_id }) => thread_id === never)?.values, null);
    assert.ok(kit.log.some(({ message }) => message === "reading a thread's state failed"));
    assert.deepEqual(
      (await threads.search({ values: { a: 1 } })).items.map(({ thread_id }) => thread_id),
      [ok],
    );
  });
});

describe("a state", () => {
  it("with the key __root__ is returned unchanged, and so is one that is no object", async () => {
    const bare: Executor = {
      graphs: () => [{ graph_id: "bare" }],
      execute: recordStates(async function* () {
        yield { type: "state", values: ["a", "list"], next: [], tasks: [] };
      }),
    };
    await using kit = await testService({ executor: combine(bare, fromFunctions({ none: async () => null })) });
    const { threads, runs } = kit.service;
    for (const [assistant_id, input, values] of [
      ["none", { __root__: 1 }, { __root__: 1 }],
      ["bare", {}, ["a", "list"]],
    ] as const) {
      const { thread_id } = await threads.create();
      assert.deepEqual(await (await runs.wait(thread_id, { assistant_id, input: input as JsonObject })).result, values);
      assert.deepEqual((await threads.state(thread_id)).values, values);
      assert.deepEqual((await threads.history(thread_id))[0]?.values, values);
    }
  });
});
