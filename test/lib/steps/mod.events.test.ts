/** External events that are late, repeated or for another run. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AgentFunction } from "../../../lib/mod.ts";
import { testClock, testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";
import { until } from "../../support/until.ts";

keepAlive();

const tokens: string[] = [];
const waiter: AgentFunction = async ({ wait, ask }) => {
  const begin = ({ token }: { token: string }): void => void tokens.push(token);
  const first = await wait("go", { timeout: "1h", begin });
  await ask("on", "?");
  return { first, second: await wait("go", { timeout: "1h" }) };
};

async function world() {
  const clock = testClock();
  const kit = await testService({
    agents: { waiter },
    environment: clock,
    public_base_url: "https://agents.example",
  });
  const { runs, threads } = kit.service;
  const soon = (fact: () => Promise<boolean>): Promise<void> =>
    until(async () => {
      await clock.advance(60);
      return await fact();
    });
  const start = async (): Promise<{ thread_id: string; run_id: string }> => {
    const { thread_id } = await threads.create();
    const { run_id } = await runs.create(thread_id, { assistant_id: "waiter", input: {} });
    await soon(async () => (await runs.get(thread_id, run_id)).waiting_for !== undefined);
    return { thread_id, run_id };
  };
  const asks = (thread_id: string) => async (): Promise<boolean> =>
    (await threads.get(thread_id)).status === "interrupted";
  return { kit, clock, soon, start, asks };
}

describe("an external event", () => {
  it("for another run, thread or name does not end a wait", async () => {
    const { kit, clock, soon, start, asks } = await world();
    await using _ = kit;
    const { runs, threads } = kit.service;
    const [first, second] = [await start(), await start()];
    await assert.rejects(runs.send(first.thread_id, second.run_id, "go", 1), { code: "not_found" });
    await assert.rejects(threads.send("00000000-0000-4000-8000-00000000abcd", "go", 1), { code: "not_found" });
    await threads.send(first.thread_id, "come", 1);
    await clock.advance(10_000);
    for (const { thread_id, run_id } of [first, second])
      assert.equal((await runs.get(thread_id, run_id)).status, "pending");
    await runs.send(second.thread_id, second.run_id, "go", 2);
    await soon(asks(second.thread_id));
    assert.equal((await runs.get(first.thread_id, first.run_id)).status, "pending");
    assert.deepEqual((await runs.steps(first.thread_id, first.run_id)).events, [
      { name: "come", payload: 1, used: false },
    ]);
  });

  it("reaches a valid address after 1,000 requests to unknown ones", async () => {
    const { kit, soon, start, asks } = await world();
    await using _ = kit;
    const send = (token: string): Promise<Response> =>
      kit.fetch(`http://greenroom/greenroom/events/${token}`, { method: "POST", body: "1" });
    const { thread_id } = await start();
    const token = tokens.at(-1) as string;
    for (let n = 1; n <= 1_000; n++) assert.equal((await send(`x${n}`)).status, 404);
    assert.equal((await send(token)).status, 200);
    await soon(asks(thread_id));
  });

  it("is refused by an expired address, and kept for the next wait by name", async () => {
    const { kit, clock, soon, start, asks } = await world();
    await using _ = kit;
    const { runs, threads, calls } = kit.service;
    const { thread_id } = await start();
    await clock.advance("1h");
    await soon(asks(thread_id));
    await assert.rejects(calls.deliver(tokens.at(-1) as string, 1), { reason: "call_ended" });
    await threads.send(thread_id, "go", 2);
    const { result } = await runs.wait(thread_id, { assistant_id: "waiter", command: { resume: true } });
    await soon(async () => (await threads.get(thread_id)).status === "idle");
    const { first, second } = (await result) as { first: unknown; second: unknown };
    assert.deepEqual([first, second], [null, 2]);
    await assert.rejects(threads.send(thread_id, "go", 3), { reason: "call_ended" });
  });

  it("that arrives twice at once ends one wait", async () => {
    const { kit, soon, start, asks } = await world();
    await using _ = kit;
    const { runs, threads, calls } = kit.service;
    const { thread_id, run_id } = await start();
    const token = tokens.at(-1) as string;
    await Promise.all([calls.deliver(token, { a: 1 }), calls.deliver(token, { a: 1 })]);
    await soon(asks(thread_id));
    assert.deepEqual((await runs.steps(thread_id, run_id)).events, [{ name: "go", payload: { a: 1 }, used: true }]);
    await runs.create(thread_id, { assistant_id: "waiter", command: { resume: true } });
    await soon(async () => (await runs.list(thread_id)).some(({ waiting_for }) => waiting_for !== undefined));
    assert.equal((await threads.get(thread_id)).status, "busy");
  });
});
