/** Forks, stops, queues, and runs that were made by other routes. */
import assert from "node:assert/strict";
import { createHumanInput, filterData, filterRootEvents, follow, readContents, type Suite } from "./bench.ts";

const WAITING = [
  { kind: "function", graph: "wait", chat: "agent" },
  { kind: "LangGraph", graph: "waiting", chat: "chat" },
] as const;

export function runs({ describe, it, bench, subject }: Suite): void {
  for (const { kind, graph, chat } of WAITING) {
    describe(`${kind} runs`, () => {
      it("fork from a checkpoint", async () => {
        await using at = await bench();
        const thread = at.stream(chat);
        await thread.run.start({ input: createHumanInput("one") });
        await thread.output;
        const events = follow(at.stream(chat, thread.threadId), ["checkpoints", "values"], 3);
        const { checkpoint } = await at.client.threads.getState(thread.threadId);
        const forkFrom = checkpoint.checkpoint_id as string;
        const second = await thread.run.start({ input: createHumanInput("two") });
        await at.client.runs.join(thread.threadId, second.run_id ?? "");
        const third = await thread.run.start({ input: createHumanInput("three"), forkFrom });
        await at.client.runs.join(thread.threadId, third.run_id ?? "");
        const expected = ["one", "You said: one", "three", "You said: three"];
        assert.deepEqual(readContents((await at.client.threads.getState(thread.threadId)).values), expected);
        const receivedEvents = await events;
        assert.deepEqual(readContents(filterData(receivedEvents, "values").at(-1)), expected);
        const parents = filterData(receivedEvents, "checkpoints").map(({ parent_id }) => parent_id);
        assert.ok(parents.length >= 6, "each run shows its checkpoints");
        await assert.rejects(
          thread.run.start({ input: createHumanInput("x"), forkFrom: "1f1e6df3-0000-6000-8000-000000000000" }),
          { code: "no_such_checkpoint" },
        );
      });

      it("stop when they are cancelled", async () => {
        await using at = await bench();
        const thread = at.stream(graph);
        const events = follow(at.stream(graph, thread.threadId), ["values"]);
        const { run_id = "" } = await thread.run.start({ input: createHumanInput("a") });
        await at.gates.reached("a");
        await at.client.runs.cancel(thread.threadId, run_id);
        assert.deepEqual(filterRootEvents(await events), ["running", "interrupted"]);
        await thread.output;
        assert.equal((await at.client.runs.get(thread.threadId, run_id)).status, "interrupted");
        await assert.rejects(thread.input.respond({ namespace: [], interrupt_id: "x", response: 1 }), {
          code: "invalid_argument",
        });
      });

      // The end of a WebSocket's events is in test/lib/streams: closing the SDK's stream in that moment leaves its socket open for a while.
      const itOverSse = subject.transport === "WebSocket" ? () => {} : it;
      itOverSse("end when their thread is deleted", async () => {
        await using at = await bench();
        const thread = at.stream(graph);
        const opened = Promise.withResolvers<void>();
        const events = follow(at.stream(graph, thread.threadId), ["values"], 1, () => opened.resolve());
        await thread.run.start({ input: createHumanInput("a") });
        const { output } = thread;
        await at.gates.reached("a");
        // A stream that opens after the deletion waits for a new thread with this id.
        await opened.promise;
        await at.client.threads.delete(thread.threadId);
        assert.equal(filterRootEvents(await events).at(-1), "interrupted");
        await output;
      });

      it("wait for the run before them, for each route that creates one", async () => {
        await using at = await bench();
        const thread = at.stream(graph);
        const events = follow(at.stream(graph, thread.threadId), ["values"], 3);
        await thread.run.start({ input: createHumanInput("a") });
        await at.gates.reached("a");
        const { run_id = "" } = await thread.run.start({ input: createHumanInput("b") });
        const third = await at.client.runs.create(thread.threadId, graph, {
          input: createHumanInput("c"),
          multitaskStrategy: "enqueue",
        });
        const pending = await at.client.runs.list(thread.threadId, { status: "pending", limit: 1000 });
        assert.deepEqual(pending.map((run) => run.run_id).sort(), [run_id, third.run_id].sort());
        at.gates.open("a", "b", "c");
        const receivedEvents = await events;
        assert.deepEqual(filterRootEvents(receivedEvents), Array(3).fill(["running", "completed"]).flat());
        assert.deepEqual(readContents(filterData(receivedEvents, "values").at(-1)), [
          ...["a", "waited for a", "b", "waited for b"],
          ...["c", "waited for c"],
        ]);
      });

      it("replace the run before them, or are rejected", async () => {
        await using at = await bench();
        const thread = at.stream(graph);
        const events = follow(at.stream(graph, thread.threadId), ["values"], 2);
        await thread.run.start({ input: createHumanInput("a") });
        await at.gates.reached("a");
        await assert.rejects(thread.run.start({ input: createHumanInput("x"), multitaskStrategy: "reject" }), {
          code: "invalid_argument",
        });
        await thread.run.start({ input: createHumanInput("b"), multitaskStrategy: "interrupt" });
        at.gates.open("b");
        assert.deepEqual(filterRootEvents(await events), ["running", "interrupted", "running", "completed"]);
      });

      it("are on the stream with their messages if a v1 route has created them", async () => {
        await using at = await bench();
        const { thread_id } = await at.client.threads.create();
        const streamed = kind === "function" ? "tokens" : "chat";
        const thread = at.stream(streamed, thread_id);
        const handle = await thread.subscribe(["messages", "lifecycle"]);
        await at.client.runs.wait(thread_id, streamed, { input: createHumanInput("hi there") });
        const texts: string[] = [];
        for await (const { params } of handle as AsyncIterable<{ params: { data: unknown } }>) {
          const { delta } = params.data as { delta?: { text?: string } };
          if (delta?.text) texts.push(delta.text);
        }
        assert.deepEqual(texts, ["You ", "said: ", "hi ", "there"]);
      });
    });
  }

  it("of a cron are on the stream", async () => {
    await using at = await bench();
    const { thread_id } = await at.client.threads.create();
    const events = follow(at.stream("chat", thread_id), ["values"]);
    const cron = await at.client.crons.createForThread(thread_id, "chat", {
      schedule: "0 0 1 1 *",
      input: createHumanInput("tick"),
    });
    const { cron_id } = cron as unknown as { cron_id: string };
    await at.send("POST", `/greenroom/crons/${cron_id}/run`);
    assert.deepEqual(readContents(filterData(await events, "values").at(-1)), ["tick", "You said: tick"]);
  });

  it("return errors of their input as the error of their command", async () => {
    await using at = await bench();
    await assert.rejects(at.stream("nobody").run.start({ input: {} }), { code: "invalid_argument" });
    await assert.rejects(at.stream("chat").run.start({ input: {}, multitaskStrategy: "never" as never }), {
      code: "invalid_argument",
    });
  });
}
