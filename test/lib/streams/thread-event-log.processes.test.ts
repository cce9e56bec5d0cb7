/** Thread events of a run that another process executes. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createHandler } from "../../../lib/http/handler.ts";
import { ALL, assertRising, formatOutline, readStoredEvents, startReading } from "../../support/event-reading.ts";
import { startProcesses } from "../../support/shared-database.ts";

describe("the events of a run in another process", () => {
  for (const mode of ["normal", "lost"] as const) {
    it(`arrive during its execution, each once and in order (signals: ${mode})`, async () => {
      const p = await startProcesses({ concurrency: [0, 1], mode });
      const [reads] = p.services as [(typeof p.services)[0]];
      const thread_id = crypto.randomUUID();
      const params = { assistant_id: "count", input: {} };
      // No reader has opened the thread when the other process claims the run.
      void reads.threads.command(thread_id, { id: 1, method: "run.start", params });
      await p.until(() => p.happened.length === 1);
      const live = startReading(reads, thread_id);
      const countCustomEvents = (): number => live.events.filter(({ method }) => method === "custom").length;
      await p.until(() => live.events.length > 0);
      const late: number[] = [];
      for (let count = 1; count <= 5; count++) {
        p.say(1);
        late.push(await p.until(() => countCustomEvents() === count));
      }
      if (mode === "normal") assert.ok(Math.max(...late) <= 100, `${late.join()} ms on the test's clock`);
      p.say("end");
      await p.until(() => formatOutline(live.events).includes("completed"));
      assertRising(live.events);
      assert.deepEqual(formatOutline(live.events), ["running", "completed"]);
      assert.deepEqual(await readStoredEvents(reads, thread_id, ALL), live.events);
      await live.close();
      await p.stop();
    });
  }

  it("are all recorded for runs that are created after the response to a stream", async () => {
    // Storing that the thread has a reader takes longer than a claim.
    const p = await startProcesses({
      concurrency: [0, 1],
      storage: (storage) => ({
        ...storage,
        async recordAllEvents(scope, thread_id) {
          await new Promise<void>((resolve) => void p.clock.timer(200, resolve));
          return await storage.recordAllEvents(scope, thread_id);
        },
      }),
    });
    const [reads] = p.services as [(typeof p.services)[0]];
    const { thread_id } = await reads.threads.create();
    let response: Response | undefined;
    const path = `http://greenroom/threads/${thread_id}/stream/events`;
    const body = JSON.stringify({ channels: ["custom"] });
    const headers = { "content-type": "application/json" };
    void Promise.resolve(createHandler(reads)(new Request(path, { method: "POST", body, headers }))).then((answer) => {
      response = answer;
    });
    await p.until(() => response !== undefined);
    await reads.runs.create(thread_id, { assistant_id: "count", input: {} });
    await p.until(() => p.happened.length === 1);
    p.say(3);
    p.say("end");
    const live = startReading(reads, thread_id);
    await p.until(() => formatOutline(live.events).includes("completed"));
    const counts = (await readStoredEvents(reads, thread_id, ALL)).filter(({ method }) => method === "custom");
    assert.equal(counts.length, 3);
    await response?.body?.cancel();
    await live.close();
    await p.stop();
  });
});
