/** Checks the clock, accounts, traces and tokens of the public kit `greenroom/testing`. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ConfigError } from "../../lib/errors.ts";
import { testAccounts, testClock, testService } from "../suite/mod.ts";

const W1 = "11111111-1111-4111-8111-111111111111";
const START = Date.UTC(2026, 0, 1);

describe("the test clock", () => {
  it("jumps, and calls the timers that are due by then once, in order", async () => {
    const clock = testClock(START);
    const calls: string[] = [];
    clock.timer(30, () => calls.push("b"));
    clock.timer(10, () => {
      calls.push("a");
      clock.timer(10, () => calls.push("again"));
    });
    const cancel = clock.timer(20, () => calls.push("never"));
    clock.timer(1_001, () => calls.push("later"));
    cancel();
    await clock.set(START + 1_000);
    assert.equal(clock.now(), START + 1_000);
    assert.deepEqual(calls, ["a", "b"]);
    await clock.advance(10);
    assert.deepEqual(calls, ["a", "b", "later", "again"]);
  });
});

describe("test accounts", () => {
  it("have a key for each name, with its permissions", async () => {
    const { identity, keys } = testAccounts({
      workspaces: [
        { id: W1, name: "one" },
        { id: W1.replaceAll("1", "2"), name: "two" },
      ],
      keys: { all: {}, one: { workspaces: [W1], permissions: ["workspaces:read"] } },
    });
    await using test = await testService({ agents: { a: () => "x" }, identity, auth: { mode: "api_key" } });
    const names = async (key: string): Promise<unknown> => {
      const answer = await test.fetch("http://greenroom/api/v1/workspaces", { headers: { "x-api-key": key } });
      return ((await answer.json()) as readonly { readonly display_name: string }[]).map((row) => row.display_name);
    };
    assert.deepEqual(await names(keys["all"] as string), ["one", "two"]);
    assert.deepEqual(await names(keys["one"] as string), ["one"]);
  });

  it("report their problems", () => {
    assert.throws(() => testAccounts({ keys: { lost: { workspaces: [W1] } } }), ConfigError);
  });
});

describe("a test service", () => {
  it("accepts traces and tokens as if runs had created them", async () => {
    const clock = testClock(START);
    await using test = await testService({
      agents: { a: () => "x" },
      public_base_url: "https://example.com",
      environment: { now: clock.now, timer: clock.timer },
    });
    const [run_id = ""] = await test.addTraces([{ user_id: null }, { started_at: START - 1, counted: false }]);
    const query = "start_time=2025-12-31&end_time=2026-01-02";
    const workspace = test.service.deployment.workspace_id;
    const billing = "http://greenroom/api/v1/orgs/current/billing/granular-usage";
    const report = await test.fetch(`${billing}?${query}&workspace_ids=${workspace}`);
    const { usage } = (await report.json()) as { readonly usage: readonly { readonly traces: number }[] };
    assert.deepEqual(
      usage.map(({ traces }) => traces),
      [1],
    );

    const [token = "", goneToken = ""] = await test.addTokens([
      { run_id, feedback_key: "score" },
      { run_id, feedback_key: "score", expires_at: START },
    ]);
    const submit = async (id: string): Promise<number> => {
      const body = JSON.stringify({ score: 1 });
      const url = `http://greenroom/api/v1/feedback/tokens/${id}`;
      return (await test.fetch(url, { method: "POST", body })).status;
    };
    assert.deepEqual([await submit(token), await submit(goneToken)], [200, 410]);
    await clock.set(START + 3 * 3_600_000);
    assert.equal(await submit(token), 410, "three hours are over");
  });
});
