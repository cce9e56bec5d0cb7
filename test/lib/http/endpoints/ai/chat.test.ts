/** Threads of chats have ids that pages choose, for several users. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { JsonObject } from "../../../../../lib/json.ts";
import { testAccounts, testService } from "../../../../suite/mod.ts";
import { createUser } from "../../../../support/users.ts";
import { customWorld, owning } from "../../../auth/custom-auth.harness.ts";

const CHAT = "01A222DC-A4D1-7404-8B15-D6B91195001F";
const UUID_V5 = /^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const URL_BASE = "http://greenroom";
const AGENTS = { echo: ({ messages }: { messages: readonly JsonObject[] }): string => `${messages.length}` };

/** Requests of the two protocols whose clients choose chat ids. */
const SENDERS: Readonly<Record<string, (id: string, text: string) => readonly [path: string, body: JsonObject]>> = {
  "AI SDK": (id, text) => [
    "/ai/echo/chat",
    { id, trigger: "submit-message", messages: [{ id: text, role: "user", parts: [{ type: "text", text }] }] },
  ],
  "AG-UI": (threadId, text) => [
    "/ag-ui/echo",
    {
      ...{ threadId, runId: text, state: {}, tools: [], context: [], forwardedProps: {} },
      messages: [{ id: text, role: "user", content: text }],
    },
  ],
};

for (const [protocol, requestOf] of Object.entries(SENDERS)) {
  describe(`a chat of ${protocol}`, () => {
    it("with an id that is no UUID belongs to one user of custom authentication", async () => {
      await using world = await customWorld({ agents: AGENTS, on: { "*": () => true, threads: owning } });
      const send = async (user: string, id: string, text: string): Promise<number> => {
        const [path, body] = requestOf(id, text);
        return (await world.ask(user, "POST", path, body)).status;
      };
      assert.deepEqual([await send("ann", "main", "a1"), await send("bob", "main", "b1")], [200, 200]);
      assert.equal(await send("ann", "main", "a2"), 200);
      const { service } = world.it;
      const [anns, bobs] = [service.as({ user: createUser("ann") }), service.as({ user: createUser("bob") })];
      const ids = [await anns.threads.idOf("main"), await bobs.threads.idOf("main")];
      for (const id of ids) assert.match(id, UUID_V5);
      assert.notEqual(ids[0], ids[1]);
      const threads = await Promise.all([anns.threads.search({}), bobs.threads.search({})]);
      assert.deepEqual(
        threads.map(({ items }) => items.map(({ thread_id }) => thread_id)),
        [[ids[0]], [ids[1]]],
      );
      assert.equal((await anns.runs.list(ids[0] as string)).length, 2);
      await assert.rejects(bobs.threads.get(ids[0] as string), { code: "not_found" });
    });

    it("with a UUID is the thread of that id, and answers 404 to other users", async () => {
      await using world = await customWorld({ agents: AGENTS, on: { "*": () => true, threads: owning } });
      const send = async (user: string): Promise<number> => {
        const [path, body] = requestOf(CHAT, "Hi");
        return (await world.ask(user, "POST", path, body)).status;
      };
      assert.deepEqual([await send("ann"), await send("bob")], [200, 404]);
      const [thread] = (await world.it.service.threads.search({})).items;
      assert.equal(thread?.thread_id, CHAT.toLowerCase());
      assert.equal((await world.it.service.runs.list(CHAT)).length, 1);
    });

    it("belongs to the user of an API key and not to the key", async () => {
      const users = [
        { id: "11111111-1111-4111-8111-111111111111", email: "ann@example.com" },
        { id: "22222222-2222-4222-8222-222222222222", email: "bob@example.com" },
      ];
      const [ann = "", bob = ""] = users.map(({ id }) => id);
      const { identity, keys } = testAccounts({
        users,
        keys: { phone: { user: ann }, laptop: { user: ann }, bobs: { user: bob }, service: {}, other_service: {} },
      });
      await using kit = await testService({ agents: AGENTS, identity, auth: { mode: "api_key" } });
      const send = async (key: string): Promise<string> => {
        const [path, body] = requestOf("main", key);
        const headers = { "x-api-key": keys[key] ?? "" };
        const response = await kit.fetch(`${URL_BASE}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
        assert.equal(response.status, 200, await response.text());
        const threads = (await kit.service.threads.search({ limit: 10 })).items;
        const runs = await Promise.all(threads.map(({ thread_id = "" }) => kit.service.runs.list(thread_id)));
        const newest = runs.flat().sort((a, b) => (a.run_id < b.run_id ? 1 : -1))[0];
        return newest?.thread_id ?? "";
      };
      const [phone, laptop, bobs, service, otherChat] = [
        ...[await send("phone"), await send("laptop"), await send("bobs")],
        ...[await send("service"), await send("other_service")],
      ];
      assert.equal(phone, laptop, "two keys of one user");
      assert.equal(service, otherChat, "two keys of no user");
      assert.equal(new Set([phone, bobs, service]).size, 3);
      for (const id of [phone, bobs, service]) assert.match(id ?? "", UUID_V5);
    });
  });
}

describe("the id of a chat's thread", () => {
  it("is the same in every process, and differs between texts and UUIDs", async () => {
    await using first = await testService({ agents: AGENTS });
    await using second = await testService({ agents: AGENTS });
    const { idOf } = first.service.threads;
    assert.equal(await idOf("main"), await second.service.threads.idOf("main"));
    assert.notEqual(await idOf("main"), await idOf("Main"));
    assert.equal(await idOf(CHAT), CHAT.toLowerCase());
  });
});
