/** A state that is read over a socket right after a frame is never older than the frame. GREENROOM_READS sets the number of reads. */
import assert from "node:assert/strict";
import { join } from "node:path";
import process from "node:process";
import { it } from "node:test";
import { Client } from "langgraph-sdk-2";
import { serve } from "../../adapters/node/mod.ts";
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import { createHandler } from "../../lib/http/handler.ts";
import { createService } from "../../lib/mod.ts";
import type { Storage } from "../../lib/storage/types.ts";
import { createTemporaryFolder } from "../support/programs.ts";
import { findMissingTexts, readBackAgents, readExpectedTexts } from "./read-after-frame-agents.ts";

const READS = Number(process.env["GREENROOM_READS"] ?? 200);
/** Clients at once. */
const LANES = 8;

let open = (path: string): Storage => nodeSqlite(path);
if ("Bun" in globalThis) {
  const { bunSqlite } = await import("../../adapters/sqlite/bun.ts");
  open = bunSqlite;
}

const isQuestion = (data: unknown): boolean => typeof data === "object" && data !== null && "__interrupt__" in data;
/** After which frame of a run the state is read: by turns after each of them. */
const PLACES: readonly ((event: string, data: unknown) => boolean)[] = [
  (event, data) => event === "values" && isQuestion(data),
  (event, data) =>
    event === "values" && !isQuestion(data) && readExpectedTexts({ event, data }).some((text) => text.endsWith("one")),
  (event, data) =>
    event === "values" && !isQuestion(data) && readExpectedTexts({ event, data }).some((text) => text.endsWith("two")),
  (event) => event === "end",
];

it(`${READS} states that are read right after a frame are as new as the frame`, async () => {
  using folder = createTemporaryFolder();
  const storage = open(join(folder.path, "read-back.db"));
  const service = await createService({ storage, executor: readBackAgents(), environment: { log: () => {} } });
  const handler = createHandler(service);
  const listener = await serve((request) => handler(request), { hostname: "127.0.0.1", port: 0 });
  const client = new Client({ apiUrl: `http://127.0.0.1:${listener.port}` });
  const behind: string[] = [];
  let reads = 0;

  async function read(number: number): Promise<void> {
    const agent = number % 2 === 0 ? "graph" : "steps";
    const here = PLACES[(number >> 1) % PLACES.length] as (typeof PLACES)[number];
    const { thread_id } = await client.threads.create();
    const input = { log: ["w".repeat(1 + (number % 7))] };
    let done = false;
    for await (const { event, data } of client.runs.stream(thread_id, agent, { input, streamMode: "values" })) {
      if (done || !here(event, data)) continue;
      done = true;
      const state = await client.threads.getState(thread_id);
      const expectedTexts =
        (event as string) === "end" ? [`${input.log[0]}-question`] : readExpectedTexts({ event, data });
      assert.ok(expectedTexts.length > 0);
      behind.push(...findMissingTexts(expectedTexts, state).map((text) => `${agent} after ${event}: ${text}`));
      reads++;
    }
  }

  try {
    const lanes = Array.from({ length: LANES }, async (_, lane) => {
      for (let number = lane; number < READS; number += LANES) await read(number);
    });
    await Promise.all(lanes);
  } finally {
    await service.stop(0);
    await listener.close();
  }
  assert.deepEqual([reads, behind], [READS, []]);
});
