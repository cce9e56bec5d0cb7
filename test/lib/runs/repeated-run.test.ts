/** Repeated requests whose values no longer fit the schemas of their agent. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { z } from "zod";
import { agent, type Schema } from "../../../lib/mod.ts";
import type { RunOrigin } from "../../../lib/runs/mod.ts";
import { type TestService, testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";

const keyed = (key: string, body_hash = "one"): RunOrigin => ({ idempotency: { route: "/runs", key, body_hash } });

/** Starts a service with one agent, and returns a function that changes the schemas of its input and its context, as a deploy does. */
async function openChangingService(): Promise<{ readonly kit: TestService; deploy(): void }> {
  let isDeployed = false;
  const changing = (before: Schema, after: Schema): Schema => ({
    "~standard": {
      version: 1,
      vendor: "test",
      validate: (value) => (isDeployed ? after : before)["~standard"].validate(value),
    },
  });
  const input = changing(z.object({ order: z.string() }), z.object({ order: z.number() }));
  const context = changing(z.object({}), z.object({ tier: z.string() }));
  const kit = await testService({ agents: { refund: agent({ input, context }, () => ({ done: true })) } });
  const deploy = (): void => {
    isDeployed = true;
  };
  return { kit, deploy };
}

const request = { assistant_id: "refund", input: { order: "A" } };

describe("a repeated request whose values no longer fit the schemas of its agent", () => {
  keepAlive();

  for (const place of ["on a thread", "without a thread"]) {
    it(`gets the first run, ${place}`, async () => {
      const { kit, deploy } = await openChangingService();
      await using _kit = kit;
      const { runs, threads } = kit.service;
      const thread_id = place === "on a thread" ? (await threads.create()).thread_id : null;
      const first = await runs.wait(thread_id, { ...request, on_completion: "keep" }, keyed("k"));
      assert.deepEqual(await first.result, { done: true });
      deploy();
      const again = await runs.wait(thread_id, { ...request, on_completion: "keep" }, keyed("k"));
      assert.equal(again.run.run_id, first.run.run_id);
      assert.deepEqual(await again.result, { done: true });
      assert.equal((await runs.create(thread_id, request, keyed("k"))).run_id, first.run.run_id);
      assert.equal((await runs.search()).items.length, 1);
    });
  }

  it("is refused for another body, another key and no key, and creates nothing", async () => {
    const { kit, deploy } = await openChangingService();
    await using _kit = kit;
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    await (await runs.wait(thread_id, request, keyed("k"))).result;
    deploy();
    await assert.rejects(runs.create(thread_id, request, keyed("k", "two")), { reason: "idempotency_key_reused" });
    for (const origin of [keyed("l"), undefined]) {
      await assert.rejects(runs.create(thread_id, request, origin), /input\.order.*context\.tier/);
    }
    assert.equal((await runs.list(thread_id)).length, 1);
  });

  it("is refused as gone if the first run was deleted", async () => {
    const { kit, deploy } = await openChangingService();
    await using _kit = kit;
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const { run, result } = await runs.wait(thread_id, request, keyed("k"));
    await result;
    await runs.delete(thread_id, run.run_id);
    deploy();
    await assert.rejects(runs.create(thread_id, request, keyed("k")), { reason: "idempotent_run_gone" });
  });

  it("gets the first runs of a batch", async () => {
    const { kit, deploy } = await openChangingService();
    await using _kit = kit;
    const { runs } = kit.service;
    const keptRequest = { ...request, on_completion: "keep" } as const;
    const first = await runs.createBatch([keptRequest, keptRequest], keyed("k"));
    deploy();
    const again = await runs.createBatch([keptRequest, keptRequest], keyed("k"));
    const listIds = (batch: typeof first): string[] => batch.map(({ run_id }) => run_id);
    assert.deepEqual(listIds(again), listIds(first));
    await assert.rejects(runs.createBatch([keptRequest, keptRequest], keyed("k", "two")), {
      reason: "idempotency_key_reused",
    });
    await assert.rejects(runs.createBatch([keptRequest, keptRequest, keptRequest], keyed("k")), { code: "conflict" });
    await assert.rejects(runs.createBatch([keptRequest, keptRequest], keyed("l")), /input\.order/);
    assert.equal((await runs.search()).items.length, 2);
  });
});
