/** The MCP endpoint: every rule of the transport in both protocol versions, and the list of tools. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { JsonObject } from "../../../../../lib/json.ts";
import { testService } from "../../../../suite/mod.ts";
import { customWorld, owning } from "../../../auth/custom-auth.harness.ts";
import {
  AGENTS,
  type Answer,
  answerable,
  asker,
  call,
  createRequest,
  mcpWorld,
  readText,
  readThreadId,
  session,
  TASKS,
} from "./mcp.harness.ts";

const MODERN = { capabilities: {} };
const LIVE = { capabilities: TASKS };

describe("the MCP endpoint", () => {
  it("answers each invalid request as the specification says", async () => {
    await using it = await mcpWorld();
    const { fetch } = it.test;
    const post = (body: string, headers: Record<string, string> = {}) =>
      fetch(
        new Request("http://h/mcp", {
          method: "POST",
          body,
          headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...headers },
        }),
      );
    const refused = (message: string): JsonObject => ({ jsonrpc: "2.0", error: { code: -32000, message }, id: null });
    for (const method of ["GET", "DELETE"]) {
      const answer = await fetch(new Request("http://h/mcp", { method }));
      assert.deepEqual([answer.status, answer.headers.get("allow")], [405, "POST"]);
      assert.deepEqual(await answer.json(), refused("Method not allowed."));
    }
    const ping = JSON.stringify({ jsonrpc: "2.0", id: 4, method: "ping" });
    const cases: [body: string, headers: Record<string, string>, status: number, message: JsonObject | null][] = [
      [
        ping,
        { accept: "application/json" },
        406,
        refused("Not Acceptable: Client must accept both application/json and text/event-stream"),
      ],
      [
        ping,
        { "content-type": "text/plain" },
        415,
        refused("Unsupported Media Type: Content-Type must be application/json"),
      ],
      ["{", {}, 400, { jsonrpc: "2.0", error: { code: -32700, message: "Parse error: Invalid JSON" }, id: null }],
      [ping, {}, 200, { result: {}, jsonrpc: "2.0", id: 4 }],
      [
        ping,
        { "mcp-protocol-version": "1999-01-01" },
        400,
        refused(
          "Bad Request: Unsupported protocol version: 1999-01-01 (supported versions: 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05, 2024-10-07)",
        ),
      ],
      [JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" }), {}, 202, null],
      [JSON.stringify({ jsonrpc: "2.0", id: "elicit:1", result: {} }), {}, 202, null],
      [
        JSON.stringify({ jsonrpc: "2.0", id: 1, method: "prompts/list" }),
        {},
        200,
        { jsonrpc: "2.0", error: { code: -32601, message: "Method not found" }, id: 1 },
      ],
    ];
    for (const [body, headers, status, message] of cases) {
      const answer = await post(body, headers);
      const text = await answer.text();
      assert.deepEqual([answer.status, text === "" ? null : JSON.parse(text)], [status, message], body);
    }
    for (const body of ["null", "3", '"x"', "{}", '{"jsonrpc":"2.0"}', '{"jsonrpc":"2.0","id":{},"method":"ping"}']) {
      const answer = await post(body);
      assert.deepEqual([answer.status, (await answer.json()).error.code], [400, -32600], body);
    }
  });

  it("answers each invalid request of 2026-07-28 as the specification says", async () => {
    await using it = await mcpWorld();
    const { ask } = it;
    const version = "io.modelcontextprotocol/protocolVersion";
    const capabilities = "io.modelcontextprotocol/clientCapabilities";
    const modern = { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list" };
    const cases: [answer: Answer, status: number, code: number][] = [
      [await ask("tools/list", {}, { ...MODERN, headers: { "mcp-method": null } }), 400, -32020],
      [await ask("tools/list", {}, { ...MODERN, headers: { "mcp-protocol-version": null } }), 400, -32020],
      [await ask("tools/call", call("echo"), { ...MODERN, headers: { "mcp-name": null } }), 400, -32020],
      [await ask("tools/call", call("echo"), { ...MODERN, headers: { "mcp-name": "refund" } }), 400, -32020],
      [await ask("tools/list", {}, { headers: modern }), 400, -32602],
      [await ask("tools/list", {}, { headers: modern, meta: { [version]: "2026-07-28" } }), 400, -32602],
      [
        await ask(
          "tools/list",
          {},
          {
            headers: { ...modern, "mcp-protocol-version": "2030-01-01" },
            meta: { [version]: "2030-01-01", [capabilities]: {} },
          },
        ),
        400,
        -32022,
      ],
      [await ask("initialize", {}, MODERN), 404, -32601],
      [await ask("ping", {}, MODERN), 404, -32601],
      [await ask("tasks/list", {}, MODERN), 404, -32601],
      [await ask("tasks/result", {}, MODERN), 404, -32601],
      [await ask("tools/call", call("nobody"), MODERN), 200, -32602],
      [await ask("tasks/get", { taskId: "x" }, MODERN), 400, -32021],
      [await ask("tasks/get", { taskId: "x" }, LIVE), 200, -32602],
      [await ask("tools/call", call("echo", { inputResponses: 3 }), MODERN), 400, -32602],
      [await ask("tools/call", call("echo", { requestState: "forged" }), MODERN), 200, -32602],
    ];
    for (const [{ status, error, message, text }, expected, code] of cases) {
      assert.deepEqual([status, error.code, message.id], [expected, code, 1], text);
    }
    assert.equal(cases[2]?.[0].error.message, "Header mismatch: Mcp-Name is missing, the body says echo");
    assert.deepEqual(cases[6]?.[0].error, {
      ...{ code: -32022, message: "Unsupported protocol version: 2030-01-01" },
      data: { supported: ["2026-07-28"], requested: "2030-01-01" },
    });
    assert.deepEqual(cases[12]?.[0].error.data, { requiredCapabilities: TASKS });
    assert.equal(cases[13]?.[0].error.message, "Failed to retrieve task: Task not found");
    assert.deepEqual(cases[15]?.[0].error, {
      ...{ code: -32602, message: "Invalid or expired requestState" },
      data: { reason: "invalid_request_state" },
    });
  });

  it("accepts batches in the versions that have them", async () => {
    await using it = await mcpWorld();
    const createMessage = (id: number, method: string, params: JsonObject = {}) => ({
      jsonrpc: "2.0",
      id,
      method,
      params,
    });
    const send = async (body: unknown, version?: string) => {
      const headers = {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...(version === undefined ? {} : { "mcp-protocol-version": version }),
      };
      return await it.test.fetch(new Request("http://h/mcp", { method: "POST", headers, body: JSON.stringify(body) }));
    };
    const batch = [
      createMessage(1, "ping"),
      createMessage(2, "tools/call", call("echo")),
      createMessage(3, "nope"),
      { jsonrpc: "2.0", method: "notifications/x" },
    ];
    const answers = (await (await send(batch)).json()) as { id: number; result?: JsonObject; error?: JsonObject }[];
    assert.deepEqual(
      answers.map(({ id }) => id),
      [1, 2, 3],
    );
    assert.equal(readText(answers[1]?.result as JsonObject), "You said Hi");
    assert.equal(answers[2]?.error?.code, -32601);
    assert.equal((await send([{ jsonrpc: "2.0", method: "notifications/x" }])).status, 202);
    for (const [body, version] of [
      [batch, "2025-06-18"],
      [[], undefined],
      [Array(51).fill(createMessage(1, "ping")), undefined],
    ] as const) {
      assert.equal((await send(body, version)).status, 400);
    }
  });

  it("answers malformed messages without an internal error", async () => {
    await using it = await mcpWorld();
    const values: JsonObject[string][] = [
      null,
      3,
      "x",
      [],
      [[]],
      {},
      { __proto__: null, a: [null] },
      "\u0000",
      "é".repeat(9),
    ];
    const methods = [
      "initialize",
      "tools/list",
      "tools/call",
      "tasks/get",
      "tasks/update",
      "tasks/cancel",
      "subscriptions/listen",
      "server/discover",
    ];
    const members = [
      "name",
      "arguments",
      "inputResponses",
      "requestState",
      "cursor",
      "taskId",
      "protocolVersion",
      "notifications",
      "capabilities",
      "_meta",
    ];
    for (const method of methods) {
      for (const member of members) {
        for (const value of values) {
          for (const options of [{}, LIVE] as { capabilities?: JsonObject }[]) {
            const params = { name: "echo", arguments: { message: "Hi" }, [member]: value };
            const headers = { "mcp-name": typeof params.name === "string" ? encodeURIComponent(params.name) : null };
            const answer = await it.ask(method, params, options.capabilities ? { ...options, headers } : {});
            const at = `${method} ${member} ${JSON.stringify(value)}: ${answer.text}`;
            assert.ok(answer.status < 500 && answer.error.code !== -32603, at);
          }
        }
      }
    }
    const client = await session(it.test.fetch);
    const unanswered: JsonObject[] = values.flatMap((value): JsonObject[] => [
      { method: "notifications/cancelled", params: value ?? null },
      { method: "notifications/cancelled", params: { requestId: value ?? null } },
      { id: 1, result: value ?? null },
      { id: "elicit:x.0", result: value ?? null },
      { id: "elicit:x.0", error: value ?? null },
    ]);
    for (const message of unanswered) {
      const status = await client.send(message);
      assert.ok(status === 202 || status === 400, `${status} ${JSON.stringify(message)}`);
    }
    const deep = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":${"[".repeat(100)}`;
    const headers = { "content-type": "application/json", accept: "*/*" };
    for (const body of [deep, "\u{feff}{}", '{"jsonrpc":"2.0","id":1e999,"method":"ping"}', "[".repeat(60_000)]) {
      const { status } = await it.test.fetch(new Request("http://h/mcp", { method: "POST", headers, body }));
      assert.equal(status, 400);
    }
    const large = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping", params: { x: Array(30_000).fill(0) } });
    assert.equal(
      (await it.test.fetch(new Request("http://h/mcp", { method: "POST", headers, body: large }))).status,
      413,
    );
  });

  it("names the authorization server if the host configures it", async () => {
    const protected_resource = {
      resource: "https://agents.example/mcp",
      authorization_servers: ["https://login.example"],
      scopes_supported: ["agents"],
    };
    await using plain = await customWorld();
    const path = "/.well-known/oauth-protected-resource";
    assert.equal((await plain.ask("ann", "GET", path)).status, 404);
    await using it = await customWorld({
      http: { mcp: { protected_resource } },
      public_base_url: "https://agents.example",
    });
    for (const endpoint of [path, `${path}/mcp`]) {
      const { status, body } = await it.ask(null, "GET", endpoint);
      assert.deepEqual([status, body], [200, { ...protected_resource, bearer_methods_supported: ["header"] }]);
    }
    const denied = await it.ask(null, "POST", "/mcp", {});
    assert.equal(denied.status, 401);
    await using keys = await testService({
      agents: AGENTS,
      http: { mcp: { protected_resource } },
      public_base_url: "https://agents.example",
      auth: { mode: "api_key" },
    });
    const refused = await keys.fetch(createRequest("http://h/mcp", "ping"));
    assert.deepEqual(
      [refused.status, refused.headers.get("www-authenticate")],
      [401, `Bearer resource_metadata="https://agents.example${path}/mcp"`],
    );
  });
});

