/** The bridge of AG-UI, which CopilotKit brings along: it calls the routes of the SDK. Only `npm run test:all` installs it. */
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { HttpAgent } from "@ag-ui/client";
import { serve } from "../../adapters/node/mod.ts";
import { createHandler } from "../../lib/http/handler.ts";
import type { JsonObject } from "../../lib/json.ts";
import { combine, type FunctionJob, fromFunctions } from "../../lib/mod.ts";
import { testService } from "../suite/mod.ts";
import { root } from "../support/programs.ts";
import { until } from "../support/until.ts";
import { langchainAgents } from "./ai/agents.ts";

const agents = {
  async *fails() {
    yield "Hel";
    throw new Error("no model");
  },
  async *waits({ signal }: FunctionJob) {
    yield "Begun";
    await new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  },
};

async function open() {
  const require = createRequire(join(root, "node_modules/.copilotkit/package.json"));
  const { LangGraphAgent } = require("@ag-ui/langgraph");
  const test = await testService({ executor: combine(fromFunctions(agents), langchainAgents()) });
  const server = await serve(createHandler(test.service), { hostname: "127.0.0.1", port: 0 });
  const deploymentUrl = `http://127.0.0.1:${server.port}`;
  const settings = { emitInterruptOutcome: true, enableLegacyOnInterruptEvent: false };
  return {
    service: test.service,
    agent(graphId: string) {
      const agent = new LangGraphAgent({
        deploymentUrl,
        graphId,
        threadId: crypto.randomUUID(),
        ...settings,
      }) as HttpAgent;
      const events: JsonObject[] = [];
      const run = async (parameters: object = {}): Promise<void> => {
        events.length = 0;
        await agent.runAgent(parameters, {
          onEvent: ({ event }: { event: unknown }) => void events.push(event as JsonObject),
        } as never);
      };
      const say = async (content: string): Promise<void> => {
        agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
        await run();
      };
      const interrupts = () => ((events.at(-1) as JsonObject).outcome as JsonObject).interrupts as JsonObject[];
      return { agent, events, run, say, interrupts, said: () => agent.messages.map(({ content }) => content) };
    },
    async [Symbol.asyncDispose]() {
      await server.close();
      await test[Symbol.asyncDispose]();
    },
  };
}

if (process.env.GREENROOM_TEST_ALL === "1") {
  describe("the bridge of AG-UI", () => {
    it("runs twice on one thread, and calls tools", async () => {
      await using bridge = await open();
      const { say, said, events } = bridge.agent("plain");
      await say("One");
      await say("lookup");
      assert.deepEqual(said().slice(0, 3), ["One", "You said One", "lookup"]);
      assert.ok(said().some((content) => /^Done: .*1182/.test(String(content))));
      assert.ok(events.some(({ type }) => type === "TOOL_CALL_RESULT"));
    });

    it("answers one interrupt, and two at once", async () => {
      await using bridge = await open();
      const singleAgent = bridge.agent("asks");
      await singleAgent.say("Go");
      const [interrupt] = singleAgent.interrupts();
      await singleAgent.run({ resume: [{ interruptId: interrupt?.id, status: "resolved", payload: "Rome" }] });
      assert.match(String(singleAgent.said().at(-1)), /Going to .*Rome/);
      const two = bridge.agent("twice");
      await two.say("Go");
      const resume = two
        .interrupts()
        .map(({ id }, at) => ({ interruptId: id, status: "resolved", payload: `yes${at}` }));
      assert.equal(resume.length, 2);
      await two.run({ resume });
      assert.deepEqual(two.said().slice(1).sort(), ["one yes0", "two yes1"]);
    });

    it("receives errors, and stops a run", async () => {
      await using bridge = await open();
      const failing = bridge.agent("fails");
      await failing.say("Hi").catch(() => {});
      assert.match(JSON.stringify(failing.events), /no model/);
      const waiting = bridge.agent("waits");
      const done = waiting.say("Hi").catch(() => {});
      await until(() => JSON.stringify(waiting.events).includes("Begun"));
      waiting.agent.abortRun();
      await done;
    });
  });
}
