/** The nouns of a service as one user may use them, in process. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { testService } from "../suite/kit.ts";
import { userNamed } from "../support/users.ts";
import { customWorld } from "./custom-world.ts";

describe("service.as", () => {
  it("asks the handler once for each call, with the whole value, and keeps others' items out", async () => {
    const asked: [string, unknown][] = [];
    await using world = await customWorld({
      on: {
        store: ({ event, user, value }) => {
          asked.push([event, structuredClone(value)]);
          return event === "store:list_namespaces" ? true : { owner: user.identity };
        },
      },
    });
    const { service } = world.it;
    const [ann, bob] = [service.as({ user: userNamed("ann") }), service.as({ user: userNamed("bob") })];
    assert.equal(ann.store, ann.store);
    await ann.store.put(["notes"], "k", { owner: "ann" });
    assert.deepEqual(asked, [["store:put", { namespace: ["notes"], key: "k", value: { owner: "ann" }, index: null }]]);
    await assert.rejects(bob.store.get(["notes"], "k"), { code: "not_found" });
    await assert.rejects(bob.store.put(["notes"], "k", { owner: "bob" }), { code: "forbidden" });
    assert.deepEqual(await bob.store.search(["notes"]), []);
    await bob.store.delete(["notes"], "k");
    const { length } = asked;
    assert.deepEqual((await service.store.get(["notes"], "k"))?.value, { owner: "ann" });
    assert.equal(asked.length, length);
    const both = [
      { namespace: ["notes"], key: "k", value: null },
      { namespace: ["notes"], key: "l", value: { owner: "ann" } },
    ];
    await assert.rejects(bob.store.putMany(both), { code: "forbidden" });
    await ann.store.putMany(both);
    assert.deepEqual(
      (await ann.store.search([])).map(({ key }) => key),
      ["l"],
    );
  });

  it("is the service's nouns without custom authorization", async () => {
    await using kit = await testService({ agents: { idle: async () => ({}) } });
    assert.equal(kit.service.as({ user: userNamed("ann") }).store, kit.service.store);
  });
});