describe("MCP tools", () => {
  it("are the default assistants and those with metadata for it, by name and in a fixed order", async () => {
    await using it = await mcpWorld();
    const { ask, service } = it;
    const mcp = { tool: true };
    const { assistant_id } = await service.assistants.create({ graph_id: "echo", name: "echo", metadata: { mcp } });
    await service.assistants.create({
      graph_id: "echo",
      name: "Écho 🦜",
      metadata: { mcp },
      description: "Says it again",
    });
    await service.assistants.create({ graph_id: "echo", name: "hidden" });
    await service.assistants.update("fails", { metadata: { mcp: { tool: false } } });
    const { result } = await ask("tools/list");
    const tools = result.tools as { name: string; title: string; description: string; inputSchema: JsonObject }[];
    assert.deepEqual(
      tools.map(({ name }) => name),
      ["_cho__", "answers", "approves", "echo", `echo_${assistant_id.slice(0, 8)}`, "refund"],
    );
    assert.deepEqual(tools[0]?.title, "Écho 🦜");
    assert.deepEqual([tools[0]?.description, tools[1]?.description], ["Says it again", "Agent `answers`"]);
    for (const name of ["_cho__", `echo_${assistant_id.slice(0, 8)}`]) {
      assert.equal(readText((await ask("tools/call", call(name))).result), "You said Hi");
    }
    for (const name of ["fails", "hidden", "Écho 🦜"]) {
      assert.equal((await ask("tools/call", call(name))).error.message, `Unknown tool: ${name}`);
    }
    const modern = await ask("tools/list", {}, MODERN);
    assert.deepEqual(
      [modern.result.ttlMs, modern.result.cacheScope, modern.result.resultType],
      [60_000, "public", "complete"],
    );
    assert.deepEqual((await ask("tools/list", { cursor: "x" })).error.code, -32602);
  });

  it("exclude those of other users, which get the response of unknown tools", async () => {
    await using it = await customWorld({ agents: AGENTS, on: { "*": owning, "assistants:search": owning } });
    const as = (name: string) => ({ headers: { authorization: `Bearer ${name}` } });
    const ask = asker(it.it.fetch);
    const metadata = { owner: "ann", mcp: { tool: true } };
    await it.it.service.assistants.create({ graph_id: "echo", name: "mine", metadata });
    const names = async (name: string) =>
      ((await ask("tools/list", {}, as(name))).result.tools as { name: string }[]).map((tool) => tool.name);
    assert.deepEqual([await names("ann"), await names("bob")], [["mine"], []]);
    assert.equal(readText((await ask("tools/call", call("mine"), as("ann"))).result), "You said Hi");
    const [foreign, absent] = [
      await ask("tools/call", call("mine"), as("bob")),
      await ask("tools/call", call("none"), as("bob")),
    ];
    assert.equal(foreign.text.replace("mine", "none"), absent.text);
  });

  it("have the arguments `thread_id` and `resume`, unless the options remove them", async () => {
    const names = async (it: Awaited<ReturnType<typeof mcpWorld>>) => {
      const [{ inputSchema } = { inputSchema: {} }] = (await it.ask("tools/list")).result.tools as {
        inputSchema: JsonObject;
      }[];
      return Object.keys(inputSchema.properties as JsonObject);
    };
    await using visibleWorld = await mcpWorld();
    assert.deepEqual(await names(visibleWorld), ["message", "messages", "thread_id"]);
    const executor = answerable(AGENTS);
    await using open = await mcpWorld({ executor });
    assert.deepEqual(await names(open), ["message", "messages", "thread_id", "resume"]);
    await using hidden = await mcpWorld({ executor, http: { mcp: { resume_arguments: false } } });
    assert.deepEqual(await names(hidden), ["message", "messages"]);
    const first = await hidden.ask("tools/call", call("echo"));
    const again = { name: "echo", arguments: { message: "Again", thread_id: readThreadId(first.result) } };
    assert.equal(readThreadId((await hidden.ask("tools/call", again)).result), readThreadId(first.result));
  });
});
