/** AG-UI clients exchange states and events with graphs. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { END, MessagesZodState, START, StateGraph } from "@langchain/langgraph";
import { z } from "zod/v3";
import { langgraph } from "../../../../../adapters/langgraph/mod.ts";
import type { JsonObject } from "../../../../../lib/json.ts";
import { combine, type FunctionJob, fromFunctions, type Run } from "../../../../../lib/mod.ts";
import {
  createClient,
  findOutcome,
  KINDS,
  listInterrupts,
  listTypes,
  readLastContent,
} from "../../../../compat/ag-ui/client.ts";
import { langchainAgents, ran } from "../../../../compat/ai/agents.ts";
import { testService } from "../../../../suite/mod.ts";
import { ASKING, CLOSED, readShownThread } from "../../../../support/inbox.ts";

const agents = {
  /** Interrupts twice in sequence. */
  async *twofold({ command, state, interrupt }: FunctionJob) {
    const answers = [
      ...((state.answers as unknown[]) ?? []),
      ...(command?.resume === undefined ? [] : [command.resume]),
    ];
    yield { answers };
    if (answers.length < 2) yield interrupt({ question: `Question ${answers.length + 1}?`, reason: "more" });
    else yield `Answers ${JSON.stringify(answers)}`;
  },
  /** A graph with a large state. */
  async *large({ state }: FunctionJob) {
    yield { text: "x".repeat(20_000), n: 1 };
    yield { ...state, n: 2 };
  },
};

/** A graph that answers with the state of the page. */
const State = MessagesZodState.extend({
  tools: z.array(z.any()).optional(),
  copilotkit: z.any().optional(),
  theme: z.string().optional(),
});
const speakingGraph = new StateGraph(State)
  .addNode("tell", ({ tools, copilotkit, theme }) => ({
    messages: [{ role: "assistant", content: JSON.stringify({ tools, copilotkit, theme }) }],
  }))
  .addEdge(START, "tell")
  .addEdge("tell", END)
  .compile();

const executor = () => combine(fromFunctions(agents), langchainAgents(), langgraph({ told: speakingGraph } as never));

