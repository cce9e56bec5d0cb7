/** The projections of a thread stream: values, messages, tool calls, subgraphs and named channels. */
import assert from "node:assert/strict";
import {
  collectAll,
  createHumanInput,
  filterData,
  filterRootEvents,
  follow,
  listIds,
  readContents,
  type Suite,
} from "./bench.ts";

const CHAT = [
  { kind: "function", graph: "tokens" },
  { kind: "LangGraph", graph: "chat" },
] as const;

export function projections({ it, bench }: Suite): void {
  for (const { kind, graph } of CHAT) {
    it(`values and messages of a ${kind} run`, async () => {
      await using at = await bench();
      const thread = at.stream(graph);
      const values = collectAll(thread.values);
      const messages = (async () => {
        const messageParts: { id: unknown; deltas: string[]; text: string }[] = [];
        for await (const message of thread.messages) {
          const deltas = await collectAll(message.text);
          messageParts.push({ id: message.id, deltas, text: await message.text });
        }
        return messageParts;
      })();
      const { run_id = "" } = await thread.run.start({ input: createHumanInput("hello there") });
      const output = await thread.output;
      assert.deepEqual(readContents(output), ["hello there", "You said: hello there"]);
      assert.deepEqual(readContents((await values).at(-1)), readContents(output));
      const [answer, ...otherMessages] = await messages;
      assert.deepEqual(otherMessages, [], "one message is streamed");
      assert.deepEqual(answer?.deltas, ["You ", "said: ", "hello ", "there"]);
      assert.equal(answer?.text, "You said: hello there");
      assert.equal(answer?.id, listIds(output)[1]);
      assert.equal((await at.client.runs.get(thread.threadId, run_id)).status, "success");
      const state = await at.client.threads.getState(thread.threadId);
      assert.deepEqual(listIds(state.values), listIds(output));
    });
  }

  it(`tool calls with their input and output`, async () => {
    await using at = await bench();
    at.gates.open("Found it 1", "Found it 2");
    const thread = at.stream("trip");
    const calls = collectAll(thread.toolCalls);
    await thread.run.start({ input: createHumanInput("go") });
    // Some releases show a call again when it has finished.
    const [call, ...again] = await calls;
    assert.deepEqual(
      [...new Set(again.map(({ callId }) => callId))].filter((id) => id !== call?.callId),
      [],
    );
    assert.deepEqual([call?.name, call?.callId, call?.input], ["search", "call-1", { q: "hotel" }]);
    assert.match(JSON.stringify(await call?.output), /found.*hotel/);
  });

  it(`subgraphs with their messages and values`, async () => {
    await using at = await bench();
    const thread = at.stream("trip");
    const subgraphs = thread.subgraphs;
    await thread.run.start({ input: createHumanInput("go") });
    await at.gates.reached("Found it 1");
    for await (const subgraph of subgraphs) {
      if (subgraph.name !== "research") continue;
      // The SDK ends what is opened before the run has ended.
      const output = subgraph.output;
      const texts: string[] = [];
      for await (const message of subgraph.messages) {
        at.gates.open("Found it 1", "Found it 2");
        texts.push(await message.text);
      }
      assert.deepEqual(texts, ["Found it"]);
      assert.equal(readContents(await output).at(-1), "Found it");
      break;
    }
    const { tree } = (await thread.agent.getTree()) as {
      tree: { status: string; children?: { graph_name: string }[] };
    };
    assert.equal(tree.status, "completed");
    assert.ok(tree.children?.some(({ graph_name }) => graph_name === "research"));
  });

  for (const graph of ["report", "trip"]) {
    it(`named channels of ${graph}`, async () => {
      await using at = await bench();
      at.gates.open("Found it 1", "Found it 2");
      const thread = at.stream(graph);
      const { progress, other } = thread.extensions;
      const items = collectAll(progress as AsyncIterable<unknown>);
      await thread.run.start({ input: createHumanInput("go") });
      assert.deepEqual(await items, [{ done: 1 }, { done: 2 }]);
      assert.deepEqual(await progress, { done: 2 });
      assert.equal(await other, "x");
      // A channel that is opened later shows what is kept.
      const late = at.stream(graph, thread.threadId);
      assert.deepEqual(await collectAll(late.extensions.progress as AsyncIterable<unknown>), [
        { done: 1 },
        { done: 2 },
      ]);
    });
  }

  for (const graph of ["tokens", "trip", "fail", "failing"]) {
    it(`raw events of ${graph} in order`, async () => {
      await using at = await bench();
      at.gates.open("Found it 1", "Found it 2");
      const thread = at.stream(graph);
      // On a WebSocket, a subscription of the SDK takes what others on the socket get before its own replay.
      const reading = follow(at.stream(graph, thread.threadId), [
        "values",
        "checkpoints",
        "messages",
        "tools",
        "tasks",
        "updates",
      ]);
      await thread.run.start({ input: createHumanInput("go") });
      const events = await reading;
      const failed = graph.startsWith("fail");
      assert.deepEqual(filterRootEvents(events), ["running", failed ? "failed" : "completed"]);
      if (failed) assert.match(String(events.at(-1)?.params.data.error), /boom happened/);
      assert.deepEqual(
        events.map(({ seq }) => seq),
        events.map(({ seq }) => seq).sort((a, b) => a - b),
      );
      assert.equal(new Set(events.map(({ event_id }) => event_id)).size, events.length);
      for (const [index, { method, params }] of events.entries()) {
        if (method !== "checkpoints") continue;
        const next = events
          .slice(index + 1)
          .find((candidate) => candidate.params.namespace.join() === params.namespace.join());
        assert.equal(next?.method, "values", "a checkpoint comes directly before its values");
      }
      const open = filterData(events, "messages").filter(({ event }) => event === "message-start").length;
      assert.equal(filterData(events, "messages").filter(({ event }) => event === "message-finish").length, open);
      // The SDK drops events that are older than the state it has loaded.
      const history = await at.client.threads.getHistory(thread.threadId, { limit: 100 });
      const created = new Map(history.map((state) => [state.checkpoint.checkpoint_id, state.created_at ?? ""]));
      let updateCount = 0;
      for (const [index, { method, params }] of events.entries()) {
        if (method !== "values" || params.namespace.length > 0) continue;
        const created_at = created.get(String(events[index - 1]?.params.data.id));
        assert.ok(params.timestamp >= Date.parse(created_at ?? ""), "values are not older than their checkpoint");
        updateCount++;
      }
      assert.ok(updateCount > 0, "values of the thread were shown");
    });
  }

  it(`values of the thread by a command`, async () => {
    await using at = await bench();
    const thread = at.stream("chat");
    await thread.run.start({ input: createHumanInput("hi") });
    await thread.output;
    const { values, checkpoint } = (await thread.state.get({ namespace: [] })) as {
      values: unknown;
      checkpoint: { id: string };
    };
    assert.deepEqual(readContents(values), ["hi", "You said: hi"]);
    assert.equal(checkpoint.id, (await at.client.threads.getState(thread.threadId)).checkpoint.checkpoint_id);
    await assert.rejects(thread.state.listCheckpoints({} as never), { code: "unknown_command" });
  });
}
