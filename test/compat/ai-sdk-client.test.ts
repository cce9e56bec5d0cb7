/** The chat endpoint with the clients of the AI SDK. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import type { JsonObject } from "../../lib/json.ts";
import { combine, fromFunctions } from "../../lib/mod.ts";
import { testService } from "../suite/mod.ts";
import { until } from "../support/until.ts";
import { langchainAgents } from "./ai/agents.ts";
import { type AnyChat, openChat, plain } from "./ai/chat.ts";

const call = (name: string, args: JsonObject, id: string): JsonObject => ({ name, args, id, type: "tool_call" });

/** Functions that show what a chat may see. */
const agents = {
  async *echo({ messages }: { readonly messages: JsonObject[] }) {
    yield "You said ";
    yield `${messages.at(-1)?.content}.`;
  },
  async *tools() {
    yield {
      messages: [
        {
          type: "ai",
          id: "m1",
          content: "Looking",
          tool_calls: [call("search", { q: "a" }, "c1"), call("my-tool", {}, "c2")],
        },
      ],
    };
    yield { messages: [{ type: "tool", id: "t1", tool_call_id: "c1", name: "search", content: '{"found":"a"}' }] };
    yield {
      messages: [{ type: "tool", id: "t2", tool_call_id: "c2", name: "my-tool", content: "boom", status: "error" }],
    };
    yield "Found ";
    yield "it.";
  },
};

type Test = Awaited<ReturnType<typeof testService>>;

async function stored({ fetch }: Pick<Test, "fetch">, id: string, agent = "agent"): Promise<AnyChat["messages"]> {
  const response = await fetch(`http://localhost/ai/${agent}/chat/${id}`);
  assert.equal(response.status, 200, await response.clone().text());
  return ((await response.json()) as AnyChat).messages;
}

describe("the AI SDK's chat", () => {
  for (const version of [5, 6, 7] as const) {
    it(`of version ${version} streams, and its message equals that of a replay and of the first render`, async () => {
      for (const agent of Object.keys(agents)) {
        await using test = await testService({ agents });
        const options = { id: "chat-1", agent, fetch: test.fetch };
        const chat = openChat(options, version);
        for (const text of ["Hi", "Again"]) {
          await chat.sendMessage({ text });
          assert.equal(chat.error, undefined);
          assert.equal(chat.status, "ready");
        }
        assert.equal(chat.messages.length, 4);
        assert.equal(chat.messages[1]?.id, `reply-${chat.messages[0]?.id}`);
        const again = openChat({ ...options, messages: plain(chat.messages.slice(0, 3)) }, version);
        await again.resumeStream();
        assert.deepEqual(plain(again.messages), plain(chat.messages));
        if (version === 7) assert.deepEqual(await stored(test, "chat-1", agent), plain(chat.messages));
      }
    });
  }
});

const executor = () => combine(fromFunctions(agents), langchainAgents());

/** Checks that the message is equal when it is streamed to another page, and in the first render. */
async function assertSame(test: Test, chat: AnyChat, id: string, agent: string): Promise<void> {
  const again = openChat({ id, agent, fetch: test.fetch, messages: plain(chat.messages.slice(0, -1)) });
  await again.resumeStream();
  assert.deepEqual(plain(again.messages.at(-1)), plain(chat.messages.at(-1)), "replay");
  assert.deepEqual((await stored(test, id, agent)).at(-1), plain(chat.messages.at(-1)), "first render");
}

/** Returns the approvals that a message waits for. */
const listQuestions = ({ messages }: AnyChat): string[] =>
  (messages.at(-1)?.parts ?? []).flatMap((part) => {
    const { state, approval } = part as { readonly state?: string; readonly approval?: { readonly id: string } };
    return state === "approval-requested" && approval ? [approval.id] : [];
  });

/** Returns the states of the tools of the last message, by their names. */
const tools = ({ messages }: AnyChat): Record<string, unknown> =>
  Object.fromEntries(
    (messages.at(-1)?.parts ?? []).flatMap((part) => {
      const { type, state, output, errorText } = part as Record<string, unknown>;
      return String(type).startsWith("tool-") ? [[String(type).slice(5), output ?? errorText ?? state]] : [];
    }),
  );

const automatic = { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses };

