/**
 * Bad bodies on every route that takes one: none is answered with a failure of the server or logged as one. The bodies of the agent
 * protocols are also sent with each member replaced, at every depth. A route of theirs without a body here fails.
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { loadAllRoutes } from "../../../lib/http/routes/mod.ts";
import { isObject, type Json, type JsonObject } from "../../../lib/json.ts";
import { type TestService, testService } from "../../suite/mod.ts";

const ROUTES = (await loadAllRoutes()).filter(({ method }) => ["post", "put", "patch", "delete"].includes(method));
const UNKNOWN = "22222222-2222-4222-8222-222222222222";

const WHOLE: readonly (string | Uint8Array)[] = [
  ...["", " ", "null", "true", "0", '"x"', "[]", "{}", "[{}]", "[null]", "{", '{"a":}', "[1,", "\u0000", "\ufeff{}"],
  ...['{"__proto__":{"polluted":1}}', '{"constructor":{"prototype":{"polluted":1}}}', '{"a":1,"a":2}', '{"a":1e999}'],
  ...['{"a":"\\ud800"}', '{"\\u0000":"\\u0000"}', `${'{"a":'.repeat(500)}1${"}".repeat(500)}`, "[".repeat(100_000)],
  new Uint8Array([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]),
];
const JUNK: readonly Json[] = [
  ...[null, true, 0, -1, 1.5, 1e308, "", " ", "x", "\u0000", "\ud800", "__proto__", UNKNOWN],
  ...[[], {}, [null], [{}], [[]], { a: 1 }, { length: 3 }, { kind: "text", text: 1 }, { toString: 1, valueOf: 1 }],
];

interface Sent {
  readonly body: JsonObject;
  readonly headers?: Readonly<Record<string, string>>;
}

const rpc = (method: string, params: JsonObject, headers?: Sent["headers"]): Sent => ({
  body: { jsonrpc: "2.0", id: 1, method, params },
  ...(headers ? { headers } : {}),
});
const ACCEPT = { accept: "application/json, text/event-stream" };
const TOOL = { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "agent" };
const USER: JsonObject = {
  messageId: "m1",
  role: "ROLE_USER",
  parts: [{ text: "Hi" }, { data: { a: 1 } }, { raw: "aGk=", mediaType: "image/png", filename: "a.png" }],
  metadata: { a: 1 },
};
const LEGACY: JsonObject = {
  ...{ kind: "message", messageId: "m1", role: "user" },
  parts: [
    { kind: "text", text: "Hi" },
    { kind: "file", file: { uri: "https://files.example/a", mimeType: "text/plain", name: "a" } },
  ],
};
const PUSH: JsonObject = { taskId: UNKNOWN, id: UNKNOWN, url: "https://hooks.example/in" };

/** Valid bodies of the agent protocols by route. */
const GOOD: Readonly<Record<string, readonly Sent[]>> = {
  "post /mcp": [
    rpc(
      "initialize",
      { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "c", version: "1" } },
      ACCEPT,
    ),
    rpc("tools/list", { cursor: "" }, ACCEPT),
    rpc("tools/call", { name: "agent", arguments: { a: 1 }, _meta: { progressToken: "p" } }, ACCEPT),
    rpc(
      "tools/call",
      {
        ...{ name: "agent", arguments: { a: 1 } },
        _meta: {
          "io.modelcontextprotocol/protocolVersion": "2026-07-28",
          "io.modelcontextprotocol/clientCapabilities": { extensions: { "io.modelcontextprotocol/tasks": {} } },
        },
      },
      { ...ACCEPT, ...TOOL },
    ),
    rpc("tasks/get", { taskId: UNKNOWN }, ACCEPT),
  ],
  "delete /mcp": [rpc("tools/list", {}, ACCEPT)],
  "post /a2a/:assistant_id": [
    rpc("SendMessage", { message: USER, configuration: { historyLength: 1 }, metadata: { a: 1 } }),
    rpc("SendStreamingMessage", { message: USER, configuration: { historyScope: "context" } }),
    rpc("message/send", { message: LEGACY, configuration: { blocking: true, acceptedOutputModes: ["text"] } }),
    rpc("ListTasks", {
      ...{ contextId: UNKNOWN, status: "TASK_STATE_WORKING", pageSize: 2, pageToken: "" },
      ...{ historyLength: 1, includeArtifacts: true, statusTimestampAfter: "2026-01-01T00:00:00Z" },
    }),
    ...["GetTask", "CancelTask", "SubscribeToTask", "tasks/get", "tasks/cancel", "tasks/resubscribe"].map((method) =>
      rpc(method, { id: UNKNOWN, historyLength: 1 }),
    ),
    ...["CreateTaskPushNotificationConfig", "tasks/pushNotificationConfig/set"].map((method) => rpc(method, PUSH)),
  ],
  "post /ag-ui/:assistant_id": [
    {
      body: {
        ...{ threadId: UNKNOWN, runId: "r", state: { a: 1 }, forwardedProps: { a: 1 } },
        tools: [{ name: "t", description: "d", parameters: { type: "object" } }],
        context: [{ description: "d", value: "v" }],
        messages: [
          { id: "u0", role: "user", content: "Hi" },
          {
            id: "a0",
            role: "assistant",
            toolCalls: [{ id: "c", type: "function", function: { name: "t", arguments: "{}" } }],
          },
          { id: "t0", role: "tool", toolCallId: "c", content: "1" },
          { id: "u1", role: "user", content: [{ type: "text", text: "Hi" }] },
        ],
      },
    },
  ],
  "post /ai/:assistant_id/chat": [
    {
      body: {
        ...{ id: UNKNOWN, trigger: "submit-message", messageId: "u1" },
        messages: [
          {
            ...{ id: "u1", role: "user", metadata: { a: 1 } },
            parts: [
              { type: "text", text: "Hi" },
              { type: "file", mediaType: "image/png", url: "data:image/png;base64,aGk=", filename: "a" },
            ],
          },
        ],
      },
    },
  ],
  "post /ai/:assistant_id/chat/:chat_id/stop": [{ body: {} }],
  "post /threads/:thread_id/events/:name": [{ body: { sent: { a: 1 } } }],
  "post /greenroom/events/:address": [{ body: { sent: { a: 1 } } }],
};