for (const kind of KINDS) {
  describe(`AG-UI's client ${kind}`, () => {
    it("shows an agent that is the tool of another as a subagent", async () => {
      await using test = await testService({ executor: executor() });
      const client = createClient(test, "helped", kind);
      await client.say("helper");
      const started = client.events.find(({ type }) => type === "SUBAGENT_STARTED") as JsonObject;
      assert.deepEqual([started.name, started.parentToolCallId], ["helper", "call-1-0"]);
      const inside = client.events.filter((event) => event.subagentRunId === started.subagentRunId);
      const text = inside.flatMap(({ type, delta }) => (type === "TEXT_MESSAGE_CONTENT" ? [delta] : [])).join("");
      assert.equal(text, "You said Deep thought");
      assert.equal(inside.at(-1)?.type, "SUBAGENT_FINISHED");
      assert.match(String(readLastContent(client)), /^Done: It says: You said Deep thought/);
      assert.deepEqual(
        client.agent.messages.map(({ role }) => role),
        ["user", "assistant", "tool", "assistant"],
      );
    });

    it("shows two messages that stream concurrently", async () => {
      await using test = await testService({ executor: executor() });
      const client = createClient(test, "both", kind);
      await client.say("Go");
      const texts = Map.groupBy(
        client.events.filter(({ type }) => type === "TEXT_MESSAGE_CONTENT"),
        ({ messageId }) => messageId,
      );
      assert.deepEqual(
        [...texts.values()].map((list) => list.map(({ delta }) => delta).join("")).sort(),
        ["one", "two"].map((name) => `You said ${name} has many words`),
      );
      assert.equal(client.agent.messages.length, 3);
    });

    it("passes its tools, context and state to a graph with members for them", async () => {
      await using test = await testService({ executor: executor() });
      const client = createClient(test, "told", kind, { initialState: { theme: "dark", other: 1 } });
      const parameters = { type: "object", properties: {} };
      const tools = [{ name: "confirm", description: "Ask", parameters }];
      client.agent.addMessage({ id: "u", role: "user", content: "Hi" });
      await client.run({ tools, context: [{ description: "page", value: "home" }] });
      const confirm = { name: "confirm", description: "Ask", parameters };
      const action = { type: "function", name: "confirm", function: confirm };
      assert.deepEqual(JSON.parse(String(readLastContent(client))), {
        tools: [action],
        copilotkit: { actions: [action], context: [{ description: "page", value: "home" }] },
        theme: "dark",
      });
    });

    it("gets a large state once, and then its changes", async () => {
      await using test = await testService({ executor: executor() });
      const client = createClient(test, "large", kind);
      await client.say("Go");
      assert.deepEqual(
        listTypes(client).filter((type) => type.startsWith("STATE")),
        ["STATE_SNAPSHOT", "STATE_DELTA"],
      );
      assert.deepEqual(client.agent.state, { text: "x".repeat(20_000), n: 2 });
    });

    it("resumes with the id of the interrupted run, as CopilotKit does, and joins the run of a repeated request", async () => {
      await using test = await testService({ executor: executor() });
      const client = createClient(test, "twofold", kind);
      client.agent.addMessage({ id: "u", role: "user", content: "Go" });
      await client.run({ runId: "r" });
      const interruptValues: unknown[] = [];
      for (const payload of ["a", "b"]) {
        const [interrupt] = listInterrupts(client);
        interruptValues.push([interrupt?.message, interrupt?.reason]);
        await client.run({ runId: "r", resume: [{ interruptId: interrupt?.id, status: "resolved", payload }] });
      }
      assert.deepEqual(interruptValues, [
        ["Question 1?", "more"],
        ["Question 2?", "more"],
      ]);
      assert.equal(readLastContent(client), 'Answers ["a","b"]');
      const runs = await test.service.runs.list(await test.service.threads.idOf(client.agent.threadId));
      assert.equal(runs.length, 3);
      const { resume: answered } = (runs[0] as Run).kwargs.command as JsonObject;
      const ids = Object.keys(answered as JsonObject);
      const body = { threadId: client.agent.threadId, runId: "r", messages: [] };
      const resume = ids.map((interruptId) => ({ interruptId, status: "resolved", payload: "b" }));
      const url = "http://localhost/ag-ui/twofold";
      const again = await test.fetch(url, { method: "POST", body: JSON.stringify({ ...body, resume }) });
      assert.match(await again.text(), /RUN_FINISHED/);
      assert.equal((await test.service.runs.list(await test.service.threads.idOf(client.agent.threadId))).length, 3);
    });

    it("resumes as clients did before interrupts had ids", async () => {
      await using test = await testService({
        executor: executor(),
        http: { ag_ui: { legacy_interrupts: true } },
      });
      const client = createClient(test, "twofold", "0.0.59");
      client.agent.addMessage({ id: "u", role: "user", content: "Go" });
      await client.run({ runId: "r" });
      const interruptEvent = client.events.find(({ type, name }) => type === "CUSTOM" && name === "on_interrupt");
      assert.deepEqual(JSON.parse(String(interruptEvent?.value)), { question: "Question 1?", reason: "more" });
      client.agent.pendingInterrupts.length = 0;
      await client.run({ runId: "r", forwardedProps: { command: { resume: "a" } } });
      assert.equal(listInterrupts(client)[0]?.message, "Question 2?");
    });

    it("cancels an approval, or decides each action", async () => {
      await using test = await testService({ executor: executor() });
      const edited = { type: "edit", edited_action: { name: "refund", args: { amount: 7 } } };
      for (const [answer, done] of [
        [{ status: "cancelled" }, []],
        [{ status: "resolved", payload: { decisions: [{ type: "approve" }] } }, ["refund 30"]],
        [{ status: "resolved", payload: { decisions: [edited] } }, null],
      ] as const) {
        const client = createClient(test, "clerk", kind);
        await client.say("refund");
        ran.length = 0;
        const thread_id = await test.service.threads.idOf(client.agent.threadId);
        assert.deepEqual(await readShownThread(test.fetch, thread_id), ASKING);
        await client.run({ resume: [{ interruptId: listInterrupts(client)[0]?.id, ...answer }] });
        if (done) assert.deepEqual([ran, await readShownThread(test.fetch, thread_id)], [done, CLOSED]);
        // The middleware allows no edit of this tool.
        else assert.equal(client.events.at(-1)?.type, "RUN_ERROR");
      }
    });

    it("writes no state with `state: read`", async () => {
      await using test = await testService({ executor: executor(), http: { ag_ui: { state: "read" } } });
      const client = createClient(test, "told", kind, { initialState: { theme: "dark" } });
      await client.say("Hi");
      assert.deepEqual(JSON.parse(String(readLastContent(client))), {});
      assert.deepEqual(findOutcome(client), { type: "success" });
    });
  });
}
