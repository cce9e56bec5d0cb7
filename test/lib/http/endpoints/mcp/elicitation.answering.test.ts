/** People answer the interrupts of MCP calls. The client's model does only if the agent allows it. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createHandler } from "../../../../../lib/http/handler.ts";
import type { Json, JsonObject } from "../../../../../lib/json.ts";
import { type AgentFunction, combine, fromFunctions } from "../../../../../lib/mod.ts";
import { keepAlive } from "../../../../support/alive.ts";
import { answerable, asker, asks, call, FORMS, mcpWorld, readText, readThreadId, TASKS } from "./mcp.harness.ts";

/** Every format of interrupts. */
const FORMS_OF_INTERRUPTS: Readonly<Record<string, AgentFunction>> = {
  text: asks("Refund 30 euros?"),
  question: asks({ question: "Refund 30 euros?" }),
  approval: asks({ actionRequests: [{ name: "refund", args: { amount: 30 } }], reviewConfigs: [] }),
  inbox: asks({ action_request: { action: "refund", args: { amount: 30 } }, config: { allow_accept: true } }),
  durable: async ({ ask }) => `Got ${JSON.stringify(await ask("refund", { question: "Refund 30 euros?" }))}`,
};

const ANSWERS: readonly Json[] = [
  "yes",
  true,
  { decisions: [{ type: "approve" }] },
  [{ type: "accept" }],
  { type: "accept" },
];

