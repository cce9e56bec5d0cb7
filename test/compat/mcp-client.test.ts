/** The official clients of MCP, of both eras, and LangChain's adapters: an agent here calls another one as its tool. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { MultiServerMCPClient } from "@langchain/mcp-adapters";
import { Client as NewClient, StreamableHTTPClientTransport as NewTransport } from "@modelcontextprotocol/client";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { RequestOptions } from "@modelcontextprotocol/sdk/shared/protocol.js";
import { CreateMessageRequestSchema, ElicitRequestSchema, type ElicitResult } from "@modelcontextprotocol/sdk/types.js";
import { type Listener, serve } from "../../adapters/node/mod.ts";
import { createHandler } from "../../lib/http/handler.ts";
import type { JsonObject } from "../../lib/json.ts";
import { AGENTS, asker, asks, call, FORMS, readText, TASKS } from "../lib/http/endpoints/mcp/mcp.harness.ts";
import { type TestService, testService } from "../suite/mod.ts";
import { until } from "../support/until.ts";

const ME = { name: "test", version: "1" };

describe("clients of MCP", () => {
  let test: TestService;
  let server: Listener;
  let url: URL;

  before(async () => {
    const agents = {
      ...AGENTS,
      page: asks({ message: "Log in", url: "https://login.example/" }),
      sample: asks({
        method: "sampling/createMessage",
        params: { messages: [{ role: "user", content: { type: "text", text: "Hi" } }], maxTokens: 5 },
      }),
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

  it("of version 1 list tools, call them, and receive the result after a person has answered", async () => {
    const client = new Client(ME);
    await client.connect(new StreamableHTTPClientTransport(url) as Parameters<typeof client.connect>[0]);
    const { tools } = await client.listTools();
    assert.ok(tools.some(({ name }) => name === "echo"));
    const echoResult = await client.callTool({ name: "echo", arguments: { message: "Hi" } });
    assert.equal(readText(echoResult as JsonObject), "You said Hi");
    const notes: number[] = [];
    const progress = { onprogress: ({ progress }: { progress: number }) => notes.push(progress) };
    await client.callTool({ name: "echo", arguments: { message: "Hi" } }, undefined, progress);
    const inputResult = await client.callTool({ name: "refund", arguments: { message: "Hi" } });
    assert.equal(inputResult.isError, true);
    const thread_id = (inputResult._meta as JsonObject)["greenroom/thread_id"];
    const again = (extraArgs: JsonObject) =>
      client.callTool({ name: "refund", arguments: { thread_id, ...extraArgs } });
    assert.match(readText((await again({ resume: "yes" })) as JsonObject), /Only a person can answer/);
    const { result } = await test.service.runs.wait(String(thread_id), {
      assistant_id: "refund",
      command: { resume: "yes" },
    });
    await result;
    assert.equal(readText((await again({ message: "Hi" })) as JsonObject), 'Got "yes"');
    const misfit = await client.callTool({ name: "echo", arguments: { message: 3 } });
    assert.deepEqual(
      [misfit.isError, /- arguments\.message must be/.test(readText(misfit as JsonObject))],
      [true, true],
    );
    await assert.rejects(client.callTool({ name: "nobody", arguments: {} }), /Unknown tool: nobody/);
    await client.close();
  });

  for (const mode of [undefined, "auto"] as const) {
    it(`of version 2 (${mode ?? "default"}) list tools and call them, and elicit input of their user`, async () => {
      const options = mode ? { versionNegotiation: { mode } } : {};
      const client = new NewClient(ME, { capabilities: { elicitation: { form: {} } }, ...options });
      client.setRequestHandler("elicitation/create", async () => ({ action: "accept", content: { name: "Ann" } }));
      await client.connect(new NewTransport(url));
      const { tools } = await client.listTools();
      assert.ok(tools.some(({ name }) => name === "echo"));
      const echoResult = await client.callTool({ name: "echo", arguments: { message: "Hi" } });
      assert.equal(readText(echoResult as JsonObject), "You said Hi");
      const inputResult = await client.callTool({ name: "form", arguments: { message: "Hi" } });
      assert.equal(readText(inputResult as JsonObject), 'Got {"name":"Ann"}');
      const failed = await client.callTool({ name: "fails", arguments: { message: "Hi" } });
      assert.deepEqual([failed.isError, readText(failed as JsonObject)], [true, "It broke"]);
      const misfit = await client.callTool({ name: "echo", arguments: { message: 3 } });
      assert.match(readText(misfit as JsonObject), /- arguments\.message must be of type string/);
      await client.close();
    });
  }

  it("of version 1 elicit input of their user while the call waits, and cancel it", async () => {
    const client = new Client(ME, { capabilities: { elicitation: { form: {} }, sampling: {} } });
    const replies = [{ action: "accept", content: { answer: "yes" } }, { action: "decline" }, { action: "cancel" }];
    let unanswered = Promise.withResolvers<void>();
    client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
      assert.equal(params.message, "Refund 30 euros?");
      const reply = replies.shift();
      if (reply) return reply as ElicitResult;
      unanswered.resolve();
      return await new Promise<never>(() => {});
    });
    const transport = new StreamableHTTPClientTransport(url);
    await client.connect(transport as Parameters<typeof client.connect>[0]);
    assert.match(transport.sessionId ?? "", /^[\w-]+$/);
    const refund = async (options?: RequestOptions) =>
      readText(
        (await client.callTool({ name: "refund", arguments: { message: "Hi" } }, undefined, options)) as JsonObject,
      );
    assert.equal(await refund(), 'Got "yes"');
    assert.equal(await refund(), 'Got {"action":"decline"}');
    assert.match(await refund(), /^The agent asks: Refund 30 euros\?/);
    // All at once.
    replies.push(...Array(5).fill({ action: "accept", content: { answer: "all" } }));
    assert.deepEqual(await Promise.all(Array.from({ length: 5 }, () => refund())), Array(5).fill('Got "all"'));

    const stop = new AbortController();
    const stopped = refund({ signal: stop.signal });
    await unanswered.promise;
    unanswered = Promise.withResolvers<void>();
    stop.abort("Enough");
    await assert.rejects(stopped, /Enough/);
    await until(async () => {
      const [thread] = (await test.service.threads.search({ limit: 1 })).items;
      return thread?.metadata?.task_cancelled !== undefined;
    });
    await transport.terminateSession();
    await client.close();
  });

  it("of version 2 listen for the status of tasks", async () => {
    const tasks = { "io.modelcontextprotocol/tasks": {} };
    const client = new NewClient(ME, {
      capabilities: { extensions: tasks },
      versionNegotiation: { mode: "auto" },
    });
    const heard: JsonObject[] = [];
    client.fallbackNotificationHandler = async ({ method, params }) => {
      if (method === "notifications/tasks") heard.push(params as JsonObject);
    };
    await client.connect(new NewTransport(url));
    // This client cannot read the task that a call becomes.
    const ask = asker(fetch, url.href);
    await test.service.assistants.update("form", { metadata: { mcp: { task: "always" } } });
    const { taskId } = (await ask("tools/call", call("form"), { capabilities: { ...FORMS, ...TASKS } })).result;
    const filter = { taskIds: [taskId as string] } as Parameters<typeof client.listen>[0];
    const subscription = await client.listen(filter);
    await until(async () => heard.some(({ status }) => status === "working"));
    await ask("tasks/cancel", { taskId: taskId as string }, { capabilities: TASKS });
    assert.equal(await subscription.closed, "graceful");
    assert.equal(heard.at(-1)?.status, "cancelled");
    await test.service.assistants.update("form", { metadata: { mcp: {} } });
    await client.close();
  });

  it("of version 1 open pages, and receive sampling requests", async () => {
    const client = new Client(ME, { capabilities: { elicitation: { url: {} }, sampling: {} } });
    const opened: unknown[] = [];
    client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
      opened.push(params.mode === "url" ? [params.message, params.url, typeof params.elicitationId] : params);
      return { action: "accept" };
    });
    client.setRequestHandler(CreateMessageRequestSchema, async ({ params }) => {
      assert.equal(params.maxTokens, 5);
      return { role: "assistant", model: "test", content: { type: "text", text: "Sampled" } };
    });
    await client.connect(new StreamableHTTPClientTransport(url) as Parameters<typeof client.connect>[0]);
    const ask = async (name: string) => readText((await client.callTool({ name, arguments: {} })) as JsonObject);
    assert.equal(await ask("page"), 'Got {"action":"accept"}');
    assert.deepEqual(opened, [["Log in", "https://login.example/", "string"]]);
    assert.match(await ask("sample"), /"text":"Sampled"/);
    await client.close();
  });

  it("of LangChain give an agent the other agents as tools", async () => {
    const client = new MultiServerMCPClient({ mcpServers: { agents: { transport: "http", url: url.href } } });
    const tools = await client.getTools();
    const echo = tools.find(({ name }) => name === "echo");
    const echoOutput = (await echo?.invoke({ message: "Hi" })) as { readonly text: string };
    assert.equal(echoOutput.text, "You said Hi");
    await client.close();
  });
});
