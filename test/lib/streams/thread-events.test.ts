/** Live events of a thread and their replays: what readers get, in which order, and what they cost the run. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { recordStates } from "../../../lib/executor/state-recorder.ts";
import { type AgentFunction, type Executor, fromFunctions, type RunCreate, type Service } from "../../../lib/mod.ts";
import { serviceInternals } from "../../../lib/service.ts";
import { testClock, testService } from "../../suite/kit.ts";
import {
  ALL,
  assertRising,
  createTokenEvent,
  finalState,
  formatOutline,
  getSeqs,
  getTokenNumbers,
  isRootEnd,
  readStoredEvents,
  startReading,
  subscribe,
} from "../../support/event-reading.ts";
import { createFaultyStorage } from "../../support/faulty.ts";
import { until } from "../../support/until.ts";

const talker: AgentFunction = async function* () {
  yield "Hel";
  yield "lo";
};
const big: AgentFunction = async function* ({ input }) {
  yield { text: "x".repeat(Number((input as { size: number }).size)) };
};

const ask = (assistant_id: string, runFields: Partial<RunCreate> = {}): RunCreate => ({
  assistant_id,
  input: { messages: [{ role: "user", content: "Hi" }] },
  ...runFields,
});

async function finished(service: Service, thread_id: string, request: RunCreate): Promise<void> {
  await (await service.runs.wait(thread_id, request)).result;
}

/** An executor of its own events; the test says when it goes on. */
function teller(count: number, padding: number, gate?: (n: number) => Promise<void> | undefined): Executor {
  return {
    graphs: () => [{ graph_id: "teller", protocol_events: true }],
    execute: recordStates(async function* (job) {
      for (let n = 1; n <= count && job.events === "all"; n++) {
        await gate?.(n);
        yield createTokenEvent(n, padding);
      }
      yield finalState;
    }),
  };
}

/** A thread whose runs record all methods, and a first reader of it. */
async function opened(service: Service) {
  const { thread_id } = await service.threads.create();
  const live = startReading(service, thread_id);
  await recorded(service, thread_id);
  return { thread_id, live };
}

const recorded = (service: Service, thread_id: string): Promise<void> =>
  until(async () => {
    const { storage } = serviceInternals(service).options;
    return (await storage.getThread({ deployment: service.deployment.name }, thread_id))?.records_all === true;
  });

