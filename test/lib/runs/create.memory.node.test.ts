/** Requests that wait for runs with large inputs do not retain them. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { testAccounts, testService } from "../../suite/mod.ts";
import { measureHeap } from "../../support/heap.ts";

const SIZE = 4 * 1024 * 1024;
const WAITING = 8;

for (const verb of ["wait", "stream"]) {
  it(`a client that waits for a pending run with …/${verb} retains no input`, async () => {
    const [started, finish] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()];
    const { identity, keys } = testAccounts({ keys: { ann: {} } });
    const slow = (): Promise<string> => {
      started.resolve();
      return finish.promise;
    };
    await using kit = await testService({
      agents: { slow },
      worker: { concurrency: 1 },
      identity,
      auth: { mode: "api_key" },
    });
    const send = async (path: string, body: object): Promise<Response> =>
      await kit.fetch(`http://localhost${path}`, {
        method: "POST",
        headers: { "content-type": "application/json", "x-api-key": keys.ann as string },
        // Like a server's, this request retains the text of its body.
        body: new Blob([JSON.stringify(body)]).stream(),
        duplex: "half",
      } as RequestInit);
    const start = async (input: object): Promise<Response> => {
      const { thread_id } = (await (await send("/threads", {})).json()) as { thread_id: string };
      return await send(`/threads/${thread_id}/runs/${verb}`, { assistant_id: "slow", input });
    };
    const responses = [await start({ data: "small" })];
    await started.promise;
    // The first request of its kind allocates memory that stays, such as loaded code.
    responses.push(await start({ data: "x".repeat(SIZE) }));
    const before = await measureHeap();
    for (let n = 0; n < WAITING; n++) responses.push(await start({ data: `${n}${"x".repeat(SIZE)}` }));
    const each = ((await measureHeap()) - before) / WAITING;
    finish.resolve("done");
    for (const response of responses) await response.body?.cancel();
    assert.ok(each < SIZE / 4, `${Math.round(each)} bytes for each request`);
  });
}
