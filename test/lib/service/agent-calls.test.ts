/** The calls of agents in process. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { testService } from "../../suite/mod.ts";
import { agentCallsSuite, openService, runWithFeedback } from "../../support/agent-calls.ts";

agentCallsSuite({ describe, it, before, after }, "The calls of agents of a service", openService);

describe("A call with feedback keys", () => {
  it("returns values without the links", async () => {
    await using place = await openService();
    await runWithFeedback(place);
  });
});

describe("runs.run", () => {
  it("is the call `run` of an agent", async () => {
    await using test = await testService({ agents: { greet: ({ context }) => ({ text: `Hi ${context["name"]}` }) } });
    const values = await test.service.runs.run("greet", {}, { context: { name: "Ann" } });
    assert.deepEqual(values, { text: "Hi Ann" });
  });
});

describe("The calls of agents of a caller", () => {
  it("ask the handlers of custom authentication, for the thread too", async () => {
    const events: string[] = [];
    const custom = {
      authenticate: () => "ann",
      on: {
        "*": ({ event, value, user }: { event: string; value: { metadata?: object }; user: { identity: string } }) => {
          events.push(event);
          value.metadata = { ...value.metadata, owner: user.identity };
          return { owner: user.identity };
        },
      },
    };
    await using test = await testService({ agents: { count: () => ({ n: 1 }) }, auth: { custom } });
    const ann = test.service.as({
      user: { identity: "ann", permissions: [], display_name: "ann", is_authenticated: true },
    });
    assert.deepEqual(await ann.agent("count").run({}), { n: 1 });
    assert.deepEqual(await ann.runs.run("count", {}), { n: 1 });
    assert.deepEqual(events.slice(0, 2), ["threads:create", "threads:create_run"]);
    const threads = await test.service.threads.search({ metadata: { owner: "ann" } });
    assert.equal(threads.items.length, 2);
  });
});
