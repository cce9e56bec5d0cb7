/** Large requests of MCP and A2A read a bounded amount, and other requests are served meanwhile. */
import assert from "node:assert/strict";
import { it } from "node:test";
import type { JsonObject } from "../../../../lib/json.ts";
import { testService } from "../../../suite/kit.ts";
import { createFaultyStorage } from "../../../support/faulty.ts";
import { asker, say } from "./a2a/a2a.harness.ts";

const MCP_HEADERS = { "content-type": "application/json", accept: "application/json, text/event-stream" };
const createBatch = (count: number): string =>
  JSON.stringify(Array.from({ length: count }, (_, id) => ({ jsonrpc: "2.0", id, method: "tools/list", params: {} })));

it("an MCP batch reads the tools once, and other requests are served between its messages", async () => {
  const { storage, calls } = createFaultyStorage();
  await using test = await testService({ storage, agents: { echo: () => "" } });
  for (let n = 0; n < 120; n++) {
    await test.service.assistants.create({ graph_id: "echo", name: `tool ${n}`, metadata: { mcp: { tool: true } } });
  }
  const [searches, reads] = [calls.searchAssistants ?? 0, calls.getAssistant ?? 0];
  const order: string[] = [];
  const post = (body: string): Promise<Response> =>
    test.fetch("http://greenroom/mcp", { method: "POST", headers: MCP_HEADERS, body });
  const batch = post(createBatch(50)).then(async (response) => {
    order.push("batch");
    return (await response.json()) as { id: number; result: { tools: JsonObject[] } }[];
  });
  for (let n = 0; n < 10; n++) {
    await new Promise((resolve) => setImmediate(resolve));
    await test.fetch("http://greenroom/ok");
    order.push("ok");
  }
  const answers = await batch;
  assert.equal(answers.length, 50);
  assert.ok(answers.every(({ result }) => result.tools.length === 100));
  assert.equal((calls.searchAssistants ?? 0) - searches, 1);
  assert.ok((calls.getAssistant ?? 0) - reads <= 2 * 100 + 2, `${(calls.getAssistant ?? 0) - reads} reads`);
  assert.equal(order.at(-1), "batch");
});

it("an MCP batch has a limit", async () => {
  await using test = await testService({ agents: { echo: () => "" }, http: { mcp: { max_batch: 3 } } });
  const post = (body: string): Promise<Response> =>
    test.fetch("http://greenroom/mcp", { method: "POST", headers: MCP_HEADERS, body });
  assert.equal((await post(createBatch(3))).status, 200);
  const refused = await post(createBatch(4));
  assert.equal(refused.status, 400);
  assert.match(await refused.text(), /1 to 3 messages/);
});

it("ListTasks reads a bounded part of a long conversation for each page, and returns every task once", async () => {
  const { storage, faults } = createFaultyStorage();
  let read = 0;
  faults.getCheckpoint = async (call) => {
    const extracted = (await call()) as { values: readonly { data: string | Uint8Array }[] } | null;
    read += extracted?.values.reduce((sum, { data }) => sum + data.length, 0) ?? 0;
    return extracted;
  };
  await using test = await testService({ storage, agents: { echo: ({ messages }) => `Reply ${messages.length}` } });
  const ask = asker(test.fetch);
  const contextId = crypto.randomUUID();
  const text = "x".repeat(100_000);
  const pagesAt = async (): Promise<{ pages: number; largest: number; ids: string[] }> => {
    const ids: string[] = [];
    let [pageToken, pages, largest] = ["", 0, 0];
    do {
      read = 0;
      const params = { contextId, pageSize: 100, includeArtifacts: true, ...(pageToken === "" ? {} : { pageToken }) };
      const { result } = await ask("echo", "ListTasks", params);
      const tasks = result.tasks as unknown as { id: string; artifacts?: unknown[] }[];
      assert.ok(tasks.every(({ artifacts }) => artifacts?.length === 1));
      ids.push(...tasks.map(({ id }) => id));
      pageToken = result.nextPageToken as string;
      pages++;
      largest = Math.max(largest, read);
    } while (pageToken !== "");
    return { pages, largest, ids };
  };
  const create = async (count: number): Promise<void> => {
    for (let n = 0; n < count; n++) await ask("echo", "SendMessage", say(text, { contextId }));
  };
  await create(6);
  const few = await pagesAt();
  assert.deepEqual([few.pages, few.ids.length], [1, 6]);
  await create(24);
  const many = await pagesAt();
  assert.equal(new Set(many.ids).size, 30);
  // Without a bound, five times the tasks would be 25 times the bytes in one page.
  assert.ok(many.largest < 12 * few.largest, `${few.largest} bytes of 6 tasks, ${many.largest} of 30`);
});
