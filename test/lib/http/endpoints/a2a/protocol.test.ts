/** A2A validates requests, versions and options, and serves agent cards. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createHandler } from "../../../../../lib/http/handler.ts";
import type { JsonObject } from "../../../../../lib/json.ts";
import { testService } from "../../../../suite/mod.ts";
import { customWorld } from "../../../auth/custom-auth.harness.ts";
import { AGENTS, a2aWorld, createRequest, plain, readAnswer, readState, readTask, say } from "./a2a.harness.ts";

const URL = "http://127.0.0.1/a2a/echo";
const CARD = "/.well-known/agent-card.json";

describe("a request of A2A", () => {
  it("gets an error with code and reason for each mistake", async () => {
    await using it = await a2aWorld();
    const post = async (body: string, headers: Readonly<Record<string, string>> = {}) => {
      const about = { "content-type": "application/json", ...headers };
      const { status, error } = await readAnswer(await it.test.fetch(URL, { method: "POST", body, headers: about }));
      const [info] = (error.data ?? []) as JsonObject[];
      return [status, error.code, info?.reason];
    };
    const rpc = (method: string, params: unknown = {}): string =>
      JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
    assert.deepEqual(await post("{"), [400, -32700, undefined]);
    for (const body of ["[]", "{}", "3", '{"jsonrpc":"2.0","method":"GetTask"}', '{"jsonrpc":"2.0","id":1}']) {
      assert.deepEqual(await post(body), [400, -32600, undefined], body);
    }
    assert.deepEqual(await post(rpc("Nothing")), [200, -32601, undefined]);
    assert.deepEqual(await post(rpc("toString")), [200, -32601, undefined]);
    assert.deepEqual(await post(rpc("GetTask", [])), [200, -32602, undefined]);
    assert.deepEqual(await post(rpc("GetTask", { id: "x" })), [200, -32001, "TASK_NOT_FOUND"]);
    assert.deepEqual(await post(rpc("tasks/get", { id: "x" })), [200, -32001, undefined]);
    assert.deepEqual(await post(rpc("GetTask"), { "content-type": "text/plain" }), [
      ...[200, -32005, "CONTENT_TYPE_NOT_SUPPORTED"],
    ]);
    assert.deepEqual(await post(rpc("GetTask"), { "a2a-version": "2.0" }), [200, -32009, "VERSION_NOT_SUPPORTED"]);
    for (const version of ["1.0", "0.3", "0.3.0", ""]) {
      assert.equal((await post(rpc("GetTask"), { "a2a-version": version }))[1], -32001);
    }
    assert.deepEqual(await post(rpc("GetExtendedAgentCard")), [200, -32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED"]);
    assert.deepEqual(await post(rpc("agent/getAuthenticatedExtendedCard")), [200, -32007, undefined]);
    assert.deepEqual(await post(rpc("ListTaskPushNotificationConfigs")), [200, -32001, "TASK_NOT_FOUND"]);
    assert.deepEqual(await post(rpc("tasks/pushNotificationConfig/set")), [200, -32001, undefined]);
  });

  it("needs a valid message, and otherwise starts no run", async () => {
    await using it = await a2aWorld();
    const wrong: [JsonObject, number][] = [
      [{}, -32602],
      [say("Hi", { role: "ROLE_AGENT" }), -32602],
      [say("Hi", { messageId: "" }), -32602],
      [say([]), -32602],
      [say("Hi", { contextId: "mine" }), -32602],
      [say("Hi", { taskId: "mine" }), -32001],
      [say([{ audio: "x" }]), -32005],
      [say([{ kind: "video", text: "x" }]), -32005],
      [say([{ data: 3 }]), -32602],
      [say([{ url: "file:///etc/passwd" }]), -32602],
      [say("Hi", {}, { configuration: { historyLength: 11 } }), -32602],
      [say("Hi", {}, { configuration: { historyLength: -1 } }), -32602],
      [say("Hi", {}, { configuration: { historyScope: "all" } }), -32602],
      [say("Hi", {}, { configuration: { historyscope: "task" } }), -32602],
      [say("Hi", {}, { configuration: { taskPushNotificationConfig: { url: "https://10.0.0.1/" } } }), -32602],
    ];
    for (const [params, code] of wrong) {
      const { status, error } = await it.ask("echo", "SendMessage", params);
      assert.deepEqual([status, error.code], [200, code], JSON.stringify(params));
    }
    const scoped = say("Hi", {}, { configuration: { historyScope: "task" } });
    assert.equal((await it.ask("echo", "SendStreamingMessage", scoped)).error.code, -32602);
    const long = await it.ask("echo", "SendMessage", say("Hi", {}, { configuration: { historyLength: 11 } }));
    assert.equal(long.error.message, "historyLength cannot exceed 10");
    assert.deepEqual((await it.service.runs.search()).items, []);
  });

  it("may use the names of the Protocol Buffers definition, with data and metadata unchanged", async () => {
    const inputs: JsonObject[] = [];
    const agents = {
      echo: ({ state }: { readonly state: JsonObject }) => {
        inputs.push(state);
        return "Seen";
      },
    };
    await using it = await a2aWorld({ agents });
    const parts: JsonObject[] = [
      { text: "Hi" },
      { data: { user_name: "Ann" } },
      { raw: "aGk=", media_type: "image/png" },
    ];
    const message = { message_id: "m", role: "ROLE_USER", parts, metadata: { trip_id: 7 } };
    const configuration = { history_length: 0 };
    const task = readTask(await it.ask("echo", "SendMessage", { message, configuration }));
    assert.deepEqual([readState(task), task.history, inputs[0]?.user_name], ["COMPLETED", undefined, "Ann"]);
    const { metadata } = await it.service.runs.get(task.contextId, task.id);
    assert.deepEqual([metadata.trip_id, metadata.tripId], [7, undefined]);
    const [firstMessage] = (inputs[0]?.messages as JsonObject[] | undefined) ?? [];
    const [, image] = (firstMessage?.content as JsonObject[] | undefined) ?? [];
    assert.equal(image?.mime_type, "image/png");
    for (const [name, length] of [
      [task.contextId, 1],
      ["99999999-9999-4999-8999-999999999999", 0],
    ] as const) {
      const { result } = await it.ask("echo", "ListTasks", { context_id: name, page_size: 5 });
      assert.deepEqual([(result.tasks as JsonObject[]).length, result.pageSize], [length, 5]);
    }
    const both = await it.ask("echo", "ListTasks", { page_size: 5, pageSize: 6 });
    assert.equal(both.result.pageSize, 6);
  });

  it("selects the history length, also by a header, and gets the extension back", async () => {
    await using it = await a2aWorld();
    const { contextId } = readTask(await it.ask("echo", "SendMessage", say("Hi")));
    const extension = "https://langchain.com/a2a/extensions/history-scope/v1";
    const headers = { "langgraph-a2a-history-scope": "task", "a2a-extensions": `x, ${extension}` };
    const second = await it.ask("echo", "SendMessage", say("Again", { contextId }), headers);
    assert.equal(readTask(second).history?.length, 2);
    assert.equal(second.headers.get("a2a-extensions"), extension);
    const { id } = readTask(second);
    const lengths = [
      [{}, 4],
      [{ historyLength: 3 }, 3],
      [{ historyLength: 0 }, undefined],
    ] as const;
    for (const [params, length] of lengths) {
      assert.equal(plain(await it.ask("echo", "GetTask", { id, ...params })).history?.length, length);
    }
    const scoped = await it.ask("echo", "GetTask", { id, historyScope: "context" }, headers);
    assert.equal(plain(scoped).history?.length, 4);
  });

  it("answers 404 `assistant_not_found` for an assistant that the caller may not read", async () => {
    await using it = await a2aWorld();
    for (const name of ["nobody", "99999999-9999-4999-8999-999999999999"]) {
      const response = await it.test.fetch(createRequest(`http://127.0.0.1/a2a/${name}`, "GetTask", {}));
      assert.deepEqual([response.status, ((await response.json()) as JsonObject).code], [404, "assistant_not_found"]);
    }
  });

  it("answers 404 with `disable_a2a`, also for cards", async () => {
    await using it = await a2aWorld({ http: { disable_a2a: true } });
    for (const path of ["/a2a/echo", `/a2a/echo${CARD}`, `${CARD}?assistant_id=echo`]) {
      assert.equal((await it.test.fetch(`http://127.0.0.1${path}`)).status, 404, path);
    }
  });
});

describe("the card of an agent", () => {
  it("has its URL below the mount in the form of each version, and an ETag", async () => {
    await using test = await testService({ agents: { echo: AGENTS.echo as never }, environment: { log: () => {} } });
    const handler = createHandler(test.service, { prefix: "/agents" });
    const get = (path: string, headers: Readonly<Record<string, string>> = {}) =>
      handler(new Request(`http://host.test/agents${path}`, { headers }));
    const { assistant_id } = await test.service.assistants.get("echo");
    const url = `http://host.test/agents/a2a/${assistant_id}`;
    const response = await get(`/a2a/echo${CARD}`);
    const card = (await response.json()) as JsonObject;
    const [modern, legacy] = card.supportedInterfaces as JsonObject[];
    assert.deepEqual(modern, { url, protocolBinding: "JSONRPC", protocolVersion: "1.0" });
    assert.deepEqual([legacy?.protocolVersion, card.url, card.version], ["0.3", url, "1"]);
    for (const path of [`${CARD}?assistant_id=echo`, CARD, `/a2a/${assistant_id}${CARD}`]) {
      assert.deepEqual(await (await get(path)).json(), card, path);
    }
    const etag = response.headers.get("etag") ?? "";
    assert.match(etag, /^W\/"[0-9a-f]+"$/);
    const again = await get(`/a2a/echo${CARD}`, { "if-none-match": `"x", ${etag}` });
    assert.deepEqual([again.status, await again.text(), again.headers.get("etag")], [304, "", etag]);
    const old = (await (await get(CARD, { "a2a-version": "0.3" })).json()) as JsonObject;
    assert.deepEqual([old.supportedInterfaces, old.protocolVersion], [undefined, "0.3.0"]);
    const fresh = (await (await get(CARD, { "a2a-version": "1.0" })).json()) as JsonObject;
    assert.deepEqual([fresh.url, fresh.protocolVersion], [undefined, undefined]);
    assert.equal((await get(CARD, { "a2a-version": "7" })).status, 400);
    // The URL in the card serves requests.
    const answer = await readAnswer(await handler(createRequest(url, "SendMessage", say("Hi"))));
    assert.equal(readState(readTask(answer)), "COMPLETED");
  });

  it("requires the name if there are several agents, and includes the assistant's metadata", async () => {
    await using it = await a2aWorld();
    const response = await it.test.fetch(`http://127.0.0.1${CARD}`);
    assert.deepEqual([response.status, ((await response.json()) as JsonObject).code], [422, "invalid"]);
    const metadata = { a2a: { input_modes: ["image/png"] } };
    const assistant = await it.service.assistants.create({
      graph_id: "echo",
      name: "Painter",
      description: "Paints",
      metadata,
    });
    const card = (await (
      await it.test.fetch(`http://127.0.0.1/a2a/${assistant.assistant_id}${CARD}`)
    ).json()) as JsonObject;
    assert.deepEqual([card.name, card.description], ["Painter", "Paints"]);
    assert.deepEqual([card.defaultInputModes, card.defaultOutputModes], [["image/png"], ["text/plain"]]);
  });

  it("requires the permission to read the assistant", async () => {
    await using it = await customWorld({ agents: AGENTS, on: { "*": () => true } });
    const path = `http://127.0.0.1/a2a/echo${CARD}`;
    assert.equal((await it.it.fetch(path)).status, 401);
    const card = await it.it.fetch(path, { headers: { authorization: "Bearer ann" } });
    assert.equal(card.status, 200);
    assert.equal(((await card.json()) as JsonObject).securitySchemes, undefined);
    assert.equal((await it.it.fetch(createRequest("http://127.0.0.1/a2a/echo", "GetTask", {}))).status, 401);
  });
});
