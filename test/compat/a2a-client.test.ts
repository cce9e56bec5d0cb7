/** The official client of A2A, with the protocol of version 1.0 and of 0.3. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import {
  type AgentCard,
  ListTasksRequest,
  SendMessageRequest,
  StreamResponse,
  type Task,
  TaskState,
} from "@a2a-js/sdk";
import { type Client, ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory } from "@a2a-js/sdk/client";
import { legacyPushNotificationToV1StreamResponse } from "@a2a-js/sdk/compat/v0_3";
import { Webhook } from "standardwebhooks";
import { z } from "zod";
import { type Listener, serve } from "../../adapters/node/mod.ts";
import { createHandler } from "../../lib/http/handler.ts";
import { agent } from "../../lib/mod.ts";
import type { WebhookOptions } from "../../lib/webhooks/options.ts";
import { AGENTS } from "../lib/http/endpoints/a2a/a2a.harness.ts";
import { type TestService, testService } from "../suite/mod.ts";
import { createGate, type Gate } from "../support/gate.ts";
import { until } from "../support/until.ts";

const joinText = (parts: Task["history"][number]["parts"] = []): string =>
  parts.map(({ content }) => (content?.$case === "text" ? content.value : "")).join("");

const SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/** A notification whose signature was verified. */
interface ReceivedPush {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
}

let messages = 0;
const message = (text: string, extraFields: object = {}, extraParams: object = {}): SendMessageRequest =>
  SendMessageRequest.fromJSON({
    message: { messageId: `c${++messages}`, role: "ROLE_USER", parts: [{ text }], ...extraFields },
    ...extraParams,
  });

