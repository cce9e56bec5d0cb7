/** Settings beside an agent of `agent()`, which has some of its own. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as v from "valibot";
import { createApp } from "../../../adapters/app.ts";
import { agent, ConfigError, fromFunctions } from "../../../lib/mod.ts";
import { testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";

/** Returns its order and the number of the attempt. */
const refund = agent(
  { input: v.object({ order: v.string() }), max_attempts: 1, timeout_ms: 5_000, description: "Refunds" },
  ({ input, attempt }) => `${input.order} ${attempt}`,
);

const readText = ({ messages = [] }: { readonly messages?: readonly { readonly content: unknown }[] }): unknown =>
  messages.at(-1)?.content;

describe("settings beside an agent of agent()", () => {
  keepAlive();

  it("replace its own in fromFunctions, which keeps the others and the schemas", () => {
    const [graph] = fromFunctions({ refund: { agent: refund, max_attempts: 4, strict: true } }).graphs();
    assert.ok(graph);
    const { schemas, ...settings } = graph;
    assert.deepEqual(settings, { graph_id: "refund", max_attempts: 4, timeout_ms: 5_000, description: "Refunds" });
    assert.deepEqual(Object.keys(schemas ?? {}), ["input"]);
  });

  it("apply in createApp, which calls the agent and validates its input", async () => {
    const app = await createApp({
      database: ":memory:",
      agents: { refund: { agent: refund, description: "Pays back" } },
    });
    const assistants = (await app.service.assistants.search({ graph_id: "refund" })).items;
    assert.deepEqual(
      assistants.map(({ description }) => description),
      ["Pays back"],
    );
    assert.equal(readText(await app.service.runs.run("refund", { order: "A" })), "A 1");
    const request = { assistant_id: "refund", input: { order: 7 } };
    await assert.rejects(app.service.runs.wait(null, request), { code: "invalid" });
    await app.stop(0);
  });

  it("apply in a service of tests", async () => {
    await using kit = await testService({ agents: { refund: { agent: refund, max_attempts: 2 } } });
    assert.equal(readText(await kit.service.runs.run("refund", { order: "B" })), "B 1");
  });

  it("are refused if they are unknown or have a wrong value", async () => {
    const agents = { refund: { agent: refund, max_atempts: 1 } };
    const isConfigError = (text: RegExp) => (error: unknown) =>
      error instanceof ConfigError && text.test(error.message);
    assert.throws(() => fromFunctions(agents as never), isConfigError(/refund\.max_atempts: unknown option/));
    await assert.rejects(
      createApp({ database: ":memory:", agents: agents as never }),
      isConfigError(/agents\.refund\.max_atempts: unknown option/),
    );
    await assert.rejects(
      createApp({ database: ":memory:", agents: { refund: { agent: refund, max_attempts: 0 } } }),
      isConfigError(/agents\.refund\.max_attempts/),
    );
  });
});
