/** What the kill soak writes down, so that it can be judged from its files when it is cut off. */
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { until } from "../support/until.ts";
import { connect } from "./client.ts";
import { Facts } from "./kill/facts.ts";
import { startLoad } from "./kill/load.ts";

it("each create and each cancel is on the disk before the server receives it, also without a response", async () => {
  const folder = mkdtempSync(join(tmpdir(), "greenroom-facts-"));
  const file = join(folder, "facts.log");
  const missing: string[] = [];
  let creates = 0;
  let cancels = 0;
  const server = createServer(async (request, response) => {
    const written = readFileSync(file, "utf8");
    const { method, url = "", headers } = request;
    for await (const _ of request);
    const answer = (body: object): void => void response.end(JSON.stringify(body));
    const key = headers["idempotency-key"];
    const [, stopped] = /\/runs\/([\w-]+)\/cancel/.exec(url) ?? [];
    if (stopped !== undefined) {
      cancels++;
      if (!written.includes(`{"stop":`) || !written.includes(`"run_id":"${stopped}","thread_id"`)) missing.push(url);
      request.socket.destroy();
    } else if (method === "POST" && typeof key === "string") {
      creates++;
      if (!written.includes(`{"create":{"key":"${key}"`)) missing.push(`${url} ${key}`);
      // One in two gets no answer.
      if (creates % 2 === 0 || url.endsWith("/stream")) request.socket.destroy();
      else answer({ run_id: crypto.randomUUID() });
    } else answer({ assistant_id: crypto.randomUUID(), thread_id: crypto.randomUUID(), context: { version: 0 } });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const facts = new Facts(file);
  try {
    const webhook = (): string => "http://127.0.0.1/";
    const load = await startLoad({ client, facts, webhook, creators: 8, followers: 2, think_ms: 1 });
    await until(() => creates > 60 && cancels > 5);
    await load.finish();
    assert.deepEqual(missing, []);

    // What was cut off in the middle of a line says nothing.
    const cut = join(folder, "cut.log");
    writeFileSync(cut, `${readFileSync(file, "utf8")}{"create":{"key":"ke`);
    const read = new Facts(cut);
    const byKey = (list: Facts["creates"]): unknown[] =>
      JSON.parse(JSON.stringify(list.toSorted((a, b) => (a.key < b.key ? -1 : 1))));
    assert.deepEqual(byKey(read.creates), byKey(facts.creates));
    assert.deepEqual(JSON.parse(JSON.stringify(read.stops)), JSON.parse(JSON.stringify(facts.stops)));
    assert.ok(read.stops.length > 5 && read.stops.every(({ status }) => status === undefined));
    assert.deepEqual(read.threads, facts.threads);
    read.close();
  } finally {
    client.close();
    server.closeAllConnections();
    server.close();
    facts.close();
    rmSync(folder, { recursive: true });
  }
});
