/** Thread events of runs: one end for each run and each child, whatever happens to the run. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ExecutorEvent, GraphInfo, Job } from "../../../lib/executor/contract.ts";
import { recordStates } from "../../../lib/executor/state-recorder.ts";
import { type AgentFunction, type Executor, fromFunctions } from "../../../lib/mod.ts";
import { type TestService, testClock, testService } from "../../suite/kit.ts";
import {
  ALL,
  assertRising,
  createChildEvent,
  createInputRequest,
  createTokenEvent,
  finalState,
  formatOutline,
  getTokenNumbers,
  readStoredEvents,
  startReading,
} from "../../support/event-reading.ts";
import { advanceUntil, createFaultyStorage, kill } from "../../support/faulty.ts";
import { until } from "../../support/until.ts";

type Script = (job: Job, signal: AbortSignal) => AsyncIterable<ExecutorEvent>;

const acting = (execute: Script, graphInfo: Partial<GraphInfo> = {}): Executor => ({
  graphs: () => [{ graph_id: "g", protocol_events: true, ...graphInfo }],
  execute: recordStates(execute),
});

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => (signal.aborted ? resolve() : signal.addEventListener("abort", () => resolve())));

const run = { assistant_id: "g", input: {} };

/** Creates a thread whose runs record all events. */
async function opened({ service }: TestService, thread_id: string = crypto.randomUUID()) {
  const live = startReading(service, thread_id);
  await service.threads.command(thread_id, { id: 1, method: "run.start", params: run });
  return { thread_id, live };
}