describe("an interrupt of an MCP call", () => {
  keepAlive();

  it("cannot be answered by the model in any form", async () => {
    await using it = await mcpWorld({ agents: FORMS_OF_INTERRUPTS });
    for (const name of Object.keys(FORMS_OF_INTERRUPTS)) {
      const thread_id = readThreadId((await it.ask("tools/call", call(name))).result);
      for (const resume of ANSWERS) {
        for (const capabilities of [undefined, {}, FORMS, { ...FORMS, ...TASKS }]) {
          const options = capabilities ? { capabilities } : {};
          const { result } = await it.ask("tools/call", { name, arguments: { thread_id, resume } }, options);
          assert.equal(result.isError, true, `${name}: ${JSON.stringify(result)}`);
        }
      }
      const [run, second] = await it.service.runs.list(thread_id);
      assert.deepEqual(
        [run?.status, second, (await it.service.threads.get(thread_id)).status],
        ["success", undefined, "interrupted"],
      );
    }
  });

  it("is not opened to the model by the metadata of an assistant, which callers write", async () => {
    await using it = await mcpWorld();
    await it.service.assistants.update("refund", { metadata: { mcp: { resume: "all", model_may_answer: true } } });
    const thread_id = readThreadId((await it.ask("tools/call", call("refund"))).result);
    const { result } = await it.ask("tools/call", { name: "refund", arguments: { thread_id, resume: "yes" } });
    assert.match(readText(result), /Only a person can answer/);
    assert.equal((await it.service.threads.get(thread_id)).status, "interrupted");
  });

  it("is answered by the model if the agent allows it, whose tool then has `resume`", async () => {
    await using it = await mcpWorld({
      executor: combine(answerable(FORMS_OF_INTERRUPTS), fromFunctions({ closed: asks("Sure?") })),
    });
    for (const name of Object.keys(FORMS_OF_INTERRUPTS)) {
      const first = (await it.ask("tools/call", call(name))).result;
      const thread_id = readThreadId(first);
      assert.match(
        readText(first),
        new RegExp(`To answer, call ${name} again with {"thread_id": "${thread_id}", "resume": …}`),
      );
      const { result } = await it.ask("tools/call", { name, arguments: { thread_id, resume: "yes" } });
      assert.equal(readText(result), 'Got "yes"');
    }
    const { tools } = (await it.ask("tools/list")).result;
    const offered = (tools as JsonObject[]).map(({ name, inputSchema }) => [
      name,
      Object.keys((inputSchema as JsonObject).properties as JsonObject).includes("resume"),
    ]);
    const expected = [...Object.keys(FORMS_OF_INTERRUPTS).map((name) => [name, true]), ["closed", false]];
    assert.deepEqual(offered.sort(), expected.sort());
  });

  it("is answered by a person, and the same call with the thread gets the result", async () => {
    await using it = await mcpWorld();
    const first = (await it.ask("tools/call", call("refund"))).result;
    const thread_id = readThreadId(first);
    const text =
      "The agent asks: Refund 30 euros? Only a person can answer. Tell your user that the conversation " +
      `${thread_id} waits for an answer. Afterwards, call refund again with the same arguments and ` +
      `"thread_id": "${thread_id}" to get the result.`;
    assert.deepEqual([first.isError, readText(first)], [true, text]);
    const again = async (params: JsonObject) =>
      (await it.ask("tools/call", { name: "refund", arguments: { thread_id, ...params } })).result;
    assert.equal(readText(await again({ message: "Hi" })), text);
    assert.equal(readText(await again({})), text);
    assert.equal((await it.service.runs.list(thread_id)).length, 1);
    await (await it.service.runs.wait(thread_id, { assistant_id: "refund", command: { resume: "no" } })).result;
    assert.equal(readText(await again({ message: "Hi" })), 'Got "no"');
    assert.equal(readText(await again({})), 'Got "no"');
    assert.equal((await it.service.runs.list(thread_id)).length, 2);
    // Other arguments continue the conversation.
    assert.match(readText(await again({ message: "Again" })), /^The agent asks: Refund/);
    assert.equal((await it.service.runs.list(thread_id)).length, 3);
  });

  it("is pending again for a person if the run that resumed has failed, and the text says so", async () => {
    const fragile: AgentFunction = ({ command, interrupt }) => {
      if (command?.resume === undefined) return interrupt("Refund 30 euros?");
      if (command.resume === "bad") throw new Error("No such account");
      return `Got ${JSON.stringify(command.resume)}`;
    };
    await using it = await mcpWorld({ agents: { fragile } });
    const first = (await it.ask("tools/call", call("fragile"))).result;
    const thread_id = readThreadId(first);
    const again = async () =>
      (await it.ask("tools/call", call("fragile", { arguments: { message: "Hi", thread_id } }))).result;
    const answer = async (resume: string) =>
      await (await it.service.runs.wait(thread_id, { assistant_id: "fragile", command: { resume } })).result;
    await answer("bad");
    assert.equal(readText(await again()), readText(first));
    await answer("good");
    assert.equal(readText(await again()), 'Got "good"');
    assert.equal((await it.service.runs.list(thread_id)).length, 3);
  });

  it("includes the address of the studio only if the server serves it", async () => {
    await using it = await mcpWorld({ agents: FORMS_OF_INTERRUPTS, public_base_url: "https://agents.example" });
    assert.doesNotMatch(readText((await it.ask("tools/call", call("text"))).result), /https:/);
    const ask = asker(createHandler(it.service, { studio: () => new Response("studio") }));
    const { result } = await ask("tools/call", call("text"));
    assert.match(
      readText(result),
      new RegExp(`Only a person can answer, at https://agents.example/studio/threads/${readThreadId(result)}\\. `),
    );
  });

  it("names the page that a person has to open", async () => {
    await using it = await mcpWorld({ agents: { page: asks({ message: "Log in", url: "https://login.example/" }) } });
    assert.match(
      readText((await it.ask("tools/call", call("page"))).result),
      /^The agent asks: Log in https:\/\/login\.example\/ /,
    );
  });

  it("of a durable function uses the form of its schema", async () => {
    await using it = await mcpWorld({
      agents: {
        durable: async ({ ask }) =>
          `Got ${JSON.stringify(await ask("sure", { question: "Sure?" }, { schema: { type: "boolean" } }))}`,
      },
    });
    const first = (await it.ask("tools/call", call("durable"), { capabilities: FORMS })).result;
    const [[key, request] = []] = Object.entries(first.inputRequests as JsonObject) as [
      string,
      { params: JsonObject },
    ][];
    assert.deepEqual(request?.params.requestedSchema, {
      type: "object",
      properties: { answer: { type: "boolean" } },
      required: ["answer"],
    });
    const inputResponses = { [String(key)]: { action: "accept", content: { answer: true } } };
    const reply = call("durable", { requestState: first.requestState as string, inputResponses });
    assert.equal(readText((await it.ask("tools/call", reply, { capabilities: FORMS })).result), "Got true");
  });
});
