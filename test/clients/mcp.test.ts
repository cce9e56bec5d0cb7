/** The official clients of MCP, of both eras, and LangChain's adapters: an agent here calls another one as its tool. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { MultiServerMCPClient } from "@langchain/mcp-adapters";
import { Client as NewClient, StreamableHTTPClientTransport as NewTransport } from "@modelcontextprotocol/client";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { type Listener, serve } from "../../adapters/node/mod.ts";
import { createHandler } from "../../lib/http/handler.ts";
import type { JsonObject } from "../../lib/json.ts";
import { AGENTS, asks, textOf } from "../http/mcp-asker.ts";
import { type TestService, testService } from "../suite/mod.ts";

const ME = { name: "test", version: "1" };

describe("clients of MCP", () => {
  let test: TestService;
  let server: Listener;
  let url: URL;

  before(async () => {
    const agents = {
      ...AGENTS,
      form: asks({
        message: "Who?",
        requestedSchema: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
      }),
    };
    test = await testService({ agents, environment: { log: () => {} } });
    server = await serve(createHandler(test.service), { port: 0, hostname: "127.0.0.1" });
    url = new URL(`${server.url}/mcp`);
  });
  after(async () => {
    await server.close();
    await test.service.stop();
  });

  it("of version 1 list tools, call them, and answer by the handle", async () => {
    const client = new Client(ME);
    await client.connect(new StreamableHTTPClientTransport(url) as Parameters<typeof client.connect>[0]);
    const { tools } = await client.listTools();
    assert.ok(tools.some(({ name }) => name === "echo"));
    const said = await client.callTool({ name: "echo", arguments: { message: "Hi" } });
    assert.equal(textOf(said as JsonObject), "You said Hi");
    const notes: number[] = [];
    const progress = { onprogress: ({ progress }: { progress: number }) => notes.push(progress) };
    await client.callTool({ name: "echo", arguments: { message: "Hi" } }, undefined, progress);
    const asked = await client.callTool({ name: "refund", arguments: { message: "Hi" } });
    assert.equal(asked.isError, true);
    const thread_id = (asked._meta as JsonObject)["greenroom/thread_id"];
    const reply = await client.callTool({ name: "refund", arguments: { thread_id, resume: "yes" } });
    assert.equal(textOf(reply as JsonObject), 'Got "yes"');
    await assert.rejects(client.callTool({ name: "nobody", arguments: {} }), /Unknown tool: nobody/);
    await client.close();
  });

  for (const mode of [undefined, "auto"] as const) {
    it(`of version 2 (${mode ?? "default"}) list tools and call them; the new protocol asks their user`, async () => {
      const options = mode ? { versionNegotiation: { mode } } : {};
      const client = new NewClient(ME, { capabilities: { elicitation: { form: {} } }, ...options });
      client.setRequestHandler("elicitation/create", async () => ({ action: "accept", content: { name: "Ann" } }));
      await client.connect(new NewTransport(url));
      const { tools } = await client.listTools();
      assert.ok(tools.some(({ name }) => name === "echo"));
      const said = await client.callTool({ name: "echo", arguments: { message: "Hi" } });
      assert.equal(textOf(said as JsonObject), "You said Hi");
      const asked = await client.callTool({ name: "form", arguments: { message: "Hi" } });
      if (mode) assert.equal(textOf(asked as JsonObject), 'Got {"name":"Ann"}');
      else assert.match(textOf(asked as JsonObject), /^The agent asks: Who\?/);
      const failed = await client.callTool({ name: "fails", arguments: { message: "Hi" } });
      assert.deepEqual([failed.isError, textOf(failed as JsonObject)], [true, "It broke"]);
      await client.close();
    });
  }

  it("of LangChain give an agent the other agents as tools", async () => {
    const client = new MultiServerMCPClient({ mcpServers: { agents: { transport: "http", url: url.href } } });
    const tools = await client.getTools();
    const echo = tools.find(({ name }) => name === "echo");
    const said = (await echo?.invoke({ message: "Hi" })) as { readonly text: string };
    assert.equal(said.text, "You said Hi");
    await client.close();
  });
});