describe("an A2A client", () => {
  let test: TestService;
  let server: Listener;
  let stops: Gate;
  let receiver: Listener;
  const pushes: ReceivedPush[] = [];

  before(async () => {
    receiver = await serve(
      async (request) => {
        const headers = Object.fromEntries(request.headers);
        pushes.push({ headers, body: new Webhook(SECRET).verify(await request.text(), headers) });
        return new Response(null, { status: 204 });
      },
      { port: 0, hostname: "127.0.0.1" },
    );
    stops = createGate();
    const createTeller = async function* () {
      yield "Once ";
      yield "upon a time";
    };
    const webhooks: WebhookOptions = {
      signing_secret: SECRET,
      url: { allow_private_network: true, allowed_ports: [receiver.port] },
    };
    const refund = agent({ input: z.object({ order: z.string(), cents: z.number() }) }, () => ({ paid: true }));
    const text = agent({ input: z.string(), description: "Reads a text" }, () => ({ read: true }));
    const chat = agent({ input: z.object({ messages: z.array(z.unknown()) }) }, () => "You said it");
    const typed = { refund, text, chat };
    const agents = { ...AGENTS, ...typed, tells: createTeller, slow: stops.agent };
    test = await testService({ agents, webhooks, environment: { log: () => {} } });
    server = await serve(createHandler(test.service, { prefix: "/agents" }), { port: 0, hostname: "127.0.0.1" });
  });
  after(async () => {
    stops.open();
    await server.close();
    await test.service.stop();
    await receiver.close();
  });

  async function createClient(name: string, version: "1.0" | "0.3"): Promise<Client> {
    const legacyCompat = { enabled: true };
    const factory = new ClientFactory({
      transports: [new JsonRpcTransportFactory({ legacyCompat })],
      cardResolver: new DefaultAgentCardResolver({ legacyCompat }),
    });
    const url = `${server.url}/agents/a2a/${name}/`;
    if (version === "1.0") return await factory.createFromUrl(url);
    const card = await fetch(`${url}.well-known/agent-card.json`, { headers: { "a2a-version": "0.3" } });
    return await factory.createFromAgentCard((await card.json()) as AgentCard);
  }

  async function send(client: Client, request: SendMessageRequest): Promise<Task> {
    const result = await client.sendMessage(request);
    assert.ok("status" in result, "a task");
    return result;
  }

  for (const version of ["1.0", "0.3"] as const) {
    it(`${version}: sends two messages in one context`, async () => {
      const client = await createClient("echo", version);
      assert.equal(client.protocolVersion, version);
      const first = await send(client, message("Hi"));
      assert.equal(first.status?.state, TaskState.TASK_STATE_COMPLETED);
      assert.equal(joinText(first.artifacts[0]?.parts), "You said Hi");
      const { contextId } = first;
      const second = await send(client, message("Again", { contextId }));
      assert.deepEqual([second.contextId, second.history.length], [contextId, 4]);
      const read = await client.getTask({ tenant: "", id: first.id, historyLength: 1 });
      assert.equal(joinText(read.history[0]?.parts), "You said Hi");
      await assert.rejects(client.getTask({ tenant: "", id: "99999999-9999-4999-8999-999999999999" }), /not found/);
      if (version === "1.0") {
        const { tasks, totalSize } = await client.listTasks(ListTasksRequest.fromJSON({ contextId }));
        assert.deepEqual([tasks.map(({ id }) => id), totalSize], [[second.id, first.id], 2]);
      }
    });

    it(`${version}: reads in the card that an agent takes no messages, which refuses one with the same reason`, async () => {
      const reasons = {
        refund: "The agent takes no messages: its input has order, cents, and A2A needs a member messages",
        text: "The agent takes no messages: its input is no object with messages, and A2A needs a member messages",
      };
      for (const [name, reason] of Object.entries(reasons)) {
        const client = await createClient(name, version);
        const { description, defaultInputModes, skills } = await client.getAgentCard();
        assert.equal(description, `${name === "text" ? "Reads a text" : "Agent `refund`"}\n\n${reason}.`);
        assert.deepEqual([defaultInputModes, skills.map((skill) => skill.inputModes)], [[], [[]]]);
        assert.equal(skills[0]?.description, description);
        await assert.rejects(client.sendMessage(message("Hi")), (error: Error) => error.message.includes(reason));
        assert.equal((await test.service.runs.search({ assistant_id: name })).items.length, 0);
      }
      const client = await createClient("chat", version);
      const card = await client.getAgentCard();
      assert.deepEqual([card.description, card.defaultInputModes], ["Agent `chat`", ["text/plain"]]);
      assert.equal(joinText((await send(client, message("Hi"))).artifacts[0]?.parts), "You said it");
    });

    it(`${version}: streams a response`, async () => {
      const client = await createClient("tells", version);
      let text = "";
      const states: unknown[] = [];
      for await (const { payload } of client.sendMessageStream(message("Tell"))) {
        if (payload?.$case === "artifactUpdate") text += joinText(payload.value.artifact?.parts);
        else if (payload?.$case === "statusUpdate") states.push(payload.value.status?.state);
      }
      assert.equal(text, "Once upon a time");
      assert.deepEqual(states, [TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_COMPLETED]);
    });

    it(`${version}: answers an interrupt`, async () => {
      const client = await createClient("asks", version);
      const inputTask = await send(client, message("Weather?"));
      assert.equal(inputTask.status?.state, TaskState.TASK_STATE_INPUT_REQUIRED);
      assert.equal(joinText(inputTask.status?.message?.parts), "Which city?");
      const { id: taskId, contextId } = inputTask;
      const done = await send(client, message("Rome", { taskId, contextId }));
      assert.deepEqual([done.id, joinText(done.artifacts[0]?.parts)], [taskId, 'Got "Rome"']);
    });

    it(`${version}: follows a task that interrupts`, async () => {
      const client = await createClient("asks", version);
      const { id: taskId, contextId } = await send(client, message("Weather?"));
      const states: unknown[] = [];
      let text = "";
      for await (const { payload } of client.resubscribeTask({ tenant: "", id: taskId })) {
        if (payload?.$case === "task") {
          states.push(payload.value.status?.state);
          await send(client, message("Rome", { taskId, contextId }));
        } else if (payload?.$case === "statusUpdate") states.push(payload.value.status?.state);
        else if (payload?.$case === "artifactUpdate") text += joinText(payload.value.artifact?.parts);
      }
      const { TASK_STATE_INPUT_REQUIRED: asks, TASK_STATE_WORKING: works, TASK_STATE_COMPLETED: done } = TaskState;
      const followed = version === "1.0" ? [[asks, works, done], 'Got "Rome"'] : [[asks], ""];
      assert.deepEqual([states, text], followed);
    });

    it(`${version}: receives the end of a task at its URL, signed`, async () => {
      stops.reset();
      const client = await createClient("slow", version);
      const now = { configuration: { returnImmediately: true } };
      const { id: taskId } = await send(client, message("One", {}, now));
      const authentication = { scheme: "Bearer", credentials: "c" };
      const config = { tenant: "", id: "mine", taskId, url: `${receiver.url}/told`, token: "t", authentication };
      const expectedConfig = { ...config, token: "", authentication: { scheme: "Bearer", credentials: "" } };
      assert.deepEqual(await client.createTaskPushNotificationConfig(config), expectedConfig);
      await client.createTaskPushNotificationConfig({ ...config, id: "other" });
      const key = { tenant: "", taskId, id: "mine" };
      assert.deepEqual(await client.getTaskPushNotificationConfig(key), expectedConfig);
      await client.deleteTaskPushNotificationConfig({ ...key, id: "other" });
      await client.deleteTaskPushNotificationConfig({ ...key, id: "other" });
      const list = { tenant: "", taskId, pageSize: 0, pageToken: "" };
      assert.deepEqual((await client.listTaskPushNotificationConfig(list)).configs, [expectedConfig]);
      stops.open();
      await until(() => pushes.length === 1, "it is told");
      const [{ headers, body }] = pushes.splice(0) as [ReceivedPush];
      assert.deepEqual([headers.authorization, headers["x-a2a-notification-token"]], ["Bearer c", "t"]);
      const { payload } =
        version === "1.0" ? StreamResponse.fromJSON(body) : legacyPushNotificationToV1StreamResponse(body);
      assert.ok(payload?.$case === "statusUpdate" || payload?.$case === "task");
      const id = payload.$case === "task" ? payload.value.id : payload.value.taskId;
      assert.deepEqual([id, payload.value.status?.state], [taskId, TaskState.TASK_STATE_COMPLETED]);
    });

    it(`${version}: follows a task that it did not wait for, and cancels a queued one`, async () => {
      stops.reset();
      const client = await createClient("slow", version);
      const now = { configuration: { returnImmediately: true } };
      const first = await send(client, message("One", {}, now));
      await stops.reached();
      const queued = await send(client, message("Two", { contextId: first.contextId }, now));
      const cancelled = await client.cancelTask({ tenant: "", id: queued.id, metadata: undefined });
      assert.equal(cancelled.status?.state, TaskState.TASK_STATE_CANCELED);
      await assert.rejects(client.cancelTask({ tenant: "", id: queued.id, metadata: undefined }), /not cancelable/i);
      let last: unknown;
      let text = "";
      for await (const { payload } of client.resubscribeTask({ tenant: "", id: first.id })) {
        if (payload?.$case === "task") stops.open();
        if (payload?.$case === "artifactUpdate") text += joinText(payload.value.artifact?.parts);
        if (payload?.$case === "statusUpdate") last = payload.value.status?.state;
      }
      assert.deepEqual([last, text], [TaskState.TASK_STATE_COMPLETED, "Through"]);
    });
  }
});
