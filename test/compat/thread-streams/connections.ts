/** Streams that are opened early or late, that break, and that others read as well. */
import assert from "node:assert/strict";
import {
  createHumanInput,
  type Event,
  filterData,
  filterRootEvents,
  follow,
  isEnd,
  readContents,
  type Suite,
  until,
} from "./bench.ts";

const CHANNELS = ["values", "checkpoints", "messages", "input", "tools"];

export function connections({ describe, it, subject, bench }: Suite): void {
  describe("connections", () => {
    it("open before the thread exists", async () => {
      await using at = await bench();
      const thread = at.stream("chat", crypto.randomUUID());
      const events = follow(thread, CHANNELS);
      await thread.run.start({ input: createHumanInput("hi") });
      assert.deepEqual(filterRootEvents(await events), ["running", "completed"]);
      assert.deepEqual(readContents(await thread.output), ["hi", "You said: hi"]);
    });

    for (const graph of ["half", "halfway"]) {
      it(`send each reader every event of ${graph} once, before, during and after the run`, async () => {
        await using at = await bench();
        const thread = at.stream(graph);
        const early = follow(at.stream(graph, thread.threadId), CHANNELS);
        const started = thread.run.start({ input: createHumanInput("a") });
        await at.gates.reached("a");
        await started;
        const during = follow(at.stream(graph, thread.threadId), CHANNELS);
        const reader = at.stream(graph, thread.threadId);
        const values: unknown[] = [];
        for await (const value of reader.values) {
          values.push(value);
          at.gates.open("a");
        }
        assert.deepEqual(readContents(values.at(-1)), ["a", "began a", "waited for a"]);
        const late = follow(at.stream(graph, thread.threadId), CHANNELS);
        const [first, ...otherEvents] = await Promise.all([early, during, late]);
        assert.ok((first?.length ?? 0) > 4);
        for (const events of otherEvents) assert.deepEqual(events, first);
      });
    }

    it("continue a thread over several runs", async () => {
      await using at = await bench();
      const thread = at.stream("chat");
      const receivedEvents = follow(at.stream("chat", thread.threadId), CHANNELS, 3);
      for (const text of ["one", "two", "three"]) {
        const { run_id = "" } = await thread.run.start({ input: createHumanInput(text) });
        await at.client.runs.join(thread.threadId, run_id);
      }
      const events = await receivedEvents;
      assert.equal(readContents(filterData(events, "values").at(-1)).length, 6);
      assert.equal(filterData(events, "messages").filter(({ event }) => event === "message-start").length, 3);
    });

    it("with `since` skip the events that the reader has received", async () => {
      await using at = await bench();
      const thread = at.stream("chat");
      const receivedEvents = follow(at.stream("chat", thread.threadId), CHANNELS);
      await thread.run.start({ input: createHumanInput("one") });
      const events = await receivedEvents;
      for (const [index, { seq }] of events.entries()) {
        if (index === events.length - 1) break;
        const stream = at.stream("chat", thread.threadId);
        const handle = await stream.subscribe({ channels: ["lifecycle", ...CHANNELS], since: seq } as never);
        const remainingEvents: Event[] = [];
        for await (const event of handle as unknown as AsyncIterable<Event>) {
          remainingEvents.push(event);
          if (isEnd(event)) break;
        }
        await stream.close();
        // Releases that do not send `since` over SSE get everything.
        const expected = remainingEvents.length === events.length ? events : events.slice(index + 1);
        assert.deepEqual(remainingEvents, expected);
      }
    });

    if (subject.sdk === "1.9.15") return;
    for (const [graph, back_ms] of [
      ["slow", 1],
      ["gated-chat", 1],
      // They come back when the run has ended.
      ["slow", 200],
    ] as const) {
      it(`resume by themselves, after ${back_ms} ms, when they break in the middle of ${graph}`, async () => {
        await using at = await bench();
        const gate = graph === "slow" ? "one" : "token 2";
        const thread = at.stream(graph, undefined, back_ms);
        at.gates.open("token 1");
        const { threadId } = thread;
        let eventCount = 0;
        const broken = follow(at.stream(graph, threadId, back_ms), CHANNELS, 1, () => eventCount++);
        const texts: string[] = [];
        const reading = (async () => {
          for await (const message of thread.messages) for await (const text of message.text) texts.push(text);
        })();
        let valuesCount = 0;
        const readingValues = (async () => {
          for await (const _ of thread.values) valuesCount++;
        })();
        const { run_id = "" } = await thread.run.start({ input: createHumanInput("hi there") });
        await at.gates.reached(gate);
        // Sockets that break before a subscription is answered end that stream in the SDK, so each of them has read.
        await until(() => texts.length > 0 && eventCount > 0 && valuesCount > 0);
        at.cut();
        at.gates.open(gate, "token 3", "token 4");
        await at.client.runs.join(threadId, run_id);
        const answer = graph === "slow" ? ["one ", "two"] : ["You ", "said: ", "hi ", "there"];
        await Promise.all([reading, readingValues]);
        assert.deepEqual(texts, answer);
        const whole = await follow(at.stream(graph, threadId), CHANNELS);
        assert.deepEqual(await broken, whole);
        assert.equal(readContents(await thread.output).at(-1), answer.join(""));
      });
    }
  });
}
