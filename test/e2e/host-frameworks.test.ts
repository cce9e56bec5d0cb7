/** The examples that mount agents in a host, each in a process of its own, with the real framework. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createTemporaryFolder, type Program, runtime, start } from "../support/programs.ts";
import {
  converse,
  createClient,
  disconnect,
  type Hosted,
  human,
  last,
  leaveAfter,
  leaveCounting,
  openQuietStream,
  until,
} from "./host-client.ts";

const readUrl = async (program: Program): Promise<string> =>
  (await program.printed(/listening on (http:\/\/\S+)/i))[1] as string;
const env = { PORT: "0" };
/** Starts an example that listens by itself. */
const example = (name: string, cwd: string): Program => start(`examples/${name}`, [], { cwd, env });
/** Starts an example that exports a handler. */
const served = (name: string, cwd: string): Program => start("test/e2e/serve-example.ts", [name], { cwd, env });

const GREETED = /^You have written 1 messages so far\.$/;
const detail = async (response: Response): Promise<unknown> => [response.status, await response.json()];

/** Checks that the host exits on a signal while a reader is connected. */
async function stop(program: Program, host: Hosted): Promise<void> {
  const { leave } = await openQuietStream(host);
  assert.equal(await program.kill("SIGTERM"), 0, program.output());
  await leave();
}

