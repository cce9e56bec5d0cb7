import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as messageClasses from "@langchain/core/messages";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import { ParsedListCache } from "../../../adapters/langgraph/parsed-list-cache.ts";
import { Serde } from "../../../adapters/langgraph/serde.ts";
import type { Payload } from "../../../lib/executor/contract.ts";
import { testService } from "../../suite/kit.ts";

const long = "words that make the list long enough ".repeat(20);
const agent = new StateGraph(MessagesAnnotation)
  .addNode("answer", ({ messages }) => ({ messages: [new AIMessage(`${messages.length} ${long}`)] }))
  .addNode("correct", ({ messages }) => {
    // Replaces a message of every third answer: the list is no longer the beginning of the next one.
    const [first] = messages;
    return { messages: messages.length % 3 === 0 && first ? [new HumanMessage({ id: first.id, content: "new" })] : [] };
  })
  .addEdge(START, "answer")
  .addEdge("answer", "correct")
  .compile();

describe("the history of a graph", () => {
  it("has the states that single reads return, also with branches and replaced messages", async () => {
    await using kit = await testService({ executor: langgraph({ agent }) });
    const { threads, runs } = kit.service;
    const { thread_id } = await threads.create();
    const say = async (content: string, from?: string): Promise<void> => {
      const checkpoint = from === undefined ? {} : { checkpoint: { checkpoint_id: from } };
      const input = { messages: [{ role: "user", content: content + long }] };
      await (await runs.wait(thread_id, { assistant_id: "agent", input, ...checkpoint })).result;
    };
    for (const content of ["one", "two", "three", "four"]) await say(content);
    const middle = (await threads.history(thread_id, { limit: 100 }))[8]?.checkpoint?.checkpoint_id;
    for (const content of ["other", "more"]) await say(content, content === "other" ? middle : undefined);
    await say("main", middle);
    const history = await threads.history(thread_id, { limit: 100 });
    assert.ok(history.length > 25, String(history.length));
    for (const state of history) {
      const { checkpoint_id } = state.checkpoint ?? assert.fail();
      assert.deepEqual(state, await threads.stateAt(thread_id, { checkpoint_id }));
    }
    const messages = history.flatMap(({ values }) => (values as { messages?: unknown[] }).messages ?? []);
    assert.ok(new Set(messages).size < messages.length / 2, `${new Set(messages).size} of ${messages.length}`);
  });
});

describe("shared reads", () => {
  const serde = new Serde(messageClasses as never);
  const toPayload = (...texts: string[]): Payload =>
    serde.write(
      texts.map((text, at) => new AIMessage({ id: `m${at}`, content: text + long })),
      "it",
    );
  function createCountingSerde() {
    let reads = 0;
    const shared = new ParsedListCache({
      write: (value, where) => serde.write(value, where),
      read(payload) {
        reads += 1;
        return serde.read(payload);
      },
    });
    return { shared, reads: () => reads };
  }

  it("reuse the beginning of a list that was read before", () => {
    const { shared, reads } = createCountingSerde();
    const whole = shared.read(toPayload("a", "b", "c", "d")) as AIMessage[];
    const part = shared.read(toPayload("a", "b")) as AIMessage[];
    assert.deepEqual([part.length, part[0] === whole[0], part[1] === whole[1], reads()], [2, true, true, 1]);
    // Who changes a list changes it for nobody else.
    part.pop();
    whole.length = 0;
    assert.equal((shared.read(toPayload("a", "b", "c")) as unknown[]).length, 3);
    assert.deepEqual(shared.serialize(part[0]), shared.serialize((shared.read(toPayload("a", "b")) as unknown[])[0]));
    assert.equal(reads(), 1);
  });

  it("parse a list that only resembles the beginning of another", () => {
    const { shared, reads } = createCountingSerde();
    shared.read(toPayload("a", "b", "c"));
    const otherMessages = shared.read(toPayload("a", "x")) as AIMessage[];
    assert.equal(otherMessages[1]?.content, `x${long}`);
    const { data } = toPayload("a", "b");
    const spaced = { type: "json", data: JSON.stringify(JSON.parse(data as string), null, 1) };
    assert.deepEqual(shared.read(spaced), serde.read(toPayload("a", "b")));
    const [first] = shared.read({ type: "json", data: `["${"é\\n".repeat(600)}","b"]` }) as string[];
    assert.equal(first?.length, 1200);
    assert.equal(reads(), 4);
    assert.deepEqual(shared.read({ type: "json", data: `["${"é\\n".repeat(600)}"]` }), [first]);
    assert.equal(reads(), 4);
  });
});
