/** External events of durable functions over HTTP with bodies that no event can have. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AgentFunction } from "../../../../lib/mod.ts";
import { testService } from "../../../suite/mod.ts";
import { keepAlive } from "../../../support/alive.ts";
import { until } from "../../../support/until.ts";

keepAlive();

const URL_BASE = "https://agents.example";
const BEYOND = /beyond the range of a double/;

async function startWaiter() {
  let url = "";
  const waiter: AgentFunction = async ({ wait }) => {
    const begin = (event: { url: string }): void => {
      url = event.url;
    };
    return { event: await wait("paid", { timeout: "1h", begin }) };
  };
  const kit = await testService({ agents: { waiter }, public_base_url: URL_BASE });
  const { runs, threads } = kit.service;
  const { thread_id } = await threads.create();
  const { run_id } = await runs.create(thread_id, { assistant_id: "waiter", input: {} });
  await until(async () => (await runs.get(thread_id, run_id)).waiting_for !== undefined);
  const post = async (path: string, body: string): Promise<readonly [number, string]> => {
    const response = await kit.fetch(new URL(path, URL_BASE), { method: "POST", body });
    return [response.status, await response.text()];
  };
  return { kit, thread_id, run_id, address: url, post };
}

describe("an external event with a number beyond the range of a double", () => {
  it("is refused by thread and by address, and the wait continues", async () => {
    const { kit, thread_id, run_id, address, post } = await startWaiter();
    await using _ = kit;
    const { runs } = kit.service;
    for (const path of [`/threads/${thread_id}/events/paid`, address]) {
      for (const body of ["1e999", "-1e999", '{"amount":1e999}', '[{"a":[1e400]}]']) {
        const [status, text] = await post(path, body);
        assert.equal(status, 422, `${path} ${body}: ${text}`);
        assert.match(text, BEYOND);
      }
    }
    assert.deepEqual((await runs.steps(thread_id, run_id)).events, []);
    assert.equal((await post(`/threads/${thread_id}/events/paid`, '{"amount":1e308}'))[0], 200);
    const { result } = await runs.join(thread_id, run_id);
    assert.deepEqual(await result, { event: { amount: 1e308 } });
  });

  it("is refused in process", async () => {
    const { kit, thread_id } = await startWaiter();
    await using _ = kit;
    const sending = kit.service.threads.send(thread_id, "paid", { amount: Number.POSITIVE_INFINITY });
    await assert.rejects(sending, { code: "invalid", message: BEYOND });
  });
});
