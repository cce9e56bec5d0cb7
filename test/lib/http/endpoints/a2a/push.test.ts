/** A2A push notifications: their configuration and their deliveries. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Webhook } from "standardwebhooks";
import { isObject, type JsonObject } from "../../../../../lib/json.ts";
import type { WebhookOptions } from "../../../../../lib/webhooks/options.ts";
import type { OutboundRequest, OutboundResponse } from "../../../../../lib/webhooks/system-transport.ts";
import { createGate } from "../../../../support/gate.ts";
import { until } from "../../../../support/until.ts";
import { customWorld, owning } from "../../../auth/custom-auth.harness.ts";
import { AGENTS, type Ask, a2aWorld, asker, plain, readState, readTask, say } from "./a2a.harness.ts";

const SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const URL = "https://peer.example/told?key=1";
const NOBODY = "99999999-9999-4999-8999-999999999999";

interface PushDelivery {
  readonly body: JsonObject;
  readonly headers: Readonly<Record<string, string>>;
}

/** Creates a receiver of all deliveries. It verifies signatures and responds with the next of `statuses`, then 200. */
function receiver(...statuses: number[]) {
  const deliveries: PushDelivery[] = [];
  const send = async ({ headers, body }: OutboundRequest): Promise<OutboundResponse> => {
    const deliveryHeaders = Object.fromEntries(headers);
    const status = statuses.shift() ?? 200;
    const verified = new Webhook(SECRET).verify(body, deliveryHeaders) as JsonObject;
    if (status === 200) deliveries.push({ headers: deliveryHeaders, body: verified });
    return { status, retry_after: null, address: "93.184.215.14" };
  };
  const webhooks: WebhookOptions = {
    signing_secret: SECRET,
    delivery: { schedule_ms: [1] },
    transport: { send, resolve: async () => ["93.184.215.14"] },
  };
  return { told: deliveries, webhooks };
}

const legacyStatus = ({ body }: PushDelivery): string => (body.status as JsonObject).state as string;
const readUpdate = ({ body }: PushDelivery) =>
  body.statusUpdate as unknown as {
    taskId: string;
    contextId: string;
    status: { state: string; message?: JsonObject };
  };

const configure = (configFields: JsonObject = {}): JsonObject => ({
  configuration: {
    taskPushNotificationConfig: {
      id: "c1",
      url: URL,
      authentication: { scheme: "Bearer", credentials: "s3cret" },
      ...configFields,
    },
  },
});