describe("the events of a run that does not succeed", () => {
  it("end with `failed` and the error, after those of its children", async () => {
    const executor = acting(async function* () {
      yield createChildEvent("started", "a:1");
      yield createChildEvent("started", "a:1", "b:2");
      throw new RangeError("too far");
    });
    await using kit = await testService({ executor });
    const { thread_id, live } = await opened(kit);
    await live.ends();
    const children = ["a:1 started", "a:1 b:2 started", "a:1 b:2 failed", "a:1 failed"];
    assert.deepEqual(formatOutline(live.events), ["running", ...children, "failed"]);
    assert.deepEqual(live.events.at(-1)?.params.data, { event: "failed", graph_name: "g", error: "too far" });
    assert.deepEqual(await readStoredEvents(kit.service, thread_id), live.events);
    await live.close();
  });

  it("end with `failed` on a timeout and with `interrupted` on a cancel", async () => {
    const executor = acting(
      async function* ({ input }, signal) {
        yield createChildEvent("started", "a:1");
        if ((input as { wait?: boolean }).wait !== false) await aborted(signal);
        yield finalState;
      },
      { timeout_ms: 300 },
    );
    await using kit = await testService({ executor });
    const { service } = kit;
    const { thread_id, live } = await opened(kit);
    await live.ends();
    assert.match(JSON.stringify(live.events.at(-1)?.params.data), /300 ms/);
    const { run_id } = await service.runs.create(thread_id, run);
    await until(() => formatOutline(live.events).filter((word) => word === "a:1 started").length === 2);
    await service.runs.cancel(thread_id, run_id, { wait: true });
    await live.ends(2);
    assert.deepEqual(formatOutline(live.events), [
      ...["running", "a:1 started", "a:1 failed", "failed"],
      ...["running", "a:1 started", "a:1 interrupted", "interrupted"],
    ]);
    assertRising(live.events);
    assert.deepEqual(await readStoredEvents(service, thread_id), live.events);
    await live.close();
  });

  it("end open messages before those of its children", async () => {
    const fails: AgentFunction = async function* () {
      yield "Hel";
      throw new RangeError("too far");
    };
    const waits: AgentFunction = async function* ({ signal }) {
      yield "Hel";
      await aborted(signal);
    };
    await using kit = await testService({ executor: fromFunctions({ fails, waits }) });
    const { service } = kit;
    const thread_id = crypto.randomUUID();
    const live = startReading(service, thread_id);
    const words = (): unknown[] =>
      live.events
        .filter(({ method }) => method === "messages")
        .map(({ params }) => params.data as { event: string; message?: string })
        .map(({ event, message }) => message ?? event);
    const openingEvents = ["message-start", "content-block-start", "content-block-delta"];
    await service.runs.wait(thread_id, { assistant_id: "fails", input: {}, if_not_exists: "create" });
    await live.ends();
    assert.deepEqual(words(), [...openingEvents, "too far"]);
    const { run_id } = await service.runs.create(thread_id, { assistant_id: "waits", input: {} });
    await until(() => words().length === 7);
    await service.runs.cancel(thread_id, run_id, { wait: true });
    await live.ends(2);
    assert.deepEqual(words().slice(4), [...openingEvents, "The run was stopped"]);
    assert.deepEqual(await readStoredEvents(service, thread_id), live.events);
    await live.close();
  });

  it("have only an end, after the active run, if it is cancelled in the queue", async () => {
    const go = Promise.withResolvers<void>();
    const executor = acting(async function* () {
      await go.promise;
      yield finalState;
    });
    await using kit = await testService({ executor });
    const { service } = kit;
    const { thread_id, live } = await opened(kit);
    await until(() => live.events.length > 0);
    const queued = [await service.runs.create(thread_id, run), await service.runs.create(thread_id, run)];
    for (const { run_id } of queued) await service.runs.cancel(thread_id, run_id);
    assert.deepEqual(formatOutline(await readStoredEvents(service, thread_id)), ["running"]);
    go.resolve();
    await live.ends(3);
    assert.deepEqual(formatOutline(live.events), ["running", "completed", "interrupted", "interrupted"]);
    const ids = live.events.filter(({ params }) => (params.data as { event?: string }).event === "interrupted");
    assert.deepEqual(
      ids.map(({ event_id }) => event_id.split(":")[1]),
      queued.map(({ run_id }) => run_id),
    );
    assert.deepEqual(await readStoredEvents(service, thread_id), live.events);
    await service.runs.wait(thread_id, run);
    await live.ends(4);
    assertRising(live.events);
    await live.close();
  });

  it("have only an end if it is deleted in the queue", async () => {
    const go = Promise.withResolvers<void>();
    const executor = acting(async function* () {
      await go.promise;
      yield finalState;
    });
    await using kit = await testService({ executor });
    const { service } = kit;
    const { thread_id, live } = await opened(kit);
    await until(() => live.events.length > 0);
    const queued = [await service.runs.create(thread_id, run), await service.runs.create(thread_id, run)];
    for (const { run_id } of queued) await service.runs.delete(thread_id, run_id);
    go.resolve();
    await live.ends(3);
    assert.deepEqual(formatOutline(live.events), ["running", "completed", "interrupted", "interrupted"]);
    assert.deepEqual(
      live.events.slice(2).map(({ event_id }) => event_id.split(":")[1]),
      queued.map(({ run_id }) => run_id),
    );
    assert.deepEqual(await readStoredEvents(service, thread_id), live.events);
    await live.close();
  });

  it("keep the end for readers that have not read it if the run is deleted", async () => {
    const executor = acting(async function* () {
      yield createTokenEvent(1);
      yield finalState;
    });
    await using kit = await testService({ executor });
    const { service } = kit;
    const { thread_id, live } = await opened(kit);
    await live.ends();
    const [first] = await service.runs.list(thread_id);
    await service.runs.delete(thread_id, String(first?.run_id));
    const since = live.events[0]?.seq ?? 0;
    const behind = startReading(service, thread_id, { ...ALL, since });
    await behind.ends();
    const [end] = behind.events;
    assert.deepEqual([behind.events.length, end?.event_id], [1, live.events.at(-1)?.event_id]);
    // A reader that has seen the end gets nothing new, and no events of the run.
    await (await service.runs.wait(thread_id, run)).result;
    await live.ends(2);
    assert.deepEqual(formatOutline(live.events), ["running", "completed", "running", "completed"]);
    assert.deepEqual(formatOutline(await readStoredEvents(service, thread_id)), [
      "interrupted",
      "running",
      "completed",
    ]);
    await Promise.all([live.close(), behind.close()]);
  });

  for (const way of ["a run with multitask_strategy rollback", "cancel with action rollback"]) {
    it(`are deleted when the run is rolled back, except the end: ${way}`, async () => {
      const executor = acting(async function* ({ input }, signal) {
        yield createTokenEvent(1);
        if ((input as { wait?: boolean }).wait !== false) await aborted(signal);
        yield finalState;
      });
      await using kit = await testService({ executor });
      const { service } = kit;
      const { thread_id, live } = await opened(kit);
      await until(() => getTokenNumbers(live.events).length === 1);
      const [first] = await service.runs.list(thread_id);
      if (way.startsWith("cancel")) {
        await service.runs.cancel(thread_id, String(first?.run_id), { action: "rollback", wait: true });
      }
      const request = { ...run, input: { wait: false }, multitask_strategy: "rollback" } as const;
      await (await service.runs.wait(thread_id, request)).result;
      await live.ends(2);
      assert.deepEqual(formatOutline(live.events), ["running", "interrupted", "running", "completed"]);
      assertRising(live.events);
      const storedEvents = await readStoredEvents(service, thread_id);
      assert.deepEqual(formatOutline(storedEvents), ["interrupted", "running", "completed"]);
      assert.deepEqual(
        storedEvents,
        live.events.filter(({ seq }) => storedEvents.some((storedEvent) => storedEvent.seq === seq)),
      );
      // It subscribes while the events are in memory for the first reader.
      const late = startReading(service, thread_id);
      await late.ends(2);
      assert.deepEqual(late.events, storedEvents);
      await Promise.all([live.close(), late.close()]);
    });
  }

  it("are replayed from the last 10 claims, and from earlier ones with `since`", async () => {
    const executor = acting(async function* () {
      yield createTokenEvent(1);
      yield finalState;
    });
    await using kit = await testService({ executor });
    const { service } = kit;
    const { thread_id, live } = await opened(kit);
    const [first] = await service.runs.list(thread_id);
    for (let turn = 2; turn <= 13; turn++) await (await service.runs.wait(thread_id, run)).result;
    await live.ends(13);
    const all = [...live.events];
    assert.equal(all.length % 13, 0);
    const ofTurns = (from: number) => all.slice((from - 1) * (all.length / 13));
    const replayed = async (since?: number): Promise<readonly unknown[]> => {
      const filter = since === undefined ? ALL : { ...ALL, since };
      const late = startReading(service, thread_id, filter);
      await until(() => late.events.at(-1)?.seq === all.at(-1)?.seq);
      await late.close();
      assert.deepEqual(await readStoredEvents(service, thread_id, filter), late.events);
      return late.events;
    };
    assert.deepEqual(await replayed(), ofTurns(4));
    assert.deepEqual(await replayed(0), ofTurns(4));
    assert.deepEqual(await replayed(1), all);
    assert.deepEqual(await replayed(all[2]?.seq), all.slice(3));
    const params = { run_id: first?.run_id ?? "" };
    const tree = await service.threads.command(thread_id, { id: 2, method: "agent.getTree", params });
    assert.equal(tree.type, "success");
    await live.close();
  });

  it("have each interrupt and each resume once", async () => {
    const asker: AgentFunction = async function* ({ interrupt, command }) {
      if (command?.resume === undefined) yield interrupt("ok?");
      yield `answer: ${JSON.stringify(command?.resume)}`;
    };
    await using kit = await testService({ executor: fromFunctions({ g: asker }) });
    const { service } = kit;
    const { thread_id, live } = await opened(kit);
    await live.ends();
    const [interrupt] = (await service.threads.state(thread_id)).interrupts;
    const id = String(interrupt?.id);
    assert.deepEqual(formatOutline(live.events), ["running", `input.requested ${id}`, "interrupted"]);
    const params = { interrupt_id: id, response: "yes" };
    await service.threads.command(thread_id, { id: 2, method: "input.respond", params });
    await live.ends(2);
    assert.deepEqual(formatOutline(live.events).slice(3), ["running", `input.answered ${id}`, "completed"]);
    assert.deepEqual(await readStoredEvents(service, thread_id), live.events);
    await live.close();
  });

  it("come also from graphs with checkpoints of their own and without protocol events", async () => {
    const script: Script = async function* (job) {
      const at = { ns: "", checkpoint_id: "1f000000-0000-6000-8000-000000000001" };
      const checkpointFields = {
        parent_id: null,
        payload: { type: "json", data: "{}" },
        metadata: {},
        versions: {},
        values: [],
      };
      yield { type: "stream", mode: "custom", data: { n: 1 } };
      await job.checkpoints.put({ ...at, ...checkpointFields });
      yield { ...finalState, checkpoint: at } as ExecutorEvent;
    };
    const executor = { ...acting(script, { protocol_events: false }), execute: script };
    await using kit = await testService({ executor });
    const { thread_id, live } = await opened(kit);
    await live.ends();
    assert.deepEqual(
      live.events.map(({ method, params }) => [method, params.data]),
      [
        ["lifecycle", { event: "running", graph_name: "g" }],
        ["custom", { payload: { n: 1 } }],
        ["checkpoints", { id: "1f000000-0000-6000-8000-000000000001" }],
        ["values", { done: true }],
        ["lifecycle", { event: "completed", graph_name: "g" }],
      ],
    );
    assert.deepEqual(await readStoredEvents(kit.service, thread_id), live.events);
    await live.close();
  });
});