describe("the AI SDK's chat with LangChain agents", () => {
  it("streams tokens, tool calls and their results", async () => {
    await using test = await testService({ executor: executor() });
    for (const [id, text] of Object.entries({ a: "Hello you", b: "lookup", c: "lookup fails" })) {
      const chat = openChat({ id, agent: "plain", fetch: test.fetch });
      await chat.sendMessage({ text });
      assert.equal(chat.error, undefined);
      assert.equal(chat.status, "ready");
      await assertSame(test, chat, id, "plain");
    }
  });

  it("requests approval, and runs the approved tool", async () => {
    await using test = await testService({ executor: executor() });
    const chat = openChat({ id: "c", agent: "clerk", fetch: test.fetch, ...automatic });
    await chat.sendMessage({ text: "refund lookup mail" });
    assert.equal(chat.error, undefined);
    assert.deepEqual(tools(chat), {
      refund: "approval-requested",
      lookup: "approval-responded",
      mail: "approval-requested",
    });
    await assertSame(test, chat, "c", "clerk");
    const [refund = "", mail = ""] = listQuestions(chat);
    await chat.addToolApprovalResponse({ id: refund, approved: true });
    assert.equal(chat.status, "ready");
    await chat.addToolApprovalResponse({ id: mail, approved: true });
    await until(() => chat.status === "ready" && JSON.stringify(chat.messages).includes("Done"));
    assert.equal(chat.error, undefined);
    assert.deepEqual(tools(chat), { refund: "refunded 30", lookup: { found: "1182" }, mail: "wrote to ann" });
    await assertSame(test, chat, "c", "clerk");
    assert.equal((await test.service.runs.list(await test.service.threads.idOf("c"))).length, 2);
  });

  it("names the tools that a rejection skips, also after the middleware has removed them", async () => {
    await using test = await testService({ executor: executor() });
    const chat = openChat({ id: "c", agent: "clerk", fetch: test.fetch, ...automatic });
    await chat.sendMessage({ text: "refund lookup mail" });
    const [refund = "", mail = ""] = listQuestions(chat);
    await chat.addToolApprovalResponse({ id: refund, approved: true });
    await chat.addToolApprovalResponse({ id: mail, approved: false, reason: "too much" });
    await until(() => chat.status === "ready" && JSON.stringify(chat.messages).includes("Done"));
    assert.equal(chat.error, undefined);
    assert.deepEqual(tools(chat), { refund: "Not run", lookup: "Not run", mail: "output-denied" });
    assert.match(JSON.stringify(chat.messages.at(-1)), /Done: too much/);
    await assertSame(test, chat, "c", "clerk");
  });

  for (const version of [6, 5] as const) {
    it(`interrupts version ${version} in its format`, async () => {
      await using test = await testService({ executor: executor() });
      const chat = openChat({ id: "c", agent: "clerk", fetch: test.fetch }, version);
      await chat.sendMessage({ text: "refund lookup" });
      assert.equal(chat.error, undefined);
      const [id = ""] = listQuestions(chat);
      if (version === 6) {
        await chat.addToolApprovalResponse({ id, approved: true });
        await chat.sendMessage();
      } else {
        const part = chat.messages.at(-1)?.parts.at(-1) as { readonly id: string };
        await chat.sendMessage(undefined, { body: { resume: { [part.id]: { decisions: [{ type: "approve" }] } } } });
      }
      assert.equal(chat.error, undefined);
      assert.deepEqual(tools(chat), { refund: "refunded 30", lookup: { found: "1182" } });
    });
  }

  it("interrupts with a question, which data or a text answers", async () => {
    await using test = await testService({ executor: executor() });
    const chat = openChat({ id: "c", agent: "asks", fetch: test.fetch });
    await chat.sendMessage({ text: "Go" });
    const part = chat.messages.at(-1)?.parts[0] as { readonly id: string; readonly data: object };
    assert.deepEqual(part.data, { id: part.id, value: { question: "Where to?" }, open: true });
    await assertSame(test, chat, "c", "asks");
    await chat.sendMessage(undefined, { body: { resume: { [part.id]: "Rome" } } });
    assert.equal(chat.error, undefined);
    assert.equal(chat.messages.length, 2);
    assert.match(JSON.stringify(chat.messages), /Going to \\"Rome\\"/);
    await assertSame(test, chat, "c", "asks");

    await chat.sendMessage({ text: "Again" });
    await chat.sendMessage({ text: "Paris" });
    assert.equal(chat.error, undefined);
    assert.equal(chat.messages.length, 6);
    assert.match(JSON.stringify(chat.messages.at(-1)), /Going to \\"Paris\\"/);
    await assertSame(test, chat, "c", "asks");
    const first = await stored(test, "c", "asks");
    assert.deepEqual(
      first.map(({ id }) => id),
      chat.messages.map(({ id }) => id),
    );
  });

  it("accepts the answers of two interrupts, one by one or together", async () => {
    await using test = await testService({ executor: executor() });
    for (const together of [true, false]) {
      const chat = openChat({ id: `c${together}`, agent: "twice", fetch: test.fetch });
      await chat.sendMessage({ text: "Go" });
      const ids = (chat.messages.at(-1)?.parts ?? []).map((part) => (part as { readonly id: string }).id);
      assert.equal(ids.length, 2);
      const answers = ids.map((id, index) => [id, `yes${index}`] as const);
      for (const some of together ? [answers] : answers.map((answer) => [answer])) {
        await chat.sendMessage(undefined, { body: { resume: Object.fromEntries(some) } });
        assert.equal(chat.error, undefined);
        await assertSame(test, chat, `c${together}`, "twice");
      }
      const text = JSON.stringify(chat.messages);
      assert.ok(text.includes("one yes0") && text.includes("two yes1"), text);
    }
  });
});

describe("the AI SDK's chat: regenerated and edited messages", () => {
  for (const agent of ["echo", "plain"]) {
    it(`regenerates and edits (${agent})`, async () => {
      await using test = await testService({ executor: executor() });
      const chat = openChat({ id: "c", agent, fetch: test.fetch });
      await chat.sendMessage({ text: "One" });
      await chat.sendMessage({ text: "Two" });
      const before = plain(chat.messages);
      await chat.regenerate();
      assert.equal(chat.error, undefined);
      assert.deepEqual(
        chat.messages.map(({ id }) => id),
        before.map(({ id }) => id),
      );
      await assertSame(test, chat, "c", agent);
      for (const [location, text] of [
        [2, "Three"],
        [0, "Zero"],
      ] as const) {
        await chat.sendMessage({ text, messageId: before[location]?.id as string });
        assert.equal(chat.error, undefined);
        assert.equal(chat.messages.length, location + 2);
        assert.match(JSON.stringify(chat.messages.at(-1)), new RegExp(`You said ${text}`));
        await assertSame(test, chat, "c", agent);
        assert.equal((await stored(test, "c", agent)).length, location + 2);
      }
    });
  }
});
