/** The routes of the thread event protocol. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { anonymousPrincipal } from "../../../../lib/auth/principal.ts";
import { ServiceError } from "../../../../lib/errors.ts";
import type { CommandCaller } from "../../../../lib/protocol/mod.ts";
import { testService } from "../../../suite/kit.ts";
import { until } from "../../../support/until.ts";
import { event, MemoryEvents } from "../../protocol/protocol.harness.ts";
import { type FakeOptions, fake, THREAD } from "../fake-service.ts";

const STREAM = `/threads/${THREAD}/stream/events`;
const COMMANDS = `/threads/${THREAD}/commands`;
const upgrade = { upgrade: "websocket" };

function streaming(options: FakeOptions = {}) {
  const events = new MemoryEvents();
  const subscribe = (thread_id: unknown, filter: unknown, visibility: unknown): unknown =>
    events.subscribe(visibility as object, thread_id as string, filter as never);
  return { events, ...fake({ ...options, answers: { "protocol.subscribe": subscribe, ...options.answers } }) };
}

describe("the event stream route", () => {
  it("begins at once, sends framed events, and ends with its client", async () => {
    const { events, send } = streaming();
    const response = await send("POST", STREAM, { channels: ["values", "nonsense"], extra: 1 });
    assert.equal(response.status, 200);
    assert.equal(response.headers.get("content-type"), "text/event-stream");
    assert.equal(response.headers.get("cache-control"), "no-cache");
    assert.equal(response.headers.get("x-accel-buffering"), "no");
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    const text = async (): Promise<string> => new TextDecoder().decode((await reader.read()).value);
    assert.equal(await text(), ": heartbeat\n");
    const sentEvent = event(42, "values", {}, "synth:r:42");
    events.add(event(41, "messages"), sentEvent);
    assert.equal(await text(), `id: synth:r:42\nevent: values\ndata: ${sentEvent.data}\n\n`);
    assert.deepEqual(events.subscriptions[0]?.filter, { channels: ["values", "nonsense"] });
    await reader.cancel();
    await until(() => events.open === 0);
  });

  it("sends regular heartbeats, and closes when the events end, because proxies hide failures", async () => {
    const { events, send, elapse } = streaming();
    const response = await send("POST", STREAM, { channels: ["values"], since: 3, namespaces: [[]], depth: 1 });
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    for (let beat = 0; beat < 3; beat++) {
      const { value } = await reader.read();
      assert.equal(new TextDecoder().decode(value), ": heartbeat\n");
      const next = reader.read();
      await new Promise((resolve) => setImmediate(resolve));
      elapse(5_000);
      assert.equal(new TextDecoder().decode((await next).value), ": heartbeat\n");
      elapse(5_000);
    }
    events.end();
    // A heartbeat may come before.
    while (!(await reader.read()).done);
  });

  it("refuses invalid filters with detail and message", async () => {
    const { send, events } = streaming();
    for (const [body, expected] of [
      [{}, /^channels: is required/],
      [{ channels: [] }, /^channels: must name a channel/],
      [{ channels: "values" }, /^channels: must be a list/],
      [{ channels: [1] }, /^channels\.0: must be a string/],
      [{ channels: ["values"], since: "x" }, /^since: must be an integer/],
      [{ channels: ["values"], since: 1.5 }, /^since: must be an integer/],
      [{ channels: ["values"], since: -1 }, /^since: must be at least 0/],
      [{ channels: ["values"], depth: "1" }, /^depth: must be an integer/],
      [{ channels: ["values"], namespaces: ["a"] }, /^namespaces\.0: must be a list/],
    ] as const) {
      const response = await send("POST", STREAM, body);
      const { detail, message } = (await response.json()) as { detail: string; message: string };
      assert.equal(response.status, 422, JSON.stringify(body));
      assert.match(detail, expected);
      assert.equal(message, detail);
    }
    assert.equal((await send("POST", STREAM, "{")).status, 400);
    assert.equal(events.subscriptions.length, 0);
  });

  it("subscribes with the visibility of the caller", async () => {
    const visibility = { filter: [{ key: "owner", equals: "ann" }] };
    const { events, send } = streaming({
      access: { authorize: async (_caller, _event, value) => ({ value, visibility }) },
    });
    await (await send("POST", STREAM, { channels: ["values"] })).body?.cancel();
    assert.deepEqual(events.subscriptions[0]?.scope, visibility);
  });
});

describe("the commands route", () => {
  it("answers 200 to commands, and 422 or 400 to other bodies", async () => {
    const answer = { type: "error", id: 3, error: "unknown_command", message: "m", meta: { thread_id: THREAD } };
    const { send, calls } = fake({ answers: { "protocol.command": () => answer } });
    const response = await send("POST", COMMANDS, { id: 3, method: "x", params: { a: 1 } });
    assert.equal(response.status, 200);
    assert.deepEqual(await response.json(), answer);
    assert.deepEqual(calls[0]?.slice(0, 3), ["protocol.command", THREAD, { id: 3, method: "x", params: { a: 1 } }]);
    for (const body of [
      {},
      { id: "1", method: "x" },
      { id: 1 },
      { id: -1, method: "x" },
      { id: 1, method: "x", params: 1 },
    ]) {
      const refused = await send("POST", COMMANDS, body);
      assert.equal(refused.status, 422, JSON.stringify(body));
      const { detail, message } = (await refused.json()) as { detail: string; message: string };
      assert.equal(message, detail);
    }
    assert.equal((await send("POST", COMMANDS, "{")).status, 400);
    assert.equal(calls.length, 1);
  });

  it("has message and detail in errors", async () => {
    for (const [code, status] of [
      ["unauthenticated", 401],
      ["forbidden", 403],
      ["not_found", 404],
      ["unavailable", 503],
    ] as const) {
      const principal = (): never => {
        throw new ServiceError(code, `It is ${code}`);
      };
      const response = await fake({ access: { principal } }).send("POST", COMMANDS, { id: 1, method: "x" });
      assert.equal(response.status, status);
      assert.deepEqual(await response.json(), { detail: `It is ${code}`, message: `It is ${code}`, code });
    }
  });

  it("validates the runs that it creates, and passes their caller", async () => {
    const principal = { ...anonymousPrincipal, user_id: "u1", api_key: "gr_1" };
    const { send, calls } = fake({ principal });
    await send("POST", COMMANDS, { id: 1, method: "run.start" }, { "x-color": "red" });
    const caller = calls[0]?.[3] as CommandCaller;
    const { request, origin } = await caller.run(THREAD, { assistant_id: "g", if_not_exists: "create" });
    assert.deepEqual([request.assistant_id, request.if_not_exists], ["g", "create"]);
    assert.deepEqual([origin.user_id, origin.api_key, origin.configurable?.["x-color"]], ["u1", "gr_1", "red"]);
    const wrong = caller.run(THREAD, { assistant_id: "g", config: { recursion_limit: 0 } });
    await assert.rejects(wrong, { code: "invalid", message: /^config\.recursion_limit: must be at least 1/ });
  });

  it("runs on a real service", async () => {
    await using kit = await testService({ agents: { hello: () => "Hello" } });
    const post = async (params: object): Promise<{ type: string; result?: { run_id: string } }> => {
      const body = JSON.stringify({ id: 1, method: "run.start", params });
      return (await (await kit.fetch(`http://greenroom${COMMANDS}`, { method: "POST", body })).json()) as never;
    };
    const { result } = await post({ assistant_id: "hello", input: { messages: [] } });
    const run = await kit.service.runs.join(THREAD, result?.run_id ?? "");
    assert.equal(((await run.result) as { messages: { content: string }[] }).messages.at(-1)?.content, "Hello");
    assert.equal((await post({ assistant_id: "hello", multitask_strategy: "sometimes" })).type, "error");
    const direct = await kit.service.threads.command(THREAD, { id: 2, method: "state.get" });
    assert.equal(direct.type, "success");
  });
});

describe("the WebSocket route", () => {
  it("answers 426 without a handshake, and 501 if the host cannot upgrade", async () => {
    const plain = await fake().send("GET", STREAM);
    assert.deepEqual([plain.status, plain.headers.get("upgrade")], [426, "websocket"]);
    assert.equal((await fake().send("HEAD", STREAM)).status, 426);
    const handshake = await fake().send("GET", STREAM, undefined, upgrade);
    assert.equal(handshake.status, 501);
    assert.match(((await handshake.json()) as { message: string }).message, /server-sent events/);
    const invalid = await fake().handler(new Request(`http://127.0.0.1:2024${STREAM}`, { headers: upgrade }), {
      upgradeWebSocket: () => null,
    });
    assert.equal(invalid.status, 400);
  });

  it("refuses pages of other origins, and cookies that they may not send", async () => {
    const ownOrigin = "http://127.0.0.1:2024";
    const foreign = "https://other.example";
    const cookie = { cookie: "session=1" };
    for (const [cors, headers, status] of [
      [{}, { origin: foreign }, 501],
      [{}, { origin: foreign, ...cookie }, 403],
      [{}, { origin: ownOrigin, host: "127.0.0.1:2024", ...cookie }, 501],
      [{}, cookie, 501],
      [{ allow_origins: ["https://app.example"] }, { origin: foreign }, 403],
      [{ allow_origins: ["https://app.example"] }, { origin: "https://app.example" }, 501],
      [{ allow_origins: [foreign] }, { origin: foreign, ...cookie }, 403],
      [{ allow_origins: [foreign], allow_credentials: true }, { origin: foreign, ...cookie }, 501],
      [{ allow_origins: [] }, { origin: "null" }, 403],
    ] as const) {
      const { send } = fake({ http: { cors } });
      const response = await send("GET", STREAM, undefined, { ...upgrade, ...headers });
      assert.equal(response.status, status, JSON.stringify([cors, headers]));
    }
  });

  it("requires the permission to create runs for commands that do", async () => {
    const uses: unknown[] = [];
    const access = {
      principal: async (_request: Request, use: unknown) => {
        uses.push(use);
        if (use === "run") throw new ServiceError("forbidden", "This needs the permission runs:create");
        return anonymousPrincipal;
      },
    };
    let caller: CommandCaller | undefined;
    const answers: FakeOptions["answers"] = {
      "protocol.subscribe": (thread_id, filter) =>
        new MemoryEvents().subscribe({}, thread_id as string, filter as never),
      "protocol.command": (_thread_id, _command, commandCaller) => {
        caller = commandCaller as CommandCaller;
      },
    };
    const listeners: ((event: { readonly data: string }) => void)[] = [];
    const addEventListener = (_type: string, listener: (event: never) => void): unknown =>
      listeners.push(listener as never);
    const socket = { bufferedAmount: 0, send() {}, close() {}, addEventListener } as never;
    const request = new Request(`http://127.0.0.1:2024${STREAM}`, { headers: upgrade });
    const response = await fake({ access, answers }).handler(request, { upgradeWebSocket: () => ({ socket }) });
    assert.equal(response.status, 101);
    listeners[0]?.({ data: '{"id":1,"method":"run.start"}' });
    await until(() => caller !== undefined);
    await assert.rejects((caller as CommandCaller).run(THREAD, { assistant_id: "g" }), { code: "forbidden" });
    assert.deepEqual(uses, ["read", "run"]);
  });
});

describe("the history route", () => {
  it("accepts U+0000 between the segments of a namespace", async () => {
    const { send, calls } = fake();
    const checkpoint = { checkpoint_ns: "a:1\0b:2" };
    const response = await send("POST", `/threads/${THREAD}/history`, { limit: 1, checkpoint });
    assert.equal(response.status, 200);
    assert.deepEqual(calls[0]?.[2], { limit: 1, checkpoint: { checkpoint_ns: "a:1|b:2" } });
  });
});
