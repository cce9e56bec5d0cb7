/** A2A 1.0 streams follow a task that waits for its client. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { JsonObject } from "../../../../../lib/json.ts";
import { testClock } from "../../../../suite/mod.ts";
import {
  AGENTS,
  type Answer,
  a2aWorld,
  type asks,
  createRequest,
  joinTexts,
  readAnswer,
  readTask,
  type ShownTask,
  say,
} from "./a2a.harness.ts";

/** A stream whose first event has arrived. */
interface Open {
  readonly first: JsonObject;
  /** Reads the stream to its end and returns all of it. */
  readRemaining(): Promise<Answer>;
  leave(): Promise<void>;
}

async function openStream(fetch: (request: Request) => Promise<Response>, id: string): Promise<Open> {
  const response = await fetch(createRequest("http://127.0.0.1/a2a/asks", "SubscribeToTask", { id }));
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const decoder = new TextDecoder();
  let text = "";
  while (!/^data: .*\n/m.test(text)) text += decoder.decode((await reader.read()).value, { stream: true });
  const [first = {}] = (await readAnswer(new Response(text, response))).events;
  return {
    first,
    async readRemaining() {
      for (let read = await reader.read(); !read.done; read = await reader.read())
        text += decoder.decode(read.value, { stream: true });
      return await readAnswer(new Response(text, response));
    },
    leave: () => reader.cancel(),
  };
}

const readStates = ({ events }: Answer): string[] =>
  events.flatMap(({ task, statusUpdate }) => {
    const shownTask = (task ?? statusUpdate) as unknown as ShownTask | undefined;
    return shownTask ? [shownTask.status.state.replace("TASK_STATE_", "")] : [];
  });

describe("a subscription to an interrupted A2A task", () => {
  it("sends the task, waits, and follows the run that resumes; all streams have the same events", async () => {
    await using it = await a2aWorld();
    const { id: taskId } = readTask(await it.ask("asks", "SendMessage", say("Weather?")));
    const streams = [await openStream(it.test.fetch, taskId), await openStream(it.test.fetch, taskId)];
    for (const { first } of streams) assert.equal((first.task as JsonObject).id, taskId);
    await it.ask("asks", "SendMessage", say("Rome", { taskId }));
    const [firstAnswer, second] = await Promise.all(streams.map(({ readRemaining }) => readRemaining()));
    assert.deepEqual(readStates(firstAnswer as Answer), ["INPUT_REQUIRED", "WORKING", "COMPLETED"]);
    const [artifactUpdates] = (firstAnswer as Answer).events.flatMap(({ artifactUpdate }) =>
      artifactUpdate ? [artifactUpdate] : [],
    );
    assert.equal(
      joinTexts(((artifactUpdates as JsonObject).artifact as JsonObject).parts as JsonObject[]),
      'Got "Rome"',
    );
    assert.deepEqual(firstAnswer?.events, second?.events);
  });

  it("ends with the next interrupt, and when the context continues without a resume value", async () => {
    const agents = { ...AGENTS, asks: twice };
    await using it = await a2aWorld({ agents });
    const { id: taskId, contextId } = readTask(await it.ask("asks", "SendMessage", say("Weather?")));
    const first = await openStream(it.test.fetch, taskId);
    await it.ask("asks", "SendMessage", say("Rome", { taskId }));
    assert.deepEqual(readStates(await first.readRemaining()), ["INPUT_REQUIRED", "WORKING", "INPUT_REQUIRED"]);
    const second = await openStream(it.test.fetch, taskId);
    await it.ask("asks", "SendMessage", say("Something else", { contextId }));
    assert.deepEqual(readStates(await second.readRemaining()), ["INPUT_REQUIRED", "CANCELED"]);
  });

  it("ends soon after the task is cancelled or deleted", async () => {
    for (const close of ["CancelTask", "delete"]) {
      const clock = testClock(Date.now());
      const { now, timer } = clock;
      await using it = await a2aWorld({ environment: { log: () => {}, now, timer } });
      const { id, contextId } = readTask(await it.ask("asks", "SendMessage", say("Weather?")));
      const { readRemaining } = await openStream(it.test.fetch, id);
      if (close === "delete") await it.service.threads.delete(contextId);
      else await it.ask("asks", "CancelTask", { id });
      const answer = await ended(readRemaining(), () => clock.advance(1_000));
      assert.deepEqual(readStates(answer), ["INPUT_REQUIRED", "CANCELED"]);
    }
  });

  it("stops nothing when its client disconnects", async () => {
    await using it = await a2aWorld();
    const { id: taskId } = readTask(await it.ask("asks", "SendMessage", say("Weather?")));
    const [leaving, staying] = [await openStream(it.test.fetch, taskId), await openStream(it.test.fetch, taskId)];
    await leaving.leave();
    await it.ask("asks", "SendMessage", say("Rome", { taskId }));
    assert.deepEqual(readStates(await staying.readRemaining()), ["INPUT_REQUIRED", "WORKING", "COMPLETED"]);
  });
});

/** Interrupts again after the first resume value. */
const twice: ReturnType<typeof asks> = ({ command, interrupt }) =>
  command?.resume === undefined ? interrupt("Which city?") : interrupt(`Where in ${command.resume}?`);

/** Lets time pass until a promise settles. */
async function ended<Value>(promise: Promise<Value>, pass: () => Promise<void>): Promise<Value> {
  let isOver = false;
  const over = promise.finally(() => {
    isOver = true;
  });
  for (let step = 0; step < 60 && !isOver; step++) await pass();
  return await over;
}