describe("the events of a thread", () => {
  it("are the same live and replayed from every position", async () => {
    await using kit = await testService({ executor: fromFunctions({ talker }) });
    const { service } = kit;
    const { thread_id, live } = await opened(service);
    await finished(service, thread_id, ask("talker"));
    await finished(service, thread_id, ask("talker"));
    await live.ends(2);
    const { events } = live;
    assertRising(events);
    assert.deepEqual(formatOutline(events), ["running", "completed", "running", "completed"]);
    const methods = events.map(({ method }) => method);
    assert.equal(methods.filter((method) => method === "messages").length, 12, methods.join());
    assert.ok(
      methods.every((method, at) => method !== "values" || methods[at - 1] === "checkpoints"),
      methods.join(),
    );
    assert.deepEqual(await readStoredEvents(service, thread_id), events);
    for (const since of [0, ...getSeqs(events)]) {
      const laterEvents = events.filter(({ seq }) => seq > since);
      assert.deepEqual(await readStoredEvents(service, thread_id, { ...ALL, since }), laterEvents);
      const reader = startReading(service, thread_id, { ...ALL, since });
      await until(() => reader.events.length >= laterEvents.length);
      await reader.close();
      assert.deepEqual(reader.events, laterEvents);
    }
    await live.close();
  });

  it("match the filter of their reader, live and in replays", async () => {
    await using kit = await testService({ executor: fromFunctions({ talker }) });
    const { service } = kit;
    const { thread_id, live } = await opened(service);
    const filter = { channels: ["messages", "lifecycle"], namespaces: [[]], depth: 0 };
    const some = startReading(service, thread_id, filter);
    await finished(service, thread_id, ask("talker"));
    await Promise.all([live.ends(), some.ends()]);
    const matchingEvents = live.events.filter(
      ({ method, params }) => filter.channels.includes(method) && params.namespace.length === 0,
    );
    assert.deepEqual(some.events, matchingEvents);
    assert.deepEqual(await readStoredEvents(service, thread_id, filter), matchingEvents);
    await some.close();
    await live.close();
  });

  it("reach a reader behind the log in memory without gap, repetition or disorder", async () => {
    const COUNT = 400;
    await using kit = await testService({ executor: teller(COUNT, 10_000) });
    const { service } = kit;
    const { thread_id, live } = await opened(service);
    // Reads one event, and then nothing until the run has ended, while 4 MB are emitted.
    const slow = subscribe(service, thread_id, ALL)[Symbol.asyncIterator]();
    const first = slow.next();
    await finished(service, thread_id, { assistant_id: "teller", input: {} });
    await live.ends();
    const seqs = [(await first).value?.seq];
    while (seqs.length < live.events.length) {
      const { value, done } = await slow.next();
      if (done) break;
      seqs.push(value.seq);
    }
    assert.deepEqual(seqs, getSeqs(live.events));
    assert.deepEqual(
      getTokenNumbers(live.events),
      Array.from({ length: COUNT }, (_, n) => n + 1),
    );
    await slow.return?.();
    await live.close();
  });

  it("reach readers that come and go during the run, each once and in order", async () => {
    const COUNT = 300;
    await using kit = await testService({
      executor: teller(COUNT, 8_000, (n) =>
        n % 10 === 0 ? new Promise((resolve) => setTimeout(resolve, 1)) : undefined,
      ),
    });
    const { service } = kit;
    const { thread_id, live } = await opened(service);
    const done = finished(service, thread_id, { assistant_id: "teller", input: {} });
    const readers: { readonly since: number; readonly seqs: number[]; readonly all: Promise<void> }[] = [];
    let at = 0;
    while (!live.events.some(isRootEnd)) {
      const since = at++ % 2 === 0 ? 0 : (live.events.at(-1)?.seq ?? 0);
      const seqs: number[] = [];
      const all = (async () => {
        const iterator = subscribe(service, thread_id, { ...ALL, since })[Symbol.asyncIterator]();
        for (let step = await iterator.next(); !step.done; step = await iterator.next()) {
          seqs.push(step.value.seq);
          if (step.value.event === "lifecycle" && step.value.seq % 2 ** 32 === 2 ** 32 - 1) break;
          // Some readers are slow.
          if (at % 3 === 0 && seqs.length % 50 === 0) await new Promise((resolve) => setTimeout(resolve, 2));
        }
        await iterator.return?.();
      })();
      readers.push({ since, seqs, all });
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await done;
    await live.ends();
    await Promise.all(readers.map(({ all }) => all));
    assert.ok(readers.length > 2);
    for (const { since, seqs } of readers) {
      assert.deepEqual(
        seqs,
        getSeqs(live.events).filter((seq) => seq > since),
      );
    }
    await live.close();
  });

  it("never wait for a reader, so that the run ends without one that reads", async () => {
    await using kit = await testService({ executor: teller(300, 10_000) });
    const { service } = kit;
    const { thread_id, live } = await opened(service);
    await live.close();
    const idle = subscribe(service, thread_id, ALL)[Symbol.asyncIterator]();
    const first = idle.next();
    await finished(service, thread_id, { assistant_id: "teller", input: {} });
    const [run] = await service.runs.list(thread_id);
    assert.equal(run?.status, "success");
    assert.equal((await first).done, false);
    await idle.return?.();
  });

  for (const durability of ["async", "exit"] as const) {
    it(`contain large values live, and in a replay from their checkpoint (durability ${durability})`, async () => {
      await using kit = await testService({ executor: fromFunctions({ big }) });
      const { service } = kit;
      const { thread_id, live } = await opened(service);
      await finished(service, thread_id, { assistant_id: "big", input: { size: 40_000 }, durability });
      await live.ends();
      const lengths = (events: typeof live.events): number[] =>
        events.filter(({ method }) => method === "values").map(({ params }) => JSON.stringify(params.data).length);
      assert.ok(Math.max(...lengths(live.events)) > 40_000);
      assert.deepEqual(await readStoredEvents(service, thread_id), live.events);
      await live.close();
    });
  }

  it("lack large values in a replay after their checkpoint was deleted", async () => {
    const asks: AgentFunction = async function* () {
      yield { text: "a".repeat(20_000) };
      yield { text: "b".repeat(20_000) };
    };
    await using kit = await testService({ executor: fromFunctions({ asks }) });
    const { service } = kit;
    const { thread_id, live } = await opened(service);
    await finished(service, thread_id, { ...ask("asks"), durability: "exit" });
    await live.ends();
    const texts = (events: typeof live.events): string[] =>
      events
        .filter(({ method }) => method === "values")
        .map(({ params }) => String((params.data as { text?: string }).text ?? "").slice(0, 1));
    assert.deepEqual(texts(live.events), ["", "a", "b"]);
    const storedEvents = await readStoredEvents(service, thread_id);
    assert.deepEqual(texts(storedEvents), ["", "b"]);
    assert.deepEqual(
      storedEvents,
      live.events.filter((event) => storedEvents.some(({ seq }) => seq === event.seq)),
    );
    await live.close();
  });

  it("reach a late reader, also after events that are left out", async () => {
    const asks: AgentFunction = async function* () {
      for (const letter of ["a", "b", "c", "d"]) yield { text: letter.repeat(20_000) };
    };
    await using kit = await testService({ executor: fromFunctions({ asks }) });
    const { service } = kit;
    const { thread_id, live } = await opened(service);
    await finished(service, thread_id, { ...ask("asks"), durability: "exit" });
    await live.ends();
    const filter = { channels: ["values", "lifecycle"], since: 1 };
    const storedEvents = await readStoredEvents(service, thread_id, filter);
    const late = startReading(service, thread_id, filter);
    await late.ends();
    assert.deepEqual(late.events, storedEvents);
    await late.close();
    await live.close();
  });

  it("are read once for readers that open together, large values too, and other work proceeds", async () => {
    const { storage, calls } = createFaultyStorage();
    await using kit = await testService({ storage, executor: fromFunctions({ big }) });
    const { service } = kit;
    const { thread_id, live } = await opened(service);
    for (let run = 0; run < 3; run++) await finished(service, thread_id, { ...ask("big"), input: { size: 200_000 } });
    await live.ends(3);
    await live.close();
    const reads = async (replays: number): Promise<number> => {
      const before = calls.getCheckpoint ?? 0;
      for (const storedEvents of await Promise.all(
        Array.from({ length: replays }, () => readStoredEvents(service, thread_id)),
      ))
        assert.deepEqual(storedEvents, live.events);
      return (calls.getCheckpoint ?? 0) - before;
    };
    const alone = await reads(1);
    assert.ok(alone >= 3);
    let ticks = 0;
    let going = true;
    const otherReader = (async () => {
      for (; going; ticks++) await new Promise((resolve) => setImmediate(resolve));
    })();
    const together = await reads(20).finally(() => {
      going = false;
    });
    await otherReader;
    assert.equal(together, alone);
    assert.ok(ticks >= 3, `${ticks} ticks`);
  });

  it("begin with the creation of the thread for earlier readers", async () => {
    await using kit = await testService({ executor: fromFunctions({ talker }) });
    const { service } = kit;
    const thread_id = crypto.randomUUID();
    const early = startReading(service, thread_id);
    const answer = await service.threads.command(thread_id, {
      id: 1,
      method: "run.start",
      params: { assistant_id: "talker", input: { messages: [{ role: "user", content: "Hi" }] } },
    });
    assert.equal(answer.type, "success");
    await early.ends();
    assert.deepEqual(formatOutline(early.events), ["running", "completed"]);
    assert.ok(early.events.some(({ method }) => method === "messages"));
    assert.deepEqual(await readStoredEvents(service, thread_id), early.events);
    await early.close();
  });

  it("end with their thread and with the service", async () => {
    await using kit = await testService({ executor: fromFunctions({ talker }) });
    const { service } = kit;
    const { thread_id, live } = await opened(service);
    const otherSubscription = await opened(service);
    await finished(service, thread_id, ask("talker"));
    await live.ends();
    await service.threads.delete(thread_id);
    await until(live.ended, "the reader of the deleted thread ends");
    assert.equal(otherSubscription.live.ended(), false);
    assert.deepEqual(await readStoredEvents(service, thread_id), []);
    await service.stop(0);
    await until(otherSubscription.live.ended, "the other reader ends with the service");
  });

  it("of a named channel are all that a function emits under its name", async () => {
    const emitted = [{ name: "notes", payload: 1, at: 2 }, { name: "notes", n: 3 }, { name: 4, payload: 5 }, "notes"];
    const noter: AgentFunction = ({ emit }) => {
      for (const data of emitted) emit(data);
    };
    await using kit = await testService({ executor: fromFunctions({ noter }) });
    const { service } = kit;
    const { thread_id } = await service.threads.create();
    const all = startReading(service, thread_id, { channels: ["custom", "lifecycle"] });
    const notes = startReading(service, thread_id, { channels: ["custom:notes", "lifecycle"] });
    const params = { assistant_id: "noter", input: {} };
    await service.threads.command(thread_id, { id: 1, method: "run.start", params });
    await Promise.all([all.ends(), notes.ends()]);
    const readMessageData = ({ events }: typeof all) =>
      events.filter(({ method }) => method === "custom").map(({ params }) => params.data);
    assert.deepEqual(readMessageData(notes), emitted.slice(0, 2));
    assert.deepEqual(readMessageData(all), [
      ...emitted.slice(0, 2),
      ...emitted.slice(2).map((payload) => ({ payload })),
    ]);
    await Promise.all([all.close(), notes.close()]);
  });

  it("are counted for each filter as in a replay", async () => {
    await using kit = await testService({ executor: fromFunctions({ talker }) });
    const { service } = kit;
    const { thread_id, live } = await opened(service);
    for (let n = 0; n < 12; n++) await finished(service, thread_id, ask("talker"));
    await live.ends(12);
    const { protocol } = serviceInternals(service).internalResources;
    const scope = { deployment: "default" };
    const since = live.events.at(-5)?.seq ?? 0;
    const filters = [ALL, { channels: ["messages"] }, { ...ALL, since }, { channels: ["tools"] }, { ...ALL, since: 1 }];
    const { counts, last } = await protocol.count(scope, thread_id, filters);
    const storedLists = await Promise.all(filters.map((filter) => readStoredEvents(service, thread_id, filter)));
    assert.deepEqual(
      counts,
      storedLists.map(({ length }) => length),
    );
    assert.equal(last, live.events.at(-1)?.seq);
    assert.deepEqual(await protocol.count(scope, crypto.randomUUID(), filters), {
      counts: [0, 0, 0, 0, 0],
      last: 0,
    });
    await live.close();
  });

  it("reach only readers that may see the thread", async () => {
    await using kit = await testService({ executor: fromFunctions({ talker }) });
    const { service } = kit;
    const thread_id = crypto.randomUUID();
    const [ann, bob] = ["ann", "bob"].map((equals) => ({ filter: [{ key: "owner", equals }] }));
    const mine = startReading(service, thread_id, ALL, ann);
    const foreign = startReading(service, thread_id, ALL, bob);
    await service.threads.create({ thread_id, metadata: { owner: "ann" } });
    await finished(service, thread_id, ask("talker"));
    await mine.ends();
    await finished(service, thread_id, ask("talker"));
    await mine.ends(2);
    assert.deepEqual(foreign.events, []);
    assert.deepEqual(await readStoredEvents(service, thread_id, ALL, bob), []);
    assert.deepEqual(await readStoredEvents(service, thread_id, ALL, ann), mine.events);
    await Promise.all([mine.close(), foreign.close()]);
  });

  it("end with an interrupted run when its thread is deleted or excluded for the reader", async () => {
    const gate = Promise.withResolvers<void>();
    const last = Promise.withResolvers<void>();
    const waiting: AgentFunction = async function* () {
      yield "Hel";
      await gate.promise;
      yield "lo";
      await last.promise;
      yield "!";
    };
    const clock = testClock();
    await using kit = await testService({ executor: fromFunctions({ waiting }), environment: clock });
    const { service } = kit;
    const ann = { filter: [{ key: "owner", equals: "ann" }] };
    const started = async () => {
      const { thread_id } = await service.threads.create({ metadata: { owner: "ann" } });
      const readers = [startReading(service, thread_id, ALL, ann), startReading(service, thread_id)] as const;
      await service.runs.create(thread_id, ask("waiting"));
      await until(() => clock.advance(50).then(() => readers.every(({ events }) => events.length > 4)));
      return { thread_id, readers };
    };

    const deleted = await started();
    await service.threads.delete(deleted.thread_id);
    for (const { events, ended } of deleted.readers) {
      await until(() => clock.advance(50).then(ended), "the reader of the deleted thread ends");
      assertRising(events);
      assert.deepEqual(formatOutline(events), ["running", "interrupted"]);
    }

    const { thread_id, readers } = await started();
    const [hers, all] = readers;
    await service.threads.update(thread_id, { metadata: { owner: "bob" } });
    await clock.advance(1_000);
    const before = hers.events.length;
    gate.resolve();
    await until(() => clock.advance(50).then(hers.ended), "the reader of the hidden thread ends");
    assert.deepEqual(formatOutline(hers.events.slice(before)), ["interrupted"]);
    assert.equal(hers.events.length, before + 1);
    last.resolve();
    await until(() => clock.advance(50).then(() => all.events.some(isRootEnd)));
    assert.deepEqual(formatOutline(all.events), ["running", "completed"]);
    const end = hers.events.at(-1);
    assert.ok(!all.events.some(({ event_id }) => event_id === end?.event_id), `${end?.event_id} is another event`);
    await all.close();
  });

  it("of a recreated thread have new ids, after those of the deleted one", async () => {
    await using kit = await testService({ executor: fromFunctions({ talker }) });
    const { service } = kit;
    const { thread_id, live } = await opened(service);
    for (let n = 1; n <= 3; n++) await finished(service, thread_id, ask("talker"));
    await live.ends(3);
    const since = live.events.at(-1)?.seq ?? 0;
    await service.threads.delete(thread_id);
    await until(live.ended, "the reader of the deleted thread ends");
    // A client that does not know of the deletion continues at its position.
    const again = startReading(service, thread_id, { ...ALL, since });
    const params = { assistant_id: "talker", input: {} };
    await service.threads.command(thread_id, { id: 1, method: "run.start", params });
    await again.ends();
    assert.deepEqual(formatOutline(again.events), ["running", "completed"]);
    assertRising([...live.events, ...again.events]);
    const ids = new Set(live.events.map(({ event_id }) => event_id));
    assert.deepEqual(
      again.events.filter(({ event_id }) => ids.has(event_id)),
      [],
    );
    assert.deepEqual(await readStoredEvents(service, thread_id, { ...ALL, since }), again.events);
    await again.close();
  });

  it("are all recorded for a run that creates the thread of a waiting reader", async () => {
    await using kit = await testService({ executor: fromFunctions({ talker }) });
    const thread_id = crypto.randomUUID();
    const early = startReading(kit.service, thread_id);
    await finished(kit.service, thread_id, ask("talker", { if_not_exists: "create" }));
    await early.ends();
    assert.ok(early.events.some(({ method }) => method === "messages"));
    await early.close();
  });

  it("are not recorded for stateless runs and excluded threads", async () => {
    const { storage, faults } = createFaultyStorage();
    const recordedEvents: unknown[] = [];
    for (const verb of ["saveProgress", "finishRun"] as const) {
      faults[verb] = (call, [, , progress]) => {
        const { events, progress: inner } = progress as { events?: unknown[]; progress?: { events?: unknown[] } };
        recordedEvents.push(...(events ?? inner?.events ?? []));
        return call();
      };
    }
    await using kit = await testService({ storage, executor: fromFunctions({ talker }) });
    await (await kit.service.runs.wait(null, ask("talker"))).result;
    assert.deepEqual(recordedEvents, []);
  });
});
