/** Callers who may read a thread and not change it: their changes are refused. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { JsonObject } from "../../../lib/json.ts";
import type { WebhookOptions } from "../../../lib/webhooks/options.ts";
import { createGate } from "../../support/gate.ts";
import { customWorld, owning, type World, type WorldOptions } from "../auth/custom-auth.harness.ts";
import { AGENTS, type Answer, asker, readTask, say } from "./endpoints/a2a/a2a.harness.ts";

const CHAT = "01a222dc-a4d1-7404-8b15-d6b91195001f";
const PUSH_URL = "https://peer.example/told";

/** Ann owns the threads. Bob may read them, and his changes are refused or limited to his own threads. */
const HANDLERS: Readonly<Record<string, WorldOptions["on"]>> = {
  403: {
    "*": () => true,
    threads: owning,
    "threads:read": () => true,
    "threads:update": ({ user }) => user.identity === "ann",
  },
  404: { "*": () => true, threads: owning, "threads:read": () => true },
};

/** Receives deliveries in process. */
const WEBHOOKS: WebhookOptions = {
  transport: {
    send: async () => ({ status: 200, retry_after: null, address: "93.184.215.14" }),
    resolve: async () => ["93.184.215.14"],
  },
};

const submit = (text: string): JsonObject => ({
  ...{ id: CHAT, trigger: "submit-message" },
  messages: [{ id: `u-${text}`, role: "user", parts: [{ type: "text", text }] }],
});

async function sendChat(world: World, agent: string): Promise<void> {
  const { status, text } = await world.ask("ann", "POST", `/ai/${agent}/chat`, submit(agent));
  assert.equal(status, 200, text);
}

const stop = async (world: World, user: string, agent: string): Promise<number> =>
  (await world.ask(user, "POST", `/ai/${agent}/chat/${CHAT}/stop`)).status;

for (const [expected, on] of Object.entries(HANDLERS)) {
  const status = Number(expected);

  describe(`a reader whose changes get ${status}`, () => {
    it("cannot stop a running chat", async () => {
      const writes = createGate();
      await using world = await customWorld({ agents: { writes: writes.agent }, ...(on ? { on } : {}) });
      const chatRequest = sendChat(world, "writes");
      await writes.reached();
      assert.equal(await stop(world, "bob", "writes"), status);
      const [run] = await world.it.service.runs.list(CHAT);
      assert.equal(run?.status, "running");
      assert.equal(await stop(world, "ann", "writes"), 204);
      await chatRequest;
      assert.equal((await world.it.service.runs.list(CHAT))[0]?.status, "interrupted");
    });

    it("cannot stop an interrupted or an idle chat", async () => {
      await using world = await customWorld({ agents: AGENTS, ...(on ? { on } : {}) });
      await sendChat(world, "asks");
      assert.equal(await stop(world, "bob", "asks"), status);
      assert.equal((await world.it.service.threads.get(CHAT)).status, "interrupted");
      assert.equal(await stop(world, "ann", "asks"), 204);
      assert.equal((await world.it.service.threads.get(CHAT)).status, "idle");
      assert.equal(await stop(world, "bob", "asks"), status, "an idle chat");
      assert.equal(await stop(world, "ann", "asks"), 204);
    });

    it("cannot create or delete push configurations of A2A", async () => {
      await using world = await customWorld({ agents: AGENTS, webhooks: WEBHOOKS, ...(on ? { on } : {}) });
      const ask = (user: string, method: string, params: JsonObject): Promise<Answer> =>
        asker(world.it.fetch)("asks", method, params, { authorization: `Bearer ${user}` });
      const configuration = { taskPushNotificationConfig: { id: "c1", url: PUSH_URL } };
      const { id: taskId } = readTask(await ask("ann", "SendMessage", say("Weather?", {}, { configuration })));
      const set = await ask("bob", "CreateTaskPushNotificationConfig", {
        taskId,
        id: "c2",
        url: "https://bob.example/",
      });
      assert.deepEqual([set.status, set.result], [status, {}]);
      const removed = await ask("bob", "DeleteTaskPushNotificationConfig", { taskId, id: "c1" });
      assert.deepEqual([removed.status, removed.result], [status, {}]);
      const { result } = await ask("bob", "ListTaskPushNotificationConfigs", { taskId });
      assert.deepEqual(
        (result.configs as JsonObject[]).map(({ id, url }) => [id, url]),
        [["c1", PUSH_URL]],
      );
      assert.equal((await ask("ann", "DeleteTaskPushNotificationConfig", { taskId, id: "c1" })).result, null);
    });
  });
}
