/** The resources of a service for one user in process. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { JsonObject } from "../../lib/mod.ts";
import { testClock, testService } from "../suite/kit.ts";
import { createUser } from "../support/users.ts";
import { customWorld, owning } from "./auth/custom-auth.harness.ts";

describe("service.as", () => {
  it("calls the handler once for each call with the whole value, and excludes rows of others", async () => {
    const authorizations: [string, unknown][] = [];
    await using world = await customWorld({
      on: {
        store: ({ event, user, value }) => {
          authorizations.push([event, structuredClone(value)]);
          return event === "store:list_namespaces" ? true : { owner: user.identity };
        },
      },
    });
    const { service } = world.it;
    const [ann, bob] = [service.as({ user: createUser("ann") }), service.as({ user: createUser("bob") })];
    assert.equal(ann.store, ann.store);
    await ann.store.put(["notes"], "k", { owner: "ann" });
    assert.deepEqual(authorizations, [
      ["store:put", { namespace: ["notes"], key: "k", value: { owner: "ann" }, index: null }],
    ]);
    await assert.rejects(bob.store.get(["notes"], "k"), { code: "not_found" });
    await assert.rejects(bob.store.put(["notes"], "k", { owner: "bob" }), { code: "forbidden" });
    assert.deepEqual(await bob.store.search(["notes"]), []);
    await bob.store.delete(["notes"], "k");
    const { length } = authorizations;
    assert.deepEqual((await service.store.get(["notes"], "k"))?.value, { owner: "ann" });
    assert.equal(authorizations.length, length);
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

  it("refuses a user without an identity with the missing member", async () => {
    await using world = await customWorld({ on: { threads: () => true } });
    await using open = await testService({ agents: { idle: async () => ({}) } });
    const wrong = [
      { user: {} },
      { user: { identity: 7 } },
      { user: { identity: "" } },
      { user: null },
      { user: "ann" },
      {},
    ];
    for (const { service } of [world.it, open]) {
      for (const caller of [...wrong, undefined]) {
        const act = (): unknown => service.as(caller as never);
        assert.throws(act, { name: "TypeError", message: /^service\.as: user\.identity must be a string/ });
      }
      const noPermissions = { ...createUser("ann"), permissions: "runs:read" };
      assert.throws(() => service.as({ user: noPermissions } as never), /user\.permissions must be a list of strings/);
    }
  });

  it("returns the service's resources without custom authorization", async () => {
    await using kit = await testService({ agents: { idle: async () => ({}) } });
    assert.equal(kit.service.as({ user: createUser("ann") }).store, kit.service.store);
  });

  it("authorizes again while a stream is open or a result is awaited, and throws the refusal", async () => {
    const clock = testClock();
    let refused = false;
    const ended = Promise.withResolvers<JsonObject>();
    const custom = { authenticate: () => "nobody", on: { threads: () => !refused } };
    const agents = { slow: () => ended.promise };
    await using kit = await testService({ agents, environment: clock, auth: { custom } });
    const { threads, runs } = kit.service.as({ user: createUser("ann") });
    const { thread_id } = await threads.create();
    const { run_id } = await runs.create(thread_id, { assistant_id: "slow" });
    const events = threads.events(thread_id, { channels: ["values"] })[Symbol.asyncIterator]();
    const { result } = await runs.join(thread_id, run_id);
    const { frames } = await runs.joinStream(thread_id, run_id);
    while ((await Promise.race([frames.next(), clock.advance(10).then(() => null)])) !== null);
    const open = [frames.next(), events.next(), result];
    refused = true;
    const lost = Promise.all(open.map((pending) => assert.rejects(Promise.resolve(pending), { code: "forbidden" })));
    for (let passed = 0; passed < 3_000; passed += 100) await clock.advance(100);
    await lost;
    ended.resolve({});
  });

  it("never returns the run of another user's idempotency key", async () => {
    await using world = await customWorld({ on: { threads: owning } });
    const { service } = world.it;
    const idempotency = { route: "/runs", key: "k", body_hash: "same" };
    const run = { assistant_id: "agent", input: { secret: "ann's" }, on_completion: "keep" };
    const runAs = async (name: string, route = "/runs"): Promise<string> => {
      const { runs } = service.as({ user: createUser(name) });
      return (await runs.create(null, run, { idempotency: { ...idempotency, route } })).run_id;
    };
    const anns = await runAs("ann");
    assert.equal(await runAs("ann"), anns);
    assert.notEqual(await runAs("bob"), anns);
    assert.notEqual(await runAs("bob", '/runs "ann"'), anns);
  });

  it("has only the calls of its type, and accepts no scope from its caller", async () => {
    await using world = await customWorld({ on: { threads: owning } });
    const { service } = world.it;
    const bob = service.as({ user: createUser("bob") });
    const names = [
      "agent",
      "assistants",
      "calls",
      "crons",
      "feedback",
      "runs",
      "store",
      "threads",
      "traces",
      "webhooks",
    ];
    assert.deepEqual(Object.keys(bob).sort(), names);
    assert.equal("permit" in bob.runs, false);
    const origin = { assistants: { deployment: "other" }, user: createUser("ann"), user_id: "ann" };
    const { thread_id } = await bob.threads.create();
    await bob.runs.create(thread_id, { assistant_id: "agent" }, origin);
    await bob.crons.create(thread_id, { assistant_id: "agent", schedule: "@daily" }, origin);
    assert.ok(world.takeContexts().every(({ user }) => user.identity === "bob"));
  });

  it("keeps its user when the handler or the host changes the object", async () => {
    await using world = await customWorld({
      on: {
        threads(context) {
          const owned = owning(context);
          (context.user as { identity: string }).identity = "root";
          return owned;
        },
      },
    });
    const user = createUser("ann");
    const ann = world.it.service.as({ user });
    (user as { identity: string }).identity = "bob";
    await ann.threads.create();
    assert.deepEqual((await ann.threads.create()).metadata, { owner: "ann" });
  });
});