describe(`hosts on ${runtime}`, () => {
  it("the runtime's own server serves agents at its root", async () => {
    using folder = createTemporaryFolder();
    await using program = example({ bun: "echo.ts", deno: "deno.ts", node: "node.ts" }[runtime], folder.path);
    const host: Hosted = {
      apiUrl: await readUrl(program),
      graph: "echo",
      input: human("Hello"),
      says: /^You sent .*Hello/,
    };
    await converse(host);
    await disconnect(host);
    if (runtime === "node") await stop(program, host);
  });

  if (runtime === "node") {
    it("node.ts survives malformed requests", async () => {
      using folder = createTemporaryFolder();
      await using program = example("node.ts", folder.path);
      const url = new URL(await readUrl(program));
      const { connect } = await import("node:net");
      for (const head of [
        "GET / HTTP/1.1\r\nhost: a b\r\nconnection: close\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
      ]) {
        const socket = connect(Number(url.port), url.hostname);
        const closed = new Promise((resolve) => socket.on("close", resolve));
        socket.on("error", () => {}).resume();
        socket.write(head);
        await closed;
      }
      assert.equal((await fetch(new URL("/ok", url))).status, 200);
    });
  }

  if (runtime === "bun") {
    it("Bun.serve mounts agents among its routes", async () => {
      using folder = createTemporaryFolder();
      await using program = example("mount.ts", folder.path);
      const headers = { authorization: "Bearer let-me-in" };
      const apiUrl = `${await readUrl(program)}/agents`;
      const host: Hosted = { apiUrl, headers, graph: "greeter", input: human("Hello"), says: GREETED };
      await converse(host);
      await disconnect(host);
      await stop(program, host);
    });
  }

  it("Hono mounts agents below a prefix, behind its own middleware", async () => {
    using folder = createTemporaryFolder();
    await using program = served("hono.ts", folder.path);
    const url = await readUrl(program);
    assert.equal(await (await fetch(url)).text(), "The application's own page");
    assert.deepEqual(await detail(await fetch(`${url}/api/agents/ok`)), [401, { detail: "Log in first" }]);
    const headers = { authorization: "Bearer let-me-in" };
    const host: Hosted = {
      apiUrl: `${url}/api/agents`,
      headers,
      graph: "counter",
      input: human("3"),
      says: /^1 2 3 $/,
    };
    assert.deepEqual(await detail(await fetch(`${host.apiUrl}/ok`, { headers })), [
      200,
      { ok: true, services: { worker: { ok: true }, database: { ok: true } } },
    ]);
    assert.equal((await fetch(`${url}/api/agentsmith/ok`, { headers })).status, 404);
    assert.equal((await fetch(`${url}/ok`, { headers })).status, 404);
    await converse(host);
    // The run is active, with an hour left to count.
    await leaveCounting(host);
    await stop(program, host);
  });

  it("Express mounts agents below a prefix, beside routes that read JSON", async () => {
    using folder = createTemporaryFolder();
    await using program = example("express.ts", folder.path);
    const url = await readUrl(program);
    const order = (item: unknown): Promise<Response> =>
      fetch(`${url}/orders`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ item }),
      });
    assert.deepEqual(await detail(await order("tea")), [200, { ordered: "tea" }]);
    assert.equal((await fetch(`${url}/api/agentsmith/ok`)).status, 404);
    assert.equal((await fetch(`${url}/ok`)).status, 404);
    const apiUrl = `${url}/api/agents`;
    assert.equal((await fetch(`${apiUrl}/ok`, { method: "HEAD" })).status, 200);
    assert.deepEqual(await detail(await fetch(`${apiUrl}/nowhere`)), [
      404,
      { detail: "There is nothing at this path", code: "route_not_found" },
    ]);
    const host: Hosted = { apiUrl, graph: "greeter", input: human("Hello"), says: GREETED };
    await converse(host);
    await disconnect(host);
    assert.deepEqual(await detail(await order("cake")), [200, { ordered: "cake" }]);
    await stop(program, host);
  });

  it("an AI SDK agent streams its tokens, remembers the conversation, stops and reports its usage", async () => {
    using folder = createTemporaryFolder();
    await using program = served("ai-sdk.ts", folder.path);
    const url = await readUrl(program);
    const host: Hosted = {
      apiUrl: `${url}/agents`,
      graph: "chat",
      input: human("Hello there"),
      says: /^user: you said "Hello there"\.$/,
    };
    await converse(host);
    const client = createClient(host);
    const { thread_id } = await client.threads.create();
    const partial: string[] = [];
    for await (const { event, data } of client.runs.stream(thread_id, "chat", {
      input: human("First"),
      streamMode: "messages",
    })) {
      if (event === "messages/partial") partial.push(String((data as { content: string }[])[0]?.content));
    }
    assert.ok(partial.length > 3, partial.join("|"));
    assert.ok(
      partial.every((text, n) => n === 0 || (text.startsWith(partial[n - 1] as string) && text !== partial[n - 1])),
    );
    assert.equal(partial.at(-1), 'user: you said "First".');

    // The model receives the whole conversation, by role.
    const second = await client.runs.wait(thread_id, "chat", { input: human("Second") });
    assert.equal(last(second), 'user, assistant, user: you said "Second".');
    const { run_id } = (await client.runs.list(thread_id))[0] as { run_id: string };
    assert.deepEqual(await detail(await fetch(`${url}/spent/${run_id}`)), [
      200,
      { tokens_in: 3, tokens_out: 6, cost_usd: 0 },
    ]);

    // An endless model is stopped, and the thread continues.
    const endless = { input: human("forever"), streamMode: "messages-tuple", event: "messages" } as const;
    await leaveAfter(host, client, { thread_id, ...endless });
    await program.printed(/^The model was stopped$/m);
    await until(async () => (await client.runs.list(thread_id))[0]?.status === "interrupted");

    // What the provider says is the run's error.
    const failed = await client.runs.wait(thread_id, "chat", { input: human("fail"), raiseError: false });
    assert.match(JSON.stringify(failed), /The provider is out of order/);
    assert.equal(await program.kill("SIGTERM"), 0, program.output());
  });

  it("in-process.ts makes the same calls without HTTP", async () => {
    using folder = createTemporaryFolder();
    await using program = example("in-process.ts", folder.path);
    assert.equal(await program.ended, 0, program.output());
    assert.deepEqual(program.output().trim().split("\n").slice(0, 2), [
      "Token: Hello, Ann. ",
      "Token: You have written 1 messages.",
    ]);
    assert.match(program.output(), /^Spent: \{"tokens_in":10,"tokens_out":7,"cost_usd":0\}$/m);
    assert.match(program.output(), /^Result: Hello, Ann\. You have written 2 messages\.$/m);
    assert.match(program.output(), /^Threads: 1 idle$/m);
    assert.match(program.output(), /^Stored: \{"times":3\}$/m);
    assert.match(program.output(), /^Error: not_found - Thread 00000000-0000-4000-8000-000000000000 not found$/m);
  });
});
