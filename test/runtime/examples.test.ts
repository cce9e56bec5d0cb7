import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { Client } from "@langchain/langgraph-sdk";
import { type Program, root, runtime, start, temporaryFolder } from "./programs.ts";

const input = { messages: [{ role: "user", content: "Hello" }] };
const last = (values: unknown): unknown => (values as { messages: { content: unknown }[] }).messages.at(-1)?.content;
const example = (name: string, cwd: string, args: readonly string[] = []): Program =>
  start(`examples/${name}`, args, { cwd, env: { PORT: "0" } });
const urlOf = async (program: Program): Promise<string> =>
  (await program.printed(/listening on (http:\/\/\S+)/i))[1] as string;
const serveDemo = (cwd: string): Program =>
  start("server.ts", ["--config", join(root, "examples/demo/greenroom.json"), "--port", "0"], { cwd });

describe("examples", () => {
  it("are under 40 lines each", () => {
    for (const file of readdirSync(join(root, "examples"), { recursive: true, encoding: "utf8" })) {
      if (!file.endsWith(".ts")) continue;
      const lines = readFileSync(join(root, "examples", file), "utf8").split("\n").length - 1;
      assert.ok(lines < 40, `${file} has ${lines} lines`);
    }
  });

  it(`the smallest service on ${runtime} keeps a conversation`, async () => {
    using folder = temporaryFolder();
    const name = { bun: "echo.ts", deno: "deno.ts", node: "node.ts" }[runtime];
    let thread_id: string;
    {
      await using program = example(name, folder.path);
      const client = new Client({ apiUrl: await urlOf(program) });
      ({ thread_id } = await client.threads.create());
      assert.match(String(last(await client.runs.wait(thread_id, "echo", { input }))), /You sent .*Hello/);
    }
    await using program = example(name, folder.path);
    const client = new Client({ apiUrl: await urlOf(program) });
    const events: string[] = [];
    for await (const { event } of client.runs.stream(thread_id, "echo", { input, streamMode: "updates" }))
      events.push(event);
    assert.ok(events.includes("updates"), events.join());
    assert.equal(((await client.threads.getState(thread_id)).values as typeof input).messages.length, 4);
  });

  if (runtime === "bun") {
    it("mount.ts serves agents behind the host's own check", async () => {
      using folder = temporaryFolder();
      await using program = example("mount.ts", folder.path);
      const url = await urlOf(program);
      assert.equal(await (await fetch(url)).text(), "The application's own page");
      assert.equal((await fetch(`${url}/agents/ok`)).status, 401);
      const client = new Client({ apiUrl: `${url}/agents`, defaultHeaders: { authorization: "Bearer let-me-in" } });
      assert.equal(last(await client.runs.wait(null, "greeter", { input })), "You have written 1 messages so far.");
      assert.equal(await program.kill("SIGTERM"), 0);
    });
  }

  it("agent.test.ts tests an agent in memory", async () => {
    const args = { bun: ["test"], deno: ["test", "-A", "--no-check"], node: ["--test"] }[runtime];
    await using program = start("examples/agent.test.ts", [], { cwd: root, command: args });
    assert.equal(await program.ended, 0, program.output());
    assert.match(program.output(), /\b1 pass|\bpass 1/);
  });

  it("the demo answers what sdk.ts asks", async () => {
    using folder = temporaryFolder();
    await using server = serveDemo(folder.path);
    await using program = example("sdk.ts", folder.path, [await urlOf(server)]);
    assert.equal(await program.ended, 0, program.output());
    assert.match(program.output(), /^A $[\s\S]*^GREEN $[\s\S]*^CALLED\.$/m);
    assert.match(program.output(), /Asked: \{"question":"Refund 30 euros\?"/);
    assert.match(program.output(), /Answered: Done: 30 euros are on their way\./);
  });

  it("the demo streams the tokens of its LangGraph.js agent", async () => {
    using folder = temporaryFolder();
    await using server = serveDemo(folder.path);
    const client = new Client({ apiUrl: await urlOf(server) });
    const tokens: string[] = [];
    for await (const { event, data } of client.runs.stream(null, "approval", { input, streamMode: "messages-tuple" })) {
      if (event === "messages") tokens.push(String(data[0].content));
    }
    assert.ok(tokens.length > 5, tokens.join("|"));
    assert.match(tokens.join(""), /I can refund money\./);
  });
});
