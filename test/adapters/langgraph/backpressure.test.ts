/**
 * Checks the state that a crash leaves of a LangGraph run: no save has the writes of a node without the events and frames that show them.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import { AIMessageChunk } from "@langchain/core/messages";
import { FakeStreamingChatModel } from "@langchain/core/utils/testing";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { StreamBackpressure } from "../../../adapters/langgraph/backpressure.ts";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import { systemEnvironment } from "../../../lib/environment.ts";
import type { CheckpointHandle } from "../../../lib/executor/contract.ts";
import type { RunCreate } from "../../../lib/mod.ts";
import type { FinishRun, Progress } from "../../../lib/storage/mod.ts";
import { testService } from "../../suite/kit.ts";
import { startReading } from "../../support/event-reading.ts";
import { createFaultyStorage } from "../../support/faulty.ts";

const ROUNDS = 6;
const BURST = 3_000;
/** More than one tick of the event loop takes. */
const TOKENS = 300;
const NODES = ["one", "two", "three"] as const;

const createSpeaker = (name: string) => async () => {
  const chunks = Array.from({ length: TOKENS }, (_, n) => new AIMessageChunk({ id: name, content: `${name}${n} ` }));
  return { messages: [await new FakeStreamingChatModel({ sleep: 0, chunks }).invoke("?")] };
};

const graph = new StateGraph(MessagesAnnotation)
  .addNode("one", createSpeaker("one"))
  .addNode("two", createSpeaker("two"))
  .addNode("three", createSpeaker("three"))
  .addEdge(START, "one")
  .addEdge("one", "two")
  .addEdge("two", "three")
  .addEdge("three", END)
  .compile();

/** Returns the ids of the messages that end in the events of a save, and of those that its writes bring into the state. */
function readMessages({ writes, events = [], frames }: Progress) {
  const ended = events
    .filter(({ method, data }) => method === "messages" && data?.includes('"message-finish"'))
    .map(({ node }) => String(node));
  const written = NODES.filter((name) => writes.some((task) => JSON.stringify(task.writes).includes(`${name}0 `)));
  const emittedIds = frames?.list
    .filter(({ event }) => event === "updates")
    .map(({ data }) => Object.keys(JSON.parse(data)));
  return { ended, written: [...written], shown: emittedIds?.flat() };
}

it("nothing that a graph emits after its end is stored", async () => {
  const pace = new StreamBackpressure({} as CheckpointHandle, systemEnvironment());
  const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  async function* chunks(): AsyncGenerator<number> {
    for (let at = 0; at < 3; at++) {
      yield at;
      await tick();
    }
  }
  pace.startReading(chunks());
  assert.deepEqual(await pace.next(), { done: false, value: 0 });
  await tick();
  await pace.close();
  assert.deepEqual(await pace.next(), { done: true, value: undefined });
});

it("the chunks of one tick of a graph do not take a tick each, however large they are", async () => {
  const bursting = new StateGraph(MessagesAnnotation)
    .addNode("burst", (_state, { writer }) => {
      for (let at = 0; at < BURST; at++) writer?.("x".repeat(1_000));
      return { messages: ["done"] };
    })
    .addEdge(START, "burst")
    .addEdge("burst", END)
    .compile();
  let ticks = 0;
  const defer = (fn: () => void): void => {
    ticks++;
    setImmediate(fn);
  };
  await using kit = await testService({ executor: langgraph({ graph: bursting }), environment: { defer } });
  const { thread_id } = await kit.service.threads.create();
  const request: RunCreate = { assistant_id: "graph", input: { messages: ["?"] }, stream_mode: ["custom"] };
  const { frames } = await kit.service.runs.stream(thread_id, { ...request, stream_resumable: true });
  let emittedCount = 0;
  for await (const { event } of frames) if (event === "custom") emittedCount++;
  assert.equal(emittedCount, BURST);
  assert.ok(ticks < BURST / 10, `${ticks} ticks for ${BURST} chunks`);
});

for (const durability of ["async", "sync"] as const) {
  it(`each save has the ends of the messages that it writes, durability ${durability}`, async () => {
    const { storage, faults } = createFaultyStorage();
    const saves: Progress[] = [];
    faults.saveProgress = (call, [, , progress]) => {
      saves.push(progress as Progress);
      return call();
    };
    faults.finishRun = (call, [, , end]) => {
      saves.push((end as FinishRun).progress);
      return call();
    };
    await using kit = await testService({ storage, executor: langgraph({ graph }) });
    const all: string[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const { thread_id } = await kit.service.threads.create();
      const live = startReading(kit.service, thread_id);
      const runOptions: Partial<RunCreate> = { durability, stream_resumable: true, stream_mode: ["updates"] };
      const request: RunCreate = { assistant_id: "graph", input: { messages: ["?"] }, ...runOptions };
      await (await kit.service.runs.wait(thread_id, request)).result;
      await live.ends();
      await live.close();
      for (const [number, save] of saves.splice(0).entries()) {
        const { ended, written, shown: emittedIds = [] } = readMessages(save);
        all.push(...written);
        assert.deepEqual([ended, emittedIds], [written, written], `save ${number} of round ${round}`);
      }
    }
    assert.deepEqual(all, Array.from({ length: ROUNDS }, () => NODES).flat());
  });
}