/** Yields copies of the value with one member or element replaced or removed, at every depth. */
function* broken(value: Json): Generator<Json> {
  const entries = isObject(value) ? Object.entries(value) : Array.isArray(value) ? [...value.entries()] : [];
  for (const [at, member] of entries) {
    const put = (replacement: Json): Json =>
      Array.isArray(value)
        ? value.map((element, i) => (i === at ? replacement : element))
        : { ...(value as JsonObject), [at]: replacement };
    for (const junk of JUNK) yield put(junk);
    for (const inner of broken(member)) yield put(inner);
    if (isObject(value)) yield Object.fromEntries(entries.filter(([name]) => name !== at)) as JsonObject;
  }
}

const OF_AGENTS = /^\/(?:mcp|ai|ag-ui|a2a)(?:\/|$)|\/events\/:/;
const formatKey = ({ method, path }: { readonly method: string; readonly path: string }): string => `${method} ${path}`;

/** Routes whose errors are text for their clients. */
const TEXTS = new Set(ROUTES.filter(({ error_text }) => error_text).map(formatKey));

describe("an invalid body", () => {
  let kit: TestService;
  let thread_id: string;

  before(async () => {
    kit = await testService({ agents: { agent: async () => ({ messages: [] }) } });
    ({ thread_id } = await kit.service.threads.create());
  });
  after(() => kit[Symbol.asyncDispose]());

  async function send(route: string, body: string | Uint8Array, headers: Sent["headers"] = {}): Promise<void> {
    const [method = "", path = ""] = route.split(" ");
    const requestPath = path
      .replace(":assistant_id", "agent")
      .replace(":thread_id", thread_id)
      .replace(/:\w+\+?/g, UNKNOWN)
      .replace("*", "x");
    const logged = kit.log.length;
    const response = await kit.fetch(`http://greenroom${requestPath}`, {
      method: method.toUpperCase(),
      headers: { "content-type": "application/json", ...headers },
      body: body as BodyInit,
    });
    const about = `${route} ${typeof body === "string" ? body.slice(0, 400) : "bytes"}: ${response.status}`;
    const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
    const isEndless = isStream && path.endsWith("/stream/events");
    const text = isEndless ? "" : await response.text();
    if (isEndless) await response.body?.cancel();
    assert.ok(response.status < 500 || response.status === 501, `${about} ${text}`);
    if (response.status >= 400 && !TEXTS.has(route)) assert.ok(isObject(JSON.parse(text)), `${about} ${text}`);
    assert.ok(!/"code": ?-32603/.test(text), `${about} ${text}`);
    const errors = kit.log.slice(logged).filter(({ level }) => level === "error");
    assert.deepEqual(errors, [], about);
    assert.equal(({} as Record<string, unknown>).polluted, undefined, about);
  }

  for (const route of ROUTES.map(formatKey)) {
    it(`of any JSON type causes no server error: ${route}`, async () => {
      for (const body of WHOLE) await send(route, body, GOOD[route]?.[0]?.headers);
    });
  }

  it("is tested for every route of the agent protocols", () => {
    const served = ROUTES.filter(({ path }) => OF_AGENTS.test(path)).map(formatKey);
    assert.deepEqual(served.sort(), Object.keys(GOOD).sort());
  });

  for (const [route, all] of Object.entries(GOOD)) {
    it(`with one wrong member causes no server error: ${route}`, async () => {
      for (const { body, headers } of all) {
        await send(route, JSON.stringify(body), headers);
        for (const brokenBody of broken(body)) await send(route, JSON.stringify(brokenBody), headers);
      }
    });
  }
});