describe("the events of a run whose process was killed", () => {
  it("continue in the next attempt: one `running`, one end for each child, each interrupt once", async () => {
    const clock = testClock();
    const shared = createFaultyStorage();
    const second = shared.share();
    const spoken = { type: "event", method: "messages", namespace: ["a:1"], node: "a" } as const;
    const script: Script = async function* (job, signal) {
      yield createChildEvent("started", "a:1");
      yield createInputRequest("q1");
      if (job.attempt === 1) yield { ...spoken, data: { event: "message-start", id: "m", role: "ai", run_id: "m" } };
      yield createTokenEvent(job.attempt);
      if (job.attempt === 1) await aborted(signal);
      yield createChildEvent("started", "a:2");
      yield createChildEvent("completed", "a:2");
      yield { ...finalState, next: ["x"] } as ExecutorEvent;
    };
    const open = async ({ storage }: { storage: typeof shared.storage }): Promise<TestService> => {
      return await testService({ storage, executor: acting(script), environment: clock });
    };
    const firstService = await open(shared);
    const thread_id = crypto.randomUUID();
    const early = startReading(firstService.service, thread_id);
    void firstService.service.threads.command(thread_id, { id: 1, method: "run.start", params: run });
    await advanceUntil(clock, () => getTokenNumbers(early.events).length === 1, 5);
    kill(shared);
    const earlyEvents = [...early.events];
    const two = await open(second);
    const since = earlyEvents.at(-1)?.seq ?? 0;
    const late = startReading(two.service, thread_id);
    const behind = startReading(two.service, thread_id, { ...ALL, since });
    await advanceUntil(clock, () => formatOutline(late.events).includes("interrupted"));
    await advanceUntil(clock, () => formatOutline(behind.events).includes("interrupted"));
    assert.deepEqual(formatOutline(late.events), [
      ...["running", "a:1 started", "input.requested q1"],
      ...["a:1 interrupted", "a:1 started", "a:2 started", "a:2 completed", "a:1 interrupted", "interrupted"],
    ]);
    assert.deepEqual(getTokenNumbers(late.events), [1, 2]);
    const message = "The run was interrupted, and starts again";
    assert.deepEqual(
      late.events
        .filter(({ method }) => method === "messages")
        .map(({ params: { namespace, node, data } }) => ({ namespace, node, data })),
      [
        { event: "message-start", id: "m", role: "ai", run_id: "m" },
        { event: "error", message, run_id: "m" },
      ].map((data) => ({ namespace: spoken.namespace, node: "a", data })),
    );
    assertRising(late.events);
    assert.deepEqual(late.events.slice(0, earlyEvents.length), earlyEvents);
    assert.deepEqual([...earlyEvents, ...behind.events], late.events);
    assert.deepEqual(await readStoredEvents(two.service, thread_id), late.events);
    await Promise.all([late.close(), behind.close()]);
    for (const { service } of [two, firstService]) {
      let stopped = false;
      void service.stop(0).then(() => {
        stopped = true;
      });
      await advanceUntil(clock, () => stopped || service === firstService.service);
    }
  });
});