describe("push notifications of A2A", () => {
  it("report the end of a task, signed and with the client's credentials", async () => {
    const { told: deliveries, webhooks } = receiver();
    await using it = await a2aWorld({ webhooks });
    const task = readTask(await it.ask("echo", "SendMessage", say("Hi", {}, configure({ token: "t0k" }))));
    await until(() => deliveries.length === 1, "it is told");
    const [first] = deliveries as [PushDelivery];
    assert.deepEqual(
      [readUpdate(first).taskId, readUpdate(first).contextId, readUpdate(first).status.state],
      [task.id, task.contextId, "TASK_STATE_COMPLETED"],
    );
    const { authorization, "x-a2a-notification-token": token, "content-type": type } = first.headers;
    assert.deepEqual([authorization, token, type], ["Bearer s3cret", "t0k", "application/a2a+json"]);
    const failed = readTask(await it.ask("fails", "SendMessage", say("Hi", {}, configure())));
    await until(() => deliveries.length === 2, "the failure is told");
    const update = readUpdate(deliveries[1] as PushDelivery);
    assert.deepEqual([update.taskId, update.status.state], [failed.id, "TASK_STATE_FAILED"]);
    assert.deepEqual(update.status.message?.parts, [{ text: "It broke" }]);
  });

  it("report an interrupt, and how the task continues after the resume value", async () => {
    const { told: deliveries, webhooks } = receiver();
    await using it = await a2aWorld({ webhooks });
    const task = readTask(await it.ask("asks", "SendMessage", say("Weather?", {}, configure())));
    await until(() => deliveries.length === 1, "the question is told");
    const { status } = readUpdate(deliveries[0] as PushDelivery);
    assert.deepEqual([status.state, status.message], ["TASK_STATE_INPUT_REQUIRED", task.status.message]);
    await it.ask("asks", "SendMessage", say("Rome", { taskId: task.id, contextId: task.contextId }));
    await until(() => deliveries.length === 2, "the end is told");
    assert.deepEqual(
      [readUpdate(deliveries[1] as PushDelivery).taskId, readUpdate(deliveries[1] as PushDelivery).status.state],
      [task.id, "TASK_STATE_COMPLETED"],
    );
    // The next message begins another task.
    await it.ask("echo", "SendMessage", say("More", { contextId: task.contextId }));
    const again = readTask(await it.ask("asks", "SendMessage", say("Weather?", {}, configure())));
    await it.ask("asks", "CancelTask", { id: again.id });
    await until(() => deliveries.length === 4, "the cancel is told");
    assert.deepEqual(
      deliveries.slice(2).map((delivery) => readUpdate(delivery).status.state),
      [...["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_CANCELED"]],
    );
  });

  it("of A2A 0.3 contain the task, and are retried after a failure of the receiver", async () => {
    const { told: deliveries, webhooks } = receiver(500);
    const stops = createGate();
    await using it = await a2aWorld({ agents: { ...AGENTS, stops: stops.agent }, webhooks });
    const response = await it.ask("stops", "message/send", { ...legacySay("Hi"), configuration: { blocking: false } });
    const task = plain(response);
    const config = { url: URL, token: "t", authentication: { schemes: ["Bearer", "Basic"], credentials: "c" } };
    const set = await it.ask("stops", "tasks/pushNotificationConfig/set", {
      ...{ taskId: task.id, pushNotificationConfig: config },
    });
    assert.deepEqual(set.result, {
      taskId: task.id,
      pushNotificationConfig: { id: task.id, url: URL, authentication: { schemes: ["Bearer"] } },
    });
    stops.open();
    await until(() => deliveries.length === 1, "it is told at the second attempt");
    const [first] = deliveries as [PushDelivery];
    assert.deepEqual([first.body.kind, first.body.id, legacyStatus(first)], ["task", task.id, "completed"]);
    assert.deepEqual([first.headers.authorization, first.headers["content-type"]], ["Bearer c", "application/json"]);
  });

  it("report the cancellation of queued tasks", async () => {
    const { told: deliveries, webhooks } = receiver();
    const stops = createGate();
    await using it = await a2aWorld({ agents: { ...AGENTS, stops: stops.agent }, webhooks });
    const later = { configuration: { returnImmediately: true } };
    const { contextId } = readTask(await it.ask("stops", "SendMessage", say("First", {}, later)));
    await stops.reached();
    const { configuration } = configure() as { configuration: JsonObject };
    const queued = readTask(
      await it.ask(
        "stops",
        "SendMessage",
        say(
          "Second",
          { contextId },
          {
            configuration: { ...configuration, returnImmediately: true },
          },
        ),
      ),
    );
    await it.ask("stops", "CancelTask", { id: queued.id });
    await until(() => deliveries.length === 1, "it is told");
    assert.deepEqual(
      [readUpdate(deliveries[0] as PushDelivery).taskId, readUpdate(deliveries[0] as PushDelivery).status.state],
      [queued.id, "TASK_STATE_CANCELED"],
    );
    stops.open();
  });

  it("can be created, read, listed and deleted", async () => {
    const { told: pushDeliveries, webhooks } = receiver();
    await using it = await a2aWorld({ webhooks });
    const task = readTask(await it.ask("asks", "SendMessage", say("Weather?")));
    const taskId = task.id;
    const call = async (method: string, params: JsonObject = {}) =>
      await it.ask("asks", `${method}TaskPushNotificationConfig`, { taskId, ...params });
    const created = await call("Create", {
      url: URL,
      token: "t",
      authentication: { scheme: "Bearer", credentials: "c" },
    });
    const { id } = created.result;
    const redacted = { taskId, id, url: URL, authentication: { scheme: "Bearer" } };
    assert.deepEqual(created.result, redacted);
    assert.deepEqual((await call("Get", { id: id as string })).result, redacted);
    await call("Create", { id: "mine", url: "https://other.example/" });
    await call("Create", { id: "mine", url: "https://third.example/" });
    const list = async () => (await it.ask("asks", "ListTaskPushNotificationConfigs", { taskId })).result;
    assert.deepEqual(await list(), {
      configs: [redacted, { taskId, id: "mine", url: "https://third.example/" }],
      nextPageToken: "",
    });
    for (let times = 0; times < 2; times++) assert.equal((await call("Delete", { id: "mine" })).error.code, undefined);
    assert.deepEqual(await list(), { configs: [redacted], nextPageToken: "" });
    assert.equal((await call("Get", { id: "mine" })).error.code, -32001);
    const legacy = async (method: string, params: JsonObject) =>
      (await it.ask("asks", `tasks/pushNotificationConfig/${method}`, { id: taskId, ...params })).result;
    const legacyShown = { taskId, pushNotificationConfig: { id, url: URL, authentication: { schemes: ["Bearer"] } } };
    assert.deepEqual(await legacy("get", {}), legacyShown);
    assert.deepEqual(await legacy("list", {}), [legacyShown]);
    assert.deepEqual(await legacy("delete", { pushNotificationConfigId: id as string }), null);
    assert.deepEqual(await list(), { configs: [], nextPageToken: "" });
    await it.ask("asks", "SendMessage", say("Rome", { taskId, contextId: task.contextId }));
    const deliveries = await it.service.webhooks.list();
    assert.deepEqual([deliveries.items, pushDeliveries], [[], []], "nobody is told any more");
  });

  it("are limited to ten per task, to public URLs and to valid header values", async () => {
    const { webhooks } = receiver();
    await using it = await a2aWorld({ webhooks });
    const { id: taskId } = readTask(await it.ask("asks", "SendMessage", say("Weather?")));
    const code = async (params: JsonObject): Promise<unknown> =>
      (await it.ask("asks", "CreateTaskPushNotificationConfig", { taskId, ...params })).error.code;
    for (const url of [
      "",
      "http://127.0.0.1/",
      "https://10.0.0.1/",
      "/inside",
      "ftp://a.example/",
      "https://a.example:99/",
    ])
      assert.equal(await code({ url }), -32602, url);
    const wrong: readonly JsonObject[] = [
      ...[{ token: "a\nb" }, { token: 3 }, { id: ["x"] }, { authentication: "Bearer" }],
      ...[{ authentication: { scheme: "a b" } }, { authentication: { scheme: "Bearer", credentials: "é" } }],
    ];
    for (const configFields of wrong)
      assert.equal(await code({ url: URL, ...configFields }), -32602, JSON.stringify(configFields));
    assert.equal(await code({ url: URL, taskId: NOBODY }), -32001);
    const refused = await it.ask("echo", "SendMessage", say("Hi", {}, configure({ url: "http://localhost/" })));
    assert.equal(refused.error.code, -32602);
    assert.equal(
      (await it.service.runs.search({ metadata: { created_by: "a2a" } })).items.length,
      1,
      "no run was made",
    );
    for (let n = 0; n < 10; n++) assert.equal(await code({ id: `c${n}`, url: URL }), undefined);
    assert.equal(await code({ id: "c10", url: URL }), -32602);
    assert.equal(await code({ id: "c9", url: URL }), undefined);
  });

  it("of a deleted run or an unknown task are refused with the reason", async () => {
    const { webhooks } = receiver();
    await using it = await a2aWorld({ webhooks });
    const { id, contextId } = readTask(await it.ask("asks", "SendMessage", say("Weather?")));
    const push = { thread_id: contextId, config_id: "c1", url: URL, terms: { version: "1.0" } } as const;
    const { setPush } = it.service.webhooks;
    await assert.rejects(setPush({ ...push, task_id: id, last_run: NOBODY }), { code: "conflict" });
    await assert.rejects(setPush({ ...push, task_id: NOBODY, last_run: NOBODY }), { code: "not_found" });
    await setPush({ ...push, task_id: id, last_run: id });
  });

  it("of another caller's task get the response of an unknown task", async () => {
    const { webhooks } = receiver();
    await using world = await customWorld({ agents: AGENTS, on: { "*": () => true, threads: owning }, webhooks });
    const as =
      (user: string): Ask =>
      (agent, method, params) =>
        asker(world.it.fetch)(agent, method, params, { authorization: `Bearer ${user}` });
    const [ann, bob] = [as("ann"), as("bob")];
    const { id: taskId } = readTask(await ann("asks", "SendMessage", say("Weather?", {}, configure())));
    const calls: readonly [string, JsonObject][] = [
      ["CreateTaskPushNotificationConfig", { id: "c1", url: "https://bob.example/" }],
      ["GetTaskPushNotificationConfig", { id: "c1" }],
      ["ListTaskPushNotificationConfigs", {}],
      ["DeleteTaskPushNotificationConfig", { id: "c1" }],
    ];
    for (const [method, params] of calls) {
      const [foreign, none] = [taskId, NOBODY].map(async (id) => {
        const { status, error } = await bob("asks", method, { ...params, taskId: id });
        return [status, JSON.stringify(error).replaceAll(id, "…")];
      });
      assert.deepEqual(await foreign, await none, method);
      assert.match(JSON.stringify(await foreign), /-32001/);
    }
    const { result } = await ann("asks", "ListTaskPushNotificationConfigs", { taskId });
    assert.deepEqual(result.configs, [{ taskId, id: "c1", url: URL, authentication: { scheme: "Bearer" } }]);
  });

  it("are refused if webhooks are disabled, as the card says", async () => {
    for (const disable_webhooks of [false, true]) {
      await using it = await a2aWorld({ http: { disable_webhooks } });
      const card = await it.test.fetch(new Request("http://127.0.0.1/a2a/echo/.well-known/agent-card.json"));
      const { capabilities } = (await card.json()) as { capabilities: JsonObject };
      assert.equal(capabilities.pushNotifications, !disable_webhooks);
      const { error } = await it.ask("echo", "ListTaskPushNotificationConfigs", { taskId: NOBODY });
      assert.equal(error.code, disable_webhooks ? -32003 : -32001);
      const response = await it.ask("echo", "SendMessage", say("Hi", {}, configure()));
      assert.equal(response.error.code, disable_webhooks ? -32003 : undefined);
    }
  });

  it("are deleted with their task", async () => {
    const { webhooks } = receiver();
    await using it = await a2aWorld({ webhooks });
    const task = readTask(await it.ask("asks", "SendMessage", say("Weather?", {}, configure())));
    assert.equal(readState(task), "INPUT_REQUIRED");
    const key = { thread_id: task.contextId, task_id: task.id };
    assert.equal((await it.service.webhooks.listPushes(key)).length, 1);
    await it.service.threads.delete(task.contextId);
    assert.deepEqual(await it.service.webhooks.listPushes(key), []);
  });
});

function legacySay(text: string): JsonObject {
  const { message } = say(text);
  assert.ok(isObject(message ?? null));
  return { message: { ...(message as JsonObject), kind: "message", role: "user", parts: [{ kind: "text", text }] } };
}
